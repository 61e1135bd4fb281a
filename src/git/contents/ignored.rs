//! Files that git ignores in a person's checkout and a list in gitignore's syntax names.
//!
//! Invariant: git itself decides what its patterns mean, and what is ignored; tracked or merely untracked files are never in the
//! answer, nor is what lies in another repository. What is done with the files is left to whoever asks.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::git::process::call::{Git, ProcessError};
use crate::git::repo::open::Repo;
use crate::git::worktrees::held::Worktree;
use crate::git::worktrees::registration::Checkout;

impl Repo {
    /// The files of `checkout` that git ignores there and the patterns in the file `list` name, relative to its top.
    pub(crate) fn ignored_and_listed(
        &self,
        checkout: &Checkout,
        list: &Path,
    ) -> Result<BTreeSet<PathBuf>, ProcessError> {
        let others = || {
            Git::inside(&checkout.path, &checkout.git_dir).args(["ls-files", "-z", "--others", "--ignored"])
        };
        let mut from = std::ffi::OsString::from("--exclude-from=");
        from.push(list);
        let mut listed = paths(&others().arg(from).run()?.stdout);
        if !listed.is_empty() {
            let ignored = paths(&others().arg("--exclude-standard").run()?.stdout);
            listed.retain(|path| ignored.contains(path));
        }
        Ok(listed)
    }

    /// Those of `asked` that git ignores in a worktree; a path must not lead through a link there.
    pub(crate) fn ignored_in(
        &self,
        worktree: &Worktree,
        asked: &BTreeSet<PathBuf>,
    ) -> Result<BTreeSet<PathBuf>, ProcessError> {
        if asked.is_empty() {
            return Ok(BTreeSet::new());
        }
        let mut input = Vec::new();
        for path in asked {
            // A name that begins with `:` is no pathspec.
            input.extend_from_slice(b"./");
            input.extend_from_slice(path.as_os_str().as_bytes());
            input.push(0);
        }
        let call = || worktree.git(["check-ignore", "-z", "--stdin"]).stdin(input.clone());
        let output = call().run_unchecked()?;
        match output.status.code() {
            Some(0) => Ok(paths(&output.stdout)),
            Some(1) => Ok(BTreeSet::new()),
            // The same call once more, for its error.
            Some(_) | None => call().run().map(|output| paths(&output.stdout)),
        }
    }
}

/// The paths of an answer with `-z`; directories (other repositories) are left out.
fn paths(answer: &[u8]) -> BTreeSet<PathBuf> {
    answer
        .split(|byte| *byte == 0)
        .map(|path| path.strip_prefix(b"./").unwrap_or(path))
        .filter(|path| !path.is_empty() && !path.ends_with(b"/"))
        .map(|path| PathBuf::from(OsStr::from_bytes(path)))
        .collect()
}
