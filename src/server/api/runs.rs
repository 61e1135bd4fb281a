//! Runs: lists, makes, shows, changes and deletes them.

use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

use super::{Answer, At, answer, shapes};
use crate::model::ids::RunId;
use crate::model::run::{GlobalMode, Mode, RunKind, RunStatus};
use crate::ops::board::{self, Doing};
use crate::ops::engine::{Wish, place};
use crate::ops::graph_new::{Order, create as make};
use crate::ops::layout::{self, Layout};
use crate::ops::runs::{self as all, Shown};
use crate::ops::{flow, graph_runs, graphs};
use crate::server::body::{self, Key, Keyed, Path, Query};
use crate::server::desk::Desk;
use crate::server::failure::Failure;

/// The selected runs.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct Listing {
    /// `summary`: a few fields of each, the newest first. By default whole states.
    view: Option<String>,
    /// The number of runs, with `view=summary`; 1 to 500
    limit: Option<usize>,
    /// Only those after this id in the list, with `view=summary`
    #[param(value_type = Option<String>)]
    before: Option<RunId>,
    /// Only those with this status, with `view=summary`: needs you, working, waiting, finished or failed
    status: Option<String>,
    /// Only those with this text in the slug or label, with `view=summary`
    q: Option<String>,
}

impl Listing {
    /// Whether something is given that a list of whole states does not take.
    fn selects(&self) -> bool {
        let Self { view: _, limit, before, status, q } = self;
        limit.is_some() || before.is_some() || [status, q].iter().any(|given| given.is_some())
    }
}

/// List the runs
#[utoipa::path(get, path = "/api/runs", params(Listing),
    responses((status = 200, description = "the runs", body = shapes::Runs)))]
pub(super) async fn list(State(shared): At, Query(listing): Query<Listing>) -> Answer {
    answer(shared, None, move |desk| match listing.view.as_deref() {
        Some("summary") => summaries(desk, &listing),
        None if listing.selects() => {
            Err(Failure::query("view", "limit, before, status and q are for view=summary"))
        }
        None => whole(desk),
        Some(view) => Err(Failure::query("view", format!("there is no view {view}; there is summary"))),
    })
    .await
}

fn whole(desk: &Desk<'_>) -> Result<Value, Failure> {
    let mut states = Vec::new();
    for listed in all::list(desk.repo)?.into_iter().filter(|listed| listed.run.is_ok()) {
        states.push(state(desk, listed.id)?);
    }
    Ok(json!({ "runs": states }))
}

fn summaries(desk: &Desk<'_>, listing: &Listing) -> Result<Value, Failure> {
    let limit = listing.limit.unwrap_or(100);
    if !(1..=500).contains(&limit) {
        return Err(Failure::query("limit", format!("limit is 1 to 500, and not {limit}")));
    }
    let status: Option<Doing> = match &listing.status {
        None => None,
        Some(word) => Some(serde_json::from_value(json!(word)).map_err(|_| {
            let all = "needs you, working, waiting, finished and failed";
            Failure::query("status", format!("there is no status {word}; there are {all}"))
        })?),
    };
    let mut known = desk.shared.known();
    let states = known.states(desk.repo)?;
    let glances = board::glances(&states);
    let text = listing.q.clone().unwrap_or_default().to_lowercase();
    let has = |one: &board::Glance<'_>| {
        one.label.to_lowercase().contains(&text)
            || one.slug.as_str().contains(&text)
            || one.last_words.to_lowercase().contains(&text)
    };
    let counts = |doing| glances.iter().filter(|one| one.doing == doing).count();
    let counted = json!({
        "needs you": counts(Doing::NeedsYou), "working": counts(Doing::Working), "waiting": counts(Doing::Waiting),
        "finished": counts(Doing::Finished), "failed": counts(Doing::Failed),
    });
    let from = match listing.before {
        None => 0,
        // A run may have been deleted since the page before.
        Some(id) => glances.iter().position(|one| one.id == id).map_or(glances.len(), |at| at + 1),
    };
    let wanted = glances[from..].iter().filter(|one| status.is_none_or(|status| one.doing == status));
    let mut found: Vec<&board::Glance<'_>> = wanted.filter(|one| has(one)).take(limit + 1).collect();
    let has_more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| has_more).map(|one| one.id.to_string());
    Ok(json!({ "runs": found, "counts": counted, "page": { "nextCursor": next, "hasMore": has_more } }))
}

