//! What workspaces leave (`clean`), what is wrong with them (`doctor`), and what `status` and `log` say of them.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::super::support::*;
use super::Made;
use super::rollback::field;

impl Repo {
    /// `aynig …` where workspaces are; any exit code is fine.
    pub(super) fn ask(&self, arguments: &[&str]) -> std::process::Output {
        let mut command = self.aynig_command();
        command.env("XDG_STATE_HOME", self.beside("state")).args(arguments).output().expect("aynig runs")
    }

    /// The items of `clean` of these kinds: name, fate and reason.
    pub(super) fn items(&self, arguments: &[&str]) -> Vec<[String; 3]> {
        let report = json(&self.ask(&[&["clean", "--json"], arguments].concat()));
        let text = |item: &Value, field: &str| item[field].as_str().expect(field).to_owned();
        let items = report["items"].as_array().expect("a list").iter();
        let of_workspaces = items.filter(|item| {
            ["worktree", "workspace", "archive"].contains(&item["kind"].as_str().expect("a kind"))
        });
        of_workspaces.map(|item| ["name", "fate", "reason"].map(|field| text(item, field))).collect()
    }

    /// The findings of `doctor` about workspaces: level, text and next step.
    pub(super) fn findings(&self) -> Vec<[String; 3]> {
        let report = json(&self.ask(&["doctor", "--json"]));
        let findings = report["findings"].as_array().expect("a list").iter();
        let its = findings.filter(|finding| finding["check"] == "workspaces");
        its.map(|finding| {
            ["level", "text", "next"].map(|field| finding[field].as_str().unwrap_or("").to_owned())
        })
        .collect()
    }
}

fn beside(made: &Made, name: &str) -> String {
    made.path.with_file_name(name).display().to_string()
}

const NESTED: &str =
    "git init -q inner; git -C inner -c user.name=A -c user.email=a@b commit -q --allow-empty -m x";

/// CONTRACT 15.14
#[test]
fn what_a_rollback_left_goes_when_all_in_it_is_elsewhere() {
    let (repo, made, _) = field();
    made.sh(&repo, &format!("echo x >>b; {NESTED}"));
    repo.workspace_ok(["rollback", &made.slug]);
    let kept = beside(&made, "fix.kept-1");
    let [[name, fate, reason]] = &repo.items(&[])[..] else { panic!("{:?}", repo.items(&[])) };
    assert_eq!((name.as_str(), fate.as_str()), (kept.as_str(), "stays"));
    assert!(reason.contains(&format!("an old worktree of the workspace {}", made.handle)), "{reason}");
    assert!(reason.contains("inner"), "{reason}");
    let [[level, text, next]] = &repo.findings()[..] else { panic!("{:?}", repo.findings()) };
    assert_eq!((level.as_str(), next.as_str()), ("warning", "aynig clean --workspaces"));
    assert!(text.contains(&kept) && text.contains(&made.handle), "{text}");
    assert!(!out(&repo.ask(&["doctor"])).contains("was kept for you"));
    repo.items(&["--workspaces", "--apply"]);
    assert!(Path::new(&kept).join("inner").is_dir());
    fs::remove_dir_all(Path::new(&kept).join("inner")).expect("removed");
    // A change since then is saved nowhere, those before it are under a rescue ref.
    fs::write(Path::new(&kept).join("b"), "b\nz\n").expect("written");
    assert!(repo.items(&["--workspaces"])[0][2].contains("in no branch and under no rescue ref"));
    fs::write(Path::new(&kept).join("b"), "b\nx\n").expect("written");
    assert_eq!(repo.items(&["--workspaces"])[0][1], "would go");
    assert_eq!(repo.items(&["--workspaces", "--apply"])[0][1], "removed");
    assert!(!Path::new(&kept).exists());
    assert_eq!(repo.findings(), [["ok", "1 workspace, complete and at the recorded place", ""]]);
    assert_eq!(repo.worktrees(), [made.path.to_str().expect("UTF-8")]);
}

