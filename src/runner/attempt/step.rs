//! Runs one attempt from claim to settlement, on a thread of its own.
//!
//! Invariant: every claim is settled, whatever fails. If the worktree cannot be made, the branch becomes
//! `stalled` with the reason, and the command never runs elsewhere (CONTRACT 9.4). A panic before the
//! settlement is settled too; after a panic in it the lease expires by itself. The thread has to outlive the
//! command, because on Linux the command dies with the thread that started it (CONTRACT 10.1).

use std::fs::File;
use std::io::{Read, Seek};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;

use bstr::ByteSlice;
use nix::sys::signal::Signal;

use crate::contract::declaration::Declared;
use crate::contract::protocol::{MalformedLine, Observed, ProtocolReader, misspelt_fields};
use crate::contract::settlement::{Ending, StopReason};
use crate::fsutil::FreeSpace;
use crate::git::worktrees::registration::Mark;
use crate::git::{Checkout, Repo, Swap};
use crate::runner::events::warning::Warning;
use crate::stop::Cause;
use crate::supervise::Spec;

use crate::runner::attempt::claim::Claim;
use crate::runner::attempt::command_copy::copy_of;
use crate::runner::attempt::environment;
use crate::runner::attempt::files;
use crate::runner::attempt::files::Files;
use crate::runner::attempt::finished::{Finished, Site, ending};
use crate::runner::attempt::keeper::{LeaseKeeper, keeping};
use crate::runner::attempt::provision::provision;
use crate::runner::events::notice::{Notice, Outcome, Started, StepReport};
use crate::runner::landing::recover::sweep;
use crate::runner::landing::settle;
use crate::runner::survey::verdict::RunIn;
use crate::runner::{Context, error_chain};

/// Free space in bytes below which a disk counts as full, since files are written in blocks.
const NO_ROOM: u64 = 16 * 1024;

/// The reason reported for a step whose result was not written because of a bug.
const BROKEN_OFF: &str = "its runner failed because of a bug in aynig; when the lease ends, the next pass closes it and saves \
     what is here";

/// Runs one claimed step to its settlement. Never panics, because the pass waits for the report.
pub(crate) fn run(context: &Context<'_>, claim: Claim) -> StepReport {
    let broken_off = StepReport {
        branch: claim.branch.clone(),
        trigger: claim.trigger.commit,
        state: claim.trigger.state.clone(),
        attempt: claim.attempt,
        outcome: Outcome::Unwritten { why: BROKEN_OFF.to_owned(), open: true },
        commit: None,
        ending: None,
        exit: None,
        elapsed: Duration::ZERO,
        rescued: None,
        left: None,
    };
    // State shared with other threads is consistent between any two statements that could panic.
    let settled = catch_unwind(AssertUnwindSafe(|| {
        let repo = context.store.handle();
        let _under_way = context.authority.under_way();
        let finished = carry_out(context, &repo, claim);
        settle(context, &repo, finished)
    }));
    settled.unwrap_or_else(|_| {
        stop_all(context);
        broken_off
    })
}

/// Stops the run after a panic, before the step gives its job slot back: the thread that is notified of panics may come
/// too late to keep the slot from being filled.
fn stop_all(context: &Context<'_>) {
    context.shutdown.panicked();
}

/// Does everything before the settlement. After a panic, the work done so far is settled as stopped.
fn carry_out(context: &Context<'_>, repo: &Repo, claim: Claim) -> Finished {
    let (mut site, mut files) = (Site::None, None);
    let (course, held) = keeping(context, &claim, |keeper| {
        let attempt = || attempt(context, repo, &claim, keeper, &mut site, &mut files);
        catch_unwind(AssertUnwindSafe(attempt)).unwrap_or_else(|_| {
            stop_all(context);
            Course::unstarted(Ending::Stopped { why: StopReason::RunnerFailed })
        })
    });
    let Course { mut ending, declared, invalid, elapsed } = course;
    if matches!(ending, Ending::NotStarted(_)) && elapsed.is_zero() {
        // A call of git that the signal ended is no fault of the branch.
        ending = interrupted(context).unwrap_or(ending);
    }
    let (held, lease_left) = (held.head, held.left);
    Finished { claim, site, ending, declared, invalid, files, held, elapsed, lease_left }
}

/// The end of an attempt: its command is over, or was never started.
struct Course {
    ending: Ending,
    declared: Option<Declared>,
    invalid: Option<MalformedLine>,
    elapsed: Duration,
}

impl Course {
    fn unstarted(ending: Ending) -> Self {
        Self { ending, declared: None, invalid: None, elapsed: Duration::ZERO }
    }
}

