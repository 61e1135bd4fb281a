//! Only HEADs with a good signature run (CONTRACT 13.4): which signatures count, and that odd ones do not
//! stop other branches.

mod by_hand;
mod cancel;
mod commands;
mod deferred;
mod files;
mod garbage;
mod gpg;
mod guard;
#[cfg(debug_assertions)]
mod hanging;
mod intruders;
mod leases;
mod odd;
mod settings;
mod words;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use super::scene::*;
use super::support::*;
use super::trust::{reason, was_said};

/// An ssh key.
pub(crate) struct Key {
    pub private: PathBuf,
    pub public: String,
}

/// Makes a key beside the repository.
pub(crate) fn key(repo: &Repo, name: &str) -> Key {
    let private = repo.beside(name);
    let mut keygen = Command::new("ssh-keygen");
    let made = keygen.args(["-q", "-t", "ed25519", "-N", "", "-C", "test", "-f"]).arg(&private).output();
    assert!(made.expect("ssh-keygen runs").status.success());
    let public = fs::read_to_string(private.with_extension("pub")).expect("a public key");
    Key { private, public }
}

/// A repository that requires signatures, a key it trusts, and one it does not know.
pub(crate) fn signing(commands: &[(&str, &str)]) -> (Repo, Key, Key) {
    let repo = Repo::scene(commands);
    let (known, unknown) = (key(&repo, "known"), key(&repo, "unknown"));
    let allowed = repo.beside("allowed");
    fs::write(&allowed, format!("person@example.com {}", known.public)).expect("a file");
    for (name, value) in [
        ("gpg.format", "ssh"),
        ("gpg.ssh.allowedSignersFile", allowed.to_str().expect("text")),
        ("aynig.requireSigned", "true"),
        // It puts the output of ssh-keygen between the answers of `git log`.
        ("log.showSignature", "true"),
    ] {
        repo.git(["config", name, value]);
    }
    (repo, known, unknown)
}

/// A new branch that asks for `work`, signed.
pub(crate) fn signed(repo: &Repo, branch: &str, key: &Key) -> String {
    let message = format!("please work on {branch}\n\ndwp-state: work");
    let sign = format!("-S{}", key.private.display());
    let commit = repo.git(["commit-tree", &sign, "-p", "main", "-m", &message, "main^{tree}"]);
    repo.git(["update-ref", &format!("refs/heads/{branch}"), &commit]);
    commit
}

