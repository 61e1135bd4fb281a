//! Which signatures are good enough: one that git calls good, by a key that is trusted here (CONTRACT 13.4).
//!
//! Invariant: when in doubt a commit is not trusted.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;

use super::signatures::Checked;
use crate::contract::ids::CommitId;
use crate::git::Repo;
use crate::git::process::cancel::Purpose;

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
