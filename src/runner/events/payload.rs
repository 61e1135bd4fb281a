//! What is told beyond the terminal (`aynig.notify`): which notices, in which words for programs.
//!
//! Invariant: only what has become true is told, and only by who made it so: a state by the process that wrote its commit, once the
//! authority took it; a lost lease by the runner that lost it. Every text here may come from whoever can push a branch: each value is one
//! line, bounded, and free of control characters. `hook_runner` runs the program.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use bstr::ByteSlice;
use serde::Serialize;
use serde_json::Value;

use crate::clock;
use crate::contract::ids::{AttemptId, BranchName, CommitId, RemoteName, RoleName, StateName};
use crate::contract::message::Message;
use crate::contract::report::plain_line;
use crate::git::Repo;

use crate::runner::attempt::files;
use crate::runner::events::notice::{Notice, Outcome};
use crate::runner::{shell_quote, shows_rescued};

/// What the names of the variables begin with.
pub const PREFIX: &str = "AYNIG_NOTICE_";

/// The version of the fields and their meaning; it grows when one is taken away or means something else.
const VERSION: u32 = 1;

/// The most characters of one text.
const MOST_CHARS: usize = 2_000;

/// The name of the log among those of attempts.
const LOG: &str = "notify.log";

/// One thing that happened, in the documented shape (README, "Being told"): its fields in JSON, in this order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Notification {
    version: u32,
    event: &'static str,
    branch: String,
    remote: Option<String>,
    state: Option<String>,
    previous_state: Option<String>,
    subject: Option<String>,
    reason: Option<String>,
    commit: Option<String>,
    trigger: Option<String>,
    run_id: Option<String>,
    runner_id: String,
    role: Option<String>,
    exit_code: Option<i32>,
    elapsed_ms: Option<u64>,
    stdout_log: Option<String>,
    stderr_log: Option<String>,
    rescue_ref: Option<String>,
    time: String,
    repository: String,
    git_dir: String,
    next: Vec<String>,
    /// The branch's name to the byte, for who acts on it.
    #[serde(skip)]
    exact: Vec<u8>,
    /// Paths to the byte, by the names of their fields.
    #[serde(skip)]
    paths: Vec<(&'static str, PathBuf)>,
}

/// One thing to tell, as the program is given it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    /// What it is about, in a few words, for the log.
    pub about: String,
    /// The JSON, one object on one line.
    pub body: Vec<u8>,
    /// The same as variables; what is not known has none.
    pub variables: Vec<(OsString, OsString)>,
    /// Where what the program prints goes; nowhere if there is no place.
    pub log: Option<PathBuf>,
}

fn line(text: &[u8]) -> String {
    plain_line(text, MOST_CHARS)
}

impl Notification {
    fn new(event: &'static str, branch: &BranchName) -> Self {
        let name = branch.as_bstr();
        Self { version: VERSION, event, branch: line(name), exact: name.to_vec(), ..Self::default() }
    }

    /// A state that was written on a branch, if it is told: `stalled`, or one that the globs name.
    pub(crate) fn of_state(
        branch: &BranchName,
        state: &StateName,
        states: &globset::GlobSet,
    ) -> Option<Self> {
        let event = if state.is_stalled() {
            "stalled"
        } else if states.is_match(state.as_str()) {
            "state"
        } else {
            return None;
        };
        Some(Self { state: Some(state.to_string()), ..Self::new(event, branch) })
    }

    /// What of a run's notice is told. What the command wrote itself was told by what wrote it; a result that could not be written is
    /// told when its lease is closed.
    pub(crate) fn of_notice(notice: &Notice, states: &globset::GlobSet) -> Option<Self> {
        match notice {
            Notice::Ended(report) => {
                let (mut told, reason) = match &report.outcome {
                    Outcome::Stalled { why } => {
                        (Self::of_state(&report.branch, &StateName::stalled(), states)?, Some(why))
                    }
                    Outcome::Advanced { state } => (Self::of_state(&report.branch, state, states)?, None),
                    Outcome::LeaseLost { how } => (Self::new("lease-lost", &report.branch), Some(how)),
                    Outcome::KeptWorking { .. }
                    | Outcome::AdvancedByCommand { .. }
                    | Outcome::Unwritten { .. } => return None,
                };
                told = told.after(Some(&report.state), report.commit);
                told.reason = reason.map(|why| line(why.as_bytes()));
                told.trigger = Some(report.trigger.to_string());
                told.run_id = Some(report.attempt.to_string());
                told.exit_code = report.exit;
                told.elapsed_ms = Some(u64::try_from(report.elapsed.as_millis()).unwrap_or(u64::MAX));
                told.rescue_ref = report.rescue_ref().map(|saved| line(saved.as_bytes()));
                Some(told)
            }
            Notice::Recovered { branch, commit, run_id, origin, why, rescued } => {
                let mut told = Self::of_state(branch, &StateName::stalled(), states)?;
                told = told.after(origin.as_ref(), Some(*commit));
                told.reason = Some(line(why.as_bytes()));
                told.run_id = Some(line(run_id)).filter(|id| !id.is_empty());
                told.rescue_ref = rescued.as_ref().map(|saved| line(saved.reference.as_bstr()));
                Some(told)
            }
            Notice::SkippedCurrent { .. }
            | Notice::Warning { .. }
            | Notice::Cleared(_)
            | Notice::LostRace { .. }
            | Notice::Started(_)
            | Notice::Rescued { .. } => None,
        }
    }

