//! Git: the only importer of `gix` and the only spawner of the `git` program.
//!
//! Reading objects and refs and writing commits happens in this process through `gix`; whatever touches a working
//! tree or an index goes through the `git` program, whose rules for filters, attributes, sparse checkouts and
//! line ends are not ours to rewrite. Everything that leaves this room is in the words of [`crate::contract`]
//! (`CommitId`, `BranchName`, …): no `gix` type crosses the door.
//!
//! | file | holds |
//! |---|---|
//! | `repo` | finding and opening the repository, its directories, one handle a thread |
//! | `identity` | who commits are by |
//! | `listing` | what git lists of its configuration |
//! | `commit` | reading commits, writing commits, identity, signatures, ancestry |
//! | `config` | git's configuration |
//! | `swap` | refs: reading, listing, and the compare-and-swap that makes one winner |
//! | `ref_lock`, `moves` | the lock of a ref, and what of it a killed runner leaves |
//! | `trusted` | what is trusted: a ref named without guessing, the files of its tree |
//! | `signatures` | what git finds of the signatures of commits |
//! | `tree` | what a path in a commit's tree is, and where its links lead |
//! | `index` | the tree an index stands for, and whether it differs from HEAD |
//! | `pool` | a few clean worktrees, kept for the next steps |
//! | `stage` | an index file as read in this process |
//! | `registration` | what a checkout is, and whose a linked worktree is |
//! | `registry` | the repository's list of worktrees: getting on it, and off again |
//! | `untouched` | whether a worktree is as git filled it, without asking git |
//! | `worktree` | making, finding, proving ours, and removing worktrees |
//! | `held` | a worktree that this process holds |
//! | `worktree_error` | why a worktree could not be made, read or removed |
//! | `whereabouts` | what lies at the path of a worktree by now |
//! | `place` | the directory that holds worktrees |
//! | `remote` | fetching, asking, and the leased push |
//! | `ignored` | what git ignores in a checkout and a list names |
//! | `incoming` | the commits of a push that a hook has not accepted yet |
//! | `pack` | files of another repository, fetched beside this one |
//! | `aside` | what git has put aside in a registration |
//! | `rescue` | saving what a worktree holds before it goes |
//! | `kept` | worktrees that were left to a person, rescue refs |
//! | `landed` | whether what a commit holds is in a branch by now |
//! | `nested` | repositories in a worktree that hold what nobody else has |
//! | `probe` | questions that only a check-up asks |
//! | `process` | one call of the `git` program |
//! | `interrupt` | the wish that calls that wait for somebody else end |
//! | `ending` | ending a call so that nothing is left half done |

mod aside;
pub mod commit;
pub mod config;
mod ending;
pub mod held;
mod identity;
pub mod ignored;
pub mod incoming;
pub mod index;
pub mod interrupt;
pub mod kept;
pub mod landed;
mod listing;
mod moves;
pub mod nested;
pub mod pack;
mod place;
pub mod pool;
pub mod probe;
pub mod process;
mod ref_lock;
pub mod registration;
mod registry;
pub mod remote;
pub mod repo;
pub mod rescue;
pub mod signatures;
mod stage;
mod submodules;
pub mod swap;
pub mod tree;
pub mod trusted;
mod untouched;
pub mod whereabouts;
pub mod worktree;
pub mod worktree_error;

pub use aside::Unconcluded;
pub use commit::CommitError;
pub use identity::Identity;
pub use process::{Git, ProcessError};
pub use registration::{Checkout, Workplace};
pub use repo::{OpenError, Repo, Store};
pub use swap::{RefError, Swap};
