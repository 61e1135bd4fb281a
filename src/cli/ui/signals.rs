//! Signals that come while a subcommand talks to a remote, or waits for a signature.
//!
//! Most subcommands just die of one. But a call of git that waits for somebody else, which is not in our process group, would go
//! on without us. So while one is under way a signal ends that call instead; the subcommand then says what is known, and
//! ends with 128 plus the signal's number.
//!
//! What is static here belongs to the process, as handlers of signals do: once they are installed nobody dies of a signal
//! unasked, so somebody has to listen until the process ends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use signal_hook::consts::SIGINT;
use signal_hook::low_level::emulate_default_handler;

use aynig::contract::ids::RemoteName;
use aynig::git::Repo;
use aynig::git::process::cancel::Interrupt;
use aynig::ops::authority;
use aynig::ops::error::Error;
use aynig::ops::settings;
use aynig::runner::authority::Authority;
use aynig::stop::{Cause, Stop, Subscription};

use crate::cli::exit::Exit;
use crate::cli::ui;
use crate::cli::ui::{FAINT, sanitize, styled};

/// Signals are this process's, so there is one of it.
static SHUTDOWN: OnceLock<Stop> = OnceLock::new();

/// Who answers signals here, besides what a subcommand does.
static ANSWERS: Mutex<Answers> = Mutex::new(Answers::Nobody);

enum Answers {
    Nobody,
    /// Calls of git are ended.
    Calls {
        _until_dropped: Subscription,
    },
    /// A subcommand has taken over, with the terminal.
    Subcommand,
}

/// After so long a person wonders.
const SILENCE: Duration = Duration::from_secs(2);

/// Whether a Ctrl-C is the pager's.
static PAGING: AtomicBool = AtomicBool::new(false);

/// What hears SIGINT, SIGTERM and SIGHUP; from now on nobody dies of them unasked.
pub(crate) fn shutdown() -> Result<Stop, Error> {
    if let Some(shutdown) = SHUTDOWN.get() {
        return Ok(shutdown.clone());
    }
    let shutdown = Stop::install().map_err(|error| Error::because("listen for signals", &error))?;
    Ok(SHUTDOWN.get_or_init(|| shutdown).clone())
}

/// Lets a signal end calls of git that wait for somebody else; where none is, and at a second one, we die of it.
pub(crate) fn end_calls(repo: &Repo) -> Result<(), Error> {
    let interrupt = repo.interrupt().clone();
    let subscription = shutdown()?.subscribe(move |notice| {
        let Cause::Signal(signal) = notice.latest else { return };
        if signal == SIGINT && PAGING.load(Ordering::Relaxed) {
            return;
        }
        let idle = interrupt.is_idle();
        interrupt.end_all();
        if (idle || notice.signals > 1)
            && let Err(error) = emulate_default_handler(signal)
        {
            tracing::warn!(%error, signal, "cannot end by the signal");
        }
    });
    *answers() = Answers::Calls { _until_dropped: subscription };
    Ok(())
}

/// Who decides over the branch that is meant: the remote named, else the surrounding command's authority, else what the
/// checkout's HEAD says.
///
/// Where that is a remote, or signatures are made or checked, a signal ends the calls that wait for somebody else from now on.
pub(crate) fn authority(repo: &Repo, named: Option<&RemoteName>) -> Result<Authority, Error> {
    let authority = authority::for_branch(repo, named)?;
    // Where that cannot be read, nothing will be written.
    let checks = settings::require_signed(repo).unwrap_or(true);
    if authority.source().is_some() || checks || repo.signs().unwrap_or(true) {
        end_calls(repo)?;
        say_when_waiting(repo.interrupt(), &authority, ui::narrate);
    }
    Ok(authority)
}

/// Says once to a person at a terminal that a remote does not answer, when it has not for a while, by `say`; not once somebody else
/// listens to signals, whose terminal it is then.
pub(crate) fn say_when_waiting(
    interrupt: &Interrupt,
    authority: &Authority,
    say: impl Fn(&str) + Send + 'static,
) {
    let Some(remote) = authority.source().filter(|_| ui::somebody_listens()).cloned() else { return };
    let interrupt = interrupt.clone();
    std::thread::spawn(move || {
        interrupt.wait_busy(SILENCE);
        if !matches!(*answers(), Answers::Subcommand) {
            let words = format!("waiting for {remote}, which has not answered yet; Ctrl-C ends that");
            say(&styled(FAINT, sanitize(&words)));
        }
    });
}

/// Leaves signals to whoever listens from now on.
pub(crate) fn leave() {
    *answers() = Answers::Subcommand;
}

fn answers() -> MutexGuard<'static, Answers> {
    ANSWERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether from now on a Ctrl-C is for a pager.
pub(crate) fn leave_ctrl_c(to_pager: bool) {
    PAGING.store(to_pager, Ordering::Relaxed);
}

/// The exit code of a subcommand that failed with `exit`: that of the signal, if one came.
pub(crate) fn exit(exit: Exit) -> Exit {
    SHUTDOWN.get().and_then(Stop::cause).map_or(exit, Exit::from)
}
