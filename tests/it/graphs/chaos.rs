//! Graphs of scripted agents at random: messages, hand-offs, failures, and SIGKILL of runners, turns, agents, senders and
//! of everything at once; in one repository, and in three clones of a hub that goes away at times. At the end everything
//! is carried out undisturbed, and the judge reads what was left.
//!
//! One seed decides the plan and is printed. `CHAOS_SEED` sets it, `CHAOS_MINUTES` the length of the long runs. The pauses
//! between the steps are part of the chaos; they order nothing.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use aynig::crashpoint::Point;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::super::chaos::{Dice, long, seed, tell};
use super::super::support::wait_within;
use super::judge::{Case, Commit, Line, Work, judge};
use super::*;

/// Marks the processes of a field. Agents have the id of the run instead.
const MARK: &str = "CHAOS_FIELD";

/// The agent. Its turn decides what it does; all is well once the file `calm` is there.
const AGENT: &str = r#"
ROOM='@'
turn=$AYNIG_ORCH_TURN
note() { word=$1; shift; echo "$word $turn $AYNIG_ORCH_NODE $(date +%s%3N) $*" >>"$ROOM/journal"; }
note began $$
note saw $(printf '%s\n' "$prompt" | sed -n 's/.*\(token-[-0-9a-z]*\).*/\1/p')
echo 1 >"work-$turn"
case $turn in
?????[0-3]*)
    git add "work-$turn"
    git -c maintenance.auto=false commit -q -m 'own work' || exit 4 ;;
esac
note made
pieces=0
case $turn in [0-9]*) pieces=1 ;; [a-d]*) pieces=4 ;; esac
while [ $pieces -gt 0 ]; do
    sleep 0.1
    note alive
    pieces=$((pieces - 1))
done
hand_on() {
    [ "$(grep -c '^staged' "$ROOM/journal")" -lt "$(cat "$ROOM/budget")" ] || return 0
    to=$(grep "^$AYNIG_ORCH_NODE " "$ROOM/edges" | sed -n "${2}p" | cut -d' ' -f2)
    [ -n "$to" ] || return 0
    if "$AYNIG_BIN" orch handoff --to "$to" --message "token-$turn-$1" >/dev/null 2>"$ROOM/refused-$turn-$1"; then
        note staged "token-$turn-$1"
    fi
}
if [ ! -e "$ROOM/calm" ]; then
    case $turn in ?[0-9]*) hand_on 1 1 ;; esac
    case $turn in ?[5-9]*) hand_on 2 2 ;; ?[a-d]*) hand_on 2 3 ;; esac
    case $turn in
    ??[0-1]*) note ended; exit 3 ;;
    ??2*) kill -9 $$ ;;
    ??3*) printf '\377\376\000 %s no text\n' "$turn" ;;
    ??4*) setsid sleep 1000 >/dev/null 2>&1 & ;;
    ??5*) sleep 1000 & ;;
    ??6*) rm -rf .git ;;
    esac
fi
note ended
echo "I have done $turn."
"#;

/// How large a field is.
#[derive(Debug, Clone, Copy)]
struct Size {
    nodes: usize,
    steps: u32,
    /// The most hand-offs.
    budget: u32,
    /// At least this long. The steps are repeated.
    lasts: Duration,
}

/// How often each host carries everything out at the end.
const ROUNDS: i64 = 8;

/// The most runners at once.
const RUNNERS: usize = 3;

/// The longest that a verb of a person takes: up to 200 tries for the ledger, beside fifty nodes on a loaded machine.
const LONGEST: Duration = Duration::from_secs(600);

struct Field {
    /// The run, in the repository that made it.
    graph: Graph,
    run: String,
    /// The other clones of the hub.
    others: Vec<Repo>,
    /// The hub, and the directory of the git that fails at times.
    hub: Option<(PathBuf, PathBuf)>,
    /// Has the room, if a hub has the run.
    home: Option<Repo>,
    room: PathBuf,
    /// The nodes: alias and id.
    nodes: Vec<(String, String)>,
    runners: Vec<Child>,
    /// Added to the clocks of all processes, in seconds. It grows while none lives.
    offset: i64,
    senders: Vec<(String, Option<i32>)>,
}

