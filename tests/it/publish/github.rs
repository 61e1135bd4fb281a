//! The real program `gh`, which talks to a server here: a Unix socket that its setting `http_unix_socket` names, and that
//! answers the few questions of GraphQL and REST it asks.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex};

use serde_json::json;

use super::*;
use crate::programs::program;

/// A pull request of the server.
#[derive(Clone, Debug)]
struct Pull {
    number: u64,
    state: &'static str,
    head: String,
    base: String,
    title: String,
    body: String,
    draft: bool,
    fork: bool,
}

/// What the server has, and what it was asked.
#[derive(Default)]
struct Hub {
    pulls: Vec<Pull>,
    asked: Vec<String>,
    /// Whether another process makes the proposal after the question.
    is_faster: bool,
    refuses: Option<&'static str>,
}

type Shared = Arc<Mutex<Hub>>;

fn url(number: u64) -> String {
    format!("https://github.com/acme/tool/pull/{number}")
}

fn pull_json(pull: &Pull) -> Value {
    json!({
        "id": format!("PR{}", pull.number), "number": pull.number, "url": url(pull.number), "state": pull.state,
        "title": pull.title, "body": pull.body, "isCrossRepository": pull.fork, "headRefName": pull.head,
        "baseRefName": pull.base, "headRepositoryOwner": { "login": "acme" },
    })
}

impl Hub {
    fn answer(&mut self, line: &str, body: &Value) -> Value {
        let query = body["query"].as_str().unwrap_or_default();
        let text =
            |pointer: &str| body.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        if let Some(message) = self.refuses {
            return json!({ "data": null, "errors": [{ "type": "FORBIDDEN", "message": message }] });
        }
        if line.starts_with("PATCH /repos/acme/tool/pulls/") {
            self.asked.push("update".to_owned());
            let number = line.split(['/', ' ']).filter_map(|part| part.parse().ok()).next_back();
            let pull = self.pulls.iter_mut().find(|one| Some(one.number) == number).expect("a number");
            (pull.title, pull.body) = (text("/title"), text("/body"));
            json!({ "number": number })
        } else if query.contains("query PullRequestList(") {
            self.asked.push("list".to_owned());
            let (head, base) = (text("/variables/headBranch"), text("/variables/baseBranch"));
            let states = body["variables"]["state"].as_array().cloned().unwrap_or_default();
            let fits =
                |one: &&Pull| one.head == head && one.base == base && states.contains(&one.state.into());
            let nodes: Vec<Value> = self.pulls.iter().rev().filter(fits).map(pull_json).collect();
            if self.is_faster {
                self.is_faster = false;
                self.make(head, base, "theirs".to_owned(), "their text".to_owned(), false);
            }
            let page = json!({ "hasNextPage": false, "endCursor": "" });
            json!({ "data": { "repository": { "pullRequests": {
                "totalCount": nodes.len(), "nodes": nodes, "pageInfo": page } } } })
        } else if query.contains("query RepositoryInfo(") {
            json!({ "data": { "repository": {
                "id": "R1", "name": "tool", "owner": { "login": "acme" }, "viewerPermission": "WRITE",
                "hasIssuesEnabled": true, "hasWikiEnabled": true, "description": "",
                "defaultBranchRef": { "name": "main" }, "parent": null } } })
        } else if query.contains("query PullRequestForBranch(") {
            let head = text("/variables/headRefName");
            let open = self.pulls.iter().filter(|one| one.head == head && one.state == "OPEN" && !one.fork);
            let nodes: Vec<Value> = open.map(pull_json).collect();
            let repository =
                json!({ "pullRequests": { "nodes": nodes }, "defaultBranchRef": { "name": "main" } });
            json!({ "data": { "repository": repository } })
        } else if query.contains("mutation PullRequestCreate(") {
            self.asked.push("create".to_owned());
            let input = |name: &str| text(&format!("/variables/input/{name}"));
            let draft = body.pointer("/variables/input/draft") == Some(&true.into());
            let made =
                self.make(input("headRefName"), input("baseRefName"), input("title"), input("body"), draft);
            json!({ "data": { "createPullRequest": { "pullRequest": { "id": "PR", "url": url(made) } } } })
        } else {
            panic!("gh asks something new: {line} {body}")
        }
    }

    fn make(&mut self, head: String, base: String, title: String, body: String, draft: bool) -> u64 {
        let number = 7 + u64::try_from(self.pulls.len()).expect("few");
        self.pulls.push(Pull { number, state: "OPEN", head, base, title, body, draft, fork: false });
        number
    }
}

fn serve(stream: &UnixStream, hub: &Shared) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut first = String::new();
        if reader.read_line(&mut first)? == 0 {
            return Ok(());
        }
        let (mut length, mut chunked, mut line) = (0, false, String::new());
        while reader.read_line(&mut line)? > 2 {
            let lower = line.to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().expect("a number");
            }
            chunked |= lower.starts_with("transfer-encoding: chunked");
            line.clear();
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        while chunked {
            line.clear();
            reader.read_line(&mut line)?;
            let size = usize::from_str_radix(line.trim(), 16).expect("a size");
            let mut chunk = vec![0; size + 2];
            reader.read_exact(&mut chunk)?;
            body.extend_from_slice(&chunk[..size]);
            chunked = size > 0;
        }
        let body = serde_json::from_slice(&body).unwrap_or_default();
        let answer = hub.lock().expect("no panic").answer(&first, &body).to_string();
        let mut stream = stream;
        write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            answer.len()
        )?;
        stream.write_all(answer.as_bytes())?;
    }
}

