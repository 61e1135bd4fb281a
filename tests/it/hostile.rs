//! Hostile contents of a commit that anyone with push access may send. Nothing escapes, is forged or crashes.
//! One clear message names the branch, and the other branches of the pass run.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Output;

use super::probe::*;
use super::support::*;

/// Runs a pass in which the branch `zz-neighbour` is ready too. Asserts that it ran and nothing crashed.
fn pass_beside(repo: &Repo, code: i32, arguments: &[&str]) -> Output {
    repo.ready("zz-neighbour", "fine");
    let output = repo.run_expecting(code, arguments);
    assert_eq!(repo.state("zz-neighbour"), "done", "{}{}", out(&output), err(&output));
    assert!(!err(&output).contains("panicked"), "{}", err(&output));
    output
}

/// A repository with the commands `step` (this script) and `fine`.
fn hostile(script: &str) -> Repo {
    Repo::with_commands(&[("step", script), ("fine", DONE)])
}

// States.

/// CONTRACT 1.9
#[test]
fn illegal_states_are_named_and_left_alone() {
    let long = "x".repeat(101);
    let states =
        ["../../x", ".hidden", "a/.hidden", "-x", "", "/etc/passwd", "a//b", "a b", "a\u{1b}[31mb", &long];
    let repo = hostile(DONE);
    for bait in ["x", ".aynig/command/.hidden", ".aynig/command/-x", ".aynig/command/a b"] {
        repo.command(bait, "echo escaped > \"$ROOM/escaped\"");
    }
    repo.commit_all("bait");
    let branch = |number: usize| format!("aa-{number}-bad");
    let heads: Vec<String> = (0..states.len())
        .map(|n| repo.branch_with_message(&branch(n), format!("s\n\ndwp-state: {}\n", states[n]).as_bytes()))
        .collect();
    let output = pass_beside(&repo, 0, &[]);
    assert_eq!(err(&output).lines().count(), states.len(), "{}", err(&output));
    for (number, head) in heads.iter().enumerate() {
        let line = one_message(&output, &branch(number));
        assert!(line.starts_with("warning: ") && line.contains("not a legal state name"), "{line}");
        assert!(!line.contains('\u{1b}'), "{line:?}");
        repo.assert_untouched(&branch(number), head);
    }
    assert!(!repo.was_noted("escaped"));
}

#[test]
fn a_state_of_100_bytes_is_run() {
    let state = "x".repeat(100);
    let repo = Repo::with_commands(&[(&state, DONE), ("fine", DONE)]);
    repo.ready("work", &state);
    pass_beside(&repo, 0, &[]);
    assert_eq!(repo.state("work"), "done");
}

// Commands.

/// Replaces `.aynig/command/step` by a symlink to `target`. Returns the debug line about `aa-link`.
fn linked(target: &str) -> (Repo, String) {
    let repo = hostile(DONE);
    fs::remove_file(repo.path.join(".aynig/command/step")).expect("it was there");
    symlink(target, repo.path.join(".aynig/command/step")).expect("a link");
    repo.command("tools/inside", DONE);
    repo.command("../outside", "echo escaped > \"$ROOM/escaped\"");
    repo.commit_all("a link");
    let head = repo.ready("aa-link", "step");
    let output = pass_beside(&repo, 0, &["--log-level", "debug"]);
    if repo.state("aa-link") == "step" {
        repo.assert_untouched("aa-link", &head);
        let line = one_message(&output, "aa-link");
        return (repo, line);
    }
    (repo, String::new())
}

/// CONTRACT 2.4, 2.7
#[test]
fn links_that_leave_the_tree_are_not_followed() {
    for target in
        ["../../../outside", "/bin/true", "../../../repo/tools/inside", "../command/../../../outside"]
    {
        let (repo, line) = linked(target);
        assert!(line.contains("leaves the tree"), "{target}: {line}");
        assert!(!repo.was_noted("escaped"));
    }
}

