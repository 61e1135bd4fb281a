//! Journals: made from the ledger, the same on every host, and made again whatever is lost.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use aynig::contract::ids::RemoteName;
use aynig::git::Repo as Opened;
use aynig::journal::JournalError;
use aynig::journal::directory::RunDirectory;
use aynig::journal::log::Line;
use aynig::journal::pages::Reader;
use aynig::journal::sync::{Synced, rebuild, sync};
use aynig::journal::writer::Writer;
use aynig::ledger::Place;
use aynig::ledger::operate::Ledger;
use aynig::model::ids::{NodeId, OpId, RunId};
use serde_json::{Value, json};

use super::ledger::{chat, op, open, run_with_node, writer};
use super::support::*;

/// A repository with a run of one node.
pub(super) struct Scene {
    pub(super) repo: Repo,
    pub(super) handle: Opened,
    pub(super) run: RunId,
    pub(super) node: NodeId,
    pub(super) directory: RunDirectory,
}

impl Scene {
    pub(super) fn new() -> Self {
        let repo = Repo::new();
        let handle = open(&repo.path).handle();
        let (run, node) = run_with_node(&handle, &Place::Here);
        let directory = RunDirectory::of(&handle, run);
        Self { repo, handle, run, node, directory }
    }
}

pub(super) fn say(repo: &Opened, run: RunId, node: NodeId, text: &str) {
    let mut ledger = Ledger::open(repo, run).expect("a ledger");
    ledger.operate(&op(OpId::random()), &[chat(node, text)], &[]).expect("an operation");
}

fn append(repo: &Opened, directory: &RunDirectory, events: &[Vec<u8>]) -> Result<Synced, JournalError> {
    Writer::open(repo, directory)?.append(events)
}

/// All lines, checked: numbered from 1 without gaps, each id once.
pub(super) fn lines(directory: &RunDirectory) -> Vec<Value> {
    let reader = Reader::open(directory).expect("a file").expect("a journal");
    let page = reader.page(None, usize::MAX).expect("lines");
    let values: Vec<Value> =
        page.lines.iter().map(|line| serde_json::from_slice(&line.bytes).expect("JSON")).collect();
    let numbers: Vec<u64> = values.iter().map(|value| value["seq"].as_u64().expect("a number")).collect();
    assert_eq!(numbers, (1..=u64::try_from(values.len()).expect("few")).collect::<Vec<_>>());
    let mut ids: Vec<&str> = values.iter().map(|value| value["id"].as_str().expect("an id")).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), values.len(), "an event is there twice");
    values
}

/// What is the same on every host.
pub(super) fn of_record(directory: &RunDirectory) -> Vec<Value> {
    let mut values = lines(directory);
    values.retain(|value| value.get("commit").is_some());
    for value in &mut values {
        value.as_object_mut().expect("an object").remove("seq");
    }
    values
}

fn delta(number: usize) -> Vec<u8> {
    let id = OpId::random().to_string();
    json!({"id": id, "type": "message.assistant.delta", "delta": format!("word {number}")})
        .to_string()
        .into_bytes()
}

pub(super) fn state(directory: &RunDirectory) -> Value {
    serde_json::from_slice(&fs::read(directory.state()).expect("a file")).expect("JSON")
}

/// CONTRACT 17.1, 17.5, 17.6
#[test]
fn a_journal_has_the_events_and_the_state_of_the_contract() {
    let Scene { repo: _repo, handle, run, node, directory } = Scene::new();
    say(&handle, run, node, "hello");
    let synced = sync(&handle, &directory).expect("a journal");
    let lines = lines(&directory);
    assert_eq!(usize::try_from(synced.last_seq).expect("few"), lines.len());
    let types: Vec<&str> = lines.iter().map(|line| line["type"].as_str().expect("a type")).collect();
    assert_eq!(types[..3], ["run.patch", "node.patch", "run.patch"]);
    assert!(types.contains(&"message.user"));
    for line in &lines {
        assert!(line["runId"] == run.to_string() && line["ts"].is_string(), "{line}");
    }
    let state = state(&directory);
    for field in ["id", "contractVersion", "status", "mode", "globalMode", "createdAt", "updatedAt"] {
        assert!(state[field].is_string(), "{field}");
    }
    for field in ["nodes", "nodeConfigs", "edges", "artifacts", "approvals"] {
        assert!(state[field].is_object(), "{field}");
    }
    assert_eq!(state["nodes"][node.to_string()]["inboxCount"], 1);
    assert_eq!(state["lastSeq"], synced.last_seq);
    // Only its owner may look into it.
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!((mode(directory.path()), mode(&directory.events())), (0o700, 0o600));
    // Nothing new: nothing is written.
    let before = fs::metadata(directory.state()).expect("a file").modified().expect("a time");
    assert_eq!(sync(&handle, &directory).expect("a journal").added, 0);
    assert_eq!(fs::metadata(directory.state()).expect("a file").modified().expect("a time"), before);
}

