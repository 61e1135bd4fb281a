//! Graphs that break the contract in one way each. The judge must report exactly that violation. Each is a change to a
//! lawful graph, in which it finds nothing.

use serde_json::json;

use super::*;

/// A person writes to `a`, whose first turn fails. Its second one hands work to `b`, which does it.
fn lawful() -> Case {
    let at = |second: u32| format!("2026-01-01T00:00:{second:02}.000Z");
    let node = |id: &str| json!({"type": "node.patch", "nodeId": id, "patch": {"id": id, "alias": id}});
    let chat = json!({"type": "message.user", "message": {"id": "m1", "nodeId": "a", "content": "token-1"}});
    let handoff = json!({"type": "handoff.sent", "envelope":
        {"id": "h1", "fromNodeId": "a", "toNodeId": "b", "payload": {"message": "token-2"}}});
    let turn = |node: &str, id: &str, status: &str, (from, to): (u32, u32), consumed: &[&str]| {
        json!({"type": "turn.status", "nodeId": node, "turnId": id, "status": status, "startedAt": at(from), "ts": at(to),
            "consumed": consumed})
    };
    let snapshot = |name: &str| json!({"type": "workspace.snapshot", "name": name, "patch": {"headSha": format!("{name}1")}});
    let ops = vec![
        vec![node("a"), node("b")],
        vec![chat],
        vec![turn("a", "t1", "failed", (1, 2), &[])],
        vec![handoff, snapshot("a"), turn("a", "t2", "completed", (3, 4), &["m1"])],
        vec![snapshot("b"), turn("b", "t3", "completed", (5, 6), &["h1"])],
    ];
    let history = |turns: &[&str]| {
        let mut history = vec![state("orch-idle")];
        for turn in turns {
            history.extend([state("orch-turn"), lease(turn), lease(turn), state("orch-turn")]);
        }
        history.push(state("orch-idle"));
        history
    };
    let work = |commit: &str, file: &str| Work {
        commits: BTreeSet::from([commit.to_owned()]),
        files: BTreeSet::from([file.to_owned()]),
    };
    let lines = [
        "began t1 a 1000 100",
        "saw t1 a 1001 token-1",
        "made t1 a 1002",
        "began t2 a 3000 101",
        "saw t2 a 3001 token-1",
        "made t2 a 3002",
        "staged t2 a 3003 token-2",
        "ended t2 a 3004",
        "began t3 b 3003 102",
        "saw t3 b 5001 token-2",
        "made t3 b 5002",
        "ended t3 b 5003",
    ];
    Case {
        ops,
        drivers: BTreeMap::from([
            ("a".to_owned(), history(&["t1", "t2"])),
            ("b".to_owned(), history(&["t3"])),
        ]),
        works: BTreeMap::from([
            ("a".to_owned(), work("a1", "work-t2")),
            ("b".to_owned(), work("b1", "work-t3")),
        ]),
        journal: lines.iter().map(|line| Line::parse(line).expect("a line")).collect(),
        kept: ["work-t1", "work-t2", "work-t3"].map(str::to_owned).into(),
        senders: vec![
            ("token-1".to_owned(), Some(0)),
            ("token-9".to_owned(), Some(1)),
            ("token-8".to_owned(), None),
        ],
    }
}

fn state(name: &str) -> Commit {
    Commit { state: name.to_owned(), ..Commit::default() }
}

fn lease(turn: &str) -> Commit {
    Commit { attempt: turn.to_owned(), ..state("working") }
}

/// A change to a lawful graph, and the violations.
type Change<'a> = (&'a dyn Fn(&mut Case), &'a [&'a str]);

fn each_is_named(changes: &[Change<'_>]) {
    assert_eq!(judge(&lawful()), Vec::<String>::new(), "it is lawful");
    for (number, (change, words)) in changes.iter().enumerate() {
        let mut case = lawful();
        change(&mut case);
        assert_eq!(judge(&case), *words, "case {number}");
    }
}

fn history<'a>(case: &'a mut Case, node: &str) -> &'a mut Vec<Commit> {
    case.drivers.get_mut(node).expect("a driver")
}

