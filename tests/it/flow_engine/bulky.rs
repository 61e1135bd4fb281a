//! Texts without measure, of agents and of people: a ledger stays one that its readers accept.

use super::agent::with_agent;
use super::gate::asked;
use super::*;

fn assert_whole(repo: &Repo, run: &Started) {
    let events = repo.git(["log", "-p", &format!("refs/aynig/runs/{}", run.id)]);
    assert!(!events.is_empty());
    repo.aynig_ok(["flow", "show", &run.slug]);
    let found = repo.aynig_ok(["orch", "doctor", &run.slug]);
    assert!(out(&found).contains("ok") || err(&found).is_empty(), "{}", told(&found));
}

/// CONTRACT 16.4
#[test]
fn a_step_with_too_many_violations_is_recorded_with_the_first_ones() {
    let make = "import os\nfor i in range(800): open(str(i) + '\\x01' * 240, 'w').close()";
    let repo = with_agent(&format!("cat >/dev/null; python3 -c \"{make}\""));
    let step = "  - {id: work, opcode: RUN_AGENT, agent: scripted, prompt: x, policy: none, routes: {completed: STOP, error: STOP, killed_policy: STOP}}\n";
    let text =
        flow("work", step).replace("steps:\n", "policies: {none: {forbidden_paths: ['**']}}\nsteps:\n");
    let run = start(&repo, &text);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["work killed_policy STOP"]);
    assert!(out(&repo.aynig_ok(["flow", "show", &run.slug, "--json"])).contains("and 700 more"));
    assert_whole(&repo, &run);
}

/// CONTRACT 16.4
#[test]
fn a_question_about_long_paths_and_long_answers_stay_readable() {
    let make = "import os\nfor i in range(60):\n  p = ('\\x01' * 240 + '/') * 15\n  os.makedirs(p, exist_ok=True)\n  open(p + str(i), 'w').close()";
    let repo = with_agent(&format!("cat >/dev/null; python3 -c \"{make}\""));
    let work = "  - {id: work, opcode: RUN_AGENT, agent: scripted, prompt: x, routes: {completed: ask, error: STOP}}\n";
    let ask = "  - {id: ask, opcode: GATE, gate: result, required: 2, routes: {gate_approved: STOP, gate_rejected: STOP}}\n";
    let run = start(&repo, &flow("work", &format!("{work}{ask}")));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["work completed ask", "ask"]);
    let long = "\u{1}".repeat(100_000);
    for person in ["one@example.com", "two@example.com"] {
        repo.git(["config", "user.email", person]);
        repo.aynig_ok(["flow", "approve", &run.slug, "--comment", &long]);
    }
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(end(&repo, &run)[1], "succeeded");
    let log = out(&repo.aynig_ok(["flow", "log", &run.slug]));
    assert!(log.contains("approved"), "{log}");
    assert_whole(&repo, &run);
}

/// CONTRACT 16.4, 20.26
#[test]
fn an_answer_that_was_pushed_with_a_huge_text_counts_with_its_beginning() {
    let repo = Repo::new();
    let run = asked(&repo, super::gate::GATE);
    let head = repo.head(&run.work);
    let body = "a plain text \u{1b}".repeat(150_000);
    let message = format!(
        "yes\n\n{body}\n\ndwp-state: flow-step\naynig-slot: {}\naynig-wake: true\naynig-gate: result\naynig-answer: approved\naynig-tree: {head}\n",
        run.driver
    );
    let file = repo.path.join("message");
    std::fs::write(&file, message).expect("a file");
    let tree = repo.git(["rev-parse", &format!("{}^{{tree}}", run.driver)]);
    let file = file.to_str().expect("UTF-8");
    let commit = repo.git(["commit-tree", tree.trim(), "-p", &run.driver, "-F", file]);
    repo.git(["update-ref", &format!("refs/aynig/deferred/{}", run.driver), commit.trim()]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(end(&repo, &run)[1], "succeeded");
    assert_whole(&repo, &run);
}