/// CONTRACT 13.4, 13.6
#[test]
fn only_what_has_a_good_signature_is_run() {
    let (repo, known, unknown) = signing(&[("work", r#"echo $AYNIG_BRANCH >>"$ROOM/ran"; next done"#)]);
    let good = signed(&repo, "good", &known);
    repo.ready("none", "work");
    signed(&repo, "other", &unknown);
    let object = repo.git(["cat-file", "commit", &good]).replace("please work", "please  work");
    let bad = repo.git_with_input(&["hash-object", "-t", "commit", "-w", "--stdin"], object.as_bytes());
    repo.git(["update-ref", "refs/heads/bad", &bad]);
    let before = ["bad", "none", "other"].map(|branch| repo.head(branch));
    let output = repo.aynig_ok(["run", "--log-level", "info"]);
    assert_eq!(repo.noted_lines("ran"), ["good"]);
    for (branch, words) in
        [("bad", "is bad"), ("none", "is not signed"), ("other", "not among those trusted")]
    {
        assert!(err(&output).contains(words), "{words}: {}", told(&output));
        let told = reason(&repo, branch);
        assert!(told.contains(words) && told.contains("aynig.requireSigned"), "{branch}: {told}");
    }
    assert_eq!(["bad", "none", "other"].map(|branch| repo.head(branch)), before, "nothing was written");
    repo.git(["config", "--unset", "gpg.ssh.allowedSignersFile"]);
    signed(&repo, "good", &known);
    repo.aynig_ok(["run", "--branch", "good"]);
    assert_eq!(repo.state("good"), "work");
    assert!(reason(&repo, "good").contains("gpg.ssh.allowedSignersFile"), "{}", reason(&repo, "good"));
    let check = out(&repo.aynig(["doctor"]));
    assert!(
        check.contains("error    signing     aynig.requireSigned is set, and no gpg.ssh.allowed"),
        "{check}"
    );
    repo.git(["config", "aynig.requireSigned", "false"]);
    repo.aynig_ok(["run", "--require-signed", "--branch", "good"]);
    assert_eq!(repo.state("good"), "work", "the flag does what the setting does");
    repo.aynig_ok(["run"]);
    assert_eq!(repo.noted_lines("ran"), ["bad", "good", "good", "none", "other"]);
}

/// CONTRACT 13.4
#[test]
fn results_that_are_to_be_run_next_need_the_runners_signature() {
    let (repo, known, _) = signing(&[("work", "next check"), ("check", "next done")]);
    signed(&repo, "task", &known);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(repo.state("task"), "check");
    assert!(reason(&repo, "task").contains("commit.gpgSign"), "{}", reason(&repo, "task"));
    repo.git(["config", "commit.gpgSign", "true"]);
    repo.git(["config", "user.signingKey", known.private.to_str().expect("text")]);
    signed(&repo, "task", &known);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(repo.state("task"), "done");
}

/// CONTRACT 13.4
#[test]
fn a_runner_does_not_sign_what_closes_an_unsigned_lease() {
    // Otherwise its tree, with its command for `stalled`, would get a signature.
    let (repo, known, _) = signing(&[("stalled", "say ran yes; next done")]);
    repo.git(["config", "user.signingKey", known.private.to_str().expect("text")]);
    repo.git(["branch", "task"]);
    let lease = repo.foreign_lease("task", "31111111-2222-4333-8444-555555555555", "other", 5, 1000);
    repo.git(["config", "commit.gpgSign", "true"]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(repo.head("task"), lease);
    assert!(reason(&repo, "task").contains("is not closed"), "{}", reason(&repo, "task"));
    assert!(!was_said(&repo, "ran"));
    repo.git(["config", "aynig.requireSigned", "false"]);
    repo.aynig_ok(["run"]);
    assert_eq!(repo.state("task"), "stalled");
}

/// CONTRACT 13.7
#[test]
fn replacing_a_signed_commit_does_not_lend_its_signature() {
    let (repo, known, _) = signing(&[("work", "say signed yes; next done")]);
    let good = signed(&repo, "task", &known);
    repo.git(["checkout", "-q", "-b", "evil"]);
    repo.command(".aynig/command/work", &repo.scripted("say foreign yes; next done"));
    let evil = repo.commit_all("evil\n\ndwp-state: work");
    repo.git(["checkout", "-q", "main"]);
    // In both directions: its files in place of the signed commit's, and the signed commit in place of it.
    repo.git(["update-ref", &format!("refs/replace/{good}"), &evil]);
    repo.aynig_ok(["run", "--branch", "task"]);
    assert!(was_said(&repo, "signed") && !was_said(&repo, "foreign"));
    repo.git(["update-ref", "-d", &format!("refs/replace/{good}")]);
    repo.git(["update-ref", &format!("refs/replace/{evil}"), &good]);
    repo.aynig_ok(["run", "--branch", "evil"]);
    assert!(!was_said(&repo, "foreign"));
    assert!(reason(&repo, "evil").contains("not signed"), "{}", reason(&repo, "evil"));
}

#[test]
fn git_is_asked_once_for_all_signatures_and_not_for_what_would_not_run() {
    let (repo, known, _) = signing(&[("work", "next done")]);
    for number in 0..12 {
        signed(&repo, &format!("b{number}"), &known);
    }
    repo.ready("idle", "nothing-for-this");
    let (bin, calls) = (repo.beside("bin"), repo.beside("calls"));
    fs::create_dir(&bin).expect("a directory");
    let real = out(&Command::new("sh").args(["-c", "command -v git"]).output().expect("sh runs"));
    let script = format!(
        "#!/bin/sh\ncase \" $* \" in *\" log \"*) tee -a '{0}' | '{1}' \"$@\"; echo end >>'{0}';; *) exec '{1}' \"$@\";; esac\n",
        calls.display(),
        real.trim()
    );
    fs::write(bin.join("git"), script).expect("a file");
    fs::set_permissions(bin.join("git"), fs::Permissions::from_mode(0o755)).expect("chmod");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("a PATH"));
    let output = repo.aynig_command().env("PATH", path).arg("run").output().expect("aynig runs");
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let lines = repo.noted_lines("calls");
    assert_eq!((lines.len(), lines.iter().filter(|line| *line == "end").count()), (13, 1), "{lines:?}");
    assert_eq!(repo.state("b11"), "done");
}
