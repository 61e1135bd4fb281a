//! `aynig events`: the state events of a branch, out of its history.
//!
//! Invariant: an event is a commit whose trailers declare a state, read by the same rules as everywhere (contract §1,
//! "State Events"); the history walked is the first-parent one, which is the branch's own story. Nothing is decided here.

use bstr::ByteSlice;
use serde_json::{Value, json};

use aynig::clock;
use aynig::contract::head::Head;
use aynig::contract::ids::{BranchName, CommitId};
use aynig::contract::message::Message;
use aynig::git::objects::commits::Stored;
use aynig::git::{CommitError, Repo};
use aynig::ops::app::App;
use aynig::ops::error::Error;
use aynig::ops::view::lease::runner_words;
use aynig::ops::{missing, target};

use crate::cli::args::Events;
use crate::cli::exit::Exit;
use crate::cli::ui;
use crate::cli::ui::signals;
use crate::cli::ui::{BAD, CARE, FAINT, GOOD, styled};

/// Runs the subcommand.
pub(crate) fn run(app: &App, arguments: &Events) -> Result<Exit, Error> {
    let repo = app.repo();
    let authority = signals::authority(&repo, arguments.remote.as_ref())?;
    let branch = target::branch(&repo, &authority, arguments.branch.as_deref())?;
    let head = target::existing_head(&repo, &authority, &branch)?;
    let limit = if arguments.history { arguments.max_count.unwrap_or(usize::MAX) } else { 1 };
    let mut found = Vec::new();
    for stored in state_events(&repo, head).take(limit) {
        let stored = stored.map_err(|error| unreadable(&branch, &error))?;
        if arguments.json {
            found.push(event_json(&stored));
        } else {
            ui::answer(&event_line(&stored));
            found.push(Value::Null);
        }
    }
    if arguments.json {
        let one = |found: Vec<Value>| found.into_iter().next().unwrap_or(Value::Null);
        ui::answer_json(&if arguments.history { Value::Array(found) } else { one(found) });
    } else if found.is_empty() && limit > 0 {
        ui::narrate(&ui::sanitize(&missing::no_event(&repo, &authority, &branch)));
    }
    Ok(Exit::Done)
}

/// The commits that declare a state, newest first.
fn state_events(repo: &Repo, head: CommitId) -> impl Iterator<Item = Result<Stored, CommitError>> + '_ {
    repo.history(head).filter(|stored| {
        stored.as_ref().map_or(true, |stored| Head::read(&stored.facts()) != Head::Unmanaged)
    })
}

fn unreadable(branch: &BranchName, error: &CommitError) -> Error {
    Error::because(&format!("read the history of {branch}"), error).hint("`git fsck` may tell more")
}

fn text(value: &[u8]) -> String {
    value.to_str_lossy().into_owned()
}

fn event_json(stored: &Stored) -> Value {
    let message = Message::parse(&stored.message);
    let last = |key: &str| message.trailers.last(key).map(|value| text(value));
    json!({
        "commit": stored.id.to_string(),
        "date": clock::format_utc(stored.committed_at),
        "message": text(&stored.message),
        "state": last("dwp-state"),
        // A stalled commit names the attempt it closed.
        "runId": last("dwp-run-id").or_else(|| last("dwp-stalled-run")),
        "originState": last("dwp-origin-state"),
        "trailers": message.trailers.iter().map(|trailer| json!({
            "key": text(&trailer.key),
            "value": text(&trailer.value),
        })).collect::<Vec<_>>(),
    })
}

fn event_line(stored: &Stored) -> String {
    let message = Message::parse(&stored.message);
    let (style, state) = match Head::read(&stored.facts()) {
        Head::Working(lease) => {
            let origin = lease.origin.as_ref().map_or_else(String::new, |origin| format!(" ({origin})"));
            let who = runner_words(&lease);
            let attempt =
                lease.attempt().map_or_else(String::new, |attempt| format!(", attempt {}", attempt.short()));
            (CARE, format!("working{origin} by {who}{attempt}"))
        }
        Head::Ready(event) if event.state.is_stalled() => (BAD, event.state.to_string()),
        Head::Ready(event) => (GOOD, event.state.to_string()),
        Head::Invalid(invalid) => (BAD, format!("(invalid: {})", invalid.reason)),
        Head::Unmanaged => (FAINT, "-".to_owned()),
    };
    format!(
        "{}  {}  {}  {}",
        styled(FAINT, stored.id.short()),
        clock::format_utc(stored.committed_at),
        styled(style, ui::sanitize(&state)),
        ui::sanitize(&text(&message.subject)),
    )
}
