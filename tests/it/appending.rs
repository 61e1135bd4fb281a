//! What a host appends to a journal itself, and the contents of artifacts.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::Instant;

use aynig::git::Repo as Opened;
use aynig::git::objects::digest::sha256;
use aynig::journal::directory::RunDirectory;
use aynig::journal::sync::{rebuild, sync};
use aynig::journal::writer::Writer;
use aynig::journal::{JournalError, artifacts};
use aynig::ledger::Place;
use aynig::ledger::operate::{Ledger, here};
use aynig::model::artifact::{Artifact, ArtifactKind};
use aynig::model::decide::{Command, NewArtifact};
use aynig::model::ids::{FileName, OpId, RunId, Slug};
use serde_json::{Value, json};

use super::journal::{Scene, lines, of_record, say, state};
use super::ledger::{create_with_node, new_run, op, open};
use super::orch::falsify;
use super::support::*;

fn event(kind: &str, text: &str) -> Vec<u8> {
    json!({"id": OpId::random().to_string(), "type": kind, "line": text}).to_string().into_bytes()
}

/// Adds an artifact with this content to the ledger.
fn add(repo: &Opened, run: RunId, name: &str, content: &[u8]) -> Artifact {
    let new = NewArtifact {
        id: None,
        node: None,
        turn: None,
        kind: ArtifactKind::Report,
        name: FileName::parse(name).expect("a name"),
        media_type: "text/plain".to_owned(),
        size: u64::try_from(content.len()).expect("small"),
        sha256: sha256(content),
    };
    let mut ledger = Ledger::open(repo, run).expect("a ledger");
    let known: BTreeSet<_> = ledger.tip().state.artifacts.keys().copied().collect();
    ledger.operate(&op(OpId::random()), &[Command::AddArtifact(new)], &[]).expect("an operation");
    let tip = here(repo, run).expect("a ledger");
    let mut made = tip.state.artifacts.values().filter(|artifact| !known.contains(&artifact.id));
    made.next().expect("an artifact").clone()
}

/// CONTRACT 17.9
#[test]
fn a_long_event_becomes_an_artifact_and_all_files_are_private() {
    let Scene { repo: _repo, handle, directory, .. } = Scene::new();
    let (short, long) =
        (event("tool.completed", &"x".repeat(16_000)), event("tool.completed", &"y".repeat(17_000)));
    let mut writer = Writer::open(&handle, &directory).expect("a journal");
    writer.append(&[short.clone(), long.clone()]).expect("lines");
    let lines = lines(&directory);
    let [.., first, second] = lines.as_slice() else { panic!("{lines:?}") };
    assert_eq!(first["line"].as_str().map(str::len), Some(16_000));
    assert!(second.get("line").is_none() && second["type"] == "tool.completed", "{second}");
    let id = second["artifact"]["id"].as_str().expect("an id");
    let content = fs::read(directory.artifacts().join(id)).expect("its content");
    let value = |text: &[u8]| serde_json::from_slice::<Value>(text).expect("JSON");
    assert_eq!(value(&content), value(&long));
    assert_eq!(second["artifact"]["sha256"], sha256(&content));
    for path in files_below(directory.path()) {
        let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().expect("below"))), (0o600, 0o700), "{}", path.display());
    }
    assert!(matches!(writer.append(&[b"[1]".to_vec()]), Err(JournalError::NoEvent(_))));
    assert_eq!(lines.len(), super::journal::lines(&directory).len());
}

/// CONTRACT 16.4
#[test]
fn secrets_are_masked_in_a_journal() {
    let repo = Repo::new();
    repo.write(".aynig/redact", "tok-[a-z0-9]+\n");
    repo.commit_all("expressions");
    let store = open(&repo.path);
    let handle = store.handle();
    let id = RunId::random();
    let mut new = new_run(&handle, &Place::Here, id, Slug::of(id, 8));
    new.base_sha = repo.head("main");
    let (run, _) = create_with_node(&handle, &Place::Here, &new);
    let directory = RunDirectory::of(&handle, run);
    let events =
        [event("node.log", "a tok-12ab"), event("node.log", &format!("tok-7 {}", "z".repeat(20_000)))];
    Writer::open(&handle, &directory).expect("a journal").append(&events).expect("lines");
    assert_eq!(lines(&directory).iter().rev().nth(1).expect("a line")["line"], "a ***");
    for file in files_below(directory.path()) {
        let text = fs::read_to_string(&file).expect("a file");
        assert!(!text.contains("tok-"), "{}", file.display());
    }
}

/// CONTRACT 17.10
#[test]
fn a_journal_that_is_too_long_gets_no_more_deltas_and_says_so_once() {
    let Scene { repo: _repo, handle, run, node, directory } = Scene::new();
    for _ in 0..2 {
        let mut writer = Writer::open(&handle, &directory).expect("a journal").bounded(100);
        let delta = || event("message.assistant.delta", "part");
        writer.append(&[delta(), event("tool.started", "kept"), delta()]).expect("lines");
        say(&handle, run, node, "kept");
        writer.append(&[delta()]).expect("lines");
    }
    let lines = lines(&directory);
    let count = |kind: &str| lines.iter().filter(|line| line["type"] == kind).count();
    let counts = ["message.assistant.delta", "tool.started", "message.user", "node.log"].map(count);
    assert_eq!(counts, [0, 2, 2, 1]);
    let report = lines.iter().find(|line| line["type"] == "node.log").expect("a report");
    assert!(report["line"].as_str().is_some_and(|text| text.contains("no longer kept")), "{report}");
    assert!(report["runId"] == run.to_string() && report["ts"].is_string() && report["id"].is_string());
}

