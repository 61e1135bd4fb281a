//! State commits by hand: takes a request, and returns the commit that landed, with advice.
//!
//! Invariant: [`state()`] never declares `working`. A renewal by [`lease()`] keeps the attempt, the runner
//! and the trailers of the lease it follows. So its runner and any later recovery still recognise the attempt
//! (CONTRACT 5.10). Only the one branch changes. `target` looks at the branch, `write` puts the commit on it,
//! and `contract::manual` decides which commits are allowed.

mod answer;
mod checks;
mod later;
mod lease;
mod request;
mod state;
mod target;
mod write;

use crate::contract::alike::Misspelt;
use crate::contract::carried::KeepTrailers;
use crate::contract::ids::{BranchName, CommitId, RemoteName, StateName};
use crate::contract::lease::Lease;
use crate::contract::manual::ManualError;
use crate::contract::trailers::Trailer;
use crate::contract::waits_for::WaitsFor;

use super::error::{Error, Kind};
pub use answer::{Asked, lines, question, question_at};
pub use later::{Left, Placed, Withdrawn, when_free, withdraw};
pub use lease::lease;
pub use state::{check, state};
pub use target::Driven;
pub(in crate::ops) use target::{check_no_driver, check_no_workspace, driven_by};

/// The branch that a commit by hand is put on.
#[derive(Debug, Clone, Default)]
pub struct Onto {
    /// The branch; else the surrounding command's, else the one checked out here.
    pub branch: Option<BranchName>,
    /// Whether our signature may vouch for an unsigned HEAD (CONTRACT 13.10).
    pub accept_unsigned: bool,
    /// The condition under which the commit is made.
    pub expected: Expected,
    /// Whether a live lease of another attempt may be overridden (CONTRACT 5.25).
    pub force: bool,
    /// Whether the commit only answers what HEAD asks: it keeps HEAD's files, whatever is staged.
    pub answers: bool,
}

/// The caller's last view of the branch (CONTRACT 5.26).
#[derive(Debug, Clone, Default)]
pub struct Expected {
    /// The first digits of its HEAD's id.
    pub commit: Option<String>,
    /// The state that HEAD declares; `working` under a lease.
    pub state: Option<StateName>,
}

/// The text of a commit by hand.
#[derive(Debug, Clone, Default)]
pub struct Content {
    /// The subject; the default if absent or blank.
    pub subject: Option<String>,
    /// The body, as bytes since it may come from a file.
    pub body: Option<Vec<u8>>,
    /// The lease length requested for the command; `None` for the runner's default.
    pub lease_seconds: Option<u64>,
    /// Extra trailers.
    pub trailers: Vec<Trailer>,
    /// Whether the body of the request is kept, and `body` becomes a section below it.
    pub keep_body: bool,
    /// Which trailers are carried over.
    pub keep_trailers: KeepTrailers,
}

/// The state that a branch is set to.
#[derive(Debug, Clone)]
pub enum Wanted {
    /// A state.
    State {
        /// The state.
        state: StateName,
        /// The commit's text.
        content: Content,
    },
    /// The newest state of the branch that is neither a lease nor stalled, due at once.
    Retry {
        /// Another lease length for the command; `None` for the one that was requested before.
        lease_seconds: Option<u64>,
        /// A section to add to its body.
        reply: Option<Vec<u8>>,
        /// Trailers that replace its own with the same key.
        trailers: Vec<Trailer>,
    },
    /// An answer to HEAD, which waits for one.
    Answer {
        /// The state.
        state: StateName,
        /// A section to add to the body.
        comment: Option<Vec<u8>>,
    },
}

/// Requests a state.
#[derive(Debug, Clone)]
pub struct StateRequest {
    /// The branch.
    pub onto: Onto,
    /// The state.
    pub wanted: Wanted,
}

/// Requests a lease, or a renewal of the one at HEAD.
#[derive(Debug, Clone)]
pub struct LeaseRequest {
    /// The branch.
    pub onto: Onto,
    /// The length. If absent, that of the lease at HEAD, else the default.
    pub seconds: Option<u64>,
    /// The commit's text.
    pub content: Content,
}

