//! A checkout as git registers it: its directory, its private git directory, and the owner of a
//! linked worktree.
//!
//! Invariant: a linked worktree is ours only if its registration is locked and the reason of the
//! lock is the text of an [`Owner`] (CONTRACT 9.2). `git worktree list --verbose` shows it, and
//! `git worktree prune` never removes such a worktree. The registration's `gitdir` and the
//! worktree's `.git` name each other; only if both do so do they count as belonging together
//! (gitrepository-layout(5)).

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::ops::Deref;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bstr::{BString, ByteSlice};

use crate::clock;
use crate::contract::ids::{AttemptId, BranchName, CommitId, RemoteName};
use crate::fsutil;
use crate::git::process::call::{Git, ProcessError};
use crate::git::refs::file::end;

const ATTEMPT: &[u8] = b"aynig attempt ";
const KEPT: &[u8] = b"aynig kept from attempt ";
const WORKSPACE: &[u8] = b"aynig workspace of run ";
const POOL: &[u8] = b"aynig pool: clean, kept for a next step (git config aynig.pool 0 turns this off)";

const SPARE: &[u8] = b"aynig spare: clean, goes to the next step of a run under way";

/// Files that name the branch that a rebase moves.
const REBASED: [&str; 2] = ["rebase-merge/head-name", "rebase-apply/head-name"];

/// The file that names the branches that `rebase --update-refs` moves besides.
const UPDATED: &str = "rebase-merge/update-refs";

/// The file that names the branch, or the commit, that a bisect returns to.
const BISECTED: &str = "BISECT_START";

/// How often a HEAD is read that is empty, and how long to wait before.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(5);

/// A working directory, and the private git directory of that checkout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workplace {
    /// The top directory, absolute.
    pub path: PathBuf,
    /// The checkout's own git directory: `.git`, or the registration below `.git/worktrees/`.
    pub git_dir: PathBuf,
}

/// One working tree and the branch it has checked out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkout {
    pub(crate) place: Workplace,
    /// The branch it is on, also during a rebase or bisect; `None` if HEAD is detached.
    pub branch: Option<BranchName>,
}

/// A linked worktree as git has registered it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered {
    /// Its directories and branch.
    pub checkout: Checkout,
    /// Its owner; `None` if it is not ours.
    pub(crate) owner: Option<Owner>,
}

/// A file of a checkout that cannot be read. Any branch may be in use there.
#[derive(Debug)]
pub struct Unread {
    pub(crate) file: PathBuf,
    pub(crate) source: std::io::Error,
}

/// The owner of one of our worktrees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Owner {
    /// An attempt, running or abandoned.
    Attempt(Mark),
    /// The user: its contents could not be saved.
    Kept {
        /// The attempt it was made for.
        attempt: AttemptId,
        /// Why it was left.
        why: String,
    },
    /// A run, for as long as it lasts (CONTRACT 15.2). The attempt of its mark is the run's id.
    Workspace(Mark),
    /// The pool of clean worktrees.
    Pool,
    /// A run in progress, for its next step.
    Spare,
}

/// An attempt's claim to a worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The attempt.
    pub attempt: AttemptId,
    /// The attempt's branch.
    pub branch: BranchName,
    /// The remote whose branch it is; `None` for a local one.
    pub remote: Option<RemoteName>,
}

impl Deref for Checkout {
    type Target = Workplace;

    fn deref(&self) -> &Workplace {
        &self.place
    }
}

impl Checkout {
    /// A checkout, with the branch that its files name.
    pub(crate) fn at(place: Workplace) -> Self {
        // A rebase may begin meanwhile.
        let in_progress = || branch_in_progress(&place.git_dir);
        let branch = in_progress().or_else(|| head_branch(&place.git_dir)).or_else(in_progress);
        Self { place, branch }
    }

