//! Notices as messages.
//!
//! Without `--json` the transitions of a pass are its answer and go to stdout; with it they are narration.
//! Warnings are always narration. Each is printed once per process, so that `--watch` does not repeat itself, and
//! where nobody watches, once for the commit that it is about, so that cron does not either (CONTRACT 11.26).

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use aynig::clock;
use aynig::contract::ids::{AttemptId, BranchName, CommitId};
use aynig::engine::driver;
use aynig::runner::events::notice::{Cleared, Holder, Notice, Outcome, StepReport};
use aynig::runner::events::said::Said;
use aynig::runner::events::warning::Warning;

use crate::cli::ui;
use crate::cli::ui::live::Live;
use crate::cli::ui::{BAD, CALL, CARE, FAINT, GOOD, STRONG, styled};

/// The end of the name of a driver.
const DRIVER: &str = "/flow";

/// The states of a driver.
const STATES: [&str; 3] = [driver::STEP, driver::GATE, driver::DONE];

/// Prints the runner's notices.
#[derive(Debug)]
pub(crate) struct Narrator {
    json: bool,
    live: Option<Live>,
    said: Mutex<HashSet<String>>,
    /// The warnings that earlier processes printed. `None` on a terminal.
    before: Option<Mutex<Said>>,
    running: Running,
}

/// The attempts whose commands are running.
pub(crate) type Running = Arc<Mutex<HashSet<AttemptId>>>;

impl Narrator {
    /// A narrator for a run; `live` is the terminal's display, and `before` are the warnings that earlier processes
    /// printed.
    pub(crate) fn new(json: bool, live: Option<Live>, before: Option<Said>) -> Self {
        let before = before.filter(|_| !ui::somebody_listens()).map(Mutex::new);
        Self { json, live, said: Mutex::default(), before, running: Running::default() }
    }

    /// The running attempts, shared for the messages of a stop.
    pub(crate) fn running(&self) -> Running {
        Arc::clone(&self.running)
    }

    /// Prints one notice.
    pub(crate) fn tell(&self, notice: &Notice) {
        match notice {
            // `run` reports it if the user named this branch.
            Notice::SkippedCurrent { branch, state } => tracing::debug!(%branch, %state, "left alone"),
            Notice::Warning { warning, .. } if warning.is_refusal() && !ui::shows_details() => {}
            Notice::Warning { at: Some(at), warning, .. } if !self.is_news(at, warning) => {}
            Notice::Warning { branch, warning, .. } => {
                let about = branch.as_ref().map(|branch| format!("{branch}: ")).unwrap_or_default();
                self.once(format!(
                    "{} {}",
                    styled(CARE, "warning:"),
                    ui::sanitize(&format!("{about}{warning}"))
                ));
            }
            Notice::Cleared(cleared) => {
                self.note(&ui::sanitize(&match cleared {
                    Cleared::Repository { path } => {
                        format!("the repository at {} is there again", path.display())
                    }
                    Cleared::Remote => "the remote answers again".to_owned(),
                }));
                // Trouble that recurs is printed again.
                if let Ok(mut said) = self.said.lock() {
                    said.clear();
                }
            }
            Notice::LostRace { .. } if !ui::shows_details() => {}
            Notice::LostRace { branch, holder } => {
                let who = match holder {
                    Some(Holder { runner, until }) => {
                        format!("{runner} holds it until {}", clock::format_utc(*until))
                    }
                    None => "another runner has moved it on already".to_owned(),
                };
                self.note(&styled(FAINT, ui::sanitize(&format!("{branch}: {who}"))));
            }
            Notice::Started(started) => {
                self.running.lock().unwrap_or_else(PoisonError::into_inner).insert(started.attempt);
                tracing::info!(branch = %started.branch, state = %started.state, attempt = %started.attempt, "started");
                if let Some(live) = &self.live {
                    live.begin(started);
                }
            }
            Notice::Ended(report) => {
                self.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&report.attempt);
                if let Some(live) = &self.live {
                    live.end(report.attempt);
                }
                self.transition(&transition(report));
            }
            Notice::Delivered { branch, state, commit, author, .. } => self.transition(&format!(
                "{}  → {}  {}",
                styled(STRONG, ui::sanitize(&branch.to_string())),
                styled(GOOD, state),
                styled(FAINT, ui::sanitize(&format!("({}, left by {author})", commit.short()))),
            )),
            Notice::Recovered { branch, run_id, origin, rescued, .. } => {
                let origin = origin.as_ref().map_or_else(|| "?".to_owned(), |state| state.to_string());
                let mut line = format!(
                    "{}  {origin} → {}  {}",
                    styled(STRONG, ui::sanitize(&branch.to_string())),
                    styled(BAD, "stalled"),
                    styled(FAINT, ui::sanitize(&format!("(the lease of attempt {run_id} had run out)"))),
                );
                if let Some(saved) = rescued {
                    line.push_str(&format!("\n  work saved: {}", ui::sanitize(&saved.reference.to_string())));
                }
                self.transition(&line);
            }
            Notice::Rescued { branch, saved } => {
                let words = format!("{branch}: work of an earlier attempt saved: {}", saved.reference);
                self.note(&ui::sanitize(&words));
            }
        }
    }

    /// Prints a line that only a person at the terminal needs.
    pub(crate) fn aside(&self, line: &str) {
        if self.live.is_some() {
            self.note(line);
        }
    }

    /// Prints a line below transitions: what to type next.
    pub(crate) fn next_step(&self, line: &str) {
        if !ui::is_quiet() {
            self.transition(&styled(FAINT, ui::sanitize(line)));
        }
    }

    fn transition(&self, line: &str) {
        self.above_live(|| if self.json { ui::remark(line) } else { ui::answer(line) });
    }

    /// Prints a line above the live lines.
    pub(crate) fn note(&self, line: &str) {
        self.above_live(|| ui::remark(line));
    }

    /// Whether a warning was printed.
    pub(crate) fn has_warned(&self) -> bool {
        self.said.lock().is_ok_and(|said| !said.is_empty())
    }

    fn once(&self, line: String) {
        let fresh = self.said.lock().is_ok_and(|mut said| said.insert(line.clone()));
        if fresh {
            self.above_live(|| ui::narrate(&line));
        }
    }

    /// Whether a warning about a commit was not printed by an earlier process.
    fn is_news(&self, at: &(BranchName, CommitId), warning: &Warning) -> bool {
        let Some(before) = &self.before else { return true };
        before.lock().map_or(true, |mut before| before.is_first(warning.word(), at))
    }

    fn above_live(&self, print: impl FnOnce()) {
        match &self.live {
            Some(live) => live.suspend(print),
            None => print(),
        }
    }
}

