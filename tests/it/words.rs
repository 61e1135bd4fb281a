//! Messages after a typo, and the next steps in messages: they name the intended thing, and nothing else is
//! acted on.

use super::support::*;

/// The message of a refusal with its hints.
fn said<const N: usize>(repo: &Repo, code: i32, arguments: [&str; N]) -> String {
    let output = repo.aynig(arguments);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", err(&output));
    err(&output)
}

#[test]
fn a_next_step_names_the_branch_that_was_asked_about() {
    let repo = Repo::new();
    repo.git(["branch", "plain"]);
    repo.git(["branch", "a;b"]);
    for branch in ["plain", "a;b"] {
        let named = if branch == "plain" { "plain" } else { "'a;b'" };
        let set = format!("`aynig set-state --branch {named} --state STATE");
        let claim = said(&repo, 2, ["set-working", "--branch", branch]);
        assert!(claim.contains(&set) && !claim.contains("HEAD"), "{claim}");
        for text in
            [said(&repo, 1, ["set-state", "--retry", "--branch", branch]), said(&repo, 0, ["log", branch])]
        {
            assert!(text.contains(&set), "{text}");
        }
        let logs = said(&repo, 1, ["logs", "--branch", branch]);
        assert!(logs.contains(&format!("`aynig status --branch {named}`")), "{logs}");
    }
    let here = said(&repo, 2, ["set-working"]);
    assert!(here.contains("`aynig set-state --state STATE`"), "the checked-out branch needs no name: {here}");
}

#[test]
fn a_mistyped_branch_is_asked_about_and_not_to_be_made() {
    let repo = Repo::new();
    repo.git(["branch", "monday"]);
    for arguments in
        [["log", "mondya"].as_slice(), &["events", "--branch", "mondya"], &["logs", "--branch", "mondya"]]
    {
        let output = repo.aynig(arguments.iter().copied());
        assert_refused(&output, 1, &["did you mean monday?", "`git branch` lists"]);
    }
    for text in [
        said(&repo, 1, ["set-state", "--state", "ok", "mondya"]),
        said(&repo, 1, ["status", "mondya"]),
        said(&repo, 1, ["status", "--watch", "mondya"]),
        said(&repo, 1, ["cancel", "mondya"]),
        said(&repo, 1, ["run", "mondya"]),
        said(&repo, 1, ["run", "--drain", "--branch", "mondya"]),
    ] {
        assert!(
            text.contains("there is no branch mondya") && text.contains("did you mean monday?"),
            "{text}"
        );
        assert!(!text.contains("git branch mondya") && !text.contains("--branch"), "{text}");
    }
    assert!(said(&repo, 0, ["run", "no/*"]).contains("no branch matches no/*; "));
    assert!(
        said(&repo, 0, ["run", "monday"]).contains("nothing to do on monday; `aynig status monday` says why")
    );
    for full in ["refs/heads/monday", "heads/monday"] {
        for text in
            [said(&repo, 1, ["log", full]), said(&repo, 1, ["set-state", "--state", "ok", "--branch", full])]
        {
            assert!(text.contains("`--branch monday`") && !text.contains("git branch "), "{text}");
        }
    }
    let none = said(&repo, 1, ["set-state", "--state", "ok", "--branch", "refs/heads/none"]);
    assert!(!none.contains("git branch refs"), "{none}");
}

/// CONTRACT 5.20
#[test]
fn a_branch_the_remote_lacks_can_be_made_there() {
    let hub = Repo::new().into_bare();
    let repo = hub.clone_beside("clone");
    let set = ["set-state", "--remote", "origin", "--branch", "newb", "--state", "ok"];
    let hold = ["set-working", "--remote", "origin", "--branch", "newb"];
    for text in [said(&repo, 1, set), said(&repo, 1, hold)] {
        assert!(text.contains("`git push origin HEAD:refs/heads/newb`"), "{text}");
    }
    assert_eq!(hub.git(["for-each-ref", "--format=%(refname)"]), "refs/heads/main");
    repo.git(["push", "--quiet", "origin", "HEAD:refs/heads/newb"]);
    repo.aynig_ok(set);
    // The one that is here has work of its own.
    repo.git(["branch", "mine"]);
    let own = said(&repo, 1, ["set-state", "--remote", "origin", "--branch", "mine", "--state", "ok"]);
    assert!(own.contains("it is only here: `git push origin mine`") && !own.contains("HEAD:"), "{own}");
    let read = said(&repo, 1, ["log", "--remote", "origin", "other"]);
    assert!(!read.contains("git push"), "{read}");
    let near = said(&repo, 1, ["log", "--remote", "origin", "nebw"]);
    assert!(near.contains("did you mean newb?"), "{near}");
}

