//! Cleans logs and records of attempts that are over, files that no record names, and sightings of past
//! leases.
//!
//! Invariant: a file is removed only if it is a regular file with a name that the runner gives (CONTRACT 3.4,
//! 3.11), in the runner's directory for it. A record is removed after the logs it names.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::contract::head::Head;
use crate::contract::ids::{AttemptId, BranchName, CommitId};
use crate::contract::layout::Own;
use crate::contract::retention::{DEFAULT_AGE, Past, age_words, expendable};
use crate::fsutil::disk_use;
use crate::git::Repo;

use super::super::survey::observe;
use super::super::{error_chain, pluralize};
use super::item::{CleanError, CleanOptions, Item, Kind, age, file_age};
use crate::runner::attempt::files;
use crate::runner::attempt::files::Record;
use crate::runner::clean::settled;
use crate::runner::clean::settled::Of;

/// Returns the trigger or attempt in a file's name, if the name is one that the runner gives.
type NameOf = fn(&str) -> Option<String>;

/// An attempt made on this host.
struct Attempt {
    record: Record,
    /// Its branch, with the remote that is the authority.
    key: String,
    /// Whether its branch exists.
    exists: bool,
    over: bool,
    files: Vec<PathBuf>,
}

/// The directories of the runner's files.
struct Directories {
    logs: PathBuf,
    records: PathBuf,
}

/// Returns the items found, and the number of attempts whose logs stay by age or number.
pub(crate) fn clean(repo: &Repo, wanted: &CleanOptions) -> Result<(Vec<Item>, usize), CleanError> {
    files::check_log_directory(repo)?;
    let limit = wanted.older_than.unwrap_or(DEFAULT_AGE);
    let directories =
        Directories { logs: files::log_directory(repo), records: Own::Attempts.within(repo.common_dir()) };
    let attempts = attempts(repo, &directories)?;
    let past: Vec<Past<'_>> = attempts
        .iter()
        .map(|attempt| Past {
            branch: attempt.exists.then_some(attempt.key.as_bytes()),
            age: age(attempt.record.started, wanted.now),
            over: attempt.over,
        })
        .collect();
    let goes = expendable(&past, wanted.keep, limit);
    let retained = goes.iter().filter(|goes| !**goes).count();
    let mut items = Vec::new();
    for (Attempt { record, files, .. }, _) in attempts.iter().zip(&goes).filter(|(_, goes)| **goes) {
        let mut item = Item::new(Kind::Logs, format!("attempt {}", record.attempt)).of(&record.branch);
        item.age = Some(age(record.started, wanted.now));
        item.bytes = Some(files.iter().map(|file| disk_use(file)).sum());
        let why = format!("logs and record; it is over, and older than {}", age_words(limit));
        items.push(item.goes(why).carried_out(wanted, || remove(files)));
    }
    items.extend(strays(repo, wanted, limit, &directories, &attempts)?);
    items.extend(sightings(repo, wanted));
    Ok((items, retained))
}

/// Reads the attempts made on this host, oldest first.
fn attempts(repo: &Repo, directories: &Directories) -> Result<Vec<Attempt>, CleanError> {
    let mut worktrees: HashSet<AttemptId> = repo
        .linked_worktrees()?
        .into_iter()
        .filter_map(|registered| Some(registered.mark()?.attempt))
        .collect();
    // The branch of a kept worktree is known only from the record.
    worktrees.extend(repo.kept_worktrees()?.into_iter().map(|kept| kept.attempt));
    let mut found = Vec::new();
    for record in files::all(repo) {
        let (Some(id), Ok(branch)) =
            (AttemptId::parse(record.attempt.as_bytes()), BranchName::new(record.branch.as_str()))
        else {
            continue;
        };
        let (lease, remote) = settled::of_record(repo, &record);
        let of = Of { attempt: id, branch: &branch, remote: remote.as_ref(), lease };
        let over = !worktrees.contains(&id) && settled::settled(repo, of).is_ok();
        let exists = settled::head(repo, of).is_ok_and(|head| head.is_some());
        let files = files_of(directories, &record, id);
        let key = format!("{} {branch}", remote.map(|remote| remote.to_string()).unwrap_or_default());
        found.push(Attempt { record, key, exists, over, files });
    }
    found.sort_by(|one, other| {
        let (one, other) = (&one.record, &other.record);
        one.started.cmp(&other.started).then_with(|| one.attempt.cmp(&other.attempt))
    });
    Ok(found)
}