    /// All branches that git counts as checked out here: that of HEAD, that to which a rebase or bisect returns, and those
    /// that `rebase --update-refs` moves.
    pub(crate) fn in_use(&self) -> Result<Vec<BranchName>, Unread> {
        // HEAD before and after: a rebase or bisect may begin or end meanwhile.
        let mut found: Vec<BranchName> = head_in(&self.place.git_dir)?.into_iter().collect();
        found.extend(in_progress(&self.place.git_dir)?);
        found.extend(head_in(&self.place.git_dir)?);
        Ok(found)
    }
}

impl Registered {
    /// All branches that are checked out there. A worktree of ours that cannot be read is set right by its owner, and in
    /// one that is gone nobody works.
    pub(crate) fn in_use(&self) -> Result<Vec<BranchName>, Unread> {
        match self.checkout.in_use() {
            Err(_) if self.owner.is_some() || self.checkout.path.symlink_metadata().is_err() => {
                Ok(self.checkout.branch.clone().into_iter().collect())
            }
            found => found,
        }
    }

    /// The attempt it belongs to; `None` for any other owner.
    pub fn mark(&self) -> Option<&Mark> {
        match &self.owner {
            Some(Owner::Attempt(mark)) => Some(mark),
            Some(Owner::Kept { .. } | Owner::Workspace(_) | Owner::Pool | Owner::Spare) | None => None,
        }
    }

    /// The run and the branch of a managed workspace; `None` for any other owner.
    pub(crate) fn workspace(&self) -> Option<&Mark> {
        match &self.owner {
            Some(Owner::Workspace(mark)) => Some(mark),
            Some(Owner::Kept { .. } | Owner::Attempt(_) | Owner::Pool | Owner::Spare) | None => None,
        }
    }
}

impl Owner {
    /// The reason of the worktree's lock.
    pub(crate) fn text(&self) -> BString {
        match self {
            Self::Attempt(Mark { attempt, branch, remote }) => {
                let mut text = [ATTEMPT, format!("{attempt} branch ").as_bytes(), branch.as_bstr()].concat();
                if let Some(remote) = remote {
                    text.extend_from_slice(format!(" remote {remote}").as_bytes());
                }
                text.into()
            }
            Self::Kept { attempt, why } => [KEPT, format!("{attempt}: {why}\n").as_bytes()].concat().into(),
            Self::Workspace(Mark { attempt, branch, .. }) => {
                [WORKSPACE, format!("{attempt} branch ").as_bytes(), branch.as_bstr()].concat().into()
            }
            Self::Pool => POOL.into(),
            Self::Spare => SPARE.into(),
        }
    }

    /// Parses the reason of a lock; `None` if it is not one of ours.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let text = text.trim();
        if text == POOL {
            return Some(Self::Pool);
        }
        if text == SPARE {
            return Some(Self::Spare);
        }
        if let Some(rest) = text.strip_prefix(KEPT) {
            let (attempt, why) = rest.split_once_str(": ")?;
            return Some(Self::Kept {
                attempt: AttemptId::parse(attempt)?,
                why: why.to_str_lossy().into_owned(),
            });
        }
        if let Some(rest) = text.strip_prefix(WORKSPACE) {
            let (run, branch) = rest.split_once_str(" branch ")?;
            let (attempt, branch) = (AttemptId::parse(run)?, BranchName::new(branch).ok()?);
            return Some(Self::Workspace(Mark { attempt, branch, remote: None }));
        }
        let (attempt, branch) = text.strip_prefix(ATTEMPT)?.split_once_str(" branch ")?;
        // Neither name can contain a space.
        let (branch, remote) = match branch.split_once_str(" remote ") {
            Some((branch, remote)) => (branch, Some(RemoteName::parse(remote).ok()?)),
            None => (branch, None),
        };
        let (attempt, branch) = (AttemptId::parse(attempt)?, BranchName::new(branch).ok()?);
        Some(Self::Attempt(Mark { attempt, branch, remote }))
    }
}

impl Workplace {
    /// A `git` call about this checkout, whatever a command did to its `.git` file.
    pub(crate) fn git<const N: usize>(&self, arguments: [&str; N]) -> Git {
        Git::inside(&self.path, &self.git_dir).args(arguments)
    }

