//! Steps that hinder that their changes are put back, and changes beside them that are none of theirs.

use std::os::unix::fs::{PermissionsExt, symlink};

use super::agent::{agent, with_agent};
use super::beside::{begun, go, waiting};
use super::hosts::Field;
use super::*;
use crate::broken::is_root;
use crate::broken::read_only::{as_nobody, give_away};

const ONE: &str = "  - id: work
    opcode: RUN_AGENT
    agent: scripted
    prompt: do it
    routes: {completed: STOP, error: STOP, killed_policy: STOP}
";

/// Ways to keep a file of settings from being written, or to lose what it was.
const HINDERS: [&str; 8] = [
    "touch $C.lock",
    "mkdir $C.lock",
    "cp $C \"$D/real\"; ln -sf \"$D/real\" $C; touch \"$D/real.lock\"",
    "rm $C; mkdir $C",
    "echo '[broken' >$C",
    "rm -rf $A/data/runs/*/workspaces/*/saved",
    "for f in $A/data/runs/*/workspaces/*/saved/*; do echo x >$f; done",
    "rm -rf $A/data/runs/*/workspaces/*/saved; touch $(echo $A/data/runs/*/workspaces/*)/saved",
];

/// A script for an agent that changes something, and then hinders that it is put back.
fn hindered(repo: &Repo, change: &str, hinder: &str) -> String {
    let (git, beside) = (repo.path.join(".git"), repo.beside("."));
    let (git, beside) = (git.display(), beside.display());
    format!("cat >/dev/null; C={git}/config; A={git}/aynig; D={beside}; echo work >work; {change}; {hinder}")
}

/// CONTRACT 20.33
#[test]
fn a_step_cannot_hinder_that_settings_are_put_back() {
    for hinder in HINDERS {
        let field = Field::new("true");
        let [first, second] = &field.hosts;
        let (copy, trap) = (first.beside("copy.git"), first.beside("trapped"));
        let hub = first.git(["remote", "get-url", "origin"]);
        let program = first.beside("pack");
        std::fs::write(
            &program,
            format!("#!/bin/sh\ntouch '{}'\nexec git-receive-pack \"$@\"\n", trap.display()),
        )
        .expect("a file");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("its mode");
        let (from, to, program) = (&hub, copy.display(), program.display());
        let change = format!(
            "cp -r '{from}' '{to}'; git config remote.origin.pushurl '{to}'; git config remote.origin.receivepack '{program}'; \
             git config user.email evil@example.com"
        );
        agent(first, "scripted", &hindered(first, &change, hinder));
        let before = first.git(["config", "--local", "--list"]);
        let run = start(first, &flow("work", ONE));
        let output = first.aynig(["run", "--drain"]);
        assert!(!trap.exists(), "{hinder}: {}", told(&output));
        assert_eq!(first.git(["config", "--local", "--list"]), before, "{hinder}");
        second.aynig_ok(["flow", "list"]);
        assert_eq!(steps(second, &run), ["work killed_policy STOP"], "{hinder}: {}", told(&output));
        field.assert_same(&run);
        let config = first.path.join(".git/config");
        assert!(config.symlink_metadata().expect("a file").is_file(), "{hinder}");
        // Whoever comes next can set something.
        first.git(["config", "user.email", "other@example.com"]);
        let log = out(&first.aynig_ok(["flow", "log", &run.slug]));
        assert!(log.contains("put back") && !log.contains("aynig.provider"), "{hinder}: {log}");
    }
}

