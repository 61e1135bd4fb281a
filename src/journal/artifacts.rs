//! `artifacts/`: contents of artifacts, each in a file that is named by the artifact's id.
//!
//! Invariant: a file is there whole or not at all, and has the size and the digest of its artifact. Names of strangers
//! are shown, and make no path.

use std::path::PathBuf;

use super::JournalError;
use super::directory::RunDirectory;
use crate::crashpoint::{self, Point};
use crate::fsutil;
use crate::git::Repo;
use crate::git::objects::digest::sha256;
use crate::ledger::check::MAX_CONTENT;
use crate::ledger::{LedgerError, Tip};
use crate::model::artifact::Artifact;
use crate::model::ids::ArtifactId;

/// The file of an artifact.
#[must_use]
pub fn place(directory: &RunDirectory, id: ArtifactId) -> PathBuf {
    directory.artifacts().join(id.to_string())
}

/// Whether the content of an artifact is on this host. Its digest was checked when it was written.
#[must_use]
pub fn is_here(directory: &RunDirectory, artifact: &Artifact) -> bool {
    let found = std::fs::symlink_metadata(place(directory, artifact.id));
    found.is_ok_and(|found| found.is_file() && found.len() == artifact.size)
}

/// Whether the content of an artifact is on this host, and has its digest.
#[must_use]
pub fn is_whole(directory: &RunDirectory, artifact: &Artifact) -> bool {
    is_here(directory, artifact)
        && fsutil::read_plain(place(directory, artifact.id))
            .is_ok_and(|content| sha256(&content) == artifact.sha256)
}

/// Keeps the content of an artifact. Secrets in it were masked before its digest was taken.
///
/// # Errors
/// [`JournalError::Content`] if it is another content; [`JournalError::File`].
pub fn store(directory: &RunDirectory, artifact: &Artifact, content: &[u8]) -> Result<(), JournalError> {
    let _lock = directory.lock()?;
    keep(directory, artifact, content)
}

/// Keeps a content; the caller holds the lock.
fn keep(directory: &RunDirectory, artifact: &Artifact, content: &[u8]) -> Result<(), JournalError> {
    if u64::try_from(content.len()).ok() != Some(artifact.size) || sha256(content) != artifact.sha256 {
        let Artifact { id, name, .. } = artifact;
        return Err(JournalError::Content { id: *id, name: name.to_string() });
    }
    write(directory, artifact.id, content)
}

/// Writes the file of an artifact; the caller holds the lock.
pub(super) fn write(directory: &RunDirectory, id: ArtifactId, content: &[u8]) -> Result<(), JournalError> {
    let artifacts = directory.artifacts();
    fsutil::create_private_dir_all(&artifacts).map_err(JournalError::file("create", &artifacts))?;
    let path = place(directory, id);
    fsutil::replace_private(&path, content).map_err(JournalError::file("write", &path))
}

/// Takes the contents over that the ledger has and this host does not; the caller holds the lock. With `anew` a damaged
/// one is replaced as well. A wrong content is left out with a warning in the diagnosis.
pub(super) fn project(
    repo: &Repo,
    directory: &RunDirectory,
    tip: &Tip,
    anew: bool,
) -> Result<(), JournalError> {
    for artifact in tip.state.all_artifacts().map(|(_, artifact)| artifact) {
        let there = if anew { is_whole(directory, artifact) } else { is_here(directory, artifact) };
        // The record of a flow's step is a directory, and its name is the flow's choice.
        let there = there || place(directory, artifact.id).is_dir();
        let Some(path) = path_in_tree(artifact).filter(|_| !there) else { continue };
        let found = repo.file_at(tip.tree, &path).map_err(LedgerError::from)?;
        let Some(blob) = found else { continue };
        let kept = match repo.read_blob(&blob, MAX_CONTENT) {
            Ok(content) => keep(directory, artifact, &content),
            Err(error) => Err(LedgerError::from(error).into()),
        };
        match kept {
            Err(error @ JournalError::File { .. }) => return Err(error),
            Err(error) => tracing::warn!(%error, path, "a content of a ledger was left out"),
            Ok(()) => crashpoint::reach(Point::ContentProjected),
        }
    }
    Ok(())
}

/// The file of a ledger's tree with a content. `None` if the digest is none.
#[must_use]
pub fn path_in_tree(artifact: &Artifact) -> Option<String> {
    let digest = artifact.sha256.as_str();
    let hex = digest.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    (hex && digest.len() == 64).then(|| format!("content/{}/{digest}", &digest[..2]))
}
