//! Hostile bytes through everything that reads and writes messages: generated, compared with the
//! git program, and carried through a whole step.
//!
//! A few thousand in every test run; for many more:
//!
//! ```text
//! AYNIG_FUZZ_CASES=300000 cargo test --lib contract::
//! ```
//!
//! Each run generates new cases. A failure prints its bytes; add them to a table.

use bstr::{BStr, BString, ByteSlice};
use proptest::prelude::*;

use super::carried::{Ask, KeepTrailers, kept_and_given};
use super::commits::{LeaseTerms, advance_draft, lease_draft, renewal_draft, stalled_draft};
use super::declaration::{Declaration, Declared};
use super::head::{CommitFacts, Head};
use super::ids::{AttemptId, CommitId, RemoteName, StateName};
use super::message::{Draft, Message};
use super::protocol::line as line_of;
use super::protocol::{LineVerdict, ProtocolReader, judge_line};
use super::trailers::tests::{ask_git, cases, message, printed, sample};
use super::trailers::{Trailer, Trailers, is_runner_managed, locate};

/// Pieces that readers of messages and of JSON have stumbled over.
const FRAGMENTS: &[&[u8]] = &[
    b"\n",
    b"\n\n",
    b"\r\n",
    b"\r",
    b"\0",
    b" ",
    b"\t",
    b"\x0b",
    b"\x0c",
    b"\x1b[2J",
    b"\x7f",
    b"\x80",
    b"\xff\xfe",
    b"\xc3\x28",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xef\xbb\xbf",
    b"\xc2\x85",
    b"\xe2\x80\xa8",
    b"\xe2\x80\xae",
    b"---\n",
    b"\n---\n",
    b"--- \n",
    b"diff --git a/a b/a\n",
    b"#\n",
    b"\n#",
    b"# dwp-state: x\n",
    b";",
    b"// ",
    b"# ------------------------ >8 ------------------------\n",
    b"# ------------------------ >8 ----\n",
    b"Conflicts:\n",
    b"\nConflicts:\n\ta\n",
    b"Signed-off-by: A <a@b>\n",
    b"(cherry picked from commit 0123)\n",
    b"dwp-state: build\n",
    b"dwp-state: working\n",
    b"dwp-state:\n",
    b"dwp-state :x\n",
    b"Dwp-State: x\n",
    b"DWP-STATE: x\n",
    b"dwp\xe2\x80\x90state: x\n",
    b"dwp-state\xc2\xa0: x\n",
    b" dwp-state: x\n",
    b"dwp-state: a\n b\n",
    b"dwp-state: ../../x\n",
    b"dwp-run-id: 1\n",
    b"dwp-lease-seconds: -1\n",
    b"dwp-lease-seconds: 99999999999999999999\n",
    b"dwp-source: git:origin\n",
    b"dwp-origin-state: x\n",
    b"dwp-pr: 7\n",
    b"dwp-a:\n",
    b"dwp-: x\n",
    b"-: x\n",
    b": x\n",
    b"a: b\n",
    b"a: b\n\tc\n  d\n",
    b"a: b\n \n c\n",
    b"a:b:c\n",
    b"a",
    b":",
    b"::",
    b"\xf0\x9f\x98\x80",
    b"=",
    b"a=b\n",
    b"SET_STATE ",
    b"SET_STATE {\"state\":\"a\"}\n",
    b"{",
    b"}",
    b"\"",
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b"\\n",
    b"[",
    b"]",
    b",",
    b"null",
    b"true",
    b"1e999",
    b"-0",
    b"\"state\":",
    b"\"trailers\":",
    b"\"body\":",
    b"\"subject\":",
    b"\"keep_trailers\":",
];

