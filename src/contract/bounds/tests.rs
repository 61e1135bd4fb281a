//! Tables of [`super`]: histories in words.

use proptest::prelude::*;

use super::super::head::CommitFacts;
use super::*;

const NOW: i64 = 100_000;

/// A commit by words, newest first: `L1` is a lease of attempt 1, all else is a state. `build/2` has
/// tree 2; marks follow: `!` set over a lease, `@` from an attempt, `~` put back, `z` with a pause, `s`
/// after the `stalled` command. `-60` is its age in seconds.
fn fact(words: &str) -> Fact {
    let mut parts = words.split(' ');
    let what = parts.next().unwrap();
    let age: i64 = parts.next().map_or(0, |age| -age.parse::<i64>().unwrap());
    let at = NOW - age;
    let (mut tree, mut message) = (1, String::from("s\n\n"));
    if let Some(run) = what.strip_prefix('L') {
        message.push_str(&format!("dwp-state: working\ndwp-run-id: {run}\n"));
    } else {
        let end = what.find(['/', '!', '@', '~', 'z', 'S']).unwrap_or(what.len());
        message.push_str(&format!("dwp-state: {}\n", &what[..end]));
        for mark in what[end..].chars() {
            message.push_str(match mark {
                '/' => "",
                '!' => "aynig-overrides: x\n",
                '@' => "aynig-from-attempt: x\n",
                '~' => "aynig-interrupted: x\n",
                'z' => "dwp-not-before: 2100-01-01T00:00:00Z\n",
                'S' => "dwp-origin-state: stalled\n",
                digit => {
                    tree = u8::try_from(digit.to_digit(10).unwrap()).unwrap();
                    ""
                }
            });
        }
    }
    let id = CommitId::from_bytes(&[9; 20]).unwrap();
    let head = Head::read(&CommitFacts { id, committed_at: at, message: message.as_bytes() });
    Fact::new(&head, CommitId::from_bytes(&[tree; 20]).unwrap(), at).unwrap()
}

fn facts(words: &str) -> Vec<Fact> {
    words.split(", ").map(fact).collect()
}

fn judged(steps: u64, rounds: u64, words: &str) -> String {
    match reached(Limits { steps, rounds }, NOW, facts(words).into_iter()) {
        None => String::new(),
        Some(Bound::Steps { count, since }) => format!("{count} steps since -{}", NOW - since),
        Some(Bound::Rounds { state, count, .. }) => format!("{state} {count} times"),
        Some(Bound::Stalled { count, until }) => format!("stalled {count} times, {} left", until - NOW),
    }
}

/// CONTRACT 11.17, 11.18
#[test]
fn rounds_table() {
    let twice = "a, L3, b, L2, a, L1, a";
    for (limit, words, expected) in [
        (2, twice, "a 2 times"),
        (3, twice, ""),
        (0, twice, ""),
        (1, "a, L1, a", "a 1 times"),
        (1, "a, a", ""),
        (1, "a, L1, a, c, a, L0, a", "a 1 times"),
        (2, "a, L2, a, c, a, L0, a", ""),
        // Other files, at HEAD or on the way. Those of other states do not matter.
        (2, "a/2, L3, b, L2, a, L1, a", ""),
        (2, "a, L3, b, L2, a/2, L1, a", ""),
        (2, "a, L3, b/2, L2, a, L1, a", "a 2 times"),
        // A pause anywhere between.
        (2, "az, L3, b, L2, a, L1, a", ""),
        (2, "a, L3, bz, L2, a, L1, a", ""),
        (2, "a, L3, b, L2, a, L1, az", ""),
        // Put back by a runner that was stopped: the same visit.
        (2, "a~, L4, a, L3, b, L2, a, L1, a", "a 2 times"),
        (2, "a~, L3, b, L2, a, L1, a", ""),
        (2, "a, L3, a~, L2, a, L1, a", "a 2 times"),
        // Asked for over a lease; by a command of another branch.
        (2, "a!, L3, b, L2, a, L1, a", ""),
        (2, "a, L3, b!, L2, a, L1, a", ""),
        (2, "a@, b, L2, a@, b, L1, a@", "a 2 times"),
        (2, "a@, b, L2, a!@, L9, b, L1, a@", "a 2 times"),
        (1, "stalledS, L3, stalledS, L2, stalledS, L1, stalled -99999", "stalled 3 times, 240 left"),
        (1, "stalledS -99999, L3, stalledS -99999, L2, stalled -99999", ""),
    ] {
        assert_eq!(judged(0, limit, words), expected, "{limit}: {words}");
    }
}

