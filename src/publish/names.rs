//! The remote, the branch and the base of a publication, and refused names (CONTRACT 21.2, 21.3).

use bstr::{BStr, BString};

use crate::contract::ids::{BranchName, RemoteName};
use crate::git::address::key_of;
use crate::git::remote::RemoteError;
use crate::words::{error_chain, shell_quote};
use crate::workspace::Workspaces;
use crate::workspace::context::Context;
use crate::workspace::refusal::{Refusal, Why};

use super::proposal::Forge;
use super::request::Request;

/// The names of a publication.
#[derive(Debug, Clone)]
pub(super) struct Names {
    pub(super) remote: RemoteName,
    /// Its address, without a user's name or password.
    pub(super) address: String,
    /// Its name in the record.
    pub(super) key: String,
    pub(super) base: BranchName,
    pub(super) branch: BranchName,
    /// The ref that is pushed to.
    pub(super) target: BString,
}

impl Names {
    pub(super) fn of(
        workspaces: &Workspaces<'_>,
        context: &Context,
        request: &Request,
    ) -> Result<Self, Refusal> {
        let remote = request.remote.clone();
        let address = workspaces.repo.address_of(&remote).ok_or_else(|| {
            Refusal::new(Why::Usage, format!("there is no remote {remote} in this repository"))
        })?;
        let base = match &request.base {
            Some(base) => base.clone(),
            None => base_of(workspaces, context, &remote)?,
        };
        let branch = request.branch.clone().unwrap_or_else(|| context.branch());
        if branch == base {
            let message =
                format!("{branch} is the branch that the work is to be merged into; nothing was changed");
            return Err(
                Refusal::new(Why::Usage, message).hint("a proposal has a branch of its own: `--branch NAME`")
            );
        }
        let is_default = workspaces.repo.default_branch(Some(&remote)).as_ref() == Some(&branch);
        if is_default || workspaces.options.protected.is_match(branch.to_string()) {
            let message =
                format!("{branch} is a protected branch, which is never published to; nothing was changed");
            return Err(Refusal::new(Why::Usage, message)
                .hint("name another one: `--branch NAME`; `aynig.protectedBranches` lists them, and the default branch is one"));
        }
        let target = match request.forge {
            Forge::Agit => format!("refs/for/{base}").into(),
            Forge::None | Forge::Gh | Forge::PushOptions | Forge::Program(_) => branch.full_ref(),
        };
        let key = key_of(&address);
        Ok(Self { remote, address, key, base, branch, target })
    }

    /// The command that shows the commits that a ref of the remote has, and `ours` has not.
    pub(super) fn shows(&self, name: &BStr, ours: impl std::fmt::Display) -> String {
        let remote = shell_quote(self.remote.as_str());
        format!("git fetch {remote} {} && git log {ours}..FETCH_HEAD", shell_quote(name))
    }
}

/// The branch that the work began from, else the default branch of the remote.
fn base_of(
    workspaces: &Workspaces<'_>,
    context: &Context,
    remote: &RemoteName,
) -> Result<BranchName, Refusal> {
    let name = &context.base_ref;
    let tracked = format!("refs/remotes/{remote}/");
    let begun = name.strip_prefix("refs/heads/").or_else(|| name.strip_prefix(&tracked));
    let begun = begun.and_then(|name| BranchName::new(name).ok());
    begun.or_else(|| workspaces.repo.default_branch(Some(remote))).ok_or_else(|| {
        let message = format!("{} began from {name}, which is no branch of {remote}", context.handle());
        Refusal::new(Why::Usage, message)
            .hint("name the branch that it is to be merged into: `--into BRANCH`")
    })
}

/// The refusal of a remote that cannot be talked to.
pub(super) fn unreachable(remote: &RemoteName, error: &RemoteError) -> Refusal {
    Refusal::new(Why::Remote, error_chain(error))
        .hint(format!("`git ls-remote {}` shows whether it can be reached", shell_quote(remote.as_str())))
}
