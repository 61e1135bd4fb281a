//! Deleting a run: all its refs as one, nothing lost, nothing under a live lease.

use std::os::unix::process::ExitStatusExt;

use aynig::contract::ids::RemoteName;
use aynig::ledger::archive::{all_archived, archived_ref};
use aynig::ledger::deletion::delete;
use aynig::ledger::history::operations;
use aynig::ledger::operate::{Ledger, here};
use aynig::ledger::{LedgerError, Place, runs};
use aynig::model::event::Body;
use aynig::model::ids::{NodeId, OpId, RunId, Slug};

use super::companions::locks;
use super::writers::clone;
use super::{Repo, chat, create_with_node, new_run, op, open, run_with_node, writer};
use crate::scene::told;
use crate::support::out;

fn slug(run: RunId) -> String {
    run.to_string()[..8].to_owned()
}

/// Gives a run two drivers, a deferred state and two work branches, of which the archive has an older one and the other.
fn furnish(repo: &Repo, run: RunId, hub: bool) {
    let slug = slug(run);
    let work = if hub { format!("refs/aynig/work/{run}") } else { format!("refs/heads/work/{slug}") };
    let new = repo.git(["commit-tree", "main^{tree}", "-p", "main", "-m", "work"]);
    let old = repo.head("main");
    for (name, value) in [
        (format!("refs/heads/run/{slug}/flow"), &old),
        (format!("refs/heads/run/{slug}/node"), &new),
        (format!("refs/aynig/deferred/run/{slug}/flow"), &new),
        (format!("{work}/flow"), &new),
        (format!("{work}/node"), &old),
        (format!("refs/aynig/archive/{run}/flow"), &old),
        (format!("refs/aynig/archive/{run}/node"), &new),
    ] {
        repo.git(["update-ref", &name, value]);
    }
    repo.git(["update-ref", "refs/heads/run/other/flow", "main"]);
}

/// The refs of the furnished run after it was deleted, and those of others.
fn assert_deleted(repo: &Repo, run: RunId) {
    let names = repo.git(["for-each-ref", "--format=%(refname)"]);
    let archive = format!("refs/aynig/archive/{run}");
    let wanted = ["@ledger", "flow", "flow-2", "node"].map(|name| format!("{archive}/{name}"));
    let names: Vec<&str> = names.lines().filter(|name| !name.starts_with("refs/theirs/")).collect();
    let others = ["refs/heads/main", "refs/heads/run/other/flow"].map(str::to_owned);
    assert_eq!(names, [wanted.as_slice(), &others].concat());
    assert_eq!(repo.git(["log", "-1", "--format=%s", &format!("{archive}/flow-2")]), "work");
    repo.git(["fsck", "--strict", "--no-dangling"]);
}

fn at_hub() -> Place {
    Place::Remote(RemoteName::parse("origin").expect("a name"))
}

fn write(repo: &aynig::git::Repo, run: RunId, node: NodeId) -> Result<(), LedgerError> {
    let mut ledger = Ledger::open(repo, run)?;
    ledger.operate(&op(OpId::random()), &[chat(node, "x")], &[]).map(drop)
}

/// CONTRACT 16.8
#[test]
fn a_deleted_run_is_in_the_archive_as_a_whole() {
    let repo = Repo::new();
    let store = open(&repo.path);
    let handle = store.handle();
    let (run, node) = run_with_node(&handle, &Place::Here);
    furnish(&repo, run, false);
    let before = here(&handle, run).expect("a ledger").id;
    let archived = delete(&handle, run, &op(OpId::random()), false).expect("deleted");
    assert_deleted(&repo, run);
    assert_eq!(repo.head(&archived_ref(run)), archived.ledger.to_string());
    let last = operations(&handle, run, archived.ledger, Some(before)).expect("a history");
    assert_eq!(last.len(), 1);
    assert!(matches!(last[0].events.last().expect("an event").body, Body::RunDeleted(_)));
    // Again: the same. It is gone for all who ask.
    let again = delete(&handle, run, &op(OpId::random()), false).expect("it is deleted");
    assert_eq!((again, all_archived(&handle).expect("refs")), (archived.clone(), vec![archived]));
    assert!(runs::all(&handle).expect("refs").is_empty());
    let refused = write(&handle, run, node).expect_err("it is deleted").to_string();
    assert!(refused.contains("was deleted") && refused.contains(&archived_ref(run)), "{refused}");
    let unknown = delete(&handle, RunId::random(), &op(OpId::random()), false).expect_err("unknown");
    assert!(matches!(unknown, LedgerError::Unknown(_)), "{unknown}");
    // The archive is listed as what it is.
    let listed = String::from_utf8(repo.aynig_ok(["clean", "--workspaces"]).stdout).expect("text");
    assert!(listed.contains("the ledger of a run that was deleted"), "{listed}");
}

