//! Refs and contents of a run that leave its host.

use super::hosts::Field;
use super::*;
use crate::publish::hub_and_clone;

const STEPS: &str = "  - id: implement
    opcode: RUN_AGENT
    agent: scripted
    prompt: PROMPT.md
    routes: {completed: test, error: STOP}
  - id: test
    opcode: RUN_VALIDATION
    run: [tests]
    routes: {completed: ask, error: ask}
  - id: ask
    opcode: GATE
    gate: result
    question: the-question
    routes: {gate_approved: STOP, gate_rejected: STOP}
";

/// The flow, with an input.
fn text() -> String {
    flow("implement", STEPS).replace("steps:", "inputs:\n  what: {required: true}\nsteps:")
}

/// A text in each file of the run, and the word for it.
const TRANSCRIPT: &str = "the-transcript";
const ANSWER: &str = "the-answer";
const LOG: &str = "the-log";
const WORK: &str = "the-work";
const INPUT: &str = "the-input";
const QUESTION: &str = "the-question";

/// Lets an agent leave a text in each file, and carries the run on to its gate.
fn carried(repo: &Repo) -> Started {
    super::workshop::speaker(
        repo,
        "scripted",
        &format!(
            "echo {WORK} >work; echo '{{\"type\":\"message.assistant.delta\",\"content\":\"{TRANSCRIPT}\"}}'; say {ANSWER}"
        ),
    );
    repo.git(["config", "aynig.validator.tests", &format!("echo {LOG}; echo last; exit 1")]);
    let run = start_with(repo, &text(), &["--input", &format!("what={INPUT}")]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(json(&repo.aynig_ok(["flow", "show", &run.slug, "--json"]))["place"], "gate");
    run
}

/// The prompt's file is in the base, which leaves the host anyway. Its text there is a variable's.
fn furnish(repo: &Repo) {
    repo.write("PROMPT.md", "the-prompt-of {{inputs.what}}\n");
    repo.commit_all("a prompt");
}

/// The texts that all objects of a repository have.
pub(crate) fn texts<'a>(hub: &std::path::Path, all: &[&'a str]) -> Vec<&'a str> {
    let git = |arguments: &[&str]| {
        let mut command = std::process::Command::new("git");
        let output = hermetic(&mut command).arg("-C").arg(hub).args(arguments).output().expect("git runs");
        assert!(output.status.success(), "{arguments:?}: {}", err(&output));
        output.stdout
    };
    let objects = git(&["cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)"]);
    let mut found = std::collections::BTreeSet::new();
    for line in String::from_utf8_lossy(&objects).lines() {
        let (id, kind) = line.split_once(' ').expect("two words");
        if kind != "tree" {
            let content = String::from_utf8_lossy(&git(&["cat-file", kind, id])).into_owned();
            found.extend(all.iter().copied().filter(|text| content.contains(text)));
        }
    }
    all.iter().copied().filter(|text| found.contains(text)).collect()
}

/// The refs of a repository besides `main`, with the run's own names as words.
fn refs(hub: &std::path::Path, run: &Started) -> Vec<String> {
    let mut command = std::process::Command::new("git");
    let output =
        hermetic(&mut command).arg("-C").arg(hub).args(["for-each-ref", "--format=%(refname)"]).output();
    let listed = out(&output.expect("git runs"));
    let names = listed.lines().filter(|name| *name != "refs/heads/main");
    names.map(|name| name.replace(&run.id, "ID").replace(&run.slug, "SLUG")).collect()
}

/// CONTRACT 16.6, 20.12, 20.39
#[test]
fn a_run_that_a_remote_decides_leaves_its_host_without_prompts_transcripts_and_logs() {
    let rendered = "the-prompt-of the-input";
    let all = [rendered, TRANSCRIPT, ANSWER, LOG, WORK, INPUT, QUESTION];
    for (setting, stays) in [(None, &[rendered, TRANSCRIPT, LOG][..]), (Some("all"), &[TRANSCRIPT][..])] {
        let field = Field::furnished("true", furnish);
        let [first, second] = &field.hosts;
        for host in
            setting.into_iter().flat_map(|setting| field.hosts.iter().map(move |host| (host, setting)))
        {
            host.0.git(["config", "aynig.replicate", host.1]);
        }
        let run = carried(first);
        let hub = field.hub.beside("hub.git");
        assert_eq!(
            refs(&hub, &run),
            ["refs/aynig/runs/ID", "refs/aynig/work/ID/flow", "refs/heads/run/SLUG/flow"]
        );
        let leaves: Vec<&str> = all.into_iter().filter(|text| !stays.contains(text)).collect();
        assert_eq!(texts(&hub, &all), leaves, "{setting:?}");
        assert_eq!(
            texts(&first.path, &[rendered, LOG]),
            if setting.is_some() { vec![rendered, LOG] } else { vec![] }
        );
        // All of it is in the run directory.
        let found = out(&std::process::Command::new("grep")
            .args(["-rlE", &format!("{rendered}|{TRANSCRIPT}|{LOG}"), "artifacts"])
            .current_dir(&run.directory)
            .output()
            .expect("grep runs"));
        for file in ["prompt.md", "transcript"] {
            assert!(found.contains(file), "{file}: {found}");
        }
        // The other host has the rest.
        let shown = json(&second.aynig_ok(["flow", "show", &run.slug, "--json"]));
        let files = shown["steps"][0]["artifacts"].as_array().expect("a list").clone();
        let available =
            |role: &str| files.iter().find(|one| one["role"] == role).map(|one| one["available"].clone());
        assert_eq!(available("prompt"), Some(setting.is_some().into()), "{files:?}");
        assert_eq!(available("runner_final_response"), Some(true.into()));
        assert_eq!(available("workspace_diff"), Some(true.into()));
    }
}

/// CONTRACT 20.39
#[test]
fn starting_a_run_says_what_leaves_the_host() {
    let (hub, repo) = hub_and_clone();
    place_worktrees(&repo);
    furnish(&repo);
    repo.write("flow.yaml", &text());
    let begin = |more: &[&str]| {
        let arguments = [&["flow", "start", "flow.yaml", "--input", "what=x"], more].concat();
        repo.aynig_ok(arguments)
    };
    let here = begin(&["--json"]);
    assert_eq!((&json(&here)["decidedBy"], &json(&here)["replicate"]), (&Value::Null, &"all".into()));
    assert_eq!(hub.git(["for-each-ref", "refs/aynig", "refs/heads/run", "refs/heads/work"]), "");
    assert!(!told(&begin(&[])).contains("gets the run"));
    repo.git(["config", "aynig.remote", "origin"]);
    let words = told(&begin(&[]));
    assert!(
        words.contains("origin gets the run") && words.contains("not prompts, transcripts and logs"),
        "{words}"
    );
    repo.git(["config", "aynig.replicate", "all"]);
    let words = told(&begin(&[]));
    assert!(
        words.contains("origin gets the run") && words.contains("; prompts, and the output of failed steps"),
        "{words}"
    );
    let there = json(&begin(&["--json"]));
    assert_eq!((&there["decidedBy"], &there["replicate"]), (&"origin".into(), &"all".into()));
    repo.git(["config", "aynig.replicate", "none"]);
    let refused = repo.aynig(["flow", "start", "flow.yaml", "--input", "what=x"]);
    assert_refused(&refused, 3, &["aynig.replicate = none"]);
}
