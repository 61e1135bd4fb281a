//! Waits until branches rest, or have come to a state (CONTRACT 11.25).
//!
//! Invariant: a look reads all commits since the look before, so a state that was HEAD for a moment only is not missed.
//! Nothing is written.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::time::Duration;

use globset::GlobSet;

use crate::clock;
use crate::clock::Stopwatch;
use crate::contract::head::Head;
use crate::contract::ids::{BranchName, CommitId, StateName};
use crate::engine::FLOW;
use crate::git::Repo;
use crate::model::run::RunKind;
use crate::runner::authority::Authority;
use crate::runner::options::Options;
use crate::runner::passes::deliver::{Prospect, prospect};
use crate::runner::survey::rest::{Outlook, outlook};
use crate::runner::survey::{self, CommandsFrom, Question, Survey};
use crate::words::shell_quote;

use super::app::Process;
use super::error::Error;
use super::missing::{Purpose, for_run, missing};
use super::outer::OuterCommand;
use super::run::survey_options;
use super::settings::{self, globs};
use super::target::selected;
use super::view::branch::BranchView;
use super::view::deferred::deferred;
use super::view::row::row;

/// The longest time without a fetch: a remote's answer shows branches only, no deferred states.
const LONGEST_BLIND: Duration = Duration::from_secs(60);

/// The most branches that a remote is asked for by name.
const MOST_NAMES: usize = 100;

/// The most commits between two looks that are read.
const MOST_COMMITS: usize = 10_000;

/// The outcome of a wait for a branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Came {
    /// Something runs, or will.
    Open,
    /// It rests.
    Rests,
    /// It has come to the state.
    Reached,
    /// It rests, but is stalled or was meant to run.
    Stuck,
    /// It rests, and has not come to the state.
    Elsewhere,
    /// It is not there any more.
    Gone,
}

impl Came {
    /// The word in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Rests => "rests",
            Self::Reached => "reached",
            Self::Stuck => "stuck",
            Self::Elsewhere => "elsewhere",
            Self::Gone => "gone",
        }
    }

    /// Whether it is what was waited for.
    pub fn is_good(self) -> bool {
        matches!(self, Self::Rests | Self::Reached)
    }
}

/// A branch that is waited for.
#[derive(Debug, Clone)]
pub struct Waited {
    /// Its name.
    pub name: BranchName,
    /// Its outcome.
    pub came: Came,
    /// The state that it came to, and the commit.
    pub reached: Option<(StateName, CommitId)>,
    /// The branch at the last look. `None` if it is gone.
    pub row: Option<BranchView>,
    by_glob: bool,
    /// Its HEAD at the last look.
    seen: Option<CommitId>,
}

/// A wait for branches.
#[derive(Debug)]
pub struct Wait<'a> {
    repo: &'a Repo,
    authority: &'a Authority,
    options: Options,
    /// The states to come to. Empty: any in which the branch rests.
    states: GlobSet,
    /// The branches.
    pub branches: Vec<Waited>,
    /// The remote's answer before the last fetch, and the time of that fetch.
    answer: Option<BTreeMap<BranchName, CommitId>>,
    fetched: Stopwatch,
}

impl<'a> Wait<'a> {
    /// Takes the first look at the branches that names and globs select now.
    pub fn begin(
        repo: &'a Repo,
        authority: &'a Authority,
        process: &Process,
        named: &[OsString],
        states: &[String],
    ) -> Result<Self, Error> {
        let chosen = selected(repo, authority, named)?;
        if let Some(own) = OuterCommand::of(repo)?.map(|outer| outer.branch)
            && chosen.iter().any(|one| one.branch == own)
        {
            return Err(Error::usage(format!(
                "this command runs on {own} itself, so it would wait for its own end"
            )));
        }
        let plain = survey_options(repo, process, None)?;
        let names = chosen.iter().map(|one| one.branch.clone()).collect();
        let selection = settings::only(plain.selection, names)?;
        let waited = |one: super::target::Selected| Waited {
            name: one.branch,
            came: Came::Open,
            reached: None,
            row: None,
            by_glob: one.by_glob,
            seen: None,
        };
        let mut wait = Self {
            repo,
            authority,
            options: Options { selection, ..plain },
            states: globs("--state", states)?,
            branches: chosen.into_iter().map(waited).collect(),
            answer: None,
            fetched: Stopwatch::start(),
        };
        wait.look()?;
        if let Some(gone) = wait.branches.iter().find(|one| one.came == Came::Gone) {
            let prefix = settings::workspace(repo)?.run_prefix;
            let error = missing(repo, authority, &gone.name, Purpose::Read);
            return Err(for_run(repo, &gone.name, error, |run| {
                let driver = shell_quote(format!("{prefix}{}/{FLOW}", run.slug));
                (run.kind == RunKind::Flow).then(|| format!("`aynig wait {driver}` waits for its driver"))
            }));
        }
        // A glob is for branches that take part.
        let is_idle = |one: &Waited| one.row.as_ref().is_some_and(|row| row.kind == "unmanaged");
        wait.branches.retain(|one| !one.by_glob || one.came == Came::Open || !is_idle(one));
        if wait.branches.is_empty() {
            return Err(Error::failed("no branch with a state matches, so there is nothing to wait for"));
        }
        Ok(wait)
    }

