//! Many clones, many runners, two roles and one remote: over a local path, ssh, and git's own protocol.

use std::sync::{Barrier, Condvar, Mutex};
use std::time::{Duration, Instant};

use super::*;

const CLONES: usize = 3;
const RUNNERS: usize = 3;

/// Deadline for a whole race, generous for a busy machine.
const PATIENCE: Duration = Duration::from_secs(900);

fn step(state: &str, next: &str) -> String {
    format!(
        "echo \"$AYNIG_BRANCH {state}\" >>\"$ROOM/ran\"; echo {state} >>trace; git add trace; next {next}"
    )
}

/// The states of a branch, in order. Both roles have a command for the first; one role each for the others.
fn way(n: usize) -> &'static [&'static str] {
    if n.is_multiple_of(2) { &["plan", "build", "test"] } else { &["build", "test"] }
}

fn field(branches: usize) -> (Repo, Vec<String>) {
    let hub = hub_at(&[
        (".aynig/command/plan", &step("plan", "build")),
        (".aynig/roles/builder/command/build", &step("build", "test")),
        (".aynig/roles/tester/command/test", &step("test", "done")),
    ]);
    let names: Vec<String> = (0..branches)
        .map(|n| if n % 3 == 0 { format!("team/{}/b{n:02}", n % 5) } else { format!("b{n:02}") })
        .collect();
    for (n, name) in names.iter().enumerate() {
        hub.ready_many(std::slice::from_ref(name), way(n)[0]);
    }
    (hub, names)
}

/// The hub's branches as last observed.
#[derive(Default)]
struct Sight {
    heads: Mutex<String>,
    changed: Condvar,
}

impl Sight {
    /// Observes until all branches are done, and wakes the waiting threads on each change.
    fn observe(&self, hub: &Repo, branches: usize) {
        let start = Instant::now();
        loop {
            let format = "--format=%(objectname) %(subject)";
            let now = hub.git(["for-each-ref", format, "refs/heads"]);
            let done = is_done(&now, branches);
            let late = start.elapsed() > PATIENCE;
            {
                let mut heads = self.heads.lock().expect("nobody panics with it");
                if *heads != now || late {
                    *heads = if late { String::new() } else { now };
                    self.changed.notify_all();
                }
            }
            assert!(done || !late, "waited too long for all branches to be done");
            if done {
                return;
            }
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }

    fn now(&self) -> String {
        self.heads.lock().expect("nobody panics with it").clone()
    }

    /// Waits until all is done, or until there is something new for a role. Nothing else gives a runner more
    /// to do.
    fn news_for(&self, role: &str, before: &str, branches: usize) -> String {
        let heads = self.heads.lock().expect("nobody panics with it");
        let idle = |heads: &mut String| {
            let news = |line: &str| is_for(role, line) && !before.contains(line);
            !heads.is_empty() && !is_done(heads, branches) && !heads.lines().any(news)
        };
        let (heads, _) =
            self.changed.wait_timeout_while(heads, PATIENCE, idle).expect("nobody panics with it");
        heads.clone()
    }
}

/// Whether an observed branch is in a state for which the role has a command.
fn is_for(role: &str, line: &str) -> bool {
    let own = if role == "builder" { "build" } else { "test" };
    line.split_once(' ').is_some_and(|(_, subject)| subject.contains("plan") || subject.contains(own))
}

fn is_done(heads: &str, branches: usize) -> bool {
    heads.lines().filter(|line| line.ends_with(" chore: set done")).count() == branches
}

/// Starts runners of both roles in every clone, again after each change, until all branches are done.
fn race(hub: &Repo, branches: &[String], url: &str, environment: &[(&str, String)]) -> String {
    let clones: Vec<Repo> = (0..CLONES).map(|_| clone(hub)).collect();
    for clone in &clones {
        clone.git(["remote", "set-url", "origin", url]);
    }
    let start = Instant::now();
    let (sight, together) = (Sight::default(), Barrier::new(CLONES * RUNNERS));
    std::thread::scope(|scope| {
        for (place, clone) in clones.iter().enumerate() {
            for runner in 0..RUNNERS {
                let role = if (place + runner) % 2 == 0 { "builder" } else { "tester" };
                let (sight, together) = (&sight, &together);
                scope.spawn(move || {
                    let mut seen = String::new();
                    together.wait();
                    while !is_done(&seen, branches.len()) {
                        seen = sight.now();
                        let mut command = clone.aynig_command();
                        command.args(["run", "--remote", "origin", "--drain", "--jobs", "2", "--role", role]);
                        let output = command.envs(environment.iter().cloned()).output().expect("aynig runs");
                        assert_exit(&output, 0);
                        assert!(!err(&output).contains("warning"), "{}", told(&output));
                        seen = sight.news_for(role, &seen, branches.len());
                        assert!(!seen.is_empty(), "waited too long");
                    }
                });
            }
        }
        sight.observe(hub, branches.len());
    });
    let mut expected: Vec<String> = Vec::new();
    for (n, branch) in branches.iter().enumerate() {
        expected.extend(way(n).iter().map(|state| format!("{branch} {state}")));
    }
    let cost = format!("{} steps, {:.1} s", expected.len(), start.elapsed().as_secs_f64());
    expected.sort();
    assert_eq!(hub.noted_lines("ran"), expected, "every step exactly once");
    for (n, branch) in branches.iter().enumerate() {
        let mut story: Vec<&str> = way(n).iter().flat_map(|state| [*state, "working"]).collect();
        story.push("done");
        assert_eq!(states(hub, branch), story, "{branch}");
        assert_eq!(hub.show(&format!("{branch}:trace")), way(n).join("\n"));
    }
    hub.assert_tidy();
    for clone in &clones {
        assert_eq!(clone.rescues(), Vec::<String>::new());
        assert_eq!(clone.git(["for-each-ref", "--format=%(refname)", "refs/heads"]), "refs/heads/main");
        clone.assert_tidy();
        let left: Vec<PathBuf> = fs::read_dir(clone.path.join(".worktrees"))
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.is_dir())
            .collect();
        assert_eq!(left, Vec::<PathBuf>::new(), "directories were left behind");
    }
    cost
}

