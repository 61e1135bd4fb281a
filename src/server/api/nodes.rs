//! Nodes of a graph: makes, changes, steers and removes them.

use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::{Answer, At, answer, runs, shapes};
use crate::model::decide::Steer;
use crate::model::ids::RunId;
use crate::model::node::{CliPermissions, EdgeManagement};
use crate::ops::nodes::{self, Settings};
use crate::server::body::{self, Key, Keyed, Path};
use crate::server::desk::Desk;
use crate::server::failure::Failure;

/// The capabilities of a node. An omitted field does not change.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Capabilities {
    /// none, self or all
    #[schema(value_type = Option<String>)]
    edge_management: Option<EdgeManagement>,
    write_code: Option<bool>,
    write_docs: Option<bool>,
    run_commands: Option<bool>,
    delegate_only: Option<bool>,
}

impl Capabilities {
    /// As options of a command line.
    fn words(&self) -> Vec<String> {
        let all = [
            ("writeCode", self.write_code),
            ("writeDocs", self.write_docs),
            ("runCommands", self.run_commands),
            ("delegateOnly", self.delegate_only),
        ];
        all.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", value?))).collect()
    }
}

/// The permissions of a node: which acts need a person's approval.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Permissions {
    /// skip or gated
    #[schema(value_type = Option<String>)]
    cli_permissions_mode: Option<CliPermissions>,
    agent_management_requires_approval: Option<bool>,
}

/// A session, as clients of the shared contract send it. It is ignored: the provider makes sessions.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "clients of the contract send these fields")]
struct Session {
    session_id: Option<String>,
    resume: Option<bool>,
    reset_commands: Option<Vec<String>>,
}

/// The fields of a node that people choose.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Fields {
    /// A text for people
    label: Option<String>,
    /// Its name in the run; by default made from the label
    alias: Option<String>,
    /// Its role
    role_template: Option<String>,
    /// A provider of `aynig provider list`
    provider: Option<String>,
    /// The text of its role, in place of the file's
    custom_system_prompt: Option<String>,
    /// The provider's name of the model; an empty text is the provider's default
    model: Option<String>,
    capabilities: Option<Capabilities>,
    permissions: Option<Permissions>,
    session: Option<Session>,
}

impl Fields {
    /// These fields, replaced by those that `other` has.
    fn with(self, other: Self) -> Self {
        Self {
            label: other.label.or(self.label),
            alias: other.alias.or(self.alias),
            role_template: other.role_template.or(self.role_template),
            provider: other.provider.or(self.provider),
            custom_system_prompt: other.custom_system_prompt.or(self.custom_system_prompt),
            model: other.model.or(self.model),
            capabilities: other.capabilities.or(self.capabilities),
            permissions: other.permissions.or(self.permissions),
            session: other.session.or(self.session),
        }
    }

    fn settings<'a>(&'a self, capabilities: &'a [String]) -> Settings<'a> {
        let text = |text: &'a Option<String>| text.as_deref().filter(|text| !text.is_empty());
        let may = self.capabilities.as_ref();
        let asks = self.permissions.as_ref();
        Settings {
            role: text(&self.role_template),
            provider: text(&self.provider),
            label: text(&self.label),
            model: self.model.as_deref(),
            prompt: text(&self.custom_system_prompt),
            permissions: asks.and_then(|asks| asks.cli_permissions_mode),
            management_approval: asks.and_then(|asks| asks.agent_management_requires_approval),
            edge_management: may.and_then(|may| may.edge_management),
            capabilities,
            limits: &[],
            reserve_role: false,
        }
    }

    fn capabilities(&self) -> Vec<String> {
        self.capabilities.as_ref().map(Capabilities::words).unwrap_or_default()
    }
}

/// A new node.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewNode {
    node: Fields,
}

/// Make a node
#[utoipa::path(post, path = "/api/runs/{id}/nodes", request_body = NewNode, params(("id" = String, Path)),
    responses((status = 200, description = "the node", body = shapes::OneNode)))]
pub(super) async fn add(
    State(shared): At,
    Path(id): Path<String>,
    Key(key): Key,
    body::Json(NewNode { node }): body::Json<NewNode>,
) -> Answer {
    answer(shared, key, move |desk| {
        let run = desk.run(&id)?;
        for (field, value) in [("roleTemplate", &node.role_template), ("provider", &node.provider)] {
            if value.as_deref().is_none_or(str::is_empty) {
                return Err(Failure::rule(field, format!("a node has a {field}; nothing was changed")));
            }
        }
        let capabilities = node.capabilities();
        let named = node.alias.as_deref().filter(|alias| !alias.is_empty());
        let added = nodes::add(&desk.engine(Some(run))?, run, named, &node.settings(&capabilities))?;
        one(desk, run, added.alias.as_str())
    })
    .await
}

