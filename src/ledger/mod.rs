//! Ledgers: the state of a run and its history, as a ref of commits.
//!
//! The tree of the newest commit is the state, in small files. Each commit is one operation, with its events in the
//! message. An operation is a compare-and-swap: read the newest commit, decide, write, move the ref from exactly
//! there. Who loses decides anew.
//!
//! Invariant: a ledger is linear, and each operation is in it once. A ledger may be written by strangers: sizes, names
//! and JSON are checked, and nothing in it becomes a path, a program or a setting.
//!
//! | file | contains |
//! |---|---|
//! | `message` | the message of an operation's commit |
//! | [`masks`] | masks secrets before anything is written |
//! | [`tip`] | the newest commit, and its state |
//! | [`place`] | where a run is decided: this repository or a remote |
//! | [`operate`] | carries out operations |
//! | `bring` | fetches the base and the work of a run where a clone lacks them |
//! | `take_back` | takes back what a step did to the refs of its run |
//! | [`content`] | contents of artifacts |
//! | [`archive`] | the runs that were deleted |
//! | [`deletion`] | deletes runs |
//! | [`fetch`] | fetches the ledgers that a remote decides |
//! | `set_back` | ledgers that a hub has set back |
//! | `planted` | what somebody put in the place of a run's refs at a hub |
//! | [`held`] | why a run is held here |
//! | [`watch`] | reports moves of ledgers while steps and turns are live |
//! | [`history`] | the operations of a run, oldest first |
//! | [`check`] | compares the events of a ledger with its tree |
//! | [`runs`] | lists runs, and finds one by slug, prefix or id |
//! | [`error`] | what can go wrong |

pub mod archive;
mod bring;
pub mod check;
pub mod content;
pub mod deletion;
pub mod error;
pub mod fetch;
pub mod held;
pub mod history;
pub mod masks;
mod message;
pub mod operate;
pub mod place;
mod planted;
mod race;
pub mod runs;
mod set_back;
mod take_back;
pub mod tip;
pub mod watch;

pub use bring::bring;
pub use content::Content;
pub(crate) use error::BY_A_STEP;
pub use error::LedgerError;
pub use masks::Masks;
pub use operate::{Ledger, Operated};
pub use place::Place;
pub use take_back::TakenBack;
pub use tip::Tip;