    /// Writes the files and the index of a tree, over whatever is there.
    pub(crate) fn fill(&self, tree: CommitId) -> Result<(), ProcessError> {
        self.git(["read-tree", "--reset", "-u", "--no-recurse-submodules", &tree.to_string()]).run().map(drop)
    }

    /// The branch that HEAD is on; `None` if it is detached.
    pub(crate) fn branch(&self) -> Option<BranchName> {
        head_branch(&self.git_dir)
    }

    /// The commit of a detached HEAD; `None` if HEAD is on a branch.
    pub(crate) fn detached_at(&self) -> Option<CommitId> {
        let head = self.git_dir.join("HEAD");
        if linked_branch(&head).is_some() {
            return None;
        }
        CommitId::parse_hex(fsutil::read_plain(head).ok()?.trim())
    }

    /// Puts HEAD on a branch, without touching files or index.
    pub(crate) fn attach(&self, branch: &BranchName) -> std::io::Result<()> {
        fsutil::replace(&self.git_dir.join("HEAD"), &head_on(branch))
    }

    /// Detaches HEAD at a commit, without touching files or index.
    pub(crate) fn detach(&self, commit: CommitId) -> std::io::Result<()> {
        fsutil::replace(&self.git_dir.join("HEAD"), format!("{commit}\n").as_bytes())
    }

    /// Detaches HEAD. A rebase in progress continues without a branch, and a bisect ends at `commit`.
    pub(crate) fn let_go(&self, commit: CommitId) -> std::io::Result<()> {
        self.detach(commit)?;
        let end = format!("{commit}\n");
        // As git writes them for a HEAD that was detached.
        let texts = REBASED.map(|name| (name, "detached HEAD\n"));
        for (name, text) in texts.into_iter().chain([(UPDATED, ""), (BISECTED, &end)]) {
            let file = self.git_dir.join(name);
            if file.symlink_metadata().is_ok_and(|found| found.is_file()) {
                fsutil::replace(&file, text.as_bytes())?;
            }
        }
        Ok(())
    }

    /// Whether a repository was made at the top: its `.git` is then a directory, not the file that
    /// names ours.
    pub(crate) fn is_another_repository(&self) -> bool {
        self.path.join(".git").symlink_metadata().is_ok_and(|found| found.is_dir())
    }

    /// Whether the `.git` file names the registration.
    pub(crate) fn names_its_registration(&self) -> bool {
        let link = self.path.join(".git");
        let is_file = link.symlink_metadata().is_ok_and(|found| found.is_file());
        is_file && named_by(&link).is_some_and(|named| same_place(&named, &self.git_dir))
    }

    /// Whether the worktree names its registration, or no longer exists.
    pub(crate) fn is_linked_or_gone(&self) -> bool {
        self.path.symlink_metadata().is_err() || self.names_its_registration()
    }

    /// Whether the directory and the registration name each other, so that both can be removed.
    pub(crate) fn is_linked_both_ways(&self) -> bool {
        // The last component must be a directory and not a link; the components before it were
        // checked at its creation.
        self.path.symlink_metadata().is_ok_and(|found| found.is_dir())
            && self.names_its_registration()
            && named_by(&self.git_dir.join("gitdir")).is_some_and(|named| named == self.path.join(".git"))
    }

    /// Restores the `.git` file if a command removed or changed it: without it git does not remove
    /// a worktree.
    pub(crate) fn mend_link(&self) -> std::io::Result<()> {
        if self.is_another_repository() || self.names_its_registration() {
            return Ok(());
        }
        self.write_link()
    }

    /// Moves the worktree `from` here, into the pool, and gives its registration the name here: a
    /// process that its last step left behind may know the old name.
    ///
    /// Of the changes of place, the rename is first where a directory goes to the pool, and second
    /// where it leaves the pool: after a crash it is where the registration says, or in the pool.
    /// The registration is renamed last: until then it says that the directory is in the pool, even
    /// if that no longer names it.
    pub(crate) fn shelve(&self, from: &Self) -> std::io::Result<()> {
        std::fs::rename(&from.path, &self.path)?;
        Self { path: self.path.clone(), git_dir: from.git_dir.clone() }.write_back_link()?;
        self.renew_link()?;
        crate::crashpoint::reach(crate::crashpoint::Point::PoolRelinked);
        std::fs::rename(&from.git_dir, &self.git_dir)
    }

