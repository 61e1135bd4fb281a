//! RUN_AGENT with each kind of provider, which plays the output of the real program.

use super::agent::with_agent;
use super::played::{ACP, CLAUDE, CODEX, Reads};
use super::workshop::*;
use super::*;

const STEP: &str = "  - id: implement
    opcode: RUN_AGENT
    agent: scripted
    prompt: do it
    model: opus-x
    allow_empty: true
    routes: {completed: STOP, error: STOP, killed_timeout: STOP, killed_idle: STOP, killed_policy: STOP}
";

/// The roles of every turn.
const ROLES: [&str; 6] = [
    "prompt",
    "runner_transcript",
    "runner_metadata",
    "policy_summary",
    "workspace_diff",
    "workspace_status",
];

/// CONTRACT 19.1, 19.4, 20.4, 20.10
#[test]
fn each_kind_of_provider_carries_out_a_step() {
    let assist = STEP.replace("    model", "    policy: step.review_assist\n    model");
    let cases: [(&str, &str, &Reads, &str, &str); 3] = [
        ("claude", "claude-gated-approved", &CLAUDE, r#""behavior":"allow""#, "2.1.330"),
        ("codex", "codex-gated-approved", &CODEX, r#""decision":"accept""#, "0.169.0"),
        ("acp", "acp-claude-gated-approved", &ACP, r#""optionId":"allow-once""#, "0.100.0"),
    ];
    for (kind, stream, begin, answer, version) in cases {
        let repo = Repo::new();
        // What is asked and answered in between is read by the program after all that it prints.
        player(&repo, ("scripted", kind), stream, begin, ("", &format!("<{answer}\n.\n")));
        let run = start(&repo, &flow("implement", &assist));
        let ran = repo.aynig_ok(["run", "--drain"]);
        assert_eq!(
            steps(&repo, &run),
            ["implement completed STOP"],
            "{kind}: {} {:?}",
            told(&ran),
            ended(&repo, &run)
        );
        assert_eq!(repo.git(["show", &format!("{}:work", run.work)]), "work", "{kind}");
        let record = &ended(&repo, &run)[0]["record"];
        assert_eq!(record["provider"], "scripted");
        assert!(
            record["usage"]["totalTokens"].as_u64().is_some_and(|tokens| tokens >= 36),
            "{kind}: {record}"
        );
        let view = json(&repo.aynig_ok(["flow", "show", &run.slug, "--json"]));
        assert_eq!(view["totalTokens"], record["usage"]["totalTokens"], "{kind}: {view}");
        if kind == "claude" {
            assert!(noted(&repo, "scripted.argv").contains("--model\nopus-x\n"));
        }
        if kind == "codex" {
            assert!(noted(&repo, "scripted.read").contains(r#""model":"opus-x""#));
        }
        assert!(!noted(&repo, "scripted.argv").contains("do it"), "{kind}: the prompt is no argument");
        assert!(noted(&repo, "scripted.read").contains("do it"), "{kind}");
        let metadata = kept_json(&run, "implement", "runner_metadata.json");
        assert_eq!((&metadata["version"], &metadata["exit_code"]), (&version.into(), &0.into()), "{kind}");
        assert!(
            !metadata["argv"].to_string().contains("do it") && metadata["elapsed_ms"].is_u64(),
            "{metadata}"
        );
        assert!(kept(&run, "implement", "manifest.json").contains(version), "{kind}");
        let about = std::fs::read(run.directory.join("metadata.json")).expect("a file");
        let about: Value = serde_json::from_slice(&about).expect("JSON");
        assert_eq!(about["versions"]["providers"]["scripted"], version, "{about}");
        let roles = roles(&run, "implement");
        for role in ROLES.iter().chain(&["runner_stderr", "runner_final_response"]) {
            assert!(roles.iter().any(|one| one == role), "{kind} {role}: {roles:?}");
        }
    }
}

/// CONTRACT 19.5, 20.4
#[test]
fn a_question_of_any_provider_ends_the_step() {
    let cases: [(&str, &str, &Reads, &str, [&str; 2]); 3] = [
        (
            "claude",
            "claude-gated-approved",
            &CLAUDE,
            "can_use_tool",
            [r#""behavior":"deny""#, r#""subtype":"interrupt""#],
        ),
        (
            "codex",
            "codex-gated-approved",
            &CODEX,
            "requestApproval",
            [r#""decision":"cancel""#, "turn/interrupt"],
        ),
        (
            "acp",
            "acp-claude-gated-approved",
            &ACP,
            "request_permission",
            [r#""outcome":"cancelled""#, "session/cancel"],
        ),
    ];
    for (kind, stream, begin, until, [denied, interrupt]) in cases {
        let repo = Repo::new();
        player(&repo, ("scripted", kind), stream, begin, (until, &format!("<{denied}\n<{interrupt}\n.\n")));
        let run = start(&repo, &flow("implement", STEP));
        repo.aynig_ok(["run", "--drain"]);
        assert_eq!(steps(&repo, &run), ["implement killed_policy STOP"], "{kind}");
        let evidence = ended(&repo, &run)[0]["evidence"].as_str().expect("words").to_owned();
        assert!(evidence.contains("fail_on_prompt"), "{kind}: {evidence}");
        assert_eq!(end(&repo, &run)[1], "failed");
    }
}

/// CONTRACT 20.10, 20.12
#[test]
fn a_turn_that_fails_leaves_its_record() {
    let repo = Repo::new();
    let usage = r#"echo '{"type":"telemetry.usage","usage":{"promptTokens":5,"completionTokens":2}}'"#;
    for (script, limit, outcome) in [
        ("exit 3", "", "error"),
        ("sleep 600", "    timeout_seconds: 2\n", "killed_timeout"),
        ("sleep 600", "    idle_seconds: 1\n", "killed_idle"),
        (
            r#"echo '{"type":"approval.requested","approvalId":"a","tool":{"id":"1","name":"sh","args":{}}}'; read -r x"#,
            "",
            "killed_policy",
        ),
    ] {
        speaker(&repo, "scripted", &format!("echo half >half; echo oops >&2; {usage}; {script}"));
        let run = start(&repo, &flow("implement", &STEP.replace("    model", &format!("{limit}    model"))));
        repo.aynig_ok(["run", "--drain"]);
        assert_eq!(steps(&repo, &run), [format!("implement {outcome} STOP")]);
        let found = roles(&run, "implement");
        for role in ROLES.iter().chain(&["runner_stderr"]) {
            assert!(found.iter().any(|one| one == role), "{outcome} {role}: {found:?}");
        }
        assert_eq!(kept(&run, "implement", "prompt.md"), "do it");
        assert!(kept(&run, "implement", "workspace.diff").contains("b/half"));
        let manifest = kept_json(&run, "implement", "manifest.json");
        assert_eq!(
            (&manifest["termination"], &manifest["provider"]["name"]),
            (&outcome.into(), &"scripted".into())
        );
        let record = &ended(&repo, &run)[0]["record"];
        assert_eq!(record["usage"]["totalTokens"], 7, "{outcome}: {record}");
        let roles = record["artifacts"].to_string();
        for role in ["prompt", "runner_transcript", "runner_stderr", "workspace_diff"] {
            assert!(roles.contains(role), "{outcome} {role}: {roles}");
        }
    }
}

/// CONTRACT 19.2, 20.4
#[test]
fn a_program_that_asks_for_a_later_try_is_tried_later() {
    let repo = with_agent("cat >/dev/null; echo half >half; exit 75");
    let run = start(&repo, &flow("implement", STEP));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["implement error"], "an attempt that is tried again");
    let message = said(&repo, &run);
    assert!(message.contains("dwp-state: flow-step") && message.contains("dwp-not-before: 20"), "{message}");
    assert!(!run.worktree.join("half").exists(), "the worktree is as before");
    let words = "scripted asks to be run later";
    let list = out(&repo.aynig_ok(["flow", "list"]));
    assert!(list.contains("implement is due at ") && list.contains(words), "{list}");
    let show = out(&repo.aynig_ok(["flow", "show", &run.slug]));
    let resume = format!("aynig flow resume {}", run.slug);
    assert!(show.contains(&format!("1 implement parked: {words}")) && show.contains(&resume), "{show}");
    let log = out(&repo.aynig_ok(["flow", "log", &run.slug]));
    assert!(log.contains(&format!("implement parked: {words}")), "{log}");
    let pause = || {
        let message = said(&repo, &run);
        let until = message.lines().find_map(|line| line.strip_prefix("dwp-not-before: ")).expect("a date");
        let at = repo.git(["log", "-1", "--format=%ct", &run.driver]).parse::<i64>().expect("seconds");
        let date =
            std::process::Command::new("date").args(["-u", "+%s", "-d", until]).output().expect("a date");
        String::from_utf8(date.stdout).expect("text").trim().parse::<i64>().expect("seconds") - at
    };
    let first = pause();
    repo.aynig_ok(["flow", "resume", &run.slug]);
    repo.aynig_ok(["run", "--drain"]);
    let second = pause();
    assert!((40..=60).contains(&first) && (100..=120).contains(&second), "{first} {second}");
    for name in repo.rescues() {
        assert_eq!(repo.show(&format!("{name}:half")).trim(), "half");
    }
}
