//! `aynig logs`: the output of an attempt's command.
//!
//! Invariant: bytes are printed unchanged, except that a terminal gets control sequences made visible
//! ([`Escapes`]). The branch's history selects the attempt. The log's path comes from the attempt's record on
//! this host, else from the contract's file names (CONTRACT.md §3, "Command Inputs And Logs"). Logs are never
//! transferred: those of another host stay there.

use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use bstr::{BString, ByteSlice};

use aynig::clock;
use aynig::contract::commits::stalled_run;
use aynig::contract::head::Head;
use aynig::contract::ids::{AttemptId, BranchName, CommitId, RemoteName};
use aynig::contract::lease::{Lease, Liveness};
use aynig::fsutil;
use aynig::fsutil::{Followed, News};
use aynig::git::Repo;
use aynig::ops::app::App;
use aynig::ops::error::Error;
use aynig::ops::history::unreadable;
use aynig::ops::{missing, target};
use aynig::runner::attempt::files;
use aynig::runner::attempt::files::Record;
use aynig::runner::authority::Authority;
use aynig::runner::shell_quote;

use crate::cli::args::Logs;
use crate::cli::exit::Exit;
use crate::cli::ui;
use crate::cli::ui::escapes::Escapes;
use crate::cli::ui::signals;
use crate::cli::ui::{FAINT, styled};

/// An attempt, found in the history or in a record.
#[derive(Debug)]
struct Found {
    run_id: BString,
    /// The branch whose lease is watched while the log is followed.
    branch: Option<BranchName>,
    /// The remote that decides over that branch, if one does.
    remote: Option<RemoteName>,
    /// Its runner; empty if unknown.
    runner: String,
    /// The commit that triggered it.
    trigger: Option<CommitId>,
    record: Option<Record>,
}

/// Runs the subcommand.
pub(crate) fn run(app: &App, arguments: &Logs) -> Result<Exit, Error> {
    let repo = app.repo();
    let found = match &arguments.attempt {
        Some(id) => by_id(&repo, &signals::authority(&repo, None)?, id)?,
        None => by_name(&repo, arguments)?,
    };
    let log = log_of(&repo, &found, arguments.stderr)?;
    let about = format!("attempt {}: {}", found.run_id, log.display());
    ui::narrate(&styled(FAINT, ui::sanitize(&about)));
    print(&repo, &found, &log, arguments.follow)?;
    let is_empty = |log: &Path| std::fs::metadata(log).map_or(0, |found| found.len()) == 0;
    let errors = log_of(&repo, &found, true).ok().filter(|errors| !arguments.stderr && !is_empty(errors));
    let Some(errors) = errors else {
        if is_empty(&log) && !arguments.follow {
            ui::narrate(&styled(FAINT, "nothing was printed"));
        }
        return Ok(Exit::Done);
    };
    let begins = if is_empty(&log) { "nothing was printed there; " } else { "" };
    if has_failed(&repo, &found) {
        let about = format!("{begins}standard error: {}", errors.display());
        ui::narrate(&styled(FAINT, ui::sanitize(&about)));
        print(&repo, &found, &errors, false)?;
    } else {
        let about = format!("{begins}something is on standard error: add --stderr");
        ui::narrate(&styled(FAINT, about));
    }
    Ok(Exit::Done)
}

/// The newest attempt on the branch that is named or checked out, or at or before the commit that is named.
fn by_name(repo: &Repo, arguments: &Logs) -> Result<Found, Error> {
    let authority = signals::authority(repo, arguments.remote.as_ref())?;
    let known = |branch: &BranchName| target::known_head(repo, &authority, branch, ui::warn);
    let commit = arguments.commit.as_ref().filter(|_| arguments.remote.is_none());
    let as_branch = commit.and_then(|text| BranchName::new(text.as_bytes()).ok());
    let mut head = as_branch.as_ref().map(known).transpose()?.flatten();
    if let (Some(text), None) = (commit, head) {
        return by_commit(repo, &authority, &text.to_string_lossy());
    }
    let named = arguments.commit.as_deref().or(arguments.branch.as_deref());
    let branch = target::branch(repo, &authority, named)?;
    if head.is_none() {
        head = known(&branch)?;
    }
    let head = head.ok_or_else(|| missing::missing(repo, &authority, &branch, missing::Purpose::Read))?;
    let found = newest(repo, head, Some(&branch)).ok_or_else(|| {
        if let Some(error) = repo.history(head).find_map(Result::err) {
            return unreadable(&branch, &error);
        }
        Error::failed(format!("no attempt was ever made on {branch}: there is no lease in its history")).hint(
            format!("`aynig status{}` says what would be run", missing::options(repo, &authority, &branch)),
        )
    })?;
    Ok(Found { remote: authority.source().cloned(), ..found })
}