    /// Moves the worktree's directory here from `path` in the pool, and updates the registration.
    /// The `.git` file is unchanged. After an error the directory may still be in the pool.
    pub(crate) fn come_out_of_pool(&self, path: &Path) -> std::io::Result<()> {
        self.write_back_link()?;
        std::fs::rename(path, &self.path)
    }

    /// Replaces the `.git` file by a new one, so that its permissions are ours as well.
    pub(crate) fn renew_link(&self) -> std::io::Result<()> {
        std::fs::remove_file(self.path.join(".git"))?;
        self.write_link()
    }

    /// Writes the registration's `gitdir` file.
    pub(crate) fn write_back_link(&self) -> std::io::Result<()> {
        let line = [self.path.join(".git").as_os_str().as_bytes(), b"\n"].concat();
        fsutil::replace(&self.git_dir.join("gitdir"), &line)
    }

    /// Whether the `.git` file is to the byte what [`Workplace::write_link`] writes. Another text
    /// may lead to the registration too, but through a link, or from this place only.
    pub(crate) fn has_our_link(&self) -> bool {
        fsutil::read_plain(self.path.join(".git")).is_ok_and(|text| text == self.link())
    }

    fn link(&self) -> Vec<u8> {
        [b"gitdir: ", self.git_dir.as_os_str().as_bytes(), b"\n"].concat()
    }

    pub(crate) fn write_link(&self) -> std::io::Result<()> {
        fsutil::replace(&self.path.join(".git"), &self.link())
    }
}

/// The path in a file `gitdir` or `.git`, which may be relative to the file's directory. `None` if
/// a crash of the host left the file empty or half written.
pub(crate) fn named_by(file: &Path) -> Option<PathBuf> {
    let text = fsutil::read_plain(file).ok()?;
    let text = text.trim();
    let named = Path::new(OsStr::from_bytes(text.strip_prefix(b"gitdir: ").unwrap_or(text)));
    (!named.as_os_str().is_empty()).then(|| plain(&file.parent().unwrap_or(file).join(named)))
}

/// Removes `.` and `..` from a path, which must not lead through links.
pub(crate) fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => drop(plain.pop()),
            std::path::Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

