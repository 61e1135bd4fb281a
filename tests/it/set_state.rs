//! `aynig set-state`.

use std::fs;
use std::process::Stdio;

use super::flow_engine::typed as type_line;
use super::support::*;

const RUN: &str = "11111111-2222-4333-8444-555555555555";

#[test]
fn on_the_branch_checked_out_here_the_index_is_the_tree() {
    let repo = Repo::new();
    let before = repo.head("main");
    repo.write("staged", "s");
    repo.git(["add", "staged"]);
    repo.write("unstaged", "u");
    let output = repo.aynig_ok(["set-state", "--state", "review/code"]);
    let short = &repo.head("main")[..10];
    assert_eq!(out(&output), format!("main  (no state) → review/code  ({short})\n"));
    assert_eq!(err(&output), "with it went what was staged: staged\n");
    assert_eq!(repo.head("main~1"), before);
    assert_eq!(repo.message("main"), "chore: set review/code\n\ndwp-state: review/code");
    assert_eq!(repo.git(["ls-tree", "--name-only", "main"]), "README\nstaged");
    assert_eq!(repo.git(["status", "--porcelain"]), "?? unstaged");
}

#[test]
fn on_another_branch_its_own_tree_stays() {
    let repo = Repo::new();
    let base = repo.ready("work", "build");
    repo.write("staged", "s");
    repo.git(["add", "staged"]);
    let answer = listed(&repo.aynig_ok(["set-state", "--state", "done", "--branch", "work", "--json"]));
    assert_eq!(
        answer,
        serde_json::json!([{
            "branch": "work", "outcome": "set", "state": "done", "commit": repo.head("work"), "previousState": "build",
            "parent": base, "deferred": null, "replaced": null, "reason": null
        }])
    );
    assert_eq!(repo.git(["ls-tree", "--name-only", "work"]), "README");
    assert_eq!(repo.head("work~1"), base);
    assert_eq!(repo.git(["status", "--porcelain"]), "A  staged", "the checkout is left alone");
    repo.aynig_ok(["set-state", "--state", "x", "--branch", "main"]);
    assert_eq!(repo.git(["ls-tree", "--name-only", "main"]), "README\nstaged", "named, and checked out here");
}

#[test]
fn all_its_parts_and_the_other_names_of_the_options() {
    let repo = Repo::new();
    let message = "go\n\nplease do\n\ndwp-state: build\ndwp-pr: 7\nReviewed-by: me: too";
    for (state, body) in [("--state", "--body"), ("--dwp-state", "--prompt")] {
        repo.aynig_ok([
            "set-state",
            state,
            "build",
            body,
            "please do",
            "--subject",
            "go",
            "--trailer",
            "dwp-pr: 7",
            "--trailer=Reviewed-by: me: too",
        ]);
        assert_eq!(repo.message("main"), message);
    }
    fs::write(repo.beside("text"), b"caf\xe9\n\n- dash\n").unwrap();
    for option in ["--body-file", "--prompt-file"] {
        repo.aynig_ok(["set-state", "--state", "b", option, "../text"]);
        let raw = repo.git_command().args(["cat-file", "commit", "main"]).output().unwrap().stdout;
        assert!(raw.ends_with(b"chore: set b\n\ncaf\xe9\n\n- dash\n\ndwp-state: b\n"), "{raw:?}");
    }
    for options in [["--body-stdin"].as_slice(), &["--prompt-stdin"], &["--body-file", "-"]] {
        let mut command = repo.aynig_command();
        command.args(["set-state", "--state", "b"]).args(options);
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        let text = format!("by {}", options.join(" "));
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), text.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
        assert!(repo.message("main").contains(&text), "{options:?}");
    }
    repo.aynig_ok(["set-state", "--state", "b", "--body", "- a list"]);
    assert!(repo.message("main").contains("- a list"));
}

