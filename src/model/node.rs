//! Nodes: agents of a run, and what they may do.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ids::{Alias, MessageId, NodeId, ProviderName, RunId, TurnId};
use super::patch::patched;
use super::run::{Limits, Usage};
use super::time::Timestamp;
use super::trace::{Spent, Trace};

/// The program that a node drives, as the contract names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// codex
    Codex,
    /// claude-code
    Claude,
    /// gemini
    Gemini,
    /// Any other program, named by [`NodeConfig::provider_name`].
    Custom,
}

impl Provider {
    /// The provider that a configuration's name stands for.
    #[must_use]
    pub fn of(name: &ProviderName) -> Self {
        match name.as_str() {
            "codex" => Self::Codex,
            "claude" => Self::Claude,
            "gemini" => Self::Gemini,
            _ => Self::Custom,
        }
    }
}

/// The status of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeStatus {
    /// It waits for messages.
    Idle,
    /// It has a turn.
    Running,
    /// It waits for an answer.
    Blocked,
    /// Its turns failed until no try was left.
    Failed,
}

/// The edges that a node may change, and whether it may make nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EdgeManagement {
    /// None.
    None,
    /// Edges from or to itself; no nodes.
    #[serde(rename = "self")]
    Own,
    /// All edges, and nodes.
    All,
}

/// What a node may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Capabilities {
    /// Its rights over edges and nodes.
    pub edge_management: EdgeManagement,
    /// Whether it may change files other than documents.
    pub write_code: bool,
    /// Whether it may change documents.
    pub write_docs: bool,
    /// Whether its tools may run commands.
    pub run_commands: bool,
    /// Whether it only hands work on.
    pub delegate_only: bool,
}

/// The role whose nodes get the run's rights.
pub const ORCHESTRATOR: &str = "orchestrator";

/// The directory of the archive with the work of removed nodes. No node has it as its alias.
pub const ARCHIVED_NODES: &str = "nodes";

impl Capabilities {
    /// The default for a role.
    #[must_use]
    pub fn of_role(role: &str) -> Self {
        let all = Self {
            edge_management: EdgeManagement::None,
            write_code: true,
            write_docs: true,
            run_commands: true,
            delegate_only: false,
        };
        match role {
            ORCHESTRATOR => Self { edge_management: EdgeManagement::All, ..all },
            "planner" | "reviewer" => Self { write_code: false, ..all },
            _ => all,
        }
    }

    /// Whether it allows nothing that `other` does not.
    #[must_use]
    pub fn within(&self, other: &Self) -> bool {
        let no_more = |mine: bool, theirs: bool| !mine || theirs;
        self.edge_management <= other.edge_management
            && no_more(self.write_code, other.write_code)
            && no_more(self.write_docs, other.write_docs)
            && no_more(self.run_commands, other.run_commands)
            // The restriction is in force where it is set.
            && no_more(other.delegate_only, self.delegate_only)
    }
}

/// Whether tools are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CliPermissions {
    /// A person answers each request.
    Gated,
    /// All requests are granted.
    Skip,
}

/// A node's permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Permissions {
    /// For its tools.
    pub cli_permissions_mode: CliPermissions,
    /// Whether `spawn_node` and `create_edge` ask a person.
    pub agent_management_requires_approval: bool,
}

impl Permissions {
    /// Whether it allows nothing that `other` does not.
    #[must_use]
    pub fn within(&self, other: &Self) -> bool {
        self.cli_permissions_mode <= other.cli_permissions_mode
            && (self.agent_management_requires_approval || !other.agent_management_requires_approval)
    }
}

impl Default for Permissions {
    fn default() -> Self {
        Self { cli_permissions_mode: CliPermissions::Gated, agent_management_requires_approval: true }
    }
}

/// A node's session with its provider. The provider's own id stays on the host that has the session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Session {
    /// `pending` until a turn has begun one; an id of ours afterwards.
    pub session_id: String,
    /// Messages that mean a reset when they stand alone.
    pub reset_commands: Vec<String>,
    /// The host that has it, by its runner id. It is the first to take the node's turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner: Option<String>,
}

impl Session {
    /// Whether a turn has begun it.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.session_id != PENDING
    }
}

/// The id of a session that no turn has begun.
const PENDING: &str = "pending";

impl Session {
    /// It has ended: the next turn begins one.
    pub(super) fn ended(&self) -> Self {
        Self { reset_commands: self.reset_commands.clone(), ..Self::default() }
    }
}

