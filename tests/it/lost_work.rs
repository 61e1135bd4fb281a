//! No work of a command is ever lost: however its step ends, its files come back from a rescue ref.

use nix::sys::signal::Signal;

use super::scene::*;
use super::support::*;

/// Leaves work of every kind. The script that follows ends the command.
pub(crate) const MESS: &str = r#"
    echo v1 >both.txt; git add both.txt; echo v2 >both.txt
    echo staged >staged.txt; git add staged.txt
    echo changed >>README
    echo untracked >untracked.txt
    rm gone.txt
    mkdir -p deep/er; echo deep >deep/er/file
    echo junk >ignored.log
"#;

fn repo(script: &str) -> Repo {
    let repo = Repo::scene(&[("work", script), ("review", "next done")]);
    repo.write("gone.txt", "to be deleted\n");
    repo.write(".gitignore", "*.log\n");
    repo.commit_all("more files");
    repo.ready("task", "work");
    repo
}

/// Asserts that everything of [`MESS`] is in the one rescue, and returns it.
fn assert_mess_saved(repo: &Repo) -> String {
    let rescue = repo.rescue();
    let show = |path: &str| repo.show(&format!("{rescue}:{path}"));
    assert_eq!(show("both.txt"), "v2");
    assert_eq!(show("staged.txt"), "staged");
    assert_eq!(show("README"), "a repository for a test\nchanged");
    assert_eq!(show("untracked.txt"), "untracked");
    assert_eq!(show("deep/er/file"), "deep");
    let paths = repo.paths_in(&rescue);
    assert!(!paths.contains(&"gone.txt".to_owned()), "a deletion is work too");
    assert!(!paths.contains(&"ignored.log".to_owned()), "ignored files are not saved");
    repo.assert_tidy();
    rescue
}

/// Asserts that the staged version is kept beside it, where the file changed after staging.
fn assert_staging_saved(repo: &Repo, rescue: &str) {
    assert_eq!(repo.show(&format!("{rescue}^2:both.txt")), "v1");
    assert_eq!(repo.show(&format!("{rescue}^2:staged.txt")), "staged");
    assert!(!repo.paths_in(&format!("{rescue}^2")).contains(&"untracked.txt".to_owned()));
}

/// CONTRACT 9.5, 9.6
#[test]
fn after_a_success_what_was_not_staged_is_saved() {
    let repo = repo(&format!("{MESS}\nnext done"));
    let output = repo.aynig_ok(["run"]);
    let rescue = assert_mess_saved(&repo);
    assert!(out(&output).contains(&format!("work saved: {rescue}")), "{}", told(&output));
    assert_eq!(repo.state("task"), "done");
    assert_eq!(repo.show("task:both.txt"), "v1", "the index is what is landed");
    assert_eq!(repo.show("task:staged.txt"), "staged");
    assert_eq!(repo.show("task:README"), "a repository for a test");
    assert!(!repo.paths_in("task").contains(&"untracked.txt".to_owned()));
    assert!(repo.paths_in("task").contains(&"gone.txt".to_owned()));
}

/// CONTRACT 9.5, 9.6
#[test]
fn after_a_failure_everything_is_saved() {
    let repo = repo(&format!("{MESS}\nexit 3"));
    let output = repo.aynig(["run"]);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let rescue = assert_mess_saved(&repo);
    assert_staging_saved(&repo, &rescue);
    assert!(out(&output).contains(&rescue), "{}", told(&output));
    assert!(repo.message("task").contains(&rescue), "the stalled body says where");
    assert_eq!(repo.git(["rev-parse", "task^{tree}"]), repo.git(["rev-parse", "task~1^{tree}"]));
    repo.git(["merge-base", "--is-ancestor", "task~1", &rescue]);
}

/// CONTRACT 10.6
#[test]
fn after_a_time_limit() {
    let repo = repo(&format!("{MESS}\nawait release"));
    // A loaded machine takes seconds for the mess.
    let output = repo.aynig(["run", "--command-timeout", "5"]);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert_eq!(repo.state("task"), "stalled");
    let rescue = assert_mess_saved(&repo);
    assert_staging_saved(&repo, &rescue);
}

