//! Workspaces of runs: their ledger knows them, and hears of each change once, whoever dies when.

use std::fs;
use std::process::Output;

use aynig::contract::ids::RemoteName;
use aynig::ledger::Place;
use aynig::ledger::deletion::delete;
use aynig::model::decide::{Command, RunEdit};
use aynig::model::ids::{OpId, RunId};
use aynig::model::run::RunStatus;
use serde_json::Value;

use super::super::ledger::{create_with_node, new_run, op, open};
use super::super::orch::perform;
use super::super::support::*;
use super::Made;

/// A run that is decided in this place.
pub(crate) fn run_at(repo: &Repo, place: &Place) -> RunId {
    let store = open(&repo.path);
    let handle = store.handle();
    let (id, slug) = aynig::ledger::runs::fresh(&handle).expect("refs");
    let mut new = new_run(&handle, place, id, slug);
    new.base_sha = repo.head("main");
    new.label = "a label".to_owned();
    create_with_node(&handle, place, &new).0
}

/// A repository with a run.
pub(crate) fn field() -> (Repo, RunId) {
    let repo = Repo::new();
    let run = run_at(&repo, &Place::Here);
    (repo, run)
}

/// Makes a workspace of a run.
pub(crate) fn made_in(repo: &Repo, run: RunId, name: &str) -> Made {
    let output = repo.workspace_ok(["create", name, "--run", &run.to_string(), "--json"]);
    Made::of(&repo.answered(&out(&output))[0])
}

/// What the ledger has of the workspaces of a run.
pub(crate) fn known(repo: &Repo, run: RunId) -> Value {
    let shown = json(&repo.aynig_ok(["orch", "show", &run.to_string(), "--json"]));
    shown["run"]["workspaces"].clone()
}

/// The events about workspaces: the last parts of their types, and their fields.
fn heard(repo: &Repo, run: RunId) -> Vec<(String, Value)> {
    let lines = out(&repo.aynig_ok(["orch", "events", &run.to_string(), "--json"]));
    let events =
        lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")["event"].clone());
    let word = |event: Value| {
        let word = event["type"].as_str()?.strip_prefix("workspace.")?.to_owned();
        Some((word, event))
    };
    events.filter_map(word).collect()
}

pub(crate) fn words(repo: &Repo, run: RunId) -> Vec<String> {
    heard(repo, run).into_iter().map(|(word, _)| word).collect()
}

/// The ledger and the files of a run fit each other.
pub(crate) fn assert_whole(repo: &Repo, run: RunId) {
    let output = repo.aynig(["orch", "doctor", &run.to_string()]);
    assert!(output.status.success(), "{}{}", out(&output), err(&output));
}

fn killed(repo: &Repo, arguments: &[&str], point: &str) -> Output {
    let mut command = repo.workspace_command();
    let output = command.args(arguments).env("AYNIG_CRASH_AT", point).output().expect("aynig runs");
    assert_eq!(output.status.code(), None, "{point}: {}", err(&output));
    output
}

