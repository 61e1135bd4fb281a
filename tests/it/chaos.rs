//! Runners started, killed, stopped and continued at random, with clocks that differ and a remote that fails,
//! until nothing is left to do. Then the judge checks the repositories.
//!
//! One seed decides everything and is printed. `CHAOS_SEED` sets it, `CHAOS_STEPS` the number of steps. The
//! sleeps between the steps are part of the chaos; they order nothing.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use aynig::crashpoint::Point;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::judge::{LATER, Law, judge, lost_work};
use super::scene::*;
use super::support::*;

/// Number of steps: by default, and in CI.
const STEPS: (u32, u32) = (60, 300);

/// Steps of the long runs.
const MANY_STEPS: u32 = 10_000;

const MOST_RUNNERS: usize = 4;
/// At most this many branches, plus one for every so many steps, so that a long run has work to its end.
const MOST_BRANCHES: (u32, u32) = (60, 20);

/// How often each host drains at the end: for expired leases, for the branches that were waiting behind them,
/// and once more.
const ROUNDS: u32 = 3;

/// `--skew-seconds` with a remote. The clocks of the three hosts differ by at most this much.
const SKEW: i64 = 2;

/// Leaves work of every kind, takes its time, and ends in one of several ways. Its run id decides all of
/// that.
const WORK: &str = r#"
note() { echo "$1 $AYNIG_RUN_ID $AYNIG_BRANCH $COMMIT_HASH $(date +%s%3N) $$" >>"$ROOM/journal"; }
note began
id=$AYNIG_RUN_ID
echo 1 >"own-$id"; git add "own-$id"; git -c maintenance.auto=false commit -q -m 'own work' || exit 4
echo 1 >"staged-$id"; git add "staged-$id" || exit 4
echo 1 >"loose-$id"
note made
case $id in [0-3]*) sleep 0.1;; [4-7]*) sleep 0.5;; [89]*) sleep 1.5;; esac
note ended
case $id in ?[0-2]*) exit 3;; ?3*) kill -9 $$;; esac
next review
"#;

/// Random numbers from a seed (SplitMix64).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let sides = u64::try_from(sides).expect("small");
        usize::try_from((mixed ^ (mixed >> 31)) % sides).expect("small")
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.roll(from.len())]
    }
}

struct Runner {
    child: Child,
    stopped: bool,
}

impl Runner {
    fn signal(&mut self, signal: Signal) {
        // The process may have exited. Until it is waited for, its pid is not reused.
        kill(Pid::from_raw(i32::try_from(self.child.id()).expect("a pid")), signal).ok();
    }

