//! The work of a run: its changes, putting it back, and publishing it.

use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::json;
use utoipa::{IntoParams, ToSchema};

use super::{Answer, At, answer, runs, shapes};
use crate::contract::ids::BranchName;
use crate::model::run::RunKind;
use crate::ops::changes::changes;
use crate::ops::engine::persons_only;
use crate::ops::error::Error;
use crate::ops::publish::{self, Asked};
use crate::ops::target::branch_name;
use crate::ops::view::published::PublishedView;
use crate::ops::{runs as all, workspace};
use crate::server::body::{Json, Path, Query};
use crate::server::desk::Desk;
use crate::server::failure::Failure;

/// The selected changes.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct Between {
    /// The alias of a node, or `flow`; by default the only workspace
    node: Option<String>,
    /// The old commit; by default the base of the workspace
    from: Option<String>,
    /// The new commit; by default the newest of the workspace
    to: Option<String>,
}

/// Show the changes of a workspace
#[utoipa::path(get, path = "/api/runs/{id}/diff", params(("id" = String, Path), Between),
    responses((status = 200, description = "the files that differ, with their hunks", body = shapes::Diff)))]
pub(super) async fn diff(State(shared): At, Path(id): Path<String>, Query(asked): Query<Between>) -> Answer {
    answer(shared, None, move |desk| {
        let Between { node, from, to } = asked;
        let found = changes(desk.repo, desk.run(&id)?, node.as_deref(), (from.as_deref(), to.as_deref()))?;
        Ok(json!(found))
    })
    .await
}

/// The work to roll back.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Back {
    /// The alias of a node; for a flow omitted or `flow`
    node: Option<String>,
}

/// Roll the work of a flow or a node back to its base; the former work is saved
#[utoipa::path(post, path = "/api/runs/{id}/rollback", request_body = Back, params(("id" = String, Path)),
    responses((status = 200, description = "its whole state, and the refs with the former work", body = shapes::PutBack)))]
pub(super) async fn rollback(State(shared): At, Path(id): Path<String>, Json(back): Json<Back>) -> Answer {
    answer(shared, None, move |desk| {
        persons_only("putting work back")?;
        let run = desk.run(&id)?;
        let state = all::show(desk.repo, run)?.state;
        let slug = &state.run.slug;
        let node = back.node.as_deref();
        let (remade, ended, undo) = match (state.run.kind, node) {
            (RunKind::Flow, None | Some("flow")) => {
                let done = desk.engine(Some(run))?.put_back_run(run, false).map_err(Error::from)?;
                (done.remade, done.ended, format!("aynig flow rollback --undo {slug}"))
            }
            (RunKind::Flow, Some(_)) => return Err(Failure::rule("node", "a flow has the workspace flow")),
            (RunKind::Graph, None) => {
                return Err(Failure::rule("node", "a graph has a workspace of each node: name one"));
            }
            (RunKind::Graph, Some(node)) => {
                let handle = format!("{slug}/{node}");
                let (workspaces, _) = opened(desk)?;
                let rolled = workspace::roll_back(&workspaces, handle.as_ref(), false, || Ok(()));
                let (_, remade) = rolled.map_err(|error| Failure::from(error).field("node"))?;
                (remade, None, format!("aynig workspace rollback --undo {handle}"))
            }
        };
        let kept = remade.as_ref().and_then(|remade| remade.kept.as_ref());
        Ok(json!({
            "run": runs::state(desk, run)?,
            "changed": remade.is_some(),
            "rescueRefs": remade.iter().filter_map(|remade| remade.rescue.as_ref()).chain(&ended).collect::<Vec<_>>(),
            "keptPath": kept.map(|(path, _)| path),
            "warnings": remade.as_ref().map(|remade| &remade.warnings[..]).unwrap_or_default(),
            "undo": remade.is_some().then_some(undo),
        }))
    })
    .await
}

fn opened<'a>(desk: &'a Desk<'_>) -> Result<(workspace::Workspaces<'a>, Vec<String>), Error> {
    let options = &desk.shared.options;
    workspace::open(desk.repo, &desk.shared.app.process, options.stop.clone(), true, options.tell)
}

/// The work to publish.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Publish {
    /// The alias of a node; for a flow omitted or `flow`
    node: Option<String>,
    /// The branch to merge into
    into: Option<String>,
    /// Whether all changes become one commit
    #[serde(default)]
    squash: bool,
    /// Whether a new proposal is a draft
    #[serde(default)]
    draft: bool,
}

/// Publish the work of a flow or a node as a branch of a remote, with a proposal
#[utoipa::path(post, path = "/api/runs/{id}/publish", request_body = Publish, params(("id" = String, Path)),
    responses((status = 200, description = "as `aynig publish --json`, with its notes", body = shapes::Published)))]
pub(super) async fn publish(State(shared): At, Path(id): Path<String>, Json(given): Json<Publish>) -> Answer {
    answer(shared, None, move |desk| {
        publish::check_caller()?;
        let run = desk.run(&id)?;
        if desk.repo.remote_names().is_empty() {
            let status = StatusCode::UNPROCESSABLE_ENTITY;
            let message = "this repository has no remote to publish on; nothing was changed";
            return Err(
                Failure::new(status, "no_remote", message).hint("`git remote add origin URL` adds one")
            );
        }
        let slug = all::show(desk.repo, run)?.state.run.slug;
        let into: Option<BranchName> = match &given.into {
            None => None,
            Some(name) => {
                Some(branch_name(name.as_ref()).map_err(|error| Failure::from(error).field("into"))?)
            }
        };
        let (workspaces, _) = opened(desk)?;
        let asked = Asked {
            run: slug.as_str().as_ref(),
            node: given.node.as_deref(),
            base: into,
            branch: None,
            squash: given.squash,
            draft: given.draft,
            unsuccessful: false,
            remote: None,
        };
        let fetch = || -> Result<(), Error> {
            let trouble = all::update(desk.repo, desk.authority()?.source());
            trouble.iter().for_each(|words| tracing::debug!("{words}"));
            Ok(())
        };
        let published = publish::publish(desk.repo, &workspaces, &asked, fetch)?;
        let mut answer = json!(PublishedView::of(&published));
        answer["notes"] = json!(published.notes);
        Ok(answer)
    })
    .await
}
