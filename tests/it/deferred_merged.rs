//! Deferred states whose delivery is below a merge.

use super::deferred::{deliveries, later, slots};
use super::scene::*;
use super::support::*;

const PARKED: &[u8] = b"s\n\ndwp-state: a\ndwp-not-before: 2999-01-01T00:00:00Z\n";

/// CONTRACT 5.32, 5.34
#[test]
fn a_merge_hides_no_delivery() {
    let repo = Repo::scene(&[("work", r#"echo "$AYNIG_BRANCH" >>"$ROOM/ran"; next done"#)]);
    repo.branch_with_message("task", PARKED);
    repo.aynig_ok(later("task", &[]));
    let slot = repo.head("refs/aynig/deferred/task");
    let restored = || repo.git(["update-ref", "refs/aynig/deferred/task", &slot]);
    repo.branch_from("task", "mine", b"my own commit\n");
    repo.branch_from("task", "task", b"s\n\ndwp-state: rests\n");
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!((repo.noted_lines("ran").len(), slots(&repo).len()), (1, 0));
    // A killed runner had left the slot; somebody merges the branch into a branch of theirs, and pushes that.
    restored();
    let tree = repo.git(["rev-parse", "task^{tree}"]);
    let merge = repo.git(["commit-tree", &tree, "-p", "mine", "-p", "task", "-m", "Merge task into mine"]);
    repo.git(["branch", "-f", "task", &merge]);
    let withdrawn = repo.aynig(["set-state", "--withdraw", "task"]);
    assert_refused(&withdrawn, 1, &["was delivered already"]);
    let output = repo.aynig_ok(["run", "--drain"]);
    assert_eq!(repo.noted_lines("ran").len(), 1, "it ran twice: {}", told(&output));
    assert_eq!((slots(&repo), deliveries(&repo, "task")), (vec![], 1));
}
