//! A remote as arbiter: several clones, hosts and roles, one winner per step.
//!
//! The hub is a bare repository. Tests create and read its branches directly; runners only use clones. A
//! `git` wrapper, first in a runner's PATH, counts its calls and breaks its connections.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use super::scene::*;
use super::support::*;

mod away;
mod cancel;
mod claims;
mod deferred;
mod failures;
pub(crate) mod guard;
mod hanging;
mod interrupted;
mod landings;
mod namespace;
mod observed;
mod odd_names;
mod places;
mod races;
mod selection;
pub(crate) mod servers;
mod showing;
mod sleep;
mod unset;
mod waiting;
mod watching;

/// One pass over the remote.
const RUN: &[&str] = &["run", "--remote", "origin"];

/// Commits a file, leaves an untracked one, reports ready, and waits for its release.
const WORK: &str = r#"echo ran >>"$ROOM/ran"; echo own >own.txt; git add own.txt; git commit -q -m 'own work'
echo loose >loose.txt; say at $$; await release; "#;

/// A bare repository whose `main` holds these commands.
fn hub(commands: &[(&str, &str)]) -> Repo {
    Repo::scene(commands).into_bare()
}

/// Commands at any path.
fn hub_at(commands: &[(&str, &str)]) -> Repo {
    let repo = Repo::new();
    for (path, script) in commands {
        repo.command(path, &repo.scripted(script));
    }
    repo.commit_all("commands");
    repo.into_bare()
}

/// A hook of the hub, run on the server's side of a push.
fn hook(hub: &Repo, name: &str, script: &str) {
    hub.command(&format!("hooks/{name}"), script);
}

/// A clone in a room of its own; `main` is checked out.
fn clone(hub: &Repo) -> Repo {
    hub.clone_beside("clone")
}

/// A `git` that logs the subcommand of each call and may do something else instead.
pub(crate) struct Wrapper {
    directory: PathBuf,
    calls: PathBuf,
}

impl Wrapper {
    /// `script` sees `$verb`, `$count` (the number of calls of that subcommand so far, with this one), `$GIT`
    /// (the real one), and the prelude of scenes. At its end it runs the real git.
    pub(crate) fn new(hub: &Repo, script: &str) -> Self {
        let directory = hub.beside("wrapper");
        fs::create_dir(&directory).expect("a fresh directory");
        let calls = hub.beside("calls");
        let found = Command::new("sh").args(["-c", "command -v git"]).output().expect("sh runs");
        let text = hub.scripted(&format!(
            "GIT='{}'; CALLS='{}'; verb=\n\
             for word; do case $word in push|fetch|ls-remote) verb=$word; break;; esac; done\n\
             if [ -n \"$verb\" ]; then\n\
             echo \"$verb\" >>\"$CALLS\"; count=$(grep -c \"^$verb\\$\" \"$CALLS\")\n{script}\nfi\nexec \"$GIT\" \"$@\"",
            out(&found).trim(),
            calls.display(),
        ));
        let file = directory.join("git");
        fs::write(&file, format!("#!/bin/sh\n{text}\n")).expect("a file");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("chmod");
        Self { directory, calls }
    }

    /// How often a subcommand was called.
    fn count(&self, verb: &str) -> usize {
        fs::read_to_string(&self.calls).unwrap_or_default().lines().filter(|line| *line == verb).count()
    }

    /// A PATH with this git in it.
    pub(crate) fn path(&self) -> String {
        format!("{}:{}", self.directory.display(), std::env::var("PATH").expect("a PATH"))
    }

    /// `aynig` in a clone, with this git in its PATH.
    fn aynig(&self, clone: &Repo, arguments: &[&str]) -> Command {
        let mut command = clone.aynig_command();
        command.env("PATH", self.path()).args(arguments);
        command
    }

    /// Runs it to its end.
    fn run(&self, clone: &Repo, arguments: &[&str]) -> Output {
        self.aynig(clone, arguments).output().expect("aynig runs")
    }

    /// Starts it in the background.
    fn start(&self, clone: &Repo, arguments: &[&str]) -> Running {
        Running::start(self.aynig(clone, arguments).stdout(Stdio::piped()).stderr(Stdio::piped()))
    }
}

/// States of the commits in `main..branch`, oldest first; `-` where none is declared.
fn states(hub: &Repo, branch: &str) -> Vec<String> {
    let commits = hub.linear(&format!("main..{branch}"));
    commits
        .iter()
        .map(|commit| Some(hub.state(commit)).filter(|state| !state.is_empty()).unwrap_or("-".to_owned()))
        .collect()
}

/// The branches of a repository with their commits.
fn heads(repo: &Repo) -> String {
    repo.git(["for-each-ref", "refs/heads"])
}

/// Asserts that the work of [`WORK`] is in the one rescue ref of the clone, which `output` names.
fn assert_work_saved(clone: &Repo, output: &Output) {
    let rescue = clone.rescue();
    assert_eq!(clone.show(&format!("{rescue}:own.txt")), "own");
    assert_eq!(clone.show(&format!("{rescue}:loose.txt")), "loose");
    assert!(out(output).contains(&rescue), "{}", told(output));
    clone.assert_tidy();
}

/// The header of a commit that names its attempt, by which a server recognises a runner's result.
fn header_of_attempt(hub: &Repo, revision: &str) -> Option<String> {
    let commit = hub.git(["cat-file", "commit", revision]);
    let (headers, _) = commit.split_once("\n\n")?;
    headers.lines().find_map(|line| line.strip_prefix("aynig-run-id ")).map(str::to_owned)
}

/// Asserts an exit code, and prints the whole output if it differs.
#[track_caller]
fn assert_exit(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{}", told(output));
}
