//! A worktree that was moved, or whose directory is a different one by now. The contents of its registration
//! are saved, and files of others are left alone.

use std::fs;
use std::path::PathBuf;

use super::lost_work::MESS;
use super::scene::*;
use super::support::*;

/// A runner killed while its command, which had made a mess, was running.
fn killed(script: &str, arguments: &[&str]) -> Repo {
    let repo = Repo::scene(&[("work", &format!("{script}\nsay ready $$\nawait release"))]);
    repo.write("gone.txt", "to be deleted\n");
    repo.commit_all("another file");
    repo.ready("task", "work");
    repo.killed_over_its_command(&[&["run", "--lease-seconds", "2"], arguments].concat());
    repo
}

/// A person's directory, with files that git ignores.
fn persons(repo: &Repo) -> PathBuf {
    for (name, text) in
        [("doc", "persons\n"), ("key", "ignored\n"), (".gitignore", "key\n"), ("task/key", "ignored\n")]
    {
        repo.write(&format!("../person/{name}"), text);
    }
    repo.beside("person")
}

/// Asserts that the person's files are intact and that the worktree is left in place.
fn assert_left(repo: &Repo, words: &str) {
    let output = repo.run_until("task", "stalled", &["run"]);
    assert!(err(&output).contains(words), "{}", told(&output));
    let names: Vec<PathBuf> = files_below(&repo.beside("person"));
    assert_eq!(names.len(), 4, "{names:?}");
    assert_eq!(repo.worktrees().len(), 1, "its registration stays");
    assert!(repo.message("task").contains("Left in place: "), "{}", repo.message("task"));
    // The advice does not empty the target of a symlink.
    let output = repo.aynig_ok(["clean", "--worktrees"]);
    let next = out(&output);
    let next = next.lines().find_map(|line| line.trim().strip_prefix("next: take out what you need, then: "));
    if let Some(next) = next.filter(|next| next.starts_with("mv ")) {
        let next = next.replace(", and then: ", " && ");
        let mut shell = std::process::Command::new("sh");
        hermetic(&mut shell).current_dir(&repo.path).args(["-ec", &next]);
        let output = shell.output().expect("sh runs");
        assert!(output.status.success(), "{}", told(&output));
        repo.assert_tidy();
    }
    assert_eq!(files_below(&repo.beside("person")), names);
}

/// CONTRACT 9.7
#[test]
fn a_link_in_the_place_of_a_worktree_is_not_followed() {
    let repo = killed(MESS, &[]);
    let place = repo.path.join(".worktrees/task");
    fs::remove_dir_all(&place).expect("it was there");
    std::os::unix::fs::symlink(persons(&repo), &place).expect("a link");
    assert_left(&repo, "a symbolic link is in its place");
}

/// CONTRACT 9.7
#[test]
fn a_link_above_a_worktree_is_not_followed() {
    let repo = killed(MESS, &[]);
    let place = repo.path.join(".worktrees");
    fs::remove_dir_all(&place).expect("it was there");
    std::os::unix::fs::symlink(persons(&repo), &place).expect("a link");
    // A step of another branch would get this place.
    assert_left(&repo, "leads through a symbolic link");
}

#[test]
fn a_link_that_a_command_made_is_not_followed() {
    for (end, state) in [("exit 1", "stalled"), ("next done", "done")] {
        let script =
            format!("here=$PWD; mv \"$here\" \"$ROOM/moved\"; ln -s \"$ROOM/person\" \"$here\"; cd /; {end}");
        let repo = Repo::scene(&[("work", &script)]);
        repo.ready("task", "work");
        let before = files_below(&persons(&repo));
        let output = repo.aynig(["run"]);
        assert_eq!(repo.state("task"), state, "{}", told(&output));
        assert!(out(&output).contains("left in place: "), "{}", told(&output));
        assert_eq!(files_below(&repo.beside("person")), before);
    }
}

/// CONTRACT 9.7
#[test]
fn a_file_in_the_place_of_a_worktree_stays() {
    let repo = killed(MESS, &[]);
    let place = repo.path.join(".worktrees/task");
    fs::remove_dir_all(&place).expect("it was there");
    fs::write(&place, "a person's").expect("a file");
    persons(&repo);
    assert_left(&repo, "a file is in its place");
    assert_eq!(fs::read_to_string(repo.path.join(".worktrees/task.away")).expect("moved"), "a person's");
}

