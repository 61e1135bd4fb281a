//! Drivers and workspaces of runs that have ended or were deleted, for `aynig clean` (CONTRACT 16.8, 20.35).
//!
//! Invariant: a workspace goes only if its run was deleted, if the main branch has its work, or if there is none; all of it
//! is saved before.
//! A driver goes only where its run has ended by the ledger, it rests as ended, and nobody moves it meanwhile.
//! The ledger keeps the run.

use bstr::{BString, ByteSlice};

use crate::clock;
use crate::contract::head::Head;
use crate::contract::ids::{BranchName, CommitId};
use crate::contract::layout::fetched_ref;
use crate::engine::driver::{DONE, IDLE, RUN_KEY};
use crate::git::remote::PATIENCE;
use crate::git::{RefChange, Repo, Together};
use crate::ledger::{LedgerError, Place, Tip, archive};
use crate::model::ids::RunId;
use crate::model::run::{DecidedBy, Run, RunKind, Verdict};
use crate::model::state::State;
use crate::ops::error::Error;
use crate::ops::runs::drivers::Drivers;
use crate::ops::runs::{self, Listed};
use crate::ops::settings;
use crate::ops::work::published_now;
use crate::runner::clean::{CleanOptions, Item, Kind};
use crate::words::{error_chain, shell_quote};
use crate::workspace::Workspaces;
use crate::workspace::context::Context;

use super::FLOW;

/// The age of an ended run, in seconds, from which its driver and its workspace go: a day.
const AGE: u64 = 86_400;

/// Lists the drivers of ended runs, and removes those that `wanted` says: at the place that decides the run, and here.
pub fn drivers(repo: &Repo, wanted: &CleanOptions, all: &[Listed]) -> Result<Vec<Item>, Error> {
    let mut items = Vec::new();
    if !wanted.runs {
        return Ok(items);
    }
    let mut drivers = Drivers::new(repo)?;
    for run in all.iter().filter_map(|one| one.run.as_ref().ok()).filter(|run| run.status.is_ended()) {
        let Some((place, own)) = drivers.of(run)? else { continue };
        let resting = own.into_iter().filter(|(_, head)| rests(repo, run, *head));
        items.extend(resting.map(|(branch, known)| item(repo, wanted, run, (place, &branch, known))));
    }
    Ok(items)
}

/// Lists the workspaces of ended runs on this host, and removes those that `wanted` says.
pub fn workspaces(
    repo: &Repo,
    workspaces: &Workspaces<'_>,
    wanted: &CleanOptions,
    all: &[Listed],
) -> Result<Vec<Item>, Error> {
    if !wanted.workspaces {
        return Ok(Vec::new());
    }
    let ended = ended(repo, workspaces, all);
    let mut items: Vec<Item> =
        ended.iter().map(|(state, context)| workspace(repo, workspaces, wanted, state, context)).collect();
    let deleted = deleted(repo, workspaces, wanted.now)?.into_iter();
    items.extend(deleted.map(|(age, context)| of_deleted(workspaces, wanted, age, &context)));
    // The files of a deleted run stay as long as it has a workspace.
    runs::follow_deleted(repo)?;
    Ok(items)
}

/// Asks the remote that decides here which runs it has, if there are workspaces here: another host may have deleted theirs.
/// Returns what went wrong, in words.
pub fn ask_for_deleted(repo: &Repo, workspaces: &Workspaces<'_>) -> Result<Vec<String>, Error> {
    let remote = settings::remote(repo)?;
    Ok(if workspaces.all()?.is_empty() { Vec::new() } else { runs::update(repo, remote.as_ref()) })
}

/// The workspaces on this host whose runs were deleted, each with the seconds since then.
fn deleted(repo: &Repo, workspaces: &Workspaces<'_>, now: i64) -> Result<Vec<(u64, Context)>, Error> {
    let mut found = Vec::new();
    for context in workspaces.all()?.into_iter().filter_map(|entry| entry.context.ok()) {
        let Some(run) = RunId::parse(&context.run_id) else { continue };
        if runs::head(repo, run)?.is_none()
            && let Some(archived) = archive::archived(repo, run)?
        {
            let stored = repo.commit(archived.ledger).map_err(LedgerError::from)?;
            found.push((u64::try_from(now.saturating_sub(stored.committed_at)).unwrap_or(0), context));
        }
    }
    Ok(found)
}

