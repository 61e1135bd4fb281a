//! Refs that cannot be read: no call passes one over without a word, and each names the next step.

use std::fs;
use std::process::Command;

use super::doctor::{findings, healthy, told};
use super::support::*;

/// What the file of a ref may contain after a loss of power, a full disk or a slip.
const DAMAGE: [(&str, &str, &str); 4] = [
    ("empty", "", "is empty, as after a loss of power"),
    ("garbage", "garbage\n", "contains neither the id of a commit nor the name of a ref"),
    ("nul", "\0\0\0\0", "contains neither the id of a commit nor the name of a ref"),
    ("cut", "0123456789", "contains neither the id of a commit nor the name of a ref"),
];

/// CONTRACT 11.2
#[test]
fn a_damaged_branch_is_no_missing_branch() {
    let repo = healthy();
    repo.git(["config", "core.logAllRefUpdates", "true"]);
    repo.ready("other", "build");
    for (name, content, words) in DAMAGE {
        let branch = format!("sub/{name}");
        repo.git(["branch", &branch]);
        let file = repo.path.join(".git/refs/heads").join(&branch);
        fs::write(&file, content).expect("a file");
        let doctor = "`aynig doctor` names the";
        for (arguments, code) in [
            (["status", &branch].as_slice(), 1),
            (&["wait", "--timeout", "9", &branch], 1),
            (&["run", &branch], 1),
            (&["log", &branch], 3),
            (&["cancel", &branch], 3),
            (&["set-state", "--state", "build", "--branch", &branch], 3),
        ] {
            let refused = repo.aynig(arguments.iter().copied());
            assert_refused(&refused, code, &[words, doctor, &branch]);
            assert!(!err(&refused).contains("there is no branch"), "{arguments:?}: {}", err(&refused));
        }
        // The others are listed, and this one is named.
        let listed = repo.aynig_ok(["status", "--all"]);
        assert!(out(&listed).contains("other"), "{}", out(&listed));
        let said = format!("ERROR refs/heads/{branch} is passed over: {} {words}", file.display());
        assert_eq!(err(&listed).matches(&said).count(), 1, "{}", err(&listed));
        let said = repo.aynig(["doctor"]);
        assert_eq!(
            (out(&said).matches(words).count(), err(&said).contains(words)),
            (1, false),
            "{}",
            out(&said)
        );
        let report = repo.doctor(3);
        let next =
            format!("rm {} && git update-ref refs/heads/{branch} {}", file.display(), repo.head("main"));
        told(&report, "refs", "error", words, &next);
        shell(&repo, &next);
        assert_eq!(repo.head(&branch), repo.head("main"));
        repo.doctor(0);
    }
    // A pass runs the others, and names the damaged one.
    fs::write(repo.path.join(".git/refs/heads/sub/cut"), "0").expect("a file");
    let pass = repo.aynig_ok(["run"]);
    assert_eq!(repo.state("other"), "done");
    assert!(err(&pass).contains("refs/heads/sub/cut is passed over"), "{}", err(&pass));
}

fn shell(repo: &Repo, line: &str) {
    let mut shell = Command::new("sh");
    let ran = hermetic(&mut shell).args(["-ec", line]).current_dir(&repo.path).output().expect("a shell");
    assert!(ran.status.success(), "{line}: {}", err(&ran));
}

#[test]
fn a_damaged_ledger_is_named_by_the_lists_of_runs() {
    let repo = healthy();
    let run = "refs/aynig/runs/6f1b0a52-2a1f-4c7e-9d7c-0d1f5b7a9e31";
    let copy = "refs/aynig/ledgers/origin/6f1b0a52-2a1f-4c7e-9d7c-0d1f5b7a9e31";
    for name in [run, copy] {
        let file = repo.path.join(".git").join(name);
        fs::create_dir_all(file.parent().expect("above")).expect("a directory");
        fs::write(file, "garbage").expect("a file");
    }
    let listed = repo.aynig_ok(["orch", "run", "list"]);
    assert!(err(&listed).contains(&format!("{run} is passed over")), "{}", err(&listed));
    let report = repo.doctor(3);
    told(&report, "refs", "error", run, "git fsck --no-reflogs");
    told(&report, "refs", "error", copy, "rm ");
    let of_copy = findings(&report, "refs").into_iter().find(|finding| finding.to_string().contains(copy));
    let next = of_copy.expect("a finding")["next"].as_str().expect("a command").to_owned();
    assert!(!next.contains("update-ref"), "the next fetch makes it anew: {next}");
    shell(&repo, &next);
}

