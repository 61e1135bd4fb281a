//! Entries of a branch's story.

use serde::Serialize;

use crate::contract::deferred::delivered;
use crate::contract::head::{Event, InvalidHead};
use crate::contract::ids::{CommitId, StateName};
use crate::contract::kept::Kept;
use crate::contract::parking::asked_time;
use crate::contract::protocol::misspelt_fields;
use crate::contract::story::{Attempt, Commits, Declared, Entry, LeaseMark, Outcome, Stall};
use crate::contract::trailers::Trailer;
use crate::contract::waits_for::{ANSWERED_KEY, WaitsFor};

use super::deferred::DeferredView;
use super::{Time, text};
use crate::ops::history::host::Host;

/// One entry.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum EntryView {
    /// An attempt.
    Attempt(Box<AttemptView>),
    /// A state that was set while the branch was not leased.
    State(StateView),
    /// Commits that declare no state.
    Commits(CommitsView),
    /// Commits before the first that declares a state.
    Before(CommitsView),
    /// A commit whose state is invalid.
    Invalid(InvalidView),
    /// A state that waits beside the branch. No commit of the branch.
    Deferred(DeferredView),
}

/// An attempt.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptView {
    outcome: &'static str,
    origin_state: Option<StateName>,
    state: Option<StateName>,
    run_id: String,
    runner: Option<String>,
    started: Time,
    commit: Option<CommitId>,
    date: Option<Time>,
    author: Option<String>,
    elapsed_ms: Option<i64>,
    reason: Option<String>,
    ended: Option<&'static str>,
    cancel_by: Option<String>,
    cancel_reason: Option<String>,
    rescue_refs: Vec<String>,
    leases: Vec<LeaseView>,
    commit_count: usize,
    stdout_log: Option<String>,
    stderr_log: Option<String>,
    #[serde(flatten)]
    event: EventView,
}

/// A lease of an attempt.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaseView {
    commit: CommitId,
    date: Time,
    lease_seconds: u64,
}

/// A state that was set.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StateView {
    commit: CommitId,
    date: Time,
    state: StateName,
    author: String,
    reason: Option<String>,
    again: bool,
    /// The commit that waited beside the branch, if this delivers one. Its author is the author.
    delivers: Option<CommitId>,
    #[serde(flatten)]
    event: EventView,
}

/// The message of the commit that declares a state.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventView {
    subject: Option<String>,
    body: Option<String>,
    trailers: Vec<TrailerView>,
    not_before: Option<Time>,
    waits_for: Option<String>,
    answers: Option<Vec<StateName>>,
    /// The commit that asked, if this is the answer.
    answered: Option<String>,
}

/// A trailer.
#[derive(Debug, Serialize)]
pub struct TrailerView {
    key: String,
    value: String,
}

/// Commits that declare no state.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CommitsView {
    commit_count: usize,
    merge_count: usize,
    authors: Vec<String>,
    newest: Option<CommitId>,
    oldest: Option<CommitId>,
    date: Option<Time>,
    subject: Option<String>,
}

/// A commit whose state is invalid.
#[derive(Debug, Serialize)]
pub struct InvalidView {
    commit: CommitId,
    date: Time,
    author: String,
    reason: String,
}

impl EntryView {
    /// Returns an entry with the facts of this host about it.
    pub fn new(host: &Host<'_>, entry: &Entry) -> Self {
        match entry {
            Entry::Attempt(attempt) => Self::Attempt(Box::new(AttemptView::new(host, attempt))),
            Entry::Declared(declared) => Self::State(StateView::new(declared)),
            Entry::Commits(commits) => Self::Commits(CommitsView::new(commits)),
            Entry::Before(commits) => Self::Before(CommitsView::new(commits)),
            Entry::Invalid { invalid: InvalidHead { commit, reason }, committed_at, author } => {
                Self::Invalid(InvalidView {
                    commit: *commit,
                    date: Time(*committed_at),
                    author: text(author),
                    reason: reason.clone(),
                })
            }
        }
    }
}

