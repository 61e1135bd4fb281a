//! Keeps a few clean worktrees for later steps where a checkout is expensive (CONTRACT 9.15).
//!
//! Invariant: nothing that one step leaves reaches the next. Only files survive, and only those
//! that are as git wrote them before the command began. The evidence is our own copy of the index
//! of that moment, which the command did not change: a file's change time cannot be set back. Git
//! rewrites every file whose change time, size or inode differs from it. Of the registration only
//! the files that we write ourselves survive. A walk then finds what git overlooks: repositories,
//! pipes, directories with other permissions. Finally the worktree is compared once more when it is
//! handed out. In any doubt it is removed and a fresh one is made.
//!
//! Kept worktrees are below `aynig/pool` in the shared git directory, owned by the pool
//! ([`Owner::Pool`]) and detached. One whose lock is free and that is not ready was left by a
//! runner that died. No command has seen it since, so it is removed without rescue. Unchanged
//! worktrees need none of these checks and go to the next step by
//! [`crate::git::worktrees::spare`].

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use bstr::{BString, ByteSlice};

use crate::contract::ids::{AttemptId, CommitId};
use crate::contract::layout::Own;
use crate::fsutil;
use crate::fsutil::FileLock;
use crate::git::contents::index::Entry;
use crate::git::process::call::Git;
use crate::git::repo::open::Repo;
use crate::git::worktrees::directory::tidy_above;
use crate::git::worktrees::error::{WorktreeError, files};
use crate::git::worktrees::held::{Identity, Origin, Worktree};
use crate::git::worktrees::registration::{Mark, Owner, Workplace};
use crate::git::worktrees::registry::{Registry, registration_name};

/// From this many files on a checkout takes longer than the checks that avoid it.
const WORTH_IT: usize = 1000;

/// The default of `aynig.pool`, the number of worktrees kept.
const USUALLY: usize = 2;

/// Our copy of the index, in the registration.
const OWN_INDEX: &str = "aynig-index";

/// The file in the registration that marks a kept worktree as ready, and contains its checkout
/// fingerprint.
const READY: &str = "aynig-pool";

/// The files of a registration that survive.
const KEPT: [&str; 6] = ["HEAD", "commondir", "gitdir", "locked", "index", OWN_INDEX];

impl Repo {
    /// How many worktrees may be kept; an invalid `aynig.pool` counts as 0.
    pub(crate) fn pool_limit(&self) -> usize {
        self.config("aynig.pool").map_or(USUALLY, |text| text.trim().parse().unwrap_or(0))
    }

    pub(crate) fn pool_directory(&self) -> PathBuf {
        Own::Pool.within(self.common_dir())
    }

    /// Records the state of a worktree that git has just filled, if it is worth keeping afterwards.
    pub(crate) fn note_origin(&self, worktree: &Worktree) -> Option<Box<Origin>> {
        let index = worktree.git_dir.join("index");
        if entries_in(&index)? < WORTH_IT || self.pool_limit() == 0 {
            return None;
        }
        let index_file = self.index_file(&index)?;
        if index_file.overlooks_files() || !index_file.gitlinks().is_empty() {
            return None;
        }
        let own = worktree.git_dir.join(OWN_INDEX);
        std::fs::copy(&index, &own).ok()?;
        // Racy git: git compares a file's time with the index's. A file that is not older is read
        // before it counts as unchanged.
        let date = std::fs::metadata(&index).and_then(|found| found.modified()).ok()?;
        std::fs::File::options().write(true).open(&own).and_then(|copy| copy.set_modified(date)).ok()?;
        let mode = worktree.path.symlink_metadata().ok()?.permissions().mode();
        let ways = self.checkout_fingerprint(index_file.attribute_files())?;
        Some(Box::new(Origin { index: identity(&own)?, mode, ways }))
    }

