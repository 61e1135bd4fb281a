//! A branch as the survey judges it.
//!
//! Invariant: all remaining times are relative to one `now`, and can be recomputed for another
//! ([`BranchView::retime`]) without reading the repository.

mod json;

use crate::clock;
use crate::contract::unable::Unable;
use crate::contract::waits_for::WaitsFor;
use crate::ops::view::deferred::DeferredView;
use crate::runner::survey::Verdict;
use crate::runner::survey::verdict::Leased;

/// The kinds of branches, in the order of a table: what needs a person first.
pub const KINDS: [&str; 11] = [
    "waits-for-you",
    "stalled",
    "invalid",
    "expired",
    "working",
    "ready",
    "parked",
    "waiting",
    "rests",
    "excluded",
    "unmanaged",
];

/// The kind of a branch that waits for somebody's answer.
pub const WAITS: &str = KINDS[0];

/// The cause of a request that was handed back, and that no host has taken.
pub(super) const UNTAKEN: &str = "handedBack";

/// What a pass does about a branch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Act {
    /// It leaves the branch alone.
    #[default]
    Nothing,
    /// It runs the command.
    Run,
    /// It closes the expired lease.
    Close,
    /// It sets the deferred state, and then judges the branch anew.
    Deliver,
}

impl Act {
    /// The word in JSON. It never changes its meaning.
    pub fn word(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Run => "run",
            Self::Close => "close",
            Self::Deliver => "deliver",
        }
    }

    pub(super) fn of(verdict: &Verdict) -> Self {
        match verdict {
            Verdict::Ready { .. } => Self::Run,
            Verdict::Leased(Leased { over: true, .. }) => Self::Close,
            _ => Self::Nothing,
        }
    }
}

/// One branch, ready to be shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BranchView {
    /// Its name.
    pub branch: String,
    /// Its HEAD.
    pub commit: Option<String>,
    /// The state that HEAD declares, valid or not.
    pub state: Option<String>,
    /// The verdict, in one word.
    pub kind: &'static str,
    /// What a pass does about it.
    pub act: Act,
    /// The state that a lease, or a stalled attempt, worked on.
    pub origin: Option<String>,
    /// The lease it is under.
    pub lease: Option<LeaseView>,
    /// The question it waits with for somebody's answer.
    pub waits: Option<WaitsView>,
    /// The command that would run.
    pub command: Option<String>,
    /// Why nothing runs, or further facts.
    pub reason: Option<String>,
    /// A shorter reason for tables. `None` if the reason itself is used.
    pub brief: Option<String>,
    /// HEAD's subject.
    pub subject: Option<String>,
    /// The request in words, if it says more than the subject.
    pub wish: Option<String>,
    /// The request that a leased branch works on, in words.
    pub asked: Option<String>,
    /// HEAD's date, in seconds since the epoch.
    pub committed_at: Option<i64>,
    /// The date of a parked branch, or the deadline of an answer, in seconds since the epoch.
    pub not_before: Option<i64>,
    /// The bound that it has reached, with the evidence and the next step.
    pub bound: Option<String>,
    /// The runner that the state is left to, and until when, in seconds since the epoch.
    pub preferred: Option<(String, i64)>,
    /// The word for why the state is not run.
    pub cause: Option<&'static str>,
    /// The deferred state that waits beside it.
    pub deferred: Option<DeferredView>,
    /// The reason that a stalled commit gives, or how the command of a kept lease ended.
    pub why: Option<String>,
    /// How the command of a kept lease ended, in one word.
    pub ended: Option<&'static str>,
    /// The author of a request to cancel its attempt.
    pub cancel: Option<String>,
    /// How often in a row it was interrupted.
    pub interrupted: Option<u32>,
    /// The runners that handed the request back.
    pub unable: Vec<Unable>,
    /// Why it is requested again, and where the work is, in words.
    pub again: Option<String>,
    /// The ref that its HEAD names with the work of the attempt before.
    pub rescue: Option<String>,
    /// Whether the branch was meant to run and does not.
    pub mistake: bool,
    /// Whether its state has no command.
    pub rests: bool,
    /// The seconds until that date.
    pub wakes_in: Option<i64>,
}

/// A question that waits for an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WaitsView {
    /// The name that it waits for.
    pub whom: String,
    /// The allowed answers. `None` without a valid list.
    pub answers: Option<Vec<String>>,
    /// When it was asked, in seconds since the epoch.
    pub since: i64,
    /// The seconds since then.
    pub age: u64,
}

impl WaitsView {
    pub(crate) fn new(question: &WaitsFor, since: i64) -> Self {
        let answers = question.answers.states();
        Self {
            whom: question.whom.clone(),
            answers: answers.map(|states| states.iter().map(ToString::to_string).collect()),
            since,
            age: 0,
        }
    }
}

/// The lease a branch is under.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseView {
    /// Its attempt.
    pub run_id: String,
    /// Its runner, in words.
    pub runner: String,
    /// Its length.
    pub seconds: u64,
    /// Its end, in seconds since the epoch.
    pub expires_at: i64,
    /// The seconds left. Negative after its end.
    pub left: i64,
    /// When another runner takes over: if its runner is known to be gone, or if it has ended and the clocks of hosts may
    /// differ.
    pub gone: Option<String>,
    /// The seconds since passes on this host first saw it, and the seconds after which `--takeover
    /// observed` takes it over.
    pub seen: Option<(u64, u64)>,
}

