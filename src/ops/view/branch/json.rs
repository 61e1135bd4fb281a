//! A branch in JSON, with the names of `contrib/docs/json.md`: flat, and every field always there.

use serde::{Serialize, Serializer};

use super::BranchView;
use crate::contract::unable::Unable;
use crate::ops::view::Time;
use crate::ops::view::deferred::DeferredView;
use crate::ops::view::lease::UNNAMED;

/// A runner that handed the request back.
#[derive(Serialize)]
struct UnableView<'a> {
    runner: &'a str,
    reason: &'a str,
}

impl<'a> UnableView<'a> {
    fn new(unable: &'a Unable) -> Self {
        Self { runner: &unable.runner, reason: &unable.why }
    }
}

impl Serialize for BranchView {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // The fields of the lease are flattened, and `null` if there is none.
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Flat<'a> {
            branch: &'a str,
            commit: Option<&'a str>,
            state: Option<&'a str>,
            kind: &'a str,
            origin_state: Option<&'a str>,
            run_id: Option<&'a str>,
            runner: Option<&'a str>,
            lease_seconds: Option<u64>,
            expires_at: Option<Time>,
            seconds_left: Option<i64>,
            not_before: Option<Time>,
            preferred_runner: Option<&'a str>,
            preferred_until: Option<Time>,
            seconds_seen: Option<u64>,
            command: Option<&'a str>,
            note: Option<&'a str>,
            cause: Option<&'a str>,
            deferred: Option<&'a DeferredView>,
            subject: Option<&'a str>,
            asked: Option<&'a str>,
            date: Option<Time>,
            reason: Option<&'a str>,
            ended: Option<&'static str>,
            cancel_by: Option<&'a str>,
            interrupted: Option<u32>,
            unable: Vec<UnableView<'a>>,
            rescue_ref: Option<&'a str>,
            waits_for: Option<&'a str>,
            answers: Option<&'a [String]>,
            seconds_waited: Option<u64>,
        }
        let waits = self.waits.as_ref();
        let lease = self.lease.as_ref();
        Flat {
            branch: &self.branch,
            commit: self.commit.as_deref(),
            state: self.state.as_deref(),
            kind: self.label(),
            origin_state: self.origin.as_deref(),
            run_id: lease.map(|lease| lease.run_id.as_str()),
            runner: lease.map(|lease| lease.runner.as_str()).filter(|name| *name != UNNAMED),
            lease_seconds: lease.map(|lease| lease.seconds),
            expires_at: lease.map(|lease| Time(lease.expires_at)),
            seconds_left: lease.map(|lease| lease.left),
            not_before: self.not_before.map(Time),
            preferred_runner: self.preferred.as_ref().map(|(runner, _)| runner.as_str()),
            preferred_until: self.preferred.as_ref().map(|(_, until)| Time(*until)),
            seconds_seen: lease.and_then(|lease| lease.seen).map(|(seen, _)| seen),
            command: self.command.as_deref(),
            note: self.reason.as_deref(),
            cause: self.cause,
            deferred: self.deferred.as_ref(),
            subject: self.subject.as_deref(),
            asked: self.asked.as_deref(),
            date: self.committed_at.map(Time),
            reason: self.why.as_deref(),
            ended: self.ended,
            cancel_by: self.cancel.as_deref(),
            interrupted: self.interrupted,
            unable: self.unable.iter().map(UnableView::new).collect(),
            rescue_ref: self.rescue.as_deref(),
            waits_for: waits.map(|waits| waits.whom.as_str()),
            answers: waits.and_then(|waits| waits.answers.as_deref()),
            seconds_waited: waits.map(|waits| waits.age),
        }
        .serialize(serializer)
    }
}
