//! `aynig flow`: starts runs, steers them, and carries out their steps.

use std::collections::BTreeSet;

use serde::Serialize;

use aynig::contract::ids::RemoteName;
use aynig::engine::Engine;
use aynig::engine::lacking::Lack;
use aynig::flow::document::Flow as Document;
use aynig::git::Repo;
use aynig::model::ids::Slug;
use aynig::model::run::Replicate;
use aynig::model::state::State;
use aynig::ops::app::App;
use aynig::ops::engine::{self, Ended, Granted, Reply, Started, Wish};
use aynig::ops::error::Error;
use aynig::ops::flow::read;
use aynig::ops::flow_new::{Wanted, given, start as begin};
use aynig::ops::flows;
use aynig::ops::flows::view::show as view;
use aynig::ops::runs;
use aynig::ops::view::lease::gone_words_of;
use aynig::words::{shell_quote, shows_rescued};

use super::drive::{Driven, drive};
use super::workspace::rolled_back;
use crate::cli::args::{Flow, FlowAnswer, FlowFork, FlowRollback, FlowRun, FlowStart, FlowVerb};
use crate::cli::exit::Exit;
use crate::cli::internal::WATCHDOG;
use crate::cli::look::flow::{line, name_of};
use crate::cli::look::flow_runs as look;
use crate::cli::ui;
use crate::cli::ui::signals::{authority, shutdown};
use crate::cli::ui::{STRONG, styled, warn};

/// A new run in JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    run_id: String,
    slug: String,
    driver: String,
    work_branch: String,
    base_ref: String,
    base_sha: String,
    worktree_path: String,
    run_directory: String,
    decided_by: Option<String>,
    replicate: &'static str,
}

/// What became of a wish in JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Changed {
    run_id: String,
    slug: String,
    status: &'static str,
    /// Whether a step is under way, which ends in seconds.
    under_way: bool,
}

/// What a rollback did in JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PutBack {
    #[serde(flatten)]
    run: Changed,
    /// Whether the worktree was made anew.
    changed: bool,
    work_branch: String,
    head_sha: String,
    rescue_ref: Option<String>,
    kept_path: Option<String>,
    reason: Option<String>,
}

/// Whether a subcommand is about runs, which are in a repository.
pub(crate) fn needs_repository(arguments: &Flow) -> bool {
    !matches!(&arguments.verb, FlowVerb::Check(_) | FlowVerb::Graph(_) | FlowVerb::Schema)
}

/// Runs the subcommand.
pub(crate) fn run(app: &App, arguments: &Flow) -> Result<Exit, Error> {
    let repo = app.repo();
    match &arguments.verb {
        FlowVerb::List(options) => look::list(app, options),
        FlowVerb::Show(options) => look::show(app, options),
        FlowVerb::Log(options) => look::log(app, options),
        FlowVerb::Start(options) => start(app, &repo, options),
        FlowVerb::Pause(of) => grant(app, &repo, "pausing a run", (of, false), &Wish::Pause),
        FlowVerb::Stop(of) => grant(app, &repo, "stopping a run", (of, false), &Wish::Stop),
        FlowVerb::Resume(options) => {
            if options.accept {
                engine::persons_only("resuming a run")?;
                let run = found(&repo, &options.run.run_name)?;
                opened(app, &repo)?.accept(run)?.iter().for_each(|words| ui::remark(&ui::sanitize(words)));
            }
            let wish = Wish::Resume(options.from.clone());
            grant(app, &repo, "resuming a run", (&options.run, options.wait), &wish)
        }
        FlowVerb::Rollback(options) => roll_back(app, &repo, options),
        FlowVerb::Fork(options) => branch_off(app, &repo, options),
        FlowVerb::Approve(options) => answer(app, &repo, options, true),
        FlowVerb::Reject(options) => answer(app, &repo, options, false),
        FlowVerb::Step => attempt(app, &repo, |engine, attempt| engine.attempt(attempt)),
        FlowVerb::Recover => attempt(app, &repo, |engine, attempt| engine.recover_driver(attempt)),
        FlowVerb::Check(_) | FlowVerb::Graph(_) | FlowVerb::Schema => unreachable!("they need no repository"),
    }
}

/// The engine of this host.
pub(super) fn opened<'a>(app: &'a App, repo: &'a Repo) -> Result<Engine<'a>, Error> {
    engine::open(repo, &app.process, shutdown()?, WATCHDOG, warn)
}

fn start(app: &App, repo: &Repo, options: &FlowStart) -> Result<Exit, Error> {
    engine::persons_only("starting a run")?;
    let bytes = read(&app.process.start, &options.flow_file)?;
    let name = name_of(&options.flow_file);
    let remote = authority(repo, None)?;
    let engine = opened(app, repo)?;
    let wanted = Wanted {
        name: &name,
        file: (&app.process.start, &options.flow_file),
        bytes: &bytes,
        base: &options.base,
        inputs: given(&app.process.start, &options.inputs)?,
        label: options.label.as_deref(),
        remote: remote.source(),
    };
    let (flow, started) = begin(&engine, wanted, &mut |note| ui::narrate(&line(&name, note)))?;
    warn_of_lacks(&engine, &flow, &name);
    told(app, &started, options.json, options.wait)
}

