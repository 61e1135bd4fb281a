//! Finds contents of a worktree that git does not show, although it does not ignore them.
//!
//! Invariant: git passes over each `.git` below the top, also in a directory with files of its own, and over all files in
//! the directory of a submodule that was not fetched. `git status` calls such a worktree clean, and no commit can hold
//! them. So they are looked for in the directories themselves (CONTRACT 9.7). Only reads, and follows no link.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::git::contents::ignored::ignored_of;
use crate::git::process::call::{Git, ProcessError};
use crate::git::repo::open::Repo;
use crate::git::worktrees::held::Worktree;

/// Contents that git passes over.
#[derive(Debug, Default, PartialEq, Eq)]
struct Hidden {
    /// The directories below the top that have a `.git`.
    repositories: BTreeSet<PathBuf>,
    /// The files in directories of submodules that are not there.
    strays: BTreeSet<PathBuf>,
}

impl Repo {
    /// The contents of a worktree that git does not show, in words. What git ignores does not count, nor does a submodule
    /// that is there.
    pub(crate) fn hidden_contents(&self, worktree: &Worktree) -> Result<Vec<String>, ProcessError> {
        if !worktree.path.is_dir() {
            return Ok(Vec::new());
        }
        let links = self.links_of(worktree)?.into_iter().map(|(path, _)| path).collect();
        let mut found = hidden(&worktree.path, &links, &|| worktree.git(["check-ignore"]))?;
        found.extend(unapplied(&worktree.git_dir).map(str::to_owned));
        Ok(found)
    }

    /// Ignored contents that git does not list: other repositories, and files in the directories of absent submodules.
    pub(super) fn ignored_hidden(
        &self,
        worktree: &Worktree,
    ) -> Result<(BTreeSet<PathBuf>, BTreeSet<PathBuf>), ProcessError> {
        let links = self.links_of(worktree)?.into_iter().map(|(path, _)| path).collect();
        let Hidden { repositories, strays } = look(&worktree.path, &links);
        let ignored = |paths| ignored_of(&|| worktree.git(["check-ignore", "--no-index"]), paths);
        Ok((ignored(&repositories)?, ignored(&strays)?))
    }
}

/// The patches that a `git am` in progress keeps in a private git directory, in words. No commit has them.
pub(super) fn unapplied(git_dir: &Path) -> Option<&'static str> {
    let is_begun = git_dir.join("rebase-apply/applying").symlink_metadata().is_ok();
    is_begun.then_some("patches of `git am` that are not applied")
}

/// The hidden contents of the worktree at `top`, which has these submodules.
pub(super) fn hidden(
    top: &Path,
    links: &BTreeSet<PathBuf>,
    check_ignore: &dyn Fn() -> Git,
) -> Result<Vec<String>, ProcessError> {
    let Hidden { mut repositories, mut strays } = look(top, links);
    // With the index, git refuses paths in a submodule.
    let ignored = |paths| ignored_of(&|| check_ignore().args(["--no-index"]), paths);
    let (ignored_repositories, ignored_strays) = (ignored(&repositories)?, ignored(&strays)?);
    repositories.retain(|path| !ignored_repositories.contains(path));
    strays.retain(|path| !ignored_strays.contains(path));
    let of_strays = links.iter().filter(|link| strays.iter().any(|stray| stray.starts_with(link)));
    let strays = of_strays.map(|path| format!("files in {}, where a submodule belongs", path.display()));
    let repositories = repositories.iter().map(|path| format!("a repository in {}", path.display()));
    Ok(repositories.chain(strays).collect())
}

/// Looks through the directories below `top`, of which `links` are submodules.
fn look(top: &Path, links: &BTreeSet<PathBuf>) -> Hidden {
    let mut hidden = Hidden::default();
    // With whether it is in the directory of a submodule.
    let mut ahead = vec![(PathBuf::new(), false)];
    while let Some((below, is_inside)) = ahead.pop() {
        let is_top = below.as_os_str().is_empty();
        let is_inside = is_inside || (!links.is_empty() && links.contains(&below));
        let directories = ahead.len();
        for entry in std::fs::read_dir(top.join(&below)).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if name == OsStr::new(".git") {
                if is_top {
                    continue;
                }
                // It is another repository, or a submodule that is there. What was found in it so far belongs to that.
                ahead.truncate(directories);
                hidden.strays.retain(|stray| stray.parent() != Some(&below));
                if !links.contains(&below) {
                    hidden.repositories.insert(below.clone());
                }
                break;
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                ahead.push((below.join(name), is_inside));
            } else if is_inside {
                hidden.strays.insert(below.join(name));
            }
        }
    }
    hidden
}
