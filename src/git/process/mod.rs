//! Calls of the `git` program: building, limiting, cancelling and ending them.
//!
//! | file | contains |
//! |---|---|
//! | `call` | [`call::Git`]: arguments, environment, input, time limit, output |
//! | `cancel` | decides which calls end early when the runner stops |
//! | `terminate` | ends a call so that it leaves no lock file behind |

pub mod call;
pub mod cancel;
pub(crate) mod terminate;
