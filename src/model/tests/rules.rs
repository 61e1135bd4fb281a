//! The rules of runs, nodes, edges, messages, approvals, turns and steps, by table.

use serde_json::Map;

use super::{Bench, STATUSES, edge, op, spec};
use crate::model::approval::{Answer, Resolution, Tool};
use crate::model::by::By;
use crate::model::decide::{
    Command, EdgeSpec, EndedTurn, NodeEdit, NodeSpec, Op, Refusal, Rules, RunEdit, decide,
};
use crate::model::event::Body;
use crate::model::ids::{Alias, ApprovalId, NodeId, OpId, TurnId};
use crate::model::message::{Expectation, Payload, ResponseSpec};
use crate::model::node::{CliPermissions, NodeStatus, Permissions};
use crate::model::run::{Limits, Mode, RunStatus, Usage};
use crate::model::step::TurnStatus;
use crate::model::time::Timestamp;

fn status(to: RunStatus) -> Command {
    Command::SetRun(RunEdit { status: Some(to), ..RunEdit::default() })
}

fn kinds(bodies: &[crate::model::event::Event]) -> Vec<String> {
    bodies
        .iter()
        .map(|event| serde_json::to_value(event).unwrap()["type"].as_str().unwrap().to_owned())
        .collect()
}

fn say(message: &str) -> Payload {
    Payload { message: message.to_owned(), ..Payload::default() }
}

#[test]
fn a_run_goes_from_status_to_status() {
    // Rows: from. Columns: to, in the order of STATUSES.
    let table = [
        (RunStatus::Queued, [true, true, false, false, false, false]),
        (RunStatus::Running, [false, true, true, true, true, true]),
        (RunStatus::Paused, [false, true, true, true, true, false]),
        (RunStatus::Stopped, [false, true, false, true, false, false]),
        (RunStatus::Completed, [false, true, false, false, true, false]),
        (RunStatus::Failed, [false, true, false, false, false, true]),
    ];
    for (from, allowed) in table {
        for (to, allowed) in STATUSES.into_iter().zip(allowed) {
            let mut bench = Bench::new();
            bench.state.run.status = from;
            let before = bench.state.clone();
            match bench.run(status(to)) {
                Ok(decided) if from == to => assert!(allowed && decided.events.is_empty()),
                Ok(decided) => {
                    assert!(allowed, "{from:?} to {to:?}");
                    assert_eq!(
                        (kinds(&decided.events), bench.state.run.status),
                        (vec!["run.patch".to_owned()], to)
                    );
                }
                Err(refusal) => {
                    assert!(!allowed, "{from:?} to {to:?}: {refusal}");
                    assert_eq!(bench.state, before);
                    assert!(refusal.to_string().contains("it can become"), "{refusal}");
                }
            }
        }
    }
}

#[test]
fn the_mode_follows_every_change_and_auto_without_an_end_is_bounded() {
    let mut bench = Bench::new();
    let edit = RunEdit { mode: Some(Mode::Auto), ..RunEdit::default() };
    assert_eq!(kinds(&bench.run(Command::SetRun(edit.clone())).unwrap().events), ["run.patch", "run.mode"]);
    assert!(bench.run(Command::SetRun(edit)).unwrap().events.is_empty());
}

#[test]
fn a_deleted_run_is_stopped_first_and_takes_nothing_more() {
    let mut bench = Bench::new();
    assert_eq!(kinds(&bench.run(Command::DeleteRun).unwrap().events), ["run.patch", "run.deleted"]);
    assert!(bench.state.deleted && bench.state.run.status == RunStatus::Stopped);
    assert!(matches!(bench.run(status(RunStatus::Running)), Err(Refusal::Defect(_))));
}

#[test]
fn a_run_of_another_version_is_never_written() {
    let mut bench = Bench::new();
    bench.state.run.contract_version = "2".to_owned();
    assert_eq!(bench.run(status(RunStatus::Paused)), Err(Refusal::Version("2".to_owned())));
}

