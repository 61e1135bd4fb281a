//! `aynig orch run create`, `aynig orch edge add`: makes graphs, also from files, and edges.

use std::path::Path;

use serde_json::json;

use aynig::flow::fault::Severity;
use aynig::git::Repo;
use aynig::model::edge::EdgeType;
use aynig::model::event::Body;
use aynig::model::run::{GlobalMode, Mode};
use aynig::ops::app::App;
use aynig::ops::engine;
use aynig::ops::error::Error;
use aynig::ops::flow::{base, not_of_a_run, read};
use aynig::ops::graph_new::{Created, Order, create};
use aynig::ops::graphs;
use aynig::ops::runs::runners;
use aynig::orch::document::{Checked, Graph};
use aynig::orch::read::check;
use aynig::words::{pluralize, shell_quote};

use super::{changed, hand};
use crate::cli::args::{Carries, OrchCreate, OrchEdgeAdd, Phase, RunMode};
use crate::cli::exit::Exit;
use crate::cli::look::flow::{line, name_of};
use crate::cli::ui::signals::authority;
use crate::cli::ui::{self, STRONG, styled, warn};
use crate::cli::work::flow_runs::{found, opened};

/// Makes a graph.
pub(super) fn run(app: &App, repo: &Repo, options: &OrchCreate, json: bool) -> Result<Exit, Error> {
    engine::persons_only("making a run")?;
    not_of_a_run(repo, &options.base)?;
    let base = base(repo, &options.base)?;
    let place = engine::place(authority(repo, None)?.source());
    let start = &app.process.start;
    let file = options.graph_file.as_deref();
    let bytes = file.map(|file| read(start, file)).transpose()?;
    let graph = file.zip(bytes.as_deref()).map(|(file, bytes)| graph_of(file, bytes)).transpose()?;
    let path = file.map(|file| start.join(file));
    let file = path.as_deref().zip(bytes.as_deref()).zip(graph.as_ref());
    let made = create(
        &opened(app, repo)?,
        Order {
            label: options.label.as_deref().filter(|label| !label.is_empty()),
            base,
            place,
            mode: options.mode.map(|mode| match mode {
                RunMode::Interactive => Mode::Interactive,
                RunMode::Auto => Mode::Auto,
            }),
            global_mode: options.global_mode.map(|mode| match mode {
                Phase::Planning => GlobalMode::Planning,
                Phase::Implementation => GlobalMode::Implementation,
            }),
            done_when: options.done_when.as_deref(),
            limits: &options.limits,
            reserve_role: options.reserve_role,
            file: file.map(|((path, bytes), graph)| (path, bytes, graph)),
        },
    )?;
    said(&made, json);
    Ok(Exit::Done)
}

/// The graph of a file without a fault. All notes are printed.
fn graph_of(file: &Path, bytes: &[u8]) -> Result<Graph, Error> {
    let Checked { graph, notes } = check(bytes);
    let name = name_of(file);
    for note in &notes {
        ui::narrate(&line(&name, note));
    }
    let faults = notes.iter().filter(|note| note.severity == Severity::Fault).count();
    graph.ok_or_else(|| {
        Error::failed(format!("{name} has {}; nothing was changed", pluralize(faults, "fault")))
            .hint(format!("`aynig orch check {}` reports all of them again", shell_quote(&*name)))
    })
}

fn said(created: &Created, json: bool) {
    let Created { made, nodes, roles, lacks, remarks } = created;
    for words in lacks {
        warn(&ui::sanitize(words));
    }
    for words in remarks {
        ui::remark(&ui::sanitize(words));
    }
    let (slug, run) = (made.slug.to_string(), made.run.to_string());
    if json {
        ui::answer_json(&json!({
            "runId": run,
            "slug": slug,
            "baseRef": made.base_ref,
            "baseSha": made.base_sha,
            "decidedBy": made.decided_by.as_ref().map(ToString::to_string),
            "replicate": made.replicate.word(),
            "nodes": nodes,
        }));
        return;
    }
    ui::answer(&format!("{}  {run}", styled(STRONG, &slug)));
    ui::remark(&if *nodes == 0 {
        format!("next  `aynig orch node add {slug} ALIAS --role ROLE --provider NAME`")
    } else {
        format!(
            "{}; {} their turns, `aynig orch show {slug}` shows them",
            pluralize(*nodes, "node"),
            runners(roles.iter().map(Option::as_deref))
        )
    });
}

/// Makes an edge.
pub(super) fn edge(
    app: &App,
    repo: &Repo,
    options: &OrchEdgeAdd,
    (from, to): (&str, &str),
    json: bool,
) -> Result<Exit, Error> {
    let run = found(repo, &options.run_name)?;
    let edge = graphs::Edge {
        id: None,
        from,
        to,
        edge_type: options.edge_type.map(|carries| match carries {
            Carries::Handoff => EdgeType::Handoff,
            Carries::Report => EdgeType::Report,
        }),
        label: options.label.as_deref(),
        bidirectional: options.bidirectional,
    };
    let decided = graphs::add_edge(&opened(app, repo)?, run, &edge)?;
    let goes_back = decided.events.iter().any(|event| match &event.body {
        Body::EdgeCreated(created) => created.edge.bidirectional,
        _ => false,
    });
    let words = match goes_back {
        true => format!("{from} and {to} may hand work to each other"),
        false => format!("{from} may hand work to {to}"),
    };
    changed(&decided, &words, json)
}

/// Stages an edge of an agent, which names no run. What the edge carries follows from the roles.
pub(super) fn staged_edge(app: &App, options: &OrchEdgeAdd, to: &str) -> Result<Exit, Error> {
    if options.edge_type.is_some() || options.label.is_some() || options.bidirectional.is_some() {
        let message = "an agent's edge has no options, and a person's has RUN FROM TO; nothing was changed";
        return Err(Error::usage(message).hint("`aynig orch edge add FROM TO`"));
    }
    hand::add_edge(app, &options.run_name, to)
}
