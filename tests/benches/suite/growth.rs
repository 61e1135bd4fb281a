//! The same calls in a repository with many runs, beside one with few: what a repository costs after a year.
//!
//! Each run is a graph of five nodes that have nothing to read. Refs and objects are packed.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::ledgers::open;
use super::measure::{Sample, measure, median};
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

/// The calls by name, with their arguments; and in `sh` the call of plain git that reads or pushes as much.
const CALLS: [(&str, &[&str], &str); 6] = [
    ("a push of a state", &["set-state", "main", "--state", "done", "--remote", "hub"], PUSH),
    ("a pass with nothing to do", &["run"], "git for-each-ref --format='%(contents)'"),
    (
        "`status` of one branch",
        &["status", "main"],
        "git for-each-ref --format='%(contents)' refs/heads/main",
    ),
    ("`orch run list`", &["orch", "run", "list"], LEDGERS),
    ("`status --all`", &["status", "--all"], "git for-each-ref --format='%(contents)'"),
    ("`clean`, which only shows", &["clean"], "git for-each-ref --format='%(contents)'"),
];

const PUSH: &str = "git push --quiet --force hub $(git commit-tree -m x main^{tree}):refs/heads/pushed";

const LEDGERS: &str = "git for-each-ref --format='%(contents)' refs/aynig/runs";

/// A row for each call with many runs beside few, and with as many of which all but a few have ended, after `clean`. Their
/// other number is the growth of plain git.
pub(super) fn cases(sizes: &Sizes) -> Vec<Row> {
    let mut room = Room::new();
    let small = FEW.min(sizes.runs);
    let few = repository(&room, "few", small);
    let many = repository(&room, "many", sizes.runs);
    let ended = ended(&mut room, &many, small);
    for path in [&few, &many, &ended] {
        hub(&room, path);
    }
    let large = [(&many, "of 5 nodes"), (&ended, "after all but these have ended, and `clean`")];
    let row = |what: &str, of: &dyn Fn(&Path) -> Sample, (path, which): (&PathBuf, &str), plain: &str| {
        let both = || (0..sizes.rounds).map(|_| (of(&few), of(path))).unzip();
        let (git, ours): (Vec<Sample>, Vec<Sample>) = both();
        let git_in = |path: &Path| measure(room.program("sh", path).args(["-c", plain])).wall_ms;
        let growth = (0..sizes.rounds).map(|_| 1.0 / git_in(&few) * git_in(path));
        let what = format!("{what}: {} runs {which}, beside {small}", sizes.runs);
        Row { what, steps: None, git, ours, other: Some(median(growth)) }
    };
    let mut rows = Vec::new();
    for of in large {
        for (what, arguments, plain) in CALLS {
            let call = |repository: &Path| measure(&mut room.aynig(repository, arguments));
            rows.push(row(what, &call, of, plain));
        }
        rows.push(row("the page's list", &|repository| list(&room, repository), of, LEDGERS));
    }
    rows
}

/// The time of the list that the page reads, from a server that has shown it before: the page asks again and again.
fn list(room: &Room, repository: &Path) -> Sample {
    let (mut server, host) = started(&mut room.aynig(repository, &["serve", "--listen", "127.0.0.1:0"]));
    let bearer = bearer(&open(repository).handle());
    let request = format!(
        "GET /api/runs?view=summary&limit=50 HTTP/1.1\r\nHost: {host}\r\nAuthorization: {bearer}\r\nConnection: close\r\n\r\n"
    );
    let mut wall_ms = 0.0;
    for _ in 0..5 {
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
    path
}

/// A copy in which all but so many runs were stopped, and cleaned up after.
fn ended(room: &mut Room, many: &Path, small: usize) -> PathBuf {
    let path = room.copy(many);
    let ledgers = room.git(&path, &["for-each-ref", "--format=%(refname:lstrip=3)", "refs/aynig/runs"], "");
    for run in ledgers.lines().skip(small) {
        measure(&mut room.aynig(&path, &["orch", "run", "stop", run]));
    }
    measure(&mut room.aynig(&path, &["clean", "--older-than", "0s", "--apply"]));
    room.git(&path, &["gc", "--quiet"], "");
    path
}

/// A hub with as many refs.
fn hub(room: &Room, path: &Path) {
    let hub = format!("{}-hub", path.to_str().expect("UTF-8"));
    room.git(path, &["clone", "--quiet", "--mirror", ".", &hub], "");
    room.git(path, &["remote", "add", "hub", &hub], "");
}
