//! The reflog of a checkout's HEAD, and what it proves: which commits were made in that checkout,
//! and which of them it left.
//!
//! Invariant: a commit counts as made here only if the reflog leads from it back to the lease,
//! entry by entry. A commit that reached the branch by any other way was made elsewhere (CONTRACT
//! 5.10, 6.12).

use bstr::{BString, ByteSlice};

use super::ids::CommitId;

/// The message of the entry that a push to a checked-out branch leaves. HEAD moved, but not from
/// inside the checkout.
const PUSHED: &[u8] = b"push";

/// One entry of the reflog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Moved {
    /// The old HEAD; a null id in the first entry.
    pub(crate) from: CommitId,
    /// The new HEAD.
    pub(crate) to: CommitId,
    /// Who moved HEAD: name and address, and the time.
    pub(crate) who: BString,
    /// The message, as the program that moved HEAD wrote it (`commit: …`, `reset: …`).
    pub(crate) how: BString,
}

/// Where the commits of a HEAD come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// From the attempt: its runner, its command, or a process that its command started.
    Here,
    /// Unknown: the reflog does not reach back far enough.
    Unknown,
    /// From elsewhere: this is the newest commit that was not made here.
    Elsewhere(CommitId),
}

/// Parses a reflog, oldest entry first. Skips lines that are not entries.
pub(crate) fn read(log: &[u8]) -> Vec<Moved> {
    log.lines().filter_map(entry).collect()
}

/// `<from> SP <to> SP <who> SP <seconds> SP <zone> TAB <how>`
fn entry(line: &[u8]) -> Option<Moved> {
    let (facts, how) = line.split_once_str("\t").unwrap_or((line, b""));
    let mut words = facts.splitn(3, |byte| *byte == b' ');
    let (from, to) = (CommitId::parse_hex(words.next()?)?, CommitId::parse_hex(words.next()?)?);
    Some(Moved { from, to, who: words.next().unwrap_or_default().into(), how: how.into() })
}

/// Follows `head` back to `lease`, by the entries of `log` and by commits of the lease's own
/// attempt, such as renewals: `renewed` returns the parent of such a commit. They move the branch
/// without the checkout, so its reflog lacks them.
pub(crate) fn origin(
    head: CommitId,
    lease: CommitId,
    log: &[Moved],
    renewed: impl Fn(CommitId) -> Option<CommitId>,
) -> Origin {
    let (mut at, mut rest) = (head, log);
    loop {
        if at == lease {
            return Origin::Here;
        }
        if let Some(found) = rest.iter().rposition(|moved| moved.to == at && moved.how != PUSHED) {
            (at, rest) = (rest[found].from, &rest[..found]);
        } else if let Some(parent) = renewed(at) {
            at = parent;
        } else {
            // A complete reflog begins with the lease, or earlier in a checkout that existed
            // before.
            return if rest.is_empty() { Origin::Unknown } else { Origin::Elsewhere(at) };
        }
    }
}

/// Message prefixes of entries that add a commit on top, or replace one by its amendment.
const GROWTH: [&[u8]; 7] = [b"am:", b"aynig", b"cherry-pick", b"commit", b"merge", b"pull", b"revert"];

/// Message prefixes of entries that move HEAD to an existing commit.
const VISITS: [&[u8]; 4] = [b"aynig", b"checkout", b"push", b"reset"];

/// The begin of the text after which the entry of a rebase's end names the branch that it rebased.
const RETURNS: &[u8] = b"returning to ";

/// One step of a rebase, of `git rebase` or of `git pull --rebase`, as the entry names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rebase<'a> {
    /// HEAD goes to the new base. What it leaves is the rebased branch or, for `git rebase BASE BRANCH`, something else.
    Start,
    /// A commit is copied as it is.
    Pick,
    /// A commit is copied with changes of the caller's, or changed.
    Change,
    /// HEAD goes back to the branch that has the copies now.
    Finish(&'a [u8]),
    /// HEAD goes back, and all copies are left.
    Abort,
    /// Anything else.
    Other,
}