/// Whether two paths lead to the same place.
pub(crate) fn same_place(one: &Path, other: &Path) -> bool {
    one == other || matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

/// The branch that the `HEAD` file in `git_dir` leads to; `None` if detached or unreadable. A branch that is a symbolic ref
/// is the one at its end: what moves that moves this checkout.
pub(crate) fn head_branch(git_dir: &Path) -> Option<BranchName> {
    head_in(git_dir).ok().flatten()
}

fn head_in(git_dir: &Path) -> Result<Option<BranchName>, Unread> {
    let file = git_dir.join("HEAD");
    // Git makes a link to the name of the branch if core.preferSymlinkRefs is set.
    let named: BString = match linked_branch(&file) {
        Some(branch) => branch.full_ref(),
        None => {
            let Some(text) = written(&file)? else { return Ok(None) };
            match text.strip_prefix(b"ref:") {
                Some(name) => name.trim().into(),
                None if CommitId::parse_hex(text.trim()).is_some() => return Ok(None),
                None => {
                    let source = std::io::Error::other("it names neither a commit nor a branch");
                    return Err(Unread { file, source });
                }
            }
        }
    };
    let branch = BranchName::from_full_ref(end(&shared_by(git_dir), named.as_bstr()).as_bstr());
    Ok(branch.or_else(|| BranchName::from_full_ref(named.as_bstr())))
}

/// The content of a file that git makes empty, and then writes.
fn written(file: &Path) -> Result<Option<Vec<u8>>, Unread> {
    let mut text = read_if_there(file)?;
    for _ in 1..TRIES {
        if text.as_ref().is_none_or(|text| !text.is_empty()) {
            break;
        }
        clock::pause(PAUSE);
        text = read_if_there(file)?;
    }
    Ok(text)
}

fn read_if_there(file: &Path) -> Result<Option<Vec<u8>>, Unread> {
    match fsutil::read_plain(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(source) => Err(Unread { file: file.to_owned(), source }),
    }
}

/// The shared git directory of a git directory.
pub(crate) fn shared_by(git_dir: &Path) -> PathBuf {
    match fsutil::read_plain_text(git_dir.join("commondir")) {
        Ok(relative) => git_dir.join(relative.trim_end()),
        Err(_) => git_dir.to_owned(),
    }
}

fn linked_branch(head: &Path) -> Option<BranchName> {
    BranchName::from_full_ref(std::fs::read_link(head).ok()?.as_os_str().as_bytes().as_bstr())
}

/// The branch that a rebase or bisect in `git_dir` will return to: git treats it as checked out.
pub(crate) fn branch_in_progress(git_dir: &Path) -> Option<BranchName> {
    in_progress(git_dir).ok()?.into_iter().next()
}

/// The branches that a rebase or a bisect in `git_dir` moves or returns to, those of `rebase --update-refs` last.
fn in_progress(git_dir: &Path) -> Result<Vec<BranchName>, Unread> {
    let mut found = Vec::new();
    for name in REBASED {
        let text = read_if_there(&git_dir.join(name))?.unwrap_or_default();
        found.extend(BranchName::from_full_ref(text.trim().as_bstr()));
    }
    let start = read_if_there(&git_dir.join(BISECTED))?.unwrap_or_default();
    found.extend(BranchName::new(start.trim()).ok());
    let others = read_if_there(&git_dir.join(UPDATED))?.unwrap_or_default();
    found.extend(others.lines().filter_map(|line| BranchName::from_full_ref(line.trim().as_bstr())));
    Ok(found)
}

/// The contents of a `HEAD` file that is on a branch.
pub(crate) fn head_on(branch: &BranchName) -> BString {
    [b"ref: ", branch.full_ref().as_slice(), b"\n"].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CONTRACT 9.2, 9.7, 9.12, 9.15
    #[test]
    fn what_an_owner_writes_reads_back() {
        let attempt = AttemptId::random();
        let branch = BranchName::new("feat/a").unwrap();
        let remote = Some(RemoteName::parse("origin").unwrap());
        for owner in [
            Owner::Attempt(Mark { attempt, branch: branch.clone(), remote: None }),
            Owner::Attempt(Mark { attempt, branch: branch.clone(), remote }),
            Owner::Workspace(Mark { attempt, branch, remote: None }),
            Owner::Kept { attempt, why: "it holds: other repositories".to_owned() },
            Owner::Pool,
            Owner::Spare,
        ] {
            assert_eq!(Owner::parse(&owner.text()), Some(owner));
        }
        for text in ["", "on a removable disk", "aynig kept from attempt x: y", "aynig attempt x branch y"] {
            assert_eq!(Owner::parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn the_two_files_name_each_other_or_not() {
        let scratch = tempfile::tempdir().unwrap();
        let scratch = scratch.path().canonicalize().unwrap();
        let place = Workplace { path: scratch.join("w"), git_dir: scratch.join("r/worktrees/w") };
        std::fs::create_dir_all(&place.path).unwrap();
        std::fs::create_dir_all(&place.git_dir).unwrap();
        let back = |text: &str| fsutil::replace(&place.git_dir.join("gitdir"), text.as_bytes()).unwrap();
        assert!(!place.names_its_registration() && !place.is_linked_both_ways());
        place.mend_link().unwrap();
        assert!(place.names_its_registration() && !place.is_linked_both_ways());
        back(&format!("{}/w/.git\n", scratch.display()));
        assert!(place.is_linked_both_ways());
        // Relative paths, as `worktree.useRelativePaths` writes them.
        back("../../../w/.git\n");
        fsutil::replace(&place.path.join(".git"), b"gitdir: ../r/worktrees/w\n").unwrap();
        assert!(place.is_linked_both_ways());
        back("\n");
        assert!(!place.is_linked_both_ways());
    }
}
