//! `aynig serve`: REST, a WebSocket and the page over the operations of the command line. The only async code.
//!
//! Invariant: a server decides nothing and keeps nothing that runs need. It may be killed at any time, and several may run.
//!
//! | file | contains |
//! |---|---|
//! | [`api`] | the endpoints |
//! | `body` | bodies and queries of requests |
//! | `desk` | operations on threads that may wait |
//! | `door` | tokens and sessions |
//! | `failure` | errors as answers |
//! | `guard` | the checks of every request |
//! | `link` | asks a running server for a link |
//! | `pages` | the page, as files in the program |
//! | `serving` | connections |
//! | `stream` | events as they happen: WebSocket and SSE |

mod api;
mod body;
mod desk;
mod door;
mod failure;
mod guard;
mod link;
mod pages;
mod serving;
mod stream;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, broadcast, watch};

use crate::contract::ids::RemoteName;
use crate::fsutil;
use crate::git::objects::digest::short_sha256;
use crate::journal::directory::RunDirectory;
use crate::ops::app::App;
use crate::ops::error::Error;
use crate::ops::feed::News;
use crate::ops::inside::persons_only;
use crate::ops::runs::known::Known;
use crate::stop::Stop;

pub use api::document;
pub use door::Card;
pub use link::link;

/// The events that a client may be behind.
const BEHIND: usize = 4_096;

/// How to serve.
#[derive(Debug)]
pub struct Options {
    /// The address. Port 0 takes a free one.
    pub listen: SocketAddr,
    /// Whether another address than a loopback one is meant.
    pub allow_remote: bool,
    /// The remote that decides runs here.
    pub remote: Option<RemoteName>,
    /// The argument that makes this program a watchdog.
    pub watchdog: &'static str,
    /// Ends the server.
    pub stop: Stop,
    /// Takes warnings.
    pub tell: fn(&str),
}

/// What requests share.
struct Shared {
    app: App,
    options: Options,
    address: SocketAddr,
    door: door::Door,
    news: broadcast::Sender<News>,
    /// The runs as they were read last.
    known: Mutex<Known>,
    /// The place of each write that is under way.
    writes: Semaphore,
}

impl Shared {
    fn known(&self) -> MutexGuard<'_, Known> {
        // A panic leaves it valid: it has copies of commits, which never change.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_remote(&self) -> bool {
        !self.address.ip().is_loopback()
    }
}

/// Waits until the server is to stop.
async fn requested(stopped: &mut watch::Receiver<bool>) {
    // Without a sender the server has stopped.
    drop(stopped.wait_for(|stopped| *stopped).await);
}

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    listener: std::net::TcpListener,
    card: Card,
    file: PathBuf,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Shared").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Listens. Connections are answered by [`Server::run`].
///
/// # Errors
/// The address is no loopback one, or cannot be had; or the caller is a step of a run.
pub fn open(app: App, options: Options) -> Result<Server, Error> {
    persons_only("serving")?;
    let listen = options.listen;
    if !listen.ip().is_loopback() && !options.allow_remote {
        let message = format!("{listen} can be reached from other machines; nothing was served");
        return Err(Error::usage(message).hint(
            "with --allow-remote everybody who has a link or the token can answer and run agents here, and the connection is \
             not encrypted; `ssh -L 4173:127.0.0.1:4173 HOST` reaches a server at 127.0.0.1 without that",
        ));
    }
    let wrong = |error: std::io::Error| {
        let is_taken = error.kind() == std::io::ErrorKind::AddrInUse;
        let error = Error::setup(format!("could not listen at {listen}: {error}"));
        if !is_taken {
            return error;
        }
        error
            .hint("`aynig serve --url` prints a link if this repository is served there already")
            .hint("`--listen 127.0.0.1:0` takes a free port")
    };
    let listener = std::net::TcpListener::bind(listen).map_err(wrong)?;
    let address = listener.local_addr().map_err(wrong)?;
    listener.set_nonblocking(true).map_err(wrong)?;
    let repo = app.repo();
    let directory = RunDirectory::data(&repo).join("serve");
    let because = |error: std::io::Error| Error::because("write the files of the server", &error);
    fsutil::create_private_dir_all(&directory).map_err(because)?;
    let place = format!("{} {address}", repo.common_dir().display());
    let instance: String = short_sha256(place.as_bytes()).chars().take(8).collect();
    let door = door::Door::of(&directory, &instance);
    let card =
        Card { url: format!("http://{address}"), token: door.token().to_owned(), pid: std::process::id() };
    let file = directory.join(format!("{instance}.json"));
    let text =
        serde_json::to_vec(&card).map_err(|error| Error::because("write the files of the server", &error))?;
    fsutil::replace_private(&file, &text).map_err(because)?;
    fsutil::replace_private(&newest(&directory), &text).map_err(because)?;
    let (news, _) = broadcast::channel(BEHIND);
    let writes = Semaphore::new(serving::WRITES);
    let shared = Arc::new(Shared { app, options, address, door, news, known: Mutex::default(), writes });
    Ok(Server { shared, listener, card, file })
}

fn newest(directory: &std::path::Path) -> PathBuf {
    directory.with_file_name("serve.json")
}

impl Server {
    /// The address of the page, with a one-time token that begins a session.
    #[must_use]
    pub fn link(&self) -> String {
        format!("{}/#t={}", self.card.url, self.shared.door.link())
    }

    /// A file for a browser that leads to the page, with a one-time token. Its owner alone may read it. It goes when the
    /// server stops.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn doorway(&self) -> Result<PathBuf, Error> {
        let file = self.file.with_extension("html");
        let link = self.link();
        let page = format!(
            "<!doctype html><meta charset=\"utf-8\"><title>aynig</title>\
             <meta http-equiv=\"refresh\" content=\"0; url={link}\"><a href=\"{link}\">aynig</a>\n"
        );
        let written = fsutil::replace_private(&file, page.as_bytes());
        written.map(|()| file).map_err(|error| Error::because("write the file for the browser", &error))
    }

    /// Answers requests until the stop is requested.
    ///
    /// # Errors
    /// The threads for it cannot be started.
    pub fn run(self) -> Result<(), Error> {
        let served = serving::serve(&self.shared, self.listener);
        std::fs::remove_file(self.file.with_extension("html")).ok();
        let newest = newest(self.file.parent().unwrap_or(&self.file));
        let is_own = |text: Vec<u8>| serde_json::from_slice(&text).is_ok_and(|card: Card| card == self.card);
        for file in [&self.file, &newest] {
            if fsutil::read_plain(file).is_ok_and(is_own) {
                std::fs::remove_file(file).ok();
            }
        }
        served
    }
}
