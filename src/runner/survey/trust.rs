//! Whose commands are run, and whose commits: what a runner asks beyond "it is on a branch" (CONTRACT.md §13).
//!
//! Invariant: a branch that is not trusted is passed over with a reason, by the scan that `aynig status` reads as well; what
//! is doubtful counts as not trusted. Nothing is judged by name or date, only by object names: the commit that was judged
//! is the one the claim expects.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;

use crate::contract::ids::{BranchName, CommitId, StateName};
use crate::git::signatures::Checked;
use crate::git::trusted::NameError;
use crate::git::{CommitError, Repo};

use super::super::arbiter::Arbiter;
use super::super::options::Trust;
use super::resolve::Pause;
use super::scan::{Candidate, Scanned, Verdict};

/// Why the commands could not be looked for.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The ref leads nowhere.
    #[error("commands are to come from {from} (--commands-from, aynig.commandsFrom), and {source}")]
    Name {
        /// As it was given.
        from: String,
        /// Why not.
        #[source]
        source: NameError,
    },
    /// Its tree cannot be read.
    #[error("commands are to come from {from} (--commands-from, aynig.commandsFrom), which cannot be read")]
    Unreadable {
        /// As it was given.
        from: String,
        /// Why not.
        #[source]
        source: CommitError,
    },
}

/// Where the commands of all branches come from, as of one look.
#[derive(Debug, Clone)]
pub struct CommandsFrom {
    /// As it was given.
    pub name: String,
    /// The commit it means now.
    pub commit: CommitId,
    /// The tree of its `.aynig`, if it has that directory.
    pub tree: Option<CommitId>,
}

/// What `--commands-from` means now; `None` where each branch has its own commands.
pub fn commands_from(
    repo: &Repo,
    arbiter: &Arbiter,
    trust: &Trust,
) -> Result<Option<CommandsFrom>, TrustError> {
    let Some(name) = &trust.commands_from else { return Ok(None) };
    let commit = repo
        .commit_named(name, arbiter.source())
        .map_err(|source| TrustError::Name { from: name.clone(), source })?;
    let tree = repo
        .directory_at(commit, ".aynig")
        .map_err(|source| TrustError::Unreadable { from: name.clone(), source })?;
    Ok(Some(CommandsFrom { name: name.clone(), commit, tree }))
}

/// Why `state` is not one this runner runs, if so.
pub fn foreign_state(trust: &Trust, state: &StateName) -> Option<String> {
    let admitted = trust.states.is_empty() || trust.states.is_match(state.to_string());
    (!admitted).then(|| {
        format!("{state} is not one of the states this runner runs (--states, `git config --get-all aynig.states`)")
    })
}

/// Why `branch` is not one this runner runs, if so.
pub fn foreign_branch(trust: &Trust, branch: &BranchName) -> Option<String> {
    let admitted = trust.branches.is_empty() || trust.branches.is_match(branch.to_string());
    (!admitted).then(|| {
        "it is not one of the branches this runner runs (`git config --get-all aynig.branch`)".to_owned()
    })
}

/// Passes over what would be run, or be closed by a commit of ours, and has no good signature.
pub fn vet(repo: &Repo, trust: &Trust, scanned: &mut [Scanned]) {
    if !trust.require_signed {
        return;
    }
    let wanted = |verdict: &Verdict| matches!(verdict, Verdict::Ready(_) | Verdict::Expired(_));
    let heads: HashSet<CommitId> =
        scanned.iter().filter(|one| wanted(&one.verdict)).filter_map(|one| one.head).collect();
    let refused = refusals(repo, &heads);
    for one in scanned.iter_mut().filter(|one| wanted(&one.verdict)) {
        let reason = match one.head {
            Some(head) => refused.get(&head).cloned(),
            None => Some(NO_ANSWER.to_owned()),
        };
        let Some(reason) = reason else { continue };
        one.verdict = match std::mem::replace(&mut one.verdict, Verdict::Unmanaged) {
            Verdict::Ready(Candidate { event, .. }) => {
                Verdict::Passed { event, reason, pause: Pause::Mistake }
            }
            // Our signature on what closes it would vouch for a tree that nobody has signed.
            _ => Verdict::Excluded { reason: unclosed(&reason) },
        };
    }
}

