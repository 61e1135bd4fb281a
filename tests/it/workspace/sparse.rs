//! Workspaces of which a sparse checkout has only some files: the others are not deleted.

use super::super::support::*;
use super::Made;

/// A workspace with the files of `a` alone.
fn sparse(set: &str) -> (Repo, Made) {
    let repo = Repo::new();
    for directory in ["a", "b", "b/deep"] {
        repo.write(&format!("{directory}/f"), "f\n");
    }
    repo.commit_all("directories");
    let made = repo.made("fix");
    made.sh(&repo, &format!("git sparse-checkout {set} && test ! -e b"));
    (repo, made)
}

/// How the files are chosen.
const SETS: [&str; 3] = ["set a", "set --sparse-index a", "set --no-cone '/*' '!/b/'"];

const LOSE_INDEX: &str = "rm \"$(git rev-parse --absolute-git-dir)/index\"";

/// CONTRACT 15.6
#[test]
fn files_outside_of_a_sparse_checkout_are_not_deleted() {
    for set in SETS {
        for lose in ["", LOSE_INDEX] {
            let (repo, made) = sparse(set);
            made.sh(&repo, "echo x >>a/f; echo y >a/new");
            for more in ["x", "y", "z"] {
                made.sh(&repo, &format!("echo {more} >>a/f\n{lose}"));
                repo.workspace_ok(["snapshot", &made.slug]);
                let changed = repo.git(["diff", "--name-status", "main", &made.branch]);
                assert_eq!(changed, "M\ta/f\nA\ta/new", "{set} {lose}");
                assert_eq!(made.git(&repo, &["status", "--porcelain"]), "", "{set} {lose}");
                assert!(!made.path.join("b").exists(), "{set} {lose}");
            }
            // One that somebody made there is taken.
            made.sh(&repo, &format!("mkdir b; echo own >b/f\n{lose}"));
            repo.workspace_ok(["snapshot", &made.slug]);
            assert_eq!(repo.git(["show", &format!("{}:b/f", made.branch)]), "own", "{set} {lose}");
            assert_eq!(repo.git(["show", &format!("{}:b/deep/f", made.branch)]), "f", "{set} {lose}");
        }
    }
}

/// CONTRACT 15.7
#[test]
fn a_rollback_of_a_sparse_checkout_saves_no_deletions() {
    for set in SETS {
        for lose in ["", LOSE_INDEX] {
            let (repo, made) = sparse(set);
            made.sh(&repo, &format!("echo x >>a/f; echo y >a/new\n{lose}"));
            repo.workspace_ok(["rollback", &made.slug]);
            let [rescue] = &repo.rescues()[..] else { panic!("{set} {lose}: one rescue") };
            let changed = repo.git(["diff", "--name-status", "main", rescue]);
            assert_eq!(changed, "M\ta/f\nA\ta/new", "{set} {lose}");
            repo.workspace_ok(["rollback", "--undo", &made.slug]);
            // Without an index nothing says what was staged.
            let status = if lose.is_empty() { " M a/f\n?? a/new" } else { "M  a/f\nA  a/new" };
            assert_eq!(made.git(&repo, &["status", "--porcelain"]), status, "{set} {lose}");
            assert!(!made.path.join("b").exists(), "{set} {lose}");
        }
    }
}

/// CONTRACT 15.6, 15.7
#[test]
fn a_damaged_index_is_made_anew_without_what_is_left_out() {
    let (repo, made) = sparse("set a");
    made.sh(&repo, "echo x >>a/f; echo junk >\"$(git rev-parse --absolute-git-dir)/index\"");
    let done = repo.workspace_ok(["snapshot", &made.slug]);
    assert!(err(&done).contains("its index could not be read and was made anew"), "{}", err(&done));
    assert_eq!(repo.git(["diff", "--name-status", "main", &made.branch]), "M\ta/f");
    made.sh(&repo, "echo x >>a/f; echo junk >\"$(git rev-parse --absolute-git-dir)/index\"");
    repo.workspace_ok(["rollback", &made.slug]);
    let saved = repo.git(["for-each-ref", "--format=%(refname)", "refs/aynig/rescue"]);
    let newest = saved.lines().last().expect("a rescue ref");
    assert_eq!(repo.git(["show", &format!("{newest}:a/f")]), "f\nx\nx", "{saved}");
    assert!(!made.path.join("b").exists());
}

/// CONTRACT 15.7, 15.8
#[test]
fn settings_of_the_worktree_alone_stay() {
    for set in SETS {
        let (repo, made) = sparse(set);
        made.sh(&repo, "git config --worktree user.email agent@x; echo x >>a/f; mkdir b; echo own >b/f");
        let is_kept = |what: &str| {
            assert_eq!(made.git(&repo, &["config", "--worktree", "user.email"]), "agent@x", "{set} {what}");
            assert!(!made.path.join("b/deep").exists(), "{set} {what}");
        };
        repo.workspace_ok(["rollback", &made.slug]);
        is_kept("rolled back");
        assert!(!made.path.join("b").exists(), "{set}");
        assert_eq!(made.git(&repo, &["status", "--porcelain"]), "", "{set}");
        repo.workspace_ok(["rollback", "--undo", &made.slug]);
        is_kept("undone");
        assert_eq!(std::fs::read_to_string(made.path.join("b/f")).expect("brought back"), "own\n", "{set}");
        assert_eq!(made.git(&repo, &["status", "--porcelain"]), " M a/f\n M b/f", "{set}");
        repo.workspace_ok(["snapshot", &made.slug]);
        assert_eq!(repo.git(["diff", "--name-only", "main", &made.branch]), "a/f\nb/f", "{set}");
        // Those that were given up do not come back.
        made.sh(&repo, "git config --worktree --unset user.email; git sparse-checkout disable");
        repo.workspace_ok(["rollback", &made.slug]);
        assert!(made.path.join("b/deep/f").is_file(), "{set}");
        made.sh(&repo, "! git config --worktree user.email");
        assert!(!made.record(&repo).join("settings").exists(), "{set}");
    }
}
