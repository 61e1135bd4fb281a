//! Flow runs for front ends: listing them, showing where one stands, and telling what happened.
//!
//! Invariant: nothing is decided here, and nothing is written but the files that each host makes of a ledger.
//! `aynig clean` removes drivers of ended runs.
//!
//! | file | contains |
//! |---|---|
//! | [`view`] | one run, with its steps and their files |
//! | [`standing`] | where it stands, and what to type |
//! | [`story`] | what happened, from its ledger |
//! | [`gate`] | its open gate |
//! | [`drawn`] | a run drawn over its flow |
//! | [`leftovers`] | drivers and workspaces of ended runs |

pub mod drawn;
pub mod gate;
pub mod leftovers;
pub mod standing;
pub mod story;
pub mod view;

use std::collections::HashMap;
use std::path::PathBuf;

use serde::Serialize;

use crate::clock;
use crate::contract::ids::{BranchName, CommitId};
use crate::engine::Engine;
use crate::engine::control::{Granted, Reply};
use crate::engine::driver::Driver as DriverBranch;
use crate::engine::record::project::{context, current_step, entry_of};
use crate::flow::document::Flow;
use crate::flow::due::is_parked;
use crate::flow::verdict::is_undone;
use crate::git::Repo;
use crate::journal::directory::RunDirectory;
use crate::ledger::{LedgerError, Place as LedgerPlace, Tip, content, held, runs as ledgers};
use crate::model::ids::{RunId, Slug};
use crate::model::run::{DecidedBy, Run, RunKind, RunStatus};
use crate::model::state::State;
use crate::model::step::{Opcode, Step};
use crate::model::workspace::{Workspace, WorkspaceStatus};
use crate::runner::authority::Authority;
use crate::runner::survey::verdict::Reason;
use crate::words::error_chain;

use super::app::Process;
use super::error::{Error, Kind};
use super::inside::persons_only;
use super::run::survey_options;
use super::status::{Filter, Query, look};
use super::view::Time;
use super::view::branch::BranchView;
use super::view::driven::DrivenView;
use super::{runs, settings, work};

use gate::GateView;
use standing::{Driver, Facts, Left, Place, Standing};
pub use view::FlowRun;
use view::{UnableView, since};

/// The words where there are none.
pub const NONE: &str = "no flow run is known here: `aynig flow start FILE` begins one";

/// The beginning of the note on a driver's state about an answer that was pushed.
const UNCOUNTED: &str = "an answer does not count";

/// The name of a flow's driver and of its workspace.
const FLOW: &str = "flow";

/// The driver of a flow run.
pub fn driver(repo: &Repo, slug: &Slug) -> Result<BranchName, Error> {
    Ok(DriverBranch::branch_of(&settings::workspace(repo)?.run_prefix, slug, FLOW)?)
}

/// The driver of a run as it is known here, with the place that decides it. `None` if it is gone, or decided elsewhere.
fn known_driver(repo: &Repo, run: &Run) -> Result<Option<(LedgerPlace, BranchName, CommitId)>, Error> {
    let Ok(place) = LedgerPlace::of(repo, run.id, &run.decided_by) else { return Ok(None) };
    let branch = driver(repo, &run.slug)?;
    let known = match &place {
        LedgerPlace::Here => repo.branch_head(&branch),
        LedgerPlace::Remote(remote) => repo.fetched_head(remote, &branch),
    };
    Ok(known.ok().flatten().map(|known| (place, branch, known)))
}

/// Whether a run still has its driver.
pub fn has_driver(repo: &Repo, tip: &Tip) -> bool {
    known_driver(repo, &tip.state.run).is_ok_and(|known| known.is_some())
}

/// The running flows that this repository decides and whose drivers are gone: no pass carries them on.
pub fn driverless(repo: &Repo) -> Result<Vec<Slug>, Error> {
    let mut found = Vec::new();
    let all = runs::all(repo)?;
    let is_flow = |run: &&Run| run.kind == RunKind::Flow && run.status == RunStatus::Running;
    for run in all.iter().filter_map(|one| one.run.as_ref().ok()).filter(is_flow) {
        let is_here = matches!(LedgerPlace::of(repo, run.id, &run.decided_by), Ok(LedgerPlace::Here));
        if is_here && known_driver(repo, run)?.is_none() {
            found.push(run.slug.clone());
        }
    }
    Ok(found)
}

/// Whether a run belongs to this clone alone, although a remote is set: it was made before that.
pub fn is_alone(repo: &Repo, run: &Run, authority: &Authority) -> bool {
    authority.source().is_some()
        && matches!(LedgerPlace::of(repo, run.id, &run.decided_by), Ok(LedgerPlace::Here))
}

