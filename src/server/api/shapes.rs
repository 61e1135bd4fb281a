//! The shapes of answers, for the document.
//!
//! Invariant: operations make the answers; what stands here describes them, and nothing is built of it. A field that
//! stands here is always there unless it is an `Option`; answers may have more. `serve::document` compares both.

#![expect(dead_code, reason = "they describe answers, and are not built")]

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use utoipa::ToSchema;

/// An object with fields that are described elsewhere.
type Object = Map<String, Value>;

/// The usage of agents.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(super) struct Usage {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    /// In US dollars, if the provider reports it
    cost_usd: Option<f64>,
}

/// A run.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(super) struct Run {
    id: String,
    /// A short name
    slug: String,
    /// graph or flow
    kind: String,
    contract_version: String,
    label: String,
    /// queued, running, paused, stopped, completed or failed
    status: String,
    /// AUTO or INTERACTIVE
    mode: String,
    /// PLANNING or IMPLEMENTATION
    global_mode: String,
    /// The directory of the repository on this host
    cwd: String,
    created_at: String,
    updated_at: String,
    usage: Usage,
    /// By id
    nodes: BTreeMap<String, Node>,
    /// By the id of the node
    node_configs: BTreeMap<String, Object>,
    /// By id
    edges: BTreeMap<String, Edge>,
    /// By id; those of all turns and steps
    artifacts: BTreeMap<String, Artifact>,
    /// By id
    approvals: BTreeMap<String, Object>,
    /// By the alias of the node
    workspaces: BTreeMap<String, Object>,
    /// Of a flow: its steps by number
    steps: Option<BTreeMap<String, Object>>,
    /// Why due nodes do not run, by id
    waits: BTreeMap<String, String>,
    /// The positions of its nodes on a page
    layout: Option<Object>,
    /// The number of the newest event
    last_seq: u64,
    /// The journal to which numbers belong
    journal: Option<String>,
}

/// A node.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(super) struct Node {
    id: String,
    run_id: String,
    alias: String,
    label: String,
    role_template: String,
    provider: String,
    /// idle, running, blocked or failed
    status: String,
    summary: String,
    last_activity_at: String,
    usage: Usage,
    capabilities: Capabilities,
    permissions: Permissions,
    session: Session,
    /// The unread items of its inbox
    inbox_count: u64,
}

/// The capabilities of a node.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase", as = NodeCapabilities)]
pub(super) struct Capabilities {
    edge_management: String,
    write_code: bool,
    write_docs: bool,
    run_commands: bool,
    delegate_only: bool,
}

/// The permissions of a node: which acts need a person's approval.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase", as = NodePermissions)]
pub(super) struct Permissions {
    cli_permissions_mode: String,
    agent_management_requires_approval: bool,
}

/// A session of the provider.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase", as = NodeSession)]
pub(super) struct Session {
    session_id: String,
    reset_commands: Vec<String>,
}

/// An edge.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(super) struct Edge {
    id: String,
    from: String,
    to: String,
    bidirectional: bool,
    /// handoff or report
    r#type: String,
    label: String,
}

/// An artifact.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(super) struct Artifact {
    id: String,
    run_id: Option<String>,
    node_id: Option<String>,
    kind: Option<String>,
    name: Option<String>,
    media_type: String,
    size: u64,
    sha256: Option<String>,
}

/// The place where a list continues.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(super) struct Page {
    next_cursor: Option<String>,
    has_more: bool,
}

/// Runs: whole states, or with `view=summary` a few fields of each.
#[derive(ToSchema)]
pub(super) struct Runs {
    runs: Vec<Object>,
    /// With `view=summary`: the number of runs of each status
    counts: Option<BTreeMap<String, u64>>,
    /// With `view=summary`
    page: Option<Page>,
}

/// A run that was made or changed.
#[derive(ToSchema)]
pub(super) struct OneRun {
    run: Run,
}

/// A run, and the journal to which its numbers belong.
#[derive(ToSchema)]
pub(super) struct ShownRun {
    run: Run,
    journal: Option<String>,
}

/// A run that was deleted.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(super) struct DeletedRun {
    run_id: String,
    /// The ref with its ledger
    archive: Option<String>,
}

/// Events, the oldest first.
#[derive(ToSchema)]
pub(super) struct Events {
    events: Vec<Event>,
    page: Page,
}

/// An event. Its other fields depend on its type.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(super) struct Event {
    id: String,
    run_id: String,
    ts: String,
    r#type: String,
    /// Its number in the journal
    seq: u64,
    /// The commit of the ledger, if it is of record
    commit: Option<String>,
}

/// A node that was made or changed.
#[derive(ToSchema)]
pub(super) struct OneNode {
    node: Node,
}

/// A node that was removed.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(super) struct DeletedNode {
    node_id: String,
}

/// A session has begun.
#[derive(ToSchema)]
pub(super) struct Begun {
    ok: bool,
    /// The second secret of the session, besides the cookie
    key: String,
}

/// The operation is done.
#[derive(ToSchema)]
pub(super) struct Done {
    ok: bool,
}

/// A one-time link of this server.
#[derive(ToSchema)]
pub(super) struct Link {
    url: String,
}

/// An edge that was made.
#[derive(ToSchema)]
pub(super) struct OneEdge {
    edge: Edge,
}

/// An edge that was removed.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(super) struct DeletedEdge {
    edge_id: String,
}

