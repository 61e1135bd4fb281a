//! One pass: at most one step per branch (CONTRACT.md §11), and the loop of passes that `--drain` asks for.

use std::collections::HashSet;

use crate::clock;
use crate::contract::ids::{BranchName, CommitId};
use crate::contract::lease::Lease;
use crate::git::{ProcessError, Repo};

use super::Context;
use super::arbiter::ArbiterError;
use super::attempt::{AttemptError, check_log_directory};
use super::dispatch::{Dispatched, dispatch};
use super::notice::{Notice, StepReport};
use super::recover::{recover, sweep};
use super::scan::{ScanError, Scanned, Verdict, scan};
use crate::git::worktree::WorktreeError;

/// Why a pass could not be made. Nothing was claimed.
#[derive(Debug, thiserror::Error)]
pub enum PassError {
    /// The branches could not be looked at.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// There is no place for worktrees.
    #[error(transparent)]
    Worktrees(#[from] WorktreeError),
    /// The remote could not be asked what there is.
    #[error(transparent)]
    Remote(#[from] ArbiterError),
    /// There is no git program.
    #[error(transparent)]
    Git(#[from] ProcessError),
    /// There is no place for logs.
    #[error(transparent)]
    Logs(#[from] AttemptError),
}

/// A HEAD dated further ahead than this is worth a warning, seconds: clocks differ a little, always.
const CLOCK_TOLERANCE: u64 = 10;

/// What passes did, added up.
#[derive(Debug, Default)]
pub struct Summary {
    /// How many passes.
    pub passes: u64,
    /// Branches looked at in the last pass.
    pub branches: usize,
    /// All steps, in the order they ended.
    pub steps: Vec<StepReport>,
    /// Expired leases closed.
    pub recovered: usize,
    /// Branches others took first.
    pub beaten: usize,
    /// Claims that could not be tried.
    pub failed: Vec<String>,
    /// Whether the remote was to blame for one of those.
    pub remote_trouble: bool,
    /// When the next lease that is alive now ends, seconds since the epoch.
    pub next_expiry: Option<i64>,
    /// When the first parked branch may be run, seconds since the epoch.
    pub next_wake: Option<i64>,
}

impl Summary {
    fn add(&mut self, pass: Self) {
        self.passes += pass.passes;
        self.branches = pass.branches;
        self.steps.extend(pass.steps);
        self.recovered += pass.recovered;
        self.beaten += pass.beaten;
        self.failed.extend(pass.failed);
        self.remote_trouble |= pass.remote_trouble;
        self.next_expiry = pass.next_expiry;
        self.next_wake = pass.next_wake;
    }

    /// Whether this pass found something to do, so that another may find more.
    pub fn did_something(&self) -> bool {
        !self.steps.is_empty() || self.recovered > 0 || self.beaten > 0
    }

    /// Whether a command of these passes did not end well.
    pub fn any_failure(&self) -> bool {
        self.steps.iter().any(|step| step.outcome.is_failure())
    }
}

/// Branches and the triggers that were run on them.
pub type Done = HashSet<(BranchName, CommitId)>;

/// One pass.
pub fn pass(context: &Context<'_>, repo: &Repo) -> Result<Summary, PassError> {
    pass_beyond(context, repo, &Done::new())
}

/// One pass that leaves alone what is done: a branch that is back at a commit whose command has run would otherwise be
/// run again and again, by a command that sets its own branch back.
fn pass_beyond(context: &Context<'_>, repo: &Repo, done: &Done) -> Result<Summary, PassError> {
    context.arbiter.refresh(repo)?;
    let mut summary = Summary { passes: 1, recovered: sweep(context, repo, None), ..Summary::default() };
    let now = clock::wall_seconds();
    let mut candidates = Vec::new();
    let mut admitted = 0_usize;
    for Scanned { branch, verdict, .. } in scan(repo, context.arbiter, context.options, now)? {
        summary.branches += 1;
        admitted += usize::from(context.options.selection.admits(&branch));
        let passed_over =
            |reason: String| (context.tell)(Notice::PassedOver { branch: branch.clone(), reason });
        match verdict {
            Verdict::Unmanaged => passed_over("HEAD declares no state".to_owned()),
            Verdict::Excluded { reason } => passed_over(reason),
            Verdict::Passed { reason, event, mistake: false } => {
                passed_over(format!("{}: {reason}", event.state))
            }
            Verdict::Passed { reason, event, mistake: true } => {
                let text = format!("{} was not run: {reason}", event.state);
                (context.tell)(Notice::Warning { branch: Some(branch), text });
            }
            Verdict::Invalid { why } => (context.tell)(Notice::Warning { branch: Some(branch), text: why }),
            Verdict::Held(lease) => {
                warn_if_ahead(context, &branch, &lease, now);
                let until = lease.expires_at();
                summary.next_expiry = Some(summary.next_expiry.map_or(until, |earlier| earlier.min(until)));
                passed_over(format!("{} holds it for another {} s", lease.runner, until.saturating_sub(now)));
            }
            Verdict::Parked { event, until } => {
                summary.next_wake = Some(summary.next_wake.map_or(until, |earlier| earlier.min(until)));
                passed_over(format!("{}: is parked until {}", event.state, clock::format_utc(until)));
            }
            Verdict::Expired(lease) => {
                if context.shutdown.requested().is_none() && recover(context, repo, &branch, &lease, now) {
                    summary.recovered += 1;
                }
            }
            Verdict::Ready(candidate) if done.contains(&(branch.clone(), candidate.event.commit)) => {
                passed_over(
                    "its command has run already; the branch was set back to the same commit".to_owned(),
                );
            }
            Verdict::Ready(candidate) => candidates.push(candidate),
        }
    }
    let globs = &context.options.selection.globs;
    if !globs.is_empty() && admitted == 0 {
        let text = "no branch matches --branch; `git branch` lists the branches there are".to_owned();
        (context.tell)(Notice::Warning { branch: None, text });
    }
    if !candidates.is_empty() {
        check_log_directory(repo)?;
        repo.check_git()?;
        repo.check_worktree_directory(&context.options.worktrees)?;
    }
    let Dispatched { steps, beaten, failed, remote_trouble } = dispatch(context, repo, candidates);
    summary.steps = steps;
    summary.beaten = beaten;
    summary.failed = failed;
    summary.remote_trouble = remote_trouble;
    Ok(summary)
}

/// Passes until one finds nothing to do; leaves alone what is `done`, and adds to it.
pub fn drain(context: &Context<'_>, repo: &Repo, done: &mut Done) -> Result<Summary, PassError> {
    let mut total = Summary::default();
    loop {
        let one = pass_beyond(context, repo, done)?;
        done.extend(one.steps.iter().map(|step| (step.branch.clone(), step.trigger)));
        let go_on = one.did_something() && context.shutdown.requested().is_none();
        total.add(one);
        if !go_on {
            return Ok(total);
        }
    }
}

fn warn_if_ahead(context: &Context<'_>, branch: &BranchName, lease: &Lease, now: i64) {
    if let Some(ahead) = lease.dated_ahead(now, CLOCK_TOLERANCE) {
        let text = format!(
            "its lease is dated {ahead} s ahead of this host's clock (lease by {}: {}, here: {}); one of the two clocks is wrong, \
             and leases end late or early until it is set",
            lease.runner,
            clock::format_utc(lease.committed_at),
            clock::format_utc(now),
        );
        (context.tell)(Notice::Warning { branch: Some(branch.clone()), text });
    }
}
