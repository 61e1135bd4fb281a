//! `aynig wait`: waits until branches rest, or have come to a state.

use std::ffi::OsString;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use aynig::ops::app::App;
use aynig::ops::authority;
use aynig::ops::error::Error;
use aynig::ops::patience::Patience;
use aynig::ops::view::branch::BranchView;
use aynig::ops::wait::{Came, Wait, Waited};
use aynig::runner::pluralize;

use crate::cli::args::Wait as Arguments;
use crate::cli::exit::Exit;
use crate::cli::ui;
use crate::cli::ui::signals;
use crate::cli::ui::{BAD, CARE, FAINT, GOOD, STRONG, styled};

/// Runs the subcommand.
pub(crate) fn run(app: &App, arguments: &Arguments) -> Result<Exit, Error> {
    let repo = app.repo();
    let authority = signals::authority(&repo, arguments.remote.as_ref())?;
    let named: Vec<OsString> = arguments.name.iter().chain(&arguments.branch).cloned().collect();
    // Before the first look, so that no change is missed.
    let limit = arguments.timeout.map(Duration::from_secs);
    let mut patience = Patience::of(&repo, &authority, limit, ui::warn, ui::remark);
    let mut wait = Wait::begin(&repo, &authority, &app.process, &named, &arguments.state)?;
    // A copy of a remote's branch stays as it is: nobody here works on it.
    if let Some(unset) = authority::unset(&repo, &authority) {
        ui::warn(&unset.warning().to_string());
    }
    let mut shown = Progress::begin(&wait);
    while !wait.is_over() && patience.changes.next(None) {
        let Some(moved) = patience.answer(wait.look())? else { continue };
        shown.next(&wait);
        if moved {
            patience.changes.moved();
        }
    }
    if arguments.json {
        ui::answer_json(&json!({ "branches": wait.branches.iter().map(object).collect::<Vec<_>>() }));
    } else {
        wait.branches.iter().for_each(|one| ui::answer(&line(one)));
    }
    Ok(match () {
        () if !wait.is_over() => Exit::TimedOut,
        () if wait.branches.iter().all(|one| one.came.is_good()) => Exit::Done,
        () => Exit::Failed,
    })
}

/// The states of the branches as printed while they are waited for.
struct Progress(Vec<String>);

impl Progress {
    /// Names the branches that are waited for.
    fn begin(wait: &Wait<'_>) -> Self {
        let open = wait.branches.iter().filter(|one| one.came == Came::Open);
        let names: Vec<String> = open.map(|one| one.name.to_string()).collect();
        if !names.is_empty() && ui::shows_details() {
            let line = format!("waiting for {}: {}", pluralize(names.len(), "branch"), names.join(", "));
            ui::remark(&styled(FAINT, ui::sanitize(&line)));
        }
        Self(wait.branches.iter().map(stands).collect())
    }

    /// Prints the branches whose state has changed.
    fn next(&mut self, wait: &Wait<'_>) {
        for (shown, one) in self.0.iter_mut().zip(&wait.branches) {
            let now = stands(one);
            if *shown != now && ui::shows_details() {
                ui::remark(&styled(FAINT, ui::sanitize(&now)));
            }
            *shown = now;
        }
    }
}

/// The branch and its state, without what changes with time alone.
fn stands(one: &Waited) -> String {
    let Some(row) = &one.row else { return format!("{}  -  the branch is gone", one.name) };
    let state = row.state.as_deref().unwrap_or("-");
    let origin = row.origin.as_deref().filter(|_| row.lease.is_some());
    let origin = origin.map(|origin| format!(" ({origin})")).unwrap_or_default();
    format!("{}  {state}{origin}  {}", one.name, row.label())
}

/// A branch, for programs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    branch: String,
    outcome: &'static str,
    commit: Option<String>,
    state: Option<String>,
    kind: Option<&'static str>,
    reason: Option<String>,
    reached_state: Option<String>,
    reached_commit: Option<String>,
}

fn object(one: &Waited) -> Row {
    let row = one.row.as_ref();
    Row {
        branch: one.name.to_string(),
        outcome: one.came.word(),
        commit: row.and_then(|row| row.commit.clone()),
        state: row.and_then(|row| row.state.clone()),
        kind: row.map(BranchView::label),
        reason: row.and_then(|row| row.why.clone()),
        reached_state: one.reached.as_ref().map(|(state, _)| state.to_string()),
        reached_commit: one.reached.as_ref().map(|(_, commit)| commit.to_string()),
    }
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
