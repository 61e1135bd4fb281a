//! The same calls in a repository with many runs, beside one with few: what a repository costs after a year.
//!
//! Each run is a graph of five nodes that have nothing to read. Refs and objects are packed.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::ledgers::open;
use super::measure::{Sample, measure};
use super::room::Room;
use super::serve::{bearer, started};
use super::{Row, Sizes};

/// The runs of the small repository.
const FEW: usize = 10;

/// A graph of five nodes.
const GRAPH: &str = "nodes:
  - { alias: a, role: implementer, provider: custom, permissions: skip }
  - { alias: b, role: implementer, provider: custom, permissions: skip }
  - { alias: c, role: implementer, provider: custom, permissions: skip }
  - { alias: d, role: implementer, provider: custom, permissions: skip }
  - { alias: e, role: reviewer, provider: custom, permissions: skip }
edges:
  - { from: a, to: e }
";

/// What is called, by name.
const CALLS: [(&str, &[&str]); 6] = [
    ("a push of a state", &["set-state", "main", "--state", "done", "--remote", "hub"]),
    ("a pass with nothing to do", &["run"]),
    ("`status`, of one branch", &["status", "main"]),
    ("`orch run list`", &["orch", "run", "list"]),
    ("`status --all`", &["status", "--all"]),
    ("`clean`, which only shows", &["clean"]),
];

/// A row for each call.
pub(super) fn cases(sizes: &Sizes) -> Vec<Row> {
    let room = Room::new();
    let few = repository(&room, "few", FEW.min(sizes.runs));
    let many = repository(&room, "many", sizes.runs);
    let row = |what: &str, of: &dyn Fn(&Path) -> Sample| {
        let both: (Vec<Sample>, Vec<Sample>) = (0..sizes.rounds).map(|_| (of(&few), of(&many))).unzip();
        let what = format!("{what}: {} runs of 5 nodes, beside {}", sizes.runs, FEW.min(sizes.runs));
        Row { what, steps: None, git: both.0, ours: both.1, other: None }
    };
    let call = |(what, arguments): (&str, &[&str])| {
        row(what, &|repository| measure(&mut room.aynig(repository, arguments)))
    };
    let mut rows: Vec<Row> = CALLS.into_iter().map(call).collect();
    rows.push(row("the page's list", &|repository| list(&room, repository)));
    rows
}

/// The time of the list that the page reads, from a server that has shown it before.
fn list(room: &Room, repository: &Path) -> Sample {
    let (mut server, host) = started(&mut room.aynig(repository, &["serve", "--listen", "127.0.0.1:0"]));
    let bearer = bearer(&open(repository).handle());
    let request = format!(
        "GET /api/runs?view=summary&limit=50 HTTP/1.1\r\nHost: {host}\r\nAuthorization: {bearer}\r\nConnection: close\r\n\r\n"
    );
    let mut wall_ms = 0.0;
    for _ in 0..2 {
        let start = Instant::now();
        let mut stream = TcpStream::connect(&host).expect("it listens");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        wall_ms = start.elapsed().as_secs_f64() * 1000.0;
    }
    server.kill().expect("it runs");
    server.wait().expect("it is ours");
    Sample { wall_ms, cpu_ms: f64::NAN, peak_kib: 0, connections: None }
}

/// A repository with so many runs.
fn repository(room: &Room, name: &str, runs: usize) -> PathBuf {
    let path = room.repository(name, 9, &[], None);
    let file = room.path("growth.yaml");
    std::fs::write(&file, GRAPH).expect("a file");
    for (key, value) in [("kind", "custom"), ("command", "/bin/true"), ("protocol", "text")] {
        room.git(&path, &["config", &format!("aynig.provider.custom.{key}"), value], "");
    }
    for number in 0..runs {
        let (label, file) = (format!("Run {number}"), file.to_str().expect("UTF-8"));
        let create = ["orch", "run", "create", "--base", "main", "--label", &label, "--from", file];
        measure(&mut room.aynig(&path, &create));
    }
    room.git(&path, &["gc", "--quiet"], "");
    // A hub with as many refs.
    let hub = room.path(&format!("{name}-hub"));
    let hub = hub.to_str().expect("UTF-8");
    room.git(&path, &["clone", "--quiet", "--mirror", ".", hub], "");
    room.git(&path, &["remote", "add", "hub", hub], "");
    path
}
