//! Names of errors and exit codes, as the subcommands use them.

pub use super::exit::{Exit, render};
pub use crate::ops::error::{Error as CommandError, Kind, unlock};
