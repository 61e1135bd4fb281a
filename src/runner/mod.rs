//! The runner: from a scan of HEADs to settled branches.
//!
//! ```text
//! survey ─▶ claim ─▶ dispatch ─▶ step (worktree, launch, supervise; beside it keeper) ─▶ settle
//!   └──────▶ recover (expired leases, worktrees whose runner is gone)
//! ```
//!
//! Each stage consumes the value of the one before: only [`claim`] makes a [`claim::Claim`], only [`settle`] takes
//! it, by value. All moves of a branch go through [`arbiter`]. What a HEAD, an exit or a line means is decided in
//! [`crate::contract`]; what is worth telling leaves as [`notice::Notice`] and is put into words elsewhere, or into the
//! hands of the operator's own program ([`notifier`]). The runner knows states, leases and commands, and nothing of what a workflow means by them.

pub mod arbiter;
pub mod arbiter_error;
pub mod attempt;
pub mod claim;
pub mod clean;
pub mod commands;
pub mod context;
pub mod dispatch;
pub mod finished;
pub mod ground;
pub mod heartbeat;
pub mod keeper;
pub mod landing;
pub mod launch;
pub mod memory;
pub mod notice;
pub mod notification;
pub mod notifier;
pub mod options;
pub mod pass;
pub mod patience;
pub mod pushes;
pub mod ready;
pub mod recover;
pub mod salvage;
pub mod step;
pub mod survey;
pub mod watch;

pub use crate::words::{counted, error_words, shows_rescued, typed};
pub use context::Context;
