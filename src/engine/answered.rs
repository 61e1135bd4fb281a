//! The effect of an answer to a gate, in words for its author.

use crate::flow::document::Flow;
use crate::flow::due::route;
use crate::model::approval::{Answer, Approval};
use crate::model::by::{By, Signature, Signed};
use crate::model::run::RunStatus;
use crate::model::state::State;
use crate::model::step::Outcome;

use super::question::{Given, name_of, required};

/// The effect of an answer to the question `asked` in a state of its run.
pub(super) fn answered(flow: &Flow, state: &State, asked: &Approval, given: &Given) -> Vec<String> {
    let Some(now) = state.approvals.get(&asked.id) else { return Vec::new() };
    let text = |name: &str| now.tool.args.get(name).and_then(serde_json::Value::as_str).unwrap_or_default();
    let (step, slug) = (text("step"), &state.run.slug);
    let name = name_of(&given.by);
    let Some(resolution) = &now.resolution else {
        let (count, required) = (now.consents.len(), required(now));
        let again = asked.consents.iter().any(|one| one.by.is_same_person(&given.by));
        let how = if again { "had approved already" } else { "approved" };
        let unrecorded = given.comment.is_some()
            && !now
                .consents
                .iter()
                .any(|one| one.by.is_same_person(&given.by) && one.reason == given.comment);
        let lost = if unrecorded { ", and the comment is in no record" } else { "" };
        return vec![
            format!(
                "{step}: {name} {how}{}: {count} of {required} approvals are there{lost}",
                signed(&given.by)
            ),
            format!("the gate stays open: `aynig flow show {slug}` shows who may answer"),
        ];
    };
    let word = if resolution.status == Answer::Denied { "rejected" } else { "approved" };
    let first = now.resolved_by.as_ref().map_or_else(|| "nobody".to_owned(), name_of);
    // Another answer may have been first, and this one changed nothing.
    let counts = |by: &By| by.is_same_person(&given.by);
    let is_counted =
        now.resolved_by.as_ref().is_some_and(counts) || now.consents.iter().any(|one| counts(&one.by));
    if asked.resolution.is_some() || !is_counted {
        let is_new = given.comment.is_some() && given.comment != resolution.reason;
        let comment = if is_new { ", and the comment is in no record" } else { "" };
        return vec![format!("{step} was {word} already, by {first}; nothing was changed{comment}")];
    }
    let mut said = vec![format!("{step}: {word} by {name}{}", signed(&given.by))];
    let outcome =
        if resolution.status == Answer::Denied { Outcome::GateRejected } else { Outcome::GateApproved };
    let next = flow.step(step).map(|step| route(step, outcome));
    said.push(match (state.run.status, next) {
        (RunStatus::Paused, _) => {
            format!("the run is paused: `aynig flow resume {slug}` continues it")
        }
        (_, Some(Ok(next))) if next != "STOP" => {
            format!("{next} is next: `aynig run` begins it, here or on another host that runs")
        }
        (_, Some(Ok(_))) => {
            "the run ends with that: `aynig run` notes it, here or on another host that runs".to_owned()
        }
        (_, Some(Err(why))) => format!("the run ends with that ({why}): `aynig run` notes it"),
        (_, None) => format!("`aynig flow show {slug}` shows where it stands"),
    });
    said
}

/// How somebody signed, in words.
fn signed(by: &By) -> String {
    let By::Person { signature: Some(Signature { state, key }), .. } = by else { return String::new() };
    let key = key.as_ref().map(|key| format!(" by key:{key}")).unwrap_or_default();
    let how = match state {
        Signed::Good => "signed",
        Signed::Bad => "badly signed",
        Signed::Unknown => "signed, which cannot be checked here,",
    };
    format!(" ({how}{key})")
}
