//! Parking: a state that is not to be run before a time (CONTRACT.md §11, `dwp-not-before`).
//!
//! Invariant: what the trailer says is decided by the commit alone; whether the time has come, by a `now` handed in. A
//! time that cannot be read parks the branch for good, with a reason: to run at once what somebody wanted to be late
//! could be the costlier mistake.

use bstr::{BStr, ByteSlice};
use chrono::DateTime;

use super::trailers::Trailers;

/// The trailer that parks a state.
pub const NOT_BEFORE_KEY: &str = "dwp-not-before";

/// Whether a state may be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parking {
    /// It may.
    Over,
    /// Not before this second, since the epoch.
    Until(i64),
    /// It says when, but not so that one could tell; why.
    Unreadable(String),
}

/// What the trailers of a state say about its time, at `now` (seconds since the epoch).
pub fn parking(trailers: &Trailers, now: i64) -> Parking {
    let Some(value) = trailers.last(NOT_BEFORE_KEY) else { return Parking::Over };
    match parse(value) {
        Some(time) if time > now => Parking::Until(time),
        Some(_) => Parking::Over,
        None => Parking::Unreadable(format!(
            "its {NOT_BEFORE_KEY} is no time: {:?}; write one like 2026-01-31T17:42:00Z",
            value.to_str_lossy().chars().take(60).collect::<String>()
        )),
    }
}

/// An RFC 3339 time, in whole seconds since the epoch, never too early.
fn parse(value: &BStr) -> Option<i64> {
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
