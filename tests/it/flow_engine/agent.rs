//! RUN_AGENT with scripted agents: the seed's loop, the record, and agents that misbehave.

use std::os::unix::fs::PermissionsExt;

use super::*;

/// A repository whose agent `scripted` is this shell script.
pub(super) fn with_agent(script: &str) -> Repo {
    let repo = Repo::new();
    agent(&repo, "scripted", script);
    repo
}

/// Makes a provider of a shell script, which reads the prompt on stdin.
pub(super) fn agent(repo: &Repo, name: &str, script: &str) {
    let program = repo.path.join(format!(".git/{name}.sh"));
    std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).expect("a script");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    repo.git(["config", &format!("aynig.provider.{name}.kind"), "custom"]);
    repo.git(["config", &format!("aynig.provider.{name}.protocol"), "text"]);
    repo.git(["config", &format!("aynig.provider.{name}.command"), program.to_str().expect("UTF-8")]);
}

const ONE: &str = "  - id: implement
    opcode: RUN_AGENT
    agent: scripted
    prompt: \"Write {{inputs.what}}\"
    routes: {completed: STOP, error: STOP, killed_timeout: STOP, killed_idle: STOP, killed_policy: STOP}
";

fn one(extra: &str) -> String {
    let text = flow("implement", &ONE.replace("    prompt:", &format!("{extra}    prompt:")));
    text.replace("steps:", "inputs:\n  what: {required: true}\nsteps:")
}

/// CONTRACT 20.4
#[test]
fn an_agent_works_in_the_worktree_and_its_work_is_a_commit() {
    let repo = with_agent("cat >asked; pwd >where; echo made >made; git branch -f other HEAD; echo done");
    let run = start_with(&repo, &one(""), &["--input", "what=a poem"]);
    repo.write("dirty", "the operator's");
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["implement completed STOP"]);
    assert_eq!(end(&repo, &run), ["completed", "succeeded", "completed"]);
    let file = |name: &str| repo.git(["show", &format!("{}:{name}", run.work)]);
    assert_eq!(file("asked").trim(), "Write a poem");
    assert_eq!(file("where").trim(), run.worktree.to_str().expect("UTF-8"));
    assert_eq!(file("made"), "made");
    assert_eq!(repo.git(["status", "--porcelain"]).trim(), "?? dirty");
    let manifest = run.directory.join("artifacts/implement/manifest.json");
    let manifest: Value =
        serde_json::from_slice(&std::fs::read(manifest).expect("a manifest")).expect("JSON");
    assert_eq!(manifest["termination"], "completed");
    let roles: Vec<&str> = manifest["artifacts"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|one| one["role"].as_str())
        .collect();
    for role in [
        "prompt",
        "runner_transcript",
        "runner_final_response",
        "runner_metadata",
        "policy_summary",
        "workspace_diff",
    ] {
        assert!(roles.contains(&role), "{role}: {roles:?}");
    }
    let last = std::fs::read_to_string(run.directory.join("final-state.txt")).expect("a file");
    assert_eq!(last.trim(), "completed:implement");
}

/// CONTRACT 20.4
#[test]
fn outcomes_of_agents_are_told_apart() {
    let repo = with_agent("cat >/dev/null; echo half >half; eval \"$(cat \"$HOME/script\" 2>/dev/null)\"");
    for (script, extra, outcome) in [
        ("exit 3", "", "error"),
        ("sleep 60", "    timeout_seconds: 1\n", "killed_timeout"),
        ("sleep 60", "    idle_seconds: 1\n", "killed_idle"),
        (
            "git update-ref refs/heads/main HEAD~0 2>/dev/null; echo '#!/bin/sh' >\"$(git rev-parse --git-common-dir)/hooks/pre-commit\"",
            "",
            "killed_policy",
        ),
    ] {
        agent(&repo, "scripted", &format!("cat >/dev/null; echo half >half; {script}"));
        let run = start_with(&repo, &one(extra), &["--input", "what=x"]);
        repo.aynig_ok(["run", "--drain"]);
        assert_eq!(steps(&repo, &run), [format!("implement {outcome} STOP")], "{script}");
        let kept = repo.git(["show", &format!("{}:half", run.work)]);
        assert_eq!(kept, "half", "{script}: the work is kept whatever the outcome");
        let verdict =
            if outcome.starts_with("killed_t") || outcome == "killed_idle" { "timed_out" } else { "failed" };
        assert_eq!(end(&repo, &run)[1], verdict, "{script}");
    }
}

/// CONTRACT 18.15, 20.4
#[test]
fn a_policy_holds_on_what_was_really_changed() {
    for (script, rules, words) in [
        (
            "mkdir -p docs src; echo x >docs/a; echo x >src/b",
            "allowed_paths: [\"docs/**\"]",
            ["src/b", "allowed_paths"],
        ),
        ("mkdir docs; echo x >docs/a", "forbidden_paths: [\"docs/**\"]", ["docs/a", "forbidden_paths"]),
        (
            "echo x >Cargo.lock",
            "forbidden_operations: [lockfile]",
            ["Cargo.lock", "forbidden_operations: lockfile"],
        ),
    ] {
        let repo = with_agent(&format!("cat >/dev/null; {script}"));
        let policies = format!("policies:\n  tried: {{{rules}}}\nsteps:");
        let text = one("    policy: tried\n").replace("steps:", &policies);
        let run = start_with(&repo, &text, &["--input", "what=x"]);
        repo.aynig_ok(["run", "--drain"]);
        assert_eq!(steps(&repo, &run), ["implement killed_policy STOP"], "{rules}");
        let events = out(&repo.aynig_ok(["orch", "events", &run.id, "--json"]));
        assert!(words.iter().all(|word| events.contains(word)), "{rules}: {events}");
    }
}

