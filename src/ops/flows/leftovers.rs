//! Drivers and workspaces of runs that have ended, for `aynig clean` (CONTRACT 20.35).
//!
//! Invariant: a workspace goes only if the main branch has its work, or if there is none; all of it is saved before.
//! A driver goes only where its run has ended by the ledger, it rests as ended, and nobody moves it meanwhile.
//! The ledger keeps the run.

use crate::clock;
use crate::contract::head::Head;
use crate::contract::ids::{BranchName, CommitId};
use crate::contract::layout::fetched_ref;
use crate::engine::driver::DONE;
use crate::git::remote::PATIENCE;
use crate::git::{RefChange, Repo, Together};
use crate::ledger::{Place, Tip, runs as ledgers};
use crate::model::run::{Run, RunKind};
use crate::ops::error::Error;
use crate::runner::clean::{CleanOptions, Item, Kind};
use crate::words::{error_chain, shell_quote};
use crate::workspace::Workspaces;
use crate::workspace::context::Context;

use super::{FLOW, known_driver};

/// The age of an ended run, in seconds, from which its driver and its workspace go: a day.
const AGE: u64 = 86_400;

/// Lists the drivers of ended runs, and removes those that `wanted` says: at the place that decides the run, and here.
pub fn drivers(repo: &Repo, wanted: &CleanOptions) -> Result<Vec<Item>, Error> {
    let mut items = Vec::new();
    if !wanted.runs {
        return Ok(items);
    }
    for (id, head) in ledgers::all(repo)? {
        let Ok(tip) = Tip::read_run(repo, id, head) else { continue };
        let run = &tip.state.run;
        if run.kind != RunKind::Flow || !run.status.is_ended() {
            continue;
        }
        if let Some((place, branch, known)) = known_driver(repo, run)?.filter(|known| rests(repo, known.2)) {
            items.push(item(repo, wanted, run, (&place, &branch, known)));
        }
    }
    Ok(items)
}

/// Lists the workspaces of ended runs on this host, and removes those that `wanted` says.
pub fn workspaces(
    repo: &Repo,
    workspaces: &Workspaces<'_>,
    wanted: &CleanOptions,
) -> Result<Vec<Item>, Error> {
    if !wanted.workspaces {
        return Ok(Vec::new());
    }
    let all = ended(repo, workspaces)?;
    Ok(all.iter().map(|(run, context)| workspace(repo, workspaces, wanted, run, context)).collect())
}

/// The workspaces of ended runs on this host.
fn ended(repo: &Repo, workspaces: &Workspaces<'_>) -> Result<Vec<(Run, Context)>, Error> {
    let tips = ledgers::all(repo)?.into_iter().filter_map(|(id, head)| Tip::read_run(repo, id, head).ok());
    let runs = tips.map(|tip| tip.state.run);
    let ended = runs.filter(|run| run.kind == RunKind::Flow && run.status.is_ended());
    let found = ended.filter_map(|run| {
        let context = workspaces.find(format!("{}/{FLOW}", run.slug).as_ref()).ok()?;
        context.worktree_path.is_dir().then_some((run, context))
    });
    Ok(found.collect())
}

/// The workspaces of runs that ended a day ago: those that `aynig clean` removes, and those that stay.
pub fn old_workspaces(repo: &Repo, workspaces: &Workspaces<'_>) -> Result<(Vec<String>, Vec<String>), Error> {
    let main = repo.main_branch(None).map_err(|error| Error::because("find the main branch", &error))?;
    let main = main.map(|(_, main)| main);
    let now = clock::wall_seconds();
    let all = ended(repo, workspaces)?.into_iter();
    let old = all.filter(|(run, _)| age(now, run) >= AGE);
    let (go, stay): (Vec<_>, Vec<_>) =
        old.partition(|(_, context)| unneeded(repo, main, context).is_ok_and(|why| why.is_some()));
    let handles = |all: Vec<(Run, Context)>| all.iter().map(|(_, context)| context.handle()).collect();
    Ok((handles(go), handles(stay)))
}

/// Why nobody needs the work of a workspace. `Err`: its work branch is gone.
fn unneeded(repo: &Repo, main: Option<CommitId>, context: &Context) -> Result<Option<&'static str>, ()> {
    let Ok(Some(work)) = repo.branch_head(&context.branch()) else { return Err(()) };
    let has_landed =
        |main| repo.descends(main, work) || repo.landed(work, main).is_ok_and(|landed| landed.is_some());
    Ok(if work == context.base() {
        Some("its work branch is at its base")
    } else {
        main.is_some_and(has_landed).then_some("its work is in the main branch")
    })
}

fn workspace(
    repo: &Repo,
    workspaces: &Workspaces<'_>,
    wanted: &CleanOptions,
    run: &Run,
    context: &Context,
) -> Item {
    let (slug, age, handle) = (&run.slug, age(wanted.now, run), context.handle());
    let mut item = Item::new(Kind::Workspace, handle.as_str());
    (item.branch, item.age) = (Some(context.branch_name.clone()), Some(age));
    let remove = format!("aynig workspace remove --apply {handle}");
    if age < wanted.older_than.unwrap_or(AGE) {
        return item.stays(format!("run {slug} has ended, and not long ago"), remove);
    }
    let why = match unneeded(repo, wanted.main.as_ref().map(|(_, main)| *main), context) {
        Ok(Some(why)) => why,
        Ok(None) => {
            let why = format!("run {slug} has ended, and its work is not in the main branch");
            return item.stays(why, format!("aynig land {}", shell_quote(&context.branch_name)));
        }
        Err(()) => return item.stays(format!("run {slug} has ended, and its work branch is gone"), remove),
    };
    let why = format!("run {slug} has ended, and {why}");
    item.goes(why).carried_out(wanted, || match workspaces.remove(context) {
        Ok(removal) => Ok(removal.archive.map(|archive| format!("its branch is {archive} now"))),
        Err(refusal) => Err(refusal.message),
    })
}

/// Seconds since a run changed last.
fn age(now: i64, run: &Run) -> u64 {
    let seconds = now.saturating_sub(run.updated_at.millis().div_euclid(1000));
    u64::try_from(seconds).unwrap_or(0)
}

/// Whether this is the last state of a driver.
fn rests(repo: &Repo, commit: CommitId) -> bool {
    let stored = repo.commit(commit).ok();
    let head = stored.map(|stored| Head::read(&stored.facts()));
    matches!(head, Some(Head::Ready(event)) if event.state.to_string() == DONE)
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
    let why = format!("run {slug} has ended, and its ledger keeps it: `aynig flow show {slug}`");
    item.goes(why).carried_out(wanted, || remove(repo, place, branch, known).map(|()| None))
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
