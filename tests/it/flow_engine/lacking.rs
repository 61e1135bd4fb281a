//! Missing items of a host, and limits that its agents cannot keep, reported before a step needs them.

use super::agent::{agent, with_agent};
use super::*;

const STEPS: &str = "  - id: write
    opcode: RUN_AGENT
    agent: nobody
    prompt: write
    routes: {completed: test, error: STOP, killed_timeout: STOP, killed_idle: STOP, killed_policy: STOP}
  - id: test
    opcode: RUN_VALIDATION
    run: [unit]
    routes: {completed: judge, error: STOP, killed_timeout: STOP, killed_idle: STOP, killed_policy: STOP}
  - id: judge
    opcode: EVALUATE
    prompt: is it well?
    command: strict
    allowed_next_steps: [ask]
    routes: {success: ask, partial: STOP, blocked: STOP, unsafe: STOP, needs_human: ask}
  - id: ask
    opcode: GATE
    gate: result
    approvers: [boss]
    routes: {gate_approved: STOP, gate_rejected: STOP}
";

/// CONTRACT 18.18
#[test]
fn a_check_names_what_this_host_lacks_apart_from_faults() {
    let repo = Repo::new();
    repo.write("flow.yaml", &flow("write", STEPS));
    let plain = repo.aynig_ok(["flow", "check", "flow.yaml"]);
    assert_eq!(out(&plain), "", "only the file was asked for");
    let check = |more: &[&str]| repo.aynig([&["flow", "check", "flow.yaml", "--host"], more].concat());
    let lacking = check(&[]);
    assert_eq!(lacking.status.code(), Some(3), "{}", told(&lacking));
    let words = out(&lacking);
    for (line, wanted) in [
        (
            0,
            "flow.yaml:5:9: host: write: this host has no provider nobody; `git config aynig.provider.nobody.kind KIND`",
        ),
        (
            1,
            "flow.yaml:10:9: host: test: this host lacks the validator unit (`git config aynig.validator.unit COMMAND`)",
        ),
        (
            2,
            "flow.yaml:14:9: host: judge: this host lacks the planner strict (`git config aynig.evaluator.strict COMMAND`)",
        ),
        (
            3,
            "flow.yaml:20:9: host: ask: nobody is known here as boss: `git config aynig.approver.boss ADDRESS`",
        ),
    ] {
        let found = words.lines().nth(line).unwrap_or_default();
        assert!(found.starts_with(wanted), "{line}: {words}");
    }
    assert!(err(&lacking).contains("4 things lacking here"), "{}", err(&lacking));
    let answer = json(&check(&["--json"]));
    assert_eq!(
        (answer["faults"].as_array().map(Vec::len), answer["lacking"].as_array().map(Vec::len)),
        (Some(0), Some(4))
    );
    assert_eq!((&answer["lacking"][1]["step"], &answer["lacking"][1]["line"]), (&"test".into(), &10.into()));
    assert_eq!(json(&repo.aynig_ok(["flow", "check", "flow.yaml", "--json"]))["lacking"], Value::Null);
    repo.write("flow.yaml", &flow("write", &STEPS.replace("gate: result", "gat: result")));
    let bad = check(&[]);
    assert_eq!(bad.status.code(), Some(1), "a fault comes first: {}", told(&bad));
    repo.write("flow.yaml", &flow("write", STEPS));
    for (name, value) in [
        ("aynig.validator.unit", "no-such-linter --strict"),
        ("aynig.evaluator.strict", "/no/such/judge"),
        ("aynig.approver.boss", "boss@example.org"),
        ("aynig.provider.nobody.kind", "custom"),
        ("aynig.provider.nobody.command", "no-such-program"),
    ] {
        repo.git(["config", name, value]);
    }
    let missing = check(&[]);
    let wanted = "host: write: the program no-such-program is not in PATH; install it, or name the program: `git config aynig.provider.nobody.command PROGRAM`";
    assert!(out(&missing).contains(wanted), "{}", out(&missing));
    for wanted in [
        "host: test: this host lacks no-such-linter, which aynig.validator.unit runs (no-such-linter is not in PATH; \
         install it, or `git config aynig.validator.unit COMMAND`)",
        "host: judge: this host lacks /no/such/judge, which aynig.evaluator.strict runs (/no/such/judge is not there;",
    ] {
        assert!(out(&missing).contains(wanted), "{wanted}: {}", out(&missing));
    }
    let doctor = out(&repo.aynig(["doctor"]));
    for wanted in [
        "provider    the provider nobody does no turn here: the program no-such-program is not in PATH\n         next: \
         install it, or git config aynig.provider.nobody.command PROGRAM",
        "validator   no-such-linter of aynig.validator.unit is not in PATH: no step with this validator is done here\n",
        "evaluator   /no/such/judge of aynig.evaluator.strict is not there: no step with this planner is done here\n",
    ] {
        assert!(doctor.contains(wanted), "{wanted}: {doctor}");
    }
    agent(&repo, "nobody", "true");
    repo.git(["config", "aynig.validator.unit", "true"]);
    repo.git(["config", "aynig.evaluator.strict", "true"]);
    for (unset, protocol) in [("", "jsonl"), ("claude", "jsonl")] {
        repo.git(["config", "aynig.provider.nobody.protocol", protocol]);
        match unset {
            "" => repo.git(["config", "--unset", "aynig.provider.nobody.kind"]),
            kind => repo.git(["config", "aynig.provider.nobody.kind", kind]),
        };
        let missing = out(&check(&[]));
        assert!(!missing.contains("install it"), "{missing}");
        let (_, typed) = missing.split_once('`').expect("a command");
        sh(&repo, typed.split_once('`').expect("its end").0);
        assert!(check(&[]).status.success(), "{missing}");
        agent(&repo, "nobody", "true");
    }
    let fine = check(&[]);
    assert!(fine.status.success() && out(&fine).is_empty(), "{}", told(&fine));
}

