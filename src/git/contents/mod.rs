//! What a worktree holds: its index, its files, and all that would be lost with it.
//!
//! | file | holds |
//! |---|---|
//! | `index` | reads an index file in this process |
//! | `snapshot` | the tree an index stands for, and whether it differs from HEAD |
//! | `pristine` | whether the files are as git wrote them, without a call of git |
//! | `ignored` | ignored files that a list names |
//! | `submodules` | fills submodules |
//! | `nested` | repositories inside that hold commits of their own |
//! | `in_progress` | commits that only the private git directory names: a merge, a rebase, an autostash |
//! | `rescue` | saves all of it under a ref |

pub(crate) mod ignored;
pub(crate) mod in_progress;
pub(crate) mod index;
pub(crate) mod nested;
pub(crate) mod pristine;
pub(crate) mod rescue;
pub(crate) mod snapshot;
pub(crate) mod submodules;
