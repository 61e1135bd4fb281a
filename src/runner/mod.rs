//! The runner: from a survey of HEADs to settled branches.
//!
//! ```text
//! passes ─▶ survey ─▶ attempt (claim, step; beside it the lease keeper) ─▶ landing
//!    └────────────▶ landing::recover (expired leases, worktrees whose runner is gone)
//! ```
//!
//! Each stage consumes the value of the one before: only [`attempt::claim`] makes an
//! [`attempt::claim::Claim`], and only [`landing::settle`] takes it, by value. Every move of a branch goes
//! through [`authority`]. [`crate::contract`] interprets HEADs, exits and output lines. Progress leaves as
//! [`events`]. The runner knows states, leases and commands; it gives no meaning to the states of a workflow
//! (CONTRACT 1.6).
//!
//! | room | holds |
//! |---|---|
//! | [`passes`] | the loop: one pass, repeated passes, the backoff between them |
//! | [`survey`] | a verdict on each branch, and the reason it is run or skipped |
//! | [`attempt`] | one leased execution of a command |
//! | [`landing`] | its result on the branch; recovery after dead runners |
//! | [`authority`] | the ref store that decides races: this repository or a remote |
//! | [`events`] | a run's reports, and the operator's hook |
//! | [`clean`] | removes logs, worktrees and rescue refs that are no longer needed |

pub mod attempt;
pub mod authority;
pub mod clean;
pub(crate) mod context;
pub mod events;
pub mod landing;
pub mod options;
pub mod passes;
pub mod survey;

pub use crate::words::{error_chain, pluralize, saved_elsewhere, shell_quote, shows_rescued};
pub use context::Context;
