//! Whether a published commit may give way to work that does not have it (CONTRACT 21.4).
//!
//! Invariant: only a history that this clone or the ledger has takes a published commit back. A commit that another host
//! published, and this clone never had, is newer work.

use crate::contract::ids::CommitId;
use crate::contract::layout::RESCUES;
use crate::git::Repo;
use crate::git::refs::reflog;
use crate::ledger::Tip;
use crate::ledger::history::operations;
use crate::ledger::tip::ledger_ref;
use crate::model::event::{Body, WorkspaceChanged};
use crate::model::ids::RunId;
use crate::model::run::DecidedBy;
use crate::model::workspace::Publication;
use crate::workspace::context::Context;

/// What replaces a published commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Given {
    /// Work that has it.
    Newer,
    /// Work that it was taken out of, in words.
    Back(&'static str),
    /// Work that never had it, as far as this clone knows.
    Without,
}

/// What a work branch at `head` is to what was published.
pub(super) fn given(repo: &Repo, context: &Context, published: &Publication, head: CommitId) -> Given {
    let Some(shown) = CommitId::parse_hex(&published.head) else { return Given::Without };
    if repo.descends(head, shown) {
        return Given::Newer;
    }
    match ledger_of(repo, context) {
        // Nobody else publishes it.
        None => Given::Back("was taken back here"),
        Some(tip) if is_rolled_back(repo, &tip, context, published) => Given::Back("was rolled back"),
        Some(_) if was_here(repo, context, shown) => Given::Back("was taken back here"),
        Some(_) => Given::Without,
    }
}

/// The ledger of a run that other hosts work on, too.
fn ledger_of(repo: &Repo, context: &Context) -> Option<Tip> {
    let run = RunId::parse(&context.run_id)?;
    let head = repo.read_ref(ledger_ref(run).as_str().into()).ok()??;
    let tip = Tip::read_run(repo, run, head).ok()?;
    matches!(tip.state.run.decided_by, DecidedBy::Remote(_)).then_some(tip)
}

/// Whether the workspace was rolled back after this was published, by its ledger.
fn is_rolled_back(repo: &Repo, tip: &Tip, context: &Context, published: &Publication) -> bool {
    let Ok(all) = operations(repo, tip.state.run.id, tip.id, None) else { return false };
    let is_its = |body: &WorkspaceChanged| body.name.as_str() == context.name;
    let has = |body: &WorkspaceChanged| {
        let known = body.patch.published.iter().flatten();
        known.into_iter().any(|one| one.commit == published.commit)
    };
    let mut events = all.iter().flat_map(|operation| &operation.events).map(|event| &event.body).skip_while(
        |body| !matches!(body, Body::PublishPushed(body) | Body::PublishProposed(body) if is_its(body) && has(body)),
    );
    events.any(|body| matches!(body, Body::WorkspaceRolledBack(body) if is_its(body)))
}

/// Whether the work branch of this clone had a commit.
fn was_here(repo: &Repo, context: &Context, commit: CommitId) -> bool {
    let log = reflog::of(repo.common_dir(), context.branch().full_ref().as_ref());
    log.iter().any(|moved| moved.to == commit || moved.from == commit)
        || matches!(repo.held_below(commit, &[RESCUES]), Ok(Some(_)))
}
