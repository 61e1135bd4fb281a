//! The runner: from a scan of HEADs to settled branches.
//!
//! ```text
//! scan ─▶ claim ─▶ dispatch ─▶ step (worktree, launch, supervise; beside it keeper) ─▶ settle
//!   └────▶ recover (expired leases, worktrees whose runner is gone)
//! ```
//!
//! Each stage consumes the value of the one before: only [`claim`] makes a [`claim::Claim`], only [`settle`] takes
//! it, by value. All moves of a branch go through [`arbiter`]. What a HEAD, an exit or a line means is decided in
//! [`crate::contract`]; what is worth telling leaves as [`notice::Notice`] and is put into words elsewhere, or into the
//! hands of the operator's own program ([`notifier`]). The runner knows states, leases and commands, and nothing of what a workflow means by them.

pub mod arbiter;
pub mod attempt;
pub mod claim;
pub mod clean;
pub mod commands;
pub mod dispatch;
pub mod finished;
pub mod ground;
pub mod heartbeat;
pub mod keeper;
pub mod launch;
pub mod memory;
pub mod notice;
pub mod notification;
pub mod notifier;
pub mod observe;
pub mod options;
pub mod pass;
pub mod patience;
pub mod pushes;
pub mod ready;
pub mod recover;
pub mod resolve;
pub mod scan;
pub mod settle;
pub mod step;
pub mod trust;
pub mod watch;

use crate::git::Store;
use crate::stop::Stop;
use crate::supervise::Watchdog;

/// What all stages of a run share.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The repository; each thread takes its own handle.
    pub store: &'a Store,
    /// Who decides races.
    pub arbiter: &'a arbiter::Arbiter,
    /// The settings.
    pub options: &'a options::Options,
    /// Whether we were asked to stop.
    pub shutdown: &'a Stop,
    /// Ends the commands if this process is killed.
    pub watchdog: &'a Watchdog,
    /// Where notices go.
    pub tell: notice::Listener<'a>,
}

impl std::fmt::Debug for Context<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Context").field("options", &self.options).finish_non_exhaustive()
    }
}

/// An error and its causes on one line.
pub fn error_words(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let text = error.to_string();
        if !words.ends_with(&text) {
            words.push_str(": ");
            words.push_str(&text);
        }
        next = error.source();
    }
    words
}

/// A word as it is typed in a shell: names of branches and files may hold what a shell acts on.
pub fn typed(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./@%+=:,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// The call that shows what a rescue ref saved. Where something was staged that is a merge, and must be told which side to compare with.
pub fn shows_rescued(reference: &str) -> String {
    format!("git show --first-parent {}", typed(reference))
}

/// So many of something, in words: `1 branch`, `2 branches`.
pub fn counted(count: usize, noun: &str) -> String {
    let end = match noun {
        _ if count == 1 => "",
        _ if noun.ends_with(['s', 'x']) || noun.ends_with("ch") || noun.ends_with("sh") => "es",
        _ => "s",
    };
    format!("{count} {noun}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plurals() {
        for (count, noun, words) in [
            (0, "branch", "0 branches"),
            (1, "branch", "1 branch"),
            (2, "branch", "2 branches"),
            (1, "commit", "1 commit"),
            (7, "commit", "7 commits"),
            (2, "pass", "2 passes"),
        ] {
            assert_eq!(counted(count, noun), words);
        }
    }

    #[test]
    fn commands_to_type_are_safe() {
        assert_eq!(typed("feat/a-1"), "feat/a-1");
        assert_eq!(typed("a;rm $HOME"), "'a;rm $HOME'");
        assert_eq!(typed("it's"), "'it'\\''s'");
        assert_eq!(typed(""), "''");
    }
}
