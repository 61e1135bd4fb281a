//! The commit that requested the work on a branch.

use crate::clock;
use crate::contract::carried::{Ask, heading};
use crate::contract::head::{Event, Head};
use crate::contract::ids::{BranchName, CommitId};
use crate::git::Repo;
use crate::runner::Context;
use crate::runner::survey::line::line;
use crate::runner::survey::trust;

/// Returns the newest request at or below `head`. Leases and stalled commits only say what became of one.
pub(crate) fn newest_request(repo: &Repo, branch: &BranchName, head: CommitId) -> Option<Event> {
    line(repo, branch, head).find_map(|stored| match Head::read(&stored.facts()) {
        Head::Ready(event) if !event.state.is_stalled() => Some(event),
        Head::Ready(_) | Head::Working(_) | Head::Unmanaged | Head::Invalid(_) => None,
    })
}

/// Returns what a result may hand on: the trigger, or the request below a stalled one.
pub(crate) fn handed_on(
    context: &Context<'_>,
    repo: &Repo,
    branch: &BranchName,
    trigger: &Event,
) -> Result<Ask, String> {
    let below = trigger.state.is_stalled().then(|| newest_request(repo, branch, trigger.commit)).flatten();
    let at = clock::format_utc(clock::wall_seconds());
    let heading = heading(&trigger.state, repo.runner_id().as_bytes(), &at);
    let Some(request) = below else { return Ok(Ask { message: trigger.message.clone(), heading }) };
    match trust::refused(repo, &context.options.trust, request.commit) {
        None => Ok(Ask { message: request.message, heading }),
        Some(why) => Err(format!("what was asked in {} cannot be kept: {why}", request.commit.short())),
    }
}
