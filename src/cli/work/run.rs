//! `aynig run`: options out of arguments, passes, the summary.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use aynig::contract::ids::{BranchName, RemoteName, StateName};
use aynig::ops::app::App;
use aynig::ops::authority;
use aynig::ops::run::options;
use aynig::ops::settings;
use aynig::ops::settings::Settings;
use aynig::runner::events::notice::Notice;
use aynig::runner::events::notice::StepReport;
use aynig::runner::passes::backoff::Backoff;
use aynig::runner::passes::pass::{Halted, PassError, Summary, drain, pass};
use aynig::runner::passes::watch::watch;
use aynig::runner::{Context, error_chain, pluralize, shell_quote};
use aynig::stop::Cause;
use aynig::supervise::Watchdog;

use crate::cli::args::Run;
use crate::cli::error::{CommandError, Exit};
use crate::cli::internal;
use crate::cli::notify::HookListener;
use crate::cli::ui;
use crate::cli::ui::live::Live;
use crate::cli::ui::narrator::Narrator;
use crate::cli::ui::{CARE, FAINT, sanitize, styled};
use crate::cli::ui::{panics, signals};

/// Runs the subcommand.
pub(crate) fn run(app: &App, arguments: &Run) -> Result<Exit, CommandError> {
    let repo = app.repo();
    for text in settings::unknown(&repo) {
        ui::narrate(&format!("{} {}", styled(CARE, "warning:"), sanitize(&text)));
    }
    let settings = Settings::of_run(&repo, &arguments.settings.0)?;
    let options = options(&repo, &app.process, &settings)?;
    let authority = authority::for_run(&repo, settings.remote.as_ref())?;
    let shutdown = signals::shutdown()?;
    let watchdog = Watchdog::lazy(options.program.clone(), vec![internal::WATCHDOG.into()]);
    let narrator = Arc::new(Narrator::new(arguments.json, Live::on_terminal()));
    let teller = HookListener::new(
        &repo,
        &app.process,
        authority.source(),
        options.role.as_ref(),
        &watchdog,
        &narrator,
    )?;
    // What is checked out here is left alone on purpose. That is told to whoever sits at a terminal or names the branch, and else where
    // nothing else was done; not by timers and the like, which come again and again.
    let unsaid: Mutex<Option<Notice>> = Mutex::default();
    let tell = |notice: Notice| {
        if let Notice::SkippedCurrent { branch, state } = &notice {
            let warning = left_alone(branch, state, settings.remote.as_ref());
            if ui::somebody_listens() || settings.branch.iter().any(|glob| *glob == branch.to_string()) {
                narrator.tell(warning);
            } else if let Ok(mut unsaid) = unsaid.lock() {
                *unsaid = Some(warning);
            }
        }
        if let Some(teller) = &teller {
            teller.hear(&app.store, &notice);
        }
        narrator.tell(notice);
    };
    let context = Context {
        store: &app.store,
        authority: &authority,
        options: &options,
        shutdown: &shutdown,
        watchdog: &watchdog,
        tell: &tell,
    };
    let grace = settings.grace_seconds;
    let running = narrator.running();
    let _panics = panics::stop(&shutdown, options.grace)?;
    let (interrupt, longest) = (repo.interrupt().clone(), options.grace);
    let _words = shutdown.subscribe(move |notice| {
        // What has begun is to land, and its lease to be known; at the second signal that may fail.
        if notice.signals == 1 {
            interrupt.end_scans();
            interrupt.end_signatures(longest);
        } else {
            interrupt.end_all();
        }
        let count = running.lock().map_or(0, |running| running.len());
        if notice.signals == 1 && count > 0 {
            let again = if notice.first == Cause::Panic { "Ctrl-C or SIGTERM" } else { "the same again" };
            ui::narrate(&format!("stopping: {count} running, with {grace} s to end; {again} ends it now"));
        } else if notice.signals == 1 && interrupt.is_at_work() {
            ui::narrate("stopping, once what is under way is done; the same again ends that now");
        }
    });
    let (mut exit, mut ran) = (Exit::Done, false);
    let stays = arguments.watch.is_some();
    let mut report = |summary: Summary| {
        // Only to a person who waits for it: cron sends whatever is said.
        let idle = !summary.did_something() && summary.failed.is_empty() && shutdown.cause().is_none();
        if idle
            && !stays
            && !arguments.drain
            && let Some(warning) = unsaid.lock().ok().and_then(|mut unsaid| unsaid.take())
        {
            narrator.tell(warning);
        }
        if idle && !stays && !arguments.json && ui::somebody_listens() {
            let looked = pluralize(summary.branches, "branch");
            ui::narrate(&styled(FAINT, format!("nothing to do on {looked}; `aynig status --all` says why")));
        }
        ran |= summary.did_something();
        if summary.any_failure() {
            exit = Exit::Failed;
        } else if !summary.failed.is_empty() && exit == Exit::Done {
            exit = if summary.remote_trouble { Exit::Remote } else { Exit::Setup };
        }
        if arguments.json {
            ui::answer(&summary_json(&summary).to_string());
        }
    };
    // Its lines go when it does, and must not be kept by who may never have a word.
    let waiting = Arc::downgrade(&narrator);
    signals::say_when_waiting(repo.interrupt(), &authority, move |words| {
        if let Some(narrator) = waiting.upgrade() {
            narrator.note(words);
        }
    });
    if let Some(seconds) = arguments.watch
        && !arguments.json
        && ui::somebody_listens()
    {
        let place = match authority.source() {
            Some(remote) => format!("{remote} of {}", repo.top().display()),
            None => repo.top().display().to_string(),
        };
        narrator.note(&styled(
            FAINT,
            sanitize(&format!("watching {place}, at least every {seconds} s; Ctrl-C ends it")),
        ));
    }
    let passed = match arguments.watch {
        Some(seconds) => watch(&context, &repo, Duration::from_secs(seconds), &mut report),
        None if arguments.drain => {
            let drained = drain(&context, &repo, &mut Backoff::default());
            drained.map(&mut report).map_err(|halted| {
                let Halted { done, error } = *halted;
                if done.passes > 0 {
                    report(done);
                }
                error
            })
        }
        None => pass(&context, &repo).map(&mut report),
    };
    // However it ended: what is true by now is told.
    if let Some(teller) = teller {
        teller.close(&shutdown);
    }
    match passed {
        // Nobody wants to know any more what the remote has.
        Err(PassError::Remote(error)) if shutdown.cause().is_some() => {
            ui::narrate(&styled(FAINT, sanitize(&error_chain(&error))));
        }
        other => other.map_err(|error| {
            let error = CommandError::from(error);
            if ran { error.after_others() } else { error }
        })?,
    }
    Ok(shutdown.cause().map_or(exit, Exit::from))
}