/// One change to some bytes; the numbers choose the place.
#[derive(Debug, Clone)]
enum Change {
    Insert(usize, &'static [u8]),
    Replace(usize, u8),
    Remove(usize, usize),
    Repeat(usize, usize, usize),
    Cut(usize),
    Widen(usize, u8, usize),
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<usize>();
    prop_oneof![
        8 => (at, prop::sample::select(FRAGMENTS)).prop_map(|(at, piece)| Change::Insert(at, piece)),
        3 => (at, any::<u8>()).prop_map(|(at, byte)| Change::Replace(at, byte)),
        2 => (at, 1_usize..20).prop_map(|(at, length)| Change::Remove(at, length)),
        2 => (at, 1_usize..40, 1_usize..4).prop_map(|(at, length, times)| Change::Repeat(at, length, times)),
        1 => at.prop_map(Change::Cut),
        1 => (at, any::<u8>(), 1_usize..2_000).prop_map(|(at, byte, length)| Change::Widen(at, byte, length)),
    ]
}

fn changed(mut bytes: Vec<u8>, changes: &[Change]) -> Vec<u8> {
    for change in changes {
        let place = |at: usize| at % (bytes.len() + 1);
        match *change {
            Change::Insert(at, piece) => {
                let at = place(at);
                bytes.splice(at..at, piece.iter().copied());
            }
            Change::Replace(at, byte) => {
                let at = place(at);
                if let Some(there) = bytes.get_mut(at) {
                    *there = byte;
                }
            }
            Change::Remove(at, length) => {
                let at = place(at);
                bytes.drain(at..bytes.len().min(at + length));
            }
            Change::Repeat(at, length, times) => {
                let at = place(at);
                let piece = bytes[at..bytes.len().min(at + length)].repeat(times);
                bytes.splice(at..at, piece);
            }
            Change::Cut(at) => bytes.truncate(place(at)),
            Change::Widen(at, byte, length) => {
                let at = place(at);
                bytes.splice(at..at, std::iter::repeat_n(byte, length));
            }
        }
    }
    bytes
}

fn spoiled(base: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    (base, prop::collection::vec(change(), 0..6)).prop_map(|(bytes, changes)| changed(bytes, &changes))
}

/// A HEAD that mostly declares something, with odd neighbours.
fn event() -> impl Strategy<Value = Vec<u8>> {
    let trailers: Vec<&[u8]> = FRAGMENTS
        .iter()
        .copied()
        .filter(|piece| piece.ends_with(b"\n") && (piece.contains(&b':') || piece.starts_with(b"#")))
        .collect();
    let trailers = || prop::collection::vec(prop::sample::select(trailers.clone()), 0..4);
    let pieces = prop::collection::vec(prop::sample::select(FRAGMENTS), 0..8);
    let state = prop::sample::select(vec!["build", "working", "stalled", "a/b"]);
    (pieces, trailers(), state, trailers()).prop_map(|(body, before, state, after)| {
        let state = format!("dwp-state: {state}\n");
        [b"s\n\n".as_slice(), &body.concat(), b"\n\n", &before.concat(), state.as_bytes(), &after.concat()]
            .concat()
    })
}

/// Messages of all kinds: well-formed, spoiled, made of fragments, random bytes, very long.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let pieces = prop::collection::vec(prop::sample::select(FRAGMENTS), 0..30).prop_map(|list| list.concat());
    let long = (prop::sample::select(FRAGMENTS), 1_usize..3_000)
        .prop_map(|(piece, times)| [b"s\n\na: b\n".as_slice(), &piece.repeat(times), b"\n\nc: d\n"].concat());
    prop_oneof![
        40 => spoiled(message()),
        20 => spoiled(event()),
        20 => event(),
        20 => pieces,
        10 => prop::collection::vec(any::<u8>(), 0..200),
        1 => long,
    ]
}

fn facts(message: &[u8]) -> CommitFacts<'_> {
    CommitFacts { id: CommitId::from_bytes(&[7; 20]).expect("20 bytes"), committed_at: 100, message }
}

/// Fails with the shortest of the wrong cases.
fn assert_none<T: std::fmt::Debug>(what: &str, mut wrong: Vec<(Vec<u8>, T)>, of: usize) {
    wrong.sort_by_key(|(bytes, _)| bytes.len());
    let shown: Vec<_> = wrong.iter().take(5).map(|(bytes, why)| (bytes.as_bstr(), why)).collect();
    assert!(wrong.is_empty(), "{what}: {} of {of}\n{shown:#?}", wrong.len());
}

/// CONTRACT 1.7
#[test]
fn git_reads_the_same_trailers_in_hostile_messages() {
    let messages = sample(&hostile(), cases());
    let (mut wrong, mut found) = (Vec::new(), 0);
    for (message, git) in messages.iter().zip(ask_git(&messages)) {
        let block = locate(message);
        assert!(block.start <= block.end && block.end <= message.len(), "{:?}", message.as_bstr());
        let ours = printed(&block.trailers);
        found += usize::from(!git.is_empty());
        if ours != git {
            wrong.push((message.clone(), (BString::from(ours), BString::from(git))));
        }
    }
    assert_none("ours and git's differ", wrong, messages.len());
    assert!(found * 5 > messages.len(), "only {found} messages had trailers: the generator is too tame");
}

