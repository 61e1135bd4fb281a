//! `aynig run`: settings from arguments, the listeners of the run, its answer and its exit code.

use std::ffi::OsString;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};

use aynig::clock;
use aynig::clock::span_in_short;
use aynig::contract::ids::{BranchName, CommitId};
use aynig::git::Repo;
use aynig::ops::app::App;
use aynig::ops::authority;
use aynig::ops::error::Error;
use aynig::ops::flows;
use aynig::ops::notify::HookListener;
use aynig::ops::run::{Mode, Setup, next_steps, options};
use aynig::ops::runs;
use aynig::ops::settings;
use aynig::ops::settings::Settings;
use aynig::ops::settings::keys::{KEYS, Key};
use aynig::ops::target::branch_name;
use aynig::ops::view::lease::gone_words_of;
use aynig::runner::authority::Authority;
use aynig::runner::events::feed::Feed;
use aynig::runner::events::notice::{Notice, Outcome, StepReport};
use aynig::runner::events::said::Said;
use aynig::runner::events::warning::Warning;
use aynig::runner::options::{Options, is_glob};
use aynig::runner::passes::pass::{PassError, Summary};
use aynig::runner::{error_chain, pluralize, shell_quote};
use aynig::stop::{Cause, Stop, Subscription};

use crate::cli::args::{Run, not_an_interval};
use crate::cli::exit::Exit;
use crate::cli::internal;
use crate::cli::ui;
use crate::cli::ui::live::Live;
use crate::cli::ui::narrator::Narrator;
use crate::cli::ui::{FAINT, sanitize, styled};
use crate::cli::ui::{panics, signals};

/// The interval between two looks at a configuration with a mistake.
const LOOK: Duration = Duration::from_secs(1);

/// The results of a run before its settings were read anew.
struct Before {
    /// Whether there were any.
    begun: bool,
    exit: Exit,
    /// Whether anything was run.
    ran: bool,
}

/// Runs the subcommand. `--watch` begins anew whenever git's configuration changes.
pub(crate) fn run(app: &App, arguments: &Run) -> Result<Exit, Error> {
    not_an_interval(arguments.watch, &arguments.names)?;
    let mut before = Before { begun: false, exit: Exit::Done, ran: false };
    let mut ended = until_reconfigured(app, arguments, &mut before)?;
    before.begun = true;
    loop {
        if let Some(exit) = ended {
            return Ok(exit);
        }
        if ui::somebody_listens() {
            ui::remark(&styled(FAINT, "git's configuration has changed, and is read anew"));
        }
        let anew = reopened(app, arguments).and_then(|anew| match anew {
            Ok(anew) => until_reconfigured(&anew, arguments, &mut before),
            Err(cause) => Ok(Some(Exit::from(cause))),
        });
        ended = anew.map_err(|error| if before.ran { error.after_others() } else { error })?;
    }
}

/// Opens the repository once git's configuration can be used. Warns once of each mistake in it. Ends with the cause
/// of a stop.
fn reopened(app: &App, arguments: &Run) -> Result<Result<App, Cause>, Error> {
    let (repo, stop) = (app.repo(), signals::shutdown()?);
    let (tell, told) = mpsc::channel();
    let _subscription = stop.subscribe(move |_| {
        let _gone = tell.send(());
    });
    let mut said = None;
    loop {
        let anew = App::open(app.process.clone()).and_then(|anew| {
            configured(&anew, arguments)?;
            Ok(anew)
        });
        match anew {
            Ok(anew) if repo.has_config() => return Ok(Ok(anew)),
            Ok(_) => tracing::debug!("git's configuration is missing"),
            Err(error) if repo.is_gone() => return Err(error),
            Err(error) if said.as_ref() != Some(&error.message) => {
                let warning = Warning::NothingRun { why: error.message.clone() };
                ui::warn(&warning.to_string());
                said = Some(error.message);
            }
            Err(_) => {}
        }
        if let Some(cause) = stop.cause() {
            return Ok(Err(cause));
        }
        let _woken = told.recv_timeout(LOOK);
    }
}