/// CONTRACT 15.14
#[test]
fn ignored_files_go_only_by_their_age() {
    let (repo, made, _) = field();
    made.sh(&repo, "echo '*.own' >.gitignore; echo i >i.own; git bisect start >/dev/null");
    repo.workspace_ok(["snapshot", &made.slug]);
    let kept = beside(&made, "fix.kept-1");
    for options in
        [&["--workspaces", "--apply"][..], &["--apply"], &["--workspaces", "--apply", "--older-than", "1h"]]
    {
        let [[name, fate, reason]] = &repo.items(options)[..] else { panic!("{options:?}") };
        assert_eq!((name.as_str(), fate.as_str()), (kept.as_str(), "stays"), "{reason}");
        assert!(reason.contains("1 ignored file"), "{reason}");
    }
    let mut later = repo.aynig_command();
    later.env("AYNIG_CLOCK_OFFSET_SECONDS", "7200").args([
        "clean",
        "--workspaces",
        "--older-than",
        "1h",
        "--apply",
    ]);
    let output = later.output().expect("aynig runs");
    if cfg!(debug_assertions) {
        assert!(out(&output).contains("removed"), "{}", out(&output));
        assert!(!Path::new(&kept).exists());
    }
}

/// CONTRACT 15.14
#[test]
fn what_git_does_not_list_stays_and_what_is_saved_goes() {
    let (repo, made, _) = field();
    let [file, directory, gone] = ["fix.kept-1", "fix.kept-2", "fix.gone-3"].map(|name| beside(&made, name));
    fs::write(&file, "mine").expect("written");
    for path in [&directory, &gone] {
        fs::create_dir_all(Path::new(path).join("deep")).expect("made");
    }
    let found = repo.items(&["--workspaces", "--apply", "--older-than", "0s"]);
    let fates: Vec<(&str, &str)> =
        found.iter().map(|[name, fate, _]| (name.as_str(), fate.as_str())).collect();
    assert_eq!(fates, [(file.as_str(), "stays"), (&directory, "stays"), (&gone, "removed")]);
    assert!(Path::new(&file).is_file() && Path::new(&directory).is_dir() && !Path::new(&gone).exists());
}

/// CONTRACT 15.14
#[test]
fn an_archived_branch_goes_only_when_that_is_asked_for() {
    let (repo, made, _) = field();
    made.sh(&repo, "echo x >>b; git -c user.name=A -c user.email=a@b commit -qam own");
    let tip = repo.head(&made.branch);
    repo.workspace_ok(["remove", "--apply", &made.slug]);
    let archive = format!("refs/aynig/archive/{}/fix", made.run);
    let fate = |options: &[&str]| {
        let [[name, fate, reason]] = &repo.items(options)[..] else { panic!("{options:?}") };
        assert_eq!(*name, archive);
        (fate.clone(), reason.clone())
    };
    for options in [&["--apply", "--older-than", "0s"][..], &["--workspaces", "--apply"]] {
        let (fate, reason) = fate(options);
        assert!(
            fate == "stays" && reason.contains("in no branch") && reason.contains(&made.handle),
            "{reason}"
        );
    }
    repo.git(["merge", "-q", &archive]);
    assert_eq!(fate(&["--apply"]).0, "stays");
    let (fate, reason) = fate(&["--workspaces", "--apply"]);
    assert!(fate == "removed" && reason.contains("in main") && reason.contains(&tip), "{reason}");
    assert_eq!(repo.git(["for-each-ref", "refs/aynig/archive/"]), "");
}

/// CONTRACT 15.13
#[test]
fn what_is_wrong_is_named_with_the_command_that_mends_it() {
    for (what, script, words, is_left) in [
        ("gone", "rm -rf \"$PWD\"", "its worktree is gone", true),
        ("a file", "p=$PWD; rm -rf \"$p\"; echo mine >\"$p\"", "no directory", false),
        ("unregistered", "rm -r \"$(git rev-parse --absolute-git-dir)\"", "git does not list", false),
        ("no .git", "rm .git", ".git file", false),
        (".git elsewhere", "echo \"gitdir: $REPO/.git\" >.git", ".git file", false),
        ("repository", "rm .git; git init -q", "another repository", false),
        ("no branch", "git update-ref -d \"refs/heads/$BRANCH\"", "its branch is gone", true),
    ] {
        let (repo, made, _) = field();
        assert_eq!(repo.findings()[0][0], "ok", "{what}");
        made.sh(&repo, script);
        let [[level, text, next]] = &repo.findings()[..] else { panic!("{what}: {:?}", repo.findings()) };
        assert!(level == "warning" && text.contains(words) && text.contains(&made.handle), "{what}: {text}");
        let items = repo.items(&["--workspaces", "--apply"]);
        assert_eq!(
            items.iter().any(|[name, fate, _]| *name == made.handle && fate == "stays"),
            is_left,
            "{what}: {items:?}"
        );
        let mut commands: Vec<&str> = next.split('`').skip(1).step_by(2).collect();
        commands.retain(|command| command.starts_with("aynig ") || command.starts_with("mv "));
        assert!(!commands.is_empty(), "{what}: {next}");
        for command in commands {
            let words: Vec<&str> = command.split(' ').collect();
            let done = match words[..] {
                ["aynig", ref words @ ..] => repo.ask(words),
                _ => Command::new(words[0]).args(&words[1..]).output().expect("it runs"),
            };
            assert!(done.status.success(), "{what}: {command}: {}", err(&done));
        }
        let after = repo.findings();
        assert!(
            after.iter().all(|[_, text, _]| text.contains("complete") || text.contains("old worktree")),
            "{what}: {after:?}"
        );
    }
}

