//! A branch's history, folded from its commits: attempts with their leases, declared states,
//! ordinary commits between.
//!
//! Invariant: commits go in newest first, one by one. Each comes out in exactly one entry, newest
//! first. At most one attempt is held in between, so a history of any length can be printed while
//! it is read. [`Head::read`] decides what a commit means; nothing is guessed that is not in a
//! commit.

use bstr::{BStr, BString, ByteSlice};

use super::cancel::{Cancel, is_request};
use super::commits::stalled_run;
use super::head::{CommitFacts, Event, Head, InvalidHead};
use super::ids::{CommitId, StateName};
use super::kept::Kept;
use super::layout::RESCUES;
use super::lease::Lease;
use super::lease::ORIGIN_KEY;
use super::message::Message;

/// The most author names kept for a run of ordinary commits.
const MAX_AUTHORS: usize = 5;

/// Introduces, in a stalled body, the ref where another process will save its work. There may be
/// none, so this ref is not reported.
pub const AWAITED: &str = "unfinished work, if there was any, is in:";

/// A commit of the history.
#[derive(Debug, Clone, Copy)]
pub struct Told<'a> {
    /// The commit.
    pub(crate) facts: CommitFacts<'a>,
    pub(crate) author: &'a BStr,
    /// Whether it has more than one parent.
    pub(crate) merge: bool,
}

/// One entry of the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// An attempt: its leases, the commits made under them, and its outcome.
    Attempt(Box<Attempt>),
    /// A state that was set while the branch was not leased.
    Declared(Box<Declared>),
    /// Commits that declare nothing.
    Commits(Commits),
    /// Commits that declare nothing, older than the first commit that declares something.
    Before(Commits),
    /// A commit with an unusable `dwp-state`.
    Invalid {
        /// The problem.
        invalid: InvalidHead,
        /// Its date, seconds since the epoch.
        committed_at: i64,
        /// Its author.
        author: BString,
    },
}

/// One lease in the series of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseMark {
    /// The `working` commit.
    pub commit: CommitId,
    /// Its date, seconds since the epoch.
    pub committed_at: i64,
    /// Its length, in seconds.
    pub seconds: u64,
    /// Whether it is a request to stop, and no renewal.
    pub request: bool,
}

/// One leased execution, or a lease made by hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// `dwp-run-id` as written; may be empty.
    pub run_id: BString,
    /// `dwp-runner-id` as written; may be empty.
    pub runner: BString,
    /// The state that was worked on; `None` if the lease has no legal one.
    pub origin: Option<StateName>,
    /// The author of the newest lease.
    pub author: BString,
    /// The newest lease.
    pub newest: LeaseMark,
    /// The leases before it, newest first.
    pub earlier: Vec<LeaseMark>,
    /// Commits between or on top of the leases.
    pub commits: Commits,
    /// How its command ended, if the newest lease is kept after it.
    pub kept: Option<Kept>,
    /// The request to stop it.
    pub cancel: Option<Cancel>,
    /// Its outcome.
    pub outcome: Outcome,
}

/// The outcome of an attempt.
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
    /// A commit without a usable state followed.
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
    /// Whether it repeats a request: for the state that had stalled, or the state below in the same
    /// words.
    pub again: bool,
}

/// Commits that declare nothing, folded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Commits {
    /// Their number.
    pub count: usize,
    /// The number of merges among them.
    pub merges: usize,
    /// Their authors, the newest first; at most [`MAX_AUTHORS`].
    pub authors: Vec<BString>,
    /// Whether there are authors that are not listed.
    pub more_authors: bool,
    /// The newest and the oldest; `None` if there are no commits.
    pub ends: Option<(Mark, Mark)>,
}

/// One ordinary commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The commit.
    pub commit: CommitId,
    /// Its date, seconds since the epoch.
    pub committed_at: i64,
    /// Its subject; empty for all but the newest of a run.
    pub subject: BString,
}

/// A stalled commit's report on an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stall {
    /// The reason: the first line of its body; empty if there is none.
    pub reason: String,
    /// The rescue ref it names, which is on the host that wrote it.
    pub rescue: Option<String>,
    /// The attempt it closed, as written.
    pub run_id: Option<BString>,
}

