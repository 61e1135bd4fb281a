//! Preferred runners: a state reserved for one runner for a while (`dwp-prefer-runner`, CONTRACT 11.14).
//!
//! Invariant: the end of the preference comes from the commit alone, and is compared with a `now` passed in.
//! Whatever the commit's date, no runner waits longer than twice [`MAX_SECONDS`].

use bstr::{BStr, ByteSlice};

use super::report::plain_line;
use super::trailers::Trailers;
use super::unable::is_unable;

/// The trailer that names the preferred runner.
pub(crate) const PREFER_RUNNER_KEY: &str = "dwp-prefer-runner";

/// The trailer that limits the preference, in seconds.
pub(crate) const PREFER_SECONDS_KEY: &str = "dwp-prefer-seconds";

/// The length of a preference whose limit is missing or invalid.
const DEFAULT_SECONDS: u64 = 60;

/// The longest preference: a day.
const MAX_SECONDS: u64 = 86_400;

/// The most characters of a runner's id that are shown.
const MAX_ID_CHARS: usize = 100;

/// A state reserved for another runner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Preferred {
    /// The preferred runner, as one plain line.
    pub(crate) runner: String,
    /// The second since the epoch from which any runner may run the state.
    pub(crate) until: i64,
}

/// The preference of a state committed at `committed_at`, if it still keeps `runner` from running it at
/// `now`.
///
/// If the commit is dated further into the future than its preference lasts, the clocks disagree and the
/// preference is ignored. Otherwise a runner would wait for as long as they disagree.
pub(crate) fn preferred(trailers: &Trailers, committed_at: i64, runner: &str, now: i64) -> Option<Preferred> {
    let wanted = trailers.last(PREFER_RUNNER_KEY)?.trim();
    if wanted.is_empty() || wanted == runner.as_bytes() || is_unable(trailers, &wanted.to_str_lossy()) {
        return None;
    }
    let seconds = trailers.last(PREFER_SECONDS_KEY).map_or(DEFAULT_SECONDS, seconds);
    let until = committed_at.saturating_add_unsigned(seconds);
    let is_ahead = committed_at > now.saturating_add_unsigned(seconds);
    (now < until && !is_ahead).then(|| Preferred { runner: plain_line(wanted, MAX_ID_CHARS), until })
}

fn seconds(value: &BStr) -> u64 {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return DEFAULT_SECONDS;
    }
    // Only digits, so the only possible failure is overflow.
    value.to_str_lossy().parse().unwrap_or(MAX_SECONDS).min(MAX_SECONDS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::trailers::Trailer;

    fn until(runner: &str, limit: Option<&str>, now: i64) -> Option<i64> {
        let limit = limit.map(|limit| Trailer::new(PREFER_SECONDS_KEY, limit));
        let trailers = [Trailer::new(PREFER_RUNNER_KEY, runner)].into_iter().chain(limit).collect();
        preferred(&trailers, 1_000, "here", now).map(|preferred| preferred.until)
    }

    /// CONTRACT 11.14
    #[test]
    fn table() {
        let rows = [
            ("there", None, 1_000, Some(1_060)),
            ("there", None, 1_059, Some(1_060)),
            ("there", None, 1_060, None),
            ("here", None, 1_000, None),
            ("", None, 1_000, None),
            ("there", Some("5"), 1_004, Some(1_005)),
            ("there", Some("5"), 1_005, None),
            ("there", Some("0"), 1_000, None),
            ("there", Some("soon"), 1_059, Some(1_060)),
            ("there", Some("-5"), 1_059, Some(1_060)),
            ("there", Some("99999999999999999999"), 1_000, Some(87_400)),
            // The commit is dated ahead of this clock.
            ("there", Some("5"), 995, Some(1_005)),
            ("there", Some("5"), 994, None),
        ];
        for (runner, limit, now, expected) in rows {
            assert_eq!(until(runner, limit, now), expected, "{runner} {limit:?} {now}");
        }
        assert_eq!(preferred(&Trailers::new(), 0, "here", 0), None);
    }
}
