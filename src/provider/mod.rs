//! Providers: the programs that agents are, driven over pipes (CONTRACT.md §19).
//!
//! Invariant: a turn is judged by what the program says last, never by its exit code alone. Command line, model and
//! environment of a provider are configured on the host, never in a run. Nothing outlives a turn.
//!
//! ```text
//! stdout ──lines──▶ dialect ──▶ events ──account──▶ judge ──▶ Ended
//! stdin  ◀──────────┘  (policy, gate)      ladder ──▶ interrupt, close, signals
//! ```
//!
//! | file | contains |
//! |---|---|
//! | [`name`], [`turn`] | a provider, a turn, and how it ended |
//! | `run`, `child` | carry a turn out: the program, its pipes, the clock |
//! | `dialects` | a language each: pure machines from lines to events |
//! | `event` | the vocabulary |
//! | `policy` | from a posture to answers and arguments |
//! | [`gate`] | requests that somebody answers later |
//! | `ladder` | the order in which a program is ended |
//! | `judge`, `opening` | how a turn ended, and whether it began |
//! | `tally` | what failed in it |
//! | [`environment`] | an allow-list |
//! | `lines`, `record` | bounded lines and files |
//! | [`find`](find()), [`versions`] | the program, and its versions that are known to work |

mod child;
mod dialects;
pub mod environment;
mod event;
mod find;
pub mod gate;
mod judge;
mod ladder;
mod lines;
pub mod name;
mod opening;
mod policy;
mod record;
mod run;
mod tally;
#[cfg(test)]
mod tests;
pub mod turn;
pub mod versions;

pub use find::{find, leash, version};
pub use gate::{Gate, Reply, Request, Resolution};
pub use name::{Kind, named, of_its_own};
pub(crate) use record::{discard_output, reported};
pub use run::run;
pub use turn::{AtOnce, Ended, How, Ids, Listener, Posture, Provider, Question, Tools, Turn};
