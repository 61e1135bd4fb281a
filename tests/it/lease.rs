//! The lease while a command runs: heartbeat, and loss of the lease.

use super::scene::*;
use super::support::*;

/// Leaves one of each kind of work behind, reports ready, and stays.
const WORKER: &str = r#"
    echo own >own.txt; git add own.txt; git commit -q -m "own work"; say own "$(git rev-parse HEAD)"
    echo staged >staged.txt; git add staged.txt
    echo changed >>README
    echo untracked >untracked.txt
    ( await release ) & say child $!
    say ready $$
    await release
    next done
"#;

fn scene(work: &str) -> Repo {
    let repo = Repo::scene(&[("work", work), ("review", "next done")]);
    repo.ready("task", "work");
    repo
}

fn trailers(repo: &Repo, commit: &str) -> String {
    repo.git(["log", "-1", "--format=%(trailers)", commit])
}

/// Waits until the branch has at least `count` working commits since `trigger`.
fn wait_for_renewals(repo: &Repo, trigger: &str, count: usize) {
    wait_until("renewals of the lease", || {
        let range = format!("{trigger}..task");
        let text = repo.git(["log", "--format=%(trailers:key=dwp-state,valueonly)", &range]);
        text.lines().filter(|line| *line == "working").count() >= count
    });
}

/// Asserts that everything [`WORKER`] made is in the rescue, and that the branch is unchanged.
fn assert_rescued(repo: &Repo) {
    let rescue = repo.rescue();
    assert_eq!(repo.show(&format!("{rescue}:own.txt")), "own");
    assert_eq!(repo.show(&format!("{rescue}:staged.txt")), "staged");
    assert_eq!(repo.show(&format!("{rescue}:untracked.txt")), "untracked");
    assert!(repo.show(&format!("{rescue}:README")).ends_with("changed"));
    let staged = repo.paths_in(&format!("{rescue}^2"));
    assert!(staged.contains(&"staged.txt".to_owned()) && !staged.contains(&"untracked.txt".to_owned()));
    let own = repo.said("own");
    let holders = repo.git(["for-each-ref", "--contains", &own, "--format=%(refname)"]);
    assert!(!holders.is_empty(), "the command's own commit is reachable");
}

/// CONTRACT 10.3, 10.7
#[test]
fn a_command_three_times_as_long_as_its_lease_keeps_it() {
    let repo = scene("say ready $$\nawait release\nnext done");
    let trigger = repo.head("task");
    let runner = repo.aynig_start(["run", "--lease-seconds", "2"]);
    repo.said("ready");
    // A renewal is due after two thirds of the lease, so the sixth working commit comes after more than three
    // leases.
    for count in 2..=6 {
        wait_for_renewals(&repo, &trigger, count);
        let other = repo.aynig_ok(["run", "--log-level", "debug"]);
        assert!(err(&other).contains("test-host holds it for another"), "{}", told(&other));
    }
    repo.release("release");
    let output = runner.finish();
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    assert_eq!(repo.state("task"), "done");
    let commits = repo.linear(&format!("{trigger}..task"));
    let (last, working) = commits.split_last().expect("several");
    assert!(working.len() >= 6);
    assert_eq!(*last, repo.head("task"));
    let dates: Vec<u64> = working
        .iter()
        .map(|commit| repo.git(["log", "-1", "--format=%ct", commit]).parse().expect("a date"))
        .collect();
    for (commit, pair) in working[1..].iter().zip(dates.windows(2)) {
        assert_eq!(trailers(&repo, commit), trailers(&repo, &working[0]), "the same trailers");
        assert!(pair[1] > pair[0] && pair[1] <= pair[0] + 2, "renewed in time, and not too often: {dates:?}");
    }
    assert_eq!(repo.rescues(), Vec::<String>::new());
    repo.assert_tidy();
}

/// CONTRACT 10.3, 10.4
#[test]
fn without_heartbeat_another_run_recovers_it_and_the_first_lands_nothing() {
    let repo = scene(WORKER);
    let runner = repo.aynig_start(["run", "--lease-seconds", "1", "--no-heartbeat"]);
    let (command, child) = (repo.said_pid("ready"), repo.said_pid("child"));
    let run_id = repo.trailer("task~1", "dwp-run-id");
    // HEAD is the command's own commit and declares nothing. With a working commit on top another pass can
    // judge it.
    let lease = repo.git(["log", "-1", "--format=%B", "task~1"]);
    let head = repo.branch_from("task", "task", format!("{lease}\n").as_bytes());
    repo.run_until("task", "stalled", &["run"]);
    let output = runner.finish();
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(out(&output).contains("found the lease expired and closed it"), "{}", told(&output));
    assert!(!command.lives() && !child.lives(), "the command was stopped, and its child");
    assert_eq!(repo.trailer("task", "dwp-stalled-run"), run_id);
    assert_eq!(repo.head("task~1"), head, "nothing was landed");
    assert_rescued(&repo);
    assert!(out(&output).contains(&repo.rescue()), "{}", told(&output));
    repo.assert_tidy();
}

