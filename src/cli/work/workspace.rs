//! `aynig workspace`: makes managed workspaces, and shows them.

use std::path::PathBuf;

use aynig::ops::app::App;
use aynig::ops::error::Error;
use aynig::ops::inside::{is_of_this_step, persons_only};
use aynig::ops::runs;
use aynig::ops::workspace::{self, Context, State};
use aynig::words::{pluralize, shell_quote, shows_rescued};
use aynig::workspace::{
    Change, Created, Entry, Fault, PRE_RUN, Remade, Removal, Snapshot, Workspaces, check_target,
};

use crate::cli::args::{One, Workspace, WorkspaceVerb};
use crate::cli::exit::Exit;
use crate::cli::ui;
use crate::cli::ui::signals::{authority, shutdown};
use crate::cli::ui::{FAINT, STRONG, styled, warn};

mod views;

use views::{Answer, Damaged, Done, Removed, View};

/// Prints the answer about one workspace in JSON.
fn answer_json(all: &Workspaces<'_>, context: &Context, done: Option<Done>) -> Result<(), Error> {
    let workspaces = vec![View::of(all.repo, context, fault(all, context)?)];
    ui::answer_json(&Answer { workspaces, damaged: Vec::new(), done, removal: None });
    Ok(())
}

/// What is wrong with one workspace.
fn fault(all: &Workspaces<'_>, context: &Context) -> Result<Option<String>, Error> {
    Ok(all.faults(&[context])?.remove(&context.handle()))
}

/// Refuses to a step what is for people: it works in its own workspace, and takes snapshots of that at most.
fn persons_verb(verb: &WorkspaceVerb) -> Result<(), Error> {
    match verb {
        WorkspaceVerb::Create(_) => persons_only("making a workspace"),
        WorkspaceVerb::Snapshot(options) if options.accept => persons_only("accepting what was changed"),
        WorkspaceVerb::Rollback(_) => persons_only("rolling a workspace back"),
        WorkspaceVerb::Remove(options) if options.apply => persons_only("removing a workspace"),
        _ => Ok(()),
    }
}

/// Runs the subcommand.
pub(crate) fn run(app: &App, arguments: &Workspace) -> Result<Exit, Error> {
    let (repo, json) = (app.repo(), arguments.json);
    let changes = match &arguments.verb {
        WorkspaceVerb::Create(_) | WorkspaceVerb::Snapshot(_) | WorkspaceVerb::Rollback(_) => true,
        WorkspaceVerb::Remove(options) => options.apply,
        WorkspaceVerb::List | WorkspaceVerb::Show(_) | WorkspaceVerb::Path(_) => false,
    };
    persons_verb(&arguments.verb)?;
    let (workspaces, undone) = workspace::open(&repo, &app.process, shutdown()?, changes, warn)?;
    for words in undone {
        warn(&words);
    }
    let find = |named: &One| workspaces.find(&named.workspace);
    let fetch = || -> Result<(), Error> {
        let authority = authority(&repo, None)?;
        runs::update(&repo, authority.source()).iter().for_each(|trouble| warn(trouble));
        Ok(())
    };
    match &arguments.verb {
        WorkspaceVerb::Create(options) => {
            if options.run_name.is_some() {
                fetch()?;
            }
            let (run, base) = (options.run_name.as_deref(), options.base.as_deref());
            let made = workspace::create(&workspaces, &options.workspace_name, run, base)?;
            let Created { context, warnings } = made;
            for words in warnings {
                warn(&words);
            }
            if json { answer_json(&workspaces, &context, None)? } else { created(&context) }
        }
        WorkspaceVerb::List => list(&workspaces, json)?,
        WorkspaceVerb::Show(named) => show(&workspaces, &find(named)?, json)?,
        WorkspaceVerb::Path(named) => {
            let context = find(named)?;
            if json {
                answer_json(&workspaces, &context, None)?;
            } else {
                ui::answer(&ui::sanitize(&context.worktree_path.to_string_lossy()));
            }
        }
        WorkspaceVerb::Snapshot(options) => {
            return snapshot(&workspaces, &find(&options.one)?, options.accept, json);
        }
        WorkspaceVerb::Rollback(options) => {
            check_target(options.to.as_deref().unwrap_or(PRE_RUN))?;
            let done = workspace::roll_back(&workspaces, &options.one.workspace, options.undo, fetch)?;
            answer_rollback(&workspaces, done, json)?;
        }
        WorkspaceVerb::Remove(options) => {
            if let Some(context) =
                workspaces.finished_removal(&options.one.workspace).filter(|_| options.apply)
            {
                if json {
                    let (workspaces, damaged) = (Vec::new(), Vec::new());
                    ui::answer_json(&Answer { workspaces, damaged, done: None, removal: None });
                } else {
                    ui::answer(&format!("removed  {}", styled(STRONG, context.handle())));
                }
                return Ok(Exit::Done);
            }
            let context = find(&options.one)?;
            let removal = if options.apply {
                let stop = format!("`aynig flow stop {}` ends it", context.slug);
                workspace::check_rests(&workspaces, &context, &stop)?;
                workspaces.remove(&context)?
            } else {
                workspaces.preview_removal(&context)?
            };
            answer_removal(&workspaces, &removal, options.apply, json)?;
        }
    }
    Ok(Exit::Done)
}