/// Runs from the claim to the end of its command. Puts the worktree and the files into `site` and `files` as
/// soon as they exist, so that they survive a panic.
fn attempt(
    context: &Context<'_>,
    repo: &Repo,
    claim: &Claim,
    keeper: &LeaseKeeper<'_>,
    site: &mut Site,
    files: &mut Option<Files>,
) -> Course {
    // The record comes first: without one the lease passes for one that was taken by hand (CONTRACT 5.25).
    let files = match files::prepare(repo, claim) {
        Ok(made) => files.insert(made),
        Err(error) => return Course::unstarted(Ending::NotStarted(error_chain(&error))),
    };
    match place(context, repo, claim) {
        Ok(made) => *site = made,
        Err(why) => return Course::unstarted(Ending::NotStarted(why)),
    }
    keeper.follow(site);
    let lost = keeper.is_lost(repo).then_some(StopReason::LeaseLost);
    if let Some(why) = keeper.given_up().or(lost) {
        return Course::unstarted(Ending::Stopped { why });
    }
    match files::write_body(claim, files) {
        Ok(()) => command(context, repo, claim, site, files, keeper),
        Err(error) => Course::unstarted(Ending::NotStarted(error_chain(&error))),
    }
}

/// Returns the checkout, or makes the worktree, in which the command runs.
fn place(context: &Context<'_>, repo: &Repo, claim: &Claim) -> Result<Site, String> {
    if claim.run_in == RunIn::Checkout {
        let checkout = repo.checkout().ok_or("there is no checkout here any more")?;
        follow_claim(context, repo, claim, &checkout)?;
        // The scan saw the index equal to HEAD. Files staged since then are the user's, and not part of the
        // result.
        match repo.index_equals_head(&checkout.path) {
            Ok(true) => {}
            Ok(false) => return Err(format!("something was staged in {} just now", checkout.path.display())),
            Err(error) => return Err(error_chain(&error)),
        }
        return Ok(Site::InPlace(checkout));
    }
    // A worktree left by an earlier attempt on this branch must be out of the way, with its work saved.
    sweep(context, repo, Some(&claim.branch));
    let mark = Mark {
        attempt: claim.attempt,
        branch: claim.branch.clone(),
        remote: context.authority.source().cloned(),
    };
    let worktree = repo
        .create_worktree(&context.options.worktrees, &mark, claim.lease)
        .map_err(|error| format!("its worktree could not be made: {}", error_chain(&error)))?;
    let wrong = repo.init_submodules(&worktree);
    if !wrong.is_empty() {
        context.warn(Some(&claim.branch), Warning::Submodules { wrong });
    }
    Ok(Site::Worktree(worktree))
}

/// Ensures that the checkout, in which the command runs in place, is at the lease.
fn follow_claim(
    context: &Context<'_>,
    repo: &Repo,
    claim: &Claim,
    checkout: &Checkout,
) -> Result<(), String> {
    let gone = || format!("{} is not checked out in {} any more", claim.branch, checkout.path.display());
    let local = checkout.branch.as_ref().ok_or_else(gone)?;
    let Some(remote) = context.authority.source() else {
        return if *local == claim.branch { Ok(()) } else { Err(gone()) };
    };
    if repo.upstream_on(local, remote).as_ref() != Some(&claim.branch) {
        return Err(gone());
    }
    // The user's branch follows the remote's, as after a fast-forward pull. The trees are the same.
    let log = "aynig: follow the claim";
    match repo.swap(local.full_ref().as_bstr(), Some(claim.trigger.commit), claim.lease, log) {
        Ok(Swap::Won) => Ok(()),
        Ok(Swap::Lost { .. }) => {
            Err(format!("{} is not where {remote} has {}; pull first", local, claim.branch))
        }
        Err(error) => Err(error_chain(&error)),
    }
}

/// Prepares the worktree and runs the command in it.
fn command(
    context: &Context<'_>,
    repo: &Repo,
    claim: &Claim,
    site: &Site,
    files: &Files,
    keeper: &LeaseKeeper<'_>,
) -> Course {
    let directory = site.path().unwrap_or(repo.top()).to_owned();
    let spec = match command_spec(context, repo, claim, files, &directory) {
        Ok(spec) => spec,
        Err(why) => return Course::unstarted(Ending::NotStarted(why)),
    };
    if let Err(ending) = provision(context, repo, claim, site, &spec, keeper) {
        return Course::unstarted(ending);
    }
    let finished = crate::supervise::run(spec, keeper.stop(), || {
        context.report(&Notice::Started(Started {
            branch: claim.branch.clone(),
            state: claim.trigger.state.clone(),
            attempt: claim.attempt,
            stdout: files.stdout.clone(),
        }));
        crate::crashpoint::reach(crate::crashpoint::Point::CommandStarted);
    });
    crate::crashpoint::reach(crate::crashpoint::Point::CommandEnded);
    // Measured now, since later output of surviving processes does not count (CONTRACT 4.11).
    let length = files.readers.0.metadata().map_or(0, |found| found.len());
    let elapsed = finished.elapsed;
    let ending = stopped_along(context, ending(finished, keeper.given_up()));
    let observed = read_declarations(&files.readers.0, length);
    warn_of_malformed(context, claim, &observed, &ending);
    warn_of_full_disk(context, claim, files, &ending);
    let invalid = observed.malformed.last().cloned();
    Course { ending, declared: observed.declared, invalid, elapsed }
}

