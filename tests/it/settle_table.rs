//! The result of every end of a command, row by row (CONTRACT 6.4), and the handling of its own commits and
//! HEAD.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::probe::*;
use super::support::*;

const SET_DONE: &str = r#"echo 'SET_STATE {"state":"done"}'"#;

/// Names of the files in a revision's tree, except commands.
fn files(repo: &Repo, revision: &str) -> Vec<String> {
    let list = repo.git(["ls-tree", "-r", "--name-only", revision]);
    list.lines().filter(|name| !name.starts_with(".aynig/")).map(str::to_owned).collect()
}

/// The one rescue ref. Asserts that the run printed it and that it contains the attempt's id.
fn rescue(repo: &Repo) -> String {
    let refs = repo.rescues();
    let [name] = refs.as_slice() else { panic!("one rescue was expected: {refs:?}") };
    assert!(name.starts_with("refs/aynig/rescue/work/"), "{name}");
    name.clone()
}

// Row 1: exit 0 with a declaration.

/// CONTRACT 6.4
#[test]
fn exit_0_with_set_state_lands_the_index() {
    let repo = Repo::one_step(&format!(
        "echo new > staged; git add staged; git rm --quiet --cached README; rm README\n{SET_DONE}"
    ));
    repo.run_expecting(0, &[]);
    assert_eq!(repo.trailers("work"), ["dwp-state: done"]);
    assert_eq!(files(&repo, "work"), ["staged"]);
    assert_eq!(repo.git(["show", "work:staged"]), "new");
    assert_eq!(repo.rescues(), Vec::<String>::new());
    repo.assert_tidy();
}

/// CONTRACT 6.4, 9.5
#[test]
fn what_is_not_staged_does_not_land_and_is_saved() {
    let repo = Repo::one_step(&format!(
        "echo new > staged; git add staged; echo more >> README; echo x > untracked\n{SET_DONE}"
    ));
    let output = repo.run_expecting(0, &[]);
    assert_eq!(files(&repo, "work"), ["README", "staged"]);
    assert_eq!(repo.git(["show", "work:README"]), "a repository for a test");
    let rescue = rescue(&repo);
    assert!(out(&output).contains(&rescue), "{}", out(&output));
    assert_eq!(repo.git(["show", &format!("{rescue}:README")]), "a repository for a test\nmore");
    assert_eq!(repo.git(["show", &format!("{rescue}:untracked")]), "x");
    assert_eq!(repo.head(&format!("{rescue}^")), repo.head("work"));
    repo.assert_tidy();
}

#[test]
fn ignored_files_are_nobodys_loss() {
    let repo = Repo::one_step(&format!("echo x > build.log; {SET_DONE}"));
    repo.write(".gitignore", "*.log\n");
    repo.commit_all("ignore");
    repo.ready("work", "step");
    repo.run_expecting(0, &[]);
    assert_eq!(repo.rescues(), Vec::<String>::new());
    repo.assert_tidy();
}

/// CONTRACT 1.14, 4.10
#[test]
fn a_result_that_cannot_be_encoded_is_refused_where_it_is_declared() {
    let repo = Repo::one_step(
        r#"echo x > f; git add f; printf '%s\n' 'SET_STATE {"state":"done","subject":"one\ntwo"}'"#,
    );
    let output = repo.run_expecting(0, &[]);
    assert_eq!(repo.state("work"), "working", "as if nothing had been declared");
    let line = one_message(&output, "SET_STATE");
    assert!(line.contains("work") && line.contains("subject") && line.contains("line break"), "{line}");
}

/// CONTRACT 6.10
#[test]
fn an_index_with_conflicts_cannot_land() {
    let repo = Repo::one_step(
        "blob=$(git hash-object -w README)\n\
         printf '100644 %s 1\\tboth\\n100644 %s 2\\tboth\\n' $blob $blob | git update-index --index-info\n\
         echo 'SET_STATE {\"state\":\"done\"}'",
    );
    let output = repo.run_expecting(1, &[]);
    assert_eq!(repo.state("work"), "stalled");
    let body = repo.body("work");
    assert!(body.contains("its result could not be written") && body.contains("write-tree"), "{body}");
    assert!(out(&output).contains("work  step → stalled"), "{}", out(&output));
}

