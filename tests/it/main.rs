//! The one integration test binary: the real `aynig` against the real `git`, in repositories of their own.
//!
//! `support` makes the repositories and holds the waiting; every other file is one subject.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start processes, read clocks and write files as they need"
)]

mod lease;
mod races;
mod scene;
mod contract;
mod probe;
mod settle_table;
mod architecture;
mod demo;
mod documents;
mod own_workflow;
mod readme;
mod steps;
mod support;
mod survivors;
