//! Starts a process without a copy of the runner's memory.
//!
//! `fork` copies the page tables, and afterwards every page that a thread of the runner writes to. That was a
//! third of the CPU time of a step. On Linux the child therefore borrows the memory until it calls exec, as
//! in posix_spawn(3), which has no parent-death signal.
//!
//! Invariant: between the start and exec the child allocates nothing, takes no lock and runs none of the
//! runner's signal handlers. The calling thread waits meanwhile; the others continue.

use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Mutex, PoisonError};

use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::{SigSet, SigmaskHow};
use nix::unistd::{Pid, chdir, dup2_stderr, dup2_stdin, dup2_stdout};

#[cfg(target_os = "linux")]
use super::keeper::Keeper;

/// Runs a text without a `#!` line (CONTRACT 2.8).
const SHELL: &CStr = c"/bin/sh";

/// Much more than the child needs before exec, bytes.
#[cfg(target_os = "linux")]
const STACK: usize = 64 * 1024;

/// The exit code of a child that could not call exec. It is never read.
#[cfg(target_os = "linux")]
const EXIT_BEFORE_EXEC: isize = 127;

/// The first signal reserved by the C library; lower ones are available to all.
const FIRST_REAL_TIME: libc::c_int = 32;

/// A process that this one started.
#[derive(Debug)]
pub(super) struct Process {
    pid: Pid,
    /// Its parent, if that is not this process.
    #[cfg(target_os = "linux")]
    keeper: Option<Keeper>,
    status: Mutex<Option<ExitStatus>>,
}

/// The program, arguments and environment of a new process.
#[derive(Debug)]
pub(super) struct Image {
    program: CString,
    /// The program's name first.
    args: Vec<CString>,
    environment: Vec<CString>,
    directory: CString,
    /// Stdin, stdout and stderr.
    streams: [File; 3],
}

impl Image {
    /// Fails if a name or a value contains a NUL byte.
    pub(super) fn new<'a>(
        program: &'a OsStr,
        args: impl Iterator<Item = &'a OsStr>,
        environment: impl Iterator<Item = (&'a OsStr, &'a OsStr)>,
        directory: &OsStr,
        streams: [File; 3],
    ) -> io::Result<Self> {
        let text = |text: &OsStr| CString::new(text.as_bytes());
        let pair = |(name, value): (&OsStr, &OsStr)| {
            CString::new([name.as_bytes(), b"=", value.as_bytes()].concat())
        };
        Ok(Self {
            program: text(program)?,
            args: std::iter::once(program).chain(args).map(text).collect::<Result<_, _>>()?,
            environment: environment.map(pair).collect::<Result<_, _>>()?,
            directory: text(directory)?,
            streams,
        })
    }

    /// Starts it; `prepare` runs in the child, right before exec.
    pub(super) fn start(&self, prepare: &dyn Fn() -> nix::Result<()>) -> io::Result<Process> {
        let (args, environment) = (pointers(&self.args), pointers(&self.environment));
        let mut by_shell = vec![SHELL.as_ptr(), self.program.as_ptr()];
        by_shell.extend(&args[1..]);
        let child = || {
            if let Err(errno) = self.settle_in().and_then(|()| prepare()) {
                return errno;
            }
            match exec(&self.program, &args, &environment) {
                Errno::ENOEXEC => exec(SHELL, &by_shell, &environment),
                errno => errno,
            }
        };
        // A handler of the runner must not run in the child, which may share what it changes.
        let mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
        let started = in_child(&child);
        mask.thread_set_mask()?;
        let (pid, failure) = started?;
        let process = Process {
            pid,
            #[cfg(target_os = "linux")]
            keeper: None,
            status: Mutex::default(),
        };
        match failure {
            None => Ok(process),
            Some(errno) => process.wait().and(Err(errno.into())),
        }
    }

    /// In the child: takes over the streams and the directory, and none of our signal handlers.
    fn settle_in(&self) -> nix::Result<()> {
        let [stdin, stdout, stderr] = &self.streams;
        dup2_stdin(stdin)?;
        dup2_stdout(stdout)?;
        dup2_stderr(stderr)?;
        chdir(self.directory.as_c_str())?;
        (1..FIRST_REAL_TIME).for_each(forget_handler);
        Ok(())
    }
}

