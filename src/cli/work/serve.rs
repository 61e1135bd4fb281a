//! `aynig serve`: starts the server, with `--run` a runner beside it, and prints links.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::thread::JoinHandle;

use aynig::ops::app::App;
use aynig::ops::error::Error;
use aynig::ops::inside::persons_only;
use aynig::ops::settings::keys::KEYS;
use aynig::server::{self, Options};
use aynig::stop::Stop;

use crate::cli::args::settings::Given;
use crate::cli::args::{Run, Serve};
use crate::cli::exit::Exit;
use crate::cli::internal::WATCHDOG;
use crate::cli::ui::signals::{authority, shutdown};
use crate::cli::ui::{self, warn};
use crate::cli::work::run;

/// The interval of `aynig run --watch`, in seconds.
const WATCH: u64 = 10;

/// Runs the subcommand.
pub(crate) fn run(app: App, arguments: &Serve) -> Result<Exit, Error> {
    let repo = app.repo();
    if arguments.url {
        persons_only("printing a link")?;
        ui::answer(&server::link(&repo)?);
        return Ok(Exit::Done);
    }
    let authority = authority(&repo, None)?;
    let top = repo.top().display().to_string();
    let beside = arguments.run.then(|| App::open(app.process.clone())).transpose()?;
    // The runner may end by itself, on an error.
    let (stop, _above) = shutdown()?.child();
    let server = server::open(
        app,
        Options {
            listen: arguments.listen,
            allow_remote: arguments.allow_remote,
            remote: authority.source().cloned(),
            watchdog: WATCHDOG,
            stop: stop.clone(),
            tell: warn,
        },
    )?;
    ui::answer(&server.link());
    ui::remark(&format!(
        "serving {top} until Ctrl-C{}; the link opens one session and expires after a minute, `aynig serve --url` prints \
         another",
        if arguments.run { ", and running what is due" } else { "" }
    ));
    if !arguments.run {
        ui::remark("no runner: `aynig serve --run` is one as well, or start `aynig run --watch`");
    }
    if arguments.open {
        open(&server);
    }
    let runner = beside.map(|app| runner(app, arguments.jobs, stop)).transpose()?;
    let served = server.run();
    let Some(runner) = runner else { return served.map(|()| Exit::Done) };
    if served.is_err() {
        shutdown()?.call_off();
    }
    // A panic of it is reported by the hook.
    let ran = runner.join().unwrap_or(Ok(()));
    served.and(ran).map(|()| Exit::Done)
}

/// Starts a runner. Its end is that of the server.
fn runner(
    app: App,
    jobs: Option<NonZeroUsize>,
    server: Stop,
) -> Result<JoinHandle<Result<(), Error>>, Error> {
    let jobs = jobs.and_then(|jobs| {
        let key = KEYS.iter().find(|key| key.name == "jobs")?;
        Some((key, OsString::from(jobs.to_string())))
    });
    let arguments = Run {
        names: Vec::new(),
        settings: Given(jobs.into_iter().collect()),
        drain: false,
        watch: Some(WATCH),
        dry_run: false,
        json: false,
    };
    let work = move || {
        let ended = run::run(&app, &arguments).map(drop);
        server.call_off();
        ended
    };
    let started = std::thread::Builder::new().name("runner".to_owned()).spawn(work);
    started.map_err(|error| Error::because("start the runner", &error))
}

/// Opens the page in a browser, by a file that its owner alone may read: all users see the arguments of a process.
fn open(server: &server::Server) {
    let opened = server.doorway().and_then(|file| {
        open::that_detached(&file).map_err(|error| Error::because("open a browser", &error))
    });
    if let Err(error) = opened {
        warn(&format!("{}; the link above opens the page", error.message));
    }
}
