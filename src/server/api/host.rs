//! What this host has: its branches and who works on them, and its providers.

use axum::extract::State;
use serde_json::json;

use super::{Answer, At, answer};
use crate::clock;
use crate::ops::provider::{self, Row, row};
use crate::ops::status::{Filter, Query, look};
use crate::ops::{authority, run};

/// Show the branches: what each asks for, and who works on it
#[utoipa::path(get, path = "/api/status",
    responses((status = 200, description = "as `aynig status --json`", body = serde_json::Value)))]
pub(super) async fn status(State(shared): At) -> Answer {
    answer(shared, None, |desk| {
        let (repo, process) = (desk.repo, &desk.shared.app.process);
        let authority = authority::for_run(repo, desk.shared.options.remote.as_ref())?;
        let options = run::survey_options(repo, process, None)?;
        let query = Query { options, one: None, named: false, filter: Filter::default() };
        let seen = look(repo, &authority, &query, clock::wall_seconds())?;
        Ok(json!({ "branches": seen.rows, "unmanaged": seen.unmanaged, "workspaces": seen.workspaces }))
    })
    .await
}

/// List the agents that this host can run
#[utoipa::path(get, path = "/api/providers",
    responses((status = 200, description = "as `aynig provider list --json`", body = serde_json::Value)))]
pub(super) async fn providers(State(shared): At) -> Answer {
    answer(shared, None, |desk| {
        let found = provider::all(desk.repo, &desk.shared.options.stop, None)?;
        let rows: Vec<Row<'_>> = found.iter().map(row).collect();
        Ok(json!({ "providers": rows }))
    })
    .await
}
