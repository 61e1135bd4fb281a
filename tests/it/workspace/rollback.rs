//! A rollback: whatever state a worktree is in, afterwards it equals a new one at the base, the rest is under a rescue
//! ref, `--undo` brings branch, index and files back, and the operator's checkout is what it was.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::super::support::*;
use super::Made;

impl Made {
    /// Runs a shell script in the worktree.
    pub(crate) fn sh(&self, repo: &Repo, script: &str) -> std::process::Output {
        let mut command = Command::new("/bin/sh");
        hermetic(&mut command).current_dir(&self.path).args(["-euc", script]);
        let output = command.env("REPO", &repo.path).env("BRANCH", &self.branch).output().expect("a shell");
        assert!(output.status.success(), "{script}: {}{}", out(&output), err(&output));
        output
    }

    /// Git in the worktree.
    pub(crate) fn git(&self, repo: &Repo, arguments: &[&str]) -> String {
        let output = repo.git_command().arg("-C").arg(&self.path).args(arguments).output().expect("git runs");
        assert!(output.status.success(), "{arguments:?}: {}", err(&output));
        out(&output).trim_end().to_owned()
    }

    /// Branch, files and index of the worktree, ignored files left out.
    fn contents(&self, repo: &Repo) -> [String; 4] {
        let index = self.git(repo, &["ls-files", "--stage"]);
        let mut listing = String::new();
        let files =
            self.git(repo, &["ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate"]);
        for file in files.lines() {
            let text = fs::read_to_string(self.path.join(file)).unwrap_or_else(|_| "gone".to_owned());
            listing.push_str(&format!("{file}: {text}"));
        }
        let head = self.git(repo, &["symbolic-ref", "--quiet", "HEAD"]);
        [index, listing, head, repo.head(&self.branch)]
    }

    /// The worktree equals a new one at `base`.
    fn assert_new(&self, repo: &Repo, base: &str, what: &str) {
        assert_eq!(repo.head(&self.branch), base, "{what}");
        assert_eq!(
            self.git(repo, &["symbolic-ref", "HEAD"]),
            format!("refs/heads/{}", self.branch),
            "{what}"
        );
        assert_eq!(self.git(repo, &["status", "--porcelain", "--ignored"]), "", "{what}");
        let wanted = repo.git(["ls-tree", "-r", "--name-only", base]);
        let mut found: Vec<String> = files_below(&self.path)
            .iter()
            .map(|file| file.strip_prefix(&self.path).expect("below").display().to_string())
            .filter(|file| file != ".git")
            .collect();
        found.sort();
        // The directory of a submodule is empty.
        let is_file = |name: &&str| !self.path.join(name).is_dir();
        assert_eq!(found, wanted.lines().filter(is_file).collect::<Vec<_>>(), "{what}");
        let state = self.git(repo, &["rev-parse", "--absolute-git-dir"]);
        for name in ["MERGE_HEAD", "rebase-merge", "BISECT_START", "index.lock"] {
            assert!(!Path::new(&state).join(name).exists(), "{what}: {name}");
        }
    }
}

/// A repository with some files, and a workspace.
pub(super) fn field() -> (Repo, Made, String) {
    let repo = Repo::new();
    repo.write(".gitignore", "*.tmp\n");
    repo.write("dir/a", "a\n");
    repo.write("b", "b\n");
    let base = repo.commit_all("files");
    let made = repo.made("fix");
    (repo, made, base)
}

/// The operator's checkout with its bytes, the index included.
pub(super) fn operators(repo: &Repo) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut files = files_below(&repo.path);
    let git = repo.path.join(".git");
    files.retain(|file| !file.starts_with(&git) || *file == git.join("index") || *file == git.join("HEAD"));
    files.sort();
    files.into_iter().map(|file| (file.clone(), fs::read(&file).expect("readable"))).collect()
}

fn done(output: &std::process::Output) -> Value {
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    value["done"].clone()
}

