//! Events as they happen: `/ws`, and `/api/runs/{id}/events/stream` for programs that read lines.
//!
//! Invariants: after a position a client gets every event after it, once, in order: it hears of new ones before the
//! journal is read, and doubles are dropped by their number. A client is never waited for: one that is too far behind is
//! closed, and comes again with its last number.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::SinkExt;
use globset::{Glob, GlobSet, GlobSetBuilder};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::watch;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, interval_at, timeout};

use super::body::Query;
use super::desk::at_desk;
use super::failure::Failure;
use super::guard::{Peer, protocol};
use super::{Shared, requested};
use crate::model::ids::RunId;
use crate::model::run::CONTRACT_VERSION;
use crate::ops::feed::{News, kind_of};
use crate::ops::runs;

/// The time between two pings.
const PING: Duration = Duration::from_secs(20);

/// The longest time for one frame.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long deltas of one message are collected.
const BURST: Duration = Duration::from_millis(20);

/// The most events that leave together, besides the first.
const TOGETHER: usize = 255;

/// Events of a journal that are read at once.
const READ: usize = 500;

/// Close codes: too far behind, and a position of another journal.
const SLOW: u16 = 4008;
const GAP: u16 = 4009;

/// What a client asks for.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    #[serde(rename = "runId")]
    run: Option<String>,
    after: Option<u64>,
    journal: Option<String>,
    types: Option<String>,
}

/// Where a client begins.
struct Start {
    run: Option<RunId>,
    hello: Value,
    journal: String,
    /// The number that it has.
    after: u64,
    types: Option<GlobSet>,
    /// Whether its position is one of another journal.
    is_gap: bool,
}

/// `GET /ws`.
pub(super) async fn websocket(
    State((shared, stopped)): State<(Arc<Shared>, watch::Receiver<bool>)>,
    Extension(ends): Extension<Peer>,
    Query(wanted): Query<Wanted>,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, axum::extract::ws::rejection::WebSocketUpgradeRejection>,
) -> Result<Response, Failure> {
    let upgrade = upgrade.map_err(|error| {
        Failure::new(StatusCode::BAD_REQUEST, "no_websocket", error.body_text())
            .hint("`GET /api/runs/ID/events/stream` is for programs without WebSocket")
    })?;
    // What comes from now on is heard, so that nothing is missed while the journal is read.
    let news = shared.news.subscribe();
    let start = at_desk(Arc::clone(&shared), None, move |desk| start(desk.repo, wanted)).await?;
    Ok(upgrade
        .max_message_size(4096)
        // A browser closes a connection whose server does not name it.
        .protocols(protocol(&headers).map(str::to_owned))
        .on_upgrade(move |socket| async move {
            let mut client = Client { socket, start, shared, stopped };
            client.serve(news).await;
            // A server that stops waits for it.
            drop(ends);
        })
        .into_response())
}

fn start(repo: &crate::git::Repo, wanted: Wanted) -> Result<Start, Failure> {
    let malformed =
        |field: &str, text: String| Failure::new(StatusCode::BAD_REQUEST, "malformed", text).field(field);
    let types = wanted.types.as_deref().map(globs).transpose().map_err(|text| malformed("types", text))?;
    let base = json!({ "type": "stream.hello", "contractVersion": CONTRACT_VERSION });
    let Some(named) = &wanted.run else {
        if wanted.after.is_some() {
            let text = "a position is one of a run's journal: with `after` name the run".to_owned();
            return Err(malformed("after", text));
        }
        let mut last = serde_json::Map::new();
        for listed in runs::list(repo)?.into_iter().filter(|listed| listed.run.is_ok()) {
            if let Ok(at) = runs::position(repo, listed.id) {
                last.insert(listed.id.to_string(), at.last_seq.into());
            }
        }
        let mut hello = base;
        hello["runs"] = last.into();
        let journal = String::new();
        return Ok(Start { run: None, hello, journal, after: 0, types, is_gap: false });
    };
    let run = runs::find(repo, named)?;
    let at = runs::position(repo, run)?;
    let is_gap = wanted.journal.as_ref().is_some_and(|journal| *journal != at.journal)
        || wanted.after.is_some_and(|after| after > at.last_seq);
    let mut hello = base;
    hello["runId"] = run.to_string().into();
    hello["seq"] = at.last_seq.into();
    hello["oldest"] = u64::from(at.last_seq > 0).into();
    hello["journal"] = at.journal.as_str().into();
    let after = wanted.after.unwrap_or(at.last_seq);
    Ok(Start { run: Some(run), hello, journal: at.journal, after, types, is_gap })
}