/// CONTRACT 20.33
#[test]
fn a_step_cannot_hinder_that_hooks_are_put_back() {
    for hinder in HINDERS.into_iter().chain([
        "mv ${C%config}hooks \"$D/hooks\"; ln -s \"$D/hooks\" ${C%config}hooks",
        "rm -rf ${C%config}hooks; ln -s \"$D/evil\" ${C%config}hooks",
        "rm -rf ${C%config}hooks; touch ${C%config}hooks",
    ]) {
        let repo = with_agent("");
        let hooks = repo.path.join(".git/hooks");
        std::fs::create_dir_all(repo.beside("evil")).expect("a directory");
        std::fs::create_dir_all(&hooks).expect("a directory");
        std::fs::write(hooks.join("pre-push"), "#!/bin/sh\nexit 0\n").expect("a hook");
        let change = "echo evil >${C%config}hooks/pre-push; echo evil >${C%config}hooks/post-merge";
        agent(&repo, "scripted", &hindered(&repo, change, hinder));
        let run = start(&repo, &flow("work", ONE));
        let output = repo.aynig(["run", "--drain"]);
        assert_eq!(steps(&repo, &run), ["work killed_policy STOP"], "{hinder}: {}", told(&output));
        let hook = std::fs::read_to_string(hooks.join("pre-push")).expect("a hook");
        assert_eq!(hook, "#!/bin/sh\nexit 0\n", "{hinder}");
        assert!(!hooks.join("post-merge").exists(), "{hinder}");
        assert!(hooks.symlink_metadata().expect("a directory").is_dir(), "{hinder}");
    }
}

