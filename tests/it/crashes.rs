//! A runner killed at any moment: the next ones find their way, and nobody runs a step twice or loses a file
//! (contract §8.3, field note 2).

use std::time::Duration;

use nix::sys::signal::Signal;

use super::scene::*;
use super::support::*;

/// A ref's lock that a killed process held stays, as git's own would, and a person is told to remove it.
fn remove_stale_locks(repo: &Repo) {
    for path in files_below(&repo.path.join(".git/refs")) {
        if path.extension().is_some_and(|extension| extension == "lock") {
            std::fs::remove_file(path).expect("it is there");
        }
    }
}

#[test]
fn killed_at_any_moment() {
    let repo = Repo::scene(&[(
        "work",
        r#"echo "$AYNIG_BRANCH" >>"$ROOM/began"; echo "$AYNIG_BRANCH" >made.txt; git add made.txt
        echo draft >draft.txt; echo "$AYNIG_BRANCH" >>"$ROOM/ended"; next done"#,
    )]);
    let branches: Vec<String> = (0..60).map(|n| format!("b{n:02}")).collect();
    repo.ready_many(&branches, "work");
    // The waiting is the chaos here, it orders nothing: another moment of the pass each time.
    for round in 0_u64..20 {
        let runner = repo.aynig_start(["run", "--jobs", "2", "--lease-seconds", "1"]);
        std::thread::sleep(Duration::from_millis(15 + round * 7));
        runner.signal(Signal::SIGKILL);
        drop(runner.finish());
    }
    repo.deserted();
    remove_stale_locks(&repo);
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
