//! Verbs for the repository itself: making it ready, checking it, cleaning it.

pub(crate) mod clean;
pub(crate) mod doctor;
pub(crate) mod hook;
pub(crate) mod init;
pub(crate) mod install;
