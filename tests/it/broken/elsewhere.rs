//! Parts of the git directory on another file system, as with mounts and overlays. There `rename` fails
//! (EXDEV), and files are created in place.

use super::*;

/// A private mount namespace, whose mounts end with the run.
const ALONE: [&str; 2] = ["unshare", "-m"];

#[test]
fn the_list_of_worktrees() {
    if !may_mount() {
        return;
    }
    let mount = "mkdir -p .git/worktrees && mount -t tmpfs none .git/worktrees || exit 99";
    for (command, state, code) in [(DONE, "done", 0), ("exit 3", "stalled", 1)] {
        let repo = Repo::one_step(&working(command));
        let output = repo.run_after(&ALONE, mount, &["--log-level", "trace"]);
        assert_eq!(output.status.code(), Some(code), "{}", err(&output));
        assert!(err(&output).contains("worktree add"), "by git: {}", err(&output));
        assert_eq!(repo.state("work"), state, "{}", err(&output));
        assert_eq!(repo.rescues().len(), 1, "what was not staged is saved");
        assert!(!repo.path.join(".git/aynig/registering").exists(), "nothing is half done");
        let left = std::fs::read_dir(repo.path.join(".worktrees")).map_or(0, Iterator::count);
        assert_eq!(left, 0, "{}", err(&output));
        repo.assert_tidy();
    }
}