fn stopped_by(signals: &[Signal], script: &str, code: i32) {
    for then in ["requeue", "stall"] {
        stopped_with(then, signals, script, code);
    }
}

fn stopped_with(then: &str, signals: &[Signal], script: &str, code: i32) {
    let repo = repo(&format!("{MESS}\n{script}say ready $$\nawait release\nnext done"));
    repo.git(["config", "aynig.onInterrupt", then]);
    let runner = repo.aynig_start(["run", "--grace-seconds", "3600"]);
    let command = repo.said_pid("ready");
    for (n, signal) in signals.iter().enumerate() {
        if n > 0 {
            repo.said("termed");
        }
        runner.signal(*signal);
    }
    let output = runner.finish();
    assert_eq!(output.status.code(), Some(code), "{}", told(&output));
    assert!(!command.lives());
    assert_eq!(repo.state("task"), if then == "stall" { "stalled" } else { "work" });
    let rescue = assert_mess_saved(&repo);
    assert_staging_saved(&repo, &rescue);
    assert!(repo.message("task").contains(&rescue), "{}", repo.message("task"));
}

/// CONTRACT 10.5
#[test]
fn after_sigterm() {
    stopped_by(&[Signal::SIGTERM], "", 143);
}

#[test]
fn after_sigint() {
    stopped_by(&[Signal::SIGINT], "", 130);
}

/// CONTRACT 10.5
#[test]
fn after_a_second_signal() {
    let deaf = "trap 'say termed yes' TERM\n";
    stopped_by(&[Signal::SIGTERM, Signal::SIGTERM], deaf, 143);
}

/// CONTRACT 9.5, 9.8, 10.1
#[test]
fn after_the_runner_was_killed() {
    let repo = repo(&format!(
        "{MESS}\n( ( await release ) & say grandchild $!; await release ) &\nsay child $!\nawait grandchild\nsay ready $$\nawait release"
    ));
    let runner = repo.aynig_start(["run", "--lease-seconds", "2"]);
    let command = repo.said_pid("ready");
    let (child, grandchild) = (repo.said_pid("child"), repo.said_pid("grandchild"));
    runner.signal(Signal::SIGKILL);
    let output = runner.finish();
    assert_eq!(output.status.code(), None);
    for process in [&command, &child, &grandchild] {
        process.gone();
    }
    repo.deserted();
    assert_eq!(repo.state("task"), "working");
    assert_eq!(repo.worktrees().len(), 1);
    let output = repo.run_until("task", "stalled", &["run"]);
    let rescue = assert_mess_saved(&repo);
    assert_staging_saved(&repo, &rescue);
    assert!(out(&output).contains(&rescue), "{}", told(&output));
    assert!(repo.message("task").contains(&rescue), "{}", repo.message("task"));
}

/// CONTRACT 5.4
#[test]
fn a_killed_runner_of_this_host_is_not_said_to_notice() {
    let repo = repo("say ready $$\nawait release");
    let runner = repo.aynig_start(["run"]);
    let command = repo.said_pid("ready");
    let gone = "its runner on this host is gone";
    assert!(!told(&repo.aynig_ok(["status", "task"])).contains(gone), "it lives");
    runner.signal(Signal::SIGKILL);
    drop(runner.finish());
    command.gone();
    let then = "the lease ends at 20";
    for arguments in [&["run", "task"][..], &["status", "task"], &["cancel", "task"]] {
        let said = told(&repo.aynig(arguments.iter().copied()));
        assert!(said.contains(gone) && said.contains(then), "{arguments:?}: {said}");
        assert_eq!(repo.state("task"), "working", "{arguments:?}");
    }
    // The printed line takes over at once.
    let said = told(&repo.aynig_ok(["status", "task"]));
    let line = said.split('`').find(|part| part.starts_with("aynig set-state ")).expect("a line").to_owned();
    let retry = ["set-state", "task", "--state", "other"];
    let refused = err(&repo.aynig(retry));
    assert!(refused.contains(gone) && refused.contains("`--force`"), "{refused}");
    let forced = err(&repo.aynig_ok(retry.into_iter().chain(["--force"])));
    assert!(forced.contains(gone) && !forced.contains("will notice"), "{forced}");
    repo.git(["reset", "-q", "--hard", "HEAD"]);
    repo.git(["update-ref", "refs/heads/task", "task~2"]);
    assert_eq!(repo.state("task"), "working");
    repo.aynig_ok(line.split(' ').skip(1));
    assert_eq!(repo.state("task"), "work");
}

