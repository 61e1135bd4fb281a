//! `aynig demo`: what it promises to a first-time user.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use super::support::*;

/// The demo, in a directory of its own that also holds its temporary directories.
fn demo(room: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(binary());
    hermetic(&mut command).arg("demo").args(arguments).current_dir(room).env("TMPDIR", room);
    command.output().expect("aynig runs")
}

fn room() -> (tempfile::TempDir, PathBuf) {
    let room = tempfile::tempdir().expect("a temporary directory");
    let path = room.path().canonicalize().expect("it exists");
    (room, path)
}

/// Wraps the demo's repository in a `Repo`, for the helpers of `support`.
fn assert_story_told(room: tempfile::TempDir, path: PathBuf, output: &Output) {
    let text = out(output);
    assert_eq!(output.status.code(), Some(0), "{text}{}", err(output));
    assert!(text.lines().count() < 60, "{text}");
    assert!(text.contains(&path.display().to_string()), "{text}");
    assert!(text.contains("wanted 3, got 2"), "the failure is told: {text}");
    assert!(text.contains("git log --graph") && text.contains("aynig status --all"), "{text}");

    let repo = Repo { room, path };
    for name in ["shout", "count", "reverse"] {
        let branch = format!("feature/{name}");
        assert_eq!(repo.state(&branch), "done", "{branch}");
        assert_ne!(repo.git(["show", &format!("{branch}:bin/{name}")]), "");
    }
    let states = repo.git(["log", "--format=%(trailers:key=dwp-state,valueonly)", "feature/count"]);
    assert_eq!(states.lines().filter(|state| *state == "stalled").count(), 1, "{states}");
    assert_eq!(repo.trailer("feature/count", "dwp-attempt"), "2");
    assert_eq!(repo.trailer("feature/shout", "dwp-attempt"), "1");
    assert_eq!(repo.git(["status", "--porcelain"]), "");
    assert_eq!(repo.rescues(), Vec::<String>::new());
    repo.assert_tidy();
}

#[test]
fn in_a_directory_that_does_not_exist_yet() {
    let (room, path) = room();
    let output = demo(&path, &["deep/down here"]);
    assert_story_told(room, path.join("deep/down here"), &output);
}

#[test]
fn in_an_empty_directory_inside_another_repository() {
    let (room, path) = room();
    let mut git = Command::new("git");
    let made = hermetic(&mut git).args(["init", "--quiet"]).current_dir(&path).status().expect("git runs");
    assert!(made.success());
    std::fs::create_dir(path.join("inside")).expect("a directory");
    let output = demo(&path, &["inside"]);
    assert_story_told(room, path.join("inside"), &output);
}

#[test]
fn in_a_temporary_directory_that_stays() {
    let (room, path) = room();
    let output = demo(&path, &[]);
    let mut made: Vec<PathBuf> =
        std::fs::read_dir(&path).expect("the room").flatten().map(|entry| entry.path()).collect();
    assert_eq!(made.len(), 1, "{made:?}");
    let place = made.remove(0);
    assert!(place.file_name().expect("a name").to_string_lossy().starts_with("aynig-demo-"));
    assert_story_told(room, place, &output);
}

#[test]
fn with_nothing_in_the_environment_but_path_and_home() {
    let (room, path) = room();
    let home = path.join("home");
    std::fs::create_dir(&home).expect("a directory");
    let output = Command::new(binary())
        .args(["demo", "here"])
        .current_dir(&path)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").expect("a PATH"))
        .env("HOME", &home)
        .output()
        .expect("aynig runs");
    assert_story_told(room, path.join("here"), &output);
}

