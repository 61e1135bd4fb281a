//! The sessions of browsers.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::json;
use utoipa::ToSchema;

use super::{Answer, At, shapes};
use crate::server::Shared;
use crate::server::body;
use crate::server::door::SESSION;
use crate::server::failure::Failure;
use crate::server::guard;

/// The token that begins a session.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Begin {
    /// The one-time token of a link.
    token: String,
}

fn cookie(shared: &Shared, value: &str, seconds: i64) -> String {
    format!("{}={value}; HttpOnly; SameSite=Strict; Path=/; Max-Age={seconds}", shared.door.cookie)
}

/// Begin a session in a browser
#[utoipa::path(post, path = "/api/session", request_body = Begin,
    responses((status = 200, description = "the session's cookie is set; each request sends `key` as the header `Aynig-Key`, `/ws` as the subprotocol `aynig.KEY`", body = shapes::Begun)))]
pub(super) async fn begin(
    State(shared): State<Arc<Shared>>,
    ends: Option<Extension<guard::Peer>>,
    body::Short(Begin { token }): body::Short<Begin>,
) -> Result<Response, Failure> {
    let session = shared.door.enter(&token).ok_or_else(|| {
        Failure::new(StatusCode::UNAUTHORIZED, "no_link", "the link was used, or is older than a minute")
            .hint("`aynig serve --url` prints a new one")
    })?;
    if let Err(refused) = guard::persons_only(ends.map(|Extension(ends)| ends)).await {
        shared.door.leave(&session);
        return Err(refused);
    }
    let headers = [(header::SET_COOKIE, cookie(&shared, &session.cookie, SESSION))];
    Ok((headers, Json(json!({ "ok": true, "key": session.key }))).into_response())
}

/// End the session of this browser
#[utoipa::path(delete, path = "/api/session",
    responses((status = 200, description = "the session has ended", body = shapes::Done)))]
pub(super) async fn end(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    guard::sessions(&headers, &shared.door.cookie).for_each(|session| shared.door.leave(&session));
    ([(header::SET_COOKIE, cookie(&shared, "", 0))], Json(json!({ "ok": true }))).into_response()
}

/// Make a link that begins a session: valid once, for a minute
#[utoipa::path(post, path = "/api/session/link",
    responses((status = 200, description = "the link", body = shapes::Link)))]
pub(super) async fn link(State(shared): At) -> Answer {
    let url = format!("http://{}/#t={}", shared.address, shared.door.link());
    Ok(Json(json!({ "url": url })))
}
