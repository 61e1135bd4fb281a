//! Reasons not to put a commit on a branch.

use bstr::BString;

use crate::contract::headlog::Origin;
use crate::contract::ids::CommitId;
use crate::contract::kept::Kept;
use crate::contract::lease::Lease;
use crate::git::{Repo, Unconcluded};
use crate::runner::attempt::files;
use crate::runner::attempt::ground::{Ground, named};
use crate::runner::options::Trust;
use crate::runner::survey::trust;

use super::answer::newest_answer;
use super::target::{Target, check_no_driver};
use super::{Expected, Holder};
use crate::clock::span;
use crate::ops::error::{Error, Kind};
use crate::ops::settings;
use crate::ops::view::lease::{gone, lease_words};
use crate::runner::authority::Authority;
use crate::words::shell_quote;

impl Target {
    /// Returns the caller's attempt and its checkout's log. `None` if the attempt does not hold the
    /// branch, or is not of this host.
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

    /// Checks that our signature vouches for no commit that a runner would refuse, except commits
    /// of the caller's own attempt (CONTRACT 13.10).
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

    /// Returns a foreign commit at HEAD of the attempt's branch that `tree`, the index of the
    /// attempt's worktree, would undo.
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

    /// Refuses the driver of a run, which would be taken out of its run (CONTRACT 20.31).
    pub(super) fn check_no_driver(&self, repo: &Repo) -> Result<(), Error> {
        check_no_driver(repo, &self.branch, self.head.as_ref().map(|head| head.id))
    }

    /// Checks that HEAD is as expected (CONTRACT 5.26).
    pub(super) fn check_expected(
        &self,
        repo: &Repo,
        authority: &Authority,
        expected: &Expected,
    ) -> Result<(), Error> {
        let head = self.head.as_ref().map(|head| head.id);
        let wanted = match expected {
            Expected { commit: Some(commit), .. }
                if head.is_none_or(|head| !head.to_string().starts_with(commit)) =>
            {
                format!("at {commit} (--expect)")
            }
            Expected { state: Some(state), .. } if self.meaning.state().as_ref() != Some(state) => {
                format!("in the state {state} (--if-state)")
            }
            Expected { .. } => return Ok(()),
        };
        let found = self.head_words();
        let message = format!("{} is not {wanted}: {found}; nothing was changed", self.branch);
        let answer =
            expected.commit.as_ref().zip(head).and_then(|(asked, head)| newest_answer(repo, head, asked));
        let error = answer.into_iter().fold(Error::new(Kind::Conflict, message), Error::hint);
        Err(error.hint(self.look_hint(authority)))
    }

    /// Returns the attempt whose lease is overridden. Fails without `force` if it is live and its
    /// command runs. A lease that was taken by hand on this host counts as the caller's.
    pub(super) fn check_free(
        &self,
        repo: &Repo,
        authority: &Authority,
        force: bool,
    ) -> Result<Option<BString>, Error> {
        let Some((lease, left)) = self.foreign_lease() else {
            // One that has ended is nobody's, but the state is not its attempt's either.
            return Ok(self.lease().filter(|_| !self.held).and_then(named_run));
        };
        let kind = holder(repo, authority, lease);
        match kind {
            Holder::Runner | Holder::Gone => {}
            Holder::Ended => return Ok(named_run(lease)),
            Holder::Hand => return Ok(None),
        }
        if force {
            return Ok(Some(lease.run_id.clone()));
        }
        let (holder, left) = (lease_words(lease), span(left));
        let message =
            format!("{} is leased to {holder} for another {left}; nothing was changed", self.branch);
        let error = Error::new(Kind::Conflict, message).hint(self.look_hint(authority));
        if let Some(gone) = gone(repo, authority.source(), lease).filter(|_| kind == Holder::Gone) {
            return Err(error
                .hint(gone)
                .hint("`--force` sets the state at once; the next `aynig run` then saves the work"));
        }
        Err(error.hint(match authority.source() {
            None => "`--force` sets the state all the same: the runner then stops the command and saves the work".to_owned(),
            Some(remote) => format!(
                "`--force` sets the state all the same: the runner stops the command and saves the work once it renews the \
                 lease; where {remote} guards its branches, it refuses that"
            ),
        }))
    }

    fn look_hint(&self, authority: &Authority) -> String {
        let branch = shell_quote(&self.branch);
        let remote = authority.source().map(|remote| format!(" --remote {remote}")).unwrap_or_default();
        format!("look with `aynig status --branch {branch}{remote}` and `aynig log {branch}{remote}`")
    }

    /// Checks that no merge or similar operation is in progress in the checkout whose index is
    /// taken. The commit would drop its other parents.
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

/// The attempt of a lease, if it can be named.
fn named_run(lease: &Lease) -> Option<BString> {
    lease.attempt().map(|attempt| attempt.to_string().into())
}

/// The kind of holder of a live lease, as far as it is known here.
pub(super) fn holder(repo: &Repo, authority: &Authority, lease: &Lease) -> Holder {
    if Kept::of(&lease.message).is_some() {
        return Holder::Ended;
    }
    if lease.attempt().is_some_and(|id| repo.is_left_behind(id)) {
        return Holder::Gone;
    }
    // A runner's lease in our name on a local branch has a record here. For a remote's branch another clone
    // may have the record.
    let ours = authority.source().is_none() && lease.runner == repo.runner_id();
    let by_hand = ours && lease.attempt().is_some_and(|id| files::find(repo, id).is_none());
    if by_hand { Holder::Hand } else { Holder::Runner }
}
