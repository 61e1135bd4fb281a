//! Events from a journal to the clients of `aynig serve`: many clients, a steady rate, and the time from the append to the
//! frame, beside a program that writes the same lines to as many plain sockets.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use aynig::git::Repo;
use aynig::journal::directory::RunDirectory;
use aynig::journal::sync::sync;
use aynig::journal::writer::Writer;
use aynig::model::ids::{NodeId, OpId, RunId};
use tungstenite::client::IntoClientRequest;
use tungstenite::{Message, WebSocket};

use super::ledgers::{begin, open};
use super::measure::Sample;
use super::room::Room;
use super::{Row, Sizes};

/// The events of a second.
const RATE: usize = 5_000;

/// The time between two appends.
const TICK: Duration = Duration::from_millis(10);

/// The longest time without a frame.
const LONGEST: Duration = Duration::from_secs(60);

/// The field with the time of an append, in nanoseconds since the epoch.
const AT: &str = "\"line\":\"";

/// The percentiles of the times, in milliseconds.
#[derive(Clone, Copy)]
struct Times {
    half: f64,
    most: f64,
}

/// One row: the time that 99 of 100 frames need at most.
pub(super) fn cases(sizes: &Sizes) -> Vec<Row> {
    let room = Room::new();
    let path = room.repository("repository", 0, &[], None);
    let (mut plain, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..sizes.rounds {
        plain.push(over_sockets(sizes));
        ours.push(over_server(sizes, &room, &path));
    }
    let half = |all: &[Times]| super::measure::median(all.iter().map(|times| times.half));
    let what = format!(
        "from the append of an event to its frame, {} clients, {RATE} events a second: 99 of 100 (half of them: {:.1}; plain \
         sockets {:.1})",
        sizes.clients,
        half(&ours),
        half(&plain)
    );
    let samples = |all: &[Times]| {
        let sample =
            |times: &Times| Sample { wall_ms: times.most, cpu_ms: f64::NAN, peak_kib: 0, connections: None };
        all.iter().map(sample).collect()
    };
    vec![Row { what, steps: None, git: samples(&plain), ours: samples(&ours), other: None }]
}

fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos()
}

fn event(run: RunId, node: NodeId) -> Vec<u8> {
    format!(
        r#"{{"id":"{}","runId":"{run}","ts":"2026-01-01T00:00:00.000Z","type":"node.log","nodeId":"{node}",{AT}{}","source":"stdout"}}"#,
        OpId::random(),
        now()
    )
    .into_bytes()
}

/// The time since the append, in milliseconds.
fn since(line: &str) -> Option<f64> {
    let at = line.split(AT).nth(1)?.split('"').next()?.parse::<u128>().ok()?;
    let micros = u32::try_from(now().saturating_sub(at) / 1_000).ok()?;
    Some(f64::from(micros) / 1_000.0)
}

/// Hands on as many events as the sizes say, at the rate.
fn paced(sizes: &Sizes, mut append: impl FnMut(usize)) {
    let group = RATE / usize::try_from(1_000 / TICK.as_millis()).expect("few");
    let start = Instant::now();
    for (tick, _) in (1..).zip((0..sizes.events.min(20_000)).step_by(group)) {
        append(group);
        std::thread::sleep((TICK * tick).saturating_sub(start.elapsed()));
    }
}

fn counted(sizes: &Sizes) -> usize {
    let group = RATE / usize::try_from(1_000 / TICK.as_millis()).expect("few");
    sizes.events.min(20_000).div_ceil(group) * group
}

fn of(all: Vec<JoinHandle<Vec<f64>>>) -> Times {
    let mut times: Vec<f64> = all.into_iter().flat_map(|one| one.join().expect("it only reads")).collect();
    times.sort_by(f64::total_cmp);
    let at = |part: usize| times.get((times.len() * part / 100).min(times.len() - 1)).copied().unwrap_or(0.0);
    Times { half: at(50), most: at(99) }
}

