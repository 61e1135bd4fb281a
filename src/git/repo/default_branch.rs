//! The default branch, into which others are merged and from which new ones are made.
//!
//! Invariant: it is read from refs and configuration alone, in a fixed order, so that runners with the same
//! clone agree. No remote is asked.

use bstr::ByteSlice;

use crate::contract::ids::{BranchName, RemoteName};
use crate::contract::layout::TRACKED;
use crate::fsutil;
use crate::git::repo::open::Repo;

/// The remote whose HEAD counts if there are several and none decides.
const ORIGIN: &str = "origin";

impl Repo {
    /// Returns the default branch: the one that `refs/remotes/<remote>/HEAD` names, else the first that
    /// exists of `init.defaultBranch`, `main` and `master`. `remote` is the one that decides, if any; else
    /// `origin` counts, or the only remote.
    pub fn default_branch(&self, remote: Option<&RemoteName>) -> Option<BranchName> {
        if let Some(named) = self.head_of_remote(remote) {
            return Some(named);
        }
        let configured = self.config("init.defaultBranch");
        let usual = configured.into_iter().chain(["main".to_owned(), "master".to_owned()]);
        let mut usual = usual.filter_map(|name| BranchName::new(name.as_bytes()).ok());
        usual.find_map(|branch| match remote {
            // The branch at the end of a symbolic ref is the one that moves.
            None => self.leads_to(&branch.full_ref()),
            Some(_) => self.has_branch(remote, &branch).then_some(branch),
        })
    }

    /// The default branch of a remote, as a clone or `git remote set-head` recorded it.
    fn head_of_remote(&self, remote: Option<&RemoteName>) -> Option<BranchName> {
        let remote = match remote {
            Some(remote) => remote.as_str().to_owned(),
            None => {
                let names = self.remote_names();
                let origin = names.iter().find(|name| *name == ORIGIN);
                origin.or(if let [only] = &names[..] { Some(only) } else { None })?.clone()
            }
        };
        let below = format!("{TRACKED}{remote}/");
        let head = fsutil::read_plain(self.common_dir().join(format!("{below}HEAD"))).ok()?;
        let target = head.strip_prefix(b"ref:")?.trim();
        BranchName::new(target.strip_prefix(below.as_bytes())?).ok()
    }

    /// Whether a branch is there; of a remote, as last fetched. A branch that cannot be read is there, and the call that
    /// reads it fails.
    pub(crate) fn has_branch(&self, remote: Option<&RemoteName>, branch: &BranchName) -> bool {
        let head = match remote {
            None => self.branch_head(branch),
            Some(remote) => self.fetched_head(remote, branch),
        };
        !matches!(head, Ok(None))
    }
}
