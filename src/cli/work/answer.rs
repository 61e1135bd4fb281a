//! `aynig answer`: lists the questions, prints one, or answers it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStringExt;

use bstr::ByteSlice;
use serde_json::json;

use aynig::clock;
use aynig::contract::ids::StateName;
use aynig::contract::waits_for::{Answers, Deadline};
use aynig::git::Repo;
use aynig::ops::app::{App, Process};
use aynig::ops::declare::{self, Asked, Expected, Onto, StateRequest, Wanted, Written};
use aynig::ops::error::{Error, Kind};
use aynig::ops::run::survey_options;
use aynig::ops::status::{Filter, Query, look};
use aynig::ops::target::branch_name;
use aynig::ops::view::asked::AskedView;
use aynig::ops::view::branch::{BranchView, WAITS};
use aynig::ops::view::declared::WrittenView;
use aynig::ops::{missing, notify, settings};
use aynig::runner::authority::Authority;
use aynig::words::{pluralize, shell_quote};

use crate::cli::args::Answer;
use crate::cli::exit::Exit;
use crate::cli::ui;
use crate::cli::ui::columns::{cell, width};
use crate::cli::ui::signals::authority;
use crate::cli::ui::{CALL, FAINT, STRONG, styled};
use crate::cli::work::by_hand::{advise, transition};

/// Runs the subcommand.
pub(crate) fn run(app: &App, arguments: &Answer) -> Result<Exit, Error> {
    let repo = app.repo();
    let authority = authority(&repo, arguments.remote.as_ref())?;
    let Some(branch) = &arguments.branch else {
        return list(&repo, &app.process, &authority, arguments.json);
    };
    let Some(state) = &arguments.state else {
        let branch_name = branch_name(branch)?;
        let asked = declare::question(&repo, &authority, &branch_name)
            .map_err(|error| named_on_remotes(error, &repo, &authority, branch, None))?;
        if arguments.json {
            print_json(&[asked], None);
        } else {
            show(&authority, &asked);
        }
        return Ok(Exit::Done);
    };
    give(app, &repo, &authority, arguments, (branch, state))
}

fn print_json(questions: &[Asked], answer: Option<&Written>) {
    let questions: Vec<AskedView<'_>> = questions.iter().map(AskedView::from).collect();
    ui::answer_json(&json!({ "questions": questions, "answer": answer.map(WrittenView::from) }));
}

/// Gives the answer.
fn give(
    app: &App,
    repo: &Repo,
    authority: &Authority,
    arguments: &Answer,
    (branch, state): (&OsStr, &StateName),
) -> Result<Exit, Error> {
    let comment = arguments.comment.clone().map(OsStringExt::into_vec);
    if comment.as_ref().is_some_and(|comment| comment.trim_ascii().is_empty()) {
        return Err(Error::usage("the comment is empty; nothing was changed")
            .hint("to answer without a comment, leave out `--comment`"));
    }
    let expected = Expected { commit: arguments.expect.clone(), state: None };
    let onto = Onto {
        branch: Some(branch_name(branch)?),
        accept_unsigned: arguments.accept_unsigned,
        expected,
        force: false,
        answers: true,
    };
    let request = StateRequest { onto, wanted: Wanted::Answer { state: state.clone(), comment } };
    let written = declare::state(repo, authority, &request)
        .map_err(|error| named_on_remotes(error, repo, authority, branch, Some(state)))?;
    advise(&written.advice);
    if arguments.json {
        print_json(&[], Some(&written));
    } else {
        ui::answer(&transition(&written, ""));
    }
    if let Err(warning) = notify::announce(repo, &app.process, authority.source(), &written) {
        ui::warn(&warning);
    }
    Ok(Exit::Done)
}

/// Adds the line to type if only a remote has the branch.
fn named_on_remotes(
    error: Error,
    repo: &Repo,
    authority: &Authority,
    branch: &OsStr,
    state: Option<&StateName>,
) -> Error {
    let (Kind::NotFound, None, Ok(branch)) = (error.kind, authority.source(), branch_name(branch)) else {
        return error;
    };
    let remotes = missing::tracked(repo, &branch);
    let state = state.map(|state| format!(" {state}")).unwrap_or_default();
    let line = |(remote, there): &(_, String)| {
        format!("{remote} has one: `aynig answer {}{state} --remote {remote}`", shell_quote(there))
    };
    let lines: Vec<String> = remotes.iter().map(line).collect();
    if lines.is_empty() { error } else { Error { hints: lines, ..error } }
}