/// Prints which runs this pass does not carry on, and why.
fn of_runs(repo: &Repo, authority: &Authority, narrator: &Narrator) -> Result<(), Error> {
    if authority.source().is_some() {
        let all = runs::all(repo)?;
        flows::alone(repo, authority, &all).iter().for_each(|words| narrator.note(words));
        if let Some((what, hint)) = flows::moved(repo, authority, &all)? {
            ui::warn(&ui::sanitize(&format!("{what}: {hint}")));
        }
    }
    for (what, next) in flows::held(repo)? {
        ui::warn(&ui::sanitize(&format!("{what}: {next}")));
    }
    Ok(())
}

/// Reads all settings of a run.
pub(super) fn configured(app: &App, arguments: &Run) -> Result<(Settings, Options, Authority), Error> {
    let repo = app.repo();
    let settings = Settings::of_run(&repo, &given(arguments))?;
    let options = options(&repo, &app.process, &settings)?;
    let authority = authority::for_run(&repo, settings.remote.as_ref())?;
    settings::check_steps(&repo)?;
    Ok((settings, options, authority))
}

/// The settings that were given, with the branches that were named without an option.
fn given(arguments: &Run) -> Vec<(&'static Key, OsString)> {
    let key = KEYS.iter().find(|key| key.name == "branch").expect("it is a setting");
    let globs = arguments.names.iter().map(|glob| (key, OsString::from(glob)));
    arguments.settings.0.iter().cloned().chain(globs).collect()
}

/// The branches that were named on the command line, without globs.
pub(super) fn named(arguments: &Run) -> Vec<String> {
    let given = given(arguments).into_iter().filter(|(key, _)| key.name == "branch");
    let names = given.map(|(_, name)| name.to_string_lossy().into_owned());
    names.filter(|name| !is_glob(name.as_bytes())).collect()
}

/// Runs with the settings of this moment. `None` if they have changed since.
fn until_reconfigured(app: &App, arguments: &Run, before: &mut Before) -> Result<Option<Exit>, Error> {
    let repo = app.repo();
    for text in settings::unknown(&repo) {
        ui::warn(&text);
    }
    let (settings, options, authority) = configured(app, arguments)?;
    let setup = Setup::new(options, authority, internal::WATCHDOG);
    let (authority, stop) = (&setup.authority, signals::shutdown()?);
    let said = Said::new(&repo, authority.source());
    let narrator = Arc::new(Narrator::new(arguments.json, Live::on_terminal(), Some(said)));
    let teller = Arc::clone(&narrator);
    let hook = HookListener::new(
        app,
        authority.source(),
        setup.options.role.as_ref(),
        &setup.watchdog,
        Arc::new(move |notice| teller.tell(notice)),
    )?;
    let (current, warnings, closed) = (Current::new(&settings), Warnings::default(), Closed::default());
    let mut feed = Feed::default();
    feed.subscribe(|notice| current.hear(notice, &narrator));
    feed.subscribe(|notice| warnings.hear(notice));
    feed.subscribe(|notice| closed.hear(notice));
    if let Some(hook) = &hook {
        feed.subscribe(|notice| hook.hear(&app.store, notice));
    }
    feed.subscribe(|notice| narrator.tell(notice));
    if !before.begun {
        of_runs(&repo, authority, &narrator)?;
    }
    if let Some(unset) = authority::unset(&repo, authority) {
        let at = Some((unset.there.clone(), unset.head));
        feed.publish(&Notice::Warning { branch: None, at, warning: unset.warning() });
    }
    let context = setup.context(&app.store, &stop, &feed);
    let _panics = panics::stop(&stop, setup.options.grace)?;
    let _calls = end_calls(&repo, &stop, setup.options.grace, &narrator);
    // The live lines disappear when it is dropped, so a subscription that may never fire must not keep it.
    let waiting = Arc::downgrade(&narrator);
    signals::say_when_waiting(repo.interrupt(), authority, move |words| {
        if let Some(narrator) = waiting.upgrade() {
            narrator.note(words);
        }
    });
    if let Some(seconds) = arguments.watch
        && !arguments.json
        && ui::somebody_listens()
    {
        narrator.note(&watching(&repo, authority, seconds));
    }
    let mut answer = Answer {
        repo: &repo,
        authority,
        arguments,
        narrator: &narrator,
        current: &current,
        warnings: &warnings,
        closed: &closed,
        exit: before.exit,
        ran: before.ran,
    };
    let mode = match arguments.watch {
        Some(seconds) => Mode::Watch(Duration::from_secs(seconds), before.begun),
        None if arguments.drain => Mode::Drain,
        None => Mode::Once,
    };
    let passed = aynig::ops::run::run(&context, &repo, mode, &mut |summary| answer.add(&summary, &stop));
    (before.exit, before.ran) = (answer.exit, answer.ran);
    drop(feed);
    // However the run ended, pending notices are delivered.
    if let Some(hook) = hook {
        let aside = || narrator.aside("telling what is still to be told (aynig.notify); ^C ends it");
        hook.close(&stop, aside);
    }
    result(passed, &stop, before)
}

