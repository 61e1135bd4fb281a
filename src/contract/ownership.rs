//! Decides from a branch's current HEAD whether an attempt may still write on it (CONTRACT 5.10,
//! 6.8, 6.9).
//!
//! Invariant: unless the answer is [`Ownership::Ours`], nothing may be written on top. The answer
//! may be outdated at once; the compare-and-swap that follows makes it safe.

use bstr::BString;

use super::commits::{OVERRIDES_KEY, stalled_run};
use super::head::Head;
use super::ids::{AttemptId, StateName};

/// How the branch relates to the attempt that leased it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// HEAD is the lease, a renewal of it, or commits without a state on top of it.
    Ours,
    /// The command, or a process it started, declared the next state itself: the attempt is over.
    AdvancedByCommand { state: StateName },
    /// The state was set over the lease by force (CONTRACT 5.25).
    Overridden { state: StateName },
    /// Another runner found the lease expired and closed this attempt.
    Recovered,
    /// Another attempt holds the lease.
    TakenOver {
        /// Its runner, as written; empty if absent.
        by: BString,
    },
    /// HEAD does not descend from the lease: the branch was rewound or replaced.
    Rewound,
    /// The branch no longer exists.
    Gone,
}

/// Judges the branch's current HEAD. `head` is `None` for a deleted branch; the bool is whether
/// HEAD is the lease commit or descends from it.
pub(crate) fn ownership(ours: AttemptId, head: Option<(&Head, bool)>) -> Ownership {
    let Some((head, descends)) = head else { return Ownership::Gone };
    if !descends {
        return Ownership::Rewound;
    }
    match head {
        // A command's own commits declare no state, or an invalid one, which counts as none.
        Head::Unmanaged | Head::Invalid(_) => Ownership::Ours,
        Head::Working(lease) if lease.attempt() == Some(ours) => Ownership::Ours,
        Head::Working(lease) => Ownership::TakenOver { by: lease.runner.clone() },
        Head::Ready(event) => {
            let closed = stalled_run(&event.message.trailers).and_then(|run| AttemptId::parse(run));
            if event.state.is_stalled() && closed == Some(ours) {
                Ownership::Recovered
            } else if event.message.trailers.last(OVERRIDES_KEY).and_then(|run| AttemptId::parse(run))
                == Some(ours)
            {
                Ownership::Overridden { state: event.state.clone() }
            } else {
                Ownership::AdvancedByCommand { state: event.state.clone() }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::head::CommitFacts;
    use super::super::ids::CommitId;
    use super::*;

    /// CONTRACT 5.10, 5.25, 6.8, 6.9
    #[test]
    fn table() {
        let ours = AttemptId::random();
        let other = AttemptId::random();
        let advanced = |state| Ownership::AdvancedByCommand { state: StateName::parse(state).unwrap() };
        let rows = [
            (String::from("x: y"), Ownership::Ours),
            (String::from("dwp-state: ../x"), Ownership::Ours),
            (format!("dwp-state: working\ndwp-run-id: {ours}"), Ownership::Ours),
            (
                format!("dwp-state: working\ndwp-run-id: {other}\ndwp-runner-id: h"),
                Ownership::TakenOver { by: BString::from("h") },
            ),
            (String::from("dwp-state: working"), Ownership::TakenOver { by: BString::default() }),
            (String::from("dwp-state: review"), advanced("review")),
            (format!("dwp-state: review\ndwp-stalled-run: {ours}"), advanced("review")),
            (format!("dwp-state: stalled\ndwp-stalled-run: {ours}"), Ownership::Recovered),
            (format!("dwp-state: stalled\ndwp-stalled-run: {other}"), advanced("stalled")),
            (String::from("dwp-state: stalled"), advanced("stalled")),
            (
                format!("dwp-state: a\naynig-overrides: {ours}"),
                Ownership::Overridden { state: StateName::parse("a").unwrap() },
            ),
            (format!("dwp-state: a\naynig-overrides: {other}"), advanced("a")),
        ];
        let id = CommitId::from_bytes(&[7; 20]).unwrap();
        for (trailers, expected) in rows {
            let message = format!("s\n\n{trailers}\n");
            let head = Head::read(&CommitFacts { id, committed_at: 1, message: message.as_bytes() });
            assert_eq!(ownership(ours, Some((&head, true))), expected, "{trailers}");
            assert_eq!(ownership(ours, Some((&head, false))), Ownership::Rewound, "{trailers}");
        }
        assert_eq!(ownership(ours, None), Ownership::Gone);
    }
}
