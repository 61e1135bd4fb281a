//! The answers of `aynig workspace` in JSON.
//!
//! Invariant: the names of fields are a promise to scripts.

use std::borrow::Cow;
use std::path::PathBuf;

use serde::Serialize;

use aynig::contract::ids::CommitId;
use aynig::git::Repo;
use aynig::ops::workspace::{self, Context};
use aynig::workspace::{Change, IgnoredUse, Remade, Removal, Snapshot};

/// The answer in JSON. The names of its fields are a promise to scripts.
#[derive(Debug, Serialize)]
pub(super) struct Answer<'a> {
    pub(super) workspaces: Vec<View<'a>>,
    /// Contexts that cannot be used.
    pub(super) damaged: Vec<Damaged<'a>>,
    /// The result of a snapshot or a rollback.
    pub(super) done: Option<Done>,
    /// The result of a removal, or its plan.
    pub(super) removal: Option<Removed>,
}

/// The effect of a removal, made or previewed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Removed {
    pub(super) applied: bool,
    pub(super) obstacle: Option<String>,
    pub(super) commits: usize,
    pub(super) unsaved: bool,
    pub(super) archive_ref: Option<String>,
    pub(super) rescue_ref: Option<String>,
    #[serde(flatten)]
    pub(super) ignored: Ignored,
    pub(super) removed_paths: Vec<String>,
    pub(super) kept_paths: Vec<String>,
}

/// Ignored contents, which are not saved.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Ignored {
    pub(super) ignored_files: usize,
    pub(super) ignored_repositories: usize,
    pub(super) ignored_bytes: u64,
}

/// The effect of a snapshot or a rollback.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Done {
    pub(super) changed: bool,
    pub(super) snapshot: Option<CommitId>,
    pub(super) adopted: Vec<CommitId>,
    pub(super) mended: Vec<String>,
    pub(super) rescue_ref: Option<String>,
    pub(super) kept_path: Option<String>,
    pub(super) reason: Option<String>,
    #[serde(flatten)]
    pub(super) ignored: Ignored,
    pub(super) violations: Vec<Changed>,
    pub(super) changes: Vec<Changed>,
    pub(super) withheld: Vec<String>,
    pub(super) hidden: Vec<String>,
}

/// Something outside of a workspace that was changed.
#[derive(Debug, Serialize)]
pub(super) struct Changed {
    pub(super) thing: &'static str,
    pub(super) name: String,
    pub(super) how: &'static str,
    pub(super) undo: String,
}

#[derive(Debug, Serialize)]
pub(super) struct Damaged<'a> {
    pub(super) file: Cow<'a, str>,
    pub(super) reason: &'a str,
}

/// A workspace in JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct View<'a> {
    pub(super) slug: &'a str,
    pub(super) name: &'a str,
    pub(super) run: &'a str,
    /// The status of its run; `None` for a run by itself.
    pub(super) run_status: Option<&'static str>,
    pub(super) state: &'static str,
    /// Its fault, in words.
    pub(super) fault: Option<String>,
    pub(super) branch: &'a str,
    /// HEAD of the branch.
    pub(super) commit: Option<CommitId>,
    pub(super) base_ref: &'a str,
    pub(super) base_sha: &'a str,
    pub(super) worktree_path: Cow<'a, str>,
    /// Whether its worktree is there.
    pub(super) present: bool,
    pub(super) generation: u32,
    pub(super) remote_branch: Option<&'a str>,
    pub(super) pr_url: Option<&'a str>,
    pub(super) created_at: String,
    pub(super) host: &'a str,
    /// The address under which work in it is committed.
    pub(super) email: String,
}

impl<'a> View<'a> {
    pub(super) fn of(repo: &Repo, context: &'a Context, fault: Option<String>) -> Self {
        Self {
            fault,
            slug: &context.slug,
            name: &context.name,
            run: &context.run_id,
            run_status: workspace::run_of(repo, context).map(|run| run.status.word()),
            state: context.state.word(),
            branch: &context.branch_name,
            commit: repo.branch_head(&context.branch()).ok().flatten(),
            base_ref: &context.base_ref,
            base_sha: &context.base_sha,
            worktree_path: context.worktree_path.to_string_lossy(),
            present: context.worktree_path.is_dir(),
            generation: context.generation,
            remote_branch: context.remote_branch.as_deref(),
            pr_url: context.pr_url.as_deref(),
            created_at: context.created_at.chars().take(19).chain(['Z']).collect(),
            host: &context.host,
            email: context.address(),
        }
    }
}

impl Ignored {
    pub(super) fn of(IgnoredUse { files, repositories, bytes }: IgnoredUse) -> Self {
        Self { ignored_files: files, ignored_repositories: repositories, ignored_bytes: bytes }
    }
}

impl Done {
    pub(super) fn of_snapshot(snapshot: Snapshot) -> Self {
        let Snapshot { commit, adopted, mended, rescue, kept, ignored, changes, withheld, hidden, .. } =
            snapshot;
        let (violations, changes): (Vec<Change>, Vec<Change>) =
            changes.into_iter().partition(|change| change.is_violation);
        let view = |all: Vec<Change>| all.into_iter().map(Changed::of).collect();
        let (kept_path, reason) = split(kept);
        Self {
            changed: commit.is_some() || !adopted.is_empty() || !mended.is_empty(),
            snapshot: commit,
            adopted,
            mended,
            rescue_ref: rescue,
            kept_path,
            reason,
            ignored: Ignored::of(ignored),
            violations: view(violations),
            changes: view(changes),
            withheld: withheld.iter().map(|one| one.path.to_string()).collect(),
            hidden,
        }
    }

    pub(super) fn of_rollback(remade: Option<Remade>) -> Self {
        let Some(Remade { rescue, kept, ignored, .. }) = remade else { return Self::default() };
        let (kept_path, reason) = split(kept);
        let ignored = Ignored::of(ignored);
        Self { changed: true, rescue_ref: rescue, kept_path, reason, ignored, ..Self::default() }
    }
}

impl Changed {
    pub(super) fn of(Change { thing, name, how, undo, .. }: Change) -> Self {
        Self { thing: thing.word(), name, how: how.word(), undo }
    }
}

impl Removed {
    pub(super) fn of(removal: &Removal, applied: bool) -> Self {
        let texts = |paths: &[PathBuf]| {
            paths.iter().map(|path| path.to_string_lossy().into_owned()).collect::<Vec<String>>()
        };
        Self {
            applied,
            obstacle: removal.obstacle.clone(),
            commits: removal.commits,
            unsaved: removal.unsaved,
            archive_ref: removal.archive.clone(),
            rescue_ref: removal.rescue.clone(),
            ignored: Ignored::of(removal.ignored),
            removed_paths: texts(&removal.removed),
            kept_paths: texts(&removal.kept),
        }
    }
}

pub(super) fn split(kept: Option<(PathBuf, String)>) -> (Option<String>, Option<String>) {
    kept.map(|(path, why)| (path.to_string_lossy().into_owned(), why)).unzip()
}
