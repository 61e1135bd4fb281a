//! The driver of a run: an orphan branch that the runner steps like any other (CONTRACT 20.2).
//!
//! A flow has one driver, a graph one for each node (CONTRACT 22.1).
//!
//! Invariant: its tree has two commands and nothing else, and its commits name the run. What they mean is in the ledger.

use bstr::ByteSlice;

use crate::contract::head::Head;
use crate::contract::ids::{AttemptId, BranchName, CommitId, RemoteName, RoleName, StateName};
use crate::contract::manual::{ManualState, set_state_draft};
use crate::contract::message::Message;
use crate::contract::parking::not_before;
use crate::contract::preference::{PREFER_RUNNER_KEY, PREFER_SECONDS_KEY};
use crate::contract::trailers::Trailer;
use crate::contract::waits_for::WAITS_FOR_KEY;
use crate::git::objects::commits::NewCommit;
use crate::git::remote::PATIENCE;
use crate::git::{CommitError, Repo};
use crate::ledger::Place;
use crate::model::ids::{RunId, Slug};
use crate::model::run::RunKind;
use crate::workspace::refusal::{Refusal, Why};

use super::remote_of;

/// A step is due; with `dwp-not-before`, at that time.
pub const STEP: &str = "flow-step";
/// A person is asked. No command runs it.
pub const GATE: &str = "flow-gate";
/// The run has ended. No command runs it.
pub const DONE: &str = "flow-done";

/// A turn of a node is due; with `dwp-not-before`, at that time.
pub const TURN: &str = "orch-turn";
/// A node has nothing to do. No command runs it.
pub const IDLE: &str = "orch-idle";

/// The trailer that names the run.
pub use crate::contract::commits::OF_RUN_KEY as RUN_KEY;

/// The trailer of a state at which a gate is open: the place of that step in the run.
pub(super) const OPEN_KEY: &str = "aynig-gate-step";

/// The commands of the driver of a flow: their states, and what they call.
const FLOW_COMMANDS: [(&str, &str); 2] = [(STEP, "flow step"), ("stalled", "flow recover")];

/// The commands of the driver of a node.
const NODE_COMMANDS: [(&str, &str); 2] = [(TURN, "orch turn"), ("stalled", "orch recover")];

/// How long other hosts leave a turn to the one that has the node's session, in seconds.
const PREFER_SECONDS: u64 = 10;

/// How many commits are read for the run's id.
pub(super) const MOST_READ: usize = 1_000;

/// The next state of a driver.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Next {
    /// The state.
    pub state: &'static str,
    /// The subject of the commit.
    pub subject: String,
    /// When it is due, in seconds since 1970. `None`: at once.
    pub not_before: Option<i64>,
    /// Whom it waits for, for people.
    pub waits_for: Option<String>,
    /// The place in the run of the gate that is open.
    pub gate: Option<u64>,
    /// The host that is to take it first, by its runner id.
    pub prefer: Option<String>,
}

/// A driver, at the place that decides its run.
#[derive(Debug, Clone)]
pub struct Driver<'a> {
    /// The repository.
    pub repo: &'a Repo,
    /// Where the run is decided.
    pub place: Place,
    /// The run.
    pub run: RunId,
    /// Its kind.
    pub kind: RunKind,
    /// The branch.
    pub branch: BranchName,
    /// The length of its lease, in seconds.
    pub lease_seconds: u64,
    /// The role whose runners alone take it. Only its first commit depends on it.
    pub role: Option<String>,
}

