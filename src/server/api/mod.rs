//! The endpoints, and the document that describes them.
//!
//! Invariant: a GET changes nothing. Every answer has a JSON body, that of an error as well.

mod approvals;
mod artifacts;
mod branches;
mod edges;
mod events;
mod flows;
mod host;
mod nodes;
mod places;
mod runs;
mod session;
mod shapes;
mod templates;
mod work;

use std::collections::HashSet;
use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router, middleware};
use serde_json::{Value, json};
use tokio::sync::watch;
use utoipa::OpenApi;
use utoipa::openapi::OpenApi as Document;
use utoipa::openapi::path::{Operation, Parameter, ParameterIn};
use utoipa::openapi::{Content, Ref, RefOr, ResponseBuilder};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::body::{Keyed, keyed};
use super::desk::{Desk, at_desk};
use super::failure::{Failure, Fault};
use super::guard::guard;
use super::pages::{page, unknown};
use super::{Shared, stream};

/// The document without its paths.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "aynig",
        description = "Runs of agents, with git as the database.",
        license(name = "MIT OR Apache-2.0")
    ),
    components(schemas(Fault))
)]
struct About;

fn endpoints() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::with_openapi(About::openapi())
        .routes(routes!(session::begin, session::end))
        .routes(routes!(session::link))
        .routes(routes!(runs::list, runs::create))
        .routes(routes!(runs::show, runs::change, runs::delete))
        .routes(routes!(runs::pause))
        .routes(routes!(runs::resume))
        .routes(routes!(runs::stop))
        .routes(routes!(work::diff))
        .routes(routes!(work::rollback))
        .routes(routes!(work::publish))
        .routes(routes!(flows::show_run))
        .routes(routes!(flows::list, flows::begin))
        .routes(routes!(events::page))
        .routes(routes!(events::lines))
        .routes(routes!(nodes::add))
        .routes(routes!(nodes::change, nodes::remove))
        .routes(routes!(nodes::start))
        .routes(routes!(nodes::stop))
        .routes(routes!(nodes::interrupt))
        .routes(routes!(nodes::reset))
        .routes(routes!(edges::add))
        .routes(routes!(edges::remove))
        .routes(routes!(edges::chat))
        .routes(routes!(approvals::list))
        .routes(routes!(approvals::resolve))
        .routes(routes!(artifacts::show))
        .routes(routes!(templates::list, templates::create))
        .routes(routes!(templates::show, templates::change, templates::delete))
        .routes(routes!(places::list))
        .routes(routes!(host::status))
        .routes(routes!(host::log))
        .routes(routes!(branches::answer))
        .routes(routes!(host::providers))
}

/// The document of the API.
#[must_use]
pub fn document() -> Document {
    let mut document = endpoints().into_openapi();
    for path in document.paths.paths.values_mut() {
        let operations = [&mut path.get, &mut path.post, &mut path.put, &mut path.patch, &mut path.delete];
        operations.into_iter().flatten().for_each(with_fault);
    }
    document
}

/// Each operation may end with an error of the same shape.
fn with_fault(operation: &mut Operation) {
    let body = Content::new(Some(Ref::from_schema_name("Fault")));
    let fault = ResponseBuilder::new().description("an error").content("application/json", body).build();
    operation.responses.responses.insert("default".to_owned(), RefOr::T(fault));
}

/// The paths with values in their queries.
fn asking(document: &Document) -> HashSet<String> {
    let is_query =
        |one: &RefOr<Parameter>| matches!(one, RefOr::T(one) if one.parameter_in == ParameterIn::Query);
    let asks = |operation: &Operation| operation.parameters.iter().flatten().any(is_query);
    let paths = document.paths.paths.iter().filter(|(_, path)| path.get.as_ref().is_some_and(asks));
    paths.map(|(path, _)| path.clone()).collect()
}

/// Refuses a query where none is read. An unknown value is refused by the paths that read one.
fn unasked(asking: &HashSet<String>, request: &Request) -> Option<Failure> {
    let query = request.uri().query().filter(|query| !query.is_empty())?;
    let path = request.extensions().get::<MatchedPath>()?.as_str();
    let words = format!("this path takes no query, and {query} was given");
    (!asking.contains(path)).then(|| Failure::new(StatusCode::BAD_REQUEST, "malformed", words))
}

/// All endpoints, behind the guard.
pub(super) fn router(shared: &Arc<Shared>, stopped: &watch::Receiver<bool>) -> Router {
    let (endpoints, described) = endpoints().split_for_parts();
    let asking = Arc::new(asking(&described));
    let endpoints = endpoints.layer(middleware::from_fn(move |request: Request, next: Next| {
        let asking = Arc::clone(&asking);
        async move {
            match unasked(&asking, &request) {
                Some(failure) => failure.into_response(),
                None => next.run(request).await,
            }
        }
    }));
    let live =
        Router::new().route("/ws", get(stream::websocket)).with_state((Arc::clone(shared), stopped.clone()));
    Router::new()
        .route("/healthz", get(async || Json(json!({ "ok": true }))))
        .route("/api/openapi.json", get(async || Json(json!(document()))))
        .merge(endpoints.with_state(Arc::clone(shared)))
        .merge(live)
        .fallback(async |method: Method, uri: Uri, headers: HeaderMap| match method {
            Method::GET | Method::HEAD => page(&uri, &headers),
            _ => unknown(uri.path()).into_response(),
        })
        .method_not_allowed_fallback(async || {
            Failure::new(StatusCode::METHOD_NOT_ALLOWED, "method", "this path has other methods")
        })
        .layer(middleware::from_fn(keyed))
        .layer(middleware::from_fn_with_state(Arc::clone(shared), guard))
}

/// The state of handlers.
type At = State<Arc<Shared>>;

/// The answer of a handler.
type Answer = Result<Json<Value>, Failure>;

/// Answers with the result of an operation.
async fn answer(
    shared: Arc<Shared>,
    key: Option<Keyed>,
    job: impl FnOnce(&Desk<'_>) -> Result<Value, Failure> + Send + 'static,
) -> Answer {
    at_desk(shared, key, job).await.map(Json)
}
