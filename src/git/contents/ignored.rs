//! The ignored contents of a checkout: files of the main checkout that a list in gitignore syntax selects (CONTRACT 9.16),
//! and contents that go with a worktree (CONTRACT 15.7).
//!
//! Invariant: git itself interprets the patterns and decides what is ignored. Tracked files and untracked files that are
//! not ignored are never included, nor are the files of a nested repository one by one.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::contract::ids::CommitId;
use crate::fsutil::disk_use;
use crate::git::objects::extract::ExtractError;
use crate::git::process::call::{Git, ProcessError};
use crate::git::repo::open::Repo;
use crate::git::worktrees::held::Worktree;
use crate::git::worktrees::registration::Checkout;
use crate::words::pluralize;

/// The call of git that lists ignored files.
const LISTED: [&str; 5] = ["ls-files", "-z", "--others", "--ignored", "--exclude-standard"];

/// The ignored contents of a worktree. The paths are relative to its top.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Ignored {
    /// Files.
    pub(crate) files: BTreeSet<PathBuf>,
    /// The directories of other repositories.
    pub(crate) repositories: BTreeSet<PathBuf>,
}

/// The number and the size of the ignored contents of a worktree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IgnoredUse {
    /// The number of files outside of other repositories.
    pub files: usize,
    /// The number of other repositories.
    pub repositories: usize,
    /// The size of the files, and the disk use of the repositories, in bytes.
    pub bytes: u64,
}

impl Ignored {
    /// Adds the output of `git ls-files -z` in the directory `below`.
    fn add(&mut self, below: &Path, listed: &[u8]) {
        for path in entries(listed) {
            match path.strip_suffix(b"/") {
                Some(path) => self.repositories.insert(below.join(OsStr::from_bytes(path))),
                None => self.files.insert(below.join(OsStr::from_bytes(path))),
            };
        }
    }

    /// Its number and size in the worktree at `top`.
    pub(crate) fn used(&self, top: &Path) -> IgnoredUse {
        let size = |path: &PathBuf| top.join(path).symlink_metadata().map_or(0, |found| found.len());
        let repositories = self.repositories.iter().map(|path| disk_use(&top.join(path)));
        let bytes = self.files.iter().map(size).chain(repositories).sum();
        IgnoredUse { files: self.files.len(), repositories: self.repositories.len(), bytes }
    }
}

impl IgnoredUse {
    /// Whether git ignores nothing there.
    pub fn is_empty(self) -> bool {
        self.files == 0 && self.repositories == 0
    }

    /// The numbers in words: `2 ignored files and 1 ignored repository`.
    pub fn words(self) -> String {
        let files = (self.files > 0).then(|| pluralize(self.files, "ignored file"));
        let repositories = match self.repositories {
            0 => None,
            1 => Some("1 ignored repository".to_owned()),
            many => Some(format!("{many} ignored repositories")),
        };
        files.into_iter().chain(repositories).collect::<Vec<_>>().join(" and ")
    }
}

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

    /// The ignored contents of a worktree, of its submodules, and of the directories of absent submodules.
    pub(crate) fn ignored(&self, worktree: &Worktree) -> Result<Ignored, ProcessError> {
        let mut found = self.ignored_outside(worktree)?;
        for below in self.submodules_there(worktree)? {
            found.add(&below, &Git::new(&worktree.path.join(&below)).args(LISTED).run()?.stdout);
        }
        Ok(found)
    }

    /// The ignored contents outside of submodules.
    fn ignored_outside(&self, worktree: &Worktree) -> Result<Ignored, ProcessError> {
        let mut found = Ignored::default();
        found.add(Path::new(""), &worktree.git(LISTED).run()?.stdout);
        let (repositories, strays) = self.ignored_hidden(worktree)?;
        // Git takes a damaged repository for a directory with files.
        found.files.retain(|path| !path.ancestors().any(|above| repositories.contains(above)));
        found.files.extend(strays);
        found.repositories.extend(repositories);
        Ok(found)
    }

    /// The number of files and other repositories that git ignores in a worktree, but that neither the `.gitignore`
    /// files of `commit`, or of its submodules, nor settings of the user or the system ignore. A process in a
    /// worktree can write to the repository's own lists, so they do not count.
    pub(crate) fn ignored_beyond(
        &self,
        worktree: &Worktree,
        commit: CommitId,
    ) -> Result<usize, ExtractError> {
        let mut beyond = 0;
        for below in self.submodules_there(worktree)? {
            beyond += beyond_in(&worktree.path.join(below))?;
        }
        let Ignored { files, repositories } = self.ignored_outside(worktree)?;
        let mut asked: Vec<Vec<u8>> = files.iter().map(|path| path.as_os_str().as_bytes().to_vec()).collect();
        asked.extend(repositories.iter().map(|path| [path.as_os_str().as_bytes(), b"/"].concat()));
        if asked.is_empty() {
            return Ok(beyond);
        }
        let asked: Vec<&[u8]> = asked.iter().map(Vec::as_slice).collect();
        let room = empty_repository()?;
        self.extract_named(commit, ".gitignore", room.path())?;
        Ok(beyond + asked.len().saturating_sub(number_ignored(room.path(), &asked)?))
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
    let input = input_of(&asked.iter().map(|path| path.as_os_str().as_bytes()).collect::<Vec<_>>());
    let call = || check_ignore().args(["-z", "--stdin"]).stdin(input.clone());
    let output = call().run_unchecked()?;
    match output.status.code() {
        Some(0) => Ok(paths(&output.stdout)),
        Some(1) => Ok(BTreeSet::new()),
        // Repeats the call for its error.
        Some(_) | None => call().run().map(|output| paths(&output.stdout)),
    }
}

