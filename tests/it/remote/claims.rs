//! A step and the race for it: claims that win, lose, are refused, or are cut off.

use super::*;

/// CONTRACT 4.12, 5.2, 9.12, 12.4
#[test]
fn one_step_from_claim_to_result() {
    let script = format!(
        "git symbolic-ref -q HEAD >\"$ROOM/attached\"; git for-each-ref --format='%(refname)' refs/heads >\"$ROOM/local\"\n\
         {WORK}\n rm loose.txt; next done"
    );
    let hub = hub(&[("work", &script)]);
    let clone = clone(&hub);
    hub.ready("task", "work");
    let before = heads(&clone);
    let runner = clone.aynig_start(["run", "--remote", "origin", "--lease-seconds", "2"]);
    hub.said("at");
    wait_until("two renewals", || {
        states(&hub, "task").iter().filter(|state| *state == "working").count() >= 3
    });
    hub.release("release");
    let output = runner.finish();
    assert_exit(&output, 0);
    assert_eq!(fs::read_to_string(hub.beside("attached")).expect("written"), "", "the worktree is detached");
    assert_eq!(hub.said("local"), "refs/heads/main", "no branch was made for it");
    assert_eq!(heads(&clone), before);
    let commits = hub.linear("main..task");
    let states = states(&hub, "task");
    assert_eq!((states[0].as_str(), states[1].as_str()), ("work", "working"), "{states:?}");
    assert_eq!(states.last().map(String::as_str), Some("done"), "{states:?}");
    assert_eq!(states.iter().filter(|state| *state == "-").count(), 1, "its own commit: {states:?}");
    let run = hub.trailer(&commits[1], "dwp-run-id");
    for (commit, state) in commits.iter().zip(&states) {
        match state.as_str() {
            "working" => {
                assert_eq!(hub.trailer(commit, "dwp-run-id"), run);
                assert_eq!(hub.trailer(commit, "dwp-source"), "git:origin");
                assert_eq!(hub.trailer(commit, "dwp-lease-seconds"), "2");
            }
            "done" => assert_eq!(hub.trailer(commit, "dwp-source"), "git:origin"),
            _ => assert_eq!(hub.trailer(commit, "dwp-source"), ""),
        }
    }
    assert_eq!(header_of_attempt(&hub, "task"), Some(run));
    assert_eq!(hub.message("task"), "chore: set done\n\ndwp-state: done\ndwp-source: git:origin");
    assert_eq!(hub.show("task:own.txt"), "own");
    assert_eq!(clone.rescues(), Vec::<String>::new());
    clone.assert_tidy();
    hub.assert_tidy();
}

/// Holds the first push, which carries the claim of a runner that has scanned, until the file `go` appears.
const HOLD_FIRST_PUSH: &str =
    r#"if [ "$verb" = push ] && [ "$count" = 1 ]; then say pushing yes; await go; fi"#;

/// Runs `happens` between the scan and the only push, which then has no branch to move. Asserts that the
/// branch stays as `happens` left it.
fn before_the_push(prepare: impl FnOnce(&Repo), happens: impl FnOnce(&Repo)) -> Output {
    let hub = hub(&[("work", "echo ran >>\"$ROOM/ran\"; next done")]);
    let clone = clone(&hub);
    hub.ready("task", "work");
    prepare(&hub);
    let wrapper = Wrapper::new(&hub, HOLD_FIRST_PUSH);
    let runner = wrapper.start(&clone, &["run", "--remote", "origin", "--log-level", "info"]);
    hub.said("pushing");
    happens(&hub);
    let after = heads(&hub);
    hub.release("go");
    let output = runner.finish();
    assert_exit(&output, 0);
    assert_eq!(heads(&hub), after, "nothing was overwritten or brought back: {}", told(&output));
    assert_eq!(hub.noted_lines("ran"), Vec::<String>::new());
    assert_eq!(wrapper.count("push"), 1);
    clone.assert_tidy();
    output
}

/// Runs `happens` between the scan and the push that would claim the branch.
fn between_scan_and_claim(happens: impl FnOnce(&Repo)) -> Output {
    before_the_push(|_| {}, happens)
}

/// CONTRACT 5.3, 5.9
#[test]
fn a_loser_says_who_holds_it_and_until_when() {
    let output = between_scan_and_claim(|hub| {
        let trigger = hub.head("task");
        hub.taken_by_other(&trigger, "task", 300);
    });
    let line = err(&output);
    let said = line.lines().find(|line| line.contains("other-host")).expect("it is named");
    assert!(said.contains("task") && said.contains("until 20"), "{}", told(&output));
}

