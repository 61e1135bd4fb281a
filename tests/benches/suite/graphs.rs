//! Turns of graphs whose agents do nearly nothing, beside the shell loop that a flow is compared with: a hand-off from node to
//! node in a ring, here and between hosts, many nodes at once, and a pass over nodes that have nothing to do.
//!
//! The agent notes when it starts and when it ends. The time between two agents of a ring is what a turn costs: the end of
//! one, the hand-off, and the start of the next.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use aynig::model::time::Timestamp;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::flows::{Side, template};
use super::measure::{Sample, measure, median};
use super::room::Room;
use super::{Row, Sizes};

/// Notes its beginning, hands on to the next node of the ring until enough turns began, and notes its end. `@` is the file of
/// the times, `%` the number of turns; without one it hands nothing on.
const AGENT: &str = r#"#!/bin/sh
date +%s%N >>'@'
prompt=$(cat)
# Equal turns would pause the graph.
echo "$AYNIG_ORCH_TURN" >>work
if [ -n '%' ] && [ $(($(wc -l <'@') / 2 + 1)) -lt '%' ]; then
    case $prompt in *'the agent a '*) to=b ;; *) to=a ;; esac
    "$AYNIG_BIN" orch handoff --to $to --message 'go on' >/dev/null
fi
echo "done: $AYNIG_ORCH_TURN"
exec date +%s%N >>'@'
"#;

/// The seconds between two looks of a runner at a hub.
const POLL: &str = "2s";

/// The longest time for the turns of two hosts.
const LONGEST: Duration = Duration::from_secs(300);

/// A ring here, through a hub and between two hosts, many nodes at once, and an idle pass.
pub(super) fn cases(sizes: &Sizes) -> Vec<Row> {
    let mut rows = ring(sizes, None);
    rows.extend(ring(sizes, Some(sizes.hub_refs)));
    rows.extend([between_hosts(sizes), at_once(sizes), idle(sizes)]);
    rows
}

/// Makes the provider of the nodes.
fn provider(room: &Room, repository: &Path, script: &str) {
    for (key, value) in [("command", script), ("kind", "custom"), ("protocol", "text")] {
        room.git(repository, &["config", &format!("aynig.provider.custom.{key}"), value], "");
    }
}

/// A graph with these nodes, all of whose agents run this script. Returns its slug.
fn graph(room: &Room, side: &Side, script: &str, nodes: &[String]) -> String {
    provider(room, &side.repository, script);
    let made = room.aynig(&side.repository, &["orch", "run", "create", "--base", "main", "--json"]).output();
    let made = String::from_utf8(made.expect("aynig runs").stdout).expect("text");
    let slug = made.split("\"slug\":\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a slug");
    for alias in nodes {
        let add = ["orch", "node", "add", slug, alias, "--role", "implementer", "--provider", "custom"];
        let add: Vec<&str> = add.into_iter().chain(["--permissions", "skip"]).collect();
        measure(&mut room.aynig(&side.repository, &add));
    }
    slug.to_owned()
}

/// The agent of a side, as a program in its room.
fn agent(room: &Room, side: &Side, turns: Option<usize>) -> String {
    let turns = turns.map(|turns| turns.to_string()).unwrap_or_default();
    let text = AGENT.replace('@', &side.times.to_string_lossy()).replace("'%'", &format!("'{turns}'"));
    let name = side.times.parent().and_then(Path::file_name).expect("a name").to_string_lossy().into_owned();
    room.script(&format!("graph-agent-{name}"), &text).to_string_lossy().into_owned()
}

