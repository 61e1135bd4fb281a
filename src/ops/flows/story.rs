//! What happened in a flow run, from its ledger: steps, questions and answers, and what changed the run.

use std::collections::BTreeMap;

use serde::Serialize;

use super::view::{StepView, steps};
use crate::git::Repo;
use crate::ledger::Tip;
use crate::ledger::history::operations;
use crate::model::approval::Answer;
use crate::model::by::By;
use crate::model::event::{Body, Event, WorkspaceChanged};
use crate::model::ids::ApprovalId;
use crate::ops::error::Error;
use crate::ops::runs;

/// Something that happened.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// When.
    pub at: String,
    /// What: `run`, `step`, `question`, `answer`, `workspace` or `limit`.
    pub kind: &'static str,
    /// In a sentence.
    pub text: String,
    /// The person, or the host's runner.
    pub by: String,
    /// The step.
    pub step: Option<String>,
    /// Its place in the run, from 1.
    pub number: Option<u64>,
    /// The directory of its files on this host.
    pub directory: Option<String>,
}

/// What happened, the oldest first. A step has its entry where it began.
pub fn story(repo: &Repo, tip: &Tip) -> Result<Vec<Entry>, Error> {
    let directory = runs::directory(repo, tip.state.run.id)?;
    let mut all: BTreeMap<u64, StepView> =
        steps(&tip.state, &directory).into_iter().map(|step| (step.number, step)).collect();
    let mut questions: BTreeMap<ApprovalId, String> = BTreeMap::new();
    let mut entries = Vec::new();
    for operation in operations(repo, tip.state.run.id, tip.id, None)? {
        for event in &operation.events {
            let Some((kind, text)) = told(event, &mut questions) else { continue };
            let step = match &event.body {
                Body::StepStarted(body) => all.remove(&body.step.number),
                _ => None,
            };
            let text = step.as_ref().map_or(text, step_words);
            // A step and its end are one operation; it began before.
            let at = step.as_ref().map_or_else(|| event.ts.to_string(), |step| step.started_at.clone());
            entries.push(Entry {
                at,
                kind,
                text,
                by: by_words(&event.by),
                number: step.as_ref().map(|step| step.number),
                directory: step.as_ref().and_then(|step| step.directory.clone()),
                step: step.map(|step| step.id),
            });
        }
    }
    Ok(entries)
}

fn by_words(by: &By) -> String {
    match by {
        By::Person { name, .. } => name.clone(),
        By::Node { runner, .. } | By::Runner { runner } => runner.clone(),
    }
}

/// A step in words: its outcome and route, and the evidence.
fn step_words(step: &StepView) -> String {
    let Some(outcome) = step.outcome else { return format!("{} is under way", step.id) };
    let outcome = serde_json::to_value(outcome).unwrap_or_default();
    let route = step.route.as_ref().map_or_else(|| " (no route)".to_owned(), |route| format!(" -> {route}"));
    let evidence = step.evidence.as_ref().map(|evidence| format!(": {evidence}")).unwrap_or_default();
    format!("{} {}{route}{evidence}", step.id, outcome.as_str().unwrap_or_default())
}

/// An event in words. `None` for one that says nothing to people, or whose step says it.
fn told(event: &Event, questions: &mut BTreeMap<ApprovalId, String>) -> Option<(&'static str, String)> {
    Some(match &event.body {
        Body::RunCreated(body) => {
            let flow = body.patch.flow.as_ref();
            let flow = flow.map(|flow| format!("{} (version {})", flow.workflow_id, flow.version));
            ("run", format!("began {} from {}", flow.unwrap_or_default(), body.patch.base_ref))
        }
        Body::RunPatched(body) => {
            let patch = &body.patch;
            let verdict = patch.verdict.flatten().map(|verdict| format!("ended: {}", verdict.word()));
            let status = patch.status.map(|status| status.word().to_owned());
            let how = patch.termination.clone().flatten().filter(|how| how != "completed");
            let waits = patch.waiting_for.clone().flatten().map(|whom| format!("waits for {whom}"));
            let parts: Vec<String> = verdict.or(status).into_iter().chain(how).chain(waits).collect();
            if parts.is_empty() {
                return None;
            }
            ("run", parts.join(": "))
        }
        Body::Stalled(body) => {
            let evidence = serde_json::to_string(&body.evidence).unwrap_or_default();
            ("run", format!("paused: it goes in circles: {evidence}"))
        }
        Body::StepStarted(_) => ("step", String::new()),
        Body::ApprovalRequested(body) => {
            let text = body.context.clone().unwrap_or_else(|| body.tool.name.clone());
            questions.insert(body.approval_id, body.tool.name.clone());
            ("question", text)
        }
        Body::ApprovalResolved(body) => {
            let word = match body.resolution.status {
                Answer::Approved => "approved",
                Answer::Denied => "rejected",
                Answer::Modified => "changed",
                Answer::Expired => "nobody answered in time",
            };
            let reason = body.resolution.reason.as_ref().map(|reason| format!(": {reason}"));
            let name = questions.get(&body.approval_id).map(|name| format!("{name} "));
            ("answer", format!("{}{word}{}", name.unwrap_or_default(), reason.unwrap_or_default()))
        }
        Body::WorkspaceMended(body) => ("workspace", changed("mended", body)),
        Body::WorkspaceAdopted(body) => ("workspace", changed("commits of people adopted", body)),
        Body::WorkspaceRolledBack(body) => ("workspace", changed("rolled back", body)),
        Body::WorkspaceRemoved(body) => ("workspace", changed("removed", body)),
        Body::LimitReached(body) => {
            ("limit", format!("{} reached: {} of {}", body.limit, body.value, body.bound))
        }
        _ => return None,
    })
}

fn changed(what: &str, body: &WorkspaceChanged) -> String {
    let head = body.patch.head_sha.as_ref().and_then(|head| head.get(..10)).map(|head| format!(" to {head}"));
    let rescue = body.rescue.as_ref().map(|rescue| format!("; what was there is {rescue}"));
    let detail = body.detail.as_ref().map(|detail| format!(": {detail}"));
    [Some(what.to_owned()), head, detail, rescue].into_iter().flatten().collect()
}
