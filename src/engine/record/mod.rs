//! The record of a flow run: what its steps left, as files of the run directory.
//!
//! Each execution of a step has a directory, `artifacts/<step>/<attempt>/`, with its files and a `manifest.json`;
//! `artifacts/<step>/manifest.json` is the newest. Step ids are never ids of artifacts by chance, so the contents that
//! the journal keeps in `artifacts/` lie beside them.
//!
//! Invariant: what was sealed has no secrets in it, and only its owner may read it. An attempt that was killed leaves a
//! directory without a manifest; no later one writes into it.
//!
//! | file | contains |
//! |---|---|
//! | [`role`] | what a file is to its step, and what of it goes into the ledger |
//! | [`manifest`] | the format of `manifest.json` |
//! | [`project`] | the files about the run as a whole |
//! | [`recorded`] | finds a content by its digest |
//! | `file` | masks files and measures them |

pub(in crate::engine) mod file;
pub mod manifest;
pub mod project;
pub mod recorded;
pub mod role;

use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use bstr::ByteSlice;

pub use manifest::{Listed, Manifest, ProviderUsed};
pub use project::project;
pub use recorded::Recorded;
pub use role::Role;

use crate::contract::ids::CommitId;
use crate::fsutil;
use crate::git::Repo;
use crate::git::objects::differences::Difference;
use crate::journal::JournalError;
use crate::journal::directory::RunDirectory;
use crate::ledger::{Ledger, LedgerError, Masks};
use crate::model::artifact::ArtifactKind;
use crate::model::decide::NewArtifact;
use crate::model::ids::{FileName, NodeId, StepId};
use crate::model::run::Usage;
use crate::model::state::State;
use crate::model::step::{Opcode, Outcome, Step};
use crate::model::time::Timestamp;
use crate::provider::reported;
use crate::provider::turn::files;

/// The media type of a patch.
const PATCH: &str = "text/x-diff";

/// One attempt of a step, while its files are collected.
#[derive(Debug)]
pub struct Recorder {
    directory: RunDirectory,
    masks: Masks,
    step: StepId,
    opcode: Opcode,
    number: u64,
    attempt: u64,
    path: PathBuf,
    files: Vec<Entry>,
}

/// A file that was named.
#[derive(Debug)]
struct Entry {
    role: Role,
    /// Relative to the attempt's directory.
    path: PathBuf,
    media_type: String,
    required: bool,
}

/// How an attempt ended.
#[derive(Debug, Clone)]
pub struct Ended {
    /// The time of its start.
    pub started_at: Timestamp,
    /// The time of its end, and how it ended. `None` for a gate that waits.
    pub ended: Option<(Timestamp, Outcome)>,
    /// A sentence about it.
    pub evidence: Option<String>,
    /// The exit code of its program.
    pub exit: Option<i32>,
    /// The SHA-256 of the policy in effect.
    pub policy_digest: Option<String>,
    /// The provider.
    pub provider: Option<ProviderUsed>,
}

/// A file of an attempt that was sealed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filed {
    /// Its role.
    pub role: Role,
    /// Its file name.
    pub name: String,
    /// Its media type.
    pub media_type: String,
    /// Its path, absolute.
    pub path: PathBuf,
    /// Bytes.
    pub size: u64,
    /// The SHA-256 of its content, as hex.
    pub sha256: String,
    /// The kind of artifact.
    pub kind: ArtifactKind,
}

