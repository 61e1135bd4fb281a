//! `aynig demo --orchestration`: two agents that hand work to each other, as a user would type it.
//!
//! Invariant: each line that is shown is run by a shell, word for word. The agents are a shell script; all else is real.
//! The user's configuration has no influence.

use std::path::Path;

use aynig::git::repo::open::GitVariables;
use aynig::ops::app::{App, Process};
use aynig::ops::approvals;
use aynig::ops::error::Error;
use aynig::runner::shell_quote;

use crate::cli::exit::Exit;
use crate::cli::help::demo::typist::Typist;
use crate::cli::help::demo::{need_git, next_steps, place, scene};
use crate::cli::ui;
use crate::cli::ui::signals;
use crate::cli::ui::{STRONG, styled};

/// The files of the repository: path, text, executable.
const FILES: [(&str, &str, bool); 5] = [
    ("README.md", "# Little text tools\n", false),
    ("pair.yaml", include_str!("pair.yaml"), false),
    ("tests/run", include_str!("../files/run"), true),
    ("tests/count/input", "three little\nwords\n", false),
    ("tests/count/wanted", "3\n", false),
];

/// The agent, which is beside the repository: it belongs to the host.
const AGENT: &str = include_str!("agent");

/// The task.
const TASK: &str = "Write bin/count, which prints how many words there are.";

/// The words that end the loop of the agents.
const HELP: &str = "Count words, not lines.";

/// The part of an id that people type.
const SHORT: usize = 8;

/// Runs the demo.
pub(crate) fn run(process: &Process, asked: Option<&Path>) -> Result<Exit, Error> {
    need_git(process)?;
    let room = place(process, asked)?;
    let shutdown = signals::shutdown()?;
    let project = room.join("project");
    build(&room, &project).map_err(|error| error.hint(format!("what was made is in {}", room.display())))?;
    ui::answer(&format!("A repository to look at: {}", styled(STRONG, project.display())));
    ui::answer("pair.yaml has two agents: ada writes, rex reviews. Both are a shell script here: ../agent.");
    ui::answer(
        "ada asks before she writes. She counts lines instead of words, and rex sends it back, again and",
    );
    ui::answer("again: the run is paused, and waits for a person.");
    let typist = Typist { program: &process.program, directory: &project, stop: &shutdown };
    let slug = match session(&typist, process) {
        Ok(slug) => slug,
        Err(_) if shutdown.cause().is_some() => String::new(),
        Err(error) => return Err(error.hint(format!("what was made is in {}", room.display()))),
    };
    if let Some(cause) = shutdown.cause() {
        return Ok(cause.into());
    }
    ui::answer("");
    let lines = [
        (format!("aynig orch events {slug}"), "every message, turn and answer"),
        (format!("aynig orch artifact list {slug}"), "what each turn was given, and what it changed"),
        (format!("git log --oneline work/{slug}/ada"), "what ada did, turn by turn"),
        ("cat pair.yaml ../agent".to_owned(), "what was made for this"),
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
    scene::configure(
        project,
        &[
            ("user.name", "You"),
            ("user.email", "you@example.com"),
            ("aynig.workspaceRoot", &room.join("worktrees").display().to_string()),
            ("aynig.approvalWaitSeconds", "0"),
            ("aynig.stallRepeats", "3"),
            ("aynig.provider.scripted.kind", "custom"),
            ("aynig.provider.scripted.protocol", "jsonl"),
            ("aynig.provider.scripted.command", &room.join("agent").display().to_string()),
        ],
    )?;
    scene::write(room, "agent", AGENT, true)?;
    for (path, text, program) in FILES {
        scene::write(project, path, text, program)?;
    }
    scene::commit_all(project, "tests, and a graph")
}

/// Types everything. Returns the slug of the run.
fn session(typist: &Typist<'_>, process: &Process) -> Result<String, Error> {
    typist.types("cat pair.yaml", Exit::Done)?;
    typist.types("aynig orch check pair.yaml", Exit::Done)?;
    typist.types("aynig orch run create --from pair.yaml", Exit::Done)?;
    let slug = typist.slug()?;
    typist.types(&format!("aynig orch chat {slug} ada '{TASK}'"), Exit::Done)?;
    typist.types("aynig run --drain", Exit::Done)?;
    typist.types("aynig orch approvals", Exit::Done)?;
    let id = open_request(typist, process)?;
    typist.types(&format!("aynig orch approve {id} --always"), Exit::Done)?;
    typist.types("aynig run --drain", Exit::Done)?;
    typist.types(&format!("aynig orch show {slug}"), Exit::Done)?;
    for alias in ["ada", "rex"] {
        typist.types(&format!("aynig workspace rollback {slug}/{alias}"), Exit::Done)?;
    }
    typist.types(&format!("aynig orch chat {slug} ada '{HELP}'"), Exit::Done)?;
    typist.types(&format!("aynig orch run resume {slug}"), Exit::Done)?;
    typist.types("aynig run --drain", Exit::Done)?;
    typist.types(&format!("aynig orch events {slug} --type handoff.sent"), Exit::Done)?;
    typist.types(&format!("git diff main work/{slug}/ada"), Exit::Done)?;
    typist.types(&format!("aynig orch run complete {slug}"), Exit::Done)?;
    Ok(slug)
}

/// The beginning of the id of the request that waits.
fn open_request(typist: &Typist<'_>, process: &Process) -> Result<String, Error> {
    let app = App::open(Process {
        start: typist.directory.to_owned(),
        variables: GitVariables::default(),
        ..process.clone()
    })?;
    let open = approvals::list(&app.repo(), approvals::Which::Open)?;
    let id = open.first().map(|asked| asked.approval.id.to_string());
    let id = id.ok_or_else(|| Error::failed("the agent asked for nothing"))?;
    Ok(id.chars().take(SHORT).collect())
}
