//! What a command or a person leaves behind to make a snapshot or a rollback lose something, run a program or wait.

use std::process::Command;

use super::super::support::*;
use super::Made;

const COMMIT: &str = "git -c user.name=A -c user.email=a@b commit -q";

/// A repository that ignores `ign`, and a workspace.
fn field() -> (Repo, Made) {
    let repo = Repo::new();
    repo.write(".gitignore", "ign\n");
    repo.commit_all("ignores");
    let made = repo.made("fix");
    (repo, made)
}

/// CONTRACT 15.7
#[test]
fn a_tip_with_the_same_files_and_another_history_is_saved_too() {
    let (repo, made) = field();
    made.sh(&repo, &format!("echo own >own; git add own; {COMMIT} -m own"));
    // HEAD is elsewhere, so that the tip is one parent of what is saved.
    let first = repo.head(&made.branch);
    let detach = "git checkout -q --force --detach \"$(git -C \"$REPO\" rev-parse HEAD)\"";
    made.sh(&repo, detach);
    repo.workspace_ok(["rollback", &made.slug]);
    repo.workspace_ok(["rollback", "--undo", &made.slug]);
    let tree = format!("{first}^{{tree}}");
    let one = repo.git(["commit-tree", "-m", "one", "-p", &format!("{first}^"), &tree]);
    let two = repo.git(["commit-tree", "-m", "two", "-p", &one, &tree]);
    repo.git(["update-ref", &format!("refs/heads/{}", made.branch), &two]);
    made.sh(&repo, detach);
    repo.workspace_ok(["rollback", &made.slug]);
    assert!(!repo.git(["for-each-ref", "--contains", &two]).is_empty());
    assert!(!repo.git(["for-each-ref", "--contains", &first]).is_empty());
}

/// CONTRACT 15.6, 15.7
#[test]
fn a_file_that_is_tracked_and_ignored_outlives_the_index() {
    let repo = Repo::new();
    repo.write(".gitignore", "ign\n");
    repo.write("ign", "orig\n");
    repo.git(["add", "--force", "ign"]);
    repo.commit_all("tracked and ignored");
    let made = repo.made("fix");
    let spoil = "echo modified >ign; rm \"$(git rev-parse --absolute-git-dir)/index\"";
    made.sh(&repo, spoil);
    repo.workspace_ok(["snapshot", &made.slug]);
    assert_eq!(repo.git(["show", &format!("{}:ign", made.branch)]), "modified");
    assert_eq!(made.git(&repo, &["status", "--porcelain"]), "", "there is an index again");
    made.sh(&repo, &spoil.replace("modified", "again"));
    repo.workspace_ok(["rollback", &made.slug]);
    let rescues = repo.git(["for-each-ref", "--format=%(refname)", "refs/aynig/rescue"]);
    let saved = rescues.lines().any(|name| repo.git(["show", &format!("{name}:ign")]) == "again");
    assert!(saved, "{rescues}");
}

/// CONTRACT 15.6
#[test]
fn an_ignored_file_is_not_written_over() {
    for (what, script, added, kept) in [
        ("a file", "echo precious >ign", "ign", "ign"),
        ("a file where a directory comes", "echo precious >ign", "ign/x", "ign"),
        ("a directory where a file comes", "mkdir ign; echo precious >ign/x", "ign", "ign/x"),
    ] {
        let (repo, made) = field();
        made.sh(&repo, script);
        let theirs = format!(
            "git worktree add -q --detach \"$REPO/../other\" \"$BRANCH\"; cd \"$REPO/../other\"; \
             mkdir -p \"$(dirname {added})\"; echo theirs >{added}; git add -f {added}; {COMMIT} -m theirs; \
             git update-ref \"refs/heads/$BRANCH\" HEAD"
        );
        made.sh(&repo, &theirs);
        let tip = repo.head(&made.branch);
        let output = repo.workspace(["snapshot", &made.slug]);
        let text = std::fs::read_to_string(made.path.join(kept)).unwrap_or_default();
        assert_eq!(text, "precious\n", "{what}: {}", err(&output));
        assert_refused(&output, 1, &["would be written over", "nothing was changed"]);
        assert_eq!(repo.head(&made.branch), tip, "{what}");
        // Out of the way, it is adopted.
        made.sh(&repo, "rm -r ign");
        repo.workspace_ok(["snapshot", &made.slug]);
        assert!(made.path.join(added).is_file(), "{what}");
    }
}

/// CONTRACT 9.7
#[test]
fn no_program_of_a_repository_inside_runs() {
    for (what, config) in [
        ("a filter", "filter.x.clean \"touch $REPO/../ran; cat\""),
        ("a monitor", "core.fsmonitor \"touch $REPO/../ran; false\""),
    ] {
        for call in ["snapshot", "rollback"] {
            let (repo, made) = field();
            made.sh(
                &repo,
                &format!(
                    "git init -q sub; echo s >sub/s; git -C sub add s; (cd sub; {COMMIT} -m s); git add sub; {COMMIT} -m sub; \
                     echo '* filter=x' >sub/.git/info/attributes; git -C sub config {config}; \
                     touch -d '2001-01-01' sub/s"
                ),
            );
            let output = repo.workspace([call, &made.slug]);
            let said = format!("{}{}", out(&output), err(&output));
            assert!(!repo.beside("ran").exists(), "{what}, {call}: {said}");
            assert!(said.contains("sub"), "{what}, {call}: {said}");
            let place = if call == "rollback" { made.path.with_file_name("fix.kept-1") } else { made.path };
            assert!(place.join("sub/.git").is_dir(), "{what}, {call}: {said}");
        }
    }
}

/// CONTRACT 15.4
#[test]
fn a_pipe_in_the_place_of_the_lock_is_not_waited_for() {
    let (repo, made) = field();
    let locks =
        files_below(&made.record(&repo)).into_iter().filter(|file| file.to_string_lossy().contains("lock"));
    for lock in locks {
        std::fs::remove_file(&lock).expect("a lock");
        assert!(Command::new("mkfifo").arg(&lock).status().expect("mkfifo").success());
    }
    let mut child = repo.workspace_command().args(["snapshot", &made.slug]).spawn().expect("aynig runs");
    let mut over = None;
    wait_until("it to end", || {
        over = child.try_wait().expect("a child");
        over.is_some()
    });
    assert_eq!(over.and_then(|status| status.code()), Some(3));
}
