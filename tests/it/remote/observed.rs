//! `--takeover observed`: wrong clocks, and leases that this host times itself.

use nix::sys::signal::Signal;

use super::*;

/// A pass with observed takeover.
const OBSERVE: &[&str] = &["run", "--remote", "origin", "--takeover", "observed", "--skew-seconds", "0"];

/// The file of sightings.
fn kept(clone: &Repo) -> PathBuf {
    PathBuf::from(clone.git(["rev-parse", "--absolute-git-dir"])).join("aynig/sightings/seen")
}

/// Its rows: boot, milliseconds, commit, remote, branch.
fn rows(clone: &Repo) -> Vec<Vec<String>> {
    let text = fs::read_to_string(kept(clone)).expect("sightings");
    text.lines().skip(1).map(|line| line.split(' ').map(str::to_owned).collect()).collect()
}

/// Writes the rows back with something changed.
fn rewrite(clone: &Repo, change: impl Fn(&mut Vec<String>)) {
    let mut rows = rows(clone);
    rows.iter_mut().for_each(change);
    let lines: String = rows.iter().map(|row| row.join(" ") + "\n").collect();
    fs::write(kept(clone), format!("aynig sightings 1\n{lines}")).expect("a file");
}

/// A hub whose branch `task` is leased to a runner that is gone, dated `offset` seconds from now.
fn abandoned(seconds: u64, offset: i64) -> (Repo, Repo) {
    let hub = hub(&[("work", "next done")]);
    hub.ready("task", "work");
    hub.dated_lease("task", "gone-host", seconds, offset);
    let clone = clone(&hub);
    (hub, clone)
}

/// CONTRACT 5.21
#[test]
fn a_lease_that_looks_over_is_taken_over_when_it_was_seen_for_its_length() {
    let (hub, clone) = abandoned(2, -3600);
    let lease = hub.head("task");
    let start = std::time::Instant::now();
    let output = clone.aynig_ok(OBSERVE.iter().chain(&["--log-level", "debug"]).copied());
    assert!(err(&output).contains("gone-host holds it; seen for 0 s of 2 s"), "{}", told(&output));
    assert_eq!(hub.head("task"), lease);
    let status = clone.aynig_ok(["status", "--all", "--remote", "origin"]);
    assert!(out(&status).contains(", seen for "), "{}", told(&status));
    let output = wait_for("the takeover", || {
        let output = clone.aynig_ok(OBSERVE.iter().copied());
        (hub.state("task") == "stalled").then_some(output)
    });
    assert!(start.elapsed().as_secs() >= 2, "after {:?}", start.elapsed());
    assert!(out(&output).contains("stalled"), "{}", told(&output));
    assert!(hub.message("task").contains("lasts 2 s and was seen here for"), "{}", hub.message("task"));
    clone.aynig_ok(OBSERVE.iter().copied());
    assert_eq!(rows(&clone), Vec::<Vec<String>>::new(), "expired sightings are forgotten");
    clone.assert_tidy();
}

#[test]
fn status_judges_leases_as_a_plain_run_here_would() {
    let (_hub, clone) = abandoned(60, -3600);
    let kind = || {
        let rows = listed(&clone.aynig_ok(["status", "--branch", "task", "--remote", "origin", "--json"]));
        rows[0]["kind"].as_str().expect("a kind").to_owned()
    };
    assert_eq!(kind(), "expired");
    clone.git(["config", "aynig.skewSeconds", "7200"]);
    assert_eq!(kind(), "working");
    let in_skew = || {
        let shown = out(&clone.aynig_ok(["status", "--all", "--remote", "origin"]));
        shown.contains("expired") && shown.contains(" after the end, since clocks may differ")
    };
    assert!(in_skew(), "{}", out(&clone.aynig_ok(["status", "--all", "--remote", "origin"])));
    clone.git(["config", "aynig.skewSeconds", "0"]);
    clone.git(["config", "aynig.takeover", "observed"]);
    assert_eq!(kind(), "working", "no pass has seen it yet");
    clone.git(["config", "aynig.skewSeconds", "7200"]);
    assert!(!in_skew(), "dates have no effect");
    clone.git(["config", "aynig.skewSeconds", "0"]);
    assert!(!kept(&clone).exists(), "status notes nothing");
    clone.aynig_ok(["run", "--remote", "origin"]);
    // Long ago, by the monotonic clock.
    rewrite(&clone, |row| row[1] = "1".to_owned());
    assert_eq!(kind(), "expired");
}

