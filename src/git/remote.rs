//! Remotes: fetches branches, queries refs, and pushes with a lease.
//!
//! Invariant: a push moves a branch only from the value named for it
//! (`--force-with-lease=<ref>:<id>`) and only forward (the refspec is not forced). After a rewind
//! of the remote branch an unleased push would bring removed commits back. The result of a push is
//! judged ref by ref; if the reply is lost, the remote is queried (CONTRACT 5.15, 5.16). The `git`
//! program handles transport, credentials and proxies.
//!
//! Fetched branches are kept below `refs/aynig/remotes/<remote>/`. So the user's own
//! remote-tracking refs, which may be the last name of a commit, are neither moved nor pruned
//! (CONTRACT 5.19).

use std::collections::{BTreeSet, HashMap};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use bstr::{BStr, BString, ByteSlice};

use crate::clock;
use crate::clock::Stopwatch;
use crate::contract::ids::{BranchName, CommitId, RemoteName};
use crate::contract::layout::{
    FETCHED_RUNS, HEADS, Own, RUNS, SLOTS, TRACKED, fetched_from, fetched_ref, fetched_slots, slot_ref,
};
use crate::contract::namespace::Namespace;
use crate::fsutil::{DirLock, FileLock};
use crate::git::process::call::{Git, ProcessError};
use crate::git::process::cancel::{Interrupt, Purpose};
use crate::git::pushed::{Pushed, lease, parse_push, refspec, server_words};
use crate::git::refs::cas::RefError;
use crate::git::refs::file::linked;
use crate::git::refs::list::Tip;
use crate::git::repo::open::Repo;
use crate::words::shell_quote;

/// The longest that one exchange with a remote may take: a hanging connection must not outlast a
/// lease.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The longest that a query may take, which moves no objects.
pub const QUESTION: Duration = Duration::from_secs(30);

/// The longest that a query may take for a lease that is about to end.
pub(crate) const HASTE: Duration = Duration::from_secs(5);

/// How long to wait for another runner's fetch in this clone. If it takes longer its connection may
/// hang.
const TURN: Duration = Duration::from_secs(10);

/// How many times a fetch is tried that met a half-made worktree registration.
const TRIES: u32 = 10;

/// A fetch of exactly the named refs, without output and without side effects such as tags and
/// maintenance.
pub(crate) const QUIET_FETCH: [&str; 7] = [
    "fetch",
    "--quiet",
    "--no-tags",
    "--no-auto-maintenance",
    "--no-write-fetch-head",
    "--no-recurse-submodules",
    "--refmap=",
];

/// A push of exactly the named refs, without this clone's hooks.
pub(crate) const PLAIN_PUSH: [&str; 4] =
    ["push", "--no-verify", "--no-follow-tags", "--recurse-submodules=no"];

/// The name of the remote for pushes. It is no legal ref component, so no remote of a user has it.
pub(super) const UNTRACKED: &str = "aynig..push";

/// The settings of a remote that apply to pushes, in git's spelling.
const OF_PUSHES: [&str; 7] =
    ["url", "pushurl", "receivepack", "vcs", "proxy", "proxyauthmethod", "serveroption"];

/// Why an exchange with a remote failed.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// No such remote is configured.
    #[error("there is no remote {remote} in this repository")]
    Unknown {
        /// The name requested.
        remote: RemoteName,
    },
    /// The remote does not answer, or denies access.
    #[error("could not {what} {remote}")]
    Unreachable {
        /// The verb: "fetch from", "ask", "push to".
        what: &'static str,
        /// The remote.
        remote: RemoteName,
        /// Git's reason.
        #[source]
        source: ProcessError,
    },
    /// Local refs could not be read or written.
    #[error(transparent)]
    Refs(#[from] RefError),
    /// The names that refs have there are set wrongly.
    #[error("aynig.refNamespace: {why}")]
    Namespace {
        /// What to write instead.
        why: String,
    },
}

