//! Draws a flow: its steps, and the routes between them; of a run also which of them it took, and where it stands.

use std::collections::BTreeMap;

use serde::Serialize;

use super::document::{Act, Flow, Judge, OPCODES, OUTCOMES, STOP, Step, word, word_of};
use crate::model::ids::RunId;
use crate::model::step::Step as Done;

/// The steps of a flow and the routes between them.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Graph {
    workflow_id: String,
    workflow_version: u64,
    description: Option<String>,
    entry_step: String,
    /// The run that is drawn. `None`: the flow alone.
    run: Option<Track>,
    steps: Vec<Vertex>,
}

/// A run, as it stands.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Track {
    /// Its id.
    pub run_id: RunId,
    /// Its slug.
    pub slug: String,
    /// The text for people.
    pub label: String,
    /// Its status.
    pub status: &'static str,
    /// Its end.
    pub verdict: Option<&'static str>,
    /// Where it stands, in a word.
    pub place: &'static str,
    /// The step under way or due.
    pub current_step: Option<String>,
    /// Where it stands, in a sentence.
    pub words: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Vertex {
    id: String,
    opcode: &'static str,
    /// The provider, the validators, or the label of the gate.
    detail: Option<String>,
    line: usize,
    column: usize,
    routes: Vec<Edge>,
    /// How many times the run entered it.
    visits: u64,
    /// How it ended the last time.
    last_outcome: Option<&'static str>,
    /// Whether the run stands there.
    current: bool,
}

#[derive(Debug, Serialize)]
struct Edge {
    outcome: &'static str,
    target: String,
    /// How many times the run took it.
    taken: u64,
}

impl Graph {
    /// The graph of a flow.
    #[must_use]
    pub fn of(flow: &Flow) -> Self {
        Self {
            workflow_id: flow.workflow_id.clone(),
            workflow_version: flow.version,
            description: flow.description.clone(),
            entry_step: flow.entry_step.name.clone(),
            run: None,
            steps: flow.steps.iter().map(Vertex::of).collect(),
        }
    }

    /// Draws a flow with the steps that a run carried out.
    #[must_use]
    pub fn of_run(mut self, track: Track, steps: &BTreeMap<u64, Done>) -> Self {
        for vertex in &mut self.steps {
            let done = || steps.values().filter(|done| done.id.as_str() == vertex.id);
            vertex.visits = count(done().filter(|done| done.attempt == 1));
            vertex.last_outcome = done().next_back().and_then(|done| done.outcome).map(word_of);
            vertex.current = track.current_step.as_ref() == Some(&vertex.id);
            for edge in &mut vertex.routes {
                let taken = done().filter(|done| {
                    done.route.as_ref() == Some(&edge.target)
                        && done.outcome.map(word_of) == Some(edge.outcome)
                });
                edge.taken = count(taken);
            }
        }
        self.run = Some(track);
        self
    }

