//! Scripts of the base commit: they are taken from git's objects, so that nothing in the worktree rewrites them.
//!
//! A script finds the files beside it where it is: its directory is written whole, into a place of its own that goes
//! when it has ended.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::contract::ids::CommitId;
use crate::flow::document::Script;
use crate::flow::is_plain_path;
use crate::flow::substitution::fill;
use crate::git::Repo;
use crate::git::objects::revspec::Content;
use crate::words::error_chain;

/// The longest script, in bytes.
const MAX_SCRIPT: u64 = 16 * 1024 * 1024;

/// The values for the texts of a flow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Values<'a> {
    pub(crate) inputs: &'a BTreeMap<String, String>,
    pub(crate) run: &'a str,
}

impl Values<'_> {
    /// A text with the values.
    pub(crate) fn fill(&self, text: &str) -> String {
        fill(text, self.inputs, self.run)
    }

    /// The arguments of a script.
    pub(crate) fn args(&self, script: &Script) -> Vec<String> {
        script.args.iter().map(|text| self.fill(text)).collect()
    }

    /// The path of a script, which must stay in the repository.
    pub(crate) fn entrypoint(&self, script: &Script) -> Result<String, String> {
        let path = self.fill(&script.entrypoint.name);
        if is_plain_path(&path) { Ok(path) } else { Err(format!("{path:?} is no path in the repository")) }
    }
}

/// A script that can be started.
#[derive(Debug)]
pub(crate) struct Extracted {
    pub(crate) program: PathBuf,
    _place: TempDir,
}

/// Writes a script of a commit, with what is beside it, into a new directory in `room`.
pub(crate) fn extract(repo: &Repo, base: CommitId, path: &str, room: &Path) -> Result<Extracted, String> {
    let content = repo.content_at(base, path, MAX_SCRIPT).map_err(|error| error_chain(&error))?;
    match content {
        Some(Content::File { executable: true, .. }) => {}
        Some(Content::File { .. }) => return Err(format!("{path} is not executable in the base commit")),
        Some(Content::Directory | Content::Link(_)) => {
            return Err(format!("{path} is no file in the base commit"));
        }
        None => return Err(format!("the base commit has no {path}")),
    }
    let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
    let place = tempfile::Builder::new().prefix("script-").tempdir_in(room);
    let place = place.map_err(|error| format!("no place for {path}: {}", error_chain(&error)))?;
    repo.extract(base, directory, place.path()).map_err(|error| error_chain(&error))?;
    Ok(Extracted { program: place.path().join(name), _place: place })
}

/// A list of texts for a command line.
pub(crate) fn words(texts: impl IntoIterator<Item = String>) -> Vec<OsString> {
    texts.into_iter().map(OsString::from).collect()
}
