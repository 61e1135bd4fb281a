//! `aynig cancel`: asks the runners of branches to stop, and shows that it happens.

use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use aynig::clock::{span, wall_seconds};
use aynig::contract::cancel::Then;
use aynig::git::Repo;
use aynig::ops::app::App;
use aynig::ops::cancel::{Asked, End, Outcome, Request, cancel, drives, is_open, look};
use aynig::ops::declare::Driven;
use aynig::ops::error::Error;
use aynig::ops::history::host::saved_words;
use aynig::ops::notify;
use aynig::ops::patience::Patience;
use aynig::ops::target::{Selected, exists, selected};
use aynig::ops::view::lease::UNNAMED;
use aynig::runner::authority::Authority;

use crate::cli::args::Cancel;
use crate::cli::exit::{Exit, render};
use crate::cli::ui;
use crate::cli::ui::signals::authority;
use crate::cli::ui::{BAD, CARE, GOOD, STRONG, styled};

/// Runs the subcommand.
pub(crate) fn run(app: &App, arguments: &Cancel) -> Result<Exit, Error> {
    let repo = app.repo();
    let authority = authority(&repo, arguments.remote.as_ref())?;
    let named: Vec<_> = arguments.name.iter().chain(&arguments.branch).cloned().collect();
    let matching = selected(&repo, &authority, &named)?;
    let (chosen, drivers) = chosen(&repo, &authority, &matching)?;
    if chosen.is_empty() && drivers == 0 {
        ui::remark(&match matching.len() {
            0 => return Err(Error::failed("no branch matches: nothing to cancel")),
            1 => "the branch that matches rests: nothing to cancel".to_owned(),
            many => format!("the {many} branches that match rest: nothing to cancel"),
        });
    }
    let then = if arguments.requeue { Then::Requeue } else { Then::Stall };
    let request = Request { then, reason: arguments.reason.clone() };
    let many = chosen.len() > 1;
    let (mut rows, mut waiting, mut exit) = (Vec::new(), Vec::new(), Exit::Done);
    let limit = arguments.timeout.map(Duration::from_secs);
    let mut patience = arguments.wait.then(|| Patience::of(&repo, &authority, limit, ui::warn, ui::remark));
    for Selected { branch, .. } in chosen {
        let asked = match (cancel(&repo, &authority, branch, &request), &mut patience) {
            // A request that arrived is found, and not written again.
            (Err(error), Some(patience)) if error.maybe_applied => {
                let there =
                    patience.until(|| None, || exists(&repo, &authority, &branch.to_string()).map(Some))?;
                if there.is_some() { cancel(&repo, &authority, branch, &request) } else { Err(error) }
            }
            (asked, _) => asked,
        };
        match asked {
            Err(error) if !many => return Err(error),
            Err(error) => {
                ui::narrate(&render(&error, false));
                exit = Exit::from(error.kind);
                let branch = branch.to_string();
                rows.push(Row { branch, outcome: "failed", reason: Some(error.message), ..Row::default() });
            }
            Ok(outcome) => {
                if let Outcome::Nothing { fits: false, .. } | Outcome::Already { again: Some(_), .. } =
                    outcome
                {
                    exit = Exit::Failed;
                }
                if let Outcome::Stalled(written) = &outcome
                    && let Err(warning) = notify::announce(&repo, &app.process, authority.source(), written)
                {
                    ui::warn(&warning);
                }
                let (line, row) = told(&branch.to_string(), &outcome, then);
                if !arguments.json {
                    ui::answer(&line);
                }
                if let Outcome::Asked(asked) | Outcome::Already { asked, .. } = outcome {
                    waiting.push((rows.len(), asked));
                }
                rows.push(row);
            }
        }
    }
    if let Some(patience) = &mut patience
        && !wait_for(&repo, &authority, arguments, patience, waiting, &mut rows)?
        && exit == Exit::Done
    {
        exit = Exit::Failed;
    }
    if arguments.json {
        ui::answer_json(&json!({ "branches": rows }));
    }
    Ok(exit)
}

/// The branches to cancel, and the number of drivers that a glob passes over. These are printed; branches that rest are not.
fn chosen<'a>(
    repo: &Repo,
    authority: &Authority,
    matching: &'a [Selected],
) -> Result<(Vec<&'a Selected>, usize), Error> {
    let (mut chosen, mut drivers) = (Vec::new(), 0);
    for one in matching {
        if !one.by_glob {
            chosen.push(one);
        } else if is_open(repo, authority, &one.branch)? {
            match drives(repo, authority, &one.branch)? {
                None => chosen.push(one),
                Some(Driven { slug, node }) => {
                    drivers += 1;
                    let stop = if node.is_some() { "orch run stop" } else { "flow stop" };
                    ui::remark(&ui::sanitize(&format!(
                        "{} drives run {slug}, and is passed over: `aynig {stop} {slug}` ends the run",
                        one.branch
                    )));
                }
            }
        }
    }
    Ok((chosen, drivers))
}

/// The outcome for one branch, for programs.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    branch: String,
    outcome: &'static str,
    commit: Option<String>,
    run_id: Option<String>,
    runner: Option<String>,
    cancel_by: Option<String>,
    then: Option<&'static str>,
    reason: Option<String>,
    end: Option<&'static str>,
    rescue_ref: Option<String>,
}

