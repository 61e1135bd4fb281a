//! Limits of the notify program: it may not delay or fail a step, run too long, or run many times at once.

use super::*;

/// Reports its start, and waits for its release.
const SLOW: &str = r#"echo "$AYNIG_NOTICE_BRANCH" >>"$ROOM/begun"; await release; cat >>"$ROOM/told""#;

fn begun(repo: &Repo) -> usize {
    repo.noted_lines("begun").len()
}

#[test]
fn one_that_hangs_delays_no_step_and_the_end_of_the_run_waits_for_it() {
    let repo = repo(&[("one", "next two"), ("two", "next done")]);
    repo.teller(SLOW);
    repo.ready("a", "fail");
    repo.ready("b", "one");
    let runner = repo.aynig_start(["run", "--drain", "--jobs", "1"]);
    wait_until("a notice", || begun(&repo) == 1);
    // Three more steps before the first notice is delivered.
    wait_until("the other branch", || repo.state("b") == "done");
    assert_eq!(repo.told(), Vec::<Value>::new());
    repo.release("release");
    exits(&runner.finish(), 1);
    assert_eq!(repo.told_briefly(), [["stalled", "a", "stalled"]]);
}

#[test]
fn one_that_reads_nothing_holds_up_nobody_however_long_the_text() {
    let repo = repo(&[]);
    repo.teller("say seen \"${#AYNIG_NOTICE_SUBJECT}\"");
    repo.git(["config", "aynig.notifyStates", "*"]);
    repo.command(
        ".aynig/command/long",
        r#"printf 'SET_STATE {"state":"done","subject":"'; head -c 200000 /dev/zero | tr '\0' x; echo '"}'"#,
    );
    repo.commit_all("long");
    repo.ready("task", "long");
    let output = repo.aynig(["run"]);
    exits(&output, 0);
    assert_eq!(repo.state("task"), "done", "{}", told(&output));
    let length: usize = repo.said("seen").parse().expect("a number");
    assert!((2_000..2_010).contains(&length), "cut, with a sign that it was: {length}");
}

/// CONTRACT 11.11
#[test]
fn one_that_fails_is_a_warning_and_nothing_more() {
    let repo = repo(&[("work", "next review")]);
    repo.git(["config", "aynig.notifyStates", "review"]);
    for (line, words) in [
        (
            "date +%s%N; echo trouble with $AYNIG_NOTICE_BRANCH; exit 3",
            "exited with 3 (it ended with: trouble with ",
        ),
        ("kill -9 $$", "was killed by signal 9"),
        ("/no/such/teller --loud", "exited with 127: it, or something it uses, was not found"),
    ] {
        repo.git(["config", "aynig.notify", line]);
        repo.ready("a", "work");
        repo.ready("b", "work");
        let output = repo.aynig(["run"]);
        exits(&output, 0);
        assert_eq!([repo.state("a"), repo.state("b")], ["review", "review"]);
        let said = err(&output);
        let warnings: Vec<&str> = said.lines().collect();
        assert_eq!(warnings.len(), 1, "one line, however often: {said}");
        let log = repo.path.join(".aynig/logs/notify.log").display().to_string();
        for words in ["warning:", "aynig.notify", line, words, &log] {
            assert!(warnings[0].contains(words), "{words:?}: {said}");
        }
        assert_eq!(said.contains("aynig doctor"), words.contains("127"), "{said}");
    }
    let log = fs::read_to_string(repo.path.join(".aynig/logs/notify.log")).expect("a log");
    assert!(log.contains("state a: exited with 3"), "{log}");
}

#[test]
fn one_that_takes_too_long_is_ended_with_all_it_started() {
    let repo = repo(&[]);
    repo.git(["config", "aynig.notifySeconds", "1"]);
    repo.teller("trap '' TERM; ( await never ) & say child $!; say self $$; await never");
    repo.ready("task", "fail");
    let output = repo.aynig(["run"]);
    exits(&output, 1);
    let (teller, child) = (repo.said_pid("self"), repo.said_pid("child"));
    assert!(err(&output).contains("took longer than 1 s and was stopped"), "{}", told(&output));
    assert!(!teller.lives() && !child.lives());
}