#[test]
fn a_mistyped_subcommand_is_asked_about_and_hidden_calls_are_not_offered() {
    let repo = Repo::new();
    for (arguments, near) in [
        (&["statsu"][..], "status"),
        (&["rnu"], "run"),
        (&["-q", "lgo", "--json"], "log"),
        (&["approve", "r"], "flow approve"),
        (&["orch", "pause", "r"], "run pause"),
        (&["orch", "set", "r"], "node set"),
        (&["orch", "spwan", "r"], "spawn"),
        (&["publsh", "r"], "publish"),
        (&["workspace", "rmove"], "remove"),
        (&["workspace", "lsit"], "list"),
    ] {
        let output = repo.aynig(arguments.iter().copied());
        assert_refused(&output, 2, &["similar subcommand", &format!("'{near}'")]);
    }
    assert!(!said(&repo, 2, ["frobnicate"]).contains("similar"));
    for word in ["watchdo", "__watchdo", "notify", "__notif"] {
        let text = said(&repo, 2, [word]);
        assert!(!text.contains("__watchdog") && !text.contains("__notify"), "{text}");
    }
}

#[test]
fn what_the_program_calls_itself_is_refused_to_people() {
    let repo = Repo::new();
    for arguments in [
        ["__watchdog"].as_slice(),
        &["__notify"],
        &["__notify", "true", "1"],
        &["__notify", "true", "soon"],
        &["__watchdog", "--help"],
    ] {
        let output = repo.aynig(arguments.iter().copied());
        assert_refused(&output, 2, &["is not for people", "aynig --help"]);
    }
}

#[test]
fn a_remote_that_cannot_be_reached_is_told_in_a_persons_words() {
    let repo = Repo::new();
    repo.git(["remote", "add", "origin", "/nowhere/at/all"]);
    for arguments in [
        ["run", "--remote", "origin"].as_slice(),
        &["status", "--remote", "origin", "--all"],
        &["set-state", "--remote", "origin", "--branch", "main", "--state", "ok"],
    ] {
        let text = err(&repo.aynig(arguments.iter().copied()));
        assert!(text.contains("`git ls-remote origin` shows"), "{text}");
        assert!(!text.contains("--no-tags") && !text.contains("--end-of-options"), "{text}");
        assert!(text.contains("/nowhere/at/all"), "git's own words stay: {text}");
    }
    let debug = err(&repo.aynig(["--log-level", "debug", "run", "--remote", "origin"]));
    assert!(debug.contains("fetch --quiet --no-tags"), "{debug}");
}

#[test]
fn a_wrong_git_dir_and_a_mistyped_remote_are_named() {
    let repo = Repo::new();
    assert_refused(&repo.aynig(["set-state"]), 2, &["--state <STATE>|--retry"]);
    let mut command = repo.aynig_command();
    let output = command.env("GIT_DIR", "/nowhere").arg("status").output().expect("aynig runs");
    assert_refused(&output, 3, &["GIT_DIR names", "/nowhere", "unset GIT_DIR"]);
    repo.git(["remote", "add", "origin", "."]);
    assert_refused(&repo.aynig(["run", "--remote", "orign"]), 2, &["did you mean origin?"]);
}

#[test]
fn what_is_wanted_stands_where_a_title_would_only_repeat_the_state() {
    let repo = Repo::new();
    repo.git(["branch", "task"]);
    repo.aynig_ok([
        "set-state",
        "--branch",
        "task",
        "--state",
        "build",
        "--body",
        "\nput a roof on it\nsoon",
    ]);
    let table = out(&repo.aynig_ok(["status", "--all"]));
    assert!(table.contains("put a roof on it") && !table.contains("chore"), "{table}");
    let log = out(&repo.aynig_ok(["log", "task"]));
    assert!(log.contains("put a roof on it"), "{log}");
    assert_eq!(repo.git(["log", "-1", "--format=%s", "task"]), "chore: set build");
}