fn snapshot(all: &Workspaces<'_>, context: &Context, accept: bool, json: bool) -> Result<Exit, Error> {
    if !is_of_this_step(&context.run_id) {
        persons_only("a snapshot of another run's workspace")?;
    }
    if let Some(words) = all.cut_off_words(context)?.filter(|_| !accept) {
        warn(&words);
    }
    if accept {
        for Change { thing, name, how, undo, .. } in all.accept(context)? {
            let what = format!("the {} {name} was {}", thing.word(), how.word());
            warn(&format!("accepted: {what} since the last snapshot; this undoes it: {undo}"));
        }
    }
    let snapshot = all.snapshot(context)?;
    let is_violated = snapshot.changes.iter().any(|change| change.is_violation);
    if json {
        answer_json(all, &snapshot.context.clone(), Some(Done::of_snapshot(snapshot)))?;
    } else {
        snapped(&snapshot);
    }
    Ok(if is_violated { Exit::Failed } else { Exit::Done })
}

fn answer_removal(all: &Workspaces<'_>, removal: &Removal, is_done: bool, json: bool) -> Result<(), Error> {
    if json {
        let fault = if is_done { None } else { fault(all, &removal.context)? };
        let workspaces = vec![View::of(all.repo, &removal.context, fault)];
        let removal = Some(Removed::of(removal, is_done));
        ui::answer_json(&Answer { workspaces, damaged: Vec::new(), done: None, removal });
    } else {
        removed(removal, is_done);
    }
    Ok(())
}

fn removed(removal: &Removal, applied: bool) {
    let context = &removal.context;
    let word = match (applied, &removal.obstacle) {
        (true, _) => "removed",
        (false, Some(_)) => "stays",
        (false, None) => "would go",
    };
    ui::answer(&format!("{word}  {}", styled(STRONG, context.handle())));
    if let Some(why) = &removal.obstacle {
        warn(&format!("{} cannot be removed: {why}", context.handle()));
        return;
    }
    for path in &removal.removed {
        ui::answer(&ui::sanitize(&format!("  directory  {}", path.display())));
    }
    let archive = match &removal.archive {
        Some(archive) => format!("is archived: {archive}"),
        None => "is archived before".to_owned(),
    };
    let commits = pluralize(removal.commits, "commit");
    ui::answer(&ui::sanitize(&format!(
        "  branch     {} ({commits} since its base) {archive}",
        context.branch_name
    )));
    match &removal.rescue {
        Some(rescue) => {
            ui::answer(&ui::sanitize(&format!("  saved      {}", shows_rescued(rescue))));
        }
        None if removal.unsaved && !applied => {
            ui::answer(
                "  saved      changes that are not on the branch are saved before, under a rescue ref",
            );
        }
        None => {}
    }
    if let Some(words) = removal.losses() {
        ui::answer(&format!("  lost       {words}"));
    }
    if let Some(archive) = &removal.archive {
        let back = format!("git branch NAME {}", shell_quote(archive));
        ui::answer(&format!("  back       `{}` makes it a branch again", ui::sanitize(&back)));
    }
    for path in &removal.kept {
        warn(&format!("{} stays: an earlier worktree, for you to look at", path.display()));
    }
    if !applied {
        ui::answer("Nothing was removed; the same command with --apply does it.");
    }
}

