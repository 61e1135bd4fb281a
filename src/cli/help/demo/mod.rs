//! `aynig demo`: a small real repository, run to its end by this binary's own runner and then narrated.
//!
//! Nothing is simulated. `scene` makes a repository with commands, the runner runs them like
//! `aynig run --drain --jobs 2`, and `story` reads the resulting commits. The demo needs git and a writable
//! directory, but neither network nor configuration. The repository stays for the user to look at.

mod flow;
mod orchestration;
mod scene;
mod story;
mod typist;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use aynig::fsutil::found_in;
use aynig::git::Git;
use aynig::ops::app::{App, Process};
use aynig::ops::error::Error;
use aynig::ops::run::{Setup, plain_options};
use aynig::runner::authority::Authority;
use aynig::runner::events::feed::Feed;
use aynig::runner::events::notice::Notice;
use aynig::runner::options::CurrentBranch;
use aynig::runner::options::{Options, Selection};
use aynig::runner::passes::pass::pass;
use aynig::runner::shell_quote;
use aynig::stop::Stop;

use crate::cli::args::Demo;
use crate::cli::exit::Exit;
use crate::cli::help::demo::story::Times;
use crate::cli::ui;
use crate::cli::ui::live::Live;
use crate::cli::ui::narrator::Narrator;
use crate::cli::ui::{FAINT, STRONG, styled};
use crate::cli::ui::{panics, signals};

/// More passes than needed: three features with at most three attempts each.
const PASSES: usize = 20;

/// Runs the subcommand.
pub(crate) fn run(process: &Process, arguments: &Demo) -> Result<Exit, Error> {
    let asked = arguments.place.as_deref();
    match (arguments.flow, arguments.orchestration) {
        (true, _) => flow::run(process, asked),
        (_, true) => orchestration::run(process, asked),
        _ => branches(process, asked),
    }
}

/// Runs three branches to their end.
fn branches(process: &Process, asked: Option<&Path>) -> Result<Exit, Error> {
    need_git(process)?;
    let place = place(process, asked)?;
    let shutdown = signals::shutdown()?;
    let _panics = panics::stop(&shutdown, Duration::ZERO)?;
    let app = scene::build(&place, process)
        .map_err(|error| error.hint(format!("what was made so far is in {}", place.display())))?;
    ui::answer(&format!("A repository to look at: {}", styled(STRONG, place.display())));
    ui::answer("Three branches each ask for a little program, in a trailer of their newest commit:");
    ui::answer(&styled(FAINT, "  dwp-state: implement"));
    ui::answer("implement, check, review and stalled are shell scripts in .aynig/command/.");
    ui::answer("");
    ui::answer(&format!("$ {}", styled(STRONG, "aynig run --drain --jobs 2")));
    let times = drive(&app, &shutdown)?;
    if let Some(cause) = shutdown.cause() {
        return Ok(cause.into());
    }

    ui::answer("");
    ui::answer(&format!(
        "What happened, as the commits tell it (every attempt was leased by {}):",
        ui::sanitize(app.repo().runner_id())
    ));
    let repo = app.repo();
    let mut unfinished = Vec::new();
    for feature in &scene::FEATURES {
        let told = story::tell(&repo, feature, &times)?;
        ui::answer("");
        told.lines.iter().for_each(|line| ui::answer(line));
        if told.state.as_deref() != Some("done") {
            unfinished.push(feature.branch().to_string());
        }
    }
    ui::answer("");
    let lines = [
        ("git log --graph --oneline --all", "every transition is a commit"),
        ("aynig status --all", "where each branch stands"),
        ("aynig log feature/count", "the branch that failed once"),
        ("aynig logs feature/count", "what its last command printed"),
        ("cat .aynig/command/stalled", "how it found its way back"),
        ("git diff main feature/count", "what came of it"),
        ("aynig demo --flow", "the same for an agent, with tests, a planner and your approval"),
        ("aynig demo --orchestration", "two agents, your approval, and a page (`aynig serve`)"),
    ];
    let lines = lines.map(|(line, what)| (line.to_owned(), what));
    next_steps(&place, &process.program, &lines).iter().for_each(|line| ui::answer(line));
    if unfinished.is_empty() {
        return Ok(Exit::Done);
    }
    Err(Error::failed(format!("not every branch came to its end: {}", unfinished.join(", ")))
        .hint(format!("`git -C {} log --all --graph` tells how far they got", place.display())))
}

