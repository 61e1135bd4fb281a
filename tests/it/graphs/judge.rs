//! Judges a finished graph by the contract: the operations of its ledger, the histories of its drivers, its work branches,
//! and the journal that its agents wrote.
//!
//! A journal line is `WORD TURN NODE MILLISECONDS …`. The words: `began`, `saw` (with the tokens of the prompt), `made` (the
//! file `work-TURN`), `staged` (with the token of a hand-off), `alive` and `ended`. A token is in one message.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

mod wrong;

/// A commit of a driver.
#[derive(Debug, Clone, Default)]
pub(super) struct Commit {
    pub state: String,
    /// The attempt of a lease.
    pub attempt: String,
    /// The attempt that it closes, as `stalled`.
    pub closes: String,
    /// Whether it hands the driver back, since a host could not do it.
    pub unable: bool,
}

/// A work branch.
#[derive(Debug, Clone, Default)]
pub(super) struct Work {
    pub commits: BTreeSet<String>,
    /// The paths at its tip.
    pub files: BTreeSet<String>,
}

/// A line of the journal.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub word: String,
    pub turn: String,
    pub node: String,
    pub at: i64,
    pub more: Vec<String>,
}

impl Line {
    /// Reads a line. A killed agent may leave half of one.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace().map(str::to_owned);
        let (word, turn, node) = (words.next()?, words.next()?, words.next()?);
        Some(Self { word, turn, node, at: words.next()?.parse().ok()?, more: words.collect() })
    }
}

/// Everything that a graph left.
#[derive(Debug, Clone, Default)]
pub(super) struct Case {
    /// The events of each operation, oldest first.
    pub ops: Vec<Vec<Value>>,
    /// The histories of the drivers by the ids of their nodes, oldest first.
    pub drivers: BTreeMap<String, Vec<Commit>>,
    /// The work branches by the ids of their nodes.
    pub works: BTreeMap<String, Work>,
    pub journal: Vec<Line>,
    /// The names of all files that are kept somewhere: in a commit of any ref, or in a worktree.
    pub kept: BTreeSet<String>,
    /// Messages of people: their tokens, and the exit codes of the senders.
    pub senders: Vec<(String, Option<i32>)>,
}

/// A message in an inbox.
struct Sent<'a> {
    to: &'a str,
    /// `None`: a notice of the program, which has no token.
    text: Option<&'a str>,
    op: usize,
}

/// A turn that ended.
struct Ended<'a> {
    id: &'a str,
    node: &'a str,
    status: &'a str,
    started: &'a str,
    ended: &'a str,
    consumed: Vec<&'a str>,
    op: usize,
    /// The turn of its program: a kept end that was recorded as cut off has another id than its program had.
    program: &'a str,
    /// Whether a host kept it, so that turns of other hosts may have begun before it was recorded.
    is_late: bool,
}

/// The words about the turn whose end is recorded under another id.
const END_OF: &str = "it is the end of turn ";

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

impl Case {
    fn events<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = (usize, &'a Value)> {
        let all =
            self.ops.iter().enumerate().flat_map(|(op, events)| events.iter().map(move |one| (op, one)));
        all.filter(move |(_, event)| event["type"] == kind)
    }

