//! Branches whose work is in the main branch by now: a hint, never an act.

use crate::contract::head::Head;
use crate::contract::ids::BranchName;
use crate::contract::ids::CommitId;
use crate::contract::layout::short;
use crate::git::Repo;

use super::super::shell_quote;
use super::super::survey::resolve::Resolver;
use super::super::survey::verdict::NoCommand;
use super::item::{CleanError, CleanOptions, words};

/// A branch that could go.
#[derive(Debug, Clone)]
pub struct Merged {
    /// Which.
    pub branch: BranchName,
    /// The branch its work is in.
    pub into: String,
    /// How that is known.
    pub how: &'static str,
    /// What to type.
    pub command: String,
}

/// Managed branches that rest (no lease, no command for their state), are checked out nowhere, and whose work is in the main branch.
pub(crate) fn merged(repo: &Repo, wanted: &CleanOptions) -> Result<Vec<Merged>, CleanError> {
    let Some((into, main)) = wanted.main.as_ref().filter(|_| wanted.hints) else { return Ok(Vec::new()) };
    let mut in_use: Vec<BranchName> =
        repo.main_checkout().and_then(|checkout| checkout.branch).into_iter().collect();
    in_use.extend(repo.linked_worktrees()?.into_iter().filter_map(|registered| registered.checkout.branch));
    let mut found = Vec::new();
    for tip in repo.branches()? {
        let Ok(head) = tip.target else { continue };
        if in_use.contains(&tip.branch) || tip.branch.full_ref() == *into || !rests(repo, head) {
            continue;
        }
        if let Some(how) = repo.landed(head, *main)? {
            let command = format!("git branch -D {}", shell_quote(&tip.branch.to_string()));
            let into = short(&into.to_string()).to_owned();
            found.push(Merged { branch: tip.branch, into, how: words(how), command });
        }
    }
    Ok(found)
}

/// Whether HEAD declares a state that no command is there for.
fn rests(repo: &Repo, head: CommitId) -> bool {
    let Ok(stored) = repo.commit(head) else { return false };
    match Head::read(&stored.facts()) {
        Head::Ready(event) => {
            let resolved = Resolver::new(None).in_commit(repo, head, stored.tree, &event.state);
            !matches!(resolved, Ok(_) | Err(NoCommand::Unreadable(_)))
        }
        Head::Unmanaged | Head::Invalid(_) | Head::Working(_) => false,
    }
}
