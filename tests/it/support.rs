//! Repositories, commands and waiting for tests.
//!
//! Every repository is hermetic: its own configuration only, a fixed identity, English messages, UTC. Tests
//! do not sleep to order events; they wait for a file, a line or a ref, with a deadline.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Long enough for a loaded machine; only a failing test waits this long.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// A repository in a temporary directory, removed with it.
pub(crate) struct Repo {
    pub room: tempfile::TempDir,
    pub path: PathBuf,
}

/// Inherited variables that must not reach the tested programs.
const FOREIGN: &[&str] = &[
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_COMMON_DIR",
    "GIT_PREFIX",
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL",
    "GIT_CEILING_DIRECTORIES",
    "ROLE",
    "LOG_LEVEL",
    "BODY",
    "BODY_PATH",
    "COMMIT_HASH",
    "WORKTREE_PATH",
    "STDOUT_LOG_PATH",
    "STDERR_LOG_PATH",
    "AYNIG_BIN",
    "AYNIG_BRANCH",
    "AYNIG_REMOTE",
    "AYNIG_RUN_ID",
    "AYNIG_LEASE_SECONDS",
    "AYNIG_GIT_DIR",
    "AYNIG_RUNNER_ID",
];

/// The trailers that only runners write (CONTRACT 4.7).
pub(crate) const MANAGED_KEYS: [&str; 7] = [
    "dwp-state",
    "dwp-source",
    "dwp-origin-state",
    "dwp-run-id",
    "dwp-runner-id",
    "dwp-lease-seconds",
    "dwp-stalled-run",
];

/// A number of cases: `few` by default, `all` if `AYNIG_TESTS_HEAVY` is set, as in CI.
pub(crate) fn sized<T>(few: T, all: T) -> T {
    if std::env::var_os("AYNIG_TESTS_HEAVY").is_some() { all } else { few }
}

/// The binary under test.
pub(crate) fn binary() -> PathBuf {
    assert_cmd::cargo::cargo_bin!("aynig").to_path_buf()
}

/// Makes a command hermetic.
pub(crate) fn hermetic(command: &mut Command) -> &mut Command {
    default_signals();
    for name in FOREIGN {
        command.env_remove(name);
    }
    command
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("TZ", "UTC")
        .env("LC_ALL", "C")
        .env("NO_COLOR", "1")
        .env("AYNIG_RUNNER_ID", "test-host")
        .stdin(Stdio::null())
}

/// stdout as text.
pub(crate) fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// stderr as text.
pub(crate) fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

impl Repo {
    /// A repository on branch `main` with an identity, and one commit that holds `README`.
    pub(crate) fn new() -> Self {
        let repo = Self::empty();
        let shared = Path::new(env!("CARGO_TARGET_TMPDIR"));
        // Kept between builds. When `make_template` changes, the name must change too.
        let template = shared.join("repository-2");
        if !template.is_dir() {
            // Created beside its final path, since a rename cannot cross file systems. Two tests may race;
            // both make the same.
            let made = Self::empty_in(shared);
            made.make_template();
            assert!(fs::rename(&made.path, &template).is_ok() || template.is_dir(), "a template");
        }
        copy_directory(&template, &repo.path);
        repo.git(["update-index", "-q", "--refresh"]);
        repo
    }

    /// A directory for a repository that does not exist yet.
    fn empty() -> Self {
        Self::empty_in(&std::env::temp_dir())
    }

    fn empty_in(directory: &Path) -> Self {
        let room = tempfile::tempdir_in(directory).expect("a temporary directory");
        let path = room.path().canonicalize().expect("it exists").join("repo");
        Self { room, path }
    }

    /// Makes the template that [`Repo::new`] copies: six calls of git that nearly every test would need.
    fn make_template(&self) {
        fs::create_dir(&self.path).expect("a fresh directory");
        self.git(["init", "--quiet", "--template=", "--initial-branch=main", "."]);
        fs::create_dir(self.path.join(".git/hooks")).expect("git made none");
        self.configure();
        self.write("README", "a repository for a test\n");
        self.commit_all("start");
    }