/// CONTRACT 5.13
#[test]
fn after_the_runner_was_killed_over_the_commands_own_commit() {
    // HEAD is the command's commit then and declares no state; only this host knows the attempt.
    let repo = repo(&format!("git commit -q --allow-empty -m own\n{MESS}\nsay ready $$\nawait release"));
    let runner = repo.aynig_start(["run", "--lease-seconds", "1", "--no-heartbeat"]);
    let command = repo.said_pid("ready");
    runner.signal(Signal::SIGKILL);
    drop(runner.finish());
    command.gone();
    repo.deserted();
    let own = repo.head("task");
    assert_eq!(repo.state("task"), "");
    let output = repo.run_until("task", "stalled", &["run", "--json"]);
    assert!(out(&output).contains("\"recovered\":1"), "{}", told(&output));
    assert_eq!(repo.head("task~1"), own, "the command's commit stays");
    assert_eq!(repo.trailer("task", "dwp-origin-state"), "work");
    assert_eq!(repo.trailer("task", "dwp-stalled-run"), repo.trailer("task~2", "dwp-run-id"));
    let rescue = assert_mess_saved(&repo);
    assert_staging_saved(&repo, &rescue);
}

/// The command's clock may be ahead; its commit still counts as a sign of life.
/// CONTRACT 5.13
#[test]
fn a_lease_below_a_commit_counts_from_that_commit_if_it_is_later() {
    let ahead = "GIT_COMMITTER_DATE=\"@$(( $(date +%s) + 5000 )) +0000\" git commit -q --allow-empty -m own";
    let repo = repo(&format!("{ahead}\nsay ready $$\nawait release"));
    repo.killed_over_its_command(&["run", "--lease-seconds", "100", "--no-heartbeat"]);
    let own = repo.head("task");
    for (later, closed) in [("2000", false), ("9000", true)] {
        let mut runner = repo.aynig_command();
        let output = runner.arg("run").env("AYNIG_CLOCK_OFFSET_SECONDS", later).output().expect("aynig runs");
        assert_eq!(repo.head("task") != own, closed, "after {later} s: {}", told(&output));
    }
    assert_eq!((repo.state("task"), repo.head("task~1")), ("stalled".to_owned(), own));
}

/// CONTRACT 9.8
#[test]
fn a_killed_runners_branch_set_on_by_hand_gives_up_its_work_first() {
    let repo = repo(&format!("{MESS}\nsay ready $$\nawait release"));
    let runner = repo.aynig_start(["run"]);
    let command = repo.said_pid("ready");
    runner.signal(Signal::SIGKILL);
    drop(runner.finish());
    command.gone();
    repo.deserted();
    repo.branch_from("task", "task", b"on\n\nthe body\n\ndwp-state: review\n");
    let output = repo.aynig_ok(["run"]);
    assert_eq!(repo.state("task"), "done");
    let rescue = assert_mess_saved(&repo);
    assert_staging_saved(&repo, &rescue);
    assert!(err(&output).contains(&rescue), "{}", told(&output));
}