/// A line and a row for one branch.
fn told(branch: &str, outcome: &Outcome, asks: Then) -> (String, Row) {
    let then = Some(asks.word());
    let name = styled(STRONG, ui::sanitize(branch));
    let row = |outcome: &'static str| Row { branch: branch.to_owned(), outcome, ..Row::default() };
    let of = |outcome: &'static str, asked: &Asked| Row {
        run_id: Some(asked.run_id.to_string()),
        runner: Some(asked.runner.clone()).filter(|name| name != UNNAMED),
        commit: Some(asked.commit.to_string()),
        ..row(outcome)
    };
    match outcome {
        Outcome::Asked(asked) => {
            let run: String = asked.run_id.to_string().chars().take(8).collect();
            let gone = asked.gone.as_ref().map(|gone| format!("; {gone}")).unwrap_or_default();
            let words = format!("asked {run} on {} to stop{gone}", asked.runner);
            (format!("{name}  {}", styled(CARE, ui::sanitize(&words))), Row { then, ..of("asked", asked) })
        }
        Outcome::Already { asked, before, again } => {
            let then = Some(before.then.word());
            let row = Row { cancel_by: Some(before.by.clone()), then, ..of("alreadyAsked", asked) };
            let words = format!("already asked by {}: {}", before.by, before.effect());
            let gone = asked.gone.as_ref().map(|gone| format!("; {gone}")).unwrap_or_default();
            let then = again.as_ref().map(|command| format!("; after that, `{command}` requests it again"));
            let all = format!("{words}{gone}{}", then.unwrap_or_default());
            (format!("{name}  {}", ui::sanitize(&all)), row)
        }
        Outcome::Stalled(written) => {
            let before = written.previous.as_ref().map_or_else(String::new, |state| format!("{state} → "));
            let row = Row { commit: Some(written.commit.to_string()), ..row("stalled") };
            (format!("{name}  {before}{}  ({})", styled(BAD, "stalled"), written.commit.short()), row)
        }
        Outcome::Nothing { why, .. } => {
            (format!("{name}  {}", ui::sanitize(why)), Row { reason: Some(why.clone()), ..row("nothing") })
        }
    }
}

/// Waits for the end of each attempt. Returns whether all were cancelled.
fn wait_for(
    repo: &Repo,
    authority: &Authority,
    arguments: &Cancel,
    patience: &mut Patience,
    waiting: Vec<(usize, Asked)>,
    rows: &mut [Row],
) -> Result<bool, Error> {
    let limit = arguments.timeout.map(Duration::from_secs);
    let mut all = true;
    for (row, asked) in waiting {
        // The end of the lease moves no branch.
        let due = || {
            let over = u64::try_from(asked.until.saturating_sub(wall_seconds())).ok();
            over.map(|left| Duration::from_secs(left.saturating_add(1)))
        };
        let ended_now = || look(repo, authority, &asked).map(|end| (end != End::Open).then_some(end));
        let end = patience.until(due, ended_now)?.unwrap_or(End::Open);
        let wanted =
            if arguments.requeue { matches!(end, End::Requeued(_)) } else { matches!(end, End::Stalled(..)) };
        all &= wanted;
        let place = |saved: &str| saved_words(repo, saved, &asked.runner);
        let (words, word, saved) = ended(&end, limit, &place);
        (rows[row].end, rows[row].rescue_ref) = (Some(word), saved);
        if !arguments.json {
            let name = styled(STRONG, ui::sanitize(&asked.branch.to_string()));
            ui::answer(&format!("{name}  {}", styled(if wanted { GOOD } else { BAD }, ui::sanitize(&words))));
        }
    }
    Ok(all)
}

/// The end of an attempt in words, in one word, and its saved work. `place` says where that is.
fn ended(
    end: &End,
    limit: Option<Duration>,
    place: &dyn Fn(&str) -> String,
) -> (String, &'static str, Option<String>) {
    let with = |words: String, saved: &Option<String>| match saved {
        // The reason is a sentence.
        Some(saved) => format!("{}, work saved as {}", words.trim_end_matches('.'), place(saved)),
        None => words,
    };
    match end {
        End::Open => {
            let limit = limit.map_or_else(String::new, |limit| format!(" after {}", span(limit.as_secs())));
            (format!("still under way{limit}"), "open", None)
        }
        End::Stalled(why, saved) => (with(format!("stalled: {why}"), saved), "stalled", saved.clone()),
        End::Failed(why, saved) => {
            (with(format!("ended first, stalled: {why}"), saved), "stalled", saved.clone())
        }
        End::Requeued(saved) => (with("asked again".to_owned(), saved), "requeued", saved.clone()),
        End::Other(Some(state)) => {
            (format!("ended first: the branch is in the state {state}"), "advanced", None)
        }
        End::Other(None) => ("the branch has gone elsewhere".to_owned(), "gone", None),
        End::Expired => (
            "its lease ended, and its runner did not answer; the next `aynig run` sets the branch stalled"
                .to_owned(),
            "expired",
            None,
        ),
    }
}
