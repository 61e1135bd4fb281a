//! RUN_VALIDATION in a run: builtins of the host, scripts of the base, and how they end.

use super::agent::with_agent;
use super::workshop::*;
use super::*;

const STEPS: &str = concat!(
    agent_step!("implement", "go", "test"),
    "  - id: test
    opcode: RUN_VALIDATION
    run: RUN
    routes: {completed: STOP, error: STOP, killed_timeout: ask, killed_idle: STOP, killed_policy: STOP}
",
    gate_step!("STOP"),
);

fn validated_by(run: &str) -> String {
    flow("implement", &STEPS.replace("RUN\n", &format!("{run}\n")))
}

/// CONTRACT 20.10, 20.16
#[test]
fn a_builtin_is_a_command_line_of_the_host() {
    let repo = with_agent("cat >/dev/null; echo x >x");
    let text = validated_by("[{kind: builtin, name: Unit_Tests}, lint]");
    for (setting, lack) in [
        (None, "aynig.validator.unit-tests COMMAND"),
        (Some("no-such-tester -q"), "no-such-tester is not in PATH"),
    ] {
        if let Some(line) = setting {
            repo.git(["config", "aynig.validator.unit-tests", line]);
        }
        let run = start(&repo, &text);
        repo.aynig_ok(["run", "--drain"]);
        let left = "a host without them leaves the step to others";
        assert_eq!(steps(&repo, &run), ["implement completed test"], "{left}");
        assert!(said(&repo, &run).contains(lack), "{}", said(&repo, &run));
    }
    repo.git(["config", "aynig.validator.Unit-Tests", "echo units; test -e x"]);
    repo.git(["config", "aynig.validator.lint", "echo linted >&2; exit 4"]);
    let run = start(&repo, &text);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["implement completed test", "test error STOP"]);
    let end = &ended(&repo, &run)[1];
    assert_eq!(
        end["evidence"],
        "1 of 2 validators failed: lint exited with 4; its last line on stderr: linted"
    );
    assert_eq!(end["record"]["exitCodes"], serde_json::json!({"Unit_Tests": 0, "lint": 4}));
    assert_eq!(kept(&run, "test", "validation_stdout-01-Unit_Tests.txt"), "units\n");
    assert_eq!(kept(&run, "test", "validation_stderr-02-lint.txt"), "linted\n");
    let roles = roles(&run, "test");
    for role in
        ["validation_report", "validation_stdout", "validation_stderr", "policy_summary", "workspace_diff"]
    {
        assert!(roles.iter().any(|one| one == role), "{role}: {roles:?}");
    }
}

/// CONTRACT 20.17, 20.21
#[test]
fn a_script_is_that_of_the_base_and_its_time_is_limited() {
    let repo = with_agent(
        "cat >/dev/null; echo x >x; printf '#!/bin/sh\\necho rewritten' >check.sh; chmod +x check.sh",
    );
    repo.command("check.sh", "echo the base; test -e x && sh ./check.sh; [ ! -e slow ] || sleep 600");
    repo.command("slow.sh", "echo begun; sleep 600");
    repo.commit_all("checks");
    let run = start(&repo, &validated_by("[{kind: script, id: unit, entrypoint: check.sh}]"));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["implement completed test", "test completed STOP"]);
    // What a script runs from the worktree is the agent's.
    assert_eq!(kept(&run, "test", "validation_stdout-01-unit.txt"), "the base\nrewritten\n");
    let run = start(&repo, &validated_by("[{kind: script, id: slow, entrypoint: slow.sh, timeout: 1}]"));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run)[1..], ["test killed_timeout ask", "ask"]);
    assert_eq!(kept(&run, "test", "validation_stdout-01-slow.txt"), "begun\n");
    let report = kept_json(&run, "test", "validation_report.json");
    assert_eq!(report["validators"][0]["outcome"], "killed_timeout", "{report}");
}

/// CONTRACT 15.23
#[test]
fn what_a_filter_leaves_out_is_as_before_after_a_validator_was_taken_back() {
    let repo = with_agent("cat >/dev/null; printf 'cell\\nout: agent\\n' >a.nb");
    repo.git(["config", "filter.strip.clean", "sed /^out/d"]);
    repo.write(".gitattributes", "*.nb filter=strip\n");
    repo.command("check.sh", "printf 'cell\\nmore\\nout: validator\\n' >a.nb");
    repo.commit_all("notebooks");
    let run = start(&repo, &validated_by("[{kind: script, id: unit, entrypoint: check.sh}]"));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["implement completed test", "test completed STOP"]);
    assert_eq!(std::fs::read_to_string(run.worktree.join("a.nb")).expect("there"), "cell\nout: agent\n");
    assert_eq!(repo.git(["show", &format!("{}:a.nb", run.work)]), "cell");
}

/// CONTRACT 15.23
#[test]
fn a_step_ends_as_its_validators_say_though_its_worktree_was_made_anew() {
    for left in [
        "git checkout -q --detach",
        "git bisect start >&2",
        "git init -q inner; : >inner/new",
        // Git does not show files in the directory of a submodule that is not there.
        "mkdir -p m; echo stray >m/stray",
    ] {
        let repo = with_agent("cat >/dev/null; echo x >x");
        repo.command("check.sh", left);
        let head = repo.head("main");
        repo.git(["update-index", "--add", "--cacheinfo", &format!("160000,{head},m")]);
        repo.write(".gitmodules", "[submodule \"m\"]\n\tpath = m\n\turl = ../nowhere\n");
        repo.commit_all("checks");
        let run = start(&repo, &validated_by("[{kind: script, id: unit, entrypoint: check.sh}]"));
        repo.aynig_ok(["run", "--drain"]);
        assert_eq!(steps(&repo, &run), ["implement completed test", "test completed STOP"], "{left}");
        assert!(!run.worktree.join("m/stray").exists() && !run.worktree.join("inner").exists(), "{left}");
    }
}

/// CONTRACT 20.19
#[test]
fn the_report_of_a_harness_must_be_there_and_new() {
    let report = r#"echo '{"cases":[{"id":"a","status":"passed"}]}' >"$2""#;
    for (harness, outcome, words) in [
        (report, "completed", "1 validator passed"),
        ("true", "error", "its report harness_report.json is older than the step"),
        ("rm \"$2\"", "error", "its report harness_report.json is missing"),
        ("echo no >\"$2\"", "error", "cannot be used: it is no JSON"),
    ] {
        let repo = with_agent(&format!(
            "cat >/dev/null; echo '{{\"cases\":[]}}' >harness_report.json; cat >h <<'END'\n#!/bin/sh\n{harness}; echo junk >junk\nEND\nchmod +x h"
        ));
        let run = start(&repo, &validated_by("[{kind: harness, name: h}]"));
        repo.aynig_ok(["run", "--drain"]);
        assert_eq!(steps(&repo, &run)[1], format!("test {outcome} STOP"), "{harness}");
        let evidence = ended(&repo, &run)[1]["evidence"].as_str().expect("words").to_owned();
        assert!(evidence.contains(words), "{harness}: {evidence}");
        let validated = &kept_json(&run, "test", "validation_report.json")["validators"][0];
        assert_eq!(validated["agent_written"], true, "{validated}");
        // What it wrote is taken back, and the report is in no snapshot.
        assert_eq!(repo.git(["diff", "--name-only", "main", &run.work]), "h", "{harness}");
        assert!(kept(&run, "test", "harness_fixture-taken-back.patch").contains("b/junk"), "{harness}");
    }
}
