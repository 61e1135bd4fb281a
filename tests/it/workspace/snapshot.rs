//! A snapshot: what is in the worktree becomes a commit on the work branch, and a worktree that is not in order is set
//! right before.

use serde_json::Value;

use super::super::support::*;

fn done(output: &std::process::Output) -> Value {
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    value["done"].clone()
}

/// CONTRACT 15.6
#[test]
fn what_is_there_becomes_a_commit() {
    let repo = Repo::new();
    repo.write(".gitignore", "*.tmp\n");
    let base = repo.commit_all("ignores");
    let made = repo.made("fix");
    made.sh(&repo, "echo x >>README; echo y >new; git add new; echo z >>new; echo i >i.tmp");
    let output = repo.workspace_ok(["snapshot", &made.slug, "--json"]);
    let commit = done(&output)["snapshot"].as_str().expect("a commit").to_owned();
    assert_eq!(repo.head(&made.branch), commit);
    assert_eq!(repo.head(&format!("{commit}^")), base);
    assert_eq!(repo.git(["show", "--format=", "--name-only", &commit]), "README\nnew");
    assert_eq!(repo.git(["show", &format!("{commit}:new")]), "y\nz");
    assert_eq!(repo.trailer(&commit, "aynig-run"), made.run);
    assert!(!repo.message(&commit).contains("dwp-"));
    assert_eq!(repo.git(["log", "-1", "--format=%an", &commit]), "fix");
    assert_eq!(made.git(&repo, &["status", "--porcelain"]), "");
    let head = made.git(&repo, &["log", "-1", "-g", "--format=%gs"]);
    assert_eq!(head, "aynig: snapshot");
    // Nothing has changed since.
    assert!(out(&repo.workspace_ok(["snapshot", &made.slug])).contains("nothing to commit"));
    assert_eq!(repo.head(&made.branch), commit);
    assert!(made.path.join("i.tmp").is_file());
}

/// CONTRACT 15.6
#[test]
fn the_tree_is_the_one_that_git_writes() {
    let repo = Repo::new();
    for (path, text) in [("a/b/one", "1"), ("a/b/two", "2"), ("a/three", "3"), ("a-b", "4"), ("file", "5")] {
        repo.write(path, text);
    }
    repo.commit_all("directories");
    let made = repo.made("fix");
    for script in [
        "echo x >a/b/one; mkdir -p n/e/w; echo y >n/e/w/file; ln -s a-b link; chmod +x a/three",
        // A file and a directory change places, and a directory goes with its last file.
        "rm -r a/b; echo f >a/b; rm file; mkdir file; echo g >file/below; rm -r n",
        "git rm -q --cached a-b; echo z >>a/three; git add a/three",
        "rm -r a file; git checkout -q HEAD^ -- a",
        "git rm -qr .; rm -rf link",
    ] {
        made.sh(&repo, script);
        made.sh(&repo, "export GIT_INDEX_FILE=\"$(git rev-parse --git-dir)/other\"; git add --all; git write-tree >../tree");
        repo.workspace_ok(["snapshot", &made.slug]);
        let wanted = std::fs::read_to_string(made.path.with_file_name("tree")).expect("written");
        assert_eq!(repo.git(["rev-parse", &format!("{}^{{tree}}", made.branch)]), wanted.trim(), "{script}");
        assert_eq!(made.git(&repo, &["status", "--porcelain"]), "", "{script}");
        assert_eq!(made.git(&repo, &["write-tree"]), wanted.trim(), "{script}");
        assert_eq!(repo.git(["log", "-1", "-g", "--format=%gs", &made.branch]), "aynig: snapshot");
    }
    repo.git(["fsck", "--strict"]);
}

