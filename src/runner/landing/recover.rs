//! Recovery: closes expired leases, and saves and removes worktrees of dead runners (CONTRACT 5.5, 5.11,
//! 5.13, 9.8).
//!
//! Invariant: a lease is closed by a compare-and-swap as every move is, so of two recoverers one wins. A
//! worktree is touched only if it has a runner's mark, the lock of its runner is free, and its attempt is
//! over.

use std::path::PathBuf;
use std::time::Duration;

use bstr::ByteSlice;

use crate::clock;
use crate::contract::cancel::{Cancel, Then, mark};
use crate::contract::commits::stalled_draft;
use crate::contract::head::Head;
use crate::contract::headlog::Origin;
use crate::contract::ids::{AttemptId, BranchName, CommitId};
use crate::contract::kept::Kept;
use crate::contract::layout::rescue_ref;
use crate::contract::lease::{Lease, Liveness};
use crate::contract::message::Message;
use crate::contract::report::{StalledReport, stalled_body};
use crate::contract::story::AWAITED;
use crate::fsutil;
use crate::git::contents::rescue::Saved;
use crate::git::objects::commits::{NewCommit, Stored};
use crate::git::remote::Move;
use crate::git::worktrees::held::Worktree;
use crate::git::worktrees::registration::Mark;
use crate::git::worktrees::worktree::Found;
use crate::git::{Repo, Swap};
use crate::runner::events::warning::Warning;
use crate::runner::survey::line::line;
use crate::supervise::occupants;

use crate::runner::attempt::cancel::of_lease;
use crate::runner::attempt::files;
use crate::runner::attempt::ground::{Ground, Taken};
use crate::runner::events::notice::Notice;
use crate::runner::landing::salvage::{Disposal, Fate, Work, dispose, keep, save};
use crate::runner::landing::{rescue_sentence, retry_sentence};
use crate::runner::survey::trust;
use crate::runner::{Context, error_chain, shows_rescued};

/// The part of a log's end that is read for a stalled body, in bytes.
const TAIL: u64 = 64 * 1024;

/// Tries to take the lock of an attempt's worktree.
const TRIES: u32 = 20;

/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(50);

/// The evidence that a lease has expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    /// By its date, it ended so many seconds ago.
    Dated(u64),
    /// This host has seen it at HEAD for so many seconds, longer than it lasts.
    Seen(u64),
}

/// The outcome of closing a lease.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closing {
    Closed,
    /// The branch was moved first: the lease was closed by another recoverer, or renewed.
    Lost,
    /// Closing failed; a warning has been sent.
    Failed {
        /// Whether the server refused.
        refused: bool,
    },
}

/// Closes an expired lease that is HEAD.
pub(crate) fn recover(
    context: &Context<'_>,
    repo: &Repo,
    branch: &BranchName,
    lease: &Lease,
    over: Over,
) -> Closing {
    let closer = Closer { context, repo, branch, lease };
    closer.close(over, Taken { from: lease.commit, without: None })
}

/// Closes one expired lease, whose `commit` is HEAD.
#[derive(Clone, Copy)]
struct Closer<'a> {
    context: &'a Context<'a>,
    repo: &'a Repo,
    branch: &'a BranchName,
    lease: &'a Lease,
}

/// The worktree of an attempt whose lease is closed.
struct Abandoned {
    /// Locked by us.
    worktree: Worktree,
    /// Whether a process was in it when it was saved.
    was_occupied: bool,
    /// The commit its files are based on.
    base: CommitId,
    /// Its work, if there was any that only it had; else why that could not be saved.
    saved: Result<Option<Saved>, String>,
}

