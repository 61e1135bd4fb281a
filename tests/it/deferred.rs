//! States that wait until their branch is free: `aynig set-state --when-free`.

use std::os::unix::process::ExitStatusExt;

use nix::sys::signal::Signal;

use super::scene::*;
use super::support::*;

/// Notes that it ran, and rests.
const WORK: &str = r#"echo "$AYNIG_BRANCH $DWP_N" >>"$ROOM/ran"; next done"#;

/// Waits to be released, and rests.
const SLOW: &str = "say at $$; await release; next done";

/// The arguments of `set-state --when-free`.
pub(crate) fn later<'a>(branch: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec!["set-state", "--branch", branch, "--state", "work", "--when-free"];
    arguments.extend(more);
    arguments
}

pub(crate) fn slots(repo: &Repo) -> Vec<String> {
    let listed = repo.git(["for-each-ref", "--format=%(refname)", "refs/aynig/deferred/"]);
    listed.lines().map(str::to_owned).collect()
}

/// How many commits of a branch deliver something.
pub(crate) fn deliveries(repo: &Repo, branch: &str) -> usize {
    repo.git(["log", "--no-show-signature", "--format=%(trailers:key=aynig-deferred,valueonly)", branch])
        .split_whitespace()
        .count()
}

/// A slip is asked about before the branch has the state.
#[test]
fn a_deferred_state_is_warned_of_as_any_other() {
    let repo = Repo::scene(&[("review", WORK)]);
    repo.ready("due", "review");
    repo.ready("rests", "nothing");
    let warned = |branch: &str, state: &str| {
        let trailer = "dwp-notbefore: x";
        let when_free = ["set-state", branch, "--when-free", "--state", state, "--trailer", trailer];
        err(&repo.aynig_ok(when_free))
    };
    for branch in ["rests", "due"] {
        let said = warned(branch, "revew");
        assert!(said.contains(&format!("{branch} has no command for revew; did you mean review?")), "{said}");
        assert!(said.contains("did you mean dwp-not-before?"), "{said}");
    }
    assert_eq!(repo.state("due"), "review");
    repo.aynig_ok(["set-state", "--withdraw", "due"]);
    assert!(!warned("due", "nosuch").contains("command"), "a state without a command is lawful");
}

/// CONTRACT 5.32
#[test]
fn a_branch_that_rests_gets_the_state_at_once() {
    let repo = Repo::scene(&[("work", WORK)]);
    repo.git(["branch", "plain"]);
    repo.ready("rests", "nothing");
    repo.branch_with_message("stalled", b"s\n\ndwp-state: stalled\n");
    for branch in ["plain", "rests", "stalled"] {
        let output = repo.aynig_ok(later(branch, &[]));
        assert_eq!(repo.state(branch), "work", "{}", told(&output));
    }
    assert_eq!(slots(&repo), Vec::<String>::new());
    // A state that is due or parked is not replaced.
    repo.branch_with_message("parked", b"s\n\ndwp-state: a\ndwp-not-before: 2999-01-01T00:00:00Z\n");
    repo.branch_with_message("asked", b"s\n\ndwp-state: a\ndwp-waits-for: person\n");
    for branch in ["plain", "parked", "asked"] {
        let head = repo.head(branch);
        let output = repo.aynig_ok(later(branch, &["--subject", "again"]));
        assert!(out(&output).contains("waits until the branch rests"), "{}", told(&output));
        assert_eq!(repo.head(branch), head, "{branch}");
        assert_eq!(repo.trailer(&format!("refs/aynig/deferred/{branch}"), "dwp-state"), "work");
    }
    repo.git(["update-ref", "-d", "refs/aynig/deferred/parked"]);
    repo.git(["update-ref", "-d", "refs/aynig/deferred/asked"]);
    for branch in ["parked", "asked"] {
        repo.aynig_ok(later(branch, &["--wake"]));
        assert_eq!(repo.state(branch), "work");
    }
}

