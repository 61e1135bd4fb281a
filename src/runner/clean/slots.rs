//! Cleans deferred states that no pass can deliver: their branch is gone or was made anew, or the ref holds no state for
//! it.
//!
//! Invariant: each is somebody's message. It is removed only where `--deferred` requests it, by compare-and-swap, and
//! only from this repository.

use crate::contract::ids::{BranchName, CommitId, RemoteName};
use crate::contract::layout::{fetched_slots, slot_ref};
use crate::git::refs::list::Tip;
use crate::git::{RefChange, RefError, Repo, Together};

use super::item::{CleanError, CleanOptions, Item, Kind, age};
use crate::runner::passes::deliver::{sender, undeliverable};
use crate::runner::{error_chain, shell_quote};

/// A deferred state that no pass can deliver.
#[derive(Debug)]
pub struct Stranded {
    /// Its ref in this repository.
    pub name: String,
    branch: BranchName,
    /// The remote that has it; `None`: this repository.
    remote: Option<RemoteName>,
    commit: CommitId,
    why: String,
}

/// Lists the deferred states that no pass can deliver: of this repository, and of its remotes as last fetched.
pub fn stranded(repo: &Repo) -> Result<Vec<Stranded>, RefError> {
    let remotes = repo.remote_names().into_iter().filter_map(|name| RemoteName::parse(&name).ok());
    let mut found = Vec::new();
    for remote in std::iter::once(None).chain(remotes.map(Some)) {
        let tips = repo.slots(remote.as_ref())?;
        found.extend(tips.into_iter().filter_map(|tip| one(repo, remote.as_ref(), tip)));
    }
    Ok(found)
}

fn one(repo: &Repo, remote: Option<&RemoteName>, Tip { branch, target }: Tip) -> Option<Stranded> {
    let commit = target.ok()?;
    let head = match remote {
        None => repo.branch_head(&branch),
        Some(remote) => repo.fetched_head(remote, &branch),
    };
    let why = undeliverable(repo, &branch, head.ok()?, commit)?;
    let name = match remote {
        None => slot_ref(&branch).to_string(),
        Some(remote) => format!("{}{branch}", fetched_slots(remote)),
    };
    Some(Stranded { name, branch, remote: remote.cloned(), commit, why })
}

pub(super) fn clean(repo: &Repo, wanted: &CleanOptions) -> Result<Vec<Item>, CleanError> {
    Ok(stranded(repo)?.iter().map(|slot| item(repo, wanted, slot)).collect())
}

fn item(repo: &Repo, wanted: &CleanOptions, slot: &Stranded) -> Item {
    let mut item = Item::new(Kind::Deferred, slot.name.as_str()).of(&slot.branch);
    let id = slot.commit;
    item.age = repo.commit(id).ok().map(|stored| age(stored.committed_at, wanted.now));
    let why = format!("{}; left by {}", slot.why, sender(repo, id));
    let name = slot_ref(&slot.branch);
    if let Some(remote) = &slot.remote {
        let lease =
            shell_quote([b"--force-with-lease=", name.as_slice(), format!(":{id}").as_bytes()].concat());
        let push = format!(
            "git push {lease} {} {}",
            shell_quote(remote.as_str()),
            shell_quote([b":", name.as_slice()].concat())
        );
        return item
            .stays(why, format!("`git show {}` shows it, `{push}` removes it from {remote}", id.short()));
    }
    if !wanted.deferred_asked {
        let next = format!("`git show {}` shows it, `aynig clean --deferred --apply` removes it", id.short());
        return item.stays(why, next);
    }
    item.goes(format!("{why}; until git prunes it, `git show {id}` shows it")).carried_out(wanted, || {
        let change = RefChange { name, expected: Some(id), new: None };
        match repo.swap_together(&[change], "aynig: clean").map_err(|error| error_chain(&error))? {
            Together::Won | Together::Lost { actual: None, .. } => Ok(None),
            Together::Lost { actual: Some(_), .. } => {
                Err("another state was left there; look again".to_owned())
            }
        }
    })
}
