//! The hand of an agent as tools of the Model Context Protocol, on standard input and output (CONTRACT 22.17).
//!
//! Invariant: each line gets at most one answer, whatever it contains, and a tool does what the command of its name does.
//!
//! | file | contains |
//! |---|---|
//! | [`rpc`] | messages: from a line to its answer |
//! | [`tools`] | the tools: names, arguments, results |

pub mod rpc;
pub mod tools;

use super::error::Error;
use super::hand;
use crate::engine::Engine;

/// Answers a line of a client. `None`: it needs no answer.
#[must_use]
pub fn answer(engine: &Engine<'_>, line: &[u8]) -> Option<String> {
    rpc::answer(line, &|| tools::listed(&hand::verbs(engine)), &|name, arguments| {
        tools::call(engine, name, arguments)
    })
}

/// Refuses a process that belongs to no turn.
///
/// # Errors
/// One that names what a person does instead.
pub fn check_turn() -> Result<(), Error> {
    hand::own_turn("`aynig orch --help` lists what people do").map(drop)
}