#[test]
fn keep_trailers_leaves_the_runners_behind() {
    let repo = Repo::new();
    repo.ready("work", "build");
    repo.foreign_lease("work", RUN, "other", 1, 100);
    repo.aynig_ok(["set-state", "--state", "a", "--branch", "work"]);
    assert_eq!(repo.trailer("work", "dwp-pr"), "");
    repo.foreign_lease("work", RUN, "other", 1, 100);
    repo.aynig_ok([
        "set-state",
        "--state",
        "a",
        "--branch",
        "work",
        "--keep-trailers",
        "--trailer",
        "dwp-b: 2",
    ]);
    let over = format!("aynig-overrides: {RUN}");
    assert_eq!(repo.message("work"), format!("chore: set a\n\ndwp-state: a\ndwp-pr: 7\ndwp-b: 2\n{over}"));
    repo.foreign_lease("work", RUN, "other", 1, 100);
    repo.branch_from("work", "work", b"plain\n");
    repo.aynig_ok(["set-state", "--state", "a", "--branch", "work", "--keep-trailers"]);
    assert_eq!(repo.trailer("work", "dwp-pr"), "7", "from the lease below a plain commit");
    repo.branch_from("work", "work", b"plain\n");
    repo.aynig_ok(["set-state", "--state", "a", "--branch", "work", "--keep-trailers"]);
    assert_eq!(repo.trailer("work", "dwp-pr"), "", "but only from a lease");
}

/// CONTRACT 4.12, 4.13
#[test]
fn a_trailer_replaces_kept_ones_and_all_may_be_kept() {
    let repo = Repo::new();
    let asked =
        b"s\n\nask\n\ndocument: a.txt\ndwp-pr: 7\ndwp-pr: 8\nSigned-off-by: A <a@b>\ndwp-state: build\n";
    repo.branch_with_message("work", asked);
    let set = |options: &[&str]| {
        repo.aynig_ok(["set-state", "--branch", "work", "--state", "a"].iter().chain(options).copied());
        repo.trailers("work")
    };
    assert_eq!(set(&["--keep-trailers", "--trailer", "dwp-pr: 9"]), ["dwp-state: a", "dwp-pr: 9"]);
    repo.branch_with_message("work", asked);
    let all = ["dwp-state: a", "dwp-pr: 7", "dwp-pr: 8", "document: a.txt", "Signed-off-by: A <a@b>"];
    assert_eq!(set(&["--keep-trailers=all"]), all);
    repo.foreign_lease("work", RUN, "other", 1, 100);
    assert_eq!(
        set(&["--keep-trailers=all", "--trailer", "document: b"]),
        [
            "dwp-state: a",
            "dwp-pr: 7",
            "Signed-off-by: A <a@b>",
            "document: b",
            &format!("aynig-overrides: {RUN}")
        ],
        "a lease has the first, the commit that asked has the others"
    );
    let output = repo.aynig(["set-state", "--state", "a", "--keep-trailers=some"]);
    assert_refused(&output, 2, &["some", "all"]);
}

/// CONTRACT 4.12
#[test]
fn a_lease_does_not_grow_by_the_trailers_of_its_renewals() {
    let repo = Repo::new();
    repo.branch_with_message("work", b"s\n\ndwp-state: build\nother: x\n");
    let given = ["--branch", "work", "--trailer", "dwp-progress: 1"];
    repo.aynig_ok(["set-working"].into_iter().chain(given));
    repo.aynig_ok(["set-working"].into_iter().chain(given));
    assert_eq!(repo.message("work").matches("dwp-progress").count(), 1, "{}", repo.message("work"));
    assert!(!repo.message("work").contains("other"));
}

