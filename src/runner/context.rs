//! What all stages of a run share: references, so that each thread can have them.

use crate::git::Store;
use crate::stop::Stop;
use crate::supervise::Watchdog;

use super::options::Options;
use crate::runner::authority::Authority;
use crate::runner::events::notice::Listener;

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
    /// Where notices go.
    pub tell: Listener<'a>,
}

impl std::fmt::Debug for Context<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Context").field("options", &self.options).finish_non_exhaustive()
    }
}