/// Neither a directory below it counts as its place, nor a new one that another step has made there.
/// CONTRACT 9.7
#[test]
fn a_place_that_is_not_mounted_is_not_forgotten() {
    for (place, instead) in
        [("../disk/worktrees", "disk"), ("../disk/worktrees", "disk/worktrees"), ("../disk", "disk")]
    {
        let repo = killed(MESS, &["--worktree", place]);
        let (disk, away) = (repo.beside("disk"), repo.beside("away"));
        fs::rename(&disk, &away).expect("unmounted");
        fs::create_dir_all(repo.beside(instead)).expect("where it was");
        persons(&repo);
        assert_left(&repo, "a disk that is not mounted?");
        repo.aynig_ok(["clean", "--worktrees", "--apply"]);
        fs::remove_dir_all(&disk).expect("empty");
        fs::rename(&away, &disk).expect("mounted again");
        assert_eq!(repo.worktrees().len(), 1, "{place}, {instead}");
        let kept = PathBuf::from(&repo.worktrees()[0]);
        assert_eq!(fs::read_to_string(kept.join("untracked.txt")).expect("it is there"), "untracked\n");
    }
}

/// Git can write relative links (`worktree.useRelativePaths`).
#[test]
fn registrations_may_be_relative() {
    let repo = killed(MESS, &[]);
    let list = repo.path.join(".git/worktrees");
    let registration = fs::read_dir(&list).expect("a list").next().expect("one").expect("readable");
    fs::write(registration.path().join("gitdir"), "../../../.worktrees/task/.git\n").expect("a file");
    let link = format!("gitdir: ../../.git/worktrees/{}\n", registration.file_name().display());
    repo.write(".worktrees/task/.git", &link);
    let output = repo.run_until("task", "stalled", &["run"]);
    assert_eq!(repo.show(&format!("{}:untracked.txt", repo.rescue())), "untracked", "{}", told(&output));
    repo.assert_tidy();
}

/// As a crash of the host may leave it.
#[test]
fn a_registration_that_names_nothing_is_not_taken_for_one_of_everything() {
    let repo = killed(MESS, &[]);
    let list = repo.path.join(".git/worktrees");
    let registration = fs::read_dir(&list).expect("a list").next().expect("one").expect("readable").path();
    fs::write(registration.join("gitdir"), "").expect("a file");
    repo.run_until("task", "stalled", &["run"]);
    assert_eq!(repo.rescues(), Vec::<String>::new(), "the list itself is no work");
    assert!(!list.join(".git").exists());
    assert_eq!(fs::read_to_string(repo.path.join(".worktrees/task/staged.txt")).expect("left"), "staged\n");
}

/// Its directory is removed: by a person, or by another runner after the dead one had removed the files. The
/// staged work is still in the registration.
fn the_place_is_removed(script: &str) -> (Repo, String) {
    let repo = killed(script, &[]);
    fs::remove_dir_all(repo.path.join(".worktrees")).expect("it was there");
    let output = repo.run_until("task", "stalled", &["run"]);
    assert!(!told(&output).contains("could not"), "{}", told(&output));
    repo.assert_tidy();
    let rescue = repo.rescue();
    assert!(out(&output).contains(&rescue), "{}", told(&output));
    (repo, rescue)
}

/// CONTRACT 9.5
#[test]
fn what_was_staged_outlives_the_place_of_its_worktree() {
    let (repo, rescue) = the_place_is_removed(MESS);
    assert_eq!(repo.show(&format!("{rescue}:both.txt")), "v1");
    assert_eq!(repo.show(&format!("{rescue}:staged.txt")), "staged");
    assert_eq!(repo.show(&format!("{rescue}:gone.txt")), "to be deleted", "that files are gone is not work");
}

#[test]
fn conflicts_and_a_place_that_is_gone() {
    let (repo, rescue) = the_place_is_removed(
        "echo staged >staged.txt; git add staged.txt
         one=$(echo one | git hash-object -w --stdin); two=$(echo two | git hash-object -w --stdin)
         printf '100644 %s 2\\tHEAD\\n100644 %s 3\\tHEAD\\n' $one $two | git update-index --index-info",
    );
    assert_eq!(repo.show(&format!("{rescue}:staged.txt")), "staged");
    // The work's own file `HEAD`, not the registration's.
    assert_eq!(repo.show(&format!("{rescue}:HEAD")), "two", "what HEAD does not have");
}

/// A file where a directory is staged, and the reverse.
#[test]
fn conflicts_of_directories_with_files_and_a_place_that_is_gone() {
    let (repo, rescue) = the_place_is_removed(
        "one=$(echo one | git hash-object -w --stdin); two=$(echo two | git hash-object -w --stdin)
         printf '100644 %s 0\ta/b\n100644 %s 3\tq/r\n' $one $one | git update-index --index-info
         printf '100644 %s 3\ta\n100644 %s 2\tq\n' $two $two | git update-index --index-info",
    );
    for (path, text) in [("a/b", "one"), ("a~3", "two"), ("q/r", "one"), ("q~2", "two")] {
        assert_eq!(repo.show(&format!("{rescue}:{path}")), text, "{path}");
    }
}
