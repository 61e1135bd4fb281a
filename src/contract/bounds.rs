//! Bounds on loops: how many steps a branch makes in an hour, how often it comes to a state with the
//! same files, and how soon a failed `stalled` command is tried again (CONTRACT 11.16 to 11.19).
//!
//! Invariant: the verdict follows from the commits of the branch, the limits and a `now` passed in.
//! The history is an iterator, newest first, and is read no further than the answer needs.

use std::iter::Peekable;

use bstr::BString;

use super::commits::OVERRIDES_KEY;
use super::head::Head;
use super::ids::{CommitId, StateName};
use super::lease::ORIGIN_KEY;
use super::parking::{Parking, parking};
use super::requeue::INTERRUPTED_KEY;
use super::trailers::Trailers;
use super::unable::HANDED_BACK_KEY;

/// Names the attempt from within which a state was set on a branch that the attempt does not hold.
pub const FROM_ATTEMPT_KEY: &str = "aynig-from-attempt";

/// The time in which steps are counted, in seconds.
const HOUR: i64 = 3_600;

/// The pause after the first failure of a `stalled` command, in seconds. It doubles with each more, up
/// to an hour.
const FIRST_PAUSE: i64 = 60;

/// The most commits with a state that are read.
const MOST_READ: usize = 5_000;

/// The limits of a runner. 0 is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most steps in an hour.
    pub steps: u64,
    /// How many times in a row a state may be run with the same files.
    pub rounds: u64,
}

/// A bound that a branch has reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bound {
    /// It has made too many steps in the last hour.
    Steps {
        /// Their number.
        count: u64,
        /// When the first of them began, in seconds since the epoch.
        since: i64,
    },
    /// It has come to the same state with the same files too many times in a row.
    Rounds {
        /// The state.
        state: StateName,
        /// The number of times before this one.
        count: u64,
        /// The tree.
        tree: CommitId,
    },
    /// The command for `stalled` has failed.
    Stalled {
        /// How many times in a row, as far as it matters.
        count: u32,
        /// The time of the next try, in seconds since the epoch.
        until: i64,
    },
}

impl Bound {
    /// When the branch is free by itself, in seconds since the epoch.
    pub fn until(&self) -> Option<i64> {
        match self {
            Self::Steps { since, .. } => Some(since.saturating_add(HOUR)),
            Self::Rounds { .. } => None,
            Self::Stalled { until, .. } => Some(*until),
        }
    }

    /// The word in JSON.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Steps { .. } => "maxSteps",
            Self::Rounds { .. } => "maxRounds",
            Self::Stalled { .. } => "stalledAgain",
        }
    }
}

/// A commit that declares a state, as far as bounds need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fact {
    tree: CommitId,
    /// Its date, in seconds since the epoch.
    at: i64,
    what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum What {
    /// A lease of this attempt.
    Lease(BString),
    State(Visit),
}

/// A state that was declared.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Visit {
    state: StateName,
    /// Whether it was set by hand over another lease.
    over_lease: bool,
    /// Whether a command set it on a branch that is not its own.
    from_attempt: bool,
    /// Whether the runner has put it back.
    put_back: bool,
    /// Whether a pause was declared.
    pauses: bool,
    /// Whether it is the end of a failed command for `stalled`.
    stalled_again: bool,
}

impl Fact {
    /// The fact that a commit is; `None` if it declares no state.
    pub(crate) fn new(head: &Head, tree: CommitId, at: i64) -> Option<Self> {
        let what = match head {
            Head::Unmanaged | Head::Invalid(_) => return None,
            Head::Working(lease) => What::Lease(lease.run_id.clone()),
            Head::Ready(event) => What::State(Visit::new(&event.state, &event.message.trailers, at)),
        };
        Some(Self { tree, at, what })
    }

    fn visit(&self) -> Option<&Visit> {
        match &self.what {
            What::State(visit) => Some(visit),
            What::Lease(_) => None,
        }
    }
}

impl Visit {
    fn new(state: &StateName, trailers: &Trailers, at: i64) -> Self {
        let has = |key| trailers.last(key).is_some();
        let origin = trailers.last(ORIGIN_KEY).and_then(|origin| StateName::parse(origin).ok());
        Self {
            state: state.clone(),
            over_lease: has(OVERRIDES_KEY),
            from_attempt: has(FROM_ATTEMPT_KEY),
            put_back: has(INTERRUPTED_KEY) || has(HANDED_BACK_KEY),
            // A time that was over already when the commit was made is a kept trailer.
            pauses: matches!(parking(trailers, at), Parking::Until(_)),
            stalled_again: state.is_stalled() && origin.is_some_and(|origin| origin.is_stalled()),
        }
    }

    /// Whether the state was requested from outside, where `below` is the next older fact: not by the
    /// attempt whose lease it lies on, and not by one of another branch.
    fn is_asked(&self, below: Option<&Fact>) -> bool {
        let on_lease = below.is_some_and(|below| below.visit().is_none());
        !self.from_attempt && (self.over_lease || !on_lease)
    }
}

