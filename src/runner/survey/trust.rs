//! Trust in commands and commits: `--commands-from` and `aynig.requireSigned` (CONTRACT 13.1 to 13.9).
//!
//! Invariant: a branch that is not trusted is skipped with a reason that `aynig status` shows as well. When
//! in doubt a commit is not trusted. Commits are identified by object name alone, so the commit that was
//! checked is the one that the claim expects.

use std::collections::{BTreeMap, HashSet};

use crate::contract::ids::CommitId;
use crate::git::objects::revspec::NameError;
use crate::git::objects::trusted::refusals;
use crate::git::process::cancel::Purpose;
use crate::git::{CommitError, Repo};

use super::super::options::Trust;
use super::verdict::{Branch, CommandsFrom, Reason, Verdict};
use crate::runner::authority::Authority;

/// Why the source of all commands cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The ref does not lead to a commit.
    #[error("commands are to come from {from} (--commands-from, aynig.commandsFrom), and {source}")]
    Name {
        /// The ref as given.
        from: String,
        /// The error.
        #[source]
        source: NameError,
    },
    /// Its tree cannot be read.
    #[error("commands are to come from {from} (--commands-from, aynig.commandsFrom), which cannot be read")]
    Unreadable {
        /// The ref as given.
        from: String,
        /// The error.
        #[source]
        source: CommitError,
    },
    /// It has no good signature, and one is required.
    #[error("commands are to come from {from} (--commands-from, aynig.commandsFrom), and {why}")]
    Unsigned {
        /// The ref as given.
        from: String,
        /// Its commit.
        commit: CommitId,
        /// The problem with the signature.
        why: String,
    },
}

/// Resolves `--commands-from`. `None` if each branch has its own commands. Someone who can move the ref
/// chooses what runs, so its commit needs a signature if HEADs do. An object name cannot be moved and needs
/// none (CONTRACT 13.9).
pub(crate) fn commands_from(
    repo: &Repo,
    authority: &Authority,
    trust: &Trust,
) -> Result<Option<CommandsFrom>, TrustError> {
    let Some(name) = &trust.commands_from else { return Ok(None) };
    let commit = repo
        .commit_named(name, authority.source())
        .map_err(|source| TrustError::Name { from: name.clone(), source })?;
    if CommitId::parse_hex(name).is_none()
        && let Some(why) = refused(repo, trust, commit)
    {
        return Err(TrustError::Unsigned { from: name.clone(), commit, why });
    }
    let tree = repo
        .directory_at(commit, ".aynig")
        .map_err(|source| TrustError::Unreadable { from: name.clone(), source })?;
    Ok(Some(CommandsFrom { name: name.clone(), commit, tree }))
}

/// Replaces the verdict of each branch that would be run or closed by our commit, but has no good signature.
pub(crate) fn vet(repo: &Repo, trust: &Trust, branches: &mut [Branch]) {
    if !trust.require_signed {
        return;
    }
    let wanted = |branch: &&mut Branch| refused_verdict(&branch.verdict, "").is_some();
    let heads: HashSet<CommitId> =
        branches.iter_mut().filter(wanted).filter_map(|branch| branch.head).collect();
    let refused = refusals(repo, &heads, &[], Purpose::Scan);
    for branch in branches {
        if let Some(why) = branch.head.and_then(|head| refused.get(&head))
            && let Some(verdict) = refused_verdict(&branch.verdict, why)
        {
            branch.verdict = verdict;
        }
    }
}

/// The verdict on a branch whose HEAD has no good signature. `None` if it needs no signature.
fn refused_verdict(verdict: &Verdict, why: &str) -> Option<Verdict> {
    let why = why.to_owned();
    match verdict {
        Verdict::Ready { event, .. } => {
            Some(Verdict::Waiting { state: event.state.clone(), reason: Reason::Unsigned { why } })
        }
        // Our signature on the stalled commit would vouch for an unsigned tree.
        Verdict::Leased(leased) if leased.over => {
            Some(Verdict::UnsignedLease { leased: leased.clone(), why })
        }
        _ => None,
    }
}

/// Checks the signatures of stalled HEADs, and returns what is wrong with each. Only advice for the user
/// needs this; a pass runs nothing on them.
pub fn unsigned_stalls(repo: &Repo, trust: &Trust, branches: &[Branch]) -> BTreeMap<CommitId, String> {
    if !trust.require_signed {
        return BTreeMap::new();
    }
    let mut known = BTreeMap::new();
    let mut open = HashSet::new();
    for branch in branches {
        match (&branch.verdict, branch.head) {
            (Verdict::Waiting { state, reason: Reason::Unsigned { why } }, Some(head))
                if state.is_stalled() =>
            {
                known.insert(head, why.clone());
            }
            (Verdict::Waiting { state, .. }, Some(head)) if state.is_stalled() => drop(open.insert(head)),
            _ => {}
        }
    }
    known.extend(refusals(repo, &open, &[], Purpose::Scan));
    known
}

/// Why `aynig.requireSigned` refuses this HEAD. `None` if it has a good signature of a trusted signer, or
/// needs none.
pub fn refused(repo: &Repo, trust: &Trust, head: CommitId) -> Option<String> {
    if !trust.require_signed {
        return None;
    }
    refusals(repo, &HashSet::from([head]), &[], Purpose::Scan).remove(&head)
}