/// CONTRACT 17.10
#[test]
fn while_somebody_appends_the_state_follows_at_intervals() {
    let Scene { repo: _repo, handle, run, node, directory } = Scene::new();
    let mut writer = Writer::open(&handle, &directory).expect("a journal");
    let (begun, mut states, mut appended) = (Instant::now(), BTreeSet::new(), 0_usize);
    while begun.elapsed().as_millis() < 500 || appended < 20 {
        say(&handle, run, node, "x");
        writer.append(&[event("node.log", "y")]).expect("a line");
        appended += 1;
        // The order of ledger and journal is kept, although the state is older.
        assert_eq!(lines(&directory).last().expect("a line")["line"], "y");
        let state = fs::metadata(directory.state()).expect("a file");
        states.insert((state.ino(), state.mtime_nsec()));
    }
    let most = begun.elapsed().as_millis() / 100 + 2;
    assert!(
        u128::try_from(states.len()).expect("few") <= most,
        "{} of {appended}, at most {most}",
        states.len()
    );
    let synced = sync(&handle, &directory).expect("a journal");
    // Lines that only this host saw change no state, so they may follow it.
    let last = state(&directory)["lastSeq"].as_u64().expect("a number");
    assert!(last + 1 >= synced.last_seq, "{last} of {}", synced.last_seq);
    assert_eq!(state(&directory)["nodes"][node.to_string()]["inboxCount"], appended);
    assert_eq!(of_record(&directory).iter().filter(|line| line["type"] == "message.user").count(), appended);
}

/// CONTRACT 17.9
#[test]
fn a_content_is_kept_if_it_is_that_of_its_artifact() {
    let Scene { repo, handle, run, directory, .. } = Scene::new();
    let artifact = add(&handle, run, "notes.txt", b"content");
    sync(&handle, &directory).expect("a journal");
    let shown = |run: &RunDirectory| state(run)["artifacts"][artifact.id.to_string()].clone();
    assert!(shown(&directory)["available"] == false && shown(&directory)["host"] == "host");
    for wrong in [b"contenT".as_slice(), b"content ", b""] {
        let refused = artifacts::store(&directory, &artifact, wrong);
        assert!(matches!(refused, Err(JournalError::Content { .. })), "{wrong:?}");
    }
    assert!(!directory.artifacts().exists(), "nothing half-written");
    artifacts::store(&directory, &artifact, b"content").expect("a file");
    // Another operation brings the state up.
    add(&handle, run, "other.txt", b"elsewhere");
    sync(&handle, &directory).expect("a journal");
    let path = shown(&directory)["path"].as_str().expect("a path").to_owned();
    assert!(shown(&directory)["available"] == true && Path::new(&path).is_absolute());
    assert_eq!(fs::read(&path).expect("its content"), b"content");
    fs::write(&path, "contenT").expect("a file");
    let output = repo.aynig(["orch", "doctor", &run.to_string()]);
    assert!(output.status.code() == Some(1) && out(&output).contains("SHA-256"), "{}", out(&output));
}

/// CONTRACT 17.9
#[test]
fn contents_of_the_ledger_come_with_it() {
    let Scene { repo, handle, run, directory, .. } = Scene::new();
    let artifact = add(&handle, run, "notes.txt", b"content");
    let inside = artifacts::path_in_tree(&artifact).expect("a digest");
    let place = artifacts::place(&directory, artifact.id);
    // A stranger's content is left out, and named by the doctor.
    falsify(&repo, run, &inside, Some("wrong"));
    sync(&handle, &directory).expect("a journal");
    assert!(!place.exists());
    let output = repo.aynig(["orch", "doctor", &run.to_string()]);
    assert!(output.status.code() == Some(1) && out(&output).contains(&inside), "{}", out(&output));
    falsify(&repo, run, &inside, Some("content"));
    for point in ["journal-written", "content-projected", "file-drafted"] {
        fs::remove_dir_all(directory.path()).expect("it was there");
        let died = super::journal::dies(&repo, run, point);
        assert!(died, "{point} was not reached");
        sync(&handle, &directory).expect("a journal");
        assert_eq!(fs::read(&place).expect("its content"), b"content", "{point}");
        assert_eq!(state(&directory)["artifacts"][artifact.id.to_string()]["available"], true, "{point}");
        repo.aynig_ok(["orch", "doctor", &run.to_string()]);
    }
    fs::write(&place, "contenT").expect("a file");
    rebuild(&handle, &directory).expect("a journal");
    assert_eq!(fs::read(&place).expect("its content"), b"content");
}