/// CONTRACT 5.3, 5.15
#[test]
fn rewound_before_the_claim() {
    between_scan_and_claim(|hub| {
        hub.git(["update-ref", "refs/heads/task", "main"]);
    });
}

#[test]
fn deleted_before_the_claim() {
    between_scan_and_claim(|hub| {
        hub.git(["update-ref", "-d", "refs/heads/task"]);
    });
}

#[test]
fn replaced_before_the_claim() {
    between_scan_and_claim(|hub| {
        hub.branch_with_message("task", b"another\n\ndwp-state: work\n");
    });
}

#[test]
fn advanced_before_the_claim() {
    between_scan_and_claim(|hub| {
        hub.branch_from("task", "task", b"moved on\n\ndwp-state: review\n");
    });
}

#[test]
fn made_anew_elsewhere_before_the_claim() {
    between_scan_and_claim(|hub| {
        hub.git(["update-ref", "-d", "refs/heads/task"]);
        hub.git(["update-ref", "refs/heads/task", "main"]);
    });
}

/// CONTRACT 5.9, 5.15
#[test]
fn one_lost_branch_costs_the_others_nothing() {
    let hub = hub(&[("work", "echo \"$AYNIG_BRANCH\" >>\"$ROOM/ran\"; next done")]);
    let clone = clone(&hub);
    let branches: Vec<String> = (0..6).map(|n| format!("b{n}")).collect();
    hub.ready_many(&branches, "work");
    let wrapper = Wrapper::new(&hub, HOLD_FIRST_PUSH);
    let runner = wrapper.start(&clone, &["run", "--remote", "origin", "--jobs", "6"]);
    hub.said("pushing");
    hub.git(["update-ref", "refs/heads/b0", "main"]);
    hub.git(["update-ref", "-d", "refs/heads/b1"]);
    hub.branch_with_message("b2", b"another\n\ndwp-state: work\n");
    hub.branch_from("b3", "b3", b"moved on\n\ndwp-state: review\n");
    hub.taken_by_other("b4", "b4", 300);
    let others = ["b0", "b2", "b3", "b4"];
    let after = others.map(|branch| hub.head(branch));
    hub.release("go");
    let output = runner.finish();
    assert_exit(&output, 0);
    assert_eq!(others.map(|branch| hub.head(branch)), after, "{}", told(&output));
    assert!(!heads(&hub).contains("refs/heads/b1"), "{}", told(&output));
    assert_eq!(states(&hub, "b5"), ["work", "working", "done"]);
    assert_eq!(hub.noted_lines("ran"), ["b5"]);
    clone.assert_tidy();
}

/// Runs `happens` between the scan and the push that would close the branch's expired lease.
fn before_an_expired_lease_is_closed(happens: impl FnOnce(&Repo)) {
    let expired = |hub: &Repo| {
        hub.foreign_lease("task", "11111111-2222-4333-8444-555555555555", "far-host", 60, 3600);
    };
    before_the_push(expired, happens);
}

#[test]
fn an_expired_lease_that_moved_before_it_was_closed_is_left_alone() {
    before_an_expired_lease_is_closed(|hub| {
        hub.foreign_lease("task", "11111111-2222-4333-8444-555555555555", "far-host", 60, 0);
    });
    before_an_expired_lease_is_closed(|hub| {
        hub.git(["update-ref", "-d", "refs/heads/task"]);
    });
    before_an_expired_lease_is_closed(|hub| {
        hub.git(["update-ref", "refs/heads/task", "task~1"]);
    });
    before_an_expired_lease_is_closed(|hub| {
        hub.branch_from("task", "task", b"moved on\n\ndwp-state: review\n");
    });
}

#[test]
fn a_state_set_by_hand_is_no_exception() {
    let moves: [fn(&Repo); 3] = [
        |hub| drop(hub.git(["update-ref", "refs/heads/task", "main"])),
        |hub| drop(hub.git(["update-ref", "-d", "refs/heads/task"])),
        |hub| drop(hub.branch_from("task", "task", b"moved on\n\ndwp-state: review\n")),
    ];
    for happens in moves {
        let hub = hub(&[("work", "next done")]);
        let clone = clone(&hub);
        hub.ready("task", "idea");
        let wrapper = Wrapper::new(&hub, HOLD_FIRST_PUSH);
        let set = ["set-state", "--remote", "origin", "--branch", "task", "--state", "work"];
        let setter = wrapper.start(&clone, &set);
        hub.said("pushing");
        happens(&hub);
        let after = heads(&hub);
        hub.release("go");
        let output = setter.finish();
        assert_refused(&output, 1, &["nothing was changed"]);
        assert_eq!(heads(&hub), after);
    }
}

