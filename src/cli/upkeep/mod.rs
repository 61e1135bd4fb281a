//! Subcommands for the repository itself: setup, checks, cleaning.

pub(crate) mod clean;
pub(crate) mod doctor;
pub(crate) mod hook;
pub(crate) mod init;
pub(crate) mod install;
