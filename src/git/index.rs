//! The tree an index stands for, and whether a checkout has changes.
//!
//! Invariant: nothing here changes a person's index; snapshots go through a copy of it.

use std::path::Path;

use bstr::ByteSlice;

use super::process::{Git, ProcessError};
use super::repo::Repo;
use crate::contract::ids::CommitId;

impl Repo {
    /// The tree that the index of the checkout at `path` stands for. Fails while the index holds conflicts.
    pub fn index_tree(&self, path: &Path) -> Result<CommitId, ProcessError> {
        let tree = tree_id(Git::new(path).arg("write-tree"))?;
        // Git believes it has the empty tree even where it is not stored, and does not always write it; `git fsck`
        // and other readers would then miss it.
        if let Err(error) = self.empty_tree_if(tree) {
            tracing::warn!(%error, "the empty tree could not be stored");
        }
        Ok(tree)
    }

    /// Paths with conflicts in the index of the checkout at `path`, made readable.
    pub fn conflicts(&self, path: &Path) -> Result<Vec<String>, ProcessError> {
        let output = Git::new(path).args(["ls-files", "--unmerged", "-z", "--", ":/"]).run()?;
        // "<mode> <id> <stage>\t<path>", once for each side of a conflict
        let names = output.stdout.split(|byte| *byte == 0).filter_map(|entry| entry.split_once_str("\t"));
        let mut paths: Vec<String> = names.map(|(_, name)| name.to_str_lossy().into_owned()).collect();
        paths.dedup();
        Ok(paths)
    }

    /// Whether the index of the checkout at `path` equals the tree of its HEAD.
    pub fn index_equals_head(&self, path: &Path) -> Result<bool, ProcessError> {
        let output = Git::new(path)
            .env("GIT_OPTIONAL_LOCKS", "0")
            .args(["diff-index", "--cached", "--quiet", "--ignore-submodules=none", "HEAD"])
            .run_unchecked()?;
        match output.status.code() {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            _ => Git::new(path).args(["diff-index", "--cached", "--quiet", "HEAD"]).run().map(|_| true),
        }
    }

    /// Whether the checkout at `path` has nothing staged, unstaged or untracked (ignored files do not count).
    pub fn is_clean(&self, path: &Path) -> Result<bool, ProcessError> {
        let output = Git::new(path)
            .env("GIT_OPTIONAL_LOCKS", "0")
            .args(["status", "--porcelain", "-z", "--untracked-files=normal", "--ignore-submodules=none"])
            .args(["--no-renames", "--ignored=no"])
            .run()?;
        Ok(output.stdout.is_empty())
    }

    /// The tree of everything the checkout at `path` holds: tracked files as they are on disk, and untracked ones
    /// that are not ignored. Its own index, in `git_dir`, is left alone.
    pub fn snapshot_tree(&self, path: &Path, git_dir: &Path) -> Result<CommitId, ProcessError> {
        let scratch = |source| ProcessError::NotStarted {
            what: "add --all (with a scratch index)".to_owned(),
            directory: path.to_owned(),
            source,
        };
        let directory =
            tempfile::Builder::new().prefix("aynig-rescue-").tempdir_in(git_dir).map_err(scratch)?;
        let index = directory.path().join("index");
        match std::fs::copy(git_dir.join("index"), &index) {
            Ok(_) => {}
            // A worktree whose checkout never began has no index yet: an empty one adds every file afresh.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(scratch(error)),
        }
        Git::new(path)
            .env("GIT_INDEX_FILE", &index)
            .args(["-c", "advice.addEmbeddedRepo=false", "-c", "core.safecrlf=false"])
            .args(["add", "--all", "--sparse", "--", "."])
            .run()?;
        tree_id(Git::new(path).env("GIT_INDEX_FILE", &index).arg("write-tree"))
    }

    /// Paths that `newer` records as another repository's commit and `older` does not, or differently: what is in
    /// such a repository is not in our objects.
    pub fn foreign_repositories(
        &self,
        path: &Path,
        older: CommitId,
        newer: CommitId,
    ) -> Result<Vec<String>, ProcessError> {
        let output = Git::new(path)
            .args(["diff-tree", "-r", "-z", "--no-renames", &older.to_string(), &newer.to_string()])
            .run()?;
        let mut fields = output.stdout.split(|byte| *byte == 0);
        let mut found = Vec::new();
        while let (Some(entry), Some(name)) = (fields.next(), fields.next()) {
            // ":<old mode> <new mode> <old id> <new id> <status>"
            if entry.split(|byte| *byte == b' ').nth(1) == Some(b"160000".as_slice()) {
                found.push(String::from_utf8_lossy(name).into_owned());
            }
        }
        Ok(found)
    }

    /// Initialised submodules of the checkout at `path` that hold changes, or commits no remote of theirs has: their
    /// repositories are in the worktree's registration, `git_dir`, and are removed with it.
    pub fn unsaved_submodules(&self, path: &Path, git_dir: &Path) -> Result<Vec<String>, ProcessError> {
        if !git_dir.join("modules").exists() {
            return Ok(Vec::new());
        }
        let look = "changed=$(git status --porcelain) \
            && made=$(git rev-list -n 1 HEAD --branches --glob='refs/stas[h]' --not --remotes) \
            && test -z \"$changed$made\" || echo \"$displaypath\"";
        let output = Git::new(path).args(["submodule", "--quiet", "foreach", "--recursive", look]).run()?;
        Ok(output.text().lines().map(str::to_owned).collect())
    }
}

fn tree_id(git: Git) -> Result<CommitId, ProcessError> {
    let output = git.run()?;
    CommitId::parse_hex(output.text().as_bytes()).ok_or_else(|| ProcessError::Failed {
        what: "write-tree".to_owned(),
        directory: std::path::PathBuf::new(),
        status: output.status,
        said: format!("it answered {:?}, which is no object id", output.text()),
    })
}
