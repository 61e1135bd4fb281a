//! The hand of an agent for front ends: what it does in its turn, from the command line and by MCP (CONTRACT 22.6, 22.14
//! to 22.17).
//!
//! Invariant: everything is staged, and takes effect with the end of the turn. Nothing here changes a ledger.

use std::path::Path;

use serde_json::{Map, Value};

use crate::contract::ids::CommitId;
use crate::engine::Engine;
use crate::engine::graph::asks::Heard;
pub use crate::engine::graph::staged::{Act, NewEdge, NewNode, Staged};
use crate::ledger::{Ledger, Tip};
pub use crate::model::artifact::ArtifactKind;
use crate::model::decide::Finding;
use crate::model::ids::{ArtifactId, FileName, MessageId, NodeId, ProviderName, RunId, TurnId};
use crate::model::message::{ArtifactRef, Expectation, MAX_ATTACHED, Payload, PayloadStatus, ResponseSpec};
pub use crate::model::node::CliPermissions;
pub use crate::orch::hand::Verb;
use crate::orch::hand::verbs as verbs_of;
pub use crate::orch::roster::Roster;

use super::error::Error;
use super::graphs::{alias, role_text, typed};
use super::inside::{TURN, is_of_turn};
use super::nodes::can_ask;
use super::runs::live;

/// A hand-off, in the words of a command line.
#[derive(Debug, Clone, Copy, Default)]
pub struct Letter<'a> {
    /// The alias of the receiver.
    pub to: &'a str,
    /// The text.
    pub message: &'a str,
    /// Whether an answer is expected.
    pub expectation: Expectation,
    /// The hand-off that it answers.
    pub reply_to: Option<&'a str>,
    /// Data for the receiver: a JSON object.
    pub structured: Option<&'a str>,
    /// Artifacts and commits.
    pub artifacts: &'a [String],
    /// `ok`, or `failed:REASON`.
    pub status: Option<&'a str>,
}

/// A new node, in the words of a command line.
#[derive(Debug, Clone, Copy, Default)]
pub struct Child<'a> {
    /// Its alias.
    pub alias: &'a str,
    /// Its role.
    pub role: &'a str,
    /// Its provider.
    pub provider: &'a str,
    /// A text for people.
    pub label: Option<&'a str>,
    /// The model.
    pub model: Option<&'a str>,
    /// Whether its tools are asked for.
    pub permissions: Option<CliPermissions>,
    /// Its first work.
    pub message: Option<&'a str>,
}

/// What became of an act that people may have to approve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acted {
    /// It is staged.
    Staged(Staged),
    /// A person was asked, and has not answered. The turn ends now.
    Waits,
}

/// What an agent is told whose act waits for a person.
pub const WAITS: &str = "a person was asked, and has not answered yet; nothing was staged";

/// The next step then.
pub const END_NOW: &str =
    "end your turn now: the next one begins with the answer, which people give with `aynig orch approvals`";

/// The text of a message. `-` reads it from standard input.
pub fn text_of(message: &str) -> Result<String, Error> {
    match message {
        "-" => typed(),
        message => Ok(message.to_owned()),
    }
}

/// Stages a hand-off.
pub fn hand_off(engine: &Engine<'_>, letter: &Letter<'_>) -> Result<Staged, Error> {
    let own = own_turn("a person sends a message with `aynig orch chat RUN ALIAS TEXT`")?;
    let ledger = Ledger::open(engine.repo, own.0)?;
    let is_plain = letter.expectation == Expectation::None && letter.reply_to.is_none();
    if let Some(text) = letter.reply_to.filter(|text| MessageId::parse(text).is_none()) {
        let message = format!("--reply-to {text}: that is no id of a hand-off; nothing was staged");
        return Err(Error::usage(message).hint("the prompt names the id beside the message"));
    }
    let response =
        ResponseSpec { expectation: letter.expectation, reply_to: letter.reply_to.map(str::to_owned) };
    let payload = Payload {
        message: letter.message.to_owned(),
        structured: letter.structured.map(structured).transpose()?,
        artifacts: references(engine, &ledger, own, letter.artifacts)?,
        status: letter.status.map(status).transpose()?,
        response: (!is_plain).then_some(response),
    };
    Ok(engine.stage(&ledger, (own.1, own.2), Act::Handoff { to: alias(letter.to)?, payload })?)
}

