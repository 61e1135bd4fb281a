//! `aynig events`: the state events in a branch's first-parent history.
//!
//! Invariant: an event is a commit whose trailers declare a state (CONTRACT.md §1, "State Events").

use bstr::ByteSlice;

use aynig::clock;
use aynig::contract::head::Head;
use aynig::contract::message::Message;
use aynig::git::objects::commits::Stored;
use aynig::ops::app::App;
use aynig::ops::error::Error;
use aynig::ops::view::event::EventView;
use aynig::ops::view::lease::runner_words;
use aynig::ops::{history, missing, target};

use crate::cli::args::Events;
use crate::cli::exit::Exit;
use crate::cli::ui;
use crate::cli::ui::signals;
use crate::cli::ui::{BAD, CARE, FAINT, GOOD, styled};

/// Runs the subcommand.
pub(crate) fn run(app: &App, arguments: &Events) -> Result<Exit, Error> {
    let repo = app.repo();
    let authority = signals::authority(&repo, arguments.remote.as_ref())?;
    let branch =
        target::branch(&repo, &authority, arguments.name.as_deref().or(arguments.branch.as_deref()))?;
    let head = target::existing_head(&repo, &authority, &branch)?;
    let limit = if arguments.history { arguments.max_count.unwrap_or(usize::MAX) } else { 1 };
    let mut events = history::events(&repo, &branch, head).take(limit);
    if arguments.json {
        let found = events.map(|stored| stored.map(|stored| EventView::new(&stored)));
        let found = found.collect::<Result<Vec<EventView>, Error>>()?;
        ui::answer_json(&serde_json::json!({ "events": found }));
        return Ok(Exit::Done);
    }
    let mut none = true;
    for stored in &mut events {
        ui::answer(&event_line(&stored?));
        none = false;
    }
    if none && limit > 0 {
        ui::narrate(&ui::sanitize(&missing::no_event(&repo, &authority, &branch)));
    }
    Ok(Exit::Done)
}

fn text(value: &[u8]) -> String {
    value.to_str_lossy().into_owned()
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
