//! `manifest.json`: one attempt of a step, and its files.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::role::Role;
use crate::fsutil::open_plain;
use crate::model::ids::{RunId, StepId};
use crate::model::step::{Opcode, Outcome};
use crate::model::time::Timestamp;

/// The name of the file.
pub const FILE: &str = "manifest.json";

/// A longer file is no manifest.
const MOST_BYTES: u64 = 4 * 1024 * 1024;

/// One attempt of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The run.
    pub run_id: RunId,
    /// The step.
    pub step_id: StepId,
    /// Its opcode.
    pub opcode: Opcode,
    /// Its place in the run, from 1.
    pub number: u64,
    /// How often the step was executed in this run, with this time.
    pub attempt: u64,
    /// The time of its start.
    pub started_at: Timestamp,
    /// The time of its end. `None` for a gate that waits.
    pub ended_at: Option<Timestamp>,
    /// How it ended. `None` for a gate that waits.
    pub termination: Option<Outcome>,
    /// A sentence about it.
    pub evidence_summary: Option<String>,
    /// The exit code of its program.
    pub exit_code: Option<i32>,
    /// The SHA-256 of the policy in effect.
    pub policy_digest: Option<String>,
    /// The provider.
    pub provider: Option<ProviderUsed>,
    /// Its files.
    pub artifacts: Vec<Listed>,
}

/// A provider, as it was used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderUsed {
    /// Its name.
    pub name: String,
    /// Its version, as its program says.
    pub version: Option<String>,
}

/// A file of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// Its role.
    pub role: Role,
    /// Its path, relative to the run directory.
    pub path: String,
    /// Its media type.
    pub media_type: String,
    /// Whether the step is not documented without it.
    pub required: bool,
    /// Bytes.
    pub size: u64,
    /// The SHA-256 of its content, as hex.
    pub sha256: String,
}

impl Manifest {
    /// Reads the manifest of a directory. `None` if there is none that is whole.
    #[must_use]
    pub fn read(directory: &Path) -> Option<Self> {
        use std::io::Read;
        let mut text = Vec::new();
        let file = open_plain(&directory.join(FILE)).ok()?;
        file.take(MOST_BYTES).read_to_end(&mut text).ok()?;
        serde_json::from_slice(&text).ok()
    }
}
