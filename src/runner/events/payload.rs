//! The payload of the operator's hook (`aynig.notify`): selects the notices, and encodes them as JSON and
//! variables.
//!
//! Invariant: a notice is sent only after the fact, and only by the process that caused it. A state is
//! reported by the process that wrote its commit, once the authority accepted it; a lost lease, by the runner
//! that lost it. Any text may come from someone who can push a branch, so each value is one bounded line
//! without control characters.

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
use crate::contract::unable::mends;
use crate::contract::waits_for::WaitsFor;
use crate::git::Repo;

use crate::runner::attempt::files;
use crate::runner::events::notice::{Notice, Outcome};
use crate::runner::survey::words::{requests_again, requests_handed_back};
use crate::runner::{shell_quote, shows_rescued};

/// The prefix of the variables' names.
pub const PREFIX: &str = "AYNIG_NOTICE_";

/// The version of the fields. It grows when a field is removed or changes its meaning.
const VERSION: u32 = 1;

/// The event of a state that waits for somebody.
const WAITS: &str = "waits-for-you";

/// The event of a run of a flow that ended without success.
const ENDED: &str = "run-ended";

/// The event of a request that no host has taken.
const HANDED_BACK: &str = "handed-back";

/// The longest text, in characters.
const MOST_CHARS: usize = 2_000;

/// The name of the log among those of attempts.
const LOG: &str = "notify.log";

/// A notification in its documented form (contrib/docs/operating.md, "Notifications"). The JSON has these fields in this order.
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
    waits_for: Option<String>,
    answers: Option<Vec<String>>,
    /// The exact bytes of the branch's name, for programs that act on it.
    #[serde(skip)]
    exact: Vec<u8>,
    /// The exact bytes of paths, by field name.
    #[serde(skip)]
    paths: Vec<(&'static str, PathBuf)>,
    /// The slug of the run that the branch drives.
    #[serde(skip)]
    drives: Option<String>,
    /// The commands that mend a host which could not do the request.
    #[serde(skip)]
    mends: Vec<String>,
}

