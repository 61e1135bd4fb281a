//! Processes that a command leaves running: a step ends with its command, survivors of a success live on, and
//! no worktree is removed while a process uses it.

use nix::sys::signal::Signal;

use super::scene::*;
use super::support::*;

/// A background process that keeps the command's streams open and stays in its worktree until released.
const SURVIVOR: &str = "( await release ) &\nsay survivor $!\n";

fn one(script: &str) -> Repo {
    let repo = Repo::scene(&[("work", script), ("review", "next done")]);
    repo.ready("task", "work");
    repo
}

/// CONTRACT 9.8, 10.2
#[test]
fn the_step_ends_with_the_command_not_with_its_output() {
    let repo = one(&format!("{SURVIVOR}next done"));
    let output = repo.aynig_ok(["run"]);
    let survivor = repo.said_pid("survivor");
    assert!(survivor.lives(), "exit 0 leaves it alone");
    assert_eq!(repo.state("task"), "done");
    let worktrees = repo.worktrees();
    assert_eq!(worktrees.len(), 1, "a process is in it");
    assert!(out(&output).contains(&format!("left in place: {}", worktrees[0])), "{}", told(&output));
    assert!(out(&output).contains(&survivor.0.to_string()), "{}", told(&output));

    repo.aynig_ok(["run"]);
    assert!(survivor.lives(), "a later pass leaves it alone too");
    assert_eq!(repo.worktrees(), worktrees);

    repo.release("release");
    survivor.gone();
    repo.deserted();
    repo.aynig_ok(["run"]);
    repo.assert_tidy();
    assert_eq!(repo.rescues(), Vec::<String>::new());
}

/// Since git 2.47 `git commit` leaves maintenance running in a session of its own.
///
/// CONTRACT 9.8
#[test]
fn a_git_that_is_about_to_end_is_waited_for() {
    let repo = one("head -c 60000000 /dev/zero >\"$ROOM/zeros\"\n\
         setsid git hash-object --stdin <\"$ROOM/zeros\" >/dev/null 2>&1 &\n\
         until [ \"$(cat /proc/$!/comm)\" = git ]; do :; done\n\
         next done");
    let output = repo.aynig_ok(["run"]);
    assert!(!out(&output).contains("left in place"), "{}", told(&output));
    assert_eq!(repo.state("task"), "done");
    repo.assert_tidy();
}

/// A process that waits for input may do so forever.
///
/// CONTRACT 9.8
#[test]
fn a_git_that_does_nothing_is_not_waited_for() {
    let repo = one("mkfifo \"$ROOM/input\"\n\
         setsid git cat-file --batch <>\"$ROOM/input\" >/dev/null 2>&1 &\n\
         say survivor $!\n\
         until [ \"$(cat /proc/$!/comm)\" = git ]; do :; done\n\
         next done");
    let output = repo.aynig_ok(["run"]);
    let survivor = repo.said_pid("survivor");
    assert!(out(&output).contains(&survivor.0.to_string()), "{}", told(&output));
    assert!(survivor.lives());
}

/// CONTRACT 4.11
#[test]
fn what_a_survivor_prints_after_the_exit_declares_nothing() {
    let repo = one("( await release; next wrong; say printed yes ) &\nsay survivor $!\nnext done");
    let runner = repo.aynig_start(["run"]);
    let survivor = repo.said_pid("survivor");
    let output = runner.finish();
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    repo.release("release");
    repo.said("printed");
    survivor.gone();
    repo.deserted();
    repo.aynig_ok(["run"]);
    assert_eq!(repo.state("task"), "done");
    repo.assert_tidy();
}

