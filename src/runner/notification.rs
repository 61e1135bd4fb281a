//! What people are told beyond the terminal (`aynig.notify`): which notices of a run, and in which words for programs.
//!
//! Invariant: only what has become true is told, and only by who made it so: a state by the process that wrote its commit, once the
//! arbiter took it; a lost lease by the runner that lost it. Every text here may come from whoever can push a branch: each value is one
//! line, bounded, and free of control characters. Starting the program is left to `notifier`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use bstr::{BString, ByteSlice};
use serde_json::{Map, Value, json};

use crate::clock;
use crate::contract::ids::{BranchName, CommitId, RemoteName, RoleName, StateName};
use crate::contract::report::plain_line;

use super::notice::{Notice, Outcome};
use super::{shows_rescued, typed};

/// The version of the fields and their meaning; it grows when one is taken away or means something else.
pub const VERSION: u32 = 1;

/// What the names of the variables begin with.
pub const PREFIX: &str = "AYNIG_NOTICE_";

/// The most characters of one text.
const MOST_CHARS: usize = 2_000;

/// What kind of thing happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A branch became `stalled`.
    Stalled,
    /// A branch was given a state that `aynig.notifyStates` names.
    State,
    /// A runner lost a lease, so that its command was in vain.
    LeaseLost,
}

impl Event {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Stalled => "stalled",
            Self::State => "state",
            Self::LeaseLost => "lease-lost",
        }
    }
}

/// One thing that happened and is to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Happening {
    /// Its kind.
    pub event: Event,
    /// On which branch.
    pub branch: BranchName,
    /// The state that was written; none for a lost lease.
    pub state: Option<StateName>,
    /// The state before; of a step, the one whose command ran.
    pub previous: Option<StateName>,
    /// The commit that declares the state.
    pub commit: Option<CommitId>,
    /// The commit that caused the attempt.
    pub trigger: Option<CommitId>,
    /// The attempt, as its lease names it.
    pub run_id: Option<BString>,
    /// Why, as a sentence fragment.
    pub reason: Option<String>,
    /// The command's exit code.
    pub exit: Option<i32>,
    /// How long the command ran.
    pub elapsed: Option<Duration>,
    /// The ref under which unfinished work was saved.
    pub rescue_ref: Option<String>,
}

impl Happening {
    /// A state that was written on a branch, and nothing more known of it.
    pub fn bare(event: Event, branch: BranchName, state: Option<StateName>) -> Self {
        Self {
            event,
            branch,
            state,
            previous: None,
            commit: None,
            trigger: None,
            run_id: None,
            reason: None,
            exit: None,
            elapsed: None,
            rescue_ref: None,
        }
    }
}

/// Whether a state that was written is told, and as what.
pub fn event_of(state: &StateName, states: &globset::GlobSet) -> Option<Event> {
    if state.is_stalled() {
        Some(Event::Stalled)
    } else {
        states.is_match(state.as_str()).then_some(Event::State)
    }
}

/// Whether a notice of a run is told, and what of it. What the command wrote itself was told by what wrote it; a result that could not be
/// written is told when its lease is closed.
pub fn due(notice: &Notice, states: &globset::GlobSet) -> Option<Happening> {
    match notice {
        Notice::Ended(report) => {
            let (event, state, reason) = match &report.outcome {
                Outcome::Stalled { why } => (Event::Stalled, Some(StateName::stalled()), Some(why.clone())),
                Outcome::Advanced { state } => (event_of(state, states)?, Some(state.clone()), None),
                Outcome::LeaseLost { how } => (Event::LeaseLost, None, Some(how.clone())),
                Outcome::KeptWorking { .. }
                | Outcome::AdvancedByCommand { .. }
                | Outcome::Unwritten { .. } => return None,
            };
            Some(Happening {
                previous: Some(report.state.clone()),
                commit: report.commit,
                trigger: Some(report.trigger),
                run_id: Some(report.attempt.to_string().into()),
                reason,
                exit: report.exit,
                elapsed: Some(report.elapsed),
                rescue_ref: report.rescue_ref(),
                ..Happening::bare(event, report.branch.clone(), state)
            })
        }
        Notice::Recovered { branch, commit, run_id, origin, why, rescued } => Some(Happening {
            previous: origin.clone(),
            commit: Some(*commit),
            run_id: Some(run_id.clone()).filter(|id| !id.is_empty()),
            reason: Some(why.clone()),
            rescue_ref: rescued.as_ref().map(|saved| saved.reference.to_str_lossy().into_owned()),
            ..Happening::bare(Event::Stalled, branch.clone(), Some(StateName::stalled()))
        }),
        Notice::PassedOver { .. }
        | Notice::LeftAlone { .. }
        | Notice::Warning { .. }
        | Notice::Relieved { .. }
        | Notice::Beaten { .. }
        | Notice::Started(_)
        | Notice::Rescued { .. } => None,
    }
}

