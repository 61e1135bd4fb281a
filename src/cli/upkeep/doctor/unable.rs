//! Checks for requests that hosts have handed back, and that no host has taken.

use aynig::clock;
use aynig::contract::ids::{BranchName, StateName};
use aynig::contract::unable::mends;
use aynig::git::Repo;
use aynig::ops::app::Process;
use aynig::ops::error::Error;
use aynig::ops::flows::driven;
use aynig::ops::run::survey_options;
use aynig::ops::status::{Filter, Query, look};
use aynig::ops::view::branch::BranchView;
use aynig::runner::authority::Authority;
use aynig::runner::survey::words::requests_handed_back;

use crate::cli::upkeep::doctor::Finding;

/// How many of them are named.
const MOST: usize = 5;

/// Names the first ones, each with the commands that mend it.
pub(super) fn check(repo: &Repo, process: &Process, authority: &Authority) -> Vec<Finding> {
    const CHECK: &str = "unable";
    let (rows, runs) = match found(repo, process, authority) {
        Ok(found) => found,
        Err(error) => return vec![Finding::of(CHECK, error)],
    };
    let finding = |row: &BranchView| {
        let run = runs.iter().find(|run| run.branch == row.branch);
        let text = run.map_or_else(
            || {
                let hosts = row.unable.iter().map(ToString::to_string).collect::<Vec<_>>();
                format!("{}: no host can do it: {}", row.branch, hosts.join("; "))
            },
            |run| format!("run {} ({}): {}", run.slug, run.label, run.words),
        );
        let state = row.state.as_deref().and_then(|state| StateName::parse(state).ok());
        let again = BranchName::new(row.branch.as_str())
            .map(|branch| requests_handed_back(&branch, authority.source(), state.as_ref()));
        let lines = mends(row.unable.iter().map(|one| one.why.as_str())).into_iter().chain(again);
        Finding::warning(CHECK, text, lines.collect::<Vec<_>>().join(" && "))
    };
    let mut findings: Vec<Finding> = rows.iter().take(MOST).map(finding).collect();
    if rows.len() > MOST {
        let text = format!("{} more requests that no host can do", rows.len() - MOST);
        findings.push(Finding::warning(CHECK, text, "aynig status --all"));
    }
    findings
}

type Found = (Vec<BranchView>, Vec<aynig::ops::view::driven::DrivenView>);

/// The branches, and the runs that they drive.
fn found(repo: &Repo, process: &Process, authority: &Authority) -> Result<Found, Error> {
    let options = survey_options(repo, process, None)?;
    let query = Query { options, one: None, named: false, filter: Filter::default() };
    let mut rows = look(repo, authority, &query, clock::wall_seconds())?.rows;
    rows.retain(BranchView::is_untaken);
    let runs = driven(repo, &rows)?;
    Ok((rows, runs))
}
