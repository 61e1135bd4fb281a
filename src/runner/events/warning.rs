//! Warnings: things the user should look at, as data with a code and a sentence.
//!
//! Invariant: only this file composes the sentences of the runner's warnings. A warning means that nothing
//! was lost, and names the next step if there is one.

use std::fmt::{Display, Formatter, Result};
use std::path::{Path, PathBuf};

use bstr::BString;

use crate::clock;
use crate::contract::alike::Misspelt;
use crate::contract::bounds::Bound;
use crate::contract::environment::SkipReason;
use crate::contract::ids::{BranchName, CommitId, RemoteName, StateName};
use crate::contract::protocol::MalformedLine;
use crate::contract::settlement::Ending;
use crate::git::Unlisted;
use crate::runner::survey::verdict::{Exclusion, Invalid, Reason};
use crate::runner::survey::words::{bounded, in_place, unsigned_lease};

/// A warning. Its branch is in [`Notice::Warning`](super::notice::Notice::Warning).
#[derive(Debug, Clone)]
pub enum Warning {
    /// A lock file that a killed runner left was removed (CONTRACT 5.24).
    LockRemoved {
        /// The ref.
        name: String,
    },
    /// First sightings of leases could not be stored, so no lease is taken over (CONTRACT 5.22).
    SightingsNotKept {
        /// Why not.
        why: String,
        /// Their directory.
        directory: PathBuf,
    },
    /// A remote has branches that declare a state, and `aynig.remote` is not set.
    RemoteNotSet {
        /// The remote.
        remote: RemoteName,
        /// One of these branches.
        there: BranchName,
    },
    /// A branch that was named does not exist.
    NoSuchBranch {
        /// The name.
        name: String,
        /// A branch that was probably meant.
        near: Option<String>,
        /// The remote whose branches were looked at. `None` for this repository's.
        remote: Option<RemoteName>,
        /// A remote that has one, as last fetched.
        there: Option<RemoteName>,
    },
    /// A branch that was named is in no list.
    UnlistedBranch {
        /// The name.
        name: String,
        /// The reason.
        unlisted: Unlisted,
    },
    /// The globs of a run match no branch.
    NoBranchSelected {
        /// The globs.
        globs: Vec<String>,
        /// The remote whose branches were looked at. `None` for this repository's.
        remote: Option<RemoteName>,
        /// A remote that has one, as last fetched.
        there: Option<RemoteName>,
    },
    /// A state was not run because of a mistake that the user can fix.
    NotRun {
        /// The state.
        state: StateName,
        /// The mistake.
        reason: Reason,
    },
    /// The branch checked out here was not run.
    SkippedCurrent {
        /// The branch.
        about: BranchName,
        /// Its state.
        state: StateName,
        /// The remote whose branches are run. `None` for this repository's.
        remote: Option<RemoteName>,
    },
    /// A branch that was named is never run.
    Excluded(Exclusion),
    /// HEAD is invalid (CONTRACT 1.9).
    Invalid(Invalid),
    /// The branch has reached a bound, and is not run (CONTRACT 11.16, 11.17).
    Bounded {
        /// The branch.
        about: BranchName,
        /// The remote of the branch. `None` for this repository's.
        remote: Option<RemoteName>,
        /// The bound.
        bound: Bound,
    },
    /// A lease is dated in the future of this host's clock (CONTRACT 5.12).
    LeaseDatedAhead {
        /// How far, in seconds.
        ahead: u64,
        /// Its `dwp-runner-id`; empty if absent.
        runner: BString,
        /// The lease's date, in seconds since the epoch.
        dated: i64,
        /// This host's time, in seconds since the epoch.
        now: i64,
    },
    /// A branch could not be claimed.
    NotClaimed {
        /// Why not.
        why: String,
        /// Whether the remote is the cause.
        remote: bool,
    },
    /// A deferred state could not be delivered, and stays where it is.
    NotDelivered {
        /// Why not.
        why: String,
    },
    /// An expired lease could not be closed.
    LeaseNotClosed {
        /// Why not.
        why: String,
    },
    /// An expired lease is not closed because its commit is not trusted.
    LeaseNotTrusted {
        /// The branch.
        about: BranchName,
        /// The remote of the branch. `None` for this repository's.
        remote: Option<RemoteName>,
        /// Its HEAD.
        head: CommitId,
        /// The problem with the signature.
        why: String,
    },
    /// Nothing is run until something that was there comes back.
    NothingRun {
        /// What is wrong.
        why: String,
    },
    /// The repository is gone.
    RepositoryGone {
        /// Its path.
        path: PathBuf,
        /// How long the runner waits for it, in seconds.
        wait: u64,
    },
    /// The remote does not answer.
    RemoteSilent {
        /// The error of git or the remote.
        why: String,
    },
    /// A trailer's key looks like a misspelt key of the contract.
    Misspelt(Misspelt),
    /// A trailer is not in the command's environment.
    TrailerNotPassed {
        /// Its key.
        key: BString,
        /// Why not.
        reason: SkipReason,
    },
    /// More such trailers.
    MoreTrailersNotPassed {
        /// Their number.
        count: usize,
    },
    /// The state requests no valid lease length (CONTRACT 5.27).
    LeaseLengthIgnored {
        /// The fault.
        why: String,
        /// The length of its lease instead, in seconds.
        seconds: u64,
    },
    /// The body is too long for an environment variable.
    BodyTooLong {
        /// Its length.
        bytes: usize,
    },
    /// Some of the listed files were not copied into the worktree.
    FilesNotCopied {
        /// The list's name.
        list: &'static str,
        /// Their number.
        count: usize,
        /// Why not.
        cause: NotCopied,
    },
    /// Submodules could not be initialised.
    Submodules {
        /// The errors.
        wrong: Vec<String>,
    },
    /// A line of output is an invalid declaration (CONTRACT 4.10).
    InvalidDeclaration {
        /// The state whose command wrote it.
        state: StateName,
        /// The line.
        line: MalformedLine,
    },
    /// A valid declaration has fields that nothing reads.
    FieldsMisspelt {
        /// The state whose command wrote it.
        state: StateName,
        /// The fields, in words.
        words: String,
    },
    /// More invalid declarations.
    MoreInvalidDeclarations {
        /// Their number.
        count: u64,
    },
    /// The disk of the logs was full when a command failed.
    DiskFull {
        /// The state whose command failed.
        state: StateName,
        /// How the command ended.
        ending: Ending,
        /// Free space, in bytes.
        free: u64,
        /// The directory of the logs.
        logs: PathBuf,
    },
    /// Work could not be saved, so the worktree stays.
    WorkNotSaved {
        /// Why not.
        why: String,
    },
    /// A request to stop an attempt has no good signature (CONTRACT 5.30).
    CancelNotTrusted {
        /// Its author, as written.
        by: String,
        /// Its fault.
        why: String,
    },
    /// A worktree stays because its contents could not be saved.
    WorktreeKept {
        /// Its path.
        path: PathBuf,
        /// Why they could not be saved.
        why: String,
    },
    /// A worktree could not be removed.
    WorktreeNotRemoved {
        /// Its path.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// The operator's hook failed, or was not run.
    Hook {
        /// The failure, as a sentence.
        words: String,
    },
}

/// Why a listed file was not copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotCopied {
    /// A directory on its path is a link or a file in the worktree.
    LeadsElsewhere,
    /// The branch does not ignore it.
    NotIgnored,
}

