//! The repository: how it is found and opened, and its configuration.
//!
//! | file | contains |
//! |---|---|
//! | `open` | [`open::Repo`]: its directories, one `gix` handle per thread, the locks that threads share |
//! | `config` | settings, from every source and in every form that git reads |
//! | `executing` | settings of the repository that run programs |
//! | `listing` | the parsed output of `git config --list` |
//! | `default_branch` | the branch that others are merged into |
//! | `shares` | reads many objects on several threads |
//! | `identity` | the author and committer of commits written here |

pub mod config;
pub(crate) mod default_branch;
pub(crate) mod executing;
pub(crate) mod identity;
pub(crate) mod listing;
pub mod open;
mod shares;