/// Checks that every commit of a step that begins with this HEAD can be written and reads back as
/// intended. Returns whether the HEAD declares a state.
fn carried_through(message: &[u8]) -> Result<bool, String> {
    let head = Head::read(&facts(message));
    if message.contains(&0) && matches!(head, Head::Ready(_) | Head::Working(_)) {
        return Err("a message with a NUL declares a state".to_owned());
    }
    let written = |name: &str, draft: Draft| draft.encode().map_err(|error| format!("{name}: {error}"));
    let ask = Ask { message: Message::parse(message), heading: String::from("[reply]") };
    let leased = match head {
        Head::Unmanaged | Head::Invalid(_) => return Ok(false),
        Head::Working(lease) => lease,
        Head::Ready(event) => {
            let terms = LeaseTerms {
                attempt: AttemptId::random(),
                runner: "a\nhost\0".to_owned(),
                seconds: 7,
                source: RemoteName::parse("origin").ok(),
                branch: super::ids::BranchName::new("task").expect("a name"),
            };
            let bytes = written("lease", lease_draft(&event, &terms))?;
            let Head::Working(lease) = Head::read(&facts(&bytes)) else { return Err("no lease".to_owned()) };
            let kept = |trailers: &Trailers| trailers.dwp_unreserved().cloned().collect::<Vec<_>>();
            if kept(&lease.message.trailers) != kept(&event.message.trailers) {
                return Err("the lease lost a trailer".to_owned());
            }
            let said = (lease.attempt(), lease.seconds, lease.origin.as_ref());
            if said != (Some(terms.attempt), 7, Some(&event.state)) {
                return Err("the lease says something else".to_owned());
            }
            lease
        }
    };
    let renewed = written("renewal", renewal_draft(&leased.message))?;
    if Message::parse(&renewed).trailers != leased.message.trailers {
        return Err("the renewal has other trailers".to_owned());
    }
    let declared = Declaration {
        state: StateName::parse("next").expect("a state"),
        subject: None,
        body: Some(leased.message.body.to_str_lossy().replace('\0', "").replace(">8", "8")),
        lease_seconds: None,
        keep_body: true,
        keep_trailers: KeepTrailers::All,
        trailers: Vec::new(),
    };
    let advanced = written("result", advance_draft(&declared, &leased.message.trailers, &ask, None))?;
    match Head::read(&facts(&advanced)) {
        Head::Ready(event) if event.state == declared.state => {
            if !event.message.body.starts_with(&ask.message.body) {
                return Err("the ask is not kept".to_owned());
            }
        }
        other => return Err(format!("the result is read as {other:?}")),
    }
    let body = leased.message.body.to_str_lossy().into_owned();
    let stalled = written("stalled", stalled_draft(leased.run_id.as_bstr(), leased.origin.as_ref(), &body))?;
    match Head::read(&facts(&stalled)) {
        Head::Ready(event) if event.state.as_str() == "stalled" => Ok(true),
        other => Err(format!("the end is read as {other:?}")),
    }
}

#[test]
fn a_step_from_a_hostile_head_can_always_be_written() {
    let messages = sample(&hostile(), cases());
    let (mut wrong, mut managed) = (Vec::new(), 0);
    for message in &messages {
        match carried_through(message) {
            Ok(taken) => managed += usize::from(taken),
            Err(why) => wrong.push((message.clone(), why)),
        }
    }
    assert_none("a step could not be written", wrong, messages.len());
    assert!(
        managed * 10 > messages.len(),
        "only {managed} HEADs declared a state: the generator is too tame"
    );
}

fn text() -> impl Strategy<Value = BString> {
    prop_oneof![
        3 => "[ -~]{0,20}".prop_map(BString::from),
        2 => prop::collection::vec(prop::sample::select(FRAGMENTS), 0..4).prop_map(|list| list.concat().into()),
        1 => hostile().prop_map(BString::from),
    ]
}

