//! The options of a person's subcommands of `aynig orch artifact`.

use std::path::PathBuf;

use clap::Args;

use super::orch_runs::OneRun;

/// `aynig orch artifact list`.
#[derive(Debug, Args)]
pub(crate) struct OrchArtifactList {
    /// The run
    #[command(flatten)]
    pub(crate) of: OneRun,

    /// Only those of this node
    #[arg(long, value_name = "ALIAS")]
    pub(crate) node: Option<String>,
}

/// `aynig orch artifact show`.
#[derive(Debug, Args)]
pub(crate) struct OrchArtifactShow {
    /// The run
    #[command(flatten)]
    pub(crate) of: OneRun,

    /// Its id, the beginning of it, or its name if only one has that
    #[arg(value_name = "ARTIFACT")]
    pub(crate) artifact: String,
}

/// `aynig orch artifact export`.
#[derive(Debug, Args)]
pub(crate) struct OrchArtifactExport {
    /// The run
    #[command(flatten)]
    pub(crate) of: OneRun,

    /// The directory; files in it are never replaced
    #[arg(value_name = "DIR")]
    pub(crate) into: PathBuf,

    /// Only those of this node
    #[arg(long, value_name = "ALIAS")]
    pub(crate) node: Option<String>,
}
