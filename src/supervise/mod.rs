//! Supervises one child process. Knows nothing of git, branches or leases.
//!
//! # Theory of operation
//!
//! The caller fills a [`Spec`], calls [`run`] on a thread of its own and gets back a
//! [`Finished`]. There are no errors in between: not starting, failing, being
//! killed and being stopped are values of [`How`].
//!
//! *Start* (`start`, `spawn`). The command becomes the leader of a new process group. It has the
//! environment, directory and files of its `Spec`, an empty stdin and an empty signal mask. On
//! Linux it gets SIGKILL if the thread that started it ends.
//!
//! *Watch* (`job`, `machine`). A waiter thread blocks on the command's exit. The caller's thread
//! handles whatever comes first: the exit, a request to its [`Stop`](crate::stop::Stop), or a
//! deadline. So no wait delays a stop. The decisions are a pure machine of events and elapsed time.
//!
//! *End* (`group`). A step is over when its command exits. Exit 0 leaves the rest of the group
//! alone: a process left behind on purpose may advance the branch later. After any other end
//! (failure, signal, time limit, the caller's stop) the group is stopped: SIGTERM, a grace period,
//! SIGKILL, and then a check that it is gone.
//!
//! *Leash* (`tree`, `keeper`). A command with a [`Leash`] leaves nothing behind: after every end of it,
//! exit 0 included, all that descends from it is ended in the same way, whatever session it moved to.
//!
//! *When the runner is killed* (`watchdog`). The parent-death signal kills the command. The
//! [`Watchdog`], a helper process that notices the end of a pipe, stops the rest of its group.
//!
//! [`detach`] starts a process that outlives its starter. A [`Pager`] is the user's own program and
//! has the terminal. [`occupants`] lists the processes inside a directory that is about to be
//! removed; [`settled_occupants`] first lets a git there finish. [`above`] looks at this process's ancestors, [`holders`]
//! at the processes of a connection.
//!
//! The runner decides which command runs, with which variables and logs, and what its exit means
//! (sections 3 and 10 of CONTRACT.md).

mod above;
mod detached;
mod finished;
mod gits;
mod group;
mod job;
#[cfg(target_os = "linux")]
mod keeper;
mod leash;
mod machine;
mod orphans;
mod pager;
mod peer;
mod scope;
mod spawn;
mod spec;
mod start;
#[cfg(test)]
mod tests;
mod tree;
mod typed;
pub mod watchdog;
mod worked;

pub(crate) use above::{Above, above, from};
pub use detached::detach;
pub(crate) use finished::{Finished, How, StopCause};
pub(crate) use job::run;
pub use leash::Leash;
pub(crate) use orphans::{
    is_unused, note_processes, occupants, process_words, settled_occupants, settled_workers, workers,
};
pub use pager::Pager;
pub(crate) use peer::{Holders, holders};
pub(crate) use spec::Spec;
pub use typed::typed;
pub use watchdog::{Guard, Watchdog};
pub use worked::Worked;
