//! A hub that takes no refs below `refs/aynig/`: they have other names there.

use aynig::contract::ids::RemoteName;
use aynig::ledger::archive::archived_ref;
use aynig::ledger::deletion::delete;
use aynig::ledger::operate::Ledger;
use aynig::ledger::{Place, fetch};
use aynig::model::ids::OpId;

use super::*;
use crate::deferred::{deliveries, later};
use crate::ledger::{chat, op, open, run_with_node};

const SEND: &[&str] = &["--remote", "origin", "--trailer", "dwp-n: 1"];

const ELSEWHERE: &str = "refs/heads/aynig";

/// A hub that refuses refs below `refs/aynig/`, guarded, and two clones that know it.
fn scene(name: &str) -> (Repo, Repo, Repo) {
    let hub = hub(&[("slow", "next rests"), ("work", "echo \"$AYNIG_BRANCH\" >>\"$ROOM/ran\"; next done")]);
    hook(&hub, "pre-receive", &format!("exec '{}' hook pre-receive", binary().display()));
    hook(&hub, "update", "case $1 in refs/aynig/*) echo \"$1 is no name here\" >&2; exit 1;; esac");
    hub.ready("task", "slow");
    let (one, two) = (hub.clone_beside("one"), hub.clone_beside("two"));
    for repo in [&hub, &one, &two] {
        repo.git(["config", "aynig.refNamespace", name]);
    }
    (hub, one, two)
}

/// The names of the hub's refs, without those of ordinary branches.
fn ours(hub: &Repo) -> Vec<String> {
    let all = hub.git(["for-each-ref", "--format=%(refname)"]);
    all.lines()
        .filter(|name| !name.starts_with("refs/heads/") || name.contains("aynig"))
        .map(str::to_owned)
        .collect()
}

/// CONTRACT 5.39
#[test]
fn deferred_states_go_there_by_other_names() {
    for name in [ELSEWHERE, "refs/heads/bots/aynig/", "refs/custom"] {
        let (hub, one, two) = scene(name);
        let unaware = hub.clone_beside("unaware");
        assert_refused(&unaware.aynig(later("task", SEND)), 4, &["refs/aynig/deferred/task is no name here"]);
        one.aynig_ok(later("task", SEND));
        let slot = format!("{}/deferred/task", name.trim_end_matches('/'));
        assert_eq!(ours(&hub), [slot.as_str()]);
        // Its message requests `work`, and its name may be that of a branch.
        one.git(["fetch", "--quiet"]);
        for arguments in
            [["status", "--all", "--json"].as_slice(), &["status", "--all", "--remote", "origin", "--json"]]
        {
            let shown = listed(&one.aynig_ok(arguments.iter().copied()));
            let names: Vec<&str> =
                shown.as_array().expect("a list").iter().filter_map(|row| row["branch"].as_str()).collect();
            assert!(names.iter().all(|name| !name.contains("aynig")), "{names:?}");
        }
        assert!(out(&one.aynig_ok(["status", "task", "--remote", "origin"])).contains("work"));
        two.aynig_ok(["run", "--remote", "origin", "--drain"]);
        assert_eq!((deliveries(&hub, "task"), ours(&hub), hub.state("task")), (1, vec![], "done".to_owned()));
        assert_eq!(hub.noted_lines("ran"), ["task"]);
        // One that is withdrawn.
        hub.ready("other", "slow");
        one.aynig_ok(later("other", SEND));
        assert_eq!(ours(&hub).len(), 1);
        two.aynig_ok(["set-state", "--withdraw", "other", "--remote", "origin"]);
        assert_eq!(ours(&hub), Vec::<String>::new());
    }
}

/// CONTRACT 5.39
#[test]
fn nothing_there_is_run_as_a_branch() {
    let (hub, one, two) = scene(ELSEWHERE);
    one.aynig_ok(later("task", SEND));
    let slot = hub.head("refs/heads/aynig/deferred/task");
    // Neither by the hub itself, nor by name.
    hub.aynig_ok(["run", "--drain"]);
    assert_eq!(hub.state("task"), "rests");
    for clone in [&hub, &one] {
        clone.aynig(["run", "--branch", "aynig/**"]);
    }
    let by_name = ["set-state", "aynig/deferred/task", "--state", "work", "--remote", "origin"];
    assert_refused(&two.aynig(by_name), 1, &["aynig/deferred/task"]);
    assert_eq!(hub.head("refs/heads/aynig/deferred/task"), slot);
    assert_eq!(hub.noted_lines("ran"), Vec::<String>::new());
}

