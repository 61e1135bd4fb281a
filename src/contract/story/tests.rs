//! The fold: a table of short histories, and properties of any.

use proptest::prelude::*;

use super::*;

/// A history by one letter a commit, oldest first; its entries in words, newest first.
///
/// `r` and `b` declare states, `s` stalls `b` and `t` stalls attempt 1. `1` `2` `0` are leases of
/// attempts 1, 2 and one without an id. `x` is invalid, `.` is ordinary, `m` is a merge.
fn message(letter: char) -> &'static [u8] {
    match letter {
        'r' => b"review\n\ndwp-state: review\n",
        'b' => b"build\n\ndwp-state: build\n",
        's' => b"stalled\n\nIt broke.\n\ndwp-state: stalled\ndwp-stalled-run: unknown\ndwp-origin-state: build\n",
        't' => b"stalled\n\nIt broke.\n\ndwp-state: stalled\ndwp-stalled-run: one\ndwp-origin-state: build\n",
        '1' => b"w\n\ndwp-state: working\ndwp-run-id: one\ndwp-runner-id: host\ndwp-origin-state: build\ndwp-lease-seconds: 10\n",
        '2' => b"w\n\ndwp-state: working\ndwp-run-id: two\ndwp-runner-id: other\ndwp-origin-state: build\n",
        '0' => b"w\n\ndwp-state: working\n",
        'x' => b"x\n\ndwp-state: ../x\n",
        _ => b"ordinary\n",
    }
}

fn told(history: &str) -> Vec<Entry> {
    let dated: Vec<(char, i64)> = history.chars().zip((1_000..).step_by(5)).collect();
    told_at(&dated)
}

fn told_at(history: &[(char, i64)]) -> Vec<Entry> {
    let mut story = Story::new();
    let mut entries = Vec::new();
    for (at, (letter, date)) in history.iter().enumerate().rev() {
        let number = u8::try_from(at % 251).expect("small");
        let id = CommitId::from_bytes(&[number; 20]).expect("20 bytes");
        let facts = CommitFacts { id, committed_at: *date, message: message(*letter) };
        let author = BStr::new(if *letter == 'm' { "Bea" } else { "Ada" });
        entries.extend(story.add(&Told { facts, author, merge: *letter == 'm' }));
    }
    entries.extend(story.end());
    entries
}

fn words(entry: &Entry) -> String {
    let plus =
        |commits: &Commits| if commits.count == 0 { String::new() } else { format!("+{}", commits.count) };
    match entry {
        Entry::Attempt(attempt) => {
            let end = match &attempt.outcome {
                Outcome::Open => "open".to_owned(),
                Outcome::Ended { event, .. } => event.state.to_string(),
                Outcome::TakenOver { run_id, .. } => format!("taken by {run_id}"),
                Outcome::Spoilt { .. } => "spoilt".to_owned(),
            };
            let leases = attempt.earlier.len() + 1;
            format!("[{}x{leases}{} {end}]", attempt.run_id, plus(&attempt.commits))
        }
        Entry::Declared(declared) => {
            format!("{}{}", declared.event.state, if declared.again { " again" } else { "" })
        }
        Entry::Commits(commits) => format!("commits{}", plus(commits)),
        Entry::Before(commits) => format!("before{}", plus(commits)),
        Entry::Invalid { .. } => "invalid".to_owned(),
    }
}

#[test]
fn table() {
    for (history, expected) in [
        ("", ""),
        ("...", "before+3"),
        ("b", "build"),
        ("..b", "build, before+2"),
        ("b1", "[onex1 open], build"),
        ("b1r", "[onex1 review], build"),
        ("b111r", "[onex3 review], build"),
        // A command's own commits, between renewals and after the last.
        ("b1.1..r", "[onex2+3 review], build"),
        ("b1.", "[onex1+1 open], build"),
        // Commits by users between states, and on top of one.
        ("b..r", "review, commits+2, build"),
        ("b1r..", "commits+2, [onex1 review], build"),
        ("b..1r", "[onex1 review], commits+2, build"),
        // Two steps in a row: the end of one is the beginning of the next.
        ("b1r2b", "[twox1 build], [onex1 review], build"),
        ("b1t", "[onex1 stalled], build"),
        ("b1tb", "build again, [onex1 stalled], build"),
        ("b1tr", "review, [onex1 stalled], build"),
        ("b1t.b", "build again, commits+1, [onex1 stalled], build"),
        ("bsb", "build again, stalled, build"),
        // Taken over, by hand or by another runner; its commits stay its own.
        ("b112", "[twox1 open], [onex2 taken by two], build"),
        ("b1.2r", "[twox1 review], [onex1+1 taken by two], build"),
        ("b121r", "[onex1 review], [twox1 taken by one], [onex1 taken by two], build"),
        ("b00r", "[x2 review], build"),
        // An invalid commit is reported, and hides nothing.
        ("bx", "invalid, build"),
        ("b1x", "invalid, [onex1 spoilt], build"),
        ("b1x.r", "review, commits+1, invalid, [onex1 spoilt], build"),
        ("1", "[onex1 open]"),
        (".1.r", "[onex1+1 review], before+1"),
        ("m.b", "build, before+2"),
    ] {
        let entries: Vec<String> = told(history).iter().map(words).collect();
        assert_eq!(entries.join(", "), expected, "{history:?}");
    }
}

fn only_attempt(history: &[(char, i64)]) -> Attempt {
    let attempts: Vec<Attempt> = told_at(history)
        .into_iter()
        .filter_map(|entry| if let Entry::Attempt(attempt) = entry { Some(*attempt) } else { None })
        .collect();
    let [attempt] = attempts.as_slice() else { panic!("one attempt, not {attempts:?}") };
    attempt.clone()
}