/// Stages the end of the run. With it come words about the items that nobody will read then.
pub fn done(engine: &Engine<'_>, message: Option<&str>) -> Result<(Staged, Option<String>), Error> {
    let (run, node, turn) = own_turn("a person ends a run with `aynig orch run complete RUN`")?;
    let ledger = Ledger::open(engine.repo, run)?;
    let act = Act::Done { message: message.map(str::to_owned), finding: Finding::Accepted };
    let staged = engine.stage(&ledger, (node, turn), act)?;
    let (state, _) = engine.staged(&ledger, (node, turn))?;
    let others = state.nodes.values().filter(|other| other.id != node);
    let unread = others.filter(|other| !state.inbox(other.id).is_empty());
    let names: Vec<&str> = unread.map(|other| other.alias.as_str()).collect();
    let note = (!names.is_empty()).then(|| {
        let names = names.join(", ");
        format!("the run ends with unread items of {names}; they are read only if a person resumes it")
    });
    Ok((staged, note))
}

fn structured(text: &str) -> Result<Map<String, Value>, Error> {
    let wrong = |why: &str| {
        Error::usage(format!("--structured: {why}; nothing was staged"))
            .hint("write one JSON object: --structured '{\"tests\":12}'")
    };
    match serde_json::from_str(text) {
        Ok(Value::Object(data)) => Ok(data),
        Ok(_) => Err(wrong("no JSON object")),
        Err(error) => Err(wrong(&error.to_string())),
    }
}

fn status(text: &str) -> Result<PayloadStatus, Error> {
    match text.split_once(':') {
        None if text == "ok" => Ok(PayloadStatus { ok: true, reason: None }),
        Some(("failed", reason)) if !reason.trim().is_empty() => {
            Ok(PayloadStatus { ok: false, reason: Some(reason.trim().to_owned()) })
        }
        _ => Err(Error::usage(format!("--status {text}: write ok, or failed:REASON; nothing was staged"))),
    }
}

/// The artifacts and commits of a hand-off. An unknown one is refused, since nobody could read it.
fn references(
    engine: &Engine<'_>,
    ledger: &Ledger<'_>,
    (run, node, turn): (RunId, NodeId, TurnId),
    named: &[String],
) -> Result<Vec<ArtifactRef>, Error> {
    if named.is_empty() {
        return Ok(Vec::new());
    }
    if named.len() >= MAX_ATTACHED {
        return Err(Error::usage(format!(
            "--artifact is given {} times, and a hand-off has at most {}; nothing was staged",
            named.len(),
            MAX_ATTACHED - 1
        )));
    }
    let (_, mut known) = engine.staged(ledger, (node, turn))?;
    let whole = Tip::read_whole(engine.repo, run, ledger.tip().id)?.state;
    known.extend(whole.all_artifacts().map(|(id, artifact)| (*id, artifact.kind)));
    named.iter().map(|text| reference(engine, &known, text)).collect()
}

fn reference(
    engine: &Engine<'_>,
    known: &[(ArtifactId, ArtifactKind)],
    text: &str,
) -> Result<ArtifactRef, Error> {
    let unknown = |why: String| {
        Error::failed(format!("--artifact {text}: {why}; nothing was staged")).hint(
            "write an id that `artifact add` printed, artifact://ID, artifact://diff/ID, or git: with a whole commit id",
        )
    };
    if let Some(hash) = text.strip_prefix("git:") {
        let id = CommitId::parse_hex(hash.as_bytes()).filter(|id| engine.repo.commit(*id).is_ok());
        let id = id.ok_or_else(|| unknown("there is no such commit here".to_owned()))?;
        return Ok(ArtifactRef { kind: "commit".to_owned(), reference: format!("git:{id}") });
    }
    let plain = text.strip_prefix("artifact://").unwrap_or(text);
    let (diff, id) = plain.strip_prefix("diff/").map_or((false, plain), |id| (true, id));
    let id = ArtifactId::parse(id).ok_or_else(|| unknown("it is no id of an artifact".to_owned()))?;
    let found = known.iter().find(|(one, _)| *one == id).map(|(_, kind)| *kind);
    match found {
        None => Err(unknown("this run has no such artifact".to_owned())),
        Some(kind) if diff && kind != ArtifactKind::Diff => {
            Err(unknown(format!("it is of the kind {}", kind.word())))
        }
        Some(kind) => {
            let place = if diff { "diff/" } else { "" };
            Ok(ArtifactRef { kind: kind.word().to_owned(), reference: format!("artifact://{place}{id}") })
        }
    }
}

