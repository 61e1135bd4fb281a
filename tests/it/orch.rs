//! `aynig orch`: runs are found, shown, followed and examined, and their files are made anew.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use aynig::journal::directory::RunDirectory;
use aynig::journal::writer::Writer;
use aynig::ledger::Place;
use aynig::ledger::deletion::delete;
use aynig::ledger::operate::Ledger;
use aynig::model::decide::{Command, RunEdit};
use aynig::model::ids::{NodeId, OpId, RunId, Slug};
use aynig::model::run::RunStatus;
use serde_json::Value;

use super::ledger::{chat, create_with_node, new_run, op, open};
use super::support::*;

/// Makes a run with this id, this label and one node.
pub(super) fn make(repo: &Repo, id: &str, label: &str) -> (RunId, NodeId) {
    let store = open(&repo.path);
    let handle = store.handle();
    let id = RunId::parse(id).expect("an id");
    let mut new = new_run(&handle, &Place::Here, id, Slug::of(id, 8));
    new.label = label.to_owned();
    create_with_node(&handle, &Place::Here, &new)
}

pub(super) fn perform(repo: &Repo, run: RunId, command: Command) {
    let store = open(&repo.path);
    let handle = store.handle();
    let mut ledger = Ledger::open(&handle, run).expect("a ledger");
    ledger.operate(&op(OpId::random()), &[command], &[]).expect("an operation");
}

fn finish(repo: &Repo, run: RunId) {
    perform(repo, run, Command::SetRun(RunEdit { status: Some(RunStatus::Completed), ..RunEdit::default() }));
}

/// A file of a run directory.
pub(super) fn file(repo: &Repo, run: RunId, name: &str) -> std::path::PathBuf {
    repo.path.join(".git/aynig/data/runs").join(run.to_string()).join(name)
}

const ONE: &str = "0a1b2c3d-0000-4000-8000-000000000001";
const TWO: &str = "0a1b2fff-0000-4000-8000-000000000002";

#[test]
fn runs_are_listed_and_found_by_slug_prefix_and_id() {
    let repo = Repo::new();
    assert!(out(&repo.aynig_ok(["orch", "run", "list"])).is_empty());
    let (run, node) = make(&repo, ONE, "first \u{1b}[31m");
    make(&repo, TWO, "");
    perform(&repo, run, chat(node, "hello"));
    let list = out(&repo.aynig_ok(["orch", "run", "list"]));
    assert!(list.contains("0a1b2c3d  running") && list.contains("first \u{fffd}[31m"), "{list}");
    assert_eq!(list.lines().count(), 2);
    for name in ["0a1b2c3d", "0a1b2c", "0A1B2C3D", ONE, "0a1b2c3d-0000-4"] {
        let shown = out(&repo.aynig_ok(["orch", "show", name]));
        assert!(shown.contains(ONE) && shown.contains("a  idle  1 unread"), "{name}: {shown}");
    }
    for (name, words) in [
        ("0a1b2", ["could mean", "0a1b2c3d (first"]),
        ("0a1b2d3c", ["there is no run", "did you mean 0a1b2c3d?"]),
        ("nothing", ["there is no run", "0a1b2c3d (first"]),
        ("", ["there is no run", "0a1b2fff"]),
    ] {
        for verb in ["show", "events", "doctor", "rebuild"] {
            assert_refused(&repo.aynig(["orch", verb, name]), 1, &words);
        }
    }
    assert_refused(&Repo::new().aynig(["orch", "show", "x"]), 1, &["no run is known here"]);
}

