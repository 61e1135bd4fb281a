//! Leashed commands: nothing that they started outlives them.

use std::io::Read;
use std::os::fd::OwnedFd;

use uuid::Uuid;

use super::super::finished::Leftover;
use super::*;
use crate::session::processes;

const MARK: &str = "AYNIG_TEST_TURN";
const SHORT: Duration = Duration::from_millis(50);

/// Leaves a daemon in a session of its own, without a parent, that the command does not wait for.
const DAEMON: &str = "setsid sh -c 'sleep 600 & echo $! > left'";

fn leashed(spec: Spec) -> Spec {
    Spec { leash: Some(Leash::new(MARK, Uuid::new_v4())), ..spec }
}

fn names(left: &[Leftover]) -> Vec<&str> {
    left.iter().map(|left| left.name.as_str()).collect()
}

/// Whether a process has this text in its environment.
fn any_has(text: &str) -> bool {
    let has = |pid: &i32| {
        let found = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        String::from_utf8_lossy(&found).contains(text)
    };
    processes().unwrap().iter().any(has)
}

#[test]
fn what_leaves_nothing_ends_as_ever() {
    let scratch = Scratch::new();
    for code in [0, 7] {
        let finished = run_alone(leashed(scratch.script(&format!("exit {code}"))));
        assert!(matches!(finished.how, How::Exited(seen) if seen == code), "{finished:?}");
        assert!(finished.ended.is_empty() && finished.stuck.is_empty(), "{finished:?}");
    }
    let finished = run_alone(leashed(scratch.script("kill -9 $$; sleep 600")));
    assert!(matches!(finished.how, How::Signalled(9)), "{finished:?}");
    assert!(why(run_alone(leashed(scratch.spec("/nonexistent/x", &[])))).ends_with("there is no such file"));
}

#[test]
fn it_leads_a_session_with_the_marker_in_its_environment() {
    let scratch = Scratch::new();
    let mark = Uuid::new_v4();
    let script = format!("echo ${MARK}; cut -d' ' -f1,5,6 /proc/$$/stat; echo $PPID > keeper");
    let spec = Spec { leash: Some(Leash::new(MARK, mark)), ..scratch.script(&script) };
    assert!(matches!(run_alone(spec).how, How::Exited(0)));
    let stdout = scratch.read("stdout");
    let (seen, place) = stdout.trim().split_once('\n').unwrap();
    let place: Vec<&str> = place.split(' ').collect();
    assert_eq!(seen, mark.to_string());
    assert!(place.iter().all(|number| *number == place[0]), "{place:?}");
    until("the keeper to be reaped", || state(scratch.pid("keeper")).is_none());
}

/// CONTRACT 10.9
#[test]
fn a_daemon_ends_after_every_exit() {
    for code in [0, 1] {
        let scratch = Scratch::new();
        let finished = run_alone(leashed(scratch.script(&format!("{DAEMON}; exit {code}"))));
        assert!(matches!(finished.how, How::Exited(seen) if seen == code), "{finished:?}");
        assert!(finished.elapsed < DEADLINE && gone(scratch.pid("left")));
        assert_eq!(names(&finished.ended), ["sleep"]);
        assert_eq!(finished.ended[0].pid, scratch.pid("left"));
    }
}

#[test]
fn a_daemon_ends_after_a_stop_a_time_limit_and_a_panic() {
    let scratch = Scratch::new();
    let script = format!("{DAEMON}; echo $$ > ready; sleep 600");
    let finished = run_until_ready(&scratch, leashed(scratch.script(&script)), |stop, _| stop.request(15));
    assert!(matches!(finished.how, How::Stopped(StopCause::Signal(15))), "{finished:?}");
    assert!(gone(scratch.pid("left")));

    let scratch = Scratch::new();
    let spec = Spec { timeout: Some(Duration::from_millis(500)), ..leashed(scratch.script(&script)) };
    let finished = run_alone(spec);
    assert!(matches!(finished.how, How::Stopped(StopCause::TimedOut(_))), "{finished:?}");
    assert!(gone(scratch.pid("left")));

    let scratch = Scratch::new();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        run(leashed(scratch.script(&script)), &Stop::manual(), || {
            scratch.pid("ready");
            panic!("as the test wants it")
        })
    }));
    assert!(outcome.is_err() && gone(scratch.pid("left")) && gone(scratch.pid("ready")));
}

