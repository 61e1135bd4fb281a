//! Masks secrets: what is never written into a ledger or a journal (CONTRACT 16.5).
//!
//! Secrets are the values of the environment variables that `aynig.secrets` names, and what the regular expressions in
//! `.aynig/redact` of the base commit match.
//!
//! Invariant: what cannot be masked is not written. A file that cannot be read, or a wrong expression, is an error.

use std::time::Duration;

use bstr::ByteSlice;
use regex_automata::meta::{Config, Regex};
use regex_automata::util::syntax;
use serde_json::Value;

use super::error::LedgerError;
use super::place::Place;
use crate::clock::Stopwatch;
use crate::contract::ids::CommitId;
use crate::git::Repo;
use crate::model::approval::MASK;
use crate::model::decide::texts::{MAX_TEXT, change_value, cut};
use crate::model::decide::{Command, NewRun};
use crate::model::run::Replicate;

/// The shortest value that is masked, in bytes. A shorter one would be found in any text.
const SHORTEST: usize = 4;

/// The file with expressions, in the tree of the base commit.
pub const FILE: &str = ".aynig/redact";

/// The longest file with expressions, in bytes.
const MAX_FILE: u64 = 64 * 1024;

/// The most memory of all expressions of a file, in bytes.
const MAX_EXPRESSIONS: usize = 1024 * 1024;

/// How long the search for expressions in one text may take.
const BUDGET: Duration = Duration::from_secs(10);

/// The fields of an event that are ids, times and words of the contract.
const ENVELOPE: [&str; 6] = ["id", "runId", "ts", "type", "nodeId", "by"];

/// What is masked.
#[derive(Debug, Clone, Default)]
pub struct Masks {
    /// Longest first, so that none hides a part of another.
    values: Vec<String>,
    expressions: Option<Regex>,
}

impl Masks {
    /// The masks of a run with this base. A base of zeros is none: the expressions are then left out.
    ///
    /// # Errors
    /// [`LedgerError::Masks`] if the expressions cannot be read, or one of them is wrong.
    pub fn of(repo: &Repo, base: &str) -> Result<Self, LedgerError> {
        let settings = repo.settings("aynig").into_iter();
        let named = settings.filter(|one| one.name.eq_ignore_ascii_case("secrets"));
        let names = named.filter_map(|one| one.value);
        let values = names.filter_map(|name| std::env::var(name.trim()).ok()).collect();
        let text = if has_base(base) { read(repo, base)? } else { String::new() };
        Self::new(values, &text)
    }

    /// Masks for these values, and for what the expressions match: one a line, without empty lines and those that begin
    /// with `#`.
    ///
    /// # Errors
    /// [`LedgerError::Masks`] if an expression is wrong.
    pub fn new(values: Vec<String>, expressions: &str) -> Result<Self, LedgerError> {
        let mut all: Vec<String> = values
            .iter()
            // A key of several lines may be shown line by line.
            .flat_map(|value| std::iter::once(value.as_str()).chain(value.lines()))
            .map(str::trim)
            .filter(|value| value.len() >= SHORTEST)
            .map(str::to_owned)
            .collect();
        all.sort_by(|one, other| other.len().cmp(&one.len()).then(one.cmp(other)));
        all.dedup();
        let lines = expressions.lines().map(str::trim);
        let lines: Vec<&str> = lines.filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
        let expressions = (!lines.is_empty()).then(|| compile(&lines)).transpose()?;
        Ok(Self { values: all, expressions })
    }

