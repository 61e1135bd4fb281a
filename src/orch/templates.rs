//! Texts of roles that come with the program. A repository's own, in `.aynig/templates/` of the base commit, precede them.

/// The roles that have a text, with that.
pub const SHIPPED: [(&str, &str); 6] = [
    ("implementer", include_str!("templates/implementer.md")),
    ("orchestrator", include_str!("templates/orchestrator.md")),
    ("planner", include_str!("templates/planner.md")),
    ("researcher", include_str!("templates/researcher.md")),
    ("reviewer", include_str!("templates/reviewer.md")),
    ("tester", include_str!("templates/tester.md")),
];

/// The text of a role. `None` if the program has none.
#[must_use]
pub fn shipped(role: &str) -> Option<&'static str> {
    SHIPPED.iter().find(|(name, _)| *name == role).map(|(_, text)| *text)
}

/// Whether a text can be a role: one segment of a path, of letters, digits, `-` and `_`.
#[must_use]
pub fn is_role(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && !text.starts_with('-')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CONTRACT 22.32
    #[test]
    fn each_shipped_text_is_short_and_of_a_role() {
        for (role, text) in SHIPPED {
            assert!(is_role(role) && shipped(role) == Some(text), "{role}");
            assert!(text.ends_with('\n') && (200..1_500).contains(&text.len()), "{role}: {}", text.len());
        }
        assert!(SHIPPED.is_sorted());
        assert_eq!(shipped("pilot"), None);
    }

    #[test]
    fn a_role_is_one_segment_of_a_path() {
        for (text, is) in [
            ("reviewer", true),
            ("Re_view-2", true),
            ("", false),
            ("..", false),
            ("a/b", false),
            ("-a", false),
        ] {
            assert_eq!(is_role(text), is, "{text}");
        }
        assert!(!is_role(&"a".repeat(65)));
    }
}