/// A chain of processes that fork and exit, so that a process list shows none of them, and that ignore SIGTERM.
/// CONTRACT 10.1
#[test]
fn a_chain_of_processes_does_not_outlive_a_killed_runner() {
    let script = "exec python3 -c '
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
room = sys.argv[1]
if os.fork() == 0:
    while os.path.isdir(room):
        if os.fork(): os._exit(0)
        with open(room + \"/.at\", \"w\") as file: file.write(str(os.getpid()))
        os.rename(room + \"/.at\", room + \"/at\")
        time.sleep(0.001)
    os._exit(0)
time.sleep(600)' \"$ROOM\"";
    let repo = one(script);
    let runner = repo.aynig_start(["run"]);
    let first = repo.said("at");
    runner.signal(Signal::SIGKILL);
    runner.finish();
    // The chain is broken when the same process stays the last one. Only repeated looks can show that.
    let last = wait_for("the chain to break", || {
        let last = repo.said("at");
        std::thread::park_timeout(std::time::Duration::from_millis(500));
        (repo.said("at") == last && !is_alive(last.parse().expect("a process id"))).then_some(last)
    });
    assert_ne!(first, last);
}

/// `timeout`, and a shell with job control, start processes in a group of their own.
/// CONTRACT 10.1, 10.2
#[test]
fn what_left_the_group_ends_with_it_all_the_same() {
    let away = "export ROOM; set -m; ( await release ) & set +m; say away $!
timeout 600 sh -c 'while [ -d \"$ROOM\" ]; do sleep 0.05; done' & say timed $!\n";
    for (end, signal, code) in [
        ("exit 1", None, Some(1)),
        ("say ready yes; wait", Some(Signal::SIGTERM), Some(143)),
        ("say ready yes; wait", Some(Signal::SIGKILL), None),
    ] {
        let repo = one(&format!("{away}{end}"));
        let runner = repo.aynig_start(["run"]);
        let left = ["away", "timed"].map(|name| repo.said_pid(name));
        if let Some(signal) = signal {
            repo.said("ready");
            runner.signal(signal);
        }
        let output = runner.finish();
        assert_eq!(output.status.code(), code, "{}", told(&output));
        for process in left {
            process.gone();
        }
    }
    // After exit 0 they live on, like all survivors.
    let repo = one(&format!("{away}next done"));
    repo.aynig_ok(["run"]);
    assert!(["away", "timed"].map(|name| repo.said_pid(name)).iter().all(Process::lives));
}

/// A killed git leaves locks of the whole repository; one that gets SIGTERM removes them.
/// CONTRACT 10.5
#[test]
fn a_git_of_a_killed_runners_command_leaves_no_lock() {
    let repo = one(
        "id=$(git rev-parse HEAD)
( echo start; echo create refs/heads/held $id; echo prepare; exec tail -f /dev/null ) | git update-ref --stdin & say git $!
await release",
    );
    let runner = repo.aynig_start(["run"]);
    let git = repo.said_pid("git");
    let lock = repo.path.join(".git/refs/heads/held.lock");
    wait_until("git to have the lock", || lock.exists());
    runner.signal(Signal::SIGKILL);
    runner.finish();
    git.gone();
    assert!(!lock.exists());
    repo.deserted();
}

/// A working `git` may finish before it gets a signal. Its parent is stopped meanwhile, so it starts nothing new.
/// CONTRACT 10.5
#[test]
fn a_git_at_work_comes_to_its_end() {
    // With `say` it would start `mv`, which is stopped like all that is no git, and never end.
    let git = "echo $$ >\"$ROOM/at\"
while [ -d \"$ROOM\" ] && read -r line </proc/$PPID/stat; do case $line in *') T '*) echo yes >\"$ROOM/stopped\"; exit;; esac; done";
    for (signal, code) in [(Signal::SIGTERM, Some(143)), (Signal::SIGKILL, None)] {
        let repo = one("( \"$ROOM/bin/git\"; say went on ); next done");
        repo.command("../bin/git", &repo.scripted(git));
        let runner = repo.aynig_start(["run"]);
        let at = repo.said_pid("at");
        runner.signal(signal);
        let output = runner.finish();
        assert_eq!(output.status.code(), code, "{}", told(&output));
        repo.said("stopped");
        at.gone();
        repo.deserted();
        assert!(!repo.beside("went").exists());
    }
}

/// A process that ignores SIGTERM is killed.
/// CONTRACT 10.1
#[test]
fn one_that_is_deaf_does_not_outlive_a_killed_runner() {
    let repo = one(
        "( trap 'say asked yes' TERM; say deaf $(exec sh -c 'echo $PPID'); while [ -d \"$ROOM\" ]; do sleep 0.05; done ) &
await release",
    );
    let runner = repo.aynig_start(["run"]);
    let deaf = repo.said_pid("deaf");
    runner.signal(Signal::SIGKILL);
    runner.finish();
    repo.said("asked");
    deaf.gone();
}

/// CONTRACT 10.2
#[test]
fn a_failed_command_takes_its_group_with_it() {
    let repo = one(
        "( ( await release ) & say grandchild $!; await release ) &\nsay child $!\nawait grandchild\nexit 1",
    );
    let output = repo.aynig(["run"]);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let (child, grandchild) = (repo.said_pid("child"), repo.said_pid("grandchild"));
    assert!(!child.lives() && !grandchild.lives(), "ended before the step was settled");
    assert_eq!(repo.state("task"), "stalled");
    repo.assert_tidy();
}

/// CONTRACT 10.2
#[test]
fn a_grandchild_of_a_success_lives_on() {
    let repo = one("( ( await release ) & say grandchild $! ) &\nawait grandchild\nnext done");
    repo.aynig_ok(["run"]);
    let grandchild = repo.said_pid("grandchild");
    assert!(grandchild.lives());
    assert_eq!(repo.state("task"), "done");
    repo.release("release");
    grandchild.gone();
    repo.deserted();
    repo.aynig_ok(["run"]);
    repo.assert_tidy();
}

/// Leaves the process group, and reports its own process id.
const SETSID: &str = r#"setsid sh -c 'echo $$ >"$0/.s" && mv "$0/.s" "$0/survivor"
    until [ -e "$0/release" ] || [ ! -d "$0" ]; do sleep 0.05; done' "$ROOM" &
await survivor
"#;

#[test]
fn one_that_left_the_group_lives_after_a_success() {
    let repo = one(&format!("{SETSID}next done"));
    repo.aynig_ok(["run"]);
    let survivor = repo.said_pid("survivor");
    assert!(survivor.lives());
    assert_eq!(repo.state("task"), "done");
    assert_eq!(repo.worktrees().len(), 1);
    repo.release("release");
    survivor.gone();
    repo.deserted();
    repo.aynig_ok(["run"]);
    repo.assert_tidy();
}

#[test]
fn one_that_left_the_group_keeps_its_place_after_a_failure() {
    let repo = one(&format!("echo precious >new.txt\n{SETSID}exit 1"));
    let output = repo.aynig(["run"]);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let survivor = repo.said_pid("survivor");
    assert!(survivor.lives(), "its group is not the command's");
    assert_eq!(repo.state("task"), "stalled");
    assert_eq!(repo.show(&format!("{}:new.txt", repo.rescue())), "precious");
    assert_eq!(repo.worktrees().len(), 1, "no worktree in use is removed");
    repo.release("release");
    survivor.gone();
    repo.deserted();
    repo.aynig_ok(["run"]);
    repo.assert_tidy();
    assert_eq!(repo.rescues().len(), 1, "it was saved once");
}

#[test]
fn the_next_state_runs_beside_a_survivor() {
    let repo = Repo::scene(&[
        ("work", &format!("{SURVIVOR}pwd >>\"$ROOM/places\"; echo 1 >one; git add one; next review")),
        ("review", "pwd >>\"$ROOM/places\"; echo 2 >two; git add two; next done"),
    ]);
    repo.ready("task", "work");
    let output = repo.aynig_ok(["run", "--drain"]);
    let survivor = repo.said_pid("survivor");
    assert!(survivor.lives());
    assert_eq!(repo.state("task"), "done", "{}", told(&output));
    assert_eq!(
        repo.paths_in("task").iter().filter(|path| ["one", "two"].contains(&path.as_str())).count(),
        2
    );
    let places = repo.noted_lines("places");
    assert_eq!(places.len(), 2);
    assert_ne!(places[0], places[1], "each step has a place of its own");
    assert_eq!(repo.worktrees().len(), 1, "only the survivor's is left");

    repo.release("release");
    survivor.gone();
    repo.deserted();
    repo.aynig_ok(["run"]);
    repo.assert_tidy();
    assert_eq!(repo.rescues(), Vec::<String>::new(), "everything in it is in the branch");
}

/// CONTRACT 9.8
#[test]
fn what_a_survivor_writes_late_is_saved_when_it_is_gone() {
    let repo = Repo::scene(&[
        ("work", "( await release; echo late >late.txt ) &\nsay survivor $!\nnext review"),
        ("review", "echo 2 >two; git add two; next done"),
    ]);
    repo.ready("task", "work");
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(repo.state("task"), "done");
    let survivor = repo.said_pid("survivor");
    repo.release("release");
    survivor.gone();
    repo.deserted();
    repo.aynig_ok(["run"]);
    assert_eq!(repo.show(&format!("{}:late.txt", repo.rescue())), "late");
    repo.assert_tidy();
}

#[test]
fn passes_over_a_busy_survivor_do_not_pile_up_rescues() {
    let repo = one(
        "( until [ -e \"$ROOM/release\" ] || [ ! -d \"$ROOM\" ]; do echo x >>busy.txt; sleep 0.01; done ) &\n\
         say survivor $!\nnext done",
    );
    repo.aynig_ok(["run"]);
    let survivor = repo.said_pid("survivor");
    let busy = std::path::PathBuf::from(&repo.worktrees()[0]).join("busy.txt");
    let size = || std::fs::metadata(&busy).map_or(0, |found| found.len());
    for _ in 0..6 {
        let before = size();
        repo.aynig_ok(["run"]);
        wait_until("the survivor to write on", || size() > before);
    }
    assert!(survivor.lives());
    assert!(repo.rescues().len() <= 1, "{:?}", repo.rescues());
    repo.release("release");
    survivor.gone();
    repo.deserted();
    let last = std::fs::read_to_string(&busy).expect("still there").trim_end().to_owned();
    repo.aynig_ok(["run"]);
    repo.assert_tidy();
    let saved: Vec<String> =
        repo.rescues().iter().map(|rescue| repo.show(&format!("{rescue}:busy.txt"))).collect();
    assert!(saved.contains(&last), "the last word is saved");
}

/// The stalled commit does not blame the runner for not renewing the lease.
/// CONTRACT 6.3, 6.4
#[test]
fn a_lease_that_was_kept_says_in_the_end_how_its_command_ended() {
    for (script, words) in [
        ("echo 'SET_STATE {\"state\":\"done\"'", "exit 0, but its SET_STATE was invalid"),
        ("true", "exit 0 without SET_STATE"),
    ] {
        let repo = one(script);
        repo.aynig(["run"]);
        assert_eq!(repo.state("task"), "working");
        assert!(repo.message("task").contains(words), "{}", repo.message("task"));
        let mut later = repo.aynig_command();
        let output = later.arg("run").env("AYNIG_CLOCK_OFFSET_SECONDS", "9999").output().expect("aynig runs");
        assert_eq!(repo.state("task"), "stalled", "{}", told(&output));
        let message = repo.message("task");
        assert!(message.contains(&format!("`work` had ended: {words}")), "{message}");
        assert!(!message.contains("did not renew it"), "{message}");
    }
}

/// CONTRACT 6.3
#[test]
fn without_a_declaration_a_survivor_may_advance_the_branch_later() {
    let repo = one("( await release; echo made >made.txt; git add made.txt
           git commit -q -m 'review: please' -m 'the body' -m 'dwp-state: review' && say moved yes ) &\n\
         say survivor $!");
    let trigger = repo.head("task");
    let output = repo.aynig_ok(["run"]);
    assert!(out(&output).contains("working"), "{}", told(&output));
    let survivor = repo.said_pid("survivor");
    assert_eq!(repo.state("task"), "working");
    let (lease, fresh) = (repo.head("task~1"), repo.head("task"));
    assert_eq!(repo.head("task~2"), trigger);
    let trailers = |commit: &str| repo.git(["log", "-1", "--format=%(trailers)", commit]);
    assert_eq!(trailers(&fresh), trailers(&lease), "a fresh lease with the same trailers");
    let worktrees = repo.worktrees();
    assert_eq!(worktrees.len(), 1, "its worktree stays");

    let idle = repo.aynig_ok(["run", "--log-level", "debug"]);
    assert!(err(&idle).contains("holds it for another"), "{}", told(&idle));
    assert_eq!(repo.head("task"), fresh);
    assert_eq!(repo.worktrees(), worktrees);

    repo.release("release");
    repo.said("moved");
    survivor.gone();
    repo.deserted();
    assert_eq!(repo.state("task"), "review");
    repo.aynig_ok(["run"]);
    assert_eq!(repo.state("task"), "done");
    assert_eq!(repo.show("task:made.txt"), "made");
    assert_eq!(repo.linear(&format!("{trigger}..task")).len(), 5);
    assert_eq!(repo.rescues(), Vec::<String>::new());
    repo.assert_tidy();
}

/// CONTRACT 5.5, 9.6
#[test]
fn kept_working_its_lease_ends_and_its_files_are_saved() {
    let repo = one("echo draft >draft.txt; echo staged >staged.txt; git add staged.txt");
    let output = repo.aynig_ok(["run", "--lease-seconds", "1"]);
    assert!(out(&output).contains("exit 0 without SET_STATE"), "{}", told(&output));
    let run_id = repo.trailer("task", "dwp-run-id");
    let lease = repo.head("task");
    let output = repo.run_until("task", "stalled", &["run"]);
    assert_eq!(repo.head("task~1"), lease);
    assert_eq!(repo.trailer("task", "dwp-stalled-run"), run_id);
    assert_eq!(repo.trailer("task", "dwp-origin-state"), "work");
    let rescue = repo.rescue();
    assert!(out(&output).contains(&rescue), "{}", told(&output));
    assert!(repo.message("task").contains(&rescue), "{}", repo.message("task"));
    assert_eq!(repo.show(&format!("{rescue}:draft.txt")), "draft");
    assert_eq!(repo.show(&format!("{rescue}:staged.txt")), "staged");
    repo.assert_tidy();
}

#[test]
fn kept_working_with_somebody_still_in_it_when_the_lease_ends() {
    let repo = one("echo draft >draft.txt\n( await release; echo more >more.txt ) &\nsay survivor $!");
    repo.aynig_ok(["run", "--lease-seconds", "1"]);
    let survivor = repo.said_pid("survivor");
    repo.run_until("task", "stalled", &["run"]);
    assert!(survivor.lives(), "recovery stops no process");
    assert_eq!(repo.worktrees().len(), 1);
    assert_eq!(repo.show(&format!("{}:draft.txt", repo.rescues()[0])), "draft");

    repo.branch_from("task", "task", b"again\n\nthe body\n\ndwp-state: review\n");
    repo.aynig_ok(["run"]);
    assert_eq!(repo.state("task"), "done", "the branch goes on beside it");
    assert!(survivor.lives());

    repo.release("release");
    survivor.gone();
    repo.deserted();
    repo.aynig_ok(["run"]);
    let saved = repo.rescues();
    assert!(saved.iter().any(|rescue| repo.paths_in(rescue).contains(&"more.txt".to_owned())), "{saved:?}");
    repo.assert_tidy();
}
