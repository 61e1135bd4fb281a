//! `aynig flow list`, `show` and `log`, for runs that stand in every way.

use aynig::model::approval::{Answer, Resolution, Tool};
use aynig::model::decide::{Command, RunEdit, StepStart};
use aynig::model::run::{RunStatus, Verdict};
use aynig::model::step::{Opcode, Outcome};
use serde_json::Value;

use super::{Scene, at, step};
use crate::support::*;

fn row(scene: &Scene) -> String {
    out(&scene.repo.aynig_ok(["flow", "list"]))
}

/// CONTRACT 20.14
#[test]
fn a_run_that_goes_on_is_shown_with_its_step_and_its_holder() {
    let scene = Scene::new();
    scene.drive("flow-step", "");
    let shown = scene.shown();
    assert_eq!((&shown["place"], &shown["currentStep"]), (&"due".into(), &"plan".into()));
    assert_eq!(shown["driver"], scene.driver());
    assert_eq!(shown["workBranch"], format!("work/{}/flow", scene.slug));
    assert_eq!(shown["baseSha"], scene.repo.head("main"));
    assert_eq!(shown["runDirectory"], scene.directory.path().display().to_string());
    assert_eq!(shown["next"], serde_json::json!(["aynig run"]));
    assert!(scene.directory.path().join("status.json").is_file(), "its files are brought up to the ledger");
    scene.carry_out("plan", Opcode::RunAgent, Outcome::Completed, Some("check"));
    let claim = scene.repo.dated_lease(&scene.driver(), "host-a", 300, -100);
    scene.repo.dated_lease(&scene.driver(), "host-a", 300, 0);
    let words = scene.words();
    for wanted in ["host-a works on check", "1 plan completed -> check", "fix (version 3)", "fix 412"] {
        assert!(
            words.contains(wanted.split_whitespace().collect::<Vec<_>>().join(" ").as_str())
                || words.contains(wanted),
            "{wanted}: {words}"
        );
    }
    let shown = scene.shown();
    assert_eq!((&shown["place"], &shown["runner"]), (&"working".into(), &"host-a".into()));
    let claimed: i64 = scene.repo.git(["show", "-s", "--format=%ct", &claim]).parse().expect("seconds");
    assert_eq!(shown["since"], aynig::clock::format_utc_millis(claimed * 1000), "a renewal is no beginning");
    let first = &shown["steps"][0];
    assert_eq!(
        (&first["outcome"], &first["route"], &first["attempt"]),
        (&"completed".into(), &"check".into(), &1.into())
    );
    let file = &first["artifacts"][0];
    assert_eq!((&file["role"], &file["available"]), (&"prompt".into(), &true.into()));
    assert_eq!(std::fs::read(file["path"].as_str().expect("a path")).expect("there"), b"do it");
    scene.repo.dated_lease(&scene.driver(), "host-a", 300, -900);
    assert!(scene.words().contains("host-a worked on check and is gone"), "{}", scene.words());
    let list = row(&scene);
    assert!(list.contains(&scene.slug) && list.contains("due") && list.contains("fix 412"), "{list}");
    assert_eq!(list.lines().count(), 1);
}

/// CONTRACT 20.14
#[test]
fn a_host_that_could_not_do_it_is_named_with_its_reason() {
    let scene = Scene::new();
    let later = aynig::clock::format_utc(aynig::clock::wall_seconds() + 600);
    scene.drive("flow-step", &format!("aynig-unable: host-b no claude here\ndwp-not-before: {later}\n"));
    let words = scene.words();
    assert!(words.contains("host-b cannot do it: no claude here"), "{words}");
    let shown = scene.shown();
    assert_eq!(shown["unable"], serde_json::json!([{"runner": "host-b", "reason": "no claude here"}]));
    assert_eq!(shown["next"], serde_json::json!([format!("aynig flow resume {}", scene.slug)]));
}

