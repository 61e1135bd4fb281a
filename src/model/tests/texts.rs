//! Free texts of commands: a secret in any of them can be masked before the command is decided.

use serde_json::{Map, Value};

use super::{Bench, edge};
use crate::model::approval::{Answer, Resolution, Tool};
use crate::model::artifact::ArtifactKind;
use crate::model::decide::{Answered, Command, EndedStep, EndedTurn, NewArtifact, NodeEdit, RunEdit};
use crate::model::event::WorkspaceChanged;
use crate::model::ids::{Alias, ApprovalId, FileName, TurnId};
use crate::model::message::{ArtifactRef, Payload, PayloadStatus};
use crate::model::run::Replicate;
use crate::model::step::{Outcome, Record, TurnStatus};
use crate::model::time::Timestamp;
use crate::model::workspace::{WorkspaceChange, WorkspacePatch};

const SECRET: &str = "hunter2";

fn object() -> Map<String, Value> {
    Map::from_iter([(format!("key {SECRET}"), Value::from(vec![Value::from(format!("deep {SECRET}"))]))])
}

/// CONTRACT 16.5
#[test]
fn a_secret_in_any_text_is_found() {
    let mut bench = Bench::new();
    let (one, two) = (bench.node("one", "orchestrator"), bench.node("two", "planner"));
    let some = || Some(format!("a {SECRET}"));
    let text = || format!("the {SECRET}");
    let at = Timestamp::from_millis(0).unwrap();
    let mut spec = super::spec("three", "planner");
    (spec.label, spec.role_text) = (text(), some());
    let payload = Payload {
        message: text(),
        structured: Some(object()),
        artifacts: vec![ArtifactRef { kind: text(), reference: text() }],
        status: Some(PayloadStatus { ok: false, reason: some() }),
        response: None,
    };
    let turn = EndedTurn {
        last_words: some(),
        detail: some(),
        unsaid: vec![text()],
        answered: vec![Answered {
            tool: Tool::new("1", "shell", object()),
            context: some(),
            is_approved: true,
        }],
        ..EndedTurn::new(one, TurnId::from(uuid::Uuid::from_u128(1)), TurnStatus::Failed, at)
    };
    let artifact = NewArtifact {
        id: None,
        node: None,
        turn: None,
        kind: ArtifactKind::Log,
        name: FileName::parse(&format!("{SECRET}.log")).unwrap(),
        media_type: "text/plain".to_owned(),
        size: 1,
        sha256: String::new(),
    };
    let resolution = Resolution { status: Answer::Modified, modified_args: Some(object()), reason: some() };
    let changed = WorkspaceChanged {
        name: Alias::parse("one").unwrap(),
        patch: WorkspacePatch {
            pr_url: Some(some()),
            published: Some(vec![super::properties::publication_at(text())]),
            ..WorkspacePatch::default()
        },
        rescue: None,
        detail: some(),
    };
    let tool = Tool::new("1", "shell", object());
    let commands = [
        Command::SetRun(RunEdit { label: some(), done_when: Some(some()), ..RunEdit::default() }),
        Command::AddNode(Box::new(spec)),
        Command::SetNode(one, NodeEdit { label: some(), summary: some(), ..NodeEdit::default() }),
        Command::AddEdge(crate::model::decide::EdgeSpec { label: some(), ..edge(one, two) }),
        Command::Chat { node: Some(one), content: text(), interrupt: false },
        Command::HandOff { from: one, to: two, payload },
        Command::Ask { node: one, tool, context: some(), expires_at: None, heard: Vec::new(), turn: None },
        Command::Answer { approval: ApprovalId::from(uuid::Uuid::from_u128(1)), resolution },
        Command::Approve {
            approval: ApprovalId::from(uuid::Uuid::from_u128(1)),
            required: 2,
            reason: some(),
        },
        Command::EndTurn(Box::new(turn)),
        Command::EndStep(Box::new(EndedStep {
            record: Record {
                violations: vec![text()],
                flags: vec![text()],
                blockers: [text()].into(),
                fix_instructions: Some(Value::Object(object())),
                ..Record::default()
            },
            ..EndedStep::new(1, Outcome::Completed, None, some())
        })),
        Command::AddArtifact(artifact),
        Command::ChangeWorkspace(WorkspaceChange::Mended, changed),
    ];
    for mut command in commands {
        assert!(format!("{command:?}").contains(SECRET));
        command.change_texts(&|text| *text = text.replace(SECRET, "***"));
        let shown = format!("{command:?}");
        assert!(shown.contains("***") && !shown.contains(SECRET), "{shown}");
    }
}

/// CONTRACT 16.6
#[test]
fn what_is_replicated() {
    use ArtifactKind::{Contextpack, Diff, Log, Prompt, Report, Transcript};
    let table = [
        (Replicate::All, [Diff, Prompt, Log, Transcript, Contextpack, Report].as_slice()),
        (Replicate::Summary, &[Diff, Report]),
        (Replicate::None, &[]),
    ];
    for (replicate, kept) in table {
        for kind in [Diff, Prompt, Log, Transcript, Contextpack, Report] {
            assert_eq!(replicate.keeps(kind), kept.contains(&kind), "{replicate:?} {kind:?}");
        }
        assert_eq!(Replicate::parse(replicate.word()), Some(replicate));
    }
    assert_eq!(Replicate::parse("some"), None);
}