/// CONTRACT 9.5
#[test]
fn modes_links_and_odd_names_survive() {
    let repo = repo(
        r#"
        echo run >tool; chmod +x tool
        ln -s tool link; ln -s /nowhere/at/all dangling
        echo 1 >"with space"; echo 2 >"$(printf 'two\nlines')"; echo 3 >"$(printf 'caf\351')"; echo 4 >-dash
        : >empty
        exit 1"#,
    );
    let output = repo.aynig(["run"]);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let listing =
        repo.git_command().args(["ls-tree", "-r", "-z", &repo.rescue()]).output().expect("git runs");
    let has = |mode: &str, name: &[u8]| {
        listing.stdout.split(|byte| *byte == 0).any(|entry| {
            let (head, path) = entry.split_at(entry.iter().position(|b| *b == b'\t').unwrap_or(0));
            head.starts_with(mode.as_bytes()) && path.get(1..) == Some(name)
        })
    };
    for (mode, name) in [
        ("100755", b"tool".as_slice()),
        ("120000", b"link"),
        ("120000", b"dangling"),
        ("100644", b"with space"),
        ("100644", b"two\nlines"),
        ("100644", b"caf\xe9"),
        ("100644", b"-dash"),
        ("100644", b"empty"),
    ] {
        assert!(has(mode, name), "{mode} {:?}", String::from_utf8_lossy(name));
    }
    repo.assert_tidy();
}

#[test]
fn only_ignored_files_are_nothing_to_save() {
    for end in ["exit 1", "next done"] {
        let repo = repo(&format!("echo junk >a.log; mkdir x; echo junk >x/b.log\n{end}"));
        repo.aynig(["run"]);
        assert_eq!(repo.rescues(), Vec::<String>::new());
        repo.assert_tidy();
    }
}

/// CONTRACT 9.8
#[test]
fn a_clean_worktree_leaves_nothing() {
    for (end, state) in [("exit 1", "stalled"), ("kill -9 $$", "stalled"), ("next done", "done")] {
        let repo = repo(&format!("touch README; {end}"));
        repo.aynig(["run"]);
        assert_eq!(repo.state("task"), state);
        assert_eq!(repo.rescues(), Vec::<String>::new());
        assert!(!repo.path.join(".worktrees").exists(), "not even the directory for them");
        repo.assert_tidy();
    }
}

/// A nested repository cannot be saved in ours.
fn nested(make: &str, end: &str, state: &str) {
    let repo = repo(&format!("{make}\n{end}"));
    let output = repo.aynig(["run"]);
    assert_eq!(repo.state("task"), state, "{}", told(&output));
    let worktrees = repo.worktrees();
    assert_eq!(worktrees.len(), 1, "{}", told(&output));
    assert!(out(&output).contains(&format!("left in place: {}", worktrees[0])), "{}", told(&output));
    assert!(std::path::Path::new(&worktrees[0]).join("inner/file").exists());
    let list = repo.git(["worktree", "list", "--porcelain"]);
    let run = repo.trailer("task~1", "dwp-run-id");
    assert!(list.contains(&format!("detached\nlocked aynig kept from attempt {run}: ")), "{list}");

    repo.branch_from("task", "task", b"on\n\nthe body\n\ndwp-state: review\n");
    let output = repo.aynig_ok(["run"]);
    assert_eq!(repo.state("task"), "done", "the branch is free: {}", told(&output));
    assert_eq!(repo.worktrees(), worktrees, "and it is left to the person");
    assert!(std::path::Path::new(&worktrees[0]).join("inner/file").exists());
}

/// CONTRACT 9.7
#[test]
fn a_repository_inside_the_worktree_keeps_it() {
    let make =
        "git init -q inner; echo precious >inner/file; git -C inner add file; git -C inner commit -q -m x";
    nested(make, "exit 1", "stalled");
    nested(make, "next done", "done");
}

#[test]
fn a_repository_without_commits_inside_the_worktree_keeps_it() {
    nested("git init -q inner; echo precious >inner/file", "exit 1", "stalled");
}

/// CONTRACT 6.10
#[test]
fn a_conflicted_index_is_no_obstacle_to_saving() {
    let conflict = r#"
        one=$(echo one | git hash-object -w --stdin); two=$(echo two | git hash-object -w --stdin)
        printf '100644 %s 2\tclash\n100644 %s 3\tclash\n' "$one" "$two" | git update-index --index-info
        printf '<<<<<<<\none\n=======\ntwo\n>>>>>>>\n' >clash
        echo more >more.txt
    "#;
    for end in ["exit 1", "next done"] {
        let repo = repo(&format!("{conflict}\n{end}"));
        let output = repo.aynig(["run"]);
        assert_eq!(output.status.code(), Some(1), "{}", told(&output));
        assert_eq!(repo.state("task"), "stalled", "such an index cannot be landed");
        let rescue = repo.rescue();
        assert!(repo.show(&format!("{rescue}:clash")).contains("======="));
        assert_eq!(repo.show(&format!("{rescue}:more.txt")), "more");
        repo.assert_tidy();
    }
}