impl Closer<'_> {
    /// Closes the lease. The stalled commit has the files of `taken`.
    fn close(&self, over: Over, taken: Taken) -> Closing {
        // The work is saved first, because the stalled commit names the rescue.
        let mut notes: Vec<String> = taken.note(self.repo).into_iter().collect();
        let abandoned = match self.save_work(&mut notes) {
            Ok(abandoned) => abandoned,
            Err(why) => return self.unclosed(why, false),
        };
        let headline = self.headline(over);
        let cancel = of_lease(self.repo, &self.context.options.trust, self.branch, self.lease);
        if let Some(cancel) = &cancel {
            notes.push(format!("Before that, it was {cancel}."));
        }
        if let Some(failed) = &self.lease.origin {
            notes.push(retry_sentence(self.context, self.branch, Some(failed)));
        }
        let new = match self.write(&headline, notes, taken, cancel) {
            Ok(new) => new,
            Err(why) => return self.unclosed(why, false),
        };
        crate::crashpoint::reach(crate::crashpoint::Point::StalledWritten);
        let (branch, expected) = (self.branch.clone(), self.lease.commit);
        let wanted = Move { branch, expected, new, within: None };
        match self.context.authority.swap(self.repo, wanted, "aynig: recover an expired lease") {
            Ok(Swap::Won) => {}
            Ok(Swap::Lost { .. }) => return Closing::Lost,
            Err(error) => return self.unclosed(error_chain(&error), error.is_final()),
        }
        crate::crashpoint::reach(crate::crashpoint::Point::StalledMoved);
        self.tidy(new, headline, abandoned);
        Closing::Closed
    }

    fn unclosed(&self, why: String, refused: bool) -> Closing {
        self.context.warn(Some(self.branch), Warning::LeaseNotClosed { why });
        Closing::Failed { refused }
    }

    /// Saves the work in the attempt's worktree, if that is on this host. `notes` get what is to be said of it.
    fn save_work(&self, notes: &mut Vec<String>) -> Result<Option<Abandoned>, String> {
        let (repo, head) = (self.repo, self.lease.commit);
        let Some(attempt) = self.lease.attempt() else { return Ok(None) };
        let worktree = match found_of(repo, attempt)? {
            Found::Free(worktree) => worktree,
            Found::Held => {
                notes.push(awaited_sentence(self.branch, attempt));
                return Ok(None);
            }
            Found::Missing => return Ok(None),
        };
        let was_occupied = !occupants(&worktree.path).is_empty();
        // If HEAD is detached, as for a remote's branch, only HEAD has the command's commits.
        let base = base_of(repo, &worktree, Some(head)).unwrap_or(head);
        let saved = save(repo, &worktree, base, Some(head));
        match &saved {
            Ok(Some(found)) => notes.push(rescue_sentence(found)),
            Ok(None) => {}
            Err(why) => notes.push(format!("Left in place: {} ({why}).", worktree.path.display())),
        }
        Ok(Some(Abandoned { worktree, was_occupied, base, saved }))
    }

    /// The lease's holder and the reason why it was closed, in one sentence.
    fn headline(&self, over: Over) -> String {
        let lease = self.lease;
        let runner = match lease.runner.to_str_lossy() {
            name if name.is_empty() => "an unnamed runner".to_owned(),
            name => name.into_owned(),
        };
        let state = lease.origin.as_ref().map_or("?", |origin| origin.as_str());
        let stored = self.repo.commit(lease.commit).ok();
        let kept = stored.and_then(|stored| Kept::of(&Message::parse(&stored.message)));
        let over = match over {
            Over::Dated(over) => format!("ended {} before it was found here", clock::span(over)),
            Over::Seen(seen) => {
                let lasts = clock::span(lease.seconds);
                format!("lasts {lasts} and was seen here for {}", clock::span(seen))
            }
        };
        // The first words become the title.
        match kept {
            None => {
                format!("The lease of {runner} for `{state}` {over}; its runner did not renew it.")
            }
            Some(kept) => {
                format!("`{state}` had ended: {}; the lease that {runner} kept {over}.", kept.words())
            }
        }
    }

    /// Writes the stalled commit, with the end of what the command printed if that is on this host.
    fn write(
        &self,
        headline: &str,
        notes: Vec<String>,
        taken: Taken,
        cancel: Option<Cancel>,
    ) -> Result<CommitId, String> {
        let (repo, lease) = (self.repo, self.lease);
        let record = lease.attempt().and_then(|attempt| files::find(repo, attempt));
        let tail =
            |path: Option<&PathBuf>| path.and_then(|path| fsutil::tail(path, TAIL).ok()).unwrap_or_default();
        let stdout = tail(record.as_ref().map(|record| &record.stdout));
        let stderr = tail(record.as_ref().map(|record| &record.stderr));
        let headline = vec![headline.to_owned()];
        let body = stalled_body(&StalledReport { headline, notes, stdout: &stdout, stderr: &stderr });
        let mut draft = stalled_draft(lease.run_id.as_bstr(), lease.origin.as_ref(), &body);
        if cancel.is_some_and(|cancel| cancel.then == Then::Stall) {
            mark(&mut draft);
        }
        let message = draft.encode().map_err(|error| error_chain(&error))?;
        let tree = taken.tree(repo)?;
        repo.write_commit(&NewCommit { tree, parents: &[lease.commit], message: &message, attempt: None })
            .map_err(|error| error_chain(&error))
    }

    /// Reports the closed lease, whose stalled commit is `new`, and ends what its attempt has left here.
    fn tidy(&self, new: CommitId, why: String, abandoned: Option<Abandoned>) {
        let (context, repo, lease) = (self.context, self.repo, self.lease);
        if let Some(attempt) = lease.attempt() {
            forget(context, repo, attempt);
        }
        let rescued = abandoned.as_ref().and_then(|left| left.saved.as_ref().ok()?.clone());
        context.report(&Notice::Recovered {
            branch: self.branch.clone(),
            commit: new,
            run_id: lease.run_id.clone(),
            origin: lease.origin.clone(),
            why,
            rescued,
        });
        let Some(Abandoned { worktree, was_occupied, base, saved }) = abandoned else { return };
        match saved {
            Err(why) => leave(context, repo, worktree, new, &why),
            Ok(saved) => {
                // A process in it may have written since the rescue.
                let work =
                    if was_occupied { Work::On { base, kept: Some(lease.commit) } } else { Work::Saved };
                let disposal = Disposal { work, head: new, pool: false, frees_branch: true };
                end_worktree(context, repo, worktree, disposal, saved.as_ref());
            }
        }
    }
}