/// CONTRACT 2.7
#[test]
fn links_to_nothing_and_circles_are_named() {
    for target in ["../../tools/nothing", "step", "../command/step", "../../tools/inside/x"] {
        let (_, line) = linked(target);
        assert!(line.contains("which is not in the tree"), "{target}: {line}");
    }
}

#[test]
fn a_links_target_cannot_write_to_the_terminal() {
    let (_, line) = linked("../../tools/\u{1b}]0;title\u{7}");
    assert!(line.contains("which is not in the tree"), "{line}");
    assert!(!line.contains(char::is_control), "{line:?}");
}

#[test]
fn links_inside_the_tree_are_fine() {
    for target in ["../../tools/inside", "fine", "../command/fine"] {
        let (repo, line) = linked(target);
        assert_eq!((repo.state("aa-link").as_str(), line.as_str()), ("done", ""), "{target}");
    }
}

#[test]
fn a_directory_link_out_of_the_tree_is_not_followed() {
    let repo = hostile(DONE);
    fs::create_dir(repo.beside("command")).expect("fresh");
    repo.command("../command/step", "echo escaped > \"$ROOM/escaped\"");
    repo.git(["switch", "--quiet", "--create", "aa-link"]);
    fs::remove_dir_all(repo.path.join(".aynig/command")).expect("it was there");
    symlink("../../command", repo.path.join(".aynig/command")).expect("a link");
    repo.commit_all("s\n\ndwp-state: step");
    repo.git(["switch", "--quiet", "main"]);
    let output = pass_beside(&repo, 0, &["--log-level", "debug"]);
    assert!(one_message(&output, "aa-link").contains("leaves the tree"), "{}", err(&output));
    assert!(!repo.was_noted("escaped"));
}

/// CONTRACT 2.7
#[test]
fn commands_in_a_submodule_are_not_commands() {
    let repo = hostile(DONE);
    let tree = repo.git_with_input(
        &["mktree", "--missing"],
        format!("160000 commit {}\t.aynig\n", repo.head("main")).as_bytes(),
    );
    let commit = repo.git(["commit-tree", &tree, "-p", "main", "-m", "s\n\ndwp-state: step"]);
    repo.git(["update-ref", "refs/heads/aa-gitlink", &commit]);
    let output = pass_beside(&repo, 0, &["--log-level", "debug"]);
    assert!(one_message(&output, "aa-gitlink").contains("submodule"), "{}", err(&output));
    repo.assert_untouched("aa-gitlink", &commit);
}

/// CONTRACT 2.7
#[test]
fn a_directory_is_not_a_command() {
    let repo = Repo::with_commands(&[("step/inner", DONE), ("fine", DONE)]);
    let head = repo.ready("aa-directory", "step");
    let output = pass_beside(&repo, 0, &["--log-level", "debug"]);
    assert!(one_message(&output, "aa-directory").contains("is a directory"), "{}", err(&output));
    repo.assert_untouched("aa-directory", &head);
}

// Trailers.

/// CONTRACT 3.9
#[test]
fn trailers_never_become_variables_by_which_code_runs() {
    let keys = [
        "LD-PRELOAD",
        "LD-LIBRARY-PATH",
        "PATH",
        "BASH-ENV",
        "ENV",
        "GIT-DIR",
        "GIT-SSH-COMMAND",
        "AYNIG-BIN",
        "IFS",
        "PYTHONPATH",
        "PERL5OPT",
        "RUBYOPT",
        "NODE-OPTIONS",
        "PS4",
        "EDITOR",
        "PAGER",
        "SSH-ASKPASS",
        "HOME",
        "Dwp-State",
    ];
    let repo = hostile(PROBE);
    let lines: String = keys.iter().map(|key| format!("{key}: /tmp/forged\n")).collect();
    repo.branch_with_message(
        "aa-env",
        format!("s\n\n{lines}good-one: /tmp/forged\ndwp-state: step\n").as_bytes(),
    );
    let output = pass_beside(&repo, 0, &[]);
    let seen = repo.seen();
    let forged: Vec<String> =
        seen.names().into_iter().filter(|name| seen.text(name).contains("forged")).collect();
    assert_eq!(forged, ["GOOD_ONE"]);
    assert_eq!(seen.text("DWP_STATE"), "step");
    for key in keys {
        let line = one_message(&output, &format!("trailer {key} "));
        assert!(line.starts_with("warning: aa-env: "), "{line}");
    }
}

