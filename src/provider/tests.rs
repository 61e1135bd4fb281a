//! Turns of real processes: shell scripts that play a program.

use std::cell::Cell;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

mod gated;
#[path = "../../tests/fixtures/providers/played.rs"]
mod played;

use self::played::{ACP, CLAUDE, CODEX, Reads, steps};
use super::turn::files;
use super::{Ended, Gate, How, Ids, Kind, Posture, Provider, Turn, named, run};
use crate::clock::Stopwatch;
use crate::flow::document::Approval;
use crate::fsutil::replace;
use crate::stop::{Cause, Stop};

/// A host with one program, in a directory of its own.
struct Host {
    directory: tempfile::TempDir,
    provider: Provider,
    prompt: Vec<u8>,
    posture: Posture,
    stop: Stop,
    gate: Option<Box<dyn Gate>>,
}

impl Host {
    fn new(kind: Kind, script: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let command = directory.path().join("program");
        replace(&command, format!("#!/bin/sh\n{script}\n").as_bytes()).expect("a script");
        fs::set_permissions(&command, fs::Permissions::from_mode(0o755)).expect("executable");
        fs::create_dir(directory.path().join("tree")).expect("a directory");
        let provider = Provider {
            name: named("agent").expect("a name"),
            kind,
            command,
            args: Vec::new(),
            model: None,
            env: Vec::new(),
            idle: Some(Duration::from_secs(60)),
            wall: Some(Duration::from_secs(120)),
        };
        let (prompt, posture, stop) = (b"do it".to_vec(), Posture::default(), Stop::manual());
        Self { directory, provider, prompt, posture, stop, gate: None }
    }

    /// A program that plays a stream. `<TEXT` reads a line that must contain TEXT, `>LINE` prints one, `.` expects the
    /// end of stdin.
    fn playing(kind: Kind, steps: &str) -> Self {
        let host = Self::new(
            kind,
            r#"while IFS= read -r step <&3; do
                case $step in
                    '<'*) IFS= read -r line || exit 8
                        case $line in *"${step#?}"*) ;; *) echo "expected ${step#?}, got $line" >&2; exit 9 ;; esac ;;
                    '>'*) printf '%s\n' "${step#?}" ;;
                    .) IFS= read -r line && exit 7 ;;
                esac
            done 3<"${0%/*}/steps"
            exit 0"#,
        );
        replace(&host.directory.path().join("steps"), steps.as_bytes()).expect("steps");
        host
    }

    fn evidence(&self) -> PathBuf {
        self.directory.path().join("evidence")
    }

    fn run(&self) -> Ended {
        self.run_with(&|| false)
    }

    fn run_with(&self, changed: &dyn Fn() -> bool) -> Ended {
        if self.evidence().exists() {
            fs::remove_dir_all(self.evidence()).expect("removed");
        }
        fs::create_dir(self.evidence()).expect("a directory");
        self.begin(changed)
    }

    fn begin(&self, changed: &dyn Fn() -> bool) -> Ended {
        let environment: [(OsString, OsString); 1] = [("AYNIG_BIN".into(), "/bin/aynig".into())];
        run(&Turn {
            provider: &self.provider,
            directory: &self.directory.path().join("tree"),
            prompt: &self.prompt,
            posture: self.posture,
            model: None,
            session: None,
            is_delta: false,
            listener: None,
            wall: None,
            idle: None,
            environment: &environment,
            ids: Ids { run: "r", node: "n", turn: "t" },
            evidence: &self.evidence(),
            changed,
            stop: &self.stop,
            watchdog: None,
            gate: self.gate.as_deref(),
            tools: None,
        })
    }

    fn file(&self, name: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.evidence().join(name)).expect("a file")).into_owned()
    }

    /// Waits for a file in the worktree.
    fn await_file(&self, name: &str) -> String {
        let (path, watch) = (self.directory.path().join("tree").join(name), Stopwatch::start());
        loop {
            match fs::read_to_string(&path) {
                Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
                _ => thread::sleep(Duration::from_millis(5)),
            }
            assert!(watch.elapsed() < Duration::from_secs(30), "{} did not come", path.display());
        }
    }
}

fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with('Z'))
}

