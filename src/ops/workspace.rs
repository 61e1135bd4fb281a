//! Managed workspaces for front ends: the settings, and errors with the next step.
//!
//! Each call that changes something begins with undoing what a dead process left half-made, and any
//! other says what there is of that; the caller shows the words.

use crate::contract::layout::own_directory;
use crate::git::Repo;
use crate::stop::Stop;
pub use crate::workspace::context::{Context, State};
use crate::workspace::refusal::{Refusal, Why};
use crate::workspace::{Options, Workspaces};

use super::app::Process;
use super::error::{Error, Kind};
use super::settings;

/// Returns the workspaces of a repository, and what was undone, or is to be undone by a call that
/// `changes` something.
pub fn open<'a>(
    repo: &'a Repo,
    process: &Process,
    stop: Stop,
    changes: bool,
) -> Result<(Workspaces<'a>, Vec<String>), Error> {
    let settings = settings::workspace(repo)?;
    let options = Options {
        root: settings.workspace_root,
        data: settings.data_dir.unwrap_or_else(|| own_directory(repo.common_dir()).join("data")),
        prefix: settings.work_prefix,
        setup: settings.setup,
        program: process.program.clone(),
        stop,
    };
    let workspaces = Workspaces::new(repo, options);
    let undone = workspaces.undo_half_made(changes)?;
    Ok((workspaces, undone))
}

impl From<Refusal> for Error {
    fn from(Refusal { why, message, hints }: Refusal) -> Self {
        let kind = match why {
            Why::Usage => Kind::Usage,
            Why::NotFound => Kind::NotFound,
            Why::Conflict => Kind::Conflict,
            Why::Failed => Kind::Failed,
            Why::Setup => Kind::Setup,
        };
        Self { hints, ..Self::new(kind, message) }
    }
}