/// CONTRACT 9.5
#[test]
fn commits_off_the_branch_are_saved() {
    let repo = repo(
        "git checkout -q --detach; echo off >off.txt; git add off.txt; git commit -q -m off; say off \"$(git rev-parse HEAD)\"
         git checkout -q --detach HEAD~2; echo loose >loose.txt; git add loose.txt; git commit -q -m astray; say astray \"$(git rev-parse HEAD)\"
         next done",
    );
    let output = repo.aynig(["run"]);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert_eq!(repo.state("task"), "stalled");
    let rescue = repo.rescue();
    repo.git(["merge-base", "--is-ancestor", &repo.said("astray"), &rescue]);
    repo.assert_tidy();
}

/// A runner killed while its command waits after `say ready $$`.
fn killed(script: &str) -> Repo {
    let repo = repo(&format!("{script}\nsay ready $$\nawait release"));
    repo.killed_over_its_command(&["run", "--lease-seconds", "2"]);
    repo
}

#[test]
fn commits_on_a_detached_head_outlive_a_killed_runner() {
    let own = |name: &str| {
        format!(
            "echo {name} >{name}; git add {name}; git commit -q -m {name}; say {name} $(git rev-parse HEAD)\n"
        )
    };
    // The second commit reverts the first, so no file shows either.
    let repo = killed(&format!(
        "git checkout -q --detach\n{}git rm -q one; git commit -q -m two; say two $(git rev-parse HEAD)",
        own("one")
    ));
    repo.run_until("task", "stalled", &["run"]);
    let rescue = repo.rescue();
    for commit in ["one", "two"] {
        repo.git(["merge-base", "--is-ancestor", &repo.said(commit), &rescue]);
    }
    repo.assert_tidy();
}

/// Commits that a stopped rebase or merge has put aside are referenced only by the worktree's registration.
/// CONTRACT 9.5
#[test]
fn what_git_had_put_aside_is_saved() {
    let begin = "git switch -q --detach HEAD~1; echo theirs >>README; git commit -q -a -m theirs; theirs=$(git rev-parse HEAD); say theirs $theirs
git switch -q task; echo mine >>README; echo one >notes; git add notes; git commit -q -a -m mine; say mine $(git rev-parse HEAD)
echo precious >notes\n";
    let is_kept =
        |repo: &Repo, commit: &str| repo.git(["merge-base", "--is-ancestor", commit, &repo.rescue()]);
    for end in ["git merge -q --autostash $theirs", "git rebase -q --autostash $theirs"] {
        let repo = repo(&format!("{begin}{end} || exit 1"));
        let output = repo.aynig(["run"]);
        assert_eq!(repo.state("task"), "stalled", "{}", told(&output));
        let rescue = repo.rescue();
        let parents = repo.git(["log", "-1", "--format=%P", &rescue]);
        let aside = parents.split(' ').find(|parent| {
            let shown = repo.git_command().args(["show", &format!("{parent}:notes")]).output();
            out(&shown.expect("git runs")) == "precious\n"
        });
        let aside = aside.unwrap_or_else(|| panic!("{end}: {}", repo.git(["log", "--graph", "--all"])));
        assert!(repo.message(&rescue).contains(&aside[..10]), "{}", repo.message(&rescue));
        repo.assert_tidy();
    }
    for end in ["git merge -q $theirs", "git cherry-pick $theirs"] {
        let repo = repo(&format!("{begin}git checkout -q notes; {end} || exit 1"));
        repo.aynig(["run"]);
        is_kept(&repo, &repo.said("theirs"));
        repo.assert_tidy();
    }
    // Detached, as all commits in a worktree for a remote's branch are.
    let begin = begin.replace("git switch -q task;", "git switch -q --detach task;");
    let repo = repo(&format!("{begin}git checkout -q notes; git rebase -q $theirs || exit 1"));
    let output = repo.aynig(["run"]);
    assert_eq!(repo.state("task"), "stalled", "{}", told(&output));
    is_kept(&repo, &repo.said("mine"));
    // A ref of that worktree only.
    let own = "git commit -q --allow-empty -m own; say own $(git rev-parse HEAD); git tag -a -m note tag; git update-ref refs/worktree/own tag; git tag -d tag; git reset -q --hard HEAD~1; exit 1";
    let repo = self::repo(own);
    repo.aynig(["run"]);
    is_kept(&repo, &repo.said("own"));
}

