//! Contents of a worktree that git does not show, or overlooks: they go with no removal and no rollback.

use std::fs;
use std::os::fd::AsRawFd;

use super::super::support::*;
use super::Made;
use super::remove::assert_removed;
use super::rollback::field;

const COMMIT: &str = "git -c user.name=A -c user.email=a@b commit -q";

/// A workspace whose base has a submodule `m` that was not fetched, and ignores `*.tmp`.
fn with_submodule() -> (Repo, Made) {
    let (repo, made, base) = field();
    repo.workspace_ok(["remove", "--apply", &made.slug]);
    repo.git(["update-index", "--add", "--cacheinfo", &format!("160000,{base},m")]);
    repo.write(".gitmodules", "[submodule \"m\"]\n\tpath = m\n\turl = ../nowhere\n");
    repo.git(["add", ".gitmodules"]);
    repo.git(["commit", "-q", "-m", "a submodule"]);
    let made = repo.made("fix");
    (repo, made)
}

/// Asserts that neither a removal nor a rollback takes `file`, which is below the worktree.
fn assert_stays(repo: &Repo, made: &Made, file: &str, words: &str) {
    assert_refused(&repo.workspace(["remove", "--apply", &made.slug]), 1, &[words, "nothing was removed"]);
    assert!(made.path.join(file).exists(), "{words}");
    made.sh(repo, "echo changed >>b");
    let rolled = err(&repo.workspace_ok(["rollback", &made.slug]));
    assert!(rolled.contains(words), "{words}: {rolled}");
    assert!(made.path.with_file_name("fix.kept-1").join(file).exists(), "{words}");
}

/// CONTRACT 9.7, 15.7, 15.9
#[test]
fn a_repository_that_git_does_not_see_stays() {
    for (what, script) in [
        ("among tracked files", format!("cd dir; git init -q; git add a; {COMMIT} -m own")),
        (
            "without a branch",
            format!("git init -q dir/n; cd dir/n; {COMMIT} --allow-empty -m own; : >.git/HEAD"),
        ),
        (
            "without refs",
            format!(
                "git init -q n; cd n; {COMMIT} --allow-empty -m own; git pack-refs --all; rm -r .git/refs"
            ),
        ),
    ] {
        let (repo, made, _) = field();
        made.sh(&repo, &script);
        let place = match what {
            "among tracked files" => "dir",
            "without a branch" => "dir/n",
            _ => "n",
        };
        // Its files are part of a snapshot, its commits are not.
        let taken = err(&repo.workspace_ok(["snapshot", &made.slug]));
        assert!(taken.contains(&format!("git does not show a repository in {place}")), "{what}: {taken}");
        assert_stays(&repo, &made, &format!("{place}/.git/objects"), &format!("a repository in {place}"));
    }
    // An ignored repository goes, as other ignored files do.
    let (repo, made, _) = field();
    made.sh(&repo, "mkdir x.tmp; git init -q x.tmp/n; : >x.tmp/n/.git/HEAD");
    repo.workspace_ok(["remove", "--apply", &made.slug]);
    assert_removed(&repo, &made, "ignored");
}

/// CONTRACT 9.7, 15.7, 15.9
#[test]
fn files_where_a_submodule_belongs_stay() {
    let (repo, made) = with_submodule();
    made.sh(&repo, "echo mine >m/x.tmp");
    repo.workspace_ok(["remove", "--apply", &made.slug]);
    assert_removed(&repo, &made, "an ignored file");
    let made = repo.made("fix");
    made.sh(&repo, "mkdir m/deep; echo mine >m/deep/x; echo new >c");
    let words = "files in m, where a submodule belongs";
    let taken = repo.workspace_ok(["snapshot", &made.slug]);
    assert!(err(&taken).contains(&format!("git does not show {words}")), "{}", err(&taken));
    assert_eq!(repo.git(["show", &format!("{}:c", made.branch)]), "new", "the rest is part of it");
    made.sh(&repo, "git init -q m/other");
    let taken = repo.workspace_ok(["snapshot", &made.slug]);
    assert!(err(&taken).contains("git does not show a repository in m/other"), "{}", err(&taken));
    assert_stays(&repo, &made, "m/deep/x", words);
}

