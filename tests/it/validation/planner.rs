//! Planners that are commands or scripts.

use aynig::engine::evaluation::{Envelope, Evaluated, Evaluation, Planner, Verdict, evaluate};
use aynig::flow::document::{Name, Script};
use aynig::flow::fault::Place;
use aynig::flow::ruling::Facts;
use serde_json::{Value, json};

use super::*;

fn judged(room: &Room, planner: Planner<'_>, facts: Facts<'_>) -> (Evaluated, PathBuf) {
    let number = std::fs::read_dir(room.repo.beside(".")).expect("the room").count();
    let evidence = room.repo.beside(&format!("evidence-{number}"));
    std::fs::create_dir_all(&evidence).expect("a directory");
    let store = Store::open(&room.repo.path, &GitVariables::default(), None).expect("a repository");
    let opened = store.handle();
    let workspaces = Workspaces::new(&opened, room.options());
    let context: Context = workspaces.find(room.made.handle.as_ref()).expect("the workspace");
    let path = std::env::var_os("PATH").expect("a PATH");
    let evaluated = evaluate(&Evaluation {
        workspaces: &workspaces,
        context: &context,
        base: CommitId::parse_hex(&context.base_sha).expect("a commit"),
        planner,
        envelope: Envelope {
            run_id: &context.run_id,
            workflow_id: "x",
            step_id: "judge",
            evaluate_prompt: "Is it done?",
            allowed_next_steps: vec!["fix"],
            provenance_window: vec![json!({"step_id": "v"})],
            evidence: json!({"validation": null}),
        },
        facts,
        inputs: &BTreeMap::new(),
        environment: &[("PATH".into(), path)],
        evidence: &evidence,
        limits: Bounds { wall: Some(Duration::from_secs(60)), idle: None, grace: Duration::from_millis(500) },
        stop: &Stop::manual(),
        watchdog: None,
    });
    (evaluated.expect("it ended"), evidence)
}

fn outcome(evaluated: &Evaluated) -> (&'static str, Vec<&'static str>) {
    match &evaluated.end {
        Verdict::Ruled(ruling) => (ruling.word(), ruling.flags.clone()),
        end => panic!("{end:?}"),
    }
}

fn decision(evidence: &Path) -> Value {
    serde_json::from_str(&read(evidence, "planner_decision.json")).expect("JSON")
}

/// CONTRACT 20.23
#[test]
fn a_command_reads_the_envelope_and_answers() {
    let room = Room::new();
    let line = r#"grep -q '"evaluate_prompt": "Is it done?"' && grep -c . README >&2; printf '{"status":"partial","next_step":"fix"}'"#;
    let (evaluated, evidence) =
        judged(&room, Planner::Line(line), Facts { allowed: vec!["fix"], ..Facts::default() });
    assert_eq!(outcome(&evaluated), ("partial", vec![]));
    assert_eq!(evaluated.evidence, "the planner says partial");
    let envelope: Value = serde_json::from_str(&read(&evidence, "prompt-1.json")).expect("JSON");
    assert_eq!(envelope["allowed_next_steps"], json!(["fix"]));
    assert_eq!(envelope["provenance_window"][0]["step_id"], "v");
    let recorded = decision(&evidence);
    assert_eq!((&recorded["said"]["status"], &recorded["next_step"]), (&json!("partial"), &json!("fix")));
    assert_eq!(read(&evidence, "runner_stderr-1.txt"), "1\n");
    assert!(evaluated.kept.iter().all(|kept| evidence.join(&kept.path).is_file()));
    // Facts count more.
    let facts = Facts { goldens_open: true, ..Facts::default() };
    let (evaluated, _) = judged(&room, Planner::Line(r#"echo '{"status":"success"}'"#), facts);
    assert_eq!(outcome(&evaluated), ("needs_human", vec!["proposed_goldens_present"]));
    assert_eq!(
        evaluated.evidence,
        "the planner says success; needs_human, since proposed golden files wait for an approval"
    );
}

/// CONTRACT 20.23
#[test]
fn a_wrong_answer_can_be_mended_once() {
    let room = Room::new();
    let mends = r#"if grep -q '"last_answer_error": "`status` is missing"'; then echo '{"status":"blocked"}'; else echo '{}'; fi"#;
    let (evaluated, evidence) = judged(&room, Planner::Line(mends), Facts::default());
    assert_eq!(outcome(&evaluated), ("blocked", vec![]));
    assert_eq!(decision(&evidence)["errors"], json!(["`status` is missing"]));
    for (line, error) in [
        ("echo no", "this is no JSON"),
        ("echo no model >&2; exit 3", "it exited with 3; its last line on stderr: no model"),
        ("head -c 2000000 /dev/zero", "the answer is longer than 1 MiB"),
        (r#"echo '{"status":"completed"}'"#, "`status` is none of"),
    ] {
        let (evaluated, evidence) = judged(&room, Planner::Line(line), Facts::default());
        assert_eq!(outcome(&evaluated), ("blocked", vec!["evaluator_failed"]));
        assert!(evaluated.evidence.contains(error), "{}", evaluated.evidence);
        assert_eq!(decision(&evidence)["errors"].as_array().map(Vec::len), Some(2));
        assert_eq!(decision(&evidence)["said"], Value::Null);
    }
}

/// CONTRACT 20.22, 20.23
#[test]
fn a_planner_that_changes_files_is_unsafe() {
    let repo = Repo::new();
    repo.command("judge/it", "echo x >>README; echo n >new; echo '{\"status\":\"success\"}'");
    let room = Room::of(repo);
    room.sh("echo 'echo rewritten' >judge/it");
    let before = room.status();
    let entrypoint = Name { at: Place::default(), name: "judge/it".to_owned() };
    let script = Script { entrypoint, args: Vec::new(), timeout_seconds: None };
    let (evaluated, evidence) = judged(&room, Planner::Script(&script), Facts::default());
    assert_eq!(outcome(&evaluated), ("unsafe", vec!["evaluator_changed_files"]));
    assert_eq!(room.status(), before);
    assert_eq!(decision(&evidence)["changed"], json!(["README", "new"]));
    assert!(read(&evidence, "harness_fixture-taken-back.patch").contains("b/new"));
}
