//! The beginning of a program's output: whether it speaks its protocol, and what it printed instead.

use std::time::Duration;

use super::name::{Kind, of_its_own};
use super::turn::Provider;

/// The longest time until the first message of a program that answers a greeting.
const FIRST: Duration = Duration::from_secs(60);

/// The same after a line that is no message: such a line may be a greeting of a wrapper.
const AFTER_LINE: Duration = Duration::from_secs(10);

/// The longest text that is shown of a line, in characters.
const SHOWN: usize = 80;

/// What a program has printed until now.
#[derive(Debug, Default)]
pub(super) struct Opening {
    is_spoken: bool,
    /// Whether its input was closed before its first message, and that came then.
    is_closed: bool,
    waited: bool,
    /// How many lines were no JSON objects, the first of them, and its time.
    foreign: usize,
    first: Option<(String, Duration)>,
}

impl Opening {
    /// Takes a message of the protocol.
    pub(super) fn message(&mut self) {
        self.waited |= self.is_closed && !self.is_spoken;
        self.is_spoken = true;
    }

    /// Whether a program that need not say anything before its answer has not done so.
    pub(super) fn is_silent(&self, kind: Kind) -> bool {
        kind == Kind::Jsonl && !self.is_spoken
    }

    /// Its input is closed.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }

    /// The words about a program that answered only when its input was closed. Empty for any other.
    pub(super) fn waited_words(&self, provider: &Provider) -> String {
        if !self.waited {
            return String::new();
        }
        format!(
            "; it waits for the end of its input, which jsonl keeps open: read one line, or \
             `git config aynig.provider.{}.protocol text`",
            provider.name
        )
    }

    /// Takes a line that is no JSON object.
    pub(super) fn foreign(&mut self, line: &str, at: Duration) {
        self.foreign += 1;
        self.first.get_or_insert_with(|| {
            let line = line.trim();
            let cut = line.char_indices().nth(SHOWN).map(|(end, _)| format!("{}…", &line[..end]));
            (cut.unwrap_or_else(|| line.to_owned()), at)
        });
    }

    /// The end of the wait for the first message, and the length of that wait. `None` once there is one, and for
    /// programs that need not say anything before their answer.
    pub(super) fn deadline(&self, kind: Kind) -> Option<(Duration, Duration)> {
        if self.is_spoken || matches!(kind, Kind::Text | Kind::Jsonl) {
            return None;
        }
        let after = self.first.as_ref().map(|(_, at)| (at.saturating_add(AFTER_LINE), AFTER_LINE));
        Some(after.filter(|(end, _)| *end < FIRST).unwrap_or((FIRST, FIRST)))
    }

    /// The lines that are no messages, and the setting for a program without this protocol. Empty if there is nothing to
    /// show.
    pub(super) fn words(&self, provider: &Provider, is_mute: bool) -> String {
        let lines = match (&self.first, self.foreign) {
            (None, _) => String::new(),
            (Some((first, _)), 1) => format!("; 1 line of its output is no JSON object: {first}"),
            (Some((first, _)), many) => {
                format!("; {many} lines of its output are no JSON objects, the first: {first}")
            }
        };
        let name = &provider.name;
        // First, since texts are cut at their ends.
        let hint = match provider.kind {
            _ if self.is_spoken || (lines.is_empty() && !is_mute) => String::new(),
            Kind::Text => String::new(),
            Kind::Jsonl => format!(
                "; a program that prints plain text needs `git config aynig.provider.{name}.protocol text`"
            ),
            Kind::Claude | Kind::Codex | Kind::Acp => format!("; {}", of_its_own(name)),
        };
        hint + &lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CONTRACT 19.12
    #[test]
    fn the_wait_for_the_first_message_ends() {
        let seconds = Duration::from_secs;
        let mut opening = Opening::default();
        assert_eq!(opening.deadline(Kind::Jsonl), None);
        assert_eq!(opening.deadline(Kind::Acp), Some((seconds(60), seconds(60))));
        opening.foreign("hello", seconds(3));
        opening.foreign("there", seconds(4));
        assert_eq!(opening.deadline(Kind::Acp), Some((seconds(13), seconds(10))));
        let mut late = Opening::default();
        late.foreign("hello", seconds(58));
        assert_eq!(late.deadline(Kind::Claude), Some((seconds(60), seconds(60))));
        opening.message();
        assert_eq!(opening.deadline(Kind::Acp), None);
    }
}
