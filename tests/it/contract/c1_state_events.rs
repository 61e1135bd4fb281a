//! Section 1, "State Events".

use super::super::probe::*;
use super::super::support::*;

/// CONTRACT 1.3
#[test]
fn c1_the_state_must_be_in_the_trailer_block() {
    let repo = Repo::probed();
    let messages = [
        ("in-the-body", "subject\n\ndwp-state: probe\n\nand more text\n"),
        ("in-the-subject", "dwp-state: probe\n"),
        ("among-text", "subject\n\nsome text\ndwp-state: probe\n"),
        ("in-the-block", "subject\n\nsome text\n\ndwp-state: probe\n"),
    ];
    let heads = messages.map(|(branch, text)| repo.branch_with_message(branch, text.as_bytes()));
    repo.run_expecting(0, &[]);
    for ((branch, _), head) in messages.iter().zip(&heads).take(3) {
        repo.assert_untouched(branch, head);
    }
    assert_eq!(repo.state("in-the-block"), "done");
}

/// CONTRACT 1.4, 1.8
#[test]
fn c1_the_last_value_wins() {
    let repo = Repo::probed();
    repo.branch_with_message("work", b"s\n\ndwp-state: nothing\ndwp-state: probe\n");
    let losing = repo.branch_with_message("other", b"s\n\ndwp-state: probe\ndwp-state: nothing\n");
    repo.run_expecting(0, &[]);
    assert_eq!(repo.state("work"), "done");
    repo.assert_untouched("other", &losing);
}

/// CONTRACT 1.1, 7.4, 8.4
#[test]
fn c1_only_the_newest_commit_counts() {
    let repo = Repo::probed();
    repo.ready("work", "probe");
    let head = repo.branch_from("work", "work", b"an ordinary commit\n");
    repo.run_expecting(0, &[]);
    repo.assert_untouched("work", &head);
    assert!(!repo.was_noted("env"));
}

/// CONTRACT 1.2
#[test]
fn c1_the_title_is_for_people_only() {
    let repo = Repo::probed();
    repo.branch_with_message("work", b"dwp-state: nothing\n\nbody\n\ndwp-state: probe\n");
    repo.run_expecting(0, &[]);
    assert_eq!(repo.state("work"), "done");
    assert_eq!(repo.seen().text("BODY"), "body");
}

/// CONTRACT 1.7
#[test]
fn c1_a_trailer_may_be_continued() {
    let repo = Repo::probed();
    let seen = repo.probe_message(b"s\n\nnote: one\n   two\n\tthree\ndwp-state:\n probe\n");
    assert_eq!(seen.text("NOTE"), "one two three");
}

/// CONTRACT 1.7
#[test]
fn c1_lines_may_end_in_crlf() {
    let repo = Repo::probed();
    let seen = repo.probe_message(b"s\r\n\r\nbody\r\n\r\nnote: one\r\ndwp-state: probe\r\n");
    assert_eq!(seen.text("NOTE"), "one");
    assert_eq!(seen.text("DWP_STATE"), "probe");
    assert_eq!(seen.text("BODY"), "body");
}

/// CONTRACT 1.7
#[test]
fn c1_dashes_in_the_body_are_ordinary_text() {
    let repo = Repo::probed();
    let seen = repo.probe_message(b"s\n\nabove\n\n---\n\nbelow\n\ndwp-state: probe\n");
    assert_eq!(seen.text("BODY"), "above\n\n---\n\nbelow");
}

/// CONTRACT 1.8
#[test]
fn c1_keys_are_matched_with_their_case() {
    let repo = Repo::probed();
    let head = repo.branch_with_message("work", b"s\n\nDwp-State: probe\n");
    repo.run_expecting(0, &[]);
    repo.assert_untouched("work", &head);
}

/// CONTRACT 1.5, 11.1, 11.3
#[test]
fn c1_every_selected_branch_takes_one_step() {
    let repo = Repo::with_commands(&[("step", r#"echo 'SET_STATE {"state":"step2"}'"#), ("step2", DONE)]);
    for branch in ["a", "b/c", "d"] {
        repo.ready(branch, "step");
    }
    let plain = repo.branch_with_message("plain", b"nothing declared\n");
    let output = repo.run_expecting(0, &["--branch", "[ab]*", "--branch", "plain"]);
    assert_eq!(repo.state("a"), "step2", "{}", out(&output));
    assert_eq!(repo.state("b/c"), "step2");
    assert_eq!(repo.state("d"), "step", "it does not match --branch");
    repo.assert_untouched("plain", &plain);
    repo.assert_tidy();
}
