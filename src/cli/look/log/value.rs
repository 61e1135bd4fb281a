//! An entry of a story as JSON. Its keys are a promise.

use bstr::{BStr, ByteSlice};
use serde_json::{Value, json};

use aynig::clock;
use aynig::contract::head::Event;
use aynig::contract::parking::NOT_BEFORE_KEY;
use aynig::contract::story::{Attempt, Commits, Entry, LeaseMark, Outcome, Stall};

use crate::cli::look::log::host::Host;

/// One entry.
pub(crate) fn entry(host: &Host<'_>, entry: &Entry) -> Value {
    match entry {
        Entry::Attempt(attempt) => of_attempt(host, attempt),
        Entry::Declared(declared) => json!({
            "kind": "state",
            "commit": declared.event.commit.to_string(),
            "date": clock::format_utc(declared.event.committed_at),
            "state": declared.event.state.to_string(),
            "author": text(declared.author.as_bstr()),
            "subject": text(declared.event.message.subject.as_bstr()),
            "reason": Stall::of(&declared.event).map(|stall| stall.reason),
            "notBefore": not_before(&declared.event),
            "again": declared.again,
        }),
        Entry::Commits(commits) => of_commits("commits", commits),
        Entry::Before(commits) => of_commits("before", commits),
        Entry::Invalid { invalid, committed_at, author } => json!({
            "kind": "invalid",
            "commit": invalid.commit.to_string(),
            "date": clock::format_utc(*committed_at),
            "author": text(author.as_bstr()),
            "reason": invalid.reason,
        }),
    }
}

fn of_attempt(host: &Host<'_>, attempt: &Attempt) -> Value {
    let (outcome, event, author) = match &attempt.outcome {
        Outcome::Open => ("open", None, None),
        Outcome::Ended { event, author } if event.state.is_stalled() => {
            ("stalled", Some(event), Some(author))
        }
        Outcome::Ended { event, author } => ("advanced", Some(event), Some(author)),
        Outcome::TakenOver { .. } => ("takenOver", None, None),
        Outcome::Spoilt { .. } => ("invalid", None, None),
    };
    let stall = event.and_then(|event| Stall::of(event));
    let saved: Vec<String> = host.saved(attempt).into_iter().map(|saved| saved.name).collect();
    let leases: Vec<Value> = std::iter::once(&attempt.newest).chain(&attempt.earlier).map(of_lease).collect();
    json!({
        "kind": "attempt",
        "outcome": outcome,
        "originState": attempt.origin.as_ref().map(ToString::to_string),
        "state": event.map(|event| event.state.to_string()),
        "runId": text(attempt.run_id.as_bstr()),
        "runner": text(attempt.runner.as_bstr()),
        "started": clock::format_utc(attempt.first().committed_at),
        "commit": event.map(|event| event.commit.to_string()),
        "date": event.map(|event| clock::format_utc(event.committed_at)),
        "author": author.map(|author| text(author.as_bstr())),
        "seconds": attempt.seconds(),
        "subject": event.map(|event| text(event.message.subject.as_bstr())),
        "reason": stall.as_ref().map(|stall| &stall.reason),
        "rescueRef": saved.first(),
        "rescueRefs": saved,
        "notBefore": event.and_then(|event| not_before(event)),
        "leases": leases,
        "commits": attempt.commits.count,
        "log": host.logs_of(attempt).map(|logs| logs.stdout.display().to_string()),
    })
}

fn of_lease(lease: &LeaseMark) -> Value {
    json!({
        "commit": lease.commit.to_string(),
        "date": clock::format_utc(lease.committed_at),
        "leaseSeconds": lease.seconds,
    })
}

fn of_commits(kind: &str, commits: &Commits) -> Value {
    let (newest, oldest) = commits.ends.as_ref().map(|(newest, oldest)| (newest, oldest)).unzip();
    json!({
        "kind": kind,
        "count": commits.count,
        "merges": commits.merges,
        "authors": commits.authors.iter().map(|author| text(author.as_bstr())).collect::<Vec<_>>(),
        "newest": newest.map(|mark| mark.commit.to_string()),
        "oldest": oldest.map(|mark| mark.commit.to_string()),
        "date": newest.map(|mark| clock::format_utc(mark.committed_at)),
        "subject": newest.map(|mark| text(mark.subject.as_bstr())),
    })
}

fn not_before(event: &Event) -> Option<String> {
    event.message.trailers.last(NOT_BEFORE_KEY).map(text)
}

fn text(bytes: &BStr) -> String {
    bytes.to_str_lossy().into_owned()
}