/// CONTRACT 5.32, 5.33, 5.34
#[test]
fn a_state_waits_for_the_end_of_an_attempt_and_is_delivered_once() {
    let repo = Repo::scene(&[("slow", SLOW), ("work", WORK)]);
    repo.ready("task", "slow");
    let runner = repo.aynig_start(["run"]);
    let _command = repo.said_pid("at");
    let mut sender = repo.aynig_command();
    sender.args(later("task", &["--trailer", "dwp-n: 1", "--body", "the body", "--json"]));
    let sent = sender.env("GIT_AUTHOR_NAME", "Ann Other").output().expect("it runs");
    let sent = &listed(&sent)[0];
    assert_eq!((&sent["state"], &sent["outcome"]), (&"work".into(), &"deferred".into()), "{sent}");
    let slot = repo.head("refs/aynig/deferred/task");
    assert_eq!(sent["deferred"]["commit"].as_str(), Some(slot.as_str()));
    // A second, equal call changes nothing; another state fails, and names the holder.
    let again = repo.aynig_ok(later("task", &["--trailer", "dwp-n: 1", "--body", "the body"]));
    assert!(out(&again).contains("waits already"), "{}", told(&again));
    let other = repo.aynig(later("task", &["--trailer", "dwp-n: 2"]));
    assert_refused(&other, 1, &["work", "waits for task already", "nothing was changed"]);
    assert_eq!(repo.head("refs/aynig/deferred/task"), slot);
    let rows = listed(&repo.aynig_ok(["status", "--json", "task"]));
    assert_eq!(rows[0]["deferred"]["state"].as_str(), Some("work"), "{rows}");
    let shown = out(&repo.aynig_ok(["status", "task"]));
    assert!(shown.contains("is set when it rests"), "{shown}");
    // Another runner leaves it alone while the lease lives.
    let other = repo.aynig_ok(["--log-level", "debug", "run"]);
    assert_eq!(slots(&repo), ["refs/aynig/deferred/task"], "{}", told(&other));
    repo.release("release");
    runner.finish();
    assert_eq!(repo.state("task"), "done");
    let output = repo.aynig_ok(["run", "--drain"]);
    assert_eq!(
        (repo.noted_lines("ran"), slots(&repo)),
        (vec!["task 1".to_owned()], vec![]),
        "{}",
        told(&output)
    );
    assert_eq!(repo.trailer("task~2", "aynig-deferred"), slot);
    assert_eq!(repo.git(["log", "-1", "--format=%b", "task~2"]).lines().next(), Some("the body"));
    let author = repo.git(["log", "-1", "--format=%an", &slot]);
    assert_eq!(repo.git(["log", "-1", "--format=%an", "task~2"]), author, "the author is the sender");
    repo.assert_tidy();
}

/// CONTRACT 5.33
#[test]
fn a_command_under_any_role_keeps_a_branch_from_resting() {
    let repo = Repo::scene(&[("work", WORK)]);
    repo.command(".aynig/roles/reviewer/command/review", "exit 0");
    repo.commit_all("a role");
    repo.ready("task", "review");
    repo.aynig_ok(later("task", &[]));
    repo.aynig_ok(["run"]);
    assert_eq!((repo.state("task"), slots(&repo).len()), ("review".into(), 1));
}

/// CONTRACT 5.32
#[test]
fn a_sender_waits_for_its_turn_and_for_the_delivery() {
    let repo = Repo::scene(&[("slow", SLOW), ("work", WORK)]);
    repo.ready("task", "slow");
    let runner = repo.aynig_start(["run", "--watch=3600"]);
    let _command = repo.said_pid("at");
    let first = repo.aynig_start(later("task", &["--trailer", "dwp-n: 1", "--wait"]));
    wait_until("the slot", || slots(&repo).len() == 1);
    let late = repo.aynig(later("task", &["--trailer", "dwp-n: 2", "--wait", "--timeout", "1"]));
    assert_refused(&late, 1, &["still waits for task"]);
    let second = repo.aynig_start(later("task", &["--trailer", "dwp-n: 2", "--wait"]));
    repo.release("release");
    assert!(out(&first.finish()).contains("was delivered"));
    assert_eq!(second.finish().status.code(), Some(0));
    wait_until("both", || repo.noted_lines("ran") == ["task 1", "task 2"]);
    wait_until("the end", || repo.state("task") == "done");
    runner.signal(Signal::SIGTERM);
    runner.finish();
    assert_eq!(slots(&repo), Vec::<String>::new());
}

/// A branch under no lease whose slot can be delivered.
fn deliverable(repo: &Repo) {
    repo.ready("task", "slow");
    repo.aynig_ok(later("task", &["--trailer", "dwp-n: 1"]));
    repo.branch_from("task", "task", b"s\n\ndwp-state: rests\n");
    repo.git(["pack-refs", "--all"]);
    assert_eq!(slots(repo).len(), 1);
}