/// Git takes a notebook with new outputs for unchanged, if a filter strips them.
/// CONTRACT 9.5
#[test]
fn what_a_clean_filter_leaves_out_is_saved() {
    let repo = repo("echo out: result >>n.ipynb; git status >/dev/null; echo out: new >new.ipynb; exit 1");
    repo.git(["config", "filter.strip.clean", "grep -v ^out || true"]);
    // The last value counts.
    repo.git(["config", "filter.strip.smudge", "sed s/y/y/"]);
    repo.git(["config", "--add", "filter.strip.smudge", "cat"]);
    for name in [".gitattributes", "n.ipynb"] {
        repo.write(name, "*.ipynb filter=strip\n");
    }
    repo.commit_all("a notebook");
    repo.git(["branch", "-f", "task"]);
    repo.aynig_ok(["set-state", "task", "--state", "work"]);
    repo.aynig(["run"]);
    let whole = |rescue: &str| {
        let parents = repo.git(["log", "-1", "--format=%P", rescue]);
        parents.split(' ').next_back().expect("a parent").to_owned()
    };
    let rescue = repo.rescue();
    assert!(repo.git(["show", &format!("{}:n.ipynb", whole(&rescue))]).ends_with("out: result"));
    assert_eq!(repo.git(["show", &format!("{}:new.ipynb", whole(&rescue))]), "out: new");
    assert!(repo.message(&rescue).contains("what a filter leaves out"), "{}", repo.message(&rescue));
    // What is taken from there is as git would commit it.
    repo.git(["merge", "--squash", &rescue]);
    assert_eq!(repo.git(["diff", "--cached"]).matches("out:").count(), 0);
    repo.git(["reset", "-q", "--hard"]);
    repo.assert_tidy();
    repo.workspace_ok(["create", "x"]);
    let path = std::path::PathBuf::from(out(&repo.workspace_ok(["path", "x"])).trim());
    let text = |verb: &str| format!("*.ipynb filter=strip\nout: {verb}\n");
    let expects = |verb: &[&str]| {
        std::fs::write(path.join("n.ipynb"), text(verb[0])).expect("written");
        repo.git(["-C", path.to_str().expect("UTF-8"), "status"]);
        let before = repo.rescues();
        let shown = repo.workspace_ok(verb.iter().copied());
        let new: Vec<String> = repo.rescues().into_iter().filter(|name| !before.contains(name)).collect();
        assert_eq!(new.len(), 1, "{verb:?}: {}", told(&shown));
        let saved = repo.git(["show", &format!("{}:n.ipynb", whole(&new[0]))]);
        assert_eq!(saved.trim_end(), text(verb[0]).trim_end(), "{verb:?}");
    };
    expects(&["rollback", "x"]);
    repo.workspace_ok(["rollback", "--undo", "x"]);
    assert_eq!(std::fs::read_to_string(path.join("n.ipynb")).expect("there"), text("rollback"));
    expects(&["remove", "--apply", "x"]);
    // A filter that gives back what it took has nothing to save.
    repo.git(["config", "--add", "filter.strip.smudge", "sed s/x/x/"]);
    repo.workspace_ok(["create", "y"]);
    let shown = out(&repo.workspace_ok(["remove", "--apply", "y"]));
    assert!(!shown.contains("saved"), "{shown}");
}