/// CONTRACT 5.10, 6.9, 10.3, 10.4
#[test]
fn another_attempt_on_top_stops_the_command() {
    let repo = scene(WORKER);
    let runner = repo.aynig_start(["run"]);
    let (command, child) = (repo.said_pid("ready"), repo.said_pid("child"));
    let other = repo.taken_by_other("task", "task", 300);
    let output = runner.finish();
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(out(&output).contains("other-host holds it"), "{}", told(&output));
    assert!(!command.lives() && !child.lives());
    assert_eq!(repo.head("task"), other);
    assert_rescued(&repo);
    repo.assert_tidy();
}

/// CONTRACT 6.9, 10.4
#[test]
fn a_branch_set_back_to_the_trigger_stops_the_command() {
    let repo = scene(WORKER);
    let trigger = repo.head("task");
    let runner = repo.aynig_start(["run"]);
    let (command, child) = (repo.said_pid("ready"), repo.said_pid("child"));
    repo.git(["update-ref", "refs/heads/task", &trigger]);
    let output = runner.finish();
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(out(&output).contains("does not descend from the lease"), "{}", told(&output));
    assert!(!command.lives() && !child.lives());
    assert_eq!(repo.head("task"), trigger);
    assert_rescued(&repo);
    repo.assert_tidy();
}

#[test]
fn a_new_state_beside_the_lease_stops_the_command() {
    let repo = scene(WORKER);
    let trigger = repo.head("task");
    let runner = repo.aynig_start(["run"]);
    let command = repo.said_pid("ready");
    let wanted = repo.branch_from(&trigger, "task", b"stop that\n\nbody\n\ndwp-state: parked\n");
    let output = runner.finish();
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(!command.lives());
    assert_eq!(repo.head("task"), wanted);
    assert_rescued(&repo);
    repo.assert_tidy();
}

/// CONTRACT 6.9, 10.4
#[test]
fn a_deleted_branch_stops_the_command() {
    let repo = scene(WORKER);
    let runner = repo.aynig_start(["run"]);
    let (command, child) = (repo.said_pid("ready"), repo.said_pid("child"));
    repo.git(["update-ref", "-d", "refs/heads/task"]);
    let output = runner.finish();
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(out(&output).contains("the branch was deleted"), "{}", told(&output));
    assert!(!command.lives() && !child.lives());
    assert_eq!(repo.git(["for-each-ref", "refs/heads/task"]), "", "it stays deleted");
    assert_rescued(&repo);
    repo.assert_tidy();
}

/// CONTRACT 6.8, 10.4
#[test]
fn a_state_on_top_of_the_lease_ends_it_without_a_landing() {
    // Such a HEAD comes from the command or a process it started. The command may still be finishing.
    let repo = scene(WORKER);
    let runner = repo.aynig_start(["run"]);
    let command = repo.said_pid("ready");
    let advanced = repo.branch_from("task", "task", b"on\n\nbody\n\ndwp-state: parked\n");
    repo.release("release");
    let output = runner.finish();
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    assert!(out(&output).contains("set by the command itself"), "{}", told(&output));
    assert!(!command.lives());
    assert_eq!(repo.head("task"), advanced, "nothing is written on top");
    assert_rescued(&repo);
    repo.assert_tidy();
}

/// CONTRACT 6.8, 10.4
#[test]
fn a_command_that_goes_on_after_its_branch_moved_on_is_stopped() {
    let repo = scene(WORKER);
    let runner = repo.aynig_start(["run", "--grace-seconds", "1"]);
    let command = repo.said_pid("ready");
    let advanced = repo.branch_from("task", "task", b"on\n\nbody\n\ndwp-state: parked\n");
    let output = runner.finish();
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    assert!(
        !command.lives(),
        "any runner may run the next state: the old command must not continue beside it"
    );
    assert_eq!(repo.head("task"), advanced, "nothing is written on top");
    assert_rescued(&repo);
    repo.assert_tidy();
}

/// CONTRACT 5.10, 6.6, 10.3
#[test]
fn a_command_that_renews_its_lease_itself_is_not_disturbed() {
    let repo = scene(
        r#"
        renewed=0
        while [ $renewed -lt 12 ]; do
            head=$(git rev-parse HEAD)
            new=$(git log -1 --format=%B "$head" | git commit-tree "$head^{tree}" -p "$head")
            git update-ref -m mine HEAD "$new" "$head" && renewed=$((renewed + 1)) && echo "$new" >>"$ROOM/mine"
            sleep 0.2
        done
        echo made >made.txt; git add made.txt
        next done"#,
    );
    let trigger = repo.head("task");
    let output = repo.aynig_ok(["run", "--lease-seconds", "1"]);
    assert_eq!(repo.state("task"), "done", "{}", told(&output));
    assert_eq!(repo.show("task:made.txt"), "made");
    let commits = repo.linear(&format!("{trigger}..task"));
    let mine = repo.noted_lines("mine");
    assert_eq!(mine.len(), 12);
    assert!(mine.iter().all(|commit| commits.contains(commit)), "its renewals stay in history");
    assert_eq!(repo.rescues(), Vec::<String>::new());
    repo.assert_tidy();
}

