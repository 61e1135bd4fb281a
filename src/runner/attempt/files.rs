//! The files of one attempt on this host: two logs, the body, and a record (CONTRACT 3.4, 3.7, 3.11).
//!
//! Invariant: every path is fixed before the command starts. A log file is newly created and never shared by
//! two attempts. These files decide nothing; the branch's history does. Records let `aynig logs` find the
//! output of an attempt.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::contract::ids::{AttemptId, CommitId};
use crate::contract::layout::Own;
use crate::fsutil;
use crate::git::Repo;

use crate::runner::attempt::claim::Claim;

/// Why the files could not be created.
#[derive(Debug, thiserror::Error)]
pub enum AttemptError {
    /// A file operation failed.
    #[error("could not {what} {}", path.display())]
    Files {
        /// The operation, as a verb.
        what: &'static str,
        /// Its object.
        path: PathBuf,
        /// The error.
        #[source]
        source: io::Error,
    },
    /// The log directory is not a plain directory.
    #[error("{} is a symbolic link; logs are not written through links, so remove it", path.display())]
    Link {
        /// The link.
        path: PathBuf,
    },
}

impl AttemptError {
    /// The path of the error.
    pub fn path(&self) -> &Path {
        match self {
            Self::Files { path, .. } | Self::Link { path } => path,
        }
    }
}

/// The stored record of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The attempt's id.
    pub attempt: String,
    /// Its branch.
    pub branch: String,
    pub(crate) state: String,
    /// The trigger commit.
    pub trigger: String,
    /// The lease commit.
    pub lease: String,
    /// Its start, in seconds since the epoch.
    pub started: i64,
    /// The stdout log.
    #[serde(with = "path_bytes")]
    pub stdout: PathBuf,
    /// The stderr log.
    #[serde(with = "path_bytes")]
    pub stderr: PathBuf,
}

/// A path in JSON: a string, or the list of its bytes if it is not UTF-8.
mod path_bytes {
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Stored {
        Text(PathBuf),
        Bytes(Vec<u8>),
    }

    pub(crate) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        match path.to_str() {
            Some(text) => text.serialize(serializer),
            None => path.as_os_str().as_bytes().serialize(serializer),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        Ok(match Stored::deserialize(deserializer)? {
            Stored::Text(path) => path,
            Stored::Bytes(bytes) => OsString::from_vec(bytes).into(),
        })
    }
}

impl Record {
    /// Whether the attempt printed to standard error only.
    pub fn printed_errors_alone(&self) -> bool {
        let length = |path: &Path| std::fs::metadata(path).map_or(0, |found| found.len());
        length(&self.stdout) == 0 && length(&self.stderr) > 0
    }
}

/// An attempt's files, open for the command.
#[derive(Debug)]
pub(crate) struct Files {
    /// The stdout log.
    pub(crate) stdout: PathBuf,
    /// The stderr log.
    pub(crate) stderr: PathBuf,
    /// The file with the whole body.
    pub(crate) body: PathBuf,
    /// The two logs, open for the command to append to.
    pub(crate) streams: (File, File),
    /// The two logs, open for reading, whatever the command does to their names.
    pub(crate) readers: (File, File),
}

/// The log directory: `.aynig/logs` in the main worktree, or in the bare repository.
pub fn log_directory(repo: &Repo) -> PathBuf {
    repo.top().join(".aynig").join("logs")
}

/// Checks that logs can be written, before anything is claimed (CONTRACT 9.4).
pub fn check_log_directory(repo: &Repo) -> Result<(), AttemptError> {
    for path in [repo.top().join(".aynig"), log_directory(repo)] {
        // A link here could have come with a commit that is checked out in the main worktree.
        if path.is_symlink() {
            return Err(AttemptError::Link { path });
        }
    }
    for path in [log_directory(repo), Own::Attempts.within(repo.common_dir())] {
        fsutil::check_place(&path).map_err(failed("write in", &path))?;
    }
    Ok(())
}

/// Creates the log directory if it is missing, hidden from git.
pub(crate) fn make_log_directory(repo: &Repo) -> Result<PathBuf, AttemptError> {
    check_log_directory(repo)?;
    let directory = log_directory(repo);
    std::fs::create_dir_all(&directory).map_err(failed("make", &directory))?;
    if !repo.is_bare() {
        fsutil::hide_from_git(&directory).map_err(failed("write .gitignore in", &directory))?;
    }
    Ok(directory)
}

/// Creates the files of `claim`'s attempt.
pub(crate) fn prepare(repo: &Repo, claim: &Claim) -> Result<Files, AttemptError> {
    let directory = make_log_directory(repo)?;
    let (stdout, stderr, streams) = create_logs(&directory, claim.trigger.commit, claim.attempt)?;
    let reader = |path: &Path| fsutil::open_plain(path).map_err(failed("open", path));
    let readers = (reader(&stdout)?, reader(&stderr)?);
    let records = record_directory(repo);
    std::fs::create_dir_all(&records).map_err(failed("make", &records))?;
    let body = body_path(&records, claim.attempt);
    let record = Record {
        attempt: claim.attempt.to_string(),
        branch: claim.branch.to_string(),
        state: claim.trigger.state.to_string(),
        trigger: claim.trigger.commit.to_string(),
        lease: claim.lease.to_string(),
        started: claim.leased_at,
        stdout: stdout.clone(),
        stderr: stderr.clone(),
    };
    let path = record_path(&records, &claim.attempt.to_string());
    let mut text = serde_json::to_vec(&record).map_err(io::Error::from).map_err(failed("write", &path))?;
    text.push(b'\n');
    fsutil::replace(&path, &text).map_err(failed("write", &path))?;
    Ok(Files { stdout, stderr, body, streams, readers })
}

