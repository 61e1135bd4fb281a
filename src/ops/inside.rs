//! Whether this process belongs to a step of a run. What is for people is refused to it (CONTRACT 20.32).
//!
//! Why the ancestors count: a program can take the variables of its step away, and leave its session. But what it
//! started from shows them, and the keeper of a step adopts whatever loses its parent.

use std::net::SocketAddr;

use crate::supervise::{Above, Holders, above, from, holders};

use super::error::Error;

/// The variable that names the run, for programs of a step.
const RUN: &str = "AYNIG_ORCH_RUN";

/// The variable that names the turn, for programs of one.
pub(super) const TURN: &str = "AYNIG_ORCH_TURN";

/// Refuses what only a person may do.
pub fn persons_only(verb: &str) -> Result<(), Error> {
    if !is_inside() {
        return Ok(());
    }
    let refused = format!("{verb} is for people: a step of a run cannot do it; nothing was changed");
    Err(Error::usage(refused).hint("let the step say what it needs, and a person type the command elsewhere"))
}

/// Whether this process is not in a step at all, or in one of this run.
#[must_use]
pub fn is_of_this_step(run: &str) -> bool {
    !is_inside() || std::env::var(RUN).is_ok_and(|own| own == run)
}

/// Whether the process that carries out this turn is above this one, and none that belongs to another turn. A program can
/// change its variables and lose its parent, but the keeper of its turn adopts it, and was started with the turn's id.
pub(super) fn is_of_turn(turn: &str) -> bool {
    let mut kept = false;
    for process in above() {
        if !names_no_other(&process, turn) {
            return false;
        }
        if let Some(id) = carries_out(&process) {
            if id != turn.as_bytes() {
                return false;
            }
            kept = true;
        }
    }
    kept
}

/// The id of the turn that a process carries out, if it does.
fn carries_out(Above { arguments, environment }: &Above) -> Option<&[u8]> {
    arguments.windows(2).find(|pair| pair[0] == b"orch" && pair[1] == b"turn")?;
    let id = environment.iter().find_map(|entry| entry.strip_prefix(b"AYNIG_RUN_ID="));
    Some(id.unwrap_or_default())
}

/// Refuses what only a person may do, if the other end of a connection on this host is in a step, or no process has it
/// any more: a step could hide so.
pub fn persons_only_at(peer: SocketAddr, own: SocketAddr) -> Result<(), Error> {
    let here = match holders(peer, own) {
        Holders::Others => return Ok(()),
        Holders::Here(here) => here,
    };
    if here.is_empty() {
        return Err(Error::usage("no process has the other end of this connection; nothing was changed")
            .hint("keep the connection open until the answer is there"));
    }
    if here.into_iter().any(|pid| from(pid).any(|process| is_of_step(&process))) {
        return Err(Error::usage("this is for people: a step of a run cannot do it; nothing was changed")
            .hint("let the step say what it needs, and a person type the command elsewhere"));
    }
    Ok(())
}

fn names_no_other(process: &Above, turn: &str) -> bool {
    process.environment.iter().all(|entry| {
        let value = entry.strip_prefix(TURN.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
        value.is_none_or(|value| value.is_empty() || value == turn.as_bytes())
    })
}

/// Whether this process belongs to a step.
pub(super) fn is_inside() -> bool {
    std::env::var_os(RUN).is_some_and(|value| !value.is_empty())
        || above().any(|process| is_of_step(&process))
}

/// Whether a process is a program of a step, or carries one out.
fn is_of_step(Above { arguments, environment }: &Above) -> bool {
    let names_run = |entry: &Vec<u8>| {
        let value = entry.strip_prefix(RUN.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
        value.is_some_and(|value| !value.is_empty())
    };
    let carries_out = arguments.windows(2).any(|pair| match (pair[0].as_slice(), pair[1].as_slice()) {
        (b"flow", verb) => verb == b"step" || verb == b"recover",
        (b"orch", verb) => verb == b"turn" || verb == b"recover",
        _ => false,
    });
    carries_out || environment.iter().any(names_run)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CONTRACT 22.6
    #[test]
    fn a_turn_is_carried_out_by_the_process_with_its_id() {
        let texts = |all: &[&str]| all.iter().map(|text| text.as_bytes().to_vec()).collect::<Vec<_>>();
        for (arguments, environment, id) in [
            (&["/bin/aynig", "orch", "turn"][..], &["A=b", "AYNIG_RUN_ID=1"][..], Some("1")),
            (&["/bin/aynig", "orch", "turn"], &[], Some("")),
            (&["/bin/aynig", "orch", "recover"], &["AYNIG_RUN_ID=1"], None),
            (&["sh"], &["AYNIG_RUN_ID=1"], None),
        ] {
            let process = Above { arguments: texts(arguments), environment: texts(environment) };
            assert_eq!(carries_out(&process), id.map(str::as_bytes), "{arguments:?} {environment:?}");
        }
    }

    /// CONTRACT 20.32
    #[test]
    fn what_belongs_to_a_step() {
        let texts = |all: &[&str]| all.iter().map(|text| text.as_bytes().to_vec()).collect::<Vec<_>>();
        for (arguments, environment, inside) in [
            (&["/bin/aynig", "flow", "step"][..], &["A=b"][..], true),
            (&["aynig", "flow", "recover", ""], &[], true),
            (&["aynig", "orch", "turn"], &[], true),
            (&["aynig", "orch", "recover"], &[], true),
            (&["aynig", "orch", "step"], &[], false),
            (&["sh"], &["A=b", "AYNIG_ORCH_RUN=1"], true),
            (&["sh"], &["AYNIG_ORCH_RUN=", ""], false),
            (&["aynig", "flow", "show", "step"], &["X_AYNIG_ORCH_RUN=1"], false),
            (&[], &[], false),
        ] {
            let process = Above { arguments: texts(arguments), environment: texts(environment) };
            assert_eq!(is_of_step(&process), inside, "{arguments:?} {environment:?}");
        }
    }
}
