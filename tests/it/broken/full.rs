//! No space left: on the repository's disk, on the disk of the logs, or by a file size limit (`ulimit -f`).

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::*;

/// A small file system, unmounted when dropped.
pub(crate) struct Small(pub(crate) PathBuf);

impl Small {
    /// Mounts a small file system at `path` with these options.
    pub(crate) fn mount(path: PathBuf, options: &str) -> Self {
        fs::create_dir_all(&path).expect("a directory");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", options, "none"]).arg(&path).status();
        assert!(mounted.expect("mount runs").success());
        Self(path)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let gone = Command::new("umount").arg("-l").arg(&self.0).status();
        assert!(gone.is_ok_and(|status| status.success()), "{} is still mounted", self.0.display());
    }
}

/// A repository with one step, on a file system of 3 MiB.
fn small(script: &str) -> (Repo, Small) {
    let mut repo = Repo::one_step(script);
    let small = Small::mount(repo.beside("small"), "size=3m");
    let copied = Command::new("cp").arg("-a").arg(&repo.path).arg(&small.0).status();
    assert!(copied.expect("cp runs").success());
    repo.path = small.0.join("repo");
    (repo, small)
}

#[test]
fn before_the_lease_nothing_is_changed() {
    if !may_mount() {
        return;
    }
    let (repo, small) = small(DONE);
    let head = repo.head("work");
    let filler = fill(&small.0);
    let output = repo.run(&[]);
    assert_told(
        &output,
        3,
        &[
            "could not claim work: could not write a commit into",
            "No space left on device",
            "; there is room for 0 KiB and ",
            " more files in ",
            "repo/.git/objects; ",
            "the next pass tries again",
        ],
    );
    repo.assert_untouched("work", &head);
    repo.assert_nothing_half_written();
    fs::remove_file(filler).expect("it is there");
    repo.assert_goes_on();
    drop(small);
}

#[test]
fn after_the_command_its_work_stays_and_is_rescued_later() {
    for (end, code) in [(DONE, 1), ("exit 1", 1)] {
        if !may_mount() {
            return;
        }
        let fill = "dd if=/dev/zero of=\"$AYNIG_GIT_DIR/../../filler\" bs=4k 2>/dev/null";
        let (repo, small) = small(&working(&format!("{fill}\n{end}")));
        let output = repo.run(&["--lease-seconds", "5"]);
        assert_exit(&output, code);
        assert!(out(&output).contains("(nothing landed)"), "{}", out(&output));
        assert!(out(&output).contains("No space left on device"), "{}", out(&output));
        assert_eq!(repo.state("work"), "working");
        let worktree = repo.assert_left(&output);
        for file in ["made", "loose"] {
            assert_eq!(fs::read_to_string(worktree.join(file)).expect("kept"), format!("{file}\n"));
        }
        repo.assert_nothing_half_written();
        fs::remove_file(small.0.join("filler")).expect("it is there");
        repo.assert_recovers_with_work();
        drop(small);
    }
}

#[test]
fn a_checkout_that_does_not_fit_stalls_its_branch_and_goes() {
    if !may_mount() {
        return;
    }
    let (repo, small) = small(DONE);
    let mut noise = Command::new("head");
    let noise = noise.args(["-c", "900000", "/dev/urandom"]).output().expect("head runs").stdout;
    fs::write(repo.path.join("big"), noise).expect("it fits");
    repo.commit_all("a big file");
    fs::remove_file(repo.path.join("big")).expect("it is there");
    repo.ready("work", "step");
    fs::write(small.0.join("filler"), vec![0; 1_400_000]).expect("it fits");
    let output = repo.run(&[]);
    assert_exit(&output, 1);
    assert_eq!(repo.state("work"), "stalled");
    let message = repo.message("work");
    assert!(message.contains("its worktree could not be made"), "{message}");
    assert!(message.contains("unable to write file big"), "{message}");
    repo.assert_tidy();
    fs::remove_file(small.0.join("filler")).expect("it is there");
    repo.assert_goes_on_after_retry();
    drop(small);
}

#[test]
fn of_a_setup_that_fills_the_disk_it_is_told_how_it_failed() {
    if !may_mount() {
        return;
    }
    let (repo, small) = small(DONE);
    let fill = "dd if=/dev/zero of=\"$AYNIG_GIT_DIR/../../filler\" bs=4k 2>/dev/null; exit 7";
    repo.git(["config", "aynig.setup", fill]);
    let output = repo.run(&["--lease-seconds", "5"]);
    assert_exit(&output, 1);
    let row = out(&output);
    assert!(row.contains("(nothing landed)") && row.contains("No space left on device"), "{row}");
    assert!(row.contains("its worktree could not be made ready") && row.contains("exited with 7"), "{row}");
    drop(small);
}

