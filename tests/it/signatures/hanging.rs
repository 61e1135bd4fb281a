//! Programs that sign or verify and never exit: they have a timeout, a signal stops them, and they leave no
//! process and no file.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::*;

/// A repository that signs with, and trusts, one key, through a program that hangs where a test wants it.
struct Scene {
    repo: Repo,
    known: Key,
    program: PathBuf,
}

/// The operation in which the program hangs.
const CHECKING: &str = r#"case " $* " in *" verify "*) hang;; esac"#;
const SIGNING: &str = r#"case " $* " in *" sign "*) hang;; esac"#;

impl Scene {
    fn new(commands: &[(&str, &str)], hangs: &str) -> Self {
        let (repo, known, _) = signing(commands);
        let program = repo.beside("slow-keygen");
        let hang = r#"hang() { [ -e "$ROOM/hangs" ] || return 0; sleep 86400 & echo "$$ $!" >>"$ROOM/pids"; wait; exit 1; }"#;
        let room = repo.beside("").display().to_string();
        let script = format!("#!/bin/sh\nROOM='{room}'\n{hang}\n{hangs}\nexec ssh-keygen \"$@\"\n");
        fs::write(&program, script).expect("a file");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("chmod");
        for (name, value) in [
            ("gpg.ssh.program", program.to_str().expect("text")),
            ("user.signingKey", known.private.to_str().expect("text")),
            ("commit.gpgSign", "true"),
        ] {
            repo.git(["config", name, value]);
        }
        fs::create_dir(repo.beside("tmp")).expect("a directory");
        // The test's own calls of `git log` must not hang.
        repo.git(["config", "log.showSignature", "false"]);
        Self { repo, known, program }
    }

    fn hang(&self) {
        fs::write(self.repo.beside("hangs"), "").expect("a file");
    }

    /// The process ids of the program while it hangs.
    fn pids(&self) -> Vec<i32> {
        let text = fs::read_to_string(self.repo.beside("pids")).unwrap_or_default();
        text.split_whitespace().map(|pid| pid.parse().expect("a process id")).collect()
    }

    fn start(&self, arguments: &[&str], limit: Option<&str>) -> Running {
        let mut command = self.repo.aynig_command();
        command.env("TMPDIR", self.repo.beside("tmp")).env("LOG_LEVEL", "info");
        if let Some(limit) = limit {
            command.env("AYNIG_SIGNATURE_SECONDS", limit);
        }
        command.args(arguments).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        Running::start(&mut command)
    }

    /// Sends a signal as soon as the program hangs. The runner must exit by it within this many seconds.
    fn ends_by(&self, running: Running, signal: Signal, seconds: u64) -> std::process::Output {
        let before = self.pids().len();
        if before == 0 {
            wait_until("the program to hang", || !self.pids().is_empty());
        }
        let start = Instant::now();
        running.signal(signal);
        let output = running.finish();
        assert!(start.elapsed() < Duration::from_secs(seconds), "{:?}: {}", start.elapsed(), told(&output));
        self.nothing_is_left();
        output
    }

    fn nothing_is_left(&self) {
        let left = self.pids();
        assert!(!left.is_empty(), "it has hung");
        wait_until("the processes to be gone", || !left.iter().any(|pid| is_alive(*pid)));
        let room = self.repo.beside("").display().to_string();
        let gits = || {
            let processes = fs::read_dir("/proc").expect("it is there").flatten();
            let lines = processes.filter_map(|process| fs::read(process.path().join("environ")).ok());
            lines.filter(|line| String::from_utf8_lossy(line).contains(&room)).count()
        };
        wait_until("each git to be gone", || gits() == 0);
        let drafts = fs::read_dir(self.repo.beside("tmp")).expect("a directory").flatten();
        let drafts: Vec<_> = drafts.map(|draft| draft.file_name()).collect();
        assert!(drafts.is_empty(), "git's drafts are left: {drafts:?}");
    }

    fn names_program_and_limit(&self, output: &std::process::Output, limit: &str) {
        let said = format!("{}{}", out(output), err(output));
        let line = said.lines().find(|line| line.contains(self.program.to_str().expect("text")));
        let line = line.unwrap_or_else(|| panic!("{}", told(output)));
        assert!(line.contains("gpg.ssh.program") && line.contains(limit), "{line}");
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for pid in self.pids() {
            nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), Signal::SIGKILL).ok();
        }
    }
}

