//! Finds out whether a branch has the contents of a commit: by reachability, by a merge, or by a
//! squash.
//!
//! Invariant: an answer other than `None` means that the branch has the contents. Every doubt (no
//! common history, no changed file, a patch that differs in one byte, white space included) is
//! `None`. Writes nothing. Trees are compared in this process; the `git` program is called for
//! patches and for refs that contain a commit.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use bstr::{BString, ByteSlice};
use gix::ObjectId;

use crate::contract::ids::{BranchName, CommitId, RemoteName};
use crate::contract::layout::{BRANCHES, FETCHED, TRACKED, fetched_ref};
use crate::fsutil;
use crate::git::objects::commits::CommitError;
use crate::git::objects::merge::Merge;
use crate::git::process::call::{Git, ProcessError};
use crate::git::refs::cas::RefError;
use crate::git::repo::open::{Repo, gits};

/// The most paths passed to `git log`.
const MAX_PATHS: usize = 200;

/// The most commits of a branch that are searched for a patch.
const MAX_COMMITS: &str = "1000";

/// How a branch has the contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Landed {
    /// The commit itself is reachable.
    Reachable,
    /// The branch's newest tree has all paths it changes, with equal contents.
    SameFiles,
    /// One commit of the branch makes the same change to all these paths.
    SamePatch,
}

/// Why the question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum LandedError {
    /// An object could not be read.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// Git refused.
    #[error(transparent)]
    Git(#[from] ProcessError),
    /// Refs could not be read.
    #[error(transparent)]
    Refs(#[from] RefError),
}

/// A path, and a tree's entry there: its mode and object; `None` if it has none.
type Change = (BString, Option<(u16, ObjectId)>);

/// The entries of one directory, by name.
type Entries = BTreeMap<BString, (u16, ObjectId)>;

/// Finds entries of one tree by path. Each directory is read once, since one with many files is slow to read.
pub(super) struct EntriesByPath<'r> {
    repo: &'r Repo,
    root: ObjectId,
    read: HashMap<ObjectId, Entries>,
}

impl EntriesByPath<'_> {
    /// The mode and the object at a path; `None` if the tree has none.
    pub(super) fn at(&mut self, path: &BString) -> Result<Option<(u16, ObjectId)>, CommitError> {
        let mut found = Some((TREE, self.root));
        for part in path.split_str("/") {
            let Some((TREE, tree)) = found else { return Ok(None) };
            let entries = match self.read.entry(tree) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) => place.insert(self.repo.entries(Some(tree))?),
            };
            found = entries.get(part.as_bstr()).copied();
        }
        Ok(found)
    }
}

impl Repo {
    /// The full ref name of a branch, local or fetched from a remote, from which `commit` is
    /// reachable.
    pub(crate) fn branch_with(&self, commit: CommitId) -> Result<Option<BString>, ProcessError> {
        self.held_below(commit, &BRANCHES)
    }

    /// How the history of `tip` has the contents of `commit`; `None` if it does not, or if `commit`
    /// changes no file.
    pub(crate) fn landed(&self, commit: CommitId, tip: CommitId) -> Result<Option<Landed>, LandedError> {
        if self.descends(tip, commit) {
            return Ok(Some(Landed::Reachable));
        }
        let Some(base) = self.common_base(commit, tip) else { return Ok(None) };
        self.landed_since(base, commit, tip)
    }

    /// Whether the history of `tip` has the change of `commit` alone.
    pub(crate) fn has_copy(&self, commit: CommitId, tip: CommitId) -> Result<bool, LandedError> {
        let base = self.commit(commit)?.parents.first().copied();
        base.map_or(Ok(false), |base| self.landed_since(base, commit, tip).map(|landed| landed.is_some()))
    }

    fn landed_since(
        &self,
        base: CommitId,
        commit: CommitId,
        tip: CommitId,
    ) -> Result<Option<Landed>, LandedError> {
        let changes = self.changes(self.commit(base)?.tree, self.commit(commit)?.tree)?;
        if changes.is_empty() {
            return Ok(None);
        }
        if self.holds(self.commit(tip)?.tree, &changes)? {
            return Ok(Some(Landed::SameFiles));
        }
        let paths: Vec<BString> = changes.into_iter().map(|(path, _)| path).collect();
        Ok(self.same_patch(base, commit, tip, &paths)?.then_some(Landed::SamePatch))
    }

    /// Whether every path that differs between `base` and `tree` is in `other` as in `tree`; true
    /// if none differs.
    pub(crate) fn tree_landed(
        &self,
        base: CommitId,
        tree: CommitId,
        other: CommitId,
    ) -> Result<bool, CommitError> {
        let changes = self.changes(base, tree)?;
        self.holds(other, &changes)
    }