/// The whole state of a run, with the fields that this host adds.
pub(super) fn state(desk: &Desk<'_>, run: RunId) -> Result<Value, Failure> {
    let shown = all::show(desk.repo, run)?;
    let mut state = serde_json::to_value(shown.projection()).unwrap_or_default();
    state["cwd"] = desk.repo.top().display().to_string().into();
    state["waits"] = json!(shown.waits);
    if shown.state.run.kind == RunKind::Flow {
        state["steps"] = json!(shown.state.steps);
    }
    if let Some(layout) = layout::read(desk.repo, run)? {
        state["layout"] = json!(layout);
    }
    let Shown { synced, .. } = shown;
    if let Ok(synced) = synced {
        state["journal"] = synced.journal.into();
    }
    Ok(state)
}

/// A new run.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct NewRun {
    /// AUTO or INTERACTIVE; by default INTERACTIVE
    #[schema(value_type = Option<String>)]
    mode: Option<Mode>,
    /// PLANNING or IMPLEMENTATION; by default IMPLEMENTATION
    #[schema(value_type = Option<String>)]
    global_mode: Option<GlobalMode>,
    /// The directory of the repository; another one is refused
    cwd: Option<String>,
    /// A text for people
    label: Option<String>,
    /// The base of the work; by default HEAD
    base: Option<String>,
    /// The end condition: a text, or validator:NAME
    done_when: Option<String>,
    /// The positions of its nodes on a page
    #[schema(value_type = Option<Value>)]
    layout: Option<Layout>,
}

/// Make a graph
#[utoipa::path(post, path = "/api/runs", request_body = NewRun,
    responses((status = 200, description = "the run", body = shapes::OneRun)))]
pub(super) async fn create(State(shared): At, body::Json(new): body::Json<NewRun>) -> Answer {
    answer(shared, None, move |desk| {
        own_place(desk, new.cwd.as_deref())?;
        new.layout.as_ref().map_or(Ok(()), layout::check)?;
        let named = new.base.as_deref().unwrap_or("HEAD");
        let base = flow::base(desk.repo, named).map_err(|error| Failure::from(error).field("base"))?;
        flow::not_of_a_run(desk.repo, named)?;
        let order = Order {
            label: new.label.as_deref().filter(|label| !label.is_empty()),
            base,
            place: place(desk.shared.options.remote.as_ref()),
            mode: new.mode,
            global_mode: new.global_mode,
            done_when: new.done_when.as_deref(),
            limits: &[],
            reserve_role: false,
            file: None,
        };
        let made = make(&desk.engine(None)?, order)?.made;
        if let Some(layout) = new.layout {
            layout::keep(desk.repo, made.run, layout)?;
        }
        Ok(json!({ "run": state(desk, made.run)? }))
    })
    .await
}

/// Refuses a directory that is not the one of this repository.
fn own_place(desk: &Desk<'_>, cwd: Option<&str>) -> Result<(), Failure> {
    let Some(cwd) = cwd else { return Ok(()) };
    let is_own = |path: std::path::PathBuf| desk.repo.top().canonicalize().is_ok_and(|top| top == path);
    if std::path::Path::new(cwd).canonicalize().is_ok_and(is_own) {
        return Ok(());
    }
    Err(Failure::rule("cwd", "this server is for one repository, and that is another directory")
        .hint("leave cwd away; `aynig -C DIR serve` serves another repository"))
}

/// Show a run
#[utoipa::path(get, path = "/api/runs/{id}", params(("id" = String, Path, description = "an id, the beginning of one, or a slug")),
    responses((status = 200, description = "its whole state", body = shapes::ShownRun)))]
pub(super) async fn show(State(shared): At, Path(id): Path<String>) -> Answer {
    answer(shared, None, move |desk| {
        let run = desk.run(&id)?;
        let state = state(desk, run)?;
        Ok(json!({ "journal": state["journal"], "run": state }))
    })
    .await
}

/// Changes of a run.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Patch {
    /// running, paused, stopped or completed
    #[schema(value_type = Option<String>)]
    status: Option<RunStatus>,
    /// AUTO or INTERACTIVE
    #[schema(value_type = Option<String>)]
    mode: Option<Mode>,
    /// PLANNING or IMPLEMENTATION
    #[schema(value_type = Option<String>)]
    global_mode: Option<GlobalMode>,
    /// A text for people
    label: Option<String>,
    /// The end condition; an empty text means none
    done_when: Option<String>,
    /// The positions of its nodes on a page
    #[schema(value_type = Option<Value>)]
    layout: Option<Layout>,
}

/// A request that changes a run.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunChange {
    /// The fields that change
    patch: Patch,
}

/// Change a run
#[utoipa::path(patch, path = "/api/runs/{id}", request_body = RunChange, params(("id" = String, Path)),
    responses((status = 200, description = "its whole state", body = shapes::OneRun)))]
