//! Tables and properties of the names, and git's rules for branch names.

use proptest::prelude::*;

use super::*;

/// CONTRACT 1.9
#[test]
fn state_and_role_names() {
    let long = "a".repeat(100);
    let too_long = "a".repeat(101);
    let table = [
        ("build", true),
        ("a", true),
        ("plan/step-1", true),
        ("_x", true),
        ("9.0", true),
        ("a..b", true),
        ("A/b/C", true),
        (long.as_str(), true),
        (too_long.as_str(), false),
        ("", false),
        ("/", false),
        ("/a", false),
        ("a/", false),
        ("a//b", false),
        (".", false),
        ("..", false),
        ("../x", false),
        ("a/../b", false),
        ("a/.git", false),
        ("-x", false),
        ("a/-x", false),
        ("a b", false),
        ("a\n", false),
        ("a\\b", false),
        ("é", false),
        ("a:b", false),
    ];
    for (text, legal) in table {
        assert_eq!(StateName::parse(text).is_ok(), legal, "state {text:?}");
        assert_eq!(RoleName::parse(text).is_ok(), legal, "role {text:?}");
    }
    assert!(StateName::parse(b"\xff").is_err());
    let error = StateName::parse("a b").unwrap_err().to_string();
    assert!(error.contains("\"a b\" is not a legal state name: only letters"), "{error}");
}