/// A field whose remote is a repository on GitHub, as far as `gh` can tell. `None` if there is no `gh`.
struct OnGitHub {
    field: Field,
    hub: Shared,
}

impl OnGitHub {
    fn new() -> Option<Self> {
        program("gh")?;
        let field = Field::new();
        let address = "git@github.com:acme/tool.git";
        let path = field.hub.path.to_str().expect("UTF-8").to_owned();
        field.repo.git(["remote", "set-url", "origin", address]);
        field.repo.git(["config", &format!("url.{path}.insteadOf"), address]);
        field.repo.git(["config", "aynig.forge", "gh"]);
        let socket = field.repo.beside("socket");
        let listener = UnixListener::bind(&socket).expect("a socket");
        let config = field.repo.beside("gh");
        std::fs::create_dir(&config).expect("a directory");
        std::fs::write(config.join("config.yml"), format!("http_unix_socket: {}\n", socket.display()))
            .expect("a file");
        let hub = Shared::default();
        let shared = Arc::clone(&hub);
        // It ends with the test.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let hub = Arc::clone(&shared);
                std::thread::spawn(move || serve(&stream, &hub).ok());
            }
        });
        Some(Self { field, hub })
    }

    fn publish(&self, options: &[&str]) -> Output {
        let mut command = self.field.command(options);
        command.env("GH_CONFIG_DIR", self.field.repo.beside("gh")).env("GH_TOKEN", "t0ken");
        command.env("GH_REPO", "someone/else").output().expect("aynig runs")
    }

    fn published(&self, options: &[&str]) -> Value {
        let output = self.publish(&[options, &["--json"]].concat());
        assert!(output.status.success(), "{}", told(&output));
        json_of(&output)
    }

    /// What was asked since the last time.
    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.hub.lock().expect("no panic").asked)
    }
}

fn json_of(output: &Output) -> Value {
    super::super::support::json(output)
}

/// CONTRACT 21.8
#[test]
fn a_pull_request_is_made_found_and_renewed() {
    let Some(on) = OnGitHub::new() else { return };
    let done = on.published(&["--draft"]);
    assert_eq!(done["proposal"]["url"], url(7));
    assert_eq!((&done["proposal"]["number"], &done["proposal"]["created"]), (&7.into(), &true.into()));
    assert_eq!(on.field.there(), on.field.head());
    let pull = on.hub.lock().expect("no panic").pulls[0].clone();
    assert_eq!((pull.title.as_str(), pull.base.as_str(), pull.draft), ("a label", "main", true));
    assert_eq!(
        (&pull.head, pull.body.trim()),
        (&on.field.made.branch, &*format!("aynig-run: {}", on.field.made.slug))
    );
    assert_eq!(on.asked(), ["list", "create"]);
    assert_eq!(on.published(&[])["proposal"]["created"], false);
    assert_eq!(on.asked(), ["list"]);
    on.field.work("two");
    assert_eq!(on.published(&[])["proposal"]["updated"], true);
    assert_eq!(on.asked(), ["list", "update"]);
    assert!(on.hub.lock().expect("no panic").pulls[0].body.starts_with("- Add one\n- Add two\n"));
    // Somebody gave it a title of their own.
    on.hub.lock().expect("no panic").pulls[0].title = "better; $(touch x) `y` \"z\"".to_owned();
    on.field.work("three");
    assert_eq!(on.published(&[])["proposal"]["updated"], false);
    assert_eq!(on.field.events(), ["publish.pushed", "publish.proposed", "publish.pushed", "publish.pushed"]);
    assert_eq!(on.field.context()["pr_url"], url(7));
}

/// CONTRACT 21.8
#[test]
fn a_pull_request_that_another_one_made_is_adopted() {
    let Some(on) = OnGitHub::new() else { return };
    {
        let mut hub = on.hub.lock().expect("no panic");
        hub.is_faster = true;
        // One of a fork has the same name.
        let head = on.field.made.branch.clone();
        hub.make(head, "main".to_owned(), "a fork's".to_owned(), String::new(), false);
        hub.pulls[0].fork = true;
    }
    let done = on.published(&[]);
    assert_eq!((&done["proposal"]["url"], &done["proposal"]["created"]), (&url(8).into(), &false.into()));
    let hub = on.hub.lock().expect("no panic");
    assert_eq!((hub.pulls.len(), hub.pulls[1].title.as_str()), (2, "theirs"));
}

/// CONTRACT 21.8
#[test]
fn a_pull_request_that_was_closed_is_left_alone() {
    let Some(on) = OnGitHub::new() else { return };
    on.published(&[]);
    on.field.work("two");
    let there = on.field.there();
    for (state, word) in [("CLOSED", "closed"), ("MERGED", "merged")] {
        on.hub.lock().expect("no panic").pulls[0].state = state;
        assert_refused(&on.publish(&[]), 1, &[word, &url(7), "--branch NAME"]);
        assert_eq!(on.field.there(), there);
    }
    // Another branch has a pull request of its own.
    assert_eq!(on.published(&["--branch", "again"])["proposal"]["url"], url(8));
    on.hub.lock().expect("no panic").refuses = Some("Resource not accessible");
    assert_refused(&on.publish(&["--branch", "again"]), 4, &["gh pr list", "Resource not accessible"]);
}
