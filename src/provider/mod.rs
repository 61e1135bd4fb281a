//! Providers: the programs that agents are, driven over pipes (CONTRACT.md §19).
//!
//! Invariant: a turn is judged by what the program says last, never by its exit code alone. Command line, model and
//! environment of a provider are configured on the host, never in a run. Nothing outlives a turn.

pub mod name;
mod run;
pub mod turn;

pub use name::{Kind, ProviderName};
pub use run::run;
pub use turn::{Ended, How, Ids, Posture, Provider, Question, Turn};
