//! Steps that break what git needs to work in their worktree: their work is kept, and the run goes on.

use std::time::Duration;

use super::agent::{agent, with_agent};
use super::*;

const STEPS: &str = "  - id: work
    opcode: RUN_AGENT
    agent: scripted
    prompt: do it
    timeout_seconds: 60
    routes: {completed: next, error: STOP, killed_policy: STOP}
  - id: next
    opcode: RUN_AGENT
    agent: other
    prompt: go on
    routes: {completed: STOP, error: STOP, killed_policy: STOP}
";

/// Runs a flow whose first agent writes `half` and then runs a script; its second agent writes `after`.
pub(super) fn ran(script: &str) -> (Repo, Started, String) {
    let repo = with_agent(&format!(
        "cat >/dev/null; echo half >half; D=$(git rev-parse --git-common-dir); G=$(git rev-parse --git-dir); {script}"
    ));
    agent(&repo, "other", "cat >/dev/null; echo after >after");
    let run = start(&repo, &flow("work", STEPS));
    let ended = finished(repo.aynig_command().args(["run", "--drain"]), script);
    let words = told(&ended);
    (repo, run, words)
}

/// Runs a command that must not wait for anybody.
pub(super) fn finished(command: &mut std::process::Command, what: &str) -> std::process::Output {
    use std::process::Stdio;
    let child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let id = child.id();
    let (sender, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    match ended.recv_timeout(Duration::from_secs(60)) {
        Ok(output) => output.expect("its output"),
        Err(_) => {
            let kill = format!("kill -KILL {id}");
            std::process::Command::new("/bin/sh").args(["-c", &kill]).status().expect("a shell");
            panic!("{what}: it waits");
        }
    }
}

/// CONTRACT 15.6
#[test]
fn a_registration_that_a_step_breaks_is_set_right() {
    for script in [
        "rm $G/HEAD; mkfifo $G/HEAD",
        "rm $G/HEAD",
        "echo garbage >$G/HEAD",
        "git init -q ../other; echo \"$(cd ../other && pwd)/.git\" >$G/commondir",
        "rm $G/commondir; mkfifo $G/commondir",
        "echo >$G/gitdir",
        "rm $G/gitdir; mkfifo $G/gitdir",
        "rm -f $G/index; mkfifo $G/index",
        "rm -f $G/index; mkdir $G/index; touch $G/index/x",
        "git config extensions.worktreeConfig true; mkfifo $G/config.worktree",
        "mkfifo $G/MERGE_HEAD",
        "rm $G/logs/HEAD; mkfifo $G/logs/HEAD",
        "rm .git; mkfifo .git",
    ] {
        let (repo, run, words) = ran(script);
        let wanted = ["work completed next", "next completed STOP"];
        assert_eq!(steps(&repo, &run), wanted, "{script}: {words}");
        assert!(!words.contains("was removed; the setting"), "{script}: {words}");
        let files = repo.git(["ls-tree", "--name-only", &run.work]);
        for file in ["after", "half"] {
            assert!(files.lines().any(|found| found == file), "{script}: {files}");
        }
    }
}

/// CONTRACT 15.6
#[test]
fn a_work_branch_that_names_nothing_is_mended() {
    let elsewhere = "git init -q --bare ../objects; export GIT_OBJECT_DIRECTORY=$PWD/../objects/objects \
                     GIT_ALTERNATE_OBJECT_DIRECTORIES=$D/objects; git add half; git commit -qm lost";
    for script in [
        elsewhere,
        "B=$(git symbolic-ref HEAD); echo garbage >$D/$B",
        "B=$(git symbolic-ref HEAD); git rev-parse HEAD | tr 0-9a-f f >$D/$B",
        "B=$(git symbolic-ref HEAD); rm -f $D/$B; mkfifo $D/$B",
    ] {
        let (repo, run, words) = ran(script);
        let wanted = ["work completed next", "next completed STOP"];
        assert_eq!(steps(&repo, &run), wanted, "{script}: {words}");
        assert_eq!(repo.git(["show", &format!("{}:half", run.work)]), "half", "{script}");
        let log = out(&repo.aynig_ok(["orch", "events", &run.id, "--json"]));
        let is_told = ["is at", "was deleted"].iter().any(|part| log.contains(part) || words.contains(part));
        assert!(is_told, "{script}: {words} {log}");
        repo.git(["fsck", "--connectivity-only", "--no-reflogs"]);
    }
}

/// Files about the run that a step replaces by pipes.
///
/// CONTRACT 20.4
#[test]
fn pipes_in_the_place_of_files_about_the_run_stop_nobody() {
    for name in ["status.json", "metadata.json", "state.json", "events.jsonl"] {
        let (repo, run, words) =
            ran(&format!("R=$(echo $D/aynig/data/runs/*); rm -f $R/{name}; mkfifo $R/{name}"));
        assert_eq!(steps(&repo, &run), ["work completed next", "next completed STOP"], "{name}: {words}");
        for arguments in [&["flow", "show", &run.slug, "--json"][..], &["flow", "list"], &["doctor"]] {
            finished(repo.aynig_command().args(arguments), name);
        }
    }
    let (repo, run, _) = ran(
        "R=$(echo $D/aynig/data/runs/*/workspaces/flow); rm $R/workspace-context.json; mkfifo $R/workspace-context.json",
    );
    for arguments in [&["flow", "show", &run.slug][..], &["workspace", "list"], &["run", "--drain"]] {
        finished(repo.aynig_command().args(arguments), "the context");
    }
}

/// CONTRACT 15.6, 15.9
#[test]
fn what_git_cannot_open_is_neither_left_out_nor_removed() {
    let deep = "for level in $(seq 30); do mkdir $D; cd $D; done; echo precious >file";
    let repo = with_agent(&format!("cat >/dev/null; D=$(printf %0200d 0); {deep}"));
    let run = start(&repo, &flow("work", STEPS));
    let output = repo.aynig(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["work error STOP"], "{}", told(&output));
    let words = out(&repo.aynig_ok(["flow", "log", &run.slug]));
    assert!(words.contains("left out what it could not open: too long a path"), "{words}");
    let top = repo.beside("worktrees").join(&run.slug);
    let is_kept = || {
        let places = std::fs::read_dir(&top).expect("places").flatten();
        places.into_iter().any(|place| place.path().join("0".repeat(200)).is_dir())
    };
    for removal in
        [&["workspace", "remove", "--apply", &run.slug][..], &["clean", "--older-than", "0s", "--apply"]]
    {
        let output = repo.aynig(removal.iter().copied());
        assert!(is_kept(), "{removal:?}: {}", told(&output));
    }
}
