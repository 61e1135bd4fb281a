//! Tokens and cost, and their sums.

use serde::{Deserialize, Serialize};

/// Tokens and cost, as providers report them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// Tokens that were sent.
    pub prompt_tokens: u64,
    /// Tokens that came back.
    pub completion_tokens: u64,
    /// Their sum, as it is reported.
    pub total_tokens: u64,
    /// The cost in US dollars. `None` if it was never reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

/// The most tokens and US dollars of one turn that are believed.
const MOST_USED: (u64, f64) = (1_000_000_000_000, 1_000_000.0);

impl Usage {
    /// Whether a turn may have used this much. A negative cost would let a run go beyond its limit.
    #[must_use]
    pub fn is_sensible(&self) -> bool {
        let (tokens, cost) = MOST_USED;
        [self.prompt_tokens, self.completion_tokens, self.total_tokens].iter().all(|count| *count <= tokens)
            && self.cost_usd.is_none_or(|found| (0.0..=cost).contains(&found))
    }

    /// The sum of two. Token counts stop at the largest number.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            prompt_tokens: self.prompt_tokens.saturating_add(other.prompt_tokens),
            completion_tokens: self.completion_tokens.saturating_add(other.completion_tokens),
            total_tokens: self.total_tokens.saturating_add(other.total_tokens),
            cost_usd: match (self.cost_usd, other.cost_usd) {
                (None, None) => None,
                (one, two) => Some(one.unwrap_or(0.0) + two.unwrap_or(0.0)),
            },
        }
    }
}
