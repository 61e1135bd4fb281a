//! Events of a run: pages of its journal, and lines as they come.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_core::Stream;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::broadcast::error::RecvError;
use utoipa::IntoParams;

use super::{Answer, At, answer, shapes};
use crate::model::ids::RunId;
use crate::ops::feed::News;
use crate::ops::runs::{self, Line};
use crate::server::Shared;
use crate::server::body::{Path, Query};
use crate::server::desk::at_desk;
use crate::server::failure::Failure;

/// The default number of events of a page, and the greatest.
const LIMIT: usize = 200;
const MOST: usize = 2_000;

/// The selected events.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct Paging {
    /// The number of events: 1 to 2000, by default 200
    limit: Option<usize>,
    /// Only those with a smaller number
    before: Option<u64>,
    /// Only those with a greater number, the oldest of them first
    after: Option<u64>,
}

/// Show the newest events of a run, in ascending order
#[utoipa::path(get, path = "/api/runs/{id}/events", params(("id" = String, Path), Paging),
    responses((status = 200, description = "a page", body = shapes::Events)))]
pub(super) async fn page(State(shared): At, Path(id): Path<String>, Query(paging): Query<Paging>) -> Answer {
    let limit = paging.limit.unwrap_or(LIMIT);
    let malformed = |field: &str, text: &str| {
        Failure::new(axum::http::StatusCode::BAD_REQUEST, "malformed", text).field(field)
    };
    if !(1..=MOST).contains(&limit) {
        return Err(malformed("limit", &format!("limit is 1 to {MOST}, and not {limit}")));
    }
    if paging.after.is_some() && paging.before.is_some() {
        return Err(malformed("after", "after and before exclude each other"));
    }
    answer(shared, None, move |desk| {
        let run = desk.run(&id)?;
        let at = runs::position(desk.repo, run)?;
        let (lines, cursor, has_more) = match paging.after {
            Some(after) => {
                let mut lines = runs::lines_after(desk.repo, run, after.min(at.last_seq), limit + 1)?;
                let has_more = lines.len() > limit;
                lines.truncate(limit);
                let last = lines.last().map(|line| line.seq).filter(|_| has_more);
                (lines, last, has_more)
            }
            None => {
                let page = runs::page(desk.repo, run, paging.before, limit)?;
                let first = page.lines.first().map(|line| line.seq).filter(|_| page.has_more);
                (page.lines, first, page.has_more)
            }
        };
        let events: Vec<Box<RawValue>> = lines.into_iter().filter_map(raw).collect();
        let cursor = cursor.map(|seq| seq.to_string());
        Ok(json!({
            "events": serde_json::to_value(events).unwrap_or_default(),
            "page": { "nextCursor": cursor, "hasMore": has_more },
            "journal": at.journal,
            "lastSeq": at.last_seq,
        }))
    })
    .await
}

fn raw(line: Line) -> Option<Box<RawValue>> {
    RawValue::from_string(String::from_utf8(line.bytes).ok()?).ok()
}

/// The beginning of a stream.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct From {
    /// Only those with a greater number; by default only new ones
    after: Option<u64>,
}

/// Stream the events of a run as server-sent events
#[utoipa::path(get, path = "/api/runs/{id}/events/stream", params(("id" = String, Path), From),
    responses((status = 200, description = "events", content_type = "text/event-stream", body = String)))]
pub(super) async fn lines(
    State(shared): At,
    Path(id): Path<String>,
    Query(from): Query<From>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Failure> {
    let news = shared.news.subscribe();
    let (run, after) = at_desk(Arc::clone(&shared), None, move |desk| {
        let run = desk.run(&id)?;
        let last = runs::position(desk.repo, run)?.last_seq;
        Ok((run, from.after.unwrap_or(last).min(last)))
    })
    .await?;
    let (to, from) = tokio::sync::mpsc::channel(64);
    tokio::spawn(async move {
        // It ends when the reader goes.
        drop(pass_on(&shared, (run, after), news, &to).await);
    });
    let alive = KeepAlive::new().interval(Duration::from_secs(20));
    Ok(Sse::new(tokio_stream::wrappers::ReceiverStream::new(from)).keep_alive(alive))
}

type Sender = tokio::sync::mpsc::Sender<Result<Event, Infallible>>;

/// Passes on the journal's events, and then new ones.
async fn pass_on(
    shared: &Arc<Shared>,
    (run, mut last): (RunId, u64),
    mut news: tokio::sync::broadcast::Receiver<News>,
    to: &Sender,
) -> Result<(), Gone> {
    last = catch_up(shared, (run, last), to).await?;
    loop {
        match news.recv().await {
            Ok(News::Event { run: of, seq, line, .. }) if of == run && seq == last + 1 => {
                to.send(Ok(event(seq, &line))).await.map_err(|_| Gone)?;
                last = seq;
            }
            Ok(News::Replaced { run: of }) if of == run => return Err(Gone),
            // What was missed is in the journal.
            Ok(News::Event { run: of, seq, .. }) if of == run && seq > last => {
                last = catch_up(shared, (run, last), to).await?;
            }
            Err(RecvError::Lagged(_)) => last = catch_up(shared, (run, last), to).await?,
            Ok(_) => {}
            Err(RecvError::Closed) => return Ok(()),
        }
    }
}

/// The reader is gone, or the stream has ended.
struct Gone;

async fn catch_up(shared: &Arc<Shared>, (run, mut last): (RunId, u64), to: &Sender) -> Result<u64, Gone> {
    loop {
        let read = at_desk(Arc::clone(shared), None, move |desk| {
            Ok(runs::lines_after(desk.repo, run, last, LIMIT)?)
        });
        let lines = read.await.map_err(|_| Gone)?;
        for line in &lines {
            to.send(Ok(event(line.seq, &line.bytes))).await.map_err(|_| Gone)?;
            last = line.seq;
        }
        if lines.len() < LIMIT {
            return Ok(last);
        }
    }
}

fn event(seq: u64, line: &[u8]) -> Event {
    Event::default().id(seq.to_string()).data(String::from_utf8_lossy(line))
}
