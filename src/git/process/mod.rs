//! Calls of the `git` program: building, limiting, cancelling and ending them.
//!
//! | file | contains |
//! |---|---|
//! | `call` | [`call::Git`]: arguments, environment, input, time limit, output |
//! | `cancel` | decides which calls end early when the runner stops |
//! | `output` | the output of a call that is only waited for |
//! | `patience` | finds out that a call does nothing any more |
//! | `terminate` | ends a call so that it leaves no lock file behind |

pub mod call;
pub mod cancel;
mod output;
pub(crate) mod patience;
pub(crate) mod terminate;