impl Field {
    fn new(hosts: usize, size: Size, seed: u64, dice: &mut Dice) -> Self {
        let home = Repo::new();
        let room = home.room.path().canonicalize().expect("it exists");
        let script = AGENT.replace('@', room.to_str().expect("UTF-8"));
        std::fs::write(room.join("budget"), size.budget.to_string()).expect("a file");
        std::fs::write(room.join("journal"), "").expect("a file");
        let (graph, others, hub, home) = if hosts == 0 {
            place_worktrees(&home);
            agent(&home, &script);
            (Graph::of(home, &[]), Vec::new(), None, None)
        } else {
            let path = room.join("hub.git");
            let named = path.to_str().expect("UTF-8");
            home.git(["clone", "-q", "--bare", ".", named]);
            let mut clones: Vec<Repo> =
                (0..hosts).map(|number| hosts::host(named, &format!("host-{number}"), &script)).collect();
            let first = clones.remove(0);
            let faulty = faulty_git(&home, seed);
            (Graph::of(first, &[]), clones, Some((path, faulty)), Some(home))
        };
        let run = graph.state()["id"].as_str().expect("an id").to_owned();
        let mut field = Self {
            graph,
            run,
            others,
            hub,
            home,
            room,
            nodes: Vec::new(),
            runners: Vec::new(),
            offset: 0,
            senders: Vec::new(),
        };
        field.populate(size.nodes, dice);
        field
    }

    /// Makes the nodes, and about two edges for each.
    fn populate(&mut self, nodes: usize, dice: &mut Dice) {
        let add = ["--role", "implementer", "--provider", "scripted", "--permissions", "skip"];
        for number in 0..nodes {
            self.graph.ok(&[&["node", "add", "RUN", &format!("n{number}")], add.as_slice()].concat());
        }
        let state = self.graph.state();
        let id = |node: &Value, name: &str| node[name].as_str().expect("a text").to_owned();
        let all = state["nodes"].as_object().expect("nodes").values();
        self.nodes = all.map(|node| (id(node, "alias"), id(node, "id"))).collect();
        self.nodes.sort();
        // An edge of two implementers leads both ways.
        let pairs = (0..nodes * 2).map(|_| (dice.roll(nodes), dice.roll(nodes)));
        let pairs: BTreeSet<_> = pairs.map(|(one, other)| (one.min(other), one.max(other))).collect();
        let mut edges = String::new();
        for (from, to) in pairs.into_iter().filter(|(from, to)| from != to) {
            let [(from, from_id), (to, to_id)] = [&self.nodes[from], &self.nodes[to]];
            self.graph.ok(&["edge", "add", "RUN", from, to]);
            edges.push_str(&format!("{from_id} {to}\n{to_id} {from}\n"));
        }
        std::fs::write(self.room.join("edges"), edges).expect("a file");
    }

    fn hosts(&self) -> Vec<&Repo> {
        std::iter::once(&self.graph.repo).chain(&self.others).collect()
    }

    /// `aynig` on a host, with the clock of the field.
    fn aynig(&self, host: &Repo) -> Command {
        let mut command = host.aynig_command();
        command.env(MARK, &self.run).env("AYNIG_CLOCK_OFFSET_SECONDS", self.offset.to_string());
        command.env_remove("AYNIG_RUNNER_ID");
        command
    }

    /// `aynig` on some host. With a hub, one call of git in ten fails.
    fn anywhere(&self, dice: &mut Dice) -> Command {
        let hosts = self.hosts();
        let mut command = self.aynig(hosts[dice.roll(hosts.len())]);
        if let Some((_, faulty)) = &self.hub {
            let path = std::env::var("PATH").expect("a PATH");
            command.env("PATH", format!("{}:{path}", faulty.display()));
        }
        command
    }

