//! What aynig tells people to do is right, also for what they did on their own.

use std::fs;
use std::path::Path;

use super::super::support::*;
use super::rollback::field;

/// The findings of `doctor` about lock files.
fn locks(repo: &Repo) -> Vec<String> {
    let report = json(&repo.ask(&["doctor", "--json"]));
    let findings = report["findings"].as_array().expect("a list").iter();
    let its = findings.filter(|finding| finding["check"] == "locks");
    its.map(|finding| format!("{} {}", finding["level"], finding["text"])).collect()
}

/// CONTRACT 15.13
#[test]
fn only_locks_of_git_are_to_be_removed() {
    let (repo, made, _) = field();
    let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1);
    let lock = made.record(&repo).join("workspace.lock");
    let artifact = repo.path.join(".git/aynig/pool/1/Cargo.lock");
    let of_git = repo.path.join(".git/index.lock");
    let old = |path: &Path| {
        fs::create_dir_all(path.parent().expect("above")).expect("made");
        fs::File::create(path).and_then(|file| file.set_modified(long_ago)).expect("dated");
    };
    old(&lock);
    old(&artifact);
    assert_eq!(locks(&repo), ["\"ok\" \"no lock file was left\""]);
    old(&of_git);
    let [only] = &locks(&repo)[..] else { panic!("{:?}", locks(&repo)) };
    assert!(only.contains("warning") && only.contains("index.lock is"), "{only}");
}

/// CONTRACT 15.17
#[test]
fn a_lock_that_somebody_removed_is_made_again() {
    let (repo, made, _) = field();
    let lock = made.record(&repo).join("workspace.lock");
    for arguments in [&["snapshot"][..], &["rollback"], &["rollback", "--undo"], &["remove", "--apply"]] {
        made.sh(&repo, "echo more >>b");
        fs::remove_file(&lock).expect("removed");
        let output = repo.workspace(arguments.iter().copied().chain([made.slug.as_str()]));
        assert!(output.status.success(), "{arguments:?}: {}", err(&output));
    }
    let (repo, made, _) = field();
    fs::remove_file(made.record(&repo).join("workspace.lock")).expect("removed");
    fs::remove_dir_all(&made.path).expect("removed");
    assert!(repo.findings()[0][1].contains("its worktree is gone"), "{:?}", repo.findings());
}

/// CONTRACT 15.7, 15.9
#[test]
fn what_has_almost_the_name_of_a_leftover_stays() {
    let (repo, made, _) = field();
    let beside = |name: &str| made.path.with_file_name(name);
    let others = ["fix.gone-1-notes", "fix.gone-1.bak", "fix.gone-1x"].map(beside);
    let left = ["fix.gone-1", "fix.gone-1-2"].map(beside);
    for directory in others.iter().chain(&left) {
        fs::create_dir(directory).expect("made");
        fs::write(directory.join("note"), "mine").expect("written");
    }
    let listed: Vec<String> = repo.items(&["--workspaces"]).into_iter().map(|[name, ..]| name).collect();
    assert_eq!(listed, left.each_ref().map(|path| path.display().to_string()));
    repo.workspace_ok(["snapshot", &made.slug]);
    wait_until("the leftovers to be removed", || !left.iter().any(|path| path.exists()));
    repo.workspace_ok(["remove", "--apply", &made.slug]);
    for directory in &others {
        assert_eq!(fs::read_to_string(directory.join("note")).expect("still there"), "mine");
    }
    assert_refused(&repo.workspace(["create", "fix.gone-1.gone-x"]), 2, &["legal name", "rollback"]);
}

