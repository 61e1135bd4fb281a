//! The names of providers, and the kinds of programs.

use std::fmt;

use serde::Serialize;

/// The longest name.
const LONGEST: usize = 32;

/// The name of a provider on this host: `[a-z0-9-]{1,32}`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct ProviderName(String);

impl ProviderName {
    /// Reads a name. `claude-code` means `claude`. `None` if it is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = if text == "claude-code" { "claude" } else { text };
        let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let fits = (1..=LONGEST).contains(&text.len()) && text.bytes().all(is_part);
        fits.then(|| Self(text.to_owned()))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ProviderName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
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
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CONTRACT 19.1
    #[test]
    fn names() {
        let name = |text| ProviderName::parse(text).map(|name| name.as_str().to_owned());
        assert_eq!(name("claude-code").as_deref(), Some("claude"));
        assert_eq!(name("my-agent-2").as_deref(), Some("my-agent-2"));
        let longest = "a".repeat(32);
        assert_eq!(name(&longest), Some(longest.clone()));
        let long = "a".repeat(33);
        for wrong in ["", "Claude", "a b", "a/b", "ä", &long] {
            assert_eq!(name(wrong), None, "{wrong:?}");
        }
    }
}