/// CONTRACT 20.33
#[test]
fn nothing_is_put_back_through_a_link_that_a_step_made() {
    const FILES: [&str; 5] = ["exclude", "attributes", "grafts", "other", "config.worktree"];
    for directory in ["info", "worktrees/mine", "worktrees", "$O"] {
        let repo = with_agent("");
        let (victim, info) = (repo.beside("victim"), repo.path.join(".git/info"));
        std::fs::create_dir_all(&victim).expect("a directory");
        std::fs::create_dir_all(&info).expect("a directory");
        for name in FILES {
            std::fs::write(victim.join(name), "[core]\n\tpager = theirs\n").expect("a file");
        }
        std::fs::write(info.join("exclude"), "mine\n").expect("a file");
        let mine = repo.beside("mine");
        repo.git(["worktree", "add", "-q", "--detach", mine.to_str().expect("UTF-8")]);
        repo.git(["config", "extensions.worktreeConfig", "true"]);
        repo.git(["-C", mine.to_str().expect("UTF-8"), "config", "--worktree", "core.pager", "mine"]);
        let script = format!(
            "cat >/dev/null; C=$(git rev-parse --git-common-dir); O=$(git rev-parse --git-dir); echo work >work
            O=${{O#\"$C\"/}}; mv \"$C/{directory}\" \"$C/moved\"; ln -s '{}' \"$C/{directory}\"",
            victim.display()
        );
        agent(&repo, "scripted", &script);
        let run = start(&repo, &flow("work", ONE));
        let output = repo.aynig(["run", "--drain"]);
        let words = format!("{directory}: {}", told(&output));
        // Without its own registration the runner finds no worktree, and leaves the work where it is.
        if matches!(directory, "info" | "worktrees/mine") {
            assert_eq!(steps(&repo, &run), ["work killed_policy STOP"], "{words}");
        }
        for name in FILES {
            let text = std::fs::read_to_string(victim.join(name)).expect("it is still there");
            assert_eq!(text, "[core]\n\tpager = theirs\n", "{words}");
        }
        let there = std::fs::read_dir(&victim).expect("a directory").count();
        assert_eq!(there, FILES.len(), "{words}");
        let left = std::fs::read_dir(repo.path.join(".git/worktrees")).into_iter().flatten().flatten();
        let links = left.map(|one| one.path()).chain([info.clone(), repo.path.join(".git/worktrees")]);
        assert_eq!(links.filter(|path| path.is_symlink()).count(), 0, "{words}");
        assert_eq!(std::fs::read_to_string(info.join("exclude")).expect("a file"), "mine\n", "{words}");
    }
}

/// CONTRACT 20.33
#[test]
fn more_hooks_than_are_compared_go_all() {
    let change = "mkdir -p hooks; cd hooks; touch $(seq 3200); echo evil >post-merge; mkdir d; touch $(seq -f d/%g 2000)";
    let repo = with_agent(&format!("cat >/dev/null; cd \"$(git rev-parse --git-common-dir)\"; {change}"));
    let hooks = repo.path.join(".git/hooks");
    std::fs::create_dir_all(&hooks).expect("a directory");
    std::fs::write(hooks.join("pre-push"), "#!/bin/sh\nexit 0\n").expect("a hook");
    let run = start(&repo, &flow("work", ONE));
    let output = repo.aynig(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["work killed_policy STOP"], "{}", told(&output));
    let there: Vec<_> =
        std::fs::read_dir(&hooks).expect("hooks").flatten().map(|one| one.file_name()).collect();
    assert_eq!(there, ["pre-push"]);
    assert!(repo.path.join(".git/hooks.damaged-1/post-merge").exists(), "what was there is kept");
    let hook = std::fs::read_to_string(hooks.join("pre-push")).expect("a hook");
    assert_eq!(hook, "#!/bin/sh\nexit 0\n");
}

/// CONTRACT 20.33
#[test]
fn a_hook_that_cannot_be_listed_goes() {
    if !is_root() {
        return;
    }
    let change = "mkdir -p hooks; echo evil >hooks/post-merge; chmod 111 hooks; chmod 000 info";
    let repo = with_agent(&format!("cat >/dev/null; cd \"$(git rev-parse --git-common-dir)\"; {change}"));
    let (hooks, list) = (repo.path.join(".git/hooks"), repo.path.join(".git/info/exclude"));
    let before = std::fs::read(&list).ok();
    let run = start(&repo, &flow("work", ONE));
    let output = as_nobody(&repo, &give_away(&repo), &["run", "--drain"]);
    let taken = std::process::Command::new("chown").arg("-R").arg("0:0").arg(repo.room.path()).status();
    assert!(taken.expect("chown runs").success());
    assert_eq!(steps(&repo, &run), ["work killed_policy STOP"], "{}", told(&output));
    assert!(!hooks.join("post-merge").exists());
    assert_eq!(std::fs::read(&list).ok(), before);
}

/// CONTRACT 20.33
#[test]
fn a_name_without_a_value_is_still_true() {
    let repo = with_agent("cat >/dev/null; git config http.sslVerify false");
    let config = repo.path.join(".git/config");
    let text = std::fs::read_to_string(&config).expect("settings");
    std::fs::write(&config, format!("{text}[http]\n\tsslVerify\n")).expect("settings");
    let run = start(&repo, &flow("work", ONE));
    repo.aynig(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["work killed_policy STOP"]);
    assert_eq!(repo.git(["config", "--type=bool", "http.sslVerify"]), "true");
}

/// CONTRACT 20.33
#[test]
fn hooks_in_a_checkout_are_named_and_left_alone() {
    let repo = with_agent("");
    let (hooks, theirs) = (repo.path.join(".git/hooks"), repo.path.join("githooks"));
    repo.write("githooks/pre-commit", "#!/bin/sh\nexit 0\n");
    std::fs::remove_dir_all(&hooks).ok();
    symlink("../githooks", &hooks).expect("a link");
    waiting(&repo, "scripted", "true");
    let run = start(&repo, &flow("work", ONE));
    let runner = repo.aynig_start(["run", "--drain"]);
    begun(&repo, "scripted");
    std::fs::write(theirs.join("pre-commit"), "#!/bin/sh\n# of a person\nexit 0\n").expect("a hook");
    std::fs::write(theirs.join("NOTES.md"), "of a person\n").expect("a file");
    go(&repo, "scripted");
    runner.finish();
    let log = out(&repo.aynig_ok(["flow", "log", &run.slug]));
    assert!(log.contains("hooks/pre-commit was changed") && !log.contains("put back"), "{log}");
    assert!(std::fs::read_to_string(theirs.join("pre-commit")).expect("a hook").contains("of a person"));
    assert!(theirs.join("NOTES.md").exists());
}

/// CONTRACT 20.33
#[test]
fn the_driver_of_an_ended_run_may_go_beside_a_step() {
    let repo = with_agent("cat >/dev/null; echo made >made");
    let over = start(&repo, &flow("work", ONE));
    repo.aynig_ok(["run", "--drain"]);
    waiting(&repo, "scripted", "true");
    let run = start(&repo, &flow("work", ONE));
    let runner = repo.aynig_start(["run", "--drain"]);
    begun(&repo, "scripted");
    repo.aynig_ok(["clean", "--older-than", "0s", "--apply"]);
    let driver = format!("refs/heads/{}", over.driver);
    assert_eq!(repo.git(["for-each-ref", &driver]), "", "clean removes it");
    go(&repo, "scripted");
    runner.finish();
    assert_eq!(steps(&repo, &run), ["work completed STOP"]);
}

/// CONTRACT 20.33
#[test]
fn a_step_replaces_no_object() {
    let evil = "cat >/dev/null; echo evil >work; E=$(git hash-object -w work); echo good >../good; git replace -f $E $(git hash-object -w ../good)";
    let repo = with_agent(evil);
    let run = start(&repo, &flow("work", ONE));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["work killed_policy STOP"]);
    assert_eq!(repo.git(["for-each-ref", "refs/replace"]), "");
    assert_eq!(repo.git(["show", &format!("{}:work", run.work)]), "evil", "people are shown what is there");
    // A replacement of a person stays what it was.
    let replaced = format!("refs/replace/{}", "1".repeat(40));
    let [old, new] = ["HEAD^{tree}", "HEAD"].map(|name| repo.git(["rev-parse", name]));
    repo.git(["update-ref", &replaced, &old]);
    agent(&repo, "scripted", &format!("cat >/dev/null; git update-ref {replaced} {new}"));
    let run = start(&repo, &flow("work", ONE));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["work killed_policy STOP"]);
    assert_eq!(repo.git(["rev-parse", &replaced]), old);
}