#[test]
fn a_storm_is_told_one_at_a_time() {
    let repo = repo(&[]);
    repo.teller(SLOW);
    let branches: Vec<String> = (0..30).map(|n| format!("storm-{n}")).collect();
    repo.ready_many(&branches, "fail");
    let runner = repo.aynig_start(["run", "--jobs", "4"]);
    wait_until("every branch to be stalled", || {
        branches.iter().all(|branch| repo.state(branch) == "stalled")
    });
    wait_until("a notice", || begun(&repo) > 0);
    assert_eq!(begun(&repo), 1);
    repo.release("release");
    exits(&runner.finish(), 1);
    assert_eq!(repo.told().len(), 30);
}

#[test]
fn a_signal_while_the_end_waits_ends_the_waiting() {
    let repo = repo(&[("work", "next review")]);
    repo.git(["config", "aynig.notifyStates", "review"]);
    // Longer than this test may take.
    repo.git(["config", "aynig.notifySeconds", "3600"]);
    repo.teller("say self $$; await never");
    repo.ready("task", "work");
    let mut runner = repo.aynig_start(["run"]);
    let teller = repo.said_pid("self");
    let line = runner.next_line();
    assert!(line.contains("review"), "{line}");
    // The step has ended. The first signal may arrive just before the wait begins; then the second is one too
    // many.
    runner.signal(Signal::SIGINT);
    runner.signal(Signal::SIGTERM);
    let output = runner.finish();
    assert!(matches!(output.status.code(), Some(130 | 143)), "{}", told(&output));
    assert!(!teller.lives());
    assert!(err(&output).contains("was stopped with the runner"), "{}", told(&output));
}

#[test]
fn a_long_watch_leaves_nothing_behind() {
    let repo = repo(&[]);
    let runner = repo.aynig_start(["run", "--watch=1"]);
    for n in 0..5 {
        repo.ready(&format!("task-{n}"), "fail");
        wait_until("the notice", || repo.told().len() == n + 1);
    }
    let status = |pid: i32| fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let runner_pid = runner.pid().to_string();
    wait_until("the notify programs to end", || {
        let children = fs::read_dir("/proc").expect("it is there").flatten().filter(|entry| {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                return false;
            };
            let stat = status(pid);
            stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)) == Some(&runner_pid)
        });
        // Only the watchdog stays.
        children.count() == 1
    });
    let threads = || {
        let tasks = fs::read_dir(format!("/proc/{runner_pid}/task")).expect("it runs").flatten();
        let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
        names.filter(|name| name.trim() == "notifier").count()
    };
    assert!(threads() <= 1, "one thread delivers all notices");
    runner.signal(Signal::SIGTERM);
    exits(&runner.finish(), 143);
    assert_eq!(repo.told().len(), 5);
}

