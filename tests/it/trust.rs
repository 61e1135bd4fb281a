//! Trust: commands from another ref than the branch, signed HEADs only, some states only.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::scene::*;
use super::support::*;

/// A command that notes its origin, its path and its directory, by way of a script beside it.
const TRUSTED: &str = r#". "$(dirname "$0")/../lib/own.sh"; say trusted "$0|$(pwd)|$(own)"; next done"#;

/// `main` has a command for `work` with a library; the branch `task` replaces both.
fn repo() -> Repo {
    let repo = Repo::scene(&[("work", TRUSTED)]);
    repo.write(".aynig/lib/own.sh", "own() { echo from-main; }\n");
    repo.commit_all("a library");
    repo.git(["checkout", "-q", "-b", "task"]);
    let foreign = repo.scripted("say foreign yes; next done");
    repo.command(".aynig/command/work", &foreign);
    repo.command(".aynig/command/extra", &foreign);
    repo.write(".aynig/lib/own.sh", "own() { echo from-task; }\n");
    repo.commit_all("other commands");
    repo.git(["checkout", "-q", "main"]);
    ask(&repo, "task", "work");
    repo
}

/// Adds a commit that requests `state` to a branch.
fn ask(repo: &Repo, branch: &str, state: &str) -> String {
    repo.branch_from(branch, branch, format!("please {state}\n\ndwp-state: {state}\n").as_bytes())
}

pub(crate) fn was_said(repo: &Repo, name: &str) -> bool {
    repo.beside(name).exists()
}

fn forget(repo: &Repo, name: &str) {
    fs::remove_file(repo.beside(name)).expect("it was said");
}

fn copies(repo: &Repo) -> Vec<PathBuf> {
    let place = repo.path.join(".git/aynig/commands");
    fs::read_dir(place).into_iter().flatten().map(|entry| entry.expect("an entry").path()).collect()
}

pub(crate) fn reason(repo: &Repo, branch: &str) -> String {
    let rows = listed(&repo.aynig_ok(["status", "--branch", branch, "--json"]));
    rows[0]["note"].as_str().unwrap_or("").to_owned()
}

fn make_writable(directory: &Path) {
    for file in files_below(directory) {
        fs::set_permissions(file.parent().expect("a directory"), fs::Permissions::from_mode(0o755))
            .expect("chmod");
    }
}

/// CONTRACT 2.4
#[test]
fn by_default_a_branch_brings_its_own_commands() {
    let repo = repo();
    repo.aynig_ok(["run"]);
    assert!(was_said(&repo, "foreign") && !was_said(&repo, "trusted"));
    assert_eq!(copies(&repo), Vec::<PathBuf>::new());
}

/// CONTRACT 13.1, 13.3
#[test]
fn commands_from_a_ref_are_those_of_its_tree_in_the_branchs_worktree() {
    for by_setting in [false, true] {
        let repo = repo();
        if by_setting {
            repo.git(["config", "aynig.commandsFrom", "main"]);
            repo.aynig_ok(["run"]);
        } else {
            repo.aynig_ok(["run", "--commands-from", "main"]);
        }
        let said = repo.said("trusted");
        let place = repo.path.join(".git/aynig/commands");
        let [program, directory, own] = said.split('|').collect::<Vec<_>>()[..] else { panic!("{said}") };
        assert!(Path::new(program).starts_with(&place), "{said}");
        assert_eq!(directory, repo.path.join(".worktrees/task").display().to_string());
        assert_eq!(own, "from-main");
        assert_eq!(repo.state("task"), "done");
        assert!(!was_said(&repo, "foreign"));
        repo.assert_tidy();
    }
}

/// CONTRACT 13.1, 13.6
#[test]
fn a_state_for_which_only_the_branch_has_a_command_is_not_run() {
    let repo = repo();
    let head = ask(&repo, "task", "extra");
    repo.git(["config", "aynig.commandsFrom", "main"]);
    let output = repo.aynig_ok(["run", "--log-level", "debug"]);
    let words = ".aynig/command/extra is not in main";
    assert!(err(&output).contains(words), "{}", told(&output));
    assert!(reason(&repo, "task").contains(words), "{}", reason(&repo, "task"));
    assert_eq!(repo.head("task"), head);
    assert!(!was_said(&repo, "foreign"));
}