/// CONTRACT 15.6
#[test]
fn a_worktree_that_is_elsewhere_is_set_right() {
    let own = "echo own >own; git add own; git -c user.name=A -c user.email=a@b commit -qm own";
    for (what, script, has_own) in [
        ("other branch", format!("git switch -qc other; {own}"), true),
        ("detached", format!("git checkout -q --detach; {own}"), true),
        ("unrelated", format!("{own}; git checkout -q --detach HEAD^; echo z >z"), true),
        ("no .git", "rm .git; echo own >own".to_owned(), true),
        (
            "mid-rebase",
            format!(
                "git config user.name A; git config user.email a@b; {own}; git switch -qc side HEAD^; echo s >own; git add own; \
                 git commit -qm s; git switch -q -; ! git rebase -q side 2>&1"
            ),
            true,
        ),
        ("deleted branch", format!("{own}; git update-ref -d refs/heads/$BRANCH"), true),
    ] {
        let repo = Repo::new();
        let made = repo.made("fix");
        made.sh(&repo, &script);
        let output = repo.workspace_ok(["snapshot", &made.slug, "--json"]);
        let done = done(&output);
        assert!(done["mended"].as_array().is_some_and(|mended| !mended.is_empty()), "{what}: {done}");
        assert_eq!(
            made.git(&repo, &["symbolic-ref", "HEAD"]),
            format!("refs/heads/{}", made.branch),
            "{what}"
        );
        assert_eq!(made.git(&repo, &["status", "--porcelain"]), "", "{what}");
        assert_eq!(made.path.join("own").is_file(), has_own, "{what}");
        if ["unrelated", "mid-rebase"].contains(&what) {
            let rescue = done["rescueRef"].as_str().unwrap_or_else(|| panic!("{what}: {done}"));
            assert!(!repo.head(rescue).is_empty(), "{what}");
        }
    }
}

/// A script that leaves a merge in conflict.
const MERGING: &str = "git config user.name A; git config user.email a@b; git switch -qc side$N; echo s$N >b; git add b; git commit -qm s; \
     git switch -q -; echo m$N >b; git add b; git commit -qm m; ! git merge -q side$N";

/// CONTRACT 15.6
#[test]
fn ignored_files_come_along_where_the_worktree_is_made_anew() {
    let repo = Repo::new();
    repo.write(".gitignore", "*.tmp\ncache/\n");
    repo.commit_all("ignores");
    let made = repo.made("fix");
    made.sh(&repo, "mkdir -p cache/deep; echo c >cache/deep/c; echo i >i.tmp");
    for number in ["1", "2"] {
        made.sh(&repo, &format!("N={number}; {MERGING}"));
        let done = done(&repo.workspace_ok(["snapshot", &made.slug, "--json"]));
        assert!(done["mended"][0].as_str().is_some_and(|words| words.contains("not concluded")), "{done}");
        assert_eq!((&done["keptPath"], &done["ignoredFiles"]), (&Value::Null, &Value::from(0)), "{done}");
        assert_eq!(made.git(&repo, &["status", "--porcelain", "--ignored"]), "!! cache/\n!! i.tmp");
        assert_eq!(repo.worktrees(), [made.path.to_str().expect("UTF-8")]);
    }
    assert_eq!(std::fs::read_to_string(made.path.join("cache/deep/c")).expect("there"), "c\n");
    // What the branch does not ignore stays where it was.
    made.sh(&repo, &format!("N=3; {MERGING}; echo '*.own' >>.gitignore; echo o >o.own"));
    let done = done(&repo.workspace_ok(["snapshot", &made.slug, "--json"]));
    let kept = std::path::PathBuf::from(done["keptPath"].as_str().expect("a path"));
    assert_eq!(std::fs::read_to_string(kept.join("o.own")).expect("kept"), "o\n");
    assert_eq!(made.git(&repo, &["status", "--porcelain", "--ignored"]), "!! cache/\n!! i.tmp");
    repo.workspace_ok(["snapshot", &made.slug]);
}

