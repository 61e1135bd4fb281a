//! Branches of a hub whose names are not UTF-8: each is pushed by its own name, and harms no other.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::*;

const ODD: &[u8] = b"refs/heads/bad\xff\xfe";

/// The name that one gets who shows the odd one as text.
const LOOKALIKE: &[u8] = "refs/heads/bad\u{fffd}\u{fffd}".as_bytes();

/// Runs git with a name that need not be UTF-8.
fn git_with(repo: &Repo, before: &[&str], name: &[u8], after: &[&str]) -> String {
    let mut git = repo.git_command();
    let output = git.args(before).arg(OsStr::from_bytes(name)).args(after).output().expect("git runs");
    assert!(output.status.success(), "{}", err(&output));
    out(&output).trim_end().to_owned()
}

/// The last state of a branch by its full name.
fn state_of(hub: &Repo, name: &[u8]) -> String {
    let format = "--format=%(trailers:key=dwp-state,valueonly,separator=)";
    git_with(hub, &["log", "-1", format], name, &[])
}

/// CONTRACT 5.15, 5.17
#[test]
fn a_name_that_is_no_text_is_pushed_as_it_is() {
    for (odd, good) in [(&[ODD, LOOKALIKE][..], 3), (&[ODD], 0)] {
        let hub = hub(&[("review", "next done")]);
        let ready = hub.ready("seed", "review");
        hub.git(["update-ref", "-d", "refs/heads/seed"]);
        for name in odd {
            git_with(&hub, &["update-ref"], name, &[&ready]);
        }
        let goods: Vec<String> = (0..good).map(|number| format!("good{number}")).collect();
        hub.ready_many(&goods, "review");
        let clone = clone(&hub);
        clone.git(["config", "aynig.remote", "origin"]);
        let output = clone.aynig(["run", "-j", "6"]);
        assert_exit(&output, 0);
        for name in odd {
            assert_eq!(state_of(&hub, name), "done", "{}", told(&output));
        }
        for name in &goods {
            assert_eq!(hub.state(name), "done", "{}", told(&output));
        }
        assert_eq!(hub.git(["for-each-ref", "refs/heads"]).lines().count(), odd.len() + good + 1);
        clone.assert_tidy();
    }
}

/// CONTRACT 5.28
#[test]
fn a_deferred_state_of_such_a_branch_is_its_own() {
    let hub = hub(&[("review", "next done")]);
    for name in [ODD, LOOKALIKE] {
        git_with(&hub, &["update-ref"], name, &[&hub.head("main")]);
    }
    let clone = clone(&hub);
    clone.git(["config", "aynig.remote", "origin"]);
    let mut command = clone.aynig_command();
    command
        .args(["set-state", "--state", "review", "--branch"])
        .arg(OsStr::from_bytes(&ODD["refs/heads/".len()..]));
    assert_exit(&command.output().expect("aynig runs"), 0);
    assert_eq!((state_of(&hub, ODD), state_of(&hub, LOOKALIKE)), ("review".to_owned(), String::new()));
}

#[test]
fn a_hint_for_such_a_branch_names_it() {
    let hub = hub(&[]);
    let asked = hub.branch_with_message("seed", b"Is it right?\n\ndwp-state: approval\ndwp-waits-for: ana\n");
    hub.git(["update-ref", "-d", "refs/heads/seed"]);
    for name in [ODD, LOOKALIKE] {
        git_with(&hub, &["update-ref"], name, &[&asked]);
    }
    let clone = clone(&hub);
    clone.git(["config", "aynig.remote", "origin"]);
    let mut command = clone.aynig_command();
    command.arg("answer").arg(OsStr::from_bytes(&ODD["refs/heads/".len()..]));
    let output = command.output().expect("aynig runs");
    let shown = told(&output);
    let begin = shown.find("aynig answer $'bad\\xff\\xfe'").unwrap_or_else(|| panic!("{shown}"));
    let line = shown[begin..].lines().next().expect("a line");
    let line = line.trim_end_matches('`').replacen("aynig", "\"$AYNIG\"", 1).replace("STATE", "approved");
    let mut bash = Command::new("bash");
    let typed = hermetic(&mut bash).current_dir(&clone.path).env("AYNIG", binary()).args(["-c", &line]);
    let output = typed.output().expect("bash runs");
    assert!(output.status.success(), "{line}: {}", told(&output));
    assert_eq!(
        (state_of(&hub, ODD), state_of(&hub, LOOKALIKE)),
        ("approved".to_owned(), "approval".to_owned())
    );
}

/// CONTRACT 5.17
#[test]
fn a_move_that_git_does_not_take_denies_no_other() {
    let hub = hub(&[("review", "next done")]);
    let names = ["bad", "good1", "good2"].map(str::to_owned);
    hub.ready_many(&names, "review");
    let wrapper = Wrapper::new(
        &hub,
        "if [ $verb = push ]; then case \"$*\" in *:refs/heads/bad*) echo 'fatal: no' >&2; exit 128;; esac; fi",
    );
    let output = wrapper.run(&clone(&hub), &["run", "--remote", "origin", "-j", "6"]);
    let states = names.map(|name| hub.state(&name));
    assert_eq!(states, ["review", "done", "done"], "{}", told(&output));
}

/// CONTRACT 5.15
#[test]
fn copies_of_a_remote_are_never_other_refs() {
    let hub = hub(&[("review", "next done")]);
    hub.ready("seed", "review");
    let clone = clone(&hub);
    clone.git(["config", "aynig.remote", "origin"]);
    clone.git(["branch", "private"]);
    let place = clone.path.join(".git/refs/aynig/remotes");
    std::fs::create_dir_all(&place).expect("made");
    std::os::unix::fs::symlink("../../heads", place.join("origin")).expect("a link");
    for arguments in [["status"].as_slice(), &["run"], &["status", "seed"]] {
        let output = clone.aynig(arguments.iter().copied());
        let words = format!("`rm {}`", place.join("origin").display());
        assert!(told(&output).contains(&words), "{arguments:?}: {}", told(&output));
        assert_eq!(clone.head("private"), clone.head("main"), "{arguments:?}");
    }
    std::fs::remove_file(place.join("origin")).expect("removed");
    clone.git(["branch", "feature/mine"]);
    std::fs::create_dir(place.join("origin")).expect("made");
    let below = place.join("origin/feature");
    std::os::unix::fs::symlink("../../../heads/feature", &below).expect("a link");
    let output = clone.aynig(["run"]);
    assert!(told(&output).contains(&format!("`rm {}`", below.display())), "{}", told(&output));
    assert_eq!(clone.head("feature/mine"), clone.head("main"));
    std::fs::remove_file(below).expect("removed");
    clone.aynig_ok(["run"]);
    assert_eq!(hub.state("seed"), "done");
}
