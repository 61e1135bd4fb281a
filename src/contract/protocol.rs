//! The output protocol: `SET_STATE` lines on a command's standard output (section 4 of
//! CONTRACT.md).
//!
//! Invariant: a [`Declaration`] can always be written as a commit, because that is tried here. A
//! line that cannot is malformed: a warning, and no effect. Memory is bounded whatever a command
//! prints. `settlement` decides whether the declaration is carried out.

use serde_json::{Map, Value};

use super::alike::nearest;
use super::carried::{Ask, KeepTrailers};
use super::commits::advance_draft;
use super::declaration::{Declaration, Declared};
use super::ids::StateName;
use super::lease::MAX_LEASE_SECONDS;
use super::report::{MAX_LINE_CHARS, is_invisible_order, plain_line};
use super::trailers::{Trailer, Trailers, is_runner_managed, is_valid_key, trim};
use super::unable::reason;

/// The first word of a protocol line; one space and a JSON object follow.
pub(crate) const PROTOCOL_WORD: &str = "SET_STATE";

/// The longest protocol line in bytes, without its line end.
pub(crate) const MAX_LINE_BYTES: usize = 1024 * 1024;

/// The fields of a declaration.
const FIELDS: [&str; 8] =
    ["state", "subject", "body", "lease_seconds", "keep_body", "keep_trailers", "trailers", UNABLE];

/// The field that hands the request back. It stands alone.
const UNABLE: &str = "unable";

/// Names, in a declared commit, fields of the declaration that nothing reads.
const MISSPELT_KEY: &str = "aynig-misspelt-fields";

/// How many of them are named.
const MAX_NAMED: usize = 5;

/// How many malformed lines are kept with their reasons; the rest are only counted.
pub(crate) const MAX_MALFORMED_KEPT: usize = 20;

/// The meaning of one line of standard output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LineVerdict {
    /// Ordinary output.
    NotProtocol,
    /// A declaration that can be carried out.
    Declared(Declared),
    /// A protocol line that breaks a rule, with the reason (lower case, no full stop).
    Malformed(String),
}

/// Why a `key: value` text is not a trailer a user may set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrailerArgError {
    /// There is no colon.
    #[error("trailer {text:?} has no colon; write it as \"key: value\"")]
    NoColon {
        /// The text.
        text: String,
    },
    /// Git would not read the key.
    #[error("trailer key {key:?} is not allowed; use letters, digits and dashes")]
    BadKey {
        /// The key.
        key: String,
    },
    /// The key is one of [`super::trailers::RUNNER_MANAGED`].
    #[error("trailer key {key:?} is written by the runner only; choose another key")]
    RunnerManaged {
        /// The key as given.
        key: String,
    },
}

/// Parses `key: value` as given by a user; both sides are trimmed. A line break in the value is
/// refused later, when the commit is composed.
///
/// # Errors
/// [`TrailerArgError`] if the text has another form or the key is runner-managed.
pub fn parse_trailer_arg(text: &str) -> Result<Trailer, TrailerArgError> {
    let Some((key, value)) = text.split_once(':') else {
        return Err(TrailerArgError::NoColon { text: String::from(text) });
    };
    user_trailer(key, value)
}

fn user_trailer(key: &str, value: &str) -> Result<Trailer, TrailerArgError> {
    let name = trim(key.as_bytes());
    let shown = || String::from(key.trim());
    if !is_valid_key(name) {
        Err(TrailerArgError::BadKey { key: shown() })
    } else if is_runner_managed(name) {
        Err(TrailerArgError::RunnerManaged { key: shown() })
    } else {
        Ok(Trailer::new(name, trim(value.as_bytes())))
    }
}

