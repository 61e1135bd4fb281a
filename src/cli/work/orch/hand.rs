//! What an agent does in its turn: `aynig orch handoff`, `spawn`, `edge add`, `artifact add`, `roster`, and `mcp`.
//!
//! Invariant: what is staged is answered by one JSON object on standard output, for a program to read.

use std::io::{BufRead, Read};

use serde_json::{Value, json};

use aynig::model::message::Expectation;
use aynig::model::node::CliPermissions;
use aynig::ops::app::App;
use aynig::ops::error::Error;
use aynig::ops::hand::{self, Acted, ArtifactKind, Child, Letter, Roster};
use aynig::ops::mcp;

use crate::cli::args::{
    Expects, Keeps, OrchArtifactAdd, OrchDone, OrchHandoff, OrchRoster, OrchSpawn, Permits,
};
use crate::cli::exit::Exit;
use crate::cli::ui::{self, FAINT, styled};
use crate::cli::work::flow_runs::{found, opened};

/// The longest message of a client, in bytes. A longer one is taken for several, none of which is JSON.
const MOST_LINE: u64 = 1024 * 1024;

/// `aynig orch handoff`.
pub(super) fn hand_off(app: &App, options: &OrchHandoff) -> Result<Exit, Error> {
    let expectation = match options.expect {
        Expects::None => Expectation::None,
        Expects::Optional => Expectation::Optional,
        Expects::Required => Expectation::Required,
    };
    let message = hand::text_of(&options.message)?;
    let letter = Letter {
        to: &options.to,
        message: &message,
        expectation,
        reply_to: options.reply_to.as_deref(),
        structured: options.structured.as_deref(),
        artifacts: &options.artifacts,
        status: options.status.as_deref(),
    };
    let staged = hand::hand_off(&opened(app, &app.repo())?, &letter)?;
    Ok(is_staged(&json!(staged.number)))
}

/// `aynig orch done`.
pub(super) fn done(app: &App, options: &OrchDone) -> Result<Exit, Error> {
    let message = options.message.as_deref().map(hand::text_of).transpose()?;
    let (staged, note) = hand::done(&opened(app, &app.repo())?, message.as_deref())?;
    note.iter().for_each(|note| ui::remark(note));
    Ok(is_staged(&json!(staged.number)))
}

/// `aynig orch spawn`.
pub(super) fn spawn(app: &App, options: &OrchSpawn) -> Result<Exit, Error> {
    let message = options.message.as_deref().map(hand::text_of).transpose()?;
    let child = Child {
        alias: &options.alias,
        role: &options.role,
        provider: &options.provider,
        label: options.label.as_deref(),
        model: options.model.as_deref(),
        permissions: options.permissions.map(|mode| match mode {
            Permits::Skip => CliPermissions::Skip,
            Permits::Gated => CliPermissions::Gated,
        }),
        message: message.as_deref(),
    };
    Ok(acted(&hand::spawn(&opened(app, &app.repo())?, &child)?))
}

/// `aynig orch edge add FROM TO`.
pub(super) fn add_edge(app: &App, from: &str, to: &str) -> Result<Exit, Error> {
    Ok(acted(&hand::add_edge(&opened(app, &app.repo())?, from, to)?))
}

/// `aynig orch artifact add`.
pub(super) fn add_artifact(app: &App, options: &OrchArtifactAdd) -> Result<Exit, Error> {
    let kind = match options.kind {
        Keeps::Report => ArtifactKind::Report,
        Keeps::Diff => ArtifactKind::Diff,
        Keeps::Log => ArtifactKind::Log,
    };
    let file = app.process.start.join(&options.kept_file);
    let id = hand::add_artifact(&opened(app, &app.repo())?, &file, (kind, options.kept_name.as_deref()))?;
    Ok(is_staged(&json!(id)))
}

/// `aynig orch roster`.
pub(super) fn roster(app: &App, options: &OrchRoster, json: bool) -> Result<Exit, Error> {
    let repo = app.repo();
    let run = options.run_name.as_deref().map(|named| found(&repo, named)).transpose()?;
    let roster = hand::roster(&opened(app, &repo)?, run)?;
    if json {
        ui::answer_json(&roster);
    } else {
        show(&roster);
    }
    Ok(Exit::Done)
}

/// `aynig orch mcp`.
pub(super) fn serve(app: &App) -> Result<Exit, Error> {
    mcp::check_turn()?;
    let repo = app.repo();
    let engine = opened(app, &repo)?;
    let mut lines = std::io::stdin().lock();
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = lines.by_ref().take(MOST_LINE).read_until(b'\n', &mut line);
        match read {
            Ok(0) | Err(_) => return Ok(Exit::Done),
            Ok(_) if line.trim_ascii().is_empty() => {}
            Ok(_) => {
                let answer = mcp::answer(&engine, &line);
                if answer.is_some_and(|text| !ui::answer_bytes(format!("{text}\n").as_bytes())) {
                    return Ok(Exit::Done);
                }
            }
        }
    }
}

fn acted(acted: &Acted) -> Exit {
    match acted {
        Acted::Staged(staged) => is_staged(&json!(staged.number)),
        Acted::Waits => {
            ui::remark(hand::WAITS);
            ui::remark(hand::END_NOW);
            Exit::Person
        }
    }
}

fn is_staged(id: &Value) -> Exit {
    ui::answer_json(&json!({ "id": id, "staged": true }));
    Exit::Done
}

fn show(roster: &Roster) {
    let word = |value: Value| value.as_str().unwrap_or_default().to_owned();
    let line = |name: &str, words: &str| {
        ui::answer(&format!("{}  {}", styled(FAINT, format!("{name:5}")), ui::sanitize(words.trim_end())));
    };
    line("run", &format!("{}  {}  {}", roster.slug, roster.status.word(), roster.label));
    if let Some(own) = &roster.own {
        let edges = word(json!(own.capabilities.edge_management));
        let asks = own.permissions.agent_management_requires_approval && edges != "none";
        let asks = if asks { ", after a person's approval" } else { "" };
        let providers: Vec<&str> = own.providers.iter().map(|name| name.as_str()).collect();
        line("you", &format!("{}  edges: {edges}{asks}  providers: {}", own.alias, providers.join(", ")));
    }
    for row in &roster.nodes {
        let hold = row.hold.map(|hold| hold.word().to_owned());
        let status = hold.unwrap_or_else(|| word(json!(row.status)));
        let mut words = format!(
            "{}  {}  {}  {}  {} unread  {}",
            row.alias,
            row.role,
            row.provider.as_ref().map(|name| name.as_str()).unwrap_or_default(),
            if row.staged { "staged" } else { &status },
            row.unread,
            row.label
        );
        let way = |kind| word(json!(kind));
        if let Some(kind) = row.takes {
            words += &format!("  you may send a {} ({} of yours unread)", way(kind), row.unread_of_own);
        }
        if let Some(kind) = row.gives {
            words += &format!("  may send you a {}", way(kind));
        }
        line("node", &words);
    }
    for way in &roster.edges {
        let arrow = if way.bidirectional { "↔" } else { "→" };
        let kind = word(json!(way.edge_type));
        let staged = if way.id.is_none() { "  staged" } else { "" };
        line("edge", &format!("{} {arrow} {}  {kind}  {}{staged}", way.from, way.to, way.label));
    }
}
