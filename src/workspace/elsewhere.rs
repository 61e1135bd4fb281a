//! Workspaces of runs that a remote decides: published there, and used on several hosts (CONTRACT 15.20, 15.21).
//!
//! Invariant: the work branch at the remote, a ref below `refs/aynig/work/`, moves with the ledger and only with it, from
//! exactly what was fetched. The ref of the same name here is what the remote was last seen to have. Whatever gives way
//! to it here is saved first.

use std::cmp::Ordering;
use std::ffi::OsStr;
use std::path::Path;

use bstr::{BString, ByteSlice};

use crate::contract::ids::CommitId;
use crate::contract::layout::{RESCUES, work_ref};
use crate::crashpoint::{Point, reach};
use crate::git::contents::rescue::Situation;
use crate::git::worktrees::directory::occupied;
use crate::git::{RefChange, Swap};
use crate::ledger::tip::ledger_ref;
use crate::ledger::{Ledger, LedgerError, Place, Tip, archive, bring, runs};
use crate::model::ids::RunId;
use crate::model::run::DecidedBy;
use crate::model::workspace::{Workspace, WorkspaceStatus};
use crate::words::error_chain;

use super::Workspaces;
use super::aside::left;
use super::change::Aim;
use super::context::{Context, Pending, State};
use super::create::Created;
use super::heard::{generations, same};
use super::refusal::{Refusal, Why};
use super::store::Held;

/// What a host does with what another one published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// It has all of that.
    Nothing,
    /// The branch goes forward.
    Forward,
    /// The branch is saved, and goes to what the remote has.
    GiveWay,
    /// The worktree is saved, and made anew at what the remote has.
    Anew,
    /// The worktree was made anew here, which the remote has not heard: what it has is saved.
    Save,
}

/// When the place of decision is asked for the ledger of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// Now.
    Now,
    /// It was a moment ago, by this process. Each question is a connection.
    Before,
}

/// Facts about a work branch here and at the remote.
#[derive(Debug, Clone, Copy)]
struct Facts {
    /// The number of the worktree in the ledger, compared with the one here.
    generation: Ordering,
    here_has_there: bool,
    there_has_here: bool,
}

fn decide(facts: Facts) -> Step {
    match facts {
        // Whatever is not committed here can stay.
        Facts { generation: Ordering::Greater, there_has_here: true, .. } => Step::Forward,
        Facts { generation: Ordering::Greater, .. } => Step::Anew,
        Facts { here_has_there: true, .. } => Step::Nothing,
        Facts { generation: Ordering::Less, .. } => Step::Save,
        Facts { there_has_here: true, .. } => Step::Forward,
        Facts { .. } => Step::GiveWay,
    }
}

