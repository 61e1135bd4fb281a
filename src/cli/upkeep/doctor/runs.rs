//! Checks of orchestrated runs: their versions, their ledgers, and their files on this host.

use aynig::contract::ids::RemoteName;
use aynig::git::Repo;
use aynig::ops::flows;
use aynig::ops::runs::leftovers::{Condition, condition, lost_at};
use aynig::ops::runs::{RunId, all};
use aynig::runner::authority::Authority;
use aynig::runner::pluralize;

use crate::cli::upkeep::doctor::Finding;

/// Names a run that the deciding remote has, and does not decide by its address.
pub(crate) fn moved(repo: &Repo, authority: Option<&Authority>) -> Option<Finding> {
    const CHECK: &str = "address";
    let authority = authority?;
    match all(repo).and_then(|all| flows::moved(repo, authority, &all)) {
        Ok(moved) => moved.map(|(what, hint)| Finding::warning(CHECK, what, hint)),
        Err(error) => Some(Finding::of(CHECK, error)),
    }
}

/// Names the runs that the deciding remote has lost.
pub(crate) fn lost(repo: &Repo, remote: &RemoteName) -> Option<Finding> {
    const CHECK: &str = "runs";
    match lost_at(repo, remote) {
        Ok(lost) => lost.map(|(slugs, next)| {
            let runs = pluralize(slugs.len(), "run");
            let text = format!("{remote} has the ledger of {runs} no more: {}", slugs.join(", "));
            Finding::warning(CHECK, text, next)
        }),
        Err(error) => Some(Finding::of(CHECK, error)),
    }
}

/// Checks the runs; reports nothing if there are none.
pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    const CHECK: &str = "runs";
    let Condition { count, foreign, unreadable, damaged, held } = match condition(repo) {
        Ok(condition) => condition,
        Err(error) => return vec![Finding::of(CHECK, error)],
    };
    let held = held.into_iter().map(|one| Finding::warning(CHECK, one.words, one.next.join("; ")));
    let mut findings: Vec<Finding> = held.collect();
    let mut warn = |runs: &[RunId], what: &str, next: &dyn Fn(RunId) -> String| {
        let Some(first) = runs.first() else { return };
        let names: Vec<String> = runs.iter().map(ToString::to_string).collect();
        let text = format!("{} {what}: {}", pluralize(runs.len(), "run"), names.join(", "));
        findings.push(Finding::warning(CHECK, text, next(*first)));
    };
    let mends = |run: RunId| format!("aynig orch rebuild {run}");
    warn(&foreign, "of another version", &|_| {
        "aynig orch run list, with the version that made them".to_owned()
    });
    warn(&unreadable, "with a damaged ledger", &|run| format!("aynig orch doctor {run}"));
    warn(&damaged, "with damaged files", &mends);
    match flows::driverless(repo) {
        Ok(slugs) => findings.extend(slugs.iter().map(|slug| {
            let text = format!("the driver of run {slug} is gone, so no pass carries it on");
            Finding::warning(CHECK, text, format!("aynig flow resume {slug}"))
        })),
        Err(error) => findings.push(Finding::of(CHECK, error)),
    }
    if findings.is_empty() && count > 0 {
        findings.push(Finding::ok(CHECK, format!("{}, ledgers and files readable", pluralize(count, "run"))));
    }
    findings
}
