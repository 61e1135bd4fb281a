//! Steps that change settings and hooks of the repository, or remove what is recorded of them.

use super::agent::{agent, with_agent};
use super::*;

const TWO: &str = "  - id: work
    opcode: RUN_AGENT
    agent: scripted
    prompt: do it
    routes: {completed: next, error: STOP, killed_policy: next}
  - id: next
    opcode: RUN_AGENT
    agent: other
    prompt: go on
    routes: {completed: STOP, error: STOP, killed_policy: STOP}
";

/// A repository whose first agent runs this, and whose second agent says that it ran.
fn scene(script: &str) -> Repo {
    let repo = with_agent(&format!("cat >/dev/null; echo bad >bad; {script}"));
    agent(&repo, "other", "cat >/dev/null; ls >seen; touch \"$(git rev-parse --git-common-dir)/next-ran\"");
    repo
}

fn said(repo: &Repo, run: &Started) -> String {
    let words = ["show", "log"].map(|verb| out(&repo.aynig_ok(["flow", verb, &run.slug])));
    words.concat()
}

/// No further step begins here, and people are told what to do.
fn assert_waits(repo: &Repo, run: &Started, key: &str) {
    assert!(!repo.path.join(".git/next-ran").exists(), "{key}: nothing runs");
    assert_eq!(repo.state(&run.driver), "flow-step", "{key}");
    let words = out(&repo.aynig_ok(["flow", "show", &run.slug]));
    assert!(words.contains(key) && words.contains("--accept"), "{key}: {words}");
    assert!(!said(repo, run).contains("hidden-value"), "{key}: values are not shown");
}

/// CONTRACT 20.33
#[test]
fn a_setting_that_a_step_changes_breaks_the_policy_and_nothing_more_runs() {
    for (key, executes) in [
        ("aynig.validator.ok", false),
        ("user.email", false),
        ("remote.origin.pushurl", false),
        ("url.x.insteadof", false),
        ("core.sshcommand", true),
        ("filter.x.clean", true),
    ] {
        let repo = scene(&format!("echo '* filter=x' >.gitattributes; git config {key} hidden-value"));
        let before = repo.aynig(["x"]).status.code();
        let run = start(&repo, &flow("work", TWO));
        let was = git_output(&repo, &["config", "--local", key]).stdout;
        for _ in 0..2 {
            repo.aynig_ok(["run", "--drain"]);
            assert_eq!(steps(&repo, &run), ["work killed_policy next"], "{key}");
            assert_waits(&repo, &run, key);
            // It does not wait for the end of the pause.
            repo.aynig_ok(["flow", "resume", &run.slug]);
        }
        assert!(said(&repo, &run).contains(&format!("the setting {key} was")), "{}", said(&repo, &run));
        repo.git(["config", "--unset-all", key]);
        if !was.is_empty() {
            repo.git(["config", key, String::from_utf8_lossy(&was).trim()]);
        }
        repo.aynig_ok(["run", "--drain"]);
        assert_eq!(steps(&repo, &run), ["work killed_policy next", "next completed STOP"], "{key}");
        let seen = repo.git(["show", &format!("{}:seen", run.work)]);
        assert_eq!(seen.lines().any(|file| file == "bad"), !executes, "{key}: {seen}");
        let rescued = repo.git(["for-each-ref", "--format=%(refname)", "refs/aynig/rescue"]);
        assert_eq!(!rescued.is_empty(), executes, "{key}: {rescued}");
        if let Some(name) = rescued.lines().next() {
            assert_eq!(repo.git(["show", &format!("{name}:bad")]), "bad", "{key}");
        }
        assert_eq!(repo.aynig(["x"]).status.code(), before);
    }
}

/// CONTRACT 20.33
#[test]
fn a_person_who_changed_a_setting_accepts_it() {
    for key in ["aynig.validator.ok", "core.sshCommand"] {
        let repo = scene(&format!("git config {key} hidden-value"));
        let run = start(&repo, &flow("work", TWO));
        repo.aynig_ok(["run", "--drain"]);
        assert_waits(&repo, &run, &key.to_lowercase().replace("sshcommand", "ssh"));
        repo.aynig_ok(["workspace", "snapshot", "--accept", &run.slug]);
        repo.aynig_ok(["flow", "resume", &run.slug]);
        repo.aynig_ok(["run", "--drain"]);
        assert_eq!(steps(&repo, &run), ["work killed_policy next", "next completed STOP"], "{key}");
        assert_eq!(repo.git(["config", key]).trim(), "hidden-value");
    }
}

/// CONTRACT 20.33
#[test]
fn a_person_may_change_settings_of_aynig_between_steps() {
    let repo = scene("true");
    let gate = "  - id: ask\n    opcode: GATE\n    gate: g\n    routes: {gate_approved: next, gate_rejected: STOP}\n";
    let text = flow("work", &(TWO.replacen("completed: next", "completed: ask", 1) + gate));
    let run = start(&repo, &text);
    repo.aynig_ok(["run", "--drain"]);
    repo.git(["config", "aynig.validator.ok", "true"]);
    repo.git(["config", "user.email", "other@example.com"]);
    repo.aynig_ok(["flow", "approve", &run.slug]);
    repo.aynig_ok(["run", "--drain"]);
    let wanted = ["work completed ask", "ask gate_approved next", "next completed STOP"];
    assert_eq!(steps(&repo, &run), wanted);
}