/// CONTRACT 15.18
#[test]
fn a_workspace_of_a_run_has_its_id_its_base_and_a_name_of_its_own() {
    let (repo, run) = field();
    let base = repo.head("main");
    let newer = repo.commit_all("newer");
    let made = made_in(&repo, run, "flow");
    assert_eq!(made.run, run.to_string());
    assert_eq!((made.branch.as_str(), repo.head(&made.branch)), (&*format!("work/{}/flow", made.slug), base));
    let second = repo.workspace_ok(["create", "node-a", "--run", &made.slug, "--base", "main", "--json"]);
    let second = Made::of(&repo.answered(&out(&second))[0]);
    assert_eq!((second.slug.as_str(), repo.head(&second.branch)), (made.slug.as_str(), newer));
    assert_ne!(made.record(&repo), second.record(&repo));
    // The ledger, its files and its people know both.
    let known = known(&repo, run);
    assert_eq!(known["flow"]["branchName"], made.branch.as_str(), "{known}");
    assert_eq!((&known["flow"]["generation"], &known["flow"]["status"]), (&0.into(), &"ready".into()));
    assert_eq!(words(&repo, run), ["prepared", "prepared"]);
    let shown = out(&repo.aynig_ok(["orch", "show", &made.slug]));
    assert!(shown.contains(&format!("flow  ready  {} at", made.branch)), "{shown}");
    assert_whole(&repo, run);
    let statuses: Vec<Value> = repo.workspaces().iter().map(|one| one["runStatus"].clone()).collect();
    assert_eq!(statuses, ["running", "running"]);
    assert!(out(&repo.workspace_ok(["show", &made.handle])).contains("running  a label"));
    assert!(repo.made("alone").run != made.run && repo.workspaces()[2]["runStatus"].is_null());
    // One is removed, and the other one stays as it is.
    assert_refused(
        &repo.workspace(["snapshot", &made.slug]),
        2,
        &["can mean", &made.handle, &second.handle, "give the one that is meant in full"],
    );
    repo.workspace_ok(["remove", "--apply", &made.handle]);
    assert!(!made.path.exists() && second.path.join("README").is_file());
    assert!(repo.runs().join(&made.run).join("events.jsonl").is_file());
    repo.workspace_ok(["snapshot", &second.slug]);
    // Another one of a name is made, and that is said.
    let said = err(&repo.workspace_ok(["create", "alone"]));
    assert!(said.contains("alone is the name of 2 workspaces; this one is "), "{said}");
}

/// CONTRACT 15.18
#[test]
fn what_cannot_be_made_in_a_run_is_refused_before_anything_changes() {
    let (repo, run) = field();
    let id = run.to_string();
    let made = made_in(&repo, run, "flow");
    repo.git(["branch", &format!("work/{}/taken", made.slug)]);
    let clone = Repo::new();
    clone.git(["fetch", "-q", repo.path.to_str().expect("UTF-8"), "+refs/aynig/runs/*:refs/aynig/runs/*"]);
    let ended = run_at(&repo, &Place::Here);
    let edit = RunEdit { status: Some(RunStatus::Completed), ..RunEdit::default() };
    perform(&repo, ended, Command::SetRun(edit));
    let deleted = run_at(&repo, &Place::Here);
    let store = open(&repo.path);
    delete(&store.handle(), deleted, &op(OpId::random()), false).expect("deleted");
    let (refs, worktrees) = (repo.git(["for-each-ref"]), repo.worktrees());
    for (name, run, code, words) in [
        ("flow", id.as_str(), 1, "there is one of this name"),
        ("taken", &id, 1, "there is a branch"),
        ("Node.A", &id, 2, "other names"),
        ("../x", &id, 2, "not a legal name"),
        ("new", "ffff", 1, "there is no run"),
        ("new", &ended.to_string(), 1, "completed"),
        ("new", &deleted.to_string(), 1, "was deleted"),
    ] {
        assert_refused(&repo.workspace(["create", name, "--run", run]), code, &[words]);
    }
    assert_refused(&repo.workspace(["create", "new", "--run", &id, "--base", "nowhere"]), 2, &["--base"]);
    assert_refused(&clone.workspace(["create", "new", "--run", &id]), 1, &["decided in another repository"]);
    assert_eq!((repo.git(["for-each-ref"]), repo.worktrees()), (refs, worktrees));
    assert_eq!(repo.workspaces().len() + clone.workspaces().len(), 1);
}