/// Saved only once, also after a runner that was killed right after saving it.
#[test]
fn what_git_had_put_aside_is_saved_once() {
    let repo = repo(
        "git switch -q --detach HEAD~1; echo theirs >>README; git commit -q -a -m theirs; theirs=$(git rev-parse HEAD)
git switch -q task; echo mine >>README; git commit -q -a -m mine; git merge -q $theirs || exit 1",
    );
    let mut runner = repo.aynig_command();
    let output =
        runner.arg("run").env("AYNIG_CRASH_AT", "rescue-pointed:kill:1").output().expect("aynig runs");
    assert_eq!(output.status.code(), None, "{}", told(&output));
    let first = repo.rescue();
    let mut later = repo.aynig_command();
    let output = later.arg("run").env("AYNIG_CLOCK_OFFSET_SECONDS", "9999").output().expect("aynig runs");
    assert_eq!(repo.state("task"), "stalled", "{}", told(&output));
    assert_eq!(repo.rescue(), first);
    assert!(repo.message("task").contains(&first));
    repo.assert_tidy();
}

/// A process still running in the worktree of an expired lease may write after the work was saved.
/// CONTRACT 9.5
#[test]
fn what_is_written_while_an_expired_lease_is_closed_is_saved() {
    let repo = repo(
        "( trap '' TERM; setsid sh -c \"echo early >early; echo \\$\\$ >'$ROOM/.pid'; mv '$ROOM/.pid' '$ROOM/ready'; \
         until [ -e '$ROOM/write' ]; do [ -d '$ROOM' ] || exit; sleep 0.05; done; echo late >late; rm '$ROOM/write'\" & )
await ready; exit 0",
    );
    // The runner exits with the first pass. The lease stays, because of the process left behind.
    repo.aynig(["run", "--lease-seconds", "2"]);
    let survivor = repo.said_pid("ready");
    let mut later = repo.aynig_command();
    later
        .args(["run"])
        .env("AYNIG_CLOCK_OFFSET_SECONDS", "30")
        .env("AYNIG_CRASH_AT", "stalled-written:stop:1");
    let later =
        Running::start(later.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()));
    wait_until("the work to be saved", || is_stopped(later.pid()));
    repo.release("write");
    survivor.gone();
    later.signal(Signal::SIGCONT);
    let output = later.finish();
    assert_eq!(repo.state("task"), "stalled", "{}", told(&output));
    let rescues = repo.rescues();
    let held = |path: &str| rescues.iter().any(|rescue| repo.paths_in(rescue).contains(&path.to_owned()));
    assert!(held("early") && held("late"), "{rescues:?} {}", told(&output));
    assert_eq!(rescues.len(), 2);
    assert_eq!(rescues[1], format!("{}-2", rescues[0]));
    assert!(err(&output).contains(&rescues[1]) || out(&output).contains(&rescues[1]), "{}", told(&output));
    repo.assert_tidy();
}

/// A branch name must not make a person run arbitrary shell code.
#[test]
fn what_a_stalled_commit_advises_can_be_typed_whatever_the_branch_is_called() {
    let branch = "it's;touch${IFS}oops";
    let repo = Repo::scene(&[("work", "echo precious >loose; exit 1")]);
    repo.ready(branch, "work");
    assert_eq!(repo.aynig(["run"]).status.code(), Some(1));
    let message = repo.message(branch);
    let between = |begin: &str, end: &str| {
        let (_, rest) = message.split_once(begin).expect("it is told");
        rest.split_once(end).expect("it ends").0.to_owned()
    };
    let shown = between("was saved: ", " (or ");
    let retried = between("body and trailers: aynig ", "\n");
    for (line, holds) in [(shown, "precious"), (format!("\"$AYNIG\" {retried}"), "work")] {
        let mut shell = std::process::Command::new("sh");
        hermetic(&mut shell).current_dir(&repo.path).env("AYNIG", binary()).args(["-c", &line]);
        let output = shell.output().expect("sh runs");
        assert!(output.status.success() && out(&output).contains(holds), "{line}: {}", told(&output));
    }
    assert!(!repo.path.join("oops").exists());
    assert_eq!(repo.state(branch), "work");
}