/// Disposes of a worktree and reports the outcome, except for work that is already `reported`.
fn end_worktree(
    context: &Context<'_>,
    repo: &Repo,
    worktree: Worktree,
    disposal: Disposal,
    reported: Option<&Saved>,
) {
    let (branch, path) = (worktree.mark.branch.clone(), worktree.path.clone());
    let report = |saved: Option<Saved>| {
        if let Some(saved) = saved.filter(|saved| Some(saved) != reported) {
            context.report(&Notice::Rescued { branch: branch.clone(), saved });
        }
    };
    match dispose(repo, worktree, disposal) {
        Fate::Gone { saved } => report(saved),
        Fate::InUse { .. } => {}
        Fate::Kept { why } => context.warn(Some(&branch), Warning::WorktreeKept { path, why }),
        Fate::Stuck { saved, why } => {
            report(saved);
            context.warn(Some(&branch), Warning::WorktreeNotRemoved { path, why });
        }
    }
}

/// Keeps a worktree for the user, with a warning.
fn leave(context: &Context<'_>, repo: &Repo, worktree: Worktree, head: CommitId, why: &str) {
    let warning = Warning::WorktreeKept { path: worktree.path.clone(), why: why.to_owned() };
    context.warn(Some(&worktree.mark.branch), warning);
    keep(repo, worktree, head, why);
}

/// Saves and removes worktrees of attempts that are over. `only` restricts it to one branch, which is about
/// to be used and must be free. Returns the number of leases closed.
pub(crate) fn sweep(context: &Context<'_>, repo: &Repo, only: Option<&BranchName>) -> usize {
    let mut closed = 0;
    let wanted = |mark: &Mark| only.is_none_or(|only| *only == mark.branch);
    let abandoned = match repo.abandoned_worktrees(wanted) {
        Ok(abandoned) => abandoned,
        Err(error) => {
            tracing::warn!(%error, "worktrees of earlier runners were not looked at");
            return closed;
        }
    };
    for worktree in abandoned {
        let branch = worktree.mark.branch.clone();
        let known = match &worktree.mark.remote {
            None => repo.branch_head(&branch),
            Some(remote) => repo.fetched_head(remote, &branch),
        };
        let Ok(head) = known else { continue };
        if let Some((head, mut lease)) = head.and_then(|head| {
            Some((head, lease_of(repo, &worktree.mark.branch, head, worktree.mark.attempt)?))
        }) {
            // The scan judges a lease at HEAD. Below the command's own commits a lease is hidden, and only
            // the worktree leads to it (CONTRACT 5.13).
            let ours = worktree.mark.remote.as_ref() == context.authority.source();
            if lease.commit != head
                && ours
                && context.options.selection.admits(&branch)
                && let Liveness::Expired { over } = lease.liveness(clock::wall_seconds())
            {
                let trust = &context.options.trust;
                if let Some(reason) = trust::refused(repo, trust, lease.commit) {
                    let remote = context.authority.source().cloned();
                    let about = branch.clone();
                    let warning = Warning::LeaseNotTrusted { about, remote, head, why: reason };
                    context.warn_at(&branch, Some(head), warning);
                    continue;
                }
                let ground = Ground::new(repo, worktree.mark.attempt, lease.commit, Some(&worktree.git_dir));
                let taken = ground.taken(trust, head);
                drop(worktree);
                lease.commit = head;
                // Its runner ran on this host and is dead: its lock is free, whatever the clocks show.
                let over = Over::Dated(over);
                let closer = Closer { context, repo, branch: &branch, lease: &lease };
                closed += usize::from(closer.close(over, taken) == Closing::Closed);
            }
            continue;
        }
        if only.is_none() && !occupants(&worktree.path).is_empty() {
            // A process still works there, and no step needs the branch. It is saved once the process is
            // gone, not in every pass.
            continue;
        }
        let Some(base) = base_of(repo, &worktree, head) else { continue };
        crate::crashpoint::reach(crate::crashpoint::Point::AbandonedHeld);
        forget(context, repo, worktree.mark.attempt);
        // If it stays, its branch must be free for the next step.
        let work = Work::On { base, kept: head };
        let disposal = Disposal { work, head: base, pool: false, frees_branch: only.is_some() };
        end_worktree(context, repo, worktree, disposal, None);
    }
    closed
}