    /// The checkout fingerprint: everything besides its blob that decides how a file is written to
    /// disk.
    fn checkout_fingerprint(&self, attributes: Vec<(BString, CommitId)>) -> Option<Vec<u8>> {
        let mut ways = Git::shared(self.common_dir()).args(["config", "--list", "-z"]).run().ok()?.stdout;
        // The owner and the permissions of new files.
        let status = std::fs::read("/proc/self/status").unwrap_or_default();
        let ours = |line: &&[u8]| line.starts_with(b"Umask:") || line.starts_with(b"Uid:");
        ways.extend(status.lines().filter(ours).flatten());
        ways.extend(
            fsutil::read_plain(self.common_dir().join("info").join("attributes")).unwrap_or_default(),
        );
        for (path, id) in attributes {
            ways.extend_from_slice(format!("\0{id} ").as_bytes());
            ways.extend_from_slice(&path);
        }
        Some(ways)
    }

    /// Keeps a worktree for a later step if that is worthwhile and possible, else removes it. Its
    /// contents must have been saved. `is_deserted` returns whether no process has anything of a
    /// worktree open; `head` is a commit that stays reachable.
    pub(crate) fn release_worktree(
        &self,
        worktree: Worktree,
        head: CommitId,
        is_deserted: impl Fn(&Worktree) -> bool,
    ) -> Result<(), WorktreeError> {
        let Some(origin) = &worktree.origin else { return self.remove_worktree(worktree) };
        let own_index = worktree.git_dir.join(OWN_INDEX);
        let fit = identity(&own_index) == Some(origin.index)
            && self.is_here(&worktree.path, &worktree.git_dir) == Ok(true)
            && worktree.is_linked_both_ways()
            && !worktree.git_dir.join("modules").exists()
            && fsutil::no_mounts_in(&worktree.path).is_ok()
            && is_deserted(&worktree);
        if !fit {
            return self.remove_worktree(worktree);
        }
        let slot = self.new_slot(&worktree);
        let _held = {
            let registry = self.registry_lock()?;
            if self.pooled(&registry)?.len() >= self.pool_limit() {
                drop(registry);
                return self.remove_worktree(worktree);
            }
            let locked = worktree.git_dir.join("locked");
            let held = FileLock::replace(&locked, &Owner::Pool.text()).map_err(files("write", &locked))?;
            crate::crashpoint::reach(crate::crashpoint::Point::PoolMarked);
            if let Err(error) = self.shelve(&worktree, &slot, head) {
                tracing::debug!(%error, "a worktree could not be kept");
                return self.remove_proven(&registry, &self.stranded(&worktree, slot));
            }
            crate::crashpoint::reach(crate::crashpoint::Point::PoolShelved);
            held
        };
        match self.purge(&slot, origin) {
            Ok(()) => Ok(()),
            Err(why) => {
                tracing::debug!(why, "a worktree was not kept");
                let registry = self.registry_lock()?;
                self.remove_proven(&registry, &slot)
            }
        }
    }

    /// A new place in the pool for a worktree, and a new name for its registration.
    pub(crate) fn new_slot(&self, worktree: &Workplace) -> Workplace {
        let id = AttemptId::random();
        Workplace {
            path: self.pool_directory().join(id.to_string()),
            git_dir: worktree.git_dir.with_file_name(registration_name(id)),
        }
    }

    /// The remains of a worktree that are removed after [`Workplace::shelve`] has failed.
    pub(crate) fn stranded(&self, from: &Workplace, slot: Workplace) -> Workplace {
        let git_dir = if slot.git_dir.exists() { slot.git_dir } else { from.git_dir.clone() };
        let path = if slot.path.exists() { slot.path } else { from.path.clone() };
        self.at_either_end(Workplace { path, git_dir })
    }

    /// Detaches a worktree from its branch and moves it into the pool.
    fn shelve(&self, worktree: &Worktree, slot: &Workplace, head: CommitId) -> Result<(), WorktreeError> {
        let pool = self.pool_directory();
        fsutil::create_private_dir_all(&pool).map_err(files("make", &pool))?;
        worktree.detach(head).map_err(files("detach", &worktree.git_dir))?;
        slot.shelve(worktree).map_err(files("move", &worktree.path))?;
        tidy_above(&worktree.path);
        Ok(())
    }

