//! Reads a HEAD by itself: what it declares, and whether that may be run at a time (CONTRACT 1.5, 11.10, 11.21).
//!
//! Invariant: it depends on this commit, the time and the options, and on no other commit or file.

use std::sync::Arc;

use super::super::options::Trust;
use super::verdict::{Invalid, Leased, Reason, Severity, Verdict};
use crate::contract::cancel::is_cancelled;
use crate::contract::head::{CommitFacts, Event, Head};
use crate::contract::ids::BranchName;
use crate::contract::lease::Liveness;
use crate::contract::parking::Parking;
use crate::contract::unable::parking_for;
use crate::contract::waits_for::{Answers, Deadline, WaitsFor};

/// The reading of a HEAD alone.
#[derive(Debug)]
pub(super) enum Reading {
    /// The verdict.
    Final(Verdict),
    /// HEAD requests a command, which has to be looked up.
    Asks {
        event: Event,
        /// The end of its parking, or of the wait for an answer, in seconds since the epoch.
        until: Option<i64>,
    },
}

/// Reads a HEAD at `now`, as `runner` does. A lease counts as expired only `skew` seconds after its end.
pub(super) fn read(
    facts: &CommitFacts<'_>,
    name: &BranchName,
    trust: &Trust,
    runner: &str,
    now: i64,
    skew: i64,
) -> Reading {
    let event = match Head::read(facts) {
        Head::Unmanaged => return Reading::Final(Verdict::Unmanaged),
        Head::Invalid(invalid) => {
            return Reading::Final(Verdict::Invalid(Invalid::Declared { why: invalid.reason }));
        }
        Head::Working(lease) => {
            let over = matches!(lease.liveness(now.saturating_sub(skew)), Liveness::Expired { .. });
            return Reading::Final(Verdict::Leased(Leased { lease: Arc::new(lease), over, seen: None }));
        }
        Head::Ready(event) => event,
    };
    let foreign = if !trust.admits_branch(name) {
        Some(Reason::ForeignBranch)
    } else if !trust.admits_state(&event.state) {
        Some(Reason::ForeignState { state: event.state.clone() })
    } else {
        None
    };
    // It can be answered whatever this runner runs.
    if let Some(question) = WaitsFor::of(&event.message.trailers).filter(|question| !question.is_due(now)) {
        let trouble = match (&question.answers, &question.deadline) {
            (Answers::Invalid(why), _) => Some(Reason::NoAnswers { why: why.clone() }),
            (_, Deadline::Unreadable(why)) => Some(Reason::NoTime { why: why.clone() }),
            (Answers::Any | Answers::Listed(_), Deadline::Never | Deadline::At(_)) => foreign,
        };
        return match (question.deadline, trouble) {
            (Deadline::At(until), None) => Reading::Asks { event, until: Some(until) },
            (Deadline::At(until), trouble) => {
                Reading::Final(Verdict::WaitsForYou { state: event.state, until: Some(until), trouble })
            }
            (Deadline::Never | Deadline::Unreadable(_), trouble) => {
                let trouble = trouble.filter(|reason| reason.severity() == Severity::Misconfigured);
                Reading::Final(Verdict::WaitsForYou { state: event.state, until: None, trouble })
            }
        };
    }
    let reason = if is_cancelled(&event) {
        Reason::Cancelled
    } else if let Some(foreign) = foreign {
        foreign
    } else {
        match parking_for(runner, &event.message.trailers, now) {
            Parking::Over => return Reading::Asks { event, until: None },
            Parking::Until(until) => return Reading::Asks { event, until: Some(until) },
            Parking::Unreadable(why) => Reason::NoTime { why },
        }
    };
    Reading::Final(Verdict::Waiting { state: event.state, reason })
}

#[cfg(test)]
pub(super) mod tests {
    use globset::{Glob, GlobSet};

    use super::*;
    use crate::contract::ids::CommitId;

    pub(in crate::runner::survey) fn name(name: &str) -> BranchName {
        BranchName::new(name).expect("a name")
    }

    pub(in crate::runner::survey) fn globs(glob: &str) -> GlobSet {
        GlobSet::builder().add(Glob::new(glob).expect("a glob")).build().expect("globs")
    }

