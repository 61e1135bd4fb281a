//! Finds branches whose work is in the main branch. They are only listed, never removed.

use serde::Serialize;

use crate::contract::commits::OF_RUN_KEY;
use crate::contract::head::Head;
use crate::contract::ids::BranchName;
use crate::contract::ids::CommitId;
use crate::contract::layout::short;
use crate::contract::waits_for::WaitsFor;
use crate::git::Repo;

use super::super::shell_quote;
use super::super::survey::resolve::Resolver;
use super::super::survey::verdict::NoCommand;
use super::item::{CleanError, CleanOptions, words};

/// A branch that the user could delete.
#[derive(Debug, Clone, Serialize)]
pub struct Merged {
    /// Its name.
    pub branch: BranchName,
    /// The branch that contains its work.
    pub into: String,
    /// How that is known.
    pub how: &'static str,
    /// The command that deletes it.
    pub command: String,
}

/// Finds managed branches whose work is in the main branch. Only those count that have no lease, no command
/// for their state, and are checked out nowhere.
pub(crate) fn merged(repo: &Repo, wanted: &CleanOptions) -> Result<Vec<Merged>, CleanError> {
    let Some((into, main)) = wanted.main.as_ref().filter(|_| wanted.hints) else { return Ok(Vec::new()) };
    let in_use = repo.branches_in_use()?;
    let (mut found, mut resolver) = (Vec::new(), Resolver::new(None));
    for tip in repo.branches()? {
        let Ok(head) = tip.target else { continue };
        if in_use.contains(&tip.branch) || tip.branch.full_ref() == *into || !rests(repo, &mut resolver, head)
        {
            continue;
        }
        if let Some(how) = repo.landed(head, *main)? {
            let command = format!("git branch -D {}", shell_quote(&tip.branch));
            let into = short(&into.to_string()).to_owned();
            found.push(Merged { branch: tip.branch, into, how: words(how), command });
        }
    }
    Ok(found)
}

/// Whether HEAD declares a state without a command, and waits for nobody. A driver has no work, and goes with its run.
fn rests(repo: &Repo, resolver: &mut Resolver<'_>, head: CommitId) -> bool {
    let Ok(stored) = repo.commit(head) else { return false };
    match Head::read(&stored.facts()) {
        Head::Ready(event) => {
            let trailers = &event.message.trailers;
            if trailers.last(OF_RUN_KEY).is_some() || WaitsFor::of(trailers).is_some() {
                return false;
            }
            let resolved = resolver.in_commit(repo, head, stored.tree, &event.state);
            !matches!(resolved, Ok(_) | Err(NoCommand::Unreadable(_)))
        }
        Head::Unmanaged | Head::Invalid(_) | Head::Working(_) => false,
    }
}
