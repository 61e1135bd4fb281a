//! Decides which pushes to ledgers a server refuses (CONTRACT 12.12).
//!
//! Invariant: a ledger that a server has is never lost by a push. It moves forward, or goes to the archive in the push
//! that deletes it.

use bstr::BString;

use super::ids::CommitId;
use super::layout::{RUNS, archived_ledger};

/// One ref of a push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    /// The full name.
    pub name: BString,
    /// Its value on the server; `None`: it does not exist.
    pub old: Option<CommitId>,
    /// Its value after the push; `None`: it is deleted.
    pub new: Option<CommitId>,
}

/// How a push breaks a ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breach {
    /// It deletes the ledger, and does not archive all of it.
    Deleted,
    /// It takes operations away.
    Rewound,
}

/// Judges all refs of a push. Returns the ledgers that it breaks. `descends(new, old)` is whether `new` is `old` or
/// descends from it.
///
/// # Errors
/// Those of `descends`.
pub fn judge<E>(
    updates: &[Update],
    descends: impl Fn(CommitId, CommitId) -> Result<bool, E>,
) -> Result<Vec<(BString, Breach)>, E> {
    let mut broken = Vec::new();
    for Update { name, old, new } in updates {
        let (Some(run), Some(old)) = (name.strip_prefix(RUNS.as_bytes()), *old) else { continue };
        let (next, breach) = match new {
            Some(new) => (Some(*new), Breach::Rewound),
            None => {
                let archive = archived_ledger(BString::from(run));
                let kept = updates.iter().find(|update| update.name == archive);
                (kept.and_then(|update| update.new), Breach::Deleted)
            }
        };
        let is_whole = match next {
            Some(next) => descends(next, old)?,
            None => false,
        };
        if !is_whole {
            broken.push((name.clone(), breach));
        }
    }
    Ok(broken)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn id(number: u8) -> CommitId {
        CommitId::from_bytes(&[number; 20]).expect("20 bytes")
    }

    fn update(name: &str, old: u8, new: u8) -> Update {
        let some = |number: u8| (number > 0).then(|| id(number));
        Update { name: name.into(), old: some(old), new: some(new) }
    }

    /// CONTRACT 12.12
    #[test]
    fn table() {
        let (a, b) = ("refs/aynig/runs/a", "refs/aynig/runs/b");
        let archived = "refs/aynig/archive/a/@ledger";
        let (deleted, rewound) = (Some(Breach::Deleted), Some(Breach::Rewound));
        // A commit descends from those with smaller numbers.
        let rows = [
            ("a new ledger", vec![update(a, 0, 5)], None),
            ("an operation", vec![update(a, 5, 6)], None),
            ("a rewind", vec![update(a, 5, 4)], rewound),
            ("a deletion", vec![update(a, 5, 0)], deleted),
            ("with its archive", vec![update(archived, 0, 6), update(a, 5, 0)], None),
            ("as it is", vec![update(a, 5, 0), update(archived, 0, 5)], None),
            ("with an older archive", vec![update(a, 5, 0), update(archived, 0, 4)], deleted),
            ("with another's archive", vec![update(b, 5, 0), update(archived, 0, 6)], deleted),
            ("with a deleted archive", vec![update(a, 5, 0), update(archived, 6, 0)], deleted),
            ("one that is not there", vec![update(a, 0, 0)], None),
            ("another ref", vec![update("refs/aynig/rescue/a", 5, 0)], None),
        ];
        for (what, updates, breach) in rows {
            let broken = judge(&updates, |new, old| Ok::<bool, Infallible>(new >= old));
            assert_eq!(broken.expect("no error").first().map(|(_, breach)| *breach), breach, "{what}");
        }
    }
}