/// CONTRACT 20.33
#[test]
fn a_ref_in_the_way_of_others_is_removed_after_the_step() {
    let undo = "  - id: undo\n    opcode: ROLLBACK\n    target: pre_run\n    routes: {completed: STOP, error: STOP}\n";
    let text = flow("work", &format!("{}{undo}", ONE.replace("killed_policy: STOP", "killed_policy: undo")));
    for name in
        ["refs/aynig/rescue", "refs/aynig/archive", "refs/aynig/rescue/work", "refs/aynig/rescue/ledgers"]
    {
        let repo = with_agent(&format!("cat >/dev/null; echo work >work; git update-ref {name} HEAD"));
        let run = start(&repo, &text);
        repo.aynig_ok(["run", "--drain"]);
        assert_eq!(steps(&repo, &run), ["work killed_policy undo", "undo completed STOP"], "{name}");
        assert!(!git_output(&repo, &["show-ref", "--verify", name]).status.success(), "{name}");
        let log = out(&repo.aynig_ok(["flow", "log", &run.slug]));
        assert!(log.contains(&format!("the ref {name} was added, and put back")), "{name}: {log}");
        // One that is there is named.
        let repo = with_agent("cat >/dev/null; echo work >work");
        repo.git(["update-ref", name, "HEAD"]);
        let run = start(
            &repo,
            &text.replace("completed: STOP, error: STOP, killed", "completed: undo, error: STOP, killed"),
        );
        repo.aynig(["run", "--drain"]);
        let (remedy, words) = (format!("git update-ref -d {name}"), told(&repo.aynig(["doctor"])));
        assert!(words.contains(&remedy), "{name}: {words}");
        if !["refs/aynig/archive", "refs/aynig/rescue/ledgers"].contains(&name) {
            assert_eq!(steps(&repo, &run), ["work completed undo", "undo error STOP"], "{name}");
            let log = out(&repo.aynig_ok(["orch", "events", &run.id, "--json"]));
            assert!(log.contains(&remedy), "{name}: {log}");
            assert_eq!(end(&repo, &run)[1], "failed", "the work that should not be there is");
        }
    }
}