impl Recorder {
    /// Begins the next attempt of a step in a directory of its own. Files that killed attempts of it left are masked.
    ///
    /// # Errors
    /// [`JournalError::File`].
    pub fn begin(
        directory: &RunDirectory,
        masks: Masks,
        state: &State,
        step: &StepId,
        opcode: Opcode,
    ) -> Result<Self, JournalError> {
        let above = directory.artifacts().join(step.as_str());
        fsutil::create_private_dir_all(&above).map_err(JournalError::file("create", &above))?;
        for killed in unfinished(&above) {
            seal_others(&killed, &masks, &[])?;
        }
        let executed = state.steps.values().filter(|one| one.id == *step && one.ended_at.is_some()).count();
        let mut attempt = u64::try_from(executed).unwrap_or(u64::MAX).saturating_add(1);
        let path = loop {
            let path = above.join(attempt.to_string());
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => break path,
                // A killed attempt left it, or one whose end the ledger did not take.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => attempt += 1,
                Err(error) => return Err(JournalError::file("create", &path)(error)),
            }
        };
        let open = state.steps.values().next_back().filter(|last| last.ended_at.is_none());
        let number = open.map_or(state.run.counts.steps + 1, |open| open.number);
        Ok(Self {
            directory: directory.clone(),
            masks,
            step: step.clone(),
            opcode,
            number,
            attempt,
            path,
            files: Vec::new(),
        })
    }

    /// Takes the record up again of a step that began in an earlier operation: a gate that waited. On a host that does
    /// not have it, begins it.
    ///
    /// # Errors
    /// [`JournalError::File`].
    pub fn resume(
        directory: &RunDirectory,
        masks: Masks,
        state: &State,
        step: &Step,
    ) -> Result<Self, JournalError> {
        let above = directory.artifacts().join(step.id.as_str());
        let begun = attempts(&above).into_iter().rev().find_map(|(attempt, path)| {
            let manifest = Manifest::read(&path)?;
            let same = manifest.number == step.number && manifest.ended_at.is_none();
            same.then_some((attempt, path, manifest))
        });
        let Some((attempt, path, manifest)) = begun else {
            return Self::begin(directory, masks, state, &step.id, step.opcode);
        };
        let files = manifest.artifacts.into_iter().filter_map(|listed| {
            let path = directory.path().join(&listed.path).strip_prefix(&path).ok()?.to_path_buf();
            let Listed { role, media_type, required, .. } = listed;
            Some(Entry { role, path, media_type, required })
        });
        Ok(Self {
            files: files.collect(),
            directory: directory.clone(),
            masks,
            step: step.id.clone(),
            opcode: step.opcode,
            number: step.number,
            attempt,
            path,
        })
    }

    /// Takes up what a killed attempt of a step left on this host, its files by the roles that their names say, for the
    /// record `number` of the run. One that was sealed for a record that did not land is taken up again. `None` if there
    /// is nothing.
    #[must_use]
    pub fn killed(
        directory: &RunDirectory,
        masks: Masks,
        (step, opcode): (&StepId, Opcode),
        number: u64,
    ) -> Option<Self> {
        let above = directory.artifacts().join(step.as_str());
        let (attempt, path) = attempts(&above).pop()?;
        if path.join(manifest::FILE).exists()
            && Manifest::read(&path).is_none_or(|manifest| manifest.number < number)
        {
            return None;
        }
        let entry = |path: PathBuf| {
            let role = Role::of_file(&path.file_name()?.to_string_lossy())?;
            Some(Entry { role, path, media_type: "text/plain".to_owned(), required: false })
        };
        Some(Self {
            files: file::below(&path).into_iter().filter_map(entry).collect(),
            directory: directory.clone(),
            masks,
            step: step.clone(),
            opcode,
            number,
            attempt,
            path,
        })
    }

    /// The directory for the attempt's files. Files that are not named with [`add`](Self::add) stay, masked, and are in
    /// no manifest.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How often the step was executed in this run, with this time.
    #[must_use]
    pub fn attempt(&self) -> u64 {
        self.attempt
    }

    /// Removes it: nothing was started.
    pub fn discard(self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "the record of a step that did not begin stays");
        }
    }

    /// Leaves the files without a manifest, masked: no step is recorded.
    ///
    /// # Errors
    /// [`JournalError::File`].
    pub fn leave(self) -> Result<(), JournalError> {
        seal_others(&self.path, &self.masks, &[])
    }

    /// The tokens and cost that turns reported of themselves in the attempt's files.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        let files = file::below(&self.path).into_iter().filter(|path| path.ends_with(files::EVENTS));
        let found = files.filter_map(|path| reported(&self.path.join(path)));
        found.reduce(|sum, usage| sum.plus(&usage))
    }

    /// Names a file of the directory by its path in it. It is read at the end; one that is missing then is not listed.
    pub fn add(&mut self, role: Role, file: impl AsRef<Path>, media_type: &str, required: bool) {
        let path = file.as_ref().to_path_buf();
        self.files.retain(|entry| entry.path != path);
        self.files.push(Entry { role, path, media_type: media_type.to_owned(), required });
    }

    /// Writes a file, masked, and names it.
    ///
    /// # Errors
    /// [`JournalError::File`].
    pub fn write(
        &mut self,
        role: Role,
        file: &str,
        media_type: &str,
        required: bool,
        content: &[u8],
    ) -> Result<(), JournalError> {
        let path = self.path.join(file);
        let masked = self.masks.bytes(content);
        let content = masked.as_deref().unwrap_or(content);
        fsutil::replace_private(&path, content).map_err(JournalError::file("write", &path))?;
        self.add(role, file, media_type, required);
        Ok(())
    }

    /// Writes the difference between the base and a snapshot: `workspace.diff`, a patch with binary and new files, and
    /// `workspace.status`, the paths.
    ///
    /// # Errors
    /// [`JournalError`] if an object is missing or a file cannot be written.
    pub fn write_changes(
        &mut self,
        repo: &Repo,
        base: CommitId,
        snapshot: CommitId,
    ) -> Result<(), JournalError> {
        let patch = self.path.join("workspace.diff");
        // Git keeps the mode of a file that is there.
        fsutil::replace_private(&patch, b"").map_err(JournalError::file("write", &patch))?;
        // Commits are as good as trees.
        let tree = |id: CommitId| repo.commit(id).map_or(id, |commit| commit.tree);
        let (base, snapshot) = (tree(base), tree(snapshot));
        repo.write_patch(base, snapshot, &patch)?;
        self.add(Role::WorkspaceDiff, "workspace.diff", PATCH, true);
        let differences = repo.differences(base, snapshot).map_err(LedgerError::from)?;
        let paths: String = differences.iter().map(line).collect();
        self.write(Role::WorkspaceStatus, "workspace.status", "text/plain", false, paths.as_bytes())
    }

    /// Seals the files, and writes the manifests. The ledger's operation comes after it: if that fails, the record stays
    /// as one of an attempt that does not count.
    ///
    /// # Errors
    /// [`JournalError::File`].
    pub fn end(self, ended: Ended) -> Result<Vec<Filed>, JournalError> {
        let mut filed = Vec::new();
        let mut artifacts = Vec::new();
        for entry in &self.files {
            if !file::is_below(&self.path, &entry.path) {
                if entry.required {
                    tracing::warn!(step = %self.step, file = %entry.path.display(), "a file of a record is missing");
                }
                continue;
            }
            let path = self.path.join(&entry.path);
            let (size, sha256) = file::seal(&path, &self.masks).map_err(JournalError::file("mask", &path))?;
            let relative = path.strip_prefix(self.directory.path()).unwrap_or(&path);
            artifacts.push(Listed {
                role: entry.role,
                path: relative.to_string_lossy().into_owned(),
                media_type: entry.media_type.clone(),
                required: entry.required,
                size,
                sha256: sha256.clone(),
            });
            filed.push(Filed {
                role: entry.role,
                name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
                media_type: entry.media_type.clone(),
                path,
                size,
                sha256,
                kind: entry.role.kind(),
            });
        }
        seal_others(&self.path, &self.masks, &filed)?;
        let evidence = ended.evidence.map(|mut text| {
            self.masks.text(&mut text);
            text
        });
        let manifest = Manifest {
            run_id: self.directory.run(),
            step_id: self.step.clone(),
            opcode: self.opcode,
            number: self.number,
            attempt: self.attempt,
            started_at: ended.started_at,
            ended_at: ended.ended.map(|(at, _)| at),
            termination: ended.ended.map(|(_, outcome)| outcome),
            evidence_summary: evidence,
            exit_code: ended.exit,
            policy_digest: ended.policy_digest,
            provider: ended.provider,
            artifacts,
        };
        self.directory.replace(&self.path.join(manifest::FILE), &manifest)?;
        let newest = self.directory.artifacts().join(self.step.as_str()).join(manifest::FILE);
        self.directory.replace(&newest, &manifest)?;
        Ok(filed)
    }
}

