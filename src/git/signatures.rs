//! What git finds of the signatures of commits.
//!
//! Invariant: each commit has an answer of its own. Git gives up a whole call at the first commit it cannot read, and anybody who
//! may push can make one; so what such a call left open is asked again in halves, until the commit at fault is alone. Which answers
//! are good enough is `runner::survey::trust`'s to say.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::fs::File;

use bstr::ByteSlice;

use super::process::{Output, ProcessError};
use super::repo::{Repo, gits};
use crate::contract::ids::CommitId;

/// What came of checking one signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checked {
    /// Git's letter for it (`%G?` of `git log`).
    Letter(char),
    /// Git gave none, in its words.
    Unreadable(String),
    /// It would be good, but nobody can tell whether its ssh key was revoked, in words.
    Unrevocable(String),
    /// It would be good, but its key is trusted less than `gpg.minTrustLevel` asks for, which `%G?` does not regard.
    Distrusted {
        /// How much it is trusted.
        trust: String,
        /// How much it would have to be.
        least: String,
    },
}

/// How much a key may be trusted, in git's words.
const TRUST: [&str; 5] = ["undefined", "never", "marginal", "fully", "ultimate"];

/// Whether a key of this trust is good where `least` is asked for. Of words that git does not have none is.
fn suffices(trust: &str, least: &str) -> bool {
    let rank = |word: &str| TRUST.iter().position(|known| known.eq_ignore_ascii_case(word));
    matches!((rank(trust), rank(least)), (Some(trust), Some(least)) if trust >= least)
}

/// How the signature of ssh begins in a commit.
const BY_SSH: &[u8] = b"-----BEGIN SSH SIGNATURE-----";

impl Repo {
    /// What git finds of the signature of each commit. All of it is asked in one call, unless git cannot read one of the commits.
    pub fn signatures(&self, commits: &HashSet<CommitId>) -> BTreeMap<CommitId, Checked> {
        self.signatures_in(commits, &[])
    }

    /// Like [`Repo::signatures`], for commits in a quarantine that the variables `objects` lead git to.
    pub fn signatures_in(
        &self,
        commits: &HashSet<CommitId>,
        objects: &[(&'static str, OsString)],
    ) -> BTreeMap<CommitId, Checked> {
        let mut found = BTreeMap::new();
        let mut trusts = BTreeMap::new();
        let mut ahead = vec![commits.iter().copied().collect::<Vec<CommitId>>()];
        while let Some(asked) = ahead.pop() {
            if asked.is_empty() {
                continue;
            }
            let trouble = match self.ask_signatures(&asked, objects) {
                Ok(output) => {
                    for Answer { id, letter, trust } in answers(&output.stdout) {
                        found.insert(id, Checked::Letter(letter));
                        trusts.insert(id, trust);
                    }
                    output.complaint()
                }
                Err(why) => why,
            };
            let open: Vec<CommitId> = asked.into_iter().filter(|id| !found.contains_key(id)).collect();
            match open.as_slice() {
                [] => {}
                [one] => drop(found.insert(*one, Checked::Unreadable(trouble))),
                more => {
                    let (one, other) = more.split_at(more.len() / 2);
                    ahead.extend([other.to_vec(), one.to_vec()]);
                }
            }
        }
        self.doubt_distrusted(&mut found, &trusts);
        self.doubt_unrevocable(&mut found);
        found
    }

    fn ask_signatures(
        &self,
        commits: &[CommitId],
        objects: &[(&'static str, OsString)],
    ) -> Result<Output, String> {
        let asked: String = commits.iter().map(|id| format!("{id}\n")).collect();
        objects
            .iter()
            .fold(self.git_here(), |git, (name, value)| git.env(name, value))
            .args(["log", "--no-walk=unsorted", "--no-show-signature", "--no-patch", "--no-color"])
            .args(["--no-decorate", "--format=%H %G? %GT", "--stdin"])
            .stdin(asked)
            .known_as("log --format=%G?")
            .run_unchecked()
            .map_err(|error| error.to_string())
    }

    /// The letter is the same for all keys that are trusted at all, whatever `git verify-commit` makes of them.
    fn doubt_distrusted(&self, found: &mut BTreeMap<CommitId, Checked>, trusts: &BTreeMap<CommitId, String>) {
        let mut good = found.iter_mut().filter(|(_, checked)| **checked == Checked::Letter('G')).peekable();
        if good.peek().is_none() {
            return;
        }
        let least = match self.git_here().args(["config", "--get", "gpg.minTrustLevel"]).run() {
            Ok(output) => output.text(),
            Err(ProcessError::Failed { status, .. }) if status.code() == Some(1) => return,
            Err(error) => error.to_string(),
        };
        for (id, checked) in good {
            let trust = trusts.get(id).cloned().unwrap_or_default();
            if !suffices(&trust, &least) {
                *checked = Checked::Distrusted { trust, least: least.clone() };
            }
        }
    }

    /// Git only warns where it does not find the list of revoked keys, and takes them all for good.
    fn doubt_unrevocable(&self, found: &mut BTreeMap<CommitId, Checked>) {
        let by_ssh = |id: &CommitId| match self.gix.find_object(gits(*id)) {
            Ok(object) => object.data.split_str("\n\n").next().is_some_and(|head| head.contains_str(BY_SSH)),
            // In a quarantine.
            Err(_) => true,
        };
        let good = found.iter_mut().filter(|(id, checked)| **checked == Checked::Letter('G') && by_ssh(id));
        let good: Vec<&mut Checked> = good.map(|(_, checked)| checked).collect();
        if good.is_empty() {
            return;
        }
        let why = match self.config_file("gpg.ssh.revocationFile") {
            Ok(None) => return,
            Ok(Some(file)) => match File::open(&file) {
                Ok(_) => return,
                Err(error) => format!("{}: {error}", file.display()),
            },
            Err(error) => error.to_string(),
        };
        for checked in good {
            *checked = Checked::Unrevocable(why.clone());
        }
    }
}

/// What git says of one commit.
struct Answer {
    id: CommitId,
    letter: char,
    trust: String,
}

/// The answers in whole lines; a call that was cut short may end within one.
fn answers(stdout: &[u8]) -> impl Iterator<Item = Answer> {
    stdout.lines_with_terminator().filter_map(|line| {
        let (id, rest) = line.strip_suffix(b"\n")?.split_once_str(" ")?;
        let (letter, trust) = rest.to_str().ok()?.split_once(' ')?;
        let letter = letter.chars().next()?;
        Some(Answer { id: CommitId::parse_hex(id)?, letter, trust: trust.to_owned() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_lines_are_answers() {
        let (one, two) = ("1".repeat(40), "2".repeat(40));
        let found = |text: &str| answers(text.as_bytes()).map(|answer| answer.letter).collect::<String>();
        for (text, expected) in [
            (format!("{one} G fully\n{two} N undefined\n"), "GN"),
            (format!("{one} G fully\n{two} N undefined"), "G"),
            (format!("{one} G fully\n{two} N\n"), "G"),
            (format!("{one}  x\n{two} U undefined\n"), "U"),
            (String::new(), ""),
            (format!("warning: x\n{one} B undefined\n"), "B"),
        ] {
            assert_eq!(found(&text), expected, "{text:?}");
        }
    }

    #[test]
    fn trust_has_an_order() {
        for (at, trust) in TRUST.iter().enumerate() {
            for (other, least) in TRUST.iter().enumerate() {
                assert_eq!(suffices(trust, &least.to_uppercase()), at >= other, "{trust} {least}");
            }
            assert!(!suffices(trust, "much") && !suffices("", trust));
        }
    }
}
