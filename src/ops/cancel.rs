//! Stops the command on a branch, or keeps it from starting (CONTRACT 5.30, 5.31).
//!
//! Invariant: each commit lands by a compare-and-swap that expects the HEAD that was judged. A request never
//! lengthens the lease it lies on.

use bstr::{BStr, BString, ByteSlice};

use crate::clock;
use crate::contract::cancel::{Cancel, Then, cancel_draft, is_cancelled, mark};
use crate::contract::commits::{stalled_draft, stalled_run};
use crate::contract::deferred::Rest;
use crate::contract::head::{Event, Head};
use crate::contract::ids::{AttemptId, BranchName, CommitId, StateName};
use crate::contract::kept::Kept;
use crate::contract::lease::{Lease, Liveness, ORIGIN_KEY};
use crate::contract::message::Draft;
use crate::contract::report::{StalledReport, plain_line, stalled_body};
use crate::contract::requeue::rescued;
use crate::contract::story::Stall;
use crate::contract::trailers::Trailers;
use crate::git::objects::commits::{NewCommit, Stored};
use crate::git::remote::Move;
use crate::git::{Repo, Swap};
use crate::model::run::RunKind;
use crate::runner::attempt::cancel::of_lease;
use crate::runner::authority::Authority;
use crate::runner::options::Trust;
use crate::runner::survey::scan::is_below;
use crate::runner::survey::words::requests_again;
use crate::runner::survey::{rest, trust};
use crate::words::error_chain;

use super::declare::{Driven, Written, check_no_driver, check_no_workspace, driven_by};
use super::error::{Error, Kind};
use super::missing::{Purpose, for_run, missing};
use super::outer::OuterCommand;
use super::settings;
use super::target::head_of;
use super::view::lease::{gone_words, runner_words};
use crate::runner::survey::line::{lease_below, line};

/// The most tries. Each lost race is mostly a renewal.
const TRIES: u32 = 10;

/// The most characters of a name.
const MAX_NAME: usize = 100;

/// A request to cancel.
#[derive(Debug, Clone)]
pub struct Request {
    /// The next state of the branch.
    pub then: Then,
    /// Why.
    pub reason: Option<String>,
}

/// The outcome of a request.
#[derive(Debug)]
pub enum Outcome {
    /// The holder was asked to stop.
    Asked(Asked),
    /// It was asked before.
    Already {
        /// The attempt.
        asked: Asked,
        /// The request that counts.
        before: Cancel,
        /// The command for the wish to run it again, if that request does not.
        again: Option<String>,
    },
    /// No command ran; the branch is stalled now.
    Stalled(Box<Written>),
    /// There was nothing to do, and why.
    Nothing {
        /// The words, lower case, no full stop.
        why: String,
        /// Whether the branch is as it was wanted.
        fits: bool,
    },
}

/// An attempt that was asked to stop.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The branch.
    pub branch: BranchName,
    /// Its attempt.
    pub run_id: BString,
    /// Its runner, in words.
    pub runner: String,
    /// The request, or the lease.
    pub commit: CommitId,
    /// The state whose command runs.
    pub origin: Option<StateName>,
    /// The end of its lease, in seconds since the epoch.
    pub until: i64,
    /// The words about its runner, if that is known to be gone.
    pub gone: Option<String>,
    /// What was asked.
    pub then: Then,
}

/// How an attempt that was asked to stop ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// It still runs.
    Open,
    /// The branch is stalled: the reason, and the ref with the saved work.
    Stalled(String, Option<String>),
    /// The command failed by itself, and the branch is not marked as cancelled.
    Failed(String, Option<String>),
    /// The state was requested again; the ref with the saved work.
    Requeued(Option<String>),
    /// Another state followed.
    Other(Option<StateName>),
    /// Its lease has expired, and is not closed yet.
    Expired,
}

/// Cancels the attempt on `branch`, or keeps its command from starting.
pub fn cancel(
    repo: &Repo,
    authority: &Authority,
    branch: &BranchName,
    request: &Request,
) -> Result<Outcome, Error> {
    check_no_workspace(repo, branch)?;
    for _ in 0..TRIES {
        let head = head_of(repo, authority, branch)?.ok_or_else(|| no_branch(repo, authority, branch))?;
        check_no_driver(repo, branch, Some(head))?;
        let stored = repo
            .commit(head)
            .map_err(|error| Error::because(&format!("read the newest commit of {branch}"), &error))?;
        let case = Case { repo, authority, branch, request, stored: &stored };
        if let Some(outcome) = case.settle()? {
            return Ok(outcome);
        }
    }
    Err(Error::new(Kind::Conflict, format!("{branch} kept moving; nothing was changed")).hint("try again"))
}

