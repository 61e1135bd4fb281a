//! The only printer. stdout is the answer, stderr is narration. Colours appear only where a terminal shows
//! them, and text from commits or commands never reaches a terminal as a control sequence.
//!
//! An answer that cannot be written is an error, printed once here and turned into an exit code by `entry`
//! ([`is_answer_lost`]). It does not stop the subcommand. A closed pipe (`| head`) is not an error.

pub(crate) mod columns;
pub(crate) mod escapes;
pub(crate) mod live;
pub(crate) mod logging;
pub(crate) mod narrator;
pub(crate) mod page;
pub(crate) mod panics;
pub(crate) mod signals;

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use anstream::ColorChoice;
use anstyle::{AnsiColor, Style};
use serde::Serialize;

use aynig::contract::report::is_invisible_order;

/// Bold.
pub(crate) const STRONG: Style = Style::new().bold();
/// For success.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// For failure.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
/// For things to check.
pub(crate) const CARE: Style = AnsiColor::Yellow.on_default();
/// For questions to the reader.
pub(crate) const CALL: Style = AnsiColor::BrightCyan.on_default().bold();
/// For secondary text.
pub(crate) const FAINT: Style = Style::new().dimmed();

/// `text` in `style`.
pub(crate) fn styled(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Whether a part of the answer could not be written.
static LOST: AtomicBool = AtomicBool::new(false);

/// Whether a part of the answer could not be written. A closed pipe does not count.
pub(crate) fn is_answer_lost() -> bool {
    LOST.load(Ordering::Relaxed)
}

/// Prints a part of the answer by `print`. Returns whether the reader is still there. The whole answer goes
/// through here.
pub(crate) fn answer_by(print: impl FnOnce() -> io::Result<()>) -> bool {
    let Err(error) = print().and_then(|()| io::stdout().flush()) else { return true };
    if error.kind() != ErrorKind::BrokenPipe && !LOST.swap(true, Ordering::Relaxed) {
        narrate(&format!(
            "error: could not write to standard output: {error}\n  \
             hint: what was done stays done, only this output is incomplete; make room, or send it elsewhere"
        ));
    }
    false
}

/// Prints one line of the answer.
pub(crate) fn answer(line: &str) {
    answer_by(|| writeln!(anstream::stdout().lock(), "{line}"));
}

/// Prints lines of the answer at once: each line by itself takes as long as its making.
pub(crate) fn answer_lines(lines: impl IntoIterator<Item = impl std::fmt::Display>) {
    let text: String = lines.into_iter().map(|line| format!("{line}\n")).collect();
    answer_by(|| write!(anstream::stdout().lock(), "{text}"));
}

/// Prints bytes of the answer unchanged. Returns whether the reader is still there.
pub(crate) fn answer_bytes(bytes: &[u8]) -> bool {
    answer_by(|| io::stdout().lock().write_all(bytes))
}

/// The version of the fields in JSON (`contrib/docs/json.md`). It grows when a field is removed or changes its
/// meaning.
const VERSION: u32 = 1;

/// Prints a value as JSON, on one line.
pub(crate) fn answer_json(value: &impl Serialize) {
    answer(&json(value));
}

/// A struct or map as a JSON object with the version, on one line.
pub(crate) fn json<T: Serialize>(value: &T) -> String {
    #[derive(Serialize)]
    struct Versioned<'a, T> {
        version: u32,
        #[serde(flatten)]
        value: &'a T,
    }
    let text = serde_json::to_string(&Versioned { version: VERSION, value })
        .expect("named texts, numbers and lists make JSON");
    // They occur only inside of strings, where JSON allows escapes.
    let safe = |c: char| if is_order(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
    text.chars().map(safe).collect()
}

/// Prints one line of narration. A failure cannot be reported anywhere.
pub(crate) fn narrate(line: &str) {
    let mut out = anstream::stderr().lock();
    drop(writeln!(out, "{line}").and_then(|()| out.flush()));
}

/// Whether only warnings and errors are narrated (`--quiet`).
static QUIET: AtomicBool = AtomicBool::new(false);

/// Narrates only warnings and errors from now on.
pub(crate) fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Whether only warnings and errors are narrated.
pub(crate) fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Prints one line of narration that is neither a warning nor an error, unless `--quiet` is given.
pub(crate) fn remark(line: &str) {
    if !is_quiet() {
        narrate(line);
    }
}

/// Prints a warning about something that was done all the same.
pub(crate) fn warn(text: &str) {
    narrate(&format!("{} {}", styled(CARE, "warning:"), sanitize(text)));
}

/// Makes text from a commit or a command safe for a terminal: without control characters and bidi controls.
pub(crate) fn sanitize(text: &str) -> String {
    text.chars().map(|c| if is_order(c) { '\u{fffd}' } else { c }).collect()
}

/// Whether a terminal acts on the character, visibly or not.
fn is_order(c: char) -> bool {
    c.is_control() || is_invisible_order(c)
}

/// The size of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TerminalSize {
    /// Characters in a line; at least 1.
    pub(crate) columns: usize,
    /// Lines; at least 1.
    pub(crate) lines: usize,
}

/// The size of the answer's terminal, if it is one; 80 by 24 if the terminal does not report it.
pub(crate) fn room() -> Option<TerminalSize> {
    let out = io::stdout();
    if !out.is_terminal() {
        return None;
    }
    let told = terminal_size::terminal_size_of(out);
    let (columns, lines) = told.map_or((80, 24), |(columns, lines)| (columns.0, lines.0));
    Some(TerminalSize { columns: usize::from(columns), lines: usize::from(lines) })
}

/// Whether `TERM` names a terminal with cursor movement.
fn is_able() -> bool {
    std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
}

/// Whether the answer's terminal can move its cursor.
pub(crate) fn moves_cursor() -> bool {
    room().is_some() && is_able()
}

/// Makes the colour library follow the terminal. By default `CI` and `CLICOLOR` turn colours on for a dumb
/// terminal. Forced colours stay. Must be called before anything is printed.
pub(crate) fn believe_the_terminal() {
    if !is_able() && std::env::var_os("CLICOLOR_FORCE").is_none_or(|value| value.is_empty()) {
        ColorChoice::Never.write_global();
    }
}

/// Whether the answer is coloured.
pub(crate) fn coloured() -> bool {
    !matches!(anstream::AutoStream::choice(&io::stdout()), ColorChoice::Never)
}

/// Whether a person watches the narration.
pub(crate) fn somebody_listens() -> bool {
    io::stderr().is_terminal()
}

/// Whether facts that need nobody's attention are printed: to a person at the terminal, else at level info.
pub(crate) fn shows_details() -> bool {
    somebody_listens() || tracing::enabled!(tracing::Level::INFO)
}

/// The styled text, without its colours unless `coloured`.
pub(crate) fn colour_if(text: &str, coloured: bool) -> String {
    if coloured { text.to_owned() } else { anstream::adapter::strip_str(text).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_escape_sequence_gets_through() {
        assert_eq!(sanitize("a\u{202e}b"), "a\u{fffd}b");
        assert_eq!(sanitize("a\u{1b}[31mb\nc"), "a\u{fffd}[31mb\u{fffd}c");
    }
}