/// CONTRACT 15.19
#[test]
fn a_second_undoing_counts_as_a_rollback() {
    let (repo, run) = field();
    let made = made_in(&repo, run, "flow");
    fs::write(made.path.join("one"), "one\n").expect("written");
    repo.workspace_ok(["snapshot", &made.slug]);
    let (base, work) = (repo.head("main"), repo.head(&made.branch));
    repo.workspace_ok(["rollback", &made.slug]);
    for head in [&work, &base, &work] {
        repo.workspace_ok(["rollback", "--undo", &made.slug]);
        let flow = known(&repo, run)["flow"].clone();
        assert_eq!(flow["headSha"], head.as_str());
        assert_eq!(flow["rolledBackAfter"].is_u64(), *head == base, "{flow}");
    }
    let told: Vec<bool> =
        heard(&repo, run)[2..].iter().map(|(_, event)| event["detail"].is_string()).collect();
    assert_eq!(told, [false, true, false, true], "whether the work was brought back");
}

/// CONTRACT 15.19
#[test]
fn the_ledger_hears_of_each_change() {
    let (repo, run) = field();
    let made = made_in(&repo, run, "flow");
    let base = repo.head("main");
    let of = |repo: &Repo, field: &str| known(repo, run)["flow"][field].clone();
    repo.workspace_ok(["snapshot", &made.slug]);
    assert_eq!(words(&repo, run), ["prepared"], "nothing changed");
    fs::write(made.path.join("one"), "one\n").expect("written");
    repo.workspace_ok(["snapshot", &made.slug]);
    assert_eq!(of(&repo, "headSha"), repo.head(&made.branch).as_str());
    // A person's commit, and what is in the worktree.
    let tree = format!("{}^{{tree}}", made.branch);
    let theirs = repo.git(["commit-tree", "-p", &made.branch, "-m", "theirs", &tree]);
    repo.git(["update-ref", &format!("refs/heads/{}", made.branch), &theirs]);
    fs::write(made.path.join("two"), "two\n").expect("written");
    fs::remove_file(made.path.join(".git")).expect("removed");
    repo.workspace_ok(["snapshot", &made.slug]);
    let snapshot = repo.head(&made.branch);
    repo.workspace_ok(["rollback", &made.slug]);
    assert_eq!((of(&repo, "headSha"), of(&repo, "generation")), (base.as_str().into(), 1.into()));
    repo.workspace_ok(["rollback", &made.slug]);
    repo.workspace_ok(["rollback", "--undo", &made.slug]);
    assert_eq!((of(&repo, "headSha"), of(&repo, "generation")), (snapshot.as_str().into(), 2.into()));
    made.sh(&repo, "git switch -q -c other HEAD~1; echo 3 >three");
    repo.workspace_ok(["snapshot", &made.slug]);
    repo.workspace_ok(["remove", "--apply", &made.slug]);
    assert_eq!(of(&repo, "status"), "removed");
    let heard = heard(&repo, run);
    let words: Vec<&str> = heard.iter().map(|(word, _)| word.as_str()).collect();
    assert_eq!(
        words,
        [
            "prepared",
            "snapshot",
            "mended",
            "adopted",
            "snapshot",
            "rolled_back",
            "rolled_back",
            "mended",
            "removed"
        ]
    );
    let field = |at: usize, pointer: &str| heard[at].1.pointer(pointer).cloned().unwrap_or_default();
    assert_eq!(field(2, "/detail"), "its .git file was written anew");
    assert_eq!(field(3, "/patch/headSha"), theirs.as_str());
    assert_eq!(field(5, "/rescue").as_str().map(str::to_owned), repo.rescues().first().cloned());
    assert!(
        field(6, "/detail").as_str().is_some_and(|words| words.contains("brought back")),
        "{}",
        heard[6].1
    );
    assert!(field(7, "/rescue").is_string() && field(7, "/patch/generation") == 3, "{}", heard[7].1);
    // No path of this host is in the ledger.
    let messages = repo.git(["log", "--format=%B", &format!("refs/aynig/runs/{run}")]);
    let room = repo.path.parent().expect("the room").to_str().expect("UTF-8");
    assert!(!messages.contains(room), "{messages}");
    assert_whole(&repo, run);
    // The name is free again, and each record is kept.
    for _ in 0..2 {
        let again = made_in(&repo, run, "flow");
        assert_eq!((repo.head(&again.branch), of(&repo, "status")), (base.clone(), "ready".into()));
        repo.workspace_ok(["remove", "--apply", &again.slug]);
    }
    let archive = repo.path.join(".git/aynig/data/archive").join(&made.run).join("workspaces");
    let mut names: Vec<_> =
        fs::read_dir(&archive).expect("a directory").flatten().map(|one| one.file_name()).collect();
    names.sort();
    assert_eq!(names, ["flow", "flow@2", "flow@3"]);
    assert_whole(&repo, run);
}