fn snapped(snapshot: &Snapshot) {
    for words in &snapshot.mended {
        warn(words);
    }
    for commit in &snapshot.adopted {
        ui::answer(&format!("adopted  {commit}"));
    }
    match snapshot.commit {
        Some(commit) => ui::answer(&format!("snapshot  {commit}")),
        None => ui::answer("nothing to commit"),
    }
    let is_told = |name: &str| snapshot.mended.iter().any(|words| words.contains(name));
    if let Some(rescue) = snapshot.rescue.as_ref().filter(|name| !is_told(name)) {
        warn(&format!("what the branch does not have is saved: {}", shows_rescued(rescue)));
    }
    for path in snapshot.withheld.iter().map(|one| &one.path) {
        warn(&format!(
            "{path} looks like a key and was left out; if it belongs to the branch, commit it in the worktree"
        ));
    }
    for what in &snapshot.hidden {
        warn(&format!("git does not show {what}: it is in no commit, and stays in the worktree"));
    }
    kept_words(snapshot.kept.as_ref());
    let shown = snapshot.changes.iter().filter(|change| change.is_violation || change.is_protected);
    for Change { thing, name, how, undo, is_violation, .. } in shown {
        let what = format!("the {} {name} was {} since the last snapshot", thing.word(), how.word());
        if *is_violation {
            warn(&format!("violation: {what}; this undoes it: {undo}"));
        } else {
            // Probably somebody's ordinary commit, which a command would drop.
            warn(&format!("{what}, and not under the address of the workspace"));
        }
    }
    if snapshot.changes.iter().any(|change| change.is_violation) {
        let handle = snapshot.context.handle();
        ui::narrate(&format!("`aynig workspace snapshot --accept {handle}` takes all as it is now"));
    }
}

/// Rolls back, or undoes that.
fn answer_rollback(
    workspaces: &Workspaces<'_>,
    (context, remade): (Context, Option<Remade>),
    json: bool,
) -> Result<(), Error> {
    for words in remade.iter().flat_map(|remade| &remade.warnings) {
        warn(words);
    }
    if json {
        let now = remade.as_ref().map_or(&context, |remade| &remade.context).clone();
        answer_json(workspaces, &now, Some(Done::of_rollback(remade)))?;
    } else {
        let undo = format!("aynig workspace rollback --undo {}", context.handle());
        rolled_back(&context, remade.as_ref(), &undo);
    }
    Ok(())
}

/// Prints what a rollback did. `undo` is the command that takes it back.
pub(crate) fn rolled_back(context: &Context, remade: Option<&Remade>, undo: &str) {
    let Some(remade) = remade else {
        ui::answer(&format!("nothing to roll back: {} is as it was made", context.handle()));
        return;
    };
    let head = remade.context.head_sha.get(..10).unwrap_or_default();
    let its_base = if remade.context.base_sha == remade.context.head_sha { "its base " } else { "" };
    ui::answer(&format!("{}  at {its_base}{head}, made anew", styled(STRONG, context.handle())));
    if let Some(rescue) = &remade.rescue {
        // The commits of its branch are below it.
        let shows = format!("git log -p --first-parent {head}..{}", shell_quote(rescue));
        ui::narrate(&ui::sanitize(&format!("what was there is saved: {shows}")));
    }
    let ignored = remade.ignored;
    if !ignored.is_empty() {
        let hint = match &remade.kept {
            Some((path, _)) => format!("they stay in {}", path.display()),
            None => "with `aynig.rollbackKeepIgnored` the old directory stays for them".to_owned(),
        };
        ui::narrate(&format!("not saved: {} ({} bytes); {hint}", ignored.words(), ignored.bytes));
    }
    kept_words(remade.kept.as_ref());
    let here = std::env::current_dir().unwrap_or_default();
    if remade.kept.as_ref().is_some_and(|(path, _)| here.starts_with(path)) {
        let handle = context.handle();
        warn(&format!(
            "this shell is in the old worktree: `cd \"$(aynig workspace path {handle})\"` leaves it"
        ));
    }
    let but = if ignored.is_empty() { "" } else { ", but for ignored files" };
    let words = match remade.context.unsaved() {
        None => format!("`{undo}` takes it back{but}"),
        Some(path) => {
            format!("`{undo}` takes the commits back; files and index are only in {}", path.display())
        }
    };
    ui::narrate(&styled(FAINT, ui::sanitize(&words)));
}

