//! The lines of `aynig orch` for people.
//!
//! Invariant: text of a ledger is printed without control characters.

use std::collections::BTreeMap;

use serde_json::Value;

use aynig::clock;
use aynig::git::Repo;
use aynig::model::approval::Always;
use aynig::model::ids::Alias;
use aynig::model::limits::{Use, uses};
use aynig::model::node::Hold;
use aynig::model::run::{Limits, Mode, RunKind, RunStatus};
use aynig::model::trace::{Halted, Spent};
use aynig::model::workspace::WorkspaceStatus;
use aynig::ops::approvals::asked;
use aynig::ops::runs::{self, Run, RunId, Shown};
use aynig::words::pluralize;

use crate::cli::ui;
use crate::cli::ui::columns::cut;
use crate::cli::ui::{BAD, CALL, CARE, FAINT, GOOD, STRONG, colour_if, coloured, styled};

/// The most characters of an event's text.
const TEXT: usize = 200;

/// The places of an event that say in a few words what happened, the best first.
const WORDS: [&str; 18] = [
    "/message/content",
    "/content",
    "/delta",
    "/envelope/payload/message",
    "/patch/status",
    "/patch/label",
    "/artifact/name",
    "/tool/name",
    "/result/output",
    "/summary",
    "/resolution/status",
    "/status",
    "/outcome",
    "/detail",
    "/limit",
    "/line",
    "/workspace/name",
    "/name",
];

/// The width of an age in the list.
const AGE: usize = 4;

/// The heads of the columns of the list, for a terminal. The age is that of the run.
pub(super) fn headings() -> String {
    styled(FAINT, format!("{:8}  {:9}  {:5}  {:>AGE$}  LABEL", "RUN", "STATUS", "KIND", "AGE"))
}

/// A run of the list. `now` is in milliseconds since the epoch.
pub(super) fn run(run: &Run, now: i64) -> String {
    let status = format!("{:9}", run.status.word());
    let style = match run.status {
        RunStatus::Running | RunStatus::Queued => CARE,
        RunStatus::Completed => GOOD,
        RunStatus::Failed => BAD,
        RunStatus::Paused | RunStatus::Stopped => FAINT,
    };
    let waiting = run.waiting_for.as_ref().map(|who| format!("  {}", styled(CALL, ui::sanitize(who))));
    let kind = match run.kind {
        RunKind::Flow => "flow",
        RunKind::Graph => "graph",
    };
    let age = u64::try_from(now.saturating_sub(run.created_at.millis()) / 1000).unwrap_or(0);
    let line = format!(
        "{}  {}  {kind:5}  {:>AGE$}  {}{}",
        styled(STRONG, format!("{:8}", run.slug)),
        styled(style, status),
        clock::span_in_short(age),
        ui::sanitize(&run.label),
        waiting.unwrap_or_default()
    );
    line.trim_end().to_owned()
}

/// Prints a run. `outdated`: words about workspaces, by name.
pub(super) fn show(shown: &Shown, directory: &str, outdated: &BTreeMap<Alias, String>) {
    let state = &shown.state;
    let run = &state.run;
    let mut rows = vec![
        ("run", run.id.to_string()),
        ("status", run.status.word().to_owned()),
        ("label", run.label.clone()),
        ("base", format!("{} {}", run.base_ref, run.base_sha)),
        ("created", run.created_at.to_string()),
        ("updated", run.updated_at.to_string()),
        ("files", directory.to_owned()),
    ];
    rows.extend(run.waiting_for.clone().map(|who| ("waits for", who)));
    rows.extend(run.halted.as_ref().and_then(evidence).map(|words| ("evidence", words)));
    rows.push(("used", used(&run.limits, &run.spent, false)));
    if run.kind == RunKind::Graph {
        rows.extend((run.mode == Mode::Auto).then(|| ("mode", "AUTO".to_owned())));
        rows.extend(run.done_when.clone().map(|when| ("done when", when)));
        rows.extend(run.termination.clone().map(|end| ("ended", end)));
    }
    for (name, value) in rows.into_iter().filter(|(_, value)| !value.is_empty()) {
        ui::answer(&format!("{}  {}", styled(FAINT, format!("{name:9}")), ui::sanitize(&value)));
    }
    let mut nodes: Vec<_> = state.nodes.values().collect();
    nodes.sort_by_key(|node| node.number);
    for node in nodes {
        let status = serde_json::to_value(node.status).unwrap_or_default();
        let held = node.hold.map(Hold::word);
        let words = format!(
            "{}  {}  {} unread  {}",
            node.alias,
            held.or(status.as_str()).unwrap_or_default(),
            node.inbox_count,
            node.summary
        );
        ui::answer(&format!("{}  {}", styled(FAINT, "node     "), ui::sanitize(words.trim_end())));
        if let Some(why) = shown.waits.get(&node.id) {
            // Of a driver that waits they are its subject.
            let why = why.strip_prefix("waits: ").unwrap_or(why);
            let words = format!("{}  waits: {}", node.alias, ui::sanitize(why));
            ui::answer(&format!("{}  {words}", styled(CALL, "         ")));
        }
        for words in node.turn.iter().flat_map(|last| &last.unsaid).filter(|_| !run.status.is_ended()) {
            let words = format!("{}  its agent reads next: {}", node.alias, ui::sanitize(words));
            ui::answer(&format!("{}  {words}", styled(CARE, "         ")));
        }
        let used = used(&node.limits, &node.spent, true);
        if !used.is_empty() {
            ui::answer(&format!("{}  {}  used: {used}", styled(FAINT, "         "), node.alias));
        }
    }
    let alias = |id| state.nodes.get(id).map_or("?", |node| node.alias.as_str());
    for edge in state.edges.values() {
        let arrow = if edge.bidirectional { "↔" } else { "→" };
        let words = format!("{} {arrow} {}  {}  {}", alias(&edge.from), alias(&edge.to), edge.label, edge.id);
        ui::answer(&format!("{}  {}", styled(FAINT, "edge     "), ui::sanitize(&words)));
    }
    for one in state.workspaces.values() {
        let status = if one.status == WorkspaceStatus::Removed { "removed" } else { "ready" };
        let head = one.head_sha.get(..10).unwrap_or_default();
        let proposal = one.pr_url.as_ref().or(one.remote_branch.as_ref());
        let published = proposal.map(|place| format!(", published: {place}")).unwrap_or_default();
        let words = format!("{}  {status}  {} at {head}{published}", one.name, one.branch_name);
        ui::answer(&format!("{}  {}", styled(FAINT, "workspace"), ui::sanitize(&words)));
        if let Some(words) = outdated.get(&one.name) {
            ui::answer(&format!("{}  {}  {}", styled(FAINT, "         "), one.name, ui::sanitize(words)));
        }
    }
    for approval in state.approvals.values().filter(|approval| approval.resolution.is_none()) {
        let words = format!("{} asks to use {}", approval.id, approval.tool.name);
        ui::answer(&format!("{}  {}", styled(CALL, "approval "), ui::sanitize(&words)));
    }
    for approval in state.approvals.values().filter(|approval| approval.always.is_some()) {
        let what = if approval.always == Some(Always::Tool) {
            approval.tool.name.clone()
        } else {
            asked(&approval.tool)
        };
        let words = format!("{} may use {what} without asking: {}", alias(&approval.node_id), approval.id);
        ui::answer(&format!("{}  {}", styled(FAINT, "allowed  "), ui::sanitize(&words)));
    }
    for command in &shown.next {
        ui::answer(&format!("{}  {}", styled(FAINT, "next     "), styled(STRONG, command)));
    }
}