#[test]
fn events_are_shown_from_a_number_on_and_by_type() {
    let repo = Repo::new();
    let (run, node) = make(&repo, ONE, "");
    perform(&repo, run, chat(node, "one\ntwo \u{1b}[2J"));
    let all = out(&repo.aynig_ok(["orch", "events", "0a1b"]));
    let (at, said) =
        all.lines().enumerate().find(|(_, line)| line.contains("message.user")).expect("an event");
    assert!(said.contains("message.user  a  one two \u{fffd}[2J"), "{all}");
    let (count, after) = (all.lines().count(), at.to_string());
    let rest = out(&repo.aynig_ok(["orch", "events", "0a1b", "--after", &after]));
    assert_eq!((rest.lines().next(), rest.lines().count()), (Some(said), count - at));
    let typed = out(&repo.aynig_ok(["orch", "events", "0a1b", "--type", "message.*", "--type", "no"]));
    assert_eq!(typed.lines().collect::<Vec<_>>(), [said]);
    let json = repo.aynig_ok(["orch", "events", "0a1b", "--json"]);
    let values: Vec<Value> =
        out(&json).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(values.len(), count);
    assert_eq!(values[at]["event"]["message"]["content"], "one\ntwo \u{1b}[2J");
    assert_refused(&repo.aynig(["orch", "events", "0a1b", "--after", "99"]), 1, &["ends with number"]);
    assert_refused(&repo.aynig(["orch", "events", "0a1b", "--type", "["]), 2, &["--type"]);
}

