//! `aynig status`.

use serde_json::Value;

use super::scene::told;
use super::support::*;
use super::terminal::plain;

fn of<'a>(rows: &'a Value, branch: &str) -> &'a Value {
    rows.as_array()
        .expect("an array")
        .iter()
        .find(|row| row["branch"] == branch)
        .unwrap_or_else(|| panic!("{branch}: {rows}"))
}

const KEYS: &[&str] = &[
    "branch",
    "commit",
    "state",
    "kind",
    "originState",
    "runId",
    "runner",
    "leaseSeconds",
    "expiresAt",
    "secondsLeft",
    "notBefore",
    "preferredRunner",
    "preferredUntil",
    "secondsSeen",
    "command",
    "note",
    "cause",
    "deferred",
    "subject",
    "asked",
    "date",
    "reason",
    "ended",
    "cancelBy",
    "interrupted",
    "unable",
    "rescueRef",
    "waitsFor",
    "answers",
    "secondsWaited",
];

/// A repository with one branch of every kind.
fn zoo() -> Repo {
    let repo = Repo::with_commands(&[("build", "exit 0")]);
    repo.ready("ready", "build");
    repo.ready("parked", "done");
    repo.ready("held", "build");
    repo.foreign_lease("held", "11111111-2222-4333-8444-555555555555", "other", 300, 0);
    repo.ready("late", "build");
    repo.foreign_lease("late", "21111111-2222-4333-8444-555555555555", "other\u{1b}[31m", 10, 100);
    repo.branch_with_message("odd", b"s\n\ndwp-state: ../x\n");
    repo.git(["branch", "plain"]);
    repo.git(["symbolic-ref", "refs/heads/link", "refs/heads/ready"]);
    repo
}

/// CONTRACT 11.5
#[test]
fn every_kind_as_json() {
    let repo = zoo();
    let rows = listed(&repo.aynig_ok(["status", "--all", "--json"]));
    for row in rows.as_array().unwrap() {
        let keys: Vec<&String> = row.as_object().unwrap().keys().collect();
        assert_eq!(keys, KEYS);
    }
    let names: Vec<&str> =
        rows.as_array().unwrap().iter().map(|row| row["branch"].as_str().unwrap()).collect();
    assert_eq!(names, ["held", "late", "link", "odd", "parked", "ready"], "unmanaged ones are only counted");
    for (branch, kind, state) in [
        ("ready", "ready", "build"),
        ("parked", "rests", "done"),
        ("held", "working", "working"),
        ("late", "expired", "working"),
        ("odd", "invalid", "../x"),
    ] {
        assert_eq!(of(&rows, branch)["kind"], kind, "{branch}");
        assert_eq!(of(&rows, branch)["state"], state, "{branch}");
    }
    assert_eq!(of(&rows, "link")["kind"], "excluded");
    let ready = of(&rows, "ready");
    assert_eq!(ready["command"], ".aynig/command/build");
    assert_eq!(ready["note"], Value::Null);
    assert_eq!(ready["subject"], "please build");
    assert_eq!(ready["commit"], repo.head("ready").as_str());
    assert!(of(&rows, "parked")["note"].as_str().unwrap().contains(".aynig/command/done is not in commit"));
    let held = of(&rows, "held");
    assert_eq!(held["originState"], "build");
    assert_eq!(held["runId"], "11111111-2222-4333-8444-555555555555");
    assert_eq!(held["runner"], "other");
    assert_eq!(held["leaseSeconds"], 300);
    assert_eq!(held["asked"], "please build");
    assert!((200..=300).contains(&held["secondsLeft"].as_i64().unwrap()), "{held}");
    assert!(held["expiresAt"].as_str().unwrap().ends_with('Z'));
    assert!(of(&rows, "late")["secondsLeft"].as_i64().unwrap() <= -90);
}