/// The result of a run: its exit code, or `None` if git's configuration has changed.
fn result(passed: Result<(), PassError>, stop: &Stop, before: &Before) -> Result<Option<Exit>, Error> {
    match passed {
        Ok(()) => {}
        Err(PassError::Reconfigured) if stop.cause().is_none() => return Ok(None),
        Err(PassError::Reconfigured) => {}
        // After a stop a remote's error is only narrated.
        Err(PassError::Remote(error)) if stop.cause().is_some() => {
            ui::remark(&styled(FAINT, sanitize(&error_chain(&error))));
        }
        Err(error) => {
            let error = Error::from(error);
            return Err(if before.ran { error.after_others() } else { error });
        }
    }
    Ok(Some(stop.cause().map_or(before.exit, Exit::from)))
}

fn watching(repo: &Repo, authority: &Authority, seconds: u64) -> String {
    let place = match authority.source() {
        Some(remote) => format!("{remote} of {}", repo.top().display()),
        None => repo.top().display().to_string(),
    };
    styled(FAINT, sanitize(&format!("watching {place}, at least every {seconds} s; Ctrl-C ends it")))
}

/// Lets a stop end git calls. Results on their way may still land, and the lease stays known; after a second
/// signal that may fail. What is written then is still signed.
fn end_calls(repo: &Repo, stop: &Stop, grace: Duration, narrator: &Narrator) -> Subscription {
    let (interrupt, running) = (repo.interrupt().clone(), narrator.running());
    stop.subscribe(move |notice| {
        if notice.signals == 1 {
            interrupt.end_scans();
            interrupt.end_signatures(grace);
        } else {
            interrupt.hurry();
        }
        let count = running.lock().map_or(0, |running| running.len());
        if notice.signals == 1 && count > 0 {
            let (commands, grace) = (pluralize(count, "command"), grace.as_secs());
            let again = second_signal(notice.first);
            let them = if count == 1 { "it" } else { "them" };
            ui::remark(&format!("stopping {commands} (up to {grace} s); {again} to kill {them}"));
        } else if notice.signals == 1 && interrupt.is_at_work() {
            let again = second_signal(notice.first);
            ui::remark(&format!("stopping as soon as git is done; {again} to stop it now"));
        }
    })
}

/// The hint how to end the grace period, for the cause of a stop.
fn second_signal(first: Cause) -> &'static str {
    match first {
        Cause::Signal(SIGINT) => "press Ctrl-C again",
        Cause::Signal(SIGTERM) => "send SIGTERM again",
        Cause::Signal(_) | Cause::CalledOff | Cause::Panic => "press Ctrl-C or send SIGTERM",
    }
}

/// The checked-out branch that was deliberately skipped. Prints a warning if the user names it or watches a
/// terminal, or if nothing else ran. A pass of a timer prints none.
struct Current<'a> {
    settings: &'a Settings,
    unsaid: Mutex<Option<Notice>>,
}

impl<'a> Current<'a> {
    fn new(settings: &'a Settings) -> Self {
        Self { settings, unsaid: Mutex::default() }
    }

