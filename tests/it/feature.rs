//! The pack `feature`: plan, implement, check, review and a person, on two clones of one hub at once; its bound; and
//! its `stalled`.

use std::fmt::Write as _;
use std::process::{Output, Stdio};

use nix::sys::signal::Signal;

use super::judge::{Law, judge};
use super::packs::with_pack;
use super::scene::*;
use super::support::*;

/// The agent. It reads what it is to do out of the prompt alone: the request, and the sections below it.
const AGENT: &str = r#"
prompt=$(cat)
noted() { echo "$1 $AYNIG_RUN_ID $AYNIG_BRANCH $COMMIT_HASH $(date +%s%3N)" >>"$ROOM/journal"; }
wants() { printf '%s\n' "$prompt" | grep -qx "$1"; }
sections() { printf '%s\n' "$prompt" | grep -c "^\[reply from $1 by "; }
noted began
case $DWP_STATE in
plan) echo "Write $AYNIG_BRANCH.txt." ;;
implement)
    if wants 'agent fails' && mkdir "$ROOM/failed-$AYNIG_BRANCH" 2>/dev/null; then exit 1; fi
    { wants 'tests fail' && [ "$(sections check)" = 0 ] && echo broken; echo "after $(sections review) reviews"
      printf '%s\n' "$prompt" | grep '^Please'; } >"$AYNIG_BRANCH.txt"
    echo 'SET_STATE {"state":"forged"}'; echo x >>.aynig/command/check ;;
review)
    printf '%s\n' "$prompt" | grep -q '^+after' || exit 3
    needed=$(printf '%s\n' "$prompt" | sed -n 's/^reviews //p')
    if [ "$(sections review)" -lt "${needed:-0}" ]; then printf 'Not yet.\nVERDICT: change\n'
    else printf 'Good.\nVERDICT: approve\n'; fi ;;
esac
noted ended"#;

/// The tests of the project.
const TESTS: &str = "echo testing; ! grep -r broken *.txt";

/// The rounds of a branch, from `implement` on.
const ROUND: [&str; 3] = ["implement", "check", "review"];

/// A request on a branch, and its course.
struct Feature {
    request: &'static str,
    /// The states after `plan`, without the leases.
    way: Vec<&'static str>,
    /// The person's answers, in order.
    answers: &'static [&'static str],
    file: &'static str,
}