fn kept_words(kept: Option<&(PathBuf, String)>) {
    if let Some((path, why)) = kept {
        warn(&format!("the old worktree stays at {}: {why}", path.display()));
    }
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

fn list(workspaces: &Workspaces<'_>, as_json: bool) -> Result<(), Error> {
    let entries = workspaces.all()?;
    let contexts = || entries.iter().filter_map(|entry: &Entry| entry.context.as_ref().ok());
    let wrong = workspaces.faults(&contexts().collect::<Vec<_>>())?;
    let fault = |context: &Context| wrong.get(&context.handle()).cloned();
    let faults = || entries.iter().filter_map(|entry| entry.context.as_ref().err());
    if as_json {
        ui::answer_json(&Answer {
            workspaces: contexts()
                .map(|context| View::of(workspaces.repo, context, fault(context)))
                .collect(),
            done: None,
            removal: None,
            damaged: faults()
                .map(|Fault { file, why }| Damaged { file: file.to_string_lossy(), reason: why })
                .collect(),
        });
        return Ok(());
    }
    for context in contexts() {
        let fault = fault(context);
        let what = fault.as_ref().map_or_else(String::new, |what| format!("  ({what})"));
        ui::answer(&format!(
            "{}  {}  {}",
            styled(STRONG, context.handle()),
            state(context, fault.as_deref()),
            ui::sanitize(&format!("{}{what}", context.worktree_path.display()))
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

/// The state for people: a workspace that is not in order is not ready.
fn state(context: &Context, fault: Option<&str>) -> &'static str {
    match (context.state, fault) {
        (State::Ready, Some(_)) => "broken",
        (state, _) => state.word(),
    }
}

/// The changes outside of a worktree that are neither put back nor accepted, with the commands that settle them.
fn unsettled(workspaces: &Workspaces<'_>, context: &Context) -> Vec<(&'static str, String)> {
    let changes = workspaces.to_settle(context).unwrap_or_default();
    let undone = changes.iter().map(|Change { thing, name, how, undo, .. }| {
        format!("the {} {name} was {}; this undoes it: {undo}", thing.word(), how.word())
    });
    let mut lines: Vec<String> = undone.collect();
    if lines.is_empty() {
        lines.extend(workspaces.cut_off_words(context).ok().flatten());
    } else {
        let accept = format!("aynig workspace snapshot --accept {}", context.handle());
        lines.push(format!("`{accept}` takes all as it is now"));
    }
    lines.into_iter().map(|line| ("changed", line)).collect()
}

fn show(workspaces: &Workspaces<'_>, context: &Context, as_json: bool) -> Result<(), Error> {
    if as_json {
        return answer_json(workspaces, context, None);
    }
    let (repo, fault) = (workspaces.repo, fault(workspaces, context)?);
    let head = match repo.branch_head(&context.branch()) {
        Ok(head) => head.map_or_else(|| "gone".to_owned(), |head| head.to_string()),
        Err(_) => "cannot be read".to_owned(),
    };
    let outdated = workspaces.outdated_words(context);
    let present = if context.worktree_path.is_dir() { "" } else { " (gone)" };
    let what = fault.as_ref().map_or_else(String::new, |what| format!(": {what}"));
    let rows = [
        ("workspace", context.handle()),
        ("state", format!("{}{what}", state(context, fault.as_deref()))),
        ("run", workspace::run_words(repo, context)),
        ("branch", context.branch_name.clone()),
        ("head", head),
        ("", outdated.unwrap_or_default()),
        ("base", format!("{} {}", context.base_ref, context.base_sha)),
        ("worktree", format!("{}{present}", context.worktree_path.display())),
        ("generation", context.generation.to_string()),
        ("address", context.address()),
        ("created", format!("{} by {}", context.created_at, context.host)),
    ];
    let published = [("published", &context.remote_branch), ("proposal", &context.pr_url)];
    let published = published.into_iter().filter_map(|(name, value)| Some((name, value.clone()?)));
    let unsettled = unsettled(workspaces, context);
    for (name, value) in
        rows.into_iter().chain(published).chain(unsettled).filter(|(_, value)| !value.is_empty())
    {
        ui::answer(&format!("{}  {}", styled(FAINT, format!("{name:10}")), ui::sanitize(&value)));
    }
    Ok(())
}
