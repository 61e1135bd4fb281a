//! Texts of roles. They are files of the repository, so nothing is written here.

use axum::extract::State;
use axum::http::StatusCode;
use serde_json::json;

use super::{Answer, At, Fault, answer, shapes};
use crate::ops::flow;
use crate::ops::templates::{self, Source};
use crate::server::body::Path;
use crate::server::failure::Failure;

/// List the texts of roles
#[utoipa::path(get, path = "/api/templates",
    responses((status = 200, description = "the texts at HEAD, and those of aynig", body = shapes::Templates)))]
pub(super) async fn list(State(shared): At) -> Answer {
    answer(shared, None, |desk| {
        let (_, base) = flow::base(desk.repo, "HEAD")?;
        let all = templates::list(desk.repo, base)?;
        let rows = all.iter().map(|one| {
            let (source, path) = match one.source {
                Source::Base => ("repo", templates::path(&one.role)),
                Source::Shipped => ("system", String::new()),
            };
            json!({ "name": one.role, "source": source, "path": path })
        });
        Ok(json!({ "templates": rows.collect::<Vec<_>>() }))
    })
    .await
}

/// Show the text of a role
#[utoipa::path(get, path = "/api/templates/{name}", params(("name" = String, Path)),
    responses((status = 200, description = "the text; `found` is false if there is none", body = shapes::TemplateText)))]
pub(super) async fn show(State(shared): At, Path(name): Path<String>) -> Answer {
    answer(shared, None, move |desk| {
        let (_, base) = flow::base(desk.repo, "HEAD")?;
        let found =
            templates::find(desk.repo, base, &name).map_err(|error| Failure::from(error).field("name"))?;
        let text = found.as_ref().map(|one| one.text.as_str()).unwrap_or_default();
        Ok(json!({ "name": name, "content": text, "found": found.is_some() }))
    })
    .await
}

fn read_only(name: &str) -> Failure {
    let path = templates::path(name);
    Failure::new(StatusCode::FORBIDDEN, "read_only", "texts of roles are files of the repository")
        .hint(format!("commit {path}"))
}

/// Refused: a text is a file of the repository
#[utoipa::path(post, path = "/api/templates",
    responses((status = 403, description = "commit the file instead", body = Fault)))]
pub(super) async fn create() -> Failure {
    read_only("NAME")
}

/// Refused: a text is a file of the repository
#[utoipa::path(put, path = "/api/templates/{name}", params(("name" = String, Path)),
    responses((status = 403, description = "commit the file instead", body = Fault)))]
pub(super) async fn change() -> Failure {
    read_only("NAME")
}

/// Refused: a text is a file of the repository
#[utoipa::path(delete, path = "/api/templates/{name}", params(("name" = String, Path)),
    responses((status = 403, description = "commit the change instead", body = Fault)))]
pub(super) async fn delete() -> Failure {
    read_only("NAME")
}
