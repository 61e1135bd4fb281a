//! Shared by the tests of races, leases and ends: commands that talk to the test through files beside the
//! repository, and processes that end with their test.

use std::process::Output;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::support::*;

/// The beginning of every command of a scene. `ROOM` is the directory beside the repository.
///
/// `say NAME TEXT` creates a file there atomically. `await NAME` waits for one, and gives up when the
/// directory is gone. `next STATE` declares.
const PRELUDE: &str = r#"
say() { printf '%s\n' "$2" >"$ROOM/.$1.tmp" && mv "$ROOM/.$1.tmp" "$ROOM/$1"; }
await() { until [ -e "$ROOM/$1" ]; do [ -d "$ROOM" ] || exit 9; sleep 0.05; done; }
next() { echo "SET_STATE {\"state\":\"$1\"}"; }
"#;

impl Repo {
    /// A repository with these commands on `main`, each with the prelude.
    pub(crate) fn scene(commands: &[(&str, &str)]) -> Self {
        let repo = Self::new();
        for (name, script) in commands {
            repo.command(&format!(".aynig/command/{name}"), &repo.scripted(script));
        }
        repo.commit_all("commands");
        repo
    }

    /// A script with the prelude before it.
    pub(crate) fn scripted(&self, script: &str) -> String {
        let room = self.path.parent().expect("the room").display();
        format!("ROOM='{room}'{PRELUDE}{script}")
    }

    /// Turns the repository into a bare one.
    pub(crate) fn into_bare(self) -> Self {
        self.git(["clone", "--quiet", "--bare", ".", "../bare.git"]);
        let path = self.beside("bare.git");
        let bare = Self { room: self.room, path };
        bare.configure();
        bare
    }

    /// A clone of this repository in its own room, with `main` checked out.
    pub(crate) fn clone_beside(&self, name: &str) -> Self {
        let room = tempfile::tempdir().expect("a temporary directory");
        let path = room.path().canonicalize().expect("it exists").join(name);
        self.git(["clone", "--quiet", ".", path.to_str().expect("UTF-8")]);
        let clone = Self { room, path };
        clone.configure();
        clone
    }

    /// Branches with a commit each on top of `main` that declares `state`.
    pub(crate) fn ready_many(&self, branches: &[String], state: &str) {
        let (main, now) = (self.head("main"), now());
        let mut stream = String::new();
        for branch in branches {
            let message = format!("please {state} {branch}\n\nthe body\n\ndwp-state: {state}\n");
            stream.push_str(&format!(
                "commit refs/heads/{branch}\ncommitter Test Person <person@example.com> {now} +0000\n\
                 data {}\n{message}\nfrom {main}\n\n",
                message.len()
            ));
        }
        self.git_with_input(&["fast-import", "--quiet"], stream.as_bytes());
    }

    /// Creates the file that a command awaits.
    pub(crate) fn release(&self, name: &str) {
        std::fs::write(self.beside(name), "go\n").expect("a file");
    }

    /// Waits for a file that a command says, and returns its text.
    pub(crate) fn said(&self, name: &str) -> String {
        wait_for_file(&self.beside(name)).trim_end().to_owned()
    }

    /// The process whose id a command says.
    pub(crate) fn said_pid(&self, name: &str) -> Process {
        Process(self.said(name).parse().expect("a process id"))
    }

    /// The sorted lines of a file that commands have appended to.
    pub(crate) fn noted_lines(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.beside(name)).unwrap_or_default();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }

    /// The one rescue ref there is.
    pub(crate) fn rescue(&self) -> String {
        let rescues = self.rescues();
        assert_eq!(rescues.len(), 1, "{rescues:?}");
        rescues[0].clone()
    }

    /// A file at a revision (`rev:path`).
    pub(crate) fn show(&self, what: &str) -> String {
        self.git(["show", what])
    }

    /// All paths at a revision.
    pub(crate) fn paths_in(&self, revision: &str) -> Vec<String> {
        self.git(["ls-tree", "-r", "--name-only", revision]).lines().map(str::to_owned).collect()
    }

    /// The commits in `range`, oldest first, which must be a single line of first parents.
    pub(crate) fn linear(&self, range: &str) -> Vec<String> {
        let merges = self.git(["rev-list", "--merges", range]);
        assert_eq!(merges, "", "no merge was asked for");
        self.git(["rev-list", "--reverse", "--topo-order", range]).lines().map(str::to_owned).collect()
    }

    /// Puts a `working` commit of another runner on top of `base`, as the branch's new HEAD.
    pub(crate) fn taken_by_other(&self, base: &str, branch: &str, seconds: u64) -> String {
        let message = format!(
            "chore: working\n\ndwp-state: working\ndwp-origin-state: work\n\
             dwp-run-id: 11111111-2222-4333-8444-555555555555\ndwp-runner-id: other-host\ndwp-lease-seconds: {seconds}\n"
        );
        self.branch_from(base, branch, message.as_bytes())
    }

    /// Waits until no process is in a worktree. After a killed group or a survivor that has just exited, a
    /// `sleep` may take another moment.
    pub(crate) fn deserted(&self) {
        let worktrees = self.worktrees();
        wait_until("the worktrees to be deserted", || {
            let processes = std::fs::read_dir("/proc").expect("it is there").flatten();
            let mut places =
                processes.filter_map(|process| std::fs::read_link(process.path().join("cwd")).ok());
            !places.any(|place| worktrees.iter().any(|worktree| place.starts_with(worktree)))
        });
    }

    /// Starts a runner and kills it when its command says `ready` with its process id. Waits until the
    /// worktree has no process.
    pub(crate) fn killed_over_its_command(&self, arguments: &[&str]) {
        let runner = self.aynig_start(arguments.iter().copied());
        let command = self.said_pid("ready");
        runner.signal(Signal::SIGKILL);
        runner.finish();
        command.gone();
        self.deserted();
    }

    /// Runs passes until the branch declares `state`, for changes that come with the end of a lease.
    pub(crate) fn run_until(&self, branch: &str, state: &str, arguments: &[&str]) -> Output {
        wait_for(&format!("{branch} to be {state}"), || {
            let output = self.aynig(arguments.iter().copied());
            (self.state(branch) == state).then_some(output)
        })
    }
}

/// A process started by a command; killed at the latest with the test.
pub(crate) struct Process(pub i32);

impl Process {
    /// Whether it lives.
    pub(crate) fn lives(&self) -> bool {
        is_alive(self.0)
    }

    /// Waits for its end.
    pub(crate) fn gone(&self) {
        wait_until(&format!("process {} to end", self.0), || !self.lives());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.lives() {
            kill(Pid::from_raw(self.0), Signal::SIGKILL).ok();
        }
    }
}

/// Both streams of a finished run, for failure messages.
pub(crate) fn told(output: &Output) -> String {
    format!("exit {:?}\nstdout: {}\nstderr: {}", output.status.code(), out(output), err(output))
}