/// The states that a worktree can be in. The flag says whether `--undo` brings it back as it was.
pub(super) const STATES: [(&str, &str, bool); 23] = [
    ("edits", "echo more >>b; rm dir/a", true),
    ("staged", "echo staged >b; git add b; echo edited >>b", true),
    ("untracked", "mkdir new; echo x >new/file", true),
    ("ignored", "echo x >x.tmp; echo y >y", true),
    ("commits", "echo own >own; git add own; git -c user.name=A -c user.email=a@b commit -qm own", true),
    (
        "commits and edits",
        "git -c user.name=A -c user.email=a@b commit -q --allow-empty -m own; echo x >>b",
        true,
    ),
    (
        "other branch",
        "git switch -qc other; echo own >own; git add own; git -c user.name=A -c user.email=a@b commit -qm o",
        false,
    ),
    (
        "detached",
        "git checkout -q --detach; echo own >own; git add own; git -c user.name=A -c user.email=a@b commit -qm o",
        false,
    ),
    (
        "mid-merge",
        "git config user.name A; git config user.email a@b; git switch -qc side; echo s >b; git commit -qam s; git switch -q -; echo m >b; git commit -qam m; ! git merge -q side",
        false,
    ),
    (
        "mid-rebase",
        "git config user.name A; git config user.email a@b; git switch -qc side; echo s >b; git commit -qam s; git switch -q -; echo m >b; git commit -qam m; ! git rebase -q side 2>&1",
        false,
    ),
    ("no .git", "echo x >>b; rm .git", true),
    (".git elsewhere", "echo x >>b; echo \"gitdir: $REPO/.git\" >.git", true),
    (".git a repository", "rm .git; git init -q; echo x >x", false),
    ("gone", "rm -rf \"$PWD\"", false),
    ("gone with what it was in", "rm -rf \"$(dirname \"$PWD\")\"", false),
    ("a file", "p=$PWD; rm -rf \"$p\"; echo mine >\"$p\"", false),
    ("a link", "p=$PWD; rm -rf \"$p\"; ln -s \"$REPO\" \"$p\"", false),
    ("unlocked", "echo x >>b; git worktree unlock .", true),
    (
        "without its names",
        "echo x >>b; cd \"$(git rev-parse --absolute-git-dir)\"; : >locked; : >gitdir",
        true,
    ),
    (
        "without its names and HEAD (.git)",
        "echo x >>b; cd \"$(git rev-parse --absolute-git-dir)\"; : >locked; : >gitdir; : >HEAD",
        true,
    ),
    ("read-only", "echo x >>b; mkdir -p deep/er; echo y >deep/er/z; chmod -R a-w .", true),
    (
        "nested",
        "git init -q inner; git -C inner -c user.name=A -c user.email=a@b commit -q --allow-empty -m x",
        false,
    ),
    ("branch deleted", "echo x >>b; git update-ref -d \"refs/heads/$BRANCH\"", false),
];

/// CONTRACT 15.7, 15.8
#[test]
fn whatever_state_it_is_in_it_equals_a_new_one_afterwards() {
    for (what, script, restores) in STATES {
        let (repo, made, base) = field();
        repo.write("b", "the operator's\n");
        repo.write("loose", "the operator's\n");
        let before = operators(&repo);
        made.sh(&repo, script);
        let contents = restores.then(|| {
            if what.contains(".git") {
                [String::new(), String::new(), String::new(), String::new()]
            } else {
                made.contents(&repo)
            }
        });
        let output = repo.workspace_ok(["rollback", &made.slug, "--json"]);
        made.assert_new(&repo, &base, what);
        assert_eq!(operators(&repo), before, "{what}");
        assert_eq!(repo.workspaces()[0]["generation"], 2, "{what}");
        let done = done(&output);
        let is_left = ["a file", "a link"].contains(&what);
        let is_kept = [".git a repository", "nested"].contains(&what);
        assert_eq!(done["keptPath"].is_string(), is_kept, "{what}: {done}");
        if is_left || is_kept {
            let left = made.path.with_file_name("fix.kept-1");
            assert!(left.symlink_metadata().is_ok(), "{what}");
        }
        if !(is_left || is_kept || what.starts_with("gone")) {
            let rescue = done["rescueRef"].as_str().unwrap_or_else(|| panic!("{what}: {done}"));
            assert!(rescue.starts_with(&format!("refs/aynig/rescue/{}/", made.branch)), "{rescue}");
        }
        wait_until("the old one to be removed", || {
            let above = fs::read_dir(made.path.parent().expect("above")).expect("a directory");
            !above.flatten().any(|entry| entry.file_name().to_string_lossy().contains(".gone-"))
        });
        // A second one has nothing to do.
        let again = repo.workspace_ok(["rollback", &made.slug]);
        assert!(out(&again).contains("nothing to roll back"), "{what}: {}", out(&again));
        repo.workspace_ok(["rollback", "--undo", &made.slug]);
        if let Some(contents) = contents.filter(|contents| !contents[0].is_empty()) {
            assert_eq!(made.contents(&repo), contents, "{what}");
        } else if restores {
            assert!(fs::read_to_string(made.path.join("b")).expect("b").ends_with("x\n"), "{what}");
        }
        assert_eq!(operators(&repo), before, "{what}");
        // The undoing can be undone.
        repo.workspace_ok(["rollback", "--undo", &made.slug]);
        made.assert_new(&repo, &base, what);
        let fsck = repo.git_command().args(["fsck", "--strict", "--no-dangling", "--no-progress"]).output();
        assert!(fsck.expect("git runs").status.success(), "{what}");
    }
}

