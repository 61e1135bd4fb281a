//! Graphs of nodes: what their turns may do, and when they get nowhere.
//!
//! Pure, like [`crate::flow`]: no clock, no file, no repository.
//!
//! | file | contains |
//! |---|---|
//! | [`due`] | the due act of a node |
//! | [`hand`] | the commands that a node may use |
//! | [`roster`] | a run as a node sees it |
//! | [`prompt`] | the prompt of a turn |
//! | [`replay`] | earlier turns, for a new session |
//! | [`loops`] | loops, recognised by the effects of turns |
//! | [`verdict`] | whether the run goes on after a turn |
//! | [`document`] | a graph file, as types |
//! | [`read`] | from a graph file to these types |
//! | [`schema`] | the JSON Schema of graph files |
//! | [`templates`] | texts of roles |

pub mod document;
pub mod due;
pub mod hand;
pub mod loops;
pub mod prompt;
pub mod read;
pub mod replay;
pub mod roster;
pub mod schema;
pub mod templates;
pub mod verdict;
