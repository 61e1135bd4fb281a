//! Which branch is the default one: what others are merged into, and what new ones are made from.
//!
//! Invariant: it is read from refs and configuration alone, in one fixed order, so that runners with the same clone agree. No remote
//! is asked.

use bstr::ByteSlice;

use crate::contract::ids::{BranchName, RemoteName};
use crate::contract::layout::TRACKED;
use crate::git::repo::open::Repo;

/// The remote whose HEAD counts where there are several and none decides.
const ORIGIN: &str = "origin";

impl Repo {
    /// The default branch: what `refs/remotes/<remote>/HEAD` names (of `remote`, which decides, else of `origin` or the only remote
    /// there is); else `init.defaultBranch`, `main` or `master`, the first that exists. None if none does.
    pub fn default_branch(&self, remote: Option<&RemoteName>) -> Option<BranchName> {
        if let Some(named) = self.head_of_remote(remote) {
            return Some(named);
        }
        let configured = self.config("init.defaultBranch");
        let usual = configured.into_iter().chain(["main".to_owned(), "master".to_owned()]);
        let mut usual = usual.filter_map(|name| BranchName::new(name.as_bytes()).ok());
        usual.find(|branch| self.has_branch(remote, branch))
    }

    /// What a clone, or `git remote set-head`, noted as the default branch of a remote.
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
        let head = std::fs::read(self.common_dir().join(format!("{below}HEAD"))).ok()?;
        let target = head.strip_prefix(b"ref:")?.trim();
        BranchName::new(target.strip_prefix(below.as_bytes())?).ok()
    }

    fn has_branch(&self, remote: Option<&RemoteName>, branch: &BranchName) -> bool {
        let head = match remote {
            None => self.branch_head(branch),
            Some(remote) => self.fetched_head(remote, branch),
        };
        head.is_ok_and(|head| head.is_some())
    }
}