/// CONTRACT 18.18
#[test]
fn a_start_warns_of_what_this_host_lacks_and_starts_all_the_same() {
    let repo = Repo::new();
    repo.git(["config", "aynig.approver.boss", "boss@example.org"]);
    repo.write("flow.yaml", &flow("write", STEPS));
    place_worktrees(&repo);
    let started = repo.aynig_ok(["flow", "start", "flow.yaml", "--json"]);
    assert_eq!(json(&started)["driver"].as_str().map(|name| repo.state(name)).as_deref(), Some("flow-step"));
    for words in [
        "warning: step write: this host has no provider nobody; `git config aynig.provider.nobody.kind KIND`",
        "warning: step test: this host lacks the validator unit",
        "warning: step judge: this host lacks the planner strict",
        "left to other hosts; `aynig flow check flow.yaml --host` looks at this one again",
    ] {
        assert!(err(&started).contains(words), "{words}: {}", err(&started));
    }
}

/// CONTRACT 18.19
#[test]
fn limits_that_an_agent_cannot_keep_are_refused() {
    let repo = with_agent("true");
    let text = |agent: &str, limit: &str| {
        let step =
            STEPS.split("  - id: test").next().expect("a step").replace("completed: test", "completed: STOP");
        let text = flow("write", &step.replace("nobody", agent));
        text.replace("steps:", &format!("limits:\n  {limit}\nsteps:"))
    };
    for (agent, limit, by_name, here) in [
        ("codex", "cost_usd: 1", "codex reports no cost", "codex reports no cost"),
        ("codex", "tokens: 1000", "", ""),
        ("claude", "cost_usd: 1", "", ""),
        ("scripted", "tokens: 1000", "", "scripted reports no tokens"),
        ("scripted", "tokens: 1000\n  best_effort: true", "", ""),
        ("scripted", "wall_seconds: 60", "", ""),
        ("nobody", "tokens: 1000", "", ""),
    ] {
        repo.write("flow.yaml", &text(agent, limit));
        for (option, wanted) in [(None, by_name), (Some("--host"), here)] {
            let checked = repo.aynig(["flow", "check", "flow.yaml"].into_iter().chain(option));
            let words = out(&checked);
            let faulty = words.lines().any(|line| line.contains("fault:"));
            assert_eq!(faulty, !wanted.is_empty(), "{agent}, {limit}, {option:?}: {words}");
            assert!(
                words.contains(wanted) && (wanted.is_empty() || words.contains("`best_effort: true`")),
                "{words}"
            );
        }
    }
    repo.write("flow.yaml", &text("scripted", "tokens: 1000"));
    place_worktrees(&repo);
    let refused = repo.aynig(["flow", "start", "flow.yaml"]);
    assert!(
        !refused.status.success() && err(&refused).contains("scripted reports no tokens"),
        "{}",
        told(&refused)
    );
    assert!(out(&repo.aynig_ok(["flow", "list"])).is_empty(), "nothing was started");
}

/// CONTRACT 16.5, 20.1
#[test]
fn a_flow_that_masks_would_change_is_refused() {
    let repo = with_agent("true");
    place_worktrees(&repo);
    let steps =
        STEPS.split("  - id: test").next().expect("a step").replace("completed: test", "completed: STOP");
    let text = flow("write", &steps.replace("nobody", "scripted"));
    for (expressions, extra, fits) in [
        (".*[^A-Z]|[A-Z]", "", false),
        ("prompt: wri", "", false),
        ("tok-[0-9]+", "# tok-12\n", true),
        ("absent", "", true),
    ] {
        repo.write(".aynig/redact", &format!("{expressions}\n"));
        repo.write("flow.yaml", &format!("{extra}{text}"));
        repo.commit_all("redact");
        let refs = || repo.git(["for-each-ref"]);
        let before = refs();
        let started = repo.aynig(["flow", "start", "flow.yaml"]);
        assert_eq!(started.status.success(), fits, "{expressions}: {}", told(&started));
        if !fits {
            let words = err(&started);
            assert!(words.contains(".aynig/redact") && words.contains("nothing was started"), "{words}");
            assert_eq!((refs(), started.status.code()), (before, Some(2)), "{words}");
        }
    }
}
