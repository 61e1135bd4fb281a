//! Git: the only importer of `gix` and the only spawner of the `git` program.
//!
//! Objects and refs are read and commits written in this process through `gix`. What touches a working tree or an
//! index goes through the `git` program: its rules for filters, attributes, sparse checkouts and line ends are not ours
//! to rewrite. What leaves this room is in the words of [`crate::contract`] (`CommitId`, `BranchName`, …): no `gix`
//! type crosses the door.
//!
//! | room | holds |
//! |---|---|
//! | [`repo`] | the repository: opening it, its configuration |
//! | [`process`] | one call of the `git` program |
//! | [`objects`] | commits, trees, signatures |
//! | [`refs`] | the compare-and-swap that makes one winner |
//! | [`worktrees`] | linked worktrees and whose they are |
//! | [`contents`] | what a worktree holds, and how it is saved |
//! | [`remote`] | fetching, asking, and the leased push |
//! | [`probe`] | questions that only a check-up asks |

pub(crate) mod contents;
pub mod objects;
pub mod probe;
pub mod process;
pub(crate) mod refs;
pub mod remote;
pub mod repo;
pub mod worktrees;

pub(crate) use crate::git::contents::in_progress::Unconcluded;
pub use crate::git::objects::commits::CommitError;
pub use crate::git::process::call::{Git, ProcessError};
pub use crate::git::refs::cas::{RefError, Swap};
pub use crate::git::repo::open::{OpenError, Repo, Store};
pub use crate::git::worktrees::registration::{Checkout, Workplace};
