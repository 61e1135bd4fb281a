//! The work of a run: whether it may be published and landed (CONTRACT 21.13).

use crate::contract::ids::{BranchName, CommitId};
use crate::git::Repo;
use crate::ledger::fetch::fetch;
use crate::ledger::operate::here;
use crate::ledger::runs;
use crate::model::approval::Answer;
use crate::model::run::Verdict;
use crate::model::state::State;
use crate::model::step::{Opcode, Outcome, Step};
use crate::runner::authority::Authority;
use crate::words::error_chain;

use super::error::Error;
use super::settings;

/// The state of the run that a work branch belongs to, and `SLUG/NAME` of the workspace. The remote that decides is asked
/// for ledgers, if it can be.
pub(super) fn of_run(repo: &Repo, authority: &Authority, branch: &BranchName) -> Option<(State, String)> {
    let prefix = settings::work_prefix(repo).ok()?;
    let branch = branch.to_string();
    let handle = branch.strip_prefix(&prefix)?;
    let (slug, name) = handle.split_once('/')?;
    if let Some(remote) = authority.source()
        && let Err(error) = fetch(repo, remote)
    {
        tracing::debug!(error = error_chain(&error), "ledgers are as they were known here");
    }
    let state = here(repo, runs::find(repo, slug).ok()?).ok()?.state;
    let is_its = state.run.slug.as_str() == slug
        && state.workspaces.values().any(|workspace| workspace.name.as_str() == name);
    is_its.then(|| (state, handle.to_owned()))
}

/// A warning about commits on the work branch of an ended run that no step of it has made or seen.
pub(super) fn by_hand(repo: &Repo, state: &State, head: CommitId) -> Option<String> {
    state.run.verdict?;
    let of_step = |step: &Step| CommitId::parse_hex(step.record.as_ref()?.head.as_ref()?.as_bytes());
    let approved = state.approvals.values().filter(|one| {
        one.resolution.as_ref().is_some_and(|resolution| resolution.status == Answer::Approved)
    });
    let heads =
        approved.filter_map(|one| CommitId::parse_hex(one.tool.args.get("head")?.as_str()?.as_bytes()));
    let last = state.steps.values().rev().find_map(of_step)?;
    // A person may have approved what was put on top.
    let last = heads.fold(last, |last, head| if repo.descends(head, last) { head } else { last });
    let is_beyond = head != last && repo.descends(head, last);
    is_beyond.then(|| {
        let (slug, last, head) = (&state.run.slug, last.short(), head.short());
        format!("run {slug} ended at {last}, and its branch has commits since then: `git log {last}..{head}`")
    })
}

/// Refuses to land work that nobody approved, unless that is wanted. Returns a warning.
pub(super) fn may_land(state: &State, handle: &str, anyway: bool) -> Result<Option<String>, Error> {
    match obstacle(state) {
        Some(why) if !anyway => Err(unsuccessful(&why, state.run.slug.as_str(), "landed")
            .hint("or land the work as it is: the same again with `--unsuccessful`")),
        Some(why) => Ok(Some(why)),
        None => Ok(open_step(state, handle, "landed")),
    }
}

/// The refusal to take the work of a run that has not succeeded.
pub(super) fn unsuccessful(why: &str, slug: &str, done: &str) -> Error {
    Error::failed(format!("{why}; nothing was {done}")).hint(format!(
        "`aynig flow log {slug}` shows the reason; `aynig flow resume {slug} --from STEP` carries the run on"
    ))
}

/// The reason why the work of a run is published and landed only on request: an end without success, or a step that broke
/// its policy since the last rollback of a run that has not ended.
pub(super) fn obstacle(state: &State) -> Option<String> {
    let slug = &state.run.slug;
    match state.run.verdict {
        Some(Verdict::Succeeded) => None,
        Some(verdict) => Some(format!("run {slug} has not succeeded ({})", verdict.word())),
        None => {
            let is_rollback =
                |step: &&Step| step.opcode == Opcode::Rollback && step.outcome == Some(Outcome::Completed);
            let since = state.steps.values().rev().take_while(|step| !is_rollback(step));
            let broken = since.into_iter().find(|step| step.outcome == Some(Outcome::KilledPolicy))?;
            Some(format!("step {} ({}) of run {slug} ended as killed_policy", broken.number, broken.id))
        }
    }
}

/// A warning about a step under way, or an open gate. `done` is what is done with the work.
pub(super) fn open_step(state: &State, handle: &str, done: &str) -> Option<String> {
    let step = state.steps.values().next_back().filter(|step| step.ended_at.is_none())?;
    Some(match step.opcode {
        Opcode::Gate => {
            format!("the gate {} of {handle} waits for an answer; what is {done} was not approved", step.id)
        }
        _ => format!(
            "step {} ({}) of {handle} is under way; what it does from now on is not {done}",
            step.number, step.id
        ),
    })
}