fn by_id(repo: &Repo, authority: &Authority, text: &str) -> Result<Found, Error> {
    let of_record = |record: Record| Found {
        run_id: record.attempt.as_str().into(),
        branch: BranchName::new(record.branch.as_str()).ok(),
        remote: source_of(repo, &record),
        runner: String::new(),
        trigger: CommitId::parse_hex(&record.trigger),
        record: Some(record),
    };
    if let Some(record) = AttemptId::parse(text.as_bytes()).and_then(|id| files::find(repo, id)) {
        return Ok(of_record(record));
    }
    let text = text.to_ascii_lowercase();
    let mut matching: Vec<Record> =
        files::all(repo).into_iter().filter(|record| record.attempt.starts_with(&text)).collect();
    match matching.len() {
        0 => Err(Error::failed(format!("no attempt {text} was made on this host"))
            .hint(format!("{} and the runners that made them", names_attempts(authority)))
            .hint("logs stay on the host that ran the command; look there")),
        1 => Ok(of_record(matching.remove(0))),
        count => Err(Error::usage(format!("{count} attempts on this host begin with {text}"))
            .hint("give more of its id")),
    }
}

/// The remote that decides, by the attempt's lease.
fn source_of(repo: &Repo, record: &Record) -> Option<RemoteName> {
    let stored = repo.commit(CommitId::parse_hex(&record.lease)?).ok()?;
    match Head::read(&stored.facts()) {
        Head::Working(lease) => RemoteName::from_source(lease.source?.as_bstr()),
        Head::Unmanaged | Head::Invalid(_) | Head::Ready(_) => None,
    }
}

fn by_commit(repo: &Repo, authority: &Authority, text: &str) -> Result<Found, Error> {
    let commit = repo.parse_commit(text).ok_or_else(|| nowhere(repo, authority, text))?;
    let hex = commit.to_string();
    // A trigger is older than its lease, so its own history does not show the attempt that it triggered.
    let own = files::all(repo).into_iter().filter(|record| record.trigger == hex || record.lease == hex);
    if let Some(record) = own.max_by_key(|record| record.started) {
        return by_id(repo, authority, &record.attempt);
    }
    if contract_log(repo, commit, false).exists() {
        return Ok(Found {
            run_id: format!("at {}", commit.short()).into(),
            branch: None,
            remote: None,
            runner: String::new(),
            trigger: Some(commit),
            record: None,
        });
    }
    newest(repo, commit, None).ok_or_else(|| {
        Error::failed(format!("no attempt was made at or before {}", commit.short()))
            .hint(names_attempts(authority))
    })
}

/// The error for a text that names no branch and no commit here.
fn nowhere(repo: &Repo, authority: &Authority, text: &str) -> Error {
    let message = format!("{text} is neither a branch nor a commit in {}", repo.common_dir().display());
    let give = "give a hash, a branch or a tag; `--attempt ID` for an attempt";
    let Ok(branch) = BranchName::new(text) else { return Error::usage(message).hint(give) };
    let mut error = Error { message, ..missing::missing(repo, authority, &branch, missing::Purpose::Read) };
    let tracked = missing::tracked(repo, &branch);
    for (remote, there) in &tracked {
        let head = repo.tracked_head(remote, there).ok().flatten();
        let found = head.and_then(|head| newest(repo, head, None)).filter(|found| found.record.is_none());
        if let Some(Found { runner, .. }) = found.filter(|found| !found.runner.is_empty()) {
            error = error.hint(format!("its newest attempt was made by {runner}; its logs are on that host"));
        }
    }
    if tracked.is_empty() { error.hint(give) } else { error }
}

/// Suggests the command that names the attempts of a branch.
fn names_attempts(authority: &Authority) -> String {
    let remote = authority.source().map(|remote| format!(" --remote {}", shell_quote(remote.as_str())));
    format!("`aynig log BRANCH{} --leases` names the attempts of a branch", remote.unwrap_or_default())
}

/// The newest attempt in the first-parent history of `head`.
fn newest(repo: &Repo, head: CommitId, branch: Option<&BranchName>) -> Option<Found> {
    let mut found: Option<Found> = None;
    for stored in repo.history(head).map_while(Result::ok) {
        let meaning = Head::read(&stored.facts());
        let said = match &meaning {
            Head::Working(lease) => Some((lease.run_id.clone(), lease.runner.to_string())),
            Head::Ready(event) => {
                stalled_run(&event.message.trailers).map(|run| (run.to_owned(), String::new()))
            }
            Head::Unmanaged | Head::Invalid(_) => None,
        };
        match (&mut found, said) {
            (None, None) => {}
            (None, Some((run_id, runner))) => {
                let record = AttemptId::parse(&run_id).and_then(|id| files::find(repo, id));
                let known = record.is_some();
                let branch = branch.cloned();
                found = Some(Found { run_id, branch, remote: None, runner, trigger: None, record });
                if known {
                    break;
                }
            }
            // This host has no record. The lease names the runner, and the commit below the first lease names
            // the log.
            (Some(found), Some((run_id, runner))) if found.run_id == run_id => found.runner = runner,
            (Some(found), _) => {
                if let Head::Ready(event) = meaning {
                    found.trigger = Some(event.commit);
                    break;
                }
            }
        }
    }
    found
}