    /// The commit that two have in common.
    pub(crate) fn common_base(&self, one: CommitId, other: CommitId) -> Option<CommitId> {
        self.merge_base(one, other).ok().flatten()
    }

    fn holds(&self, tree: CommitId, changes: &[Change]) -> Result<bool, CommitError> {
        let mut there = self.entries_by_path(tree);
        for (path, wanted) in changes {
            if there.at(path)? != *wanted {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(super) fn entries_by_path(&self, tree: CommitId) -> EntriesByPath<'_> {
        EntriesByPath { repo: self, root: gits(tree), read: HashMap::new() }
    }

    /// The paths that only the second tree has.
    pub(crate) fn new_paths(&self, old: CommitId, new: CommitId) -> Result<Vec<BString>, CommitError> {
        let (mut found, mut known) = (Vec::new(), self.entries_by_path(old));
        for (path, entry) in self.changes(old, new)? {
            if entry.is_some() && known.at(&path)?.is_none() {
                found.push(path);
            }
        }
        Ok(found)
    }

    /// Whether a tree has a file that none of the `others` has with the same contents at its path.
    pub(crate) fn has_more(&self, tree: CommitId, others: [CommitId; 2]) -> Result<bool, CommitError> {
        let [one, other] = others;
        let mut there = self.entries_by_path(other);
        for (path, entry) in self.changes(one, tree)? {
            if entry.is_some() && there.at(&path)? != entry {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The paths that differ, as `new` has them.
    pub(crate) fn changes(&self, old: CommitId, new: CommitId) -> Result<Vec<Change>, CommitError> {
        let mut found = Vec::new();
        if old == new {
            return Ok(found);
        }
        self.compare(Some(gits(old)), Some(gits(new)), &BString::default(), &mut found)?;
        Ok(found)
    }

    fn compare(
        &self,
        old: Option<ObjectId>,
        new: Option<ObjectId>,
        above: &BString,
        found: &mut Vec<Change>,
    ) -> Result<(), CommitError> {
        let (old, new) = (self.entries(old)?, self.entries(new)?);
        let names = old.keys().chain(new.keys().filter(|name| !old.contains_key(*name)));
        for name in names {
            let (before, after) = (old.get(name), new.get(name));
            if before == after {
                continue;
            }
            let mut path = above.clone();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name);
            let tree =
                |entry: Option<&(u16, ObjectId)>| entry.filter(|(mode, _)| *mode == TREE).map(|(_, id)| *id);
            let file = |entry: Option<&(u16, ObjectId)>| entry.filter(|(mode, _)| *mode != TREE).copied();
            if tree(before).is_some() || tree(after).is_some() {
                self.compare(tree(before), tree(after), &path, found)?;
            }
            match (file(before), file(after)) {
                (None, None) => {}
                // A directory replaces the file: its entries are listed instead.
                (Some(_), None) if tree(after).is_some() => {}
                (_, after) => found.push((path, after)),
            }
        }
        Ok(())
    }

    fn entries(&self, tree: Option<ObjectId>) -> Result<Entries, CommitError> {
        let entries = tree.map_or(Ok(Vec::new()), |tree| self.entries_of(tree))?;
        Ok(entries.into_iter().map(|entry| (entry.name, (entry.mode.value(), entry.id))).collect())
    }

    /// Whether one commit between `base` and `tip` makes exactly the change to `paths` between
    /// `base` and `commit`.
    fn same_patch(
        &self,
        base: CommitId,
        commit: CommitId,
        tip: CommitId,
        paths: &[BString],
    ) -> Result<bool, LandedError> {
        if paths.len() > MAX_PATHS {
            return Ok(false);
        }
        let git = || Git::shared(self.common_dir()).arg("--literal-pathspecs");
        let whole = git().arg("diff-tree").args(PATCH).args([base.to_string(), commit.to_string()]).run()?;
        let wanted = normal(&whole.stdout);
        if wanted.is_empty() {
            return Ok(false);
        }
        let mut log = git().args(["log", "--no-merges", "--format=%x00%H", "--max-count", MAX_COMMITS]);
        log = log.args(PATCH).arg(format!("{base}..{tip}")).arg("--");
        for path in paths {
            log = log.arg(path.to_os_str_lossy());
        }
        let output = log.run()?;
        let alike = output.stdout.split(|byte| *byte == 0).filter(|patch| normal(patch) == wanted);
        for one in alike.filter_map(|patch| CommitId::parse_hex(patch.lines().next()?)) {
            if self.makes_files_of(one, commit, paths)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether `one` has these files as a merge of `commit` into its parent makes them. A patch alone can be at another
    /// place of a file with the same lines around it.
    fn makes_files_of(
        &self,
        one: CommitId,
        commit: CommitId,
        paths: &[BString],
    ) -> Result<bool, LandedError> {
        let one = self.commit(one)?;
        let [parent] = one.parents[..] else { return Ok(false) };
        let Ok(Merge::Clean(merged)) = self.merge_trees(parent, commit, parent) else { return Ok(false) };
        let (mut merged, mut made) = (self.entries_by_path(merged), self.entries_by_path(one.tree));
        for path in paths {
            if merged.at(path)? != made.at(path)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The tips of local branches and of branches that a runner fetched.
    pub(crate) fn branch_tips(&self) -> Result<Vec<CommitId>, RefError> {
        let all = self.branches()?.into_iter().chain(self.tips(FETCHED)?);
        Ok(all.filter_map(|tip| tip.target.ok()).collect())
    }

    /// The main branch and its tip: the one named, else HEAD of `origin`, else `main` or `master`. `remote` is the one that
    /// decides, if any: what a runner last fetched of it counts if that is newer.
    pub fn main_branch(
        &self,
        named: Option<&BranchName>,
        remote: Option<&RemoteName>,
    ) -> Result<Option<(BString, CommitId)>, RefError> {
        let known = self.known_main(named)?;
        let Some(remote) = remote else { return Ok(known) };
        let Some(branch) = named.cloned().or_else(|| self.default_branch(Some(remote))) else {
            return Ok(known);
        };
        let fetched = self.fetched_head(remote, &branch)?;
        let newer = fetched.filter(|new| known.as_ref().is_none_or(|(_, old)| self.descends(*new, *old)));
        Ok(newer.map(|new| (fetched_ref(remote, &branch), new)).or(known))
    }

    fn known_main(&self, named: Option<&BranchName>) -> Result<Option<(BString, CommitId)>, RefError> {
        let mut names: Vec<BString> = Vec::new();
        match named {
            Some(branch) => {
                names.push(branch.full_ref());
                names.push(format!("{TRACKED}{branch}").into());
                names.push(format!("{TRACKED}origin/{branch}").into());
            }
            None => {
                let head = fsutil::read_plain(self.common_dir().join("refs/remotes/origin/HEAD"))
                    .unwrap_or_default();
                names.extend(head.strip_prefix(b"ref:").map(|name| name.trim().into()));
                names.extend(["refs/heads/main", "refs/heads/master"].map(BString::from));
            }
        }
        for name in names {
            if let Some(tip) = self.read_ref(name.as_bstr())? {
                return Ok(Some((name, tip)));
            }
        }
        Ok(None)
    }
}

pub(super) const TREE: u16 = 0o040_000;

/// Fixes the format of patches, whatever the configuration.
const PATCH: [&str; 15] = [
    "-r",
    "-p",
    "-U3",
    "--binary",
    "--full-index",
    "--no-renames",
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--diff-algorithm=myers",
    "--src-prefix=a/",
    "--dst-prefix=b/",
    "--inter-hunk-context=0",
    "--no-indent-heuristic",
    "--submodule=short",
];

/// Strips what depends on where a patch is applied: object ids of text files and line numbers.
fn normal(patch: &[u8]) -> Vec<&[u8]> {
    let mut lines = Vec::new();
    let mut in_patch = false;
    for line in patch.lines() {
        in_patch |= line.starts_with(b"diff --git ");
        if !in_patch || line.starts_with(b"index ") {
            continue;
        }
        lines.push(if line.starts_with(b"@@ ") { b"@@".as_slice() } else { line });
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_are_compared_without_places() {
        let one =
            b"\n\ndiff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n@@ -1,3 +1,4 @@ fn\n a\n+b\n";
        let moved = b"diff --git a/x b/x\nindex 3..4 100644\n--- a/x\n+++ b/x\n@@ -9,3 +12,4 @@\n a\n+b\n\n";
        let blank = b"diff --git a/x b/x\nindex 3..4 100644\n--- a/x\n+++ b/x\n@@ -9,3 +12,4 @@\n a\n+ b\n";
        assert_eq!(normal(one), normal(&moved[..moved.len() - 1]));
        assert_ne!(normal(one), normal(blank), "white space counts");
        assert!(normal(b"\nno patch\n").is_empty());
    }
}
