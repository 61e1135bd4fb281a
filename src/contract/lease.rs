//! The lease: what a `working` commit promises and until when (section 5 of CONTRACT.md).
//!
//! Invariant: liveness is a function of the committer date, the recorded seconds and a `now` passed
//! in. Nothing here reads a clock, and no value in a hostile commit overflows.

use std::time::Duration;

use bstr::{BStr, BString, ByteSlice};

use super::ids::{AttemptId, BranchName, CommitId, StateName};
use super::message::Message;
use super::trailers::Trailers;

pub(crate) const ORIGIN_KEY: &str = "dwp-origin-state";
pub(crate) const RUN_KEY: &str = "dwp-run-id";
pub(crate) const RUNNER_KEY: &str = "dwp-runner-id";
pub(crate) const SECONDS_KEY: &str = "dwp-lease-seconds";
/// Names the branch of a lease, for those who meet it behind a merge (CONTRACT 5.37).
pub(crate) const BRANCH_KEY: &str = "aynig-branch";

/// Lease length when `dwp-lease-seconds` is missing or invalid (CONTRACT 5.7).
pub(crate) const DEFAULT_LEASE_SECONDS: u64 = 300;

/// The longest lease that is written, and that a guard accepts: a year (CONTRACT 12.10).
pub const MAX_LEASE_SECONDS: u64 = 31_536_000;

/// A parsed `working` commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The commit.
    pub(crate) commit: CommitId,
    /// The committer date, seconds since the epoch.
    pub(crate) committed_at: i64,
    /// `dwp-lease-seconds`; at least 1.
    pub seconds: u64,
    /// `dwp-run-id` as written, empty if absent.
    pub run_id: BString,
    /// `dwp-runner-id` as written, empty if absent.
    pub runner: BString,
    /// `dwp-origin-state`, if it is a legal state name.
    pub origin: Option<StateName>,
    /// `dwp-source` as written.
    pub source: Option<BString>,
    /// The parsed message.
    pub message: Message,
}

/// Whether a lease still protects its branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    /// It does, for this many more seconds; 0 in its last one.
    Live {
        /// Seconds left.
        left: u64,
    },
    /// It ended this many seconds ago; at least 1.
    Expired {
        /// Seconds since the end.
        over: u64,
    },
}

impl Lease {
    pub(crate) fn from_message(commit: CommitId, committed_at: i64, message: Message) -> Self {
        let text = |key| message.trailers.last(key).map(BStr::to_owned);
        Self {
            commit,
            committed_at,
            seconds: text(SECONDS_KEY).map_or(DEFAULT_LEASE_SECONDS, |value| parse_seconds(value.as_bstr())),
            run_id: text(RUN_KEY).unwrap_or_default(),
            runner: text(RUNNER_KEY).unwrap_or_default(),
            origin: text(ORIGIN_KEY).and_then(|value| StateName::parse(value).ok()),
            source: text("dwp-source"),
            message,
        }
    }

    /// The last second of the lease, since the epoch.
    pub fn expires_at(&self) -> i64 {
        self.committed_at.saturating_add_unsigned(self.seconds)
    }

    /// Whether the lease is alive at `now`, seconds since the epoch (CONTRACT 5.4).
    pub fn liveness(&self, now: i64) -> Liveness {
        liveness_at(self.expires_at(), now)
    }

    /// How many seconds the commit is dated after `now`, if more than `tolerance`: two clocks
    /// disagree (CONTRACT 5.12).
    pub(crate) fn dated_ahead(&self, now: i64, tolerance: u64) -> Option<u64> {
        let ahead = self.committed_at.abs_diff(now);
        (self.committed_at > now && ahead > tolerance).then_some(ahead)
    }

    /// Whether the lease names `branch` as its own.
    pub(crate) fn is_of(&self, branch: &BranchName) -> bool {
        self.message.trailers.last(BRANCH_KEY) == Some(branch.as_bstr())
    }

    /// The attempt that holds the lease; `None` if its run id is not a UUID.
    pub fn attempt(&self) -> Option<AttemptId> {
        AttemptId::parse(&self.run_id)
    }
}

/// Time left of a lease of this length when it is to be renewed: a third of it (CONTRACT 10.3).
pub(crate) fn renewal_lead(seconds: u64) -> Duration {
    Duration::from_millis(seconds.saturating_mul(1000) / 3)
}

/// Whether a lease whose last second is `end` is alive at `now`.
pub fn liveness_at(end: i64, now: i64) -> Liveness {
    if now > end {
        Liveness::Expired { over: now.abs_diff(end) }
    } else {
        Liveness::Live { left: end.abs_diff(now) }
    }
}

/// The lease length that a state requests for its command, if it requests one (CONTRACT 5.27).
///
/// # Errors
/// The reason why `dwp-lease-seconds` is no such length.
pub(crate) fn requested_seconds(trailers: &Trailers) -> Result<Option<u64>, String> {
    let Some(value) = trailers.last(SECONDS_KEY) else { return Ok(None) };
    let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let seconds = value.to_str().ok().filter(|_| digits).and_then(|text| text.parse().ok());
    match seconds {
        Some(seconds @ 1..=MAX_LEASE_SECONDS) => Ok(Some(seconds)),
        Some(_) | None => Err(format!(
            "{SECONDS_KEY} {:?} is not a number from 1 to {MAX_LEASE_SECONDS}",
            value.to_str_lossy().chars().take(60).collect::<String>()
        )),
    }
}

