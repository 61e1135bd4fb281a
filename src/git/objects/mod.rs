//! The object database: commits, trees, signatures, and objects that are not in it yet.
//!
//! | file | holds |
//! |---|---|
//! | `commits` | reads and writes commits |
//! | `tree` | what a path in a tree is, and where its links lead |
//! | `revspec` | a revision named without guessing, and the files of its tree |
//! | `signatures` | what git reports of the signatures of commits |
//! | `landed` | whether another branch holds what a commit holds |
//! | `quarantine` | the objects of a push that a hook has not accepted yet |
//! | `bundle` | files of another repository, fetched beside this one |

pub mod bundle;
pub mod commits;
pub(crate) mod landed;
pub mod quarantine;
pub mod revspec;
pub(crate) mod signatures;
pub(crate) mod tree;
