//! `aynig demo --flow`: a flow from its start to its verdict, as a user would type it.
//!
//! Invariant: each line that is shown is run by a shell, word for word. The agent and the planner are shell scripts; all
//! else is real. The user's configuration has no influence.

use std::path::Path;

use aynig::ops::app::Process;
use aynig::ops::error::Error;
use aynig::runner::shell_quote;
use aynig::stop::Stop;
use aynig::supervise::typed;

use crate::cli::exit::Exit;
use crate::cli::help::demo::scene;
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

/// Variables that would lead the lines elsewhere, or make them wait for a key.
const VARIABLES: [(&str, &str); 4] = [
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_PAGER", "cat"),
    ("PAGER", "cat"),
];

/// A person types lines into a terminal.
struct Typist<'a> {
    program: &'a Path,
    directory: &'a Path,
    stop: &'a Stop,
}

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
    let slug = match typist.session() {
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
        (format!("rm -r {}", shell_quote(&room.display().to_string())), "all that this demo made"),
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

impl Typist<'_> {
    /// Types everything. Returns the slug of the run.
    fn session(&self) -> Result<String, Error> {
        self.types("git config --get-regexp '^aynig'", Exit::Done)?;
        self.types("aynig flow check fix.yaml --base main", Exit::Done)?;
        let start = format!("aynig flow start fix.yaml --input task='{TASK}' --wait");
        self.types(&start, Exit::Person)?;
        let slug = self.slug()?;
        self.types(&format!("aynig flow show {slug}"), Exit::Done)?;
        self.types(&format!("aynig flow approve {slug} --comment 'That is it.'"), Exit::Done)?;
        self.types("aynig run --drain", Exit::Done)?;
        self.types("aynig flow list", Exit::Done)?;
        self.types(&format!("git diff main work/{slug}/flow"), Exit::Done)?;
        Ok(slug)
    }

    /// Shows a line, and runs it. An exit code other than the expected one is an error.
    fn types(&self, line: &str, expected: Exit) -> Result<(), Error> {
        if self.stop.cause().is_some() {
            return Err(Error::failed("stopped"));
        }
        ui::answer("");
        ui::answer(&format!("$ {}", styled(STRONG, line)));
        let ended = typed(line, ("aynig", self.program), self.directory, &VARIABLES)
            .map_err(|error| Error::because(&format!("run `{line}`"), &error))?;
        if ended.code() == Some(i32::from(expected.code())) {
            return Ok(());
        }
        Err(Error::failed(format!("`{line}` ended with {ended}")))
    }

    /// The slug of the only run, by the name of its driver.
    fn slug(&self) -> Result<String, Error> {
        let named = scene::git(self.directory).args([
            "for-each-ref",
            "--format=%(refname:lstrip=3)",
            "refs/heads/run/",
        ]);
        let named = named.run().map_err(|error| Error::because("look for the run", &error))?;
        let named = named.text();
        let slug = named.split('/').next().filter(|slug| !slug.is_empty());
        slug.map(str::to_owned).ok_or_else(|| Error::failed("the flow made no run"))
    }
}
