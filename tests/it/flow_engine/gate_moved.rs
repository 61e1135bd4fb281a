//! A gate whose work moves while it is open, there and back.

use super::agent::agent;
use super::gate::{GATE, asked, refused};
use super::*;

/// An agent that works, the gate `ask`, and the same agent again.
fn worked(repo: &Repo) -> Started {
    agent(repo, "scripted", "cat >/dev/null; echo \"$AYNIG_ORCH_TURN\" >>work; echo did");
    let steps =
        [agent_step!("work", "Work.", "ask"), &GATE.replace("gate_approved: STOP", "gate_approved: last")]
            .concat();
    let run = start(repo, &flow("work", &(steps + agent_step!("last", "Work on.", "STOP"))));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(repo.state(&run.driver), "flow-gate");
    run
}

/// A change of the work by a person.
type Move = fn(&Started, &Repo);

fn commit(run: &Started, repo: &Repo) {
    let worktree = run.worktree.to_str().expect("UTF-8");
    repo.git(["-C", worktree, "commit", "-q", "--allow-empty", "-m", "mine"]);
}

fn reset(run: &Started, repo: &Repo) {
    repo.git(["-C", run.worktree.to_str().expect("UTF-8"), "reset", "-q", "--hard", "HEAD~1"]);
}

/// The lines of `flow log` about questions and answers.
fn answers(repo: &Repo, run: &Started) -> Vec<String> {
    let lines = json(&repo.aynig_ok(["flow", "log", &run.slug, "--json"]));
    let all = lines["entries"].as_array().unwrap_or_else(|| panic!("{lines}")).iter();
    let told = all.filter(|one| one["kind"] == "answer");
    told.map(|one| one["text"].as_str().expect("a text").to_owned()).collect()
}

/// CONTRACT 20.24
#[test]
fn work_that_moves_away_and_back_is_asked_about_each_time() {
    let repo = Repo::new();
    let run = asked(&repo, GATE);
    let moved: [(Move, usize); 3] = [(commit, 1), (reset, 2), (commit, 3)];
    for (moves, times) in moved {
        moves(&run, &repo);
        let (code, words) = refused(&repo, &["flow", "approve", &run.slug]);
        assert_eq!(code, Some(1), "{words}");
        assert!(words.contains("asks anew"), "{words}");
        let shown = json(&repo.aynig_ok(["flow", "show", &run.slug, "--json"]));
        assert_eq!(shown["place"], "gate", "{shown}");
        let told = answers(&repo, &run);
        assert_eq!(told.len(), times, "{told:?}");
        assert!(told.iter().all(|one| one.starts_with("result withdrawn: the work moved to ")), "{told:?}");
        repo.aynig_ok(["run", "--drain"]);
        assert_eq!(steps(&repo, &run), ["ask"], "it stays open");
    }
    repo.aynig_ok(["flow", "approve", &run.slug]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["ask gate_approved STOP"]);
    let lines = out(&repo.aynig_ok(["orch", "events", &run.slug, "--json"]));
    let events = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let events = events.filter(|line| line["event"]["type"] == "approval.requested");
    let calls: Vec<String> =
        events.map(|line| line["event"]["tool"]["id"].as_str().expect("an id").to_owned()).collect();
    assert_eq!(calls.len(), 4, "{calls:?}");
    let different: std::collections::BTreeSet<uuid::Uuid> =
        calls.iter().map(|id| uuid::Uuid::parse_str(id).expect("a UUID")).collect();
    assert_eq!(different.len(), calls.len(), "{calls:?}");
}

/// CONTRACT 20.24, 20.29
#[test]
fn a_gate_is_answered_after_a_rollback_and_its_undo_in_each_order() {
    let orders: [&[&str]; 4] = [
        &["rollback", "!approve", "undo", "!approve", "resume", "approve"],
        &["rollback", "!approve", "resume", "undo", "!approve", "resume", "approve"],
        &["rollback", "resume", "!approve", "undo", "resume", "!approve", "approve"],
        &["rollback", "undo", "rollback", "!approve", "undo", "!approve", "approve", "resume"],
    ];
    for order in orders {
        let repo = Repo::new();
        let run = worked(&repo);
        for word in order {
            match *word {
                "undo" => drop(repo.aynig_ok(["flow", "rollback", &run.slug, "--undo"])),
                "!approve" => {
                    let (code, words) = refused(&repo, &["flow", "approve", &run.slug]);
                    assert_eq!(code, Some(1), "{order:?}: {words}");
                    assert!(words.contains("asks anew"), "{order:?}: {words}");
                }
                verb => drop(repo.aynig_ok(["flow", verb, &run.slug])),
            }
            repo.aynig_ok(["run", "--drain"]);
        }
        repo.aynig_ok(["run", "--drain"]);
        assert_eq!(
            steps(&repo, &run),
            ["work completed ask", "ask gate_approved last", "last completed STOP"],
            "{order:?}"
        );
    }
}

