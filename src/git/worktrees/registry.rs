//! Who is on the repository's list of worktrees, and how one gets on it and off again.
//!
//! Invariant: whoever reads the list (git itself, on behalf of anybody) finds each worktree of ours on it whole or not at
//! all: a registration is made complete beside the list and renamed into it, its mark and our lock on that with it, and is
//! renamed out of it before it is taken apart. Git's own `worktree add` makes one piece by piece, over which a `git fetch` or a `git
//! gc` at the same moment stumbles. The layout is gitrepository-layout(5)'s.
//!
//! Changes are serialised on a host by a lock on our own directory below the common one. What a process left that died
//! in between, the next one clears away.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use bstr::ByteSlice;

use crate::contract::ids::CommitId;
use crate::contract::layout::Own;
use crate::fsutil;
use crate::fsutil::{DirLock, FileLock};
use crate::git::process::call::Git;
use crate::git::repo::open::Repo;
use crate::git::worktrees::directory::occupied;
use crate::git::worktrees::error::{WorktreeError, files};
use crate::git::worktrees::registration::{
    Checkout, Mark, Owner, Registered, Workplace, branch_in_progress, head_branch, head_on, named_by,
};

/// How long to wait for other runners on this host. They hold the registry for moments, but while git itself adds or removes
/// a worktree, which takes its time for a large one; and one that was stopped holds it for ever.
const REGISTRY_PATIENCE: Duration = Duration::from_secs(300);

/// More than any path has bytes.
const LONGEST_PATH: u64 = 65_536;

/// How often to try again when git removes the empty list at the same moment.
const TRIES: u32 = 10;

/// The right to change the registry of worktrees, until dropped.
#[derive(Debug)]
pub(crate) struct Registry<'a> {
    _host: DirLock,
    _process: MutexGuard<'a, ()>,
}

