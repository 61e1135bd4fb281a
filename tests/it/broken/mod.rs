//! Broken environments. Each ends in a message that says what was tried, why it failed and what to do, with a
//! documented exit code and no half-written file. Once the cause is gone, the next pass works normally.
//!
//! Some tests need a mount or another user. Where that is not possible they print the reason and are skipped.

mod clones;
mod configuration;
mod elsewhere;
mod full;
mod locks;
mod mounts;
mod objects;
pub(crate) mod read_only;
mod runs;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub(crate) use full::Small;

use super::probe::*;
use super::support::*;

/// A command that stages a file, creates another, and then runs `rest`.
fn working(rest: &str) -> String {
    format!("echo made > made; git add made; echo loose > loose\n{rest}")
}

/// Prints why a test is skipped.
#[expect(clippy::print_stderr, reason = "whoever runs the tests is to see it")]
fn skipped(why: &str) {
    eprintln!("skipped: {why}");
}

/// Whether the tests run as root. Tests that need root and do not have it print a skip.
pub(crate) fn is_root() -> bool {
    let root = std::fs::metadata("/proc/self").expect("it is there").uid() == 0;
    if !root {
        skipped("only root may mount and take on other users");
    }
    root
}

/// Whether mounts can be made in a private namespace.
pub(crate) fn may_mount() -> bool {
    let made = Command::new("unshare").args(["-m", "mount", "-t", "tmpfs", "none", "/mnt"]).output();
    let may = is_root() && made.as_ref().is_ok_and(|output| output.status.success());
    if !may {
        skipped(&format!("no mounts can be made here: {made:?}"));
    }
    may
}

impl Repo {
    /// Runs `aynig run` after a piece of shell, which finds `ROOM` in its environment. Mounts end with it.
    fn run_after(&self, wrapper: &[&str], shell: &str, arguments: &[&str]) -> Output {
        let script = format!("{shell}\nexec \"$@\"");
        let mut command = Command::new(wrapper.first().copied().unwrap_or("sh"));
        command.args(wrapper.iter().skip(1));
        if !wrapper.is_empty() {
            command.arg("sh");
        }
        hermetic(&mut command).current_dir(&self.path).env("ROOM", self.beside(""));
        command.args(["-c", &script, "sh"]).arg(binary()).arg("run").args(arguments);
        command.output().expect("it starts")
    }

    /// The path of the loose object that a revision names.
    fn object(&self, revision: &str) -> PathBuf {
        let id = self.git(["rev-parse", "--verify", revision]);
        self.path.join(".git/objects").join(&id[..2]).join(&id[2..])
    }

    /// Asserts that the git directory has no lock file and no half-written object.
    fn assert_nothing_half_written(&self) {
        let odd: Vec<PathBuf> = files_below(&self.path.join(".git"))
            .into_iter()
            .filter(|path| {
                let name = path.file_name().expect("a file").to_string_lossy().into_owned();
                name.ends_with(".lock") || name.starts_with(".tmp") || name.starts_with("tmp_obj")
            })
            .collect();
        assert_eq!(odd, Vec::<PathBuf>::new());
    }

    /// Asserts that, with the cause gone, `work` continues from where it was to `done`.
    fn assert_goes_on(&self) {
        self.run_expecting(0, &["--branch", "work"]);
        assert_eq!(self.state("work"), "done");
        self.assert_tidy();
    }

    /// Asserts that the branch was stalled, and that `--retry` runs it to its end.
    fn assert_goes_on_after_retry(&self) {
        assert_eq!(self.state("work"), "stalled");
        self.aynig_ok(["set-state", "--retry", "--branch", "work"]);
        self.assert_goes_on();
    }

    /// Asserts that exactly one worktree is left, and that the output reports it as left in place.
    fn assert_left(&self, output: &Output) -> PathBuf {
        let worktrees = self.worktrees();
        assert_eq!(worktrees.len(), 1, "{}{}", out(output), err(output));
        assert!(out(output).contains(&format!("left in place: {}", worktrees[0])), "{}", out(output));
        PathBuf::from(&worktrees[0])
    }

    /// Runs passes until the lease that could not be settled expires. The work is in the rescue then.
    fn assert_recovers_with_work(&self) {
        self.run_until("work", "stalled", &["run"]);
        let rescues = self.rescues();
        assert_eq!(rescues.len(), 1, "{rescues:?}");
        for (file, text) in [("made", "made"), ("loose", "loose")] {
            assert_eq!(self.git(["show", &format!("{}:{file}", rescues[0])]), text);
        }
        self.assert_tidy();
    }
}

/// Asserts that a run exited with `code` and printed each of these words on stderr.
fn assert_told(output: &Output, code: i32, words: &[&str]) {
    assert_exit(output, code);
    for word in words {
        assert!(err(output).contains(word), "{word:?} is missing in: {}{}", err(output), out(output));
    }
}

/// A file that fills the file system below `directory`. Removing it frees the space.
fn fill(directory: &Path) -> PathBuf {
    let filler = directory.join("filler");
    let mut file = std::fs::File::create(&filler).expect("a file");
    while std::io::Write::write_all(&mut file, &[0; 4096]).is_ok() {}
    filler
}
