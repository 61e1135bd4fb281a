//! Shared by the contract's tests: a command that notes its inputs, and repositories for one state.
//!
//! Commands find the directory beside the repository in `ROOM`, which every run started here has set.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use super::support::*;

/// Notes environment, directory, HEAD and input in `ROOM`, and declares `done`.
pub(crate) const PROBE: &str = r#"env -0 > "$ROOM/env"
pwd -P > "$ROOM/pwd"
cat > "$ROOM/stdin"
git cat-file -p HEAD > "$ROOM/head"
echo 'SET_STATE {"state":"done"}'"#;

/// A command that only declares `done`.
pub(crate) const DONE: &str = r#"echo 'SET_STATE {"state":"done"}'"#;

/// The notes of the probe.
pub(crate) struct Seen {
    variables: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Seen {
    /// A variable's value; none if it was not set.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        self.bytes(name).map(|value| String::from_utf8_lossy(value).into_owned())
    }

    /// A variable's value as bytes.
    pub(crate) fn bytes(&self, name: &str) -> Option<&[u8]> {
        self.variables.get(name.as_bytes()).map(Vec::as_slice)
    }

    /// A variable that must be set.
    pub(crate) fn text(&self, name: &str) -> String {
        self.get(name).unwrap_or_else(|| panic!("{name} is not set"))
    }

    /// A variable that names a path.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(OsStr::from_bytes(self.bytes(name).unwrap_or_else(|| panic!("{name} is not set"))))
    }

    /// All names.
    pub(crate) fn names(&self) -> Vec<String> {
        self.variables.keys().map(|name| String::from_utf8_lossy(name).into_owned()).collect()
    }
}

impl Repo {
    /// A repository whose `probe` state notes its inputs.
    pub(crate) fn probed() -> Self {
        Self::with_commands(&[("probe", PROBE)])
    }

    /// A repository with one command, `step`, and the branch `work` ready for it.
    pub(crate) fn one_step(script: &str) -> Self {
        let repo = Self::with_commands(&[("step", script)]);
        repo.ready("work", "step");
        repo
    }

    /// `aynig run` with `ROOM` set, as a `Command` to be completed.
    pub(crate) fn run_command(&self, arguments: &[&str]) -> Command {
        let mut command = self.aynig_command();
        command.env("ROOM", self.beside("")).arg("run").args(arguments);
        command
    }

    /// Runs `aynig run`; any exit code is fine.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.run_command(arguments).output().expect("aynig runs")
    }

    /// Runs `aynig run`; the exit code must be `code`.
    pub(crate) fn run_expecting(&self, code: i32, arguments: &[&str]) -> Output {
        let output = self.run(arguments);
        assert_exit(&output, code);
        output
    }

    /// Starts `aynig run` in the background.
    pub(crate) fn run_start(&self, arguments: &[&str]) -> Running {
        Running::start(self.run_command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()))
    }

    /// The notes of the last run.
    pub(crate) fn seen(&self) -> Seen {
        let bytes = fs::read(self.beside("env")).expect("the probe ran");
        let pair = |entry: &[u8]| {
            let at = entry.iter().position(|byte| *byte == b'=')?;
            Some((entry[..at].to_vec(), entry[at + 1..].to_vec()))
        };
        Seen { variables: bytes.split(|byte| *byte == 0).filter_map(pair).collect() }
    }

    /// A file that the command wrote into `ROOM`, without its last line end.
    pub(crate) fn noted(&self, name: &str) -> String {
        let text = fs::read(self.beside(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        String::from_utf8_lossy(&text).trim_end().to_owned()
    }

    /// Whether a command wrote that file.
    pub(crate) fn was_noted(&self, name: &str) -> bool {
        self.beside(name).exists()
    }

    /// Runs the probe on a new branch `work` with this message and returns its notes.
    pub(crate) fn probe_message(&self, message: &[u8]) -> Seen {
        self.branch_with_message("work", message);
        self.run_expecting(0, &[]);
        self.seen()
    }

    /// The trailer lines of a revision, in order.
    pub(crate) fn trailers(&self, revision: &str) -> Vec<String> {
        let text = self.git(["log", "-1", "--format=%(trailers:only,unfold)", revision]);
        text.lines().map(str::to_owned).collect()
    }

    /// Moves a branch to a lease dated `age` seconds ago, on top of a commit that is ready for `step`.
    pub(crate) fn lease(&self, branch: &str, age: u64, trailers: &str) -> String {
        self.ready(branch, "step");
        self.lease_at(branch, now() - age, trailers)
    }

    /// Puts a lease with this committer date on top of a branch.
    pub(crate) fn lease_at(&self, branch: &str, date: u64, trailers: &str) -> String {
        let message = format!("chore: set working\n\ndwp-state: working\n{trailers}");
        let date = format!("@{date} +0000");
        let tree = format!("{branch}^{{tree}}");
        let output = self
            .git_command()
            .args(["commit-tree", "-p", branch, "-m", &message, &tree])
            .env("GIT_AUTHOR_DATE", &date)
            .env("GIT_COMMITTER_DATE", &date)
            .output()
            .expect("git runs");
        assert!(output.status.success(), "{}", err(&output));
        let commit = out(&output).trim().to_owned();
        self.git(["update-ref", &format!("refs/heads/{branch}"), &commit]);
        commit
    }

    /// The body of a revision's message without its trailers.
    pub(crate) fn body(&self, revision: &str) -> String {
        self.git(["log", "-1", "--format=%b", revision])
    }

    /// The subject of a revision.
    pub(crate) fn subject(&self, revision: &str) -> String {
        self.git(["log", "-1", "--format=%s", revision])
    }

    /// Asserts that a branch did not move.
    pub(crate) fn assert_untouched(&self, branch: &str, head: &str) {
        assert_eq!(self.head(branch), head, "{branch} moved: {}", self.message(branch));
    }
}

/// Asserts an exit code, showing all output if it differs.
pub(crate) fn assert_exit(output: &Output, code: i32) {
    assert_eq!(
        output.status.code(),
        Some(code),
        "{}\nstdout: {}\nstderr: {}",
        output.status,
        out(output),
        err(output)
    );
}

/// The only line of stderr that names `what`; there must be exactly one.
pub(crate) fn one_message(output: &Output, what: &str) -> String {
    let text = err(output);
    let lines: Vec<&str> = text.lines().filter(|line| line.contains(what)).collect();
    assert_eq!(lines.len(), 1, "exactly one line should name {what:?}:\n{text}");
    lines[0].to_owned()
}

/// Whether `text` is a UUID in lower case.
pub(crate) fn is_uuid(text: &str) -> bool {
    let lengths: Vec<usize> = text.split('-').map(str::len).collect();
    lengths == [8, 4, 4, 4, 12] && text.chars().all(|c| c == '-' || c.is_ascii_hexdigit())
}

/// The lease trailers of a made-up attempt.
pub(crate) fn lease_trailers(seconds: &str) -> String {
    format!(
        "dwp-origin-state: step\ndwp-run-id: 0f8fad5b-d9cb-469f-a165-70867728950e\ndwp-runner-id: other-host\n\
         dwp-lease-seconds: {seconds}\n"
    )
}
