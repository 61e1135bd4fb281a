//! Clones that lack commits of a run: its base was not pushed to a branch of the hub, or not fetched since.

use super::back::{APPENDS, TWO};
use super::hosts::Field;
use super::*;

/// A run of the first host whose base is a commit that it has not pushed.
fn unpushed(field: &Field) -> Started {
    let first = &field.hosts[0];
    first.git(["commit", "-q", "--allow-empty", "-m", "not pushed"]);
    start(first, &flow("one", TWO))
}

/// A new clone of the hub without the base of the runs of the first host.
fn lacking(field: &Field) -> Repo {
    let third = field.third(APPENDS);
    let base = format!("{}^{{commit}}", field.hosts[0].head("main"));
    assert!(!git_output(&third, &["cat-file", "-e", &base]).status.success());
    third
}

/// CONTRACT 16.12
#[test]
fn a_step_is_carried_out_where_its_base_was_never_fetched() {
    let field = Field::new(APPENDS);
    let [first, second] = &field.hosts;
    let run = unpushed(&field);
    second.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(second, &run), ["one completed two", "two completed ask", "ask"]);
    first.aynig_ok(["flow", "approve", &run.slug]);
    second.aynig_ok(["run", "--drain"]);
    assert_eq!(end(first, &run), ["completed", "succeeded", "completed"]);
    let log = second.git(["log", "--format=%H", &run.work]);
    assert!(log.contains(&first.head("main")), "{log}");
    field.assert_same(&run);
}

/// CONTRACT 16.12
#[test]
fn a_clone_without_the_base_answers_and_steers_a_run() {
    let field = Field::new(APPENDS);
    let first = &field.hosts[0];
    let run = unpushed(&field);
    first.aynig_ok(["run", "--drain"]);
    for (verb, status) in [
        ("pause", "paused"),
        ("resume", "running"),
        ("rollback", "paused"),
        ("stop", "stopped"),
        ("resume", "running"),
    ] {
        lacking(&field).aynig_ok(["flow", verb, &run.slug]);
        first.aynig_ok(["flow", "list"]);
        assert_eq!(shown(first, &run)["status"], status, "{verb}");
    }
    for verb in ["approve", "reject"] {
        let asked = unpushed(&field);
        first.aynig_ok(["run", "--drain"]);
        lacking(&field).aynig_ok(["flow", verb, &asked.slug]);
        lacking(&field).aynig_ok(["run", "--drain"]);
        first.aynig_ok(["flow", "list"]);
        assert_eq!(end(first, &asked)[2], "completed", "{verb}");
    }
}

/// CONTRACT 16.12
#[test]
fn a_base_that_the_hub_lacks_too_is_named_with_the_command_that_brings_it() {
    let field = Field::new(APPENDS);
    let [first, second] = &field.hosts;
    let run = unpushed(&field);
    first.aynig_ok(["run", "--drain"]);
    let hub = field.hub.beside("hub.git");
    let at_hub = |arguments: &[&str]| {
        let place = ["--git-dir", hub.to_str().expect("UTF-8")];
        field.hub.git([&place, arguments].concat());
    };
    at_hub(&["update-ref", "-d", &format!("refs/aynig/work/{}/flow", run.id)]);
    at_hub(&["gc", "-q", "--prune=now"]);
    let refused = second.aynig(["flow", "approve", &run.slug]);
    assert_refused(&refused, 3, &["neither here nor at origin"]);
    let words = told(&refused);
    let line = words.split('`').find(|part| part.starts_with("git push origin ")).expect("a command");
    first.git(line.split(' ').skip(1));
    second.aynig_ok(["flow", "approve", &run.slug]);
    assert_eq!(shown(second, &run)["status"], "running");
}

/// CONTRACT 20.24
#[test]
fn a_work_branch_that_the_hub_lost_is_named_with_the_command_that_brings_it() {
    let field = Field::new(APPENDS);
    let first = &field.hosts[0];
    let run = start(first, &flow("one", TWO));
    first.aynig_ok(["run"]);
    let hub = field.hub.beside("hub.git");
    let work = format!("refs/aynig/work/{}/flow", run.id);
    field.hub.git(["--git-dir", hub.to_str().expect("UTF-8"), "update-ref", "-d", &work]);
    let words = told(&first.aynig(["run", "--drain"]));
    let line = words
        .split('`')
        .find(|part| part.starts_with("git push origin "))
        .unwrap_or_else(|| panic!("{words}"));
    assert!(line.ends_with(&work), "{words}");
    first.git(line.split(' ').skip(1));
    first.aynig_ok(["flow", "resume", &run.slug]);
    first.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(first, &run), ["one completed two", "two error", "two completed ask", "ask"]);
    field.assert_same(&run);
}
