//! The tree of an index, and whether a checkout has changes.
//!
//! Invariant: never changes a user's index; snapshots work on a copy of it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use bstr::ByteSlice;
use tempfile::TempDir;

use crate::contract::ids::CommitId;
use crate::fsutil;
use crate::git::objects::commits::CommitError;
use crate::git::objects::differences::SUBMODULE;
use crate::git::process::call::{Git, ProcessError};
use crate::git::repo::open::Repo;
use crate::git::worktrees::held::{Identity, Worktree};
use crate::git::worktrees::registration::{Checkout, Workplace};

impl Repo {
    /// Writes the tree of the index of a user's checkout. Fails while the index contains conflicts
    /// or is locked.
    pub fn index_tree(&self, checkout: &Checkout) -> Result<CommitId, ProcessError> {
        self.stored_tree(Git::inside(&checkout.path, &checkout.git_dir))
    }

    /// Writes the tree of the index of an attempt's worktree. Fails while the index contains
    /// conflicts, and if it is missing: git would take that for an empty index.
    pub(crate) fn staged_tree(&self, worktree: &Worktree) -> Result<CommitId, ProcessError> {
        let own = worktree.git_dir.join("index");
        if let Some(tree) = self.index_file(&own).and_then(|index_file| self.noted_tree(&index_file)) {
            return Ok(tree);
        }
        let copy = IndexCopy::of(worktree)?;
        if copy.own.is_none() {
            let gone = std::io::Error::new(std::io::ErrorKind::NotFound, "the index is not there any more");
            return Err(copy.failed(gone));
        }
        self.stored_tree(copy.git())
    }

    /// Makes the index that of a tree, and leaves the files alone. Files outside of a sparse checkout stay marked so.
    /// `false` if the index is not the one that was looked at any more, or is locked: somebody stages something.
    pub(crate) fn set_index(
        &self,
        worktree: &Worktree,
        tree: CommitId,
        looked_at: &Inside,
    ) -> Result<bool, ProcessError> {
        let copy = IndexCopy::of(worktree)?;
        if copy.own != looked_at.noted.as_ref().map(|noted| noted.own) {
            return Ok(false);
        }
        match looked_at.noted.as_ref().filter(|_| tree == looked_at.files) {
            // Git has written the very index that is due.
            Some(noted) if self.is_plain_index_of(&noted.index(), tree) => {
                std::fs::copy(noted.index(), &copy.file).map_err(|source| copy.failed(source))?;
                date_as(&copy.file, &noted.index()).map_err(|source| copy.failed(source))?;
            }
            Some(_) | None => {
                copy.git().args(["read-tree", "--reset", "-i", &tree.to_string()]).run()?;
                // Exits with 1 if a file differs.
                copy.git().args(["update-index", "-q", "--refresh"]).run_unchecked()?;
            }
        }
        copy.replace().map_err(|source| copy.failed(source))
    }

    /// Whether the index in `file` is whole, compares all files, and is that of `tree`.
    fn is_plain_index_of(&self, file: &Path, tree: CommitId) -> bool {
        self.index_file(file)
            .is_some_and(|index_file| !index_file.overlooks_files() && self.is_index_of(&index_file, tree))
    }

    /// Puts an index that git cannot read aside: it is made anew, and has nothing but what was staged. Returns the new
    /// path of the old one.
    pub(crate) fn set_damaged_index_aside(&self, worktree: &Worktree) -> std::io::Result<Option<PathBuf>> {
        let index = worktree.git_dir.join(INDEX);
        let reads =
            |index: &Path| worktree.git(["ls-files", "-z"]).env("GIT_INDEX_FILE", index).run().is_ok();
        // If git does not work with another one either, the index is not to blame.
        let is_damaged = index.symlink_metadata().is_ok()
            && !(self.is_whole_index(&index) && reads(&index))
            && reads(&worktree.git_dir.join(NO_INDEX));
        is_damaged.then(|| fsutil::set_aside(&index)).transpose()
    }

    /// Makes the files those of one tree, and the index that of another.
    pub(crate) fn restore_files(
        &self,
        worktree: &Workplace,
        files: CommitId,
        index: CommitId,
    ) -> Result<(), ProcessError> {
        worktree.fill(files)?;
        self.reset_index(worktree, index)
    }

