//! The run: its status, modes, limits and usage.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

pub use super::usage::Usage;

use super::artifact::ArtifactKind;
use super::ids::{Alias, RunId, Slug};
use super::patch::patched;
use super::time::Timestamp;
use super::trace::{Halted, Passed, Spent};

/// The version of the shared contract that is written. A run of another version is shown and never changed.
pub const CONTRACT_VERSION: &str = "1";

/// The version of what is ours beside the contract.
pub const SCHEMA: u32 = 1;

/// The status of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunStatus {
    /// It has not begun.
    Queued,
    /// Its nodes work when they have something to do.
    Running,
    /// No turn or step begins until it is resumed.
    Paused,
    /// A person ended it.
    Stopped,
    /// It reached its end.
    Completed,
    /// It cannot be carried on.
    Failed,
}

impl RunStatus {
    /// The statuses that may follow, besides itself.
    #[must_use]
    pub fn successors(self) -> &'static [Self] {
        match self {
            Self::Running => &[Self::Paused, Self::Stopped, Self::Completed, Self::Failed],
            Self::Paused => &[Self::Running, Self::Stopped, Self::Completed],
            Self::Queued | Self::Stopped | Self::Completed | Self::Failed => &[Self::Running],
        }
    }

    /// Whether it ended.
    #[must_use]
    pub fn is_ended(self) -> bool {
        matches!(self, Self::Stopped | Self::Completed | Self::Failed)
    }

    /// The word in JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Stopped => "stopped",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }
}

/// Who decides what is next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Mode {
    /// The orchestrator goes on by itself.
    Auto,
    /// A person does.
    Interactive,
}

/// What nodes may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum GlobalMode {
    /// Documents only.
    Planning,
    /// All files.
    Implementation,
}

/// The flow that a flow run carries out, frozen at its start. The contents are in the ledger's `content/`, by digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FrozenFlow {
    /// Its `workflow_id`.
    pub workflow_id: String,
    /// Its `version`.
    pub version: u64,
    /// The SHA-256 of the file, as hex.
    pub file: String,
    /// The SHA-256 of each input's value, by name.
    #[serde(default)]
    pub inputs: BTreeMap<String, String>,
    /// The run that this one is a fork of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<RunId>,
    /// The step that a fork of another run begins with, in place of the entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begins_at: Option<String>,
}

impl FrozenFlow {
    /// The digests of all of its contents.
    pub fn digests(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.file.as_str()).chain(self.inputs.values().map(String::as_str))
    }
}

/// What became of a flow run: the class of its last outcome that is not of a ROLLBACK.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It did what it should. Only this is green.
    Succeeded,
    /// A person refused.
    Rejected,
    /// Something took too long.
    TimedOut,
    /// Something failed.
    Failed,
    /// A person ended it, or it took its work back.
    Stopped,
    /// Its step was begun again until no try was left.
    Stalled,
}

impl Verdict {
    /// The word in JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Rejected => "rejected",
            Self::TimedOut => "timed_out",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
            Self::Stalled => "stalled",
        }
    }
}

/// When a graph is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DoneWhen<'a> {
    /// An agent judges it by this text.
    Text(&'a str),
    /// The validator with this name accepts it.
    Validator(&'a str),
}

/// The longest condition for the end of a run, in bytes.
const MAX_DONE_WHEN: usize = 4_096;

impl<'a> DoneWhen<'a> {
    /// Reads it. `None`: it is empty or too long, or the name of the validator is none.
    #[must_use]
    pub fn parse(text: &'a str) -> Option<Self> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        match text.strip_prefix("validator:") {
            Some(name) => (!name.is_empty() && name.len() <= 64 && name.bytes().all(is_plain))
                .then_some(Self::Validator(name)),
            None => (!text.trim().is_empty() && text.len() <= MAX_DONE_WHEN).then_some(Self::Text(text)),
        }
    }
}

/// The kind of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunKind {
    /// A program of steps.
    Flow,
    /// Nodes and edges.
    Graph,
}

/// Where a run is decided: the place whose ledger counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DecidedBy {
    /// The repository with this random id.
    Repository(String),
    /// The remote with this address.
    Remote(String),
}

/// How much of a run leaves the host that made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Replicate {
    /// Everything.
    All,
    /// State, messages, usage and digests.
    Summary,
    /// Nothing.
    None,
}

