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
            "another worktree of a pruned submodule",
            "git -C m worktree add -q --detach ../../beside; git submodule --quiet deinit -f m",
            true,
        ),
        (
            "what a rebase has put aside",
            "cd m; echo own >>s; export GIT_SEQUENCE_EDITOR='sed -i 1ibreak'; git rebase -q -i --autostash HEAD",
            true,
        ),
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
            err(&removed).contains("holds other repositories (m: "),
            is_lost,
            "{what}: {}",
            err(&removed)
        );
    }
}

/// CONTRACT 9.7, 15.9
#[test]
fn what_only_a_submodule_of_a_submodule_has_stays() {
    for (is_own, is_pushed) in [(false, false), (true, false), (true, true)] {
        let (repo, made, _) = field();
        // The outer one has its repository in the worktree itself.
        made.sh(
            &repo,
            &format!(
                "alias g='git -c protocol.file.allow=always -c user.name=A -c user.email=a@b'
                git init -q ../inner; g -C ../inner commit -q --allow-empty -m inner; git init -q ../outer
                g -C ../outer submodule --quiet add ../inner n; g -C ../outer commit -q -m outer
                git clone -q ../outer m; g -C m submodule --quiet update --init; git add m 2>../hints; {COMMIT} -m m"
            ),
        );
        if is_own {
            made.sh(&repo, &format!("cd m/n; {COMMIT} --allow-empty -m own; git branch own"));
        }
        if is_pushed {
            // Git does not push the nested one.
            made.sh(
                &repo,
                &format!("cd m; {COMMIT} -am own; git push -q origin HEAD:own; cd ..; {COMMIT} -am own"),
            );
        } else {
            made.sh(&repo, "git -C m submodule --quiet deinit -f n");
        }
        let removed = repo.workspace(["remove", "--apply", &made.slug]);
        assert_eq!(removed.status.success(), !is_own, "{}", err(&removed));
        assert_eq!(err(&removed).contains("holds other repositories (m: "), is_own, "{}", err(&removed));
    }
}