/// CONTRACT 4.14, 4.15
#[test]
fn the_ask_is_kept_and_replies_stack_below_it() {
    let repo = Repo::new();
    repo.branch_with_message("work", b"s\n\nDo it.\n\ndocument: a\ndwp-state: build\n");
    let set = |options: &[&str]| {
        repo.aynig_ok(["set-state", "--branch", "work"].iter().chain(options).copied());
        repo.message("work")
    };
    let mark = |state: &str| format!("[reply from {state} by Test Person, 20");
    assert_eq!(set(&["--state", "plan", "--keep-body"]), "chore: set plan\n\nDo it.\n\ndwp-state: plan");
    repo.foreign_lease("work", RUN, "other", 1, 100);
    let once = set(&["--state", "build", "--reply", "Use the other parser."]);
    assert!(once.starts_with(&format!("chore: set build\n\nDo it.\n\n{}", mark("build"))), "{once}");
    let end = format!("Z]\n\nUse the other parser.\n\ndwp-state: build\naynig-overrides: {RUN}");
    assert!(once.ends_with(&end), "{once}");
    repo.branch_from("work", "work", b"x\n\nIt broke.\n\ndwp-state: stalled\ndwp-stalled-run: r\n");
    fs::write(repo.beside("text"), "- And test it.\n").expect("a file");
    let twice = set(&["--retry", "--reply-file", "../text"]);
    let parts: Vec<&str> = twice.split("\n\n[reply from ").collect();
    assert_eq!((parts.len(), parts[0]), (3, "chore: set build\n\nDo it."), "{twice}");
    assert!(parts[2].starts_with("stalled by ") && parts[2].contains("]\n\n- And test it."), "{twice}");
    let thrice = set(&["--state", "a", "--keep-body", "--body", "As told."]);
    assert!(thrice.contains(&mark("build")) && thrice.ends_with("]\n\nAs told.\n\ndwp-state: a"), "{thrice}");
}

#[test]
fn a_reply_that_cannot_be_added_changes_nothing() {
    let repo = Repo::new();
    let head = repo.head("main");
    let rows: [(&[&str], i32, &[&str]); 5] = [
        (&["--state", "a", "--reply", "x"], 1, &["nothing was ever asked on main", "--body"]),
        (&["--state", "a", "--keep-body"], 1, &["nothing was ever asked on main"]),
        (&["--state", "a", "--reply", " "], 2, &["the reply is empty"]),
        (&["--state", "a", "--reply", "x", "--body", "y"], 2, &["--reply", "--body"]),
        (&["--retry", "--keep-body"], 2, &["--retry", "--keep-body"]),
    ];
    for (options, code, words) in rows {
        assert_refused(&repo.aynig(["set-state"].iter().chain(options).copied()), code, words);
    }
    assert_eq!(repo.head("main"), head);
}

#[test]
fn to_ask_again_for_a_state_without_a_command_is_questioned() {
    let repo = Repo::with_commands(&[("build", "exit 0")]);
    for (branch, state) in [("over", "done"), ("open", "build")] {
        repo.ready(branch, state);
    }
    let output = repo.aynig_ok(["set-state", "--retry", "over"]);
    assert!(err(&output).contains("over has no command for done"), "{}", err(&output));
    assert_eq!(err(&repo.aynig_ok(["set-state", "--retry", "open"])), "");
    assert_eq!(
        err(&repo.aynig_ok(["set-state", "--state", "done", "open"])),
        "",
        "that is how a workflow ends"
    );
}

#[test]
fn an_unborn_branch_gets_its_first_commit() {
    let repo = Repo::unborn();
    repo.write("first", "1");
    repo.git(["add", "first"]);
    let answer = listed(&repo.aynig_ok(["set-state", "--state", "build", "--json"]));
    assert_eq!(answer[0]["previousState"], serde_json::Value::Null);
    assert_eq!(answer[0]["parent"], serde_json::Value::Null);
    assert_eq!(repo.git(["rev-list", "--count", "main"]), "1");
    assert_eq!(repo.git(["ls-tree", "--name-only", "main"]), "first");
    let empty = Repo::unborn();
    empty.aynig_ok(["set-state", "--state", "build"]);
    assert_eq!(empty.git(["ls-tree", "main"]), "");
    empty.assert_tidy();
}

#[test]
fn an_index_without_files_is_a_tree_like_any_other() {
    let repo = Repo::new();
    repo.git(["rm", "-q", "--cached", "README"]);
    repo.aynig_ok(["set-state", "--state", "empty"]);
    assert_eq!(repo.git(["ls-tree", "main"]), "");
    repo.assert_tidy();
}