/// Prints a question, with the lines that answer it.
fn show(authority: &Authority, asked: &Asked) {
    let (event, question) = (&asked.event, &asked.question);
    let age = clock::wall_seconds().saturating_sub(event.committed_at).max(0).unsigned_abs();
    ui::answer(&format!(
        "{}  {}  waits for {}, {}",
        styled(STRONG, ui::sanitize(&asked.branch.to_string())),
        styled(CALL, &event.state),
        ui::sanitize(&question.whom),
        styled(FAINT, format!("for {} (since {})", clock::span(age), clock::format_utc(event.committed_at)))
    ));
    let detail = |label: &str, text: &str| ui::answer(&format!("  {label:9}{}", ui::sanitize(text)));
    let author = asked.author.to_str_lossy();
    detail("asked", &format!("{} by {author}: {}", event.commit.short(), event.message.subject));
    match &question.deadline {
        Deadline::Never => {}
        Deadline::At(until) => {
            detail("until", &format!("{}; then it is run without an answer", clock::format_utc(*until)))
        }
        Deadline::Unreadable(why) => detail("until", why),
    }
    if !event.message.body.is_empty() {
        ui::answer("");
    }
    for line in event.message.body.lines() {
        ui::answer(format!("    {}", ui::sanitize(&line.to_str_lossy())).trim_end());
    }
    ui::answer("");
    match &question.answers {
        Answers::Invalid(why) => ui::answer(&ui::sanitize(why)),
        Answers::Any => ui::answer("any state is an answer; `--comment TEXT` adds words:"),
        Answers::Listed(_) => ui::answer("one of these answers; `--comment TEXT` adds words:"),
    }
    for line in declare::lines(authority, asked) {
        ui::answer(&ui::sanitize(&format!("  {line}")));
    }
}

/// Lists the branches that wait for an answer.
fn list(repo: &Repo, process: &Process, authority: &Authority, is_json: bool) -> Result<Exit, Error> {
    authority.refresh(repo)?;
    let filter = Filter { kinds: vec![WAITS.to_owned()], ..Filter::default() };
    let query = Query { options: survey_options(repo, process, None)?, one: None, named: false, filter };
    let rows = look(repo, authority, &query, clock::wall_seconds())?.rows;
    // Runs are answered by their own commands.
    let (_, prefix) = settings::prefixes(repo)?;
    let (rows, runs): (Vec<BranchView>, Vec<BranchView>) =
        rows.into_iter().partition(|row| !row.branch.starts_with(&prefix));
    if is_json {
        let asked = |row: &BranchView| declare::question_at(repo, &row.branch, row.commit.as_ref()?);
        let asked: Vec<Asked> = rows.iter().filter_map(asked).collect();
        print_json(&asked, None);
        return Ok(Exit::Done);
    }
    let texts: Vec<[String; 4]> = rows.iter().map(texts).collect();
    let widest = |at: usize| texts.iter().map(|row| width(&row[at])).max().unwrap_or(0);
    let widths = [widest(0), widest(1), widest(2), widest(3)];
    for (row, text) in rows.iter().zip(&texts) {
        ui::answer(&format!(
            "{}  {}  {}  {}  {}",
            styled(STRONG, cell(&text[0], widths[0])),
            styled(CALL, cell(&text[1], widths[1])),
            cell(&text[2], widths[2]),
            cell(&text[3], widths[3]),
            styled(FAINT, ui::sanitize(row.wish.as_deref().or(row.subject.as_deref()).unwrap_or_default())),
        ));
    }
    let remote = authority.source().map(|remote| format!(" --remote {remote}")).unwrap_or_default();
    let hint = format!("`aynig answer BRANCH{remote}` shows what is asked, and the lines that answer");
    let hint = if rows.is_empty() { "no branch waits for an answer" } else { &hint };
    ui::narrate(&styled(FAINT, ui::sanitize(hint)));
    if !runs.is_empty() {
        let hint = format!("{} for you, too: `aynig status --waiting`", waiting_runs(runs.len()));
        ui::narrate(&styled(FAINT, &hint));
    }
    Ok(Exit::Done)
}

fn waiting_runs(count: usize) -> String {
    let verb = if count == 1 { "waits" } else { "wait" };
    format!("{} of runs {verb}", pluralize(count, "driver"))
}

/// The branch, its state, the name that it waits for, and the answers.
fn texts(row: &BranchView) -> [String; 4] {
    let waits = row.waits.clone().unwrap_or_default();
    let answers = waits.answers.map(|answers| answers.join(", "));
    let answers = answers.unwrap_or_else(|| if row.mistake { "?" } else { "any state" }.to_owned());
    let who = format!("{}, for {}", waits.whom, clock::span(waits.age));
    [row.branch.clone(), row.state.clone().unwrap_or_default(), who, answers].map(|text| ui::sanitize(&text))
}
