//! Who may: the token of scripts, one-time links, and the sessions of browsers.
//!
//! Invariants: secrets are compared in constant time, and kept in files that their owner alone may read. A one-time token
//! dies at its first use or after a minute. A session has two secrets: its cookie, and its key, which the page keeps. A
//! browser sends a cookie to all ports of a host, and shows what a page keeps to that one port's pages alone. A session
//! lives twelve hours after its last use, also across a restart of the server at the same address.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;
use uuid::Uuid;

use crate::clock;
use crate::fsutil;
use crate::git::objects::digest::sha256;

/// How long a one-time token can be used.
const ONCE: Duration = Duration::from_secs(60);

/// How long a session lives after its last use, in seconds.
pub(super) const SESSION: i64 = 12 * 60 * 60;

/// A use is noted this long after the one before, in seconds.
const NOTED: i64 = 10 * 60;

/// The most sessions. The oldest one goes first.
const MOST: usize = 64;

/// The file that scripts read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// The address of the server.
    pub url: String,
    /// For `Authorization: Bearer`.
    pub token: String,
    /// Its process.
    pub pid: u32,
}

/// The secrets of a server.
#[derive(Debug)]
pub(super) struct Door {
    /// The name of the cookie.
    pub(super) cookie: String,
    token: String,
    once: Mutex<Vec<(String, Instant)>>,
    /// The digests of sessions, with the time of their last use.
    sessions: Mutex<BTreeMap<String, i64>>,
    /// The file that keeps them.
    kept: PathBuf,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The secrets of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Session {
    /// The value of its cookie.
    pub(super) cookie: String,
    /// The secret in the storage of its page, sent with each request.
    pub(super) key: String,
}

impl Session {
    fn digest(&self) -> String {
        sha256(format!("{}.{}", self.cookie, self.key).as_bytes())
    }
}

/// 244 random bits.
fn secret() -> String {
    format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
}

fn is_same(a: &str, b: &str) -> bool {
    a.as_bytes().ct_eq(b.as_bytes()).into()
}

impl Door {
    /// The door of the server `instance`, whose files are in `directory`.
    pub(super) fn of(directory: &Path, instance: &str) -> Self {
        let kept = directory.join(format!("{instance}.sessions"));
        let text = fsutil::read_plain(&kept).unwrap_or_default();
        let sessions = serde_json::from_slice(&text).unwrap_or_default();
        Self {
            cookie: format!("aynig-{instance}"),
            token: secret(),
            once: Mutex::default(),
            sessions: Mutex::new(sessions),
            kept,
        }
    }

    /// The token of scripts.
    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// Whether a script has the token.
    pub(super) fn is_token(&self, given: &str) -> bool {
        is_same(given, &self.token)
    }

    /// A new one-time token.
    pub(super) fn link(&self) -> String {
        let token = secret();
        let mut once = lock(&self.once);
        once.retain(|(_, since)| since.elapsed() < ONCE);
        once.push((token.clone(), clock::monotonic()));
        token
    }

    /// Takes a one-time token, and begins a session. `None`: it is none, or not any more.
    pub(super) fn enter(&self, given: &str) -> Option<Session> {
        let mut once = lock(&self.once);
        once.retain(|(_, since)| since.elapsed() < ONCE);
        let at = once.iter().position(|(token, _)| is_same(given, token))?;
        once.remove(at);
        drop(once);
        let session = Session { cookie: secret(), key: secret() };
        let mut sessions = lock(&self.sessions);
        while sessions.len() >= MOST {
            let Some(oldest) = sessions.iter().min_by_key(|(_, used)| **used).map(|(id, _)| id.clone())
            else {
                break;
            };
            sessions.remove(&oldest);
        }
        sessions.insert(session.digest(), clock::wall_seconds());
        self.keep(&sessions);
        Some(session)
    }

    /// Whether a session lives. It is renewed by that.
    pub(super) fn is_session(&self, given: &Session) -> bool {
        let (digest, now) = (given.digest(), clock::wall_seconds());
        let mut sessions = lock(&self.sessions);
        let Some(used) = sessions.get(&digest).copied().filter(|used| now - used < SESSION) else {
            return false;
        };
        if now - used > NOTED {
            sessions.retain(|_, used| now - *used < SESSION);
            sessions.insert(digest, now);
            self.keep(&sessions);
        }
        true
    }

    /// Ends a session.
    pub(super) fn leave(&self, given: &Session) {
        let mut sessions = lock(&self.sessions);
        if sessions.remove(&given.digest()).is_some() {
            self.keep(&sessions);
        }
    }

    fn keep(&self, sessions: &BTreeMap<String, i64>) {
        let text = serde_json::to_vec(sessions).unwrap_or_default();
        if let Err(error) = fsutil::replace_private(&self.kept, &text) {
            tracing::warn!(%error, "sessions are not kept over a restart");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_used_once_and_a_session_outlives_the_server() {
        let directory = tempfile::tempdir().expect("a directory");
        let door = Door::of(directory.path(), "a");
        let link = door.link();
        assert!(door.enter("x").is_none() && door.enter("").is_none());
        let session = door.enter(&link).expect("a session");
        assert!(door.enter(&link).is_none(), "it was used");
        let Session { cookie, key } = session.clone();
        assert!(door.is_session(&session));
        for (cookie, key) in
            [(&cookie, &cookie), (&key, &key), (&key, &cookie), (&cookie, &link), (&link, &key)]
        {
            assert!(
                !door.is_session(&Session { cookie: cookie.clone(), key: key.clone() }),
                "{cookie} {key}"
            );
        }
        let without = Session { cookie: format!("{cookie}.{key}"), key: String::new() };
        assert!(!door.is_session(&without));
        assert!(
            !door.is_token("")
                && !door.is_token(&cookie)
                && !door.is_token(&key)
                && door.is_token(door.token())
        );
        let again = Door::of(directory.path(), "a");
        assert!(again.is_session(&session));
        assert_ne!(again.token(), door.token());
        let kept = std::fs::read_to_string(directory.path().join("a.sessions")).expect("a file");
        assert!(!kept.contains(&cookie) && !kept.contains(&key), "only their digest is kept");
        again.leave(&session);
        assert!(!again.is_session(&session));
        assert!(!Door::of(directory.path(), "a").is_session(&session));
    }
}