/// CONTRACT 9.5, 9.7, 15.9
#[test]
fn what_only_a_submodule_has_stays() {
    let left = format!("(cd m; echo own >>s; {COMMIT} -am own); git submodule --quiet update");
    for (what, script, is_lost) in [
        ("a commit that was left", left.as_str(), true),
        ("a file that is not compared", "cd m; git update-index --assume-unchanged s; echo own >>s", true),
        (
            "what a filter leaves out",
            "cd m; echo out: own >>n.nb; touch -d '1 hour ago' n.nb; git add n.nb",
            true,
        ),
        ("what is staged", "cd m; echo own >new; git add new; cd ..; rm -rf m", true),
        ("another worktree", "git -C m worktree add -q --detach ../../beside; echo own >../beside/own", true),
        (
            "what was fetched",
            "(cd SOURCE; git checkout -q extra; git commit -q --amend --allow-empty -m x2; git checkout -q -); git -C m fetch -q",
            false,
        ),
        ("a pruned submodule", "git submodule --quiet deinit -f m", false),
    ] {
        let (repo, made, _) = field();
        let user = repo.beside("gitconfig");
        fs::write(&user, "[filter \"strip\"]\n\tclean = \"grep -v ^out || true\"\n").expect("written");
        repo.git(["init", "-q", "../source"]);
        let source = repo.beside("source").display().to_string();
        for (name, text) in [("s", "s\n"), ("n.nb", "one\n"), (".gitattributes", "*.nb filter=strip\n")] {
            fs::write(repo.beside("source").join(name), text).expect("written");
        }
        let begin = format!(
            "cd {source}; git config user.name A; git config user.email a@b; git add .; git commit -q -m s\n\
             git checkout -q -b extra; git commit -q --allow-empty -m x; git checkout -q -"
        );
        made.sh(&repo, &begin);
        made.sh(
            &repo,
            &format!("git -c protocol.file.allow=always submodule --quiet add {source} m; {COMMIT} -m m"),
        );
        let script = script.replace("SOURCE", &source);
        made.sh(&repo, &format!("export GIT_CONFIG_GLOBAL={}; {script}", user.display()));
        let mut remove = repo.workspace_command();
        remove.env("GIT_CONFIG_GLOBAL", &user).args(["remove", "--apply", &made.slug]);
        let removed = remove.output().expect("aynig runs");
        assert_eq!(removed.status.success(), !is_lost, "{what}: {}", err(&removed));
        assert_eq!(
            err(&removed).contains("holds other repositories (m)"),
            is_lost,
            "{what}: {}",
            err(&removed)
        );
    }
}

/// CONTRACT 15.7, 15.9
#[test]
fn a_process_that_writes_to_a_file_in_it_keeps_it() {
    let (repo, made, _) = field();
    let log = made.path.join("results.tmp");
    let file = fs::File::create(&log).expect("made");
    // A shell with the file open, which works elsewhere.
    let script = format!("exec 7>>/proc/{}/fd/{}; read -r end", std::process::id(), file.as_raw_fd());
    let mut shell = std::process::Command::new("/bin/sh");
    let mut shell = shell.args(["-c", &script]).stdin(std::process::Stdio::piped()).spawn().expect("a shell");
    let open = format!("/proc/{}/fd/7", shell.id());
    wait_until("the open file", || fs::read_link(&open).is_ok());
    drop(file);
    let words = format!("process {} (sh) works in it", shell.id());
    assert_refused(&repo.workspace(["remove", "--apply", &made.slug]), 1, &[&words]);
    let rolled = repo.workspace_ok(["rollback", &made.slug]);
    assert!(err(&rolled).contains("(sh) worked in it"), "{}", err(&rolled));
    assert!(made.path.with_file_name("fix.kept-1").join("results.tmp").exists());
    drop(shell.stdin.take());
    shell.wait().expect("it ends");
    repo.workspace_ok(["remove", "--apply", &made.slug]);
}

