//! The options of `aynig provider`.

use clap::{Args, Subcommand};

/// `aynig provider`.
#[derive(Debug, Args)]
#[command(
    disable_help_subcommand = true,
    after_help = "A provider is the program of an agent, as git's configuration describes it: aynig.provider.NAME.kind and so on. claude, codex and gemini need no settings.\n\
    Exit codes: 0 done; 1 `check` found one that does not work; 2 usage, or no such provider; 3 set-up; 128+n stopped by signal n."
)]
pub(crate) struct Provider {
    /// The subcommand
    #[command(subcommand)]
    pub(crate) verb: ProviderVerb,
}

/// The subcommands of `aynig provider`.
#[derive(Debug, Subcommand)]
pub(crate) enum ProviderVerb {
    /// List the providers of this host: kind, program and version
    List(ProviderList),
    /// Start providers for one word, and show what works
    Check(ProviderCheck),
}

/// `aynig provider list`.
#[derive(Debug, Args)]
pub(crate) struct ProviderList {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `aynig provider check`.
#[derive(Debug, Args)]
pub(crate) struct ProviderCheck {
    /// The provider; without it, all that have settings or whose program is here
    #[arg(value_name = "NAME")]
    pub(crate) provider_name: Option<String>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
