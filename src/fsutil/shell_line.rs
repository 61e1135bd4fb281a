//! The program at the beginning of a command line for `sh`, and whether it is here.
//!
//! Invariant: only a program that is surely missing is reported. A line that begins with anything but a plain word, or has
//! a fallback after `||`, is left to the shell.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::is_executable;

/// Words that the shell itself runs.
const BUILT_IN: &str = ". : [ [[ alias bg break builtin case cd chdir command continue coproc declare echo enable eval \
    exec exit export false fc fg for function getopts hash if jobs kill let local mapfile printf \
    pushd pwd read readarray readonly return select set shift shopt source test time times trap \
    true type typeset ulimit umask unalias unset until wait while";

/// A program that is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// A file without permission to run it.
    NotExecutable(PathBuf),
    /// A path at which nothing is.
    NotThere(PathBuf),
    /// A name in no directory of `PATH`.
    NotInPath(String),
}

impl Missing {
    /// The program.
    #[must_use]
    pub fn program(&self) -> String {
        match self {
            Self::NotExecutable(file) | Self::NotThere(file) => file.display().to_string(),
            Self::NotInPath(word) => word.clone(),
        }
    }

    /// The reason, after its name.
    #[must_use]
    pub fn why(&self) -> &'static str {
        match self {
            Self::NotExecutable(_) => "is not executable",
            Self::NotThere(_) => "is not there",
            Self::NotInPath(_) => "is not in PATH",
        }
    }
}

/// The program at the beginning of a line, unless the line starts with a variable, a quote, another special character of
/// the shell, a word of the shell itself, or a function, or has a fallback after `||`.
#[must_use]
pub fn program_of(line: &str) -> Option<&str> {
    let mut words = line.split_ascii_whitespace();
    let word = words.next()?;
    if line.contains("||") || words.next().is_some_and(|next| next.starts_with('(')) {
        return None;
    }
    let plain = word.chars().all(|c| c.is_alphanumeric() || "-_./@%+,:[~".contains(c));
    let is_built_in = BUILT_IN.split(' ').any(|known| known == word);
    (plain && !is_built_in).then_some(word)
}

/// The program of a line if it is missing. A relative path begins at `directory`, and is not looked at without one; a name
/// is searched in `path`, a value of `PATH`. A relative directory in that begins at `directory`, too.
#[must_use]
pub fn missing_program(line: &str, directory: Option<&Path>, path: &OsStr) -> Option<Missing> {
    let word = program_of(line)?;
    if !word.contains('/') {
        let places = std::env::split_paths(path).map(|place| match directory {
            Some(directory) => Some(directory.join(place)),
            None => place.is_absolute().then_some(place),
        });
        let places: Vec<PathBuf> = places.collect::<Option<_>>()?;
        let is_here = word.starts_with('~') || places.iter().any(|place| is_executable(&place.join(word)));
        return (!is_here).then(|| Missing::NotInPath(word.to_owned()));
    }
    let file = file_of(word, directory)?;
    match (is_executable(&file), file.exists()) {
        (true, _) => None,
        (false, true) => Some(Missing::NotExecutable(file)),
        (false, false) => Some(Missing::NotThere(file)),
    }
}

/// The file of a word with a slash.
fn file_of(word: &str, directory: Option<&Path>) -> Option<PathBuf> {
    if let Some(rest) = word.strip_prefix("~/") {
        return std::env::var_os("HOME").map(|home| PathBuf::from(home).join(rest));
    }
    if word.starts_with('~') {
        return None;
    }
    let is_absolute = word.starts_with('/');
    directory.map(|directory| directory.join(word)).or_else(|| is_absolute.then(|| PathBuf::from(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_in_lines() {
        for (line, program) in [
            ("notify-send \"$AYNIG_NOTICE_BRANCH\"", Some("notify-send")),
            ("  contrib/notify/webhook https://example.com/x?y", Some("contrib/notify/webhook")),
            ("~/bin/tell", Some("~/bin/tell")),
            ("URL=x tell", None),
            ("\"$HOME/bin/tell\"", None),
            ("cat >>log", Some("cat")),
            ("(tell)", None),
            ("! tell", None),
            ("exec tell", None),
            ("cat>log", None),
            ("", None),
            ("pytest-3 --version 2>/dev/null || test -f x", None),
            ("fn () { true; }; fn", None),
            ("fn( ) { true; }; fn", None),
            ("tell && more", Some("tell")),
            ("coproc tell", None),
            ("select x in a b; do tell; done", None),
            ("mapfile lines", None),
            ("readarray lines", None),
        ] {
            assert_eq!(program_of(line), program, "{line:?}");
        }
    }

    #[test]
    fn missing_programs() {
        let directory = tempfile::tempdir().expect("a directory");
        let top = directory.path();
        super::super::replace(&top.join("plain"), b"").expect("a file");
        let path = OsStr::new("/usr/bin:/bin");
        let not_there = |file: &str| Some(Missing::NotThere(file.into()));
        for (line, at, missing) in [
            ("sh -c true", None, None),
            ("/bin/sh -c true", None, None),
            ("no-such-program x", None, Some(Missing::NotInPath("no-such-program".into()))),
            ("/no/such/program x", None, not_there("/no/such/program")),
            ("/no/such/program x", Some(top), not_there("/no/such/program")),
            ("./check x", None, None),
            ("check/it x", Some(Path::new("/srv/project")), not_there("/srv/project/check/it")),
            ("./plain", Some(top), Some(Missing::NotExecutable(top.join("./plain")))),
            ("~somebody/bin/check", Some(top), None),
            ("X=1 no-such-program", None, None),
        ] {
            assert_eq!(missing_program(line, at, path), missing, "{line:?}");
        }
        // The worktree of a step is not known here, and without a PATH the shell has one of its own.
        for path in ["tools/bin:/usr/bin", "/usr/bin:", ""] {
            assert_eq!(missing_program("no-such-program", None, OsStr::new(path)), None, "{path:?}");
        }
        let missing = missing_program("no-such-program", Some(top), OsStr::new("tools/bin"));
        assert_eq!(missing, Some(Missing::NotInPath("no-such-program".into())));
    }
}
