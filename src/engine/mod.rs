//! The flow engine: starts runs of flows, and carries out one step of a run at a time (CONTRACT.md §20).
//!
//! Invariant: what is due follows from the ledger alone. A step that has ended is never carried out again.

pub mod evaluation;
pub mod policy;
pub mod record;
pub mod validation;