const WORK: &str = r#"echo $AYNIG_BRANCH >>"$ROOM/ran"; next done"#;

#[test]
fn checking_has_a_limit() {
    let scene = Scene::new(&[("work", WORK)], CHECKING);
    let head = signed(&scene.repo, "task", &scene.known);
    scene.hang();
    let output = scene.start(&["run"], Some("1")).finish();
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    scene.names_program_and_limit(&output, "1 s");
    assert!(err(&output).contains("task: work was not run"), "{}", told(&output));
    assert_eq!(scene.repo.head("task"), head);
    scene.nothing_is_left();
    let status = scene.start(&["status", "--branch", "task"], Some("1")).finish();
    assert!(out(&status).contains("took longer than 1 s"), "{}", told(&status));
    scene.nothing_is_left();
}

#[test]
fn one_that_hangs_over_one_commit_does_not_stop_the_others() {
    let odd = r#"case " $* " in *" verify "*) cat >"$ROOM/in.$$"; grep -q odd "$ROOM/in.$$" && hang
        exec ssh-keygen "$@" <"$ROOM/in.$$";; esac"#;
    let scene = Scene::new(&[("work", WORK)], odd);
    for branch in ["a", "b", "odd-1", "c", "odd-2", "d"] {
        signed(&scene.repo, branch, &scene.known);
    }
    scene.hang();
    let output = scene.start(&["run"], Some("2")).finish();
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    for branch in ["odd-1", "odd-2"] {
        assert_eq!(scene.repo.state(branch), "work");
        assert!(err(&output).contains(&format!("{branch}: work was not run")), "{}", told(&output));
    }
    assert_eq!(scene.repo.noted_lines("ran"), ["a", "b", "c", "d"], "{}", told(&output));
    scene.nothing_is_left();
}

#[test]
fn one_signal_ends_checking() {
    for (signal, exit) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 130)] {
        let scene = Scene::new(&[("work", WORK)], CHECKING);
        for branch in ["a", "b", "c"] {
            signed(&scene.repo, branch, &scene.known);
        }
        scene.hang();
        let output = scene.ends_by(scene.start(&["run"], None), signal, 6);
        assert_eq!(output.status.code(), Some(exit), "{}", told(&output));
        assert!(!err(&output).contains("was not run"), "{}", told(&output));
        let status = scene.start(&["status", "--all"], None);
        let output = scene.ends_by(status, signal, 6);
        assert_ne!(output.status.code(), Some(0), "{}", told(&output));
    }
}

#[test]
fn a_program_that_is_deaf_is_ended_too() {
    let deaf = r#"case " $* " in *" verify "*) trap '' TERM INT; hang;; esac"#;
    let scene = Scene::new(&[("work", WORK)], deaf);
    signed(&scene.repo, "task", &scene.known);
    scene.hang();
    scene.ends_by(scene.start(&["run"], None), Signal::SIGTERM, 12);
}

#[test]
fn signing_a_claim_has_a_limit() {
    let scene = Scene::new(&[("work", WORK)], SIGNING);
    let head = signed(&scene.repo, "task", &scene.known);
    scene.hang();
    // The timeout is half of the lease; otherwise the lease would be over before the claim.
    let output = scene.start(&["run", "--lease-seconds", "4"], None).finish();
    assert_eq!(output.status.code(), Some(3), "{}", told(&output));
    scene.names_program_and_limit(&output, "2 s");
    assert!(err(&output).contains("could not claim task"), "{}", told(&output));
    assert_eq!(scene.repo.head("task"), head);
    scene.nothing_is_left();
    let output = scene.start(&["set-state", "--branch", "task", "--state", "x"], Some("1")).finish();
    assert_eq!(output.status.code(), Some(3), "{}", told(&output));
    scene.names_program_and_limit(&output, "1 s");
    assert_eq!(scene.repo.head("task"), head);
    scene.nothing_is_left();
}