/// CONTRACT 11.2
#[test]
fn a_damaged_line_of_packed_refs_ends_a_pass_once() {
    let repo = healthy();
    repo.ready("one", "build");
    repo.ready("two", "build");
    repo.git(["pack-refs", "--all"]);
    let file = repo.path.join(".git/packed-refs");
    let sound = fs::read_to_string(&file).expect("a file");
    // A last line without its end is whole.
    fs::write(&file, sound.trim_end()).expect("a file");
    for arguments in [["run"].as_slice(), &["set-state", "--state", "x", "--branch", "zz"], &["clean"]] {
        let words = format!(
            "the last one of {}, has no end, and git fails there, too: append a newline",
            file.display()
        );
        assert_refused(&repo.aynig(arguments.iter().copied()), 3, &[&words]);
    }
    shell(&repo, "echo >>.git/packed-refs");
    assert_eq!(fs::read_to_string(&file).expect("a file"), sound);
    let middle = sound.replacen(" refs/heads/one\n", " refs/heads/one\n\0\0\n", 1);
    for (damaged, line) in [(format!("{sound}garbage"), sound.lines().count() + 1), (middle, 4)] {
        fs::write(&file, &damaged).expect("a file");
        let words = format!("could not read packed-refs: line {line} of {} is no ref", file.display());
        for arguments in [
            ["run"].as_slice(),
            &["status", "--all"],
            &["status", "two"],
            &["orch", "run", "list"],
            &["land", "one"],
        ] {
            assert_refused(&repo.aynig(arguments.iter().copied()), 3, &[&words, "remove the line"]);
        }
        told(&repo.doctor(3), "states", "error", &words, "");
        assert_eq!(fs::read_to_string(&file).expect("a file"), damaged, "nothing was written");
        shell(&repo, &format!("sed -i {line}d .git/packed-refs"));
        assert_eq!(fs::read_to_string(&file).expect("a file"), sound);
    }
    // git passes over lines with a carriage return, which an editor may have written.
    fs::write(&file, sound.replace(" refs/heads/one\n", " refs/heads/one\r\n")).expect("a file");
    let next = format!("sed -i 's/\\r$//' {}", file.display());
    assert_refused(&repo.aynig(["run"]), 3, &["line 3 of ", "ends with a carriage return", &next]);
    shell(&repo, &next);
    assert_eq!(fs::read_to_string(&file).expect("a file"), sound);
    repo.aynig_ok(["run"]);
    assert_eq!([repo.state("one"), repo.state("two")], ["done", "done"]);
}

/// CONTRACT 11.2
#[test]
fn packed_refs_that_hide_refs_end_each_call() {
    let repo = healthy();
    for name in ["a", "b", "c", "y", "z"] {
        repo.ready(name, "build");
    }
    let made = repo.made("task");
    repo.git(["pack-refs", "--all"]);
    let file = repo.path.join(".git/packed-refs");
    let sound = fs::read_to_string(&file).expect("a file");
    let (header, lines) = sound.split_once('\n').expect("a header");
    let turned: String = lines.lines().rev().map(|line| format!("{line}\n")).collect();
    let away = repo.path.join(".git/away");
    for (content, words) in [
        (Some(String::new()), "is empty, as after a loss of power"),
        (Some(format!("{header}\n{turned}")), "line 3 of"),
        (None, "is a link to"),
    ] {
        fs::remove_file(&file).expect("removed");
        match &content {
            Some(content) => fs::write(&file, content).expect("written"),
            None => std::os::unix::fs::symlink(&away, &file).expect("a link"),
        }
        for arguments in [
            ["run"].as_slice(),
            &["status", "z"],
            &["set-state", "z", "--state", "x"],
            &["workspace", "snapshot", &made.slug],
            &["workspace", "remove", "--apply", &made.slug],
        ] {
            let mut command = repo.aynig_command();
            command.env("XDG_STATE_HOME", repo.beside("state")).args(arguments);
            let refused = command.output().expect("aynig runs");
            assert!(!refused.status.success(), "{arguments:?} {content:?}: {}", out(&refused));
            assert_refused(&refused, 3, &["could not read packed-refs", words]);
        }
        let heads = repo.path.join(".git/refs/heads");
        assert_eq!(fs::read_dir(&heads).map_or(0, Iterator::count), 0, "nothing was written");
    }
    fs::remove_file(&file).expect("removed");
    fs::write(&file, format!("{}\n{turned}", header.replace(" sorted", ""))).expect("written");
    repo.aynig_ok(["run"]);
    assert_eq!(repo.state("z"), "done");
}