/// That the branch checked out here was not run, and what runs it.
fn left_alone(branch: &BranchName, state: &StateName, remote: Option<&RemoteName>) -> Notice {
    let remote =
        remote.map(|remote| format!(" --remote {}", shell_quote(remote.as_str()))).unwrap_or_default();
    let text = format!(
        "{state} was not run: the branch is checked out here; `aynig run{remote} --current-branch include` runs it in place"
    );
    Notice::Warning { branch: Some(branch.clone()), text }
}

fn summary_json(summary: &Summary) -> Value {
    json!({
        "passes": summary.passes,
        "branches": summary.branches,
        "steps": summary.steps.iter().map(step_json).collect::<Vec<_>>(),
        "recovered": summary.recovered,
        "lostRaces": summary.beaten,
        "errors": summary.failed,
    })
}

fn step_json(step: &StepReport) -> Value {
    use aynig::runner::events::notice::Outcome;
    let (state, reason) = match &step.outcome {
        Outcome::Advanced { state } | Outcome::AdvancedByCommand { state } => (Some(state.to_string()), None),
        Outcome::KeptWorking { misspoken, .. } => {
            let why =
                if *misspoken { "exit 0, but its SET_STATE was invalid" } else { "exit 0 without SET_STATE" };
            (Some("working".to_owned()), Some(why.to_owned()))
        }
        Outcome::Stalled { why } => (Some("stalled".to_owned()), Some(why.clone())),
        Outcome::LeaseLost { how } => (None, Some(how.clone())),
        Outcome::Unwritten { why, .. } => (None, Some(why.clone())),
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
        "elapsedMs": u64::try_from(step.elapsed.as_millis()).unwrap_or(u64::MAX),
        "rescueRef": step.rescue_ref(),
        "leftInPlace": step.left.as_ref().map(|left| left.path.display().to_string()),
    })
}