/// CONTRACT 15.18
#[cfg(debug_assertions)]
#[test]
fn a_workspace_that_was_never_complete_is_undone_unless_the_ledger_has_it() {
    for (point, is_kept) in [
        ("workspace-noted", false),
        ("workspace-branched", false),
        ("worktree-registered", false),
        ("workspace-made", false),
        ("ledger-written", false),
        ("workspace-heard", true),
    ] {
        let (repo, run) = field();
        let other = repo.made("other");
        let refs = repo.git(["for-each-ref", "refs/heads/"]);
        killed(&repo, &["create", "flow", "--run", &run.to_string()], point);
        let look = err(&repo.workspace_ok(["snapshot", &other.slug]));
        let wanted = if is_kept { "it is ready now" } else { "was undone" };
        assert!(look.contains(wanted), "{point}: {look}");
        assert_eq!(words(&repo, run).len(), usize::from(is_kept), "{point}");
        if is_kept {
            assert_eq!(repo.workspaces().len(), 2, "{point}");
        } else {
            assert_eq!(repo.git(["for-each-ref", "refs/heads/"]), refs, "{point}");
            made_in(&repo, run, "flow");
        }
        fs::write(repo.workspaces()[1]["worktreePath"].as_str().expect("a path").to_owned() + "/x", "x")
            .expect("x");
        repo.workspace_ok(["snapshot", &run.to_string()]);
        assert_eq!(words(&repo, run), ["prepared", "snapshot"], "{point}");
        assert_whole(&repo, run);
    }
}

/// CONTRACT 15.19
#[cfg(debug_assertions)]
#[test]
fn a_ledger_that_did_not_hear_of_a_change_hears_of_it_with_the_next() {
    for (verb, point) in [
        ("snapshot", "workspace-unheard"),
        ("snapshot", "ledger-written"),
        ("snapshot", "workspace-heard"),
        ("rollback", "rollback-noted"),
        ("rollback", "rollback-moved"),
        ("rollback", "rollback-done"),
        ("rollback", "workspace-unheard"),
        ("rollback", "ledger-written"),
        ("rollback", "workspace-heard"),
        ("remove", "removal-noted"),
        ("remove", "removal-recorded"),
        ("remove", "workspace-unheard"),
        ("remove", "ledger-written"),
        ("remove", "workspace-heard"),
    ] {
        let what = format!("{verb}, {point}");
        let (repo, run) = field();
        let (made, other) = (made_in(&repo, run, "flow"), repo.made("other"));
        made.sh(&repo, "echo x >>README; echo y >y");
        let arguments =
            if verb == "remove" { vec![verb, "--apply", &made.slug] } else { vec![verb, &made.slug] };
        killed(&repo, &arguments, point);
        repo.workspace_ok(["snapshot", &other.slug]);
        let wanted = match verb {
            "snapshot" => "snapshot",
            "rollback" => "rolled_back",
            _ => "removed",
        };
        assert_eq!(words(&repo, run), ["prepared", wanted], "{what}");
        let known = known(&repo, run)["flow"].clone();
        if verb == "remove" {
            assert_eq!(known["status"], "removed", "{what}");
            assert_eq!(repo.workspaces().len(), 1, "{what}");
        } else {
            assert_eq!(known["headSha"], repo.head(&made.branch).as_str(), "{what}");
            assert_eq!(known["generation"], u32::from(verb == "rollback"), "{what}");
        }
        assert!(err(&repo.workspace_ok(["list"])).is_empty(), "{what}");
        assert_whole(&repo, run);
    }
}