/// Number of branches raced over a server, fewer than over a path.
fn served() -> usize {
    sized(12, 60)
}

/// CONTRACT 5.3, 8.1, 8.5
#[test]
fn three_clones_over_a_local_path() {
    let (hub, branches) = field(60);
    let path = hub.path.to_str().expect("UTF-8").to_owned();
    println!("{}", race(&hub, &branches, &path, &[]));
}

#[test]
fn three_clones_over_git_daemon() {
    let (hub, branches) = field(served());
    match servers::git_daemon(&hub) {
        Ok(server) => println!("{}", race(&hub, &branches, &server.url, &server.environment)),
        Err(why) => eprintln!("skipped: {why}"),
    }
}

#[test]
fn three_clones_over_ssh() {
    let (hub, branches) = field(served());
    match servers::sshd(&hub) {
        Ok(server) => println!("{}", race(&hub, &branches, &server.url, &server.environment)),
        Err(why) => eprintln!("skipped: {why}"),
    }
}

/// CONTRACT 11.26
#[test]
fn a_lost_race_is_reported_at_level_info_only() {
    for (level, is_told) in [("error", false), ("info", true)] {
        let hub = hub(&[("work", "next done")]);
        hub.ready("task", "work");
        let other = hub.taken_by_other("task", "other", 300);
        hub.git(["update-ref", "-d", "refs/heads/other"]);
        let clone = clone(&hub);
        let take = format!("\"$GIT\" --git-dir='{}' update-ref refs/heads/task {other}", hub.path.display());
        let git = Wrapper::new(&hub, &format!("[ $verb = push ] && {take}"));
        let first = git.run(&clone, &["run", "--remote", "origin", "--log-level", level]);
        assert_eq!(err(&first).contains("task: other-host holds it until"), is_told, "{}", told(&first));
        assert_exit(&first, 0);
        let second = git.run(&clone, &["run", "--remote", "origin", "--log-level", level]);
        assert_eq!(out(&second) + &err(&second), "", "the HEAD that was tried is gone");
    }
}
