//! The one integration test binary: the real `aynig` against the real `git`, in repositories of their own.
//!
//! `support` makes the repositories and holds the waiting; every other file is one subject.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start processes, read clocks and write files as they need"
)]

mod architecture;
mod contract;
mod demo;
mod documents;
mod in_place;
mod lease;
mod own_workflow;
mod hostile;
mod probe;
mod lost_work;
mod races;
mod readme;
mod scene;
mod settle_table;
mod signals;
mod events;
mod generated;
mod init;
mod logs;
mod set_state;
mod set_working;
mod status;
mod steps;
mod support;
mod survivors;
mod surroundings;