#[test]
fn one_signal_ends_the_signing_of_claims() {
    let scene = Scene::new(&[("work", WORK)], SIGNING);
    for branch in ["a", "b", "c"] {
        signed(&scene.repo, branch, &scene.known);
    }
    scene.hang();
    let output = scene.ends_by(scene.start(&["run", "--jobs", "3"], None), Signal::SIGTERM, 6);
    assert_eq!(output.status.code(), Some(143), "{}", told(&output));
    assert_eq!(scene.repo.state("a"), "work");
}

#[test]
fn a_renewal_that_cannot_be_signed_costs_the_lease_and_says_so() {
    let scene = Scene::new(&[("work", "say here yes; await never")], SIGNING);
    signed(&scene.repo, "task", &scene.known);
    let running = scene.start(&["run", "--lease-seconds", "5"], Some("1"));
    scene.repo.said("here");
    scene.hang();
    let output = running.finish();
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    scene.names_program_and_limit(&output, "1 s");
    assert!(out(&output).contains("could not be renewed"), "{}", told(&output));
    scene.nothing_is_left();
}

#[test]
fn one_signal_ends_a_renewal_and_the_pass() {
    let scene = Scene::new(&[("work", "say here yes; await never")], SIGNING);
    signed(&scene.repo, "task", &scene.known);
    let running = scene.start(&["run", "--lease-seconds", "20", "--grace-seconds", "1"], None);
    scene.repo.said("here");
    scene.hang();
    let output = scene.ends_by(running, Signal::SIGTERM, 12);
    assert_eq!(output.status.code(), Some(143), "{}", told(&output));
}

#[test]
fn signing_a_result_has_a_limit_and_hears_a_signal() {
    for signal in [None, Some(Signal::SIGTERM)] {
        let scene = Scene::new(
            &[("work", r#"echo work >file; git add file; say here yes; await go; next done"#)],
            SIGNING,
        );
        signed(&scene.repo, "task", &scene.known);
        let arguments = ["run", "--grace-seconds", "1"];
        let running = scene.start(&arguments, signal.is_none().then_some("1"));
        scene.repo.said("here");
        scene.hang();
        scene.repo.release("go");
        let output = match signal {
            None => running.finish(),
            Some(signal) => scene.ends_by(running, signal, 14),
        };
        assert_eq!(output.status.code(), Some(if signal.is_some() { 143 } else { 1 }), "{}", told(&output));
        if signal.is_none() {
            scene.names_program_and_limit(&output, "1 s");
        }
        scene.nothing_is_left();
        // The work stays until commits can be signed again.
        assert_eq!(scene.repo.state("task"), "working");
        let place = scene.repo.path.join(".worktrees/task/file");
        assert_eq!(fs::read_to_string(place).expect("it is kept"), "work\n", "{}", told(&output));
    }
}

/// A command that outlives a signal.
const STUBBORN: &[(&str, &str)] = &[("work", "trap 'say termed yes' TERM; say here yes; await never")];

/// A run whose command is stubborn, after two signals.
fn signalled_twice(scene: &Scene) -> Running {
    signed(&scene.repo, "task", &scene.known);
    let running = scene.start(&["run", "--grace-seconds", "3600"], None);
    scene.repo.said("here");
    scene.hang();
    running.signal(Signal::SIGTERM);
    scene.repo.said("termed");
    running.signal(Signal::SIGTERM);
    running
}

/// CONTRACT 6.14, 10.5
#[test]
fn a_second_signal_does_not_end_the_signing_of_the_request() {
    let slow = r#"case " $* " in *" sign "*) [ ! -e "$ROOM/hangs" ] || sleep 1;; esac"#;
    let scene = Scene::new(STUBBORN, slow);
    let running = signalled_twice(&scene);
    let output = running.finish();
    assert_eq!(output.status.code(), Some(143), "{}", told(&output));
    assert_eq!(scene.repo.state("task"), "work", "{}", told(&output));
}

/// CONTRACT 10.5
#[test]
fn signing_after_a_second_signal_has_a_limit() {
    let scene = Scene::new(STUBBORN, SIGNING);
    let running = signalled_twice(&scene);
    let start = Instant::now();
    let output = running.finish();
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}: {}", start.elapsed(), told(&output));
    assert_eq!(output.status.code(), Some(143), "{}", told(&output));
    scene.nothing_is_left();
}
