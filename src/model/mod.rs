//! The model of a run: nodes, edges, messages, approvals, artifacts, turns, steps and workspaces.
//!
//! Pure, like [`crate::contract`]: no clock, no file, no repository. The field names in JSON are those of the shared
//! contract, version 1; what it has no word for is ours.
//!
//! ```text
//! State + Command ──decide──▶ Events, or a Refusal          Events ──apply──▶ State
//! ```
//!
//! Invariant: [`state::State::apply`] is the only code that changes a state. Replaying the events of a run gives its
//! state, and a refusal changes nothing.
//!
//! | file | contains |
//! |---|---|
//! | [`ids`] | ids, slugs, aliases; the ids that an operation makes |
//! | [`time`] | times in UTC with milliseconds |
//! | [`run`] | the run, its status and limits |
//! | [`node`] | nodes, and what they may do |
//! | [`edge`] | edges |
//! | [`message`] | messages of people, hand-offs, and inboxes |
//! | [`approval`] | requests for approval, and their answers |
//! | [`by`] | who caused an operation |
//! | [`artifact`] | files that a run keeps |
//! | [`step`] | steps of flows, and turns of nodes |
//! | [`trace`] | what turns leave for loop safety and for limits |
//! | [`limits`] | what is used of the limits of a graph |
//! | [`usage`] | tokens and cost |
//! | [`workspace`] | the part of a workspace that is the same on all hosts |
//! | [`event`] | events of record |
//! | [`state`] | the state, and the fold |
//! | [`decide`] | commands, and the events that follow from them |

pub mod approval;
pub mod artifact;
pub mod by;
pub mod decide;
pub mod edge;
pub mod event;
pub mod ids;
pub mod limits;
pub mod message;
pub mod node;
mod patch;
pub mod run;
pub mod state;
pub mod step;
pub mod time;
pub mod trace;
pub mod usage;
pub mod workspace;

#[cfg(test)]
pub(crate) mod tests;
