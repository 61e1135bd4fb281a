//! Remembers which warnings about a commit were printed, so that passes which nobody watches, such as those of
//! cron, do not repeat them.
//!
//! Invariant: losing the file, or a line of it, only costs a repeated warning. So no lock guards it, and errors
//! are ignored.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use bstr::{BString, ByteSlice};

use crate::contract::ids::{BranchName, CommitId, RemoteName};
use crate::contract::layout::Own;
use crate::fsutil;
use crate::git::Repo;

/// The size at which the file is put aside, in bytes: warnings about some 50,000 commits.
const MOST: u64 = 4 << 20;

/// The printed warnings of a repository.
#[derive(Debug)]
pub struct Said {
    file: PathBuf,
    remote: String,
    /// The newest commit for each kind of warning and branch. `None` until it was read.
    known: Option<HashMap<BString, CommitId>>,
}

impl Said {
    /// For warnings about the branches of a remote, or of this repository.
    pub fn new(repo: &Repo, remote: Option<&RemoteName>) -> Self {
        let file = Own::Said.within(repo.common_dir());
        Self { file, remote: remote.map_or("-", RemoteName::as_str).to_owned(), known: None }
    }

    /// Records a warning of the kind `word`. Returns whether it is the first of its kind about this commit.
    pub fn is_first(&mut self, word: &str, (branch, head): &(BranchName, CommitId)) -> bool {
        let mut key = BString::from(format!("{word} {} ", self.remote));
        key.extend_from_slice(branch.as_bstr());
        let known = self.known.get_or_insert_with(|| parse(&read(&self.file).unwrap_or_default()));
        if known.get(&key) == Some(head) {
            return false;
        }
        known.insert(key.clone(), *head);
        let line = [head.to_string().as_bytes(), b" ", &key, b"\n"].concat();
        if let Err(error) = self.note(&line) {
            tracing::debug!(%error, "a warning is not remembered, and will be repeated");
        }
        true
    }

    fn note(&self, line: &[u8]) -> io::Result<()> {
        fsutil::create_dir(self.file.parent().unwrap_or(&self.file))?;
        fsutil::open_shared_log(&self.file, MOST)?.write_all(line)
    }
}

/// Reads the file. Whatever is in its place, this takes no longer than a file of the usual size.
fn read(file: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    fsutil::open_plain(file)?.take(MOST).read_to_end(&mut text)?;
    Ok(text)
}

/// The last line of each kind and branch counts. A line that cannot be read is skipped.
fn parse(text: &[u8]) -> HashMap<BString, CommitId> {
    let lines = text.lines().filter_map(|line| line.split_once_str(" "));
    lines.filter_map(|(head, key)| Some((key.into(), CommitId::parse_hex(head)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_counts_and_a_torn_one_does_not() {
        let (one, two) = ("1".repeat(40), "2".repeat(40));
        let known =
            parse(format!("{one} a - task\n{one} a - other\n{two} a - task\n{}", &one[..9]).as_bytes());
        let head = |key: &str| known.get(key.as_bytes().as_bstr()).map(ToString::to_string);
        assert_eq!((head("a - task"), head("a - other"), known.len()), (Some(two), Some(one), 2));
    }
}
