//! Deferred states as a protocol (CONTRACT 5.32 to 5.34): senders, runners and a person work on one branch, in a
//! repository and on a remote.
//!
//! The tests walk all interleavings of their reads and writes. A runner may die after any of them, a
//! sender may stop, and the answer to its push may be lost. Each state must be delivered once, and never on top of a lease or of work that is due.
//! Planted mistakes are found.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use bstr::BString;

use crate::contract::deferred::{Rest, Ruling, SLOT_KEY, delivers, delivery_draft, ruling};
use crate::contract::head::{CommitFacts, Head};
use crate::contract::ids::{BranchName, CommitId};

const RUNNERS: usize = 2;
const SENDERS: usize = 2;

/// Where the refs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    /// A crash may come between the writes of a transaction.
    Repository,
    /// Refs move as one, and the answer may be lost.
    Remote,
}

/// A mistake that the walk has to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Mistake {
    /// A slot that was delivered is not recognised.
    Forgets,
    /// The slot is removed before HEAD is moved.
    SlotFirst,
    /// A slot is delivered to whatever HEAD is there.
    Blind,
    /// A sender whose push was not answered looks for its slot alone.
    LooksForSlotAlone,
    /// A sender whose push was not answered looks at HEAD first.
    LooksAtHeadFirst,
}

/// How a branch is left alone or not, as far as a commit shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Meaning {
    Rests,
    Due,
    Leased,
}

#[derive(Debug)]
struct Commit {
    /// The hash of all else and of the parent's.
    id: u64,
    parent: Option<Line>,
    message: BString,
    meaning: Meaning,
    /// Whose state it is, if it is a sender's.
    sender: Option<usize>,
}

impl PartialEq for Commit {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Commit {}

impl Hash for Commit {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.id.hash(hasher);
    }
}

/// A commit and what lies below it.
type Line = Rc<Commit>;

thread_local! {
    /// The commits and what was found out about pairs of them, which many worlds share.
    static MADE: RefCell<HashMap<(Option<u64>, String), Line>> = RefCell::default();
    static DELIVERED: RefCell<HashMap<(u64, u64), bool>> = RefCell::default();
    static RULED: RefCell<HashMap<(u64, u64, bool), Rc<Ruling>>> = RefCell::default();
}

fn commit(parent: Option<&Line>, message: &str, sender: Option<usize>) -> Line {
    let key = (parent.map(|parent| parent.id), message.to_owned());
    let known = MADE.with_borrow(|made| made.get(&key).cloned());
    known.unwrap_or_else(|| {
        let made = new_commit(parent, message, sender);
        MADE.with_borrow_mut(|all| all.insert(key, Rc::clone(&made)));
        made
    })
}

fn new_commit(parent: Option<&Line>, message: &str, sender: Option<usize>) -> Line {
    let facts = CommitFacts {
        id: CommitId::from_bytes(&[1; 20]).expect("20 bytes"),
        committed_at: 0,
        message: message.as_bytes(),
    };
    let meaning = match Head::read(&facts) {
        Head::Ready(event) if event.state.as_str() == "work" => Meaning::Due,
        Head::Ready(_) => Meaning::Rests,
        Head::Working(_) => Meaning::Leased,
        Head::Unmanaged | Head::Invalid(_) => panic!("{message}"),
    };
    let mut hasher = DefaultHasher::new();
    (parent.map(|parent| parent.id), message).hash(&mut hasher);
    Rc::new(Commit { id: hasher.finish(), parent: parent.cloned(), message: message.into(), meaning, sender })
}

fn id_of(line: &Line) -> CommitId {
    let mut bytes = [0; 20];
    bytes[12..].copy_from_slice(&line.id.to_be_bytes());
    CommitId::from_bytes(&bytes).expect("20 bytes")
}

fn down(line: &Line) -> impl Iterator<Item = &Line> {
    std::iter::successors(Some(line), |line| line.parent.as_ref())
}

fn is_delivered(slot: &Line, head: &Line) -> bool {
    let key = (slot.id, head.id);
    if let Some(known) = DELIVERED.with_borrow(|all| all.get(&key).copied()) {
        return known;
    }
    let found = finds_delivery(slot, head);
    DELIVERED.with_borrow_mut(|all| all.insert(key, found));
    found
}

