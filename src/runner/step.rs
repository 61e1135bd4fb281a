//! One attempt from claim to settlement, on a thread of its own.
//!
//! Invariant: a claim that enters leaves settled, whatever fails in between; a place that could not be made is a
//! stalled branch with the reason, never a run somewhere else (CONTRACT.md §9). The thread outlives the command: on Linux
//! the command dies with the thread that started it.

use std::fs::File;
use std::io::{Read, Seek};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use bstr::ByteSlice;

use crate::contract::protocol::{Observed, ProtocolReader};
use crate::contract::settlement::{Ending, StopReason};
use crate::contract::standing::Standing;
use crate::fsutil::Room;
use crate::git::remote::HASTE;
use crate::git::worktree::Mark;
use crate::git::{Checkout, Repo, Swap};
use crate::supervise::{Attend, Moment, Spec};

use super::attempt::{self, Files};
use super::claim::Claim;
use super::commands::copy_of;
use super::finished::{Finished, Site, ending};
use super::heartbeat::{Handover, Heartbeat, look};
use super::launch;
use super::notice::{Notice, Started, StepReport};
use super::ready::make_ready;
use super::recover::sweep;
use super::scan::Venue;
use super::settle::settle;
use super::{Context, error_words};

/// Less room than this is none, bytes: what is written comes in blocks.
const NO_ROOM: u64 = 16 * 1024;

/// Runs one claimed step to its settlement.
pub fn run(context: &Context<'_>, claim: Claim) -> StepReport {
    let repo = context.store.handle();
    let _under_way = context.arbiter.under_way();
    let (placed, handover, given_up) = holding(context, &claim, || place(context, &repo, &claim));
    let mut finished = match (placed, given_up) {
        (Err(why), _) => unstarted(claim, Site::None, None, why),
        (Ok(site), Some(why)) => {
            Finished { ending: Ending::Stopped { why }, ..unstarted(claim, site, None, String::new()) }
        }
        (Ok(site), None) => match attempt::prepare(&repo, &claim) {
            Err(error) => unstarted(claim, site, None, error_words(&error)),
            Ok(files) => supervise(context, &repo, claim, site, files, handover),
        },
    };
    if finished.held == finished.claim.lease {
        finished.held = handover.held;
    }
    settle(context, &repo, finished)
}

/// Does `work` while the lease is looked after beside it, as making a place can take longer than a lease: a large checkout,
/// submodules. Says why the command must not be started any more, if so.
fn holding<T>(
    context: &Context<'_>,
    claim: &Claim,
    work: impl FnOnce() -> T,
) -> (T, Handover, Option<StopReason>) {
    let (busy, done) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let keeper = scope.spawn(move || {
            let repo = context.store.handle();
            let mut heartbeat = Heartbeat::new(&repo, context.arbiter, claim, context.options, None);
            loop {
                match heartbeat.attend(Moment::Woken) {
                    Attend::Stop(why) => return (heartbeat.hand_over(), Some(why)),
                    Attend::Continue { wake_in } => match done.recv_timeout(wake_in) {
                        Err(RecvTimeoutError::Timeout) => {}
                        Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
                    },
                }
            }
            // A remote is not asked for each start: losing a renewal is how a lost lease is noticed there.
            let lost = context.arbiter.attaches()
                && matches!(look(&repo, context.arbiter, claim, HASTE), Ok((standing, _)) if standing != Standing::Ours);
            (heartbeat.hand_over(), lost.then_some(StopReason::LeaseLost))
        });
        let result = work();
        drop(busy);
        let (handover, given_up) = keeper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (result, handover, given_up)
    })
}

fn unstarted(claim: Claim, site: Site, files: Option<Files>, why: String) -> Finished {
    let held = claim.lease;
    let ending = Ending::NotStarted(why);
    let lease_left = Duration::from_secs(claim.seconds);
    Finished {
        claim,
        site,
        ending,
        declaration: None,
        misspoken: false,
        files,
        held,
        elapsed: Duration::ZERO,
        lease_left,
    }
}