#[test]
fn a_huge_trailer_block_is_survived() {
    let repo = hostile(PROBE);
    let many: String = (0..20_000).map(|n| format!("key-{n}: {}\n", "v".repeat(40))).collect();
    let wide = format!("wide: {}\n", "w".repeat(200 * 1024));
    repo.branch_with_message("aa-huge", format!("s\n\n{wide}{many}dwp-pr: 7\ndwp-state: step\n").as_bytes());
    let output = pass_beside(&repo, 0, &[]);
    assert_eq!(repo.state("aa-huge"), "done");
    let seen = repo.seen();
    assert_eq!(seen.text("KEY_0"), "v".repeat(40));
    assert_eq!(seen.get("WIDE"), None);
    let line = one_message(&output, "trailer wide ");
    assert!(line.contains("aa-huge") && line.contains("100 KiB"), "{line}");
    assert!(err(&output).lines().count() < 30, "{} lines of warnings", err(&output).lines().count());
}

// Declarations.

/// Runs a command that prints these lines. Returns the repository, with the branch `aa-said`.
fn said(lines: &str) -> (Repo, Output) {
    let repo = hostile("cat \"$ROOM/print\"");
    fs::write(repo.beside("print"), lines).expect("a file");
    repo.ready("aa-said", "step");
    let output = pass_beside(&repo, 0, &[]);
    (repo, output)
}

#[test]
fn line_breaks_in_subject_and_trailers_are_refused() {
    let fields = [
        r#""subject":"x\n\ndwp-state: forged""#,
        r#""subject":"x\ry""#,
        r#""subject":"x\u0000y""#,
        r#""trailers":{"a":"b\ndwp-state: forged"}"#,
        r#""trailers":["a: b\ndwp-run-id: forged"]"#,
        r#""trailers":{"a\ndwp-state":"forged"}"#,
        r#""body":"x\u0000y""#,
    ];
    let lines: String =
        fields.iter().map(|field| format!("SET_STATE {{\"state\":\"done\",{field}}}\n")).collect();
    let (repo, output) = said(&lines);
    assert_eq!(repo.state("aa-said"), "working");
    for number in 1..=fields.len() {
        let line = one_message(&output, &format!("on line {number} "));
        assert!(line.starts_with("warning: aa-said: ") && line.contains("SET_STATE"), "{line}");
    }
}

#[test]
fn a_body_that_ends_like_a_trailer_block_forges_nothing() {
    for body in ["x\n\ndwp-state: forged", "dwp-state: forged", "x\n\ndwp-state: forged\ndwp-run-id: f\n\n"] {
        let (repo, _) = said(&format!("SET_STATE {{\"state\":\"declared\",\"body\":{body:?}}}\n"));
        assert_eq!(repo.trailers("aa-said"), ["dwp-state: declared"], "{body:?}");
        let message = repo.message("aa-said");
        assert_eq!(message, format!("chore: set declared\n\n{}\n\ndwp-state: declared", body.trim_end()));
    }
}

