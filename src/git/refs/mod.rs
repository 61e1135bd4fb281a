//! Refs: reading, listing, and the compare-and-swap with one winner.
//!
//! | file | contains |
//! |---|---|
//! | `cas` | reads a ref, and moves it by compare-and-swap |
//! | `list` | lists refs |
//! | `file` | reads the file of a ref |
//! | `loose` | the refs that have files, and the damaged ones |
//! | `transaction` | moves several refs together |
//! | `notify` | reports changes of refs in the files of this repository |
//! | `reflog` | reads and writes reflogs |
//! | `lock` | the lock file of a ref |
//! | `intent_log` | announces moves, so that locks left by killed runners are recognised |
//! | `abandoned` | frees copies of remote refs that a killed git left locked |

pub(crate) mod abandoned;
pub(crate) mod cas;
pub(crate) mod file;
pub(crate) mod intent_log;
pub(crate) mod list;
pub(crate) mod lock;
pub(crate) mod loose;
pub(crate) mod notify;
pub(crate) mod reflog;
pub(crate) mod transaction;
