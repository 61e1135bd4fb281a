//! Reasons not to put a commit on a branch.

use crate::contract::headlog::Origin;
use crate::contract::ids::CommitId;
use crate::git::{Repo, Unconcluded};
use crate::runner::attempt::files;
use crate::runner::attempt::ground::{Ground, named};
use crate::runner::options::Trust;
use crate::runner::survey::trust;

use super::target::Target;
use crate::ops::error::Error;
use crate::ops::settings;

impl Target {
    /// The attempt that we belong to and the log of its checkout, if it is of this host and holds the branch.
    fn ground<'r>(&self, repo: &'r Repo) -> Option<Ground<'r>> {
        let attempt = self.lease().filter(|_| self.held)?.attempt()?;
        let record = files::find(repo, attempt)?;
        let git_dir = match &self.index {
            Some(checkout) => Some(checkout.git_dir.clone()),
            None => {
                let all = repo.linked_worktrees().ok()?;
                let own = all.into_iter().find(|one| one.mark().is_some_and(|mark| mark.attempt == attempt));
                own.map(|own| own.checkout.git_dir.clone())
            }
        };
        Some(Ground::new(repo, attempt, CommitId::parse_hex(&record.lease)?, git_dir.as_deref()))
    }

    /// That our signature vouches for no commit that a runner would refuse, unless the attempt we belong to has made it
    /// (CONTRACT 13.10).
    pub(super) fn check_signed(
        &self,
        repo: &Repo,
        accept_unsigned: bool,
        commit: CommitId,
    ) -> Result<(), Error> {
        if accept_unsigned || !repo.signs().unwrap_or(true) {
            return Ok(());
        }
        let trust = Trust { require_signed: settings::require_signed(repo)?, ..Trust::default() };
        let Some(why) = trust::refused(repo, &trust, commit) else { return Ok(()) };
        if self.ground(repo).is_some_and(|ground| ground.origin(commit) == Origin::Here) {
            return Ok(());
        }
        let message = format!(
            "nothing was changed, as the signature would vouch for what is below it: {}: {why}",
            self.branch
        );
        Err(Error::setup(message)
            .hint(format!("look at what it brings: `git show {}`", commit.short()))
            .hint("if you vouch for its files and its message, the same again with `--accept-unsigned`"))
    }

    /// Somebody else's commit on the branch of the attempt we belong to, which `tree`, the index of its worktree, would undo.
    pub(super) fn stranger(&self, repo: &Repo, tree: CommitId, parent: Option<CommitId>) -> Option<CommitId> {
        let head = self.head.as_ref()?.id;
        self.index.as_ref()?;
        let ground = self.ground(repo)?;
        let require_signed = settings::require_signed(repo).unwrap_or(true);
        let trust = Trust { require_signed, ..Trust::default() };
        match ground.origin(head) {
            Origin::Elsewhere(commit) if parent == Some(head) && !ground.is_in(&trust, commit, tree) => {
                Some(commit)
            }
            Origin::Elsewhere(_) | Origin::Here | Origin::Unknown => None,
        }
    }

    /// That nothing is under way in the checkout whose index is taken: the commit would drop its other parents.
    pub(super) fn check_concluded(&self) -> Result<(), Error> {
        let Some(checkout) = &self.index else { return Ok(()) };
        let Some(Unconcluded { what, conclude, abort, .. }) = Repo::unconcluded(&checkout.git_dir) else {
            return Ok(());
        };
        let message = format!("{what} is not concluded in {}; nothing was changed", checkout.path.display());
        Err(Error::setup(message).hint(format!(
            "conclude it with `{conclude}`, or take it back with `{abort}`; then set the state"
        )))
    }

    pub(super) fn overtaken(&self, repo: &Repo, stranger: CommitId) -> Error {
        Error::failed(format!(
            "somebody pushed {} onto {} meanwhile; nothing was changed",
            named(repo, stranger),
            self.branch
        ))
        .hint(
            "end this command: its runner saves the work, and sets the branch to `stalled` with this reason",
        )
    }
}
