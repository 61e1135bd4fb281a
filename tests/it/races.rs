//! Many runners on one repository: one winner per step, and no failures.

use std::process::{Output, Stdio};

use super::scene::*;
use super::support::*;

/// Says which branch it ran for, and for which state, once.
const STEP: &str = r#"echo "$AYNIG_BRANCH" >>"$ROOM/ran""#;

fn names(count: usize) -> Vec<String> {
    // Nested names too: packing refs removes the directories that they need.
    (0..count)
        .map(|n| if n % 3 == 0 { format!("team/{}/b{n:02}", n % 5) } else { format!("b{n:02}") })
        .collect()
}

fn field() -> (Repo, Vec<String>) {
    let repo = Repo::scene(&[("work", &format!("{STEP}\nnext done"))]);
    let branches = names(40);
    repo.ready_many(&branches, "work");
    (repo, branches)
}

fn race(repo: &Repo, runners: usize, arguments: &[&str]) -> Vec<Output> {
    let started: Vec<Running> = (0..runners).map(|_| repo.aynig_start(arguments.iter().copied())).collect();
    started.into_iter().map(Running::finish).collect()
}

/// Asserts that every branch ran once, every runner succeeded, and nothing is left.
fn assert_shared(repo: &Repo, branches: &[String], outputs: &[Output]) {
    for output in outputs {
        assert_eq!(output.status.code(), Some(0), "{}", told(output));
        assert!(!err(output).contains("warning"), "{}", told(output));
    }
    let mut expected = branches.to_vec();
    expected.sort();
    assert_eq!(repo.noted_lines("ran"), expected);
    for branch in branches {
        assert_eq!(repo.state(branch), "done", "{branch}");
        assert_eq!(repo.linear(&format!("main..{branch}")).len(), 3, "{branch}: trigger, lease, result");
    }
    assert_eq!(repo.rescues(), Vec::<String>::new());
    repo.assert_tidy();
}

/// Runs a git command repeatedly while `during` runs.
fn meanwhile<T>(repo: &Repo, arguments: &[&str], during: impl FnOnce() -> T) -> (T, usize) {
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let looping = scope.spawn(|| {
            let mut times = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let mut git = repo.git_command();
                // It may lose a lock to a runner; its failures do not matter here.
                git.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status().expect("git runs");
                times += 1;
            }
            times
        });
        let result = during();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        (result, looping.join().expect("it loops"))
    })
}

/// CONTRACT 5.8, 5.9, 8.1, 8.5
#[test]
fn eight_runners_share_forty_branches() {
    let (repo, branches) = field();
    let outputs = race(&repo, 8, &["run"]);
    assert_shared(&repo, &branches, &outputs);
}

#[test]
fn eight_runners_with_three_jobs_each() {
    let (repo, branches) = field();
    let outputs = race(&repo, 8, &["run", "--jobs", "3"]);
    assert_shared(&repo, &branches, &outputs);
}

/// CONTRACT 5.8
#[test]
fn eight_draining_runners() {
    let (repo, branches) = field();
    let outputs = race(&repo, 8, &["run", "--drain", "--jobs", "2"]);
    assert_shared(&repo, &branches, &outputs);
}

/// CONTRACT 3.11
#[test]
fn branches_at_one_and_the_same_commit_are_as_many_steps() {
    let repo = Repo::scene(&[("work", &format!("{STEP}\nnext done"))]);
    let trigger = repo.ready("b00", "work");
    let branches = names(40);
    let updates: String =
        branches.iter().map(|branch| format!("update refs/heads/{branch} {trigger}\n")).collect();
    repo.git(["update-ref", "-d", "refs/heads/b00"]);
    repo.git_with_input(&["update-ref", "--stdin"], updates.as_bytes());
    let outputs = race(&repo, 8, &["run", "--jobs", "2"]);
    assert_shared(&repo, &branches, &outputs);
    let logs = files_below(&repo.path.join(".aynig/logs"));
    let stdout = logs.iter().filter(|path| path.to_string_lossy().ends_with(".stdout.log"));
    assert_eq!(stdout.count(), 40, "a log for every attempt");
}

