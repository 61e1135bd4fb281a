//! Moves the target of a landing, and its checkout with it.
//!
//! Invariant: the order is git's own. The files and the index of the checkout move first, and the branch after them.
//! A person's commit in between is made from the new index, so it reverts nothing. Whoever is killed in between
//! leaves additions that are staged, and the same landing again finishes them (CONTRACT 14.4).

use std::io::ErrorKind;
use std::time::Duration;

use crate::contract::ids::{BranchName, CommitId};
use crate::fsutil::{DirLock, process_with};
use crate::git::objects::merge::Merge;
use crate::git::remote::Move;
use crate::git::worktrees::carry::{Stuck, Uncarried};
use crate::git::{Checkout, Repo, Swap};
use crate::ops::error::{Error, Kind};
use crate::runner::authority::Authority;
use crate::words::{error_chain, shell_quote};

use super::Side;

/// How long to wait for another landing into the same checkout, which may sign.
const PATIENCE: Duration = Duration::from_secs(60);

/// The exclusive right to land into the checkout of a branch, until dropped. `None` if there is no checkout to update,
/// or if its file system has no locks: the compare-and-swap decides then.
pub(super) fn turn(repo: &Repo, authority: &Authority, name: &BranchName) -> Result<Option<DirLock>, Error> {
    let all = if authority.source().is_none() { repo.checkouts_of(name).ok() } else { None };
    let Some(checkout) = all.and_then(|all| all.into_iter().next()) else { return Ok(None) };
    match DirLock::acquire(&checkout.git_dir, PATIENCE) {
        Ok(held) => Ok(Some(held)),
        Err(error) if error.kind() == ErrorKind::TimedOut => {
            let place = checkout.path.display();
            let message =
                format!("another landing into {place} is under way, so nothing was changed: {error}");
            Err(Error::new(Kind::Conflict, message).hint("the same again, once it is over"))
        }
        Err(error) => {
            tracing::debug!(%error, "landings into this checkout do not wait for each other");
            Ok(None)
        }
    }
}

/// The checkout to update, after checking that this is possible. `None` if a remote decides: no checkout is changed
/// then.
pub(super) fn checkout(
    repo: &Repo,
    authority: &Authority,
    onto: &Side,
    tree: CommitId,
) -> Result<Option<Checkout>, Error> {
    if authority.source().is_some() {
        return Ok(None);
    }
    let name = &onto.name;
    let all = repo
        .checkouts_of(name)
        .map_err(|error| Error::because(&format!("find out where {name} is checked out"), &error))?;
    let mut all = all.into_iter();
    let Some(checkout) = all.next() else { return Ok(None) };
    let place = checkout.path.display().to_string();
    let quoted = shell_quote(&place);
    let refuse =
        |why: String| Error::setup(format!("{name} is checked out in {place}, {why}; nothing was changed"));
    if let Some(gone) = std::iter::once(&checkout).chain(all.as_slice()).find(|one| is_gone(repo, one)) {
        return Err(no_directory(name, gone));
    }
    if let Some(other) = all.next() {
        return Err(refuse(format!("and in {}", other.path.display()))
            .hint(format!("leave one of them: `git -C {quoted} switch --detach`")));
    }
    match repo.try_carry(&checkout, onto.head.id, tree) {
        Ok(()) => Ok(Some(checkout)),
        Err(Stuck::InProgress) => {
            Err(refuse("where a rebase or a bisect of it is under way".to_owned())
                .hint("conclude that first"))
        }
        Err(Stuck::Unconcluded(unconcluded)) => {
            Err(refuse(format!("where {} is not concluded", unconcluded.what)).hint(format!(
                "conclude it with `{}`, or take it back with `{}`",
                unconcluded.conclude, unconcluded.abort
            )))
        }
        Err(Stuck::Changed { in_the_way }) => {
            let error = refuse("where files differ from what is committed".to_owned());
            let all = if in_the_way { " --include-untracked" } else { "" };
            Err(locked(&checkout, error).hint(format!(
                "commit them, or put them aside: `git -C {quoted} stash{all}`; then land again"
            )))
        }
        Err(Stuck::Refused(error)) => {
            let is_file = matches!(error, Uncarried::InTheWay(_));
            let filtered = match &error {
                Uncarried::Filtered(file) => Some(shell_quote(file.as_os_str().as_encoded_bytes())),
                Uncarried::InTheWay(_) | Uncarried::Git(_) => None,
            };
            let error = locked(&checkout, refuse(format!("which cannot go along: {}", error_chain(&error))));
            Err(if is_file {
                error.hint("move it elsewhere, then land again").hint(format!(
                    "or put all that git does not track and does not ignore aside: \
                     `git -C {quoted} stash --include-untracked`"
                ))
            } else if let Some(file) = filtered {
                error.hint(format!("copy it elsewhere, and `git -C {quoted} rm -q --cached -- {file} && git -C {quoted} checkout HEAD -- {file}`; then land again"))
            } else if error.hints.is_empty() {
                error.hint("move what is in the way elsewhere, then land again")
            } else {
                error
            })
        }
    }
}

