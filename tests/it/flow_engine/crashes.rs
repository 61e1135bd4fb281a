//! A kill at each point that a start, an attempt of each kind of step and an answer reach, here and through a hub: a
//! completed step never twice, nothing of the agent's work lost, record and events whole. The points are those that the
//! same call reaches without a kill.

use std::sync::Mutex;

use super::hosts::Field;
use super::*;

/// The advance of the clock after a kill: every lease is over by then.
pub(super) const LATER: u64 = 100;

/// Writes a file of its own, and says so where no rollback looks.
const WORKS: &str = "read -r what; echo \"$what\" >>work; echo mine >\"made-$AYNIG_ORCH_TURN\"; \
                     echo \"made-$AYNIG_ORCH_TURN\" >>\"$(git rev-parse --git-common-dir)/journal\"; echo \"did $what\"";

const AGENT: &str = "  - {id: one, opcode: RUN_AGENT, agent: scripted, prompt: one, routes: {completed: NEXT, error: STOP}}\n";
const CHECK: &str = "  - {id: check, opcode: RUN_VALIDATION, run: [{kind: builtin, name: tests}], routes: {completed: STOP, error: STOP}}\n";
const JUDGE: &str = "  - {id: judge, opcode: EVALUATE, prompt: Well?, command: planner, allowed_next_steps: [STOP], \
                     routes: {success: STOP, partial: STOP, blocked: STOP, unsafe: STOP, needs_human: STOP}}\n";
const ASK: &str =
    "  - {id: ask, opcode: GATE, gate: result, routes: {gate_approved: STOP, gate_rejected: STOP}}\n";
const UNDO: &str =
    "  - {id: undo, opcode: ROLLBACK, target: pre_run, routes: {completed: STOP, error: STOP}}\n";

/// The process that is killed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Killed {
    Start,
    /// The attempt after so many others.
    Pass(usize),
    Answer,
    /// The attempt that reads an answer.
    Answered,
}

/// A flow, what is killed of it, and how it has to end.
pub(super) struct Kind {
    pub(super) killed: Killed,
    pub(super) entry: &'static str,
    pub(super) steps: String,
    pub(super) done: &'static [&'static str],
    pub(super) verdict: &'static str,
    /// The content of the file `work` in the end.
    pub(super) work: Option<&'static str>,
}

fn kinds() -> Vec<Kind> {
    let one = AGENT.replace("NEXT", "STOP");
    let undone = AGENT.replace("NEXT", "undo") + UNDO;
    let asked: &[&str] = &["ask gate_approved STOP"];
    let kind = |killed, entry, steps: &str, done, verdict, work| Kind {
        killed,
        entry,
        steps: steps.to_owned(),
        done,
        verdict,
        work,
    };
    vec![
        kind(Killed::Start, "one", &one, &["one completed STOP"], "succeeded", Some("one")),
        kind(Killed::Pass(0), "one", &one, &["one completed STOP"], "succeeded", Some("one")),
        kind(Killed::Pass(0), "check", CHECK, &["check completed STOP"], "succeeded", None),
        kind(Killed::Pass(0), "judge", JUDGE, &["judge success STOP"], "succeeded", None),
        kind(
            Killed::Pass(1),
            "one",
            &undone,
            &["one completed undo", "undo completed STOP"],
            "stopped",
            None,
        ),
        kind(Killed::Pass(0), "ask", ASK, asked, "succeeded", None),
        kind(Killed::Answer, "ask", ASK, asked, "succeeded", None),
        kind(Killed::Answered, "ask", ASK, asked, "succeeded", None),
    ]
}

/// The hosts of a case. The first is the one where something is killed.
pub(super) struct Scene {
    pub(super) hosts: Vec<Repo>,
    _hub: Option<Repo>,
}

impl Scene {
    pub(super) fn new(hub: bool) -> Self {
        let (hosts, hub) = if hub {
            let Field { hosts, hub } = Field::new(WORKS);
            (hosts.into(), Some(hub))
        } else {
            let host = Repo::new();
            agent::agent(&host, "scripted", WORKS);
            (vec![host], None)
        };
        for host in &hosts {
            place_worktrees(host);
            host.git(["config", "aynig.validator.tests", "true"]);
            host.git([
                "config",
                "aynig.evaluator.planner",
                "cat >/dev/null; echo '{\"status\":\"success\"}'",
            ]);
        }
        Self { hosts, _hub: hub }
    }