/// CONTRACT 19.2, 19.4
#[test]
fn a_text_program_is_judged_by_its_exit_code() {
    let host = Host::new(
        Kind::Text,
        r#"cat; echo " in $(basename "$PWD")"; echo "$AYNIG_BIN $AYNIG_BRANCH."; echo oops >&2; exit "$CODE""#,
    );
    for (code, how, evidence) in [
        ("0", How::Completed, "agent completed the turn"),
        ("75", How::Later, "agent asks to be run later (exit code 75)"),
        ("3", How::Failed, "agent failed: it ended with exit code 3; its last line on stderr: oops"),
    ] {
        let mut host = Host { provider: host.provider.clone(), ..Host::new(Kind::Text, "") };
        host.provider.env.push(("CODE".to_owned(), Some(code.into())));
        let ended = host.run();
        assert_eq!((&ended.how, ended.evidence.as_str()), (&how, evidence));
        assert_eq!(ended.final_text.as_deref(), Some("do it in tree\n/bin/aynig .\n"));
        assert_eq!(ended.exit, code.parse().ok());
        assert_eq!(host.file(files::TRANSCRIPT), "do it in tree\n/bin/aynig .\n");
        assert_eq!(
            (host.file(files::STDERR), host.file(files::FINAL)),
            ("oops\n".to_owned(), "do it in tree\n/bin/aynig .\n".to_owned())
        );
        assert!(ended.argv.len() == 1 && ended.usage.is_none());
    }
}

/// CONTRACT 19.9
#[test]
fn a_program_that_is_not_here_leaves_the_turn_to_others() {
    let mut host = Host::new(Kind::Claude, "");
    host.provider.command = "no-such-program-anywhere".into();
    let why = "the program no-such-program-anywhere is not in PATH";
    assert_eq!(host.run().how, How::Unavailable(why.to_owned()));
    host.provider.command = host.directory.path().join("absent");
    assert!(matches!(host.run().how, How::Unavailable(_)));
    let host = Host::new(Kind::Text, "");
    replace(&host.provider.command, b"#!/no/such/interpreter\n").expect("a script");
    fs::set_permissions(&host.provider.command, fs::Permissions::from_mode(0o755)).expect("executable");
    assert!(matches!(host.run().how, How::Unavailable(why) if why.contains("/no/such/interpreter")));
    let host = Host::new(Kind::Text, "");
    fs::remove_dir(host.directory.path().join("tree")).expect("removed");
    assert_eq!(host.run().how, How::Failed);
}

/// CONTRACT 19.6
#[test]
fn time_limits_end_the_turn_and_its_processes() {
    let script = "sleep 300 & echo $! >child; echo x; wait";
    for kind in [Kind::Text, Kind::Jsonl, Kind::Codex] {
        let mut host = Host::new(kind, script);
        host.provider.wall = Some(Duration::from_millis(700));
        assert_eq!(host.run().how, How::TimedOut(Duration::from_millis(700)), "{kind:?}");
        assert!(!is_alive(&host.await_file("child")));
        let mut host = Host::new(kind, script);
        host.provider.idle = Some(Duration::from_millis(300));
        let asked = Cell::new(0);
        let ended = host.run_with(&|| {
            asked.set(asked.get() + 1);
            asked.get() < 3
        });
        assert_eq!((ended.how, asked.get()), (How::Idle(Duration::from_millis(300)), 3), "{kind:?}");
        assert!(!is_alive(&host.await_file("child")));
    }
}

/// CONTRACT 10.9, 19.6
#[test]
fn nothing_outlives_a_turn() {
    const LEFT: &str = "setsid sleep 300 & echo $! >child; (setsid sh -c 'echo $$ >other; exec sleep 300' &)";
    let last = r#"echo '{"type":"message.assistant.final","content":"done"}'"#;
    for (kind, script) in [(Kind::Text, ""), (Kind::Jsonl, last)] {
        let host = Host::new(kind, &format!("{LEFT}; {script}\nuntil [ -s other ]; do sleep 0.01; done"));
        let (ended, watch) = (host.run(), Stopwatch::start());
        assert_eq!(ended.how, How::Completed, "{kind:?}: {}", ended.evidence);
        assert!(
            ended.evidence.contains("it left processes running, which were ended: "),
            "{}",
            ended.evidence
        );
        for name in ["child", "other"] {
            assert!(!is_alive(&host.await_file(name)), "{kind:?}: {name} is alive");
        }
        assert!(watch.elapsed() < Duration::from_secs(20));
    }
}

#[test]
fn output_is_a_sign_of_life_on_either_stream() {
    let mut host = Host::new(Kind::Text, "for i in 1 2 3 4 5; do sleep 0.3; echo $i >&$((1 + i % 2)); done");
    host.provider.idle = Some(Duration::from_millis(900));
    assert_eq!(host.run().how, How::Completed);
}

