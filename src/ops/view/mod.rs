//! What callers show: values that a server sends and a command line prints with `--json`, and words for people.
//!
//! Invariant: names and order of the fields are a promise to scripts. Nothing here looks at anything a caller did not hand
//! it.

pub mod lease;
