//! Subcommands that explain: man pages, completions, a demonstration.

pub(crate) mod complete;
pub(crate) mod demo;
pub(crate) mod manual;