    fn log(&self, name: &str) -> std::fs::File {
        let options = std::fs::File::options().create(true).append(true).open(self.room.join(name));
        options.expect("a file")
    }

    fn start(&mut self, dice: &mut Dice) {
        let mut command = self.anywhere(dice);
        command.args(["run", "--jobs", dice.pick(&["1", "2", "4"]), "--grace-seconds", "1"]);
        command.args(dice.pick(&[["--watch"].as_slice(), &["--drain"], &[]]));
        if dice.roll(4) == 0 {
            let point = dice.pick(Point::ALL).name();
            command.env("AYNIG_CRASH_AT", format!("{point}:kill:{}", 1 + dice.roll(4)));
        }
        let said = self.log("stderr");
        self.runners.push(command.stdout(Stdio::null()).stderr(said).spawn().expect("aynig starts"));
    }

    /// A message of a person. The sender may be killed on its way.
    fn chat(&mut self, dice: &mut Dice) {
        let token = format!("token-{}", self.senders.len());
        let node = self.nodes[dice.roll(self.nodes.len())].0.clone();
        let mut command = self.anywhere(dice);
        command.args(["orch", "chat", &self.graph.slug, &node, &token]);
        command.args(dice.pick(&[["--interrupt"].as_slice(), &[], &[], &[]]));
        let code = self.killed_at_times(command, dice);
        self.senders.push((token, code));
    }

    /// A person's verb that may fail.
    fn verb(&self, arguments: &[&str], dice: &mut Dice) {
        let mut command = self.anywhere(dice);
        command.arg("orch").args(arguments);
        self.killed_at_times(command, dice);
    }

    fn killed_at_times(&self, mut command: Command, dice: &mut Dice) -> Option<i32> {
        let said = self.log("verbs");
        let mut child = command.stdout(Stdio::null()).stderr(said).spawn().expect("aynig starts");
        if dice.roll(4) == 0 {
            std::thread::park_timeout(Duration::from_millis(u64::try_from(dice.roll(60)).expect("small")));
            child.kill().ok();
        }
        let status = wait_within(LONGEST, "a sender to end", || child.try_wait().expect("it is ours"));
        assert!(matches!(status.code(), None | Some(0 | 1 | 3 | 4)), "a sender ended with {status}");
        status.code()
    }

