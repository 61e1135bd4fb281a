//! What is written in a workspace while its worktree is made anew, and what no commit holds, is not lost.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use super::super::support::*;
use super::rollback::field;

fn done(output: &std::process::Output) -> Value {
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    value["done"].clone()
}

/// Whether a file is in the worktree, in an old one beside it, or in a commit of a rescue ref.
fn is_somewhere(repo: &Repo, worktree: &Path, file: &str) -> bool {
    let beside = fs::read_dir(worktree.parent().expect("above"));
    let is_there = beside.into_iter().flatten().flatten().any(|entry| {
        !entry.file_name().to_string_lossy().contains(".gone-") && entry.path().join(file).is_file()
    });
    let names = |rescue: &String| repo.git(["ls-tree", "--name-only", rescue]);
    is_there || repo.rescues().iter().any(|rescue| names(rescue).lines().any(|name| name == file))
}

/// CONTRACT 15.7
#[test]
fn what_is_written_after_a_rollback_was_killed_is_not_lost() {
    for point in ["rollback-noted", "rollback-added"] {
        let (repo, made, _) = field();
        made.sh(&repo, "echo x >>b");
        let mut command = repo.workspace_command();
        let killed = command.args(["rollback", &made.slug]).env("AYNIG_CRASH_AT", point).output();
        assert_eq!(killed.expect("aynig runs").status.code(), None, "{point}");
        made.sh(&repo, "echo more >more");
        let refs = repo.git(["for-each-ref"]);
        for verb in [vec!["list"], vec!["show", &made.slug], vec!["path", &made.slug]] {
            let look = repo.workspace_ok(verb);
            assert!(err(&look).contains("was interrupted"), "{point}: {}", err(&look));
        }
        assert_eq!(repo.git(["for-each-ref"]), refs, "{point}");
        assert!(made.path.join("more").is_file(), "{point}");
        let next = repo.workspace_ok(["snapshot", &made.slug]);
        assert!(is_somewhere(&repo, &made.path, "more"), "{point}: {}", err(&next));
        assert!(err(&next).contains("refs/aynig/rescue/"), "{point}: {}", err(&next));
        if point == "rollback-noted" {
            repo.workspace_ok(["rollback", "--undo", &made.slug]);
            assert!(made.path.join("more").is_file());
        }
    }
}

/// CONTRACT 15.7, 15.8
#[test]
fn what_is_written_during_a_rollback_is_brought_back_by_undoing_it() {
    let (repo, made, base) = field();
    made.sh(&repo, "echo x >>b");
    let mut command = repo.workspace_command();
    command.args(["rollback", &made.slug, "--json"]).env("AYNIG_CRASH_AT", "rollback-noted:stop");
    let running = Running::start(&mut command);
    wait_until("it to stop", || is_stopped(running.pid()));
    made.sh(
        &repo,
        "echo c >c; git add c; git -c user.name=A -c user.email=a@b commit -qm c; echo more >more",
    );
    let tip = repo.head(&made.branch);
    running.signal(nix::sys::signal::Signal::SIGCONT);
    wait_until("it to be done", || repo.workspaces()[0]["generation"] == 2);
    assert_eq!(repo.head(&made.branch), base);
    repo.workspace_ok(["rollback", "--undo", &made.slug]);
    assert_eq!(repo.head(&made.branch), tip);
    assert!(made.path.join("more").is_file());
    assert_eq!(fs::read_to_string(made.path.join("b")).expect("b"), "b\nx\n");
}

/// CONTRACT 15.7
#[test]
fn a_new_worktree_is_at_its_place_when_it_is_complete() {
    let (repo, made, _) = field();
    made.sh(&repo, "echo x >>b");
    for undo in [&[][..], &["--undo"]] {
        let mut command = repo.workspace_command();
        command.arg("rollback").args(undo).arg(&made.slug);
        command.env("AYNIG_CRASH_AT", "worktree-registered:stop");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let running = Running::start(&mut command);
        wait_until("it to stop", || is_stopped(running.pid()));
        // Git would write over changes in a worktree that is being filled.
        assert!(made.path.symlink_metadata().is_err());
        fs::create_dir(&made.path).expect("made");
        fs::write(made.path.join("mine"), "mine").expect("written");
        running.signal(nix::sys::signal::Signal::SIGCONT);
        let ended = running.finish();
        assert!(!ended.status.success());
        let next = err(&repo.workspace_ok(["snapshot", &made.slug]));
        assert!(is_somewhere(&repo, &made.path, "mine"), "{next}");
        let beside = fs::read_dir(made.path.parent().expect("above")).expect("a directory");
        let is_new = |name: std::ffi::OsString| name.to_string_lossy().contains(".new-");
        assert!(!beside.flatten().any(|entry| is_new(entry.file_name())), "{next}");
    }
}

