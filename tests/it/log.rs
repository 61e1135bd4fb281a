//! `aynig log`: the history of a branch, read from its commits.

use std::process::Stdio;

use serde_json::Value;
use unicode_width::UnicodeWidthStr;

use super::support::*;
use super::terminal::plain;

const LEASE: &str =
    "chore: set working\n\ndwp-state: working\ndwp-origin-state: build\ndwp-lease-seconds: 60\n";

/// A lease of attempt `run` by `runner`.
fn lease(run: &str, runner: &str) -> String {
    format!("{LEASE}dwp-run-id: {run}\ndwp-runner-id: {runner}\n")
}

fn stalled(run: &str, body: &str) -> String {
    format!(
        "chore: set stalled\n\n{body}\n\ndwp-state: stalled\ndwp-stalled-run: {run}\ndwp-origin-state: build\n"
    )
}

/// Commits on top of `main`, or of nothing, with their dates, authors and messages, oldest first.
fn history(repo: &Repo, branch: &str, commits: &[(i64, &str, &str)]) {
    let mut stream = String::new();
    for (date, author, message) in commits {
        let who = format!("{author} <someone@example.com> {date} +0000");
        stream.push_str(&format!(
            "commit refs/heads/{branch}\nauthor {who}\ncommitter {who}\ndata {}\n{message}\n",
            message.len()
        ));
    }
    repo.git_with_input(&["fast-import", "--quiet"], stream.as_bytes());
}

fn told(repo: &Repo, arguments: &[&str]) -> Vec<String> {
    let output = repo.aynig_ok(["log"].iter().chain(arguments).copied());
    assert_eq!(err(&output), "");
    out(&output).lines().map(str::to_owned).collect()
}

/// The lines without their first column.
fn without_ids(lines: &[String]) -> Vec<&str> {
    lines.iter().map(|line| if line.starts_with(' ') { line.trim_start() } else { &line[12..] }).collect()
}

#[test]
fn a_real_life_from_the_wish_to_the_end() {
    let repo = Repo::scene(&[
        ("build", "echo own >own.txt; git add own.txt; git commit -q -m 'own work'; next review"),
        (
            "review",
            "[ -e \"$ROOM/mended\" ] && { next done; exit 0; }; echo loose >loose.txt; echo why >&2; exit 3",
        ),
    ]);
    repo.ready("task", "build");
    assert_eq!(repo.aynig(["run", "--drain"]).status.code(), Some(1));
    repo.release("mended");
    repo.aynig_ok(["set-state", "--retry", "--branch", "task"]);
    repo.aynig_ok(["run", "--drain"]);
    let lines = told(&repo, &["task"]);
    assert!(lines.iter().all(|line| line.trim_end() == line), "{lines:#?}");
    let said = lines.join("\n");
    let firsts: Vec<&str> = lines.iter().filter(|line| !line.starts_with(' ')).map(String::as_str).collect();
    let words =
        ["review → done", "review again", "review → stalled", "build → review", "build ", "2 commits"];
    assert_eq!(firsts.len(), words.len(), "{said}");
    for (line, words) in firsts.iter().zip(words) {
        assert!(line[34..].starts_with(words), "{words}: {said}");
    }
    for (line, revision) in firsts.iter().zip(["task", "task~2", "task~3"]) {
        assert!(line.starts_with(&repo.head(revision)[..10]), "{said}");
    }
    assert!(firsts[0].contains(" s  test-host"), "{said}");
    assert!(firsts[2].ends_with("`review` exited with 3."), "{said}");
    assert!(firsts[4].ends_with("Test Person  please build"), "{said}");
    assert!(firsts[5].ends_with("before the first state: commands"), "{said}");
    assert!(said.contains(&format!("saved    {}\n", repo.rescue())), "{said}");
    let attempt: String = repo.trailer("task~4", "dwp-run-id").chars().take(8).collect();
    assert!(said.contains(&format!("printed  `aynig logs --attempt {attempt} --stderr` shows it")), "{said}");
    assert_eq!(out(&repo.aynig_ok(["logs", "--attempt", &attempt, "--stderr"])), "why\n", "as it says");
    let silent = repo.aynig_ok(["logs", "--attempt", &attempt]);
    assert_eq!(out(&silent), "why\n", "it printed nothing else");
    assert!(err(&silent).contains("standard error"), "{}", err(&silent));
    assert!(said.contains("beside   1 commit by Test Person: own work"), "{said}");
    assert_eq!(said.matches("printed").count(), 1, "of what went well nobody asks: {said}");
    // The current branch is the default.
    repo.git(["checkout", "--quiet", "task"]);
    assert_eq!(told(&repo, &[]), lines);
    assert_eq!(told(&repo, &["--branch", "task"]), lines);
    assert_eq!(
        told(&repo, &["--leases", "task"]).iter().filter(|line| line.contains("lease    ")).count(),
        3
    );
}