#[test]
fn a_table_for_people() {
    let repo = zoo();
    let output = repo.aynig_ok(["status", "--all"]);
    let said = out(&output);
    assert_eq!(said.lines().count(), 6, "{said}");
    let line = |branch: &str| said.lines().find(|line| line.starts_with(branch)).unwrap().to_owned();
    assert!(line("ready").contains(".aynig/command/build"));
    assert!(line("held").contains("working (build)") && line("held").contains("other: "), "{said}");
    assert!(line("late").contains("expired 9") && line("late").contains(" s ago"), "{said}");
    assert!(!said.contains('\u{1b}'), "{said:?}");
    // main and plain.
    assert!(err(&output).contains("2 branches declare no state"), "{}", err(&output));
    let column = line("held").find("working").unwrap();
    assert_eq!(line("ready").find("build"), Some(column), "aligned: {said}");
}

#[test]
fn globs_narrow_and_show_unmanaged_branches() {
    let repo = zoo();
    let rows = listed(&repo.aynig_ok(["status", "--branch", "pl*", "--branch", "ready", "--json"]));
    let kinds: Vec<(&str, &str)> = rows
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["branch"].as_str().unwrap(), row["kind"].as_str().unwrap()))
        .collect();
    assert_eq!(kinds, [("plain", "unmanaged"), ("ready", "ready")]);
    assert_refused(&repo.aynig(["status", "--branch", "["]), 2, &["--branch [ is not a glob"]);
}