/// Answers the gate of a run.
pub fn answer_gate(
    engine: &Engine<'_>,
    authority: &Authority,
    run: RunId,
    reply: Reply<'_>,
) -> Result<Granted, Error> {
    persons_only("answering a gate")?;
    let repo = engine.repo;
    let shown = runs::show(repo, run)?.state.run;
    let place = if is_alone(repo, &shown, authority) { &Authority::Local } else { authority };
    gate::none_waits(repo, place, &driver(repo, &shown.slug)?)?;
    Ok(engine.answer_gate(run, reply)?)
}

/// Names the runs that belong to this clone alone and have not ended, with the command that carries them on.
pub fn alone(repo: &Repo, authority: &Authority, all: &[runs::Listed]) -> Option<String> {
    let remote = authority.source()?;
    let slugs: Vec<String> = all
        .iter()
        .filter_map(|one| one.run.as_ref().ok())
        .filter(|run| run.kind == RunKind::Flow && !run.status.is_ended() && is_alone(repo, run, authority))
        .map(|run| run.slug.to_string())
        .collect();
    slugs.first().map(|first| {
        format!(
            "of this clone alone, not of {remote}: {}; `{}` carries it on",
            slugs.join(", "),
            carries_on(first)
        )
    })
}

/// A run whose driver the remote has, and which is decided at another address: the remote may have moved. Returns what is
/// so, and what to type.
pub fn moved(
    repo: &Repo,
    authority: &Authority,
    all: &[runs::Listed],
) -> Result<Option<(String, String)>, Error> {
    let Some(remote) = authority.source() else { return Ok(None) };
    for run in all.iter().filter_map(|one| one.run.as_ref().ok()) {
        if run.kind != RunKind::Flow || run.status.is_ended() {
            continue;
        }
        let elsewhere = LedgerPlace::of(repo, run.id, &run.decided_by);
        if let Err(LedgerError::Elsewhere { place, hint, .. }) = elsewhere
            && matches!(repo.fetched_head(remote, &driver(repo, &run.slug)?), Ok(Some(_)))
        {
            return Ok(Some((format!("{remote} has run {}, which is decided {place}", run.slug), hint)));
        }
    }
    Ok(None)
}

/// The flow runs that have not ended and are held here: why, and what to type.
pub fn held(repo: &Repo) -> Result<Vec<(String, String)>, Error> {
    let mut found = Vec::new();
    for (id, head, held) in held::all(repo)? {
        let run = Tip::read_run(repo, id, head)?.state.run;
        if run.kind == RunKind::Flow && !run.status.is_ended() {
            found.push((held.words, held.next.join("; ")));
        }
    }
    Ok(found)
}

/// The remote that decides a run, if no remote is set here.
fn unset(repo: &Repo, run: &Run) -> Option<String> {
    let is_set = repo.config("aynig.remote").is_some_and(|remote| !remote.is_empty());
    match LedgerPlace::of(repo, run.id, &run.decided_by).ok().filter(|_| !is_set)? {
        LedgerPlace::Remote(remote) => Some(remote.to_string()),
        LedgerPlace::Here => None,
    }
}

/// The command that carries a run of this clone alone on.
fn carries_on(slug: &str) -> String {
    format!("aynig flow resume {slug} --wait")
}

/// A flow run of the list.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Listed {
    run_id: RunId,
    /// What people type.
    pub slug: String,
    /// The text for people.
    pub label: String,
    workflow_id: String,
    status: &'static str,
    verdict: Option<&'static str>,
    /// Where it stands, in a word.
    pub place: &'static str,
    /// The step under way or due.
    pub current_step: Option<String>,
    waiting_for: Option<String>,
    /// Where it stands, in a sentence.
    pub words: String,
    /// The commands that carry it on.
    pub next: Vec<String>,
    since: String,
    /// The time that its driver is parked until.
    pub not_before: Option<Time>,
    /// The hosts that handed its step back, the newest last.
    pub unable: Vec<UnableView>,
    created_at: String,
    updated_at: String,
    /// Seconds since it was made.
    #[serde(skip)]
    pub age: u64,
    /// Whether the runner of its step is known to be gone before the end of the lease.
    #[serde(skip)]
    pub is_left: bool,
}

impl Listed {
    /// The verdict, else the place.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self.place {
            "ended" => self.verdict.unwrap_or(self.status),
            "stuck" => self.place,
            place => self.verdict.unwrap_or(place),
        }
    }
}

/// A flow run that cannot be read.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Unread {
    /// Its id.
    pub run_id: RunId,
    /// Why.
    pub reason: String,
}

