//! A clone whose remote has branches with a state, while no remote is set to be the authority.

use std::fs;

use super::*;

const LINE: &str = "git config aynig.remote origin";
const STAY: &str = "git config aynig.remote ''";

/// CONTRACT 5.14
#[test]
fn a_clone_that_needs_a_remote_is_told_the_line_to_type() {
    let hub = hub(&[("work", "next done")]);
    hub.ready("task", "work");
    let clone = clone(&hub);
    // No network: the refs of the clone are enough.
    fs::rename(&hub.path, hub.beside("away.git")).expect("it is ours");
    let forget = || fs::remove_file(clone.path.join(".git/aynig/said"));
    for arguments in [["run"].as_slice(), &["run", "--drain"], &["run", "nothing*"], &["status", "--all"]] {
        forget().ok();
        let text = err(&clone.aynig_ok(arguments.iter().copied()));
        assert!(text.contains(LINE) && text.contains(STAY) && text.contains("task of origin"), "{text}");
        assert_eq!(text.matches(LINE).count(), 1, "{text}");
    }
    assert!(err(&clone.aynig_ok(["run"])).contains(LINE) && !err(&clone.aynig_ok(["run"])).contains(LINE));
    let summary = json(&clone.aynig_ok(["run", "--json"]));
    assert_eq!(summary["warnings"][0]["code"], "remoteNotSet", "{summary:#}");
    clone.git(["branch", "task", "origin/task"]);
    let waited = clone.aynig(["wait", "task", "--timeout", "0"]);
    assert_eq!(
        (waited.status.code(), err(&waited).matches(LINE).count()),
        (Some(124), 1),
        "{}",
        told(&waited)
    );
    clone.git(["branch", "-D", "task"]);
    let doctor = out(&clone.aynig(["doctor"]));
    assert!(doctor.contains(&format!("next: {LINE}")), "{doctor}");
    forget().expect("it was reported");
    let mut watch = clone.aynig_command();
    watch
        .args(["run", "--watch"])
        .stdout(Stdio::null())
        .stderr(fs::File::create(hub.beside("said")).unwrap());
    let watch = Running::start(&mut watch);
    wait_until("the line", || fs::read_to_string(hub.beside("said")).is_ok_and(|text| text.contains(LINE)));
    drop(watch);
    fs::rename(hub.beside("away.git"), &hub.path).expect("it is ours");
    assert_eq!(states(&hub, "task"), ["work"], "nothing was run");
}

#[test]
fn who_has_decided_is_told_nothing() {
    let hub = hub(&[("work", "next done")]);
    hub.ready("task", "work");
    let quiet = |clone: &Repo| {
        for arguments in [["run"].as_slice(), &["status", "--all"], &["doctor"]] {
            let output = clone.aynig(arguments.iter().copied());
            assert!(!told(&output).contains("git config aynig.remote"), "{}", told(&output));
        }
    };
    let stays = clone(&hub);
    stays.git(["config", "aynig.remote", ""]);
    quiet(&stays);
    assert_eq!(states(&hub, "task"), ["work"]);
    let runs = clone(&hub);
    runs.git(["config", "aynig.remote", "origin"]);
    quiet(&runs);
    assert_eq!(states(&hub, "task"), ["work", "working", "done"]);
    let without = Repo::scene(&[]).into_bare().clone_beside("plain");
    quiet(&without);
}
