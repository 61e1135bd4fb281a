//! What loop safety compares of a turn: calls of tools that failed, and commands that failed when they were last run.
//!
//! Invariant: hashes alone are kept, since arguments and outputs may contain secrets. Numbers in an output do not count:
//! times and counts differ each time.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::event::Event;
use crate::git::objects::digest::short_sha256;
use crate::model::approval::Tool;
use crate::model::trace::FailedCall;

/// The most calls that are open at a time, and the most different ones that failed. Later ones are left out.
const MOST: usize = 4_096;

/// The part of an output that is compared, in bytes: its end.
const COMPARED: usize = 64 * 1024;

/// The arguments that make a call one of a command.
const COMMANDS: [&str; 2] = ["command", "cmd"];

/// A call that has no result yet.
#[derive(Debug)]
struct Call {
    hash: String,
    is_command: bool,
}

/// The failures of a turn.
#[derive(Debug, Default)]
pub(super) struct Tally {
    open: BTreeMap<String, Call>,
    /// How often each call failed.
    failed: BTreeMap<String, usize>,
    /// Commands whose last run failed, with the hash of the result.
    failing: BTreeMap<String, String>,
}

impl Tally {
    pub(super) fn take(&mut self, event: &Event) {
        match event {
            Event::Proposed(tool) if self.open.len() < MOST || self.open.contains_key(&tool.id) => {
                self.open.insert(tool.id.clone(), Call::of(tool));
            }
            Event::Done { id, output, error } => {
                if let Some(call) = self.open.remove(id) {
                    self.ended(call, output.as_ref(), error.as_deref());
                }
            }
            _ => {}
        }
    }

    fn ended(&mut self, call: Call, output: Option<&Value>, error: Option<&str>) {
        let Some(error) = error else {
            self.failing.remove(&call.hash);
            return;
        };
        if self.failed.len() >= MOST && !self.failed.contains_key(&call.hash) {
            return;
        }
        *self.failed.entry(call.hash.clone()).or_default() += 1;
        if call.is_command {
            let result = format!("{error}\n{}", output.map(Value::to_string).unwrap_or_default());
            self.failing.insert(call.hash, short_sha256(without_numbers(&result).as_bytes()));
        }
    }

    /// The call that failed most often.
    pub(super) fn failed_call(&self) -> Option<FailedCall> {
        let (hash, count) = self.failed.iter().max_by_key(|(_, count)| **count)?;
        Some(FailedCall { hash: hash.clone(), count: *count })
    }

    /// The hash of the commands that failed when they were last run, and of their results.
    pub(super) fn verification(&self) -> Option<String> {
        let lines: Vec<String> =
            self.failing.iter().map(|(call, result)| format!("{call} {result}")).collect();
        (!lines.is_empty()).then(|| short_sha256(lines.join("\n").as_bytes()))
    }
}

impl Call {
    fn of(tool: &Tool) -> Self {
        let command = COMMANDS.iter().find_map(|name| tool.args.get(*name));
        // What a program says about a command beside it differs each time.
        let args = command.cloned().unwrap_or_else(|| Value::Object(Map::clone(&tool.args)));
        Self {
            hash: short_sha256(format!("{}\n{args}", tool.name).as_bytes()),
            is_command: command.is_some(),
        }
    }
}

/// The end of a text, with a mark for each number, and one space for other white space.
fn without_numbers(text: &str) -> String {
    let from = text.len().saturating_sub(COMPARED);
    let from = (from..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    let mut plain = String::new();
    for one in text[from..].chars() {
        let (mark, is_run) = match one {
            one if one.is_ascii_digit() => ('#', plain.ends_with('#')),
            one if one.is_whitespace() => (' ', plain.ends_with(' ')),
            one => (one, false),
        };
        if !is_run {
            plain.push(mark);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Calls as `tool argument result`; a result that begins with `!` is a failure.
    fn tally(calls: &[(&str, &str, &str)]) -> Tally {
        let mut tally = Tally::default();
        for (number, (name, argument, result)) in calls.iter().enumerate() {
            let key = if *name == "Bash" { "command" } else { "path" };
            let args =
                Map::from_iter([(key.to_owned(), json!(argument)), ("description".to_owned(), json!("x"))]);
            let id = number.to_string();
            tally.take(&Event::Proposed(Tool::new(id.clone(), *name, args)));
            let error = result.strip_prefix('!').map(str::to_owned);
            tally.take(&Event::Done { id, output: Some(json!(result)), error });
        }
        tally
    }

    #[test]
    fn the_call_that_failed_most_often_is_known() {
        let most = |calls: &[(&str, &str, &str)]| tally(calls).failed_call().map_or(0, |call| call.count);
        assert_eq!(most(&[("Read", "a", "ok")]), 0);
        assert_eq!(most(&[("Read", "a", "!no"), ("Read", "b", "!no"), ("Read", "a", "!other")]), 2);
        assert_eq!(most(&[("Bash", "make", "!1"), ("Bash", "make", "!2"), ("Bash", "make", "ok")]), 2);
    }

    #[test]
    fn verification_is_what_failed_when_it_was_last_run() {
        let hash = |calls: &[(&str, &str, &str)]| tally(calls).verification();
        let failing = hash(&[("Bash", "make test", "!2 of 9 failed in 0.41s: a, b")]);
        assert!(failing.is_some());
        for (calls, is_equal) in [
            (&[("Bash", "make test", "!2 of 9 failed in 12.5s: a, b")][..], true),
            (&[("Bash", "ls", "ok"), ("Bash", "make test", "!2 of 9 failed in 0.41s: a, b")], true),
            (&[("Bash", "make test", "!x"), ("Bash", "make test", "!2 of 9 failed in 0.41s: a, b")], true),
            (&[("Bash", "make test", "!2 of 9 failed in 0.41s: a, c")], false),
            (&[("Bash", "make check", "!2 of 9 failed in 0.41s: a, b")], false),
        ] {
            assert_eq!(hash(calls) == failing, is_equal, "{calls:?}");
        }
        for calls in [
            &[("Bash", "make test", "!2 failed"), ("Bash", "make test", "ok")][..],
            &[("Read", "a", "!no")],
            &[],
        ] {
            assert_eq!(hash(calls), None, "{calls:?}");
        }
    }

    #[test]
    fn a_result_without_a_call_is_left_out() {
        let mut tally = Tally::default();
        let error = Some("no".to_owned());
        tally.take(&Event::Done { id: "1".to_owned(), output: None, error });
        assert!(tally.failed_call().is_none() && tally.verification().is_none());
    }
}