/// The facts from HEAD down to the newest state that was requested from outside.
fn since_asked(facts: impl Iterator<Item = Fact>) -> impl Iterator<Item = Fact> {
    let mut facts: Peekable<_> = facts.take(MOST_READ).peekable();
    let mut over = false;
    std::iter::from_fn(move || {
        let fact = facts.next().filter(|_| !over)?;
        over = fact.visit().is_some_and(|visit| visit.is_asked(facts.peek()));
        Some(fact)
    })
}

/// Decides whether a branch has reached a bound. `facts` are its history from HEAD, which declares a
/// state that is to be run.
pub(crate) fn reached(limits: Limits, now: i64, facts: impl Iterator<Item = Fact>) -> Option<Bound> {
    let mut facts = since_asked(facts);
    let head = facts.next()?;
    let visit = head.visit()?.clone();
    let mut below = facts.peekable();
    // HEAD itself was requested from outside.
    below.peek()?;
    let mut stalls = Stalls { open: visit.stalled_again, at: head.at, count: 0 };
    let mut rounds = Rounds { limit: limits.rounds, open: limits.rounds > 0, count: 0 };
    let mut steps = Steps { limit: limits.steps, open: limits.steps > 0, ..Steps::default() };
    for fact in std::iter::once(head.clone()).chain(below) {
        match &fact.what {
            What::Lease(run_id) => steps.lease(run_id, fact.at, now),
            What::State(older) => {
                stalls.state(older);
                if rounds.state(older, older.state == visit.state, fact.tree == head.tree) {
                    // HEAD is the visit that is not made any more.
                    let count = rounds.limit;
                    return Some(Bound::Rounds { state: visit.state, count, tree: head.tree });
                }
                if let Some(since) = steps.begun() {
                    return Some(Bound::Steps { count: limits.steps, since });
                }
            }
        }
        if let Some(bound) = stalls.over().filter(|bound| bound.until() > Some(now)) {
            return Some(bound);
        }
        if !(stalls.open || rounds.open || steps.open) {
            return None;
        }
    }
    stalls.open = false;
    stalls.over().filter(|bound| bound.until() > Some(now))
}

/// Counts how often HEAD's state was reached since the newest request from outside, from 1 on.
pub(crate) fn visits(facts: impl Iterator<Item = Fact>) -> usize {
    let mut state = None;
    let visits = since_asked(facts).filter_map(|fact| match fact.what {
        What::State(visit) => Some(visit),
        What::Lease(_) => None,
    });
    let same = visits.filter(|visit| *state.get_or_insert_with(|| visit.state.clone()) == visit.state);
    same.filter(|visit| !visit.put_back).count().max(1)
}

/// Counts how often in a row the command for `stalled` has failed.
struct Stalls {
    open: bool,
    /// The date of HEAD.
    at: i64,
    count: u32,
}

impl Stalls {
    fn state(&mut self, visit: &Visit) {
        self.open &= visit.stalled_again;
        self.count += u32::from(self.open);
        // More would not make the pause longer.
        self.open &= FIRST_PAUSE << self.count.saturating_sub(1) < HOUR;
    }

    /// The pause, once all has been counted.
    fn over(&self) -> Option<Bound> {
        if self.open || self.count == 0 {
            return None;
        }
        let pause = (FIRST_PAUSE << (self.count - 1)).min(HOUR);
        Some(Bound::Stalled { count: self.count, until: self.at.saturating_add(pause) })
    }
}

/// Counts how often in a row the branch came to a state with the same files.
struct Rounds {
    limit: u64,
    open: bool,
    count: u64,
}

impl Rounds {
    /// Takes the next older state. Returns whether there are too many.
    fn state(&mut self, visit: &Visit, same_state: bool, same_tree: bool) -> bool {
        // A loop with pauses does not spin.
        self.open &= !visit.pauses && !visit.stalled_again && (same_tree || !same_state);
        self.count += u64::from(self.open && same_state && !visit.put_back);
        self.open && self.count > self.limit
    }
}

/// Counts the steps of the last hour. A step begins with the oldest lease of its attempt.
#[derive(Default)]
struct Steps {
    limit: u64,
    open: bool,
    run_id: Option<BString>,
    /// The number of steps so far, and when the oldest of them began.
    count: u64,
    since: i64,
}

impl Steps {
    fn lease(&mut self, run_id: &BString, at: i64, now: i64) {
        let is_old = at <= now.saturating_sub(HOUR);
        let is_known = self.run_id.as_ref() == Some(run_id);
        if is_old {
            self.open = false;
        } else if self.open && !is_known {
            self.count += 1;
        }
        self.run_id = Some(run_id.clone());
        self.since = at;
    }

    /// When the first of too many steps began. A step is counted once the state below its lease is read.
    fn begun(&self) -> Option<i64> {
        (self.open && self.count >= self.limit).then_some(self.since)
    }
}

#[cfg(test)]
mod tests;