impl Workspaces<'_> {
    /// The changes that bring the work branch to the remote that decides the run.
    pub(super) fn publishes(
        &self,
        ledger: &Ledger<'_>,
        context: &Context,
    ) -> Result<Vec<RefChange>, LedgerError> {
        let state = &ledger.tip().state;
        let lags =
            same(&state.workspaces, context).is_some_and(|known| self.lags(&state.run, known, context));
        if context.state != State::Removed && lags {
            return Ok(Vec::new());
        }
        self.publishes_to(ledger.place(), context)
    }

    /// The same for a workspace that no other host has changed.
    pub(super) fn publishes_to(
        &self,
        place: &Place,
        context: &Context,
    ) -> Result<Vec<RefChange>, LedgerError> {
        let Place::Remote(remote) = place else { return Ok(Vec::new()) };
        let name = work_ref(&context.run_id, &context.name);
        let expected = self.repo.read_ref(name.as_bstr())?;
        let head = CommitId::parse_hex(&context.head_sha).unwrap_or_else(|| context.base());
        let lacking = expected.filter(|old| !self.repo.descends(head, *old));
        if context.state != State::Removed {
            // Another host's, which `follow` brings.
            if lacking.is_some_and(|old| !self.is_rescued(old)) {
                return Err(LedgerError::Moved { name: name.to_string() });
            }
            let change = RefChange { name, expected, new: Some(head) };
            return Ok(if expected == Some(head) { Vec::new() } else { vec![change] });
        }
        let Some(run) = RunId::parse(&context.run_id) else { return Ok(Vec::new()) };
        let last = lacking.unwrap_or(head);
        let archived = archive::free_at(self.repo, remote, run, &context.name, last)?;
        let archived = archived.map(|name| RefChange { name, expected: None, new: Some(last) });
        let gone = expected.map(|expected| RefChange { name, expected: Some(expected), new: None });
        Ok(archived.into_iter().chain(gone).collect())
    }

    /// Notes what the remote accepted. If that fails the next fetch does it.
    pub(super) fn note_published(&self, context: &Context, changes: &[RefChange]) {
        let name = work_ref(&context.run_id, &context.name);
        let Some(change) = changes.iter().find(|change| change.name == name) else { return };
        let noted = match (change.new, change.expected) {
            (Some(new), expected) => self.repo.swap(name.as_bstr(), expected, new, "aynig: accepted"),
            (None, Some(expected)) => self.repo.delete_ref(name.as_bstr(), expected),
            (None, None) => return,
        };
        match noted {
            Ok(Swap::Won | Swap::Lost { .. }) => {}
            Err(error) => tracing::debug!(%name, %error, "not noted"),
        }
    }

    /// Forgets what the remote last had of a workspace of the same name, which was removed.
    pub(super) fn forget_published(&self, context: &Context) -> Result<(), Refusal> {
        let name = work_ref(&context.run_id, &context.name);
        let because = |error: &dyn std::error::Error| Refusal::because(&format!("remove {name}"), error);
        match self.repo.read_ref(name.as_bstr()).map_err(|error| because(&error))? {
            Some(old) => self.repo.delete_ref(name.as_bstr(), old).map(drop).map_err(|error| because(&error)),
            None => Ok(()),
        }
    }

    /// Brings a locked workspace up to what the remote that decides its run has of it. Returns what the user should
    /// know.
    pub(super) fn follow(&self, held: &mut Held, asked: Asked) -> Result<Vec<String>, Refusal> {
        let handle = held.context.handle();
        let trying = format!("bring {handle} up to what other hosts published");
        let because = |error: &dyn std::error::Error| Refusal::because(&trying, error);
        let Some((run, head)) = self.ledger_of(&held.context)? else { return Ok(Vec::new()) };
        let is_remote =
            |tip: Tip| matches!(tip.state.run.decided_by, DecidedBy::Remote(_)).then_some(tip.state.run.id);
        let decided_there = Tip::read_run(self.repo, run, head).ok().and_then(is_remote);
        // One that cannot be used is reported by what writes it.
        let ledger = decided_there.and_then(|run| Ledger::open(self.repo, run).ok());
        let Some(mut ledger) = ledger.filter(|one| *one.place() != Place::Here) else {
            return Ok(Vec::new());
        };
        let refreshed = if asked == Asked::Now { ledger.refresh() } else { Ok(()) };
        match refreshed {
            Ok(()) => {}
            Err(LedgerError::Deleted { .. } | LedgerError::Unknown(_)) => return Ok(Vec::new()),
            Err(error) => {
                let words = format!("{handle} is as this host last knew it: {}", error_chain(&error));
                return Ok(vec![words]);
            }
        }
        let Some(known) = same(&ledger.tip().state.workspaces, &held.context) else {
            return Ok(Vec::new());
        };
        if known.status == WorkspaceStatus::Removed {
            let remove = format!("aynig workspace remove --apply {handle}");
            return Ok(vec![format!("another host removed {handle}; `{remove}` removes it here, too")]);
        }
        let there = self.repo.read_ref(work_ref(run, &held.context.name).as_bstr());
        let here = self.repo.branch_head(&held.context.branch()).map_err(|error| because(&error))?;
        let Some((there, here)) = there.map_err(|error| because(&error))?.zip(here) else {
            return Ok(Vec::new());
        };
        let step = decide(Facts {
            generation: generations(known, &held.context),
            here_has_there: self.repo.descends(here, there),
            there_has_here: self.repo.descends(there, here),
        });
        if step != Step::Nothing {
            self.check_branch(&held.context)?;
        }
        match step {
            Step::Nothing => Ok(Vec::new()),
            Step::Save => {
                let saved = self.save_commits(held, there, here)?;
                let words = |name| format!("another host published what was rolled back in {handle}: {name}");
                Ok(saved.map(words).into_iter().collect())
            }
            Step::Forward | Step::GiveWay => {
                let told = self.go_to(held, here, there, step == Step::GiveWay)?;
                held.context.generation = held.context.generation.max(number(known.generation)?);
                held.save().map(|()| told)
            }
            Step::Anew => {
                let generation = number(known.generation)?;
                self.make_anew(held, there, generation)
            }
        }
    }

    /// Moves the branch to what the remote has. Whatever that does not have is saved before.
    fn go_to(
        &self,
        held: &Held,
        here: CommitId,
        there: CommitId,
        gives_way: bool,
    ) -> Result<Vec<String>, Refusal> {
        let branch = held.context.branch();
        let saved = if gives_way { self.save_commits(held, here, there)? } else { None };
        let name = branch.full_ref();
        let moved = self.repo.swap(name.as_bstr(), Some(here), there, "aynig: published elsewhere");
        match moved.map_err(|error| Refusal::because(&format!("move {branch}"), &error))? {
            Swap::Won => {}
            Swap::Lost { .. } => {
                return Err(Refusal::new(Why::Conflict, format!("{branch} moved meanwhile"))
                    .hint("nothing is lost, try again"));
            }
        }
        let words = |name| {
            format!(
                "another host published other commits on {branch}, which it has now; {name} has those of this host"
            )
        };
        Ok(saved.map(words).into_iter().collect())
    }

    /// Makes the worktree anew as another host did. What is here is saved before.
    fn make_anew(&self, held: &mut Held, there: CommitId, generation: u32) -> Result<Vec<String>, Refusal> {
        let before = self.save(held, there)?;
        held.context.generation = generation;
        let made = self.remake(held, before, (there, None), Aim::Follow)?;
        let saved = made.rescue.map_or_else(String::new, |name| format!("; {name} has what was here"));
        let mut told = made.warnings;
        told.extend(
            made.kept.map(|(path, why)| format!("the old worktree stays at {}: {why}", path.display())),
        );
        told.push(format!(
            "another host made the worktree of {} anew; it is at {} here, too{saved}",
            held.context.handle(),
            there.short()
        ));
        Ok(told)
    }

    fn is_rescued(&self, commit: CommitId) -> bool {
        matches!(self.repo.held_below(commit, &[RESCUES]), Ok(Some(_)))
    }

    /// Saves a commit that `kept` does not have, under a rescue ref.
    fn save_commits(
        &self,
        held: &Held,
        commit: CommitId,
        kept: CommitId,
    ) -> Result<Option<BString>, Refusal> {
        let because = |error: &dyn std::error::Error| Refusal::because(&format!("save {commit}"), error);
        if self.is_rescued(commit) {
            return Ok(None);
        }
        let (branch, label) = (&held.context.branch(), held.context.run_id.as_str());
        let situation = Situation { branch, label, base: commit, kept: Some(kept), also: None };
        let saved = self.repo.rescue_commits(situation).map_err(|error| because(&error))?;
        Ok(saved.map(|saved| saved.reference))
    }

    /// Makes a workspace here that its ledger has from another host: the same base and commits, at a path of this host.
    pub(super) fn take(
        &self,
        ledger: &Ledger<'_>,
        known: &Workspace,
        root: &Path,
    ) -> Result<Created, Refusal> {
        let run = &ledger.tip().state.run;
        let (id, name) = (run.id.to_string(), known.name.to_string());
        let trying = format!("make {}/{name} here", run.slug);
        let because = |error: &dyn std::error::Error| Refusal::because(&trying, error);
        let missing = || {
            let message =
                format!("the commits of {}/{name} are not in this repository; nothing was changed", run.slug);
            Refusal::new(Why::Setup, message).hint("`git fetch --all` brings them if a remote has them")
        };
        let base = CommitId::parse_hex(&known.base_sha).ok_or_else(missing)?;
        let mut context =
            self.planned(&name, root, (&id, run.slug.as_str()), &(known.base_ref.clone(), base))?;
        let here = self.repo.branch_head(&context.branch()).map_err(|error| because(&error))?;
        let published =
            self.repo.read_ref(work_ref(&id, &name).as_bstr()).map_err(|error| because(&error))?;
        let head = published.or(here).or_else(|| CommitId::parse_hex(&known.head_sha));
        bring(self.repo, ledger.place(), run, head.as_slice())?;
        let head = head.filter(|head| self.repo.commit(*head).is_ok()).ok_or_else(missing)?;
        if occupied(&context.worktree_path) {
            let message = format!("something is at {}; nothing was changed", context.worktree_path.display());
            return Err(Refusal::new(Why::Conflict, message).hint("move it away"));
        }
        let checkouts = self.repo.checkouts_of(&context.branch()).map_err(|error| because(&error))?;
        if let Some(other) = checkouts.iter().find(|other| other.place.path.is_dir()) {
            let at = other.place.path.display();
            let message = format!("{} is checked out at {at}; nothing was changed", context.branch_name);
            return Err(Refusal::new(Why::Conflict, message).hint("put that checkout on another branch"));
        }
        context.created_at = known.created_at.to_string();
        context.generation = number(known.generation)?;
        context.head_sha = head.to_string();
        context.state = State::Ready;
        context.pending =
            Some(Pending::follow(here, head, &left(&context.worktree_path, "kept", context.generation)));
        context.check(&id, &name).map_err(|why| {
            Refusal::new(
                Why::Setup,
                format!("the ledger has no legal workspace {name}: {why}; nothing was changed"),
            )
        })?;
        let handle = context.handle();
        let held = self.record(context, false)?;
        let mut held = held.ok_or_else(|| {
            Refusal::new(Why::Conflict, format!("another process is making {handle}; nothing was changed"))
        })?;
        reach(Point::WorkspaceNoted);
        if let Some(here) = here {
            self.save_commits(&held, here, head)?;
        }
        // A step refuses a workspace without a record, and this process may die before the worktree is made.
        let record = self.recorded_now(&held.context)?;
        self.keep_record(&held.context, &record)?;
        let made = self.finish(&mut held)?;
        held.context.settings = self.executing()?;
        held.save()?;
        let record = self.recorded_now(&held.context)?;
        self.keep_record(&held.context, &record)?;
        Ok(Created { context: held.context.clone(), warnings: made.warnings })
    }

    /// The run and the name of a workspace that is not here, if the ledger of its run has it.
    pub fn known_to_a_run(&self, named: &OsStr) -> Option<(RunId, String)> {
        let text = named.to_str()?;
        let text = text.strip_prefix("refs/heads/").unwrap_or(text);
        let text = text.strip_prefix(&self.options.prefix).unwrap_or(text);
        let (run, name) = text.split_once('/').map_or((text, None), |(run, name)| (run, Some(name)));
        let run = runs::find(self.repo, run).ok()?;
        let head = self.repo.read_ref(ledger_ref(run).as_str().into()).ok()??;
        let state = Tip::read_workspaces(self.repo, run, head).ok()?.state;
        let is_meant = |known: &&Workspace| {
            known.status == WorkspaceStatus::Ready && name.is_none_or(|name| known.name.to_string() == name)
        };
        let mut meant = state.workspaces.values().filter(is_meant);
        let only = meant.next().filter(|_| meant.next().is_none())?;
        Some((run, only.name.to_string()))
    }
}

/// The number of a worktree here: a ledger counts from 0.
fn number(generation: u64) -> Result<u32, Refusal> {
    let number = u32::try_from(generation).ok().and_then(|number| number.checked_add(1));
    number.ok_or_else(|| Refusal::new(Why::Setup, "the ledger counts more worktrees than there can be"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CONTRACT 15.21
    #[test]
    fn what_gives_way() {
        use Ordering::{Equal, Greater, Less};
        for (generation, here_has_there, there_has_here, wanted) in [
            (Equal, true, true, Step::Nothing),
            (Equal, true, false, Step::Nothing),
            (Equal, false, true, Step::Forward),
            (Equal, false, false, Step::GiveWay),
            (Greater, true, true, Step::Forward),
            (Greater, false, true, Step::Forward),
            (Greater, true, false, Step::Anew),
            (Greater, false, false, Step::Anew),
            (Less, true, false, Step::Nothing),
            (Less, false, true, Step::Save),
            (Less, false, false, Step::Save),
        ] {
            let facts = Facts { generation, here_has_there, there_has_here };
            assert_eq!(decide(facts), wanted, "{facts:?}");
        }
    }
}