impl Warning {
    /// The code in JSON. It never changes its meaning.
    pub fn code(&self) -> &'static str {
        match self {
            Self::LockRemoved { .. } => "lockRemoved",
            Self::SightingsNotKept { .. } => "sightingsNotKept",
            Self::RemoteNotSet { .. } => "remoteNotSet",
            Self::NoSuchBranch { .. } | Self::UnlistedBranch { .. } => "noSuchBranch",
            Self::NoBranchSelected { .. } => "noBranchSelected",
            Self::NotRun { .. } => "notRun",
            Self::SkippedCurrent { .. } => "skippedCurrent",
            Self::Excluded(_) => "excluded",
            Self::Invalid(_) => "invalid",
            Self::Bounded { bound, .. } => bound.word(),
            Self::LeaseDatedAhead { .. } => "leaseDatedAhead",
            Self::NotClaimed { .. } => "notClaimed",
            Self::NotDelivered { .. } => "notDelivered",
            Self::LeaseNotClosed { .. } => "leaseNotClosed",
            Self::LeaseNotTrusted { .. } => "leaseNotTrusted",
            Self::NothingRun { .. } => "nothingRun",
            Self::RepositoryGone { .. } => "repositoryGone",
            Self::RemoteSilent { .. } => "remoteSilent",
            Self::Misspelt(_) => "misspelt",
            Self::TrailerNotPassed { .. } | Self::MoreTrailersNotPassed { .. } => "trailerNotPassed",
            Self::LeaseLengthIgnored { .. } => "leaseLengthIgnored",
            Self::BodyTooLong { .. } => "bodyTooLong",
            Self::FilesNotCopied { .. } => "filesNotCopied",
            Self::Submodules { .. } => "submodules",
            Self::InvalidDeclaration { .. } | Self::MoreInvalidDeclarations { .. } => "invalidDeclaration",
            Self::FieldsMisspelt { .. } => "fieldsMisspelt",
            Self::DiskFull { .. } => "diskFull",
            Self::WorkNotSaved { .. } => "workNotSaved",
            Self::CancelNotTrusted { .. } => "cancelNotTrusted",
            Self::WorktreeKept { .. } => "worktreeKept",
            Self::WorktreeNotRemoved { .. } => "worktreeNotRemoved",
            Self::Hook { .. } => "hook",
        }
    }
}

