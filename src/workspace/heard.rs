//! What the ledger of a run hears about its workspaces (CONTRACT 15.19).
//!
//! Invariant: what is due follows from the ledger and the context alone. One function serves after each change and
//! after a crash, and nothing is written twice. The context is changed first: a ledger that cannot be written never
//! stops what has happened. A workspace without a ledger is a run by itself.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::clock;
use crate::contract::ids::CommitId;
use crate::crashpoint::{Point, reach};
use crate::git::RefChange;
use crate::ledger::tip::ledger_ref;
use crate::ledger::{Ledger, LedgerError, Tip};
use crate::model::decide::{Command, Op};
use crate::model::event::WorkspaceChanged;
use crate::model::ids::{Alias, OpId, RunId};
use crate::model::run::{DecidedBy, Run};
use crate::model::time::Timestamp;
use crate::model::workspace::{Publication, Workspace, WorkspaceChange, WorkspacePatch, WorkspaceStatus};
use crate::words::error_chain;

use super::Workspaces;
use super::context::{Context, Remaking, State};
use super::refusal::{Refusal, Why};

/// What undoing a rollback did, in words.
const UNDONE: &str = "what a rollback had discarded was brought back";

/// The newest commit between two that is not the workspace's own, if there is one.
type Foreign<'a> = dyn Fn(&str, &str) -> Option<String> + 'a;

impl Workspaces<'_> {
    /// An operation of whoever uses these workspaces.
    pub(super) fn op(&self) -> Result<Op, Refusal> {
        let at = Timestamp::from_millis(clock::wall_millis());
        let at = at.ok_or_else(|| Refusal::new(Why::Setup, "the clock of this host is out of range"))?;
        Ok(Op { id: OpId::random(), at, by: self.options.by.clone() })
    }

    /// The run of a workspace and the newest commit of its ledger here, if it has one.
    pub(super) fn ledger_of(&self, context: &Context) -> Result<Option<(RunId, CommitId)>, LedgerError> {
        let Some(run) = RunId::parse(&context.run_id) else { return Ok(None) };
        Ok(self.repo.read_ref(ledger_ref(run).as_str().into())?.map(|head| (run, head)))
    }

    /// Whether the ledger that decides has this very workspace.
    pub(super) fn is_prepared(&self, context: &Context) -> Result<bool, LedgerError> {
        let Some((run, _)) = self.ledger_of(context)? else { return Ok(false) };
        let mut ledger = Ledger::open(self.repo, run)?;
        match ledger.refresh() {
            Err(LedgerError::Deleted { .. } | LedgerError::Unknown(_)) => Ok(false),
            refreshed => refreshed.map(|()| same(&ledger.tip().state.workspaces, context).is_some()),
        }
    }

    /// What the ledger, as it is known here, has not heard.
    fn unheard_of(&self, context: &Context) -> Result<Option<(RunId, Vec<Command>)>, LedgerError> {
        let Some((run, head)) = self.ledger_of(context)? else { return Ok(None) };
        let state = Tip::read_workspaces(self.repo, run, head)?.state;
        let Some(known) = same(&state.workspaces, context) else { return Ok(None) };
        let lags = self.lags(&state.run, known, context);
        Ok(Some((run, unheard(known, context, lags, &|from, to| self.newest_foreign(context, from, to)))))
    }

    /// Whether other hosts went on with a workspace of a run that a remote decides. Its next change brings it up to
    /// them (CONTRACT 15.21).
    pub(super) fn lags(&self, run: &Run, known: &Workspace, context: &Context) -> bool {
        let has_all = || {
            let heads = CommitId::parse_hex(&known.head_sha).zip(CommitId::parse_hex(&context.head_sha));
            // A commit that is not here yet is another host's.
            let has = |there, here| self.repo.commit(there).is_err() || self.repo.descends(there, here);
            heads.is_some_and(|(there, here)| there != here && has(there, here))
        };
        let is_older = || match generations(known, context) {
            Ordering::Greater => true,
            // A worktree that is being made anew leaves the commit of the record.
            Ordering::Equal => context.pending.is_some() || has_all(),
            Ordering::Less => false,
        };
        matches!(run.decided_by, DecidedBy::Remote(_)) && is_older()
    }

    /// Whether the ledger of its run has not heard of the last change.
    pub(super) fn is_behind(&self, context: &Context) -> bool {
        matches!(self.unheard_of(context), Ok(Some((_, due))) if !due.is_empty())
    }

    /// Brings the ledger of its run up to a workspace, which is locked: one operation, with the refs `beside`. `mended`
    /// are repairs that left branch and generation as they were.
    pub(super) fn let_hear(
        &self,
        context: &Context,
        mended: &[String],
        beside: &[RefChange],
    ) -> Result<(), LedgerError> {
        if !self.options.hears {
            return Ok(());
        }
        let Some((run, due)) = self.unheard_of(context)? else { return Ok(()) };
        if due.is_empty() && mended.is_empty() && beside.is_empty() {
            return Ok(());
        }
        reach(Point::WorkspaceUnheard);
        let mut ledger = Ledger::open(self.repo, run)?;
        // A hub may have heard, and its answer may be lost.
        match ledger.refresh() {
            Err(LedgerError::Deleted { .. } | LedgerError::Unknown(_)) => return Ok(()),
            refreshed => refreshed?,
        }
        if same(&ledger.tip().state.workspaces, context).is_none() {
            return Ok(());
        }
        let (due, published) = self.owed(&ledger, context, mended)?;
        if due.is_empty() && beside.is_empty() {
            return Ok(());
        }
        let op = self.op().map_err(|refusal| LedgerError::Masks(refusal.message))?;
        ledger.operate(&op, &due, &[beside, &published].concat())?;
        self.note_published(context, &published);
        reach(Point::WorkspaceHeard);
        Ok(())
    }

    /// The same after a change, which a failure does not undo: it is reported, and the next call tries again.
    pub(super) fn hears(&self, context: &Context, mended: &[String]) {
        if let Err(error) = self.let_hear(context, mended, &[]) {
            (self.options.tell)(&unheard_words(context, &error));
        }
    }

    /// The newest commit between two that is not the workspace's own. A branch that was set back is somebody's work.
    pub(super) fn newest_foreign(&self, context: &Context, from: &str, to: &str) -> Option<String> {
        let (base, tip) = (CommitId::parse_hex(from)?, CommitId::parse_hex(to)?);
        if self.repo.commit(base).is_err() || !self.repo.descends(tip, base) {
            return Some(to.to_owned());
        }
        let own = context.address();
        let is_own = |commit: &CommitId| {
            self.repo.authored(*commit).is_ok_and(|author| author.address() == own.as_bytes())
        };
        let new = self.repo.commits_since(tip, base).ok()?;
        new.into_iter().find(|commit| !is_own(commit)).map(|commit| commit.to_string())
    }
}

