//! Deferred states: a state that waits beside its branch until the branch is free (CONTRACT 5.32 to 5.35).
//!
//! Invariant: a slot is delivered at most once. The commit that delivers it names it, and lies above the HEAD that
//! its sender saw, which is the slot's parent.

use bstr::{BStr, ByteSlice};

use super::head::{CommitFacts, Event, Head};
use super::ids::{BranchName, CommitId};
use super::layout::SLOTS;
use super::message::{Draft, Message};
use super::trailers::{Trailer, Trailers};

/// Names, in a delivered commit, the slot's commit.
pub const DELIVERED_KEY: &str = "aynig-deferred";

/// Names, in a slot's commit, the branch it was left for. Without it any signed commit with a state could be put in the
/// place of a slot, and its message would apply to files that its author never saw.
pub(crate) const SLOT_KEY: &str = "aynig-slot";

/// Lets a deferred state replace a parked one, and one that waits for a person.
pub const WAKE_KEY: &str = "aynig-wake";

/// The branch of a ref that holds a deferred state. `None` for any other ref.
pub fn deferred_branch(name: &BStr) -> Option<BranchName> {
    BranchName::new(name.strip_prefix(SLOTS.as_bytes())?).ok()
}

/// How far a branch is from being free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest {
    /// No command will run for its HEAD.
    Rests,
    /// It waits for a time or for an answer, which a deferred state may replace only if it wakes.
    Waits,
    /// It is under a lease, or a command is due.
    Busy,
}

impl Rest {
    /// Whether a deferred state may become HEAD.
    pub(crate) fn admits(self, wakes: bool) -> bool {
        match self {
            Self::Rests => true,
            Self::Waits => wakes,
            Self::Busy => false,
        }
    }
}

/// Reads a slot's commit. `None` if it declares no state that could become HEAD.
pub(crate) fn slot(facts: &CommitFacts<'_>) -> Option<Event> {
    match Head::read(facts) {
        Head::Ready(event) => Some(event),
        Head::Unmanaged | Head::Invalid(_) | Head::Working(_) => None,
    }
}

/// Whether a slot was left for this branch.
pub(crate) fn is_for(trailers: &Trailers, branch: &BranchName) -> bool {
    trailers.last(SLOT_KEY).is_some_and(|value| *value == *branch.to_string().as_bytes())
}

/// Whether a deferred state replaces a state that waits or is parked.
pub(crate) fn wakes(trailers: &Trailers) -> bool {
    trailers.last(WAKE_KEY).is_some_and(|value| value == "true")
}

/// Whether a commit delivers this slot: it names it, and has its message. The name alone proves nothing, since any
/// commit can name any slot.
pub(crate) fn delivers(message: &[u8], slot: &Event) -> bool {
    if !message.contains_str(DELIVERED_KEY) {
        return false;
    }
    let found = Message::parse(message);
    delivered(&found.trailers) == Some(slot.commit) && found == delivery_draft(slot).normalised()
}

/// The slot that a commit with these trailers delivers.
pub fn delivered(trailers: &Trailers) -> Option<CommitId> {
    trailers.last(DELIVERED_KEY).and_then(CommitId::parse_hex)
}

/// The ruling of a pass on a slot.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ruling {
    /// It was delivered. It is deleted.
    Drop,
    /// The branch is not free.
    Wait,
    /// It is not delivered to this branch.
    Refuse(Refusal),
    /// Its state becomes HEAD.
    Deliver(Event),
}

/// Why a slot is never delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It is no commit that can be read.
    Unreadable,
    /// Its commit declares no state that could become HEAD.
    NoState,
    /// It has no parent, or several.
    Parents,
    /// It was left for another branch.
    Misplaced,
    /// HEAD does not descend from the HEAD that its sender saw.
    Replaced,
}