/// CONTRACT 13.1, 13.6
#[test]
fn roles_and_links_are_looked_for_there_too() {
    let repo = repo();
    repo.command(".aynig/roles/tester/command/work", &repo.scripted("say role yes; next done"));
    repo.command("tools/outside", "true");
    for (name, target) in [("linked", "work"), ("leaving", "../../tools/outside"), ("nowhere", "no-such")] {
        std::os::unix::fs::symlink(target, repo.path.join(".aynig/command").join(name)).expect("a link");
    }
    repo.write(".aynig/command/plain", "#!/bin/sh\n");
    repo.commit_all("more commands");
    repo.git(["config", "aynig.commandsFrom", "main"]);
    repo.aynig_ok(["run", "--role", "tester"]);
    assert!(was_said(&repo, "role"));
    ask(&repo, "task", "linked");
    repo.aynig_ok(["run", "--role", "tester"]);
    assert!(repo.said("trusted").contains("/linked|"), "{}", repo.said("trusted"));
    for (state, words) in [
        ("leaving", "leaves .aynig/"),
        ("nowhere", "link to no-such"),
        ("plain", "without the executable bit"),
    ] {
        let head = ask(&repo, "task", state);
        let output = repo.aynig_ok(["run"]);
        assert!(err(&output).contains(words), "{state}: {}", told(&output));
        assert!(reason(&repo, "task").contains(words), "{state}");
        assert_eq!(repo.head("task"), head, "{state}");
    }
}

/// CONTRACT 13.1
#[test]
fn in_place_the_file_on_disk_does_not_count() {
    let repo = repo();
    repo.git(["checkout", "-q", "task"]);
    repo.aynig_ok(["run", "--current-branch", "only", "--commands-from", "main"]);
    let said = repo.said("trusted");
    assert!(said.contains(&format!("|{}|from-main", repo.path.display())), "{said}");
    assert!(!was_said(&repo, "foreign"));
    assert_eq!(repo.state("task"), "done");
}

/// CONTRACT 13.3
#[test]
fn a_copy_that_was_changed_is_made_anew() {
    let repo = repo();
    repo.git(["config", "aynig.commandsFrom", "main"]);
    repo.aynig_ok(["run"]);
    let [copy] = &copies(&repo)[..] else { panic!("{:?}", copies(&repo)) };
    let (command, library) = (copy.join(".aynig/command/work"), copy.join(".aynig/lib/own.sh"));
    let mode = |path: &Path| fs::symlink_metadata(path).expect("it is there").permissions().mode() & 0o7777;
    assert_eq!([mode(copy), mode(&command), mode(&library)], [0o555, 0o555, 0o444], "not to be written");
    let original = fs::read(&command).expect("readable");
    let foreign = format!("#!/bin/sh\n{}\n", repo.scripted("say foreign yes; next done"));
    let changes: [(&str, &dyn Fn()); 6] = [
        ("another content", &|| {
            fs::set_permissions(&command, fs::Permissions::from_mode(0o755)).expect("chmod");
            fs::write(&command, &foreign).expect("a file");
            fs::set_permissions(&command, fs::Permissions::from_mode(0o555)).expect("chmod");
        }),
        ("a link in its place", &|| {
            fs::write(repo.beside("foreign.sh"), &foreign).expect("a file");
            fs::set_permissions(repo.beside("foreign.sh"), fs::Permissions::from_mode(0o555)).expect("chmod");
            fs::remove_file(&command).expect("it was there");
            std::os::unix::fs::symlink(repo.beside("foreign.sh"), &command).expect("a link");
        }),
        ("a file too many", &|| fs::write(copy.join(".aynig/lib/more"), "x").expect("a file")),
        ("a file too few", &|| fs::remove_file(&library).expect("it was there")),
        ("another mode", &|| {
            fs::set_permissions(&library, fs::Permissions::from_mode(0o644)).expect("chmod")
        }),
        ("a file for the whole", &|| {
            fs::remove_dir_all(copy).expect("it was there");
            fs::write(copy, "x").expect("a file");
        }),
    ];
    for (what, change) in changes {
        make_writable(copy);
        change();
        for directory in [".aynig/command", ".aynig/lib", ".aynig", ""] {
            // Read-only again, as the runner had made it.
            fs::set_permissions(copy.join(directory), fs::Permissions::from_mode(0o555)).ok();
        }
        forget(&repo, "trusted");
        ask(&repo, "task", "work");
        repo.aynig_ok(["run"]);
        assert!(repo.said("trusted").ends_with("|from-main"), "{what}");
        assert!(!was_said(&repo, "foreign"), "{what}");
        assert_eq!(fs::read(&command).expect("readable"), original, "{what}");
        assert_eq!(copies(&repo), std::slice::from_ref(copy), "{what}: nothing else is left");
    }
}

