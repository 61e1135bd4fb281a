//! Files that look like keys are left out of snapshots (CONTRACT 15.16).
//!
//! A file that the branch has already, or that a commit of the agent has, stays. What is left out stays in the
//! worktree, and is copied into the directory of the workspace. New files of tools that drive agents are left out as
//! well, without a copy (CONTRACT 15.24).

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use bstr::{BStr, BString, ByteSlice};

use crate::contract::ids::CommitId;
use crate::fsutil;
use crate::git::objects::commits::CommitError;
use crate::git::objects::differences::Difference;
use crate::git::worktrees::held::Worktree;

use super::Workspaces;
use super::refusal::Refusal;
use super::store::Held;

/// The directory of the copies.
const COPIES: &str = "withheld";

/// The beginning of a file in which a private key is looked for.
const BEGINNING: u64 = 64 * 1024;

/// A longer file is not copied.
const MOST_BYTES: u64 = 1024 * 1024;

/// Names of files with secrets.
const NAMES: [&str; 11] = [
    ".env",
    ".envrc",
    ".git-credentials",
    ".netrc",
    ".pgpass",
    "_netrc",
    "id_dsa",
    "id_ecdsa",
    "id_ecdsa_sk",
    "id_ed25519",
    "id_rsa",
];

/// Ends of the names of such files.
const ENDS: [&str; 7] = [".jks", ".kdbx", ".key", ".keystore", ".p12", ".pfx", ".ppk"];

/// A directory for files of a run, at the top of a worktree.
const SCRATCH: &str = ".tnh/";

/// The report that a harness writes at the top.
const REPORT: &str = "harness_report.json";

/// Ends of names of samples, which have none.
const SAMPLES: [&str; 5] = [".dist", ".example", ".sample", ".template", ".tmpl"];

impl Workspaces<'_> {
    /// Takes new files that look like keys out of a tree, and copies them. Returns them, too.
    pub(super) fn withhold(
        &self,
        held: &Held,
        worktree: &Worktree,
        old: CommitId,
        tree: CommitId,
    ) -> Result<(CommitId, Vec<Difference>), Refusal> {
        let because =
            |error: &dyn std::error::Error| Refusal::because("look for keys among new files", error);
        let new = self.repo.new_paths(old, tree).map_err(|error| because(&error))?;
        let (scratch, new): (Vec<BString>, Vec<BString>) = new.into_iter().partition(is_scratch);
        let found = keys_among(&worktree.path, new);
        if found.is_empty() && scratch.is_empty() {
            return Ok((tree, Vec::new()));
        }
        for path in &found {
            let below = Path::new(OsStr::from_bytes(path));
            if let Err(error) = copy(&worktree.path.join(below), &held.directory.join(COPIES), below) {
                tracing::warn!(%path, %error, "could not be copied; it stays in the worktree");
            }
        }
        let files: Vec<(&BString, Option<Vec<u8>>)> =
            found.iter().chain(&scratch).map(|path| (path, None)).collect();
        let mut withheld = if found.is_empty() {
            Vec::new()
        } else {
            self.repo.differences(old, tree).map_err(|error| because(&error))?
        };
        withheld.retain(|one| found.contains(&one.path));
        let tree = self.repo.edit_tree(Some(tree), &files).map_err(|error| because(&error))?;
        Ok((tree, withheld))
    }
}

