//! What counts as landed: the work, and not a change that looks alike.

use super::support::*;

/// CONTRACT 9.7
#[test]
fn the_same_change_at_another_place_of_a_file_is_other_work() {
    let repo = Repo::new();
    let blocks = "{\n a\n b\n c\n old\n d\n e\n f\n}\n".repeat(4);
    let changed = |at: usize| {
        let mut parts: Vec<&str> = blocks.split("old").collect();
        let after = parts.split_off(at);
        format!("{}new{}", parts.join("old"), after.join("old"))
    };
    repo.write("f", &blocks);
    repo.commit_all("blocks");
    for (name, at) in [("first", 1), ("last", 4)] {
        repo.git(["checkout", "-q", "-b", name, "main"]);
        repo.write("f", &changed(at));
        repo.commit_all(&format!("{name}\n\ndwp-state: done"));
    }
    repo.git(["checkout", "-q", "main"]);
    // As a squash merge of `last`, after others moved the lines.
    repo.write("f", &format!("above\n{blocks}"));
    repo.commit_all("above");
    repo.write("f", &format!("above\n{}", changed(4)));
    repo.commit_all("the last one");
    repo.write("f", &format!("above\n{}more\n", changed(4)));
    repo.commit_all("more");
    let hints = out(&repo.aynig_ok(["clean"]));
    assert!(hints.contains("git branch -D last"), "{hints}");
    assert!(!hints.contains("git branch -D first"), "{hints}");
}

/// CONTRACT 9.7
#[test]
fn a_graft_saves_no_work() {
    let repo = Repo::new();
    repo.git(["checkout", "-q", "--detach"]);
    repo.write("mine", "m");
    repo.commit_all("rescue: unfinished work");
    let work = repo.head("HEAD");
    repo.git(["checkout", "-q", "main"]);
    let rescue = "refs/aynig/rescue/gone/0f8fad5b-d9cb-469f-a165-70867728950e";
    repo.git(["update-ref", rescue, &work]);
    let main = repo.head("main");
    std::fs::create_dir_all(repo.path.join(".git/info")).expect("made");
    std::fs::write(repo.path.join(".git/info/grafts"), format!("{main} {work}\n")).expect("written");
    assert!(repo.git(["branch", "--contains", &work]).contains("main"), "git takes it for history");
    for apply in [vec!["clean"], vec!["clean", "--apply"]] {
        let said = out(&repo.aynig_ok(apply));
        assert!(said.contains("in no branch"), "{said}");
    }
    assert_eq!(repo.head(rescue), work);
}

/// CONTRACT 21.7
#[test]
fn a_shallow_clone_lands_what_it_has_in_common() {
    let hub = Repo::with_commands(&[("build", "true")]);
    hub.git(["checkout", "-q", "-b", "task"]);
    hub.write("made", "x");
    hub.commit_all("work\n\ndwp-state: done");
    hub.git(["checkout", "-q", "main"]);
    hub.write("other", "y");
    hub.commit_all("other");
    let clone = hub.beside("clone");
    let place = clone.to_str().expect("UTF-8");
    hub.git([
        "clone",
        "-q",
        "--depth=1",
        "--no-single-branch",
        &format!("file://{}", hub.path.display()),
        place,
    ]);
    let run = |arguments: &[&str]| {
        let mut command = hub.aynig_command();
        command.current_dir(&clone).args(arguments).output().expect("aynig runs")
    };
    hub.git(["-C", place, "branch", "-q", "task", "origin/task"]);
    let refused = run(&["land", "task"]);
    assert_refused(&refused, 3, &["since it is shallow", "git fetch --unshallow"]);
    assert!(!err(&refused).contains("unrelated"), "{}", err(&refused));
    hub.git(["-C", place, "fetch", "-q", "--unshallow"]);
    let landed = run(&["land", "task"]);
    assert!(landed.status.success(), "{}", err(&landed));
}