/// CONTRACT 19.6
#[test]
fn a_stop_ends_it_at_once() {
    for kind in [Kind::Text, Kind::Acp] {
        let host = Host::new(kind, "trap '' TERM; echo $$ >pid; while :; do sleep 1; done");
        let (stop, watch) = (host.stop.clone(), Stopwatch::start());
        let ended = thread::scope(|scope| {
            scope.spawn(|| {
                host.await_file("pid");
                stop.request(15);
                stop.request(15);
            });
            host.run()
        });
        assert_eq!(ended.how, How::Stopped(Cause::Signal(15)), "{kind:?}");
        assert!(watch.elapsed() < Duration::from_secs(20) && !is_alive(&host.await_file("pid")));
    }
    let host = Host::new(Kind::Text, "touch began");
    host.stop.call_off();
    assert_eq!(host.run().how, How::Stopped(Cause::CalledOff));
    assert!(!host.directory.path().join("tree/began").exists());
}

/// CONTRACT 19.1
#[test]
fn a_turn_without_a_last_word_failed() {
    for (kind, script) in [
        (Kind::Claude, "read x; exit 0"),
        (Kind::Codex, "printf 'no \\377 JSON\\000\\n{\"id\":'; exit 0"),
        (Kind::Acp, "exec >&-; sleep 300"),
        (Kind::Jsonl, "echo '{\"type\":\"message.assistant.delta\",\"content\":\"half\"}'; kill -9 $$"),
    ] {
        let (host, watch) = (Host::new(kind, script), Stopwatch::start());
        let ended = host.run();
        assert_eq!(ended.how, How::Failed, "{kind:?}");
        assert!(ended.evidence.contains("without the message that ends a turn"), "{}", ended.evidence);
        assert!(watch.elapsed() < Duration::from_secs(30), "{kind:?}");
    }
}

/// CONTRACT 19.1, 19.12
#[test]
fn a_turn_without_a_last_word_shows_what_was_printed_instead() {
    let half = r#"{"type":"message.assistant.delta","content":"half"}"#;
    let kind = "; a program of your own needs `git config aynig.provider.agent.kind custom`";
    let protocol = "; a program that prints plain text needs `git config aynig.provider.agent.protocol text`";
    for (of, script, shown, hint) in [
        (
            Kind::Jsonl,
            "printf 'a\\nb\\n\\nc\\n[1]\\n'",
            "; 4 lines of its output are no JSON objects, the first: a",
            protocol,
        ),
        (Kind::Jsonl, "echo ' no JSON '; echo '@'", "; 1 line of its output is no JSON object: no JSON", ""),
        (
            Kind::Jsonl,
            "echo '@'; seq 99999 | tr '\\n' ' '",
            "; 1 line of its output is no JSON object: 1 2 3",
            "",
        ),
        (
            Kind::Claude,
            "echo Hello; echo there",
            "; 2 lines of its output are no JSON objects, the first: Hello",
            kind,
        ),
        (Kind::Claude, "echo Hello; echo '@'", "; 1 line of its output is no JSON object: Hello", ""),
        (Kind::Acp, "read -r line", "so the turn failed", ""),
    ] {
        let ended = Host::new(of, &script.replace('@', half)).run();
        let (how, evidence) = (ended.how, ended.evidence);
        assert_eq!(how, How::Failed, "{of:?} {script}");
        assert!(evidence.contains(shown) && evidence.len() < 400, "{of:?} {script}: {evidence}");
        assert_eq!(evidence.contains("git config"), !hint.is_empty(), "{of:?} {script}: {evidence}");
        assert!(evidence.contains(&format!("the turn failed{hint}")), "{of:?} {script}: {evidence}");
    }
}

/// CONTRACT 19.12
#[test]
fn a_program_of_another_protocol_is_ended_early() {
    let (host, watch) = (Host::new(Kind::Claude, "echo Hello; exec sleep 300"), Stopwatch::start());
    let ended = host.run();
    assert!(ended.how == How::Failed && watch.elapsed() < Duration::from_secs(30), "{}", ended.evidence);
    for words in ["no message of its protocol within 10 s", "no JSON object: Hello", "agent.kind custom`"] {
        assert!(ended.evidence.contains(words), "{words}: {}", ended.evidence);
    }
}