#[test]
fn scissors_and_comments_in_a_body_hide_nothing() {
    let (repo, output) = said(
        "SET_STATE {\"state\":\"done\",\"body\":\"a\\n# ------------------------ >8 ------------------------\\nb\"}\n",
    );
    assert_eq!(repo.state("aa-said"), "working");
    assert!(one_message(&output, "SET_STATE").contains("scissors"), "{}", err(&output));
    let (repo, _) =
        said("SET_STATE {\"state\":\"done\",\"body\":\"# a\\n---\\n\\nConflicts:\\n\\tx\\n\\n# b\"}\n");
    assert_eq!(repo.trailers("aa-said"), ["dwp-state: done"]);
    assert_eq!(
        repo.message("aa-said"),
        "chore: set done\n\n# a\n---\n\nConflicts:\n\tx\n\n# b\n\ndwp-state: done"
    );
}

// Bodies and bytes.

/// CONTRACT 3.7
#[test]
fn a_large_body_is_whole_in_its_file_only() {
    let repo = hostile(&format!("cp \"$BODY_PATH\" \"$ROOM/body\"\n{PROBE}"));
    let body: String = (0..30_000).map(|n| format!("line {n:05}\n")).collect();
    repo.branch_with_message("aa-large", format!("s\n\n{body}\ndwp-state: step\n").as_bytes());
    let output = pass_beside(&repo, 0, &[]);
    assert_eq!(repo.seen().get("BODY"), None);
    assert_eq!(fs::read_to_string(repo.beside("body")).expect("copied"), body.trim_end());
    let line = one_message(&output, "BODY_PATH");
    assert!(line.starts_with("warning: aa-large: "), "{line}");
}

#[test]
fn a_body_of_100_kib_is_still_a_variable() {
    let repo = hostile(PROBE);
    let body = "x".repeat(100 * 1024);
    repo.branch_with_message("aa-large", format!("s\n\n{body}\n\ndwp-state: step\n").as_bytes());
    pass_beside(&repo, 0, &[]);
    assert_eq!(repo.seen().text("BODY").len(), 100 * 1024);
}

/// CONTRACT 1.11
#[test]
fn bytes_that_are_not_utf_8_arrive_as_they_are() {
    let repo = hostile(&format!("cp \"$BODY_PATH\" \"$ROOM/body\"\n{PROBE}"));
    repo.branch_with_message(
        "aa-bytes",
        b"s\xff\n\nb\xfe\xc3\n\nnote: n\xff\ndwp-b: \xfe\ndwp-state: step\n",
    );
    let output = pass_beside(&repo, 0, &[]);
    assert_eq!(repo.state("aa-bytes"), "done", "{}", err(&output));
    let seen = repo.seen();
    assert_eq!(seen.bytes("BODY"), Some(b"b\xfe\xc3".as_slice()));
    assert_eq!(seen.bytes("NOTE"), Some(b"n\xff".as_slice()));
    assert_eq!(fs::read(repo.beside("body")).expect("copied"), b"b\xfe\xc3");
    let lease =
        repo.git_command().args(["cat-file", "commit", "aa-bytes~1"]).output().expect("git runs").stdout;
    assert!(lease.windows(8).any(|part| part == b"dwp-b: \xfe"), "{}", String::from_utf8_lossy(&lease));
}

#[test]
fn a_nul_in_a_message_is_named() {
    for message in [
        b"s\n\nb\0b\n\ndwp-state: step\n".as_slice(),
        b"s\n\nb\n\ndwp-state: step\n\0",
        b"s\0\n\ndwp-state: step\n",
        b"s\n\ndwp-state: step\0x\n",
    ] {
        let repo = hostile(DONE);
        let head = repo.branch_with_message("aa-nul", message);
        let output = pass_beside(&repo, 0, &[]);
        assert!(one_message(&output, "aa-nul").contains("NUL"), "{}", err(&output));
        repo.assert_untouched("aa-nul", &head);
    }
}

// Branch names.

