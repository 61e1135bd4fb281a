//! Checks of leftovers: worktrees whose runner is gone, deferred states that no pass can deliver, and stale lock files
//! of git.

use std::path::{Path, PathBuf};

use aynig::clock;
use aynig::contract::layout::own_directory;
use aynig::contract::lease::Liveness;
use aynig::contract::retention::age_words;
use aynig::fsutil::process_with;
use aynig::git::worktrees::registration::Registered;
use aynig::git::{DamagedRef, RefFlaw, Repo};
use aynig::ops::app::Process;
use aynig::ops::error::{Error, unlock};
use aynig::ops::flows::leftovers::{old_deleted, old_workspaces};
use aynig::ops::workspace;
use aynig::runner::clean::stranded;
use aynig::runner::landing::recover::lease_of;
use aynig::runner::{error_chain, pluralize, shell_quote};
use aynig::workspace::{Condition, Flaw};

use crate::cli::ui::signals::shutdown;
use crate::cli::upkeep::doctor::Finding;

/// A lock younger than this (seconds) may belong to a running git.
const YOUNG: i64 = 5;

pub(crate) fn check(repo: &Repo, process: &Process, damaged: &[DamagedRef]) -> Vec<Finding> {
    let (more, kept) = workspaces(repo, process)
        .unwrap_or_else(|error| (vec![Finding::of("workspaces", error)], Vec::new()));
    let mut findings = worktrees(repo, &kept);
    findings.extend(more);
    findings.extend(of_ended(repo, process).unwrap_or_else(|error| vec![Finding::of("workspaces", error)]));
    findings.extend(deferred(repo));
    findings.extend(in_the_way(repo));
    findings.extend(damaged.iter().map(|damaged| damaged_ref(repo, damaged)));
    findings.extend(without_commit(repo));
    findings.extend(locks(repo.common_dir()));
    findings
}

/// Checks the workspaces; reports nothing if there are none. Returns the old worktrees that they left, too.
fn workspaces(repo: &Repo, process: &Process) -> Result<(Vec<Finding>, Vec<PathBuf>), Error> {
    const CHECK: &str = "workspaces";
    let Condition { count, flaws, kept } = workspace::at(repo, process, shutdown()?)?.condition()?;
    let mut findings: Vec<Finding> = flaws
        .into_iter()
        .map(|Flaw { subject, what, next, .. }| Finding::warning(CHECK, format!("{subject}: {what}"), next))
        .collect();
    for (path, handle, why) in &kept {
        let text = format!("{} is an old worktree of {handle}: {why}", path.display());
        findings.push(Finding::warning(CHECK, text, "aynig clean --workspaces"));
    }
    if findings.is_empty() && count > 0 {
        let all = pluralize(count, "workspace");
        findings.push(Finding::ok(CHECK, format!("{all}, complete and at the recorded place")));
    }
    Ok((findings, kept.into_iter().map(|(path, ..)| path).collect()))
}

/// Names the workspaces of runs that ended or were deleted a day ago.
fn of_ended(repo: &Repo, process: &Process) -> Result<Vec<Finding>, Error> {
    let workspaces = workspace::at(repo, process, shutdown()?)?;
    let (go, stay) = old_workspaces(repo, &workspaces)?;
    let deleted = old_deleted(repo, &workspaces)?;
    let named = |handles: &[String], what: &str, next: String| {
        let all = pluralize(handles.len(), "workspace");
        let text = format!("{all} of {what}: {}", handles.join(", "));
        (!handles.is_empty()).then(|| Finding::warning("workspaces", text, next))
    };
    let first = stay.first().map(|first| format!("aynig workspace remove --apply {first}"));
    let going = named(&go, "ended runs, whose work has landed", "aynig clean --apply".to_owned());
    let staying = named(&stay, "ended runs, whose work has not landed", first.unwrap_or_default());
    let deleted = named(&deleted, "deleted runs", "aynig clean --apply".to_owned());
    Ok(going.into_iter().chain(staying).chain(deleted).collect())
}

/// Names branches whose commits cannot be read.
fn without_commit(repo: &Repo) -> Vec<Finding> {
    let unread = repo.unread_objects();
    // If they cannot be listed, other checks report it.
    let tips = repo.branches().unwrap_or_default().into_iter();
    let commits = tips.filter_map(|tip| {
        let error = repo.commit(tip.target.ok()?).err()?;
        let name = tip.branch.full_ref().to_string();
        let next = match (&unread, repo.newest_logged(name.as_str().into())) {
            // It may be in what cannot be read.
            (Some(unread), _) => unread.next(),
            (None, Some(before)) => format!(
                "git fsck; if no other clone has the commit: git update-ref {} {before}",
                shell_quote(&name)
            ),
            (None, None) => "git fsck".to_owned(),
        };
        Some(Finding::error("refs", format!("{name}: {}", error_chain(&error)), next))
    });
    commits.collect()
}

fn damaged_ref(repo: &Repo, damaged: &DamagedRef) -> Finding {
    let name = damaged.name.to_string();
    let is_for_runners = name.starts_with("refs/heads/") || name.starts_with("refs/aynig/");
    let so = if is_for_runners { ", so no runner sees it" } else { "" };
    let text = format!("{name} cannot be read{so}: {}", damaged.what());
    let file = shell_quote(damaged.file.display().to_string());
    let (rm, quoted) = (format!("rm {file}"), shell_quote(&name));
    let is_readable = !matches!(damaged.flaw, RefFlaw::Unreadable(_));
    let remote = name.strip_prefix("refs/remotes/").and_then(|name| name.strip_suffix("/HEAD"));
    let next = match (remote, repo.newest_logged(name.as_str().into())) {
        _ if !is_readable => format!("ls -l {file}"),
        // The next pass fetches it.
        _ if damaged.is_copy() => rm,
        (Some(remote), _) => format!("{rm} && git remote set-head {} --auto", shell_quote(remote)),
        (None, Some(commit)) => format!("{rm} && git update-ref {quoted} {commit}"),
        (None, None) => format!(
            "git fsck --no-reflogs (it names commits that no ref has), then {rm} && git update-ref {quoted} COMMIT"
        ),
    };
    Finding::error("refs", text, next)
}

