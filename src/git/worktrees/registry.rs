//! The repository's list of worktrees, and how a worktree is added to it and removed from it.
//!
//! Invariant: any reader of the list, such as git itself, finds each of our worktrees on it
//! complete or not at all. A registration is completed beside the list, with its mark and our lock,
//! and then renamed into the list. It is renamed out of the list before it is removed. `git
//! worktree add` creates a registration piece by piece, and a concurrent `git fetch` or `git gc`
//! fails over a half-made one. The layout is that of gitrepository-layout(5).
//!
//! Changes are serialised on a host by a lock on the directory `aynig` in the common directory. The
//! next change cleans up after a process that died in between.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use bstr::ByteSlice;

use crate::contract::ids::{AttemptId, BranchName, CommitId};
use crate::contract::layout::Own;
use crate::fsutil;
use crate::fsutil::{DirLock, FileLock};
use crate::git::process::call::Git;
use crate::git::repo::open::Repo;
use crate::git::worktrees::directory::occupied;
use crate::git::worktrees::error::{WorktreeError, files};
use crate::git::worktrees::registration::{Checkout, Owner, Registered, Workplace, head_on, named_by};

/// How long to wait for other runners on this host. They hold the registry for moments only, except
/// while git itself adds or removes a large worktree. A stopped process holds it without end.
const REGISTRY_PATIENCE: Duration = Duration::from_secs(300);

/// Longer than any path, in bytes.
const LONGEST_PATH: u64 = 65_536;

/// How often to try again when git removes the empty list at the same moment.
const TRIES: u32 = 10;

/// A worktree that is to be registered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewWorktree<'a> {
    /// Its directory, which is made.
    pub(crate) path: &'a Path,
    /// Where it is to be when it is complete. The registration names this place.
    pub(crate) place: &'a Path,
    pub(crate) owner: &'a Owner,
    /// Names the registration. Never used before.
    pub(crate) id: AttemptId,
    /// The branch that HEAD is on; `None`: it is detached.
    pub(crate) branch: Option<&'a BranchName>,
    /// The commit of its files.
    pub(crate) commit: CommitId,
}

/// The exclusive right to change the registry of worktrees, until dropped.
#[derive(Debug)]
pub(crate) struct Registry<'a> {
    _host: DirLock,
    _process: MutexGuard<'a, ()>,
}

