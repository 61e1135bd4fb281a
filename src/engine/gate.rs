//! GATE: a question to people. While it is open no process, lease or slot is held (CONTRACT 20.6).

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use bstr::{BString, ByteSlice};

use crate::contract::deferred::{delivered, is_for};
use crate::contract::ids::{BranchName, CommitId};
use crate::contract::layout::is_of_a_workspace;
use crate::contract::message::Message;
use crate::flow::document::{Flow, GATE_TOOL, Gate, Step};
use crate::flow::substitution::fill;
use crate::git::objects::commits::Stored;
use crate::ledger::{Ledger, Masks, Place};
use crate::model::approval::{Approval, Tool};
use crate::model::by::By;
use crate::model::decide::texts::cut;
use crate::model::decide::{Command, StepStart};
use crate::model::ids::StepId;
use crate::model::state::State;
use crate::model::time::Timestamp;
use crate::words::{error_chain, shell_quote};
use crate::workspace::context::Context;
use crate::workspace::refusal::{Refusal, Why};

use super::attempt::{Attempt, Ended, unrecorded};
use super::conclude::{Conclusion, Holder};
use super::control::Reply;
use super::driver::{Driver, MOST_READ, RUN_KEY, gate_at};
use super::question::{
    APPROVERS, CHANGES, EVIDENCE, Given, HEAD, KEY, NUMBER, Now, Pushed, REQUIRED, Weighed, closes, newest,
    outdated, request, weigh,
};
use super::record::{self, Recorder, Role};
use super::signed::{Found, fingerprint};
use super::{Engine, FLOW, now};

/// The trailer of an answer that names the gate.
const ANSWERED: &str = "aynig-gate";

/// How many changed paths a question names, and how long each may be, in bytes.
const MOST_PATHS: usize = 50;
const LONGEST_PATH: usize = 400;

/// The step before a gate, and how it ended.
fn evidence(state: &State) -> Value {
    let last = state.steps.values().next_back();
    last.map_or(
        Value::Null,
        |last| json!({ "step": last.id.as_str(), "outcome": last.outcome, "evidence": last.evidence }),
    )
}

/// The fewest digits that name the commit of a question.
const SHORTEST: usize = 7;

/// An approver who needs no label: an address or a key. `None`: it is a label.
fn approver(text: &str) -> Result<Option<String>, String> {
    match text.strip_prefix(KEY) {
        Some(key) => fingerprint(key).map(|key| Some(format!("{KEY}{key}"))).ok_or_else(|| {
            format!("{text} is no whole fingerprint: write key:SHA256:… (`ssh-keygen -lf FILE`), or key: and the 40 digits of gpg")
        }),
        None => Ok(text.contains('@').then(|| text.to_lowercase())),
    }
}

