//! Talking to a remote: fetching its branches, asking what a ref is, and the leased push.
//!
//! Invariant: a push moves a branch only from the value that is named to it (`--force-with-lease=<ref>:<id>`) and only
//! forward (the refspec is not forced): after a rewind of the remote branch a plain push would bring removed commits
//! back. What a push answered is told apart ref by ref; where the answer never came, the remote is asked what
//! it has. Transport, credentials and proxies are the `git` program's business (CONTRACT.md §5).
//!
//! What was fetched lies below `refs/aynig/remotes/<remote>/`, so that a person's own tracking refs, which may be the last
//! name of a commit, are neither moved nor pruned.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::time::Duration;

use bstr::{BStr, BString, ByteSlice};

use crate::clock;
use crate::clock::Stopwatch;
use crate::contract::ids::{BranchName, CommitId, RemoteName};
use crate::contract::layout::{HEADS, Own, TRACKED, fetched_from, fetched_ref};
use crate::fsutil::{DirLock, FileLock};
use crate::git::process::call::{Git, ProcessError};
use crate::git::process::cancel::Purpose;
use crate::git::refs::cas::{RefError, Tip};
use crate::git::repo::open::Repo;

/// The longest one exchange with a remote may take; a hanging connection must not outlast a lease.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The same for a question, which moves no objects.
pub const QUESTION: Duration = Duration::from_secs(30);

/// The same for a question that a lease which is about to end waits for.
pub(crate) const HASTE: Duration = Duration::from_secs(5);

/// How long to wait for another runner in this clone that fetches; if it takes longer its connection may hang.
const TURN: Duration = Duration::from_secs(10);

/// How often a fetch is tried that met a half-made worktree.
const TRIES: u32 = 10;

/// A fetch of exactly the refs that are named, which says nothing and starts nothing else.
pub(crate) const QUIET_FETCH: [&str; 7] = [
    "fetch",
    "--quiet",
    "--no-tags",
    "--no-auto-maintenance",
    "--no-write-fetch-head",
    "--no-recurse-submodules",
    "--refmap=",
];

/// A push of exactly the refs that are named, without this clone's hooks.
pub(crate) const PLAIN_PUSH: [&str; 4] =
    ["push", "--no-verify", "--no-follow-tags", "--recurse-submodules=no"];

/// What git calls the remote that is pushed to. No remote of a person has a name that no ref could have.
const UNTRACKED: &str = "aynig..push";

/// What a remote's configuration says of pushes, as git spells it.
const OF_PUSHES: [&str; 7] =
    ["url", "pushurl", "receivepack", "vcs", "proxy", "proxyauthmethod", "serveroption"];

/// Why a remote could not be talked to.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// No such remote is configured.
    #[error("there is no remote {remote} in this repository")]
    Unknown {
        /// The name asked for.
        remote: RemoteName,
    },
    /// It does not answer, or not to us.
    #[error("could not {what} {remote}")]
    Unreachable {
        /// The verb: "fetch from", "ask", "push to".
        what: &'static str,
        /// Which remote.
        remote: RemoteName,
        /// Git's own words.
        #[source]
        source: ProcessError,
    },
    /// Local refs could not be read or written.
    #[error(transparent)]
    Refs(#[from] RefError),
}

/// A branch to be moved on the remote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// Which.
    pub branch: BranchName,
    /// What it must point at.
    pub expected: CommitId,
    /// What it is to point at; a descendant of `expected`.
    pub new: CommitId,
    /// How long that may take, where it is of no use later.
    pub within: Option<Duration>,
}

/// What a push did to one branch, as far as its answer tells.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// It was moved, or holds our commit already.
    Accepted,
    /// The remote has another value than the expected one.
    Stale,
    /// The server said no; its reason.
    Refused(String),
    /// The server could not, just now: somebody else had a lock there, or its disk has a problem.
    Failed(String),
    /// The answer never came.
    Unknown,
}

impl RemoteError {
    /// Which remote it is about, where it is about one.
    pub(crate) fn remote(&self) -> Option<&RemoteName> {
        match self {
            Self::Unknown { remote } | Self::Unreachable { remote, .. } => Some(remote),
            Self::Refs(_) => None,
        }
    }
}

impl Repo {
    /// Whether a remote of this name is configured.
    pub(crate) fn has_remote(&self, remote: &RemoteName) -> bool {
        self.config(&format!("remote.{remote}.url")).is_some()
            || self.config(&format!("remote.{remote}.pushurl")).is_some()
    }

