//! The question of a gate in a ledger, and what its answer comes to.

use serde_json::Value;

use crate::contract::ids::CommitId;
use crate::flow::document::{GATE_TOOL, Step};
use crate::flow::due::route;
use crate::model::approval::{Answer, Approval, Resolution, Tool};
use crate::model::by::{By, Signature, Signed};
use crate::model::decide::{Command, EndedStep};
use crate::model::ids::Slug;
use crate::model::state::State;
use crate::model::step::Outcome;
use crate::model::time::Timestamp;
use crate::workspace::refusal::{Refusal, Why};

/// The argument of a question that lists who may answer; empty: everybody.
pub(super) const APPROVERS: &str = "approvers";
/// The argument of a question that is the number of different people who must approve.
pub(super) const REQUIRED: &str = "required";
/// The argument of a question that lists what the work has changed.
pub(super) const CHANGES: &str = "changes";
/// The argument of a question that is the step before the gate.
pub(super) const EVIDENCE: &str = "evidence";
/// The argument of a question that is the commit that it is about.
pub(super) const HEAD: &str = "head";
/// The argument of a question that is the number of its step in the run.
pub(super) const NUMBER: &str = "number";
/// The argument of a question that is how many times this visit has asked before.
const ASKED: &str = "asked";

/// The beginning of an approver that is a key.
pub(super) const KEY: &str = "key:";

/// An answer that somebody gave.
#[derive(Debug, Clone)]
pub(super) struct Given {
    /// Its author.
    pub(super) by: By,
    /// Whether it is yes.
    pub(super) approves: bool,
    /// The reason.
    pub(super) comment: Option<String>,
    /// The fingerprints of the key that signed it.
    pub(super) keys: Vec<String>,
    /// The commit or tree that they looked at, if they named it.
    pub(super) about: Option<String>,
}

/// An answer that somebody pushed, as its trailers say.
#[derive(Debug)]
pub(super) struct Pushed {
    /// The author.
    pub(super) by: By,
    /// The body.
    pub(super) comment: Option<String>,
    /// The fingerprints of the key that signed it.
    pub(super) keys: Vec<String>,
    /// Whether its author or committer has the address of a workspace.
    pub(super) is_of_a_step: bool,
    /// `aynig-gate`
    pub(super) gate: String,
    /// `aynig-answer`
    pub(super) answer: Option<String>,
    /// `aynig-tree`
    pub(super) tree: Option<String>,
    /// The place in the run of the gate that was open where its author looked. `None` outside: that is not known here.
    pub(super) opened: Option<Option<u64>>,
}

impl Pushed {
    /// The answer, if it is one to this question about the commit or the tree `seen`.
    pub(super) fn given(
        &self,
        asked: &Approval,
        seen: &[Option<String>; 2],
        state: &State,
    ) -> Result<Given, Refusal> {
        let name = name_of(&self.by);
        let refused = |why: String| Err(Refusal::new(Why::Usage, format!("{name}: {why}")));
        if self.is_of_a_step {
            let why = "a program of a step has no answer to a gate (its commit has the address of a workspace); a person \
                       answers with `aynig flow approve` or `reject`";
            return refused(why.to_owned());
        }
        let gate = asked.tool.args.get("gate").and_then(Value::as_str).unwrap_or_default();
        if self.gate != gate {
            return refused(format!("aynig-gate is {}, and {gate} is open", self.gate));
        }
        self.is_of_this_visit(asked, state)
            .map_err(|(why, words)| Refusal::new(why, format!("{name}: {words}")))?;
        let approves = match self.answer.as_deref() {
            Some("approved") => true,
            Some("rejected") => false,
            _ => return refused("aynig-answer is neither `approved` nor `rejected`".to_owned()),
        };
        if self.tree.is_none() || !seen.contains(&self.tree) {
            let now = seen[0].as_deref().unwrap_or_default();
            return refused(format!("aynig-tree is not {now}, about which the gate asks"));
        }
        Ok(Given {
            by: self.by.clone(),
            approves,
            comment: self.comment.clone(),
            keys: self.keys.clone(),
            about: None,
        })
    }
}