    /// With the state before (of a step, the one whose command ran) and the commit that was written.
    pub(crate) fn after(mut self, previous: Option<&StateName>, commit: Option<CommitId>) -> Self {
        self.previous_state = previous.map(ToString::to_string);
        self.commit = commit.map(|commit| commit.to_string());
        self
    }

    /// Complete with what the repository knows of it on this host, and ready to go.
    pub(crate) fn letter(
        mut self,
        repo: &Repo,
        remote: Option<&RemoteName>,
        role: Option<&RoleName>,
    ) -> Payload {
        let mut paths = Vec::new();
        let mut path = |field: &'static str, path: &Path| {
            paths.push((field, path.to_owned()));
            line(path.as_os_str().as_bytes())
        };
        self.remote = remote.map(ToString::to_string);
        self.role = role.map(ToString::to_string);
        self.runner_id = line(repo.runner_id().as_bytes());
        let commit = self.commit.as_ref().and_then(CommitId::parse_hex).and_then(|id| repo.commit(id).ok());
        self.subject = commit.map(|stored| line(&Message::parse(&stored.message).subject));
        let attempt = self.run_id.as_ref().and_then(|id| AttemptId::parse(id.as_bytes()));
        let record = attempt.and_then(|id| files::find(repo, id));
        self.stdout_log = record.as_ref().map(|record| path("stdoutLog", &record.stdout));
        self.stderr_log = record.as_ref().map(|record| path("stderrLog", &record.stderr));
        self.time = clock::format_utc(clock::wall_seconds());
        self.repository = path("repository", repo.top());
        self.git_dir = path("gitDir", repo.common_dir());
        self.paths = paths;
        self.next = self.next_steps();
        // Looked at each time: a link may have come with a checkout.
        let log = files::make_log_directory(repo).ok().map(|directory| directory.join(LOG));
        self.sealed(log)
    }

    fn sealed(self, log: Option<PathBuf>) -> Payload {
        let fields = serde_json::to_value(&self).expect("texts and numbers make JSON");
        let mut variables = Vec::new();
        for (name, value) in fields.as_object().expect("it has fields") {
            let shown = match value {
                Value::Null => continue,
                _ if name == "branch" => OsStr::from_bytes(&self.exact).to_owned(),
                Value::String(text) => {
                    let exact = self.paths.iter().find(|(field, _)| field == name);
                    exact.map_or_else(|| text.into(), |(_, path)| path.into())
                }
                Value::Array(_) => self.next.join("\n").into(),
                other => other.to_string().into(),
            };
            variables.push((variable(name).into(), shown));
        }
        let about = format!("{} {}", self.event, self.branch);
        Payload { about, body: format!("{fields}\n").into_bytes(), variables, log }
    }

    /// What to type, most likely first.
    fn next_steps(&self) -> Vec<String> {
        let branch = shell_quote(&self.exact.to_str_lossy());
        let remote = self.remote.as_ref().map(|remote| format!(" --remote {remote}")).unwrap_or_default();
        let history = format!("aynig log --branch {branch}{remote}");
        let logs = self.run_id.as_ref().map(|_| format!("aynig logs --branch {branch}{remote}"));
        let saved = self.rescue_ref.as_deref().map(shows_rescued);
        let retry = format!("aynig set-state --retry --branch {branch}{remote}");
        match self.event {
            "stalled" => logs.into_iter().chain(saved).chain([retry]).collect(),
            "state" => vec![history],
            _ => std::iter::once(history).chain(saved).collect(),
        }
    }
}