#[test]
fn leases_takeovers_recoveries_and_clocks_are_told_as_they_are() {
    let repo = Repo::new();
    let (one, two, three) = (lease("one", "alpha"), lease("two", "beta"), lease("three", ""));
    let body = "The lease of beta for `build` ended 7 s before it was found here; its runner did not renew it.\n\n\
                Unfinished work was saved: git show --first-parent refs/aynig/rescue/task/two (or so).";
    let closed = stalled("two", body);
    history(
        &repo,
        "task",
        &[
            (1_000, "Ada", "first"),
            (1_010, "Bea", "please\n\ndwp-state: build\n"),
            (1_100, "Runner A", &one),
            (1_140, "Runner A", &one),
            (1_180, "Runner A", &one),
            (1_200, "Bea", &two),
            (1_267, "Runner C", &closed),
            (1_300, "Ada", "mend it"),
            (1_310, "Bea", "mend more"),
            (1_320, "Bea", "please\n\ndwp-state: build\n"),
            (1_400, "Runner A", &three),
            (1_390, "Runner A", "it is built\n\ndwp-state: done\n"),
            (1_500, "Ada", "odd\n\ndwp-state: ../x\n"),
            (1_600, "Ada", "later\n\ndwp-state: build\ndwp-not-before: 2999-01-01T00:00:00Z\n"),
        ],
    );
    let lines = told(&repo, &["task"]);
    let expected = [
        "1970-01-01T00:26:40Z  build                              Ada         parked until 2999-01-01T00:00:00Z: later",
        "1970-01-01T00:25:00Z  (invalid)                          Ada         \"../x\" is not a legal state name: a part between \
         slashes begins with a dot or a dash",
        "1970-01-01T00:23:10Z  build → done               -10 s?  (unnamed)   it is built",
        "clocks   the end is dated before the beginning: those of two hosts disagree",
        "1970-01-01T00:22:00Z  build again                        Bea         please",
        "1970-01-01T00:21:50Z  2 commits                          Bea, Ada    mend more",
        "1970-01-01T00:21:07Z  build → stalled              67 s  beta        The lease of beta for `build` ended 7 s before it \
         was found here; its runner did not renew it.",
        "saved    refs/aynig/rescue/task/two (not in this clone; on beta: `git show --first-parent refs/aynig/rescue/task/two`)",
        "lease    had been over for 7 s by the dates of the commits",
        "set by   Runner C",
        "1970-01-01T00:19:40Z  build → (taken over)         80 s  alpha       by beta in attempt two",
        "lease    renewed 2 times over 80 s, attempt one",
        "1970-01-01T00:16:50Z  build                              Bea         please",
        "1970-01-01T00:16:40Z  1 commit                           Ada         before the first state: first",
    ];
    assert_eq!(without_ids(&lines), expected, "{lines:#?}");
    let unfolded = told(&repo, &["--leases", "task"]);
    let leases: Vec<&str> =
        without_ids(&unfolded).into_iter().filter(|line| line.starts_with("lease    ")).collect();
    assert_eq!(leases.len(), 6, "{unfolded:#?}");
    assert!(leases[2].ends_with("1970-01-01T00:20:00Z  for 60 s"), "{leases:?}");
    // The full log and its parts.
    let mut reversed = told(&repo, &["--reverse", "task"]);
    assert!(reversed.remove(0).ends_with("before the first state: first"), "{reversed:#?}");
    assert_eq!(told(&repo, &["-n", "2", "task"]), lines[..2]);
    assert_eq!(told(&repo, &["-n", "2", "--reverse", "task"]), [lines[1].clone(), lines[0].clone()]);
    assert_eq!(told(&repo, &["-n", "0", "task"]), Vec::<String>::new());
}

