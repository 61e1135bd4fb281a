//! The graph engine: carries out operations of people on graphs, and the turns of their nodes (CONTRACT.md §22).
//!
//! # Theory of operation
//!
//! Each node has a driver and a workspace of its own, both with its alias as the name. A message is one operation of the
//! ledger, which wakes the receiver's driver in the same transaction. A turn is an attempt of that driver: it reads the
//! inbox, runs the node's provider, and ends in one operation, which removes what was read from the inbox and declares the
//! driver's next state.
//!
//! Invariant: the declared state of a driver follows from the ledger ([`crate::orch::due`]). A driver under a lease is
//! left alone: whoever ends the lease reads the ledger again.
//!
//! | file | contains |
//! |---|---|
//! | [`operate`] | operations, and the drivers that they wake |
//! | [`start`] | makes a graph |
//! | [`turn`] | one attempt of a node's driver |
//! | `agent` | runs its agent |
//! | `session` | the session that its agent continues |
//! | `telemetry` | what it reports, as it comes |
//! | `carried` | the commits that hand-offs carry |
//! | `permitted` | takes back the files that a node may not change |
//! | `gate` | its requests for approval |
//! | `kept` | its end, until the remote has taken it |
//! | [`answers`] | the answers to them, their signatures and time limits |
//! | `of` | the turn that an attempt carries out |
//! | `settle` | the operation that ends it |
//! | `terms` | what a session depends on |
//! | `trace` | what loop safety compares of it |
//! | `done` | whether a run is done that its agent calls so |
//! | `act` | one of the acts of an agent |
//! | [`staged`] | the acts of an agent in its turn |
//! | `hand` | their files |
//! | [`asks`] | those that a person has to approve |
//! | [`added`] | files that an agent keeps |
//! | [`standing`] | drivers that are not where the ledger says |
//! | `steer` | interrupts, resets and removes nodes, deletes runs |
//! | [`recover`] | after an attempt that was cut off or interrupted |

pub mod act;
mod added;
mod agent;
pub mod answers;
pub mod asks;
mod carried;
mod done;
pub mod gate;
mod hand;
mod kept;
mod of;
pub mod operate;
mod permitted;
pub mod recover;
pub(super) mod session;
mod settle;
pub mod staged;
pub mod standing;
pub mod start;
pub mod steer;
mod telemetry;
pub(super) mod terms;
mod trace;
pub mod turn;
