//! One look at every selected branch's HEAD, and nothing but HEAD (CONTRACT.md §2, §11).
//!
//! Invariant: a scan writes nothing, starts no process for a branch, and every branch it passes over has a reason.
//! A pass and `aynig status` read the same scan, so they cannot disagree.

use std::collections::HashMap;
use std::num::NonZero;
use std::thread;

use crate::contract::head::{Event, Head};
use crate::contract::ids::{BranchName, CommitId, RemoteName};
use crate::contract::lease::{Lease, Liveness};
use crate::contract::parking::{Parking, parking};
use crate::contract::sighting::Watched;
use crate::git::registration::{Owner, Registered};
use crate::git::swap::Tip;
use crate::git::worktree::WorktreeError;
use crate::git::{Checkout, CommitError, RefError, Repo};

use super::super::arbiter::Arbiter;
use super::super::options::{CurrentBranch, Options};
use super::resolve::{self, Command, NoCommand, Pause, Resolver};
use super::trust::{self, CommandsFrom};

/// A thread more is worth it from this many branches on.
const SHARE: usize = 500;

/// Reading commits is mostly work for the memory, which more threads do not make faster.
const MOST_THREADS: usize = 8;

/// Why the current branch is left alone.
pub const LEFT_ALONE: &str = "is checked out here; use --current-branch include or only to run it in place";

/// Why a scan could not be made at all.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    /// Refs.
    #[error(transparent)]
    Refs(#[from] RefError),
    /// Worktrees.
    #[error(transparent)]
    Worktrees(#[from] WorktreeError),
    /// `--current-branch only` where there is none.
    #[error("there is no current branch: {why}")]
    NoCurrentBranch {
        /// Bare, or detached.
        why: &'static str,
    },
    /// The same where a remote decides and the checked-out branch has no upstream there.
    #[error(
        "there is no current branch on {remote}: {local}, which is checked out here, follows no branch of it"
    )]
    FollowsNone {
        /// The branch that is checked out.
        local: BranchName,
        /// The remote.
        remote: RemoteName,
    },
}

/// Where a command is to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Venue {
    /// In a worktree of its own.
    Worktree,
    /// In the checkout the runner was started in.
    InPlace,
}

/// A branch that can be claimed.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The branch.
    pub branch: BranchName,
    /// What its HEAD asks for.
    pub event: Event,
    /// The command that does it.
    pub command: Command,
    /// Where.
    pub venue: Venue,
}

/// What one branch is.
#[derive(Debug, Clone)]
pub enum Verdict {
    /// HEAD declares no state.
    Unmanaged,
    /// HEAD declares something that is no state, or cannot be read.
    Invalid {
        /// What is wrong.
        why: String,
    },
    /// A live lease.
    Held(Lease),
    /// A lease that has run out.
    Expired(Lease),
    /// A state whose time has not come.
    Parked {
        /// What HEAD asks for.
        event: Event,
        /// The second it may be run, since the epoch.
        until: i64,
    },
    /// A state that is not run.
    Passed {
        /// What HEAD asks for.
        event: Event,
        /// Why not here and now.
        reason: String,
        /// What kind of reason that is.
        pause: Pause,
    },
    /// Ready to be claimed.
    Ready(Candidate),
    /// It would be, but it is the current branch, and that is left alone.
    LeftAlone(Event),
    /// Not selected, or not a branch to run; HEAD was not even read.
    Excluded {
        /// Why.
        reason: String,
    },
}

/// One branch as seen.
#[derive(Debug, Clone)]
pub struct Scanned {
    /// The branch.
    pub branch: BranchName,
    /// Its HEAD; none for a symbolic ref.
    pub head: Option<CommitId>,
    /// What it is.
    pub verdict: Verdict,
    /// For how long this host has seen its lease, where that was asked.
    pub watched: Option<Watched>,
}

