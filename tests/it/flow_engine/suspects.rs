//! Two runs on one host, of which one changes a setting and hides that, is killed, or ends in another way than by a record.

use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::signal::Signal;

use super::agent::{agent, with_agent};
use super::beside::{ONE, begun, go, waiting};
use super::*;

const KEY: &str = "aynig.provider.z.command";

/// Sets a setting. `$L` is the file by which other steps see this one.
const SET: &str = "L=\"$(git rev-parse --git-common-dir)/aynig/data/runs/$AYNIG_ORCH_RUN/workspaces/flow/workspace-live.json\"
    git config aynig.provider.z.command /evil";

/// Kills `flow step`, which is the parent of the keeper, which is the parent of the agent.
const KILL: &str = "kill -9 $(ps -o ppid= -p $PPID); sleep 60";

/// Two runs: of the agent `one`, which sets the setting and does this, and of `other`.
fn scene(act: &str) -> (Repo, [Started; 2]) {
    let repo = with_agent("");
    waiting(&repo, "one", &format!("{SET}; {act}"));
    waiting(&repo, "other", "true");
    let runs = ["one", "other"].map(|name| start(&repo, &flow("work", &ONE.replace("NAME", name))));
    (repo, runs)
}

/// Carries the step of a run out until its agent has begun.
fn live(repo: &Repo, name: &str, run: &Started) -> Running {
    let runner = repo.aynig_start(["run", "--branch", &run.driver]);
    begun(repo, name);
    runner
}

/// Runs a run when whatever it was put off for is over.
fn later(repo: &Repo, run: &Started) -> String {
    static LATER: AtomicU64 = AtomicU64::new(0);
    let offset = LATER.fetch_add(100_000, Ordering::Relaxed) + 100_000;
    let mut command = repo.aynig_command();
    command.args(["run", "--drain", "--branch", &run.driver]);
    told(&command.env("AYNIG_CLOCK_OFFSET_SECONDS", offset.to_string()).output().expect("it runs"))
}

fn assert_paused(repo: &Repo, run: &Started, other: &Started, how: &str) {
    let words = told(&repo.aynig_ok(["flow", "show", &run.slug]));
    assert_eq!(end(repo, run)[0], "paused", "{how}: {words}");
    assert!(words.contains(KEY) && words.contains(&other.slug), "{how}: {words}");
}

/// CONTRACT 20.33
#[test]
fn a_step_that_hides_does_not_get_its_neighbour_killed() {
    for hide in ["rm $L", "rm $L; mkfifo $L", "ln -sf /etc/passwd $L", ": >$L", "cp $L $L.2; mv $L.2 $L"] {
        let (repo, [first, second]) = scene(hide);
        let neighbour = live(&repo, "other", &second);
        let guilty = live(&repo, "one", &first);
        for (name, runner) in [("other", neighbour), ("one", guilty)] {
            go(&repo, name);
            runner.finish();
        }
        assert_eq!(steps(&repo, &second), ["work completed STOP"], "{hide}");
        assert_paused(&repo, &second, &first, hide);
        assert_eq!(steps(&repo, &first), ["work killed_policy STOP"], "{hide}");
        let words = told(&repo.aynig_ok(["flow", "show", &first.slug]));
        assert!(words.contains("see this one was removed") && !words.contains("root:"), "{hide}: {words}");
        assert_eq!(git_output(&repo, &["config", KEY]).status.code(), Some(1), "{hide}");
    }
}

/// CONTRACT 20.33
#[test]
fn a_step_that_erases_notes_pauses_its_run() {
    let (repo, [first, second]) = scene("cp $L \"$TMPDIR/shown\"");
    let script = std::fs::read_to_string(repo.path.join(".git/one.sh")).expect("a script");
    agent(&repo, "one", &format!("{script}cat \"$TMPDIR/shown\" >$L"));
    let neighbour = live(&repo, "other", &second);
    let guilty = live(&repo, "one", &first);
    for (name, runner) in [("other", neighbour), ("one", guilty)] {
        go(&repo, name);
        runner.finish();
    }
    assert_paused(&repo, &second, &first, "erased");
    let words = told(&repo.aynig_ok(["flow", "show", &first.slug]));
    assert_eq!(end(&repo, &first)[0], "paused", "{words}");
    assert!(words.contains("notes of other steps may be lost"), "{words}");
}

/// CONTRACT 20.33
#[test]
fn a_step_that_is_killed_does_not_get_its_neighbour_killed() {
    for hide in ["true", "rm $L"] {
        let (repo, [first, second]) = scene(&format!("{hide}; {KILL}"));
        let neighbour = live(&repo, "other", &second);
        repo.aynig(["run", "--branch", &first.driver]);
        assert_eq!(repo.state(&first.driver), "stalled", "{hide}");
        go(&repo, "other");
        neighbour.finish();
        assert_eq!(steps(&repo, &second), ["work completed STOP"], "{hide}");
        assert_paused(&repo, &second, &first, hide);
        let words = later(&repo, &first);
        assert_eq!(steps(&repo, &first), ["work error"], "{hide}: {words}");
        assert_paused(&repo, &first, &second, hide);
        let log = out(&repo.aynig_ok(["flow", "log", &first.slug]));
        assert!(log.contains("was cut off") && log.contains(KEY), "{hide}: {log}");
    }
}

