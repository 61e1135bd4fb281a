//! Parses `git config --list`, and extracts the settings that come from the environment.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use bstr::{BString, ByteSlice};

use crate::git::process::call::{Git, ProcessError};
use crate::git::worktrees::held::Identity;

/// A setting in a file of the repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Executing {
    /// Its key, in git's spelling.
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) file: PathBuf,
}

/// Settings that execute as they were read, while the files that it was read from stay as they were.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) at: PathBuf,
    pub(crate) seen: Vec<Option<Identity>>,
    pub(crate) found: Vec<Executing>,
}

/// Whether a key, in git's spelling, is one of ours.
pub(crate) fn is_ours(key: &str) -> bool {
    key.starts_with("aynig.") || key == "commit.gpgsign"
}

/// Settings of ours that git takes from its environment, as `key=value`, or as `key` without a
/// value.
pub(crate) fn of_environment(
    git_dir: &Path,
    told: &[(&'static str, OsString)],
) -> Result<Vec<BString>, ProcessError> {
    if told.is_empty() {
        return Ok(Vec::new());
    }
    let output = listing(git_dir, told, &["--show-scope"])?;
    let given = parsed(&output).filter(|(scope, key, _)| scope == "command" && is_ours(key));
    Ok(given
        .map(|(_, key, value)| match value {
            Some(value) => format!("{key}={value}").into(),
            None => key.into(),
        })
        .collect())
}

/// The output of `git config --list`, with the options `show` (`--show-origin`, `--show-scope`).
pub(crate) fn listing(
    git_dir: &Path,
    told: &[(&'static str, OsString)],
    show: &[&str],
) -> Result<Vec<u8>, ProcessError> {
    let mut git = Git::new(git_dir).env("GIT_DIR", git_dir);
    for (name, value) in told {
        git = git.env(name, value);
    }
    git.args(["config", "--list", "-z"]).args(show).run().map(|output| output.stdout)
}

/// Splits a listing into entries of origin or scope, key, and value.
pub(crate) fn parsed(listing: &[u8]) -> impl Iterator<Item = (String, String, Option<String>)> {
    let mut parts = listing.split(|byte| *byte == 0);
    std::iter::from_fn(move || {
        let (before, entry) = (parts.next()?, parts.next()?);
        let (key, value) = match entry.split_once_str("\n") {
            Some((key, value)) => (key, Some(value.to_str_lossy().into_owned())),
            None => (entry, None),
        };
        let words = |text: &[u8]| text.to_str_lossy().into_owned();
        let origin = words(before);
        Some((origin.strip_prefix("file:").map(str::to_owned).unwrap_or(origin), words(key), value))
    })
}
