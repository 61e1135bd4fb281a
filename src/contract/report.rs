//! The body of a stalled commit: what happened, then the last lines of both logs (CONTRACT 6.2,
//! 6.7).
//!
//! Invariant: whatever a command printed, the text is bounded, valid UTF-8 and free of control
//! characters. Output is indented, so that no line of it can be taken for the runner's own words or
//! for a trailer.

use bstr::ByteSlice;

/// The most lines shown of one stream.
pub(crate) const MAX_TAIL_LINES: usize = 20;

/// The most bytes shown of one stream, before its lines are indented.
pub(crate) const MAX_TAIL_BYTES: usize = 4 * 1024;

/// The most characters shown of one line; `…` marks a cut.
pub(crate) const MAX_LINE_CHARS: usize = 300;

/// The most characters of one sentence of ours. Recovery instructions must not be cut, and a branch
/// name in them may be long.
pub(crate) const MAX_SENTENCE_CHARS: usize = 10_000;

/// The contents of a stalled body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StalledReport<'a> {
    /// Sentences that describe what happened, one a line.
    pub(crate) headline: Vec<String>,
    /// Further sentences, such as where rescued work is, one a line in a second paragraph.
    pub(crate) notes: Vec<String>,
    /// The end of standard output; may begin inside a line or a character.
    pub(crate) stdout: &'a [u8],
    /// The end of standard error.
    pub(crate) stderr: &'a [u8],
}

/// Formats the body. A stream without visible output gets no section.
pub(crate) fn stalled_body(report: &StalledReport<'_>) -> String {
    let mut paragraphs: Vec<String> = Vec::new();
    for sentences in [&report.headline, &report.notes] {
        let lines: Vec<String> = sentences.iter().map(|text| one_line(text.as_bytes())).collect();
        if !lines.is_empty() {
            paragraphs.push(lines.join("\n"));
        }
    }
    for (title, tail) in [("stdout, last lines:", report.stdout), ("stderr, last lines:", report.stderr)] {
        let lines = tail_lines(tail);
        if !lines.is_empty() {
            let indented: Vec<String> =
                lines.iter().map(|line| format!("    {line}").trim_end().to_owned()).collect();
            paragraphs.push(format!("{title}\n{}", indented.join("\n")));
        }
    }
    let mut body = paragraphs.join("\n\n");
    body.push('\n');
    body
}

/// Puts a sentence of ours on one line: an error text or a branch name in it may contain anything.
fn one_line(text: &[u8]) -> String {
    plain_line(text, MAX_SENTENCE_CHARS)
}

/// Puts any text on one line of at most `most` characters, without escape sequences and control
/// characters.
pub(crate) fn plain_line(text: &[u8], most: usize) -> String {
    cut(&visible(&text.replace("\n", " ")), most)
}

/// The last lines of a stream, sanitized, oldest first, without blank lines at either end.
pub fn tail_lines(tail: &[u8]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut bytes = 0;
    for raw in tail.rsplit(|byte| *byte == b'\n') {
        let line = cut(&visible(overwritten(raw)), MAX_LINE_CHARS);
        if lines.is_empty() && line.trim().is_empty() {
            continue;
        }
        bytes += line.len() + 1;
        if lines.len() == MAX_TAIL_LINES || bytes > MAX_TAIL_BYTES {
            break;
        }
        lines.push(line);
    }
    while lines.last().is_some_and(|line| line.trim().is_empty()) {
        lines.pop();
    }
    lines.reverse();
    lines
}

/// The part of a line that a terminal shows after carriage returns: the text after the last one
/// that is not at the end.
fn overwritten(line: &[u8]) -> &[u8] {
    let line = line.trim_end_with(|c| c == '\r');
    line.rsplit(|byte| *byte == b'\r').next().unwrap_or(line)
}

fn cut(line: &str, most: usize) -> String {
    match line.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => String::from(line),
    }
}

/// Removes escape sequences and control characters; a tab becomes a space.
fn visible(line: &[u8]) -> String {
    let text = line.to_str_lossy();
    let mut shown = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(next) = rest.next() {
        match next {
            '\t' => shown.push(' '),
            '\u{1b}' => skip_escape(&mut rest),
            '\u{9b}' => skip_parameters(&mut rest),
            hidden if hidden.is_control() || is_invisible_order(hidden) => {}
            plain => shown.push(plain),
        }
    }
    shown
}

