//! Ledgers at a hub that a step moves by a push of its own.

use super::back::APPENDS;
use super::forbidden::ONE;
use super::gate_signed::trusts;
use super::gone::asked;
use super::hosts::Field;
use super::*;
use crate::signatures::key;

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

/// Puts a commit on the ledger of a run at the hub, as a program of a step does.
fn plants_a_commit(host: &Repo, run: &Started) {
    let ledger = format!("refs/aynig/runs/{}", run.id);
    let own = "x@workspace.aynig.invalid";
    let commit = format!("git commit-tree {ledger}^{{tree}} -p {ledger} -m x");
    sh(
        host,
        &format!(
            "export GIT_AUTHOR_EMAIL={own} GIT_COMMITTER_EMAIL={own}; git push -q origin $({commit}):{ledger}"
        ),
    );
}

/// Puts an operation on the ledger of a run at the hub whose tree has a file that no event gave it.
fn plants_a_file(host: &Repo, run: &Started, path: &str, script: &str) {
    let ledger = format!("refs/aynig/runs/{}", run.id);
    let event = format!(
        r#"{{"id":"11111111-1111-4111-8111-111111111111","runId":"{}","ts":"2026-01-01T00:00:00.000Z","by":{{"runner":{{"runner":"x"}}}},"type":"run.patch","patch":{{"updatedAt":"2026-01-01T00:00:00.000Z"}}}}"#,
        run.id
    );
    let message = format!(
        "run: changed\n\n{event}\n\naynig-run: {}\naynig-op: 22222222-2222-4222-8222-222222222222\n",
        run.id
    );
    let file = host.beside("message");
    std::fs::write(&file, message).expect("a file");
    sh(
        host,
        &format!(
            "git fetch -q origin +{ledger}:refs/planted; export GIT_INDEX_FILE=$PWD/.git/planted
             git read-tree refs/planted; P=$(git ls-files '{path}' | head -1)
             B=$(git cat-file blob :$P | {script} | git hash-object -w --stdin)
             git update-index --cacheinfo 100644,$B,$P; T=$(git write-tree); unset GIT_INDEX_FILE
             C=$(git commit-tree $T -p refs/planted -F '{}'); git push -q origin $C:{ledger}",
            file.display()
        ),
    );
}

