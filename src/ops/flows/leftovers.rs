//! Drivers of runs that have ended, for `aynig clean` (CONTRACT 20.35).
//!
//! Invariant: a driver goes only where its run has ended by the ledger, it rests as ended, and nobody moves it meanwhile.
//! The ledger keeps the run.

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
use crate::words::error_chain;

use super::known_driver;

/// The age of an ended run, in seconds, from which its driver goes: a day.
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
    let seconds = wanted.now.saturating_sub(run.updated_at.millis().div_euclid(1000));
    let age = u64::try_from(seconds).unwrap_or(0);
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
