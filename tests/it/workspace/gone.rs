//! What is gone, broken or left out comes back by what aynig says, and is shown as it is.

use std::fs;
use std::process::Stdio;

use super::super::support::*;
use super::Made;
use super::rollback::field;

/// The commands of ours in a text, without the program's name.
fn commands(text: &str) -> Vec<Vec<&str>> {
    let all = text.split('`').skip(1).step_by(2).filter_map(|command| command.strip_prefix("aynig "));
    all.map(|command| command.split(' ').collect()).collect()
}

/// Takes a worktree off git's list, and removes the branch.
fn remove_both(repo: &Repo, made: &Made) {
    repo.git(["worktree", "remove", "--force", "--force", made.path.to_str().expect("UTF-8")]);
    repo.git(["branch", "-qD", &made.branch]);
}

/// A workspace with a snapshot, and the commit of that.
fn with_snapshot() -> (Repo, Made, String) {
    let (repo, made, _) = field();
    made.sh(&repo, "echo own >own");
    repo.workspace_ok(["snapshot", &made.slug]);
    let tip = repo.head(&made.branch);
    (repo, made, tip)
}

/// CONTRACT 15.8, 15.13
#[test]
fn what_doctor_says_brings_back_a_branch_that_is_gone_with_its_worktree() {
    let (repo, made, tip) = with_snapshot();
    remove_both(&repo, &made);
    let [[_, text, next]] = &repo.findings()[..] else { panic!("{:?}", repo.findings()) };
    assert!(text.contains("its worktree and its branch are gone"), "{text}");
    assert!(next.contains(&tip[..10]), "{next}");
    let commands = commands(next);
    assert_eq!(commands.len(), 1, "{next}");
    let done = repo.ask(&commands[0]);
    assert!(done.status.success(), "{}", err(&done));
    assert!(
        err(&done).contains("its worktree was gone") && err(&done).contains(&tip[..10]),
        "{}",
        err(&done)
    );
    assert_eq!(repo.head(&made.branch), tip);
    assert_eq!(fs::read_to_string(made.path.join("own")).expect("it is back"), "own\n");
    assert_eq!(repo.findings()[0][0], "ok", "{:?}", repo.findings());
}

/// CONTRACT 15.13
#[test]
fn a_commit_that_git_has_pruned_is_not_promised() {
    let (repo, made, tip) = with_snapshot();
    remove_both(&repo, &made);
    repo.git(["reflog", "expire", "--expire=now", "--all"]);
    repo.git(["gc", "-q", "--prune=now"]);
    let [[_, text, next]] = &repo.findings()[..] else { panic!("{:?}", repo.findings()) };
    assert!(text.contains("its worktree and its branch are gone"), "{text}");
    assert!(next.contains(&tip[..10]) && next.contains("not in this repository"), "{next}");
    assert!(!next.contains("--undo"), "{next}");
    repo.workspace_ok(["rollback", &made.slug]);
    assert_eq!(repo.findings()[0][0], "ok", "{:?}", repo.findings());
}

/// Leaves a merge in conflict.
const MERGING: &str = "git config user.name A; git config user.email a@b; git switch -qc side; echo s >b; git commit -qam s; \
     git switch -q -; echo m >b; git commit -qam m; ! git merge -q side";

/// CONTRACT 15.6, 15.16
#[test]
fn keys_come_along_where_the_worktree_is_made_anew() {
    for (what, script) in [
        ("mid-merge", MERGING.to_owned()),
        (
            "detached",
            "git -c user.name=A -c user.email=a@b commit -q --allow-empty -m own; git checkout -q --detach HEAD^; echo z >z".to_owned(),
        ),
        ("with ignored files", format!("echo i >i.tmp; {MERGING}")),
    ] {
        let (repo, made, _) = field();
        made.sh(&repo, &format!("mkdir deep; echo SECRET=1 >deep/.env; {script}"));
        let words = err(&repo.workspace_ok(["snapshot", &made.slug]));
        assert!(words.contains("`git show --first-parent refs/aynig/rescue/"), "{what}: {words}");
        let key = fs::read_to_string(made.path.join("deep/.env"));
        assert_eq!(key.ok().as_deref(), Some("SECRET=1\n"), "{what}: {words}");
        assert!(repo.git(["ls-tree", "-r", "--name-only", &made.branch]).lines().all(|path| path != "deep/.env"));
        let rescue = repo.rescues().into_iter().next().expect("saved");
        let message = repo.message(&rescue);
        assert!(!message.contains("attempt"), "{what}: {message}");
        let after = err(&repo.workspace_ok(["snapshot", &made.slug]));
        assert!(after.contains("deep/.env looks like a key"), "{what}: {after}");
        assert_eq!(repo.worktrees(), [made.path.to_str().expect("UTF-8")], "{what}");
    }
}