/// CONTRACT 1.13, 6.10
#[test]
fn a_result_that_cannot_be_signed_stalls() {
    let repo = Repo::one_step(SET_DONE);
    repo.command(
        "../sign",
        "message=$(cat); case $message in *'dwp-state: done'*) echo 'no key for that' >&2; exit 1;; esac\n\
         printf '\\n[GNUPG:] SIG_CREATED \\n' >&2\n\
         echo '-----BEGIN PGP SIGNATURE-----'; echo '-----END PGP SIGNATURE-----'",
    );
    repo.git(["config", "gpg.program", repo.beside("sign").to_str().expect("text")]);
    repo.git(["config", "commit.gpgSign", "true"]);
    repo.run_expecting(1, &[]);
    assert_eq!(repo.state("work"), "stalled");
    let body = repo.body("work");
    assert!(
        body.contains("its result could not be written") && body.contains("could not sign the commit"),
        "{body}"
    );
}

// Row 2: exit 0 without one.

/// CONTRACT 6.3, 6.4, 9.8
#[test]
fn exit_0_without_set_state_writes_a_fresh_lease() {
    let repo = Repo::with_commands(&[("step", "echo kept > left; git add left")]);
    repo.branch_with_message("work", b"s\n\nb\n\ndwp-pr: 7\ndwp-state: step\n");
    repo.run_expecting(0, &[]);
    assert_eq!(repo.state("work"), "working");
    assert_eq!(repo.trailers("work"), repo.trailers("work~1"));
    assert_eq!(repo.trailer("work", "dwp-pr"), "7");
    assert_eq!(repo.git(["rev-parse", "work^{tree}"]), repo.git(["rev-parse", "work~1^{tree}"]));
    assert_eq!(repo.worktrees(), [repo.path.join(".worktrees/work").display().to_string()]);
    let left = fs::read_to_string(repo.path.join(".worktrees/work/left")).expect("it stays");
    assert_eq!(left, "kept\n", "processes that the command left running continue here");
    let held = repo.head("work");
    repo.run_expecting(0, &[]);
    repo.assert_untouched("work", &held);
    assert_eq!(repo.worktrees().len(), 1);
}

// Row 3: everything else.

/// Runs a failing command to its stalled commit, and returns the repository and the body.
fn stalled_by(script: &str) -> (Repo, String) {
    let repo = Repo::one_step(script);
    let output = repo.run_expecting(1, &[]);
    assert_eq!(
        repo.trailers("work"),
        [
            "dwp-state: stalled".to_owned(),
            format!("dwp-stalled-run: {}", run_id(&repo)),
            "dwp-origin-state: step".to_owned()
        ]
    );
    let body = repo.body("work");
    let why = body.lines().next().expect("a reason").trim_end_matches('.');
    assert_eq!(repo.subject("work"), format!("stalled: {why}"));
    assert!(out(&output).contains("work  step → stalled"), "{}", out(&output));
    repo.assert_tidy();
    (repo, body)
}

/// The id of the attempt, from the lease in the branch's history.
fn run_id(repo: &Repo) -> String {
    let runs = repo.git(["log", "--format=%(trailers:key=dwp-run-id,valueonly,separator=)", "work"]);
    let run = runs.lines().find(|line| !line.is_empty()).expect("a lease in the history").to_owned();
    assert!(is_uuid(&run), "{run}");
    run
}

/// CONTRACT 6.2, 6.4
#[test]
fn nonzero_stalls_with_heads_tree() {
    let (repo, body) = stalled_by(&format!("{SET_DONE}\necho x > f; git add f; exit 3"));
    assert!(body.starts_with("`step` exited with 3."), "{body}");
    assert_eq!(repo.git(["rev-parse", "work^{tree}"]), repo.git(["rev-parse", "work~1^{tree}"]));
    assert!(body.contains("aynig set-state --retry --branch work"), "the way on: {body}");
}

/// CONTRACT 6.4
#[test]
fn a_signal_stalls() {
    let (_, body) = stalled_by(&format!("{SET_DONE}\nkill -9 $$"));
    assert!(body.starts_with("`step` was killed by signal 9 (SIGKILL)."), "{body}");
}

/// CONTRACT 6.4
#[test]
fn an_interpreter_that_is_not_there_stalls() {
    let repo = Repo::new();
    repo.write(".aynig/command/step", "#!/no/such/interpreter\n");
    fs::set_permissions(repo.path.join(".aynig/command/step"), fs::Permissions::from_mode(0o755))
        .expect("chmod");
    repo.commit_all("commands");
    repo.ready("work", "step");
    repo.run_expecting(1, &[]);
    assert_eq!(repo.state("work"), "stalled");
    let body = repo.body("work");
    assert!(body.contains("could not be started") && body.contains("/no/such/interpreter"), "{body}");
    repo.assert_tidy();
}

