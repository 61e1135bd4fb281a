//! One flow run, as it is shown: `aynig flow show --json` is this object.

use std::collections::HashMap;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use super::gate::{self, GateView};
use super::standing::{End, Place, Standing};
use super::{driver, driver_row, is_alone, stands, step_of, waiting_for};
use crate::clock;
use crate::contract::head::Head;
use crate::contract::ids::{BranchName, CommitId};
use crate::contract::layout::MARK;
use crate::contract::unable::Unable;
use crate::engine::record::manifest::Manifest;
use crate::engine::record::project::context;
use crate::engine::record::{attempts, project};
use crate::flow::due::{end_word, is_interrupted};
use crate::git::Repo;
use crate::git::objects::commits::Stored;
use crate::journal::artifacts::{is_here, place};
use crate::journal::directory::RunDirectory;
use crate::journal::sync;
use crate::ledger::{LedgerError, Place as LedgerPlace, Tip, bring};
use crate::model::ids::RunId;
use crate::model::state::State;
use crate::model::step::{Opcode, Outcome, Step};
use crate::model::workspace::Publication;
use crate::ops::app::Process;
use crate::ops::changes::newest as newest_of;
use crate::ops::error::Error;
use crate::ops::view::Time;
use crate::ops::view::branch::BranchView;
use crate::ops::{runs, workspace};
use crate::runner::authority::Authority;
use crate::runner::survey::line::line;
use crate::stop::Stop;
use crate::words::error_chain;

/// A flow run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FlowRun {
    /// Its id.
    pub run_id: RunId,
    /// What people type.
    pub slug: String,
    /// The branch that runners step.
    pub driver: String,
    /// The branch with the work.
    pub work_branch: Option<String>,
    /// The base, as a full ref name or a commit.
    pub base_ref: String,
    /// The commit of the base.
    pub base_sha: String,
    /// The worktree on this host.
    pub worktree_path: Option<String>,
    /// The run directory on this host.
    pub run_directory: String,
    /// The text for people.
    pub label: String,
    /// `workflow_id` of the flow.
    pub workflow_id: String,
    /// `version` of the flow.
    pub workflow_version: u64,
    /// The run that it is a fork of.
    pub forked_from: Option<RunId>,
    /// The step that a fork begins with.
    pub begins_at: Option<String>,
    /// The run's status.
    pub status: &'static str,
    /// How it ended.
    pub termination: Option<String>,
    /// What became of it.
    pub verdict: Option<&'static str>,
    /// The step under way or due.
    pub current_step: Option<String>,
    /// What it waits for.
    pub waiting_for: Option<String>,
    /// Where it stands, in a word.
    pub place: Place,
    /// Where it stands, in a sentence.
    pub words: String,
    /// Since when.
    pub since: String,
    /// The commands that carry it on, or show more.
    pub next: Vec<String>,
    /// The question of the gate that is open.
    pub question: Option<String>,
    /// The gate that is open.
    pub gate: Option<GateView>,
    /// The time of its creation.
    pub created_at: String,
    /// The time of its last change.
    pub updated_at: String,
    /// Tokens of all its steps, as they were reported.
    pub total_tokens: u64,
    /// Their cost in US dollars.
    pub cost_usd: Option<f64>,
    /// The holder of its driver's lease.
    pub runner: Option<String>,
    /// The end of that lease.
    pub expires_at: Option<Time>,
    /// The time that its driver is parked until.
    pub not_before: Option<Time>,
    /// The hosts that handed its step back, the newest last.
    pub unable: Vec<UnableView>,
    /// Its steps, in the order of their execution.
    pub steps: Vec<StepView>,
    /// The context of its workspace.
    pub workspace: Value,
    /// Its published branches, with the addresses of their proposals.
    #[serde(skip)]
    pub publications: Vec<String>,
    /// Whether the work branch here lacks what other hosts made, in words.
    #[serde(skip)]
    pub outdated: Option<String>,
    /// The command that shows the work, if its commits are here.
    #[serde(skip)]
    pub look: Option<String>,
    /// What is here that its open gate does not ask about.
    #[serde(rename = "beside")]
    pub unasked: Option<String>,
    /// The file with the answer of the newest agent, or the host that has it.
    #[serde(skip)]
    pub answer: Option<String>,
    /// The same of the last report of validators, in a run without agents.
    #[serde(skip)]
    pub report: Option<String>,
}

/// A host that handed a step back.
#[derive(Debug, Serialize)]
pub struct UnableView {
    /// Its runner.
    pub runner: String,
    /// Why it cannot do it.
    pub reason: String,
}

