//! The repository: how it is found and opened, and what its configuration says.
//!
//! | file | holds |
//! |---|---|
//! | `open` | [`open::Repo`]: its directories, one `gix` handle a thread, the locks that threads share |
//! | `config` | settings, with every source and form that git reads |
//! | `listing` | what `git config --list` prints, parsed |
//! | `identity` | the author and committer of what is written here |

pub mod config;
pub(crate) mod identity;
pub(crate) mod listing;
pub mod open;
