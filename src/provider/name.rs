//! The names of providers, and the kinds of programs.

use crate::model::ids::ProviderName;

/// The name of a provider on this host. `claude-code` means `claude`. `None` if it is none.
#[must_use]
pub fn named(text: &str) -> Option<ProviderName> {
    let text = if text == "claude-code" { "claude" } else { text };
    ProviderName::parse(text).ok()
}

/// The setting for a program that does not speak the protocol of its provider's kind.
#[must_use]
pub fn of_its_own(name: &ProviderName) -> String {
    format!("a program of your own needs `git config aynig.provider.{name}.kind custom`")
}

/// The language that a provider's program speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The prompt on stdin; everything printed is the answer, and the exit code decides.
    Text,
    /// One JSON object a line, in the vocabulary of runs.
    Jsonl,
    /// Claude Code, by its control protocol.
    Claude,
    /// Codex, by its app-server.
    Codex,
    /// Any agent of the Agent Client Protocol.
    Acp,
}

impl Kind {
    /// The kind in the configuration: `aynig.provider.<name>.kind`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Text | Self::Jsonl => "custom",
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Acp => "acp",
        }
    }

    /// The protocol in the configuration: `aynig.provider.<name>.protocol`. `None` if the kind has one only.
    #[must_use]
    pub fn protocol(self) -> Option<&'static str> {
        match self {
            Self::Text => Some("text"),
            Self::Jsonl => Some("jsonl"),
            Self::Claude | Self::Codex | Self::Acp => None,
        }
    }

    /// Whether tokens of a turn are reported. A text says nothing about them.
    #[must_use]
    pub fn reports_tokens(self) -> bool {
        self != Self::Text
    }

    /// Whether the cost of a turn is reported, at least by some programs of this kind.
    #[must_use]
    pub fn reports_cost(self) -> bool {
        !matches!(self, Self::Text | Self::Codex)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CONTRACT 19.1
    #[test]
    fn names() {
        let name = |text| named(text).map(|name| name.as_str().to_owned());
        assert_eq!(name("claude-code").as_deref(), Some("claude"));
        assert_eq!(name("my-agent-2").as_deref(), Some("my-agent-2"));
        let longest = "a".repeat(32);
        assert_eq!(name(&longest), Some(longest.clone()));
        let long = "a".repeat(33);
        for wrong in ["", "-a", "Claude", "a b", "a/b", "ä", &long] {
            assert_eq!(name(wrong), None, "{wrong:?}");
        }
    }
}