#[test]
fn with_a_persons_odd_configuration() {
    let (room, path) = room();
    std::fs::write(path.join("ignored"), ".aynig\nbin\n*.md\n").expect("a file");
    std::fs::write(
        path.join("gitconfig"),
        format!(
            "[init]\n\tdefaultBranch = trunk\n[commit]\n\tgpgSign = true\n[core]\n\texcludesFile = {}\n\tautocrlf = input\n",
            path.join("ignored").display()
        ),
    )
    .expect("a file");
    let mut command = Command::new(binary());
    hermetic(&mut command).args(["demo", "here"]).current_dir(&path);
    let output = command.env("GIT_CONFIG_GLOBAL", path.join("gitconfig")).output().expect("aynig runs");
    assert_story_told(room, path.join("here"), &output);
}

#[test]
fn a_directory_with_something_in_it_is_left_alone() {
    let (_room, path) = room();
    std::fs::create_dir(path.join("full")).expect("a directory");
    std::fs::write(path.join("full/mine"), "precious").expect("a file");
    for name in ["full", "full/mine"] {
        let output = demo(&path, &[name]);
        assert_eq!(output.status.code(), Some(3), "{}{}", out(&output), err(&output));
        assert!(err(&output).contains(&path.join(name).display().to_string()), "{}", err(&output));
        assert!(err(&output).contains("hint:"), "{}", err(&output));
        assert_eq!(out(&output), "");
    }
    assert_eq!(files_below(&path), [path.join("full/mine")]);
}

#[test]
fn without_git_it_says_so_and_makes_nothing() {
    let (_room, path) = room();
    let mut command = Command::new(binary());
    hermetic(&mut command).args(["demo", "here"]).current_dir(&path).env("PATH", "/nonexistent");
    let output = command.output().expect("aynig runs");
    assert_eq!(output.status.code(), Some(3));
    assert!(err(&output).contains("`git`"), "{}", err(&output));
    assert!(!path.join("here").exists());
}

/// Asserts that these texts are in `text`, in this order.
fn assert_in_order(text: &str, parts: &[&str]) {
    let mut rest = text;
    for part in parts {
        let (_, after) =
            rest.split_once(part).unwrap_or_else(|| panic!("{part:?} is missing in {rest}\n=={text}"));
        rest = after;
    }
}

/// Asserts that a flow was shown from its start to its verdict, and that it is all in `place`.
fn assert_flow_shown(room: tempfile::TempDir, place: &Path, output: &Output) {
    let text = out(output);
    assert_eq!(output.status.code(), Some(0), "{text}{}", err(output));
    assert!(text.lines().count() < 100, "{text}");
    let project = place.join("project");
    assert_in_order(
        &text,
        &[
            &format!("A repository to look at: {}\n", project.display()),
            "\n$ aynig flow check fix.yaml --base main\n",
            "\n$ aynig flow start fix.yaml --input task=",
            "implement completed -> test",
            "test error -> judge",
            "judge partial -> implement",
            "implement visit 2 completed -> test",
            "test visit 2 completed -> judge",
            "judge visit 2 success -> approve",
            "\n$ aynig flow show ",
            "Is this what you wanted: Write bin/count",
            "\n$ aynig flow approve ",
            "\n$ aynig run --drain\n",
            "\n$ aynig flow list\n",
            "  succeeded ",
            "\n$ git diff main work/",
            "+# count: see tests/count\n",
            "\nNext:\n",
            "aynig flow log ",
            "git log --oneline work/",
            &format!("rm -r {}", place.display()),
        ],
    );
    let repo = Repo { room, path: project };
    let driver = repo.git(["for-each-ref", "--format=%(refname:short)", "refs/heads/run/"]);
    assert_eq!(repo.state(&driver), "flow-done");
    let work = driver.replacen("run/", "work/", 1);
    assert_eq!(repo.git(["diff", "--name-only", "main", &work]), "bin/count");
    assert!(repo.show(&format!("{work}:bin/count")).contains("NF"), "the second attempt");
    assert_eq!(repo.git(["status", "--porcelain"]), "");
    let log = out(&repo.aynig_ok(["flow", "log", driver.split('/').nth(1).expect("a slug")]));
    assert!(log.contains("That is it."), "{log}");
}

