//! Edges between nodes, and messages of people.

use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::{Answer, At, answer, shapes};
use crate::model::decide::Decided;
use crate::model::edge::EdgeType;
use crate::model::event::Body;
use crate::model::ids::EdgeId;
use crate::ops::graphs;
use crate::server::body::{self, Key, Path};
use crate::server::failure::Failure;

/// An edge. Omitted type, label and direction follow from the roles at its ends.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Spec {
    /// Its id; by default a new one
    #[schema(value_type = Option<String>)]
    id: Option<EdgeId>,
    /// The sender: an id or an alias
    from: String,
    /// The receiver
    to: String,
    /// Whether the receiver may send as well
    bidirectional: Option<bool>,
    /// handoff or report
    #[serde(rename = "type")]
    #[schema(value_type = Option<String>)]
    edge_type: Option<EdgeType>,
    /// A text for people
    label: Option<String>,
}

/// A new edge.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewEdge {
    edge: Spec,
}

/// Make an edge
#[utoipa::path(post, path = "/api/runs/{id}/edges", request_body = NewEdge, params(("id" = String, Path)),
    responses((status = 200, description = "the edge", body = shapes::OneEdge)))]
pub(super) async fn add(
    State(shared): At,
    Path(id): Path<String>,
    Key(key): Key,
    body::Json(NewEdge { edge }): body::Json<NewEdge>,
) -> Answer {
    answer(shared, key, move |desk| {
        let run = desk.run(&id)?;
        let wanted = graphs::Edge {
            id: edge.id,
            from: &edge.from,
            to: &edge.to,
            edge_type: edge.edge_type,
            label: edge.label.as_deref().filter(|label| !label.is_empty()),
            bidirectional: edge.bidirectional,
        };
        let decided = graphs::add_edge(&desk.engine(Some(run))?, run, &wanted)?;
        let made = made(&decided, &edge).ok_or_else(|| Failure::unknown("the edge was removed meanwhile"))?;
        Ok(json!({ "edge": made }))
    })
    .await
}

/// The edge that this request made, now or earlier.
fn made(decided: &Decided, wanted: &Spec) -> Option<Value> {
    let now = decided.events.iter().find_map(|event| match &event.body {
        Body::EdgeCreated(made) => Some(made.edge.id),
        _ => None,
    });
    let node = |named: &str| graphs::node(&decided.state, named).ok();
    let ends = (node(&wanted.from)?, node(&wanted.to)?);
    let before =
        || decided.state.edges.values().find(|edge| (edge.from, edge.to) == ends).map(|edge| edge.id);
    let edge = decided.state.edges.get(&now.or_else(before)?)?;
    serde_json::to_value(edge).ok()
}

/// Remove an edge
#[utoipa::path(delete, path = "/api/runs/{id}/edges/{edge}", params(("id" = String, Path), ("edge" = String, Path)),
    responses((status = 200, description = "the id of the edge", body = shapes::DeletedEdge)))]
pub(super) async fn remove(
    State(shared): At,
    Path((id, edge)): Path<(String, String)>,
    Key(key): Key,
) -> Answer {
    answer(shared, key, move |desk| {
        let run = desk.run(&id)?;
        graphs::remove_edge(&desk.engine(Some(run))?, run, &edge)?;
        Ok(json!({ "edgeId": edge }))
    })
    .await
}

/// A message to a node.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Message {
    /// The node: an id or an alias; by default the run's orchestrator
    node_id: Option<String>,
    /// The text
    content: String,
    /// Whether it ends a live turn of the node, and precedes the others in the inbox
    #[serde(default)]
    interrupt: bool,
}

/// Send a message to a node
#[utoipa::path(post, path = "/api/runs/{id}/chat", request_body = Message, params(("id" = String, Path)),
    responses((status = 200, description = "the id of the message; `null` if it began a new session", body = shapes::Sent)))]
pub(super) async fn chat(
    State(shared): At,
    Path(id): Path<String>,
    Key(key): Key,
    body::Json(message): body::Json<Message>,
) -> Answer {
    answer(shared, key, move |desk| {
        let run = desk.run(&id)?;
        let Message { node_id, content, interrupt } = &message;
        let decided = graphs::send(&desk.engine(Some(run))?, run, node_id.as_deref(), (content, *interrupt))?;
        let id = decided.events.iter().find_map(|event| match &event.body {
            Body::MessageUser(sent) => Some(sent.message.id),
            _ => None,
        });
        Ok(json!({ "messageId": id }))
    })
    .await
}