    /// Sets an identity. Maintenance after `git commit` stays in the foreground, else its lock shows up at times.
    pub(crate) fn configure(&self) {
        self.git(["config", "user.name", "Test Person"]);
        self.git(["config", "user.email", "person@example.com"]);
        self.git(["config", "maintenance.autoDetach", "false"]);
    }

    /// A repository with commands committed on `main`: pairs of name and `sh` script text (without the `#!` line).
    pub(crate) fn with_commands(commands: &[(&str, &str)]) -> Self {
        let repo = Self::new();
        for (name, script) in commands {
            repo.command(&format!(".aynig/command/{name}"), script);
        }
        repo.commit_all("commands");
        repo
    }

    /// Writes an executable `sh` script at `path` in the checkout.
    pub(crate) fn command(&self, path: &str, script: &str) {
        self.write(path, &format!("#!/bin/sh\n{script}\n"));
        fs::set_permissions(self.path.join(path), fs::Permissions::from_mode(0o755)).expect("chmod");
    }

    /// Writes a file in the checkout, with its directories.
    pub(crate) fn write(&self, path: &str, text: &str) {
        let file = self.path.join(path);
        fs::create_dir_all(file.parent().expect("below the checkout")).expect("directories");
        fs::write(file, text).expect("a file");
    }

    /// Commits everything in the checkout.
    pub(crate) fn commit_all(&self, message: &str) -> String {
        self.git(["add", "--all"]);
        self.git(["commit", "--quiet", "--allow-empty", "-m", message]);
        self.head("HEAD")
    }

    /// A git command in this repository, hermetic.
    pub(crate) fn git_command(&self) -> Command {
        let mut command = Command::new("git");
        hermetic(&mut command).current_dir(&self.path);
        command
    }

    /// Runs git; it must succeed. Returns stdout without the end of its last line.
    pub(crate) fn git<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> String {
        let arguments: Vec<&str> = arguments.into_iter().collect();
        let output = self.git_command().args(&arguments).output().expect("git runs");
        assert!(output.status.success(), "git {arguments:?}: {}", err(&output));
        out(&output).trim_end().to_owned()
    }

    /// Runs git with this input; it must succeed.
    pub(crate) fn git_with_input(&self, arguments: &[&str], input: &[u8]) -> String {
        let mut command = self.git_command();
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("git starts");
        std::io::Write::write_all(&mut child.stdin.take().expect("piped"), input).expect("git reads");
        let output = child.wait_with_output().expect("git ends");
        assert!(output.status.success(), "git {arguments:?}: {}", err(&output));
        out(&output).trim_end().to_owned()
    }

    /// The commit a revision names.
    pub(crate) fn head(&self, revision: &str) -> String {
        self.git(["rev-parse", "--verify", &format!("{revision}^{{commit}}")])
    }

    /// Puts a commit with this exact message, and the tree of `main`, on top of `main` as the new branch `branch`.
    pub(crate) fn branch_with_message(&self, branch: &str, message: &[u8]) -> String {
        self.branch_from("main", branch, message)
    }

    /// Puts such a commit on top of any revision, also on the branch itself.
    pub(crate) fn branch_from(&self, base: &str, branch: &str, message: &[u8]) -> String {
        let tree = self.git(["rev-parse", &format!("{base}^{{tree}}")]);
        let parent = self.head(base);
        let who = "Test Person <person@example.com>";
        let now = now();
        let mut object = format!(
            "tree {tree}\nparent {parent}\nauthor {who} {now} +0000\ncommitter {who} {now} +0000\n\n"
        )
        .into_bytes();
        object.extend_from_slice(message);
        // `hash-object` accepts any bytes, also those that `git commit` would clean up or refuse.
        let commit =
            self.git_with_input(&["hash-object", "-t", "commit", "-w", "--literally", "--stdin"], &object);
        self.git(["update-ref", &format!("refs/heads/{branch}"), &commit]);
        commit
    }

    /// A new branch whose HEAD declares `state`.
    pub(crate) fn ready(&self, branch: &str, state: &str) -> String {
        self.branch_with_message(
            branch,
            format!("please {state}\n\nthe body\n\ndwp-state: {state}\n").as_bytes(),
        )
    }