/// How long the signal of a runner may come after that of its command, where a system that shuts down sends
/// it to all processes.
const TOGETHER: Duration = Duration::from_millis(250);

/// Takes a command that was ended by the signal which the runner received, too, for one that the runner
/// stopped.
fn stopped_along(context: &Context<'_>, ending: Ending) -> Ending {
    let (Ending::Signalled(signal) | Ending::Exited(signal)) = ending else { return ending };
    let signal = if matches!(ending, Ending::Exited(_)) { signal - 128 } else { signal };
    let is_stop = matches!(Signal::try_from(signal), Ok(Signal::SIGHUP | Signal::SIGINT | Signal::SIGTERM));
    if is_stop && context.shutdown.wait(1, TOGETHER) {
        interrupted(context).unwrap_or(ending)
    } else {
        ending
    }
}

/// The end of an attempt that could not start its command because the runner was asked to stop.
fn interrupted(context: &Context<'_>) -> Option<Ending> {
    match context.shutdown.cause()? {
        Cause::Signal(signal) => {
            Some(Ending::Stopped { why: StopReason::Interrupted { signal, clean: false } })
        }
        Cause::CalledOff | Cause::Panic => None,
    }
}

/// Builds the call of the command.
fn command_spec(
    context: &Context<'_>,
    repo: &Repo,
    claim: &Claim,
    files: &Files,
    directory: &Path,
) -> Result<Spec, String> {
    let options = context.options;
    // The branch's own command is in its worktree. A command from another ref is in a copy of that tree.
    let copy = claim.command.tree.map(|tree| copy_of(repo, tree)).transpose();
    let top = copy.map_err(|error| error_chain(&error))?.unwrap_or_else(|| directory.to_owned());
    let environment = environment::environment(repo, context.authority, options, claim, files, directory);
    for warning in environment.warnings {
        context.warn(Some(&claim.branch), warning);
    }
    crate::crashpoint::reach(crate::crashpoint::Point::FilesPrepared);
    Ok(Spec {
        terminal: false,
        program: top.join(&claim.command.path),
        args: Vec::new(),
        directory: directory.to_owned(),
        environment: environment.variables,
        stdin: None,
        stdout: files.streams.0.try_clone().map_err(|error| error.to_string())?,
        stderr: files.streams.1.try_clone().map_err(|error| error.to_string())?,
        grace: options.grace,
        timeout: options.command_timeout,
        leash: None,
        watchdog: Some(context.watchdog.clone()),
    })
}

/// Reads the first `length` bytes of a log for `SET_STATE` lines.
fn read_declarations(mut log: &File, length: u64) -> Observed {
    let mut reader = ProtocolReader::new();
    let mut read = || {
        log.rewind()?;
        let mut log = log.take(length);
        let mut chunk = vec![0; 64 * 1024];
        loop {
            match log.read(&mut chunk)? {
                0 => return Ok::<(), std::io::Error>(()),
                n => reader.feed(&chunk[..n]),
            }
        }
    };
    if let Err(error) = read() {
        tracing::warn!(%error, "the log could not be read to its end");
    }
    reader.finish()
}

/// Warns if the disk of the logs is full. A command whose output cannot be stored mostly fails without a
/// reason.
fn warn_of_full_disk(context: &Context<'_>, claim: &Claim, files: &Files, ending: &Ending) {
    let logs = files.stdout.parent().unwrap_or(&files.stdout);
    if !ending.is_success()
        && let Ok(room) = FreeSpace::at(logs)
        && room.bytes < NO_ROOM
    {
        let warning = Warning::DiskFull {
            state: claim.trigger.state.clone(),
            ending: ending.clone(),
            free: room.bytes,
            logs: logs.to_owned(),
        };
        context.warn(Some(&claim.branch), warning);
    }
}

fn warn_of_malformed(context: &Context<'_>, claim: &Claim, observed: &Observed, ending: &Ending) {
    for line in &observed.malformed {
        let (state, line) = (claim.trigger.state.clone(), line.clone());
        let warning = Warning::InvalidDeclaration { state, line };
        context.warn(Some(&claim.branch), warning);
    }
    let more =
        observed.malformed_count.saturating_sub(u64::try_from(observed.malformed.len()).unwrap_or(u64::MAX));
    if more > 0 {
        context.warn(Some(&claim.branch), Warning::MoreInvalidDeclarations { count: more });
    }
    if let Some(Declared::Next(declared)) = observed.declared.as_ref().filter(|_| ending.is_success())
        && let Some(words) = misspelt_fields(&declared.trailers.iter().cloned().collect())
    {
        let state = claim.trigger.state.clone();
        context.warn(Some(&claim.branch), Warning::FieldsMisspelt { state, words });
    }
    if observed.declared.is_some() && !ending.is_success() {
        tracing::info!(branch = %claim.branch, attempt = %claim.attempt, "SET_STATE is ignored: the command did not exit with 0");
    }
}
