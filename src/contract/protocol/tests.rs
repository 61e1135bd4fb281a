//! Tables for single lines, properties for the reader of chunks.

use proptest::prelude::*;

use super::*;

fn reason(line: impl AsRef<[u8]>) -> String {
    match judge_line(line.as_ref()) {
        LineVerdict::Malformed(reason) => reason,
        LineVerdict::NotProtocol => String::from("not protocol"),
        LineVerdict::Declared(Declared::Next(declaration)) => format!("declared {}", declaration.state),
        LineVerdict::Declared(Declared::Unable(why)) => format!("unable: {why}"),
    }
}

/// CONTRACT 4.2, 4.3, 4.8, 4.9, 4.10
#[test]
fn lines() {
    let rows: &[(&str, &str)] = &[
        ("", "not protocol"),
        ("hello", "not protocol"),
        ("SET_STATEX {}", "not protocol"),
        ("SET_STATES", "not protocol"),
        ("SET_STATE. Then", "not protocol"),
        (" SET_STATE {\"state\":\"a\"}", "not protocol"),
        ("set_state {\"state\":\"a\"}", "not protocol"),
        ("SET_STAT", "not protocol"),
        ("SET_STATE {\"state\":\"a\"}", "declared a"),
        ("SET_STATE {\"state\":\"a\"}\n", "declared a"),
        ("SET_STATE {\"state\":\"a\"}\r\n", "declared a"),
        ("SET_STATE   { \"state\" : \"a/b\" } ", "declared a/b"),
        ("SET_STATE {\"state\":\"a\",\"else\":[1,{}]}", "declared a"),
        (
            "SET_STATE {\"state\":\"a\",\"subject\":null,\"trailers\":null,\"keep_trailers\":null}",
            "declared a",
        ),
        ("SET_STATE {\"state\":\"a\",\"subject\":\"\"}", "declared a"),
        ("SET_STATE {\"state\":\"stalled\"}", "declared stalled"),
        ("SET_STATE {\"state\":\"a\",\"body\":\"x\\n\\nk: v\"}", "declared a"),
        ("SET_STATE", "SET_STATE is to be followed by one space"),
        ("SET_STATE\r\n", "SET_STATE is to be followed by one space"),
        ("SET_STATE\t{\"state\":\"a\"}", "SET_STATE is to be followed by one space"),
        ("SET_STATE{\"state\":\"a\"}", "SET_STATE is to be followed by one space"),
        ("SET_STATE: {\"state\":\"a\"}", "SET_STATE is to be followed by one space"),
        ("SET_STATE ", "the payload is not JSON"),
        ("SET_STATE review", "the payload is not JSON"),
        ("SET_STATE {\"state\":\"a\"} x", "the payload is not JSON"),
        ("SET_STATE {\"state\":\"a\"", "the payload is not JSON"),
        ("SET_STATE \"a\"", "the payload is a string, not an object"),
        ("SET_STATE [1]", "the payload is a list"),
        ("SET_STATE {}", "\"state\" is missing"),
        ("SET_STATE {\"state\":null}", "\"state\" is missing"),
        ("SET_STATE {\"state\":1}", "\"state\" is a number, not a string"),
        ("SET_STATE {\"state\":\"\"}", "\"\" is not a legal state name"),
        ("SET_STATE {\"state\":\"a b\"}", "\"a b\" is not a legal state name"),
        ("SET_STATE {\"state\":\"working\"}", "\"state\" is \"working\""),
        ("SET_STATE {\"state\":\"a\",\"subject\":7}", "\"subject\" is a number"),
        ("SET_STATE {\"state\":\"a\",\"subject\":\"b\\nc\"}", "the commit subject cannot be written"),
        ("SET_STATE {\"state\":\"a\",\"body\":{}}", "\"body\" is an object"),
        ("SET_STATE {\"state\":\"a\",\"body\":\"\\u0000\"}", "the commit body cannot be written"),
        (
            "SET_STATE {\"state\":\"a\",\"keep_trailers\":\"yes\"}",
            "\"keep_trailers\" is \"yes\", not true, false or \"all\"",
        ),
        ("SET_STATE {\"state\":\"a\",\"keep_body\":true,\"body\":null}", "declared a"),
        ("SET_STATE {\"state\":\"a\",\"keep_body\":\"yes\"}", "\"keep_body\" is a string, not true or false"),
        ("SET_STATE {\"state\":\"a\",\"keep_trailers\":\"all\"}", "declared a"),
        ("SET_STATE {\"state\":\"a\",\"keep_trailers\":1}", "\"keep_trailers\" is a number, not true"),
        ("SET_STATE {\"state\":\"a\",\"trailers\":true}", "\"trailers\" is a boolean"),
        ("SET_STATE {\"state\":\"a\",\"trailers\":[1]}", "\"trailers\" holds a number"),
        ("SET_STATE {\"state\":\"a\",\"trailers\":[\"k\"]}", "trailer \"k\" has no colon"),
        ("SET_STATE {\"state\":\"a\",\"trailers\":[\"k k: v\"]}", "trailer key \"k k\" is not allowed"),
        ("SET_STATE {\"state\":\"a\",\"trailers\":[\": v\"]}", "trailer key \"\" is not allowed"),
        ("SET_STATE {\"state\":\"a\",\"trailers\":{\"k\":1}}", "the trailer \"k\" is a number"),
        (
            "SET_STATE {\"state\":\"a\",\"trailers\":{\"dwp-run-id\":\"1\"}}",
            "trailer key \"dwp-run-id\" is written",
        ),
        (
            "SET_STATE {\"state\":\"a\",\"trailers\":[\" Dwp-State : b\"]}",
            "trailer key \"Dwp-State\" is written",
        ),
        (
            "SET_STATE {\"state\":\"a\",\"trailers\":{\"k\":\"v\\ndwp-state: b\"}}",
            "the trailer \"k\" cannot be",
        ),
    ];
    for (line, expected) in rows {
        assert!(reason(line).starts_with(expected), "{line:?} gave {} instead of {expected}", reason(line));
    }
    assert!(reason(b"SET_STATE {\"state\":\"\xff\"}").starts_with("the payload is not JSON"));
    let scissors =
        "SET_STATE {\"state\":\"a\",\"body\":\"# ------------------------ >8 ------------------------\"}";
    assert!(reason(scissors).starts_with("the commit body cannot be written"));
    assert!(reason(format!("SET_STATE {}1{}", "[".repeat(500), "]".repeat(500))).contains("recursion"));
}

