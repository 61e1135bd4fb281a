//! Retention of finished attempts: parses ages, and decides which attempts' logs may be removed.
//!
//! Invariant: an attempt stays if it is not over, is among the newest of its branch, or is not old
//! enough. A number that cannot be parsed or overflows is refused, never rounded.

use std::collections::HashMap;

use super::duration::{UNITS, is_number, parse_duration};

/// The age from which logs and records are removed by default: thirty days, in seconds.
pub(crate) const DEFAULT_AGE: u64 = 30 * 86_400;

/// Why an age was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAge {
    /// It is a number alone.
    #[error("{0} has no unit: write {0}d for days, or 45s, 30m, 12h, 2w, 1d12h")]
    NoUnit(String),
    /// It is anything else.
    #[error("write a number and its unit: 45s, 30m, 12h, 14d, 2w or 1d12h")]
    NoDuration,
}

/// Parses an age such as `14d`. Returns seconds. A number alone is refused, since it might be meant in days.
///
/// # Errors
/// Any text that is no duration with a unit.
pub fn parse_age(text: &str) -> Result<u64, InvalidAge> {
    if is_number(text.trim()) {
        return Err(InvalidAge::NoUnit(text.trim().to_owned()));
    }
    parse_duration(text).ok_or(InvalidAge::NoDuration)
}

/// Formats an age in its largest whole unit: `3 d`.
pub fn age_words(seconds: u64) -> String {
    let fits = |(_, length): &&(char, u64)| *length <= seconds.max(1) && *length <= 86_400;
    let (unit, length) = UNITS.iter().rev().find(fits).copied().unwrap_or(('s', 1));
    format!("{} {}", seconds / length, if unit == 'm' { "min".to_owned() } else { unit.to_string() })
}

/// The facts about an attempt on this host that decide its retention.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Past<'a> {
    /// Its branch, if that still exists.
    pub(crate) branch: Option<&'a [u8]>,
    /// Seconds since it began.
    pub(crate) age: u64,
    /// Whether it is over: its lease is no longer held.
    pub(crate) over: bool,
}

/// Which of `attempts` may be removed: over, older than `age` seconds, and not among the `keep`
/// newest of an existing branch.
pub(crate) fn expendable(attempts: &[Past<'_>], keep: usize, age: u64) -> Vec<bool> {
    let mut order: Vec<usize> = (0..attempts.len()).collect();
    order.sort_by_key(|at| attempts[*at].age);
    let mut newer: HashMap<&[u8], usize> = HashMap::new();
    let mut goes = vec![false; attempts.len()];
    for at in order {
        let attempt = &attempts[at];
        let recent = attempt.branch.is_some_and(|branch| {
            let count = newer.entry(branch).or_default();
            *count += 1;
            *count <= keep
        });
        goes[at] = attempt.over && attempt.age > age && !recent;
    }
    goes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_age_needs_a_unit() {
        for (text, age) in [
            ("14d", Ok(1_209_600)),
            ("1d12h", Ok(129_600)),
            ("14", Err(InvalidAge::NoUnit("14".to_owned()))),
            (" 0 ", Err(InvalidAge::NoUnit("0".to_owned()))),
            ("d", Err(InvalidAge::NoDuration)),
        ] {
            assert_eq!(parse_age(text), age, "{text}");
        }
    }

    #[test]
    fn ages_read_well() {
        for (seconds, words) in
            [(0, "0 s"), (59, "59 s"), (60, "1 min"), (7_199, "1 h"), (86_400, "1 d"), (8_640_000, "100 d")]
        {
            assert_eq!(age_words(seconds), words);
        }
    }

    #[test]
    fn what_goes() {
        let past = |branch: &'static str, age, over| Past {
            branch: (!branch.is_empty()).then_some(branch.as_bytes()),
            age,
            over,
        };
        let attempts = [
            past("a", 50, true),
            past("a", 10, true),
            past("a", 70, false),
            past("b", 90, true),
            past("", 40, true),
            past("a", 60, true),
        ];
        assert_eq!(expendable(&attempts, 1, 30), [true, false, false, false, true, true]);
        assert_eq!(expendable(&attempts, 0, 30), [true, false, false, true, true, true]);
        assert_eq!(expendable(&attempts, 2, 30), [false, false, false, false, true, true]);
        assert_eq!(expendable(&attempts, 0, 90), [false; 6], "no older than that");
    }

    proptest! {
        #[test]
        fn nothing_goes_that_is_young_recent_or_not_over(
            rows in proptest::collection::vec((0_usize..3, 0_u64..100, any::<bool>()), 0..30), keep in 0_usize..4, age in 0_u64..100,
        ) {
            let names: [&[u8]; 3] = [b"a", b"b", b"c"];
            let attempts: Vec<Past<'_>> =
                rows.iter().map(|(name, age, over)| Past { branch: Some(names[*name]), age: *age, over: *over }).collect();
            let goes = expendable(&attempts, keep, age);
            for (attempt, goes) in attempts.iter().zip(&goes) {
                prop_assert!(!goes || (attempt.over && attempt.age > age));
            }
            for name in names {
                let of = |wanted: bool| attempts.iter().zip(&goes).filter(move |(past, gone)| past.branch == Some(name) && **gone == wanted).count();
                let all = of(true) + of(false);
                prop_assert!(of(false) >= keep.min(all));
            }
        }
    }
}