    /// The same for a worktree with the files of `now`: those that `files` does not have are removed.
    pub(crate) fn take_back(
        &self,
        worktree: &Worktree,
        now: CommitId,
        files: CommitId,
        index: CommitId,
    ) -> Result<(), ProcessError> {
        // Git removes only files that the index has.
        self.reset_index(worktree, now)?;
        self.restore_files(worktree, files, index)
    }

    fn reset_index(&self, worktree: &Workplace, tree: CommitId) -> Result<(), ProcessError> {
        worktree.git(["read-tree", "--reset", "-i", &tree.to_string()]).run()?;
        // Exits with 1 if a file differs.
        worktree.git(["update-index", "-q", "--refresh"]).run_unchecked().map(drop)
    }

    fn stored_tree(&self, git: Git) -> Result<CommitId, ProcessError> {
        let tree = tree_id(git.arg("write-tree"))?;
        // Git treats the empty tree as present and does not always write it. `git fsck` and other
        // readers would then miss it.
        if let Err(error) = self.empty_tree_if(tree) {
            tracing::warn!(%error, "the empty tree could not be stored");
        }
        Ok(tree)
    }

    /// Paths with conflicts in the index of the checkout at `path`, lossily decoded.
    pub fn conflicts(&self, path: &Path) -> Result<Vec<String>, ProcessError> {
        let output = Git::new(path).args(["ls-files", "--unmerged", "-z", "--", ":/"]).run()?;
        // "<mode> <id> <stage>\t<path>", once for each side of a conflict
        let names = output.stdout.split(|byte| *byte == 0).filter_map(|entry| entry.split_once_str("\t"));
        let mut paths: Vec<String> = names.map(|(_, name)| name.to_str_lossy().into_owned()).collect();
        paths.dedup();
        Ok(paths)
    }

    /// Whether the index of the checkout at `path` equals the tree of its HEAD.
    pub(crate) fn index_equals_head(&self, path: &Path) -> Result<bool, ProcessError> {
        let output = Git::new(path)
            .env("GIT_OPTIONAL_LOCKS", "0")
            .args(["diff-index", "--cached", "--quiet", "--ignore-submodules=none", "HEAD"])
            .run_unchecked()?;
        match output.status.code() {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            _ => Git::new(path).args(["diff-index", "--cached", "--quiet", "HEAD"]).run().map(|_| true),
        }
    }

    /// Whether a worktree has nothing staged, unstaged or untracked (ignored files do not count),
    /// and no submodule whose contents exist nowhere else.
    pub(crate) fn is_clean(&self, worktree: &Worktree) -> Result<bool, ProcessError> {
        if self.is_here(&worktree.path, &worktree.git_dir) != Ok(true)
            || self.may_have_in_progress(&worktree.git_dir)
            || worktree.is_another_repository()
            || !self.programmed_submodules(worktree)?.is_empty()
            || !self.unsaved_submodules(worktree)?.is_empty()
        {
            return Ok(false);
        }
        let index = worktree.git_dir.join("index");
        // The index's metadata is read before its contents: an index rewritten in between must not
        // make its entries look old.
        let age = index.metadata();
        let Some(index_file) = self.index_file(&index) else { return Ok(false) };
        // Git would not compare some of the files.
        if index_file.overlooks_files() {
            return Ok(false);
        }
        if age.is_ok_and(|age| self.is_untouched(worktree, &index_file, &age)) {
            return self.has_filtered(worktree).map(|has| !has);
        }
        let status = ["status", "--porcelain", "-z", "--untracked-files=normal", "--ignore-submodules=none"];
        let output = worktree
            .git([])
            .args(self.with_cases())
            .args(status)
            .args(["--no-renames", "--ignored=no"])
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_NO_LAZY_FETCH", "1")
            .run_over_all()?;
        Ok(output.stdout.is_empty()
            && self.hidden_contents(worktree)?.is_empty()
            && !self.has_filtered(worktree)?)
    }