/// Looks at all selected branches at `now` (seconds since the epoch).
pub fn scan(repo: &Repo, arbiter: &Arbiter, options: &Options, now: i64) -> Result<Vec<Scanned>, ScanError> {
    let view = View::new(repo, arbiter, options)?;
    let tips = arbiter.branches(repo)?;
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS);
    let share = tips.len().div_ceil(threads).max(SHARE);
    if tips.len() <= share {
        return view.judge_all(repo, options, tips, now);
    }
    let mut shares = Vec::new();
    let mut tips = tips.into_iter();
    while tips.len() > 0 {
        shares.push(tips.by_ref().take(share).collect::<Vec<Tip>>());
    }
    let (view, store) = (&view, repo.store());
    let judged = thread::scope(|scope| {
        let workers: Vec<_> = shares
            .into_iter()
            .map(|tips| {
                let store = &store;
                scope.spawn(move || view.judge_all(&store.handle(), options, tips, now))
            })
            .collect();
        let ended = workers.into_iter().map(thread::ScopedJoinHandle::join);
        ended
            .map(|worker| worker.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect::<Vec<_>>()
    });
    let mut seen = Vec::new();
    for share in judged {
        seen.append(&mut share?);
    }
    Ok(seen)
}

/// What is the same for all branches of a scan.
struct View {
    /// Seconds by which the clock that dated a lease may be ahead of or behind ours.
    skew: i64,
    current: Option<BranchName>,
    /// Branches that are checked out in a worktree that is not ours.
    elsewhere: HashMap<BranchName, Elsewhere>,
    /// Where all commands come from, if that is settled; or why it cannot be found.
    commands: Result<Option<CommandsFrom>, String>,
}

struct Elsewhere {
    words: String,
}

impl View {
    fn new(repo: &Repo, arbiter: &Arbiter, options: &Options) -> Result<Self, ScanError> {
        let here = repo.checkout();
        let checked_out = here.as_ref().and_then(|checkout| checkout.branch.clone());
        let current = match arbiter.source() {
            None => checked_out.clone(),
            // Of a remote's branches the current one is what the checked-out branch follows.
            Some(remote) => checked_out.as_ref().and_then(|branch| repo.upstream_on(branch, remote)),
        };
        if options.selection.current == CurrentBranch::Only && current.is_none() {
            if let (Some(local), Some(remote)) = (checked_out, arbiter.source()) {
                return Err(ScanError::FollowsNone { local, remote: remote.clone() });
            }
            let why = if here.is_none() { "the repository is bare" } else { "HEAD is detached" };
            return Err(ScanError::NoCurrentBranch { why });
        }
        let commands = trust::commands_from(repo, arbiter, &options.trust);
        let commands = commands.map_err(|error| super::super::error_words(&error));
        let mut elsewhere = HashMap::new();
        if arbiter.source().is_some() {
            // A remote's branches are run detached: no checkout of a local branch is in their way.
            let skew = i64::try_from(options.skew_seconds).unwrap_or(i64::MAX);
            return Ok(Self { skew, current, elsewhere, commands });
        }
        let mut note = |branch: Option<BranchName>, words: String| {
            if let Some(branch) = branch {
                elsewhere.entry(branch).or_insert(Elsewhere { words });
            }
        };
        if let Some(checkout) = &here
            && let Some(branch) = repo.branch_in_progress().filter(|branch| Some(branch) != current.as_ref())
        {
            let words = format!("a rebase or bisect of it is under way in {}", checkout.path.display());
            note(Some(branch), words);
        }
        let own = here.map(|checkout| checkout.place.git_dir);
        if let Some(main) = repo.main_checkout().filter(|main| Some(&main.git_dir) != own.as_ref()) {
            note(main.branch, format!("is checked out in {}", main.place.path.display()));
        }
        for Registered { checkout, owner } in repo.linked_worktrees()? {
            if Some(&checkout.git_dir) == own.as_ref() {
                continue;
            }
            match owner {
                None | Some(Owner::Kept { .. } | Owner::Pool) => {
                    note(checkout.branch, format!("is checked out in {}", checkout.place.path.display()))
                }
                // Ours: if its runner lives, the branch is not free yet; if not, the claim makes room.
                Some(Owner::Attempt(mark)) if repo.is_held(&checkout.place.git_dir) => note(
                    checkout.branch,
                    format!(
                        "attempt {} is still in its worktree {}",
                        mark.attempt,
                        checkout.place.path.display()
                    ),
                ),
                Some(Owner::Attempt(_)) => {}
            }
        }
        Ok(Self { skew: 0, current, elsewhere, commands })
    }