/// CONTRACT 19.1
#[test]
fn the_last_word_counts_and_not_the_exit_code() {
    let last = r#"{"type":"message.assistant.final","content":"done"}"#;
    for after in ["exit 3", "kill -9 $$", "sleep 300", "cat >/dev/null"] {
        let host = Host::new(Kind::Jsonl, &format!("read prompt; echo '{last}'; {after}"));
        let ended = host.run();
        assert_eq!((ended.how, ended.final_text.as_deref()), (How::Completed, Some("done")), "{after}");
    }
    let usage = r#"{"type":"telemetry.usage","usage":{"promptTokens":3,"completionTokens":4}}"#;
    let ended = Host::new(Kind::Jsonl, &format!("echo '{last}'; echo '{usage}'")).run();
    assert_eq!(ended.usage.map(|usage| usage.total_tokens), Some(7));
}

/// CONTRACT 19.7
#[test]
fn long_outputs_are_bounded() {
    let host = Host::new(Kind::Text, "head -c 100000000 /dev/zero; echo; echo the end");
    let ended = host.run();
    assert_eq!(ended.how, How::Completed);
    let text = ended.final_text.expect("an answer");
    assert!(text.len() < 1_100_000 && text.starts_with("[the beginning") && text.ends_with("the end\n"));
    let kept = fs::metadata(host.evidence().join(files::TRANSCRIPT)).expect("a file").len();
    assert!(kept < 33 << 20, "{kept}");
    let last = r#"{"type":"message.assistant.final","content":"done"}"#;
    let script = format!("head -c 50000000 /dev/zero | tr '\\0' x; echo; echo '{last}'");
    let host = Host::new(Kind::Jsonl, &script);
    assert_eq!(host.run().how, How::Completed);
    assert!(host.file(files::EVENTS).contains("a line of more than 16 MiB is left out"));
}

#[test]
fn a_program_need_not_read() {
    let mut host = Host::new(Kind::Text, "echo hi");
    host.prompt = vec![b'x'; 4 << 20];
    assert_eq!(host.run().how, How::Completed);
    let ask = r#"{"type":"approval.requested","approvalId":"a","tool":{"id":"1","name":"x","args":{}}}"#;
    let mut host = Host::new(Kind::Jsonl, &format!("while :; do echo '{ask}'; done"));
    host.posture.approval = Approval::DenyInteractive;
    let ended = host.run();
    assert_eq!(ended.how, How::Failed);
    assert!(ended.evidence.contains("reads no answer"), "{}", ended.evidence);
}

#[test]
fn files_that_cannot_be_made_are_a_failure_before_the_start() {
    let host = Host::new(Kind::Text, "touch began");
    fs::create_dir(host.evidence()).expect("a directory");
    replace(&host.evidence().join(files::STDERR), b"mine").expect("a file");
    let ended = host.begin(&|| false);
    assert_eq!(ended.how, How::Failed);
    assert!(ended.evidence.contains("could not be started"), "{}", ended.evidence);
    assert!(!host.directory.path().join("tree/began").exists() && host.file(files::STDERR) == "mine");
}

