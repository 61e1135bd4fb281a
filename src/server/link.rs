//! Asks a server of this repository for a link.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use super::door::Card;
use crate::fsutil;
use crate::git::Repo;
use crate::journal::directory::RunDirectory;
use crate::ops::error::Error;

/// The longest time for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The most bytes of one.
const MOST: u64 = 64 * 1024;

/// A link of the newest server that answers.
///
/// # Errors
/// None answers.
pub fn link(repo: &Repo) -> Result<String, Error> {
    let directory = RunDirectory::data(repo).join("serve");
    let mut cards: Vec<(std::time::SystemTime, Card)> = std::fs::read_dir(&directory)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.path().extension().is_some_and(|kind| kind == "json"))
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, card(&entry.path())?)))
        .collect();
    cards.sort_by_key(|(made, _)| std::cmp::Reverse(*made));
    cards.iter().find_map(|(_, card)| asked(card)).ok_or_else(|| {
        Error::failed("no server of this repository answers")
            .hint("`aynig serve` starts one, and prints its link")
    })
}

fn card(path: &Path) -> Option<Card> {
    serde_json::from_slice(&fsutil::read_plain(path).ok()?).ok()
}

/// The link that a server gives. `None`: it does not answer.
fn asked(card: &Card) -> Option<String> {
    #[derive(Deserialize)]
    struct Given {
        url: String,
    }
    let host = card.url.strip_prefix("http://")?;
    // A server at all addresses of this host is reached here.
    let place = host.replace("0.0.0.0:", "127.0.0.1:").replace("[::]:", "[::1]:");
    let mut stream = TcpStream::connect_timeout(&place.parse().ok()?, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.set_write_timeout(Some(PATIENCE)).ok()?;
    let token = &card.token;
    let request = format!(
        "POST /api/session/link HTTP/1.1\r\nHost: {place}\r\nAuthorization: Bearer {token}\r\n\
         Content-Length: 0\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.take(MOST).read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let given = head.starts_with("HTTP/1.1 200 ").then(|| serde_json::from_str::<Given>(body).ok());
    given.flatten().map(|given| given.url)
}
