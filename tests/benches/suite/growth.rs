//! The same calls in a repository with many runs, beside one with few: what a repository costs after a year.
//!
//! Each run is a graph of five nodes that have nothing to read. Refs and objects are packed.

use std::path::{Path, PathBuf};

use super::measure::{Sample, measure};
use super::room::Room;
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
const CALLS: [(&str, &[&str]); 4] = [
    ("a pass with nothing to do", &["run"]),
    ("`orch run list`", &["orch", "run", "list"]),
    ("`status --all`", &["status", "--all"]),
    ("`clean`, which only shows", &["clean"]),
];

/// A row for each call.
pub(super) fn cases(sizes: &Sizes) -> Vec<Row> {
    let room = Room::new();
    let few = repository(&room, "few", FEW.min(sizes.runs));
    let many = repository(&room, "many", sizes.runs);
    let row = |(what, arguments): (&str, &[&str])| {
        let of = |repository: &Path| measure(&mut room.aynig(repository, arguments));
        let both: (Vec<Sample>, Vec<Sample>) = (0..sizes.rounds).map(|_| (of(&few), of(&many))).unzip();
        let what = format!("{what}: {} runs of 5 nodes, beside {}", sizes.runs, FEW.min(sizes.runs));
        Row { what, steps: None, git: both.0, ours: both.1, other: None }
    };
    CALLS.into_iter().map(row).collect()
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