/// CONTRACT 6.5, 6.6, 10.3
#[test]
fn a_commands_commits_and_our_renewals_make_one_line() {
    let repo = scene(
        r#"
        n=0
        until [ -e "$ROOM/release" ]; do
            [ -d "$ROOM" ] || exit 9
            n=$((n + 1)); echo $n >"n$n"; git add "n$n"
            until git commit -q -m "commit $n" 2>/dev/null; do [ -d "$ROOM" ] || exit 9; done
            echo "commit $n" >>"$ROOM/made"
            sleep 0.05
        done
        echo last >last.txt; git add last.txt
        next done"#,
    );
    let trigger = repo.head("task");
    let runner = repo.aynig_start(["run", "--lease-seconds", "1"]);
    wait_for_renewals(&repo, &trigger, 4);
    wait_until("some commits", || repo.noted_lines("made").len() > 3);
    repo.release("release");
    let output = runner.finish();
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    assert_eq!(repo.state("task"), "done");
    repo.linear(&format!("{trigger}..task"));
    let subjects = repo.git(["log", "--format=%s", &format!("{trigger}..task")]);
    let made = repo.noted_lines("made");
    for (n, commit) in made.iter().enumerate() {
        assert!(subjects.lines().any(|subject| subject == commit), "{commit} is missing");
        assert_eq!(repo.show(&format!("task:n{}", n + 1)), (n + 1).to_string());
    }
    assert_eq!(repo.show("task:last.txt"), "last");
    assert_eq!(repo.rescues(), Vec::<String>::new());
    repo.assert_tidy();
}

/// CONTRACT 10.3
#[test]
fn a_lease_of_one_second_is_renewed_once_a_second() {
    let repo = scene("await release\nnext done");
    let trigger = repo.head("task");
    let runner = repo.aynig_start(["run", "--lease-seconds", "1"]);
    wait_for_renewals(&repo, &trigger, 4);
    repo.release("release");
    assert_eq!(runner.finish().status.code(), Some(0));
    let dates = repo.git(["log", "--reverse", "--format=%ct", &format!("{trigger}..task~1")]);
    let dates: Vec<u64> = dates.lines().map(|date| date.parse().expect("a date")).collect();
    assert!(dates.len() >= 4 && dates.windows(2).all(|pair| pair[0] < pair[1]), "{dates:?}");
}

/// CONTRACT 9.9
#[test]
fn in_place_a_lost_lease_leaves_a_persons_files() {
    let repo = Repo::scene(&[(
        "work",
        "echo staged >staged.txt; git add staged.txt; say ready $$; await release; next done",
    )]);
    repo.write("mine.txt", "untracked, mine\n");
    repo.git(["checkout", "-q", "-b", "task"]);
    repo.write("README", "changed by a person\n");
    repo.ready("task", "work");
    let runner = repo.aynig_start(["run", "--current-branch", "include"]);
    let command = repo.said_pid("ready");
    let other = repo.taken_by_other("task", "task", 300);
    let output = runner.finish();
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(!command.lives());
    assert_eq!(repo.head("task"), other);
    let read = |name: &str| std::fs::read_to_string(repo.path.join(name)).expect("it is there");
    assert_eq!(read("mine.txt"), "untracked, mine\n");
    assert_eq!(read("README"), "changed by a person\n");
    assert_eq!(read("staged.txt"), "staged\n");
    let rescue = repo.rescue();
    assert_eq!(repo.show(&format!("{rescue}:staged.txt")), "staged");
    assert!(!repo.paths_in(&rescue).contains(&"mine.txt".to_owned()), "a person's files are not taken");
    assert_eq!(repo.show(&format!("{rescue}:README")), "a repository for a test");
    repo.assert_tidy();
}

/// CONTRACT 10.4
#[test]
fn an_unreachable_lease_is_not_outlived() {
    // While its lock file exists the branch cannot be moved, so the lease cannot be renewed either.
    let repo = scene("echo draft >draft.txt; say ready $$; await release; next done");
    let runner = repo.aynig_start(["run", "--lease-seconds", "1"]);
    let command = repo.said_pid("ready");
    let lock = repo.path.join(".git/refs/heads/task.lock");
    wait_until("the ref to be free", || {
        std::fs::OpenOptions::new().write(true).create_new(true).open(&lock).is_ok()
    });
    let output = runner.finish();
    std::fs::remove_file(&lock).expect("ours");
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(out(&output).contains("could not be renewed"), "{}", told(&output));
    assert!(!command.lives());
    assert_eq!(repo.state("task"), "working", "nothing was landed");
    assert_eq!(repo.show(&format!("{}:draft.txt", repo.rescue())), "draft");
    repo.run_until("task", "stalled", &["run"]);
    repo.assert_tidy();
}
