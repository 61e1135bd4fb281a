//! The newest commit of the work: a worktree that is gone is made anew there, and a step does not begin without it
//! (CONTRACT 15.6, 20.4).

use std::cmp::Ordering;
use std::io::ErrorKind;

use bstr::ByteSlice;

use crate::contract::ids::CommitId;
use crate::contract::layout::work_ref;
use crate::ledger::Tip;
use crate::model::workspace::{Workspace, WorkspaceStatus};
use crate::words::shell_quote;

use super::Workspaces;
use super::context::{Context, State};
use super::heard::{generations, remade, same};
use super::refusal::{Refusal, Why};
use super::snapshot::Snapshot;
use super::store::Held;

impl Workspaces<'_> {
    /// Makes the worktree of a locked workspace anew if nothing is at its place. Returns whether it did.
    pub(super) fn made_if_gone(&self, held: &mut Held, done: &mut Snapshot) -> Result<bool, Refusal> {
        let found = held.context.worktree_path.symlink_metadata();
        if !found.is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            return Ok(false);
        }
        let to = self.newest_of_work(&held.context)?;
        self.made_anew(held, to, "its worktree was gone", done)?;
        Ok(true)
    }

    /// The branch, or if that is gone the newest commit that the record, the ledger or the remote names.
    fn newest_of_work(&self, context: &Context) -> Result<CommitId, Refusal> {
        let branch = context.branch();
        let because = |error: &dyn std::error::Error| Refusal::because(&format!("read {branch}"), error);
        if let Some(tip) = self.repo.branch_head(&branch).map_err(|error| because(&error))? {
            return Ok(tip);
        }
        let published = self.repo.read_ref(work_ref(&context.run_id, &context.name).as_bstr());
        let known = self.known(context)?.and_then(|known| CommitId::parse_hex(&known.head_sha));
        let named =
            [published.map_err(|error| because(&error))?, known, CommitId::parse_hex(&context.head_sha)];
        let is_here = |commit: &CommitId| self.repo.commit(*commit).is_ok();
        // Any of them may be the newest.
        let unread =
            named.into_iter().flatten().find(|commit| !is_here(commit) && !self.repo.is_absent(*commit));
        let here = named.into_iter().flatten().filter(is_here);
        let newest = here.reduce(|one, other| if self.repo.descends(other, one) { other } else { one });
        newest.filter(|_| unread.is_none()).ok_or_else(|| {
            let lost = unread.map(|unread| unread.short());
            let lost = lost.as_deref().or(context.head_sha.get(..10)).unwrap_or_default();
            let handle = context.handle();
            let message = format!(
                "worktree and branch of {handle} are gone, and {lost}, its newest commit, cannot be read; \
                 nothing was changed"
            );
            Refusal::new(Why::Failed, message).hint(format!(
                "`git fetch --all` brings it if a remote has it; if it is lost, `aynig workspace rollback {}` begins at the base",
                shell_quote(&handle)
            ))
        })
    }

    /// The words about a workspace whose branch here lacks what other hosts made of it. Its next change brings that.
    pub fn outdated_words(&self, context: &Context) -> Option<String> {
        let (run, head) = self.ledger_of(context).ok()??;
        let state = Tip::read_workspaces(self.repo, run, head).ok()?.state;
        let known = same(&state.workspaces, context)?;
        let is_ready = known.status == WorkspaceStatus::Ready && context.state == State::Ready;
        if !is_ready || !self.lags(&state.run, known, context) {
            return None;
        }
        let here = self.repo.branch_head(&context.branch()).ok()??;
        let newest = CommitId::parse_hex(&known.head_sha)?;
        // A rollback has a base that every branch of the work has.
        if generations(known, context) != Ordering::Greater && self.repo.descends(here, newest) {
            return None;
        }
        let handle = shell_quote(context.handle());
        Some(format!(
            "this clone's is at {}: `aynig workspace snapshot {handle}` brings it up to {}",
            here.short(),
            newest.short()
        ))
    }

    /// The workspace as its ledger has it here.
    fn known(&self, context: &Context) -> Result<Option<Workspace>, Refusal> {
        let Some((run, head)) = self.ledger_of(context)? else { return Ok(None) };
        let state = Tip::read_workspaces(self.repo, run, head)?.state;
        Ok(same(&state.workspaces, context).cloned())
    }

    /// Refuses a step at a commit that does not have the newest work that the ledger has. A rollback is recorded there,
    /// or with the end of the step; and people may have answered a question about the commit `settled`.
    pub(super) fn check_has_work(&self, held: &Held, settled: Option<CommitId>) -> Result<(), Refusal> {
        let context = &held.context;
        let Some(known) = self.known(context)? else { return Ok(()) };
        let Some(newest) = CommitId::parse_hex(&known.head_sha) else { return Ok(()) };
        let branch = context.branch();
        let here = self.repo.branch_head(&branch);
        let here = here.map_err(|error| Refusal::because(&format!("read {branch}"), &error))?;
        // A branch that is gone is made again at its newest commit.
        let Some(here) = here else { return Ok(()) };
        let is_remade = remade(context.generation) > known.generation;
        if is_remade || settled == Some(here) || self.repo.descends(here, newest) {
            return Ok(());
        }
        let handle = shell_quote(context.handle());
        let message = format!(
            "{branch} is at {}, without {}, the newest work of its run",
            here.short(),
            newest.short()
        );
        let path = shell_quote(context.worktree_path.display().to_string());
        Err(Refusal::new(Why::Conflict, message).hint(format!(
            "`git -C {path} merge --ff-only {}` brings it back, or `aynig workspace snapshot {handle}` takes the branch as it is",
            newest.short()
        )))
    }
}
