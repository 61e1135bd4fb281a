//! `aynig orch artifact`: lists, prints and writes artifacts of runs.
//!
//! Invariant: names of a ledger are printed without control characters; a content is handed to a program unchanged.

use serde::Serialize;
use serde_json::json;

use aynig::git::Repo;
use aynig::model::artifact::Artifact;
use aynig::ops::app::App;
use aynig::ops::artifacts::{self, Exported, Item};
use aynig::ops::error::Error;
use aynig::ops::runs;
use aynig::words::pluralize;

use crate::cli::args::{OrchArtifact, OrchArtifactVerb};
use crate::cli::exit::Exit;
use crate::cli::ui::{self, FAINT, STRONG, styled, warn};

/// An artifact in JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row<'a> {
    id: String,
    kind: &'a aynig::model::artifact::ArtifactKind,
    name: &'a str,
    node_id: Option<String>,
    alias: Option<&'a str>,
    turn_id: Option<String>,
    number: Option<u64>,
    created_at: String,
    media_type: &'a str,
    size: u64,
    sha256: &'a str,
    host: &'a str,
    available: bool,
}

fn row(item: &Item) -> Row<'_> {
    let Artifact { id, node_id, kind, name, created_at, turn_id, media_type, size, sha256, host, .. } =
        &item.artifact;
    Row {
        id: id.to_string(),
        kind,
        name: name.as_str(),
        node_id: node_id.as_ref().map(ToString::to_string),
        alias: item.alias.as_deref(),
        turn_id: turn_id.as_ref().map(ToString::to_string),
        number: item.number,
        created_at: created_at.to_string(),
        media_type,
        size: *size,
        sha256,
        host,
        available: item.is_here,
    }
}

pub(super) fn run(app: &App, repo: &Repo, arguments: &OrchArtifact, json: bool) -> Result<Exit, Error> {
    match &arguments.verb {
        OrchArtifactVerb::Add(_) => unreachable!("an agent calls it"),
        OrchArtifactVerb::List(options) => {
            let run = runs::find(repo, &options.of.run_name)?;
            list(&artifacts::of(repo, run, options.node.as_deref())?.items, json);
            Ok(Exit::Done)
        }
        OrchArtifactVerb::Show(options) => {
            let found = artifacts::of(repo, runs::find(repo, &options.of.run_name)?, None)?;
            let (item, content) = found.one(&options.artifact)?;
            show(item, &content, json)
        }
        OrchArtifactVerb::Export(options) => {
            let run = runs::find(repo, &options.of.run_name)?;
            let found = artifacts::of(repo, run, options.node.as_deref())?;
            let directory = app.process.start.join(&options.into);
            let Exported { written, missing } = found.export(&directory)?;
            if json {
                let place = |(item, path): &(Item, std::path::PathBuf)| json!({ "id": item.artifact.id, "path": directory.join(path).display().to_string() });
                let gone = |item: &Item| json!({ "id": item.artifact.id, "name": item.artifact.name, "host": item.artifact.host });
                ui::answer_json(&json!({
                    "written": written.iter().map(place).collect::<Vec<_>>(),
                    "missing": missing.iter().map(gone).collect::<Vec<_>>(),
                }));
            } else {
                for (_, path) in &written {
                    ui::answer(&ui::sanitize(&directory.join(path).display().to_string()));
                }
            }
            for item in &missing {
                let Artifact { name, id, host, .. } = &item.artifact;
                warn(&ui::sanitize(&format!("{name} ({id}) is on the host {host} alone")));
            }
            ui::remark(&format!("{} written", pluralize(written.len(), "artifact")));
            Ok(if missing.is_empty() { Exit::Done } else { Exit::Failed })
        }
    }
}

fn list(items: &[Item], json: bool) {
    if json {
        let rows: Vec<Row<'_>> = items.iter().map(row).collect();
        ui::answer_json(&json!({ "artifacts": rows }));
        return;
    }
    for item in items {
        let Artifact { id, name, size, host, .. } = &item.artifact;
        let turn = item.number.map(|number| format!(" {number}")).unwrap_or_default();
        let place = if item.is_here { String::new() } else { format!("  on {host} alone") };
        let words = format!(
            "{}{turn}  {name}  {}{place}",
            item.alias.as_deref().unwrap_or("-"),
            pluralize(usize::try_from(*size).unwrap_or(usize::MAX), "byte")
        );
        ui::answer(&format!("{}  {}", styled(STRONG, id), ui::sanitize(&words)));
    }
    if items.is_empty() {
        ui::remark(&styled(FAINT, "no artifacts; a turn leaves some when it ends"));
    }
}

fn show(item: &Item, content: &[u8], json: bool) -> Result<Exit, Error> {
    let text = std::str::from_utf8(content);
    if json {
        ui::answer_json(&json!({ "artifact": row(item), "content": text.ok() }));
        return Ok(Exit::Done);
    }
    if ui::room().is_none() {
        ui::answer_bytes(content);
        return Ok(Exit::Done);
    }
    let Ok(text) = text else {
        let message = format!("{} is no text", item.artifact.name);
        return Err(Error::failed(message)
            .hint("redirect the output into a file: `aynig orch artifact show … >FILE`"));
    };
    for line in text.lines() {
        ui::answer(&ui::sanitize(line));
    }
    Ok(Exit::Done)
}