/// Lists the flow runs that are known here, the newest first, and those that cannot be read.
pub fn list(
    repo: &Repo,
    process: &Process,
    authority: &Authority,
) -> Result<(Vec<Listed>, Vec<Unread>), Error> {
    let (mut tips, mut unread) = (Vec::new(), Vec::new());
    for runs::Listed { id, head, run } in runs::all(repo)? {
        match run {
            Ok(run) if run.kind != RunKind::Flow => {}
            Ok(_) => match Tip::read(repo, id, head) {
                Ok(tip) => tips.push(tip),
                Err(error) => unread.push(Unread { run_id: id, reason: error_chain(&error) }),
            },
            Err(reason) => unread.push(Unread { run_id: id, reason }),
        }
    }
    let live = tips.iter().any(|tip| !tip.state.run.status.is_ended());
    let pattern = format!("{}*/{FLOW}", globset::escape(&settings::workspace(repo)?.run_prefix));
    let rows = if live { drivers(repo, process, authority, &pattern)? } else { HashMap::new() };
    let own = |tip: &&Tip| !tip.state.run.status.is_ended() && is_alone(repo, &tip.state.run, authority);
    let here = match tips.iter().find(own) {
        Some(_) => drivers(repo, process, &Authority::Local, &pattern)?,
        None => HashMap::new(),
    };
    let now = clock::wall_millis();
    let listed = tips.iter().map(|tip| {
        let (run, state) = (&tip.state.run, &tip.state);
        let step = step_of(repo, tip);
        let is_alone = is_alone(repo, run, authority);
        let known = if is_alone { &here } else { &rows };
        let row = known.get(&driver(repo, &run.slug)?.to_string());
        let Standing { place, words, next } = stands(repo, state, step.as_deref(), row, is_alone);
        Ok(Listed {
            run_id: run.id,
            slug: run.slug.to_string(),
            label: run.label.clone(),
            workflow_id: run.flow.as_ref().map(|flow| flow.workflow_id.clone()).unwrap_or_default(),
            status: run.status.word(),
            verdict: run.verdict.map(|verdict| verdict.word()),
            place: place.word(),
            current_step: step,
            waiting_for: waiting_for(state),
            words,
            next,
            since: since(repo, state, place, row),
            not_before: row.and_then(|row| row.not_before).map(Time),
            unable: row.iter().flat_map(|row| &row.unable).map(UnableView::of).collect(),
            created_at: run.created_at.to_string(),
            updated_at: run.updated_at.to_string(),
            age: u64::try_from(now.saturating_sub(run.created_at.millis()) / 1000).unwrap_or(0),
            is_left: row.and_then(|row| row.lease.as_ref()).is_some_and(|lease| lease.gone.is_some()),
        })
    });
    Ok((listed.collect::<Result<_, Error>>()?, unread))
}

/// The flow runs whose drivers are among these branches, in the order of the branches.
pub fn driven(repo: &Repo, rows: &[BranchView]) -> Result<Vec<DrivenView>, Error> {
    let prefix = settings::workspace(repo)?.run_prefix;
    let by_slug: HashMap<&str, &BranchView> =
        rows.iter().filter_map(|row| Some((slug_in(&row.branch, &prefix)?, row))).collect();
    if by_slug.is_empty() {
        return Ok(Vec::new());
    }
    let mut found = HashMap::new();
    for (run, head) in ledgers::all(repo)? {
        // A slug is the beginning of an id.
        let id = run.uuid().simple().to_string();
        if !(1..=id.len()).any(|length| by_slug.contains_key(&id[..length])) {
            continue;
        }
        let known = Tip::read_run(repo, run, head).ok().map(|tip| tip.state.run);
        let Some(known) = known.filter(|run| run.kind == RunKind::Flow) else { continue };
        let Some(row) = by_slug.get(known.slug.as_str()) else { continue };
        let Ok(tip) = Tip::read(repo, run, head) else { continue };
        let Standing { words, place, next } =
            stands(repo, &tip.state, step_of(repo, &tip).as_deref(), Some(row), false);
        let run = &tip.state.run;
        let view = DrivenView {
            branch: row.branch.clone(),
            work: tip.state.workspaces.values().next().map(|workspace| workspace.branch_name.clone()),
            slug: run.slug.to_string(),
            label: run.label.clone(),
            word: run.verdict.map_or(place.word(), |verdict| verdict.word()),
            words,
            next: next.into_iter().next(),
            is_ended: place == Place::Ended,
        };
        found.insert(row.branch.as_str(), view);
    }
    Ok(rows.iter().filter_map(|row| found.remove(row.branch.as_str())).collect())
}

