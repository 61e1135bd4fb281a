//! The verdict on a run when a turn of one of its nodes has ended: a loop, a limit, or neither (CONTRACT 22.18, 22.20).
//!
//! Invariant: it follows from the ledger as the end of the turn leaves it, and from the setting `aynig.stallRepeats`.

use serde_json::{Map, Value, json};

use super::loops::{Judgement, Loop, Signal, judge, judge_ring};
use crate::model::ids::NodeId;
use crate::model::limits::reached;
use crate::model::node::Node;
use crate::model::run::RunStatus;
use crate::model::state::State;
use crate::model::trace::{Halted, Trace};

/// What follows from the end of a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// The run goes on.
    Fine,
    /// The agent reads this in its next prompt.
    Warn(String),
    /// The run pauses.
    Pause {
        /// The cause.
        cause: Halted,
        /// A sentence without its end, for people.
        why: String,
    },
}

/// Judges a state in which a turn of the node has just ended. `is_traced`: whether that left a trace.
#[must_use]
pub fn verdict(state: &State, node: NodeId, is_traced: bool, repeats: usize) -> Verdict {
    if state.run.status != RunStatus::Running {
        return Verdict::Fine;
    }
    let judged =
        state.nodes.get(&node).filter(|_| is_traced).map(|node| (node, judged(state, node, repeats)));
    if let Some((node, Judgement::Stop(found))) = &judged {
        let evidence = evidence(found, node);
        return Verdict::Pause { cause: Halted::Stalled { evidence }, why: words(found, node) };
    }
    if let Some(cause) = reached(state, Some(node)) {
        let why = limit_words(state, &cause);
        return Verdict::Pause { cause, why };
    }
    match judged {
        Some((node, Judgement::Warn(found))) => Verdict::Warn(warning(&found, node)),
        Some((_, Judgement::Fine | Judgement::Stop(_))) | None => Verdict::Fine,
    }
}

/// The worse judgement on the node and on the hand-offs that its last turn made.
fn judged(state: &State, node: &Node, repeats: usize) -> Judgement {
    let of_node = judge(&node.traces, repeats);
    let made = node.traces.last().map_or(0, |trace| trace.handed.len());
    let mut of_ring = judge_ring(&state.run.passed, made, repeats);
    if let (Judgement::Warn(found) | Judgement::Stop(found), Some(last)) = (&mut of_ring, node.traces.last())
    {
        found.turns = vec![last.turn.clone()];
    }
    if of_ring.rank() > of_node.rank() { of_ring } else { of_node }
}

/// What was seen, for people and programs: each field is there.
fn evidence(found: &Loop, node: &Node) -> Map<String, Value> {
    let of = |turn: &String| node.traces.iter().find(|trace| trace.turn == *turn);
    let summaries: Vec<&str> = found.turns.iter().filter_map(of).map(|one| one.summary.as_str()).collect();
    let last = |hash: fn(&Trace) -> Option<&String>| node.traces.last().and_then(hash);
    Map::from_iter([
        ("nodeId".to_owned(), json!(node.id)),
        ("signal".to_owned(), json!(found.signal.word())),
        ("hash".to_owned(), json!(found.hash)),
        ("count".to_owned(), json!(found.count)),
        ("turns".to_owned(), json!(found.turns)),
        ("cycle".to_owned(), json!(found.cycle)),
        ("summaries".to_owned(), json!(summaries)),
        ("outputHash".to_owned(), json!(last(|trace| trace.output.as_ref()))),
        ("diffHash".to_owned(), json!(last(|trace| trace.diff.as_ref()))),
        ("verificationFailure".to_owned(), json!(last(|trace| trace.verification.as_ref()))),
    ])
}

fn words(found: &Loop, node: &Node) -> String {
    let (alias, count) = (&node.alias, found.count);
    match found.signal {
        Signal::Output => format!("{count} turns of {alias} ended with the same text"),
        Signal::Diff => format!("{count} turns of {alias} made the same change"),
        Signal::Verification => format!("the same commands failed in {count} turns of {alias}"),
        Signal::FailedCalls => format!("a call of {alias} failed {count} times in one turn"),
        Signal::Trees => {
            format!("the files of {alias} went {count} times through the same {} states", found.cycle.len())
        }
        Signal::Ring => {
            let way =
                if found.cycle.is_empty() { String::new() } else { format!(": {}", found.cycle.join(", ")) };
            format!("{alias} made the same hand-off {count} times{way}")
        }
    }
}

