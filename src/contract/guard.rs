//! Decides which pushes a server refuses, so that no client breaks a lease (section 12 of
//! CONTRACT.md).
//!
//! Invariants: a branch that is not under a live lease, and is not put under one, is never refused.
//! Nothing that a runner, `set-state` or `set-working` pushes by the contract is refused. Only the
//! HEADs before and after the push are judged, never the commits between them (CONTRACT 12.1).

use std::collections::HashSet;

use bstr::{BStr, BString, ByteSlice};

use super::head::Head;
use super::ids::{CommitId, StateName};
use super::lease::{Lease, Liveness, MAX_LEASE_SECONDS};

/// A HEAD as the server sees it, before or after the push.
#[derive(Debug, Clone)]
pub struct Tip {
    /// The commit.
    pub(crate) id: CommitId,
    /// Its parents in order.
    pub(crate) parents: Vec<CommitId>,
    /// Its meaning.
    pub head: Head,
    /// The attempts it names: the last `dwp-run-id` trailer, and the header [`RUN_ID_HEADER`].
    pub(crate) run_ids: Vec<BString>,
}

/// The commit header by which a result names its attempt, so that its message need not (CONTRACT
/// 12.4).
pub(crate) const RUN_ID_HEADER: &str = "aynig-run-id";

/// The push option (`git push -o`) by which a push names an attempt (CONTRACT 12.3).
pub const RUN_ID_OPTION: &str = "aynig-run-id=";

/// Why a push breaks the contract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    /// The branch is under a live lease.
    Held {
        /// The push's effect on the branch.
        how: Breach,
        /// The holder's runner id, as written; empty if the lease has none.
        runner: BString,
        /// The holder's run id, as written.
        run_id: BString,
        /// The state it works on.
        origin: Option<StateName>,
        /// Seconds left of the lease.
        left: u64,
    },
    /// A new lease whose parent is not the server's HEAD.
    NotOnHead {
        /// The lease's first parent, if it has one.
        parent: Option<CommitId>,
        /// The server's HEAD; `None` for a new branch.
        head: Option<CommitId>,
    },
    /// A lease dated by a clock that is off.
    OffClock {
        /// The committer date, seconds since the epoch.
        dated: i64,
        /// The server's clock, seconds since the epoch.
        now: i64,
    },
    /// A lease that lasts longer than [`MAX_LEASE_SECONDS`].
    TooLong {
        /// Its length, in seconds.
        seconds: u64,
    },
}

/// The effect of a push on a branch under a live lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breach {
    /// Pushed a commit on top that does not name the attempt.
    WithoutRunId,
    /// Pushed a commit that does not descend from HEAD.
    Rewind,
    /// Deleted the branch.
    Deletion,
    /// Pushed a commit without a good signature, where the server requires one.
    Unsigned,
}

/// The facts by which a push is judged, besides its commits.
#[derive(Debug, Clone, Copy)]
pub struct Server<'a> {
    /// The run ids that the push names by options.
    pub shown: &'a [BString],
    /// New HEADs without a good signature, where the server requires one. A run id can be read by
    /// everyone: it prevents mistakes, and only a signature stops an attacker (CONTRACT 12.9).
    pub refused: &'a HashSet<CommitId>,
    /// The server's clock, seconds since the epoch.
    pub now: i64,
    /// The greatest accepted difference between a lease's date and that clock, in seconds.
    pub tolerance: u64,
}

/// Judges one branch of a push. `old` and `new` are `None` if the branch does not exist on that
/// side. `descends` is whether `new` descends from `old`; `server` is shared by all branches of the
/// push.
pub fn judge(
    old: Option<&Tip>,
    new: Option<&Tip>,
    descends: bool,
    server: &Server<'_>,
) -> Result<(), Violation> {
    let Server { shown, refused, now, tolerance } = *server;
    let lease = old.and_then(|old| live(old, now));
    if let Some((lease, left)) = lease {
        let held = |how| {
            Err(Violation::Held {
                how,
                runner: lease.runner.clone(),
                run_id: lease.run_id.clone(),
                origin: lease.origin.clone(),
                left,
            })
        };
        let Some(new) = new else { return held(Breach::Deletion) };
        if !descends {
            return held(Breach::Rewind);
        }
        if !names(new, shown, lease.run_id.as_bstr()) {
            return held(Breach::WithoutRunId);
        }
        if refused.contains(&new.id) {
            return held(Breach::Unsigned);
        }
    }
    let Some(new) = new else { return Ok(()) };
    let Head::Working(claimed) = &new.head else { return Ok(()) };
    if !lies_on(old, new, descends, claimed) {
        return Err(Violation::NotOnHead {
            parent: new.parents.first().copied(),
            head: old.map(|old| old.id),
        });
    }
    if claimed.committed_at.abs_diff(now) > tolerance {
        return Err(Violation::OffClock { dated: claimed.committed_at, now });
    }
    if claimed.seconds > MAX_LEASE_SECONDS {
        return Err(Violation::TooLong { seconds: claimed.seconds });
    }
    Ok(())
}

