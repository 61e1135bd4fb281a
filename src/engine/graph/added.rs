//! Files that an agent keeps in its turn: artifacts of the turn, if that completes (CONTRACT 22.16).
//!
//! Invariant: a file is taken when it is staged, so that what the agent does to it later counts no more. It is a plain file
//! of the node's own worktree, without a link on the way to it.

use std::io::Read;
use std::path::Path;

use crate::engine::Engine;
use crate::engine::attempt::unrecorded;
use crate::engine::record::file::{is_below, open};
use crate::engine::record::role::MAX_FILE;
use crate::engine::record::{self, Filed, Recorder, Role};
use crate::fsutil;
use crate::ledger::Ledger;
use crate::model::artifact::ArtifactKind;
use crate::model::decide::NewArtifact;
use crate::model::ids::{ArtifactId, FileName, NodeId, TurnId};
use crate::model::step::{Outcome, TurnStatus};
use crate::workspace::refusal::{Refusal, Why};

use super::hand::Hand;
use super::settle::of_turn;
use super::staged::{Act, artifact_id};

/// The directory of these files in the record of a turn.
const ADDED: &str = "added";

impl Engine<'_> {
    /// Stages a file of the node's worktree as an artifact of its live turn. A relative `path` begins at the top of it. The id can be named in
    /// hand-offs of this turn.
    pub fn stage_artifact(
        &self,
        ledger: &Ledger<'_>,
        of: (NodeId, TurnId),
        path: &Path,
        (kind, name): (ArtifactKind, FileName),
    ) -> Result<ArtifactId, Refusal> {
        let content = self.own_file(ledger, of.0, path).map_err(|why| {
            let message = format!("{}: {why}; nothing was staged", path.display());
            Refusal::new(Why::Failed, message).hint("name a file in your working directory, or below it")
        })?;
        let staged = self.stage_with(ledger, of, Act::Artifact { kind, name }, Some(&content))?;
        Ok(artifact_id(of.1, staged.number))
    }

    /// The content of a file of the node's worktree.
    fn own_file(&self, ledger: &Ledger<'_>, node: NodeId, path: &Path) -> Result<Vec<u8>, String> {
        let state = &ledger.tip().state;
        let alias = state.nodes.get(&node).map(|node| node.alias.as_str()).unwrap_or_default();
        let handle = format!("{}/{alias}", state.run.slug);
        let context = self.workspaces.find(handle.as_ref()).map_err(|refusal| refusal.message)?;
        let root = context.worktree_path.canonicalize().map_err(|error| error.to_string())?;
        let path = root.join(path);
        let relative = path.strip_prefix(&root).ok().filter(|relative| is_below(&root, relative));
        let relative = relative.ok_or("it is no plain file of the worktree of this node")?;
        let mut content = Vec::new();
        let opened = open(&root.join(relative)).map_err(|error| error.to_string())?;
        let read = opened.take(MAX_FILE + 1).read_to_end(&mut content);
        read.map_err(|error| error.to_string())?;
        match u64::try_from(content.len()) {
            Ok(0) => Err("it is empty".to_owned()),
            Ok(size) if size <= MAX_FILE => Ok(content),
            Ok(_) | Err(_) => Err(format!("it is longer than {MAX_FILE} bytes")),
        }
    }
}

/// Writes what an agent staged into the record of its turn: the files that it keeps, and its acts if they take no effect.
pub(super) fn record_staged(recorder: &mut Recorder, hand: &Hand, status: TurnStatus) -> Result<(), Refusal> {
    let acts = hand.read().unwrap_or_default();
    record_added(recorder, hand, &acts)?;
    if status != TurnStatus::Completed && !acts.is_empty() {
        let text = serde_json::to_vec_pretty(&acts).unwrap_or_default();
        let written = recorder.write(Role::Staged, "staged.json", "application/json", false, &text);
        written.map_err(|error| unrecorded(&error))?;
    }
    Ok(())
}

/// Writes the files that the acts keep into the record of their turn.
fn record_added(recorder: &mut Recorder, hand: &Hand, acts: &[Act]) -> Result<(), Refusal> {
    for (number, name) in acts.iter().enumerate().filter_map(|(at, act)| match act {
        Act::Artifact { name, .. } => Some((at + 1, name)),
        Act::Handoff { .. } | Act::Spawn { .. } | Act::Edge { .. } | Act::Done { .. } => None,
    }) {
        let trouble = |error: &std::io::Error| Refusal::because("keep a file of the agent", error);
        let content = match hand.content(number) {
            Ok(content) => content,
            Err(error) => {
                tracing::warn!(number, %error, "a file that an agent kept is gone");
                continue;
            }
        };
        let place = format!("{ADDED}/{number}");
        let made = fsutil::create_private_dir_all(&recorder.path().join(&place));
        made.map_err(|error| trouble(&error))?;
        let file = format!("{place}/{name}");
        let written = recorder.write(Role::Report, &file, media_type(name, &content), true, &content);
        written.map_err(|error| unrecorded(&error))?;
    }
    Ok(())
}

/// Makes artifacts of the files that the acts keep, with the ids that the agent knows, and takes these files out.
pub(super) fn added(
    ledger: &mut Ledger<'_>,
    (node, turn): (NodeId, TurnId),
    outcome: Outcome,
    acts: &[Act],
    files: &mut Vec<Filed>,
) -> Vec<NewArtifact> {
    let (own, others) = std::mem::take(files).into_iter().partition(|filed| filed.role == Role::Report);
    *files = others;
    let mut made = Vec::new();
    for mut filed in own {
        let place = filed.path.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        let Some(number) = place.and_then(|name| name.parse::<usize>().ok()) else { continue };
        let Some(Act::Artifact { kind, .. }) = number.checked_sub(1).and_then(|at| acts.get(at)) else {
            continue;
        };
        filed.kind = *kind;
        let artifacts = record::for_ledger(ledger, Some(node), outcome, &[filed]);
        made.extend(artifacts.into_iter().map(|(_, artifact)| NewArtifact {
            id: Some(artifact_id(turn, number)),
            ..of_turn(artifact, turn)
        }));
    }
    made
}

/// The media type of a file, by its name.
fn media_type(name: &FileName, content: &[u8]) -> &'static str {
    let end = Path::new(name.as_str()).extension().and_then(|end| end.to_str()).unwrap_or_default();
    match end.to_ascii_lowercase().as_str() {
        "md" => "text/markdown",
        "json" => "application/json",
        "diff" | "patch" => "text/x-diff",
        "html" => "text/html",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        _ if std::str::from_utf8(content).is_ok() => "text/plain",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types_follow_from_names() {
        for (name, content, wanted) in [
            ("a.md", &b"x"[..], "text/markdown"),
            ("a.JSON", b"x", "application/json"),
            ("a.patch", b"x", "text/x-diff"),
            ("a", b"x", "text/plain"),
            ("a.bin", b"\xff", "application/octet-stream"),
        ] {
            assert_eq!(media_type(&FileName::parse(name).expect("a name"), content), wanted, "{name}");
        }
    }
}