fn plants_another_base(host: &Repo, run: &Started) {
    plants_a_file(host, run, "run.json", r#"sed 's/"baseSha": "./"baseSha": "0/'"#);
}

fn plants_a_damaged_node(host: &Repo, run: &Started) {
    plants_a_file(host, run, "nodes/*", "sed 's/.*/{/'");
}

/// A way to put something on the refs of a run at the hub.
type Plants = fn(&Repo, &Started);

fn plants_an_archive(host: &Repo, run: &Started) {
    let id = &run.id;
    host.git(["push", "-q", "origin", &format!("refs/aynig/runs/{id}:refs/aynig/archive/{id}/@ledger")]);
}

/// CONTRACT 16.13
#[test]
fn what_is_planted_at_the_hub_holds_a_run_and_is_named_with_the_lines_against_it() {
    let plants: [(Plants, &str); 4] = [
        (plants_a_commit, "git push --force-with-lease=refs/aynig/runs/"),
        (plants_another_base, "git push --force-with-lease=refs/aynig/runs/"),
        (plants_a_damaged_node, "git push --force-with-lease=refs/aynig/runs/"),
        (plants_an_archive, "git push origin :refs/aynig/archive/"),
    ];
    for (plants, line) in plants {
        let field = Field::new(APPENDS);
        let [first, second] = &field.hosts;
        let run = asked(first);
        // Operations that the first host has not heard of.
        for verb in ["pause", "resume"] {
            second.aynig_ok(["flow", verb, &run.slug]);
        }
        let ledger = format!("refs/aynig/runs/{}", run.id);
        let good = field.at_hub(&ledger);
        plants(second, &run);
        assert_refused(&first.aynig(["flow", "approve", &run.slug]), 1, &[line, "holds the run"]);
        let lists = told(&first.aynig(["flow", "list"]));
        assert!(lists.contains("is held at ask") && lists.contains("stuck"), "{lists}");
        for shows in [&["flow", "show", &run.slug][..], &["orch", "doctor", &run.slug], &["doctor"], &["run"]]
        {
            let words = told(&first.aynig(shows.iter().copied()));
            assert!(words.contains(line), "{shows:?}: {words}");
        }
        assert_eq!(first.aynig(["orch", "doctor", &run.slug]).status.code(), Some(1));
        let shown = json(&first.aynig_ok(["flow", "show", &run.slug, "--json"]));
        let next = shown["next"].as_array().expect("a list").iter().filter_map(Value::as_str);
        next.filter(|one| one.starts_with("git ")).for_each(|one| sh(first, one));
        assert_eq!(field.at_hub(&ledger), good);
        first.aynig_ok(["flow", "approve", &run.slug]);
        second.aynig_ok(["run", "--drain"]);
        assert_eq!(end(first, &run), ["completed", "succeeded", "completed"]);
        assert!(first.aynig(["orch", "doctor", &run.slug]).status.success());
    }
}

/// CONTRACT 16.13
#[test]
fn no_ledger_is_given_up_for_an_archive_that_is_no_deletion() {
    for put in ["main", "LEDGER"] {
        let field = Field::new(APPENDS);
        let [first, second] = &field.hosts;
        let run = asked(first);
        second.aynig_ok(["flow", "list"]);
        let ledger = format!("refs/aynig/runs/{}", run.id);
        let good = field.at_hub(&ledger);
        let put = put.replace("LEDGER", &ledger);
        let archive = format!("refs/aynig/archive/{}/@ledger", run.id);
        second.git(["push", "-q", "origin", &format!("{put}:{archive}"), &format!(":{ledger}")]);
        for host in &field.hosts {
            host.aynig(["status", "--all"]);
            let words = told(&host.aynig(["flow", "show", &run.slug]));
            assert!(
                words.contains("is no deletion") && words.contains("git push origin :"),
                "{put}: {words}"
            );
            assert_refused(&host.aynig(["flow", "approve", &run.slug]), 1, &["is no deletion"]);
            assert_eq!(host.git(["rev-parse", &ledger]), good, "{put}");
        }
        let shown = json(&first.aynig_ok(["flow", "show", &run.slug, "--json"]));
        let next = shown["next"].as_array().expect("a list").iter().filter_map(Value::as_str);
        next.filter(|one| one.starts_with("git ")).for_each(|one| sh(first, one));
        assert_eq!(field.at_hub(&ledger), good, "{put}: {shown}");
        first.aynig_ok(["flow", "approve", &run.slug]);
    }
}

/// CONTRACT 13.12
#[test]
fn an_operation_without_a_trusted_signature_is_not_taken_over_where_one_is_required() {
    let field = Field::new(APPENDS);
    let [first, second] = &field.hosts;
    let own = key(first, "own");
    for host in &field.hosts {
        trusts(host, &[&own]);
        host.git(["config", "commit.gpgSign", "true"]);
    }
    first.git(["config", "aynig.requireSigned", "true"]);
    let run = asked(first);
    let ledger = format!("refs/aynig/runs/{}", run.id);
    second.aynig_ok(["flow", "pause", &run.slug]);
    first.aynig_ok(["flow", "resume", &run.slug]);
    let good = field.at_hub(&ledger);
    second.git(["config", "commit.gpgSign", "false"]);
    second.aynig_ok(["flow", "pause", &run.slug]);
    let unsigned = field.at_hub(&ledger);
    let off = format!("git push --force-with-lease={ledger}:{unsigned} origin {good}:{ledger}");
    let takes = format!("git update-ref {ledger} {unsigned}");
    let refused = ["is not signed", "holds the run", &off, &takes];
    assert_refused(&first.aynig(["flow", "approve", &run.slug]), 1, &refused);
    assert_eq!(first.git(["rev-parse", &ledger]), good);
    let words = told(&first.aynig(["flow", "show", &run.slug]));
    assert!(words.contains(&off) && words.contains(&takes), "{words}");
    // A runner with `--require-signed` holds its commands to it.
    first.git(["config", "--unset", "aynig.requireSigned"]);
    let mut below = first.aynig_command();
    below.env("AYNIG_GIT_DIR", first.path.join(".git")).env("AYNIG_REQUIRE_SIGNED", "true");
    assert_refused(&below.args(["flow", "approve", &run.slug]).output().expect("aynig runs"), 1, &refused);
    assert_eq!(first.git(["rev-parse", &ledger]), good);
    first.git(["config", "aynig.requireSigned", "true"]);
    // A host that has not heard of the run yet.
    let third = field.third(APPENDS);
    trusts(&third, &[&own]);
    third.git(["config", "aynig.requireSigned", "true"]);
    let words = told(&third.aynig(["flow", "list"]));
    assert!(words.contains("is not signed") && words.contains(&takes), "{words}");
    assert_eq!(third.git(["for-each-ref", &ledger]), "", "{words}");
    for host in [first, &third] {
        host.git(["update-ref", &ledger, &unsigned]);
        let shown = told(&host.aynig_ok(["flow", "show", &run.slug]));
        assert!(shown.contains("paused"), "{shown}");
    }
}