/// Finds or makes the place where the command runs.
fn place(context: &Context<'_>, repo: &Repo, claim: &Claim) -> Result<Site, String> {
    if claim.venue == Venue::InPlace {
        let checkout = repo.checkout().ok_or("there is no checkout here any more")?;
        follow_claim(context, repo, claim, &checkout)?;
        // The scan saw the index equal to HEAD; what was staged since then is the person's and no result of ours.
        match repo.index_equals_head(&checkout.path) {
            Ok(true) => {}
            Ok(false) => return Err(format!("something was staged in {} just now", checkout.path.display())),
            Err(error) => return Err(error_words(&error)),
        }
        return Ok(Site::InPlace(checkout));
    }
    // What an earlier attempt left on this branch must not be in the way, and must not be lost.
    sweep(context, repo, Some(&claim.branch));
    let mark = Mark {
        attempt: claim.attempt,
        branch: claim.branch.clone(),
        remote: context.arbiter.source().cloned(),
    };
    let attached = context.arbiter.attaches();
    let worktree = repo
        .create_worktree(&context.options.worktrees, &mark, claim.lease, attached)
        .map_err(|error| format!("its worktree could not be made: {}", error_words(&error)))?;
    if let Some(text) = repo.init_submodules(&worktree) {
        (context.tell)(Notice::Warning { branch: Some(claim.branch.clone()), text });
    }
    Ok(Site::Worktree(worktree))
}

/// Makes sure that a checkout in which the command is to run in place is at the lease.
fn follow_claim(
    context: &Context<'_>,
    repo: &Repo,
    claim: &Claim,
    checkout: &Checkout,
) -> Result<(), String> {
    let gone = || format!("{} is not checked out in {} any more", claim.branch, checkout.path.display());
    let local = checkout.branch.as_ref().ok_or_else(gone)?;
    let Some(remote) = context.arbiter.source() else {
        return if *local == claim.branch { Ok(()) } else { Err(gone()) };
    };
    if repo.upstream_on(local, remote).as_ref() != Some(&claim.branch) {
        return Err(gone());
    }
    // The person's branch goes along with the remote's, as after a fast-forward pull; the trees are the same.
    let log = "aynig: follow the claim";
    match repo.swap(local.full_ref().as_bstr(), Some(claim.trigger.commit), claim.lease, log) {
        Ok(Swap::Won) => Ok(()),
        Ok(Swap::Lost { .. }) => {
            Err(format!("{} is not where {remote} has {}; pull first", local, claim.branch))
        }
        Err(error) => Err(error_words(&error)),
    }
}