#[test]
fn a_flow_from_its_start_to_its_verdict() {
    let (room, path) = room();
    let began = Instant::now();
    let output = demo(&path, &["--flow", "deep/here"]);
    assert!(began.elapsed() < Duration::from_secs(60), "under a minute");
    let made: Vec<_> = std::fs::read_dir(&path).expect("the room").flatten().collect();
    assert_eq!(made.len(), 1, "nothing is made elsewhere: {made:?}");
    assert_flow_shown(room, &path.join("deep/here"), &output);
}

#[test]
fn a_flow_whatever_the_user_has_configured() {
    let (room, path) = room();
    let home = path.join("home");
    std::fs::create_dir(&home).expect("a directory");
    std::fs::write(
        home.join(".gitconfig"),
        "[aynig]\n\tremote = nowhere\n\trunPrefix = other/\n\tevaluator = false\n[commit]\n\tgpgSign = true\n[core]\n\tpager = false\n",
    )
    .expect("a file");
    let output = Command::new(binary())
        .args(["demo", "--flow", "here"])
        .current_dir(&path)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").expect("a PATH"))
        .env("HOME", &home)
        .output()
        .expect("aynig runs");
    assert_eq!(files_below(&home), [home.join(".gitconfig")]);
    assert_flow_shown(room, &path.join("here"), &output);
}

#[test]
fn a_graph_from_its_file_to_its_end() {
    let (room, path) = room();
    let began = Instant::now();
    let output = demo(&path, &["--orchestration", "deep/here"]);
    assert!(began.elapsed() < Duration::from_secs(60), "under a minute");
    let made: Vec<_> = std::fs::read_dir(&path).expect("the room").flatten().collect();
    assert_eq!(made.len(), 1, "nothing is made elsewhere: {made:?}");
    let text = out(&output);
    assert_eq!(output.status.code(), Some(0), "{text}{}", err(&output));
    assert!(text.lines().count() < 110, "{text}");
    let said = err(&output);
    assert!(said.contains(" is paused: `aynig orch run resume "), "{said}");
    let place = path.join("deep/here");
    let project = place.join("project");
    assert_in_order(
        &text,
        &[
            &format!("A repository to look at: {}\n", project.display()),
            "\n$ cat pair.yaml\n",
            "\n$ aynig orch check pair.yaml\n",
            "\n$ aynig orch run create --from pair.yaml\n",
            "\n$ aynig orch chat ",
            "\n$ aynig run --drain\n",
            "\n$ aynig orch approvals\n",
            "bin/count",
            "\n$ aynig orch approve ",
            " --always\n",
            "\n$ aynig run --drain\n",
            "\n$ aynig orch show ",
            "\nstatus     paused\n",
            "3 turns of ada ended with the same text",
            "\nallowed    ada may use write: bin/count",
            "\n$ aynig workspace rollback ",
            ", made anew\n",
            "\n$ aynig orch chat ",
            "\n$ aynig orch run resume ",
            "\n$ aynig run --drain\n",
            "\n$ aynig orch events ",
            "bin/count counts lines.",
            "count: wanted 3, got 2",
            "bin/count now counts words.",
            "\n$ git diff main work/",
            "+# count: see tests/count\n",
            "\n$ aynig orch run complete ",
            "\nNext:\n",
            "aynig orch artifact list ",
            &format!("rm -r {}", place.display()),
        ],
    );
    let repo = Repo { room, path: project };
    let driver = repo.git(["for-each-ref", "--format=%(refname:short)", "refs/heads/run/*/ada"]);
    assert_eq!(repo.state(&driver), "orch-idle");
    let work = driver.replacen("run/", "work/", 1);
    assert!(repo.show(&format!("{work}:bin/count")).contains("NF"), "the second attempt");
    assert_eq!(repo.git(["status", "--porcelain"]), "");
    let slug = driver.split('/').nth(1).expect("a slug");
    let said = out(&repo.aynig_ok(["orch", "events", slug, "--type", "message.assistant.final"]));
    assert!(said.lines().last().expect("a line").contains("I accept it"), "{said}");
    repo.aynig_ok(["orch", "doctor", slug]);
}
