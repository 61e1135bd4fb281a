//! Reads the commits of a push that is still in quarantine, for a `pre-receive` hook on the server.
//!
//! Invariant: until the hook accepts the push, its objects are in a quarantine directory that only
//! git's variables for the hook lead to. So they are read by a `git` with these variables. Writes
//! nothing.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use bstr::{BString, ByteSlice};

use crate::contract::guard::{RUN_ID_HEADER, Tip};
use crate::contract::head::{CommitFacts, Head};
use crate::contract::ids::CommitId;
use crate::contract::message::Message;
use crate::git::process::call::{Git, ProcessError};
use crate::git::repo::open::ours;

/// The variables by which git leads a hook to objects outside the repository's object directories.
pub const OBJECT_VARIABLES: [&str; 3] =
    ["GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_SHALLOW_FILE"];

/// A repository with the objects of a push in quarantine.
#[derive(Debug)]
pub struct Quarantine {
    git_dir: PathBuf,
    variables: Vec<(&'static str, OsString)>,
}

impl Quarantine {
    /// `variables` as git passed them to the hook.
    pub fn new(git_dir: &Path, variables: &[(&'static str, OsString)]) -> Self {
        Self { git_dir: git_dir.to_owned(), variables: variables.to_vec() }
    }

    fn git(&self) -> Git {
        self.variables.iter().fold(Git::shared(&self.git_dir), |git, (name, value)| git.env(name, value))
    }

    /// Reads commits in one call; leaves out ids that are missing or not commits.
    pub fn tips(&self, ids: &[CommitId]) -> Result<HashMap<CommitId, Tip>, ProcessError> {
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let asked: String = ids.iter().map(|id| format!("{id}\n")).collect();
        let output = self.git().args(["cat-file", "--batch"]).stdin(asked).run()?;
        Ok(batch(&output.stdout).into_iter().map(|tip| (tip.id, tip)).collect())
    }

    /// Whether `new` is `old` or descends from it.
    pub fn descends(&self, new: CommitId, old: CommitId) -> Result<bool, ProcessError> {
        let arguments =
            ["merge-base".to_owned(), "--is-ancestor".to_owned(), old.to_string(), new.to_string()];
        let output = self.git().args(&arguments).run_unchecked()?;
        match output.status.code() {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            // Repeats the call for its error.
            Some(_) | None => self.git().args(&arguments).run().map(|_| true),
        }
    }
}

/// Parses the commits in the output of `git cat-file --batch`: `<id> <kind> <size>`, the content, a
/// newline.
fn batch(mut rest: &[u8]) -> Vec<Tip> {
    let mut tips = Vec::new();
    while let Some((line, after)) = rest.split_once_str("\n") {
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let [id, kind, size] = words.as_slice() else {
            // `<id> missing`
            rest = after;
            continue;
        };
        let Some(size) = size.to_str().ok().and_then(|size| size.parse::<usize>().ok()) else { break };
        let Some(content) = after.get(..size) else { break };
        if *kind == b"commit"
            && let Some(id) = CommitId::parse_hex(id)
            && let Some(tip) = tip(id, content)
        {
            tips.push(tip);
        }
        rest = after.get(size + 1..).unwrap_or_default();
    }
    tips
}

fn tip(id: CommitId, content: &[u8]) -> Option<Tip> {
    let kind = if id.to_string().len() == 40 { gix::hash::Kind::Sha1 } else { gix::hash::Kind::Sha256 };
    let commit = gix::objs::CommitRef::from_bytes(content, kind).ok()?;
    let committed_at = commit.committer().ok()?.time().map_or(0, |time| time.seconds);
    let message = BString::from(commit.message);
    let header = commit.extra_headers().find(RUN_ID_HEADER).map(BString::from);
    let trailer = Message::parse(&message).trailers.last("dwp-run-id").map(BString::from);
    Some(Tip {
        id,
        parents: commit.parents().map(|parent| ours(&parent)).collect(),
        head: Head::read(&CommitFacts { id, committed_at, message: &message }),
        run_ids: header.into_iter().chain(trailer).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_taken_apart() {
        let tree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
        let commit = format!(
            "tree {tree}\nauthor A <a@example.com> 5 +0000\ncommitter A <a@example.com> 7 +0000\n\
             aynig-run-id one\n\ns\n\ndwp-state: done\ndwp-run-id: two\n"
        );
        let (first, second) = ("1".repeat(40), "2".repeat(40));
        let answer = format!(
            "{first} missing\n{tree} tree 0\n\n{second} commit {}\n{commit}\n{first} commit 4\nodd!\n",
            commit.len()
        );
        let tips = batch(answer.as_bytes());
        assert_eq!(tips.len(), 1);
        assert_eq!(tips[0].id.to_string(), second);
        assert_eq!(tips[0].run_ids, [BString::from("one"), BString::from("two")]);
        assert!(matches!(tips[0].head, Head::Ready(_)));
    }
}
