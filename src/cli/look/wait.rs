//! `aynig wait`: waits until branches rest, or have come to a state.

use std::ffi::OsString;
use std::time::Duration;

use serde_json::Value;

use aynig::ops::app::App;
use aynig::ops::error::{Error, Kind};
use aynig::ops::wait::{Came, Wait, Waited};
use aynig::runner::passes::changes::Changes;

use crate::cli::args::Wait as Arguments;
use crate::cli::exit::Exit;
use crate::cli::ui;
use crate::cli::ui::signals;
use crate::cli::ui::{BAD, CARE, GOOD, STRONG, styled};

/// Runs the subcommand.
pub(crate) fn run(app: &App, arguments: &Arguments) -> Result<Exit, Error> {
    let repo = app.repo();
    let authority = signals::authority(&repo, arguments.remote.as_ref())?;
    let named: Vec<OsString> = arguments.name.iter().chain(&arguments.branch).cloned().collect();
    // Before the first look, so that no change is missed.
    let mut changes = Changes::of(&repo, &authority, arguments.timeout.map(Duration::from_secs));
    let mut wait = Wait::begin(&repo, &authority, &app.process, &named, &arguments.state)?;
    let mut silent = false;
    while !wait.is_over() && changes.next(None) {
        match wait.look() {
            Ok(moved) => {
                silent = false;
                if moved {
                    changes.moved();
                }
            }
            // A remote may come back.
            Err(error) if error.kind == Kind::Remote && signals::shutdown()?.cause().is_none() => {
                if !silent {
                    ui::warn(&format!("{}; asking again", error.message));
                }
                silent = true;
            }
            Err(error) => return Err(error),
        }
    }
    if arguments.json {
        ui::answer_json(&wait.branches.iter().map(object).collect::<Vec<_>>());
    } else {
        wait.branches.iter().for_each(|one| ui::answer(&line(one)));
    }
    Ok(match () {
        () if !wait.is_over() => Exit::TimedOut,
        () if wait.branches.iter().all(|one| one.came.is_good()) => Exit::Done,
        () => Exit::Failed,
    })
}

/// An object as `status --json` prints it, with the outcome.
fn object(one: &Waited) -> Value {
    let mut object = serde_json::to_value(&one.row).expect("texts, numbers and lists make JSON");
    if object.is_null() {
        object = serde_json::json!({ "branch": one.name.to_string() });
    }
    object["outcome"] = one.came.word().into();
    object["reachedState"] = one.reached.as_ref().map(|(state, _)| state.to_string()).into();
    object["reachedCommit"] = one.reached.as_ref().map(|(_, commit)| commit.to_string()).into();
    object
}

/// The branch, its state, and what it has come to.
fn line(one: &Waited) -> String {
    let row = one.row.clone().unwrap_or_default();
    let now = row.state.clone().unwrap_or_else(|| "-".to_owned());
    let why =
        row.why.as_deref().filter(|_| row.state.as_deref() == Some("stalled")).unwrap_or(row.in_brief());
    let detail = if why.is_empty() { row.label().to_owned() } else { format!("{}: {why}", row.label()) };
    let (style, words) = match (one.came, &one.reached) {
        (Came::Reached, Some((state, commit))) if row.commit == Some(commit.to_string()) => {
            (GOOD, format!("{state}  reached"))
        }
        (Came::Reached, Some((state, commit))) => {
            (GOOD, format!("{state}  reached at {}; now {now}", commit.short()))
        }
        (Came::Gone, _) => (BAD, "-  the branch is gone".to_owned()),
        (Came::Open, _) => (CARE, format!("{now}  still under way: {detail}")),
        (Came::Rests | Came::Reached, _) => (GOOD, format!("{now}  {detail}")),
        (Came::Stuck | Came::Elsewhere, _) => (BAD, format!("{now}  {detail}")),
    };
    format!(
        "{}  {}",
        styled(STRONG, ui::sanitize(&one.name.to_string())),
        styled(style, ui::sanitize(&words))
    )
}
