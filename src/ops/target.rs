//! Finds the branch to act on.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use crate::contract::head::Head;
use crate::contract::ids::{BranchName, CommitId};
use crate::git::Repo;
use crate::git::remote::PATIENCE;
use crate::runner::authority::Authority;
use crate::runner::options::is_glob;
use crate::words::shell_quote;

use super::error::{Error, Kind};
use super::missing::{Purpose, missing};
use super::outer::OuterCommand;
use super::settings::branch_globs;

/// Returns the branch to act on: the one named, else the surrounding command's, else the one
/// checked out here.
pub fn branch(repo: &Repo, authority: &Authority, named: Option<&OsStr>) -> Result<BranchName, Error> {
    if let Some(named) = named {
        return branch_name(named);
    }
    match OuterCommand::of(repo)? {
        Some(inside) => Ok(inside.branch),
        None => current_branch(repo, authority),
    }
}

/// Parses the name of a branch.
pub fn branch_name(named: &OsStr) -> Result<BranchName, Error> {
    BranchName::new(named.as_bytes()).map_err(|error| {
        Error::usage(format!("--branch: {error}")).hint("`git branch` lists the branches there are")
    })
}

/// Returns the branch that is checked out here, under the authority's name for it.
pub(crate) fn current_branch(repo: &Repo, authority: &Authority) -> Result<BranchName, Error> {
    let local = checked_out(repo)?;
    let Some(remote) = authority.source() else { return Ok(local) };
    repo.upstream_on(&local, remote).ok_or_else(|| {
        let named = shell_quote(&local);
        let follow = if repo.known_branches(remote).contains(&local) {
            format!("`git branch --set-upstream-to={}`", shell_quote(format!("{remote}/{local}")))
        } else {
            format!("`git push -u {} {named}` makes it there", shell_quote(remote.as_str()))
        };
        Error::setup(format!("the branch {local} that is checked out here follows no branch of {remote}"))
            .hint("name a branch with --branch")
            .hint(format!("or let it follow one: {follow}"))
    })
}

fn checked_out(repo: &Repo) -> Result<BranchName, Error> {
    let name_one = "name a branch with --branch";
    match repo.checkout() {
        None => Err(Error::setup(format!(
            "there is no current branch: the repository {} is bare",
            repo.common_dir().display()
        ))
        .hint(name_one)),
        Some(checkout) => checkout.branch.ok_or_else(|| {
            Error::setup(format!(
                "there is no current branch: HEAD of {} is detached",
                checkout.place.path.display()
            ))
            .hint(name_one)
            .hint("or check one out: `git switch BRANCH`")
            .hint("`aynig status --all` lists the branches")
        }),
    }
}

/// Returns the HEAD of a branch to read. Fails if the branch does not exist.
pub fn existing_head(repo: &Repo, authority: &Authority, branch: &BranchName) -> Result<CommitId, Error> {
    match head_of(repo, authority, branch)? {
        Some(head) => Ok(head),
        None => Err(missing(repo, authority, branch, Purpose::Read)),
    }
}

/// Returns the HEAD of a branch, as last fetched if the remote does not answer: `warn` gets the reason.
pub fn known_head(
    repo: &Repo,
    authority: &Authority,
    branch: &BranchName,
    warn: impl FnOnce(&str),
) -> Result<Option<CommitId>, Error> {
    let asked = head_of(repo, authority, branch);
    let (Err(error), Some(remote)) = (&asked, authority.source()) else { return asked };
    match repo.fetched_head(remote, branch) {
        Ok(Some(known)) if error.kind == Kind::Remote => {
            warn(&format!("{}; {branch} is shown as last fetched", error.message));
            Ok(Some(known))
        }
        Ok(_) | Err(_) => asked,
    }
}

/// Returns the HEAD of a branch. `None` if there is no such branch.
pub(crate) fn head_of(
    repo: &Repo,
    authority: &Authority,
    branch: &BranchName,
) -> Result<Option<CommitId>, Error> {
    Ok(authority.head(repo, branch, PATIENCE)?)
}

/// Whether a text is the name of a branch that exists.
pub fn exists(repo: &Repo, authority: &Authority, text: &str) -> Result<bool, Error> {
    match BranchName::new(text) {
        Ok(branch) => Ok(head_of(repo, authority, &branch)?.is_some()),
        Err(_) => Ok(false),
    }
}

/// Branches by name and by glob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selected {
    /// The branch.
    pub branch: BranchName,
    /// Whether only a glob matches it.
    pub by_glob: bool,
}

/// Reports the first name of these that no branch has, as last fetched. Globs may match nothing.
pub fn all_exist(repo: &Repo, authority: &Authority, named: &[impl AsRef<OsStr>]) -> Result<(), Error> {
    let names = named.iter().map(AsRef::as_ref).filter(|name| !is_glob(name.as_bytes()));
    let names: Vec<BranchName> = names.map(branch_name).collect::<Result<_, _>>()?;
    // Listing all branches takes longer, and knows those without a commit.
    let is_listed = |name: &BranchName| authority.source().is_some() || repo.unlisted(name).is_none();
    if names.iter().all(|name| repo.has_branch(authority.source(), name) && is_listed(name)) {
        return Ok(());
    }
    let tips = authority.branches(repo).map_err(|error| Error::because("list the branches", &error))?;
    let there: std::collections::HashSet<&BranchName> = tips.iter().map(|tip| &tip.branch).collect();
    match names.iter().find(|name| !there.contains(name)) {
        None => Ok(()),
        Some(gone) => Err(missing(repo, authority, gone, Purpose::Read)),
    }
}

/// Returns the branches that names and globs select, in the order of the names. A glob is matched with the
/// branches there are now.
pub fn selected(repo: &Repo, authority: &Authority, named: &[OsString]) -> Result<Vec<Selected>, Error> {
    let mut chosen: Vec<Selected> = Vec::new();
    let mut tips = None;
    for one in named {
        if !is_glob(one.as_bytes()) {
            chosen.push(Selected { branch: branch_name(one)?, by_glob: false });
            continue;
        }
        let globs = branch_globs(&[one.to_string_lossy().into_owned()])?;
        if tips.is_none() {
            authority.refresh(repo)?;
            let all = authority.branches(repo);
            tips = Some(all.map_err(|error| Error::because("list the branches", &error))?);
        }
        let matching = tips.iter().flatten().filter(|tip| tip.target.is_ok());
        for tip in matching.filter(|tip| globs.is_match(tip.branch.to_string())) {
            chosen.push(Selected { branch: tip.branch.clone(), by_glob: true });
        }
    }
    let mut seen = std::collections::HashSet::new();
    chosen.retain(|one| seen.insert(one.branch.clone()));
    Ok(chosen)
}

/// Whether the newest commit of a branch declares `stalled`.
pub fn is_stalled(repo: &Repo, authority: &Authority, branch: &BranchName) -> bool {
    let head = head_of(repo, authority, branch).ok().flatten();
    let state = head.and_then(|head| Head::read(&repo.commit(head).ok()?.facts()).state());
    state.is_some_and(|state| state.is_stalled())
}