/// Creates branches with these names and runs them. Returns also the directories their commands ran in.
fn named(names: &[&[u8]]) -> (Repo, Vec<String>) {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let repo = hostile(
        "pwd -P >> \"$ROOM/pwds\"; printf '%s\\n' \"$AYNIG_BRANCH\" >> \"$ROOM/names\"; echo x > untracked\n\
         echo 'SET_STATE {\"state\":\"done\"}'",
    );
    let commit = repo.ready("seed", "step");
    repo.git(["update-ref", "-d", "refs/heads/seed"]);
    for name in names {
        let full = [b"refs/heads/", *name].concat();
        let done = repo
            .git_command()
            .args([OsStr::new("update-ref"), OsStr::from_bytes(&full), OsStr::new(&commit)])
            .output()
            .expect("git runs");
        assert!(done.status.success(), "{}", err(&done));
    }
    let output = pass_beside(&repo, 0, &["--jobs", "2"]);
    let done = repo.git([
        "log",
        "--no-walk",
        "--branches",
        "--format=%(trailers:key=dwp-state,valueonly,separator=)",
    ]);
    assert_eq!(done.lines().filter(|state| *state == "done").count(), names.len() + 1, "{}", err(&output));
    repo.assert_tidy();
    let mut pwds: Vec<String> = repo.noted("pwds").lines().map(str::to_owned).collect();
    pwds.sort();
    (repo, pwds)
}

#[test]
fn names_that_flatten_alike_have_worktrees_of_their_own() {
    let (repo, pwds) = named(&[b"feat/a", b"feat-a", b"feat+a", b"feat%2ba", b"feat%2fa", b"Feat/a"]);
    let mut different = pwds.clone();
    different.dedup();
    assert_eq!(different.len(), 6, "{pwds:?}");
    for pwd in &pwds {
        assert_eq!(std::path::Path::new(pwd).parent(), Some(repo.path.join(".worktrees").as_path()));
    }
    assert_eq!(repo.rescues().len(), 6);
}

#[test]
fn branch_names_of_odd_bytes_run() {
    let names: [&[u8]; 6] =
        [b"\xff\xfe", "\u{fc}/\u{65e5}\u{672c}".as_bytes(), b"$(touch%x)", b"a'b\"c", b"a;b|c&d", b"a%b"];
    let (repo, pwds) = named(&names);
    assert_eq!(pwds.len(), names.len());
    let noted = fs::read(repo.beside("names")).expect("noted");
    for name in names {
        assert!(
            noted.split(|byte| *byte == b'\n').any(|line| line == name),
            "{}",
            String::from_utf8_lossy(name)
        );
    }
}

#[test]
fn very_long_branch_names_run_and_their_way_back_is_whole() {
    let long = "n".repeat(240);
    let deep = format!("{}/{}", "d".repeat(200), "e".repeat(200));
    let (repo, pwds) = named(&[long.as_bytes(), deep.as_bytes()]);
    assert!(pwds.iter().all(|pwd| pwd.rsplit('/').next().expect("a name").len() <= 150), "{pwds:?}");
    assert_eq!(repo.rescues().len(), 2);
    repo.command(".aynig/command/fails", "echo 1 > one; exit 1");
    repo.commit_all("fails");
    repo.ready(&deep, "fails");
    repo.run_expecting(1, &[]);
    let body = repo.body(&deep);
    let rescue =
        repo.rescues().into_iter().find(|name| body.contains(&name[name.len() - 36..])).expect("named");
    assert_eq!(body.matches(&rescue).count(), 2, "the whole name, twice: {body}");
    assert!(body.contains(&format!("--branch {deep}\n")), "{body}");
}

#[test]
fn a_branch_name_that_git_branch_would_refuse_is_named() {
    let repo = hostile(DONE);
    let head = repo.ready("seed", "step");
    repo.git(["update-ref", "-d", "refs/heads/seed"]);
    repo.git(["update-ref", "refs/heads/-odd", &head]);
    let output = pass_beside(&repo, 0, &["--log-level", "debug"]);
    assert!(one_message(&output, "-odd").contains("begins with a dash"), "{}", err(&output));
    repo.assert_untouched("refs/heads/-odd", &head);
}

