//! Runs of flows for front ends: the engine with the settings of this host, and errors with the next step.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::contract::ids::{CommitId, RemoteName};
use crate::engine::Engine;
use crate::engine::attempt::Attempt;
pub use crate::engine::attempt::Ended;
pub use crate::engine::control::{Granted, Reply, Wish};
pub use crate::engine::start::{Order, Started};
use crate::flow::base::{MAX_FILE, paths, script_directories};
use crate::flow::document::Flow;
use crate::git::Repo;
use crate::git::objects::revspec::Content;
use crate::ledger::Place;
use crate::stop::Stop;
use crate::supervise::Watchdog;

use super::app::Process;
use super::error::Error;
pub use super::inside::persons_only;
use super::outer::OuterCommand;
use super::{notify, settings, workspace};

/// The engine of this host. `watchdog` is the argument by which this program starts its watchdog.
pub fn open<'a>(
    repo: &'a Repo,
    process: &'a Process,
    stop: Stop,
    watchdog: &str,
    tell: fn(&str),
) -> Result<Engine<'a>, Error> {
    let mut workspaces = workspace::at(repo, process, stop.clone())?;
    workspaces.options.tell = tell;
    let settings = settings::workspace(repo)?;
    Ok(Engine {
        repo,
        workspaces,
        run_prefix: settings.run_prefix,
        lease_seconds: settings.orch_lease_seconds,
        approval_wait: Duration::from_secs(settings.approval_wait_seconds),
        stall_repeats: usize::try_from(settings.stall_repeats).unwrap_or(usize::MAX),
        providers: Box::new(|name| settings::providers::here(repo, name)),
        validators: settings::lines::validators(repo)?,
        evaluators: settings::lines::evaluators(repo)?,
        environment: Vec::new(),
        program: process.program.clone(),
        watchdog: Watchdog::lazy(process.program.clone(), vec![watchdog.into()]),
        stop,
        tell,
        moved: Box::new(move |moved| {
            if let Err(warning) = notify::announce_run(repo, process, moved) {
                tell(&warning);
            }
        }),
    })
}

/// The place that decides new runs here.
#[must_use]
pub fn place(remote: Option<&RemoteName>) -> Place {
    remote.map_or(Place::Here, |remote| Place::Remote(remote.clone()))
}

/// The attempt that this process carries out. Fails outside of a driver's command.
pub fn attempt(repo: &Repo) -> Result<Attempt, Error> {
    let outside = || {
        Error::usage("this is called by the command of a run's driver, and by nobody else")
            .hint("`aynig run` carries out the steps of runs, `aynig flow list` lists the runs")
    };
    let outer = OuterCommand::of(repo)?.ok_or_else(outside)?;
    let trigger = std::env::var("COMMIT_HASH").ok();
    let trigger = trigger.and_then(|hash| CommitId::parse_hex(hash.as_bytes())).ok_or_else(outside)?;
    let id = outer.run.ok_or_else(outside)?.to_string();
    Ok(Attempt { branch: outer.branch, id, trigger, remote: outer.remote })
}

/// The commands of a driver, which a ref that commands are taken from must have.
const DRIVEN: [&str; 2] = [".aynig/command/flow-step", ".aynig/command/stalled"];

/// Refuses a flow that does not come from the ref that commands are taken from here (`aynig.commandsFrom`): the file, the
/// prompts and scripts that it names, and the commands of the driver must be there (CONTRACT 20.27).
pub fn check_trust(
    repo: &Repo,
    remote: Option<&RemoteName>,
    (file, bytes): (&Path, &[u8]),
    flow: &Flow,
    base: CommitId,
) -> Result<(), Error> {
    let Some(name) = settings::trust(repo)?.commands_from else { return Ok(()) };
    let trusted = repo.commit_named(&name, remote);
    let trusted =
        trusted.map_err(|error| Error::setup(format!("aynig.commandsFrom: {error}; nothing was started")))?;
    let at = |commit, path: &str| {
        let found = repo.content_at(commit, path, MAX_FILE);
        found.map_err(|error| Error::because(&format!("read {path}"), &error))
    };
    let refused = |what: String| {
        Error::setup(format!("{what}, and aynig.commandsFrom is {name}: nothing was started"))
            .hint(format!("commit it there, or start the flow where commands are not taken from {name}"))
    };
    for path in DRIVEN {
        if !matches!(at(trusted, path)?, Some(Content::File { executable: true, .. })) {
            return Err(refused(format!("{name} has no program {path}")));
        }
    }
    let inside = file.canonicalize().ok();
    let inside = inside.as_deref().and_then(|file| file.strip_prefix(repo.top()).ok()).and_then(Path::to_str);
    let same = match inside {
        Some(path) => {
            matches!(at(trusted, path)?, Some(Content::File { bytes: found, .. }) if found == bytes)
        }
        None => false,
    };
    if !same {
        return Err(refused(format!("{} is not a file of {name}", file.display())));
    }
    for path in paths(flow) {
        if at(trusted, &path)? != at(base, &path)? {
            return Err(refused(format!("{path} of the base differs from the one of {name}")));
        }
    }
    if let Some(path) = beside_scripts(repo, flow, [trusted, base])? {
        let what =
            format!("{path} of the base differs from the one of {name}, and is beside a script of the flow");
        return Err(refused(what));
    }
    Ok(())
}