/// CONTRACT 5.24, 5.28, 5.34
#[cfg(debug_assertions)]
#[test]
fn a_runner_killed_anywhere_delivers_nothing_twice() {
    for point in ["delivery-written", "ref-locked", "refs-half-moved", "lease-moved"] {
        let repo = Repo::scene(&[("slow", SLOW), ("work", WORK)]);
        deliverable(&repo);
        let killed = repo.aynig_command().arg("run").env("AYNIG_CRASH_AT", point).output().expect("it runs");
        assert_eq!(killed.status.signal(), Some(9), "{point}: {}", told(&killed));
        let later = ["run", "--drain"];
        repo.aynig_ok(later);
        assert_eq!((deliveries(&repo, "task"), slots(&repo)), (1, vec![]), "{point}");
        if point != "lease-moved" {
            assert_eq!((repo.state("task"), repo.noted_lines("ran").len()), ("done".into(), 1), "{point}");
        }
    }
}

/// CONTRACT 5.24, 5.32
#[cfg(debug_assertions)]
#[test]
fn a_sender_killed_over_its_slot_keeps_no_other_from_leaving_one() {
    let repo = Repo::scene(&[("slow", "next rests"), ("work", WORK)]);
    repo.ready("task", "slow");
    let mut sender = repo.aynig_command();
    let killed = sender.args(later("task", &["--trailer", "dwp-n: 0"])).env("AYNIG_CRASH_AT", "ref-locked");
    assert_eq!(killed.output().expect("it runs").status.signal(), Some(9));
    let lock = repo.path.join(".git/refs/aynig/deferred/task.lock");
    assert!(lock.exists() && slots(&repo).is_empty());
    // A pass removes the lock of the dead one.
    repo.aynig_ok(["run", "--branch", "main"]);
    repo.aynig_ok(later("task", &["--trailer", "dwp-n: 1"]));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!((repo.noted_lines("ran"), slots(&repo)), (vec!["task 1".to_owned()], vec![]));
    assert!(!lock.exists());
    repo.assert_tidy();
}

/// CONTRACT 5.34
#[test]
fn of_many_runners_one_delivers() {
    let repo = Repo::scene(&[("slow", SLOW), ("work", WORK)]);
    deliverable(&repo);
    let runners: Vec<Running> = (0..6).map(|_| repo.aynig_start(["run", "--drain"])).collect();
    for runner in runners {
        let output = runner.finish();
        assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    }
    assert_eq!((deliveries(&repo, "task"), slots(&repo).len(), repo.noted_lines("ran").len()), (1, 0, 1));
}