/// The line of a driver that has carried out a step: what became of the step, as `aynig flow start --wait` prints it.
/// `None` for any other branch.
fn step_of_flow(report: &StepReport, state: &str, subject: Option<&str>) -> Option<String> {
    let branch = report.branch.to_string();
    let slug = branch.strip_suffix(DRIVER)?.rsplit('/').next()?;
    let words = subject?.strip_prefix(state)?.strip_prefix(": ").filter(|_| STATES.contains(&state))?;
    Some(format!(
        "{}  {}  {}",
        styled(STRONG, ui::sanitize(slug)),
        ui::sanitize(words),
        styled(FAINT, format!("({})", clock::duration(report.elapsed)))
    ))
}

/// One line for one transition.
fn transition(report: &StepReport) -> String {
    let (word, style, why) = match &report.outcome {
        Outcome::Advanced { state, waits: None } => (state.to_string(), GOOD, None),
        Outcome::Advanced { state, waits: Some(waits) } => {
            (state.to_string(), CALL, Some(format!("waits for {}", waits.words())))
        }
        Outcome::AdvancedByCommand { state, subject } => {
            let state = state.to_string();
            if let Some(line) = step_of_flow(report, &state, subject.as_deref()) {
                return line;
            }
            let why = subject.as_ref().map(|subject| format!(": {subject}")).unwrap_or_default();
            (state, GOOD, Some(format!("set by the command itself{why}")))
        }
        Outcome::KeptWorking { kept, until } => {
            let why = format!(
                "{}; held until {}, then stalled unless `aynig set-state` sets a state",
                kept.brief(),
                clock::format_utc(*until)
            );
            ("working".to_owned(), CARE, Some(why))
        }
        Outcome::Requeued { state, why, .. } => (state.to_string(), CARE, Some(why.clone())),
        Outcome::Stalled { why } => ("stalled".to_owned(), BAD, Some(why.clone())),
        Outcome::LeaseLost { how } => {
            ("(nothing landed)".to_owned(), BAD, Some(format!("lease lost: {how}")))
        }
        Outcome::Unwritten { why, open: true } => {
            ("(not known to have landed)".to_owned(), BAD, Some(why.clone()))
        }
        Outcome::Unwritten { why, open: false } => ("(nothing landed)".to_owned(), BAD, Some(why.clone())),
    };
    let mut details = vec![clock::duration(report.elapsed)];
    details.extend(report.commit.map(|commit| commit.short()));
    details.extend(why);
    let mut line = format!(
        "{}  {} → {}  {}",
        styled(STRONG, ui::sanitize(&report.branch.to_string())),
        report.state,
        styled(style, word),
        styled(FAINT, ui::sanitize(&format!("({})", details.join(", "))))
    );
    if let Some(saved) = &report.rescued {
        line.push_str(&format!("\n  work saved: {}", ui::sanitize(&saved.reference.to_string())));
    }
    if let Some(left) = &report.left {
        let place = format!("{} ({})", left.path.display(), left.why);
        line.push_str(&format!("\n  left in place: {}", ui::sanitize(&place)));
    }
    line
}
