//! Prepares a worktree before its command starts: ignored files, and `aynig.setup` (CONTRACT 9.16, 9.17).
//!
//! Invariant: the user's checkout is never changed. Existing files are not overwritten, and no link is
//! followed out of the worktree. Only files that git ignores on both sides are copied, so that no commit and
//! no rescue ever contains them. The lease is kept meanwhile, and a stop of the runner does not wait.

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
use crate::supervise::{Finished as Ended, How, Spec};

use crate::runner::attempt::claim::Claim;
use crate::runner::attempt::files::log_directory;
use crate::runner::attempt::finished::{Site, ending};
use crate::runner::attempt::keeper::LeaseKeeper;
use crate::runner::{Context, error_chain};

/// The file that lists the ignored files to copy into a new worktree.
const LIST: &str = ".worktreeinclude";

/// The directory of the commands.
const COMMANDS: &str = ".aynig";

/// Bytes of a file copied at once. A copy that shares blocks is instant, whatever its size.
const CHUNK: u64 = 256 * 1024 * 1024;

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
    let copied = match list_for(context, repo, worktree).map_err(failed)? {
        Some(list) => {
            let stop = keeper.stop();
            let copied = copy_all(context, repo, claim, worktree, &list, stop);
            if let Some(cause) = stop.cause() {
                return Err(ending(Ended::unstarted(How::Stopped(cause.into())), keeper.given_up()));
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
    // Copying may have been slow, and the setup command may have used the attempt's environment to move the
    // branch.
    if keeper.is_lost(repo) { Err(Ending::Stopped { why: StopReason::LeaseLost }) } else { Ok(()) }
}

fn failed(why: String) -> Ending {
    Ending::NotStarted(format!("its worktree could not be made ready: {why}"))
}

/// Finds the list: the branch's own, else that of the main worktree. With `--commands-from` only the latter
/// counts.
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
    // At the end and deepest first, since the modes may forbid adding files.
    for directory in made.iter().rev() {
        let found = fs::metadata(main.path.join(directory));
        found
            .and_then(|found| fs::set_permissions(worktree.path.join(directory), found.permissions()))
            .map_err(|error| format!("could not set the mode of {}: {error}", directory.display()))?;
    }
    Ok(())
}

/// Creates the missing directories above `path` below `top`, and adds them to `made`.
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

/// Whether a component of the path to `path` below `top` is something else than a directory.
fn leads_elsewhere(top: &Path, path: &Path) -> bool {
    let above = path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
    above.filter_map(|above| top.join(above).symlink_metadata().ok()).any(|found| !found.is_dir())
}

/// Copies a file or a link to a path that does not exist yet. If the file system can, the kernel shares the
/// blocks.
fn copy(from: &Path, to: &Path, stop: &Stop) -> io::Result<()> {
    let found = match from.symlink_metadata() {
        // Removed since it was listed.
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
    // Build tools compare times, so a file that is up to date in the main worktree has to stay so.
    target.set_modified(found.modified()?)?;
    target.set_permissions(fs::Permissions::from_mode(found.permissions().mode() & 0o7777))
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
