//! Two runs on one host, of which one changes settings or hooks while a step of the other one is live or begins.

use super::agent::{agent, with_agent};
use super::hosts::Field;
use super::*;

pub(super) const ONE: &str = "  - id: work
    opcode: RUN_AGENT
    agent: NAME
    prompt: do it
    routes: {completed: STOP, error: STOP, killed_policy: STOP}
";

/// An agent that does this, notes that in a file, and waits for another file.
pub(super) fn waiting(repo: &Repo, name: &str, act: &str) {
    let place = |what: &str| repo.beside(&format!("{name}-{what}")).display().to_string();
    let script = format!(
        "cat >/dev/null; {act}; touch '{}'; while ! [ -e '{}' ]; do sleep 0.05; done; echo {name} >{name}",
        place("began"),
        place("go")
    );
    agent(repo, name, &script);
}

pub(super) fn begun(repo: &Repo, name: &str) {
    wait_for("the agent", || repo.beside(&format!("{name}-began")).exists().then_some(()));
}

pub(super) fn go(repo: &Repo, name: &str) {
    std::fs::write(repo.beside(&format!("{name}-go")), "").expect("a file");
}

/// CONTRACT 20.33
#[test]
fn no_step_begins_with_what_a_live_step_changed() {
    let hook = "H=$(git rev-parse --git-common-dir)/hooks; mkdir -p $H; echo evil >$H/post-merge";
    for (act, named) in [
        ("git config remote.x.pushurl /nowhere", "remote.x.pushurl"),
        ("git config core.sshcommand /nowhere", "core.sshcommand"),
        (hook, "post-merge"),
    ] {
        let repo = with_agent("");
        waiting(&repo, "one", act);
        agent(&repo, "other", "cat >/dev/null; echo other >other");
        let first = start(&repo, &flow("work", &ONE.replace("NAME", "one")));
        let second = start(&repo, &flow("work", &ONE.replace("NAME", "other")));
        let before = repo.git(["config", "--local", "--list"]);
        let runner = repo.aynig_start(["run", "--drain", "--branch", &first.driver]);
        begun(&repo, "one");
        repo.aynig(["run", "--branch", &second.driver]);
        assert_eq!(steps(&repo, &second), [""; 0], "{named}");
        let words = repo.git(["log", "-1", "--format=%B", &second.driver]);
        assert!(words.contains(named) && words.contains(&first.slug), "{named}: {words}");
        go(&repo, "one");
        runner.finish();
        assert_eq!(steps(&repo, &first), ["work killed_policy STOP"], "{named}");
        wait_for("the other step", || {
            repo.aynig(["run", "--drain", "--branch", &second.driver]);
            (steps(&repo, &second) == ["work completed STOP"]).then_some(())
        });
        assert_eq!(repo.git(["config", "--local", "--list"]), before, "{named}");
        assert!(!repo.path.join(".git/hooks/post-merge").exists(), "{named}");
    }
}

/// CONTRACT 20.33
#[test]
fn no_gate_opens_and_no_workspace_is_made_with_what_a_live_step_changed() {
    let field = Field::new("cat >/dev/null; echo other >other");
    let [here, there] = &field.hosts;
    let hook = "H=$(git rev-parse --git-common-dir)/hooks; mkdir -p $H; echo evil >$H/post-merge";
    waiting(here, "one", &format!("{hook}; git config core.sshcommand /nowhere"));
    let gate = flow("ask", gate_step!("STOP"));
    let asked = start(here, &gate);
    let first = start(here, &flow("work", &ONE.replace("NAME", "one")));
    let elsewhere = start(there, &flow("work", &ONE.replace("NAME", "scripted")));
    let runner = here.aynig_start(["run", "--drain", "--branch", &first.driver]);
    begun(here, "one");
    for run in [&asked, &elsewhere] {
        here.aynig(["run", "--branch", &run.driver]);
        assert_eq!(steps(here, run), [""; 0]);
        here.git(["fetch", "-q", "origin", &run.driver]);
        let words = here.git(["log", "-1", "--format=%B", "FETCH_HEAD"]);
        assert!(words.contains("was changed while a step of") && words.contains(&first.slug), "{words}");
        assert!(words.contains("dwp-not-before: "), "it is parked: {words}");
    }
    // Whoever makes a workspace now would take it for what there is to be.
    let file = here.path.join(".git/flow.yaml");
    let refused = here.aynig(["flow", "start", file.to_str().expect("UTF-8"), "--base", "main"]);
    assert_eq!(refused.status.code(), Some(3), "{}", told(&refused));
    assert!(told(&refused).contains(&first.slug), "{}", told(&refused));
    go(here, "one");
    runner.finish();
    assert_eq!(steps(here, &first), ["work killed_policy STOP"]);
    wait_for("the other runs", || {
        here.aynig(["run", "--drain"]);
        (steps(here, &asked) == ["ask"] && steps(here, &elsewhere) == ["work completed STOP"]).then_some(())
    });
}