/// CONTRACT 15.7
#[test]
fn a_process_that_works_in_it_keeps_the_old_directory() {
    let (repo, made, base) = field();
    let mut command = Command::new("sleep");
    let mut inside = command.arg("600").current_dir(&made.path).spawn().expect("sleep");
    made.sh(&repo, "echo x >>b");
    let output = repo.workspace_ok(["rollback", &made.slug, "--json"]);
    made.assert_new(&repo, &base, "occupied");
    let done = done(&output);
    assert!(done["reason"].as_str().is_some_and(|why| why.contains(&inside.id().to_string())), "{done}");
    let kept = Path::new(done["keptPath"].as_str().expect("a path")).to_owned();
    assert_eq!(kept, made.path.with_file_name("fix.kept-1"));
    assert_eq!(fs::read_to_string(kept.join("b")).expect("kept"), "b\nx\n");
    assert!(done["rescueRef"].is_string(), "it is saved all the same: {done}");
    inside.kill().expect("it runs");
    inside.wait().expect("it ends");
}

/// CONTRACT 15.17
#[cfg(debug_assertions)]
#[test]
fn one_that_is_at_work_is_named_and_waited_for() {
    let (repo, made, base) = field();
    made.sh(&repo, "echo x >>b");
    let mut command = repo.workspace_command();
    command.args(["rollback", &made.slug]).env("AYNIG_CRASH_AT", "rollback-moved:stop");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let first = Running::start(&mut command);
    wait_until("it to stop", || is_stopped(first.pid()));
    let mut command = repo.workspace_command();
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut second = Running::start(command.args(["rollback", &made.slug]));
    let words = second.await_error("waiting for process");
    assert!(words.contains(&format!("process {}, which changes {}", first.pid(), made.handle)), "{words}");
    first.signal(nix::sys::signal::Signal::SIGCONT);
    let output = second.finish();
    assert!(output.status.success() && out(&output).contains("nothing to roll back"), "{}", err(&output));
    assert!(first.finish().status.success());
    made.assert_new(&repo, &base, "both");
    assert_eq!(repo.workspaces()[0]["generation"], 2);
}

/// CONTRACT 15.17
#[test]
fn other_targets_are_refused_by_name() {
    let (repo, made, base) = field();
    made.sh(&repo, "echo x >>b");
    for (target, words) in [
        ("pre_step", &["pre_step", "deferred", "git revert", "nothing was changed"][..]),
        ("checkpoint:one", &["checkpoint:one", "deferred", "git revert", "nothing was changed"]),
        ("elsewhere", &["elsewhere", "pre_run", "nothing was changed"]),
    ] {
        assert_refused(&repo.workspace(["rollback", "--to", target, &made.slug]), 2, words);
        assert_eq!(made.git(&repo, &["status", "--porcelain"]), " M b");
    }
    repo.workspace_ok(["rollback", "--to", "pre_run", &made.slug]);
    made.assert_new(&repo, &base, "pre_run");
}

