//! Turns of graphs whose agents do nearly nothing, beside the shell loop that a flow is compared with: a hand-off from node to
//! node in a ring, many nodes at once, and a pass over nodes that have nothing to do.
//!
//! The agent notes when it starts and when it ends. The time between two agents of a ring is what a turn costs: the end of
//! one, the hand-off, and the start of the next.

use std::fmt::Write as _;
use std::path::Path;

use super::flows::{Side, template};
use super::measure::measure;
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

/// A ring here and through a hub, many nodes at once, and an idle pass.
pub(super) fn cases(sizes: &Sizes) -> Vec<Row> {
    vec![ring(sizes, None), ring(sizes, Some(sizes.hub_refs)), at_once(sizes), idle(sizes)]
}

/// A graph with these nodes, all of whose agents run this script. Returns its slug.
fn graph(room: &Room, side: &Side, script: &str, nodes: &[String]) -> String {
    room.git(&side.repository, &["config", "aynig.provider.custom.command", script], "");
    for (key, value) in [("kind", "custom"), ("protocol", "text")] {
        room.git(&side.repository, &["config", &format!("aynig.provider.custom.{key}"), value], "");
    }
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

/// Two nodes that hand work to each other.
fn ring(sizes: &Sizes, refs: Option<usize>) -> Row {
    let mut room = Room::new();
    let template = template(&room, refs);
    let turns = sizes.flow_steps;
    let (mut git, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..sizes.rounds {
        let side = Side::new(&mut room, &template, refs.is_some());
        let mut whole = side.plainly(&room, turns);
        whole.connections = side.connections();
        git.push(side.between(whole, turns));

        let side = Side::new(&mut room, &template, refs.is_some());
        let script = agent(&room, &side, Some(turns));
        let slug = graph(&room, &side, &script, &["a", "b"].map(str::to_owned));
        measure(&mut room.aynig(&side.repository, &["orch", "edge", "add", &slug, "a", "b"]));
        measure(&mut room.aynig(&side.repository, &["orch", "chat", &slug, "a", "begin"]));
        let before = side.connections();
        let mut whole = measure(&mut room.aynig(&side.repository, &["run", "--drain"]));
        whole.connections = side.connections().zip(before).map(|(all, start)| all - start);
        ours.push(side.between(whole, turns));
    }
    let place = refs.map_or_else(String::new, |refs| format!(" through a hub of {refs} refs"));
    Row {
        what: format!("a hand-off{place}: from one agent to the next, of {turns} turns"),
        steps: None,
        git,
        ours,
    }
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
    Row { what, steps: Some(sizes.nodes), git, ours }
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
    Row { what: format!("idle pass, {} nodes with nothing to read", sizes.branches), steps: None, git, ours }
}
