//! Settings of the repository itself that make git run a program, or work elsewhere.
//!
//! Why only its own files: a user's and the system's settings are out of reach of what works in a
//! worktree, as far as this program is concerned.

use std::path::{Path, PathBuf};

use bstr::ByteSlice;

use crate::git::process::call::ProcessError;
use crate::git::repo::listing::listing;
use crate::git::repo::open::Repo;

/// A setting in a file of the repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Executing {
    /// Its key, in git's spelling.
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) file: PathBuf,
}

impl Repo {
    /// The settings of the repository that make git run a program or work elsewhere, as they apply
    /// to the git directory `at`.
    pub(crate) fn executing_settings(&self, at: &Path) -> Result<Vec<Executing>, ProcessError> {
        let listed = listing(at, &[], &["--show-scope", "--show-origin"])?;
        let mut parts = listed.split(|byte| *byte == 0);
        let entries = std::iter::from_fn(|| Some((parts.next()?, parts.next()?, parts.next()?)));
        let own = entries.filter(|(scope, ..)| [&b"local"[..], b"worktree"].contains(scope));
        Ok(own
            .filter_map(|(_, origin, entry)| {
                let (key, value) = entry.split_once_str("\n").unwrap_or((entry, b""));
                let words = |text: &[u8]| text.to_str_lossy().into_owned();
                let file = at.join(words(origin.strip_prefix(b"file:").unwrap_or(origin)));
                let file = file.canonicalize().unwrap_or(file);
                let found = Executing { key: words(key), value: words(value), file };
                executes(&found.key).then_some(found)
            })
            .collect())
    }
}

/// Whether git runs the value of this key, reads settings from it, or works where it says.
fn executes(key: &str) -> bool {
    let (Some((section, _)), Some((_, name))) = (key.split_once('.'), key.rsplit_once('.')) else {
        return false;
    };
    let names: &[&str] = match section {
        "core" => &[
            "alternaterefscommand",
            "askpass",
            "editor",
            "fsmonitor",
            "gitproxy",
            "hookspath",
            "pager",
            "sshcommand",
            "worktree",
        ],
        "credential" => &["helper"],
        "diff" => &["command", "external", "textconv"],
        "extensions" => &["partialclone"],
        "filter" => &["clean", "process", "smudge"],
        "gpg" => &["defaultkeycommand", "program"],
        "hook" => &["command"],
        "include" | "includeif" => &["path"],
        "merge" => &["driver"],
        "remote" => &["promisor", "receivepack", "uploadpack", "vcs"],
        "sequence" => &["editor"],
        _ => return false,
    };
    names.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CONTRACT 15.12
    #[test]
    fn keys_that_execute() {
        for key in [
            "filter.a.b.clean",
            "core.fsmonitor",
            "include.path",
            "includeif.gitdir:/x.path",
            "gpg.ssh.program",
        ] {
            assert!(executes(key), "{key}");
        }
        for key in [
            "core.bare",
            "user.name",
            "remote.origin.url",
            "filter.clean.required",
            "clean",
            "branch.core.merge",
        ] {
            assert!(!executes(key), "{key}");
        }
    }
}
