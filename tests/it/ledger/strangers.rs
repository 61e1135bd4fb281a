//! Ledgers that others wrote, and runs that are decided elsewhere: refused with a reason, and never followed.

use aynig::ledger::operate::{Ledger, here};
use aynig::ledger::{LedgerError, Place, runs};
use aynig::model::decide::{Command, RunEdit};
use aynig::model::ids::{OpId, RunId};
use aynig::model::run::RunStatus;

use super::{Repo, chat, history, new_run, op, open, run_with_node};

fn ledger_of(run: RunId) -> String {
    format!("refs/aynig/runs/{run}")
}

/// Puts a commit on top of a ledger whose tree differs in one entry: `mode`, object and path for `git update-index`.
fn forge(repo: &Repo, run: RunId, change: &str) {
    let index = repo.path.join(".git/forged-index");
    let git = |arguments: &[&str]| {
        let output =
            repo.git_command().args(arguments).env("GIT_INDEX_FILE", &index).output().expect("git runs");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned()
    };
    let name = ledger_of(run);
    git(&["read-tree", &name]);
    git(&["update-index", "--add", "--cacheinfo", change]);
    let tree = git(&["write-tree"]);
    let commit = git(&["commit-tree", &tree, "-p", &name, "-m", "forged"]);
    repo.git(["update-ref", &name, &commit]);
}

fn blob(repo: &Repo, text: &str) -> String {
    repo.git_with_input(&["hash-object", "-w", "--stdin"], text.as_bytes())
}

/// CONTRACT 16.4
#[test]
fn a_ledger_of_a_stranger_is_refused_with_a_reason() {
    let id = "0a000000-0000-4000-8000-000000000001";
    type Case = (&'static str, fn(&Repo, &str) -> String, &'static str);
    let cases: [Case; 8] = [
        (
            "another version",
            |repo, run| format!("100644,{},run.json", blob(repo, &run.replace("\"1\"", "\"2\""))),
            "version",
        ),
        ("not JSON", |repo, _| format!("100644,{},run.json", blob(repo, "{")), "run.json"),
        (
            "another run",
            |repo, run| format!("100644,{},run.json", blob(repo, &another_id(run))),
            "it is the ledger of",
        ),
        (
            "the slug of another run",
            |repo, run| {
                format!("100644,{},run.json", blob(repo, &run.replace("\"slug\": \"", "\"slug\": \"abc")))
            },
            "is not how its id begins",
        ),
        ("a link", |repo, _| format!("120000,{},nodes/x", blob(repo, "/etc/passwd")), "no plain file"),
        ("a program", |repo, _| format!("100755,{},nodes/x", blob(repo, "#!/bin/sh")), "no plain file"),
        ("a submodule", |repo, _| format!("160000,{},nodes/x", repo.head("main")), "no plain file"),
        (
            "too long",
            |repo, _| {
                let text = " ".repeat(2 * 1024 * 1024);
                format!("100644,{},nodes/0a/0a000000-0000-4000-8000-000000000001.json", blob(repo, &text))
            },
            "bytes",
        ),
    ];
    for (name, change, why) in cases {
        let repo = Repo::new();
        let store = open(&repo.path);
        let (run, node) = run_with_node(&store.handle(), &Place::Here);
        let mut ledger_before = Ledger::open(&store.handle(), run).is_ok();
        let run_json = repo.git(["show", &format!("{}:run.json", ledger_of(run))]);
        forge(&repo, run, &change(&repo, &run_json));
        let handle = store.handle();
        let refused = here(&handle, run).expect_err(name).to_string();
        assert!(refused.contains(why), "{name}: {refused}");
        ledger_before &= Ledger::open(&handle, run).is_err();
        assert!(ledger_before, "{name}");
        // The other runs are still listed and found.
        let (other, _) = run_with_node(&handle, &Place::Here);
        assert_eq!(runs::find(&handle, &other.to_string()).expect(name), other);
        let mut ledger = Ledger::open(&handle, other).expect(name);
        let unknown = ledger.operate(&op(OpId::random()), &[chat(node, "x")], &[]).expect_err(name);
        assert!(matches!(unknown, LedgerError::Refused(_)), "{name}: {unknown}");
        assert!(unknown.to_string().contains("there is no node"), "{id}");
    }
}

fn another_id(run: &str) -> String {
    let mut value: serde_json::Value = serde_json::from_str(run).expect("JSON");
    value["id"] = "0b000000-0000-4000-8000-000000000002".into();
    value.to_string()
}

/// CONTRACT 16.1
#[test]
fn a_file_of_a_later_version_is_left_as_it_is() {
    let repo = Repo::new();
    let store = open(&repo.path);
    let (run, node) = run_with_node(&store.handle(), &Place::Here);
    forge(&repo, run, &format!("100644,{},later/thing.txt", blob(&repo, "kept")));
    let handle = store.handle();
    let mut ledger = Ledger::open(&handle, run).expect("a ledger");
    ledger.operate(&op(OpId::random()), &[chat(node, "x")], &[]).expect("an operation");
    assert_eq!(repo.git(["show", &format!("{}:later/thing.txt", ledger_of(run))]), "kept");
}