/// CONTRACT 15.13
#[test]
fn a_worktree_that_is_not_in_order_is_not_shown_as_ready() {
    for (what, script, words) in [
        ("gone", "rm -rf \"$PWD\"", "its worktree is gone"),
        ("no .git", "rm .git", ".git file"),
        ("detached", "git checkout -q --detach", "its HEAD is detached"),
        ("another branch", "git switch -qc other", "it is on other"),
        ("mid-merge", MERGING, "a merge"),
        ("bisect", "git bisect start", "bisect"),
        ("twice", "git -C \"$REPO\" worktree add -qf ../second \"$BRANCH\"", "as well"),
    ] {
        let (repo, made, _) = field();
        let list = || out(&repo.workspace_ok(["list"]));
        let show = || out(&repo.workspace_ok(["show", &made.slug]));
        assert!(list().contains("  ready  ") && show().contains("ready"), "{what}");
        made.sh(&repo, script);
        assert!(list().contains("  broken  ") && list().contains(words), "{what}: {}", list());
        assert!(show().contains("broken: ") && show().contains(words), "{what}: {}", show());
        assert_eq!(repo.workspaces()[0]["state"], "ready", "{what}");
        let fault = repo.workspaces()[0]["fault"].as_str().map(str::to_owned);
        assert!(fault.as_ref().is_some_and(|fault| fault.contains(words)), "{what}: {fault:?}");
        let [[level, text, next]] = &repo.findings()[..] else { panic!("{what}: {:?}", repo.findings()) };
        assert!(level == "warning" && text.contains(words), "{what}: {text}");
        assert!(!next.is_empty(), "{what}");
        let all = commands(next).into_iter().filter(|_| what != "twice");
        let (removing, mending): (Vec<_>, Vec<_>) = all.partition(|command| command.contains(&"remove"));
        for command in mending {
            assert!(repo.ask(&command).status.success(), "{what}: {command:?}");
        }
        assert!(what == "twice" || list().contains("  ready  "), "{what}: {}", list());
        // One that is gone may go for good.
        assert_eq!(removing.len(), usize::from(what == "gone"), "{next}");
        for command in removing {
            made.sh(&repo, script);
            assert!(repo.ask(&command).status.success(), "{what}: {command:?}");
            assert!(list().is_empty() && repo.rescues().is_empty(), "{what}: {}", list());
        }
    }
}

/// CONTRACT 15.6
#[cfg(debug_assertions)]
#[test]
fn what_is_staged_while_a_snapshot_is_taken_is_not_lost() {
    let (repo, made, _) = field();
    made.sh(&repo, "echo new >new");
    let mut command = repo.workspace_command();
    command.args(["snapshot", &made.slug]).env("AYNIG_CRASH_AT", "snapshot-moved:stop");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let running = Running::start(&mut command);
    wait_until("it to stop", || is_stopped(running.pid()));
    made.sh(&repo, "echo only >only; git add only; rm only; echo other >new; git add new; echo last >new");
    running.signal(nix::sys::signal::Signal::SIGCONT);
    let output = running.finish();
    assert!(output.status.success(), "{}", err(&output));
    for (path, text) in [("only", "only"), ("new", "other")] {
        let has = |name: &str| {
            let shown =
                repo.git_command().args(["show", &format!("{name}:{path}")]).output().expect("git runs");
            out(&shown).trim_end() == text
        };
        let staged = made
            .git(&repo, &["ls-files", "-s", path])
            .contains(&repo.git_with_input(&["hash-object", "--stdin"], format!("{text}\n").as_bytes()));
        assert!(staged || repo.rescues().iter().any(|name| has(name)), "{path}");
    }
}

