//! A command's declaration (section 4 of CONTRACT.md): a value made by `protocol` and written by
//! `commits`.

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
    /// Whether the lease's unreserved `dwp-*` trailers are carried over.
    pub(crate) keep_trailers: bool,
    /// Further trailers, none of them runner-managed.
    pub(crate) trailers: Vec<Trailer>,
}