fn of_deleted(workspaces: &Workspaces<'_>, wanted: &CleanOptions, age: u64, context: &Context) -> Item {
    let mut item = Item::new(Kind::Workspace, context.handle());
    (item.branch, item.age) = (Some(context.branch_name.clone()), Some(age));
    if age < wanted.older_than.unwrap_or(AGE) {
        let next = format!("aynig workspace remove --apply {}", context.handle());
        return item.stays("its run was deleted, and not long ago", next);
    }
    item.goes("its run was deleted; all in it is saved first")
        .carried_out(wanted, || remove_it(workspaces, context))
}

/// Removes a workspace. Returns where its branch is.
fn remove_it(workspaces: &Workspaces<'_>, context: &Context) -> Result<Option<String>, String> {
    let removal = workspaces.remove(context).map_err(|refusal| refusal.message)?;
    Ok(removal.archive.map(|archive| format!("its branch is {archive} now")))
}

/// The workspaces of ended runs on this host, with the states of the runs: `run.json` and workspaces alone.
fn ended(repo: &Repo, workspaces: &Workspaces<'_>, all: &[Listed]) -> Vec<(State, Context)> {
    let found = all.iter().filter_map(|one| {
        let run = one.run.as_ref().ok()?;
        let is_ended = run.kind == RunKind::Flow && run.status.is_ended();
        let context = is_ended.then(|| workspaces.find(format!("{}/{FLOW}", run.slug).as_ref()))?.ok()?;
        let whole = Tip::read_workspaces(repo, run.id, one.head).ok()?;
        context.worktree_path.is_dir().then_some((whole.state, context))
    });
    found.collect()
}

/// The workspaces of runs that ended a day ago: those that `aynig clean` removes, and those that stay.
pub fn old_workspaces(repo: &Repo, workspaces: &Workspaces<'_>) -> Result<(Vec<String>, Vec<String>), Error> {
    let main = main_branch(repo, None)?.map(|(_, main)| main);
    let now = clock::wall_seconds();
    let all = ended(repo, workspaces, &runs::all(repo)?).into_iter();
    let old = all.filter(|(state, _)| age(now, &state.run) >= AGE);
    let is_unneeded = |(state, context): &(State, Context)| {
        matches!(work_of(repo, main, state, context), Work::Unneeded(_))
    };
    let (go, stay): (Vec<_>, Vec<_>) = old.partition(is_unneeded);
    let handles = |all: Vec<(State, Context)>| all.iter().map(|(_, context)| context.handle()).collect();
    Ok((handles(go), handles(stay)))
}

/// The workspaces of runs that were deleted a day ago, as it is known here.
pub fn old_deleted(repo: &Repo, workspaces: &Workspaces<'_>) -> Result<Vec<String>, Error> {
    let all = deleted(repo, workspaces, clock::wall_seconds())?.into_iter();
    Ok(all.filter(|(age, _)| *age >= AGE).map(|(_, context)| context.handle()).collect())
}

/// The main branch and its newest commit that is known here, also by what a runner fetched.
pub fn main_branch(repo: &Repo, named: Option<&BranchName>) -> Result<Option<(BString, CommitId)>, Error> {
    let main = repo.main_branch(named, settings::remote(repo)?.as_ref());
    main.map_err(|error| Error::because("find the main branch", &error))
}

