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
