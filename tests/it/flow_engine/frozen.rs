//! The inputs of a run: the flow and the prompts as they were at its start, changes of people in its worktree, and the
//! least of all time limits.

use std::os::unix::fs::PermissionsExt;

use super::agent::with_agent;
use super::trust::drivers;
use super::*;

const PROMPTED: &str = "  - id: implement
    opcode: RUN_AGENT
    agent: scripted
    prompt: prompts/go.md
    routes: {completed: check, error: STOP}
  - id: check
    opcode: RUN_VALIDATION
    run:
      - {kind: script, id: unit, entrypoint: scripts/check.sh}
    routes: {completed: STOP, error: STOP}
";

/// A script that runs another one beside it.
fn scripts(repo: &Repo, marker: &str) {
    repo.write("scripts/check.sh", "#!/bin/sh\n. \"$(dirname \"$0\")/part.sh\"\n");
    repo.write(
        "scripts/part.sh",
        &format!("echo {marker} >>\"$(git rev-parse --git-common-dir)/checked\"\n"),
    );
    repo.write("prompts/go.md", &format!("the {marker} prompt\n"));
    let program = repo.path.join("scripts/check.sh");
    std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).expect("a mode");
}

/// CONTRACT 20.1
#[test]
fn a_run_goes_on_as_it_was_started_whatever_becomes_of_its_file_and_its_branch() {
    let repo = with_agent("cat >asked; echo done");
    scripts(&repo, "first");
    repo.commit_all("the first");
    let run = start(&repo, &flow("implement", PROMPTED));
    let base = repo.head("main");
    std::fs::remove_file(repo.path.join(".git/flow.yaml")).expect("the file");
    scripts(&repo, "second");
    repo.commit_all("the second");
    repo.git(["switch", "-q", "--orphan", "other"]);
    repo.git(["branch", "-D", "-q", "main"]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(end(&repo, &run), ["completed", "succeeded", "completed"]);
    assert_eq!(repo.show(&format!("{}:asked", run.work)), "the first prompt");
    assert_eq!(std::fs::read_to_string(repo.path.join(".git/checked")).expect("a line"), "first\n");
    assert_eq!(repo.git(["merge-base", &run.work, &base]), base);
}

/// CONTRACT 20.27
#[test]
fn prompts_and_scripts_of_the_base_must_be_those_of_the_trusted_ref() {
    let repo = with_agent("cat >asked; echo done");
    place_worktrees(&repo);
    drivers(&repo);
    scripts(&repo, "trusted");
    repo.write("flow.yaml", &flow("implement", PROMPTED));
    repo.commit_all("all of it");
    repo.git(["branch", "trusted"]);
    repo.git(["config", "aynig.commandsFrom", "trusted"]);
    for (file, named) in [
        ("prompts/go.md", "prompts/go.md"),
        ("scripts/check.sh", "scripts/check.sh"),
        ("scripts/part.sh", "scripts/part.sh"),
        ("scripts/deep/more.sh", "scripts/deep/more.sh"),
    ] {
        repo.write(file, "#!/bin/sh\necho other\n");
        repo.commit_all("another one");
        let refused = repo.aynig(["flow", "start", "flow.yaml", "--base", "main"]);
        assert_refused(&refused, 3, &[&format!("{named} of the base differs"), "trusted"]);
        assert!(repo.git(["for-each-ref", "refs/aynig"]).is_empty());
        repo.git(["reset", "-q", "--hard", "trusted"]);
    }
    repo.write("src/work.c", "int main;\n");
    repo.commit_all("what no step runs by itself");
    let started = json(&repo.aynig_ok(["flow", "start", "flow.yaml", "--base", "main", "--json"]));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(repo.state(started["driver"].as_str().expect("a name")), "flow-done");
}

const ONE: &str = concat!(
    "  - id: implement
    opcode: RUN_AGENT
    agent: scripted
    prompt: go
    routes: {completed: ask, error: STOP, killed_timeout: STOP, killed_idle: STOP}
",
    gate_step!("STOP"),
);

/// CONTRACT 20.4
#[test]
fn what_people_left_in_the_worktree_is_no_work_of_the_step() {
    let repo = with_agent("cat >/dev/null; echo made >made");
    let run = start(&repo, &flow("implement", ONE));
    std::fs::write(run.worktree.join("own"), "own\n").expect("a file");
    for arguments in [&["add", "own"][..], &["commit", "-qm", "by hand"]] {
        let mut git = repo.git_command();
        assert!(git.args(arguments).current_dir(&run.worktree).status().expect("git runs").success());
    }
    std::fs::write(run.worktree.join("loose"), "loose\n").expect("a file");
    repo.aynig_ok(["run", "--drain"]);
    let commits = repo.linear(&format!("main..{}", run.work));
    let changes: Vec<String> =
        commits.iter().map(|commit| repo.git(["show", "--format=", "--name-only", commit])).collect();
    assert_eq!(changes, ["own", "loose", "made"], "each by itself");
    assert_eq!(repo.git(["log", "-1", "--format=%ae %s", &commits[0]]), "person@example.com by hand");
}

/// CONTRACT 19.6, 20.4
#[test]
fn the_least_of_all_time_limits_counts() {
    let [wall, idle] = ["killed_timeout", "killed_idle"];
    for (step, default, provider, outcome) in [
        ("timeout_seconds: 1", "timeout_seconds: 600", "turnSeconds=600", wall),
        ("timeout_seconds: 600", "timeout_seconds: 1", "turnSeconds=600", wall),
        ("timeout_seconds: 600", "timeout_seconds: 600", "turnSeconds=1", wall),
        ("idle_seconds: 1", "idle_seconds: 600", "idleSeconds=600", idle),
        ("idle_seconds: 600", "idle_seconds: 1", "idleSeconds=600", idle),
        ("idle_seconds: 600", "idle_seconds: 600", "idleSeconds=1", idle),
    ] {
        let repo = with_agent("cat >/dev/null; exec sleep 60");
        let (key, value) = provider.split_once('=').expect("a value");
        repo.git(["config", &format!("aynig.provider.scripted.{key}"), value]);
        let text = flow("implement", &ONE.replace("prompt: go", &format!("prompt: go\n    {step}")));
        let text = text.replacen("steps:", &format!("defaults: {{{default}}}\nsteps:"), 1);
        let run = start(&repo, &text);
        repo.aynig_ok(["run", "--drain"]);
        assert_eq!(
            steps(&repo, &run),
            [format!("implement {outcome} STOP")],
            "{step}, {default}, {provider}"
        );
    }
}

/// CONTRACT 20.3
#[test]
fn a_watching_runner_drives_a_run_from_its_start_to_its_end() {
    let repo = with_agent("cat >/dev/null; echo made >made");
    let runner = repo.aynig_start(["run", "--watch"]);
    let run = start(&repo, &flow("implement", ONE));
    wait_until("the gate", || repo.state(&run.driver) == "flow-gate");
    repo.aynig_ok(["flow", "approve", &run.slug]);
    wait_until("the end", || repo.state(&run.driver) == "flow-done");
    runner.signal(nix::sys::signal::Signal::SIGTERM);
    runner.finish();
    assert_eq!(end(&repo, &run)[1], "succeeded");
}

/// CONTRACT 18.9, 20.1
#[test]
fn changes_of_the_file_that_are_not_committed_are_named() {
    let repo = with_agent("cat >/dev/null");
    place_worktrees(&repo);
    let text = flow("ask", gate_step!("STOP"));
    repo.write("flows/fix.yaml", &text);
    repo.commit_all("a flow");
    repo.write("flows/new.yaml", &text);
    let words = "1:1: warning: the file differs from what main has; the run takes it as it is here";
    let says = |arguments: &[&str]| told(&repo.aynig_ok(arguments.iter().copied())).contains(words);
    let check = ["flow", "check", "flows/fix.yaml", "--base", "main"];
    assert!(!says(&check) && !says(&["flow", "check", "flows/new.yaml", "--base", "main"]));
    assert!(!says(&["flow", "start", "flows/fix.yaml", "--base", "main"]));
    repo.write("flows/fix.yaml", &text.replace('\n', "\r\n"));
    assert!(!says(&check), "git may have written it like that");
    repo.write("flows/fix.yaml", &format!("{text}# another\n"));
    assert!(says(&check) && !says(&["flow", "check", "flows/fix.yaml"]));
    assert!(says(&["flow", "start", "flows/fix.yaml", "--base", "main"]));
    let below = ["-C", "flows", "flow", "start", "./fix.yaml", "--base", "main"];
    assert!(says(&below));
    let json = json(&repo.aynig_ok([&check[..], &["--json"]].concat()));
    assert_eq!((&json["warnings"][0]["line"], &json["faults"]), (&1.into(), &serde_json::json!([])));
    let there = repo.git(["show", "HEAD:flows/fix.yaml"]);
    repo.git(["commit", "-qam", "another"]);
    assert!(!says(&check) && there != repo.git(["show", "HEAD:flows/fix.yaml"]));
}
