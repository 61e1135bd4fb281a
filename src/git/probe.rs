//! Questions about git and the repository that only a check-up asks.
//!
//! Invariant: nothing that anybody reads is changed: at most an object is written that no ref names, and what is pushed is a dry run.

use std::path::{Path, PathBuf};

use bstr::{BString, ByteSlice};

use super::commit::{CommitError, NewCommit};
use super::process::{Git, ProcessError};
use super::remote::{PLAIN_PUSH, QUESTION};
use super::repo::{Repo, error_chain, gits};
use crate::contract::ids::{CommitId, RemoteName};

/// A file in a commit's tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeFile {
    /// Its path.
    pub path: BString,
    /// Whether it has the executable bit; none for a link.
    pub executable: Option<bool>,
    /// Its first bytes.
    pub head: Vec<u8>,
}

/// How much of a file's beginning is read: more than any `#!` line that works.
pub const HEAD: usize = 256;

/// What `git version` says.
pub fn git_version(directory: &Path) -> Result<String, ProcessError> {
    Git::new(directory).arg("version").run().map(|output| output.text())
}

impl Repo {
    /// Whether git knows who commits here.
    pub fn has_identity(&self) -> bool {
        let known = |who: Option<gix::Result<gix::actor::SignatureRef<'_>>>| {
            who.is_some_and(|who| {
                who.is_ok_and(|who| !who.name.trim().is_empty() && !who.email.trim().is_empty())
            })
        };
        known(self.gix.author()) && known(self.gix.committer())
    }

    /// Writes a commit of nothing, signed if that is configured; no ref names it, and git prunes it some day.
    pub fn try_commit(&self) -> Result<CommitId, CommitError> {
        let tree = self.empty_tree()?;
        self.write_commit(&NewCommit {
            tree,
            parents: &[],
            message: b"aynig doctor: can a commit be written?\n",
            attempt: None,
        })
    }

    /// Whether git ignores `path` in the checkout at `top`.
    pub fn ignores(&self, top: &Path, path: &str) -> Result<bool, ProcessError> {
        let output = Git::new(top).args(["check-ignore", "--quiet", "--", path]).run_unchecked()?;
        Ok(output.status.success())
    }

    /// The files below `directory` in the tree of `commit`.
    pub fn files_below(&self, commit: CommitId, directory: &str) -> Result<Vec<TreeFile>, CommitError> {
        let unreadable = |error: gix::Error| CommitError::Unreadable { id: commit, why: error_chain(&error) };
        let root = self.gix.find_tree(gits(self.commit(commit)?.tree)).map_err(unreadable)?;
        let mut ahead: Vec<(BString, gix::ObjectId)> = Vec::new();
        if let Some(entry) = root.lookup_entry(directory.split('/')).map_err(unreadable)?
            && entry.mode().is_tree()
        {
            ahead.push((directory.into(), entry.object_id()));
        }
        let mut files = Vec::new();
        while let Some((above, id)) = ahead.pop() {
            let tree = self.gix.find_tree(id).map_err(unreadable)?;
            for entry in tree.decode().map_err(unreadable)?.entries {
                let mut path = above.clone();
                path.push(b'/');
                path.extend_from_slice(entry.filename);
                let oid = entry.oid.to_owned();
                if entry.mode.is_tree() {
                    ahead.push((path, oid));
                } else if entry.mode.is_blob_or_symlink() {
                    let blob = self.gix.find_object(oid).map_err(unreadable)?;
                    let head = blob.data.iter().copied().take(HEAD).collect();
                    let executable = (!entry.mode.is_link()).then(|| entry.mode.is_executable());
                    files.push(TreeFile { path, executable, head });
                }
            }
        }
        files.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(files)
    }

    /// Pushes `commit` to a name of its own without doing it: whether the remote would let us.
    pub fn try_push(&self, remote: &RemoteName, commit: CommitId) -> Result<(), ProcessError> {
        self.remote_git()
            .args(PLAIN_PUSH)
            .args(["--dry-run", "--quiet"])
            .args(["--end-of-options", remote.as_str()])
            .arg(format!("{commit}:refs/aynig/doctor/{}", crate::contract::AttemptId::random()))
            .timeout(QUESTION)
            .run()
            .map(drop)
    }

    /// The git directory of a remote that is a directory of this host; none if it lies elsewhere.
    pub fn remote_directory(&self, remote: &RemoteName) -> Option<PathBuf> {
        let url = self
            .config(&format!("remote.{remote}.pushurl"))
            .or_else(|| self.config(&format!("remote.{remote}.url")))?;
        let path = match url.strip_prefix("file://") {
            Some(path) => PathBuf::from(path),
            None => self.top().join(url),
        };
        [path.join(".git"), path.clone()].into_iter().find(|place| place.join("objects").is_dir())
    }

    /// Where the hooks of the repository at `git_dir` are, by its own configuration.
    pub fn hooks_of(git_dir: &Path) -> PathBuf {
        let config =
            gix::config::File::from_path_no_includes(git_dir.join("config"), gix::config::Source::Local);
        let named = config
            .ok()
            .and_then(|config| config.string("core.hooksPath").map(|path| path.to_path_lossy().into_owned()));
        git_dir.join(named.unwrap_or_else(|| PathBuf::from("hooks")))
    }
}
