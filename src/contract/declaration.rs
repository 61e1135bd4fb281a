//! A command's declaration (section 4 of CONTRACT.md): a value made by `protocol` and written by
//! `commits`.

use super::carried::KeepTrailers;
use super::ids::StateName;
use super::trailers::Trailer;

/// The commit that a command declares with `SET_STATE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Declaration {
    /// The next state; never `working`.
    pub(crate) state: StateName,
    /// The commit's subject; `None` if absent or blank.
    pub(crate) subject: Option<String>,
    /// The commit's body.
    pub(crate) body: Option<String>,
    /// Which trailers are carried over.
    pub(crate) keep_trailers: KeepTrailers,
    /// Further trailers, none of them runner-managed.
    pub(crate) trailers: Vec<Trailer>,
}

impl Declaration {
    /// Whether more of the commit that requested the work is carried over than its lease has.
    pub(crate) fn hands_on(&self) -> bool {
        self.keep_trailers == KeepTrailers::All
    }
}
