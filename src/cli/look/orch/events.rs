//! `aynig orch events`: the journal of a run.

use std::ops::ControlFlow;

use serde::Serialize;
use serde_json::Value;

use aynig::git::Repo;
use aynig::ops::error::Error;
use aynig::ops::runs::{self, Events};
use aynig::ops::settings::globs;

use super::lines;
use crate::cli::args::OrchEvents;
use crate::cli::exit::Exit;
use crate::cli::ui;

/// An event in JSON.
#[derive(Debug, Serialize)]
struct Line<'a> {
    journal: &'a str,
    event: Value,
}

/// Runs `aynig orch events`.
pub(super) fn events(repo: &Repo, options: &OrchEvents, json: bool) -> Result<Exit, Error> {
    let wanted = globs("--type", &options.types)?;
    let run = runs::find(repo, &options.one.run_name)?;
    let mut events = Events::after(repo, run, options.after)?;
    let aliases = lines::aliases(repo, run);
    events.read(options.follow, |events, line| {
        // A line that is no event was passed over with its number.
        let Ok(event) = serde_json::from_slice::<Value>(&line.bytes) else {
            return ControlFlow::Continue(());
        };
        if !wanted.is_empty() && !wanted.is_match(event["type"].as_str().unwrap_or_default()) {
            return ControlFlow::Continue(());
        }
        let text = match json {
            true => ui::json(&Line { journal: &events.journal, event }),
            false => lines::event(line.seq, &event, &aliases),
        };
        if ui::answer_bytes(format!("{text}\n").as_bytes()) {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    })?;
    Ok(Exit::Done)
}
