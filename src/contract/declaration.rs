//! What a command declares (CONTRACT.md §4): a value, made by `protocol` and written by `commits`.

use super::ids::StateName;
use super::trailers::Trailer;

/// What a command asks the branch to become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Declaration {
    /// The next state; never `working`.
    pub(crate) state: StateName,
    /// The commit's subject, if one was given that is not blank.
    pub(crate) subject: Option<String>,
    /// The commit's body.
    pub(crate) body: Option<String>,
    /// Whether the lease's unreserved `dwp-*` trailers are carried over.
    pub(crate) keep_trailers: bool,
    /// More trailers, none of them the runner's.
    pub(crate) trailers: Vec<Trailer>,
}
