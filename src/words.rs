//! Text helpers shared by several rooms: error chains, shell quoting and plurals.

/// Formats an error and its causes on one line, skipping a cause whose text the line already ends
/// with.
pub fn error_chain(error: &dyn std::error::Error) -> String {
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

/// Quotes a word for a shell if it needs quoting: branch and file names may contain shell
/// metacharacters. One that is not UTF-8 is quoted as bash and zsh read it, since as text it would
/// be another name.
pub fn shell_quote(word: impl AsRef<[u8]>) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./@%+=:,".contains(c);
    match std::str::from_utf8(word.as_ref()) {
        // In zsh, `=name` is the path of a program.
        Ok(word) if !word.is_empty() && !word.starts_with('=') && word.chars().all(plain) => word.to_owned(),
        Ok(word) => format!("'{}'", word.replace('\'', "'\\''")),
        Err(_) => {
            let quoted = |byte: &u8| match char::from(*byte) {
                c if plain(c) => c.to_string(),
                _ => format!("\\x{byte:02x}"),
            };
            format!("$'{}'", word.as_ref().iter().map(quoted).collect::<String>())
        }
    }
}

/// The longest beginning of a word that is left out with its end, in bytes.
const MOST_OF_A_WORD: usize = 40;

/// At most the first `most` characters of a text, with `…` if there are more. Neither a word nor a command in backquotes is
/// cut.
pub fn shortened(text: &str, most: usize) -> String {
    let Some((end, _)) = text.char_indices().nth(most) else { return text.to_owned() };
    let (mut kept, rest) = text.split_at(end);
    let is_of_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    if is_of_word(kept.chars().next_back()) && is_of_word(rest.chars().next()) {
        let begins = kept.rfind(char::is_whitespace).filter(|at| kept.len() - at <= MOST_OF_A_WORD);
        kept = begins.map_or(kept, |at| &kept[..at]);
    }
    let kept = match kept.rfind('`').filter(|_| kept.matches('`').count() % 2 == 1) {
        Some(command) => &kept[..command],
        None => kept,
    };
    format!("{}…", kept.trim_end())
}

/// The message for a repository without commits. A bare one gets them by a push.
pub fn no_commit(is_bare: bool) -> &'static str {
    if is_bare {
        "no branch has a commit yet; push one from a clone: `git push origin HEAD`"
    } else {
        "no branch has a commit yet; make one: `git commit --allow-empty -m 'Begin'`"
    }
}

/// The command that shows what a rescue ref saved. If changes were staged the commit is a merge,
/// hence `--first-parent`.
pub fn shows_rescued(reference: impl AsRef<[u8]>) -> String {
    format!("git show --first-parent {}", shell_quote(reference))
}

/// Names a rescue ref that another host has: `runner` is the runner of its attempt.
pub fn saved_elsewhere(reference: &str, runner: &str) -> String {
    let host = if runner.is_empty() { "the host that ran it" } else { runner };
    format!("{reference} (not in this clone; on {host}: `{}`)", shows_rescued(reference))
}

/// The first `most` of some things, and how many more there are: `a, b and 3 more`.
pub fn first_of(things: impl IntoIterator<Item = impl std::fmt::Display>, most: usize) -> String {
    let mut things = things.into_iter();
    let named: Vec<String> = things.by_ref().take(most).map(|thing| thing.to_string()).collect();
    match things.count() {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// Formats a count with its noun: `1 branch`, `2 branches`.
pub fn pluralize(count: usize, noun: &str) -> String {
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
    fn no_command_is_cut() {
        for (text, most, wanted) in [
            ("short", 5, "short"),
            ("a long text", 6, "a long…"),
            ("a long text", 5, "a…"),
            ("a long text", 7, "a long…"),
            ("verylong", 4, "very…"),
            ("mend it: `git config a b`, then wait", 16, "mend it:…"),
            ("mend it: `git config a b`, then wait", 25, "mend it: `git config a b`…"),
        ] {
            assert_eq!(shortened(text, most), wanted);
        }
    }

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
            assert_eq!(pluralize(count, noun), words);
        }
    }

    #[test]
    fn commands_to_type_are_safe() {
        assert_eq!(shell_quote("feat/a-1"), "feat/a-1");
        assert_eq!(shell_quote("=ls"), "'=ls'");
        assert_eq!(shell_quote("a;rm $HOME"), "'a;rm $HOME'");
        assert_eq!(shell_quote("it's"), "'it'\\''s'");
        assert_eq!(shell_quote(""), "''");
        assert_eq!(shell_quote("caf\u{e9}"), "'caf\u{e9}'");
        assert_eq!(shell_quote(b"a'\xff\\\xc3\xa9/b"), "$'a\\x27\\xff\\x5c\\xc3\\xa9/b'");
    }
}
