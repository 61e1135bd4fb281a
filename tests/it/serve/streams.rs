//! The WebSocket and the lines of events: no gap and no double, across cuts and restarts.

use std::collections::BTreeSet;

use tungstenite::client::IntoClientRequest;
use tungstenite::{Message, WebSocket};

use super::*;

type Socket = WebSocket<TcpStream>;

fn connect(server: &Server, query: &str) -> Result<Socket, u16> {
    let mut request = format!("ws://{}/ws{query}", server.host).into_client_request().expect("an address");
    let bearer = format!("Bearer {}", server.token).parse().expect("a value");
    request.headers_mut().insert("authorization", bearer);
    let stream = TcpStream::connect(&server.host).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    match tungstenite::client(request, stream) {
        Ok((socket, _)) => Ok(socket),
        Err(tungstenite::HandshakeError::Failure(tungstenite::Error::Http(answer))) => {
            Err(answer.status().as_u16())
        }
        // As in `next`.
        Err(tungstenite::HandshakeError::Failure(tungstenite::Error::Io(error)))
            if error.kind() == std::io::ErrorKind::Interrupted =>
        {
            connect(server, query)
        }
        Err(error) => panic!("{error}"),
    }
}

/// The next event, or the code with which the server closed.
fn next(socket: &mut Socket) -> Result<Value, u16> {
    loop {
        let read = match socket.read() {
            // A signal that another test's child sent to this process.
            Err(tungstenite::Error::Io(error)) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            read => read.expect("a frame"),
        };
        match read {
            Message::Text(text) => return Ok(serde_json::from_str(&text).expect("one event in JSON")),
            Message::Close(frame) => return Err(frame.map_or(0, |frame| frame.code.into())),
            _ => {}
        }
    }
}

fn until(socket: &mut Socket, kind: &str) -> Vec<Value> {
    let mut events = Vec::new();
    loop {
        let event = next(socket).expect("it is open");
        let is_last = event["type"] == kind;
        events.push(event);
        if is_last {
            return events;
        }
    }
}

fn seqs(events: &[Value]) -> Vec<u64> {
    events.iter().map(|event| event["seq"].as_u64().expect("a number")).collect()
}

fn served() -> (Graph, Server, String) {
    let graph = Graph::new("echo done", &["a"]);
    let server = Server::of(&graph.repo);
    let run = graph.state()["id"].as_str().expect("an id").to_owned();
    (graph, server, run)
}

/// CONTRACT 23.7
#[test]
fn a_client_gets_every_event_once_across_a_cut_and_a_restart() {
    let (graph, server, run) = served();
    let mut socket = connect(&server, &format!("?runId={run}")).expect("it opens");
    let hello = next(&mut socket).expect("a hello");
    assert_eq!((&hello["type"], &hello["contractVersion"]), (&"stream.hello".into(), &"1".into()));
    let (begin, journal) =
        (hello["seq"].as_u64().expect("a number"), hello["journal"].as_str().expect("an id").to_owned());
    graph.ok(&["chat", "RUN", "a", "One."]);
    graph.drain();
    let mut seen = seqs(&until(&mut socket, "message.assistant.final"));
    // The cut: what happens meanwhile is read from the journal.
    drop(socket);
    graph.ok(&["chat", "RUN", "a", "Two."]);
    graph.drain();
    let last = *seen.last().expect("events");
    let at = |last: u64| format!("?runId={run}&after={last}&journal={journal}");
    let mut socket = connect(&server, &at(last)).expect("it opens");
    next(&mut socket).expect("a hello");
    seen.extend(seqs(&until(&mut socket, "message.assistant.final")));
    // The restart: in the middle of a turn's events.
    let host = server.host.clone();
    server.kill();
    graph.ok(&["chat", "RUN", "a", "Three."]);
    let server = Server::at(&graph.repo, &host);
    let mut socket = connect(&server, &at(*seen.last().expect("events"))).expect("it opens");
    next(&mut socket).expect("a hello");
    graph.drain();
    seen.extend(seqs(&until(&mut socket, "message.assistant.final")));
    let all: Vec<u64> = (begin + 1..=*seen.last().expect("events")).collect();
    assert_eq!(seen, all, "no gap and no double");
    assert_eq!(server.stop(), Some(0));
    assert_eq!(
        loop {
            if let Err(code) = next(&mut socket) {
                break code;
            }
        },
        1001,
        "it says that it stops"
    );
}

