//! Reads the values of settings and options.

use std::ffi::OsStr;
use std::ops::RangeInclusive;

use crate::contract::duration::{FORMS, parse_duration};

/// The ends of the names of families of settings: one for each name.
const NAMES: [&str; 2] = [".NAME", ".LABEL"];

/// What the settings of a family begin with.
pub(super) fn family(name: &str) -> Option<&str> {
    NAMES.iter().find_map(|end| name.strip_suffix(end))
}

/// Reads a text.
pub(super) fn text(value: &OsStr) -> Result<&str, String> {
    value.to_str().ok_or_else(|| "it is not UTF-8".to_owned())
}

/// Reads a whole number of a range.
pub fn number(range: &RangeInclusive<u64>, text: &str) -> Result<u64, String> {
    match text.trim().parse() {
        Ok(number) if range.contains(&number) => Ok(number),
        Ok(_) | Err(_) if *range.end() == u64::MAX => {
            Err(format!("write a number from {} on", range.start()))
        }
        Ok(_) | Err(_) => Err(format!("write a number from {} to {}", range.start(), range.end())),
    }
}

/// Reads a duration of a range of seconds.
pub fn seconds(range: &RangeInclusive<u64>, text: &str) -> Result<u64, String> {
    match parse_duration(text) {
        Some(seconds) if range.contains(&seconds) => Ok(seconds),
        Some(_) if *range.end() == u64::MAX => Err(format!("must be at least {} s", range.start())),
        Some(_) => Err(format!("must be from {} to {} s", range.start(), range.end())),
        None => Err(format!("not a duration: write {FORMS}")),
    }
}
