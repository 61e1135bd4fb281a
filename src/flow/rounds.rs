//! Tells loops by their effects: a step that is entered again and again, and leaves the same behind. The commands that
//! run flows call this.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::step::Outcome;

/// How often something is seen before it is a loop.
const TIMES: usize = 3;

/// The longest period that is looked for.
const MAX_PERIOD: usize = 5;

/// What a visit of a step left behind. Visits that an outage or a usage limit ended are left out by the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Round {
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

/// The period of the loop that the visits of a step, the newest last, end with: 1 if the last three are equal, else the
/// number of visits that repeats three times and has at least two trees.
#[must_use]
pub fn period(rounds: &[Round]) -> Option<usize> {
    (1..=MAX_PERIOD).find(|period| {
        let Some(start) = rounds.len().checked_sub(TIMES * period) else { return false };
        let last = rounds.get(start..).unwrap_or_default();
        let (first, _) = last.split_at(*period);
        let trees: BTreeSet<&str> = first.iter().map(|round| round.tree.as_str()).collect();
        last.chunks(*period).all(|chunk| chunk == first) && (*period == 1 || trees.len() > 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A round for each letter. The tree is the letter in lower case, so that `A` and `a` differ in another way.
    fn rounds(letters: &str, change: impl Fn(&mut Round)) -> Vec<Round> {
        let round = |letter: char| {
            let mut round = Round {
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
}