    /// Removes everything that git did not write, and verifies that; the error is the reason not to
    /// keep it.
    fn purge(&self, slot: &Workplace, origin: &Origin) -> Result<(), String> {
        let git_dir = &slot.git_dir;
        strip(git_dir).map_err(|error| error.to_string())?;
        let index = git_dir.join("index");
        std::fs::rename(git_dir.join(OWN_INDEX), &index).map_err(|error| error.to_string())?;
        let keeps_ignored = self.config_flag("aynig.poolKeepIgnored");
        careful(slot)
            .args(["clean", "-q", "-ffd"])
            .args((!keeps_ignored).then_some("-x"))
            .run()
            .map_err(|error| error.to_string())?;
        let index_file = self.index_file(&index).ok_or("its index cannot be read")?;
        inspect(
            &slot.path,
            origin.mode,
            (!keeps_ignored).then(|| index_file.paths()),
            &index_file.entries_by_path(),
        )?;
        fsutil::replace(&git_dir.join(READY), &origin.ways).map_err(|error| error.to_string())
    }

    /// Takes a kept worktree for an attempt, with exactly the files of `commit`; `None` if none is
    /// fit.
    pub(crate) fn worktree_from_pool(
        &self,
        directory: &Path,
        mark: &Mark,
        commit: CommitId,
        attached: bool,
    ) -> Option<Worktree> {
        let taken = match self.take_spare(directory, mark, commit, attached) {
            Ok(None) => self.take_from_pool(directory, mark, commit, attached),
            taken => taken,
        };
        taken.unwrap_or_else(|error| {
            tracing::warn!(%error, "a kept worktree could not be used; making another");
            None
        })
    }

    fn take_from_pool(
        &self,
        directory: &Path,
        mark: &Mark,
        commit: CommitId,
        attached: bool,
    ) -> Result<Option<Worktree>, WorktreeError> {
        // Usually there are none, and no lock is needed.
        if !self.owned_worktrees()?.iter().any(|registered| registered.owner == Some(Owner::Pool)) {
            return Ok(None);
        }
        let taken = {
            let registry = self.registry_lock()?;
            let limit = self.pool_limit();
            let mut usable = None;
            for (at, kept) in self.pooled(&registry)?.into_iter().enumerate() {
                let Some(held) = kept.held else { continue };
                if at >= limit || !kept.ready {
                    self.remove_proven(&registry, &kept.place)?;
                } else if usable.is_none() {
                    usable = Some((kept.place, held));
                }
            }
            let Some((slot, held)) = usable else { return Ok(None) };
            let ready = slot.git_dir.join(READY);
            let ways = fsutil::read_plain(&ready).map_err(files("read", &ready))?;
            // From here on it is not ready, and is removed if this process dies.
            std::fs::remove_file(&ready).map_err(files("remove", &ready))?;
            let path = self.choose_path(directory, mark)?;
            let place = Workplace { path, git_dir: slot.git_dir.clone() };
            if let Err(error) = slot.renew_link().and_then(|()| place.come_out_of_pool(&slot.path)) {
                tracing::debug!(%error, "a kept worktree could not be moved into place");
                self.remove_proven(&registry, &slot)?;
                return Ok(None);
            }
            crate::crashpoint::reach(crate::crashpoint::Point::PoolTaken);
            (place, held, ways)
        };
        let (place, held, ways) = taken;
        if let Err(why) = self.refill(&place, commit, &ways) {
            tracing::debug!(why, "a kept worktree is of no use here");
            let registry = self.registry_lock()?;
            self.remove_proven(&registry, &place)?;
            return Ok(None);
        }
        crate::crashpoint::reach(crate::crashpoint::Point::PoolRefilled);
        let _registry = self.registry_lock()?;
        let locked = place.git_dir.join("locked");
        let new = FileLock::replace(&locked, &Owner::Attempt(mark.clone()).text())
            .map_err(files("write", &locked))?;
        drop(held);
        if attached {
            place.attach(&mark.branch).map_err(files("attach", &place.git_dir))?;
        }
        Ok(Some(Worktree::held(place, mark.clone(), attached, new)))
    }