/// The first file that differs between two commits and comes along with a script of a flow (CONTRACT 20.17).
fn beside_scripts(repo: &Repo, flow: &Flow, commits: [CommitId; 2]) -> Result<Option<String>, Error> {
    let directories = script_directories(flow);
    if directories.is_empty() {
        return Ok(None);
    }
    let because =
        |error: &dyn std::error::Error| Error::because("compare the base with the trusted ref", error);
    let tree = |commit| repo.commit(commit).map(|commit| commit.tree).map_err(|error| because(&error));
    let differing =
        repo.differences(tree(commits[0])?, tree(commits[1])?).map_err(|error| because(&error))?;
    let comes_along = |path: &str| {
        directories.iter().any(|directory| match directory.as_str() {
            "" => !path.contains('/'),
            above => path.strip_prefix(above).is_some_and(|rest| rest.starts_with('/')),
        })
    };
    let mut paths = differing.iter().map(|one| one.path.to_string());
    Ok(paths.find(|path| comes_along(path)))
}

/// The values of a flow's inputs: those that are given as `NAME=VALUE`, or `NAME=@FILE`, and the defaults.
pub fn inputs(start: &Path, flow: &Flow, given: &[String]) -> Result<BTreeMap<String, String>, Error> {
    let mut values = BTreeMap::new();
    for one in given {
        let (name, value) = one.split_once('=').ok_or_else(|| {
            Error::usage(format!("--input {one}: write NAME=VALUE, or NAME=@FILE; nothing was changed"))
        })?;
        if !flow.inputs.iter().any(|input| input.name == name) {
            let names: Vec<&str> = flow.inputs.iter().map(|input| input.name.as_str()).collect();
            let there = if names.is_empty() {
                "the flow has none".to_owned()
            } else {
                format!("the flow has {}", names.join(", "))
            };
            return Err(Error::usage(format!(
                "--input: there is no input {name}: {there}; nothing was changed"
            )));
        }
        let value = match value.strip_prefix('@') {
            None => value.to_owned(),
            Some(file) => std::fs::read_to_string(start.join(file)).map_err(|error| {
                Error::usage(format!("--input {name}: could not read {file}: {error}; nothing was changed"))
            })?,
        };
        if value.trim().is_empty() && flow.inputs.iter().any(|input| input.name == name && input.required) {
            return Err(Error::usage(format!(
                "--input {name} is empty, and the flow needs it; nothing was changed"
            ))
            .hint(format!("`--input {name}=VALUE`, or `--input {name}=@FILE`")));
        }
        if values.insert(name.to_owned(), value).is_some() {
            return Err(Error::usage(format!("--input {name} is given twice; nothing was changed")));
        }
    }
    for input in &flow.inputs {
        if values.contains_key(&input.name) {
            continue;
        }
        match &input.default {
            Some(default) => {
                values.insert(input.name.clone(), default.clone());
            }
            None if input.required => {
                let purpose =
                    input.description.as_deref().map(|words| format!(" ({words})")).unwrap_or_default();
                return Err(Error::usage(format!(
                    "the flow needs the input {}{purpose}; nothing was changed",
                    input.name
                ))
                .hint(format!("`--input {}=VALUE`, or `--input {}=@FILE`", input.name, input.name)));
            }
            None => {
                values.insert(input.name.clone(), String::new());
            }
        }
    }
    Ok(values)
}
