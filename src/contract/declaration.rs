//! A command's declaration (section 4 of CONTRACT.md): a value made by `protocol` and written by
//! `commits`.

use super::carried::KeepTrailers;
use super::ids::StateName;
use super::trailers::Trailer;

/// What a command declares with `SET_STATE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Declared {
    /// The next state.
    Next(Declaration),
    /// This host cannot do what was requested; the reason, as one plain line.
    Unable(String),
}

/// The commit that a command declares with `SET_STATE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declaration {
    /// The next state; never `working`.
    pub state: StateName,
    /// The commit's subject; `None` if absent or blank.
    pub subject: Option<String>,
    /// The commit's body.
    pub body: Option<String>,
    /// The lease length requested for the next command, in seconds.
    pub lease_seconds: Option<u64>,
    /// Whether the body of the request is carried over, and `body` becomes a section below it.
    pub keep_body: bool,
    /// Which trailers are carried over.
    pub keep_trailers: KeepTrailers,
    /// Further trailers, none of them runner-managed.
    pub trailers: Vec<Trailer>,
}

impl Declaration {
    /// Whether more of the commit that requested the work is carried over than its lease has.
    pub(crate) fn hands_on(&self) -> bool {
        self.keep_body || self.keep_trailers == KeepTrailers::All
    }
}