/// CONTRACT 5.39, 12.13
#[test]
fn ledgers_and_archives_are_there_and_the_guard_knows_them() {
    let (hub, one, two) = scene(ELSEWHERE);
    let origin = RemoteName::parse("origin").expect("a name");
    let (here, there) = (open(&one.path).handle(), open(&two.path).handle());
    let (run, node) = run_with_node(&here, &Place::Remote(origin.clone()));
    let ledger = format!("refs/heads/aynig/runs/{run}");
    assert_eq!(ours(&hub), [ledger.as_str()]);
    assert_eq!(fetch::fetch(&there, &origin).expect("it answers").moved, [run]);
    let mut other = Ledger::open(&there, run).expect("a ledger");
    other.operate(&op(OpId::random()), &[chat(node, "hello")], &[]).expect("an operation");
    assert_eq!(two.head(&format!("refs/aynig/runs/{run}")), hub.head(&ledger));
    for (what, refspec) in
        [("rewind", format!("+{}~1:{ledger}", hub.head(&ledger))), ("deletion", format!(":{ledger}"))]
    {
        let mut push = two.git_command();
        let pushed = push.args(["push", "origin", &refspec]).output().expect("git runs");
        assert!(!pushed.status.success() && err(&pushed).contains(&ledger), "{what}: {}", told(&pushed));
    }
    delete(&here, run, &op(OpId::random()), false).expect("deleted");
    assert_eq!(ours(&hub), [format!("refs/heads/aynig/archive/{run}/@ledger")]);
    let archived = archived_ref(run);
    Ledger::open(&there, run).expect("as it was").refresh().expect_err("it was deleted");
    assert_eq!(two.head(&archived), hub.head(&format!("refs/heads/aynig/archive/{run}/@ledger")));
}

/// CONTRACT 5.39
#[test]
fn the_doctor_tries_one_and_names_the_setting() {
    let (hub, one, _two) = scene(ELSEWHERE);
    let checked = |words: &[&str]| {
        let said = out(&one.aynig_ok(["doctor", "--remote", "origin"]));
        for word in words {
            assert!(said.contains(word), "{word}: {said}");
        }
        assert_eq!(ours(&hub), Vec::<String>::new());
    };
    checked(&["takes refs below refs/heads/aynig/"]);
    hub.git(["config", "--unset", "aynig.refNamespace"]);
    checked(&["something else in", "config aynig.refNamespace refs/heads/aynig"]);
    one.git(["config", "--unset", "aynig.refNamespace"]);
    checked(&[
        "does not take refs below refs/aynig/",
        "is no name here",
        "git config aynig.refNamespace refs/heads/aynig",
    ]);
    one.git(["config", "aynig.refNamespace", "refs/heads/aynig"]);
    hub.git(["update-ref", "refs/aynig/deferred/x", "main"]);
    let said = out(&one.aynig_ok(["doctor", "--remote", "origin"]));
    assert!(said.contains("origin has 1 ref below refs/aynig/"), "{said}");
}

/// CONTRACT 5.39
#[test]
fn a_branch_of_that_name_in_the_repository_is_no_missing_branch() {
    let repo = Repo::scene(&[("work", "next done")]);
    repo.git(["config", "aynig.refNamespace", "refs/heads/ay"]);
    repo.ready("ay/task", "work");
    let head = repo.head("ay/task");
    let words = ["branch ay/task is below aynig.refNamespace", "`git branch -m` gives it another name"];
    for (arguments, code) in [
        (["status", "ay/task"].as_slice(), 1),
        (&["wait", "ay/task", "--timeout", "9"], 1),
        (&["run", "ay/task"], 1),
        (&["set-state", "--state", "work", "--branch", "ay/task"], 3),
        (&["cancel", "ay/task"], 3),
    ] {
        assert_refused(&repo.aynig(arguments.iter().copied()), code, &words);
    }
    assert_eq!(repo.head("ay/task"), head);
    repo.git(["branch", "-m", "ay/task", "task"]);
    repo.aynig_ok(["run", "task"]);
    assert_eq!(repo.state("task"), "done");
}

/// CONTRACT 5.39, 12.13
#[test]
fn a_wrong_value_asks_no_remote() {
    let (hub, one, _two) = scene(ELSEWHERE);
    for value in ["aynig", "refs/heads", "refs/heads/run"] {
        one.git(["config", "aynig.refNamespace", value]);
        for arguments in [
            ["run", "--remote", "origin"].as_slice(),
            &later("task", SEND),
            &["status", "--all", "--remote", "origin"],
        ] {
            assert_refused(
                &one.aynig(arguments.iter().copied()),
                3,
                &["aynig.refNamespace", "refs/heads/aynig"],
            );
        }
        assert_eq!(ours(&hub), Vec::<String>::new());
    }
    // The guard does not know what it guards.
    hub.git(["config", "aynig.refNamespace", "nothing"]);
    let mut push = one.git_command();
    let pushed = push.args(["push", "origin", "main:new"]).output().expect("git runs");
    assert!(!pushed.status.success() && err(&pushed).contains("aynig.refNamespace"), "{}", told(&pushed));
}
