//! `aynig flow graph RUN`: a run drawn over its flow.

use aynig::model::run::{RunStatus, Verdict};
use aynig::model::step::{Opcode, Outcome};

use super::Scene;
use crate::support::*;

impl Scene {
    /// The drawing of the run in a format.
    fn drawn(&self, format: &str) -> String {
        out(&self.repo.aynig_ok(["flow", "graph", &self.slug, "--format", format]))
    }
}

/// CONTRACT 18.10
#[test]
fn a_run_is_drawn_with_what_happened_and_where_it_stands() {
    let scene = Scene::new();
    scene.drive("flow-step", "");
    assert!(scene.drawn("text").contains("> plan  RUN_AGENT  custom  [not visited; the run stands here]"));
    scene.carry_out("plan", Opcode::RunAgent, Outcome::Completed, Some("check"));
    scene.carry_out("check", Opcode::RunValidation, Outcome::Completed, Some("plan"));
    scene.carry_out("plan", Opcode::RunAgent, Outcome::Completed, Some("check"));
    let text = scene.drawn("text");
    for line in [
        format!("run {}  fix 412: check is due; a runner begins it", scene.slug),
        "> plan  RUN_AGENT  custom  [2 visits, last completed]".to_owned(),
        "    completed       -> check  [taken 2 times]".to_owned(),
        "    error           -> STOP".to_owned(),
        "  check  RUN_VALIDATION  tests  [1 visit, completed; the run stands here]".to_owned(),
        "  ask  GATE  approval  [not visited]".to_owned(),
    ] {
        assert!(text.lines().any(|one| one == line), "{line:?}:\n{text}");
    }
    let mermaid = scene.drawn("mermaid");
    for line in [
        "  s0[\"plan<br/>RUN_AGENT<br/>2 visits, last completed\"]",
        "  s0 ==>|\"completed (2 times)\"| s1",
        "  s0 -->|\"error, killed_timeout, killed_idle, killed_policy\"| STOP",
        "  class s0 visited",
        "  class s1 current",
    ] {
        assert!(mermaid.lines().any(|one| one == line), "{line:?}:\n{mermaid}");
    }
    assert!(!mermaid.contains("class s2") && !mermaid.contains("class STOP"), "{mermaid}");
    let dot = scene.drawn("dot");
    for part in [
        "\"plan\" [label=\"plan\\nRUN_AGENT\\n2 visits, last completed\" style=filled fillcolor=\"#ddffdd\"];",
        "the run stands here\" style=filled fillcolor=\"#ddffdd\" penwidth=3];",
        "\"plan\" -> \"check\" [label=\"completed (2 times)\" penwidth=2];",
    ] {
        assert!(dot.contains(part), "{part}:\n{dot}");
    }
    let graph = json(&scene.repo.aynig_ok(["flow", "graph", &scene.slug[..5], "--format", "json"]));
    assert_eq!(
        (&graph["run"]["slug"], &graph["run"]["currentStep"], &graph["run"]["place"]),
        (&scene.slug.as_str().into(), &"check".into(), &"due".into())
    );
    let [plan, check, ask] = [0, 1, 2].map(|at| &graph["steps"][at]);
    assert_eq!(
        (&plan["visits"], &plan["lastOutcome"], &plan["current"]),
        (&2.into(), &"completed".into(), &false.into())
    );
    assert_eq!(
        (&check["current"], &ask["visits"], &ask["lastOutcome"]),
        (&true.into(), &0.into(), &().into())
    );
    assert_eq!((&plan["routes"][0]["taken"], &plan["routes"][1]["taken"]), (&2.into(), &0.into()));
}

/// CONTRACT 18.10
#[test]
fn an_ended_run_is_drawn_with_its_end_and_its_frozen_flow() {
    let scene = Scene::new();
    scene.drive("flow-done", "");
    scene.carry_out("plan", Opcode::RunAgent, Outcome::Error, Some("STOP"));
    scene.finish(RunStatus::Failed, Verdict::Failed, "completed");
    let text = scene.drawn("text");
    assert!(text.contains("fix 412: ended: failed") && !text.contains("stands here"), "{text}");
    assert!(scene.drawn("mermaid").contains("  class STOP visited"), "{}", scene.drawn("mermaid"));
    assert!(scene.drawn("dot").contains("\"STOP\" [shape=oval style=filled"), "{}", scene.drawn("dot"));
}

/// CONTRACT 18.10
#[test]
fn a_file_counts_before_a_run_of_the_same_name() {
    let scene = Scene::new();
    let run = scene.repo.aynig_ok(["flow", "graph", &scene.run.to_string()]);
    assert!(err(&run).contains(&format!("run {} is drawn", scene.slug)), "{}", err(&run));
    scene.repo.write(
        &scene.slug,
        &super::FILE.replace("id: plan", "id: other").replace("step: plan", "step: other"),
    );
    let file = scene.repo.aynig_ok(["flow", "graph", &scene.slug]);
    assert!(out(&file).contains("> other  RUN_AGENT") && !out(&file).contains("run "), "{}", out(&file));
    let words = format!("this is the file {}; `aynig flow graph {}` draws the run", scene.slug, scene.run);
    assert!(err(&file).contains(&words), "{}", err(&file));
    let none = scene.repo.aynig(["flow", "graph", "none.yaml"]);
    assert_refused(&none, 2, &["could not read none.yaml", "aynig flow list"]);
    let first = scene.slug.starts_with('0');
    let unknown = if first { "1234" } else { "0123" };
    assert_refused(&scene.repo.aynig(["flow", "graph", unknown]), 1, &["there is no run"]);
}
