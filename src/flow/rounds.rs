//! Tells loops by their effects: the steps of a run go the same round again and again, and leave the same behind.
//!
//! Why whole rounds are compared, and not the visits of one step: a step that prepares, or one after a rollback, rightly
//! leaves the same each time, while others get on.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::step::Outcome;

/// How often something is seen before it is a loop.
const TIMES: usize = 3;

/// The longest period that is looked for.
const MAX_PERIOD: usize = 5;

/// The trace of a visit of a step. Rollbacks, and visits that an outage or a usage limit ended, are left out by the
/// caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Round {
    /// The step.
    pub step: String,
    /// Whether it is given a prompt, which says that it goes round in circles.
    pub is_told: bool,
    /// The id of the tree of the snapshot after it.
    pub tree: String,
    /// How it ended.
    pub outcome: Outcome,
    /// The exit codes of its validators, by name.
    pub exit_codes: BTreeMap<String, i32>,
    /// The ids of cases that failed.
    pub failed_cases: BTreeSet<String>,
    /// The codes of its blockers.
    pub blockers: BTreeSet<String>,
}

/// The period of the loop that these visits, the newest last, end with, in visits of the last step: 1 if all that was
/// done from one visit of it to the next was the same three times, else the number of visits that repeats three times
/// and has at least two trees.
#[must_use]
pub fn period(rounds: &[Round]) -> Option<usize> {
    repeated(rounds).map(|(_, visits)| visits)
}

/// The loop, if an agent in it has had the warning and has left the same result once more.
#[must_use]
pub fn stuck(rounds: &[Round]) -> Option<usize> {
    let (length, visits) = repeated(rounds)?;
    let from = rounds.len() - length;
    let last = rounds.get(from..)?;
    let told = last.iter().rposition(|round| round.is_told).unwrap_or(length - 1);
    repeated(rounds.get(..from + told)?).map(|_| visits)
}

/// How many visits at the end are there three times, and how many of them are of the last step.
fn repeated(rounds: &[Round]) -> Option<(usize, usize)> {
    let newest = rounds.last()?;
    let found = |length: usize| {
        let last = rounds.get(rounds.len() - TIMES * length..)?;
        let (first, _) = last.split_at(length);
        if !last.chunks(length).all(|chunk| chunk == first) {
            return None;
        }
        let visits = first.iter().filter(|round| round.step == newest.step).count();
        let trees: BTreeSet<&str> = first.iter().map(|round| round.tree.as_str()).collect();
        (visits <= MAX_PERIOD && (visits == 1 || trees.len() > 1)).then_some((length, visits))
    };
    (1..=rounds.len() / TIMES).find_map(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A round for each letter. The tree is the letter in lower case, so that `A` and `a` differ in another way.
    fn rounds(letters: &str, change: impl Fn(&mut Round)) -> Vec<Round> {
        let round = |letter: char| {
            let mut round = Round {
                step: "work".to_owned(),
                is_told: true,
                tree: letter.to_lowercase().to_string(),
                outcome: Outcome::Partial,
                exit_codes: BTreeMap::new(),
                failed_cases: BTreeSet::new(),
                blockers: BTreeSet::new(),
            };
            if letter.is_uppercase() {
                change(&mut round);
            }
            round
        };
        letters.chars().map(round).collect()
    }

    /// CONTRACT 18.13
    #[test]
    fn a_loop_is_told_by_what_its_rounds_leave_behind() {
        for (letters, expected) in [
            ("", None),
            ("aa", None),
            ("aaa", Some(1)),
            ("baaa", Some(1)),
            ("aaab", None),
            ("aba", None),
            ("ababab", Some(2)),
            ("xababab", Some(2)),
            ("babababa", Some(2)),
            ("abcabcabc", Some(3)),
            ("abcdabcdabcd", Some(4)),
            ("abcdeabcdeabcde", Some(5)),
            ("abcdefabcdefabcdef", None),
            ("abcabcab", None),
            ("abcdefghi", None),
            ("aAaAaA", None),
            ("aAbaAbaAb", Some(3)),
            ("AAA", Some(1)),
            ("AAa", None),
        ] {
            let found = period(&rounds(letters, |round| round.outcome = Outcome::Blocked));
            assert_eq!(found, expected, "{letters}");
        }
        let changes: [fn(&mut Round); 4] = [
            |round| round.outcome = Outcome::Success,
            |round| round.exit_codes = [("tests".to_owned(), 1)].into(),
            |round| round.failed_cases = ["case".to_owned()].into(),
            |round| round.blockers = ["E1".to_owned()].into(),
        ];
        for change in changes {
            assert_eq!(period(&rounds("aaA", change)), None, "everything counts");
        }
    }

    /// Visits in words: the step, and its tree as a letter. `plan` and `work` are agents.
    fn story(words: &str) -> Vec<Round> {
        let round = |word: &str| {
            let (step, tree) = word.split_once(':').expect("a step and a tree");
            let mut round = rounds(tree, |_| {}).pop().expect("one letter");
            (round.step, round.is_told) = (step.to_owned(), ["plan", "work"].contains(&step));
            round
        };
        words.split(' ').map(round).collect()
    }

    /// CONTRACT 18.13
    #[test]
    fn whole_rounds_are_compared_and_the_agent_is_told_before_the_run_rests() {
        for (words, found, rests) in [
            // Three rounds of an agent that does nothing, and of its test.
            ("work:a test:a work:a test:a work:a", None, None),
            ("work:a test:a work:a test:a work:a test:a", Some(1), None),
            ("work:a test:a work:a test:a work:a test:a work:a", Some(1), Some(1)),
            ("plan:p work:a test:a work:a test:a work:a test:a", Some(1), None),
            // It did something else after the warning.
            ("work:a test:a work:a test:a work:a test:a work:b", None, None),
            ("work:a test:a work:a test:a work:a test:a work:b test:b work:a", None, None),
            // The plan is the same each time, the work is not.
            ("plan:p work:a plan:p work:b plan:p work:c plan:p work:d plan:p", None, None),
            ("plan:p work:a plan:p work:a plan:p work:a", Some(1), None),
            ("plan:p work:a plan:p work:a plan:p work:a plan:p", Some(1), Some(1)),
            // There and back again.
            (
                "work:a test:a work:b test:b work:a test:a work:b test:b work:a test:a work:b test:b",
                Some(2),
                None,
            ),
            ("test:x work:a test:a work:a test:a work:a test:a work:a", Some(1), Some(1)),
            // It is found where no agent comes next: the next one gets the warning first.
            (
                "work:a check:b test:a work:a check:a test:a work:a check:a test:a work:a check:a",
                Some(1),
                None,
            ),
            ("check:a test:a work:a check:a test:a work:a check:a test:a work:a", Some(1), None),
            (
                "check:a test:a work:a check:a test:a work:a check:a test:a work:a check:a test:a",
                Some(1),
                None,
            ),
            (
                "check:a test:a work:a check:a test:a work:a check:a test:a work:a check:a test:a work:a",
                Some(1),
                Some(1),
            ),
            // There is no agent for the warning.
            ("test:a test:a test:a", Some(1), None),
            ("test:a test:a test:a test:a", Some(1), Some(1)),
        ] {
            let story = story(words);
            assert_eq!((period(&story), stuck(&story)), (found, rests), "{words}");
        }
    }
}