    fn shown(reading: Reading) -> String {
        match reading {
            Reading::Asks { event, until: None } => format!("asks for {}", event.state),
            Reading::Asks { event, until: Some(until) } => format!("parks {} until {until}", event.state),
            Reading::Final(Verdict::Waiting { state, reason }) => format!("waiting {state}: {reason:?}"),
            Reading::Final(Verdict::Leased(leased)) => format!("leased, over: {}", leased.over),
            Reading::Final(Verdict::WaitsForYou { state, until, trouble }) => {
                format!("{state} waits for you until {until:?}: {trouble:?}")
            }
            Reading::Final(verdict) => verdict.word().to_owned(),
        }
    }

    #[test]
    fn reading_table() {
        let trust = Trust { branches: globs("ta*"), states: globs("{a,b}"), ..Trust::default() };
        let leased = "dwp-state: working\ndwp-lease-seconds: 30";
        let parked = "dwp-state: a\ndwp-not-before: 1970-01-01T00:02:00Z";
        for (branch, trailers, now, skew, expected) in [
            ("task", "x: y", 0, 0, "unmanaged"),
            ("task", "dwp-state: ../a", 0, 0, "invalid"),
            ("task", "dwp-state: a", 0, 0, "asks for a"),
            ("other", "dwp-state: a", 0, 0, "waiting a: ForeignBranch"),
            ("task", "dwp-state: c", 0, 0, "waiting c: ForeignState { state: StateName(\"c\") }"),
            ("task", parked, 119, 0, "parks a until 120"),
            ("task", parked, 120, 0, "asks for a"),
            ("other", parked, 119, 0, "waiting a: ForeignBranch"),
            (
                "task",
                "dwp-state: a\ndwp-not-before: soon",
                0,
                0,
                "waiting a: NoTime { why: \"invalid dwp-not-before \\\"soon\\\"; write one like \
                 2026-01-31T17:42:00Z\" }",
            ),
            ("task", "dwp-state: a\ndwp-waits-for: ana", 0, 0, "a waits for you until None: None"),
            ("other", "dwp-state: c\ndwp-waits-for: ana", 0, 0, "c waits for you until None: None"),
            ("task", "dwp-state: working\ndwp-waits-for: ana", 0, 0, "leased, over: false"),
            (
                "task",
                "dwp-state: stalled\ndwp-waits-for: ana",
                0,
                0,
                "stalled waits for you until None: None",
            ),
            ("task", &format!("{parked}\ndwp-waits-for: ana"), 119, 0, "parks a until 120"),
            ("task", &format!("{parked}\ndwp-waits-for: ana"), 120, 0, "asks for a"),
            (
                "other",
                &format!("{parked}\ndwp-waits-for: ana"),
                119,
                0,
                "a waits for you until Some(120): Some(ForeignBranch)",
            ),
            ("other", &format!("{parked}\ndwp-waits-for: ana"), 120, 0, "waiting a: ForeignBranch"),
            (
                "task",
                "dwp-state: a\ndwp-waits-for: ana\ndwp-answers: b, working",
                0,
                0,
                "a waits for you until None: Some(NoAnswers { why: \"invalid dwp-answers: \\\"working\\\" is a lease, and \
                 no answer; list states: approved, implement\" })",
            ),
            (
                "task",
                "dwp-state: a\ndwp-waits-for: ana\ndwp-not-before: soon",
                0,
                0,
                "a waits for you until None: Some(NoTime { why: \"invalid dwp-not-before \\\"soon\\\"; write one like \
                 2026-01-31T17:42:00Z\" })",
            ),
            ("task", "dwp-state: stalled\naynig-cancel: stall", 0, 0, "waiting stalled: Cancelled"),
            ("task", "dwp-state: a\naynig-cancel: stall", 0, 0, "asks for a"),
            // A lease counts whatever branches this runner runs. It was made at 100.
            ("other", leased, 130, 0, "leased, over: false"),
            ("other", leased, 131, 0, "leased, over: true"),
            ("other", leased, 140, 10, "leased, over: false"),
            ("other", leased, 141, 10, "leased, over: true"),
        ] {
            let message = format!("s\n\n{trailers}\n");
            let id = CommitId::from_bytes(&[1; 20]).expect("20 bytes");
            let facts = CommitFacts { id, committed_at: 100, message: message.as_bytes() };
            let reading = read(&facts, &name(branch), &trust, "here", now, skew);
            assert_eq!(shown(reading), expected, "{branch} {trailers} {now} {skew}");
        }
    }
}