    fn hear(&self, notice: &Notice, narrator: &Narrator) {
        let Notice::SkippedCurrent { branch, state } = notice else { return };
        let (about, remote) = (branch.clone(), self.settings.remote.clone());
        let warning = Warning::SkippedCurrent { about, state: state.clone(), remote };
        let warning = Notice::Warning { branch: Some(branch.clone()), at: None, warning };
        if ui::somebody_listens() || self.settings.branch.iter().any(|glob| *glob == branch.to_string()) {
            narrator.tell(&warning);
        } else if let Ok(mut unsaid) = self.unsaid.lock() {
            *unsaid = Some(warning);
        }
    }

    fn unsaid(&self) -> Option<Notice> {
        self.unsaid.lock().ok().and_then(|mut unsaid| unsaid.take())
    }
}

/// The branches whose expired lease was closed since the last summary, with the commits that closed them.
#[derive(Default)]
struct Closed(Mutex<Vec<(BranchName, CommitId)>>);

impl Closed {
    fn hear(&self, notice: &Notice) {
        if let Notice::Recovered { branch, commit, .. } = notice
            && let Ok(mut closed) = self.0.lock()
        {
            closed.push((branch.clone(), *commit));
        }
    }

    fn take(&self) -> Vec<(BranchName, CommitId)> {
        self.0.lock().map(|mut closed| std::mem::take(&mut *closed)).unwrap_or_default()
    }
}

/// The warnings since the last summary.
#[derive(Default)]
struct Warnings(Mutex<Vec<(Option<BranchName>, Warning)>>);

impl Warnings {
    fn hear(&self, notice: &Notice) {
        if let Notice::Warning { branch, warning, .. } = notice
            && let Ok(mut kept) = self.0.lock()
        {
            kept.push((branch.clone(), warning.clone()));
        }
    }

    fn has(&self, is_wanted: impl Fn(&Warning) -> bool) -> bool {
        self.0.lock().is_ok_and(|kept| kept.iter().any(|(_, warning)| is_wanted(warning)))
    }

    fn take(&self) -> Vec<Value> {
        let kept = self.0.lock().map(|mut kept| std::mem::take(&mut *kept)).unwrap_or_default();
        let one = |(branch, warning): (Option<BranchName>, Warning)| warning_json(branch.as_ref(), &warning);
        kept.into_iter().map(one).collect()
    }
}

/// The answer of a run: a summary per round, and the exit code of all of them.
struct Answer<'a> {
    repo: &'a Repo,
    authority: &'a Authority,
    arguments: &'a Run,
    narrator: &'a Narrator,
    current: &'a Current<'a>,
    warnings: &'a Warnings,
    closed: &'a Closed,
    exit: Exit,
    /// Whether anything was run.
    ran: bool,
}