/// CONTRACT 5.8
#[test]
fn packed_refs_are_claimed_by_one() {
    let (repo, branches) = field();
    repo.git(["pack-refs", "--all", "--prune"]);
    assert!(!repo.path.join(".git/refs/heads/b01").exists(), "they are packed");
    let outputs = race(&repo, 8, &["run", "--jobs", "2"]);
    assert_shared(&repo, &branches, &outputs);
}

#[test]
fn refs_may_be_packed_all_the_while() {
    let (repo, branches) = field();
    let (outputs, times) =
        meanwhile(&repo, &["pack-refs", "--all", "--prune"], || race(&repo, 8, &["run", "--drain"]));
    assert!(times > 0);
    assert_shared(&repo, &branches, &outputs);
}

#[test]
fn garbage_may_be_collected_all_the_while() {
    let (repo, branches) = field();
    let (outputs, times) = meanwhile(&repo, &["gc", "--quiet"], || race(&repo, 8, &["run", "--drain"]));
    assert!(times > 0);
    assert_shared(&repo, &branches, &outputs);
}

#[test]
fn a_bare_repository_is_shared_alike() {
    let repo = Repo::scene(&[("work", &format!("{STEP}\nnext done"))]).into_bare();
    let branches = names(40);
    repo.ready_many(&branches, "work");
    let outputs = race(&repo, 8, &["run", "--jobs", "2"]);
    assert_shared(&repo, &branches, &outputs);
}

#[test]
fn a_bare_repository_with_packed_refs() {
    let repo = Repo::scene(&[("work", &format!("{STEP}\nnext done"))]).into_bare();
    let branches = names(40);
    repo.ready_many(&branches, "work");
    let (outputs, _) =
        meanwhile(&repo, &["pack-refs", "--all", "--prune"], || race(&repo, 8, &["run", "--drain"]));
    assert_shared(&repo, &branches, &outputs);
}

#[test]
fn a_chain_of_states_runs_each_step_once() {
    let step = |state: &str, next: &str| {
        format!(
            "echo \"$AYNIG_BRANCH {state}\" >>\"$ROOM/ran\"; echo {state} >>trace; git add trace; next {next}"
        )
    };
    let repo = Repo::scene(&[("a", &step("a", "b")), ("b", &step("b", "c")), ("c", &step("c", "done"))]);
    let branches = names(12);
    repo.ready_many(&branches, "a");
    let outputs = race(&repo, 5, &["run", "--drain", "--jobs", "2"]);
    for output in &outputs {
        assert_eq!(output.status.code(), Some(0), "{}", told(output));
    }
    let mut expected: Vec<String> =
        branches.iter().flat_map(|branch| ["a", "b", "c"].map(|state| format!("{branch} {state}"))).collect();
    expected.sort();
    assert_eq!(repo.noted_lines("ran"), expected);
    for branch in &branches {
        let states: Vec<String> = repo
            .linear(&format!("main..{branch}"))
            .iter()
            .map(|commit| repo.trailer(commit, "dwp-state"))
            .collect();
        assert_eq!(states, ["a", "working", "b", "working", "c", "working", "done"], "{branch}");
        assert_eq!(repo.show(&format!("{branch}:trace")), "a\nb\nc");
    }
    assert_eq!(repo.rescues(), Vec::<String>::new());
    repo.assert_tidy();
}