impl Moved {
    /// `<action> (<step>): <more>`; the action has the arguments of a pull. `None` if it is of no rebase.
    fn of_rebase(&self) -> Option<Rebase<'_>> {
        let is_pull = self.how.starts_with(b"pull");
        if !is_pull && !self.how.starts_with(b"rebase") {
            return None;
        }
        let step = self.how.split_once_str(" (").and_then(|(_, rest)| rest.split_once_str("): "));
        Some(match step {
            Some((b"start", _)) => Rebase::Start,
            Some((b"pick", _)) => Rebase::Pick,
            Some((b"reword" | b"edit" | b"squash" | b"fixup" | b"merge" | b"continue", _)) => Rebase::Change,
            Some((b"finish", more)) => Rebase::Finish(more.strip_prefix(RETURNS).unwrap_or(more)),
            Some((b"abort", _)) => Rebase::Abort,
            // `git pull` without a rebase names no step.
            None if is_pull => return None,
            // Instead of copies.
            None if self.how.ends_with(b": fast-forward") => Rebase::Pick,
            Some(_) | None => Rebase::Other,
        })
    }

    fn begins(&self, words: &[&[u8]]) -> bool {
        words.iter().any(|word| self.how.starts_with(word))
    }

    /// Whether HEAD moved away from a commit that nothing replaced. `log` is the whole log, with this entry at `at`;
    /// `was_at` is that of [`left`].
    fn leaves(&self, log: &[Self], at: usize, was_at: &impl Fn(&[u8], CommitId) -> bool) -> bool {
        match self.of_rebase() {
            None => !self.begins(&GROWTH),
            Some(Rebase::Pick | Rebase::Change) => false,
            Some(Rebase::Start) => {
                let mut rest = log[at + 1..].iter().filter_map(Self::of_rebase);
                match rest.find(|step| matches!(step, Rebase::Start | Rebase::Finish(_) | Rebase::Abort)) {
                    Some(Rebase::Finish(branch)) => !was_at(branch, self.from),
                    _ => true,
                }
            }
            Some(Rebase::Abort | Rebase::Finish(_) | Rebase::Other) => true,
        }
    }
}

/// The copies that an aborted rebase left, if it is the newest entry that left `commit` and nothing but copies was made
/// in it. What they are copies of tells whether a conflict in one was resolved: some logs do not.
pub(crate) fn copies(log: &[Moved], commit: CommitId) -> Option<Vec<CommitId>> {
    let aborted = log.iter().rposition(|moved| moved.from == commit && moved.to != commit)?;
    if log[aborted].of_rebase() != Some(Rebase::Abort) {
        return None;
    }
    let before = log[..aborted].iter().rev();
    let since: Vec<&Moved> = before.take_while(|moved| moved.of_rebase() != Some(Rebase::Start)).collect();
    // Before the first copy, `commit` is the base, which may have been made here.
    let are_copies = !since.is_empty() && since.iter().all(|moved| moved.of_rebase() == Some(Rebase::Pick));
    are_copies.then(|| since.iter().map(|moved| moved.to).collect())
}

