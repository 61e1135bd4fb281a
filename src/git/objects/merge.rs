//! Merges of trees: two commits in, a tree or the conflicting paths out.
//!
//! Invariant: no checkout, index or ref is touched, and no hook runs. `git merge-tree` merges, with the
//! attributes of a commit that the caller trusts. If the first commit is an ancestor of the second, git is not called.

use bstr::{BString, ByteSlice};

use crate::contract::ids::CommitId;
use crate::git::objects::commits::CommitError;
use crate::git::process::call::{Git, ProcessError};
use crate::git::repo::open::Repo;

/// Git's exit code for an unknown option.
const UNKNOWN_OPTION: i32 = 129;

/// The result of a merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Merge {
    /// The tree with both sides' changes.
    Clean(CommitId),
    /// The paths with conflicts.
    Conflicts(Vec<BString>),
}

/// Why two commits could not be merged.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MergeError {
    /// They have no commit in common.
    #[error("they have no commit in common")]
    Unrelated,
    /// `git merge-tree --write-tree` came with git 2.38.
    #[error("git merges without a checkout from version 2.38 on; this one is older")]
    GitTooOld,
    /// A commit could not be read.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// Git failed.
    #[error(transparent)]
    Git(#[from] ProcessError),
}

impl Repo {
    /// The commits that `tip` has and `base` has not, the newest first.
    pub(crate) fn commits_since(&self, tip: CommitId, base: CommitId) -> Result<Vec<CommitId>, ProcessError> {
        if self.commit(tip).is_ok_and(|stored| stored.parents == [base]) {
            return Ok(vec![tip]);
        }
        let range = format!("{base}..{tip}");
        let listed = Git::shared(self.common_dir()).args(["rev-list", &range, "--"]).run()?.stdout;
        Ok(listed.split(|byte| *byte == b'\n').filter_map(CommitId::parse_hex).collect())
    }

    /// Merges `from` into `into`, with the attributes of the commit `attributes`.
    pub(crate) fn merge_trees(
        &self,
        into: CommitId,
        from: CommitId,
        attributes: CommitId,
    ) -> Result<Merge, MergeError> {
        match self.merge_base(into, from).ok().flatten() {
            None => return Err(MergeError::Unrelated),
            Some(base) if base == into => return Ok(Merge::Clean(self.commit(from)?.tree)),
            Some(_) => {}
        }
        let output = Git::shared(self.common_dir())
            .env("GIT_ATTR_SOURCE", attributes.to_string())
            .args(["merge-tree", "--write-tree", "--name-only", "--no-messages", "-z"])
            .args([into.to_string(), from.to_string()])
            .known_as("merge-tree")
            .run_unchecked()?;
        let mut parts = output.stdout.split(|byte| *byte == 0).filter(|part| !part.is_empty());
        let tree = parts.next().and_then(|id| CommitId::parse_hex(id.trim()));
        match (output.status.code(), tree) {
            (Some(0), Some(tree)) => Ok(Merge::Clean(tree)),
            (Some(1), Some(_)) => {
                let mut paths: Vec<BString> = parts.map(BString::from).collect();
                paths.dedup();
                Ok(Merge::Conflicts(paths))
            }
            (Some(UNKNOWN_OPTION), _) => Err(MergeError::GitTooOld),
            // Its message explains the failure.
            _ => {
                let again = Git::shared(self.common_dir()).args(["merge-tree", "--write-tree"]);
                let error = again.args([into.to_string(), from.to_string()]).run();
                Err(error.map(|_| MergeError::GitTooOld).unwrap_or_else(MergeError::Git))
            }
        }
    }

    /// The commits that `tip` has and `base` has not, oldest first, without merges.
    pub(crate) fn commits_between(
        &self,
        base: CommitId,
        tip: CommitId,
    ) -> Result<Vec<CommitId>, ProcessError> {
        let range = format!("{base}..{tip}");
        let output = Git::shared(self.common_dir())
            .args(["rev-list", "--reverse", "--topo-order", "--no-merges", &range])
            .run()?;
        Ok(output.stdout.lines().filter_map(CommitId::parse_hex).collect())
    }
}
