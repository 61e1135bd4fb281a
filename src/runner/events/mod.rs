//! Events of a run, as data, and the operator's hook.
//!
//! | file | holds |
//! |---|---|
//! | `notice` | every kind of event |
//! | `warning` | things the user should look at: data, a code, a sentence |
//! | `said` | which warnings were printed before |
//! | `feed` | the subscribers |
//! | `payload` | the notices that reach the hook, as JSON and variables |
//! | `hook` | runs the hook without delaying a step |

pub mod feed;
pub mod hook;
pub mod notice;
pub mod payload;
pub mod said;
pub mod warning;