/// CONTRACT 1.6
#[test]
fn the_runners_own_states() {
    assert!(StateName::working().is_working() && !StateName::working().is_stalled());
    assert!(StateName::stalled().is_stalled() && !StateName::stalled().is_working());
    assert_eq!(StateName::parse("working"), Ok(StateName::working()));
    assert!(!StateName::parse("Working").unwrap().is_working());
    assert_eq!(StateName::parse("a/b").unwrap().as_str().split('/').collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(serde_json::to_string(&StateName::stalled()).unwrap(), "\"stalled\"");
    assert_eq!(format!("{:<8}|", StateName::working()), "working |");
}

#[test]
fn branch_names() {
    let table: [(&[u8], bool); 25] = [
        (b"main", true),
        (b"a/b", true),
        (b"a+b", true),
        (b"a%b", true),
        (b"@", true),
        (b"\xff", true),
        (b"a-", true),
        (b"a/-b", true),
        (b"x.lock.y", true),
        (b"", false),
        (b"-a", false),
        (b"a..b", false),
        (b"a//b", false),
        (b"/a", false),
        (b"a/", false),
        (b".a", false),
        (b"a/.b", false),
        (b"a.lock", false),
        (b"a.lock/b", false),
        (b"a.", false),
        (b"a@{b", false),
        (b"a b", false),
        (b"a\x7f", false),
        (b"a\0b", false),
        (b"HEAD", false),
    ];
    for (name, legal) in table {
        assert_eq!(BranchName::new(name).is_ok(), legal, "{:?}", name.as_bstr());
    }
    let branch = BranchName::from_full_ref(BStr::new("refs/heads/a/b")).unwrap();
    assert_eq!(
        (branch.as_bstr(), branch.full_ref().as_bstr()),
        (BStr::new("a/b"), BStr::new("refs/heads/a/b"))
    );
    for other in ["refs/tags/a", "refs/heads/", "a", "refs/heads/a..b", "HEAD"] {
        assert_eq!(BranchName::from_full_ref(BStr::new(other)), None, "{other}");
    }
}

#[test]
fn directory_names() {
    let of = |name: &[u8]| BranchName::new(name).unwrap().directory_name();
    assert_eq!(of(b"main"), "main");
    assert_eq!(of(b"feat/login-2.0_x"), "feat+login-2.0_x");
    assert_eq!(of(b"a+b%c"), "a%2bb%25c");
    assert_eq!(of("é".as_bytes()), "%c3%a9");
    let long = of("é".repeat(60).as_bytes());
    let tail = "%c3%a9%-".len() + 32;
    assert!(long.len() <= 150 && long.contains("%-") && long.starts_with("%c3%a9"), "{long}");
    assert!(long[..long.len() - tail].len().is_multiple_of(3), "no escape is cut: {long}");
    assert_eq!(of(&[b'a'; 150]), "a".repeat(150));
    assert_ne!(of(&[b'a'; 151]), of(&[b'a'; 152]));
}

#[test]
fn remotes() {
    for (text, legal) in [
        ("origin", true),
        ("https://host/x.git", true),
        ("", false),
        ("-u", false),
        ("a b", false),
        ("a\n", false),
        ("a\u{85}", false),
        ("caf\u{e9}+a@b", true),
        ("$(reboot)", false),
        ("a;reboot", false),
        ("it's", false),
    ] {
        assert_eq!(RemoteName::parse(text).is_ok(), legal, "{text:?}");
    }
    let origin = RemoteName::parse("origin").unwrap();
    assert_eq!(origin.to_source(), "git:origin");
    assert_eq!(RemoteName::from_source(BStr::new("git:origin")), Some(origin));
    for other in ["origin", "git:", "git:-x", "hg:origin", ""] {
        assert_eq!(RemoteName::from_source(BStr::new(other)), None, "{other}");
    }
}

#[test]
fn attempts() {
    let attempt = AttemptId::random();
    assert_ne!(attempt, AttemptId::random());
    assert_eq!(AttemptId::parse(attempt.to_string().as_bytes()), Some(attempt));
    assert_eq!(attempt.to_string().len(), 36);
    assert!(attempt.to_string().starts_with(&attempt.short()) && attempt.short().len() == 8);
    let upper = AttemptId::parse(b"0F8FAD5B-D9CB-469F-A165-70867728950E").unwrap();
    assert_eq!(upper.to_string(), "0f8fad5b-d9cb-469f-a165-70867728950e");
    for text in ["", "x", "0f8fad5b-d9cb-469f-a165", "\u{e9}"] {
        assert_eq!(AttemptId::parse(text.as_bytes()), None, "{text}");
    }
}

#[test]
fn commits() {
    for length in [20, 32] {
        let id = CommitId::from_bytes(&vec![0xab; length]).unwrap();
        assert_eq!((id.as_bytes().len(), id.to_string()), (length, "ab".repeat(length)));
        assert_eq!(CommitId::parse_hex(id.to_string().to_ascii_uppercase()), Some(id));
        assert_eq!(id.short(), "ababababab");
        assert_eq!(serde_json::to_string(&id).unwrap(), format!("\"{id}\""));
    }
    assert_ne!(CommitId::from_bytes(&[0; 20]), CommitId::from_bytes(&[0; 32]));
    for text in ["", "ab", "a", &"g".repeat(40), &"a".repeat(41), &"a".repeat(63)] {
        assert_eq!(CommitId::parse_hex(text), None, "{text}");
    }
    assert_eq!(CommitId::from_bytes(&[0; 21]), None);
}

fn branch() -> impl Strategy<Value = BranchName> {
    let nasty = prop::sample::select(b"ab/+%-._2Bbf\xc3\xa9\x80@#".to_vec());
    prop_oneof![
        3 => prop::collection::vec(nasty.clone(), 1..8),
        1 => prop::collection::vec(nasty, 90..240),
        1 => prop::collection::vec(any::<u8>(), 1..30),
        1 => (140_usize..160).prop_map(|length| vec![b'a'; length]),
    ]
    .prop_filter_map("a legal branch name", |name| BranchName::new(name).ok())
}

proptest! {
    /// CONTRACT 9.1
    #[test]
    fn directory_names_are_injective(one in branch(), other in branch()) {
        prop_assert_eq!(one == other, one.directory_name() == other.directory_name());
    }

    #[test]
    fn directory_names_can_be_read_back(branch in branch()) {
        let name = branch.directory_name();
        prop_assert!(name.len() <= 150 && !name.starts_with(['.', '-']));
        prop_assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-+%".contains(&b)));
        if !name.contains("%-") {
            let mut back = Vec::new();
            let mut rest = name.bytes();
            while let Some(byte) = rest.next() {
                back.push(match byte {
                    b'+' => b'/',
                    b'%' => {
                        let digits = [rest.next(), rest.next()].map(|d| nibble(d.unwrap()).unwrap());
                        digits[0] << 4 | digits[1]
                    }
                    plain => plain,
                });
            }
            prop_assert_eq!(branch.as_bstr(), back.as_bstr());
        }
    }

    #[test]
    fn legal_state_names_stay_below_their_directory(text in "[a-z./-]{0,8}") {
        if let Ok(state) = StateName::parse(&text) {
            prop_assert!(state.as_str().split('/').all(|s| !s.is_empty() && !s.starts_with('.') && !s.starts_with('-')));
        }
    }
}
