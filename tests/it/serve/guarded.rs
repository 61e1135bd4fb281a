//! Who may, and what a page of another origin, a slow client or an agent is refused.

use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use super::super::graphs::approvals::{gated, requests};
use super::*;

const JSON: &str = "Content-Type: application/json";

/// CONTRACT 23.3
#[test]
fn what_another_origin_makes_a_browser_send_is_refused() {
    let repo = Repo::new();
    let server = Server::of(&repo);
    let bearer = format!("Authorization: Bearer {}", server.token);
    let origin = format!("Origin: http://{}", server.host);
    let port = server.host.rsplit(':').next().expect("a port");
    let named = format!("Host: evil.example:{port}");
    let local = format!("Host: localhost:{port}");
    let other = format!("Origin: http://localhost:{port}");
    for (method, path, headers, wanted) in [
        ("GET", "/healthz", &[][..], 200),
        ("GET", "/api/runs", &[&*bearer][..], 200),
        ("GET", "/api/runs", &[&*bearer, &local], 200),
        ("GET", "/api/runs", &[&*bearer, &named], 421),
        ("GET", "/healthz", &[&*named], 421),
        ("GET", "/ws", &[&*bearer, &named], 421),
        ("GET", "/api/runs", &["Host: 127.0.0.1"], 421),
        ("GET", "/healthz", &[&*local, &named], 421),
        ("GET", "/healthz", &[&*named, &local], 421),
        ("GET", &format!("http://evil.example:{port}/healthz"), &[], 421),
        ("GET", &format!("http://{}/healthz", server.host), &[], 200),
        ("GET", "/api/runs", &[], 401),
        ("GET", "/api/runs", &["Authorization: Bearer x"], 401),
        ("GET", "/api/runs", &["Authorization: Basic x"], 401),
        ("GET", "/api/openapi.json", &[], 401),
        ("POST", "/nope", &[&*bearer, JSON], 404),
        ("GET", "/ws", &[], 403),
        ("POST", "/api/runs", &[&*bearer, JSON, &origin], 200),
        ("POST", "/api/runs", &[&*bearer, JSON, "Origin: http://evil.example"], 403),
        ("POST", "/api/runs", &[&*bearer, JSON, "Origin: null"], 403),
        ("POST", "/api/runs", &[&*bearer, JSON, &other], 403),
        ("POST", "/api/runs", &[&*bearer, JSON, "Sec-Fetch-Site: cross-site"], 403),
        ("POST", "/api/runs", &[&*bearer, JSON, "Sec-Fetch-Site: same-site"], 403),
        ("POST", "/api/runs", &[&*bearer, "Content-Type: text/plain"], 415),
        ("POST", "/api/runs", &[&*bearer, "Content-Type: application/x-www-form-urlencoded"], 415),
        ("POST", "/api/runs", &[&*bearer], 415),
        ("POST", "/api/session", &[JSON], 401),
        ("OPTIONS", "/api/runs", &[&*bearer, "Origin: http://evil.example"], 403),
    ] {
        let body = if method == "POST" && path == "/api/session" { r#"{"token":"x"}"# } else { "{}" };
        let answer = server.with(method, path, headers, if method == "POST" { body } else { "" });
        assert_eq!(answer.status, wanted, "{method} {path} {headers:?}: {}", answer.head);
        assert!(answer.header("access-control-allow-origin").is_none(), "{}", answer.head);
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{}", answer.head);
        assert!(answer.json().is_object(), "{method} {path}");
    }
}

/// CONTRACT 23.2
#[test]
fn a_link_begins_one_session_that_outlives_the_server() {
    let repo = Repo::new();
    let server = Server::of(&repo);
    let begin = |server: &Server, link: &str| {
        server.with("POST", "/api/session", &[JSON], &format!(r#"{{"token":"{link}"}}"#))
    };
    let begun = begin(&server, &server.link);
    assert_eq!(begun.ok()["ok"], true);
    let cookie = begun.header("set-cookie").expect("a cookie").to_owned();
    for part in ["aynig-", "HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert_eq!(begin(&server, &server.link).refused(), (401, "no_link".to_owned()), "it was used");
    let cookie = format!("Cookie: {}", cookie.split(';').next().expect("a value"));
    let key = format!("Aynig-Key: {}", begun.json()["key"].as_str().expect("a key"));
    let get = |server: &Server, headers: &[&str]| server.with("GET", "/api/runs", headers, "").status;
    assert_eq!(get(&server, &[&cookie, &key]), 200);
    // A page of another port can set a cookie of this name.
    let name = cookie.split('=').next().expect("a name");
    assert_eq!(get(&server, &[&format!("{name}=x"), &cookie, &key]), 200);
    for half in [&[&*cookie][..], &[&*key], &[&*cookie, "Aynig-Key: x"], &[&*cookie, "Aynig-Key:"]] {
        assert_eq!(get(&server, half), 401, "{half:?}");
    }
    let cross = server.with("POST", "/api/runs", &[&cookie, &key, JSON, "Origin: http://evil.example"], "{}");
    assert_eq!(cross.refused(), (403, "cross_site".to_owned()));
    let link = out(&repo.aynig_ok(["serve", "--url"]));
    let (_, another) = link.trim().split_once("/#t=").expect("a link");
    assert_eq!(begin(&server, another).status, 200);
    let host = server.host.clone();
    server.kill();
    let server = Server::at(&repo, &host);
    assert_eq!(get(&server, &[&cookie, &key]), 200, "the session is known again");
    assert_eq!(server.with("DELETE", "/api/session", &[&cookie], "").status, 401);
    assert_eq!(server.with("DELETE", "/api/session", &[&cookie, &key], "").status, 200);
    assert_eq!(get(&server, &[&cookie, &key]), 401);
    assert!(!err(&repo.aynig_ok(["doctor"])).contains(&server.token));
}

/// CONTRACT 23.1, 23.2
#[test]
fn the_files_of_a_server_are_for_its_owner_and_go_with_it() {
    let repo = Repo::new();
    let (first, second) = (Server::of(&repo), Server::of(&repo));
    let data = first.data.clone();
    let files = || std::fs::read_dir(data.join("serve")).expect("files").count();
    assert_eq!(files(), 2);
    for file in [data.join("serve.json"), data.join("serve")] {
        let mode = file.metadata().expect("it is there").permissions().mode();
        assert_eq!(mode & 0o077, 0, "{}", file.display());
    }
    let link = out(&repo.aynig_ok(["serve", "--url"]));
    assert!(link.contains(&second.host), "the newest: {link}");
    assert_eq!(first.stop(), Some(0));
    assert_eq!(files(), 1);
    let newest: Value =
        serde_json::from_slice(&std::fs::read(data.join("serve.json")).expect("a file")).expect("JSON");
    assert_eq!(newest["token"], *second.token, "it is the other one's");
    second.kill();
    let nobody = repo.aynig(["serve", "--url"]);
    assert_refused(&nobody, 1, &["no server of this repository answers", "`aynig serve`"]);
}

/// CONTRACT 23.1
#[test]
fn addresses_that_cannot_be_had_are_refused() {
    let repo = Repo::new();
    let open = repo.aynig(["serve", "--listen", "0.0.0.0:0"]);
    assert_refused(&open, 2, &["can be reached from other machines", "--allow-remote", "ssh -L"]);
    let server = Server::of(&repo);
    let taken = repo.aynig(["serve", "--listen", &server.host]);
    assert_refused(&taken, 3, &["could not listen at", "`--listen 127.0.0.1:0`"]);
    assert_refused(&repo.aynig(["serve", "--listen", "here"]), 2, &["--listen"]);
}

/// CONTRACT 23.3
#[test]
fn large_slow_and_broken_requests_end() {
    let repo = Repo::new();
    let server = Server::of(&repo);
    let bearer = format!("Authorization: Bearer {}", server.token);
    let large = format!(r#"{{"label":"{}"}}"#, "x".repeat(4 * 1024 * 1024));
    assert_eq!(server.post("/api/runs", &large).refused(), (413, "too_large".to_owned()));
    let flood: Vec<String> = (0..200).map(|number| format!("X-{number}: y")).collect();
    let flood: Vec<&str> = flood.iter().map(String::as_str).collect();
    assert_eq!(server.with("GET", "/healthz", &flood, "").status, 431);
    let long = format!("X-Long: {}", "y".repeat(300 * 1024));
    assert_eq!(server.with("GET", "/healthz", &[&long], "").status, 431);
    let keyed = [JSON, "Idempotency-Key: 1"];
    let session = format!(r#"{{"token":"{}"}}"#, "x".repeat(2048));
    assert_eq!(
        server.with("POST", "/api/session", &keyed, &session).status,
        413,
        "nobody knows who sends it"
    );
    assert_eq!(server.raw(b"nonsense\r\n\r\n").status, 400);
    // A body that does not come: its connection is given up, and others are answered meanwhile.
    let host = &server.host;
    let begun = Instant::now();
    let open = || std::fs::read_dir(format!("/proc/{}/fd", server.child.id())).expect("its files").count();
    let before = open();
    let slow = format!(
        "POST /api/runs HTTP/1.1\r\nHost: {host}\r\n{bearer}\r\n{JSON}\r\nContent-Length: 10\r\n\r\n{{"
    );
    let mut stream = TcpStream::connect(host).expect("it listens");
    stream.write_all(slow.as_bytes()).expect("sent");
    let mut silent = TcpStream::connect(host).expect("it listens");
    silent.write_all(b"GET /healthz HTTP/1.1\r\nHost:").expect("sent");
    let mut deaf = TcpStream::connect(host).expect("it listens");
    let script = "GET /vendor/dompurify@3.4.18/dist/purify.es.mjs HTTP/1.1\r\nHost: ";
    deaf.write_all(format!("{script}{host}\r\n\r\n").repeat(500).as_bytes()).expect("sent");
    assert_eq!(server.get("/api/runs").status, 200);
    // Nobody without a session keeps others from writing.
    let begins =
        format!("POST /api/session HTTP/1.1\r\nHost: {host}\r\n{JSON}\r\nContent-Length: 10\r\n\r\n{{");
    let mut beginning: Vec<TcpStream> =
        (0..12).map(|_| TcpStream::connect(host).expect("it listens")).collect();
    beginning.iter_mut().for_each(|one| one.write_all(begins.as_bytes()).expect("sent"));
    assert_eq!(server.post("/api/session/link", "").status, 200);
    let mut answer = [0; 12];
    stream.set_read_timeout(Some(Duration::from_secs(90))).expect("a timeout");
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 408");
    silent.set_read_timeout(Some(Duration::from_secs(90))).expect("a timeout");
    silent.read_to_end(&mut Vec::new()).expect("it is closed");
    wait_until("who reads nothing is given up", || open() <= before);
    assert!(begun.elapsed() < Duration::from_secs(85));
    assert_eq!(server.get("/api/runs").ok()["runs"].as_array().map(Vec::len), Some(0));
}

/// CONTRACT 23.3
#[test]
fn a_remote_that_does_not_answer_leaves_room_for_reads() {
    let repo = Repo::new();
    let (asked, go) = (repo.beside("asked"), repo.beside("go"));
    let waits =
        format!("touch '{}'; until [ -e '{}' ]; do sleep 0.1; done; false", asked.display(), go.display());
    repo.git(["config", "core.sshCommand", &waits]);
    repo.git(["remote", "add", "origin", "ssh://nowhere.invalid/repo"]);
    repo.git(["config", "aynig.remote", "origin"]);
    let server = Server::of(&repo);
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..24).map(|_| scope.spawn(|| server.post("/api/runs", "").refused())).collect();
        wait_until("they ask the remote", || asked.exists());
        assert_eq!(server.get("/api/runs").status, 200);
        wait_until("some are refused", || all.iter().filter(|one| one.is_finished()).count() >= 16);
        assert_eq!(server.get("/api/runs").status, 200);
        std::fs::write(&go, "").expect("a file");
        let mut codes: Vec<String> = Vec::new();
        for one in all {
            let (status, code) = one.join().expect("an answer");
            assert_eq!(status, 503, "{code}");
            codes.push(code);
        }
        codes.sort();
        assert_eq!(codes.iter().filter(|code| *code == "busy").count(), 16, "{codes:?}");
    });
}

/// An agent runs with the account of its user, so it can read the token. The server looks at who is at the other end.
/// CONTRACT 23.4
#[test]
fn an_agent_does_nothing_by_the_server() {
    let script = r#"
"$AYNIG_BIN" serve --url >>said 2>&1; echo "url $?" >>said
"$AYNIG_BIN" serve --listen 127.0.0.1:0 >>said 2>&1; echo "serve $?" >>said
cat >ask.py <<'END'
import json, os, subprocess, sys, urllib.request
card = json.load(open(sys.argv[1]))
def ask(method, path, body=None):
    request = urllib.request.Request(card["url"] + path, method=method, data=body and body.encode())
    request.add_header("Authorization", "Bearer " + card["token"])
    request.add_header("Content-Type", "application/json")
    try:
        return urllib.request.urlopen(request).status
    except urllib.error.HTTPError as error:
        return error.code
print("read", ask("GET", "/api/runs"), flush=True)
print("write", ask("POST", "/api/runs", "{}"), flush=True)
print("link", ask("POST", "/api/session/link"), flush=True)
END
cat >hide.py <<'END'
import json, socket, sys, time
card = json.load(open(sys.argv[1]))
host = card["url"].split("//")[1]
port = int(host.rsplit(":", 1)[1])
body = '{"label":"hidden"}'
request = (f"POST /api/runs HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {card['token']}\r\n"
           f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}").encode()
# An address of the older kind on a socket of the newer kind.
mapped = socket.socket(socket.AF_INET6)
mapped.connect(("::ffff:127.0.0.1", port))
mapped.sendall(request)
print("mapped", mapped.recv(4096).split()[1].decode(), flush=True)
# A socket that nobody has any more.
closed = socket.create_connection(("127.0.0.1", port))
closed.sendall(request + 3 * f"GET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
closed.close()
# A socket on its way from one process to another.
flying = socket.create_connection(("127.0.0.1", port))
one, other = socket.socketpair()
flying.sendall(request[:-1])
socket.send_fds(one, [b"x"], [flying.fileno()])
flying.sendall(request[-1:])
flying.close()
time.sleep(1)
back = socket.socket(fileno=socket.recv_fds(other, 10, 1)[1][0])
print("flying", back.recv(4096).split()[1].decode(), flush=True)
END
python3 hide.py "$CARD" >>said 2>&1
python3 ask.py "$CARD" >>said 2>&1
env -i PATH="$PATH" setsid -w python3 ask.py "$CARD" >>said 2>&1
echo done"#;
    let repo = Repo::new();
    place_worktrees(&repo);
    let card = repo.path.join(".git/aynig/data/serve.json");
    agent(&repo, &script.replace("$CARD", &card.display().to_string()));
    let graph = Graph::of(repo, &["a"]);
    let server = Server::of(&graph.repo);
    graph.ok(&["chat", "RUN", "a", "Try it."]);
    graph.drain();
    let said = graph.repo.git(["show", &format!("work/{}/a:said", graph.slug)]);
    for (line, times) in [
        ("url 2", 1),
        ("serve 2", 1),
        ("read 200", 2),
        ("write 403", 2),
        ("link 403", 2),
        ("mapped 403", 1),
        ("flying 403", 1),
    ] {
        assert_eq!(said.lines().filter(|said| *said == line).count(), times, "{line}: {said}");
    }
    assert_eq!(server.get("/api/runs").ok()["runs"].as_array().map(Vec::len), Some(1));
}

/// CONTRACT 22.12, 23.5
#[test]
fn a_request_for_approval_is_answered_once() {
    let graph = gated(super::super::graphs::approvals::SCRIPT, "0");
    graph.drain();
    assert_eq!(requests(&graph).len(), 1);
    let server = Server::of(&graph.repo);
    let listed = server.get("/api/approvals").ok();
    let one = &listed["approvals"][0];
    assert_eq!((&one["slug"], &one["alias"]), (&graph.slug.as_str().into(), &"a".into()));
    assert_eq!(one["approval"]["tool"]["args"]["command"], "touch one");
    let id = one["approval"]["approvalId"].as_str().expect("an id");
    let resolve = |body: &str| server.post(&format!("/api/approvals/{id}/resolve"), body);
    for (body, status, field) in [
        (r#"{"resolution":{"status":"modified"}}"#, 422, "modifiedArgs"),
        (r#"{"resolution":{"status":"denied"},"always":"call"}"#, 422, "always"),
        (r#"{"resolution":{"status":"expired"}}"#, 422, ""),
        (r#"{"resolution":{"status":"approved"},"runId":"nope"}"#, 404, ""),
    ] {
        let refused = resolve(body);
        assert_eq!(refused.refused().0, status, "{body}");
        assert_eq!(refused.json()["field"].as_str().unwrap_or_default(), field, "{body}");
    }
    let denied = r#"{"resolution":{"status":"denied","reason":"Not now."}}"#;
    let first = resolve(denied).ok();
    assert_eq!(first["resolution"]["reason"], "Not now.");
    assert_eq!(resolve(denied).ok(), first, "the same again is fine");
    assert_eq!(
        resolve(r#"{"resolution":{"status":"approved"}}"#).refused(),
        (409, "answered_otherwise".to_owned())
    );
    assert_eq!(server.get("/api/approvals").ok()["approvals"].as_array().map(Vec::len), Some(0));
    graph.drain();
    assert_eq!(graph.turns(), ["a interrupted", "a completed"]);
}
