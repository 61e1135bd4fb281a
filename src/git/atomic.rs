//! Moves several refs of a remote together: one `git push --atomic` (CONTRACT 5.28).
//!
//! Invariant: every ref is pushed with the value that is expected of it, and the server moves all or none. If the
//! reply is lost, the remote is queried by the caller.

use std::collections::HashMap;
use std::time::Duration;

use bstr::{BString, ByteSlice};

use crate::contract::ids::{CommitId, RemoteName};
use crate::git::process::cancel::Purpose;
use crate::git::refs::transaction::RefChange;
use crate::git::remote::{PATIENCE, PLAIN_PUSH, Pushed, RemoteError, UNTRACKED, parse_push, server_words};
use crate::git::repo::open::Repo;

/// Git's message about a server that cannot move several refs together.
const NO_ATOMIC: &str = "does not support --atomic";

impl Repo {
    /// Pushes `changes` to `remote`, all or none. Returns the result for the whole push, as far as the reply shows.
    /// An `Err` means that the connection broke, and the refs may have been moved all the same.
    pub(crate) fn push_together(
        &self,
        remote: &RemoteName,
        changes: &[RefChange],
        within: Duration,
    ) -> Result<Pushed, RemoteError> {
        let unreachable =
            |source| RemoteError::Unreachable { what: "push to", remote: remote.clone(), source };
        let mut git = self.without_tracking(remote).map_err(unreachable)?;
        git = git.args(PLAIN_PUSH).args(["--porcelain", "--atomic"]);
        for RefChange { name, expected, .. } in changes {
            let expected = expected.map(|id| id.to_string()).unwrap_or_default();
            git = git.arg(format!("--force-with-lease={name}:{expected}"));
        }
        git = git.arg("--end-of-options").arg(UNTRACKED);
        for RefChange { name, new, .. } in changes {
            let new = new.map(|id| id.to_string()).unwrap_or_default();
            git = git.arg(format!("{new}:{name}"));
        }
        let git = git.known_as(format!("push {remote}")).timeout(within.min(PATIENCE));
        let output = git.run_unchecked().map_err(unreachable)?;
        if output.stderr.to_str_lossy().contains(NO_ATOMIC) {
            let why = "it cannot move several refs together (`git push --atomic`)".to_owned();
            return Ok(Pushed::Refused(why));
        }
        let rows = parse_push(&output.stdout);
        let answers = changes.iter().map(|change| {
            let row = rows.iter().find(|row| row.reference == change.name);
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
        let asking = ["ls-remote", "--quiet", "--end-of-options", remote.as_str()];
        let mut git = self.remote_git(Purpose::Other).args(asking);
        for name in names {
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
        Ok(listed.filter(|(name, _)| names.contains(name)).collect())
    }
}
