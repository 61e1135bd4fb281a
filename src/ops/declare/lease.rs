//! A lease by hand, taken or renewed.

use crate::contract::carried::KeepTrailers;
use crate::contract::head::Head;
use crate::contract::ids::{AttemptId, StateName};
use crate::contract::manual::{ManualLease, set_working_draft};
use crate::contract::message::Message;
use crate::git::Repo;
use crate::runner::authority::Authority;

use super::write::write;
use super::{Advice, LeaseRequest, WrittenLease, misread, refused};
use crate::ops::error::Error;
use crate::ops::missing;

/// Takes a lease, or renews the one at HEAD.
pub fn lease(repo: &Repo, authority: &Authority, request: &LeaseRequest) -> Result<WrittenLease, Error> {
    let landed = write(repo, authority, &request.onto, "aynig: set working", |target| {
        let head = if target.inside {
            target.trailers()
        } else {
            // Outside a command only HEAD counts: a plain commit on a lease means that the branch
            // was taken over.
            let head = target.head.as_ref();
            head.map(|head| Message::parse(&head.message).trailers).unwrap_or_default()
        };
        let asked = ManualLease {
            head,
            keep: match request.content.keep_trailers {
                KeepTrailers::None => KeepTrailers::Dwp,
                keep => keep,
            },
            attempt: AttemptId::random(),
            runner: repo.runner_id().to_owned(),
            seconds: request.seconds,
            subject: request.content.subject.clone(),
            body: request.content.body.clone(),
            trailers: request.content.trailers.clone(),
            source: authority.source().cloned(),
            branch: target.branch.clone(),
        };
        set_working_draft(&asked)
            .map_err(|error| refused(&error, &missing::options(repo, authority, &target.branch)))
    })?;
    let Head::Working(lease) = Head::read(&landed.commit.facts()) else {
        return Err(misread(landed.commit.id, "a lease"));
    };
    let foreign = landed.before.foreign_lease().filter(|(lease, _)| lease.runner != repo.runner_id());
    let renewed = foreign.map(|(lease, left)| Advice::RenewedForOther {
        branch: landed.before.branch.clone(),
        lease: lease.clone(),
        left,
    });
    let fresh = landed.before.lease().is_none();
    let mut written = landed.written(StateName::working());
    written.advice.extend(renewed);
    Ok(WrittenLease { written, lease, fresh })
}
