//! The work of a run: whether it may be published and landed (CONTRACT 21.13).

use crate::contract::ids::{BranchName, CommitId, RemoteName};
use crate::git::Repo;
use crate::git::address::key_of;
use crate::ledger::fetch::fetch;
use crate::ledger::operate::here;
use crate::ledger::{Place, Tip, runs};
use crate::model::approval::Answer;
use crate::model::run::{DecidedBy, RunKind, Verdict};
use crate::model::state::State;
use crate::model::step::{Opcode, Outcome, Step};
use crate::model::workspace::{Publication, Workspace, WorkspaceStatus};
use crate::runner::authority::Authority;
use crate::words::{error_chain, shell_quote};

use super::error::Error;
use super::flows::gate;
use super::settings;

/// The state of the run whose work is on a branch, and `SLUG/NAME` of the workspace: its work branch, or at the remote that
/// decides one that it was published as. That remote is asked for ledgers, if it can be.
pub(super) fn of_run(repo: &Repo, authority: &Authority, branch: &BranchName) -> Option<(State, String)> {
    let prefix = settings::work_prefix(repo).ok()?;
    let branch = branch.to_string();
    if let Some(remote) = authority.source()
        && let Err(error) = fetch(repo, remote)
    {
        tracing::debug!(error = error_chain(&error), "ledgers are as they were known here");
    }
    let own = branch.strip_prefix(&prefix).and_then(|handle| run_of_handle(repo, handle));
    own.or_else(|| published_as(repo, authority.source()?, &branch))
}

/// The run whose workspace this is.
fn run_of_handle(repo: &Repo, handle: &str) -> Option<(State, String)> {
    let (slug, name) = handle.split_once('/')?;
    let state = here(repo, runs::find(repo, slug).ok()?).ok()?.state;
    let is_its = state.run.slug.as_str() == slug
        && state.workspaces.values().any(|workspace| workspace.name.as_str() == name);
    is_its.then(|| (state, handle.to_owned()))
}

/// The newest run that was published as this branch of a remote.
fn published_as(repo: &Repo, remote: &RemoteName, branch: &str) -> Option<(State, String)> {
    let key = key_of(&repo.address_of(remote)?);
    let is_it = |one: &Publication| one.branch == branch && one.remote == key;
    let its = |(run, head)| Some(Tip::read_workspaces(repo, run, head).ok()?.state);
    let published =
        |state: &State| state.workspaces.values().any(|workspace| workspace.published.iter().any(is_it));
    let all = runs::all(repo).ok()?.into_iter().filter_map(its).filter(published);
    let run = all.max_by_key(|state| state.run.created_at)?.run.id;
    let state = here(repo, run).ok()?.state;
    let name = state.workspaces.values().find(|one| one.published.iter().any(is_it))?.name.to_string();
    let handle = format!("{}/{name}", state.run.slug);
    Some((state, handle))
}

/// A warning about commits on the work branch of an ended run that no step of it has made or seen.
pub(super) fn by_hand(repo: &Repo, state: &State, head: CommitId) -> Option<String> {
    state.run.verdict?;
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

/// The commit of the work branch after a step.
fn of_step(step: &Step) -> Option<CommitId> {
    CommitId::parse_hex(step.record.as_ref()?.head.as_ref()?.as_bytes())
}

/// The workspace of a run by its name.
fn workspace_of<'a>(state: &'a State, handle: &str) -> Option<&'a Workspace> {
    let (_, name) = handle.split_once('/')?;
    state.workspaces.values().find(|workspace| workspace.name.as_str() == name)
}

/// Whether a commit has the newest work of a run, and no step that was rolled back. One commit with all changes has the work
/// that its record names.
fn is_current(repo: &Repo, state: &State, workspace: &Workspace, commit: CommitId) -> bool {
    let Some(newest) = CommitId::parse_hex(&workspace.head_sha) else { return false };
    if commit == newest {
        return true;
    }
    let squashed: Vec<CommitId> = workspace
        .published
        .iter()
        .filter(|one| one.squashed)
        .filter_map(|one| CommitId::parse_hex(&one.commit).zip(CommitId::parse_hex(&one.head)))
        .filter(|(published, _)| repo.descends(commit, *published))
        .map(|(_, head)| head)
        .collect();
    let has =
        |wanted| repo.descends(commit, wanted) || squashed.iter().any(|head| repo.descends(*head, wanted));
    let mut of_steps = state.steps.values().filter_map(of_step);
    has(newest) && !of_steps.any(|head| !repo.descends(newest, head) && has(head))
}