/// Runs `child`, which returns only if it fails, in a new process. Returns that failure once the
/// child has called exec or exited.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "only clone(2) starts a process that borrows our memory")]
fn in_child(child: &dyn Fn() -> Errno) -> nix::Result<(Pid, Option<Errno>)> {
    use nix::sched::{CloneFlags, clone};

    let failure = std::cell::Cell::new(None);
    let fail = || {
        failure.set(Some(child()));
        EXIT_BEFORE_EXEC
    };
    let mut stack = vec![0; STACK];
    let flags = CloneFlags::CLONE_VM | CloneFlags::CLONE_VFORK;
    // SAFETY: this thread waits until the child has called exec or exited, so all that the child
    // borrows stays as it is. The child only makes system calls, on a stack of its own.
    let pid = unsafe { clone(Box::new(fail), &mut stack, flags, Some(libc::SIGCHLD)) }?;
    Ok((pid, failure.get()))
}

/// Runs `child`, which returns only if it fails, in a new process. Returns that failure once the
/// child has called exec or exited.
#[cfg(not(target_os = "linux"))]
#[expect(unsafe_code, reason = "the child of a fork only makes system calls")]
fn in_child(child: &dyn Fn() -> Errno) -> nix::Result<(Pid, Option<Errno>)> {
    use std::io::Read;

    let unsupported = |_| Errno::EMFILE;
    let (mut reader, writer) = io::pipe().map_err(unsupported)?;
    // SAFETY: the child allocates nothing and takes no lock.
    match unsafe { nix::unistd::fork() }? {
        nix::unistd::ForkResult::Child => {
            let number = io::Error::from(child()).raw_os_error().unwrap_or_default();
            let _told = nix::unistd::write(&writer, &number.to_ne_bytes());
            // SAFETY: it does not return, and runs nothing of the parent's.
            unsafe { libc::_exit(127) }
        }
        nix::unistd::ForkResult::Parent { child } => {
            drop(writer);
            let mut number = [0; 4];
            let failed = reader.read_exact(&mut number).is_ok();
            Ok((child, failed.then(|| Errno::from_raw(i32::from_ne_bytes(number)))))
        }
    }
}

fn pointers(texts: &[CString]) -> Vec<*const libc::c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
}

/// Returns only if it fails.
#[expect(unsafe_code, reason = "nix would allocate")]
fn exec(program: &CStr, args: &[*const libc::c_char], environment: &[*const libc::c_char]) -> Errno {
    // SAFETY: the arrays end with a null pointer, and they and their texts outlive the call.
    unsafe { libc::execve(program.as_ptr(), args.as_ptr(), environment.as_ptr()) };
    Errno::last()
}

/// Gives a signal that has a handler its default again; one that is ignored stays so.
#[expect(unsafe_code, reason = "nix cannot read what a signal does without changing it")]
fn forget_handler(signal: libc::c_int) {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: sigaction fills the struct, of which all zero is a valid value; no handler is installed.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        let mut action = action.assume_init();
        if action.sa_sigaction != libc::SIG_DFL && action.sa_sigaction != libc::SIG_IGN {
            action.sa_sigaction = libc::SIG_DFL;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

impl Process {
    /// A program that a keeper has started.
    #[cfg(target_os = "linux")]
    pub(super) fn kept(pid: Pid, keeper: Keeper) -> Self {
        Self { pid, keeper: Some(keeper), status: Mutex::default() }
    }

    /// Its process id.
    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// The process id of its keeper, if it has one.
    pub(super) fn keeper(&self) -> Option<i32> {
        #[cfg(target_os = "linux")]
        return self.keeper.as_ref().map(|keeper| keeper.pid().as_raw());
        #[cfg(not(target_os = "linux"))]
        None
    }

    /// Blocks until it has exited, and reaps it.
    #[expect(unsafe_code, reason = "nix takes the status apart, of which the standard library's is made")]
    pub(super) fn wait(&self) -> io::Result<ExitStatus> {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(status) = *status {
            return Ok(status);
        }
        #[cfg(target_os = "linux")]
        if let Some(keeper) = &self.keeper {
            return keeper.status().map(|ended| *status.insert(ended));
        }
        let mut raw = 0;
        // SAFETY: it writes to `raw` alone.
        while let Err(errno) = Errno::result(unsafe { libc::waitpid(self.pid.as_raw(), &raw mut raw, 0) }) {
            if errno != Errno::EINTR {
                return Err(errno.into());
            }
        }
        Ok(*status.insert(ExitStatus::from_raw(raw)))
    }
}
