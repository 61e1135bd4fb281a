//! Random runs: replay gives the state, files give the state, and what is refused changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Map, Value};

use super::{STATUSES, edge, fresh, node_op, op, spec};
use crate::model::approval::{Always, Answer, Resolution, Tool};
use crate::model::artifact::ArtifactKind;
use crate::model::decide::{
    Answered, Command, Decided, EndedStep, EndedTurn, Finding, NewArtifact, NodeEdit, NodeSpec, Op, Rules,
    RunEdit, StepStart, decide,
};
use crate::model::event::{Event, WorkspaceChanged};
use crate::model::ids::{Alias, FileName, NodeId, OpId, StepId, TurnId};
use crate::model::message::{Expectation, MAX_MESSAGE, Payload, ResponseSpec};
use crate::model::node::{Capabilities, CliPermissions, EdgeManagement, NodeStatus, Permissions};
use crate::model::run::{GlobalMode, Limits, Mode, Usage, Verdict};
use crate::model::state::{Entry, State};
use crate::model::step::{Opcode, Outcome, Record, TurnStatus};
use crate::model::time::Timestamp;
use crate::model::trace::{Handed, Trace};
use crate::model::workspace::{Publication, Workspace, WorkspaceChange, WorkspacePatch, WorkspaceStatus};

/// Random numbers that a command is made of.
type Dice = (u8, u8, u8, u8);

const ROLES: [&str; 4] = ["orchestrator", "implementer", "reviewer", "planner"];
const OUTCOMES: [Outcome; 6] = [
    Outcome::Completed,
    Outcome::Error,
    Outcome::Success,
    Outcome::GateApproved,
    Outcome::KilledIdle,
    Outcome::NeedsHuman,
];

fn pick<T: Copy>(from: &[T], die: u8) -> Option<T> {
    (!from.is_empty()).then(|| from[usize::from(die) % from.len()])
}

fn text(die: u8) -> String {
    match die % 6 {
        0 => String::new(),
        1 => "Ünïcode ✓ \u{0}\u{7f} \"quoted\" \\ ".to_owned(),
        2 => "two\nlines\n\nSigned-off-by: nobody".to_owned(),
        3 => "x".repeat(MAX_MESSAGE + 1),
        _ => format!("text {die}"),
    }
}

/// A command about what the state holds, or about nothing that exists.
fn command(state: &State, dice: Dice) -> Command {
    let (kind, a, b, _) = dice;
    let nodes: Vec<NodeId> = state.nodes.keys().copied().collect();
    let stranger = NodeId::from(uuid::Uuid::from_u128(7));
    let one = pick(&nodes, a).unwrap_or(stranger);
    let two = if b.is_multiple_of(16) { stranger } else { pick(&nodes, b).unwrap_or(stranger) };
    match kind % 18 {
        0..=8 => graph(state, dice, [one, two]),
        9..=13 => talk(state, dice, [one, two]),
        14..=16 => work(state, dice, one),
        _ => workspace(dice),
    }
}

