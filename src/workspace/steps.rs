//! What the steps of a run do with its workspace: they find it, take snapshots, put it back, and record all of it in
//! their own operation.
//!
//! Invariant: nothing here writes to a ledger. What a ledger has not heard goes into the operation that ends the step
//! ([`Workspaces::owed`]), so that both land together; a crash before that leaves a context that is ahead, and any later
//! change of the workspace catches up (CONTRACT 15.19).

use std::sync::Arc;

use crate::contract::ids::CommitId;
use crate::git::RefChange;
use crate::ledger::{Ledger, LedgerError};
use crate::model::decide::Command;
use crate::model::event::WorkspaceChanged;
use crate::model::ids::RunId;
use crate::model::workspace::{WorkspaceChange, WorkspacePatch};
use crate::words::pluralize;

use super::Workspaces;
use super::beside::Awaited;
use super::change::Aim;
use super::context::{Context, State};
use super::elsewhere::Asked;
use super::heard::{same, unheard};
use super::refusal::{Refusal, Why};
use super::remade::Remade;
use super::snapshot::{Clashing, Snapshot};
use super::store::Held;
use super::tampering::{Change, Outside};

/// The beginning of a step.
pub enum Begun {
    /// The snapshot before it, the repairs that the ledger is to hear of, and what there is outside.
    Ready(Box<(Snapshot, Vec<String>, Outside)>),
    /// It waits for another step on this host, or for a person.
    Waits(Awaited),
}