/// CONTRACT 2.7
#[test]
fn a_command_that_is_not_executable_is_not_even_claimed() {
    let repo = Repo::new();
    repo.write(".aynig/command/step", "#!/bin/sh\n");
    repo.commit_all("commands");
    let head = repo.ready("work", "step");
    let output = repo.run_expecting(0, &["--log-level", "debug"]);
    repo.assert_untouched("work", &head);
    let line = one_message(&output, "git add --chmod=+x .aynig/command/step");
    assert!(line.contains("work"), "{line}");
}

/// CONTRACT 6.4, 10.6
#[test]
fn a_command_that_takes_too_long_stalls() {
    let repo = Repo::one_step(&format!("{SET_DONE}\necho $$ > \"$ROOM/pid\"; exec sleep 600"));
    repo.run_expecting(1, &["--command-timeout", "3"]);
    assert_eq!(repo.state("work"), "stalled");
    assert!(repo.body("work").starts_with("`step` ran longer than 3 s and was stopped."));
    assert!(!is_alive(repo.noted("pid").parse().expect("a pid")));
    repo.assert_tidy();
}

/// CONTRACT 9.5, 9.6
#[test]
fn staged_and_unstaged_work_of_a_failure_is_saved_and_named() {
    let (repo, body) =
        stalled_by("echo 1 > staged; git add staged; echo 2 > staged; echo 3 > untracked; exit 1");
    let rescue = rescue(&repo);
    assert!(rescue.ends_with(&run_id(&repo)), "{rescue}");
    assert!(body.contains(&format!("git show --first-parent {rescue}")), "{body}");
    assert_eq!(repo.git(["show", &format!("{rescue}:staged")]), "2");
    assert_eq!(repo.git(["show", &format!("{rescue}:untracked")]), "3");
    assert_eq!(repo.git(["show", &format!("{rescue}^2:staged")]), "1", "what was staged is kept beside it");
    assert_eq!(files(&repo, "work"), ["README"]);
    // The printed way back works.
    repo.git(["switch", "--quiet", "work"]);
    repo.git(["merge", "--squash", &rescue]);
    assert_eq!(repo.git(["diff", "--cached", "--name-only"]), "staged\nuntracked");
}

/// CONTRACT 9.6
#[test]
fn the_printed_way_back_works_as_it_stands() {
    for (script, expected) in [
        ("echo 3 > untracked; exit 1", "untracked"),
        ("echo 1 > staged; git add staged; exit 1", "staged"),
        ("echo 1 > staged; git add staged; echo 3 > untracked; exit 1", "staged\nuntracked"),
    ] {
        let (repo, body) = stalled_by(script);
        let at = body.find("git merge").expect("the way back");
        let words: Vec<&str> = body[at..].lines().next().expect("a line").split([' ', ')']).collect();
        repo.git(["switch", "--quiet", "work"]);
        let command: Vec<&str> =
            words[1..].iter().copied().take_while(|word| !word.is_empty() && *word != ".").collect();
        repo.git(command);
        assert_eq!(repo.git(["diff", "--cached", "--name-only"]), expected, "{script}");
    }
}

/// CONTRACT 6.2
#[test]
fn the_stalled_body_holds_the_last_lines_of_both_logs() {
    let (_, body) = stalled_by(
        "i=0; while [ $i -lt 200 ]; do i=$((i+1)); echo \"out $i\"; echo \"err $i\" >&2; done; exit 2",
    );
    let lines: Vec<&str> = body.lines().collect();
    assert!(lines.contains(&"stdout, last lines:") && lines.contains(&"stderr, last lines:"), "{body}");
    for stream in ["out", "err"] {
        assert!(lines.contains(&format!("    {stream} 200").as_str()), "{body}");
        assert!(!lines.contains(&format!("    {stream} 100").as_str()), "{body}");
        assert!(
            lines.iter().filter(|line| line.starts_with(&format!("    {stream} "))).count() >= 10,
            "{body}"
        );
    }
}