#[test]
fn a_message_is_read_once_by_its_receiver() {
    each_is_named(&[
        (
            &|case| case.ops[4][1]["consumed"] = json!(["h1", "m1"]),
            &[
                "turn t3 read m1, which is not in its inbox",
                "turn t3 read m1 without \"token-1\" in its prompt",
                "message m1 was read by t2 and by t3",
            ],
        ),
        (&|case| case.ops[4][1]["consumed"] = json!([]), &["message h1 to b is unread"]),
        (&|case| case.ops[4][1]["consumed"] = json!(["h1", "h9"]), &["turn t3 read h9, which nobody sent"]),
        (
            &|case| case.ops[2][0]["consumed"] = json!(["m1"]),
            &["turn t1 has failed, and read messages", "message m1 was read by t1 and by t2"],
        ),
        (
            &|case| case.journal.retain(|line| line.word != "saw" || line.turn != "t3"),
            &["turn t3 read h1 without \"token-2\" in its prompt"],
        ),
        (
            &|case| case.ops.swap(1, 3),
            &["turn t2 read m1, which is not in its inbox", "turn t1 started before t2 ended"],
        ),
        (
            &|case| case.ops[1].push(json!({"type": "handoff.sent", "envelope": {"id": "m1"}})),
            &[
                "3 messages have 2 ids",
                "turn t2 read m1, which is not in its inbox",
                "turn t2 read m1 without \"\" in its prompt",
                "hand-off m1 belongs to no completed turn",
            ],
        ),
    ]);
}

/// The end of `t1` was kept while another host recorded it as cut off. The attempt `t9` records it with this status. Its
/// work is on the branch.
fn late(case: &mut Case, status: &str) {
    let mut end = case.ops[2][0].clone();
    let detail = format!("{END_OF}t1, which was recorded as cut off; it was recorded late: x");
    for (key, value) in [("turnId", "t9"), ("status", status), ("detail", &detail)] {
        end[key] = value.into();
    }
    case.ops.insert(3, vec![end]);
    let history = history(case, "a");
    let second = history.iter().position(|commit| commit.attempt == "t2").expect("a lease");
    history.splice(second..second, [lease("t9"), state("orch-turn"), state("orch-turn")]);
    case.works.get_mut("a").expect("a branch").files.insert("work-t1".to_owned());
}

#[test]
fn a_turn_runs_once_under_a_lease_and_its_end_is_recorded() {
    each_is_named(&[
        (
            &|case| case.ops.push(vec![case.ops[2][0].clone()]),
            &["turn t1 ended twice", "turn t1 started before t2 ended"],
        ),
        (&|case| drop(case.ops.remove(2)), &["turn t1 began, and its end is not recorded"]),
        (
            &|case| {
                case.ops.remove(2);
                history(case, "a")[4].unable = true;
            },
            &[],
        ),
        // The end of t1 was kept while another host recorded it as cut off. The attempt t2 records it.
        (
            &|case| {
                case.journal.retain(|line| line.turn != "t1");
                case.journal
                    .iter_mut()
                    .filter(|line| line.turn == "t2")
                    .for_each(|line| line.turn = "t1".into());
                let detail = format!("{END_OF}t1, which was recorded as cut off; it was recorded late: x");
                case.ops[3][2]["detail"] = detail.into();
                case.ops[3][2]["startedAt"] = case.ops[2][0]["startedAt"].clone();
                case.works.get_mut("a").expect("a branch").files = ["work-t1".to_owned()].into();
            },
            &[],
        ),
        // As before, but it was interrupted: the attempt t9 records it, and t2 does the work.
        (&|case| late(case, "interrupted"), &[]),
        (
            &|case| late(case, "failed"),
            &[
                "turn t1 failed, and its work is on its branch",
                "turn t9 failed, and its work is on its branch",
            ],
        ),
        (
            &|case| history(case, "b").iter_mut().for_each(|commit| commit.attempt.clear()),
            &["turn t3 had no lease"],
        ),
        (&|case| case.journal.push(case.journal[0].clone()), &["turn t1 began twice"]),
        (
            &|case| drop(case.journal.remove(0)),
            &["turn t1 saw, and never began", "turn t1 made, and never began"],
        ),
        (
            &|case| case.journal.retain(|line| line.turn != "t3" || line.word == "saw"),
            &["turn t3 completed, and its program never began", "turn t3 saw, and never began"],
        ),
    ]);
}