/// A command about the run, its nodes and its edges.
fn graph(state: &State, (kind, a, b, c): Dice, [one, two]: [NodeId; 2]) -> Command {
    match kind % 18 {
        0 => Command::SetRun(RunEdit {
            status: pick(&STATUSES, a),
            mode: (b.is_multiple_of(3)).then_some(Mode::Auto),
            global_mode: (c.is_multiple_of(3)).then_some(GlobalMode::Planning),
            label: (c.is_multiple_of(2)).then(|| text(b)),
            done_when: (b.is_multiple_of(4)).then(|| (c.is_multiple_of(2)).then(|| text(c))),
            waiting_for: (a.is_multiple_of(5)).then(|| (b.is_multiple_of(2)).then(|| text(a))),
            verdict: (a.is_multiple_of(7)).then(|| (b.is_multiple_of(2)).then_some(Verdict::Rejected)),
            ..RunEdit::default()
        }),
        1 if a.is_multiple_of(32) => Command::DeleteRun,
        1..=3 => Command::AddNode(Box::new(NodeSpec {
            alias: (c.is_multiple_of(2)).then(|| Alias::parse(&format!("n{}", b % 8)).unwrap()),
            label: text(c | 4),
            capabilities: (c.is_multiple_of(5)).then(|| Capabilities {
                edge_management: pick(&[EdgeManagement::None, EdgeManagement::Own, EdgeManagement::All], b)
                    .unwrap(),
                ..Capabilities::of_role("planner")
            }),
            permissions: (b.is_multiple_of(5)).then_some(Permissions {
                cli_permissions_mode: CliPermissions::Skip,
                agent_management_requires_approval: a.is_multiple_of(2),
            }),
            limits: Limits { turns: (a.is_multiple_of(3)).then_some(u64::from(a)), ..Limits::default() },
            ..spec("x", ROLES[usize::from(a) % 4])
        })),
        4 => Command::SetNode(
            one,
            NodeEdit {
                label: (b.is_multiple_of(2)).then(|| text(c)),
                status: pick(&[NodeStatus::Running, NodeStatus::Idle, NodeStatus::Failed], c),
                summary: (c.is_multiple_of(2)).then(|| text(b)),
                limits: (b.is_multiple_of(7)).then_some(Limits { cost_usd: Some(0.1), ..Limits::default() }),
                ..NodeEdit::default()
            },
        ),
        5 if c.is_multiple_of(3) => Command::RemoveNode(one),
        5..=7 => Command::AddEdge(crate::model::decide::EdgeSpec {
            bidirectional: (c.is_multiple_of(3)).then_some(c.is_multiple_of(2)),
            ..edge(one, two)
        }),
        _ => {
            let edges: Vec<_> = state.edges.keys().copied().collect();
            Command::RemoveEdge(pick(&edges, a).unwrap_or(OpId::from(uuid::Uuid::nil()).derive("edge", 1)))
        }
    }
}

/// A command about messages and approvals.
fn talk(state: &State, (kind, a, b, c): Dice, [one, two]: [NodeId; 2]) -> Command {
    match kind % 18 {
        9 => Command::Chat {
            node: (!a.is_multiple_of(4)).then_some(one),
            content: text(b),
            interrupt: c.is_multiple_of(2),
        },
        10 | 11 => {
            let replied: Vec<String> = state.inbox(one).iter().map(|item| item.id().to_string()).collect();
            let expectation = if c.is_multiple_of(2) { Expectation::Required } else { Expectation::None };
            let reply_to = replied.get(usize::from(c) % replied.len().max(1)).cloned();
            let response = Some(ResponseSpec { expectation, reply_to });
            Command::HandOff {
                from: one,
                to: two,
                payload: Payload { message: text(b), response, ..Payload::default() },
            }
        }
        12 if a.is_multiple_of(8) => Command::Overdue(one),
        12 if a.is_multiple_of(4) => Command::Done {
            node: one,
            message: b.is_multiple_of(2).then(|| text(c)),
            finding: match c % 3 {
                0 => Finding::Accepted,
                1 => Finding::Refused(text(b)),
                _ => Finding::Unknown(text(b)),
            },
        },
        12 => Command::Ask {
            node: one,
            tool: Tool::new(format!("tool-{c}"), "command", arguments(c % 4)),
            context: (b.is_multiple_of(2)).then(|| text(b)),
            expires_at: Timestamp::from_millis(i64::from(b)),
            heard: state.approvals.keys().copied().take(usize::from(c % 2)).collect(),
            turn: (c % 3 == 1).then(|| TurnId::from(uuid::Uuid::from_u128(u128::from(c % 8)))),
        },
        _ => {
            let asked: Vec<_> = state.approvals.keys().copied().collect();
            let approval = pick(&asked, a).unwrap_or(OpId::from(uuid::Uuid::nil()).derive("approval", 1));
            match b % 11 {
                5 => {
                    return Command::Hear {
                        approval,
                        turn: TurnId::from(uuid::Uuid::from_u128(u128::from(c % 8))),
                    };
                }
                6 => return Command::Revoke(approval),
                7 => return Command::Expire(one),
                8 => return Command::Grant { approval, always: Always::Call },
                9 => return Command::Grant { approval, always: Always::Tool },
                _ => {}
            }
            if b.is_multiple_of(4) {
                let reason = (c.is_multiple_of(2)).then(|| text(c));
                return Command::Approve { approval, required: u64::from(c % 4), reason };
            }
            Command::Answer {
                approval,
                resolution: Resolution {
                    status: pick(&[Answer::Approved, Answer::Denied, Answer::Modified], b).unwrap(),
                    modified_args: (b % 3 == 2).then(|| arguments(c)),
                    reason: (c.is_multiple_of(2)).then(|| text(c)),
                },
            }
        }
    }
}

