//! Bodies and queries of requests, with errors that name the field.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;

use super::failure::Failure;
use super::guard::SESSION;
use crate::git::objects::digest::sha256;

/// The longest body, in bytes.
const MOST: usize = 4 * 1024 * 1024;

/// The longest body of a request that needs no session, in bytes.
const SHORT: usize = 1024;

/// The longest time that a body may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A body in JSON. No body at all is an empty object.
pub(super) struct Json<T>(pub(super) T);

impl<T: DeserializeOwned, S: Sync> FromRequest<S> for Json<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &S) -> Result<Self, Failure> {
        read(request, MOST).await.map(Self)
    }
}

/// A short body in JSON, of a request that anybody can send.
pub(super) struct Short<T>(pub(super) T);

impl<T: DeserializeOwned, S: Sync> FromRequest<S> for Short<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &S) -> Result<Self, Failure> {
        read(request, SHORT).await.map(Self)
    }
}

async fn read<T: DeserializeOwned>(request: Request, most: usize) -> Result<T, Failure> {
    let bytes = in_time(request, most).await?;
    let bytes: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
    // serde takes the fields of an array by their order.
    if bytes.trim_ascii_start().starts_with(b"[") {
        let words = "the body has another shape: it is an array, and is to be an object";
        return Err(Failure::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", words));
    }
    serde_json::from_slice(bytes).map_err(|error| wrong(&error, "the body"))
}

async fn in_time(request: Request, most: usize) -> Result<Bytes, Failure> {
    let bytes = tokio::time::timeout(PATIENCE, whole(request, most)).await;
    bytes.map_err(|_| {
        Failure::new(StatusCode::REQUEST_TIMEOUT, "slow", "the body did not come within 30 seconds")
    })?
}

async fn whole(request: Request, most: usize) -> Result<Bytes, Failure> {
    let collected = Limited::new(request.into_body(), most).collect().await;
    collected.map(|body| body.to_bytes()).map_err(|error| {
        if error.is::<LengthLimitError>() {
            let words = format!("the body is longer than {} KiB", most / 1024);
            Failure::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", words)
        } else {
            Failure::new(StatusCode::BAD_REQUEST, "malformed", "the body was cut off")
        }
    })
}

/// The error of a text that is no JSON (400), or JSON of another shape (422).
fn wrong(error: &serde_json::Error, what: &str) -> Failure {
    let text = error.to_string();
    if !error.is_data() {
        return Failure::new(StatusCode::BAD_REQUEST, "malformed", format!("{what} is no JSON: {text}"));
    }
    let failure = Failure::new(
        StatusCode::UNPROCESSABLE_ENTITY,
        "invalid",
        format!("{what} has another shape: {text}"),
    );
    match text.split('`').nth(1) {
        Some(field) if text.contains("field") => failure.field(field),
        _ => failure,
    }
}

/// The values of a query. An unknown one is refused.
pub(super) struct Query<T>(pub(super) T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let read = axum::extract::Query::<T>::try_from_uri(&parts.uri);
        read.map(|query| Self(query.0)).map_err(|error| wrong_query(parts, &error.body_text()))
    }
}

/// The error of a query that cannot be read, with its field and the value of that. `why` names an unknown field in
/// backticks, and otherwise the field before a colon.
fn wrong_query(parts: &Parts, why: &str) -> Failure {
    type Pairs = axum::extract::Query<Vec<(String, String)>>;
    let given = Pairs::try_from_uri(&parts.uri).map(|pairs| pairs.0).unwrap_or_default();
    let named = |name: &str| given.iter().find(|(field, _)| field == name);
    match why.split(['`', ':']).map(str::trim).find_map(named) {
        Some((field, value)) => Failure::query(field, format!("{field}={value}: {why}")),
        None => Failure::new(StatusCode::BAD_REQUEST, "malformed", why),
    }
}

/// The words of a path. One that is no text of UTF-8 is refused.
pub(super) struct Path<T>(pub(super) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let read = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        read.map(|path| Self(path.0))
            .map_err(|error| Failure::new(error.status(), "malformed", error.body_text()))
    }
}

/// A request that is known again by a key of its sender.
#[derive(Debug, Clone)]
pub(super) struct Keyed {
    /// Its `Idempotency-Key`.
    pub(super) key: String,
    /// The digest of its method, path, query and body.
    pub(super) request: String,
}

/// Works out the digest of a request with an `Idempotency-Key`, which no extractor of a part could do.
pub(super) async fn keyed(request: Request, next: Next) -> Response {
    match with_digest(request).await {
        Ok(request) => next.run(request).await,
        Err(failure) => failure.into_response(),
    }
}

async fn with_digest(request: Request) -> Result<Request, Failure> {
    let Some(key) = key(request.headers())? else { return Ok(request) };
    // This one needs no session, so no more than its own handler reads is kept of it.
    if request.uri().path() == SESSION {
        return Ok(request);
    }
    let mut text = format!("{} {}\n", request.method(), request.uri()).into_bytes();
    let (parts, body) = request.into_parts();
    let bytes = in_time(Request::new(body), MOST).await?;
    text.extend_from_slice(&bytes);
    let mut request = Request::from_parts(parts, bytes.into());
    request.extensions_mut().insert(Keyed { key, request: sha256(&text) });
    Ok(request)
}

/// The key by which a request is known again.
pub(super) struct Key(pub(super) Option<Keyed>);

impl<S: Sync> FromRequestParts<S> for Key {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        Ok(Self(parts.extensions.get().cloned()))
    }
}

fn key(headers: &HeaderMap) -> Result<Option<String>, Failure> {
    let Some(value) = headers.get("idempotency-key") else { return Ok(None) };
    let text = value.to_str().ok().filter(|text| !text.is_empty() && text.len() <= 200);
    text.map(|text| Some(text.to_owned())).ok_or_else(|| {
        Failure::new(StatusCode::BAD_REQUEST, "malformed", "Idempotency-Key has 1 to 200 plain characters")
    })
}