/// The path of an attempt's log on `trigger`, by the contract.
fn contract_log(repo: &Repo, trigger: CommitId, stderr: bool) -> PathBuf {
    let stream = if stderr { "stderr" } else { "stdout" };
    files::log_directory(repo).join(format!("{trigger}.{stream}.log"))
}

fn log_of(repo: &Repo, found: &Found, stderr: bool) -> Result<PathBuf, Error> {
    let recorded = found.record.as_ref().map(|record| if stderr { &record.stderr } else { &record.stdout });
    if let Some(log) = recorded {
        // The repository may have been moved or copied since.
        if let Some(here) = log.file_name().map(|name| files::log_directory(repo).join(name))
            && here.exists()
        {
            return Ok(here);
        }
        if log.exists() {
            return Ok(log.clone());
        }
        return Err(Error::failed(format!(
            "the log of attempt {} was at {} and is not there any more",
            found.run_id,
            log.display()
        ))
        .hint("logs are plain files; somebody removed it"));
    }
    let named = found.trigger.map(|trigger| contract_log(repo, trigger, stderr));
    if let Some(log) = named.filter(|log| log.exists()) {
        return Ok(log);
    }
    let by = match found.runner.as_str() {
        "" => "on another host".to_owned(),
        runner => format!("by {runner}"),
    };
    Err(Error::failed(format!(
        "attempt {} was made {by}, and its logs are not in {}",
        found.run_id,
        files::log_directory(repo).display()
    ))
    .hint(format!("logs stay where the command ran; there: aynig logs --attempt {}", found.run_id))
    .hint("a lease taken by hand (`aynig set-working`) has no logs"))
}

fn print(repo: &Repo, found: &Found, log: &Path, follow: bool) -> Result<(), Error> {
    let trying = format!("read {}", log.display());
    let failed = |error: std::io::Error| Error::because(&trying, &error);
    let mut log = Followed::open(log).map_err(failed)?;
    let mut escapes = ui::room().map(|_| Escapes::new(ui::coloured()));
    fsutil::follow(
        &mut log,
        |_| Ok::<_, Error>(!follow || is_over(repo, found)),
        |log| loop {
            let bytes = match log.bytes().map_err(failed)? {
                News::Nothing => return Ok(ControlFlow::Continue(())),
                // The command emptied its log: what it prints now is shown.
                News::Cut | News::Replaced => continue,
                News::Bytes(bytes) => bytes,
            };
            let read = match &mut escapes {
                Some(escapes) => ui::answer_bytes(&escapes.pass(&bytes)),
                None => ui::answer_bytes(&bytes),
            };
            if !read {
                return Ok(ControlFlow::Break(()));
            }
        },
    )?;
    if let Some(mut escapes) = escapes {
        ui::answer_bytes(&escapes.end());
    }
    Ok(())
}

/// The HEAD of the attempt's branch. For a remote's branch the runner's last push is enough, since the runner is
/// on this host: no connection is needed.
fn head_of(repo: &Repo, found: &Found) -> Option<CommitId> {
    let branch = found.branch.as_ref()?;
    match &found.remote {
        None => repo.branch_head(branch).ok()?,
        Some(remote) => repo.fetched_head(remote, branch).ok()?,
    }
}

/// Whether a stalled commit of the attempt's branch closed it.
fn has_failed(repo: &Repo, found: &Found) -> bool {
    let Some(head) = head_of(repo, found) else { return false };
    for stored in repo.history(head).map_while(Result::ok) {
        match Head::read(&stored.facts()) {
            Head::Ready(event) if stalled_run(&event.message.trailers) == Some(found.run_id.as_bstr()) => {
                return true;
            }
            Head::Working(lease) if lease.run_id == found.run_id => return false,
            Head::Ready(_) | Head::Working(_) | Head::Unmanaged | Head::Invalid(_) => {}
        }
    }
    false
}

/// Whether the attempt's lease has ended: HEAD is another commit, or the lease has expired.
fn is_over(repo: &Repo, found: &Found) -> bool {
    let Some(head) = head_of(repo, found) else { return true };
    match lease_at(repo, head) {
        Some(lease) if lease.run_id == found.run_id => {
            matches!(lease.liveness(clock::wall_seconds()), Liveness::Expired { .. })
        }
        Some(_) | None => true,
    }
}

/// The lease at `head`, or below the commits a command made on top of it.
fn lease_at(repo: &Repo, head: CommitId) -> Option<Lease> {
    for stored in repo.history(head).map_while(Result::ok) {
        match Head::read(&stored.facts()) {
            Head::Working(lease) => return Some(lease),
            Head::Ready(_) => return None,
            Head::Unmanaged | Head::Invalid(_) => {}
        }
    }
    None
}