    /// Whether no branch is waited for any more.
    pub fn is_over(&self) -> bool {
        self.branches.iter().all(|one| one.came != Came::Open)
    }

    /// Looks at the branches. Returns whether one has moved.
    pub fn look(&mut self) -> Result<bool, Error> {
        self.refresh()?;
        // Before the branches: a sender may see a newer HEAD.
        let slots = self.authority.slots(self.repo).unwrap_or_default();
        let now = clock::wall_seconds();
        let question = Question {
            repo: self.repo,
            authority: self.authority,
            options: &self.options,
            now,
            notes: false,
        };
        let Survey { branches, commands_from, .. } = survey::survey(&question)?;
        let found: HashMap<&BranchName, &survey::Branch> =
            branches.iter().map(|branch| (&branch.name, branch)).collect();
        let slots: HashMap<&BranchName, CommitId> =
            slots.iter().filter_map(|tip| Some((&tip.branch, tip.target.clone().ok()?))).collect();
        let mut branches = std::mem::take(&mut self.branches);
        let mut moved = false;
        for waited in &mut branches {
            let Some(branch) = found.get(&waited.name) else {
                waited.row = None;
                waited.came = if waited.reached.is_some() { Came::Reached } else { Came::Gone };
                continue;
            };
            moved |= branch.head != waited.seen;
            let slot = slots.get(&waited.name).copied();
            self.judge(waited, branch, commands_from.as_deref(), slot, now);
        }
        self.branches = branches;
        tracing::debug!(moved, over = self.is_over(), "looked at the branches");
        Ok(moved)
    }

    /// Fetches the branches of a remote if they have moved.
    fn refresh(&mut self) -> Result<(), Error> {
        let names: Vec<BranchName> = self.branches.iter().map(|one| one.name.clone()).collect();
        let names = if names.len() > MOST_NAMES { &[][..] } else { &names };
        let Some(asked) = self.authority.ask(self.repo, names).transpose()? else { return Ok(()) };
        if self.answer.as_ref() != Some(&asked) || self.fetched.elapsed() >= LONGEST_BLIND {
            self.authority.refresh(self.repo)?;
            (self.answer, self.fetched) = (Some(asked), Stopwatch::start());
        }
        Ok(())
    }

    fn judge(
        &self,
        waited: &mut Waited,
        branch: &survey::Branch,
        from: Option<&CommandsFrom>,
        slot: Option<CommitId>,
        now: i64,
    ) {
        let (repo, authority) = (self.repo, self.authority);
        if let (None, Some(head)) = (&waited.reached, branch.head) {
            waited.reached = self.reached(head, waited.seen);
        }
        waited.seen = branch.head;
        let mut row = row(repo, authority, from, branch, None, &self.options, now);
        let head = branch.head.and_then(|head| repo.commit(head).ok());
        let outlook = outlook(repo, from, head.as_ref(), branch);
        let (is_due, stuck) =
            match slot.map(|slot| prospect(repo, authority, &self.options.trust, from, branch, slot)) {
                Some(Prospect::Due | Prospect::DueElsewhere) => (true, None),
                Some(Prospect::Stuck(why)) => (false, Some(why)),
                Some(Prospect::Waits) | None => (false, None),
            };
        let is_stuck = stuck.is_some()
            || row.mistake
            || row.kind == "invalid"
            || row.state.as_deref() == Some("stalled");
        if let Some(slot) = slot {
            row.waited_for(deferred(repo, slot, stuck));
        }
        waited.came = match outlook {
            _ if waited.reached.is_some() => Came::Reached,
            Outlook::Moves => Came::Open,
            Outlook::Later if !self.states.is_empty() => Came::Open,
            Outlook::Later | Outlook::Rests if is_due => Came::Open,
            Outlook::Later | Outlook::Rests if !self.states.is_empty() => Came::Elsewhere,
            Outlook::Later | Outlook::Rests if is_stuck => Came::Stuck,
            Outlook::Later | Outlook::Rests => Came::Rests,
        };
        waited.row = Some(row);
    }

    /// The newest commit with one of the states that became HEAD after the commit `seen`; at the first look, HEAD.
    fn reached(&self, head: CommitId, seen: Option<CommitId>) -> Option<(StateName, CommitId)> {
        if self.states.is_empty() {
            return None;
        }
        let mut found = None;
        for stored in self.repo.history(head).map_while(Result::ok).take(MOST_COMMITS) {
            if Some(stored.id) == seen {
                return found;
            }
            if found.is_none() {
                let state = Head::read(&stored.facts()).state();
                found = state
                    .filter(|state| self.states.is_match(state.as_str()))
                    .map(|state| (state, stored.id));
            }
            if seen.is_none() {
                return found;
            }
        }
        // The branch was set back: what lies below HEAD is older than the wait.
        found.filter(|(_, commit)| *commit == head)
    }
}