/// Returns the line that makes this declaration, without its line end. Control and invisible characters are
/// escaped, so that the line is harmless on a terminal and in a log.
///
/// # Errors
/// The reason why the runner would refuse it.
pub fn line(declared: &Declared) -> Result<String, String> {
    let fields = match declared {
        Declared::Next(declaration) => next_fields(declaration),
        Declared::Unable(why) => Map::from_iter([(UNABLE.to_owned(), Value::from(why.as_str()))]),
    };
    let mut line = format!("{PROTOCOL_WORD} ");
    for c in Value::Object(fields).to_string().chars() {
        if c.is_control() || is_invisible_order(c) {
            line.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            line.push(c);
        }
    }
    match judge_line(line.as_bytes()) {
        LineVerdict::Declared(_) => Ok(line),
        LineVerdict::Malformed(reason) => Err(reason),
        LineVerdict::NotProtocol => Err(String::from("it is no protocol line")),
    }
}

fn next_fields(declaration: &Declaration) -> Map<String, Value> {
    let mut fields = Map::new();
    let mut set = |name: &str, value: Value| fields.insert(name.to_owned(), value);
    set("state", declaration.state.as_str().into());
    declaration.subject.iter().for_each(|subject| drop(set("subject", subject.as_str().into())));
    declaration.body.iter().for_each(|body| drop(set("body", body.as_str().into())));
    declaration.lease_seconds.iter().for_each(|seconds| drop(set("lease_seconds", (*seconds).into())));
    if declaration.keep_body {
        set("keep_body", true.into());
    }
    match declaration.keep_trailers {
        KeepTrailers::None => None,
        KeepTrailers::Dwp => set("keep_trailers", true.into()),
        KeepTrailers::All => set("keep_trailers", ALL.into()),
    };
    if !declaration.trailers.is_empty() {
        let text = |trailer: &Trailer| Value::from(format!("{}: {}", trailer.key, trailer.value));
        set("trailers", declaration.trailers.iter().map(text).collect());
    }
    fields
}

/// Judges one line of standard output, with or without its end (LF or CRLF).
pub(crate) fn judge_line(line: &[u8]) -> LineVerdict {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if !may_be_protocol(line) {
        return LineVerdict::NotProtocol;
    }
    if line.len() > MAX_LINE_BYTES {
        return LineVerdict::Malformed(String::from(TOO_LONG));
    }
    match declared(&line[PROTOCOL_WORD.len()..]) {
        Ok(declared) => LineVerdict::Declared(declared),
        Err(reason) => LineVerdict::Malformed(reason),
    }
}

/// The value of `keep_trailers` that keeps every trailer.
const ALL: &str = "all";

const TOO_LONG: &str = "the line is longer than 1 MiB; put long text into a file of the worktree";

/// Whether a line, or the beginning of one, is meant as protocol. A longer word is ordinary output.
/// The usual slips (no space, a colon) count as protocol, so that their author gets a warning.
fn may_be_protocol(line: &[u8]) -> bool {
    line.strip_prefix(PROTOCOL_WORD.as_bytes())
        .is_some_and(|rest| rest.first().is_none_or(|next| b" \t\r{:=".contains(next)))
}

fn declared(rest: &[u8]) -> Result<Declared, String> {
    let Some(payload) = rest.strip_prefix(b" ") else {
        return Err(String::from("SET_STATE is to be followed by one space and a JSON object"));
    };
    let value: Value = serde_json::from_slice(payload)
        .map_err(|error| format!("the payload is not JSON on one line: {error}"))?;
    let Value::Object(fields) = value else {
        return Err(format!("the payload is {}, not an object", kind(&value)));
    };
    if let Some(why) = text(&fields, UNABLE)? {
        return unable(&fields, &why).map(Declared::Unable);
    }
    declaration(&fields).map(Declared::Next)
}

fn unable(fields: &Map<String, Value>, why: &str) -> Result<String, String> {
    let others = fields.keys().filter(|name| *name != UNABLE && FIELDS.contains(&name.as_str()));
    if let Some(other) = others.into_iter().find(|name| field(fields, name).is_some()) {
        return Err(format!(
            "\"unable\" hands the request back as it is, so {other:?} cannot stand beside it"
        ));
    }
    reason(why).ok_or_else(|| String::from("\"unable\" is empty; say why this host cannot do it"))
}