/// CONTRACT 13.3
#[test]
fn old_copies_go_and_the_others_stay() {
    let repo = repo();
    repo.git(["config", "aynig.commandsFrom", "main"]);
    let mut seen = Vec::new();
    for round in ["one", "two", "three"] {
        repo.write(".aynig/lib/round", round);
        repo.commit_all(round);
        ask(&repo, "task", "work");
        repo.aynig_ok(["run"]);
        seen.push(copies(&repo).into_iter().find(|copy| !seen.contains(copy)).expect("a new copy"));
    }
    let week = std::time::Duration::from_secs(7 * 24 * 60 * 60 + 60);
    let long_ago = std::time::SystemTime::now() - week;
    fs::File::open(&seen[0]).and_then(|top| top.set_modified(long_ago)).expect("a date");
    fs::create_dir(repo.path.join(".git/aynig/commands/.draft-dead")).expect("as of a dead runner");
    ask(&repo, "task", "work");
    repo.aynig_ok(["run"]);
    let (mut left, mut expected) = (copies(&repo), seen[1..].to_vec());
    left.sort();
    expected.sort();
    assert_eq!(left, expected);
}

/// CONTRACT 13.3
#[test]
fn many_runners_share_one_copy() {
    let repo = repo();
    let branches: Vec<String> = (0..8).map(|number| format!("b{number}")).collect();
    for branch in &branches {
        repo.git(["branch", branch, "task"]);
    }
    let run = ["run", "--commands-from", "main", "-j", "4"];
    let runners: Vec<Running> = (0..3).map(|_| repo.aynig_start(run)).collect();
    for runner in runners {
        assert_eq!(runner.finish().status.code(), Some(0));
    }
    for branch in &branches {
        assert_eq!(repo.state(branch), "done");
    }
    assert!(!was_said(&repo, "foreign"));
    assert_eq!(copies(&repo).len(), 1);
}

/// CONTRACT 13.2
#[test]
fn a_name_means_one_thing() {
    let repo = repo();
    // Git would resolve `main` to a tag of that name.
    repo.git(["tag", "main", "task"]);
    let trusted = repo.head("refs/heads/main");
    repo.git(["tag", "-a", "-m", "a release", "v1", "refs/heads/main"]);
    repo.git(["update-ref", "refs/remotes/origin/main", &trusted]);
    repo.git(["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main"]);
    for name in [
        "main",
        "refs/heads/main",
        "refs/tags/v1",
        "origin/main",
        "refs/remotes/origin/main",
        "origin/HEAD",
        &trusted,
    ] {
        ask(&repo, "task", "work");
        repo.aynig_ok(["run", "--branch", "task", "--commands-from", name]);
        assert!(was_said(&repo, "trusted"), "{name}");
        assert!(!was_said(&repo, "foreign"), "{name}");
        forget(&repo, "trusted");
    }
    repo.git(["update-ref", "refs/heads/origin/main", "refs/heads/task"]);
    ask(&repo, "task", "work");
    for (name, words) in [
        ("origin/main", "refs/heads/origin/main or refs/remotes/origin/main"),
        ("v1", "refs/heads/v1 and refs/remotes/v1"),
        ("no-such", "refs/heads/no-such and refs/remotes/no-such"),
        ("main~1", "no name a ref can have"),
        ("refs/heads/../../x", "no name a ref can have"),
        ("1111111111111111111111111111111111111111", "no commit"),
    ] {
        let head = repo.head("refs/heads/task");
        let output = repo.aynig(["run", "--commands-from", name]);
        assert_refused(&output, 3, &["nothing was run", name, words, "--commands-from"]);
        repo.git(["config", "aynig.commandsFrom", name]);
        assert!(reason(&repo, "task").contains(words), "{name}: {}", reason(&repo, "task"));
        repo.git(["config", "--unset", "aynig.commandsFrom"]);
        assert_eq!(repo.head("refs/heads/task"), head, "{name}");
    }
    assert!(!was_said(&repo, "foreign") && !was_said(&repo, "trusted"));
}