fn answered(b: u8) -> Answered {
    let tool = Tool::new("tool", "command", arguments(b));
    Answered { tool, context: None, is_approved: b.is_multiple_of(2) }
}

/// A command about turns, artifacts and steps.
fn work(state: &State, (kind, a, b, c): Dice, one: NodeId) -> Command {
    match kind % 18 {
        14 => {
            let inbox = state.inbox(one);
            let read = inbox.iter().take(usize::from(b) % 4).map(|item| item.id());
            Command::EndTurn(Box::new(EndedTurn {
                consumed: read.collect(),
                last_words: (c.is_multiple_of(2)).then(|| text(b)),
                usage: (a.is_multiple_of(2)).then_some(Usage {
                    prompt_tokens: u64::from(a),
                    cost_usd: (b.is_multiple_of(2)).then_some(f64::from(b) / 3.0),
                    ..Usage::default()
                }),
                excused: c.is_multiple_of(5),
                session: (c.is_multiple_of(3)).then(|| text(c)),
                trace: (b.is_multiple_of(2)).then(|| Box::new(trace(b, c))),
                answered: (0..c % 3).map(|_| answered(b)).collect(),
                ..EndedTurn::new(
                    one,
                    TurnId::from(uuid::Uuid::from_u128(u128::from(c % 8))),
                    pick(&[TurnStatus::Completed, TurnStatus::Failed, TurnStatus::Interrupted], a).unwrap(),
                    Timestamp::from_millis(0).unwrap(),
                )
            }))
        }
        15 => Command::AddArtifact(NewArtifact {
            id: None,
            node: (a.is_multiple_of(2)).then_some(one),
            turn: (b.is_multiple_of(2)).then(|| TurnId::from(uuid::Uuid::from_u128(u128::from(c % 8)))),
            kind: ArtifactKind::Diff,
            name: FileName::parse("diff.patch").unwrap(),
            media_type: "text/x-diff".to_owned(),
            size: u64::from(c),
            sha256: "00".repeat(32),
        }),
        16 if a.is_multiple_of(2) => Command::StartStep(StepStart {
            id: StepId::parse(["plan", "fix"][usize::from(b) % 2]).unwrap(),
            opcode: pick(&[Opcode::RunAgent, Opcode::Evaluate, Opcode::Gate], c).unwrap(),
            started_at: None,
        }),
        _ => Command::EndStep(Box::new(ended_step(state, one, (a, b, c)))),
    }
}

fn ended_step(state: &State, node: NodeId, (a, b, c): (u8, u8, u8)) -> EndedStep {
    let usage = Usage { total_tokens: u64::from(a), ..Usage::default() };
    let artifact = NewArtifact {
        id: None,
        node: None,
        turn: None,
        kind: ArtifactKind::Report,
        name: FileName::parse("report.json").unwrap(),
        media_type: "application/json".to_owned(),
        size: u64::from(c),
        sha256: "11".repeat(32),
    };
    let record = Record {
        tree: (a.is_multiple_of(2)).then(|| text(a)),
        usage: (b.is_multiple_of(2)).then_some(usage),
        exit_codes: [(text(b), i32::from(c))].into(),
        ..Record::default()
    };
    EndedStep {
        number: state.run.counts.steps + u64::from(c.is_multiple_of(8)),
        outcome: pick(&OUTCOMES, b).unwrap(),
        route: (!c.is_multiple_of(3)).then(|| "STOP".to_owned()),
        evidence: (c.is_multiple_of(2)).then(|| text(c)),
        record,
        artifacts: if a.is_multiple_of(3) {
            vec![("validation_report".to_owned(), artifact)]
        } else {
            Vec::new()
        },
        usage_of: (c.is_multiple_of(2)).then_some((node, None)),
    }
}