pub(super) async fn change(
    State(shared): At,
    Path(id): Path<String>,
    Key(key): Key,
    body::Json(RunChange { patch }): body::Json<RunChange>,
) -> Answer {
    answer(shared, key, move |desk| {
        let run = desk.run(&id)?;
        patch.layout.as_ref().map_or(Ok(()), layout::check)?;
        let settings = graph_runs::Settings {
            status: patch.status,
            label: patch.label.as_deref(),
            mode: patch.mode,
            global_mode: patch.global_mode,
            done_when: patch.done_when.as_deref(),
            limits: &[],
        };
        let of_status = graph_runs::Settings { status: patch.status, ..graph_runs::Settings::default() };
        match patch.status {
            Some(status) if settings == of_status => to_status(desk, run, status, None)?,
            _ if settings == of_status => {}
            // A flow has no such settings, and is refused.
            _ => drop(graph_runs::set(&desk.engine(Some(run))?, run, &settings)?),
        }
        if let Some(layout) = patch.layout {
            layout::keep(desk.repo, run, layout)?;
        }
        Ok(json!({ "run": state(desk, run)? }))
    })
    .await
}

/// Pauses, resumes, stops or completes a run, whatever its kind. A flow may be resumed `from` a step.
fn to_status(desk: &Desk<'_>, run: RunId, status: RunStatus, from: Option<String>) -> Result<(), Failure> {
    let engine = desk.engine(Some(run))?;
    let tip = all::show(desk.repo, run)?;
    if tip.state.run.kind == RunKind::Graph {
        if from.is_some() {
            return Err(Failure::rule("from", "a graph has no steps"));
        }
        graphs::set_status(&engine, run, status)?;
        return Ok(());
    }
    let wish = match status {
        RunStatus::Paused => Wish::Pause,
        RunStatus::Running => Wish::Resume(from),
        RunStatus::Stopped => Wish::Stop,
        RunStatus::Queued | RunStatus::Completed | RunStatus::Failed => {
            return Err(Failure::rule(
                "status",
                "a flow is paused, stopped or running; it completes by itself",
            ));
        }
    };
    crate::ops::inside::persons_only("changing a run")?;
    if engine.has_carried_out(run).map_err(crate::ops::error::Error::from)? {
        return Ok(());
    }
    engine.grant(run, &wish).map_err(crate::ops::error::Error::from)?;
    Ok(())
}

async fn act(
    shared: At,
    id: String,
    key: Option<Keyed>,
    (status, from): (RunStatus, Option<String>),
) -> Answer {
    answer(shared.0, key, move |desk| {
        let run = desk.run(&id)?;
        to_status(desk, run, status, from)?;
        Ok(json!({ "run": state(desk, run)? }))
    })
    .await
}

/// Pause a run: no turn or step begins, and live turns are interrupted
#[utoipa::path(post, path = "/api/runs/{id}/pause", params(("id" = String, Path)),
    responses((status = 200, description = "its whole state", body = shapes::OneRun)))]
pub(super) async fn pause(shared: At, Path(id): Path<String>, Key(key): Key) -> Answer {
    act(shared, id, key, (RunStatus::Paused, None)).await
}

/// The step at which a run continues.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Resume {
    /// The step of a flow to continue at; by default the one where it stopped
    from: Option<String>,
}

/// Resume a run; a flow also from an earlier step
#[utoipa::path(post, path = "/api/runs/{id}/resume", request_body = Resume, params(("id" = String, Path)),
    responses((status = 200, description = "its whole state", body = shapes::OneRun)))]
pub(super) async fn resume(
    shared: At,
    Path(id): Path<String>,
    Key(key): Key,
    body::Json(Resume { from }): body::Json<Resume>,
) -> Answer {
    act(shared, id, key, (RunStatus::Running, from)).await
}

/// Stop a run
#[utoipa::path(post, path = "/api/runs/{id}/stop", params(("id" = String, Path)),
    responses((status = 200, description = "its whole state", body = shapes::OneRun)))]
pub(super) async fn stop(shared: At, Path(id): Path<String>, Key(key): Key) -> Answer {
    act(shared, id, key, (RunStatus::Stopped, None)).await
}

/// Delete a graph; its ledger and its work are archived
#[utoipa::path(delete, path = "/api/runs/{id}", params(("id" = String, Path)),
    responses((status = 200, description = "the id of the run", body = shapes::DeletedRun)))]
pub(super) async fn delete(State(shared): At, Path(id): Path<String>) -> Answer {
    answer(shared, None, move |desk| {
        let run = desk.run(&id)?;
        let deleted = graph_runs::delete(&desk.engine(Some(run))?, run)?;
        Ok(json!({ "runId": deleted.run.id, "archive": deleted.archive }))
    })
    .await
}
