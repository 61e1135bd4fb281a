//! The request on a branch, which a commit by hand may repeat or hand on.

use bstr::BString;

use crate::clock;
use crate::contract::carried::{Ask, heading};
use crate::contract::head::Event;
use crate::git::Repo;
use crate::runner::landing::ask::newest_request;

use super::Onto;
use super::target::Target;
use crate::ops::error::Error;

/// Returns the newest request on the branch, if our signature may vouch for its message.
pub(super) fn ask(repo: &Repo, target: &Target, onto: &Onto) -> Result<Option<Event>, Error> {
    let asked = target.head.as_ref().and_then(|head| newest_request(repo, &target.branch, head.id));
    if let Some(event) = &asked {
        // A runner's commit may lie on an unsigned one. The runner left out its files, but not its
        // request.
        target.check_signed(repo, onto.accept_unsigned, event.commit)?;
    }
    Ok(asked)
}

/// Returns the body of `request` with a section below it.
pub(super) fn with_reply(repo: &Repo, target: &Target, request: Event, reply: Option<&[u8]>) -> BString {
    let origin = target.lease().and_then(|lease| lease.origin.clone());
    let from = origin.or_else(|| target.meaning.state()).unwrap_or(request.state);
    let at = clock::format_utc(clock::wall_seconds());
    Ask { message: request.message, heading: heading(&from, &repo.identity().author.0, &at) }.body_with(reply)
}
