//! Moves several refs of a remote together: one `git push --atomic` (CONTRACT 5.28).
//!
//! Invariant: every ref is pushed with the value that is expected of it, and the server moves all or none. If the
//! reply is lost, the remote is queried.

use std::collections::HashMap;
use std::time::Duration;

use bstr::{BString, ByteSlice};

use crate::contract::ids::{CommitId, RemoteName};
use crate::contract::layout::OURS;
use crate::git::process::cancel::Purpose;
use crate::git::pushed::{Pushed, lease, parse_push, refspec, server_words};
use crate::git::refs::transaction::{RefChange, Together};
use crate::git::remote::{HASTE, PATIENCE, PLAIN_PUSH, QUESTION, RemoteError, UNTRACKED};
use crate::git::repo::open::Repo;

/// Git's message about a server that cannot move several refs together.
const NO_ATOMIC: &str = "does not support --atomic";

/// Why a remote moved nothing, or why that is not known.
#[derive(Debug, thiserror::Error)]
pub enum Unmoved {
    /// The server refused.
    #[error("it refuses to move the refs: {0}")]
    Refused(String),
    /// The server could not; a retry may succeed.
    #[error("it could not move the refs: {0}")]
    Failed(String),
    /// Neither the push nor the question was answered.
    #[error("the push was not answered, and neither was the question what became of it")]
    Unanswered(#[source] Box<RemoteError>),
    /// The push broke off before it moved anything.
    #[error("the push broke off before it moved anything")]
    BrokeOff,
}

impl Unmoved {
    /// Whether the same push may succeed a moment later.
    pub(crate) fn may_pass(&self) -> bool {
        !matches!(self, Self::Refused(_))
    }
}

impl Repo {
    /// Makes all `changes` on `remote`, or none if one of the refs has another value than expected. An unanswered
    /// push is looked up.
    pub(crate) fn move_together(
        &self,
        remote: &RemoteName,
        changes: &[RefChange],
        within: Duration,
    ) -> Result<Together, Unmoved> {
        let answer = match self.push_together(remote, changes, within) {
            Ok(Pushed::Accepted) => return Ok(Together::Won),
            Ok(answer) => answer,
            Err(error) => {
                tracing::warn!(%remote, %error, "a push broke off; asking the remote what became of it");
                Pushed::Unknown
            }
        };
        let names: Vec<BString> = changes.iter().map(|change| change.name.clone()).collect();
        let patience = if answer == Pushed::Unknown { QUESTION } else { HASTE };
        let asked =
            self.ask_refs(remote, &names, patience).map_err(|error| Unmoved::Unanswered(Box::new(error)))?;
        let now = |change: &RefChange| asked.get(&change.name).copied();
        if changes.iter().all(|change| now(change) == change.new) {
            return Ok(Together::Won);
        }
        if let Some(change) = changes.iter().find(|change| now(change) != change.expected) {
            return Ok(Together::Lost { name: change.name.clone(), actual: now(change) });
        }
        // All refs are as they were.
        Err(match answer {
            Pushed::Refused(reason) => Unmoved::Refused(reason),
            Pushed::Failed(reason) => Unmoved::Failed(reason),
            Pushed::Unknown | Pushed::Stale | Pushed::Accepted => Unmoved::BrokeOff,
        })
    }

