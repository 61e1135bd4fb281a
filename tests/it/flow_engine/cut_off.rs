//! Leftovers of an attempt that was cut off, on the work branch.

use super::agent::{agent, with_agent};
use super::*;

const JUDGED: &str = "policies:\n  p: {forbidden_paths: [secret]}\nsteps:";

fn text() -> String {
    let step = "  - id: work
    opcode: RUN_AGENT
    agent: scripted
    policy: p
    prompt: do it
    retries: 3
    routes: {completed: STOP, error: STOP, killed_policy: STOP}
";
    flow("work", step).replace("steps:", JUDGED)
}

/// The files of a work branch.
fn files(repo: &Repo, branch: &str) -> Vec<String> {
    repo.git(["ls-tree", "-r", "--name-only", branch]).lines().map(str::to_owned).collect()
}

/// Writes a forbidden file once, and then only another one.
pub(super) fn once(repo: &Repo, then: &str) -> String {
    let first = repo.beside("first");
    let first = first.display();
    format!(
        "cat >/dev/null; if ! test -e {first}; then touch {first}; echo V >secret; {then}\nfi; echo ok >fine"
    )
}

fn assert_put_back(repo: &Repo, run: &Started, how: &str) {
    let done = steps(repo, run);
    assert_eq!(done.last().map(String::as_str), Some("work completed STOP"), "{how}: {done:?}");
    let found = files(repo, &run.work);
    assert!(found.contains(&"fine".to_owned()) && !found.contains(&"secret".to_owned()), "{how}: {found:?}");
    let rescued = repo.git(["for-each-ref", "--format=%(refname)", "refs/aynig/rescue"]);
    let has = |name: &&str| git_output(repo, &["show", &format!("{name}:secret")]).status.success();
    let name = rescued.lines().find(has).unwrap_or_else(|| panic!("{how}: {rescued}"));
    let log = out(&repo.aynig_ok(["flow", "log", &run.slug]));
    assert!(log.contains(name), "{how}: {name}: {log}");
}

/// CONTRACT 20.5
#[test]
fn what_was_committed_and_not_recorded_leaves_the_work_branch() {
    for point in ["snapshot-moved", "step-decided"] {
        let repo = with_agent("");
        agent(&repo, "scripted", &once(&repo, ""));
        let run = start(&repo, &text());
        let crash = format!("{point}:kill:1");
        repo.aynig_command().arg("run").env("AYNIG_CRASH_AT", &crash).output().expect("it runs");
        assert!(files(&repo, &run.work).contains(&"secret".to_owned()), "{point}: it is there for now");
        repo.aynig_ok(["run", "--drain"]);
        assert_put_back(&repo, &run, point);
    }
}

/// CONTRACT 20.5, 20.32
#[test]
fn a_step_that_takes_a_snapshot_and_kills_its_runner_gains_nothing() {
    let repo = with_agent("");
    // The step is the parent of the keeper, which is the parent of the agent.
    let kill = "S=$(basename $(dirname $PWD)); \"$AYNIG_BIN\" workspace snapshot $S >/dev/null; kill -9 $(ps -o ppid= -p $PPID); sleep 60";
    agent(&repo, "scripted", &once(&repo, kill));
    let run = start(&repo, &text());
    repo.aynig(["run", "--drain"]);
    repo.aynig_ok(["run", "--drain"]);
    assert_put_back(&repo, &run, "snapshot and kill");
}