    /// Whether nothing is masked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty() && self.expressions.is_none()
    }

    /// Masks a text.
    pub fn text(&self, text: &mut String) {
        if let Some(masked) = self.bytes(text.as_bytes()) {
            // An expression may match a part of a character.
            *text = masked.to_str_lossy().into_owned();
        }
    }

    /// Masks bytes that need not be UTF-8, such as what a program printed. `None` if nothing in them is a secret.
    #[must_use]
    pub fn bytes(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        self.bytes_within(bytes, BUDGET)
    }

    /// Each search is linear in the rest of the text, so many of them are quadratic. Beyond `budget` the whole text is
    /// masked, since a step must end and a secret must not be written.
    fn bytes_within(&self, bytes: &[u8], budget: Duration) -> Option<Vec<u8>> {
        let mut masked: Option<Vec<u8>> = None;
        for value in &self.values {
            let now = masked.as_deref().unwrap_or(bytes);
            if now.contains_str(value) {
                masked = Some(now.replace(value, MASK));
            }
        }
        let now = masked.as_deref().unwrap_or(bytes);
        let Some(expressions) = self.expressions.as_ref().filter(|all| all.is_match(now)) else {
            return masked;
        };
        let (mut rest, mut done) = (Vec::with_capacity(now.len()), 0);
        let watch = Stopwatch::start();
        // Empty matches are not masked, but take time as well.
        for found in expressions.find_iter(now) {
            if watch.elapsed() >= budget {
                let (size, seconds) = (now.len(), budget.as_secs());
                tracing::warn!(
                    "the expressions in {FILE} took over {seconds} seconds for a text of {size} bytes; all of it is masked"
                );
                return Some(MASK.as_bytes().to_vec());
            }
            if found.is_empty() {
                continue;
            }
            rest.extend_from_slice(&now[done..found.start()]);
            rest.extend_from_slice(MASK.as_bytes());
            done = found.end();
        }
        rest.extend_from_slice(&now[done..]);
        Some(rest)
    }

    /// Masks the free texts of a new run.
    #[must_use]
    pub fn new_run(&self, new: &NewRun) -> NewRun {
        let mut new = new.clone();
        new.change_texts(&|text| self.text(text));
        new
    }

    /// Masks the free texts of commands, and cuts those off that are too long for an event.
    #[must_use]
    pub fn commands(&self, commands: &[Command]) -> Vec<Command> {
        let mut commands = commands.to_vec();
        let change = |text: &mut String| {
            self.text(text);
            cut(text, MAX_TEXT);
        };
        commands.iter_mut().for_each(|command| command.change_texts(&change));
        commands
    }

    /// Masks an event that is no event of record: a JSON object on one line. Its envelope stays. A line that is no
    /// object is masked as a text.
    #[must_use]
    pub fn line(&self, line: &[u8]) -> Vec<u8> {
        match serde_json::from_slice(line) {
            Ok(Value::Object(mut event)) => {
                let body = event.iter_mut().filter(|(key, _)| !ENVELOPE.contains(&key.as_str()));
                body.for_each(|(_, value)| change_value(value, &|text| self.text(text)));
                // A value has string keys and no failing parts.
                serde_json::to_vec(&event).unwrap_or_default()
            }
            Ok(_) | Err(_) => self.content(line),
        }
    }

    /// Masks the content of an artifact. One that is not UTF-8 stays: no text of it is shown.
    #[must_use]
    pub fn content(&self, content: &[u8]) -> Vec<u8> {
        let Ok(mut text) = content.to_str().map(str::to_owned) else { return content.to_vec() };
        self.text(&mut text);
        text.into_bytes()
    }
}

/// How much of a new run is replicated: `aynig.replicate`, else all where this repository decides, and a summary where a
/// remote does.
///
/// # Errors
/// [`LedgerError::Masks`] if the setting is none of the words, or keeps a run here that a remote is to decide.
pub fn replicate(repo: &Repo, place: &Place) -> Result<Replicate, LedgerError> {
    let remote = *place != Place::Here;
    let Some(text) = repo.config("aynig.replicate") else {
        return Ok(if remote { Replicate::Summary } else { Replicate::All });
    };
    match Replicate::parse(&text) {
        Some(Replicate::None) if remote => Err(LedgerError::Masks(
            "aynig.replicate = none keeps runs in this repository, and a remote was to decide this one: make it \
             without a remote"
                .to_owned(),
        )),
        Some(replicate) => Ok(replicate),
        None => Err(LedgerError::Masks(format!("aynig.replicate = {text}: write all, summary or none"))),
    }
}

/// Whether a run has this base: one of zeros is none.
pub(super) fn has_base(base: &str) -> bool {
    base.bytes().any(|byte| byte != b'0')
}

/// The file with expressions of a commit. Empty if there is none.
fn read(repo: &Repo, base: &str) -> Result<String, LedgerError> {
    let failed = |why: String| LedgerError::Masks(format!("{FILE} of the base commit {base}: {why}"));
    let id = CommitId::parse_hex(base.as_bytes()).ok_or_else(|| failed("it is no commit".to_owned()))?;
    let tree = repo.commit(id).map_err(|error| failed(format!("{error}; fetch it")))?.tree;
    let found = repo.file_at(tree, FILE).map_err(|error| failed(error.to_string()))?;
    let Some(blob) = found else { return Ok(String::new()) };
    let content = repo.read_blob(&blob, MAX_FILE).map_err(|error| failed(error.to_string()))?;
    String::from_utf8(content).map_err(|_| failed("it is not UTF-8".to_owned()))
}