/// CONTRACT 13.7
#[test]
fn replaced_objects_are_not_followed() {
    let repo = repo();
    repo.git(["config", "aynig.commandsFrom", "main"]);
    let of = |revision: &str| repo.git(["rev-parse", revision]);
    let replace = |path: &str| {
        let (old, new) = (of(&format!("main{path}")), of(&format!("task{path}")));
        repo.git(["update-ref", &format!("refs/replace/{old}"), &new]);
    };
    for path in [":.aynig/command/work", ":.aynig", "^{tree}", ""] {
        replace(path);
        repo.aynig_ok(["run"]);
        assert!(repo.said("trusted").ends_with("|from-main"), "{path}");
        assert!(!was_said(&repo, "foreign"), "{path}");
        repo.git(["for-each-ref", "--format=%(refname)", "refs/replace/"])
            .lines()
            .for_each(|name| drop(repo.git(["update-ref", "-d", name])));
        ask(&repo, "task", "work");
        forget(&repo, "trusted");
        for copy in copies(&repo) {
            make_writable(&copy);
            fs::remove_dir_all(copy).expect("removed");
        }
    }
}

/// CONTRACT 13.2
#[test]
fn with_a_remote_the_ref_is_as_fresh_as_the_pass() {
    for name in ["origin/main", "refs/aynig/remotes/origin/main"] {
        let work = repo();
        work.git(["clone", "--quiet", "--bare", ".", "../hub.git"]);
        work.git(["clone", "--quiet", "../hub.git", "../clone"]);
        let path = work.beside("clone");
        let clone = Repo { room: tempfile::tempdir().expect("a directory"), path };
        for (key, value) in [("user.name", "T"), ("user.email", "t@example.com")] {
            clone.git(["config", key, value]);
        }
        // A local branch of the same name is ignored.
        clone.git(["update-ref", "refs/heads/origin/main", "refs/remotes/origin/task"]);
        work.write(".aynig/lib/own.sh", "own() { echo from-new-main; }\n");
        work.commit_all("newer");
        work.git(["push", "--quiet", "../hub.git", "main"]);
        let run = ["run", "--remote", "origin", "--commands-from", name];
        clone.aynig_ok(run);
        assert!(work.said("trusted").ends_with("|from-new-main"), "{name}: {}", work.said("trusted"));
        assert!(!was_said(&work, "foreign"), "{name}");
    }
}

// States.

/// CONTRACT 13.5, 13.6
#[test]
fn only_the_states_that_are_allowed_are_run() {
    let note = r#"echo $AYNIG_BRANCH >>"$ROOM/ran"; next done"#;
    let repo = Repo::scene(&[("work", note), ("test/unit", note), ("test/slow", note), ("deploy", note)]);
    for (branch, state) in [("a", "work"), ("b", "test/unit"), ("c", "test/slow"), ("d", "deploy")] {
        repo.ready(branch, state);
    }
    repo.git(["config", "--add", "aynig.states", "w*"]);
    repo.git(["config", "--add", "aynig.states", "test/*"]);
    let output = repo.aynig_ok(["run", "--states", "test/u*", "--log-level", "debug"]);
    assert_eq!(repo.noted_lines("ran"), ["b"], "the flag takes the place of the setting");
    assert!(err(&output).contains("deploy is not one of the states"), "{}", told(&output));
    repo.aynig_ok(["run"]);
    assert_eq!(repo.noted_lines("ran"), ["a", "b", "c"]);
    assert!(reason(&repo, "d").contains("aynig.states"), "{}", reason(&repo, "d"));
    assert_refused(&repo.aynig(["run", "--states", "a["]), 2, &["--states a[ is not a glob"]);
    repo.git(["config", "--unset-all", "aynig.states"]);
    repo.aynig_ok(["run"]);
    assert_eq!(repo.noted_lines("ran"), ["a", "b", "c", "d"]);
}
