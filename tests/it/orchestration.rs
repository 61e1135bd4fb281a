//! The pack `orchestration`: its two flows, from `aynig install` to every end.

use super::flow_engine::{Started, end, start_file, steps};
use super::packs::with_pack;
use super::scene::told;
use super::support::*;

/// The agent. As the planner it reads the record; as the one that works it does what the instructions of the planner say.
const AGENT: &str = r#"
prompt=$(cat)
handed() { printf '%s\n' "$prompt" | sed -n "s/^- $1: //p"; }
case $prompt in
*"Judge by this record"*)
    case $prompt in
    *mischief*) echo '{"status":"unsafe"}' ;;
    *'"tests": 0'*) printf 'I read it.\n{"status":"success"}\n' ;;
    *) number=$(printf '%s\n' "$prompt" | sed -n 's/.*wanted \([0-9]*\).*/\1/p' | head -n 1)
       echo "{\"status\":\"partial\",\"next_step\":\"implement\",\"fix_instructions\":\"write $number\"}" ;;
    esac ;;
*)
    if [ -f "$(handed fix_instructions)" ]; then
        grep -q 'wanted 7' "$(handed validation_output)" || exit 9
        sed 's/^write //' "$(handed fix_instructions)" >result
    else
        echo 6 >result
    fi
    case $prompt in *pack*) echo x >>.aynig/flows/fix.yaml ;; esac
    echo "I wrote the number." ;;
esac"#;

/// The reviewer. Its first report has no verdict.
const REVIEWER: &str = r#"
prompt=$(cat)
handed() { printf '%s\n' "$prompt" | sed -n "s/^- $1: //p"; }
case $prompt in *touches*) echo x >>notes ;; esac
grep -q '+a new line' "$(handed validation_report)" || exit 9
grep -q 'a new note' "$(handed validation_report)" || exit 9
echo "The report."; echo "VERDICT: approve, or so I thought."
[ -f "$(handed fix_instructions)" ] || exit 0
case $prompt in *bad*) echo "**VERDICT: change**" ;; *) echo "VERDICT: approve" ;; esac"#;

