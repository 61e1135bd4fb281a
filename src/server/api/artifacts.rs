//! Artifacts of a run.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;
use utoipa::IntoParams;

use super::{At, shapes};
use crate::ops::artifacts;
use crate::server::body::{Path, Query};
use crate::server::desk::at_desk;
use crate::server::failure::Failure;

/// The form of an artifact.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct How {
    /// `1`: its bytes, as an attachment
    raw: Option<u8>,
}

/// Show an artifact with its content
#[utoipa::path(get, path = "/api/runs/{id}/artifacts/{artifact}", params(("id" = String, Path), ("artifact" = String, Path), How),
    responses((status = 200, description = "the artifact, and its content as text; with `raw=1` its bytes", content((shapes::Content = "application/json"), (String = "text/plain"), (Vec<u8> = "application/octet-stream")))))]
pub(super) async fn show(
    State(shared): At,
    Path((id, named)): Path<(String, String)>,
    Query(how): Query<How>,
) -> Result<Response, Failure> {
    let (artifact, name, content) = at_desk(shared, None, move |desk| {
        let found = artifacts::of(desk.repo, desk.run(&id)?, None)?;
        match (found.one(&named), found.long_event(&named)) {
            (Ok((item, content)), _) => Ok((json!(item.artifact), item.artifact.name.to_string(), content)),
            (Err(_), Some(content)) => {
                let event = json!({ "id": named, "mediaType": "application/json", "size": content.len() });
                Ok((event, "event.json".to_owned(), content))
            }
            (Err(error), None) => Err(error.into()),
        }
    })
    .await?;
    if how.raw != Some(1) {
        let content = String::from_utf8_lossy(&content).into_owned();
        return Ok(Json(json!({ "artifact": artifact, "content": content })).into_response());
    }
    let is_text = std::str::from_utf8(&content).is_ok();
    let kind = if is_text { "text/plain; charset=utf-8" } else { "application/octet-stream" };
    // The name is one segment of a path. What a header cannot carry is left out.
    let name: String = name.chars().filter(|c| c.is_ascii_graphic() && *c != '"').collect();
    let disposition = HeaderValue::from_str(&format!("attachment; filename=\"{name}\""));
    let disposition = disposition.unwrap_or(HeaderValue::from_static("attachment"));
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CONTENT_DISPOSITION, disposition),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'")),
    ];
    Ok((headers, content).into_response())
}
