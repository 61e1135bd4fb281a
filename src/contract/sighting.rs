//! First sightings: how long this host has seen a lease at HEAD, for takeovers that do not trust
//! other clocks (CONTRACT 5.21, 5.22).
//!
//! Invariant: [`Watched::Over`] means that the same commit was at HEAD at two times further apart
//! than the lease is long. Both are readings of one clock that counts from the boot of this host.
//! So the holder, whatever its clock, had the whole lease to renew it. Any doubt (another boot, a
//! time in the future, an unreadable text) restarts the count, which can only delay a takeover.

use std::collections::BTreeMap;

use bstr::{BString, ByteSlice};

use super::ids::{BranchName, CommitId, RemoteName};

/// A commit seen at the HEAD of a branch.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sight {
    /// The branch's remote; `None` for a branch of this repository.
    pub(crate) remote: Option<RemoteName>,
    pub(crate) branch: BranchName,
    pub(crate) head: CommitId,
}

/// A reading of the clock that counts from the boot of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reading {
    /// The boot it counts from; readings of two boots cannot be compared.
    pub(crate) boot: String,
    /// Milliseconds since that boot, suspended time included.
    pub(crate) millis: u64,
}

/// First sightings, keyed by boot and sight; the values are milliseconds since that boot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sightings(BTreeMap<(String, Sight), u64>);

/// Whether a lease has been seen for longer than it lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watched {
    /// It has.
    Over {
        /// Whole seconds since the first sighting.
        seen: u64,
        /// The seconds it had to exceed.
        wanted: u64,
    },
    /// Not yet.
    Remaining {
        /// Whole seconds since the first sighting.
        seen: u64,
        /// The seconds it has to exceed.
        wanted: u64,
        /// Milliseconds missing.
        left: u64,
    },
}

/// Decides whether a lease is over: it was seen for more whole seconds than it lasts plus `margin`.
/// `first` and `now` are milliseconds since the same boot.
pub(crate) fn watched(first: u64, now: u64, lease_seconds: u64, margin: u64) -> Watched {
    let elapsed = now.saturating_sub(first);
    let (seen, wanted) = (elapsed / 1000, lease_seconds.saturating_add(margin));
    if seen > wanted {
        return Watched::Over { seen, wanted };
    }
    // Its last second has to pass as well.
    let left = wanted.saturating_add(1).saturating_mul(1000).saturating_sub(elapsed);
    Watched::Remaining { seen, wanted, left }
}

const HEADING: &str = "aynig sightings 1";
const NO_REMOTE: &str = "-";

impl Sightings {
    /// Parses the result of [`Sightings::encode`]; `None` for any other text.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let body = text.strip_suffix(b"\n")?;
        let mut lines = body.split(|byte| *byte == b'\n');
        if lines.next()? != HEADING.as_bytes() {
            return None;
        }
        lines.map(parse_row).collect::<Option<BTreeMap<_, _>>>().map(Self)
    }

    /// Formats one line per sighting: boot, milliseconds, commit, remote (`-` for none), branch.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut text = format!("{HEADING}\n").into_bytes();
        for ((boot, Sight { remote, branch, head }), millis) in &self.0 {
            let remote = remote.as_ref().map_or(NO_REMOTE, RemoteName::as_str);
            text.extend_from_slice(format!("{boot} {millis} {head} {remote} ").as_bytes());
            text.extend_from_slice(branch.as_bstr());
            text.push(b'\n');
        }
        text
    }

    /// When `sight` was first seen in this boot; `None` if never, or if that time is after `now`.
    pub(crate) fn first(&self, sight: &Sight, now: &Reading) -> Option<u64> {
        self.0.get(&(now.boot.clone(), sight.clone())).copied().filter(|first| *first <= now.millis)
    }

    /// Records that `sight` is seen now, and returns when it was first seen.
    pub(crate) fn note(&mut self, sight: &Sight, now: &Reading) -> u64 {
        let first = self.first(sight, now).unwrap_or(now.millis);
        self.0.insert((now.boot.clone(), sight.clone()), first);
        first
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Keeps only the sightings for which `keep` returns true.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&Sight) -> bool) {
        self.0.retain(|(_, sight), _| keep(sight));
    }
}