#[test]
fn what_is_deaf_stopped_or_without_the_marker_ends_too() {
    let inner = [
        ("trap '' TERM; echo $$ > left; while :; do sleep 1; done", "sh"),
        ("echo $$ > left; kill -STOP $$; sleep 600", "sh"),
        ("echo $$ > left; exec env -i sleep 600", "sleep"),
    ];
    for (inner, name) in inner {
        let scratch = Scratch::new();
        crate::fsutil::replace(&scratch.path("inner"), inner.as_bytes()).unwrap();
        let is_there = format!("test \"$(cat /proc/$(cat left)/comm)\" = {name}");
        let script = format!(
            "env -i PATH=\"$PATH\" setsid sh inner & {{ until {is_there}; do :; done; }} 2> /dev/null; exit 0"
        );
        let finished = run_alone(Spec { grace: SHORT, ..leashed(scratch.script(&script)) });
        assert!(matches!(finished.how, How::Exited(0)), "{inner}: {finished:?}");
        assert!(gone(scratch.pid("left")), "{inner}");
        assert!(names(&finished.ended).contains(&name), "{inner}: {finished:?}");
        assert!(finished.stuck.is_empty());
    }
}

/// CONTRACT 10.9
#[test]
fn what_ends_by_itself_in_a_moment_is_not_ended() {
    let scratch = Scratch::new();
    // It sees the end of the pipe, like a server for tools.
    let finished = run_alone(leashed(scratch.script("sleep 0.02 | { setsid sh -c 'cat; echo > seen' & }")));
    assert!(matches!(finished.how, How::Exited(0)) && finished.ended.is_empty(), "{finished:?}");
    assert!(scratch.path("seen").exists());
}

/// Processes that fork, begin a session and exit, over and over, so that no list has them.
#[test]
fn what_forks_without_end_ends() {
    let scratch = Scratch::new();
    let hop = scratch.path("hop");
    // It ends with this process, too, if that is killed.
    let text = format!(
        "kill -0 {} || exit\necho x >> hops\nenv -i PATH=\"$PATH\" setsid sh hop & exit 0\n",
        std::process::id()
    );
    crate::fsutil::replace(&hop, text.as_bytes()).unwrap();
    let script = "for i in 1 2 3 4 5; do setsid sh hop & done
        until test $(wc -l < hops) -gt 50; do sleep 0.01; done; exit 0";
    crate::fsutil::replace(&scratch.path("hops"), b"").unwrap();
    let finished = run_alone(Spec { grace: SHORT, ..leashed(scratch.script(script)) });
    // The script is gone, and so ends what a failure of this test would leave.
    fs::remove_file(&hop).unwrap();
    let hops = fs::read(scratch.path("hops")).unwrap().len();
    assert!(matches!(finished.how, How::Exited(0)) && finished.stuck.is_empty(), "{finished:?}");
    let works_there = processes()
        .unwrap()
        .into_iter()
        .any(|pid| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == scratch.home));
    assert!(!works_there && hops == fs::read(scratch.path("hops")).unwrap().len());
}

#[test]
fn an_orphan_that_has_ended_is_reaped_while_the_command_runs() {
    let scratch = Scratch::new();
    let script =
        "sh -c 'sleep 0.05 & echo $! > left'; while kill -0 $(cat left); do sleep 0.01; done; exit 0";
    let spec = Spec { timeout: Some(DEADLINE), ..leashed(scratch.script(script)) };
    let finished = run_alone(spec);
    assert!(matches!(finished.how, How::Exited(0)) && finished.ended.is_empty(), "{finished:?}");
}

/// CONTRACT 10.9
#[test]
fn a_marked_process_elsewhere_ends_and_others_of_ours_live() {
    let scratch = Scratch::new();
    let (mark, other) = (Uuid::new_v4(), Uuid::new_v4());
    let start = |mark: Uuid| {
        let marked = duct::cmd!("sleep", "600").env(MARK, mark.to_string());
        marked.stdin_null().unchecked().start().unwrap()
    };
    let mut started = None;
    let spec = Spec { leash: Some(Leash::new(MARK, mark)), ..scratch.script("echo $$ > ready; cat fifo") };
    nix::unistd::mkfifo(&scratch.path("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let finished = run_until_ready(&scratch, spec, |_, _| {
        started = Some((start(mark), start(other)));
        // Orphans of this process' own are nobody's business.
        let orphan = "setsid sleep 600 >/dev/null 2>&1 & echo $! > mine";
        let mine = duct::cmd!("sh", "-c", orphan).dir(&scratch.home);
        assert!(mine.run().unwrap().status.success());
        drop(File::options().write(true).open(scratch.path("fifo")).unwrap());
    });
    let (marked, unmarked) = started.unwrap();
    assert!(matches!(finished.how, How::Exited(0)), "{finished:?}");
    assert_eq!(finished.ended.iter().map(|left| left.pid).collect::<Vec<_>>(), [pid_of(&marked)]);
    marked.wait().unwrap();
    let lives = [pid_of(&unmarked), scratch.pid("mine")].map(|pid| !gone(pid));
    kill(Pid::from_raw(scratch.pid("mine")), Signal::SIGKILL).unwrap();
    unmarked.kill().unwrap();
    unmarked.wait().unwrap();
    assert_eq!(lives, [true, true]);
}

