//! What all stages of a run share: references, so that each thread can have them.

use crate::contract::ids::BranchName;
use crate::git::Store;
use crate::stop::Stop;
use crate::supervise::Watchdog;

use super::options::Options;
use crate::runner::authority::Authority;
use crate::runner::events::feed::Feed;
use crate::runner::events::notice::Notice;
use crate::runner::events::warning::Warning;

/// What all stages of a run share.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The repository; each thread takes its own handle.
    pub store: &'a Store,
    /// Who decides races.
    pub authority: &'a Authority,
    /// The settings.
    pub options: &'a Options,
    /// Whether we were asked to stop.
    pub shutdown: &'a Stop,
    /// Ends the commands if this process is killed.
    pub watchdog: &'a Watchdog,
    /// Who hears of what happens.
    pub feed: &'a Feed<'a>,
}

impl Context<'_> {
    /// Reports what happened.
    pub(crate) fn report(&self, notice: &Notice) {
        self.feed.publish(notice);
    }

    /// Reports what a person should look at.
    pub(crate) fn warn(&self, branch: Option<&BranchName>, warning: Warning) {
        self.report(&Notice::Warning { branch: branch.cloned(), warning });
    }
}

impl std::fmt::Debug for Context<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Context").field("options", &self.options).finish_non_exhaustive()
    }
}
