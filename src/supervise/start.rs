//! Starts the command: its group, what it inherits, and a precise reason when it cannot be started.
//!
//! Invariants (CONTRACT 10.1): before it executes its first instruction, the command leads its own
//! process group and, unless it keeps our terminal, its own session. On Linux it dies with the
//! thread that started it, a leashed one by its keeper. Its signal mask is empty, and it ignores only signals that were ignored
//! when the runner was started.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{SigHandler, SigSet, Signal, signal};
use nix::unistd::{Pid, getpid, getppid, setpgid, setsid};

use super::finished::NotStarted;
#[cfg(target_os = "linux")]
use super::keeper;
use super::spawn::{Image, Process};
use super::spec::Spec;
use super::watchdog::Announcement;

/// Starts the command. The calling thread must live as long as the command: on Linux its end kills
/// the command.
///
/// With an `announcement` the command, or its keeper, enters the watchdog's list before it runs.
pub(super) fn start(spec: Spec, announcement: Option<&Announcement>) -> Result<Process, NotStarted> {
    let Spec { program, args, directory, environment, stdin, stdout, stderr, terminal, leash, .. } = spec;
    let mut environment: BTreeMap<OsString, OsString> = environment.into_iter().collect();
    if let Some(leash) = &leash {
        environment.insert(leash.name.into(), leash.value.clone().into());
    }
    let image = stdin.map_or_else(|| fs::File::open("/dev/null"), Ok).and_then(|stdin| {
        Image::new(
            program.as_os_str(),
            args.iter().map(OsString::as_os_str),
            environment.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str())),
            directory.as_os_str(),
            [stdin, stdout, stderr],
        )
    });
    let runner = getpid();
    let launch = |image: &Image| match leash {
        #[cfg(target_os = "linux")]
        Some(_) => {
            let below = |keeper, report: &keeper::Report| {
                let begin = || prepare(false, keeper, None).and_then(|()| report.begin());
                image.start(&begin).map(|process| process.pid())
            };
            keeper::start(&below, announcement).map(|(pid, keeper)| Process::kept(pid, keeper))
        }
        _ => image.start(&|| prepare(terminal && leash.is_none(), runner, announcement)),
    };
    // ETXTBSY: a child forked by another thread may still hold a file just written open, until it
    // calls exec. Retry for a moment.
    let mut pauses = [5, 20, 80, 320].into_iter().map(Duration::from_millis);
    let failed = |source: io::Error| {
        let why = diagnose(&program, &directory, &source);
        NotStarted { program: program.clone(), why, source }
    };
    let image = image.map_err(failed)?;
    loop {
        match (launch(&image), pauses.next()) {
            (Err(source), Some(pause)) if source.kind() == ErrorKind::ExecutableFileBusy => {
                thread::sleep(pause);
            }
            (started, _) => return started.map_err(failed),
        }
    }
}

/// Runs in the child, before exec: allocates nothing, takes no lock.
fn prepare(terminal: bool, runner: Pid, announcement: Option<&Announcement>) -> nix::Result<()> {
    if terminal {
        setpgid(Pid::from_raw(0), Pid::from_raw(0))?;
    } else {
        setsid()?;
    }
    if let Some(announcement) = announcement {
        handle_pipes(SigHandler::SigIgn)?;
        announcement.enlist_self();
    }
    handle_pipes(SigHandler::SigDfl)?;
    SigSet::empty().thread_set_mask()?;
    die_with(runner)
}

#[expect(unsafe_code, reason = "changes what a signal does, in the child alone")]
fn handle_pipes(handler: SigHandler) -> nix::Result<()> {
    // SAFETY: no function is installed as a handler.
    unsafe { signal(Signal::SIGPIPE, handler) }.map(drop)
}

fn die_with(runner: Pid) -> nix::Result<()> {
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    // A runner that died before that line no longer sends a signal.
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