/// CONTRACT 20.33
#[test]
fn an_attempt_that_is_tried_later_pauses_its_run_if_settings_were_changed_beside_it() {
    let repo = with_agent("");
    waiting(&repo, "one", "true");
    waiting(&repo, "later", "git config aynig.provider.z.command /evil");
    let script = std::fs::read_to_string(repo.path.join(".git/later.sh")).expect("a script");
    agent(&repo, "later", &format!("{script}exit 75"));
    let runs = ["one", "later"].map(|name| start(&repo, &flow("work", &ONE.replace("NAME", name))));
    let mut runners = Vec::new();
    for (name, run) in ["one", "later"].into_iter().zip(&runs) {
        runners.push(repo.aynig_start(["run", "--drain", "--branch", &run.driver]));
        begun(&repo, name);
    }
    for (name, runner) in ["later", "one"].into_iter().zip(runners.into_iter().rev()) {
        go(&repo, name);
        runner.finish();
    }
    for (run, other) in [(&runs[0], &runs[1]), (&runs[1], &runs[0])] {
        let words = told(&repo.aynig_ok(["flow", "show", &run.slug]));
        assert_eq!(end(&repo, run)[0], "paused", "{words}");
        assert!(words.contains("aynig.provider.z.command") && words.contains(&other.slug), "{words}");
    }
    assert_eq!(steps(&repo, &runs[1]), ["work error"], "it is tried again");
}

/// CONTRACT 20.33
#[test]
fn steps_that_were_live_when_a_setting_was_changed_pause_their_runs() {
    // The guilty one ends first, and last.
    for order in [["one", "other"], ["other", "one"]] {
        let repo = with_agent("");
        waiting(
            &repo,
            "one",
            &format!(
                "while ! [ -e '{}' ]; do sleep 0.05; done; git config aynig.provider.z.command /evil",
                repo.beside("both").display()
            ),
        );
        waiting(&repo, "other", "true");
        let runs = order.map(|name| start(&repo, &flow("work", &ONE.replace("NAME", name))));
        let before = repo.git(["config", "--local", "--list"]);
        let runners =
            runs.each_ref().map(|run| repo.aynig_start(["run", "--drain", "--branch", &run.driver]));
        begun(&repo, "other");
        wait_for("both steps", || {
            let live = |run: &Started| run.directory.join("attempt").exists();
            runs.iter().all(live).then_some(())
        });
        std::fs::write(repo.beside("both"), "").expect("a file");
        begun(&repo, "one");
        for (name, runner) in order.into_iter().zip(runners) {
            go(&repo, name);
            runner.finish();
            assert_eq!(repo.git(["config", "--local", "--list"]), before, "{order:?}");
        }
        for (run, other) in [(&runs[0], &runs[1]), (&runs[1], &runs[0])] {
            assert_eq!(steps(&repo, run), ["work completed STOP"], "{order:?}");
            let words = told(&repo.aynig_ok(["flow", "show", &run.slug]));
            assert!(
                words.contains("aynig.provider.z.command") && words.contains(&other.slug),
                "{order:?}: {words}"
            );
            assert_eq!(end(&repo, run)[0], "paused", "{order:?}: {words}");
            repo.aynig_ok(["flow", "resume", &run.slug]);
            repo.aynig(["run", "--drain", "--branch", &run.driver]);
            assert_eq!(end(&repo, run)[1], "succeeded", "{order:?}");
        }
    }
}