impl Pushed {
    /// Refuses an answer to an earlier visit of the gate, whatever else is the same.
    fn is_of_this_visit(&self, asked: &Approval, state: &State) -> Result<(), (Why, String)> {
        let arg = |one: &Approval, name: &str| one.tool.args.get(name).cloned();
        let number = arg(asked, NUMBER);
        let opened = self.opened.map(|opened| opened.map(Value::from));
        if opened.as_ref().is_some_and(|opened| *opened == number) {
            return Ok(());
        }
        let gate = &self.gate;
        if opened.is_some() {
            let words = format!(
                "it is no answer to this visit of {gate}: its parent is from before {gate} was opened; it has to be the \
                 newest commit of the driver"
            );
            return Err((Why::Usage, words));
        }
        // Without the pushed commit an answer can be taken for one to this visit only if there was no other.
        let other = |one: &Approval| arg(one, "gate") == arg(asked, "gate") && arg(one, NUMBER) != number;
        if !state.approvals.values().any(other) {
            return Ok(());
        }
        let words = format!(
            "the commit that was pushed is not here, so the visit of {gate} that it is about is not known"
        );
        Err((Why::Setup, words))
    }
}

/// The effect of an answer.
#[derive(Debug)]
pub(super) enum Weighed {
    /// It is recorded.
    Counts(Command),
    /// It is about work that moved: the question is asked anew.
    Moved(Vec<Command>, Refusal),
}

/// The question of a gate that is the run's `number`-th step, as it was asked last.
pub(super) fn request(state: &State, number: u64) -> Option<&Approval> {
    let is_its = |one: &&Approval| one.tool.args.get(NUMBER).and_then(Value::as_u64) == Some(number);
    newest(state.approvals.values().filter(is_its))
}

/// The question of a gate that is open, else the last one.
pub(super) fn newest<'a>(asked: impl Iterator<Item = &'a Approval>) -> Option<&'a Approval> {
    let gates = asked.filter(|one| one.tool.name == GATE_TOOL);
    gates.max_by_key(|one| (one.resolution.is_none(), one.requested_at))
}

/// The commit that the question was about that people answered last.
pub(super) fn settled(state: &State) -> Option<CommitId> {
    let is_answered = |one: &&Approval| {
        let status = one.resolution.as_ref().map(|resolution| resolution.status);
        matches!(status, Some(Answer::Approved | Answer::Modified | Answer::Denied))
    };
    let last = newest(state.approvals.values().filter(is_answered))?;
    CommitId::parse_hex(last.tool.args.get(HEAD)?.as_str()?.as_bytes())
}

/// The facts about an answer.
#[derive(Debug)]
pub(super) struct Now {
    /// The commit of the work branch.
    pub(super) head: Option<String>,
    /// The tree of the commit that the question is about.
    pub(super) tree: Option<String>,
    /// The time.
    pub(super) at: Timestamp,
}

/// The effect of an answer now.
pub(super) fn weigh(slug: &Slug, approval: &Approval, given: &Given, now: Now) -> Result<Weighed, Refusal> {
    let status = if given.approves { Answer::Approved } else { Answer::Denied };
    let (approval_id, asked) = (approval.id, approval.tool.args.get(HEAD).and_then(Value::as_str));
    let is_open = approval.resolution.is_none();
    let moved = now.head.as_deref().zip(asked).is_some_and(|(head, asked)| is_open && head != asked);
    if !moved {
        is_about(slug, asked, given.about.as_deref(), now.tree.as_deref())?;
    }
    // The same answer again changes nothing, whatever its reason.
    let first = approval.resolution.as_ref().filter(|first| first.status == status);
    if let Some(first) = first.cloned() {
        return Ok(Weighed::Counts(Command::Answer { approval: approval_id, resolution: first }));
    }
    may_answer(approval, given)?;
    in_time(slug, approval, now.at)?;
    let counts = || {
        let reason = given.comment.clone();
        let required = required(approval);
        Weighed::Counts(if given.approves && approval.resolution.is_none() {
            Command::Approve { approval: approval_id, required, reason }
        } else {
            Command::Answer {
                approval: approval_id,
                resolution: Resolution { status, modified_args: None, reason },
            }
        })
    };
    let (Some(head), Some(asked), true) = (now.head, asked, moved) else { return Ok(counts()) };
    let message = format!(
        "the work of run {slug} is at {} now, and the question was about {}; nothing was answered, and the gate asks anew",
        short(&head),
        short(asked)
    );
    let refusal = Refusal::new(Why::Conflict, message)
        .hint(format!("`git diff {} {}` shows what changed", short(asked), short(&head)))
        .hint(format!("`aynig flow approve {slug}` or `aynig flow reject {slug}` answers what is there now"));
    let reason = Some(format!("the work moved to {head}"));
    let over = Resolution { status: Answer::Withdrawn, modified_args: None, reason };
    let again = asks_again(approval, head);
    Ok(Weighed::Moved(vec![Command::Answer { approval: approval_id, resolution: over }, again], refusal))
}

