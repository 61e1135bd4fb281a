//! Graphs for front ends: names of nodes, texts of roles, and the operations on them.

use std::io::Read;

use crate::contract::ids::CommitId;
use crate::engine::Engine;
pub use crate::engine::graph::staged::{Act, Staged};
pub use crate::engine::graph::start::Made;
use crate::engine::graph::start::NewGraph;
use crate::flow::base::MAX_FILE;
use crate::git::Repo;
use crate::git::objects::revspec::Content;
use crate::ledger::{Ledger, Place};
use crate::model::decide::{Command, Decided, EdgeSpec, NodeEdit, NodeSpec, RunEdit};
use crate::model::ids::{Alias, NodeId, ProviderName, RunId, TurnId};
use crate::model::message::{Expectation, MAX_MESSAGE, Payload, ResponseSpec};
use crate::model::node::{CliPermissions, NodeStatus, Permissions};
use crate::model::run::{GlobalMode, Limits, Mode, RunStatus};
use crate::model::state::State;

use super::error::Error;
use super::inside::persons_only;

/// The directory of role texts in the base commit.
const TEMPLATES: &str = ".aynig/templates/";

/// A new node, in the words of a command line.
#[derive(Debug, Clone)]
pub struct NewNode<'a> {
    /// Its short name.
    pub alias: &'a str,
    /// Its role.
    pub role: &'a str,
    /// Its provider.
    pub provider: &'a str,
    /// A text for people.
    pub label: Option<&'a str>,
    /// The model.
    pub model: Option<&'a str>,
    /// Whether all requests of its program are granted.
    pub skips: bool,
}

/// Makes a graph without nodes.
pub fn create(
    engine: &Engine<'_>,
    place: Place,
    label: &str,
    base: (String, CommitId),
) -> Result<Made, Error> {
    persons_only("making a run")?;
    let new = NewGraph {
        label: label.to_owned(),
        base,
        mode: Mode::Interactive,
        global_mode: GlobalMode::Implementation,
        done_when: None,
        limits: Limits::default(),
        place,
    };
    Ok(engine.make_graph(&new, &|_, _| Ok(Vec::new()))?)
}

/// Makes a node.
pub fn add_node(engine: &Engine<'_>, run: RunId, new: &NewNode<'_>) -> Result<Decided, Error> {
    persons_only("making a node")?;
    let mut ledger = engine.graph(run)?;
    let alias = alias(new.alias)?;
    let provider = ProviderName::parse(new.provider).map_err(|error| {
        Error::usage(format!("--provider {}: {error}; nothing was changed", new.provider))
    })?;
    let cli_permissions_mode = if new.skips { CliPermissions::Skip } else { CliPermissions::Gated };
    let spec = NodeSpec {
        label: new.label.unwrap_or(new.alias).to_owned(),
        alias: Some(alias),
        role_text: role_text(engine.repo, &ledger.tip().state.run.base_sha, new.role)?,
        role_template: new.role.to_owned(),
        provider,
        model: new.model.map(str::to_owned),
        capabilities: None,
        permissions: Some(Permissions { cli_permissions_mode, ..Permissions::default() }),
        limits: Limits::default(),
    };
    operate(engine, &mut ledger, Command::AddNode(Box::new(spec)))
}

/// The text of a role: `.aynig/templates/<role>.md` of the base commit, if it has one.
fn role_text(repo: &Repo, base: &str, role: &str) -> Result<Option<String>, Error> {
    let is_plain =
        !role.is_empty() && role.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if !is_plain {
        let message =
            format!("--role {role:?}: a role is written with letters, digits, - and _; nothing was changed");
        return Err(Error::usage(message));
    }
    let Some(base) = CommitId::parse_hex(base.as_bytes()) else { return Ok(None) };
    let path = format!("{TEMPLATES}{role}.md");
    match repo.content_at(base, &path, MAX_FILE) {
        Ok(Some(Content::File { bytes, .. })) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Ok(_) => Ok(None),
        Err(error) => Err(Error::because(&format!("read {path}"), &error)),
    }
}

/// Lets a node that has failed begin anew.
pub fn start_node(engine: &Engine<'_>, run: RunId, named: &str) -> Result<Decided, Error> {
    persons_only("starting a node")?;
    let mut ledger = engine.graph(run)?;
    let node = node(&ledger.tip().state, named)?;
    let edit = NodeEdit { status: Some(NodeStatus::Idle), ..NodeEdit::default() };
    operate(engine, &mut ledger, Command::SetNode(node, edit))
}