// Symlinks in the paths that the runner writes.

/// CONTRACT 3.11
#[test]
fn logs_are_not_written_through_a_committed_link() {
    for link in [".aynig/logs", ".aynig"] {
        let repo = Repo::new();
        repo.command("commands/command/fine", DONE);
        fs::create_dir(repo.beside("outside")).expect("fresh");
        fs::create_dir_all(repo.path.join(link).parent().expect("above")).expect("directories");
        symlink(repo.beside("outside"), repo.path.join(link)).expect("a link");
        repo.commit_all("a link");
        repo.git(["switch", "--quiet", "--create", "aa-work"]);
        if link == ".aynig" {
            fs::remove_file(repo.path.join(link)).expect("the link");
        }
        repo.command(".aynig/command/fine", DONE);
        repo.commit_all("s\n\ndwp-state: fine");
        repo.git(["switch", "--quiet", "main"]);
        let output = repo.run_expecting(3, &[]);
        assert!(err(&output).contains("symbolic link"), "{}", err(&output));
        assert_eq!(repo.state("aa-work"), "fine", "nothing is claimed where nothing can be run");
        assert_eq!(files_below(&repo.beside("outside")), Vec::<std::path::PathBuf>::new());
        repo.assert_tidy();
    }
}

#[test]
fn worktrees_are_not_made_through_a_committed_link() {
    let repo = hostile(DONE);
    fs::create_dir(repo.beside("outside")).expect("fresh");
    symlink(repo.beside("outside"), repo.path.join(".worktrees")).expect("a link");
    repo.commit_all("a link");
    repo.ready("aa-work", "step");
    let output = repo.run_expecting(3, &[]);
    assert!(err(&output).contains("symbolic link"), "{}", err(&output));
    assert_eq!(repo.state("aa-work"), "step", "nothing is claimed where nothing can be run");
    assert_eq!(files_below(&repo.beside("outside")), Vec::<std::path::PathBuf>::new());
    repo.assert_tidy();
}

#[test]
fn worktrees_are_not_made_through_a_link_on_the_way() {
    let repo = hostile(DONE);
    fs::create_dir_all(repo.beside("outside/deep")).expect("fresh");
    symlink(repo.beside("outside"), repo.path.join("way")).expect("a link");
    repo.commit_all("a link");
    repo.ready("aa-work", "step");
    repo.run_expecting(3, &["--worktree", "way/deep"]);
    assert_eq!(repo.state("aa-work"), "step");
    assert_eq!(files_below(&repo.beside("outside")), Vec::<std::path::PathBuf>::new());
}

// Damaged objects and leases.

#[test]
fn a_damaged_committer_line_is_no_crash() {
    let repo = hostile(DONE);
    let tree = repo.git(["rev-parse", "main^{tree}"]);
    let parent = repo.head("main");
    for (number, committer) in [
        "committer nobody",
        "committer a <b> never",
        "committer a <b> 99999999999999999999 +0000",
        "committer ",
    ]
    .iter()
    .enumerate()
    {
        let object = format!(
            "tree {tree}\nparent {parent}\nauthor a <b> 1 +0000\n{committer}\n\ns\n\ndwp-state: step\n"
        );
        let commit = repo.git_with_input(
            &["hash-object", "-t", "commit", "-w", "--literally", "--stdin"],
            object.as_bytes(),
        );
        repo.git(["update-ref", &format!("refs/heads/aa-{number}"), &commit]);
        let output = pass_beside(&repo, 0, &["--branch", &format!("aa-{number}"), "--branch", "zz*"]);
        let state = repo.git([
            "log",
            "-1",
            "--format=%(trailers:key=dwp-state,valueonly,separator=)",
            &format!("aa-{number}"),
        ]);
        if state == "step" {
            repo.assert_untouched(&format!("aa-{number}"), &commit);
            one_message(&output, &format!("aa-{number}"));
        } else {
            assert_eq!(state, "done", "{committer}");
        }
    }
}

