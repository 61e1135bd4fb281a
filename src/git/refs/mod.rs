//! Refs: reading, listing, and the compare-and-swap with one winner.
//!
//! | file | holds |
//! |---|---|
//! | `cas` | lists refs, and moves one if it is where it was seen |
//! | `reflog` | the logs of refs |
//! | `lock` | the lock file of a ref |
//! | `intent_log` | announced moves: the locks that a killed runner left can be told from others |

pub(crate) mod cas;
pub(crate) mod intent_log;
pub(crate) mod lock;
pub(crate) mod reflog;