/// Asks the question of `approval` again, about the commit `head`.
fn asks_again(approval: &Approval, head: String) -> Command {
    let mut tool = Tool::new("", approval.tool.name.clone(), approval.tool.args.clone());
    tool.args.insert(HEAD.to_owned(), head.into());
    // Work that moved back is asked about anew: the same question is never made twice.
    let before = tool.args.get(ASKED).and_then(Value::as_u64).unwrap_or(0);
    tool.args.insert(ASKED.to_owned(), (before + 1).into());
    Command::Ask {
        node: approval.node_id,
        tool,
        context: approval.context.clone(),
        expires_at: approval.expires_at,
        heard: Vec::new(),
        turn: None,
    }
}

/// The question anew, with why, if the approved commit is no head of the work any more. A rollback after an approval
/// leaves the ledger's answer as it is, and what follows must not run on other work.
pub(super) fn outdated(
    slug: &Slug,
    approval: &Approval,
    heads: [Option<String>; 2],
) -> Option<(Command, String)> {
    let status = approval.resolution.as_ref()?.status;
    let asked = approval.tool.args.get(HEAD).and_then(Value::as_str)?;
    if !matches!(status, Answer::Approved | Answer::Modified)
        || heads.iter().flatten().any(|head| head == asked)
    {
        return None;
    }
    let head = heads.into_iter().flatten().next()?;
    let why = format!(
        "{} was approved, and the work of run {slug} is at {} by now; the gate asks anew",
        short(asked),
        short(&head)
    );
    Some((asks_again(approval, head), why))
}

/// Refuses an answer about another commit than the one that the question is about.
fn is_about(
    slug: &Slug,
    asked: Option<&str>,
    about: Option<&str>,
    tree: Option<&str>,
) -> Result<(), Refusal> {
    let (Some(asked), Some(about)) = (asked, about) else { return Ok(()) };
    if about == asked || Some(about) == tree {
        return Ok(());
    }
    let message = format!(
        "the gate of run {slug} asks about {}, and not about {}; nothing was answered",
        short(asked),
        short(about)
    );
    Err(Refusal::new(Why::Conflict, message).hint(format!(
        "`git diff {} {}` shows what is different",
        short(about),
        short(asked)
    )))
}

/// Refuses an answer after the time limit: that is an outcome of its own.
fn in_time(slug: &Slug, approval: &Approval, now: Timestamp) -> Result<(), Refusal> {
    let status = approval.resolution.as_ref().map(|first| first.status);
    let over =
        approval.expires_at.filter(|at| status == Some(Answer::Expired) || (status.is_none() && *at <= now));
    let Some(over) = over else { return Ok(()) };
    let message =
        format!("the gate of run {slug} had a time limit, which ended at {over}; nothing was answered");
    let next = match status {
        None => {
            format!("`aynig run` continues with gate_timed_out, unless `aynig flow pause {slug}` comes first")
        }
        Some(_) => format!("`aynig flow show {slug}` shows where it stands"),
    };
    Err(Refusal::new(Why::Conflict, message).hint(next))
}