fn globs(text: &str) -> Result<GlobSet, String> {
    let mut set = GlobSetBuilder::new();
    for one in text.split(',').filter(|one| !one.is_empty()) {
        set.add(Glob::new(one).map_err(|error| error.to_string())?);
    }
    set.build().map_err(|error| error.to_string())
}

/// Why a client's stream ends.
enum End {
    /// It went away.
    Gone,
    /// It is closed with this code.
    Closed(u16, &'static str),
}

const FAR_BEHIND: End = End::Closed(SLOW, "too far behind");

/// What a client's stream goes on with.
enum Next {
    Heard(Result<News, RecvError>),
    Flush,
    Ping,
    Stop,
}

struct Client {
    socket: WebSocket,
    start: Start,
    shared: Arc<Shared>,
    stopped: watch::Receiver<bool>,
}

impl Client {
    async fn serve(&mut self, news: Receiver<News>) {
        let ended = match self.begin().await {
            Ok(()) => self.go_on(news).await,
            Err(end) => end,
        };
        if let End::Closed(code, reason) = ended {
            let frame = CloseFrame { code, reason: reason.into() };
            drop(timeout(PATIENCE, self.socket.send(Message::Close(Some(frame)))).await);
        }
    }

    /// The hello, and what the journal has after the client's position.
    async fn begin(&mut self) -> Result<(), End> {
        let hello = self.start.hello.to_string();
        self.send(hello).await?;
        self.flush().await?;
        if self.start.is_gap {
            self.send(json!({ "type": "stream.gap", "journal": self.start.journal }).to_string()).await?;
            return Err(End::Closed(GAP, "another journal"));
        }
        let Some(run) = self.start.run else { return Ok(()) };
        loop {
            let after = self.start.after;
            // In parts, so that a slow client keeps no thread waiting.
            let read = at_desk(Arc::clone(&self.shared), None, move |desk| {
                Ok(runs::lines_after(desk.repo, run, after, READ)?)
            });
            let Ok(lines) = read.await else { return Err(End::Closed(GAP, "the journal cannot be read")) };
            for line in &lines {
                self.start.after = line.seq;
                if self.is_wanted(&kind_of(&line.bytes)) {
                    self.put(&line.bytes).await?;
                }
            }
            self.flush().await?;
            if lines.len() < READ {
                return Ok(());
            }
        }
    }

    async fn go_on(&mut self, mut news: Receiver<News>) -> End {
        let mut ping = interval_at(Instant::now() + PING, PING);
        let mut burst: Option<Burst> = None;
        loop {
            let due = burst.as_ref().map(|burst| burst.until);
            let flushed = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            let next = tokio::select! {
                () = requested(&mut self.stopped) => Next::Stop,
                heard = news.recv() => Next::Heard(heard),
                () = flushed => Next::Flush,
                _ = ping.tick() => Next::Ping,
                received = self.socket.recv() => match received {
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return End::Gone,
                    // What a client sends is ignored.
                    Some(Ok(_)) => continue,
                },
            };
            let taken = match next {
                Next::Heard(Ok(one)) => self.take_all(one, &mut news, &mut burst).await,
                Next::Heard(Err(RecvError::Lagged(_))) => Err(FAR_BEHIND),
                Next::Flush => self.let_go(&mut burst).await,
                Next::Ping => self.frame(Message::Ping(Vec::new().into())).await,
                Next::Stop | Next::Heard(Err(RecvError::Closed)) => {
                    Err(End::Closed(1001, "the server stops"))
                }
            };
            let sent = match taken {
                Ok(()) => self.flush().await,
                end => end,
            };
            if let Err(end) = sent {
                return end;
            }
        }
    }

