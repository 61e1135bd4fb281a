//! `aynig log`: the history of a branch.
//!
//! Invariant: entries are printed as they are read. `ops::history` reads them, `lines` renders them.

mod lines;

use aynig::clock;
use aynig::contract::story::Entry;
use aynig::ops::app::App;
use aynig::ops::error::Error;
use aynig::ops::history::host::Host;
use aynig::ops::history::{History, views};
use aynig::ops::view::deferred::waiting;
use aynig::ops::{missing, status, target, workspace};

use crate::cli::args::Log;
use crate::cli::exit::Exit;
use crate::cli::look::log::lines::Renderer;
use crate::cli::ui;
use crate::cli::ui::page::Page;
use crate::cli::ui::signals;
use crate::cli::ui::{CARE, FAINT, styled};

/// Runs the subcommand. `events` is the same with `json`.
pub(crate) fn run(app: &App, arguments: &Log, json: bool) -> Result<Exit, Error> {
    let repo = app.repo();
    let authority = signals::authority(&repo, arguments.remote.as_ref())?;
    let named = arguments.name.as_deref().or(arguments.branch.as_deref());
    let branch = target::branch(&repo, &authority, named)?;
    let head = target::existing_head(&repo, &authority, &branch)?;
    let most = arguments.max_count.unwrap_or(usize::MAX);
    if json {
        let mut entries = views(&repo, &authority, (&branch, head), most)?;
        if arguments.reverse {
            entries.reverse();
        }
        ui::answer_json(&serde_json::json!({ "entries": entries }));
        return Ok(Exit::Done);
    }
    let mut history = History::new(&repo, &branch, head, most);
    let host = Host::new(&repo);
    let waiting = waiting(&repo, &authority, &branch);
    // The first entry is read before a pager starts, so that errors appear on the plain terminal.
    let first = history.next().transpose()?;
    if waiting.is_none() && matches!(first, None | Some(Entry::Before(_))) {
        if arguments.max_count != Some(0) {
            let work = workspace::described(&repo, &app.process, &branch);
            let words = work.unwrap_or_else(|| missing::no_event(&repo, &authority, &branch));
            ui::narrate(&ui::sanitize(&words));
        }
        return Ok(Exit::Done);
    }
    if let Some(bound) = status::bound(&repo, &authority, &app.process, &branch) {
        let words = ui::sanitize(&format!("{branch} is parked: {bound}"));
        ui::narrate(&format!("{} {words}", styled(CARE, "note:")));
    }
    let mut page = Page::open(&repo, !arguments.no_pager);
    let teller = Renderer {
        host: &host,
        now: clock::wall_seconds(),
        columns: page.columns(),
        leases: arguments.leases,
    };
    let entries = first.into_iter().map(Ok).chain(history.by_ref());
    if arguments.reverse {
        let mut entries = entries.collect::<Result<Vec<_>, _>>()?;
        entries.reverse();
        if history.is_cut_off() && !page.line(&edge()) {
            return Ok(Exit::Done);
        }
        for entry in entries {
            if !teller.lines(&entry).iter().all(|line| page.line(line)) {
                return Ok(Exit::Done);
            }
        }
        for line in waiting.iter().flat_map(|waiting| teller.waiting(waiting)) {
            page.line(&line);
        }
        return Ok(Exit::Done);
    }
    for line in waiting.iter().flat_map(|waiting| teller.waiting(waiting)) {
        page.line(&line);
    }
    for entry in entries {
        if !teller.lines(&entry?).iter().all(|line| page.line(line)) {
            return Ok(Exit::Done);
        }
    }
    if history.is_cut_off() {
        page.line(&edge());
    }
    Ok(Exit::Done)
}

fn edge() -> String {
    styled(FAINT, "what was before is not in this clone, which is shallow (`git fetch --unshallow`)")
}
