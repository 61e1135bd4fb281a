//! Linked worktrees: registered, found, proved ours, reused and removed.
//!
//! A worktree has a directory and a *registration*, its private git directory below `worktrees/`.
//! The reason of the registration's lock names its owner ([`registration::Owner`]).
//!
//! | file | contains |
//! |---|---|
//! | `registration` | what a checkout is, and who owns a linked worktree |
//! | `registry` | the repository's list of worktrees: adds to it and removes from it |
//! | `worktree` | creates, finds, advances, keeps and removes worktrees |
//! | `held` | a worktree that this process has locked |
//! | `presence` | whether the directory is still the one that was created |
//! | `directory` | the directory that contains worktrees |
//! | `pool` | clean worktrees kept for later steps |
//! | `spare` | pooled worktrees that go to the next step of a run as they are |
//! | `preserved` | worktrees left to the user, and rescue refs |
//! | `managed` | worktrees of managed workspaces |
//! | `carry` | a clean checkout that goes along with its branch |
//! | `mend` | sets a registration right that a command damaged |
//! | `error` | why a worktree could not be created, read or removed |

pub(crate) mod carry;
pub(crate) mod directory;
pub(crate) mod error;
pub(crate) mod held;
pub(crate) mod managed;
mod mend;
pub(crate) mod pool;
pub(crate) mod presence;
pub mod preserved;
pub mod registration;
pub(crate) mod registry;
pub(crate) mod spare;
pub(crate) mod worktree;