/// CONTRACT 15.7
#[test]
fn work_in_a_submodule_is_kept() {
    for (what, script, is_kept) in [
        ("as it was", "true", false),
        ("an edit", "echo x >>sub/f", true),
        ("a new file", "echo x >sub/new", true),
        ("a commit", "git -C sub -c user.name=A -c user.email=a@b commit -qam own --allow-empty", true),
        (
            "a commit and deinit",
            "git -C sub -c user.name=A -c user.email=a@b commit -qm own --allow-empty; git submodule --quiet deinit -f sub",
            true,
        ),
        ("a stash", "echo x >>sub/f; git -C sub -c user.name=A -c user.email=a@b stash -q", true),
        ("an edit in a sparse one", "git -C sub sparse-checkout set dir; echo x >>sub/f", true),
    ] {
        let repo = Repo::new();
        let origin = repo.beside("origin");
        let path = origin.to_str().expect("UTF-8");
        repo.git(["init", "-q", "--initial-branch=main", path]);
        fs::write(origin.join("f"), "f\n").expect("written");
        for arguments in
            [&["add", "f"][..], &["-c", "user.name=A", "-c", "user.email=a@b", "commit", "-qm", "theirs"]]
        {
            repo.git([&["-C", path], arguments].concat());
        }
        repo.git(["-c", "protocol.file.allow=always", "submodule", "add", "-q", path, "sub"]);
        let base = repo.commit_all("a submodule");
        let made = repo.made("fix");
        let operators = operators(&repo);
        made.sh(
            &repo,
            &format!(
                "echo x >>README; git -c protocol.file.allow=always submodule update -q --init; {script}"
            ),
        );
        let output = repo.workspace_ok(["rollback", &made.slug, "--json"]);
        let done = done(&output);
        assert_eq!(done["keptPath"].is_string(), is_kept, "{what}: {done}");
        made.assert_new(&repo, &base, what);
        assert_eq!(super::rollback::operators(&repo), operators, "{what}");
        if is_kept {
            assert!(done["reason"].as_str().is_some_and(|why| why.contains("sub")), "{what}: {done}");
            let kept = Path::new(done["keptPath"].as_str().expect("a path"));
            let has_work = || {
                let git = |arguments: &[&str]| {
                    let output = repo.git_command().arg("-C").arg(kept).args(arguments).output();
                    out(&output.expect("git runs"))
                };
                let modules = git(&["rev-parse", "--path-format=absolute", "--git-path", "modules/sub"]);
                let inside = ["log", "--all", "--format=%s"];
                let own = git(&[&["--git-dir", modules.trim_end()], &inside[..]].concat());
                let changed = fs::read_to_string(kept.join("sub/f")).unwrap_or_default() != "f\n"
                    || kept.join("sub/new").exists();
                changed || own.contains("own") || own.contains("WIP")
            };
            assert!(has_work(), "{what}");
            let sub = kept.join("sub");
            if sub.join(".git").exists() {
                let top = repo.git(["-C", sub.to_str().expect("UTF-8"), "rev-parse", "--show-toplevel"]);
                assert_eq!(Path::new(&top), sub, "{what}: it works there as before");
            }
        }
    }
}

/// CONTRACT 15.8
#[test]
fn only_what_was_rolled_back_can_be_brought_back() {
    let (repo, made, _) = field();
    assert_refused(&repo.workspace(["rollback", "--undo", &made.slug]), 2, &["was not rolled back"]);
}

/// What is ignored only by lists that a step can write to is not lost: neither by a rollback nor by a removal.
///
/// CONTRACT 15.7, 15.9
#[test]
fn files_that_the_base_does_not_ignore_stay() {
    for (what, script, is_lost) in [
        ("the base ignores it", "echo x >x.tmp; mkdir -p x; echo y >x/y.tmp", true),
        (
            "info/exclude",
            "mkdir -p \"$REPO/.git/info\"; echo x >\"$REPO/.git/info/exclude\"; echo x >x",
            false,
        ),
        (
            "core.excludesFile",
            "echo x >\"$REPO/.git/list\"; git -C \"$REPO\" config core.excludesFile \"$REPO/.git/list\"; echo x >x",
            false,
        ),
        ("a new .gitignore", "echo '*' >.gitignore; echo x >x", false),
        (
            "a repository",
            "mkdir -p \"$REPO/.git/info\"; echo x >\"$REPO/.git/info/exclude\"; git init -q x; echo x >x/x",
            false,
        ),
    ] {
        for verb in [&["rollback"][..], &["remove", "--apply"]] {
            let (repo, made, _) = field();
            made.sh(&repo, script);
            repo.workspace_ok([verb, &[made.handle.as_str(), "--json"]].concat());
            let kept = made.path.with_file_name("fix.kept-1");
            let has = |directory: &Path| directory.join("x").exists();
            assert_eq!(has(&kept) || has(&made.path), !is_lost, "{what}: {verb:?}");
        }
    }
}
