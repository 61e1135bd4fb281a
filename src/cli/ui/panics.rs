//! Handling of panics: a runner stops, its commands get their grace period, and every subcommand exits with
//! 70.
//!
//! Invariants: a panic in any thread is noticed at once, even if no thread joins it. The hook itself takes no
//! lock that the panicking thread could hold. A runner that does not stop is killed, by a third signal or a
//! timeout. Its watchdog then stops the commands, and later passes close its leases.

use std::panic::{set_hook, take_hook};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use signal_hook::low_level::emulate_default_handler;

use aynig::clock;
use aynig::ops::error::{Error, Kind};
use aynig::stop::{Cause, Stop, Subscription};

use crate::cli::exit::Exit;

/// Whether a thread has panicked.
static HAPPENED: AtomicBool = AtomicBool::new(false);

/// Receives a message on a panic.
static STOPPING: OnceLock<Sender<()>> = OnceLock::new();

/// The time for a runner to save the work of its commands after their grace period.
const LONGEST_STOP: Duration = Duration::from_secs(600);

/// Starts to record panics, besides the usual message.
pub(crate) fn notice() {
    let tell = take_hook();
    set_hook(Box::new(move |panic| {
        HAPPENED.store(true, Ordering::SeqCst);
        tell(panic);
        if let Some(stopping) = STOPPING.get() {
            // Only the first one is awaited.
            stopping.send(()).ok();
        }
    }));
}

/// Lets a panic trigger `shutdown`; commands get `grace` to end. Must be called once.
pub(crate) fn stop(shutdown: &Stop, grace: Duration) -> Result<Subscription, Error> {
    let (stopping, panicked) = mpsc::channel();
    let switch = shutdown.clone();
    let thread = std::thread::Builder::new().name("panics".to_owned());
    let listen = move || {
        if panicked.recv().is_err() {
            return;
        }
        switch.panicked();
        clock::pause(grace.saturating_add(LONGEST_STOP));
        tracing::error!("the runner does not end after a panic; it is given up");
        give_up();
    };
    thread.spawn(listen).map_err(|error| Error::because("start a thread", &error))?;
    // A second call would be for another run in this process; there is none.
    STOPPING.set(stopping).ok();
    Ok(shutdown.subscribe(|notice| {
        if let (Cause::Panic, 3.., Cause::Signal(signal)) = (notice.first, notice.signals, notice.latest)
            && let Err(error) = emulate_default_handler(signal)
        {
            tracing::warn!(%error, signal, "cannot end by the signal");
        }
    }))
}

#[expect(clippy::disallowed_methods, reason = "whoever should return to main() does not")]
fn give_up() {
    std::process::exit(i32::from(Exit::Bug.code()));
}

/// Whether a thread of this process has panicked.
pub(crate) fn happened() -> bool {
    HAPPENED.load(Ordering::SeqCst)
}

/// The error after a panic, which has been reported already.
pub(crate) fn error() -> Error {
    Error::new(
        Kind::Bug,
        "aynig failed because of a bug in it; the line with `panicked at` says where",
    )
    .hint(
        "`aynig status --all` shows the branches: a `stalled` one names the work that was saved; one that is still \
         `working` is closed, and its work saved, by the first `aynig run` here after its lease has ended",
    )
    .hint("run again; if it fails again, report it with the lines above and what `aynig --version` says")
}
