//! Calls of the `git` program: how one is made, bounded, cancelled and ended.
//!
//! | file | holds |
//! |---|---|
//! | `call` | [`call::Git`]: arguments, environment, input, time limit, output |
//! | `cancel` | which calls end early when the runner stops |
//! | `terminate` | ends a call so that it leaves no lock behind |

pub mod call;
pub mod cancel;
pub(crate) mod terminate;