/// The commit that the files of an abandoned worktree are based on. An attached HEAD cannot be used, since it
/// moves with the branch; the base is then the attempt's lease, or its own commits on it.
pub(crate) fn base_of(repo: &Repo, worktree: &Worktree, head: Option<CommitId>) -> Option<CommitId> {
    let lease =
        files::find(repo, worktree.mark.attempt).and_then(|record| CommitId::parse_hex(&record.lease));
    // The files are not based on a foreign commit that was never checked out here. A commit with a state came
    // after the attempt, and is no such commit.
    let is_strange = |head, lease| {
        let ground = Ground::new(repo, worktree.mark.attempt, lease, Some(&worktree.git_dir));
        let Origin::Elsewhere(commit) = ground.origin(head) else { return false };
        let declares = |stored: Stored| Head::read(&stored.facts()).state().is_some();
        !repo.commit(commit).is_ok_and(declares)
    };
    let base = match (head, lease) {
        (Some(head), Some(lease)) if repo.descends(head, lease) && !is_strange(head, lease) => Some(head),
        (_, Some(lease)) if repo.commit(lease).is_ok() => {
            Some(repo.committed_within(&worktree.git_dir, lease))
        }
        (head, _) => head,
    };
    worktree.detached_at().or(base)
}

/// The lease of `attempt`, live or expired, if the branch is still under it; then its worktree is still
/// needed. Its date is that of HEAD if later, since HEAD may be the command's own commit (CONTRACT 5.13).
pub fn lease_of(repo: &Repo, branch: &BranchName, head: CommitId, attempt: AttemptId) -> Option<Lease> {
    let mut newest = None;
    for stored in line(repo, branch, head) {
        let newest = *newest.get_or_insert(stored.committed_at);
        match Head::read(&stored.facts()) {
            Head::Working(lease) if lease.attempt() == Some(attempt) => {
                return Some(Lease { committed_at: lease.committed_at.max(newest), ..lease });
            }
            Head::Working(_) | Head::Ready(_) | Head::Invalid(_) => return None,
            Head::Unmanaged => {}
        }
    }
    None
}

/// Takes the lock of a dead runner's worktree. Another recoverer may hold it for a moment, so it is tried a
/// few times. A longer wait is useless: a live runner whose lease expired keeps the lock, and any holder
/// saves the work itself.
fn found_of(repo: &Repo, attempt: AttemptId) -> Result<Found, String> {
    for _ in 0..TRIES {
        match repo.worktree_of(attempt).map_err(|error| error_chain(&error))? {
            Found::Held => clock::pause(PAUSE),
            found @ (Found::Free(_) | Found::Missing) => return Ok(found),
        }
    }
    Ok(Found::Held)
}

/// The sentence that names the future rescue of a worktree held by another process. Readers do not take it
/// for a rescue that was made, since there may be nothing to save.
fn awaited_sentence(branch: &BranchName, attempt: AttemptId) -> String {
    let reference = rescue_ref(branch, &attempt.to_string());
    format!(
        "Another process on this host, its runner or one that recovers it, still has hold of its worktree. When that is done, \
         {AWAITED} {}",
        shows_rescued(reference)
    )
}

/// Removes useless files of a dead runner's attempt: its body and its unfinished files.
fn forget(context: &Context<'_>, repo: &Repo, attempt: AttemptId) {
    files::forget_body(repo, attempt);
    files::forget_drafts(repo);
    fsutil::remove_drafts(&context.options.worktrees);
}