fn supervise(
    context: &Context<'_>,
    repo: &Repo,
    claim: Claim,
    site: Site,
    files: Files,
    handover: Handover,
) -> Finished {
    let options = context.options;
    let directory = site.path().unwrap_or(repo.top()).to_owned();
    // The branch's own command is in its worktree; one from elsewhere is in a copy of that tree.
    let top = match claim.command.tree.map(|tree| copy_of(repo, tree)).transpose() {
        Ok(copy) => copy.unwrap_or_else(|| directory.clone()),
        Err(error) => return unstarted(claim, site, Some(files), error_words(&error)),
    };
    let environment = launch::environment(repo, context.arbiter, options, &claim, &files, &directory);
    for text in environment.warnings {
        (context.tell)(Notice::Warning { branch: Some(claim.branch.clone()), text });
    }
    crate::crashpoint::reach(crate::crashpoint::Point::FilesPrepared);
    let streams = files.streams.0.try_clone().and_then(|out| Ok((out, files.streams.1.try_clone()?)));
    let (stdout, stderr) = match streams {
        Ok(streams) => streams,
        Err(error) => return unstarted(claim, site, Some(files), error.to_string()),
    };
    let spec = Spec {
        terminal: false,
        program: top.join(&claim.command.path),
        args: Vec::new(),
        directory: directory.clone(),
        environment: environment.variables,
        stdin: None,
        stdout,
        stderr,
        grace: options.grace,
        timeout: options.command_timeout,
        watchdog: Some(context.watchdog.clone()),
    };
    let workplace = match &site {
        Site::Worktree(worktree) => Some((worktree.path.clone(), worktree.git_dir.clone())),
        Site::InPlace(checkout) => Some((checkout.path.clone(), checkout.git_dir.clone())),
        Site::None => None,
    };
    let mut heartbeat = Heartbeat::new(repo, context.arbiter, &claim, options, workplace);
    heartbeat.take_over(handover);
    if let Err(ending) = make_ready(context, repo, &claim, &site, &spec, &mut heartbeat) {
        let (held, lease_left) = (heartbeat.held(), heartbeat.left());
        return Finished { ending, held, lease_left, ..unstarted(claim, site, Some(files), String::new()) };
    }
    let mut announced = false;
    let finished = crate::supervise::run(spec, context.shutdown, &mut |moment| {
        if !std::mem::replace(&mut announced, true) {
            (context.tell)(Notice::Started(Started {
                branch: claim.branch.clone(),
                state: claim.trigger.state.clone(),
                attempt: claim.attempt,
                directory: directory.clone(),
                stdout: files.stdout.clone(),
            }));
        }
        crate::crashpoint::reach(crate::crashpoint::Point::CommandStarted);
        heartbeat.attend(moment)
    });
    crate::crashpoint::reach(crate::crashpoint::Point::CommandEnded);
    let (held, lease_left) = (heartbeat.held(), heartbeat.left());
    // Measured now: what a survivor writes later does not count.
    let length = files.readers.0.metadata().map_or(0, |found| found.len());
    let ending = ending(finished.how);
    let observed = read_declarations(&files.readers.0, length);
    tell_malformed(context, &claim, &observed, &ending);
    tell_full_disk(context, &claim, &files, &ending);
    let misspoken = observed.malformed_count > 0;
    let declaration = observed.declaration;
    Finished {
        claim,
        site,
        ending,
        declaration,
        misspoken,
        files: Some(files),
        held,
        elapsed: finished.elapsed,
        lease_left,
    }
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

/// A command whose output cannot be stored mostly fails, and cannot say why.
fn tell_full_disk(context: &Context<'_>, claim: &Claim, files: &Files, ending: &Ending) {
    let logs = files.stdout.parent().unwrap_or(&files.stdout);
    if !ending.is_success()
        && let Ok(room) = Room::at(logs)
        && room.bytes < NO_ROOM
    {
        let text = format!(
            "`{}` {ending}, and the disk of its logs is full: there is room for {} KiB in {}",
            claim.trigger.state,
            room.bytes >> 10,
            logs.display()
        );
        (context.tell)(Notice::Warning { branch: Some(claim.branch.clone()), text });
    }
}

fn tell_malformed(context: &Context<'_>, claim: &Claim, observed: &Observed, ending: &Ending) {
    for line in &observed.malformed {
        let text = format!(
            "`{}` wrote an invalid SET_STATE on line {} of its output, which changes nothing: {}",
            claim.trigger.state, line.line_number, line.reason
        );
        (context.tell)(Notice::Warning { branch: Some(claim.branch.clone()), text });
    }
    let untold =
        observed.malformed_count.saturating_sub(u64::try_from(observed.malformed.len()).unwrap_or(u64::MAX));
    if untold > 0 {
        let text = format!("{untold} more invalid SET_STATE lines are in its log");
        (context.tell)(Notice::Warning { branch: Some(claim.branch.clone()), text });
    }
    if observed.declaration.is_some() && !ending.is_success() {
        tracing::info!(branch = %claim.branch, attempt = %claim.attempt, "SET_STATE is ignored: the command did not exit with 0");
    }
}
