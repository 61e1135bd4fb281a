//! The runner: from a survey of HEADs to settled branches.
//!
//! ```text
//! passes ─▶ survey ─▶ attempt (claim, step; beside it the lease keeper) ─▶ landing
//!    └────────────▶ landing::recover (expired leases, worktrees whose runner is gone)
//! ```
//!
//! Each stage consumes the value of the one before: only [`attempt::claim`] makes a [`attempt::claim::Claim`], only
//! [`landing::settle`] takes it, by value. All moves of a branch go through [`authority`]. [`crate::contract`] decides
//! what a HEAD, an exit or a line means. What happens leaves as [`events`] and is put into words elsewhere. The runner
//! knows states, leases and commands, and nothing of what a workflow means by them.
//!
//! | room | holds |
//! |---|---|
//! | [`passes`] | the loop: one pass, many passes, what is remembered between them |
//! | [`survey`] | what each branch is, and why it is run or left |
//! | [`attempt`] | one leased execution of a command |
//! | [`landing`] | its result on the branch; recovery of what others left |
//! | [`authority`] | who decides a race: this repository or a remote |
//! | [`events`] | what a run reports, and the operator's hook |
//! | [`clean`] | removes what is not needed any more |

pub mod attempt;
pub mod authority;
pub mod clean;
pub(crate) mod context;
pub mod events;
pub mod landing;
pub mod options;
pub mod passes;
pub mod survey;

pub use crate::words::{error_chain, pluralize, shell_quote, shows_rescued};
pub use context::Context;