impl Replicate {
    /// Whether the content of an artifact of this kind goes into the ledger. Its digest always does. A ledger has no
    /// events of what an agent thinks or of what its tools print, so contents are all that differs.
    #[must_use]
    pub fn keeps(self, kind: ArtifactKind) -> bool {
        match (self, kind) {
            (Self::All, _) | (Self::Summary, ArtifactKind::Diff | ArtifactKind::Report) => true,
            (
                Self::Summary,
                ArtifactKind::Prompt
                | ArtifactKind::Log
                | ArtifactKind::Transcript
                | ArtifactKind::Contextpack,
            )
            | (Self::None, _) => false,
        }
    }

    /// The word in JSON and in the setting `aynig.replicate`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Summary => "summary",
            Self::None => "none",
        }
    }

    /// Reads the word. `None` for any other text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::All, Self::Summary, Self::None].into_iter().find(|one| one.word() == text)
    }
}

/// Bounds of a run or a node. `None` is no bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Limits {
    /// Turns of nodes, or steps of a flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<u64>,
    /// Seconds in which a turn or step was live.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_seconds: Option<u64>,
    /// US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Nodes at one time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u64>,
    /// Levels of nodes that nodes made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<u64>,
}

impl Limits {
    /// The default number of nodes in a run.
    pub const NODES: u64 = 64;
    /// The default number of levels.
    pub const DEPTH: u64 = 3;
    /// The turns of a run in mode AUTO without a stated end.
    pub const AUTO_TURNS: u64 = 20;

    /// Whether no bound of `self` is looser than the one of `other`.
    #[must_use]
    pub fn within(&self, other: &Self) -> bool {
        fn ordered<T: PartialOrd>(mine: Option<T>, theirs: Option<T>) -> bool {
            match (mine, theirs) {
                (_, None) => true,
                (None, Some(_)) => false,
                (Some(mine), Some(theirs)) => mine <= theirs,
            }
        }
        ordered(self.turns, other.turns)
            && ordered(self.wall_seconds, other.wall_seconds)
            && ordered(self.cost_usd, other.cost_usd)
            && ordered(self.tokens, other.tokens)
            && ordered(self.nodes, other.nodes)
            && ordered(self.depth, other.depth)
    }
}

/// How many of each kind there have been. The next one gets the next number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Nodes.
    pub nodes: u64,
    /// Items of inboxes.
    pub messages: u64,
    /// Turns.
    pub turns: u64,
    /// Steps.
    pub steps: u64,
}

patched! {
    /// A run without its maps, as `run.json` in a ledger has it.
    struct Run, RunPatch;
    fixed {
        /// Its id.
        id: RunId,
        /// [`CONTRACT_VERSION`].
        contract_version: String,
        /// [`SCHEMA`].
        schema: u32,
        /// What people type.
        slug: Slug,
        /// Flow or graph.
        kind: RunKind,
        /// The time of its creation.
        created_at: Timestamp,
        /// The base, as a full ref name or a commit.
        base_ref: String,
        /// The commit of the base, as hex.
        base_sha: String,
        /// Where it is decided.
        decided_by: DecidedBy,
        /// What is shared.
        replicate: Replicate,
        /// The flow. `None` for a graph.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        flow: Option<FrozenFlow>,
        /// The numbers given so far.
        #[serde(default)]
        counts: Counts,
        /// What its limits count. Of a graph.
        #[serde(default, skip_serializing_if = "Spent::is_nothing")]
        spent: Spent,
        /// The newest hand-offs since a person's last message or resume, the newest last.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        passed: Vec<Passed>,
        /// Why it is paused without a person. Of a graph.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        halted: Option<Halted>,
        /// Whether only runners of its role take the turns of a node.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        reserve_role: bool,
    }
    open {
        /// Its status.
        status: RunStatus,
        /// AUTO or INTERACTIVE.
        mode: Mode,
        /// PLANNING or IMPLEMENTATION.
        global_mode: GlobalMode,
        /// The time of the last change.
        updated_at: Timestamp,
        /// A text for people; may be empty.
        label: String,
        /// When it is done: a text, or `validator:NAME`.
        done_when: Option<String>,
        /// What it waits for, for people. `None` if it waits for nobody.
        waiting_for: Option<String>,
        /// Tokens and cost of all nodes.
        usage: Usage,
        /// Its bounds.
        limits: Limits,
        /// The number of the last step that limits do not count: a person has resumed the run after it.
        #[serde(default)]
        counted_from: u64,
        /// The step with which a resumed flow goes on, if it is not the one that is due.
        #[serde(default)]
        continues_at: Option<String>,
        /// How a flow ended: `completed` at a STOP, else a sentence. `None` before that.
        #[serde(default)]
        termination: Option<String>,
        /// What became of a flow. `None` before its end.
        #[serde(default)]
        verdict: Option<Verdict>,
        /// Aliases of removed nodes, which are not given again.
        retired: BTreeSet<Alias>,
    }
}
