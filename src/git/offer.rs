//! Pushes published work to a ref of a remote, with push options (CONTRACT §21).
//!
//! Invariant: the ref is pushed with the value that is expected of it. If the reply is lost, the remote is queried.

use bstr::{BString, ByteSlice};

use crate::contract::ids::{CommitId, RemoteName};
use crate::git::pushed::{Pushed, lease, parse_push, refspec, server_words};
use crate::git::refs::transaction::RefChange;
use crate::git::remote::{HASTE, PATIENCE, PLAIN_PUSH, QUESTION, RemoteError, UNTRACKED};
use crate::git::repo::open::Repo;

/// Git's message about a server that takes no push options. Nothing was sent to it then.
const NO_OPTIONS: &str = "does not support push options";

/// The result of a push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Offered {
    /// The remote has it. Its messages, line by line.
    Accepted(Vec<String>),
    /// The ref has another value than the expected one.
    Stale(Option<CommitId>),
    /// The server takes no push options.
    NoOptions,
    /// The server refused, or could not; its reason. Nothing was moved.
    Refused(String),
}

impl Repo {
    /// Moves one ref of `remote` with these push options. With `lands_elsewhere` the server may make another ref of it,
    /// so that an answer that is lost stays lost.
    pub(crate) fn offer(
        &self,
        remote: &RemoteName,
        change: &RefChange,
        options: &[String],
        lands_elsewhere: bool,
    ) -> Result<Offered, RemoteError> {
        let unreachable =
            |source| RemoteError::Unreachable { what: "push to", remote: remote.clone(), source };
        let RefChange { name, expected, new } = change;
        let mut git = self.without_tracking(remote).map_err(unreachable)?.args(PLAIN_PUSH).arg("--porcelain");
        for option in options {
            git = git.arg(format!("--push-option={option}"));
        }
        git = git.arg(lease(name.as_bstr(), *expected));
        git = git.arg("--end-of-options").arg(UNTRACKED).arg(refspec(*new, name.as_bstr()));
        let pushed = git.known_as(format!("push {remote}")).timeout(PATIENCE).run_unchecked();
        let output = match pushed {
            Ok(output) => output,
            Err(source) if lands_elsewhere => return Err(unreachable(source)),
            Err(source) => {
                tracing::warn!(%remote, error = %source, "a push broke off; asking the remote what became of it");
                return match self.value_of(remote, name, QUESTION)? {
                    now if now == *new => Ok(Offered::Accepted(Vec::new())),
                    now if now == *expected => Err(unreachable(source)),
                    now => Ok(Offered::Stale(now)),
                };
            }
        };
        if output.stderr.to_str_lossy().contains(NO_OPTIONS) {
            return Ok(Offered::NoOptions);
        }
        let said = server_words(&output.stderr);
        let reason = |reason: String| if said.is_empty() { reason } else { format!("{reason}: {said}") };
        match parse_push(&output.stdout).into_iter().next().map(|row| row.outcome) {
            Some(Pushed::Accepted) => Ok(Offered::Accepted(server_lines(&output.stderr))),
            Some(Pushed::Refused(why) | Pushed::Failed(why)) => Ok(Offered::Refused(reason(why))),
            Some(Pushed::Stale) => Ok(Offered::Stale(self.value_of(remote, name, HASTE)?)),
            Some(Pushed::Unknown) | None => {
                let now = self.value_of(remote, name, QUESTION)?;
                if now == *new && !lands_elsewhere {
                    return Ok(Offered::Accepted(server_lines(&output.stderr)));
                }
                if now != *expected && !lands_elsewhere {
                    return Ok(Offered::Stale(now));
                }
                let why = output.complaint();
                Ok(Offered::Refused(if said.is_empty() { why } else { said }))
            }
        }
    }

    /// The current value of a ref of a remote.
    fn value_of(
        &self,
        remote: &RemoteName,
        name: &BString,
        within: std::time::Duration,
    ) -> Result<Option<CommitId>, RemoteError> {
        Ok(self.ask_refs(remote, std::slice::from_ref(name), within)?.get(name).copied())
    }
}

/// The server's own messages (`remote: …`), without control characters.
fn server_lines(stderr: &[u8]) -> Vec<String> {
    let text = stderr.to_str_lossy();
    let lines = text.lines().filter_map(|line| line.strip_prefix("remote:"));
    lines.map(|line| line.trim().chars().filter(|c| !c.is_control()).collect()).collect()
}