/// A label that was given. An empty one is none.
fn label(given: Option<&String>) -> Option<String> {
    given.filter(|label| !label.is_empty()).cloned()
}

/// Warns of what this host lacks. Other hosts may carry the run out.
fn warn_of_lacks(engine: &Engine<'_>, flow: &Document, file: &str) {
    let lacking = engine.lacking(flow);
    for Lack { step, what, .. } in &lacking {
        warn(&format!("step {step}: {what}"));
    }
    if !lacking.is_empty() {
        ui::remark(&ui::sanitize(&format!(
            "such a step is left to other hosts; `aynig flow check {} --host` looks at this one again",
            shell_quote(file)
        )));
    }
}

fn branch_off(app: &App, repo: &Repo, options: &FlowFork) -> Result<Exit, Error> {
    engine::persons_only("starting a run")?;
    let run = found(repo, &options.run.run_name)?;
    let place = engine::place(authority(repo, None)?.source());
    let started = opened(app, repo)?.fork_run(run, &options.at, label(options.label.as_ref()), place)?;
    told(app, &started, options.run.json, options.wait)
}

fn roll_back(app: &App, repo: &Repo, options: &FlowRollback) -> Result<Exit, Error> {
    engine::persons_only("putting the work of a run back")?;
    let run = found(repo, &options.run.run_name)?;
    let done = opened(app, repo)?.put_back_run(run, options.undo)?;
    let (slug, status) = (done.run.slug.to_string(), done.run.status);
    for words in done.remade.iter().flat_map(|remade| &remade.warnings) {
        warn(words);
    }
    if options.run.json {
        let changed = Changed { run_id: run.to_string(), slug, status: status.word(), under_way: false };
        let now = done.remade.as_ref().map_or(&done.context, |remade| &remade.context);
        let kept = done.remade.as_ref().and_then(|remade| remade.kept.as_ref());
        ui::answer_json(&PutBack {
            run: changed,
            changed: done.remade.is_some(),
            work_branch: now.branch_name.clone(),
            head_sha: now.head_sha.clone(),
            rescue_ref: done.remade.as_ref().and_then(|remade| remade.rescue.clone()).or(done.ended),
            kept_path: kept.map(|(path, _)| path.display().to_string()),
            reason: kept.map(|(_, why)| why.clone()),
        });
        return Ok(Exit::Done);
    }
    if let Some(ended) = &done.ended {
        let words = format!("the step that was under way was ended; its work: {}", shows_rescued(ended));
        ui::answer(&ui::sanitize(&words));
    }
    if done.remade.is_none() && done.ended.is_some() {
        return stands(app, repo, run);
    }
    rolled_back(&done.context, done.remade.as_ref(), &format!("aynig flow rollback --undo {slug}"));
    stands(app, repo, run)
}

/// Prints where a run stands, and what to type.
fn stands(app: &App, repo: &Repo, run: runs::RunId) -> Result<Exit, Error> {
    let tip = flows::find(repo, &run.to_string())?;
    let shown = view(repo, &app.process, &authority(repo, None)?, &tip, &mut warn)?;
    ui::remark(&ui::sanitize(&format!("run {}: {}", shown.slug, shown.words)));
    for command in &shown.next {
        ui::remark(&format!("next  {}", styled(STRONG, ui::sanitize(command))));
    }
    Ok(Exit::Done)
}

/// Prints a new run, and carries it out if that is wanted.
fn told(app: &App, started: &Started, json: bool, waits: bool) -> Result<Exit, Error> {
    let driven = Driven {
        run: started.run,
        slug: started.slug.to_string(),
        driver: started.driver.clone(),
        ended: BTreeSet::new(),
    };
    if json && waits {
        return drive(app, &driven, json);
    }
    if json {
        ui::answer_json(&Answer {
            run_id: started.run.to_string(),
            slug: started.slug.to_string(),
            driver: started.driver.to_string(),
            work_branch: started.work_branch.clone(),
            base_ref: started.base_ref.clone(),
            base_sha: started.base_sha.clone(),
            worktree_path: started.worktree.display().to_string(),
            run_directory: started.directory.display().to_string(),
            decided_by: started.decided_by.as_ref().map(ToString::to_string),
            replicate: started.replicate.word(),
        });
        return Ok(Exit::Done);
    }
    ui::answer(&format!("{} {}", styled(STRONG, &started.slug), started.run));
    let branch = ui::sanitize(&started.work_branch);
    ui::remark(&format!(
        "work branch {branch}, worktree {}",
        ui::sanitize(&started.worktree.display().to_string())
    ));
    if let Some(remote) = &started.decided_by {
        ui::remark(&ui::sanitize(&leaving(remote, started.replicate)));
    }
    if waits {
        return drive(app, &driven, json);
    }
    ui::remark(&format!(
        "`aynig run` carries it out; `aynig flow show {}` shows where it stands",
        started.slug
    ));
    Ok(Exit::Done)
}