/// What is told beside what happened.
#[derive(Debug, Clone)]
pub struct Around {
    /// The remote that decides, if one does.
    pub remote: Option<RemoteName>,
    /// Who tells.
    pub runner_id: String,
    /// The role of the runner.
    pub role: Option<RoleName>,
    /// The subject of the commit.
    pub subject: Option<BString>,
    /// The logs of the attempt on this host: stdout, stderr.
    pub logs: Option<(PathBuf, PathBuf)>,
    /// Where what the program prints goes.
    pub log: Option<PathBuf>,
    /// Now, seconds since the epoch.
    pub time: i64,
    /// The main worktree, or the bare repository.
    pub repository: PathBuf,
    /// The directory that all worktrees share.
    pub git_dir: PathBuf,
}

/// One thing to tell, as the program is given it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letter {
    /// What it is about, in a few words, for the log.
    pub about: String,
    /// The JSON, one object on one line.
    pub body: Vec<u8>,
    /// The same as variables; what is not known has none.
    pub variables: Vec<(OsString, OsString)>,
    /// Where what the program prints goes; nowhere if there is no place.
    pub log: Option<PathBuf>,
}

/// Puts a happening into the documented shape (README, "Being told").
pub fn letter(happening: &Happening, around: &Around) -> Letter {
    let line = |text: &[u8]| Value::String(plain_line(text, MOST_CHARS));
    let text = |text: Option<String>| text.map(|text| line(text.as_bytes()));
    let path = |path: &PathBuf| line(path.as_os_str().as_bytes());
    let state = |state: &Option<StateName>| state.as_ref().map(|state| json!(state.as_str()));
    let id = |id: Option<CommitId>| id.map(|id| json!(id.to_string()));
    let elapsed = happening.elapsed.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    let next = next(happening, around.remote.as_ref());
    let fields: [(&str, Option<Value>); 22] = [
        ("version", Some(json!(VERSION))),
        ("event", Some(json!(happening.event.word()))),
        ("branch", Some(line(happening.branch.as_bstr()))),
        ("remote", around.remote.as_ref().map(|remote| json!(remote.as_str()))),
        ("state", state(&happening.state)),
        ("previousState", state(&happening.previous)),
        ("subject", around.subject.as_ref().map(|subject| line(subject))),
        ("reason", text(happening.reason.clone())),
        ("commit", id(happening.commit)),
        ("trigger", id(happening.trigger)),
        ("runId", happening.run_id.as_ref().map(|id| line(id))),
        ("runnerId", Some(line(around.runner_id.as_bytes()))),
        ("role", around.role.as_ref().map(|role| json!(role.as_str()))),
        ("exitCode", happening.exit.map(|code| json!(code))),
        ("elapsedMs", elapsed.map(|time| json!(time))),
        ("stdoutLog", around.logs.as_ref().map(|(stdout, _)| path(stdout))),
        ("stderrLog", around.logs.as_ref().map(|(_, stderr)| path(stderr))),
        ("rescueRef", text(happening.rescue_ref.clone())),
        ("time", Some(json!(clock::format_utc(around.time)))),
        ("repository", Some(path(&around.repository))),
        ("gitDir", Some(path(&around.git_dir))),
        ("next", Some(json!(next))),
    ];
    let mut object = Map::new();
    let mut variables = Vec::new();
    for (name, value) in fields {
        let shown = match &value {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()),
            Some(Value::Array(_)) => Some(next.join("\n")),
            Some(other) => Some(other.to_string()),
        };
        variables.extend(shown.map(|shown| (variable(name).into(), shown.into())));
        object.insert(name.to_owned(), value.unwrap_or(Value::Null));
    }
    // To act on branches and files their names must be exact, whatever bytes they have.
    let mut exact = vec![
        ("branch", OsStr::from_bytes(happening.branch.as_bstr())),
        ("repository", around.repository.as_os_str()),
        ("gitDir", around.git_dir.as_os_str()),
    ];
    if let Some((stdout, stderr)) = &around.logs {
        exact.extend([("stdoutLog", stdout.as_os_str()), ("stderrLog", stderr.as_os_str())]);
    }
    for (field, value) in exact {
        variables.retain(|(name, _)| *name != *variable(field));
        variables.push((variable(field).into(), value.to_owned()));
    }
    let mut body = Value::Object(object).to_string().into_bytes();
    body.push(b'\n');
    let about = format!("{} {}", happening.event.word(), happening.branch);
    Letter { about: plain_line(about.as_bytes(), MOST_CHARS), body, variables, log: around.log.clone() }
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