    /// Judges some of the branches, in their order.
    fn judge_all(
        &self,
        repo: &Repo,
        options: &Options,
        tips: Vec<Tip>,
        now: i64,
    ) -> Result<Vec<Scanned>, ScanError> {
        let mut resolver = Resolver::new(options.role.as_ref());
        tips.into_iter()
            .map(|Tip { branch, target }| {
                let head = target.as_ref().ok().copied();
                let verdict = match target {
                    Err(target) => Verdict::Excluded {
                        reason: format!("is a symbolic ref to {target}; that branch is looked at instead"),
                    },
                    Ok(head) => self.judge(repo, options, &mut resolver, &branch, head, now)?,
                };
                Ok(Scanned { branch, head, verdict, watched: None })
            })
            .collect()
    }

    fn judge(
        &self,
        repo: &Repo,
        options: &Options,
        resolver: &mut Resolver<'_>,
        branch: &BranchName,
        head: CommitId,
        now: i64,
    ) -> Result<Verdict, ScanError> {
        let excluded = |reason: &str| Ok(Verdict::Excluded { reason: reason.to_owned() });
        let passed = |event, reason, pause| Ok(Verdict::Passed { event, reason, pause });
        let is_current = self.current.as_ref() == Some(branch);
        match options.selection.current {
            CurrentBranch::Skip if is_current => {
                // A signature is looked at only of what is run.
                if options.selection.admits(branch)
                    && !options.trust.require_signed
                    && let Ok((event, _, _)) = self.wanted(repo, options, resolver, branch, head, now)
                {
                    return Ok(Verdict::LeftAlone(event));
                }
                return excluded(LEFT_ALONE);
            }
            CurrentBranch::Only if !is_current => {
                return excluded("is not the current branch (--current-branch only)");
            }
            CurrentBranch::Skip | CurrentBranch::Include | CurrentBranch::Only => {}
        }
        if !options.selection.admits(branch) {
            return excluded("does not match --branch");
        }
        let (event, command, venue) = match self.wanted(repo, options, resolver, branch, head, now) {
            Ok(wanted) => wanted,
            Err(verdict) => return Ok(*verdict),
        };
        if let Some(Elsewhere { words }) = self.elsewhere.get(branch) {
            return passed(event, words.clone(), Pause::Waits);
        }
        if venue == Venue::InPlace
            && let Some(here) = repo.checkout()
            && let Some(local) = here.branch
            && repo.branch_head(&local)? != Some(head)
        {
            let reason = format!("{local} in this checkout is not at the same commit; pull (or push) first");
            return passed(event, reason, Pause::Mistake);
        }
        if venue == Venue::InPlace
            && let Some(here) = repo.checkout()
            && let Some(reason) = index_trouble(repo, &here)
        {
            return passed(event, reason, Pause::Mistake);
        }
        Ok(Verdict::Ready(Candidate { branch: branch.clone(), event, command, venue }))
    }