    /// Pushes `changes` to `remote`, all or none. Returns the result for the whole push, as far as the reply shows.
    /// An `Err` means that the connection broke, and the refs may have been moved all the same.
    fn push_together(
        &self,
        remote: &RemoteName,
        changes: &[RefChange],
        within: Duration,
    ) -> Result<Pushed, RemoteError> {
        let unreachable =
            |source| RemoteError::Unreachable { what: "push to", remote: remote.clone(), source };
        let names = self.namespace()?;
        let there = |change: &RefChange| names.there(change.name.as_bstr());
        let mut git = self.without_tracking(remote).map_err(unreachable)?;
        git = git.args(PLAIN_PUSH).args(["--porcelain", "--atomic"]);
        for change in changes {
            git = git.arg(lease(there(change).as_bstr(), change.expected));
        }
        git = git.arg("--end-of-options").arg(UNTRACKED);
        for change in changes {
            git = git.arg(refspec(change.new, there(change).as_bstr()));
        }
        let git = git.known_as(format!("push {remote}")).timeout(within.min(PATIENCE));
        let output = git.run_unchecked().map_err(unreachable)?;
        if output.stderr.to_str_lossy().contains(NO_ATOMIC) {
            let why = "it cannot move several refs together (`git push --atomic`)".to_owned();
            return Ok(Pushed::Refused(why));
        }
        let rows = parse_push(&output.stdout);
        let answers = changes.iter().map(|change| {
            let row = rows.iter().find(|row| row.reference == there(change));
            row.map_or(Pushed::Unknown, |row| row.outcome.clone())
        });
        let said = server_words(&output.stderr);
        let with_words = |reason: String| if said.is_empty() { reason } else { format!("{reason}: {said}") };
        // A ref that was refused takes the others with it, which git calls refused as well: the first other
        // answer is the cause.
        let mut worst = Pushed::Accepted;
        for answer in answers {
            worst = match (worst, answer) {
                (worst, Pushed::Accepted) => worst,
                (_, Pushed::Stale) | (Pushed::Stale, _) => Pushed::Stale,
                (Pushed::Refused(reason), _) | (_, Pushed::Refused(reason)) => Pushed::Refused(reason),
                (Pushed::Failed(reason), _) | (_, Pushed::Failed(reason)) => Pushed::Failed(reason),
                (_, Pushed::Unknown) => Pushed::Unknown,
            };
        }
        Ok(match worst {
            Pushed::Refused(reason) => Pushed::Refused(with_words(reason)),
            Pushed::Failed(reason) => Pushed::Failed(with_words(reason)),
            other => other,
        })
    }

    /// Queries the current values of refs of `remote`. Refs that do not exist are left out.
    pub(crate) fn ask_refs(
        &self,
        remote: &RemoteName,
        names: &[BString],
        within: Duration,
    ) -> Result<HashMap<BString, CommitId>, RemoteError> {
        let listed = self.list_refs(remote, names, within)?;
        Ok(listed.into_iter().filter(|(name, _)| names.contains(name)).collect())
    }

    /// Queries the current values of the refs of `remote` that match one of `patterns`; `*` also matches `/`.
    pub(crate) fn list_refs(
        &self,
        remote: &RemoteName,
        patterns: &[BString],
        within: Duration,
    ) -> Result<Vec<(BString, CommitId)>, RemoteError> {
        let names = self.namespace()?;
        let there: Vec<BString> = patterns.iter().map(|name| names.there(name.as_bstr())).collect();
        let listed = self.list_there(remote, &there, within)?.into_iter();
        Ok(listed.filter_map(|(name, id)| Some((names.here(name.as_bstr())?, id))).collect())
    }

    /// The refs of `remote` below `refs/aynig/`, if ours are elsewhere there.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub fn misplaced_refs(&self, remote: &RemoteName) -> Result<usize, RemoteError> {
        if self.namespace()?.is_default() {
            return Ok(0);
        }
        Ok(self.list_there(remote, &[format!("{OURS}*").into()], QUESTION)?.len())
    }

    /// Queries refs by the names that they have there.
    fn list_there(
        &self,
        remote: &RemoteName,
        patterns: &[BString],
        within: Duration,
    ) -> Result<Vec<(BString, CommitId)>, RemoteError> {
        let asking = ["ls-remote", "--quiet", "--end-of-options", remote.as_str()];
        let mut git = self.remote_git(Purpose::Other).args(asking);
        for name in patterns {
            git = git.arg(name.to_os_str_lossy());
        }
        let git = git.known_as(format!("ls-remote {remote}")).timeout(within);
        let output = git.run().map_err(|source| RemoteError::Unreachable {
            what: "ask",
            remote: remote.clone(),
            source,
        })?;
        let listed = output.stdout.lines().filter_map(|line| {
            let (id, name) = line.split_once_str("\t")?;
            Some((BString::from(name), CommitId::parse_hex(id)?))
        });
        Ok(listed.collect())
    }
}
