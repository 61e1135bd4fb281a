//! `aynig orch check`, `aynig orch schema`: graph files. They need no repository.

use serde_json::{Value, json};

use aynig::flow::fault::{Note, Severity};
use aynig::ops::app::Process;
use aynig::ops::error::Error;
use aynig::ops::flow::read;
use aynig::orch::document::Checked;
use aynig::orch::read::check;
use aynig::orch::schema;
use aynig::words::pluralize;

use super::flow::{line, name_of};
use crate::cli::args::{Orch, OrchCheck, OrchVerb};
use crate::cli::exit::Exit;
use crate::cli::ui::{self, GOOD, styled};

/// Runs the subcommand.
pub(crate) fn run(process: &Process, arguments: &Orch) -> Result<Exit, Error> {
    match &arguments.verb {
        OrchVerb::Check(options) => report(process, options, arguments.json),
        OrchVerb::Schema => {
            ui::answer(&schema::text());
            Ok(Exit::Done)
        }
        _ => unreachable!("the others need a repository"),
    }
}

fn report(process: &Process, options: &OrchCheck, json: bool) -> Result<Exit, Error> {
    let checked = check(&read(&process.start, &options.graph_file)?);
    let faults = checked.faults();
    let exit = if faults == 0 { Exit::Done } else { Exit::Failed };
    let name = name_of(&options.graph_file);
    let Checked { graph, notes } = checked;
    if json {
        let of = |severity| -> Vec<Value> {
            notes.iter().filter(|note| note.severity == severity).map(shown).collect()
        };
        ui::answer_json(&json!({
            "file": name,
            "nodes": graph.as_ref().map(|graph| graph.nodes.len()),
            "edges": graph.as_ref().map(|graph| graph.edges.len()),
            "faults": of(Severity::Fault),
            "warnings": of(Severity::Warning),
        }));
        return Ok(exit);
    }
    for note in &notes {
        ui::answer(&line(&name, note));
    }
    let warnings = pluralize(notes.len() - faults, "warning");
    let name = ui::sanitize(&name);
    ui::remark(&match &graph {
        None => format!("{name}: {}, {warnings}", pluralize(faults, "fault")),
        Some(graph) => {
            let (nodes, edges) = (pluralize(graph.nodes.len(), "node"), pluralize(graph.edges.len(), "edge"));
            format!("{}  {name}: {nodes}, {edges}, {warnings}", styled(GOOD, "ok"))
        }
    });
    Ok(exit)
}

fn shown(note: &Note) -> Value {
    let Note { place, what, instead, .. } = note;
    json!({ "line": place.line, "column": place.column, "what": what, "instead": instead })
}
