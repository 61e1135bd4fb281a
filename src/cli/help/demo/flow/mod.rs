//! `aynig demo --flow`: a flow from its start to its verdict, as a user would type it.
//!
//! Invariant: each line that is shown is run by a shell, word for word. The agent and the planner are shell scripts; all
//! else is real. The user's configuration has no influence.

use std::path::Path;

use aynig::ops::app::Process;
use aynig::ops::error::Error;
use aynig::runner::shell_quote;

use crate::cli::exit::Exit;
use crate::cli::help::demo::scene;
use crate::cli::help::demo::typist::Typist;
use crate::cli::help::demo::{need_git, next_steps, place};
use crate::cli::ui;
use crate::cli::ui::signals;
use crate::cli::ui::{STRONG, styled};

/// The files of the repository: path, text, executable.
const FILES: [(&str, &str, bool); 6] = [
    ("README.md", "# Little text tools\n", false),
    ("fix.yaml", include_str!("fix.yaml"), false),
    ("planner", include_str!("planner"), true),
    ("tests/run", include_str!("../files/run"), true),
    ("tests/count/input", "three little\nwords\n", false),
    ("tests/count/wanted", "3\n", false),
];

/// The agent, which is beside the repository: it belongs to the host.
const AGENT: &str = include_str!("agent");

/// The task.
const TASK: &str = "Write bin/count, which prints how many words there are.";

/// Runs the demo.
pub(crate) fn run(process: &Process, asked: Option<&Path>) -> Result<Exit, Error> {
    need_git(process)?;
    let room = place(process, asked)?;
    let shutdown = signals::shutdown()?;
    let project = room.join("project");
    build(&room, &project).map_err(|error| error.hint(format!("what was made is in {}", room.display())))?;
    ui::answer(&format!("A repository to look at: {}", styled(STRONG, project.display())));
    ui::answer("fix.yaml lets an agent write a program, tests it, has it judged, and asks a person.");
    ui::answer(
        "Agent and planner are shell scripts here: ../agent and planner. The agent first counts lines instead",
    );
    ui::answer("of words: the test fails, and the planner sends it back with what the test said.");
    let typist = Typist { program: &process.program, directory: &project, stop: &shutdown };
    let slug = match session(&typist) {
        Ok(slug) => slug,
        Err(_) if shutdown.cause().is_some() => String::new(),
        Err(error) => return Err(error.hint(format!("what was made is in {}", room.display()))),
    };
    if let Some(cause) = shutdown.cause() {
        return Ok(cause.into());
    }
    ui::answer("");
    let work = format!("work/{slug}/flow");
    let lines = [
        (format!("aynig flow log {slug}"), "every step, question and answer"),
        (format!("git log --oneline {work}"), "what the agent did, step by step"),
        (format!("git log --oneline run/{slug}/flow"), "who carried out which step"),
        ("aynig flow graph fix.yaml".to_owned(), "the steps, drawn"),
        ("cat fix.yaml planner ../agent".to_owned(), "what was made for this"),
        (format!("aynig land {work}"), "put the change onto main"),
        ("aynig serve --run".to_owned(), "a page for all of this, and a runner"),
        (format!("rm -r {}", shell_quote(room.display().to_string())), "all that this demo made"),
    ];
    next_steps(&project, &process.program, &lines).iter().for_each(|line| ui::answer(line));
    Ok(Exit::Done)
}

/// Makes the repository, and the agent beside it.
fn build(room: &Path, project: &Path) -> Result<(), Error> {
    std::fs::create_dir(project)
        .map_err(|error| Error::because("make the repository of the demo", &error))?;
    scene::init(project)?;
    let worktrees = room.join("worktrees");
    scene::configure(
        project,
        &[
            ("user.name", "You"),
            ("user.email", "you@example.com"),
            ("aynig.workspaceRoot", &worktrees.display().to_string()),
            ("aynig.provider.scripted.kind", "custom"),
            ("aynig.provider.scripted.command", &room.join("agent").display().to_string()),
        ],
    )?;
    scene::write(room, "agent", AGENT, true)?;
    for (path, text, program) in FILES {
        scene::write(project, path, text, program)?;
    }
    scene::commit_all(project, "tests, a flow and a planner")
}

/// Types everything. Returns the slug of the run.
fn session(typist: &Typist<'_>) -> Result<String, Error> {
    typist.types("git config --get-regexp '^aynig'", Exit::Done)?;
    typist.types("aynig flow check fix.yaml --base main", Exit::Done)?;
    let start = format!("aynig flow start fix.yaml --input task='{TASK}' --wait");
    typist.types(&start, Exit::Person)?;
    let slug = typist.slug()?;
    typist.types(&format!("aynig flow show {slug}"), Exit::Done)?;
    typist.types(&format!("aynig flow approve {slug} --comment 'That is it.'"), Exit::Done)?;
    typist.types("aynig run --drain", Exit::Done)?;
    typist.types("aynig flow list", Exit::Done)?;
    typist.types(&format!("git diff main work/{slug}/flow"), Exit::Done)?;
    Ok(slug)
}
