//! What callers show: values that a server sends and a command line prints with `--json`, and words for people.
//!
//! Invariant: names and order of the fields are a promise to scripts. Text of commits is UTF-8 with replacement
//! characters; it is as hostile as before, and printers make it harmless.

pub mod branch;
pub mod declared;
pub mod event;
pub mod lease;
pub mod story;

use bstr::ByteSlice;
use serde::{Serialize, Serializer};

use crate::clock;

/// A time in seconds since the epoch; a date in UTC to readers of JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time(pub i64);

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&clock::format_utc(self.0))
    }
}

/// Text of a commit.
fn text(bytes: &[u8]) -> String {
    bytes.to_str_lossy().into_owned()
}
