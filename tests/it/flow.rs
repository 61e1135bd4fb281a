//! `aynig flow`: flow files are checked and drawn, with the exit codes of a linter.

use serde_json::Value;

use super::support::*;

fn example(name: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/flows").join(name);
    std::fs::read_to_string(path).expect("an example")
}

/// A repository with the examples, not committed.
fn with_examples() -> Repo {
    let repo = Repo::new();
    for name in ["fix.yaml", "loader.yaml", "contract.yaml", "older.yaml", "small.json"] {
        repo.write(name, &example(name));
    }
    repo
}

/// CONTRACT 18.2
#[test]
fn all_faults_are_told_at_once_with_their_positions() {
    let repo = with_examples();
    for (name, steps) in [("fix.yaml", "7 steps"), ("small.json", "1 step")] {
        let fine = repo.aynig_ok(["flow", "check", name]);
        assert_eq!(out(&fine), "", "{name}");
        assert!(err(&fine).contains(&format!("{name}: {steps}, 0 warnings")), "{}", err(&fine));
    }
    let warned = repo.aynig_ok(["flow", "check", "loader.yaml"]);
    assert_eq!(out(&warned).lines().count(), 3, "{}", out(&warned));
    assert!(
        out(&warned).starts_with("loader.yaml:7:3: warning: `artifacts_dir` of `defaults`"),
        "{}",
        out(&warned)
    );
    repo.write(
        "bad.yaml",
        &example("fix.yaml")
            .replace("opcode: ROLLBACK", "opcod: ROLLBACK")
            .replace("version: 1", "version: \u{1f600}"),
    );
    let bad = repo.aynig(["flow", "check", "bad.yaml"]);
    assert_eq!(bad.status.code(), Some(1));
    let told = out(&bad);
    let lines: Vec<&str> = told.lines().collect();
    assert!(
        lines[0].starts_with("bad.yaml:3:10: fault: `version` is text, and not a whole number"),
        "{lines:?}"
    );
    assert!(lines[1].contains(": fault: this step has no `opcode`; add `opcode:`"), "{lines:?}");
    assert!(err(&bad).contains("bad.yaml: 2 faults, 0 warnings"), "{}", err(&bad));
    assert_eq!(err(&repo.aynig(["flow", "check", "-q", "bad.yaml"])), "");
    repo.write("pair.yaml", "nodes:\n  - { alias: a, role: implementer, provider: custom }\n");
    let graph = err(&repo.aynig(["flow", "check", "pair.yaml"]));
    assert!(graph.contains("it is a graph: `aynig orch check pair.yaml`"), "{graph}");
    repo.write("odd.yaml", "a: \u{202e}b\nx\u{202e}: 1\n");
    assert!(!out(&repo.aynig(["flow", "check", "odd.yaml"])).contains('\u{202e}'));
}

#[test]
fn a_file_is_read_anywhere_and_from_standard_input() {
    let place = tempfile::tempdir().expect("a directory");
    std::fs::write(place.path().join("fix.yaml"), example("fix.yaml")).expect("a file");
    let repo = Repo::new();
    let run = |arguments: &[&str], input: &str| {
        let from = place.path().join("input");
        std::fs::write(&from, input).expect("a file");
        let mut command = repo.aynig_command();
        command.current_dir(place.path()).args(arguments).stdin(std::fs::File::open(from).expect("a file"));
        command.output().expect("it runs")
    };
    assert!(run(&["flow", "check", "fix.yaml"], "").status.success(), "no repository is needed");
    assert!(run(&["flow", "check", "-"], &example("fix.yaml")).status.success());
    let bad = run(&["flow", "check", "-"], "a: [");
    assert!(
        bad.status.code() == Some(1) && out(&bad).starts_with("<stdin>:1:4: fault: this is no YAML: "),
        "{}",
        out(&bad)
    );
    for (name, words) in
        [("none.yaml", "could not read none.yaml: No such file"), (".", "could not read .: ")]
    {
        assert_refused(
            &run(&["flow", "check", name], ""),
            2,
            &[words, "hint: name a file that is there, or `-`"],
        );
    }
    assert_refused(&run(&["flow", "check", "fix.yaml", "--base", "main"], ""), 3, &["repository"]);
}

/// CONTRACT 18.9
#[test]
fn with_a_base_its_prompts_and_scripts_are_checked() {
    let repo = with_examples();
    let check = || repo.aynig(["flow", "check", "contract.yaml", "--base", "main"]);
    let bad = check();
    let told = out(&bad);
    assert_eq!(bad.status.code(), Some(1), "{told}");
    assert!(told.contains("fault: main has no scripts/check.sh; commit it, or correct the path"), "{told}");
    assert_eq!(told.matches("warning: main has no .aynig/prompts/").count(), 3, "{told}");
    let places: Vec<u32> =
        told.lines().map(|line| line.split(':').nth(1).expect("a line").parse().expect("a number")).collect();
    assert!(places.is_sorted(), "{told}");
    repo.write("scripts/check.sh", "#!/bin/sh\n");
    repo.write(".aynig/prompts/task.fix.v1.md", "{{inputs.none}}\n");
    repo.commit_all("not executable");
    let told = out(&check());
    assert!(told.contains("fault: scripts/check.sh is not executable in main; make it executable"), "{told}");
    assert!(told.contains("fault: there is no input none"), "{told}");
    repo.command("scripts/check.sh", "exit 0");
    repo.commit_all("executable");
    repo.write(".aynig/prompts/task.fix.v1.md", "fix it\n");
    assert!(
        !out(&check()).contains("check.sh") && out(&check()).contains("no input none"),
        "only what is committed counts"
    );
    repo.commit_all("a prompt");
    assert!(check().status.success());
    assert_refused(
        &repo.aynig(["flow", "check", "contract.yaml", "--base", "nowhere"]),
        2,
        &["--base: nowhere", "for-each-ref"],
    );
}

/// CONTRACT 18.10
#[test]
fn a_flow_is_drawn_in_four_formats() {
    let repo = with_examples();
    let draw = |format: &str| out(&repo.aynig_ok(["flow", "graph", "fix.yaml", "--format", format]));
    assert_eq!(draw("text"), out(&repo.aynig_ok(["flow", "graph", "fix.yaml"])));
    assert!(draw("text").contains("\n> implement  RUN_AGENT  claude\n"));
    assert!(draw("mermaid").starts_with("flowchart TD\n") && draw("dot").starts_with("digraph \"fix\" {\n"));
    let graph: Value = serde_json::from_str(&draw("json")).expect("JSON");
    assert_eq!(
        (&graph["entryStep"], &graph["steps"][5]["routes"][0]["target"]),
        (&"implement".into(), &"STOP".into())
    );
    repo.write("lost.yaml", &example("fix.yaml").replace("partial: repair", "partial: approve"));
    let lost = repo.aynig(["flow", "graph", "lost.yaml"]);
    assert!(
        lost.status.code() == Some(1) && out(&lost).contains("repair  RUN_AGENT"),
        "a flow with a fault is drawn"
    );
    assert!(err(&lost).contains("fault: no route leads to repair"), "{}", err(&lost));
    let older = repo.aynig(["flow", "graph", "older.yaml"]);
    assert!(
        older.status.code() == Some(1) && out(&older).is_empty(),
        "where steps cannot be read, nothing is drawn"
    );
}

/// CONTRACT 18.11
#[test]
fn the_schema_is_printed() {
    let schema: Value = serde_json::from_str(&out(&Repo::new().aynig_ok(["flow", "schema"]))).expect("JSON");
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
}
