//! Tables for the trailer reader, and a comparison with the git program on generated messages.

use std::fmt::Write as _;
use std::process::{Command, Stdio};

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

use super::*;

/// How many messages are generated; `AYNIG_FUZZ_CASES` overrides it (see `contract::tests`).
const CASES: usize = 2_000;

fn shown(trailers: &Trailers) -> Vec<(String, String)> {
    trailers
        .iter()
        .map(|t| (t.key.to_str_lossy().into_owned(), t.value.to_str_lossy().into_owned()))
        .collect()
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(k, v)| (String::from(*k), String::from(*v))).collect()
}

/// Name of the case, message, trailers found.
type Row = (&'static str, &'static [u8], &'static [(&'static str, &'static str)]);

const TABLE: &[Row] = &[
    ("nothing", b"", &[]),
    ("a subject alone has none", b"dwp-state: build\n", &[]),
    ("the simplest", b"s\n\ndwp-state: build\n", &[("dwp-state", "build")]),
    ("no final newline", b"s\n\ndwp-state: build", &[("dwp-state", "build")]),
    ("no subject", b"\ndwp-state: build\n", &[("dwp-state", "build")]),
    ("a divider is text", b"s\n\n---\n\na: b\n", &[("a", "b")]),
    ("all or nothing", b"s\n\na: b\ntext\n", &[]),
    ("not the last paragraph", b"s\n\na: b\n\ntext\n", &[]),
    ("CRLF", b"s\r\n\r\na: b\r\nc: d\r\n", &[("a", "b"), ("c", "d")]),
    ("folding", b"s\n\na: b\n  c\n\td\n", &[("a", "b c d")]),
    ("folding keeps CR", b"s\n\na: b\r\n c\r\n", &[("a", "b\r c")]),
    ("space before the colon", b"s\n\na \t: b\n", &[("a", "b")]),
    ("space inside the key", b"s\n\na b: c\n", &[]),
    ("empty value", b"s\n\na:\n", &[("a", "")]),
    ("empty key", b"s\n\n: a\n", &[]),
    ("underscore", b"s\n\na_b: c\n", &[]),
    ("trailing comment", b"s\n\na: b\n# c\n\n", &[("a", "b")]),
    ("comment inside", b"s\n\na: b\n# c\nd: e\n", &[("a", "b"), ("d", "e")]),
    ("continuation of a comment", b"s\n\na: b\n# c\n d\n", &[]),
    ("comment above the block", b"s\n\n# c\na: b\n", &[("a", "b")]),
    ("old conflicts", b"s\n\na: b\n\nConflicts:\n\tx\n\ty\n", &[("a", "b")]),
    ("scissors", b"s\n\na: b\n# ------------------------ >8 ------------------------\nc: d\n", &[("a", "b")]),
    ("a quarter, signed", b"s\n\nx\ny\nz\nSigned-off-by: m\n", &[("Signed-off-by", "m")]),
    ("less than a quarter", b"s\n\nw\nx\ny\nz\nSigned-off-by: m\n", &[]),
    ("cherry-picked", b"s\n\na: b\nx\n(cherry picked from commit 1)\n", &[("a", "b")]),
    ("cherry-picked alone", b"s\n\n(cherry picked from commit 1)\n", &[]),
    ("a blank line of spaces", b"s\n \t\na: b\n", &[("a", "b")]),
    ("spaces behind", b"s\n\na: b\n  \n", &[("a", "b")]),
    ("form feed is text", b"s\n\na: b\n\x0c\n", &[]),
    ("NUL ends the text", b"s\n\na: b\0\nc: d\n", &[("a", "b")]),
    ("NUL behind old conflicts", b"s\n\na: b\n\nConflicts:\0\n\tx\n", &[("Conflicts", "")]),
    ("old conflicts without an end", b"s\n\na: b\n\nConflicts:", &[("a", "b")]),
    ("repeated keys", b"s\n\na: 1\na: 2\n", &[("a", "1"), ("a", "2")]),
];

#[test]
fn table() {
    for (name, message, expected) in TABLE {
        assert_eq!(shown(&locate(message).trailers), pairs(expected), "{name}");
    }
}

#[test]
fn block_offsets_cut_the_block_out() {
    let message = b"s\n\nbody\n\na: b\n c\n# gone\n";
    let block = locate(message);
    assert_eq!(&message[block.start..block.end], b"a: b\n c\n");
    let none = locate(b"s\n\nbody\n");
    assert_eq!((none.start, none.end), (8, 8));
}

/// CONTRACT 1.8
#[test]
fn last_value_and_exact_case() {
    let trailers = locate(b"s\n\ndwp-state: a\nDwp-State: b\ndwp-state: c\n").trailers;
    assert_eq!(trailers.last("dwp-state"), Some(BStr::new("c")));
    assert_eq!(trailers.last("Dwp-State"), Some(BStr::new("b")));
    assert_eq!(trailers.last("DWP-STATE"), None);
}

#[test]
fn managed_keys_are_recognised_in_any_case() {
    for key in RUNNER_MANAGED {
        assert!(is_runner_managed(key) && is_runner_managed(key.to_ascii_uppercase()), "{key}");
    }
    assert!(is_runner_managed("Dwp-State"));
    for key in ["dwp-states", "dwp-", "state", "dwp-log-level", ""] {
        assert!(!is_runner_managed(key), "{key}");
    }
    let trailers = locate(b"s\n\ndwp-a: 1\ndwp-state: x\nDwp-b: 2\nother: 3\ndwp-c: 4\n").trailers;
    let kept: Vec<_> = trailers.dwp_unreserved().map(|t| t.key.to_string()).collect();
    assert_eq!(kept, ["dwp-a", "dwp-c"]);
}

#[test]
fn valid_keys() {
    for (key, valid) in [("a", true), ("A-9", true), ("-", true), ("", false), ("a b", false), ("a_b", false)]
    {
        assert_eq!(is_valid_key(key.as_bytes()), valid, "{key}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_survived(message in prop::collection::vec(any::<u8>(), 0..200)) {
        let block = locate(&message);
        prop_assert!(block.start <= block.end && block.end <= message.len());
    }
}

/// One line without its end, of the shapes that have mattered to the search.
fn line() -> impl Strategy<Value = Vec<u8>> {
    let fixed: Vec<&'static [u8]> = vec![
        b"",
        b"---",
        b"#",
        b"# comment",
        b"#key: value",
        b" # indented",
        b"# ------------------------ >8 ------------------------",
        b"# ------------------------ >8 ------------------------ ",
        b"Conflicts:",
        b"Conflicts: x",
        b"\tpath/to/file",
        b"Signed-off-by: A <a@b>",
        b"Signed-off-by:A",
        b"signed-off-by: A",
        b" Signed-off-by: A",
        b"(cherry picked from commit 0123)",
        b"(cherry picked from",
        b"dwp-state: build",
        b"dwp-state:",
        b"dwp-state : x",
        b"dwp-state\t \t:\tx\t",
        b"dwp_state: x",
        b"dwp state: x",
        b":",
        b": x",
        b"-: x",
        b"a:b:c",
        b"a = b",
        b" ",
        b"\t",
        b" \t ",
        b"\x0b",
        b"\x0c",
        b"\x0ba: b",
        b"a\x0c: b",
        b"a: \x0b",
        b"\r",
        b"a: b\r c",
        b"plain text",
        b"\xff\xfe",
        b"caf\xc3\xa9: x",
        b"a: \xff",
        b"\xe2\x80\xa8: x",
    ];
    let long = (0_usize..3, 200_usize..3_000).prop_map(|(kind, length)| {
        let head: &[u8] = [b"a: ".as_slice(), b" ", b""][kind];
        [head, &vec![b'x'; length]].concat()
    });
    prop_oneof![
        12 => prop::sample::select(fixed).prop_map(<[u8]>::to_vec),
        6 => "[a-c-]{0,3}[ \t]{0,2}:[ \t]{0,2}[a-z :#]{0,4}[ \t]{0,1}".prop_map(String::into_bytes),
        2 => "[ \t]{1,2}[a-z:#]{0,4}".prop_map(String::into_bytes),
        3 => "[a-z #:]{0,6}".prop_map(String::into_bytes),
        1 => prop::collection::vec(1_u8..=255, 0..6),
        1 => long,
    ]
}

fn paragraph() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let trailer = prop::sample::select(vec!["a: b", "c-d: e f", "dwp-x: 1", "Signed-off-by: Z", "k :v"]);
    let filler =
        prop::sample::select(vec!["text", "more text", " indented", "(cherry picked from commit 1)"]);
    prop_oneof![
        3 => prop::collection::vec(line(), 0..6),
        2 => prop::collection::vec(trailer.clone().prop_map(|l| l.as_bytes().to_vec()), 1..4),
        // Around the limit of a quarter.
        3 => prop::collection::vec(
            prop_oneof![2 => trailer.prop_map(|l| l.as_bytes().to_vec()),
                        4 => filler.prop_map(|l| l.as_bytes().to_vec()), 1 => line()], 1..10),
    ]
}

