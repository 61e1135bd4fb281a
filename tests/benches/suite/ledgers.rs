//! Operations on ledgers, compared with a shell loop over `git commit-tree` and `git update-ref`.
//!
//! A writer of ours is this program, started again with the order in [`ORDER`].

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use aynig::git::repo::open::GitVariables;
use aynig::git::{Repo, Store};
use aynig::ledger::{Ledger, Place, runs};
use aynig::model::artifact::ArtifactKind;
use aynig::model::by::By;
use aynig::model::decide::{Command as Request, EndedTurn, NewArtifact, Op};
use aynig::model::ids::{FileName, NodeId, OpId, RunId};
use aynig::model::run::Usage;
use aynig::model::step::TurnStatus;
use aynig::model::time::Timestamp;

use super::made::{new_run, node};
use super::measure::{measure, median};
use super::room::Room;
use super::{Row, Sizes};

/// The variable with the order of a writer: run, first node, number of writers, turns.
pub(super) const ORDER: &str = "AYNIG_BENCH_LEDGER";

/// How many writers there are at once.
const WRITERS: usize = 8;

/// The nodes of a run.
const NODES: usize = 20;

/// The operations of a turn: a message, an artifact, and the end.
const EACH: usize = 3;

/// Commits on one ref, each from the last one. `$1` is how many. A lost race is tried again.
const PLAIN: &str = r#"#!/bin/sh
set -eu
tree=$(git rev-parse 'main^{tree}') n=0
while [ $n -lt "$1" ]; do
    tip=$(git rev-parse refs/plain)
    commit=$(printf 'operation %s\n' $n | git commit-tree -p "$tip" -F - "$tree")
    if git update-ref refs/plain "$commit" "$tip" 2>/dev/null; then n=$((n + 1)); fi
done
"#;

/// One writer, and eight at once.
pub(super) fn cases(sizes: &Sizes) -> Vec<Row> {
    vec![case(sizes, 1, sizes.turns), case(sizes, WRITERS, sizes.turns.div_ceil(WRITERS))]
}

fn case(sizes: &Sizes, writers: usize, turns: usize) -> Row {
    let mut room = Room::new();
    let template = room.repository("template", 0, &[], None);
    room.git(&template, &["update-ref", "refs/plain", "main"], "");
    // Packing is measured too, and is over when the sizes are read.
    room.git(&template, &["config", "gc.autoDetach", "false"], "");
    let plain = room.script("plain-operations", PLAIN);
    let fsync = fsync_ms(&room.path("synced"));
    let (mut git, mut ours, mut size) = (Vec::new(), Vec::new(), (0.0, 0.0));
    for _ in 0..sizes.rounds {
        let copy = room.copy(&template);
        let calls = |index: usize| {
            let mut command = room.program(&plain, &copy);
            command.arg((turns * EACH).to_string()).env("BENCH_WRITER", index.to_string());
            command
        };
        git.push(measure(&mut together(&room, &copy, (0..writers).map(calls).collect())));
        let copy = room.copy(&template);
        let run = begin(&open(&copy).handle(), NODES);
        let calls = |index: usize| {
            let mut command = room.program(std::env::current_exe().expect("this program"), &copy);
            command.args(&sizes.worker).env(ORDER, format!("{run} {index} {writers} {turns}"));
            command
        };
        ours.push(measure(&mut together(&room, &copy, (0..writers).map(calls).collect())));
        let landed = room.git(&copy, &["rev-list", "--count", &format!("refs/aynig/runs/{run}")], "");
        assert_eq!(landed, (1 + NODES + writers * turns * EACH).to_string(), "each operation once");
        size = packed(&room, &copy);
    }
    let steps = writers * turns * EACH;
    let who = if writers == 1 { "one writer".to_owned() } else { format!("{writers} writers") };
    let what = format!(
        "{steps} operations on a ledger by {who} ({} turns of {NODES} nodes: {:.1} MiB, {:.1} MiB packed; an fsync here: {fsync:.2} ms), each",
        writers * turns,
        size.0,
        size.1
    );
    Row { what, steps: Some(steps), git, ours, other: Some(size.1) }
}

/// Programs at once, as one command.
fn together(room: &Room, directory: &Path, commands: Vec<Command>) -> Command {
    let quoted = |text: &std::ffi::OsStr| format!("'{}'", text.to_string_lossy());
    let mut script = String::from("pids=\n");
    for command in &commands {
        let set = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
        let set: String =
            set.map(|(name, value)| format!("{}={} ", name.to_string_lossy(), quoted(value))).collect();
        let arguments: Vec<String> = command.get_args().map(quoted).collect();
        script +=
            &format!("{set}{} {} &\npids=\"$pids $!\"\n", quoted(command.get_program()), arguments.join(" "));
    }
    script += "for pid in $pids; do wait $pid || exit 1; done\n";
    let mut shell = room.program("sh", directory);
    shell.args(["-c", &script]);
    shell
}

