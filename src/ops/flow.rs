//! Flow files: reads them, and the files of a base commit that they name.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::error::Error;
use crate::contract::ids::CommitId;
use crate::flow::base::{Found, MAX_FILE, compare, paths};
use crate::flow::document::Flow;
use crate::flow::fault::Note;
use crate::flow::yaml::MAX_BYTES;
use crate::git::Repo;
use crate::git::objects::revspec::Content;

/// Reads a flow file, or standard input for `-`. Reads one byte more than a flow may have at most.
pub fn read(start: &Path, file: &Path) -> Result<Vec<u8>, Error> {
    let most = u64::try_from(MAX_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    let read = if file == Path::new("-") {
        std::io::stdin().lock().take(most).read_to_end(&mut bytes)
    } else {
        File::open(start.join(file)).and_then(|open| open.take(most).read_to_end(&mut bytes))
    };
    match read {
        Ok(_) => Ok(bytes),
        Err(error) => Err(Error::usage(format!("could not read {}: {error}", file.display()))
            .hint("name a flow file, or `-` for standard input")),
    }
}

/// Resolves a base as git does: its full name, and its commit.
pub fn base(repo: &Repo, name: &str) -> Result<(String, CommitId), Error> {
    repo.named_as_git_does(name).map_err(|error| {
        Error::usage(format!("--base: {error}")).hint("`git for-each-ref` lists the refs there are")
    })
}

/// Compares a flow with the files of a base commit. Returns the commit, and the notes by position.
pub fn against_base(repo: &Repo, flow: &Flow, base: &str) -> Result<(CommitId, Vec<Note>), Error> {
    let (_, commit) = self::base(repo, base)?;
    let mut files = BTreeMap::new();
    for path in paths(flow) {
        let content = repo
            .content_at(commit, &path, MAX_FILE)
            .map_err(|error| Error::because(&format!("read the files of {base}"), &error))?;
        let found = match content {
            None => Found::Nothing,
            Some(Content::File { bytes, executable }) => Found::File { content: bytes, executable },
            Some(Content::Directory | Content::Link(_)) => Found::Other,
        };
        files.insert(path, found);
    }
    Ok((commit, compare(flow, base, &files)))
}
