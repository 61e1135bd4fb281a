//! Subcommands that explain: man pages, completions, a demonstration.

pub(crate) mod complete;
pub(crate) mod demo;
pub(crate) mod manual;
pub(crate) mod pages;
pub(crate) mod roff;
pub(crate) mod settings;