fn declaration(fields: &Map<String, Value>) -> Result<Declaration, String> {
    let mut trailers = trailers(fields)?;
    trailers.extend(misspelt(fields));
    let declaration = Declaration {
        state: state(fields)?,
        subject: text(fields, "subject")?.filter(|subject| !subject.trim().is_empty()),
        body: text(fields, "body")?,
        lease_seconds: lease_seconds(fields)?,
        keep_body: flag(fields, "keep_body")?,
        keep_trailers: keep_trailers(fields)?,
        trailers,
    };
    // A declaration that cannot be written is reported now, not when the command has ended and its
    // work waits to be landed.
    let nothing = Ask::default();
    advance_draft(&declaration, &Trailers::new(), &nothing, None)
        .encode()
        .map_err(|error| error.to_string())?;
    Ok(declaration)
}

/// Names the fields that nothing reads and that are probably misspelt, each with the one that was meant.
fn misspelt(fields: &Map<String, Value>) -> Option<Trailer> {
    let unread = fields.iter().filter(|(_, value)| !value.is_null());
    let near = unread.filter_map(|(name, _)| Some((name, nearest(name, FIELDS)?)));
    let legible = |c: char| if c.is_ascii_alphanumeric() || "_-.".contains(c) { c } else { '?' };
    let names: Vec<String> = near
        .take(MAX_NAMED)
        .map(|(name, near)| format!("{} ({near}?)", name.chars().map(legible).collect::<String>()))
        .collect();
    (!names.is_empty()).then(|| Trailer::new(MISSPELT_KEY, names.join(", ")))
}

/// The fields of its declaration that a commit says nothing read, in words.
pub fn misspelt_fields(trailers: &Trailers) -> Option<String> {
    let names = plain_line(trailers.last(MISSPELT_KEY)?, MAX_LINE_CHARS);
    Some(format!("its SET_STATE has fields that nothing reads: {names}"))
}

fn field<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    fields.get(name).filter(|value| !value.is_null())
}

fn state(fields: &Map<String, Value>) -> Result<StateName, String> {
    let Some(name) = text(fields, "state")? else { return Err(String::from("\"state\" is missing")) };
    let state = StateName::parse(&name).map_err(|error| error.to_string())?;
    if state.is_working() {
        return Err(String::from("\"state\" is \"working\", which only the runner may set"));
    }
    Ok(state)
}

fn text(fields: &Map<String, Value>, name: &str) -> Result<Option<String>, String> {
    match field(fields, name) {
        None => Ok(None),
        Some(value) => match value.as_str() {
            Some(text) => Ok(Some(String::from(text))),
            None => Err(format!("{name:?} is {}, not a string", kind(value))),
        },
    }
}

fn flag(fields: &Map<String, Value>, name: &str) -> Result<bool, String> {
    match field(fields, name) {
        None => Ok(false),
        Some(value) => {
            value.as_bool().ok_or_else(|| format!("{name:?} is {}, not true or false", kind(value)))
        }
    }
}

fn lease_seconds(fields: &Map<String, Value>) -> Result<Option<u64>, String> {
    let Some(value) = field(fields, "lease_seconds") else { return Ok(None) };
    let seconds = value.as_u64().filter(|seconds| (1..=MAX_LEASE_SECONDS).contains(seconds));
    seconds.map(Some).ok_or_else(|| {
        format!("\"lease_seconds\" is {value}, not a whole number from 1 to {MAX_LEASE_SECONDS}")
    })
}

fn keep_trailers(fields: &Map<String, Value>) -> Result<KeepTrailers, String> {
    match field(fields, "keep_trailers") {
        None | Some(Value::Bool(false)) => Ok(KeepTrailers::None),
        Some(Value::Bool(true)) => Ok(KeepTrailers::Dwp),
        Some(Value::String(word)) if word == ALL => Ok(KeepTrailers::All),
        Some(Value::String(word)) => {
            Err(format!("\"keep_trailers\" is {word:?}, not true, false or \"all\""))
        }
        Some(value) => Err(format!("\"keep_trailers\" is {}, not true, false or \"all\"", kind(value))),
    }
}