/// CONTRACT 23.7
#[test]
fn a_position_of_another_journal_is_a_gap() {
    let (graph, server, run) = served();
    for query in ["&after=1&journal=nope", "&after=99999"] {
        let mut socket = connect(&server, &format!("?runId={run}{query}")).expect("it opens");
        assert_eq!(next(&mut socket).expect("a hello")["type"], "stream.hello");
        assert_eq!(next(&mut socket).expect("a gap")["type"], "stream.gap");
        assert_eq!(next(&mut socket), Err(4009), "{query}");
    }
    let mut socket = connect(&server, &format!("?runId={run}")).expect("it opens");
    next(&mut socket).expect("a hello");
    let mut all = connect(&server, "").expect("it opens");
    next(&mut all).expect("a hello");
    graph.ok(&["rebuild", "RUN"]);
    graph.ok(&["chat", "RUN", "a", "One."]);
    let end = loop {
        if let Err(code) = next(&mut socket) {
            break code;
        }
    };
    assert_eq!(end, 4009, "the journal was made anew");
    let gap = until(&mut all, "stream.gap").pop().expect("a gap");
    assert_eq!(gap["runId"], *run, "a client of all runs goes on, and fetches that one anew");
}

/// CONTRACT 23.7
#[test]
fn all_runs_are_heard_and_types_are_chosen() {
    let (graph, server, run) = served();
    let mut all = connect(&server, "").expect("it opens");
    let hello = next(&mut all).expect("a hello");
    assert!(hello["runs"][&run].is_u64(), "{hello}");
    let mut some =
        connect(&server, &format!("?runId={run}&after=0&types=message.user,*.final")).expect("it opens");
    next(&mut some).expect("a hello");
    graph.ok(&["chat", "RUN", "a", "One."]);
    graph.drain();
    let kinds: BTreeSet<String> = until(&mut some, "message.assistant.final")
        .iter()
        .map(|event| event["type"].as_str().expect("a type").to_owned())
        .collect();
    assert_eq!(kinds, ["message.assistant.final", "message.user"].map(str::to_owned).into());
    assert!(until(&mut all, "message.assistant.final").iter().all(|event| event["runId"] == *run));
    // A run that is made meanwhile is heard from its first event on.
    let made = server.post("/api/runs", "").ok();
    let first = until(&mut all, "run.patch").pop().expect("an event");
    assert!(first["runId"] == made["runId"] || first["runId"] == *run, "{first}");
    for (query, status) in
        [("?after=1", 400), ("?runId=nope", 404), ("?runId=x&odd=1", 400), ("?types=%5B", 400)]
    {
        assert_eq!(connect(&server, query).err(), Some(status), "{query}");
    }
    assert_eq!(server.get("/ws").refused(), (400, "no_websocket".to_owned()));
}

/// CONTRACT 23.7
#[test]
fn a_program_reads_events_as_lines() {
    let (graph, server, run) = served();
    let mut stream = TcpStream::connect(&server.host).expect("it listens");
    let (host, token) = (&server.host, &server.token);
    let path = format!("/api/runs/{run}/events/stream?after=0");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    graph.ok(&["chat", "RUN", "a", "One."]);
    graph.drain();
    let mut seen = Vec::new();
    for line in BufReader::new(stream).lines() {
        let line = line.expect("a line");
        if let Some(id) = line.strip_prefix("id: ") {
            seen.push(id.parse::<u64>().expect("a number"));
        }
        if line.contains("message.assistant.final") {
            break;
        }
    }
    let first: Vec<u64> = (1..).take(seen.len()).collect();
    assert_eq!(seen, first);
}