/// CONTRACT 15.5
#[test]
fn a_workspace_by_itself_names_no_run_that_others_do_not_know() {
    let (repo, made, _) = field();
    let shown = out(&repo.workspace_ok(["show", &made.slug]));
    assert!(shown.contains("none (a workspace by itself") && shown.contains(&made.run), "{shown}");
    for run in [made.slug.as_str(), &made.run, &made.handle] {
        let output = repo.workspace(["create", "second", "--run", run]);
        assert_refused(&output, 1, &[&made.handle, "belongs to no run", "leave out --run"]);
    }
}

#[test]
fn a_repository_without_a_commit_says_what_to_do() {
    let repo = Repo::unborn();
    let output = repo.workspace(["create", "fix"]);
    assert_refused(&output, 2, &["no branch has a commit yet", "git commit"]);
    assert!(!err(&output).contains("--base"), "{}", err(&output));
}

/// CONTRACT 15.7
#[test]
fn a_shell_in_the_old_worktree_is_told_how_to_leave_it() {
    let (repo, made, _) = field();
    let script = format!("\"$AYNIG\" workspace rollback {}; true", made.slug);
    let mut shell = std::process::Command::new("/bin/sh");
    hermetic(&mut shell).current_dir(&made.path).args(["-euc", &script]);
    shell.env("AYNIG", binary()).env("XDG_STATE_HOME", repo.beside("state"));
    made.sh(&repo, "echo x >>b");
    let output = shell.output().expect("a shell");
    let words = err(&output);
    assert!(words.contains("(sh) worked in it"), "{words}");
    assert!(words.contains(&format!("`cd \"$(aynig workspace path {})\"`", made.handle)), "{words}");
    // While somebody works in the old one, that is what keeps it.
    let kept = made.path.with_file_name("fix.kept-1");
    let mut sleep = std::process::Command::new("sleep");
    let mut inside = sleep.arg("600").current_dir(&kept).spawn().expect("sleep");
    let report = json(&repo.ask(&["clean", "--json", "--workspaces", "--apply"]));
    inside.kill().expect("it runs");
    inside.wait().expect("it ends");
    let item = &report["items"][0];
    assert!(
        item["fate"] == "stays"
            && item["reason"].as_str().is_some_and(|why| why.ends_with("(sleep) works in it")),
        "{item}"
    );
    assert!(
        item["next"].as_str().is_some_and(|next| next.starts_with("leave it or end that process")),
        "{item}"
    );
    repo.ask(&["clean", "--workspaces", "--apply"]);
    assert!(!kept.exists());
}

/// CONTRACT 15.12, 15.15
#[test]
fn what_is_accepted_is_named() {
    let (repo, made, _) = field();
    repo.git(["config", "filter.x.clean", "cat"]);
    fs::write(repo.path.join(".git/hooks/post-merge"), "evil").expect("a file");
    assert!(!repo.workspace(["snapshot", &made.slug]).status.success());
    let words = err(&repo.workspace_ok(["snapshot", "--accept", &made.slug]));
    for thing in ["/hooks/post-merge was added", "accepted: the setting filter.x.clean was added"] {
        assert!(words.contains(thing), "{thing}: {words}");
    }
    assert_eq!(err(&repo.workspace_ok(["snapshot", "--accept", &made.slug])), "");
}

/// CONTRACT 15.6, 15.9
#[test]
fn an_empty_repository_inside_is_named_once_with_what_to_do() {
    let (repo, made, _) = field();
    made.sh(&repo, "git init -q inner");
    let output = repo.workspace(["snapshot", &made.slug]);
    assert_refused(&output, 1, &["inner", "take that repository out"]);
    assert_eq!(err(&output).matches("take a snapshot of").count(), 1, "{}", err(&output));
    let shown = repo.workspace_ok(["remove", &made.slug]);
    assert_eq!(out(&shown).lines().count(), 1, "{}", out(&shown));
    assert!(err(&shown).contains("inner"), "{}", err(&shown));
}