/// CONTRACT 9.5, 16.8
#[test]
fn commits_that_were_taken_off_a_work_branch_are_saved() {
    let repo = Repo::new();
    let store = open(&repo.path);
    let handle = store.handle();
    let (run, _) = run_with_node(&handle, &Place::Here);
    let branch = format!("refs/heads/work/{}/flow", slug(run));
    let lost = repo.git(["commit-tree", "main^{tree}", "-p", "main", "-m", "lost"]);
    for value in [&lost, "main"] {
        repo.git(["update-ref", &branch, value]);
    }
    delete(&handle, run, &op(OpId::random()), false).expect("deleted");
    let [rescue] = &repo.rescues()[..] else { panic!("one rescue: {:?}", repo.rescues()) };
    repo.git(["merge-base", "--is-ancestor", &lost, rescue]);
}

/// CONTRACT 16.8
#[test]
fn a_run_under_a_live_lease_is_deleted_by_force_only() {
    for hub in [false, true] {
        let central = Repo::scene(&[("work", "next done")]);
        let host = if hub { clone(&central) } else { central };
        let central =
            if hub { host.path.parent().map(|_| host.git(["config", "remote.origin.url"])) } else { None };
        let store = open(&host.path);
        let handle = store.handle();
        let place = if hub { at_hub() } else { Place::Here };
        let (run, _) = run_with_node(&handle, &place);
        let branch = format!("run/{}/flow", slug(run));
        let lease = host.git([
            "commit-tree",
            "main^{tree}",
            "-p",
            "main",
            "-m",
            "working\n\ndwp-state: working\ndwp-runner-id: desk\ndwp-run-id: 0a0b\ndwp-lease-seconds: 300",
        ]);
        match &central {
            Some(url) => drop(host.git(["push", "--quiet", url, &format!("{lease}:refs/heads/{branch}")])),
            None => drop(host.git(["update-ref", &format!("refs/heads/{branch}"), &lease])),
        }
        let refused = delete(&handle, run, &op(OpId::random()), false).expect_err("a live lease");
        assert!(matches!(&refused, LedgerError::Leased { runner, .. } if runner == "desk"), "{refused}");
        assert!(refused.to_string().contains(&format!("aynig cancel {branch}")), "{refused}");
        here(&handle, run).expect("it is there");
        delete(&handle, run, &op(OpId::random()), true).expect("forced");
        assert!(runs::all(&handle).expect("refs").is_empty());
        let left = host.git(["ls-remote", central.as_deref().unwrap_or(".")]);
        assert!(!left.contains(&branch) && left.contains(&archived_ref(run)), "{left}");
    }
}

/// CONTRACT 16.8
#[test]
fn a_checked_out_work_branch_keeps_the_run() {
    let repo = Repo::new();
    let store = open(&repo.path);
    let handle = store.handle();
    let (run, _) = run_with_node(&handle, &Place::Here);
    let branch = format!("work/{}/flow", slug(run));
    let place = repo.beside("workspace").display().to_string();
    repo.git(["worktree", "add", "--quiet", "-b", &branch, &place]);
    let before = repo.git(["for-each-ref"]);
    let refused = delete(&handle, run, &op(OpId::random()), true).expect_err("a checkout").to_string();
    assert!(refused.contains(&branch) && refused.contains(&place), "{refused}");
    assert_eq!(repo.git(["for-each-ref"]), before);
}

