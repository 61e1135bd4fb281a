//! The object database: commits, trees, signatures, and objects that are not in it yet.
//!
//! | file | contains |
//! |---|---|
//! | `access` | reads and writes single objects beside `git gc` |
//! | `unread` | places of objects that cannot be read |
//! | `commits` | reads and writes commits |
//! | `tree` | classifies a path in a tree, and follows its symbolic links |
//! | `digest` | digests of contents |
//! | `edit` | makes trees from others, and reads small files |
//! | `revspec` | resolves a revision without guessing, and reads the files of its tree |
//! | `signatures` | what git reports about the signatures of commits |
//! | `trusted` | which signatures are good enough, and why not |
//! | `differences` | what differs between two trees |
//! | `patch` | the lines that differ between two trees |
//! | `extract` | writes files of a commit beside a checkout |
//! | `landed` | whether a branch has the contents of a commit |
//! | `merge` | merges of trees, without a checkout |
//! | `quarantine` | the objects of a push that a hook has not accepted yet |
//! | `bundle` | fetches files of another repository |

mod access;
pub mod bundle;
pub mod commits;
pub mod differences;
pub mod digest;
pub mod edit;
pub(crate) mod extract;
pub(crate) mod landed;
pub(crate) mod merge;
pub mod patch;
pub mod quarantine;
pub mod revspec;
pub(crate) mod signatures;
pub(crate) mod tree;
pub mod trusted;
pub mod unread;
