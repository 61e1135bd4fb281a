//! Facts of this host about attempts beyond their commits: logs, and refs of rescued work.

use bstr::ByteSlice;

use crate::contract::head::{Event, Head};
use crate::contract::ids::AttemptId;
use crate::contract::requeue::{Interrupted, interrupted_before, rescued};
use crate::contract::story::{Attempt, Outcome, Stall};
use crate::contract::unable::unable;
use crate::git::Repo;
use crate::git::objects::commits::Stored;
use crate::git::worktrees::preserved::RescueRef;
use crate::ops::settings;
use crate::runner::attempt::files;
use crate::runner::attempt::files::Record;
use crate::words::saved_elsewhere;

/// Facts of this host about attempts beyond their commits.
pub struct Host<'a> {
    repo: &'a Repo,
    /// All rescue refs, listed once, as a history may contain thousands of attempts.
    rescues: Vec<RescueRef>,
    /// How often a run here asks again for what was interrupted.
    retries: u32,
}

/// A ref of saved work.
pub struct Saved {
    /// Its name.
    pub name: String,
    /// Whether it is in this clone.
    pub here: bool,
}

/// Names a rescue ref. One that is not in this clone is on the host of `runner`, the runner of its attempt.
pub fn saved_words(repo: &Repo, name: &str, runner: &str) -> String {
    match repo.read_ref(name.as_bytes().as_bstr()) {
        Ok(None) => saved_elsewhere(name, runner),
        Ok(Some(_)) | Err(_) => name.to_owned(),
    }
}

/// Names a rescue ref that a commit on an attempt's lease names.
pub(crate) fn saved_below(repo: &Repo, stored: &Stored, name: &str) -> String {
    let below = stored.parents.first().and_then(|parent| repo.commit(*parent).ok());
    match below.map(|below| Head::read(&below.facts())) {
        Some(Head::Working(lease)) => saved_words(repo, name, &lease.runner.to_str_lossy()),
        _ => saved_words(repo, name, ""),
    }
}

impl<'a> Host<'a> {
    /// Lists the rescue refs.
    pub fn new(repo: &'a Repo) -> Self {
        let mut rescues = repo.rescue_refs().unwrap_or_default();
        // `…-2` before `…-10`.
        rescues.sort_by(|one, other| (one.name.len(), &one.name).cmp(&(other.name.len(), &other.name)));
        let retries = settings::judging(repo).unwrap_or_default().on_interrupt().most;
        Self { repo, rescues, retries }
    }

    /// Describes a request that followed an interrupted attempt, or one that handed it back, in words.
    pub fn again(&self, event: &Event) -> Option<String> {
        let trailers = &event.message.trailers;
        match interrupted_before(trailers) {
            Some(times) => Some(Interrupted { times, most: self.retries }.to_string()),
            None => unable(trailers).last().map(|unable| format!("handed back: {unable}")),
        }
    }

    /// Returns the record of an attempt, if its output is on this host.
    pub fn logs_of(&self, told: &Attempt) -> Option<Record> {
        let id = AttemptId::parse(&told.run_id)?;
        files::find(self.repo, id).filter(|record| record.stdout.exists())
    }

    /// Returns the refs with rescued work of an attempt: the one that its stalled commit names, and
    /// those of this clone with its id. No commit names a ref if the step succeeded, the lease was
    /// lost, or the result did not land.
    pub fn saved(&self, told: &Attempt) -> Vec<Saved> {
        let named = match &told.outcome {
            Outcome::Ended { event, .. } => {
                let named = rescued(&event.message.trailers).map(ToString::to_string);
                Stall::of(event).and_then(|stall| stall.rescue).or(named)
            }
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
