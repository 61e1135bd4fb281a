//! Makes a worktree ready to work in before its command starts: files that git ignores, and `aynig.setup` (CONTRACT.md §9).
//!
//! Invariant: nothing here happens in a person's checkout; nothing that is there is written over, no link is followed out of the
//! worktree, and only what git ignores on both sides is copied, so that no commit and no rescue ever holds it. The
//! lease is looked after meanwhile, and whoever stops the runner does not wait for it.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::contract::settlement::{Ending, StopReason};
use crate::git::Repo;
use crate::git::worktrees::held::Worktree;
use crate::runner::events::warning::{NotCopied, Warning};
use crate::stop::Stop;
use crate::supervise::{How, Spec};

use crate::runner::attempt::claim::Claim;
use crate::runner::attempt::files::log_directory;
use crate::runner::attempt::finished::{Site, ending};
use crate::runner::attempt::keeper::LeaseKeeper;
use crate::runner::{Context, error_chain};

/// The list of files that a new worktree is given.
const LIST: &str = ".worktreeinclude";

/// How much of a file is copied at once; a copy that shares blocks takes no time, whatever its size.
const CHUNK: u64 = 256 * 1024 * 1024;

/// Makes the place of `command` ready. Says how the attempt ends instead, if that fails.
pub(crate) fn provision(
    context: &Context<'_>,
    repo: &Repo,
    claim: &Claim,
    site: &Site,
    command: &Spec,
    keeper: &LeaseKeeper<'_>,
) -> Result<(), Ending> {
    let Site::Worktree(worktree) = site else { return Ok(()) };
    let copied = match list_for(context, repo, worktree).map_err(failed)? {
        Some(list) => {
            let stop = keeper.stop();
            let copied = copy_all(context, repo, claim, worktree, &list, stop);
            if let Some(cause) = stop.cause() {
                return Err(ending(How::Stopped(cause.into()), keeper.given_up()));
            }
            copied.map_err(failed)?;
            true
        }
        None => false,
    };
    if let Some(line) = &context.options.setup {
        set_up(line, command, keeper)?;
    } else if !copied {
        return Ok(());
    }
    // It took its time, and setting up may have used the environment of the attempt to move the branch.
    if keeper.is_lost(repo) { Err(Ending::Stopped { why: StopReason::LeaseLost }) } else { Ok(()) }
}

fn failed(why: String) -> Ending {
    Ending::NotStarted(format!("its worktree could not be made ready: {why}"))
}

/// The list that counts: the branch's own, else that of the main worktree. Where commands are not the branch's, neither is this.
fn list_for(context: &Context<'_>, repo: &Repo, worktree: &Worktree) -> Result<Option<PathBuf>, String> {
    let Some(main) = repo.main_checkout() else { return Ok(None) };
    let own = context.options.trust.commands_from.is_none().then(|| worktree.path.join(LIST));
    for list in own.into_iter().chain([main.path.join(LIST)]) {
        match list.symlink_metadata() {
            Ok(found) if found.is_file() => return Ok(Some(list)),
            Ok(_) => return Err(format!("{} is not a regular file", list.display())),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(format!("{}: {error}", list.display())),
        }
    }
    Ok(None)
}

fn copy_all(
    context: &Context<'_>,
    repo: &Repo,
    claim: &Claim,
    worktree: &Worktree,
    list: &Path,
    stop: &Stop,
) -> Result<(), String> {
    let Some(main) = repo.main_checkout() else { return Ok(()) };
    let listed = repo.ignored_and_listed(&main, list).map_err(|error| error_chain(&error))?;
    let ours = [context.options.worktrees.clone(), log_directory(repo)];
    let (mut wanted, mut beyond) = (BTreeSet::new(), 0_usize);
    for path in listed {
        let target = worktree.path.join(&path);
        if ours.iter().any(|ours| main.path.join(&path).starts_with(ours))
            || target.symlink_metadata().is_ok()
        {
            continue;
        }
        if leads_elsewhere(&worktree.path, &path) {
            beyond += 1;
        } else {
            wanted.insert(path);
        }
    }
    let ignored = repo.ignored_in(worktree, &wanted).map_err(|error| error_chain(&error))?;
    for (count, cause) in
        [(beyond, NotCopied::LeadsElsewhere), (wanted.len() - ignored.len(), NotCopied::NotIgnored)]
    {
        if count > 0 {
            context.warn(Some(&claim.branch), Warning::FilesNotCopied { list: LIST, count, cause });
        }
    }
    let mut made = BTreeSet::new();
    for path in &ignored {
        if stop.cause().is_some() {
            return Ok(());
        }
        let (from, to) = (main.path.join(path), worktree.path.join(path));
        make_way(&worktree.path, path, &mut made)
            .map_err(|error| format!("could not make the directory of {}: {error}", to.display()))?;
        copy(&from, &to, stop)
            .map_err(|error| format!("could not copy {} to {}: {error}", from.display(), to.display()))?;
    }
    // At the end, and what is deepest first: they may be such that nothing can be added.
    for directory in made.iter().rev() {
        let found = fs::metadata(main.path.join(directory));
        found
            .and_then(|found| fs::set_permissions(worktree.path.join(directory), found.permissions()))
            .map_err(|error| format!("could not set the mode of {}: {error}", directory.display()))?;
    }
    Ok(())
}

/// Makes the directories that are missing above `path` below `top`, and notes them in `made`.
fn make_way(top: &Path, path: &Path, made: &mut BTreeSet<PathBuf>) -> io::Result<()> {
    let mut above: Vec<&Path> = path.ancestors().skip(1).collect();
    above.reverse();
    for directory in above {
        match fs::create_dir(top.join(directory)) {
            Ok(()) => {
                made.insert(directory.to_owned());
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Whether the way to `path` below `top` is barred by something that is no directory.
fn leads_elsewhere(top: &Path, path: &Path) -> bool {
    let above = path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
    above.filter_map(|above| top.join(above).symlink_metadata().ok()).any(|found| !found.is_dir())
}

/// Copies a file or a link that is not there yet. Where the file system can, the kernel shares the blocks instead of copying them.
fn copy(from: &Path, to: &Path, stop: &Stop) -> io::Result<()> {
    let found = match from.symlink_metadata() {
        // Gone since it was listed: as if it had never been there.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if found.is_symlink() {
        return symlink(fs::read_link(from)?, to);
    }
    if !found.is_file() {
        return Ok(());
    }
    let no_link = nix::fcntl::OFlag::O_NOFOLLOW.bits();
    let mut source = OpenOptions::new().read(true).custom_flags(no_link).open(from)?;
    let mut target = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    while stop.cause().is_none() && io::copy(&mut (&mut source).take(CHUNK), &mut target)? > 0 {}
    // Build tools compare times: what was up to date in the main worktree stays so.
    target.set_modified(found.modified()?)?;
    target.set_permissions(fs::Permissions::from_mode(found.permissions().mode() & 0o7777))
}

/// Runs `line` as the command itself would be run, with both streams into its stderr log.
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
        watchdog: command.watchdog.clone(),
    };
    let finished = crate::supervise::run(spec, keeper.stop(), || {});
    match ending(finished.how, keeper.given_up()) {
        Ending::Exited(0) => Ok(()),
        // Whoever stopped it meant the attempt; the time limit is its own.
        Ending::Stopped { why } if !matches!(why, StopReason::TimedOut { .. }) => {
            Err(Ending::Stopped { why })
        }
        ended => Err(failed(format!("`{line}` (aynig.setup) {}", ended.describe()))),
    }
}
