//! Errors as answers: `{"error", "code", "hint"?, "field"?}`, never a page and never a stack.
//!
//! Invariant: this is the one place that maps a [`Kind`] to a status.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::model::decide::RefusalKind;
use crate::ops::error::{Error, Kind};

/// The body of an answer that is an error.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct Fault {
    /// The action, its object and the cause.
    pub(super) error: String,
    /// A word for programs.
    pub(super) code: &'static str,
    /// The next step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hint: Option<String>,
    /// The field of the request that is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) field: Option<String>,
}

/// A request that was not fulfilled.
#[derive(Debug)]
pub(super) struct Failure {
    status: StatusCode,
    fault: Fault,
}

impl Failure {
    pub(super) fn new(status: StatusCode, code: &'static str, error: impl Into<String>) -> Self {
        Self { status, fault: Fault { error: error.into(), code, hint: None, field: None } }
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.fault.hint = Some(hint.into());
        self
    }

    pub(super) fn field(mut self, field: impl Into<String>) -> Self {
        self.fault.field = Some(field.into());
        self
    }

    /// A well-formed request that names nothing there is.
    pub(super) fn unknown(error: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", error)
    }

    /// A query with a value that cannot be.
    pub(super) fn query(field: &str, error: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "malformed", error).field(field)
    }

    /// A well-formed request with a value that cannot be.
    pub(super) fn rule(field: &str, error: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", error).field(field)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let (status, code) = status(&error);
        let hint = (!error.hints.is_empty()).then(|| error.hints.join("; "));
        Self { status, fault: Fault { error: error.message, code, hint, field: None } }
    }
}

/// The status of an error, and its word.
fn status(error: &Error) -> (StatusCode, &'static str) {
    if let Some((kind, code)) = error.rule {
        let status = match kind {
            RefusalKind::Unknown => StatusCode::NOT_FOUND,
            RefusalKind::Conflict => StatusCode::CONFLICT,
            RefusalKind::Rule => StatusCode::UNPROCESSABLE_ENTITY,
        };
        return (status, code);
    }
    match error.kind {
        Kind::Usage => (StatusCode::UNPROCESSABLE_ENTITY, "invalid"),
        Kind::NotFound => (StatusCode::NOT_FOUND, "not_found"),
        Kind::Conflict => (StatusCode::CONFLICT, "conflict"),
        Kind::Failed => (StatusCode::UNPROCESSABLE_ENTITY, "refused"),
        Kind::Setup => (StatusCode::INTERNAL_SERVER_ERROR, "setup"),
        Kind::Remote => (StatusCode::SERVICE_UNAVAILABLE, "remote"),
        Kind::Bug => (StatusCode::INTERNAL_SERVER_ERROR, "bug"),
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (self.status, Json(self.fault)).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_status() {
        let of = |kind, rule| status(&Error { rule, ..Error::new(kind, "x") }).0.as_u16();
        let kinds = [
            (Kind::Usage, 422),
            (Kind::NotFound, 404),
            (Kind::Conflict, 409),
            (Kind::Failed, 422),
            (Kind::Setup, 500),
            (Kind::Remote, 503),
            (Kind::Bug, 500),
        ];
        for (kind, wanted) in kinds {
            assert_eq!(of(kind, None), wanted, "{kind:?}");
        }
        for (rule, wanted) in
            [(RefusalKind::Unknown, 404), (RefusalKind::Conflict, 409), (RefusalKind::Rule, 422)]
        {
            assert_eq!(of(Kind::Failed, Some((rule, "a"))), wanted, "{rule:?}");
        }
    }
}