/// CONTRACT 15.4, 15.7
#[test]
fn what_a_person_makes_where_a_worktree_was_being_made_stays() {
    // Changes at the place, or in the draft, before the next change goes on.
    let repository = "git init -q \"$PLACE\"; git -C \"$PLACE\" commit -q --allow-empty -m own";
    let ignored = "mkdir \"$PLACE\"; echo '*.tmp' >\"$PLACE/.gitignore\"; echo mine >\"$PLACE/mine.tmp\"";
    let in_draft = "for draft in \"$PLACE\".new-*; do echo mine >\"$draft/mine\"; done";
    let beside = "mkdir \"$PLACE.new-7\"; echo mine >\"$PLACE.new-7/mine\"";
    for (verb, point, script, file) in [
        ("rollback", "rollback-moved", repository, ".git/HEAD"),
        ("rollback", "rollback-gone", ignored, "mine.tmp"),
        ("rollback", "worktree-registered", ignored, "mine.tmp"),
        ("rollback", "worktree-filled", ignored, "mine.tmp"),
        ("rollback", "worktree-filled", in_draft, "mine"),
        ("rollback", "worktree-filled", beside, "mine"),
        ("create", "worktree-registered", ignored, "mine.tmp"),
        ("create", "worktree-filled", ignored, "mine.tmp"),
        ("create", "worktree-filled", in_draft, "mine"),
    ] {
        let (repo, made, _) = field();
        made.sh(&repo, "echo x >>b");
        let mut command = repo.workspace_command();
        let name = if verb == "create" { "other" } else { made.slug.as_str() };
        let killed = command.args([verb, name]).env("AYNIG_CRASH_AT", point).output().expect("aynig runs");
        assert_eq!(killed.status.code(), None, "{verb} {point}");
        let all = fs::read_dir(made.path.ancestors().nth(2).expect("the root")).expect("a directory");
        let own = made.path.parent().expect("above");
        let others = all.flatten().map(|entry| entry.path()).find(|path| path != own);
        let place = others.map_or_else(|| made.path.clone(), |other| other.join("other"));
        let mut shell = std::process::Command::new("/bin/sh");
        let script = format!("git() {{ command git -c user.name=A -c user.email=a@b \"$@\"; }}; {script}");
        let done =
            hermetic(&mut shell).args(["-euc", &script]).env("PLACE", &place).output().expect("a shell");
        assert!(done.status.success(), "{}", err(&done));
        let next = err(&repo.workspace_ok(["snapshot", &made.slug]));
        assert!(is_somewhere(&repo, &place, file), "{verb} {point} {script}: {next}");
    }
}

/// CONTRACT 15.7, 15.8
#[test]
fn what_was_staged_comes_back_though_git_named_the_registration() {
    for point in ["worktree-registered", "worktree-filled", "rollback-added"] {
        let repo = Repo::new();
        // A new worktree has settings of its own then, and git registers it.
        repo.git(["config", "extensions.worktreeConfig", "true"]);
        let made = repo.made("fix");
        made.sh(&repo, "echo s >s; git add s; echo x >>README");
        let mut command = repo.workspace_command();
        command.args(["rollback", &made.slug]).env("AYNIG_CRASH_AT", point);
        assert!(
            command.output().expect("aynig runs").status.code().is_none() || point == "worktree-registered"
        );
        repo.workspace_ok(["rollback", &made.slug]);
        repo.workspace_ok(["rollback", "--undo", &made.slug]);
        assert_eq!(made.git(&repo, &["diff", "--cached", "--name-only"]), "s", "{point}");
        assert_eq!(made.git(&repo, &["diff", "--name-only"]), "README", "{point}");
    }
}

/// CONTRACT 15.7
#[test]
fn a_worktree_inside_an_old_one_works_there() {
    let (repo, made, _) = field();
    made.sh(&repo, "git worktree add -q --detach inside; echo own >inside/own; git -C inside add own");
    repo.workspace_ok(["rollback", &made.slug]);
    let inside = made.path.with_file_name("fix.kept-1").join("inside");
    let inside = inside.to_str().expect("UTF-8");
    repo.git(["worktree", "prune", "--expire=now"]);
    assert_eq!(repo.git(["-C", inside, "diff", "--cached", "--name-only"]), "own");
    assert!(repo.worktrees().iter().any(|place| place == inside));
}

