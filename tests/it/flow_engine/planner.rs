//! EVALUATE: who judges, what an agent that judges is shown, and what it may do.

use super::agent::with_agent;
use super::workshop::*;
use super::*;

const STEPS: &str = concat!(
    agent_step!("implement", "go", "judge"),
    "  - id: judge
    opcode: EVALUATE
    prompt: Is it done?
    allowed_next_steps: [ask]
    routes: {success: STOP, partial: ask, blocked: ask, unsafe: STOP, needs_human: ask}
",
    gate_step!("STOP"),
);

/// A repository whose agent `scripted` works, and judges by this script. Each prompt's line is added to `.git/asked`, and
/// `$n` is their number.
fn judged_by(script: &str) -> Repo {
    let repo = Repo::new();
    let asked = repo.path.join(".git/asked");
    let asked = asked.display();
    speaker(
        &repo,
        "scripted",
        &format!(
            "printf '%s\\n' \"$line\" >>{asked}; n=$(wc -l <{asked})
case $line in *'Judge by this record'*) {script} ;; *) echo work >work; say done ;; esac"
        ),
    );
    repo
}

fn asked(repo: &Repo) -> Vec<String> {
    let lines = std::fs::read_to_string(repo.path.join(".git/asked")).expect("prompts");
    let prompts = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    prompts.map(|line| line["prompt"].as_str().expect("a prompt").to_owned()).collect()
}

const SUCCESS: &str = r#"say 'I looked. {\"seen\":\"blocked\"} no:\n```json\n{\"status\":\"success\",\"risk_flags\":[\"none\"]}\n```'"#;

