//! `aynig flow list`, `show` and `log`: flow runs, where they stand, and what to type.
//!
//! Invariant: text of a ledger is printed without control characters.

use aynig::clock;
use aynig::flow::graph::Graph;
use aynig::git::Repo;
use aynig::ops::app::App;
use aynig::ops::error::Error;
use aynig::ops::flows::gate::GateView;
use aynig::ops::flows::standing::{End, Place};
use aynig::ops::flows::story::story;
use aynig::ops::flows::view::{StepView, show as view};
use aynig::ops::flows::{self, FlowRun, Listed};
use aynig::ops::runs;
use aynig::runner::authority::Authority;
use aynig::words::shortened;
use serde_json::json;

use crate::cli::args::{FlowList, FlowOne};
use crate::cli::exit::Exit;
use crate::cli::ui;
use crate::cli::ui::columns;
use crate::cli::ui::signals;
use crate::cli::ui::{BAD, CALL, CARE, FAINT, GOOD, STRONG, styled, warn};

/// The most characters of a sentence in a line.
const WORDS: usize = 200;

/// The fewest columns of the words in a list.
const LEAST: usize = 20;

impl From<End> for Exit {
    fn from(end: End) -> Self {
        match end {
            End::Succeeded => Self::Done,
            End::NeedsPerson => Self::Person,
            End::Other => Self::Failed,
        }
    }
}

/// Fetches ledgers and drivers. A remote that does not answer is a warning.
fn open(app: &App) -> Result<(Repo, Authority), Error> {
    let repo = app.repo();
    let authority = signals::authority(&repo, None)?;
    match authority.source().map(|remote| runs::from_remote(&repo, remote)) {
        Some(Ok(troubles)) => {
            troubles.iter().for_each(|trouble| warn(trouble));
            if let Err(error) = authority.refresh(&repo) {
                warn(&Error::from(error).message);
            }
        }
        // The branches of that remote cannot be fetched either.
        Some(Err(why)) => warn(&why),
        None => {}
    }
    Ok((repo, authority))
}

/// Runs `aynig flow list`.
pub(crate) fn list(app: &App, options: &FlowList) -> Result<Exit, Error> {
    let (repo, authority) = open(app)?;
    let (listed, unread) = flows::list(&repo, &app.process, &authority)?;
    if options.json {
        ui::answer_json(&json!({ "runs": listed, "damaged": unread }));
        return Ok(Exit::Done);
    }
    let widths = Widths::of(&listed);
    if ui::room().is_some() && !listed.is_empty() {
        ui::answer(&styled(FAINT, widths.headings()));
    }
    for one in &listed {
        ui::answer(&row(one, &widths));
    }
    for one in &unread {
        warn(&format!(
            "run {} cannot be read: {}; `aynig orch doctor {}`",
            one.run_id, one.reason, one.run_id
        ));
    }
    if listed.is_empty() {
        ui::remark(&styled(FAINT, flows::NONE));
        runs::remote_unset(&repo).iter().for_each(|words| ui::remark(&styled(FAINT, words)));
    }
    Ok(Exit::Done)
}

/// The widths of the list's columns.
struct Widths {
    slug: usize,
    age: usize,
    step: usize,
}

impl Widths {
    fn of(listed: &[Listed]) -> Self {
        let most = |of: &dyn Fn(&Listed) -> usize, least| listed.iter().map(of).max().unwrap_or(0).max(least);
        Self {
            slug: most(&|one| one.slug.len(), 8),
            age: most(&|one| clock::span_in_short(one.age).len(), 4),
            step: most(&|one| step_of(one).len(), 16),
        }
    }

    /// The heads of the columns, for a terminal. The age is that of the run.
    fn headings(&self) -> String {
        let Self { slug, age, step } = *self;
        format!("{:slug$}  {:9}  {:>age$}  {:step$}  LABEL", "RUN", "PLACE", "AGE", "STEP")
    }
}

/// The step that a run is at. Its id has letters that each take one column.
fn step_of(one: &Listed) -> &str {
    one.current_step.as_deref().unwrap_or("-")
}

/// A run of the list: slug, verdict or place, age, step, label, and what it waits for. On a terminal that is cut.
fn row(one: &Listed, widths: &Widths) -> String {
    let word = one.word();
    let Widths { slug, age, step } = *widths;
    let label = ui::sanitize(&one.label);
    let asks =
        matches!(word, "gate" | "paused" | "stuck" | "parked") || !one.unable.is_empty() || one.is_left;
    let words = ui::sanitize(&one.words);
    let words = match ui::room() {
        _ if !asks => String::new(),
        None => words,
        Some(room) => {
            let before = slug + 2 + 9 + 2 + age + 2 + step + 2 + columns::width(&label) + 2;
            columns::cut(&words, room.columns.saturating_sub(before).max(LEAST))
        }
    };
    let words = if words.is_empty() { words } else { format!("  {}", styled(CALL, words)) };
    let line = format!(
        "{}  {}  {:>age$}  {:step$}  {label}{words}",
        styled(STRONG, format!("{:slug$}", one.slug)),
        styled(style(word), format!("{word:9}")),
        clock::span_in_short(one.age),
        ui::sanitize(step_of(one)),
    );
    line.trim_end().to_owned()
}

/// The style of a verdict, or of the word for a place.
pub(crate) fn style(word: &str) -> anstyle::Style {
    match word {
        "succeeded" => GOOD,
        "working" | "due" | "parked" => CARE,
        "gate" | "paused" | "stuck" => CALL,
        "stopped" => FAINT,
        _ => BAD,
    }
}