impl Default for Session {
    fn default() -> Self {
        Self {
            runner: None,
            session_id: PENDING.to_owned(),
            reset_commands: vec!["/new".to_owned(), "/clear".to_owned()],
        }
    }
}

/// Why a node begins no turn although its run is running: a person's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hold {
    /// Its turn was interrupted. A person's message lets it go on.
    Interrupted,
    /// It was stopped.
    Stopped,
}

impl Hold {
    /// The word in JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Interrupted => "interrupted",
            Self::Stopped => "stopped",
        }
    }
}

/// The live turn of a node, as far as the ledger knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastTurn {
    /// Its id.
    pub id: TurnId,
    /// Its number in the node, from 1.
    pub number: u64,
    /// `completed`, `failed` or `interrupted`.
    pub status: String,
    /// How many turns have failed since the last one that completed, or since the node was brought back. Outages do
    /// not count.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failures: u64,
    /// The end of the usage limit that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Sentences that the agent has not read: the reasons of answers that its protocol could not carry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsaid: Vec<String>,
}

/// The number of turns on one inbox that may fail. Then the node has failed.
pub const TURN_TRIES: u64 = 3;

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A hand-off whose answer a node waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Wait {
    /// The node that is to answer.
    pub to: NodeId,
    /// The time of the hand-off.
    pub since: Timestamp,
}

/// How long a node waits for an answer, in milliseconds. Then it gets a notice (CONTRACT 22.22).
const ANSWER_MILLIS: i64 = 24 * 60 * 60 * 1_000;

impl Wait {
    /// Its last moment.
    #[must_use]
    pub fn until(&self) -> Timestamp {
        let end = self.since.millis().saturating_add(ANSWER_MILLIS);
        Timestamp::from_millis(end).unwrap_or(self.since)
    }
}

impl Node {
    /// Whether it begins turns: nobody holds it, and it has not failed.
    #[must_use]
    pub fn can_act(&self) -> bool {
        self.hold.is_none() && self.status != NodeStatus::Failed
    }

    /// The hand-off that it has waited for longest.
    #[must_use]
    pub fn longest_wait(&self) -> Option<(MessageId, Wait)> {
        let waits = self.waits.iter().map(|(id, wait)| (*id, *wait));
        waits.min_by_key(|(id, wait)| (wait.since, *id))
    }
}

patched! {
    /// A node.
    struct Node, NodePatch;
    fixed {
        /// Its id.
        id: NodeId,
        /// Its run.
        run_id: RunId,
        /// Its short name.
        alias: Alias,
        /// Its place in the order of creation, from 1.
        number: u64,
        /// Levels of nodes above it: 0 if a person made it.
        depth: u64,
        /// The hand-offs whose answers it waits for.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        waits: BTreeMap<MessageId, Wait>,
        /// What its limits count.
        #[serde(default, skip_serializing_if = "Spent::is_nothing")]
        spent: Spent,
        /// Its newest turns since the run was last resumed, the newest last: what loop safety compares.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        traces: Vec<Trace>,
    }
    open {
        /// A text for people.
        label: String,
        /// Its role.
        role_template: String,
        /// Its provider.
        provider: Provider,
        /// Its status.
        status: NodeStatus,
        /// What it does, in a few words.
        summary: String,
        /// The time of its last sign of life.
        last_activity_at: Timestamp,
        /// What it may do.
        capabilities: Capabilities,
        /// Whether it has to ask.
        permissions: Permissions,
        /// Its session.
        session: Session,
        /// Its tokens and cost.
        usage: Usage,
        /// The number of unread items in its inbox.
        inbox_count: u64,
        /// Its bounds.
        limits: Limits,
        /// Its last turn.
        turn: Option<LastTurn>,
        /// The hand-off that it has waited for longest.
        waiting_for: Option<MessageId>,
        /// Why it begins no turn, although its run is running.
        hold: Option<Hold>,
    }
}

/// The configuration of a node, as it was asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeConfig {
    /// A text for people.
    pub label: String,
    /// Its short name.
    pub alias: Alias,
    /// Its provider.
    pub provider: Provider,
    /// The name of the provider's configuration on the hosts.
    pub provider_name: ProviderName,
    /// The model, as the provider names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Its role.
    pub role_template: String,
    /// The text of its role, frozen when the node was made.
    pub custom_system_prompt: Option<String>,
    /// What it may do.
    pub capabilities: Capabilities,
    /// Whether it has to ask.
    pub permissions: Permissions,
    /// Messages that mean a reset when they stand alone.
    pub reset_commands: Vec<String>,
    /// Whether only runners of its role take its turns, as it was decided when it was made.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reserve_role: bool,
}
