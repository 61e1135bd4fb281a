//! From the start of the process to a subcommand, and from its result to an exit code.
//!
//! Invariant: git's own variables (a hook sets them) are read once, here, and removed from the environment
//! before anything else. So every child process acts on the repository chosen here.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, Parser};

use aynig::contract::alike::one_slip;
use aynig::git::objects::quarantine::OBJECT_VARIABLES;
use aynig::git::process::call::LOCAL_VARIABLES;
use aynig::git::repo::config::CONFIG_VARIABLES;
use aynig::git::repo::open::GitVariables;
use aynig::ops::app::{App, Process};
use aynig::ops::error::Error;
use aynig::stop::survive_size_limit;

use crate::cli::args::{Arguments, Verb};
use crate::cli::exit::{Exit, render};
use crate::cli::help::{complete, demo, manual};
use crate::cli::look::{flow, graph_file, log, logs, provider, status, wait};
use crate::cli::ui::logging;
use crate::cli::ui::logging::Level;
use crate::cli::ui::{panics, signals};
use crate::cli::upkeep::{clean, doctor, hook, init, install};
use crate::cli::work::{
    answer, cancel, dry_run, flow_runs, land, next, orch, publish, run, serve, set_state, set_working,
    workspace,
};
use crate::cli::{internal, ui};

/// The whole program.
pub(crate) fn main() -> ExitCode {
    panics::notice();
    // State that a panic left inconsistent is not used afterwards.
    std::panic::catch_unwind(whole).unwrap_or_else(|_| ended(Err(panics::error())))
}

fn whole() -> ExitCode {
    ui::believe_the_terminal();
    let variables = take_git_variables();
    match complete::answer(&variables) {
        Ok(true) => return Exit::Done.into(),
        Ok(false) => {}
        Err(error) => return usage(error),
    }
    if let Some(result) = internal::call() {
        return ended(result);
    }
    match Arguments::try_parse() {
        Ok(arguments) => ended(perform(variables, arguments)),
        Err(error) => usage(error),
    }
}

fn ended(result: Result<Exit, Error>) -> ExitCode {
    match result {
        _ if panics::happened() => {
            ui::narrate(&render(&panics::error(), false));
            Exit::Bug.into()
        }
        Ok(Exit::Done) if ui::is_answer_lost() => Exit::Setup.into(),
        Ok(exit) => exit.into(),
        Err(error) => {
            let exit = signals::exit(error.kind.into());
            ui::narrate(&render(&error, matches!(exit, Exit::Signal(_))));
            exit.into()
        }
    }
}

fn perform(variables: GitVariables, arguments: Arguments) -> Result<Exit, Error> {
    let variable = std::env::var("LOG_LEVEL").ok();
    let given = level(&arguments)?;
    let (log_level, odd) = Level::choose(given, variable.as_deref());
    if arguments.quiet {
        ui::be_quiet();
    }
    logging::start(log_level);
    if let Some(odd) = odd {
        ui::narrate(&format!(
            "warning: LOG_LEVEL={} is no level (off error warn info debug trace); using error",
            ui::sanitize(&odd)
        ));
    }
    survive_size_limit().map_err(|error| Error::because("listen for signals", &error))?;
    let process = Process {
        start: start(arguments.directory)?,
        variables,
        runner_id: runner_id(),
        log_level: log_level.as_str().to_owned(),
        log_level_fixed: given.is_some(),
        program: std::env::current_exe().map_err(|error| Error::because("find this executable", &error))?,
    };
    let open = || App::open(process.clone());
    match &arguments.verb {
        Verb::Run(options) if options.dry_run => dry_run::run(&open()?, options),
        Verb::Run(options) => run::run(&open()?, options),
        Verb::Demo(options) => demo::run(&process, options),
        Verb::SetState(options) => set_state::run(&open()?, options),
        Verb::Next(options) => next::run(&process, options),
        Verb::SetWorking(options) => set_working::run(&open()?, options),
        Verb::Cancel(options) => cancel::run(&open()?, options),
        Verb::Land(options) => land::run(&open()?, options),
        Verb::Answer(options) => answer::run(&open()?, options),
        Verb::Wait(options) => wait::run(&open()?, options),
        Verb::Status(options) => status::run(&open()?, options),
        Verb::Log(options) => log::run(&open()?, options, options.json),
        Verb::Events(options) => log::run(&open()?, options, true),
        Verb::Logs(options) => logs::run(&open()?, options),
        Verb::Workspace(options) => workspace::run(&open()?, options),
        Verb::Publish(options) => publish::run(&open()?, options),
        Verb::Orch(options) if orch::needs_repository(options) => orch::run(&open()?, options),
        Verb::Orch(options) => graph_file::run(&process, options),
        Verb::Serve(options) => serve::run(open()?, options),
        Verb::Provider(options) => provider::run(&open()?, options),
        Verb::Flow(options) if flow_runs::needs_repository(options) => flow_runs::run(&open()?, options),
        Verb::Flow(options) => flow::run(&process, options),
        Verb::Clean(options) => clean::run(&open()?, options),
        Verb::Doctor(options) => doctor::run(&process, options),
        Verb::Init(options) => init::run(&open()?, options),
        Verb::Install(options) => install::run(&open()?, options),
        Verb::Hook(options) => hook::run(&open()?, options),
        Verb::Manual(options) => manual::run(&process, options),
        Verb::Completions(options) => complete::run(options),
    }
}