/// Runs `aynig flow show`.
pub(crate) fn show(app: &App, options: &FlowOne) -> Result<Exit, Error> {
    let (repo, authority) = open(app)?;
    let tip = flows::find(&repo, &options.run_name)?;
    let run = view(&repo, &app.process, &authority, &tip, &mut warn)?;
    if options.json {
        ui::answer_json(&run);
    } else {
        print(&run);
    }
    Ok(Exit::Done)
}

/// Draws a run for `aynig flow graph`.
pub(crate) fn drawn(app: &App, run_name: &str) -> Result<Graph, Error> {
    let (repo, authority) = open(app)?;
    let tip = flows::find(&repo, run_name)?;
    let graph = flows::drawn::drawn(&repo, &app.process, &authority, &tip, &mut warn)?;
    ui::remark(&format!("run {} is drawn, with the flow that it was started with", tip.state.run.slug));
    Ok(graph)
}

/// Prints a run for people.
fn print(run: &FlowRun) {
    let place = run.verdict.unwrap_or(run.place.word());
    let at = run.workspace.get("head_sha").and_then(|head| head.as_str()?.get(..10));
    let work = run.work_branch.as_ref().map(|branch| match at {
        Some(at) => format!("{branch} at {at}"),
        None => branch.clone(),
    });
    let work = work
        .map(|work| [Some(work), run.outdated.clone()].into_iter().flatten().collect::<Vec<_>>().join("\n"));
    let fork = run.forked_from.zip(run.begins_at.as_ref());
    let fork = fork.map(|(other, step)| format!("a fork of {other} at {step}"));
    let rests = matches!(run.place, Place::Gate | Place::Paused | Place::Ended);
    let rows = [
        ("run", Some(format!("{}  {}", run.slug, run.label))),
        ("flow", Some(format!("{} (version {})", run.workflow_id, run.workflow_version))),
        ("begins", fork),
        ("stands", Some(format!("{}, since {}", run.words, run.since))),
        ("gate", run.gate.as_ref().map(gate)),
        ("question", run.question.clone()),
        ("base", Some(format!("{} {}", run.base_ref, run.base_sha))),
        ("work", work),
        ("look", run.look.clone().filter(|_| rests)),
        ("beside", run.unasked.clone()),
        ("answer", run.answer.clone().filter(|_| rests)),
        ("report", run.report.clone().filter(|_| rests)),
        ("published", (!run.publications.is_empty()).then(|| run.publications.join("\n"))),
        ("worktree", run.worktree_path.clone()),
        ("driver", Some(run.driver.clone())),
        ("files", Some(run.run_directory.clone())),
    ];
    for (name, value) in rows.into_iter().filter_map(|(name, value)| Some((name, value?))) {
        for (number, text) in value.lines().enumerate() {
            let name = if number == 0 { name } else { "" };
            let text = ui::sanitize(text.trim_end());
            let text = if name == "stands" { styled(style(place), text) } else { text };
            ui::answer(&format!("{}  {text}", styled(FAINT, format!("{name:9}"))));
        }
    }
    for step in &run.steps {
        ui::answer(&format!("{}  {}", styled(FAINT, "step     "), line(step)));
    }
    for command in &run.next {
        ui::answer(&format!("{}  {}", styled(FAINT, "next     "), styled(STRONG, command)));
    }
}

/// A gate: its name, who may answer, and who has.
fn gate(gate: &GateView) -> String {
    let GateView { name, approvers, required, given, expires_at, .. } = gate;
    let who = if approvers.is_empty() { "everybody".to_owned() } else { approvers.join(", ") };
    let mut lines = vec![format!("{name}: {who} may answer")];
    if *required > 1 {
        lines.push(format!("{required} people must approve, {} have", given.len()));
    }
    for one in given {
        let reason = one.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        lines.push(format!("approved by {} at {}{reason}", one.by, one.at));
    }
    lines.extend(expires_at.as_ref().map(|at| format!("until {at}")));
    lines.join("\n")
}

/// A step in one line.
pub(crate) fn line(step: &StepView) -> String {
    let outcome = step.word.unwrap_or(step.going_on());
    let again = if step.attempt > 1 { format!(" attempt {}", step.attempt) } else { String::new() };
    let visit = if step.visit > 1 { format!(" visit {}", step.visit) } else { String::new() };
    let route = step.route.as_ref().map(|route| format!(" -> {route}")).unwrap_or_default();
    let evidence = step.evidence.as_ref().map(|evidence| format!(": {evidence}")).unwrap_or_default();
    let words = format!("{}  {}{visit}{again}  {outcome}{route}{evidence}", step.number, step.id);
    shortened(&ui::sanitize(&words.split_whitespace().collect::<Vec<_>>().join(" ")), WORDS)
}

/// Runs `aynig flow log`.
pub(crate) fn log(app: &App, options: &FlowOne) -> Result<Exit, Error> {
    let (repo, _) = open(app)?;
    let tip = flows::find(&repo, &options.run_name)?;
    let entries = story(&repo, &tip)?;
    if options.json {
        ui::answer_json(&json!({ "runId": tip.state.run.id, "entries": entries }));
        return Ok(Exit::Done);
    }
    for entry in &entries {
        let words = entry.text.split_whitespace().collect::<Vec<_>>().join(" ");
        let by = styled(FAINT, ui::sanitize(&entry.by));
        let words = shortened(&ui::sanitize(&words), WORDS);
        ui::answer(&format!("{}  {:9}  {words}  {by}", styled(FAINT, &entry.at), entry.kind));
        if let Some(directory) = &entry.directory {
            ui::answer(&format!("    {}", styled(FAINT, ui::sanitize(directory))));
        }
    }
    if flows::has_driver(&repo, &tip) {
        let driver = flows::driver(&repo, &tip.state.run.slug)?;
        ui::remark(&styled(FAINT, format!("`aynig log {driver}` shows the attempts of its driver")));
    }
    Ok(Exit::Done)
}