/// Stages a new node. A person is asked first, unless the node need not ask.
pub fn spawn(engine: &Engine<'_>, child: &Child<'_>) -> Result<Acted, Error> {
    let own =
        own_turn("a person makes a node with `aynig orch node add RUN ALIAS --role ROLE --provider NAME`")?;
    let provider = ProviderName::parse(child.provider).map_err(|error| {
        Error::usage(format!("--provider {}: {error}; nothing was staged", child.provider))
    })?;
    let node = NewNode {
        alias: alias(child.alias)?,
        role: child.role.to_owned(),
        provider,
        label: child.label.map(str::to_owned),
        model: child.model.filter(|model| !model.is_empty()).map(str::to_owned),
        permissions: child.permissions,
        message: child.message.map(str::to_owned),
    };
    act(engine, own, Act::Spawn { node, role_text: None })
}

/// Stages an edge. A person is asked first, unless the node need not ask.
pub fn add_edge(engine: &Engine<'_>, from: &str, to: &str) -> Result<Acted, Error> {
    let own = own_turn("a person makes an edge with `aynig orch edge add RUN FROM TO`")?;
    act(engine, own, Act::Edge { edge: NewEdge { from: alias(from)?, to: alias(to)? } })
}

/// Stages an act that manages the run, after the answer of a person if the node has to ask.
fn act(engine: &Engine<'_>, (run, node, turn): (RunId, NodeId, TurnId), act: Act) -> Result<Acted, Error> {
    let of = (node, turn);
    let ledger = Ledger::open(engine.repo, run)?;
    let act = complete(engine, &ledger, node, act)?;
    let after = engine.admits(&ledger, of, act.clone())?;
    let own = ledger.tip().state.nodes.get(&node);
    if !own.is_some_and(|own| own.permissions.agent_management_requires_approval) {
        return Ok(Acted::Staged(engine.stage(&ledger, of, act)?));
    }
    let name = act.managing().map(|(name, _)| name).unwrap_or_default();
    let act = match engine.ask_people(&ledger, of, &act, &after)? {
        Heard::Approved => act,
        Heard::Modified(args) => {
            let other = Act::of_tool(name, args).map_err(|why| {
                Error::failed(format!(
                    "a person changed {name} so that it cannot be done: {why}; nothing was staged"
                ))
            })?;
            complete(engine, &ledger, node, other)?
        }
        Heard::Denied(reason) => {
            let why = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
            return Err(Error::failed(format!("{name} was denied{why}; nothing was staged"))
                .hint("do the work without it, or say what is missing"));
        }
        Heard::Waits => return Ok(Acted::Waits),
    };
    let ledger = Ledger::open(engine.repo, run)?;
    Ok(Acted::Staged(engine.stage(&ledger, of, act)?))
}

/// The act with the text of its role. One that this host could not carry out is refused.
fn complete(engine: &Engine<'_>, ledger: &Ledger<'_>, own: NodeId, act: Act) -> Result<Act, Error> {
    let Act::Spawn { node, .. } = act else { return Ok(act) };
    let state = &ledger.tip().state;
    let mode = state.nodes.get(&own).map(|own| own.permissions.cli_permissions_mode);
    let mode = node.permissions.or(mode).unwrap_or(CliPermissions::Gated);
    can_ask(engine, mode, node.provider.as_str())?;
    let role_text = role_text(engine.repo, &state.run.base_sha, &node.role)?;
    Ok(Act::Spawn { node, role_text })
}