    /// Text, a paragraph for each step.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{} (version {})\n", self.workflow_id, self.workflow_version);
        if let Some(Track { slug, label, words, .. }) = &self.run {
            text.push_str(&format!("run {slug}  {label}: {words}\n"));
        }
        for step in &self.steps {
            let mark = if step.id == self.entry_step { '>' } else { ' ' };
            let detail = step.detail.as_ref().map(|detail| format!("  {detail}")).unwrap_or_default();
            let went = self.went(step).map(|went| format!("  [{went}]")).unwrap_or_default();
            let line = format!("{mark} {}  {}{detail}{went}", step.id, step.opcode);
            text.push_str(&format!("\n{}\n", line.trim_end()));
            for Edge { outcome, target, taken } in &step.routes {
                let taken = match taken {
                    0 => String::new(),
                    1 => "  [taken]".to_owned(),
                    many => format!("  [taken {many} times]"),
                };
                text.push_str(&format!("    {outcome:<14}  -> {target}{taken}\n"));
            }
        }
        text
    }

    /// The visits of a step, if a run is drawn.
    fn went(&self, step: &Vertex) -> Option<String> {
        self.run.as_ref()?;
        let mut words = match (step.visits, step.last_outcome) {
            (0, _) => "not visited".to_owned(),
            (1, Some(outcome)) => format!("1 visit, {outcome}"),
            (1, None) => "1 visit, under way".to_owned(),
            (many, Some(outcome)) => format!("{many} visits, last {outcome}"),
            (many, None) => format!("{many} visits, under way"),
        };
        if step.current {
            words.push_str("; the run stands here");
        }
        Some(words)
    }

    /// How many times the run came to an end that is no step.
    fn stops(&self) -> u64 {
        let routes = self.steps.iter().flat_map(|step| &step.routes);
        routes.filter(|route| route.target == STOP).map(|route| route.taken).sum()
    }

    /// A flowchart for Mermaid.
    #[must_use]
    pub fn mermaid(&self) -> String {
        let mut text = "flowchart TD\n".to_owned();
        let name = |id: &str| match self.steps.iter().position(|step| step.id == id) {
            Some(at) => format!("s{at}"),
            None => STOP.to_owned(),
        };
        for step in &self.steps {
            let went = self.went(step).map(|went| format!("<br/>{went}")).unwrap_or_default();
            let label = format!("\"{}<br/>{}{went}\"", step.id, step.opcode);
            let shape = match step.opcode {
                "GATE" => format!("{{{label}}}"),
                "EVALUATE" => format!("{{{{{label}}}}}"),
                STOP => format!("([{label}])"),
                _ => format!("[{label}]"),
            };
            text.push_str(&format!("  {}{shape}\n", name(&step.id)));
        }
        if self.needs_stop() {
            text.push_str(&format!("  {STOP}([\"{STOP}\"])\n"));
        }
        for Line { from, outcomes, target, taken } in self.lines() {
            let arrow = if taken > 0 { "==>" } else { "-->" };
            text.push_str(&format!("  {} {arrow}|\"{outcomes}\"| {}\n", name(&from.id), name(target)));
        }
        if self.run.is_none() {
            return text;
        }
        text.push_str("  classDef visited fill:#dfd,color:#000\n  classDef current stroke-width:4px\n");
        for step in &self.steps {
            for (_, class) in
                [(step.visits > 0, "visited"), (step.current, "current")].iter().filter(|one| one.0)
            {
                text.push_str(&format!("  class {} {class}\n", name(&step.id)));
            }
        }
        if self.needs_stop() && self.stops() > 0 {
            text.push_str(&format!("  class {STOP} visited\n"));
        }
        text
    }

    /// A digraph for Graphviz.
    #[must_use]
    pub fn dot(&self) -> String {
        let title = self.workflow_id.replace('\\', "\\\\").replace('"', "\\\"");
        let mut text = format!("digraph \"{title}\" {{\n  node [shape=box];\n");
        for step in &self.steps {
            let shape = match step.opcode {
                "GATE" => " shape=diamond",
                "EVALUATE" => " shape=hexagon",
                STOP => " shape=oval",
                _ => "",
            };
            let went = self.went(step).map(|went| format!("\\n{went}")).unwrap_or_default();
            let label = format!("{}\\n{}{went}", step.id, step.opcode);
            let filled = if step.visits > 0 { FILLED } else { "" };
            let current = if step.current { " penwidth=3" } else { "" };
            text.push_str(&format!("  \"{}\" [label=\"{label}\"{shape}{filled}{current}];\n", step.id));
        }
        if self.needs_stop() {
            let filled = if self.stops() > 0 { FILLED } else { "" };
            text.push_str(&format!("  \"{STOP}\" [shape=oval{filled}];\n"));
        }
        for Line { from, outcomes, target, taken } in self.lines() {
            let wide = if taken > 0 { " penwidth=2" } else { "" };
            text.push_str(&format!("  \"{}\" -> \"{target}\" [label=\"{outcomes}\"{wide}];\n", from.id));
        }
        text.push_str("}\n");
        text
    }

    /// Whether a route leads to an end that is no step.
    fn needs_stop(&self) -> bool {
        let routes = || self.steps.iter().flat_map(|step| &step.routes);
        routes().any(|route| route.target == STOP) && self.steps.iter().all(|step| step.id != STOP)
    }

    /// The routes, those of a step with the same target together.
    fn lines(&self) -> Vec<Line<'_>> {
        let mut all: Vec<Line<'_>> = Vec::new();
        for from in &self.steps {
            let first = all.len();
            for Edge { outcome, target, taken } in &from.routes {
                let times = if *taken > 1 { format!(" ({taken} times)") } else { String::new() };
                match all.iter_mut().skip(first).find(|known| known.target == target) {
                    Some(known) => {
                        known.outcomes.push_str(&format!(", {outcome}{times}"));
                        known.taken += taken;
                    }
                    None => {
                        let outcomes = format!("{outcome}{times}");
                        all.push(Line { from, outcomes, target, taken: *taken });
                    }
                }
            }
        }
        all
    }
}

/// A line between two steps.
struct Line<'a> {
    from: &'a Vertex,
    outcomes: String,
    target: &'a str,
    taken: u64,
}

/// How Graphviz marks what a run visited.
const FILLED: &str = " style=filled fillcolor=\"#ddffdd\"";

fn count<T>(all: impl Iterator<Item = T>) -> u64 {
    u64::try_from(all.count()).unwrap_or(u64::MAX)
}

impl Vertex {
    fn of(step: &Step) -> Self {
        let route = |route: &super::document::Route| Edge {
            outcome: word(&OUTCOMES, &route.outcome),
            target: route.target.name.clone(),
            taken: 0,
        };
        Self {
            id: step.id.clone(),
            opcode: word(&OPCODES, &step.opcode()),
            detail: detail(step),
            line: step.at.line,
            column: step.at.column,
            routes: step.routes.iter().map(route).collect(),
            visits: 0,
            last_outcome: None,
            current: false,
        }
    }
}

fn detail(step: &Step) -> Option<String> {
    match &step.act {
        Act::RunAgent(agent) => Some(agent.agent.clone()),
        Act::RunValidation(validators) => {
            Some(validators.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join(", "))
        }
        Act::Evaluate(evaluate) => match &evaluate.judge {
            Judge::Configured => None,
            Judge::Agent(name) | Judge::Command(name) => Some(name.clone()),
            Judge::Script(script) => Some(script.entrypoint.name.clone()),
        },
        Act::Gate(gate) => Some(gate.gate.clone()),
        Act::Rollback => Some("pre_run".to_owned()),
        Act::Stop { reason } => reason.clone(),
    }
}
