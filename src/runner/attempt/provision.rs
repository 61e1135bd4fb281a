//! Prepares a worktree before its command starts: ignored files, and `aynig.setup` (CONTRACT 9.16, 9.17).
//!
//! The lease is kept meanwhile, and a stop of the runner does not wait.

use std::path::PathBuf;

use crate::contract::settlement::{Ending, StopReason};
use crate::git::Repo;
use crate::runner::events::warning::Warning;
use crate::supervise::{Finished as Ended, How, Spec};

use crate::runner::Context;
use crate::runner::attempt::claim::Claim;
use crate::runner::attempt::files::log_directory;
use crate::runner::attempt::finished::{Site, ending};
use crate::runner::attempt::include::{Include, LIST};
use crate::runner::attempt::keeper::LeaseKeeper;

/// The directory of the commands.
const COMMANDS: &str = ".aynig";

/// Prepares the worktree of `command`. Returns the end of the attempt if that fails.
pub(crate) fn provision(
    context: &Context<'_>,
    repo: &Repo,
    claim: &Claim,
    site: &Site,
    command: &Spec,
    keeper: &LeaseKeeper<'_>,
) -> Result<(), Ending> {
    let Site::Worktree(worktree) = site else { return Ok(()) };
    // A branch that holds only commands has no files that could need others.
    if repo.commit(claim.lease).is_ok_and(|lease| repo.has_only_entry(lease.tree, COMMANDS)) {
        return Ok(());
    }
    let include = Include {
        repo,
        worktree,
        own: context.options.trust.commands_from.is_none(),
        ours: &[context.options.worktrees.clone(), log_directory(repo)],
        stop: keeper.stop(),
    };
    let copied = match include.list().map_err(failed)? {
        Some(list) => {
            let left = include.copy(&list);
            if let Some(cause) = keeper.stop().cause() {
                return Err(ending(Ended::unstarted(How::Stopped(cause.into())), keeper.given_up()));
            }
            for (count, cause) in left.map_err(failed)? {
                context.warn(Some(&claim.branch), Warning::FilesNotCopied { list: LIST, count, cause });
            }
            true
        }
        None => false,
    };
    if let Some(line) = &context.options.setup {
        set_up(line, command, keeper)?;
    } else if !copied {
        return Ok(());
    }
    // Copying may have been slow, and the setup command may have used the attempt's environment to move the
    // branch.
    if keeper.is_lost(repo) { Err(Ending::Stopped { why: StopReason::LeaseLost }) } else { Ok(()) }
}

fn failed(why: String) -> Ending {
    Ending::NotStarted(format!("its worktree could not be made ready: {why}"))
}

/// Runs `line` with the command's environment and limits, with both streams going to its stderr log.
fn set_up(line: &str, command: &Spec, keeper: &LeaseKeeper<'_>) -> Result<(), Ending> {
    let stream = || command.stderr.try_clone().map_err(|error| failed(error.to_string()));
    let spec = Spec {
        terminal: false,
        program: PathBuf::from("/bin/sh"),
        args: vec!["-c".into(), line.into()],
        directory: command.directory.clone(),
        environment: command.environment.clone(),
        stdin: None,
        stdout: stream()?,
        stderr: stream()?,
        grace: command.grace,
        timeout: command.timeout,
        leash: None,
        watchdog: command.watchdog.clone(),
    };
    let finished = crate::supervise::run(spec, keeper.stop(), || {});
    match ending(finished, keeper.given_up()) {
        Ending::Exited(0) => Ok(()),
        // Any other stop was meant for the whole attempt. The time limit is the setup's own.
        Ending::Stopped { why } if !matches!(why, StopReason::TimedOut { .. }) => {
            Err(Ending::Stopped { why })
        }
        ended => Err(failed(format!("`{line}` (aynig.setup) {}", ended.describe()))),
    }
}
