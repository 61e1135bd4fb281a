//! The commands by which aynig checks its own repository.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::support::*;

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn scripts() -> Vec<PathBuf> {
    let mut scripts = files_below(&top().join(".aynig/command"));
    // The pack's tests run those.
    scripts.retain(|script| !script.is_symlink());
    scripts.extend(files_below(&top().join("src/cli/help/demo/commands")));
    scripts.extend(
        ["files/run", "flow/agent", "flow/planner"].map(|name| top().join("src/cli/help/demo").join(name)),
    );
    scripts.sort();
    scripts
}

#[test]
fn all_scripts_are_executable_and_parse() {
    assert!(scripts().len() >= 8);
    for script in scripts() {
        let mode = std::fs::metadata(&script).expect("it exists").permissions().mode();
        assert_ne!(mode & 0o111, 0, "{}", script.display());
        let text = std::fs::read_to_string(&script).expect("text");
        assert!(text.starts_with("#!/bin/sh\n# "), "{}: its header states its purpose", script.display());
        let output = Command::new("sh").arg("-n").arg(&script).output().expect("sh runs");
        assert!(output.status.success(), "{}: {}", script.display(), err(&output));
    }
    let ci = Command::new("bash").arg("-n").arg(top().join(".ci/run")).output().expect("bash runs");
    assert!(ci.status.success(), "{}", err(&ci));
}

/// Each command leads to another command or to a state that is documented as an end.
#[test]
fn the_documented_states_are_the_commands_and_lead_to_each_other() {
    let text = std::fs::read_to_string(top().join(".aynig/COMMANDS.md")).expect("text");
    let rows: Vec<(String, String)> = text
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| {
            let cells: Vec<&str> = line.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
            (cells[1].to_owned(), cells[3].to_owned())
        })
        .collect();
    let mut documented: Vec<&str> = rows.iter().map(|(state, _)| state.as_str()).collect();
    documented.extend(["stalled", "ask-again"].iter().filter(|state| text.contains(&format!("`{state}`"))));
    documented.sort_unstable();
    let mut present: Vec<String> = files_below(&top().join(".aynig/command"))
        .iter()
        .map(|path| path.file_name().expect("a name").to_string_lossy().into_owned())
        .collect();
    present.sort();
    assert_eq!(documented, present);
    for (state, next) in &rows {
        let script = std::fs::read_to_string(top().join(".aynig/command").join(state)).expect("text");
        assert!(script.contains(&format!("\"state\":\"{next}\"")), "{state} does not lead to {next}");
        assert!(
            documented.contains(&next.as_str()) || text.contains(&format!("`{next}` has no command")),
            "{next}"
        );
    }
}

#[test]
fn the_first_check_runs() {
    let repo = Repo::new();
    for name in [
        "Cargo.toml",
        "Cargo.lock",
        "rustfmt.toml",
        "src",
        "tests",
        ".aynig/command",
        ".aynig/policy.json",
        "contrib/packs/ops",
    ] {
        copy(&top().join(name), &repo.path.join(name));
    }
    repo.commit_all("the sources as they are");
    repo.ready("topic", "check-format");
    let output = repo.aynig(["run"]);
    assert_eq!(repo.state("topic"), "check-lints", "{}{}", out(&output), repo.message("topic"));
    // A tree of this size is kept for the next step.
    let left = repo.worktrees();
    assert!(left.iter().all(|path| path.contains("/aynig/pool/")), "{left:?}");

    // This check with a problem to find.
    repo.write("src/main.rs", "//! Badly formatted.\nfn main( ) { }\n");
    repo.commit_all("worse");
    repo.ready("worse", "check-format");
    let output = repo.aynig(["run", "--branch", "worse"]);
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    assert_eq!(repo.state("worse"), "stalled");
    assert!(repo.message("worse").contains("fn main() {}"), "{}", repo.message("worse"));
    repo.aynig_ok(["run", "--branch", "worse"]);
    assert_eq!(repo.state("worse"), "needs-person", "a second try would find the same");
    assert!(repo.message("worse").contains("fn main() {}"), "{}", repo.message("worse"));
}

#[test]
fn tests_of_a_second_branch_are_parked() {
    let repo = Repo::new();
    std::fs::create_dir_all(repo.path.join(".aynig/command")).expect("a directory");
    copy(&top().join(".aynig/command/check-tests"), &repo.path.join(".aynig/command/check-tests"));
    repo.commit_all("the command");
    let target = repo.beside("target");
    std::fs::create_dir(&target).expect("a directory");
    let busy = std::fs::File::create(target.join("check-tests.lock")).expect("a file");
    busy.lock().expect("a lock");
    repo.ready("topic", "check-tests");
    let output =
        repo.aynig_command().env("CARGO_TARGET_DIR", &target).arg("run").output().expect("aynig runs");
    assert!(output.status.success(), "{}", err(&output));
    assert_eq!(repo.state("topic"), "check-tests");
    assert_ne!(repo.trailer("topic", "dwp-not-before"), "", "{}", repo.message("topic"));
    let status = out(&repo.aynig_ok(["status", "--branch", "topic"]));
    assert!(status.contains("parked"), "{status}");
}

fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        std::fs::create_dir_all(to).expect("a directory");
        for entry in std::fs::read_dir(from).expect("readable").flatten() {
            copy(&entry.path(), &to.join(entry.file_name()));
        }
    } else {
        std::fs::copy(from, to).expect("a copy");
    }
}
