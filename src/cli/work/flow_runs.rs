//! `aynig flow`: starts runs, steers them, and carries out their steps.

use serde::Serialize;

use aynig::engine::Engine;
use aynig::flow::fault::Severity;
use aynig::flow::{self, Checked};
use aynig::git::Repo;
use aynig::ops::app::App;
use aynig::ops::engine::{self, Ended, Granted, Order, Started, Wish};
use aynig::ops::error::Error;
use aynig::ops::flow::{against_base, read};
use aynig::ops::runs;

use super::drive::drive;
use crate::cli::args::{Flow, FlowAnswer, FlowRun, FlowStart, FlowVerb};
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
        FlowVerb::Pause(of) => grant(app, &repo, "pausing a run", of, &Wish::Pause),
        FlowVerb::Stop(of) => grant(app, &repo, "stopping a run", of, &Wish::Stop),
        FlowVerb::Resume(options) => {
            grant(app, &repo, "resuming a run", &options.run, &Wish::Resume(options.from.clone()))
        }
        FlowVerb::Approve(options) => answer(app, &repo, options, true),
        FlowVerb::Reject(options) => answer(app, &repo, options, false),
        FlowVerb::Step => attempt(app, &repo, |engine, attempt| engine.attempt(attempt)),
        FlowVerb::Recover => attempt(app, &repo, |engine, attempt| engine.recover(attempt)),
        FlowVerb::Check(_) | FlowVerb::Graph(_) | FlowVerb::Schema => unreachable!("they need no repository"),
    }
}

fn opened<'a>(app: &App, repo: &'a Repo) -> Result<Engine<'a>, Error> {
    engine::open(repo, &app.process, shutdown()?, WATCHDOG, warn)
}

fn start(app: &App, repo: &Repo, options: &FlowStart) -> Result<Exit, Error> {
    engine::persons_only("starting a run")?;
    let bytes = read(&app.process.start, &options.flow_file)?;
    let Checked { flow, mut notes } = flow::check(&bytes);
    let mut base = None;
    if let Some(flow) = &flow {
        let (commit, more) = against_base(repo, flow, &options.base)?;
        base = Some(commit);
        notes.extend(more);
        notes.sort();
    }
    let name = name_of(&options.flow_file);
    for note in &notes {
        ui::narrate(&line(&name, note));
    }
    let faults = notes.iter().any(|note| note.severity == Severity::Fault);
    let (Some(flow), Some(_), false) = (flow, base, faults) else {
        return Err(Error::usage(format!("{name} has a fault; nothing was started"))
            .hint(format!("`aynig flow check {name}` reports all faults")));
    };
    let inputs = engine::inputs(&app.process.start, &flow, &options.inputs)?;
    let remote = authority(repo, None)?;
    let (base_ref, base) = aynig::ops::flow::base(repo, &options.base)?;
    let file = app.process.start.join(&options.flow_file);
    engine::check_trust(repo, remote.source(), (&file, &bytes), &flow, base)?;
    let engine = opened(app, repo)?;
    let order = Order {
        flow: &flow,
        file: &bytes,
        base: (base_ref, base),
        inputs,
        label: options.label.clone().unwrap_or_else(|| flow.workflow_id.clone()),
        begins_at: None,
        place: engine::place(remote.source()),
    };
    let started = engine.start(&order)?;
    told(&started, options.json, options.wait);
    if options.wait { drive(app, &started, options.json) } else { Ok(Exit::Done) }
}

fn told(started: &Started, json: bool, waits: bool) {
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
        });
        return;
    }
    ui::answer(&format!("{} {}", styled(STRONG, &started.slug), started.run));
    let branch = ui::sanitize(&started.work_branch);
    ui::remark(&format!(
        "work branch {branch}, worktree {}",
        ui::sanitize(&started.worktree.display().to_string())
    ));
    if waits {
        return;
    }
    ui::remark(&format!(
        "`aynig run` carries it out; `aynig flow show {}` shows where it stands",
        started.slug
    ));
}

fn grant(app: &App, repo: &Repo, verb: &str, of: &FlowRun, wish: &Wish) -> Result<Exit, Error> {
    engine::persons_only(verb)?;
    let run = found(repo, &of.run_name)?;
    let granted = opened(app, repo)?.grant(run, wish)?;
    granted_words(repo, run, &granted, of.json)
}

fn answer(app: &App, repo: &Repo, options: &FlowAnswer, approves: bool) -> Result<Exit, Error> {
    engine::persons_only("answering a gate")?;
    let run = found(repo, &options.run.run_name)?;
    let granted = opened(app, repo)?.answer_gate(run, approves, options.comment.as_deref())?;
    granted_words(repo, run, &granted, options.run.json)
}

fn granted_words(repo: &Repo, run: runs::RunId, granted: &Granted, json: bool) -> Result<Exit, Error> {
    let slug = runs::show(repo, run)?.state.run.slug.to_string();
    if json {
        let (run_id, status, under_way) = (run.to_string(), granted.status.word(), granted.is_leased);
        ui::answer_json(&Changed { run_id, slug, status, under_way });
        return Ok(Exit::Done);
    }
    let next = granted.next.as_ref().map(|next| format!("; {}", next.subject)).unwrap_or_default();
    ui::remark(&format!("run {slug} is {}{}", granted.status.word(), ui::sanitize(&next)));
    if granted.is_leased {
        ui::remark("a step is under way; its runner hears of this in seconds");
    }
    Ok(Exit::Done)
}

/// Finds a run, after the ledgers were fetched.
fn found(repo: &Repo, named: &str) -> Result<runs::RunId, Error> {
    let authority = authority(repo, None)?;
    runs::update(repo, authority.source()).iter().for_each(|trouble| warn(trouble));
    runs::find(repo, named)
}

fn attempt(
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