/// A workspace on which a populated submodule `m` ignores `*.o` by its own commit.
fn with_ignoring_submodule() -> (Repo, Made) {
    let (repo, made, _) = field();
    repo.workspace_ok(["remove", "--apply", &made.slug]);
    let source = repo.beside("source").display().to_string();
    repo.git(["init", "-q", &source]);
    fs::write(repo.beside("source").join(".gitignore"), "*.o\n").expect("written");
    for arguments in [&["add", "."][..], &["-c", "user.name=A", "-c", "user.email=a@b", "commit", "-qm", "s"]]
    {
        repo.git([&["-C", source.as_str()], arguments].concat());
    }
    repo.git(["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &source, "m"]);
    repo.commit_all("a submodule");
    let made = repo.made("fix");
    made.sh(&repo, "git -c protocol.file.allow=always submodule --quiet update --init");
    (repo, made)
}

/// CONTRACT 9.7, 15.6, 15.8
#[test]
fn a_submodule_at_another_commit_is_part_of_a_snapshot_once_it_is_pushed() {
    let (repo, made) = with_ignoring_submodule();
    let git = "git -c user.name=A -c user.email=a@b -c protocol.file.allow=always";
    made.sh(
        &repo,
        &format!("cd m; git checkout -q -b own; echo s >s; git add s; {git} commit -q -m own; echo x >>../b"),
    );
    let refused = repo.workspace(["snapshot", &made.slug]);
    assert_refused(&refused, 1, &["(m: commits that no branch of a remote has)", "commit and push"]);
    made.sh(&repo, &format!("cd m; {git} push -q origin own"));
    repo.workspace_ok(["snapshot", &made.slug]);
    let recorded = repo.git(["rev-parse", &format!("{}:m", made.branch)]);
    assert_eq!(recorded, made.git(&repo, &["-C", "m", "rev-parse", "own"]));
    // A new one that .gitmodules lists is no stranger, another repository is.
    let source = repo.beside("source").display().to_string();
    made.sh(&repo, &format!("{git} submodule --quiet add {source} new"));
    repo.workspace_ok(["snapshot", &made.slug]);
    assert!(repo.git(["ls-tree", &made.branch, "new"]).starts_with("160000"));
    made.sh(&repo, &format!("git clone -q {source} other; git add other 2>../hints"));
    assert_refused(&repo.workspace(["snapshot", &made.slug]), 1, &["other repositories (other)"]);
}

/// CONTRACT 15.8
#[test]
fn what_a_commit_can_hold_comes_back_though_a_submodule_stays_in_the_old_worktree() {
    let (repo, made) = with_ignoring_submodule();
    made.sh(&repo, "echo own >m/own; echo x >>b; echo new >new; git add new; echo more >>new");
    let rolled = err(&repo.workspace_ok(["rollback", &made.slug]));
    assert!(rolled.contains("(m: changes that are not committed)"), "{rolled}");
    assert!(made.path.with_file_name("fix.kept-1/m/own").is_file());
    repo.workspace_ok(["rollback", "--undo", &made.slug]);
    assert_eq!(fs::read_to_string(made.path.join("b")).expect("there"), "b\nx\n");
    assert_eq!(made.git(&repo, &["diff", "--cached", "--name-only"]), "new");
    assert_eq!(made.git(&repo, &["diff", "--name-only"]), "b\nnew");
}

/// CONTRACT 15.6, 15.7, 15.9
#[test]
fn what_a_submodule_ignores_is_like_other_ignored_files() {
    let list = "list=$(git -C m rev-parse --absolute-git-dir)/info; mkdir -p $list; echo own >$list/exclude; echo own >m/own";
    for (what, script, beyond) in [
        ("by its commit", "echo o >m/a.o", false),
        ("by its own list", list, true),
        (
            "by its settings",
            "echo own >m/own; echo own >../list; git -C m config core.excludesFile ../../list",
            true,
        ),
        ("by a file that no commit has", "mkdir m/d; echo '*' >m/d/.gitignore; echo own >m/d/own", true),
    ] {
        let (repo, made) = with_ignoring_submodule();
        made.sh(&repo, &format!("{script}; git bisect start >../out"));
        let mended = err(&repo.workspace_ok(["snapshot", &made.slug]));
        assert!(
            mended.contains("the old worktree stays at") && mended.contains("ignored file"),
            "{what}: {mended}"
        );
        let (repo, made) = with_ignoring_submodule();
        made.sh(&repo, &format!("{script}; echo x >>b"));
        repo.git(["config", "aynig.rollbackKeepIgnored", "true"]);
        assert!(err(&repo.workspace_ok(["rollback", &made.slug])).contains("stays at"), "{what}");
        let (repo, made) = with_ignoring_submodule();
        made.sh(&repo, &format!("{script}; echo x >>b"));
        let rolled = err(&repo.workspace_ok(["rollback", &made.slug]));
        assert_eq!(rolled.contains("stays at"), beyond, "{what}: {rolled}");
        let (repo, made) = with_ignoring_submodule();
        made.sh(&repo, script);
        let preview = out(&repo.workspace_ok(["remove", &made.slug]));
        assert!(preview.contains("ignored file"), "{what}: {preview}");
        let removed = err(&repo.workspace_ok(["remove", "--apply", &made.slug]));
        assert_eq!(removed.contains("stays at"), beyond, "{what}: {removed}");
    }
}

/// CONTRACT 15.9
#[test]
fn ignored_files_where_a_submodule_belongs_are_counted() {
    let (repo, made) = with_submodule();
    let list = "mkdir -p $REPO/.git/info; echo '*.log' >>$REPO/.git/info/exclude";
    made.sh(&repo, &format!("{list}; echo mine >m/x.log"));
    let preview = out(&repo.workspace_ok(["remove", &made.slug]));
    assert!(preview.contains("1 ignored file"), "{preview}");
    let removed = err(&repo.workspace_ok(["remove", "--apply", &made.slug]));
    assert!(removed.contains("stays at"), "{removed}");
}

/// CONTRACT 15.6, 15.7, 15.9
#[test]
fn an_ignored_repository_is_like_an_ignored_file() {
    let script = format!("mkdir x.tmp; git init -q x.tmp/n; cd x.tmp/n; {COMMIT} --allow-empty -m own");
    let is_whole = |place: &std::path::Path| place.join("x.tmp/n/.git/objects").is_dir();
    let (repo, made, _) = field();
    made.sh(&repo, &format!("{script}; cd ../..; git bisect start >../out"));
    repo.workspace_ok(["snapshot", &made.slug]);
    assert!(is_whole(&made.path), "it moves");
    made.sh(&repo, "echo x >>b");
    repo.git(["config", "aynig.rollbackKeepIgnored", "true"]);
    repo.workspace_ok(["rollback", &made.slug]);
    assert!(is_whole(&made.path.with_file_name("fix.kept-2")));
    // One that git takes for files, and a bare one, which needs its empty directories.
    let (repo, made, _) = field();
    let bare = "git init -q --bare x.tmp/bare; git --git-dir=x.tmp/bare fetch -q . HEAD:refs/heads/own; git --git-dir=x.tmp/bare pack-refs --all; find x.tmp/bare -type d -empty";
    made.sh(&repo, &format!("{script}; echo x >x; : >.git/HEAD; cd ../..; {bare}; git bisect start >../out"));
    repo.workspace_ok(["snapshot", &made.slug]);
    assert!(is_whole(&made.path));
    assert_eq!(made.git(&repo, &["--git-dir=x.tmp/bare", "rev-parse", "own"]), repo.head("main"));
    // One that git does not list, since its directory has a tracked file, and that no commit ignores.
    let (repo, made, _) = field();
    let own = format!(
        "mkdir -p $REPO/.git/info; echo dir/ >>$REPO/.git/info/exclude; cd dir; git init -q; {COMMIT} --allow-empty -m own"
    );
    made.sh(&repo, &format!("{own}; cd ..; echo x >>b"));
    repo.workspace_ok(["rollback", &made.slug]);
    assert!(made.path.with_file_name("fix.kept-1/dir/.git").is_dir());
    let (repo, made, _) = field();
    made.sh(&repo, &script);
    let preview = out(&repo.workspace_ok(["remove", &made.slug]));
    assert!(preview.contains("1 ignored repository"), "{preview}");
    repo.workspace_ok(["remove", "--apply", &made.slug]);
    assert_removed(&repo, &made, "ignored");
}

/// CONTRACT 9.7, 15.9
#[test]
fn patches_that_git_am_has_not_applied_stay() {
    let (repo, made, base) = field();
    let script = format!(
        "echo 1 >>b; {COMMIT} -am one; echo 2 >>b; {COMMIT} -am two; git format-patch -q -2 -o ../patches
        git reset -q --hard {base}; echo other >b; {COMMIT} -am other
        git -c user.name=A -c user.email=a@b am -q ../patches/*.patch >../out 2>&1 && exit 1; rm -r ../patches; git reset -q --hard"
    );
    made.sh(&repo, &script);
    let words = "patches of `git am` that are not applied";
    assert_refused(&repo.workspace(["remove", "--apply", &made.slug]), 1, &[words, "nothing was removed"]);
    repo.workspace_ok(["snapshot", &made.slug]);
    let kept = made.path.with_file_name("fix.kept-1");
    assert!(kept.is_dir());
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