/// A message that was sent.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(super) struct Sent {
    /// `null` if it began a new session
    message_id: Option<String>,
}

/// The requests and gates that wait for a person.
#[derive(ToSchema)]
pub(super) struct Approvals {
    approvals: Vec<Waiting>,
}

/// A request of a node, or the gate of a flow.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(super) struct Waiting {
    run_id: String,
    /// The kind of the run: a `flow` asks by a gate, a node of a `graph` for a tool
    kind: String,
    slug: String,
    /// The label of the run
    label: String,
    /// The alias of the node; `flow` for a gate
    alias: String,
    /// The branch with the work
    branch: Option<String>,
    /// The worktree on this host
    cwd: Option<String>,
    approval: Request,
}

/// A request for an answer.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(super) struct Request {
    approval_id: String,
    node_id: String,
    tool: Tool,
    context: Option<String>,
    requested_at: String,
    expires_at: Option<String>,
    /// The people who have approved, if more than one must
    consents: Vec<Object>,
}

/// A tool with its arguments. The tool of a gate is `gate`.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(super) struct Tool {
    /// The id of the call in `tool.proposed`
    id: String,
    name: String,
    args: Object,
    /// The program's own id of the call
    provider_id: Option<String>,
}

/// The answer that counts.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(super) struct Answered {
    approval_id: String,
    /// Missing while further approvals are required
    resolution: Option<Object>,
    consents: Vec<Object>,
}

/// An artifact with its content as text.
#[derive(ToSchema)]
pub(super) struct Content {
    artifact: Artifact,
    content: String,
}

/// The texts of roles.
#[derive(ToSchema)]
pub(super) struct Templates {
    templates: Vec<Template>,
}

/// A role, without its text.
#[derive(ToSchema)]
pub(super) struct Template {
    name: String,
    /// repo or system
    source: String,
    path: Option<String>,
}

/// The text of a role.
#[derive(ToSchema)]
pub(super) struct TemplateText {
    name: String,
    content: String,
    found: bool,
}

/// A directory.
#[derive(ToSchema)]
pub(super) struct Directory {
    entries: Vec<Entry>,
    parent: Option<String>,
    current: String,
}

/// An entry of a directory.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(super) struct Entry {
    name: String,
    is_directory: bool,
    path: String,
}

/// Branches: the state of each, and its runner.
#[derive(ToSchema)]
pub(super) struct Status {
    branches: Vec<Object>,
    unmanaged: u64,
    workspaces: u64,
    runners: Vec<Runner>,
}

/// A runner that holds branches.
#[derive(ToSchema)]
pub(super) struct Runner {
    runner: String,
    branches: Vec<String>,
}

/// The history of a branch, the newest first.
#[derive(ToSchema)]
pub(super) struct Log {
    entries: Vec<Object>,
}

/// The answer to a branch.
#[derive(ToSchema)]
#[schema(as = GivenAnswer)]
pub(super) struct Given {
    answer: Written,
    /// Why no notification was sent
    warnings: Vec<String>,
}

/// A state that was set: the commit, and the state before.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(super) struct Written {
    branch: String,
    state: String,
    commit: String,
    previous_state: Option<String>,
    parent: Option<String>,
}

/// The agents that this host can run.
#[derive(ToSchema)]
pub(super) struct Providers {
    providers: Vec<Object>,
}

/// The flow files of a commit.
#[derive(ToSchema)]
pub(super) struct Flows {
    commit: String,
    flows: Vec<Flow>,
}

/// A flow file.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(super) struct Flow {
    path: String,
    workflow_id: Option<String>,
    version: Option<u64>,
    description: Option<String>,
    inputs: Vec<Object>,
    /// Why it cannot be run
    fault: Option<String>,
}

/// The flow of a run, and the run's current state.
#[derive(ToSchema)]
pub(super) struct Drawn {
    graph: Object,
    show: Object,
}

/// Changes between two commits.
#[derive(ToSchema)]
pub(super) struct Diff {
    from: String,
    to: String,
    files: Vec<FileChange>,
}

/// The change of a file.
#[derive(ToSchema)]
pub(super) struct FileChange {
    path: String,
    /// Its former path, if it was renamed
    old: Option<String>,
    /// added, modified, deleted or renamed
    status: String,
    binary: bool,
    /// Whether its hunks are omitted because there are too many lines
    cut: bool,
    hunks: Vec<Hunk>,
}

/// Lines of a hunk. Each begins with the mark of a patch.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(super) struct Hunk {
    header: String,
    old_start: u64,
    old_lines: u64,
    new_start: u64,
    new_lines: u64,
    lines: Vec<String>,
}

/// Work that was rolled back.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(super) struct PutBack {
    run: Run,
    /// Whether there was work to roll back
    changed: bool,
    /// The refs with the former work
    rescue_refs: Vec<String>,
    /// The old directory, if it stays beside the new one
    kept_path: Option<String>,
    warnings: Vec<String>,
    /// The command that undoes it
    undo: Option<String>,
}

/// Published work, as in `aynig publish --json`.
#[derive(ToSchema)]
pub(super) struct Published {
    remote: String,
    branch: String,
    base: String,
    /// `null` if the base has all of the work
    commit: Option<String>,
    pushed: bool,
    proposal: Option<Object>,
    notes: Vec<String>,
}
