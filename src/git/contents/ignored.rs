//! Files that git ignores in the main checkout and that a list in gitignore syntax selects
//! (CONTRACT 9.16).
//!
//! Invariant: git itself interprets the patterns and decides what is ignored. Tracked files,
//! untracked files that are not ignored, and files in nested repositories are never included.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::contract::ids::CommitId;
use crate::git::objects::extract::ExtractError;
use crate::git::process::call::{Git, ProcessError};
use crate::git::repo::open::Repo;
use crate::git::worktrees::held::Worktree;
use crate::git::worktrees::registration::Checkout;

impl Repo {
    /// The files of `checkout` that git ignores and that match the patterns in the file `list`,
    /// relative to its top.
    pub(crate) fn ignored_and_listed(
        &self,
        checkout: &Checkout,
        list: &Path,
    ) -> Result<BTreeSet<PathBuf>, ProcessError> {
        let others = || {
            Git::inside(&checkout.path, &checkout.git_dir).args(["ls-files", "-z", "--others", "--ignored"])
        };
        let mut from = std::ffi::OsString::from("--exclude-from=");
        from.push(list);
        let mut listed = paths(&others().arg(from).run()?.stdout);
        if !listed.is_empty() {
            let ignored = paths(&others().arg("--exclude-standard").run()?.stdout);
            listed.retain(|path| ignored.contains(path));
        }
        Ok(listed)
    }

    /// The files that git ignores in a worktree, and their size in bytes.
    pub(crate) fn ignored_use(&self, worktree: &Worktree) -> Result<(BTreeSet<PathBuf>, u64), ProcessError> {
        let (ignored, _) = self.ignored_files(worktree)?;
        let size =
            |path: &PathBuf| worktree.path.join(path).symlink_metadata().map_or(0, |found| found.len());
        let bytes = ignored.iter().map(size).sum();
        Ok((ignored, bytes))
    }

    /// The files that git ignores in a worktree, and whether it ignores other repositories besides.
    pub(crate) fn ignored_files(
        &self,
        worktree: &Worktree,
    ) -> Result<(BTreeSet<PathBuf>, bool), ProcessError> {
        let listed =
            worktree.git(["ls-files", "-z", "--others", "--ignored", "--exclude-standard"]).run()?.stdout;
        let has_others = listed.split(|byte| *byte == 0).any(|path| path.ends_with(b"/"));
        Ok((paths(&listed), has_others))
    }

    /// The number of files and other repositories that git ignores in a worktree, but that neither the `.gitignore`
    /// files of `commit` nor settings of the user or the system ignore. Whatever works in a worktree can write to the
    /// repository's own lists, so they do not count.
    pub(crate) fn ignored_beyond(
        &self,
        worktree: &Worktree,
        commit: CommitId,
    ) -> Result<usize, ExtractError> {
        let listed =
            worktree.git(["ls-files", "-z", "--others", "--ignored", "--exclude-standard"]).run()?.stdout;
        let asked = || listed.split(|byte| *byte == 0).filter(|path| !path.is_empty());
        if asked().next().is_none() {
            return Ok(0);
        }
        let failed = |source| ExtractError::Write { path: "a directory of its own".to_owned(), source };
        let room = tempfile::tempdir().map_err(failed)?;
        Git::new(room.path()).args(["init", "--quiet", "--template="]).run()?;
        self.extract_named(commit, ".gitignore", room.path())?;
        let input: Vec<u8> = asked().flat_map(|path| [b"./", path, b"\0"].concat()).collect();
        let answer = Git::new(room.path()).args(["check-ignore", "--no-index", "-z", "--stdin"]);
        let answer = answer.stdin(input).run_unchecked()?.stdout;
        Ok(asked().count().saturating_sub(answer.iter().filter(|byte| **byte == 0).count()))
    }

    /// Returns those of `asked` that git ignores in a worktree. A path must not lead through a
    /// symbolic link there.
    pub(crate) fn ignored_in(
        &self,
        worktree: &Worktree,
        asked: &BTreeSet<PathBuf>,
    ) -> Result<BTreeSet<PathBuf>, ProcessError> {
        ignored_of(&|| worktree.git(["check-ignore"]), asked)
    }
}

/// Those of `asked` that git ignores, by a call of `git check-ignore`. A path must not lead through a symbolic link.
pub(super) fn ignored_of(
    check_ignore: &dyn Fn() -> Git,
    asked: &BTreeSet<PathBuf>,
) -> Result<BTreeSet<PathBuf>, ProcessError> {
    if asked.is_empty() {
        return Ok(BTreeSet::new());
    }
    let mut input = Vec::new();
    for path in asked {
        // Prevents a name that begins with `:` from being read as pathspec magic.
        input.extend_from_slice(b"./");
        input.extend_from_slice(path.as_os_str().as_bytes());
        input.push(0);
    }
    let call = || check_ignore().args(["-z", "--stdin"]).stdin(input.clone());
    let output = call().run_unchecked()?;
    match output.status.code() {
        Some(0) => Ok(paths(&output.stdout)),
        Some(1) => Ok(BTreeSet::new()),
        // Repeats the call for its error.
        Some(_) | None => call().run().map(|output| paths(&output.stdout)),
    }
}

/// Parses paths from output with `-z`; leaves out directories, which are other repositories.
fn paths(answer: &[u8]) -> BTreeSet<PathBuf> {
    answer
        .split(|byte| *byte == 0)
        .map(|path| path.strip_prefix(b"./").unwrap_or(path))
        .filter(|path| !path.is_empty() && !path.ends_with(b"/"))
        .map(|path| PathBuf::from(OsStr::from_bytes(path)))
        .collect()
}