/// CONTRACT 15.7
#[test]
fn an_old_worktree_has_a_name_that_says_whether_all_of_it_is_saved() {
    for (verb, point) in [("rollback", "rollback-unregistered"), ("remove", "removal-unregistered")] {
        let (repo, made, _) = field();
        made.sh(&repo, "echo x >>b");
        let mut command = repo.workspace_command();
        let apply: &[&str] = if verb == "remove" { &["--apply"] } else { &[] };
        command.arg(verb).args(apply).arg(&made.slug).env("AYNIG_CRASH_AT", point);
        assert_eq!(command.output().expect("aynig runs").status.code(), None, "{verb}");
        let beside = fs::read_dir(made.path.parent().expect("above")).expect("a directory");
        let names: Vec<_> = beside.flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(names, ["fix.gone-1"], "{verb}");
    }
}

/// CONTRACT 15.7
#[test]
fn a_half_made_worktree_stays_whole_for_what_no_commit_holds() {
    let (repo, made, _) = field();
    let source = repo.beside("source").display().to_string();
    let all = "git -c protocol.file.allow=always -c user.name=A -c user.email=a@b";
    made.sh(
        &repo,
        &format!("git init -q {source}; {all} -C {source} commit -q --allow-empty -m s; echo x >>b"),
    );
    // The second time, another process is killed where it puts the half-made one aside.
    for point in ["", "half-made-aside"] {
        let mut command = repo.workspace_command();
        let killed = command.args(["rollback", &made.slug]).env("AYNIG_CRASH_AT", "rollback-added").output();
        assert_eq!(killed.expect("aynig runs").status.code(), None);
        made.sh(
            &repo,
            &format!(
                "echo y >>b; {all} submodule --quiet add {source} m; {all} -C m commit -q --allow-empty -m own; git -C m checkout -q HEAD^"
            ),
        );
        if !point.is_empty() {
            let mut command = repo.workspace_command();
            command.args(["snapshot", &made.slug]).env("AYNIG_CRASH_AT", point);
            assert_eq!(command.output().expect("aynig runs").status.code(), None, "{point}");
        }
        let next = err(&repo.workspace_ok(["snapshot", &made.slug]));
        let named = next.split("stays at ").nth(1).and_then(|rest| rest.split(": ").next());
        let kept = Path::new(named.unwrap_or_else(|| panic!("{point}: {next}"))).join("m");
        let log = repo.git(["-C", kept.to_str().expect("UTF-8"), "log", "--reflog", "--format=%s"]);
        assert!(log.contains("own"), "{point}: {log}");
        made.sh(&repo, "echo x >>b");
    }
}

/// CONTRACT 15.6
#[test]
fn a_snapshot_keeps_ignored_files_when_it_makes_a_worktree_anew() {
    let (repo, made, _) = field();
    made.sh(&repo, "echo '*.own' >.gitignore; echo i >i.own; git bisect start >/dev/null");
    let done = done(&repo.workspace_ok(["snapshot", &made.slug, "--json"]));
    assert_eq!(done["ignoredFiles"], 1, "{done}");
    let kept = done["keptPath"].as_str().unwrap_or_else(|| panic!("{done}"));
    assert_eq!(fs::read_to_string(Path::new(kept).join("i.own")).expect("kept"), "i\n");
}

/// CONTRACT 15.8
#[test]
fn a_rollback_without_anything_to_save_keeps_what_can_be_brought_back() {
    let (repo, made, _) = field();
    made.sh(&repo, "echo x >>b");
    repo.workspace_ok(["rollback", &made.slug]);
    made.sh(&repo, "echo i >i.tmp");
    repo.workspace_ok(["rollback", &made.slug]);
    repo.workspace_ok(["rollback", "--undo", &made.slug]);
    assert_eq!(fs::read_to_string(made.path.join("b")).expect("b"), "b\nx\n");
}

/// CONTRACT 15.6
#[test]
fn a_snapshot_of_a_locked_index_commits_nothing() {
    let (repo, made, base) = field();
    made.sh(&repo, "echo x >>b; : >\"$(git rev-parse --absolute-git-dir)/index.lock\"");
    assert_refused(
        &repo.workspace(["snapshot", &made.slug]),
        1,
        &["index.lock", "nothing was changed", "rm "],
    );
    assert_eq!(repo.head(&made.branch), base);
}