/// A message without NUL: paragraphs separated by blank lines of several kinds, each line with its
/// own end.
pub(in crate::contract) fn message() -> impl Strategy<Value = Vec<u8>> {
    let blank = prop::sample::select(vec!["", "", "", " ", "\t", "\r", " \t\r"]);
    let end = prop_oneof![
        8 => Just(vec!["\n"]), 1 => Just(vec!["\r\n"]), 1 => Just(vec!["\n", "\r\n"])
    ];
    let lead = prop_oneof![9 => Just(0_usize), 1 => 1_usize..3];
    let paragraphs = prop::collection::vec((paragraph(), prop::collection::vec(blank, 1..3)), 1..5);
    (lead, paragraphs, end, 0_u8..4).prop_map(|(lead, paragraphs, ends, finish)| {
        let mut lines: Vec<Vec<u8>> = vec![Vec::new(); lead];
        for (text, blanks) in paragraphs {
            lines.extend(text);
            lines.extend(blanks.into_iter().map(|blank| blank.as_bytes().to_vec()));
        }
        if finish > 0 {
            lines.pop();
        }
        let mut message = Vec::new();
        for (index, line) in lines.iter().enumerate() {
            message.extend_from_slice(line);
            if finish != 2 || index + 1 < lines.len() {
                message.extend_from_slice(ends[index % ends.len()].as_bytes());
            }
        }
        message
    })
}