/// CONTRACT 15.6
#[test]
fn a_branch_is_mended_only_if_its_own_file_is_damaged() {
    let (repo, made, _) = with_snapshot();
    repo.git(["config", "core.logAllRefUpdates", "true"]);
    let name = format!("refs/heads/{}", made.branch);
    let tree = format!("{}^{{tree}}", made.branch);
    let newer = repo.git(["commit-tree", "-p", &made.branch, "-m", "newer", &tree]);
    repo.git(["update-ref", "-m", "newer", &name, &newer]);
    repo.git(["pack-refs", "--all"]);
    let (packed, file) = (repo.path.join(".git/packed-refs"), repo.path.join(".git").join(&name));
    let sound = fs::read(&packed).expect("a file");
    fs::write(&packed, &sound[..sound.len() - 1]).expect("a file");
    for arguments in
        [["snapshot", &made.slug].as_slice(), &["rollback", &made.slug], &["remove", "--apply", &made.slug]]
    {
        let refused = repo.ask(&[&["workspace"], arguments].concat());
        assert!(!refused.status.success(), "{arguments:?}: {}", err(&refused));
        assert!(!file.exists(), "{arguments:?}: nothing was written");
    }
    fs::write(&packed, &sound).expect("a file");
    assert_eq!(repo.head(&made.branch), newer);
    // Of a damaged one the reflog knows the newest commit.
    fs::create_dir_all(file.parent().expect("above")).expect("a directory");
    fs::write(&file, "").expect("a file");
    let mended = repo.workspace_ok(["snapshot", &made.slug]);
    assert!(err(&mended).contains(&format!("it is at {} again", &newer[..10])), "{}", err(&mended));
    let on_branch = repo.git(["merge-base", "--is-ancestor", &newer, &made.branch]);
    assert_eq!(on_branch, "", "it is below the snapshot");
}

/// CONTRACT 15.6
#[test]
fn what_cannot_be_read_is_not_lost() {
    let (repo, made, tip) = with_snapshot();
    let name = format!("refs/heads/{}", made.branch);
    let tree = format!("{}^{{tree}}", made.branch);
    let newer = repo.git(["commit-tree", "-p", &made.branch, "-m", "newer", &tree]);
    // The newest commit alone is in a pack, which cannot be read then.
    let packs = repo.path.join(".git/objects/pack");
    let line = format!("echo {newer} | git pack-objects -q {}/pack", packs.display());
    let mut shell = std::process::Command::new("sh");
    let packed = hermetic(&mut shell).args(["-ec", &line]).current_dir(&repo.path).output().expect("a shell");
    assert!(packed.status.success(), "{}", err(&packed));
    repo.git(["prune-packed", "-q"]);
    repo.git(["update-ref", &name, &newer]);
    let pack = packs.join(format!("pack-{}.pack", out(&packed).trim()));
    let away = repo.path.join(".git/away");
    fs::rename(&pack, &away).expect("moved");
    fs::create_dir(&pack).expect("made");
    let branch = || fs::read_to_string(repo.path.join(".git").join(&name)).expect("a ref");
    let words = format!("{} cannot be read (Is a directory", pack.display());
    for arguments in
        [["snapshot", &made.slug].as_slice(), &["rollback", &made.slug], &["remove", "--apply", &made.slug]]
    {
        let refused = repo.ask(&[&["workspace"], arguments].concat());
        assert_refused(&refused, 3, &[&words, "nothing was changed", "make it readable"]);
        assert_eq!(branch().trim(), newer, "{arguments:?}");
    }
    assert_eq!(repo.worktrees(), [made.path.to_str().expect("UTF-8")]);
    let listed = out(&repo.workspace_ok(["list"]));
    assert!(listed.contains("  broken  ") && listed.contains(&words), "{listed}");
    let report = out(&repo.ask(&["doctor"]));
    assert!(report.contains(&words) && !report.contains("update-ref"), "{report}");
    fs::remove_dir(&pack).expect("removed");
    fs::rename(&away, &pack).expect("moved");
    repo.workspace_ok(["snapshot", &made.slug]);
    assert_eq!(branch().trim(), newer);
    fs::remove_file(pack.with_extension("idx")).expect("removed");
    let no_index = format!("{} cannot be read (its index is missing)", pack.display());
    assert_refused(&repo.workspace(["snapshot", &made.slug]), 3, &[&no_index]);
    // One that is in no place is lost.
    fs::remove_file(&pack).expect("removed");
    let mended = repo.workspace_ok(["snapshot", &made.slug]);
    assert!(err(&mended).contains(&format!("it is at {} again", &tip[..10])), "{}", err(&mended));
}

