//! A branch's life, told from its commits: attempts with their leases folded, states that were set, ordinary commits between.
//!
//! Invariant: commits go in newest first, one by one, and each of them comes out in exactly one entry, newest first; what is held
//! meanwhile is one attempt at most, so a history of any length can be told as it is read. What a commit means is
//! [`Head::read`]'s to say; nothing here is guessed from what is not in a commit. Words and columns are left to `cli`.

use bstr::{BStr, BString, ByteSlice};

use super::commits::{ORIGIN_KEY, stalled_run};
use super::head::{CommitFacts, Event, Head, InvalidHead};
use super::ids::{CommitId, StateName};
use super::layout::RESCUES;
use super::lease::Lease;
use super::message::Message;

/// The most names kept of those who made a run of ordinary commits.
const MAX_AUTHORS: usize = 5;

/// The words before the place where work would be, of a worktree that somebody else had hold of. There may be none.
pub const AWAITED: &str = "unfinished work, if there was any, is in:";

/// A commit as it is told.
#[derive(Debug, Clone, Copy)]
pub struct Told<'a> {
    /// The commit.
    pub(crate) facts: CommitFacts<'a>,
    /// The name of its author.
    pub(crate) author: &'a BStr,
    /// Whether it has more than one parent.
    pub(crate) merge: bool,
}

/// One thing that happened to a branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// An attempt: its leases, what was committed under them, and how it came out.
    Attempt(Box<Attempt>),
    /// A state that was set while nobody held the branch.
    Declared(Box<Declared>),
    /// Commits that declare nothing.
    Commits(Commits),
    /// The same, from the beginning of the history to the first commit that declares something.
    Before(Commits),
    /// A commit that means to declare a state and fails to.
    Invalid {
        /// What is wrong.
        invalid: InvalidHead,
        /// Its date, seconds since the epoch.
        committed_at: i64,
        /// Its author.
        author: BString,
    },
}

/// A lease in the series of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseMark {
    /// The `working` commit.
    pub commit: CommitId,
    /// Its date, seconds since the epoch.
    pub committed_at: i64,
    /// How long it was for.
    pub seconds: u64,
}

/// One leased execution, or a hold by hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// `dwp-run-id` as written; may be empty.
    pub run_id: BString,
    /// `dwp-runner-id` as written; may be empty.
    pub runner: BString,
    /// The state that was worked on, if the lease says so legibly.
    pub origin: Option<StateName>,
    /// Who wrote the newest lease.
    pub author: BString,
    /// The newest lease.
    pub newest: LeaseMark,
    /// The leases before it, newest first.
    pub earlier: Vec<LeaseMark>,
    /// What was committed between or on top of the leases.
    pub commits: Commits,
    /// How it came out.
    pub outcome: Outcome,
}

/// How an attempt came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing was declared since.
    Open,
    /// A state followed.
    Ended {
        /// The commit that declares it.
        event: Box<Event>,
        /// Its author.
        author: BString,
    },
    /// A lease of another attempt followed.
    TakenOver {
        /// Its `dwp-run-id`.
        run_id: BString,
        /// Its `dwp-runner-id`.
        runner: BString,
    },
    /// A commit followed that declares no usable state.
    Spoilt {
        /// That commit.
        commit: CommitId,
    },
}

/// A state that was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    /// The commit that declares it.
    pub event: Event,
    /// Its author.
    pub author: BString,
    /// Whether it asks again: for what had stalled, or for what the state before it asks in the same words.
    pub again: bool,
}

/// Commits that declare nothing, folded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Commits {
    /// How many.
    pub count: usize,
    /// How many of them are merges.
    pub merges: usize,
    /// Who made them, the newest first; not all, if there are very many.
    pub authors: Vec<BString>,
    /// Whether there are authors that are not listed.
    pub more_authors: bool,
    /// The newest and the oldest; none if there are no commits.
    pub ends: Option<(Mark, Mark)>,
}

/// One ordinary commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The commit.
    pub commit: CommitId,
    /// Its date, seconds since the epoch.
    pub committed_at: i64,
    /// Its first line.
    pub subject: BString,
}