/// The server is killed while messages are sent: each that was acknowledged is in the run once, and no other twice.
/// CONTRACT 23.1
#[test]
fn a_server_that_is_killed_while_it_writes_loses_nothing() {
    let graph = Graph::new("echo done", &["a"]);
    let run = graph.state()["id"].as_str().expect("an id").to_owned();
    graph.repo.git(["config", "aynig.maxUnread", "1000"]);
    let mut acknowledged = Vec::new();
    for round in 0..4 {
        let server = Server::of(&graph.repo);
        let sent = std::thread::scope(|scope| {
            let senders: Vec<_> = (0..3)
                .map(|sender| {
                    let (server, run) = (&server, &run);
                    scope.spawn(move || {
                        let mut ids = Vec::new();
                        for number in 0..20 {
                            let body = format!(r#"{{"nodeId":"a","content":"{round} {sender} {number}"}}"#);
                            let answer = server.post(&format!("/api/runs/{run}/chat"), &body);
                            if answer.status != 200 {
                                break;
                            }
                            ids.push(answer.json()["messageId"].as_str().expect("an id").to_owned());
                        }
                        ids
                    })
                })
                .collect();
            wait_until("some are sent", || graph.events(&["message.user"]).len() > round * 5 + 3);
            server.signal(Signal::SIGKILL);
            senders.into_iter().flat_map(|sender| sender.join().expect("it only sends")).collect::<Vec<_>>()
        });
        acknowledged.extend(sent);
    }
    let events = graph.events(&["message.user"]);
    let there: Vec<&str> = events.iter().filter_map(|event| event["message"]["id"].as_str()).collect();
    let once: BTreeSet<&str> = there.iter().copied().collect();
    assert_eq!(once.len(), there.len(), "none is there twice");
    let texts: BTreeSet<&str> =
        events.iter().filter_map(|event| event["message"]["content"].as_str()).collect();
    assert_eq!(texts.len(), there.len());
    assert!(!acknowledged.is_empty() && acknowledged.iter().all(|id| once.contains(id.as_str())));
    graph.ok(&["doctor", "RUN"]);
}

/// A client that reads nothing is closed, and comes again where it was: nothing is lost and nothing waits for it. CONTRACT 23.7
#[test]
fn a_client_that_is_too_slow_is_closed_and_continues_where_it_was() {
    use aynig::journal::directory::RunDirectory;
    use aynig::journal::writer::Writer;
    let (graph, server, run) = served();
    let store = super::super::ledger::open(&graph.repo.path);
    let handle = store.handle();
    let directory = RunDirectory::of(&handle, aynig::model::ids::RunId::parse(&run).expect("an id"));
    let mut slow = connect(&server, &format!("?runId={run}")).expect("it opens");
    let mut quick = connect(&server, &format!("?runId={run}")).expect("it opens");
    let hello = next(&mut slow).expect("a hello");
    let (begin, journal) = (hello["seq"].as_u64().expect("a number"), hello["journal"].clone());
    next(&mut quick).expect("a hello");
    // More than the buffers of a connection hold, and many more events than a client may be behind.
    let text = "x".repeat(2_000);
    let (groups, many) = (30_u64, 500_u64);
    let mut writer = Writer::open(&handle, &directory).expect("a journal");
    for _ in 0..groups {
        let event = || {
            let id = aynig::model::ids::OpId::random().to_string();
            serde_json::json!({ "id": id, "runId": run, "type": "node.log", "line": text })
                .to_string()
                .into_bytes()
        };
        writer.append(&(0..many).map(|_| event()).collect::<Vec<_>>()).expect("lines");
        for _ in 0..many {
            next(&mut quick).expect("it keeps up");
        }
    }
    let mut seen = Vec::new();
    let code = loop {
        match next(&mut slow) {
            Ok(event) => seen.push(event["seq"].as_u64().expect("a number")),
            Err(code) => break code,
        }
    };
    assert_eq!(code, 4008);
    let last = *seen.last().expect("the buffers had some");
    let query = format!("?runId={run}&after={last}&journal={}", journal.as_str().expect("an id"));
    let mut again = connect(&server, &query).expect("it opens");
    next(&mut again).expect("a hello");
    while seen.len() < usize::try_from(groups * many).expect("few") {
        seen.push(next(&mut again).expect("it is open")["seq"].as_u64().expect("a number"));
    }
    assert!(seen.iter().copied().eq(begin + 1..=begin + groups * many), "no gap and no double");
}

/// CONTRACT 23.7
#[test]
fn events_of_more_runs_than_a_shell_allows_files_are_handed_on() {
    let repo = Repo::new();
    let mut runs: Vec<String> = (0..40)
        .map(|_| {
            json(&repo.aynig_ok(["orch", "run", "create", "--json"]))["runId"]
                .as_str()
                .expect("an id")
                .to_owned()
        })
        .collect();
    runs.sort();
    let mut command = Command::new("sh");
    hermetic(&mut command).current_dir(&repo.path);
    command.args(["-c", "ulimit -Sn 40 && exec \"$0\" serve --listen 127.0.0.1:0"]).arg(binary());
    let server = Server::started(&repo, command);
    for run in [&runs[0], &runs[39]] {
        let mut socket = connect(&server, &format!("?runId={run}")).expect("it opens");
        repo.aynig_ok(["orch", "node", "add", run, "a", "--role", "implementer", "--provider", "claude"]);
        let events = until(&mut socket, "node.patch");
        assert_eq!(events.last().expect("one")["runId"], **run);
    }
}