/// Checks for git before anything is created.
fn need_git(process: &Process) -> Result<(), Error> {
    match Git::new(&process.start).arg("--version").run() {
        Ok(_) => Ok(()),
        Err(error) => Err(Error::because("make the repository of the demo", &error)
            .hint("the demo needs the program `git` on your PATH; install it and try again")),
    }
}

/// Chooses the repository's directory: DIR if it is free, else a new temporary directory, which stays.
fn place(process: &Process, asked: Option<&Path>) -> Result<PathBuf, Error> {
    let made = match asked {
        None => tempfile::Builder::new().prefix("aynig-demo-").tempdir().map(tempfile::TempDir::keep),
        Some(directory) => {
            let place = process.start.join(directory);
            match std::fs::read_dir(&place) {
                Ok(mut entries) => {
                    if entries.next().is_some() {
                        return Err(Error::setup(format!("{} is not empty", place.display())).hint(
                            "name a directory that is empty or does not exist, or none for a temporary one",
                        ));
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => {
                    return Err(Error::because(&format!("use {}", place.display()), &error)
                        .hint("name a directory that is empty or does not exist"));
                }
            }
            std::fs::create_dir_all(&place).map(|()| place)
        }
    };
    made.and_then(|place| place.canonicalize()).map_err(|error| {
        Error::because("make a directory for the demo", &error)
            .hint("name a place that can be written to: `aynig demo DIR`")
    })
}

/// Runs passes until no branch is ready.
fn drive(app: &App, shutdown: &Stop) -> Result<Times, Error> {
    let repo = app.repo();
    let options = Options {
        selection: Selection { current: CurrentBranch::Skip, ..Selection::everything() },
        jobs: NonZeroUsize::MIN.saturating_add(1),
        ..plain_options(&repo, &app.process)
    };
    let setup = Setup::new(options, Authority::Local, crate::cli::internal::WATCHDOG);
    let narrator = Narrator::new(false, Live::on_terminal(), None);
    let times = Mutex::new(Times::new());
    let mut feed = Feed::default();
    feed.subscribe(|notice| {
        if let Notice::Ended(report) = notice
            && let Ok(mut times) = times.lock()
        {
            times.insert(report.attempt.to_string(), report.elapsed);
        }
    });
    feed.subscribe(|notice| narrator.tell(notice));
    let context = setup.context(&app.store, shutdown, &feed);
    for _ in 0..PASSES {
        if !pass(&context, &repo)?.did_something() || shutdown.cause().is_some() {
            break;
        }
    }
    drop(feed);
    Ok(times.into_inner().unwrap_or_default())
}

/// Suggested commands to see more, and what each shows.
fn next_steps(place: &Path, program: &Path, more: &[(String, &'static str)]) -> Vec<String> {
    let mut shown = vec![(format!("cd {}", shell_quote(place.display().to_string())), "")];
    if !on_path(program) {
        shown.push((format!("alias aynig={}", shell_quote(program.display().to_string())), ""));
    }
    shown.extend_from_slice(more);
    let mut lines = vec!["Next:".to_owned()];
    lines.extend(shown.iter().map(|(command, what)| match *what {
        "" => format!("  {command}"),
        what => format!("  {command:<46} {}", styled(FAINT, format!("# {what}"))),
    }));
    lines
}

/// Whether `aynig` in the PATH is this binary.
fn on_path(program: &Path) -> bool {
    let found = std::env::var_os("PATH").and_then(|path| found_in("aynig", &path));
    let places = found.and_then(|found| Some((found.canonicalize().ok()?, program.canonicalize().ok()?)));
    places.is_some_and(|(found, own)| found == own)
}
