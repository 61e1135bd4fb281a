//! Which validators run, what they run, and what comes of them.

use super::*;

/// CONTRACT 20.16
#[test]
fn each_validator_has_its_own_log_and_the_worst_counts() {
    let room = Room::new();
    let (validated, evidence) = room.validate("[lint, Unit_Tests, typecheck]", |setting| {
        setting.line("lint", "echo out; echo err >&2; pwd; cat");
        setting.line("unit-tests", "echo failing; exit 3");
        setting.line("typecheck", "kill -9 $$");
    });
    assert_ended(&validated, Outcome::Error);
    assert_eq!(
        validated.evidence,
        "2 of 3 validators failed: Unit_Tests exited with 3; its last line on stdout: failing; typecheck was killed by signal 9"
    );
    let top = room.made.path.display();
    assert_eq!(read(&evidence, "validation_stdout-01-lint.txt"), format!("out\n{top}\n"));
    assert_eq!(read(&evidence, "validation_stderr-01-lint.txt"), "err\n");
    assert_eq!(read(&evidence, "validation_stdout-02-Unit_Tests.txt"), "failing\n");
    assert_eq!(validated.exit_codes(), [("Unit_Tests".to_owned(), 3), ("lint".to_owned(), 0)].into());
    assert_eq!(check(&validated, "lint").outcome, Outcome::Completed);
    let report = report(&evidence);
    assert_eq!(report["outcome"], "error");
    assert_eq!(report["validators"][1]["exit_code"], 3);
    assert_eq!(report["validators"][2]["how"], "was killed by signal 9");
    assert!(validated.kept.iter().all(|kept| evidence.join(&kept.path).is_file()));
    let (validated, _) = room.validate("[lint]", |setting| setting.line("lint", "true"));
    assert_ended(&validated, Outcome::Completed);
    assert_eq!(validated.evidence, "1 validator passed");
}

/// CONTRACT 20.16
#[test]
fn what_a_host_lacks_is_told_before_anything_runs() {
    let room = Room::new();
    let (validated, evidence) = room.validate("[lint, Unit_Tests, other]", |setting| {
        setting.line("lint", "echo x >ran");
    });
    let End::Unable(lacking) = &validated.end else { panic!("{}", validated.evidence) };
    assert_eq!(lacking.len(), 2);
    assert!(
        lacking[0].contains("Unit_Tests (`git config aynig.validator.unit-tests COMMAND`)"),
        "{lacking:?}"
    );
    assert!(validated.checks.is_empty() && !room.made.path.join("ran").exists());
    assert_eq!(std::fs::read_dir(evidence).expect("there").count(), 0);
    // A harness that needs an interpreter.
    std::fs::write(room.made.path.join("h.py"), "").expect("a file");
    let (validated, _) = room.validate("[{kind: harness, name: h}]", |setting| {
        setting.path = Some("/nowhere".into());
    });
    assert_eq!(validated.end, End::Unable(vec!["python3 in its PATH".to_owned()]));
}