    fn host(&self) -> &Repo {
        &self.hosts[0]
    }

    /// Runs `aynig` on the host where something is killed.
    fn call(&self, arguments: &[&str], environment: &[(&str, &str)]) -> std::process::Output {
        let mut command = self.host().aynig_command();
        command.args(arguments).envs(environment.iter().copied());
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        Running::start(&mut command).finish()
    }

    /// Passes of all hosts, later.
    fn carry_on(&self, what: &str) {
        let last = self.hosts.len() - 1;
        for host in [last, 0, last] {
            let mut command = self.hosts[host].aynig_command();
            command.args(["run", "--drain"]).env("AYNIG_CLOCK_OFFSET_SECONDS", LATER.to_string());
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
            let output = Running::start(&mut command).finish();
            assert!(matches!(output.status.code(), Some(0 | 1)), "{what}: {}", told(&output));
        }
    }

    /// Brings a run to the call that is to be killed, and makes that call. A start that was killed is made again.
    fn reach(&self, kind: &Kind, environment: &[(&str, &str)]) -> Started {
        let text = flow(kind.entry, &kind.steps);
        if kind.killed == Killed::Start {
            let file = self.host().path.join(".git/killed.yaml");
            std::fs::write(&file, &text).expect("a file");
            self.call(&["flow", "start", file.to_str().expect("UTF-8"), "--base", "main"], environment);
            self.host().deserted();
            self.settle_started();
            return start(self.host(), &text);
        }
        let run = start(self.host(), &text);
        let passes = match kind.killed {
            Killed::Start => 0,
            Killed::Pass(before) => before,
            Killed::Answer | Killed::Answered => 1,
        };
        for _ in 0..passes {
            self.host().aynig_ok(["run"]);
        }
        if kind.killed == Killed::Answered {
            self.host().aynig_ok(["flow", "approve", &run.slug]);
        }
        match kind.killed {
            Killed::Answer => self.call(&["flow", "approve", &run.slug], environment),
            _ => self.call(&["run"], environment),
        };
        self.host().deserted();
        run
    }

    /// A run of a killed start is carried out, or can be ended.
    fn settle_started(&self) {
        self.carry_on("after a start");
        let list = json(&self.host().aynig_ok(["flow", "list", "--json"]));
        for run in list["runs"].as_array().expect("a list") {
            let slug = run["slug"].as_str().expect("a slug");
            if run["status"] != "completed" {
                self.host().aynig_ok(["flow", "stop", slug]);
                let shown = json(&self.host().aynig_ok(["flow", "show", slug, "--json"]));
                assert_eq!(shown["status"], "stopped", "{shown}");
            }
        }
    }

    /// The files of an agent that are lost.
    fn lost(&self) -> Vec<String> {
        let mut lost = Vec::new();
        for host in &self.hosts {
            let journal = std::fs::read_to_string(host.path.join(".git/journal")).unwrap_or_default();
            for name in journal.lines() {
                // Work without a later attempt is where it was (CONTRACT 20.5).
                let lies = files_below(&host.beside("worktrees")).iter().any(|file| file.ends_with(name));
                let has = |host: &Repo| {
                    let format = "--format=%(refname)";
                    let places = ["refs/heads/work", "refs/aynig/work", "refs/aynig/rescue"];
                    let refs = host.git([&["for-each-ref", format], &places[..]].concat());
                    refs.lines().any(|place| {
                        let kept = ["cat-file", "-e", &format!("{place}:{name}")];
                        host.git_command().args(kept).output().expect("git runs").status.success()
                    })
                };
                if !lies && !self.hosts.iter().any(has) {
                    lost.push(name.to_owned());
                }
            }
        }
        lost
    }

