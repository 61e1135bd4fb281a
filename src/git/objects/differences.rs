//! What differs between two trees: as a list, and as a patch.

use std::path::Path;

use bstr::BString;

use crate::contract::ids::CommitId;
use crate::git::objects::commits::CommitError;
use crate::git::process::call::{Git, ProcessError};
use crate::git::repo::open::{Repo, ours};

/// The mode of an executable file.
pub const EXECUTABLE: u16 = 0o100_755;

/// The mode of a symbolic link.
pub const LINK: u16 = 0o120_000;

/// The mode of a submodule.
pub const SUBMODULE: u16 = 0o160_000;

/// A path that differs between two trees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The path from the top.
    pub path: BString,
    /// Mode and content in the old tree. `None` if it has no file there.
    pub old: Option<(u16, CommitId)>,
    /// Mode and content in the new tree.
    pub new: Option<(u16, CommitId)>,
}

impl Repo {
    /// The files that differ between two trees, by path. A renamed file is two of them.
    pub fn differences(&self, old: CommitId, new: CommitId) -> Result<Vec<Difference>, CommitError> {
        // A tree lists what it has there; a file that a directory replaces is listed by the way back only.
        let (there, back) = (self.changes(old, new)?, self.changes(new, old)?);
        let mut paths: Vec<BString> = there.into_iter().chain(back).map(|(path, _)| path).collect();
        paths.sort();
        paths.dedup();
        let (mut before, mut after) = (self.entries_by_path(old), self.entries_by_path(new));
        let file = |found: Option<(u16, gix::ObjectId)>| {
            found.filter(|(mode, _)| *mode != super::landed::TREE).map(|(mode, id)| (mode, ours(&id)))
        };
        paths
            .into_iter()
            .map(|path| Ok(Difference { old: file(before.at(&path)?), new: file(after.at(&path)?), path }))
            .collect()
    }

    /// Writes the patch that makes one tree of the other into `file`. It has binary files, too.
    pub fn write_patch(&self, old: CommitId, new: CommitId, file: &Path) -> Result<(), ProcessError> {
        let mut output = std::ffi::OsString::from("--output=");
        output.push(file);
        let how =
            ["--binary", "--full-index", "--no-ext-diff", "--no-textconv", "--no-renames", "--no-color"];
        let git = Git::shared(self.common_dir()).args(["diff-tree", "-r", "-p"]).args(how).arg(output);
        git.args([old.to_string(), new.to_string()]).run().map(drop)
    }
}
