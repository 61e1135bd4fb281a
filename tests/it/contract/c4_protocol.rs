//! Section 4, "Command Output Protocol".

use std::process::Output;

use super::super::probe::*;
use super::super::support::*;

/// A repository whose command prints these exact bytes, and the result of running it.
fn printing(bytes: &[u8], code: i32) -> (Repo, Output) {
    let repo = Repo::one_step("cat \"$ROOM/print\"");
    std::fs::write(repo.beside("print"), bytes).expect("a file");
    let output = repo.run_expecting(code, &[]);
    (repo, output)
}

/// Runs a command that prints `text`, which must lead to this state.
fn leads_to(text: &str, state: &str) -> Repo {
    let (repo, output) = printing(text.as_bytes(), 0);
    assert_eq!(repo.state("work"), state, "{text:?}\n{}{}", out(&output), err(&output));
    repo
}

/// Asserts that each of these lines is refused, with a warning that contains the reason, and that together
/// they change nothing.
fn refused(lines: &[(&str, &str)]) {
    let text: String = lines.iter().map(|(line, _)| format!("{line}\n")).collect();
    let (repo, output) = printing(text.as_bytes(), 0);
    assert_eq!(repo.state("work"), "working", "{text}{}", out(&output));
    assert_eq!(err(&output).lines().count(), lines.len(), "one warning a line: {}", err(&output));
    for (number, (line, reason)) in lines.iter().enumerate() {
        let warning = one_message(&output, &format!("on line {} ", number + 1));
        for part in ["warning: work: `step`", "SET_STATE", reason] {
            assert!(warning.contains(part), "{part:?} is not in the answer to {line}: {warning}");
        }
    }
}

/// CONTRACT 3.5, 4.1
#[test]
fn c4_one_line_declares_the_next_state() {
    let text = r#"SET_STATE {"state":"review","subject":"review: ready","body":"one\n\ntwo"}"#;
    let repo = leads_to(&format!("before\n{text}\nafter\n"), "review");
    assert_eq!(repo.message("work"), "review: ready\n\none\n\ntwo\n\ndwp-state: review");
}

/// CONTRACT 4.2, 4.10
#[test]
fn c4_the_line_must_start_with_set_state() {
    let line = r#"SET_STATE {"state":"done"}"#;
    for text in [format!(" {line}\n"), format!("> {line}\n"), format!("say {line}\n"), format!("X{line}\n")] {
        leads_to(&text, "working");
    }
    let (repo, output) = printing(b"SET_STATES {\"state\":\"done\"}\n", 0);
    assert_eq!(repo.state("work"), "working");
    assert_eq!(err(&output), "", "another word is ordinary output");
}