impl Warning {
    /// The word for its kind. Unlike the code it also names the reason for not running a branch.
    pub fn word(&self) -> &'static str {
        match self {
            Self::NotRun { reason, .. } => reason.word(),
            _ => self.code(),
        }
    }

    /// Whether it reports a commit without a trusted signature. `aynig.requireSigned` works as intended then, and
    /// whoever may push can cause it, so it is printed at level info.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::NotRun { reason: Reason::Unsigned { .. }, .. } | Self::LeaseNotTrusted { .. })
    }
}

impl Display for Warning {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::LockRemoved { name } => {
                write!(f, "a process that was killed had left {name} locked; the lock was removed")
            }
            Self::SightingsNotKept { why, directory } => sightings_not_kept(f, why, directory),
            Self::RemoteNotSet { remote, there } => remote_not_set(f, remote, there),
            Self::NoSuchBranch { name, near, remote, there } => {
                let near = near.as_ref().map_or_else(String::new, |near| format!("; did you mean {near}?"));
                write!(f, "there is no branch {name}{near}; ")?;
                lists_branches(f, remote.as_ref(), there.as_ref())
            }
            Self::UnlistedBranch { name, unlisted } => {
                write!(f, "branch {name} {}; {}", unlisted.why(), unlisted.next())
            }
            Self::NoBranchSelected { globs, remote, there } => {
                write!(f, "no branch matches {}; ", globs.join(" or "))?;
                lists_branches(f, remote.as_ref(), there.as_ref())
            }
            Self::NotRun { state, reason } => write!(f, "{state} was not run: {reason}"),
            Self::SkippedCurrent { about, state, remote } => write!(
                f,
                "{state} was not run: the branch is checked out here; `{}` runs it in place",
                in_place(about, remote.as_ref())
            ),
            Self::Excluded(exclusion) => exclusion.fmt(f),
            Self::Invalid(invalid) => invalid.fmt(f),
            Self::Bounded { about, remote, bound } => f.write_str(&bounded(about, remote.as_ref(), bound)),
            Self::LeaseDatedAhead { ahead, runner, dated, now } => {
                dated_ahead(f, *ahead, runner, *dated, *now)
            }
            Self::NotClaimed { why, remote: true } => f.write_str(why),
            Self::NotClaimed { why, remote: false } => {
                write!(f, "{why}; the branch is as it was, and the next pass tries again")
            }
            Self::NotDelivered { why } => write!(f, "its deferred state was not delivered, and stays: {why}"),
            Self::LeaseNotClosed { why } => write!(f, "its expired lease was not closed: {why}"),
            Self::LeaseNotTrusted { about, remote, head, why } => {
                f.write_str(&unsigned_lease(about, remote.as_ref(), *head, why))
            }
            Self::NothingRun { why } => write!(f, "nothing is run until this is mended: {why}"),
            Self::RepositoryGone { path, wait } => write!(
                f,
                "there is no repository at {} any more; waiting {} for it to come back",
                path.display(),
                clock::span(*wait)
            ),
            Self::RemoteSilent { why } => write!(f, "{why}; trying again, less and less often"),
            Self::Misspelt(misspelt) => misspelt.fmt(f),
            Self::TrailerNotPassed { key, reason } => {
                write!(f, "trailer {key} is not passed to the command: {reason}")
            }
            Self::MoreTrailersNotPassed { count } => {
                write!(f, "{count} more of its trailers are not passed to the command")
            }
            Self::LeaseLengthIgnored { why, seconds } => {
                write!(f, "{why}; its lease lasts {seconds} s instead")
            }
            Self::BodyTooLong { bytes } => body_too_long(f, *bytes),
            Self::FilesNotCopied { list, count, cause } => f.write_str(&cause.words(list, *count)),
            Self::Submodules { wrong } => write!(f, "submodules were not initialised: {}", wrong.join("; ")),
            Self::InvalidDeclaration { state, line } => {
                write!(f, "`{state}` wrote an invalid SET_STATE on {line}; it is ignored")
            }
            Self::FieldsMisspelt { state, words } => write!(f, "`{state}` has ended: {words}"),
            Self::MoreInvalidDeclarations { count } => {
                write!(f, "{count} more invalid SET_STATE lines are in its log")
            }
            Self::DiskFull { state, ending, free, logs } => disk_full(f, state, ending, *free, logs),
            Self::WorkNotSaved { why } => write!(f, "work could not be saved, so its worktree stays: {why}"),
            Self::CancelNotTrusted { by, why } => {
                write!(f, "a request to cancel by {by} was not heeded: {why}")
            }
            Self::WorktreeKept { path, why } => {
                write!(f, "{} stays where it is, its contents could not be saved: {why}", path.display())
            }
            Self::WorktreeNotRemoved { path, why } => {
                write!(f, "its worktree {} could not be removed: {why}", path.display())
            }
            Self::Hook { words } => f.write_str(words),
        }
    }
}