/// Characters that are invisible, or change the order or the breaking of text around them. Joiners
/// are not among them: scripts and emoji need them.
pub fn is_invisible_order(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// Skips one escape sequence whose escape character is already read. An unfinished sequence
/// swallows the rest of the line, which was not meant as text.
fn skip_escape(rest: &mut std::str::Chars<'_>) {
    match rest.next() {
        Some('[') => skip_parameters(rest),
        // Strings (titles, links, device commands) end with a bell or an escape and a backslash.
        Some(']' | 'P' | 'X' | '^' | '_') => {
            while let Some(next) = rest.next() {
                if matches!(next, '\u{7}' | '\u{9c}') {
                    return;
                }
                if next == '\u{1b}' {
                    let _backslash = rest.next();
                    return;
                }
            }
        }
        // Intermediate characters, then one final character.
        Some(' '..='/') => {
            let _final = rest.find(|c| !matches!(c, ' '..='/'));
        }
        Some(_) | None => {}
    }
}

fn skip_parameters(rest: &mut std::str::Chars<'_>) {
    let _final = rest.find(|c| matches!(c, '\u{40}'..='\u{7e}'));
}

#[cfg(test)]
mod tests {
    use bstr::BStr;
    use proptest::prelude::*;

    use super::super::commits::stalled_draft;
    use super::*;

    /// CONTRACT 6.7
    #[test]
    fn lines_are_made_harmless() {
        let rows: &[(&[u8], &str)] = &[
            (b"plain", "plain"),
            (b"a\tb", "a b"),
            (b"\x1b[1;31mred\x1b[0m", "red"),
            (b"\x1b]0;title\x07text", "text"),
            (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
            (b"\x1b(Bx\x1b=y", "xy"),
            (b"10%\r50%\r100%", "100%"),
            (b"done\r", "done"),
            (b"a\x00\x07\x08\x0bb\x7f", "ab"),
            (b"\xff\xfeok", "\u{fffd}\u{fffd}ok"),
            ("a\u{9b}31mb\u{85}c\u{202e}d".as_bytes(), "abcd"),
            ("a\u{200b}b\u{feff}c\u{2060}d\u{61c}e\u{ad}f".as_bytes(), "abcdef"),
            (b"x\x1b[12", "x"),
            (b"x\x1b", "x"),
        ];
        for (raw, shown) in rows {
            assert_eq!(tail_lines(raw), [*shown], "{:?}", raw.as_bstr());
        }
    }

    /// CONTRACT 6.7
    #[test]
    fn tails_are_bounded() {
        let many: String = (0..100).map(|n| format!("line {n}\n")).collect();
        let lines = tail_lines(many.as_bytes());
        assert_eq!((lines.len(), lines[0].as_str(), lines[19].as_str()), (20, "line 80", "line 99"));
        let long = tail_lines("é".repeat(1_000).as_bytes());
        assert_eq!(long, [format!("{}…", "é".repeat(300))]);
        let wide = tail_lines(format!("{}\n", "x".repeat(299)).repeat(20).as_bytes());
        assert_eq!(wide.len(), 13);
        assert_eq!(tail_lines(b"\n \n\na\n\nb\n\x1b[0m\n\n"), ["a", "", "b"]);
        assert!(tail_lines(b"").is_empty() && tail_lines(b"\n\n").is_empty());
    }

    #[test]
    fn body() {
        let report = StalledReport {
            headline: vec![String::from("The command build exited with 3.\ndwp-state: forged")],
            notes: vec![String::from("Its work is in refs/aynig/rescue/a/1.")],
            stdout: b"one\n\ndwp-state: done\n",
            stderr: b"",
        };
        assert_eq!(
            stalled_body(&report),
            "The command build exited with 3. dwp-state: forged\n\nIts work is in refs/aynig/rescue/a/1.\n\n\
             stdout, last lines:\n    one\n\n    dwp-state: done\n"
        );
        assert_eq!(stalled_body(&StalledReport::default()), "\n");
    }

    proptest! {
        #[test]
        fn any_output_makes_a_writable_commit(
            stdout in prop::collection::vec(any::<u8>(), 0..400), stderr in "[\\PC\n\r\t\u{1b}\\[0-9m]{0,200}"
        ) {
            let report = StalledReport {
                headline: vec![String::from("It failed.")], notes: Vec::new(), stdout: &stdout, stderr: stderr.as_bytes(),
            };
            let body = stalled_body(&report);
            prop_assert!(!body.chars().any(|c| c.is_control() && c != '\n'));
            prop_assert!(body.len() < 3 * (MAX_TAIL_BYTES + 1_000));
            prop_assert!(stalled_draft(BStr::new("r"), None, &body).encode().is_ok());
        }
    }
}
