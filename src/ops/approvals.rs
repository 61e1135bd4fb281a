//! Requests of nodes for approval, for front ends: those that wait, the answers of people, and approvals for good
//! (CONTRACT 22.12, 22.35).

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::contract::ids::{BranchName, CommitId};
use crate::engine::Engine;
use crate::engine::graph::answers::signature;
use crate::git::Repo;
use crate::ledger::{Ledger, Tip, runs};
use crate::model::approval::{Always, Answer, Approval, Resolution, Tool};
use crate::model::by::Signature;
use crate::model::decide::{Command, Decided};
use crate::model::ids::{ApprovalId, NodeId, RunId, Slug};
use crate::model::run::RunKind;
use crate::model::state::State;

use super::error::{Error, Kind};
use super::inside::persons_only;
use super::runs::known::Known;

/// A request.
#[derive(Debug)]
pub struct Asked {
    /// The run.
    pub run: RunId,
    /// Its kind. The request of a flow is a gate.
    pub kind: RunKind,
    /// Its slug.
    pub slug: Slug,
    /// Its text for people.
    pub label: String,
    /// The alias of the node.
    pub alias: String,
    /// The branch that the node works on.
    pub branch: Option<String>,
    /// The request.
    pub approval: Approval,
    /// The signature of the answer, as this host finds it.
    pub signature: Option<Signature>,
}

/// Which requests are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Those that wait for an answer, of runs that have not ended.
    Open,
    /// Those with an answer that no turn that completed has read, too, and those of runs that have ended.
    All,
    /// Approvals for good.
    Grants,
}

/// The requests of all graphs, the oldest first. Runs that cannot be read are left out.
pub fn list(repo: &Repo, which: Which) -> Result<Vec<Asked>, Error> {
    collect(repo, &mut Known::default(), which, &[RunKind::Graph])
}

/// The open requests of graphs and the open gates of flows, the oldest first.
pub fn waiting(repo: &Repo, known: &mut Known) -> Result<Vec<Asked>, Error> {
    collect(repo, known, Which::Open, &[RunKind::Graph, RunKind::Flow])
}

/// Counts the open requests of the nodes that these branches drive.
pub fn asked_by(repo: &Repo, drivers: &[BranchName]) -> Result<usize, Error> {
    let names: Vec<String> = drivers.iter().map(ToString::to_string).collect();
    let mut aliases = HashMap::<&str, Vec<&str>>::new();
    for (run, alias) in names.iter().filter_map(|name| name.rsplit_once('/')) {
        aliases.entry(run.rsplit('/').next().unwrap_or(run)).or_default().push(alias);
    }
    let all = if aliases.is_empty() { Vec::new() } else { runs::all(repo)? };
    let asked = |(id, head): (RunId, CommitId)| {
        // The run alone is read first: it is small.
        let run = Tip::read_run(repo, id, head).ok()?.state.run;
        let aliases = aliases.get(run.slug.as_str()).filter(|_| run.kind == RunKind::Graph)?;
        let state = Tip::read(repo, id, head).ok()?.state;
        let is_driven =
            |node: &NodeId| state.nodes.get(node).is_some_and(|node| aliases.contains(&node.alias.as_str()));
        Some(state.approvals.values().filter(|one| one.is_open() && is_driven(&one.node_id)).count())
    };
    Ok(all.into_iter().filter_map(asked).sum())
}

fn collect(repo: &Repo, known: &mut Known, which: Which, kinds: &[RunKind]) -> Result<Vec<Asked>, Error> {
    let is_meant = |state: &State, one: &Approval| match which {
        Which::Open => one.is_open() && !state.run.status.is_ended(),
        Which::All => true,
        Which::Grants => one.always.is_some(),
    };
    let mut found = Vec::new();
    for Tip { state, .. } in known.ledgers(repo)?.filter(|tip| kinds.contains(&tip.state.run.kind)) {
        if !state.approvals.values().any(|one| is_meant(state, one)) {
            continue;
        }
        let (id, kind) = (state.run.id, state.run.kind);
        let ledger = Ledger::open(repo, id)?;
        let state = &ledger.tip().state;
        let is_meant = |one: &&Approval| is_meant(state, one);
        for approval in state.approvals.values().filter(is_meant) {
            let node = state.nodes.get(&approval.node_id);
            let workspace = match kind {
                RunKind::Graph => node.and_then(|node| state.workspaces.get(&node.alias)),
                RunKind::Flow => state.workspaces.values().next(),
            };
            found.push(Asked {
                run: id,
                kind,
                slug: state.run.slug.clone(),
                label: state.run.label.clone(),
                alias: node.map(|node| node.alias.to_string()).unwrap_or_default(),
                branch: workspace.map(|workspace| workspace.branch_name.clone()),
                signature: signature(repo, &ledger, approval).map(|(signature, _)| signature),
                approval: approval.clone(),
            });
        }
    }
    found.sort_by_key(|one| (one.approval.requested_at, one.approval.id));
    Ok(found)
}