/// The publication with the newest work of a run, by the ledger: at the remote that decides the run, if one does.
pub(in crate::ops) fn published_now<'a>(
    repo: &Repo,
    state: &State,
    workspace: &'a Workspace,
) -> Option<&'a Publication> {
    let place = Place::of(repo, state.run.id, &state.run.decided_by).ok();
    let key = place.and_then(|place| match place {
        Place::Remote(remote) => repo.address_of(&remote).map(|address| key_of(&address)),
        Place::Here => None,
    });
    let is_there = |one: &&Publication| key.as_ref().is_none_or(|key| one.remote == *key);
    let is_newest = |one: &&Publication| {
        let Some(head) = CommitId::parse_hex(&one.head) else { return false };
        // Commits of people that are not here were put on top, as far as is known.
        let is_elsewhere = || {
            repo.commit(head).is_err() && !state.steps.values().filter_map(of_step).any(|step| step == head)
        };
        is_current(repo, state, workspace, head) || is_elsewhere()
    };
    let newest = workspace.published.iter().filter(is_there).filter(is_newest);
    newest.max_by_key(|one| one.branch == workspace.branch_name)
}

/// Refuses to land a commit that lacks the newest work of its run, or has what was rolled back (CONTRACT 21.14).
pub(super) fn check_newest(
    repo: &Repo,
    authority: &Authority,
    (state, handle): (&State, &str),
    (branch, head): (&BranchName, CommitId),
) -> Result<(), Error> {
    let Some(workspace) = workspace_of(state, handle) else { return Ok(()) };
    let Some(newest) = CommitId::parse_hex(&workspace.head_sha) else { return Ok(()) };
    if is_current(repo, state, workspace, head) {
        return Ok(());
    }
    let slug = &state.run.slug;
    let stands = if state.run.status.is_ended() { "ended" } else { "stands" };
    let at = authority.source().map(|remote| format!(" on {remote}")).unwrap_or_default();
    let (old, new) = (head.short(), newest.short());
    let error = Error::failed(format!(
        "{branch}{at} is at {old}, and run {slug} {stands} at {new}; nothing was landed"
    ));
    let is_decided_there = matches!(state.run.decided_by, DecidedBy::Remote(_));
    let anyway = if obstacle(state).is_some() { " --unsuccessful" } else { "" };
    Err(match workspace.status {
        WorkspaceStatus::Removed => error.hint(format!("`aynig flow show {slug}` shows its work")),
        WorkspaceStatus::Ready if is_decided_there => {
            let other = branch.to_string();
            let other = Some(&other).filter(|other| **other != workspace.branch_name);
            let to = other.map(|other| format!(" --branch {}", shell_quote(other))).unwrap_or_default();
            error.hint(format!("`aynig publish {slug}{to}{anyway}` brings it there; then land again"))
        }
        WorkspaceStatus::Ready => error.hint(format!("`git log {old}..{new}` shows what it lacks")).hint(
            format!("or `aynig workspace snapshot {handle}` makes the branch as it is the work of the run"),
        ),
    })
}

/// Refuses to land work that nobody approved, unless that is wanted. Returns a warning.
pub(super) fn may_land(state: &State, handle: &str, anyway: bool) -> Result<Option<String>, Error> {
    let as_it_is = "or land the work as it is: the same again with `--unsuccessful`";
    let slug = state.run.slug.as_str();
    match (obstacle(state), unended(state)) {
        (Some(why), _) if !anyway => Err(unsuccessful(&why, slug, "landed").hint(as_it_is)),
        (None, Some(why)) if !anyway => Err(Error::failed(format!("{why}; nothing was landed"))
            .hint(format!("`aynig flow show {slug}` shows where it stands"))
            .hint(as_it_is)),
        (Some(why), _) | (None, Some(why)) => Ok(Some(why)),
        (None, None) => Ok(open_step(state, handle, "landed")),
    }
}

/// The words for a flow run that has not ended, and waits at no gate.
fn unended(state: &State) -> Option<String> {
    let run = &state.run;
    let goes_on = run.kind == RunKind::Flow && !run.status.is_ended() && gate::open(state).is_none();
    goes_on.then(|| format!("run {} has not ended", run.slug))
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

/// A warning about a step under way, an open gate, or a step that is due. `done` is what is done with the work.
pub(super) fn open_step(state: &State, handle: &str, done: &str) -> Option<String> {
    let step = state.steps.values().next_back().filter(|step| step.ended_at.is_none());
    match step {
        Some(step) if step.opcode != Opcode::Gate => Some(format!(
            "step {} ({}) of {handle} is under way; what it does from now on is not {done}",
            step.number, step.id
        )),
        Some(step) if gate::open(state).is_some() => Some(format!(
            "the gate {} of {handle} waits for an answer; what is {done} was not approved",
            step.id
        )),
        _ => unended(state).map(|why| format!("{why}; what it does from now on is not {done}")),
    }
}