/// A person, for words.
pub(super) fn name_of(by: &By) -> String {
    match by {
        By::Person { name, email, .. } => format!("{name} <{email}>"),
        By::Node { .. } | By::Runner { .. } | By::Policy { .. } => "nobody".to_owned(),
    }
}

/// The approvers; empty: everybody.
pub(super) fn approvers(approval: &Approval) -> Vec<&str> {
    let named = approval.tool.args.get(APPROVERS).and_then(Value::as_array);
    named.into_iter().flatten().filter_map(Value::as_str).collect()
}

/// How many different people must approve.
pub(super) fn required(approval: &Approval) -> u64 {
    approval.tool.args.get(REQUIRED).and_then(Value::as_u64).unwrap_or(1)
}

/// Whether an answer of this person has to be signed.
pub(super) fn needs_key(approval: &Approval, by: &By) -> bool {
    let approvers = approvers(approval);
    approvers.iter().any(|one| one.starts_with(KEY)) && !is_named(&approvers, by)
}

fn is_named(approvers: &[&str], by: &By) -> bool {
    matches!(by, By::Person { email, .. } if approvers.iter().any(|one| one.eq_ignore_ascii_case(email)))
}

/// Refuses an answer of somebody who is not asked.
fn may_answer(approval: &Approval, given: &Given) -> Result<(), Refusal> {
    let (approvers, by) = (approvers(approval), &given.by);
    let is_key = |key: &String| approvers.iter().any(|one| one.strip_prefix(KEY) == Some(key.as_str()));
    if approvers.is_empty()
        || is_named(&approvers, by)
        || (by.key().is_some() && given.keys.iter().any(is_key))
    {
        return Ok(());
    }
    let name = name_of(by);
    let signature = match by {
        By::Person { signature, .. } => signature.as_ref(),
        By::Node { .. } | By::Runner { .. } | By::Policy { .. } => None,
    };
    if let Some(Signature { state: Signed::Unknown, .. }) = signature
        && approvers.iter().any(|one| one.starts_with(KEY))
    {
        let message = format!("the signature of {name} cannot be checked here; nothing was changed");
        return Err(Refusal::new(Why::Setup, message).hint(
            "of keys of ssh, gpg.ssh.allowedSignersFile lists those that are trusted; of gpg, this host needs the public key",
        ));
    }
    let how = match signature {
        None => ", and did not sign it".to_owned(),
        Some(Signature { state, key }) => {
            let word = if *state == Signed::Good { "signed it" } else { "signed it badly" };
            key.as_ref().map_or_else(|| format!(", and {word}"), |key| format!(", and {word} by {KEY}{key}"))
        }
    };
    let how = if approvers.iter().any(|one| one.starts_with(KEY)) { how } else { String::new() };
    let message =
        format!("{name} is not asked{how}: {} may answer; nothing was changed", approvers.join(", "));
    Err(Refusal::new(Why::Failed, message))
}

fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}

/// The commands that close a gate; none if it stays open.
pub(super) fn closes(state: &State, step: &Step, number: u64, now: Timestamp) -> Vec<Command> {
    let Some(approval) = request(state, number) else { return Vec::new() };
    let is_over = approval.expires_at.is_some_and(|at| at <= now);
    let (answer, reason) = match &approval.resolution {
        Some(resolution) => (resolution.status, resolution.reason.clone()),
        None if is_over => (Answer::Expired, None),
        None => return Vec::new(),
    };
    let outcome = match answer {
        Answer::Approved | Answer::Modified => Outcome::GateApproved,
        Answer::Denied | Answer::Withdrawn => Outcome::GateRejected,
        Answer::Expired => Outcome::GateTimedOut,
    };
    let mut commands = Vec::new();
    if approval.resolution.is_none() {
        let resolution = Resolution { status: answer, modified_args: None, reason: None };
        commands.push(Command::Answer { approval: approval.id, resolution });
    }
    let route = route(step, outcome).ok().map(str::to_owned);
    commands.push(Command::EndStep(Box::new(EndedStep::new(number, outcome, route, reason))));
    commands
}
