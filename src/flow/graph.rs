//! Draws a flow: its steps, and the routes between them.

use serde::Serialize;

use super::document::{Act, Flow, Judge, OPCODES, OUTCOMES, STOP, Step, word};

/// The steps of a flow and the routes between them.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Graph {
    workflow_id: String,
    workflow_version: u64,
    description: Option<String>,
    entry_step: String,
    steps: Vec<Vertex>,
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
}

#[derive(Debug, Serialize)]
struct Edge {
    outcome: &'static str,
    target: String,
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
            steps: flow.steps.iter().map(Vertex::of).collect(),
        }
    }

    /// Text, a paragraph for each step.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{} (version {})\n", self.workflow_id, self.workflow_version);
        for step in &self.steps {
            let mark = if step.id == self.entry_step { '>' } else { ' ' };
            let detail = step.detail.as_ref().map(|detail| format!("  {detail}")).unwrap_or_default();
            let line = format!("{mark} {}  {}{detail}", step.id, step.opcode);
            text.push_str(&format!("\n{}\n", line.trim_end()));
            for Edge { outcome, target } in &step.routes {
                text.push_str(&format!("    {outcome:<14}  -> {target}\n"));
            }
        }
        text
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
            let label = format!("\"{}<br/>{}\"", step.id, step.opcode);
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
        for (step, outcomes, target) in self.edges() {
            text.push_str(&format!("  {} -->|\"{outcomes}\"| {}\n", name(&step.id), name(target)));
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
            text.push_str(&format!("  \"{}\" [label=\"{}\\n{}\"{shape}];\n", step.id, step.id, step.opcode));
        }
        if self.needs_stop() {
            text.push_str(&format!("  \"{STOP}\" [shape=oval];\n"));
        }
        for (step, outcomes, target) in self.edges() {
            text.push_str(&format!("  \"{}\" -> \"{target}\" [label=\"{outcomes}\"];\n", step.id));
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
    fn edges(&self) -> Vec<(&Vertex, String, &str)> {
        let mut all: Vec<(&Vertex, String, &str)> = Vec::new();
        for step in &self.steps {
            let first = all.len();
            for Edge { outcome, target } in &step.routes {
                match all.iter_mut().skip(first).find(|(.., known)| *known == target) {
                    Some((_, outcomes, _)) => {
                        outcomes.push_str(", ");
                        outcomes.push_str(outcome);
                    }
                    None => all.push((step, (*outcome).to_owned(), target)),
                }
            }
        }
        all
    }
}

impl Vertex {
    fn of(step: &Step) -> Self {
        let route = |route: &super::document::Route| Edge {
            outcome: word(&OUTCOMES, &route.outcome),
            target: route.target.name.clone(),
        };
        Self {
            id: step.id.clone(),
            opcode: word(&OPCODES, &step.opcode()),
            detail: detail(step),
            line: step.at.line,
            column: step.at.column,
            routes: step.routes.iter().map(route).collect(),
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