/// Lets a tool run; with `args`, a JSON object, with these arguments instead of its own.
pub fn approve(engine: &Engine<'_>, named: &str, args: Option<&str>) -> Result<Decided, Error> {
    let modified_args = args.map(arguments).transpose()?;
    let status = if modified_args.is_some() { Answer::Modified } else { Answer::Approved };
    resolve(engine, named, Resolution { status, modified_args, reason: None })
}

/// Lets a tool run, now and for good: the calls that are like this one, or all calls of the tool.
pub fn grant(engine: &Engine<'_>, named: &str, always: Always) -> Result<Decided, Error> {
    operate(engine, named, &|approval| Command::Grant { approval, always })
}

/// Takes an approval for good back.
pub fn revoke(engine: &Engine<'_>, named: &str) -> Result<Decided, Error> {
    let listed = "`aynig orch approvals --grants` lists what is approved for good";
    operate(engine, named, &Command::Revoke).map_err(|error| match error.kind {
        Kind::NotFound => Error { hints: vec![listed.to_owned()], ..error },
        _ => error,
    })
}

/// Denies a tool. The agent reads the reason.
pub fn deny(engine: &Engine<'_>, named: &str, reason: &str) -> Result<Decided, Error> {
    let reason = Some(reason.to_owned());
    resolve(engine, named, Resolution { status: Answer::Denied, modified_args: None, reason })
}

/// Answers a request.
pub fn resolve(engine: &Engine<'_>, named: &str, resolution: Resolution) -> Result<Decided, Error> {
    operate(engine, named, &|approval| Command::Answer { approval, resolution: resolution.clone() })
}

fn operate(
    engine: &Engine<'_>,
    named: &str,
    command: &dyn Fn(ApprovalId) -> Command,
) -> Result<Decided, Error> {
    persons_only("answering a request")?;
    let asked = find(engine.repo, named)?;
    let mut ledger = engine.graph(asked.run)?;
    engine.answer_request(&mut ledger, command(asked.approval.id)).map_err(|refused| {
        let error = Error::from(refused);
        if error.rule.is_none_or(|(_, code)| code != "answered_otherwise") {
            return error;
        }
        let Asked { slug, alias, .. } = &asked;
        error.hint(format!(
            "`aynig orch approvals --all` lists the answers; `aynig orch chat {slug} {alias} TEXT` writes to the agent"
        ))
    })
}

/// The part of an id that people type.
#[must_use]
pub fn short(id: ApprovalId) -> String {
    id.to_string().chars().take(8).collect()
}

/// A call in a few words: the tool, and the first line of its first argument that is a text.
#[must_use]
pub fn asked(tool: &Tool) -> String {
    let text = tool.args.values().find_map(Value::as_str).and_then(|text| text.lines().next());
    text.map_or_else(|| tool.name.clone(), |text| format!("{}: {text}", tool.name))
}

/// The request that is meant by its id, or by the beginning of it.
pub fn find(repo: &Repo, named: &str) -> Result<Asked, Error> {
    meant(list(repo, Which::All)?, named)
}

/// Finds a request of a graph or a gate of a flow by its id, or by the beginning of it.
pub fn find_any(repo: &Repo, named: &str) -> Result<Asked, Error> {
    meant(collect(repo, &mut Known::default(), Which::All, &[RunKind::Graph, RunKind::Flow])?, named)
}

fn meant(all: Vec<Asked>, named: &str) -> Result<Asked, Error> {
    let named = named.to_ascii_lowercase();
    let mut meant: Vec<Asked> =
        all.into_iter().filter(|one| one.approval.id.to_string().starts_with(&named)).collect();
    let (Some(asked), false) = (meant.pop(), named.is_empty()) else {
        let message = format!("there is no request {named:?}; nothing was changed");
        return Err(Error::new(Kind::NotFound, message).hint(
            "`aynig orch approvals --all` lists the requests; `aynig flow list` shows the gates of flows",
        ));
    };
    if meant.is_empty() {
        return Ok(asked);
    }
    let message = format!("{} requests begin with {named}; nothing was changed", meant.len() + 1);
    Err(Error::failed(message)
        .hint("write more of the id: `aynig orch approvals --all --json` shows it whole"))
}

fn arguments(text: &str) -> Result<Map<String, Value>, Error> {
    let wrong = |why: &str| {
        let message = format!("--args: {why}; nothing was changed");
        Error::usage(message)
            .hint("write all arguments of the tool as one JSON object: --args '{\"command\":\"ls\"}'")
    };
    match serde_json::from_str(text) {
        Ok(Value::Object(args)) => Ok(args),
        Ok(_) => Err(wrong("no JSON object")),
        Err(error) => Err(wrong(&error.to_string())),
    }
}
