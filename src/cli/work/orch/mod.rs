//! `aynig orch`: changes graphs, carries out the turns of their nodes, and hands the verbs that only show on to
//! [`crate::cli::look::orch`].

mod create;
mod hand;
mod nodes;

use serde_json::json;

use aynig::git::Repo;
use aynig::model::approval::Always;
use aynig::model::decide::Decided;
use aynig::model::node::Node;
use aynig::model::run::{GlobalMode, Mode, RunStatus};
use aynig::model::state::State;
use aynig::ops::app::App;
use aynig::ops::approvals;
use aynig::ops::error::Error;
use aynig::ops::graph_new::nobody_goes_on;
use aynig::ops::graph_runs::{self, Deleted, Settings};
use aynig::ops::graphs;
use aynig::ops::runs::{self, runners};

use super::flow_runs::{attempt, found, opened, unnamed};
use crate::cli::args::{
    For, Orch, OrchArtifactVerb, OrchChat, OrchEdgeVerb, OrchRunSet, OrchRunVerb, OrchVerb, Phase, RunMode,
};
use crate::cli::exit::Exit;
use crate::cli::look::orch as look;
use crate::cli::ui;
use crate::cli::ui::signals::authority;
use crate::cli::ui::warn;

/// Whether a subcommand is about runs, which are in a repository.
pub(crate) fn needs_repository(arguments: &Orch) -> bool {
    !matches!(&arguments.verb, OrchVerb::Check(_) | OrchVerb::Schema)
}

/// Runs the subcommand.
pub(crate) fn run(app: &App, arguments: &Orch) -> Result<Exit, Error> {
    let (repo, json) = (app.repo(), arguments.json);
    let engine = || opened(app, &repo);
    match &arguments.verb {
        OrchVerb::Turn => attempt(app, &repo, |engine, attempt| engine.turn(attempt)),
        OrchVerb::Recover => attempt(app, &repo, |engine, attempt| engine.recover_driver(attempt)),
        OrchVerb::Run(run) => match &run.verb {
            OrchRunVerb::List => look::run(app, arguments),
            OrchRunVerb::Create(options) => create::run(app, &repo, options, json),
            OrchRunVerb::Pause(one) => status(app, &repo, (&one.run_name, json), RunStatus::Paused),
            OrchRunVerb::Resume(one) => status(app, &repo, (&one.run_name, json), RunStatus::Running),
            OrchRunVerb::Stop(one) => status(app, &repo, (&one.run_name, json), RunStatus::Stopped),
            OrchRunVerb::Complete(one) => status(app, &repo, (&one.run_name, json), RunStatus::Completed),
            OrchRunVerb::Set(options) => {
                let run = found(&repo, &options.run_name)?;
                changed(&graph_runs::set(&engine()?, run, &settings(options))?, "the run is changed", json)
            }
            OrchRunVerb::Delete(one) => delete(app, &repo, &one.run_name, json),
        },
        OrchVerb::Node(node) => nodes::run(app, &repo, node, json),
        OrchVerb::Edge(edge) => match &edge.verb {
            OrchEdgeVerb::Add(options) => match options.ends.as_slice() {
                [from, to] => create::edge(app, &repo, options, (from, to), json),
                ends => create::staged_edge(app, options, ends.first().map_or("", String::as_str)),
            },
            OrchEdgeVerb::Remove(options) => {
                let run = found(&repo, &options.run_name)?;
                let removed = match &options.to {
                    None => graphs::remove_edge(&engine()?, run, &options.edge)?,
                    Some(to) => graphs::remove_edge_between(&engine()?, run, &options.edge, to)?,
                };
                changed(&removed, "the edge is removed", json)
            }
        },
        OrchVerb::Chat(options) => chat(app, &repo, options, json),
        OrchVerb::Handoff(options) => hand::hand_off(app, options),
        OrchVerb::Spawn(options) => hand::spawn(app, options),
        OrchVerb::Done(options) => hand::done(app, options),
        OrchVerb::Artifact(artifact) => match &artifact.verb {
            OrchArtifactVerb::Add(options) => hand::add_artifact(app, options),
            _ => look::run(app, arguments),
        },
        OrchVerb::Mcp => hand::serve(app),
        OrchVerb::Roster(options) => hand::roster(app, options, json),
        OrchVerb::Approve(one) => {
            asked(&repo)?;
            unnamed(&repo);
            let always = one.always.map(|what| match what {
                For::Call => Always::Call,
                For::Tool => Always::Tool,
            });
            let answered = match always {
                Some(always) => approvals::grant(&engine()?, &one.id, always),
                None => approvals::approve(&engine()?, &one.id, one.args.as_deref()),
            };
            let what = if always.is_some() { "granted, also from now on" } else { "granted" };
            changed(&answered?, what, json)
        }
        OrchVerb::Revoke(one) => {
            asked(&repo)?;
            changed(&approvals::revoke(&engine()?, &one.id)?, "it is asked for again from now on", json)
        }
        OrchVerb::Deny(one) => {
            asked(&repo)?;
            unnamed(&repo);
            changed(&approvals::deny(&engine()?, &one.id, &one.reason)?, "denied", json)
        }
        OrchVerb::Approvals(_)
        | OrchVerb::Template(_)
        | OrchVerb::Show(_)
        | OrchVerb::Events(_)
        | OrchVerb::Doctor(_)
        | OrchVerb::Rebuild(_) => look::run(app, arguments),
        OrchVerb::Check(_) | OrchVerb::Schema => unreachable!("they need no repository"),
    }
}