impl Stall {
    /// Reads an event; `None` if its state is not `stalled`.
    pub fn of(event: &Event) -> Option<Self> {
        if !event.state.is_stalled() {
            return None;
        }
        let body = event.message.body.to_str_lossy();
        // Our own lines are not indented. A command's output is, and may contain such a ref name as
        // well.
        let own = body.lines().filter(|line| !line.starts_with(' '));
        let rescue = own.clone().find_map(|line| {
            let name = &line[line.find(RESCUES).filter(|_| !line.contains(AWAITED))?..];
            let name = name.split(' ').next().unwrap_or(name).trim_end_matches(['.', '\'']);
            // The name is quoted for a shell.
            Some(name.replace("'\\''", "'"))
        });
        let reason = own.clone().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        let run_id = stalled_run(&event.message.trailers).map(BStr::to_owned);
        Some(Self { reason: reason.to_owned(), rescue, run_id })
    }
}

impl Attempt {
    /// The attempt's first lease.
    pub fn first(&self) -> LeaseMark {
        *self.earlier.last().unwrap_or(&self.newest)
    }

    /// Seconds from its first lease to its end, by commit dates; negative if the clocks disagree.
    /// `None` unless a state ended it.
    pub fn seconds(&self) -> Option<i64> {
        let Outcome::Ended { event, .. } = &self.outcome else { return None };
        Some(event.committed_at.saturating_sub(self.first().committed_at))
    }

    /// Its leases without the requests, newest first.
    fn held_leases(&self) -> impl Iterator<Item = &LeaseMark> {
        std::iter::once(&self.newest).chain(&self.earlier).filter(|lease| !lease.request)
    }

    /// How often its lease was renewed.
    pub fn renewals(&self) -> usize {
        self.held_leases().count().saturating_sub(1)
    }

    /// Seconds from its first lease to its newest, by commit dates.
    pub fn held(&self) -> i64 {
        let newest = self.held_leases().next().unwrap_or(&self.newest);
        newest.committed_at.saturating_sub(self.first().committed_at)
    }

    /// Seconds between the end of its last lease and its own end, by commit dates; `None` if it
    /// ended in time.
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
            kept: Kept::of(&lease.message),
            cancel: Cancel::of(&lease.message, author),
            outcome,
        }
    }

    /// Whether an older lease is of this attempt. Without a run id the runner decides.
    fn continues(&self, lease: &Lease) -> bool {
        self.run_id == lease.run_id && (!self.run_id.is_empty() || self.runner == lease.runner)
    }
}

fn mark(lease: &Lease) -> LeaseMark {
    LeaseMark {
        commit: lease.commit,
        committed_at: lease.committed_at,
        seconds: lease.seconds,
        request: is_request(&lease.message),
    }
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

    /// Appends commits that are older than all of these.
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

/// The entry above the commits being read, not yet returned.
#[derive(Debug, Default)]
enum Above {
    /// Nothing: the top of the branch.
    #[default]
    Nothing,
    /// A state; whether it ends an attempt depends on the commits below it.
    Event(Box<Event>, BString),
    /// A commit without a usable state, already returned.
    Invalid(CommitId),
}

/// The fold: commits in, newest first; entries out.
#[derive(Debug, Default)]
pub struct Story {
    above: Above,
    /// Ordinary commits below [`Story::above`].
    loose: Commits,
    /// The attempt whose leases are being collected.
    open: Option<Box<Attempt>>,
    /// Ordinary commits below its oldest lease so far. They are the attempt's own if another of its
    /// leases follows.
    below: Commits,
}

impl Story {
    /// A story without commits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the next older commit; returns the entries that are now complete.
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

    /// Ends the history; returns the remaining entries.
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
                if open.cancel.is_some() && open.earlier.is_empty() {
                    // The author of the request did not run it.
                    open.author = author.to_owned();
                }
                open.cancel = open.cancel.take().or_else(|| Cancel::of(&lease.message, author));
                open.earlier.push(mark(lease));
                open.commits.append(self.below.take());
                return Vec::new();
            }
            let outcome = Outcome::TakenOver { run_id: open.run_id.clone(), runner: open.runner.clone() };
            // The commits on this lease are its own, as they are under a state.
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

    /// Returns everything held; `older` is the state found below it.
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

/// Whether `event` requests the state that `older` says had stalled, or repeats `older` in the same
/// words.
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