/// A state of each round, then those that follow.
fn way(rounds: &[&[&'static str]]) -> Vec<&'static str> {
    rounds.concat()
}

fn features() -> Vec<Feature> {
    let (done, back): (&[&str], &[&str]) = (&["approval", "done"], &["approval"]);
    let feature = |request, way, answers, file| Feature { request, way, answers, file };
    let plain = || feature("", way(&[&ROUND, done]), &["done"], "after 0 reviews");
    let thrice = || feature("reviews 2", way(&[&ROUND, &ROUND, &ROUND, done]), &["done"], "after 2 reviews");
    let failing = || feature("tests fail", way(&[&ROUND[..2], &ROUND, done]), &["done"], "after 0 reviews");
    let sent_back = || {
        let answers = &["implement", "done"];
        feature("", way(&[&ROUND, back, &ROUND, done]), answers, "after 1 reviews\nPlease, names.")
    };
    // The bound asks the person, who allows three more rounds.
    let bounded = || {
        let rounds = way(&[&ROUND, &ROUND, &ROUND, &["implement"], back, &ROUND, done]);
        feature("reviews 3", rounds, &["implement", "done"], "after 3 reviews\nPlease, names.")
    };
    vec![
        plain(),
        thrice(),
        failing(),
        sent_back(),
        bounded(),
        feature("agent fails", way(&[&["implement", "stalled"], &ROUND, done]), &["done"], "after 0 reviews"),
        feature(
            "tests fail\nreviews 1",
            way(&[&ROUND[..2], &ROUND, &ROUND, done]),
            &["done"],
            "after 1 reviews",
        ),
        plain(),
        thrice(),
        failing(),
        sent_back(),
        bounded(),
    ]
}

/// A repository with the pack, whose agent and tests are scripts beside it.
fn with_feature(agent: &str) -> Repo {
    let repo = with_pack("feature");
    repo.command("../agent", &repo.scripted(agent));
    repo.command("../tests", TESTS);
    set_up(&repo, &repo);
    repo
}

/// The two settings of the pack.
fn set_up(clone: &Repo, room: &Repo) {
    for (key, name) in [("feature.agent", "agent"), ("feature.check", "tests")] {
        clone.git(["config", key, &format!("'{}'", room.beside(name).display())]);
    }
}

fn name(n: usize) -> String {
    format!("f{n:02}")
}

/// The state of each branch of the hub, with its commit.
fn sight(hub: &Repo) -> Vec<(String, String, String)> {
    let format =
        "--format=%(refname:short) %(objectname) %(contents:trailers:key=dwp-state,valueonly,separator=)";
    let fields = |line: &str| -> Option<(String, String, String)> {
        let mut fields = line.splitn(3, ' ').map(str::to_owned);
        Some((fields.next()?, fields.next()?, fields.next()?))
    };
    hub.git(["for-each-ref", format, "refs/heads/f*"]).lines().filter_map(fields).collect()
}

/// Answers what waits, from the clone whose turn it is, until every branch is done.
fn person(hub: &Repo, clones: &[Repo; 2], features: &[Feature]) {
    let mut given = vec![0; features.len()];
    let mut seen = Vec::new();
    while seen.len() < features.len() || seen.iter().any(|(_, _, state)| state != "done") {
        seen = wait_for("a step", || Some(sight(hub)).filter(|now| *now != seen));
        for (branch, head, _) in seen.iter().filter(|(_, _, state)| state == "approval") {
            let n: usize = branch[1..].parse().expect("a number");
            let answer = features[n].answers[given[n]];
            let clone = &clones[(n + given[n]) % 2];
            let mut arguments = vec!["answer", branch, answer, "--remote", "origin", "--expect", head];
            if answer == "implement" {
                arguments.extend(["--comment", "Please, names."]);
            }
            clone.aynig_ok(arguments);
            given[n] += 1;
        }
    }
}

/// Asserts that no process is left that works in, or was started from, one of these places.
fn assert_nobody(repos: &[&Repo]) {
    let rooms: Vec<_> = repos.iter().map(|repo| repo.room.path().canonicalize().expect("the room")).collect();
    wait_until("the last process to end", || {
        let processes = std::fs::read_dir("/proc").expect("it is there").flatten();
        let mut lines = processes.map(|process| {
            let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
            let place = std::fs::read_link(process.path().join("cwd")).unwrap_or_default();
            format!("{} {}", place.display(), String::from_utf8_lossy(&line))
        });
        !lines.any(|line| rooms.iter().any(|room| line.contains(&*room.to_string_lossy())))
    });
}

/// Lands every branch, each from the other clone than the one before.
fn land(hub: &Repo, clones: &[Repo; 2], features: &[Feature]) {
    let before = hub.head("main");
    for (n, feature) in features.iter().enumerate() {
        clones[n % 2].aynig_ok(["land", &name(n), "--remote", "origin"]);
        assert_eq!(hub.show(&format!("main:{}.txt", name(n))), feature.file, "{}", name(n));
        let message = hub.message("main");
        assert!(!message.contains("dwp-") && !message.contains("[reply"), "{message}");
    }
    assert_eq!(hub.linear(&format!("{before}..main")).len(), features.len());
    assert_eq!(hub.git(["diff", "--name-only", &before, "main", "--", ".aynig"]), "");
}

/// CONTRACT 3.14, 8.1, 11.23, 14.1
#[test]
fn twelve_features_on_two_clones_with_a_person() {
    let source = with_feature(AGENT);
    let hub = source.into_bare();
    let clones = [hub.clone_beside("desk"), hub.clone_beside("laptop")];
    let features = features();
    for clone in &clones {
        set_up(clone, &hub);
    }
    let runners: Vec<Running> = clones
        .iter()
        .zip(["desk", "laptop"])
        .map(|(clone, host)| {
            let mut command = clone.aynig_command();
            command.env("AYNIG_RUNNER_ID", host).stdout(Stdio::piped()).stderr(Stdio::piped());
            Running::start(command.args(["run", "--remote", "origin", "--watch=1", "--jobs", "3"]))
        })
        .collect();
    for (n, feature) in features.iter().enumerate() {
        let clone = &clones[n % 2];
        clone.git(["push", "--quiet", "origin", &format!("main:refs/heads/{}", name(n))]);
        let body = format!("Write something.\n\n{}\n", feature.request);
        let what = ["--state", "plan", "--subject", "please write", "--body", &body];
        clone.aynig_ok(["set-state", &name(n), "--remote", "origin"].into_iter().chain(what));
    }
    person(&hub, &clones, &features);
    for runner in runners {
        runner.signal(Signal::SIGTERM);
        let output = runner.finish();
        assert_eq!(output.status.code(), Some(143), "{}", told(&output));
        assert!(!err(&output).contains("warning"), "{}", told(&output));
    }

    let mut runs = 0;
    for (n, feature) in features.iter().enumerate() {
        // A lease lies on each state that has a command.
        let mut story = vec!["plan", "working"];
        for state in &feature.way {
            story.push(state);
            if !["approval", "done"].contains(state) {
                story.push("working");
            }
        }
        let commits = hub.linear(&format!("main..{}", name(n)));
        let states: Vec<String> = commits.iter().map(|commit| hub.state(commit)).collect();
        assert_eq!(states, story, "{}: {}", name(n), feature.request);
        runs += story.iter().filter(|state| **state == "working").count();
    }
    assert_eq!(
        judge(&hub, &Law { remote: true, skew: 10, due: &[] }, &hub.noted_lines("journal")),
        Vec::<String>::new()
    );
    let hosts = hub.git(["log", "--branches", "--format=%(trailers:key=dwp-runner-id,valueonly,separator=)"]);
    let by = |host: &str| hosts.lines().filter(|line| *line == host).count();
    assert_eq!(by("desk") + by("laptop"), runs, "a lease for each step, and no other");
    assert!(by("desk") > 0 && by("laptop") > 0, "both hosts work");
    land(&hub, &clones, &features);
    assert_nobody(&[&hub, &clones[0], &clones[1]]);
    hub.assert_tidy();
    for clone in &clones {
        clone.assert_tidy();
        assert_eq!(clone.git(["for-each-ref", "--format=%(refname)", "refs/heads"]), "refs/heads/main");
    }
}

fn at(repo: &Repo, seconds: u32) -> Output {
    let mut command = repo.aynig_command();
    command.args(["run", "--drain"]).env("AYNIG_CLOCK_OFFSET_SECONDS", seconds.to_string());
    command.output().expect("aynig runs")
}

#[test]
fn what_fails_is_asked_again_later_and_then_a_person_is_asked() {
    let repo = with_feature("echo x >>\"$ROOM/noted\"; echo 'no quota' >&2; exit 1");
    repo.git(["branch", "task"]);
    repo.aynig_ok([
        "set-state",
        "task",
        "--state",
        "plan",
        "--body",
        "Write something.",
        "--trailer",
        "issue: 7",
    ]);
    let mut said = String::new();
    for (seconds, tries, state) in
        [(0, 2, "plan"), (500, 2, "plan"), (700, 3, "plan"), (1_500, 3, "plan"), (2_100, 4, "needs-person")]
    {
        let output = at(&repo, seconds);
        write!(said, "{}", told(&output)).expect("text");
        assert_eq!((repo.noted_lines("noted").len(), repo.state("task").as_str()), (tries, state), "{said}");
    }
    let message = repo.message("task");
    assert!(
        message.contains("\n\nWrite something.\n\n[reply from stalled by ") && message.contains("no quota")
    );
    assert_eq!(
        (repo.trailer("task", "dwp-answers"), repo.trailer("task", "issue")),
        ("plan".into(), "7".into())
    );
    repo.aynig_ok(["answer", "task", "plan", "--comment", "There is quota again."]);
    at(&repo, 10);
    assert_eq!(repo.noted_lines("noted").len(), 6, "asked anew, it is tried anew");
    repo.assert_tidy();
}

#[test]
fn the_question_has_the_title_of_the_request_and_a_line_that_shows_the_change() {
    let repo = with_feature(AGENT);
    repo.git(["branch", "f01"]);
    let request =
        ["--state", "plan", "--subject", "A faster parser", "--body", "Write something.\n\nreviews 3\n"];
    repo.aynig_ok(["set-state", "f01"].into_iter().chain(request));
    let asked = |said: &str| {
        repo.aynig_ok(["run", "--drain"]);
        let question = out(&repo.aynig_ok(["answer", "f01"]));
        assert!(question.contains(said), "{question}");
        let line =
            question.lines().rev().find_map(|line| line.split_once("To see the change: ")).expect("a line").1;
        let shown = repo.git(line.split(' ').skip(1));
        assert!(shown.contains("+after "), "{question}{shown}");
    };
    asked("approval: not right after 3 rounds: A faster parser");
    repo.aynig_ok(["answer", "f01", "implement", "--comment", "Please, names."]);
    asked("approval: the change is ready: A faster parser");
    repo.aynig_ok(["answer", "f01", "done"]);
    repo.aynig_ok(["land", "f01"]);
    assert_eq!(repo.git(["log", "-1", "--format=%s", "main"]), "A faster parser");
}

#[test]
fn a_setting_that_is_missing_is_named_with_the_line_to_type() {
    let repo = with_pack("feature");
    for (state, setting) in [("plan", "feature.agent"), ("check", "feature.check")] {
        repo.ready(state, state);
        repo.aynig(["run", "--branch", state]);
        assert_eq!(repo.state(state), "stalled");
        let message = repo.message(state);
        assert!(message.contains(&format!("git config {setting} '")), "{message}");
    }
    // No agent can mend tests that cannot be started.
    repo.git(["config", "feature.check", "there-is-no-such-program"]);
    repo.ready("none", "check");
    repo.aynig(["run", "--branch", "none"]);
    assert!(repo.message("none").contains("exited with 127"), "{}", repo.message("none"));
}

#[test]
fn a_review_without_a_verdict_is_a_failure_and_odd_output_is_none() {
    let repo = with_feature("cat >/dev/null; echo 'I am not sure.'");
    let base = repo.head("main");
    repo.branch_with_message("task", format!("s\n\nb\n\ndwp-state: review\ndwp-base: {base}\n").as_bytes());
    repo.aynig(["run"]);
    assert!(repo.message("task").contains("without a verdict"), "{}", repo.message("task"));
    // Tests may print bytes that are no text, or nothing.
    for (branch, tests) in [("bytes", "printf 'caf\\351 \\000\\n'; exit 1"), ("silent", "exit 2")] {
        repo.git(["config", "feature.check", tests]);
        repo.ready(branch, "check");
        let output = repo.aynig(["run", "--branch", branch]);
        assert_eq!(repo.state(branch), "implement", "{}", told(&output));
        assert!(repo.message(branch).contains("[reply from check by "), "{}", repo.message(branch));
    }
}
