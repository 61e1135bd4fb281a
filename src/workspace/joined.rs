//! Brings commits of another workspace of the run into this one, by a merge of trees (CONTRACT 22.40).
//!
//! Invariants: the merge touches no checkout, and only the attributes of the run's base count for it, so no tree of an
//! agent names a merge driver. What lies in the worktree becomes a commit before. A merge that is not clean changes
//! nothing.

use bstr::{BString, ByteSlice};

use crate::contract::ids::CommitId;
use crate::git::Swap;
use crate::git::objects::commits::{Authored, NewCommit};
use crate::git::objects::differences::SUBMODULE;
use crate::git::objects::merge::{Merge, MergeError};
use crate::git::process::cancel::Purpose;

use super::Workspaces;
use super::context::Context;
use super::elsewhere::Asked;
use super::refusal::{Refusal, Why};
use super::snapshot::Clashing;

/// The result of a merge into a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Joined {
    /// The workspace had all of it.
    Known,
    /// It has all of it now.
    Merged,
    /// These paths have conflicts.
    Conflicts(Vec<BString>),
    /// It changes this submodule.
    Submodule(BString),
    /// It has another first commit.
    Unrelated,
    /// The git of this host cannot merge without a checkout.
    GitTooOld,
}

impl Workspaces<'_> {
    /// Merges `theirs` into the work branch, and brings the result into the worktree. The subject of a merge commit is
    /// `subject`. The ledger does not hear of it yet. The caller has just read that.
    pub fn join(
        &self,
        context: &Context,
        theirs: CommitId,
        subject: &str,
    ) -> Result<(Context, Joined), Refusal> {
        let mut held = self.ready_after(context, Asked::Before)?;
        let (before, _) = self.taken_of(&mut held, Clashing::Saved)?;
        let ours = before.context.head();
        let because = |error: &dyn std::error::Error| {
            Refusal::because(&format!("merge {} into {}", theirs.short(), context.branch()), error)
        };
        if self.repo.descends(ours, theirs) {
            return Ok((before.context, Joined::Known));
        }
        let tree = match self.repo.merge_trees(ours, theirs, context.base()) {
            Ok(Merge::Clean(tree)) => tree,
            Ok(Merge::Conflicts(paths)) => return Ok((before.context, Joined::Conflicts(paths))),
            Err(MergeError::Unrelated) => return Ok((before.context, Joined::Unrelated)),
            Err(MergeError::GitTooOld) => return Ok((before.context, Joined::GitTooOld)),
            Err(error) => return Err(because(&error)),
        };
        let ours_tree = self.repo.commit(ours).map_err(|error| because(&error))?.tree;
        let changes = self.repo.differences(ours_tree, tree).map_err(|error| because(&error))?;
        let is_submodule = |side: Option<(u16, CommitId)>| side.is_some_and(|(mode, _)| mode == SUBMODULE);
        if let Some(one) = changes.into_iter().find(|one| is_submodule(one.old) || is_submodule(one.new)) {
            return Ok((before.context, Joined::Submodule(one.path)));
        }
        // A branch with no commits of its own goes forward.
        let new = if self.repo.descends(theirs, ours) {
            theirs
        } else {
            let author = Authored::now(&context.name, &context.address());
            let message = format!("{subject}\n\naynig-run: {}\n", context.run_id);
            let new =
                NewCommit { tree, parents: &[ours, theirs], message: message.as_bytes(), attempt: None };
            let written = self.repo.write_commit_of(&new, &author, Purpose::Signature);
            written.map_err(|error| because(&error))?
        };
        let name = context.branch().full_ref();
        let moved = self.repo.swap(name.as_bstr(), Some(ours), new, "aynig: merged");
        if let Swap::Lost { .. } = moved.map_err(|error| because(&error))? {
            let message = format!("{} moved meanwhile; nothing was merged", context.branch());
            return Err(Refusal::new(Why::Conflict, message).hint("nothing is lost, try again"));
        }
        let (after, _) = self.taken_of(&mut held, Clashing::Saved)?;
        Ok((after.context, Joined::Merged))
    }
}
