//! A runner killed at any moment: later runners finish the work, no step runs twice, and no file is lost.

use std::collections::BTreeSet;
use std::ffi::OsString;

use nix::sys::signal::Signal;

use super::scene::*;
use super::support::*;

/// The worktree directories, complete or not.
fn worktrees(repo: &Repo) -> BTreeSet<OsString> {
    let entries = std::fs::read_dir(repo.path.join(".worktrees")).into_iter().flatten().flatten();
    entries.filter(|entry| entry.path().is_dir()).map(|entry| entry.file_name()).collect()
}

/// CONTRACT 8.1, 8.3, 9.5
#[test]
fn killed_at_any_moment() {
    let repo = Repo::scene(&[(
        "work",
        r#"echo "$AYNIG_BRANCH" >>"$ROOM/began"; echo "$AYNIG_BRANCH" >made.txt; git add made.txt
        echo draft >draft.txt; echo "$AYNIG_BRANCH" >>"$ROOM/ended"; next done"#,
    )]);
    let branches: Vec<String> = (0..60).map(|n| format!("b{n:02}")).collect();
    repo.ready_many(&branches, "work");
    let count = |name: &str| repo.noted_lines(name).len();
    for round in 0..20 {
        let (places, began, ended) = (worktrees(&repo), count("began"), count("ended"));
        let runner = repo.aynig_start(["run", "--jobs", "2", "--lease-seconds", "1"]);
        // A different moment of a step each time. A runner that finds no branch left exits by itself.
        wait_until("its moment", || {
            let has_come = match round % 3 {
                0 => !worktrees(&repo).is_subset(&places),
                1 => count("began") > began,
                _ => count("ended") > ended,
            };
            has_come || !is_alive(runner.pid())
        });
        runner.signal(Signal::SIGKILL);
        drop(runner.finish());
    }
    repo.deserted();
    wait_until("everything to be settled", || {
        let output = repo.aynig(["run", "--drain", "--jobs", "2"]);
        assert_eq!(output.status.code(), Some(0), "{}", told(&output));
        branches.iter().all(|branch| ["done", "stalled"].contains(&repo.state(branch).as_str()))
    });
    repo.assert_tidy();

    let (began, ended) = (repo.noted_lines("began"), repo.noted_lines("ended"));
    let mut once = began.clone();
    once.dedup();
    assert_eq!(began, once, "no step was begun twice");
    let rescues = repo.rescues();
    for branch in &branches {
        repo.linear(&format!("main..{branch}"));
        let saved: Vec<&String> =
            rescues.iter().filter(|rescue| rescue.contains(&format!("/{branch}/"))).collect();
        match repo.state(branch).as_str() {
            "done" => assert_eq!(&repo.show(&format!("{branch}:made.txt")), branch),
            _ if ended.contains(branch) => {
                let made = saved.iter().any(|rescue| repo.paths_in(rescue).contains(&"made.txt".to_owned()));
                assert!(made, "{branch}: what it made is in {saved:?}");
            }
            _ => {}
        }
        if ended.contains(branch) {
            let draft = saved.iter().any(|rescue| repo.paths_in(rescue).contains(&"draft.txt".to_owned()));
            assert!(draft, "{branch}: its draft is in {saved:?}");
        }
    }
}