fn arguments(die: u8) -> Map<String, Value> {
    let mut args = Map::new();
    args.insert("z".to_owned(), Value::from(die));
    args.insert("cmd".to_owned(), Value::from(text(die % 3)));
    args
}

/// A publication whose proposal has this address.
pub(super) fn publication_at(url: String) -> Publication {
    Publication { url: Some(url), ..publication(1) }
}

fn publication(die: u8) -> Publication {
    Publication {
        remote: "https://example.org/r".to_owned(),
        branch: "work/abc/flow".to_owned(),
        base: "main".to_owned(),
        commit: format!("{die:040}"),
        head: format!("{die:040}"),
        squashed: die.is_multiple_of(2),
        url: (die.is_multiple_of(3)).then(|| text(die)),
        text: None,
        count: u64::from(die),
    }
}

fn workspace((_, a, b, c): Dice) -> Command {
    let name = Alias::parse(["flow", "planner"][usize::from(a) % 2]).unwrap();
    if b.is_multiple_of(2) {
        return Command::PrepareWorkspace(Workspace {
            name,
            branch_name: "work/abc/flow".to_owned(),
            base_ref: "refs/heads/main".to_owned(),
            base_sha: "0".repeat(40),
            created_at: Timestamp::from_millis(1).unwrap(),
            status: WorkspaceStatus::Ready,
            head_sha: "0".repeat(40),
            generation: 0,
            remote_branch: None,
            pr_url: None,
            rolled_back_after: None,
            published: Vec::new(),
        });
    }
    let patch = WorkspacePatch {
        head_sha: Some(format!("{:040}", c)),
        generation: (c.is_multiple_of(2)).then_some(u64::from(c)),
        pr_url: (c.is_multiple_of(3)).then(|| (c.is_multiple_of(2)).then(|| text(c))),
        published: (c.is_multiple_of(5)).then(|| vec![publication(c)]),
        ..WorkspacePatch::default()
    };
    let changes = [
        WorkspaceChange::Snapshot,
        WorkspaceChange::RolledBack,
        WorkspaceChange::Removed,
        WorkspaceChange::Pushed,
        WorkspaceChange::Proposed,
    ];
    let body = WorkspaceChanged { name, patch, rescue: None, detail: (b.is_multiple_of(3)).then(|| text(b)) };
    Command::ChangeWorkspace(pick(&changes, b).unwrap(), body)
}

/// The files of a tree, kept as operations change them.
type Files = BTreeMap<String, Vec<u8>>;

fn write(files: &mut Files, state: &State, changed: impl IntoIterator<Item = Entry>) {
    for entry in changed {
        match state.content(&entry) {
            Some(content) => files.insert(entry.path(), content),
            None => files.remove(&entry.path()),
        };
    }
}

fn read(files: &Files) -> State {
    let mut state = State::from_run(&files["run.json"]).unwrap();
    for (path, content) in files {
        state.load(&Entry::parse(path).unwrap(), content).unwrap();
    }
    state
}

/// Writes the events as lines, reads them back, and applies them.
fn replay(state: &mut Option<State>, decided: &Decided) {
    for event in &decided.events {
        let line = serde_json::to_vec(event).unwrap();
        assert!(!line.contains(&b'\n'));
        let read = Event::parse(&line).unwrap();
        assert_eq!(read, *event, "{}", String::from_utf8_lossy(&line));
        match state {
            None => *state = Some(State::begin(&read).unwrap().0),
            Some(state) => drop(state.apply(&read).unwrap()),
        }
    }
}