/// CONTRACT 5.11
#[test]
fn two_recoverers_close_a_lease_once() {
    let repo = Repo::scene(&[("work", "next done")]);
    for n in 0..10 {
        repo.ready(&format!("b{n}"), "work");
        let trigger = repo.head(&format!("b{n}"));
        repo.taken_by_other(&trigger, &format!("b{n}"), 1);
    }
    // They have all expired once this later lease has.
    let probe = repo.ready("probe", "work");
    repo.taken_by_other(&probe, "probe", 1);
    repo.run_until("probe", "stalled", &["run", "--branch", "probe"]);
    let outputs = race(&repo, 6, &["run"]);
    for output in &outputs {
        assert_eq!(output.status.code(), Some(0), "{}", told(output));
    }
    let said: usize = outputs.iter().map(|output| out(output).matches("stalled").count()).sum();
    assert_eq!(said, 10, "each is reported by the runner that closed it");
    for n in 0..10 {
        let branch = format!("b{n}");
        assert_eq!(repo.state(&branch), "stalled");
        assert_eq!(repo.trailer(&branch, "dwp-stalled-run"), "11111111-2222-4333-8444-555555555555");
        assert_eq!(repo.trailer(&branch, "dwp-origin-state"), "work");
        assert_eq!(repo.linear(&format!("main..{branch}")).len(), 3);
    }
    repo.assert_tidy();
}

/// CONTRACT 9.2, 9.8
#[test]
fn many_recoverers_save_a_killed_runners_work_once() {
    let repo = Repo::scene(&[(
        "work",
        "echo precious >\"new-$AYNIG_BRANCH\"; say \"at-$AYNIG_BRANCH\" $$; await release",
    )]);
    let branches: Vec<String> = (0..4).map(|n| format!("b{n}")).collect();
    repo.ready_many(&branches, "work");
    let runner = repo.aynig_start(["run", "--jobs", "4", "--lease-seconds", "1", "--no-heartbeat"]);
    let commands: Vec<Process> =
        branches.iter().map(|branch| repo.said_pid(&format!("at-{branch}"))).collect();
    runner.signal(nix::sys::signal::Signal::SIGKILL);
    drop(runner.finish());
    commands.iter().for_each(Process::gone);
    repo.deserted();
    wait_until("all to be recovered", || {
        for output in race(&repo, 6, &["run"]) {
            assert_eq!(output.status.code(), Some(0), "{}", told(&output));
        }
        branches.iter().all(|branch| repo.state(branch) == "stalled")
    });
    // A runner that lost the race for a lease may have used its worktree when the winner wanted to save or
    // remove it.
    repo.aynig_ok(["run"]);
    repo.assert_tidy();
    assert_eq!(repo.rescues().len(), 4, "{:?}", repo.rescues());
    for branch in &branches {
        assert_eq!(repo.linear(&format!("main..{branch}")).len(), 3);
        let rescue =
            repo.git(["for-each-ref", "--format=%(refname)", &format!("refs/aynig/rescue/{branch}/")]);
        assert_eq!(repo.show(&format!("{rescue}:new-{branch}")), "precious");
        assert!(repo.message(branch).contains(&rescue), "{}", repo.message(branch));
    }
}

/// A slow recovery, or a live runner that did not renew: the one that closes the lease cannot lock the
/// worktree.
///
/// CONTRACT 9.6
#[test]
fn the_rescue_is_named_before_it_is_made() {
    let repo = Repo::scene(&[("work", "echo precious >new; say ready $$; await release")]);
    repo.ready("task", "work");
    repo.killed_over_its_command(&["run", "--lease-seconds", "1", "--no-heartbeat"]);
    let registration = std::fs::read_dir(repo.path.join(".git/worktrees")).expect("a list").next();
    let mark = registration.expect("a worktree").expect("readable").path().join("locked");
    let holder = std::fs::File::open(mark).expect("it is locked");
    holder.lock().expect("its runner is gone");

    repo.run_until("task", "stalled", &["run"]);
    assert_eq!(repo.rescues(), Vec::<String>::new());
    let message = repo.message("task");
    assert!(message.contains("has hold of its worktree"), "{message}");
    let log = |text: &str| out(&repo.aynig_ok(["log", "task"])).contains(text);
    assert!(!log("refs/aynig/rescue/"), "nothing is there yet");

    drop(holder);
    repo.aynig_ok(["run"]);
    let rescue = repo.rescue();
    assert!(message.contains(&format!("git show --first-parent {rescue}")), "{rescue}: {message}");
    assert_eq!(repo.show(&format!("{rescue}:new")), "precious");
    assert!(log(&rescue));
    repo.assert_tidy();
}