    fn sent(&self) -> BTreeMap<&str, Sent<'_>> {
        let by_people = self.events("message.user").map(|(op, event)| {
            let content = Some(text(event, "/message/content"));
            (text(event, "/message/id"), Sent { to: text(event, "/message/nodeId"), text: content, op })
        });
        let by_nodes = self.events("handoff.sent").map(|(op, event)| {
            let message = Some(text(event, "/envelope/payload/message"));
            (text(event, "/envelope/id"), Sent { to: text(event, "/envelope/toNodeId"), text: message, op })
        });
        let notices = self.events("node.notice").map(|(op, event)| {
            (text(event, "/notice/id"), Sent { to: text(event, "/notice/nodeId"), text: None, op })
        });
        by_people.chain(by_nodes).chain(notices).collect()
    }

    fn turns(&self) -> Vec<Ended<'_>> {
        let turns = self.events("turn.status").map(|(op, event)| Ended {
            id: text(event, "/turnId"),
            program: text(event, "/detail")
                .split_once(END_OF)
                .and_then(|(_, rest)| rest.split(',').next())
                .unwrap_or_else(|| text(event, "/turnId")),
            is_late: ["recorded late", "was kept, and dropped"]
                .iter()
                .any(|words| text(event, "/detail").contains(words)),
            node: text(event, "/nodeId"),
            status: text(event, "/status"),
            started: text(event, "/startedAt"),
            ended: text(event, "/ts"),
            consumed: event["consumed"].as_array().into_iter().flatten().filter_map(Value::as_str).collect(),
            op,
        });
        turns.collect()
    }

    fn lines<'a>(&'a self, word: &'a str) -> impl Iterator<Item = &'a Line> {
        self.journal.iter().filter(move |line| line.word == word)
    }
}

/// All violations; empty if the contract was kept.
pub(super) fn judge(case: &Case) -> Vec<String> {
    let mut wrong = Vec::new();
    let turns = case.turns();
    messages(case, &turns, &mut wrong);
    recorded(case, &turns, &mut wrong);
    handed_on(case, &turns, &mut wrong);
    alone(case, &turns, &mut wrong);
    works(case, &turns, &mut wrong);
    drivers(case, &mut wrong);
    senders(case, &mut wrong);
    wrong
}

