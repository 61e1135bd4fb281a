//! The command that called this process, if one did.
//!
//! Invariant: it counts only in its own repository. A command may work on other repositories, to
//! which its branch means nothing.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use bstr::BString;

use crate::contract::ids::{AttemptId, BranchName, RemoteName};
use crate::git::Repo;
use crate::git::worktrees::registration::same_place;

use super::error::Error;

/// The surrounding command, as its environment describes it.
#[derive(Debug, Clone)]
pub(crate) struct OuterCommand {
    /// `AYNIG_BRANCH`.
    pub branch: BranchName,
    /// `AYNIG_RUN_ID`.
    pub run: Option<BString>,
    /// `AYNIG_REMOTE`.
    pub(crate) remote: Option<RemoteName>,
    /// `WORKTREE_PATH`.
    pub worktree: Option<PathBuf>,
}

impl OuterCommand {
    /// Returns the surrounding command, if there is one and it belongs to this repository.
    pub(crate) fn of(repo: &Repo) -> Result<Option<Self>, Error> {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let Some(branch) = variable("AYNIG_BRANCH") else { return Ok(None) };
        if let Some(git_dir) = variable("AYNIG_GIT_DIR")
            && !same_place(Path::new(&git_dir), repo.common_dir())
        {
            return Ok(None);
        }
        let branch = BranchName::new(branch.as_bytes())
            .map_err(|error| Error::usage(format!("the variable AYNIG_BRANCH: {error}")))?;
        let run = variable("AYNIG_RUN_ID").map(|run| BString::from(run.as_bytes()));
        let remote = match variable("AYNIG_REMOTE") {
            None => None,
            Some(name) => Some(
                RemoteName::parse(name.as_bytes())
                    .map_err(|error| Error::usage(format!("the variable AYNIG_REMOTE: {error}")))?,
            ),
        };
        Ok(Some(Self { branch, run, remote, worktree: variable("WORKTREE_PATH").map(PathBuf::from) }))
    }
}

/// The attempt whose command, or whose notification, called this process: in any repository, since two that
/// call each other are a loop as well.
pub(crate) fn attempt_around() -> Option<BString> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let run = variable("AYNIG_RUN_ID").or_else(|| {
        let notice = variable("AYNIG_NOTICE_EVENT")?;
        Some(variable("AYNIG_NOTICE_RUN_ID").unwrap_or(notice))
    })?;
    let id = AttemptId::parse(run.as_bytes()).map(|id| id.to_string());
    Some(id.unwrap_or_else(|| "unknown".to_owned()).into())
}