/// A repository with the pack, in which `claude` is this script.
fn workshop(agent: &str) -> Repo {
    let repo = with_pack("orchestration");
    repo.command("../agent", agent);
    for (key, value) in [
        ("aynig.provider.claude.kind", "custom"),
        ("aynig.provider.claude.command", repo.beside("agent").to_str().expect("UTF-8")),
        ("aynig.validator.tests", r#"[ "$(cat result)" = 7 ] || { echo "wanted 7"; exit 1; }"#),
    ] {
        repo.git(["config", key, value]);
    }
    repo
}

fn drained(repo: &Repo, file: &str, input: &str) -> Started {
    let run = start_file(repo, file, &["--input", input]);
    let output = repo.aynig_ok(["run", "--drain"]);
    assert!(!err(&output).contains("warning"), "{}", told(&output));
    run
}

fn fix(repo: &Repo, task: &str) -> Started {
    drained(repo, ".aynig/flows/fix.yaml", &format!("task={task}"))
}

fn review(repo: &Repo, change: &str) -> Started {
    drained(repo, ".aynig/flows/review.yaml", &format!("change={change}"))
}

const TWO_ROUNDS: [&str; 6] = [
    "implement completed test",
    "test error judge",
    "judge partial implement",
    "implement completed test",
    "test completed judge",
    "judge success approve",
];

#[test]
fn both_flows_have_neither_faults_nor_warnings() {
    let repo = with_pack("orchestration");
    for name in ["fix", "review"] {
        let file = format!(".aynig/flows/{name}.yaml");
        let checked = repo.aynig_ok(["flow", "check", &file, "--base", "HEAD"]);
        assert!(err(&checked).contains("5 steps, 0 warnings"), "{}", told(&checked));
    }
}

/// CONTRACT 20.4, 20.23
#[test]
fn fix_mends_what_the_planner_names_and_asks_a_person() {
    let repo = workshop(AGENT);
    let run = fix(&repo, "Write the number");
    assert_eq!(steps(&repo, &run), [&TWO_ROUNDS[..], &["approve"]].concat());
    let shown = out(&repo.aynig_ok(["flow", "show", &run.slug]));
    assert!(shown.contains("Asked: Write the number"), "{shown}");
    repo.aynig_ok(["flow", "approve", &run.slug]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(end(&repo, &run), ["completed", "succeeded", "completed"]);
    assert_eq!(repo.git(["diff", "--name-only", "main", &run.work]), "result");
    assert_eq!(repo.show(&format!("{}:result", run.work)), "7");
}

#[test]
fn fix_is_rolled_back_if_it_is_rejected_unsafe_or_breaks_the_policy() {
    let repo = workshop(AGENT);
    let rejected = fix(&repo, "Write the number");
    repo.aynig_ok(["flow", "reject", &rejected.slug, "--comment", "no"]);
    repo.aynig_ok(["run", "--drain"]);
    let harmful = fix(&repo, "Do mischief");
    let greedy = fix(&repo, "Change the pack");
    let undo = "undo completed STOP";
    for (run, last, verdict) in [
        (&rejected, [&TWO_ROUNDS[..], &["approve gate_rejected undo", undo]].concat(), "rejected"),
        (&harmful, vec!["implement completed test", "test error judge", "judge unsafe undo", undo], "failed"),
        (&greedy, vec!["implement killed_policy undo", undo], "failed"),
    ] {
        assert_eq!(steps(&repo, run), last);
        assert_eq!(end(&repo, run)[1], verdict, "{last:?}");
        assert_eq!(repo.head(&run.work), repo.head("main"), "{last:?}");
        let rescued = repo.git(["for-each-ref", &format!("refs/aynig/rescue/{}", run.work)]);
        assert!(!rescued.is_empty(), "{last:?}");
    }
}

/// A repository with a branch `topic` to review.
fn with_topic() -> Repo {
    let repo = workshop(REVIEWER);
    repo.write("notes", "a line\n");
    repo.commit_all("notes");
    repo.git(["switch", "--quiet", "--create", "topic"]);
    repo.write("notes", "a line\na new line\n");
    repo.commit_all("a new note");
    repo.git(["branch", "bad"]);
    repo.git(["branch", "touches"]);
    repo.git(["switch", "--quiet", "main"]);
    repo
}

/// CONTRACT 18.15, 20.23
#[test]
fn review_reports_on_a_change_and_changes_nothing() {
    let repo = with_topic();
    let read = |change: &str| review(&repo, change);
    let again = ["collect completed review", "review completed judge", "judge partial review"];
    let good = read("main...topic");
    let approved = [&again[..], &["review completed judge", "judge success STOP"]].concat();
    assert_eq!(steps(&repo, &good), approved);
    assert_eq!(end(&repo, &good), ["completed", "succeeded", "completed"]);
    let manifest = std::fs::read_to_string(good.directory.join("artifacts/review/manifest.json"));
    assert!(manifest.expect("a manifest").contains("runner_final_response"));

    let asked = [&again[..], &["review completed judge", "judge needs_human decide"]].concat();
    for (verb, verdict) in [("approve", "succeeded"), ("reject", "rejected")] {
        let bad = read("bad");
        assert_eq!(steps(&repo, &bad), [&asked[..], &["decide"]].concat());
        let shown = out(&repo.aynig_ok(["flow", "show", &bad.slug]));
        assert!(shown.contains("The review of bad asks for changes"), "{shown}");
        repo.aynig_ok(["flow", verb, &bad.slug]);
        repo.aynig_ok(["run", "--drain"]);
        assert_eq!(end(&repo, &bad)[1], verdict);
    }
    let touched = read("main..touches");
    let undone = ["collect completed review", "review killed_policy undo", "undo completed STOP"];
    assert_eq!(steps(&repo, &touched), undone);
    for nothing in ["main...main", "no-such-branch", "--output=stolen"] {
        let run = read(nothing);
        assert_eq!(steps(&repo, &run), ["collect error STOP"], "{nothing}");
        assert_eq!(end(&repo, &run)[1], "failed", "{nothing}");
        assert!(!run.worktree.join("stolen").exists());
    }
}
