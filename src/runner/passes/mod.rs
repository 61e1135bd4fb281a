//! The loop: one pass over the branches, many of them, and what is remembered between them.
//!
//! | file | holds |
//! |---|---|
//! | `pass` | one survey with at most one step a branch; `--drain` |
//! | `dispatch` | runs the claimed branches, as many at a time as `--jobs` admits |
//! | `watch` | waits for refs to change |
//! | `backoff` | which branches are left alone for a while, and until when |

pub mod backoff;
pub(crate) mod dispatch;
pub mod pass;
pub mod watch;