/// The slug in the name of a driver.
fn slug_in<'a>(branch: &'a str, prefix: &str) -> Option<&'a str> {
    let (slug, name) = branch.strip_prefix(prefix)?.split_once('/')?;
    (name == FLOW).then_some(slug)
}

/// Finds the flow run that is meant by a slug, the beginning of an id, or an id.
pub fn find(repo: &Repo, text: &str) -> Result<Tip, Error> {
    let run = runs::find(repo, text)?;
    let head = runs::head(repo, run)?;
    let head = head.ok_or_else(|| Error::new(Kind::NotFound, format!("run {run} is gone")))?;
    let tip = Tip::read_whole(repo, run, head)?;
    if tip.state.run.kind == RunKind::Flow {
        return Ok(tip);
    }
    let message = format!("run {} is no flow run: it is a graph of nodes", tip.state.run.slug);
    Err(Error::failed(message).hint(format!("aynig orch show {}", tip.state.run.slug)))
}

/// The flow of a run, as it was frozen.
fn flow_of(repo: &Repo, tip: &Tip) -> Result<Flow, Error> {
    let run = &tip.state.run;
    let file = run.flow.as_ref().map(|flow| content::read(repo, tip, &flow.file)).transpose()?.flatten();
    let flow = file.and_then(|file| crate::flow::check(&file).flow);
    flow.ok_or_else(|| {
        Error::failed(format!("the flow of run {} cannot be read here", run.slug))
            .hint(format!("aynig orch doctor {}", run.slug))
    })
}

/// The drivers that a name or a glob selects, as a pass here judges them.
fn drivers(
    repo: &Repo,
    process: &Process,
    authority: &Authority,
    pattern: &str,
) -> Result<HashMap<String, BranchView>, Error> {
    let mut options = survey_options(repo, process, None)?;
    options.selection = settings::narrowed(options.selection, &[pattern.into()])?;
    let query = Query { options, one: None, named: true, filter: Filter::default() };
    let seen = look(repo, authority, &query, clock::wall_seconds())?;
    Ok(seen.rows.into_iter().map(|row| (row.branch.clone(), row)).collect())
}

/// The driver of one run.
fn driver_row(
    repo: &Repo,
    process: &Process,
    authority: &Authority,
    branch: &BranchName,
) -> Result<Option<BranchView>, Error> {
    let name = branch.to_string();
    let mut rows = drivers(repo, process, authority, &name)?;
    Ok(rows.remove(&name))
}

/// The step that a run is at.
fn step_of(repo: &Repo, tip: &Tip) -> Option<String> {
    let flow = tip.state.run.flow.as_ref()?;
    let begun = !tip.state.steps.is_empty() || flow.begins_at.is_some();
    let entry = if begun { None } else { entry_of(repo, tip, flow).ok()? };
    current_step(&tip.state, entry.as_deref())
}

/// What a run waits for: as its ledger says, else its open gate.
fn waiting_for(state: &State) -> Option<String> {
    state.run.waiting_for.clone().or_else(|| GateView::of(state).map(|gate| gate.words()))
}

/// Where a run stands that does not go on by itself. Nothing of its driver counts.
pub(super) fn rests(repo: &Repo, state: &State) -> Standing {
    stands(repo, state, current_step(state, None).as_deref(), None, false)
}

/// The worktree of a run on this host.
fn worktree(repo: &Repo, state: &State) -> Option<PathBuf> {
    let context = context(&RunDirectory::of(repo, state.run.id), state)?;
    context.get("worktree_path")?.as_str().map(PathBuf::from)
}

/// The remains of an ended run.
fn left<'a>(repo: &Repo, state: &'a State) -> Left<'a> {
    let Some(workspace) = state.workspaces.values().next() else { return Left::default() };
    let is_removed = workspace.status == WorkspaceStatus::Removed;
    let own = BranchName::new(workspace.branch_name.as_bytes()).ok();
    let own = own.and_then(|branch| repo.branch_head(&branch).ok()?);
    // A landing at a remote takes the branch that it has: publishing brings the newest work there.
    let published = work::published_now(repo, state, workspace).filter(|one| {
        let head = CommitId::parse_hex(&one.head);
        !head.zip(own).is_some_and(|(head, own)| own != head && repo.descends(own, head))
    });
    let is_there = matches!(state.run.decided_by, DecidedBy::Remote(_));
    let branch = match is_there {
        true => published.map(|one| one.branch.as_str()),
        false => own.map(|_| workspace.branch_name.as_str()),
    };
    // Commits that a person made count, too.
    let is_changed = has_changed(workspace) || own.is_some_and(|head| head.to_string() != workspace.base_sha);
    let is_open = !is_removed && is_changed && !has_landed(repo, workspace, own);
    let is_due = is_open && (published.is_none() || !is_there && workspace.pr_url.is_none());
    Left {
        branch: branch.filter(|_| is_open),
        is_removed,
        is_here: !is_removed && worktree(repo, state).is_some_and(|path| path.is_dir()),
        has_remote: is_due && !repo.remote_names().is_empty(),
    }
}