/// Git's output for each of the messages, in order. One process per batch: a file of known
/// content between two messages separates their output.
#[expect(
    clippy::disallowed_methods,
    reason = "the test asks the real git program and writes its input files"
)]
pub(in crate::contract) fn ask_git(messages: &[Vec<u8>]) -> Vec<Vec<u8>> {
    const MARK: &str = "end-of-answer: c2b1f3d0";
    let mut answers = Vec::with_capacity(messages.len());
    let folder = tempfile::tempdir().expect("a temporary directory can be made");
    std::fs::write(folder.path().join("mark"), format!("s\n\n{MARK}\n")).expect("writable");
    for batch in messages.chunks(2_000) {
        let mut git = Command::new("git");
        git.args(["interpret-trailers", "--parse", "--no-divider"]).current_dir(folder.path());
        git.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
        git.env("GIT_CEILING_DIRECTORIES", folder.path()).env("LC_ALL", "C").stdin(Stdio::null());
        for (index, message) in batch.iter().enumerate() {
            let name = format!("m{index}");
            std::fs::write(folder.path().join(&name), message).expect("writable");
            git.args([name.as_str(), "mark"]);
        }
        let output = git.output().expect("git is installed");
        assert!(output.status.success(), "{}", output.stderr.as_bstr());
        let mark = format!("{MARK}\n");
        let before = answers.len();
        answers.extend(output.stdout.split_str(&mark).map(<[u8]>::to_vec));
        assert_eq!(answers.pop().as_deref(), Some(b"".as_slice()), "output ends with the mark");
        assert_eq!(answers.len() - before, batch.len());
    }
    answers
}

/// Our result in git's format.
pub(in crate::contract) fn printed(trailers: &Trailers) -> Vec<u8> {
    trailers.iter().flat_map(|t| [t.key.as_slice(), b": ", t.value.as_slice(), b"\n"].concat()).collect()
}

pub(in crate::contract) fn cases() -> usize {
    std::env::var("AYNIG_FUZZ_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(CASES)
}

pub(in crate::contract) fn sample<S: Strategy>(strategy: &S, count: usize) -> Vec<S::Value> {
    let mut runner = TestRunner::default();
    (0..count).map(|_| strategy.new_tree(&mut runner).expect("nothing is rejected").current()).collect()
}

/// CONTRACT 1.7
#[test]
fn git_agrees_on_the_table() {
    let messages: Vec<Vec<u8>> = TABLE.iter().map(|row| row.1.to_vec()).collect();
    for (row, answer) in TABLE.iter().zip(ask_git(&messages)) {
        assert_eq!(printed(&locate(row.1).trailers).as_bstr(), answer.as_bstr(), "{}", row.0);
    }
}

/// CONTRACT 1.7
#[test]
fn git_agrees_on_generated_messages() {
    let messages = sample(&message(), cases());
    let answers = ask_git(&messages);
    let mut found = 0;
    let mut wrong: Vec<(&Vec<u8>, Vec<u8>, Vec<u8>)> = Vec::new();
    for (message, git) in messages.iter().zip(answers) {
        let ours = printed(&locate(message).trailers);
        found += usize::from(!git.is_empty());
        if ours != git {
            wrong.push((message, ours, git));
        }
    }
    wrong.sort_by_key(|(message, _, _)| message.len());
    let mut report = String::new();
    for (message, ours, git) in wrong.iter().take(5) {
        let (message, ours, git) = (message.as_bstr(), ours.as_bstr(), git.as_bstr());
        writeln!(report, "message {message:?}\n   ours {ours:?}\n    git {git:?}")
            .expect("a String takes text");
    }
    assert!(wrong.is_empty(), "{} of {} differ\n{report}", wrong.len(), messages.len());
    assert!(found * 5 > messages.len(), "only {found} messages had trailers: the generator is too tame");
}
