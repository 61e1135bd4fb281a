//! Programs that an agent has written, and their reports.

use super::*;

const HARNESS: &str = "[{kind: harness, name: h}]";

/// Writes the harness `h` into the worktree.
fn harness(room: &Room, script: &str) {
    room.sh(&format!("cat >h <<'END'\n#!/bin/sh\n{script}\nEND\nchmod +x h"));
}

/// CONTRACT 20.19
#[test]
fn a_harness_writes_a_report() {
    let room = Room::new();
    harness(
        &room,
        r#"echo "$0" "$@"; echo '{"cases":[{"id":"a","status":"passed"},{"id":"b","status":"failed"}]}' >"$2"; exit 1"#,
    );
    let (validated, evidence) = room.validate(HARNESS, |_| {});
    assert_ended(&validated, Outcome::Error);
    assert!(
        validated.evidence.starts_with("h exited with 1; its last line on stdout: "),
        "{}",
        validated.evidence
    );
    assert_eq!(validated.failed_cases(), ["b".to_owned()].into());
    assert!(!validated.is_contradicted());
    let program = room.made.path.join("h");
    assert_eq!(
        read(&evidence, "validation_stdout-01-h.txt"),
        format!("{} --report harness_report.json\n", program.display())
    );
    assert!(read(&evidence, "validation_report-01-h.json").contains("cases"));
    assert!(read(&evidence, "harness_fixture-01-h.program").starts_with("#!/bin/sh"));
    let report = report(&evidence);
    assert_eq!(report["validators"][0]["agent_written"], true);
    assert_eq!(report["validators"][0]["report"]["cases"][1]["id"], "b");
    assert!(!room.made.path.join("harness_report.json").exists());
    // It says that all is well, and fails.
    harness(&room, r#"echo '{"cases":[{"id":"a","status":"passed"}]}' >"$2"; exit 1"#);
    let (validated, _) = room.validate(HARNESS, |_| {});
    assert!(validated.is_contradicted());
}

/// CONTRACT 20.19
#[test]
fn an_interpreter_runs_a_harness_that_is_not_executable() {
    let room = Room::new();
    let programs = room.repo.beside("programs");
    std::fs::create_dir(&programs).expect("a directory");
    std::fs::write(programs.join("python3"), "#!/bin/sh\nexec /bin/sh \"$@\"\n").expect("a file");
    std::process::Command::new("chmod").arg("+x").arg(programs.join("python3")).status().expect("chmod runs");
    let path = format!("{}:/usr/bin:/bin", programs.display());
    let script = r#"echo "$@"; echo '{"proposed_goldens":[]}' >"$2""#;
    for (run, file) in [
        (HARNESS.to_owned(), "h.py".to_owned()),
        (
            r#"[{kind: script, id: h, entrypoint: ".tnh/run/${run_id}/h.py"}]"#.to_owned(),
            format!(".tnh/run/{}/h.py", room.made.run),
        ),
    ] {
        room.sh(&format!("mkdir -p $(dirname {file}); cat >{file} <<'END'\n{script}\nEND"));
        let (validated, evidence) = room.validate(&run, |setting| setting.path = Some(path.clone().into()));
        assert_ended(&validated, Outcome::Completed);
        assert_eq!(read(&evidence, "validation_stdout-01-h.txt"), "--report harness_report.json\n");
        assert_eq!(report(&evidence)["validators"][0]["kind"], "harness");
        room.sh(&format!("rm {file}"));
    }
    let (validated, _) = room.validate(HARNESS, |_| {});
    assert_eq!(validated.evidence, "h the worktree has neither an executable h nor h.py");
}

/// CONTRACT 20.19
#[test]
fn a_report_must_be_there_and_new() {
    let room = Room::new();
    room.sh(r#"echo '{"cases":[]}' >harness_report.json; echo '{"cases":[]}' >elsewhere.json"#);
    for (script, why) in [
        ("true", "exited with 0, but its report harness_report.json is older than the step"),
        ("rm harness_report.json", "exited with 0, but its report harness_report.json is missing"),
        ("exit 2", "exited with 2; its report harness_report.json is older than the step"),
        (r#"ln -sf elsewhere.json "$2""#, "is no regular file"),
        (r#"rm "$2"; mkdir "$2""#, "is no regular file"),
        (r#"rm "$2"; mkfifo "$2""#, "is no regular file"),
        (r#"echo '{' >"$2""#, "cannot be used: it is no JSON"),
        (r#"echo '{"cases":1}' >"$2""#, "cannot be used: `cases` is no list"),
        (r#"head -c 5000000 /dev/zero >"$2""#, "is longer than 4 MiB"),
    ] {
        harness(&room, script);
        let (validated, _) = room.validate(HARNESS, |_| {});
        assert_ended(&validated, Outcome::Error);
        assert!(validated.evidence.contains(why), "{script}: {}", validated.evidence);
        assert_eq!(
            room.made.git(&room.repo, &["status", "--porcelain"]),
            "?? elsewhere.json\n?? h\n?? harness_report.json"
        );
    }
    // The same content again is new.
    harness(&room, r#"echo '{"cases":[]}' >"$2""#);
    assert_ended(&room.validate(HARNESS, |_| {}).0, Outcome::Completed);
    // A script can name its report.
    let run =
        r#"[{kind: script, id: s, entrypoint: ".tnh/run/${run_id}/s", args: ["--report=deep/r.json"]}]"#;
    room.sh(&format!("mkdir -p .tnh/run/{0}; cd .tnh/run/{0}; printf '#!/bin/sh\\nmkdir deep; echo {{}} >deep/r.json' >s; chmod +x s", room.made.run));
    let (validated, _) = room.validate(run, |_| {});
    assert!(
        validated.evidence.contains("its report deep/r.json cannot be used: it has none of"),
        "{}",
        validated.evidence
    );
}

/// CONTRACT 20.20
#[test]
fn golden_files_stay_where_they_may_be_proposed() {
    let may = "[{kind: harness, name: h, may_propose_goldens: true}]";
    let repo = Repo::new();
    repo.write(".gitignore", "*.tmp\n");
    repo.write("gold/old.txt", "old\n");
    let room = Room::of(repo);
    let propose = |paths: &str| {
        format!(
            r#"mkdir -p gold; echo new >gold/old.txt; echo new >gold/new.txt; echo junk >junk; echo i >i.tmp; ln -s x link
            echo '{{"proposed_goldens":[{paths}]}}' >"$2""#
        )
    };
    harness(&room, &propose(r#""gold/old.txt","gold/new.txt""#));
    let before = room.status();
    let (validated, evidence) = room.validate(HARNESS, |_| {});
    assert_ended(&validated, Outcome::Error);
    assert!(validated.evidence.contains("does not let it (`may_propose_goldens`)"), "{}", validated.evidence);
    assert_eq!(room.status(), format!("{before}\n!! i.tmp"));
    assert!(read(&evidence, "harness_fixture-taken-back.patch").contains("gold/new.txt"));

    for paths in [r#""none""#, r#""i.tmp""#, r#""gold""#, r#""link""#, r#""gold/old.txt","none""#] {
        harness(&room, &propose(paths));
        let (validated, _) = room.validate(may, |_| {});
        assert_ended(&validated, Outcome::Error);
        assert!(
            validated.evidence.contains("which is no file in the worktree, or is ignored"),
            "{}",
            validated.evidence
        );
        assert!(validated.goldens.is_empty());
        assert_eq!(room.status(), format!("{before}\n!! i.tmp"));
    }

    harness(&room, &propose(r#""gold/old.txt","gold/new.txt""#));
    let (validated, _) =
        room.validate(may, |setting| setting.rules.forbidden_paths.push("gold/new.txt".to_owned()));
    assert_ended(&validated, Outcome::KilledPolicy);
    assert!(validated.evidence.contains("forbids this change: gold/new.txt (forbidden_paths: gold/new.txt)"));
    assert_eq!(room.status(), format!("{before}\n!! i.tmp"));

    let (validated, evidence) = room.validate(may, |_| {});
    assert_ended(&validated, Outcome::Completed);
    assert_eq!(validated.goldens, ["gold/new.txt".to_owned(), "gold/old.txt".to_owned()].into());
    assert_eq!(validated.evidence, "1 validator passed; 2 proposed golden files");
    assert_eq!(room.status(), " M gold/old.txt\n?? gold/new.txt\n?? h\n!! i.tmp");
    let patch = read(&evidence, "harness_fixture-taken-back.patch");
    assert!(patch.contains("b/junk") && !patch.contains("b/gold/"), "{patch}");
}
