//! A pass: which branches it selects, how many run at once, when the next pass runs, and what it prints.

use std::path::Path;

use serde_json::Value;

use super::scene::*;
use super::support::*;

fn json(text: &str) -> Value {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let value = values.next().expect("one object").expect("it is JSON");
    assert!(values.next().is_none(), "and only one: {text}");
    value
}

/// CONTRACT 11.3
#[test]
fn globs_select_branches() {
    let repo = Repo::scene(&[("work", "next done")]);
    let all = ["feat/a", "feat/deep/b", "fix/c", "other"];
    let cases: [(&[&str], &[&str]); 5] = [
        (&["feat/*"], &["feat/a", "feat/deep/b"]),
        (&["fix/c"], &["fix/c"]),
        (&["fix/*", "o?her"], &["fix/c", "other"]),
        (&["{feat,fix}/?"], &["feat/a", "fix/c"]),
        (&["nothing*"], &[]),
    ];
    for (globs, expected) in cases {
        for branch in all {
            repo.ready(branch, "work");
        }
        let arguments = globs.iter().flat_map(|glob| ["--branch", glob]);
        let output = repo.aynig_ok(["run", "--log-level", "debug"].into_iter().chain(arguments));
        for branch in all {
            let state = if expected.contains(&branch) { "done" } else { "work" };
            assert_eq!(repo.state(branch), state, "{globs:?} {branch}");
        }
        if expected.len() < all.len() {
            assert!(err(&output).contains("does not match --branch"), "{}", told(&output));
        }
    }
    let wrong = repo.aynig(["run", "--branch", "a[b"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", told(&wrong));
}

/// CONTRACT 11.6
#[test]
fn jobs_is_how_many_run_at_once() {
    // Each command waits until three have begun, so it would never end with fewer at once. Each counts the
    // running ones.
    let repo = Repo::scene(&[(
        "work",
        r#"mkdir -p "$ROOM/begun/$AYNIG_BRANCH" "$ROOM/in/$AYNIG_BRANCH"
        until [ "$(ls "$ROOM/begun" | wc -l)" -ge 3 ]; do [ -d "$ROOM" ] || exit 9; sleep 0.05; done
        ls "$ROOM/in" | wc -l >>"$ROOM/counts"
        rmdir "$ROOM/in/$AYNIG_BRANCH"
        next done"#,
    )]);
    let branches: Vec<String> = (0..9).map(|n| format!("b{n}")).collect();
    repo.ready_many(&branches, "work");
    repo.aynig_ok(["run", "--jobs", "3"]);
    assert!(branches.iter().all(|branch| repo.state(branch) == "done"));
    let counts = repo.noted_lines("counts");
    assert_eq!(counts.len(), 9);
    assert!(counts.iter().all(|count| ["1", "2", "3"].contains(&count.trim())), "{counts:?}");
    repo.assert_tidy();
}

/// CONTRACT 11.6
#[test]
fn no_branch_is_claimed_before_it_can_start() {
    let repo = Repo::scene(&[("work", "say ready $$\nawait release\nnext done")]);
    let branches: Vec<String> = (0..3).map(|n| format!("b{n}")).collect();
    repo.ready_many(&branches, "work");
    let runner = repo.aynig_start(["run"]);
    repo.said("ready");
    let states: Vec<String> = branches.iter().map(|branch| repo.state(branch)).collect();
    assert_eq!(states, ["working", "work", "work"]);
    repo.release("release");
    assert_eq!(runner.finish().status.code(), Some(0));
    assert!(branches.iter().all(|branch| repo.state(branch) == "done"));
}

/// CONTRACT 11.1
#[test]
fn one_pass_is_one_step_a_branch_and_drain_goes_to_the_end() {
    let repo = Repo::scene(&[("a", "next b"), ("b", "next c"), ("c", "next done")]);
    repo.ready("task", "a");
    repo.aynig_ok(["run"]);
    assert_eq!(repo.state("task"), "b");
    let output = repo.aynig_ok(["run", "--drain", "--json"]);
    assert_eq!(repo.state("task"), "done");
    let summary = json(&out(&output));
    assert_eq!(summary["passes"], 3, "the last found nothing to do");
    let states: Vec<&str> = summary["steps"]
        .as_array()
        .expect("steps")
        .iter()
        .filter_map(|step| step["state"].as_str())
        .collect();
    assert_eq!(states, ["c", "done"]);
    repo.assert_tidy();
}

#[test]
fn warnings_have_a_code_for_programs() {
    let repo = Repo::scene(&[("bad", "echo 'SET_STATE no'")]);
    repo.ready("task", "bad");
    let summary = json(&out(&repo.aynig_ok(["run", "--json", "--branch", "task", "--branch", "absent*"])));
    let warnings = summary["warnings"].as_array().expect("warnings");
    let about: Vec<_> = warnings.iter().map(|warning| (&warning["code"], &warning["branch"])).collect();
    assert_eq!(about, [(&Value::from("invalidDeclaration"), &Value::from("task"))]);
    let text = warnings[0]["text"].as_str().expect("words");
    assert!(text.starts_with("`bad` wrote an invalid SET_STATE on line 1 of its output"), "{text}");

    let summary = json(&out(&repo.aynig_ok(["run", "--json", "--branch", "absent*"])));
    let warning = &summary["warnings"][0];
    assert_eq!((&warning["code"], &warning["branch"]), (&Value::from("noBranchSelected"), &Value::Null));
}

#[test]
fn drain_goes_on_after_a_failure_and_says_so() {
    let repo = Repo::scene(&[("a", "next b"), ("b", "next done"), ("bad", "exit 1")]);
    repo.ready("a-bad", "bad");
    repo.ready("task", "a");
    let output = repo.aynig(["run", "--drain"]);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert_eq!((repo.state("a-bad"), repo.state("task")), ("stalled".to_owned(), "done".to_owned()));
}

/// CONTRACT 11.1
#[test]
fn watch_wakes_when_a_branch_changes() {
    let repo = Repo::scene(&[("work", "next done")]);
    let runner = repo.aynig_start(["run", "--watch=3600"]);
    // Several in a row: the later ones find it asleep, and only the change can wake it.
    for branch in ["one", "two", "deep/er/three", "deep/four", "five"] {
        repo.ready(branch, "work");
        wait_until(&format!("{branch} to be done"), || repo.state(branch) == "done");
        wait_until("its worktree to go", || repo.worktrees().is_empty());
    }
    repo.git(["pack-refs", "--all", "--prune"]);
    // On top of the last commit: the dates are equal, so the same commit on `main` would be the same request.
    repo.branch_from("one", "one", b"again\n\ndwp-state: work\n");
    wait_until("a packed branch to be done again", || repo.state("one") == "done");
    runner.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(runner.finish().status.code(), Some(143));
    repo.assert_tidy();
}

/// CONTRACT 11.1
#[test]
fn watch_recovers_when_a_lease_ends() {
    let repo = Repo::scene(&[("work", "next done")]);
    let trigger = repo.ready("task", "work");
    let lease = repo.taken_by_other(&trigger, "task", 2);
    let runner = repo.aynig_start(["run", "--watch=3600"]);
    wait_until("the lease to be closed", || repo.state("task") == "stalled");
    assert_eq!(repo.head("task~1"), lease);
    runner.signal(nix::sys::signal::Signal::SIGTERM);
    let output = runner.finish();
    assert_eq!(output.status.code(), Some(143), "{}", told(&output));
    assert!(out(&output).contains("had run out"), "{}", told(&output));
    repo.assert_tidy();
}

/// CONTRACT 11.7
#[test]
fn what_a_recovery_asks_for_is_looked_at_in_the_next_pass() {
    let repo = Repo::scene(&[("stalled", "say ran yes; next done")]);
    repo.ready("task", "work");
    repo.foreign_lease("task", "11111111-2222-4333-8444-555555555555", "other", 5, 60);
    repo.aynig_ok(["run"]);
    assert_eq!(repo.state("task"), "stalled");
    assert!(!repo.beside("ran").exists());
    repo.aynig_ok(["run"]);
    assert_eq!((repo.state("task"), repo.said("ran")), ("done".to_owned(), "yes".to_owned()));
}

#[test]
fn watch_prints_a_json_object_a_round_that_did_something() {
    let repo = Repo::scene(&[("work", "next done")]);
    let runner = repo.aynig_start(["run", "--watch=3600", "--json"]);
    for branch in ["one", "two"] {
        repo.ready(branch, "work");
        wait_until(&format!("{branch} to be done"), || repo.state(branch) == "done");
    }
    wait_until("the last worktree to go", || repo.worktrees().is_empty());
    runner.signal(nix::sys::signal::Signal::SIGTERM);
    let output = runner.finish();
    let rounds: Vec<Value> = out(&output).lines().map(json).collect();
    let branches: Vec<&str> = rounds
        .iter()
        .flat_map(|round| round["steps"].as_array().expect("steps"))
        .filter_map(|step| step["branch"].as_str())
        .collect();
    assert_eq!(branches, ["one", "two"], "{}", told(&output));
}

#[test]
fn the_summary_is_one_json_object() {
    let repo = Repo::scene(&[
        ("good", "next done"),
        ("bad", "echo half >half.txt; exit 7"),
        ("quiet", "true"),
        ("deadly", "kill -KILL $$; await release"),
    ]);
    let good = repo.ready("a-good", "good");
    repo.ready("b-bad", "bad");
    repo.ready("c-quiet", "quiet");
    repo.ready("d-deadly", "deadly");
    let expired = repo.ready("e-expired", "good");
    repo.taken_by_other(&expired, "e-expired", 1);
    repo.ready("none", "unknown");
    wait_until("a lease of one second to end", || {
        let dated: u64 = repo.git(["log", "-1", "--format=%ct", "e-expired"]).parse().expect("a date");
        now() > dated + 1
    });
    let output = repo.aynig(["run", "--json"]);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let summary = json(&out(&output));
    assert_eq!(summary["passes"], 1);
    assert_eq!(summary["branchCount"], 7, "main too");
    assert_eq!(summary["recovered"], 1);
    assert_eq!(summary["lostRaces"], 0);
    assert_eq!(summary["errors"], Value::Array(Vec::new()));
    assert_eq!(summary["warnings"], Value::Array(Vec::new()));
    let steps = summary["steps"].as_array().expect("steps");
    assert_eq!(steps.len(), 4);
    let step = |branch: &str| steps.iter().find(|step| step["branch"] == branch).expect("a step");

    let step_good = step("a-good");
    assert_eq!(step_good["trigger"], good.as_str());
    assert_eq!(step_good["originState"], "good");
    assert_eq!(step_good["outcome"], "advanced");
    assert_eq!(step_good["state"], "done");
    assert_eq!(step_good["commit"], repo.head("a-good").as_str());
    assert_eq!(step_good["runId"], repo.trailer("a-good~1", "dwp-run-id").as_str());
    assert_eq!(step_good["exitCode"], 0);
    assert_eq!(step_good["rescueRef"], Value::Null);
    assert_eq!(step_good["leftInPlace"], Value::Null);
    assert!(step_good["elapsedMs"].is_u64());

    let bad = step("b-bad");
    assert_eq!(
        (&bad["outcome"], &bad["state"], &bad["exitCode"]),
        (&"stalled".into(), &"stalled".into(), &7.into())
    );
    assert_eq!(bad["rescueRef"], repo.rescue().as_str());
    assert!(bad["reason"].as_str().is_some_and(|reason| reason.contains('7')));

    let quiet = step("c-quiet");
    assert_eq!((&quiet["outcome"], &quiet["state"]), (&"working".into(), &"working".into()));
    let deadly = step("d-deadly");
    assert_eq!((&deadly["outcome"], &deadly["exitCode"]), (&"stalled".into(), &Value::Null));
}

#[test]
fn nothing_to_do_is_success_and_silence() {
    let repo = Repo::scene(&[]);
    for arguments in [vec!["run"], vec!["run", "--drain"]] {
        let output = repo.aynig_ok(arguments);
        assert_eq!((out(&output).as_str(), err(&output).as_str()), ("", ""));
    }
    assert_eq!(json(&out(&repo.aynig_ok(["run", "--json"])))["steps"], Value::Array(Vec::new()));
    assert!(!repo.path.join(".aynig/logs").exists(), "an idle pass writes nothing");
}

/// CONTRACT 9.1
#[test]
fn worktrees_are_where_the_option_says() {
    let repo = Repo::scene(&[("work", "pwd >\"$ROOM/pwd\"; next done")]);
    let outside = repo.beside("outside");
    let top = repo.path.display().to_string();
    for (given, expected) in [
        (".worktrees", format!("{top}/.worktrees/")),
        ("build/trees", format!("{top}/build/trees/")),
        ("../beside", format!("{}/", repo.beside("beside").display())),
        (outside.to_str().expect("text"), format!("{}/", outside.display())),
    ] {
        repo.ready("task", "work");
        repo.aynig_ok(["run", "--worktree", given]);
        assert_eq!(repo.state("task"), "done");
        let place = repo.said("pwd");
        assert!(place.starts_with(&expected), "{given}: {place}");
        assert_eq!(repo.git(["status", "--porcelain"]), "", "{given}");
        repo.assert_tidy();
    }
}

#[test]
fn a_relative_place_is_below_the_top_wherever_it_is_started() {
    let repo = Repo::scene(&[("work", "pwd >\"$ROOM/pwd\"; next done")]);
    repo.ready("task", "work");
    let sub = repo.path.join("sub");
    std::fs::create_dir(&sub).expect("a directory");
    let output = repo.aynig_command().current_dir(&sub).args(["run", "-w", "trees"]).output().expect("runs");
    assert!(output.status.success(), "{}", told(&output));
    assert!(repo.said("pwd").starts_with(&format!("{}/trees/", repo.path.display())));
}

/// CONTRACT 9.1
#[test]
fn a_foreign_directory_at_its_place_is_not_touched() {
    let repo = Repo::scene(&[("work", "pwd >\"$ROOM/pwd\"; next done")]);
    repo.ready("task", "work");
    repo.aynig_ok(["run"]);
    let place = repo.said("pwd");
    // A directory of a person is at exactly that path now.
    std::fs::create_dir_all(&place).expect("a directory");
    let theirs = Path::new(&place).join("theirs.txt");
    std::fs::write(&theirs, "precious\n").expect("a file");
    repo.ready("task", "work");
    repo.aynig_ok(["run"]);
    assert_eq!(repo.state("task"), "done");
    assert_ne!(repo.said("pwd"), place);
    assert_eq!(std::fs::read_to_string(&theirs).expect("still there"), "precious\n");
    repo.assert_tidy();
}

/// CONTRACT 9.4
#[test]
fn a_worktree_that_cannot_be_made_stalls_the_branch_and_runs_nowhere_else() {
    let repo = Repo::scene(&[("work", "say ran yes; next done")]);
    repo.ready("task", "work");
    std::fs::write(repo.beside("trees"), "a file\n").expect("a file");
    for place in ["../trees", "../trees/deep"] {
        let output = repo.aynig(["run", "--worktree", place]);
        assert_eq!(output.status.code(), Some(3), "{}", told(&output));
        assert_eq!(repo.state("task"), "work", "what can be seen beforehand costs no branch its state");
    }
    // A required filter that fails only when the files are written.
    repo.write(".git/info/attributes", "* filter=broken\n");
    repo.git(["config", "filter.broken.smudge", "false"]);
    repo.git(["config", "filter.broken.required", "true"]);
    let output = repo.aynig(["run"]);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert_eq!(repo.state("task"), "stalled");
    assert!(repo.message("task").contains("worktree could not be made"), "{}", repo.message("task"));
    assert!(!repo.beside("ran").exists());
    assert_eq!(std::fs::read_to_string(repo.beside("trees")).expect("still there"), "a file\n");
    repo.assert_tidy();
}

/// CONTRACT 9.1
#[test]
fn worktrees_and_logs_are_hidden_from_git_status() {
    let repo = Repo::scene(&[("work", "say ready $$\nawait release\nnext done")]);
    repo.ready("task", "work");
    let runner = repo.aynig_start(["run"]);
    repo.said("ready");
    assert_eq!(repo.worktrees().len(), 1);
    assert_eq!(repo.git(["status", "--porcelain", "--untracked-files=all"]), "");
    repo.release("release");
    assert_eq!(runner.finish().status.code(), Some(0));
    assert_eq!(repo.git(["status", "--porcelain", "--untracked-files=all"]), "");
}

/// CONTRACT 11.2, 11.5
#[test]
fn every_branch_passed_over_has_a_reason() {
    let repo = Repo::scene(&[("work", "next done")]);
    repo.write(".aynig/command/loose", "#!/bin/sh\n");
    let trigger = repo.ready("a-working", "work");
    repo.taken_by_other(&trigger, "a-working", 300);
    repo.ready("b-unknown", "unknown");
    repo.ready("c-loose", "loose");
    repo.branch_with_message("d-invalid", b"x\n\ndwp-state: ../evil\n");
    repo.branch_with_message("e-plain", b"nothing\n");
    repo.git(["symbolic-ref", "refs/heads/f-alias", "refs/heads/b-unknown"]);
    let output = repo.aynig_ok(["run", "--log-level", "debug"]);
    let said = err(&output);
    let reason = |branch: &str| {
        said.lines()
            .find(|line| line.contains(branch))
            .unwrap_or_else(|| panic!("{branch}: {}", told(&output)))
    };
    assert!(reason("branch=a-working").contains("other-host holds it for another"));
    assert!(reason("branch=b-unknown").contains("no command for this state"));
    assert!(reason("warning: c-loose").contains("but not in commit"), "{said}");
    assert!(reason("d-invalid").contains("warning"), "{said}");
    assert!(reason("branch=e-plain").contains("declares no state"));
    assert!(reason("branch=f-alias").contains("symbolic ref"));
    assert!(reason("branch=main").contains("is checked out here"));
    assert_eq!(out(&output), "");
}

#[test]
fn a_command_without_the_executable_bit_is_named_with_its_cure() {
    let repo = Repo::scene(&[("work", "next done")]);
    repo.git(["update-index", "--chmod=-x", ".aynig/command/work"]);
    repo.git(["commit", "-q", "-m", "oops"]);
    repo.ready("task", "work");
    let output = repo.aynig_ok(["run"]);
    assert_eq!(repo.state("task"), "work", "nothing is written");
    let said = err(&output);
    let cure = said.split('`').nth(1).unwrap_or_else(|| panic!("{said}"));
    assert!(cure.starts_with("chmod +x .aynig/command/work && git add"), "{said}");
    // On that branch the printed command works as it is.
    repo.git(["switch", "--quiet", "task"]);
    let cure = cure.replace("aynig ", &format!("'{}' ", binary().display()));
    let typed =
        hermetic(std::process::Command::new("sh").args(["-c", &cure]).current_dir(&repo.path)).output();
    assert!(typed.expect("sh runs").status.success(), "{cure}");
    repo.git(["switch", "--quiet", "main"]);
    repo.aynig_ok(["run"]);
    assert_eq!(repo.state("task"), "done");
}

/// CONTRACT 11.1
#[test]
fn drain_ends_where_a_command_sets_its_branch_back() {
    let repo = Repo::scene(&[("again", "echo x >>\"$ROOM/ran\"; git reset --quiet --soft HEAD~1")]);
    let trigger = repo.ready("loop", "again");
    let output = repo.aynig(["run", "--drain"]);
    assert_eq!(output.status.code(), Some(1), "{}{}", out(&output), err(&output));
    assert_eq!(repo.noted_lines("ran"), ["x"], "one commit's command runs once");
    assert_eq!(repo.head("loop"), trigger);
}

/// A pass keeps the findings of the previous one, except those that can change while HEAD stays. Here these
/// are files on disk, and the state of a branch that was judged before.
#[test]
fn the_next_pass_sees_what_changed_though_its_heads_did_not() {
    let add = "mkdir -p \"$MAIN/.aynig/command\" && echo '#!/bin/sh' >\"$MAIN/.aynig/command/later\" && chmod +x \"$MAIN/.aynig/command/later\"";
    let move_on = "git -C \"$MAIN\" update-ref refs/heads/c \"$(git -C \"$MAIN\" rev-parse d)\"";
    let repo = Repo::scene(&[("work", &format!("{add} && {move_on} && next done")), ("second", "next done")]);
    repo.ready("a", "work");
    repo.ready("b", "later");
    repo.ready("c", "nothing");
    repo.ready("d", "second");
    let mut run = repo.aynig_command();
    run.env("MAIN", &repo.path).args(["run", "--drain", "--branch", "[abc]"]);
    let output = run.output().expect("aynig runs");
    assert!(output.status.success(), "{}", told(&output));
    assert_eq!(repo.state("a"), "done");
    assert_eq!(repo.state("c"), "done", "its HEAD was moved meanwhile: {}", told(&output));
    let warnings = err(&output);
    assert_eq!(
        warnings.matches("b: later was not run").count(),
        warnings.matches("later was not run").count()
    );
    assert!(warnings.contains("later was not run"), "{warnings}");
}