/// A branch to be moved on the remote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// The branch.
    pub branch: BranchName,
    /// Its expected value.
    pub expected: CommitId,
    /// Its new value; a descendant of `expected`.
    pub new: CommitId,
    /// How long the move may take, if it is useless later.
    pub within: Option<Duration>,
}

impl RemoteError {
    /// The remote of this error, if it is about one.
    pub(crate) fn remote(&self) -> Option<&RemoteName> {
        match self {
            Self::Unknown { remote } | Self::Unreachable { remote, .. } => Some(remote),
            Self::Refs(_) | Self::Namespace { .. } => None,
        }
    }
}

impl Repo {
    /// Whether a remote of this name is configured.
    pub(crate) fn has_remote(&self, remote: &RemoteName) -> bool {
        self.config(&format!("remote.{remote}.url")).is_some()
            || self.config(&format!("remote.{remote}.pushurl")).is_some()
    }

    /// The upstream of `branch`, if it is on `remote`.
    pub(crate) fn upstream_on(&self, branch: &BranchName, remote: &RemoteName) -> Option<BranchName> {
        if self.config_of_branch(branch, "remote")? != remote.as_str() {
            return None;
        }
        BranchName::from_full_ref(self.config_of_branch(branch, "merge")?.as_bstr())
    }

    /// Fetches all branches of `remote` and their deferred states in one connection, and prunes.
    pub(crate) fn fetch_branches(&self, remote: &RemoteName) -> Result<(), RemoteError> {
        let names = self.namespace()?;
        let all = format!("+{HEADS}*:{}*", fetched_from(remote)).into();
        let slots = format!("+{}*:{}*", names.there(SLOTS.into()), fetched_slots(remote)).into();
        let specs = [vec![all, slots], names.exclusions()].concat();
        self.fetch(remote, &specs, Purpose::Scan, PATIENCE)
    }

    /// Fetches the named branches of `remote` that exist.
    pub(crate) fn fetch_some(
        &self,
        remote: &RemoteName,
        branches: &[BranchName],
        within: Duration,
    ) -> Result<(), RemoteError> {
        // As bytes: as text, a name that is not UTF-8 would become that of another branch.
        let spec = |branch: &BranchName| {
            [b"+", branch.full_ref().as_bytes(), b":", fetched_ref(remote, branch).as_bytes()].concat().into()
        };
        let specs: Vec<BString> = branches.iter().map(spec).collect();
        self.fetch(remote, &specs, Purpose::Other, within)
    }