/// Each message is read once, by its receiver, after it was sent, and its text was in the prompt.
fn messages(case: &Case, turns: &[Ended<'_>], wrong: &mut Vec<String>) {
    let sent = case.sent();
    let number: usize =
        ["message.user", "handoff.sent", "node.notice"].iter().map(|kind| case.events(kind).count()).sum();
    if sent.len() != number {
        wrong.push(format!("{number} messages have {} ids", sent.len()));
    }
    let mut readers: BTreeMap<&str, &str> = BTreeMap::new();
    let tokens = |turn: &str| -> BTreeSet<&str> {
        let saw = case.lines("saw").filter(|line| line.turn == turn);
        saw.flat_map(|line| line.more.iter().map(String::as_str)).collect()
    };
    for turn in turns {
        if turn.status != "completed" && !turn.consumed.is_empty() {
            wrong.push(format!("turn {} has {}, and read messages", turn.id, turn.status));
        }
        let saw = tokens(turn.program);
        for id in &turn.consumed {
            let Some(message) = sent.get(id) else {
                wrong.push(format!("turn {} read {id}, which nobody sent", turn.id));
                continue;
            };
            if message.to != turn.node || message.op >= turn.op {
                wrong.push(format!("turn {} read {id}, which is not in its inbox", turn.id));
            }
            if let Some(text) = message.text.filter(|text| !saw.contains(text)) {
                wrong.push(format!("turn {} read {id} without {text:?} in its prompt", turn.id));
            }
            if let Some(other) = readers.insert(id, turn.id) {
                wrong.push(format!("message {id} was read by {other} and by {}", turn.id));
            }
        }
    }
    for (id, message) in sent.iter().filter(|(id, _)| !readers.contains_key(*id)) {
        wrong.push(format!("message {id} to {} is unread", message.to));
    }
}

/// Each turn is an attempt of its node's driver, its program ran at most once, and its end is recorded once.
fn recorded(case: &Case, turns: &[Ended<'_>], wrong: &mut Vec<String>) {
    let mut known: BTreeMap<&str, &str> = BTreeMap::new();
    let programs: BTreeMap<&str, &str> = turns.iter().map(|turn| (turn.id, turn.program)).collect();
    for turn in turns {
        if known.insert(turn.id, turn.status).is_some() {
            wrong.push(format!("turn {} ended twice", turn.id));
        }
        let history = case.drivers.get(turn.node).map(Vec::as_slice).unwrap_or_default();
        if !history.iter().any(|commit| commit.attempt == turn.id) {
            wrong.push(format!("turn {} had no lease", turn.id));
        }
    }
    // The remote did not take the end of such a turn.
    let handed_back: BTreeSet<&str> = case
        .drivers
        .values()
        .flat_map(|history| {
            let pairs = history.windows(2).filter(|pair| pair[1].unable);
            pairs.map(|pair| pair[0].attempt.as_str())
        })
        .collect();
    let mut begun: BTreeSet<&str> = BTreeSet::new();
    for line in case.lines("began") {
        if !begun.insert(&line.turn) {
            wrong.push(format!("turn {} began twice", line.turn));
        }
        if !known.contains_key(line.turn.as_str()) && !handed_back.contains(line.turn.as_str()) {
            wrong.push(format!("turn {} began, and its end is not recorded", line.turn));
        }
    }
    let completed = known.iter().filter(|(_, status)| **status == "completed");
    for (turn, _) in completed.filter(|(turn, _)| !begun.contains(programs[*turn])) {
        wrong.push(format!("turn {turn} completed, and its program never began"));
    }
    for line in case.journal.iter().filter(|line| line.word != "began" && !begun.contains(line.turn.as_str()))
    {
        wrong.push(format!("turn {} {}, and never began", line.turn, line.word));
    }
}

/// A hand-off lands with the completed turn that staged it, once; one of another turn never does.
fn handed_on(case: &Case, turns: &[Ended<'_>], wrong: &mut Vec<String>) {
    let mut landed: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (op, event) in case.events("handoff.sent") {
        let (id, from) = (text(event, "/envelope/id"), text(event, "/envelope/fromNodeId"));
        let turn = turns.iter().find(|turn| turn.op == op && turn.node == from && turn.status == "completed");
        match turn {
            Some(turn) => {
                landed.entry(turn.id).or_default().push(text(event, "/envelope/payload/message"));
            }
            None => wrong.push(format!("hand-off {id} belongs to no completed turn")),
        }
    }
    let mut staged: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in case.lines("staged") {
        staged.entry(&line.turn).or_default().extend(line.more.iter().map(String::as_str));
    }
    for turn in turns.iter().filter(|turn| turn.status == "completed") {
        let of = |acts: &BTreeMap<&str, Vec<&str>>, id: &str| {
            let mut tokens: Vec<String> =
                acts.get(id).into_iter().flatten().map(|token| (*token).to_owned()).collect();
            tokens.sort();
            tokens
        };
        let (id, landed, staged) = (turn.id, of(&landed, turn.id), of(&staged, turn.program));
        if landed != staged {
            wrong.push(format!("turn {id} staged {staged:?}, and handed on {landed:?}"));
        }
    }
}

/// The turns of a node do not overlap: neither by the ledger, nor by their programs.
fn alone(case: &Case, turns: &[Ended<'_>], wrong: &mut Vec<String>) {
    let mut last: BTreeMap<&str, &Ended<'_>> = BTreeMap::new();
    for turn in turns.iter().filter(|turn| !turn.is_late && turn.program == turn.id) {
        if let Some(before) = last.insert(turn.node, turn)
            && before.ended > turn.started
        {
            wrong.push(format!("turn {} started before {} ended", turn.id, before.id));
        }
    }
    let mut runs: BTreeMap<(&str, &str), (i64, i64)> = BTreeMap::new();
    for line in &case.journal {
        let run = runs.entry((&line.node, &line.turn)).or_insert((line.at, line.at));
        *run = (run.0.min(line.at), run.1.max(line.at));
    }
    let mut runs: Vec<_> =
        runs.into_iter().map(|((node, turn), (from, to))| (node, from, to, turn)).collect();
    runs.sort_unstable();
    for pair in runs.windows(2) {
        let [(node, _, until, turn), (other, from, _, next)] = pair else { continue };
        if node == other && from < until {
            wrong.push(format!("the programs of {turn} and {next} ran at the same time"));
        }
    }
}

/// The work of a completed turn is on its branch, that of a failed one is not, and none is lost.
fn works(case: &Case, turns: &[Ended<'_>], wrong: &mut Vec<String>) {
    let made: BTreeSet<&str> = case.lines("made").map(|line| line.turn.as_str()).collect();
    for turn in &made {
        if !case.kept.contains(&format!("work-{turn}")) {
            wrong.push(format!("the work of {turn} is lost"));
        }
    }
    let none = Work::default();
    for turn in turns {
        let work = case.works.get(turn.node).unwrap_or(&none);
        let file = format!("work-{}", turn.program);
        // Its end may have been recorded for a later attempt, by the host that kept it.
        let is_ended = |id| turns.iter().any(|one| one.program == id && one.status != "failed");
        match turn.status {
            "completed" if made.contains(turn.program) && !work.files.contains(&file) => {
                wrong.push(format!("the work of {} is not on its branch", turn.id));
            }
            "failed" if work.files.contains(&file) && !is_ended(turn.id) => {
                wrong.push(format!("turn {} failed, and its work is on its branch", turn.id));
            }
            _ => {}
        }
    }
    let alias = |event: &Value| text(event, "/name").to_owned();
    let nodes: BTreeMap<&str, &str> = case
        .events("node.patch")
        .filter(|(_, event)| event.pointer("/patch/alias").is_some())
        .map(|(_, event)| (text(event, "/patch/alias"), text(event, "/nodeId")))
        .collect();
    for (_, event) in case.events("workspace.snapshot") {
        let head = text(event, "/patch/headSha");
        let work = nodes.get(alias(event).as_str()).and_then(|node| case.works.get(*node)).unwrap_or(&none);
        let rolled_back = case.events("workspace.rolled_back").any(|(_, back)| alias(back) == alias(event));
        if !head.is_empty() && !rolled_back && !work.commits.contains(head) {
            wrong.push(format!("the snapshot {head} of {} is not on its branch", alias(event)));
        }
    }
}

/// Each lease is on a due state, and at the end each driver rests.
fn drivers(case: &Case, wrong: &mut Vec<String>) {
    for (node, history) in &case.drivers {
        let mut attempts: BTreeSet<&str> = BTreeSet::new();
        let mut leased: Option<&str> = None;
        // The attempt that is closed by the state below a lease, which may be asked for again.
        let mut closed = "";
        for commit in history {
            match (commit.state.as_str(), leased) {
                ("working", Some(attempt)) if attempt != commit.attempt => {
                    wrong.push(format!("{node}: {} took the lease of {attempt}", commit.attempt));
                }
                ("working", None) if !attempts.insert(&commit.attempt) => {
                    wrong.push(format!("{node}: the attempt {} has two leases", commit.attempt));
                }
                ("stalled", Some(attempt)) if attempt != commit.closes && closed != commit.closes => {
                    wrong.push(format!("{node}: {} is closed as {}", attempt, commit.closes));
                }
                _ => {}
            }
            if commit.state != "working" {
                closed = &commit.closes;
            }
            leased = (commit.state == "working").then_some(commit.attempt.as_str());
        }
        let last = history.last().map(|commit| commit.state.as_str()).unwrap_or_default();
        if last != "orch-idle" {
            wrong.push(format!("{node}: its driver ends in {last:?}"));
        }
    }
}

/// A message of a person is in the ledger once if its sender said so, and not if it was refused.
fn senders(case: &Case, wrong: &mut Vec<String>) {
    for (token, code) in &case.senders {
        let sent = case.events("message.user");
        let count = sent.filter(|(_, event)| text(event, "/message/content") == token).count();
        match (code, count) {
            (Some(0), 1) | (Some(1..=3), 0) | (None | Some(4), 0 | 1) => {}
            _ => wrong.push(format!("{token}: {count} messages, and its sender exited with {code:?}")),
        }
    }
}
