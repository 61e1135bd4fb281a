//! `aynig wait` for branches of a remote.

use super::*;

/// CONTRACT 11.25
#[test]
fn a_wait_in_a_clone_sees_what_another_host_does() {
    let hub = hub(&[("work", "say at $$; await release; next check"), ("check", "next done")]);
    let (laptop, desk) = (hub.clone_beside("laptop"), hub.clone_beside("desk"));
    hub.ready("task", "work");
    let runner = laptop.aynig_start(["run", "--remote", "origin", "--drain"]);
    hub.said("at");
    assert_eq!(desk.aynig(["wait", "task", "--remote", "origin", "--timeout", "0"]).status.code(), Some(124));
    let wrapper = Wrapper::new(&hub, "");
    let rests = wrapper.start(&desk, &["wait", "task", "--remote", "origin", "--timeout", "2m"]);
    let passes = desk.aynig_start(["wait", "task", "--remote=origin", "--state=check", "--json"]);
    wait_until("two requests", || wrapper.count("ls-remote") >= 2);
    let before = wrapper.count("fetch");
    hub.release("release");
    assert_eq!(runner.finish().status.code(), Some(0));
    let output = rests.finish();
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    assert!(out(&output).contains("task  done  rests"), "{}", told(&output));
    assert!(wrapper.count("ls-remote") <= 60, "{} requests", wrapper.count("ls-remote"));
    assert!(before <= 2, "fetched without news {before} times");
    let output = passes.finish();
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let row = &listed(&output)[0];
    assert_eq!(
        (row["outcome"].as_str(), row["reachedState"].as_str()),
        (Some("reached"), Some("check")),
        "{row}"
    );
    assert_refused(&desk.aynig(["wait", "tusk", "--remote", "origin"]), 1, &["there is no branch tusk"]);
}

/// CONTRACT 11.25
#[test]
fn a_remote_that_is_away_for_a_while_is_asked_again() {
    let hub = hub(&[("work", "next done")]);
    let desk = hub.clone_beside("desk");
    hub.ready("task", "work");
    let wrapper = Wrapper::new(
        &hub,
        r#"if [ "$verb" = ls-remote ] && [ -e "$ROOM/away" ]; then say refused $$; exit 128; fi"#,
    );
    let wait = wrapper.start(&desk, &["wait", "task", "--remote", "origin", "--timeout", "5m"]);
    wait_until("the first look", || wrapper.count("fetch") >= 1);
    hub.release("away");
    hub.said("refused");
    std::fs::remove_file(hub.beside("away")).expect("it is there");
    hub.aynig_ok(["run", "task"]);
    let output = wait.finish();
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    assert_eq!(err(&output).matches("asking again").count(), 1, "{}", told(&output));
}