#[test]
fn misuse_is_refused_before_anything_is_touched() {
    let repo = Repo::new();
    let head = repo.head("main");
    for (arguments, words) in [
        (["--state", "working"].as_slice(), ["set-working", "hint: "].as_slice()),
        (&["--state", "../x"], &["not a legal state name"]),
        (&["--state", ""], &["it is empty"]),
        (&[], &["--state"]),
        (&["--state", "a", "--trailer", "dwp-run-id: x"], &["written by the runner only"]),
        (&["--state", "a", "--trailer", "Dwp-State: x"], &["written by the runner only"]),
        (&["--state", "a", "--trailer", "no colon"], &["has no colon"]),
        (&["--state", "a", "--trailer", "k: v\ndwp-state: b"], &["trailer", "cannot be written"]),
        (&["--state", "a", "--subject", "two\nlines"], &["subject cannot be written"]),
        (&["--state", "a", "--body", "x", "--body-stdin"], &["cannot be used with"]),
        (&["--state", "a", "--body-file", "missing"], &["could not read the body from", "missing", "hint: "]),
        (&["--state", "a", "--body-file", "/dev/zero"], &["/dev/zero is longer than 1 MiB", "hint: "]),
        (&["--state", "a", "--branch", "a..b"], &["not a legal branch name"]),
    ] {
        let arguments = ["set-state"].into_iter().chain(arguments.iter().copied());
        assert_refused(&repo.aynig(arguments), 2, words);
    }
    assert_eq!(repo.head("main"), head);
}

#[test]
fn where_there_is_no_current_branch_it_asks_for_one() {
    let repo = Repo::new();
    let bare = repo.beside("bare.git");
    repo.git(["clone", "--quiet", "--bare", ".", bare.to_str().unwrap()]);
    let bare = bare.to_str().unwrap();
    assert_refused(&repo.aynig(["-C", bare, "set-state", "--state", "a"]), 3, &["is bare", "--branch"]);
    repo.aynig_ok(["-C", bare, "set-state", "--state", "a", "--branch", "main"]);
    assert_eq!(repo.git(["-C", bare, "log", "-1", "--format=%s", "main"]), "chore: set a");
    repo.git(["checkout", "--quiet", "--detach"]);
    assert_refused(&repo.aynig(["set-state", "--state", "a"]), 3, &["is detached", "--branch", "git switch"]);
    repo.git(["symbolic-ref", "refs/heads/link", "refs/heads/main"]);
    let output = repo.aynig(["set-state", "--state", "a", "--branch", "link"]);
    assert_refused(&output, 2, &["symbolic ref to refs/heads/main", "--branch main"]);
}

#[test]
fn an_index_with_conflicts_is_no_tree() {
    let repo = Repo::new();
    repo.git(["checkout", "--quiet", "-b", "other"]);
    repo.write("README", "theirs\n");
    repo.commit_all("theirs");
    repo.git(["checkout", "--quiet", "main"]);
    repo.write("README", "ours\n");
    let head = repo.commit_all("ours");
    assert!(!repo.git_command().args(["merge", "-q", "other"]).output().unwrap().status.success());
    let output = repo.aynig(["set-state", "--state", "a"]);
    assert_refused(&output, 3, &["conflicts in README", "git merge --abort"]);
    assert_eq!(repo.head("main"), head);
}

#[test]
fn a_lock_that_was_left_on_the_index_is_told_with_what_to_do() {
    let repo = Repo::new();
    repo.write("staged", "1\n");
    repo.git(["add", "staged"]);
    let (head, lock) = (repo.head("main"), repo.path.join(".git/index.lock"));
    fs::write(&lock, "").unwrap();
    let hint = format!("hint: if no git is at work here (`pgrep -a git`): rm {}", lock.display());
    assert_refused(&repo.aynig(["set-state", "--state", "a"]), 3, &["index.lock", &hint]);
    assert_eq!(repo.head("main"), head);
}

#[test]
fn before_the_first_commit_nobody_is_told_to_make_a_branch_of_nothing() {
    let repo = Repo::unborn();
    let first = "no branch has a commit yet; make one: `git commit --allow-empty -m 'Begin'`";
    let output = repo.aynig(["set-state", "--branch", "w1", "--state", "build"]);
    assert_refused(&output, 1, &["no branch w1", first]);
    assert!(!err(&output).contains("lists the branches"), "{}", err(&output));
    repo.git(["commit", "--quiet", "--allow-empty", "-m", "Begin"]);
    repo.git(["switch", "--quiet", "--orphan", "fresh"]);
    let output = repo.aynig(["set-state", "--branch", "w1", "--state", "build"]);
    assert_refused(&output, 1, &["no branch w1", "`git branch` lists"]);
    repo.git(["branch", "w1", "main"]);
    repo.aynig_ok(["set-state", "--branch", "w1", "--state", "build"]);
}

