//! The keeper: the parent of a leashed program, which its orphans become children of.
//!
//! A process that loses its parent becomes a child of its nearest living ancestor that is a child
//! subreaper (prctl(2)). The keeper is one, and has no other children. So the program's descendants
//! are those of the keeper, whatever session they moved to, and they are all gone when it exits. It
//! reaps them while it lives: a tool that waits for its daemon's end sees it. If this process were
//! the subreaper, it could not tell an orphan of the program from an orphan of its own gits.
//!
//! The keeper is a fork without exec. It starts the program, reports to its parent through a pipe,
//! and waits. If its parent ends it kills the program; the watchdog ends the rest.
//!
//! The program's process writes the first report itself, before it executes the program. A program
//! that kills its keeper at once is therefore never taken for one that was not started.
//!
//! Invariants: the keeper holds no file, no directory and no terminal of its parent's. It ignores
//! what is sent to it: only SIGKILL ends it before the last descendant has ended.

use std::convert::Infallible;
use std::io::{self, PipeReader, PipeWriter, Read};
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use nix::errno::Errno;
use nix::libc;
use nix::sys::prctl::{set_child_subreaper, set_pdeathsig};
use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, kill, signal};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{ForkResult, Pid, chdir, fork, getpid, getppid, setsid, write};

use super::watchdog::Announcement;

/// Sent to the keeper when the thread that started it ends.
const ORPHANED: Signal = Signal::SIGTERM;

/// The number of files to close where the system cannot close all at once (before Linux 5.9).
const FILES: libc::rlim_t = 65_536;

/// The report of a program that is executed. That of a failure is its error number below 0.
const STARTED: i32 = 0;

/// The parent's side of a keeper.
#[derive(Debug)]
pub(super) struct Keeper {
    pid: Pid,
    reports: PipeReader,
}

/// Starts the program, with the keeper's process id. The new process calls [`Report::begin`] last before
/// it executes the program.
type Launch<'a> = &'a dyn Fn(Pid, &Report) -> io::Result<Pid>;

/// The keeper's side of the pipe.
pub(super) struct Report(PipeWriter);

impl Report {
    /// Reports this process as the one that executes the program.
    pub(super) fn begin(&self) -> nix::Result<()> {
        self.write(getpid().as_raw())
    }

    /// Writes a number. Allocates nothing.
    fn write(&self, number: i32) -> nix::Result<()> {
        write(&self.0, &number.to_ne_bytes()).map(drop)
    }
}

/// Starts a keeper, which enlists itself by `announcement` and then calls `launch`. Returns the
/// program's process id.
#[expect(unsafe_code, reason = "the keeper is this process without its threads")]
pub(super) fn start(launch: Launch<'_>, announcement: Option<&Announcement>) -> io::Result<(Pid, Keeper)> {
    let (reports, report) = io::pipe()?;
    let report = Report(report);
    let runner = getpid();
    let mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    // SAFETY: the child runs no code but `keep`, which takes no lock of this program. The C library
    // keeps its allocator usable in a child of its fork().
    let forked = unsafe { fork() };
    if let Ok(ForkResult::Child) = forked {
        let Err(_) = keep(launch, announcement, runner, &report);
        // SAFETY: it does not return, and runs nothing of the parent's.
        unsafe { libc::_exit(0) }
    }
    mask.thread_set_mask()?;
    let Ok(ForkResult::Parent { child }) = forked else { return Err(io::Error::last_os_error()) };
    drop(report);
    let keeper = Keeper { pid: child, reports };
    // A process id, then the result of its exec; or that of a start which did not come so far.
    let first = keeper.read()?;
    let pid = Pid::from_raw(first);
    let result = if first > 0 { keeper.read() } else { Ok(first) };
    match result {
        // A failed read is a keeper that was killed since: reading the status fails as well.
        Ok(STARTED) | Err(_) => Ok((pid, keeper)),
        Ok(failure) => {
            // It exits now. Nothing is there to be read, which shows when it has.
            (&keeper.reports).read_to_end(&mut Vec::new())?;
            Err(io::Error::from_raw_os_error(failure.saturating_neg()))
        }
    }
}