    /// The processes of the field, with their arguments. What a hub runs belongs to another machine.
    fn processes(&self) -> Vec<(Pid, String)> {
        let marks = [format!("{MARK}={}", self.run), format!("AYNIG_ORCH_RUN={}", self.run)];
        let of_hub =
            ["receive-pack", "upload-pack", "unpack-objects", "index-pack", "rev-list", "pack-objects"];
        let all = std::fs::read_dir("/proc").expect("it is there").flatten();
        let mut found = Vec::new();
        for process in all {
            let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
                continue;
            };
            let read = |name: &str| std::fs::read(process.path().join(name)).unwrap_or_default();
            let environment = read("environ");
            let is_ours = environment
                .split(|byte| *byte == 0)
                .any(|one| marks.iter().any(|mark| mark.as_bytes() == one));
            let arguments = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
            if is_ours && is_alive(pid) && !of_hub.iter().any(|word| arguments.contains(word)) {
                found.push((Pid::from_raw(pid), arguments));
            }
        }
        found
    }

    /// Kills one process whose arguments contain this.
    fn kill_one(&self, words: &str, dice: &mut Dice) {
        let fit: Vec<Pid> = self
            .processes()
            .into_iter()
            .filter(|(_, line)| line.contains(words))
            .map(|(pid, _)| pid)
            .collect();
        if !fit.is_empty() {
            kill(dice.pick(&fit), Signal::SIGKILL).ok();
        }
    }

    /// As if the power of all hosts failed. Later leases of theirs are over.
    fn kill_everything(&mut self) {
        wait_until("everything to be killed", || {
            let all = self.processes();
            for signal in [Signal::SIGSTOP, Signal::SIGKILL] {
                for (pid, _) in &all {
                    kill(*pid, signal).ok();
                }
            }
            self.runners.retain_mut(|runner| runner.try_wait().expect("it is ours").is_none());
            all.is_empty()
        });
        self.offset += 60;
    }

    fn step(&mut self, dice: &mut Dice) {
        self.runners.retain_mut(|runner| runner.try_wait().expect("it is ours").is_none());
        let slug = self.graph.slug.clone();
        match dice.roll(20) {
            0..5 if self.runners.len() < RUNNERS => self.start(dice),
            0..9 => self.chat(dice),
            9 | 10 => self.kill_one(" run --jobs", dice),
            11 => self.kill_one(" orch turn", dice),
            12 => self.kill_one("scripted.sh", dice),
            13 => self.kill_one("git ", dice),
            14 => self.verb(&["run", dice.pick(&["pause", "resume", "resume"]), &slug], dice),
            15 => {
                let node = self.nodes[dice.roll(self.nodes.len())].0.clone();
                self.verb(&["node", dice.pick(&["start", "start", "interrupt"]), &slug, &node], dice);
            }
            16 if dice.roll(3) == 0 => self.kill_everything(),
            17 => {
                if let Some((hub, _)) = self.hub.clone() {
                    // For a moment it is not there.
                    std::fs::rename(&hub, hub.with_extension("away")).expect("renamed");
                    pause(dice, 400);
                    std::fs::rename(hub.with_extension("away"), &hub).expect("renamed");
                }
            }
            _ => {}
        }
        pause(dice, 150);
    }

    /// Ends the runners, and carries out everything that is left.
    fn settle(&mut self) {
        std::fs::write(self.room.join("calm"), "").expect("a file");
        for runner in &self.runners {
            kill(Pid::from_raw(i32::try_from(runner.id()).expect("a pid")), Signal::SIGTERM).ok();
        }
        wait_until("the runners to end", || {
            self.runners.retain_mut(|runner| runner.try_wait().expect("it is ours").is_none());
            self.runners.is_empty()
        });
        wait_until("the last program to end", || self.processes().is_empty());
        let slug = self.graph.slug.clone();
        for _ in 0..ROUNDS {
            self.offset += 4_000;
            self.calmly(&["orch", "run", "resume", &slug]);
            for (alias, _) in &self.nodes {
                let node = self.graph.node(alias);
                if node["status"] == "failed" || !node["hold"].is_null() {
                    self.calmly(&["orch", "node", "start", &slug, alias]);
                }
            }
            for host in self.hosts() {
                let output =
                    self.aynig(host).args(["run", "--drain", "--jobs", "4"]).output().expect("it runs");
                writeln!(self.log("settled"), "{}", super::super::scene::told(&output)).expect("written");
                assert!(
                    matches!(output.status.code(), Some(0 | 1)),
                    "{}",
                    super::super::scene::told(&output)
                );
            }
            let state = self.graph.state();
            let nodes = state["nodes"].as_object().expect("nodes");
            let rests =
                |alias: &str| self.history(alias).last().is_some_and(|last| last.state == "orch-idle");
            if nodes.values().all(|node| node["inboxCount"] == 0)
                && self.nodes.iter().all(|(alias, _)| rests(alias))
            {
                return;
            }
        }
    }

    fn calmly(&self, arguments: &[&str]) {
        let output = self.aynig(&self.graph.repo).args(arguments).output().expect("aynig runs");
        assert!(output.status.success(), "{arguments:?}: {}", super::super::scene::told(&output));
    }

    /// Git at the place of decision.
    fn git(&self, arguments: &[&str]) -> String {
        let at = self.hub.as_ref().map_or(self.graph.repo.path.as_path(), |(hub, _)| hub.as_path());
        git_at(at, arguments)
    }

    /// The history of a driver, oldest first.
    fn history(&self, alias: &str) -> Vec<Commit> {
        let key = |key: &str| format!("%(trailers:key={key},valueonly,separator=)");
        let keys = ["dwp-state", "dwp-run-id", "dwp-stalled-run", "aynig-unable"].map(key);
        let format = format!("--format={}", keys.join("|"));
        let branch = format!("refs/heads/run/{}/{alias}", self.graph.slug);
        let log = self.git(&["log", "--reverse", "--first-parent", &format, &branch]);
        let commit = |line: &str| {
            let mut fields = line.split('|').map(str::to_owned);
            let mut next = || fields.next().unwrap_or_default();
            Commit { state: next(), attempt: next(), closes: next(), unable: !next().is_empty() }
        };
        log.lines().map(commit).collect()
    }

    /// The commits and the files of a node's work branch.
    fn work(&self, alias: &str) -> Option<Work> {
        let name = match &self.hub {
            Some(_) => format!("refs/aynig/work/{}/{alias}", self.run),
            None => format!("refs/heads/work/{}/{alias}", self.graph.slug),
        };
        let known = self.git(&["for-each-ref", &name]);
        let lines = |text: String| text.lines().map(str::to_owned).collect();
        (!known.is_empty()).then(|| Work {
            commits: lines(self.git(&["rev-list", &name])),
            files: lines(self.git(&["ls-tree", "-r", "--name-only", &name])),
        })
    }

    /// The names of all files that are in a commit, or in a worktree, of any host.
    fn kept(&self) -> BTreeSet<String> {
        let mut kept = BTreeSet::new();
        let hub = self.hub.iter().map(|(hub, _)| hub.clone());
        for repo in self.hosts().into_iter().map(|host| host.path.clone()).chain(hub) {
            let added = git_at(&repo, &["log", "--all", "-m", "--name-only", "--diff-filter=A", "--format="]);
            kept.extend(added.lines().map(str::to_owned));
        }
        for host in self.hosts() {
            let files = files_below(&host.beside("worktrees"));
            let names = files.iter().filter_map(|file| file.file_name()?.to_str());
            kept.extend(names.map(str::to_owned));
        }
        kept
    }

    fn case(&self) -> Case {
        let ledger = format!("refs/aynig/runs/{}", self.run);
        let log = self.git(&["log", "--reverse", "--first-parent", "--format=%x00%B", &ledger]);
        let events = |op: &str| {
            let lines = op.lines().filter(|line| line.starts_with('{'));
            lines.map(|line| serde_json::from_str(line).expect("JSON")).collect()
        };
        let journal = std::fs::read(self.room.join("journal")).expect("a file");
        let journal = String::from_utf8_lossy(&journal);
        Case {
            ops: log.split('\0').skip(1).map(events).collect(),
            drivers: self.nodes.iter().map(|(alias, id)| (id.clone(), self.history(alias))).collect(),
            works: self
                .nodes
                .iter()
                .filter_map(|(alias, id)| Some((id.clone(), self.work(alias)?)))
                .collect(),
            journal: journal.lines().filter_map(Line::parse).collect(),
            kept: self.kept(),
            senders: self.senders.clone(),
        }
    }

    /// Asserts that all was done, and that nothing is left of it.
    fn assert_lawful(&self, seed: u64) -> Case {
        let case = self.case();
        let mut wrong = judge(&case);
        wrong
            .extend(self.processes().into_iter().map(|(pid, line)| format!("process {pid} is left: {line}")));
        for host in self.hosts() {
            // It may have heard nothing of the run.
            self.aynig(host).args(["orch", "show", &self.graph.slug]).output().expect("it runs");
            let doctor =
                self.aynig(host).args(["orch", "doctor", &self.graph.slug]).output().expect("it runs");
            if !doctor.status.success() {
                wrong.push(format!("doctor: {}", super::super::scene::told(&doctor)));
            }
        }
        for name in ["stderr", "verbs", "settled"] {
            let said = std::fs::read(self.room.join(name)).unwrap_or_default();
            let said = String::from_utf8_lossy(&said);
            let bugs = said.lines().filter(|line| line.contains("panicked") || line.contains("bug"));
            wrong.extend(bugs.map(str::to_owned));
        }
        assert_eq!(wrong, Vec::<String>::new(), "CHAOS_SEED={seed}");
        case
    }
}

