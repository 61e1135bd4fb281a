//! The context shared by all stages of a run. It holds only references, so each thread can have a copy.

use crate::contract::ids::{BranchName, CommitId};
use crate::git::Store;
use crate::stop::Stop;
use crate::supervise::Watchdog;

use super::options::Options;
use crate::runner::authority::Authority;
use crate::runner::events::feed::Feed;
use crate::runner::events::notice::Notice;
use crate::runner::events::warning::Warning;

/// The context shared by all stages of a run.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The repository. Each thread takes a handle of its own.
    pub store: &'a Store,
    /// The ref store that decides races.
    pub authority: &'a Authority,
    /// The settings.
    pub options: &'a Options,
    /// Tripped by a signal or a panic; the run then stops.
    pub shutdown: &'a Stop,
    /// Stops the commands if this process is killed.
    pub watchdog: &'a Watchdog,
    /// Receives every notice.
    pub feed: &'a Feed<'a>,
}

impl Context<'_> {
    /// Publishes a notice.
    pub(crate) fn report(&self, notice: &Notice) {
        self.feed.publish(notice);
    }

    /// Publishes a warning.
    pub(crate) fn warn(&self, branch: Option<&BranchName>, warning: Warning) {
        self.report(&Notice::Warning { branch: branch.cloned(), at: None, warning });
    }

    /// Publishes a warning about a commit, and its branch.
    pub(crate) fn warn_at(&self, branch: &BranchName, commit: Option<CommitId>, warning: Warning) {
        let at = commit.map(|commit| (branch.clone(), commit));
        self.report(&Notice::Warning { branch: Some(branch.clone()), at, warning });
    }
}

impl std::fmt::Debug for Context<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Context").field("options", &self.options).finish_non_exhaustive()
    }
}
