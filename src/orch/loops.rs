//! Loop safety: tells by the traces of turns that a node, or a ring of nodes, gets nowhere.
//!
//! Why effects and not words alone: an agent that says something new each time may still leave the same files behind, and
//! one that always says "done" may work.
//!
//! Invariant: pure. The caller gives the turns since the run was last resumed, the newest last, without those that an
//! outage or a usage limit ended.

use std::collections::BTreeSet;

use crate::model::trace::{Passed, Trace};

/// The number of equal calls that fail in one turn.
const MOST_FAILED_CALLS: usize = 5;

/// How often a round of trees comes before it is a loop.
const ROUNDS: usize = 3;

/// The periods of such rounds, in turns.
const PERIODS: std::ops::RangeInclusive<usize> = 2..=5;

/// A hash in the trace of a turn.
type Part = fn(&Trace) -> Option<&String>;

/// The kind of effect that repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// The final text.
    Output,
    /// The change of the files.
    Diff,
    /// The verification that fails.
    Verification,
    /// A call of a tool that fails, in one turn.
    FailedCalls,
    /// The tree returns.
    Trees,
    /// A hand-off goes round.
    Ring,
}

/// A loop, or what is one turn short of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loop {
    /// The effect that repeats.
    pub signal: Signal,
    /// The hash of it.
    pub hash: String,
    /// How often it was there.
    pub count: usize,
    /// The turns, the oldest first.
    pub turns: Vec<String>,
    /// Of trees and hand-offs: one round.
    pub cycle: Vec<String>,
}

/// The judgement on a node or a ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// It gets on.
    Fine,
    /// One more is a loop. Its agent is warned, with the evidence.
    Warn(Loop),
    /// The run pauses.
    Stop(Loop),
}

impl Judgement {
    /// The worse one of two has the higher rank.
    #[must_use]
    pub fn rank(&self) -> u8 {
        match self {
            Self::Fine => 0,
            Self::Warn(_) => 1,
            Self::Stop(_) => 2,
        }
    }
}

impl Signal {
    /// The word in JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Output => "output",
            Self::Diff => "diff",
            Self::Verification => "verification",
            Self::FailedCalls => "toolFailure",
            Self::Trees => "tree",
            Self::Ring => "handoff",
        }
    }
}

