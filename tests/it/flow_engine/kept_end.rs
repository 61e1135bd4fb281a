//! Ends of steps that the hub did not take: they are recorded later, and no agent runs a second time.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use nix::sys::signal::Signal;

use super::agent::agent;
use super::hosts::Field;
use super::*;

const TWO: &str = concat!(agent_step!("one", "one", "two"), agent_step!("two", "two", "STOP"));

fn hub_of(field: &Field) -> String {
    field.hosts[0].git(["remote", "get-url", "origin"])
}

/// An agent that counts its starts in the clone, and runs `once` at its first one.
fn counts(once: &str) -> String {
    format!(
        "read -r what; common=$(git rev-parse --git-common-dir); echo \"$what\" >>work; \
         echo \"$what\" >>\"$common/starts\"; [ $(wc -l <\"$common/starts\") -gt 1 ] || {{ {once}; }}"
    )
}

fn starts(host: &Repo) -> Vec<String> {
    let text = std::fs::read_to_string(host.path.join(".git/starts")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Lets the hub refuse pushes of refs that begin like this as often as the file `refusals` beside it says.
fn refuses(field: &Field, beginning: &str) -> String {
    refuses_at(&hub_of(field), beginning)
}

/// The same at this hub.
pub(crate) fn refuses_at(hub: &str, beginning: &str) -> String {
    let left = format!("{hub}.refusals");
    let script = format!(
        "#!/bin/sh\nleft=$(cat {left} 2>/dev/null || echo 0)\nwhile read -r old new name; do case $name in {beginning}*)\n\
         [ $left -gt 0 ] && {{ echo $((left-1)) >{left}; echo closed for now >&2; exit 1; }};; esac; done; exit 0\n"
    );
    let hook = format!("{hub}/hooks/pre-receive");
    std::fs::write(&hook, script).expect("a file");
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).expect("a program");
    left
}

fn pass(host: &Repo, seconds: u64) -> std::process::Output {
    let mut command = host.aynig_command();
    command.args(["run", "--drain"]).env("AYNIG_CLOCK_OFFSET_SECONDS", seconds.to_string());
    command.output().expect("it runs")
}

/// Sets the agent of a host that is to be started once.
fn once(host: &Repo, script: &str) {
    agent(host, "scripted", &counts(script));
}

fn one() -> String {
    flow("one", agent_step!("one", "one", "STOP")).replace("    prompt:", "    retries: 0\n    prompt:")
}

fn assert_recorded(host: &Repo, run: &Started, what: &str) {
    assert_eq!(steps(host, run), ["one completed STOP"], "{what}");
    assert_eq!(end(host, run), ["completed", "succeeded", "completed"], "{what}");
    assert_eq!(starts(host), ["one"], "{what}");
    let published = format!("refs/aynig/work/{}/flow", run.id);
    host.git(["fetch", "-q", "origin", &format!("+{published}:{published}")]);
    assert_eq!(host.git(["show", &format!("{published}:work")]), "one", "{what}");
    assert_eq!(host.head(&run.work), host.head(&published), "{what}");
    // The files and the contents of the step are in the record.
    let shown = json(&host.aynig_ok(["flow", "show", &run.slug, "--json"]));
    assert!(shown.to_string().contains("workspace_diff"), "{what}: {shown}");
    let doctor = host.aynig(["orch", "doctor", &run.id]);
    assert!(doctor.status.success(), "{what}: {}", told(&doctor));
}

/// CONTRACT 20.42
#[test]
fn a_hub_that_refuses_the_end_of_a_step_gets_it_later() {
    for beginning in ["refs/aynig/work", "refs/aynig/runs"] {
        let field = Field::new("exit 1");
        let host = &field.hosts[0];
        let left = refuses(&field, beginning);
        once(host, &format!("echo 2 >{left}"));
        let run = start(host, &one());
        for seconds in [0, 100] {
            let output = pass(host, seconds);
            assert_eq!(steps(host, &run), Vec::<String>::new(), "{beginning}: {}", told(&output));
            let shown = out(&host.aynig_ok(["flow", "show", &run.slug]));
            assert!(shown.contains("closed for now"), "{beginning}: {shown}");
        }
        assert!(run.directory.join("end").exists(), "{beginning}: it is kept");
        pass(host, 400);
        assert_recorded(host, &run, beginning);
        assert!(!run.directory.join("end").exists(), "{beginning}: it is recorded");
        let shown = out(&host.aynig_ok(["flow", "show", &run.slug, "--json"]));
        assert!(shown.contains("closed for now"), "{beginning}: {shown}");
    }
}

/// CONTRACT 20.42
#[test]
fn a_runner_that_is_killed_after_a_refusal_leaves_the_end_to_the_next_one() {
    let field = Field::new("exit 1");
    let host = &field.hosts[0];
    let left = refuses(&field, "refs/aynig/work");
    once(host, &format!("echo 1 >{left}"));
    let run = start(host, &one());
    let runner = host.aynig_start(["run", "--watch"]);
    wait_until("the hub to refuse the end", || {
        out(&host.aynig_ok(["flow", "show", &run.slug])).contains("closed for now")
    });
    runner.signal(Signal::SIGKILL);
    runner.finish();
    pass(host, 3_600);
    assert_recorded(host, &run, "killed");
}

/// CONTRACT 20.42
#[test]
fn a_step_that_is_killed_before_the_hub_answers_is_not_carried_out_again() {
    for point in ["step-decided", "ledger-written", "ledger-pushed", "step-ended"] {
        let field = Field::new("exit 1");
        let host = &field.hosts[0];
        once(host, "true");
        let run = start(host, &one());
        let mut command = host.aynig_command();
        command.arg("run").env("AYNIG_CRASH_AT", format!("{point}:kill:1"));
        command.output().expect("it runs");
        host.deserted();
        pass(host, 3_600);
        pass(host, 3_600);
        assert_recorded(host, &run, point);
    }
}

/// CONTRACT 20.42
#[test]
fn a_hub_that_is_away_for_a_moment_gets_the_end_from_the_same_attempt() {
    let field = Field::new("exit 1");
    let host = &field.hosts[0];
    let hub = hub_of(&field);
    once(host, &format!("mv {hub} {hub}.away; echo 'the hub is away' >>\"$common/trace\""));
    let run = start(host, &one());
    let trace = host.path.join(".git/trace");
    let mut command = host.aynig_command();
    command.args(["run", "--drain"]).env("GIT_TRACE", &trace).stdout(Stdio::piped()).stderr(Stdio::piped());
    let runner = Running::start(&mut command);
    // A push has failed, and another one was begun.
    let pushes = || {
        let text = std::fs::read_to_string(&trace).unwrap_or_default();
        let after =
            text.split_once("the hub is away").map(|(_, after)| after.matches("built-in: git push").count());
        after.unwrap_or_default()
    };
    wait_until("the hub to be missed", || pushes() > 1);
    std::fs::rename(format!("{hub}.away"), &hub).expect("it is back");
    let output = runner.finish();
    assert_recorded(host, &run, &told(&output));
    assert!(!told(&output).contains("handed back"), "{}", told(&output));
}

/// CONTRACT 20.42
#[test]
fn a_hub_that_is_away_until_the_lease_ends_gets_the_end_later() {
    for other_was_first in [false, true] {
        let field = Field::new("exit 1");
        let [host, other] = &field.hosts;
        let hub = hub_of(&field);
        once(host, &format!("mv {hub} {hub}.away"));
        host.git(["config", "aynig.orchLeaseSeconds", "15"]);
        let text = if other_was_first { one().replace("retries: 0", "retries: 1") } else { one() };
        let run = start(host, &text);
        let output = pass(host, 0);
        assert!(!std::path::Path::new(&hub).exists(), "{}", told(&output));
        std::fs::rename(format!("{hub}.away"), &hub).expect("it is back");
        if !other_was_first {
            pass(host, 3_600);
            assert_recorded(host, &run, "away");
            continue;
        }
        // The other host notes that the attempt was cut off, and cannot carry out the next one.
        other.git(["config", "--unset", "aynig.provider.scripted.command"]);
        let noted = pass(other, 3_600);
        assert_eq!(steps(other, &run), ["one error"], "{}", told(&noted));
        let output = pass(host, 3_700);
        assert_eq!(steps(host, &run), ["one error", "one completed STOP"], "{}", told(&output));
        assert_eq!(starts(host), ["one"]);
        assert_eq!(end(host, &run)[1], "succeeded");
        field.assert_same(&run);
    }
}

/// CONTRACT 20.42
#[test]
fn an_end_is_dropped_if_another_host_went_on() {
    let field = Field::new("exit 1");
    let [host, other] = &field.hosts;
    let left = refuses(&field, "refs/aynig/work");
    once(host, &format!("echo mine >mine; echo 1 >{left}"));
    agent(other, "scripted", "read -r what; echo \"$what\" >>work");
    let run = start(host, &flow("one", TWO));
    pass(host, 0);
    assert_eq!(steps(host, &run), Vec::<String>::new());
    // The pause binds the first host alone.
    let output = other.aynig_command().arg("run").env("AYNIG_RUNNER_ID", "second").output().expect("it runs");
    assert_eq!(steps(other, &run), ["one completed two"], "{}", told(&output));
    let output = pass(host, 400);
    assert_eq!(steps(host, &run), ["one completed two", "two completed STOP"]);
    assert_eq!(starts(host), ["one", "two"]);
    let log = out(&host.aynig_ok(["flow", "log", &run.slug]));
    assert!(log.contains("kept is dropped"), "{log}");
    let has = |name: &String| git_output(host, &["show", &format!("{name}:mine")]).status.success();
    assert!(host.rescues().iter().any(has), "the work is saved: {}", told(&output));
    assert_eq!(host.git(["show", &format!("{}:work", run.work)]), "one\ntwo");
    assert!(!run.directory.join("end").exists());
}

/// CONTRACT 20.42
#[test]
fn an_end_is_dropped_if_the_worktree_changed_or_a_person_names_the_step() {
    for what in ["changed", "named"] {
        let field = Field::new("exit 1");
        let host = &field.hosts[0];
        let left = refuses(&field, "refs/aynig/work");
        once(host, &format!("echo 1 >{left}"));
        let run = start(host, &one());
        pass(host, 0);
        assert_eq!(steps(host, &run), Vec::<String>::new());
        if what == "changed" {
            std::fs::write(run.worktree.join("later"), "mine").expect("a file");
        } else {
            host.aynig_ok(["flow", "pause", &run.slug]);
            host.aynig_ok(["flow", "resume", &run.slug, "--from", "one"]);
        }
        pass(host, 400);
        let log = out(&host.aynig_ok(["flow", "log", &run.slug]));
        assert!(log.contains("kept is dropped"), "{what}: {log}");
        assert_eq!(steps(host, &run), ["one completed STOP"], "{what}");
        assert_eq!(starts(host), ["one", "one"], "{what}");
    }
}
