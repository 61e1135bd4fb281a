//! The edge: the only clap, the only terminal, the only exit codes.
//!
//! [`entry`] parses the command line, opens the repository and calls one file per subcommand. Each returns an
//! exit code or an error of [`aynig::ops`], whose kind has one code and one heading. stdout is the answer,
//! stderr is narration; only [`ui`] writes to them.
//!
//! | room | contents |
//! |---|---|
//! | [`args`] | the command line |
//! | [`work`] | subcommands that move branches: `run`, `set-state`, `set-working`, `land`, `next`; workspaces |
//! | [`look`] | read-only subcommands: `status`, `log` (also as `events`), `logs`, `wait` |
//! | [`upkeep`] | subcommands for the repository itself: `init`, `install`, `clean`, `doctor`, `hook` |
//! | [`help`] | subcommands that explain: `manual`, `completions`, `demo` |
//! | [`ui`] | the only printer, and everything about terminals |
//! | [`exit`] | the exit code of each error |
//! | [`internal`] | calls of the binary by itself |
//! | [`notify`] | `aynig.notify` for states set inside a command |

pub(crate) mod args;
pub(crate) mod entry;
pub(crate) mod exit;
pub(crate) mod help;
pub(crate) mod internal;
pub(crate) mod look;
pub(crate) mod notify;
pub(crate) mod ui;
pub(crate) mod upkeep;
pub(crate) mod work;
