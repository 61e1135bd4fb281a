//! Validators in a worktree, run by the library with real git and real programs.

mod harnesses;
mod limits;
mod outcomes;
mod planner;
mod put_back;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aynig::contract::ids::CommitId;
use aynig::engine::Bounds;
use aynig::engine::policy::Rules;
use aynig::engine::validation::{Check, End, Validated, Validation, validate};
use aynig::flow::document::{Act, Validator};
use aynig::git::Store;
use aynig::git::repo::open::GitVariables;
use aynig::model::by::By;
use aynig::model::step::Outcome;
use aynig::stop::Stop;
use aynig::workspace::context::Context;
use aynig::workspace::{Options, Workspaces};
use globset::GlobSet;

use super::support::*;
use super::workspace::Made;

/// A repository with a workspace.
pub(super) struct Room {
    pub(super) repo: Repo,
    pub(super) made: Made,
}

/// What a test sets.
pub(super) struct Setting {
    pub(super) lines: BTreeMap<String, String>,
    pub(super) inputs: BTreeMap<String, String>,
    pub(super) bounds: Bounds,
    pub(super) rules: Rules,
    pub(super) stop: Stop,
    pub(super) path: Option<OsString>,
    pub(super) evidence: PathBuf,
}

impl Setting {
    fn limit(&mut self, wall: Option<u64>, idle: Option<u64>) {
        let millis = |limit: Option<u64>| limit.map(Duration::from_millis);
        self.bounds = Bounds { wall: millis(wall).or(self.bounds.wall), idle: millis(idle), ..self.bounds };
    }

    fn line(&mut self, name: &str, line: &str) {
        self.lines.insert(name.to_owned(), line.to_owned());
    }
}

/// The entries of `run` in a flow file.
pub(super) fn validators(run: &str) -> Vec<Validator> {
    let text = format!(
        "{{workflow_id: x, version: 1, entry_step: v, inputs: {{name: {{}}, other: {{}}}}, steps: [\n\
         {{id: v, opcode: RUN_VALIDATION, run: {run}, routes: {{completed: g}}}},\n\
         {{id: g, opcode: GATE, gate: g, routes: {{gate_approved: STOP, gate_rejected: STOP}}}}]}}"
    );
    let checked = aynig::flow::check(text.as_bytes());
    let flow = checked.flow.unwrap_or_else(|| panic!("{run}: {:?}", checked.notes));
    match &flow.step("v").expect("a step").act {
        Act::RunValidation(validators) => validators.clone(),
        _ => panic!("no validators"),
    }
}

impl Room {
    /// A workspace on a commit of what is in the repository's checkout.
    pub(super) fn of(repo: Repo) -> Self {
        repo.commit_all("base");
        let made = repo.made("fix");
        Self { repo, made }
    }

    pub(super) fn new() -> Self {
        Self::of(Repo::new())
    }

    pub(super) fn sh(&self, script: &str) {
        self.made.sh(&self.repo, script);
    }

    /// What git says about the worktree.
    pub(super) fn status(&self) -> String {
        self.made.git(&self.repo, &["status", "--porcelain", "--ignored"])
    }

    /// Runs these validators.
    pub(super) fn validate(&self, run: &str, set: impl FnOnce(&mut Setting)) -> (Validated, PathBuf) {
        let number = std::fs::read_dir(self.repo.beside(".")).expect("the room").count();
        let mut setting = Setting {
            lines: BTreeMap::new(),
            inputs: BTreeMap::new(),
            bounds: Bounds {
                wall: Some(Duration::from_secs(60)),
                idle: None,
                grace: Duration::from_millis(500),
            },
            rules: Rules::default(),
            stop: Stop::manual(),
            path: None,
            evidence: self.repo.beside(&format!("evidence-{number}")),
        };
        std::fs::create_dir_all(&setting.evidence).expect("a directory");
        set(&mut setting);
        let store = Store::open(&self.repo.path, &GitVariables::default(), None).expect("a repository");
        let opened = store.handle();
        let workspaces = Workspaces::new(&opened, self.options());
        let context: Context = workspaces.find(self.made.handle.as_ref()).expect("the workspace");
        let path = setting.path.clone().or_else(|| std::env::var_os("PATH")).expect("a PATH");
        let environment = [("PATH".into(), path), ("HOME".into(), self.repo.beside("home").into())];
        let validated = validate(&Validation {
            workspaces: &workspaces,
            context: &context,
            base: CommitId::parse_hex(&context.base_sha).expect("a commit"),
            validators: &validators(run),
            inputs: &setting.inputs,
            builtins: &setting.lines,
            environment: &environment,
            evidence: &setting.evidence,
            limits: setting.bounds,
            policy: &setting.rules,
            stop: &setting.stop,
            watchdog: None,
        });
        (validated.expect("it ended"), setting.evidence)
    }

    fn options(&self) -> Options {
        Options {
            root: Some(self.repo.beside("state")),
            data: self.repo.path.join(".git/aynig/data"),
            drivers: "run/".to_owned(),
            hears: true,
            prefix: "work/".to_owned(),
            protected: GlobSet::empty(),
            keeps_ignored: false,
            setup: None,
            program: binary(),
            by: By::Runner { runner: "host".to_owned() },
            tell: |_| {},
            stop: Stop::manual(),
        }
    }
}

pub(super) fn assert_ended(validated: &Validated, outcome: Outcome) {
    assert_eq!(validated.end, End::Outcome(outcome), "{}", validated.evidence);
}

pub(super) fn check<'a>(validated: &'a Validated, name: &str) -> &'a Check {
    validated
        .checks
        .iter()
        .find(|check| check.name == name)
        .unwrap_or_else(|| panic!("{}", validated.evidence))
}

pub(super) fn read(evidence: &Path, name: &str) -> String {
    std::fs::read_to_string(evidence.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The report of all validators.
pub(super) fn report(evidence: &Path) -> serde_json::Value {
    serde_json::from_str(&read(evidence, "validation_report.json")).expect("JSON")
}
