//! The contract as types: what a commit means, what an output line declares, what an exit leads to.
//!
//! The runner's decisions are made here, in functions of values. No file, process, clock or thread
//! is touched, so every rule is tested by tables and properties. The room imports nothing of ours.
//! `git` passes it bytes and carries out its results, `supervise` passes it exits and output, and
//! `runner` joins the two.
//!
//! Its modules, in the order of a step (sections 1 to 6 of CONTRACT.md):
//!
//! - [`trailers`] finds the trailer block of a message exactly as git does. [`message`] splits the
//!   rest into subject and body, and is the only composer of messages: it parses back everything it
//!   writes.
//! - [`head`] classifies a HEAD (unmanaged, invalid, ready or working); [`lease`] computes how long
//!   a working one lives.
//! - [`parking`] decides whether the time for a state has come, [`waits_for`] whether it waits for
//!   somebody's answer.
//! - [`preference`] decides whether a state is still left to another runner.
//! - [`bounds`] decides whether a branch runs in circles.
//! - [`deferred`] decides when a state that waits beside its branch may become HEAD.
//! - [`sighting`] decides when this host has seen a lease for longer than it lasts, whatever its
//!   date.
//! - [`environment`] turns the trigger's trailers into variables of the command.
//! - [`protocol`] reads `SET_STATE` lines from the command's standard output and makes a
//!   [`declaration`] of the last.
//! - [`settlement`] is the outcome table; [`ownership`] decides whether the branch is still the
//!   attempt's.
//! - [`headlog`] finds out which commits on the branch were made in the attempt's own checkout.
//! - [`landing`] puts a result onto its branch, step by step.
//! - [`carried`] decides what a new state takes over from the commits before it.
//! - [`kept`] writes and reads how the command of a kept lease ended.
//! - [`cancel`] asks the holder of a lease to stop.
//! - [`requeue`] asks again for what an attempt did not finish.
//! - [`commits`] drafts the commit of an outcome, [`titles`] its subject, [`report`] the body of a stalled one.
//! - [`manual`] drafts the commits of `set-state` and `set-working`.
//! - [`squash`] words the commit that a landed branch becomes.
//! - [`duration`] parses durations; [`retention`] decides which finished attempts' logs may be removed.
//! - [`story`] folds a branch's commits into its history.
//! - [`guard`] decides, for a server, which pushes break a lease; [`ledger_guard`], which lose operations of runs.
//! - [`alike`] suggests names for a mistyped one.
//! - [`ids`] holds the checked names all of them use; [`layout`] the names of refs and directories.
//!
//! Invariant: no value of these types can be made that breaks the rule of its type. Hostile bytes
//! in a message are an ordinary variant, never a panic.

pub mod alike;
pub mod bounds;
pub mod cancel;
pub mod carried;
pub mod commits;
pub mod declaration;
pub mod deferred;
pub mod duration;
pub mod environment;
pub mod guard;
pub mod head;
pub mod headlog;
pub mod ids;
#[cfg(test)]
mod interleavings;
pub mod kept;
pub(crate) mod landing;
pub mod layout;
pub mod lease;
pub mod ledger_guard;
pub mod manual;
pub mod message;
pub mod namespace;
pub(crate) mod ownership;
pub mod parking;
pub(crate) mod preference;
pub mod protocol;
pub mod report;
pub mod requeue;
pub mod retention;
pub(crate) mod settlement;
pub mod sighting;
pub mod squash;
pub mod story;
pub mod titles;
pub mod trailers;
pub mod unable;
pub mod waits_for;

#[cfg(test)]
mod tests;