    /// Writes two trees of a worktree: of all its files (tracked ones as they are on disk, and
    /// untracked ones that are not ignored), and of its index. Paths with conflicts in the index
    /// are taken from disk. The worktree's own index is left alone, and may be locked.
    ///
    /// `base` is a tree that most of it is in.
    pub(crate) fn snapshot_trees(&self, worktree: &Worktree, base: CommitId) -> Result<Inside, ProcessError> {
        let copy = IndexCopy::of(worktree)?;
        let stored = || {
            let known = self.index_file(&copy.file).and_then(|index_file| self.tree_of(&index_file, base));
            known.map_or_else(|| self.stored_tree(copy.git()), Ok)
        };
        let staged = match stored() {
            Ok(tree) => tree,
            Err(_) => {
                copy.settle_conflicts()?;
                match self.stored_tree(copy.git()) {
                    Err(_) if copy.drop_missing(self)? => self.stored_tree(copy.git())?,
                    stored => stored?,
                }
            }
        };
        if !worktree.path.is_dir() {
            return Ok(Inside { files: staged, whole: staged, index: staged, noted: None });
        }
        let mut add = copy.git().args(self.with_cases());
        add = add.args(["-c", "advice.addEmbeddedRepo=false", "-c", "core.safecrlf=false"]);
        // Each of these makes git look at all files once more.
        if self.index_file(&copy.file).is_none_or(|index_file| index_file.overlooks_files()) {
            // Exits with 1 if a file differs, which is expected here.
            copy.git().args(["update-index", "-q", "--really-refresh"]).run_unchecked()?;
            // Includes files that the index marks skip-worktree but that exist.
            add = add.args([
                "-c",
                "core.sparseCheckout=true",
                "-c",
                "sparse.expectFilesOutsideOfPatterns=false",
            ]);
        }
        // Git looks into submodules. Without their locks it runs none of their hooks.
        add.env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_NO_LAZY_FETCH", "1")
            .args(["add", "--all", "--sparse", "--", "."])
            .run_over_all()?;
        let files = stored()?;
        // A worktree that was never checked out has nothing staged.
        let index = if copy.own.is_some() { staged } else { files };
        Ok(Inside { files, whole: files, index, noted: copy.noted() })
    }

    /// The options of git by which two names that differ in their case are two files, where they are: `core.ignoreCase` may
    /// have come with a copy from a file system on which they are one, and git then passes over the second.
    pub(super) fn with_cases(&self) -> &'static [&'static str] {
        let head = |name: &str| self.common_dir().join(name).symlink_metadata().is_ok();
        let tells_apart = head("HEAD") && !head("head");
        if tells_apart { &["-c", "core.ignoreCase=false"] } else { &[] }
    }

    /// Paths that `newer` records as a gitlink and `older` does not, or with another commit. The
    /// contents of such a repository are not in our objects.
    pub(crate) fn foreign_repositories(
        &self,
        older: CommitId,
        newer: CommitId,
    ) -> Result<Vec<PathBuf>, CommitError> {
        let changed = self.changes(older, newer)?.into_iter();
        let links = changed.filter(|(_, entry)| entry.is_some_and(|(mode, _)| mode == SUBMODULE));
        Ok(links.map(|(path, _)| PathBuf::from(OsStr::from_bytes(&path))).collect())
    }
}

/// A copy of a worktree's index that git may lock and change. The original may be locked by a git
/// process that was killed, and must stay as it is.
struct IndexCopy<'a> {
    worktree: &'a Worktree,
    file: PathBuf,
    /// The index that was copied, if there was one.
    own: Option<Identity>,
    /// The directory of the copy, as it was before the worktree was read.
    begun: Option<Metadata>,
    directory: TempDir,
}

/// What is in a worktree.
pub(crate) struct Inside {
    /// The tree of its files.
    pub(crate) files: CommitId,
    /// The tree of its files with the contents that filters leave out (see [`filtered`](super::filtered)).
    pub(crate) whole: CommitId,
    /// The tree of its index.
    pub(crate) index: CommitId,
    /// How to see that both are still the same.
    pub(crate) noted: Option<Noted>,
}

/// The state of a worktree's files and index when they were read.
pub(crate) struct Noted {
    /// The worktree's own index.
    pub(super) own: Identity,
    /// A directory on that file system from the moment before the files were read.
    pub(super) since: Metadata,
    directory: TempDir,
}

impl Noted {
    /// An index that has all files as they were.
    pub(super) fn index(&self) -> PathBuf {
        self.directory.path().join(INDEX)
    }
}