/// A workspace with a file whose output lines a filter leaves out, and one such line that git does not see.
fn filtered() -> (Repo, Made) {
    let (repo, made, _) = field();
    repo.workspace_ok(["remove", "--apply", &made.slug]);
    repo.git(["config", "filter.strip.clean", "grep -v ^out || true"]);
    for (name, text) in [(".gitattributes", "*.nb filter=strip\n"), ("n.nb", "one\ntwo\n")] {
        repo.write(name, text);
    }
    repo.commit_all("a notebook");
    let made = repo.made("fix");
    // An index that is younger than the file does not make git read it again.
    made.sh(&repo, "echo out: result >>n.nb; touch -d '1 hour ago' n.nb; git add n.nb");
    assert_eq!(made.git(&repo, &["status", "--porcelain"]), "");
    (repo, made)
}

/// CONTRACT 9.5
#[test]
fn what_a_filter_leaves_out_is_saved_when_its_attribute_is_gone() {
    let (repo, made) = filtered();
    made.sh(&repo, &format!("git rm -q .gitattributes; {COMMIT} -m plain"));
    repo.workspace_ok(["remove", "--apply", &made.slug]);
    let rescues = repo.rescues();
    let saved = rescues.iter().flat_map(|name| {
        repo.git(["log", "-1", "--format=%H %P", name]).split(' ').map(str::to_owned).collect::<Vec<_>>()
    });
    let has_it = |commit: String| repo.git(["show", &format!("{commit}:n.nb")]).contains("out: result");
    assert!(saved.into_iter().any(has_it), "{rescues:?}");
}

/// CONTRACT 15.6
#[test]
fn what_a_filter_leaves_out_is_not_written_over_by_commits_of_others() {
    let (repo, made) = filtered();
    repo.git(["worktree", "add", "-q", "--detach", "../theirs", &made.branch]);
    let theirs = ["-C", "../theirs"];
    fs::write(repo.beside("theirs").join("n.nb"), "one\n2\n").expect("written");
    repo.git([&theirs[..], &["commit", "-q", "-a", "-m", "theirs"]].concat());
    let new = repo.git([&theirs[..], &["rev-parse", "HEAD"]].concat());
    repo.git(["update-ref", &format!("refs/heads/{}", made.branch), &new]);
    let refused = repo.workspace(["snapshot", &made.slug]);
    assert_refused(&refused, 1, &["n.nb has contents that its filter leaves out", "nothing was changed"]);
    assert_eq!(fs::read_to_string(made.path.join("n.nb")).expect("there"), "one\ntwo\nout: result\n");
    // The way out is as printed.
    let words = err(&refused);
    let command = words.split('`').find(|part| part.contains("rm -q --cached")).expect("a command");
    made.sh(&repo, command);
    repo.workspace_ok(["snapshot", &made.slug]);
    assert_eq!(fs::read_to_string(made.path.join("n.nb")).expect("there"), "one\n2\n");
}

/// CONTRACT 15.12
#[test]
fn a_filter_that_is_gone_stops_a_snapshot_before_git_stores_what_it_keeps_out() {
    let (repo, made) = filtered();
    made.sh(&repo, "echo secret >>n.nb");
    repo.git(["config", "--unset", "filter.strip.clean"]);
    let refused = repo.workspace(["snapshot", &made.slug]);
    assert_refused(&refused, 1, &["filter.strip.clean (removed)", "nothing was changed"]);
    assert_eq!(repo.git(["show", &format!("{}:n.nb", made.branch)]), "one\ntwo");
    let words = err(&refused);
    let command = words.split('`').find(|part| part.starts_with("git config --file")).expect("a command");
    made.sh(&repo, command);
    repo.workspace_ok(["snapshot", &made.slug]);
    assert_eq!(repo.git(["show", &format!("{}:n.nb", made.branch)]), "one\ntwo\nsecret");
}

/// CONTRACT 9.5
#[test]
fn names_that_differ_in_case_are_two_files() {
    let (repo, made, _) = field();
    repo.git(["config", "core.ignoreCase", "true"]);
    made.sh(&repo, "echo other >B");
    repo.workspace_ok(["snapshot", &made.slug]);
    assert_eq!(repo.git(["show", &format!("{}:B", made.branch)]), "other");
}