#[test]
fn a_lease_from_the_future_is_taken_over_as_well() {
    let (hub, clone) = abandoned(1, 86_400);
    clone.aynig_ok(["run", "--remote", "origin", "--skew-seconds", "0"]);
    wait_until("the takeover", || {
        clone.aynig_ok(OBSERVE.iter().copied());
        hub.state("task") == "stalled"
    });
    assert_eq!(hub.linear("main..task").len(), 3);
}

/// CONTRACT 5.21
#[test]
fn a_renewal_starts_the_count_anew() {
    let (hub, clone) = abandoned(2, -3600);
    clone.aynig_ok(OBSERVE.iter().copied());
    // Long ago, by the monotonic clock.
    rewrite(&clone, |row| row[1] = "1".to_owned());
    let renewal = hub.dated_lease("task", "gone-host", 2, -3600);
    clone.aynig_ok(OBSERVE.iter().copied());
    assert_eq!(hub.head("task"), renewal, "it had not been seen before");
    let rows = rows(&clone);
    assert_eq!((rows.len(), rows[0][2].as_str(), rows[0][4].as_str()), (1, renewal.as_str(), "task"));
    assert_ne!(rows[0][1], "1");
}

/// CONTRACT 5.21, 5.22
#[test]
fn what_is_kept_decides_and_doubts_start_anew() {
    type Change = fn(&mut Vec<String>);
    let cases: [(&str, Change, bool); 5] = [
        ("seen long ago", |row| row[1] = "1".to_owned(), true),
        ("another boot", |row| (row[0], row[1]) = ("0b0de5f0-other".to_owned(), "1".to_owned()), false),
        ("seen in the future", |row| row[1] = "99999999999999".to_owned(), false),
        ("another remote", |row| (row[1], row[3]) = ("1".to_owned(), "-".to_owned()), false),
        ("corrupt", |row| (row[1], row[4]) = ("1".to_owned(), "..".to_owned()), false),
    ];
    for (case, change, over) in cases {
        let (hub, clone) = abandoned(100, 0);
        let lease = hub.head("task");
        clone.aynig_ok(OBSERVE.iter().copied());
        rewrite(&clone, change);
        clone.aynig_ok(OBSERVE.iter().copied());
        assert_eq!(hub.head("task") != lease, over, "{case}");
        if !over {
            let own: Vec<Vec<String>> =
                rows(&clone).into_iter().filter(|row| row[2] == lease && row[3] == "origin").collect();
            assert!(own.iter().any(|row| row[1] != "1"), "{case}: counted from now on: {own:?}");
        }
    }
}

#[test]
fn runners_at_once_lose_no_sighting_and_close_each_lease_once() {
    const BRANCHES: usize = 12;
    let hub = hub(&[("work", "next done")]);
    let branches: Vec<String> = (0..BRANCHES).map(|n| format!("area/b{n:02}")).collect();
    for branch in &branches {
        hub.ready(branch, "work");
        hub.dated_lease(branch, "gone-host", 100, 0);
    }
    let clone = clone(&hub);
    let at_once = || {
        let runners: Vec<Running> = (0..4)
            .map(|n| {
                // Half of them see only some branches, and must not forget the others.
                let globs: &[&str] = if n % 2 == 0 { &[] } else { &["--branch", "area/b0*"] };
                clone.aynig_start(OBSERVE.iter().chain(globs).copied())
            })
            .collect();
        let outputs: Vec<Output> = runners.into_iter().map(Running::finish).collect();
        for output in &outputs {
            assert_exit(output, 0);
            assert!(!err(output).contains("warning"), "{}", told(output));
        }
    };
    at_once();
    let seen: Vec<String> = rows(&clone).into_iter().map(|row| row[4].clone()).collect();
    assert_eq!(seen, branches);
    rewrite(&clone, |row| row[1] = "1".to_owned());
    at_once();
    for branch in &branches {
        assert_eq!(states(&hub, branch), ["work", "working", "stalled"], "{branch}");
    }
    clone.assert_tidy();
}

#[test]
fn a_watch_wakes_when_a_lease_was_seen_for_long_enough() {
    let (hub, clone) = abandoned(1, 86_400);
    let wrapper = Wrapper::new(&hub, "");
    let arguments: Vec<&str> = OBSERVE.iter().chain(&["--watch=3600"]).copied().collect();
    let runner = wrapper.start(&clone, &arguments);
    wait_until("the takeover", || hub.state("task") == "stalled");
    assert!(wrapper.count("ls-remote") <= 4, "{} questions", wrapper.count("ls-remote"));
    runner.signal(Signal::SIGTERM);
    assert_exit(&runner.finish(), 143);
}