/// CONTRACT 20.7, 20.29
#[test]
fn work_that_a_rollback_of_the_flow_put_back_is_brought_back_and_approved() {
    let repo = Repo::new();
    agent(&repo, "scripted", "cat >/dev/null; echo one >>work; echo did");
    let undo = "  - {id: undo, opcode: ROLLBACK, target: pre_run, routes: {completed: STOP, error: STOP}}\n";
    let gate = GATE.replace("gate_rejected: STOP", "gate_rejected: undo");
    let run = start(&repo, &flow("work", &[agent_step!("work", "Work.", "ask"), &gate, undo].concat()));
    repo.aynig_ok(["run", "--drain"]);
    repo.aynig_ok(["flow", "reject", &run.slug, "--comment", "no"]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(end(&repo, &run)[1], "rejected");
    repo.aynig_ok(["flow", "rollback", "--undo", &run.slug]);
    repo.aynig_ok(["flow", "resume", &run.slug, "--from", "ask"]);
    repo.aynig_ok(["run", "--drain"]);
    repo.aynig_ok(["flow", "approve", &run.slug]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(end(&repo, &run)[1], "succeeded");
    assert_eq!(repo.git(["show", &format!("{}:work", run.work)]), "one");
    let refused = repo.aynig(["land", &run.driver]);
    let line = format!("`aynig land {}`", run.work);
    for branch in [&run.work, &run.driver] {
        assert!(out(&repo.aynig_ok(["flow", "show", branch])).contains("ended: succeeded"), "{branch}");
    }
    assert_refused(&refused, 2, &["drives run", &line]);
    repo.aynig_ok(["land", &run.work]);
    assert_eq!(repo.git(["show", "main:work"]), "one");
}

/// CONTRACT 20.24, 20.29
#[test]
fn an_approval_counts_for_the_approved_work_alone() {
    let orders: [(&[&str], bool); 3] = [
        (&["approve", "rollback", "resume"], true),
        (&["pause", "approve", "rollback", "resume"], true),
        (&["approve", "rollback", "undo", "resume"], false),
    ];
    for (order, is_asked_again) in orders {
        let repo = Repo::new();
        let run = worked(&repo);
        for word in order {
            match *word {
                "undo" => drop(repo.aynig_ok(["flow", "rollback", &run.slug, "--undo"])),
                verb => drop(repo.aynig_ok(["flow", verb, &run.slug])),
            }
        }
        let told = told(&repo.aynig_ok(["run", "--drain"]));
        let done = ["work completed ask", "ask gate_approved last", "last completed STOP"];
        if is_asked_again {
            assert_eq!(steps(&repo, &run), ["work completed ask", "ask"], "{order:?}: {told}");
            assert!(told.contains("the gate asks anew"), "{order:?}: {told}");
            let shown = json(&repo.aynig_ok(["flow", "show", &run.slug, "--json"]));
            assert_eq!(shown["place"], "gate", "{order:?}: {shown}");
            repo.aynig_ok(["flow", "approve", &run.slug]);
            repo.aynig_ok(["run", "--drain"]);
        }
        assert_eq!(steps(&repo, &run), done, "{order:?}: {told}");
    }
}

/// CONTRACT 20.24
#[test]
fn an_approval_does_not_count_for_work_that_is_put_back_while_it_is_noted() {
    let repo = Repo::new();
    let pid = repo.beside("pid");
    repo.command(
        ".aynig/command/flow-step",
        &format!("echo $$ >'{}'; exec \"$AYNIG_BIN\" flow step", pid.display()),
    );
    repo.commit_all("a command that shows its process");
    let run = worked(&repo);
    repo.aynig_ok(["flow", "approve", &run.slug]);
    repo.git(["config", "aynig.commandsFrom", "main"]);
    let mut command = repo.aynig_command();
    command.args(["run", "--branch", &run.driver]).env("AYNIG_CRASH_AT", "step-decided:stop");
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let runner = Running::start(&mut command);
    let step: i32 = wait_for_file(&pid).trim().parse().expect("a number");
    wait_until("the step to stop", || is_stopped(step));
    repo.aynig_ok(["workspace", "rollback", &run.slug]);
    let step = nix::unistd::Pid::from_raw(step);
    nix::sys::signal::kill(step, nix::sys::signal::Signal::SIGCONT).expect("it is there");
    let words = told(&runner.finish());
    repo.git(["config", "--unset", "aynig.commandsFrom"]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["work completed ask", "ask"], "{words}");
    assert!(words.contains("the gate asks anew"), "{words}");
}