/// The floor: one thread writes each line to each socket.
fn over_sockets(sizes: &Sizes) -> Times {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let wanted = counted(sizes);
    let mut sockets = Vec::new();
    let clients = (0..sizes.clients).map(|_| {
        let stream = TcpStream::connect(address).expect("it listens");
        sockets.push(listener.accept().expect("a client").0);
        spawn(move || {
            let lines = BufReader::new(stream).lines().take(wanted);
            lines.filter_map(|line| since(&line.expect("a line"))).collect()
        })
    });
    let clients: Vec<_> = clients.collect();
    let (run, node) = (RunId::from(OpId::random().uuid()), NodeId::from(OpId::random().uuid()));
    paced(sizes, |group| {
        let lines: Vec<Vec<u8>> = (0..group).map(|_| event(run, node)).collect();
        for line in &lines {
            for socket in &mut sockets {
                socket.write_all(&[line, &b"\n"[..]].concat()).expect("they read");
            }
        }
    });
    of(clients)
}

fn over_server(sizes: &Sizes, room: &Room, path: &Path) -> Times {
    let repo = open(path).handle();
    let run = begin(&repo, 1);
    let directory = RunDirectory::of(&repo, run);
    sync(&repo, &directory).expect("a journal");
    let node = NodeId::from(OpId::random().uuid());
    let mut command = room.aynig(path, &["serve", "--listen", "127.0.0.1:0"]);
    let (mut server, host) = started(&mut command);
    let bearer = bearer(&repo);
    let wanted = counted(sizes);
    let clients: Vec<_> = (0..sizes.clients)
        .map(|_| {
            let mut request =
                format!("ws://{host}/ws?runId={run}").into_client_request().expect("an address");
            request.headers_mut().insert("authorization", bearer.parse().expect("a value"));
            let stream = TcpStream::connect(&host).expect("it listens");
            let (mut socket, _) = tungstenite::client(request, stream).expect("it opens");
            // With a timeout a signal interrupts a read.
            socket.get_ref().set_read_timeout(Some(LONGEST)).expect("a timeout");
            // The hello: from here on nothing is missed.
            frame(&mut socket);
            spawn(move || {
                let mut times = Vec::with_capacity(wanted);
                while times.len() < wanted {
                    if let Message::Text(text) = frame(&mut socket) {
                        times.extend(since(&text));
                    }
                }
                times
            })
        })
        .collect();
    let mut writer = Writer::open(&repo, &directory).expect("a journal");
    paced(sizes, |group| {
        let events: Vec<Vec<u8>> = (0..group).map(|_| event(run, node)).collect();
        writer.append(&events).expect("lines");
    });
    let times = of(clients);
    server.kill().expect("it runs");
    server.wait().expect("it is ours");
    times
}

/// The next frame.
fn frame(socket: &mut WebSocket<TcpStream>) -> Message {
    loop {
        match socket.read() {
            Err(tungstenite::Error::Io(error)) if error.kind() == ErrorKind::Interrupted => {}
            read => return read.expect("a frame"),
        }
    }
}

/// The credentials of the newest server, as a header.
pub(super) fn bearer(repo: &Repo) -> String {
    let card = std::fs::read_to_string(RunDirectory::data(repo).join("serve.json")).expect("a file");
    let card: serde_json::Value = serde_json::from_str(&card).expect("JSON");
    format!("Bearer {}", card["token"].as_str().expect("a token"))
}

/// Starts a server. Returns its address.
pub(super) fn started(command: &mut Command) -> (Child, String) {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = command.spawn().expect("it starts");
    let mut out = BufReader::new(server.stdout.take().expect("piped"));
    let mut link = String::new();
    out.read_line(&mut link).expect("a line");
    let host = link.strip_prefix("http://").and_then(|rest| rest.split('/').next()).expect("an address");
    let host = host.to_owned();
    spawn(move || out.read_to_string(&mut String::new()).ok());
    (server, host)
}