/// One execution of a step.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StepView {
    /// The step of the flow.
    pub id: String,
    /// What it does.
    pub opcode: Opcode,
    /// How many times the step was entered, with this one.
    pub visit: u64,
    /// The attempt of this visit.
    pub attempt: u64,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// The next step, or `STOP`.
    pub route: Option<String>,
    /// The time of its start.
    pub started_at: String,
    /// The time of its end.
    pub ended_at: Option<String>,
    /// Its files.
    pub artifacts: Vec<ArtifactView>,
    /// Its place in the run, from 1.
    pub number: u64,
    /// A sentence about the outcome.
    pub evidence: Option<String>,
    /// The host that carried it out.
    pub host: Option<String>,
    /// The directory of its files on this host.
    pub directory: Option<String>,
    /// Whether its runner was stopped: it is tried again, and no retry counts it.
    pub interrupted: bool,
    /// How it ended, in a word for people.
    #[serde(skip)]
    pub word: Option<&'static str>,
    /// Whether it is a gate with an answer that no runner has noted yet.
    #[serde(skip)]
    pub is_answered: bool,
}

/// A file of a step.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactView {
    /// What it is to the step.
    pub role: String,
    /// Its path on this host.
    pub path: String,
    /// Whether it is there.
    pub available: bool,
    /// Its media type.
    pub media_type: String,
    /// Bytes.
    pub size: u64,
    /// The SHA-256 of its content.
    pub sha256: String,
}

/// Shows a run. Its files on this host are brought up to its ledger; `trouble` is told what went wrong with them.
pub fn show(
    repo: &Repo,
    process: &Process,
    authority: &Authority,
    tip: &Tip,
    trouble: &mut dyn FnMut(&str),
) -> Result<FlowRun, Error> {
    let directory = runs::directory(repo, tip.state.run.id)?;
    let written = sync::sync(repo, &directory).and_then(|_| project(repo, &directory, tip));
    if let Err(error) = written {
        trouble(&format!("{}; the ledger is shown", error_chain(&error)));
    }
    // An archived work may be nowhere else.
    if let Err(error) = bring_work(repo, &tip.state)
        && !matches!(error, LedgerError::Absent { .. })
    {
        trouble(&format!("the newest commits of the work are not here: {}", error_chain(&error)));
    }
    let branch = driver(repo, &tip.state.run.slug)?;
    let is_alone = is_alone(repo, &tip.state.run, authority);
    let place = if is_alone { &Authority::Local } else { authority };
    let row = driver_row(repo, process, place, &branch)?;
    let mut shown = view(repo, tip, &directory, (branch.to_string(), row), is_alone);
    let is_marked = directory.path().join(MARK).exists();
    shown.unasked = unasked(repo, process, &tip.state, is_marked);
    if let Some(words) = &shown.unasked {
        let slug = &tip.state.run.slug;
        let snapshot = format!("aynig workspace snapshot {slug}");
        let asked =
            asked(&tip.state).map(|asked| format!("aynig flow approve {slug} --for {}", asked.short()));
        // An approval without one of these is refused.
        if is_marked {
            let plain = format!("aynig flow approve {slug}");
            shown.next.retain(|next| *next != plain);
            shown.next.splice(0..0, asked.into_iter().chain([snapshot]));
        } else if words.contains(&snapshot) {
            shown.next.insert(0, snapshot);
        }
    }
    shown.outdated = workspace::outdated(repo, process, &tip.state).into_values().next();
    Ok(shown)
}

/// Changes here that the open gate of a run does not ask about. `is_marked`: an attempt was cut off on this host, and what
/// it left was not put back.
fn unasked(repo: &Repo, process: &Process, state: &State, is_marked: bool) -> Option<String> {
    gate::open(state)?;
    let workspaces = workspace::at(repo, process, Stop::manual()).ok()?;
    let (slug, known) = (state.run.slug.as_str(), state.workspaces.values().next()?);
    let context = workspaces.find(format!("{slug}/{}", known.name).as_ref()).ok()?;
    let recorded = CommitId::parse_hex(known.head_sha.as_bytes()).filter(|_| is_marked);
    let found = workspaces.unasked(&context, recorded.or_else(|| asked(state)), known.generation);
    found.words(slug, is_marked)
}

/// The commit that the open gate of a run asks about.
fn asked(state: &State) -> Option<CommitId> {
    let asked = gate::open(state)?.tool.args.get("head").and_then(Value::as_str);
    asked.and_then(|asked| CommitId::parse_hex(asked.as_bytes()))
}

/// Fetches the newest commit of the work of a run, if the remote that decides the run has it and this clone does not.
fn bring_work(repo: &Repo, state: &State) -> Result<(), LedgerError> {
    let Ok(place) = LedgerPlace::of(repo, state.run.id, &state.run.decided_by) else { return Ok(()) };
    bring(repo, &place, &state.run, head(repo, state).as_slice())
}

/// The newest commit of the work of a run.
fn head(repo: &Repo, state: &State) -> Option<CommitId> {
    newest_of(repo, state, state.workspaces.values().next()?)
}