    /// Asserts that the run has ended as it has to, and that all is there.
    pub(super) fn assert_whole(&self, run: &Started, kind: &Kind, what: &str) {
        let mut done = steps(self.host(), run);
        done.retain(|step| !step.contains(" error"));
        assert_eq!(done, kind.done, "{what}");
        assert_eq!(end(self.host(), run)[1], kind.verdict, "{what}");
        assert_eq!(self.lost(), Vec::<String>::new(), "{what}");
        if let Some(work) = kind.work {
            assert_eq!(self.host().git(["show", &format!("{}:work", self.work(run))]), work, "{what}");
        }
        let events = |host: &Repo| {
            host.aynig_ok(["orch", "run", "list"]);
            let lines = out(&host.aynig_ok(["orch", "events", &run.id, "--json"]));
            let events = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
            events.map(|line| line["event"]["id"].clone()).collect::<Vec<_>>()
        };
        let first = events(self.host());
        for host in &self.hosts {
            assert_eq!(events(host), first, "{what}");
            let doctor = host.aynig(["orch", "doctor", &run.id]);
            assert!(doctor.status.success(), "{what}: {}", told(&doctor));
            let directory = json(&host.aynig_ok(["flow", "show", &run.id, "--json"]))["runDirectory"].clone();
            for file in files_below(directory.as_str().expect("a path").as_ref()) {
                if file.extension().is_some_and(|extension| extension == "json") {
                    let text = std::fs::read(&file).expect("a file");
                    let parsed = serde_json::from_slice::<Value>(&text);
                    assert!(parsed.is_ok(), "{what}: {} is not whole", file.display());
                }
            }
        }
    }

    /// The work as the place of decision has it.
    fn work(&self, run: &Started) -> String {
        if self.hosts.len() == 1 {
            return run.work.clone();
        }
        self.host().git(["fetch", "-q", "origin", "+refs/aynig/work/*:refs/aynig/work/*"]);
        format!("refs/aynig/work/{}/flow", run.id)
    }
}

/// The points that a call of this kind reaches, each once.
fn reached(kind: &Kind, hub: bool) -> Vec<String> {
    let scene = Scene::new(hub);
    let trace = scene.host().path.join(".git/trace");
    scene.reach(kind, &[("AYNIG_CRASH_TRACE", trace.to_str().expect("UTF-8"))]);
    let text = std::fs::read_to_string(&trace).expect("it reaches some");
    let mut points: Vec<String> = Vec::new();
    for point in text.lines().filter(|point| !points_of_others(point)) {
        if !points.iter().any(|known| known == point) {
            points.push(point.to_owned());
        }
    }
    points
}

/// Points where a kill is one of a thread's, or of a runner as with any command: see `crash_points`.
fn points_of_others(point: &str) -> bool {
    let runners = [
        "command-",
        "lease-",
        "worktree-",
        "files-prepared",
        "result-",
        "renewal-",
        "pool-",
        "removal-",
        "unregistered",
        "stalled-",
        "push-begun",
        "notice-taken",
    ];
    runners.iter().any(|runner| point.starts_with(runner))
}

fn try_one(kind: &Kind, point: &str, hub: bool) {
    let what = format!("{point}, {:?} of {}, hub: {hub}", kind.killed, kind.entry);
    let scene = Scene::new(hub);
    let run = scene.reach(kind, &[("AYNIG_CRASH_AT", &format!("{point}:kill:1"))]);
    scene.carry_on(&what);
    if kind.entry == "ask" {
        // A person who has seen no result gives the answer again.
        scene.host().aynig_ok(["flow", "approve", &run.slug]);
        scene.carry_on(&what);
    }
    scene.assert_whole(&run, kind, &what);
}

/// Runs all cases, four at a time: most of a case is waiting for processes.
fn try_all(hub: bool) {
    let kinds = kinds();
    let ahead = Mutex::new(kinds.iter().flat_map(|kind| {
        let points = reached(kind, hub);
        assert!(!points.is_empty(), "{:?} of {} reaches some", kind.killed, kind.entry);
        points.into_iter().map(move |point| (kind, point))
    }));
    let next = || ahead.lock().expect("nobody panics here").next();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some((kind, point)) = next() {
                    try_one(kind, &point, hub);
                }
            });
        }
    });
}

/// CONTRACT 20.3, 20.5, 20.6
#[test]
fn a_kill_at_any_point_loses_and_doubles_nothing() {
    try_all(false);
}

/// CONTRACT 20.3, 20.5, 20.6
#[test]
fn a_kill_at_any_point_through_a_hub_loses_and_doubles_nothing() {
    try_all(true);
}
