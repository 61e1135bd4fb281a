//! What happened in a flow run, from its ledger: steps, questions and answers, and what changed the run.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::gate::{answer_word, person};
use super::view::{StepView, published, steps};
use crate::flow::due::{INTERRUPTED, PARKED};
use crate::git::Repo;
use crate::ledger::Tip;
use crate::ledger::history::operations;
use crate::model::event::{Body, Event, WorkspaceChanged};
use crate::model::ids::ApprovalId;
use crate::model::run::RunStatus;
use crate::model::step::{Opcode, Outcome};
use crate::ops::error::Error;
use crate::ops::runs;

/// Something that happened.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// When. Of a step: its end, or its start while it is under way.
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
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// The directory of its files on this host.
    pub directory: Option<String>,
}

/// A question of a gate.
struct Asked {
    name: String,
    step: Option<String>,
    number: Option<u64>,
    /// How many must approve.
    required: u64,
    /// How many have.
    given: u64,
}

/// What was read so far.
struct Teller {
    steps: BTreeMap<u64, StepView>,
    questions: BTreeMap<ApprovalId, Asked>,
}

/// What happened, the oldest first.
pub fn story(repo: &Repo, tip: &Tip) -> Result<Vec<Entry>, Error> {
    let directory = runs::directory(repo, tip.state.run.id)?;
    let steps = steps(&tip.state, &directory).into_iter().map(|step| (step.number, step)).collect();
    let mut teller = Teller { steps, questions: BTreeMap::new() };
    let mut entries = Vec::new();
    for operation in operations(repo, tip.state.run.id, tip.id, None)? {
        entries.extend(operation.events.iter().filter_map(|event| teller.entry(event)));
    }
    Ok(entries)
}

impl Teller {
    /// The entry of an event. `None` for one that says nothing to people, or that another one tells.
    fn entry(&mut self, event: &Event) -> Option<Entry> {
        let at = event.ts.to_string();
        match &event.body {
            // An ended step is told where it ended.
            Body::StepStarted(body)
                if self.steps.get(&body.step.number).is_some_and(|step| step.outcome.is_none()) =>
            {
                self.of_step(event, body.step.number, at)
            }
            Body::StepEnded(body) => self.of_step(event, body.number, at),
            Body::ApprovalRequested(_) | Body::ApprovalGiven(_) | Body::ApprovalResolved(_) => {
                self.of_gate(event, at)
            }
            _ => {
                let (kind, text) = told(event)?;
                Some(Entry { kind, text, ..Entry::at(at, event) })
            }
        }
    }

    fn of_step(&self, event: &Event, number: u64, at: String) -> Option<Entry> {
        let step = self.steps.get(&number)?;
        Some(Entry {
            kind: "step",
            text: step_words(step, self.steps.get(&(number + 1))),
            step: Some(step.id.clone()),
            number: Some(number),
            outcome: step.outcome,
            directory: step.directory.clone(),
            ..Entry::at(at, event)
        })
    }

    fn of_gate(&mut self, event: &Event, at: String) -> Option<Entry> {
        let (kind, id, text) = match &event.body {
            Body::ApprovalRequested(body) => {
                let arg = |name: &str| body.tool.args.get(name);
                let name = arg("gate").and_then(Value::as_str).unwrap_or(&body.tool.name).to_owned();
                let text = body.context.clone().unwrap_or_else(|| format!("{name} waits for an approval"));
                let asked = Asked {
                    name,
                    step: arg("step").and_then(Value::as_str).map(str::to_owned),
                    number: arg("number").and_then(Value::as_u64),
                    required: arg("required").and_then(Value::as_u64).unwrap_or(1),
                    given: 0,
                };
                self.questions.insert(body.approval_id, asked);
                ("question", body.approval_id, text)
            }
            Body::ApprovalGiven(body) => {
                let text = self.answered(body.approval_id, "approved", body.reason.as_deref());
                ("answer", body.approval_id, text)
            }
            Body::ApprovalResolved(body) => {
                let word = answer_word(body.resolution.status);
                let text = self.answered(body.approval_id, word, body.resolution.reason.as_deref());
                ("answer", body.approval_id, text)
            }
            _ => return None,
        };
        let asked = self.questions.get(&id);
        let step = asked.and_then(|asked| asked.step.clone());
        let number = asked.and_then(|asked| asked.number);
        Some(Entry { kind, text, step, number, ..Entry::at(at, event) })
    }

