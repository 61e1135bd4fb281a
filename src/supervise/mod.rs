//! One child process under supervision. Knows nothing of git, branches or leases.
//!
//! # Theory of operation
//!
//! The caller fills a [`Spec`] and calls [`run`] on a thread of its own; it gets back a [`Finished`]. Nothing in
//! between is an error: not starting, failing, being killed or being stopped are values of [`How`].
//!
//! *Start.* The command becomes the leader of a new process group, with the environment, directory and files of its
//! `Spec`, an empty stdin, an empty signal mask. On Linux it gets SIGKILL if the thread that started it ends.
//! (`start`)
//!
//! *Watch.* A waiter blocks on the command's exit; the caller's own thread takes in whatever comes first (exit, a
//! request to its [`Stop`](crate::stop::Stop), a deadline) and acts. So no wait of ours is deaf. What follows from what
//! is a pure machine of events and elapsed time. (`job`, `machine`)
//!
//! *End.* A step is over when its command exits. Exit 0 leaves the rest of the group alone: a process left behind on
//! purpose may advance the branch later. Every other end (failure, signal, time limit, the caller's stop) takes the
//! group with it: SIGTERM, a grace, SIGKILL, and then a look whether it is gone. (`group`)
//!
//! *When we are killed.* The parent-death signal takes the command; the [`Watchdog`], a helper process that notices
//! the end of a pipe, takes the rest of its group. (`watchdog`)
//!
//! [`detach`] is for the one process that is to outlive whoever starts it.
//! A [`Pager`] is a program as well, though not a command: it is the person's own, and has the terminal.
//!
//! [`occupants`] answers who still stands in a directory, for those about to remove it; [`settled_occupants`] lets a git there
//! end first.
//!
//! # What it leaves to others
//!
//! What runs with which variables and logs, what an exit means, leases: the runner's.
//! Reading the logs: the contract's. Exit codes and words for people: the `cli`'s. Rules: CONTRACT.md §3 and §10.

mod detached;
mod finished;
mod gits;
mod group;
mod job;
mod machine;
mod orphans;
mod pager;
mod spec;
mod start;
#[cfg(test)]
mod tests;
pub mod watchdog;

pub use detached::detach;
pub(crate) use finished::{How, StopCause};
pub(crate) use job::run;
pub(crate) use orphans::{occupants, settled_occupants, users};
pub use pager::Pager;
pub(crate) use spec::Spec;
pub use watchdog::{Guard, Watchdog};