    /// Takes one piece of news, and what else is there: frames that leave together cost one call of the system.
    async fn take_all(
        &mut self,
        first: News,
        news: &mut Receiver<News>,
        burst: &mut Option<Burst>,
    ) -> Result<(), End> {
        self.take(first, burst).await?;
        for _ in 0..TOGETHER {
            match news.try_recv() {
                Ok(one) => self.take(one, burst).await?,
                // It is said once.
                Err(TryRecvError::Lagged(_)) => return Err(FAR_BEHIND),
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        Ok(())
    }

    /// Takes one piece of news.
    async fn take(&mut self, news: News, burst: &mut Option<Burst>) -> Result<(), End> {
        let wanted = self.start.run;
        match news {
            News::Replaced { run } if wanted == Some(run) => {
                self.let_go(burst).await?;
                self.send(json!({ "type": "stream.gap" }).to_string()).await?;
                Err(End::Closed(GAP, "another journal"))
            }
            News::Event { run, .. } if wanted.is_some_and(|wanted| wanted != run) => Ok(()),
            News::Event { journal, .. } if wanted.is_some() && *journal != *self.start.journal => Ok(()),
            News::Event { seq, .. } if wanted.is_some() && seq <= self.start.after => Ok(()),
            News::Replaced { .. } if wanted.is_some() => Ok(()),
            // The events of that journal come anew, with other numbers.
            News::Replaced { run } => {
                self.let_go(burst).await?;
                self.send(json!({ "type": "stream.gap", "runId": run }).to_string()).await
            }
            News::Event { run, seq, kind, line, .. } => {
                if wanted.is_some() {
                    self.start.after = seq;
                }
                if burst.as_mut().is_some_and(|burst| burst.joins(run, &kind, &line)) {
                    return Ok(());
                }
                self.let_go(burst).await?;
                if !self.is_wanted(&kind) {
                    return Ok(());
                }
                *burst = Burst::begins(run, &kind, &line);
                if burst.is_some() { Ok(()) } else { self.put(&line).await }
            }
        }
    }

    /// Sends the deltas that were collected.
    async fn let_go(&mut self, burst: &mut Option<Burst>) -> Result<(), End> {
        match burst.take() {
            Some(burst) => self.send(burst.event.to_string()).await,
            None => Ok(()),
        }
    }

    fn is_wanted(&self, kind: &str) -> bool {
        self.start.types.as_ref().is_none_or(|types| types.is_match(kind))
    }

    async fn put(&mut self, line: &[u8]) -> Result<(), End> {
        self.send(String::from_utf8_lossy(line).into_owned()).await
    }

    async fn send(&mut self, text: String) -> Result<(), End> {
        self.frame(Message::Text(text.into())).await
    }

    /// Adds a frame to those that leave with the next flush.
    async fn frame(&mut self, message: Message) -> Result<(), End> {
        sent(timeout(PATIENCE, self.socket.feed(message)).await)
    }

    async fn flush(&mut self) -> Result<(), End> {
        sent(timeout(PATIENCE, SinkExt::flush(&mut self.socket)).await)
    }
}

fn sent<E>(result: Result<Result<(), E>, Elapsed>) -> Result<(), End> {
    match result {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(End::Gone),
        Err(_) => Err(End::Closed(SLOW, "too slow")),
    }
}

/// Deltas of one message, which are sent as one.
struct Burst {
    run: RunId,
    event: Value,
    until: Instant,
}

impl Burst {
    fn begins(run: RunId, kind: &str, line: &[u8]) -> Option<Self> {
        if !kind.ends_with(".delta") {
            return None;
        }
        let event: Value = serde_json::from_slice(line).ok()?;
        event.get("delta")?.as_str()?;
        Some(Self { run, event, until: Instant::now() + BURST })
    }

    /// Takes one more, if it belongs to the same message.
    fn joins(&mut self, run: RunId, kind: &str, line: &[u8]) -> bool {
        if self.run != run || self.event["type"] != kind {
            return false;
        }
        let Ok(mut next) = serde_json::from_slice::<Value>(line) else { return false };
        if next["nodeId"] != self.event["nodeId"] {
            return false;
        }
        let (Some(before), Some(more)) = (self.event["delta"].as_str(), next["delta"].as_str()) else {
            return false;
        };
        next["delta"] = format!("{before}{more}").into();
        self.event = next;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delta(seq: u64, node: &str, kind: &str, text: &str) -> Vec<u8> {
        json!({ "seq": seq, "type": kind, "nodeId": node, "delta": text }).to_string().into_bytes()
    }

    #[test]
    fn deltas_of_one_message_are_joined_and_others_are_not() {
        let run = RunId::from(uuid::Uuid::from_u128(1));
        let kind = "message.assistant.delta";
        let mut burst = Burst::begins(run, kind, &delta(1, "a", kind, "x")).expect("a delta");
        assert!(burst.joins(run, kind, &delta(2, "a", kind, "y")));
        assert!(!burst.joins(run, kind, &delta(3, "b", kind, "z")), "another node");
        let thinking = "message.assistant.thinking.delta";
        assert!(!burst.joins(run, thinking, &delta(3, "a", thinking, "z")), "another kind");
        let other = RunId::from(uuid::Uuid::from_u128(2));
        assert!(!burst.joins(other, kind, &delta(3, "a", kind, "z")), "another run");
        assert_eq!((burst.event["seq"].as_u64(), &burst.event["delta"]), (Some(2), &json!("xy")));
        assert!(Burst::begins(run, "node.log", &delta(1, "a", "node.log", "x")).is_none());
    }
}
