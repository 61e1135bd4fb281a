//! A directory for a case, the hermetic programs in it, and repositories made by `git fast-import`.

use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Sizes;

/// A temporary directory with a template in it, which is copied for every run.
pub(super) struct Room {
    directory: tempfile::TempDir,
    copies: usize,
}

/// A trivial step done by plain git, in `sh`. `$1` is the branch; `$REMOTE` is set if a remote decides.
pub(super) const PLAIN_STEP: &str = r#"#!/bin/sh
set -eu
# Calls at the same time read each other's half-made registrations of worktrees and fail; they are made again.
again() { n=0; until "$@" 2>/dev/null; do n=$((n + 1)); [ $n -lt 50 ]; done; }
branch=$1 wt=$PWD/.worktrees/$1
if [ -n "${REMOTE-}" ]; then ref=refs/remotes/origin/$branch; else ref=refs/heads/$branch; fi
tip=$(again git rev-parse --verify "$ref")
run=$(cat /proc/sys/kernel/random/uuid)
lease=$(printf 'chore: working\n\ndwp-state: working\ndwp-origin-state: work\ndwp-run-id: %s\ndwp-runner-id: bench\ndwp-lease-seconds: 300\n' "$run" |
    git commit-tree -p "$tip" -F - "$tip^{tree}")
if [ -n "${REMOTE-}" ]; then
    again git push --quiet --force-with-lease="refs/heads/$branch:$tip" origin "$lease:refs/heads/$branch"
    again git worktree add --quiet --detach "$wt" "$lease"
else
    again git update-ref "$ref" "$lease" "$tip"
    again git worktree add --quiet "$wt" "$branch"
fi
mkdir -p .aynig/logs
(cd "$wt" && exec .aynig/command/work) >".aynig/logs/$tip.stdout.log" 2>".aynig/logs/$tip.stderr.log" </dev/null
grep -q '^SET_STATE {"state":"done"}$' ".aynig/logs/$tip.stdout.log"
tree=$(again git -C "$wt" write-tree)
result=$(printf 'chore: set done\n\ndwp-state: done\n' | git commit-tree -p "$lease" -F - "$tree")
if [ -n "${REMOTE-}" ]; then
    again git push --quiet --force-with-lease="refs/heads/$branch:$lease" origin "$result:refs/heads/$branch"
else
    again git update-ref "$ref" "$result" "$lease"
fi
again git worktree remove "$wt"
"#;

/// The command of a trivial step.
const COMMAND: &str = "#!/bin/sh\necho 'SET_STATE {\"state\":\"done\"}'\n";

impl Room {
    /// An empty one.
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let room = Self { directory, copies: 0 };
        room.script("plain-step", PLAIN_STEP);
        room
    }

    /// A path in it.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().expect("it exists").join(name)
    }

    /// Makes a program in it.
    pub(super) fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).expect("a file");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("chmod");
        path
    }

    /// A program that finds only the repository's configuration.
    pub(super) fn program(&self, program: impl AsRef<std::ffi::OsStr>, directory: &Path) -> Command {
        let mut command = Command::new(program);
        for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "ROLE", "LOG_LEVEL"] {
            command.env_remove(name);
        }
        command
            .envs([("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_SYSTEM", "/dev/null")])
            .envs([("LC_ALL", "C"), ("TZ", "UTC"), ("NO_COLOR", "1")])
            .current_dir(directory);
        command
    }

    /// `aynig` in a directory.
    pub(super) fn aynig(&self, directory: &Path, arguments: &[&str]) -> Command {
        let mut command = self.program(env!("CARGO_BIN_EXE_aynig"), directory);
        command.args(arguments);
        command
    }

    /// The other build of `aynig` in a directory, if one is set for comparison.
    pub(super) fn other(&self, sizes: &Sizes, directory: &Path, arguments: &[&str]) -> Option<Command> {
        let mut command = self.program(sizes.beside.as_ref()?, directory);
        command.args(arguments);
        Some(command)
    }

    /// `git` in a directory; it must succeed.
    pub(super) fn git(&self, directory: &Path, arguments: &[&str], input: &str) -> String {
        let mut command = self.program("git", directory);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("git starts");
        child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("git reads");
        let output = child.wait_with_output().expect("git ends");
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// A bare repository `name` with a commit of `files` files on `main`, and for each of `branches` a commit
    /// on top that declares `state`. All refs are packed.
    pub(super) fn repository(
        &self,
        name: &str,
        files: usize,
        branches: &[String],
        state: Option<&str>,
    ) -> PathBuf {
        let path = self.path(name);
        self.git(&self.path(""), &["init", "--quiet", "--bare", "--initial-branch=main", name], "");
        self.git(&path, &["config", "user.name", "Bench"], "");
        self.git(&path, &["config", "user.email", "bench@example.com"], "");
        let who = "committer Bench <bench@example.com> 1700000000 +0000";
        let mut stream = format!("commit refs/heads/main\nmark :1\n{who}\ndata 5\nstart\n");
        let mut file = |mode: &str, path: &str, text: &str| {
            write!(stream, "M {mode} inline {path}\ndata {}\n{text}\n", text.len()).expect("memory");
        };
        file("100755", ".aynig/command/work", COMMAND);
        for n in 0..files {
            file("100644", &format!("dir{}/file{n}", n / 100), &format!("file {n} of many\n"));
        }
        stream.push('\n');
        for branch in branches {
            let trailer = state.map(|state| format!("\n\ndwp-state: {state}")).unwrap_or_default();
            let message = format!("about {branch}\n\nthe body of {branch}{trailer}\n");
            write!(stream, "commit refs/heads/{branch}\n{who}\ndata {}\n{message}from :1\n\n", message.len())
                .expect("memory");
        }
        self.git(&path, &["fast-import", "--quiet"], &stream);
        self.git(&path, &["pack-refs", "--all"], "");
        path
    }

    /// A fresh copy of `template`.
    pub(super) fn copy(&mut self, template: &Path) -> PathBuf {
        self.copies += 1;
        let copy = self.path(&format!("copy{}", self.copies));
        let status = Command::new("cp").arg("-a").arg(template).arg(&copy).status().expect("cp");
        assert!(status.success());
        copy
    }
}