/// CONTRACT 11.2, 15.13
#[test]
fn a_branch_that_cannot_be_read_is_not_gone() {
    let repo = healthy();
    let made = repo.made("task");
    repo.git(["pack-refs", "--all"]);
    let file = repo.path.join(".git/packed-refs");
    let sound = fs::read_to_string(&file).expect("a file");
    fs::write(&file, format!("{sound}garbage\n")).expect("a file");
    for arguments in [["list"].as_slice(), &["show", &made.slug]] {
        let shown = out(&repo.workspace_ok(arguments.iter().copied()));
        assert!(shown.contains("is no ref (`garbage`)") && !shown.contains("gone"), "{shown}");
    }
    fs::write(&file, sound).expect("a file");
    assert!(out(&repo.workspace_ok(["list"])).contains("  ready  "));
}

/// CONTRACT 11.2
#[test]
fn a_symbolic_ref_is_reported_with_the_branch_at_its_end() {
    let repo = healthy();
    repo.git(["tag", "mark"]);
    repo.ready("real", "build");
    for (name, to) in [
        ("one", "refs/heads/real"),
        ("two", "refs/heads/one"),
        ("nothing", "refs/heads/none"),
        ("tag", "refs/tags/mark"),
        ("round", "refs/heads/about"),
        ("about", "refs/heads/round"),
    ] {
        repo.git(["symbolic-ref", &format!("refs/heads/{name}"), to]);
    }
    for name in ["one", "two"] {
        let shown = out(&repo.aynig_ok(["status", name]));
        assert!(shown.contains("is a symbolic ref to refs/heads/real; that branch"), "{shown}");
        let refused = repo.aynig(["set-state", "--state", "build", "--branch", name]);
        assert_refused(&refused, 2, &["is a symbolic ref", "--branch real"]);
    }
    for name in ["nothing", "tag", "round", "about"] {
        let shown = out(&repo.aynig_ok(["status", name]));
        assert!(shown.contains("no branch with a commit; `git symbolic-ref --delete` removes it"), "{shown}");
        let refused = repo.aynig(["set-state", "--state", "build", "--branch", name]);
        let next = format!("git symbolic-ref --delete refs/heads/{name}");
        assert_refused(&refused, 2, &["is a symbolic ref", &next]);
        shell(&repo, &next);
    }
}

#[test]
fn a_branch_whose_commit_is_missing_is_named_with_what_its_log_says() {
    let repo = healthy();
    repo.git(["config", "core.logAllRefUpdates", "true"]);
    repo.git(["branch", "lost"]);
    let before = repo.head("lost");
    let gone = repo.ready("lost", "build");
    let object = repo.path.join(format!(".git/objects/{}/{}", &gone[..2], &gone[2..]));
    fs::remove_file(object).expect("a loose object");
    let refused = repo.aynig(["logs", "lost"]);
    assert_refused(&refused, 3, &["could not read the history of lost", &gone, "`git fsck`"]);
    let next = format!("git fsck; if no other clone has the commit: git update-ref refs/heads/lost {before}");
    told(&repo.doctor(3), "refs", "error", &format!("refs/heads/lost: could not read commit {gone}"), &next);
}

#[test]
fn a_fetch_that_fails_over_a_damaged_ref_names_the_doctor() {
    let hub = healthy();
    let hub = hub.into_bare();
    hub.ready("task", "build");
    let clone = hub.clone_beside("clone");
    for name in ["refs/heads/zz", "refs/tags/zz"] {
        let file = clone.path.join(".git").join(name);
        fs::write(&file, "").expect("a file");
        let refused = clone.aynig(["run", "--remote", "origin"]);
        assert_refused(&refused, 4, &[name, "a ref of this repository is damaged: `aynig doctor` names it"]);
        assert!(!err(&refused).contains("ls-remote"), "{}", err(&refused));
        fs::remove_file(&file).expect("it is there");
    }
    clone.aynig_ok(["run", "--remote", "origin"]);
    assert_eq!(hub.state("task"), "done");
    // The HEAD of a remote is a symbolic ref.
    let head = clone.path.join(".git/refs/remotes/origin/HEAD");
    fs::write(&head, "").expect("a file");
    let next = format!("rm {} && git remote set-head origin --auto", head.display());
    told(&clone.doctor(3), "refs", "error", "refs/remotes/origin/HEAD cannot be read: ", &next);
    shell(&clone, &next);
    assert!(clone.git(["symbolic-ref", "refs/remotes/origin/HEAD"]).starts_with("refs/remotes/origin/"));
}
