//! The role of a file in the step that made it.

use serde::{Deserialize, Serialize};

use crate::model::artifact::ArtifactKind;
use crate::model::step::Outcome;
use crate::provider::turn::files;

/// The longest content of a log or a transcript that goes into a ledger, in bytes.
const MAX_LOG: u64 = 256 * 1024;

/// The longest content of any other file that goes into a ledger, in bytes.
pub const MAX_FILE: u64 = 4 * 1024 * 1024;

/// The role of a file in the step that made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The prompt of a provider, or the envelope of a planner.
    Prompt,
    /// The prompt by blocks, as JSON.
    #[serde(rename = "prompt.blocks")]
    PromptBlocks,
    /// The acts that an agent staged in a turn that failed.
    Staged,
    /// A file that an agent kept in its turn.
    Report,
    /// The replay of earlier turns for a new session.
    Contextpack,
    /// The output of the provider's program.
    RunnerTranscript,
    /// The agent's final answer.
    RunnerFinalResponse,
    /// The standard error of the provider's program.
    RunnerStderr,
    /// Usage, versions, command line without the prompt.
    RunnerMetadata,
    /// The policy: as requested, and as it was in effect.
    PolicySummary,
    /// The report of a validator or a harness.
    ValidationReport,
    /// The output of a validator.
    ValidationStdout,
    /// The standard error of a validator.
    ValidationStderr,
    /// A file that a harness left.
    HarnessFixture,
    /// The answer of a planner, and the resulting outcome.
    PlannerDecision,
    /// The question to people.
    GateRequest,
    /// Their answers.
    GateOutcome,
    /// The difference to the base, as a patch.
    WorkspaceDiff,
    /// The paths that differ from the base.
    WorkspaceStatus,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 19] = [
        Self::PromptBlocks,
        Self::Prompt,
        Self::Staged,
        Self::Report,
        Self::Contextpack,
        Self::RunnerTranscript,
        Self::RunnerFinalResponse,
        Self::RunnerStderr,
        Self::RunnerMetadata,
        Self::PolicySummary,
        Self::ValidationReport,
        Self::ValidationStdout,
        Self::ValidationStderr,
        Self::HarnessFixture,
        Self::PlannerDecision,
        Self::GateRequest,
        Self::GateOutcome,
        Self::WorkspaceDiff,
        Self::WorkspaceStatus,
    ];

    /// The word in manifests and ledgers.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::PromptBlocks => "prompt.blocks",
            Self::Staged => "staged",
            Self::Report => "report",
            Self::Contextpack => "contextpack",
            Self::RunnerTranscript => "runner_transcript",
            Self::RunnerFinalResponse => "runner_final_response",
            Self::RunnerStderr => "runner_stderr",
            Self::RunnerMetadata => "runner_metadata",
            Self::PolicySummary => "policy_summary",
            Self::ValidationReport => "validation_report",
            Self::ValidationStdout => "validation_stdout",
            Self::ValidationStderr => "validation_stderr",
            Self::HarnessFixture => "harness_fixture",
            Self::PlannerDecision => "planner_decision",
            Self::GateRequest => "gate_request",
            Self::GateOutcome => "gate_outcome",
            Self::WorkspaceDiff => "workspace_diff",
            Self::WorkspaceStatus => "workspace_status",
        }
    }

    /// The role with this word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.word() == word)
    }

    /// The kind of artifact.
    #[must_use]
    pub fn kind(self) -> ArtifactKind {
        match self {
            Self::Prompt | Self::PromptBlocks => ArtifactKind::Prompt,
            Self::Contextpack => ArtifactKind::Contextpack,
            Self::RunnerTranscript => ArtifactKind::Transcript,
            Self::RunnerStderr
            | Self::RunnerMetadata
            | Self::ValidationStdout
            | Self::ValidationStderr
            | Self::WorkspaceStatus => ArtifactKind::Log,
            Self::WorkspaceDiff => ArtifactKind::Diff,
            Self::RunnerFinalResponse
            | Self::PolicySummary
            | Self::ValidationReport
            | Self::HarnessFixture
            | Self::PlannerDecision
            | Self::Staged
            | Self::Report
            | Self::GateRequest
            | Self::GateOutcome => ArtifactKind::Report,
        }
    }

    /// The longest content with this role that the ledger takes from a step that ended so. `None` if the ledger does not
    /// have the artifact at all: logs are for steps that failed.
    #[must_use]
    pub fn in_ledger(self, outcome: Outcome) -> Option<u64> {
        match self {
            // It belongs to what the turn does, and of one that failed that is nothing.
            Self::Report => (!has_failed(outcome)).then_some(MAX_FILE),
            Self::Prompt
            | Self::PromptBlocks
            | Self::Staged
            | Self::Contextpack
            | Self::RunnerFinalResponse
            | Self::ValidationReport
            | Self::PlannerDecision
            | Self::GateRequest
            | Self::GateOutcome
            | Self::WorkspaceDiff => Some(MAX_FILE),
            Self::RunnerTranscript | Self::RunnerStderr | Self::ValidationStdout | Self::ValidationStderr => {
                has_failed(outcome).then_some(MAX_LOG)
            }
            Self::RunnerMetadata | Self::PolicySummary | Self::HarnessFixture | Self::WorkspaceStatus => None,
        }
    }

    /// The longest content with this role that the ledger takes from each turn of a node: its transcript has the calls of
    /// its tools.
    #[must_use]
    pub fn in_every_turn(self) -> Option<u64> {
        (self == Self::RunnerTranscript).then_some(MAX_LOG)
    }

    /// The role of a file that a killed attempt left, by its name: one that begins with the word, or of a provider.
    #[must_use]
    pub fn of_file(name: &str) -> Option<Self> {
        match name {
            files::TRANSCRIPT => Some(Self::RunnerTranscript),
            files::STDERR => Some(Self::RunnerStderr),
            files::FINAL => Some(Self::RunnerFinalResponse),
            _ => Self::ALL.into_iter().find(|role| name.starts_with(role.word())),
        }
    }
}