#[test]
fn what_a_command_cannot_log_is_its_failure() {
    if !may_mount() {
        return;
    }
    let repo = Repo::one_step(&working(&format!("[ -e \"$ROOM/quiet\" ] || yes | head -c 300000\n{DONE}")));
    let logs = Small::mount(repo.path.join(".aynig/logs"), "size=64k");
    let output = repo.run_expecting(1, &[]);
    let place = format!("the disk of its logs is full: there is room for 0 KiB in {}", logs.0.display());
    assert!(one_message(&output, "the disk of its logs").contains(&place), "{place}: {}", err(&output));
    assert_eq!(repo.state("work"), "stalled", "{}", out(&output));
    assert!(repo.message("work").contains("Unfinished work was saved: git show"), "{}", repo.message("work"));
    assert_eq!(repo.git(["show", &format!("{}:loose", repo.rescues()[0])]), "loose");
    drop(logs);
    fs::write(repo.beside("quiet"), "").expect("a file");
    repo.assert_goes_on_after_retry();
}

#[test]
fn without_room_for_logs_the_command_does_not_start() {
    if !may_mount() {
        return;
    }
    let repo = Repo::one_step(&format!("touch \"$ROOM/ran\"\n{DONE}"));
    let logs = Small::mount(repo.path.join(".aynig/logs"), "nr_inodes=2");
    repo.run_expecting(1, &[]);
    assert!(!repo.was_noted("ran"));
    let message = repo.message("work");
    assert!(message.contains("could not be started") && message.contains(".aynig/logs"), "{message}");
    assert!(message.contains("No space left on device"), "{message}");
    assert!(message.contains("and 0 more files in ") && message.contains(".aynig/logs"), "{message}");
    repo.assert_tidy();
    drop(logs);
    repo.assert_goes_on_after_retry();
}

#[test]
fn a_full_disk_of_workspaces_is_named_with_what_to_do() {
    if !may_mount() {
        return;
    }
    for setting in ["aynig.dataDir", "aynig.workspaceRoot"] {
        let repo = Repo::new();
        let small = Small::mount(repo.beside("small"), "size=256k");
        repo.git(["config", setting, small.0.join("in").to_str().expect("UTF-8")]);
        let made = repo.made("fix");
        made.sh(&repo, "echo x >>README");
        let filler = fill(&small.0);
        let snapshot = ["snapshot", &made.slug];
        let calls = [&["create", "more"][..], &["rollback", &made.slug], &snapshot];
        for arguments in calls.iter().filter(|call| setting == "aynig.dataDir" || call[0] == "create") {
            let output = repo.workspace(arguments.iter().copied());
            assert_refused(
                &output,
                3,
                &["No space left on device", "hint: make room on that disk, then run it again"],
            );
            let hints = err(&output).lines().filter(|line| line.contains("hint: ")).count();
            assert_eq!(hints, 1, "{arguments:?}: {}", err(&output));
        }
        fs::remove_file(filler).expect("it is there");
        for arguments in calls {
            repo.workspace_ok(arguments.iter().copied());
        }
    }
}

#[test]
fn a_limit_of_file_sizes_does_not_end_the_runner() {
    let repo = Repo::one_step(DONE);
    let head = repo.head("work");
    let output = repo.run_after(&[], "ulimit -f 0", &[]);
    assert_told(&output, 3, &["could not claim work", "File too large", "the next pass tries again"]);
    repo.assert_untouched("work", &head);
    repo.assert_nothing_half_written();
    repo.assert_goes_on();
}

#[test]
fn a_command_over_the_limit_of_file_sizes_is_stalled_and_its_work_saved() {
    let repo = Repo::one_step(&working(&format!("[ -e \"$ROOM/quiet\" ] || yes | head -c 300000\n{DONE}")));
    let output = repo.run_after(&[], "ulimit -f 100", &[]);
    assert_exit(&output, 1);
    assert_eq!(repo.state("work"), "stalled", "{}", out(&output));
    assert_eq!(repo.git(["show", &format!("{}:loose", repo.rescues()[0])]), "loose");
    fs::write(repo.beside("quiet"), "").expect("a file");
    repo.assert_goes_on_after_retry();
}