/// Counts its calls, and acts only on the first few, so that a failing test ends.
fn acting(act: &str) -> String {
    format!(r#"echo x >>"$ROOM/begun"; [ "$(wc -l <"$ROOM/begun")" -lt 5 ] || exit 0; {act}"#)
}

/// The failures to notify in the log, with their reasons.
fn refusals(repo: &Repo) -> usize {
    let log = fs::read_to_string(repo.path.join(".aynig/logs/notify.log")).expect("a log");
    log.lines()
        .filter(|line| line.contains("nobody is notified") && line.contains("AYNIG_NOTICE_EVENT"))
        .count()
}

#[test]
fn a_state_that_it_sets_itself_is_not_notified_again() {
    let repo = repo(&[]);
    repo.teller(&acting(r#""$AYNIG_BIN" set-state --branch "$AYNIG_NOTICE_BRANCH" --state stalled"#));
    repo.ready("task", "fail");
    let before: usize = repo.git(["rev-list", "--count", "task"]).parse().expect("a number");
    exits(&repo.aynig(["run"]), 1);
    let after: usize = repo.git(["rev-list", "--count", "task"]).parse().expect("a number");
    assert_eq!((begun(&repo), after - before), (1, 3), "a lease, its end, and the state that it set");
    assert_eq!(refusals(&repo), 1);
}

/// CONTRACT 11.11
#[test]
fn a_run_that_it_starts_notifies_nobody_and_neither_do_its_commands() {
    let repo = repo(&[("ask", r#""$AYNIG_BIN" set-state --state stalled; say asked $?"#)]);
    repo.teller(&acting(r#""$AYNIG_BIN" run --branch 'late-*'; say ran $?"#));
    repo.ready("late-a", "fail");
    repo.ready("late-b", "fail");
    repo.ready("late-c", "ask");
    repo.ready("task", "fail");
    exits(&repo.aynig(["run", "--branch", "task"]), 1);
    assert_eq!([repo.said("ran"), repo.said("asked")], ["1", "0"]);
    assert!(["a", "b", "c"].iter().all(|name| repo.state(&format!("late-{name}")) == "stalled"));
    assert_eq!(begun(&repo), 1);
    assert_eq!(refusals(&repo), 1, "one warning, for two branches");
    let errors = files_below(&repo.path.join(".aynig/logs")).into_iter();
    let said: String = errors
        .filter(|file| file.to_string_lossy().ends_with(".stderr.log"))
        .map(|file| fs::read_to_string(file).expect("text"))
        .collect();
    assert_eq!(said.matches("nobody is notified").count(), 1, "the command's own: {said}");
}

/// The sizes of the log and of the older one, and their text.
fn logs(repo: &Repo) -> (Vec<usize>, String) {
    let all = files_below(&repo.path.join(".aynig/logs")).into_iter();
    let texts = all
        .filter(|file| file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("notify.log")))
        .map(|file| fs::read_to_string(file).expect("text"));
    let texts: Vec<String> = texts.collect();
    (texts.iter().map(String::len).collect(), texts.concat())
}

#[test]
fn its_log_stays_small_whatever_it_prints_and_while_it_prints() {
    const MOST: usize = 1_000_000;
    let repo = repo(&[]);
    repo.teller("yes noise | head -c 30000000; echo the end >&2; say printed yes; await go; exit 3");
    repo.ready("task", "fail");
    let runner = repo.aynig_start(["run"]);
    repo.said("printed");
    assert!(logs(&repo).0.iter().all(|size| *size < MOST), "{:?}", logs(&repo).0);
    repo.release("go");
    let output = runner.finish();
    exits(&output, 1);
    assert!(err(&output).contains("exited with 3 (it ended with: the end)"), "{}", told(&output));
    for round in 0..20 {
        repo.teller(&format!("yes noise | head -c 180000; echo round {round}"));
        repo.aynig_ok(["set-state", "--branch", "task", "--state", "stalled"]);
    }
    let (sizes, text) = logs(&repo);
    assert!(sizes.len() == 2 && sizes.iter().all(|size| *size < MOST), "{sizes:?}");
    assert!(text.contains("round 19\n") && text.contains("noise\nround 18\n"), "the end of each is kept");
}

#[test]
fn what_it_leaves_running_holds_up_nobody() {
    let repo = repo(&[]);
    repo.teller("( await go; echo later ) & say child $!; echo now");
    repo.ready("task", "fail");
    exits(&repo.aynig(["run"]), 1);
    let child = repo.said_pid("child");
    assert!(child.lives() && logs(&repo).1.ends_with("now\n"), "{}", logs(&repo).1);
    repo.release("go");
    child.gone();
}
