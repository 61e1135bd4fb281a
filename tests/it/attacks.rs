//! What commands and people do to a runner's repository while it works. Nothing may be lost, hang, or run
//! that should not.

use std::os::unix::fs::PermissionsExt;

use super::scene::*;
use super::support::*;

/// A scene with one command, `work`, and the branch `task` ready for it.
fn scene(script: &str) -> Repo {
    let repo = Repo::scene(&[("work", script)]);
    repo.ready("task", "work");
    repo
}

// What a command does to its own worktree.

#[test]
fn a_repository_made_over_the_worktree_is_not_taken_for_it() {
    let repo = scene("rm .git; git init -q .; echo theirs >new; git add -A; next done");
    let output = repo.aynig_ok(["run"]);
    assert_eq!(repo.state("task"), "done");
    assert_eq!(repo.git(["diff", "--name-only", "task~1", "task"]), "", "our own index is the result");
    assert!(out(&output).contains("holds other repositories"), "{}", told(&output));
    assert!(repo.path.join(".worktrees/task/new").exists(), "it stays");
    repo.git(["fsck", "--strict", "--no-dangling"]);
}

#[test]
fn without_its_git_file_a_worktree_is_still_saved_and_removed() {
    let repo = scene("echo staged >a; git add a; echo loose >b; rm .git; next done");
    repo.aynig_ok(["run"]);
    assert_eq!(repo.state("task"), "done");
    assert_eq!(repo.show("task:a"), "staged");
    assert_eq!(repo.show(&format!("{}:b", repo.rescue())), "loose");
    repo.assert_tidy();
}

#[test]
fn what_was_staged_outlives_a_worktree_that_was_removed() {
    let repo = scene("echo staged >a; git add a; cd ..; rm -rf task; exit 1");
    repo.aynig(["run"]);
    assert_eq!(repo.state("task"), "stalled");
    assert_eq!(repo.show(&format!("{}:a", repo.rescue())), "staged");
    repo.assert_tidy();
}

#[test]
fn an_index_lock_left_behind_is_no_obstacle() {
    let left = "echo v1 >a; git add a; echo v2 >a; touch \"$(git rev-parse --git-dir)/index.lock\"";
    for (end, state) in [("next done", "done"), ("exit 1", "stalled")] {
        let repo = scene(&format!("{left}\n{end}"));
        repo.aynig(["run"]);
        assert_eq!(repo.state("task"), state);
        let rescue = repo.rescue();
        assert_eq!(repo.show(&format!("{rescue}:a")), "v2");
        let staged = if state == "done" { "task:a".to_owned() } else { format!("{rescue}^2:a") };
        assert_eq!(repo.show(&staged), "v1");
        repo.assert_tidy();
    }
}

#[test]
fn an_index_that_was_removed_is_no_result() {
    let repo = scene("rm \"$(git rev-parse --git-dir)/index\"; next done");
    repo.aynig(["run"]);
    assert_eq!(repo.state("task"), "stalled", "an empty tree would delete everything");
    assert!(repo.message("task").contains("the index is not there any more"), "{}", repo.message("task"));
    repo.assert_tidy();
}

#[test]
fn a_change_in_the_moment_of_its_staging_is_seen() {
    // Both versions and the index get one timestamp, so git has to compare the file's content.
    let repo = scene(
        "date=@1700000000; echo v1 >a; touch -d $date a; git add a; echo v2 >a; touch -d $date a\n\
         touch -d $date \"$(git rev-parse --git-dir)/index\"; exit 1",
    );
    repo.git(["config", "core.trustctime", "false"]);
    repo.aynig(["run"]);
    assert_eq!(repo.show(&format!("{}:a", repo.rescue())), "v2");
    repo.assert_tidy();
}

#[test]
fn files_that_git_was_told_to_overlook_are_saved() {
    for bit in ["--assume-unchanged", "--skip-worktree"] {
        for (end, state) in [("next done", "done"), ("exit 1", "stalled")] {
            let repo = scene(&format!("git update-index {bit} README; echo changed >README; {end}"));
            repo.aynig(["run"]);
            assert_eq!(repo.state("task"), state);
            assert_eq!(repo.show(&format!("{}:README", repo.rescue())), "changed", "{bit} {end}");
            repo.assert_tidy();
        }
    }
}

