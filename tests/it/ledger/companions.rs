//! Refs that move with an operation: all or none, whoever dies when, and not for a holder that lost its lease.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command as Process, Output};

use aynig::contract::ids::{CommitId, RemoteName};
use aynig::git::RefChange;
use aynig::ledger::operate::{Ledger, here};
use aynig::ledger::{LedgerError, Place};
use aynig::model::ids::{OpId, RunId};
use nix::sys::signal::Signal;

use super::writers::clone;
use super::{Repo, assert_whole, chat, messages, op, open, run_with_node, writer};
use crate::scene::told;
use crate::support::{Running, wait_until};

const DRIVER: &str = "refs/heads/run/x/flow";
const WORK: &str = "refs/heads/work/x/flow";
const SLOT: &str = "refs/aynig/deferred/run/x/flow";
const GONE: &str = "refs/heads/run/x/old";

/// A change as a line for another process: name, old and new value, `-` for none.
fn line(name: &str, old: &str, new: &str) -> String {
    format!("{name} {old} {new}\n")
}

pub(super) fn read(line: &str) -> RefChange {
    let words: Vec<&str> = line.split(' ').collect();
    let [name, old, new] = words.as_slice() else { panic!("{line}") };
    RefChange {
        name: (*name).into(),
        expected: CommitId::parse_hex(old.as_bytes()),
        new: CommitId::parse_hex(new.as_bytes()),
    }
}

/// Makes a driver, a work branch and a branch that goes. Returns what an operation does with them and with a slot.
fn companions(repo: &Repo) -> String {
    let old = repo.head("main");
    let new = repo.git(["commit-tree", "main^{tree}", "-p", "main", "-m", "next\n\ndwp-state: next"]);
    for name in [DRIVER, WORK, GONE] {
        repo.git(["update-ref", name, &old]);
    }
    repo.git(["pack-refs", "--all"]);
    line(DRIVER, &old, &new) + &line(SLOT, "-", &new) + &line(GONE, &old, "-") + &line(WORK, &old, &new)
}

/// How many of the changes happened.
fn moved(repo: &Repo, beside: &str) -> usize {
    let now = repo.git(["for-each-ref", "--format=%(refname) %(objectname)"]);
    let happened = |change: &&str| {
        let words: Vec<&str> = change.split(' ').collect();
        match words[2] {
            "-" => !now.contains(words[0]),
            new => now.lines().any(|line| line == format!("{} {new}", words[0])),
        }
    };
    beside.lines().filter(happened).count()
}

/// A writer of one message that moves these refs with it.
fn process(repo: &Repo, run: RunId, beside: &str) -> Process {
    let mut process = writer(&repo.path, run, "w", 1);
    process.env("AYNIG_TEST_BESIDE", beside);
    process
}

fn killed(repo: &Repo, run: RunId, beside: &str, at: &str) {
    let output = process(repo, run, beside).env("AYNIG_CRASH_AT", at).output().expect("it starts");
    assert_eq!(output.status.signal(), Some(9), "{at}: {}", told(&output));
}

pub(super) fn locks(repo: &Repo) -> usize {
    let files = crate::support::files_below(&repo.path.join(".git"));
    files.iter().filter(|path| path.extension().is_some_and(|extension| extension == "lock")).count()
}

/// CONTRACT 5.28, 16.3
#[test]
fn refs_move_with_an_operation_or_not_at_all() {
    let repo = Repo::new();
    let store = open(&repo.path);
    let handle = store.handle();
    let (run, node) = run_with_node(&handle, &Place::Here);
    let beside = companions(&repo);
    let changes: Vec<RefChange> = beside.lines().map(read).collect();
    let mut ledger = Ledger::open(&handle, run).expect("a ledger");
    // One of them is elsewhere: nothing is written.
    repo.git(["update-ref", SLOT, "main"]);
    let before = repo.git(["for-each-ref"]);
    let refused = ledger.operate(&op(OpId::random()), &[chat(node, "x")], &changes).expect_err("a slot");
    assert!(matches!(&refused, LedgerError::Moved { name } if name == SLOT), "{refused}");
    assert_eq!(repo.git(["for-each-ref"]), before);
    repo.git(["update-ref", "-d", SLOT]);
    ledger.operate(&op(OpId::random()), &[chat(node, "x")], &changes).expect("an operation");
    assert_eq!((moved(&repo, &beside), messages(ledger.tip()).len()), (4, 1));
}

/// CONTRACT 5.24, 5.28, 16.2, 16.3
#[test]
fn an_operation_that_was_decided_is_finished_by_the_next_process() {
    let points =
        ["ref-locked", "refs-decided", "refs-half-moved:1", "refs-half-moved:3", "refs-half-moved:4"];
    // Who comes next: a reader of the ledger, a pass of a runner, the same writer again.
    for next in ["open", "run", "writer"] {
        for point in points {
            let repo = Repo::new();
            let store = open(&repo.path);
            let (run, _) = run_with_node(&store.handle(), &Place::Here);
            let beside = companions(&repo);
            killed(&repo, run, &beside, &point.replace(':', ":kill:"));
            assert!(locks(&repo) > 0, "{point}");
            match next {
                "open" => drop(Ledger::open(&store.handle(), run).expect("a ledger")),
                "run" => drop(repo.aynig(["run", "--branch", "none/*"])),
                _ => {
                    let output = process(&repo, run, &beside).output().expect("it starts");
                    assert!(output.status.success(), "{point}: {}", told(&output));
                }
            }
            let found = messages(&here(&store.handle(), run).expect("a ledger")).len();
            let decided = point != "ref-locked" || next == "writer";
            let wanted = if decided { (4, 1) } else { (0, 0) };
            assert_eq!(
                (moved(&repo, &beside), found, locks(&repo)),
                (wanted.0, wanted.1, 0),
                "{next} {point}"
            );
            if decided {
                assert_whole(&repo, run, &["w"], 1);
            }
            assert!(repo.git(["for-each-ref", WORK]).contains("refs/heads/work"), "{point}");
        }
    }
}

