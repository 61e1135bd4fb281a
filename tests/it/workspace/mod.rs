//! Managed workspaces.

mod advice;
mod attacks;
#[cfg(debug_assertions)]
mod crashes;
mod create;
mod gone;
mod guards;
mod hidden;
mod hosts;
mod leftovers;
#[cfg(debug_assertions)]
mod meanwhile;
mod planted;
mod remove;
mod rollback;
pub(crate) mod runs;
mod snapshot;
mod sparse;
mod tampering;

use std::path::PathBuf;

use serde_json::Value;

use super::support::*;

impl Repo {
    /// `aynig workspace …` with its worktrees in the room beside the repository; any exit code is fine.
    pub(crate) fn workspace<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> std::process::Output {
        self.workspace_command().args(arguments).output().expect("aynig runs")
    }

    /// The command for it.
    pub(crate) fn workspace_command(&self) -> std::process::Command {
        let mut command = self.aynig_command();
        command.env("XDG_STATE_HOME", self.beside("state")).arg("workspace");
        command
    }

    /// The same; it must succeed.
    pub(crate) fn workspace_ok<'a>(
        &self,
        arguments: impl IntoIterator<Item = &'a str>,
    ) -> std::process::Output {
        let arguments: Vec<&str> = arguments.into_iter().collect();
        let output = self.workspace(arguments.iter().copied());
        assert!(output.status.success(), "{arguments:?}: {}{}", out(&output), err(&output));
        output
    }

    /// Makes a workspace.
    pub(crate) fn made(&self, name: &str) -> Made {
        let text = out(&self.workspace_ok(["create", name, "--json"]));
        Made::of(&self.answered(&text)[0])
    }

    /// The contexts of all workspaces.
    pub(crate) fn workspaces(&self) -> Vec<Value> {
        let text = out(&self.workspace_ok(["list", "--json"]));
        self.answered(&text)
    }

    /// The workspaces of an answer in JSON.
    pub(crate) fn answered(&self, text: &str) -> Vec<Value> {
        let value: Value = serde_json::from_str(text).expect("JSON");
        value["workspaces"].as_array().expect("a list").clone()
    }

    /// The directory of all runs.
    pub(crate) fn runs(&self) -> PathBuf {
        self.path.join(".git/aynig/data/runs")
    }
}

/// A workspace that was made.
pub(crate) struct Made {
    pub(crate) path: PathBuf,
    pub(crate) branch: String,
    pub(crate) handle: String,
    pub(crate) slug: String,
    pub(crate) run: String,
}

impl Made {
    /// The directory of its record.
    pub(crate) fn record(&self, repo: &Repo) -> PathBuf {
        let name = self.path.file_name().expect("a name");
        repo.runs().join(&self.run).join("workspaces").join(name)
    }

    pub(crate) fn of(context: &Value) -> Self {
        let text = |field: &str| context[field].as_str().expect(field).to_owned();
        Self {
            path: text("worktreePath").into(),
            branch: text("branch"),
            handle: format!("{}/{}", text("slug"), text("name")),
            slug: text("slug"),
            run: text("run"),
        }
    }
}
