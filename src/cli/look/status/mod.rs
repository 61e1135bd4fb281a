//! `aynig status`: what branches are, who holds them, and what would be run.
//!
//! Invariant: it asks the same survey as a pass, so what it says is what `aynig run` would do at this moment, and it
//! changes nothing. Reasons have their words in `runner::survey::words`. A look is taken here, put into rows by `row`, drawn by
//! `table`, and taken again and again by `watch`.

mod row;
mod table;
mod watch;

use aynig::clock;
use aynig::contract::head::Head;
use aynig::contract::ids::{BranchName, CommitId};
use aynig::git::Repo;
use aynig::ops::app::{App, Process};
use aynig::ops::error::Error;
use aynig::ops::run::survey_options;
use aynig::ops::settings::globs;
use aynig::ops::{missing, target};
use aynig::runner::authority::Authority;
use aynig::runner::options::{Options, Selection};
use aynig::runner::survey::trust;
use aynig::runner::survey::{Question, Survey, Verdict, survey};

use crate::cli::args::Status;
use crate::cli::exit::Exit;
use crate::cli::look::status::row::{Row, row, row_json};
use crate::cli::ui;
use crate::cli::ui::signals;
use crate::cli::ui::{FAINT, styled};

/// How many commits on top of a state are looked through for it.
const COVER: usize = 100;

/// What is to be looked at.
#[derive(Debug, Clone)]
struct Subject {
    options: Options,
    /// The one branch, where there is no question of others.
    one: Option<BranchName>,
    /// Whether branches were asked for by name: each of them is an answer, whatever it is.
    named: bool,
    json: bool,
}

/// What was seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Seen {
    rows: Vec<Row>,
    /// How many branches declare nothing and are only counted.
    unmanaged: usize,
    /// Whether there was no branch at all.
    empty: bool,
}

/// Runs the subcommand.
pub(crate) fn run(app: &App, arguments: &Status) -> Result<Exit, Error> {
    let repo = app.repo();
    let authority = signals::authority(&repo, arguments.remote.as_ref())?;
    authority.refresh(&repo)?;
    let subject = subject(&repo, &app.process, &authority, arguments)?;
    if let (Some(_), Some(seconds)) = (arguments.watch, arguments.names.iter().find(|name| is_number(name))) {
        return Err(Error::usage(format!("{seconds} would be the name of a branch here"))
            .hint(format!("for every {seconds} seconds: `--watch={seconds}`"))
            .hint(format!("for the branch: `--branch {seconds}`")));
    }
    if let Some(seconds) = arguments.watch {
        return watch::watch(&app.store, &authority, subject, seconds);
    }
    let seen = look(&repo, &authority, &subject, clock::wall_seconds())?;
    if subject.json {
        ui::answer_json(&seen.json(&subject));
        return Ok(Exit::Done);
    }
    for line in seen.drawn(&subject, ui::room().map(|room| room.columns)) {
        ui::answer(&line);
    }
    if subject.one.is_none() {
        ui::narrate(&styled(FAINT, seen.sum()));
    }
    Ok(Exit::Done)
}

fn is_number(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_digit())
}

fn subject(
    repo: &Repo,
    process: &Process,
    authority: &Authority,
    arguments: &Status,
) -> Result<Subject, Error> {
    let plain = survey_options(repo, process, arguments.role.clone())?;
    let json = arguments.json;
    let named: Vec<String> = arguments.names.iter().chain(&arguments.branch).cloned().collect();
    if arguments.all || !named.is_empty() {
        let globs = globs("--branch", &named)?;
        let options = Options { selection: Selection { globs, ..plain.selection }, ..plain };
        return Ok(Subject { options, one: None, named: !named.is_empty(), json });
    }
    let branch = target::branch(repo, authority, None)?;
    target::existing_head(repo, authority, &branch)?;
    let globs = globs("--branch", &[globset::escape(&branch.to_string())])?;
    let options = Options { selection: Selection { globs, ..plain.selection }, ..plain };
    Ok(Subject { options, one: Some(branch), named: true, json })
}

/// One look, as of the last time the remote was asked, if one decides.
fn look(repo: &Repo, authority: &Authority, subject: &Subject, now: i64) -> Result<Seen, Error> {
    let question = Question { repo, authority, options: &subject.options, now, notes: false };
    let Survey { branches, commands_from, .. } = survey(&question)?;
    let mut seen = Seen { empty: branches.is_empty(), ..Seen::default() };
    let unsigned = trust::unsigned_stalls(repo, &subject.options.trust, &branches);
    for branch in &branches {
        if !subject.options.selection.admits(&branch.name) {
            continue;
        }
        if matches!(branch.verdict, Verdict::Unmanaged) && !subject.named {
            seen.unmanaged += 1;
            continue;
        }
        seen.rows.push(row(
            repo,
            authority,
            commands_from.as_deref(),
            branch,
            branch.head.and_then(|head| unsigned.get(&head)).map(String::as_str),
            now,
        ));
    }
    // Of one branch that can be told in a moment, of all of them it could not.
    if let [row] = seen.rows.as_mut_slice()
        && row.kind == "unmanaged"
        && let Some(reason) = covered(repo, authority, row)
    {
        row.reason = Some(reason);
    }
    match &subject.one {
        Some(branch) if seen.rows.is_empty() => {
            Err(Error::failed(format!("branch {branch} vanished while it was looked at"))
                .hint("`git branch` lists the branches there are"))
        }
        Some(_) | None => Ok(seen),
    }
}

/// What to do where somebody's commits lie on a state that was waiting, and so cover it.
fn covered(repo: &Repo, authority: &Authority, row: &Row) -> Option<String> {
    let head = CommitId::parse_hex(row.commit.as_ref()?)?;
    let below = repo.history(head).take(COVER).map_while(Result::ok);
    let found = below.map(|stored| Head::read(&stored.facts())).find(|head| head.state().is_some())?;
    // A lease below is for its runner, or its recovery, to end.
    let Head::Ready(event) = found else { return None };
    let options = missing::options(repo, authority, &BranchName::new(row.branch.as_str()).ok()?);
    Some(format!(
        "HEAD declares no state, but lies on one that does ({}, {}): `aynig set-state --retry{options}` asks for it again",
        event.commit.short(),
        event.state
    ))
}

impl Seen {
    /// All of it in one line.
    fn sum(&self) -> String {
        match table::summary(&self.rows, self.unmanaged) {
            _ if self.empty => missing::NO_COMMIT.to_owned(),
            sum if sum.is_empty() => "no branch matches".to_owned(),
            sum => sum,
        }
    }

    fn json(&self, subject: &Subject) -> serde_json::Value {
        let mut rows = self.rows.iter().map(row_json);
        match &subject.one {
            Some(_) => rows.next().unwrap_or_default(),
            None => rows.collect(),
        }
    }

    /// The lines for a terminal of so many columns, or for no terminal.
    fn drawn(&self, subject: &Subject, columns: Option<usize>) -> Vec<String> {
        if subject.one.is_some() {
            return self.rows.iter().flat_map(table::lines).collect();
        }
        let mut rows = self.rows.clone();
        table::sort(&mut rows);
        match columns {
            Some(columns) => table::table(&rows, columns),
            None => table::plain(&rows),
        }
    }
}