/// The contents of a run that leave this host.
fn leaving(remote: &RemoteName, replicate: Replicate) -> String {
    let more = match replicate {
        Replicate::All => "prompts, and the output of failed steps",
        Replicate::Summary | Replicate::None => "not prompts, transcripts and logs",
    };
    format!(
        "{remote} gets the run: its flow, inputs, commits, answers and diffs; {more} (aynig.replicate = {})",
        replicate.word()
    )
}

fn grant(
    app: &App,
    repo: &Repo,
    verb: &str,
    (of, waits): (&FlowRun, bool),
    wish: &Wish,
) -> Result<Exit, Error> {
    engine::persons_only(verb)?;
    let run = found(repo, &of.run_name)?;
    let before = runs::show(repo, run)?.state;
    let granted = opened(app, repo)?.grant(run, wish)?;
    granted_words(app, repo, &before, &granted, (of.json, waits))
}

fn answer(app: &App, repo: &Repo, options: &FlowAnswer, approves: bool) -> Result<Exit, Error> {
    engine::persons_only("answering a gate")?;
    let run = found(repo, &options.run.run_name)?;
    let before = runs::show(repo, run)?.state;
    let (comment, about) = (options.comment.as_deref(), options.about.as_deref());
    let reply = Reply { approves, comment, about, asked: None };
    let granted = flows::answer_gate(&opened(app, repo)?, &authority(repo, None)?, run, reply)?;
    unnamed(repo);
    granted_words(app, repo, &before, &granted, (options.run.json, options.wait))
}

/// Warns that the log names nobody for an answer.
pub(super) fn unnamed(repo: &Repo) {
    if !repo.has_identity() {
        warn(&format!(
            "git does not know who you are, so the answer is by aynig@{}; `git config user.name NAME && git config user.email \
             ADDRESS` names you",
            repo.runner_id()
        ));
    }
}

fn granted_words(
    app: &App,
    repo: &Repo,
    before: &State,
    granted: &Granted,
    (json, waits): (bool, bool),
) -> Result<Exit, Error> {
    let (run, slug) = (before.run.id, &before.run.slug);
    let is_alone = flows::is_alone(repo, &before.run, &authority(repo, None)?);
    if waits {
        let driver = flows::driver(repo, slug)?;
        let ended = before.steps.values().filter(|step| step.ended_at.is_some());
        let ended = ended.map(|step| step.number).collect();
        return drive(app, &Driven { run, slug: slug.to_string(), driver, ended }, json);
    }
    if json {
        let (run_id, status, under_way) = (run.to_string(), granted.status.word(), granted.is_leased);
        ui::answer_json(&Changed { run_id, slug: slug.to_string(), status, under_way });
        return Ok(Exit::Done);
    }
    // `aynig run` does not carry such a run on.
    let said = granted.said.iter().filter(|words| !(is_alone && words.contains("`aynig run`")));
    for words in said {
        ui::remark(&ui::sanitize(words));
    }
    if !granted.said.is_empty() && !is_alone {
        return Ok(Exit::Done);
    }
    if granted.is_leased {
        ui::remark(&format!("run {slug} is {}", granted.status.word()));
        let words = driver_gone(repo, &before.run.slug)?;
        let words = words.as_deref().unwrap_or("a step is under way; its runner hears of this in seconds");
        ui::remark(&ui::sanitize(words));
        return Ok(Exit::Done);
    }
    stands(app, repo, run)
}

/// The words about the runner of a run's step, if it is known to be gone.
fn driver_gone(repo: &Repo, slug: &Slug) -> Result<Option<String>, Error> {
    let gone = gone_words_of(repo, &authority(repo, None)?, &flows::driver(repo, slug)?);
    Ok(gone.map(|gone| format!("a step was under way; {gone}")))
}

/// The run that is meant, after its remote was asked.
pub(super) fn found(repo: &Repo, named: &str) -> Result<runs::RunId, Error> {
    let authority = authority(repo, None)?;
    runs::update(repo, authority.source()).iter().for_each(|trouble| warn(trouble));
    runs::find(repo, named)
}

/// Carries out an attempt of a driver.
pub(super) fn attempt(
    app: &App,
    repo: &Repo,
    act: impl FnOnce(
        &Engine<'_>,
        &aynig::engine::attempt::Attempt,
    ) -> Result<Ended, aynig::workspace::refusal::Refusal>,
) -> Result<Exit, Error> {
    let attempt = engine::attempt(repo)?;
    match act(&opened(app, repo)?, &attempt)? {
        Ended::Declared(next) => ui::remark(&ui::sanitize(&next.subject)),
        // The command of the driver declares it: this is its standard output.
        Ended::Unable(why) => ui::answer(&format!("SET_STATE {}", serde_json::json!({ "unable": why }))),
    }
    Ok(Exit::Done)
}