fn trailers(fields: &Map<String, Value>) -> Result<Vec<Trailer>, String> {
    let Some(value) = field(fields, "trailers") else { return Ok(Vec::new()) };
    if let Some(list) = value.as_array() {
        let line = |item: &Value| match item.as_str() {
            Some(text) => parse_trailer_arg(text).map_err(|error| error.to_string()),
            None => Err(format!("\"trailers\" holds {}, not a \"key: value\" string", kind(item))),
        };
        list.iter().map(line).collect()
    } else if let Some(object) = value.as_object() {
        let pair = |(key, item): (&String, &Value)| match item.as_str() {
            Some(text) => user_trailer(key, text).map_err(|error| error.to_string()),
            None => Err(format!("the trailer {key:?} is {}, not a string", kind(item))),
        };
        object.iter().map(pair).collect()
    } else {
        Err(format!("\"trailers\" is {}, neither a list nor an object", kind(value)))
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// A malformed line, for the warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MalformedLine {
    /// Line number, from 1.
    pub(crate) line_number: u64,
    pub(crate) reason: String,
    /// Its beginning, without control characters.
    pub(crate) text: String,
}

impl std::fmt::Display for MalformedLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { line_number, reason, text } = self;
        write!(f, "line {line_number} of its output: {reason}: `{text}`")
    }
}

/// How many bytes of a malformed line are looked at to show its beginning.
const SHOWN_BYTES: usize = 4 * 1024;

/// The result for a whole standard output.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Observed {
    /// The last valid declaration.
    pub(crate) declared: Option<Declared>,
    /// The first [`MAX_MALFORMED_KEPT`] malformed lines.
    pub(crate) malformed: Vec<MalformedLine>,
    /// The total number of malformed lines.
    pub(crate) malformed_count: u64,
}

/// Reads standard output in chunks cut anywhere. Holds at most one protocol line at a time.
#[derive(Debug, Default)]
pub(crate) struct ProtocolReader {
    /// The current line so far; cleared once it cannot be a protocol line.
    pending: Vec<u8>,
    /// Whether the rest of the current line is ignored.
    skipping: bool,
    /// Whether the current line has begun.
    begun: bool,
    finished_lines: u64,
    observed: Observed,
}

impl ProtocolReader {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Reads the next bytes.
    pub(crate) fn feed(&mut self, chunk: &[u8]) {
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            match piece.strip_suffix(b"\n") {
                Some(last) => {
                    self.take(last);
                    self.end_line();
                }
                None => self.take(piece),
            }
        }
    }

    /// Ends the output, and with it its last line.
    pub(crate) fn finish(mut self) -> Observed {
        if self.begun {
            self.end_line();
        }
        self.observed
    }

    /// The result so far, without the unfinished line.
    #[cfg(test)]
    pub(crate) fn observed(&self) -> &Observed {
        &self.observed
    }

    fn take(&mut self, piece: &[u8]) {
        self.begun = true;
        if self.skipping {
            return;
        }
        // Two bytes more than the limit: one for a carriage return, one that shows the line to be
        // too long.
        let room = (MAX_LINE_BYTES + 2).saturating_sub(self.pending.len());
        self.pending.extend_from_slice(&piece[..piece.len().min(room)]);
        if self.pending.len() > PROTOCOL_WORD.len() && !may_be_protocol(&self.pending) {
            self.pending.clear();
            self.skipping = true;
        }
    }

    fn end_line(&mut self) {
        self.finished_lines += 1;
        if !self.skipping {
            match judge_line(&self.pending) {
                LineVerdict::NotProtocol => {}
                LineVerdict::Declared(declared) => self.observed.declared = Some(declared),
                LineVerdict::Malformed(reason) => self.note(reason),
            }
        }
        self.pending.clear();
        self.skipping = false;
        self.begun = false;
    }

    fn note(&mut self, reason: String) {
        self.observed.malformed_count += 1;
        if self.observed.malformed.len() < MAX_MALFORMED_KEPT {
            let reason = plain_line(reason.as_bytes(), MAX_LINE_CHARS);
            let text = plain_line(&self.pending[..self.pending.len().min(SHOWN_BYTES)], MAX_LINE_CHARS);
            self.observed.malformed.push(MalformedLine { line_number: self.finished_lines, reason, text });
        }
    }
}

#[cfg(test)]
mod tests;