impl Repo {
    /// Locks the worktree registry on this host, until the result is dropped.
    pub(crate) fn registry_lock(&self) -> Result<Registry<'_>, WorktreeError> {
        // Threads of one process wait on a mutex, which wakes them; only other processes are polled
        // for.
        let turn = self.registry_turns().lock().unwrap_or_else(PoisonError::into_inner);
        let directory = self.state_dir().map_err(files("make", self.common_dir()))?;
        let host = DirLock::acquire(&directory, REGISTRY_PATIENCE).map_err(files("lock", &directory))?;
        let registry = Registry { _host: host, _process: turn };
        if self.is_half_registered() {
            self.clear_half_registered(&registry)?;
        }
        Ok(registry)
    }

    /// All linked worktrees, ours and others.
    pub fn linked_worktrees(&self) -> Result<Vec<Registered>, WorktreeError> {
        self.registered(|git_dir| Some(owner_of(git_dir)))
    }

    /// Our linked worktrees. Of others only the lock's reason is read.
    pub(crate) fn owned_worktrees(&self) -> Result<Vec<Registered>, WorktreeError> {
        self.registered(|git_dir| owner_of(git_dir).map(Some))
    }

    /// Whether a worktree is registered at `path`.
    pub(crate) fn is_registered(&self, path: &Path) -> Result<bool, WorktreeError> {
        let link = path.join(".git");
        let mut all = self.registrations()?.into_iter();
        Ok(all.any(|git_dir| named_by(&git_dir.join("gitdir")).is_some_and(|named| named == link)))
    }

    /// The directories of all linked worktrees.
    pub(crate) fn worktree_paths(&self) -> Result<Vec<PathBuf>, WorktreeError> {
        let links = self.registrations()?.into_iter().filter_map(|git_dir| named_by(&git_dir.join("gitdir")));
        Ok(links
            .filter(|link| link.ends_with(".git"))
            .filter_map(|link| Some(link.parent()?.into()))
            .collect())
    }

    /// The linked worktrees for which `owner` returns a value: their owner, if they are ours.
    pub(super) fn registered(
        &self,
        owner: impl Fn(&Path) -> Option<Option<Owner>>,
    ) -> Result<Vec<Registered>, WorktreeError> {
        let mut found = Vec::new();
        for git_dir in self.registrations()? {
            let Some(owner) = owner(&git_dir) else { continue };
            let dot_git = named_by(&git_dir.join("gitdir")).filter(|named| named.ends_with(".git"));
            let path = match dot_git.as_deref().and_then(Path::parent) {
                Some(path) => path.to_owned(),
                // Its branch is in use all the same, at a place that is not known.
                None if owner.is_none() && git_dir.join("HEAD").symlink_metadata().is_ok() => git_dir.clone(),
                // Git may be removing it right now.
                None => continue,
            };
            found.push(Registered { checkout: Checkout::at(Workplace { path, git_dir }), owner });
        }
        found.sort_by(|a, b| a.checkout.path.cmp(&b.checkout.path));
        Ok(found)
    }

    pub(super) fn registrations(&self) -> Result<Vec<PathBuf>, WorktreeError> {
        let list = self.common_dir().join("worktrees");
        match std::fs::read_dir(&list) {
            Ok(entries) => entries.map(|entry| Ok(entry.map_err(files("list", &list))?.path())).collect(),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(files("list", &list)(error)),
        }
    }

    /// Whether a process died while it changed the registry, or is changing it now.
    pub(crate) fn is_half_registered(&self) -> bool {
        self.beside().symlink_metadata().is_ok()
    }

    /// Checks that the registry can be changed, as far as possible without changing it. Called
    /// before anything is claimed.
    pub(crate) fn check_registry(&self) -> Result<(), WorktreeError> {
        if self.is_half_registered() { self.registry_lock().map(drop) } else { Ok(()) }
    }

    fn beside(&self) -> PathBuf {
        Own::Registering.within(self.common_dir())
    }

    fn clear_half_registered(&self, _registry: &Registry<'_>) -> Result<(), WorktreeError> {
        let beside = self.beside();
        if !beside.symlink_metadata().is_ok_and(|found| found.is_dir()) {
            // We never create such a thing here; it is removed and never followed.
            return std::fs::remove_file(&beside).map_err(files("remove", &beside));
        }
        // Another user may have created it, so nothing in it is read that could block.
        let read = |name: &str| {
            fsutil::open_plain(&beside.join(name)).and_then(|file| fsutil::tail_of(&file, LONGEST_PATH))
        };
        // The worktree is created after its mark; without a mark there is none to look for.
        let ours = read("locked").is_ok_and(|text| Owner::parse(&text).is_some());
        if ours
            && let Ok(link) = read("gitdir")
            && let Some(path) = Path::new(OsStr::from_bytes(link.trim())).parent()
            && let Err(error) = std::fs::remove_dir(path)
        {
            // Only an empty directory can have been left there.
            tracing::debug!(path = %path.display(), %error, "no empty worktree was left");
        }
        fsutil::remove_all(&beside).map_err(files("remove", &beside))
    }

    /// Creates an empty worktree, whose parent exists, and adds it to the list, marked and locked by
    /// us. Returns its registration and our lock.
    pub(crate) fn register(
        &self,
        registry: &Registry<'_>,
        new: &NewWorktree<'_>,
    ) -> Result<(PathBuf, FileLock), WorktreeError> {
        if self.only_git_can_register() {
            return self.register_by_git(registry, new);
        }
        let NewWorktree { path, commit, .. } = *new;
        let (beside, list) = (self.beside(), self.common_dir().join("worktrees"));
        std::fs::create_dir(&beside).map_err(files("make", &beside))?;
        let link = new.place.join(".git");
        let written = |name: &str, text: &[u8]| {
            let file = beside.join(name);
            fsutil::create(&file, text).map_err(files("write", &file))
        };
        written("gitdir", &[link.as_os_str().as_bytes(), b"\n"].concat())?;
        written("commondir", b"../..\n")?;
        let head = new.branch.map_or_else(|| format!("{commit}\n").into(), head_on);
        written("HEAD", &head)?;
        // This reflog distinguishes the command's commits from earlier ones.
        let logs = beside.join("logs");
        let line = self.first_of_head_log(commit, "aynig: a worktree").map_err(files("write", &logs))?;
        std::fs::create_dir(&logs).map_err(files("make", &logs))?;
        written("logs/HEAD", &line)?;
        let locked = beside.join("locked");
        let held = FileLock::replace(&locked, &new.owner.text()).map_err(files("write", &locked))?;
        make_empty(path).map_err(files("make", path))?;
        crate::crashpoint::reach(crate::crashpoint::Point::WorktreeDrafted);
        let git_dir = list.join(registration_name(new.id));
        let mut tries = 0;
        loop {
            std::fs::create_dir_all(&list).map_err(files("make", &list))?;
            match std::fs::rename(&beside, &git_dir) {
                Ok(()) => break,
                // Git removes the list with its last entry.
                Err(error) if error.kind() == ErrorKind::NotFound && tries < TRIES => tries += 1,
                // The user may have moved the list to another file system.
                Err(error) if error.kind() == ErrorKind::CrossesDevices => {
                    drop(held);
                    self.clear_half_registered(registry)?;
                    return self.register_by_git(registry, new);
                }
                Err(error) => return Err(files("register", path)(error)),
            }
        }
        crate::crashpoint::reach(crate::crashpoint::Point::WorktreeRegistered);
        let text = [b"gitdir: ", git_dir.as_os_str().as_bytes(), b"\n"].concat();
        let link = path.join(".git");
        fsutil::create(&link, &text).map_err(files("write", &link))?;
        Ok((git_dir, held))
    }

    /// Whether a new worktree needs more than the four files: its own configuration, a
    /// sparse-checkout pattern list, or other permissions. Only git knows how.
    fn only_git_can_register(&self) -> bool {
        let shared = self.config("core.sharedRepository").unwrap_or_default();
        self.config_flag("extensions.worktreeConfig")
            || self.config_flag("core.sparseCheckout")
            || !["", "umask", "false", "no", "off", "0"].contains(&shared.to_lowercase().as_str())
    }

    fn register_by_git(
        &self,
        _registry: &Registry<'_>,
        new: &NewWorktree<'_>,
    ) -> Result<(PathBuf, FileLock), WorktreeError> {
        let NewWorktree { path, commit, .. } = *new;
        let add = || {
            Git::shared(self.common_dir())
                // Otherwise it would be as sparse as the user's checkout may be; without a pattern
                // list it gets all files.
                .args(["-c", "core.sparseCheckout=false"])
                .args(["worktree", "add", "--quiet", "--detach", "--no-checkout", "--lock", "--reason"])
                .arg(OsStr::from_bytes(&new.owner.text()))
                .arg("--")
                .arg(path)
                .arg(commit.to_string())
                .run()
        };
        // A concurrent `git gc` may prune the half-made registration as stale. Git then undoes its
        // work, and the call is repeated.
        add().or_else(|_| add()).or_else(|_| add())?;
        let dot_git = path.join(".git");
        let text = fsutil::read_plain(&dot_git).map_err(files("read", &dot_git))?;
        let target = text.trim().strip_prefix(b"gitdir: ").unwrap_or_default();
        let git_dir = path.join(OsStr::from_bytes(target)).canonicalize().map_err(files("find", &dot_git))?;
        let file = git_dir.join("locked");
        // Waits, since a scan may just be trying this lock to see whether its runner lives.
        let held = FileLock::acquire(&file).map_err(files("lock", &file))?;
        let place = Workplace { path: new.place.to_owned(), git_dir: git_dir.clone() };
        if new.place != path {
            place.write_back_link().map_err(files("write in", &git_dir))?;
        }
        if let Some(branch) = new.branch {
            place.attach(branch).map_err(files("attach", &git_dir))?;
        }
        Ok((git_dir, held))
    }

    /// Removes a worktree whose files are gone from the list.
    pub(crate) fn unregister(&self, _registry: &Registry<'_>, git_dir: &Path) -> Result<(), WorktreeError> {
        let beside = self.beside();
        match std::fs::rename(git_dir, &beside) {
            Ok(()) => {
                crate::crashpoint::reach(crate::crashpoint::Point::Unregistered);
                fsutil::remove_all(&beside).map_err(files("remove", &beside))?;
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            // The rename crosses file systems, or layers of one: removes it piece by piece, as git
            // does.
            Err(error) if error.kind() == ErrorKind::CrossesDevices => {
                fsutil::remove_all(git_dir).map_err(files("remove", git_dir))?;
            }
            Err(error) => return Err(files("remove", git_dir)(error)),
        }
        // As git does; fails while there are other worktrees.
        drop(std::fs::remove_dir(self.common_dir().join("worktrees")));
        Ok(())
    }
}

/// The name of a new registration. It is a name of our own: for a number we would have to compete
/// with git.
pub(crate) fn registration_name(id: AttemptId) -> String {
    format!("aynig-{id}")
}

/// The owner of a registered worktree; `None` if it is not ours.
pub(super) fn owner_of(git_dir: &Path) -> Option<Owner> {
    fsutil::read_plain(git_dir.join("locked")).ok().and_then(|text| Owner::parse(&text))
}

/// Creates a directory, or uses an empty one that exists.
fn make_empty(path: &Path) -> std::io::Result<()> {
    match std::fs::create_dir(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() && !occupied(path) => Ok(()),
        other => other,
    }
}