/// CONTRACT 19.1, 19.5
#[test]
fn each_protocol_is_spoken_to_its_end() {
    type Case = (Kind, &'static str, &'static Reads, (&'static str, &'static str), &'static str);
    let cases: [Case; 3] = [
        (
            Kind::Claude,
            "claude-gated-approved",
            &CLAUDE,
            (r#""tool_result""#, r#""behavior":"allow""#),
            "2.1.330",
        ),
        (
            Kind::Codex,
            "codex-gated-approved",
            &CODEX,
            ("serverRequest/resolved", r#""decision":"accept""#),
            "0.169.0",
        ),
        (
            Kind::Acp,
            "acp-claude-gated-approved",
            &ACP,
            (r#""tool_call_update""#, r#""optionId":"allow-once""#),
            "0.100.0",
        ),
    ];
    for (kind, name, begin, answer, version) in cases {
        let mut reads = begin.to_vec();
        // The question comes before the line that its answer releases.
        reads.push(answer);
        let mut host = Host::playing(kind, &(steps_after(name, &reads) + ".\n"));
        host.posture.approval = Approval::BoundedAutoApprove;
        let ended = host.run();
        let how = (&ended.how, ended.final_text.as_deref(), ended.exit);
        assert_eq!(
            how,
            (&How::Completed, Some("Done."), Some(0)),
            "{name}: {} {}",
            ended.evidence,
            host.file(files::STDERR)
        );
        assert!(ended.session.is_some() && ended.model.is_some() == (kind != Kind::Acp), "{name}");
        assert_eq!((ended.version.as_deref(), ended.usage.is_some()), (Some(version), true), "{name}");
        assert!(host.file(files::EVENTS).contains("approval.resolved"));
    }
}

/// Like [`steps`], with the last read before the first such line after a request.
fn steps_after(name: &str, reads: &[(&str, &str)]) -> String {
    let Some(((release, answer), begin)) = reads.split_last() else { return String::new() };
    let mut asked = false;
    let mut done = false;
    let mut all = String::new();
    for step in steps(name, begin, "").lines() {
        if asked && !done && step.contains(release) {
            all += &format!("<{answer}\n");
            done = true;
        }
        asked |= ["can_use_tool", "requestApproval", "request_permission"].iter().any(|it| step.contains(it));
        all += &format!("{step}\n");
    }
    assert!(done, "{name}");
    all
}

/// CONTRACT 19.5
#[test]
fn a_question_ends_the_turn_unless_the_posture_answers_it() {
    let cases: [(Kind, &str, &Reads, &str, [&str; 2]); 3] = [
        (
            Kind::Claude,
            "claude-gated-approved",
            &CLAUDE,
            "can_use_tool",
            [r#""behavior":"deny""#, r#""subtype":"interrupt""#],
        ),
        (
            Kind::Codex,
            "codex-gated-approved",
            &CODEX,
            "requestApproval",
            [r#""decision":"cancel""#, "turn/interrupt"],
        ),
        (
            Kind::Acp,
            "acp-claude-gated-approved",
            &ACP,
            "request_permission",
            [r#""outcome":"cancelled""#, "session/cancel"],
        ),
    ];
    for (kind, name, begin, until, [denied, interrupt]) in cases {
        let steps = format!("{}<{denied}\n<{interrupt}\n.\n", steps(name, begin, until));
        let host = Host::playing(kind, &steps);
        let ended = host.run();
        let How::Asked(question) = &ended.how else {
            panic!("{name}: {} {}", ended.evidence, host.file(files::STDERR))
        };
        assert!(
            question.args["command"].as_str().is_some_and(|command| command.contains("out.txt")),
            "{name}"
        );
        assert!(ended.evidence.contains("fail_on_prompt"), "{}", ended.evidence);
        // It was told in this order, and ended when its stdin was closed.
        assert_eq!(ended.exit, Some(0), "{name}: {}", host.file(files::STDERR));
    }
}

/// CONTRACT 19.8
#[test]
fn limits_and_outages_are_told_apart_from_failures() {
    let claude: [(&str, &str); 0] = [];
    let limited = |until, message: &str| How::Limited { until, message: message.to_owned() };
    let rejected = "API Error: Request rejected (429) · This request would exceed your rate limit (fake)";
    let ended = Host::playing(Kind::Claude, &steps("claude-error-429", &claude, "")).run();
    assert_eq!((&ended.how, ended.outage), (&limited(None, rejected), false));
    let ended = Host::playing(Kind::Claude, &steps("claude-error-500", &claude, "")).run();
    assert_eq!((&ended.how, ended.outage), (&How::Failed, true), "{}", ended.evidence);
    let ended = Host::playing(Kind::Claude, &steps("claude-no-credentials", &claude, "")).run();
    assert_eq!((&ended.how, ended.outage), (&How::Failed, false));
    assert_eq!(ended.evidence, "agent failed: Not logged in · Please run /login");
    let ended = Host::playing(Kind::Codex, &steps("codex-usage-limit", &CODEX, "")).run();
    assert!(matches!(ended.how, How::Limited { until: Some(1_795_335_428), .. }), "{}", ended.evidence);
}

/// CONTRACT 19.6
#[test]
fn a_turn_that_takes_too_long_is_interrupted_by_its_protocol() {
    let begin = steps("codex-gated-cancel", &CODEX, "turn/started");
    let end = r#">{"method":"turn/completed","params":{"turn":{"status":"interrupted"}}}"#;
    let mut host = Host::playing(Kind::Codex, &format!("{begin}<turn/interrupt\n{end}\n.\n"));
    host.provider.wall = Some(Duration::from_secs(1));
    let ended = host.run();
    assert_eq!(
        (ended.how, ended.exit),
        (How::TimedOut(Duration::from_secs(1)), Some(0)),
        "{}",
        host.file(files::STDERR)
    );
}
