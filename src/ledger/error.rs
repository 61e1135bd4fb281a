//! What can go wrong with a ledger.

use std::fmt;

use crate::contract::ids::{CommitId, RemoteName};
use crate::contract::layout::RUNS;
use crate::git::remote::RemoteError;
use crate::git::worktrees::error::WorktreeError;
use crate::git::{CommitError, RefError, Unmoved};
use crate::model::decide::{Refusal, RefusalKind};
use crate::model::ids::{OpId, RunId, Slug};
use crate::words::shell_quote;

/// What is wrong with a commit that a program of a step wrote.
pub(crate) const BY_A_STEP: &str = "a step wrote it by itself";

/// An operation that was not carried out, or a ledger that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The run does not allow it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// There is no such run here.
    #[error(
        "there is no run {0:?} in this repository: `aynig flow list` and `aynig orch run list` list them"
    )]
    Unknown(String),
    /// It was deleted.
    #[error("run {run} was deleted: its ledger is kept as {archive}, and `git log {archive}` shows it")]
    Deleted {
        /// The run.
        run: RunId,
        /// The ref of its ledger now.
        archive: String,
    },
    /// Another run has the same slug.
    #[error(
        "run {other} has the slug {slug} too, so the branches of the two cannot be told apart and nothing was deleted: \
         remove the ref of the one that is not genuine"
    )]
    Shared {
        /// The run that is to be deleted.
        run: RunId,
        /// The other one.
        other: RunId,
        /// Their slug.
        slug: Slug,
    },
    /// A driver of a run that is to be deleted is under a live lease.
    #[error(
        "{branch} is leased to {runner} for another {left} s, so nothing was deleted: stop it (`aynig cancel {branch}`) \
         and wait, or force it"
    )]
    Leased {
        /// The driver.
        branch: String,
        /// Its holder.
        runner: String,
        /// Seconds that are left of the lease.
        left: u64,
    },
    /// A work branch of a run that is to be deleted is checked out.
    #[error(
        "{branch} is checked out at {path}, so nothing was deleted: remove that workspace or worktree first"
    )]
    CheckedOut {
        /// The branch.
        branch: String,
        /// The worktree.
        path: String,
    },
    /// Commits that only the reflog of a work branch names could not be saved.
    #[error("commits that were taken off {branch} could not be saved, so it was not moved: {why}")]
    Unsaved {
        /// The branch.
        branch: String,
        /// Why.
        why: String,
    },
    /// A prefix of several ids.
    #[error("{text:?} could mean {}: type more of it", among(.runs))]
    Ambiguous {
        /// What was typed.
        text: String,
        /// The runs it could mean.
        runs: Vec<RunId>,
    },
    /// The hub has set the ledger back, and the run is held here.
    #[error("{0}")]
    SetBack(Box<SetBack>),
    /// The hub has something in the place of a run's refs that is none of its operations, and the run is held here.
    #[error("{0}")]
    Planted(Box<Planted>),
    /// The run was made by another version.
    #[error("run {run} has contract version {version:?}: this aynig reads version 1")]
    Version {
        /// The run.
        run: RunId,
        /// Its version.
        version: String,
    },
    /// The ledger's content is wrong.
    #[error("the ledger of run {run} is damaged at {commit}: {why}")]
    Damaged {
        /// The run.
        run: RunId,
        /// The commit.
        commit: CommitId,
        /// What is wrong.
        why: String,
    },
    /// The ledger has an operation without a trusted signature, and `aynig.requireSigned` is set.
    #[error("the ledger of run {run} is not taken over: {why}")]
    Unsigned {
        /// The run.
        run: RunId,
        /// Its newest commit.
        commit: CommitId,
        /// What is wrong.
        why: String,
    },
    /// The run is decided in another place.
    #[error("run {run} is decided {place}: {hint}")]
    Elsewhere {
        /// The run.
        run: RunId,
        /// The place.
        place: String,
        /// What helps.
        hint: String,
    },
    /// A remote has a ledger that it does not decide.
    #[error("run {run} is decided {place}, so its ledger at {remote} ({address}) is left aside: {hint}")]
    Foreign {
        /// The run.
        run: RunId,
        /// The remote.
        remote: RemoteName,
        /// Its address.
        address: String,
        /// Where the run is decided.
        place: String,
        /// What helps.
        hint: String,
    },
    /// A commit of the run is not in this clone, nor at the remote.
    #[error(
        "commit {commit} of run {slug} is neither here nor at {remote}; nothing was written: in a clone that has it, \
         `git push {remote} {commit}:refs/tags/aynig-{}` brings it there", .commit.short()
    )]
    Absent {
        /// The slug of the run.
        slug: Slug,
        /// The remote that decides the run.
        remote: RemoteName,
        /// The commit.
        commit: CommitId,
    },
    /// The remote could not be asked, or did not take the operation.
    #[error("{remote}, where the run is decided, did not take the operation")]
    Unmoved {
        /// The remote.
        remote: RemoteName,
        /// Why.
        #[source]
        source: Unmoved,
    },
    /// The remote could not be read.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// A ref that was to be moved together with the ledger has another value.
    #[error("{name} has moved meanwhile, so nothing was written: look at the run again")]
    Moved {
        /// The ref.
        name: String,
    },
    /// The lease of the attempt that the operation was to end is lost.
    #[error(
        "the lease on {branch} is lost, so this attempt may not change the run any more: nothing was written, and \
         what it did is saved (`aynig status --branch {branch}` shows what is next)"
    )]
    Fenced {
        /// The driver.
        branch: String,
    },
    /// The operation lost every race.
    #[error(
        "operation {op} lost {tries} races for the ledger of run {run}: try again when the run is quieter"
    )]
    Busy {
        /// The run.
        run: RunId,
        /// The operation.
        op: OpId,
        /// How many times it was tried.
        tries: u32,
    },
    /// An operation that no reader would accept.
    #[error(
        "{what} would have {length} bytes, and at most {most} are read: nothing was written. Put long texts into files"
    )]
    TooLong {
        /// What is too long.
        what: String,
        /// Its length, in bytes.
        length: usize,
        /// The most.
        most: usize,
    },
    /// Secrets cannot be masked, or what is replicated is not clear.
    #[error("{0}; nothing was written")]
    Masks(String),
    /// An object could not be read or written.
    #[error(transparent)]
    Object(#[from] CommitError),
    /// A ref could not be read or written.
    #[error(transparent)]
    Ref(#[from] RefError),
    /// The worktrees could not be listed.
    #[error(transparent)]
    Worktrees(#[from] WorktreeError),
    /// The id of this repository could not be read or written.
    #[error("the id of this repository could not be read or written ({path})")]
    Identity {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

impl LedgerError {
    /// The kind and the code of the refusal, for programs. `None`: no rule refused it.
    #[must_use]
    pub fn rule(&self) -> Option<(RefusalKind, &'static str)> {
        match self {
            Self::Refused(refusal) => Some(refusal.code()),
            _ => None,
        }
    }

    /// What helps against a ledger that is damaged or was set back, as a sentence.
    #[must_use]
    pub fn mends(&self) -> Option<String> {
        if let Self::SetBack(back) = self {
            return Some(back.mends());
        }
        if let Self::Planted(planted) = self {
            let lines: Vec<String> = planted.takes_off.iter().map(|line| format!("`{line}`")).collect();
            return Some(format!("{} takes it off again", lines.join(", then ")));
        }
        if let Self::Unmoved { source: Unmoved::Refused(_), .. } = self {
            return Some(
                "`aynig doctor` tries whether it takes refs of runs, and names the setting if not".to_owned(),
            );
        }
        if let Self::Unmoved { remote, .. } | Self::Remote(RemoteError::Unreachable { remote, .. }) = self {
            let remote = shell_quote(remote.as_str());
            return Some(format!("`git ls-remote {remote}` shows whether it can be reached"));
        }
        if let Self::Refused(Refusal::Ended(_, slug)) = self {
            return Some(format!("`aynig orch run resume {slug}` resumes it"));
        }
        if let Self::Unsigned { run, commit, .. } = self {
            return Some(format!(
                "`git update-ref {RUNS}{run} {commit}` takes it over as it is, if you vouch for it"
            ));
        }
        let Self::Damaged { run, commit, why } = self else { return None };
        let name = format!("{RUNS}{run}");
        Some(if why == BY_A_STEP {
            format!(
                "where a remote decides the run, `git push --force-with-lease={name}:{commit} REMOTE {commit}^:{name}` \
                 takes that commit off again"
            )
        } else {
            format!("`aynig orch doctor {run}` names what is wrong; nothing was changed")
        })
    }
}

/// A ledger that its hub has set back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetBack {
    /// The slug of its run.
    pub slug: Slug,
    /// The hub.
    pub remote: RemoteName,
    /// The newest commit that this clone knows.
    pub here: CommitId,
    /// The commit that the hub has.
    pub there: CommitId,
    /// The rescue ref of the newest commit that this clone knows.
    pub kept: String,
    /// The command that gives the hub back what it had.
    pub gives_back: String,
    /// The command that continues with what the hub has.
    pub accepts: String,
    /// Whether nobody was told before.
    pub(super) is_new: bool,
}

impl fmt::Display for SetBack {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { slug, remote, here, there, kept, .. } = self;
        write!(
            out,
            "the ledger of run {slug} was set back at {remote}: it is at {} there, without operations up to {}, which \
             {kept} keeps; this host holds the run",
            there.short(),
            here.short()
        )
    }
}

impl SetBack {
    /// What helps, as a sentence.
    pub(super) fn mends(&self) -> String {
        let Self { there, kept, gives_back, accepts, remote, .. } = self;
        format!(
            "`git log {}..{kept}` shows those operations, `{gives_back}` gives them back to {remote}, `{accepts}` \
             continues without them",
            there.short()
        )
    }
}

/// A commit or a ref in the place of a run's refs at its hub that no operation made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planted {
    /// The description, for people.
    pub words: String,
    /// The commands that take it off again.
    pub takes_off: Vec<String>,
}

impl fmt::Display for Planted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}; this host holds the run", self.words)
    }
}

fn among(runs: &[RunId]) -> String {
    runs.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ")
}
