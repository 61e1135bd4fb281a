//! The values that callers show: JSON for servers and `--json`, and words for people.
//!
//! Invariant: names and order of the fields are a promise to scripts. Text of commits is UTF-8 with
//! replacement characters. It is not sanitized; printers do that.

pub mod asked;
pub mod branch;
pub mod declared;
pub mod deferred;
pub mod driven;
pub mod lease;
pub mod published;
pub(crate) mod row;
pub mod standing;
pub mod story;

use bstr::ByteSlice;
use serde::{Serialize, Serializer};

use crate::clock;

/// A time in seconds since the epoch. JSON shows it as a date in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time(pub i64);

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&clock::format_utc(self.0))
    }
}

/// Returns text of a commit as UTF-8, with replacement characters.
fn text(bytes: &[u8]) -> String {
    bytes.to_str_lossy().into_owned()
}
