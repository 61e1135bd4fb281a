//! One pass with at most one step per branch, and the loop of `--drain` (CONTRACT 11.1).

use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::clock;
use crate::contract::alike::nearest;
use crate::contract::bounds::Bound;
use crate::contract::ids::{BranchName, RemoteName};
use crate::contract::layout::own_directory;
use crate::contract::lease::{Lease, Liveness};
use crate::contract::sighting::Watched;
use crate::git::Repo;
use crate::git::repo::config::ConfigError;
use crate::runner::events::warning::Warning;

use crate::git::worktrees::error::WorktreeError;
use crate::runner::attempt::claim::Candidate;
use crate::runner::attempt::files::{AttemptError, check_log_directory};
use crate::runner::authority::error::AuthorityError;
use crate::runner::events::notice::{Notice, StepReport};
use crate::runner::landing::recover::{Closing, Over, recover, sweep};
use crate::runner::landing::salvage::HandingOn;
use crate::runner::options::{Takeover, is_glob};
use crate::runner::passes::backoff::Backoff;
use crate::runner::passes::deliver::deliver;
use crate::runner::passes::dispatch::{Dispatched, Unclaimed, dispatch};
use crate::runner::survey::trust::{TrustError, commands_from};
use crate::runner::survey::verdict::{Exclusion, Reason, Severity};
use crate::runner::survey::{
    Branch, CommandsFrom, Leased, Question, Survey, SurveyError, Verdict, survey_after,
};
use crate::runner::{Context, error_chain};