/// A hub, a clone, and a run that the hub decides.
fn field_with_hub() -> (Repo, Repo, RunId) {
    let (hub, repo) = (Repo::new(), Repo::new());
    repo.git(["remote", "add", "origin", hub.path.to_str().expect("UTF-8")]);
    let run = run_at(&repo, &Place::Remote(RemoteName::parse("origin").expect("a name")));
    (hub, repo, run)
}

/// CONTRACT 15.19
#[cfg(debug_assertions)]
#[test]
fn what_the_hub_has_heard_is_not_written_again_if_its_answer_was_lost() {
    let (hub, repo, run) = field_with_hub();
    let made = made_in(&repo, run, "flow");
    let other = made_in(&repo, run, "other");
    let mut wanted = vec!["prepared", "prepared"];
    for (verb, word) in [("snapshot", "snapshot"), ("rollback", "rolled_back"), ("remove", "removed")] {
        fs::write(made.path.join("file"), verb).expect("written");
        let apply = (verb == "remove").then_some("--apply");
        let arguments: Vec<&str> = [verb, &made.handle].into_iter().chain(apply).collect();
        killed(&repo, &arguments, "ledger-pushed");
        repo.workspace_ok(["snapshot", &other.handle]);
        wanted.push(word);
        assert_eq!(words(&repo, run), wanted);
        let ledger = format!("refs/aynig/runs/{run}");
        assert_eq!(hub.head(&ledger), repo.head(&ledger), "{verb}");
    }
    assert_eq!(repo.workspaces().len(), 1);
    assert_whole(&repo, run);
}

/// CONTRACT 15.19
#[test]
fn a_ledger_that_cannot_be_reached_stops_no_rollback_and_hears_of_it_later() {
    let (hub, repo, run) = field_with_hub();
    let made = made_in(&repo, run, "flow");
    let other = made_in(&repo, run, "other");
    let away = hub.path.with_file_name("away");
    fs::rename(&hub.path, &away).expect("moved");
    made.sh(&repo, "echo x >>README; echo y >y");
    let output = repo.workspace_ok(["rollback", &made.handle]);
    assert!(err(&output).contains("has not heard"), "{}", err(&output));
    assert_eq!(made.git(&repo, &["status", "--porcelain"]), "");
    for call in [repo.workspace_ok(["list"]), repo.aynig(["doctor"]), repo.aynig(["clean"])] {
        assert!(format!("{}{}", out(&call), err(&call)).contains("has not heard of that"), "{}", err(&call));
    }
    let output = repo.workspace_ok(["remove", "--apply", &other.handle]);
    assert!(err(&output).contains("has not heard") && !other.path.exists(), "{}", err(&output));
    assert_refused(&repo.workspace(["create", "new", "--run", &made.slug]), 4, &["origin"]);
    assert_eq!(repo.workspaces().len(), 2);
    fs::rename(&away, &hub.path).expect("moved");
    repo.workspace_ok(["snapshot", &made.handle]);
    assert_eq!(words(&repo, run), ["prepared", "prepared", "rolled_back", "removed"]);
    assert_eq!(repo.workspaces().len(), 1);
    assert_eq!(hub.head(&format!("refs/aynig/runs/{run}")), repo.head(&format!("refs/aynig/runs/{run}")));
    assert_whole(&repo, run);
}

