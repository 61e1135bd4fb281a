//! Renders the Markdown of the manual's pages as roff, for `man` and for mandoc.
//!
//! Invariant: nothing of a document is dropped silently. An element that has no form here is an error, which names it.

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

/// The indentation of an example.
const INDENT: &str = "4";

/// Renders a document. `#` begins a section, `##` a subsection.
pub(crate) fn render(markdown: &str) -> Result<String, String> {
    let mut page = Page::default();
    for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
        page.take(event)?;
    }
    Ok(page.text)
}

/// Escapes a text, so that roff prints its characters as they are.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for (at, line) in text.split('\n').enumerate() {
        if at > 0 {
            escaped.push('\n');
        }
        if line.starts_with(['.', '\'']) {
            escaped.push_str("\\&");
        }
        for character in line.chars() {
            match character {
                '\\' => escaped.push_str("\\e"),
                '-' => escaped.push_str("\\-"),
                '\'' => escaped.push_str("\\(aq"),
                '`' => escaped.push_str("\\(ga"),
                '~' => escaped.push_str("\\(ti"),
                '^' => escaped.push_str("\\(ha"),
                other => escaped.push(other),
            }
        }
    }
    escaped
}

/// The page as far as it is rendered.
#[derive(Default)]
struct Page {
    /// Whole lines of roff.
    text: String,
    /// The open text: of a paragraph, a heading, an item or a cell.
    inline: String,
    /// The fonts of the open text, the innermost last.
    fonts: Vec<char>,
    /// The address of the open link, and where its text begins.
    link: Option<(String, usize)>,
    /// The open lists: the number of the next item, if they are numbered.
    lists: Vec<Option<u64>>,
    /// Whether the next paragraph needs no macro: a heading or an item has just begun.
    begun: bool,
    /// The open table.
    table: Vec<Vec<String>>,
    /// Whether the open text is a literal block.
    is_literal: bool,
}

impl Page {
    fn take(&mut self, event: Event<'_>) -> Result<(), String> {
        match event {
            Event::Start(tag) => self.start(tag)?,
            Event::End(tag) => self.end(tag)?,
            Event::Text(text) if self.is_literal => self.inline.push_str(&text),
            Event::Text(text) => self.words(&text),
            Event::Code(text) => {
                self.font(Some('B'));
                self.words(&text);
                self.font(None);
            }
            Event::SoftBreak => self.inline.push('\n'),
            Event::HardBreak => self.inline.push_str("\n.br\n"),
            other => return Err(format!("a manual page has no form for {other:?}")),
        }
        Ok(())
    }

    fn start(&mut self, tag: Tag<'_>) -> Result<(), String> {
        match tag {
            Tag::Heading { level: HeadingLevel::H1 | HeadingLevel::H2, .. } => self.flush(),
            Tag::Paragraph => self.paragraph(),
            Tag::CodeBlock(CodeBlockKind::Fenced(_)) => {
                self.flush();
                self.is_literal = true;
            }
            Tag::List(first) => {
                self.flush();
                if !self.lists.is_empty() {
                    self.line(".RS 2");
                }
                self.lists.push(first);
            }
            Tag::Item => self.item(),
            Tag::Emphasis => self.font(Some('I')),
            Tag::Strong => self.font(Some('B')),
            Tag::Link { dest_url, .. } => self.link = Some((dest_url.into_string(), self.inline.len())),
            Tag::Table(_) => self.flush(),
            Tag::TableHead | Tag::TableRow => self.table.push(Vec::new()),
            Tag::TableCell => {}
            other => return Err(format!("a manual page has no form for {other:?}")),
        }
        Ok(())
    }

