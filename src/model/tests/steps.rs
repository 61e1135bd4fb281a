//! The rules of steps, by table.

use super::Bench;
use crate::model::artifact::ArtifactKind;
use crate::model::decide::{Command, EndedStep, NewArtifact, Refusal, StepStart};
use crate::model::ids::{FileName, StepId};
use crate::model::state::Entry;
use crate::model::step::{Opcode, Outcome};

#[test]
fn steps_follow_each_other_and_end_once() {
    let mut bench = Bench::new();
    let start = |id: &str| {
        Command::StartStep(StepStart {
            id: StepId::parse(id).unwrap(),
            opcode: Opcode::RunAgent,
            started_at: None,
        })
    };
    let end = |number, outcome, route: Option<&str>| {
        Command::EndStep(Box::new(EndedStep::new(number, outcome, route.map(str::to_owned), None)))
    };
    bench.run(start("plan")).unwrap();
    assert_eq!(bench.run(start("fix")), Err(Refusal::StepUnderWay(1)));
    assert_eq!(bench.run(end(1, Outcome::Success, Some("fix"))), Err(Refusal::BadOutcome));
    bench.run(end(1, Outcome::Error, None)).unwrap();
    assert!(matches!(bench.run(end(1, Outcome::Completed, None)), Err(Refusal::HasEnded(_))));
    bench.run(start("plan")).unwrap();
    bench.run(end(2, Outcome::Completed, Some("plan"))).unwrap();
    bench.run(start("plan")).unwrap();
    let seen: Vec<(u64, u64)> = bench.state.steps.values().map(|step| (step.visit, step.attempt)).collect();
    assert_eq!(seen, [(1, 1), (1, 2), (2, 1)]);
}

/// Each file of a ledger is read for each decision.
#[test]
fn the_artifacts_of_a_step_are_in_its_file() {
    let mut bench = Bench::new();
    let id = StepId::parse("plan").unwrap();
    bench.run(Command::StartStep(StepStart { id, opcode: Opcode::RunAgent, started_at: None })).unwrap();
    let artifact = NewArtifact {
        id: None,
        node: None,
        turn: None,
        kind: ArtifactKind::Report,
        name: FileName::parse("prompt.md").unwrap(),
        media_type: "text/markdown".to_owned(),
        size: 3,
        sha256: "11".repeat(32),
    };
    let mut end = EndedStep::new(1, Outcome::Completed, None, None);
    end.artifacts = vec![("prompt".to_owned(), artifact)];
    bench.run(Command::EndStep(Box::new(end))).unwrap();
    let step = &bench.state.steps[&1];
    let kept = step.record.as_ref().and_then(|record| record.artifact("prompt")).unwrap();
    assert_eq!(step.artifacts[&kept].name.as_str(), "prompt.md");
    assert!(bench.state.artifacts.is_empty());
    let paths: Vec<String> = bench.state.entries().iter().map(Entry::path).collect();
    assert!(!paths.iter().any(|path| path.starts_with("artifacts/")), "{paths:?}");
    assert_eq!(bench.state.all_artifacts().count(), 1);
}