/// CONTRACT 15.19
#[cfg(debug_assertions)]
#[test]
fn a_rollback_that_was_not_heard_is_heard_beside_a_change_that_was_cut_off() {
    for (verb, point) in [
        ("rollback", "rollback-noted"),
        ("rollback", "rollback-moved"),
        ("rollback", "rollback-done"),
        ("remove", "removal-noted"),
        ("remove", "removal-recorded"),
    ] {
        let what = format!("{verb}, {point}");
        let (hub, repo, run) = field_with_hub();
        let (made, other) = (made_in(&repo, run, "flow"), made_in(&repo, run, "other"));
        let away = hub.path.with_file_name("away");
        fs::rename(&hub.path, &away).expect("moved");
        made.sh(&repo, "echo first >README");
        repo.workspace_ok(["rollback", &made.handle]);
        made.sh(&repo, "echo second >README");
        let apply = (verb == "remove").then_some("--apply");
        let arguments: Vec<&str> = [verb, &made.handle].into_iter().chain(apply).collect();
        killed(&repo, &arguments, point);
        fs::rename(&away, &hub.path).expect("moved");
        repo.workspace_ok(["snapshot", &other.handle]);
        let last = if verb == "rollback" { "rolled_back" } else { "removed" };
        assert_eq!(words(&repo, run), ["prepared", "prepared", "rolled_back", last], "{what}");
        let (ledger, known) = (format!("refs/aynig/runs/{run}"), known(&repo, run)["flow"].clone());
        assert_eq!(hub.head(&ledger), repo.head(&ledger), "{what}");
        assert_eq!(known["generation"], 1 + u32::from(verb == "rollback"), "{what}");
        if verb != "remove" {
            assert_eq!(known["headSha"], repo.head(&made.branch).as_str(), "{what}");
        }
        let saved = repo.git(["log", "--all", "--format=%H", "--diff-filter=M", "--", "README"]);
        assert_eq!(saved.lines().count(), 2, "{what}: both texts are in a commit");
        assert_whole(&repo, run);
    }
}

/// CONTRACT 17.11
#[test]
fn the_files_of_a_deleted_run_stay_while_it_has_workspaces_here() {
    let (repo, run) = field();
    let made = made_in(&repo, run, "flow");
    let store = open(&repo.path);
    let refused = delete(&store.handle(), run, &op(OpId::random()), false).expect_err("checked out");
    assert!(refused.to_string().contains("remove that workspace"), "{refused}");
    made.git(&repo, &["switch", "-q", "--detach"]);
    delete(&store.handle(), run, &op(OpId::random()), false).expect("deleted");
    assert_refused(&repo.aynig(["orch", "show", &made.slug]), 1, &["was deleted"]);
    assert!(made.record(&repo).is_dir());
    made.sh(&repo, "echo x >x");
    repo.workspace_ok(["remove", "--apply", &made.handle]);
    assert_eq!(repo.rescues().len(), 1);
    assert_refused(&repo.aynig(["orch", "show", &made.slug]), 1, &["was deleted"]);
    assert!(!repo.runs().join(&made.run).exists());
}

/// CONTRACT 15.19
#[test]
fn two_processes_use_workspaces_of_one_run_at_the_same_time() {
    let (repo, run) = field();
    let rounds = sized(4, 12);
    let (one, two) = (made_in(&repo, run, "one"), made_in(&repo, run, "two"));
    let work = |made: &Made| {
        for round in 0..rounds {
            fs::write(made.path.join("file"), format!("{round}\n")).expect("written");
            repo.workspace_ok(["snapshot", &made.handle]);
            repo.workspace_ok(["rollback", &made.handle]);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| work(&one));
        scope.spawn(|| work(&two));
    });
    let heard = heard(&repo, run);
    for name in ["one", "two"] {
        let its = heard.iter().filter(|(_, event)| event["name"] == name).map(|(word, _)| word.as_str());
        let wanted: Vec<&str> = ["snapshot", "rolled_back"].into_iter().cycle().take(2 * rounds).collect();
        assert_eq!(its.collect::<Vec<_>>(), wanted, "{name}");
        let known = known(&repo, run)[name].clone();
        assert_eq!((&known["generation"], &known["headSha"]), (&rounds.into(), &repo.head("main").into()));
    }
    assert_eq!(repo.rescues().len(), 2 * rounds);
    assert_whole(&repo, run);
    repo.git(["fsck", "--strict"]);
}