/// Whether a step that ended so failed.
fn has_failed(outcome: Outcome) -> bool {
    match outcome {
        Outcome::Error | Outcome::KilledTimeout | Outcome::KilledIdle | Outcome::KilledPolicy => true,
        Outcome::Completed
        | Outcome::Success
        | Outcome::Partial
        | Outcome::Blocked
        | Outcome::Unsafe
        | Outcome::NeedsHuman
        | Outcome::GateApproved
        | Outcome::GateRejected
        | Outcome::GateTimedOut => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_json() {
        for role in Role::ALL {
            assert_eq!(serde_json::to_value(role).expect("a word"), role.word());
            assert_eq!(Role::parse(role.word()), Some(role));
            assert_eq!(Role::of_file(&format!("{}-tests.log", role.word())), Some(role));
        }
        assert_eq!(Role::of_file("transcript"), Some(Role::RunnerTranscript));
        assert_eq!(Role::of_file("notes"), None);
    }

    #[test]
    fn logs_of_steps_that_failed_are_shared() {
        let rows = [
            (Role::Prompt, true, true),
            (Role::RunnerFinalResponse, true, true),
            (Role::WorkspaceDiff, true, true),
            (Role::ValidationReport, true, true),
            (Role::PlannerDecision, true, true),
            (Role::Report, true, false),
            (Role::GateRequest, true, true),
            (Role::RunnerTranscript, false, true),
            (Role::ValidationStderr, false, true),
            (Role::RunnerMetadata, false, false),
            (Role::HarnessFixture, false, false),
        ];
        for (role, when_done, when_failed) in rows {
            assert_eq!(role.in_ledger(Outcome::Completed).is_some(), when_done, "{role:?}");
            assert_eq!(role.in_ledger(Outcome::KilledIdle).is_some(), when_failed, "{role:?}");
        }
    }
}