/// CONTRACT 17.1
#[test]
fn two_hosts_have_the_same_events_in_the_same_order() {
    let (hub, one, two) = (Repo::new(), Repo::new(), Repo::new());
    let url = hub.path.display().to_string();
    for clone in [&one, &two] {
        clone.git(["remote", "add", "origin", &url]);
    }
    let (first, second) = (open(&one.path), open(&two.path));
    let place = Place::Remote(RemoteName::parse("origin").expect("a name"));
    let (run, node) = run_with_node(&first.handle(), &place);
    two.git(["fetch", "--quiet", "origin", "+refs/aynig/*:refs/aynig/*"]);
    let (here, there) = (first.handle(), second.handle());
    let (mine, theirs) = (RunDirectory::of(&here, run), RunDirectory::of(&there, run));
    for number in 0..4 {
        let (repo, directory) = if number % 2 == 0 { (&here, &mine) } else { (&there, &theirs) };
        say(repo, run, node, &format!("message {number}"));
        // What one host alone saw lies between.
        append(repo, directory, &[delta(number)]).expect("a line");
    }
    for (repo, directory) in [(&here, &mine), (&there, &theirs)] {
        Ledger::open(repo, run).and_then(|mut ledger| ledger.refresh()).expect("the hub");
        sync(repo, directory).expect("a journal");
    }
    assert_eq!(of_record(&mine), of_record(&theirs));
    assert_eq!(lines(&mine).len(), of_record(&mine).len() + 2);
}

/// CONTRACT 17.2
#[test]
fn a_torn_end_is_moved_away_and_what_was_of_record_comes_again() {
    let Scene { repo: _repo, handle, run, node, directory } = Scene::new();
    say(&handle, run, node, "ünïcödé ✓✓✓");
    sync(&handle, &directory).expect("a journal");
    let whole = fs::read(directory.events()).expect("a file");
    let wanted = of_record(&directory);
    let zeros = |length: usize| [whole.as_slice(), &vec![0; length]].concat();
    let mut torn: Vec<Vec<u8>> = (1..700).step_by(7).map(|cut| whole[..whole.len() - cut].to_vec()).collect();
    torn.extend([zeros(1), zeros(5000), zeros(32 * 1024 * 1024), [zeros(64).as_slice(), b"\n"].concat()]);
    torn.extend([
        [&whole[..], b"{\"seq\":"].concat(),
        [&whole[..], b"nonsense\n"].concat(),
        b"\0\0\0".to_vec(),
    ]);
    for (number, content) in torn.iter().enumerate() {
        fs::write(directory.events(), content).expect("a file");
        let added = append(&handle, &directory, &[delta(number)]).expect("a line");
        // Somebody looks, and the ledger is ahead of the journal.
        let metadata = fs::read_to_string(directory.path().join("metadata.json")).expect("a file");
        let mut metadata: Value = serde_json::from_str(&metadata).expect("JSON");
        metadata["synced"] = "".into();
        fs::write(directory.path().join("metadata.json"), metadata.to_string()).expect("a file");
        sync(&handle, &directory).expect("a journal");
        let ids = |values: &[Value]| values.iter().map(|value| value["id"].to_string()).collect::<Vec<_>>();
        assert_eq!(ids(&of_record(&directory)), ids(&wanted), "case {number}");
        if let Some(place) = added.torn {
            let kept = fs::read(&place).expect("what was cut off is kept");
            assert!(content.ends_with(&kept), "case {number}");
        }
    }
}