#[test]
fn an_attempt_that_goes_on_says_how_long_it_may() {
    let repo = Repo::new();
    repo.ready("task", "build");
    repo.foreign_lease("task", "11111111-2222-4333-8444-555555555555", "other", 300, 20);
    let lines = told(&repo, &["task"]);
    assert!(lines[0].contains("build → working") && lines[0].contains(" s  other"), "{lines:#?}");
    assert!(lines[0].contains("lease until ") && lines[0].ends_with(" s left"), "{lines:#?}");
    repo.foreign_lease("task", "11111111-2222-4333-8444-555555555555", "other", 5, 10);
    let lines = told(&repo, &["task"]);
    let since = lines[0].split_once("its lease ran out ").and_then(|(_, rest)| rest.split_once(" s ago"));
    let seconds = since.and_then(|(seconds, _)| seconds.parse::<u64>().ok());
    assert!(seconds.is_some_and(|seconds| (5..60).contains(&seconds)), "{lines:#?}");
    assert!(lines[1].contains("renewed once over"), "{lines:#?}");
    repo.aynig_ok(["run"]);
    let lines = told(&repo, &["task"]);
    assert!(lines[0].contains("build → stalled"), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("had been over for ")), "{lines:#?}");
    // By hand, from the first claim on.
    repo.aynig_ok(["set-state", "--branch", "task", "--state", "build"]);
    repo.aynig_ok(["set-working", "--branch", "task"]);
    repo.aynig_ok(["set-working", "--branch", "task"]);
    repo.aynig_ok(["set-state", "--branch", "task", "--state", "review", "--subject", "by hand"]);
    let lines = told(&repo, &["task"]);
    assert!(lines[0].contains("build → review") && lines[0].ends_with("test-host   by hand"), "{lines:#?}");
    assert!(lines[1].contains("renewed once over "), "{lines:#?}");
}

#[test]
fn what_was_parked_stays_told_as_that_when_its_time_has_come() {
    let repo = Repo::new();
    let parked = "not yet\n\ndwp-state: build\ndwp-not-before: 1970-01-01T01:00:00Z\n";
    let again = "not yet\n\ndwp-state: build\n";
    history(
        &repo,
        "task",
        &[
            (1_000, "Bea", "please\n\ndwp-state: build\n"),
            (1_100, "Runner", &lease("one", "alpha")),
            (1_110, "Runner", parked),
            (1_200, "Bea", again),
            (1_300, "Bea", "look\n\ndwp-state: review\n"),
            (1_310, "Ada", "by the way"),
            (1_320, "Bea", "look\n\ndwp-state: review\n"),
            (1_330, "Bea", "look closer\n\ndwp-state: review\n"),
        ],
    );
    let lines = told(&repo, &["task"]);
    let said: Vec<&str> = without_ids(&lines).iter().map(|line| &line[22..]).collect();
    let row =
        |what: &str, time: &str, who: &str, text: &str| format!("{what:20}  {time:>11}  {who:10}  {text}");
    assert_eq!(
        said,
        [
            row("review", "", "Bea", "look closer"),
            row("review again", "", "Bea", "look"),
            row("1 commit", "", "Ada", "by the way"),
            row("review", "", "Bea", "look"),
            row("build again", "", "Bea", "not yet"),
            row("build → build", "10 s", "alpha", "parked until 1970-01-01T01:00:00Z: not yet"),
            row("build", "", "Bea", "please"),
        ],
        "{lines:#?}"
    );
    let repo = Repo::with_commands(&[("build", "exit 0")]);
    repo.branch_with_message("task", parked.as_bytes());
    repo.aynig_ok(["set-state", "--retry", "--branch", "task"]);
    assert!(told(&repo, &["task"])[0].contains("build again"), "{:#?}", told(&repo, &["task"]));
}