    /// Moves the files of a kept worktree to `commit`, and verifies that it has exactly those.
    fn refill(&self, place: &Workplace, commit: CommitId, ways: &[u8]) -> Result<(), String> {
        let said = |error: crate::git::ProcessError| error.to_string();
        let id = commit.to_string();
        let git_dir = &place.git_dir;
        // The index is not refreshed before. A file with the same contents but changed permissions
        // must be rewritten.
        careful(place)
            .args(["read-tree", "--reset", "-u", "--no-recurse-submodules", &id])
            .run()
            .map_err(said)?;
        let index_file = self.index_file(&git_dir.join("index")).ok_or("its index cannot be read")?;
        if index_file.overlooks_files() || !index_file.gitlinks().is_empty() {
            return Err("the commit has submodules, or is checked out in part".to_owned());
        }
        if self.checkout_fingerprint(index_file.attribute_files()).as_deref() != Some(ways) {
            return Err("files are written in another way now".to_owned());
        }
        let log = git_dir.join("logs").join("HEAD");
        let begin = |line: Vec<u8>| {
            std::fs::create_dir(git_dir.join("logs")).and_then(|()| fsutil::create(&log, &line))
        };
        self.first_of_head_log(commit, "aynig: from the pool")
            .and_then(begin)
            .map_err(|error| error.to_string())?;
        place.detach(commit).map_err(|error| error.to_string())?;
        let ignored = if self.config_flag("aynig.poolKeepIgnored") { "no" } else { "matching" };
        let status = careful(place)
            .args(["status", "--porcelain", "-z", "--untracked-files=all", "--no-renames"])
            .args(["--ignore-submodules=none", &format!("--ignored={ignored}")])
            .run()
            .map_err(said)?;
        if status.stdout.is_empty() { Ok(()) } else { Err(status.stdout.to_str_lossy().into_owned()) }
    }

    /// The kept worktrees, each locked by us unless another process has it.
    fn pooled(&self, _registry: &Registry<'_>) -> Result<Vec<Pooled>, WorktreeError> {
        let pool = self.pool_directory();
        let mut found = Vec::new();
        for registered in self.owned_worktrees()? {
            if registered.owner != Some(Owner::Pool) {
                continue;
            }
            let mut place = registered.checkout.place;
            let locked = place.git_dir.join("locked");
            let held = FileLock::try_acquire(&locked).map_err(files("lock", &locked))?;
            let names_it = place.names_its_registration();
            let in_pool = place.path.parent() == Some(&pool);
            let ready = in_pool && names_it && place.git_dir.join(READY).is_file();
            if !in_pool {
                place = self.at_either_end(place);
            }
            found.push(Pooled { place, ready, held });
        }
        Ok(found)
    }

    /// The directory of a kept worktree or a spare whose runner died or failed while it moved it:
    /// where its registration says, or else in the pool. If it is in neither place, `path` is the
    /// registration: what is there now names another, and is not ours to remove. A place in the
    /// pool is never used twice, so it needs no name.
    pub(crate) fn at_either_end(&self, place: Workplace) -> Workplace {
        if place.path.parent() == Some(&self.pool_directory()) || place.names_its_registration() {
            return place;
        }
        let kept = std::fs::read_dir(self.pool_directory()).into_iter().flatten().flatten();
        let at = |path| Workplace { path, git_dir: place.git_dir.clone() };
        let its = kept.map(|entry| at(entry.path())).find(Workplace::names_its_registration);
        its.unwrap_or_else(|| at(place.git_dir.clone()))
    }
}

struct Pooled {
    place: Workplace,
    /// Whether it was purged completely, and no process has begun to take it.
    ready: bool,
    held: Option<FileLock>,
}