/// `previousState` as `AYNIG_NOTICE_PREVIOUS_STATE`.
fn variable(field: &str) -> String {
    let mut name = PREFIX.to_owned();
    for letter in field.chars() {
        if letter.is_ascii_uppercase() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::runner::events::notice::StepReport;
    use crate::runner::events::warning::Warning;

    fn globs(texts: &[&str]) -> globset::GlobSet {
        let mut globs = globset::GlobSetBuilder::new();
        for text in texts {
            globs.add(globset::Glob::new(text).unwrap());
        }
        globs.build().unwrap()
    }

    fn state(text: &str) -> StateName {
        StateName::parse(text).unwrap()
    }

    fn ended(outcome: Outcome) -> Notice {
        Notice::Ended(StepReport {
            branch: BranchName::new("task").unwrap(),
            trigger: CommitId::parse_hex("1".repeat(40)).unwrap(),
            state: state("work"),
            attempt: AttemptId::random(),
            outcome,
            commit: None,
            ending: None,
            exit: Some(3),
            elapsed: Duration::from_millis(1500),
            rescued: None,
            left: None,
        })
    }

    #[test]
    fn what_is_told() {
        let told = |outcome, patterns: &[&str]| {
            Notification::of_notice(&ended(outcome), &globs(patterns)).map(|told| told.event)
        };
        let advanced = |text| Outcome::Advanced { state: state(text) };
        let words = || "why".to_owned();
        assert_eq!(told(Outcome::Stalled { why: words() }, &[]), Some("stalled"));
        assert_eq!(told(Outcome::LeaseLost { how: words() }, &[]), Some("lease-lost"));
        assert_eq!(told(advanced("review"), &[]), None, "no states, no notices of states");
        for (text, patterns, event) in [
            ("review", &["review"][..], Some("state")),
            ("review", &["done", "re*"], Some("state")),
            ("review", &["done"], None),
            ("pr/review", &["pr/*"], Some("state")),
            ("pr/review", &["*"], Some("state")),
            ("stalled", &["*"], Some("stalled")),
            ("stalled", &[], Some("stalled")),
        ] {
            assert_eq!(told(advanced(text), patterns), event, "{text} {patterns:?}");
        }
        for silent in [
            Outcome::KeptWorking { malformed: false, until: 0 },
            Outcome::AdvancedByCommand { state: state("review") },
            Outcome::Unwritten { why: words(), open: false },
        ] {
            assert_eq!(told(silent.clone(), &["*"]), None, "{silent:?}");
        }
        let warning = Notice::Warning { branch: None, warning: Warning::Hook { words: words() } };
        assert_eq!(Notification::of_notice(&warning, &globs(&["*"])), None);
    }

    #[test]
    fn every_field_is_there_and_what_is_unknown_has_no_variable() {
        let branch = BranchName::new("task").unwrap();
        let mut told = Notification::of_state(&branch, &state("review"), &globs(&["*"])).unwrap();
        told.next = told.next_steps();
        let letter = told.sealed(None);
        let object: Value = serde_json::from_slice(&letter.body).unwrap();
        assert_eq!((&object["version"], &object["event"]), (&1.into(), &"state".into()));
        assert_eq!(object["previousState"], Value::Null);
        assert_eq!(object["next"], serde_json::json!(["aynig log --branch task"]));
        assert_eq!(object.as_object().unwrap().len(), 22);
        let names: Vec<_> = letter.variables.iter().map(|(name, _)| name.to_str().unwrap()).collect();
        let expected =
            ["VERSION", "EVENT", "BRANCH", "STATE", "RUNNER_ID", "TIME", "REPOSITORY", "GIT_DIR", "NEXT"];
        assert_eq!(names, expected.map(|name| format!("{PREFIX}{name}")));
        assert_eq!(letter.about, "state task");
    }

    #[test]
    fn hostile_text_is_one_harmless_bounded_line() {
        let notice = Notice::Recovered {
            branch: BranchName::new("a;rm$(x)").unwrap(),
            commit: CommitId::parse_hex("1".repeat(40)).unwrap(),
            run_id: "id\0\n$(id)\u{1b}[31m".into(),
            origin: None,
            why: format!("a\0b\nc\u{1b}]0;title\u{7}d {}", "x".repeat(100_000)),
            rescued: None,
        };
        let mut told = Notification::of_notice(&notice, &globs(&[])).unwrap();
        told.next = told.next_steps();
        let letter = told.sealed(None);
        let object: Value = serde_json::from_slice(&letter.body).unwrap();
        assert_eq!(object["runId"], "id $(id)");
        assert_eq!(object["branch"], "a;rm$(x)");
        let reason = object["reason"].as_str().unwrap();
        assert!(reason.starts_with("ab cd x") && reason.chars().count() == MOST_CHARS + 1, "{reason}");
        assert_eq!(letter.body.iter().filter(|byte| **byte == b'\n').count(), 1);
        assert_eq!(object["next"][1], "aynig set-state --retry --branch 'a;rm$(x)'");
        for (name, value) in &letter.variables {
            let lines = value.as_bytes().iter().filter(|byte| **byte < b' ').count();
            assert_eq!(lines, usize::from(name == "AYNIG_NOTICE_NEXT"), "{name:?} {value:?}");
        }
    }
}