    /// What HEAD asks for, by which command and where; else what the branch is instead. Starts no process.
    fn wanted(
        &self,
        repo: &Repo,
        options: &Options,
        resolver: &mut Resolver<'_>,
        branch: &BranchName,
        head: CommitId,
        now: i64,
    ) -> Result<(Event, Command, Venue), Box<Verdict>> {
        let is_current = self.current.as_ref() == Some(branch);
        let passed = |event, reason, pause| Err(Box::new(Verdict::Passed { event, reason, pause }));
        let stored = match repo.commit(head) {
            Ok(stored) => stored,
            Err(error) => return Err(Box::new(Verdict::Invalid { why: unreadable(head, &error) })),
        };
        let event = match Head::read(&stored.facts()) {
            Head::Unmanaged => return Err(Box::new(Verdict::Unmanaged)),
            Head::Invalid(invalid) => return Err(Box::new(Verdict::Invalid { why: invalid.reason })),
            Head::Working(lease) => {
                return Err(Box::new(match lease.liveness(now.saturating_sub(self.skew)) {
                    Liveness::Live { .. } => Verdict::Held(lease),
                    Liveness::Expired { .. } => Verdict::Expired(lease),
                }));
            }
            Head::Ready(event) => event,
        };
        let foreign = trust::foreign_branch(&options.trust, branch)
            .or_else(|| trust::foreign_state(&options.trust, &event.state));
        if let Some(reason) = foreign {
            return passed(event, reason, Pause::Waits);
        }
        match parking(&event.message.trailers, now) {
            Parking::Over => {}
            Parking::Until(until) => return Err(Box::new(Verdict::Parked { event, until })),
            Parking::Unreadable(reason) => return passed(event, reason, Pause::Mistake),
        }
        let venue = if is_current { Venue::InPlace } else { Venue::Worktree };
        let resolved = match (&self.commands, venue) {
            (Err(reason), _) => {
                return passed(event, reason.clone(), Pause::Mistake);
            }
            (Ok(Some(from)), _) => resolver.in_trusted(repo, from, &event.state),
            (Ok(None), Venue::InPlace) => {
                let top = repo.checkout().map(|here| here.place.path);
                Ok(resolve::on_disk(
                    top.as_deref().unwrap_or(repo.top()),
                    &event.state,
                    options.role.as_ref(),
                ))
            }
            (Ok(None), Venue::Worktree) => resolver.in_tree(repo, &stored, &event.state),
        };
        let command = match resolved {
            Ok(Ok(command)) => command,
            Ok(Err(NoCommand { reason, pause })) => return passed(event, reason, pause),
            Err(
                error @ (CommitError::Unreadable { .. }
                | CommitError::Unwritable { .. }
                | CommitError::Unsigned(_)
                | CommitError::Unsettled(_)),
            ) => {
                return passed(event, unreadable(head, &error), Pause::Mistake);
            }
        };
        Ok((event, command, venue))
    }
}

/// Why a command cannot run in a checkout, as its index is now, and how to mend that.
fn index_trouble(repo: &Repo, here: &Checkout) -> Option<String> {
    // What the command stages could not be stored either, so it had better not start.
    let lock = here.git_dir.join("index.lock");
    if lock.exists() {
        let lock = lock.display();
        return Some(format!(
            "{lock} is there; wait for the git that is at work, or remove it if there is none"
        ));
    }
    match repo.index_equals_head(&here.path) {
        Ok(true) => None,
        Ok(false) => Some(
            "has staged changes in this checkout; commit or unstage them first (`git restore --staged :/`)"
                .to_owned(),
        ),
        Err(error) => {
            let index = here.git_dir.join("index");
            Some(format!(
                "the index cannot be compared with HEAD: {error}; `git status` should say the same, and where the index is \
                 damaged `rm {} && git reset` makes it anew",
                index.display()
            ))
        }
    }
}

/// An object that cannot be read, and what may help.
fn unreadable(head: CommitId, error: &CommitError) -> String {
    format!(
        "{error}; `git fsck` tells what is damaged, and `git ls-tree -r {head}` fetches what a partial clone has left out"
    )
}