#[test]
fn aliases_come_from_labels_and_stay_taken() {
    let mut bench = Bench::new();
    let label = |label: &str| {
        Command::AddNode(Box::new(NodeSpec { alias: None, label: label.to_owned(), ..spec("x", "r") }))
    };
    for text in ["Implementer A", "implementer-a", " Implementer  A!"] {
        bench.run(label(text)).unwrap();
    }
    let mut aliases: Vec<&str> = bench.state.nodes.values().map(|node| node.alias.as_str()).collect();
    aliases.sort_unstable();
    assert_eq!(aliases, ["implementer-a", "implementer-a-2", "implementer-a-3"]);
    let first = bench.state.node_named(&Alias::parse("implementer-a").unwrap()).unwrap().id;
    bench.run(Command::RemoveNode(first)).unwrap();
    let again = bench.run(Command::AddNode(Box::new(spec("implementer-a", "r"))));
    assert!(matches!(again, Err(Refusal::AliasTaken(_))));
    assert!(matches!(bench.run(label("…")), Err(Refusal::NoAlias(_))));
}

/// CONTRACT 22.42
#[test]
fn edges_have_defaults_by_role_and_no_doubles() {
    let mut bench = Bench::new();
    let (top, a, b) =
        (bench.node("top", "orchestrator"), bench.node("a", "implementer"), bench.node("b", "reviewer"));
    bench.edge(top, a).unwrap();
    bench.edge(a, top).unwrap();
    bench.edge(a, b).unwrap();
    let mut found: Vec<String> = bench
        .state
        .edges
        .values()
        .map(|edge| {
            let name = |id: &NodeId| bench.state.nodes[id].alias.to_string();
            format!(
                "{}>{} {:?} {} {}",
                name(&edge.from),
                name(&edge.to),
                edge.edge_type,
                edge.label,
                edge.bidirectional
            )
        })
        .collect();
    found.sort();
    assert_eq!(found, ["a>b Handoff task true", "a>top Report report false", "top>a Handoff task false"]);
    assert!(matches!(bench.edge(b, a), Err(Refusal::EdgeExists(_))), "the other edge leads both ways");
    assert!(matches!(bench.edge(top, a), Err(Refusal::EdgeExists(_))));
    assert_eq!(bench.edge(a, a), Err(Refusal::SelfLoop));
    // Both ways at once is not for orchestrators.
    let both = EdgeSpec { bidirectional: Some(true), ..edge(top, b) };
    bench.run(Command::AddEdge(both)).unwrap();
    assert!(!bench.state.edges.values().any(|edge| edge.from == top && edge.bidirectional));
}

/// CONTRACT 22.15
#[test]
fn a_node_gives_no_more_than_it_has() {
    let mut bench = Bench::new();
    let top = bench.node("top", "orchestrator");
    let plain = bench.node("plain", "implementer");
    let add = |spec: NodeSpec| Command::AddNode(Box::new(spec));
    assert!(matches!(bench.run_as(plain, add(spec("x", "r"))), Err(Refusal::NotAllowed { .. })));
    let skip =
        Permissions { cli_permissions_mode: CliPermissions::Skip, agent_management_requires_approval: true };
    let more = NodeSpec { permissions: Some(skip), ..spec("x", "r") };
    assert!(matches!(bench.run_as(top, add(more)), Err(Refusal::MoreThanItsOwn { what: "permissions", .. })));
    bench.run_as(top, add(spec("kid", "implementer"))).unwrap();
    let kid = bench.state.node_named(&Alias::parse("kid").unwrap()).unwrap();
    assert_eq!(kid.depth, 1);
    let ways = |from: NodeId, to: NodeId| bench.state.edges.values().any(|edge| edge.permits(from, to));
    assert!(ways(top, kid.id) && ways(kid.id, top), "a child can be reached, and can report");
    // Limits of its own bind what it makes.
    let limits = Limits { turns: Some(3), ..Limits::default() };
    bench.run(Command::SetNode(top, NodeEdit { limits: Some(limits), ..NodeEdit::default() })).unwrap();
    assert!(matches!(
        bench.run_as(top, add(spec("y", "r"))),
        Err(Refusal::MoreThanItsOwn { what: "limits", .. })
    ));
    assert!(matches!(bench.run_as(top, Command::RemoveNode(plain)), Err(Refusal::PersonsOnly(_))));
    assert!(matches!(bench.run_as(top, status(RunStatus::Paused)), Err(Refusal::PersonsOnly(_))));
}

