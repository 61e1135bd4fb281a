//! Runs of flows on the real binary: from `flow start` over the runner to the verdict.

/// A step of the agent `scripted`, which ends the run on an error.
macro_rules! agent_step {
    ($id:literal, $prompt:literal, $next:literal) => {
        concat!(
            "  - id: ",
            $id,
            "\n    opcode: RUN_AGENT\n    agent: scripted\n    prompt: ",
            $prompt,
            "\n    routes: {completed: ",
            $next,
            ", error: STOP}\n"
        )
    };
}

/// The gate `ask`, which ends the run if it is approved.
macro_rules! gate_step {
    ($rejected:literal) => {
        concat!(
            "  - id: ask\n    opcode: GATE\n    gate: result\n    routes: {gate_approved: STOP, gate_rejected: ",
            $rejected,
            "}\n"
        )
    };
}

/// The rollback `undo`, which ends the run on an error.
macro_rules! undo_step {
    ($next:literal) => {
        concat!(
            "  - id: undo\n    opcode: ROLLBACK\n    target: pre_run\n    routes: {completed: ",
            $next,
            ", error: STOP}\n"
        )
    };
}

mod afterwards;
mod agent;
mod alone;
mod back;
mod beside;
mod broken_worktree;
mod bulky;
mod changed_settings;
mod control;
mod crashes;
mod cut_off;
mod edited;
mod facts;
mod fetched;
mod first;
mod forbidden;
mod forged;
mod frozen;
mod gate;
mod gate_moved;
mod gate_signed;
mod gate_time;
mod gone;
mod hard;
mod heard;
mod hostile;
mod hosts;
mod hub;
mod inputs;
mod interrupted;
pub(crate) mod kept_end;
mod killed;
mod lacking;
mod landing;
mod lease;
mod limits;
mod moved_refs;
mod persons;
mod planner;
#[path = "../../fixtures/providers/played.rs"]
mod played;
mod policies;
mod policy_commits;
mod providers;
mod published;
mod put_back;
mod recorded;
pub(crate) mod replicated;
mod said;
mod seed;
mod server;
mod sessions;
mod set_back;
mod stale;
mod steered;
mod suspects;
mod taken_away;
mod telling;
mod trust;
mod unable;
mod unfetched;
mod validators;
mod waiting;
mod whole;
mod workshop;

use serde_json::Value;

use super::scene::told;
use super::support::*;

/// The beginning of a flow: what stands before its steps.
pub(super) fn flow(entry: &str, steps: &str) -> String {
    format!("workflow_id: test\nversion: 1\nentry_step: {entry}\nsteps:\n{steps}")
}

/// A run that was started.
pub(super) struct Started {
    pub(super) slug: String,
    pub(super) id: String,
    pub(super) driver: String,
    pub(super) work: String,
    pub(super) worktree: std::path::PathBuf,
    pub(super) directory: std::path::PathBuf,
}

/// Lets the worktrees of a repository be made beside it.
pub(super) fn place_worktrees(repo: &Repo) {
    repo.git(["config", "aynig.workspaceRoot", repo.beside("worktrees").to_str().expect("UTF-8")]);
}

/// Runs git, which may fail.
pub(super) fn git_output(repo: &Repo, arguments: &[&str]) -> std::process::Output {
    repo.git_command().args(arguments).output().expect("git runs")
}

/// Starts a run of this flow.
pub(super) fn start(repo: &Repo, text: &str) -> Started {
    start_with(repo, text, &[])
}

/// Starts a run of this flow with more arguments.
pub(super) fn start_with(repo: &Repo, text: &str, more: &[&str]) -> Started {
    let file = repo.path.join(".git").join("flow.yaml");
    std::fs::write(&file, text).expect("a file");
    start_file(repo, file.to_str().expect("UTF-8"), more)
}