/// The files of an attempt that was sealed, by the manifest in its directory. `None` if that is not whole.
pub(super) fn filed(directory: &RunDirectory, attempt: &Path) -> Option<Vec<Filed>> {
    let manifest = Manifest::read(attempt)?;
    let filed = manifest.artifacts.into_iter().map(|listed| {
        let path = directory.path().join(&listed.path);
        let inside = path.strip_prefix(attempt).ok().filter(|inside| file::is_below(attempt, inside));
        inside?;
        let Listed { role, media_type, size, sha256, .. } = listed;
        let name = path.file_name()?.to_string_lossy().into_owned();
        Some(Filed { role, name, media_type, path, size, sha256, kind: role.kind() })
    });
    filed.collect()
}

/// Makes artifacts of the files of a step, or of a turn of `node`, for the operation that ends it, and attaches their contents. What is too long for a
/// ledger is there by its digest alone; what is empty is not.
pub fn for_ledger(
    ledger: &mut Ledger<'_>,
    node: Option<NodeId>,
    outcome: Outcome,
    files: &[Filed],
) -> Vec<(String, NewArtifact)> {
    let mut made = Vec::new();
    for filed in files {
        let most = filed.role.in_ledger(outcome).or_else(|| node.and_then(|_| filed.role.in_every_turn()));
        let Some(most) = most.filter(|_| filed.size > 0) else { continue };
        let word = filed.role.word();
        let Ok(name) = FileName::parse(&filed.name).or_else(|_| FileName::parse(word)) else { continue };
        let (mut size, mut sha256) = (filed.size, filed.sha256.clone());
        if filed.size <= most
            && let Ok(content) = read(&filed.path, most)
        {
            let content = ledger.attach(&content);
            (size, sha256) = (content.size(), content.sha256().to_owned());
        }
        let media_type = filed.media_type.clone();
        let artifact =
            NewArtifact { id: None, node, turn: None, kind: filed.kind, name, media_type, size, sha256 };
        made.push((word.to_owned(), artifact));
    }
    made
}

