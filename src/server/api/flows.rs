//! Flows: those that the repository has, new runs of them, and a run drawn over its flow.

use std::collections::BTreeMap;
use std::path::Path as FilePath;

use axum::extract::State;
use serde::Deserialize;
use serde_json::json;
use utoipa::ToSchema;

use super::{Answer, At, answer, runs, shapes};
use crate::ops::flow::base;
use crate::ops::flow_new::{Wanted, offered, offered_file, start};
use crate::ops::flows::view::show;
use crate::ops::flows::{self, drawn};
use crate::server::body::{Json, Path};
use crate::server::failure::Failure;

/// List the flows of the repository
#[utoipa::path(get, path = "/api/flows",
    responses((status = 200, description = "the flow files of HEAD's commit, by path", body = shapes::Flows)))]
pub(super) async fn list(State(shared): At) -> Answer {
    answer(shared, None, |desk| {
        let (_, commit) = base(desk.repo, "HEAD")?;
        Ok(json!({ "commit": commit, "flows": offered(desk.repo, commit)? }))
    })
    .await
}

/// A new run of a flow.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewFlow {
    /// The path of a committed file from the top of the repository
    path: String,
    /// The commit that has it; by default HEAD
    commit: Option<String>,
    /// The values of its inputs
    #[serde(default)]
    #[schema(value_type = Option<BTreeMap<String, String>>)]
    inputs: BTreeMap<String, String>,
    /// A text for people
    label: Option<String>,
    /// The base of the work; by default HEAD
    base: Option<String>,
}

/// Start a flow
#[utoipa::path(post, path = "/api/flows", request_body = NewFlow,
    responses((status = 200, description = "the run", body = shapes::OneRun)))]
pub(super) async fn begin(State(shared): At, Json(new): Json<NewFlow>) -> Answer {
    answer(shared, None, move |desk| {
        let named = |field: &'static str, name: Option<&str>| {
            let found = base(desk.repo, name.unwrap_or("HEAD"));
            found.map(|(_, commit)| commit).map_err(|error| Failure::from(error).field(field))
        };
        let commit = named("commit", new.commit.as_deref())?;
        named("base", new.base.as_deref())?;
        let bytes =
            offered_file(desk.repo, commit, &new.path).map_err(|error| Failure::from(error).field("path"))?;
        let remote = desk.authority()?;
        let wanted = Wanted {
            name: &new.path,
            file: (desk.repo.top(), FilePath::new(&new.path)),
            bytes: &bytes,
            base: new.base.as_deref().unwrap_or("HEAD"),
            inputs: new.inputs,
            label: new.label.as_deref(),
            remote: remote.source(),
        };
        let mut faults = Vec::new();
        let started = start(&desk.engine(None)?, wanted, &mut |note| {
            if note.is_fault() {
                faults.push(note.to_string());
            }
        });
        let (_, started) = started.map_err(|error| match faults.first() {
            Some(fault) => Failure::rule("path", format!("{}:{fault}; nothing was started", new.path))
                .hint(error.hints.join("; ")),
            None => Failure::from(error),
        })?;
        Ok(json!({ "run": runs::state(desk, started.run)? }))
    })
    .await
}

/// Show the flow of a run, the run's current state, and the commands that continue it
#[utoipa::path(get, path = "/api/runs/{id}/flow", params(("id" = String, Path)),
    responses((status = 200, description = "as `aynig flow graph --format json`, and as `aynig flow show --json`", body = shapes::Drawn)))]
pub(super) async fn show_run(State(shared): At, Path(id): Path<String>) -> Answer {
    answer(shared, None, move |desk| {
        let (repo, process) = (desk.repo, &desk.shared.app.process);
        let tip = flows::find(repo, &desk.run(&id)?.to_string())?;
        let authority = desk.authority()?;
        let mut trouble = |words: &str| tracing::debug!("{words}");
        let graph = drawn::drawn(repo, process, &authority, &tip, &mut trouble)?;
        let shown = show(repo, process, &authority, &tip, &mut trouble)?;
        Ok(json!({ "graph": graph, "show": shown }))
    })
    .await
}