#[test]
fn all_fields() {
    let line = r#"SET_STATE {"state":"review","subject":"review: ready","body":"b","keep_body":true,"keep_trailers":true,
        "trailers":{"dwp-pr":" 7 ","z":"","a":"é"}}"#
        .replace('\n', "");
    let LineVerdict::Declared(declared) = judge_line(line.as_bytes()) else { panic!("{}", reason(&line)) };
    let expected = Declaration {
        state: StateName::parse("review").unwrap(),
        subject: Some(String::from("review: ready")),
        body: Some(String::from("b")),
        lease_seconds: None,
        keep_body: true,
        keep_trailers: KeepTrailers::Dwp,
        trailers: vec![Trailer::new("dwp-pr", "7"), Trailer::new("z", ""), Trailer::new("a", "é")],
    };
    assert_eq!(declared, Declared::Next(expected));
}

fn observe(chunks: &[&[u8]]) -> Observed {
    let mut reader = ProtocolReader::new();
    for chunk in chunks {
        reader.feed(chunk);
        assert!(reader.pending.len() <= MAX_LINE_BYTES + 2);
    }
    reader.finish()
}

fn state_of(observed: &Observed) -> Option<&str> {
    match observed.declared.as_ref()? {
        Declared::Next(declaration) => Some(declaration.state.as_str()),
        Declared::Unable(_) => None,
    }
}

/// CONTRACT 4.4
#[test]
fn the_last_valid_line_wins() {
    let observed = observe(&[
        b"start\nSET_STATE {\"state\":\"a\"}\nSET_STATE oops\nSET_",
        b"STATE {\"state\":\"b\"}\r\n",
        b"SET_STATE {}\ndone\n",
    ]);
    assert_eq!((state_of(&observed), observed.malformed_count), (Some("b"), 2));
    let lines: Vec<_> = observed.malformed.iter().map(|line| line.line_number).collect();
    assert_eq!(lines, [3, 5]);
}

