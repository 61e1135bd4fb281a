//! `aynig init`: prepares a repository for its first command.
//!
//! Invariant: existing files are unchanged, except for lines appended to `.gitignore`. A second run does
//! nothing. Nothing is committed; that is left to the user.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::json;

use aynig::fsutil;
use aynig::ops::app::App;
use aynig::ops::error::Error;
use aynig::runner::shell_quote;

use crate::cli::args::Init;
use crate::cli::exit::Exit;
use crate::cli::ui;
use crate::cli::ui::{FAINT, GOOD, styled};

const COMMANDS: &str = include_str!("init/COMMANDS.md");
const CONTRACT: &str = include_str!("../../../CONTRACT.md");
const EXAMPLE: &str = include_str!("init/example.sh");

/// Paths that must not be committed: the runner's worktrees and logs.
const IGNORED: [&str; 2] = [".worktrees/", ".aynig/logs/"];

/// Runs the subcommand.
pub(crate) fn run(app: &App, arguments: &Init) -> Result<Exit, Error> {
    let repo = app.repo();
    let Some(checkout) = repo.checkout() else {
        return Err(Error::setup(format!(
            "could not write files for commands: the repository {} is bare and has no checkout",
            repo.common_dir().display()
        ))
        .hint("run `aynig init` in a clone, commit what it makes, and push that"));
    };
    let top = &checkout.path;
    [".aynig", ".aynig/command"].into_iter().try_for_each(|name| check_directory(top, name))?;
    let mut made = Vec::new();
    let mut present = Vec::new();
    let mut note = |name: &'static str, new: bool| if new { made.push(name) } else { present.push(name) };
    let commands = top.join(".aynig/command");
    let new = !commands.is_dir();
    std::fs::create_dir_all(&commands).map_err(|error| cannot("make", &commands, &error))?;
    note(".aynig/command/", new);
    note(".aynig/COMMANDS.md", write_new(&top.join(".aynig/COMMANDS.md"), COMMANDS, false)?);
    note(".aynig/CONTRACT.md", write_new(&top.join(".aynig/CONTRACT.md"), CONTRACT, false)?);
    note(".aynig/command/example", write_new(&commands.join("example"), EXAMPLE, true)?);
    let added = ignore(&top.join(".gitignore"))?;
    note(".gitignore", !added.is_empty());
    if arguments.json {
        ui::answer_json(&json!({
            "top": top.display().to_string(),
            "made": made,
            "present": present,
            "ignored": added,
        }));
        return Ok(Exit::Done);
    }
    for name in &made {
        let more = if *name == ".gitignore" { format!("  ({})", added.join(", ")) } else { String::new() };
        ui::answer(&format!("{}  {name}{more}", styled(GOOD, "made ")));
    }
    for name in &present {
        ui::answer(&styled(FAINT, format!("there   {name}")));
    }
    if !made.is_empty() {
        NEXT.iter().for_each(|line| ui::answer(line));
    }
    Ok(Exit::Done)
}

/// The exact next commands.
const NEXT: [&str; 9] = [
    "",
    "Next, commit it, make a branch that asks for the example, and let it run:",
    "",
    "  git add .aynig .gitignore && git commit -m 'Add aynig commands'",
    "  git branch hello",
    "  aynig set-state --branch hello --state example --body 'Say hello.'",
    "  aynig run",
    "",
    "What it did: `aynig log hello`, `git show hello`, `aynig logs hello`.",
];

/// Refuses a path that is to be a directory and is something else. git adds no file beyond a symlink.
fn check_directory(top: &Path, name: &str) -> Result<(), Error> {
    let what = match std::fs::symlink_metadata(top.join(name)) {
        Ok(found) if found.is_symlink() => "a symlink",
        Ok(found) if !found.is_dir() => "a file",
        _ => return Ok(()),
    };
    Err(Error::setup(format!(
        "{name} in {} is {what}, and is to be a directory; nothing was made",
        top.display()
    ))
    .hint(format!("`mv {name} {name}.old` in {} moves it away", shell_quote(top.display().to_string()))))
}

/// Writes a file unless the path exists. Returns whether it was written.
fn write_new(path: &Path, text: &str, executable: bool) -> Result<bool, Error> {
    if std::fs::symlink_metadata(path).is_ok() {
        return Ok(false);
    }
    fsutil::replace(path, text.as_bytes()).map_err(|error| cannot("write", path, &error))?;
    if executable {
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(path, mode).map_err(|error| cannot("make executable", path, &error))?;
    }
    Ok(true)
}

/// Appends missing entries to a `.gitignore`. Returns the added ones.
fn ignore(path: &Path) -> Result<Vec<&'static str>, Error> {
    let mut text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(cannot("read", path, &error)),
    };
    let missing: Vec<&str> = IGNORED.into_iter().filter(|entry| !is_ignored(&text, entry)).collect();
    if missing.is_empty() {
        return Ok(missing);
    }
    let ending = if text.ends_with(b"\r\n") { "\r\n" } else { "\n" };
    if !text.is_empty() && !text.ends_with(b"\n") {
        text.extend_from_slice(ending.as_bytes());
    }
    for entry in &missing {
        text.extend_from_slice(format!("{entry}{ending}").as_bytes());
    }
    fsutil::replace(path, &text).map_err(|error| cannot("write", path, &error))?;
    Ok(missing)
}

/// Whether a line of a `.gitignore` is `entry`, with or without the slashes at its ends.
fn is_ignored(text: &[u8], entry: &str) -> bool {
    let bare = entry.trim_matches('/').as_bytes();
    text.split(|byte| *byte == b'\n').any(|line| {
        let line = line.trim_ascii();
        let line = line.strip_prefix(b"/").unwrap_or(line);
        line.strip_suffix(b"/").unwrap_or(line) == bare
    })
}

fn cannot(verb: &str, path: &Path, error: &std::io::Error) -> Error {
    Error::because(&format!("{verb} {}", path.display()), error)
        .hint("`aynig init` can be repeated once that is mended; what it made stays")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_recognised_in_every_spelling() {
        for line in [".worktrees/", "/.worktrees", "/.worktrees/\r", ".worktrees"] {
            assert!(is_ignored(format!("target\n{line}\nx\n").as_bytes(), ".worktrees/"), "{line:?}");
        }
        for line in ["# .worktrees/", ".worktrees2", "!.worktrees/", ""] {
            assert!(!is_ignored(line.as_bytes(), ".worktrees/"), "{line:?}");
        }
    }
}