#[test]
fn a_brace_in_a_name_is_part_of_it() {
    let repo = Repo::with_commands(&[("build", "echo 'SET_STATE {\"state\":\"done\"}'")]);
    let names = ["x{a,b}", "x{c", "xa", "xb"];
    for name in names {
        repo.ready(name, "build");
    }
    let shown = |name: &str| {
        let rows = listed(&repo.aynig_ok(["status", name, "--json"]));
        rows.as_array()
            .unwrap()
            .iter()
            .map(|row| row["branch"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    for name in names {
        assert_eq!(shown(name), [name]);
    }
    repo.aynig_ok(["run", "x{a,b}"]);
    let states: Vec<String> = names.iter().map(|name| repo.trailer(name, "dwp-state")).collect();
    assert_eq!(states, ["done", "build", "build", "build"]);
}

/// A long name does not widen the lines of the others.
#[test]
fn a_long_name_is_shown_in_full() {
    let repo = Repo::with_commands(&[("build", "exit 0")]);
    let long = "l".repeat(200);
    for name in ["short", &long] {
        repo.ready(name, "build");
    }
    let said = out(&repo.aynig_ok(["status", "--all"]));
    let line = |name: &str| said.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(line("short  ").starts_with("short  build"), "{said}");
    assert!(line(&long).starts_with(&format!("{long}  build")), "{said}");
}

#[test]
fn the_current_branch_says_that_run_skips_it() {
    let repo = Repo::with_commands(&[("build", "exit 0")]);
    repo.git(["checkout", "-q", "-b", "task"]);
    repo.aynig_ok(["set-state", "--state", "build", "--subject", "go"]);
    let row = &listed(&repo.aynig_ok(["status", "--json"]))[0];
    assert_eq!(row["branch"], "task");
    assert_eq!(row["kind"], "ready");
    assert_eq!(row["command"], ".aynig/command/build");
    assert!(row["note"].as_str().unwrap().contains("`aynig run task --current-branch include`"), "{row}");
    let said = out(&repo.aynig_ok(["status"]));
    for words in ["task  build  ready", "command  .aynig/command/build", "--current-branch include", "  go"] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn the_lease_of_one_branch_in_a_few_lines() {
    let repo = zoo();
    repo.git(["checkout", "--quiet", "held"]);
    let said = out(&repo.aynig_ok(["status"]));
    for words in [
        "held  working (build)  working",
        "other, attempt 11111111",
        " s left (until ",
        "asked    please build",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn a_role_changes_the_command() {
    let repo = Repo::with_commands(&[("build", "exit 0")]);
    repo.command(".aynig/roles/dev/command/build", "exit 0");
    repo.commit_all("role");
    repo.ready("work", "build");
    let command = |arguments: &[&str]| {
        let arguments = ["status", "--all", "--json"].into_iter().chain(arguments.iter().copied());
        of(&listed(&repo.aynig_ok(arguments)), "work")["command"].as_str().unwrap().to_owned()
    };
    assert_eq!(command(&[]), ".aynig/command/build");
    assert_eq!(command(&["--role", "dev"]), ".aynig/roles/dev/command/build");
    assert_eq!(command(&["--role", "other"]), ".aynig/command/build");
}

#[test]
fn where_there_is_no_current_branch_it_asks_for_one() {
    let repo = Repo::new();
    repo.git(["checkout", "--quiet", "--detach"]);
    assert_refused(&repo.aynig(["status"]), 3, &["detached", "--branch"]);
    assert_refused(&Repo::unborn().aynig(["status"]), 3, &["main has no commit yet"]);
    let bare = repo.beside("bare.git");
    repo.git(["clone", "--quiet", "--bare", ".", bare.to_str().unwrap()]);
    assert_refused(&repo.aynig(["-C", bare.to_str().unwrap(), "status"]), 3, &["is bare", "--branch"]);
    repo.aynig_ok(["-C", bare.to_str().unwrap(), "status", "--all"]);
}

#[test]
fn people_read_the_same_kind_everywhere_and_why_it_stalled() {
    let repo = Repo::with_commands(&[("bad", "exit 3"), ("review", "exit 0")]);
    repo.ready("broke", "bad");
    assert_eq!(repo.aynig(["run"]).status.code(), Some(1));
    repo.ready("rests", "done");
    repo.ready("slip", "revew");
    let rows = listed(&repo.aynig_ok(["status", "--all", "--json"]));
    for (branch, kind) in [("broke", "stalled"), ("rests", "rests"), ("slip", "rests")] {
        assert_eq!(of(&rows, branch)["kind"], kind);
    }
    assert_eq!(of(&rows, "broke")["reason"], "`bad` exited with 3.");
    assert_eq!(of(&rows, "rests")["reason"], Value::Null);
    let (shown, _) = repo.in_terminal((30, 140), &[], &["status", "--all"]).finish();
    let output = repo.aynig_ok(["status", "--all"]);
    for said in [plain(&shown), out(&output)] {
        let line = |branch: &str| said.lines().find(|line| line.starts_with(branch)).unwrap().to_owned();
        assert!(line("broke").contains("stalled  stalled") && line("broke").contains("`bad` exited with 3."));
        assert!(line("rests").contains("done     rests ") && !line("rests").contains("command"), "{said}");
        assert!(line("slip").contains(" rests ") && line("slip").contains("did you mean review?"), "{said}");
        assert!(!said.contains("waiting") && !said.contains("no command for this state"), "{said}");
    }
    assert!(err(&output).contains("3 branches: 1 stalled, 2 rests"), "{}", err(&output));
    repo.git(["checkout", "--quiet", "broke"]);
    let said = out(&repo.aynig_ok(["status"]));
    assert!(said.starts_with("broke  stalled  stalled\n"), "{said}");
    assert!(said.contains("  why      `bad` exited with 3.\n") && !said.contains("no command"), "{said}");
    repo.git(["checkout", "--quiet", "rests"]);
    assert!(out(&repo.aynig_ok(["status"])).contains(".aynig/command/done does not exist"));
}

#[test]
fn what_a_run_would_not_accept_is_reported() {
    let repo = Repo::new();
    assert_eq!(err(&repo.aynig_ok(["status", "--waiting"])), "no branch waits for an answer\n");
    repo.git(["config", "aynig.jobs", "many"]);
    repo.git(["config", "aynig.leaseSecond", "9"]);
    let said = err(&repo.aynig_ok(["status", "--all"]));
    assert!(said.contains("warning: aynig.jobs = \"many\""), "{said}");
    assert!(said.contains("warning: unknown setting aynig.leaseSecond"), "{said}");
}

/// CONTRACT 11.28
#[test]
fn the_exit_code_says_what_branches_need() {
    let repo = zoo();
    repo.ready("rests", "nothing");
    repo.ready("broke", "stalled");
    repo.branch_with_message("asks", b"Well?\n\ndwp-state: review\ndwp-waits-for: Jane\n");
    for (names, code) in [
        (&["rests", "plain"][..], 0),
        (&["none*"], 0),
        (&["rests", "ready"], 10),
        (&["held"], 10),
        (&["late"], 10),
        (&["asks", "ready"], 11),
        (&["asks", "broke"], 12),
        (&["odd"], 12),
        (&["--all"], 12),
        (&["--waiting"], 11),
        (&["nowhere"], 1),
    ] {
        let json = repo.aynig(["status", "--exit-code", "--json"].iter().chain(names).copied());
        assert_eq!(json.status.code(), Some(code), "{names:?}: {}", told(&json));
        let plain = repo.aynig(["status", "--exit-code"].iter().chain(names).copied());
        assert_eq!(plain.status.code(), Some(code), "{names:?}: {}", told(&plain));
        let without = repo.aynig(["status"].iter().chain(names).copied());
        assert_eq!(without.status.code(), Some(i32::from(code == 1)), "{names:?}");
    }
    assert_refused(&repo.aynig(["status", "--exit-code", "--watch"]), 2, &["--watch"]);
}

#[test]
fn a_branch_is_named_as_elsewhere() {
    let repo = zoo();
    let rows = |arguments: &[&str]| {
        let output = repo.aynig_ok(["status", "--json"].iter().chain(arguments).copied());
        listed(&output).as_array().unwrap().iter().map(|row| row["branch"].to_string()).collect::<Vec<_>>()
    };
    assert_eq!(rows(&["ready"]), ["\"ready\""]);
    assert_eq!(rows(&["l*", "--branch", "held"]), ["\"held\"", "\"late\"", "\"link\""]);
    assert_refused(&repo.aynig(["status", "nowhere"]), 1, &["there is no branch nowhere"]);
    let output = repo.aynig_ok(["status", "nowhere*"]);
    assert!(err(&output).contains("no branch matches"), "{}", err(&output));
    let output = repo.aynig_ok(["status", "ready", "l*", "nowhere*"]);
    assert!(err(&output).contains("no branch matches 'nowhere*'\n"), "{}", err(&output));
    assert!(!err(&output).contains("'l*'"), "{}", err(&output));
    assert_refused(
        &repo.aynig(["status", "--watch", "2"]),
        2,
        &["2 would be the name of a branch", "--watch=2"],
    );
    let unborn = Repo::unborn();
    let output = unborn.aynig_ok(["status", "--all"]);
    assert!(err(&output).contains("no branch has a commit yet; make one: `git commit"), "{}", err(&output));
    let bare = unborn.beside("bare.git");
    let bare = bare.to_str().expect("UTF-8");
    unborn.git(["init", "--quiet", "--bare", bare]);
    let output = unborn.aynig_ok(["-C", bare, "status", "--all"]);
    assert!(
        err(&output).contains("no branch has a commit yet; push one from a clone: `git push"),
        "{}",
        err(&output)
    );
    assert_refused(&repo.aynig(["-C", "/dev/null", "status"]), 2, &["-C /dev/null: it is no directory"]);
}

#[test]
fn it_changes_nothing() {
    let repo = zoo();
    let refs = |repo: &Repo| repo.git(["for-each-ref"]);
    let before = refs(&repo);
    repo.aynig_ok(["status", "--all"]);
    assert_eq!(refs(&repo), before);
}