/// There is no such branch. A run is ended by other commands.
fn no_branch(repo: &Repo, authority: &Authority, branch: &BranchName) -> Error {
    for_run(repo, branch, missing(repo, authority, branch, Purpose::Read), |run| {
        let (slug, group) = (&run.slug, if run.kind == RunKind::Flow { "flow" } else { "orch run" });
        Some(format!("`aynig {group} pause {slug}` pauses it, `aynig {group} stop {slug}` ends it"))
    })
}

struct Case<'a> {
    repo: &'a Repo,
    authority: &'a Authority,
    branch: &'a BranchName,
    request: &'a Request,
    stored: &'a Stored,
}

impl Case<'_> {
    /// One try; `None` if the branch was moved meanwhile.
    fn settle(&self) -> Result<Option<Outcome>, Error> {
        let nothing = |why: String, fits| Ok(Some(Outcome::Nothing { why, fits }));
        let lease = match Head::read(&self.stored.facts()) {
            Head::Working(lease) => Some(lease),
            Head::Unmanaged | Head::Invalid(_) => lease_below(self.repo, self.branch, self.stored.id),
            Head::Ready(event) => return self.without_lease(&event),
        };
        let Some(lease) = lease else {
            return nothing("its newest commit declares no state, so nothing runs".to_owned(), true);
        };
        let now = clock::wall_seconds();
        if let Liveness::Expired { over } = lease.liveness(now) {
            let (runner, over) = (runner_words(&lease), clock::span(over));
            return nothing(
                format!(
                    "the lease of {runner} ended {over} ago; the next `aynig run` sets the branch stalled"
                ),
                false,
            );
        }
        self.check_own(&lease)?;
        if Kept::of(&lease.message).is_some() {
            // Its command has ended, so no runner would read a request.
            return self.stall(lease.origin.as_ref(), Some(&lease));
        }
        if let Some(before) = self.already(&lease)?.filter(|before| !self.request.then.outdoes(before.then)) {
            let asked = self.asked(&lease, self.stored.id, before.then);
            let refused = self.request.then != before.then;
            let again = refused.then(|| self.retry_command(lease.origin.as_ref()));
            return Ok(Some(Outcome::Already { asked, before, again }));
        }
        let reason = self.request.reason.as_deref().unwrap_or_default();
        let (draft, dated) = cancel_draft(&lease, now, self.request.then, reason.as_bytes());
        let Some(commit) = self.put(&draft, dated, None, "aynig: ask to cancel")? else { return Ok(None) };
        Ok(Some(Outcome::Asked(self.asked(&lease, commit, self.request.then))))
    }

    fn without_lease(&self, event: &Event) -> Result<Option<Outcome>, Error> {
        let nothing = |why: String, fits| Ok(Some(Outcome::Nothing { why, fits }));
        let state = &event.state;
        let rests = is_cancelled(event) || rests(self.repo, self.authority, self.stored, state)?;
        if state.is_stalled() && rests {
            return match self.request.then {
                Then::Stall => nothing("it is stalled already".to_owned(), true),
                Then::Requeue => nothing(
                    format!(
                        "it is stalled; `{}` requests it again",
                        self.retry_command(event.failed().as_ref())
                    ),
                    false,
                ),
            };
        }
        if rests {
            return nothing(format!("its state {state} has no command, so nothing runs"), true);
        }
        if self.request.then == Then::Requeue {
            return nothing(format!("nothing runs, and {state} is asked for already"), true);
        }
        // Over a `stalled` whose command would be run, the state that failed stays the origin.
        let failed = event.failed();
        self.stall(Some(failed.as_ref().unwrap_or(state)), None)
    }

    /// Refuses a command that would stop itself.
    fn check_own(&self, lease: &Lease) -> Result<(), Error> {
        let own = OuterCommand::of(self.repo)?.and_then(|outer| outer.run);
        if own.is_none_or(|run| run != lease.run_id) {
            return Ok(());
        }
        let message = format!("this command runs on {} itself; nothing was changed", self.branch);
        Err(Error::usage(message).hint("to stall the branch, exit with a code other than 0"))
    }

    /// The request that is on the lease, if there is one that its holder heeds.
    fn already(&self, lease: &Lease) -> Result<Option<Cancel>, Error> {
        let trust = Trust { require_signed: settings::require_signed(self.repo)?, ..Trust::default() };
        Ok(of_lease(self.repo, &trust, self.branch, lease))
    }

    fn asked(&self, lease: &Lease, commit: CommitId, then: Then) -> Asked {
        Asked {
            branch: self.branch.clone(),
            run_id: lease.run_id.clone(),
            runner: runner_words(lease),
            commit,
            origin: lease.origin.clone(),
            until: lease.expires_at(),
            gone: gone_words(self.repo, self.authority.source(), lease, self.branch),
            then,
        }
    }

    fn retry_command(&self, failed: Option<&StateName>) -> String {
        requests_again(self.branch, self.authority.source(), failed)
    }

    /// Sets a branch stalled on which no command runs.
    fn stall(&self, origin: Option<&StateName>, lease: Option<&Lease>) -> Result<Option<Outcome>, Error> {
        let by = plain_line(&self.repo.identity().author.0, MAX_NAME);
        let why = self.request.reason.as_deref().unwrap_or_default().trim().to_owned();
        let headline =
            if why.is_empty() { format!("Cancelled by {by}.") } else { format!("Cancelled by {by}: {why}") };
        let note = format!("To ask again, with the same body and trailers: {}", self.retry_command(origin));
        let body = stalled_body(&StalledReport {
            headline: vec![headline],
            notes: vec![note],
            stdout: b"",
            stderr: b"",
        });
        let run = lease.map_or(BStr::new(""), |lease| lease.run_id.as_bstr());
        let mut draft = stalled_draft(run, origin, &body);
        if lease.is_none() {
            // Nothing ran.
            draft.trailers = only_origin(&draft.trailers);
        }
        mark(&mut draft);
        let attempt = lease.and_then(Lease::attempt);
        let now = clock::wall_seconds();
        let Some(commit) = self.put(&draft, now, attempt, "aynig: cancel")? else { return Ok(None) };
        Ok(Some(Outcome::Stalled(Box::new(Written {
            waits: None,
            branch: self.branch.clone(),
            parent: Some(self.stored.id),
            previous: Head::read(&self.stored.facts()).state(),
            commit,
            state: StateName::stalled(),
            advice: Vec::new(),
        }))))
    }

    /// Puts a commit with HEAD's files on the branch. `None` if the branch was moved meanwhile.
    fn put(
        &self,
        draft: &Draft,
        dated: i64,
        attempt: Option<AttemptId>,
        log: &str,
    ) -> Result<Option<CommitId>, Error> {
        let (repo, branch) = (self.repo, self.branch);
        self.check_signed()?;
        let message = draft
            .encode()
            .map_err(|error| Error::usage(format!("could not cancel {branch}: {}", error_chain(&error))))?;
        let attempt = attempt.and_then(|attempt| self.authority.credential(attempt));
        let parents = [self.stored.id];
        let new = NewCommit { tree: self.stored.tree, parents: &parents, message: &message, attempt };
        let new = repo
            .write_commit_dated(&new, dated)
            .map_err(|error| Error::because(&format!("write a commit on {branch}"), &error))?;
        let wanted = Move { branch: branch.clone(), expected: self.stored.id, new, within: None };
        Ok(match self.authority.swap(repo, wanted, log)? {
            Swap::Won => Some(new),
            Swap::Lost { .. } => None,
        })
    }

    /// Our signature may not vouch for the files of a HEAD that a runner would refuse (CONTRACT 13.10).
    fn check_signed(&self) -> Result<(), Error> {
        if !self.repo.signs().unwrap_or(true) {
            return Ok(());
        }
        let trust = Trust { require_signed: settings::require_signed(self.repo)?, ..Trust::default() };
        let Some(why) = trust::refused(self.repo, &trust, self.stored.id) else { return Ok(()) };
        let message = format!(
            "nothing was changed, as the signature would vouch for what is below it: {}: {why}",
            self.branch
        );
        Err(Error::setup(message)
            .hint(format!("look at what it brings: `git show {}`", self.stored.id.short()))
            .hint("or stop its runner; no runner here runs that commit"))
    }
}

