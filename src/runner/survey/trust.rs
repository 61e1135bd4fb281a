//! Trust in commands and commits: `--commands-from` and `aynig.requireSigned` (CONTRACT 13.1 to 13.9).
//!
//! Invariant: a branch that is not trusted is skipped with a reason that `aynig status` shows as well. When
//! in doubt a commit is not trusted. Commits are identified by object name alone, so the commit that was
//! checked is the one that the claim expects.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;

use crate::contract::ids::CommitId;
use crate::git::objects::revspec::NameError;
use crate::git::objects::signatures::Checked;
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

/// Checks the signatures of `heads`, and returns what is wrong with each bad one. The commits may be in a
/// quarantine, given by the variables in `objects`. `purpose` decides how early a stop ends the check.
pub fn refusals(
    repo: &Repo,
    heads: &HashSet<CommitId>,
    objects: &[(&'static str, OsString)],
    purpose: Purpose,
) -> BTreeMap<CommitId, String> {
    let mut answers = repo.signatures(heads, objects, purpose);
    heads
        .iter()
        .filter_map(|head| {
            let reason = refusal(*head, answers.remove(head).as_ref())?;
            Some((*head, reason))
        })
        .collect()
}

/// Describes the problem with the signature of `head`; `None` if it is good and its signer trusted. The text
/// suggests signing only one's own commit, since a signature vouches for its files.
fn refusal(head: CommitId, checked: Option<&Checked>) -> Option<String> {
    let commit = head.short();
    let why = format!("`git verify-commit {commit}` says why");
    let (what, next) = match checked {
        Some(Checked::Letter('G')) => return None,
        Some(Checked::Letter(letter)) => by_letter(*letter, &commit),
        Some(Checked::Garbled) => (
            format!(
                "git makes nothing of the signature of commit {commit}: it is damaged, or the program that checks it cannot be started"
            ),
            Some(why),
        ),
        Some(Checked::NoSigners) => (
            format!(
                "commit {commit} is signed by an ssh key, and no gpg.ssh.allowedSignersFile says here whose keys are trusted"
            ),
            None,
        ),
        Some(Checked::Unreadable(said)) => {
            (format!("git cannot read the signature of commit {commit} (`git verify-commit`): {said}"), None)
        }
        Some(Checked::Unrevocable(said)) => (
            format!(
                "whether the ssh key of commit {commit} was revoked cannot be told: gpg.ssh.revocationFile cannot be read ({said})"
            ),
            None,
        ),
        Some(Checked::TooSlow { program, limit }) => (
            format!(
                "the signature of commit {commit} could not be checked: {program} took longer than {} s and was ended",
                limit.as_secs()
            ),
            None,
        ),
        Some(Checked::NotReached) => (
            format!(
                "the signature of commit {commit} was not checked: the program that checks signatures took too long for others, or a \
                 stop was asked for"
            ),
            None,
        ),
        Some(Checked::Distrusted { trust, least }) => (
            format!(
                "commit {commit} is signed by a key whose trust is {trust}, and gpg.minTrustLevel asks for {least}"
            ),
            None,
        ),
        None => (format!("git said nothing about the signature of commit {commit}"), None),
    };
    let next = next.map(|next| format!("; {next}")).unwrap_or_default();
    Some(format!("{what} (--require-signed, aynig.requireSigned){next}"))
}

/// Explains git's letter for a signature (`%G?`), with the next step if there is one.
fn by_letter(letter: char, commit: &str) -> (String, Option<String>) {
    let why = || Some(format!("`git verify-commit {commit}` says why"));
    match letter {
        'N' => (
            format!("commit {commit} is not signed"),
            Some(format!(
                "if it is yours, sign it (`git commit --amend -S`), in a runner's repository by `git config commit.gpgSign true`; if it \
                 is not, look at it first (`git show {commit}`): whoever signs it vouches for its files"
            )),
        ),
        'U' => (
            format!(
                "commit {commit} is signed by a key that is not among those trusted here (gpg.ssh.allowedSignersFile, or the trust of \
                 the key in gpg)"
            ),
            None,
        ),
        'X' => (format!("the signature of commit {commit} has expired"), None),
        'Y' => (format!("commit {commit} is signed by a key that has expired"), None),
        'R' => (format!("commit {commit} is signed by a key that was revoked"), None),
        'B' => (
            format!(
                "the signature of commit {commit} is bad: the commit was changed after it was signed, the key was revoked, the signature \
                 was made for another purpose, or the program that checks it does not work"
            ),
            why(),
        ),
        'E' => (
            format!(
                "the signature of commit {commit} cannot be checked here, most often since the key is missing"
            ),
            why(),
        ),
        other => (format!("git calls the signature of commit {commit} {other:?}, which is not good"), why()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
            Checked::TooSlow { program: text(), limit: Duration::from_secs(1) },
            Checked::NotReached,
            Checked::Garbled,
            Checked::NoSigners,
        ];
        let letters = "BUXYREN?g".chars().map(Checked::Letter);
        for checked in letters.chain(doubtful).map(Some).chain([None]) {
            let words = refusal(head, checked.as_ref());
            assert!(words.is_some_and(|words| !words.is_empty()), "{checked:?}");
        }
        assert_eq!(refusal(head, Some(&Checked::Letter('G'))), None);
    }
}