/// CONTRACT 20.5
#[test]
fn an_agent_that_is_killed_is_tried_again_and_nothing_of_its_work_is_lost() {
    let repo = with_agent(
        "cat >/dev/null; ls >seen; echo more >>work; git add work; git -c user.name=A -c user.email=a@b commit -qm own; echo loose >loose",
    );
    let run = start_with(&repo, &one(""), &["--input", "what=x"]);
    let killed = repo
        .aynig_command()
        .arg("run")
        .env("AYNIG_CRASH_AT", "agent-ended:kill:1")
        .output()
        .expect("it runs");
    assert_eq!(repo.state(&run.driver), "stalled", "{}", told(&killed));
    let next = repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["implement error", "implement completed STOP"], "{}", told(&next));
    assert_eq!(repo.git(["show", &format!("{}:work", run.work)]), "more", "it began anew");
    assert!(!repo.git(["show", &format!("{}:seen", run.work)]).contains("work"), "it began anew");
    let rescued = repo.git(["for-each-ref", "--format=%(refname)", "refs/aynig/rescue"]);
    let name = rescued.lines().next().expect("a rescue");
    assert_eq!(repo.git(["show", &format!("{name}:loose")]), "loose");
    assert_eq!(end(&repo, &run)[1], "succeeded");
}

/// CONTRACT 20.8
#[test]
fn a_loop_without_progress_is_told_to_the_agent_and_then_stopped() {
    let repo = with_agent("cat >\"$(git rev-parse --git-common-dir)/asked\"; echo same >same");
    let text = one("    allow_empty: true\n").replace("completed: STOP", "completed: implement")
        + "  - id: end\n    opcode: STOP\n    allow_unreachable: true\n";
    let run = start_with(&repo, &text, &["--input", "what=x"]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run).len(), 4, "{:?}", steps(&repo, &run));
    let shown = shown(&repo, &run);
    assert_eq!(shown["status"], "paused");
    assert!(shown["waitingFor"].as_str().expect("words").contains("goes round in circles"), "{shown}");
    let asked = std::fs::read_to_string(repo.path.join(".git/asked")).expect("a prompt");
    assert!(asked.contains("again and again"), "{asked}");
}

/// CONTRACT 20.3
#[test]
fn a_host_that_lacks_the_provider_hands_the_step_back() {
    let repo = Repo::new();
    let run = start_with(&repo, &one(""), &["--input", "what=x"]);
    repo.aynig_ok(["run"]);
    assert!(steps(&repo, &run).is_empty());
    assert!(!run.directory.join("artifacts/implement/1").exists(), "nothing was started");
    assert_eq!(repo.state(&run.driver), "flow-step");
    let message = repo.git(["log", "-1", "--format=%B", &run.driver]);
    assert!(message.contains("aynig-unable:") && message.contains("scripted"), "{message}");
}

/// CONTRACT 15.15, 20.4
#[test]
fn an_agent_that_moves_a_protected_branch_breaks_the_policy() {
    let repo = with_agent(
        "cat >/dev/null; echo x >x; git add x; git commit -qm own; git update-ref refs/heads/main HEAD",
    );
    repo.git(["switch", "-q", "--detach"]);
    let run = start_with(&repo, &one(""), &["--input", "what=x"]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["implement killed_policy STOP"]);
    let address = repo.git(["log", "-1", "--format=%ae", &run.work]);
    assert!(address.ends_with(".invalid") || address.contains(&run.slug), "{address}");
}

#[test]
fn a_usage_limit_of_the_past_does_not_loop() {
    let repo = with_agent("read -r line; echo '{\"type\":\"limit\",\"until\":-5,\"message\":\"enough\"}'");
    repo.git(["config", "aynig.provider.scripted.protocol", "jsonl"]);
    let run = start_with(&repo, &one(""), &["--input", "what=x"]);
    repo.aynig_ok(["run"]);
    assert_eq!(steps(&repo, &run), ["implement error"]);
    let message = repo.git(["log", "-1", "--format=%B", &run.driver]);
    assert!(message.contains("dwp-not-before: 20") && message.contains("enough"), "{message}");
}

/// CONTRACT 15.16, 20.4
#[test]
fn a_file_that_looks_like_a_key_is_named() {
    let repo = with_agent("cat >/dev/null; echo made >made; echo KEY=1 >.env");
    let run = start_with(&repo, &one(""), &["--input", "what=x"]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["implement completed STOP"]);
    assert_eq!(repo.git(["diff", "--name-only", "main", &run.work]), "made");
    let words = "left out of the snapshot, since it looks like a key: .env";
    let log = out(&repo.aynig_ok(["flow", "log", &run.slug]));
    assert!(log.contains(words), "{log}");
}
