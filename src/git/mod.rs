//! Git: the only importer of `gix` and the only spawner of the `git` program.
//!
//! Objects and refs are read, and commits written, in this process through `gix`. Everything that
//! touches a working tree or an index runs the `git` program, which knows filters, attributes,
//! sparse checkouts and line endings. The room's interface uses the types of [`crate::contract`]
//! (`CommitId`, `BranchName`, …) and no `gix` type.
//!
//! | room | contains |
//! |---|---|
//! | [`repo`] | the repository: opening it, its configuration |
//! | [`process`] | one call of the `git` program |
//! | [`objects`] | commits, trees, signatures |
//! | [`refs`] | refs, and the compare-and-swap that moves one |
//! | [`worktrees`] | linked worktrees and their owners |
//! | [`contents`] | the contents of a worktree, and how they are saved |
//! | `address` | addresses of remotes |
//! | [`remote`] | fetch, ls-remote, and the leased push |
//! | `offer` | the push of a published branch, with push options |
//! | `atomic` | the push that moves several refs together |
//! | `pushed` | one ref of a push: its arguments, and its answer |
//! | [`probe`] | queries of `aynig doctor` |

pub(crate) mod address;
pub(crate) mod atomic;
pub(crate) mod contents;
pub mod objects;
pub(crate) mod offer;
pub mod probe;
pub mod process;
pub(crate) mod pushed;
pub(crate) mod refs;
pub mod remote;
pub mod repo;
pub mod worktrees;

pub use crate::git::atomic::Unmoved;
pub(crate) use crate::git::contents::in_progress::Unconcluded;
pub use crate::git::objects::commits::CommitError;
pub use crate::git::process::call::{Git, ProcessError};
pub use crate::git::refs::cas::{RefError, Swap};
pub use crate::git::refs::file::RefFlaw;
pub use crate::git::refs::loose::{DamagedRef, Unlisted};
pub use crate::git::refs::notify::RefWatch;
pub use crate::git::refs::transaction::{RefChange, Together};
pub use crate::git::repo::open::{OpenError, Repo, Store};
pub use crate::git::worktrees::registration::{Checkout, Workplace};
