//! Steps that leave named pipes where git reads files, or break the repository itself: no git waits for them without
//! end, and the run goes on.

use std::time::Instant;

use super::agent::with_agent;
use super::broken_worktree::{finished, ran};
use super::cut_off::once;
use super::forbidden::ONE;
use super::*;

/// CONTRACT 20.43
#[test]
fn pipes_among_the_files_of_git_stop_no_run() {
    let object = "O=$(git hash-object -w half); P=$D/objects/$(echo $O | cut -c1-2)/$(echo $O | cut -c3-); rm -f $P; mkfifo $P";
    for script in [
        "mkdir sub; echo x >sub/x; mkfifo .gitignore sub/.gitignore sub/.gitattributes .gitmodules",
        "mkfifo .gitattributes",
        "mkfifo $D/refs/heads/other $D/refs/tags/other $D/refs/aynig/other",
        "mkfifo $D/packed-refs",
        "mkfifo $D/config.worktree $D/description.other",
        "mkfifo $D/shallow $D/objects/info/alternates; rm -f $D/index; mkfifo $D/index",
        object,
    ] {
        let (repo, run, words) = ran(script);
        let wanted = ["work completed next", "next completed STOP"];
        assert_eq!(steps(&repo, &run), wanted, "{script}: {words}");
        let files = repo.git(["ls-tree", "--name-only", &run.work]);
        for file in ["after", "half"] {
            assert!(files.lines().any(|found| found == file), "{script}: {files}");
        }
    }
}

/// CONTRACT 20.43
#[test]
fn a_pipe_in_the_repository_is_named_before_anything_opens_it() {
    let repo = Repo::new();
    for name in ["packed-refs", "config", "HEAD"] {
        let file = repo.path.join(".git").join(name);
        let before = std::fs::read(&file).ok();
        std::fs::remove_file(&file).ok();
        nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        let refused = finished(repo.aynig_command().args(["status"]), name);
        assert_refused(&refused, 3, &[name, "would wait", "`rm "]);
        std::fs::remove_file(&file).expect("removed");
        if let Some(before) = before {
            std::fs::write(&file, before).expect("written");
        }
    }
    repo.aynig_ok(["status"]);
}

