//! aynig: all you need is git.
//!
//! A branch's newest commit says what is to be done, in its trailers (`dwp-state: review`). A runner claims the
//! branch with a `working` commit (a compare-and-swap on the ref, so one runner wins), runs `.aynig/command/<state>` in
//! a worktree under supervision, reads `SET_STATE {json}` from its output, and writes the next state as a commit. The
//! history is the log, the lock and the state. `CONTRACT.md` is the law of all this.
//!
//! ```text
//! cli ─▶ ops ─▶ runner ─┬▶ supervise
//!                       └▶ git ─▶ contract
//! ```
//!
//! Arrows are `use`. [`contract`] is pure: values in, decisions out. [`git`] alone speaks to repositories and
//! [`supervise`] alone starts commands; neither knows of the other. [`runner`] joins the two into steps, and [`ops`]
//! offers them to whoever asks. The binary's `cli` alone parses arguments, prints and chooses exit codes; the
//! library does not know it. A test in `tests/` holds the tree to this.
//!
//! Below them all:
//!
//! | file | holds |
//! |---|---|
//! | [`clock`] | the one reader of time |
//! | [`fsutil`] | the one writer of files that others read |
//! | [`session`] | what `/proc` says of processes; sessions without a terminal |
//! | [`stop`] | the one way to say stop |
//! | [`words`] | small pieces of text: quoting, plurals, chains of errors |
//! | [`crashpoint`] | where tests make a debug build die |
//!
//! The words, everywhere: a *state* is the value of `dwp-state`; an *attempt* is one leased execution; a *command* is an
//! executable under `.aynig/`; a *subcommand* is a verb of this binary; a *pass* is one scan with at most one
//! step per branch; the *lease* is the `working` commit at HEAD; the *trigger* is the commit whose state caused the
//! attempt.

pub mod clock;
pub mod contract;
pub mod crashpoint;
pub mod fsutil;
pub mod git;
pub mod ops;
pub mod runner;
pub mod session;
pub mod stop;
pub mod supervise;
pub mod words;
