//! The signature of an answer to a gate (CONTRACT 20.25).
//!
//! Invariant: git decides whether a signature is good, as for signed commits (13.4). An answer that is to be signed is a
//! commit of its own, below the driver's next state.

use std::collections::HashSet;

use crate::clock;
use crate::contract::ids::CommitId;
use crate::git::Repo;
use crate::git::objects::commits::NewCommit;
use crate::git::objects::signatures::{Checked, SIGNING, is_signed};
use crate::git::process::cancel::Purpose;
use crate::model::by::{Signature, Signed};
use crate::words::error_chain;
use crate::workspace::refusal::{Refusal, Why};

use super::Engine;

/// The check of a commit's signature on this host.
#[derive(Debug, Clone, Default)]
pub(super) struct Found {
    /// The record of it.
    pub(super) signature: Option<Signature>,
    /// The fingerprints by which its key may be named.
    pub(super) keys: Vec<String>,
}

impl Found {
    /// The result for a signed commit that is not here.
    pub(super) fn unknown() -> Self {
        let signature = Some(Signature { state: Signed::Unknown, key: None });
        Self { signature, keys: Vec::new() }
    }
}

/// Checks the signature of a commit, if it has one.
pub(super) fn signature_of(repo: &Repo, commit: CommitId) -> Found {
    if !repo.head_of(commit).is_some_and(|head| is_signed(&head)) {
        return Found::default();
    }
    let checked = repo.signatures(&HashSet::from([commit]), &[], Purpose::Signature).remove(&commit);
    let state = checked.as_ref().map_or(Signed::Unknown, judge);
    let keys = repo.signing_keys(commit);
    let key = keys.last().cloned();
    Found { signature: Some(Signature { state, key }), keys }
}

impl Engine<'_> {
    /// Checks the signature of a commit, if it has one.
    pub(super) fn signature_of(&self, commit: CommitId) -> Found {
        signature_of(self.repo, commit)
    }

    /// Writes a signed answer, on top of the driver's commit `head`. No ref points at it yet.
    pub(super) fn sign_answer(&self, head: CommitId, message: &str) -> Result<CommitId, Refusal> {
        let because = |error: &dyn std::error::Error| {
            Refusal::new(Why::Setup, format!("the answer was not signed: {}; nothing was changed", error_chain(error)))
                .hint("`git config user.signingKey KEY` names the key, and `git config gpg.format ssh` is for one of ssh")
        };
        let tree = self.repo.commit(head).map_err(|error| because(&error))?.tree;
        self.repo.check_settings().map_err(|error| because(&error))?;
        let new = NewCommit { tree, parents: &[head], message: message.as_bytes(), attempt: None };
        let limits = (Purpose::Signature, SIGNING);
        let signed = self.repo.write_signed(&new, None, clock::local_time(), limits, None);
        signed.map_err(|error| because(&error))
    }
}

fn judge(checked: &Checked) -> Signed {
    match checked {
        Checked::Letter('G') => Signed::Good,
        Checked::Letter('B' | 'R' | 'X' | 'Y')
        | Checked::Garbled
        | Checked::Distrusted { .. }
        | Checked::Unrevocable(_) => Signed::Bad,
        Checked::Letter(_)
        | Checked::NoSigners
        | Checked::Unreadable(_)
        | Checked::TooSlow { .. }
        | Checked::NotReached => Signed::Unknown,
    }
}

/// A fingerprint as git reports it. `None` if it is none.
pub(super) fn fingerprint(text: &str) -> Option<String> {
    if text.strip_prefix("SHA256:").is_some_and(|rest| rest.len() == 43) {
        return Some(text.to_owned());
    }
    let is_whole = matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_whole.then(|| text.to_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CONTRACT 20.25
    #[test]
    fn only_a_whole_fingerprint_names_a_key() {
        let ssh = format!("SHA256:{}", "x".repeat(43));
        let gpg = "0123456789abcdef0123456789ABCDEF01234567";
        assert_eq!(fingerprint(&ssh), Some(ssh.clone()));
        assert_eq!(fingerprint(gpg), Some(gpg.to_uppercase()));
        for wrong in ["", "abc", "89ABCDEF01234567", "SHA256:", "SHA256:x", &ssh[..49], &"g".repeat(40)] {
            assert_eq!(fingerprint(wrong), None, "{wrong}");
        }
    }

    /// CONTRACT 20.25
    #[test]
    fn only_what_git_accepts_is_good() {
        let states = "GBUXYREN?".chars().map(|letter| judge(&Checked::Letter(letter))).collect::<Vec<_>>();
        use Signed::{Bad, Good, Unknown};
        assert_eq!(states, [Good, Bad, Unknown, Bad, Bad, Bad, Unknown, Unknown, Unknown]);
        assert_eq!(judge(&Checked::NoSigners), Unknown);
        assert_eq!(judge(&Checked::Garbled), Bad);
    }
}