/// The mode of a submodule in the index.
const GITLINK: &[u8] = b"160000";

/// A name in the private git directory that neither git nor aynig uses.
const NO_INDEX: &str = "aynig-no-index";

/// The name of an index in the directory of its copy.
const INDEX: &str = "index";

impl<'a> IndexCopy<'a> {
    fn of(worktree: &'a Worktree) -> Result<Self, ProcessError> {
        let failed = |source| copy_failed(worktree, source);
        let directory =
            tempfile::Builder::new().prefix("aynig-rescue-").tempdir_in(&worktree.git_dir).map_err(failed)?;
        let begun = directory.path().symlink_metadata().ok();
        let file = directory.path().join(INDEX);
        let index = worktree.git_dir.join("index");
        let identity = || index.symlink_metadata().ok().map(|found| Identity::of(&found));
        let own = identity();
        let own = match std::fs::copy(&index, &file) {
            Ok(_) => own.or_else(identity),
            // It was removed, or its checkout never began.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        if own.is_some() {
            // Racy git: git compares a file's time with the index's. A file that is not older may
            // have changed since it was staged.
            date_as(&file, &index).map_err(failed)?;
        }
        let copy = Self { worktree, file, own, begun, directory };
        if copy.own.is_none() {
            // Beginning from nothing would drop files that are tracked and also ignored.
            begin_index(worktree, || copy.git())?;
        }
        Ok(copy)
    }

    fn git(&self) -> Git {
        Git::inside(&self.worktree.path, &self.worktree.git_dir).env("GIT_INDEX_FILE", &self.file)
    }

    /// Puts the copy in the place of the index, if that is still the one that was copied, and no git has it locked. Git
    /// waits meanwhile.
    fn replace(&self) -> std::io::Result<bool> {
        let index = self.worktree.git_dir.join(INDEX);
        let lock = self.worktree.git_dir.join("index.lock");
        match std::fs::File::options().write(true).create_new(true).open(&lock) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => return Ok(false),
            made => drop(made?),
        }
        let now = index.symlink_metadata().ok().map(|found| Identity::of(&found));
        let is_same = now == self.own;
        let replaced = if is_same { std::fs::rename(&self.file, &index) } else { Ok(()) };
        std::fs::remove_file(&lock).and(replaced).map(|()| is_same)
    }

    fn noted(self) -> Option<Noted> {
        Some(Noted { own: self.own?, since: self.begun?, directory: self.directory })
    }

    /// Stages the files with conflicts as they are on disk. If the whole directory is gone, stages
    /// the side that HEAD does not have.
    fn settle_conflicts(&self) -> Result<(), ProcessError> {
        if !self.worktree.path.is_dir() {
            let listed = self.git().args(["ls-files", "--stage", "-z"]).run()?.stdout;
            return self
                .git()
                .args(["update-index", "-z", "--index-info"])
                .stdin(last_sides(&listed))
                .run()
                .map(drop);
        }
        let paths = self.git().args(["diff-files", "--name-only", "--diff-filter=U", "-z"]).run()?.stdout;
        self.git().args(["update-index", "--add", "--remove", "-z", "--stdin"]).stdin(paths).run().map(drop)
    }

    /// Takes entries out whose content is not in the repository: files are staged from disk again. Returns whether
    /// there were any.
    fn drop_missing(&self, repo: &Repo) -> Result<bool, ProcessError> {
        let listed = self.git().args(["ls-files", "--stage", "-z"]).run()?.stdout;
        let mut input = Vec::new();
        // "<mode> <id> <stage>\t<path>"
        for (entry, path) in listed.split(|byte| *byte == 0).filter_map(|line| line.split_once_str("\t")) {
            let words: Vec<&[u8]> = entry.split(|byte| *byte == b' ').collect();
            let [mode, id, _] = words[..] else { continue };
            let is_here = CommitId::parse_hex(id).is_some_and(|id| repo.has_object(id));
            if mode != GITLINK && !is_here {
                input.extend([b"0 ", "0".repeat(id.len()).as_bytes(), b"\t", path, b"\0"].concat());
            }
        }
        if input.is_empty() {
            return Ok(false);
        }
        self.git().args(["update-index", "-z", "--index-info"]).stdin(input).run().map(|_| true)
    }

    fn failed(&self, source: std::io::Error) -> ProcessError {
        copy_failed(self.worktree, source)
    }
}