    /// An answer in words; of several people that must approve, the how manyth it is.
    fn answered(&mut self, id: ApprovalId, word: &str, reason: Option<&str>) -> String {
        let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
        let Some(asked) = self.questions.get_mut(&id) else { return format!("{word}{reason}") };
        let name = &asked.name;
        if word != "approved" || asked.required < 2 {
            return format!("{name} {word}{reason}");
        }
        asked.given += 1;
        format!("{name} {word} ({} of {}){reason}", asked.given, asked.required)
    }
}

impl Entry {
    fn at(at: String, event: &Event) -> Self {
        let by = person(&event.by);
        Self {
            at,
            kind: "run",
            text: String::new(),
            by,
            step: None,
            number: None,
            outcome: None,
            directory: None,
        }
    }
}

/// A step in words: its outcome and route, and the evidence. `next` is the step after it.
fn step_words(step: &StepView, next: Option<&StepView>) -> String {
    let visit = if step.visit > 1 { format!(" visit {}", step.visit) } else { String::new() };
    let again = if step.attempt > 1 { format!(" attempt {}", step.attempt) } else { String::new() };
    let id = format!("{}{visit}{again}", step.id);
    let Some(word) = step.word else { return format!("{id} {}", step.going_on()) };
    let evidence = step.evidence.as_ref().map(|evidence| format!(": {evidence}")).unwrap_or_default();
    if step.opcode == Opcode::Stop {
        return format!("{id} ends the run{evidence}");
    }
    let route = match &step.route {
        Some(route) => format!(" -> {route}"),
        None if [PARKED, INTERRUPTED].contains(&word) => String::new(),
        None if next.is_some_and(|next| next.id == step.id && next.attempt > step.attempt) => {
            " (tried again)".to_owned()
        }
        None => " (no route)".to_owned(),
    };
    format!("{id} {word}{route}{evidence}")
}

/// An event in words. `None` for one that says nothing to people, or whose step says it.
fn told(event: &Event) -> Option<(&'static str, String)> {
    Some(match &event.body {
        Body::RunCreated(body) => {
            let flow = body.patch.flow.as_ref();
            let flow = flow.map(|flow| format!("{} (version {})", flow.workflow_id, flow.version));
            ("run", format!("began {} from {}", flow.unwrap_or_default(), body.patch.base_ref))
        }
        Body::RunPatched(body) => {
            let patch = &body.patch;
            let verdict = patch.verdict.flatten().map(|verdict| format!("ended: {}", verdict.word()));
            let status = patch.status.map(|status| match status {
                RunStatus::Running => "resumed".to_owned(),
                other => other.word().to_owned(),
            });
            let word = patch.verdict.flatten().map(|verdict| verdict.word());
            let how = patch.termination.clone().flatten();
            let how = how.filter(|how| how != "completed" && Some(how.as_str()) != word);
            let is_paused = patch.status == Some(RunStatus::Paused);
            let waits = patch.waiting_for.clone().flatten();
            let waits = waits.map(|why| if is_paused { why } else { format!("waits for {why}") });
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
        Body::WorkspaceMended(body) => ("workspace", changed("mended", body)),
        Body::WorkspaceAdopted(body) => ("workspace", changed("commits of people adopted", body)),
        Body::WorkspaceRolledBack(body) => ("workspace", changed("rolled back", body)),
        Body::PublishPushed(body) | Body::PublishProposed(body) => {
            let all = body.patch.published.iter().flatten();
            let newest = all.max_by_key(|one| one.count).map(published);
            ("workspace", newest.map_or_else(|| "published".to_owned(), |one| format!("published as {one}")))
        }
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
