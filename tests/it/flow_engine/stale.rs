//! A published branch that is not at the newest commit of its run: it never lands, and no host takes back the work of another.

use super::back::APPENDS;
use super::hosts::Field;
use super::*;

/// An agent, a gate, and, if it is rejected, a rollback and the agent again.
const AGAIN: &str = concat!(agent_step!("one", "one", "ask"), gate_step!("undo"), undo_step!("one"));

fn landed(repo: &Repo) -> String {
    repo.git(["fetch", "-q", "origin"]);
    repo.git(["show", "origin/main:work"])
}

/// The worktree of a run on a host.
fn worktree(host: &Repo, run: &Started) -> String {
    out(&host.aynig_ok(["workspace", "path", &run.slug])).trim().to_owned()
}

fn commit_by_hand(host: &Repo, run: &Started, words: &str) -> String {
    let worktree = worktree(host, run);
    std::fs::write(std::path::Path::new(&worktree).join("work"), words).expect("a file");
    host.git(["-C", &worktree, "commit", "-qam", "by hand"]);
    host.git(["-C", &worktree, "rev-parse", "HEAD"])
}

/// The first command in backquotes with these words.
fn line_with(said: &str, words: &str) -> String {
    let found = said.split('`').skip(1).step_by(2).find(|line| line.contains(words));
    found.unwrap_or_else(|| panic!("{words} is missing in: {said}")).to_owned()
}

/// Types a line in a clone.
fn typed(host: &Repo, line: &str) -> std::process::Output {
    let mut shell = std::process::Command::new("sh");
    for (name, value) in host.git_command().get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.args(["-c", line]).current_dir(&host.path).output().expect("a shell")
}

fn sh(host: &Repo, line: &str) {
    let output = typed(host, line);
    assert!(output.status.success(), "{line}: {}", told(&output));
}

/// CONTRACT 21.4
#[test]
fn a_commit_that_another_host_published_is_not_taken_back() {
    for ends in [true, false] {
        let field = Field::new(APPENDS);
        let [first, second] = &field.hosts;
        let run = start(first, &flow("one", AGAIN));
        first.aynig_ok(["run", "--drain"]);
        if ends {
            first.aynig_ok(["flow", "approve", &run.slug]);
            first.aynig_ok(["run", "--drain"]);
        }
        let corrected = commit_by_hand(first, &run, "one\ncorrected\n");
        first.aynig_ok(["publish", &run.slug]);
        let refused = second.aynig(["publish", &run.slug]);
        assert_refused(&refused, 1, &[&corrected[..10], "another host", "nothing was changed"]);
        assert_eq!(field.at_hub(&format!("refs/heads/{}", run.work)), corrected);
        assert_refused(&second.aynig(["publish", &run.slug, "--squash"]), 1, &[&corrected[..10]]);
        second.aynig_ok(["publish", &run.slug, "--branch", "other"]);
        assert_refused(&second.aynig(["publish", &run.slug]), 1, &[&corrected[..10]]);
        // The printed line brings it here.
        sh(second, &line_with(&err(&refused), " pull "));
        second.aynig_ok(["publish", &run.slug]);
        assert_eq!(field.at_hub(&format!("refs/heads/{}", run.work)), corrected);
        // In the clone that made it a person takes it back.
        let worktree = worktree(first, &run);
        first.git(["-C", &worktree, "reset", "-q", "--hard", "HEAD~1"]);
        let back = err(&first.aynig_ok(["publish", &run.slug]));
        assert!(back.contains(&corrected[..10]) && back.contains("taken back"), "{back}");
        assert_eq!(field.at_hub(&format!("refs/heads/{}", run.work)), first.head(&run.work));
    }
}

/// CONTRACT 14.2
#[test]
fn the_printed_lines_of_a_conflict_work_where_the_run_has_its_worktree() {
    for remote in [true, false] {
        let field = Field::new(APPENDS);
        let first = &field.hosts[0];
        if !remote {
            first.git(["config", "aynig.remote", ""]);
        }
        let run = start(first, &flow("one", AGAIN));
        first.aynig_ok(["run", "--drain"]);
        first.write("work", "other\n");
        first.commit_all("other");
        if remote {
            first.git(["push", "-q", "origin", "main"]);
        }
        first.aynig_ok(["flow", "approve", &run.slug]);
        first.aynig_ok(["run", "--drain"]);
        if remote {
            first.aynig_ok(["publish", &run.slug]);
        }
        let said = err(&first.aynig(["land", &run.work]));
        let merge = line_with(&said, "git merge");
        let output = typed(first, &merge);
        assert!(told(&output).contains("CONFLICT"), "{merge}: {}", told(&output));
        let worktree = worktree(first, &run);
        std::fs::write(std::path::Path::new(&worktree).join("work"), "other\none\n").expect("a file");
        first.git(["-C", &worktree, "commit", "-qam", "merged"]);
        if remote {
            let publish = line_with(&said, "aynig publish");
            first.aynig_ok(publish.split(' ').skip(1));
        }
        first.aynig_ok(["land", &run.work]);
        let main = if remote { landed(first) } else { first.show("main:work") };
        assert_eq!(main, "other\none");
    }
}