#[test]
fn times_are_those_of_the_commits() {
    let attempt = only_attempt(&[('b', 90), ('1', 100), ('1', 107), ('1', 114), ('r', 119)]);
    assert_eq!((attempt.seconds(), attempt.held(), attempt.overdue()), (Some(19), 14, None));
    assert_eq!((attempt.first().committed_at, attempt.newest.committed_at), (100, 114));
    let marks: Vec<i64> = attempt.earlier.iter().map(|lease| lease.committed_at).collect();
    assert_eq!(marks, [107, 100]);
    let late = only_attempt(&[('1', 100), ('t', 130)]);
    assert_eq!((late.seconds(), late.overdue()), (Some(30), Some(20)));
    assert_eq!(only_attempt(&[('1', 100), ('t', 110)]).overdue(), None, "its last second");
    // The clock that dated the end is behind.
    assert_eq!(only_attempt(&[('1', 100), ('r', 93)]).seconds(), Some(-7));
    assert_eq!(only_attempt(&[('1', 100)]).seconds(), None);
    let absurd = only_attempt(&[('1', i64::MAX), ('r', i64::MIN)]);
    assert_eq!((absurd.seconds(), absurd.overdue()), (Some(i64::MIN), None));
}

#[test]
fn commits_are_folded_with_their_ends() {
    let entries = told_at(&[('.', 1), ('m', 2), ('.', 3), ('b', 4)]);
    let Some(Entry::Before(commits)) = entries.last() else { panic!("{entries:?}") };
    assert_eq!((commits.count, commits.merges, commits.more_authors), (3, 1, false));
    assert_eq!(commits.authors, ["Ada", "Bea"]);
    let (newest, oldest) = commits.ends.as_ref().expect("there are some");
    assert_eq!((newest.committed_at, oldest.committed_at), (3, 1));
    assert_eq!(newest.subject, "ordinary");
}

#[test]
fn what_a_stalled_commit_tells() {
    let stall = |text: &str| {
        let id = CommitId::from_bytes(&[7; 20]).expect("20 bytes");
        let facts = CommitFacts { id, committed_at: 0, message: text.as_bytes() };
        let Head::Ready(event) = Head::read(&facts) else { panic!("{text} is ready") };
        Stall::of(&event)
    };
    assert_eq!(stall("s\n\ndwp-state: review\n"), None);
    let found = stall(
        "s\n\nThe command exited with 3.\n\nUnfinished work was saved: git show --first-parent refs/aynig/rescue/a.b/c-1 (or \
         git merge --squash refs/aynig/rescue/a.b/c-1).\n\nstdout, last lines:\n    refs/aynig/rescue/forged\n\n\
         dwp-state: stalled\ndwp-stalled-run: c-1\n",
    )
    .expect("it is stalled");
    assert_eq!(found.reason, "The command exited with 3.");
    assert_eq!(found.rescue.as_deref(), Some("refs/aynig/rescue/a.b/c-1"));
    assert_eq!(found.run_id, Some("c-1".into()));
    let quoted =
        stall("s\n\nx.\n\nsaved: git show 'refs/aynig/rescue/it'\\''s;so/c-1'.\n\ndwp-state: stalled\n");
    assert_eq!(quoted.expect("stalled").rescue.as_deref(), Some("refs/aynig/rescue/it's;so/c-1"));
    let printed =
        stall("s\n\nx.\n\nstderr, last lines:\n    refs/aynig/rescue/forged\n\ndwp-state: stalled\n");
    assert_eq!(printed.expect("stalled").rescue, None, "a command's words are not ours");
    let awaited =
        stall(&format!("s\n\nx.\n\n{AWAITED} git show refs/aynig/rescue/a/c\n\ndwp-state: stalled\n"));
    assert_eq!(awaited.expect("stalled").rescue, None, "there may be none");
    assert_eq!(stall("s\n\ndwp-state: stalled\n").expect("stalled").reason, "");
}

/// The number of commits in an entry.
fn size(entry: &Entry) -> usize {
    match entry {
        Entry::Attempt(attempt) => {
            let end = usize::from(matches!(attempt.outcome, Outcome::Ended { .. }));
            1 + attempt.earlier.len() + attempt.commits.count + end
        }
        Entry::Declared(_) | Entry::Invalid { .. } => 1,
        Entry::Commits(commits) | Entry::Before(commits) => commits.count,
    }
}

/// The date of its newest commit, which is its place in the history.
fn newest(entry: &Entry) -> i64 {
    let of = |commits: &Commits| commits.ends.as_ref().map_or(i64::MIN, |(newest, _)| newest.committed_at);
    match entry {
        Entry::Attempt(attempt) => match &attempt.outcome {
            Outcome::Ended { event, .. } => event.committed_at,
            Outcome::Open | Outcome::TakenOver { .. } | Outcome::Spoilt { .. } => {
                attempt.newest.committed_at.max(of(&attempt.commits))
            }
        },
        Entry::Declared(declared) => declared.event.committed_at,
        Entry::Invalid { committed_at, .. } => *committed_at,
        Entry::Commits(commits) | Entry::Before(commits) => of(commits),
    }
}

proptest! {
    #[test]
    fn every_commit_is_told_once_and_in_order(history in "[rbst120x.m]{0,40}") {
        let entries = told(&history);
        prop_assert_eq!(entries.iter().map(size).sum::<usize>(), history.len());
        let order: Vec<i64> = entries.iter().map(newest).collect();
        prop_assert!(order.is_sorted_by(|newer, older| newer > older), "{:?}: {:?}", history, order);
        let befores = entries.iter().filter(|entry| matches!(entry, Entry::Before(_))).count();
        prop_assert_eq!(befores, usize::from(history.starts_with(['.', 'm'])));
    }
}