fn only_origin(trailers: &Trailers) -> Trailers {
    trailers.iter().filter(|one| one.key == "dwp-state" || one.key == ORIGIN_KEY).cloned().collect()
}

/// Returns how an attempt that was asked to stop has ended.
pub fn look(repo: &Repo, authority: &Authority, asked: &Asked) -> Result<End, Error> {
    let Some(head) = head_of(repo, authority, &asked.branch)? else { return Ok(End::Other(None)) };
    // The newest state above the attempt's leases.
    let mut above: Option<Event> = None;
    for stored in line(repo, &asked.branch, head) {
        match Head::read(&stored.facts()) {
            Head::Working(lease) if lease.run_id == asked.run_id => {
                let Some(event) = above else {
                    let over = lease.expires_at().max(stored.committed_at) < clock::wall_seconds();
                    return Ok(if over && stored.id == head { End::Expired } else { End::Open });
                };
                let trigger =
                    repo.history(stored.id).map_while(Result::ok).find_map(|stored| {
                        match Head::read(&stored.facts()) {
                            Head::Ready(event) => Some(event),
                            Head::Unmanaged | Head::Invalid(_) | Head::Working(_) => None,
                        }
                    });
                return Ok(ended(&event, trigger.as_ref(), asked));
            }
            Head::Ready(event) => above = Some(event),
            Head::Unmanaged | Head::Invalid(_) | Head::Working(_) => {}
        }
    }
    Ok(End::Other(above.map(|event| event.state)))
}

