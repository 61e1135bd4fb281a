//! Durations as people type them: `90s`, `5m`, `1h30m`, or a number of seconds.
//!
//! Invariant: a duration that cannot be parsed or overflows is refused, never rounded.

/// The units and their lengths in seconds, the shortest first.
pub(crate) const UNITS: [(char, u64); 5] =
    [('s', 1), ('m', 60), ('h', 3_600), ('d', 86_400), ('w', 7 * 86_400)];

/// The accepted forms, for errors.
pub const FORMS: &str = "90s, 5m, 2h, 14d, 1h30m, or a number of seconds";

/// Parses a duration. Returns seconds.
///
/// Each unit occurs once at most, the longest first. Returns `None` for any other text.
pub fn parse_duration(text: &str) -> Option<u64> {
    let text = text.trim();
    if is_number(text) {
        return text.parse().ok();
    }
    let (mut seconds, mut rest, mut longest) = (0_u64, text, u64::MAX);
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit())?;
        let (digits, after) = rest.split_at(end);
        let unit = after.chars().next()?;
        let (_, length) = UNITS.into_iter().find(|(name, length)| *name == unit && *length < longest)?;
        seconds = digits.parse::<u64>().ok()?.checked_mul(length)?.checked_add(seconds)?;
        (rest, longest) = (&after[1..], length);
    }
    (longest < u64::MAX).then_some(seconds)
}

/// Whether the text is a number without a unit.
pub(crate) fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_parsed_or_refused() {
        for (text, seconds) in [
            ("0", 0),
            ("90", 90),
            (" 7 ", 7),
            ("0s", 0),
            ("90s", 90),
            ("5m", 300),
            ("2h", 7_200),
            ("14d", 1_209_600),
            ("2w", 1_209_600),
            ("1h30m", 5_400),
            ("1d2h3m4s", 93_784),
            ("1h90m", 9_000),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_duration(text), Some(seconds), "{text}");
        }
        for text in [
            "",
            " ",
            "s",
            "-1",
            "+1",
            "-1d",
            "1.5h",
            "1 h",
            "1h 30m",
            "1D",
            "1y",
            "1ss",
            "30m1h",
            "1h1h",
            "1h30",
            "5min",
            "18446744073709551616",
            "99999999999999999w",
            "30500568904943w4d",
            "1ä",
            "ä",
        ] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[0-9smhdwä ]{0,12}") {
            let parsed = parse_duration(&text);
            prop_assert_eq!(parsed.is_some(), parse_duration(&format!(" {text} ")).is_some());
        }
    }
}
