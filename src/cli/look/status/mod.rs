//! `aynig status`: the branches, their lease holders, and what would run.
//!
//! `ops::status` collects the view, `table` renders it, `runs` renders the runs of flows, and `watch` repeats it.

mod runs;
pub(crate) mod table;
mod watch;

use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use aynig::clock;
use aynig::git::Repo;
use aynig::ops::app::{App, Process};
use aynig::ops::approvals::asked_by;
use aynig::ops::authority;
use aynig::ops::error::Error;
use aynig::ops::flows::{self, driven};
use aynig::ops::run::survey_options;
use aynig::ops::runs::{all, running, update};
use aynig::ops::settings;
use aynig::ops::settings::{branch_globs, globs};
use aynig::ops::status::{Filter, Query, Seen, look};
use aynig::ops::target;
use aynig::ops::view::branch::{BranchView, WAITS};
use aynig::ops::view::driven::DrivenView;
use aynig::ops::view::standing::Standing;
use aynig::runner::authority::Authority;
use aynig::runner::options::{Options, is_glob};
use aynig::words::{first_of, pluralize, shell_quote};

use crate::cli::args::{Status, not_an_interval};
use crate::cli::exit::Exit;
use crate::cli::ui;
use crate::cli::ui::signals;
use crate::cli::ui::{FAINT, styled};

/// The most runs that the sum names.
const MOST_NAMED: usize = 8;

/// The subject of a look, and how it is shown.
#[derive(Debug, Clone)]
struct Subject {
    query: Query,
    json: bool,
}

/// Runs the subcommand.
pub(crate) fn run(app: &App, arguments: &Status) -> Result<Exit, Error> {
    not_an_interval(arguments.watch, &arguments.names)?;
    let repo = app.repo();
    let authority = signals::authority(&repo, arguments.remote.as_ref())?;
    authority.refresh(&repo)?;
    let subject = subject(&repo, &app.process, &authority, arguments)?;
    if let Some(seconds) = arguments.watch {
        return watch::watch(&app.store, &authority, subject, seconds);
    }
    let seen = looked(&repo, &authority, &subject, Some(&ui::warn))?;
    let asked = (seen.asking > 0).then_some(Standing::Waits);
    let needs = seen.rows.iter().map(BranchView::standing).chain(asked).max().filter(|_| arguments.exit_code);
    let exit = needs.map_or(Exit::Done, Exit::from);
    if subject.json {
        ui::answer(&json(&seen));
        return Ok(exit);
    }
    ui::answer_lines(drawn(&seen, &subject.query, ui::room().map(|room| room.columns)));
    if subject.query.one.is_none() {
        ui::remark(&styled(FAINT, sum(&seen, &subject.query.filter)));
        remark_unmatched(&seen, &subject.query.filter, &named(arguments))?;
        if arguments.all && seen.workspaces > 0 {
            let all = pluralize(seen.workspaces, "workspace");
            ui::remark(&styled(FAINT, format!("{all}: `aynig workspace list`")));
        }
        if arguments.all {
            remark_runs(&repo, &authority, &seen)?;
        }
        if let Some(unset) = authority::unset(&repo, &authority) {
            ui::warn(&unset.warning().to_string());
        }
        let none_declares = seen.rows.iter().all(|row| row.state.is_none());
        if let Some(line) = none_declares.then(|| authority::elsewhere(&repo, &authority)).flatten() {
            ui::remark(&styled(FAINT, ui::sanitize(&line)));
        }
    }
    for mistake in settings::mistakes(&repo) {
        ui::warn(&mistake.message);
    }
    for name in settings::unknown(&repo) {
        ui::warn(&name);
    }
    Ok(exit)
}

/// The names and globs on the command line.
fn named(arguments: &Status) -> Vec<OsString> {
    arguments.names.iter().chain(&arguments.branch).cloned().collect()
}

/// Prints the globs that match none of the branches. If there are none of these, the sum says so.
fn remark_unmatched(seen: &Seen, filter: &Filter, named: &[OsString]) -> Result<(), Error> {
    if seen.rows.is_empty() || !filter.is_empty() {
        return Ok(());
    }
    for glob in named.iter().filter(|named| is_glob(named.as_bytes())) {
        let matches = branch_globs(&[glob.to_string_lossy().into_owned()])?;
        if seen.unmanaged == 0 && !seen.rows.iter().any(|row| matches.is_match(&row.branch)) {
            ui::remark(&styled(FAINT, format!("no branch matches {}", shell_quote(glob.as_bytes()))));
        }
    }
    Ok(())
}

/// Prints which runs are not among the branches.
fn remark_runs(repo: &Repo, authority: &Authority, seen: &Seen) -> Result<(), Error> {
    let all = all(repo)?;
    if let Some(words) = flows::alone(repo, authority, &all) {
        ui::remark(&ui::sanitize(&words));
    }
    let is_shown = |slug: &String| seen.runs.iter().any(|run| run.slug == *slug);
    let running: Vec<String> = running(&all).filter(|slug| !is_shown(slug)).collect();
    if !running.is_empty() {
        let names = first_of(&running, MOST_NAMED);
        let words = format!("running: {names}: `aynig flow list`, `aynig orch run list`");
        ui::remark(&styled(FAINT, words));
    }
    Ok(())
}