    /// Whether it has exited. Asserts that the exit status is one a runner may have.
    fn has_ended(&mut self) -> bool {
        let Some(status) = self.child.try_wait().expect("it is ours") else { return false };
        assert!(matches!(status.code(), None | Some(0 | 1 | 3 | 4 | 143)), "a runner ended with {status}");
        true
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

struct Field {
    home: Repo,
    /// The directories of the runners, and the error of each host's clock.
    hosts: Vec<(Repo, i64)>,
    faulty: Option<PathBuf>,
    branches: u32,
    /// The deferred states that were sent: their titles, and the exit codes of the senders.
    sent: Vec<(String, Option<i32>)>,
}

/// The start of a process, in milliseconds since the epoch, at most a second early. A long run uses all process
/// ids several times, so another process may have the one that a journal line names.
fn started(pid: i32) -> i64 {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let boot = read("/proc/stat").lines().find_map(|line| line.strip_prefix("btime ")?.parse::<i64>().ok());
    let stat = read(&format!("/proc/{pid}/stat"));
    let ticks = stat.rsplit(')').next().and_then(|stat| stat.split(' ').nth(20)?.parse::<i64>().ok());
    boot.expect("the time of boot") * 1000 + ticks.map_or(i64::MAX / 2, |ticks| ticks * 10)
}

impl Field {
    /// A state that was killed five times over one tree has to run on. The bounds have tests of their own.
    fn boundless(host: &Repo) {
        host.git(["config", "aynig.maxRounds", "0"]);
        host.git(["config", "aynig.maxSteps", "0"]);
    }

    fn local() -> Self {
        let home = Self::scene();
        Self::boundless(&home);
        home.git(["pack-refs", "--all"]);
        Self { home, hosts: Vec::new(), faulty: None, branches: 0, sent: Vec::new() }
    }

    fn remote(seed: u64) -> Self {
        let home = Self::scene().into_bare();
        let hosts = [(-1, "a"), (0, "b"), (1, "c")].map(|(offset, name)| (home.clone_beside(name), offset));
        hosts.iter().for_each(|(host, _)| Self::boundless(host));
        let faulty = home.beside("faulty");
        let real = std::process::Command::new("sh").args(["-c", "command -v git"]).output().expect("sh runs");
        // One call in ten fails: half of those before git does anything, half after it has finished.
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
        Self { home, hosts: hosts.into(), faulty: Some(faulty), branches: 0, sent: Vec::new() }
    }

    fn scene() -> Repo {
        // `stalled` runs the branch again.
        Repo::scene(&[("work", WORK), ("review", "next done"), ("stalled", "next work")])
    }

    fn host(&self, number: usize) -> (&Repo, i64) {
        match self.hosts.get(number) {
            Some((host, offset)) => (host, *offset),
            None => (&self.home, 0),
        }
    }

    /// Asks anew on the branches that were cancelled, which nobody runs (CONTRACT 5.36).
    fn reopen(&self, host: &Repo) {
        let of = |key: &str| format!("%(contents:trailers:key={key},valueonly,separator=)");
        let format = format!("--format=%(refname:short) {}/{}", of("dwp-state"), of("aynig-cancel"));
        for line in self.home.git(["for-each-ref", &format, "refs/heads/b*"]).lines() {
            if let Some(branch) = line.strip_suffix(" stalled/stall") {
                let again = ["set-state", branch, "--state", "work", "--subject", "again work"];
                let remote: &[&str] = if self.faulty.is_some() { &["--remote", "origin"] } else { &[] };
                host.aynig_ok(again.iter().chain(remote).copied());
            }
        }
    }

    /// Cancels some branch, whatever it is at. One that is asked again is run again.
    fn cancel(&self, dice: &mut Dice) {
        let number = dice.roll(self.hosts.len().max(1));
        let (host, offset) = self.host(number);
        let branches = usize::try_from(self.branches).expect("small");
        let mut command = host.aynig_command();
        command.args(["cancel", &format!("b{:03}", dice.roll(branches))]);
        command.args(dice.pick(&[["--requeue"].as_slice(), &[]]));
        command.env("AYNIG_CLOCK_OFFSET_SECONDS", offset.to_string());
        if self.faulty.is_some() {
            command.args(["--remote", "origin"]);
        }
        let output = command.output().expect("aynig runs");
        assert!(matches!(output.status.code(), Some(0 | 1 | 3 | 4)), "{}", told(&output));
    }

    /// `aynig` on some host, with its clock, its remote and the faults of that.
    fn anywhere(&self, dice: &mut Dice) -> std::process::Command {
        let (host, offset) = self.host(dice.roll(self.hosts.len().max(1)));
        let mut command = host.aynig_command();
        command.env("AYNIG_CLOCK_OFFSET_SECONDS", offset.to_string());
        if let Some(faulty) = &self.faulty {
            let path = std::env::var("PATH").expect("a PATH");
            command.env("PATH", format!("{}:{path}", faulty.display()));
        }
        command
    }

    /// Leaves a state for some branch, until it is free. The sender may be killed over it.
    fn defer(&mut self, dice: &mut Dice) {
        let title = format!("{LATER}{}", self.sent.len());
        let branches = usize::try_from(self.branches).expect("small");
        let mut command = self.anywhere(dice);
        command.args(["set-state", "--when-free", "--state", "work", "--subject", &title]);
        command.args(["--branch", &format!("b{:03}", dice.roll(branches))]);
        command.args(dice.pick(&[["--wake"].as_slice(), &[]]));
        if self.faulty.is_some() {
            command.args(["--remote", "origin"]);
        }
        if dice.roll(4) == 0 {
            command.env("AYNIG_CRASH_AT", "ref-locked:kill:1");
        }
        let output = command.output().expect("aynig runs");
        let code = output.status.code();
        assert!(matches!(code, None | Some(0 | 1 | 3 | 4)), "{}", told(&output));
        self.account("sent", &format!("{title}: {}", told(&output)));
        self.sent.push((title, code));
    }

    /// The deferred states that are lost, still wait, or came though their sender failed.
    fn astray(&self) -> Vec<String> {
        let subjects = self.home.git(["log", "--format=%s", "--branches"]);
        let subjects: BTreeSet<&str> = subjects.lines().collect();
        let mut wrong = Vec::new();
        for (title, code) in &self.sent {
            match (code, subjects.contains(title.as_str())) {
                (Some(0), false) => wrong.push(format!("{title} is lost")),
                (Some(1 | 3), true) => {
                    wrong.push(format!("{title} came, and its sender was told that it failed"))
                }
                _ => {}
            }
        }
        let slots = self.home.git(["for-each-ref", "--format=%(refname)", "refs/aynig/deferred/"]);
        wrong.extend(slots.lines().map(|slot| format!("{slot} still waits")));
        wrong
    }

    fn grow(&mut self, many: u32) {
        let names: Vec<String> = (self.branches..self.branches + many).map(|n| format!("b{n:03}")).collect();
        self.home.ready_many(&names, "work");
        self.branches += many;
    }

    fn start(&self, dice: &mut Dice) -> Runner {
        let number = dice.roll(self.hosts.len().max(1));
        let (host, offset) = self.host(number);
        let mut command = host.aynig_command();
        command.args([
            "run",
            "--lease-seconds",
            dice.pick(&["1", "2"]),
            "--jobs",
            dice.pick(&["1", "2", "3"]),
        ]);
        command.arg(dice.pick(&["--drain", "--grace-seconds=1"]));
        command.env("AYNIG_RUNNER_ID", format!("host-{number}"));
        command.env("AYNIG_CLOCK_OFFSET_SECONDS", offset.to_string());
        if let Some(faulty) = &self.faulty {
            command.args(["--remote", "origin", "--skew-seconds", &SKEW.to_string()]);
            let path = std::env::var("PATH").expect("a PATH");
            command.env("PATH", format!("{}:{path}", faulty.display()));
        }
        if dice.roll(3) == 0 {
            let (point, signal) = (dice.pick(Point::ALL).name(), dice.pick(&["kill", "kill", "stop"]));
            command.env("AYNIG_CRASH_AT", format!("{point}:{signal}:{}", 1 + dice.roll(4)));
        }
        let said = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.home.beside("stderr"))
            .expect("a file");
        let child = command.stdout(Stdio::null()).stderr(said).spawn().expect("aynig starts");
        Runner { child, stopped: false }
    }

    /// Writes a note into the room, to be read after a failure.
    fn account(&self, name: &str, text: &str) {
        let file = std::fs::File::options().create(true).append(true).open(self.home.beside(name));
        writeln!(file.expect("a file"), "{text}").expect("it is written");
    }

    /// Waits for every runner and every branch to finish, then saves what is left on each host.
    fn settle(&self, mut runners: Vec<Runner>) {
        for runner in &mut runners {
            runner.signal(Signal::SIGTERM);
        }
        wait_until("the runners to end", || {
            runners.retain_mut(|runner| {
                runner.signal(Signal::SIGCONT);
                !runner.has_ended()
            });
            runners.is_empty()
        });
        for line in self.home.noted_lines("journal").iter().filter(|line| line.starts_with("began ")) {
            let mut words = line.rsplit(' ').map(|word| word.parse::<i64>().expect("a number"));
            let (pid, began) = (words.next().expect("a process id"), words.next().expect("a time"));
            let pid = i32::try_from(pid).expect("a process id");
            wait_until(&format!("process {pid} to end"), || !is_alive(pid) || started(pid) > began);
        }
        let hosts: Vec<&Repo> = (0..self.hosts.len().max(1)).map(|number| self.host(number).0).collect();
        hosts.iter().for_each(|host| host.deserted());
        let pass = |host: &Repo, round: u32| {
            self.reopen(host);
            let mut command = host.aynig_command();
            command.args(["run", "--drain", "--jobs", "3"]);
            // Later than the end of every lease, and than the pause after a `stalled` that stalled (CONTRACT 11.19).
            command.env("AYNIG_CLOCK_OFFSET_SECONDS", (30 + 4_000 * round).to_string());
            if self.faulty.is_some() {
                command.args(["--remote", "origin", "--skew-seconds", &SKEW.to_string()]);
            }
            let output = command.output().expect("aynig runs");
            self.account("settled", &told(&output));
            (output.status.code(), told(&output))
        };
        hosts.iter().for_each(|host| drop(pass(host, 0)));
        hosts.iter().for_each(|host| remove_locks_of_commands(host));
        let pass = |host: &Repo, round: u32| {
            let (code, said) = pass(host, round);
            assert!(matches!(code, Some(0 | 1)), "{said}");
            said
        };
        let mut said = Vec::new();
        for round in 1..=ROUNDS {
            said = hosts.iter().map(|host| pass(host, round)).collect();
        }
        let heads = self.home.git(["for-each-ref", "--format=%(refname:short) %(subject)", "refs/heads"]);
        let stuck = heads.lines().filter(|line| !line.starts_with("main ") && !line.ends_with(": set done"));
        assert_eq!(stuck.collect::<Vec<_>>(), Vec::<&str>::new(), "{}", said.join("\n"));
    }

    fn assert_lawful(&self, seed: u64) {
        let journal = self.home.noted_lines("journal");
        let skew = if self.faulty.is_some() { SKEW } else { 0 };
        let law = Law { remote: self.faulty.is_some(), skew, due: &["work", "review", "stalled"] };
        let mut wrong = judge(&self.home, &law, &journal);
        let mut repos = vec![&self.home];
        repos.extend(self.hosts.iter().map(|(host, _)| host));
        let lost = lost_work(&repos, &journal);
        wrong.extend(lost.into_iter().map(|name| format!("{name} is lost")));
        wrong.extend(self.astray());
        let said = std::fs::read_to_string(self.home.beside("stderr")).unwrap_or_default();
        let bugs = said.lines().filter(|line| line.contains("panicked") || line.contains("bug"));
        wrong.extend(bugs.map(str::to_owned));
        assert_eq!(wrong, Vec::<String>::new(), "CHAOS_SEED={seed}");
        repos.iter().for_each(|repo| repo.assert_tidy());
    }
}

impl Drop for Field {
    /// A failure here may not recur for days, so its room is kept.
    fn drop(&mut self) {
        if std::thread::panicking() {
            let hosts = self.hosts.iter_mut().map(|(host, _)| host);
            for repo in hosts.chain([&mut self.home]) {
                repo.room.disable_cleanup(true);
                tell(&format!("the room is kept: {}", repo.room.path().display()));
            }
        }
    }
}

/// Removes lock files of gits that a command had started and that were killed with it. Only a person can know
/// that such a lock is stale; runners report its path. Locks of the runners' own may not remain; those
/// contain a runner's commit.
fn remove_locks_of_commands(host: &Repo) {
    let locks = files_below(&host.path.join(".git/refs")).into_iter();
    for lock in locks.filter(|path| path.extension().is_some_and(|extension| extension == "lock")) {
        let value = std::fs::read_to_string(&lock).unwrap_or_default();
        let runners = !value.trim().is_empty() && !host.trailer(value.trim(), "dwp-state").is_empty();
        assert!(!runners, "a runner's lock was left: {}", lock.display());
        std::fs::remove_file(&lock).ok();
    }
}

/// A variable that sets the size of a random run.
pub(crate) fn from_environment<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// The time that a long random run lasts at least: `CHAOS_MINUTES`, five by default.
pub(crate) fn long() -> Duration {
    Duration::from_secs(60 * from_environment("CHAOS_MINUTES").unwrap_or(5))
}

fn run(mut field: Field, seed: u64, steps: u32) {
    tell(&format!("CHAOS_SEED={seed} CHAOS_STEPS={steps}"));
    let mut dice = Dice(seed);
    let mut runners: Vec<Runner> = Vec::new();
    field.grow(6);
    for _ in 0..steps {
        runners.retain_mut(|runner| !runner.has_ended());
        let any = |dice: &mut Dice, stopped: bool, runners: &[Runner]| {
            let fit: Vec<usize> = (0..runners.len()).filter(|at| runners[*at].stopped == stopped).collect();
            (!fit.is_empty()).then(|| dice.pick(&fit))
        };
        match dice.roll(10) {
            0..4 if runners.len() < MOST_RUNNERS => runners.push(field.start(&mut dice)),
            0..5 => {
                if let Some(at) = any(&mut dice, false, &runners) {
                    runners[at].signal(dice.pick(&[Signal::SIGKILL, Signal::SIGKILL, Signal::SIGTERM]));
                }
            }
            5 => {
                if let Some(at) = any(&mut dice, false, &runners) {
                    runners[at].signal(Signal::SIGSTOP);
                    runners[at].stopped = true;
                }
            }
            // Includes runners that stopped themselves at a crash point.
            6..8 if !runners.is_empty() => {
                let at = dice.roll(runners.len());
                runners[at].signal(Signal::SIGCONT);
                runners[at].stopped = false;
            }
            8 if dice.roll(2) == 0 => field.cancel(&mut dice),
            9 if dice.roll(2) == 0 => field.defer(&mut dice),
            8 if field.branches < MOST_BRANCHES.0 + steps / MOST_BRANCHES.1 => field.grow(1),
            _ => {}
        }
        std::thread::park_timeout(Duration::from_millis(u64::try_from(dice.roll(120)).expect("small")));
    }
    field.settle(runners);
    field.assert_lawful(seed);
    let journal = field.home.noted_lines("journal");
    let runs: BTreeSet<&str> = journal.iter().filter_map(|line| line.split(' ').nth(1)).collect();
    let kept: usize = field.hosts.iter().map(|(host, _)| host.rescues().len()).sum();
    tell(&format!(
        "{} branches, {} attempts, {} deferred states, {} rescues",
        field.branches,
        runs.len(),
        field.sent.iter().filter(|(_, code)| *code == Some(0)).count(),
        field.home.rescues().len() + kept
    ));
    assert!(runs.len() >= usize::try_from(field.branches).expect("small"), "every branch was worked on");
}

/// Progress, and the record of a failure.
pub(crate) fn tell(line: &str) {
    writeln!(std::io::stdout(), "{line}").ok();
}

/// The seed: `CHAOS_SEED`, else a new one.
pub(crate) fn seed() -> u64 {
    from_environment("CHAOS_SEED").unwrap_or_else(|| now().wrapping_mul(0x2545_F491_4F6C_DD1D))
}

fn steps(unless_told: u32) -> u32 {
    from_environment("CHAOS_STEPS").unwrap_or(unless_told)
}

#[test]
fn chaos_in_a_repository() {
    run(Field::local(), seed(), steps(sized(STEPS.0, STEPS.1)));
}

#[test]
fn chaos_on_a_remote() {
    let seed = seed();
    run(Field::remote(seed), seed, steps(sized(STEPS.0, STEPS.1)));
}

#[test]
#[ignore = "takes a quarter of an hour: cargo test --test it -- --ignored chaos --nocapture"]
fn long_chaos_in_a_repository() {
    run(Field::local(), seed(), steps(MANY_STEPS));
}

#[test]
#[ignore = "takes a quarter of an hour: cargo test --test it -- --ignored chaos --nocapture"]
fn long_chaos_on_a_remote() {
    let seed = seed();
    run(Field::remote(seed), seed, steps(MANY_STEPS));
}
