//! Turns of real processes whose requests somebody answers later.

use std::cell::Cell;
use std::collections::VecDeque;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{env, fs, thread};

use serde_json::Value;

use super::super::turn::files;
use super::super::{Ended, Gate, How, Kind, Reply, Request, Resolution};
use super::played::{ACP, CLAUDE, CODEX, steps};
use super::{Host, is_alive};
use crate::fsutil::replace;
use crate::stop::{Cause, Stop};

/// People at a desk. They answer each request with the next answer; with `None` not at all.
#[derive(Default)]
pub(super) struct Desk {
    answers: Mutex<VecDeque<Option<Resolution>>>,
    pub(super) asked: Mutex<Vec<Request>>,
    kept: Mutex<Vec<Reply>>,
    withdrawn: Mutex<Vec<String>>,
    /// Receives the number of requests so far, at each.
    heard: Option<mpsc::Sender<usize>>,
}

impl Desk {
    pub(super) fn with(answers: impl IntoIterator<Item = Option<Resolution>>) -> Arc<Self> {
        Arc::new(Self { answers: Mutex::new(answers.into_iter().collect()), ..Self::default() })
    }
}

impl Gate for Arc<Desk> {
    fn asked(&self, request: Request, reply: Reply) {
        let mut asked = self.asked.lock().expect("no panic");
        asked.push(request);
        match self.answers.lock().expect("no panic").pop_front().flatten() {
            Some(answer) => drop(thread::spawn(move || reply.send(answer))),
            None => self.kept.lock().expect("no panic").push(reply),
        }
        if let Some(heard) = &self.heard {
            heard.send(asked.len()).expect("somebody waits");
        }
    }

    fn withdrawn(&self, id: &str) {
        self.withdrawn.lock().expect("no panic").push(id.to_owned());
    }
}

pub(super) fn denied(reason: &str) -> Resolution {
    Resolution::Denied { reason: Some(reason.to_owned()) }
}

/// The `status` of each answer in the events, with its id.
pub(super) fn resolved(host: &Host) -> Vec<(String, String)> {
    let events = host.file(files::EVENTS);
    let lines = events.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let resolved = lines.filter(|line| line["type"] == "approval.resolved");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    resolved.map(|line| (text(&line["approvalId"]), text(&line["resolution"]["status"]))).collect()
}

fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter().map(|(id, status)| ((*id).to_owned(), (*status).to_owned())).collect()
}

const ASK: &str = r#">{"type":"approval.requested","approvalId":"a","tool":{"id":"t","name":"rm","args":{"path":"x"}}}
"#;
const OTHER: &str = r#">{"type":"approval.requested","approvalId":"b","tool":{"id":"u","name":"ls","args":{}}}
"#;
const LAST: &str = r#">{"type":"message.assistant.final","content":"Done."}
"#;

fn playing(steps: &str, answers: Vec<Option<Resolution>>) -> (Host, Arc<Desk>) {
    let desk = Desk::with(answers);
    let mut host = Host::playing(Kind::Jsonl, steps);
    host.gate = Some(Box::new(Arc::clone(&desk)));
    (host, desk)
}