/// A state commit that has landed.
#[derive(Debug)]
pub struct Written {
    /// The branch.
    pub branch: BranchName,
    /// Its HEAD before. `None` if it was unborn.
    pub parent: Option<CommitId>,
    /// The state that HEAD declared.
    pub previous: Option<StateName>,
    /// The commit, now HEAD.
    pub commit: CommitId,
    /// The state it declares.
    pub state: StateName,
    /// Whose answer it waits for.
    pub waits: Option<WaitsFor>,
    /// Further facts that the caller should show.
    pub advice: Vec<Advice>,
}

/// A lease that has landed.
#[derive(Debug)]
pub struct WrittenLease {
    /// Its commit.
    pub written: Written,
    /// The lease.
    pub lease: Lease,
    /// Whether the branch was under no lease before.
    pub fresh: bool,
}

/// The kind of holder of a live lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// A runner, whose command runs.
    Runner,
    /// A runner of this host, which is gone.
    Gone,
    /// A person, who took it with `set-working` on this host.
    Hand,
    /// A command that ended with 0 without a state; what it left behind may still set one.
    Ended,
}

/// A fact about a landed commit that the caller should show.
#[derive(Debug)]
pub enum Advice {
    /// Nothing runs the state that was asked for again.
    NothingRuns {
        /// The branch.
        branch: BranchName,
        /// The state.
        state: StateName,
    },
    /// The pause of the request was left out, since a retry is due at once.
    Unpaused {
        /// The branch.
        branch: BranchName,
        /// The state.
        state: StateName,
        /// The end of the pause, in seconds since the epoch.
        until: i64,
    },
    /// The checkout's own commits, which the remote did not have, were pushed together with it.
    PushedAlong {
        /// The remote.
        remote: RemoteName,
        /// The branch.
        branch: BranchName,
        /// The remote's HEAD before.
        from: CommitId,
        /// The newest of the checkout's commits.
        to: CommitId,
        /// The subject of that commit.
        subject: String,
    },
    /// Staged files of a person became part of the commit.
    StagedAlong {
        /// The paths.
        paths: Vec<String>,
    },
    /// The checkout could not follow its branch.
    NotFollowed {
        /// Why.
        why: String,
    },
    /// A live lease of another attempt was overridden.
    Overridden {
        /// The branch.
        branch: BranchName,
        /// The lease.
        lease: Lease,
        /// The seconds left of it.
        left: u64,
        /// Its holder.
        holder: Holder,
    },
    /// A live lease of another runner was renewed in its name.
    RenewedForOther {
        /// The branch.
        branch: BranchName,
        /// The lease.
        lease: Lease,
        /// The seconds that were left of it.
        left: u64,
    },
    /// The state has no command, and its name resembles that of a command.
    NoCommand {
        /// The branch.
        branch: BranchName,
        /// The state.
        state: StateName,
        /// The name of the command.
        near: String,
        /// The call that requests it instead, if the state is on the branch.
        corrected: Option<String>,
    },
    /// A trailer that has no meaning resembles one that has.
    Misspelt(Misspelt),
}

/// Returns the error for a commit by hand that the contract forbids. `options` name its branch.
fn refused(error: &ManualError, options: &str) -> Error {
    let hint = match error {
        ManualError::Working => "`aynig set-working` claims a branch or renews its lease".to_owned(),
        ManualError::RunnerManaged { .. } => "the runner writes these itself; leave it away".to_owned(),
        ManualError::NoOrigin => {
            format!("declare what is to be worked on: `aynig set-state{options} --state STATE`")
        }
    };
    Error::usage(error.to_string()).hint(hint)
}

/// Returns the error for a commit that reads as something other than was written.
fn misread(commit: CommitId, kind: &str) -> Error {
    Error::new(Kind::Bug, format!("commit {commit} was written as {kind} and does not read as one"))
}
