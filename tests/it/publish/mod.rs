//! Publishing: the work branch of a workspace as a branch of a hub, and as one proposal.

mod agit;
#[cfg(debug_assertions)]
mod crashes;
mod github;
mod names;
mod outage;
mod program;
mod projection;
mod push_options;
mod squash;

use std::process::Output;

use aynig::contract::ids::RemoteName;
use aynig::ledger::Place;
use aynig::model::ids::RunId;
use serde_json::Value;

use super::scene::told;
use super::support::*;
use super::workspace::Made;
use super::workspace::runs::{made_in, run_at};

/// A hub, a clone of it, and a run with a workspace that has one commit.
pub(super) struct Field {
    pub(super) hub: Repo,
    pub(super) repo: Repo,
    pub(super) run: RunId,
    pub(super) made: Made,
}

impl Field {
    /// A run that the clone decides.
    pub(super) fn new() -> Self {
        Self::at(&Place::Here)
    }

    pub(super) fn at(place: &Place) -> Self {
        let (hub, repo) = hub_and_clone();
        let run = run_at(&repo, place);
        let made = made_in(&repo, run, "flow");
        let field = Self { hub, repo, run, made };
        field.work("one");
        field
    }

    /// A run that the hub decides.
    pub(super) fn of_hub() -> Self {
        Self::at(&Place::Remote(RemoteName::parse("origin").expect("a name")))
    }

    /// Commits a file in the workspace.
    pub(super) fn work(&self, name: &str) -> String {
        self.made
            .sh(&self.repo, &format!("echo {name} >{name}; git add {name}; git commit -qm 'Add {name}'"));
        self.head()
    }

    /// The commit of the work branch.
    pub(super) fn head(&self) -> String {
        self.repo.head(&self.made.branch)
    }

    /// `aynig publish` of the run with these options.
    pub(super) fn command(&self, options: &[&str]) -> std::process::Command {
        let mut command = publish_command(&self.repo);
        command.arg(self.run.to_string()).args(options);
        command
    }

    /// Runs it; any exit code is fine.
    pub(super) fn publish(&self, options: &[&str]) -> Output {
        self.command(options).output().expect("aynig runs")
    }

    /// The same; it must succeed. Returns the answer in JSON.
    pub(super) fn published(&self, options: &[&str]) -> Value {
        let output = self.publish(&[options, &["--json"]].concat());
        assert!(output.status.success(), "{options:?}: {}", told(&output));
        json(&output)
    }

    /// The commit of the published branch on the hub.
    pub(super) fn there(&self) -> String {
        self.hub.git(["for-each-ref", "--format=%(objectname)", &format!("refs/heads/{}", self.made.branch)])
    }

    /// The types of the events about publishing.
    pub(super) fn events(&self) -> Vec<String> {
        let lines = out(&self.repo.aynig_ok(["orch", "events", &self.run.to_string(), "--json"]));
        let types = lines.lines().map(|line| {
            let event: Value = serde_json::from_str(line).expect("JSON");
            event["event"]["type"].as_str().expect("a type").to_owned()
        });
        types.filter(|kind| kind.starts_with("publish.")).collect()
    }

    /// The context of the workspace.
    pub(super) fn context(&self) -> Value {
        let file = self.made.record(&self.repo).join("workspace-context.json");
        serde_json::from_slice(&std::fs::read(file).expect("a context")).expect("JSON")
    }

    /// Puts a commit of somebody else on the published branch. Returns it.
    pub(super) fn foreign(&self) -> String {
        let tree = format!("{}^{{tree}}", self.there());
        let theirs = self.hub.git(["commit-tree", "-p", &self.there(), "-m", "theirs", &tree]);
        self.hub.git(["update-ref", &format!("refs/heads/{}", self.made.branch), &theirs]);
        theirs
    }
}

/// A hub with `main`, and a clone.
pub(crate) fn hub_and_clone() -> (Repo, Repo) {
    let hub = Repo::new().into_bare();
    let repo = hub.clone_beside("clone");
    (hub, repo)
}

/// `aynig publish` in a repository.
pub(super) fn publish_command(repo: &Repo) -> std::process::Command {
    let mut command = repo.aynig_command();
    command.env("XDG_STATE_HOME", repo.beside("state")).arg("publish");
    command
}
