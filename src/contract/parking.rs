//! Parking: a state that must not be run before a given time (`dwp-not-before`, CONTRACT 11.10).
//!
//! Invariant: the time comes from the commit alone, and is compared with a `now` passed in. A time
//! that cannot be parsed parks the branch until it is changed: to run at once work that was meant
//! to wait could be the costlier mistake.

use bstr::{BStr, ByteSlice};
use chrono::{DateTime, SecondsFormat};

use super::trailers::{Trailer, Trailers};

/// The trailer that parks a state.
pub const NOT_BEFORE_KEY: &str = "dwp-not-before";

/// Whether a state may be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parking {
    /// It may.
    Over,
    /// Not before this second, since the epoch.
    Until(i64),
    /// The time cannot be parsed; the reason.
    Unreadable(String),
}

/// Reads the trailers of a state at `now` (seconds since the epoch).
pub fn parking(trailers: &Trailers, now: i64) -> Parking {
    let Some(value) = trailers.last(NOT_BEFORE_KEY) else { return Parking::Over };
    match time_of(value) {
        Some(time) if time > now => Parking::Until(time),
        Some(_) => Parking::Over,
        None => Parking::Unreadable(format!(
            "invalid {NOT_BEFORE_KEY} {:?}; write one like 2026-01-31T17:42:00Z",
            value.to_str_lossy().chars().take(60).collect::<String>()
        )),
    }
}

/// The trailer that parks a state until a second since the epoch.
pub(crate) fn not_before(second: i64) -> Trailer {
    Trailer::new(NOT_BEFORE_KEY, time(second))
}

/// A second since the epoch, as trailers have it.
pub(crate) fn time(second: i64) -> String {
    let time = DateTime::from_timestamp(second, 0).unwrap_or(DateTime::UNIX_EPOCH);
    time.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// Returns the time before which a state is not run, in seconds since the epoch, if it can be parsed.
pub(crate) fn asked_time(trailers: &Trailers) -> Option<i64> {
    time_of(trailers.last(NOT_BEFORE_KEY)?)
}

/// Parses an RFC 3339 time into whole seconds since the epoch, rounded up.
pub(crate) fn time_of(value: &BStr) -> Option<i64> {
    let time = DateTime::parse_from_rfc3339(value.to_str().ok()?.trim()).ok()?;
    Some(time.timestamp() + i64::from(time.timestamp_subsec_nanos() > 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::message::Message;

    fn at(value: &str, now: i64) -> Parking {
        let message = Message::parse(format!("s\n\ndwp-state: a\ndwp-not-before: {value}\n").as_bytes());
        parking(&message.trailers, now)
    }

    /// CONTRACT 11.10
    #[test]
    fn table() {
        for (value, now, expected) in [
            ("1970-01-01T00:01:40Z", 99, Parking::Until(100)),
            ("1970-01-01T00:01:40Z", 100, Parking::Over),
            ("1970-01-01T01:01:40+01:00", 99, Parking::Until(100)),
            ("1970-01-01T00:01:39.5Z", 99, Parking::Until(100)),
            ("1970-01-01 00:01:40z", 99, Parking::Until(100)),
        ] {
            assert_eq!(at(value, now), expected, "{value}");
        }
        for odd in ["", "soon", "1970-01-01", "1970-01-01T00:01:40", "100", "1970-13-01T00:00:00Z"] {
            assert!(matches!(at(odd, 0), Parking::Unreadable(_)), "{odd}");
        }
        assert_eq!(parking(&Message::parse(b"s\n\ndwp-state: a\n").trailers, 0), Parking::Over);
    }
}