/// A git call that treats a file as unchanged only if all of its metadata match.
pub(crate) fn careful(place: &Workplace) -> Git {
    place.git([]).env("GIT_OPTIONAL_LOCKS", "0").args([
        "-c",
        "core.checkStat=default",
        "-c",
        "core.trustctime=true",
        "-c",
        "core.untrackedCache=false",
        "-c",
        "core.sparseCheckout=false",
    ])
}

/// The number of entries in an index, from its header.
pub(crate) fn entries_in(index: &Path) -> Option<usize> {
    let mut header = [0; 12];
    fsutil::open_plain(index).ok()?.read_exact(&mut header).ok()?;
    let (signature, count) = (header.get(..4)?, header.get(8..)?);
    (signature == b"DIRC").then(|| usize::try_from(u32::from_be_bytes(count.try_into().ok()?)).ok()).flatten()
}

/// The identity of a regular file; `None` for anything else.
fn identity(path: &Path) -> Option<Identity> {
    path.symlink_metadata().ok().filter(std::fs::Metadata::is_file).map(|found| Identity::of(&found))
}

/// Removes everything from a registration that a command may have put there: refs, logs,
/// configuration, hooks, an unfinished merge or rebase, and anything else.
fn strip(git_dir: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(git_dir)? {
        let entry = entry?;
        let is_file = entry.file_type()?.is_file();
        if is_file && KEPT.iter().any(|kept| entry.file_name() == *kept) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            fsutil::remove_all(&entry.path())?;
        } else {
            std::fs::remove_file(entry.path())?;
        }
    }
    fsutil::replace(&git_dir.join("commondir"), b"../..\n")
}

/// Finds what git overlooks. `paths` are all the paths that may exist; without it, only checks for
/// what must not exist. Removes files whose metadata is not exactly as git wrote it: git compares
/// whole seconds, and would keep a file that got a second hard link or other permissions in the
/// second of its creation.
fn inspect(
    top: &Path,
    mode: u32,
    paths: Option<HashSet<BString>>,
    unchanged: &HashMap<BString, Entry>,
) -> Result<(), String> {
    let mut ahead = vec![BString::default()];
    let directories: Option<HashSet<&[u8]>> = paths.as_ref().map(|paths| {
        let above = |path: &BString| path.find_iter("/").collect::<Vec<usize>>();
        paths.iter().flat_map(|path| above(path).into_iter().map(|at| &path[..at])).collect()
    });
    while let Some(below) = ahead.pop() {
        let place = top.join(OsStr::from_bytes(&below));
        let odd = |what: &str| Err(format!("{}: {what}", place.display()));
        let found = place.symlink_metadata().map_err(|error| error.to_string())?;
        if found.permissions().mode() != mode {
            return odd("its permissions were changed");
        }
        for entry in std::fs::read_dir(&place).map_err(|error| error.to_string())? {
            let entry = entry.map_err(|error| error.to_string())?;
            let kind = entry.file_type().map_err(|error| error.to_string())?;
            let name = entry.file_name();
            if name == ".git" {
                if below.is_empty() && kind.is_file() {
                    continue;
                }
                return odd("there is a repository in it");
            }
            let mut path = below.clone();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name.as_bytes());
            let known = match &paths {
                None => kind.is_dir() || kind.is_file() || kind.is_symlink(),
                Some(_) if kind.is_dir() => {
                    directories.as_ref().is_some_and(|known| known.contains(path.as_slice()))
                }
                Some(paths) => (kind.is_file() || kind.is_symlink()) && paths.contains(&path),
            };
            if !known {
                return odd("there is something in it that is not git's");
            }
            if kind.is_dir() {
                ahead.push(path);
            } else if let Some(noted) = unchanged.get(&path)
                && !noted.written.is(&entry.metadata().map_err(|error| error.to_string())?)
            {
                std::fs::remove_file(entry.path()).map_err(|error| error.to_string())?;
            }
        }
    }
    Ok(())
}
