//! `aynig log`: the life of a branch.
//!
//! Invariant: it is told from the commits alone, as anybody could who has them, and is put out as it is read; only where logs and
//! rescued work lie on this host is looked up besides. What belongs together is decided by `contract::story`, and drawn by
//! `lines`; the JSON is made by `value`.

mod lines;
mod value;

use bstr::ByteSlice;
use serde_json::Value;

use crate::clock;
use crate::contract::ids::{AttemptId, BranchName, CommitId};
use crate::contract::story::{Attempt, Entry, Outcome, Stall, Story};
use crate::git::commit::Signed;
use crate::git::kept::RescueRef;
use crate::git::{CommitError, Repo};
use crate::ops::app::App;
use crate::ops::{missing, target};
use crate::runner::attempt::{self, Record};

use super::args::Log;
use super::error::{CommandError, Exit};
use super::page::Page;
use super::signals;
use super::ui::{self, FAINT, styled};
use lines::Teller;

/// Runs the subcommand.
pub fn run(app: &App, arguments: &Log) -> Result<Exit, CommandError> {
    let repo = app.repo();
    let arbiter = signals::arbiter(&repo, arguments.remote.as_ref())?;
    let named = arguments.name.as_deref().or(arguments.branch.as_deref());
    let branch = target::branch(&repo, &arbiter, named)?;
    let head = target::existing_head(&repo, &arbiter, &branch)?;
    let mut history = History::new(&repo, &branch, head, arguments.max_count.unwrap_or(usize::MAX));
    let host = Host::new(&repo);
    if arguments.json {
        let values = history.map(|entry| entry.map(|entry| value::entry(&host, &entry)));
        let mut entries = values.collect::<Result<Vec<Value>, CommandError>>()?;
        if arguments.reverse {
            entries.reverse();
        }
        ui::answer_json(&Value::Array(entries));
        return Ok(Exit::Done);
    }
    // The first entry before a pager is started: what cannot be read is told on an ordinary terminal.
    let first = history.next().transpose()?;
    if matches!(first, None | Some(Entry::Before(_))) {
        if arguments.max_count != Some(0) {
            ui::narrate(&ui::harmless(&missing::no_event(&repo, &arbiter, &branch)));
        }
        return Ok(Exit::Done);
    }
    let mut page = Page::open(&repo, !arguments.no_pager);
    let teller =
        Teller { host: &host, now: clock::wall_seconds(), columns: page.columns(), leases: arguments.leases };
    let entries = first.into_iter().map(Ok).chain(history.by_ref());
    if arguments.reverse {
        let mut entries = entries.collect::<Result<Vec<_>, _>>()?;
        entries.reverse();
        if history.is_cut_off() && !page.line(&edge()) {
            return Ok(Exit::Done);
        }
        for entry in entries {
            if !teller.lines(&entry).iter().all(|line| page.line(line)) {
                return Ok(Exit::Done);
            }
        }
        return Ok(Exit::Done);
    }
    for entry in entries {
        if !teller.lines(&entry?).iter().all(|line| page.line(line)) {
            return Ok(Exit::Done);
        }
    }
    if history.is_cut_off() {
        page.line(&edge());
    }
    Ok(Exit::Done)
}

fn edge() -> String {
    styled(FAINT, "what was before is not in this clone, which is shallow (`git fetch --unshallow`)")
}

/// The entries of a branch, newest first, read as they are asked for.
struct History<'a, I> {
    commits: I,
    story: Option<Story>,
    ready: std::vec::IntoIter<Entry>,
    branch: &'a BranchName,
    left: usize,
    /// Whether the last commit that was read has a parent.
    goes_on: bool,
}

impl<'a> History<'a, ()> {
    fn new(
        repo: &'a Repo,
        branch: &'a BranchName,
        head: CommitId,
        left: usize,
    ) -> History<'a, impl Iterator<Item = Result<Signed, CommitError>> + 'a> {
        let commits = repo.signed_history(head);
        let ready = Vec::new().into_iter();
        History { commits, story: Some(Story::new()), ready, branch, left, goes_on: false }
    }
}

impl<I> History<'_, I> {
    /// Whether all was read, and there is more than this clone has.
    fn is_cut_off(&self) -> bool {
        self.story.is_none() && self.goes_on
    }
}

impl<I> Iterator for History<'_, I>
where
    I: Iterator<Item = Result<Signed, CommitError>>,
{
    type Item = Result<Entry, CommandError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        loop {
            if let Some(entry) = self.ready.next() {
                self.left -= 1;
                return Some(Ok(entry));
            }
            let story = self.story.as_mut()?;
            self.ready = match self.commits.next() {
                Some(Ok(signed)) => {
                    self.goes_on = !signed.stored.parents.is_empty();
                    story.add(&signed.told())
                }
                Some(Err(error)) => {
                    self.story = None;
                    let trying = format!("read the history of {}", self.branch);
                    return Some(
                        Err(CommandError::because(&trying, &error).hint("`git fsck` may tell more")),
                    );
                }
                None => self.story.take().map(Story::end).unwrap_or_default(),
            }
            .into_iter();
        }
    }
}

/// What this host knows of attempts beyond their commits.
struct Host<'a> {
    repo: &'a Repo,
    /// All rescue refs there are: listed once, as a history may tell of thousands of attempts.
    rescues: Vec<RescueRef>,
}

/// A ref of saved work.
struct Saved {
    name: String,
    /// Whether it is in this clone.
    here: bool,
}

impl<'a> Host<'a> {
    fn new(repo: &'a Repo) -> Self {
        let mut rescues = repo.rescue_refs().unwrap_or_default();
        // `…-2` before `…-10`.
        rescues.sort_by(|one, other| (one.name.len(), &one.name).cmp(&(other.name.len(), &other.name)));
        Self { repo, rescues }
    }

    /// What was kept of an attempt, if what it printed is here.
    fn logs_of(&self, told: &Attempt) -> Option<Record> {
        let id = AttemptId::parse(&told.run_id)?;
        attempt::find(self.repo, id).filter(|record| record.stdout.exists())
    }

    /// Where work of an attempt was saved: what the stalled commit names, and what bears the attempt's id here. No commit names it where
    /// the step went well, the lease was lost, or the result did not land.
    fn saved(&self, told: &Attempt) -> Vec<Saved> {
        let named = match &told.outcome {
            Outcome::Ended { event, .. } => Stall::of(event).and_then(|stall| stall.rescue),
            Outcome::Open | Outcome::TakenOver { .. } | Outcome::Spoilt { .. } => None,
        };
        let id = AttemptId::parse(&told.run_id);
        let own = self.rescues.iter().filter(|rescue| id.is_some() && rescue.attempt == id);
        let found: Vec<String> = own.map(|rescue| rescue.name.to_string()).collect();
        let is_here = |name: &String| {
            found.contains(name) || matches!(self.repo.read_ref(name.as_bytes().as_bstr()), Ok(Some(_)))
        };
        let first = named.clone().map(|name| Saved { here: is_here(&name), name });
        let others = found.iter().filter(|name| Some(*name) != named.as_ref());
        first.into_iter().chain(others.map(|name| Saved { name: name.clone(), here: true })).collect()
    }
}
