//! Ledgers at a hub that a step moves by a push of its own.

use super::forbidden::ONE;
use super::hosts::Field;
use super::*;

/// Pushes to the hub what `$M` and `$T` say, on top of the ledger of the own run.
fn pushes(forged: &str) -> String {
    format!(
        "cat >/dev/null; L=$(git for-each-ref --format='%(refname)' refs/aynig/runs/$(basename $(dirname $PWD))*)\n{forged}\n\
         git push -q origin \"+$C:$L\" >&2; echo done"
    )
}

/// As a program of a step, and as if a person had done it.
const FORGED: [&str; 3] = [
    "C=$(git commit-tree $L^{tree} -p $L -m x)",
    "export GIT_COMMITTER_EMAIL=person@example.com GIT_AUTHOR_EMAIL=person@example.com
     M=$(git log -1 --format=%B $L | grep -v '^{')
     export GIT_INDEX_FILE=$PWD/../forged; git read-tree $L
     B=$(git cat-file blob $L:run.json | sed 's/\"running\"/\"completed\"/' | git hash-object -w --stdin)
     git update-index --cacheinfo 100644,$B,run.json; T=$(git write-tree); unset GIT_INDEX_FILE
     C=$(git commit-tree \"$T\" -p $L -m \"$M\")",
    "C=",
];

/// CONTRACT 20.33
#[test]
fn a_ledger_that_a_step_forges_at_the_hub_misleads_nobody() {
    for forged in FORGED {
        let field = Field::new(&pushes(forged));
        let [first, second] = &field.hosts;
        let run = start(first, &flow("work", ONE));
        let ledger = format!("refs/aynig/runs/{}", run.id);
        let output = first.aynig(["run"]);
        assert_eq!(steps(first, &run), ["work killed_policy STOP"], "{forged}: {}", told(&output));
        assert_eq!(end(first, &run)[1], "failed", "{forged}: {}", told(&output));
        assert_eq!(field.at_hub(&ledger), first.git(["rev-parse", &ledger]), "{forged}");
        let listed = second.aynig_ok(["flow", "list"]);
        assert!(out(&listed).contains(&run.slug), "{forged}: {}", told(&listed));
        assert_eq!(steps(second, &run), ["work killed_policy STOP"], "{forged}");
        let doctor = second.aynig(["orch", "doctor", &run.slug]);
        assert!(doctor.status.success(), "{forged}: {}", told(&doctor));
        let log = out(&second.aynig_ok(["flow", "log", &run.slug]));
        assert!(log.contains(&ledger), "{forged}: {log}");
    }
}

/// CONTRACT 20.33
#[test]
fn a_forged_ledger_that_nobody_took_back_is_left_aside_with_the_command_for_it() {
    let field = Field::new(&pushes(FORGED[0]));
    let [first, second] = &field.hosts;
    let run = start(first, &flow("work", ONE));
    let ledger = format!("refs/aynig/runs/{}", run.id);
    let good = field.at_hub(&ledger);
    let killed = first.aynig_command().arg("run").env("AYNIG_CRASH_AT", "agent-ended:kill:1").output();
    let killed = killed.expect("it runs");
    assert_ne!(field.at_hub(&ledger), good, "{}", told(&killed));
    let listed = second.aynig(["flow", "list"]);
    assert!(err(&listed).contains("a step wrote it by itself"), "{}", told(&listed));
    assert!(!out(&listed).contains(&run.slug), "it is left aside: {}", told(&listed));
    let words = err(&listed);
    let command = words.split('`').find(|words| words.starts_with("git push ")).expect("a command");
    let arguments: Vec<&str> = command.split(' ').skip(1).collect();
    second.git(arguments.iter().map(|word| if *word == "REMOTE" { "origin" } else { word }));
    assert_eq!(field.at_hub(&ledger), good);
    assert!(out(&second.aynig_ok(["flow", "list"])).contains(&run.slug));
    first.aynig_ok(["run", "--drain"]);
    let done = steps(first, &run);
    assert_eq!(done.last().map(String::as_str), Some("work killed_policy STOP"), "{done:?}");
}