/// CONTRACT 1.14
#[test]
fn a_hostile_draft_is_refused_or_reads_back_and_git_agrees() {
    let trailers =
        prop::collection::vec((text(), text()).prop_map(|(key, value)| Trailer::new(key, value)), 0..3);
    let known = prop::collection::vec(
        ("[a-zA-Z0-9-]{1,8}", text()).prop_map(|(key, value)| Trailer::new(key, value)),
        0..4,
    );
    let trailers = prop_oneof![1 => trailers, 4 => known];
    let body = prop_oneof![1 => text(), 2 => hostile().prop_map(BString::from)];
    let drafts = (text(), body, trailers).prop_map(|(subject, body, trailers)| Draft {
        subject,
        body,
        trailers: trailers.into_iter().collect(),
    });
    let drafts = sample(&drafts, cases());
    let written: Vec<(&Draft, Vec<u8>)> =
        drafts.iter().filter_map(|draft| Some((draft, draft.encode().ok()?.into()))).collect();
    assert!(written.len() * 10 > drafts.len(), "only {} could be written", written.len());
    let messages: Vec<Vec<u8>> = written.iter().map(|(_, bytes)| bytes.clone()).collect();
    let mut wrong = Vec::new();
    for ((draft, bytes), git) in written.iter().zip(ask_git(&messages)) {
        let meant = draft.normalised();
        if Message::parse(bytes) != meant || printed(&meant.trailers) != git || bytes.contains(&0) {
            wrong.push((bytes.clone(), (meant, BString::from(git))));
        }
    }
    assert_none("a draft does not read back", wrong, written.len());
}

/// A protocol line: JSON of the right shape with odd values, then spoiled.
fn line() -> impl Strategy<Value = Vec<u8>> {
    use serde_json::{Value, json};
    let word = || {
        prop_oneof![3 => text().prop_map(|bytes| Value::String(bytes.to_str_lossy().into_owned())),
        1 => prop::sample::select(vec![json!(null), json!(true), json!(7), json!(1.5), json!([]), json!({}), json!(["a: b"])])]
    };
    let state = prop_oneof![
        6 => prop::sample::select(vec!["a", "a/b", "working", "stalled", "-a", "", "A.b_c-9"]).prop_map(Value::from),
        1 => word()];
    let key =
        || prop_oneof![3 => "[a-zA-Z-]{1,6}", 1 => "(?i:dwp-state|dwp-run-id|dwp-source)", 1 => "[ -~]{0,6}"];
    let trailers = prop_oneof![
        2 => prop::collection::vec((key(), text()).prop_map(|(k, v)| Value::from(format!("{k}: {v}"))), 0..4).prop_map(Value::from),
        2 => prop::collection::vec((key(), word()), 0..4).prop_map(|list| Value::Object(list.into_iter().collect())),
        1 => word()];
    let part = |name: &'static str, value: BoxedStrategy<Value>| {
        prop::option::of(value).prop_map(move |value| (name.to_owned(), value))
    };
    let object = (
        state,
        part("subject", word().boxed()),
        part("body", word().boxed()),
        part("keep_body", prop_oneof![4 => any::<bool>().prop_map(Value::from), 1 => word()].boxed()),
        part(
            "keep_trailers",
            prop_oneof![4 => any::<bool>().prop_map(Value::from), 2 => Just(Value::from("all")), 1 => word()]
                .boxed(),
        ),
        part("trailers", trailers.boxed()),
    )
        .prop_map(|(state, subject, body, keep_body, keep, trailers)| {
            let mut object = serde_json::Map::new();
            object.insert("state".to_owned(), state);
            for (name, value) in [subject, body, keep_body, keep, trailers] {
                if let Some(value) = value {
                    object.insert(name, value);
                }
            }
            format!("SET_STATE {}", Value::Object(object)).into_bytes()
        });
    let changes = prop_oneof![2 => Just(Vec::new()), 1 => prop::collection::vec(change(), 1..4)];
    prop_oneof![
        10 => (object, changes).prop_map(|(bytes, changes)| changed(bytes, &changes)),
        1 => prop::collection::vec(prop::sample::select(FRAGMENTS), 0..12)
            .prop_map(|list| [b"SET_STATE ".as_slice(), &list.concat()].concat()),
        1 => hostile(),
    ]
}