impl Engine<'_> {
    /// The addresses and keys of those who may answer a gate; none: everybody. The error says who is unknown here.
    pub(super) fn approvers(&self, gate: &Gate) -> Result<Vec<String>, String> {
        let mut addresses = BTreeSet::new();
        for named in &gate.approvers {
            if let Some(one) = approver(named)? {
                addresses.insert(one);
                continue;
            }
            let setting = format!("aynig.approver.{named}");
            let unknown = || {
                format!(
                    "nobody is known here as {named}: `git config {setting} ADDRESS` says who that is (or key:FINGERPRINT)"
                )
            };
            let value =
                self.repo.config(&setting).filter(|value| !value.trim().is_empty()).ok_or_else(unknown)?;
            for word in value.split_whitespace() {
                addresses.insert(approver(word)?.ok_or_else(unknown)?);
            }
        }
        let count = u64::try_from(addresses.len()).unwrap_or(u64::MAX);
        if count > 0 && count < gate.required {
            return Err(format!("{} people must approve, and only {count} may", gate.required));
        }
        Ok(addresses.into_iter().collect())
    }

    /// The commands that open a gate.
    pub(super) fn gate_opens(
        &self,
        ledger: &Ledger<'_>,
        (step, gate, approvers): (&Step, &Gate, &[String]),
        number: u64,
    ) -> Result<Conclusion, Refusal> {
        let state = &ledger.tip().state;
        let node = state.nodes.keys().next().copied();
        let node = node.ok_or_else(|| Refusal::new(Why::Failed, "the run has no node for the request"))?;
        let id = StepId::parse(&step.id).map_err(|error| Refusal::new(Why::Failed, error.to_string()))?;
        let head = self.work_head(ledger)?;
        let run = state.run.id.to_string();
        let inputs = self.inputs(ledger)?;
        let question = gate.question.as_ref().map(|question| fill(question, &inputs, &run));
        let args = Map::from_iter([
            ("gate".to_owned(), json!(gate.gate)),
            // A later visit asks anew, whatever else is the same.
            (NUMBER.to_owned(), json!(number)),
            ("step".to_owned(), json!(step.id)),
            ("question".to_owned(), json!(question)),
            (APPROVERS.to_owned(), json!(approvers)),
            (REQUIRED.to_owned(), json!(gate.required)),
            (CHANGES.to_owned(), self.changes(state, head.as_deref())),
            (EVIDENCE.to_owned(), evidence(state)),
            (HEAD.to_owned(), head.map_or(Value::Null, Value::from)),
        ]);
        let at = now()?;
        let expires_at = step.timeout_seconds.and_then(|seconds| {
            let millis = i64::try_from(seconds).ok()?.checked_mul(1000)?;
            Timestamp::from_millis(at.millis().checked_add(millis)?)
        });
        let tool = Tool::new("", GATE_TOOL, args);
        let context = question;
        let start = StepStart { id, opcode: step.opcode(), started_at: Some(at) };
        let commands = vec![
            Command::StartStep(start),
            Command::Ask { node, tool, context, expires_at, heard: Vec::new(), turn: None },
        ];
        Ok(Conclusion { commands, ..Conclusion::default() })
    }

    /// Ends a gate that was answered, or whose time is over. An open one is waited for again.
    pub(super) fn answer(
        &self,
        ledger: &mut Ledger<'_>,
        driver: &Driver<'_>,
        (flow, step, number): (&Flow, &Step, u64),
        attempt: &Attempt,
    ) -> Result<Ended, Refusal> {
        let before = ledger.tip().state.clone();
        let commands = closes(&before, step, number, now()?);
        let mut conclusion = Conclusion { commands, answers: Some(number), ..Conclusion::default() };
        let pushed = self.pushed(attempt)?;
        if let Some(pushed) = pushed.filter(|_| conclusion.commands.is_empty()) {
            conclusion = self.taken(ledger, number, &pushed)?;
        }
        let next = self.conclude(ledger, driver, flow, Holder::Attempt(&attempt.id), &conclusion)?;
        if let Err(refusal) = self.record_answer(&before, &ledger.tip().state, number) {
            tracing::warn!(refusal.message, "the files of a gate are incomplete");
        }
        Ok(Ended::Declared(next))
    }

    /// The question anew, if it was approved for work that moved since.
    pub(super) fn outdated(&self, ledger: &Ledger<'_>, number: u64) -> Result<Option<Conclusion>, Refusal> {
        let state = &ledger.tip().state;
        let Some(approval) = request(state, number) else { return Ok(None) };
        // The branch may lack work that the ledger has: then the next step does not begin at all.
        let known = state.workspaces.values().find(|one| one.name.to_string() == FLOW);
        let heads = [self.work_head(ledger)?, known.map(|known| known.head_sha.clone())];
        let Some((mut again, why)) = outdated(&state.run.slug, approval, heads) else { return Ok(None) };
        self.note_changes(state, &mut again);
        (self.tell)(&why);
        Ok(Some(Conclusion { commands: vec![again], note: Some(why), ..Conclusion::default() }))
    }

    /// Adds to a question what its commit has changed.
    fn note_changes(&self, state: &State, question: &mut Command) {
        let Command::Ask { tool: Tool { args, .. }, .. } = question else { return };
        let changes = self.changes(state, args.get(HEAD).and_then(Value::as_str));
        args.insert(CHANGES.to_owned(), changes);
    }

    /// Writes down what a gate asks, for the record on this host.
    pub(super) fn record_question(
        &self,
        state: &State,
        step: &Step,
        conclusion: &Conclusion,
    ) -> Result<(), Refusal> {
        let asked = conclusion.commands.iter().find_map(|command| match command {
            Command::Ask { tool, .. } => Some(Value::Object(tool.args.clone())),
            _ => None,
        });
        let id = StepId::parse(&step.id).map_err(|error| Refusal::new(Why::Failed, error.to_string()))?;
        let masks = Masks::of(self.repo, &state.run.base_sha)?;
        let text = serde_json::to_vec_pretty(&asked).unwrap_or_default();
        let recorder = Recorder::begin(&self.directory(state.run.id), masks, state, &id, step.opcode());
        let written = recorder.and_then(|mut recorder| {
            recorder.write(Role::GateRequest, "gate_request.json", "application/json", true, &text)?;
            Ok(recorder)
        });
        let started = conclusion.commands.iter().find_map(|command| match command {
            Command::StartStep(start) => start.started_at,
            _ => None,
        });
        let started_at = started.map_or_else(now, Ok)?;
        let sealed = written.and_then(|recorder| {
            let ended = record::Ended {
                started_at,
                ended: None,
                evidence: None,
                exit: None,
                policy_digest: None,
                provider: None,
            };
            recorder.end(ended)
        });
        sealed.map(drop).map_err(|error| unrecorded(&error))
    }

    /// Writes down how a gate was answered, for the record on this host. Nothing if it is open.
    fn record_answer(&self, before: &State, after: &State, number: u64) -> Result<(), Refusal> {
        let (Some(open), Some(done)) = (before.steps.get(&number), after.steps.get(&number)) else {
            return Ok(());
        };
        let (Some(at), Some(outcome), Some(approval)) = (done.ended_at, done.outcome, request(after, number))
        else {
            return Ok(());
        };
        let masks = Masks::of(self.repo, &after.run.base_sha)?;
        let answer = json!({ "resolution": approval.resolution, "by": approval.resolved_by });
        let text = serde_json::to_vec_pretty(&answer).unwrap_or_default();
        let recorder = Recorder::resume(&self.directory(after.run.id), masks, before, open);
        let sealed = recorder.and_then(|mut recorder| {
            recorder.write(Role::GateOutcome, "gate_outcome.json", "application/json", true, &text)?;
            recorder.end(record::Ended {
                started_at: open.started_at,
                ended: Some((at, outcome)),
                evidence: done.evidence.clone(),
                exit: None,
                policy_digest: None,
                provider: None,
            })
        });
        sealed.map(drop).map_err(|error| unrecorded(&error))
    }

    /// The answer that was pushed to a driver since its last state.
    fn pushed(&self, attempt: &Attempt) -> Result<Option<Pushed>, Refusal> {
        let because = |error: &dyn std::error::Error| Refusal::because("read the answer to a gate", error);
        for stored in self.repo.history(attempt.trigger).take(MOST_READ) {
            let stored = stored.map_err(|error| because(&error))?;
            let message = Message::parse(&stored.message);
            if message.trailers.last(ANSWERED).is_some() {
                return self.answer_in(&stored, &attempt.branch).map(Some);
            }
            if message.trailers.last(RUN_KEY).is_some() {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// The answer in a driver's commit. A runner delivers answers in commits of its own, and what was signed is what was
    /// pushed.
    fn answer_in(&self, stored: &Stored, branch: &BranchName) -> Result<Pushed, Refusal> {
        let because = |error: &dyn std::error::Error| Refusal::because("read the answer to a gate", error);
        let trailers = Message::parse(&stored.message).trailers;
        let slot = delivered(&trailers);
        let pushed = slot.and_then(|slot| self.repo.commit(slot).ok());
        // The parent of an answer that another host delivered is that host's.
        let is_known = slot.is_none() || pushed.is_some();
        let (own, Found { signature, keys }) = match (slot, &pushed) {
            // An answer to another run is none to this one.
            (Some(_), Some(pushed)) if !is_for(&Message::parse(&pushed.message).trailers, branch) => {
                (stored, Found::default())
            }
            (Some(_), Some(pushed)) => (pushed, self.signature_of(pushed.id)),
            // Another host delivered it, and it is nowhere else.
            (Some(_), None) => (stored, Found::unknown()),
            (None, _) => (stored, self.signature_of(stored.id)),
        };
        let message = Message::parse(&own.message);
        let text = |key| message.trailers.last(key).map(|value| value.to_str_lossy().into_owned());
        let author = self.repo.authored(own.id).map_err(|error| because(&error))?;
        let committer = self.repo.committer(own.id).map_err(|error| because(&error))?;
        Ok(Pushed {
            by: By::Person {
                name: author.name.to_string(),
                email: author.email.to_string(),
                runner: self.repo.runner_id().to_owned(),
                signature,
            },
            comment: Some(message.body.to_str_lossy().into_owned()).filter(|body| !body.is_empty()),
            keys,
            is_of_a_step: [&author.email, &committer].into_iter().any(|address| is_of_a_workspace(address)),
            gate: text(ANSWERED).unwrap_or_default(),
            answer: text("aynig-answer"),
            tree: text("aynig-tree"),
            opened: is_known.then(|| own.parents.first().and_then(|parent| gate_at(self.repo, *parent))),
        })
    }

    /// The effect of a pushed answer. One that does not count is named in the driver's state.
    fn taken(&self, ledger: &Ledger<'_>, number: u64, pushed: &Pushed) -> Result<Conclusion, Refusal> {
        let state = &ledger.tip().state;
        let Some(approval) = request(state, number) else { return Ok(Conclusion::default()) };
        let head = approval.tool.args.get(HEAD).and_then(Value::as_str).map(str::to_owned);
        let seen = [head, self.tree_asked(approval)];
        let weighed = pushed.given(approval, &seen, state).and_then(|given| self.weighed(ledger, &given));
        let (commands, refusal) = match weighed {
            Ok(Weighed::Counts(answer)) => {
                let by = Some(pushed.by.clone());
                return Ok(Conclusion { commands: vec![answer], by, ..Conclusion::default() });
            }
            Ok(Weighed::Moved(again, refusal)) => (again, refusal),
            Err(refusal) if refusal.why.is_of_remote() || refusal.why == Why::Setup => {
                return Err(refusal);
            }
            Err(refusal) => (Vec::new(), refusal),
        };
        (self.tell)(&refusal.message);
        let note = Some(format!("an answer does not count: {}", refusal.message));
        Ok(Conclusion { commands, note, ..Conclusion::default() })
    }

    /// The effect of an answer now.
    pub(super) fn weighed(&self, ledger: &Ledger<'_>, given: &Given) -> Result<Weighed, Refusal> {
        let state = &ledger.tip().state;
        let approval = newest(state.approvals.values()).ok_or_else(|| {
            let message = format!("run {} has no open gate; nothing was changed", state.run.slug);
            Refusal::new(Why::Failed, message)
        })?;
        let head = if approval.resolution.is_none() { self.work_head(ledger)? } else { None };
        let now = Now { head, tree: self.tree_asked(approval), at: now()? };
        let mut weighed = weigh(&state.run.slug, approval, given, now)?;
        if let Weighed::Moved(commands, _) = &mut weighed {
            commands.iter_mut().for_each(|command| self.note_changes(state, command));
        }
        Ok(weighed)
    }

    /// Refuses an approval that leaves out changes in the worktree of this host, unless it names its commit. A rejection
    /// reports them. Commits of people here are put into the ledger that a remote decides, so that `weigh` asks anew.
    pub(super) fn is_about_all(
        &self,
        ledger: &mut Ledger<'_>,
        approval: &Approval,
        reply: &Reply<'_>,
    ) -> Result<(), Refusal> {
        let (run, slug) = (ledger.tip().state.run.id, ledger.tip().state.run.slug.to_string());
        let Ok(context) = self.workspaces.find(format!("{slug}/{FLOW}").as_ref()) else { return Ok(()) };
        if approval.resolution.is_some() {
            return Ok(());
        }
        let is_cut_off = self.marked(run, FLOW).is_some();
        if is_cut_off {
            // A later change is a person's, and none of that attempt.
            self.workspaces.forget_unchanged(&context);
        }
        let state = &ledger.tip().state;
        let asked = approval.tool.args.get(HEAD).and_then(Value::as_str);
        let asked = asked.and_then(|asked| CommitId::parse_hex(asked.as_bytes()));
        let known = state.workspaces.values().find(|one| one.name.to_string() == FLOW);
        let worktrees = known.map_or(0, |known| known.generation);
        // Commits in the ledger are part of the work. `weigh` finds that the gate does not ask about them.
        let recorded = known.and_then(|known| CommitId::parse_hex(known.head_sha.as_bytes()));
        let of_work = if is_cut_off { recorded.or(asked) } else { asked };
        let unasked = self.workspaces.unasked(&context, of_work, worktrees);
        if unasked.commits && !is_cut_off {
            // `weigh` finds the question about another commit, which the ledger has now.
            if *ledger.place() != Place::Here {
                if reply.approves && reply.about.is_none() {
                    self.check_not_rewritten(&context, recorded)?;
                }
                self.workspaces.snapshot(&context)?;
                ledger.refresh()?;
            }
            return Ok(());
        }
        let Some(words) = unasked.words(&slug, is_cut_off) else { return Ok(()) };
        if !reply.approves || reply.about.is_some() {
            unasked.left_out(is_cut_off).iter().for_each(|words| (self.tell)(words));
            return Ok(());
        }
        let (what, snapshot) = words.split_once("; ").unwrap_or((&words, ""));
        let commit = asked.map_or_else(|| "COMMIT".to_owned(), |asked| asked.short().to_string());
        let then = if is_cut_off {
            "the next step here then saves the changes under a rescue ref"
        } else {
            "the next step here then takes the changes as its own beginning, and `aynig flow log` names them"
        };
        let approves =
            format!("`aynig flow approve {slug} --for {commit}` approves what the gate asks about; {then}");
        Err(Refusal::new(Why::Conflict, format!("{what}; nothing was answered"))
            .hint(snapshot)
            .hint(approves))
    }

    /// Refuses an approval while the work branch here has other commits in the place of published ones: a snapshot would save
    /// them beside the work, and the approval would leave them out.
    fn check_not_rewritten(&self, context: &Context, published: Option<CommitId>) -> Result<(), Refusal> {
        let branch = context.branch();
        let own = self.repo.branch_head(&branch);
        let own = own.map_err(|error| Refusal::because(&format!("read {branch}"), &error))?;
        let Some((own, published)) = own.zip(published) else { return Ok(()) };
        if self.repo.descends(own, published) {
            return Ok(());
        }
        let (own, published) = (own.short(), published.short());
        let what = format!(
            "{branch} here has {own} in the place of {published}, which is published (an amended commit?); nothing was answered"
        );
        let place = shell_quote(context.worktree_path.to_string_lossy().as_bytes());
        Err(Refusal::new(Why::Conflict, what)
            .hint(format!(
                "`git -C {place} reset --soft {published} && git -C {place} commit` puts its files on top; then the gate asks about them"
            ))
            .hint(format!("`git log --oneline --graph {own} {published}` shows both"))
            .hint("`--for COMMIT` approves the commit that you looked at; commits that are here alone go under a rescue ref"))
    }

    /// The changes of a commit since the base: how many files, and the first of them. `null` if it is not here.
    fn changes(&self, state: &State, head: Option<&str>) -> Value {
        let tree = |id: &str| Some(self.repo.commit(CommitId::parse_hex(id.as_bytes())?).ok()?.tree);
        let trees = tree(&state.run.base_sha).zip(head.and_then(tree));
        let all = trees.and_then(|(base, head)| self.repo.differences(base, head).ok());
        all.map_or(Value::Null, |all| {
            let shown = |path: &BString| {
                let mut path = path.to_string();
                cut(&mut path, LONGEST_PATH);
                path
            };
            let paths: Vec<String> = all.iter().take(MOST_PATHS).map(|one| shown(&one.path)).collect();
            json!({ "files": all.len(), "paths": paths })
        })
    }

    /// The tree of the commit that a question is about.
    fn tree_asked(&self, approval: &Approval) -> Option<String> {
        let head = approval.tool.args.get(HEAD).and_then(Value::as_str)?;
        let head = CommitId::parse_hex(head.as_bytes())?;
        Some(self.repo.commit(head).ok()?.tree.to_string())
    }

    /// The commit or tree that a person names, if the question is about that; else the commit.
    pub(super) fn meant(&self, approval: &Approval, named: &str) -> Result<String, Refusal> {
        let head = approval.tool.args.get(HEAD).and_then(Value::as_str).map(str::to_owned);
        let is_meant = |id: &String| named.len() >= SHORTEST && id.starts_with(&named.to_ascii_lowercase());
        if let Some(id) = [head, self.tree_asked(approval)].into_iter().flatten().find(is_meant) {
            return Ok(id);
        }
        let found = self.repo.named_as_git_does(named);
        found.map(|(_, commit)| commit.to_string()).map_err(|error| {
            Refusal::new(Why::Usage, format!("{}; nothing was answered", error_chain(&error)))
        })
    }

    /// The commit of the work branch: by the ledger, with which that of a remote moves, or the branch's own.
    fn work_head(&self, ledger: &Ledger<'_>) -> Result<Option<String>, Refusal> {
        let workspaces = ledger.tip().state.workspaces.values();
        let Some(workspace) = workspaces.into_iter().find(|one| one.name.to_string() == FLOW) else {
            return Ok(None);
        };
        let branch = BranchName::new(workspace.branch_name.as_bytes());
        let branch = branch.map_err(|error| Refusal::because("read the work branch", &error))?;
        let here = match ledger.place() {
            Place::Here => self.repo.branch_head(&branch),
            Place::Remote(_) => Ok(None),
        };
        let here = here.map_err(|error| Refusal::because("read the work branch", &error))?;
        Ok(Some(here.map_or_else(|| workspace.head_sha.clone(), |head| head.to_string())))
    }
}