    /// The branch on `remote` that `branch` follows, if it follows one there.
    pub(crate) fn upstream_on(&self, branch: &BranchName, remote: &RemoteName) -> Option<BranchName> {
        if self.config(&format!("branch.{branch}.remote"))? != remote.as_str() {
            return None;
        }
        let merge = self.config(&format!("branch.{branch}.merge"))?;
        BranchName::from_full_ref(BStr::new(merge.as_bytes()))
    }

    /// Fetches all branches of `remote`; one connection.
    pub(crate) fn fetch_branches(&self, remote: &RemoteName) -> Result<(), RemoteError> {
        let all = format!("+{HEADS}*:{}*", fetched_from(remote));
        self.fetch(remote, &[all], Purpose::Scan, PATIENCE)
    }

    /// Fetches some branches of `remote`, those that exist.
    pub(crate) fn fetch_some(
        &self,
        remote: &RemoteName,
        branches: &[BranchName],
        within: Duration,
    ) -> Result<(), RemoteError> {
        let specs: Vec<String> = branches
            .iter()
            .map(|branch| format!("+{HEADS}{branch}:{}{branch}", fetched_from(remote)))
            .collect();
        self.fetch(remote, &specs, Purpose::Other, within)
    }

    fn fetch(
        &self,
        remote: &RemoteName,
        specs: &[String],
        purpose: Purpose,
        within: Duration,
    ) -> Result<(), RemoteError> {
        // A fetch fails altogether if one of the refs it is about to move is moved meanwhile, so runners in one clone take
        // turns; but whoever hangs must not make the others hang.
        let within = within.min(PATIENCE);
        let watch = Stopwatch::start();
        let turns = self.turns();
        let turn = |patience| turns.as_ref().and_then(|dir| DirLock::acquire(dir, patience).ok());
        let left = || within.saturating_sub(watch.elapsed()).max(Duration::from_secs(1));
        let held = turn(TURN.min(within));
        match self.fetch_once(remote, specs, purpose, left()) {
            // Without a turn somebody else may have moved the refs: once more when they are done.
            Err(ProcessError::Failed { .. }) if held.is_none() && watch.elapsed() < within => {
                let _held = turn(left());
                self.fetch_once(remote, specs, purpose, left())
            }
            other => other,
        }
        .map_err(|source| RemoteError::Unreachable {
            what: "fetch from",
            remote: remote.clone(),
            source,
        })
    }