/// What to type, most likely first.
fn next(happening: &Happening, remote: Option<&RemoteName>) -> Vec<String> {
    let branch = typed(&happening.branch.to_string());
    let remote = remote.map(|remote| format!(" --remote {remote}")).unwrap_or_default();
    let saved = happening.rescue_ref.as_deref().map(shows_rescued);
    let mut lines = Vec::new();
    match happening.event {
        Event::Stalled => {
            if happening.run_id.is_some() {
                lines.push(format!("aynig logs --branch {branch}{remote}"));
            }
            lines.extend(saved);
            lines.push(format!("aynig set-state --retry --branch {branch}{remote}"));
        }
        Event::State => lines.push(format!("aynig log --branch {branch}{remote}")),
        Event::LeaseLost => {
            lines.push(format!("aynig log --branch {branch}{remote}"));
            lines.extend(saved);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::ids::AttemptId;
    use crate::runner::notice::StepReport;

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
            due(&ended(outcome), &globs(patterns)).map(|happening| happening.event)
        };
        let advanced = |text| Outcome::Advanced { state: state(text) };
        let words = || "why".to_owned();
        assert_eq!(told(Outcome::Stalled { why: words() }, &[]), Some(Event::Stalled));
        assert_eq!(told(Outcome::LeaseLost { how: words() }, &[]), Some(Event::LeaseLost));
        assert_eq!(told(advanced("review"), &[]), None, "no states, no notices of states");
        for (text, patterns, event) in [
            ("review", &["review"][..], Some(Event::State)),
            ("review", &["done", "re*"], Some(Event::State)),
            ("review", &["done"], None),
            ("pr/review", &["pr/*"], Some(Event::State)),
            ("pr/review", &["*"], Some(Event::State)),
            ("stalled", &["*"], Some(Event::Stalled)),
            ("stalled", &[], Some(Event::Stalled)),
        ] {
            assert_eq!(told(advanced(text), patterns), event, "{text} {patterns:?}");
        }
        for silent in [
            Outcome::KeptWorking { misspoken: false, until: 0 },
            Outcome::AdvancedByCommand { state: state("review") },
            Outcome::Unwritten { why: words(), open: false },
        ] {
            assert_eq!(told(silent.clone(), &["*"]), None, "{silent:?}");
        }
        let warning = Notice::Warning { branch: None, text: words() };
        assert_eq!(due(&warning, &globs(&["*"])), None);
    }

    fn around() -> Around {
        Around {
            remote: None,
            runner_id: "host".to_owned(),
            role: None,
            subject: None,
            logs: None,
            log: None,
            time: 0,
            repository: "/srv/project".into(),
            git_dir: "/srv/project/.git".into(),
        }
    }

    #[test]
    fn every_field_is_there_and_what_is_unknown_has_no_variable() {
        let happening =
            Happening::bare(Event::State, BranchName::new("task").unwrap(), Some(state("review")));
        let letter = letter(&happening, &around());
        let object: Value = serde_json::from_slice(&letter.body).unwrap();
        assert_eq!(object["version"], 1);
        assert_eq!(object["event"], "state");
        assert_eq!(object["previousState"], Value::Null);
        assert_eq!(object["time"], "1970-01-01T00:00:00Z");
        assert_eq!(object["next"], json!(["aynig log --branch task"]));
        assert_eq!(object.as_object().unwrap().len(), 22);
        let mut names: Vec<_> =
            letter.variables.iter().map(|(name, _)| name.to_str().unwrap().to_owned()).collect();
        names.sort();
        let expected =
            ["BRANCH", "EVENT", "GIT_DIR", "NEXT", "REPOSITORY", "RUNNER_ID", "STATE", "TIME", "VERSION"];
        assert_eq!(names, expected.map(|name| format!("{PREFIX}{name}")));
        assert_eq!(letter.about, "state task");
    }

    #[test]
    fn hostile_text_is_one_harmless_bounded_line() {
        let mut happening = Happening::bare(Event::Stalled, BranchName::new("a;rm$(x)").unwrap(), None);
        happening.run_id = Some("id\0\n$(id)\u{1b}[31m".into());
        happening.reason = Some(format!("a\0b\nc\u{1b}]0;title\u{7}d {}", "x".repeat(100_000)));
        let subject = Some(BString::from("\"}\r\n\u{202e}quoted\" \\ `id`"));
        let letter = letter(&happening, &Around { subject, ..around() });
        let object: Value = serde_json::from_slice(&letter.body).unwrap();
        assert_eq!(object["runId"], "id $(id)");
        assert_eq!(object["subject"], "\"} quoted\" \\ `id`");
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