/// Two nodes that hand work to each other: from the end of one agent to the beginning of the next, and the part of it that
/// comes after the message is in the ledger.
fn ring(sizes: &Sizes, refs: Option<usize>) -> Vec<Row> {
    let mut room = Room::new();
    let template = template(&room, refs);
    let turns = sizes.flow_steps;
    let (mut git, mut ours) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for _ in 0..sizes.rounds {
        let side = Side::new(&mut room, &template, refs.is_some());
        let mut whole = side.plainly(&room, turns);
        whole.connections = side.connections();
        let whole = side.between(whole, turns);
        git[1].push(Sample { wall_ms: side.taken(turns), ..whole.clone() });
        git[0].push(whole);

        let side = Side::new(&mut room, &template, refs.is_some());
        let script = agent(&room, &side, Some(turns));
        let slug = graph(&room, &side, &script, &["a", "b"].map(str::to_owned));
        measure(&mut room.aynig(&side.repository, &["orch", "edge", "add", &slug, "a", "b"]));
        measure(&mut room.aynig(&side.repository, &["orch", "chat", &slug, "a", "begin"]));
        let before = side.connections();
        let mut whole = measure(&mut room.aynig(&side.repository, &["run", "--drain"]));
        whole.connections = side.connections().zip(before).map(|(all, start)| all - start);
        let whole = side.between(whole, turns);
        ours[1].push(Sample { wall_ms: begun(&room, &side, &slug), ..whole.clone() });
        ours[0].push(whole);
    }
    let place = refs.map_or_else(String::new, |refs| format!(" through a hub of {refs} refs"));
    let whats = [
        format!("a hand-off{place}: from one agent to the next, of {turns} turns"),
        format!("of it{place}: from the message in the ledger to the agent that reads it"),
    ];
    let both = git.into_iter().zip(ours);
    whats
        .into_iter()
        .zip(both)
        .map(|(what, (git, ours))| Row { what, steps: None, git, ours, other: None })
        .collect()
}

/// The time from each message of a ring to the agent that reads it, in milliseconds.
fn begun(room: &Room, side: &Side, slug: &str) -> f64 {
    let events = ["orch", "events", slug, "--type", "handoff.sent", "--json"];
    let events = room.aynig(&side.repository, &events).output().expect("aynig runs").stdout;
    let sent = String::from_utf8(events).expect("text");
    let sent: Vec<f64> = sent
        .lines()
        .filter_map(|line| Timestamp::parse(line.split("\"ts\":\"").nth(1)?.split('"').next()?))
        .map(|at| at.millis().to_string().parse().expect("a number"))
        .collect();
    let times = side.times();
    assert_eq!(sent.len() + 1, times.len(), "each turn but the last hands on");
    median(sent.iter().zip(&times[1..]).map(|(sent, next)| next[0] - sent))
}

