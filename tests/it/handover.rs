//! A worktree goes from one step to another: no process that the first one left reaches the second.

use super::pool::large;
use super::spare::small;

/// Lets the process that the previous step left act now, and records what came of it here.
const LOOK: &str = r#"
touch "$ROOM/go"; await late
git diff --cached --name-only >"$ROOM/staged.$AYNIG_BRANCH"
stat -c %i dir0/file1 >"$ROOM/inode.$AYNIG_BRANCH"
git rev-parse --absolute-git-dir >"$ROOM/own.$AYNIG_BRANCH"
next done"#;

/// A command that leaves a process, which stages a file in the registration of the step by `how`.
fn stages_later(how: &str) -> String {
    format!(
        "own=$(git rev-parse --absolute-git-dir); echo \"$own\" >\"$ROOM/own.a\"
stat -c %i dir0/file1 >\"$ROOM/inode.a\"
( {how}; say holds x; await go; id=$(echo late | git hash-object -w --stdin)
git update-index --add --cacheinfo \"100644,$id,late\"; say late x ) >/dev/null 2>&1 &
await holds
next done"
    )
}

/// CONTRACT 9.15
#[test]
fn a_process_that_knows_the_registration_of_a_step_does_not_reach_the_next() {
    for how in ["cd /; export GIT_DIR=\"$own\"", "cd \"$own\"; export GIT_DIR=."] {
        let stay = stages_later(how);
        let commands: [(&str, &str); 2] = [("stay", &stay), ("look", LOOK)];
        for (repo, runs) in [
            (small(&commands), vec![vec!["run"]]),
            (large(&commands), vec![vec!["run", "--branch", "a"], vec!["run", "--branch", "b"]]),
        ] {
            repo.ready("a", "stay");
            repo.ready("b", "look");
            for arguments in runs {
                repo.aynig_ok(arguments);
            }
            assert_eq!(repo.state("b"), "done", "{how}: {}", repo.message("b"));
            assert_eq!(repo.left_by("staged.b"), "", "{how}");
            assert!(!repo.git(["ls-tree", "--name-only", "b"]).contains("late"), "{how}");
            assert_ne!(repo.left_by("own.a"), repo.left_by("own.b"), "{how}");
            if how.contains("cd /") {
                assert_eq!(repo.left_by("inode.a"), repo.left_by("inode.b"), "it was handed on all the same");
            }
        }
    }
}