/// Stages a file of the node's worktree as an artifact. A relative path begins at the top of it. Its name is that of the file, unless `name`
/// gives another one.
pub fn add_artifact(
    engine: &Engine<'_>,
    file: &Path,
    (kind, name): (ArtifactKind, Option<&str>),
) -> Result<ArtifactId, Error> {
    let (run, node, turn) = own_turn("a person leaves files in the repository")?;
    let ledger = Ledger::open(engine.repo, run)?;
    let name = name.or_else(|| file.file_name()?.to_str()).unwrap_or_default();
    let name = FileName::parse(name).map_err(|error| {
        Error::usage(format!("{error}; nothing was staged")).hint("--name NAME gives it another name")
    })?;
    Ok(engine.stage_artifact(&ledger, (node, turn), file, (kind, name))?)
}

/// The roster of a run, or without one that of the node whose turn this process belongs to.
pub fn roster(engine: &Engine<'_>, run: Option<RunId>) -> Result<Roster, Error> {
    if let Some(run) = run {
        let mut state = engine.graph(run)?.tip().state.clone();
        live::overlay(engine.repo, &mut state);
        return Ok(Roster::of(&state, &state, None));
    }
    let (run, node, turn) = own_turn("a person names the run: `aynig orch roster RUN`")?;
    let ledger = Ledger::open(engine.repo, run)?;
    let (mut after, _) = engine.staged(&ledger, (node, turn))?;
    live::overlay(engine.repo, &mut after);
    Ok(Roster::of(&ledger.tip().state, &after, Some((node, turn))))
}

/// The commands that the node may use whose turn this process belongs to. None outside of a turn.
pub fn verbs(engine: &Engine<'_>) -> Vec<Verb> {
    let state = own_turn("").and_then(|(run, node, _)| Ok((Ledger::open(engine.repo, run)?, node)));
    let Ok((ledger, node)) = state else { return Vec::new() };
    let state = &ledger.tip().state;
    state.nodes.get(&node).map(|node| verbs_of(state, node)).unwrap_or_default()
}

/// The run, the node and the turn of this process. `instead` is what a person does.
pub(super) fn own_turn(instead: &str) -> Result<(RunId, NodeId, TurnId), Error> {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let run = RunId::parse(&variable("AYNIG_ORCH_RUN"));
    let node = NodeId::parse(&variable("AYNIG_ORCH_NODE"));
    let turn = TurnId::parse(&variable(TURN));
    match (run, node, turn) {
        (Some(run), Some(node), Some(turn)) if is_of_turn(&turn.to_string()) => Ok((run, node, turn)),
        (Some(_), Some(_), Some(turn)) => {
            let message = format!("this process does not belong to the turn {turn}; nothing was staged");
            Err(Error::usage(message).hint("leave AYNIG_ORCH_TURN as the turn has it"))
        }
        _ => Err(Error::usage(
            "this is called by an agent in its turn, and by nobody else; nothing was staged",
        )
        .hint(instead)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CONTRACT 22.14
    #[test]
    fn statuses_are_ok_or_failed_with_a_reason() {
        for (text, wanted) in [
            ("ok", Some((true, None))),
            ("failed:no tests", Some((false, Some("no tests")))),
            ("failed: a:b ", Some((false, Some("a:b")))),
            ("failed", None),
            ("failed: ", None),
            ("ok:x", None),
            ("", None),
        ] {
            let found = status(text).ok();
            let found = found.as_ref().map(|status| (status.ok, status.reason.as_deref()));
            assert_eq!(found, wanted, "{text:?}");
        }
    }

    /// CONTRACT 22.14
    #[test]
    fn data_is_one_object() {
        for (text, fits) in [("{}", true), ("{\"a\":[1]}", true), ("[]", false), ("1", false), ("{", false)] {
            assert_eq!(structured(text).is_ok(), fits, "{text}");
        }
    }
}