/// A ring whose nodes are on two hosts, each with a runner that looks at the hub in turns.
fn between_hosts(sizes: &Sizes) -> Row {
    let mut room = Room::new();
    let template = template(&room, Some(sizes.hub_refs));
    let turns = sizes.flow_steps.min(10);
    let (mut git, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..sizes.rounds.min(3) {
        let side = Side::new(&mut room, &template, true);
        let whole = side.plainly(&room, turns);
        git.push(side.between(whole, turns));

        let side = Side::new(&mut room, &template, true);
        let script = agent(&room, &side, Some(turns));
        let slug = graph(&room, &side, &script, &[]);
        for alias in ["a", "b"] {
            let add = ["orch", "node", "add", &slug, alias, "--role", alias, "--provider", "custom"];
            let add: Vec<&str> = add.into_iter().chain(["--permissions", "skip", "--reserve-role"]).collect();
            measure(&mut room.aynig(&side.repository, &add));
        }
        measure(&mut room.aynig(&side.repository, &["orch", "edge", "add", &slug, "a", "b"]));
        let other = side.repository.with_file_name("other.git");
        room.git(&room.path(""), &["clone", "-q", "--bare", &hub_of(&side), &other.to_string_lossy()], "");
        for (key, value) in
            [("user.name", "Bench"), ("user.email", "bench@example.com"), ("aynig.remote", "origin")]
        {
            room.git(&other, &["config", key, value], "");
        }
        provider(&room, &other, &script);
        let watch = format!("--watch={POLL}");
        let runners: Vec<Child> = [(&side.repository, "a"), (&other, "b")]
            .map(|(repository, role)| {
                let mut runner = room.aynig(repository, &["run", &watch, "--role", role]);
                runner
                    .stdin(Stdio::null())
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn()
                    .expect("it starts")
            })
            .into();
        let mut sample = measure(&mut room.aynig(&side.repository, &["orch", "chat", &slug, "a", "begin"]));
        let begun = Instant::now();
        while std::fs::read_to_string(&side.times).map_or(0, |text| text.lines().count()) < 2 * turns {
            assert!(begun.elapsed() < LONGEST, "the hosts have stopped handing work on");
            std::thread::sleep(Duration::from_millis(50));
        }
        for mut runner in runners {
            kill(Pid::from_raw(i32::try_from(runner.id()).expect("a pid")), Signal::SIGTERM)
                .expect("it runs");
            runner.wait().expect("it is ours");
        }
        sample = side.between(sample, turns);
        sample.connections = None;
        ours.push(sample);
    }
    let what = format!("a hand-off between two hosts that look at the hub every {POLL}, of {turns} turns");
    Row { what, steps: None, git, ours, other: None }
}

fn hub_of(side: &Side) -> String {
    side.repository.with_file_name("hub.git").to_string_lossy().into_owned()
}

/// One turn of each of many nodes.
fn at_once(sizes: &Sizes) -> Row {
    let mut room = Room::new();
    let template = template(&room, None);
    let nodes: Vec<String> = (0..sizes.nodes).map(|number| format!("n{number}")).collect();
    let jobs = sizes.jobs.to_string();
    let (mut git, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..sizes.rounds {
        let side = Side::new(&mut room, &template, false);
        git.push(side.plainly(&room, sizes.nodes));

        let side = Side::new(&mut room, &template, false);
        let script = agent(&room, &side, None);
        let slug = graph(&room, &side, &script, &nodes);
        for alias in &nodes {
            measure(&mut room.aynig(&side.repository, &["orch", "chat", &slug, alias, "begin"]));
        }
        ours.push(measure(&mut room.aynig(&side.repository, &["run", "--drain", "--jobs", &jobs])));
        assert_eq!(side.times().len(), sizes.nodes, "each message is read once");
    }
    let what = format!("the first turns of {} nodes, worktrees included, each", sizes.nodes);
    Row { what, steps: Some(sizes.nodes), git, ours, other: None }
}

/// An idle pass over nodes that have read everything.
fn idle(sizes: &Sizes) -> Row {
    let mut room = Room::new();
    let template = template(&room, None);
    let side = Side::new(&mut room, &template, false);
    let script = agent(&room, &side, None);
    graph(&room, &side, &script, &["a".to_owned()]);
    let driver = room.git(&side.repository, &["for-each-ref", "--format=%(refname)", "refs/heads/run"], "");
    let tree = room.git(&side.repository, &["rev-parse", &format!("{driver}^{{tree}}")], "");
    let message = room.git(&side.repository, &["log", "-1", "--format=%B", &driver], "");
    assert!(message.contains("dwp-state: orch-idle"), "{message}");
    let mut stream = String::new();
    for number in 1..sizes.branches {
        let text = format!("{number} {message}\n");
        let who = "committer Bench <bench@example.com> 1700000000 +0000";
        write!(
            stream,
            "commit refs/heads/run/g{number}/a\n{who}\ndata {}\n{text}M 040000 {tree} \n\n",
            text.len()
        )
        .expect("memory");
    }
    room.git(&side.repository, &["fast-import", "--quiet"], &stream);
    room.git(&side.repository, &["pack-refs", "--all"], "");
    let (mut git, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..sizes.rounds {
        let format = "--format=%(refname) %(objectname) %(trailers:key=dwp-state)";
        let mut listing = room.program("git", &side.repository);
        git.push(measure(listing.args(["for-each-ref", format, "refs/heads/run"])));
        ours.push(measure(&mut room.aynig(&side.repository, &["run"])));
    }
    Row {
        what: format!("idle pass, {} nodes with nothing to read", sizes.branches),
        steps: None,
        git,
        ours,
        other: None,
    }
}