fn finds_delivery(slot: &Line, head: &Line) -> bool {
    let facts = CommitFacts { id: id_of(slot), committed_at: 0, message: &slot.message };
    let event = crate::contract::deferred::slot(&facts).expect("a slot declares a state");
    down(head)
        .take_while(|line| Some(*line) != slot.parent.as_ref())
        .any(|line| delivers(&line.message, &event))
}

/// The ruling of the contract on a slot and a HEAD.
fn ruled(slot: &Line, head: &Line, delivered: bool) -> Rc<Ruling> {
    let key = (slot.id, head.id, delivered);
    if let Some(known) = RULED.with_borrow(|all| all.get(&key).cloned()) {
        return known;
    }
    let facts = CommitFacts { id: id_of(slot), committed_at: 0, message: &slot.message };
    let branch = BranchName::new("b").expect("a name");
    let parents = [slot.parent.as_ref().map_or_else(|| id_of(slot), id_of)];
    let ruling = Rc::new(ruling((&facts, &parents), &branch, delivered, |_| true, || rest(head)));
    RULED.with_borrow_mut(|all| all.insert(key, Rc::clone(&ruling)));
    ruling
}

fn rest(head: &Line) -> Rest {
    if head.meaning == Meaning::Rests { Rest::Rests } else { Rest::Busy }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Runner {
    Idle,
    SawHead(Line),
    SawBoth(Line, Option<Line>),
    /// It moved HEAD, and holds the lock of the slot.
    HalfDelivered,
    /// It removed the slot, and has not moved HEAD: a planted mistake.
    SlotRemoved(Line, Line),
    Holds(Line),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Sender {
    Begins,
    SawHead(Line),
    SawBoth(Line, Option<Line>),
    /// Its push was not answered.
    Unanswered(Line),
    /// It did not find its slot after that.
    Missed(Line),
    /// It did not find its state on the branch after that: a planted mistake.
    NotOnBranch(Line),
    Set,
    Left,
    Refused,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    place: Place,
    mistake: Option<Mistake>,
    head: Line,
    slot: Option<Line>,
    /// Whether a runner holds the slot's lock.
    locked: bool,
    runners: [(Runner, u8); RUNNERS],
    senders: [Sender; SENDERS],
    /// The HEAD that a person saw, once.
    person: Option<Option<Line>>,
    /// How many more runners may die.
    deaths: u8,
}

impl World {
    fn new(place: Place, first: &str, mistake: Option<Mistake>) -> Self {
        Self {
            place,
            mistake,
            head: commit(None, first, None),
            slot: None,
            locked: false,
            runners: [(Runner::Idle, 2), (Runner::Idle, 1)],
            senders: [Sender::Begins, Sender::Begins],
            person: Some(None),
            deaths: 1,
        }
    }

    /// Moves HEAD if it is still `from`.
    fn swap(&mut self, from: &Line, message: &str, sender: Option<usize>) -> Option<Line> {
        (self.head == *from).then(|| {
            self.head = commit(Some(from), message, sender);
            Rc::clone(&self.head)
        })
    }

    /// All worlds that are one step away.
    fn next(&self) -> Vec<Self> {
        let mut next = Vec::new();
        for at in 0..RUNNERS {
            next.extend(self.runner_steps(at));
            if self.deaths > 0 && self.runners[at].0 != Runner::Idle {
                let mut dead = self.clone();
                dead.deaths -= 1;
                // The next runner removes the locks of a dead one.
                dead.locked &= self.runners[at].0 != Runner::HalfDelivered;
                dead.runners[at].0 = Runner::Idle;
                next.push(dead);
            }
        }
        for at in 0..SENDERS {
            next.extend(self.sender_steps(at));
        }
        match &self.person {
            Some(None) => next.push(Self { person: Some(Some(Rc::clone(&self.head))), ..self.clone() }),
            Some(Some(seen)) => {
                let mut next_world = Self { person: None, ..self.clone() };
                if seen.meaning != Meaning::Leased {
                    next_world.swap(seen, "again\n\ndwp-state: work\n", None);
                }
                next.push(next_world);
            }
            None => {}
        }
        next
    }

    fn runner_steps(&self, at: usize) -> Vec<Self> {
        let mut next = self.clone();
        let (runner, passes) = &self.runners[at];
        next.runners[at].0 = match runner {
            Runner::Idle if *passes == 0 => return Vec::new(),
            Runner::Idle => {
                next.runners[at].1 -= 1;
                Runner::SawHead(Rc::clone(&self.head))
            }
            Runner::SawHead(head) => match head.meaning {
                Meaning::Due => {
                    let lease = next.swap(head, "working\n\ndwp-state: working\n", None);
                    lease.map_or(Runner::Idle, Runner::Holds)
                }
                Meaning::Leased => {
                    let is_held = |(runner, _): &(Runner, u8)| *runner == Runner::Holds(Rc::clone(head));
                    if !self.runners.iter().any(is_held) {
                        next.swap(head, "stalled\n\ndwp-state: stalled\n", None);
                    }
                    Runner::Idle
                }
                Meaning::Rests => Runner::SawBoth(Rc::clone(head), self.slot.clone()),
            },
            Runner::SawBoth(_, None) => Runner::Idle,
            Runner::SawBoth(head, Some(slot)) => match next.deliver(head, slot) {
                Some(runner) => runner,
                // The slot is locked.
                None => return Vec::new(),
            },
            Runner::HalfDelivered => {
                (next.slot, next.locked) = (None, false);
                Runner::Idle
            }
            Runner::SlotRemoved(head, slot) => {
                next.write(head, slot);
                Runner::Idle
            }
            Runner::Holds(lease) => {
                next.swap(lease, "done\n\ndwp-state: done\n", None);
                Runner::Idle
            }
        };
        vec![next]
    }

    /// Writes the commit that delivers a slot.
    fn write(&mut self, head: &Line, slot: &Line) {
        let facts = CommitFacts { id: id_of(slot), committed_at: 0, message: &slot.message };
        let event = crate::contract::deferred::slot(&facts).expect("a slot declares a state");
        let message = delivery_draft(&event).encode().expect("it was read");
        self.swap(head, &message.to_string(), slot.sender);
    }

    /// Carries out what the contract says about a slot; `None` while its lock is held.
    fn deliver(&mut self, head: &Line, slot: &Line) -> Option<Runner> {
        let delivered = self.mistake != Some(Mistake::Forgets) && is_delivered(slot, head);
        let ruling = ruled(slot, head, delivered);
        if self.locked {
            return None;
        }
        let head = if self.mistake == Some(Mistake::Blind) { Rc::clone(&self.head) } else { Rc::clone(head) };
        let is_as_seen = self.slot.as_ref() == Some(slot);
        match *ruling {
            Ruling::Drop => {
                if is_as_seen {
                    self.slot = None;
                }
            }
            Ruling::Deliver(_) if !is_as_seen || self.head != head => {}
            Ruling::Deliver(_) if self.mistake == Some(Mistake::SlotFirst) => {
                self.slot = None;
                return Some(Runner::SlotRemoved(head, Rc::clone(slot)));
            }
            Ruling::Deliver(_) => {
                self.write(&head, slot);
                if self.place == Place::Repository {
                    self.locked = true;
                    return Some(Runner::HalfDelivered);
                }
                self.slot = None;
            }
            Ruling::Wait | Ruling::Refuse(_) => {}
        }
        Some(Runner::Idle)
    }

    fn with_sender(mut self, at: usize, sender: Sender) -> Self {
        self.senders[at] = sender;
        self
    }

    fn sender_steps(&self, at: usize) -> Vec<Self> {
        let then = |sender| vec![self.clone().with_sender(at, sender)];
        match &self.senders[at] {
            Sender::Begins => then(Sender::SawHead(Rc::clone(&self.head))),
            Sender::SawHead(head) => then(Sender::SawBoth(Rc::clone(head), self.slot.clone())),
            Sender::SawBoth(_, Some(_)) => then(Sender::Refused),
            Sender::SawBoth(head, None) if rest(head) == Rest::Rests => {
                let mut next = self.clone();
                let message = format!("s\n\ndwp-state: work\ndwp-n: {at}\n");
                let set = next.swap(head, &message, Some(at));
                vec![next.with_sender(at, if set.is_some() { Sender::Set } else { Sender::Refused })]
            }
            Sender::SawBoth(head, None) => self.left(at, head),
            Sender::Unanswered(slot) => match self.mistake {
                Some(Mistake::LooksAtHeadFirst) if is_delivered(slot, &self.head) => then(Sender::Left),
                Some(Mistake::LooksAtHeadFirst) => then(Sender::NotOnBranch(Rc::clone(slot))),
                _ if self.slot.as_ref() == Some(slot) => then(Sender::Left),
                Some(Mistake::LooksForSlotAlone) => then(Sender::Refused),
                _ => then(Sender::Missed(Rc::clone(slot))),
            },
            Sender::Missed(slot) if is_delivered(slot, &self.head) => then(Sender::Left),
            Sender::Missed(_) => then(Sender::Refused),
            Sender::NotOnBranch(slot) if self.slot.as_ref() == Some(slot) => then(Sender::Left),
            Sender::NotOnBranch(_) => then(Sender::Refused),
            Sender::Set | Sender::Left | Sender::Refused => Vec::new(),
        }
    }

    /// The ways in which leaving a slot can end.
    fn left(&self, at: usize, head: &Line) -> Vec<Self> {
        if self.locked {
            return Vec::new();
        }
        let message = format!("s\n\ndwp-state: work\ndwp-n: {at}\n{SLOT_KEY}: b\n");
        let slot = commit(Some(head), &message, Some(at));
        let mut moved = self.clone();
        let won = moved.slot.is_none();
        if won {
            moved.slot = Some(Rc::clone(&slot));
        }
        let answered = moved.clone().with_sender(at, if won { Sender::Left } else { Sender::Refused });
        match self.place {
            Place::Repository => vec![answered],
            Place::Remote => {
                let unanswered = || Sender::Unanswered(Rc::clone(&slot));
                vec![
                    answered,
                    moved.with_sender(at, unanswered()),
                    self.clone().with_sender(at, unanswered()),
                ]
            }
        }
    }

    /// The faults of this world.
    fn wrong(&self) -> Option<String> {
        for line in down(&self.head).filter(|line| line.sender.is_some()) {
            if line.parent.as_ref().is_some_and(|parent| parent.meaning != Meaning::Rests) {
                return Some("a state came to a branch that was not free".to_owned());
            }
        }
        for (at, sender) in self.senders.iter().enumerate() {
            let times = down(&self.head).filter(|line| line.sender == Some(at)).count();
            let waits = self.slot.as_ref().is_some_and(|slot| slot.sender == Some(at));
            let is_right = match sender {
                Sender::Left => times == 1 || (times == 0 && waits),
                Sender::Set => times == 1,
                Sender::Refused => times == 0 && !waits,
                _ => times <= 1,
            };
            if !is_right {
                return Some(format!("{sender:?}: {times} times, waits: {waits}"));
            }
        }
        None
    }

    /// Lets one runner work until nothing is left to do. What is left is wrong.
    fn settled(mut self) -> Option<String> {
        self.deaths = 0;
        for _ in 0..30 {
            self.runners[0].1 = 1;
            let Some(next) = self.runner_steps(0).pop().or_else(|| self.runner_steps(1).pop()) else { break };
            self = next;
        }
        let left = self.slot.as_ref().map(|_| "a slot stays for ever".to_owned());
        left.or_else(|| self.wrong())
    }
}

/// Walks all worlds. Returns their number, or the first thing that is wrong.
fn walk(place: Place, mistake: Option<Mistake>) -> Result<usize, String> {
    let firsts = ["first\n\ndwp-state: work\n", "first\n\ndwp-state: done\n"];
    let mut open: Vec<World> = firsts.map(|first| World::new(place, first, mistake)).into();
    let mut known: HashSet<World> = open.iter().cloned().collect();
    while let Some(world) = open.pop() {
        if let Some(wrong) = world.wrong() {
            return Err(wrong);
        }
        let next = world.next();
        if next.is_empty()
            && let Some(wrong) = world.settled()
        {
            return Err(wrong);
        }
        for world in next {
            if known.insert(world.clone()) {
                open.push(world);
            }
        }
    }
    Ok(known.len())
}

/// CONTRACT 5.32, 5.33, 5.34
#[test]
fn each_state_is_delivered_once_in_every_interleaving() {
    for place in [Place::Repository, Place::Remote] {
        let worlds = walk(place, None).unwrap_or_else(|wrong| panic!("{place:?}: {wrong}"));
        assert!(worlds > 10_000, "{place:?}: {worlds}");
    }
}

/// The property does not hold by accident.
#[test]
fn planted_mistakes_are_found() {
    for (place, mistake) in [
        (Place::Repository, Mistake::Forgets),
        (Place::Repository, Mistake::SlotFirst),
        (Place::Repository, Mistake::Blind),
        (Place::Remote, Mistake::Blind),
        (Place::Remote, Mistake::LooksForSlotAlone),
        (Place::Remote, Mistake::LooksAtHeadFirst),
    ] {
        assert!(walk(place, Some(mistake)).is_err(), "{place:?} {mistake:?}");
    }
}