/// Why a pass could not be made. Nothing was claimed.
#[derive(Debug, thiserror::Error)]
pub enum PassError {
    /// The branches could not be surveyed.
    #[error(transparent)]
    Survey(#[from] SurveyError),
    /// There is no place for worktrees.
    #[error(transparent)]
    Worktrees(#[from] WorktreeError),
    /// The remote could not be fetched from.
    #[error(transparent)]
    Remote(#[from] AuthorityError),
    /// The git program is missing, or its configuration differs from what we read.
    #[error(transparent)]
    Git(#[from] ConfigError),
    /// There is no place for logs.
    #[error(transparent)]
    Logs(#[from] AttemptError),
    /// The source of all commands (`--commands-from`) cannot be used.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// Git's configuration has changed, so the settings of this run are out of date.
    #[error("git's configuration has changed")]
    Reconfigured,
    /// The repository was removed or moved.
    #[error("there is no repository at {} any more", path.display())]
    Gone {
        /// Its path.
        path: PathBuf,
    },
}

/// The results of one or more passes.
#[derive(Debug, Default)]
pub struct Summary {
    /// The number of passes.
    pub passes: u64,
    /// The number of branches in the last pass.
    pub branches: usize,
    /// All steps, in the order they ended.
    pub steps: Vec<StepReport>,
    /// The number of expired leases closed.
    pub recovered: usize,
    /// The number of branches that other runners claimed first.
    pub lost_races: usize,
    /// The errors of failed claims, and of a failed pass.
    pub failed: Vec<String>,
    /// Whether the remote caused one of those.
    pub remote_trouble: bool,
    /// The end of the next lease to expire, in seconds since the epoch.
    pub(crate) next_expiry: Option<i64>,
    /// The end of the next parking or preference, in seconds since the epoch.
    pub next_wake: Option<i64>,
    /// The time until the next lease was seen for long enough, with `--takeover observed`.
    pub(crate) next_due: Option<Duration>,
}

impl Summary {
    fn add(&mut self, pass: Self) {
        self.passes += pass.passes;
        self.branches = pass.branches;
        self.steps.extend(pass.steps);
        self.recovered += pass.recovered;
        self.lost_races += pass.lost_races;
        self.failed.extend(pass.failed);
        self.remote_trouble |= pass.remote_trouble;
        self.next_expiry = pass.next_expiry;
        self.next_wake = pass.next_wake;
        self.next_due = pass.next_due;
    }

    /// Whether anything was done, so that another pass may find more.
    pub fn did_something(&self) -> bool {
        !self.steps.is_empty() || self.recovered > 0 || self.lost_races > 0
    }

    /// Whether a step of these passes failed.
    pub fn any_failure(&self) -> bool {
        self.steps.iter().any(|step| step.outcome.is_failure())
    }
}

/// Makes one pass.
pub fn pass(context: &Context<'_>, repo: &Repo) -> Result<Summary, PassError> {
    let _spares = HandingOn::begin(repo, &context.options.worktrees, 0);
    pass_beyond(context, repo, &mut Backoff::default())
}

/// Makes one pass, skipping triggers whose command has run: a command that resets its own branch would
/// otherwise run again and again (CONTRACT 11.1). Skips HEADs whose move was refused, too.
fn pass_beyond(context: &Context<'_>, repo: &Repo, backoff: &mut Backoff) -> Result<Summary, PassError> {
    for name in repo.release_dead_locks().into_iter().chain(repo.release_abandoned_locks()) {
        context.warn(None, Warning::LockRemoved { name });
    }
    context.authority.refresh(repo)?;
    commands_from(repo, context.authority, &context.options.trust)?;
    let recovered = sweep(context, repo, None);
    let now = clock::wall_seconds();
    let (mut branches, from) = look(context, repo, now, backoff.take_surveyed())?;
    if context.shutdown.cause().is_some() {
        // The survey may be incomplete.
        return Ok(Summary { passes: 1, recovered, ..Summary::default() });
    }
    if backoff.is_about_heads() {
        let heads = branches.iter().filter_map(|branch| Some((branch.name.clone(), branch.head?)));
        backoff.keep(&heads.collect());
    }
    if deliver(context, repo, from.as_deref(), &branches, backoff) {
        branches = look(context, repo, now, branches)?.0;
    }
    let mut pass = Pass { context, repo, backoff, now, candidates: Vec::new(), summary: Summary::default() };
    pass.summary = Summary {
        passes: 1,
        recovered,
        branches: branches.len(),
        next_due: next_due(context, &branches),
        ..Summary::default()
    };
    for branch in &branches {
        pass.take(branch);
    }
    warn_if_none_is_selected(context, repo, &branches);
    let Pass { candidates, mut summary, backoff, .. } = pass;
    backoff.surveyed(branches);
    if !candidates.is_empty() {
        check_log_directory(repo)?;
        repo.check_git()?;
        repo.check_worktree_directory(&context.options.worktrees)?;
        repo.check_registry()?;
    }
    let Dispatched { steps, lost_races, failed } = dispatch(context, repo, candidates);
    summary.steps = steps;
    summary.lost_races = lost_races;
    for Unclaimed { branch, head, words, remote, refused } in failed {
        summary.failed.push(words);
        summary.remote_trouble |= remote;
        backoff.failed((branch, head), refused);
    }
    Ok(summary)
}

/// Surveys all branches; `earlier` are those of the pass before.
fn look(
    context: &Context<'_>,
    repo: &Repo,
    now: i64,
    earlier: Vec<Branch>,
) -> Result<(Vec<Branch>, Option<Arc<CommandsFrom>>), SurveyError> {
    let notes = context.options.takeover == Takeover::Observed;
    let question = Question { repo, authority: context.authority, options: context.options, now, notes };
    let Survey { branches, commands_from, unnoted } = survey_after(&question, earlier)?;
    if let Some(error) = unnoted {
        let directory = own_directory(repo.common_dir());
        context.warn(None, Warning::SightingsNotKept { why: error.to_string(), directory });
    }
    Ok((branches, commands_from))
}

/// The time until the next live lease was seen for long enough, with `--takeover observed`.
fn next_due(context: &Context<'_>, branches: &[Branch]) -> Option<Duration> {
    if context.options.takeover == Takeover::Clock {
        return None;
    }
    let left = branches.iter().filter_map(|branch| match &branch.verdict {
        Verdict::Leased(Leased { over: false, seen: Some(Watched::Remaining { left, .. }), .. }) => {
            Some(Duration::from_millis(*left))
        }
        _ => None,
    });
    left.min()
}

/// The actions of one pass on surveyed branches.
struct Pass<'a> {
    context: &'a Context<'a>,
    repo: &'a Repo,
    backoff: &'a mut Backoff,
    now: i64,
    candidates: Vec<Candidate>,
    summary: Summary,
}

impl Pass<'_> {
    /// Acts on the verdict on one branch, or reports why nothing is done.
    fn take(&mut self, branch: &Branch) {
        let name = &branch.name;
        match &branch.verdict {
            Verdict::Unmanaged => skipped(name, &"HEAD declares no state"),
            Verdict::Excluded(exclusion) => {
                skipped(name, exclusion);
                self.warn_if_named(branch, exclusion);
            }
            Verdict::SkippedCurrent { state } => {
                skipped(name, &Exclusion::Current);
                let (branch, state) = (name.clone(), state.clone());
                self.context.report(&Notice::SkippedCurrent { branch, state });
            }
            Verdict::Waiting { state, reason } => match reason.severity() {
                Severity::Terminal | Severity::Blocked => {
                    if let Reason::Preferred { until, .. } = reason {
                        self.summary.next_wake = earlier(self.summary.next_wake, *until);
                    }
                    skipped(name, &format_args!("{state}: {reason}"));
                }
                Severity::Misconfigured => {
                    let once = branch.head.filter(|_| reason.is_rule());
                    let (state, reason) = (state.clone(), reason.clone());
                    self.context.warn_at(name, once, Warning::NotRun { state, reason });
                }
            },
            Verdict::Invalid(invalid) => self.context.warn(Some(name), Warning::Invalid(invalid.clone())),
            Verdict::Parked { state, until, .. } => {
                self.summary.next_wake = earlier(self.summary.next_wake, *until);
                skipped(name, &format_args!("{state}: is parked until {}", clock::format_utc(*until)));
            }
            Verdict::Bounded { bound, .. } => self.bounded(branch, bound),
            Verdict::WaitsForYou { state, until, trouble } => {
                if let Some(until) = until.filter(|until| *until > self.now) {
                    self.summary.next_wake = earlier(self.summary.next_wake, until);
                }
                match trouble.clone().filter(|reason| reason.severity() == Severity::Misconfigured) {
                    None => skipped(name, &format_args!("{state}: waits for an answer (dwp-waits-for)")),
                    Some(reason) => {
                        self.context.warn(Some(name), Warning::NotRun { state: state.clone(), reason });
                    }
                }
            }
            Verdict::Leased(leased) => {
                warn_if_ahead(self.context, self.backoff, name, &leased.lease, self.now);
                if leased.over { self.close(name, leased) } else { self.leave(name, leased) }
            }
            Verdict::UnsignedLease { leased, why } => {
                let source = self.context.authority.source();
                let (about, head, why) = (name.clone(), leased.lease.commit, why.clone());
                let remote = source.cloned();
                self.context.warn_at(name, Some(head), Warning::LeaseNotTrusted { about, remote, head, why });
            }
            Verdict::Ready { event, command, run_in } => {
                let at = (name.clone(), event.commit);
                if self.backoff.has_run(&at) {
                    let words = "its command has run already; the branch was set back to the same commit";
                    skipped(name, &words);
                } else if self.backoff.is_paused(&at) {
                    skipped(name, &"it could not be claimed a moment ago");
                } else {
                    let (event, command) = (Arc::clone(event), Arc::clone(command));
                    self.candidates.push(Candidate { branch: at.0, event, command, run_in: *run_in });
                }
            }
        }
    }

    /// Warns of a branch that was selected on purpose and is never run, once.
    fn warn_if_named(&mut self, branch: &Branch, exclusion: &Exclusion) {
        let Exclusion::BelowWorkPrefix { prefix, .. } = exclusion else { return };
        let selection = &self.context.options.selection;
        let named = selection.named.iter().any(|named| named.starts_with(prefix.as_str()));
        if named
            && selection.admits(&branch.name)
            && let Some(head) = branch.head
            && self.backoff.is_first_warning((branch.name.clone(), head))
        {
            self.context.warn(Some(&branch.name), Warning::Excluded(exclusion.clone()));
        }
    }

    /// Leaves a branch alone that has reached a bound. That is reported once for each HEAD; the pause after a
    /// failed `stalled` command is a mere detail of that failure.
    fn bounded(&mut self, branch: &Branch, bound: &Bound) {
        if let Some(until) = bound.until() {
            self.summary.next_wake = earlier(self.summary.next_wake, until);
        }
        let (name, source) = (&branch.name, self.context.authority.source());
        let is_pause = matches!(bound, Bound::Stalled { .. });
        if is_pause || !branch.head.is_some_and(|head| self.backoff.is_first_warning((name.clone(), head))) {
            skipped(name, &bound.word());
            return;
        }
        let (about, remote, bound) = (name.clone(), source.cloned(), bound.clone());
        self.context.warn_at(name, branch.head, Warning::Bounded { about, remote, bound });
    }

    /// Closes an expired lease.
    fn close(&mut self, name: &BranchName, leased: &Leased) {
        let at = (name.clone(), leased.lease.commit);
        if self.backoff.is_paused(&at) {
            skipped(name, &"its expired lease could not be closed a moment ago");
        } else if self.context.shutdown.cause().is_none() {
            let over = over(self.context.options.takeover, leased, self.now);
            match recover(self.context, self.repo, name, &leased.lease, over) {
                Closing::Closed => self.summary.recovered += 1,
                Closing::Lost => {}
                Closing::Failed { refused } => self.backoff.failed(at, refused),
            }
        }
    }

    /// Skips a branch with a live lease, and records when to look again.
    fn leave(&mut self, name: &BranchName, leased: &Leased) {
        let Leased { lease, seen, .. } = leased;
        match (self.context.options.takeover, seen) {
            (Takeover::Observed, Some(Watched::Remaining { seen, wanted, .. })) => skipped(
                name,
                &format_args!(
                    "{} holds it; seen for {} of {}",
                    lease.runner,
                    clock::span(*seen),
                    clock::span(*wanted)
                ),
            ),
            (takeover, _) => {
                let until = lease.expires_at();
                if takeover == Takeover::Clock {
                    self.summary.next_expiry = earlier(self.summary.next_expiry, until);
                }
                let left = clock::span(until.abs_diff(self.now));
                skipped(name, &format_args!("{} holds it for another {left}", lease.runner));
            }
        }
    }
}

/// Logs why nothing is done about a branch, at debug level (CONTRACT 11.5).
fn skipped(branch: &BranchName, reason: &dyn Display) {
    tracing::debug!(%branch, %reason, "passed over");
}

fn earlier(known: Option<i64>, time: i64) -> Option<i64> {
    Some(known.map_or(time, |known| known.min(time)))
}

/// Reports names without a branch; without any, globs that match none.
fn warn_if_none_is_selected(context: &Context<'_>, repo: &Repo, branches: &[Branch]) {
    let selection = &context.options.selection;
    let remote = context.authority.source();
    let names = || branches.iter().map(|branch| branch.name.to_string());
    let tracked = |is_meant: &dyn Fn(&str) -> bool| {
        let names = if remote.is_none() { repo.remote_names() } else { Vec::new() };
        let mut remotes = names.iter().filter_map(|name| RemoteName::parse(name).ok());
        remotes.find(|remote| repo.known_branches(remote).iter().any(|there| is_meant(&there.to_string())))
    };
    let mut all_there = true;
    for name in selection.named.iter().filter(|named| !is_glob(named.as_bytes())) {
        if !names().any(|there| there == *name) {
            let near = nearest(name, names());
            let there = tracked(&|there| there == *name);
            let unlisted = BranchName::new(name.as_str()).ok().filter(|_| remote.is_none());
            let unlisted = unlisted.and_then(|branch| repo.unlisted(&branch));
            let (name, remote) = (name.clone(), remote.cloned());
            context.warn(
                None,
                match unlisted {
                    Some(unlisted) => Warning::UnlistedBranch { name, unlisted },
                    None => Warning::NoSuchBranch { name, near, remote, there },
                },
            );
            all_there = false;
        }
    }
    if all_there
        && !selection.globs.is_empty()
        && !branches.iter().any(|branch| selection.admits(&branch.name))
    {
        let globs = selection.named.clone();
        let there = tracked(&|there| selection.globs.is_match(there));
        context.warn(None, Warning::NoBranchSelected { globs, remote: remote.cloned(), there });
    }
}

/// The evidence that a lease has expired.
fn over(takeover: Takeover, leased: &Leased, now: i64) -> Over {
    match (takeover, leased.seen, leased.lease.liveness(now)) {
        (Takeover::Observed, Some(Watched::Over { seen, .. }), _) => Over::Seen(seen),
        (_, _, Liveness::Expired { over }) => Over::Dated(over),
        (_, _, Liveness::Live { .. }) => Over::Dated(0),
    }
}

/// A failed pass, with the results of those before it.
#[derive(Debug)]
pub struct Halted {
    /// The results of the passes before.
    pub done: Summary,
    /// Why the last pass failed.
    pub error: PassError,
}

/// Makes passes until one finds nothing to do. Skips the HEADs in `backoff`, and adds to it.
pub fn drain(context: &Context<'_>, repo: &Repo, backoff: &mut Backoff) -> Result<Summary, Box<Halted>> {
    // A branch that has got its next state may have a step in the next pass.
    let _spares = HandingOn::begin(repo, &context.options.worktrees, 1);
    let mut total = Summary::default();
    loop {
        let one = match pass_beyond(context, repo, backoff) {
            Ok(one) => one,
            Err(error) => {
                total.failed.push(error_chain(&error));
                total.remote_trouble |= matches!(&error, PassError::Remote(cause) if cause.is_remote());
                return Err(Box::new(Halted { done: total, error }));
            }
        };
        backoff.ran(one.steps.iter().map(|step| (step.branch.clone(), step.trigger)));
        let has_more = one.did_something() && context.shutdown.cause().is_none();
        total.add(one);
        if !has_more || (backoff.stays() && repo.is_reconfigured()) {
            return Ok(total);
        }
    }
}

fn warn_if_ahead(context: &Context<'_>, backoff: &mut Backoff, branch: &BranchName, lease: &Lease, now: i64) {
    let Some(ahead) = lease.dated_ahead(now, context.options.skew_seconds) else { return };
    if !backoff.is_first_warning((branch.clone(), lease.commit)) {
        return;
    }
    let (runner, dated) = (lease.runner.clone(), lease.committed_at);
    let warning = Warning::LeaseDatedAhead { ahead, runner, dated, now };
    context.warn_at(branch, Some(lease.commit), warning);
}
