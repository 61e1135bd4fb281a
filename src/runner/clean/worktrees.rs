//! Cleans worktrees whose attempt is over, and worktrees that were kept for the user (CONTRACT 9.7).
//!
//! Invariant: a worktree is removed only while its lock is held, after a second check, with its work saved. A
//! kept worktree is removed only if its contents are elsewhere already.

use std::path::Path;

use crate::contract::ids::{AttemptId, BranchName, CommitId};
use crate::fsutil::{disk_use, no_mounts_in};
use crate::git::Repo;
use crate::git::worktrees::held::Worktree;
use crate::git::worktrees::preserved::Kept;
use crate::git::worktrees::registration::Checkout;
use crate::git::worktrees::registration::{Mark, Registered};
use crate::git::worktrees::worktree::Found;
use crate::supervise::{process_words, workers};

use super::item::{CleanError, CleanOptions, Item, Kind, Lasting, age, file_age};
use crate::runner::attempt::files;
use crate::runner::clean::settled;
use crate::runner::clean::settled::{NotSettled, Of};
use crate::runner::landing::recover::base_of;
use crate::runner::landing::salvage::{Disposal, Fate, Work, dispose};
use crate::runner::{error_chain, pluralize, shell_quote};

pub(crate) fn clean(repo: &Repo, wanted: &CleanOptions) -> Result<Vec<Item>, CleanError> {
    let mut items = Vec::new();
    for registered in repo.linked_worktrees()? {
        let Some(mark) = registered.mark() else { continue };
        let record = files::find(repo, mark.attempt);
        let mut item =
            Item::new(Kind::Worktree, registered.checkout.path.display().to_string()).of(&mark.branch);
        item.bytes = own_use(&registered.checkout.path);
        item.age = record
            .map(|record| age(record.started, wanted.now))
            .or_else(|| file_age(&registered.checkout.git_dir.join("locked"), wanted.now));
        let item = match judge(repo, &registered, mark, repo.is_held(&registered.checkout.git_dir)) {
            Err(NotSettled { why, next }) => item.stays(why, next),
            Ok(()) => item.goes(format!(
                "attempt {} is over, its runner is gone; what {} does not have is saved under a rescue ref first",
                mark.attempt.short(),
                mark.branch
            )),
        };
        items.push(item.carried_out(wanted, || remove(repo, &registered, mark)));
    }
    Ok(items)
}

/// The worktrees that were kept for the user; only those of workspaces unless all worktrees are looked at.
pub(crate) fn clean_all_kept(repo: &Repo, wanted: &CleanOptions) -> Result<Vec<Item>, CleanError> {
    let mut items = Vec::new();
    for kept in repo.kept_worktrees()? {
        let lasting = wanted.lasting.iter().find(|lasting| lasting.has_left(&kept));
        if wanted.worktrees || lasting.is_some() {
            items.push(clean_kept(repo, wanted, &kept, lasting));
        }
    }
    Ok(items)
}

/// Checks that the worktree may be removed.
fn judge(repo: &Repo, registered: &Registered, mark: &Mark, held: bool) -> Result<(), NotSettled> {
    let unsettled = |why: String, next: &str| Err(NotSettled { why, next: next.to_owned() });
    let path = &registered.checkout.path;
    if let Err(misplaced) = repo.is_here(path, &registered.checkout.git_dir) {
        return Err(NotSettled { why: misplaced.what.to_owned(), next: by_hand(repo, &registered.checkout) });
    }
    if !registered.checkout.is_linked_or_gone() {
        let why =
            format!("its .git file does not name the registration {}", registered.checkout.git_dir.display());
        return Err(NotSettled {
            why,
            next: format!("git worktree repair {}", shell_quote(path.display().to_string())),
        });
    }
    if held {
        return unsettled("its runner is at work".to_owned(), "aynig status --all");
    }
    if let Err(mounted) = no_mounts_in(path) {
        return unsettled("something is mounted in it".to_owned(), &mounted.next());
    }
    let there = workers(path);
    if let Some(pid) = there.first() {
        return Err(NotSettled {
            why: format!("{} works in it", process_words(*pid)),
            next: format!("ps -fp {pid}"),
        });
    }
    let lease = files::find(repo, mark.attempt).and_then(|record| CommitId::parse_hex(&record.lease));
    settled::settled(repo, of(mark, lease))
}