    fn fetch(
        &self,
        remote: &RemoteName,
        specs: &[BString],
        purpose: Purpose,
        within: Duration,
    ) -> Result<(), RemoteError> {
        for to in specs.iter().filter_map(|spec| spec.rsplit_once_str(":").map(|(_, to)| to)) {
            self.check_copies(to.as_bstr())?;
        }
        // A fetch fails as a whole if one of the refs it is about to move is moved meanwhile, so
        // runners in one clone take turns. But a hanging runner must not block the others, so the
        // wait is bounded.
        let within = within.min(PATIENCE);
        let watch = Stopwatch::start();
        let turns = self.turns();
        let turn = |patience| turns.as_ref().and_then(|dir| DirLock::acquire(dir, patience).ok());
        let left = || within.saturating_sub(watch.elapsed()).max(Duration::from_secs(1));
        let held = turn(TURN.min(within));
        match self.fetch_once(remote, specs, purpose, left()) {
            // Without the turn another runner may have moved the refs: tries once more when it is
            // done.
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

    /// Refuses to fetch to a directory that a link leads to other refs: git would move those, and prune them.
    fn check_copies(&self, to: &BStr) -> Result<(), RefError> {
        let directory = to.rsplit_once_str("/").map_or(to, |(directory, _)| directory.as_bstr());
        let is_pattern = to.ends_with(b"*");
        let mut ahead = vec![directory.to_owned()];
        while let Some(directory) = ahead.pop() {
            let place = self.common_dir().join(directory.to_os_str_lossy());
            if let Some(other) = linked(self.common_dir(), directory.as_bstr()) {
                let why = format!(
                    "{} leads to {other}, so a fetch would move those refs; `rm {}` removes the link alone",
                    place.display(),
                    shell_quote(place.as_os_str().as_bytes())
                );
                return Err(RefError::Unwritable { name: directory.to_string(), why });
            }
            let entries = std::fs::read_dir(&place).into_iter().flatten().flatten();
            let below = entries.filter(|entry| is_pattern && entry.path().is_dir());
            ahead.extend(
                below.map(|entry| [directory.as_bytes(), b"/", entry.file_name().as_bytes()].concat().into()),
            );
        }
        Ok(())
    }

    fn fetch_once(
        &self,
        remote: &RemoteName,
        specs: &[BString],
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
            // All contents of a ledger are read, so a partial clone leaves out none.
            if specs
                .iter()
                .any(|spec| [RUNS, FETCHED_RUNS].iter().any(|to| spec.contains_str(format!(":{to}"))))
            {
                git = git.arg("--no-filter");
            }
            let done = git
                .arg("--end-of-options")
                .arg(remote.as_str())
                .args(specs.iter().map(|spec| spec.to_os_str_lossy()))
                .known_as(format!("fetch {remote}"))
                .timeout(within)
                .run();
            match done {
                // Git also reads the registrations of worktrees, and fails for one that another
                // process is just creating.
                // A command in this clone may move a ref that this fetch is about to move.
                Err(ProcessError::Failed { said, .. }) if tries < TRIES && is_passing(&said) => {
                    tracing::debug!(said, "again");
                    clock::pause(Duration::from_millis(20));
                }
                done => return done.map(drop),
            }
        }
    }

    /// A `git` call about a remote. It runs where a user would type it, since a relative URL counts
    /// from there.
    pub(crate) fn remote_git(&self, purpose: Purpose) -> Git {
        let git = if self.is_bare() {
            Git::shared(self.common_dir())
        } else {
            Git::inside(self.top(), self.common_dir())
        };
        git.for_others(self.interrupt(), purpose)
    }

    /// The directory whose lock serialises changes of the fetched refs.
    fn turns(&self) -> Option<PathBuf> {
        let dir = Own::Remotes.within(self.common_dir());
        std::fs::create_dir_all(&dir).is_ok().then_some(dir)
    }

    /// The deferred states of `remote` as last fetched; without one, of this repository.
    pub(crate) fn slots(&self, remote: Option<&RemoteName>) -> Result<Vec<Tip>, RefError> {
        self.tips(&remote.map_or_else(|| SLOTS.to_owned(), fetched_slots))
    }

    /// Fetches the commit of the deferred state of one branch of `remote`. No ref is made of it: a stale one could be
    /// in its way (`a` and `a/b`).
    pub(crate) fn fetch_slot(
        &self,
        remote: &RemoteName,
        branch: &BranchName,
        within: Duration,
    ) -> Result<(), RemoteError> {
        let spec = self.namespace()?.there(slot_ref(branch).as_bstr());
        self.fetch(remote, &[spec], Purpose::Other, within)
    }

    /// Fetches refs of `remote`, each into a ref here. Those that the remote does not have stay.
    pub(crate) fn fetch_refs(
        &self,
        remote: &RemoteName,
        names: &[(&str, &str)],
        within: Duration,
    ) -> Result<(), RemoteError> {
        let there = self.namespace()?;
        // A pattern may match nothing, where a name that is missing fails the fetch.
        let specs: Vec<BString> = names
            .iter()
            .map(|(name, here)| format!("+{}*:{here}*", there.there((*name).into())).into())
            .collect();
        self.fetch(remote, &specs, Purpose::Other, within)
    }

    /// Fetches what refs of `remote` point at. No ref is made of it.
    pub(crate) fn fetch_objects(
        &self,
        remote: &RemoteName,
        names: &[BString],
        within: Duration,
    ) -> Result<(), RemoteError> {
        let there = self.namespace()?;
        let specs: Vec<BString> = names.iter().map(|name| there.there(name.as_bstr())).collect();
        self.fetch(remote, &specs, Purpose::Other, within)
    }

    /// Fetches all ledgers of `remote` in one connection, and prunes. They are kept aside, below
    /// [`FETCHED_RUNS`].
    pub(crate) fn fetch_ledgers(&self, remote: &RemoteName) -> Result<(), RemoteError> {
        let all = format!("+{}*:{FETCHED_RUNS}{remote}/*", self.namespace()?.there(RUNS.into())).into();
        self.fetch(remote, &[all], Purpose::Scan, QUESTION)
    }

    /// The branches of `remote` as last fetched.
    pub fn fetched_branches(&self, remote: &RemoteName) -> Result<Vec<Tip>, RefError> {
        self.branches_below(&fetched_from(remote))
    }

    /// The names that runners' refs have on remotes.
    ///
    /// # Errors
    /// [`RemoteError::Namespace`]: nothing is said to a remote by a wrong name.
    pub fn namespace(&self) -> Result<Namespace, RemoteError> {
        let value = self.config("aynig.refNamespace").unwrap_or_default();
        Namespace::parse(&value).map_err(|why| RemoteError::Namespace { why })
    }

    /// The branches below a prefix, without runners' refs that are branches on the hub.
    pub(crate) fn branches_below(&self, prefix: &str) -> Result<Vec<Tip>, RefError> {
        let names = self.namespace().unwrap_or_default();
        let mut tips = self.tips(prefix)?;
        tips.retain(|tip| !names.has_branch(&tip.branch));
        Ok(tips)
    }

    /// Those of these branches that there are, here or as last fetched from a remote. No other ref is read.
    pub fn branches_of(
        &self,
        remote: Option<&RemoteName>,
        only: &[BranchName],
    ) -> Result<Vec<Tip>, RefError> {
        let names = self.namespace().unwrap_or_default();
        let only = only.iter().filter(|branch| !names.has_branch(branch)).cloned().collect();
        self.tips_of(&remote.map_or_else(|| HEADS.to_owned(), fetched_from), only)
    }

    /// All branches that `remote` is known to have, from runners' fetches and from the user's;
    /// unreadable refs are left out.
    pub(crate) fn known_branches(&self, remote: &RemoteName) -> BTreeSet<BranchName> {
        let places = [fetched_from(remote), format!("{TRACKED}{remote}/")];
        let tips = places.iter().flat_map(|place| self.branches_below(place).unwrap_or_default());
        // A symbolic ref is the remote's HEAD.
        tips.filter(|tip| tip.target.is_ok()).map(|tip| tip.branch).collect()
    }

    /// One branch of `remote` as the user last fetched it. `there` is its short name.
    pub fn tracked_head(&self, remote: &RemoteName, there: &str) -> Result<Option<CommitId>, RefError> {
        self.read_ref(format!("{TRACKED}{remote}/{there}").as_bytes().as_bstr())
    }

    /// One branch of `remote` as last fetched.
    pub fn fetched_head(
        &self,
        remote: &RemoteName,
        branch: &BranchName,
    ) -> Result<Option<CommitId>, RefError> {
        self.read_ref(fetched_ref(remote, branch).as_bstr())
    }

    /// Records the known value of `branch` on `remote`. Does nothing while another runner fetches,
    /// since its fetch would fail.
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

    /// Queries the current branches of `remote`; all of them, or only those named. Fetches nothing.
    pub fn ask_remote(
        &self,
        remote: &RemoteName,
        branches: &[BranchName],
        within: Duration,
    ) -> Result<HashMap<BranchName, CommitId>, RemoteError> {
        let purpose = if branches.is_empty() { Purpose::Scan } else { Purpose::Other };
        list(self.remote_git(purpose), &self.namespace()?, remote, branches, within)
    }

    /// Queries branches of `remote` for work under way; `call` ends the call.
    pub(crate) fn watch_remote(
        &self,
        remote: &RemoteName,
        branches: &[BranchName],
        call: &Interrupt,
        within: Duration,
    ) -> Result<HashMap<BranchName, CommitId>, RemoteError> {
        let git = self.remote_git(Purpose::Other).for_others(call, Purpose::Other);
        list(git, &self.namespace()?, remote, branches, within)
    }

    /// Fetches the commits of branches of `remote`, and moves no ref; `call` ends the call.
    pub(crate) fn fetch_watched(
        &self,
        remote: &RemoteName,
        branches: &[BranchName],
        call: &Interrupt,
        within: Duration,
    ) -> Result<(), RemoteError> {
        let git = self.remote_git(Purpose::Other).for_others(call, Purpose::Other).args(QUIET_FETCH);
        let fetched = git
            .arg("--end-of-options")
            .arg(remote.as_str())
            .args(branches.iter().map(|branch| branch.full_ref().to_os_str_lossy().into_owned()))
            .known_as(format!("fetch {remote}"))
            .timeout(within)
            .run();
        fetched.map(drop).map_err(|source| RemoteError::Unreachable {
            what: "fetch from",
            remote: remote.clone(),
            source,
        })
    }

    /// Tries all `moves` in one push and returns their results in order; each is judged by itself.
    /// An `Err` means that no ref was judged. Refs may have been moved all the same (the connection
    /// broke), so the remote must be queried.
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
            git = git.arg(lease(branch.full_ref().as_bstr(), Some(*expected)));
        }
        git = git.arg("--end-of-options").arg(UNTRACKED);
        for Move { branch, new, .. } in moves {
            git = git.arg(refspec(Some(*new), branch.full_ref().as_bstr()));
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

    /// A `git` call that knows `remote` as [`UNTRACKED`], without refspecs.
    ///
    /// After a push git moves the remote-tracking ref of each branch. A user's `git push
    /// --force-with-lease` compares with that ref, and would overwrite results that the user has
    /// not seen.
    pub(super) fn without_tracking(&self, remote: &RemoteName) -> Result<Git, ProcessError> {
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

/// Whether a fetch failed because another process of this clone was at work at that moment.
fn is_passing(said: &str) -> bool {
    let is_moved = said.contains("cannot lock ref ") && !said.contains(" exists; cannot create ");
    is_moved || said.contains("/worktrees/")
}

/// Parses `<id>\trefs/heads/<name>`.
fn parse_listed(line: &[u8]) -> Option<(BranchName, CommitId)> {
    let (id, name) = line.split_once_str("\t")?;
    Some((BranchName::from_full_ref(name.as_bstr())?, CommitId::parse_hex(id)?))
}

/// Runs `ls-remote` by a prepared call of git. No branches stand for all.
fn list(
    git: Git,
    names: &Namespace,
    remote: &RemoteName,
    branches: &[BranchName],
    within: Duration,
) -> Result<HashMap<BranchName, CommitId>, RemoteError> {
    let asking = ["ls-remote", "--quiet", "--heads", "--end-of-options", remote.as_str()];
    let mut git = git.args(asking);
    for branch in branches {
        git = git.arg(branch.full_ref().to_os_str_lossy());
    }
    let git = git.known_as(format!("ls-remote {remote}"));
    let output = git.timeout(within).run().map_err(|source| RemoteError::Unreachable {
        what: "ask",
        remote: remote.clone(),
        source,
    })?;
    let listed = output.stdout.lines().filter_map(parse_listed);
    Ok(listed.filter(|(branch, _)| !names.has_branch(branch)).collect())
}
