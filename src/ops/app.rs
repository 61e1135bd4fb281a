//! The context of operations: an opened repository, and facts about this process.

use std::path::PathBuf;

use crate::git::repo::open::GitVariables;
use crate::git::{Repo, Store};

use super::error::Error;

/// Facts about this process that operations need.
#[derive(Debug, Clone)]
pub struct Process {
    /// The directory to act in (`-C`, else the working directory).
    pub start: PathBuf,
    /// The values of git's variables in the environment.
    pub variables: GitVariables,
    /// The runner's name in leases, from `AYNIG_RUNNER_ID`.
    pub runner_id: Option<String>,
    /// The log level, which commands inherit.
    pub log_level: String,
    /// Whether the level was given on the command line.
    pub log_level_fixed: bool,
    /// This executable.
    pub program: PathBuf,
}

/// A repository, opened for a process.
#[derive(Debug)]
pub struct App {
    /// The repository.
    pub store: Store,
    /// The process.
    pub process: Process,
}

impl App {
    /// Opens the repository that the process was started for.
    pub fn open(process: Process) -> Result<Self, Error> {
        let store = Store::open(&process.start, &process.variables, process.runner_id.as_deref())?;
        Ok(Self { store, process })
    }

    /// Returns a handle to the repository for this thread.
    pub fn repo(&self) -> Repo {
        self.store.handle()
    }
}
