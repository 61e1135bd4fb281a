//! What happens, as data: reported by the runner, put into words elsewhere.
//!
//! | file | holds |
//! |---|---|
//! | `notice` | everything a run reports |
//! | `payload` | what the operator's hook is given of it |
//! | `hook` | runs that hook, without holding up a step |

pub mod hook;
pub mod notice;
pub mod payload;