#[test]
fn merges_are_followed_along_first_parents() {
    let repo = Repo::new();
    repo.git(["checkout", "--quiet", "-b", "side"]);
    repo.git(["commit", "--quiet", "--allow-empty", "-m", "aside\n\ndwp-state: elsewhere"]);
    repo.git(["checkout", "--quiet", "main"]);
    repo.git(["commit", "--quiet", "--allow-empty", "-m", "go\n\ndwp-state: build"]);
    repo.git(["merge", "--quiet", "--no-ff", "-m", "merge side", "side"]);
    let lines = told(&repo, &[]);
    assert_eq!(lines.len(), 3, "{lines:#?}");
    assert!(lines[0].contains("  1 merge ") && lines[0].ends_with("merge side"), "{lines:#?}");
}

#[test]
fn what_commits_hold_does_not_reach_the_terminal_as_orders() {
    let repo = Repo::new();
    let evil = "evil\u{1b}[2J\u{202e}";
    history(
        &repo,
        "task",
        &[
            (1_000, "E\u{1b}vil", &format!("{evil}\n\ndwp-state: build\n")),
            (1_010, "x", &lease(evil, evil)),
            (1_020, "x", &stalled(evil, &format!("{evil} refs/aynig/rescue/{evil}"))),
            (1_030, "x", evil),
        ],
    );
    let output = repo.aynig_ok(["log", "--leases", "task"]);
    let said = out(&output);
    assert!(said.lines().count() >= 5 && !said.contains(['\u{1b}', '\u{202e}']), "{said:?}");
    let (shown, _) =
        repo.in_terminal((20, 80), &[("NO_COLOR", "1")], &["log", "--no-pager", "task"]).finish();
    assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{shown:?}");
}