/// A note to the agent, one repeat before the run pauses.
fn warning(found: &Loop, node: &Node) -> String {
    let last = node.traces.last().map(|trace| trace.summary.as_str()).filter(|text| !text.is_empty());
    let last = last.map(|text| format!(" Your last answer was: {text:?}.")).unwrap_or_default();
    format!(
        "{}. This looks like a loop: once more, and the run pauses until a person looks at it.{last} Take another way, or \
         write what keeps you from your goal.",
        words(found, node)
    )
}

/// Names a limit that was reached.
#[must_use]
pub fn limit_words(state: &State, cause: &Halted) -> String {
    let Halted::Limit { node_id, limit, bound, .. } = cause else { return String::new() };
    let of = node_id.and_then(|id| state.nodes.get(&id)).map(|node| format!(" of {}", node.alias));
    format!("the limit {limit}={bound}{} was reached", of.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::run::Limits;
    use crate::model::tests::Bench;
    use crate::model::trace::{Handed, Passed};

    fn traces(outputs: &[&str]) -> Vec<Trace> {
        let trace = |(number, output): (usize, &&str)| Trace {
            turn: number.to_string(),
            output: Some((*output).to_owned()),
            diff: (number == 3).then(|| "d".to_owned()),
            tree: number.to_string(),
            summary: format!("I said {number}"),
            ..Trace::default()
        };
        outputs.iter().enumerate().map(trace).collect()
    }

    fn bench(outputs: &[&str]) -> (Bench, NodeId) {
        let mut bench = Bench::new();
        let a = bench.node("a", "implementer");
        bench.state.nodes.get_mut(&a).unwrap().traces = traces(outputs);
        (bench, a)
    }

    #[test]
    fn a_loop_pauses_the_run_with_all_of_the_evidence() {
        let (bench, a) = bench(&["x", "y", "y", "y", "y"]);
        let Verdict::Pause { cause: Halted::Stalled { evidence }, why } = verdict(&bench.state, a, true, 4)
        else {
            panic!("a loop")
        };
        assert_eq!(why, "4 turns of a ended with the same text");
        let expected = json!({
            "nodeId": a, "signal": "output", "hash": "y", "count": 4, "turns": ["1", "2", "3", "4"], "cycle": [],
            "summaries": ["I said 1", "I said 2", "I said 3", "I said 4"],
            "outputHash": "y", "diffHash": null, "verificationFailure": null,
        });
        assert_eq!(Value::Object(evidence), expected);
        assert_eq!(verdict(&bench.state, a, false, 4), Verdict::Fine, "another turn was judged before");
        assert_eq!(verdict(&bench.state, a, true, 6), Verdict::Fine);
    }

    #[test]
    fn one_turn_before_that_the_agent_is_warned() {
        let (mut bench, a) = bench(&["x", "y", "y", "y"]);
        let Verdict::Warn(text) = verdict(&bench.state, a, true, 4) else { panic!("a warning") };
        assert!(text.starts_with("3 turns of a ended with the same text. "), "{text}");
        assert!(text.contains("\"I said 3\""), "{text}");
        // A limit is worse.
        bench.state.run.limits = Limits { turns: Some(1), ..Limits::default() };
        bench.state.run.spent.turns = 1;
        let Verdict::Pause { cause, why } = verdict(&bench.state, a, true, 4) else { panic!("a limit") };
        assert!(matches!(cause, Halted::Limit { node_id: None, .. }));
        assert_eq!(why, "the limit turns=1 was reached");
        bench.state.run.status = RunStatus::Completed;
        assert_eq!(verdict(&bench.state, a, true, 4), Verdict::Fine, "it has reached its end");
    }

    #[test]
    fn a_ring_is_judged_by_the_node_that_closes_it() {
        let (mut bench, a) = bench(&["x", "y"]);
        let passed = |from: &str, to: &str| Passed {
            from: from.to_owned(),
            to: to.to_owned(),
            message: "m".to_owned(),
            tree: "t".to_owned(),
        };
        bench.state.run.passed =
            ["ab", "ba", "ab", "ba", "ab", "ba", "ab"].map(|ends| passed(&ends[..1], &ends[1..])).to_vec();
        assert_eq!(verdict(&bench.state, a, true, 4), Verdict::Fine, "this turn handed nothing on");
        let last = bench.state.nodes.get_mut(&a).unwrap().traces.last_mut().unwrap();
        last.handed = vec![Handed { to: "b".to_owned(), message: "m".to_owned() }];
        let Verdict::Pause { cause: Halted::Stalled { evidence }, why } = verdict(&bench.state, a, true, 4)
        else {
            panic!("a ring")
        };
        assert_eq!(why, "a made the same hand-off 4 times: a -> b, b -> a");
        assert_eq!((&evidence["signal"], &evidence["turns"]), (&json!("handoff"), &json!(["1"])));
    }
}