#[test]
fn the_end_of_output_ends_a_line() {
    assert_eq!(state_of(&observe(&[b"SET_STATE {\"state\":\"a\"}"])), Some("a"));
    assert_eq!(observe(&[b"SET_STATE"]).malformed_count, 1);
    assert_eq!(observe(&[b""]), Observed::default());
    let mut reader = ProtocolReader::new();
    reader.feed(b"SET_STATE {\"state\":\"a\"}\nSET_STATE {\"state\":\"b\"}");
    assert_eq!(state_of(reader.observed()), Some("a"));
}

#[test]
fn long_lines() {
    let filler = vec![b'x'; MAX_LINE_BYTES];
    let line = |body: usize| {
        let mut line = b"SET_STATE {\"state\":\"a\",\"body\":\"".to_vec();
        line.resize(line.len() + body, b'x');
        line.extend_from_slice(b"\"}");
        line
    };
    let most = MAX_LINE_BYTES - line(0).len();
    for end in [b"".as_slice(), b"\n", b"\r\n"] {
        assert_eq!(state_of(&observe(&[&line(most), end])), Some("a"));
        let over = observe(&[&line(most + 1), end, b"SET_STATE {\"state\":\"b\"}"]);
        assert_eq!(over.malformed.first().map(|line| line.reason.as_str()), Some(TOO_LONG));
    }
    let noise = observe(&[b"x", &filler, &filler, b"\nSET_STATE {\"state\":\"a\"}\n"]);
    assert_eq!((state_of(&noise), noise.malformed_count), (Some("a"), 0));
    let huge = observe(&[b"SET_STATE ", &filler, &filler, b"\nSET_STATE {\"state\":\"a\"}\n"]);
    assert_eq!((state_of(&huge), huge.malformed_count), (Some("a"), 1));
}

#[test]
fn only_some_malformed_lines_are_kept() {
    let observed = observe(&["SET_STATE x\n".repeat(1_000).as_bytes()]);
    assert_eq!((observed.malformed.len(), observed.malformed_count), (MAX_MALFORMED_KEPT, 1_000));
}

#[test]
fn trailer_arguments() {
    assert_eq!(parse_trailer_arg("k: a: b "), Ok(Trailer::new("k", "a: b")));
    assert_eq!(parse_trailer_arg("k:"), Ok(Trailer::new("k", "")));
    assert_eq!(parse_trailer_arg("k"), Err(TrailerArgError::NoColon { text: String::from("k") }));
    assert_eq!(parse_trailer_arg("k_: v"), Err(TrailerArgError::BadKey { key: String::from("k_") }));
    for managed in super::super::trailers::RUNNER_MANAGED {
        let refused = parse_trailer_arg(&format!("{}: x", managed.to_uppercase()));
        assert_eq!(refused, Err(TrailerArgError::RunnerManaged { key: managed.to_uppercase() }));
    }
}

fn output() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        Just(b"SET_STATE {\"state\":\"a\"}".to_vec()),
        Just(b"SET_STATE {\"state\":\"b\",\"body\":\"x\"}\r".to_vec()),
        Just(b"SET_STATE".to_vec()),
        Just(b"SET_STAT".to_vec()),
        Just(b"SET_STATEMENT".to_vec()),
        Just(b"".to_vec()),
        prop::collection::vec(any::<u8>(), 0..12),
    ];
    (prop::collection::vec(line, 0..8), any::<bool>()).prop_map(|(lines, ended)| {
        let mut output = lines.join(b"\n".as_slice());
        if ended {
            output.push(b'\n');
        }
        output
    })
}

proptest! {
    #[test]
    fn chunks_may_be_cut_anywhere(output in output(), size in 1_usize..9) {
        let chunks: Vec<&[u8]> = output.chunks(size).collect();
        prop_assert_eq!(observe(&chunks), observe(&[&output]));
    }

    #[test]
    fn the_reader_judges_as_lines_are_judged(output in output()) {
        let mut last = None;
        let mut malformed = 0;
        for line in output.split_inclusive(|byte| *byte == b'\n') {
            match judge_line(line) {
                LineVerdict::NotProtocol => {}
                LineVerdict::Declared(declaration) => last = Some(declaration),
                LineVerdict::Malformed(_) => malformed += 1,
            }
        }
        let observed = observe(&[&output]);
        prop_assert_eq!((observed.declared, observed.malformed_count), (last, malformed));
    }
}