/// CONTRACT 20.22, 20.23
#[test]
fn the_last_agent_judges_if_nobody_else_is_named() {
    let used = r#"echo '{"type":"telemetry.usage","usage":{"promptTokens":30,"completionTokens":12}}'"#;
    let repo = judged_by(&format!("{used}; {SUCCESS}"));
    let run = start(&repo, &flow("implement", STEPS));
    let ran = repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["implement completed judge", "judge success STOP"], "{}", told(&ran));
    assert_eq!(end(&repo, &run)[1], "succeeded");
    let prompts = asked(&repo);
    assert_eq!(prompts.len(), 2, "{prompts:?}");
    assert!(prompts[1].starts_with("Is it done?\n"), "{}", prompts[1]);
    for part in [
        "\"allowed_next_steps\"",
        "\"step_id\": \"implement\"",
        "\"work\"",
        "needs_human",
        "Do not change any file",
    ] {
        assert!(prompts[1].contains(part), "{part}: {}", prompts[1]);
    }
    let record = &ended(&repo, &run)[1]["record"];
    assert_eq!((&record["provider"], &record["usage"]["totalTokens"]), (&"scripted".into(), &42.into()));
    let decision = kept_json(&run, "judge", "planner_decision.json");
    assert_eq!((&decision["said"]["status"], &decision["outcome"]), (&"success".into(), &"success".into()));
    assert_eq!(decision["said"]["risk_flags"][0], "none");
    assert!(kept(&run, "judge", "prompt-1.txt").contains("Judge by this record"));
    let manifest = kept(&run, "judge", "manifest.json");
    assert!(manifest.contains(r#""provider":{"name":"scripted""#), "{manifest}");
    for role in ["prompt", "runner_transcript", "runner_final_response", "planner_decision", "policy_summary"]
    {
        assert!(manifest.contains(&format!("\"{role}\"")), "{role}: {manifest}");
    }
}

/// CONTRACT 20.23
#[test]
fn an_agent_whose_answer_cannot_be_used_is_asked_again() {
    let repo = judged_by(&format!("case $n in 2) say 'It is done.' ;; *) {SUCCESS} ;; esac"));
    let run = start(&repo, &flow("implement", STEPS));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(rulings(&repo, &run, "judge"), ["success"]);
    let prompts = asked(&repo);
    assert_eq!(prompts.len(), 3, "{prompts:?}");
    assert!(
        !prompts[1].contains("Your last answer")
            && prompts[2].contains("Your last answer could not be used: there is no JSON object")
    );
    let (unsafe_one, success) = (r#"{\"status\":\"unsafe\"}"#, r#"{\"status\":\"success\"}"#);
    for (answer, why) in [
        (format!("{unsafe_one} or {success}"), "several objects with a `status`, and they differ"),
        (format!(r#"{success} {{\"status\":\"unsafe\", \"blockers\": ["#), "cut off"),
        (r#"{\"status\":\"unsafe\",\"status\":\"success\"}"#.to_owned(), "`status` is there twice"),
    ] {
        let repo = judged_by(&format!("case $n in 2) say '{answer}' ;; *) {SUCCESS} ;; esac"));
        let run = start(&repo, &flow("implement", STEPS));
        repo.aynig_ok(["run", "--drain"]);
        assert_eq!(rulings(&repo, &run, "judge"), ["success"], "{answer}");
        let prompts = asked(&repo);
        assert!(prompts.len() == 3 && prompts[2].contains(why), "{why}: {prompts:?}");
    }
    // Twice is enough.
    let repo = judged_by("say 'It is done.'");
    let run = start(&repo, &flow("implement", STEPS));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(rulings(&repo, &run, "judge"), ["blocked evaluator_failed"]);
    assert_eq!(asked(&repo).len(), 3);
    assert_eq!(repo.state(&run.driver), "flow-gate");
}

/// CONTRACT 18.12, 20.23
#[test]
fn an_agent_that_judges_may_only_read() {
    let asks = r#"echo '{"type":"approval.requested","approvalId":"a","tool":{"id":"1","name":"shell","args":{}}}'; read -r answer; printf '%s\n' "$answer" >"$(git rev-parse --git-common-dir)/answer""#;
    let repo = judged_by(&format!("{asks}; {SUCCESS}"));
    let run = start(&repo, &flow("implement", STEPS));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(rulings(&repo, &run, "judge"), ["success"]);
    let answer = std::fs::read_to_string(repo.path.join(".git/answer")).expect("an answer");
    assert!(answer.contains("\"denied\""), "{answer}");

    let repo = judged_by(&format!("echo mine >>work; echo new >new; git add new; {SUCCESS}"));
    let run = start(&repo, &flow("implement", STEPS));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(rulings(&repo, &run, "judge"), ["unsafe evaluator_changed_files"]);
    assert_eq!(repo.git(["show", &format!("{}:work", run.work)]), "work");
    assert_eq!(std::fs::read_to_string(run.worktree.join("work")).expect("a file"), "work\n");
    assert!(!run.worktree.join("new").exists());
    assert!(kept(&run, "judge", "harness_fixture-taken-back.patch").contains("b/new"));
    let decision = kept_json(&run, "judge", "planner_decision.json");
    assert_eq!(decision["said"]["status"], "success");
    assert_eq!(end(&repo, &run)[1], "failed");
}

/// CONTRACT 19.8, 20.22
#[test]
fn a_planner_that_cannot_judge_now_leaves_the_step_for_later() {
    let repo = judged_by("echo '{\"type\":\"limit\",\"until\":4102444800,\"message\":\"enough for today\"}'");
    let run = start(&repo, &flow("implement", STEPS));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["implement completed judge", "judge error"]);
    let message = said(&repo, &run);
    assert!(message.contains("dwp-not-before: 20") && message.contains("enough for today"), "{message}");

    for (judge, lack) in [
        ("agent: absent", "provider absent"),
        ("command: gone", "no-such-judge is not in PATH"),
        ("command: unset", "aynig.evaluator.unset COMMAND"),
    ] {
        let repo = with_agent("cat >/dev/null; echo x >x");
        repo.git(["config", "aynig.evaluator.gone", "no-such-judge --strict"]);
        let named = STEPS.replace("    allowed_next_steps", &format!("    {judge}\n    allowed_next_steps"));
        let run = start(&repo, &flow("implement", &named));
        repo.aynig_ok(["run", "--drain"]);
        assert_eq!(steps(&repo, &run), ["implement completed judge"], "{judge}");
        let message = said(&repo, &run);
        assert!(message.contains("aynig-unable:") && message.contains(lack), "{message}");
    }
}

/// CONTRACT 20.22
#[test]
fn who_judges_is_named_by_the_step_then_the_host_then_the_flow() {
    let repo = with_agent("cat >/dev/null; echo x >x");
    let marks = |name: &str| format!("touch {}; {SUCCESS}", repo.path.join(".git").join(name).display());
    for name in ["judge", "standard"] {
        speaker(&repo, name, &marks(name));
    }
    let command = |name: &str| {
        format!("touch {}; echo '{{\"status\":\"success\"}}'", repo.path.join(".git").join(name).display())
    };
    repo.git(["config", "aynig.evaluator.strict", &command("strict")]);
    let step = |line: &str| STEPS.replace("    allowed_next_steps", &format!("{line}    allowed_next_steps"));
    for (line, host, expected) in [
        ("    agent: judge\n", true, "judge"),
        ("    command: strict\n", true, "strict"),
        ("", true, "host"),
        ("", false, "standard"),
    ] {
        if host {
            repo.git(["config", "aynig.evaluator", &command("host")]);
        } else {
            repo.git(["config", "--unset", "aynig.evaluator"]);
        }
        let text =
            flow("implement", &step(line)).replacen("steps:", "defaults: {agent: standard}\nsteps:", 1);
        let run = start(&repo, &text);
        repo.aynig_ok(["run", "--drain"]);
        assert_eq!(rulings(&repo, &run, "judge"), ["success"], "{expected}");
        for name in ["judge", "standard", "strict", "host"] {
            let mark = repo.path.join(".git").join(name);
            assert_eq!(mark.exists(), name == expected, "{expected}: {name}");
            let _absent = std::fs::remove_file(mark);
        }
    }
}

/// CONTRACT 20.23
#[test]
fn a_planner_is_shown_the_last_steps_and_what_is_known() {
    let repo = with_agent("cat >/dev/null; echo more >>work; echo x >x");
    repo.command("check.sh", "exit 3");
    repo.commit_all("a check");
    let test = "  - id: test
    opcode: RUN_VALIDATION
    run: [{kind: script, id: unit, entrypoint: check.sh}]
    routes: {completed: judge, error: judge}
  - id: judge
";
    let text = flow(
        "implement",
        &STEPS
            .replace("  - id: judge\n", test)
            .replace("{completed: judge, error: STOP}", "{completed: test, error: STOP}"),
    );
    let text = text.replace("partial: ask", "partial: implement").replace("[ask]", "[implement, ask]");
    planner(
        &repo,
        &[
            r#"{"status":"partial","fix_instructions":"more of it","blockers":["E7"]}"#,
            r#"{"status":"success"}"#,
        ],
    );
    let run = start(&repo, &text);
    repo.aynig_ok(["run", "--drain"]);
    let envelope = envelope(&repo, 2);
    assert_eq!(envelope["run_id"], run.id.as_str());
    assert_eq!(envelope["evaluate_prompt"], "Is it done?");
    assert_eq!(envelope["allowed_next_steps"], serde_json::json!(["implement", "ask"]));
    let window = envelope["provenance_window"].as_array().expect("a list");
    let of = |at: usize, name: &str| window[at][name].clone();
    let ids: Vec<Value> = (0..window.len()).map(|at| of(at, "step_id")).collect();
    assert_eq!(ids, ["judge", "implement", "test"], "the last three, the newest last");
    assert_eq!(
        (of(0, "outcome"), of(0, "opcode"), of(0, "visit")),
        ("partial".into(), "EVALUATE".into(), 1.into())
    );
    assert_eq!(
        (of(0, "fix_instructions"), of(0, "blockers")),
        ("more of it".into(), serde_json::json!(["E7"]))
    );
    assert_eq!(
        (of(1, "provider"), of(1, "visit"), of(1, "attempt")),
        ("scripted".into(), 2.into(), 1.into())
    );
    assert_eq!((of(2, "exit_codes"), of(2, "outcome")), (serde_json::json!({"unit": 3}), "error".into()));
    assert!(of(2, "summary").as_str().expect("words").contains("unit exited with 3"), "{window:?}");
    let evidence = &envelope["evidence"];
    assert_eq!(evidence["diff"]["changed_files"], 2);
    assert_eq!(evidence["diff"]["paths"], serde_json::json!(["work", "x"]));
    assert_eq!(evidence["diff"]["base_sha"], repo.head("main"));
    assert_eq!(evidence["validation"]["exit_codes"]["unit"], 3);
}