fn of(mark: &Mark, lease: Option<CommitId>) -> Of<'_> {
    Of { attempt: mark.attempt, branch: &mark.branch, remote: mark.remote.as_ref(), lease }
}

fn remove(repo: &Repo, registered: &Registered, mark: &Mark) -> Result<Option<String>, String> {
    let worktree = match repo.worktree_of(mark.attempt).map_err(|error| error_chain(&error))? {
        Found::Free(worktree) => worktree,
        Found::Held => return Err("somebody else took hold of it meanwhile; look again".to_owned()),
        Found::Missing => return Ok(Some("somebody else removed it".to_owned())),
    };
    judge(repo, registered, mark, false).map_err(|unsettled| unsettled.why)?;
    let head = settled::head(repo, of(mark, None)).map_err(|unsettled| unsettled.why)?;
    let base = base_of(repo, &worktree, head)
        .ok_or_else(|| "nothing says which commit its files are based on".to_owned())?;
    files::forget_body(repo, mark.attempt);
    let work = Work::On { base, kept: head };
    match dispose(repo, worktree, Disposal { work, head: base, pool: false, frees_branch: false }) {
        Fate::Gone { saved: Some(saved) } => Ok(Some(format!("saved as {}", saved.reference))),
        Fate::Gone { saved: None } => Ok(Some("there was nothing to save".to_owned())),
        Fate::InUse { pids } => {
            Err(format!("process {} works in it", pids.first().copied().unwrap_or_default()))
        }
        Fate::Kept { why } => Err(format!("it stays, what it holds could not be saved: {why}")),
        Fate::Stuck { why, .. } => Err(why),
    }
}

fn clean_kept(repo: &Repo, wanted: &CleanOptions, kept: &Kept, lasting: Option<&Lasting>) -> Item {
    let path = kept.checkout.path.display();
    let mut item = Item::new(Kind::Worktree, path.to_string());
    item.bytes = own_use(&kept.checkout.path);
    item.age = file_age(&kept.checkout.git_dir.join("locked"), wanted.now);
    if let Err(mounted) = no_mounts_in(&kept.checkout.path) {
        // `git worktree remove` would empty what is mounted.
        return item.stays("it was kept, and something is mounted in it", mounted.next());
    }
    let by_hand = by_hand(repo, &kept.checkout);
    let record = || BranchName::new(files::find(repo, kept.attempt)?.branch.as_str()).ok();
    let was = match lasting {
        Some(lasting) => format!("an old worktree of the workspace {} ({})", lasting.handle, kept.why),
        None => format!("it was kept ({})", kept.why),
    };
    if let Some(pid) = workers(&kept.checkout.path).first() {
        let next = format!("leave it or end that process (`ps -fp {pid}`), then `aynig clean` again");
        return item.stays(format!("{was}; {} works in it", process_words(*pid)), next);
    }
    let Some(branch) = lasting.map(|lasting| lasting.branch.clone()).or_else(record) else {
        let why = format!("{was}, and nothing says for which branch");
        return item.stays(why, format!("take out what you need, then: {by_hand}"));
    };
    item = item.of(&branch);
    // What was kept for its ignored files goes only by its age.
    let is_young =
        lasting.is_some() && wanted.older_than.is_none_or(|limit| item.age.is_none_or(|age| age <= limit));
    let check = |worktree: &Worktree| match repo.ignored(worktree) {
        Err(error) => Err(error_chain(&error)),
        Ok(ignored) if lasting.is_some() && !ignored.repositories.is_empty() => {
            Err("it ignores other repositories in it".to_owned())
        }
        Ok(ignored) if is_young && !ignored.files.is_empty() => Err(format!(
            "no commit has {}; `--older-than DURATION` removes it once it is that old",
            pluralize(ignored.files.len(), "ignored file")
        )),
        Ok(_) => elsewhere(repo, wanted, worktree, kept.attempt),
    };
    match held(repo, kept, &branch).and_then(|worktree| check(&worktree)) {
        Ok(()) => item.goes(format!("{was}, and all it holds is elsewhere now")).carried_out(wanted, || {
            let worktree = held(repo, kept, &branch)?;
            check(&worktree)?;
            repo.remove_worktree(worktree).map_err(|error| error_chain(&error))?;
            Ok(None)
        }),
        Err(why) => item.stays(format!("{was}: {why}"), format!("take out what you need, then: {by_hand}")),
    }
}