impl Driver<'_> {
    /// The branch of a run's driver: of its flow, or of the node with this alias.
    pub fn branch_of(prefix: &str, slug: &Slug, name: &str) -> Result<BranchName, Refusal> {
        let name = format!("{prefix}{slug}/{name}");
        BranchName::new(name.as_bytes())
            .map_err(|error| Refusal::new(Why::Setup, format!("no driver can be named {name}: {error}")))
    }

    fn remote(&self) -> Option<&RemoteName> {
        remote_of(&self.place)
    }

    /// Its newest commit as it is known here.
    pub fn known(&self) -> Result<Option<CommitId>, Refusal> {
        let because =
            |error: &dyn std::error::Error| Refusal::because(&format!("read {}", self.branch), error);
        match self.remote() {
            None => self.repo.branch_head(&self.branch).map_err(|error| because(&error)),
            Some(remote) => {
                let known = self.repo.fetched_head(remote, &self.branch);
                known.map_err(|error| because(&error))
            }
        }
    }

    /// Its newest commit at the place of decision.
    pub fn ask(&self) -> Result<Option<CommitId>, Refusal> {
        let Some(remote) = self.remote() else { return self.known() };
        let because = |error: &dyn std::error::Error| {
            let refusal = Refusal::because(&format!("ask {remote} for {}", self.branch), error);
            Refusal { why: Why::Unanswered, ..refusal }
        };
        let branches = std::slice::from_ref(&self.branch);
        let asked = self.repo.ask_remote(remote, branches, PATIENCE).map_err(|error| because(&error))?;
        let head = asked.into_iter().find(|(name, _)| *name == self.branch).map(|(_, head)| head);
        if head.is_some_and(|head| self.repo.commit(head).is_err()) {
            self.repo.fetch_some(remote, branches, PATIENCE).map_err(|error| because(&error))?;
        }
        Ok(head)
    }

    /// Notes what the place of decision accepted.
    pub fn note(&self, head: CommitId) {
        if let Some(remote) = self.remote() {
            self.repo.note_fetched(remote, &self.branch, head);
        }
    }

    /// The commit of a state, on top of `parent`. No ref points at it yet.
    pub fn commit(
        &self,
        parent: Option<CommitId>,
        next: &Next,
        attempt: Option<AttemptId>,
    ) -> Result<CommitId, Refusal> {
        let because = |error: &dyn std::error::Error| {
            Refusal::because(&format!("write the state {} of {}", next.state, self.branch), error)
        };
        let state = StateName::parse(next.state).map_err(|error| because(&error))?;
        let mut trailers = vec![Trailer::new(RUN_KEY, self.run.to_string())];
        trailers.extend(next.not_before.map(not_before));
        trailers.extend(next.waits_for.as_ref().map(|who| Trailer::new(WAITS_FOR_KEY, one_line(who))));
        trailers.extend(next.gate.map(|number| Trailer::new(OPEN_KEY, number.to_string())));
        // Without a remote no other host can take it.
        for runner in next.prefer.iter().filter(|_| self.remote().is_some()) {
            trailers.push(Trailer::new(PREFER_RUNNER_KEY, one_line(runner)));
            trailers.push(Trailer::new(PREFER_SECONDS_KEY, PREFER_SECONDS.to_string()));
        }
        let draft = set_state_draft(&ManualState {
            state,
            subject: Some(one_line(&next.subject)),
            body: None,
            lease_seconds: [STEP, TURN].contains(&next.state).then_some(self.lease_seconds),
            trailers,
            source: self.remote().cloned(),
            overrides: None,
            from_attempt: None,
        })
        .map_err(|error| because(&error))?;
        let message = draft.encode().map_err(|error| because(&error))?;
        let tree = match parent {
            Some(parent) => self.repo.commit(parent).map_err(|error| because(&error))?.tree,
            None => self.tree()?,
        };
        let attempt = attempt.filter(|_| self.remote().is_some());
        let new = NewCommit { tree, parents: parent.as_slice(), message: &message, attempt };
        self.repo.write_commit(&new).map_err(|error| because(&error))
    }

    fn tree(&self) -> Result<CommitId, Refusal> {
        let script = |verb| format!("#!/bin/sh\nexec \"$AYNIG_BIN\" {verb}\n").into_bytes();
        let commands = match self.kind {
            RunKind::Flow => FLOW_COMMANDS,
            RunKind::Graph => NODE_COMMANDS,
        };
        let because =
            |error: &dyn std::error::Error| Refusal::because("write the commands of the run", error);
        let role = self.role.as_ref().map(RoleName::parse).transpose().map_err(|error| because(&error))?;
        let reserved = role.map(|role| format!(".aynig/roles/{role}/command"));
        let directory = reserved.as_deref().unwrap_or(".aynig/command");
        let files = commands.map(|(state, verb)| (format!("{directory}/{state}"), script(verb)));
        self.repo.tree_of_programs(&files).map_err(|error| because(&error))
    }

    /// Whether a commit is a lease of this attempt.
    pub fn is_leased_by(&self, head: CommitId, attempt: &str) -> bool {
        let stored = self.repo.commit(head).ok();
        let lease = stored.map(|stored| Head::read(&stored.facts()));
        matches!(lease, Some(Head::Working(lease)) if lease.run_id == attempt)
    }
}

/// The run that a driver names: its newest commit that does, since a runner's own commits do not. `None`: it drives no run.
pub fn run_of(repo: &Repo, head: CommitId) -> Result<Option<RunId>, CommitError> {
    let mut next = Some(head);
    for _ in 0..MOST_READ {
        let Some(id) = next else { break };
        let commit = repo.commit(id)?;
        let trailers = Message::parse(&commit.message).trailers;
        let named = trailers.last(RUN_KEY).and_then(|id| RunId::parse(id.to_str().ok()?));
        if named.is_some() {
            return Ok(named);
        }
        // A shallow clone has no commits below its boundary.
        next = commit.parents.first().copied().filter(|_| !repo.is_boundary(id));
    }
    Ok(None)
}

/// The place in the run of the gate that was open at a commit of a driver.
pub(super) fn gate_at(repo: &Repo, commit: CommitId) -> Option<u64> {
    let commits = repo.history(commit).take(MOST_READ).map_while(Result::ok);
    let mut states = commits.map(|commit| Message::parse(&commit.message).trailers);
    let state = states.find(|trailers| trailers.last(RUN_KEY).is_some())?;
    state.last(OPEN_KEY)?.to_str().ok()?.parse().ok()
}

fn one_line(text: &str) -> String {
    text.split(|c: char| c.is_control()).collect::<Vec<_>>().join(" ").trim().to_owned()
}
