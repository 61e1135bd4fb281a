//! Whose commands are run, and whose commits: what a runner asks beyond "it is on a branch" (CONTRACT.md §13).
//!
//! Invariant: a branch that is not trusted is passed over with a reason, by the scan that `aynig status` reads as well; what
//! is doubtful counts as not trusted. Nothing is judged by name or date, only by object names: the commit that was judged
//! is the one the claim expects.

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
    /// It has no good signature, and one is required.
    #[error("commands are to come from {from} (--commands-from, aynig.commandsFrom), and {why}")]
    Unsigned {
        /// As it was given.
        from: String,
        /// The commit it leads to.
        commit: CommitId,
        /// What is wrong with the signature.
        why: String,
    },
}

/// What `--commands-from` means now; `None` where each branch has its own commands. Whoever can move a ref chooses what is run, so its
/// commit needs a signature where HEADs do; an object name cannot be moved.
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

/// Passes over what would be run, or be closed by a commit of ours, and has no good signature.
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

/// What a branch is if its HEAD has no good signature; none if no signature is needed.
fn refused_verdict(verdict: &Verdict, why: &str) -> Option<Verdict> {
    let why = why.to_owned();
    match verdict {
        Verdict::Ready { event, .. } => {
            Some(Verdict::Waiting { state: event.state.clone(), reason: Reason::Unsigned { why } })
        }
        // Our signature on what closes it would vouch for a tree that nobody has signed.
        Verdict::Leased(leased) if leased.over => {
            Some(Verdict::UnsignedLease { leased: leased.clone(), why })
        }
        _ => None,
    }
}

/// Why the HEADs of stalled branches have no good signature, for those who ask what to do about them. A pass does not: nothing is
/// run there.
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

/// Why `aynig.requireSigned` would refuse this HEAD; `None` for a good signature of a trusted signer, and where no
/// signature is required.
pub fn refused(repo: &Repo, trust: &Trust, head: CommitId) -> Option<String> {
    if !trust.require_signed {
        return None;
    }
    refusals(repo, &HashSet::from([head]), &[], Purpose::Scan).remove(&head)
}

/// Why each of these HEADs has no good signature; those that have one are left out. They may be in a quarantine that the
/// variables `objects` lead to. `purpose` says when a stop ends looking.
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

/// What is wrong with the signature of `head`; none for a good one of somebody who is allowed to sign. Nobody is told to sign a
/// commit unless it is their own: whoever signs it vouches for it.
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

/// What git's letter for the signature of a commit means, and what to do, if something can be done.
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