impl Drop for Field {
    fn drop(&mut self) {
        for runner in &mut self.runners {
            runner.kill().ok();
            runner.wait().ok();
        }
        for (pid, _) in self.processes() {
            kill(pid, Signal::SIGKILL).ok();
        }
        if std::thread::panicking() {
            // A failure here may not recur for days, so its room is kept.
            for repo in [&mut self.graph.repo].into_iter().chain(&mut self.others).chain(&mut self.home) {
                repo.room.disable_cleanup(true);
                tell(&format!("the room is kept: {}", repo.room.path().display()));
            }
        }
    }
}

/// A git of which one call to a remote in ten fails: half of those before it does anything, half after it has finished.
fn faulty_git(home: &Repo, seed: u64) -> PathBuf {
    let real = Command::new("sh").args(["-c", "command -v git"]).output().expect("sh runs");
    home.command(
        "../faulty/git",
        &format!(
            "verb=; for word; do case $word in push|fetch|ls-remote) verb=$word; break;; esac; done\n\
             if [ -n \"$verb\" ]; then\n\
             dice=$(printf '%s' \"{seed} $$\" | cksum); dice=$((${{dice%% *}} % 20))\n\
             [ $dice = 0 ] && {{ echo 'fatal: cut off' >&2; exit 128; }}\n\
             [ $dice = 1 ] && {{ '{git}' \"$@\" >/dev/null 2>&1; echo 'fatal: cut off' >&2; exit 128; }}\n\
             fi\nexec '{git}' \"$@\"",
            git = out(&real).trim(),
        ),
    );
    home.beside("faulty")
}