/// Starts a run of the flow in a file.
pub(super) fn start_file(repo: &Repo, file: &str, more: &[&str]) -> Started {
    place_worktrees(repo);
    let arguments = [&["flow", "start", file, "--base", "main", "--json"], more].concat();
    started(&json(&repo.aynig_ok(arguments)))
}

/// The answer of `flow start --json`.
pub(super) fn started(answer: &Value) -> Started {
    let text = |name: &str| answer[name].as_str().unwrap_or_else(|| panic!("{name}: {answer}")).to_owned();
    Started {
        slug: text("slug"),
        id: text("runId"),
        driver: text("driver"),
        work: text("workBranch"),
        worktree: text("worktreePath").into(),
        directory: text("runDirectory").into(),
    }
}

/// The state of a run, as its ledger has it.
pub(super) fn shown(repo: &Repo, run: &Started) -> Value {
    json(&repo.aynig_ok(["orch", "show", &run.id, "--json"]))["run"].clone()
}

/// The steps of a run: ids, outcomes and routes, in their order.
pub(super) fn steps(repo: &Repo, run: &Started) -> Vec<String> {
    let lines = out(&repo.aynig_ok(["orch", "events", &run.id, "--json"]));
    let mut steps: Vec<String> = Vec::new();
    for line in lines.lines() {
        let event = serde_json::from_str::<Value>(line).expect("JSON")["event"].clone();
        match event["type"].as_str() {
            Some("step.started") => steps.push(event["step"]["id"].as_str().expect("an id").to_owned()),
            Some("step.ended") => {
                let words = format!(" {}", event["outcome"].as_str().expect("a word"));
                steps.last_mut().expect("a step").push_str(&words);
            }
            Some("step.routed") => {
                let words = format!(" {}", event["route"].as_str().expect("a name"));
                steps.last_mut().expect("a step").push_str(&words);
            }
            _ => {}
        }
    }
    steps
}

/// The end of a run: status, verdict and termination.
pub(super) fn end(repo: &Repo, run: &Started) -> [String; 3] {
    let shown = shown(repo, run);
    ["status", "verdict", "termination"].map(|name| shown[name].as_str().unwrap_or("-").to_owned())
}

/// The first command in backquotes with these words.
pub(super) fn line_with(said: &str, words: &str) -> String {
    let found = said.split('`').skip(1).step_by(2).find(|line| line.contains(words));
    found.unwrap_or_else(|| panic!("{words} is missing in: {said}")).to_owned()
}

/// Types a line in a clone.
pub(super) fn typed(host: &Repo, line: &str) -> std::process::Output {
    let mut shell = std::process::Command::new("sh");
    for (name, value) in host.git_command().get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.args(["-c", line]).current_dir(&host.path).output().expect("a shell")
}

/// Types a line in a clone; it must succeed.
pub(super) fn sh(host: &Repo, line: &str) {
    let output = typed(host, line);
    assert!(output.status.success(), "{line}: {}", told(&output));
}

/// Puts a lease on a branch, for the command of `origin`, that was over long ago.
pub(super) fn expired(repo: &Repo, branch: &str, origin: &str) {
    let run = "31111111-2222-4333-8444-555555555555";
    repo.foreign_lease(branch, run, "gone", 60, 7_200);
    let message = repo.git(["log", "-1", "--format=%B", branch]);
    let message = message.replace("dwp-origin-state: build", &format!("dwp-origin-state: {origin}"));
    let date = repo.git(["log", "-1", "--format=%cd", "--date=raw", branch]);
    let tree = format!("{branch}^{{tree}}");
    let mut commit = repo.git_command();
    commit.env("GIT_COMMITTER_DATE", &date).args(["commit-tree", "-m", message.trim(), &tree, "-p"]);
    let made = commit.arg(format!("{branch}^")).output().expect("git runs");
    assert!(made.status.success(), "{}", err(&made));
    repo.git(["update-ref", &format!("refs/heads/{branch}"), out(&made).trim()]);
}
