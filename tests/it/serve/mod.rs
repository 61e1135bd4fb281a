//! `aynig serve`, over real sockets.

mod branches;
mod document;
mod endpoints;
mod guarded;
mod streams;
mod work;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::flow_engine::place_worktrees;
use super::graphs::{Graph, agent};
use super::support::*;

/// A server of a repository. It is stopped when it is dropped.
pub(super) struct Server {
    child: Child,
    /// `127.0.0.1:PORT`.
    pub(super) host: String,
    pub(super) token: String,
    /// The one-time token that it printed.
    pub(super) link: String,
    data: PathBuf,
}

/// What a server answered.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: Vec<u8>,
}

impl Answered {
    /// The body.
    pub(super) fn json(&self) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {} {text}", self.head))
    }

    /// The body of a request that was fulfilled.
    pub(super) fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{} {}", self.head, String::from_utf8_lossy(&self.body));
        self.json()
    }

    /// The status and the code of an error.
    pub(super) fn refused(&self) -> (u16, String) {
        let body = self.json();
        assert!(body["error"].as_str().is_some_and(|text| !text.is_empty()), "{body}");
        (self.status, body["code"].as_str().expect("a code").to_owned())
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

impl Server {
    /// Starts a server at a free port.
    pub(super) fn of(repo: &Repo) -> Self {
        Self::at(repo, "127.0.0.1:0")
    }

    pub(super) fn at(repo: &Repo, listen: &str) -> Self {
        Self::with_options(repo, &["--listen", listen])
    }

    pub(super) fn with_options(repo: &Repo, options: &[&str]) -> Self {
        Self::with_env(repo, options, &[])
    }

    pub(super) fn with_env(repo: &Repo, options: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = repo.aynig_command();
        command.arg("serve").args(options).envs(variables.iter().copied());
        Self::started(repo, command)
    }

    /// Starts a server by a command.
    pub(super) fn started(repo: &Repo, mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::null()).spawn().expect("it starts");
        let mut line = String::new();
        let out = child.stdout.take().expect("piped");
        BufReader::new(out).read_line(&mut line).expect("a line");
        let (url, link) = line.trim().split_once("/#t=").unwrap_or_else(|| panic!("a link: {line:?}"));
        let data = repo.path.join(".git/aynig/data");
        let card = std::fs::read(data.join("serve.json")).expect("a file");
        let card: Value = serde_json::from_slice(&card).expect("JSON");
        let host = url.strip_prefix("http://").expect("an address").to_owned();
        let token = card["token"].as_str().expect("a token").to_owned();
        Self { child, host, token, link: link.to_owned(), data }
    }

    /// Sends bytes as they are, and reads until the server closes.
    pub(super) fn raw(&self, bytes: &[u8]) -> Answered {
        let mut stream = TcpStream::connect(&self.host).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        // A server that refuses need not read to the end.
        drop(stream.write_all(bytes));
        let mut all = Vec::new();
        drop(stream.read_to_end(&mut all));
        let end = all.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(all.len());
        let head = String::from_utf8_lossy(&all[..end]).into_owned();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Answered { status, head, body: all.get(end + 4..).unwrap_or_default().to_vec() }
    }

    /// A request with these headers besides host and length.
    pub(super) fn with(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Answered {
        let mut all = vec![format!("{method} {path} HTTP/1.1"), "Connection: close".to_owned()];
        if !headers.iter().any(|header| header.starts_with("Host:")) {
            all.push(format!("Host: {}", self.host));
        }
        all.extend(headers.iter().map(|header| (*header).to_owned()));
        if !body.is_empty() {
            all.push(format!("Content-Length: {}", body.len()));
        }
        self.raw(format!("{}\r\n\r\n{body}", all.join("\r\n")).as_bytes())
    }

    /// A request of a script, which has the token. Clients of the contract call every body JSON, also one that is not there.
    pub(super) fn ask(&self, method: &str, path: &str, body: &str) -> Answered {
        let bearer = format!("Authorization: Bearer {}", self.token);
        let answer = self.with(method, path, &[&bearer, "Content-Type: application/json"], body);
        document::assert_described(method, path, body, &answer);
        answer
    }

    pub(super) fn get(&self, path: &str) -> Answered {
        self.ask("GET", path, "")
    }

    pub(super) fn post(&self, path: &str, body: &str) -> Answered {
        self.ask("POST", path, body)
    }

    pub(super) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).expect("a pid")), signal).expect("it runs");
    }

    /// Kills it, and waits until it is gone.
    pub(super) fn kill(mut self) {
        self.signal(Signal::SIGKILL);
        self.child.wait().expect("it is ours");
    }

    /// Stops it, and returns its exit code.
    pub(super) fn stop(mut self) -> Option<i32> {
        self.signal(Signal::SIGTERM);
        self.child.wait().expect("it is ours").code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
