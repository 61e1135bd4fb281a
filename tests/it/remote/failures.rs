//! Servers that refuse, unreachable remotes, and the number of connections of a pass.

use super::*;

const STEP: &str = r#"echo "$AYNIG_BRANCH" >>"$ROOM/ran"; next done"#;

/// A run looks at the remote while steps take longer than two seconds, as they may on a busy machine (CONTRACT 10.8).
fn assert_few_looks(wrapper: &Wrapper, start: std::time::Instant) {
    let looks = u64::try_from(wrapper.count("ls-remote")).expect("few");
    assert!(looks <= start.elapsed().as_secs() / 2, "{looks} looks in {:?}", start.elapsed());
}

/// CONTRACT 5.17
#[test]
fn a_refusing_server_is_heard_and_not_pestered() {
    let hub = hub(&[("work", STEP)]);
    hook(&hub, "pre-receive", "echo 'the freeze lasts until monday' >&2; exit 1");
    let clone = clone(&hub);
    hub.ready("task", "work");
    hub.ready("other", "work");
    let before = heads(&hub);
    let wrapper = Wrapper::new(&hub, "");
    // The refusal names neither branch, so it counts for both.
    let output = wrapper.run(&clone, &["run", "--remote", "origin", "--drain", "--jobs", "2"]);
    assert_exit(&output, 4);
    assert!(err(&output).contains("the freeze lasts until monday"), "{}", told(&output));
    assert_eq!(wrapper.count("push"), 1, "no retry storm");
    assert_eq!(hub.noted_lines("ran"), Vec::<String>::new());
    assert_eq!(heads(&hub), before);
    clone.assert_tidy();
}

/// CONTRACT 5.15, 5.17
#[test]
fn refusing_one_branch_does_not_stop_the_others() {
    let hub = hub(&[("work", STEP)]);
    hook(&hub, "update", "if [ $1 = refs/heads/b1 ]; then echo 'b1 is protected' >&2; exit 1; fi");
    let clone = clone(&hub);
    for branch in ["b0", "b1", "b2"] {
        hub.ready(branch, "work");
    }
    let output = clone.aynig(["run", "--remote", "origin", "--jobs", "3"]);
    assert_exit(&output, 4);
    assert!(err(&output).contains("b1 is protected"), "{}", told(&output));
    assert_eq!(hub.noted_lines("ran"), ["b0", "b2"]);
    assert_eq!(["b0", "b1", "b2"].map(|branch| hub.state(branch)), ["done", "work", "done"]);
    clone.assert_tidy();
}

/// CONTRACT 5.17
#[test]
fn a_hook_that_refuses_a_whole_push_for_one_branch_does_not_stop_the_others() {
    let hub = hub(&[("work", STEP)]);
    hook(&hub, "pre-receive", "if grep -q heads/b1; then echo 'b1 is protected' >&2; exit 1; fi");
    let clone = clone(&hub);
    for branch in ["b0", "b1", "b2"] {
        hub.ready(branch, "work");
    }
    let wrapper = Wrapper::new(&hub, "");
    let output = wrapper.run(&clone, &["run", "--remote", "origin", "--jobs", "3"]);
    assert_exit(&output, 4);
    assert!(err(&output).contains("b1 is protected"), "{}", told(&output));
    assert_eq!(hub.noted_lines("ran"), ["b0", "b2"]);
    assert_eq!(["b0", "b1", "b2"].map(|branch| hub.state(branch)), ["done", "work", "done"]);
    assert!(wrapper.count("push") <= 4, "one more for the claims, at most two for the results");
    clone.assert_tidy();
}

