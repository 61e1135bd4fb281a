//! aynig: all you need is git.
//!
//! A branch's newest commit declares in its trailers what is to be done (`dwp-state: review`). A
//! runner claims the branch with a `working` commit, by a compare-and-swap on the ref, so that one
//! runner wins. It runs `.aynig/command/<state>` in a worktree under supervision, reads `SET_STATE
//! {json}` from its output, and writes the next state as a commit. The history is the log, the lock
//! and the state. `CONTRACT.md` is the specification.
//!
//! ```text
//! cli ─┬▶ server ─▶ ops ─▶ runner ─┬▶ supervise
//!      └───────────▶ ops           └▶ git ─▶ contract
//! ```
//!
//! Arrows are `use`. [`contract`], [`model`], [`flow`] and [`orch`] are pure: values in, decisions out. The model is
//! that of orchestrated runs, flows are files that describe one, and `orch` judges graphs of nodes; the runner knows none of them. [`engine`] carries out the
//! steps of flows in managed worktrees, with the agents of [`provider`]; [`publish`] proposes what came of it. Only [`git`] accesses
//! repositories, and only [`supervise`] starts commands; neither uses the other. [`runner`] joins
//! the two into steps, and [`ops`] offers them to every front end: [`server`] answers requests with them, and is the only
//! asynchronous code. Only the binary's `cli` parses arguments, prints and chooses exit codes; the library does not know it.
//! `tests/it/architecture.rs` checks this.
//!
//! Shared by all of them:
//!
//! | file | contains |
//! |---|---|
//! | [`clock`] | reading time, formatting times |
//! | [`fsutil`] | writing files that others read; locks |
//! | [`session`] | process state from `/proc`; sessions without a terminal |
//! | [`stop`] | the stop switch |
//! | [`words`] | text helpers: quoting, plurals, error chains |
//! | [`crashpoint`] | places where tests make a debug build die |
//!
//! Terms: a *state* is the value of `dwp-state`; an *attempt* is one leased execution; a *command*
//! is an executable under `.aynig/`; a *subcommand* is a verb of this binary; a *pass* is one scan
//! with at most one step per branch; the *lease* is the `working` commit at HEAD; the *trigger* is
//! the commit whose state caused the attempt.

pub mod clock;
pub mod contract;
pub mod crashpoint;
pub mod engine;
pub mod flow;
pub mod fsutil;
pub mod git;
pub mod journal;
pub mod ledger;
pub mod model;
pub mod ops;
pub mod orch;
pub mod provider;
pub mod publish;
pub mod runner;
pub mod server;
pub mod session;
pub mod stop;
pub mod supervise;
pub mod words;
pub mod workspace;