#[test]
fn nodes_and_levels_are_bounded() {
    let mut bench = Bench::new();
    let limits = Limits { nodes: Some(3), depth: Some(1), ..Limits::default() };
    bench.run(Command::SetRun(RunEdit { limits: Some(limits), ..RunEdit::default() })).unwrap();
    let top = bench.node("top", "orchestrator");
    bench.run_as(top, Command::AddNode(Box::new(spec("kid", "orchestrator")))).unwrap();
    let kid = bench.state.node_named(&Alias::parse("kid").unwrap()).unwrap().id;
    let deeper = bench.run_as(kid, Command::AddNode(Box::new(spec("deep", "r"))));
    assert!(matches!(deeper, Err(Refusal::Limit { bound: 1, .. })));
    bench.node("third", "r");
    let fourth = bench.run(Command::AddNode(Box::new(spec("fourth", "r"))));
    assert!(matches!(fourth, Err(Refusal::Limit { what: "nodes", bound: 3 })));
}

#[test]
fn work_goes_along_edges_and_inboxes_are_bounded() {
    let mut bench = Bench::new();
    let (a, b, c) =
        (bench.node("a", "implementer"), bench.node("b", "reviewer"), bench.node("c", "reviewer"));
    bench.edge(a, b).unwrap();
    let refusal = bench.run(Command::HandOff { from: a, to: c, payload: say("x") }).unwrap_err();
    assert_eq!(refusal.to_string(), "no edge leads from a to c: ask for one, or hand the work to b");
    for _ in 0..16 {
        bench.run_as(a, Command::HandOff { from: a, to: b, payload: say("x") }).unwrap();
    }
    let full = bench.run_as(a, Command::HandOff { from: a, to: b, payload: say("x") });
    assert!(matches!(full, Err(Refusal::Full { unread: 16, .. })));
    // Never for people.
    bench.run(Command::Chat { node: Some(b), content: "hello".to_owned(), interrupt: false }).unwrap();
    assert!(matches!(
        bench.run_as(c, Command::HandOff { from: a, to: b, payload: say("x") }),
        Err(Refusal::PersonsOnly(_))
    ));
    assert!(matches!(
        bench.run(Command::HandOff { from: a, to: b, payload: say("") }),
        Err(Refusal::Length { bytes: 0, .. })
    ));
}

#[test]
fn interrupting_messages_are_read_first_and_chat_finds_the_oldest_orchestrator() {
    let mut bench = Bench::new();
    let say = |text: &str, interrupt| Command::Chat { node: None, content: text.to_owned(), interrupt };
    assert_eq!(bench.run(say("x", false)), Err(Refusal::NoOrchestrator));
    let top = bench.node("top", "orchestrator");
    bench.node("second", "orchestrator");
    for (text, interrupt) in [("one", false), ("two", true), ("three", false)] {
        bench.run(say(text, interrupt)).unwrap();
    }
    let order: Vec<u64> = bench.state.inbox(top).iter().map(|item| item.number).collect();
    assert_eq!((order, bench.state.nodes[&top].inbox_count), (vec![2, 1, 3], 3));
    bench.run(status(RunStatus::Paused)).unwrap();
    bench.run(say("to a paused run", false)).unwrap();
    bench.run(status(RunStatus::Stopped)).unwrap();
    assert_eq!(
        bench.run(say("x", false)),
        Err(Refusal::Ended(RunStatus::Stopped, bench.state.run.slug.clone()))
    );
}