/// Parses `dwp-lease-seconds`: decimal digits above zero. More than 64 bits becomes the largest
/// number, anything else the default.
pub(crate) fn parse_seconds(value: &BStr) -> u64 {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return DEFAULT_LEASE_SECONDS;
    }
    // Only digits, so the only possible failure is overflow.
    match value.to_str_lossy().parse().unwrap_or(u64::MAX) {
        0 => DEFAULT_LEASE_SECONDS,
        seconds => seconds,
    }
}

#[cfg(test)]
mod tests {
    use super::super::trailers::Trailer;
    use proptest::prelude::*;

    use super::*;

    fn lease(committed_at: i64, trailers: &str) -> Lease {
        let id = CommitId::from_bytes(&[7; 20]).expect("20 bytes");
        let message = Message::parse(format!("s\n\ndwp-state: working\n{trailers}\n").as_bytes());
        Lease::from_message(id, committed_at, message)
    }

    fn lasting(committed_at: i64, seconds: u64) -> Lease {
        lease(committed_at, &format!("dwp-lease-seconds: {seconds}"))
    }

    /// CONTRACT 5.7
    #[test]
    fn seconds_as_written() {
        for (text, seconds) in [
            ("30", 30),
            ("1", 1),
            ("007", 7),
            ("0", 300),
            ("-5", 300),
            ("+5", 300),
            ("", 300),
            ("5s", 300),
            ("1.5", 300),
            ("\u{663}", 300),
            ("18446744073709551615", u64::MAX),
            ("99999999999999999999999", u64::MAX),
        ] {
            assert_eq!(lease(0, &format!("dwp-lease-seconds: {text}")).seconds, seconds, "{text}");
        }
        assert_eq!(lease(0, "x: y").seconds, DEFAULT_LEASE_SECONDS);
    }

    #[test]
    fn fields() {
        let attempt = AttemptId::random();
        let full = lease(
            5,
            &format!(
                "dwp-origin-state: build\ndwp-run-id: {attempt}\ndwp-runner-id: h 1\ndwp-source: git:origin"
            ),
        );
        assert_eq!((full.commit.short(), full.committed_at), (String::from("0707070707"), 5));
        assert_eq!((full.attempt(), full.runner.as_bstr()), (Some(attempt), BStr::new("h 1")));
        assert_eq!(full.origin, StateName::parse("build").ok());
        assert_eq!(full.source, Some(BString::from("git:origin")));
        let bare = lease(5, "dwp-origin-state: ../x\ndwp-run-id: seven");
        assert_eq!((bare.origin, bare.source), (None, None));
        assert_eq!((bare.run_id.as_bstr(), bare.runner.as_bstr()), (BStr::new("seven"), BStr::new("")));
        assert_eq!(lease(5, "dwp-run-id: seven").attempt(), None);
    }

    /// CONTRACT 5.4
    #[test]
    fn liveness_table() {
        let lease = lasting(1_000, 30);
        for (now, expected) in [
            (900, Liveness::Live { left: 130 }),
            (1_000, Liveness::Live { left: 30 }),
            (1_030, Liveness::Live { left: 0 }),
            (1_031, Liveness::Expired { over: 1 }),
            (2_030, Liveness::Expired { over: 1_000 }),
        ] {
            assert_eq!(lease.liveness(now), expected, "{now}");
        }
    }

    /// CONTRACT 10.3
    #[test]
    fn renewal_table() {
        for (seconds, left) in [(30, 10_000), (300, 100_000), (1, 333), (2, 666), (10, 3_333)] {
            assert_eq!(renewal_lead(seconds), Duration::from_millis(left), "{seconds}");
        }
    }

    #[test]
    fn future_dates() {
        let lease = lasting(1_000, 30);
        for (now, tolerance, ahead) in [
            (1_000, 0, None),
            (990, 10, None),
            (989, 10, Some(11)),
            (2_000, 0, None),
            (i64::MIN, 5, Some(1_000 + (1 << 63))),
        ] {
            assert_eq!(lease.dated_ahead(now, tolerance), ahead, "{now}");
        }
    }

    proptest! {
        #[test]
        fn extremes_never_overflow(at in any::<i64>(), seconds in 1..=u64::MAX, now in any::<i64>()) {
            let lease = lasting(at, seconds);
            prop_assert!(lease.expires_at() >= at);
            prop_assert!(renewal_lead(seconds).as_secs() <= seconds / 3);
            let live = matches!(lease.liveness(now), Liveness::Live { .. });
            prop_assert_eq!(live, now <= lease.expires_at());
            prop_assert!(lease.dated_ahead(now, 0).is_some() == (at > now));
        }
    }

    /// CONTRACT 5.27
    #[test]
    fn a_state_requests_a_length() {
        let requested = |value: &str| {
            let trailers = [("x", "y"), (SECONDS_KEY, value)].map(|(key, value)| Trailer::new(key, value));
            requested_seconds(&trailers.into_iter().collect())
        };
        assert_eq!(requested_seconds(&Trailers::new()), Ok(None));
        for (value, seconds) in [("1", 1), ("60", 60), ("0900", 900), ("31536000", MAX_LEASE_SECONDS)] {
            assert_eq!(requested(value), Ok(Some(seconds)), "{value}");
        }
        for odd in ["", "0", "-1", "+5", "5s", "1.5", "31536001", "99999999999999999999"] {
            assert!(requested(odd).is_err_and(|why| why.contains(&format!("{odd:?}"))), "{odd}");
        }
    }
}
