//! `aynig next`.

use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

use super::support::*;

/// CONTRACT 4.16
#[test]
fn it_prints_one_line_that_counts_and_nothing_else() {
    let repo = Repo::with_commands(&[(
        "build",
        r#"cd / && printf 'He said "no":\n\ta\\b\n' | "$AYNIG_BIN" next review --subject "it's \"ready\"" --body-file - \
            --trailer "dwp-round: 2" --trailer 'note: "q" \n' --keep-body --keep-trailers"#,
    )]);
    repo.branch_with_message("work", b"s\n\nDo it.\n\ndwp-round: 1\ndwp-pr: 7\ndwp-state: build\n");
    let output = repo.aynig_ok(["run"]);
    assert_eq!(err(&output), "");
    let message = repo.message("work");
    assert!(message.starts_with("it's \"ready\"\n\nDo it.\n\n[reply from build by "), "{message}");
    let end = "Z]\n\nHe said \"no\":\n\ta\\b\n\ndwp-state: review\ndwp-pr: 7\ndwp-round: 2\nnote: \"q\" \\n";
    assert!(message.ends_with(end), "{message}");
}

/// CONTRACT 4.16
#[test]
fn characters_that_a_terminal_obeys_are_escaped() {
    let repo = Repo::new();
    let body = "a\u{1b}[1mb\rc\u{9b}d\u{202e}é\u{2028}\u{7f}😀";
    let text = out(&repo.aynig_ok(["next", "x", "--body", body]));
    assert_eq!(text.matches('\n').count(), 1, "{text}");
    let expected = r#"SET_STATE {"state":"x","body":"a\u001b[1mb\rc\u009bd\u202eé\u2028\u007f😀"}"#;
    let json =
        |text: &str| serde_json::from_str::<serde_json::Value>(&text["SET_STATE ".len()..]).expect("JSON");
    assert_eq!(json(&text), json(expected));
    assert!(!text.trim_end().chars().any(|c| c.is_control() || c == '\u{202e}'), "{text:?}");
    assert_eq!(
        out(&repo.aynig_ok(["next", "x", "--keep-trailers=all"])),
        "SET_STATE {\"state\":\"x\",\"keep_trailers\":\"all\"}\n"
    );
}

/// CONTRACT 4.16
#[test]
fn what_cannot_be_declared_is_an_error_and_no_line() {
    let repo = Repo::new();
    fs::write(repo.beside("latin"), b"one\ncaf\xe9\n").expect("a file");
    fs::write(repo.beside("nul"), b"a\0b").expect("a file");
    fs::write(repo.beside("long"), vec![b'x'; 1024 * 1024]).expect("a file");
    let rows: [(&[&str], &[&str]); 13] = [
        (&["x", "--body-file", "/dev/zero"], &["/dev/zero is longer than 1 MiB"]),
        (&["working"], &["working"]),
        (&["a b"], &["not a legal state name"]),
        (&["--body", "x"], &["STATE"]),
        (&["x", "--trailer", "no colon"], &["no colon"]),
        (&["x", "--trailer", "dwp-state: y"], &["written by the runner only"]),
        (&["x", "--trailer", "a: b\nc: d"], &["the trailer \"a\" cannot be written"]),
        (&["x", "--trailer", "dwp-not-before: soon"], &["could never be run", "dwp-not-before: +2h"]),
        (&["x", "--subject", "a\nb"], &["the commit subject cannot be written"]),
        (
            &["x", "--body-file", "../latin"],
            &["the body is not UTF-8", "0xe9", "offset 7, on line 2", "iconv"],
        ),
        (&["x", "--body-file", "../nul"], &["the commit body cannot be written", "NUL"]),
        (&["x", "--body-file", "../long"], &["1 MiB"]),
        (&["x", "--body-file", "../nothing"], &["could not read the body"]),
    ];
    for (options, words) in rows {
        let output = repo.aynig(["next"].iter().chain(options).copied());
        assert_refused(&output, 2, words);
        assert_eq!(out(&output), "", "{options:?}");
    }
    let mut command = repo.aynig_command();
    command.args(["next", "x", "--subject"]).arg(std::ffi::OsStr::from_bytes(b"caf\xe9"));
    assert_refused(&command.output().expect("it runs"), 2, &["UTF-8"]);
}

#[test]
fn it_needs_no_repository() {
    let repo = Repo::new();
    let mut command = repo.aynig_command();
    command.args(["-C", "/", "next", "done", "--body-stdin"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    child.stdin.take().expect("a pipe").write_all(b"all\nof it").expect("written");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success());
    assert_eq!(out(&output), "SET_STATE {\"state\":\"done\",\"body\":\"all\\nof it\"}\n");
}