/// Whether the work of a run has commits that its base has not, as the ledger has it.
fn has_changed(workspace: &Workspace) -> bool {
    workspace.head_sha != workspace.base_sha
}

/// Whether the main branch, as far as it is known here, has the newest work of a run. `own` is the work branch of this clone.
fn has_landed(repo: &Repo, workspace: &Workspace, own: Option<CommitId>) -> bool {
    let Some(newest) = CommitId::parse_hex(&workspace.head_sha) else { return false };
    let newest = own.filter(|own| repo.descends(*own, newest)).unwrap_or(newest);
    let main = leftovers::main_branch(repo, None).ok().flatten();
    newest.to_string() != workspace.base_sha
        && main.is_some_and(|(_, main)| repo.landed(newest, main).is_ok_and(|landed| landed.is_some()))
}

/// Why an answer that was pushed to a driver does not count.
fn uncounted(row: &BranchView) -> Option<String> {
    let stuck = row.deferred.as_ref().and_then(|deferred| deferred.stuck.as_ref());
    let noted = || row.subject.as_deref()?.split_once(": ").filter(|(_, note)| note.starts_with(UNCOUNTED));
    stuck.map(|why| format!("{UNCOUNTED}: {why}")).or_else(|| noted().map(|(_, note)| note.to_owned()))
}

/// Whether this host has what the last rollback of a run discarded.
fn can_undo(repo: &Repo, state: &State) -> bool {
    let known = runs::directory(repo, state.run.id).ok().and_then(|directory| context(&directory, state));
    known.is_some_and(|known| known.get("undo").is_some_and(|undo| !undo.is_null()))
}

/// Where a run stands.
fn stands(
    repo: &Repo,
    state: &State,
    step: Option<&str>,
    row: Option<&BranchView>,
    is_alone: bool,
) -> Standing {
    let run = &state.run;
    let is_work = |step: &Step| matches!(step.opcode, Opcode::RunAgent | Opcode::RunValidation);
    let is_back = is_undone(state) && !state.workspaces.values().any(has_changed);
    let answered = step.zip(gate::answered(state)).map(|(step, answer)| format!("{step} ({answer})"));
    Facts {
        slug: run.slug.as_str(),
        status: Some(run.status),
        verdict: run.verdict,
        termination: run.termination.as_deref(),
        waiting_for: run.waiting_for.as_deref(),
        step: answered.as_deref().or(step),
        asks: GateView::of(state).map(|gate| gate.words()),
        rolled_back: is_back || !state.steps.values().any(is_work),
        undoes: is_back
            && state.workspaces.values().any(|one| one.status == WorkspaceStatus::Ready)
            && can_undo(repo, state),
        proposal: state.workspaces.values().find_map(|workspace| workspace.pr_url.as_deref()),
        is_late: gate::open(state)
            .and_then(|approval| approval.expires_at)
            .is_some_and(|at| at.millis() < clock::wall_millis()),
        waits_because: state
            .steps
            .values()
            .next_back()
            .filter(|last| is_parked(last))
            .and_then(|last| last.evidence.as_deref()),
        uncounted: row.and_then(uncounted),
        pushed: row
            .and_then(|row| row.deferred.as_ref())
            .filter(|one| one.wake && one.stuck.is_none())
            .map(|one| one.sender.as_str()),
        held: held::held(repo, run.id).ok().flatten(),
        left: if run.status.is_ended() { left(repo, state) } else { Left::default() },
        driver: row.map(|row| Driver {
            kind: row.label(),
            lease: row.lease.as_ref().map(|lease| (lease.runner.as_str(), lease.expires_at)),
            gone: row.lease.as_ref().and_then(|lease| lease.gone.as_deref()),
            unable: &row.unable,
            untaken: row.is_untaken(),
            not_before: row.not_before,
            elsewhere: row.cause == Some(Reason::DecidedElsewhere.word()),
            moves: row.deferred.is_some() || row.preferred.is_some(),
            reason: row.reason.as_deref(),
        }),
        is_alone,
        unset: unset(repo, run),
    }
    .standing()
}