#[test]
fn beside_a_conflict_what_is_staged_is_saved() {
    let repo = scene(
        "git switch -qc side; echo theirs >c; git add c; git commit -qm theirs\n\
         git switch -q task; echo ours >c; git add c; git commit -qm ours; git merge side\n\
         echo v1 >a; git add a; echo v2 >a; exit 1",
    );
    repo.aynig(["run"]);
    assert_eq!(repo.state("task"), "stalled");
    let rescue = repo.rescue();
    assert_eq!(repo.show(&format!("{rescue}:a")), "v2");
    assert_eq!(repo.show(&format!("{rescue}^2:a")), "v1");
    assert!(repo.show(&format!("{rescue}:c")).contains("<<<<<<<"));
    repo.assert_tidy();
}

#[test]
fn directories_that_forbid_it_are_removed_all_the_same() {
    let repo = scene(
        "echo cache >.gitignore; git add .gitignore; mkdir -p cache/x; echo a >cache/x/f; chmod -R a-w cache; next done",
    );
    repo.aynig_ok(["run"]);
    assert_eq!(repo.state("task"), "done");
    assert!(!repo.path.join(".worktrees").exists(), "also when not root");
    repo.assert_tidy();
}

// Repositories inside the worktree that the result adds or drops.

const WHO: &str = "-c user.name=A -c user.email=a@example.com";

#[test]
fn a_repository_that_a_command_made_and_staged_keeps_its_worktree() {
    let repo = scene(&format!(
        "git init -q own; git -C own {WHO} commit -q --allow-empty -m mine; git add own; next done"
    ));
    let output = repo.aynig_ok(["run"]);
    assert_eq!(repo.state("task"), "done");
    let named = repo.git(["rev-parse", "task:own"]);
    assert!(out(&output).contains("holds other repositories (own: "), "{}", told(&output));
    repo.git(["-C", ".worktrees/task/own", "cat-file", "-e", &named]);
}