#[test]
fn a_hand_off_lands_once_with_the_turn_that_staged_it() {
    each_is_named(&[
        (
            &|case| case.ops[3][2]["status"] = json!("failed"),
            &[
                "turn t2 has failed, and read messages",
                "hand-off h1 belongs to no completed turn",
                "turn t2 failed, and its work is on its branch",
            ],
        ),
        (
            &|case| case.journal.retain(|line| line.word != "staged"),
            &["turn t2 staged [], and handed on [\"token-2\"]"],
        ),
        (
            &|case| case.journal.push(Line::parse("staged t2 a 3003 token-3").expect("a line")),
            &["turn t2 staged [\"token-2\", \"token-3\"], and handed on [\"token-2\"]"],
        ),
        (&|case| case.journal.push(Line::parse("staged t1 a 1003 token-3").expect("a line")), &[]),
        (
            &|case| {
                let mut again = case.ops[3][0].clone();
                again["envelope"]["id"] = json!("h2");
                case.ops[4].push(again);
            },
            &["message h2 to b is unread", "hand-off h2 belongs to no completed turn"],
        ),
    ]);
}

#[test]
fn a_node_has_one_turn_at_a_time() {
    each_is_named(&[
        (
            &|case| case.ops[2][0]["ts"] = json!("2026-01-01T00:00:03.500Z"),
            &["turn t2 started before t1 ended"],
        ),
        (&|case| case.ops[4][1]["startedAt"] = json!("2026-01-01T00:00:01.000Z"), &[]),
        (
            &|case| case.journal.push(Line::parse("alive t1 a 3003").expect("a line")),
            &["the programs of t1 and t2 ran at the same time"],
        ),
    ]);
}

#[test]
fn the_work_of_a_turn_is_where_it_belongs() {
    each_is_named(&[
        (&|case| case.kept.retain(|file| file != "work-t1"), &["the work of t1 is lost"]),
        (
            &|case| case.works.get_mut("a").expect("a branch").files.clear(),
            &["the work of t2 is not on its branch"],
        ),
        (
            &|case| case.works.get_mut("b").expect("a branch").commits.clear(),
            &["the snapshot b1 of b is not on its branch"],
        ),
        (
            &|case| case.works.get_mut("a").expect("a branch").files.extend(["work-t1".to_owned()]),
            &["turn t1 failed, and its work is on its branch"],
        ),
    ]);
}

#[test]
fn a_driver_goes_from_lease_to_state_and_rests_at_the_end() {
    each_is_named(&[
        (&|case| drop(history(case, "b").pop()), &["b: its driver ends in \"orch-turn\""]),
        (
            &|case| history(case, "b").insert(3, lease("t9")),
            &["b: t9 took the lease of t3", "b: t3 took the lease of t9"],
        ),
        (&|case| history(case, "b").insert(5, lease("t3")), &["b: the attempt t3 has two leases"]),
        (
            &|case| history(case, "b").insert(4, Commit { closes: "t1".to_owned(), ..state("stalled") }),
            &["b: t3 is closed as t1"],
        ),
        (&|case| history(case, "b").insert(4, Commit { closes: "t3".to_owned(), ..state("stalled") }), &[]),
    ]);
}

#[test]
fn a_sender_knows_whether_its_message_was_sent() {
    each_is_named(&[
        (&|case| case.senders[0].1 = Some(1), &["token-1: 1 messages, and its sender exited with Some(1)"]),
        (&|case| case.senders[1].1 = Some(0), &["token-9: 0 messages, and its sender exited with Some(0)"]),
        (&|case| case.senders[0].1 = None, &[]),
        (&|case| case.senders[0].1 = Some(4), &[]),
    ]);
}