/// CONTRACT 16.4
#[test]
fn a_history_with_a_commit_of_somebody_is_named() {
    let repo = Repo::new();
    let store = open(&repo.path);
    let (run, _) = run_with_node(&store.handle(), &Place::Here);
    forge(&repo, run, &format!("100644,{},later/thing.txt", blob(&repo, "x")));
    let handle = store.handle();
    let tip = here(&handle, run).expect("a ledger");
    let error = aynig::ledger::history::operations(&handle, run, tip.id, None).expect_err("a forged commit");
    assert!(error.to_string().contains("none of an operation of this run"), "{error}");
}

/// CONTRACT 16.4
#[test]
fn a_run_is_decided_where_it_was_made() {
    let (one, two) = (Repo::new(), Repo::new());
    let store = open(&one.path);
    let (run, _) = run_with_node(&store.handle(), &Place::Here);
    let url = one.path.display().to_string();
    two.git(["fetch", "--quiet", &url, "+refs/aynig/runs/*:refs/aynig/runs/*"]);
    let there = open(&two.path);
    let repo = there.handle();
    assert_eq!(here(&repo, run).expect("it can be read").state.run.id, run);
    let refused = Ledger::open(&repo, run).expect_err("decided elsewhere").to_string();
    assert!(refused.contains("in another repository"), "{refused}");
    // A run of a hub needs a remote with its address.
    one.git(["remote", "add", "origin", &url]);
    let store = open(&one.path);
    let remote = Place::Remote(aynig::contract::ids::RemoteName::parse("origin").expect("a name"));
    let (id, slug) = runs::fresh(&store.handle()).expect("refs");
    let new = new_run(&store.handle(), &remote, id, slug);
    Ledger::create(&store.handle(), remote, &new, &op(OpId::random()), &[], &[]).expect("a run");
    two.git(["fetch", "--quiet", &url, "+refs/aynig/runs/*:refs/aynig/runs/*"]);
    let refused = Ledger::open(&repo, id).expect_err("no such remote").to_string();
    assert!(refused.contains(&url) && refused.contains("git remote add"), "{refused}");
    two.git(["remote", "add", "hub", &url]);
    let there = open(&two.path);
    let repo = there.handle();
    let mut ledger = Ledger::open(&repo, id).expect("the remote is there now");
    let pause = Command::SetRun(RunEdit { status: Some(RunStatus::Paused), ..RunEdit::default() });
    ledger.operate(&op(OpId::random()), &[pause], &[]).expect("an operation");
    assert_eq!(one.head(&ledger_of(id)), ledger.tip().id.to_string());
}

#[test]
fn runs_are_found_by_slug_prefix_and_id() {
    let repo = Repo::new();
    let store = open(&repo.path);
    let handle = store.handle();
    let near = ["aaaa0000-0000-4000-8000-000000000001", "aaaa1111-0000-4000-8000-000000000002"];
    for text in near {
        let id = RunId::parse(text).expect("an id");
        let new = new_run(&handle, &Place::Here, id, aynig::model::ids::Slug::of(id, 8));
        Ledger::create(&handle, Place::Here, &new, &op(OpId::random()), &[], &[]).expect("a run");
    }
    let find = |text: &str| runs::find(&handle, text).map(|run| run.to_string());
    for text in ["aaaa0", "aaaa0000", "AAAA0000", near[0], "aaaa00000000"] {
        assert_eq!(find(text).expect(text), near[0]);
    }
    assert!(find("aaaa").expect_err("two").to_string().contains("type more of it"));
    for text in ["", "b", "x/../y", "*", "-"] {
        assert!(find(text).expect_err(text).to_string().contains("orch run list"), "{text}");
    }
    // A name below the ledgers that is no id is no run.
    repo.git(["update-ref", "refs/aynig/runs/nonsense", "main"]);
    assert_eq!(runs::all(&handle).expect("refs").len(), 2);
}

#[test]
fn the_history_can_be_read_by_people() {
    let repo = Repo::new();
    let store = open(&repo.path);
    let handle = store.handle();
    let (run, node) = run_with_node(&handle, &Place::Here);
    let mut ledger = Ledger::open(&handle, run).expect("a ledger");
    ledger.operate(&op(OpId::random()), &[chat(node, "x"), chat(node, "y")], &[]).expect("an operation");
    let slug = ledger.tip().state.run.slug.to_string();
    let subjects = repo.git(["log", "--format=%s", "--reverse", &ledger_of(run)]);
    let wanted = format!("run: created {slug}\nnode: added a\nmessage: → a (and 1 more)");
    assert_eq!(subjects, wanted);
    assert_eq!(history(&handle, run, ledger.tip()).len(), 3);
}
