//! Chooses the authority that decides races: this repository, or a remote.
//!
//! Invariant: two processes with the same request on a branch get the same answer, wherever the
//! branch's name comes from.

use crate::contract::head::Head;
use crate::contract::ids::{BranchName, CommitId, RemoteName};
use crate::contract::layout::TRACKED;
use crate::contract::message::Message;
use crate::git::Repo;
use crate::git::refs::list::Tip;
pub use crate::runner::authority::Authority;
use crate::runner::events::warning::Warning;
use crate::words::shell_quote;

use super::error::Error;
use super::outer::OuterCommand;
use super::settings;

/// Returns the authority over one branch: the remote named, else the surrounding command's
/// authority, else the source at the checkout's HEAD.
pub fn for_branch(repo: &Repo, named: Option<&RemoteName>) -> Result<Authority, Error> {
    if named.is_none()
        && let Some(inside) = OuterCommand::of(repo)?
    {
        return match inside.remote {
            Some(remote) => for_run(repo, Some(&remote)),
            None => Ok(Authority::Local),
        };
    }
    for_run(repo, named)
}

/// Returns the authority of a run: the remote named, else the one in `dwp-source` at the checkout's
/// HEAD, else `aynig.remote`, else this repository.
pub fn for_run(repo: &Repo, named: Option<&RemoteName>) -> Result<Authority, Error> {
    let Some(remote) = named.cloned().or_else(|| source_at_head(repo)) else {
        return settings::remote(repo)?.map_or(Ok(Authority::Local), |remote| decides(repo, remote));
    };
    if repo.has_remote(&remote) {
        return decides(repo, remote);
    }
    let from = if named.is_some() { "--remote" } else { "dwp-source at HEAD" };
    let error =
        Error::usage(format!("{from} names the remote {remote}, which this repository does not have"));
    Err(settings::with_near(repo, &remote, error))
}

/// Makes a remote the authority, if it is known how refs are named there.
fn decides(repo: &Repo, remote: RemoteName) -> Result<Authority, Error> {
    let named = repo.namespace().map(|_| Authority::remote(remote));
    named.map_err(|error| {
        Error::setup(format!("{error}; nothing was changed"))
            .hint("`git config --show-origin --get-all aynig.refNamespace` shows where it is set")
    })
}

/// A remote that probably should be the authority.
#[derive(Debug, Clone)]
pub struct Unset {
    /// The remote.
    pub remote: RemoteName,
    /// A branch of it that declares a state.
    pub there: BranchName,
    /// The branch's HEAD, as last fetched by the user.
    pub head: CommitId,
}

impl Unset {
    /// Returns the warning about it.
    pub fn warning(&self) -> Warning {
        Warning::RemoteNotSet { remote: self.remote.clone(), there: self.there.clone() }
    }
}

/// Returns a remote that has branches with a state while no remote is set to be the authority. An empty
/// `aynig.remote` says that this is intended.
pub fn unset(repo: &Repo, authority: &Authority) -> Option<Unset> {
    if is_decided(repo, authority) {
        return None;
    }
    repo.remote_names().iter().find_map(|name| {
        let remote = RemoteName::parse(name).ok()?;
        let tips = repo.branches_below(&format!("{TRACKED}{remote}/")).unwrap_or_default();
        // A symbolic ref is the remote's HEAD.
        let found = tips.into_iter().find(|tip| declares(repo, tip))?;
        Some(Unset { remote, there: found.branch, head: found.target.ok()? })
    })
}

/// Suggests to look at a remote if no branch here, as last fetched, declares a state and no remote is set.
pub fn elsewhere(repo: &Repo, authority: &Authority) -> Option<String> {
    let names = repo.remote_names();
    let remote = names.iter().find(|name| *name == "origin").or(names.first())?;
    if is_decided(repo, authority)
        || unset(repo, authority).is_some()
        || repo.branches().unwrap_or_default().iter().any(|tip| declares(repo, tip))
    {
        return None;
    }
    let line = format!("aynig status --all --remote {}", shell_quote(remote));
    Some(format!("no branch here declares a state; `{line}` shows whether one of {remote} does"))
}

/// Whether it was said which branches count.
fn is_decided(repo: &Repo, authority: &Authority) -> bool {
    authority.source().is_some()
        || settings::names_remote(repo)
        || !matches!(OuterCommand::of(repo), Ok(None))
}

fn declares(repo: &Repo, tip: &Tip) -> bool {
    let head = tip.target.as_ref().ok().and_then(|head| repo.commit(*head).ok());
    head.is_some_and(|stored| Head::read(&stored.facts()).state().is_some())
}

fn source_at_head(repo: &Repo) -> Option<RemoteName> {
    let head = repo.branch_head(&repo.checkout()?.branch?).ok()??;
    let message = Message::parse(&repo.commit(head).ok()?.message);
    message.trailers.last("dwp-source").and_then(RemoteName::from_source)
}
