//! The hand-written parts of the manual's pages: Markdown files in `pages/`.
//!
//! Invariant: there is one file for each page. `manual` adds what is generated: of a subcommand its name, synopsis,
//! description, options and exit status, of `aynig-config(5)` the settings.

/// The hand-written part of a page.
pub(crate) struct Source {
    /// The name of the page: `aynig-run`.
    pub(crate) name: &'static str,
    /// The section of the manual.
    pub(crate) section: u8,
    /// The Markdown.
    pub(crate) text: &'static str,
}

/// Lists pages: name, section and file.
macro_rules! sources {
    ($(($name:literal, $section:literal, $file:literal),)*) => {
        [$(Source { name: $name, section: $section, text: include_str!(concat!("pages/", $file)) }),*]
    };
}

/// All pages, in the order of `aynig --help`.
pub(crate) static SOURCES: [Source; 30] = sources![
    ("aynig", 1, "aynig.md"),
    ("aynig-run", 1, "run.md"),
    ("aynig-demo", 1, "demo.md"),
    ("aynig-set-state", 1, "set-state.md"),
    ("aynig-set-working", 1, "set-working.md"),
    ("aynig-cancel", 1, "cancel.md"),
    ("aynig-land", 1, "land.md"),
    ("aynig-answer", 1, "answer.md"),
    ("aynig-wait", 1, "wait.md"),
    ("aynig-next", 1, "next.md"),
    ("aynig-status", 1, "status.md"),
    ("aynig-log", 1, "log.md"),
    ("aynig-events", 1, "events.md"),
    ("aynig-logs", 1, "logs.md"),
    ("aynig-workspace", 1, "workspace.md"),
    ("aynig-publish", 1, "publish.md"),
    ("aynig-orch", 1, "orch.md"),
    ("aynig-flow", 1, "flow.md"),
    ("aynig-provider", 1, "provider.md"),
    ("aynig-serve", 1, "serve.md"),
    ("aynig-clean", 1, "clean.md"),
    ("aynig-doctor", 1, "doctor.md"),
    ("aynig-init", 1, "init.md"),
    ("aynig-install", 1, "install.md"),
    ("aynig-hook", 1, "hook.md"),
    ("aynig-manual", 1, "manual.md"),
    ("aynig-completions", 1, "completions.md"),
    ("aynig-config", 5, "config.5.md"),
    ("aynig-flow", 5, "flow.5.md"),
    ("aynig-commands", 7, "commands.7.md"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::cli::args::Arguments;
    use crate::cli::help::roff;

    fn verbs() -> BTreeSet<String> {
        let program = Arguments::command();
        let shown = program.get_subcommands().filter(|verb| !verb.is_hide_set());
        shown.map(|verb| format!("aynig-{}", verb.get_name())).collect()
    }

    #[test]
    fn every_subcommand_has_a_file_and_every_file_is_a_page() {
        let listed: BTreeSet<String> = SOURCES
            .iter()
            .filter(|source| source.section == 1 && source.name != "aynig")
            .map(|source| source.name.to_owned())
            .collect();
        assert_eq!(listed, verbs());
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli/help/pages");
        assert_eq!(std::fs::read_dir(directory).expect("it is there").count(), SOURCES.len());
    }

    #[test]
    fn nothing_of_a_page_is_left_out() {
        for source in &SOURCES {
            let name = format!("{}({})", source.name, source.section);
            let rendered = roff::render(source.text);
            assert!(rendered.is_ok(), "{name}: {rendered:?}");
            for section in ["# EXAMPLES", "# SEE ALSO"] {
                let count = source.text.lines().filter(|line| *line == section).count();
                assert_eq!(count, 1, "{name}: {section}");
            }
            assert_eq!(source.text.contains("\n{settings}\n"), source.name == "aynig-config", "{name}");
        }
    }

    /// `**aynig-run**(1)` and the like.
    #[test]
    fn a_page_refers_to_pages_that_exist() {
        let others =
            ["git", "git-config", "git-worktree", "git-interpret-trailers", "git-push", "git-log", "man"];
        let others =
            [&others[..], &["systemctl", "crontab", "githooks", "gitignore", "git-merge", "sh"]].concat();
        let mut seen = 0;
        for page in &SOURCES {
            let parts: Vec<&str> = page.text.split("**").collect();
            for pair in parts.windows(2) {
                let Some(section) = pair[1].strip_prefix('(').and_then(|rest| rest.chars().next()) else {
                    continue;
                };
                let Some(section) = section.to_digit(10) else { continue };
                let found = SOURCES.iter().any(|it| it.name == pair[0] && u32::from(it.section) == section);
                assert!(found || others.contains(&pair[0]), "{}: {}({section})", page.name, pair[0]);
                seen += 1;
            }
        }
        assert!(seen > SOURCES.len(), "{seen}");
    }

    /// The lines of fenced blocks with this language that begin with `aynig`.
    fn calls(text: &str, language: &str) -> Vec<String> {
        let mut open: Option<String> = None;
        let mut found = Vec::new();
        for line in text.lines() {
            match (&open, line.strip_prefix("```")) {
                (None, Some(named)) => open = Some(named.to_owned()),
                (Some(_), Some(_)) => open = None,
                (Some(named), None) if named == language && line.starts_with("aynig ") => {
                    found.push(line.to_owned())
                }
                (Some(_) | None, None) => {}
            }
        }
        found
    }

    /// The words of a line, as `sh` splits it: quotes, and `#` with a comment.
    fn words(line: &str) -> Vec<String> {
        let mut words = Vec::new();
        let mut word: Option<String> = None;
        let mut quote = None;
        for character in line.chars() {
            match (quote, character) {
                (None, '#') if word.is_none() => break,
                (None, '|' | '&' | ';' | '>') if word.is_none() => break,
                (None, ' ') => words.extend(word.take()),
                (None, '\'' | '"') => {
                    quote = Some(character);
                    word.get_or_insert_default();
                }
                (Some(open), _) if open == character => quote = None,
                (_, other) => word.get_or_insert_default().push(other),
            }
        }
        words.extend(word);
        words
    }

    #[test]
    fn lines_that_no_test_runs_are_command_lines_of_the_program() {
        for source in &SOURCES {
            for line in calls(source.text, "text") {
                let parsed = Arguments::try_parse_from(words(&line));
                assert!(
                    parsed.is_ok(),
                    "{}({}): {line}: {}",
                    source.name,
                    source.section,
                    parsed.unwrap_err()
                );
            }
        }
        assert_eq!(words("a 'b c'\"d\" e=f # g"), ["a", "b cd", "e=f"]);
        assert_eq!(words("a b && c"), ["a", "b"]);
    }
}
