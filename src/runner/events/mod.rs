//! What happens, as data: reported by the runner, put into words elsewhere.
//!
//! | file | holds |
//! |---|---|
//! | `notice` | everything a run reports |
//! | `warning` | what a person should look at: data, a code, words |
//! | `feed` | who hears of it |
//! | `payload` | what the operator's hook is given of it |
//! | `hook` | runs that hook, without holding up a step |

pub mod feed;
pub mod hook;
pub mod notice;
pub mod payload;
pub mod warning;
