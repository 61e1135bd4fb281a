//! One attempt: from the claim of a branch to the end of its command.
//!
//! ```text
//! claim ─▶ step ─┬▶ provision (worktree, environment, setup) ─▶ supervise ─▶ Finished
//!                └▶ keeper (renews the lease in a thread of its own, by heartbeat)
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `claim` | takes branches by a `working` commit; the only maker of a [`claim::Claim`] |
//! | `step` | runs one claimed branch to its end |
//! | `keeper`, `heartbeat` | check and renew the lease |
//! | `provision` | prepares the worktree and runs the setup command |
//! | `include` | copies ignored files into a new worktree |
//! | `environment` | the command's environment |
//! | `files` | the attempt's files below `.git/aynig/` |
//! | `ground` | the commits whose trees a new commit may take |
//! | `command_copy` | checked-out copies of the commands of another ref |
//! | `finished` | the value passed to [`crate::runner::landing`] when the command is over |

pub mod cancel;
pub(crate) mod claim;
pub(crate) mod command_copy;
pub mod environment;
pub mod files;
pub(crate) mod finished;
pub mod ground;
pub(crate) mod heartbeat;
pub(crate) mod include;
pub(crate) mod keeper;
pub(crate) mod provision;
pub(crate) mod step;
