//! Connections: how many, how long they may be silent, and what ends them.
//!
//! Invariant: a client that sends slowly, or much in its headers, or does not read, holds one connection for a bounded
//! time.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::sync::{Semaphore, watch};
use tokio_io_timeout::TimeoutStream;

use super::guard::Peer;
use super::{Shared, api, requested};
use crate::ops::error::Error;
use crate::ops::feed;

/// The most connections at once.
const CONNECTIONS: usize = 512;

/// The files that the server may open, and so about the runs whose events it hands on at once.
const FILES: u64 = 65_536;

/// The longest time for the headers of a request, and between two requests.
const HEADERS: Duration = Duration::from_secs(20);

/// The longest time in which a client takes nothing of an answer. One of a stream is closed with a reason before.
const TAKEN: Duration = Duration::from_secs(60);

/// The most headers, and the longest block of them.
const MOST_HEADERS: usize = 64;
const MOST_BYTES: usize = 64 * 1024;

/// The longest time for requests that are under way when the server stops.
const GRACE: Duration = Duration::from_secs(2);

/// The threads that wait for operations. Half of them stay for reads: a write may ask a remote that does not answer.
const OPERATIONS: usize = 16;
pub(super) const WRITES: usize = OPERATIONS / 2;

/// Answers requests until the stop is requested.
pub(super) fn serve(shared: &Arc<Shared>, listener: TcpListener) -> Result<(), Error> {
    let because = |error: std::io::Error| Error::because("begin to serve", &error);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(OPERATIONS + 1)
        .thread_name("serve")
        .enable_all()
        .build()
        .map_err(because)?;
    let (stopping, stopped) = watch::channel(false);
    let _stopping = shared.options.stop.subscribe(move |_| {
        stopping.send_replace(true);
    });
    allow_files(FILES);
    let following = Arc::clone(shared);
    let feed = std::thread::Builder::new().name("feed".to_owned()).spawn(move || {
        let Shared { app, options, news, .. } = &*following;
        let followed = feed::follow(&app.repo(), options.remote.as_ref(), &options.stop, |one| {
            // Without a client nobody hears it.
            news.send(one).ok();
        });
        if let Err(error) = followed {
            (options.tell)(&error.message);
        }
    });
    let feed = feed.map_err(because)?;
    runtime.block_on(accept(shared, listener, stopped)).map_err(because)?;
    runtime.shutdown_timeout(GRACE);
    feed.join().ok();
    Ok(())
}

/// Lets this process open up to `most` files, if the host allows that: it has a file of each run open. The limit of most
/// shells, 1,024, is one of old programs.
fn allow_files(most: u64) {
    let raised = getrlimit(Resource::RLIMIT_NOFILE).and_then(|(soft, hard)| {
        let wanted = most.min(hard).max(soft);
        setrlimit(Resource::RLIMIT_NOFILE, wanted, hard)
    });
    if let Err(error) = raised {
        tracing::debug!(%error, "the limit of open files stays");
    }
}

async fn accept(
    shared: &Arc<Shared>,
    listener: TcpListener,
    mut stopped: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let router = api::router(shared, &stopped);
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let accepted = async {
            let place = Arc::clone(&room).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            accepted = accepted => accepted,
            () = requested(&mut stopped) => break,
        };
        let (stream, peer) = match accepted {
            Ok(taken) => taken,
            Err(error) => {
                // Too many open files, for example. Others end meanwhile.
                tracing::warn!(%error, "a connection was not taken");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (Ok(own), Ok(place)) = (stream.local_addr(), place) else { continue };
        let ends = Peer { peer, own, _place: Arc::new(place) };
        let mut stream = Box::pin(TimeoutStream::new(stream));
        stream.as_mut().set_write_timeout_pinned(Some(TAKEN));
        let service = TowerToHyperService::new(router.clone().layer(Extension(ends)));
        let mut until = stopped.clone();
        tokio::spawn(async move {
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADERS)
                .max_headers(MOST_HEADERS)
                .max_buf_size(MOST_BYTES)
                .serve_connection(TokioIo::new(stream), service)
                .with_upgrades();
            let mut connection = std::pin::pin!(connection);
            let ended = tokio::select! {
                ended = connection.as_mut() => ended,
                () = requested(&mut until) => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection ended");
            }
        });
    }
    let all = u32::try_from(CONNECTIONS).unwrap_or(u32::MAX);
    drop(tokio::time::timeout(GRACE, room.acquire_many(all)).await);
    Ok(())
}