/// CONTRACT 5.34
#[test]
fn a_slot_that_was_delivered_is_dropped() {
    let repo = Repo::scene(&[("slow", SLOW), ("work", WORK)]);
    deliverable(&repo);
    let slot = repo.head("refs/aynig/deferred/task");
    repo.aynig_ok(["run", "--drain"]);
    // As if the deletion of the slot had been lost, and several steps had followed.
    repo.git(["update-ref", "refs/aynig/deferred/task", &slot]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!((deliveries(&repo, "task"), slots(&repo).len(), repo.noted_lines("ran").len()), (1, 0, 1));
}

/// CONTRACT 5.28, 5.32, 5.34
#[test]
fn a_hub_delivers_once_to_many_clones() {
    let hub = Repo::scene(&[("slow", "next rests"), ("work", WORK)]).into_bare();
    hub.ready("task", "slow");
    let (one, two) = (hub.clone_beside("one"), hub.clone_beside("two"));
    let remote = ["--remote", "origin", "--trailer", "dwp-n: 1"];
    one.aynig_ok(later("task", &remote));
    assert_eq!(slots(&hub), ["refs/aynig/deferred/task"]);
    two.aynig_ok(later("task", &remote));
    let other = two.aynig(later("task", &["--remote", "origin"]));
    assert_refused(&other, 1, &["waits for task already"]);
    let shown = out(&two.aynig_ok(["status", "--remote", "origin", "task"]));
    assert!(!shown.is_empty());
    let runners = [&one, &two, &one].map(|clone| clone.aynig_start(["run", "--remote", "origin", "--drain"]));
    for runner in runners {
        let output = runner.finish();
        assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    }
    one.aynig_ok(["run", "--remote", "origin", "--drain"]);
    assert_eq!((deliveries(&hub, "task"), slots(&hub)), (1, vec![]));
    assert_eq!((hub.state("task"), hub.noted_lines("ran").len()), ("done".into(), 1));
    let names = one.git(["for-each-ref", "--format=%(refname)", "refs/aynig/slots/"]);
    assert_eq!(names, "", "what was delivered is not kept");
}

/// CONTRACT 5.28, 5.34
#[test]
fn a_runner_killed_before_its_push_is_answered_delivers_nothing_twice() {
    let hub = Repo::scene(&[("slow", "next rests"), ("work", WORK)]).into_bare();
    hub.ready("task", "slow");
    let (one, two) = (hub.clone_beside("one"), hub.clone_beside("two"));
    one.aynig_ok(later("task", &["--remote", "origin", "--trailer", "dwp-n: 1"]));
    one.aynig_ok(["run", "--remote", "origin"]);
    assert_eq!((hub.state("task").as_str(), slots(&hub).len()), ("rests", 1));
    // Both refs have moved when the hook runs.
    hub.command("hooks/post-receive", &hub.scripted("[ -e \"$ROOM/go\" ] || { say moved $$; await go; }"));
    let runner = one.aynig_start(["run", "--remote", "origin"]);
    hub.said("moved");
    assert_eq!((deliveries(&hub, "task"), slots(&hub)), (1, vec![]));
    runner.signal(Signal::SIGKILL);
    hub.release("go");
    runner.finish();
    for clone in [&one, &two] {
        clone.aynig_ok(["run", "--remote", "origin", "--drain"]);
    }
    assert_eq!((deliveries(&hub, "task"), slots(&hub)), (1, vec![]));
    assert_eq!((hub.state("task"), hub.noted_lines("ran")), ("done".into(), vec!["task 1".to_owned()]));
}

/// CONTRACT 5.28
#[test]
fn a_server_that_cannot_move_two_refs_together_is_named() {
    let hub = Repo::scene(&[("slow", SLOW), ("work", WORK)]).into_bare();
    hub.git(["config", "receive.advertiseAtomic", "false"]);
    hub.ready("task", "slow");
    let clone = hub.clone_beside("clone");
    let output = clone.aynig(later("task", &["--remote", "origin"]));
    assert_eq!(output.status.code(), Some(4), "{}", told(&output));
    assert!(err(&output).contains("git push --atomic"), "{}", told(&output));
    assert_eq!(slots(&hub), Vec::<String>::new());
}

/// CONTRACT 5.35
#[test]
fn nothing_unsigned_is_delivered_where_signatures_are_required() {
    let repo = Repo::scene(&[("slow", SLOW), ("work", WORK)]);
    deliverable(&repo);
    repo.git(["config", "aynig.requireSigned", "true"]);
    let head = repo.head("task");
    let output = repo.aynig_ok(["run", "--drain"]);
    assert!(err(&output).contains("its deferred state was not delivered, and stays"), "{}", told(&output));
    assert_eq!((repo.head("task"), slots(&repo).len()), (head, 1));
}

/// CONTRACT 12.11
#[test]
fn a_guard_refuses_unsigned_slots_where_signatures_are_required() {
    let hub = Repo::scene(&[("slow", SLOW), ("work", WORK)]).into_bare();
    hub.command("hooks/pre-receive", &format!("exec '{}' hook pre-receive", binary().display()));
    hub.ready("task", "slow");
    let clone = hub.clone_beside("clone");
    let send = later("task", &["--remote", "origin"]);
    clone.aynig_ok(send.clone());
    assert_eq!(slots(&hub).len(), 1);
    hub.git(["update-ref", "-d", "refs/aynig/deferred/task"]);
    hub.git(["config", "aynig.requireSigned", "true"]);
    let output = clone.aynig(send);
    assert_eq!(output.status.code(), Some(4), "{}", told(&output));
    assert!(err(&output).contains("its deferred state is refused"), "{}", told(&output));
    assert_eq!(slots(&hub), Vec::<String>::new());
}

/// CONTRACT 5.34
#[test]
fn what_is_no_slot_keeps_no_branch_from_being_run() {
    let repo = Repo::scene(&[("work", WORK)]);
    repo.ready("task", "work");
    repo.git(["update-ref", "refs/aynig/deferred/task", "main"]);
    let output = repo.aynig_ok(["run", "--drain"]);
    assert_eq!(repo.state("task"), "done", "{}", told(&output));
    assert!(err(&output).contains("declares no state"), "{}", told(&output));
}

/// CONTRACT 5.34
#[test]
fn a_state_is_delivered_to_the_branch_that_it_was_left_for_alone() {
    let repo = Repo::scene(&[("work", WORK)]);
    repo.ready("one", "work");
    repo.ready("other", "nothing");
    repo.aynig_ok(later("one", &["--subject", "later"]));
    // A request of another branch, and a slot of another branch.
    for commit in ["one", "refs/aynig/deferred/one"] {
        repo.git(["update-ref", "refs/aynig/deferred/other", commit]);
        let output = repo.aynig_ok(["run", "--branch", "other"]);
        assert_eq!(repo.state("other"), "nothing", "{}", told(&output));
        assert!(err(&output).contains("was left for another branch"), "{}", told(&output));
    }
}

/// CONTRACT 5.34
#[test]
fn a_branch_that_was_made_anew_gets_no_old_state() {
    let repo = Repo::scene(&[("work", WORK)]);
    repo.ready("task", "work");
    repo.aynig_ok(later("task", &["--subject", "later"]));
    repo.git(["branch", "-D", "task"]);
    repo.git(["branch", "task", "main"]);
    let output = repo.aynig_ok(["run", "--drain"]);
    assert!(err(&output).contains("was made anew"), "{}", told(&output));
    assert!(!repo.beside("ran").exists(), "nothing was run");
}

/// CONTRACT 5.32
#[test]
fn a_deferred_state_is_withdrawn() {
    let hub = Repo::scene(&[("work", WORK)]);
    let clone = hub.clone_beside("clone");
    hub.branch_with_message("task", b"s\n\ndwp-state: a\ndwp-not-before: 2999-01-01T00:00:00Z\n");
    let head = hub.head("task");
    let withdraw = ["set-state", "--withdraw", "task"];
    assert_refused(&hub.aynig(withdraw), 1, &["no deferred state waits for task"]);
    for (repo, remote) in [(&hub, &[][..]), (&clone, &["--remote", "origin"])] {
        repo.aynig_ok([&later("task", &[]), remote].concat());
        let taken = repo.aynig([&later("task", &["--body", "another"]), remote].concat());
        assert!(err(&taken).contains("aynig set-state --withdraw task"), "{}", told(&taken));
        let output = repo.aynig_ok([&withdraw[..], remote].concat());
        assert!(out(&output).contains("the deferred state work was withdrawn"), "{}", told(&output));
        assert_eq!((slots(&hub), hub.head("task")), (Vec::new(), head.clone()));
        assert_eq!(repo.aynig([&withdraw[..], remote].concat()).status.code(), Some(1));
    }
}

/// CONTRACT 5.32, 5.34
#[test]
fn what_was_delivered_is_not_withdrawn() {
    let repo = Repo::scene(&[("work", WORK)]);
    repo.branch_with_message("task", b"s\n\ndwp-state: a\ndwp-not-before: 2999-01-01T00:00:00Z\n");
    repo.aynig_ok(later("task", &[]));
    let slot = repo.head("refs/aynig/deferred/task");
    // As a runner leaves it that was killed between its two writes.
    let delivery = repo.message(&slot).replace("aynig-slot: task", &format!("aynig-deferred: {slot}"));
    repo.branch_from("task", "task", delivery.as_bytes());
    assert_refused(&repo.aynig(["set-state", "--withdraw", "task"]), 1, &["delivered already"]);
    assert_eq!(slots(&repo).len(), 1);
}

/// CONTRACT 5.33
#[test]
fn a_runner_with_other_commands_replaces_nothing_that_another_would_run() {
    let repo = Repo::scene(&[("go", "next done"), ("work", WORK)]);
    repo.git(["branch", "mine"]);
    repo.git(["rm", "-q", ".aynig/command/go"]);
    repo.commit_all("without go");
    repo.git(["branch", "tools"]);
    repo.branch_from("mine", "task", b"please\n\ndwp-state: go\n");
    repo.aynig_ok(later("task", &[]));
    let other = repo.aynig_ok(["run", "--commands-from", "tools"]);
    assert_eq!((repo.state("task").as_str(), slots(&repo).len()), ("go", 1), "{}", told(&other));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!((deliveries(&repo, "task"), repo.noted_lines("ran")), (1, vec!["task ".to_owned()]));
}

/// CONTRACT 5.32
#[test]
fn an_attempt_does_not_wait_for_its_own_end() {
    let set = r#""$AYNIG_BIN" set-state --when-free --wait --timeout 20s --state done"#;
    let repo = Repo::scene(&[("here", set), ("named", &format!("{set} --branch \"$AYNIG_BRANCH\""))]);
    for branch in ["here", "named"] {
        repo.ready(branch, branch);
    }
    let output = repo.aynig_ok(["run", "--jobs", "2"]);
    for branch in ["here", "named"] {
        assert_eq!(repo.state(branch), "done", "{}", told(&output));
        assert_eq!(repo.git(["log", "-1", "--format=%P", branch]), repo.head(&format!("{branch}~1")));
    }
    assert_eq!(slots(&repo), Vec::<String>::new());
    repo.assert_tidy();
}