/// Fetches the ledgers, so that requests made elsewhere are known.
fn asked(repo: &Repo) -> Result<(), Error> {
    let authority = authority(repo, None)?;
    runs::update(repo, authority.source()).iter().for_each(|trouble| warn(trouble));
    Ok(())
}

fn settings(options: &OrchRunSet) -> Settings<'_> {
    Settings {
        status: None,
        label: options.label.as_deref(),
        mode: options.mode.map(|mode| match mode {
            RunMode::Auto => Mode::Auto,
            RunMode::Interactive => Mode::Interactive,
        }),
        global_mode: options.global_mode.map(|mode| match mode {
            Phase::Planning => GlobalMode::Planning,
            Phase::Implementation => GlobalMode::Implementation,
        }),
        done_when: options.done_when.as_deref(),
        limits: &options.limits,
    }
}

fn delete(app: &App, repo: &Repo, named: &str, json: bool) -> Result<Exit, Error> {
    let run = found(repo, named)?;
    let Deleted { run, archive, shows_work } = graph_runs::delete(&opened(app, repo)?, run)?;
    if json {
        let (id, status) = (run.id, run.status.word());
        ui::answer_json(&json!({ "runId": id, "slug": run.slug, "status": status, "changed": true }));
    } else {
        ui::remark(&format!("run {} is deleted; git keeps it: `git log {archive}`", run.slug));
        ui::remark(&format!("the work of its nodes: `{shows_work}`"));
    }
    Ok(Exit::Done)
}

fn status(app: &App, repo: &Repo, (named, json): (&str, bool), to: RunStatus) -> Result<Exit, Error> {
    let run = found(repo, named)?;
    changed(&graphs::set_status(&opened(app, repo)?, run, to)?, "", json)
}

fn chat(app: &App, repo: &Repo, options: &OrchChat, json: bool) -> Result<Exit, Error> {
    let (to, text) = match options.words.as_slice() {
        [to, text] => (Some(to.as_str()), text.as_str()),
        words => (None, words.first().map(String::as_str).unwrap_or_default()),
    };
    let run = found(repo, &options.run_name)?;
    let decided = graphs::chat(&opened(app, repo)?, run, to, (text, options.interrupt))?;
    let state = &decided.state;
    let named = |node: &&Node| to.is_some_and(|to| node.alias.as_str() == to) || state.nodes.len() == 1;
    let reader = state.nodes.values().find(named).or_else(|| state.orchestrator());
    let is_idle = state.run.status == RunStatus::Running && !decided.events.is_empty() && !json;
    if let Some(node) = reader.filter(|node| is_idle && node.hold.is_some()) {
        let (slug, alias) = (&state.run.slug, &node.alias);
        ui::remark(&format!(
            "the message is in the inbox; {alias} is stopped: `aynig orch node start {slug} {alias}` lets it go on"
        ));
        return Ok(Exit::Done);
    }
    changed(&decided, "the message is in the inbox", json)
}

/// Prints what an operation changed, if it is not the status of the run, and the next step.
fn changed(decided: &Decided, what: &str, json: bool) -> Result<Exit, Error> {
    let run = &decided.state.run;
    let is_changed = !decided.events.is_empty();
    if json {
        let (id, status) = (run.id, run.status.word());
        ui::answer_json(&json!({ "runId": id, "slug": run.slug, "status": status, "changed": is_changed }));
        return Ok(Exit::Done);
    }
    if is_changed {
        ui::remark(&after(&decided.state, what));
    } else {
        let status = run.status.word();
        ui::remark(&format!("nothing was changed: that is so already (run {} is {status})", run.slug));
    }
    if is_changed
        && run.mode == Mode::Auto
        && !run.status.is_ended()
        && decided.state.orchestrator().is_none()
    {
        ui::remark(&nobody_goes_on(&run.slug));
    }
    Ok(Exit::Done)
}

/// The change in words, with the next step.
fn after(state: &State, what: &str) -> String {
    let (run, slug) = (&state.run, &state.run.slug);
    let is = format!("run {slug} is {}", run.status.word());
    let what = if what.is_empty() { is.clone() } else { what.to_owned() };
    match run.status {
        RunStatus::Paused if what == is => format!("{is}; `aynig orch run resume {slug}` lets it go on"),
        RunStatus::Paused => format!("{what}; {is}: `aynig orch run resume {slug}` lets it go on"),
        status if status.is_ended() && what == is => is,
        status if status.is_ended() => format!("{what}; {is}"),
        _ => {
            let by = runners(state.nodes.keys().map(|id| state.reserved_role(*id)));
            format!("{what}; {by} the turns of run {slug}")
        }
    }
}