/// Judges a slot and its parents. `delivered`: a commit above its parent delivers it. `descends`: whether HEAD descends
/// from a commit.
pub(crate) fn ruling(
    (facts, parents): (&CommitFacts<'_>, &[CommitId]),
    branch: &BranchName,
    delivered: bool,
    descends: impl Fn(CommitId) -> bool,
    rest: impl FnOnce() -> Rest,
) -> Ruling {
    if delivered {
        return Ruling::Drop;
    }
    let Some(event) = slot(facts) else { return Ruling::Refuse(Refusal::NoState) };
    if !is_for(&event.message.trailers, branch) {
        return Ruling::Refuse(Refusal::Misplaced);
    }
    // One parent: the HEAD that the sender saw. The search for a delivery ends there.
    let [seen] = parents else { return Ruling::Refuse(Refusal::Parents) };
    if !descends(*seen) {
        return Ruling::Refuse(Refusal::Replaced);
    }
    if rest().admits(wakes(&event.message.trailers)) { Ruling::Deliver(event) } else { Ruling::Wait }
}

/// Drafts the commit that delivers a slot: its message, and its name.
pub(crate) fn delivery_draft(slot: &Event) -> Draft {
    let Message { subject, body, trailers } = slot.message.clone();
    let of_slot = |trailer: &Trailer| trailer.key == DELIVERED_KEY || trailer.key == SLOT_KEY;
    let mut all: Trailers = trailers.into_iter().filter(|trailer| !of_slot(trailer)).collect();
    all.push(Trailer::new(DELIVERED_KEY, slot.commit.to_string()));
    Draft { subject, body, trailers: all }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(byte: u8) -> CommitId {
        CommitId::from_bytes(&[byte; 20]).expect("20 bytes")
    }

    fn read(message: &str) -> Option<Event> {
        slot(&CommitFacts { id: id(1), committed_at: 0, message: message.as_bytes() })
    }

    /// CONTRACT 5.32, 5.33
    #[test]
    fn a_slot_is_delivered_with_its_message_and_its_name() {
        let message =
            "s\n\nbody\n\ndwp-state: a\ndwp-x: 1\naynig-wake: true\naynig-deferred: old\naynig-slot: b\n";
        let event = read(message).expect("a state");
        assert!(wakes(&event.message.trailers));
        for (branch, is) in [("b", true), ("c", false)] {
            assert_eq!(is_for(&event.message.trailers, &BranchName::new(branch).expect("a name")), is);
        }
        let text = delivery_draft(&event).encode().expect("it can be written");
        let expected =
            format!("s\n\nbody\n\ndwp-state: a\ndwp-x: 1\naynig-wake: true\naynig-deferred: {}\n", id(1));
        assert_eq!(text, expected);
        assert!(delivers(&text, &event) && !delivers(message.as_bytes(), &event));
        assert!(!delivers(&text, &Event { commit: id(2), ..event.clone() }));
        let named = format!("s\n\ndwp-state: a\naynig-deferred: {}\n", id(1));
        assert!(!delivers(named.as_bytes(), &event), "a name alone is no delivery");
        for other in ["s\n", "s\n\ndwp-state: working\n", "s\n\ndwp-state: ../x\n"] {
            assert!(read(other).is_none(), "{other}");
        }
    }

    /// CONTRACT 5.34
    #[test]
    fn ruling_table() {
        let judge = |message: &str, parents: &[u8], delivered, descends, rest| {
            let facts = CommitFacts { id: id(1), committed_at: 0, message: message.as_bytes() };
            let parents: Vec<CommitId> = parents.iter().copied().map(id).collect();
            let branch = BranchName::new("b").expect("a name");
            ruling((&facts, &parents), &branch, delivered, |_| descends, || rest)
        };
        let good = "s\n\ndwp-state: a\naynig-slot: b\n";
        let refuse = Ruling::Refuse;
        assert_eq!(judge("s\n", &[], true, false, Rest::Busy), Ruling::Drop);
        for (message, parents, descends, expected) in [
            ("s\n", &[2][..], true, refuse(Refusal::NoState)),
            (good, &[], true, refuse(Refusal::Parents)),
            (good, &[2, 3], true, refuse(Refusal::Parents)),
            ("s\n\ndwp-state: a\naynig-slot: c\n", &[2], true, refuse(Refusal::Misplaced)),
            ("s\n\ndwp-state: a\n", &[2], true, refuse(Refusal::Misplaced)),
            (good, &[2], false, refuse(Refusal::Replaced)),
            (good, &[2], true, Ruling::Deliver(read(good).expect("a state"))),
        ] {
            assert_eq!(judge(message, parents, false, descends, Rest::Rests), expected, "{message}");
        }
        assert_eq!(judge(good, &[2], false, true, Rest::Busy), Ruling::Wait);
    }

    /// CONTRACT 5.33
    #[test]
    fn rest_table() {
        for (rest, plain, waking) in
            [(Rest::Rests, true, true), (Rest::Waits, false, true), (Rest::Busy, false, false)]
        {
            assert_eq!((rest.admits(false), rest.admits(true)), (plain, waking), "{rest:?}");
        }
    }
}
