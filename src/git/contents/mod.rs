//! The contents of a worktree: its index, its files, and everything that would be lost with it.
//!
//! | file | contains |
//! |---|---|
//! | `index` | reads an index file in this process |
//! | `snapshot` | the tree of an index, and whether it differs from HEAD |
//! | `pristine` | whether the files are as git wrote them, without a `git` call |
//! | `ignored` | ignored files that a list names |
//! | `submodules` | fills submodules |
//! | `hidden` | finds what git passes over: other repositories, and files where a submodule belongs |
//! | `nested` | finds submodules with commits or changes of their own |
//! | `filtered` | contents that a clean filter leaves out |
//! | `in_progress` | commits that only the private git directory refers to: a merge, a rebase, an autostash |
//! | `rescue` | saves all of it under a ref |

pub(crate) mod filtered;
pub(crate) mod hidden;
pub(crate) mod ignored;
pub(crate) mod in_progress;
pub(crate) mod index;
pub(crate) mod nested;
pub(crate) mod pristine;
pub(crate) mod rescue;
pub(crate) mod snapshot;
pub(crate) mod submodules;
