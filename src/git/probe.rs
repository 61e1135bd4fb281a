//! Queries of `aynig doctor` about git and the repository.
//!
//! Invariant: nothing in the repository changes. A trial commit is written elsewhere, and a trial
//! push is a dry run.

use std::path::{Path, PathBuf};

use bstr::{BString, ByteSlice};

use super::atomic::Unmoved;
use super::refs::transaction::RefChange;
use super::remote::{PLAIN_PUSH, QUESTION};
use crate::clock;
use crate::contract::ids::{AttemptId, CommitId, RemoteName};
use crate::contract::layout::TRIED;
use crate::contract::namespace::Namespace;
use crate::fsutil::check_place;
use crate::git::objects::commits::{CommitError, NewCommit};
use crate::git::objects::signatures::SIGNING;
use crate::git::process::call::{Git, ProcessError};
use crate::git::process::cancel::Purpose;
use crate::git::repo::open::Repo;

/// The output of `git version`.
pub fn git_version(directory: &Path) -> Result<String, ProcessError> {
    Git::new(directory).arg("version").run().map(|output| output.text())
}

impl Repo {
    /// Whether git has an author and a committer identity, each with name and email.
    pub fn has_identity(&self) -> bool {
        let known = |who: Option<gix::Result<gix::actor::SignatureRef<'_>>>| {
            who.is_some_and(|who| {
                who.is_ok_and(|who| !who.name.trim().is_empty() && !who.email.trim().is_empty())
            })
        };
        known(self.gix.author()) && known(self.gix.committer())
    }

    /// Checks that a commit can be written, and signed if that is configured. The signed commit
    /// goes into a temporary directory.
    pub fn try_commit(&self) -> Result<(), CommitError> {
        let objects = self.common_dir().join("objects");
        let unwritable = |place: &Path, error: std::io::Error| CommitError::Unwritable {
            objects: place.display().to_string(),
            why: error.to_string(),
        };
        check_place(&objects).map_err(|error| unwritable(&objects, error))?;
        let unsettled = |error| CommitError::NotSettled(Box::new(error));
        if !self.signs().map_err(unsettled)? {
            return Ok(());
        }
        self.check_settings().map_err(unsettled)?;
        let elsewhere = tempfile::tempdir().map_err(|error| unwritable(&std::env::temp_dir(), error))?;
        let message = b"aynig doctor: can a commit be signed?\n";
        // Git knows the empty tree without having it stored.
        let new = NewCommit { tree: self.no_files(), parents: &[], message, attempt: None };
        self.write_signed(
            &new,
            None,
            clock::local_time(),
            (Purpose::Signature, SIGNING),
            Some(elsewhere.path()),
        )
        .map(drop)
    }

    /// Whether git ignores `path` in the checkout at `top`.
    pub fn ignores(&self, top: &Path, path: &str) -> Result<bool, ProcessError> {
        let output = Git::new(top).args(["check-ignore", "--quiet", "--", path]).run_unchecked()?;
        Ok(output.status.success())
    }

    /// Checks push access: a dry run of a push of `commit` to a new name.
    pub fn try_push(&self, remote: &RemoteName, commit: CommitId) -> Result<(), ProcessError> {
        let name = format!("{TRIED}{}", AttemptId::random());
        let name = self.namespace().unwrap_or_default().there(name.as_str().into());
        self.remote_git(Purpose::Other)
            .args(PLAIN_PUSH)
            .args(["--dry-run", "--quiet"])
            .args(["--end-of-options", remote.as_str()])
            .arg(format!("{commit}:{name}"))
            .timeout(QUESTION)
            .run()
            .map(drop)
    }

    /// Makes a runners' ref on `remote`, and deletes it. `commit` is there already.
    pub fn try_ref(&self, remote: &RemoteName, commit: CommitId) -> Result<(), Unmoved> {
        let name = BString::from(format!("{TRIED}{}", AttemptId::random()));
        for (expected, new) in [(None, Some(commit)), (Some(commit), None)] {
            // Nobody else has the name.
            let _won =
                self.move_together(remote, &[RefChange { name: name.clone(), expected, new }], QUESTION)?;
        }
        Ok(())
    }

    /// The git directory of a remote on this host; `None` if the remote is elsewhere.
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

    /// The hooks directory of the repository at `git_dir`, by its own configuration.
    pub fn hooks_of(git_dir: &Path) -> PathBuf {
        git_dir.join(config_of(git_dir, "core.hooksPath").unwrap_or_else(|| "hooks".to_owned()))
    }

    /// The names of runners' refs by the configuration of the repository at `git_dir`. `None` if its value is wrong.
    pub fn namespace_of(git_dir: &Path) -> Option<Namespace> {
        Namespace::parse(&config_of(git_dir, "aynig.refNamespace").unwrap_or_default()).ok()
    }
}

/// A setting in the file of the repository at `git_dir`.
fn config_of(git_dir: &Path, key: &str) -> Option<String> {
    let config = gix::config::File::from_path_no_includes(git_dir.join("config"), gix::config::Source::Local);
    config.ok()?.string(key).map(|value| value.to_str_lossy().into_owned())
}
