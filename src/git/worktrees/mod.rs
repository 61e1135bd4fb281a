//! Linked worktrees: registered, found, proved ours, reused and removed.
//!
//! A worktree has a directory and a *registration*, its private git directory below `worktrees/`. The name of the
//! registration says whose it is ([`registration::Owner`]).
//!
//! | file | holds |
//! |---|---|
//! | `registration` | what a checkout is, and whose a linked worktree is |
//! | `registry` | the repository's list of worktrees: adds to it and removes from it |
//! | `worktree` | creates, finds, advances, keeps and removes worktrees |
//! | `held` | a worktree that this process has locked |
//! | `presence` | whether the directory is still the one that was made |
//! | `directory` | the directory that holds worktrees |
//! | `pool` | clean worktrees kept for later steps |
//! | `spare` | those among them that go from one step of a run to the next as they are |
//! | `preserved` | worktrees left to a person, and rescue refs |
//! | `error` | why a worktree could not be made, read or removed |

pub(crate) mod directory;
pub(crate) mod error;
pub(crate) mod held;
pub(crate) mod pool;
pub(crate) mod presence;
pub mod preserved;
pub mod registration;
pub(crate) mod registry;
pub(crate) mod spare;
pub(crate) mod worktree;
