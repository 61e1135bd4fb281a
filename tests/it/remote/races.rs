//! Many clones, many runners, two roles, one remote.

use std::net::{TcpListener, TcpStream};
use std::process::Child;

use super::*;

const CLONES: usize = 3;
const RUNNERS: usize = 2;
const BRANCHES: usize = 30;

fn step(state: &str, next: &str) -> String {
    format!(
        "echo \"$AYNIG_BRANCH {state}\" >>\"$ROOM/ran\"; echo {state} >>trace; git add trace; next {next}"
    )
}

fn field() -> (Repo, Vec<String>) {
    let hub = hub_at(&[
        (".aynig/roles/builder/command/build", &step("build", "test")),
        (".aynig/roles/tester/command/test", &step("test", "done")),
    ]);
    let branches: Vec<String> = (0..BRANCHES)
        .map(|n| if n % 3 == 0 { format!("team/{}/b{n:02}", n % 5) } else { format!("b{n:02}") })
        .collect();
    hub.ready_many(&branches, "build");
    (hub, branches)
}

/// Runners of both roles in every clone, looping until all is done.
fn race(hub: &Repo, branches: &[String], url: &str) {
    let clones: Vec<Repo> = (0..CLONES).map(|_| clone_of(hub, url)).collect();
    let all_done = || {
        let heads = hub.git(["for-each-ref", "--format=%(subject)", "refs/heads"]);
        heads.lines().filter(|subject| *subject == "chore: set done").count() == branches.len()
    };
    std::thread::scope(|scope| {
        for clone in &clones {
            for runner in 0..RUNNERS {
                let role = if runner % 2 == 0 { "builder" } else { "tester" };
                scope.spawn(move || {
                    wait_until("all branches to be done", || {
                        let arguments =
                            ["run", "--remote", "origin", "--drain", "--jobs", "3", "--role", role];
                        let runner = clone.aynig_start(arguments);
                        let output = runner.finish();
                        assert_exit(&output, 0);
                        assert!(!err(&output).contains("warning"), "{}", told(&output));
                        all_done()
                    });
                });
            }
        }
    });
    let mut expected: Vec<String> = branches
        .iter()
        .flat_map(|branch| ["build", "test"].map(|state| format!("{branch} {state}")))
        .collect();
    expected.sort();
    assert_eq!(hub.noted_lines("ran"), expected, "every step exactly once");
    for branch in branches {
        assert_eq!(states(hub, branch), ["build", "working", "test", "working", "done"], "{branch}");
        assert_eq!(hub.show(&format!("{branch}:trace")), "build\ntest");
    }
    hub.assert_tidy();
    for clone in &clones {
        assert_eq!(clone.rescues(), Vec::<String>::new());
        assert_eq!(clone.git(["for-each-ref", "--format=%(refname)", "refs/heads"]), "refs/heads/main");
        clone.assert_tidy();
    }
}

#[test]
fn three_clones_over_a_local_path() {
    let (hub, branches) = field();
    let path = hub.path.to_str().expect("UTF-8").to_owned();
    race(&hub, &branches, &path);
}

/// A `git daemon` on the loopback; ended with the test.
struct Daemon {
    child: Child,
    port: u16,
}

impl Daemon {
    fn start(hub: &Repo) -> Option<Self> {
        let program = PathBuf::from(hub.git(["--exec-path"])).join("git-daemon");
        if !program.exists() {
            return None;
        }
        // Somebody may take the port between our asking and its listening: then another.
        for _ in 0..10 {
            let port =
                TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
            let mut command = Command::new(&program);
            let base = hub.path.parent().expect("the room").display().to_string();
            hermetic(&mut command)
                .args(["--listen=127.0.0.1", "--export-all", "--enable=receive-pack", "--reuseaddr"])
                .arg("--max-connections=0")
                .args([format!("--port={port}"), format!("--base-path={base}"), base])
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            let mut child = command.spawn().expect("git daemon starts");
            let listens = wait_for("git daemon to listen or end", || {
                if child.try_wait().expect("it is ours").is_some() {
                    return Some(false);
                }
                TcpStream::connect(("127.0.0.1", port)).ok().map(|_| true)
            });
            if listens {
                return Some(Self { child, port });
            }
        }
        panic!("git daemon does not listen");
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[test]
fn three_clones_over_git_daemon() {
    let (hub, branches) = field();
    let Some(daemon) = Daemon::start(&hub) else {
        eprintln!("skipped: `git daemon` is not installed here");
        return;
    };
    race(&hub, &branches, &format!("git://127.0.0.1:{}/bare.git", daemon.port));
}
