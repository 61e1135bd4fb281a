//! `aynig.notify` for runs: a person hears of what waits for a person and of what did not succeed, once, by the host that
//! moved the driver.

use super::agent::{agent, with_agent};
use super::hosts::Field;
use super::*;

const GATE: &str =
    "  - {id: ask, opcode: GATE, gate: result, routes: {gate_approved: STOP, gate_rejected: STOP}}\n";
const AGAIN: &str = "  - {id: work, opcode: RUN_AGENT, agent: scripted, prompt: go, max_visits: 1, allow_empty: true, routes: {completed: work, error: STOP}}\n";
const WORK: &str = "  - {id: work, opcode: RUN_AGENT, agent: scripted, prompt: go, allow_empty: true, routes: {completed: STOP, error: STOP}}\n";

/// Lets `aynig.notify` keep each notice.
pub(super) fn listen(repo: &Repo) {
    let place = repo.beside("heard");
    repo.git(["config", "aynig.notify", &format!("cat >>'{}'", place.display())]);
}

/// The notices that were given.
pub(super) fn heard(repo: &Repo) -> Vec<Value> {
    let text = std::fs::read_to_string(repo.beside("heard")).unwrap_or_default();
    // The last one may be half written.
    text.split_inclusive('\n')
        .filter(|line| line.ends_with('\n'))
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

/// The one notice that there is. A process of its own gives it, beside the step.
pub(super) fn the_notice(repo: &Repo) -> Value {
    wait_until("a notice", || {
        std::fs::read_to_string(repo.beside("heard")).unwrap_or_default().ends_with('\n')
    });
    let [notice] = <[Value; 1]>::try_from(heard(repo)).expect("one notice");
    std::fs::remove_file(repo.beside("heard")).expect("a file");
    notice
}

pub(super) fn next(notice: &Value) -> Vec<&str> {
    notice["next"].as_array().expect("a list").iter().map(|one| one.as_str().expect("text")).collect()
}

/// CONTRACT 11.11, 20.41
#[test]
fn a_person_hears_of_a_gate_and_how_to_answer() {
    for (limit, state) in [("", "flow-gate"), ("timeout: 1h, ", "flow-step")] {
        let repo = Repo::new();
        listen(&repo);
        let gate = GATE.replace("gate: result, ", &format!("gate: result, {limit}"));
        let run = start(&repo, &flow("ask", &gate));
        assert_eq!(heard(&repo), Vec::<Value>::new());
        repo.aynig_ok(["run", "--drain"]);
        let notice = the_notice(&repo);
        assert_eq!(
            ["event", "branch", "state", "commit"].map(|field| notice[field].as_str().unwrap_or_default()),
            ["waits-for-you", &run.driver, state, &repo.head(&run.driver)],
            "{notice}"
        );
        assert_eq!(notice["waitsFor"], format!("an approval: `aynig flow approve {}`", run.slug));
        let approve = format!("aynig flow approve {}", run.slug);
        let reject = format!("aynig flow reject {} --comment TEXT", run.slug);
        assert_eq!(next(&notice), [approve.as_str(), &reject]);
        repo.aynig_ok(["run", "--drain"]);
        repo.aynig_ok(["flow", "approve", &run.slug]);
        repo.aynig_ok(["run", "--drain"]);
        assert_eq!(end(&repo, &run)[1], "succeeded");
        assert_eq!(heard(&repo), Vec::<Value>::new(), "nobody is needed");
    }
}

/// CONTRACT 11.11, 20.41
#[test]
fn a_person_hears_of_a_run_that_rests_or_did_not_succeed() {
    let repo = with_agent("cat >/dev/null; echo done");
    listen(&repo);
    let run = start(&repo, &flow("work", AGAIN));
    repo.aynig_ok(["run", "--drain"]);
    let notice = the_notice(&repo);
    assert_eq!((&notice["event"], &notice["state"]), (&"waits-for-you".into(), &"flow-gate".into()));
    assert!(
        notice["reason"].as_str().is_some_and(|why| why.contains("work was entered 1 times")),
        "{notice}"
    );
    assert_eq!(next(&notice), [format!("aynig flow resume {}", run.slug)]);
    // A person who types the command hears of it as of a state that is set by hand.
    repo.aynig_ok(["flow", "stop", &run.slug]);
    let notice = the_notice(&repo);
    assert_eq!((&notice["event"], &notice["state"]), (&"run-ended".into(), &"flow-done".into()));
    assert_eq!(notice["reason"], "ended: stopped");
    repo.aynig_ok(["flow", "rollback", &run.slug]);
    assert_eq!(heard(&repo), Vec::<Value>::new(), "it had ended");
    agent(&repo, "scripted", "cat >/dev/null; exit 3");
    let run = start(&repo, &flow("work", WORK));
    repo.aynig_ok(["run", "--drain"]);
    let notice = the_notice(&repo);
    assert_eq!(notice["event"], "run-ended");
    assert_eq!(notice["branch"], run.driver.as_str());
    assert_eq!(notice["previousState"], "flow-step");
    assert_eq!(notice["reason"], "ended: failed");
    assert!(next(&notice).contains(&format!("aynig flow log {}", run.slug).as_str()), "{notice}");
    agent(&repo, "scripted", "cat >/dev/null; echo done");
    let run = start(&repo, &flow("work", WORK));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(end(&repo, &run)[1], "succeeded");
    assert_eq!(heard(&repo), Vec::<Value>::new(), "nobody is needed");
    repo.git(["config", "aynig.notifyStates", "flow-done"]);
    start(&repo, &flow("work", WORK));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(the_notice(&repo)["event"], "state");
}

/// CONTRACT 11.11, 20.41
#[test]
fn what_a_step_that_was_cut_off_leaves_is_told_with_commands_for_its_run() {
    let repo = with_agent("cat >/dev/null; echo done");
    listen(&repo);
    let run = start(&repo, &flow("work", WORK));
    let killed = repo.aynig_command().arg("run").env("AYNIG_CRASH_AT", "agent-ended:kill:1").output();
    let killed = killed.expect("it runs");
    assert_eq!(repo.state(&run.driver), "stalled", "{}", told(&killed));
    let notice = the_notice(&repo);
    assert_eq!(notice["event"], "stalled");
    assert!(next(&notice).contains(&format!("aynig flow resume {}", run.slug).as_str()), "{notice}");
    assert!(next(&notice).iter().all(|command| !command.contains("set-state")), "{notice}");
    // The same where a person carries the run out.
    let mut command = repo.aynig_command();
    command.args(["flow", "resume", "--wait", &run.slug]).env("AYNIG_CRASH_AT", "agent-ended:kill:1");
    let driven = command.output().expect("it runs");
    wait_until("the notices", || heard_events(&repo).len() == 2);
    // The first attempt has used up the retry.
    assert_eq!(heard_events(&repo), ["stalled", "run-ended"], "{}", told(&driven));
}

pub(super) fn heard_events(repo: &Repo) -> Vec<Value> {
    heard(repo).into_iter().map(|notice| notice["event"].clone()).collect()
}

/// CONTRACT 11.11, 20.41
#[test]
fn only_the_host_that_moved_the_driver_gives_notice() {
    let field = Field::new("read -r what; echo done");
    let [first, second] = &field.hosts;
    field.hosts.iter().for_each(listen);
    let run = start(first, &flow("ask", GATE));
    second.aynig_ok(["run", "--drain"]);
    first.aynig_ok(["run", "--drain"]);
    first.aynig_ok(["flow", "show", &run.slug]);
    let notice = the_notice(second);
    assert_eq!((&notice["event"], &notice["remote"]), (&"waits-for-you".into(), &"origin".into()));
    assert_eq!(heard(first), Vec::<Value>::new());
    first.aynig_ok(["flow", "reject", &run.slug, "--comment", "no"]);
    first.aynig_ok(["run", "--drain"]);
    assert_eq!(the_notice(first)["reason"], "ended: rejected");
    second.aynig_ok(["run", "--drain"]);
    assert_eq!(heard(second), Vec::<Value>::new());
}
