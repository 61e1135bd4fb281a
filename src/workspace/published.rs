//! What is recorded while a workspace is published (CONTRACT §21).
//!
//! Invariant: one process at a time publishes a workspace on a host. The context says what is about to be pushed before
//! it is, and what was pushed before the ledger hears of it, so whoever dies, the next call knows both. The workspace
//! itself is locked only while its record changes: steps go on meanwhile.

use std::io::ErrorKind;

use crate::contract::ids::CommitId;
use crate::fsutil::{DirLock, process_with};
use crate::ledger::Tip;
use crate::model::workspace::Publication;

use super::Workspaces;
use super::context::{Context, Intent};
use super::heard::same;
use super::refusal::{Refusal, Why};
use super::store::{Held, PATIENCE, QUIET, make_lock};

/// The lock of whoever publishes, beside the context.
const LOCK: &str = "publish.lock";

/// A workspace that this process publishes.
pub struct Publishing<'w> {
    workspaces: &'w Workspaces<'w>,
    /// Its context, with the publications that its ledger has.
    pub context: Context,
    /// The commit of its work branch.
    pub head: CommitId,
    /// Whether its worktree has changes that are not committed. `None`: that cannot be told.
    pub is_dirty: Option<bool>,
    _lock: DirLock,
}

impl<'w> Workspaces<'w> {
    /// Begins to publish a workspace. It is complete then, and has what other hosts put on it.
    pub fn publishing(&'w self, context: &Context) -> Result<Publishing<'w>, Refusal> {
        let lock = self.publish_lock(context)?;
        let mut held = self.ready(context)?;
        if let Some((run, head)) = self.ledger_of(&held.context)? {
            let known = Tip::read_workspaces(self.repo, run, head)?.state.workspaces;
            if let Some(known) = same(&known, &held.context) {
                Publication::merge(&mut held.context.published, &known.published);
            }
        }
        let branch = held.context.branch();
        let because = |error: &dyn std::error::Error| Refusal::because(&format!("read {branch}"), error);
        let head = self.repo.branch_head(&branch).map_err(|error| because(&error))?;
        let Some(head) = head else {
            let handle = held.context.handle();
            return Err(Refusal::new(Why::Failed, format!("{branch} is gone; nothing was changed"))
                .hint(format!("`aynig workspace snapshot {handle}` makes it again, at its newest commit")));
        };
        let worktree = self.repo.hold_workspace(&held.context.worktree_path, &held.context.mark());
        let worktree = worktree.ok().flatten();
        if let Some(Err(refusal)) = worktree.as_ref().map(|worktree| self.catch_up(&held, worktree)) {
            (self.options.tell)(&refusal.message);
        }
        let clean = worktree.and_then(|worktree| self.repo.is_clean(&worktree).ok());
        let is_dirty = clean.map(|clean| !clean);
        Ok(Publishing { workspaces: self, context: held.context.clone(), head, is_dirty, _lock: lock })
    }

    fn publish_lock(&self, context: &Context) -> Result<DirLock, Refusal> {
        let directory = self.directory(context);
        let lock = directory.join(LOCK);
        let because = |error| Refusal::because(&format!("lock {}", context.handle()), &error);
        make_lock(&lock).map_err(because)?;
        match DirLock::acquire(&lock, QUIET) {
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                let holder = process_with(&lock)
                    .map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"));
                (self.options.tell)(&format!("waiting for {holder}, which publishes {}", context.handle()));
                DirLock::acquire(&lock, PATIENCE).map_err(because)
            }
            held => held.map_err(because),
        }
    }
}

impl Publishing<'_> {
    /// Records a push that is about to be made. One that may have arrived before stays known until then.
    pub fn intend(&mut self, intent: Intent) -> Result<(), Refusal> {
        self.change(|context| context.publishing = Some(intent)).map(drop)
    }

    /// Records what was published. The ledger of the run hears of it.
    pub fn record(&mut self, publication: Publication) -> Result<(), Refusal> {
        let (branch, url) = (publication.branch.clone(), publication.url.clone());
        let held = self.change(|context| {
            Publication::merge(&mut context.published, &[publication]);
            context.remote_branch = Some(branch);
            context.pr_url = url;
            context.publishing = None;
        })?;
        self.workspaces.hears(&held.context, &[]);
        Ok(())
    }

    fn change(&mut self, change: impl FnOnce(&mut Context)) -> Result<Held, Refusal> {
        let mut held = self.workspaces.hold_as_it_is(&self.context)?;
        Publication::merge(&mut held.context.published, &self.context.published);
        change(&mut held.context);
        held.save()?;
        self.context = held.context.clone();
        Ok(held)
    }
}