/// CONTRACT 15.6
#[test]
fn a_snapshot_is_whole_though_a_git_begins_beside_it() {
    let (repo, made, base) = field();
    made.sh(&repo, "echo x >>b");
    let mut command = repo.workspace_command();
    command.args(["snapshot", &made.slug]).env("AYNIG_CRASH_AT", "snapshot-moved:stop");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let running = Running::start(&mut command);
    wait_until("it to stop", || is_stopped(running.pid()));
    let lock = out(&made.sh(&repo, "git rev-parse --absolute-git-dir")).trim().to_owned() + "/index.lock";
    fs::write(&lock, "").expect("a lock");
    running.signal(nix::sys::signal::Signal::SIGCONT);
    let ended = running.finish();
    assert!(ended.status.success(), "{}", err(&ended));
    assert!(err(&ended).contains("since a git works there; nothing is lost"), "{}", err(&ended));
    assert_ne!(repo.head(&made.branch), base);
    fs::remove_file(&lock).expect("the lock");
    repo.workspace_ok(["snapshot", &made.slug]);
    assert_eq!(out(&made.sh(&repo, "git status --porcelain")), "");
}

/// CONTRACT 15.7
#[test]
fn the_old_directory_of_a_rollback_that_was_killed_goes_with_the_next() {
    let (repo, made, _) = field();
    made.sh(&repo, "echo x >>b");
    let mut command = repo.workspace_command();
    command
        .args(["rollback", &made.slug])
        .env("AYNIG_CRASH_AT", "rollback-done")
        .output()
        .expect("aynig runs");
    repo.workspace_ok(["snapshot", &made.slug]);
    wait_until("the old one to be removed", || {
        fs::read_dir(made.path.parent().expect("above")).expect("a directory").count() == 1
    });
}

/// CONTRACT 15.7
#[test]
fn what_is_written_without_a_trace_in_times_and_sizes_is_saved() {
    for change in [
        // Of the same length, and with the old time.
        "touch -r b was; echo Z >b; touch -r was b; rm was",
        "mkdir deep; echo Z >deep/b",
        "mv c-dir/f f; mv b c-dir/f; mv f b",
        "chmod +x b",
        "rm b",
        "ln -sf elsewhere b",
        "echo Z >>i.tmp; echo Z >b",
    ] {
        let (repo, made, _) = field();
        made.sh(&repo, "echo '*.tmp' >.gitignore; echo i >i.tmp; mkdir c-dir empty; echo f >c-dir/f");
        let mut command = repo.workspace_command();
        command.args(["rollback", &made.slug]).env("AYNIG_CRASH_AT", "rollback-noted:stop");
        let running = Running::start(&mut command);
        wait_until("it to stop", || is_stopped(running.pid()));
        made.sh(&repo, change);
        let tree = "cp \"$(git rev-parse --absolute-git-dir)/index\" ../own; export GIT_INDEX_FILE=$PWD/../own; \
                    git add -A; git write-tree";
        let wanted = out(&made.sh(&repo, tree)).trim().to_owned();
        running.signal(nix::sys::signal::Signal::SIGCONT);
        wait_until("it to be done", || repo.workspaces()[0]["generation"] == 2);
        let saved = repo.rescues();
        let is_saved = |name: &String| repo.git(["rev-parse", &format!("{name}^{{tree}}")]) == wanted;
        assert!(saved.iter().any(is_saved), "{change}: {saved:?}");
    }
}

/// CONTRACT 15.7
#[test]
fn what_nobody_changed_is_read_once_for_a_rollback() {
    let (repo, made, _) = field();
    made.sh(&repo, "echo '*.tmp' >.gitignore; echo i >i.tmp; mkdir empty; echo x >>b; echo n >new");
    let trace = repo.beside("trace");
    let mut command = repo.workspace_command();
    command.args(["rollback", &made.slug]).env("GIT_TRACE2_EVENT", &trace);
    assert!(command.output().expect("aynig runs").status.success());
    let text = fs::read_to_string(&trace).expect("a trace");
    let adds = text.lines().filter(|line| line.contains("\"event\":\"start\"") && line.contains("\"add\""));
    assert_eq!(adds.count(), 1);
}