#[test]
fn odd_lease_lengths_neither_crash_nor_free_a_live_branch() {
    for (seconds, live_age, dead_age) in [
        ("0", 200, Some(400)),
        ("-5", 200, Some(400)),
        ("soon", 200, Some(400)),
        ("99999999999999999999", 1_000_000, None),
        ("18446744073709551615", 1_000_000, None),
        ("1", 0, Some(60)),
    ] {
        let repo = hostile(DONE);
        if seconds != "1" {
            let live = repo.lease("aa-live", live_age, &lease_trailers(seconds));
            pass_beside(&repo, 0, &[]);
            repo.assert_untouched("aa-live", &live);
        }
        if let Some(age) = dead_age {
            repo.lease("aa-dead", age, &lease_trailers(seconds));
            pass_beside(&repo, 0, &[]);
            assert_eq!(repo.state("aa-dead"), "stalled", "{seconds}");
        }
    }
}

#[test]
fn a_lease_from_the_future_is_told_with_both_clocks() {
    let repo = hostile(DONE);
    repo.ready("aa-future", "step");
    let lease = repo.lease_at("aa-future", now() + 86_400, &lease_trailers("300"));
    let output = pass_beside(&repo, 0, &[]);
    repo.assert_untouched("aa-future", &lease);
    let line = one_message(&output, "aa-future");
    assert!(line.starts_with("warning: ") && line.contains("clock"), "{line}");
    assert_eq!(line.matches("UTC").count() + line.matches('Z').count(), 2, "both clocks: {line}");
}

#[test]
fn a_run_id_is_never_a_path() {
    for run in ["../../../escaped", "../..", "/tmp/x", "a b", "0f8fad5b-d9cb-469f-a165-70867728950e/../x", ""]
    {
        let repo = hostile(DONE);
        repo.lease(
            "aa-run",
            400,
            &format!("dwp-origin-state: step\ndwp-run-id: {run}\ndwp-runner-id: h\u{1b}[31m\n"),
        );
        let before = files_below(&repo.beside(""));
        let output = pass_beside(&repo, 0, &[]);
        assert_eq!(repo.state("aa-run"), "stalled");
        let expected = if run.is_empty() { "unknown" } else { run };
        assert_eq!(repo.trailer("aa-run", "dwp-stalled-run"), expected);
        assert!(!out(&output).contains('\u{1b}'), "{:?}", out(&output));
        assert!(!repo.body("aa-run").contains('\u{1b}'));
        let outside: Vec<_> = files_below(&repo.beside(""))
            .into_iter()
            .filter(|path| !before.contains(path) && !path.starts_with(&repo.path))
            .collect();
        assert_eq!(outside, Vec::<std::path::PathBuf>::new());
        assert_eq!(repo.rescues(), Vec::<String>::new());
    }
}

// Output.

#[test]
fn escape_sequences_reach_neither_terminal_nor_history() {
    let repo = hostile(
        "printf '\\033]0;owned\\007\\033[2J\\033[31mred\\033[0m\\n'; printf '\\033[5mblink\\n' >&2\n\
         printf 'SET_STATE {\"state\":\"\\033[31mx\"}\\n'; exit 7",
    );
    repo.ready("aa-loud", "step");
    let output = pass_beside(&repo, 1, &["--log-level", "trace"]);
    for text in [out(&output), err(&output), repo.message("aa-loud")] {
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    }
    let body = repo.body("aa-loud");
    assert!(body.contains("    red\n") && body.contains("    blink"), "{body}");
    let log = fs::read(repo.path.join(format!(".aynig/logs/{}.stdout.log", repo.head("aa-loud~2"))))
        .expect("a log");
    assert!(log.starts_with(b"\x1b]0;owned"), "the log itself is unchanged");
}