/// CONTRACT 17.3
#[test]
fn events_of_this_host_after_the_last_one_of_record_are_read_a_few_times_at_most() {
    let Scene { repo: _repo, handle, run, node, directory } = Scene::new();
    let many: Vec<Vec<u8>> = (0..20_000).map(delta).collect();
    append(&handle, &directory, &many).expect("lines");
    say(&handle, run, node, "last");
    let read = || {
        let io = fs::read_to_string("/proc/thread-self/io").expect("on Linux");
        let line = io.lines().find_map(|line| line.strip_prefix("rchar: ")).expect("a count");
        line.parse::<u64>().expect("a number")
    };
    let before = read();
    assert!(sync(&handle, &directory).expect("a journal").added > 0);
    let length = fs::metadata(directory.events()).expect("a file").len();
    assert!(read() - before < 12 * length, "{} bytes of {length}", read() - before);
}

/// CONTRACT 17.3
#[test]
fn events_of_a_stranger_with_one_id_come_again_each() {
    let Scene { repo, handle, run, node, directory } = Scene::new();
    say(&handle, run, node, "last");
    let ledger = format!("refs/aynig/runs/{run}");
    let message = repo.message(&ledger);
    let event = message.lines().find(|line| line.starts_with('{')).expect("an event").to_owned();
    let twice = message.replace(&event, &format!("{event}\n{event}\n{event}"));
    let commit =
        repo.git(["commit-tree", &format!("{ledger}^{{tree}}"), "-p", &format!("{ledger}^"), "-m", &twice]);
    repo.git(["update-ref", &ledger, &commit]);
    sync(&handle, &directory).expect("a journal");
    let whole = fs::read_to_string(directory.events()).expect("a file");
    let its = whole.lines().filter(|line| line.contains(&commit)).count();
    assert!(its >= 3, "{whole}");
    for lost in 1..its {
        let kept: Vec<&str> = whole.split_inclusive('\n').take(whole.lines().count() - lost).collect();
        fs::write(directory.events(), kept.concat()).expect("a file");
        fs::remove_file(directory.state()).expect("it is there");
        let synced = sync(&handle, &directory).expect("a journal");
        assert_eq!((synced.added, synced.anew), (lost, false));
        assert_eq!(fs::read_to_string(directory.events()).expect("a file"), whole, "{lost}");
    }
}

/// CONTRACT 17.3, 17.4
#[test]
fn a_damaged_or_missing_journal_is_made_anew_and_old_positions_are_refused() {
    let Scene { repo, handle, run, node, directory } = Scene::new();
    let mut journal = sync(&handle, &directory).expect("a journal").journal;
    let wanted = of_record(&directory);
    let damages: [fn(&RunDirectory); 4] = [
        |directory| fs::remove_file(directory.events()).expect("it was there"),
        |directory| fs::remove_dir_all(directory.path()).expect("it was there"),
        |directory| fs::remove_file(directory.path().join("metadata.json")).expect("it was there"),
        |directory| fs::write(directory.path().join("metadata.json"), "{").expect("a file"),
    ];
    for damage in damages {
        damage(&directory);
        let again = sync(&handle, &directory).expect("a journal");
        assert!(again.anew && again.journal != journal);
        assert!(matches!(Reader::check(&directory, &journal), Err(JournalError::Replaced { .. })));
        Reader::check(&directory, &again.journal).expect("its own position");
        assert_eq!(of_record(&directory), wanted);
        journal = again.journal;
    }
    fs::remove_file(directory.state()).expect("it was there");
    let again = sync(&handle, &directory).expect("a journal");
    assert!(!again.anew && again.added == 0 && directory.state().is_file());
    // A ledger that was put back to an older operation has another history.
    say(&handle, run, node, "dropped");
    sync(&handle, &directory).expect("a journal");
    let name = format!("refs/aynig/runs/{run}");
    repo.git(["update-ref", &name, &format!("{name}~1")]);
    assert!(sync(&handle, &directory).expect("a journal").anew);
    assert_eq!(of_record(&directory), wanted);
    assert!(rebuild(&handle, &directory).expect("a journal").anew);
    assert_eq!(of_record(&directory), wanted);
}