    fn fetch_once(
        &self,
        remote: &RemoteName,
        specs: &[String],
        purpose: Purpose,
        within: Duration,
    ) -> Result<(), ProcessError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let mut git = self.remote_git(purpose).args(QUIET_FETCH);
            if purpose == Purpose::Scan {
                git = git.arg("--prune");
            }
            let done = git
                .arg("--end-of-options")
                .arg(remote.as_str())
                .args(specs)
                .known_as(format!("fetch {remote}"))
                .timeout(within)
                .run();
            match done {
                // Git also reads the registrations of worktrees, and gives up at one that another process is just making.
                Err(ProcessError::Failed { said, .. }) if tries < TRIES && said.contains("/worktrees/") => {
                    tracing::debug!(said, "again");
                    clock::pause(Duration::from_millis(20));
                }
                done => return done.map(drop),
            }
        }
    }

    /// A call of git about a remote: where a person would type it, as a relative address counts from there.
    pub(crate) fn remote_git(&self, purpose: Purpose) -> Git {
        let git = if self.is_bare() {
            Git::shared(self.common_dir())
        } else {
            Git::inside(self.top(), self.common_dir())
        };
        git.for_others(self.interrupt(), purpose)
    }

    /// The directory whose lock is held by whoever moves the fetched refs.
    fn turns(&self) -> Option<PathBuf> {
        let dir = Own::Remotes.within(self.common_dir());
        std::fs::create_dir_all(&dir).is_ok().then_some(dir)
    }

    /// The branches of `remote` as last fetched.
    pub fn fetched_branches(&self, remote: &RemoteName) -> Result<Vec<Tip>, RefError> {
        self.tips(&fetched_from(remote))
    }

    /// What branches `remote` is known to have, by our own fetches and by a person's; as far as that can be read.
    pub(crate) fn known_branches(&self, remote: &RemoteName) -> BTreeSet<BranchName> {
        let places = [fetched_from(remote), format!("{TRACKED}{remote}/")];
        let tips = places.iter().flat_map(|place| self.tips(place).unwrap_or_default());
        // What is symbolic is the remote's own HEAD.
        tips.filter(|tip| tip.target.is_ok()).map(|tip| tip.branch).collect()
    }

    /// One branch of `remote` as last fetched.
    pub fn fetched_head(
        &self,
        remote: &RemoteName,
        branch: &BranchName,
    ) -> Result<Option<CommitId>, RefError> {
        self.read_ref(fetched_ref(remote, branch).as_bstr())
    }

    /// Notes what `branch` of `remote` is known to point at now; not while somebody fetches, for it would fail over that.
    pub(crate) fn note_fetched(&self, remote: &RemoteName, branch: &BranchName, head: CommitId) {
        let turn = self.turns().map(|dir| FileLock::try_acquire(&dir));
        if matches!(turn, Some(Ok(None))) {
            return;
        }
        let name = fetched_ref(remote, branch);
        let noted = self
            .read_ref(name.as_bstr())
            .and_then(|known| self.swap(name.as_bstr(), known, head, "aynig: pushed").map(drop));
        if let Err(error) = noted {
            tracing::debug!(%branch, %error, "what the remote has now was not noted; the next fetch will");
        }
    }

    /// What the branches of `remote` are now; all of them, or only those named. Nothing is fetched.
    pub fn ask_remote(
        &self,
        remote: &RemoteName,
        branches: &[BranchName],
        within: Duration,
    ) -> Result<HashMap<BranchName, CommitId>, RemoteError> {
        let purpose = if branches.is_empty() { Purpose::Scan } else { Purpose::Other };
        let asking = ["ls-remote", "--quiet", "--heads", "--end-of-options", remote.as_str()];
        let mut git = self.remote_git(purpose).args(asking);
        for branch in branches {
            git = git.arg(branch.full_ref().to_os_str_lossy());
        }
        let git = git.known_as(format!("ls-remote {remote}"));
        let output = git.timeout(within).run().map_err(|source| RemoteError::Unreachable {
            what: "ask",
            remote: remote.clone(),
            source,
        })?;
        Ok(output.stdout.lines().filter_map(parse_listed).collect())
    }

    /// Tries all `moves` in one push, each judged by itself, in their order. An `Err` means that no ref was judged; refs may
    /// have been moved all the same (the connection broke), so the remote must be asked.
    pub(crate) fn push_moves(
        &self,
        remote: &RemoteName,
        moves: &[Move],
        within: Duration,
    ) -> Result<Vec<Pushed>, RemoteError> {
        let unreachable =
            |source| RemoteError::Unreachable { what: "push to", remote: remote.clone(), source };
        let mut git = self.without_tracking(remote).map_err(unreachable)?.args(PLAIN_PUSH).arg("--porcelain");
        for Move { branch, expected, .. } in moves {
            git = git.arg(format!("--force-with-lease={}:{expected}", branch.full_ref()));
        }
        git = git.arg("--end-of-options").arg(UNTRACKED);
        for Move { branch, new, .. } in moves {
            git = git.arg(format!("{new}:{}", branch.full_ref()));
        }
        let git = git.known_as(format!("push {remote}")).timeout(within.min(PATIENCE));
        let output = git.run_unchecked().map_err(unreachable)?;
        let rows = parse_push(&output.stdout);
        let answers = moves.iter().map(|wanted| {
            let row = rows.iter().find(|row| row.reference == wanted.branch.full_ref());
            row.map_or(Pushed::Unknown, |row| row.outcome.clone())
        });
        let said = server_words(&output.stderr);
        Ok(answers
            .map(|answer| match answer {
                Pushed::Refused(reason) if !said.is_empty() => Pushed::Refused(format!("{reason}: {said}")),
                Pushed::Failed(reason) if !said.is_empty() => Pushed::Failed(format!("{reason}: {said}")),
                other => other,
            })
            .collect())
    }

    /// A call of git that knows `remote` as [`UNTRACKED`], without refspecs.
    ///
    /// After a push git moves the tracking ref of each branch. A person's `git push --force-with-lease` compares with that ref,
    /// and would write over results that they have not seen.
    fn without_tracking(&self, remote: &RemoteName) -> Result<Git, ProcessError> {
        let listed = self.remote_git(Purpose::Other).args(["config", "--null", "--list"]).run()?;
        let own = format!("remote.{remote}.");
        let mut git = self.remote_git(Purpose::Other);
        let mut count = 0;
        for (key, value) in
            listed.stdout.split(|byte| *byte == 0).filter_map(|entry| entry.split_once_str("\n"))
        {
            let Some(name) = key.strip_prefix(own.as_bytes()).and_then(|name| name.to_str().ok()) else {
                continue;
            };
            if OF_PUSHES.contains(&name) {
                git = git.env(&format!("GIT_CONFIG_KEY_{count}"), format!("remote.{UNTRACKED}.{name}"));
                git = git.env(&format!("GIT_CONFIG_VALUE_{count}"), value.to_os_str_lossy());
                count += 1;
            }
        }
        Ok(git.env("GIT_CONFIG_COUNT", count.to_string()))
    }
}