/// CONTRACT 17.7
#[test]
fn following_ends_with_the_run_and_with_a_journal_that_was_made_anew() {
    let repo = Repo::new();
    let (run, node) = make(&repo, ONE, "");
    let follow = || {
        let mut command = repo.aynig_command();
        command.args(["orch", "events", "-f", ONE]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().expect("it starts");
        let mut lines = BufReader::new(process.stdout.take().expect("a pipe"));
        let mut first = String::new();
        lines.read_line(&mut first).expect("a line");
        assert!(first.contains("run.patch"), "{first}");
        (process, lines)
    };
    let (mut process, mut lines) = follow();
    perform(&repo, run, chat(node, "while it is followed"));
    let mut line = String::new();
    while !line.contains("while it is followed") {
        line.clear();
        assert!(lines.read_line(&mut line).expect("a line") > 0, "it ended before");
    }
    repo.aynig_ok(["orch", "rebuild", ONE]);
    let ended = wait_for("it to notice the new journal", || process.try_wait().expect("a child"));
    let mut words = String::new();
    process.stderr.take().expect("a pipe").read_to_string(&mut words).expect("text");
    assert!(ended.code() == Some(1) && words.contains("made anew"), "{words}");
    let (mut process, mut lines) = follow();
    finish(&repo, run);
    let ended = wait_for("the end", || process.try_wait().expect("a child"));
    let mut rest = String::new();
    lines.read_to_string(&mut rest).expect("text");
    assert!(ended.success() && rest.contains("completed"), "{rest}");
}

/// Replaces the newest operation by one with the same message, and a tree in which one file is another one.
pub(super) fn falsify(repo: &Repo, run: RunId, path: &str, content: Option<&str>) {
    let name = format!("refs/aynig/runs/{run}");
    let index = repo.path.join(".git/forged-index");
    let git = |arguments: &[&str]| {
        let output =
            repo.git_command().args(arguments).env("GIT_INDEX_FILE", &index).output().expect("git runs");
        assert!(output.status.success(), "{arguments:?}: {}", err(&output));
        out(&output).trim().to_owned()
    };
    git(&["read-tree", &name]);
    match content {
        None => git(&["update-index", "--force-remove", path]),
        Some(content) => {
            let blob = repo.git_with_input(&["hash-object", "-w", "--stdin"], content.as_bytes());
            git(&["update-index", "--add", "--cacheinfo", &format!("100644,{blob},{path}")])
        }
    };
    let tree = git(&["write-tree"]);
    let message = git(&["log", "-1", "--format=%B", &name]);
    let commit = git(&["commit-tree", &tree, "-p", &format!("{name}~1"), "-m", &message]);
    repo.git(["update-ref", &name, &commit]);
}

/// CONTRACT 17.8
#[test]
fn the_doctor_names_each_difference_between_events_and_tree() {
    let repo = Repo::new();
    let (run, node) = make(&repo, ONE, "");
    perform(&repo, run, chat(node, "hello"));
    let name = format!("refs/aynig/runs/{run}");
    let whole = repo.head(&name);
    let sound = repo.aynig_ok(["orch", "doctor", ONE]);
    assert!(out(&sound).contains("ledger and files agree"), "{}", out(&sound));
    let tree = repo.git(["ls-tree", "-r", "--name-only", &name]);
    let inbox = tree.lines().find(|path| path.starts_with("inbox/")).expect("an item").to_owned();
    let text = |path: &str| repo.git(["cat-file", "blob", &format!("{name}:{path}")]);
    let (run_json, item) = (text("run.json"), text(&inbox));
    let other = format!("approvals/0a/{ONE}.json");
    for (path, content, words) in [
        ("run.json", Some(run_json.replace("running", "paused")), "status is \"paused\" and should be"),
        (&inbox, None, "it is missing"),
        (&inbox, Some(item.replace("hello", "goodbye")), "goodbye"),
        (&inbox, Some("{".to_owned()), "it is no JSON object"),
        (&other, Some("{}".to_owned()), "no event makes it"),
    ] {
        falsify(&repo, run, path, content.as_deref());
        let output = repo.aynig(["orch", "doctor", ONE]);
        let found = out(&output);
        assert_eq!(output.status.code(), Some(1), "{path}: {found}");
        assert!(found.contains(path) && found.contains(words) && found.contains("git log -p"), "{found}");
        repo.git(["update-ref", &name, &whole]);
    }
    // Files of a later version are left alone.
    falsify(&repo, run, "plans/1.json", Some("{}"));
    repo.aynig_ok(["orch", "doctor", ONE]);
    repo.git(["update-ref", &name, "main"]);
    let output = repo.aynig(["orch", "doctor", ONE]);
    let found = out(&output);
    assert!(output.status.code() == Some(1) && found.contains("none of an operation of this run"), "{found}");
}

/// CONTRACT 17.8
#[test]
fn the_doctor_names_faults_of_the_files_and_a_rebuild_mends_them() {
    let repo = Repo::new();
    let (run, node) = make(&repo, ONE, "");
    perform(&repo, run, chat(node, "hello"));
    repo.aynig_ok(["orch", "show", ONE]);
    let (events, state) = (file(&repo, run, "events.jsonl"), file(&repo, run, "state.json"));
    let text = fs::read_to_string(&events).expect("a journal");
    let lines: Vec<&str> = text.lines().collect();
    let without = |at: usize| {
        let kept = lines.iter().enumerate().filter(|(number, _)| *number != at);
        kept.map(|(_, line)| format!("{line}\n")).collect::<String>()
    };
    let cases = [
        (&events, without(1), "events.jsonl:2: number 3 follows 1"),
        (&events, text.replacen(lines[1], "nonsense", 1), "events.jsonl:2: it is no event"),
        (&events, text.replace("hello", "goodbye"), "it is not the ledger's event: message.content is"),
        (
            &state,
            fs::read_to_string(&state).expect("a file").replace("running", "paused"),
            "state.json: status",
        ),
    ];
    for (path, content, words) in cases {
        let before = fs::read(path).expect("a file");
        fs::write(path, content).expect("a file");
        let output = repo.aynig(["orch", "doctor", ONE]);
        let found = out(&output);
        assert!(output.status.code() == Some(1) && found.contains(words), "{words}: {found}");
        assert!(found.contains(&format!("next: aynig orch rebuild {ONE}")), "{found}");
        repo.aynig_ok(["orch", "rebuild", ONE]);
        repo.aynig_ok(["orch", "doctor", ONE]);
        assert!(fs::read(path).expect("a file") == before, "{words}: it is as it was");
    }
}

#[test]
fn without_a_place_for_files_a_run_is_shown_from_its_ledger() {
    let repo = Repo::new();
    make(&repo, ONE, "");
    fs::write(repo.beside("file"), "").expect("a file");
    let place = repo.beside("file/data").display().to_string();
    repo.git(["config", "aynig.dataDir", &place]);
    let shown = repo.aynig_ok(["orch", "show", ONE]);
    assert!(
        out(&shown).contains("running") && err(&shown).contains("the ledger is shown"),
        "{}",
        err(&shown)
    );
    let words = ["could not create", "aynig.dataDir"];
    assert_refused(&repo.aynig(["orch", "events", ONE]), 3, &words);
    assert_refused(&repo.aynig(["orch", "rebuild", ONE]), 3, &words);
    repo.git(["config", "aynig.dataDir", "here"]);
    assert_refused(&repo.aynig(["orch", "show", ONE]), 3, &["no absolute path"]);
}

/// CONTRACT 17.11
#[test]
fn the_files_of_a_deleted_run_move_to_the_archive_with_its_last_events() {
    let repo = Repo::new();
    let archived = |name: &str| repo.path.join(".git/aynig/data/archive").join(name);
    for (number, point) in [None, Some("journal-retiring"), Some("journal-written")].into_iter().enumerate() {
        let id = ONE.replace("0a1b2c3d", &format!("0a1b2c{number:02}"));
        let (run, _) = make(&repo, &id, "");
        let mut command = repo.aynig_command();
        command.args(["orch", "events", "-f", &id]).stdout(Stdio::piped());
        let mut follower = command.spawn().expect("it starts");
        let mut lines = BufReader::new(follower.stdout.take().expect("a pipe"));
        lines.read_line(&mut String::new()).expect("a line");
        kill_and_reap(&mut follower, number > 0);
        let store = open(&repo.path);
        delete(&store.handle(), run, &op(OpId::random()), false).expect("deleted");
        if let Some(point) = point {
            assert!(super::journal::dies(&repo, run, point), "{point} was not reached");
            assert!(file(&repo, run, "events.jsonl").is_file());
        } else {
            let ended = wait_for("the end", || follower.try_wait().expect("a child"));
            let mut rest = String::new();
            lines.read_to_string(&mut rest).expect("text");
            assert!(ended.success() && rest.contains("run.deleted"), "{rest}");
        }
        let words = ["was deleted", &format!("refs/aynig/archive/{id}/@ledger")];
        for name in [id.as_str(), &id[..8]] {
            assert_refused(&repo.aynig(["orch", "show", name]), 1, &words);
        }
        assert!(!file(&repo, run, "").exists());
        let text = fs::read_to_string(archived(&id).join("events.jsonl")).expect("a journal");
        assert_eq!(text.matches("run.deleted").count(), 1, "{text}");
    }
    assert!(out(&repo.aynig_ok(["orch", "run", "list"])).is_empty());
}

/// Ends a child if it `goes`.
fn kill_and_reap(child: &mut std::process::Child, goes: bool) {
    if goes {
        child.kill().expect("it runs");
        child.wait().expect("it is ours");
    }
}

/// CONTRACT 17.12
#[test]
fn clean_keeps_what_is_of_record_and_removes_deleted_runs_only_when_told() {
    let repo = Repo::new();
    let (run, node) = make(&repo, ONE, "");
    let events = file(&repo, run, "events.jsonl");
    let store = open(&repo.path);
    let handle = store.handle();
    let directory = RunDirectory::of(&handle, run);
    let line = |text: &str| format!(r#"{{"id":"{}","type":"node.log","line":"{text}"}}"#, OpId::random());
    Writer::open(&handle, &directory)
        .expect("a journal")
        .append(&[line("telemetry").into()])
        .expect("a line");
    perform(&repo, run, chat(node, "of record"));
    let clean = |options: &[&str]| out(&repo.aynig_ok([&["clean", "--older-than", "0s"], options].concat()));
    assert!(!clean(&["--apply"]).contains("events.jsonl"), "it runs");
    finish(&repo, run);
    assert!(out(&repo.aynig_ok(["clean"])).contains("has ended, and not long ago"));
    assert!(clean(&[]).contains("would go  run"));
    fs::write(directory.path().join("events.torn-1"), "half").expect("a file");
    assert!(clean(&["--apply"]).contains("removed   run"));
    let text = fs::read_to_string(&events).expect("a journal");
    assert!(!text.contains("telemetry") && text.contains("of record"), "{text}");
    assert!(!directory.path().join("events.torn-1").exists() && !clean(&[]).contains("events.jsonl"));
    repo.aynig_ok(["orch", "doctor", ONE]);
    delete(&handle, run, &op(OpId::random()), false).expect("deleted");
    let archived = repo.path.join(".git/aynig/data/archive").join(ONE);
    for (options, stays) in
        [(["--apply"].as_slice(), true), (&["--runs"], true), (&["--runs", "--apply"], false)]
    {
        assert!(clean(options).contains(ONE), "{options:?}");
        assert_eq!(archived.is_dir(), stays, "{options:?}");
    }
}

#[test]
fn a_driver_is_no_merged_branch() {
    let repo = Repo::new();
    for (name, trailer) in [("work", ""), ("driver", "\naynig-run: 0a1b2c3d-0000-4000-8000-000000000000")] {
        repo.git(["checkout", "--quiet", "-b", name, "main"]);
        repo.write("a", "x\n");
        repo.commit_all(&format!("s\n\ndwp-state: rest{trailer}"));
    }
    repo.git(["checkout", "--quiet", "main"]);
    repo.write("a", "x\n");
    repo.commit_all("squash");
    let clean = out(&repo.aynig_ok(["clean"]));
    assert!(clean.contains("git branch -D work\n") && !clean.contains("driver"), "{clean}");
}

#[test]
fn doctor_and_status_know_runs() {
    let repo = Repo::new();
    let doctor = || out(&repo.aynig(["doctor"]));
    assert!(!doctor().contains("  runs  "));
    make(&repo, TWO, "");
    let (run, _) = make(&repo, ONE, "");
    assert!(doctor().contains("2 runs, ledgers and files readable"), "{}", doctor());
    let status = repo.aynig_ok(["status", "--all"]);
    assert!(
        err(&status).contains("running: 0a1b2c3d, 0a1b2fff: `aynig flow list`, `aynig orch run list`"),
        "{}",
        err(&status)
    );
    finish(&repo, run);
    assert!(err(&repo.aynig_ok(["status", "--all"])).contains("running: 0a1b2fff"));
    repo.aynig_ok(["orch", "show", ONE]);
    let events = file(&repo, run, "events.jsonl");
    let whole = fs::read(&events).expect("a journal");
    for (name, content) in
        [("events.jsonl", &whole[..whole.len() - 5]), ("state.json", b"{"), ("metadata.json", b"")]
    {
        let path = file(&repo, run, name);
        let before = fs::read(&path).expect("a file");
        fs::write(&path, content).expect("a file");
        let found = doctor();
        assert!(found.contains("1 run with damaged files"), "{name}: {found}");
        assert!(found.contains(&format!("next: aynig orch rebuild {ONE}")), "{name}: {found}");
        assert_eq!(fs::read(&path).expect("a file"), content, "it changes nothing");
        fs::write(&path, before).expect("a file");
    }
    let text = repo.git(["cat-file", "blob", &format!("refs/aynig/runs/{run}:run.json")]);
    falsify(
        &repo,
        run,
        "run.json",
        Some(&text.replace("\"contractVersion\": \"1\"", "\"contractVersion\": \"2\"")),
    );
    assert!(doctor().contains("1 run of another version"), "{}", doctor());
    falsify(&repo, run, "run.json", Some("{"));
    assert!(doctor().contains(&format!("next: aynig orch doctor {ONE}")), "{}", doctor());
}
