//! `aynig workspace`: makes managed workspaces, and shows them.

use std::borrow::Cow;

use serde::Serialize;

use aynig::contract::ids::CommitId;
use aynig::git::Repo;
use aynig::ops::app::App;
use aynig::ops::error::Error;
use aynig::ops::workspace::{self, Context};
use aynig::workspace::{Created, Entry, Fault, Workspaces};

use crate::cli::args::{One, Workspace, WorkspaceVerb};
use crate::cli::exit::Exit;
use crate::cli::ui;
use crate::cli::ui::signals::shutdown;
use crate::cli::ui::{FAINT, STRONG, styled, warn};

/// The answer in JSON. The names of its fields are a promise to scripts.
#[derive(Debug, Serialize)]
struct Answer<'a> {
    workspaces: Vec<View<'a>>,
    /// Contexts that cannot be used.
    damaged: Vec<Damaged<'a>>,
}

#[derive(Debug, Serialize)]
struct Damaged<'a> {
    file: Cow<'a, str>,
    reason: &'a str,
}

/// A workspace in JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct View<'a> {
    slug: &'a str,
    name: &'a str,
    run: &'a str,
    state: &'static str,
    branch: &'a str,
    /// HEAD of the branch.
    commit: Option<CommitId>,
    base_ref: &'a str,
    base_sha: &'a str,
    worktree_path: Cow<'a, str>,
    /// Whether its worktree is there.
    present: bool,
    generation: u32,
    created_at: String,
    host: &'a str,
}

impl<'a> View<'a> {
    fn of(repo: &Repo, context: &'a Context) -> Self {
        Self {
            slug: &context.slug,
            name: &context.name,
            run: &context.run_id,
            state: context.state.word(),
            branch: &context.branch_name,
            commit: repo.branch_head(&context.branch()).ok().flatten(),
            base_ref: &context.base_ref,
            base_sha: &context.base_sha,
            worktree_path: context.worktree_path.to_string_lossy(),
            present: context.worktree_path.is_dir(),
            generation: context.generation,
            created_at: context.created_at.chars().take(19).chain(['Z']).collect(),
            host: &context.host,
        }
    }
}

/// Prints the answer about one workspace in JSON.
fn answer_json(repo: &Repo, context: &Context) {
    ui::answer_json(&Answer { workspaces: vec![View::of(repo, context)], damaged: Vec::new() });
}

/// Runs the subcommand.
pub(crate) fn run(app: &App, arguments: &Workspace) -> Result<Exit, Error> {
    let (repo, json) = (app.repo(), arguments.json);
    let (workspaces, undone) = workspace::open(&repo, &app.process, shutdown()?)?;
    for words in undone {
        warn(&words);
    }
    let find = |named: &One| workspaces.find(&named.workspace);
    match &arguments.verb {
        WorkspaceVerb::Create(options) => {
            let Created { context, warnings } = workspaces.create(&options.workspace_name, &options.base)?;
            for words in warnings {
                warn(&words);
            }
            if json { answer_json(&repo, &context) } else { created(&context) }
        }
        WorkspaceVerb::List => list(&repo, &workspaces, json)?,
        WorkspaceVerb::Show(named) => show(&repo, &find(named)?, json),
        WorkspaceVerb::Path(named) => {
            let context = find(named)?;
            if json {
                answer_json(&repo, &context);
            } else {
                ui::answer(&ui::sanitize(&context.worktree_path.to_string_lossy()));
            }
        }
    }
    Ok(Exit::Done)
}

fn created(context: &Context) {
    ui::answer(&format!(
        "{}  {}",
        styled(STRONG, context.handle()),
        ui::sanitize(&context.worktree_path.to_string_lossy())
    ));
    let base = context.base_sha.get(..10).unwrap_or_default();
    let words = format!("branch {}, from {} ({base})", context.branch_name, context.base_ref);
    ui::narrate(&styled(FAINT, ui::sanitize(&words)));
}

fn list(repo: &Repo, workspaces: &Workspaces<'_>, as_json: bool) -> Result<(), Error> {
    let entries = workspaces.all()?;
    let contexts = || entries.iter().filter_map(|entry: &Entry| entry.context.as_ref().ok());
    let faults = || entries.iter().filter_map(|entry| entry.context.as_ref().err());
    if as_json {
        ui::answer_json(&Answer {
            workspaces: contexts().map(|context| View::of(repo, context)).collect(),
            damaged: faults()
                .map(|Fault { file, why }| Damaged { file: file.to_string_lossy(), reason: why })
                .collect(),
        });
        return Ok(());
    }
    for context in contexts() {
        let gone = if context.worktree_path.is_dir() { "" } else { "  (its worktree is gone)" };
        ui::answer(&format!(
            "{}  {}  {}{gone}",
            styled(STRONG, context.handle()),
            context.state.word(),
            ui::sanitize(&context.worktree_path.to_string_lossy())
        ));
    }
    for Fault { file, why } in faults() {
        warn(&format!("{} cannot be used: {why}", file.display()));
    }
    if contexts().next().is_none() {
        ui::narrate(&styled(FAINT, "there is no workspace; `aynig workspace create NAME` makes one"));
    }
    Ok(())
}

fn show(repo: &Repo, context: &Context, as_json: bool) {
    if as_json {
        answer_json(repo, context);
        return;
    }
    let head = repo.branch_head(&context.branch()).ok().flatten();
    let head = head.map_or_else(|| "gone".to_owned(), |head| head.to_string());
    let present = if context.worktree_path.is_dir() { "" } else { " (gone)" };
    let rows = [
        ("workspace", context.handle()),
        ("state", context.state.word().to_owned()),
        ("run", context.run_id.clone()),
        ("branch", context.branch_name.clone()),
        ("head", head),
        ("base", format!("{} {}", context.base_ref, context.base_sha)),
        ("worktree", format!("{}{present}", context.worktree_path.display())),
        ("generation", context.generation.to_string()),
        ("created", format!("{} by {}", context.created_at, context.host)),
    ];
    for (name, value) in rows {
        ui::answer(&format!("{}  {}", styled(FAINT, format!("{name:10}")), ui::sanitize(&value)));
    }
}