#[test]
fn a_message_of_a_person_brings_a_failed_node_back() {
    let mut bench = Bench::new();
    let a = bench.node("a", "implementer");
    let failed = NodeEdit { status: Some(NodeStatus::Failed), ..NodeEdit::default() };
    bench.run(Command::SetNode(a, failed)).unwrap();
    bench.run(Command::Chat { node: Some(a), content: "try again".to_owned(), interrupt: false }).unwrap();
    assert_eq!(bench.state.nodes[&a].status, NodeStatus::Idle);
}

#[test]
fn a_required_answer_is_waited_for() {
    let mut bench = Bench::new();
    let (a, b) = (bench.node("a", "implementer"), bench.node("b", "reviewer"));
    bench.edge(a, b).unwrap();
    let response = ResponseSpec { expectation: Expectation::Required, reply_to: None };
    let question = Payload { response: Some(response), ..say("?") };
    bench.run_as(a, Command::HandOff { from: a, to: b, payload: question }).unwrap();
    let asked = bench.state.nodes[&a].waiting_for.unwrap();
    let response = ResponseSpec { expectation: Expectation::None, reply_to: Some(asked.to_string()) };
    bench
        .run_as(
            b,
            Command::HandOff { from: b, to: a, payload: Payload { response: Some(response), ..say("!") } },
        )
        .unwrap();
    assert_eq!(bench.state.nodes[&a].waiting_for, None);
}

fn tool(command: &str) -> Tool {
    let mut args = Map::new();
    args.insert("cmd".to_owned(), command.into());
    Tool::new("tool-1", "command", args)
}

fn answer(status: Answer, reason: &str) -> Resolution {
    Resolution { status, modified_args: None, reason: Some(reason.to_owned()) }
}

#[test]
fn the_first_answer_counts() {
    let mut bench = Bench::new();
    let a = bench.node("a", "implementer");
    let ask = |command: &str| Command::Ask {
        node: a,
        tool: tool(command),
        context: None,
        expires_at: None,
        heard: Vec::new(),
        turn: None,
    };
    bench.run_as(a, ask("rm -r x")).unwrap();
    assert_eq!(bench.state.nodes[&a].status, NodeStatus::Blocked);
    assert!(bench.run_as(a, ask("rm -r x")).unwrap().events.is_empty(), "the open request is taken over");
    let approval = *bench.state.approvals.keys().next().unwrap();
    let give = |resolution| Command::Answer { approval, resolution };
    assert!(matches!(bench.run_as(a, give(answer(Answer::Approved, "me"))), Err(Refusal::PersonsOnly(_))));
    assert!(matches!(bench.run(give(answer(Answer::Modified, ""))), Err(Refusal::BadAnswer(_))));
    bench.run(give(answer(Answer::Denied, "no"))).unwrap();
    assert_eq!(bench.state.nodes[&a].status, NodeStatus::Idle);
    assert!(bench.run(give(answer(Answer::Denied, "no"))).unwrap().events.is_empty());
    let late = bench.run(give(answer(Answer::Approved, "yes"))).unwrap_err();
    assert_eq!(late.to_string(), "the request was answered before: denied, by Ann <ann@example.org>");
    let unknown = Command::Answer {
        approval: OpId::random().derive("approval", 9),
        resolution: answer(Answer::Denied, ""),
    };
    assert!(matches!(bench.run(unknown), Err(Refusal::NoApproval(_))));
}

