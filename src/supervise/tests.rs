//! Supervision of real processes. Pure parts are tested in their own files.
//!
//! Nothing here sleeps to order events: [`until`] waits for a file or a process state, with a
//! deadline. Helper processes are this test binary, started again at one of the ignored `body_*`
//! tests.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Write, pipe};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use super::finished::Finished;
use super::group::{members, signal};
use super::*;
use crate::clock::Stopwatch;
use crate::stop::{Stop, contains, mask};

mod leash;

const LONG: Duration = Duration::from_secs(3600);
const DEADLINE: Duration = Duration::from_secs(60);
const BODY: &str = "AYNIG_TEST_BODY";

struct Scratch {
    home: PathBuf,
    _owned: Option<TempDir>,
}

impl Scratch {
    fn new() -> Self {
        let owned = tempfile::tempdir().unwrap();
        Self { home: owned.path().to_owned(), _owned: Some(owned) }
    }

    /// The directory of the test that started this helper process.
    fn of_body() -> Option<Self> {
        Some(Self { home: PathBuf::from(std::env::var_os(BODY)?), _owned: None })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn pid(&self, name: &str) -> i32 {
        let complete = || fs::read_to_string(self.path(name)).is_ok_and(|text| text.ends_with('\n'));
        until(name, complete);
        self.read(name).trim().parse().unwrap()
    }

    fn spec(&self, program: &str, args: &[&str]) -> Spec {
        Spec {
            program: PathBuf::from(program),
            args: args.iter().map(OsString::from).collect(),
            directory: self.home.clone(),
            environment: vec![("PATH".into(), std::env::var_os("PATH").unwrap())],
            stdin: None,
            stdout: File::create(self.path("stdout")).unwrap(),
            stderr: File::create(self.path("stderr")).unwrap(),
            grace: LONG,
            timeout: None,
            leash: None,
            watchdog: None,
            terminal: false,
        }
    }

    fn script(&self, script: &str) -> Spec {
        self.spec("/bin/sh", &["-c", script])
    }

    fn program(&self, text: &str, mode: u32) -> Spec {
        let path = self.path("program");
        let mut file = File::create(&path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file.set_permissions(fs::Permissions::from_mode(mode)).unwrap();
        self.spec(path.to_str().unwrap(), &[])
    }
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let watch = Stopwatch::start();
    while !condition() {
        assert!(watch.elapsed() < DEADLINE, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

fn state(pid: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Whether the process has released everything. A killed process is reported as a zombie once its
/// first thread has ended, so its threads are counted.
fn gone(pid: i32) -> bool {
    let threads = || std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    matches!(state(pid), None | Some('Z' | 'X')) && threads() <= 1
}

fn run_alone(spec: Spec) -> Finished {
    run(spec, &Stop::manual(), || {})
}

/// Runs the command on its own thread and calls `then` once it has written its process id to
/// `ready`.
fn run_until_ready(scratch: &Scratch, spec: Spec, then: impl FnOnce(&Stop, i32)) -> Finished {
    let shutdown = Stop::manual();
    thread::scope(|scope| {
        let job = scope.spawn(|| run(spec, &shutdown, || {}));
        then(&shutdown, scratch.pid("ready"));
        job.join().unwrap()
    })
}

fn why(finished: Finished) -> String {
    assert_eq!(finished.elapsed, Duration::ZERO);
    match finished.how {
        How::NotStarted(failure) => failure.to_string(),
        How::Exited(_) | How::Signalled(_) | How::Stopped(_) | How::Lost(_) => panic!("it started"),
    }
}

#[test]
fn exit_codes() {
    let scratch = Scratch::new();
    for code in [0, 1, 7, 255] {
        let finished = run_alone(scratch.script(&format!("exit {code}")));
        assert!(matches!(finished.how, How::Exited(seen) if seen == code), "{finished:?}");
    }
}

#[test]
fn death_by_signal() {
    let scratch = Scratch::new();
    for signal in [9, 15, 34] {
        let finished = run_alone(scratch.script(&format!("kill -{signal} $$; sleep 600")));
        assert!(matches!(finished.how, How::Signalled(seen) if seen == signal), "{finished:?}");
    }
}

#[test]
fn what_cannot_be_started_says_why() {
    let scratch = Scratch::new();
    assert!(why(run_alone(scratch.spec("/nonexistent/x", &[]))).ends_with("x: there is no such file"));
    assert!(why(run_alone(scratch.program("#!/bin/sh\n", 0o644))).contains("chmod +x"));
    let text = why(run_alone(scratch.program("#!/nonexistent/sh -e\n", 0o755)));
    assert!(text.ends_with("its interpreter /nonexistent/sh does not exist"), "{text}");
    assert!(why(run_alone(scratch.program("#!/bin/sh\r\n", 0o755))).contains("carriage return"));
    assert!(why(run_alone(scratch.spec("/", &[]))).contains("directory"));
    let nowhere = Spec { directory: scratch.path("none"), ..scratch.script("exit 0") };
    assert!(why(run_alone(nowhere)).contains("working directory"));
    let huge = Spec { args: vec!["x".repeat(4 << 20).into()], ..scratch.script("exit 0") };
    assert!(why(run_alone(huge)).contains("larger than the system allows"));
    let nul = Spec { environment: vec![("A".into(), "a\0b".into())], ..scratch.script("exit 0") };
    assert!(why(run_alone(nul)).contains("nul byte"));
}

#[test]
fn streams_directory_and_empty_stdin() {
    let scratch = Scratch::new();
    let finished = run_alone(scratch.script("pwd -P; cat; echo done; echo oops >&2"));
    assert!(matches!(finished.how, How::Exited(0)));
    let here = fs::canonicalize(&scratch.home).unwrap();
    assert_eq!(scratch.read("stdout"), format!("{}\ndone\n", here.display()));
    assert_eq!(scratch.read("stderr"), "oops\n");
}

#[test]
fn the_environment_is_exactly_the_given_one() {
    let scratch = Scratch::new();
    let environment = [("A", "1"), ("B", "two words"), ("A", "last")];
    let spec = Spec {
        environment: environment.map(|(name, value)| (name.into(), value.into())).to_vec(),
        ..scratch.spec("/usr/bin/env", &[])
    };
    assert!(matches!(run_alone(spec).how, How::Exited(0)));
    let seen = scratch.read("stdout");
    assert_eq!(seen.lines().collect::<BTreeSet<_>>(), BTreeSet::from(["A=last", "B=two words"]));
}

#[test]
fn signals_are_as_a_program_expects_them() {
    let scratch = Scratch::new();
    let spec = scratch.spec("/bin/cat", &["/proc/self/status"]);
    let finished = thread::scope(|scope| {
        let deaf = scope.spawn(|| {
            SigSet::all().thread_block().unwrap();
            run_alone(spec)
        });
        deaf.join().unwrap()
    });
    assert!(matches!(finished.how, How::Exited(0)));
    let (child, own) = (scratch.read("stdout"), fs::read_to_string("/proc/self/status").unwrap());
    assert_eq!(mask(&child, "SigBlk:"), Some(0));
    let (ignored, inherited) = (mask(&child, "SigIgn:").unwrap(), mask(&own, "SigIgn:").unwrap());
    assert!(!contains(ignored, 13), "SIGPIPE, which Rust ignores for itself");
    for signal in [1, 2, 15] {
        assert_eq!(contains(ignored, signal), contains(inherited, signal), "{signal}");
    }
}

/// CONTRACT 10.1
#[test]
fn it_leads_its_own_group() {
    let scratch = Scratch::new();
    drop(run_alone(scratch.spec("/bin/sh", &["-c", "cut -d' ' -f1,5 /proc/$$/stat"])));
    let stdout = scratch.read("stdout");
    let (own, group) = stdout.trim().split_once(' ').unwrap();
    assert_eq!(own, group);
}

/// CONTRACT 10.2
#[test]
fn what_it_leaves_behind_lives_on_after_exit_0() {
    let scratch = Scratch::new();
    let finished = run_alone(scratch.script("sleep 600 & echo $! > left; exit 0"));
    let left = scratch.pid("left");
    let alive = !gone(left);
    kill(Pid::from_raw(left), Signal::SIGKILL).unwrap();
    assert!(matches!(finished.how, How::Exited(0)));
    assert!(finished.elapsed < DEADLINE, "the open stream did not delay it");
    assert!(alive);
}

/// CONTRACT 10.2
#[test]
fn what_it_leaves_behind_ends_after_a_failure() {
    let scratch = Scratch::new();
    let finished = run_alone(scratch.script("sleep 600 & echo $! > left; exit 1"));
    assert!(matches!(finished.how, How::Exited(1)), "{finished:?}");
    assert!(gone(scratch.pid("left")));

    let script = "(trap '' TERM; echo x > deaf; sleep 600) & echo $! > left
        until test -s deaf; do :; done; kill -9 $$";
    let spec = Spec { grace: Duration::from_millis(50), ..scratch.script(script) };
    fs::remove_file(scratch.path("left")).unwrap();
    let finished = run_alone(spec);
    assert!(matches!(finished.how, How::Signalled(9)), "{finished:?}");
    assert!(gone(scratch.pid("left")), "SIGKILL after the grace");
}

#[test]
fn a_stop_reaches_grandchildren() {
    let scratch = Scratch::new();
    let script = "sh -c 'sleep 600 & echo $! > deep; wait' & wait_for() { until test -s deep; do :; done; }
        wait_for; echo $$ > ready; wait";
    let finished = run_until_ready(&scratch, scratch.script(script), |shutdown, _| shutdown.request(15));
    assert!(matches!(finished.how, How::Stopped(StopCause::Signal(15))), "{finished:?}");
    assert!(gone(scratch.pid("deep")));
}

#[test]
fn deaf_to_term_means_killed_after_the_grace() {
    let scratch = Scratch::new();
    let grace = Duration::from_millis(100);
    let script = "trap '' TERM; echo $$ > ready; while :; do sleep 600; done";
    let spec = Spec { grace, ..scratch.script(script) };
    let finished = run_until_ready(&scratch, spec, |shutdown, _| shutdown.request(2));
    assert!(matches!(finished.how, How::Stopped(StopCause::Signal(2))), "{finished:?}");
    assert!(finished.elapsed >= grace);
}

#[test]
fn a_second_signal_kills_at_once() {
    let scratch = Scratch::new();
    let script = "trap 'echo x > termed' TERM; echo $$ > ready; while :; do sleep 0.01; done";
    let finished = run_until_ready(&scratch, scratch.script(script), |shutdown, _| {
        shutdown.request(2);
        until("the first signal", || scratch.path("termed").exists());
        shutdown.request(15);
    });
    assert!(matches!(finished.how, How::Stopped(StopCause::Signal(2))), "{finished:?}");
}

#[test]
fn exiting_0_when_told_to_stop_is_still_stopped() {
    let scratch = Scratch::new();
    let script = "trap 'exit 0' TERM; echo $$ > ready; while :; do sleep 0.01; done";
    let finished = run_until_ready(&scratch, scratch.script(script), |shutdown, _| shutdown.request(15));
    assert!(matches!(finished.how, How::Stopped(StopCause::Signal(15))), "{finished:?}");
}

#[test]
fn a_stopped_process_hears_the_term_too() {
    let scratch = Scratch::new();
    let finished = run_until_ready(
        &scratch,
        scratch.script("echo $$ > ready; kill -STOP $$; sleep 600"),
        |shutdown, pid| {
            until("a stopped process", || state(pid) == Some('T'));
            shutdown.request(15);
        },
    );
    assert!(matches!(finished.how, How::Stopped(StopCause::Signal(15))), "{finished:?}");
}

/// CONTRACT 10.6
#[test]
fn too_long_is_stopped() {
    let scratch = Scratch::new();
    let bound = Duration::from_millis(50);
    let finished = run_alone(Spec { timeout: Some(bound), ..scratch.script("sleep 600") });
    assert!(matches!(finished.how, How::Stopped(StopCause::TimedOut(seen)) if seen == bound), "{finished:?}");
    assert!(finished.elapsed >= bound);
}

#[test]
fn nothing_is_started_once_a_stop_is_requested() {
    let scratch = Scratch::new();
    let shutdown = Stop::manual();
    shutdown.request(1);
    let finished = run(scratch.script("echo x > ran"), &shutdown, || {});
    assert!(matches!(finished.how, How::Stopped(StopCause::Signal(1))), "{finished:?}");
    assert!(!scratch.path("ran").exists());
}

#[test]
fn what_is_called_off_is_stopped() {
    let scratch = Scratch::new();
    let stop = Stop::manual();
    let (part, _hears) = stop.child();
    let finished = thread::scope(|scope| {
        let job = scope.spawn(|| run(scratch.script("echo $$ > ready; sleep 600"), &part, || {}));
        scratch.pid("ready");
        part.call_off();
        job.join().unwrap()
    });
    assert!(matches!(finished.how, How::Stopped(StopCause::CalledOff)), "{finished:?}");
    assert_eq!(stop.cause(), None);
}

#[test]
fn a_panic_of_the_callers_leaves_no_command() {
    let scratch = Scratch::new();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        run(scratch.script("echo $$ > ready; sleep 600"), &Stop::manual(), || {
            scratch.pid("ready");
            panic!("as the test wants it")
        })
    }));
    assert!(outcome.is_err());
    until("the command's end", || gone(scratch.pid("ready")));
}

#[test]
fn fifty_at_once() {
    let scratches: Vec<Scratch> = (0..50).map(|_| Scratch::new()).collect();
    thread::scope(|scope| {
        let jobs: Vec<_> = (0..)
            .zip(&scratches)
            .map(|(code, scratch)| {
                (code, scope.spawn(move || run_alone(scratch.script(&format!("echo {code}; exit {code}")))))
            })
            .collect();
        for (code, job) in jobs {
            let finished = job.join().unwrap();
            assert!(matches!(finished.how, How::Exited(seen) if seen == code), "{finished:?}");
        }
    });
    for (code, scratch) in scratches.iter().enumerate() {
        assert_eq!(scratch.read("stdout"), format!("{code}\n"));
    }
}

#[test]
fn fifty_stopped_at_once() {
    let scratches: Vec<Scratch> = (0..50).map(|_| Scratch::new()).collect();
    let shutdown = Stop::manual();
    thread::scope(|scope| {
        let jobs: Vec<_> = scratches
            .iter()
            .map(|scratch| {
                let spec = scratch.script("sleep 600 & echo $$ > ready; wait");
                let shutdown = &shutdown;
                scope.spawn(move || run(spec, shutdown, || {}))
            })
            .collect();
        for scratch in &scratches {
            scratch.pid("ready");
        }
        shutdown.request(15);
        for job in jobs {
            let finished = job.join().unwrap();
            assert!(matches!(finished.how, How::Stopped(StopCause::Signal(15))), "{finished:?}");
        }
    });
}

// ---- helper processes: this binary again ----

fn body(name: &str, scratch: &Path, more: &[&str]) -> (PathBuf, Vec<OsString>) {
    let module = module_path!().split_once("::").expect("a module of a crate").1;
    let mut args: Vec<OsString> = more.iter().map(OsString::from).collect();
    args.push(format!("{BODY}={}", scratch.display()).into());
    args.push(std::env::current_exe().unwrap().into());
    args.push(format!("{module}::{name}").into());
    args.extend(["--exact", "--ignored", "--nocapture", "--test-threads=1"].map(OsString::from));
    (PathBuf::from("/usr/bin/env"), args)
}

fn helper(name: &str, scratch: &Path, more: &[&str]) -> duct::Handle {
    let (program, args) = body(name, scratch, more);
    let quiet = duct::cmd(program, args).stdin_null().stdout_null().stderr_null().unchecked();
    quiet.start().unwrap()
}

fn pid_of(handle: &duct::Handle) -> i32 {
    i32::try_from(handle.pids()[0]).unwrap()
}

fn group_of_its_own(script: &str) -> duct::Handle {
    let leader = duct::cmd!("/bin/sh", "-c", script).stdin_null().stdout_null().unchecked();
    let leader = leader.before_spawn(|command| {
        command.process_group(0);
        Ok(())
    });
    leader.start().unwrap()
}

fn catches(pid: i32, signal: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/status"))
        .ok()
        .and_then(|status| mask(&status, "SigCgt:"))
        .is_some_and(|caught| contains(caught, signal))
}

#[test]
#[ignore = "body of a helper process"]
fn body_watchdog() {
    if std::env::var_os(BODY).is_some() {
        watchdog::serve(std::io::stdin().lock()).unwrap();
    }
}

#[test]
#[ignore = "body of a helper process"]
fn body_runner() {
    let Some(scratch) = Scratch::of_body() else { return };
    let (program, args) = body("body_watchdog", &scratch.home, &[]);
    let watchdog = std::env::var_os("AYNIG_TEST_WATCHDOG").map(|_| Watchdog::lazy(program, args));
    let spec = Spec { watchdog, ..scratch.script("sleep 600 & echo $! > left; echo $$ > ready; wait") };
    let finished = run_alone(spec);
    panic!("nobody killed us: {finished:?}");
}

#[test]
#[ignore = "body of a helper process"]
fn body_shutdown() {
    let Some(scratch) = Scratch::of_body() else { return };
    let shutdown = Stop::install().unwrap();
    crate::fsutil::replace(&scratch.path("ready"), b"0\n").unwrap();
    assert!(shutdown.wait(1, DEADLINE));
    let told = format!("{:?} {}", shutdown.cause(), shutdown.count());
    crate::fsutil::replace(&scratch.path("told"), told.as_bytes()).unwrap();
}

#[test]
fn signals_trip_the_switch() {
    for (number, signal) in [(1, Signal::SIGHUP), (2, Signal::SIGINT), (15, Signal::SIGTERM)] {
        let scratch = Scratch::new();
        // GNU env resets the signals this test was started with, such as nohup's ignored SIGHUP.
        let child = helper("body_shutdown", &scratch.home, &["--default-signal=HUP,INT,TERM"]);
        scratch.pid("ready");
        kill(Pid::from_raw(pid_of(&child)), signal).unwrap();
        assert!(child.wait().unwrap().status.success());
        assert_eq!(scratch.read("told"), format!("Some(Signal({number})) 1"));
    }
}

#[test]
fn what_was_ignored_stays_ignored() {
    let scratch = Scratch::new();
    let options = ["--default-signal=TERM", "--ignore-signal=HUP,INT"];
    let child = helper("body_shutdown", &scratch.home, &options);
    scratch.pid("ready");
    for signal in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM] {
        kill(Pid::from_raw(pid_of(&child)), signal).unwrap();
    }
    assert!(child.wait().unwrap().status.success());
    assert_eq!(scratch.read("told"), "Some(Signal(15)) 1");
}

#[test]
fn the_watchdog_kills_what_is_listed_when_the_pipe_ends() {
    let scratch = Scratch::new();
    let (program, args) = body("body_watchdog", &scratch.home, &[]);
    let (reader, mut writer) = pipe().unwrap();
    let quiet = duct::cmd(program, args).stdin_file(reader).stdout_null().stderr_null().unchecked();
    let dog = quiet.start().unwrap();
    drop(quiet);
    let (listed, unlisted) = (group_of_its_own("sleep 600 & wait"), group_of_its_own("sleep 600 & wait"));
    let (first, second) = (pid_of(&listed), pid_of(&unlisted));
    write!(writer, "+1 {first}\n+2 {second}\n-2\n").unwrap();
    until("deafness", || [1, 2, 3, 15].into_iter().all(|signal| catches(pid_of(&dog), signal)));
    for signal in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM] {
        kill(Pid::from_raw(pid_of(&dog)), signal).unwrap();
    }
    drop(writer);
    assert!(dog.wait().unwrap().status.success());
    listed.wait().unwrap();
    until("the listed group's end", || members(first).is_empty());
    let alive = !members(second).is_empty();
    signal(second, Signal::SIGKILL);
    unlisted.wait().unwrap();
    assert!(alive);
}

#[test]
fn a_killed_runner_leaves_nothing_running() {
    let scratch = Scratch::new();
    let runner = helper("body_runner", &scratch.home, &["AYNIG_TEST_WATCHDOG=1"]);
    let (command, left) = (scratch.pid("ready"), scratch.pid("left"));
    kill(Pid::from_raw(pid_of(&runner)), Signal::SIGKILL).unwrap();
    until("the command's end", || gone(command));
    until("the end of what it started", || gone(left));
    runner.wait().unwrap();
}

/// CONTRACT 10.1
#[cfg(target_os = "linux")]
#[test]
fn a_command_dies_with_its_runner_even_without_a_watchdog() {
    let scratch = Scratch::new();
    let runner = helper("body_runner", &scratch.home, &[]);
    let (command, left) = (scratch.pid("ready"), scratch.pid("left"));
    kill(Pid::from_raw(pid_of(&runner)), Signal::SIGKILL).unwrap();
    until("the command's end", || gone(command));
    runner.wait().unwrap();
    kill(Pid::from_raw(left), Signal::SIGKILL).unwrap();
}

#[test]
fn a_watchdog_comes_with_the_first_group_and_goes_with_the_last_handle() {
    let scratch = Scratch::new();
    let (program, args) = body("body_watchdog", &scratch.home, &[]);
    let watchdog = Watchdog::lazy(program, args);
    assert_eq!(watchdog.pid(), None);
    let spec = Spec { watchdog: Some(watchdog.clone()), ..scratch.script("sleep 600 & echo $! > left") };
    let finished = run_alone(spec);
    let (dog, left) = (watchdog.pid().expect("started"), scratch.pid("left"));
    assert!(matches!(finished.how, How::Exited(0)));
    drop(watchdog);
    let alive = !gone(left);
    kill(Pid::from_raw(left), Signal::SIGKILL).unwrap();
    assert!(alive, "what is left after exit 0 is not the watchdog's");
    assert!(gone(i32::try_from(dog).unwrap()));
}

#[test]
fn a_watchdog_that_died_is_replaced_and_told_everything() {
    let scratch = Scratch::new();
    let (program, args) = body("body_watchdog", &scratch.home, &[]);
    let watchdog = Watchdog::lazy(program, args);
    let early = group_of_its_own("sleep 600 & wait");
    let guard = watchdog.guard(None);
    guard.cover(pid_of(&early));
    let first = i32::try_from(watchdog.pid().unwrap()).unwrap();
    kill(Pid::from_raw(first), Signal::SIGKILL).unwrap();
    until("its end", || gone(first));
    let late = group_of_its_own("sleep 600 & wait");
    let second_guard = watchdog.guard(None);
    second_guard.cover(pid_of(&late));
    assert_ne!(watchdog.pid().map(i32::try_from), Some(Ok(first)));
    // Ends the pipe while both are still listed, as if the runner had been killed.
    std::mem::forget((guard, second_guard));
    watchdog.close_as_if_killed();
    until("both groups' end", || members(pid_of(&early)).is_empty() && members(pid_of(&late)).is_empty());
    early.wait().unwrap();
    late.wait().unwrap();
}