impl Workspaces<'_> {
    /// The workspace of a run, which is made here if only the ledger has it.
    pub fn of_run(&self, run: RunId, slug: &str, name: &str) -> Result<Context, Refusal> {
        let find = || match self.find(format!("{slug}/{name}").as_ref()) {
            Err(refusal) if refusal.why == Why::NotFound => Ok(None),
            found => found.map(Some),
        };
        let mut found = find()?;
        if let Some(context) = found.take_if(|one| one.state == State::Preparing && self.is_free(one)) {
            // Its maker was killed.
            self.finish_due(&context)?.iter().for_each(|words| (self.options.tell)(words));
            found = find()?;
        }
        if let Some(context) = found {
            return Ok(context);
        }
        let created = self.create_in(run, name, None)?;
        created.warnings.iter().for_each(|words| (self.options.tell)(words));
        Ok(created.context)
    }

    /// Takes a snapshot of what others left before a step, which has just read its ledger. The ledger does not hear of
    /// it yet. Returns the repairs that it is to hear of besides, and what there is outside.
    /// A step does not begin without the newest work of the ledger, unless people answered about the commit `settled`.
    pub fn snapshot_before_step(
        &self,
        context: &Context,
        settled: Option<CommitId>,
    ) -> Result<Begun, Refusal> {
        if self.record_of(context).is_none() {
            let handle = context.handle();
            let message =
                format!("the record of hooks and settings of {handle} is gone; nothing was changed");
            return Err(Refusal::new(Why::Failed, message).hint(format!(
                "if they are as they should be: `aynig workspace snapshot --accept {handle}`"
            )));
        }
        let held = self.ready_after(context, Asked::Before)?;
        let looked = self.look_outside(&held.context, false)?;
        if let Some(why) = self.changed_beside(context, looked.1.now())? {
            return Ok(Begun::Waits(why));
        }
        self.check_has_work(&held, settled)?;
        let (done, mut repairs, held, mut outside) = self.taken_with(held, looked, Clashing::Saved)?;
        repairs.extend(done.commit.map(|commit| self.unmade_words(commit)));
        // What there was before an attempt that was cut off stays shown.
        if !done.changes.iter().any(Change::is_unsettled) {
            outside.live = Some(Arc::new(self.show_live(&held.context, outside.now())?));
        }
        Ok(Begun::Ready(Box::new((done, repairs, outside))))
    }

    /// The words for a commit of changes that lay in the worktree before a step.
    fn unmade_words(&self, commit: CommitId) -> String {
        let tree = |commit: CommitId| self.repo.commit(commit).map(|stored| stored.tree).ok();
        let parent = self.repo.commit(commit).ok().and_then(|stored| stored.parents.first().copied());
        let trees = parent.and_then(tree).zip(tree(commit));
        let files = trees.and_then(|(old, new)| self.repo.differences(old, new).ok());
        let count = pluralize(files.map_or(0, |files| files.len()), "file");
        format!("changes that no step made are part of the work now: {count}, `git show {}`", commit.short())
    }

    /// Takes a snapshot of what a step left, in the same way. The ledger was read again after the step.
    pub fn snapshot_of_step(&self, context: &Context) -> Result<(Snapshot, Vec<String>), Refusal> {
        self.taken_of(&mut self.ready_after(context, Asked::Before)?, Clashing::Refused)
    }

    /// Puts branch and worktree back to a commit. What lies there beyond it is saved; ignored files stay. `None` if nothing
    /// does. `to` is asked for the commit when the workspace is at what other hosts published: with its branch and the
    /// number of its worktree.
    pub fn put_back(
        &self,
        context: &Context,
        to: impl FnOnce(CommitId, u32) -> CommitId,
    ) -> Result<Option<Remade>, Refusal> {
        let mut held = self.ready(context)?;
        let branch = held.context.branch();
        let tip = self.repo.branch_head(&branch);
        let tip = tip.map_err(|error| Refusal::because(&format!("read {branch}"), &error))?;
        let now = tip.or_else(|| CommitId::parse_hex(&held.context.head_sha));
        let to = to(now.unwrap_or_else(|| held.context.base()), held.context.generation);
        if self.rests_at(&held, to) {
            return Ok(None);
        }
        self.check_branch(&held.context)?;
        let before = self.save(&held, to)?;
        self.remake(&mut held, before, (to, None), Aim::Mend).map(Some)
    }

    /// The workspace, if branch and worktree are at the commit `to` and nothing else lies there.
    pub fn is_at(&self, context: &Context, to: CommitId) -> Result<Option<Context>, Refusal> {
        let held = self.ready_after(context, Asked::Before)?;
        Ok(self.rests_at(&held, to).then(|| held.context.clone()))
    }

    fn rests_at(&self, held: &Held, to: CommitId) -> bool {
        let (mark, path) = (held.context.mark(), &held.context.worktree_path);
        let Ok(Some(worktree)) = self.repo.hold_workspace(path, &mark) else { return false };
        self.repo.branch_head(&mark.branch).is_ok_and(|head| head == Some(to))
            && held.context.head_sha == to.to_string()
            && worktree.branch().as_ref() == Some(&mark.branch)
            && worktree.names_its_registration()
            && !self.repo.is_unfinished(&worktree.git_dir)
            && self.repo.is_clean(&worktree).unwrap_or(false)
    }

    /// Rolls a workspace back to its base without a word to the ledger; `None` if it is there already.
    pub fn roll_back_of_step(&self, context: &Context) -> Result<Option<Remade>, Refusal> {
        self.rolled_back(context).map(|(remade, _)| remade)
    }

    /// What the ledger has not heard of a workspace, and the refs that move with it. `mended` are repairs in words.
    pub fn owed(
        &self,
        ledger: &Ledger<'_>,
        context: &Context,
        mended: &[String],
    ) -> Result<(Vec<Command>, Vec<RefChange>), LedgerError> {
        let Some(known) = same(&ledger.tip().state.workspaces, context) else {
            return Ok((Vec::new(), Vec::new()));
        };
        let lags = self.lags(&ledger.tip().state.run, known, context);
        let mut due = unheard(known, context, lags, &|from, to| self.newest_foreign(context, from, to));
        if !mended.is_empty() {
            let (name, patch) = (known.name.clone(), WorkspacePatch::default());
            let body = WorkspaceChanged { name, patch, rescue: None, detail: Some(mended.join("; ")) };
            due.insert(0, Command::ChangeWorkspace(WorkspaceChange::Mended, body));
        }
        Ok((due, self.publishes(ledger, context)?))
    }

    /// Notes that the refs of [`Workspaces::owed`] were accepted.
    pub fn settled_with(&self, context: &Context, refs: &[RefChange]) {
        self.note_published(context, refs);
    }
}