fn operation(state: &State, number: u64, die: u8) -> Op {
    let nodes: Vec<NodeId> = state.nodes.keys().copied().collect();
    match pick(&nodes, die) {
        Some(node) if die.is_multiple_of(3) => node_op(number, node),
        Some(_) | None => op(number),
    }
}

/// What holds for every state that can be reached.
fn check(state: &State) {
    let aliases: BTreeSet<&Alias> = state.nodes.values().map(|node| &node.alias).collect();
    assert_eq!(aliases.len(), state.nodes.len(), "two nodes with one alias");
    assert!(aliases.iter().all(|alias| !state.run.retired.contains(*alias)), "an alias was given again");
    assert!(state.configs.keys().eq(state.nodes.keys()), "a node without its configuration");
    for edge in state.edges.values() {
        assert!(
            state.nodes.contains_key(&edge.from)
                && state.nodes.contains_key(&edge.to)
                && edge.from != edge.to
        );
        let doubles = state.edges.values().filter(|other| other.overlaps(edge)).count();
        assert_eq!(doubles, 1, "two edges in one direction");
    }
    for node in state.nodes.values() {
        assert_eq!(node.inbox_count, u64::try_from(state.inbox(node.id).len()).unwrap());
    }
    assert!(state.inboxes.keys().all(|node| state.nodes.contains_key(node)), "an inbox without its node");
    let open = state.steps.values().filter(|step| step.ended_at.is_none()).count();
    assert!(open <= 1, "two steps at a time");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn replaying_the_events_gives_the_state_and_its_files(
        rolls in prop::collection::vec(any::<(Dice, u8)>(), 1..120),
    ) {
        let first = fresh();
        let (mut state, mut files, mut replayed) = (first.state.clone(), Files::new(), None);
        write(&mut files, &state, first.changed.clone());
        replay(&mut replayed, &first);
        for (number, (dice, who)) in rolls.into_iter().enumerate() {
            let op = operation(&state, u64::try_from(number).unwrap() + 1, who);
            let command = command(&state, dice);
            let decided = decide(&state, std::slice::from_ref(&command), &op, Rules::default());
            // Deciding is a function: the same again is the same.
            prop_assert_eq!(&decided, &decide(&state, &[command], &op, Rules::default()));
            let Ok(decided) = decided else { continue };
            write(&mut files, &decided.state, decided.changed.clone());
            replay(&mut replayed, &decided);
            state = decided.state;
            check(&state);
            if state.deleted {
                break;
            }
        }
        prop_assert_eq!(replayed.as_ref(), Some(&state));
        let mut all = Files::new();
        write(&mut all, &state, state.entries());
        prop_assert_eq!(&all, &files, "an operation did not name every file that it changed");
        prop_assert_eq!(read(&files), State { deleted: false, ..state });
    }

    #[test]
    fn an_event_that_does_not_fit_changes_nothing(
        mine in prop::collection::vec(any::<Dice>(), 1..40),
        theirs in prop::collection::vec(any::<Dice>(), 1..40),
    ) {
        // Two runs with one id that went their own ways: the events of one, applied to the other.
        let run = |rolls: Vec<Dice>, first: u64| {
            let (mut state, mut events) = (fresh().state, Vec::new());
            for (number, dice) in rolls.into_iter().enumerate() {
                let command = command(&state, dice);
                let op = op(first + u64::try_from(number).unwrap());
                if let Ok(decided) = decide(&state, &[command], &op, Rules::default()) {
                    state = decided.state;
                    events.extend(decided.events);
                }
            }
            (state, events)
        };
        let (mut state, _) = run(mine, 1);
        for event in run(theirs, 1_000).1 {
            let before = state.clone();
            if state.apply(&event).is_err() {
                prop_assert_eq!(&state, &before);
            }
        }
    }
}

fn trace(b: u8, c: u8) -> Trace {
    Trace {
        turn: c.to_string(),
        is_of_person: b.is_multiple_of(4),
        output: (b.is_multiple_of(3)).then(|| text(c)),
        tree: text(b),
        handed: vec![Handed { to: text(b), message: text(c) }],
        ..Trace::default()
    }
}