/// CONTRACT 19.13
#[test]
fn the_program_waits_until_somebody_answers() {
    let args = serde_json::Map::from_iter([("path".to_owned(), "y".into())]);
    for (answer, read, status) in [
        (Some(Resolution::Approved), r#"{"status":"approved"}"#, "approved"),
        (Some(Resolution::ApprovedWith(args)), r#""status":"modified""#, "modified"),
        (Some(denied("not this")), r#"{"status":"denied","reason":"not this"}"#, "denied"),
    ] {
        // The second line with the same id is not asked again.
        let steps = format!("<prompt\n{ASK}{ASK}<{read}\n{LAST}.\n");
        let (host, desk) = playing(&steps, vec![answer]);
        let ended = host.run();
        let errors = host.file(files::STDERR);
        assert_eq!((&ended.how, ended.exit, errors.as_str()), (&How::Completed, Some(0), ""), "{status}");
        let asked = desk.asked.lock().expect("no panic");
        assert_eq!((asked.len(), asked[0].id.as_str(), asked[0].tool.name.as_str()), (1, "a", "rm"));
        assert_eq!(resolved(&host), pairs(&[("a", status)]));
        assert!(!host.file(files::EVENTS).contains("policy") && ended.unsaid.is_empty());
    }
}

/// CONTRACT 19.13
#[test]
fn an_answer_that_is_lost_is_a_no() {
    struct Forgetful;
    impl Gate for Forgetful {
        fn asked(&self, _request: Request, reply: Reply) {
            drop(reply);
        }
    }
    let mut host = Host::playing(Kind::Jsonl, &format!("<prompt\n{ASK}<\"status\":\"denied\"\n{LAST}.\n"));
    host.gate = Some(Box::new(Forgetful));
    assert_eq!((host.run().exit, host.file(files::STDERR)), (Some(0), String::new()));
    assert_eq!(resolved(&host), pairs(&[("a", "denied")]));
}

/// CONTRACT 19.13
#[test]
fn a_request_that_nobody_answers_parks_the_turn_with_all_that_are_open() {
    let steps =
        format!("<prompt\n{ASK}{OTHER}<\"approvalId\":\"a\",\"resolution\":{{\"status\":\"denied\"\n.\n");
    let (host, desk) = playing(&steps, vec![None, Some(Resolution::Parked)]);
    let ended = host.run();
    let How::Parked { requests, is_kept: false } = &ended.how else { panic!("{}", ended.evidence) };
    assert_eq!(*requests, *desk.asked.lock().expect("no panic"));
    assert_eq!(requests.len(), 2);
    assert_eq!(resolved(&host), pairs(&[("a", "expired"), ("b", "expired")]));
    let words =
        "agent asked for permission to use rm, ls, and nobody has answered yet, so nothing of it was run";
    assert_eq!(ended.evidence, words);
    // An answer that comes after all reaches nobody.
    for reply in desk.kept.lock().expect("no panic").drain(..) {
        reply.send(Resolution::Approved);
    }
}

/// CONTRACT 19.13
#[test]
fn nothing_is_run_when_the_turn_ends_before_the_answer() {
    let script = format!(
        "read -r prompt; echo '{}'; read -r line; case $line in *approved*|*modified*) touch ran ;; esac; exec sleep 300",
        ASK.trim().trim_start_matches('>')
    );
    for (case, how) in [
        ("stop", How::Stopped(Cause::Signal(15))),
        ("wall", How::TimedOut(Duration::from_secs(1))),
        ("death", How::Failed),
    ] {
        let (heard, hears) = mpsc::channel();
        let desk = Arc::new(Desk { heard: Some(heard), ..Desk::default() });
        let script =
            if case == "death" { script.replace("read -r line", "kill -9 $$") } else { script.clone() };
        let mut host = Host::new(Kind::Jsonl, &script);
        host.gate = Some(Box::new(Arc::clone(&desk)));
        if case == "wall" {
            host.provider.wall = Some(Duration::from_secs(1));
        }
        let stop: Stop = host.stop.clone();
        let ended: Ended = thread::scope(|scope| {
            scope.spawn(move || {
                hears.recv().expect("a request");
                if case == "stop" {
                    stop.request(15);
                }
            });
            host.run()
        });
        assert_eq!(ended.how, how, "{case}: {}", ended.evidence);
        assert_eq!(resolved(&host), pairs(&[("a", "withdrawn")]), "{case}");
        assert_eq!(*desk.withdrawn.lock().expect("no panic"), ["a"], "{case}");
        assert!(!host.directory.path().join("tree/ran").exists(), "{case}");
    }
}

/// CONTRACT 19.13
#[test]
fn the_idle_time_does_not_run_while_somebody_is_asked() {
    struct Slow(Arc<AtomicBool>);
    impl Gate for Slow {
        fn asked(&self, _request: Request, reply: Reply) {
            self.0.store(true, Ordering::SeqCst);
            let is_open = Arc::clone(&self.0);
            drop(thread::spawn(move || {
                // A hundred idle times.
                thread::sleep(Duration::from_millis(100));
                is_open.store(false, Ordering::SeqCst);
                reply.send(Resolution::Approved);
            }));
        }
    }
    let is_open = Arc::new(AtomicBool::new(false));
    let mut host = Host::playing(Kind::Jsonl, &format!("<prompt\n{ASK}<approved\n.\n"));
    host.provider.idle = Some(Duration::from_millis(1));
    host.gate = Some(Box::new(Slow(Arc::clone(&is_open))));
    let too_early = Cell::new(false);
    let ended = host.run_with(&|| {
        too_early.set(too_early.get() || is_open.load(Ordering::SeqCst));
        // Busy until the request; idle after the answer.
        fs::read_to_string(host.evidence().join(files::EVENTS)).is_ok_and(|text| !text.contains("resolved"))
    });
    assert!(!too_early.get(), "the idle time ran while somebody was asked");
    assert_eq!(ended.how, How::Idle(Duration::from_millis(1)), "{}", ended.evidence);
}

/// CONTRACT 19.13
#[test]
fn a_program_that_cannot_ask_is_not_run() {
    let mut host = Host::new(Kind::Text, "touch began");
    host.gate = Some(Box::new(Desk::with([])));
    let ended = host.run();
    assert_eq!(ended.how, How::Failed);
    assert!(ended.evidence.contains("agent cannot be gated"), "{}", ended.evidence);
    assert!(!host.directory.path().join("tree/began").exists());
}

/// CONTRACT 19.13
#[test]
fn claude_is_held_granted_changed_denied_and_parked() {
    const REQUEST: &str = "\"hook_callback\"";
    let args = serde_json::Map::from_iter([("command".to_owned(), "echo changed".into())]);
    let name = "claude-hook-callback-defer";
    let begin = steps(name, &CLAUDE, REQUEST);
    let whole = steps(name, &CLAUDE, "");
    let rest = whole.strip_prefix(&begin).expect("the rest of the stream");
    let done = r#">{"type":"result","subtype":"success","is_error":false,"result":"Done."}"#;
    for (answer, read, status) in [
        (Resolution::Approved, r#""permissionDecision":"allow""#, "approved"),
        (Resolution::ApprovedWith(args), r#""updatedInput":{"command":"echo changed"}"#, "modified"),
        (denied("not this"), r#""permissionDecisionReason":"not this""#, "denied"),
        (Resolution::Parked, r#""permissionDecision":"defer""#, "expired"),
    ] {
        let is_parked = answer == Resolution::Parked;
        let desk = Desk::with([Some(answer)]);
        let after = if is_parked { rest.trim_end() } else { done };
        let mut host = Host::playing(Kind::Claude, &format!("{begin}<{read}\n{after}\n.\n"));
        host.gate = Some(Box::new(Arc::clone(&desk)));
        let ended = host.run();
        assert_eq!((ended.exit, host.file(files::STDERR)), (Some(0), String::new()), "{status}");
        let asked = desk.asked.lock().expect("no panic").clone();
        assert_eq!((asked.len(), asked[0].tool.id.as_str()), (1, "toolu_fixed01"), "{status}");
        assert_eq!(resolved(&host), pairs(&[(&asked[0].id, status)]));
        if is_parked {
            assert_eq!(ended.how, How::Parked { requests: asked, is_kept: true }, "{}", ended.evidence);
            assert_eq!(
                (ended.session.is_some(), ended.final_text.as_deref()),
                (true, Some("I will run a command."))
            );
        } else {
            assert_eq!((ended.how, ended.final_text.as_deref()), (How::Completed, Some("Done.")), "{status}");
        }
    }
}

/// CONTRACT 19.13
#[test]
fn codex_is_held_granted_changed_denied_and_parked() {
    const REQUEST: &str = "requestApproval";
    let args = serde_json::Map::from_iter([("command".to_owned(), "echo changed".into())]);
    let name = "codex-gated-approved";
    let begin = steps(name, &CODEX, REQUEST);
    let whole = steps(name, &CODEX, "");
    let rest = whole.strip_prefix(&begin).expect("the rest of the stream").trim_end();
    let declined = r#"<"decision":"decline""#;
    let taken = r#">{"id":5,"result":{"turnId":"t"}}"#;
    let refused = r#">{"id":5,"error":{"code":-32600,"message":"no active turn to steer"}}"#;
    let ended = r#">{"method":"turn/completed","params":{"turn":{"status":"interrupted","error":null}}}"#;
    for (case, answer, reads, status, unsaid) in [
        ("granted", Resolution::Approved, r#"<"decision":"accept""#.to_owned(), "approved", None),
        (
            "changed",
            Resolution::ApprovedWith(args),
            format!("{}\n{declined}\n{taken}", r#"<allowed with {\"command\":\"echo changed\"} instead"#),
            "modified",
            None,
        ),
        ("denied", denied("not this"), format!("<denied: not this\n{declined}\n{taken}"), "denied", None),
        (
            "denied, and not told",
            denied("not this"),
            format!("<denied: not this\n{declined}\n{refused}"),
            "denied",
            Some("was denied: not this"),
        ),
        ("parked", Resolution::Parked, r#"<"decision":"cancel""#.to_owned(), "expired", None),
    ] {
        let is_parked = answer == Resolution::Parked;
        let desk = Desk::with([Some(answer)]);
        let after = if is_parked { ended } else { rest };
        let interrupt = if is_parked { "<turn/interrupt\n" } else { "" };
        let mut host = Host::playing(Kind::Codex, &format!("{begin}{reads}\n{interrupt}{after}\n.\n"));
        host.gate = Some(Box::new(Arc::clone(&desk)));
        let ended = host.run();
        assert_eq!((ended.exit, host.file(files::STDERR)), (Some(0), String::new()), "{case}");
        let asked = desk.asked.lock().expect("no panic").clone();
        assert_eq!((asked.len(), asked[0].tool.id.as_str()), (1, "call_fixed01"), "{case}");
        assert_eq!(asked[0].tool.args["cwd"], "/work-tree", "{case}");
        assert_eq!(resolved(&host), pairs(&[(&asked[0].id, status)]), "{case}");
        match unsaid {
            None => assert!(ended.unsaid.is_empty(), "{case}: {:?}", ended.unsaid),
            Some(words) => assert!(ended.unsaid[0].ends_with(words), "{case}: {:?}", ended.unsaid),
        }
        if is_parked {
            assert_eq!(ended.how, How::Parked { requests: asked, is_kept: false }, "{}", ended.evidence);
        } else {
            assert_eq!((ended.how, ended.final_text.as_deref()), (How::Completed, Some("Done.")), "{case}");
        }
    }
}

/// CONTRACT 19.13
#[test]
fn codex_gets_no_prompt_if_it_would_not_ask() {
    let begin = steps("codex-gated-approved", &CODEX[..3], r#"{"id":2"#);
    let lax = begin.replace(r#""approvalPolicy":"untrusted""#, r#""approvalPolicy":"on-request""#);
    let mut host = Host::playing(Kind::Codex, &format!("{lax}.\n"));
    host.gate = Some(Box::new(Desk::with([])));
    let ended = host.run();
    assert_eq!((&ended.how, ended.exit, host.file(files::STDERR)), (&How::Failed, Some(0), String::new()));
    let words = r#"agent failed: it does not ask before each tool: for approvalPolicy "untrusted" it answers "on-request""#;
    assert!(ended.evidence.starts_with(words), "{}", ended.evidence);
}

/// CONTRACT 19.13
#[test]
fn agents_of_the_protocol_are_held_granted_changed_denied_and_parked() {
    const REQUEST: &str = "request_permission";
    let args = serde_json::Map::from_iter([("command".to_owned(), "echo changed".into())]);
    let ended = r#">{"jsonrpc":"2.0","id":4,"result":{"stopReason":"cancelled"}}"#;
    for (name, yes, no, begins) in [
        ("acp-claude-gated-approved", "allow-once", "reject", ACP[2].0),
        ("acp-opencode-gated-approved", "once", "reject", ACP[2].0),
        ("acp-gemini-gated-approved", "proceed_once", "cancel", "agent_message_chunk"),
    ] {
        let reads = [ACP[0], ACP[1], (begins, ACP[2].1)];
        let begin = steps(name, &reads, REQUEST);
        let whole = steps(name, &reads, "");
        let rest = whole.strip_prefix(&begin).expect("the rest of the stream").trim_end();
        let selected = |option: &str| format!(r#"<"optionId":"{option}""#);
        for (case, answer, read, status, unsaid) in [
            ("granted", Resolution::Approved, selected(yes), "approved", None),
            (
                "changed",
                Resolution::ApprovedWith(args.clone()),
                selected(no),
                "modified",
                Some("echo changed"),
            ),
            ("denied", denied("not this"), selected(no), "denied", Some("was denied: not this")),
            ("parked", Resolution::Parked, r#"<"outcome":"cancelled""#.to_owned(), "expired", None),
        ] {
            let is_parked = answer == Resolution::Parked;
            let desk = Desk::with([Some(answer)]);
            let after = if is_parked { format!("<session/cancel\n{ended}") } else { rest.to_owned() };
            let mut host = Host::playing(Kind::Acp, &format!("{begin}{read}\n{after}\n.\n"));
            host.gate = Some(Box::new(Arc::clone(&desk)));
            let ended = host.run();
            assert_eq!((ended.exit, host.file(files::STDERR)), (Some(0), String::new()), "{name} {case}");
            let asked = desk.asked.lock().expect("no panic").clone();
            assert_eq!(asked.len(), 1, "{name} {case}");
            assert!(
                format!("{:?}", asked[0]).contains("echo hi > out.txt; cat out.txt"),
                "{name}: {asked:?}"
            );
            assert_eq!(resolved(&host), pairs(&[(&asked[0].id, status)]), "{name} {case}");
            let said = ended.unsaid.join(" ");
            assert!(unsaid.map_or(said.is_empty(), |words| said.contains(words)), "{name} {case}: {said}");
            if is_parked {
                assert_eq!(ended.how, How::Parked { requests: asked, is_kept: false }, "{}", ended.evidence);
            } else {
                assert_eq!(ended.how, How::Completed, "{name} {case}: {}", ended.evidence);
            }
        }
    }
}

/// CONTRACT 19.13
#[test]
fn an_agent_that_does_not_ask_is_ended() {
    let name = "acp-opencode-gated-approved";
    let begin = steps(name, &ACP, r#""status":"in_progress""#);
    let whole = steps(name, &ACP, r#""status":"completed""#);
    let mut lines: Vec<&str> = whole.strip_prefix(&begin).expect("the rest of the stream").lines().collect();
    lines.retain(|line| !line.contains("request_permission"));
    let steps = format!("{begin}{}\n<session/cancel\n.\n", lines.join("\n"));
    let mut host = Host::playing(Kind::Acp, &steps);
    host.gate = Some(Box::new(Desk::with([])));
    let ended = host.run();
    assert_eq!((&ended.how, ended.exit, host.file(files::STDERR)), (&How::Failed, Some(0), String::new()));
    let words =
        "agent failed: it did this without asking: echo hi > out.txt; cat out.txt; the turn was ended";
    assert!(ended.evidence.starts_with(words), "{}", ended.evidence);
}

/// Conducts a turn until a request, and dies, for [`a_conductor_that_is_killed_runs_nothing`].
#[test]
#[ignore = "run by another test"]
fn conductor() {
    struct Deadly;
    impl Gate for Deadly {
        fn asked(&self, _request: Request, _reply: Reply) {
            signal_hook::low_level::raise(9).expect("killed");
            loop {
                thread::park();
            }
        }
    }
    let Some(place) = env::var_os("AYNIG_TEST_GATED") else { return };
    let script = format!(
        "echo $$ >{place}/pid; read -r prompt; echo '{ask}'; read -r line && touch {place}/ran; exit 0",
        place = place.display(),
        ask = ASK.trim().trim_start_matches('>')
    );
    let mut host = Host::new(Kind::Jsonl, &script);
    host.gate = Some(Box::new(Deadly));
    let _ = host.run();
}

/// CONTRACT 19.13
#[test]
fn a_conductor_that_is_killed_runs_nothing() {
    // The host is only the frame of the process that conducts.
    let frame = Host::new(Kind::Text, "");
    let place = frame.directory.path();
    let this = env::current_exe().expect("this program");
    let script = format!(
        "#!/bin/sh\nexport AYNIG_TEST_GATED={}\nexec {} --exact provider::tests::gated::conductor --ignored\n",
        place.display(),
        this.display()
    );
    replace(&frame.provider.command, script.as_bytes()).expect("a script");
    fs::set_permissions(&frame.provider.command, fs::Permissions::from_mode(0o755)).expect("executable");
    let ended = frame.run();
    assert!(ended.evidence.contains("signal 9"), "{}", ended.evidence);
    let pid = fs::read_to_string(place.join("pid")).expect("the program began");
    assert!(!is_alive(pid.trim()) && !place.join("ran").exists());
}