    /// The last value of a trailer at a revision, as git reads it; empty if there is none.
    pub(crate) fn trailer(&self, revision: &str, key: &str) -> String {
        let format = format!("--format=%(trailers:key={key},valueonly,unfold)");
        let text = self.git(["log", "-1", &format, revision]);
        text.lines().rev().find(|line| !line.is_empty()).unwrap_or("").to_owned()
    }

    /// The state a branch declares.
    pub(crate) fn state(&self, branch: &str) -> String {
        self.trailer(branch, "dwp-state")
    }

    /// The whole message at a revision.
    pub(crate) fn message(&self, revision: &str) -> String {
        self.git(["log", "-1", "--format=%B", revision])
    }

    /// `aynig` in this repository, hermetic.
    pub(crate) fn aynig_command(&self) -> Command {
        let mut command = Command::new(binary());
        hermetic(&mut command).current_dir(&self.path);
        command
    }

    /// Runs `aynig` to its end; any exit code is fine.
    pub(crate) fn aynig<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Output {
        self.aynig_command().args(arguments).output().expect("aynig runs")
    }

    /// Runs `aynig`; it must exit with 0.
    pub(crate) fn aynig_ok<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Output {
        let output = self.aynig(arguments);
        assert!(
            output.status.success(),
            "exit {:?}\nstdout: {}\nstderr: {}",
            output.status.code(),
            out(&output),
            err(&output)
        );
        output
    }

    /// Starts `aynig` in the background.
    pub(crate) fn aynig_start<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Running {
        let mut command = self.aynig_command();
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running::start(&mut command)
    }

    /// All rescue refs.
    pub(crate) fn rescues(&self) -> Vec<String> {
        self.git(["for-each-ref", "--format=%(refname)", "refs/aynig/rescue/"])
            .lines()
            .map(str::to_owned)
            .collect()
    }

    /// Paths of all worktrees but the main one.
    pub(crate) fn worktrees(&self) -> Vec<String> {
        // Git fails if a registration goes while it reads it.
        let read = || {
            let output =
                self.git_command().args(["worktree", "list", "--porcelain"]).output().expect("git runs");
            output.status.success().then(|| out(&output))
        };
        let list = (0..100).find_map(|_| read()).expect("the worktrees can be listed");
        list.lines().filter_map(|line| line.strip_prefix("worktree ")).skip(1).map(str::to_owned).collect()
    }

    /// A path in the room beside the repository, for files that commands and tests exchange.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.room.path().canonicalize().expect("the room").join(name)
    }

    /// Asserts that nothing was left behind: no worktree, no lock file, a clean `fsck`.
    pub(crate) fn assert_tidy(&self) {
        assert_eq!(self.worktrees(), Vec::<String>::new(), "worktrees were left behind");
        let git_dir = PathBuf::from(self.git(["rev-parse", "--absolute-git-dir"]));
        let locks =
            files_below(&git_dir).into_iter().filter(|path| path.extension().is_some_and(|e| e == "lock"));
        assert_eq!(locks.collect::<Vec<_>>(), Vec::<PathBuf>::new(), "locks were left behind");
        let fsck = self
            .git_command()
            .args(["fsck", "--strict", "--no-dangling", "--no-progress"])
            .output()
            .expect("git runs");
        assert!(fsck.status.success(), "fsck: {}{}", out(&fsck), err(&fsck));
    }
}

/// A started `aynig`; killed if the test forgets it.
pub(crate) struct Running {
    child: Option<Child>,
}

