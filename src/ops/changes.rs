//! The changes of a workspace of a run, line by line.

use serde::Serialize;

use crate::contract::ids::{BranchName, CommitId};
use crate::git::Repo;
use crate::git::objects::patch::FileChange;
use crate::ledger::{Place, Tip, bring};
use crate::model::ids::RunId;
use crate::model::state::State;
use crate::model::workspace::Workspace;
use crate::words::error_chain;

use super::error::{Error, Kind};
use super::runs;

/// Changes between two commits.
#[derive(Debug, Serialize)]
pub struct Changes {
    /// The commit before.
    pub from: CommitId,
    /// The commit after.
    pub to: CommitId,
    /// The files that differ, by path.
    pub files: Vec<FileChange>,
}

/// The changes of a workspace: from its base to its newest commit, unless others are named. `node` is the name of the
/// workspace, if the run has several.
pub fn changes(
    repo: &Repo,
    run: RunId,
    node: Option<&str>,
    (from, to): (Option<&str>, Option<&str>),
) -> Result<Changes, Error> {
    let head = runs::head(repo, run)?;
    let head = head.ok_or_else(|| Error::new(Kind::NotFound, format!("there is no run {run}")))?;
    let state = Tip::read(repo, run, head).map_err(Error::from)?.state;
    let workspace = find(&state, node)?;
    let newest = newest(repo, &state, workspace);
    if let (Some(newest), Ok(place)) = (newest, Place::of(repo, run, &state.run.decided_by))
        && let Err(error) = bring(repo, &place, &state.run, &[newest])
    {
        tracing::debug!("{}", error_chain(&error));
    }
    let base = CommitId::parse_hex(workspace.base_sha.as_bytes());
    let commit = |named: Option<&str>, usual: Option<CommitId>| match named {
        Some(named) => repo
            .named_as_git_does(named)
            .map(|(_, commit)| commit)
            .map_err(|error| Error::usage(error.to_string())),
        None => usual.ok_or_else(|| Error::failed("the ledger names no commit of this workspace")),
    };
    let (from, to) = (commit(from, base)?, commit(to, newest)?);
    let tree = |commit: CommitId| {
        repo.commit(commit).map(|stored| stored.tree).map_err(|_| {
            let message = format!("the commit {} is not in this clone", commit.short());
            Error::new(Kind::NotFound, message).hint("the host that made it has it, until its run is pushed")
        })
    };
    let files = repo.file_changes(tree(from)?, tree(to)?);
    let files = files.map_err(|error| Error::because("compare the commits", &error))?;
    Ok(Changes { from, to, files })
}

/// The workspace with this name, or the only one.
fn find<'s>(state: &'s State, node: Option<&str>) -> Result<&'s Workspace, Error> {
    let mut all = state.workspaces.values();
    let found = match node {
        Some(name) => all.find(|workspace| workspace.name.as_str() == name),
        None => all.next().filter(|_| all.next().is_none()),
    };
    found.ok_or_else(|| {
        let names: Vec<&str> = state.workspaces.values().map(|one| one.name.as_str()).collect();
        let there = if names.is_empty() {
            "it has none yet".to_owned()
        } else {
            format!("it has {}", names.join(", "))
        };
        let slug = &state.run.slug;
        let message = match node {
            Some(name) => format!("run {slug} has no workspace {name}: {there}"),
            None => format!("the workspace of run {slug} is not clear: {there}"),
        };
        Error::new(Kind::NotFound, message)
    })
}

/// The newest commit of a workspace: that of its branch where this repository decides its run, else as the ledger has it.
pub(super) fn newest(repo: &Repo, state: &State, workspace: &Workspace) -> Option<CommitId> {
    let is_here = matches!(Place::of(repo, state.run.id, &state.run.decided_by), Ok(Place::Here));
    let branch = BranchName::new(workspace.branch_name.as_bytes()).ok().filter(|_| is_here);
    let here = branch.and_then(|branch| repo.branch_head(&branch).ok().flatten());
    here.or_else(|| CommitId::parse_hex(workspace.head_sha.as_bytes()))
}