/// CONTRACT 17.1
#[test]
fn an_event_of_this_host_does_not_pass_for_one_of_record() {
    let Scene { repo, handle, run, node, directory } = Scene::new();
    sync(&handle, &directory).expect("a journal");
    let head = repo.head(&format!("refs/aynig/runs/{run}~1"));
    for text in [
        format!(r#"{{"commit":"{head}","id":"{}","type":"node.log","seq":1}}"#, OpId::random()),
        format!(r#"{{"id":"{}","type":"node.log","seq":1,"commit":"{head}"}}"#, OpId::random()),
        format!("{{\n  \"id\": \"{}\",\n  \"type\": \"node.log\"\n}}", OpId::random()),
    ] {
        append(&handle, &directory, &[text.into_bytes()]).expect("a line");
    }
    say(&handle, run, node, "hello");
    assert!(!sync(&handle, &directory).expect("a journal").anew);
    let lines = lines(&directory);
    assert_eq!(lines.iter().filter(|line| line["type"] == "node.log").count(), 3);
    assert_eq!(lines.iter().filter(|line| line["type"] == "message.user").count(), 1);
}

#[test]
fn a_ledger_that_cannot_be_read_leaves_the_journal_as_it_is() {
    let Scene { repo, handle, run, directory, .. } = Scene::new();
    append(&handle, &directory, &[delta(1)]).expect("a line");
    let before = fs::read(directory.events()).expect("a file");
    repo.git(["update-ref", &format!("refs/aynig/runs/{run}"), "main"]);
    assert!(matches!(sync(&handle, &directory), Err(JournalError::Ledger(_))));
    assert!(matches!(rebuild(&handle, &directory), Err(JournalError::Ledger(_))));
    assert_eq!(fs::read(directory.events()).expect("a file"), before);
}

#[test]
fn pages_are_found_by_number_in_a_long_journal() {
    let Scene { repo: _repo, handle, directory, .. } = Scene::new();
    let first = usize::try_from(sync(&handle, &directory).expect("a journal").last_seq).expect("few");
    let deltas: Vec<Vec<u8>> = (first..3000).map(delta).collect();
    append(&handle, &directory, &deltas).expect("lines");
    // Lines that are longer than what is read at once, and one that is none.
    let long =
        json!({"id": "long", "type": "node.log", "line": "x".repeat(3_000_000)}).to_string().into_bytes();
    append(&handle, &directory, &[long]).expect("a line");
    let text = fs::read(directory.events()).expect("a file");
    let at = text.len() / 2;
    let newline = at + text[at..].iter().position(|byte| *byte == b'\n').expect("a line");
    let with_bad = [&text[..=newline], b"this is no event\n", &text[newline + 1..]].concat();
    fs::write(directory.events(), with_bad).expect("a file");
    append(&handle, &directory, &[delta(1), delta(2)]).expect("lines");
    let last = 3003;

    let mut reader = Reader::open(&directory).expect("a file").expect("a journal");
    let numbers = |lines: &[Line]| lines.iter().map(|line| line.seq).collect::<Vec<u64>>();
    for (before, limit, wanted, more) in [
        (None, 2, last - 1..=last, true),
        (Some(last), 2, last - 2..=last - 1, true),
        (Some(11), 10, 1..=10, false),
        (Some(10), 9, 1..=9, false),
        (Some(10), 8, 2..=9, true),
        (Some(2), 100, 1..=1, false),
        (Some(9_999), 3, last - 2..=last, true),
    ] {
        let page = reader.page(before, limit).expect("a page");
        assert_eq!((numbers(&page.lines), page.has_more), (wanted.collect(), more), "{before:?} {limit}");
    }
    assert_eq!(numbers(&reader.page(Some(1), 5).expect("a page").lines), Vec::<u64>::new());
    for after in [0, 1, 5, 1499, 1500, 1501, 2999, 3000, 3001, last - 1] {
        reader.seek_after(after).expect("a place");
        assert_eq!(reader.next_lines().expect("lines")[0].seq, after + 1);
    }
    // A follower gets all that is new, each line once, and no half line.
    reader.seek_after(0).expect("a place");
    let mut read = Vec::new();
    loop {
        let lines = reader.next_lines().expect("lines");
        if lines.is_empty() {
            break;
        }
        read.extend(numbers(&lines));
    }
    assert_eq!(read, (1..=last).collect::<Vec<_>>());
    append(&handle, &directory, &[delta(3)]).expect("a line");
    assert_eq!(numbers(&reader.next_lines().expect("lines")), [last + 1]);
    assert!(reader.next_lines().expect("lines").is_empty());
}

/// CONTRACT 17.4, 17.7
#[test]
fn a_follower_goes_on_after_a_torn_end_and_leaves_a_journal_that_was_made_anew() {
    let Scene { repo: _repo, handle, directory, .. } = Scene::new();
    append(&handle, &directory, &[delta(1)]).expect("a line");
    let mut reader = Reader::open(&directory).expect("a file").expect("a journal");
    let last = reader.next_lines().expect("lines").last().expect("a line").seq;
    // A whole line that is no event is passed over, and then cut off with its newline.
    let mut text = fs::read(directory.events()).expect("a file");
    text.extend([vec![0; 6000].as_slice(), b"\n"].concat());
    fs::write(directory.events(), text).expect("a file");
    assert!(reader.next_lines().expect("lines").is_empty());
    assert!(append(&handle, &directory, &[delta(2)]).expect("a line").torn.is_some());
    let numbers: Vec<u64> = reader.next_lines().expect("lines").iter().map(|line| line.seq).collect();
    assert_eq!(numbers, [last + 1]);
    rebuild(&handle, &directory).expect("a journal");
    assert!(matches!(reader.next_lines(), Err(JournalError::Replaced { .. })));
}

/// CONTRACT 17.2
#[test]
fn many_who_append_and_synchronise_leave_no_gap() {
    let repo = Repo::new();
    let store = open(&repo.path);
    let (run, _) = run_with_node(&store.handle(), &Place::Here);
    let directory = RunDirectory::of(&store.handle(), run);
    let mut writing = writer(&repo.path, run, "w", 20).spawn().expect("a process");
    std::thread::scope(|threads| {
        for _ in 0..3 {
            threads.spawn(|| {
                let store = open(&repo.path);
                for number in 0..20 {
                    append(&store.handle(), &directory, &[delta(number), delta(number)]).expect("lines");
                }
            });
        }
    });
    assert!(writing.wait().expect("it ends").success());
    sync(&store.handle(), &directory).expect("a journal");
    let all = lines(&directory);
    assert_eq!(all.iter().filter(|line| line["type"] == "message.assistant.delta").count(), 120);
    assert_eq!(all.iter().filter(|line| line["type"] == "message.user").count(), 20);
}

/// Not a test: a process that dies between the journal and `state.json`.
#[test]
#[ignore = "the body of a process that is killed"]
fn synchroniser() {
    let Ok(run) = std::env::var("AYNIG_TEST_SYNC") else { return };
    let store = open(Path::new("."));
    let directory = RunDirectory::of(&store.handle(), RunId::parse(&run).expect("an id"));
    sync(&store.handle(), &directory).expect("a journal");
}

/// Brings a run's files up in a process that is to be killed at this point. Returns whether it was.
pub(super) fn dies(repo: &Repo, run: RunId, point: &str) -> bool {
    let mut process = std::process::Command::new(std::env::current_exe().expect("this program"));
    let output = hermetic(&mut process)
        .args(["--exact", "--ignored", "journal::synchroniser"])
        .env("AYNIG_TEST_SYNC", run.to_string())
        .env("AYNIG_CRASH_AT", format!("{point}:kill"))
        .current_dir(&repo.path)
        .output()
        .expect("it starts");
    !output.status.success()
}

/// CONTRACT 17.3
#[test]
fn killed_between_journal_and_state_nothing_is_there_twice() {
    let Scene { repo, handle, run, node, directory } = Scene::new();
    for point in ["journal-written", "file-drafted"] {
        say(&handle, run, node, point);
        assert!(dies(&repo, run, point), "{point} was not reached");
        let synced = sync(&handle, &directory).expect("a journal");
        assert!(!synced.anew || point == "journal-written", "{point}");
        assert_eq!(lines(&directory).len(), of_record(&directory).len());
        assert_eq!(state(&directory)["lastSeq"], synced.last_seq);
    }
}
