//! Files that look like keys are left out of snapshots (CONTRACT 15.16).
//!
//! A file that the branch has already, or that a commit of the agent has, stays. What is left out stays in the
//! worktree, and is copied into the directory of the workspace.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path};

use bstr::ByteSlice;

use crate::contract::ids::CommitId;
use crate::fsutil;
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

/// Ends of names of samples, which have none.
const SAMPLES: [&str; 5] = [".dist", ".example", ".sample", ".template", ".tmpl"];

impl Workspaces<'_> {
    /// Takes new files that look like keys out of a tree, and copies them. Returns their paths, too.
    pub(super) fn withhold(
        &self,
        held: &Held,
        worktree: &Worktree,
        old: CommitId,
        tree: CommitId,
    ) -> Result<(CommitId, Vec<String>), Refusal> {
        let because =
            |error: &dyn std::error::Error| Refusal::because("look for keys among new files", error);
        let new = self.repo.new_paths(old, tree).map_err(|error| because(&error))?;
        let paths = new.into_iter().filter_map(|path| String::from_utf8(path.into()).ok());
        let found: Vec<String> =
            paths.filter(|path| is_named_like_one(path) || has_key(&worktree.path.join(path))).collect();
        if found.is_empty() {
            return Ok((tree, found));
        }
        for path in &found {
            if let Err(error) = copy(&worktree.path.join(path), &held.directory.join(COPIES), path) {
                tracing::warn!(%path, %error, "could not be copied; it stays in the worktree");
            }
        }
        let files: Vec<(String, Option<Vec<u8>>)> = found.iter().map(|path| (path.clone(), None)).collect();
        let tree = self.repo.edit_tree(Some(tree), &files).map_err(|error| because(&error))?;
        Ok((tree, found))
    }
}

/// Whether a file with this path has secrets, by its name.
fn is_named_like_one(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    let is_sample = SAMPLES.iter().any(|end| name.ends_with(end));
    let is_one = NAMES.contains(&name.as_str())
        || ENDS.iter().any(|end| name.len() > end.len() && name.ends_with(end));
    !is_sample && (is_one || name.starts_with(".env."))
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

fn copy(file: &Path, copies: &Path, path: &str) -> std::io::Result<()> {
    if !Path::new(path).components().all(|part| matches!(part, Component::Normal(_))) {
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
            assert!(is_named_like_one(path), "{path}");
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
            assert!(!is_named_like_one(path), "{path}");
        }
    }
}