#[test]
fn several_different_people_approve_and_one_denies() {
    let asked = || {
        let mut bench = Bench::new();
        let a = bench.node("a", "implementer");
        bench
            .run(Command::Ask {
                node: a,
                tool: tool("x"),
                context: None,
                expires_at: None,
                heard: Vec::new(),
                turn: None,
            })
            .unwrap();
        let approval = *bench.state.approvals.keys().next().unwrap();
        (bench, approval)
    };
    let (mut bench, approval) = asked();
    let give = || Command::Approve { approval, required: 2, reason: None };
    let of = |bench: &mut Bench, number, email: &str| {
        let by = By::Person {
            name: "x".to_owned(),
            email: email.to_owned(),
            runner: "host".to_owned(),
            signature: None,
        };
        let decided = decide(&bench.state, &[give()], &Op { by, ..op(number) }, Rules::default()).unwrap();
        bench.state = decided.state.clone();
        kinds(&decided.events).len()
    };
    assert_eq!(of(&mut bench, 101, "ann@example.org"), 1);
    assert_eq!(of(&mut bench, 102, "Ann@example.org"), 0, "the same person counts once");
    assert!(bench.state.approvals[&approval].resolution.is_none());
    assert!(of(&mut bench, 103, "bob@example.org") > 0);
    let answered = &bench.state.approvals[&approval];
    assert_eq!(answered.resolution.as_ref().unwrap().status, Answer::Approved);
    assert_eq!(answered.consents.len(), 1);
    assert_eq!(of(&mut bench, 104, "eve@example.org"), 0, "it is answered so already");

    let (mut bench, approval) = asked();
    bench.run(Command::Approve { approval, required: 2, reason: None }).unwrap();
    bench.run(Command::Answer { approval, resolution: answer(Answer::Denied, "no") }).unwrap();
    let late = bench.run(Command::Approve { approval, required: 2, reason: None }).unwrap_err();
    assert!(matches!(late, Refusal::AnsweredOtherwise { .. }));
}

#[test]
fn removing_a_node_removes_its_edges_and_denies_its_requests() {
    let mut bench = Bench::new();
    let (a, b) = (bench.node("a", "implementer"), bench.node("b", "reviewer"));
    bench.edge(a, b).unwrap();
    bench
        .run(Command::Ask {
            node: a,
            tool: tool("x"),
            context: None,
            expires_at: None,
            heard: Vec::new(),
            turn: None,
        })
        .unwrap();
    bench.run(Command::Chat { node: Some(a), content: "hello".to_owned(), interrupt: false }).unwrap();
    let removed = bench.run(Command::RemoveNode(a)).unwrap();
    assert_eq!(kinds(&removed.events), ["edge.deleted", "approval.resolved", "run.patch", "node.deleted"]);
    let Body::ApprovalResolved(body) = &removed.events[1].body else { panic!() };
    assert_eq!(body.resolution.reason.as_deref(), Some("the node was removed"));
    assert!(
        bench.state.edges.is_empty()
            && bench.state.inboxes.is_empty()
            && !bench.state.configs.contains_key(&a)
    );
}

#[test]
fn an_answer_is_kept_until_a_turn_has_heard_it() {
    let ask = |node, heard: &[ApprovalId]| Command::Ask {
        node,
        tool: tool("x"),
        context: None,
        expires_at: None,
        heard: heard.to_vec(),
        turn: None,
    };
    let answered = |bench: &Bench| -> Vec<ApprovalId> { bench.state.approvals.keys().copied().collect() };
    for (status, hears, is_kept) in [
        (TurnStatus::Failed, false, true),
        (TurnStatus::Interrupted, false, true),
        (TurnStatus::Failed, true, false),
        (TurnStatus::Interrupted, true, false),
        (TurnStatus::Completed, false, false),
    ] {
        let mut bench = Bench::new();
        let a = bench.node("a", "implementer");
        bench.run_as(a, ask(a, &[])).unwrap();
        let ids = answered(&bench);
        bench.run(Command::Answer { approval: ids[0], resolution: answer(Answer::Approved, "yes") }).unwrap();
        assert!(bench.run_as(a, ask(a, &[])).unwrap().events.is_empty(), "the answer is there");
        let heard = if hears { ids.clone() } else { Vec::new() };
        bench.run(Command::EndTurn(Box::new(EndedTurn { heard, ..turn(a, 1, status) }))).unwrap();
        assert_eq!(answered(&bench) == ids, is_kept, "{status:?}, heard: {hears}");
    }
    // A second call with the same arguments, in the turn that has heard the first answer, is a request of its own.
    let mut bench = Bench::new();
    let a = bench.node("a", "implementer");
    bench.run_as(a, ask(a, &[])).unwrap();
    let ids = answered(&bench);
    bench.run(Command::Answer { approval: ids[0], resolution: answer(Answer::Approved, "yes") }).unwrap();
    bench.run_as(a, ask(a, &ids)).unwrap();
    assert_eq!(answered(&bench).len(), 2);
    assert_eq!(bench.state.nodes[&a].status, NodeStatus::Blocked);
}