impl BranchView {
    /// Whether its request was handed back, and no host has taken it.
    pub fn is_untaken(&self) -> bool {
        self.cause == Some(UNTAKEN)
    }

    /// Adds the deferred state that waits for the branch.
    pub(crate) fn waited_for(&mut self, deferred: DeferredView) {
        deferred.add_to(&mut self.reason);
        if self.brief.is_some() {
            deferred.add_to(&mut self.brief);
        }
        self.deferred = Some(deferred);
    }

    /// Recomputes the remaining times for `now`.
    pub fn retime(&mut self, now: i64) {
        if let Some(lease) = &mut self.lease {
            lease.left = lease.expires_at.saturating_sub(now);
        }
        if let Some(waits) = &mut self.waits {
            waits.age = u64::try_from(now.saturating_sub(waits.since)).unwrap_or(0);
            self.wakes_in = self.not_before.map(|until| until.saturating_sub(now));
        } else if let Some(until) = self.not_before {
            let left = clock::span(until.abs_diff(now));
            let words = if until > now { format!("in {left}") } else { format!("{left} ago") };
            let facts: String = self.again.iter().map(|fact| format!("; {fact}")).collect();
            self.reason = Some(match &self.bound {
                // It names the date.
                Some(bound) => format!("{words}: {bound}{facts}"),
                None => format!("until {} ({words}){facts}", clock::format_utc(until)),
            });
            if let Some(deferred) = &self.deferred {
                deferred.add_to(&mut self.reason);
            }
            self.wakes_in = Some(until.saturating_sub(now));
        }
    }

    /// Returns a copy with all remaining times cleared, so that two looks can be compared.
    pub fn timeless(&self) -> Self {
        let mut row = self.clone();
        row.retime(0);
        if let Some(lease) = &mut row.lease {
            // The count of an observed lease alone is no change.
            lease.seen = lease.seen.map(|(_, wanted)| (0, wanted));
        }
        row
    }

    /// When the clock alone changes the verdict, in seconds since the epoch.
    pub fn turns_at(&self) -> Option<i64> {
        let over = self.lease.as_ref().filter(|_| self.kind == "working");
        let own = over.map(|lease| lease.expires_at.saturating_add(1)).or(self.not_before);
        own.or(self.preferred.as_ref().map(|(_, until)| *until))
    }

    /// Whether the branch has stalled and no command will run for it.
    pub fn is_stalled(&self) -> bool {
        self.kind == "waiting" && self.state.as_deref() == Some("stalled")
    }

    /// Its kind. It is finer than the verdict's.
    pub fn label(&self) -> &'static str {
        match self {
            _ if self.is_stalled() => "stalled",
            // Its command ended with an invalid declaration, and nobody works.
            Self { kind: "working", mistake: true, ended: Some(_), .. } => "invalid",
            Self { rests: true, .. } => "rests",
            Self { kind, .. } => kind,
        }
    }

    /// The subject of the branch: the request, if the subject alone is less specific.
    pub fn about(&self) -> Option<&str> {
        self.asked.as_deref().or(self.wish.as_deref()).or(self.subject.as_deref())
    }

    /// The reason in one line. Empty if the label says it all.
    pub fn in_brief(&self) -> &str {
        self.brief.as_ref().or(self.reason.as_ref()).map_or("", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_alone_changes_words_and_nothing_else() {
        let lease = LeaseView {
            run_id: "r".into(),
            runner: "host".into(),
            seconds: 60,
            expires_at: 1_000,
            left: 0,
            gone: None,
            seen: Some((1, 70)),
        };
        let mut leased = BranchView { kind: "working", lease: Some(lease), ..BranchView::default() };
        leased.retime(940);
        let early = leased.clone();
        leased.retime(1_003);
        assert_eq!((early.lease.as_ref().unwrap().left, leased.lease.as_ref().unwrap().left), (60, -3));
        leased.lease.as_mut().unwrap().seen = Some((64, 70));
        assert!(early != leased && early.timeless() == leased.timeless());
        assert_eq!(early.turns_at(), Some(1_001), "it protects the branch in its last second");
        let mut parked = BranchView { kind: "parked", not_before: Some(7_300), ..BranchView::default() };
        parked.retime(100);
        assert_eq!(parked.reason.as_deref(), Some("until 1970-01-01T02:01:40Z (in 2 h 0 min)"));
        let early = parked.clone();
        parked.retime(7_310);
        assert_eq!(parked.reason.as_deref(), Some("until 1970-01-01T02:01:40Z (10 s ago)"));
        assert!(early != parked && early.timeless() == parked.timeless());
        assert_eq!(parked.turns_at(), Some(7_300));
        let waits = WaitsView { since: 100, ..WaitsView::default() };
        let mut asked = BranchView { kind: "waits-for-you", waits: Some(waits), ..parked.clone() };
        asked.retime(160);
        let early = asked.clone();
        asked.retime(7_310);
        let age = |row: &BranchView| row.waits.as_ref().map(|waits| waits.age);
        assert_eq!((age(&early), age(&asked)), (Some(60), Some(7_210)));
        assert!(early != asked && early.timeless() == asked.timeless());
        assert_eq!(asked.turns_at(), Some(7_300), "it is run then");
        let moved = BranchView { commit: Some("other".into()), ..parked.clone() };
        assert!(moved.timeless() != parked.timeless());
    }
}