#[test]
fn a_command_that_kills_its_keeper_gains_nothing() {
    let scratch = Scratch::new();
    let finished = run_alone(leashed(scratch.script(&format!("{DAEMON}; kill -9 $PPID; sleep 600"))));
    assert!(matches!(finished.how, How::Lost(_)), "{finished:?}");
    assert!(gone(scratch.pid("left")));
    let finished = run_alone(leashed(scratch.script("kill -15 $PPID; kill -1 $PPID; exit 3")));
    assert!(matches!(finished.how, How::Exited(3)), "{finished:?}");
}

#[test]
fn no_keeper_holds_a_stream_open() {
    let scratch = Scratch::new();
    let (mut reader, writer) = pipe().unwrap();
    let spec = Spec {
        stdout: File::from(OwnedFd::from(writer)),
        ..leashed(scratch.script("echo out; exec >&-; echo $$ > ready; sleep 600"))
    };
    let mut text = String::new();
    let finished = run_until_ready(&scratch, spec, |stop, _| {
        reader.read_to_string(&mut text).unwrap();
        stop.call_off();
    });
    assert!(matches!(finished.how, How::Stopped(StopCause::CalledOff)), "{finished:?}");
    assert_eq!(text, "out\n");
}

#[test]
fn fifty_leashed_at_once() {
    let scratches: Vec<Scratch> = (0..50).map(|_| Scratch::new()).collect();
    thread::scope(|scope| {
        let jobs: Vec<_> = (0..)
            .zip(&scratches)
            .map(|(code, scratch)| {
                let spec = leashed(scratch.script(&format!("{DAEMON}; exit {code}")));
                (code, scope.spawn(move || run_alone(spec)))
            })
            .collect();
        for (code, job) in jobs {
            let finished = job.join().unwrap();
            assert!(matches!(finished.how, How::Exited(seen) if seen == code), "{finished:?}");
            assert_eq!(finished.ended.len(), 1);
        }
    });
    assert!(scratches.iter().all(|scratch| gone(scratch.pid("left"))));
}

#[test]
#[ignore = "body of a helper process"]
fn body_leashed_runner() {
    let Some(scratch) = Scratch::of_body() else { return };
    let (program, args) = body("body_watchdog", &scratch.home, &[]);
    let watchdog = Some(Watchdog::lazy(program, args));
    let leash = Some(Leash::new(MARK, scratch.read("mark").parse().unwrap()));
    let script = "for i in 1 2; do env -i PATH=\"$PATH\" setsid sh deaf $i & done
        (setsid sh -c 'echo $$ > left; exec sleep 600' &)
        until test -s left && test -s deaf1 && test -s deaf2; do :; done; echo $$ > ready; wait";
    let deaf = b"trap '' TERM; echo $$ > deaf$1; while :; do sleep 1; done\n";
    crate::fsutil::replace(&scratch.path("deaf"), deaf).unwrap();
    let finished = run_alone(Spec { watchdog, leash, ..scratch.script(script) });
    panic!("nobody killed us: {finished:?}");
}

/// CONTRACT 10.9
#[test]
fn a_killed_runner_leaves_nothing_of_a_leashed_command() {
    let scratch = Scratch::new();
    let mark = Uuid::new_v4().to_string();
    crate::fsutil::replace(&scratch.path("mark"), mark.as_bytes()).unwrap();
    let runner = helper("leash::body_leashed_runner", &scratch.home, &[]);
    let pids = ["ready", "left", "deaf1", "deaf2"].map(|name| scratch.pid(name));
    // The watchdog finds this one by the marker alone.
    let elsewhere = duct::cmd!("sleep", "600").env(MARK, &mark).stdin_null().unchecked().start().unwrap();
    kill(Pid::from_raw(pid_of(&runner)), Signal::SIGKILL).unwrap();
    for pid in pids {
        until("the end of the command and its daemons", || gone(pid));
    }
    elsewhere.wait().unwrap();
    runner.wait().unwrap();
    until("the end of all", || !any_has(&mark));
}