/// Returns the commits that were made in this checkout and that HEAD then left, oldest first. A
/// branch may still contain them. `was_at` returns whether a ref (`refs/heads/x`) was at a commit, by its log.
pub(crate) fn left(log: &[Moved], was_at: impl Fn(&[u8], CommitId) -> bool) -> Vec<CommitId> {
    let is_made = |moved: &Moved| !moved.begins(&VISITS) && !moved.how.ends_with(b"Fast-forward");
    let mut found = Vec::new();
    for (at, moved) in log.iter().enumerate() {
        // The first entry is the creation of the checkout.
        let mut before = log[..at].iter().skip(1);
        if moved.from != moved.to
            && !found.contains(&moved.from)
            && before.any(|made| made.to == moved.from && is_made(made))
            && moved.leaves(log, at, &was_at)
        {
            found.push(moved.from);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u8) -> CommitId {
        CommitId::from_bytes(&[number; 20]).unwrap()
    }

    fn log(entries: &[(u8, u8, &str)]) -> Vec<Moved> {
        let moved = |(from, to, how): &(u8, u8, &str)| Moved {
            from: id(*from),
            to: id(*to),
            who: BString::default(),
            how: BString::from(*how),
        };
        entries.iter().map(moved).collect()
    }

    #[test]
    fn entries_are_read() {
        let line = format!("{} {} A B <a@example.com> 5 +0000\tcommit: x\ty\n", id(0), id(1));
        let text = format!("{line}nonsense\n{} {} A <a> 6 +0000\n", id(1), id(2));
        let mut read = read(text.as_bytes());
        let whose: Vec<BString> = read.iter_mut().map(|moved| std::mem::take(&mut moved.who)).collect();
        assert_eq!(whose, ["A B <a@example.com> 5 +0000", "A <a> 6 +0000"]);
        assert_eq!(read, log(&[(0, 1, "commit: x\ty"), (1, 2, "")]));
    }

    #[test]
    fn what_was_left() {
        let begun = (0, 1, "aynig: a worktree");
        let made = (1, 2, "commit: a");
        const START: (u8, u8, &str) = (2, 9, "rebase (start): checkout x");
        const PICK: (u8, u8, &str) = (9, 3, "rebase (pick): a");
        const FINISH: &str = "rebase (finish): returning to refs/heads/own";
        const ABORT: &str = "rebase (abort): returning to refs/heads/own";
        type Row = (&'static str, Vec<(u8, u8, &'static str)>, &'static [u8]);
        let rows: [Row; 24] = [
            ("nothing yet", vec![begun], &[]),
            ("nothing but commits", vec![begun, made, (2, 3, "commit: b")], &[]),
            ("a reset", vec![begun, made, (2, 1, "reset: moving to HEAD^")], &[2]),
            ("a checkout", vec![begun, made, (2, 1, "checkout: moving from x to y")], &[2]),
            ("a ref that was moved", vec![begun, made, (2, 1, "")], &[2]),
            ("twice", vec![begun, made, (2, 1, "reset: x"), (1, 2, "reset: x"), (2, 1, "reset: x")], &[2]),
            ("two", vec![begun, made, (2, 1, "reset: x"), (1, 3, "commit: b"), (3, 1, "reset: x")], &[2, 3]),
            ("an amended commit", vec![begun, made, (2, 3, "commit (amend): a")], &[]),
            ("a renewal", vec![begun, made, (2, 3, "aynig: renew the lease")], &[]),
            ("a rebase of a branch", vec![begun, made, START, PICK, (3, 3, FINISH)], &[]),
            (
                "a pull",
                vec![
                    begun,
                    made,
                    (2, 9, "pull --rebase . x (start): checkout x"),
                    (9, 3, "pull --rebase . x (pick): a"),
                    (3, 3, "pull --rebase . x (finish): returning to refs/heads/own"),
                ],
                &[],
            ),
            (
                "a rebase of another branch",
                vec![begun, (1, 4, "commit: b"), (4, 9, "rebase (start): checkout x"), PICK, (3, 3, FINISH)],
                &[4],
            ),
            ("a rebase without a branch", vec![begun, made, START, PICK], &[2]),
            ("a rebase under way", vec![begun, made, START], &[2]),
            ("an aborted rebase", vec![begun, made, START, PICK, (3, 2, ABORT)], &[2, 3]),
            ("a commit in it", vec![begun, made, START, PICK, (3, 4, "commit: c"), (4, 2, ABORT)], &[2, 4]),
            (
                "a conflict in it",
                vec![begun, made, START, (9, 4, "rebase (continue): c"), (4, 2, ABORT)],
                &[2, 4],
            ),
            (
                "a label in it",
                vec![begun, made, START, PICK, (3, 9, "rebase (reset): 'onto'"), (9, 2, ABORT)],
                &[2, 3, 9],
            ),
            ("patches that were taken back", vec![begun, (1, 4, "am: a"), (4, 1, "am --abort")], &[4]),
            ("patches", vec![begun, (1, 4, "am: a"), (4, 5, "am: b")], &[]),
            (
                "a merge that was pulled",
                vec![begun, made, (2, 9, "pull . x: Merge made by the 'ort' strategy.")],
                &[],
            ),
            ("a visit", vec![begun, (1, 9, "checkout: x"), (9, 1, "checkout: y")], &[]),
            ("a fast-forward", vec![begun, (1, 9, "pull: Fast-forward"), (9, 1, "reset: y")], &[]),
            ("the lease", vec![begun, (1, 9, "checkout: x")], &[]),
        ];
        for (what, entries, expected) in rows {
            let expected: Vec<CommitId> = expected.iter().map(|number| id(*number)).collect();
            let was_at = |name: &[u8], commit| name == b"refs/heads/own" && commit == id(2);
            assert_eq!(left(&log(&entries), was_at), expected, "{what}");
        }
    }

    #[test]
    fn what_an_aborted_rebase_copied() {
        let start = (2, 9, "rebase (start): checkout x");
        let abort = |from| (from, 2, "rebase (abort): returning to refs/heads/own");
        let pick = |from, to| (from, to, "rebase (pick): a");
        for (what, entries, commit, expected) in [
            ("copies", vec![start, pick(9, 3), pick(3, 4), abort(4)], 4, Some(vec![4, 3])),
            ("its base", vec![start, abort(9)], 9, None),
            ("the base of copies", vec![start, pick(9, 3), abort(3)], 9, None),
            ("a change", vec![start, pick(9, 3), (3, 4, "rebase (continue): b"), abort(4)], 4, None),
            ("a reset", vec![(1, 3, "commit: a"), (3, 1, "reset: x")], 3, None),
        ] {
            let expected = expected.map(|all| all.into_iter().map(id).collect::<Vec<_>>());
            assert_eq!(copies(&log(&entries), id(commit)), expected, "{what}");
        }
    }

    #[test]
    fn whose_a_head_is() {
        const LEASE: u8 = 1;
        let begun = (0, LEASE, "aynig: a worktree");
        // Commits from 50 on are renewals, each of the commit 50 below it.
        type Row = (&'static str, u8, Vec<(u8, u8, &'static str)>, Origin);
        let rows: [Row; 16] = [
            ("the lease", LEASE, vec![begun], Origin::Here),
            ("the lease, without a log", LEASE, vec![], Origin::Here),
            ("a commit of the command", 2, vec![begun, (LEASE, 2, "commit: a")], Origin::Here),
            ("two of them", 3, vec![begun, (LEASE, 2, "commit: a"), (2, 3, "commit: b")], Origin::Here),
            ("a renewal", 51, vec![begun], Origin::Here),
            ("a renewal of a commit", 52, vec![begun, (LEASE, 2, "commit: a")], Origin::Here),
            ("a commit on a renewal", 3, vec![begun, (51, 3, "commit: a")], Origin::Here),
            (
                "a commit that was left and taken again",
                2,
                vec![begun, (LEASE, 2, "commit: a"), (2, LEASE, "reset: x"), (LEASE, 2, "reset: y")],
                Origin::Here,
            ),
            ("somebody's commit", 9, vec![begun], Origin::Elsewhere(id(9))),
            ("a renewal on top of it", 59, vec![begun], Origin::Elsewhere(id(9))),
            (
                "a commit of the command on top of it",
                3,
                vec![begun, (9, 3, "commit: a")],
                Origin::Elsewhere(id(9)),
            ),
            (
                "a checkout that only looked at it",
                9,
                vec![begun, (9, 9, "reset: moving to HEAD")],
                Origin::Elsewhere(id(9)),
            ),
            (
                "one that the command merged",
                3,
                vec![begun, (LEASE, 9, "pull: Fast-forward"), (9, 3, "commit: a")],
                Origin::Here,
            ),
            ("a push into a checkout", 9, vec![begun, (LEASE, 9, "push")], Origin::Elsewhere(id(9))),
            ("no log at all", 9, vec![], Origin::Unknown),
            ("a log whose beginning is gone", 3, vec![(2, 3, "commit: b")], Origin::Unknown),
        ];
        for (what, head, entries, expected) in rows {
            let renewed = |commit: CommitId| (50..100).find(|n| id(*n) == commit).map(|n| id(n - 50));
            assert_eq!(origin(id(head), id(LEASE), &log(&entries), renewed), expected, "{what}");
        }
    }
}
