//! Managed workspaces: a work branch, its base commit and a worktree that lasts as long as its run
//! (CONTRACT.md §15).
//!
//! # Theory of operation
//!
//! The *context* (`workspace-context.json` in the run's directory) names all three, and is written
//! before anything is made. Whoever changes a workspace holds the lock beside it. A change that was
//! interrupted is seen by its state, and the next call finishes or undoes it.
//!
//! Git's registration has the last word about a worktree ([`crate::git::worktrees`]), so it is
//! addressed by that and never through its `.git` file. A path of the context counts only if it can
//! be a workspace's place at all.
//!
//! | file | contains |
//! |---|---|
//! | `context` | the context: its format, and the rules of its values |
//! | `place` | where a worktree may be |
//! | `guard` | whose a workspace is, and what keeps its branch where it is |
//! | `refusal` | why nothing was done |
//! | `store` | the contexts of this repository; finds, locks and writes them |
//! | `create` | makes a workspace, and undoes a half-made one |
//! | `sound` | sets right what no git could work with |
//! | `snapshot` | puts what is in a worktree onto its branch, and sets the worktree right |
//! | `rollback` | puts branch and worktree back to the base, and takes that back |
//! | `heard` | what the ledger of a run hears about its workspaces |
//! | `published` | what is recorded while a workspace is published |
//! | `saved` | saves what is in a worktree before it is made anew or removed |
//! | `aside` | the names of directories beside a worktree that is made anew |
//! | `remove` | removes a workspace, after all of it was saved |
//! | `condition` | what is wrong with workspaces, for `doctor` |
//! | `leftovers` | what they left behind, for `clean` |
//! | `record` | hooks, settings and refs before a step |
//! | `tampering` | compares them with what there is after it |
//! | `beside` | what other steps of this host have changed that are live or were cut off |
//! | `put_back` | puts hooks and settings back after it |
//! | `locked` | git's lock of a file of settings |
//! | `remotes` | what belongs to the settings of a remote |
//! | `taken_back` | takes back what a step changed that must change nothing |
//! | `unasked` | what is here that the question of a gate is not about |
//! | `withheld` | files that look like keys |
//! | `newest` | the newest commit of the work: a worktree that is gone, and a step without that commit |
//! | `settings` | git settings that execute, compared with those at the beginning |
//! | `elsewhere` | workspaces that other hosts use, too |
//! | `ignored` | moves ignored files into a worktree that was made anew |
//! | `joined` | merges commits of another workspace of the run |
//! | `own` | settings of a worktree's own, which a worktree that is made anew takes |
//! | `change` | makes a worktree anew, and carries on after a crash |
//! | `remade` | the results of that |
//! | `steps` | what the steps of a run do with its workspace |
//! | `ready` | ignored files and `aynig.setup` in a new worktree |

mod aside;
mod beside;
mod change;
mod condition;
pub mod context;
mod create;
mod elsewhere;
mod guard;
mod heard;
mod ignored;
mod joined;
mod leftovers;
mod locked;
mod moved;
mod newest;
mod own;
mod place;
pub mod published;
mod put_back;
mod ready;
mod record;
pub mod refusal;
mod remade;
mod remotes;
mod remove;
mod rollback;
mod saved;
mod settings;
mod snapshot;
mod sound;
mod steps;
mod store;
mod taken_back;
mod tampering;
mod unasked;
mod withheld;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;

use globset::GlobSet;

use crate::git::Repo;
use crate::model::by::By;
use crate::stop::Stop;

pub use crate::git::contents::ignored::IgnoredUse;
pub use beside::Awaited;
pub use condition::{Condition, Flaw};
pub use context::settles;
pub use create::Created;
pub use joined::Joined;
pub use put_back::Settled;
pub use remade::Remade;
pub use remove::Removal;
pub use rollback::{DISCARD, PRE_RUN, check_target, discard, rolled_back_on};
pub use snapshot::Snapshot;
pub use steps::Begun;
pub use store::{Entry, Fault, count};
pub use taken_back::{Before, Left, TakenBack};
pub use tampering::{Change, How, Outside, Thing, unsettled_words};
pub use unasked::Unasked;

/// Settings of workspaces.
#[derive(Debug, Clone)]
pub struct Options {
    /// The directory of all worktrees, absolute; `None`: the default.
    pub root: Option<PathBuf>,
    /// The directory of all runs.
    pub data: PathBuf,
    /// The beginning of the names of work branches.
    pub prefix: String,
    /// The beginning of the names of drivers.
    pub drivers: String,
    /// Whether the ledgers of runs hear of changes: not of those in the midst of a step.
    pub hears: bool,
    /// The branches that nobody moves from a workspace.
    pub protected: GlobSet,
    /// Whether a rollback keeps the old directory if it has ignored files.
    pub keeps_ignored: bool,
    /// The command line run in a new worktree.
    pub setup: Option<String>,
    /// This executable.
    pub program: PathBuf,
    /// Who causes the changes, for the ledgers of runs.
    pub by: By,
    /// Tells the user something at once.
    pub tell: fn(&str),
    /// Ends long operations early.
    pub stop: Stop,
}

/// The workspaces of a repository.
#[derive(Debug)]
pub struct Workspaces<'a> {
    /// The repository.
    pub repo: &'a Repo,
    pub(crate) options: Options,
    /// The rollbacks of dead processes that were finished at the opening, by handle. The same call typed again returns
    /// their result.
    finished: RefCell<BTreeMap<String, remade::Finished>>,
    /// The workspaces whose removal was finished then.
    removed: RefCell<Vec<context::Context>>,
}

impl<'a> Workspaces<'a> {
    /// The workspaces of `repo`.
    pub fn new(repo: &'a Repo, options: Options) -> Self {
        Self { repo, options, finished: RefCell::default(), removed: RefCell::default() }
    }
}