/// CONTRACT 15.6
#[test]
fn a_commit_that_is_damaged_is_not_lost_unless_its_file_is_empty() {
    let (repo, made, tip) = with_snapshot();
    let name = format!("refs/heads/{}", made.branch);
    let tree = format!("{}^{{tree}}", made.branch);
    let newer = repo.git(["commit-tree", "-p", &made.branch, "-m", "newer", &tree]);
    repo.git(["update-ref", &name, &newer]);
    let object = repo.path.join(".git/objects").join(&newer[..2]).join(&newer[2..]);
    let sound = fs::read(&object).expect("a file");
    fs::remove_file(&object).expect("removed");
    fs::create_dir(&object).expect("made");
    for content in [None, Some("garbage")] {
        if let Some(content) = content {
            fs::remove_dir(&object).expect("removed");
            fs::write(&object, content).expect("written");
        }
        for arguments in [
            ["snapshot", &made.slug].as_slice(),
            &["rollback", &made.slug],
            &["remove", "--apply", &made.slug],
        ] {
            let refused = repo.ask(&[&["workspace"], arguments].concat());
            let next = format!("if it is lost: `git update-ref {name} {tip}`");
            assert_refused(
                &refused,
                3,
                &["could not read the newest commit", &newer, &format!("git fetch REMOTE {newer}"), &next],
            );
            let at = fs::read_to_string(repo.path.join(".git").join(&name)).expect("a ref");
            assert_eq!(at.trim(), newer, "{arguments:?}");
        }
    }
    fs::write(&object, &sound).expect("written");
    repo.workspace_ok(["snapshot", &made.slug]);
    // As a loss of power leaves it.
    fs::write(&object, "").expect("written");
    let mended = repo.workspace_ok(["snapshot", &made.slug]);
    assert!(err(&mended).contains(&format!("it is at {} again", &tip[..10])), "{}", err(&mended));
}

/// CONTRACT 15.9
#[test]
fn a_branch_goes_only_with_a_log_that_can_be_read() {
    let (repo, made, _) = field();
    repo.git(["config", "core.logAllRefUpdates", "true"]);
    made.sh(
        &repo,
        "git config user.name A; git config user.email a@b; echo a >own; git add own; git commit -qm first",
    );
    let first = repo.head(&made.branch);
    made.sh(&repo, "echo b >own; git commit -qam other --amend");
    let log = repo.path.join(".git/logs/refs/heads").join(&made.branch);
    let remove = ["remove", "--apply", &made.slug];
    let text = fs::read(&log).expect("a log");
    fs::remove_file(&log).expect("removed");
    std::os::unix::fs::symlink(&log, &log).expect("a link");
    assert_refused(
        &repo.workspace(remove),
        1,
        &[&format!("{} cannot be read", log.display()), "nothing was removed"],
    );
    fs::remove_file(&log).expect("removed");
    fs::write(&log, text).expect("written");
    // Neither does it go with a commit that cannot be read now.
    let object = repo.path.join(".git/objects").join(&first[..2]).join(&first[2..]);
    let away = repo.path.join(".git/away");
    fs::rename(&object, &away).expect("moved");
    fs::create_dir(&object).expect("made");
    assert_refused(
        &repo.workspace(remove),
        1,
        &[&first, "git reflog delete --rewrite refs/heads/work/", "nothing was removed"],
    );
    fs::remove_dir(&object).expect("removed");
    fs::rename(&away, &object).expect("moved");
    repo.workspace_ok(remove);
    assert_ne!(repo.git(["for-each-ref", "--contains", &first]), "");
}