/// The size of all objects in MiB, as they are and when they are packed.
fn packed(room: &Room, repository: &Path) -> (f64, f64) {
    let kib = |wanted: &str| -> f64 {
        let counted = room.git(repository, &["count-objects", "-v"], "");
        let line = counted.lines().find_map(|line| line.strip_prefix(wanted)).expect("a line of git");
        line.trim().parse().expect("a number")
    };
    let before = kib("size:") + kib("size-pack:");
    room.git(repository, &["repack", "-adq"], "");
    (before / 1024.0, kib("size-pack:") / 1024.0)
}

fn fsync_ms(path: &Path) -> f64 {
    use std::io::Write;
    let mut file = std::fs::File::create(path).expect("a file");
    let times = (0..20).map(|_| {
        let start = Instant::now();
        file.write_all(&[b'x'; 4096]).and_then(|()| file.sync_all()).expect("it can");
        start.elapsed().as_secs_f64() * 1000.0
    });
    median(times.collect::<Vec<f64>>().into_iter())
}

fn op() -> Op {
    let millis =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a time").as_millis();
    let by = By::Person {
        name: "Bench".to_owned(),
        email: "bench@example.com".to_owned(),
        runner: "bench".to_owned(),
        signature: None,
    };
    let at = Timestamp::from_millis(i64::try_from(millis).expect("a date")).expect("a time");
    Op { id: OpId::random(), at, by }
}

pub(super) fn open(path: &Path) -> Store {
    Store::open(path, &GitVariables::default(), None).expect("a repository")
}

/// Makes a run with nodes.
pub(super) fn begin(repo: &Repo, nodes: usize) -> RunId {
    let (id, slug) = runs::fresh(repo).expect("refs");
    let new = new_run(repo, &Place::Here, id, slug);
    let mut ledger = Ledger::create(repo, Place::Here, &new, &op(), &[], &[]).expect("a run");
    for number in 0..nodes {
        let spec = node(&format!("node-{number}"));
        ledger.operate(&op(), &[Request::AddNode(Box::new(spec))], &[]).expect("a node");
    }
    id
}

/// The body of a writer. Does nothing in a process that is none.
pub(super) fn work() -> bool {
    let Ok(order) = std::env::var(ORDER) else { return false };
    let words: Vec<&str> = order.split(' ').collect();
    let [run, first, writers, turns] = words.as_slice() else { panic!("{order}") };
    let number = |text: &str| text.parse::<usize>().expect("a number");
    let store = open(Path::new("."));
    let repo = store.handle();
    let mut ledger = Ledger::open(&repo, RunId::parse(run).expect("an id")).expect("a ledger");
    let all = ledger.tip().state.nodes.keys().copied();
    // Each writer has nodes of its own.
    let nodes: Vec<NodeId> = all.skip(number(first)).step_by(number(writers)).collect();
    for turn in 0..number(turns) {
        one_turn(&mut ledger, nodes[turn % nodes.len()], turn);
    }
    true
}

fn one_turn(ledger: &mut Ledger<'_>, node: NodeId, number: usize) {
    let text: String = (0..80).map(|word| format!("word{} ", (word * 7 + number * 13) % 991)).collect();
    let chat = Request::Chat { node: Some(node), content: text.clone(), interrupt: false };
    ledger.operate(&op(), &[chat], &[]).expect("a message");
    let consumed = ledger.tip().state.inbox(node).iter().map(|item| item.id()).collect();
    let this = op();
    let turn = this.id.derive("turn", number);
    let artifact = NewArtifact {
        id: None,
        node: Some(node),
        turn: Some(turn),
        kind: ArtifactKind::Transcript,
        name: FileName::parse("transcript.jsonl").expect("a name"),
        media_type: "application/jsonl".to_owned(),
        size: 100_000,
        sha256: OpId::random().uuid().simple().to_string().repeat(2),
    };
    ledger.operate(&this, &[Request::AddArtifact(artifact)], &[]).expect("an artifact");
    let at = op();
    let ended = EndedTurn {
        consumed,
        last_words: Some(text),
        usage: Some(Usage {
            prompt_tokens: 10_000,
            completion_tokens: 900,
            total_tokens: 10_900,
            cost_usd: Some(0.25),
        }),
        model: Some("a-model".to_owned()),
        ..EndedTurn::new(node, turn, TurnStatus::Completed, this.at)
    };
    ledger.operate(&at, &[Request::EndTurn(Box::new(ended))], &[]).expect("the end");
}