/// CONTRACT 15.6
#[test]
fn commits_of_others_are_adopted() {
    let repo = Repo::new();
    let made = repo.made("fix");
    repo.git(["worktree", "add", "--quiet", "--detach", "../other", &made.branch]);
    let push = |file: &str, text: &str| {
        let other = repo.beside("other");
        std::fs::write(other.join(file), text).expect("a file");
        let git = |arguments: &[&str]| {
            let output = repo.git_command().arg("-C").arg(&other).args(arguments).output().expect("git runs");
            assert!(output.status.success(), "{}", err(&output));
        };
        git(&["add", "--all"]);
        git(&["commit", "-qm", "theirs"]);
        git(&["update-ref", &format!("refs/heads/{}", made.branch), "HEAD"]);
        repo.head(&made.branch)
    };
    let theirs = push("theirs", "t\n");
    made.sh(&repo, "echo mine >mine");
    let output = repo.workspace_ok(["snapshot", &made.slug, "--json"]);
    let done_now = done(&output);
    assert_eq!(done_now["adopted"][0].as_str(), Some(theirs.as_str()), "{done_now}");
    let commit = done_now["snapshot"].as_str().expect("a commit").to_owned();
    assert_eq!(repo.git(["show", "--format=", "--name-only", &commit]), "mine");
    assert!(made.path.join("theirs").is_file());
    // Where both changed the same file, nothing is written over.
    let other = repo.beside("other");
    let output = repo.git_command().arg("-C").arg(&other).args(["checkout", "-q", &commit]).output();
    assert!(output.expect("git runs").status.success());
    let theirs = push("mine", "theirs\n");
    made.sh(&repo, "echo more >>mine");
    assert_refused(&repo.workspace(["snapshot", &made.slug]), 1, &["nothing was changed", "git diff"]);
    assert_eq!(std::fs::read_to_string(made.path.join("mine")).expect("there"), "mine\nmore\n");
    assert_eq!(repo.head(&made.branch), theirs);
}

/// CONTRACT 15.6
#[test]
fn what_is_only_staged_is_saved() {
    let repo = Repo::new();
    let made = repo.made("fix");
    made.sh(
        &repo,
        "echo staged >>README; git add README; echo file >README; echo o >only; git add only; rm only",
    );
    let staged = made.git(&repo, &["rev-parse", ":README", ":only"]);
    let output = repo.workspace_ok(["snapshot", &made.slug]);
    let [rescue] = &repo.rescues()[..] else { panic!("one rescue: {:?}", repo.rescues()) };
    assert!(err(&output).contains(rescue.as_str()), "{}", err(&output));
    let saved = ["README", "only"].map(|file| format!("{rescue}:{file}"));
    assert_eq!(repo.git(["rev-parse", &saved[0], &saved[1]]), staged);
    assert_eq!(made.git(&repo, &["status", "--porcelain"]), "");
    // What is staged as the file is, is on the branch; a key stays in the worktree.
    made.sh(
        &repo,
        "echo x >x; git add x; echo more >>x; git add x; git rm -q README; echo S=1 >.env; git add .env",
    );
    let done = done(&repo.workspace_ok(["snapshot", &made.slug, "--json"]));
    assert_eq!((&done["rescueRef"], &done["withheld"][0]), (&Value::Null, &Value::from(".env")), "{done}");
    assert_eq!(repo.rescues().len(), 1);
}

/// CONTRACT 15.6
#[test]
fn own_commits_are_not_adopted_after_a_reflog_expired() {
    let repo = Repo::new();
    let made = repo.made("fix");
    made.sh(&repo, "echo b >b");
    repo.workspace_ok(["snapshot", &made.slug]);
    made.sh(&repo, "rm b; echo 1 >>README");
    repo.workspace_ok(["snapshot", &made.slug]);
    repo.git(["reflog", "expire", "--expire=now", "--expire-unreachable=now", "--all"]);
    made.sh(&repo, "echo 2 >>README");
    let done = done(&repo.workspace_ok(["snapshot", &made.slug, "--json"]));
    assert_eq!(done["adopted"], serde_json::json!([]), "{done}");
    // The base has README: it would be in the way of what others deleted.
    made.sh(&repo, "git rm -q README");
    repo.workspace_ok(["snapshot", &made.slug]);
    repo.git(["reflog", "expire", "--expire=now", "--expire-unreachable=now", "--all"]);
    made.sh(&repo, "echo new >README");
    repo.workspace_ok(["snapshot", &made.slug]);
    assert_eq!(repo.git(["show", &format!("{}:README", made.branch)]), "new");
}