/// CONTRACT 15.13, 15.22
#[test]
fn a_worktree_that_was_moved_is_not_forgotten() {
    for (what, script, place) in [
        ("git worktree move", "git worktree move -f -f . ../moved", "moved"),
        ("beside", "mv -T \"$PWD\" ../moved", "moved"),
        ("elsewhere", "mv -T \"$PWD\" ../../moved; git -C \"$REPO\" worktree repair ../../moved", "../moved"),
        ("a link", "mv -T \"$PWD\" ../../moved; ln -s ../moved \"$PWD\"", "../moved"),
        ("another", "mv -T \"$PWD\" ../moved; mkdir \"$PWD\"; git -C ../moved worktree repair", "moved"),
    ] {
        let (repo, made, _) = field();
        made.sh(&repo, "echo dirty >>b; echo new >untracked");
        made.sh(
            &repo,
            &format!("p=$PWD; cd -P .; {script}")
                .replace("../../moved", "\"$(dirname \"$(dirname \"$p\")\")\"/moved"),
        );
        let there = made.path.with_file_name(place);
        let there = there.canonicalize().unwrap_or_else(|error| panic!("{what}: {error}"));
        let shown = there.display().to_string();
        let refs = repo.git(["for-each-ref"]);
        for arguments in
            [&["snapshot"][..], &["rollback"], &["rollback", "--undo"], &["remove"], &["remove", "--apply"]]
        {
            let output = repo.workspace(arguments.iter().copied().chain([made.slug.as_str()]));
            assert_refused(&output, 1, &["was moved to", &shown, "nothing was changed", "then again"]);
        }
        assert_eq!(repo.git(["for-each-ref"]), refs, "{what}");
        let [[level, text, next]] = &repo.findings()[..] else { panic!("{what}: {:?}", repo.findings()) };
        assert!(level == "warning" && text.contains(&shown), "{what}: {text}");
        if ["a link", "another"].contains(&what) {
            assert!(next.contains("out of the way"), "{what}: {next}");
            fs::rename(&made.path, made.path.with_file_name("away")).expect("renamed");
        }
        let command = next.split('`').nth(1).expect("a command");
        let mut shell = std::process::Command::new("/bin/sh");
        let done = hermetic(&mut shell).current_dir(&repo.path).args(["-euc", command]).output();
        assert!(done.as_ref().is_ok_and(|done| done.status.success()), "{what}: {command}: {done:?}");
        assert_eq!(repo.findings()[0][0], "ok", "{what}: {:?}", repo.findings());
        repo.workspace_ok(["rollback", &made.slug]);
        repo.workspace_ok(["rollback", "--undo", &made.slug]);
        assert_eq!(fs::read_to_string(made.path.join("b")).expect("b"), "b\ndirty\n", "{what}");
    }
}

/// CONTRACT 15.22
#[test]
fn a_worktree_that_is_at_no_known_place_is_spoken_of() {
    let (repo, made, _) = field();
    made.sh(&repo, "mv -T \"$PWD\" \"$REPO/../moved\"");
    let [[_, text, next]] = &repo.findings()[..] else { panic!("{:?}", repo.findings()) };
    assert!(text.contains("is gone") && next.contains("`git worktree repair PLACE`"), "{text}: {next}");
    let shown = repo.workspace_ok(["remove", &made.slug]);
    assert!(
        err(&shown).contains("if it was moved") && err(&shown).contains("git worktree repair"),
        "{}",
        err(&shown)
    );
    let done = repo.workspace_ok(["rollback", &made.slug]);
    assert!(err(&done).contains("if it was moved"), "{}", err(&done));
}

/// CONTRACT 15.8
#[test]
fn what_a_rollback_could_not_save_is_where_it_says() {
    for (what, script) in [
        ("fifo", "rm dir/a; mkfifo dir/a"),
        ("encoding", "echo 'b working-tree-encoding=UTF-16' >.gitattributes; printf x >b"),
    ] {
        let (repo, made, base) = field();
        // What an earlier one saved is not brought back instead.
        made.sh(&repo, "echo earlier >>b");
        repo.workspace_ok(["rollback", &made.slug]);
        made.sh(&repo, "echo own >own; git add own; git -c user.name=A -c user.email=a@b commit -qm own");
        let own = repo.head(&made.branch);
        made.sh(&repo, &format!("echo x >>.gitignore; echo staged >s; git add s; {script}"));
        let kept = made.path.with_file_name("fix.kept-2").display().to_string();
        let words = err(&repo.workspace_ok(["rollback", &made.slug]));
        assert!(words.contains(&format!("only in {kept}")), "{what}: {words}");
        assert!(!words.contains("takes it back"), "{what}: {words}");
        assert_eq!(repo.head(&made.branch), base, "{what}");
        let words = err(&repo.workspace_ok(["rollback", "--undo", &made.slug]));
        assert!(words.contains("not brought back") && words.contains(&kept), "{what}: {words}");
        assert_eq!(repo.head(&made.branch), own, "{what}");
        assert_eq!(fs::read_to_string(Path::new(&kept).join("s")).expect("kept"), "staged\n", "{what}");
        assert_eq!(fs::read_to_string(made.path.join("b")).expect("b"), "b\n", "{what}");
    }
}
