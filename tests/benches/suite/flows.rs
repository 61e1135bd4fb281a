//! Runs of flows whose agent does nearly nothing, compared with a shell loop of plain git that leaves the same: a lease
//! and a next state for each step, the work as a commit, and prompt, output and patch as files.
//!
//! The agent notes when it starts and when it ends. The time between two agents is what a step costs.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::measure::{Sample, measure, median};
use super::room::Room;
use super::steps::counted;
use super::{Row, Sizes, as_float};

/// Notes its beginning, appends the prompt to a file, and notes its end. `@` is the file of the times.
const AGENT: &str =
    "#!/bin/sh\ndate +%s%N >>'@'\nread -r what\necho \"$what\" >>work\nexec date +%s%N >>'@'\n";

/// The same steps by plain git. `$1` is their number, `$2` the worktree, `$3` a directory for files, `$4` the agent;
/// `$REMOTE` is set if a remote decides.
const PLAIN: &str = r#"#!/bin/sh
set -eu
driver=refs/heads/run/plain/flow work=refs/heads/work/plain/flow n=0
tree=$(git rev-parse 'main^{tree}')
move() {
    if [ -n "${REMOTE-}" ]; then
        git push --quiet --atomic --force-with-lease="$driver:$2" origin "$1:$driver" ${3-}
    else
        git update-ref "$driver" "$1" "$2"
    fi
}
tip=$(printf 'flow-step\n\ndwp-state: flow-step\n' | git commit-tree "$tree")
move "$tip" ''
git worktree add --quiet -b work/plain/flow "$2" main
while [ $n -lt "$1" ]; do
    n=$((n + 1))
    lease=$(printf 'working\n\ndwp-state: working\ndwp-run-id: %s\n' $n | git commit-tree -p "$tip" -F - "$tree")
    move "$lease" "$tip"
    mkdir -p "$3/$n"
    echo "step $n" >"$3/$n/prompt.md"
    (cd "$2" && exec "$4") <"$3/$n/prompt.md" >"$3/$n/stdout" 2>"$3/$n/stderr"
    git -C "$2" add --all
    git -C "$2" commit --quiet --message "snapshot $n"
    git -C "$2" diff --binary main HEAD >"$3/$n/workspace.diff"
    tip=$(printf 'flow-step\n\ndwp-state: flow-step\n' | git commit-tree -p "$lease" -F - "$tree")
    move "$tip" "$lease" "$work:refs/aynig/work/plain/flow"
done
"#;

/// A step, a step through a hub, the first program, and many gates that wait.
pub(super) fn cases(sizes: &Sizes) -> Vec<Row> {
    let mut rows = steps(sizes, None);
    rows.extend(steps(sizes, Some(sizes.hub_refs)));
    rows.push(first_program(sizes));
    rows.push(gates(sizes));
    rows
}

/// One of the two sides, with a repository of its own.
pub(super) struct Side {
    pub(super) repository: PathBuf,
    worktrees: PathBuf,
    /// Where the agent notes its times.
    pub(super) times: PathBuf,
    agent: PathBuf,
    connections: Option<PathBuf>,
}

impl Side {
    pub(super) fn new(room: &mut Room, template: &Path, hub: bool) -> Self {
        let place = room.copy(template);
        let repository = place.join(if hub { "clone.git" } else { "plain.git" });
        let (worktrees, times) = (place.join("worktrees"), place.join("times"));
        let name = place.file_name().expect("a name").to_string_lossy().into_owned();
        let agent = room.script(&format!("agent-{name}"), &AGENT.replace('@', &times.to_string_lossy()));
        let shown = |path: &Path| path.to_string_lossy().into_owned();
        for (key, value) in [
            ("aynig.workspaceRoot", shown(&worktrees)),
            ("aynig.provider.bench.kind", "custom".to_owned()),
            ("aynig.provider.bench.protocol", "text".to_owned()),
            ("aynig.provider.bench.command", shown(&agent)),
        ] {
            room.git(&repository, &["config", key, &value], "");
        }
        let connections = hub.then(|| {
            room.git(&repository, &["config", "remote.origin.url", "../hub.git"], "");
            room.git(&repository, &["config", "aynig.remote", "origin"], "");
            counted(room, &repository, &place, 0)
        });
        Self { repository, worktrees, times, agent, connections }
    }