/// CONTRACT 4.2, 4.8, 4.10
#[test]
fn c4_the_payload_must_be_json_on_one_line() {
    refused(&[
        ("SET_STATE {\"state\":\"done\"", "not JSON"),
        ("SET_STATE {\"state\":", "not JSON"),
        ("SET_STATE state=done", "not JSON"),
        (r#"SET_STATE ["state","done"]"#, "not an object"),
        (r#"SET_STATE {"state":"done"} trailing"#, "not JSON"),
        ("SET_STATE", "JSON object"),
        (r#"SET_STATE:{"state":"done"}"#, "one space"),
    ]);
}

/// CONTRACT 4.2
#[test]
fn c4_a_payload_on_two_lines_is_none() {
    let (repo, output) = printing(b"SET_STATE {\"state\":\n\"done\"}\n", 0);
    assert_eq!(repo.state("work"), "working");
    one_message(&output, "SET_STATE");
}

/// CONTRACT 4.3
#[test]
fn c4_state_is_required() {
    refused(&[
        (r#"SET_STATE {"subject":"x"}"#, "\"state\" is missing"),
        (r#"SET_STATE {"state":null}"#, "\"state\" is missing"),
        (r#"SET_STATE {"state":7}"#, "\"state\" is a number"),
    ]);
}

/// CONTRACT 4.3
#[test]
fn c4_state_cannot_be_working() {
    refused(&[(r#"SET_STATE {"state":"working"}"#, "only the runner may set")]);
}

/// CONTRACT 4.9
#[test]
fn c4_state_must_be_a_legal_name() {
    let names = ["", "../x", ".x", "-x", "a//b", "a b", "ü"];
    let lines = names.map(|name| format!(r#"SET_STATE {{"state":"{name}"}}"#));
    refused(&lines.each_ref().map(|line| (line.as_str(), "not a legal state name")));
}

/// CONTRACT 4.4, 4.10
#[test]
fn c4_the_last_valid_line_wins() {
    leads_to("SET_STATE {\"state\":\"one\"}\nSET_STATE {\"state\":\"two\"}\n", "two");
    let (repo, output) =
        printing(b"SET_STATE {\"state\":\"one\"}\nSET_STATE {\"state\":\"working\"}\nSET_STATE oops\n", 0);
    assert_eq!(repo.state("work"), "one", "invalid lines change nothing");
    assert_eq!(
        err(&output).matches("wrote an invalid SET_STATE").count(),
        2,
        "each is warned about: {}",
        err(&output)
    );
    assert!(err(&output).contains("line 2") && err(&output).contains("line 3"), "{}", err(&output));
}

/// CONTRACT 4.8
#[test]
fn c4_a_line_may_end_in_crlf() {
    leads_to("SET_STATE {\"state\":\"done\"}\r\n", "done");
}

/// CONTRACT 4.8
#[test]
fn c4_the_end_of_the_output_ends_a_line() {
    leads_to("SET_STATE {\"state\":\"done\"}", "done");
    leads_to("x\nSET_STATE {\"state\":\"done\"}\r", "done");
}

/// CONTRACT 4.8
#[test]
fn c4_a_line_may_be_one_mebibyte_long_and_no_longer() {
    let line = |length: usize| {
        let frame = "SET_STATE {\"state\":\"done\",\"body\":\"\"}";
        let body = "x".repeat(length - frame.len());
        format!("SET_STATE {{\"state\":\"done\",\"body\":\"{body}\"}}\n")
    };
    let repo = leads_to(&line(1024 * 1024 + 1 - 1), "done");
    assert!(repo.body("work").len() > 1_000_000);
    let (repo, output) = printing(line(1024 * 1024 + 1).as_bytes(), 0);
    assert_eq!(repo.state("work"), "working");
    assert!(one_message(&output, "SET_STATE").contains("1 MiB"), "{}", err(&output));
}

/// CONTRACT 4.5
#[test]
fn c4_it_is_applied_only_at_exit_0() {
    let repo = Repo::one_step(&format!("{DONE}\nexit 3"));
    repo.run_expecting(1, &[]);
    assert_eq!(repo.state("work"), "stalled");
}

/// CONTRACT 4.6, 4.9
#[test]
fn c4_the_subject_defaults() {
    let repo = leads_to("SET_STATE {\"state\":\"feat/x\"}\n", "feat/x");
    assert_eq!(repo.message("work"), "chore: set feat/x\n\ndwp-state: feat/x");
    let repo = leads_to("SET_STATE {\"state\":\"x\",\"subject\":\"\",\"body\":\"\"}\n", "x");
    assert_eq!(repo.message("work"), "chore: set x\n\ndwp-state: x");
}

/// CONTRACT 4.9
#[test]
fn c4_subject_and_body_must_be_strings() {
    refused(&[
        (r#"SET_STATE {"state":"x","subject":1}"#, "\"subject\" is a number"),
        (r#"SET_STATE {"state":"x","body":["a"]}"#, "\"body\" is a list"),
        (r#"SET_STATE {"state":"x","keep_trailers":7}"#, "\"keep_trailers\" is a number"),
    ]);
}

/// A trigger with trailers of every kind.
const TRIGGER: &[u8] = b"s\n\ndwp-pr: 7\nother: x\ndwp-run-id: old\ndwp-log-level: debug\ndwp-state: step\n";

/// CONTRACT 4.6, 4.12
#[test]
fn c4_keep_trailers_copies_the_unreserved_dwp_ones() {
    let repo = Repo::one_step(r#"echo 'SET_STATE {"state":"x","keep_trailers":true}'"#);
    repo.branch_with_message("work", TRIGGER);
    repo.run_expecting(0, &[]);
    assert_eq!(repo.trailers("work"), ["dwp-state: x", "dwp-pr: 7", "dwp-log-level: debug"]);
}

/// CONTRACT 4.6
#[test]
fn c4_without_keep_trailers_none_are_copied() {
    for flag in ["", r#","keep_trailers":false"#] {
        let repo = Repo::one_step(&format!(r#"echo 'SET_STATE {{"state":"x"{flag}}}'"#));
        repo.branch_with_message("work", TRIGGER);
        repo.run_expecting(0, &[]);
        assert_eq!(repo.trailers("work"), ["dwp-state: x"]);
    }
}

/// CONTRACT 4.6, 4.9, 4.12
#[test]
fn c4_extra_trailers_as_a_list() {
    let repo = leads_to(r#"SET_STATE {"state":"x","trailers":["a: 1","dwp-b:2 : 3","a: 2"]}"#, "x");
    assert_eq!(repo.trailers("work"), ["dwp-state: x", "a: 1", "dwp-b: 2 : 3", "a: 2"]);
}

/// CONTRACT 4.6, 4.9
#[test]
fn c4_extra_trailers_as_an_object() {
    let repo = leads_to(r#"SET_STATE {"state":"x","trailers":{"z-key":"1","a":"","dwp-b":"3"}}"#, "x");
    assert_eq!(repo.trailers("work"), ["dwp-state: x", "z-key: 1", "a: ", "dwp-b: 3"]);
}

/// CONTRACT 4.12
#[test]
fn c4_a_declared_trailer_replaces_kept_ones() {
    let repo = Repo::one_step(
        r#"echo 'SET_STATE {"state":"x","keep_trailers":true,"trailers":{"dwp-pr":"8","y":"1"}}'"#,
    );
    repo.branch_with_message("work", b"s\n\ndwp-pr: 6\ndwp-a: 1\ndwp-pr: 7\ndwp-PR: 5\ndwp-state: step\n");
    repo.run_expecting(0, &[]);
    assert_eq!(repo.trailers("work"), ["dwp-state: x", "dwp-a: 1", "dwp-PR: 5", "dwp-pr: 8", "y: 1"]);
}

/// CONTRACT 4.13
#[test]
fn c4_all_trailers_can_be_kept() {
    let step = r#"echo 'SET_STATE {"state":"x","keep_trailers":"all","trailers":["document: new"]}'"#;
    let repo = Repo::one_step(step);
    let asked =
        b"s\n\ndocument: a.txt\ndwp-pr: 7\nReviewed-by: A\nReviewed-by: B\nDwp-State: y\ndwp-run-id: old\n\
        dwp-state: step\n";
    repo.branch_with_message("work", asked);
    repo.run_expecting(0, &[]);
    let kept = ["dwp-state: x", "dwp-pr: 7", "Reviewed-by: A", "Reviewed-by: B", "document: new"];
    assert_eq!(repo.trailers("work"), kept);
    refused(&[(r#"SET_STATE {"state":"x","keep_trailers":"dwp"}"#, "\"keep_trailers\" is \"dwp\"")]);
}

/// CONTRACT 4.14, 4.15
#[test]
fn c4_the_body_of_the_ask_can_be_kept() {
    let asked = b"s\n\nDo it.\n\n[reply from me by nobody]\n\ndwp-state: forged\n\ndwp-state: step\n";
    let body = "Do it.\n\n[reply from me by nobody]\n\ndwp-state: forged";
    let repo = Repo::one_step(r#"echo 'SET_STATE {"state":"x","keep_body":true}'"#);
    repo.branch_with_message("work", asked);
    repo.run_expecting(0, &[]);
    assert_eq!(repo.message("work"), format!("chore: set x\n\n{body}\n\ndwp-state: x"));
    let repo = Repo::one_step(r#"echo 'SET_STATE {"state":"step","keep_body":true,"body":"a: Planned."}'"#);
    repo.branch_with_message("work", asked);
    repo.run_expecting(0, &[]);
    repo.run_expecting(0, &[]);
    let message = repo.message("work");
    let parts: Vec<&str> = message.split("\n\n[reply from step by test-host, 20").collect();
    assert_eq!(parts.len(), 3, "{message}");
    assert_eq!(parts[0], format!("chore: set step\n\n{body}"), "the ask stays first");
    assert!(parts[1].ends_with("Z]\n\na: Planned."), "{message}");
    assert!(parts[2].ends_with("Z]\n\na: Planned.\n\ndwp-state: step"), "{message}");
    assert_eq!(repo.trailers("work"), ["dwp-state: step"]);
    refused(&[(r#"SET_STATE {"state":"x","keep_body":"yes"}"#, "\"keep_body\" is a string")]);
}

/// CONTRACT 4.13, 4.14
#[test]
fn c4_a_command_for_stalled_keeps_what_was_asked_before() {
    let answer = r#"echo 'SET_STATE {"state":"x","keep_body":true,"keep_trailers":"all"}'"#;
    let repo = Repo::with_commands(&[("step", "exit 3"), ("stalled", answer)]);
    repo.branch_with_message("work", b"s\n\nDo it.\n\ndocument: a\ndwp-state: step\n");
    repo.run_expecting(1, &[]);
    assert_eq!(repo.state("work"), "stalled");
    repo.run_expecting(0, &[]);
    assert_eq!(repo.message("work"), "chore: set x\n\nDo it.\n\ndwp-state: x\ndocument: a");
}

/// CONTRACT 4.9
#[test]
fn c4_malformed_trailers_are_refused() {
    refused(&[
        (r#"SET_STATE {"state":"x","trailers":["no colon"]}"#, "no colon"),
        (r#"SET_STATE {"state":"x","trailers":["a b: c"]}"#, "not allowed"),
        (r#"SET_STATE {"state":"x","trailers":[1]}"#, "a number"),
        (r#"SET_STATE {"state":"x","trailers":{"a":1}}"#, "a number"),
        (r#"SET_STATE {"state":"x","trailers":"a: b"}"#, "neither a list nor an object"),
    ]);
}

/// CONTRACT 4.7, 4.9
#[test]
fn c4_runner_managed_trailers_are_refused() {
    let keys = || MANAGED_KEYS.into_iter().chain(["Dwp-State", " dwp-state "]);
    let objects = keys().map(|key| format!(r#"SET_STATE {{"state":"x","trailers":{{"{key}":"y"}}}}"#));
    let lists = keys().map(|key| format!(r#"SET_STATE {{"state":"x","trailers":["{key}: y"]}}"#));
    for lines in [objects.collect::<Vec<_>>(), lists.collect()] {
        let lines: Vec<_> = lines.iter().map(|line| (line.as_str(), "the runner only")).collect();
        refused(&lines);
    }
}

/// CONTRACT 4.9
#[test]
fn c4_unknown_fields_are_ignored() {
    let repo = leads_to(r#"SET_STATE {"state":"x","priority":9,"Subject":"no","nested":{"state":"y"}}"#, "x");
    assert_eq!(
        repo.message("work"),
        "chore: set x\n\ndwp-state: x\naynig-misspelt-fields: Subject (subject?)"
    );
}

#[test]
fn c4_bytes_that_are_no_text_do_not_disturb() {
    let (repo, _) = printing(b"\xff\xfe\0\nSET_STATE {\"state\":\"done\"}\n\xc3\n", 0);
    assert_eq!(repo.state("work"), "done");
    let (repo, output) = printing(b"SET_STATE {\"state\":\"x\xff\"}\n", 0);
    assert_eq!(repo.state("work"), "working");
    one_message(&output, "SET_STATE");
}
