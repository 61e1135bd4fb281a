//! What is in a workspace of this host that the question of a gate is not about (CONTRACT 20.24).

use crate::contract::ids::CommitId;
use crate::git::worktrees::held::Worktree;
use crate::words::pluralize;

use super::Workspaces;
use super::context::{Context, State};
use super::heard::remade;
use super::moved::moved;
use super::refusal::Refusal;

/// What a question is not about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unasked {
    /// How many files of the worktree differ from its branch.
    pub files: usize,
    /// Whether the branch has commits that the asked one does not have.
    pub commits: bool,
}

impl Unasked {
    /// A sentence about it. `None` if there is nothing. `is_cut_off`: an attempt was cut off here, and may have left it.
    #[must_use]
    pub fn words(self, slug: &str, is_cut_off: bool) -> Option<String> {
        let again = "is refused once, and the gate asks about them";
        Some(match self {
            Self { files: 0, commits: false } => return None,
            Self { files, commits } if is_cut_off => {
                let changes = pluralize(files, "file");
                let what = match (files, commits) {
                    (0, _) => "commits on the work branch".to_owned(),
                    (_, false) => format!("changes in {changes}"),
                    (_, true) => format!("commits on the work branch, and changes in {changes},"),
                };
                format!(
                    "an attempt that was cut off here, or you, left {what} that the gate does not ask about; if they are \
                     yours, `aynig workspace snapshot {slug}` makes them part of the work"
                )
            }
            Self { files: 0, commits: true } => {
                format!(
                    "the work branch here has commits that the gate does not ask about; an answer here {again}"
                )
            }
            Self { files, .. } => format!(
                "the worktree here has changes in {} that the gate does not ask about; `aynig workspace snapshot {slug}` \
                 makes them part of the work, and the next answer here {again}",
                pluralize(files, "file")
            ),
        })
    }

    /// A sentence about changed files to somebody whose answer counts without them. `None` if there are none.
    #[must_use]
    pub fn left_out(self, is_cut_off: bool) -> Option<String> {
        if is_cut_off {
            return (self.files > 0 || self.commits).then(|| {
                "what an attempt that was cut off left here is no part of the answer; the next step here saves it under a \
                 rescue ref"
                    .to_owned()
            });
        }
        (self.files > 0).then(|| {
            format!(
                "the worktree here has changes in {} that the answer is not about; they stay, and a next step here begins with \
                 them",
                pluralize(self.files, "file")
            )
        })
    }
}

impl Workspaces<'_> {
    /// What is here that a question about the commit `asked` is not about. `worktrees` is how often the ledger has the
    /// worktree as made anew. What cannot be looked at now is left out.
    pub fn unasked(&self, context: &Context, asked: Option<CommitId>, worktrees: u64) -> Unasked {
        let lags = worktrees > remade(context.generation);
        let here = self.repo.branch_head(&context.branch()).ok().flatten();
        let has_more = |(here, asked): (CommitId, CommitId)| {
            // A commit that is not here is another host's.
            !lags && here != asked && self.repo.commit(asked).is_ok() && !self.repo.descends(asked, here)
        };
        let files = self.unsaved_files(context).unwrap_or_else(|refusal| {
            tracing::debug!(refusal.message, "the worktree is not looked at");
            0
        });
        Unasked { files, commits: here.zip(asked).is_some_and(has_more) }
    }

    /// How many files a snapshot would commit.
    fn unsaved_files(&self, context: &Context) -> Result<usize, Refusal> {
        let path = &context.worktree_path;
        let because = |error: &dyn std::error::Error| {
            Refusal::because(&format!("look at what is in {}", path.display()), error)
        };
        let is_whole = context.state == State::Ready && context.pending.is_none();
        if !is_whole || !self.is_free(context) || !path.is_dir() {
            return Ok(0);
        }
        self.check_settings(context)?;
        let registered = self.repo.worktrees_of(&context.mark()).map_err(|error| because(&error))?;
        if registered.is_empty() || moved(context, &registered).is_some() {
            return Ok(0);
        }
        let worktree = self.repo.hold_workspace(path, &context.mark()).map_err(|error| because(&error))?;
        worktree.map_or(Ok(0), |worktree| self.differing_files(context, &worktree))
    }

    fn differing_files(&self, context: &Context, worktree: &Worktree) -> Result<usize, Refusal> {
        let because = |error: &dyn std::error::Error| {
            Refusal::because(&format!("look at what is in {}", worktree.path.display()), error)
        };
        let tip = self.repo.branch_head(&context.branch()).map_err(|error| because(&error))?;
        // The branch may have commits of other hosts that were not brought into the worktree yet.
        let at = self.repo.head_of_log(&worktree.git_dir).filter(|at| self.repo.commit(*at).is_ok());
        let Some(from) = at.or(tip) else { return Ok(0) };
        let from = self.repo.commit(from).map_err(|error| because(&error))?;
        let inside = self.repo.look_inside(worktree, &from).map_err(|error| because(&error))?;
        let mut all = self.repo.differences(from.tree, inside.files).map_err(|error| because(&error))?;
        let left_out =
            self.left_out(&worktree.path, from.tree, inside.files).map_err(|error| because(&error))?;
        all.retain(|one| !left_out.contains(&one.path));
        Ok(all.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CONTRACT 20.24
    #[test]
    fn what_a_question_is_not_about_in_words() {
        let words = |files, commits| Unasked { files, commits }.words("1234abcd", false).unwrap_or_default();
        assert_eq!(words(0, false), "");
        assert!(words(1, true).starts_with("the worktree here has changes in 1 file that the gate"));
        assert!(words(2, false).contains("2 files") && words(2, false).contains("snapshot 1234abcd`"));
        assert!(
            words(1, true)
                .ends_with("and the next answer here is refused once, and the gate asks about them")
        );
        // A snapshot has nothing to do then.
        assert!(words(0, true).starts_with("the work branch here has commits that"));
        assert!(
            !words(0, true).contains("snapshot") && words(0, true).contains("an answer here is refused once")
        );
    }
}