/// Writes the body of the request for the command. Whoever sweeps the worktree removes it, so that comes first.
pub(crate) fn write_body(claim: &Claim, files: &Files) -> Result<(), AttemptError> {
    fsutil::replace(&files.body, &claim.trigger.message.body).map_err(failed("write", &files.body))
}

/// Reads the record of an attempt, if it was made on this host.
pub fn find(repo: &Repo, attempt: AttemptId) -> Option<Record> {
    let path = record_path(&record_directory(repo), &attempt.to_string());
    serde_json::from_slice(&fsutil::read_plain(path).ok()?).ok()
}

/// Reads the records of all attempts made on this host, in no order. Unreadable ones are skipped.
pub fn all(repo: &Repo) -> Vec<Record> {
    let Ok(entries) = std::fs::read_dir(record_directory(repo)) else { return Vec::new() };
    let paths = entries.flatten().map(|entry| entry.path());
    let records = paths.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    records.filter_map(|path| serde_json::from_slice(&fsutil::read_plain(path).ok()?).ok()).collect()
}

/// Creates `<trigger>.stdout.log` and `.stderr.log`. A second attempt on the same trigger (another branch at
/// that commit, a branch set back to it) gets names of its own. Otherwise the two attempts would read each
/// other's declarations.
fn create_logs(
    directory: &Path,
    trigger: CommitId,
    attempt: AttemptId,
) -> Result<(PathBuf, PathBuf, (File, File)), AttemptError> {
    let plain = trigger.to_string();
    let own = format!("{trigger}.{attempt}");
    for stem in [&plain, &own] {
        let stdout = directory.join(format!("{stem}.stdout.log"));
        let stderr = directory.join(format!("{stem}.stderr.log"));
        let out = match create_new(&stdout) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && stem == &plain => continue,
            Err(error) => return Err(failed("create", &stdout)(error)),
        };
        // The attempt that creates the stdout log owns the pair. A stderr log that exists without it is never
        // written to.
        let (stderr, err) = match create_new(&stderr) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let stderr = directory.join(format!("{own}.stderr.log"));
                (stderr.clone(), create_new(&stderr).map_err(failed("create", &stderr))?)
            }
            made => (stderr.clone(), made.map_err(failed("create", &stderr))?),
        };
        return Ok((stdout, stderr, (out, err)));
    }
    unreachable!("the second name either works or returns its error")
}

fn create_new(path: &Path) -> io::Result<File> {
    // Opened for appending: a command may also write to its log by name, and neither writer overwrites the
    // other.
    OpenOptions::new().create_new(true).append(true).mode(0o644).open(path).and_then(|mut file| {
        file.flush()?;
        Ok(file)
    })
}

/// The directory of the records. Readers do not make it: the repository may have been moved away.
fn record_directory(repo: &Repo) -> PathBuf {
    Own::Attempts.within(repo.common_dir())
}

/// Removes the body of an attempt that is over, if it is still there.
pub(crate) fn forget_body(repo: &Repo, attempt: AttemptId) {
    if let Err(error) = std::fs::remove_file(body_path(&record_directory(repo), attempt)) {
        tracing::debug!(%attempt, %error, "no body file was removed");
    }
}

/// Removes unfinished files that dead runners left among records and logs.
pub(crate) fn forget_drafts(repo: &Repo) {
    fsutil::remove_drafts(&log_directory(repo));
    fsutil::remove_drafts(&record_directory(repo));
}

fn body_path(records: &Path, attempt: AttemptId) -> PathBuf {
    records.join(format!("{attempt}.body"))
}

fn record_path(directory: &Path, attempt: &str) -> PathBuf {
    directory.join(format!("{attempt}.json"))
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> AttemptError {
    let path = path.to_owned();
    move |source| {
        let source = match fsutil::free_space_text(&source, &path) {
            Some(room) => io::Error::new(source.kind(), format!("{source}; {room}")),
            None => source,
        };
        AttemptError::Files { what, path, source }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn a_record_holds_any_path() {
        for (path, stored) in [(&b"/caf\xc3\xa9"[..], "\"/café\""), (b"/caf\xe9", "[47,99,97,102,233]")] {
            let record = Record {
                attempt: "a".to_owned(),
                branch: "b".to_owned(),
                state: "s".to_owned(),
                trigger: "t".to_owned(),
                lease: "l".to_owned(),
                started: 1,
                stdout: OsStr::from_bytes(path).into(),
                stderr: "/x".into(),
            };
            let text = serde_json::to_string(&record).unwrap();
            assert!(text.contains(&format!("\"stdout\":{stored},\"stderr\":\"/x\"")), "{text}");
            assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record);
        }
    }
}