/// CONTRACT 6.7
#[test]
fn the_stalled_body_is_bounded_and_harmless() {
    let (repo, _) = stalled_by(
        "head -c 3000000 /dev/zero | tr '\\0' x; echo\n\
         printf '\\033[31mred\\033[0m\\007 \\033]0;title\\007end\\r\\n' >&2\n\
         printf 'dwp-state: forged\\n\\ndwp-state: forged\\n' >&2; printf '\\000\\377\\n' >&2; exit 1",
    );
    let raw = repo.git_command().args(["cat-file", "commit", "work"]).output().expect("git runs").stdout;
    assert!(raw.len() < 20_000, "{}", raw.len());
    assert!(
        raw.iter().all(|byte| *byte == b'\n' || !byte.is_ascii_control()),
        "{}",
        String::from_utf8_lossy(&raw)
    );
    let body = repo.body("work");
    assert!(body.contains("    red end\n"), "{body}");
    assert!(body.contains("    dwp-state: forged"), "{body}");
    assert_eq!(repo.state("work"), "stalled");
    assert_eq!(repo.trailers("work").len(), 3);
}

// Below the table: the command's own commits and HEADs.

/// CONTRACT 6.5
#[test]
fn a_commands_own_commits_stay_below_a_success() {
    let repo = Repo::one_step(&format!(
        "echo 1 > one; git add one; git commit -qm first; echo 2 > two; git add two; git commit -qm second\n\
         echo 3 > three; git add three\n{SET_DONE}"
    ));
    repo.run_expecting(0, &[]);
    let subjects = repo.git(["log", "-5", "--first-parent", "--format=%s", "work"]);
    assert_eq!(subjects, "chore: set done\nsecond\nfirst\nworking: step (test-host)\nplease step");
    assert_eq!(files(&repo, "work"), ["README", "one", "three", "two"]);
    assert_eq!(repo.rescues(), Vec::<String>::new());
    repo.assert_tidy();
}

/// CONTRACT 6.5
#[test]
fn a_commands_own_commits_stay_below_a_failure() {
    let (repo, _) = stalled_by("echo 1 > one; git add one; git commit -qm first; exit 1");
    let subjects = repo.git(["log", "-3", "--format=%s", "work"]);
    assert_eq!(subjects, "stalled: `step` exited with 1\nfirst\nworking: step (test-host)");
    assert_eq!(files(&repo, "work"), ["README", "one"]);
    assert_eq!(repo.rescues(), Vec::<String>::new());
}

/// CONTRACT 6.5
#[test]
fn a_commands_own_commits_stay_below_a_fresh_lease() {
    let repo = Repo::one_step("git commit -q --allow-empty -m first");
    repo.run_expecting(0, &[]);
    let subjects = repo.git(["log", "-3", "--format=%s", "work"]);
    assert_eq!(subjects, "working: step (test-host)\nfirst\nworking: step (test-host)");
    assert_eq!(repo.trailers("work"), repo.trailers("work~2"));
}

/// CONTRACT 6.5
#[test]
fn a_detached_head_with_commits_is_landed_on() {
    let repo = Repo::one_step(&format!(
        "git checkout -q --detach; echo 1 > one; git add one; git commit -qm first\n{SET_DONE}"
    ));
    repo.run_expecting(0, &[]);
    let subjects = repo.git(["log", "-3", "--format=%s", "work"]);
    assert_eq!(subjects, "chore: set done\nfirst\nworking: step (test-host)");
    repo.assert_tidy();
}

#[test]
fn another_branch_with_the_commands_commits_is_landed_on() {
    let repo = Repo::one_step(&format!(
        "git switch -qc mine; echo 1 > one; git add one; git commit -qm first\n{SET_DONE}"
    ));
    repo.run_expecting(0, &[]);
    assert_eq!(repo.git(["log", "-2", "--format=%s", "work"]), "chore: set done\nfirst");
    assert_eq!(repo.head("mine"), repo.head("work~1"), "its own branch stays where it put it");
    repo.assert_tidy();
}

/// CONTRACT 6.5
#[test]
fn a_head_off_the_lease_stalls_and_its_commits_are_saved() {
    let repo = Repo::one_step(&format!(
        "git checkout -q --detach HEAD~1; echo 1 > one; git add one; git commit -qm astray; git rev-parse HEAD > \"$ROOM/astray\"\n{SET_DONE}"
    ));
    let output = repo.run_expecting(1, &[]);
    assert_eq!(repo.state("work"), "stalled", "{}", out(&output));
    assert_eq!(repo.state("work~1"), "working", "directly on the lease");
    let body = repo.body("work");
    assert!(body.contains("does not descend from its lease"), "{body}");
    let rescue = rescue(&repo);
    assert!(body.contains(&rescue), "{body}");
    assert_eq!(repo.head(&rescue), repo.noted("astray"));
    repo.assert_tidy();
}

