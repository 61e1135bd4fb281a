//! The history of a branch: its story.
//!
//! Invariant: a history is read lazily and from the commits alone, along first parents.
//! `contract::story` decides which commits belong together. Only logs and rescued work are looked
//! up on this host ([`host`]).

pub mod host;

use crate::contract::ids::{BranchName, CommitId};
use crate::contract::story::{Entry, Story};
use crate::git::objects::commits::Signed;
use crate::git::{CommitError, Repo};

use crate::runner::authority::Authority;

use super::error::Error;
use super::view::deferred::waiting;
use super::view::story::EntryView;
use host::Host;

/// The error for a history that cannot be read to its end.
pub fn unreadable(branch: &BranchName, error: &CommitError) -> Error {
    Error::because(&format!("read the history of {branch}"), error).hint("`git fsck` may tell more")
}

/// At most `most` entries of a branch for `--json`, the newest first: what waits beside it, and its history from `head`
/// downwards.
pub fn views(
    repo: &Repo,
    authority: &Authority,
    (branch, head): (&BranchName, CommitId),
    most: usize,
) -> Result<Vec<EntryView>, Error> {
    let host = Host::new(repo);
    let waiting = waiting(repo, authority, branch).map(|waiting| Ok(EntryView::Deferred(waiting)));
    let history = History::new(repo, branch, head, most);
    let told = history.map(|entry| entry.map(|entry| EntryView::new(&host, &entry)));
    waiting.into_iter().chain(told).collect()
}

/// The entries of a branch, newest first, read lazily.
pub struct History<'a> {
    commits: Box<dyn Iterator<Item = Result<Signed, CommitError>> + 'a>,
    story: Option<Story>,
    ready: std::vec::IntoIter<Entry>,
    branch: &'a BranchName,
    left: usize,
    /// Whether the last commit that was read has a parent.
    goes_on: bool,
}

impl<'a> History<'a> {
    /// Reads at most `left` entries, from `head` downwards.
    pub fn new(repo: &'a Repo, branch: &'a BranchName, head: CommitId, left: usize) -> Self {
        let commits = Box::new(repo.signed_history(head));
        let ready = Vec::new().into_iter();
        Self { commits, story: Some(Story::new()), ready, branch, left, goes_on: false }
    }

    /// Whether all commits of this clone were read, and the history continues beyond them (a
    /// shallow clone).
    pub fn is_cut_off(&self) -> bool {
        self.story.is_none() && self.goes_on
    }
}

impl Iterator for History<'_> {
    type Item = Result<Entry, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        loop {
            if let Some(entry) = self.ready.next() {
                self.left -= 1;
                return Some(Ok(entry));
            }
            let story = self.story.as_mut()?;
            self.ready = match self.commits.next() {
                Some(Ok(signed)) => {
                    self.goes_on = !signed.stored.parents.is_empty();
                    story.add(&signed.told())
                }
                Some(Err(error)) => {
                    self.story = None;
                    return Some(Err(unreadable(self.branch, &error)));
                }
                None => self.story.take().map(Story::end).unwrap_or_default(),
            }
            .into_iter();
        }
    }
}