/// What a stalled commit tells of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stall {
    /// What happened: the first sentence of its body; empty if there is none.
    pub reason: String,
    /// The ref of rescued work it names. It is on the host that wrote it.
    pub rescue: Option<String>,
    /// The attempt it closed, as written.
    pub run_id: Option<BString>,
}

impl Stall {
    /// Reads it off an event; `None` if that is not stalled.
    pub fn of(event: &Event) -> Option<Self> {
        if !event.state.is_stalled() {
            return None;
        }
        let body = event.message.body.to_str_lossy();
        // Ours comes before the logs, which are indented; a command may print such a name as well.
        let own = body.lines().filter(|line| !line.starts_with(' '));
        let rescue = own.clone().find_map(|line| {
            let name = &line[line.find(RESCUES).filter(|_| !line.contains(AWAITED))?..];
            let name = name.split(' ').next().unwrap_or(name).trim_end_matches(['.', '\'']);
            // As it is quoted for a shell.
            Some(name.replace("'\\''", "'"))
        });
        let reason = own.clone().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        let run_id = stalled_run(&event.message.trailers).map(BStr::to_owned);
        Some(Self { reason: reason.to_owned(), rescue, run_id })
    }
}

impl Attempt {
    /// The lease it began with.
    pub fn first(&self) -> LeaseMark {
        *self.earlier.last().unwrap_or(&self.newest)
    }

    /// From its first lease to its end, by their dates; negative if the clocks that dated them disagree by more. None while it is open.
    pub fn seconds(&self) -> Option<i64> {
        let Outcome::Ended { event, .. } = &self.outcome else { return None };
        Some(event.committed_at.saturating_sub(self.first().committed_at))
    }

    /// From its first lease to its newest, by their dates.
    pub fn held(&self) -> i64 {
        self.newest.committed_at.saturating_sub(self.first().committed_at)
    }

    /// How long its last lease had been over when it ended, if it had, by the dates.
    pub fn overdue(&self) -> Option<u64> {
        let Outcome::Ended { event, .. } = &self.outcome else { return None };
        let end = self.newest.committed_at.saturating_add_unsigned(self.newest.seconds);
        (event.committed_at > end).then(|| event.committed_at.abs_diff(end))
    }

    fn begun(lease: &Lease, author: &BStr, commits: Commits, outcome: Outcome) -> Self {
        Self {
            run_id: lease.run_id.clone(),
            runner: lease.runner.clone(),
            origin: lease.origin.clone(),
            author: author.to_owned(),
            newest: mark(lease),
            earlier: Vec::new(),
            commits,
            outcome,
        }
    }

    /// Whether an older lease is of the same attempt. Without an id only the runner tells.
    fn continues(&self, lease: &Lease) -> bool {
        self.run_id == lease.run_id && (!self.run_id.is_empty() || self.runner == lease.runner)
    }
}

fn mark(lease: &Lease) -> LeaseMark {
    LeaseMark { commit: lease.commit, committed_at: lease.committed_at, seconds: lease.seconds }
}

impl Commits {
    fn add(&mut self, told: &Told<'_>) {
        let mark = Mark {
            commit: told.facts.id,
            committed_at: told.facts.committed_at,
            subject: if self.count == 0 {
                Message::parse(told.facts.message).subject
            } else {
                BString::default()
            },
        };
        self.ends = Some(match self.ends.take() {
            None => (mark.clone(), mark),
            Some((newest, _)) => (newest, mark),
        });
        self.count += 1;
        self.merges += usize::from(told.merge);
        self.name(told.author);
    }

    fn name(&mut self, author: &BStr) {
        if self.authors.iter().any(|known| known == author) {
            return;
        }
        if self.authors.len() < MAX_AUTHORS {
            self.authors.push(author.to_owned());
        } else {
            self.more_authors = true;
        }
    }

    /// Takes in commits that are older than all of these.
    fn append(&mut self, older: Self) {
        self.ends = match (self.ends.take(), older.ends) {
            (Some((newest, _)), Some((_, oldest))) => Some((newest, oldest)),
            (one, other) => one.or(other),
        };
        self.count += older.count;
        self.merges += older.merges;
        self.more_authors |= older.more_authors;
        for author in &older.authors {
            self.name(author.as_bstr());
        }
    }

    fn take(&mut self) -> Self {
        std::mem::take(self)
    }
}