fn live(tip: &Tip, now: i64) -> Option<(&Lease, u64)> {
    let Head::Working(lease) = &tip.head else { return None };
    match lease.liveness(now) {
        Liveness::Live { left } => Some((lease, left)),
        Liveness::Expired { .. } => None,
    }
}

/// Whether a push names this run id. Any push may continue a lease that has none.
fn names(new: &Tip, shown: &[BString], run_id: &BStr) -> bool {
    run_id.is_empty() || new.run_ids.iter().chain(shown).any(|shown| shown == run_id)
}

/// Whether a new lease has the old HEAD as its only parent. A renewal may lie on the holder's own
/// commits instead.
fn lies_on(old: Option<&Tip>, new: &Tip, descends: bool, claimed: &Lease) -> bool {
    let Some(old) = old else { return false };
    let renewal = matches!(&old.head, Head::Working(lease) if lease.run_id == claimed.run_id && !lease.run_id.is_empty());
    if renewal && descends { true } else { new.parents == [old.id] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::head::CommitFacts;

    const NOW: i64 = 10_000;

    fn id(number: u8) -> CommitId {
        CommitId::from_bytes(&[number; 20]).expect("20 bytes")
    }

    /// A commit with this number, on top of the one before it.
    fn tip(number: u8, at: i64, trailers: &str) -> Tip {
        let message = format!("s\n\n{trailers}\n");
        let facts = CommitFacts { id: id(number), committed_at: at, message: message.as_bytes() };
        let run_ids =
            trailers.lines().filter_map(|line| line.strip_prefix("dwp-run-id: ")).map(BString::from);
        Tip {
            id: id(number),
            parents: vec![id(number - 1)],
            head: Head::read(&facts),
            run_ids: run_ids.collect(),
        }
    }

    fn lease(number: u8, at: i64, run: &str) -> Tip {
        tip(
            number,
            at,
            &format!("dwp-state: working\ndwp-run-id: {run}\ndwp-lease-seconds: 100\ndwp-runner-id: host"),
        )
    }

    /// A lease dated now.
    fn lasting(number: u8, run: &str, seconds: u64) -> Tip {
        let trailers = format!("dwp-state: working\ndwp-run-id: {run}\ndwp-lease-seconds: {seconds}");
        tip(number, NOW, &trailers)
    }

    fn server<'a>(shown: &'a [BString], refused: &'a HashSet<CommitId>) -> Server<'a> {
        Server { shown, refused, now: NOW, tolerance: 60 }
    }

    fn verdict(old: Option<&Tip>, new: Option<&Tip>, descends: bool) -> &'static str {
        match judge(old, new, descends, &server(&[], &HashSet::new())) {
            Ok(()) => "fine",
            Err(Violation::Held { how: Breach::WithoutRunId, .. }) => "held",
            Err(Violation::Held { how: Breach::Rewind, .. }) => "rewind",
            Err(Violation::Held { how: Breach::Deletion, .. }) => "deletion",
            Err(Violation::Held { how: Breach::Unsigned, .. }) => "unsigned",
            Err(Violation::NotOnHead { .. }) => "not on head",
            Err(Violation::OffClock { .. }) => "clock",
            Err(Violation::TooLong { .. }) => "too long",
        }
    }

    /// CONTRACT 12.2, 12.3, 12.5, 12.6, 12.10
    #[test]
    fn table() {
        let plain = tip(5, NOW, "");
        let ready = tip(5, NOW, "dwp-state: build");
        let live = lease(5, NOW - 50, "a");
        let dead = lease(5, NOW - 500, "a");
        let mut result = tip(6, NOW, "dwp-state: done");
        let rows = [
            ("a new branch", None, Some(&ready), false, "fine"),
            ("a new branch under a lease", None, Some(&live), false, "not on head"),
            ("an unmanaged branch forced", Some(&plain), Some(&ready), false, "fine"),
            ("a waiting branch forced", Some(&ready), Some(&plain), false, "fine"),
            ("a waiting branch deleted", Some(&ready), None, false, "fine"),
            ("a claim", Some(&ready), Some(&lease(6, NOW, "b")), true, "fine"),
            ("a claim above something else", Some(&ready), Some(&lease(7, NOW, "b")), true, "not on head"),
            ("an early claim", Some(&ready), Some(&lease(6, NOW - 61, "b")), true, "clock"),
            ("a late claim", Some(&ready), Some(&lease(6, NOW + 61, "b")), true, "clock"),
            ("a claim within the tolerance", Some(&ready), Some(&lease(6, NOW + 60, "b")), true, "fine"),
            ("a claim for a year", Some(&ready), Some(&lasting(6, "b", MAX_LEASE_SECONDS)), true, "fine"),
            ("a longer claim", Some(&ready), Some(&lasting(6, "b", MAX_LEASE_SECONDS + 1)), true, "too long"),
            ("a longer renewal", Some(&live), Some(&lasting(6, "a", u64::MAX)), true, "too long"),
            ("a renewal", Some(&live), Some(&lease(6, NOW, "a")), true, "fine"),
            ("a renewal above own commits", Some(&live), Some(&lease(9, NOW, "a")), true, "fine"),
            ("a renewal dated ahead", Some(&live), Some(&lease(6, NOW + 99, "a")), true, "clock"),
            ("a second claim", Some(&live), Some(&lease(6, NOW, "b")), true, "held"),
            ("a result that does not say whose", Some(&live), Some(&result), true, "held"),
            ("a plain commit", Some(&live), Some(&tip(6, NOW, "")), true, "held"),
            (
                "a recovery too early",
                Some(&live),
                Some(&tip(6, NOW, "dwp-state: stalled\ndwp-stalled-run: a")),
                true,
                "held",
            ),
            ("a rewind", Some(&live), Some(&ready), false, "rewind"),
            ("a deletion", Some(&live), None, false, "deletion"),
            (
                "a recovery",
                Some(&dead),
                Some(&tip(6, NOW, "dwp-state: stalled\ndwp-stalled-run: a")),
                true,
                "fine",
            ),
            ("a late renewal", Some(&dead), Some(&lease(9, NOW, "a")), true, "fine"),
            ("a dead lease rewound", Some(&dead), Some(&ready), false, "fine"),
            ("a claim over a dead lease", Some(&dead), Some(&lease(6, NOW, "b")), true, "fine"),
        ];
        for (what, old, new, descends, expected) in rows {
            assert_eq!(verdict(old, new, descends), expected, "{what}");
        }
        result.run_ids = vec!["a".into()];
        assert_eq!(verdict(Some(&live), Some(&result), true), "fine");
        result.run_ids.clear();
        let (shown, mut refused) = (["a".into()], HashSet::new());
        assert_eq!(judge(Some(&live), Some(&result), true, &server(&shown, &refused)), Ok(()));
        refused.insert(result.id);
        let Err(Violation::Held { how, .. }) =
            judge(Some(&live), Some(&result), true, &server(&shown, &refused))
        else {
            panic!("a run id is not enough")
        };
        assert_eq!(how, Breach::Unsigned);
        for old in [&dead, &ready] {
            assert_eq!(judge(Some(old), Some(&result), true, &server(&[], &refused)), Ok(()));
        }
        let nameless = tip(5, NOW, "dwp-state: working");
        assert_eq!(verdict(Some(&nameless), Some(&result), true), "fine");
    }

    /// CONTRACT 12.7
    #[test]
    fn the_holder_is_named() {
        let live = tip(
            5,
            NOW - 50,
            "dwp-state: working\ndwp-run-id: a\ndwp-runner-id: h\ndwp-origin-state: build\ndwp-lease-seconds: 100",
        );
        let Err(Violation::Held { how, runner, run_id, origin, left }) =
            judge(Some(&live), None, false, &server(&[], &HashSet::new()))
        else {
            panic!("it is held")
        };
        assert_eq!((how, runner, run_id, left), (Breach::Deletion, "h".into(), "a".into(), 50));
        assert_eq!(origin, StateName::parse("build").ok());
    }
}