/// CONTRACT 5.28, 16.2, 16.8
#[test]
fn a_deletion_killed_anywhere_happens_once() {
    let local =
        ["ledger-written", "ref-locked", "refs-decided", "refs-half-moved:kill:1", "refs-half-moved:kill:6"];
    let hub = ["ledger-written", "ledger-pushed", "ref-locked:kill:1", "ref-locked:kill:2"];
    for (point, remote) in local.map(|point| (point, false)).into_iter().chain(hub.map(|point| (point, true)))
    {
        let central = Repo::new();
        let own = remote.then(|| clone(&central));
        let host = own.as_ref().unwrap_or(&central);
        let store = open(&host.path);
        let (run, _) = run_with_node(&store.handle(), &if remote { at_hub() } else { Place::Here });
        furnish(&central, run, remote);
        let mut process = writer(&host.path, run, "delete", 1);
        let killed = process.env("AYNIG_CRASH_AT", point).output().expect("it starts");
        assert_eq!(killed.status.signal(), Some(9), "{point}: {}", told(&killed));
        let again = writer(&host.path, run, "delete", 1).output().expect("it starts");
        assert!(again.status.success(), "{point}: {}", told(&again));
        assert_deleted(&central, run);
        let store = open(&host.path);
        assert!(runs::all(&store.handle()).expect("refs").is_empty(), "{point}");
        assert_eq!(locks(host), 0, "{point}");
    }
}

/// CONTRACT 16.8
#[test]
fn another_clone_follows_and_loses_nothing() {
    let hub = Repo::new();
    let [one, two, three] = [(), (), ()].map(|()| clone(&hub));
    let store = open(&one.path);
    let handle = store.handle();
    let (run, node) = run_with_node(&handle, &at_hub());
    three.git(["config", "aynig.remote", "origin"]);
    let looks = || out(&three.aynig_ok(["orch", "run", "list"]));
    assert!(looks().contains(&slug(run)));
    furnish(&hub, run, true);
    two.git(["fetch", "--quiet", "origin", "+refs/aynig/runs/*:refs/aynig/runs/*"]);
    let there = open(&two.path);
    let other = there.handle();
    let mut ledger = Ledger::open(&other, run).expect("a ledger");
    let slug = slug(run);
    let own = two.git(["commit-tree", "main^{tree}", "-p", "main", "-m", "not on the hub"]);
    two.git(["update-ref", &format!("refs/heads/work/{slug}/node"), &own]);
    let place = two.beside("workspace").display().to_string();
    two.git(["worktree", "add", "--quiet", "-b", &format!("work/{slug}/flow"), &place]);
    let archived = delete(&handle, run, &op(OpId::random()), false).expect("deleted");
    assert_deleted(&hub, run);
    assert_eq!(one.head(&archived_ref(run)), archived.ledger.to_string());
    // An open ledger, a later operation and a deletion there all find it deleted.
    let refused = ledger.operate(&op(OpId::random()), &[chat(node, "x")], &[]).expect_err("deleted");
    assert!(matches!(refused, LedgerError::Deleted { .. }), "{refused}");
    assert!(matches!(write(&other, run, node), Err(LedgerError::Deleted { .. })));
    assert_eq!(delete(&other, run, &op(OpId::random()), false).expect("it is deleted"), archived);
    assert_eq!(two.head(&archived_ref(run)), archived.ledger.to_string());
    assert_eq!(two.head(&format!("refs/aynig/archive/{run}/node")), own, "work that only this clone had");
    let left = two.git(["for-each-ref", "--format=%(refname)", "refs/heads", "refs/aynig/runs"]);
    assert_eq!(left, format!("refs/heads/main\nrefs/heads/work/{slug}/flow"), "what is checked out stays");
    assert!(runs::all(&other).expect("refs").is_empty());
    // A clone that only looks does so, too.
    for _ in 0..2 {
        assert_eq!(looks(), "");
    }
    assert_eq!(three.head(&archived_ref(run)), archived.ledger.to_string());
}