impl Running {
    /// Starts a command whose output is piped.
    pub(crate) fn start(command: &mut Command) -> Self {
        default_signals();
        Self { child: Some(command.spawn().expect("it starts")) }
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.as_ref().expect("running").id()).expect("a pid")
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: nix::sys::signal::Signal) {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.pid()), signal).expect("it runs");
    }

    /// Kills it after the deadline, unless the answer is dropped before, so that a read from it comes to an end.
    fn deadline(&self) -> mpsc::Sender<()> {
        let (reading, over) = mpsc::channel();
        let pid = nix::unistd::Pid::from_raw(self.pid());
        std::thread::spawn(move || {
            if over.recv_timeout(DEADLINE) == Err(mpsc::RecvTimeoutError::Timeout) {
                nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).ok();
            }
        });
        reading
    }

    /// The next line of its standard output, which [`Running::finish`] then leaves out.
    pub(crate) fn next_line(&mut self) -> String {
        let _deadline = self.deadline();
        let stdout = self.child.as_mut().expect("running").stdout.as_mut().expect("piped");
        let (mut line, mut byte) = (Vec::new(), [0]);
        while stdout.read(&mut byte).expect("readable") == 1 && byte != *b"\n" {
            line.extend(byte);
        }
        String::from_utf8(line).expect("text")
    }

    /// Reads its standard error up to a line that contains `words`, which [`Running::finish`] then leaves out.
    pub(crate) fn await_error(&mut self, words: &str) -> String {
        let _deadline = self.deadline();
        let stderr = self.child.as_mut().expect("running").stderr.as_mut().expect("piped");
        let (mut line, mut byte) = (Vec::new(), [0]);
        loop {
            assert_eq!(stderr.read(&mut byte).expect("readable"), 1, "it ended before it said {words}");
            if byte != *b"\n" {
                line.extend(byte);
            } else if String::from_utf8_lossy(&line).contains(words) {
                return String::from_utf8_lossy(&line).into_owned();
            } else {
                line.clear();
            }
        }
    }

    /// Waits for its end, with a deadline.
    pub(crate) fn finish(mut self) -> Output {
        let child = self.child.as_mut().expect("running");
        let out = read_all(child.stdout.take().expect("piped"));
        let err = read_all(child.stderr.take().expect("piped"));
        // If this fails the test, dropping `self` still kills the child.
        let status = wait_for("aynig to end", || child.try_wait().expect("it is ours"));
        self.child = None;
        let [stdout, stderr] =
            [out, err].map(|bytes| bytes.recv_timeout(DEADLINE).expect("nobody else keeps its output open"));
        Output { status, stdout, stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

/// Reads to the end in a thread.
fn read_all(mut source: impl Read + Send + 'static) -> mpsc::Receiver<Vec<u8>> {
    let (sender, bytes) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        source.read_to_end(&mut bytes).expect("readable");
        sender.send(bytes).ok();
    });
    bytes
}

/// Repeats `ask` until it answers; fails the test at the deadline.
pub(crate) fn wait_for<T>(what: &str, ask: impl FnMut() -> Option<T>) -> T {
    wait_within(DEADLINE, what, ask)
}

/// Repeats `ask` until it answers; fails the test after so long.
pub(crate) fn wait_within<T>(long: Duration, what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(start.elapsed() < long, "waited too long for {what}");
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

/// Waits until `so` is true.
pub(crate) fn wait_until(what: &str, mut so: impl FnMut() -> bool) {
    wait_for(what, || so().then_some(()));
}

/// Waits for a file and returns its text. The writer must create it atomically (`mv`), or write a single
/// line.
pub(crate) fn wait_for_file(path: &Path) -> String {
    wait_for(&path.display().to_string(), || fs::read_to_string(path).ok().filter(|text| !text.is_empty()))
}

/// Whether a process exists and is not a zombie.
pub(crate) fn is_alive(pid: i32) -> bool {
    state_of(pid).is_some_and(|state| !['Z', 'X'].contains(&state))
}

/// Whether a process is stopped (SIGSTOP).
pub(crate) fn is_stopped(pid: i32) -> bool {
    state_of(pid) == Some('T')
}

fn state_of(pid: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next()?.trim_start().chars().next()
}

/// Gives programs the default for signals that this process was started to ignore, as a script's background job
/// is: `exec` keeps ignored signals but resets handled ones. This process still ignores them.
fn default_signals() {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT};
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let status = fs::read_to_string("/proc/self/status").expect("the kernel tells");
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).expect("a mask");
        let mask = u64::from_str_radix(mask.trim(), 16).expect("hexadecimal");
        for signal in [SIGHUP, SIGINT, SIGQUIT] {
            if mask & (1 << (signal - 1)) != 0 {
                signal_hook::flag::register(signal, std::sync::Arc::default()).expect("a handler");
            }
        }
    });
}