/// Cleans files older than `limit` that no record names and no lease is for.
fn strays(
    repo: &Repo,
    wanted: &CleanOptions,
    limit: u64,
    Directories { logs, records }: &Directories,
    attempts: &[Attempt],
) -> Result<Vec<Item>, CleanError> {
    let known: HashSet<&PathBuf> = attempts.iter().flat_map(|attempt| &attempt.files).collect();
    let names: [(&Path, NameOf); 2] = [(logs, stray_log), (records, stray_body)];
    let mut found = Vec::new();
    for (directory, name_of) in names {
        for file in list(directory) {
            let Some(name) = file.file_name().and_then(|name| name.to_str()).and_then(name_of) else {
                continue;
            };
            let seconds_old = file_age(&file, wanted.now).unwrap_or(0);
            if seconds_old > limit && !known.contains(&file) {
                found.push((file, name, seconds_old));
            }
        }
    }
    if found.is_empty() {
        // Histories are read only if there is a stray file.
        return Ok(Vec::new());
    }
    let in_use = triggers_in_use(repo)?;
    found.retain(|(_, name, _)| !in_use.contains(name));
    let items = found.into_iter().map(|(file, _, seconds_old)| {
        let mut item = Item::new(Kind::Logs, file.display().to_string());
        item.age = Some(seconds_old);
        item.bytes = Some(disk_use(&file));
        let why =
            format!("no record names it, no lease is for it, and it is older than {}", age_words(limit));
        item.goes(why).carried_out(wanted, || remove(std::slice::from_ref(&file)))
    });
    Ok(items.collect())
}

/// The files of an attempt: its record, its body, and the logs that the record names if their directory and
/// name are the runner's.
fn files_of(Directories { logs, records }: &Directories, record: &Record, id: AttemptId) -> Vec<PathBuf> {
    let ours = |path: &&PathBuf| {
        path.parent() == Some(logs.as_path())
            && path
                .file_name()
                .and_then(|name| name.to_str())
                .is_some_and(|name| stray_log(name).is_some_and(|trigger| trigger == record.trigger))
    };
    let named = [&record.stdout, &record.stderr].into_iter().filter(ours).cloned();
    named.chain([records.join(format!("{id}.body")), records.join(format!("{id}.json"))]).collect()
}

/// The trigger in the name of a log: `<trigger>.stdout.log`, or with the attempt in between.
fn stray_log(name: &str) -> Option<String> {
    let stem = name.strip_suffix(".stdout.log").or_else(|| name.strip_suffix(".stderr.log"))?;
    let trigger = match stem.split_once('.') {
        Some((trigger, attempt)) => AttemptId::parse(attempt.as_bytes()).map(|_| trigger)?,
        None => stem,
    };
    CommitId::parse_hex(trigger).map(|commit| commit.to_string())
}

/// The attempt in the name of a body.
fn stray_body(name: &str) -> Option<String> {
    let attempt = AttemptId::parse(name.strip_suffix(".body")?.as_bytes())?;
    Some(attempt.to_string())
}

fn list(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()))
        .map(|entry| entry.path())
        .collect();
    files.sort();
    files
}

/// The triggers of leases at the HEADs of branches, and the attempts that hold them.
fn triggers_in_use(repo: &Repo) -> Result<HashSet<String>, CleanError> {
    let mut found = HashSet::new();
    for tip in repo.branch_tips()? {
        let mut under_lease = false;
        for stored in repo.history(tip).map_while(Result::ok) {
            match Head::read(&stored.facts()) {
                Head::Working(lease) => {
                    under_lease = true;
                    found.extend(lease.attempt().map(|attempt| attempt.to_string()));
                }
                Head::Ready(event) => {
                    if under_lease {
                        found.insert(event.commit.to_string());
                    }
                    break;
                }
                // Above a lease these are the holder's own commits. Below it, such a commit was no trigger.
                Head::Unmanaged | Head::Invalid(_) => {}
            }
        }
    }
    Ok(found)
}

fn remove(files: &[PathBuf]) -> Result<Option<String>, String> {
    for file in files {
        match std::fs::remove_file(file) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(format!("could not remove {}: {error}", file.display()));
            }
            Ok(()) | Err(_) => {}
        }
    }
    Ok(None)
}

fn sightings(repo: &Repo, wanted: &CleanOptions) -> Option<Item> {
    let count = match observe::forget_gone(repo, wanted.apply) {
        Ok(0) => return None,
        Ok(count) => count,
        Err(error) => {
            return Some(Item::new(Kind::Sightings, "sightings of leases").failed(error_chain(&error)));
        }
    };
    let item = Item::new(Kind::Sightings, format!("{} of leases", pluralize(count, "sighting")));
    let item = item.goes("their commits are at no HEAD any more");
    Some(item.carried_out(wanted, || Ok(None)))
}