#[test]
fn a_completed_turn_withdraws_its_open_requests() {
    for (status, left) in [(TurnStatus::Completed, 0), (TurnStatus::Interrupted, 1), (TurnStatus::Failed, 1)]
    {
        let mut bench = Bench::new();
        let (a, b) = (bench.node("a", "implementer"), bench.node("b", "reviewer"));
        for node in [a, b] {
            let ask = Command::Ask {
                node,
                tool: tool("x"),
                context: None,
                expires_at: None,
                heard: Vec::new(),
                turn: None,
            };
            bench.run_as(node, ask).unwrap();
        }
        let ended = bench.run(Command::EndTurn(Box::new(turn(a, 1, status)))).unwrap();
        let of = |node| bench.state.approvals.values().filter(|one| one.node_id == node).count();
        assert_eq!((of(a), of(b)), (left, 1), "{status:?}");
        assert_eq!(
            kinds(&ended.events).iter().any(|kind| kind == "approval.resolved"),
            left == 0,
            "{status:?}"
        );
    }
}

fn turn(node: NodeId, number: u128, status: TurnStatus) -> EndedTurn {
    EndedTurn {
        last_words: Some("\n Done: all tests pass.\nMore.".to_owned()),
        usage: Some(Usage { total_tokens: 5, ..Usage::default() }),
        ..EndedTurn::new(
            node,
            TurnId::from(uuid::Uuid::from_u128(number)),
            status,
            Timestamp::from_millis(0).unwrap(),
        )
    }
}

#[test]
fn a_turn_reads_its_inbox_only_if_it_completes_and_ends_once() {
    let mut bench = Bench::new();
    let a = bench.node("a", "implementer");
    bench.run(Command::Chat { node: Some(a), content: "go".to_owned(), interrupt: false }).unwrap();
    let read = bench.state.inbox(a)[0].id();
    let end = |bench: &mut Bench, number, status| {
        let ended = EndedTurn { consumed: vec![read], ..turn(a, number, status) };
        bench.run(Command::EndTurn(Box::new(ended)))
    };
    end(&mut bench, 1, TurnStatus::Failed).unwrap();
    assert_eq!(bench.state.nodes[&a].inbox_count, 1, "it is read again");
    let done = end(&mut bench, 2, TurnStatus::Completed).unwrap();
    // Clients add the usage to their totals: it comes first.
    assert_eq!(
        kinds(&done.events),
        ["telemetry.usage", "message.assistant.final", "turn.status", "node.patch", "run.patch"]
    );
    let node = &bench.state.nodes[&a];
    assert_eq!((node.inbox_count, node.summary.as_str()), (0, "Done: all tests pass."));
    assert_eq!(
        (node.usage.total_tokens, bench.state.run.usage.total_tokens, bench.state.run.counts.turns),
        (10, 10, 2)
    );
    assert!(matches!(end(&mut bench, 2, TurnStatus::Completed), Err(Refusal::HasEnded(_))));
    assert_eq!(end(&mut bench, 3, TurnStatus::Completed), Err(Refusal::NotInInbox));
}