/// Why `aynig.requireSigned` would refuse this HEAD; `None` for a good signature of a trusted signer, and where no
/// signature is required.
pub fn refused(repo: &Repo, trust: &Trust, head: CommitId) -> Option<String> {
    if !trust.require_signed {
        return None;
    }
    refusals(repo, &HashSet::from([head])).remove(&head)
}

/// Why each of these HEADs has no good signature; those that have one are left out.
pub fn refusals(repo: &Repo, heads: &HashSet<CommitId>) -> BTreeMap<CommitId, String> {
    refusals_in(repo, heads, &[])
}

/// Like [`refusals`], for commits of a push that is not accepted yet, in a quarantine that the variables `objects` lead to.
pub fn refusals_in(
    repo: &Repo,
    heads: &HashSet<CommitId>,
    objects: &[(&'static str, OsString)],
) -> BTreeMap<CommitId, String> {
    let mut answers = repo.signatures_in(heads, objects);
    heads
        .iter()
        .filter_map(|head| {
            let reason = refusal(*head, answers.remove(head).as_ref())?;
            Some((*head, format!("{reason} (--require-signed, aynig.requireSigned)")))
        })
        .collect()
}

/// That an expired lease is left as it is.
pub fn unclosed(reason: &str) -> String {
    format!("its lease is over and is not closed: {reason}")
}

const NO_ANSWER: &str = "git said nothing about the signature of its newest commit";

/// What is wrong with the signature of `head`; none for a good one of somebody who is allowed to sign.
fn refusal(head: CommitId, checked: Option<&Checked>) -> Option<String> {
    let letter = match checked {
        Some(Checked::Letter('G')) => return None,
        Some(Checked::Letter(letter)) => *letter,
        Some(Checked::Unreadable(why)) => {
            return Some(format!(
                "git cannot read the signature of its newest commit {} (`git verify-commit`): {why}",
                head.short()
            ));
        }
        Some(Checked::Unrevocable(why)) => {
            return Some(format!(
                "whether the ssh key of its newest commit was revoked cannot be told: gpg.ssh.revocationFile cannot be read ({why})"
            ));
        }
        Some(Checked::Distrusted { trust, least }) => {
            return Some(format!(
                "its newest commit is signed by a key whose trust is {trust}, and gpg.minTrustLevel asks for {least}"
            ));
        }
        None => return Some(NO_ANSWER.to_owned()),
    };
    let what = match letter {
        'N' => "its newest commit is not signed, or by an ssh key while gpg.ssh.allowedSignersFile is not set here; sign it \
                (`git commit --amend -S`), in a runner's repository by `git config commit.gpgSign true`"
            .to_owned(),
        'U' => "its newest commit is signed by a key that is not among those trusted here (gpg.ssh.allowedSignersFile, or the \
                trust of the key in gpg)"
            .to_owned(),
        'X' => "the signature of its newest commit has expired".to_owned(),
        'Y' => "its newest commit is signed by a key that has expired".to_owned(),
        'R' => "its newest commit is signed by a key that was revoked".to_owned(),
        'B' => "the signature of its newest commit is bad: the commit is not what was signed".to_owned(),
        'E' => "the signature of its newest commit cannot be checked here, most often since the key is missing \
                (`git verify-commit` says why)"
            .to_owned(),
        other => format!("git calls the signature of its newest commit {other:?}, which is not good"),
    };
    Some(what)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CONTRACT 13.4
    #[test]
    fn only_a_good_signature_is_good() {
        let head = CommitId::parse_hex("1".repeat(40)).expect("an id");
        let text = || "x".to_owned();
        let doubtful = [
            Checked::Unreadable(text()),
            Checked::Unrevocable(text()),
            Checked::Distrusted { trust: text(), least: text() },
        ];
        let letters = "BUXYREN?g".chars().map(Checked::Letter);
        for checked in letters.chain(doubtful).map(Some).chain([None]) {
            let words = refusal(head, checked.as_ref());
            assert!(words.is_some_and(|words| !words.is_empty()), "{checked:?}");
        }
        assert_eq!(refusal(head, Some(&Checked::Letter('G'))), None);
    }
}