/// CONTRACT 20.5, 20.32
#[test]
fn no_host_publishes_what_was_not_judged() {
    let hub = Repo::new();
    let bare = hub.beside("hub.git");
    let path = bare.to_str().expect("UTF-8");
    hub.git(["clone", "-q", "--bare", ".", path]);
    let kill = "S=$(basename $(dirname $PWD)); \"$AYNIG_BIN\" workspace snapshot $S >/dev/null; kill -9 $(ps -o ppid= -p $PPID); sleep 60";
    for (kill, point) in [("", Some("step-decided:kill:1")), (kill, None)] {
        let hosts = ["first", "second"].map(|name| {
            let host = Repo::new();
            host.git(["remote", "add", "origin", path]);
            host.git(["fetch", "-q", "origin"]);
            host.git(["reset", "-q", "--hard", "origin/main"]);
            host.git(["config", "aynig.remote", "origin"]);
            host.git(["config", "aynig.runnerId", name]);
            place_worktrees(&host);
            host
        });
        let [first, second] = &hosts;
        let script = once(first, kill);
        hosts.iter().for_each(|host| agent(host, "scripted", &script));
        let run = start(first, &text());
        let mut command = first.aynig_command();
        command.args(["run"]);
        if let Some(point) = point {
            command.env("AYNIG_CRASH_AT", point);
        }
        command.output().expect("it runs");
        second.aynig_ok(["run", "--drain"]);
        let done = steps(second, &run);
        assert_eq!(done.last().map(String::as_str), Some("work completed STOP"), "{point:?}: {done:?}");
        let published = first.git(["ls-remote", "origin", &format!("refs/aynig/work/{}/flow", run.id)]);
        let published = published.split('\t').next().expect("a commit").to_owned();
        second.git(["fetch", "-q", "origin", "refs/aynig/work/*:refs/aynig/work/*"]);
        let found = files(second, &published);
        assert!(found.contains(&"fine".to_owned()) && !found.contains(&"secret".to_owned()), "{found:?}");
        // The first host has all of it, and publishes nothing of that later.
        first.aynig(["run", "--drain"]);
        first.aynig(["workspace", "snapshot", &run.slug]);
        let later = first.git(["ls-remote", "origin", &format!("refs/aynig/work/{}/flow", run.id)]);
        let later = later.split('\t').next().expect("a commit").to_owned();
        first.git(["fetch", "-q", "origin", "refs/aynig/work/*:refs/aynig/work/*"]);
        let found = files(first, &later);
        assert!(!found.contains(&"secret".to_owned()), "{point:?}: {found:?}");
    }
}

/// CONTRACT 20.31
#[test]
fn a_stalled_driver_advises_what_moves_it() {
    for origin in ["flow-step", "stalled"] {
        let repo = with_agent("echo done");
        let run = start(&repo, &flow("one", agent_step!("one", "one", "STOP")));
        expired(&repo, &run.driver, origin);
        repo.aynig(["run"]);
        let told = repo.git(["log", "-1", "--format=%B", &run.driver]);
        let (_, line) = told.split_once("To try again").expect("the way back is named");
        let typed = line.lines().next().and_then(|line| line.split_once(": ")).expect("a command").1;
        assert_eq!(typed, format!("aynig flow resume {}", run.slug), "{origin}");
        let resumed = repo.aynig(typed.split(' ').skip(1));
        assert!(resumed.status.success(), "{origin}: {}", err(&resumed));
    }
}

/// CONTRACT 20.5, 20.8
#[test]
fn a_person_who_moves_a_stalled_driver_does_not_erase_the_attempt() {
    let verbs: [&[&str]; 2] = [&["resume"], &["pause", "resume"]];
    for verbs in verbs {
        let repo = with_agent("");
        agent(&repo, "scripted", &once(&repo, ""));
        let run = start(&repo, &text().replace("retries: 3", "retries: 0"));
        let crash = "agent-ended:kill:1";
        repo.aynig_command().arg("run").env("AYNIG_CRASH_AT", crash).output().expect("it runs");
        let mut later = repo.aynig_command();
        later.args(["run", "--branch", &run.driver, "--states", "none"]);
        later.env("AYNIG_CLOCK_OFFSET_SECONDS", "4000").output().expect("it runs");
        assert_eq!(repo.state(&run.driver), "stalled");
        for verb in verbs {
            repo.aynig_ok(["flow", verb, &run.slug]);
        }
        let done = steps(&repo, &run);
        assert_eq!(done, ["work error"], "{verbs:?}");
        let log = out(&repo.aynig_ok(["flow", "log", &run.slug]));
        assert!(log.contains("its attempt was cut off"), "{verbs:?}: {log}");
        repo.aynig_ok(["run", "--drain"]);
        let done = steps(&repo, &run);
        assert_eq!(done, ["work error", "work completed STOP"], "{verbs:?}");
    }
}
