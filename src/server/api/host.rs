//! What this host has: its branches and who works on them, and its providers.

use std::collections::BTreeMap;

use axum::extract::State;
use serde::Deserialize;
use serde_json::json;
use utoipa::IntoParams;

use super::{Answer, At, answer, shapes};
use crate::clock;
use crate::ops::error::Error;
use crate::ops::history::views;
use crate::ops::provider::{self, Row, row};
use crate::ops::status::{Filter, Query, look};
use crate::ops::{run, target};
use crate::server::body;
use crate::server::failure::Failure;

/// The greatest number of entries of the history of a branch.
const MOST_ENTRIES: usize = 200;

/// Show the branches: the state of each, and its runner
#[utoipa::path(get, path = "/api/status",
    responses((status = 200, description = "as `aynig status --json`, and the runners that hold branches", body = shapes::Status)))]
pub(super) async fn status(State(shared): At) -> Answer {
    answer(shared, None, |desk| {
        let (repo, process) = (desk.repo, &desk.shared.app.process);
        let authority = desk.authority()?;
        let options = run::survey_options(repo, process, None)?;
        let query = Query { options, one: None, named: false, filter: Filter::default() };
        let seen = look(repo, &authority, &query, clock::wall_seconds())?;
        let mut runners: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for row in &seen.rows {
            if let Some(lease) = &row.lease {
                runners.entry(&lease.runner).or_default().push(&row.branch);
            }
        }
        let runners =
            runners.iter().map(|(runner, branches)| json!({ "runner": runner, "branches": branches }));
        Ok(json!({
            "branches": seen.rows,
            "unmanaged": seen.unmanaged,
            "workspaces": seen.workspaces,
            "runners": runners.collect::<Vec<_>>(),
        }))
    })
    .await
}

/// The selected branch.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct Story {
    /// The name of the branch
    branch: String,
}

/// Show the history of a branch
#[utoipa::path(get, path = "/api/log", params(Story),
    responses((status = 200, description = "as `aynig log --json`, the newest 200 entries", body = shapes::Log)))]
pub(super) async fn log(State(shared): At, body::Query(Story { branch }): body::Query<Story>) -> Answer {
    answer(shared, None, move |desk| {
        let authority = desk.authority()?;
        let named = |error: Error| Failure::from(error).field("branch");
        let branch = target::branch_name(branch.as_ref()).map_err(named)?;
        let head = target::existing_head(desk.repo, &authority, &branch).map_err(named)?;
        Ok(json!({ "entries": views(desk.repo, &authority, (&branch, head), MOST_ENTRIES)? }))
    })
    .await
}

/// List the agents that this host can run
#[utoipa::path(get, path = "/api/providers",
    responses((status = 200, description = "as `aynig provider list --json`", body = shapes::Providers)))]
pub(super) async fn providers(State(shared): At) -> Answer {
    answer(shared, None, |desk| {
        let found = provider::all(desk.repo, &desk.shared.options.stop, None)?;
        let rows: Vec<Row<'_>> = found.iter().map(row).collect();
        Ok(json!({ "providers": rows }))
    })
    .await
}
