//! The versions of programs that are known to work.
//!
//! Why bounds: these programs change weekly, and their protocols with them. Another version may work; a check tells.

use std::cmp::Ordering;

use super::name::Kind;
use super::turn::Provider;

/// The oldest and the newest version that is known to work, as the program prints it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The oldest.
    pub oldest: &'static str,
    /// The newest.
    pub newest: &'static str,
}

/// A version in relation to the bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It is within them.
    Known,
    /// It is older.
    Older,
    /// It is newer.
    Newer,
}

impl Standing {
    /// The word in JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Known => "known",
            Self::Older => "older",
            Self::Newer => "newer",
        }
    }
}

/// Programs by their names, with the bounds.
const KNOWN: [(&str, Bounds); 6] = [
    ("claude", Bounds { oldest: "2.1.330", newest: "2.1.330" }),
    ("codex", Bounds { oldest: "0.169.0", newest: "0.169.0" }),
    ("gemini", Bounds { oldest: "0.61.0", newest: "0.61.0" }),
    ("opencode", Bounds { oldest: "1.18.33", newest: "1.18.33" }),
    ("claude-agent-acp", Bounds { oldest: "0.100.0", newest: "0.100.0" }),
    ("codex-acp", Bounds { oldest: "2.6.0", newest: "2.6.0" }),
];

/// The bounds of a provider's program. An agent of the Agent Client Protocol is known by the name of its program.
#[must_use]
pub fn bounds(provider: &Provider) -> Option<Bounds> {
    let file = provider.command.file_name().map(|name| name.to_string_lossy());
    let name = match provider.kind {
        Kind::Text | Kind::Jsonl => return None,
        Kind::Claude => "claude",
        Kind::Codex => "codex",
        Kind::Acp => file.as_deref()?,
    };
    KNOWN.iter().find(|(known, _)| *known == name).map(|(_, bounds)| *bounds)
}

/// Compares what a program printed of its version. `None` if there is no version in it.
#[must_use]
pub fn standing(bounds: Bounds, printed: &str) -> Option<Standing> {
    let version = numbers(printed)?;
    let is = |bound: &str| numbers(bound).map(|bound| version.cmp(&bound));
    Some(match (is(bounds.oldest)?, is(bounds.newest)?) {
        (Ordering::Less, _) => Standing::Older,
        (_, Ordering::Greater) => Standing::Newer,
        _ => Standing::Known,
    })
}

/// The numbers of the first word that looks like a version. A suffix such as `-nightly` is left out.
fn numbers(text: &str) -> Option<Vec<u64>> {
    text.split_whitespace().find_map(|word| {
        let word = word.trim_start_matches(['v', 'V', '(']);
        let end = word.find(|char: char| !char.is_ascii_digit() && char != '.').unwrap_or(word.len());
        let parts = word[..end].trim_end_matches('.').split('.');
        let numbers: Option<Vec<u64>> = parts.map(|part| part.parse().ok()).collect();
        numbers.filter(|numbers| numbers.len() > 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CONTRACT 19.11
    #[test]
    fn versions_are_compared_by_their_numbers() {
        let bounds = Bounds { oldest: "0.61.0", newest: "1.2.30" };
        for (printed, wanted) in [
            ("0.61.0", Some(Standing::Known)),
            ("codex-cli 1.2.30", Some(Standing::Known)),
            ("v1.2.4-nightly.7", Some(Standing::Known)),
            ("1.2.100 (Claude Code)", Some(Standing::Newer)),
            ("10.0", Some(Standing::Newer)),
            ("0.9.100", Some(Standing::Older)),
            ("agent 7 (0.60)", Some(Standing::Older)),
            ("unknown", None),
            ("7", None),
            ("", None),
            ("99999999999999999999.1", None),
        ] {
            assert_eq!(standing(bounds, printed), wanted, "{printed}");
        }
    }

    #[test]
    fn bounds_are_versions_in_their_order() {
        for (name, bounds) in KNOWN {
            let (oldest, newest) = (numbers(bounds.oldest), numbers(bounds.newest));
            assert!(oldest.is_some() && oldest <= newest, "{name}");
        }
    }
}
