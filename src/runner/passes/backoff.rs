//! What one run remembers from pass to pass, so that it neither repeats itself nor pesters a server.
//!
//! Invariant: nothing here decides who holds a branch; forgetting all of it costs a repeated message or a push too many.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use crate::clock;
use crate::contract::ids::{BranchName, CommitId};

/// A branch at one HEAD.
pub(crate) type At = (BranchName, CommitId);

/// What failed is tried again at least this often, where it is tried again at all.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// What a run remembers.
#[derive(Debug, Default)]
pub struct Backoff {
    /// Triggers that were run.
    done: HashSet<At>,
    /// Heads whose dates were remarked on.
    remarked: HashSet<At>,
    /// Heads that could not be moved.
    failed: HashMap<At, Failure>,
    /// The first pause before a failed move is tried again; none where the run ends before that.
    first_pause: Option<Duration>,
}

#[derive(Debug, Clone, Copy)]
struct Failure {
    times: u32,
    /// None: not in this run.
    again: Option<Instant>,
}

impl Backoff {
    /// Of a run that stays: what failed is tried again after `first`, and then less and less often.
    pub(crate) fn staying(first: Duration) -> Self {
        Self { first_pause: Some(first), ..Self::default() }
    }

    /// The commands of these triggers have run.
    pub(crate) fn ran(&mut self, triggers: impl IntoIterator<Item = At>) {
        self.done.extend(triggers);
    }

    /// Whether the command of this trigger has run.
    pub(crate) fn has_run(&self, at: &At) -> bool {
        self.done.contains(at)
    }

    /// Lets triggers that come back run again.
    /// Says whether there were any.
    pub(crate) fn forget_runs(&mut self) -> bool {
        !std::mem::take(&mut self.done).is_empty()
    }

    /// Whether this is the first remark about the date of this HEAD.
    pub(crate) fn remark(&mut self, at: At) -> bool {
        self.remarked.insert(at)
    }

    /// A move of this HEAD failed. If the server refuses it, it is left alone for a while, or for the rest of the run; what
    /// may go well in a moment is left alone only by a run that stays.
    pub(crate) fn failed(&mut self, at: At, refused: bool) {
        if self.first_pause.is_none() && !refused {
            return;
        }
        let failure = self.failed.entry(at).or_insert(Failure { times: 0, again: None });
        failure.again = self.first_pause.map(|first| clock::monotonic() + pause(first, failure.times));
        failure.times = failure.times.saturating_add(1);
    }

    /// Whether this HEAD is to be left alone because a move of it failed.
    pub(crate) fn rests(&self, at: &At) -> bool {
        self.failed
            .get(at)
            .is_some_and(|failure| failure.again.is_none_or(|again| clock::monotonic() < again))
    }

    /// When the next of what failed is to be tried again.
    pub(crate) fn next_try(&self) -> Option<Instant> {
        let now = clock::monotonic();
        self.failed.values().filter_map(|failure| failure.again).filter(|again| *again > now).min()
    }

    /// Whether there is anything [`Backoff::keep`] could forget.
    pub(crate) fn is_about_heads(&self) -> bool {
        !self.remarked.is_empty() || !self.failed.is_empty()
    }

    /// Forgets what is about HEADs that branches do not have any more; triggers that were run are remembered.
    pub(crate) fn keep(&mut self, heads: &HashMap<BranchName, CommitId>) {
        let is_head = |(branch, head): &At| heads.get(branch) == Some(head);
        self.remarked.retain(is_head);
        self.failed.retain(|at, _| is_head(at));
    }
}

/// The pause after so many earlier failures: doubled with each, up to five minutes.
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
    fn a_refusal_rests_and_a_failure_only_in_a_run_that_stays() {
        let mut short = Backoff::default();
        short.failed(at(1), true);
        short.failed(at(2), false);
        assert!(short.rests(&at(1)) && !short.rests(&at(2)) && short.next_try().is_none());
        let mut long = Backoff::staying(Duration::from_secs(60));
        long.failed(at(1), true);
        long.failed(at(2), false);
        assert!(long.rests(&at(1)) && long.rests(&at(2)) && long.next_try().is_some());
        long.keep(&HashMap::from([at(2)]));
        assert!(!long.rests(&at(1)) && long.rests(&at(2)));
        let mut soon = Backoff::staying(Duration::ZERO);
        soon.failed(at(1), true);
        assert!(!soon.rests(&at(1)), "its time has come");
    }
}