/// The current state of a node.
fn one(desk: &Desk<'_>, run: RunId, alias: &str) -> Result<Value, Failure> {
    let mut state = runs::state(desk, run)?;
    let nodes = state["nodes"].as_object_mut();
    let found = nodes.and_then(|nodes| nodes.values_mut().find(|node| node["alias"] == alias));
    found
        .map(|node| json!({ "node": node.take() }))
        .ok_or_else(|| Failure::unknown(format!("the node {alias} was removed meanwhile")))
}

/// Changes of a node. If both have a field, that of `config` counts.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NodeChange {
    #[serde(default)]
    patch: Fields,
    #[serde(default)]
    config: Fields,
}

/// Change a node
#[utoipa::path(patch, path = "/api/runs/{id}/nodes/{node}", request_body = NodeChange,
    params(("id" = String, Path), ("node" = String, Path)),
    responses((status = 200, description = "the node", body = shapes::OneNode)))]
pub(super) async fn change(
    State(shared): At,
    Path((id, named)): Path<(String, String)>,
    Key(key): Key,
    body::Json(NodeChange { patch, config }): body::Json<NodeChange>,
) -> Answer {
    answer(shared, key, move |desk| {
        let run = desk.run(&id)?;
        let alias = alias_of(desk, run, &named)?;
        let fields = patch.with(config);
        if fields.alias.as_ref().is_some_and(|wanted| !wanted.is_empty() && *wanted != alias) {
            return Err(Failure::rule("alias", format!("{alias} keeps its alias; nothing was changed"))
                .hint("its label is what people see"));
        }
        let capabilities = fields.capabilities();
        nodes::set(&desk.engine(Some(run))?, run, &alias, &fields.settings(&capabilities))?;
        one(desk, run, &alias)
    })
    .await
}

fn alias_of(desk: &Desk<'_>, run: RunId, named: &str) -> Result<String, Failure> {
    let shown = crate::ops::runs::show(desk.repo, run)?;
    let id = crate::ops::graphs::node(&shown.state, named)?;
    Ok(shown.state.nodes[&id].alias.to_string())
}

/// Remove a node; its work is archived
#[utoipa::path(delete, path = "/api/runs/{id}/nodes/{node}", params(("id" = String, Path), ("node" = String, Path)),
    responses((status = 200, description = "the id of the node", body = shapes::DeletedNode)))]
pub(super) async fn remove(
    State(shared): At,
    Path((id, named)): Path<(String, String)>,
    Key(key): Key,
) -> Answer {
    answer(shared, key, move |desk| {
        let run = desk.run(&id)?;
        let shown = crate::ops::runs::show(desk.repo, run)?;
        let node = crate::ops::graphs::node(&shown.state, &named)?;
        let removed = nodes::remove(&desk.engine(Some(run))?, run, &node.to_string())?;
        Ok(json!({ "nodeId": node, "archive": removed.archive }))
    })
    .await
}

async fn steer(shared: At, (id, named): (String, String), key: Option<Keyed>, steer: Steer) -> Answer {
    answer(shared.0, key, move |desk| {
        let run = desk.run(&id)?;
        nodes::steer(&desk.engine(Some(run))?, run, &named, steer)?;
        Ok(json!({ "ok": true }))
    })
    .await
}

/// Start a node: it takes turns again
#[utoipa::path(post, path = "/api/runs/{id}/nodes/{node}/start", params(("id" = String, Path), ("node" = String, Path)),
    responses((status = 200, description = "done", body = shapes::Done)))]
pub(super) async fn start(shared: At, Path(path): Path<(String, String)>, Key(key): Key) -> Answer {
    steer(shared, path, key, Steer::Start).await
}

/// Stop a node: a live turn is interrupted, and no turn begins
#[utoipa::path(post, path = "/api/runs/{id}/nodes/{node}/stop", params(("id" = String, Path), ("node" = String, Path)),
    responses((status = 200, description = "done", body = shapes::Done)))]
pub(super) async fn stop(shared: At, Path(path): Path<(String, String)>, Key(key): Key) -> Answer {
    steer(shared, path, key, Steer::Stop).await
}

/// Interrupt the live turn of a node
#[utoipa::path(post, path = "/api/runs/{id}/nodes/{node}/interrupt", params(("id" = String, Path), ("node" = String, Path)),
    responses((status = 200, description = "done", body = shapes::Done)))]
pub(super) async fn interrupt(shared: At, Path(path): Path<(String, String)>, Key(key): Key) -> Answer {
    steer(shared, path, key, Steer::Interrupt).await
}

/// Reset a node: its next turn begins a new session
#[utoipa::path(post, path = "/api/runs/{id}/nodes/{node}/reset", params(("id" = String, Path), ("node" = String, Path)),
    responses((status = 200, description = "done", body = shapes::Done)))]
pub(super) async fn reset(shared: At, Path(path): Path<(String, String)>, Key(key): Key) -> Answer {
    steer(shared, path, key, Steer::Reset).await
}