/// The level that the options name. They may stand before and after the subcommand, so clap does not see all
/// conflicts.
fn level(arguments: &Arguments) -> Result<Option<Level>, Error> {
    match (arguments.log_level, arguments.quiet, arguments.verbose) {
        (level, false, 0) => Ok(level),
        (None, true, 0) => Ok(Some(Level::Error)),
        (None, false, 1) => Ok(Some(Level::Info)),
        (None, false, _) => Ok(Some(Level::Debug)),
        _ => Err(Error::usage("--quiet, --verbose and --log-level exclude each other: give one of them")),
    }
}

fn start(directory: Option<PathBuf>) -> Result<PathBuf, Error> {
    let here =
        std::env::current_dir().map_err(|error| Error::because("find the working directory", &error))?;
    let Some(directory) = directory else { return Ok(here) };
    let there = here.join(directory);
    if there.is_dir() {
        return Ok(there);
    }
    let why = if there.exists() { "it is no directory" } else { "there is no such directory" };
    Err(Error::usage(format!("-C {}: {why}", there.display())))
}

/// `AYNIG_RUNNER_ID`.
fn runner_id() -> Option<String> {
    std::env::var("AYNIG_RUNNER_ID").ok().filter(|id| !id.trim().is_empty())
}

/// Reads the variables that point git at a repository, and removes all of git's variables from this process.
fn take_git_variables() -> GitVariables {
    let path =
        |name: &str| std::env::var_os(name).filter(|value: &OsString| !value.is_empty()).map(PathBuf::from);
    let all = |names: &[&'static str]| {
        names.iter().filter_map(|name| Some((*name, std::env::var_os(name)?))).collect()
    };
    let variables = GitVariables {
        git_dir: path("GIT_DIR"),
        work_tree: path("GIT_WORK_TREE"),
        objects: all(&OBJECT_VARIABLES),
        config: all(&CONFIG_VARIABLES),
    };
    forget_variables(&LOCAL_VARIABLES);
    variables
}

#[expect(unsafe_code, reason = "called once, as the first thing in main, before any thread exists")]
fn forget_variables(names: &[&str]) {
    for name in names {
        // SAFETY: no other thread exists yet that could read the environment at the same time.
        unsafe { std::env::remove_var(name) };
    }
}

/// Clap's own exits: help and version are answers, all others are usage errors.
fn usage(mut error: clap::Error) -> ExitCode {
    suggest(&mut error);
    if error.use_stderr() {
        // If this fails, there is no reader left to report to.
        drop(error.print());
        return Exit::Usage.into();
    }
    ui::answer_by(|| error.print());
    ended(Ok(Exit::Done))
}

/// Suggests the subcommand that is one slip away, or one level below. Clap itself suggests none for `rnu`, and `logs` for `lgo`.
fn suggest(error: &mut clap::Error) {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return };
    let mut command = Arguments::command();
    for argument in std::env::args_os().skip(1) {
        if let Some(inner) = command.find_subcommand(argument) {
            command = inner.clone();
        }
    }
    let shown = || command.get_subcommands().filter(|one| !one.is_hide_set());
    let below = shown().filter_map(|one| {
        let verb = one.find_subcommand(word).filter(|verb| !verb.is_hide_set())?;
        Some(format!("{} {}", one.get_name(), verb.get_name()))
    });
    let mut near: Vec<String> = below.collect();
    if near.is_empty() {
        near.extend(one_slip(word, shown().map(|one| one.get_name())).map(str::to_owned));
    }
    if !near.is_empty() {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(near));
    }
}