#[test]
fn json_has_the_same_story() {
    let repo = Repo::new();
    history(
        &repo,
        "task",
        &[
            (1_000, "Ada", "first"),
            (1_010, "Bea", "please\n\ndwp-state: build\n"),
            (1_100, "Runner", &lease("one", "alpha")),
            (1_140, "Runner", &lease("one", "alpha")),
            (1_150, "Runner", &stalled("one", "It broke.\n\nSaved: refs/aynig/rescue/task/one (so).")),
            (1_200, "Ada", "odd\n\ndwp-state: ../x\n"),
        ],
    );
    let entries = listed(&repo.aynig_ok(["log", "--json", "task"]));
    let entries = entries.as_array().unwrap();
    let kinds: Vec<&str> = entries.iter().map(|entry| entry["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["invalid", "attempt", "state", "before"]);
    let attempt = &entries[1];
    for (key, value) in [
        ("outcome", "stalled"),
        ("originState", "build"),
        ("state", "stalled"),
        ("runId", "one"),
        ("runner", "alpha"),
        ("started", "1970-01-01T00:18:20Z"),
        ("reason", "It broke."),
        ("author", "Runner"),
    ] {
        assert_eq!(attempt[key], value, "{attempt:#}");
    }
    assert_eq!(attempt["commit"], repo.head("task~1").as_str());
    assert_eq!(attempt["rescueRefs"], Value::from(vec!["refs/aynig/rescue/task/one"]));
    assert_eq!((&attempt["elapsedMs"], &attempt["stdoutLog"]), (&Value::from(50_000), &Value::Null));
    let leases: Vec<&Value> =
        attempt["leases"].as_array().unwrap().iter().map(|lease| &lease["commit"]).collect();
    assert_eq!(leases, [repo.head("task~2").as_str(), repo.head("task~3").as_str()]);
    assert_eq!((&entries[2]["author"], &entries[2]["again"]), (&Value::from("Bea"), &Value::from(false)));
    let reversed = listed(&repo.aynig_ok(["log", "--json", "--reverse", "-n", "2", "task"]));
    assert_eq!(reversed.as_array().unwrap().iter().rev().collect::<Vec<_>>(), [&entries[0], &entries[1]]);
}

/// The `saved` lines of a log, without the text before the names.
fn saved(repo: &Repo, arguments: &[&str]) -> Vec<String> {
    let lines = told(repo, arguments);
    lines.iter().filter_map(|line| line.trim_start().strip_prefix("saved    ")).map(str::to_owned).collect()
}

#[test]
fn work_that_was_saved_after_a_success_is_told_of_and_its_further_refs_as_well() {
    let repo = Repo::scene(&[("build", "echo loose >loose.txt; next done")]);
    repo.ready("task", "build");
    repo.ready("other", "build");
    repo.aynig_ok(["run", "--branch", "task"]);
    let first = repo.rescue();
    assert_eq!(saved(&repo, &["task"]), repo.rescues());
    let numbered = |number: u32| format!("{first}-{number}");
    for number in [10, 2] {
        repo.git(["update-ref", &numbered(number), "main"]);
    }
    repo.aynig_ok(["run", "--branch", "other"]);
    repo.git(["pack-refs", "--all"]);
    let all = [first.clone(), numbered(2), numbered(10)];
    assert_eq!(saved(&repo, &["task"]), all);
    assert_eq!(saved(&repo, &["other"]).len(), 1);
    let entries = listed(&repo.aynig_ok(["log", "--json", "task"]));
    assert_eq!(entries[0]["rescueRefs"], Value::from(all.to_vec()), "{entries:#}");
    // Another clone does not have them.
    let clone = repo.clone_beside("clone");
    clone.git(["branch", "task", "origin/task"]);
    assert_eq!(saved(&clone, &["task"]), Vec::<String>::new());
    assert_eq!(
        listed(&clone.aynig_ok(["log", "--json", "task"]))[0]["rescueRefs"],
        Value::from(Vec::<Value>::new())
    );
}

#[test]
fn work_that_was_saved_when_a_lease_was_lost_is_told_of() {
    let repo = Repo::scene(&[("work", "echo loose >loose.txt; say ready yes; await never")]);
    repo.ready("task", "work");
    let runner = repo.aynig_start(["run"]);
    repo.said("ready");
    repo.taken_by_other("task", "task", 300);
    assert_eq!(runner.finish().status.code(), Some(1));
    assert_eq!(saved(&repo, &["task"]), [repo.rescue()]);
    let entries = listed(&repo.aynig_ok(["log", "--json", "task"]));
    assert_eq!(
        (&entries[0]["rescueRefs"][0], &entries[1]["outcome"]),
        (&Value::Null, &Value::from("takenOver"))
    );
    assert_eq!(entries[1]["rescueRefs"][0], repo.rescue().as_str(), "{entries:#}");
}

#[test]
fn work_that_was_saved_because_its_result_was_refused_is_told_of() {
    let hub = Repo::scene(&[("work", "echo loose >loose.txt; next done")]);
    hub.ready("task", "work");
    let hub = hub.into_bare();
    let clone = hub.clone_beside("clone");
    let working = "while read old new name; do git cat-file commit $new | grep -q '^dwp-state: working$' || exit 1; done";
    hub.command("hooks/pre-receive", working);
    assert_eq!(clone.aynig(["run", "--remote", "origin"]).status.code(), Some(1));
    assert_eq!(hub.state("task"), "working");
    assert_eq!(saved(&clone, &["--remote", "origin", "task"]), [clone.rescue()]);
}

#[test]
fn where_nothing_was_ever_declared_it_says_so() {
    let repo = Repo::new();
    let output = repo.aynig_ok(["log"]);
    assert_eq!(out(&output), "");
    assert!(err(&output).contains("main has no state event yet"), "{}", err(&output));
    assert_refused(&repo.aynig(["log", "nowhere"]), 1, &["no branch nowhere", "`git branch` lists"]);
    assert_refused(&repo.aynig(["log", "main", "--branch", "main"]), 2, &["cannot be used with"]);
    assert_refused(&Repo::unborn().aynig(["log"]), 3, &["no commit yet"]);
    repo.ready("task", "build");
    let file = format!("file://{}", repo.path.display());
    let shallow = repo.beside("shallow");
    repo.git(["clone", "--quiet", "--depth=1", "--branch=task", &file, shallow.to_str().unwrap()]);
    for arguments in [["log"].as_slice(), &["log", "--reverse"]] {
        let output =
            repo.aynig_command().arg("-C").arg(&shallow).args(arguments).output().expect("aynig runs");
        assert!(out(&output).contains("what was before is not in this clone"), "{}", out(&output));
    }
}

/// 10,000 commits: 2,500 requests, each leased twice and advanced.
fn long(repo: &Repo) {
    let held = lease("one", "alpha");
    let mut commits = Vec::new();
    for at in (0..10_000).step_by(4) {
        commits.push((at, "Ada", "please\n\ndwp-state: build\n"));
        commits.push((at + 1, "Runner", held.as_str()));
        commits.push((at + 2, "Runner", held.as_str()));
        commits.push((at + 3, "Runner", "done\n\ndwp-state: done\n"));
    }
    history(repo, "task", &commits);
}

#[test]
fn ten_thousand_commits_are_told_and_only_as_far_as_wanted() {
    let repo = Repo::new();
    long(&repo);
    assert_eq!(told(&repo, &["task"]).iter().filter(|line| !line.starts_with(' ')).count(), 5_000);
    let output =
        repo.aynig_command().args(["log", "task"]).stdout(Stdio::piped()).spawn().map(|mut child| {
            let mut line = [0; 12];
            std::io::Read::read_exact(child.stdout.as_mut().expect("piped"), &mut line).expect("a line");
            drop(child.stdout.take());
            child.wait().expect("it ends")
        });
    assert_eq!(output.expect("aynig runs").code(), Some(0), "a reader that went away is no failure");
}

#[test]
fn lines_fit_the_terminal_and_names_below_them_are_whole() {
    let repo = Repo::new();
    let rescue = format!("refs/aynig/rescue/{}/one", "long-name".repeat(12));
    history(
        &repo,
        "task",
        &[
            (
                1_000,
                "漢字",
                "漢字の長い題名漢字の長い題名漢字の長い題名漢字の長い題名漢字の長い題名漢字\n\ndwp-state: build\n",
            ),
            (1_100, "Runner", &lease("one", "alpha")),
            (1_150, "Runner", &stalled("one", &format!("It broke.\n\nSaved: {rescue} (so)."))),
        ],
    );
    for columns in [130, 100, 80, 70, 30, 3] {
        let (shown, code) = repo.in_terminal((20, columns), &[], &["log", "--no-pager", "task"]).finish();
        assert_eq!(code, 0);
        let shown = plain(&shown);
        assert!(shown.contains(&rescue), "{shown}");
        for line in shown.lines().filter(|line| !line.starts_with("            ")) {
            assert!(line.width() <= usize::from(columns), "{columns}: {line:?}");
        }
        // Without room in its line, the reason gets a line of its own.
        let below = shown.contains("\n            It broke.\n");
        assert_eq!(
            (shown.contains("It broke."), below),
            (columns > 20, (70..=80).contains(&columns) || columns == 30),
            "{shown}"
        );
    }
    let (shown, _) = repo.in_terminal((20, 100), &[], &["log", "--no-pager", "task"]).finish();
    assert!(shown.contains("\x1b[1m\x1b[31mbuild → stalled") && shown.contains("\x1b[32mbuild"), "{shown:?}");
}

#[test]
fn a_column_shrinks_or_goes_whole() {
    let repo = Repo::new();
    history(
        &repo,
        "task",
        &[
            (1_000, "Bea", "please\n\ndwp-state: build\n"),
            (1_100, "Runner", &lease("one", "alpha")),
            (101_060, "Runner", "it is built\n\ndwp-state: review\n"),
        ],
    );
    for (columns, expected) in [
        (90, "1970-01-02T04:04:20Z  build → review        27 h 46 min  alpha"),
        (70, "1970-01-02T04:04:20Z  build → review     27 h  alpha"),
        (60, "1970-01-02T04:04:20Z  build → review     27 h"),
        (50, "1970-01-02T04:04:20Z  build → review"),
        (40, "1970-01-02  build → review"),
        (30, "build → review"),
    ] {
        let (shown, _) = repo.in_terminal((20, columns), &[], &["log", "--no-pager", "task"]).finish();
        let shown = plain(&shown);
        assert_eq!(
            shown.lines().next().map(|line| line[12..].trim_end()),
            Some(expected),
            "{columns}: {shown}"
        );
        assert!(shown.contains("it is built") && !shown.contains('…'), "{columns}: {shown}");
    }
}

#[test]
fn a_terminal_is_paged_as_git_does_it() {
    let repo = Repo::new();
    repo.ready("task", "build");
    let paged = |variables: &[(&str, &str)], arguments: &[&str]| {
        let (shown, code) = repo.in_terminal((20, 100), variables, arguments).finish();
        assert_eq!(code, 0, "{shown:?}");
        shown
    };
    let log = ["log", "task"].as_slice();
    let shown = paged(&[("GIT_PAGER", "sed 's/^/paged: /'; echo \"$LESS $LV\"")], log);
    assert!(plain(&shown).starts_with("paged: ") && plain(&shown).contains("please build"), "{shown:?}");
    assert!(shown.contains("FRX -c") && shown.contains("\x1b[32m"), "{shown:?}");
    let shown = paged(&[("PAGER", "sed 's/^/paged: /'"), ("NO_COLOR", "1")], log);
    assert!(shown.starts_with("paged: ") && !shown.contains('\x1b'), "{shown:?}");
    repo.git(["config", "core.pager", "sed 's/^/configured: /'"]);
    assert!(plain(&paged(&[("PAGER", "false")], log)).starts_with("configured: "));
    for (pager, arguments) in
        [("cat", log), ("", log), ("false", &["log", "--no-pager", "task"]), ("no-such-pager", log)]
    {
        let shown = paged(&[("GIT_PAGER", pager)], arguments);
        assert!(plain(&shown).starts_with(&repo.head("task")[..10]), "{pager}: {shown:?}");
    }
    // Only the log itself is paged, and only on a terminal.
    assert!(paged(&[("GIT_PAGER", "sed 's/^/paged: /'")], &["log", "main"]).starts_with("main has no"));
    let output = repo.aynig_command().env("GIT_PAGER", "false").args(log).output().expect("aynig runs");
    assert!(out(&output).contains("please build"), "{}", out(&output));
    let other = Repo::new();
    long(&other);
    let (shown, code) = other.in_terminal((20, 100), &[("GIT_PAGER", "head -n 1")], log).finish();
    assert_eq!((plain(&shown).lines().count(), code), (1, 0), "a pager that has seen enough ends it");
}

#[test]
fn a_pager_outlives_an_interrupt_as_with_git() {
    let repo = Repo::new();
    repo.ready("task", "build");
    let room = repo.beside("x").parent().expect("the room").display().to_string();
    let pager = repo.beside("pager");
    let script = format!(
        "#!/bin/sh\ntrap 'echo told' INT\ncat >/dev/null\necho reading\nuntil [ -e '{room}/go' ]; do [ -d '{room}' ] || exit; \
         sleep 0.05; done\necho bye\n"
    );
    std::fs::write(&pager, script).expect("a file");
    std::fs::set_permissions(&pager, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("chmod");
    repo.git(["remote", "add", "origin", "."]);
    for arguments in [["log", "task"].as_slice(), &["log", "task", "--remote", "origin"]] {
        let mut terminal = repo.in_terminal((20, 100), &[("GIT_PAGER", pager.to_str().unwrap())], arguments);
        wait_until("the pager", || terminal.shown().contains("reading"));
        terminal.press(b"\x03");
        wait_until("the interrupt", || terminal.shown().contains("told"));
        repo.release("go");
        let (shown, code) = terminal.finish();
        assert!(code == 0 && shown.contains("bye"), "{code}: {shown:?}");
        std::fs::remove_file(repo.beside("go")).expect("it was there");
    }
}