fn read(path: &Path, most: u64) -> std::io::Result<Vec<u8>> {
    use std::io::Read;
    let mut content = Vec::new();
    file::open(path)?.take(most).read_to_end(&mut content)?;
    Ok(content)
}

/// A path that differs, with `A` for a new file, `D` for a deleted one, `T` for another type, else `M`.
fn line(difference: &Difference) -> String {
    let path = difference.path.to_str_lossy();
    let path = if path.contains(char::is_control) { format!("{path:?}") } else { path.into_owned() };
    let kind = |mode: u16| mode & 0o170_000;
    let word = match (difference.old, difference.new) {
        (None, _) => 'A',
        (_, None) => 'D',
        (Some((old, _)), Some((new, _))) if kind(old) != kind(new) => 'T',
        (Some(_), Some(_)) => 'M',
    };
    format!("{word}\t{path}\n")
}

/// The attempts in the directory of a step, in their order.
pub(crate) fn attempts(above: &Path) -> Vec<(u64, PathBuf)> {
    let entries = std::fs::read_dir(above).into_iter().flatten().flatten();
    let numbered = entries.filter_map(|entry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        entry.file_type().is_ok_and(|kind| kind.is_dir()).then(|| (number, entry.path()))
    });
    let mut all: Vec<(u64, PathBuf)> = numbered.collect();
    all.sort();
    all
}

/// Attempts that were killed: those without a manifest.
fn unfinished(above: &Path) -> impl Iterator<Item = PathBuf> {
    let all = attempts(above).into_iter().map(|(_, path)| path);
    all.filter(|path| !path.join(manifest::FILE).exists())
}

/// Masks the files of an attempt that are not sealed yet. One that cannot be masked is removed.
fn seal_others(directory: &Path, masks: &Masks, sealed: &[Filed]) -> Result<(), JournalError> {
    for path in file::below(directory).iter().map(|path| directory.join(path)) {
        if sealed.iter().any(|filed| filed.path == path) || path == directory.join(manifest::FILE) {
            continue;
        }
        if let Err(error) = file::seal(&path, masks) {
            tracing::warn!(path = %path.display(), %error, "a file of a record could not be masked, and is removed");
            std::fs::remove_file(&path).map_err(JournalError::file("remove", &path))?;
        }
    }
    Ok(())
}
