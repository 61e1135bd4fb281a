//! Starts the command: its group, what it inherits, and a precise reason when it cannot be started.
//!
//! Invariants (CONTRACT 10.1): before it executes its first instruction, the command leads its own
//! process group and, unless it keeps our terminal, its own session. On Linux it dies with the
//! thread that started it. Its signal mask is empty, and it ignores only signals that were ignored
//! when the runner was started.

use std::fs;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{SigHandler, SigSet, Signal, signal};
use nix::unistd::{Pid, getpid, getppid};

use super::finished::NotStarted;
use super::spec::Spec;
use super::watchdog::Announcement;
use crate::session;

/// Starts the command. The calling thread must live as long as the command: on Linux its end kills
/// the command.
///
/// With an `announcement` the command enters the watchdog's list before it runs.
pub(crate) fn start(spec: Spec, announcement: Option<Announcement>) -> Result<duct::Handle, NotStarted> {
    let Spec { program, args, directory, environment, stdin, stdout, stderr, terminal, .. } = spec;
    let runner = getpid();
    let expression = duct::cmd(program.as_path(), args).full_env(environment).dir(directory.as_path());
    let expression = match stdin {
        Some(file) => expression.stdin_file(file),
        None => expression.stdin_null(),
    };
    let expression =
        expression.stdout_file(stdout).stderr_file(stderr).unchecked().before_spawn(move |command| {
            if terminal {
                command.process_group(0);
            } else {
                session::begin(command);
            }
            prepare(command, runner, announcement.clone());
            Ok(())
        });
    // ETXTBSY: a child forked by another thread may still hold a file just written open, until it
    // calls exec. Retry for a moment.
    let mut pauses = [5, 20, 80, 320].into_iter().map(Duration::from_millis);
    loop {
        match expression.start() {
            Ok(handle) => return Ok(handle),
            Err(source) => match pauses.next() {
                Some(pause) if source.kind() == ErrorKind::ExecutableFileBusy => thread::sleep(pause),
                Some(_) | None => {
                    let why = diagnose(&program, &directory, &source);
                    return Err(NotStarted { program, why, source });
                }
            },
        }
    }
}

#[expect(
    unsafe_code,
    reason = "pre_exec runs between fork and exec; its hook takes no lock or memory and makes only async-signal-safe calls"
)]
fn prepare(command: &mut Command, runner: Pid, announcement: Option<Announcement>) {
    // SAFETY: sigaction, pthread_sigmask, prctl, getppid, getpid, write and raise are
    // async-signal-safe, no handler is installed, and an error is made from a number.
    unsafe {
        command.pre_exec(move || {
            if let Some(announcement) = &announcement {
                signal(Signal::SIGPIPE, SigHandler::SigIgn)?;
                announcement.enlist_self();
            }
            signal(Signal::SIGPIPE, SigHandler::SigDfl)?;
            SigSet::empty().thread_set_mask()?;
            die_with(runner)
        });
    }
}

#[cfg(target_os = "linux")]
fn die_with(runner: Pid) -> io::Result<()> {
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    // A runner that died before that line no longer sends a signal.
    if getppid() != runner {
        nix::sys::signal::raise(Signal::SIGKILL)?;
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn die_with(runner: Pid) -> io::Result<()> {
    if getppid() != runner {
        nix::sys::signal::raise(Signal::SIGKILL)?;
    }
    Ok(())
}

// ENOENT stands for four different missing things and EACCES for as many; finds out which.
fn diagnose(program: &Path, directory: &Path, error: &io::Error) -> String {
    if !directory.is_dir() {
        return format!("its working directory {} is not there", directory.display());
    }
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOENT) => missing(program),
        Some(Errno::EACCES) => forbidden(program),
        Some(Errno::ENOEXEC) => {
            "it is neither a program for this machine nor a script with a `#!` line".to_owned()
        }
        Some(Errno::E2BIG) => "its arguments and environment are larger than the system allows".to_owned(),
        Some(Errno::ETXTBSY) => "a process still has it open for writing".to_owned(),
        Some(_) | None => error.to_string(),
    }
}

fn missing(program: &Path) -> String {
    if fs::symlink_metadata(program).is_err() {
        return "there is no such file".to_owned();
    }
    if fs::metadata(program).is_err() {
        return "it is a symbolic link to a file that does not exist".to_owned();
    }
    match interpreter(program) {
        Some(path) if path.to_string_lossy().ends_with('\r') => {
            "its `#!` line ends with a carriage return; save it with LF line endings".to_owned()
        }
        Some(path) => format!("its interpreter {} does not exist", path.display()),
        None => "the loader it needs does not exist; it was built for another system".to_owned(),
    }
}

fn forbidden(program: &Path) -> String {
    match fs::metadata(program) {
        Ok(found) if found.is_dir() => "it is a directory".to_owned(),
        Ok(found) if found.permissions().mode() & 0o111 == 0 => {
            format!("it is not executable; try `chmod +x {}`", program.display())
        }
        Ok(_) => match interpreter(program) {
            Some(path) => format!("permission denied for it or for its interpreter {}", path.display()),
            None => "permission denied; the file system may be mounted noexec".to_owned(),
        },
        Err(error) => error.to_string(),
    }
}

// The kernel reads no more than this of a first line either.
const LONGEST_FIRST_LINE: u64 = 256;

fn interpreter(program: &Path) -> Option<PathBuf> {
    let mut line = Vec::new();
    let file = fs::File::open(program).ok()?;
    BufReader::new(file.take(LONGEST_FIRST_LINE)).read_until(b'\n', &mut line).ok()?;
    interpreter_in(&line).map(|path| PathBuf::from(std::ffi::OsString::from_vec(path.to_vec())))
}

fn interpreter_in(first_line: &[u8]) -> Option<&[u8]> {
    first_line
        .strip_prefix(b"#!")?
        .split(|byte| matches!(byte, b' ' | b'\t' | b'\n'))
        .find(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpreters_in_first_lines() {
        let cases: [(&str, Option<&str>); 6] = [
            ("#!/bin/sh\n", Some("/bin/sh")),
            ("#! /usr/bin/env python3\n", Some("/usr/bin/env")),
            ("#!/bin/sh\r\n", Some("/bin/sh\r")),
            ("#!/bin/sh", Some("/bin/sh")),
            ("#!\n", None),
            ("echo hello\n", None),
        ];
        for (line, expected) in cases {
            assert_eq!(interpreter_in(line.as_bytes()), expected.map(str::as_bytes), "{line:?}");
        }
    }
}