impl Repo {
    /// Serialises changes of the worktree registry on this host, until dropped.
    pub(crate) fn registry_lock(&self) -> Result<Registry<'_>, WorktreeError> {
        // Threads of one process queue here, and wake each other; only other processes are waited for by looking.
        let turn = self.registry_turns().lock().unwrap_or_else(PoisonError::into_inner);
        let directory = self.state_dir().map_err(files("make", self.common_dir()))?;
        let host = DirLock::acquire(&directory, REGISTRY_PATIENCE).map_err(files("lock", &directory))?;
        let registry = Registry { _host: host, _process: turn };
        if self.is_half_registered() {
            self.clear_half_registered(&registry)?;
        }
        Ok(registry)
    }

    /// All linked worktrees, ours and others'.
    pub fn linked_worktrees(&self) -> Result<Vec<Registered>, WorktreeError> {
        self.registered(|git_dir| Some(owner_of(git_dir)))
    }

    /// Those that are ours: of others' nothing is read but whether they are.
    pub(crate) fn owned_worktrees(&self) -> Result<Vec<Registered>, WorktreeError> {
        self.registered(|git_dir| owner_of(git_dir).map(Some))
    }

    /// Whether a worktree is registered at `path`.
    pub(crate) fn is_registered(&self, path: &Path) -> Result<bool, WorktreeError> {
        let link = path.join(".git");
        let mut all = self.registrations()?.into_iter();
        Ok(all.any(|git_dir| named_by(&git_dir.join("gitdir")).is_some_and(|named| named == link)))
    }

    /// The worktrees that `owner` says something of: whose they are, if they are ours.
    fn registered(
        &self,
        owner: impl Fn(&Path) -> Option<Option<Owner>>,
    ) -> Result<Vec<Registered>, WorktreeError> {
        let mut found = Vec::new();
        for git_dir in self.registrations()? {
            let Some(owner) = owner(&git_dir) else { continue };
            // Git may be removing it this moment: what cannot be read is not there.
            let dot_git = named_by(&git_dir.join("gitdir")).filter(|named| named.ends_with(".git"));
            let Some(path) = dot_git.as_deref().and_then(Path::parent).map(Path::to_owned) else { continue };
            let branch = branch_in_progress(&git_dir).or_else(|| head_branch(&git_dir));
            let checkout = Checkout { place: Workplace { path, git_dir }, branch };
            found.push(Registered { checkout, owner });
        }
        found.sort_by(|a, b| a.checkout.path.cmp(&b.checkout.path));
        Ok(found)
    }

    fn registrations(&self) -> Result<Vec<PathBuf>, WorktreeError> {
        let list = self.common_dir().join("worktrees");
        match std::fs::read_dir(&list) {
            Ok(entries) => entries.map(|entry| Ok(entry.map_err(files("list", &list))?.path())).collect(),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(files("list", &list)(error)),
        }
    }

    /// Whether a process died while it changed the registry, or is about to change it now.
    pub(crate) fn is_half_registered(&self) -> bool {
        self.beside().symlink_metadata().is_ok()
    }

    /// Whether the registry can be changed, as far as that can be told without a change; asked before anything is claimed.
    pub(crate) fn check_registry(&self) -> Result<(), WorktreeError> {
        if self.is_half_registered() { self.registry_lock().map(drop) } else { Ok(()) }
    }

    fn beside(&self) -> PathBuf {
        Own::Registering.within(self.common_dir())
    }

    fn clear_half_registered(&self, _registry: &Registry<'_>) -> Result<(), WorktreeError> {
        let beside = self.beside();
        if !beside.symlink_metadata().is_ok_and(|found| found.is_dir()) {
            // Not made here, and never followed.
            return std::fs::remove_file(&beside).map_err(files("remove", &beside));
        }
        // Somebody else may have made this: nothing in it is waited for.
        let read = |name: &str| {
            fsutil::open_plain(&beside.join(name)).and_then(|file| fsutil::tail_of(&file, LONGEST_PATH))
        };
        // A worktree is made once its mark is there; without one there is none to look for.
        let ours = read("locked").is_ok_and(|text| Owner::parse(&text).is_some());
        if ours
            && let Ok(link) = read("gitdir")
            && let Some(path) = Path::new(OsStr::from_bytes(link.trim())).parent()
            && let Err(error) = std::fs::remove_dir(path)
        {
            // Nothing but an empty directory can have been left there.
            tracing::debug!(path = %path.display(), %error, "no empty worktree was left");
        }
        fsutil::remove_all(&beside).map_err(files("remove", &beside))
    }

    /// Makes the empty worktree `path`, whose parent exists, and puts it on the list, marked and held by us: its registration,
    /// and our hold. HEAD is the mark's branch when `attached`, else `commit`.
    pub(crate) fn register(
        &self,
        registry: &Registry<'_>,
        path: &Path,
        mark: &Mark,
        commit: CommitId,
        attached: bool,
    ) -> Result<(PathBuf, FileLock), WorktreeError> {
        if self.only_git_can_register() {
            return self.register_by_git(registry, path, mark, commit, attached);
        }
        let (beside, list) = (self.beside(), self.common_dir().join("worktrees"));
        std::fs::create_dir(&beside).map_err(files("make", &beside))?;
        let link = path.join(".git");
        let written = |name: &str, text: &[u8]| {
            let file = beside.join(name);
            fsutil::create(&file, text).map_err(files("write", &file))
        };
        written("gitdir", &[link.as_os_str().as_bytes(), b"\n"].concat())?;
        written("commondir", b"../..\n")?;
        let head = if attached { head_on(&mark.branch) } else { format!("{commit}\n").into() };
        written("HEAD", &head)?;
        // What a command commits is told from what was there by this log.
        let logs = beside.join("logs");
        let line = self.first_of_head_log(commit, "aynig: a worktree").map_err(files("write", &logs))?;
        std::fs::create_dir(&logs).map_err(files("make", &logs))?;
        written("logs/HEAD", &line)?;
        let locked = beside.join("locked");
        let held = FileLock::replace(&locked, &Owner::Attempt(mark.clone()).text())
            .map_err(files("write", &locked))?;
        make_empty(path).map_err(files("make", path))?;
        crate::crashpoint::reach(crate::crashpoint::Point::WorktreeDrafted);
        // A name of its own: git's numbers would have to be fought for with git.
        let git_dir = list.join(format!("aynig-{}", mark.attempt));
        let mut tries = 0;
        loop {
            std::fs::create_dir_all(&list).map_err(files("make", &list))?;
            match std::fs::rename(&beside, &git_dir) {
                Ok(()) => break,
                // Git removes the list with the last on it.
                Err(error) if error.kind() == ErrorKind::NotFound && tries < TRIES => tries += 1,
                // Somebody has the list on another file system.
                Err(error) if error.kind() == ErrorKind::CrossesDevices => {
                    drop(held);
                    self.clear_half_registered(registry)?;
                    return self.register_by_git(registry, path, mark, commit, attached);
                }
                Err(error) => return Err(files("register", path)(error)),
            }
        }
        crate::crashpoint::reach(crate::crashpoint::Point::WorktreeRegistered);
        let text = [b"gitdir: ", git_dir.as_os_str().as_bytes(), b"\n"].concat();
        fsutil::create(&link, &text).map_err(files("write", &link))?;
        Ok((git_dir, held))
    }

    /// Whether a new worktree gets more than the four files: a part of the configuration, which paths it has, or other
    /// permissions. How that is done is git's to know.
    fn only_git_can_register(&self) -> bool {
        let shared = self.config("core.sharedRepository").unwrap_or_default();
        self.config_flag("extensions.worktreeConfig")
            || self.config_flag("core.sparseCheckout")
            || !["", "umask", "false", "no", "off", "0"].contains(&shared.to_lowercase().as_str())
    }

    fn register_by_git(
        &self,
        _registry: &Registry<'_>,
        path: &Path,
        mark: &Mark,
        commit: CommitId,
        attached: bool,
    ) -> Result<(PathBuf, FileLock), WorktreeError> {
        let add = || {
            Git::shared(self.common_dir())
                // Else it has as few files as a person may have chosen for their own: without a list of them it has all.
                .args(["-c", "core.sparseCheckout=false"])
                .args(["worktree", "add", "--quiet", "--detach", "--no-checkout", "--lock", "--reason"])
                .arg(OsStr::from_bytes(&Owner::Attempt(mark.clone()).text()))
                .arg("--")
                .arg(path)
                .arg(commit.to_string())
                .run()
        };
        // A `git gc` at this moment may take the half-made registration for a leftover and prune it; git then
        // undoes what it had made.
        add().or_else(|_| add()).or_else(|_| add())?;
        let dot_git = path.join(".git");
        let text = std::fs::read(&dot_git).map_err(files("read", &dot_git))?;
        let target = text.trim().strip_prefix(b"gitdir: ").unwrap_or_default();
        let git_dir = path.join(OsStr::from_bytes(target)).canonicalize().map_err(files("find", &dot_git))?;
        let file = git_dir.join("locked");
        // Waiting, since a scan may be trying this very lock to see whether we live.
        let held = FileLock::acquire(&file).map_err(files("lock", &file))?;
        if attached {
            let place = Workplace { path: path.to_owned(), git_dir: git_dir.clone() };
            place.attach(&mark.branch).map_err(files("attach", &git_dir))?;
        }
        Ok((git_dir, held))
    }

    /// Takes a worktree whose files are gone off the list.
    pub(crate) fn unregister(&self, _registry: &Registry<'_>, git_dir: &Path) -> Result<(), WorktreeError> {
        let beside = self.beside();
        match std::fs::rename(git_dir, &beside) {
            Ok(()) => {
                crate::crashpoint::reach(crate::crashpoint::Point::Unregistered);
                fsutil::remove_all(&beside).map_err(files("remove", &beside))?;
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            // Another file system, or a layer of one: then piece by piece, as git does it.
            Err(error) if error.kind() == ErrorKind::CrossesDevices => {
                fsutil::remove_all(git_dir).map_err(files("remove", git_dir))?;
            }
            Err(error) => return Err(files("remove", git_dir)(error)),
        }
        // Git's own habit; it fails while there are others.
        drop(std::fs::remove_dir(self.common_dir().join("worktrees")));
        Ok(())
    }
}

/// Whose a registered worktree is; none if it is not ours.
fn owner_of(git_dir: &Path) -> Option<Owner> {
    std::fs::read(git_dir.join("locked")).ok().and_then(|text| Owner::parse(&text))
}

/// Makes a directory, or takes an empty one that is there.
fn make_empty(path: &Path) -> std::io::Result<()> {
    match std::fs::create_dir(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() && !occupied(path) => Ok(()),
        other => other,
    }
}
