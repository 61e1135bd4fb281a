//! The state that a run keeps between passes, to avoid repeated warnings and repeated failing pushes.
//!
//! Invariant: none of it decides who holds a branch. Losing it costs a repeated warning, a needless push, or
//! a second run on a branch that was reset.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use crate::clock;
use crate::contract::ids::{BranchName, CommitId};
use crate::runner::survey::Branch;

/// A branch at one HEAD.
pub(crate) type At = (BranchName, CommitId);

/// The longest pause before a retry, unless the first pause is longer.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// The state that a run keeps between passes.
#[derive(Debug, Default)]
pub struct Backoff {
    /// Triggers whose command has run.
    done: HashSet<At>,
    /// HEADs whose dates were warned about.
    warned: HashSet<At>,
    /// HEADs that could not be moved.
    failed: HashMap<At, Failure>,
    /// The first pause before a retry. `None` if the run does not stay.
    first_pause: Option<Duration>,
    /// The branches of the last pass.
    surveyed: Vec<Branch>,
}

#[derive(Debug, Clone, Copy)]
struct Failure {
    times: u32,
    /// The time of the retry. `None`: not in this run.
    again: Option<Instant>,
}

impl Backoff {
    /// For `--watch`: failed moves are retried after `first`, and then at growing intervals.
    pub(crate) fn staying(first: Duration) -> Self {
        Self { first_pause: Some(first), ..Self::default() }
    }

    /// Whether it is for `--watch`.
    pub(crate) fn stays(&self) -> bool {
        self.first_pause.is_some()
    }

    /// Keeps the branches of a pass for the next.
    pub(crate) fn surveyed(&mut self, branches: Vec<Branch>) {
        self.surveyed = branches;
    }

    /// The branches of the pass before.
    pub(crate) fn take_surveyed(&mut self) -> Vec<Branch> {
        std::mem::take(&mut self.surveyed)
    }

    /// Records that the commands of these triggers have run.
    pub(crate) fn ran(&mut self, triggers: impl IntoIterator<Item = At>) {
        self.done.extend(triggers);
    }

    /// Whether the command of this trigger has run.
    pub(crate) fn has_run(&self, at: &At) -> bool {
        self.done.contains(at)
    }

    /// Forgets which commands have run, so that their triggers may run again. Returns whether there were any.
    pub(crate) fn forget_runs(&mut self) -> bool {
        !std::mem::take(&mut self.done).is_empty()
    }

    /// Records a warning about the date of this HEAD. Returns whether it is the first.
    pub(crate) fn is_first_warning(&mut self, at: At) -> bool {
        self.warned.insert(at)
    }

    /// Records that a move of this HEAD failed. If the server refused it, it is skipped for a while, or
    /// without `--watch` for the rest of the run. Other failures may be transient, and are only backed off in
    /// `--watch` mode.
    pub(crate) fn failed(&mut self, at: At, refused: bool) {
        if self.first_pause.is_none() && !refused {
            return;
        }
        let failure = self.failed.entry(at).or_insert(Failure { times: 0, again: None });
        failure.again = self.first_pause.map(|first| clock::monotonic() + pause(first, failure.times));
        failure.times = failure.times.saturating_add(1);
    }

    /// Whether this HEAD is skipped now because a move of it failed.
    pub(crate) fn is_paused(&self, at: &At) -> bool {
        self.failed
            .get(at)
            .is_some_and(|failure| failure.again.is_none_or(|again| clock::monotonic() < again))
    }

    /// The time of the next retry.
    pub(crate) fn next_try(&self) -> Option<Instant> {
        let now = clock::monotonic();
        self.failed.values().filter_map(|failure| failure.again).filter(|again| *again > now).min()
    }

    /// Whether there is anything [`Backoff::keep`] could forget.
    pub(crate) fn is_about_heads(&self) -> bool {
        !self.warned.is_empty() || !self.failed.is_empty()
    }

    /// Forgets warnings and failures of commits that are no longer HEADs. Triggers that have run stay.
    pub(crate) fn keep(&mut self, heads: &HashMap<BranchName, CommitId>) {
        let is_head = |(branch, head): &At| heads.get(branch) == Some(head);
        self.warned.retain(is_head);
        self.failed.retain(|at, _| is_head(at));
    }
}

/// The pause after `times` earlier failures: doubled with each, up to five minutes.
fn pause(first: Duration, times: u32) -> Duration {
    first.saturating_mul(1 << times.min(16)).min(LONGEST_PAUSE.max(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(byte: u8) -> At {
        (BranchName::new("task").unwrap(), CommitId::from_bytes(&[byte; 20]).unwrap())
    }

    /// CONTRACT 5.17
    #[test]
    fn pauses_grow_and_end() {
        let seconds = Duration::from_secs;
        let pauses: Vec<Duration> = [0, 1, 2, 5, 99].map(|times| pause(seconds(10), times)).to_vec();
        assert_eq!(pauses, [10, 20, 40, 300, 300].map(seconds));
        assert_eq!(pause(seconds(900), 3), seconds(900));
    }

    #[test]
    fn a_refusal_pauses_and_a_failure_only_in_a_run_that_stays() {
        let mut short = Backoff::default();
        short.failed(at(1), true);
        short.failed(at(2), false);
        assert!(short.is_paused(&at(1)) && !short.is_paused(&at(2)) && short.next_try().is_none());
        let mut long = Backoff::staying(Duration::from_secs(60));
        long.failed(at(1), true);
        long.failed(at(2), false);
        assert!(long.is_paused(&at(1)) && long.is_paused(&at(2)) && long.next_try().is_some());
        long.keep(&HashMap::from([at(2)]));
        assert!(!long.is_paused(&at(1)) && long.is_paused(&at(2)));
        let mut soon = Backoff::staying(Duration::ZERO);
        soon.failed(at(1), true);
        assert!(!soon.is_paused(&at(1)), "its time has come");
    }
}