/// CONTRACT 20.33
#[test]
fn an_agent_does_not_choose_who_approves() {
    let repo = scene("git config aynig.approver.boss person@example.com");
    repo.git(["config", "aynig.approver.boss", "boss@example.com"]);
    let gate = "  - id: next\n    opcode: GATE\n    gate: g\n    approvers: [boss]\n    routes: {gate_approved: STOP, gate_rejected: STOP}\n";
    let (work, _) = TWO.split_once("  - id: next").expect("two steps");
    let run = start(&repo, &flow("work", &format!("{work}{gate}")));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["work killed_policy next"], "the gate does not open");
    assert_waits(&repo, &run, "aynig.approver.boss");
    repo.git(["config", "aynig.approver.boss", "boss@example.com"]);
    repo.aynig_ok(["flow", "resume", &run.slug]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(repo.state(&run.driver), "flow-gate");
    assert_eq!(repo.aynig(["flow", "approve", &run.slug]).status.code(), Some(1), "not of boss");
}

/// CONTRACT 20.33
#[test]
fn validators_and_planners_change_no_setting() {
    let repo = scene("true");
    let trap = "touch \"$(git rev-parse --git-common-dir)/trapped\"";
    let set =
        format!("git config filter.x.clean '{trap}; cat'; echo '* filter=x' >.gitattributes; echo x >x");
    let check = "  - id: work\n    opcode: RUN_VALIDATION\n    run: [evil]\n    routes: {completed: STOP, error: STOP, killed_policy: next}\n";
    let judge = "  - id: work\n    opcode: EVALUATE\n    command: evil\n    prompt: x\n    allowed_next_steps: [next]\n    routes: {success: next, partial: next, blocked: STOP, unsafe: STOP, needs_human: STOP}\n";
    let (_, next) = TWO.split_once("  - id: next").expect("two steps");
    let next = format!("  - id: next{next}");
    for (name, step, wanted) in [
        ("aynig.validator.evil", check, "work killed_policy next"),
        ("aynig.evaluator.evil", judge, "work unsafe STOP"),
    ] {
        for line in [set.clone(), "git config aynig.evaluator.evil hidden-value".to_owned()] {
            repo.git(["config", name, &format!("{line}; echo '{{\"status\":\"success\"}}'")]);
            let run = start(&repo, &flow("work", &format!("{step}{next}")));
            repo.aynig_ok(["run", "--drain"]);
            assert_eq!(steps(&repo, &run), [wanted], "{name}: {line}");
            assert!(!repo.path.join(".git/trapped").exists(), "{name}: git ran a program of the step");
            assert!(!repo.path.join(".git/next-ran").exists(), "{name}");
            assert!(said(&repo, &run).contains("was"), "{}", said(&repo, &run));
            git_output(&repo, &["config", "--unset-all", "filter.x.clean"]);
            git_output(&repo, &["config", "--unset-all", "aynig.evaluator.evil"]);
        }
    }
}

/// CONTRACT 20.33
#[test]
fn a_step_that_removes_its_record_is_found_out() {
    let data = "\"$(git rev-parse --git-common-dir)/aynig/data\"";
    for (script, word) in [
        (format!("rm -rf {data}"), "record of the workspace was removed"),
        (
            format!("find {data} -name workspace-record.json -delete; git config aynig.validator.ok x"),
            "aynig.validator.ok",
        ),
    ] {
        let repo = scene(&script);
        let run = start(&repo, &flow("work", TWO));
        repo.aynig_ok(["run", "--drain"]);
        assert_eq!(steps(&repo, &run), ["work killed_policy next"], "{script}");
        let words = said(&repo, &run);
        assert!(words.contains(word), "{script}: {words}");
        assert!(words.contains("cannot do it"), "{script}: {words}");
        assert!(!repo.path.join(".git/next-ran").exists(), "{script}");
    }
}

/// CONTRACT 20.33
#[test]
fn a_setting_that_a_cut_off_step_changed_is_not_taken_over() {
    for key in ["aynig.validator.ok", "core.sshcommand"] {
        let repo = scene(&format!("git config {key} hidden-value"));
        let run = start(&repo, &flow("work", TWO));
        let killed = repo.aynig_command().arg("run").env("AYNIG_CRASH_AT", "agent-ended:kill:1").output();
        let killed = killed.expect("it runs");
        assert_eq!(repo.state(&run.driver), "stalled", "{}", told(&killed));
        repo.aynig_ok(["run", "--drain"]);
        assert!(!repo.path.join(".git/next-ran").exists(), "{key}");
        let words = out(&repo.aynig_ok(["flow", "show", &run.slug]));
        assert!(words.contains(key) && words.contains("--accept"), "{key}: {words}");
        let done = steps(&repo, &run);
        assert!(done.iter().all(|step| !step.contains("completed")), "{key}: {done:?}");
    }
}