/// What is newer than the commits that are being looked at, and not told yet.
#[derive(Debug, Default)]
enum Above {
    /// Nothing that declares: the top of the branch.
    #[default]
    Nothing,
    /// A state; whether it ends an attempt depends on what is below it.
    Event(Box<Event>, BString),
    /// A commit that is told already and declares no usable state.
    Invalid(CommitId),
}

/// The fold: commits in, newest first; entries out.
#[derive(Debug, Default)]
pub struct Story {
    above: Above,
    /// Ordinary commits below it.
    loose: Commits,
    /// The attempt whose leases are being collected.
    open: Option<Box<Attempt>>,
    /// Ordinary commits below its oldest lease so far: its own, if another of its leases follows.
    below: Commits,
}

impl Story {
    /// A story of which nothing was told.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in the next older commit; returns what is complete by now.
    pub fn add(&mut self, told: &Told<'_>) -> Vec<Entry> {
        match Head::read(&told.facts) {
            Head::Unmanaged => {
                if self.open.is_some() { &mut self.below } else { &mut self.loose }.add(told);
                Vec::new()
            }
            Head::Working(lease) => self.lease(&lease, told.author),
            Head::Ready(event) => {
                let entries = self.flush(Some(&event));
                self.above = Above::Event(Box::new(event), told.author.to_owned());
                entries
            }
            Head::Invalid(invalid) => {
                let mut entries = self.flush(None);
                self.above = Above::Invalid(invalid.commit);
                let (committed_at, author) = (told.facts.committed_at, told.author.to_owned());
                entries.push(Entry::Invalid { invalid, committed_at, author });
                entries
            }
        }
    }

    /// The history ends here; returns the rest.
    pub fn end(mut self) -> Vec<Entry> {
        let mut entries = self.flush(None);
        if let Some(Entry::Commits(_)) = entries.last()
            && let Some(Entry::Commits(commits)) = entries.pop()
        {
            entries.push(Entry::Before(commits));
        }
        entries
    }

    fn lease(&mut self, lease: &Lease, author: &BStr) -> Vec<Entry> {
        if let Some(open) = &mut self.open {
            if open.continues(lease) {
                open.earlier.push(mark(lease));
                open.commits.append(self.below.take());
                return Vec::new();
            }
            let outcome = Outcome::TakenOver { run_id: open.run_id.clone(), runner: open.runner.clone() };
            // What lies on this lease is its own, as it is under a state.
            let commits = self.below.take();
            let entries = self.flush(None);
            self.open = Some(Box::new(Attempt::begun(lease, author, commits, outcome)));
            return entries;
        }
        let outcome = match std::mem::take(&mut self.above) {
            Above::Nothing => Outcome::Open,
            Above::Event(event, author) => Outcome::Ended { event, author },
            Above::Invalid(commit) => Outcome::Spoilt { commit },
        };
        let commits = self.loose.take();
        self.open = Some(Box::new(Attempt::begun(lease, author, commits, outcome)));
        Vec::new()
    }

    /// Tells all that is held; `older` is the state that was found below it.
    fn flush(&mut self, older: Option<&Event>) -> Vec<Entry> {
        let mut entries = Vec::new();
        if let Above::Event(event, author) = std::mem::take(&mut self.above) {
            let again = older.is_some_and(|older| asks_again(&event, older));
            entries.push(Entry::Declared(Box::new(Declared { event: *event, author, again })));
        }
        entries.extend(self.open.take().map(Entry::Attempt));
        for commits in [self.loose.take(), self.below.take()] {
            if commits.count > 0 {
                entries.push(Entry::Commits(commits));
            }
        }
        entries
    }
}

/// Whether `event` asks for what `older` says had stalled, or for the same as `older` in the same words.
fn asks_again(event: &Event, older: &Event) -> bool {
    if older.state.is_stalled() && !event.state.is_stalled() {
        let origin = older.message.trailers.last(ORIGIN_KEY);
        return origin.is_some_and(|origin| *origin == event.state.as_str().as_bytes());
    }
    let (one, other) = (&event.message, &older.message);
    event.state == older.state && one.subject == other.subject && one.body == other.body
}

#[cfg(test)]
mod tests;
