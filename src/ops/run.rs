//! Runs: options from settings, and the passes.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use globset::GlobSet;

use crate::contract::bounds::Limits;
use crate::contract::commits::stalled_run;
use crate::contract::ids::{AttemptId, BranchName, CommitId, RemoteName, RoleName, StateName};
use crate::contract::message::Message;
use crate::git::{Repo, Store};
use crate::runner::Context;
use crate::runner::attempt::files;
use crate::runner::authority::Authority;
use crate::runner::events::feed::Feed;
use crate::runner::events::notice::{Outcome, StepReport};
use crate::runner::options::{Options, Selection, Trust};
use crate::runner::passes::backoff::Backoff;
use crate::runner::passes::pass::{Halted, PassError, Summary, drain, pass};
use crate::runner::passes::watch::watch;
use crate::runner::survey::words::asks_again;
use crate::stop::Stop;
use crate::supervise::Watchdog;

use super::app::Process;
use super::error::Error;
use crate::ops::settings;
use crate::ops::settings::{Settings, branch_globs};

/// The parts of a run other than a stop and a feed.
#[derive(Debug)]
pub struct Setup {
    /// The settings.
    pub options: Options,
    /// The authority that decides races.
    pub authority: Authority,
    /// The watchdog, which ends the commands if this process is killed.
    pub watchdog: Watchdog,
}

impl Setup {
    /// Prepares a run. `watchdog` is the argument by which this program starts its watchdog.
    pub fn new(options: Options, authority: Authority, watchdog: &str) -> Self {
        let watchdog = Watchdog::lazy(options.program.clone(), vec![watchdog.into()]);
        Self { options, authority, watchdog }
    }

    /// Returns the context of a run.
    pub fn context<'a>(&'a self, store: &'a Store, shutdown: &'a Stop, feed: &'a Feed<'a>) -> Context<'a> {
        let Self { options, authority, watchdog } = self;
        Context { store, authority, options, shutdown, watchdog, feed }
    }
}

/// How long a run continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// One pass.
    Once,
    /// Until a pass finds nothing to do.
    Drain,
    /// Until a stop is requested. It looks at least once in this time. Whether it has watched before, with other
    /// settings.
    Watch(Duration, bool),
}

/// Runs. `each` gets the summary of a pass, or of all passes of a drained repository.
pub fn run(
    context: &Context<'_>,
    repo: &Repo,
    mode: Mode,
    each: &mut dyn FnMut(Summary),
) -> Result<(), PassError> {
    match mode {
        Mode::Once => pass(context, repo).map(each),
        Mode::Drain => drain(context, repo, &mut Backoff::default()).map(&mut *each).map_err(|halted| {
            let Halted { done, error } = *halted;
            if done.passes > 0 {
                each(done);
            }
            error
        }),
        Mode::Watch(interval, begun) => watch(context, repo, (interval, begun), each),
    }
}

/// Returns the options that settings make.
pub fn options(repo: &Repo, process: &Process, settings: &Settings) -> Result<Options, Error> {
    Ok(Options {
        role: settings.role.clone(),
        selection: Selection {
            current: settings.current_branch,
            globs: branch_globs(&settings.branch)?,
            named: settings.branch.clone(),
            only: Vec::new(),
        },
        // A run looks at no other branches.
        trust: Trust { branches: GlobSet::empty(), ..settings.trust()? },
        ..unselective(repo, process, settings)
    })
}

/// Suggests what to do about each branch that these passes left stalled: by a step, or by closing an expired lease. One that
/// has a command for `stalled` is left to that, unless it is the one that failed.
pub fn next_steps(
    repo: &Repo,
    source: Option<&RemoteName>,
    recovered: &[(BranchName, CommitId)],
    steps: &[StepReport],
) -> Vec<String> {
    let is_left =
        |commit: Option<CommitId>| !commit.is_some_and(|commit| has_command_for_stalled(repo, commit));
    let recover = |commit: CommitId| (is_left(Some(commit)), None, ran_here(repo, commit));
    let mut stalled: BTreeMap<&BranchName, (bool, Option<&StateName>, bool)> =
        recovered.iter().map(|(branch, commit)| (branch, recover(*commit))).collect();
    for step in steps {
        let fails = matches!(step.outcome, Outcome::Stalled { .. });
        let is_left = fails && (step.state.is_stalled() || is_left(step.commit));
        stalled.insert(&step.branch, (is_left, Some(&step.state), true));
    }
    let left = stalled.into_iter().filter(|(_, (is_left, ..))| *is_left);
    left.map(|(branch, (_, failed, here))| format!("{branch}: {}", asks_again(branch, source, failed, here)))
        .collect()
}

/// Whether this host ran the command of the attempt that a stalled commit closed.
fn ran_here(repo: &Repo, stalled: CommitId) -> bool {
    let Ok(stored) = repo.commit(stalled) else { return false };
    let attempt =
        stalled_run(&Message::parse(&stored.message).trailers).and_then(|run| AttemptId::parse(run));
    attempt.is_some_and(|attempt| files::find(repo, attempt).is_some())
}

/// Whether the commit has a command for `stalled`, for any role.
fn has_command_for_stalled(repo: &Repo, commit: CommitId) -> bool {
    let aynig = repo.commit(commit).and_then(|stored| repo.directory_in(stored.tree, ".aynig"));
    let paths = aynig.ok().flatten().and_then(|aynig| repo.paths_in(aynig).ok()).unwrap_or_default();
    paths.iter().any(|path| format!("/{path}").ends_with("/command/stalled"))
}

/// Returns the defaults, with every branch selected.
pub fn plain_options(repo: &Repo, process: &Process) -> Options {
    unselective(repo, process, &Settings::default())
}

/// Returns the options of a survey by `status` and `doctor`: every branch, judged as a plain `aynig
/// run` here would judge it. `named` is the role, if it was given.
pub fn survey_options(repo: &Repo, process: &Process, named: Option<RoleName>) -> Result<Options, Error> {
    let settings = settings::judging(repo)?;
    let trust = settings.trust()?;
    Ok(Options { role: settings::role(repo, named)?, trust, ..unselective(repo, process, &settings) })
}

/// Returns the options without those that select branches, states and commands.
fn unselective(repo: &Repo, process: &Process, settings: &Settings) -> Options {
    Options {
        role: None,
        selection: Selection { named: settings.branch.clone(), ..Selection::everything() },
        trust: Trust::default(),
        work_prefix: settings.work_prefix.clone(),
        run_prefix: settings.run_prefix.clone(),
        limits: Limits { steps: settings.max_steps, rounds: settings.max_rounds },
        worktrees: absolute_below(repo.top(), &settings.worktree),
        jobs: settings.jobs,
        takeover: settings.takeover,
        skew_seconds: settings.skew_seconds,
        lease_seconds: settings.lease_seconds,
        heartbeat: settings.heartbeat,
        setup: settings.setup.clone(),
        grace: Duration::from_secs(settings.grace_seconds),
        on_interrupt: settings.on_interrupt(),
        command_timeout: settings.command_timeout.map(Duration::from_secs),
        runner_id: repo.runner_id().to_owned(),
        log_level: process.log_level.clone(),
        log_level_fixed: process.log_level_fixed,
        program: process.program.clone(),
    }
}

/// Returns `path` below `top`, without `.` and `..`.
fn absolute_below(top: &Path, path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in top.join(path).components() {
        match part {
            Component::ParentDir => {
                clean.pop();
            }
            Component::CurDir => {}
            other => clean.push(other),
        }
    }
    clean
}