impl Answer<'_> {
    /// Whether a warning is about a name on the command line that no branch has.
    fn misnames(&self, warning: &Warning) -> bool {
        match warning {
            Warning::NoSuchBranch { name, .. } | Warning::UnlistedBranch { name, .. } => {
                named(self.arguments).contains(name)
            }
            _ => false,
        }
    }

    fn add(&mut self, summary: &Summary, stop: &Stop) {
        let idle = !summary.did_something() && summary.failed.is_empty() && stop.cause().is_none();
        if idle && self.arguments.watch.is_none() && !self.warnings.has(|one| self.misnames(one)) {
            self.nothing_done(summary);
        }
        self.ran |= summary.did_something();
        if summary.any_failure() {
            self.exit = Exit::Failed;
        } else if !summary.failed.is_empty() && self.exit == Exit::Done {
            self.exit = if summary.remote_trouble { Exit::Remote } else { Exit::Setup };
        }
        for line in next_steps(self.repo, self.authority.source(), &self.closed.take(), &summary.steps) {
            self.narrator.next_step(&line);
        }
        let misnamed = self.arguments.watch.is_none() && self.warnings.has(|one| self.misnames(one));
        if misnamed && self.exit == Exit::Done {
            self.exit = Exit::Failed;
        }
        let warnings = self.warnings.take();
        if self.arguments.json {
            ui::answer_json(&summary_json(summary, warnings, &[]));
        }
    }

    /// Printed only if a person is waiting: cron mails every output.
    fn nothing_done(&self, summary: &Summary) {
        if !self.arguments.drain
            && let Some(warning) = self.current.unsaid()
        {
            self.narrator.tell(&warning);
        }
        let named = named(self.arguments);
        let left = |due: i64| u64::try_from(due.saturating_sub(clock::wall_seconds())).unwrap_or_default();
        let later = summary.next_wake.map(|due| format!(", one is due in {}", span_in_short(left(due))));
        let later = later.unwrap_or_default();
        if self.arguments.json {
        } else if !named.is_empty() && !self.narrator.has_warned() {
            // Whoever names a branch waits for an answer, terminal or not.
            let quoted: Vec<String> = named.iter().map(shell_quote).collect();
            let line = format!(
                "nothing to do on {}{later}; `aynig status {}` says why",
                named.join(", "),
                quoted.join(" ")
            );
            ui::remark(&styled(FAINT, sanitize(&line)));
            for name in &named {
                let branch = branch_name(name.as_ref()).ok();
                if let Some(gone) =
                    branch.and_then(|branch| gone_words_of(self.repo, self.authority, &branch))
                {
                    ui::remark(&sanitize(&format!("{name}: {gone}")));
                }
            }
        } else if ui::somebody_listens() {
            let looked = pluralize(summary.branches, "branch");
            let line = format!("nothing to do on {looked}{later}; `aynig status --all` says why");
            ui::remark(&styled(FAINT, line));
            if let Some(line) = authority::elsewhere(self.repo, self.authority) {
                ui::remark(&styled(FAINT, sanitize(&line)));
            }
        }
    }
}

/// The answer in JSON. `plan` is what `--dry-run` shows.
pub(super) fn summary_json(summary: &Summary, warnings: Vec<Value>, plan: &[Value]) -> Value {
    json!({
        "passes": summary.passes,
        "branchCount": summary.branches,
        "steps": summary.steps.iter().map(step_json).collect::<Vec<_>>(),
        "recovered": summary.recovered,
        "lostRaces": summary.lost_races,
        "errors": summary.failed,
        "warnings": warnings,
        "plan": plan,
    })
}

pub(super) fn warning_json(branch: Option<&BranchName>, warning: &Warning) -> Value {
    json!({
        "code": warning.code(),
        "branch": branch.map(ToString::to_string),
        "text": warning.to_string(),
    })
}

fn step_json(step: &StepReport) -> Value {
    let (state, reason) = match &step.outcome {
        Outcome::Advanced { state, .. } | Outcome::AdvancedByCommand { state, .. } => {
            (Some(state.to_string()), None)
        }
        Outcome::KeptWorking { kept, .. } => (Some("working".to_owned()), Some(kept.words())),
        Outcome::Requeued { state, why, .. } => (Some(state.to_string()), Some(why.clone())),
        Outcome::Stalled { why } => (Some("stalled".to_owned()), Some(why.clone())),
        Outcome::LeaseLost { how } => (None, Some(how.clone())),
        Outcome::Unwritten { why, .. } => (None, Some(why.clone())),
    };
    let waits = match &step.outcome {
        Outcome::Advanced { waits, .. } => waits.as_ref().map(|waits| waits.whom.clone()),
        _ => None,
    };
    json!({
        "branch": step.branch.to_string(),
        "trigger": step.trigger.to_string(),
        "originState": step.state.to_string(),
        "runId": step.attempt.to_string(),
        "outcome": step.outcome.word(),
        "state": state,
        "commit": step.commit.map(|commit| commit.to_string()),
        "exitCode": step.exit,
        "ending": step.ending,
        "reason": reason,
        "waitsFor": waits,
        "elapsedMs": u64::try_from(step.elapsed.as_millis()).unwrap_or(u64::MAX),
        "rescueRef": step.rescue_ref(),
        "leftInPlace": step.left.as_ref().map(|left| left.path.display().to_string()),
    })
}