impl NotCopied {
    /// The warning about `count` files of the list.
    pub(crate) fn words(self, list: &str, count: usize) -> String {
        let why = match self {
            Self::LeadsElsewhere => "on this branch their directory is a link or a file",
            Self::NotIgnored => {
                "this branch does not ignore them (.gitignore), so they could get into a commit"
            }
        };
        format!("{count} of the files that {list} lists were not copied into its worktree: {why}")
    }
}

fn remote_not_set(f: &mut Formatter<'_>, remote: &RemoteName, there: &BranchName) -> Result {
    let name = crate::words::shell_quote(remote.as_str());
    write!(
        f,
        "{there} of {remote} declares a state, but aynig.remote is not set, so only local branches count: `git config \
         aynig.remote {name}` selects those of {remote}, `git config aynig.remote ''` keeps this clone local"
    )
}

fn sightings_not_kept(f: &mut Formatter<'_>, why: &str, directory: &Path) -> Result {
    write!(
        f,
        "how long leases are seen could not be kept ({why}), so none is taken over; make {} writable, or use \
         --takeover clock",
        directory.display()
    )
}

fn body_too_long(f: &mut Formatter<'_>, bytes: usize) -> Result {
    write!(
        f,
        "the body has {bytes} bytes, too many for an environment variable: BODY is not set, the whole body is in the \
         file BODY_PATH names"
    )
}

fn disk_full(f: &mut Formatter<'_>, state: &StateName, ending: &Ending, free: u64, logs: &Path) -> Result {
    let (free, logs) = (free >> 10, logs.display());
    write!(f, "`{state}` {ending}, and the disk of its logs is full: there is room for {free} KiB in {logs}")
}

fn lists_branches(f: &mut Formatter<'_>, remote: Option<&RemoteName>, there: Option<&RemoteName>) -> Result {
    if let Some(there) = there {
        let name = crate::words::shell_quote(there.as_str());
        return write!(f, "{there} has one: add `--remote {name}`");
    }
    f.write_str("`")?;
    match remote {
        None => f.write_str("git branch")?,
        Some(remote) => write!(f, "git ls-remote --heads {remote}")?,
    }
    f.write_str("` lists the branches")
}

fn dated_ahead(f: &mut Formatter<'_>, ahead: u64, runner: &BString, dated: i64, now: i64) -> Result {
    let runner = if runner.is_empty() { "a runner without a name".to_owned() } else { runner.to_string() };
    write!(
        f,
        "its lease is dated {} ahead of this host's clock (lease by {runner}: {}, here: {}); one of the two clocks is wrong, \
         and leases end late or early until it is set; --takeover observed does not go by clocks",
        clock::span(ahead),
        clock::format_utc(dated),
        clock::format_utc(now),
    )
}