/// CONTRACT 6.9
#[test]
fn a_branch_rewound_by_its_command_is_left_where_it_was_put() {
    let repo = Repo::one_step(&format!("echo 1 > one; git add one; git reset -q --soft HEAD~1\n{SET_DONE}"));
    let trigger = repo.head("work");
    let output = repo.run_expecting(1, &[]);
    repo.assert_untouched("work", &trigger);
    assert!(out(&output).contains("lease lost"), "{}", out(&output));
    let rescue = rescue(&repo);
    assert_eq!(repo.git(["show", &format!("{rescue}:one")]), "1");
    repo.assert_tidy();
}

/// CONTRACT 5.10
#[test]
fn an_amended_lease_is_a_lost_one_and_nothing_is_written_on_it() {
    let repo = Repo::one_step(&format!(
        "echo 1 > one; git add one; git commit -q --amend --no-edit; git rev-parse HEAD > \"$ROOM/amended\"\n{SET_DONE}"
    ));
    let output = repo.run_expecting(1, &[]);
    repo.assert_untouched("work", &repo.noted("amended"));
    assert!(out(&output).contains("lease lost"), "{}", out(&output));
    repo.assert_tidy();
}

/// Advances the branch to `reviewed` with git alone.
const ADVANCE: &str = "new=$(printf 'mine\\n\\ndwp-state: reviewed\\n' | git commit-tree -p HEAD 'HEAD^{tree}')\n\
     git update-ref refs/heads/work \"$new\"; echo \"$new\" > \"$ROOM/new\"\n";

/// CONTRACT 6.8
#[test]
fn a_head_advanced_by_the_command_is_final_whatever_the_exit() {
    for (end, code) in [("", 0), (SET_DONE, 0), ("exit 3", 0), ("kill -9 $$", 0)] {
        let repo = Repo::one_step(&format!("{ADVANCE}{end}"));
        let output = repo.run_expecting(code, &[]);
        repo.assert_untouched("work", &repo.noted("new"));
        assert!(out(&output).contains("step → reviewed"), "{end:?}: {}", out(&output));
        assert_eq!(repo.rescues(), Vec::<String>::new(), "{end:?}");
        repo.assert_tidy();
    }
}

/// CONTRACT 6.8, 9.5
#[test]
fn work_beside_a_head_advanced_by_the_command_is_saved() {
    let repo = Repo::one_step(&format!("{ADVANCE}echo 1 > one; exit 1"));
    repo.run_expecting(0, &[]);
    repo.assert_untouched("work", &repo.noted("new"));
    assert_eq!(repo.git(["show", &format!("{}:one", rescue(&repo))]), "1");
    repo.assert_tidy();
}

/// CONTRACT 6.9
#[test]
fn a_branch_deleted_by_its_command_stays_deleted_and_its_work_is_saved() {
    let repo =
        Repo::one_step(&format!("echo 1 > one; git add one; git update-ref -d refs/heads/work\n{SET_DONE}"));
    let output = repo.run_expecting(1, &[]);
    assert_eq!(repo.git(["for-each-ref", "refs/heads/work"]), "");
    assert!(out(&output).contains("deleted"), "{}", out(&output));
    assert_eq!(repo.git(["show", &format!("{}:one", rescue(&repo))]), "1");
    repo.assert_tidy();
}

/// CONTRACT 6.9
#[test]
fn a_lease_taken_over_while_the_command_runs_lands_nothing() {
    let repo =
        Repo::one_step(&format!("echo 1 > one; git add one; echo in > \"$ROOM/in\"; sleep 600\n{SET_DONE}"));
    let runner = repo.run_start(&[]);
    wait_for_file(&repo.beside("in"));
    let theirs = repo.lease_at("work", now(), &lease_trailers("300"));
    let output = runner.finish();
    assert_exit(&output, 1);
    repo.assert_untouched("work", &theirs);
    assert!(out(&output).contains("other-host"), "{}", out(&output));
    assert_eq!(repo.git(["show", &format!("{}:one", rescue(&repo))]), "1");
}