/// The words for a ledger that could not hear of a change.
pub(super) fn unheard_words(context: &Context, error: &LedgerError) -> String {
    format!(
        "the ledger of its run has not heard of this change of {}: {}; the next change of a workspace tries again",
        context.handle(),
        error_chain(error)
    )
}

/// A workspace as its ledger first has it. `None` if its name or time cannot be in one.
pub(super) fn recorded(context: &Context) -> Option<Workspace> {
    Some(Workspace {
        name: Alias::parse(&context.name).ok()?,
        branch_name: context.branch_name.clone(),
        base_ref: context.base_ref.clone(),
        base_sha: context.base_sha.clone(),
        created_at: Timestamp::parse(&context.created_at)?,
        status: WorkspaceStatus::Ready,
        head_sha: context.head_sha.clone(),
        generation: remade(context.generation),
        remote_branch: None,
        pr_url: None,
        rolled_back_after: None,
        published: Vec::new(),
    })
}

/// How often a worktree was made anew: a context counts from 1.
pub(super) fn remade(generation: u32) -> u64 {
    u64::from(generation.saturating_sub(1))
}

/// How the number of the worktree in the ledger compares with the one here. Only a rollback discards what others have
/// published: a repair that the ledger has not heard of counts for nothing against their work.
pub(super) fn generations(known: &Workspace, context: &Context) -> Ordering {
    let is_new = |one: &&Remaking| remade(one.generation) > known.generation;
    let is_rolled_back = context.remade.iter().filter(is_new).any(|one| one.is_rollback);
    match known.generation.cmp(&remade(context.generation)) {
        Ordering::Less if !is_rolled_back => Ordering::Equal,
        compared => compared,
    }
}

/// This very workspace in a ledger. One that was made again has another time.
pub(super) fn same<'a>(known: &'a BTreeMap<Alias, Workspace>, context: &Context) -> Option<&'a Workspace> {
    let known = known.get(&Alias::parse(&context.name).ok()?)?;
    (known.created_at.to_string() == context.created_at).then_some(known)
}

/// What a ledger has not heard of a workspace. One that `lags` has no commits that are new to it.
pub(super) fn unheard(
    known: &Workspace,
    context: &Context,
    lags: bool,
    foreign: &Foreign<'_>,
) -> Vec<Command> {
    let is_over = matches!(context.state, State::Preparing | State::Removing);
    if known.status == WorkspaceStatus::Removed || is_over {
        return Vec::new();
    }
    let mut due = Vec::new();
    let mut add = |change: WorkspaceChange,
                   patch: WorkspacePatch,
                   rescue: Option<String>,
                   detail: Option<&str>| {
        let body =
            WorkspaceChanged { name: known.name.clone(), patch, rescue, detail: detail.map(str::to_owned) };
        due.push(Command::ChangeWorkspace(change, body));
    };
    let at = |head: &str| WorkspacePatch { head_sha: Some(head.to_owned()), ..WorkspacePatch::default() };
    let mut head = known.head_sha.clone();
    let is_new = |one: &&Remaking| remade(one.generation) > known.generation;
    for Remaking { generation, is_rollback, is_undone, head: to, rescue } in
        context.remade.iter().filter(is_new)
    {
        // Of one that lags these are repairs, and the newest commit is another host's.
        let to = if lags { &known.head_sha } else { to };
        head.clone_from(to);
        let patch = WorkspacePatch { generation: Some(remade(*generation)), ..at(to) };
        let change = if *is_rollback { WorkspaceChange::RolledBack } else { WorkspaceChange::Mended };
        add(change, patch, rescue.clone(), is_undone.then_some(UNDONE));
    }
    if !lags
        && head != context.head_sha
        && let Some(newest) = foreign(&head, &context.head_sha)
    {
        add(WorkspaceChange::Adopted, at(&newest), None, None);
        head = newest;
    }
    if !lags && head != context.head_sha {
        add(WorkspaceChange::Snapshot, at(&context.head_sha), None, None);
    }
    for (change, patch) in published(known, context) {
        add(change, patch, None, None);
    }
    if context.state == State::Removed {
        let status = Some(WorkspaceStatus::Removed);
        add(WorkspaceChange::Removed, WorkspacePatch { status, ..WorkspacePatch::default() }, None, None);
    }
    due
}