impl AttemptView {
    fn new(host: &Host<'_>, attempt: &Attempt) -> Self {
        let (outcome, event, author) = match &attempt.outcome {
            Outcome::Open => ("open", None, None),
            Outcome::Ended { event, author } if event.state.is_stalled() => {
                ("stalled", Some(event), Some(author))
            }
            Outcome::Ended { event, author } if host.again(event).is_some() => {
                ("requeued", Some(event), Some(author))
            }
            Outcome::Ended { event, author } => ("advanced", Some(event), Some(author)),
            Outcome::TakenOver { .. } => ("takenOver", None, None),
            Outcome::Spoilt { .. } => ("invalid", None, None),
        };
        let logs = host.logs_of(attempt);
        Self {
            outcome,
            origin_state: attempt.origin.clone(),
            state: event.map(|event| event.state.clone()),
            run_id: text(&attempt.run_id),
            runner: Some(text(&attempt.runner)).filter(|name| !name.is_empty()),
            started: Time(attempt.first().committed_at),
            commit: event.map(|event| event.commit),
            date: event.map(|event| Time(event.committed_at)),
            author: author.map(|author| text(author)),
            elapsed_ms: attempt.seconds().map(|seconds| seconds.saturating_mul(1000)),
            reason: match event {
                Some(event) => host.again(event).or_else(|| why(event)),
                None => attempt.kept.as_ref().map(Kept::words),
            },
            ended: attempt.kept.as_ref().map(Kept::word),
            cancel_by: attempt.cancel.as_ref().map(|cancel| cancel.by.clone()),
            cancel_reason: attempt
                .cancel
                .as_ref()
                .map(|cancel| cancel.why.clone())
                .filter(|why| !why.is_empty()),
            rescue_refs: host.saved(attempt).into_iter().map(|saved| saved.name).collect(),
            leases: std::iter::once(&attempt.newest).chain(&attempt.earlier).map(LeaseView::new).collect(),
            commit_count: attempt.commits.count,
            stdout_log: logs.as_ref().map(|logs| logs.stdout.display().to_string()),
            stderr_log: logs.as_ref().map(|logs| logs.stderr.display().to_string()),
            event: event.map(|event| EventView::new(event)).unwrap_or_default(),
        }
    }
}

impl LeaseView {
    fn new(lease: &LeaseMark) -> Self {
        Self { commit: lease.commit, date: Time(lease.committed_at), lease_seconds: lease.seconds }
    }
}

impl StateView {
    fn new(declared: &Declared) -> Self {
        let event = &declared.event;
        Self {
            commit: event.commit,
            date: Time(event.committed_at),
            state: event.state.clone(),
            author: text(&declared.author),
            reason: why(event),
            again: declared.again,
            delivers: delivered(&event.message.trailers),
            event: EventView::new(event),
        }
    }
}

impl EventView {
    fn new(event: &Event) -> Self {
        let message = &event.message;
        let trailers = &message.trailers;
        let question = WaitsFor::of(trailers);
        let shown = |trailer: &Trailer| TrailerView { key: text(&trailer.key), value: text(&trailer.value) };
        Self {
            subject: Some(text(&message.subject)),
            body: Some(text(&message.body)).filter(|body| !body.is_empty()),
            trailers: trailers.iter().map(shown).collect(),
            not_before: asked_time(trailers).map(Time),
            answers: question.as_ref().and_then(|question| Some(question.answers.states()?.to_vec())),
            waits_for: question.map(|question| question.whom),
            answered: trailers.last(ANSWERED_KEY).map(|commit| text(commit)),
        }
    }
}

impl CommitsView {
    fn new(commits: &Commits) -> Self {
        let (newest, oldest) = commits.ends.as_ref().map(|(newest, oldest)| (newest, oldest)).unzip();
        Self {
            commit_count: commits.count,
            merge_count: commits.merges,
            authors: commits.authors.iter().map(|author| text(author)).collect(),
            newest: newest.map(|mark| mark.commit),
            oldest: oldest.map(|mark| mark.commit),
            date: newest.map(|mark| Time(mark.committed_at)),
            subject: newest.map(|mark| text(&mark.subject)),
        }
    }
}

/// Why it stalled, or what of its declaration was ignored.
fn why(event: &Event) -> Option<String> {
    Stall::of(event).map(|stall| stall.reason).or_else(|| misspelt_fields(&event.message.trailers))
}
