//! Steps of flows, and turns of nodes: what is executed, and how it ended.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::artifact::Artifact;
use super::ids::{ApprovalId, ArtifactId, MessageId, NodeId, StepId, TurnId};
use super::run::Usage;
use super::time::Timestamp;
use super::trace::{Spent, Trace};

/// What a step does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Opcode {
    /// Runs an agent in the worktree.
    RunAgent,
    /// Runs validators.
    RunValidation,
    /// Lets a planner judge.
    Evaluate,
    /// Asks a person.
    Gate,
    /// Puts the worktree back to the base.
    Rollback,
    /// Ends the run.
    Stop,
}

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It did what it should.
    Completed,
    /// It failed.
    Error,
    /// It took too long.
    KilledTimeout,
    /// It was silent for too long.
    KilledIdle,
    /// It broke a rule.
    KilledPolicy,
    /// The planner: done.
    Success,
    /// The planner: not yet.
    Partial,
    /// The planner: cannot go on.
    Blocked,
    /// The planner: must not go on.
    Unsafe,
    /// The planner: a person decides.
    NeedsHuman,
    /// A person agreed.
    GateApproved,
    /// A person refused.
    GateRejected,
    /// Nobody answered in time.
    GateTimedOut,
}

impl Outcome {
    /// Whether a step with this opcode can end so.
    #[must_use]
    pub fn fits(self, opcode: Opcode) -> bool {
        match self {
            Self::Completed | Self::Error | Self::KilledTimeout | Self::KilledIdle | Self::KilledPolicy => {
                true
            }
            Self::Success | Self::Partial | Self::Blocked | Self::Unsafe | Self::NeedsHuman => {
                opcode == Opcode::Evaluate
            }
            Self::GateApproved | Self::GateRejected | Self::GateTimedOut => opcode == Opcode::Gate,
        }
    }
}

/// An artifact of a step, and what it is to the step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Kept {
    /// What it is: `prompt`, `runner_final_response`, `validation_report` and so on.
    pub role: String,
    /// Its id.
    pub artifact: ArtifactId,
}

/// What a step left behind: the facts that later decisions read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Record {
    /// The tree of the worktree after it, as hex.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
    /// The commit of the work branch after it, as hex.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// The commit of the work branch before it, as hex.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The name of the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Tokens and cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The exit codes of its validators, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub exit_codes: BTreeMap<String, i32>,
    /// The ids of cases that failed.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub failed_cases: BTreeSet<String>,
    /// The codes of a planner's blockers.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub blockers: BTreeSet<String>,
    /// The paths of golden files that were proposed.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub goldens: BTreeSet<String>,
    /// Rules that were broken, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub violations: Vec<String>,
    /// The facts that overrode a planner, and what is wrong with its answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
    /// What a planner says should be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix_instructions: Option<serde_json::Value>,
    /// Whether a report said that all is well, and its validator failed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub contradicted: bool,
    /// Whether an agent that had to change something left no difference to the base.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unchanged: bool,
    /// Whether it failed because of an outage or a limit of somebody else, so that it counts for no loop.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub outage: bool,
    /// Whether its attempt was cut off, so that the step is tried again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cut_off: bool,
    /// The attempt of the driver that it belongs to, by the run id of its lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    /// Its artifacts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Kept>,
}

impl Record {
    /// The artifact with this role, the last one if there are several.
    #[must_use]
    pub fn artifact(&self, role: &str) -> Option<ArtifactId> {
        self.artifacts.iter().rev().find(|kept| kept.role == role).map(|kept| kept.artifact)
    }
}

/// One attempt of a visit of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// Its place in the run, from 1.
    pub number: u64,
    /// The step of the flow.
    pub id: StepId,
    /// What it does.
    pub opcode: Opcode,
    /// How many times the step was entered, with this one.
    pub visit: u64,
    /// The attempt of this visit, from 1.
    pub attempt: u64,
    /// The time of its start.
    pub started_at: Timestamp,
    /// The time of its end. `None` while it is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// The next step, or `STOP`. `None` if there is no route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// A sentence about the outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
    /// The host that carried it out, by its runner id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// What it left behind. `None` while it is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<Box<Record>>,
    /// The artifacts that its record names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub artifacts: BTreeMap<ArtifactId, Artifact>,
}

impl Step {
    /// The tree of the worktree after it.
    #[must_use]
    pub fn tree(&self) -> Option<&str> {
        self.record.as_ref()?.tree.as_deref()
    }

    /// Whether it is recorded for this attempt of the driver.
    #[must_use]
    pub fn is_of_lease(&self, attempt: &str) -> bool {
        self.record.as_ref().is_some_and(|record| record.lease.as_deref() == Some(attempt))
    }
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TurnStatus {
    /// Its provider said that it is done.
    Completed,
    /// It is not.
    Failed,
    /// A person or a pause ended it.
    Interrupted,
}

impl TurnStatus {
    /// The word in JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
        }
    }
}

/// The end of a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnEnd {
    /// The turn.
    pub turn_id: TurnId,
    /// Its number in the run, from 1.
    pub number: u64,
    /// How it ended.
    pub status: TurnStatus,
    /// The time of its start.
    pub started_at: Timestamp,
    /// The items that it has read. Empty if it did not complete.
    #[serde(default)]
    pub consumed: Vec<MessageId>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Whether an outage or a usage limit ended it. That is no failure of the node.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub excused: bool,
    /// The end of a usage limit. No turn begins before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The answers that it has heard. One that no turn has heard is kept for the next turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub heard: Vec<ApprovalId>,
    /// Sentences for the agent that its protocol could not carry, for the next prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsaid: Vec<String>,
    /// What limits count of it.
    #[serde(default, skip_serializing_if = "Spent::is_nothing")]
    pub spent: Spent,
    /// What loop safety compares. `None` of a turn that does not count there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Box<Trace>>,
}

/// A turn that ended, with the artifacts that it made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Turn {
    /// Its node. The node may have been removed since.
    pub node_id: NodeId,
    /// The time of its end.
    pub ended_at: Timestamp,
    /// Its end.
    #[serde(flatten)]
    pub end: TurnEnd,
    /// Its artifacts.
    pub artifacts: BTreeMap<ArtifactId, Artifact>,
}
