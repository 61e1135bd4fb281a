//! `--wait` of `aynig flow`: carries a run out here until it has ended, or a person is needed.
//!
//! Invariant: it does what `aynig run` does, on the driver of this run alone. If another host takes a step, it waits.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use aynig::contract::ids::BranchName;
use aynig::git::Repo;
use aynig::ops::app::App;
use aynig::ops::error::Error;
use aynig::ops::flows::standing::{End, Place};
use aynig::ops::flows::view::show as view;
use aynig::ops::flows::{self, FlowRun};
use aynig::ops::notify::HookListener;
use aynig::ops::run::{Mode, Setup, options};
use aynig::ops::settings::Settings;
use aynig::ops::settings::keys::KEYS;
use aynig::ops::{authority, runs};
use aynig::runner::authority::Authority;
use aynig::runner::events::feed::Feed;
use aynig::runner::events::notice::Notice;
use aynig::stop::Stop;

use crate::cli::exit::Exit;
use crate::cli::internal::WATCHDOG;
use crate::cli::look::flow_runs::line;
use crate::cli::ui;
use crate::cli::ui::signals::{leave, shutdown};
use crate::cli::ui::{STRONG, panics, styled, warn};

/// The time between two looks at a run that another host carries on, or that waits for a time.
const LOOK: Duration = Duration::from_secs(1);

/// A run that is carried out here.
pub(crate) struct Driven {
    pub(crate) run: runs::RunId,
    pub(crate) slug: String,
    pub(crate) driver: BranchName,
    /// The numbers of the steps that had ended before. They are not printed.
    pub(crate) ended: BTreeSet<u64>,
}

/// Carries a run out. The answer is its last state.
pub(crate) fn drive(app: &App, driven: &Driven, json: bool) -> Result<Exit, Error> {
    let repo = app.repo();
    let branch = KEYS.iter().find(|key| key.name == "branch").expect("it is a setting");
    let given = [(branch, OsString::from(driven.driver.to_string()))];
    let settings = Settings::of_run(&repo, &given)?;
    let options = options(&repo, &app.process, &settings)?;
    let authority = authority::for_run(&repo, settings.remote.as_ref())?;
    let is_alone =
        flows::is_alone(&repo, &flows::find(&repo, &driven.run.to_string())?.state.run, &authority);
    let authority = if is_alone { Authority::Local } else { authority };
    let setup = Setup::new(options, authority, WATCHDOG);
    let stop = shutdown()?;
    // A signal hands the step back. It no longer ends the process, as it does while a remote is asked.
    leave();
    let _panics = panics::stop(&stop, setup.options.grace)?;
    let hook = HookListener::new(
        app,
        setup.authority.source(),
        setup.options.role.as_ref(),
        &setup.watchdog,
        Arc::new(|notice| {
            if let Notice::Warning { warning, .. } = notice {
                warn(&warning.to_string());
            }
        }),
    )?;
    let exit = carry_out(app, (driven, json), &setup, &stop, hook.as_ref());
    if let Some(hook) = hook {
        hook.close(&stop, || ui::remark("waiting for aynig.notify"));
    }
    exit
}

fn carry_out(
    app: &App,
    (driven, json): (&Driven, bool),
    setup: &Setup,
    stop: &Stop,
    hook: Option<&HookListener>,
) -> Result<Exit, Error> {
    let repo = app.repo();
    let told = Mutex::new(driven.ended.clone());
    let mut feed = Feed::default();
    if let Some(hook) = hook {
        feed.subscribe(|notice| hook.hear(&app.store, notice));
    }
    feed.subscribe(|notice| match notice {
        Notice::Ended(_) if !json => {
            if let Ok(run) = shown(&app.repo(), app, &setup.authority, driven) {
                tell(&run, &told);
            }
        }
        Notice::Warning { warning, .. } => warn(&warning.to_string()),
        _ => {}
    });
    let context = setup.context(&app.store, stop, &feed);
    let (bell, rung) = mpsc::channel();
    let _subscription = stop.subscribe(move |_| {
        let _gone = bell.send(());
    });
    let mut waits = String::new();
    loop {
        aynig::ops::run::run(&context, &repo, Mode::Drain, &mut |_| {})?;
        if let Some(cause) = stop.cause() {
            if json {
                ui::answer_json(&shown(&repo, app, &setup.authority, driven)?);
            }
            ui::remark(&format!(
                "the run goes on: `aynig run` carries it out; `aynig flow show {}`",
                driven.slug
            ));
            return Ok(Exit::from(cause));
        }
        runs::update(&repo, setup.authority.source()).iter().for_each(|trouble| warn(trouble));
        let run = shown(&repo, app, &setup.authority, driven)?;
        // Without a remote there is no other host.
        let is_alone = setup.authority.source().is_none() && !run.unable.is_empty();
        if let Some(end) = run.end().or(is_alone.then_some(End::NeedsPerson)) {
            if json {
                ui::answer_json(&run);
            } else {
                tell(&run, &told);
                last(&run);
            }
            return Ok(Exit::from(end));
        }
        if run.place != Place::Working && run.words != waits {
            ui::remark(&ui::sanitize(&format!("waiting: {}", run.words)));
            waits.clone_from(&run.words);
        }
        let _rung = rung.recv_timeout(LOOK);
    }
}

fn shown(repo: &Repo, app: &App, authority: &Authority, driven: &Driven) -> Result<FlowRun, Error> {
    let tip = flows::find(repo, &driven.run.to_string())?;
    view(repo, &app.process, authority, &tip, &mut warn)
}

/// Prints the steps that have ended since the last time, one a line.
fn tell(run: &FlowRun, told: &Mutex<BTreeSet<u64>>) {
    let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
    for step in run.steps.iter().filter(|step| step.ended_at.is_some()) {
        if told.insert(step.number) {
            ui::answer(&line(step));
        }
    }
}

/// The verdict, where the work and the files are, and what to type.
fn last(run: &FlowRun) {
    let branch = run.work_branch.as_deref().unwrap_or("-");
    let words = format!("{}; work branch {branch}; files {}", run.words, run.run_directory);
    ui::answer(&ui::sanitize(&words));
    for command in &run.next {
        ui::answer(&format!("next  {}", styled(STRONG, ui::sanitize(command))));
    }
}