fn ended(event: &Event, trigger: Option<&Event>, asked: &Asked) -> End {
    let trailers = &event.message.trailers;
    let saved = rescued(trailers).map(ToString::to_string);
    let closed = stalled_run(trailers).is_some_and(|run| run == asked.run_id.as_bstr());
    match Stall::of(event) {
        Some(stall) if closed && is_cancelled(event) => End::Stalled(stall.reason, stall.rescue),
        Some(stall) if closed => End::Failed(stall.reason, stall.rescue),
        // A command may set its own state again, in its own words.
        _ if asked.then == Then::Requeue && trigger.is_some_and(|trigger| is_again(event, trigger)) => {
            End::Requeued(saved)
        }
        _ => End::Other(Some(event.state.clone())),
    }
}

/// Whether a state is the request of an attempt, put back.
fn is_again(event: &Event, trigger: &Event) -> bool {
    let (one, other) = (&event.message, &trigger.message);
    event.state == trigger.state && one.subject == other.subject && one.body == other.body
}

/// Whether no command will run for the state, and nobody's answer is waited for (CONTRACT 5.33).
fn rests(repo: &Repo, authority: &Authority, stored: &Stored, state: &StateName) -> Result<bool, Error> {
    let from = trust::commands_from(repo, authority, &settings::trust(repo)?).map_err(|error| {
        let error = Error::from(error);
        Error { message: format!("{}; nothing was changed", error.message), ..error }
    })?;
    Ok(rest::of_state(repo, from.as_ref(), stored, state) == Rest::Rests)
}

/// The run that a branch drives. A glob passes over such a branch.
pub fn drives(repo: &Repo, authority: &Authority, branch: &BranchName) -> Result<Option<Driven>, Error> {
    driven_by(repo, branch, head_of(repo, authority, branch)?)
}

/// Whether a branch is worth cancelling, if only a glob names it: it is leased, or waits to be run or answered.
pub fn is_open(repo: &Repo, authority: &Authority, branch: &BranchName) -> Result<bool, Error> {
    if is_below(&settings::work_prefix(repo)?, branch) {
        return Ok(false);
    }
    let Ok(Some(stored)) =
        head_of(repo, authority, branch).map(|head| head.and_then(|id| repo.commit(id).ok()))
    else {
        return Ok(false);
    };
    Ok(match Head::read(&stored.facts()) {
        Head::Working(_) => true,
        Head::Ready(event) => !is_cancelled(&event) && !rests(repo, authority, &stored, &event.state)?,
        Head::Unmanaged | Head::Invalid(_) => lease_below(repo, branch, stored.id).is_some(),
    })
}
