//! The examples in `contrib/notify/`, run for real: with a `notify-send` that logs its arguments, and a
//! server on loopback.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::*;

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("contrib/notify").join(name)
}

/// A repository in which a branch with an odd name is about to fail.
fn failing(line: &str) -> Repo {
    let repo = repo(&[]);
    repo.git(["config", "aynig.notify", line]);
    repo.ready("feat/<b>&$(id)", "fail");
    repo
}

#[test]
fn the_desktop_is_told() {
    let bin = tempfile::tempdir().expect("a directory");
    let shown = bin.path().join("shown");
    let stand_in = bin.path().join("notify-send");
    fs::write(&stand_in, format!("#!/bin/sh\nprintf '%s\\0' \"$@\" >'{}'\n", shown.display()))
        .expect("a file");
    fs::set_permissions(&stand_in, fs::Permissions::from_mode(0o755)).expect("chmod");
    let path = format!("{}:{}", bin.path().display(), std::env::var("PATH").expect("a PATH"));
    let repo = failing(example("desktop").to_str().expect("UTF-8"));
    let output = repo.aynig_command().env("PATH", path).arg("run").output().expect("aynig runs");
    exits(&output, 1);
    assert_eq!(err(&output), "");
    let text = fs::read_to_string(&shown).expect("it was called");
    let arguments: Vec<&str> = text.trim_end_matches('\0').split('\0').collect();
    let expected = [
        "--app-name=aynig",
        "--urgency=critical",
        "--",
        "feat/<b>&$(id) is stalled",
        "`fail` exited with 7\naynig logs --branch 'feat/&lt;b&gt;&amp;$(id)'",
    ];
    assert_eq!(arguments, expected);
}

#[test]
fn without_a_desktop_there_is_a_warning() {
    let repo = failing(example("desktop").to_str().expect("UTF-8"));
    let bin = tempfile::tempdir().expect("a directory");
    for name in ["git", "sh", "tr", "sed", "head"] {
        let found = std::env::split_paths(&std::env::var_os("PATH").expect("a PATH"))
            .map(|directory| directory.join(name))
            .find(|file| file.exists())
            .expect("every system has it");
        symlink(found, bin.path().join(name)).expect("a link");
    }
    let output = repo.aynig_command().env("PATH", bin.path()).arg("run").output().expect("aynig runs");
    exits(&output, 1);
    assert!(err(&output).contains("exited with 127"), "{}", told(&output));
}

/// A server that keeps the requests and answers them with these statuses in turn.
struct Server {
    child: Child,
    port: String,
}

impl Server {
    fn start(repo: &Repo, status: &str) -> Self {
        let script = r#"
import http.server, json, os, sys
room, status = sys.argv[1], int(sys.argv[2])
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        with open(os.path.join(room, "requests"), "a") as file:
            file.write(json.dumps({"path": self.path, "headers": dict(self.headers), "body": body}) + "\n")
        self.send_response(status)
        self.send_header("Location", "/elsewhere")
        self.end_headers()
        self.wfile.write(b"said by the server\x1b[31m")
    def log_message(self, *_):
        pass
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
with open(os.path.join(room, ".port"), "w") as file:
    file.write(str(server.server_port))
os.rename(os.path.join(room, ".port"), os.path.join(room, "port"))
server.serve_forever()
"#;
        let mut command = Command::new("python3");
        let child = command
            .args(["-c", script, repo.beside("").to_str().expect("UTF-8"), status])
            .stdin(Stdio::null())
            .spawn()
            .expect("python3 is there");
        Self { child, port: repo.said("port") }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hook?key=secret", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn requests(repo: &Repo) -> Vec<Value> {
    let lines = repo.noted_lines("requests");
    lines.iter().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn a_webhook_is_told() {
    let repo = failing("");
    let server = Server::start(&repo, "200");
    let run = |options: &str| {
        let line = format!("{} {options}", example("webhook").display());
        repo.git(["config", "aynig.notify", &line]);
        repo.ready("feat/<b>&$(id)", "fail");
        let output = repo.aynig(["run"]);
        exits(&output, 1);
        assert_eq!(err(&output), "", "{line}");
        let all = requests(&repo);
        fs::remove_file(repo.beside("requests")).expect("it is there");
        assert_eq!(all.len(), 1, "{all:#?}");
        all[0].clone()
    };
    let request = run(&format!("'{}'", server.url()));
    assert_eq!(request["path"], "/hook?key=secret");
    assert_eq!(request["headers"]["Content-Type"], "application/json");
    let notice: Value = serde_json::from_str(request["body"].as_str().expect("text")).expect("JSON");
    assert_eq!([&notice["event"], &notice["branch"]], ["stalled", "feat/<b>&$(id)"]);
    assert_eq!(notice["commit"], repo.head("feat/<b>&$(id)").as_str());

    let (url, headers) = (repo.beside("url"), repo.beside("headers"));
    fs::write(&url, format!("{}\n", server.url())).expect("a file");
    fs::write(&headers, "Authorization: Bearer abc\n\nX-Other: 1\n").expect("a file");
    let request = run(&format!("@'{}' --text --header-file '{}'", url.display(), headers.display()));
    assert_eq!(request["headers"]["Authorization"], "Bearer abc");
    let sent: Value = serde_json::from_str(request["body"].as_str().expect("text")).expect("JSON");
    let words = "feat/&lt;b&gt;&amp;$(id) is stalled: `fail` exited with 7\naynig logs --branch 'feat/&lt;b&gt;&amp;$(id)'\n";
    assert!(sent["text"].as_str().is_some_and(|text| text.starts_with(words)), "{sent:#}");
}

#[test]
fn a_webhook_that_refuses_redirects_or_is_away_is_a_warning() {
    let repo = failing("");
    let log = || fs::read_to_string(repo.path.join(".aynig/logs/notify.log")).expect("a log");
    let run = |url: &str| {
        repo.git(["config", "aynig.notify", &format!("{} '{url}'", example("webhook").display())]);
        repo.ready("feat/<b>&$(id)", "fail");
        let output = repo.aynig(["run"]);
        exits(&output, 1);
        assert!(err(&output).contains("exited with 1"), "{}", told(&output));
    };
    for status in ["500", "302"] {
        let server = Server::start(&repo, status);
        run(&server.url());
        assert!(
            log().contains(&format!("127.0.0.1 answered {status}: said by the server [31m")),
            "{}",
            log()
        );
        fs::remove_file(repo.beside("port")).expect("it is there");
        drop(server);
    }
    assert_eq!(requests(&repo).len(), 2, "nothing was sent elsewhere");
    run("http://127.0.0.1:1/x?key=secret");
    assert!(log().contains("127.0.0.1 could not be reached") && !log().contains("secret"), "{}", log());
}