fn git_at(directory: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    let output = hermetic(&mut command).current_dir(directory).args(arguments).output().expect("git runs");
    assert!(output.status.success(), "git {arguments:?}: {}", err(&output));
    out(&output).trim_end().to_owned()
}

fn pause(dice: &mut Dice, most: usize) {
    std::thread::park_timeout(Duration::from_millis(u64::try_from(dice.roll(most)).expect("small")));
}

fn run(hosts: usize, size: Size) {
    let seed = seed();
    tell(&format!("CHAOS_SEED={seed} {size:?}"));
    let mut dice = Dice(seed);
    let mut field = Field::new(hosts, size, seed, &mut dice);
    let begun = Instant::now();
    for _ in 0..3 {
        field.chat(&mut dice);
    }
    let mut steps = 0;
    while steps < size.steps || begun.elapsed() < size.lasts {
        field.step(&mut dice);
        steps += 1;
    }
    field.settle();
    let case = field.assert_lawful(seed);
    let count = |word: &str| case.journal.iter().filter(|line| line.word == word).count();
    tell(&format!(
        "{} operations, {} messages of people, {} turns began, {} hand-offs staged",
        case.ops.len(),
        field.senders.iter().filter(|(_, code)| *code == Some(0)).count(),
        count("began"),
        count("staged"),
    ));
}

/// The default, and CI.
fn small() -> Size {
    let few = Size { nodes: 5, steps: 25, budget: 20, lasts: Duration::ZERO };
    sized(few, Size { nodes: 8, steps: 60, budget: 60, lasts: Duration::ZERO })
}

fn large() -> Size {
    Size { nodes: 50, steps: 300, budget: 100_000, lasts: long() }
}

#[test]
fn graph_chaos_in_a_repository() {
    run(0, small());
}

#[test]
fn graph_chaos_through_a_hub() {
    run(3, small());
}

#[test]
#[ignore = "takes minutes: CHAOS_MINUTES=10 cargo test --test it -- --ignored graph_chaos --nocapture"]
fn long_graph_chaos_in_a_repository() {
    run(0, large());
}

#[test]
#[ignore = "takes minutes: CHAOS_MINUTES=10 cargo test --test it -- --ignored graph_chaos --nocapture"]
fn long_graph_chaos_through_a_hub() {
    run(3, large());
}