impl Workspaces<'_> {
    /// The files of the tree `new` that look like keys and are not in the tree `old`. Their contents are read below
    /// `top`.
    fn new_keys(&self, top: &Path, old: CommitId, new: CommitId) -> Result<Vec<BString>, CommitError> {
        Ok(keys_among(top, self.repo.new_paths(old, new)?))
    }

    /// The files of the tree `new` that a snapshot on the tree `old` leaves out. Their contents are read below `top`.
    pub(super) fn left_out(
        &self,
        top: &Path,
        old: CommitId,
        new: CommitId,
    ) -> Result<Vec<BString>, CommitError> {
        let new = self.repo.new_paths(old, new)?;
        let (mut left_out, new): (Vec<BString>, Vec<BString>) = new.into_iter().partition(is_scratch);
        left_out.extend(keys_among(top, new));
        Ok(left_out)
    }

    /// The keys among the files below `top` that the rescue ref has and the commit `to` has not.
    pub(super) fn saved_keys(
        &self,
        top: &Path,
        to: CommitId,
        rescue: Option<&str>,
    ) -> Result<BTreeSet<PathBuf>, CommitError> {
        let saved = rescue.and_then(|name| self.repo.read_ref(name.into()).ok()?);
        let Some(saved) = saved else { return Ok(BTreeSet::new()) };
        let [old, new] = [self.repo.commit(to)?.tree, self.repo.commit(saved)?.tree];
        let keys = self.new_keys(top, old, new)?;
        Ok(keys.iter().map(|path| PathBuf::from(OsStr::from_bytes(path))).collect())
    }
}

/// Those of some files below `top` that look like keys.
fn keys_among(top: &Path, paths: Vec<BString>) -> Vec<BString> {
    let place = |path: &BString| top.join(OsStr::from_bytes(path));
    let is_one = |path: &BString| is_named_like_one(path.as_bstr()) || has_key(&place(path));
    paths.into_iter().filter(is_one).collect()
}

/// Whether a file is one of a run, and none of the work.
fn is_scratch(path: &BString) -> bool {
    path.starts_with(SCRATCH.as_bytes()) || path == REPORT
}

/// Whether a file with this path has secrets, by its name.
fn is_named_like_one(path: &BStr) -> bool {
    let name = path.rsplit_once_str("/").map_or(path.as_bytes(), |(_, name)| name).to_ascii_lowercase();
    let is_sample = SAMPLES.iter().any(|end| name.ends_with(end.as_bytes()));
    let is_one = NAMES.iter().any(|known| name == known.as_bytes())
        || ENDS.iter().any(|end| name.len() > end.len() && name.ends_with(end.as_bytes()));
    !is_sample && (is_one || name.starts_with(b".env."))
}

/// Whether a file has a private key.
fn has_key(file: &Path) -> bool {
    let mut text = Vec::new();
    let read = fsutil::open_plain(file).and_then(|opened| opened.take(BEGINNING).read_to_end(&mut text));
    read.is_ok()
        && text
            .lines()
            .any(|line| line.starts_with(b"-----BEGIN ") && line.trim_end().ends_with(b"PRIVATE KEY-----"))
}

fn copy(file: &Path, copies: &Path, path: &Path) -> std::io::Result<()> {
    if !path.components().all(|part| matches!(part, Component::Normal(_))) {
        return Err(std::io::ErrorKind::InvalidFilename.into());
    }
    let opened = fsutil::open_plain(file)?;
    if opened.metadata()?.len() > MOST_BYTES {
        return Err(std::io::ErrorKind::FileTooLarge.into());
    }
    let text = fsutil::tail_of(&opened, MOST_BYTES)?;
    let target = copies.join(path);
    fsutil::create_private_dir_all(target.parent().unwrap_or(copies))?;
    fsutil::replace(&target, &text)?;
    std::fs::set_permissions(&target, std::fs::Permissions::from_mode(0o600))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CONTRACT 15.16
    #[test]
    fn names_of_files_with_secrets() {
        for path in
            [".env", "a/.env", ".env.local", "ID_RSA", "deep/er/id_ed25519", "server.key", "x.p12", ".netrc"]
        {
            assert!(is_named_like_one(path.into()), "{path}");
        }
        for path in [
            ".env.example",
            ".env.sample",
            "env",
            "environment",
            "id_rsa.pub",
            "key",
            ".key",
            "keys.rs",
            "a.env/b",
            "cert.pem",
            "monkey",
            ".environment",
        ] {
            assert!(!is_named_like_one(path.into()), "{path}");
        }
    }
}