/// Gives a copy the date of the index that it was made from.
fn date_as(copy: &Path, index: &Path) -> std::io::Result<()> {
    let date = std::fs::metadata(index)?.modified()?;
    std::fs::File::options().write(true).open(copy)?.set_modified(date)
}

/// Makes an index that is missing from HEAD, if there is one. `git` acts on it.
///
/// A sparse checkout is known from its patterns alone then: files that they leave out are marked in the index, since
/// they would count as deleted.
fn begin_index(worktree: &Worktree, git: impl Fn() -> Git) -> Result<(), ProcessError> {
    let head = ["rev-parse", "--verify", "--quiet", "HEAD^{tree}"];
    if !git().args(head).run_unchecked()?.status.success() {
        return Ok(());
    }
    git().args(["read-tree", "HEAD"]).run()?;
    let is_sparse = git().args(["config", "--type=bool", "core.sparseCheckout"]).run_unchecked()?;
    let patterns = worktree.git_dir.join("info/sparse-checkout");
    if is_sparse.stdout.trim() != b"true" || !patterns.is_file() {
        return Ok(());
    }
    let mut from = OsString::from("--exclude-from=");
    from.push(patterns);
    let all = git().args(["ls-files", "-z", "--cached"]).run()?.stdout;
    let chosen = git().args(["ls-files", "-z", "--cached", "--ignored"]).arg(from).run()?.stdout;
    let chosen: BTreeSet<&[u8]> = chosen.split(|byte| *byte == 0).collect();
    let others = all.split_inclusive(|byte| *byte == 0);
    let others: Vec<&[u8]> =
        others.filter(|path| !chosen.contains(path.strip_suffix(b"\0").unwrap_or(path))).collect();
    git().args(["update-index", "-z", "--skip-worktree", "--stdin"]).stdin(others.concat()).run().map(drop)
}

/// For each path with a conflict in the output of `git ls-files --stage -z`, its last side as input
/// for `git update-index -z --index-info`. A path that is a directory elsewhere in the index gets
/// another name.
fn last_sides(listed: &[u8]) -> Vec<u8> {
    let (mut sides, mut plain) = (BTreeMap::new(), BTreeSet::new());
    // "<mode> <id> <stage>\t<path>", in the order of the stages
    for (entry, path) in listed.split(|byte| *byte == 0).filter_map(|line| line.split_once_str("\t")) {
        match entry.rsplit_once_str(" ") {
            Some((_, stage)) if stage == b"0" => drop(plain.insert(path)),
            Some((side, stage)) => drop(sides.insert(path, (side, stage))),
            None => {}
        }
    }
    let all: Vec<&[u8]> = plain.iter().chain(sides.keys()).copied().collect();
    let is_below =
        |path: &[u8], above: &[u8]| path.strip_prefix(above).is_some_and(|rest| rest.starts_with(b"/"));
    let mut input = Vec::new();
    for (path, (side, stage)) in &sides {
        let id = side.split_once_str(" ").map_or(0, |(_, id)| id.len());
        input.extend([b"0 ", "0".repeat(id).as_bytes(), b"\t", path, b"\0"].concat());
        let mut name = path.to_vec();
        if all.iter().any(|other| is_below(other, path)) {
            name.extend([b"~", *stage].concat());
        }
        input.extend([side, &b"\t"[..], &name, b"\0"].concat());
    }
    input
}

fn copy_failed(worktree: &Worktree, source: std::io::Error) -> ProcessError {
    ProcessError::NotStarted {
        what: "write-tree (with a copy of the index)".to_owned(),
        directory: worktree.git_dir.clone(),
        source,
    }
}

fn tree_id(git: Git) -> Result<CommitId, ProcessError> {
    let output = git.run()?;
    CommitId::parse_hex(output.text().as_bytes()).ok_or_else(|| ProcessError::Failed {
        what: "write-tree".to_owned(),
        directory: std::path::PathBuf::new(),
        status: output.status,
        said: format!("it answered {:?}, which is no object id", output.text()),
    })
}
