//! The commits that hand-offs carry: the sender's work goes along, and the receiver's turn begins with it (CONTRACT 22.40).
//!
//! Invariant: only commits of a work branch of the run are merged. What a message names otherwise is a text.

use crate::contract::ids::CommitId;
use crate::engine::Engine;
use crate::ledger::Ledger;
use crate::ledger::bring;
use crate::model::decide::Command;
use crate::model::ids::{MessageId, NodeId};
use crate::model::message::{ArtifactRef, Item, Payload};
use crate::model::node::Node;
use crate::model::state::State;
use crate::words::{first_of, pluralize};
use crate::workspace::Joined;
use crate::workspace::context::Context;
use crate::workspace::refusal::Refusal;

/// The kind and the beginning of the reference of a carried commit.
const COMMIT: &str = "commit";
const GIT: &str = "git:";

/// How many paths a sentence names.
const NAMED: usize = 5;

/// A commit that a hand-off carries.
struct Carried {
    from: String,
    commit: CommitId,
}

impl Engine<'_> {
    /// Lets the hand-offs of a node carry the newest commit of its work, except to nodes that have it.
    pub(super) fn carry(&self, state: &State, commands: &mut [Command], context: &Context) {
        let head = context.head();
        if head == context.base() {
            return;
        }
        for command in commands {
            let Command::HandOff { to, payload, .. } = command else { continue };
            // A node that is made by the same operation has nothing.
            let receiver = state.nodes.get(to);
            if !receiver.is_some_and(|node| self.has(state, node, head)) {
                carry(payload, head);
            }
        }
    }

    /// Whether the work branch of a node has a commit, as far as the ledger and this host know it.
    fn has(&self, state: &State, node: &Node, commit: CommitId) -> bool {
        let known = state.workspaces.get(&node.alias);
        let head = known.and_then(|known| CommitId::parse_hex(known.head_sha.as_bytes()));
        head.is_some_and(|head| self.repo.descends(head, commit))
    }

    /// Brings the commits that these items carry into the workspace of a node. Returns sentences for its agent.
    pub(super) fn take_carried(
        &self,
        ledger: &Ledger<'_>,
        mut context: Context,
        (node, read): (NodeId, &[MessageId]),
    ) -> Result<(Context, Vec<String>), Refusal> {
        let mut notes = Vec::new();
        for Carried { from, commit } in carried_by(&ledger.tip().state, node, read) {
            let what = format!("the commits of {from} up to {}", commit.short());
            if let Err(why) = self.is_of_run(ledger, commit) {
                notes.push(format!("{what} are not in your worktree: {why}."));
                continue;
            }
            let subject = format!("merge: the work of {from} up to {}", commit.short());
            let (now, joined) = self.workspaces.join(&context, commit, &subject)?;
            context = now;
            notes.push(match not_joined(&joined) {
                None => format!("{what} are in your worktree."),
                Some(why) => format!(
                    "{what} are not in your worktree: {why}. If you need them, `git merge {commit}` merges them."
                ),
            });
        }
        Ok((context, notes))
    }

    /// Whether a commit belongs to a work branch of the run. The error says why it cannot be used.
    fn is_of_run(&self, ledger: &Ledger<'_>, commit: CommitId) -> Result<(), String> {
        let state = &ledger.tip().state;
        let heads = state.workspaces.values().map(|known| known.head_sha.as_bytes());
        let heads: Vec<CommitId> = heads.filter_map(CommitId::parse_hex).collect();
        bring(self.repo, ledger.place(), &state.run, &[commit]).map_err(|error| error.to_string())?;
        if self.repo.commit(commit).is_err() {
            return Err("this host does not have them".to_owned());
        }
        let is_part = heads.iter().any(|head| *head == commit || self.repo.descends(*head, commit));
        if is_part { Ok(()) } else { Err("they are on no work branch of this run".to_owned()) }
    }
}

fn carry(payload: &mut Payload, head: CommitId) {
    let reference = format!("{GIT}{head}");
    if !payload.artifacts.iter().any(|artifact| artifact.kind == COMMIT && artifact.reference == reference) {
        payload.artifacts.push(ArtifactRef { kind: COMMIT.to_owned(), reference });
    }
}

/// The commits that these items of a node's inbox carry, in reading order: of each sender the newest.
fn carried_by(state: &State, node: NodeId, read: &[MessageId]) -> Vec<Carried> {
    let mut all: Vec<Carried> = Vec::new();
    for item in state.inbox(node).into_iter().filter(|item| read.contains(&item.id())) {
        let Item::Handoff(envelope) = &item.item else { continue };
        let sender = state.nodes.get(&envelope.from_node_id);
        let from =
            sender.map_or_else(|| "an agent that was removed".to_owned(), |node| node.alias.to_string());
        let commits = envelope.payload.artifacts.iter().filter(|artifact| artifact.kind == COMMIT);
        let ids = commits.filter_map(|artifact| artifact.reference.strip_prefix(GIT));
        for commit in ids.filter_map(|id| CommitId::parse_hex(id.as_bytes())) {
            all.retain(|one| one.commit != commit);
            all.push(Carried { from: from.clone(), commit });
        }
    }
    all
}

/// Why commits were not brought in. `None`: they are there.
fn not_joined(joined: &Joined) -> Option<String> {
    Some(match joined {
        Joined::Known | Joined::Merged => return None,
        Joined::Conflicts(paths) => {
            let (count, named) = (pluralize(paths.len(), "file"), first_of(&paths[..], NAMED));
            format!("they conflict with yours in {count}: {named}")
        }
        Joined::Submodule(path) => format!("they change the submodule {path}"),
        Joined::Unrelated => "they have no commit in common with yours".to_owned(),
        Joined::GitTooOld => "the git of this host merges only in a checkout (git 2.38 can)".to_owned(),
    })
}