/// `<id>\trefs/heads/<name>`.
fn parse_listed(line: &[u8]) -> Option<(BranchName, CommitId)> {
    let (id, name) = line.split_once_str("\t")?;
    Some((BranchName::from_full_ref(name.as_bstr())?, CommitId::parse_hex(id)?))
}

#[derive(Debug, PartialEq, Eq)]
struct Row {
    reference: BString,
    outcome: Pushed,
}

/// The lines `<flag>\t<from>:<to>\t<summary>` of `git push --porcelain`.
fn parse_push(stdout: &[u8]) -> Vec<Row> {
    stdout.lines().filter_map(parse_row).collect()
}

fn parse_row(line: &[u8]) -> Option<Row> {
    let mut fields = line.splitn(3, |byte| *byte == b'\t');
    let (flag, refs, summary) = (fields.next()?, fields.next()?, fields.next()?);
    let (_, reference) = refs.split_once_str(":")?;
    let outcome = match flag {
        // `=` means that the remote holds exactly our commit; ours are unique, so it was we who put it there.
        b" " | b"*" | b"=" => Pushed::Accepted,
        b"!" if summary.starts_with(b"[remote rejected]") || summary.starts_with(b"[remote failure]") => {
            let reason = summary.to_str_lossy().trim_start_matches("[remote rejected]").trim().to_owned();
            // What `git receive-pack` itself says when it cannot lock or write the ref.
            if reason.starts_with("(failed to update ref") {
                Pushed::Failed(reason)
            } else {
                Pushed::Refused(reason)
            }
        }
        b"!" => Pushed::Stale,
        _ => Pushed::Unknown,
    };
    Some(Row { reference: reference.into(), outcome })
}

/// What the server itself said (`remote: …`), on one line, bounded.
fn server_words(stderr: &[u8]) -> String {
    let text = stderr.to_str_lossy();
    let lines: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("remote: "))
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    lines.join("; ").chars().filter(|c| !c.is_control()).take(600).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn push_answers_are_told_apart() {
        let answer = "To ../r.git\n \taa:refs/heads/won\t1..2\n=\taa:refs/heads/mine\t[up to date]\n!\taa:refs/heads/lost\t[rejected] (stale info)\n\
            !\taa:refs/heads/behind\t[rejected] (non-fast-forward)\n!\taa:refs/heads/kept\t[remote rejected] (hook declined)\n\
            !\taa:refs/heads/locked\t[remote rejected] (failed to update ref)\nDone\n";
        let rows = parse_push(answer.as_bytes());
        let of = |name: &str| {
            rows.iter().find(|row| row.reference == format!("refs/heads/{name}")).map(|row| &row.outcome)
        };
        assert_eq!(of("won"), Some(&Pushed::Accepted));
        assert_eq!(of("mine"), Some(&Pushed::Accepted));
        assert_eq!(of("lost"), Some(&Pushed::Stale));
        assert_eq!(of("behind"), Some(&Pushed::Stale));
        assert_eq!(of("kept"), Some(&Pushed::Refused("(hook declined)".to_owned())));
        assert_eq!(of("locked"), Some(&Pushed::Failed("(failed to update ref)".to_owned())));
        assert_eq!(rows.len(), 6);
    }

    #[test]
    fn the_servers_own_words_are_kept() {
        assert_eq!(server_words(b"remote: no, protected   \nremote: \nerror: failed\n"), "no, protected");
    }
}