/// The publications that a ledger has not heard of: those that were recorded more often here.
fn published(known: &Workspace, context: &Context) -> Vec<(WorkspaceChange, WorkspacePatch)> {
    let mut all = known.published.clone();
    Publication::merge(&mut all, &context.published);
    if all == known.published {
        return Vec::new();
    }
    let commit = |among: &[Publication], one: &Publication| {
        among.iter().find(|other| other.is_same(one)).map(|other| other.commit.clone())
    };
    let is_pushed = all.iter().any(|one| commit(&known.published, one).as_ref() != Some(&one.commit));
    let all = WorkspacePatch { published: Some(all), ..WorkspacePatch::default() };
    let branch = Some(context.remote_branch.clone());
    let url = Some(context.pr_url.clone()).filter(|url| *url != known.pr_url);
    let proposed = |patch| (WorkspaceChange::Proposed, WorkspacePatch { pr_url: url.clone(), ..patch });
    match (is_pushed, &url) {
        (true, None) => vec![(WorkspaceChange::Pushed, WorkspacePatch { remote_branch: branch, ..all })],
        (true, Some(_)) => vec![
            (WorkspaceChange::Pushed, WorkspacePatch { remote_branch: branch, ..all }),
            proposed(WorkspacePatch::default()),
        ],
        (false, _) => vec![proposed(WorkspacePatch { remote_branch: branch, ..all })],
    }
}

#[cfg(test)]
mod tests {
    use super::super::context::sample;
    use super::*;

    /// CONTRACT 15.19
    #[test]
    fn what_is_due_follows_from_ledger_and_context() {
        let id = |digit: &str| digit.repeat(40);
        let known = recorded(&sample()).expect("a workspace");
        let at = |digit: &str| Context { head_sha: id(digit), ..sample() };
        let remaking = |generation, is_rollback, digit: &str| Remaking {
            generation,
            is_rollback,
            is_undone: false,
            head: id(digit),
            rescue: None,
        };
        let back = Context {
            generation: 3,
            remade: vec![remaking(2, false, "2"), remaking(3, true, "1")],
            ..at("1")
        };
        let behind = Workspace { head_sha: id("1"), generation: 1, ..known.clone() };
        let words = |known: &Workspace, context: &Context, foreign: Option<&str>| {
            let due = unheard(known, context, false, &|_, _| foreign.map(id));
            let word = |one: Command| match one {
                Command::ChangeWorkspace(change, body) => {
                    let digit = body.patch.head_sha.map(|head| head[..1].to_owned());
                    (change, digit.unwrap_or_default(), body.patch.generation)
                }
                other => panic!("{other:?}"),
            };
            due.into_iter().map(word).collect::<Vec<_>>()
        };
        use WorkspaceChange::{Adopted, Mended, Removed, RolledBack, Snapshot};
        let one = || "1".to_owned();
        let two = || "2".to_owned();
        assert_eq!(words(&known, &sample(), None), []);
        assert_eq!(words(&known, &at("2"), None), [(Snapshot, two(), None)]);
        assert_eq!(words(&known, &at("2"), Some("2")), [(Adopted, two(), None)]);
        assert_eq!(
            words(&known, &at("2"), Some("3")),
            [(Adopted, "3".to_owned(), None), (Snapshot, two(), None)]
        );
        assert_eq!(words(&known, &back, None), [(Mended, two(), Some(1)), (RolledBack, one(), Some(2))]);
        assert_eq!(words(&behind, &back, None), [(RolledBack, one(), Some(2))]);
        let removed = Context { state: State::Removed, ..at("2") };
        assert_eq!(words(&known, &removed, None), [(Snapshot, two(), None), (Removed, String::new(), None)]);
        let later = Workspace { head_sha: id("2"), ..known.clone() };
        assert_eq!(unheard(&later, &sample(), true, &|_, to| Some(to.to_owned())), []);
        let gone = Workspace { status: WorkspaceStatus::Removed, ..known.clone() };
        assert_eq!(words(&gone, &at("2"), None), []);
        assert_eq!(words(&known, &Context { state: State::Removing, ..at("2") }, None), []);
    }
}