/// The input of one call of the hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    /// The event and the branch, for the log.
    pub about: String,
    /// The JSON, one object on one line.
    pub body: Vec<u8>,
    /// The fields as variables. An unknown field has none.
    pub variables: Vec<(OsString, OsString)>,
    /// The log of the program's output. `None` if there is no usable log directory.
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

    /// Notifies of a state written on a branch, if it is `stalled`, waits for somebody, or one of `states`
    /// matches it.
    pub(crate) fn of_state(
        branch: &BranchName,
        state: &StateName,
        waits: Option<&WaitsFor>,
        states: &globset::GlobSet,
    ) -> Option<Self> {
        let event = if waits.is_some() {
            WAITS
        } else if state.is_stalled() {
            "stalled"
        } else if states.is_match(state.as_str()) {
            "state"
        } else {
            return None;
        };
        let answers = waits.and_then(|waits| waits.answers.states());
        Some(Self {
            state: Some(state.to_string()),
            waits_for: waits.map(|waits| waits.whom.clone()),
            answers: answers.map(|states| states.iter().map(ToString::to_string).collect()),
            ..Self::new(event, branch)
        })
    }

    /// Notifies of a state of a branch that drives the run of a flow. `stands` says where the run stands, with the commands
    /// to type, `failed` whether it has just ended without success.
    pub(crate) fn of_run(
        (branch, state): (&BranchName, &StateName),
        waits: Option<&WaitsFor>,
        states: &globset::GlobSet,
        (stands, next, failed): (&str, Vec<String>, bool),
    ) -> Option<Self> {
        let told = Self::of_state(branch, state, waits, states);
        let event = if failed { ENDED } else { told.as_ref()?.event };
        let told =
            told.unwrap_or_else(|| Self { state: Some(state.to_string()), ..Self::new(event, branch) });
        Some(Self { event, reason: Some(line(stands.as_bytes())), next, ..told })
    }

    /// Notifies of a request of a node for approval, whose driver is `branch`. `asks` says what it asks for, `next` has the
    /// commands that answer.
    pub(crate) fn of_request(branch: &BranchName, asks: &str, next: Vec<String>) -> Self {
        let waits_for = Some("an approval: `aynig orch approvals`".to_owned());
        Self { waits_for, reason: Some(line(asks.as_bytes())), next, ..Self::new(WAITS, branch) }
    }

    /// Notifies of the state of a node's driver. `next` has the commands that carry it on.
    pub(crate) fn of_node(
        (branch, state): (&BranchName, &StateName),
        waits: Option<&WaitsFor>,
        states: &globset::GlobSet,
        next: Vec<String>,
    ) -> Option<Self> {
        Some(Self { next, ..Self::of_state(branch, state, waits, states)? })
    }

    /// The same for a branch that drives the run with this slug, if there is one.
    pub(crate) fn driving(self, slug: Option<String>) -> Self {
        Self { drives: slug, ..self }
    }

    /// The branch, and its newest commit that is known of.
    pub(crate) fn about(&self) -> Option<(BranchName, CommitId)> {
        let commit = self.commit.as_ref().or(self.trigger.as_ref())?;
        Some((BranchName::new(&*self.exact).ok()?, CommitId::parse_hex(commit)?))
    }

    /// Turns a notice of a run into a notification, if the hook gets one. A state that the command set itself
    /// was reported by the process that set it. A result that could not be written is reported when its lease
    /// is closed.
    pub(crate) fn of_notice(notice: &Notice, states: &globset::GlobSet) -> Option<Self> {
        match notice {
            Notice::Ended(report) => {
                let reason: String;
                let (mut notification, reason) = match &report.outcome {
                    Outcome::Stalled { why } => {
                        (Self::of_state(&report.branch, &StateName::stalled(), None, states)?, Some(why))
                    }
                    Outcome::Advanced { state, waits } => {
                        (Self::of_state(&report.branch, state, waits.as_deref(), states)?, None)
                    }
                    // A `stalled` that is requested again was announced before.
                    Outcome::Requeued { state, untaken, .. }
                        if !untaken.is_empty() && !state.is_stalled() =>
                    {
                        let words = untaken.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
                        let mends = mends(untaken.iter().map(|one| one.why.as_str()));
                        let told = Self::new(HANDED_BACK, &report.branch);
                        reason = words;
                        (Self { state: Some(state.to_string()), mends, ..told }, Some(&reason))
                    }
                    Outcome::Requeued { state, why, .. } => {
                        let told = Self::of_state(&report.branch, state, None, states);
                        (told.filter(|_| !state.is_stalled())?, Some(why))
                    }
                    Outcome::LeaseLost { how } => (Self::new("lease-lost", &report.branch), Some(how)),
                    Outcome::KeptWorking { .. }
                    | Outcome::AdvancedByCommand { .. }
                    | Outcome::Unwritten { .. } => return None,
                };
                notification = notification.after(Some(&report.state), report.commit);
                notification.reason = reason.map(|why| line(why.as_bytes()));
                notification.trigger = Some(report.trigger.to_string());
                notification.run_id = Some(report.attempt.to_string());
                notification.exit_code = report.exit;
                notification.elapsed_ms = Some(u64::try_from(report.elapsed.as_millis()).unwrap_or(u64::MAX));
                notification.rescue_ref = report.rescue_ref().map(|saved| line(saved.as_bytes()));
                Some(notification)
            }
            Notice::Recovered { branch, commit, run_id, origin, why, rescued } => {
                let mut notification = Self::of_state(branch, &StateName::stalled(), None, states)?;
                notification = notification.after(origin.as_ref(), Some(*commit));
                notification.reason = Some(line(why.as_bytes()));
                notification.run_id = Some(line(run_id)).filter(|id| !id.is_empty());
                notification.rescue_ref = rescued.as_ref().map(|saved| line(saved.reference.as_bstr()));
                Some(notification)
            }
            Notice::Delivered { branch, state, commit, waits, .. } => {
                Some(Self::of_state(branch, state, waits.as_deref(), states)?.after(None, Some(*commit)))
            }
            Notice::SkippedCurrent { .. }
            | Notice::Warning { .. }
            | Notice::Cleared(_)
            | Notice::LostRace { .. }
            | Notice::Started(_)
            | Notice::Rescued { .. } => None,
        }
    }

    /// Sets the previous state (for a step, the state whose command ran) and the commit that was written.
    pub(crate) fn after(mut self, previous: Option<&StateName>, commit: Option<CommitId>) -> Self {
        self.previous_state = previous.map(ToString::to_string);
        self.commit = commit.map(|commit| commit.to_string());
        self
    }

    /// Adds the facts that this repository knows, and encodes the payload.
    pub(crate) fn payload(
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
        if self.next.is_empty() {
            self.next = self.next_steps();
        }
        // Checked each time, because a checkout may have put a symbolic link there.
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
                Value::Array(lines) => {
                    lines.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n").into()
                }
                other => other.to_string().into(),
            };
            variables.push((variable(name).into(), shown));
        }
        let about = format!("{} {}", self.event, self.branch);
        Payload { about, body: format!("{fields}\n").into_bytes(), variables, log }
    }

    /// The command that carries on the node that the branch drives, if it drives one.
    fn node_again(&self) -> Option<String> {
        let branch = BranchName::new(&*self.exact).ok()?;
        let state = |name: &Option<String>| name.as_deref().and_then(|name| StateName::parse(name).ok());
        let remote = self.remote.as_deref().and_then(|name| RemoteName::parse(name).ok());
        let (was, is) = (state(&self.previous_state), state(&self.state));
        let again = match self.event {
            HANDED_BACK => requests_handed_back(&branch, remote.as_ref(), is.as_ref()),
            _ => requests_again(&branch, remote.as_ref(), was.as_ref()),
        };
        let is_of_run = !again.starts_with("aynig set-state");
        is_of_run.then_some(again)
    }

    /// Commands for the user, most likely first.
    fn next_steps(&self) -> Vec<String> {
        let branch = shell_quote(&self.exact);
        let remote = self.remote.as_ref().map(|remote| format!(" --remote {remote}")).unwrap_or_default();
        let history = format!("aynig log --branch {branch}{remote}");
        let logs = self.stdout_log.as_ref().map(|_| format!("aynig logs --branch {branch}{remote}"));
        let saved = self.rescue_ref.as_deref().map(shows_rescued);
        let retry = match &self.drives {
            Some(slug) => format!("aynig flow resume {slug}"),
            None => self
                .node_again()
                .unwrap_or_else(|| format!("aynig set-state --retry --branch {branch}{remote}")),
        };
        match self.event {
            "stalled" => logs.into_iter().chain(saved).chain([retry]).collect(),
            HANDED_BACK => {
                let shows = self.drives.as_ref().map_or(history, |slug| format!("aynig flow show {slug}"));
                self.mends
                    .iter()
                    .map(|line| plain_line(line.as_bytes(), MOST_CHARS))
                    .chain([retry, shows])
                    .collect()
            }
            "state" => vec![history],
            WAITS => vec![format!("aynig answer {branch}{remote}"), history],
            _ => std::iter::once(history).chain(saved).collect(),
        }
    }
}

