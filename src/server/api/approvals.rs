//! Requests of nodes for approval, and the answers of people.

use axum::extract::State;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::{Answer, At, answer, shapes};
use crate::model::approval::{Always, Answer as Word, Resolution};
use crate::model::run::RunKind;
use crate::ops::engine::Reply;
use crate::ops::{approvals, flows, workspace};
use crate::server::body::{self, Key, Path};
use crate::server::failure::Failure;

/// List the open requests of nodes and the open gates of flows
#[utoipa::path(get, path = "/api/approvals",
    responses((status = 200, description = "the open requests and gates of all runs, the oldest first", body = shapes::Approvals)))]
pub(super) async fn list(State(shared): At) -> Answer {
    answer(shared, None, |desk| {
        let asked = approvals::waiting(desk.repo, &mut desk.shared.known())?;
        let workspaces =
            workspace::at(desk.repo, &desk.shared.app.process, desk.shared.options.stop.clone())?;
        let rows = asked.iter().map(|asked| {
            let one = &asked.approval;
            let named = format!("{}/{}", asked.slug, asked.alias);
            let here = workspaces.find(named.as_ref()).ok().filter(|_| asked.branch.is_some());
            json!({
                "runId": asked.run,
                "kind": asked.kind,
                "slug": asked.slug,
                "label": asked.label,
                "alias": asked.alias,
                "branch": asked.branch,
                "cwd": here.map(|context| context.worktree_path).filter(|path| path.is_dir()),
                "approval": {
                    "approvalId": one.id,
                    "nodeId": one.node_id,
                    "tool": one.tool,
                    "context": one.context,
                    "requestedAt": one.requested_at,
                    "expiresAt": one.expires_at,
                    "consents": one.consents,
                },
            })
        });
        Ok(json!({ "approvals": rows.collect::<Vec<_>>() }))
    })
    .await
}

/// What an answer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Approved,
    Denied,
    Modified,
}

/// An answer.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Resolved {
    status: Verdict,
    /// All arguments of the tool, with `modified`
    modified_args: Option<Map<String, Value>>,
    /// The reason, for the agent
    reason: Option<String>,
}

/// The calls that are granted from now on as well.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Good {
    Call,
    Tool,
}

/// An answer to a request.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Resolve {
    resolution: Resolved,
    /// The run; optional
    run_id: Option<String>,
    /// Also grants equal calls, or all calls of the tool, from now on; only with `approved`
    always: Option<Good>,
}

/// Answer a request
#[utoipa::path(post, path = "/api/approvals/{id}/resolve", request_body = Resolve, params(("id" = String, Path)),
    responses((status = 200, description = "the answer that counts", body = shapes::Answered)))]
pub(super) async fn resolve(
    State(shared): At,
    Path(id): Path<String>,
    Key(key): Key,
    body::Json(given): body::Json<Resolve>,
) -> Answer {
    answer(shared, key, move |desk| {
        let asked = approvals::find_any(desk.repo, &id)?;
        if let Some(run) = &given.run_id
            && desk.run(run)? != asked.run
        {
            return Err(Failure::unknown(format!("run {run} has no request {id}")).field("runId"));
        }
        let engine = desk.engine(Some(asked.run))?;
        let Resolved { status, modified_args, reason } = given.resolution;
        if (status == Verdict::Modified) != modified_args.is_some() {
            return Err(Failure::rule(
                "modifiedArgs",
                "modifiedArgs belongs to the status modified, and the status to it",
            ));
        }
        let reason = reason.filter(|reason| !reason.is_empty());
        let id = asked.approval.id;
        match (asked.kind, status, given.always) {
            (_, Verdict::Denied | Verdict::Modified, Some(_)) => {
                return Err(Failure::rule("always", "always belongs to the status approved"));
            }
            (RunKind::Flow, Verdict::Modified, _) => {
                return Err(Failure::rule("status", "a gate is approved or denied"));
            }
            (RunKind::Flow, _, Some(_)) => {
                return Err(Failure::rule("always", "a gate is answered each time"));
            }
            (RunKind::Flow, status, None) => {
                let reply = Reply {
                    approves: status == Verdict::Approved,
                    comment: reason.as_deref(),
                    about: None,
                    asked: Some(id),
                };
                if !engine.has_carried_out(asked.run).map_err(crate::ops::error::Error::from)? {
                    flows::answer_gate(&engine, &desk.authority()?, asked.run, reply)?;
                }
            }
            (RunKind::Graph, Verdict::Approved, Some(always)) => {
                let always = match always {
                    Good::Call => Always::Call,
                    Good::Tool => Always::Tool,
                };
                approvals::grant(&engine, &id.to_string(), always)?;
            }
            (RunKind::Graph, status, None) => {
                let status = match status {
                    Verdict::Approved => Word::Approved,
                    Verdict::Denied => Word::Denied,
                    Verdict::Modified => Word::Modified,
                };
                let resolution = Resolution { status, modified_args, reason };
                approvals::resolve(&engine, &id.to_string(), resolution)?;
            }
        }
        let now = approvals::find_any(desk.repo, &id.to_string())?.approval;
        Ok(json!({ "approvalId": now.id, "resolution": now.resolution, "consents": now.consents }))
    })
    .await
}