/// Whether the directory of a linked worktree is gone, so git has only its registration.
fn is_gone(repo: &Repo, checkout: &Checkout) -> bool {
    checkout.git_dir != repo.common_dir() && checkout.path.join(".git").symlink_metadata().is_err()
}

fn no_directory(name: &BranchName, gone: &Checkout) -> Error {
    let place = gone.path.display().to_string();
    let message = format!("{name} is checked out in {place}, which is gone; nothing was changed");
    let is_locked = gone.git_dir.join("locked").symlink_metadata().is_ok();
    let unlock =
        if is_locked { format!("git worktree unlock {} && ", shell_quote(&place)) } else { String::new() };
    Error::setup(message)
        .hint(format!("`{unlock}git worktree prune` ends its registration; then land again"))
        .hint("if it was moved: `git worktree repair` there")
}

/// The error, with the lock of the checkout's index if there is one: a git that was killed leaves it behind.
fn locked(checkout: &Checkout, error: Error) -> Error {
    let lock = checkout.git_dir.join("index.lock");
    if lock.symlink_metadata().is_err() {
        return error;
    }
    let shown = lock.display().to_string();
    match process_with(&lock) {
        Some(pid) => error.hint(format!("process {pid} holds {shown}: wait until it has ended")),
        None => error.hint(format!(
            "no process seen here holds {shown}: a git was killed there, and what it had written may stay; \
             `rm {}`, then land again",
            shell_quote(&shown)
        )),
    }
}

/// Moves the checkout of the target, then the target by compare-and-swap. Returns a warning if the checkout did not go
/// along, since somebody switched it to something else meanwhile.
pub(super) fn move_target(
    repo: &Repo,
    authority: &Authority,
    onto: &Side,
    new: CommitId,
    checkout: Option<&Checkout>,
) -> Result<Option<String>, Error> {
    let (name, old) = (&onto.name, onto.head.id);
    let swap = || {
        let wanted = Move { branch: name.clone(), expected: old, new, within: None };
        authority.swap(repo, wanted, "aynig: land")
    };
    let Some(checkout) = checkout else {
        return match swap()? {
            Swap::Won => Ok(None),
            Swap::Lost { .. } => Err(moved(name)),
        };
    };
    // The message may have taken a while to be signed.
    if repo.branch_head(name).is_ok_and(|head| head != Some(old)) {
        return Err(moved(name));
    }
    let landing = Landing { repo, checkout, name, old, new };
    if !landing.is_on_it() {
        let message = format!("{} is not on {name} any more; nothing was changed", checkout.path.display());
        return Err(Error::new(Kind::Conflict, message).hint("the same again lands without it"));
    }
    repo.carry_ahead(&checkout.place, old, new).map_err(|error| landing.not_carried(&error))?;
    match swap() {
        Ok(Swap::Won) => landing.won(),
        Ok(Swap::Lost { actual }) => Err(landing.lost(actual)),
        Err(error) => {
            let head = repo.branch_head(name).ok().flatten();
            let error = Error::from(error);
            Err(match landing.take_back(head) {
                Ok(()) => error,
                Err(why) => landing.left(error, &why),
            })
        }
    }
}

fn moved(name: &BranchName) -> Error {
    Error::new(Kind::Conflict, format!("{name} moved meanwhile; nothing was changed"))
        .hint("the same again lands on what it is now")
}

/// A landing whose target is checked out.
struct Landing<'a> {
    repo: &'a Repo,
    checkout: &'a Checkout,
    name: &'a BranchName,
    old: CommitId,
    new: CommitId,
}