    /// The shell loop.
    pub(super) fn plainly(&self, room: &Room, steps: usize) -> Sample {
        let mut loops = room.program(room.script("plain-flow", PLAIN), &self.repository);
        let places = [self.worktrees.join("plain"), self.repository.join("plain-files"), self.agent.clone()];
        if self.connections.is_some() {
            loops.env("REMOTE", "origin");
        }
        measure(loops.arg(steps.to_string()).args(places))
    }

    /// When each agent began and ended, in milliseconds.
    pub(super) fn times(&self) -> Vec<[f64; 2]> {
        let text = std::fs::read_to_string(&self.times).expect("the agent ran");
        let millis: Vec<f64> =
            text.lines().map(|line| line.parse::<f64>().expect("a time") / 1_000_000.0).collect();
        millis.chunks_exact(2).map(|both| [both[0], both[1]]).collect()
    }

    /// The time between two agents, and the connections of a step.
    pub(super) fn between(&self, mut sample: Sample, steps: usize) -> Sample {
        let times = self.times();
        assert_eq!(times.len(), steps, "each step once");
        sample.wall_ms = median(times.windows(2).map(|two| two[1][0] - two[0][1]));
        sample.cpu_ms /= as_float(steps);
        sample
    }

    /// From the end of a step of the shell loop (its patch is written) to the next agent: the next state, the lease, the start.
    pub(super) fn taken(&self, steps: usize) -> f64 {
        let files = self.repository.join("plain-files");
        let ended = (1..steps).map(|step| {
            let patch = files.join(step.to_string()).join("workspace.diff");
            let at = patch.metadata().and_then(|file| file.modified()).expect("it was written");
            at.duration_since(UNIX_EPOCH).expect("a time").as_secs_f64() * 1000.0
        });
        median(ended.zip(&self.times()[1..]).map(|(ended, next)| next[0] - ended))
    }

    pub(super) fn connections(&self) -> Option<usize> {
        let calls = std::fs::read_to_string(self.connections.as_ref()?).expect("it was talked to");
        Some(calls.lines().count())
    }
}

/// The flow with so many steps in a row.
fn flow(steps: usize) -> String {
    let mut text = "workflow_id: bench\nversion: 1\nentry_step: s1\nsteps:\n".to_owned();
    for step in 1..=steps {
        let next = if step == steps { "STOP".to_owned() } else { format!("s{}", step + 1) };
        let ends = "error: STOP, killed_timeout: STOP, killed_idle: STOP, killed_policy: STOP";
        writeln!(
            text,
            "  - {{id: s{step}, opcode: RUN_AGENT, agent: bench, prompt: step {step}, routes: {{completed: {next}, {ends}}}}}"
        )
        .expect("memory");
    }
    text
}

/// A repository for the copies; with `refs`, a clone of a hub that has so many.
pub(super) fn template(room: &Room, refs: Option<usize>) -> PathBuf {
    let top = room.path("template");
    std::fs::create_dir(&top).expect("a directory");
    let Some(refs) = refs else {
        room.repository("template/plain.git", 9, &[], None);
        return top;
    };
    let branches: Vec<String> = (0..refs).map(|number| format!("other{number}")).collect();
    room.repository("template/hub.git", 9, &branches, None);
    room.git(&top, &["clone", "--quiet", "--bare", "hub.git", "clone.git"], "");
    let clone = top.join("clone.git");
    let refs = room.git(&clone, &["for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads/other*"], "");
    let known: String = refs.lines().map(|name| format!("delete refs/heads/{name}\n")).collect();
    room.git(&clone, &["update-ref", "--stdin"], &known);
    for (key, value) in [("user.name", "Bench"), ("user.email", "bench@example.com")] {
        room.git(&clone, &["config", key, value], "");
    }
    room.git(&clone, &["fetch", "--quiet", "origin", "+refs/heads/*:refs/aynig/remotes/origin/*"], "");
    top
}