/// Names refs that keep others from being made.
fn in_the_way(repo: &Repo) -> Vec<Finding> {
    let finding = |name: String| {
        let text = format!("{name} is in the way: nothing can be saved below that name");
        Finding::error("refs", text, format!("git update-ref -d {name}"))
    };
    match repo.refs_in_the_way() {
        Ok(names) => names.into_iter().map(finding).collect(),
        Err(error) => vec![Finding::error("refs", error_chain(&error), "git for-each-ref")],
    }
}

fn worktrees(repo: &Repo, of_workspaces: &[PathBuf]) -> Vec<Finding> {
    let (all, kept) = match (repo.linked_worktrees(), repo.kept_worktrees()) {
        (Ok(all), Ok(kept)) => (all, kept),
        (Err(error), _) | (_, Err(error)) => {
            return vec![Finding::error("worktrees", error_chain(&error), "git worktree list --verbose")];
        }
    };
    let ours: Vec<_> = all.iter().filter(|registered| registered.mark().is_some()).collect();
    let left: Vec<String> = ours
        .iter()
        .filter(|registered| !repo.is_held(&registered.checkout.git_dir) && !goes_on(repo, registered))
        .map(|registered| registered.checkout.path.display().to_string())
        .collect();
    let mut findings = Vec::new();
    if !left.is_empty() {
        let text = format!("no runner holds {} any more", left.join(", "));
        findings.push(Finding::warning(
            "worktrees",
            text,
            "aynig run saves and removes them, `aynig clean` tells about them",
        ));
    }
    for kept in kept.into_iter().filter(|kept| !of_workspaces.contains(&kept.checkout.path)) {
        let text = format!("{} was kept for you: {}", kept.checkout.path.display(), kept.why);
        findings.push(Finding::warning("worktrees", text, "aynig clean --worktrees"));
    }
    if findings.is_empty() {
        let in_use = match ours.len() {
            0 => "no worktrees".to_owned(),
            count => pluralize(count, "worktree"),
        };
        findings.push(Finding::ok("worktrees", format!("{in_use} in use, none left behind")));
    }
    findings
}

/// Counts the deferred states that no pass can deliver; reports nothing if there are none.
fn deferred(repo: &Repo) -> Option<Finding> {
    let next = "aynig clean --deferred";
    match stranded(repo) {
        Ok(slots) if slots.is_empty() => None,
        Ok(slots) => {
            let names: Vec<&str> = slots.iter().map(|slot| slot.name.as_str()).collect();
            let states = pluralize(slots.len(), "deferred state");
            Some(Finding::warning(
                "deferred",
                format!("{states} cannot be delivered: {}", names.join(", ")),
                next,
            ))
        }
        Err(error) => Some(Finding::error("deferred", error_chain(&error), "git fsck")),
    }
}

/// Whether the attempt of a worktree still holds its branch, because a process of its command continues.
fn goes_on(repo: &Repo, registered: &Registered) -> bool {
    let Some(mark) = registered.mark() else { return false };
    let head = match &mark.remote {
        None => repo.branch_head(&mark.branch),
        Some(remote) => repo.fetched_head(remote, &mark.branch),
    };
    // Also below commits on top of the lease.
    let lease = head.ok().flatten().and_then(|head| lease_of(repo, &mark.branch, head, mark.attempt));
    lease.is_some_and(|lease| matches!(lease.liveness(clock::wall_seconds()), Liveness::Live { .. }))
}

fn locks(common_dir: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    for path in lock_files(common_dir) {
        let Some(age) = age(&path) else { continue };
        let at = path.display();
        if let Some(pid) = process_with(&path) {
            findings.push(Finding::ok("locks", format!("process {pid} has {at} open")));
        } else if age < YOUNG {
            let text = format!("{at} is of this moment: of a git at work, or look again in {YOUNG} s");
            findings.push(Finding::ok("locks", text));
        } else {
            let old = age_words(age.unsigned_abs());
            let text = format!("{at} is {old} old and no process has it open: it may be of a git that died");
            findings.push(Finding::warning("locks", text, unlock(&path)));
        }
    }
    if findings.is_empty() {
        findings.push(Finding::ok("locks", "no lock file was left"));
    }
    findings
}

/// All `*.lock` files of git in the git directory. The runners' directory has none: its locks stay when nobody holds
/// them, and worktrees and artifacts in it have files such as `Cargo.lock`. The directories of loose objects are left out.
fn lock_files(common_dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut ahead = vec![common_dir.to_owned()];
    while let Some(directory) = ahead.pop() {
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let loose = directory.ends_with("objects") && name.len() == 2;
            let is_own = path == own_directory(common_dir);
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && !loose && !is_own => ahead.push(path),
                Ok(kind)
                    if kind.is_file() && path.extension().is_some_and(|extension| extension == "lock") =>
                {
                    found.push(path)
                }
                Ok(_) | Err(_) => {}
            }
        }
    }
    found.sort();
    found
}

fn age(path: &Path) -> Option<i64> {
    use std::os::unix::fs::MetadataExt;
    Some(clock::wall_seconds().saturating_sub(path.symlink_metadata().ok()?.mtime()))
}
