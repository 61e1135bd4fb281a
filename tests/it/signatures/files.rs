//! The files of allowed and revoked ssh keys: found where git finds them, and never silently ignored.

use super::*;

/// A command that counts its runs.
const WORK: &str = r#"echo $AYNIG_BRANCH >>"$ROOM/ran"; next done"#;

/// Runs of the signed branch `task` with this change of the call.
fn runs(repo: &Repo, key: &Key, change: impl Fn(&mut Command)) -> usize {
    signed(repo, "task", key);
    let before = repo.noted_lines("ran").len();
    let mut command = repo.aynig_command();
    change(&mut command);
    let output = command.arg("run").output().expect("aynig runs");
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    repo.noted_lines("ran").len() - before
}

fn findings(repo: &Repo) -> String {
    out(&repo.aynig(["doctor"]))
}

#[test]
fn relative_files_are_found_from_the_top_as_git_finds_them() {
    let (repo, known, unknown) = signing(&[("work", WORK)]);
    repo.write("keys/allowed", &format!("person@example.com {}", known.public));
    repo.write("keys/none", "");
    repo.git(["config", "gpg.ssh.allowedSignersFile", "keys/allowed"]);
    assert_eq!(runs(&repo, &known, |_| ()), 1);
    assert_eq!(runs(&repo, &unknown, |_| ()), 0);
    let below = repo.path.join("keys");
    let there = |command: &mut Command| {
        command.current_dir(&below);
    };
    assert_eq!(runs(&repo, &known, there), 1);
    repo.git(["config", "gpg.ssh.revocationFile", "keys/revoked"]);
    repo.write("keys/revoked", &unknown.public);
    assert_eq!(runs(&repo, &known, |_| ()), 1);
    repo.write("keys/revoked", &known.public);
    assert_eq!(runs(&repo, &known, |_| ()), 0);
    assert_eq!(runs(&repo, &known, there), 0);
    assert!(reason(&repo, "task").contains("bad"), "{}", reason(&repo, "task"));
    let output = repo.git_command().args(["verify-commit", "task"]).output().expect("git runs");
    assert!(!output.status.success(), "git says the same");
}

/// CONTRACT 13.4
#[test]
fn a_revocation_file_that_cannot_be_read_stops_what_ssh_signed() {
    let (repo, known, _) = signing(&[("work", WORK)]);
    for (file, shown) in [
        ("revoked", repo.path.join("revoked")),
        ("/nowhere/revoked", "/nowhere/revoked".into()),
        ("~/revoked", repo.beside("revoked")),
    ] {
        repo.git(["config", "gpg.ssh.revocationFile", file]);
        let home = |command: &mut Command| {
            command.env("HOME", repo.beside("."));
        };
        assert_eq!(runs(&repo, &known, home), 0, "{file}");
        let (mut status, mut doctor) = (repo.aynig_command(), repo.aynig_command());
        home(&mut status);
        home(&mut doctor);
        let status = out(&status.args(["status", "--branch", "task"]).output().expect("aynig runs"));
        let doctor = out(&doctor.arg("doctor").output().expect("aynig runs"));
        for said in [&status, &doctor] {
            assert!(said.contains("gpg.ssh.revocationFile"), "{file}: {said}");
        }
        let shown = shown.file_name().expect("a name").to_str().expect("text");
        assert!(doctor.contains(shown), "{file}: {doctor}");
        assert!(doctor.lines().any(|line| line.starts_with("error") && line.contains(shown)), "{doctor}");
    }
    // An empty setting overrides one of a wider scope.
    repo.git(["config", "gpg.ssh.revocationFile", ""]);
    assert_eq!(runs(&repo, &known, |_| ()), 1);
    assert!(!findings(&repo).contains("revocationFile"), "{}", findings(&repo));
}

#[test]
fn doctor_names_a_list_of_signers_that_cannot_be_read() {
    let (repo, known, _) = signing(&[("work", WORK)]);
    repo.git(["config", "gpg.ssh.allowedSignersFile", "no/such"]);
    assert_eq!(runs(&repo, &known, |_| ()), 0);
    let doctor = findings(&repo);
    let place = repo.path.join("no/such").display().to_string();
    let line = doctor.lines().find(|line| line.contains("gpg.ssh.allowedSignersFile"));
    let line = line.unwrap_or_else(|| panic!("{doctor}"));
    assert!(line.starts_with("error") && line.contains(&place), "{doctor}");
}

#[test]
fn wherever_git_finds_these_settings_they_count() {
    let (repo, known, _) = signing(&[("work", WORK)]);
    let revoked = repo.beside("revoked");
    fs::write(&revoked, &known.public).expect("a file");
    let place = revoked.to_str().expect("text");
    let count = |command: &mut Command| {
        command.env("GIT_CONFIG_COUNT", "1").env("GIT_CONFIG_KEY_0", "gpg.ssh.revocationFile");
        command.env("GIT_CONFIG_VALUE_0", place);
    };
    assert_eq!(runs(&repo, &known, count), 0);
    assert_eq!(runs(&repo, &known, |_| ()), 1);
    repo.git(["config", "extensions.worktreeConfig", "true"]);
    repo.git(["worktree", "add", "--quiet", "-b", "side", "../side", "main"]);
    repo.git(["-C", "../side", "config", "--worktree", "gpg.ssh.revocationFile", place]);
    let side = repo.beside("side");
    let there = |command: &mut Command| {
        command.current_dir(&side);
    };
    assert_eq!(runs(&repo, &known, there), 0);
    assert_eq!(runs(&repo, &known, |_| ()), 1);
}

#[test]
fn in_a_bare_repository_they_are_found_from_there() {
    let (repo, known, _) = signing(&[("work", WORK)]);
    let allowed = fs::read(repo.beside("allowed")).expect("a file");
    signed(&repo, "task", &known);
    let bare = repo.into_bare();
    for (name, value) in [
        ("gpg.format", "ssh"),
        ("gpg.ssh.allowedSignersFile", "allowed"),
        ("gpg.ssh.revocationFile", "revoked"),
        ("aynig.requireSigned", "true"),
    ] {
        bare.git(["config", name, value]);
    }
    fs::write(bare.path.join("allowed"), allowed).expect("a file");
    fs::write(bare.path.join("revoked"), &known.public).expect("a file");
    bare.aynig_ok(["run"]);
    assert_eq!(bare.state("task"), "work");
    fs::write(bare.path.join("revoked"), "").expect("a file");
    bare.aynig_ok(["run"]);
    assert_eq!(bare.state("task"), "done");
}

#[test]
fn signing_takes_its_settings_from_the_same_places() {
    let (repo, known, _) = signing(&[("work", "next more"), ("more", "next done")]);
    fs::copy(&known.private, repo.path.join("id")).expect("a copy");
    fs::copy(known.private.with_extension("pub"), repo.path.join("id.pub")).expect("a copy");
    repo.git(["config", "commit.gpgSign", "true"]);
    signed(&repo, "task", &known);
    let mut command = repo.aynig_command();
    command
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "user.signingKey")
        .env("GIT_CONFIG_VALUE_0", "id");
    let output = command.args(["run", "--drain"]).output().expect("aynig runs");
    assert_eq!(repo.state("task"), "done", "{}", told(&output));
}