/// Names the variable of a field: `previousState` becomes `AYNIG_NOTICE_PREVIOUS_STATE`.
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
    use crate::contract::kept::Kept;
    use crate::contract::trailers::Trailer;
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
    fn which_notices_reach_the_hook() {
        let event_of = |outcome, patterns: &[&str]| {
            Notification::of_notice(&ended(outcome), &globs(patterns)).map(|notification| notification.event)
        };
        let advanced = |text| Outcome::Advanced { state: state(text), waits: None };
        let words = || "why".to_owned();
        assert_eq!(event_of(Outcome::Stalled { why: words() }, &[]), Some("stalled"));
        assert_eq!(event_of(Outcome::LeaseLost { how: words() }, &[]), Some("lease-lost"));
        assert_eq!(event_of(advanced("review"), &[]), None, "no states, no notices of states");
        for (text, patterns, event) in [
            ("review", &["review"][..], Some("state")),
            ("review", &["done", "re*"], Some("state")),
            ("review", &["done"], None),
            ("pr/review", &["pr/*"], Some("state")),
            ("pr/review", &["*"], Some("state")),
            ("stalled", &["*"], Some("stalled")),
            ("stalled", &[], Some("stalled")),
        ] {
            assert_eq!(event_of(advanced(text), patterns), event, "{text} {patterns:?}");
        }
        let trailers = [("dwp-waits-for", "ana"), ("dwp-answers", "yes, no")];
        let trailers = trailers.iter().map(|(key, value)| Trailer::new(*key, *value)).collect();
        let waits = WaitsFor::of(&trailers).map(Box::new);
        for (text, patterns) in [("approval", &[][..]), ("approval", &["*"]), ("stalled", &[])] {
            let asked = Outcome::Advanced { state: state(text), waits: waits.clone() };
            assert_eq!(event_of(asked, patterns), Some("waits-for-you"), "{text} {patterns:?}");
        }
        for silent in [
            Outcome::KeptWorking { kept: Kept::Undeclared, until: 0 },
            Outcome::AdvancedByCommand { state: state("review"), subject: None },
            Outcome::Unwritten { why: words(), open: false },
        ] {
            assert_eq!(event_of(silent.clone(), &["*"]), None, "{silent:?}");
        }
        let warning = Notice::Warning { branch: None, at: None, warning: Warning::Hook { words: words() } };
        assert_eq!(Notification::of_notice(&warning, &globs(&["*"])), None);
    }

    #[test]
    fn every_field_is_there_and_what_is_unknown_has_no_variable() {
        let branch = BranchName::new("task").unwrap();
        let mut notification =
            Notification::of_state(&branch, &state("review"), None, &globs(&["*"])).unwrap();
        notification.next = notification.next_steps();
        let payload = notification.sealed(None);
        let object: Value = serde_json::from_slice(&payload.body).unwrap();
        assert_eq!((&object["version"], &object["event"]), (&1.into(), &"state".into()));
        assert_eq!(object["previousState"], Value::Null);
        assert_eq!(object["next"], serde_json::json!(["aynig log --branch task"]));
        assert_eq!(object.as_object().unwrap().len(), 24);
        let names: Vec<_> = payload.variables.iter().map(|(name, _)| name.to_str().unwrap()).collect();
        let expected =
            ["VERSION", "EVENT", "BRANCH", "STATE", "RUNNER_ID", "TIME", "REPOSITORY", "GIT_DIR", "NEXT"];
        assert_eq!(names, expected.map(|name| format!("{PREFIX}{name}")));
        assert_eq!(payload.about, "state task");
    }

    #[test]
    fn a_stalled_node_is_carried_on_by_the_next_run() {
        let branch = BranchName::new("run/0a1b2c3d/ada").unwrap();
        let stalled = Notification::of_state(&branch, &StateName::stalled(), None, &globs(&[])).unwrap();
        for (origin, line) in [
            ("orch-turn", "aynig run run/0a1b2c3d/ada"),
            ("build", "aynig set-state --retry --branch run/0a1b2c3d/ada"),
        ] {
            let told = stalled.clone().after(Some(&state(origin)), None);
            assert_eq!(told.next_steps(), [line]);
        }
        let handed_back =
            Notification { state: Some("orch-turn".into()), ..Notification::new(HANDED_BACK, &branch) };
        assert_eq!(handed_back.next_steps()[0], "aynig orch node start 0a1b2c3d ada");
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
        let mut notification = Notification::of_notice(&notice, &globs(&[])).unwrap();
        assert_eq!(notification.next_steps().len(), 1, "this host has no log");
        notification.stdout_log = Some("log".into());
        notification.next = notification.next_steps();
        let payload = notification.sealed(None);
        let object: Value = serde_json::from_slice(&payload.body).unwrap();
        assert_eq!(object["runId"], "id $(id)");
        assert_eq!(object["branch"], "a;rm$(x)");
        let reason = object["reason"].as_str().unwrap();
        assert!(reason.starts_with("ab cd x") && reason.chars().count() == MOST_CHARS + 1, "{reason}");
        assert_eq!(payload.body.iter().filter(|byte| **byte == b'\n').count(), 1);
        assert_eq!(object["next"][1], "aynig set-state --retry --branch 'a;rm$(x)'");
        for (name, value) in &payload.variables {
            let lines = value.as_bytes().iter().filter(|byte| **byte < b' ').count();
            assert_eq!(lines, usize::from(name == "AYNIG_NOTICE_NEXT"), "{name:?} {value:?}");
        }
    }
}