/// CONTRACT 20.14
#[test]
fn a_gate_shows_its_question_and_how_to_answer() {
    let scene = Scene::new();
    scene.carry_out("plan", Opcode::RunAgent, Outcome::Completed, Some("ask"));
    let start = StepStart { id: step("ask"), opcode: Opcode::Gate, started_at: Some(at(10_000)) };
    let tool = Tool::new("ask 1", "gate", Default::default());
    let context = Some("Is the plan right?\u{1b}[2J\nsecond line".to_owned());
    scene.perform(&[
        Command::StartStep(start),
        Command::Ask { node: scene.node, tool, context, expires_at: None, heard: Vec::new(), turn: None },
        Command::SetRun(RunEdit { waiting_for: Some(Some("approval".to_owned())), ..RunEdit::default() }),
    ]);
    scene.drive("flow-gate", "");
    let words = scene.words();
    for wanted in [
        "waits at ask for approval",
        "Is the plan right?\u{fffd}[2J",
        "second line",
        &format!("aynig flow approve {}", scene.slug),
        &format!("aynig flow reject {} --comment TEXT", scene.slug),
    ] {
        assert!(words.contains(wanted), "{wanted}: {words}");
    }
    let shown = scene.shown();
    assert_eq!((&shown["place"], &shown["waitingFor"]), (&"gate".into(), &"approval".into()));
    assert_eq!(
        shown["since"],
        scene.state().approvals.values().next().expect("one").requested_at.to_string()
    );
    assert!(row(&scene).contains("gate"), "{}", row(&scene));
    let approval = *scene.state().approvals.keys().next().expect("one");
    let resolution =
        Resolution { status: Answer::Denied, modified_args: None, reason: Some("too large".to_owned()) };
    scene.perform(&[Command::Answer { approval, resolution }]);
    let log = out(&scene.repo.aynig_ok(["flow", "log", &scene.slug]));
    for wanted in [
        "began fix (version 3)",
        "plan completed -> ask: as it should",
        "Is the plan right?",
        "gate rejected: too large",
        "Ann",
        "artifacts/plan/1",
    ] {
        assert!(log.contains(wanted), "{wanted}: {log}");
    }
    let entries = json(&scene.repo.aynig_ok(["flow", "log", &scene.slug, "--json"]));
    let kinds: Vec<&str> = entries["entries"]
        .as_array()
        .expect("entries")
        .iter()
        .map(|one| one["kind"].as_str().expect("a word"))
        .collect();
    assert_eq!(kinds, ["run", "step", "step", "question", "run", "answer"]);
}

/// CONTRACT 20.14
#[test]
fn an_ended_run_names_its_verdict_and_the_next_command() {
    for (status, verdict, how, next) in [
        (RunStatus::Completed, Verdict::Succeeded, "completed", "aynig flow log"),
        (RunStatus::Failed, Verdict::Rejected, "completed", "aynig flow rollback"),
        (RunStatus::Failed, Verdict::Failed, "error: no route", "aynig flow rollback"),
        (RunStatus::Stopped, Verdict::Stopped, "stopped by a person", "aynig flow rollback"),
    ] {
        let scene = Scene::new();
        scene.carry_out("plan", Opcode::RunAgent, Outcome::Completed, Some("STOP"));
        scene.drive("flow-done", "");
        scene.finish(status, verdict, how);
        let (words, shown) = (scene.words(), scene.shown());
        assert!(words.contains(&format!("ended: {}", verdict.word())), "{words}");
        assert!(words.contains(&format!("{next} {}", scene.slug)), "{words}");
        assert_eq!((&shown["verdict"], &shown["place"]), (&verdict.word().into(), &"ended".into()));
        assert_eq!((&shown["termination"], &shown["currentStep"]), (&how.into(), &Value::Null));
        assert!(row(&scene).contains(verdict.word()));
    }
}

/// CONTRACT 20.14
#[test]
fn a_paused_run_and_one_that_nothing_drives_name_a_command() {
    let scene = Scene::new();
    let shown = scene.shown();
    assert_eq!((&shown["place"], &shown["runner"]), (&"stuck".into(), &Value::Null));
    assert_eq!(shown["next"], serde_json::json!([format!("aynig flow resume {}", scene.slug)]));
    scene.drive("stalled", "aynig-stalled-reason: three times\n");
    assert!(scene.words().contains("its driver is stalled"), "{}", scene.words());
    scene.perform(&[Command::SetRun(RunEdit {
        status: Some(RunStatus::Paused),
        waiting_for: Some(Some("tokens: 9 of 8".to_owned())),
        ..RunEdit::default()
    })]);
    let words = scene.words();
    assert!(words.contains("paused at plan: tokens: 9 of 8"), "{words}");
    assert!(words.contains(&format!("aynig flow resume {}", scene.slug)), "{words}");
}

/// CONTRACT 20.15
#[test]
fn runs_are_found_as_everywhere_and_graphs_are_none() {
    let repo = Repo::new();
    assert!(out(&repo.aynig_ok(["flow", "list"])).is_empty());
    assert_refused(&repo.aynig(["flow", "show", "x"]), 1, &["there is no run"]);
    let (run, _) = crate::orch::make(&repo, "0a1b2c3d-0000-4000-8000-000000000001", "");
    assert!(out(&repo.aynig_ok(["flow", "list"])).is_empty(), "{run}");
    for verb in ["show", "log"] {
        assert_refused(
            &repo.aynig(["flow", verb, "0a1b"]),
            1,
            &["is no flow run", "aynig orch show 0a1b2c3d"],
        );
    }
    let listed = json(&repo.aynig_ok(["flow", "list", "--json"]));
    assert_eq!((&listed["runs"], &listed["damaged"]), (&serde_json::json!([]), &serde_json::json!([])));
}
