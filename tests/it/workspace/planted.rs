//! Git settings that were planted after a workspace was made: none of them is run by a call on the workspace.

use std::fs;
use std::path::PathBuf;

use super::super::support::*;
use super::Made;

/// A repository with a workspace, a script that leaves a trace, and that trace.
fn trap() -> (Repo, Made, String, PathBuf) {
    let repo = Repo::new();
    let made = repo.made("fix");
    let ran = repo.beside("ran");
    let script = repo.beside("trap");
    fs::write(&script, format!("#!/bin/sh\necho x >>'{}'\ncat\n", ran.display())).expect("written");
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("chmod");
    (repo, made, script.to_str().expect("UTF-8").to_owned(), ran)
}

/// CONTRACT 15.12
#[test]
fn settings_that_were_planted_are_named_and_not_run() {
    for (key, how) in [
        ("filter.x.clean", "git config filter.x.clean \"$TRAP\""),
        ("filter.x.process", "git config filter.x.process \"$TRAP\""),
        ("core.fsmonitor", "git config core.fsmonitor \"$TRAP\""),
        ("core.hookspath", "git config core.hooksPath \"$(dirname \"$TRAP\")\""),
        (
            "filter.x.clean",
            "git config extensions.worktreeConfig true; git config --worktree filter.x.clean \"$TRAP\"",
        ),
        (
            "include.path",
            "git config -f more filter.x.clean \"$TRAP\"; git config include.path \"$PWD/more\"",
        ),
    ] {
        let (repo, made, trap, ran) = trap();
        made.sh(&repo, &format!("echo '* filter=x' >.gitattributes; echo y >y; TRAP='{trap}'; {how}"));
        fs::remove_file(&ran).ok();
        for verb in [&["snapshot"][..], &["rollback"], &["remove", "--apply"]] {
            let arguments = verb.iter().copied().chain([made.slug.as_str()]);
            let refused = repo.workspace(arguments);
            assert!(!ran.exists(), "{how}: {verb:?} ran it");
            let unset = format!("--unset-all {key}`");
            assert_refused(&refused, 1, &[key, "nothing was changed", "git config --file", &unset]);
        }
        // The command that was shown undoes it.
        let shown = err(&repo.workspace(["snapshot", &made.slug]));
        for command in shown.split('`').filter(|part| part.starts_with("git config --file")) {
            made.sh(&repo, command);
        }
        repo.workspace_ok(["snapshot", &made.slug]);
        assert!(!ran.exists(), "{how}");
    }
}

/// CONTRACT 15.12
#[test]
fn settings_that_were_there_before_apply_until_they_change() {
    let repo = Repo::new();
    repo.git(["config", "filter.x.clean", "tr a b"]);
    let made = repo.made("fix");
    made.sh(&repo, "echo '* filter=x' >.gitattributes; echo a >y");
    repo.workspace_ok(["snapshot", &made.slug]);
    assert_eq!(repo.git(["show", &format!("{}:y", made.branch)]), "b");
    repo.git(["config", "filter.x.clean", "tr a c"]);
    let refused = repo.workspace(["snapshot", &made.slug]);
    assert_refused(&refused, 1, &["filter.x.clean", "--add filter.x.clean"]);
    repo.git(["config", "filter.x.clean", "tr a b"]);
    repo.workspace_ok(["snapshot", &made.slug]);
}