/// A request whose parts a declaration may hand on.
const ASK: &[u8] = b"s\n\nDo it.\n\ndwp-state: build\ndwp-pr: 7\nx: \xff\nx: 2\n";

/// How one line was misjudged, if it was.
fn misjudged(line: &[u8], lease: &Trailers) -> Option<String> {
    let declared = match judge_line(line) {
        LineVerdict::NotProtocol => {
            let meant = [b"SET_STATE ".as_slice(), b"SET_STATE\t", b"SET_STATE{", b"SET_STATE:"];
            return meant.iter().any(|word| line.starts_with(word)).then(|| "overlooked".to_owned());
        }
        LineVerdict::Malformed(reason) => return reason.trim().is_empty().then(|| "no reason".to_owned()),
        LineVerdict::Declared(declared) => declared,
    };
    // A parsed declaration can be written as a line again.
    match line_of(&declared).map(|line| (judge_line(line.as_bytes()), line)) {
        Ok((LineVerdict::Declared(again), line)) if again == declared && line.lines().count() == 1 => {}
        Err(long) if long.contains("1 MiB") => {}
        other => return Some(format!("a line of ours says {other:?}")),
    }
    let Declared::Next(declaration) = declared else { return None };
    if declaration.state.is_working() || declaration.trailers.iter().any(|t| is_runner_managed(&t.key)) {
        return Some(format!("declared what is the runner's: {declaration:?}"));
    }
    let ask = Ask { message: Message::parse(ASK), heading: String::from("[reply]") };
    let draft = advance_draft(&declaration, lease, &ask, None);
    let bytes = match draft.encode() {
        Ok(bytes) => bytes,
        Err(error) => return Some(format!("declared and cannot be written: {error}")),
    };
    let Head::Ready(event) = Head::read(&facts(&bytes)) else {
        return Some("written as no event".to_owned());
    };
    let states = event.message.trailers.iter().filter(|t| is_runner_managed(&t.key)).count();
    let meant =
        kept_and_given(declaration.keep_trailers, lease, &ask.message.trailers, &declaration.trailers);
    let all = event.message.trailers.iter().count() == 1 + meant.len();
    (event.state != declaration.state || states != 1 || !all).then(|| format!("written as {event:?}"))
}

#[test]
fn hostile_declarations_are_refused_or_can_be_written() {
    let lease =
        locate(b"s\n\ndwp-state: working\ndwp-pr: 7\ndwp-note: \xff\n  folded\ndwp-run-id: 1\nother: x\n")
            .trailers;
    let lines = sample(&line(), cases());
    let mut wrong = Vec::new();
    let mut declared = 0;
    for line in &lines {
        let one = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
        declared += usize::from(matches!(judge_line(one), LineVerdict::Declared(_)));
        if let Some(why) = misjudged(one, &lease) {
            wrong.push((one.to_vec(), why));
        }
        // The reader, whatever the chunks, finds the same declaration as a line-by-line check.
        let mut expected = None;
        for one in line.split_inclusive(|byte| *byte == b'\n') {
            if let LineVerdict::Declared(declaration) = judge_line(one) {
                expected = Some(declaration);
            }
        }
        let mut reader = ProtocolReader::new();
        line.chunks(1 + line.len() % 13).for_each(|chunk| reader.feed(chunk));
        if reader.finish().declared != expected {
            wrong.push((line.clone(), "the reader sees another declaration".to_owned()));
        }
    }
    assert_none("a line was misjudged", wrong, lines.len());
    assert!(declared * 20 > lines.len(), "only {declared} lines declared: the generator is too wild");
    assert!(declared * 10 < lines.len() * 9, "{declared} lines declared: the generator is too tame");
}

/// CONTRACT 1.14
#[test]
fn nothing_of_a_body_is_ever_a_trailer() {
    // No body ever adds to the intended trailers or removes any.
    for body in sample(&hostile(), cases()) {
        let trailers: Trailers = [Trailer::new("dwp-state", "real")].into_iter().collect();
        let draft = Draft { subject: "s".into(), body: body.clone().into(), trailers };
        if let Ok(bytes) = draft.encode() {
            let read = locate(&bytes).trailers;
            assert_eq!(
                (read.iter().count(), read.last("dwp-state")),
                (1, Some(BStr::new("real"))),
                "{:?}",
                body.as_bstr()
            );
        }
    }
}