/// CONTRACT 5.28
#[test]
fn a_ref_that_somebody_moved_meanwhile_is_left_alone() {
    let repo = Repo::new();
    let store = open(&repo.path);
    let (run, _) = run_with_node(&store.handle(), &Place::Here);
    let beside = companions(&repo);
    killed(&repo, run, &beside, "refs-half-moved:kill:1");
    // As git's message about a lock proposes.
    std::fs::remove_file(repo.path.join(".git").join(format!("{DRIVER}.lock")))
        .expect("the lock of a dead process");
    let other = repo.git(["commit-tree", "main^{tree}", "-p", "main", "-m", "by hand"]);
    repo.git(["update-ref", DRIVER, &other]);
    drop(Ledger::open(&store.handle(), run).expect("a ledger"));
    assert_eq!((repo.head(DRIVER), moved(&repo, &beside), locks(&repo)), (other, 3, 0));
}

/// CONTRACT 5.28, 16.2, 16.3
#[test]
fn a_hub_moves_all_or_none() {
    for (point, landed) in [("ledger-written", false), ("ledger-pushed", true)] {
        let hub = Repo::new();
        let beside = companions(&hub);
        let clone = clone(&hub);
        clone.git(["fetch", "--quiet", "origin", "refs/heads/*:refs/theirs/*"]);
        let new = beside.split([' ', '\n']).nth(2).expect("a commit");
        clone.git_with_input(
            &["hash-object", "-t", "commit", "-w", "--stdin"],
            hub.git_command().args(["cat-file", "commit", new]).output().expect("git runs").stdout.as_slice(),
        );
        let store = open(&clone.path);
        let place = Place::Remote(RemoteName::parse("origin").expect("a name"));
        let (run, node) = run_with_node(&store.handle(), &place);
        // One of them is elsewhere: nothing lands.
        hub.git(["update-ref", SLOT, "main"]);
        let before = hub.git(["for-each-ref"]);
        let changes: Vec<RefChange> = beside.lines().map(read).collect();
        let handle = store.handle();
        let mut ledger = Ledger::open(&handle, run).expect("a ledger");
        let refused = ledger.operate(&op(OpId::random()), &[chat(node, "x")], &changes).expect_err("a slot");
        assert!(matches!(&refused, LedgerError::Moved { name } if name == SLOT), "{refused}");
        assert_eq!(hub.git(["for-each-ref"]), before);
        hub.git(["update-ref", "-d", SLOT]);
        killed(&clone, run, &beside, point);
        assert_eq!(moved(&hub, &beside), if landed { 4 } else { 0 }, "{point}");
        let output = process(&clone, run, &beside).output().expect("it starts");
        assert!(output.status.success(), "{point}: {}", told(&output));
        assert_eq!(moved(&hub, &beside), 4, "{point}");
        assert_whole(&hub, run, &["w"], 1);
        assert_whole(&clone, run, &["w"], 1);
    }
}

/// Waits until a process is stopped.
fn wait_for_stop(pid: i32) {
    wait_until("it to be stopped", || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'))
    });
}

/// CONTRACT 16.3
#[test]
fn a_holder_stopped_past_its_lease_writes_nothing_when_it_wakes() {
    for remote in [false, true] {
        let hub = Repo::scene(&[("work", "next done")]);
        hub.ready("run/x/flow", "work");
        let host = if remote { hub.clone_beside("clone") } else { hub };
        let more: &[&str] = if remote { &["--remote", "origin"] } else { &[] };
        let branch = "run/x/flow";
        host.aynig_ok([&["set-working", branch, "--lease-seconds", "1"], more].concat());
        let decides = || if remote { host.git(["ls-remote", "origin"]) } else { host.git(["show-ref"]) };
        let head = || {
            let refs = decides();
            let line = refs.lines().find(|line| line.ends_with(DRIVER)).expect("the driver").to_owned();
            line.split([' ', '\t']).next().expect("an id").to_owned()
        };
        let lease = head();
        let store = open(&host.path);
        let place =
            if remote { Place::Remote(RemoteName::parse("origin").expect("a name")) } else { Place::Here };
        let (run, _) = run_with_node(&store.handle(), &place);
        if remote {
            host.git(["fetch", "--quiet", "origin"]);
        }
        let ended = host.git([
            "commit-tree",
            &format!("{lease}^{{tree}}"),
            "-p",
            &lease,
            "-m",
            "ended\n\ndwp-state: done",
        ]);
        let mut holder = process(&host, run, &line(DRIVER, &lease, &ended));
        let holder = Running::start(holder.env("AYNIG_CRASH_AT", "ledger-written:stop"));
        wait_for_stop(holder.pid());
        // Somebody takes the lease over.
        let mut other = host.aynig_command();
        other.args([&["run", "--branch", branch, "--skew-seconds", "0"], more].concat());
        let output: Output = other.env("AYNIG_CLOCK_OFFSET_SECONDS", "60").output().expect("it runs");
        assert_ne!(head(), lease, "{}", told(&output));
        let before = decides();
        holder.signal(Signal::SIGCONT);
        let output = holder.finish();
        assert_eq!(output.status.code(), Some(101));
        let told = told(&output);
        assert!(
            told.contains("the lease on run/x/flow is lost") && told.contains("nothing was written"),
            "{told}"
        );
        assert_eq!(decides(), before);
        let known = here(&store.handle(), run).expect("a ledger");
        assert_eq!(messages(&known), Vec::<String>::new());
    }
}