/// What is used of limits. `bounded`: only where there is a bound.
fn used(limits: &Limits, spent: &Spent, bounded: bool) -> String {
    let shown =
        uses(limits, spent).into_iter().filter(|one| one.bound.is_some() || (!bounded && one.value > 0.0));
    let words = shown.map(|Use { limit, value, bound }| {
        let value = format!("{value:.2}");
        let value = value.trim_end_matches('0').trim_end_matches('.');
        let unpriced = (limit == "costUsd" && bound.is_some() && spent.unpriced > 0).then(|| {
            format!(
                " ({} without a cost)",
                pluralize(usize::try_from(spent.unpriced).unwrap_or(usize::MAX), "turn")
            )
        });
        let bound = bound.map(|bound| format!(" of {bound}")).unwrap_or_default();
        format!("{limit} {value}{bound}{}", unpriced.unwrap_or_default())
    });
    words.collect::<Vec<_>>().join(", ")
}

/// What was seen of a loop.
fn evidence(halted: &Halted) -> Option<String> {
    let Halted::Stalled { evidence } = halted else { return None };
    let text = |name: &str| {
        evidence.get(name).map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    };
    let last = evidence.get("summaries").and_then(|all| all.as_array()?.last()?.as_str());
    let last = last.map(|last| format!("; the last answer: {last}")).unwrap_or_default();
    Some(format!("{}, {} times{last}", text("signal")?, text("count")?))
}

/// The aliases of a run's nodes, by id.
pub(super) fn aliases(repo: &Repo, run: RunId) -> BTreeMap<String, String> {
    let nodes = runs::show(repo, run).map(|shown| shown.state.nodes).unwrap_or_default();
    nodes.into_iter().map(|(id, node)| (id.to_string(), node.alias.to_string())).collect()
}

/// An event: its number, time, type, node and text.
pub(super) fn event(seq: u64, event: &Value, aliases: &BTreeMap<String, String>) -> String {
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str);
    let alias = |id| aliases.get(id).map_or(id, String::as_str);
    let node = ["/nodeId", "/message/nodeId"].into_iter().find_map(text).map(|id| alias(id).to_owned());
    let ends = text("/envelope/fromNodeId").zip(text("/envelope/toNodeId"));
    let way = ends.map(|(from, to)| format!("{} → {}", alias(from), alias(to)));
    let node = way.or(node).unwrap_or_default();
    // A patch without words is shown by the names of its fields.
    let fields = event["patch"].as_object().map(|patch| patch.keys().cloned().collect::<Vec<_>>().join(", "));
    let words = WORDS.iter().find_map(|pointer| text(pointer)).map(str::to_owned).or(fields);
    let mut words = words.unwrap_or_default();
    if text("/type") == Some("turn.status")
        && let Some(detail) = text("/detail")
    {
        words = format!("{words}: {detail}");
    }
    if text("/type") == Some("approval.resolved")
        && let Some(name) =
            text("/by/person/name").or_else(|| event["by"].as_object()?.keys().next().map(String::as_str))
    {
        words = format!("{words} by {name}");
    }
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = format!(
        "{}  {}  {}  {}  {}",
        styled(FAINT, format!("{seq:6}")),
        styled(FAINT, ui::sanitize(text("/ts").unwrap_or_default())),
        ui::sanitize(text("/type").unwrap_or_default()),
        ui::sanitize(&node),
        cut(&ui::sanitize(&words), TEXT)
    );
    colour_if(line.trim_end(), coloured())
}