/// CONTRACT 15.13
#[test]
fn records_that_cannot_be_used_are_named() {
    let (repo, made, _) = field();
    let file = made.record(&repo).join("workspace-context.json");
    let text = fs::read_to_string(&file).expect("the record");
    for (broken, words) in [
        ("{".to_owned(), "mv "),
        (text.replace("\"version\": 1", "\"version\": 7"), "use the aynig that wrote it"),
        (text.replace(&repo.head("main"), &"1".repeat(40)), "git fetch --all"),
    ] {
        fs::write(&file, broken).expect("written");
        let [[_, text, next]] = &repo.findings()[..] else { panic!("{:?}", repo.findings()) };
        assert!(next.contains(words), "{text}: {next}");
    }
    fs::remove_file(&file).expect("removed");
    let [[_, text, next]] = &repo.findings()[..] else { panic!("{:?}", repo.findings()) };
    assert!(text.contains("the record of its workspace is gone"), "{text}");
    let command = next.split('`').nth(1).expect("a command");
    repo.git(["status"]);
    made.sh(&repo, &format!("cd \"$REPO\"; {command}"));
    assert_eq!(repo.findings(), [[""; 3]; 0]);
    assert_eq!(repo.worktrees(), [""; 0]);
}

/// CONTRACT 15.14
#[cfg(debug_assertions)]
#[test]
fn what_was_interrupted_is_finished_by_clean() {
    for (point, arguments, words) in [
        ("workspace-made", &["create", "new"][..], "was never complete"),
        ("rollback-noted", &["rollback"], "was to be made anew"),
        ("removal-noted", &["remove", "--apply"], "was to be removed"),
    ] {
        let (repo, made, _) = field();
        made.sh(&repo, "echo x >>b");
        let mut command = repo.workspace_command();
        command.args(arguments).env("AYNIG_CRASH_AT", point);
        if point != "workspace-made" {
            command.arg(&made.slug);
        }
        assert_eq!(command.output().expect("aynig runs").status.code(), None);
        let [[level, text, next]] = &repo.findings()[..] else { panic!("{point}: {:?}", repo.findings()) };
        assert!(level == "warning" && text.contains(words), "{text}");
        assert!(next.contains("`aynig clean --workspaces --apply`"), "{next}");
        assert_eq!(repo.items(&["--workspaces"])[0][1], "would go");
        assert_eq!(repo.items(&["--workspaces", "--apply"])[0][1], "removed", "{point}");
        assert!(repo.findings().iter().all(|[level, ..]| level == "ok"), "{point}: {:?}", repo.findings());
    }
}

/// CONTRACT 15.13
#[test]
fn status_and_log_know_workspaces() {
    let repo = Repo::new();
    assert!(!err(&repo.ask(&["status", "--all"])).contains("workspace"));
    let made = repo.made("fix");
    assert!(err(&repo.ask(&["status", "--all"])).contains("1 workspace: `aynig workspace list`"));
    assert_eq!(json(&repo.ask(&["status", "--all", "--json"]))["workspaces"], 1);
    let words = err(&repo.ask(&["log", &made.branch]));
    assert!(words.contains(&format!("is the branch of the workspace {}", made.handle)), "{words}");
    assert_eq!(repo.findings(), [["ok", "1 workspace, complete and at the recorded place", ""]]);
}