/// A final text as it is compared: without differences in white space.
#[must_use]
pub fn normalised(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Judges a node by its turns. `repeats`: how many equal turns are a loop, at least 2.
#[must_use]
pub fn judge(turns: &[Trace], repeats: usize) -> Judgement {
    // A message of a person starts the count anew.
    let from = turns.iter().rposition(|trace| trace.is_of_person).unwrap_or(0);
    let turns = turns.get(from..).unwrap_or_default();
    let of_turns: [(Signal, Part); 3] = [
        (Signal::Verification, |trace| trace.verification.as_ref()),
        (Signal::Diff, |trace| trace.diff.as_ref()),
        (Signal::Output, |trace| trace.output.as_ref()),
    ];
    let equal = of_turns.into_iter().filter_map(|(signal, of)| equal(turns, signal, of));
    let judged = equal.map(|found| {
        let count = found.count;
        (found, count, repeats.max(2))
    });
    let calls = turns.last().and_then(failed_calls).map(|found| {
        let count = found.count;
        (found, count, MOST_FAILED_CALLS)
    });
    let trees = returning(turns).map(|(found, rounds)| (found, rounds, ROUNDS));
    worst(judged.chain(calls).chain(trees))
}

/// Judges the hand-offs of a run since a person's last message, the newest last. `made`: how many of them are new.
#[must_use]
pub fn judge_ring(passed: &[Passed], made: usize, repeats: usize) -> Judgement {
    let before = passed.len().saturating_sub(made);
    let judged = (before..passed.len()).map(|last| judge_newest(&passed[..=last], repeats));
    judged.max_by_key(Judgement::rank).unwrap_or(Judgement::Fine)
}

fn judge_newest(passed: &[Passed], repeats: usize) -> Judgement {
    let Some(newest) = passed.last() else { return Judgement::Fine };
    let count = passed.iter().filter(|one| *one == newest).count();
    let before = passed.len() - 1;
    let since =
        passed.get(..before).and_then(|all| all.iter().rposition(|one| one == newest)).unwrap_or(before);
    let cycle = passed.get(since..before).unwrap_or_default();
    let found = Loop {
        signal: Signal::Ring,
        hash: newest.message.clone(),
        count,
        turns: Vec::new(),
        cycle: cycle.iter().map(|one| format!("{} -> {}", one.from, one.to)).collect(),
    };
    worst([(found, count, repeats.max(2))].into_iter())
}

/// The first that is a loop, else the first that is one short of it.
fn worst(found: impl Iterator<Item = (Loop, usize, usize)>) -> Judgement {
    let mut warned = None;
    for (found, count, most) in found {
        if count >= most {
            return Judgement::Stop(found);
        }
        if count + 1 == most && warned.is_none() {
            warned = Some(found);
        }
    }
    warned.map_or(Judgement::Fine, Judgement::Warn)
}

/// The turns at the end in which something is equal.
fn equal(turns: &[Trace], signal: Signal, of: Part) -> Option<Loop> {
    let hash = of(turns.last()?)?;
    let count = turns.iter().rev().take_while(|trace| of(trace) == Some(hash)).count();
    let last = turns.get(turns.len() - count..)?;
    Some(Loop { signal, hash: hash.clone(), count, turns: names(last), cycle: Vec::new() })
}

/// The call that failed most often in a turn.
fn failed_calls(trace: &Trace) -> Option<Loop> {
    let call = trace.failed_call.as_ref()?;
    Some(Loop {
        signal: Signal::FailedCalls,
        hash: call.hash.clone(),
        count: call.count,
        turns: vec![trace.turn.clone()],
        cycle: Vec::new(),
    })
}

/// The trees that return at the end, and how many whole rounds of them there are.
fn returning(turns: &[Trace]) -> Option<(Loop, usize)> {
    let rounds = |period: usize| {
        let same = |back: &usize| {
            let at = turns.len() - back;
            turns.get(at).zip(turns.get(at + period)).is_some_and(|(one, next)| one.tree == next.tree)
        };
        let more = (period + 1..=turns.len()).take_while(same).count();
        // Between two whole rounds nothing is new.
        if more % period == 0 || more >= period * (ROUNDS - 1) { 1 + more / period } else { 0 }
    };
    let found = PERIODS.filter(|period| *period <= turns.len()).map(|period| (period, rounds(period)));
    let differs = |&(period, _): &(usize, usize)| {
        let last = turns.iter().rev().take(period);
        last.map(|trace| &trace.tree).collect::<BTreeSet<_>>().len() > 1
    };
    let (period, count) =
        found.filter(|(_, count)| *count > 1).filter(differs).max_by_key(|(_, count)| *count)?;
    let last = turns.get(turns.len() - period * count..)?;
    let cycle = last.iter().take(period).map(|trace| trace.tree.clone()).collect();
    let hash = turns.last()?.tree.clone();
    Some((Loop { signal: Signal::Trees, hash, count, turns: names(last), cycle }, count))
}

fn names(turns: &[Trace]) -> Vec<String> {
    turns.iter().map(|trace| trace.turn.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::trace::FailedCall;

    /// A turn for each letter: its tree is the letter, and `change` sets the rest.
    fn turns(letters: &str, change: impl Fn(&mut Trace)) -> Vec<Trace> {
        let turn = |(number, letter): (usize, char)| {
            let mut trace = Trace { turn: number.to_string(), tree: letter.to_string(), ..Trace::default() };
            trace.output = Some(format!("says {number}"));
            change(&mut trace);
            trace
        };
        letters.chars().enumerate().map(turn).collect()
    }

    fn says(judgement: &Judgement) -> String {
        match judgement {
            Judgement::Fine => "fine".to_owned(),
            Judgement::Warn(found) => format!("warn {:?} {}", found.signal, found.count),
            Judgement::Stop(found) => format!("stop {:?} {}", found.signal, found.count),
        }
    }

    #[test]
    fn equal_turns_are_warned_of_and_stop() {
        type Change = fn(&mut Trace);
        let text = |text: &str| Some(text.to_owned());
        let changes: [(Signal, Change); 3] = [
            (Signal::Output, |trace| trace.output = Some("done".to_owned())),
            (Signal::Diff, |trace| trace.diff = Some("d".to_owned())),
            (Signal::Verification, |trace| trace.verification = Some("v".to_owned())),
        ];
        for (signal, change) in changes {
            for (count, expected) in [(1, "fine"), (2, "fine"), (3, "warn"), (4, "stop"), (9, "stop")] {
                let letters: String = ('a'..='z').take(count).collect();
                let judged = says(&judge(&turns(&letters, change), 4));
                let expected = if expected == "fine" {
                    expected.to_owned()
                } else {
                    format!("{expected} {signal:?} {count}")
                };
                assert_eq!(judged, expected, "{count}");
            }
            let mut other = turns("abcd", change);
            other[2] = Trace { output: text("else"), tree: "c".to_owned(), ..Trace::default() };
            assert_eq!(judge(&other, 4), Judgement::Fine, "{signal:?}");
            let mut asked = turns("abcd", change);
            asked[1].is_of_person = true;
            assert_eq!(says(&judge(&asked, 4)), format!("warn {signal:?} 3"), "a person begins anew");
        }
        // Nothing changed, nothing failed, nothing said: these are no equal effects.
        assert_eq!(judge(&turns("abcde", |trace| trace.output = None), 4), Judgement::Fine);
        assert_eq!(judge(&[], 4), Judgement::Fine);
    }

    #[test]
    fn trees_that_return_are_a_loop() {
        for (letters, expected) in [
            ("abab", "warn Trees 2"),
            ("ababa", "fine"),
            ("ababab", "stop Trees 3"),
            ("abababa", "stop Trees 3"),
            ("xyababab", "stop Trees 3"),
            ("abcabc", "warn Trees 2"),
            ("abcabcabc", "stop Trees 3"),
            ("abcdeabcdeabcde", "stop Trees 3"),
            ("abcdefabcdefabcdef", "fine"),
            ("aaaaaaaa", "fine"),
            ("abcdefgh", "fine"),
            ("aabaab", "warn Trees 2"),
        ] {
            assert_eq!(says(&judge(&turns(letters, |_| {}), 4)), expected, "{letters}");
        }
        let Judgement::Stop(found) = judge(&turns("xababab", |_| {}), 4) else { panic!("a loop") };
        assert_eq!((found.turns.join(""), found.cycle.join("")), ("123456".to_owned(), "ab".to_owned()));
    }

    #[test]
    fn calls_that_fail_alike_in_one_turn_are_a_loop() {
        let calls = |count: usize| {
            let mut turns = turns("ab", |_| {});
            turns[1].failed_call = Some(FailedCall { hash: "x".to_owned(), count });
            says(&judge(&turns, 4))
        };
        assert_eq!(calls(3), "fine");
        assert_eq!(calls(4), "warn FailedCalls 4");
        assert_eq!(calls(5), "stop FailedCalls 5");
    }

    #[test]
    fn hand_offs_that_go_round_are_a_loop() {
        let ring = |letters: &str| {
            let one = |letter: char| Passed {
                from: letter.to_string(),
                to: "z".to_owned(),
                message: "m".to_owned(),
                tree: "t".to_owned(),
            };
            letters.chars().map(one).collect::<Vec<_>>()
        };
        for (letters, expected) in
            [("", "fine"), ("abab", "fine"), ("ababab", "warn Ring 3"), ("abcabcabca", "stop Ring 4")]
        {
            assert_eq!(says(&judge_ring(&ring(letters), 1, 4)), expected, "{letters}");
        }
        let Judgement::Stop(found) = judge_ring(&ring("abcabcabca"), 1, 4) else { panic!("a loop") };
        assert_eq!(found.cycle, ["a -> z", "b -> z", "c -> z"]);
        // A turn that hands on to several is judged for each of them.
        assert_eq!(says(&judge_ring(&ring("abacadab"), 1, 4)), "fine");
        assert_eq!(says(&judge_ring(&ring("abacadab"), 2, 4)), "stop Ring 4");
        assert_eq!(says(&judge_ring(&ring("abacadab"), 0, 4)), "fine");
    }

    #[test]
    fn white_space_does_not_count() {
        assert_eq!(normalised("  All\tdone.\n\n"), normalised("All done."));
        assert_ne!(normalised("1 of 3"), normalised("2 of 3"));
    }
}
