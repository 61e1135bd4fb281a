//! Times of runs: UTC, RFC 3339, milliseconds, `Z`.

use std::fmt;

use chrono::{DateTime, Datelike, SecondsFormat, Utc};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Milliseconds since the epoch. Written as `2026-01-01T00:00:00.000Z`; read with any fraction and any offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(DateTime<Utc>);

impl Timestamp {
    /// A time from milliseconds since the epoch. `None` if its year has more than the four digits of
    /// RFC 3339.
    #[must_use]
    pub fn from_millis(millis: i64) -> Option<Self> {
        DateTime::from_timestamp_millis(millis).filter(|time| (0..=9999).contains(&time.year())).map(Self)
    }

    /// Reads a time. `None` for anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        // Cut to milliseconds, so that a value equals what it is written as.
        Self::from_millis(DateTime::parse_from_rfc3339(text).ok()?.timestamp_millis())
    }

    /// Milliseconds since the epoch.
    #[must_use]
    pub fn millis(self) -> i64 {
        self.0.timestamp_millis()
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_rfc3339_opts(SecondsFormat::Millis, true))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        let wrong = || D::Error::custom(format!("{text:?} is not a time like 2026-01-01T00:00:00.000Z"));
        Self::parse(&text).ok_or_else(wrong)
    }
}