/// Seconds since the epoch.
pub(crate) fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs()
}

/// Copies a directory with the modes of its files.
fn copy_directory(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory").map(|entry| entry.expect("readable")) {
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy_directory(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("copied");
        }
    }
}

/// All files below a directory.
pub(crate) fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut ahead = vec![directory.to_owned()];
    while let Some(next) = ahead.pop() {
        for entry in fs::read_dir(&next).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => ahead.push(entry.path()),
                _ => found.push(entry.path()),
            }
        }
    }
    found
}

/// stdout as JSON.
pub(crate) fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}\nstdout: {}\nstderr: {}", out(output), err(output)))
}

/// The list in an answer of one, which `--json` prints.
pub(crate) fn listed(output: &Output) -> serde_json::Value {
    let answer = json(output);
    let lists = answer.as_object().into_iter().flatten().filter(|(_, value)| value.is_array());
    let lists: Vec<_> = lists.map(|(_, list)| list.clone()).collect();
    assert_eq!((&answer["version"], lists.len()), (&1.into(), 1), "{answer}");
    lists.into_iter().next().expect("one")
}

/// Asserts a refusal: its exit code, these words on stderr, and an empty stdout.
pub(crate) fn assert_refused(output: &Output, code: i32, words: &[&str]) {
    let said = err(output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    for words in words {
        assert!(said.contains(words), "{words:?} is missing in: {said}");
    }
    assert_eq!(out(output), "", "an error has no answer");
}

impl Repo {
    /// An empty repository without a commit, on the unborn branch `main`.
    pub(crate) fn unborn() -> Self {
        let repo = Self::new();
        repo.git(["update-ref", "-d", "refs/heads/main"]);
        repo.git(["read-tree", "--empty"]);
        repo
    }

    /// `aynig` as a command of `branch` in attempt `run` would call it.
    pub(crate) fn aynig_inside(&self, branch: &str, run: &str) -> Command {
        let mut command = self.aynig_command();
        command.env("AYNIG_BRANCH", branch).env("AYNIG_RUN_ID", run);
        command.env("AYNIG_GIT_DIR", self.path.join(".git"));
        command
    }

    /// Puts a lease on a branch, dated `offset` seconds from now, as by a wrong clock.
    pub(crate) fn dated_lease(&self, branch: &str, runner: &str, seconds: u64, offset: i64) -> String {
        let run = "31111111-2222-4333-8444-555555555555";
        self.lease_of_date(branch, run, runner, seconds, now().saturating_add_signed(offset))
    }

    /// Puts a lease on a branch, dated `age` seconds ago.
    pub(crate) fn foreign_lease(
        &self,
        branch: &str,
        run: &str,
        runner: &str,
        seconds: u64,
        age: u64,
    ) -> String {
        self.lease_of_date(branch, run, runner, seconds, now() - age)
    }

    fn lease_of_date(&self, branch: &str, run: &str, runner: &str, seconds: u64, date: u64) -> String {
        let message = format!(
            "chore: set working\n\ndwp-state: working\ndwp-origin-state: build\ndwp-run-id: {run}\n\
             dwp-runner-id: {runner}\ndwp-lease-seconds: {seconds}\ndwp-pr: 7\n"
        );
        let parent = self.head(branch);
        let mut commit = self.git_command();
        let date = format!("{date} +0000");
        commit.env("GIT_COMMITTER_DATE", &date).env("GIT_AUTHOR_DATE", &date);
        let tree = format!("{branch}^{{tree}}");
        let output = commit
            .args(["commit-tree", "-p", &parent, "-m", message.trim_end(), &tree])
            .output()
            .expect("git runs");
        assert!(output.status.success(), "{}", err(&output));
        let lease = out(&output).trim_end().to_owned();
        self.git(["update-ref", &format!("refs/heads/{branch}"), &lease]);
        lease
    }
}