/// The disk use of a worktree; `None` with something mounted in it.
fn own_use(path: &Path) -> Option<u64> {
    no_mounts_in(path).is_ok().then(|| disk_use(path))
}

/// How the user removes a worktree. `git worktree remove` follows a symbolic link and empties its target, so
/// a link is moved away first.
fn by_hand(repo: &Repo, checkout: &Checkout) -> String {
    let path = &checkout.path;
    let shown = shell_quote(path.display().to_string());
    let remove = format!("git worktree remove --force --force {shown}");
    match repo.is_here(path, &checkout.git_dir) {
        Ok(_) => remove,
        Err(_) if path.symlink_metadata().is_ok_and(|found| !found.is_dir()) => {
            format!("mv {shown} {}, and then: {remove}", shell_quote(format!("{}.away", path.display())))
        }
        Err(_) => format!("put {shown} back in its place, and look again"),
    }
}

fn held(repo: &Repo, kept: &Kept, branch: &BranchName) -> Result<Worktree, String> {
    repo.is_here(&kept.checkout.path, &kept.checkout.git_dir)
        .map_err(|misplaced| misplaced.what.to_owned())?;
    if !kept.checkout.is_linked_or_gone() {
        return Err(format!(
            "its .git file does not name the registration {}",
            kept.checkout.git_dir.display()
        ));
    }
    if let Some(pid) = workers(&kept.checkout.path).first() {
        return Err(format!("{} works in it", process_words(*pid)));
    }
    let held = repo.hold_kept(kept, branch).map_err(|error| error_chain(&error))?;
    held.ok_or_else(|| "somebody has hold of it".to_owned())
}

/// Checks that the contents of a kept worktree are safe: reachable from a ref, or in the newest tree of its
/// branch, of the main branch or of a rescue ref.
fn elsewhere(
    repo: &Repo,
    wanted: &CleanOptions,
    worktree: &Worktree,
    attempt: AttemptId,
) -> Result<(), String> {
    let words = |error: &dyn std::error::Error| error_chain(error);
    let base = repo.checked_out(worktree);
    let base = base.ok_or("its HEAD names no commit")?;
    if repo.saved_somewhere(base).map_err(|error| words(&error))?.is_none() {
        return Err(format!("its commit {} is in no branch and under no rescue ref", base.short()));
    }
    if repo.holds_in_progress(worktree).map_err(|error| words(&error))? {
        return Err("a rebase, a merge or a ref in it holds commits that are in no branch".to_owned());
    }
    let trees = repo.holdings(worktree, base).map_err(|error| words(&error))?;
    let own = repo.commit(base).map_err(|error| words(&error))?.tree;
    let mut places: Vec<CommitId> =
        repo.branch_head(&worktree.mark.branch).ok().flatten().into_iter().collect();
    places.extend(wanted.main.as_ref().map(|(_, tip)| *tip));
    let rescues = repo.rescue_refs().map_err(|error| words(&error))?;
    places
        .extend(rescues.iter().filter(|rescue| rescue.attempt == Some(attempt)).map(|rescue| rescue.commit));
    for tree in trees {
        let is_there = |place: &CommitId| {
            let place = repo.commit(*place);
            place.is_ok_and(|place| repo.tree_landed(own, tree, place.tree).unwrap_or(false))
        };
        if tree != own && !places.iter().any(is_there) {
            return Err("it holds changes that are in no branch and under no rescue ref".to_owned());
        }
    }
    Ok(())
}
