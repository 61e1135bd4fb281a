//! The commit that requested the work on a branch.

use crate::contract::head::{Event, Head};
use crate::contract::ids::CommitId;
use crate::contract::message::Message;
use crate::git::Repo;
use crate::runner::Context;
use crate::runner::survey::trust;

/// Returns the newest request at or below `head`. Leases and stalled commits only say what became of one.
pub(crate) fn newest_request(repo: &Repo, head: CommitId) -> Option<Event> {
    repo.history(head).flatten().find_map(|stored| match Head::read(&stored.facts()) {
        Head::Ready(event) if !event.state.is_stalled() => Some(event),
        Head::Ready(_) | Head::Working(_) | Head::Unmanaged | Head::Invalid(_) => None,
    })
}

/// Returns what a result may hand on: the trigger, or the request below a stalled one.
pub(crate) fn handed_on(context: &Context<'_>, repo: &Repo, trigger: &Event) -> Result<Message, String> {
    let below = trigger.state.is_stalled().then(|| newest_request(repo, trigger.commit)).flatten();
    let Some(request) = below else { return Ok(trigger.message.clone()) };
    match trust::refused(repo, &context.options.trust, request.commit) {
        None => Ok(request.message),
        Some(why) => Err(format!("what was asked in {} cannot be kept: {why}", request.commit.short())),
    }
}