/// The server applies the n-th push, and the connection breaks before its answer.
fn cut_after(push: u32) {
    let hub = hub(&[("work", "echo ran >>\"$ROOM/ran\"; next done")]);
    let clone = clone(&hub);
    hub.ready("task", "work");
    let wrapper = Wrapper::new(
        &hub,
        &format!(
            r#"if [ "$verb" = push ] && [ "$count" = {push} ]; then "$GIT" "$@" >/dev/null 2>&1; exit 128; fi"#
        ),
    );
    let output = wrapper.run(&clone, RUN);
    assert_exit(&output, 0);
    assert_eq!(hub.noted_lines("ran"), ["ran"]);
    assert_eq!(states(&hub, "task"), ["work", "working", "done"]);
    assert_eq!(wrapper.count("push"), 2);
    assert_eq!(clone.rescues(), Vec::<String>::new());
    clone.assert_tidy();
    hub.assert_tidy();
}

/// CONTRACT 5.15, 5.16
#[test]
fn connection_cut_after_the_claim_was_applied() {
    cut_after(1);
}

/// CONTRACT 5.16
#[test]
fn connection_cut_after_the_result_was_applied() {
    cut_after(2);
}

/// The server applies the result and the connection breaks. Another commit is on top before the runner can
/// ask again.
#[test]
fn a_result_that_others_went_on_from_before_it_was_known_has_landed() {
    let hub = hub(&[("work", "echo ran >>\"$ROOM/ran\"; next done")]);
    let clone = clone(&hub);
    hub.ready("task", "work");
    let go_on = format!(
        r#"if [ "$verb" = push ] && [ "$count" = 2 ]; then
            "$GIT" "$@" >/dev/null 2>&1
            other() {{ env -u GIT_DIR -u GIT_WORK_TREE "$GIT" -c user.name=O -c user.email=o@example.com -C '{}' "$@"; }}
            new=$(printf 'more\n\ndwp-state: other\n' | other commit-tree -p task 'task^{{tree}}')
            other update-ref refs/heads/task "$new"
            exit 128
        fi"#,
        hub.path.display()
    );
    let wrapper = Wrapper::new(&hub, &go_on);
    let output = wrapper.run(&clone, RUN);
    assert_eq!(states(&hub, "task"), ["work", "working", "done", "other"], "{}", told(&output));
    assert!(out(&output).contains("work → done"), "{}", told(&output));
    assert_exit(&output, 0);
    assert_eq!(hub.noted_lines("ran"), ["ran"]);
    clone.assert_tidy();
}