/// Compiles expressions. Each is tried alone first, so that the wrong one is named.
fn compile(lines: &[&str]) -> Result<Regex, LedgerError> {
    // Without Unicode, whose tables are large: classes such as `\d` are ASCII. Time is linear in the text.
    let mut builder = Regex::builder();
    builder
        .syntax(syntax::Config::new().unicode(false).utf8(false))
        .configure(Config::new().utf8_empty(false).nfa_size_limit(Some(MAX_EXPRESSIONS)));
    for line in lines {
        builder.build(line).map_err(|error| {
            // The last line says what is wrong; those above it draw the place.
            let why = error.syntax_error().map_or_else(|| error.to_string(), ToString::to_string);
            let why = why.lines().last().unwrap_or_default();
            LedgerError::Masks(format!("{FILE}: {line:?} is no usable regular expression: {why}"))
        })?;
    }
    builder.build_many(lines).map_err(|error| LedgerError::Masks(format!("{FILE}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(values: &[&str], expressions: &str, text: &str) -> String {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        let mut text = text.to_owned();
        Masks::new(values, expressions).expect("right expressions").text(&mut text);
        text
    }

    /// CONTRACT 16.5
    #[test]
    fn texts_are_masked() {
        let rows: [(&[&str], &str, &str, &str); 11] = [
            (&[], "", "nothing to mask", "nothing to mask"),
            (&["s3cret"], "", "a s3cret, twice: s3cret", "a ***, twice: ***"),
            (&["abc"], "", "too short: abc", "too short: abc"),
            (&["word", "password"], "", "password word", "*** ***"),
            (&["line one\nline two\n"], "", "line two", "***"),
            (&[], "tok-[a-z0-9]+", "a tok-12ab.", "a ***."),
            (&[], "# a comment\n\n  tok-\\d+  \nkey=\\w+", "tok-1 key=abc tok-x", "*** *** tok-x"),
            (&[], "(?i)bearer [^ ]+", "BEARER abc def", "*** def"),
            (&[], "x*", "axxb", "a***b"),
            (&[], "é", "café", "caf***"),
            (&["tok-"], "tok-\\d+", "tok-12", "***12"),
        ];
        for (values, expressions, text, wanted) in rows {
            assert_eq!(masked(values, expressions, text), wanted, "{values:?} {expressions:?}");
        }
    }

    /// CONTRACT 16.5
    #[test]
    fn a_wrong_expression_is_named() {
        for (text, named) in [("ok\n(", "\"(\""), ("a{1000}{1000}{1000}", "a{1000}")] {
            let error = Masks::new(Vec::new(), text).expect_err(text).to_string();
            assert!(error.contains(named) && error.contains(FILE), "{error}");
        }
    }

    /// CONTRACT 16.5
    #[test]
    fn a_text_that_takes_too_long_is_masked_as_a_whole() {
        let masks = Masks::new(vec!["s3cret".to_owned()], "Q.*[^Q\\n]|Q").expect("right expressions");
        let within = |text: &str, budget| masks.bytes_within(text.as_bytes(), budget);
        let line = "Q".repeat(300_000);
        assert_eq!(within(&line, Duration::from_millis(50)).as_deref(), Some(MASK.as_bytes()));
        assert_eq!(within("a Q, s3cret", Duration::ZERO).as_deref(), Some(MASK.as_bytes()));
        assert_eq!(within("a s3cret", Duration::ZERO).as_deref(), Some(&b"a ***"[..]), "no search is long");
        assert_eq!(within("QQ\n", BUDGET).as_deref(), Some(&b"******\n"[..]));
    }

    #[test]
    fn the_envelope_of_an_event_stays() {
        let masks = Masks::new(vec!["same".to_owned()], "").expect("no expression");
        let line =
            br#"{"id":"same","runId":"same","type":"same","text":"so same","deep":[{"same":"same"}],"n":1}"#;
        let wanted =
            r#"{"id":"same","runId":"same","type":"same","text":"so ***","deep":[{"***":"***"}],"n":1}"#;
        assert_eq!(masks.line(line), wanted.as_bytes());
        assert_eq!(masks.line(b"no JSON, same"), b"no JSON, ***");
        assert_eq!(masks.content(b"\xff same"), b"\xff same");
        assert_eq!(masks.bytes(b"\xff same").as_deref(), Some(&b"\xff ***"[..]));
        assert_eq!(masks.bytes(b"\xff other"), None);
    }
}