#[test]
fn a_branch_that_moves_meanwhile_is_lost() {
    let repo = Repo::new();
    repo.ready("work", "build");
    // A signing program that moves the branch runs exactly between the look and the swap.
    let program = repo.beside("sign");
    fs::write(
        &program,
        "#!/bin/sh\nunset GIT_DIR\ncat > /dev/null\ngit -C \"$REPO\" update-ref refs/heads/work main\n\
         printf '\\n[GNUPG:] SIG_CREATED \\n' >&2\necho '-----BEGIN PGP SIGNATURE-----'\necho '-----END PGP SIGNATURE-----'\n",
    )
    .unwrap();
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    repo.git(["config", "gpg.program", program.to_str().unwrap()]);
    repo.git(["config", "commit.gpgSign", "true"]);
    let mut command = repo.aynig_command();
    command.env("REPO", &repo.path).args(["set-state", "--state", "a", "--branch", "work"]);
    let output = command.output().unwrap();
    assert_refused(&output, 1, &["work moved", &repo.head("main")[..10], "nothing was changed", "try again"]);
    assert_eq!(repo.head("work"), repo.head("main"));
}

/// CONTRACT 6.8
#[test]
fn inside_a_command_it_acts_on_the_commands_branch() {
    let repo = Repo::new();
    let main = repo.head("main");
    repo.ready("work", "build");
    let lease = repo.foreign_lease("work", RUN, "host", 300, 0);
    repo.write("staged", "s");
    repo.git(["add", "staged"]);
    let output = repo.aynig_inside("work", RUN).args(["set-state", "--state", "done"]).output().unwrap();
    assert!(output.status.success(), "{}", err(&output));
    assert_eq!(err(&output), "", "no warning about one's own lease");
    assert_eq!(repo.head("work~1"), lease);
    assert_eq!(repo.state("work"), "done");
    assert_eq!(repo.git(["ls-tree", "--name-only", "work"]), "README", "the index here is another branch's");
    assert_eq!(repo.head("main"), main);
}

