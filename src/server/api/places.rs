//! Directories of the repository, for clients that let people choose one.
//!
//! Invariant: nothing outside of the repository is shown, by no `..` and no link, and nothing of its git directory.

use std::path::{Path, PathBuf};

use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::json;
use utoipa::IntoParams;

use super::{Answer, At, answer, shapes};
use crate::server::body::Query;
use crate::server::failure::Failure;

/// The selected directory.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct Where {
    /// An absolute path; by default the top of the repository
    path: Option<String>,
}

/// List a directory of the repository
#[utoipa::path(get, path = "/api/fs/list", params(Where),
    responses((status = 200, description = "its entries", body = shapes::Directory)))]
pub(super) async fn list(State(shared): At, Query(Where { path }): Query<Where>) -> Answer {
    answer(shared, None, move |desk| {
        let top = desk.repo.top().canonicalize().map_err(|_| outside())?;
        let path = path.filter(|path| !path.is_empty()).map_or_else(|| top.clone(), PathBuf::from);
        let path = path.canonicalize().ok().filter(|path| is_below(path, &top)).ok_or_else(outside)?;
        let mut entries = Vec::new();
        for entry in std::fs::read_dir(&path).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name != ".git" {
                let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
                entries.push(json!({ "name": name, "isDirectory": is_directory, "path": entry.path() }));
            }
        }
        entries.sort_by_key(|entry| (entry["isDirectory"] == false, entry["name"].to_string()));
        let parent = path.parent().filter(|parent| is_below(parent, &top));
        Ok(json!({ "entries": entries, "parent": parent, "current": path }))
    })
    .await
}

fn is_below(path: &Path, top: &Path) -> bool {
    path.strip_prefix(top).is_ok_and(|rest| rest.iter().all(|part| part != ".git"))
}

/// One answer for paths outside and for missing ones, so that clients cannot distinguish them.
fn outside() -> Failure {
    Failure::new(StatusCode::FORBIDDEN, "outside", "that is no directory of this repository").field("path")
}