    fn end(&mut self, tag: TagEnd) -> Result<(), String> {
        match tag {
            TagEnd::Heading(level) => {
                let title = std::mem::take(&mut self.inline).replace('"', "\\(dq");
                let title = if title.contains(' ') { format!("\"{title}\"") } else { title };
                let name = if level == HeadingLevel::H1 { ".SH" } else { ".SS" };
                self.line(&format!("{name} {title}"));
                self.begun = true;
            }
            TagEnd::Paragraph => self.flush(),
            TagEnd::CodeBlock => {
                self.is_literal = false;
                self.literal();
            }
            TagEnd::List(_) => {
                self.flush();
                self.lists.pop();
                if !self.lists.is_empty() {
                    self.line(".RE");
                }
                self.begun = false;
            }
            TagEnd::Item => self.flush(),
            TagEnd::Emphasis | TagEnd::Strong => self.font(None),
            TagEnd::Link => self.address(),
            TagEnd::TableHead | TagEnd::TableRow => {}
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.inline);
                self.table.last_mut().ok_or("a cell without a row")?.push(cell);
            }
            TagEnd::Table => self.entries()?,
            other => return Err(format!("a manual page has no form for the end {other:?}")),
        }
        Ok(())
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Adds words to the open text. They may begin a line of roff.
    fn words(&mut self, text: &str) {
        let escaped = escape(text);
        let is_first = self.inline.is_empty() || self.inline.ends_with('\n');
        let escaped = if is_first { &escaped } else { escaped.strip_prefix("\\&").unwrap_or(&escaped) };
        self.inline.push_str(escaped);
    }

    /// Begins a font, or returns to the one around it.
    fn font(&mut self, font: Option<char>) {
        match font {
            Some(font) => self.fonts.push(font),
            None => {
                self.fonts.pop();
            }
        }
        self.inline.push_str(&format!("\\f{}", self.fonts.last().unwrap_or(&'R')));
    }

    fn paragraph(&mut self) {
        self.flush();
        if !std::mem::take(&mut self.begun) {
            self.line(if self.lists.is_empty() { ".PP" } else { ".IP" });
        }
    }

    fn item(&mut self) {
        self.flush();
        let mark = match self.lists.last_mut() {
            Some(Some(number)) => {
                *number += 1;
                format!(".IP {}. 4", *number - 1)
            }
            Some(None) | None => ".IP \\(bu 2".to_owned(),
        };
        self.line(&mark);
        self.begun = true;
    }

    /// Ends the open text.
    fn flush(&mut self) {
        let text = std::mem::take(&mut self.inline);
        if !text.trim().is_empty() {
            self.line(text.trim_end());
            self.begun = false;
        }
    }

    /// Writes a link's address behind its text, unless it is the text or leads to another document.
    fn address(&mut self) {
        let Some((address, start)) = self.link.take() else { return };
        let is_text = self.inline.get(start..) == Some(&escape(&address));
        if address.starts_with("http") && !is_text {
            self.inline.push_str(&format!(" ({})", escape(&address)));
        }
    }

    fn literal(&mut self) {
        let block = std::mem::take(&mut self.inline);
        self.begun = false;
        self.line(&format!(".RS {INDENT}\n.nf"));
        for line in block.trim_end().lines() {
            let line = if line.is_empty() { "\\&".to_owned() } else { escape(line) };
            self.line(&line);
        }
        self.line(".fi\n.RE");
    }

    /// Writes the open table as a list: the first cell is the term. With more than two columns each further cell
    /// has a line, with the title of its column.
    fn entries(&mut self) -> Result<(), String> {
        let mut rows = std::mem::take(&mut self.table).into_iter();
        let head = rows.next().unwrap_or_default();
        if head.len() < 2 || head.len() == 2 && head.iter().any(|title| !title.is_empty()) {
            return Err(format!("a table of two columns has no titles: {head:?}"));
        }
        if head.first().is_some_and(|title| !title.is_empty()) {
            return Err(format!("the first column of a table has no title: {head:?}"));
        }
        for row in rows {
            let (term, cells) = row.split_first().ok_or("a row without cells")?;
            self.line(&format!(".TP\n{term}"));
            let titled = head.iter().skip(1).zip(cells).filter(|(_, cell)| !cell.is_empty());
            let lines: Vec<String> = titled
                .map(|(title, cell)| if title.is_empty() { cell.clone() } else { format!("{title}: {cell}") })
                .collect();
            if lines.is_empty() {
                return Err(format!("an entry without a text: {term}"));
            }
            self.line(&lines.join("\n.br\n"));
        }
        self.begun = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_become_roff() {
        for (markdown, roff) in [
            ("# NOTES\n\nOne.\n\nTwo,\nthree.", ".SH NOTES\nOne.\n.PP\nTwo,\nthree.\n"),
            ("# EXIT STATUS\n\n## One \"two\"\n", ".SH \"EXIT STATUS\"\n.SS \"One \\(dqtwo\\(dq\"\n"),
            ("a `b-c` *d* **e**", ".PP\na \\fBb\\-c\\fR \\fId\\fR \\fBe\\fR\n"),
            ("***a** b*", ".PP\n\\fI\\fBa\\fI b\\fR\n"),
            ("a\\\nb", ".PP\na\n.br\nb\n"),
            (
                "x\n\n```sh\na 'b'\n\n.c\n```\ny",
                ".PP\nx\n.RS 4\n.nf\na \\(aqb\\(aq\n\\&\n\\&.c\n.fi\n.RE\n.PP\ny\n",
            ),
            ("- a\n- b\n\n  c\n", ".IP \\(bu 2\na\n.IP \\(bu 2\nb\n.IP\nc\n"),
            ("- a\n  - b\n- c\n", ".IP \\(bu 2\na\n.RS 2\n.IP \\(bu 2\nb\n.RE\n.IP \\(bu 2\nc\n"),
            ("1. a\n2. b\n\nc", ".IP 1. 4\na\n.IP 2. 4\nb\n.PP\nc\n"),
            ("| | |\n|---|---|\n| `a` | b |\n| c | d |\n", ".TP\n\\fBa\\fR\nb\n.TP\nc\nd\n"),
            (
                "| | x | y |\n|---|---|---|\n| a | b | |\n| c | d | e |\n",
                ".TP\na\nx: b\n.TP\nc\nx: d\n.br\ny: e\n",
            ),
            ("[a](b.md) [c](https://d.example/e-f)", ".PP\na c (https://d.example/e\\-f)\n"),
            ("<https://d.example/e-f>", ".PP\nhttps://d.example/e\\-f\n"),
        ] {
            assert_eq!(render(markdown).as_deref(), Ok(roff), "{markdown}");
        }
    }

    #[test]
    fn every_character_is_printed_as_it_is() {
        for (text, roff) in [
            ("a-b", "a\\-b"),
            ("it's", "it\\(aqs"),
            (".x .y", "\\&.x .y"),
            ("'x", "\\&\\(aqx"),
            ("a\n.b", "a\n\\&.b"),
            ("\\n", "\\en"),
            ("~/`^", "\\(ti/\\(ga\\(ha"),
        ] {
            assert_eq!(escape(text), roff, "{text}");
        }
        assert_eq!(render("a\n.b").as_deref(), Ok(".PP\na\n\\&.b\n"));
        assert_eq!(render("a *b*.c").as_deref(), Ok(".PP\na \\fIb\\fR.c\n"));
    }

    #[test]
    fn what_has_no_form_is_an_error() {
        for markdown in [
            "### a",
            "> a",
            "a\n\n---\n",
            "![a](b.png)",
            "<b>a</b>",
            "<div>\n</div>",
            "    indented\n",
            "| a | b |\n|---|---|\n| c | d |\n",
            "| a | b | c |\n|---|---|---|\n| c | d | e |\n",
            "| | |\n|---|---|\n| c | |\n",
        ] {
            assert!(render(markdown).is_err(), "{markdown}: {:?}", render(markdown));
        }
    }
}
