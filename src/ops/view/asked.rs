//! Questions: states that wait for an answer.

use serde::Serialize;

use super::{Time, text};
use crate::clock;
use crate::contract::ids::{BranchName, CommitId, StateName};
use crate::contract::waits_for::Deadline;
use crate::ops::declare::Asked;

/// A question.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AskedView<'a> {
    branch: &'a BranchName,
    commit: CommitId,
    state: &'a StateName,
    waits_for: &'a str,
    answers: Option<&'a [StateName]>,
    date: Time,
    seconds_waited: u64,
    not_before: Option<Time>,
    author: String,
    subject: String,
    body: String,
}

impl<'a> From<&'a Asked> for AskedView<'a> {
    fn from(asked: &'a Asked) -> Self {
        let Asked { branch, event, author, question } = asked;
        let waited = clock::wall_seconds().saturating_sub(event.committed_at);
        Self {
            branch,
            commit: event.commit,
            state: &event.state,
            waits_for: &question.whom,
            answers: question.answers.states(),
            date: Time(event.committed_at),
            seconds_waited: u64::try_from(waited).unwrap_or(0),
            not_before: match question.deadline {
                Deadline::At(until) => Some(Time(until)),
                Deadline::Never | Deadline::Unreadable(_) => None,
            },
            author: text(author),
            subject: text(&event.message.subject),
            body: text(&event.message.body),
        }
    }
}
