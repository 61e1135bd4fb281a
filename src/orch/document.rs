//! A graph file, as types: the nodes, edges and first messages that a run begins with.

use crate::flow::fault::{Note, Place, Severity};
use crate::model::edge::EdgeType;
use crate::model::ids::{Alias, ProviderName};
use crate::model::node::{Capabilities, CliPermissions};
use crate::model::run::{GlobalMode, Limits, Mode};

/// A graph.
#[derive(Debug, Clone, PartialEq)]
pub struct Graph {
    /// `label`.
    pub label: Option<String>,
    /// `mode`.
    pub mode: Option<Mode>,
    /// `global_mode`.
    pub global_mode: Option<GlobalMode>,
    /// `done_when`.
    pub done_when: Option<String>,
    /// `limits` of the run.
    pub limits: Limits,
    /// `reserve_role`.
    pub reserve_role: bool,
    /// `nodes`, in the order of the file.
    pub nodes: Vec<NodeOf>,
    /// `edges`, in the order of the file.
    pub edges: Vec<EdgeOf>,
}

/// A node of a graph file.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeOf {
    /// Its position.
    pub at: Place,
    /// Its short name.
    pub alias: Alias,
    /// A text for people.
    pub label: String,
    /// Its role.
    pub role: String,
    /// Its provider.
    pub provider: ProviderName,
    /// The model.
    pub model: Option<String>,
    /// Whether its program has to ask.
    pub permissions: Option<CliPermissions>,
    /// What it may do.
    pub capabilities: Capabilities,
    /// Its bounds.
    pub limits: Limits,
    /// The first message that a person sends it.
    pub prompt: Option<String>,
}

/// An edge of a graph file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EdgeOf {
    /// Its position.
    pub at: Place,
    /// The sender.
    pub from: Alias,
    /// The receiver.
    pub to: Alias,
    /// Its type.
    pub edge_type: Option<EdgeType>,
    /// Its label.
    pub label: Option<String>,
    /// Whether both may send.
    pub bidirectional: Option<bool>,
}

/// A file that was checked.
#[derive(Debug)]
pub struct Checked {
    /// The graph. `None` if the file has a fault.
    pub graph: Option<Graph>,
    /// Faults and warnings, by position.
    pub notes: Vec<Note>,
}

impl Checked {
    /// The number of faults.
    #[must_use]
    pub fn faults(&self) -> usize {
        self.notes.iter().filter(|note| note.severity == Severity::Fault).count()
    }
}

/// The beginning of an end that a validator decides.
const VALIDATOR: &str = "validator:";

/// The longest text of an end, in bytes.
const MAX_END: usize = 4_096;

/// The validator that a text about the end of a run names. `None`: it is a text for agents.
///
/// # Errors
/// What is wrong, in words.
pub fn validator_of(done_when: &str) -> Result<Option<&str>, &'static str> {
    let Some(name) = done_when.strip_prefix(VALIDATOR) else {
        return match done_when.trim().len() {
            0 => Err("it is empty"),
            _ if done_when.len() > MAX_END => Err("it is longer than 4096 bytes"),
            _ => Ok(None),
        };
    };
    let is_name = (1..=64).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    if is_name { Ok(Some(name)) } else { Err("this is no name of a validator") }
}