/// A flow of trivial steps, by the time between two agents and as a whole; with `refs`, through a hub with so many.
fn steps(sizes: &Sizes, refs: Option<usize>) -> Vec<Row> {
    let mut room = Room::new();
    let template = template(&room, refs);
    let steps = sizes.flow_steps;
    let file = room.path("flow.yaml");
    std::fs::write(&file, flow(steps)).expect("a file");
    let (mut git, mut ours) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for _ in 0..sizes.rounds {
        let side = Side::new(&mut room, &template, refs.is_some());
        let mut whole = side.plainly(&room, steps);
        whole.connections = side.connections();
        git[0].push(side.between(whole.clone(), steps));
        git[1].push(whole);

        let side = Side::new(&mut room, &template, refs.is_some());
        let file = file.to_str().expect("UTF-8");
        measure(&mut room.aynig(&side.repository, &["flow", "start", file, "--base", "main"]));
        let before = side.connections();
        let mut whole = measure(&mut room.aynig(&side.repository, &["run", "--drain"]));
        whole.connections = side.connections().zip(before).map(|(all, start)| all - start);
        ours[0].push(side.between(whole.clone(), steps));
        ours[1].push(whole);
    }
    let place = refs.map_or_else(String::new, |refs| format!(" through a hub of {refs} refs"));
    let whats = [
        format!("a step of a flow{place}: from one agent to the next, of {steps}"),
        format!("{steps} steps of a flow{place}, in all"),
    ];
    let both = git.into_iter().zip(ours);
    whats
        .into_iter()
        .zip(both)
        .map(|(what, (git, ours))| Row { what, steps: None, git, ours, other: None })
        .collect()
}

/// From `flow start` to the first program, with the worktree.
fn first_program(sizes: &Sizes) -> Row {
    let mut room = Room::new();
    let template = template(&room, None);
    let file = room.path("flow.yaml");
    std::fs::write(&file, flow(1)).expect("a file");
    let (mut git, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..sizes.rounds {
        for plain in [true, false] {
            let side = Side::new(&mut room, &template, false);
            let begun = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_secs_f64() * 1000.0;
            let file = file.to_str().expect("UTF-8");
            let arguments = ["flow", "start", file, "--base", "main", "--wait"];
            let mut sample = match plain {
                true => side.plainly(&room, 1),
                false => measure(&mut room.aynig(&side.repository, &arguments)),
            };
            sample.wall_ms = side.times()[0][0] - begun;
            if plain { git.push(sample) } else { ours.push(sample) }
        }
    }
    Row {
        what: "flow start to its first agent, worktree included".to_owned(),
        steps: None,
        git,
        ours,
        other: None,
    }
}

/// An idle pass over runs that all wait at a gate.
fn gates(sizes: &Sizes) -> Row {
    let mut room = Room::new();
    let template = template(&room, None);
    let side = Side::new(&mut room, &template, false);
    let file = room.path("gate.yaml");
    let routes = "gate_approved: STOP, gate_rejected: STOP, gate_timed_out: STOP";
    let text = format!(
        "workflow_id: bench\nversion: 1\nentry_step: ask\nsteps:\n  - {{id: ask, opcode: GATE, gate: result, routes: {{{routes}}}}}\n"
    );
    std::fs::write(&file, text).expect("a file");
    let start = ["flow", "start", file.to_str().expect("UTF-8"), "--base", "main"];
    measure(&mut room.aynig(&side.repository, &start));
    measure(&mut room.aynig(&side.repository, &["run", "--drain"]));
    let driver = room.git(&side.repository, &["for-each-ref", "--format=%(refname)", "refs/heads/run"], "");
    let tree = room.git(&side.repository, &["rev-parse", &format!("{driver}^{{tree}}")], "");
    let message = room.git(&side.repository, &["log", "-1", "--format=%B", &driver], "");
    assert!(message.contains("dwp-state: flow-gate"), "{message}");
    let mut stream = String::new();
    for number in 1..sizes.branches {
        let subject = format!("{number} {message}\n");
        write!(
            stream,
            "commit refs/heads/run/g{number}/flow\ncommitter Bench <bench@example.com> 1700000000 +0000\ndata {}\n{subject}M 040000 {tree} \n\nreset refs/heads/work/g{number}/flow\nfrom refs/heads/main^0\n\n",
            subject.len()
        )
        .expect("memory");
    }
    room.git(&side.repository, &["fast-import", "--quiet"], &stream);
    room.git(&side.repository, &["pack-refs", "--all"], "");
    let (mut git, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..sizes.rounds {
        let format = "--format=%(refname) %(objectname) %(trailers:key=dwp-state)";
        let mut listing = room.program("git", &side.repository);
        listing.args(["for-each-ref", format, "refs/heads/run"]);
        git.push(measure(&mut listing));
        ours.push(measure(&mut room.aynig(&side.repository, &["run"])));
    }
    Row {
        what: format!("idle pass, {} flows at a gate", sizes.branches),
        steps: None,
        git,
        ours,
        other: None,
    }
}