/// CONTRACT 16.8
#[test]
fn a_deleted_run_of_a_stranger_takes_no_work_of_others() {
    let hub = Repo::new();
    let (one, two) = (clone(&hub), clone(&hub));
    let stranger = open(&one.path);
    // A workspace by itself, whose HEAD is not on its branch, and a run, both known to the other clone alone.
    let made = two.made("fix");
    made.sh(&two, "git checkout -q --detach");
    let store = open(&two.path);
    let (run, _) = run_with_node(&store.handle(), &Place::Here);
    let work = two.git(["commit-tree", "main^{tree}", "-p", "main", "-m", "work"]);
    two.git(["update-ref", &format!("refs/heads/work/{}/node", slug(run)), &work]);
    for slug in [made.slug.clone(), slug(run)] {
        let forged = RunId::parse(&format!("{slug}-0000-4000-8000-000000000001")).expect("an id");
        let new = new_run(&stranger.handle(), &at_hub(), forged, Slug::of(forged, 8));
        create_with_node(&stranger.handle(), &at_hub(), &new);
        two.git([
            "fetch",
            "--quiet",
            "origin",
            &format!("+refs/aynig/runs/{forged}:refs/aynig/runs/{forged}"),
        ]);
        let before = two.git(["for-each-ref", "refs/heads/"]);
        delete(&stranger.handle(), forged, &op(OpId::random()), true).expect("deleted");
        let handle = store.handle();
        assert!(matches!(
            Ledger::open(&handle, forged).and_then(|mut ledger| ledger.refresh()),
            Err(LedgerError::Deleted { .. })
        ));
        assert_eq!(two.git(["for-each-ref", "refs/heads/"]), before);
    }
    two.workspace_ok(["snapshot", &made.slug]);
}

/// CONTRACT 12.12
#[test]
fn a_guarded_hub_loses_no_ledger() {
    let hub = Repo::new().into_bare();
    let clone = clone(&hub);
    let store = open(&clone.path);
    let (run, _) = run_with_node(&store.handle(), &at_hub());
    crate::remote::guard::install(&hub, "pre-receive");
    let bin = crate::support::binary();
    let name = format!("refs/aynig/runs/{run}");
    let push = |refs: &[&str]| {
        let mut git = clone.git_command();
        let output = git.env("AYNIG_BIN", &bin).args(["push", "--quiet", "origin"]).args(refs).output();
        output.expect("git runs")
    };
    let works = |name: &str| {
        let output = writer(&clone.path, run, name, 1).env("AYNIG_BIN", &bin).output().expect("it starts");
        assert!(output.status.success(), "{}", told(&output));
    };
    works("a");
    let before = hub.git(["for-each-ref"]);
    let other = clone.git(["commit-tree", "main^{tree}", "-m", "no descendant"]);
    let archive = archived_ref(run);
    let (old, gone) = (format!("{name}~1"), format!(":{name}"));
    let cases = [
        (vec![format!("+{old}:{name}")], "takes operations away"),
        (vec![gone.clone()], "without archiving it"),
        (vec![gone.clone(), format!("{old}:{archive}")], "without archiving it"),
        (vec![gone, format!("{other}:{archive}")], "without archiving it"),
    ];
    for (refs, words) in &cases {
        let output = push(&refs.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(!output.status.success(), "{refs:?}");
        assert!(told(&output).contains(words) && told(&output).contains(&name), "{}", told(&output));
        assert_eq!(hub.git(["for-each-ref"]), before, "{refs:?}");
    }
    works("b");
    works("delete");
    assert_eq!(hub.git(["for-each-ref", "--format=%(refname)", "refs/aynig"]), archive);
}

/// CONTRACT 16.8
#[test]
fn of_two_runs_with_one_slug_none_is_deleted() {
    let repo = Repo::new();
    let store = open(&repo.path);
    let handle = store.handle();
    let (run, _) = run_with_node(&handle, &Place::Here);
    furnish(&repo, run, false);
    // A stranger can choose an id that begins in the same way.
    let forged = format!("{}-0000-4000-8000-000000000001", slug(run));
    let forged = RunId::parse(&forged).expect("an id");
    let new = new_run(&handle, &Place::Here, forged, here(&handle, run).expect("a run").state.run.slug);
    create_with_node(&handle, &Place::Here, &new);
    let before = repo.git(["for-each-ref"]);
    for (one, other) in [(forged, run), (run, forged)] {
        let error = delete(&handle, one, &op(OpId::random()), true).expect_err("the branches of both");
        assert!(error.to_string().contains(&other.to_string()), "{error}");
    }
    assert_eq!(repo.git(["for-each-ref"]), before);
    repo.git(["update-ref", "-d", &format!("refs/aynig/runs/{forged}")]);
    delete(&handle, run, &op(OpId::random()), false).expect("deleted");
    assert_deleted(&repo, run);
}
