//! One pass: at most one step per branch (CONTRACT.md §11), and the loop of passes that `--drain` asks for.

use std::collections::HashMap;
use std::time::Duration;

use bstr::ByteSlice;

use crate::clock;
use crate::contract::ids::{BranchName, CommitId};
use crate::contract::lease::{Lease, Liveness};
use crate::contract::sighting::Watched;
use crate::git::Repo;
use crate::git::config::ConfigError;

use super::arbiter_error::ArbiterError;
use super::attempt::{AttemptError, check_log_directory};
use super::dispatch::{Dispatched, Unclaimed, dispatch};
use super::memory::Memory;
use super::notice::{Notice, StepReport};
use super::options::Takeover;
use super::recover::{Closing, Over, recover, sweep};
use super::survey::observe::{next_due, observe};
use super::survey::resolve::Pause;
use super::survey::scan::{LEFT_ALONE, ScanError, Scanned, Verdict, scan};
use super::survey::trust::{self, TrustError};
use super::{Context, error_words};
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
    /// There is no git program, or it does not read what is read here.
    #[error(transparent)]
    Git(#[from] ConfigError),
    /// There is no place for logs.
    #[error(transparent)]
    Logs(#[from] AttemptError),
    /// The commands are nowhere to be found.
    #[error(transparent)]
    Trust(#[from] TrustError),
}

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
    /// How long until the next lease has been seen for long enough, where that decides.
    pub next_due: Option<Duration>,
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
        self.next_due = pass.next_due;
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

/// One pass.
pub fn pass(context: &Context<'_>, repo: &Repo) -> Result<Summary, PassError> {
    pass_beyond(context, repo, &mut Memory::default())
}

/// One pass that leaves alone what is done: a branch that is back at a commit whose command has run would otherwise be
/// run again and again, by a command that sets its own branch back. So is what a server has refused.
fn pass_beyond(context: &Context<'_>, repo: &Repo, memory: &mut Memory) -> Result<Summary, PassError> {
    for name in repo.release_dead_locks() {
        let text = format!("a runner that was killed had left {name} locked; the lock was removed");
        (context.tell)(Notice::Warning { branch: None, text });
    }
    context.arbiter.refresh(repo)?;
    trust::commands_from(repo, context.arbiter, &context.options.trust)?;
    let mut summary = Summary { passes: 1, recovered: sweep(context, repo, None), ..Summary::default() };
    let now = clock::wall_seconds();
    let scanned = look(context, repo, now)?;
    summary.next_due = next_due(&scanned);
    if memory.is_about_heads() {
        let heads: HashMap<BranchName, CommitId> =
            scanned.iter().filter_map(|one| Some((one.branch.clone(), one.head?))).collect();
        memory.keep(&heads);
    }
    let mut candidates = Vec::new();
    let mut admitted = 0_usize;
    for Scanned { branch, verdict, watched, .. } in scanned {
        summary.branches += 1;
        admitted += usize::from(context.options.selection.admits(&branch));
        let passed_over =
            |reason: String| (context.tell)(Notice::PassedOver { branch: branch.clone(), reason });
        match verdict {
            Verdict::Unmanaged => passed_over("HEAD declares no state".to_owned()),
            Verdict::Excluded { reason } => passed_over(reason),
            Verdict::LeftAlone(event) => {
                passed_over(LEFT_ALONE.to_owned());
                (context.tell)(Notice::LeftAlone { branch, state: event.state });
            }
            Verdict::Passed { reason, event, pause: Pause::Rests | Pause::Waits, .. } => {
                passed_over(format!("{}: {reason}", event.state))
            }
            Verdict::Passed { reason, event, pause: Pause::Mistake, .. } => {
                let text = format!("{} was not run: {reason}", event.state);
                (context.tell)(Notice::Warning { branch: Some(branch), text });
            }
            Verdict::Invalid { why } => (context.tell)(Notice::Warning { branch: Some(branch), text: why }),
            Verdict::Held(lease) => {
                warn_if_ahead(context, memory, &branch, &lease, now);
                passed_over(match watched {
                    Some(Watched::Remaining { seen, wanted, .. }) => {
                        format!(
                            "{} holds it; seen for {} of {}",
                            lease.runner,
                            clock::span(seen),
                            clock::span(wanted)
                        )
                    }
                    Some(Watched::Over { .. }) | None => {
                        let until = lease.expires_at();
                        if context.options.takeover == Takeover::Clock {
                            summary.next_expiry =
                                Some(summary.next_expiry.map_or(until, |earlier| earlier.min(until)));
                        }
                        format!("{} holds it for another {}", lease.runner, clock::span(until.abs_diff(now)))
                    }
                });
            }
            Verdict::Parked { event, until } => {
                summary.next_wake = Some(summary.next_wake.map_or(until, |earlier| earlier.min(until)));
                passed_over(format!("{}: is parked until {}", event.state, clock::format_utc(until)));
            }
            Verdict::Expired(lease) => {
                warn_if_ahead(context, memory, &branch, &lease, now);
                let at = (branch.clone(), lease.commit);
                if memory.rests(&at) {
                    passed_over("its expired lease could not be closed a moment ago".to_owned());
                } else if context.shutdown.cause().is_none() {
                    match recover(context, repo, &branch, &lease, over(&lease, watched, now)) {
                        Closing::Closed => summary.recovered += 1,
                        Closing::Beaten => {}
                        Closing::Failed { refused } => memory.failed(at, refused),
                    }
                }
            }
            Verdict::Ready(candidate) if memory.has_run(&(branch.clone(), candidate.event.commit)) => {
                passed_over(
                    "its command has run already; the branch was set back to the same commit".to_owned(),
                );
            }
            Verdict::Ready(candidate) if memory.rests(&(branch.clone(), candidate.event.commit)) => {
                passed_over("it could not be claimed a moment ago".to_owned());
            }
            Verdict::Ready(candidate) => candidates.push(candidate),
        }
    }
    let globs = &context.options.selection.globs;
    if !globs.is_empty() && admitted == 0 {
        let list = match context.arbiter.source() {
            None => "git branch".to_owned(),
            Some(remote) => format!("git ls-remote --heads {remote}"),
        };
        let text =
            format!("no branch matches --branch, or aynig.branch; `{list}` lists the branches there are");
        (context.tell)(Notice::Warning { branch: None, text });
    }
    if !candidates.is_empty() {
        check_log_directory(repo)?;
        repo.check_git()?;
        repo.check_worktree_directory(&context.options.worktrees)?;
        repo.check_registry()?;
    }
    let Dispatched { steps, beaten, failed } = dispatch(context, repo, candidates);
    summary.steps = steps;
    summary.beaten = beaten;
    for Unclaimed { branch, head, words, remote, refused } in failed {
        summary.failed.push(words);
        summary.remote_trouble |= remote;
        memory.failed((branch, head), refused);
    }
    Ok(summary)
}

/// One look at all branches, with their leases judged as the options say.
fn look(context: &Context<'_>, repo: &Repo, now: i64) -> Result<Vec<Scanned>, ScanError> {
    let mut scanned = scan(repo, context.arbiter, context.options, now)?;
    if context.options.takeover == Takeover::Observed
        && let Err(error) = observe(repo, context.arbiter, context.options, &mut scanned)
    {
        let text = format!(
            "how long leases are seen could not be kept ({error}), so none is taken over; make {} writable, or use --takeover clock",
            repo.common_dir().join("aynig").display()
        );
        (context.tell)(Notice::Warning { branch: None, text });
    }
    trust::vet(repo, &context.options.trust, &mut scanned);
    Ok(scanned)
}

/// By what a lease that is over is known to be so.
fn over(lease: &Lease, watched: Option<Watched>, now: i64) -> Over {
    match (watched, lease.liveness(now)) {
        (Some(Watched::Over { seen, .. }), _) => Over::Seen(seen),
        (_, Liveness::Expired { over }) => Over::Dated(over),
        (_, Liveness::Live { .. }) => Over::Dated(0),
    }
}

/// Why there was no further pass, and what the ones before did.
#[derive(Debug)]
pub struct Halted {
    /// The passes before; nothing at all if the first one failed.
    pub done: Summary,
    /// Why the next one failed.
    pub error: PassError,
}

/// Passes until one finds nothing to do; leaves alone what `memory` says, and adds to it.
pub fn drain(context: &Context<'_>, repo: &Repo, memory: &mut Memory) -> Result<Summary, Box<Halted>> {
    let mut total = Summary::default();
    loop {
        let one = match pass_beyond(context, repo, memory) {
            Ok(one) => one,
            Err(error) => {
                total.failed.push(error_words(&error));
                total.remote_trouble |= matches!(&error, PassError::Remote(cause) if cause.is_remote());
                return Err(Box::new(Halted { done: total, error }));
            }
        };
        memory.ran(one.steps.iter().map(|step| (step.branch.clone(), step.trigger)));
        let go_on = one.did_something() && context.shutdown.cause().is_none();
        total.add(one);
        if !go_on {
            return Ok(total);
        }
    }
}

fn warn_if_ahead(context: &Context<'_>, memory: &mut Memory, branch: &BranchName, lease: &Lease, now: i64) {
    let Some(ahead) = lease.dated_ahead(now, context.options.skew_seconds) else { return };
    if !memory.remark((branch.clone(), lease.commit)) {
        return;
    }
    let runner = match lease.runner.to_str_lossy() {
        name if name.is_empty() => "a runner without a name".to_owned(),
        name => name.into_owned(),
    };
    let text = format!(
        "its lease is dated {} ahead of this host's clock (lease by {runner}: {}, here: {}); one of the two clocks is wrong, \
         and leases end late or early until it is set; --takeover observed does not go by clocks",
        clock::span(ahead),
        clock::format_utc(lease.committed_at),
        clock::format_utc(now),
    );
    (context.tell)(Notice::Warning { branch: Some(branch.clone()), text });
}