#[test]
fn a_submodule_taken_out_of_the_index_keeps_its_worktree() {
    let repo = Repo::scene(&[(
        "work",
        &format!(
            "git -C sub {WHO} commit -q --allow-empty -m mine; git rm -q --cached sub; echo sub >.gitignore\n\
             git add .gitignore; next done"
        ),
    )]);
    repo.git(["init", "--quiet", "../source"]);
    let source = ["-C", "../source"].into_iter().chain(WHO.split(' '));
    repo.git(source.chain(["commit", "--quiet", "--allow-empty", "-m", "first"]));
    let url = repo.beside("source").display().to_string();
    repo.git(["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &url, "sub"]);
    repo.commit_all("a submodule");
    repo.ready("task", "work");
    let mut runner = repo.aynig_command();
    let output = runner.env("GIT_ALLOW_PROTOCOL", "file").arg("run").output().expect("aynig runs");
    assert_eq!(repo.state("task"), "done", "{}", told(&output));
    assert!(out(&output).contains("holds other repositories (sub: "), "{}", told(&output));
    assert!(repo.path.join(".worktrees/task/sub/.git").exists());
}

#[test]
fn what_git_does_not_show_keeps_its_worktree() {
    for (script, words) in [
        ("echo mine >sub/x; next done", "files in sub, where a submodule belongs"),
        ("git init -q dir; next done", "a repository in dir"),
    ] {
        let repo = Repo::scene(&[("work", script)]);
        repo.write("dir/a", "a");
        let head = repo.head("HEAD");
        repo.write(".gitmodules", "[submodule \"sub\"]\n\tpath = sub\n\turl = ../nowhere\n");
        repo.git(["update-index", "--add", "--cacheinfo", &format!("160000,{head},sub")]);
        repo.git(["add", "dir", ".gitmodules"]);
        repo.git(["commit", "-q", "-m", "a submodule that cannot be fetched"]);
        repo.ready("task", "work");
        let output = repo.aynig_ok(["run"]);
        assert_eq!(repo.state("task"), "done", "{}", told(&output));
        assert!(out(&output).contains(words), "{words}: {}", told(&output));
        assert!(repo.path.join(".worktrees/task/dir").is_dir(), "{words}: it stays");
    }
}

// The list of worktrees.

/// CONTRACT 9.2
#[test]
fn what_comes_to_lie_where_a_worktree_was_is_not_removed_with_it() {
    let repo = Repo::scene(&[("work", "say at $$; await release; next done")]);
    repo.ready("task", "work");
    let runner = repo.aynig_start(["run"]);
    repo.said("at");
    // Another runner holds the lock of the worktree list for a while.
    let list = std::fs::File::open(repo.path.join(".git/aynig")).expect("it is there");
    list.lock().expect("nobody has it");
    repo.release("release");
    let place = repo.path.join(".worktrees/task");
    wait_until("the files to go", || !place.exists());
    std::fs::create_dir_all(&place).expect("a directory");
    std::fs::write(place.join("mine.txt"), "mine").expect("a file");
    list.unlock().expect("it was ours");
    let output = runner.finish();
    assert_eq!(repo.state("task"), "done", "{}", told(&output));
    assert_eq!(std::fs::read_to_string(place.join("mine.txt")).expect("it is there"), "mine");
    assert_eq!(repo.worktrees(), Vec::<String>::new());
}

#[test]
fn what_lies_where_registrations_are_made_is_not_followed() {
    let repo = Repo::scene(&[("work", "next done")]);
    let beside = repo.path.join(".git/aynig/registering");
    std::fs::create_dir_all(repo.path.join(".git/aynig")).expect("a directory");
    let theirs = repo.beside("theirs");
    std::fs::create_dir_all(theirs.join("inside")).expect("a directory");
    std::fs::set_permissions(theirs.join("inside"), std::fs::Permissions::from_mode(0o500)).expect("chmod");
    let empty = repo.beside("empty");
    std::fs::create_dir(&empty).expect("a directory");
    let make: [&dyn Fn(); 4] = [
        &|| std::fs::write(&beside, "a file").expect("a file"),
        &|| std::os::unix::fs::symlink(&theirs, &beside).expect("a link"),
        &|| {
            std::fs::create_dir(&beside).expect("a directory");
            let pipe = nix::unistd::mkfifo(&beside.join("gitdir"), nix::sys::stat::Mode::S_IRWXU);
            pipe.expect("a pipe");
        },
        &|| {
            std::fs::create_dir(&beside).expect("a directory");
            let link = format!("{}\n", empty.join(".git").display());
            std::fs::write(beside.join("gitdir"), link).expect("a file");
        },
    ];
    for (at, make) in make.iter().enumerate() {
        make();
        let branch = format!("task{at}");
        repo.ready(&branch, "work");
        let output = repo.aynig_start(["run"]).finish();
        assert_eq!(repo.state(&branch), "done", "{at}: {}", told(&output));
        assert!(beside.symlink_metadata().is_err(), "{at}");
    }
    let mode = std::fs::metadata(theirs.join("inside")).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o500);
    assert!(empty.is_dir(), "no record says that it is ours");
}

// Logs.

#[test]
fn a_log_turned_into_a_pipe_is_not_waited_for() {
    let repo = scene(
        "rm \"$STDOUT_LOG_PATH\" \"$STDERR_LOG_PATH\"; mkfifo \"$STDOUT_LOG_PATH\" \"$STDERR_LOG_PATH\"; exit 1",
    );
    repo.aynig_start(["run"]).finish();
    assert_eq!(repo.state("task"), "stalled");
    let refused = repo.aynig(["logs", "--branch", "task"]);
    assert!(err(&refused).contains("not a regular file"), "{}", told(&refused));
    repo.assert_tidy();
}

#[test]
fn a_killed_runners_log_turned_into_a_pipe_is_not_waited_for() {
    let repo = scene("rm \"$STDOUT_LOG_PATH\"; mkfifo \"$STDOUT_LOG_PATH\"; say ready $$; await release");
    let runner = repo.aynig_start(["run", "--lease-seconds", "1"]);
    let command = repo.said_pid("ready");
    runner.signal(nix::sys::signal::Signal::SIGKILL);
    runner.finish();
    command.gone();
    repo.run_until("task", "stalled", &["run"]);
    repo.assert_tidy();
    let records = repo.path.join(".git/aynig/attempts");
    let bodies =
        files_below(&records).into_iter().filter(|path| path.extension().is_some_and(|e| e == "body"));
    assert_eq!(bodies.count(), 0, "the body of an attempt goes with it");
}

#[test]
fn what_was_declared_counts_though_the_log_was_removed() {
    let repo = scene("next done; echo why >&2; rm -rf \"$(dirname \"$STDOUT_LOG_PATH\")\"");
    repo.aynig_ok(["run"]);
    assert_eq!(repo.state("task"), "done");
    repo.assert_tidy();
}

// A setup that cannot work is reported before anything is claimed.

#[test]
fn without_git_nothing_is_claimed() {
    let repo = scene("next done");
    let head = repo.head("task");
    let output = repo.aynig_command().arg("run").env("PATH", "/nonexistent").output().expect("aynig runs");
    assert_refused(
        &output,
        3,
        &["nothing was run", "hint: put the directory of the program `git` into PATH"],
    );
    assert_eq!(repo.head("task"), head);
}

/// CONTRACT 9.4
#[test]
fn without_a_place_nothing_is_claimed() {
    let blocked = |path: &str, arguments: &[&str], words: &str| {
        let repo = scene("next done");
        repo.write(path, "in the way\n");
        repo.commit_all("more");
        let head = repo.head("task");
        let output = repo.aynig(["run"].iter().chain(arguments).copied());
        assert_refused(&output, 3, &["nothing was run", words]);
        assert_eq!(repo.head("task"), head);
        assert_eq!(repo.git(["status", "--short", "--ignored"]), "", "nothing was made or hidden");
    };
    blocked(".aynig/logs", &[], ".aynig/logs is not a directory");
    blocked("file", &["--worktree", "file/below"], "file is not a directory");
    blocked(
        "file",
        &["--worktree", "."],
        "the repository's own top directory; choose another place with --worktree",
    );
    blocked("src/file", &["--worktree", "src"], "a directory with files of the repository in it; choose");
    blocked("file", &["--worktree", ".git/here"], "inside the repository's git directory; choose");
}

#[test]
fn a_persons_untracked_files_beside_worktrees_stay_visible() {
    let repo = scene("next done");
    repo.write("scratch/note", "not committed yet\n");
    repo.aynig_ok(["run", "--worktree", "scratch"]);
    assert_eq!(repo.state("task"), "done");
    assert_eq!(repo.git(["status", "--short", "--untracked-files=all"]), "?? scratch/note");
    repo.assert_tidy();
}

// A lease while its worktree is being made.

/// A scene whose checkouts wait for `release`.
fn slow_to_check_out(script: &str) -> Repo {
    let repo = Repo::scene(&[("work", script)]);
    repo.write("slow", "text\n");
    repo.write(".gitattributes", "slow filter=slow\n");
    repo.commit_all("a file that is slow to check out");
    repo.ready("task", "work");
    repo.command("../smudge", &repo.scripted("say placing yes; await release; cat"));
    let smudge = repo.beside("smudge").display().to_string();
    repo.git(["config", "filter.slow.smudge", &smudge]);
    repo
}

/// CONTRACT 10.4
#[test]
fn a_lease_lost_before_the_command_starts_keeps_it_from_starting() {
    let repo = slow_to_check_out("echo ran >>\"$ROOM/ran\"; next done");
    let runner = repo.aynig_start(["run"]);
    repo.said("placing");
    let head = repo.taken_by_other("main", "task", 300);
    repo.release("release");
    let output = runner.finish();
    assert!(!repo.beside("ran").exists(), "{}", told(&output));
    assert_eq!(repo.head("task"), head);
    repo.assert_tidy();
}

/// CONTRACT 10.3
#[test]
fn a_checkout_longer_than_the_lease_keeps_it() {
    let repo = slow_to_check_out("next done");
    let runner = repo.aynig_start(["run", "--lease-seconds", "1"]);
    repo.said("placing");
    let first = repo.head("task");
    let dated =
        |commit: &str| repo.git(["log", "-1", "--format=%ct", commit]).parse::<u64>().expect("a date");
    wait_until("two leases to have passed", || dated("task") > dated(&first) + 2);
    assert_eq!(repo.state("task"), "working");
    repo.release("release");
    let output = runner.finish();
    assert_eq!(repo.state("task"), "done", "{}", told(&output));
    repo.assert_tidy();
}

/// CONTRACT 5.25
#[test]
fn a_lease_of_a_runner_is_not_taken_while_the_worktree_is_made() {
    let repo = slow_to_check_out("next done");
    let runner = repo.aynig_start(["run"]);
    repo.said("placing");
    assert_refused(
        &repo.aynig(["set-state", "task", "--state", "other"]),
        1,
        &["task is leased to test-host", "--force"],
    );
    repo.release("release");
    let output = runner.finish();
    assert_eq!(repo.state("task"), "done", "{}", told(&output));
    repo.assert_tidy();
}