/// CONTRACT 11.16
#[test]
fn steps_table() {
    for (limit, words, expected) in [
        (2, "c, L2 -10, b, L1 -20, a", "2 steps since -20"),
        (3, "c, L2 -10, b, L1 -20, a", ""),
        (1, "a, L1 -10, L1 -500, L1 -900, a", "1 steps since -900"),
        (2, "c, L2 -10, b, L1 -20, L1 -3599, a", "2 steps since -3599"),
        (2, "c, L2 -10, b, L1 -20, L1 -3600, a", ""),
        (2, "c, L2 -10, b, L1 -3600, a", ""),
        (2, "c, L2 -10, b!, L1 -20, a", ""),
        (2, "c, L2 -10, b, a, L1 -20, a", ""),
        (2, "c, L2 -10, b@, a, L1 -20, a", "2 steps since -20"),
        (2, "c, L2 -10, b~, L1 -20, a", "2 steps since -20"),
        (2, "c, L2 -10, bz, L1 -20, a", "2 steps since -20"),
        // A lease that was taken over is a step as well.
        (2, "c, L2 -10, L1 -20, a", "2 steps since -20"),
        (1, "a", ""),
    ] {
        assert_eq!(judged(limit, 0, words), expected, "{limit}: {words}");
    }
    let bound = Bound::Steps { count: 2, since: 100 };
    assert_eq!(bound.until(), Some(3_700), "the first step is an hour old");
}

/// CONTRACT 11.19
#[test]
fn stalled_table() {
    let failed = |count: usize, age: i64| {
        let mut words = vec![format!("stalledS -{age}")];
        words.extend((1..count).map(|_| "L1 -99999, stalledS -99999".to_owned()));
        words.push("L0 -99999, stalled -99999, L9 -99999, build -99999".to_owned());
        judged(60, 5, &words.join(", "))
    };
    assert_eq!(failed(1, 0), "stalled 1 times, 60 left");
    assert_eq!(failed(1, 60), "");
    assert_eq!(failed(3, 100), "stalled 3 times, 140 left");
    assert_eq!(failed(6, 0), "stalled 6 times, 1920 left");
    assert_eq!(failed(7, 0), "stalled 7 times, 3600 left");
    assert_eq!(failed(50, 3_599), "stalled 7 times, 1 left");
    assert_eq!(failed(50, 3_600), "");
    assert_eq!(judged(60, 5, "stalled, L1, build"), "");
    assert_eq!(judged(60, 5, "stalledS"), "", "asked for by hand");
}

/// CONTRACT 3.14
#[test]
fn visits_table() {
    for (words, expected) in [
        ("a", 1),
        ("a, L1, a", 2),
        ("a, L2, b, L1, a/2", 2),
        ("b, L2, a, L1, a", 1),
        ("a, L2, az, L1, a", 3),
        ("a~, L2, a, L1, a", 2),
        ("a, c, L1, a", 1),
        ("a!, L2, a, L1, a", 1),
        ("a@, c, L1, a", 2),
    ] {
        assert_eq!(visits(facts(words).into_iter()), expected, "{words}");
    }
}

proptest! {
    /// CONTRACT 11.16, 11.17
    #[test]
    fn what_is_asked_by_hand_is_free(
        history in prop::collection::vec(prop::sample::select(vec!["a", "b", "a/2", "az", "a@", "L1 -5", "L2 -9", "stalledS"]), 0..40),
        steps in 0_u64..5,
        rounds in 0_u64..5,
    ) {
        let all = history.join(", ");
        for top in ["a!", "c, a"] {
            let words = if all.is_empty() { top.to_owned() } else { format!("{top}, {all}") };
            let last_of_top = facts(&words);
            prop_assert_eq!(reached(Limits { steps, rounds }, NOW, last_of_top.clone().into_iter()), None);
            prop_assert_eq!(visits(last_of_top.into_iter()), 1);
        }
    }
}