/// A run with what is known of it here.
fn view(
    repo: &Repo,
    tip: &Tip,
    directory: &RunDirectory,
    (driver, row): (String, Option<BranchView>),
    is_alone: bool,
) -> FlowRun {
    let (state, run) = (&tip.state, &tip.state.run);
    let step = step_of(repo, tip);
    let Standing { place, words, next } = stands(repo, state, step.as_deref(), row.as_ref(), is_alone);
    let mut workspace = context(directory, state).unwrap_or(Value::Null);
    // Another host may have worked since this one did.
    let here = workspace.get("head_sha").and_then(|head| CommitId::parse_hex(head.as_str()?.as_bytes()));
    let remade = workspace.get("generation").and_then(Value::as_u64).map(|number| number.saturating_sub(1));
    let known = state.workspaces.values().next().map(|known| known.generation);
    if let (Some(here), Some(newest)) = (here, head(repo, state))
        && (known > remade || !repo.descends(here, newest))
    {
        workspace["head_sha"] = newest.to_string().into();
    }
    let text = |field: &str| workspace.get(field).and_then(Value::as_str).map(str::to_owned);
    let flow = run.flow.as_ref();
    let lease = row.as_ref().and_then(|row| row.lease.as_ref());
    let mut steps = steps(state, directory);
    if let Some(last) = steps.last_mut() {
        last.is_answered = gate::answered(state).is_some();
    }
    FlowRun {
        publications: state
            .workspaces
            .values()
            .flat_map(|workspace| &workspace.published)
            .map(published)
            .collect(),
        look: look(repo, state),
        unasked: None,
        outdated: None,
        answer: newest(&steps, Opcode::RunAgent, "runner_final_response"),
        report: (!steps.iter().any(|step| step.opcode == Opcode::RunAgent))
            .then(|| newest(&steps, Opcode::RunValidation, "validation_report"))
            .flatten(),
        run_id: run.id,
        slug: run.slug.to_string(),
        driver,
        work_branch: text("branch_name"),
        base_ref: run.base_ref.clone(),
        base_sha: run.base_sha.clone(),
        worktree_path: text("worktree_path"),
        run_directory: directory.path().display().to_string(),
        label: run.label.clone(),
        workflow_id: flow.map(|flow| flow.workflow_id.clone()).unwrap_or_default(),
        workflow_version: flow.map_or(0, |flow| flow.version),
        forked_from: flow.and_then(|flow| flow.forked_from),
        begins_at: flow.and_then(|flow| flow.begins_at.clone()),
        status: run.status.word(),
        termination: run.termination.clone(),
        verdict: run.verdict.map(|verdict| verdict.word()),
        current_step: step,
        waiting_for: waiting_for(state),
        place,
        words,
        since: since(repo, state, place, row.as_ref()),
        next,
        question: gate::open(state).and_then(|approval| approval.context.clone()),
        gate: GateView::of(state),
        created_at: run.created_at.to_string(),
        updated_at: run.updated_at.to_string(),
        total_tokens: run.usage.total_tokens,
        cost_usd: run.usage.cost_usd,
        runner: lease.map(|lease| lease.runner.clone()),
        expires_at: lease.map(|lease| Time(lease.expires_at)),
        not_before: row.as_ref().and_then(|row| row.not_before).map(Time),
        unable: row.iter().flat_map(|row| &row.unable).map(UnableView::of).collect(),
        steps,
        workspace,
    }
}

/// A publication in words.
pub(super) fn published(one: &Publication) -> String {
    let url = one.url.as_ref().map(|url| format!(": {url}")).unwrap_or_default();
    format!("{} at {}{url}", one.branch, one.remote)
}

/// The command that shows the work of a run in any clone that has its commits.
fn look(repo: &Repo, state: &State) -> Option<String> {
    let workspace = state.workspaces.values().next()?;
    let (base, head) = (CommitId::parse_hex(workspace.base_sha.as_bytes())?, head(repo, state)?);
    let is_here = repo.commit(base).is_ok() && repo.commit(head).is_ok();
    (is_here && base != head).then(|| format!("git diff {} {}", base.short(), head.short()))
}

/// A file of the newest step with this opcode, or the host that has it. `None` if that step left none.
fn newest(steps: &[StepView], opcode: Opcode, role: &str) -> Option<String> {
    let step = steps.iter().rev().find(|step| step.opcode == opcode)?;
    let file = step.artifacts.iter().find(|one| one.role == role)?;
    let host = step.host.as_deref().unwrap_or("another host");
    Some(if file.available { file.path.clone() } else { format!("of {}, on {host}", step.id) })
}