/// Makes an edge.
pub fn add_edge(engine: &Engine<'_>, run: RunId, from: &str, to: &str) -> Result<Decided, Error> {
    persons_only("making an edge")?;
    let mut ledger = engine.graph(run)?;
    let state = &ledger.tip().state;
    let (from, to) = (node(state, from)?, node(state, to)?);
    let spec = EdgeSpec { id: None, from, to, edge_type: None, label: None, bidirectional: None };
    operate(engine, &mut ledger, Command::AddEdge(spec))
}

/// Sends a message of a person. `-` reads the text from standard input.
pub fn chat(engine: &Engine<'_>, run: RunId, to: Option<&str>, text: &str) -> Result<Decided, Error> {
    persons_only("sending a message to an agent")?;
    let mut ledger = engine.graph(run)?;
    let node = to.map(|named| node(&ledger.tip().state, named)).transpose()?;
    let content = match text {
        "-" => typed()?,
        text => text.to_owned(),
    };
    operate(engine, &mut ledger, Command::Chat { node, content, interrupt: false })
}

fn typed() -> Result<String, Error> {
    let mut text = String::new();
    let most = u64::try_from(MAX_MESSAGE).unwrap_or(u64::MAX).saturating_add(1);
    let read = std::io::stdin().lock().take(most).read_to_string(&mut text);
    read.map_err(|error| Error::usage(format!("the text on standard input: {error}; nothing was changed")))?;
    Ok(text)
}

/// Gives a graph another status.
pub fn set_status(engine: &Engine<'_>, run: RunId, status: RunStatus) -> Result<Decided, Error> {
    persons_only("changing a run")?;
    let mut ledger = engine.graph(run)?;
    operate(engine, &mut ledger, Command::SetRun(RunEdit { status: Some(status), ..RunEdit::default() }))
}

fn operate(engine: &Engine<'_>, ledger: &mut Ledger<'_>, command: Command) -> Result<Decided, Error> {
    Ok(engine.operate(ledger, &[command], &engine.workspaces.options.by)?)
}

/// Stages a hand-off of the agent whose turn this process belongs to.
pub fn hand_off(
    engine: &Engine<'_>,
    to: &str,
    message: &str,
    (expectation, reply_to): (Expectation, Option<&str>),
) -> Result<Staged, Error> {
    let (run, node, turn) = own_turn()?;
    let ledger = Ledger::open(engine.repo, run)?;
    let is_plain = expectation == Expectation::None && reply_to.is_none();
    let response = ResponseSpec { expectation, reply_to: reply_to.map(str::to_owned) };
    let payload = Payload {
        message: message.to_owned(),
        response: (!is_plain).then_some(response),
        ..Payload::default()
    };
    Ok(engine.stage(&ledger, (node, turn), Act::Handoff { to: alias(to)?, payload })?)
}

/// The run, the node and the turn of this process.
fn own_turn() -> Result<(RunId, NodeId, TurnId), Error> {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let run = RunId::parse(&variable("AYNIG_ORCH_RUN"));
    let node = NodeId::parse(&variable("AYNIG_ORCH_NODE"));
    let turn = TurnId::parse(&variable("AYNIG_ORCH_TURN"));
    match (run, node, turn) {
        (Some(run), Some(node), Some(turn)) => Ok((run, node, turn)),
        _ => Err(Error::usage(
            "this is called by an agent in its turn, and by nobody else; nothing was staged",
        )
        .hint("a person sends a message with `aynig orch chat RUN ALIAS TEXT`")),
    }
}

fn alias(text: &str) -> Result<Alias, Error> {
    Alias::parse(text).map_err(|error| Error::usage(format!("{error}; nothing was changed")))
}

/// The node that is meant by an alias or an id.
fn node(state: &State, named: &str) -> Result<NodeId, Error> {
    let found =
        state.nodes.values().find(|node| node.alias.as_str() == named || node.id.to_string() == named);
    found.map(|node| node.id).ok_or_else(|| {
        let slug = &state.run.slug;
        let known: Vec<&str> = state.nodes.values().map(|node| node.alias.as_str()).collect();
        let hint = if known.is_empty() {
            format!("`aynig orch node add {slug} ALIAS --role ROLE --provider NAME` makes one")
        } else {
            format!("it has {}", known.join(", "))
        };
        Error::failed(format!("run {slug} has no node {named}; nothing was changed")).hint(hint)
    })
}
