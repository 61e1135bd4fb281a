//! The newest commit of a ledger, and the state in its tree.

use super::error::{BY_A_STEP, LedgerError};
use crate::contract::ids::CommitId;
use crate::contract::layout::{RUNS, is_of_a_workspace};
use crate::git::Repo;
use crate::git::objects::edit::Blob;
use crate::model::ids::{RunId, Slug};
use crate::model::run::{CONTRACT_VERSION, SCHEMA};
use crate::model::state::{Entry, State};

/// The most files of a ledger that are read.
pub(super) const MAX_FILES: usize = 100_000;

/// The longest file of a ledger that is read, in bytes. Contents of artifacts are longer, and not read here.
pub(super) const MAX_FILE: u64 = 1024 * 1024;

/// The directories of a ledger that neither `run.json` nor a workspace is in. They grow with the run.
const BESIDE_RUN: [&str; 9] =
    ["approvals", "artifacts", "content", "edges", "inbox", "node-configs", "nodes", "steps", "turns"];

/// The newest commit of a ledger.
#[derive(Debug, Clone, PartialEq)]
pub struct Tip {
    /// The commit.
    pub id: CommitId,
    /// Its tree.
    pub tree: CommitId,
    /// The state. Ended turns are loaded only by [`Tip::read_whole`].
    pub state: State,
}

/// The ref of a run's ledger.
#[must_use]
pub fn ledger_ref(run: RunId) -> String {
    format!("{RUNS}{run}")
}

/// Whether a program of a step wrote a commit: those that this program writes into ledgers are not under its address.
pub(super) fn is_of_a_step(repo: &Repo, commit: CommitId) -> Result<bool, LedgerError> {
    Ok(is_of_a_workspace(&repo.committer(commit)?))
}

/// What of the version is needed to refuse another one.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Versions {
    contract_version: String,
    #[serde(default)]
    schema: u32,
}

impl Tip {
    /// Reads the state that decisions need from a commit of a ledger.
    ///
    /// # Errors
    /// [`LedgerError::Damaged`] or [`LedgerError::Version`].
    pub fn read(repo: &Repo, run: RunId, commit: CommitId) -> Result<Self, LedgerError> {
        Self::load(repo, run, commit, &["content", "turns"], |_| true)
    }

    /// Reads all of the state.
    ///
    /// # Errors
    /// [`LedgerError::Damaged`] or [`LedgerError::Version`].
    pub fn read_whole(repo: &Repo, run: RunId, commit: CommitId) -> Result<Self, LedgerError> {
        Self::load(repo, run, commit, &["content"], |_| true)
    }

    /// Reads `run.json` alone.
    ///
    /// # Errors
    /// [`LedgerError::Damaged`] or [`LedgerError::Version`].
    pub fn read_run(repo: &Repo, run: RunId, commit: CommitId) -> Result<Self, LedgerError> {
        Self::load(repo, run, commit, &[&BESIDE_RUN[..], &["workspaces"]].concat(), |entry| {
            *entry == Entry::Run
        })
    }

    /// Reads `run.json` and the workspaces alone.
    ///
    /// # Errors
    /// [`LedgerError::Damaged`] or [`LedgerError::Version`].
    pub(crate) fn read_workspaces(repo: &Repo, run: RunId, commit: CommitId) -> Result<Self, LedgerError> {
        Self::load(repo, run, commit, &BESIDE_RUN, |entry| matches!(entry, Entry::Workspace(_)))
    }

    fn load(
        repo: &Repo,
        run: RunId,
        commit: CommitId,
        skipped: &[&str],
        wanted: impl Fn(&Entry) -> bool,
    ) -> Result<Self, LedgerError> {
        let damaged = |why: String| LedgerError::Damaged { run, commit, why };
        let (committer, tree) = repo.committed(commit)?;
        if is_of_a_workspace(&committer) {
            return Err(damaged(BY_A_STEP.to_owned()));
        }
        let blobs =
            repo.blobs_outside(tree, MAX_FILES, skipped).map_err(|error| damaged(error.to_string()))?;
        let read = |blob: &Blob| repo.read_blob(blob, MAX_FILE).map_err(|error| damaged(error.to_string()));
        let first = blobs.iter().find(|blob| blob.path == Entry::Run.path());
        let content = read(first.ok_or_else(|| damaged("it has no run.json".to_owned()))?)?;
        let versions: Versions =
            serde_json::from_slice(&content).map_err(|error| damaged(format!("run.json: {error}")))?;
        if versions.contract_version != CONTRACT_VERSION || versions.schema > SCHEMA {
            let version = format!("{} (schema {})", versions.contract_version, versions.schema);
            return Err(LedgerError::Version { run, version });
        }
        let mut state = State::from_run(&content).map_err(|error| damaged(error.to_string()))?;
        if state.run.id != run {
            return Err(damaged(format!("it is the ledger of {}", state.run.id)));
        }
        let slug = &state.run.slug;
        if *slug != Slug::of(run, slug.as_str().len()) {
            return Err(damaged(format!("its slug is {slug}, which is not how its id begins")));
        }
        for blob in &blobs {
            match Entry::parse(&blob.path) {
                Some(Entry::Run) => {}
                Some(entry) if wanted(&entry) => {
                    state.load(&entry, &read(blob)?).map_err(|error| damaged(error.to_string()))?;
                }
                // Contents of artifacts, or a file of a later version.
                Some(_) | None => {}
            }
        }
        Ok(Self { id: commit, tree, state })
    }
}