impl Landing<'_> {
    /// Whether the checkout is on the target now.
    fn is_on_it(&self) -> bool {
        self.checkout.place.branch().as_ref() == Some(self.name)
    }

    /// The checkout was not carried, and the target has not moved.
    fn not_carried(&self, error: &Uncarried) -> Error {
        let (name, place) = (self.name, self.checkout.path.display().to_string());
        let why = error_chain(error);
        let message = format!("the checkout in {place} did not go along, so {name} was not moved");
        if error.changed_nothing() {
            let error = Error::failed(format!("{message}; nothing was changed: {why}"));
            return locked(self.checkout, error).hint("the same again, once nobody works there");
        }
        // A file could not be written, and others may have been.
        let quoted = shell_quote(&place);
        Error::failed(format!("{message}: {why}"))
            .hint(format!("`git -C {quoted} status` shows what was written before that"))
            .hint(format!("put that aside: `git -C {quoted} stash --include-untracked`; then land again"))
    }

    /// The target has moved. The index may have been written back by somebody who had read it before.
    fn won(&self) -> Result<Option<String>, Error> {
        let (place, old, new) = (&self.checkout.place, self.old, self.new);
        let elsewhere = (!self.is_on_it()).then(|| self.elsewhere());
        // It may have been switched back meanwhile.
        if !self.is_on_it() || !self.repo.is_behind(place, old, new).unwrap_or(false) {
            return Ok(elsewhere);
        }
        let Err(error) = self.repo.carry(place, old, new) else { return Ok(elsewhere) };
        let name = self.name;
        let (why, place) = (error_chain(&error), place.path.display().to_string());
        let message = format!(
            "{name} was moved to {}, and the checkout in {place} did not go along: {why}",
            new.short()
        );
        Err(Error::failed(message).hint(bring_along(&place, old, name)))
    }

    /// The checkout is on something else, and git has taken along there what was to be landed: takes that out again.
    /// Returns the warning.
    fn elsewhere(&self) -> String {
        let (place, name) = (self.checkout.path.display(), self.name);
        let quoted = shell_quote(place.to_string());
        let now = match self.checkout.place.branch() {
            Some(branch) => format!("on {branch}"),
            None => "on no branch".to_owned(),
        };
        let did = format!("the checkout in {place} is {now} now, so it did not go along with {name}");
        match self.take_back(None) {
            Ok(()) => did,
            Err(why) => format!(
                "{did}, and what landed may be staged there: {}; `git -C {quoted} status` shows it, and \
                 `git -C {quoted} switch {}` brings it to where it belongs",
                error_chain(&why),
                shell_quote(name)
            ),
        }
    }

    /// The target moved meanwhile, to `actual`.
    fn lost(&self, actual: Option<CommitId>) -> Error {
        let (name, place) = (self.name, self.checkout.path.display().to_string());
        let taken = self.take_back(actual);
        let error = match actual.filter(|head| self.is_in(*head)) {
            Some(head) => {
                let message = format!("{name} moved meanwhile, and has these files already");
                Error::new(Kind::Conflict, message).hint(format!(
                    "a commit was made with them; `git -C {} show {}` shows it",
                    shell_quote(&place),
                    head.short()
                ))
            }
            None => Error::new(Kind::Conflict, format!("{name} moved meanwhile; nothing was landed"))
                .hint("the same again lands on what it is now"),
        };
        match taken {
            Ok(()) => error,
            Err(why) => self.left(error, &why),
        }
    }

    /// Whether `head` has all that was to be landed.
    fn is_in(&self, head: CommitId) -> bool {
        let Ok(theirs) = self.repo.commit(head) else { return false };
        let merged = self.repo.merge_trees(head, self.new, head);
        matches!(merged, Ok(Merge::Clean(tree)) if tree == theirs.tree)
            || self.repo.commit(self.new).is_ok_and(|ours| ours.tree == theirs.tree)
    }

    /// Takes the checkout back from what was to be landed. It goes to what the target is now, if that is on top of what
    /// it was: a path that a person has committed meanwhile must stay as it is there. One that is on something else now
    /// goes to that.
    fn take_back(&self, head: Option<CommitId>) -> Result<(), Uncarried> {
        let Self { repo, checkout, old, new, .. } = *self;
        let tree = head.and_then(|head| repo.commit(head).ok()).map(|head| head.tree);
        // The person's commit was made from this index.
        if tree.is_some() && repo.index_tree(checkout).ok() == tree {
            return Ok(());
        }
        let to = match checkout.place.branch() {
            Some(branch) if branch == *self.name => head.filter(|head| repo.descends(*head, old)),
            Some(branch) => repo.branch_head(&branch).ok().flatten(),
            None => checkout.place.detached_at(),
        };
        repo.carry(&checkout.place, new, to.unwrap_or(old))
    }

    /// The checkout could not be taken back.
    fn left(&self, error: Error, why: &Uncarried) -> Error {
        let place = self.checkout.path.display().to_string();
        let why = error_chain(why);
        let message =
            format!("{}, and the checkout in {place} still has what was to be landed: {why}", error.message);
        Error { message, ..error }.hint(bring_along(&place, self.new, self.name))
    }
}

/// How the user brings a checkout along whose branch has moved. Git looks after changes in it: the first command tells
/// git what the files are based on and changes none, and the second one refuses to write over a change.
fn bring_along(place: &str, base: CommitId, name: &BranchName) -> String {
    let (place, name) = (shell_quote(place), shell_quote(name));
    let base = base.short();
    format!(
        "bring its files along: `git -C {place} switch --detach {base}`, then `git -C {place} switch {name}`"
    )
}
