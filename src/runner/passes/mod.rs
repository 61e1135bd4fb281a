//! The loop: one pass over the branches, repeated passes, and the state kept between them.
//!
//! | file | holds |
//! |---|---|
//! | `pass` | one survey with at most one step per branch; `--drain` |
//! | `deliver` | delivers deferred states to branches that rest |
//! | `dispatch` | claims and runs branches, up to `--jobs` at once |
//! | `watch` | `--watch`: passes woken by ref changes and clocks |
//! | `changes` | wakes whoever waits for a branch to move |
//! | `backoff` | skips failed and finished HEADs for a while |

pub mod backoff;
pub mod changes;
pub mod deliver;
pub(crate) mod dispatch;
pub mod pass;
pub mod watch;
