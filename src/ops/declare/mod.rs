//! State commits by hand: a request in, the commit that landed and advice out.
//!
//! Invariant: [`state`] never declares `working`, and a renewal by [`lease`] keeps the attempt, the runner and the trailers
//! of the lease it follows, so that its runner and any later recovery still recognise the attempt (contract §5, "Working
//! Lease"). Nothing but the one branch changes. `target` looks at the branch, `write` puts the commit on it, and
//! `contract::manual` decides what the commit may say.

mod checks;
mod lease;
mod state;
mod target;
mod write;

use crate::contract::alike::Misspelt;
use crate::contract::carried::KeepTrailers;
use crate::contract::ids::{BranchName, CommitId, RemoteName, StateName};
use crate::contract::lease::Lease;
use crate::contract::manual::ManualError;
use crate::contract::trailers::Trailer;

use super::error::{Error, Kind};
pub use lease::lease;
pub use state::{check, state};
pub(in crate::ops) use target::lease_below;

/// The branch that a commit by hand is put on.
#[derive(Debug, Clone, Default)]
pub struct Onto {
    /// The branch; else the surrounding command's, else the one checked out here.
    pub branch: Option<BranchName>,
    /// Whether our signature may vouch for an unsigned HEAD (CONTRACT 13.10).
    pub accept_unsigned: bool,
    /// What the branch must be for the commit to be made.
    pub expected: Expected,
    /// Whether a live lease of another attempt may be overridden (CONTRACT 5.25).
    pub force: bool,
}

/// What the caller has seen of the branch (CONTRACT 5.26).
#[derive(Debug, Clone, Default)]
pub struct Expected {
    /// The first digits of the name of its HEAD.
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
    /// Extra trailers.
    pub trailers: Vec<Trailer>,
    /// Whether the body of the request is kept, and `body` becomes a section below it.
    pub keep_body: bool,
    /// Which trailers are carried over.
    pub keep_trailers: KeepTrailers,
}

/// What a branch is set to.
#[derive(Debug, Clone)]
pub enum Wanted {
    /// A state.
    State {
        /// The state.
        state: StateName,
        /// The commit's text.
        content: Content,
    },
    /// The newest state of the branch that is neither a lease nor stalled, again and at once.
    Retry {
        /// A section to add to its body.
        reply: Option<Vec<u8>>,
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

/// Requests a lease, or the renewal of the one HEAD is.
#[derive(Debug, Clone)]
pub struct LeaseRequest {
    /// The branch.
    pub onto: Onto,
    /// The length; else as before, else the default.
    pub seconds: Option<u64>,
    /// The commit's text.
    pub content: Content,
}

/// A state commit that has landed.
#[derive(Debug)]
pub struct Written {
    /// The branch.
    pub branch: BranchName,
    /// Its HEAD before; none if it was unborn.
    pub parent: Option<CommitId>,
    /// What that declared.
    pub previous: Option<StateName>,
    /// The commit, now HEAD.
    pub commit: CommitId,
    /// What it declares.
    pub state: StateName,
    /// What else the caller should show.
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

/// Who holds a live lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// A runner, whose command runs.
    Runner,
    /// A person, who took it with `set-working` on this host.
    Hand,
    /// A command that ended with 0 without a state; what it left behind may still set one.
    Ended,
}

/// What the caller should know of a commit that has landed.
#[derive(Debug)]
pub enum Advice {
    /// The checkout's own commits, which the remote did not have, were pushed with it.
    PushedAlong {
        /// The remote.
        remote: RemoteName,
        /// The branch.
        branch: BranchName,
        /// The remote's HEAD before.
        from: CommitId,
        /// The newest of the checkout's commits.
        to: CommitId,
        /// That one's subject.
        subject: String,
    },
    /// The checkout could not follow its branch.
    NotFollowed {
        /// Why.
        why: String,
    },
    /// Somebody else's lease, still alive, was overridden.
    Overridden {
        /// The branch.
        branch: BranchName,
        /// The lease.
        lease: Lease,
        /// Seconds left of it.
        left: u64,
        /// Its holder.
        holder: Holder,
    },
    /// Another runner's lease, still alive, was renewed in its name.
    RenewedForOther {
        /// The branch.
        branch: BranchName,
        /// The lease.
        lease: Lease,
        /// Seconds that were left of it.
        left: u64,
    },
    /// The state has no command, and its name resembles one that has.
    NoCommand {
        /// The branch.
        branch: BranchName,
        /// The state.
        state: StateName,
        /// The command.
        near: String,
    },
    /// A trailer that nothing reads resembles one that is read.
    Misspelt(Misspelt),
}

/// The error for a commit by hand that the contract does not allow; `options` name the branch it was for.
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

/// The error for a commit that reads as something else than it was written as.
fn misread(commit: CommitId, kind: &str) -> Error {
    Error::new(Kind::Bug, format!("commit {commit} was written as {kind} and does not read as one"))
}