/// CONTRACT 20.43
#[test]
fn a_git_that_does_nothing_is_ended() {
    let repo = with_agent("cat >/dev/null; echo half >half");
    let pipe = repo.beside("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    let run = start(&repo, &flow("work", ONE));
    // A place that nobody can know of.
    repo.git(["config", "core.excludesFile", pipe.to_str().expect("UTF-8")]);
    let mut command = repo.aynig_command();
    command.args(["workspace", "snapshot", &run.slug]);
    std::fs::write(run.worktree.join("half"), "half").expect("written");
    let began = Instant::now();
    let refused = finished(&mut command, "a git that waits");
    assert!(began.elapsed().as_secs() >= 15, "it had time");
    assert_refused(&refused, 1, &["did nothing for 2", "was ended", "another process"]);
    assert!(pipe.symlink_metadata().is_ok(), "only files of git are removed");
    repo.git(["config", "--unset", "core.excludesFile"]);
    repo.aynig_ok(["workspace", "snapshot", &run.slug]);
    assert_eq!(repo.git(["show", &format!("{}:half", run.work)]), "half");
}

/// CONTRACT 15.6
#[test]
fn an_index_that_is_no_index_is_made_anew() {
    for script in ["echo garbage >$G/index", "git add half; truncate -s 40 $G/index", ": >$G/index"] {
        let (repo, run, words) = ran(script);
        let wanted = ["work completed next", "next completed STOP"];
        assert_eq!(steps(&repo, &run), wanted, "{script}: {words}");
        assert_eq!(repo.git(["show", &format!("{}:half", run.work)]), "half", "{script}");
        let log = out(&repo.aynig_ok(["orch", "events", &run.id, "--json"]));
        assert!(
            log.contains("its index could not be read") && log.contains("index.damaged-1"),
            "{script}: {log}"
        );
    }
}

/// A repository whose first agent has left `half` and done this, its run, and its settings before.
fn broken(script: &str) -> (Repo, Started, Vec<u8>) {
    let repo = with_agent("");
    let script = format!("echo half >half; D=$(git rev-parse --git-common-dir); {script}");
    agent::agent(&repo, "scripted", &once(&repo, &script));
    let run = start(&repo, &flow("work", ONE));
    let config = std::fs::read(repo.path.join(".git/config")).expect("settings");
    (repo, run, config)
}

/// CONTRACT 20.33
#[test]
fn files_without_which_git_does_not_work_are_put_back() {
    for (script, name) in [
        ("echo '[[[' >>$D/config", "config"),
        ("git config core.bare garbage", "config"),
        ("git config core.repositoryformatversion 99", "config"),
        ("git config core.autocrlf garbage", "core.autocrlf"),
        ("git config core.worktree /nowhere/at/all", "core.worktree"),
        ("rm $D/config; mkfifo $D/config", "config"),
        ("rm $D/config", "config"),
        ("echo garbage >$D/HEAD", "HEAD"),
        ("rm $D/HEAD; mkfifo $D/HEAD", "HEAD"),
        ("git config extensions.worktreeConfig true; echo '[[[' >$D/config.worktree", "config"),
    ] {
        let (repo, run, config) = broken(script);
        let head = repo.git(["symbolic-ref", "HEAD"]);
        let ended = told(&finished(repo.aynig_command().args(["run", "--drain"]), script));
        assert_eq!(steps(&repo, &run), ["work killed_policy STOP"], "{script}: {ended}");
        let words = out(&repo.aynig_ok(["flow", "show", &run.slug]));
        assert!(words.contains(name) && words.contains("put back"), "{script}: {words}");
        assert_eq!(repo.git(["symbolic-ref", "HEAD"]), head, "{script}");
        assert_eq!(repo.git(["show", &format!("{}:half", run.work)]), "half", "{script}");
        assert_eq!(std::fs::read(repo.path.join(".git/config")).expect("settings"), config, "{script}");
        repo.aynig_ok(["doctor"]);
    }
}

/// The command in a message that begins with these words.
fn command_in(words: &str, begins: &str) -> String {
    let found = words.split('`').find(|part| part.starts_with(begins));
    found.unwrap_or_else(|| panic!("no {begins}: {words}")).to_owned()
}

/// CONTRACT 20.33
#[test]
fn settings_of_a_step_whose_runner_was_killed_are_named_with_their_undo() {
    let kill = "kill -9 $(ps -o ppid= -p $(ps -o ppid= -p $PPID)) $(ps -o ppid= -p $PPID); sleep 60";
    for setting in ["core.worktree /nowhere/at/all", "core.autocrlf garbage"] {
        let (repo, run, config) = broken(&format!("git config {setting}; {kill}"));
        repo.aynig(["run", "--drain"]);
        let key = setting.split(' ').next().expect("a key");
        let later = || {
            let mut command = repo.aynig_command();
            command.args(["run", "--drain"]).env("AYNIG_CLOCK_OFFSET_SECONDS", "100000");
            told(&finished(&mut command, setting))
        };
        let words = later();
        assert!(words.contains(key), "{setting}: {words}");
        let undo = match setting {
            // Git works with nothing of this repository, and names the setting itself.
            "core.autocrlf garbage" => "git config --unset core.autocrlf".to_owned(),
            _ => command_in(&words, "git -C / config --file"),
        };
        let mut undoes = std::process::Command::new("/bin/sh");
        assert!(undoes.args(["-c", &undo]).current_dir(&repo.path).status().expect("a shell").success());
        let words = later();
        let done = steps(&repo, &run);
        assert_eq!(
            done.last().map(String::as_str),
            Some("work completed STOP"),
            "{setting}: {words} {done:?}"
        );
        assert_eq!(std::fs::read(repo.path.join(".git/config")).expect("settings"), config, "{setting}");
    }
}

/// What a step can do with its own driver: `$B` is its ref.
const DRIVER: [&str; 4] = [
    "git update-ref -d $B",
    "git update-ref $B refs/heads/main",
    "git update-ref $B $(git commit-tree -p $B -m 'x\n\ndwp-state: flow-done' $B^{tree})",
    "git update-ref $B $(git rev-list $B | tail -1)",
];

/// CONTRACT 20.33
#[test]
fn a_driver_that_its_step_removes_or_moves_is_set_back() {
    for script in DRIVER {
        let repo = with_agent(&format!(
            "cat >/dev/null; echo half >half; B=refs/heads/run/$(basename $(dirname $PWD))/flow; {script}"
        ));
        let run = start(&repo, &flow("work", ONE));
        let words = told(&repo.aynig(["run", "--drain"]));
        assert_eq!(steps(&repo, &run), ["work killed_policy STOP"], "{script}: {words}");
        let shown = out(&repo.aynig_ok(["flow", "show", &run.slug]));
        assert!(shown.contains(&run.driver) && shown.contains("set back"), "{script}: {shown}");
        assert_eq!(repo.state(&run.driver), "flow-done", "{script}");
        assert_eq!(repo.git(["show", &format!("{}:half", run.work)]), "half", "{script}");
        let doctor = repo.aynig(["orch", "doctor", &run.slug]);
        assert!(doctor.status.success(), "{script}: {}", told(&doctor));
    }
}

/// CONTRACT 20.33
#[test]
fn a_driver_that_its_step_removes_at_the_hub_is_set_back_there() {
    let field = super::hosts::Field::new(
        "cat >/dev/null; B=refs/heads/run/$(basename $(dirname $PWD))/flow; git push -q origin :$B; echo half >half",
    );
    let [first, second] = &field.hosts;
    let run = start(first, &flow("work", ONE));
    let words = told(&first.aynig(["run", "--drain"]));
    assert_eq!(steps(first, &run), ["work killed_policy STOP"], "{words}");
    let shown = out(&second.aynig_ok(["flow", "show", &run.slug]));
    assert!(shown.contains(&run.driver) && shown.contains("at origin was removed, and set back"), "{shown}");
    let doctor = second.aynig(["orch", "doctor", &run.slug]);
    assert!(doctor.status.success(), "{}", told(&doctor));
}

/// CONTRACT 20.5
#[test]
fn an_attempt_that_ended_with_its_driver_counts() {
    let repo = with_agent("");
    let script = "D=refs/heads/run/$(basename $(dirname $PWD))/flow; S=$(ps -o ppid= -p $PPID); R=$(ps -o ppid= -p $S); \
                  git update-ref -d $D; kill -9 $R $S; sleep 60";
    agent::agent(&repo, "scripted", &format!("cat >/dev/null; echo half >half; {script}"));
    let text = flow("work", &ONE.replace("    prompt", "    retries: 1\n    prompt"));
    let run = start(&repo, &text);
    for recorded in ["work error", "work error STOP"] {
        repo.aynig(["run", "--drain"]);
        repo.deserted();
        assert_eq!(git_output(&repo, &["rev-parse", "--verify", &run.driver]).status.code(), Some(128));
        let words = told(&repo.aynig_ok(["flow", "resume", &run.slug]));
        let done = steps(&repo, &run);
        assert!(done.last().is_some_and(|last| last.starts_with(recorded)), "{words}: {done:?}");
    }
    let shown = json(&repo.aynig_ok(["flow", "show", &run.slug, "--json"]));
    assert_eq!(shown["steps"].as_array().map(Vec::len), Some(2), "{shown}");
    assert_eq!(end(&repo, &run)[0], "failed", "{shown}");
}