/// CONTRACT 5.16
#[test]
fn connection_cut_before_the_claim_was_applied() {
    let hub = hub(&[("work", "echo ran >>\"$ROOM/ran\"; next done")]);
    let clone = clone(&hub);
    hub.ready("task", "work");
    let wrapper = Wrapper::new(&hub, r#"if [ "$verb" = push ] && [ "$count" = 1 ]; then exit 128; fi"#);
    let output = wrapper.run(&clone, RUN);
    assert_exit(&output, 0);
    assert_eq!(wrapper.count("push"), 3, "claimed once more, at once, and settled");
    assert_eq!(hub.noted_lines("ran"), ["ran"]);
    assert_eq!(states(&hub, "task"), ["work", "working", "done"]);
}

/// CONTRACT 5.16
#[test]
fn a_claim_that_is_cut_off_again_and_again_is_tried_twice() {
    let hub = hub(&[("work", "echo ran >>\"$ROOM/ran\"; next done")]);
    let clone = clone(&hub);
    hub.ready("task", "work");
    let wrapper = Wrapper::new(&hub, r#"if [ "$verb" = push ]; then exit 128; fi"#);
    let output = wrapper.run(&clone, RUN);
    assert_exit(&output, 4);
    assert!(err(&output).contains("broke off before it moved anything"), "{}", told(&output));
    assert_eq!(wrapper.count("push"), 2);
    assert_eq!(states(&hub, "task"), ["work"]);
    clone.assert_tidy();
}

/// A wrapper for the first push of a renewal: the server applies it, and the connection breaks before its
/// answer.
const CUT_RENEWAL: &str = r#"if [ "$verb" = push ] && [ "$count" = 2 ]; then "$GIT" "$@" >/dev/null 2>&1; say cut yes; exit 128; fi"#;

/// A command that commits before and after its first renewal is cut off. Its result lands on top of that
/// renewal. (Git refuses a commit while the worktree is being moved to the renewal; the command tries again.)
fn cut_renewal(more: &str) {
    let script = r#"echo ran >>"$ROOM/ran"
        own() { echo $1 >$1; git add $1; until git commit -q -m $1; do [ -d "$ROOM" ] || exit 9; sleep 0.05; done; }
        own one; await cut; own two; next done"#;
    let hub = hub(&[("work", script)]);
    let clone = clone(&hub);
    hub.ready("task", "work");
    let wrapper = Wrapper::new(&hub, &format!("{CUT_RENEWAL}\n{more}"));
    let output = wrapper.run(&clone, &["run", "--remote", "origin", "--lease-seconds", "6"]);
    assert_exit(&output, 0);
    assert_eq!(hub.noted_lines("ran"), ["ran"]);
    let states = states(&hub, "task");
    assert_eq!(states.first().map(String::as_str), Some("work"));
    assert_eq!(states.last().map(String::as_str), Some("done"), "{}", told(&output));
    assert_eq!(
        states.iter().filter(|state| *state == "-").count(),
        2,
        "its own commits, once each: {states:?}"
    );
    assert_eq!((hub.show("task:one"), hub.show("task:two")), ("one".to_owned(), "two".to_owned()));
    assert_eq!(clone.rescues(), Vec::<String>::new(), "{}", told(&output));
    clone.assert_tidy();
    hub.assert_tidy();
}

#[test]
fn connection_cut_after_a_renewal_was_applied() {
    cut_renewal("");
}

#[test]
fn connection_cut_after_a_renewal_was_applied_and_nobody_to_ask() {
    cut_renewal(
        r#"if [ "$verb" = ls-remote ] && [ -e "$ROOM/cut" ] && [ ! -e "$ROOM/asked" ]; then say asked yes; exit 128; fi"#,
    );
}

#[test]
fn connection_cut_after_a_recovery_was_applied() {
    let hub = hub(&[("work", "echo ran >>\"$ROOM/ran\"; next done")]);
    let clone = clone(&hub);
    hub.ready("task", "work");
    hub.dated_lease("task", "gone-host", 10, -100);
    let wrapper = Wrapper::new(
        &hub,
        r#"if [ "$verb" = push ] && [ "$count" = 1 ]; then "$GIT" "$@" >/dev/null 2>&1; exit 128; fi"#,
    );
    let output = wrapper.run(&clone, &["run", "--remote", "origin", "--drain"]);
    assert_exit(&output, 0);
    assert_eq!(states(&hub, "task"), ["work", "working", "stalled"]);
    assert_eq!(wrapper.count("push"), 1);
    assert_eq!(out(&output).lines().filter(|line| line.contains("stalled")).count(), 1, "{}", told(&output));
    assert_eq!(hub.noted_lines("ran"), Vec::<String>::new());
    clone.assert_tidy();
}

#[test]
fn the_result_is_recognised_when_nobody_could_be_asked_at_first() {
    let hub = hub(&[("work", "echo ran >>\"$ROOM/ran\"; exit 3")]);
    let clone = clone(&hub);
    hub.ready("task", "work");
    let wrapper = Wrapper::new(
        &hub,
        r#"if [ "$verb" = push ] && [ "$count" = 2 ]; then "$GIT" "$@" >/dev/null 2>&1; say cut yes; exit 128; fi
        if [ "$verb" = ls-remote ] && [ -e "$ROOM/cut" ] && [ ! -e "$ROOM/asked" ]; then say asked yes; sleep 1; exit 128; fi"#,
    );
    let output = wrapper.run(&clone, RUN);
    assert_exit(&output, 1);
    assert_eq!(hub.noted_lines("ran"), ["ran"]);
    assert_eq!(states(&hub, "task"), ["work", "working", "stalled"]);
    assert!(out(&output).contains("→ stalled"), "it is our own result: {}", told(&output));
    clone.assert_tidy();
}