/// CONTRACT 20.33
#[test]
fn no_step_of_any_run_begins_with_what_a_cut_off_step_changed() {
    let record = "rm $L \"$(dirname \"$L\")/workspace-record.json\"";
    for (hide, is_accepted) in [("true", false), ("rm $L", true), (record, true)] {
        let (repo, [first, second]) = scene(&format!("{hide}; {KILL}"));
        go(&repo, "other");
        repo.aynig(["run", "--branch", &first.driver]);
        let began = || repo.beside("other-began").exists();
        repo.aynig(["run", "--branch", &second.driver]);
        let words = repo.git(["log", "-1", "--format=%B", &second.driver]);
        assert!(words.contains(&first.slug) && words.contains("dwp-not-before: "), "{hide}: {words}");
        let recovered = later(&repo, &first);
        let words = later(&repo, &second);
        assert!(!began(), "{hide}: {recovered} {words}");
        let settle = format!("aynig workspace show {}/flow", first.slug);
        assert!(words.contains("was cut off") && words.contains(&settle), "{hide}: {recovered} {words}");
        if is_accepted {
            repo.aynig_ok(["workspace", "snapshot", "--accept", &first.slug]);
        } else {
            repo.git(["config", "--unset", KEY]);
        }
        let words = later(&repo, &second);
        assert_eq!(steps(&repo, &second), ["work completed STOP"], "{hide}: {words}");
    }
}

/// CONTRACT 20.33
#[test]
fn a_step_that_is_called_off_or_interrupted_pauses_its_run() {
    for is_signal in [false, true] {
        let (repo, [first, second]) = scene("true");
        let neighbour = live(&repo, "other", &second);
        let guilty = live(&repo, "one", &first);
        if is_signal {
            guilty.signal(Signal::SIGTERM);
        } else {
            repo.aynig_ok(["flow", "pause", &first.slug]);
        }
        guilty.finish();
        assert_eq!(git_output(&repo, &["config", KEY]).status.code(), Some(1));
        go(&repo, "other");
        neighbour.finish();
        assert_paused(&repo, &second, &first, "the neighbour");
        if !is_signal {
            repo.aynig_ok(["flow", "resume", &first.slug]);
        }
        let words = later(&repo, &first);
        assert_paused(&repo, &first, &second, &words);
        // A person has seen it.
        agent(&repo, "one", "cat >/dev/null; echo one >one");
        repo.aynig_ok(["flow", "resume", &first.slug]);
        let words = later(&repo, &first);
        let done = steps(&repo, &first);
        assert_eq!(done.last().map(String::as_str), Some("work completed STOP"), "{words}: {done:?}");
        assert_eq!(end(&repo, &first)[1], "succeeded", "{words}");
    }
}

/// CONTRACT 20.5, 20.33
#[test]
fn a_driver_is_not_paused_by_failures_to_recover_beside_a_live_step() {
    let (repo, [first, second]) = scene("true");
    waiting(&repo, "other", KILL);
    repo.aynig(["run", "--branch", &second.driver]);
    assert_eq!(repo.state(&second.driver), "stalled");
    let guilty = live(&repo, "one", &first);
    for _ in 0..4 {
        let words = later(&repo, &second);
        assert_eq!(repo.state(&second.driver), "stalled", "{words}");
    }
    assert_eq!(end(&repo, &second)[0], "running");
    let words = repo.git(["log", "-1", "--format=%B", &second.driver]);
    assert!(words.contains(KEY) && words.contains(&first.slug), "{words}");
    go(&repo, "one");
    guilty.finish();
    later(&repo, &second);
    assert_eq!(steps(&repo, &second)[0], "work error", "it is recorded");
}

/// CONTRACT 20.33
#[test]
fn a_setting_that_a_person_changes_after_a_runner_died_is_taken_by_name() {
    let repo = with_agent("");
    waiting(&repo, "one", "true");
    let first = start(&repo, &flow("work", &ONE.replace("NAME", "one")));
    let runner = live(&repo, "one", &first);
    runner.signal(Signal::SIGKILL);
    runner.finish();
    repo.git(["config", "aynig.validator.lint", "make lint"]);
    let file = repo.path.join(".git/flow.yaml");
    let begin = || repo.aynig(["flow", "start", file.to_str().expect("UTF-8"), "--base", "main"]);
    let show = format!("`aynig workspace show {}/flow`", first.slug);
    assert_refused(&begin(), 3, &["aynig.validator.lint", "may have been cut off", &show]);
    let before = repo.head(&format!("work/{}/flow", first.slug));
    let words = told(&repo.aynig_ok(["workspace", "show", &first.slug]));
    assert_eq!(repo.head(&format!("work/{}/flow", first.slug)), before, "a look commits nothing");
    let takes = format!("`aynig workspace snapshot --accept {}/flow`", first.slug);
    assert!(words.contains("aynig.validator.lint") && words.contains(&takes), "{words}");
    repo.aynig_ok(["workspace", "snapshot", "--accept", &first.slug]);
    let begun = begin();
    assert!(begun.status.success(), "{}", told(&begun));
}
