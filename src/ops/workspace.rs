//! Managed workspaces for front ends: the settings, and errors with the next step.
//!
//! Each call that changes something begins with undoing what a dead process left half-made, and any
//! other says what there is of that; the caller shows the words.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::PathBuf;

use crate::contract::ids::BranchName;
use crate::contract::layout::own_directory;
use crate::git::Repo;
use crate::ledger::Tip;
use crate::ledger::archive::archived;
use crate::model::by::By;
use crate::model::ids::{Alias, RunId};
use crate::model::run::{Run, RunKind};
use crate::model::state::State as RunState;
use crate::stop::Stop;
use crate::words::shell_quote;
pub use crate::workspace::Workspaces;
pub use crate::workspace::context::{Context, State};
use crate::workspace::refusal::{Refusal, Why};
use crate::workspace::{self, Created, Options, Remade};

use super::app::Process;
use super::error::{Error, Kind};
use super::inside::is_inside;
use super::{runs, settings};

/// Returns the workspaces of a repository, and what was undone, or is to be undone by a call that
/// `changes` something.
pub fn open<'a>(
    repo: &'a Repo,
    process: &Process,
    stop: Stop,
    changes: bool,
    tell: fn(&str),
) -> Result<(Workspaces<'a>, Vec<String>), Error> {
    let mut workspaces = at(repo, process, stop)?;
    workspaces.options.tell = tell;
    let undone = workspaces.undo_half_made(changes)?;
    Ok((workspaces, undone))
}

/// Returns the workspaces of a repository, and looks at none.
pub fn at<'a>(repo: &'a Repo, process: &Process, stop: Stop) -> Result<Workspaces<'a>, Error> {
    let settings = settings::workspace(repo)?;
    let usual = ["main", "master", "release/*"].map(str::to_owned);
    let branches = &settings.protected_branches;
    let branches = if branches.is_empty() { &usual[..] } else { branches };
    let protected = settings::globs("aynig.protectedBranches", branches)?;
    let options = Options {
        root: settings.workspace_root,
        data: data(repo, settings.data_dir),
        prefix: settings.work_prefix,
        drivers: settings.run_prefix,
        hears: !is_inside(),
        setup: settings.setup,
        tell: |_| {},
        protected,
        keeps_ignored: settings.rollback_keep_ignored,
        program: process.program.clone(),
        by: person(repo),
        stop,
    };
    Ok(Workspaces::new(repo, options))
}

/// The person who types commands here, as git knows them.
fn person(repo: &Repo) -> By {
    let (name, email) = &repo.identity().author;
    By::Person {
        name: name.to_string(),
        email: email.to_string(),
        runner: repo.runner_id().to_string(),
        signature: None,
    }
}

/// The run that a workspace belongs to, as it is known here. `None`: it is a run by itself, or was deleted.
pub fn run_of(repo: &Repo, context: &Context) -> Option<Run> {
    let run = RunId::parse(&context.run_id)?;
    let head = runs::head(repo, run).ok()??;
    Some(Tip::read_run(repo, run, head).ok()?.state.run)
}

/// Describes the run of a workspace.
pub fn run_words(repo: &Repo, context: &Context) -> String {
    let id = &context.run_id;
    let is_deleted = || RunId::parse(id).is_some_and(|run| matches!(archived(repo, run), Ok(Some(_))));
    match run_of(repo, context) {
        Some(run) => format!("{id}  {}  {}", run.status.word(), run.label).trim_end().to_owned(),
        None if is_deleted() => format!("{id}  deleted"),
        None => format!("none (a workspace by itself, with the id {id})"),
    }
}

/// Makes a workspace: of the run that is named, or else one with an id of its own, from what is checked out here.
pub fn create(
    workspaces: &Workspaces<'_>,
    name: &str,
    run: Option<&str>,
    base: Option<&str>,
) -> Result<Created, Error> {
    let mut created = match run {
        Some(run) => workspaces.create_in(run_named(workspaces, run)?, name, base),
        None => workspaces.create(name, base.unwrap_or("HEAD")),
    }?;
    let entries = workspaces.all()?;
    let contexts = entries.iter().filter_map(|entry| entry.context.as_ref().ok());
    let count = contexts.filter(|one| one.name == created.context.name).count();
    if run.is_none() && count > 1 {
        let handle = created.context.handle();
        created.warnings.push(format!("{name} is the name of {count} workspaces; this one is {handle}"));
    }
    Ok(created)
}

