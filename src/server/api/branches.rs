//! Branches that wait for somebody: their answers.

use axum::extract::State;
use serde::Deserialize;
use serde_json::json;
use utoipa::ToSchema;

use super::{At, shapes};
use crate::contract::ids::StateName;
use crate::ops::declare::{self, Expected, Onto, StateRequest, Wanted};
use crate::ops::error::Error;
use crate::ops::notify;
use crate::ops::target::branch_name;
use crate::ops::view::declared::WrittenView;
use crate::server::body::Json;
use crate::server::failure::Failure;

/// The answer to a branch that waits for one.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Given {
    /// The branch
    branch: String,
    /// One of the states in `dwp-answers`, or any state if there is no such list
    state: String,
    /// A text for the body; a heading with the state, the author and the time precedes it
    comment: Option<String>,
    /// The commit that asks, as the client read it: its first 7 digits or more
    expect: String,
}

/// Answer a branch that waits for an answer
#[utoipa::path(post, path = "/api/branches/answer", request_body = Given,
    responses((status = 200, description = "the commit, as in `aynig answer --json`", body = shapes::Given)))]
pub(super) async fn answer(State(shared): At, Json(given): Json<Given>) -> super::Answer {
    super::answer(shared, None, move |desk| {
        let of = |field: &'static str| move |error: Error| Failure::from(error).field(field);
        let branch = branch_name(given.branch.as_ref()).map_err(of("branch"))?;
        let state =
            StateName::parse(&given.state).map_err(|error| Failure::rule("state", error.to_string()))?;
        let expect = given.expect.to_ascii_lowercase();
        if expect.len() < 7 || !expect.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(Failure::rule("expect", "it needs 7 or more hexadecimal digits of a commit"));
        }
        if given.comment.as_ref().is_some_and(|comment| comment.trim().is_empty()) {
            return Err(Failure::rule("comment", "the comment is empty; nothing was changed"));
        }
        let authority = desk.authority()?;
        let onto = Onto {
            branch: Some(branch),
            expected: Expected { commit: Some(expect), state: None },
            answers: true,
            ..Onto::default()
        };
        let wanted = Wanted::Answer { state, comment: given.comment.map(String::into_bytes) };
        let written = declare::state(desk.repo, &authority, &StateRequest { onto, wanted })?;
        let told = notify::announce(desk.repo, &desk.shared.app.process, authority.source(), &written);
        let warnings: Vec<String> = told.err().into_iter().collect();
        Ok(json!({ "answer": WrittenView::from(&written), "warnings": warnings }))
    })
    .await
}