#[test]
fn in_a_detached_worktree_of_the_command_its_index_counts() {
    let repo = Repo::new();
    repo.ready("work", "build");
    repo.foreign_lease("work", RUN, "host", 300, 0);
    let path = repo.beside("there");
    repo.git(["worktree", "add", "--quiet", "--detach", path.to_str().unwrap(), "work"]);
    fs::write(path.join("made"), "m").unwrap();
    repo.git(["-C", path.to_str().unwrap(), "add", "made"]);
    let run = |worktree: bool| {
        let mut command = repo.aynig_inside("work", RUN);
        command.current_dir(&path).args(["set-working"]);
        if worktree {
            command.env("WORKTREE_PATH", &path);
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", err(&output));
        repo.git(["ls-tree", "--name-only", "work"])
    };
    assert_eq!(run(false), "README");
    assert_eq!(run(true), "README\nmade");
}

#[test]
fn in_another_repository_the_surrounding_command_does_not_count() {
    let outer = Repo::new();
    let repo = Repo::new();
    let mut command = repo.aynig_inside("work", RUN);
    command.env("AYNIG_GIT_DIR", outer.path.join(".git")).args(["set-state", "--state", "a"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", err(&output));
    assert_eq!(repo.state("main"), "a");
}

#[test]
fn an_attempt_that_is_over_is_refused_unless_it_names_the_branch() {
    let repo = Repo::new();
    repo.ready("work", "build");
    let over: [(&str, &[&str]); 4] = [
        ("dwp-state: review", &["which declares the state review"]),
        ("dwp-state: stalled\ndwp-stalled-run: 11111111-2222-4333-8444-555555555555", &["the state stalled"]),
        (
            "dwp-state: working\ndwp-run-id: 99999999-2222-4333-8444-555555555555\ndwp-runner-id: far",
            &["a lease of far", "attempt 99999999"],
        ),
        ("no: state", &["which declares"]),
    ];
    for (trailers, words) in over {
        let head = repo.branch_from("work", "work", format!("s\n\n{trailers}\n").as_bytes());
        let output = repo.aynig_inside("work", RUN).args(["set-state", "--state", "a"]).output().unwrap();
        if trailers == "no: state" {
            // On top of the other attempt's lease.
            assert_refused(&output, 1, &["on top of a lease of far"]);
        } else {
            assert_refused(&output, 1, words);
        }
        assert_refused(&output, 1, &[RUN, "no longer holds work", &head[..10], "hint: `--branch work`"]);
        assert_eq!(repo.head("work"), head);
    }
    let mut command = repo.aynig_inside("work", RUN);
    command.args(["set-state", "--state", "a", "--branch", "work", "--force"]);
    assert!(command.output().unwrap().status.success());
    assert_eq!(repo.state("work"), "a");
    repo.git(["branch", "-D", "work"]);
    let output = repo.aynig_inside("work", RUN).args(["set-state", "--state", "a"]).output().unwrap();
    assert_refused(&output, 1, &["no branch work"]);
}

/// A process that a command left behind keeps the branch leased and advances it later.
fn a_process_left_behind(advance_from: &str) -> Repo {
    let repo = Repo::with_commands(&[(
        "build",
        r#"
        (
            exec > /dev/null 2> "$ROOM/trouble"
            set -e
            until test -e "$ROOM/settled"; do sleep 0.05; done
            cd "$WORKTREE_PATH"
            echo part > part; git add part
            "$AYNIG_BIN" set-working
            echo own > own; git add own; git commit -q -m "my own commit"
            cd "$FROM"
            "$AYNIG_BIN" set-state --state done --body 'later' --keep-trailers
            echo over >&2
            mv "$ROOM/trouble" "$ROOM/done"
        ) &
        exit 0"#,
    )]);
    repo.branch_with_message("work", b"s\n\ndwp-state: build\ndwp-pr: 7\n");
    let room = repo.path.parent().expect("the room").to_owned();
    let from = if advance_from.is_empty() { repo.path.clone() } else { repo.path.join(advance_from) };
    let mut runner = repo.aynig_command();
    let output = runner.env("ROOM", &room).env("FROM", from).args(["run"]).output().expect("it runs");
    assert!(output.status.success(), "{}", err(&output));
    assert_eq!(repo.state("work"), "working");
    let run = repo.trailer("work", "dwp-run-id");
    let main = repo.head("main");
    fs::write(room.join("settled"), "").expect("a file");
    wait_until("the process left behind", || room.join("done").exists());
    assert_eq!(repo.state("work"), "done", "{}", wait_for_file(&room.join("done")));
    assert_eq!(repo.trailer("work", "dwp-pr"), "7");
    assert_eq!(repo.git(["log", "-1", "--format=%s", "work~1"]), "my own commit");
    assert_eq!(repo.state("work~2"), "working");
    assert_eq!(repo.trailer("work~2", "dwp-run-id"), run);
    assert_eq!(repo.git(["ls-tree", "--name-only", "work~2"]), ".aynig\nREADME\npart");
    assert_eq!(repo.git(["ls-tree", "--name-only", "work"]), ".aynig\nREADME\nown\npart");
    assert_eq!(repo.head("main"), main);
    repo
}

#[test]
fn a_process_left_behind_advances_from_its_worktree() {
    a_process_left_behind(".worktrees/work");
}

#[test]
fn a_process_left_behind_advances_from_the_main_checkout() {
    a_process_left_behind("");
}

#[test]
fn retry_asks_again_with_body_and_trailers() {
    let repo = Repo::with_commands(&[(
        "count",
        r#"[ -e ../../../mended ] || exit 3; test "$BODY" = "How long?" && test "$DOCUMENT" = a.txt && echo 'SET_STATE {"state":"done"}'"#,
    )]);
    repo.git(["branch", "work"]);
    repo.aynig_ok([
        "set-state",
        "--branch",
        "work",
        "--state",
        "count",
        "--subject",
        "please",
        "--body",
        "How long?",
        "--trailer",
        "document: a.txt",
    ]);
    assert_eq!(repo.aynig(["run"]).status.code(), Some(1));
    let told = repo.message("work");
    let line = told.lines().find(|line| line.contains("To try again")).expect("the way back is named");
    let typed = line.rsplit("aynig ").next().expect("a command").to_owned();
    repo.aynig_ok(typed.split(' '));
    assert_eq!(repo.message("work"), "please\n\nHow long?\n\ndwp-state: count\ndocument: a.txt");
    let again = |trailers: &[&str]| {
        let options = trailers.iter().flat_map(|trailer| ["--trailer", trailer]);
        let set = repo.aynig_ok(["set-state", "work", "--retry"].into_iter().chain(options));
        let message = repo.message("work");
        (message.rsplit_once("dwp-state: count\n").expect("it declares").1.to_owned(), err(&set))
    };
    let trailers = |given: &[&str]| again(given).0;
    assert_eq!(trailers(&["document: b.txt", "issue: 7"]), "document: b.txt\nissue: 7");
    assert_eq!(trailers(&["document: a.txt"]), "issue: 7\ndocument: a.txt");
    let (later, said) = again(&["dwp-not-before: 2999-01-01T00:00:00Z"]);
    assert!(
        later.ends_with("dwp-not-before: 2999-01-01T00:00:00Z") && !said.contains("at once"),
        "{later}{said}"
    );
    let (now, said) = again(&[]);
    assert!(now == "issue: 7\ndocument: a.txt" && said.contains("at once"), "{now}{said}");
    std::fs::write(repo.beside("mended"), "yes").expect("a file");
    repo.aynig_ok(["run"]);
    assert_eq!(repo.state("work"), "done");
}

#[test]
fn retry_needs_something_to_ask_again() {
    let repo = Repo::new();
    let output = repo.aynig(["set-state", "--retry"]);
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    assert!(err(&output).contains("nothing was ever asked on main"), "{}", err(&output));
    let output = repo.aynig(["set-state", "--retry", "--state", "x"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_state_that_may_be_a_slip_is_warned_of_and_set() {
    let repo = Repo::with_commands(&[("review", "exit 0"), ("test", "exit 0")]);
    repo.git(["config", "aynig.branch", "main"]);
    repo.command(".aynig/roles/dev/command/publish", "exit 0");
    repo.commit_all("a role");
    let warned = |state: &str| err(&repo.aynig_ok(["set-state", "--state", state]));
    let line = "aynig set-state --state review --keep-body --keep-trailers=all";
    let words = format!("main has no command for revew; did you mean review? `{line}` requests it");
    let with_body = ["set-state", "--state", "revew", "--body", "a task", "--trailer", "Ticket: 7"];
    assert!(err(&repo.aynig_ok(with_body)).contains(&format!("warning: {words}")));
    assert_eq!(repo.state("main"), "revew", "it is lawful");
    assert!(out(&repo.aynig_ok(["status"])).contains(&format!("did you mean review? `{line}` requests it")));
    repo.aynig_ok(line.split(' ').skip(1));
    let kept = repo.git(["log", "-1", "--format=%b"]);
    let has = ["a task", "Ticket: 7", "dwp-state: review"].map(|text| kept.contains(text));
    assert_eq!(has, [true; 3], "{kept}");
    // The line names each part that `--keep-body --keep-trailers` leaves out.
    let wish = [
        "--subject",
        "Look: 'it'",
        "--lease-seconds",
        "777",
        "--trailer",
        "dwp-not-before: 2100-01-01T00:00:00Z",
    ];
    let said = err(&repo.aynig_ok(["set-state", "--state", "revew"].into_iter().chain(wish)));
    let asked = repo.git(["log", "-1", "--format=%B"]);
    let (_, line) = said.split_once("did you mean review? `aynig ").expect("a line");
    let line = line.split_once("` requests it").expect("its end").0;
    let typed = type_line(&repo, &format!("{} {line}", env!("CARGO_BIN_EXE_aynig")));
    assert!(typed.status.success(), "{line}: {}", err(&typed));
    assert_eq!(repo.git(["log", "-1", "--format=%B"]), asked.replace("revew", "review"));
    assert!(warned("revew").contains(&words));
    for lawful in ["review", "done", "tested", "reviewed", "publish", "published"] {
        assert_eq!(warned(lawful), "", "{lawful}");
    }
}
