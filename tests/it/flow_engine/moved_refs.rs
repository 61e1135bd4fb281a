//! Steps that move refs which are none of theirs, and people who move them meanwhile.

use super::agent::{agent, with_agent};
use super::forbidden::ONE;
use super::*;

const GATE: &str =
    "  - id: ask\n    opcode: GATE\n    gate: g\n    routes: {gate_approved: STOP, gate_rejected: STOP}\n";

/// CONTRACT 15.15, 20.33
#[test]
fn validators_and_planners_move_no_protected_branch() {
    let check = "  - id: work\n    opcode: RUN_VALIDATION\n    run: [evil]\n    routes: {completed: STOP, error: STOP, killed_policy: STOP}\n";
    let judge = "  - id: work\n    opcode: EVALUATE\n    command: evil\n    prompt: x\n    allowed_next_steps: []\n    routes: {success: STOP, partial: STOP, blocked: STOP, unsafe: STOP, needs_human: STOP}\n";
    for (name, step, wanted) in [
        ("aynig.validator.evil", check, "work killed_policy STOP"),
        ("aynig.evaluator.evil", judge, "work unsafe STOP"),
    ] {
        let repo = Repo::new();
        repo.git(["switch", "-q", "--detach"]);
        let line = "git update-ref refs/heads/main $(git commit-tree HEAD^{tree} -p HEAD -m x); echo '{\"status\":\"success\"}'";
        repo.git(["config", name, line]);
        let run = start(&repo, &flow("work", step));
        repo.aynig_ok(["run", "--drain"]);
        assert_eq!(steps(&repo, &run), [wanted], "{name}");
        let log = out(&repo.aynig_ok(["flow", "log", &run.slug]));
        assert!(log.contains("refs/heads/main"), "{name}: {log}");
    }
}

/// CONTRACT 20.33
#[test]
fn refs_of_other_runs_are_none_of_a_step() {
    let repo = with_agent("");
    let other = start(&repo, &flow("ask", GATE));
    repo.aynig_ok(["run", "--drain"]);
    let (driver, ledger) = (format!("refs/heads/{}", other.driver), format!("refs/aynig/runs/{}", other.id));
    let slot = format!("refs/aynig/deferred/{}", other.driver);
    let work = format!("refs/heads/{}", other.work);
    for (name, moves) in [
        (&driver, format!("git update-ref {driver} $(git commit-tree {driver}^{{tree}} -p {driver} -m x)")),
        (&driver, format!("git update-ref -d {driver}")),
        (&ledger, format!("git update-ref {ledger} $(git commit-tree {ledger}^{{tree}} -p {ledger} -m x)")),
        (&ledger, format!("git update-ref -d {ledger}")),
        (&slot, format!("git update-ref {slot} $(git commit-tree {driver}^{{tree}} -p {driver} -m x)")),
        (&work, format!("git update-ref {work} $(git commit-tree {work}^{{tree}} -p {work} -m x)")),
    ] {
        agent(&repo, "scripted", &format!("cat >/dev/null; {moves}; echo done"));
        let before = repo.git(["for-each-ref", "--format=%(objectname)", name]);
        let run = start(&repo, &flow("work", ONE));
        repo.aynig(["run", "--branch", &run.driver]);
        assert_eq!(steps(&repo, &run), ["work killed_policy STOP"], "{moves}");
        let log = out(&repo.aynig_ok(["flow", "log", &run.slug]));
        assert!(log.contains(name.as_str()), "{moves}: {log}");
        if before.is_empty() {
            repo.git(["update-ref", "-d", name]);
        } else {
            repo.git(["update-ref", name, &before]);
        }
    }
}

/// CONTRACT 20.33
#[test]
fn a_step_puts_nothing_on_the_ledger_of_its_run() {
    let repo = with_agent("");
    for forged in [
        "T=$L^{tree}; M=x",
        // As if a person had done it: the last operation's words, and another tree.
        "export GIT_COMMITTER_EMAIL=person@example.com GIT_AUTHOR_EMAIL=person@example.com
         M=$(git log -1 --format=%B $L | grep -v '^{')
         git read-tree --index-output=/dev/null $L 2>/dev/null; export GIT_INDEX_FILE=$PWD/../forged; git read-tree $L
         B=$(git cat-file blob $L:run.json | sed 's/\"running\"/\"completed\"/' | git hash-object -w --stdin)
         git update-index --cacheinfo 100644,$B,run.json; T=$(git write-tree); unset GIT_INDEX_FILE",
        "T=; git update-ref -d $L",
    ] {
        let script = format!(
            "cat >/dev/null; L=$(git for-each-ref --format='%(refname)' refs/aynig/runs/$(basename $(dirname $PWD))*)\n{forged}\n\
             if test -n \"$T\"; then git update-ref $L $(git commit-tree \"$T\" -p $L -m \"$M\"); fi; echo done"
        );
        agent(&repo, "scripted", &script);
        let run = start(&repo, &flow("work", ONE));
        let output = repo.aynig(["run", "--drain"]);
        assert_eq!(steps(&repo, &run), ["work killed_policy STOP"], "{forged}: {}", told(&output));
        assert_eq!(end(&repo, &run)[1], "failed", "{forged}");
        let doctor = repo.aynig(["orch", "doctor", &run.slug]);
        assert!(doctor.status.success(), "{forged}: {}", told(&doctor));
        let log = out(&repo.aynig_ok(["flow", "log", &run.slug]));
        assert!(log.contains(&format!("refs/aynig/runs/{}", run.id)), "{forged}: {log}");
        let events = out(&repo.aynig_ok(["orch", "events", &run.id, "--json"]));
        assert_eq!(events.contains("refs/aynig/rescue/"), !forged.starts_with("T=;"), "{forged}: {events}");
    }
}

/// CONTRACT 20.33
#[test]
fn what_people_and_other_runs_move_meanwhile_is_none_of_the_step() {
    let repo = with_agent("");
    let (begun, go) = (repo.beside("begun"), repo.beside("go"));
    let waits = format!(
        "cat >/dev/null; touch {}; while ! test -e {}; do sleep 0.05; done; echo x >x",
        begun.display(),
        go.display()
    );
    let (other, removed) = (start(&repo, &flow("ask", GATE)), start(&repo, &flow("ask", GATE)));
    agent(&repo, "scripted", &waits);
    let run = start(&repo, &flow("work", ONE));
    let runner = repo.aynig_start(["run", "--branch", &run.driver]);
    wait_until("the step begins", || begun.exists());
    repo.git(["commit", "-q", "--allow-empty", "-m", "of a person"]);
    repo.git(["branch", "topic"]);
    repo.aynig_ok(["flow", "pause", &other.slug]);
    repo.aynig_ok(["flow", "stop", &removed.slug]);
    repo.aynig_ok(["workspace", "snapshot", &other.slug]);
    let third = start(&repo, &flow("ask", GATE));
    repo.aynig_ok(["run", "--branch", &third.driver]);
    std::fs::write(&go, "").expect("a file");
    let output = runner.finish();
    assert_eq!(steps(&repo, &run), ["work completed STOP"], "{}", told(&output));
}