/// The number of files and other repositories that git ignores in the submodule in `directory`, but that neither the
/// `.gitignore` files of its commit nor settings of the user or the system ignore. Nothing else in it is changed.
fn beyond_in(directory: &Path) -> Result<usize, ExtractError> {
    let git = || Git::new(directory);
    let listed = git().args(LISTED).run()?.stdout;
    let mut asked = entries(&listed);
    if asked.is_empty() {
        return Ok(0);
    }
    let tracked = paths(&git().args(["ls-files", "-z", "--", ":(glob)**/.gitignore"]).run()?.stdout);
    let answer = git().args(["check-ignore", "--verbose", "-z", "--stdin"]).stdin(input_of(&asked));
    let answer = answer.run_unchecked()?.stdout;
    // "<source> NUL <line> NUL <pattern> NUL <path> NUL"
    let fields: Vec<&[u8]> = answer.split(|byte| *byte == 0).collect();
    let is_of_commit = |source: &[u8]| tracked.contains(Path::new(OsStr::from_bytes(source)));
    let by_commit = fields.chunks_exact(4).filter(|chunk| is_of_commit(chunk[0]));
    let by_commit: BTreeSet<&[u8]> =
        by_commit.map(|chunk| chunk[3].strip_prefix(b"./").unwrap_or(chunk[3])).collect();
    asked.retain(|path| !by_commit.contains(path));
    Ok(asked.len().saturating_sub(number_ignored(empty_repository()?.path(), &asked)?))
}

/// A repository without anything in it, which only settings of the user and the system apply to.
fn empty_repository() -> Result<TempDir, ExtractError> {
    let failed = |source| ExtractError::Write { path: "a directory of its own".to_owned(), source };
    let room = tempfile::tempdir().map_err(failed)?;
    Git::new(room.path()).args(["init", "--quiet", "--template="]).run()?;
    Ok(room)
}

/// The number of those of `asked` that git ignores in the repository `room`.
fn number_ignored(room: &Path, asked: &[&[u8]]) -> Result<usize, ProcessError> {
    let answer = Git::new(room).args(["check-ignore", "--no-index", "-z", "--stdin"]).stdin(input_of(asked));
    Ok(entries(&answer.run_unchecked()?.stdout).len())
}

/// The paths as input for `git check-ignore -z --stdin`.
fn input_of(asked: &[&[u8]]) -> Vec<u8> {
    // Prevents a name that begins with `:` from being read as pathspec magic.
    asked.iter().flat_map(|path| [b"./", *path, b"\0"].concat()).collect()
}

/// The paths in output with `-z`.
fn entries(answer: &[u8]) -> Vec<&[u8]> {
    answer.split(|byte| *byte == 0).filter(|path| !path.is_empty()).collect()
}

/// Parses paths from output with `-z`; leaves out directories, which are other repositories.
fn paths(answer: &[u8]) -> BTreeSet<PathBuf> {
    entries(answer)
        .into_iter()
        .map(|path| path.strip_prefix(b"./").unwrap_or(path))
        .filter(|path| !path.ends_with(b"/"))
        .map(|path| PathBuf::from(OsStr::from_bytes(path)))
        .collect()
}
