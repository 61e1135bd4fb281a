//! The gate of a run that is open: what it asks, who may answer, and who has.

use bstr::ByteSlice;
use serde::Serialize;
use serde_json::Value;

use crate::contract::ids::BranchName;
use crate::contract::message::Message;
use crate::git::Repo;
use crate::model::approval::{Answer, Approval, Consent};
use crate::model::by::By;
use crate::model::state::State;
use crate::ops::error::{Error, Kind};
use crate::runner::authority::Authority;
use crate::words::shell_quote;

/// An open gate.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GateView {
    /// Its label.
    pub name: String,
    /// What it asks.
    pub question: Option<String>,
    /// The addresses of those who may answer; empty: everybody.
    pub approvers: Vec<String>,
    /// How many different people must approve.
    pub required: u64,
    /// Who has approved.
    pub given: Vec<GivenView>,
    /// Until when it can be answered.
    pub expires_at: Option<String>,
}

/// An approval that counts.
#[derive(Debug, Serialize)]
pub struct GivenView {
    /// Who gave it.
    pub by: String,
    /// When.
    pub at: String,
    /// Why.
    pub reason: Option<String>,
}

/// The question of a gate that is open.
pub(in crate::ops) fn open(state: &State) -> Option<&Approval> {
    state.approvals.values().find(|approval| approval.resolution.is_none())
}

/// The answer to the gate that the run is at, which no runner has noted yet: `approved by Ann <ann@example.com>`.
pub(super) fn answered(state: &State) -> Option<String> {
    let step = state.steps.values().next_back().filter(|step| step.ended_at.is_none())?;
    let number = |approval: &Approval| approval.tool.args.get("number").and_then(Value::as_u64);
    let asked = state.approvals.values().filter(|approval| number(approval) == Some(step.number));
    let newest = asked.max_by_key(|approval| (approval.resolution.is_none(), approval.requested_at))?;
    let word = answer_word(newest.resolution.as_ref()?.status);
    Some(format!("{word} by {}", newest.resolved_by.as_ref().map(person)?))
}

/// Refuses to answer while an answer that somebody pushed (CONTRACT 20.26) waits for a runner: one rejection decides, and the
/// pushed one came first.
pub(super) fn none_waits(repo: &Repo, authority: &Authority, driver: &BranchName) -> Result<(), Error> {
    let Some(commit) = authority.slot(repo, driver)? else { return Ok(()) };
    let because = |error: &dyn std::error::Error| Error::because("read a pushed answer", error);
    let stored = repo.commit(commit).map_err(|error| because(&error))?;
    let author = repo.authored(commit).map_err(|error| because(&error))?.name;
    let trailers = Message::parse(&stored.message).trailers;
    let word = trailers.last("aynig-answer").map_or_else(|| "no word".into(), |word| word.to_str_lossy());
    let message =
        format!("an answer of {author} ({word}) to {driver} was pushed, and waits; nothing was changed");
    let option = authority.source().map(|remote| format!(" --remote {remote}")).unwrap_or_default();
    Err(Error::new(Kind::Conflict, message)
        .hint("`aynig run` takes it in")
        .hint(format!("or `aynig set-state --withdraw {}{option}` removes it", shell_quote(driver))))
}

/// An answer in words.
pub(super) fn answer_word(answer: Answer) -> &'static str {
    match answer {
        Answer::Approved => "approved",
        Answer::Denied => "rejected",
        Answer::Modified => "changed",
        Answer::Expired => "nobody answered in time",
        Answer::Withdrawn => "withdrawn",
    }
}

impl GateView {
    /// The open gate of a run.
    pub(super) fn of(state: &State) -> Option<Self> {
        open(state).map(Self::read)
    }

    fn read(approval: &Approval) -> Self {
        let arg = |name: &str| approval.tool.args.get(name);
        let approvers = arg("approvers").and_then(Value::as_array).into_iter().flatten();
        Self {
            name: arg("gate").and_then(Value::as_str).unwrap_or(&approval.tool.name).to_owned(),
            question: approval.context.clone(),
            approvers: approvers.filter_map(Value::as_str).map(str::to_owned).collect(),
            required: arg("required").and_then(Value::as_u64).unwrap_or(1),
            given: approval.consents.iter().map(GivenView::of).collect(),
            expires_at: approval.expires_at.map(|at| at.to_string()),
        }
    }

    /// What is waited for, in words.
    pub(super) fn words(&self) -> String {
        let Self { name, approvers, required, given, expires_at, .. } = self;
        let who = match approvers.as_slice() {
            [] => String::new(),
            all => format!(" of {}", all.join(" or ")),
        };
        let many =
            if *required > 1 { format!(", {} of {required} given", given.len()) } else { String::new() };
        let until = expires_at.as_ref().map(|at| format!(", until {at}")).unwrap_or_default();
        format!("an answer{who} to {name}{many}{until}")
    }
}

impl GivenView {
    fn of(consent: &Consent) -> Self {
        Self { by: person(&consent.by), at: consent.at.to_string(), reason: consent.reason.clone() }
    }
}

/// Whoever did something. Addresses tell people apart.
pub(super) fn person(by: &By) -> String {
    match by {
        By::Person { name, email, .. } => format!("{name} <{email}>"),
        By::Node { runner, .. } | By::Runner { runner } | By::Policy { runner, .. } => runner.clone(),
    }
}
