//! The edge: the only clap, the only terminal, the only exit codes.
//!
//! `entry` finds out what is asked, opens the repository and calls one file per subcommand. Each returns an exit
//! code or a [`error::CommandError`], whose kind has one code and one heading. stdout is the answer, stderr is
//! narration; both are written in `ui` and nowhere else.

pub mod args;
pub mod clean;
pub mod columns;
pub mod complete;
pub mod demo;
pub mod doctor;
pub mod entry;
pub mod error;
pub mod escapes;
pub mod events;
pub mod exit;
pub mod hook;
pub mod init;
pub mod install;
pub mod internal;
pub mod live;
pub mod log;
pub mod logging;
pub mod logs;
pub mod manual;
pub mod narrator;
pub mod notify;
pub mod page;
pub mod panics;
pub mod run;
pub mod set_state;
pub mod set_working;
pub mod signals;
pub mod status;
pub mod target;
pub mod ui;