fn parse_row(line: &[u8]) -> Option<((String, Sight), u64)> {
    let mut words = line.splitn(5, |byte| *byte == b' ');
    let mut text = || words.next()?.to_str().ok();
    let (boot, millis, head, remote) = (text()?, text()?, text()?, text()?);
    if boot.is_empty() || !millis.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let remote = if remote == NO_REMOTE { None } else { Some(RemoteName::parse(remote).ok()?) };
    let branch = BranchName::new(BString::from(words.next()?)).ok()?;
    let sight = Sight { remote, branch, head: CommitId::parse_hex(head.as_bytes())? };
    Some(((boot.to_owned(), sight), millis.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sight(remote: Option<&str>, branch: &str, byte: u8) -> Sight {
        Sight {
            remote: remote.map(|name| RemoteName::parse(name).unwrap()),
            branch: BranchName::new(branch).unwrap(),
            head: CommitId::from_bytes(&[byte; 20]).unwrap(),
        }
    }

    fn at(boot: &str, millis: u64) -> Reading {
        Reading { boot: boot.to_owned(), millis }
    }

    #[test]
    fn watched_table() {
        let remaining = |seen, wanted, left| Watched::Remaining { seen, wanted, left };
        for (first, now, lease, margin, expected) in [
            (5_000, 5_000, 30, 0, remaining(0, 30, 31_000)),
            (5_000, 5_999, 30, 10, remaining(0, 40, 40_001)),
            (5_000, 35_000, 30, 0, remaining(30, 30, 1_000)),
            (5_000, 35_999, 30, 0, remaining(30, 30, 1)),
            (5_000, 36_000, 30, 0, Watched::Over { seen: 31, wanted: 30 }),
            (5_000, 36_000, 30, 10, remaining(31, 40, 10_000)),
            (5_000, 46_000, 30, 10, Watched::Over { seen: 41, wanted: 40 }),
            // A clock that went backwards.
            (5_000, 4_000, 30, 0, remaining(0, 30, 31_000)),
            (0, u64::MAX, u64::MAX, u64::MAX, remaining(u64::MAX / 1000, u64::MAX, 0)),
        ] {
            assert_eq!(watched(first, now, lease, margin), expected, "{first} {now} {lease} {margin}");
        }
    }

    #[test]
    fn the_first_sighting_counts_until_a_doubt() {
        let mut seen = Sightings::default();
        let task = sight(Some("origin"), "task", 1);
        assert_eq!(seen.first(&task, &at("a", 100)), None);
        assert_eq!(seen.note(&task, &at("a", 100)), 100);
        assert_eq!(seen.note(&task, &at("a", 900)), 100);
        for other in
            [sight(None, "task", 1), sight(Some("origin"), "other", 1), sight(Some("origin"), "task", 2)]
        {
            assert_eq!(seen.first(&other, &at("a", 900)), None, "{other:?}");
        }
        assert_eq!(seen.note(&task, &at("b", 50)), 50, "after a reboot it counts anew");
        assert_eq!(seen.note(&task, &at("a", 90)), 90, "and after a clock that went backwards");
        seen.retain(|sight| sight.branch.as_bstr() != "task");
        assert_eq!(seen, Sightings::default());
    }

    /// CONTRACT 5.22
    #[test]
    fn what_is_not_ours_is_not_read() {
        let mut seen = Sightings::default();
        seen.note(&sight(Some("origin"), "a/b", 1), &at("boot-1", 7));
        seen.note(&sight(None, "main", 2), &at("boot-1", 8));
        let text = seen.encode();
        assert_eq!(Sightings::parse(&text), Some(seen));
        let whole = String::from_utf8(text).unwrap();
        assert_eq!(Sightings::parse(&whole.as_bytes()[..whole.len() - 1]), None, "cut off");
        for (from, to) in [
            ("sightings 1", "sightings 2"),
            (" 7 ", " -7 "),
            (" 7 ", " 99999999999999999999999 "),
            ("0101", "x101"),
            ("main", ".."),
        ] {
            assert_eq!(Sightings::parse(whole.replace(from, to).as_bytes()), None, "{from} {to}");
        }
        for text in ["", "\n", "x\n", "aynig sightings 1\n\n", "aynig sightings 1\na b\n"] {
            assert_eq!(Sightings::parse(text.as_bytes()), None, "{text:?}");
        }
    }

    proptest! {
        /// CONTRACT 5.21
        #[test]
        fn over_means_seen_for_longer_than_the_lease(first: u64, now: u64, lease in 1..=u64::MAX, margin: u64) {
            match watched(first, now, lease, margin) {
                Watched::Over { seen, .. } => {
                    prop_assert!(now > first && u128::from(now - first) > (u128::from(lease) + u128::from(margin)) * 1000);
                    prop_assert_eq!(seen, (now - first) / 1000);
                }
                Watched::Remaining { wanted, left, .. } => {
                    prop_assert_eq!(wanted, lease.saturating_add(margin));
                    // Once `left` has passed the lease is over, unless that time overflows.
                    if let Some(then) = now.max(first).checked_add(left)
                        && wanted < u64::MAX / 2000
                    {
                        let over = matches!(watched(first, then, lease, margin), Watched::Over { .. });
                        prop_assert!(over);
                    }
                }
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Some(seen) = Sightings::parse(&text) {
                prop_assert_eq!(Sightings::parse(&seen.encode()), Some(seen));
            }
        }
    }
}