fn subject(
    repo: &Repo,
    process: &Process,
    authority: &Authority,
    arguments: &Status,
) -> Result<Subject, Error> {
    let plain = survey_options(repo, process, arguments.role.clone())?;
    let json = arguments.json;
    let waiting = arguments.waiting.then(|| WAITS.to_owned());
    let filter = Filter {
        states: globs("--state", &arguments.state)?,
        kinds: arguments.kind.iter().cloned().chain(waiting).collect(),
    };
    let named = named(arguments);
    target::all_exist(repo, authority, &named)?;
    if arguments.all || !named.is_empty() || !filter.is_empty() {
        let options = Options { selection: settings::narrowed(plain.selection, &named)?, ..plain };
        let named = !named.is_empty() || filter.kinds.iter().any(|kind| kind == "unmanaged");
        let query = Query { options, one: None, named, filter };
        return Ok(Subject { query, json });
    }
    let branch = target::branch(repo, authority, None)?;
    target::existing_head(repo, authority, &branch)?;
    let selection = settings::only(plain.selection, vec![branch.clone()])?;
    let options = Options { selection, ..plain };
    let query = Query { options, one: Some(branch), named: true, filter };
    Ok(Subject { query, json })
}

/// Takes one look. Where several branches are shown to people, flow runs take the place of their drivers. With `tell` a
/// remote that decides is asked for ledgers, too, and hears what went wrong.
fn looked(
    repo: &Repo,
    authority: &Authority,
    subject: &Subject,
    tell: Option<&dyn Fn(&str)>,
) -> Result<Seen, Error> {
    let query = &subject.query;
    let mut seen = look(repo, authority, query, clock::wall_seconds())?;
    if let Some(tell) = tell
        && authority.source().is_some()
        && shows_runs(repo, query, &seen)?
    {
        update(repo, authority.source()).iter().for_each(|trouble| tell(trouble));
    }
    seen.asking = asked_by(repo, &seen.turns)?;
    let asked_for = query.one.is_some() || query.named || !query.filter.states.is_empty();
    if !asked_for && !subject.json {
        // Without them the drivers are shown.
        seen.runs = driven(repo, &seen.rows).unwrap_or_default();
    }
    Ok(seen)
}

/// Whether ledgers say something about what is shown. A branch that is named is judged by its own commits.
fn shows_runs(repo: &Repo, query: &Query, seen: &Seen) -> Result<bool, Error> {
    if !seen.turns.is_empty() || query.one.is_some() || query.named {
        return Ok(!seen.turns.is_empty());
    }
    let (_, prefix) = settings::prefixes(repo)?;
    Ok(seen.rows.iter().any(|row| row.branch.starts_with(&prefix)) || running(&all(repo)?).next().is_some())
}

/// The branches that are shown as such: neither drivers nor work branches of the runs that are shown.
fn branches(seen: &Seen) -> Vec<BranchView> {
    let of_run = |run: &'_ DrivenView| std::iter::once(run.branch.clone()).chain(run.work.clone());
    let theirs: HashSet<String> = seen.runs.iter().flat_map(of_run).collect();
    seen.rows.iter().filter(|row| !theirs.contains(&row.branch)).cloned().collect()
}

/// The summary, in one line.
fn sum(seen: &Seen, filter: &Filter) -> String {
    let rows = branches(seen);
    let asking = match seen.asking {
        0 => String::new(),
        count => format!("{} during a turn: `aynig orch approvals`", pluralize(count, "request")),
    };
    let none_waits = seen.rows.is_empty() && filter.kinds == [WAITS];
    let shown = if none_waits {
        "no branch waits for an answer".to_owned()
    } else {
        table::summary(&rows, seen.unmanaged)
    };
    let parts = [shown, runs::summary(&seen.runs), asking];
    match parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ") {
        _ if let Some(words) = seen.empty => words.to_owned(),
        sum if sum.is_empty() => "no branch matches".to_owned(),
        sum => sum,
    }
}

fn json(seen: &Seen) -> String {
    ui::json(
        &serde_json::json!({ "branches": seen.rows, "unmanaged": seen.unmanaged, "workspaces": seen.workspaces }),
    )
}

/// The lines for a terminal with so many columns, or without a terminal.
fn drawn(seen: &Seen, query: &Query, columns: Option<usize>) -> Vec<String> {
    if query.one.is_some() {
        return seen.rows.iter().flat_map(table::lines).collect();
    }
    let mut rows = branches(seen);
    table::sort(&mut rows);
    let mut lines = match columns {
        Some(columns) => table::table(&rows, columns),
        None => table::plain(&rows),
    };
    lines.extend(runs::lines(&seen.runs, columns));
    lines
}