/// CONTRACT 15.6
#[test]
fn a_branch_whose_log_is_there_was_not_deleted() {
    let (repo, made, _) = field();
    repo.git(["config", "core.logAllRefUpdates", "true"]);
    let tree = format!("{}^{{tree}}", made.branch);
    let newer = repo.git(["commit-tree", "-p", &made.branch, "-m", "newer", &tree]);
    repo.git(["update-ref", "-m", "newer", &format!("refs/heads/{}", made.branch), &newer]);
    repo.git(["pack-refs", "--all"]);
    let packed = repo.path.join(".git/packed-refs");
    let text = fs::read_to_string(&packed).expect("a file");
    let without: String =
        text.lines().filter(|line| !line.ends_with(&made.branch)).map(|line| format!("{line}\n")).collect();
    fs::write(&packed, without).expect("written");
    let mended = err(&repo.workspace_ok(["snapshot", &made.slug]));
    assert!(mended.contains(&format!("its log was not; it is at {} again", &newer[..10])), "{mended}");
    assert_eq!(repo.git(["merge-base", "--is-ancestor", &newer, &made.branch]), "");
}

/// CONTRACT 15.6
#[test]
fn a_lost_branch_is_put_where_its_log_says() {
    for (script, file) in [
        ("git commit -q --amend -m amended; echo y >y; git add y; git commit -qm more", Some("y")),
        ("echo y >y; git add y; git commit -qm more; git reset -q --hard HEAD~1", None),
    ] {
        let (repo, made, _) = with_snapshot();
        repo.git(["config", "core.logAllRefUpdates", "true"]);
        made.sh(&repo, &format!("git config user.name A; git config user.email a@b; {script}"));
        let (tip, name) = (repo.head(&made.branch), repo.path.join(".git/refs/heads").join(&made.branch));
        for is_gone in [false, true] {
            if is_gone {
                fs::remove_file(&name).expect("removed")
            } else {
                fs::write(&name, "").expect("written")
            }
            let mended = err(&repo.workspace_ok(["snapshot", &made.slug]));
            assert!(mended.contains(&format!("it is at {} again", &tip[..10])), "{script}: {mended}");
            assert_eq!(
                (repo.head(&made.branch), made.path.join("y").exists()),
                (tip.clone(), file.is_some())
            );
        }
    }
}

/// CONTRACT 9.5, 15.9
#[test]
fn a_worktree_stays_while_a_commit_that_it_alone_names_cannot_be_read() {
    for name in ["MERGE_HEAD", "refs/worktree/keep"] {
        let (repo, made, _) = with_snapshot();
        let commit = repo.git([
            "commit-tree",
            "-p",
            &made.branch,
            "-m",
            "alone",
            &format!("{}^{{tree}}", made.branch),
        ]);
        made.sh(
            &repo,
            &format!(
                "f=$(git rev-parse --git-path {name}); mkdir -p \"$(dirname \"$f\")\"; echo {commit} >\"$f\""
            ),
        );
        let object = repo.path.join(".git/objects").join(&commit[..2]).join(&commit[2..]);
        let away = repo.path.join(".git/away");
        fs::rename(&object, &away).expect("moved");
        fs::create_dir(&object).expect("made");
        let remove = ["remove", "--apply", &made.slug];
        let refused = repo.workspace(remove);
        assert!(!refused.status.success() && err(&refused).contains(&commit), "{name}: {}", err(&refused));
        assert!(made.path.exists(), "{name}: {}", err(&refused));
        fs::remove_dir(&object).expect("removed");
        fs::rename(&away, &object).expect("moved");
        repo.workspace_ok(remove);
        assert_ne!(repo.git(["for-each-ref", "--contains", &commit]), "", "{name}");
    }
}