/// CONTRACT 5.21
#[test]
fn in_one_repository_too() {
    let repo = Repo::scene(&[("work", "next done")]);
    repo.ready("task", "work");
    repo.dated_lease("task", "gone-host", 1, 86_400);
    let run = ["run", "--takeover", "observed", "--skew-seconds", "0"];
    repo.aynig_ok(run);
    assert_eq!(repo.state("task"), "working");
    assert_eq!(rows(&repo)[0][3], "-");
    repo.run_until("task", "stalled", &run);
}

/// CONTRACT 5.22
#[test]
fn sightings_that_cannot_be_kept_take_nothing_over() {
    let (hub, clone) = abandoned(1, -3600);
    clone.aynig_ok(RUN.iter().copied().chain(["--branch", "none*"]));
    fs::create_dir_all(kept(&clone)).expect("in the way of the file");
    let lease = hub.head("task");
    let output = clone.aynig_ok(OBSERVE.iter().copied());
    assert!(err(&output).contains("none is taken over"), "{}", told(&output));
    assert_eq!(hub.head("task"), lease);
}

/// CONTRACT 5.18
#[test]
fn by_its_date_a_lease_is_taken_over_the_tolerance_after_its_end() {
    // It ended a second ago. A pass must fit into the remaining nine of the default tolerance; one that does
    // not is tried again.
    for attempt in 0_u32.. {
        assert!(attempt < 20, "no pass ever fits into nine seconds here");
        let begun = now();
        let (hub, clone) = abandoned(60, -61);
        let lease = hub.head("task");
        clone.aynig_ok(RUN.iter().copied());
        if now() > begun + 8 {
            continue;
        }
        assert_eq!(hub.head("task"), lease);
        clone.aynig_ok(RUN.iter().copied().chain(["--skew-seconds", "0"]));
        assert_eq!(hub.state("task"), "stalled");
        break;
    }
    let (hub, clone) = abandoned(60, -71);
    clone.aynig_ok(RUN.iter().copied());
    assert_eq!(hub.state("task"), "stalled");
}

/// Lines with a warning about a date.
fn warnings(output: &Output) -> Vec<String> {
    err(output)
        .lines()
        .filter(|line| line.contains("ahead of this host's clock"))
        .map(str::to_owned)
        .collect()
}

/// CONTRACT 5.12
#[test]
fn a_lease_from_the_future_is_told_with_both_clocks() {
    let (hub, clone) = abandoned(300, 120);
    let local = Repo::scene(&[("work", "next done")]);
    local.ready("task", "work");
    local.dated_lease("task", "gone-host", 300, 120);
    for (repo, extra) in [(&clone, &["--remote", "origin"][..]), (&local, &[])] {
        let run: Vec<&str> = ["run"].iter().chain(extra).copied().collect();
        let output = repo.aynig_ok(run.iter().copied());
        let [line] = &warnings(&output)[..] else { panic!("{}", told(&output)) };
        for words in ["task", "lease by gone-host: 20", "here: 20", "one of the two clocks is wrong"] {
            assert!(line.contains(words), "{words}: {line}");
        }
        let tolerant = repo.aynig_ok(run.iter().copied().chain(["--skew-seconds", "600"]));
        assert_eq!(warnings(&tolerant), Vec::<String>::new());
    }
    assert_eq!(hub.state("task"), "working");
}

/// CONTRACT 5.12
#[test]
fn a_watch_tells_of_a_wrong_clock_once_for_each_head() {
    let (hub, clone) = abandoned(300, 120);
    let wrapper = Wrapper::new(&hub, "");
    let runner = wrapper.start(&clone, &["run", "--remote", "origin", "--watch=1"]);
    wait_until("a question", || wrapper.count("ls-remote") >= 1);
    for n in 0..3 {
        // A pass runs only after a change.
        let fetched = wrapper.count("fetch");
        hub.ready(&format!("parked{n}"), "nothing");
        wait_until("another pass", || wrapper.count("fetch") > fetched);
    }
    hub.dated_lease("task", "gone-host", 300, 240);
    let (fetched, asked) = (wrapper.count("fetch"), wrapper.count("ls-remote"));
    wait_until("another pass", || wrapper.count("fetch") > fetched && wrapper.count("ls-remote") > asked + 1);
    runner.signal(Signal::SIGTERM);
    let output = runner.finish();
    assert_eq!(warnings(&output).len(), 2, "{}", told(&output));
}
