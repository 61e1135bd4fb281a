//! Runs one turn.

use std::time::Duration;

use super::turn::{Ended, How, Turn};

/// Runs a turn to its end; blocks until then. There are no errors: whatever happens is a value of [`How`].
#[must_use]
pub fn run(turn: &Turn<'_>) -> Ended {
    let kind = turn.provider.kind.word();
    unavailable(format!("this version of aynig cannot run providers of the kind {kind}"))
}

fn unavailable(why: String) -> Ended {
    Ended {
        evidence: why.clone(),
        how: How::Unavailable(why),
        outage: false,
        final_text: None,
        usage: None,
        session: None,
        model: None,
        version: None,
        argv: Vec::new(),
        exit: None,
        elapsed: Duration::ZERO,
    }
}
