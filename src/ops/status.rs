//! Reads branches as they are at this moment.
//!
//! Invariant: it uses the survey of a pass, so it shows what `aynig run` would do, and changes
//! nothing. The texts of reasons are in `runner::survey::words`.

use std::collections::HashMap;

use globset::GlobSet;

use crate::clock;
use crate::contract::head::Head;
use crate::contract::ids::{BranchName, CommitId};
use crate::engine::driver::TURN;
use crate::git::Repo;
use crate::runner::authority::Authority;
use crate::runner::options::Options;
use crate::runner::passes::deliver::{Prospect, prospect};
use crate::runner::passes::pass::PassError;
use crate::runner::survey::trust;
use crate::runner::survey::verdict::Reason;
use crate::runner::survey::words::bounded;
use crate::runner::survey::{Branch, Question, Survey, Verdict, survey};
use crate::words::no_commit;

use super::app::Process;
use super::error::Error;
use super::outer::OuterCommand;
use super::run::survey_options;
use super::view::branch::{Act, BranchView, WAITS};
use super::view::deferred::deferred;
use super::view::driven::DrivenView;
use super::view::row::row;
use super::{missing, settings, workspace};

/// The most commits on top of a state that are searched for it.
const COVER: usize = 100;

/// Selects the branches to look at.
#[derive(Debug, Clone)]
pub struct Query {
    /// The options of the survey.
    pub options: Options,
    /// The branch, if exactly one is requested.
    pub one: Option<BranchName>,
    /// Whether branches were requested by name. Each of them is then shown, even without a state.
    pub named: bool,
    /// Which of the selected branches are shown.
    pub filter: Filter,
}

/// Selects branches by what they are. An empty list selects all.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// The states that HEAD declares.
    pub states: GlobSet,
    /// The kinds.
    pub kinds: Vec<String>,
}

impl Filter {
    /// Whether all branches are shown.
    pub fn is_empty(&self) -> bool {
        self.states.is_empty() && self.kinds.is_empty()
    }

    fn admits(&self, row: &BranchView) -> bool {
        self.admits_as(row, row.label())
    }

    fn admits_as(&self, row: &BranchView, label: &str) -> bool {
        let state = row.state.as_deref().is_some_and(|state| self.states.is_match(state));
        let kind = self.kinds.iter().any(|kind| kind == label);
        (self.states.is_empty() || state) && (self.kinds.is_empty() || kind)
    }
}

/// The result of a look.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// The branches.
    pub rows: Vec<BranchView>,
    /// The number of branches that declare no state and are only counted.
    pub unmanaged: usize,
    /// How to make the first commit, if no branch has one.
    pub empty: Option<&'static str>,
    /// The number of workspaces.
    pub workspaces: usize,
    /// The drivers of live turns, also if branches that wait were asked for: a node may ask during its turn.
    pub turns: Vec<BranchName>,
    /// The number of open requests of these turns, if they were asked for.
    pub asking: usize,
    /// The flow runs whose drivers are among the branches, if they were asked for.
    pub runs: Vec<DrivenView>,
}

impl Seen {
    /// Returns a copy without the values that change with time alone, so that two looks can be
    /// compared.
    pub fn timeless(&self) -> Self {
        Self { rows: self.rows.iter().map(BranchView::timeless).collect(), ..self.clone() }
    }
}

/// Takes one look. A remote counts as of the last fetch.
pub fn look(repo: &Repo, authority: &Authority, query: &Query, now: i64) -> Result<Seen, Error> {
    // One ref listing; without it the branches can still be shown. Before the branches: a sender may see a newer HEAD.
    let slots = authority.slots(repo).unwrap_or_default();
    let question = Question { repo, authority, options: &query.options, now, notes: false };
    let Survey { branches, commands_from, .. } = survey(&question)?;
    let is_empty = branches.is_empty() && query.options.selection.only.is_empty();
    let empty = is_empty.then(|| no_commit(repo.is_bare()));
    let mut seen = Seen { empty, workspaces: workspace::count(repo), ..Seen::default() };
    let unsigned = trust::unsigned_stalls(repo, &query.options.trust, &branches);
    let slots: HashMap<&BranchName, CommitId> =
        slots.iter().filter_map(|tip| Some((&tip.branch, tip.target.clone().ok()?))).collect();
    for branch in &branches {
        if !query.options.selection.admits(&branch.name) {
            continue;
        }
        if matches!(branch.verdict, Verdict::Unmanaged) && !query.named && !slots.contains_key(&branch.name) {
            seen.unmanaged += usize::from(query.filter.is_empty());
            continue;
        }
        let mut row = row(
            repo,
            authority,
            commands_from.as_deref(),
            branch,
            branch.head.and_then(|head| unsigned.get(&head)).map(String::as_str),
            &query.options,
            now,
        );
        if let Some(slot) = slots.get(&branch.name) {
            let trust = &query.options.trust;
            let stuck = match prospect(repo, authority, trust, commands_from.as_deref(), branch, *slot) {
                Prospect::Stuck(why) => Some(why),
                Prospect::Due => {
                    row.act = Act::Deliver;
                    None
                }
                Prospect::DueElsewhere | Prospect::Waits => None,
            };
            row.waited_for(deferred(repo, *slot, stuck));
        }
        let is_meant = query.filter.admits(&row) || query.filter.admits_as(&row, WAITS);
        if is_meant && row.label() == "working" && row.origin.as_deref() == Some(TURN) {
            seen.turns.push(branch.name.clone());
        }
        if query.filter.admits(&row) {
            seen.rows.push(row);
        }
    }
    // One branch can be searched in a moment, all of them cannot.
    if let [row] = seen.rows.as_mut_slice()
        && row.kind == "unmanaged"
        && let Some(reason) = covered(repo, authority, row)
    {
        row.reason = Some(reason);
    }
    match &query.one {
        Some(branch) if seen.rows.is_empty() => {
            Err(Error::failed(format!("branch {branch} vanished while it was looked at"))
                .hint("`git branch` lists the branches there are"))
        }
        Some(_) | None => Ok(seen),
    }
}