/// CONTRACT 5.17
#[test]
fn a_hook_that_names_another_branch_each_time_is_asked_three_times_more() {
    let hub = hub(&[("work", STEP)]);
    hook(&hub, "pre-receive", "read -r old new ref; echo \"$ref is protected\" >&2; exit 1");
    let clone = clone(&hub);
    let branches: Vec<String> = (0..8).map(|n| format!("b{n}")).collect();
    hub.ready_many(&branches, "work");
    let before = heads(&hub);
    let wrapper = Wrapper::new(&hub, "");
    let output = wrapper.run(&clone, &["run", "--remote", "origin", "--jobs", "8"]);
    assert_exit(&output, 4);
    assert_eq!(wrapper.count("push"), 4, "{}", told(&output));
    assert_eq!(heads(&hub), before);
    clone.assert_tidy();
}

/// CONTRACT 11.8
#[test]
fn an_unreachable_remote() {
    let hub = hub(&[("work", STEP)]);
    let clone = clone(&hub);
    fs::rename(&hub.path, hub.beside("away.git")).expect("moved");
    for arguments in [RUN, &["status", "--all", "--remote", "origin"]] {
        let output = clone.aynig(arguments.iter().copied());
        assert_exit(&output, 4);
        assert!(
            err(&output).contains("origin") && err(&output).contains("git ls-remote"),
            "{}",
            told(&output)
        );
    }
    clone.assert_tidy();
}

/// CONTRACT 5.14
#[test]
fn an_unknown_remote() {
    let hub = hub(&[("work", STEP)]);
    let clone = clone(&hub);
    let output = clone.aynig(["run", "--remote", "nowhere"]);
    assert_exit(&output, 2);
    assert!(err(&output).contains("nowhere") && err(&output).contains("git remote"), "{}", told(&output));
}

/// CONTRACT 5.15, 11.8
#[test]
fn a_pass_costs_one_fetch_and_few_pushes() {
    let script = r#"say "at-$AYNIG_BRANCH" yes; await release; next done"#;
    let hub = hub(&[("work", script)]);
    let clone = clone(&hub);
    let branches: Vec<String> = (0..12).map(|n| format!("b{n:02}")).collect();
    hub.ready_many(&branches, "work");
    // A connection takes a while, as over a network.
    let wrapper = Wrapper::new(&hub, r#"if [ "$verb" = push ]; then sleep 0.2; fi"#);
    let start = std::time::Instant::now();
    let runner = wrapper.start(&clone, &["run", "--remote", "origin", "--jobs", "12"]);
    for branch in &branches {
        hub.said(&format!("at-{branch}"));
    }
    assert_eq!(wrapper.count("push"), 1, "all claims in one");
    hub.release("release");
    let output = runner.finish();
    assert_exit(&output, 0);
    for branch in &branches {
        assert_eq!(states(&hub, branch), ["work", "working", "done"], "{branch}");
    }
    let pushes = wrapper.count("push");
    assert!(pushes <= 6, "{pushes} pushes");
    assert_eq!(wrapper.count("fetch"), 1);
    assert_few_looks(&wrapper, start);
    clone.assert_tidy();
}

#[test]
fn forty_steps_cost_few_pushes() {
    let hub = hub(&[("work", STEP)]);
    let clone = clone(&hub);
    let branches: Vec<String> = (0..40).map(|n| format!("b{n:02}")).collect();
    hub.ready_many(&branches, "work");
    // A connection takes a while, as over a network.
    let wrapper = Wrapper::new(&hub, r#"if [ "$verb" = push ]; then sleep 0.1; fi"#);
    let start = std::time::Instant::now();
    let output = wrapper.run(&clone, &["run", "--remote", "origin", "--jobs", "40"]);
    let pushes = wrapper.count("push");
    println!("{pushes} pushes, {:.1} s", start.elapsed().as_secs_f64());
    assert_exit(&output, 0);
    assert_eq!(hub.noted_lines("ran"), branches);
    for branch in &branches {
        assert_eq!(states(&hub, branch), ["work", "working", "done"], "{branch}");
    }
    assert!(pushes <= 10, "{pushes} pushes");
    assert_eq!(wrapper.count("fetch"), 1);
    assert_few_looks(&wrapper, start);
    clone.assert_tidy();
}