/// CONTRACT 20.17
#[test]
fn scripts_come_from_the_base_with_what_is_beside_them() {
    let repo = Repo::new();
    repo.command("checks/run.sh", ". \"$(dirname \"$0\")/lib.sh\"; shared \"$@\"; pwd; cat README");
    repo.write("checks/lib.sh", "shared() { printf '<%s>' \"$@\"; cat \"$(dirname \"$0\")/data/x\"; }\n");
    repo.write("checks/data/x", "data of the base\n");
    std::os::unix::fs::symlink("/etc/passwd", repo.path.join("checks/link")).expect("a link");
    repo.write("checks/plain.sh", "not executable\n");
    repo.command("top.sh", "ls \"$(dirname \"$0\")\"; touch \"$0\" || true; echo no >\"$0\"");
    let room = Room::of(repo);
    // The agent rewrites all of it.
    room.sh("for file in checks/*.sh checks/data/x top.sh; do echo 'echo rewritten' >$file; done; echo agent >README");
    let args = r#"["a b", "{{inputs.name}}", "${run_id}"]"#;
    let (validated, evidence) = room.validate(
        &format!("[{{kind: script, id: one, entrypoint: checks/run.sh, args: {args}}}]"),
        |setting| drop(setting.inputs.insert("name".to_owned(), "{{inputs.other}}".to_owned())),
    );
    assert_ended(&validated, Outcome::Completed);
    assert_eq!(
        read(&evidence, "validation_stdout-01-one.txt"),
        format!(
            "<a b><{{{{inputs.other}}}}><{}>data of the base\n{}\nagent\n",
            room.made.run,
            room.made.path.display()
        )
    );
    let names: Vec<_> =
        std::fs::read_dir(&evidence).expect("there").flatten().map(|e| e.file_name()).collect();
    assert!(names.iter().all(|name| !name.to_string_lossy().starts_with("script-")), "{names:?}");
    // What is at the top comes without the directories there.
    let (_, evidence) = room.validate("[{kind: script, id: top, entrypoint: top.sh}]", |_| {});
    assert_eq!(read(&evidence, "validation_stdout-01-top.txt"), "README\ntop.sh\n");
    assert!(room.made.path.join("top.sh").is_file());
    for (entrypoint, why) in [
        ("checks/plain.sh", "checks/plain.sh is not executable in the base commit"),
        ("checks/none.sh", "the base commit has no checks/none.sh"),
        ("checks/data", "checks/data is no file in the base commit"),
        ("checks/link", "checks/link is no file in the base commit"),
        ("{{inputs.name}}", "\"../x\" is no path in the repository"),
    ] {
        let (validated, _) = room
            .validate(&format!("[{{kind: script, id: one, entrypoint: \"{entrypoint}\"}}]"), |setting| {
                drop(setting.inputs.insert("name".to_owned(), "../x".to_owned()))
            });
        assert_ended(&validated, Outcome::Error);
        assert!(validated.evidence.contains(why), "{}", validated.evidence);
    }
}

/// CONTRACT 20.18
#[test]
fn artifacts_are_kept() {
    let room = Room::new();
    let (validated, evidence) =
        room.validate("[{kind: builtin, name: lint, artifacts: [out/*.txt, log]}]", |setting| {
            setting.line("lint", "mkdir out; echo 1 >out/a.txt; ln -s /etc/passwd out/b.txt; echo l >log");
        });
    assert_ended(&validated, Outcome::Completed);
    assert_eq!(read(&evidence, "harness_fixture-01-lint/out/a.txt"), "1\n");
    assert_eq!(read(&evidence, "harness_fixture-01-lint/log"), "l\n");
    assert!(!evidence.join("harness_fixture-01-lint/out/b.txt").exists());
    assert_eq!(room.status(), "");
    let (validated, _) =
        room.validate("[{kind: builtin, name: lint, artifacts: [out/*.txt, log]}]", |setting| {
            setting.line("lint", "true");
        });
    assert_ended(&validated, Outcome::Error);
    assert_eq!(validated.evidence, "lint exited with 0, but log is missing");
}

/// CONTRACT 18.7, 20.18
#[test]
fn an_artifact_that_an_input_names_is_kept_and_none_outside_of_the_worktree() {
    let room = Room::new();
    let validated = |value: &str| {
        room.validate("[{kind: builtin, name: lint, artifacts: ['{{inputs.name}}']}]", |setting| {
            setting.line("lint", "echo l >log");
            setting.inputs.insert("name".to_owned(), value.to_owned());
        })
    };
    let (kept, evidence) = validated("lo?");
    assert_ended(&kept, Outcome::Completed);
    assert_eq!(read(&evidence, "harness_fixture-01-lint/log"), "l\n");
    for value in ["../*", "/etc/passwd", "[", ".git/config"] {
        let (refused, _) = validated(value);
        assert_ended(&refused, Outcome::Error);
        assert!(
            refused.evidence.contains(&format!("{value} is no pattern of paths in the worktree")),
            "{}",
            refused.evidence
        );
    }
}