impl StepView {
    /// What a step does that has not ended.
    #[must_use]
    pub fn going_on(&self) -> &'static str {
        match self.opcode {
            Opcode::Gate if self.is_answered => "was answered",
            Opcode::Gate => "waits for an answer",
            _ => "is under way",
        }
    }
}

impl UnableView {
    pub(super) fn of(unable: &Unable) -> Self {
        Self { runner: unable.runner.clone(), reason: unable.why.clone() }
    }
}

impl FlowRun {
    /// How it ended for `--wait`. `None` while it goes on by itself.
    #[must_use]
    pub fn end(&self) -> Option<End> {
        let succeeded = crate::model::run::Verdict::Succeeded;
        End::of(self.place, (self.verdict == Some(succeeded.word())).then_some(succeeded))
    }
}

/// Since when it stands there.
pub(super) fn since(repo: &Repo, state: &State, place: Place, row: Option<&BranchView>) -> String {
    let asked = gate::open(state).filter(|_| place == Place::Gate);
    let moved = row.and_then(|row| taken_at(repo, row).or(row.committed_at));
    match (place, asked, moved) {
        (_, Some(approval), _) => approval.requested_at.to_string(),
        (Place::Ended | Place::Paused, _, _) | (_, _, None) => state.run.updated_at.to_string(),
        (_, _, Some(moved)) => clock::format_utc_millis(moved.saturating_mul(1000)),
    }
}

/// The time of the claim of a lease, whose renewals are later.
fn taken_at(repo: &Repo, row: &BranchView) -> Option<i64> {
    let run_id = &row.lease.as_ref()?.run_id;
    let branch = BranchName::new(row.branch.as_str()).ok()?;
    let head = CommitId::parse_hex(row.commit.as_ref()?.as_bytes())?;
    let of_lease = |stored: &Stored| matches!(Head::read(&stored.facts()), Head::Working(lease) if lease.run_id == run_id.as_bytes());
    line(repo, &branch, head).take_while(of_lease).last().map(|claim| claim.committed_at)
}

/// The steps of a run with their files on this host.
pub(super) fn steps(state: &State, directory: &RunDirectory) -> Vec<StepView> {
    let mut recorded: HashMap<&str, Vec<(String, Manifest)>> = HashMap::new();
    for step in state.steps.values() {
        recorded.entry(step.id.as_str()).or_insert_with(|| {
            let all = attempts(&directory.artifacts().join(step.id.as_str())).into_iter().rev();
            let read = all.filter_map(|(_, path)| Some((path.display().to_string(), Manifest::read(&path)?)));
            read.collect()
        });
    }
    let found = |step: &Step| {
        // An attempt that the ledger did not take may have the same number, and began at another time.
        let own = recorded.get(step.id.as_str()).into_iter().flatten();
        own.clone()
            .find(|(_, manifest)| manifest.number == step.number && manifest.started_at == step.started_at)
    };
    state.steps.values().map(|step| step_view(directory, step, found(step))).collect()
}

fn step_view(directory: &RunDirectory, step: &Step, recorded: Option<&(String, Manifest)>) -> StepView {
    let artifacts = match recorded {
        Some((_, manifest)) => manifest
            .artifacts
            .iter()
            .map(|listed| {
                let path = directory.path().join(&listed.path);
                ArtifactView {
                    role: listed.role.word().to_owned(),
                    available: is_file(&path),
                    path: path.display().to_string(),
                    media_type: listed.media_type.clone(),
                    size: listed.size,
                    sha256: listed.sha256.clone(),
                }
            })
            .collect(),
        None => of_ledger(directory, step),
    };
    StepView {
        id: step.id.to_string(),
        opcode: step.opcode,
        visit: step.visit,
        attempt: step.attempt,
        outcome: step.outcome,
        route: step.route.clone(),
        started_at: step.started_at.to_string(),
        ended_at: step.ended_at.map(|at| at.to_string()),
        artifacts,
        number: step.number,
        evidence: step.evidence.clone(),
        host: step.host.clone(),
        directory: recorded.map(|(path, _)| path.clone()),
        interrupted: is_interrupted(step),
        word: end_word(step),
        is_answered: false,
    }
}

fn is_file(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_file())
}

/// The files of a step that another host carried out: those that the ledger knows.
fn of_ledger(directory: &RunDirectory, step: &Step) -> Vec<ArtifactView> {
    let kept = step.record.as_ref().map(|record| &record.artifacts[..]).unwrap_or_default();
    let known = kept.iter().filter_map(|kept| Some((kept, step.artifacts.get(&kept.artifact)?)));
    known
        .map(|(kept, artifact)| ArtifactView {
            role: kept.role.clone(),
            path: place(directory, artifact.id).display().to_string(),
            available: is_here(directory, artifact),
            media_type: artifact.media_type.clone(),
            size: artifact.size,
            sha256: artifact.sha256.clone(),
        })
        .collect()
}