/// Finds a run. The id of a workspace by itself is none.
fn run_named(workspaces: &Workspaces<'_>, named: &str) -> Result<RunId, Error> {
    let repo = workspaces.repo;
    runs::find(repo, named).map_err(|error| match workspaces.find(named.as_ref()) {
        Ok(context) if error.kind == Kind::NotFound && run_of(repo, &context).is_none() => {
            let handle = context.handle();
            let message =
                format!("{handle} is a workspace by itself, which belongs to no run; nothing was changed");
            Error::new(Kind::NotFound, message).hint("leave out --run to make another workspace by itself")
        }
        Ok(_) | Err(_) => error,
    })
}

/// Finds a workspace, or makes one here that only the ledger of its run has. `fetch` fetches ledgers.
pub fn find_or_take(
    workspaces: &Workspaces<'_>,
    named: &OsStr,
    fetch: impl FnOnce() -> Result<(), Error>,
) -> Result<Context, Error> {
    let missing = match workspaces.find(named) {
        Err(refusal) if refusal.why == Why::NotFound => refusal,
        found => return Ok(found?),
    };
    fetch()?;
    let Some((run, name)) = workspaces.known_to_a_run(named) else { return Err(missing.into()) };
    let Created { context, warnings } = workspaces.create_in(run, &name, None)?;
    warnings.iter().for_each(|words| (workspaces.options.tell)(words));
    Ok(context)
}

/// Makes a workspace anew from its base, or with `undo` takes that back. Returns the workspace before, and what was made;
/// `None` if it was at its base.
pub fn roll_back(
    workspaces: &Workspaces<'_>,
    named: &OsStr,
    undo: bool,
    fetch: impl FnOnce() -> Result<(), Error>,
) -> Result<(Context, Option<Remade>), Error> {
    let context = if undo { workspaces.find(named)? } else { find_or_take(workspaces, named, fetch)? };
    let (slug, option) = (&context.slug, if undo { " --undo" } else { "" });
    check_rests(
        workspaces,
        &context,
        &format!("`aynig flow rollback {slug}{option}` ends the step before that"),
    )?;
    let remade =
        if undo { Some(workspaces.undo_rollback(&context)?) } else { workspaces.rollback(&context)? };
    Ok((context, remade))
}

/// Refuses to take the worktree away from the step or turn that works in it. `of_step` is the hint of a step.
pub fn check_rests(workspaces: &Workspaces<'_>, context: &Context, of_step: &str) -> Result<(), Error> {
    let run = run_of(workspaces.repo, context).filter(|run| run.kind == RunKind::Graph);
    let checked = match run {
        None => workspaces.check_rests(context, "step", of_step),
        Some(run) => {
            let stop = format!(
                "`aynig orch node stop {} {}` ends it in seconds; then again",
                run.slug, context.name
            );
            workspaces.check_rests(context, "turn", &stop)
        }
    };
    Ok(checked?)
}

/// The directory of all runs and records.
fn data(repo: &Repo, wanted: Option<PathBuf>) -> PathBuf {
    wanted.unwrap_or_else(|| own_directory(repo.common_dir()).join("data"))
}

/// Counts the records of workspaces; none if the settings are wrong.
pub fn count(repo: &Repo) -> usize {
    settings::workspace(repo).map_or(0, |settings| workspace::count(&data(repo, settings.data_dir)))
}

/// The words about each workspace here, by its name, that lacks what other hosts made of it.
pub fn outdated(repo: &Repo, process: &Process, state: &RunState) -> BTreeMap<Alias, String> {
    let Ok(workspaces) = at(repo, process, Stop::manual()) else { return BTreeMap::new() };
    let slug = &state.run.slug;
    let words = |name: &Alias| {
        let context = workspaces.find(format!("{slug}/{name}").as_ref()).ok()?;
        workspaces.outdated_words(&context)
    };
    state.workspaces.keys().filter_map(|name| Some((name.clone(), words(name)?))).collect()
}

/// Describes the workspace of a work branch.
pub fn described(repo: &Repo, process: &Process, branch: &BranchName) -> Option<String> {
    let workspaces = at(repo, process, Stop::manual()).ok()?;
    let context = workspaces.find(branch.to_string().as_ref()).ok()?;
    let range = shell_quote(format!("{}..{branch}", context.base_sha.get(..10)?));
    Some(format!(
        "{branch} is the branch of the workspace {}; `git log -p {range}` shows its commits",
        context.handle()
    ))
}

impl From<Refusal> for Error {
    fn from(Refusal { why, message, hints, rule }: Refusal) -> Self {
        let kind = match why {
            Why::Usage => Kind::Usage,
            Why::NotFound => Kind::NotFound,
            Why::Conflict => Kind::Conflict,
            Why::Failed | Why::SetBack => Kind::Failed,
            Why::Setup => Kind::Setup,
            Why::Remote | Why::Unanswered => Kind::Remote,
        };
        Self { hints, rule, ..Self::new(kind, message) }
    }
}
