//! Signals while a subcommand talks to a remote, or waits for a signature.
//!
//! Most subcommands simply die of a signal. But a git call that may wait is not in our process group, and
//! would outlive us. So during such a call a signal stops the call instead. The subcommand then reports what
//! is known, and exits with 128 plus the signal's number.
//!
//! Signal handlers are per process, and so is the state here. Once they are installed a signal no longer
//! kills the process, so a thread listens until it exits.

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

/// Handlers belong to the process, so there is one [`Stop`].
static SHUTDOWN: OnceLock<Stop> = OnceLock::new();

/// The current reaction to signals, besides that of a subcommand.
static ANSWERS: Mutex<Answers> = Mutex::new(Answers::Nobody);

enum Answers {
    Nobody,
    /// Git calls are stopped.
    Calls {
        _until_dropped: Subscription,
    },
    /// A subcommand handles signals, and uses the terminal.
    Subcommand,
}

/// After this time a person wonders what happens.
const SILENCE: Duration = Duration::from_secs(2);

/// Whether Ctrl-C is left to the pager.
static PAGING: AtomicBool = AtomicBool::new(false);

/// The [`Stop`] that receives SIGINT, SIGTERM and SIGHUP. From now on they no longer kill the process.
pub(crate) fn shutdown() -> Result<Stop, Error> {
    if let Some(shutdown) = SHUTDOWN.get() {
        return Ok(shutdown.clone());
    }
    let shutdown = Stop::install().map_err(|error| Error::because("listen for signals", &error))?;
    Ok(SHUTDOWN.get_or_init(|| shutdown).clone())
}

/// Lets a signal stop git calls that may wait. Without such a call, or at a second signal, the process dies
/// of it.
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

/// Determines the authority over the branch: the named remote, else the surrounding command's authority, else
/// the one that the checkout's HEAD names.
///
/// If it is a remote, or if commits are signed or checked, signals stop waiting git calls from now on.
pub(crate) fn authority(repo: &Repo, named: Option<&RemoteName>) -> Result<Authority, Error> {
    let authority = authority::for_branch(repo, named)?;
    // If it cannot be read, nothing will be written.
    let checks = settings::require_signed(repo).unwrap_or(true);
    if authority.source().is_some() || checks || repo.signs().unwrap_or(true) {
        end_calls(repo)?;
        say_when_waiting(repo.interrupt(), &authority, ui::remark);
    }
    Ok(authority)
}

/// Reports once, by `say`, that a remote has not answered for a while. Only on a terminal, and not after a
/// subcommand has taken over the signals and the terminal.
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

/// Leaves signals to the subcommand from now on.
pub(crate) fn leave() {
    *answers() = Answers::Subcommand;
}

fn answers() -> MutexGuard<'static, Answers> {
    ANSWERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets whether Ctrl-C is left to a pager.
pub(crate) fn leave_ctrl_c(to_pager: bool) {
    PAGING.store(to_pager, Ordering::Relaxed);
}

/// The exit code of a subcommand that failed with `exit`: the signal's, if there was one.
pub(crate) fn exit(exit: Exit) -> Exit {
    SHUTDOWN.get().and_then(Stop::cause).map_or(exit, Exit::from)
}