impl Keeper {
    /// Its process id.
    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// Blocks until the program has exited. Fails if the keeper was killed. Call it once.
    pub(super) fn status(&self) -> io::Result<ExitStatus> {
        self.read().map(ExitStatus::from_raw)
    }

    fn read(&self) -> io::Result<i32> {
        let mut number = [0; 4];
        (&self.reports).read_exact(&mut number).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => io::Error::other("the process that kept it was killed"),
            _ => error,
        })?;
        Ok(i32::from_ne_bytes(number))
    }
}

impl Drop for Keeper {
    /// Reaps it if it has exited, which it does with the last descendant.
    fn drop(&mut self) {
        if let Err(error) = waitpid(self.pid, Some(WaitPidFlag::WNOHANG)) {
            tracing::debug!(pid = self.pid.as_raw(), %error, "a keeper could not be reaped");
        }
    }
}

/// The keeper's life; returns when it has nothing more to do.
fn keep(
    launch: Launch<'_>,
    announcement: Option<&Announcement>,
    runner: Pid,
    report: &Report,
) -> Result<Infallible, Errno> {
    let own = getpid();
    let program = settle_in().map_err(io::Error::from).and_then(|()| {
        if let Some(announcement) = announcement {
            announcement.enlist_self();
        }
        launch(own, report)
    });
    close_all_but(report.0.as_raw_fd());
    let result = match &program {
        Ok(_) => STARTED,
        Err(error) => error.raw_os_error().unwrap_or(libc::EIO).saturating_neg(),
    };
    // The parent may be gone, and be noticed below.
    let _told = report.write(result);
    let program = program.map_err(|_| Errno::ECHILD)?;
    let mut news = SigSet::empty();
    news.add(Signal::SIGCHLD);
    news.add(ORPHANED);
    let mut running = true;
    loop {
        let (pid, status) = reap()?;
        if pid == program {
            running = false;
            let _told = report.write(status);
        }
        if running && getppid() != runner {
            kill(program, Signal::SIGKILL)?;
        }
        if pid.as_raw() == 0 {
            news.wait()?;
        }
    }
}

/// All signals are blocked. A blocked signal waits, even one that does nothing by default.
#[expect(unsafe_code, reason = "changes what a signal does")]
fn settle_in() -> nix::Result<()> {
    setsid()?;
    chdir("/")?;
    set_child_subreaper(true)?;
    set_pdeathsig(ORPHANED)?;
    // While SIGCHLD is ignored the kernel reaps children itself.
    // SAFETY: no function is installed as a handler.
    unsafe { signal(Signal::SIGCHLD, SigHandler::SigDfl) }.map(drop)
}

/// The next child that has exited, with its raw status; process 0 if none has. Fails if there is no
/// child any more.
#[expect(unsafe_code, reason = "nix takes the status apart, of which the standard library's is made")]
fn reap() -> nix::Result<(Pid, i32)> {
    let mut status = 0;
    // SAFETY: it writes to `status` alone.
    let pid = Errno::result(unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) })?;
    Ok((Pid::from_raw(pid), status))
}

/// Closes all files but one: a pipe or lock that the keeper held would stay open for its life.
#[expect(unsafe_code, reason = "no owner of a file can close them all")]
fn close_all_but(kept: i32) {
    let ranges = [(0, kept - 1), (kept + 1, i32::MAX)];
    for (first, last) in ranges {
        // SAFETY: the keeper uses none of them again, and never returns to their owners.
        let closed = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        if closed != 0 && first <= last {
            let most = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE)
                .map_or(FILES, |(soft, _)| soft.min(FILES));
            for file in first..=last.min(i32::try_from(most).unwrap_or(last)) {
                // SAFETY: as above.
                unsafe { libc::close(file) };
            }
        }
    }
}