/// Looks at what a pass with these options would do now. A remote is fetched from, and nothing else is written.
pub fn preview(repo: &Repo, authority: &Authority, options: Options, named: bool) -> Result<Seen, Error> {
    authority.refresh(repo).map_err(PassError::from)?;
    trust::commands_from(repo, authority, &options.trust).map_err(PassError::from)?;
    let query = Query { options, one: None, named, filter: Filter::default() };
    look(repo, authority, &query, clock::wall_seconds())
}

/// Returns those of the branches that are parked: until a time, or by a bound.
pub fn parked(
    repo: &Repo,
    authority: &Authority,
    process: &Process,
    branches: &[BranchName],
) -> Result<Vec<BranchName>, Error> {
    if branches.is_empty() {
        return Ok(Vec::new());
    }
    let mut options = survey_options(repo, process, None)?;
    options.selection = settings::only(options.selection, branches.to_vec())?;
    let now = clock::wall_seconds();
    let survey = survey(&Question { repo, authority, options: &options, now, notes: false })
        .map_err(|error| Error::from(PassError::from(error)))?;
    let parked = |found: &Branch| matches!(found.verdict, Verdict::Parked { .. } | Verdict::Bounded { .. });
    Ok(survey.branches.into_iter().filter(parked).map(|found| found.name).collect())
}

/// Returns why a branch that would be run is not, if it has reached a bound (CONTRACT 11.16 to 11.19).
pub fn bound(repo: &Repo, authority: &Authority, process: &Process, branch: &BranchName) -> Option<String> {
    match &judged(repo, authority, process, branch)?.verdict {
        Verdict::Bounded { bound, .. } => Some(bounded(branch, authority.source(), bound)),
        _ => None,
    }
}

/// Returns why a state that was just set on the default branch is not run, and the command that runs it
/// (CONTRACT 11.13). A command sets states on its own branch, which somebody named.
pub fn unnamed_default(
    repo: &Repo,
    authority: &Authority,
    process: &Process,
    branch: &BranchName,
) -> Option<String> {
    let around = OuterCommand::of(repo).ok()?;
    let is_own = around.is_some_and(|around| around.branch == *branch);
    if is_own || repo.default_branch(authority.source()).as_ref() != Some(branch) {
        return None;
    }
    match &judged(repo, authority, process, branch)?.verdict {
        Verdict::Waiting { reason: reason @ Reason::DefaultBranch { .. }, .. } => Some(reason.to_string()),
        Verdict::Parked { trouble: Some(reason @ Reason::DefaultBranch { .. }), .. } => {
            Some(reason.to_string())
        }
        _ => None,
    }
}

/// Judges one branch as a plain `aynig run` here would.
fn judged(repo: &Repo, authority: &Authority, process: &Process, branch: &BranchName) -> Option<Branch> {
    let mut options = survey_options(repo, process, None).ok()?;
    options.selection = settings::only(options.selection, vec![branch.clone()]).ok()?;
    let now = clock::wall_seconds();
    let survey = survey(&Question { repo, authority, options: &options, now, notes: false }).ok()?;
    survey.branches.into_iter().find(|found| found.name == *branch)
}

/// Returns the advice for a branch whose waiting state is covered by commits without a state.
fn covered(repo: &Repo, authority: &Authority, row: &BranchView) -> Option<String> {
    let head = CommitId::parse_hex(row.commit.as_ref()?)?;
    let below = repo.history(head).take(COVER).map_while(Result::ok);
    let found = below.map(|stored| Head::read(&stored.facts())).find(|head| head.state().is_some())?;
    // A lease below is for its runner, or its recovery, to end.
    let Head::Ready(event) = found else { return None };
    let options = missing::options(repo, authority, &BranchName::new(row.branch.as_str()).ok()?);
    Some(format!(
        "HEAD declares no state, but its ancestor {} does ({}): `aynig set-state --retry{options}` asks for it again",
        event.commit.short(),
        event.state
    ))
}
