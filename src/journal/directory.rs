//! The run directory: `<data directory>/runs/<run id>/`.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::JournalError;
use crate::contract::layout::{WORKSPACES, own_directory};
use crate::fsutil::{self, DirLock};
use crate::git::Repo;
use crate::model::ids::{OpId, RunId};

/// How long the lock of a run directory is waited for. It is held for single appends.
const PATIENCE: Duration = Duration::from_secs(10);

/// The setting that names the data directory.
const DATA_DIR: &str = "aynig.dataDir";

/// The files of a run directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDirectory {
    run: RunId,
    path: PathBuf,
}

/// `metadata.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// The run.
    pub run_id: RunId,
    /// The journal's id, new each time it is made anew.
    pub journal: String,
    /// The commit of the ledger up to which all files were brought; empty before the first time.
    #[serde(default)]
    pub synced: String,
    /// Whether it was reported that deltas are no longer kept.
    #[serde(default)]
    pub full: bool,
    /// Further fields: those of a flow run's record. They are lost with the file, until they are written again.
    #[serde(flatten)]
    pub record: Map<String, Value>,
}

impl RunDirectory {
    /// The directory of a run, below the data directory (`aynig.dataDir`, default `aynig/data` in the git directory that
    /// all worktrees share). Nothing is created.
    #[must_use]
    pub fn of(repo: &Repo, run: RunId) -> Self {
        Self { run, path: Self::data(repo).join("runs").join(run.to_string()) }
    }

    /// The data directory.
    #[must_use]
    pub fn data(repo: &Repo) -> PathBuf {
        // Git is asked only about a setting that is there.
        let is_set = repo.config(DATA_DIR).is_some();
        let configured = is_set.then(|| repo.config_file(DATA_DIR).ok().flatten()).flatten();
        configured.unwrap_or_else(|| own_directory(repo.common_dir()).join("data"))
    }

    /// The run.
    #[must_use]
    pub fn run(&self) -> RunId {
        self.run
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `events.jsonl`.
    #[must_use]
    pub fn events(&self) -> PathBuf {
        self.path.join("events.jsonl")
    }

    /// `state.json`.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.path.join("state.json")
    }

    /// `artifacts`.
    #[must_use]
    pub fn artifacts(&self) -> PathBuf {
        self.path.join("artifacts")
    }

    fn metadata_path(&self) -> PathBuf {
        self.path.join("metadata.json")
    }

    /// Takes the lock, and makes the directory if it is missing. Only its owner may look into it.
    pub(crate) fn lock(&self) -> Result<DirLock, JournalError> {
        fsutil::create_private_dir_all(&self.path).map_err(JournalError::file("create", &self.path))?;
        let file = self.path.join("lock");
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&file);
        if let Err(error) = made.map(drop)
            && error.kind() != std::io::ErrorKind::AlreadyExists
        {
            return Err(JournalError::file("create", &file)(error));
        }
        DirLock::acquire(&file, PATIENCE).map_err(JournalError::file("lock", &file))
    }

    /// Ends of journals that were cut off.
    #[must_use]
    pub fn torn(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.path).into_iter().flatten().flatten();
        let torn = entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"events.torn-"));
        torn.map(|entry| entry.path()).collect()
    }

    /// Takes the lock of a directory that is there. `None` if there is none.
    pub(super) fn existing_lock(&self) -> Result<Option<DirLock>, JournalError> {
        let file = self.path.join("lock");
        match DirLock::acquire(&file, PATIENCE) {
            // Another process may have moved it meanwhile.
            Ok(lock) => Ok(Some(lock).filter(|_| file.is_file())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(JournalError::file("lock", &file)(error)),
        }
    }

    /// The directory of deleted runs.
    #[must_use]
    pub fn archive(&self) -> PathBuf {
        self.path.ancestors().nth(2).unwrap_or(&self.path).join("archive")
    }

    /// Moves the directory to those of deleted runs, under a name that is free there. The caller holds the lock. While
    /// the run has workspaces here, it stays.
    pub(super) fn retire(&self) -> Result<(), JournalError> {
        let workspaces = std::fs::read_dir(self.path.join(WORKSPACES));
        if workspaces.is_ok_and(|mut entries| entries.next().is_some()) {
            return Ok(());
        }
        let archive = self.archive();
        fsutil::create_private_dir_all(&archive).map_err(JournalError::file("create", &archive))?;
        let names = (2..).map(|number| format!("{}-{number}", self.run));
        let mut places = std::iter::once(self.run.to_string()).chain(names).map(|name| archive.join(name));
        let Some(free) = places.find(|place| place.symlink_metadata().is_err()) else { return Ok(()) };
        std::fs::rename(&self.path, &free).map_err(JournalError::file("move", &self.path))
    }

    /// Reads `metadata.json`. `None` if it is missing or damaged, or belongs to another run.
    #[must_use]
    pub fn metadata(&self) -> Option<Metadata> {
        let text = fsutil::read_plain(self.metadata_path()).ok()?;
        serde_json::from_slice::<Metadata>(&text).ok().filter(|metadata| metadata.run_id == self.run)
    }

    /// Writes `metadata.json`.
    pub(crate) fn set_metadata(&self, metadata: &Metadata) -> Result<(), JournalError> {
        self.replace(&self.metadata_path(), metadata)
    }

    /// Metadata of a journal that begins now, with the further fields that there were.
    pub(super) fn fresh(&self, record: Map<String, Value>) -> Metadata {
        let (journal, synced) = (OpId::random().to_string(), String::new());
        Metadata { run_id: self.run, journal, synced, full: false, record }
    }

    /// Replaces a file by JSON.
    pub(crate) fn replace(&self, path: &Path, value: &impl Serialize) -> Result<(), JournalError> {
        let json = serde_json::to_vec(value).map_err(std::io::Error::other);
        json.and_then(|json| fsutil::replace_private(path, &json)).map_err(JournalError::file("write", path))
    }
}
