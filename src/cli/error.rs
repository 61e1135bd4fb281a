//! Names of errors and exit codes, as the subcommands use them.

pub(crate) use super::exit::{Exit, render};
pub(crate) use aynig::ops::error::{Error as CommandError, Kind, unlock};
