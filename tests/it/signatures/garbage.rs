//! A signing program that exits with 0 but prints no signature: nothing is committed, and the message names
//! the program.

use super::*;

/// A repository that signs, and its signing program, which prints garbage once the file `garbage` exists.
fn place(commands: &[(&str, &str)]) -> (Repo, Key, PathBuf) {
    let (repo, known, _) = signing(commands);
    let program = repo.beside("signer");
    let script = format!(
        "#!/bin/sh\nfor last; do :; done\ncase \" $* \" in *\" sign \"*) [ -e '{}' ] && {{ echo garbage >\"$last.sig\"; exit 0; }};; esac\n\
         exec ssh-keygen \"$@\"\n",
        repo.beside("garbage").display()
    );
    fs::write(&program, script).expect("a file");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("chmod");
    for (name, value) in [
        ("gpg.ssh.program", program.to_str().expect("text")),
        ("user.signingKey", known.private.to_str().expect("text")),
        ("commit.gpgSign", "true"),
    ] {
        repo.git(["config", name, value]);
    }
    (repo, known, program)
}

/// CONTRACT 1.13
#[test]
fn what_is_no_signature_is_never_written() {
    let (repo, known, program) = place(&[("work", "next done")]);
    let head = signed(&repo, "task", &known);
    fs::write(repo.beside("garbage"), "").expect("a file");
    let words = ["could not sign", program.to_str().expect("text"), "gpg.ssh.program", "is no signature"];
    assert_refused(&repo.aynig(["run"]), 3, &words);
    assert_refused(&repo.aynig(["set-state", "--branch", "task", "--state", "x"]), 3, &words);
    assert_eq!(repo.head("task"), head);
    let doctor = out(&repo.aynig(["doctor"]));
    let line = doctor.lines().find(|line| line.starts_with("error") && line.contains("is no signature"));
    assert!(line.is_some_and(|line| words.iter().all(|word| line.contains(word))), "{doctor}");
}

/// CONTRACT 1.13
#[test]
fn a_result_waits_for_a_signature_that_is_one() {
    let (repo, known, _) =
        place(&[("work", "echo work >file; git add file; say here yes; await go; next done")]);
    signed(&repo, "task", &known);
    let running = repo.aynig_start(["run"]);
    repo.said("here");
    fs::write(repo.beside("garbage"), "").expect("a file");
    repo.release("go");
    let output = running.finish();
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(told(&output).contains("is no signature"), "{}", told(&output));
    assert_eq!(repo.state("task"), "working");
    assert_eq!(fs::read_to_string(repo.path.join(".worktrees/task/file")).expect("it is kept"), "work\n");
}