/// The work of an ended run in a workspace.
enum Work {
    /// Nobody needs it, for this reason.
    Unneeded(&'static str),
    /// It is not in the main branch.
    Open,
    /// Another host has newer work, which is not in the main branch.
    Newer,
    /// Its branch is gone.
    Gone,
    /// Its branch cannot be read.
    Unread,
}

fn work_of(repo: &Repo, main: Option<CommitId>, state: &State, context: &Context) -> Work {
    let work = match repo.branch_head(&context.branch()) {
        Ok(Some(work)) => work,
        Ok(None) => return Work::Gone,
        Err(_) => return Work::Unread,
    };
    let has = |commit| {
        let landed = |main| repo.landed(commit, main).is_ok_and(|landed| landed.is_some());
        main.is_some_and(|main| repo.descends(main, commit) || landed(main))
    };
    let known = state.workspaces.values().find(|one| one.name.as_str() == FLOW);
    let newest = known.and_then(|known| CommitId::parse_hex(known.head_sha.as_bytes()));
    if newest.is_some_and(|newest| !repo.descends(work, newest) && !has(newest)) {
        return Work::Newer;
    }
    if work == context.base() {
        return Work::Unneeded("its work branch is at its base");
    }
    if has(work) { Work::Unneeded("its work is in the main branch") } else { Work::Open }
}

fn workspace(
    repo: &Repo,
    workspaces: &Workspaces<'_>,
    wanted: &CleanOptions,
    state: &State,
    context: &Context,
) -> Item {
    let run = &state.run;
    let (slug, age, handle) = (&run.slug, age(wanted.now, run), context.handle());
    let mut item = Item::new(Kind::Workspace, handle.as_str());
    (item.branch, item.age) = (Some(context.branch_name.clone()), Some(age));
    let remove = format!("aynig workspace remove --apply {handle}");
    if age < wanted.older_than.unwrap_or(AGE) {
        return item.stays(format!("run {slug} has ended, and not long ago"), remove);
    }
    let main = wanted.main.as_ref().map(|(_, main)| *main);
    let ended = |why: &str| format!("run {slug} has ended, and {why}");
    let why = match work_of(repo, main, state, context) {
        Work::Unneeded(why) => why,
        Work::Open => {
            let known = state.workspaces.values().find(|one| one.name.as_str() == FLOW);
            let is_published = known.is_some_and(|known| published_now(repo, state, known).is_some());
            let next = match run.decided_by {
                _ if run.verdict != Some(Verdict::Succeeded) => remove,
                DecidedBy::Remote(_) if !is_published => format!("aynig publish {slug}"),
                _ => format!("aynig land {}", shell_quote(&context.branch_name)),
            };
            return item.stays(ended("its work is not in the main branch"), next);
        }
        Work::Newer => {
            return item.stays(ended("another host has newer work of it"), format!("aynig publish {slug}"));
        }
        Work::Gone => return item.stays(ended("its work branch is gone"), remove),
        Work::Unread => return item.stays(ended("its work branch cannot be read"), "aynig doctor"),
    };
    item.goes(ended(why)).carried_out(wanted, || remove_it(workspaces, context))
}

/// Seconds since a run changed last.
fn age(now: i64, run: &Run) -> u64 {
    let seconds = now.saturating_sub(run.updated_at.millis().div_euclid(1000));
    u64::try_from(seconds).unwrap_or(0)
}

/// Whether this is the last state of a driver of a run.
fn rests(repo: &Repo, run: &Run, commit: CommitId) -> bool {
    let Ok(stored) = repo.commit(commit) else { return false };
    let Head::Ready(event) = Head::read(&stored.facts()) else { return false };
    match run.kind {
        RunKind::Flow => event.state.as_str() == DONE,
        RunKind::Graph => {
            let of_run = event.message.trailers.last(RUN_KEY).and_then(|id| RunId::parse(id.to_str().ok()?));
            event.state.as_str() == IDLE && of_run == Some(run.id)
        }
    }
}

fn item(
    repo: &Repo,
    wanted: &CleanOptions,
    run: &Run,
    (place, branch, known): (&Place, &BranchName, CommitId),
) -> Item {
    let age = age(wanted.now, run);
    let at = match place {
        Place::Here => String::new(),
        Place::Remote(remote) => format!(" at {remote}"),
    };
    let mut item = Item::new(Kind::Driver, format!("{branch}{at}"));
    item.age = Some(age);
    let slug = &run.slug;
    if age < wanted.older_than.unwrap_or(AGE) {
        let next = "aynig clean --runs --older-than DURATION --apply";
        return item.stays(format!("run {slug} has ended, and not long ago"), next);
    }
    let shows = match run.kind {
        RunKind::Flow => "flow",
        RunKind::Graph => "orch",
    };
    let why = format!("run {slug} has ended, and its ledger keeps it: `aynig {shows} show {slug}`");
    item.goes(why).carried_out(wanted, || {
        let head = runs::head(repo, run.id).map_err(|error| error.message)?;
        let now = head.map(|head| Tip::read_run(repo, run.id, head)).transpose();
        match now.map_err(|error| error_chain(&error))? {
            Some(tip) if tip.state.run.status.is_ended() => remove(repo, place, branch, known).map(|()| None),
            _ => Err("the run was resumed".to_owned()),
        }
    })
}

fn remove(repo: &Repo, place: &Place, branch: &BranchName, known: CommitId) -> Result<(), String> {
    let gone = |name| RefChange { name, expected: Some(known), new: None };
    let decided = [gone(branch.full_ref())];
    let moved = match place {
        Place::Here => repo.swap_together(&decided, "aynig: clean").map_err(|error| error_chain(&error))?,
        Place::Remote(remote) => {
            let moved = repo.move_together(remote, &decided, PATIENCE);
            moved.map_err(|error| error_chain(&error))?
        }
    };
    if let Together::Lost { actual: Some(_), .. } = moved {
        return Err("it moved meanwhile; look again".to_owned());
    }
    if let Place::Remote(remote) = place {
        // The next fetch removes it, if another process has it now.
        drop(repo.swap_together(&[gone(fetched_ref(remote, branch))], "aynig: clean"));
    }
    Ok(())
}
