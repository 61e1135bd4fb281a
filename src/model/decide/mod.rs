//! Decides commands: a state and commands give events, or a refusal.
//!
//! Invariant: nothing but the arguments counts. The same operation, decided on the same state, makes the same events
//! with the same ids; decided on a newer state, it makes new ones or is refused.
//!
//! | file | contains |
//! |---|---|
//! | `command` | the commands |
//! | `refusal` | why a command is refused |
//! | `draft` | collects the events of an operation |
//! | `runs` | creates, changes and deletes runs |
//! | `graph` | nodes and edges |
//! | `steer` | starts, stops, interrupts and resets nodes |
//! | `talk` | messages and hand-offs |
//! | `answers` | requests for approval |
//! | `auto` | mode AUTO, and the end that a node declares |
//! | `progress` | turns, steps, artifacts, workspaces |
//! | `waits` | notices to nodes that wait for an answer |
//! | [`texts`] | the free texts of commands |

mod answers;
mod auto;
mod command;
mod draft;
mod graph;
mod progress;
mod refusal;
mod runs;
mod steer;
mod talk;
pub mod texts;
mod waits;

pub use auto::Finding;
pub use command::{
    Answered, Command, EdgeSpec, EndedStep, EndedTurn, NewArtifact, NewRun, NodeEdit, NodeSpec, RunEdit,
    Steer, StepStart,
};
pub use draft::Decided;
pub use refusal::{Refusal, RefusalKind};
pub use runs::MAX_LABEL;

use super::by::By;
use super::ids::OpId;
use super::state::State;
use super::time::Timestamp;
use draft::Draft;

/// An operation: what its events have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Op {
    /// Its id. All ids that it makes follow from it.
    pub id: OpId,
    /// Its time.
    pub at: Timestamp,
    /// Who caused it.
    pub by: By,
}

/// The bounds that the settings of the place give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Unread hand-offs on an edge: `aynig.maxUnread`.
    pub max_unread: usize,
}

impl Default for Rules {
    fn default() -> Self {
        Self { max_unread: 16 }
    }
}

/// Decides the first operation of a run.
///
/// # Errors
/// The [`Refusal`]; nothing is to be written.
pub fn create(new: &NewRun, op: &Op) -> Result<Decided, Refusal> {
    begin(new, &[], op)
}

/// Decides a new run, and commands on it, all or none.
///
/// # Errors
/// The first [`Refusal`]; nothing is to be written.
pub fn begin(new: &NewRun, commands: &[Command], op: &Op) -> Result<Decided, Refusal> {
    let mut draft = runs::create(new, op)?;
    for command in commands {
        one(&mut draft, command)?;
    }
    auto::go_on(&mut draft, None)?;
    Ok(draft.finish())
}

/// Decides `commands`, all or none, each on what the one before it left.
///
/// # Errors
/// The first [`Refusal`]; nothing is to be written.
pub fn decide(state: &State, commands: &[Command], op: &Op, rules: Rules) -> Result<Decided, Refusal> {
    let mut draft = Draft::new(state.clone(), op, rules);
    for command in commands {
        one(&mut draft, command)?;
    }
    auto::go_on(&mut draft, auto::goes_on(state))?;
    Ok(draft.finish())
}

fn one(draft: &mut Draft<'_>, command: &Command) -> Result<(), Refusal> {
    if draft.state.run.contract_version != super::run::CONTRACT_VERSION {
        return Err(Refusal::Version(draft.state.run.contract_version.clone()));
    }
    match command {
        Command::SetRun(edit) => runs::set(draft, edit),
        Command::DeleteRun => runs::delete(draft),
        Command::AddNode(spec) => graph::add_node(draft, spec),
        Command::SetNode(node, edit) => graph::set_node(draft, *node, edit),
        Command::SteerNode(node, steer) => steer::steer(draft, *node, *steer),
        Command::RemoveNode(node) => graph::remove_node(draft, *node),
        Command::AddEdge(spec) => graph::add_edge(draft, spec),
        Command::RemoveEdge(edge) => graph::remove_edge(draft, *edge),
        Command::Chat { node, content, interrupt } => talk::chat(draft, *node, content, *interrupt),
        Command::HandOff { from, to, payload } => talk::hand_off(draft, *from, *to, payload),
        Command::Overdue(node) => waits::overdue(draft, *node),
        Command::Ask { node, tool, context, expires_at, heard, turn } => {
            let asked =
                answers::Asked { context: context.as_deref(), expires_at: *expires_at, heard, turn: *turn };
            answers::ask(draft, *node, tool, &asked)
        }
        Command::Hear { approval, turn } => answers::hear(draft, *approval, *turn),
        Command::Grant { approval, always } => answers::grant(draft, *approval, *always),
        Command::Revoke(approval) => answers::revoke(draft, *approval),
        Command::Expire(node) => answers::expire(draft, *node),
        Command::Answer { approval, resolution } => answers::answer(draft, *approval, resolution),
        Command::Approve { approval, required, reason } => {
            answers::approve(draft, *approval, *required, reason.as_ref())
        }
        Command::Done { node, message, finding } => auto::done(draft, *node, (message.as_deref(), finding)),
        Command::EndTurn(turn) => progress::end_turn(draft, turn),
        Command::StartStep(step) => progress::start_step(draft, step),
        Command::EndStep(end) => progress::end_step(draft, end),
        Command::Halt { cause, waits_for } => progress::halt(draft, cause, waits_for),
        Command::AddArtifact(artifact) => progress::add_artifact(draft, artifact).map(drop),
        Command::PrepareWorkspace(workspace) => progress::prepare_workspace(draft, workspace),
        Command::ChangeWorkspace(change, body) => progress::change_workspace(draft, *change, body),
    }
}