#[test]
fn what_an_agent_was_not_told_waits_for_a_turn_that_completes() {
    use TurnStatus::{Completed, Failed, Interrupted};
    let mut bench = Bench::new();
    let a = bench.node("a", "implementer");
    for (number, status, unsaid, left) in [
        (1, Failed, &["one"][..], &["one"][..]),
        (2, Interrupted, &["two"], &["one", "two"]),
        (3, Completed, &["three"], &["three"]),
        (4, Completed, &[], &[]),
    ] {
        let unsaid = unsaid.iter().map(ToString::to_string).collect();
        bench.run(Command::EndTurn(Box::new(EndedTurn { unsaid, ..turn(a, number, status) }))).unwrap();
        assert_eq!(bench.state.nodes[&a].turn.as_ref().unwrap().unsaid, left, "{number}");
    }
}

#[test]
fn a_node_fails_after_three_turns_on_its_inbox() {
    use TurnStatus::{Completed, Failed, Interrupted};
    const OUTAGE: bool = true;
    let go = || Command::Chat { node: None, content: "go".to_owned(), interrupt: false };
    for (ends, expected) in [
        (vec![(Failed, false), (Failed, false)], NodeStatus::Idle),
        (vec![(Failed, false), (Failed, false), (Failed, false)], NodeStatus::Failed),
        (vec![(Failed, false), (Failed, OUTAGE), (Interrupted, false), (Failed, false)], NodeStatus::Idle),
        (vec![(Failed, false), (Failed, false), (Completed, false), (Failed, false)], NodeStatus::Idle),
        (vec![(Failed, false), (Failed, false), (Interrupted, false), (Failed, false)], NodeStatus::Failed),
    ] {
        let mut bench = Bench::new();
        let a = bench.node("a", "orchestrator");
        bench.run(go()).unwrap();
        for (number, (status, excused)) in (1..).zip(&ends) {
            let detail = Some("its provider crashed".to_owned());
            let end = EndedTurn { excused: *excused, detail, ..turn(a, number, *status) };
            bench.run(Command::EndTurn(Box::new(end))).unwrap();
        }
        let node = &bench.state.nodes[&a];
        assert_eq!(node.status, expected, "{ends:?}");
        if expected == NodeStatus::Failed {
            assert_eq!(node.summary, "its provider crashed");
            bench.run(go()).unwrap();
            let node = &bench.state.nodes[&a];
            assert_eq!(node.status, NodeStatus::Idle, "a message of a person brings it back");
            assert_eq!(node.turn.as_ref().map(|last| last.failures), Some(0));
        }
    }
}

#[test]
fn the_summary_of_a_failed_turn_is_its_reason_and_a_cut_is_shown() {
    let long = format!("the setting {} was added", "x".repeat(300));
    for (status, detail, expected) in [
        (TurnStatus::Failed, "it crashed\nand more", "it crashed".to_owned()),
        (TurnStatus::Completed, "files were put back", "Done: all tests pass.".to_owned()),
        (TurnStatus::Failed, &long, format!("the setting {}…", "x".repeat(227))),
    ] {
        let mut bench = Bench::new();
        let a = bench.node("a", "implementer");
        let end = EndedTurn { detail: Some(detail.to_owned()), ..turn(a, 1, status) };
        bench.run(Command::EndTurn(Box::new(end))).unwrap();
        assert_eq!(bench.state.nodes[&a].summary, expected);
    }
}

#[test]
fn commands_of_one_operation_happen_together_or_not_at_all() {
    let bench = Bench::new();
    let good = Command::AddNode(Box::new(spec("a", "r")));
    let bad = Command::RemoveEdge(OpId::random().derive("edge", 1));
    assert!(matches!(
        decide(&bench.state, &[good.clone(), bad], &op(5), Rules::default()),
        Err(Refusal::NoEdge(_))
    ));
    let two =
        decide(&bench.state, &[good, Command::AddNode(Box::new(spec("b", "r")))], &op(5), Rules::default())
            .unwrap();
    assert_eq!(two.state.nodes.len(), 2);
    let ids: std::collections::BTreeSet<_> = two.events.iter().map(|event| event.id).collect();
    assert_eq!(ids.len(), two.events.len(), "every event has an id of its own");
}
