//! The edge: the only clap, the only terminal, the only exit codes.
//!
//! [`entry`] finds out what is asked, opens the repository and calls one file per subcommand. Each returns an exit
//! code or an error of [`aynig::ops`], whose kind has one code and one heading. stdout is the answer, stderr is
//! narration; both are written in [`ui`] and nowhere else.
//!
//! | room | holds |
//! |---|---|
//! | [`args`] | what may be typed |
//! | [`work`] | verbs that move branches: `run`, `set-state`, `set-working` |
//! | [`look`] | verbs that only read: `status`, `log`, `logs`, `events` |
//! | [`upkeep`] | verbs for the repository itself: `init`, `install`, `clean`, `doctor`, `hook` |
//! | [`help`] | verbs that explain: `manual`, `completions`, `demo` |
//! | [`ui`] | the only printer, and all that knows a terminal |
//! | [`exit`] | which exit code an error is |
//! | [`internal`] | the program's calls of itself |
//! | [`notify`] | the operator's hook as a listener of a run |

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
