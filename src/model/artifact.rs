//! Artifacts: files that a run keeps.

use serde::{Deserialize, Serialize};

use super::ids::{ArtifactId, FileName, NodeId, RunId, TurnId};
use super::time::Timestamp;

/// The kind of an artifact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ArtifactKind {
    /// A patch.
    Diff,
    /// What was sent to a provider.
    Prompt,
    /// Output of a program.
    Log,
    /// A conversation with its tool calls.
    Transcript,
    /// What a new session was given of an old one.
    Contextpack,
    /// Anything that a node added.
    Report,
}

impl ArtifactKind {
    /// The word in JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Diff => "diff",
            Self::Prompt => "prompt",
            Self::Log => "log",
            Self::Transcript => "transcript",
            Self::Contextpack => "contextpack",
            Self::Report => "report",
        }
    }
}

/// An artifact without its place, which differs from host to host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    /// Its id.
    pub id: ArtifactId,
    /// Its run.
    pub run_id: RunId,
    /// Its node. `None` for a flow's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
    /// Its kind.
    pub kind: ArtifactKind,
    /// Its file name.
    pub name: FileName,
    /// The time of its creation.
    pub created_at: Timestamp,
    /// Its turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<TurnId>,
    /// Its media type.
    pub media_type: String,
    /// Bytes.
    pub size: u64,
    /// The SHA-256 of its content, as hex.
    pub sha256: String,
    /// The host that made it, by its runner id. It has the content in any case.
    #[serde(default)]
    pub host: String,
}