#[test]
fn a_key_that_is_nearly_one_that_is_read_is_asked_about_by_hand_and_in_set_state() {
    let answer = r#"echo 'SET_STATE {"state":"done","trailers":{"dwp-notbefore":"x","dwp-step":"2"}}'"#;
    let repo = Repo::with_commands(&[("work", answer)]);
    repo.git(["branch", "task"]);
    let set = |key: &str| {
        let trailer = format!("{key}: 1");
        err(&repo.aynig_ok(["set-state", "--branch", "task", "--state", "work", "--trailer", &trailer]))
    };
    let text = set("dwp-not-befor");
    assert!(text.starts_with("warning: ") && text.contains("did you mean dwp-not-before?"), "{text}");
    assert_eq!(repo.trailer("task", "dwp-not-befor"), "1", "and it is set all the same");
    for lawful in ["dwp-step", "dwp-pr", "other"] {
        assert_eq!(set(lawful), "", "{lawful}");
    }
    let ran = err(&repo.aynig_ok(["run"]));
    assert_eq!(ran.matches("did you mean dwp-not-before?").count(), 1, "{ran}");
    assert_eq!((repo.state("task"), repo.trailer("task", "dwp-notbefore")), ("done".into(), "x".into()));
}

#[test]
fn a_wrong_number_or_duration_is_answered_with_the_accepted_ones() {
    let repo = Repo::new();
    for (arguments, wanted) in [
        (["run", "--jobs", "x"].as_slice(), "write a number from 1 on"),
        (&["run", "--jobs", "0"], "write a number from 1 on"),
        (&["run", "--watch=x"], "write 90s, 5m, 2h, 14d, 1h30m, or a number of seconds"),
        (&["status", "--watch=0"], "must be from 1 to 86400 s"),
        (&["log", "-n", "x"], "write a number from 0 on"),
        (&["run", "--grace-seconds=-1"], "write 90s, 5m, 2h, 14d, 1h30m, or a number of seconds"),
        (&["clean", "--keep", "all"], "write a number from 0 on"),
    ] {
        let output = repo.aynig(arguments.iter().copied());
        assert_refused(&output, 2, &[wanted]);
        assert!(!err(&output).contains("invalid digit"), "{}", err(&output));
    }
}

#[test]
fn a_page_of_the_manual_is_read_by_man_on_a_terminal_and_is_roff_elsewhere() {
    let repo = Repo::new();
    let bin = repo.beside("bin");
    std::fs::create_dir(&bin).expect("a directory");
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let shown = |man: &str| {
        let script = bin.join("man");
        std::fs::write(&script, format!("#!/bin/sh\n{man}\n")).expect("a script");
        std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .expect("chmod");
        repo.in_terminal((24, 80), &[("PATH", path.as_str())], &["manual", "run"]).finish()
    };
    let (text, code) = shown(r#"echo "read by $*"; grep -c '^.SH' "#);
    assert_eq!(code, 0, "{text}");
    assert!(text.starts_with("read by -l -") && !text.contains(".SH"), "{text}");
    let (text, code) = shown("cat >/dev/null; exit 16");
    assert_eq!((code, text.matches(".SH SYNOPSIS").count()), (0, 1), "it could not be shown: {text}");
    assert!(out(&repo.aynig_ok(["manual", "run"])).starts_with(".ie"), "elsewhere it is roff");
}

#[test]
fn a_state_below_somebodys_commit_is_pointed_at() {
    let repo = Repo::new();
    repo.git(["branch", "plain"]);
    repo.ready("task", "review");
    let reason = |branch: &str| {
        let rows = listed(&repo.aynig_ok(["status", "--branch", branch, "--json"]));
        rows[0]["note"].as_str().unwrap_or_default().to_owned()
    };
    repo.branch_from("task", "task", b"my own commit\n");
    let said = reason("task");
    assert!(said.contains("review") && said.contains("`aynig set-state --retry --branch task`"), "{said}");
    repo.aynig_ok(["set-state", "--retry", "--branch", "task"]);
    assert_eq!(repo.state("task"), "review");
    assert_eq!(reason("plain"), "HEAD declares no state");
    repo.foreign_lease("task", "11111111-2222-4333-8444-555555555555", "elsewhere", 60, 0);
    repo.branch_from("task", "task", b"the command's own commit\n");
    assert_eq!(reason("task"), "HEAD declares no state", "its runner will end it");
}
