//! What git finds of the signatures of commits.
//!
//! Invariant: each commit has an answer of its own. Git gives up a whole call at the first commit it cannot read, and anybody who
//! may push can make one; so what such a call left open is asked again in halves, until the commit at fault is alone. Which answers
//! are good enough is `runner::survey::trust`'s to say.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::fs::File;
use std::time::Duration;

use bstr::ByteSlice;

use crate::clock::Stopwatch;
use crate::contract::ids::CommitId;
use crate::git::process::call::ProcessError;
use crate::git::process::cancel::Purpose;
use crate::git::repo::open::{Repo, gits};

/// What came of checking one signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Checked {
    /// Git's letter for it (`%G?` of `git log`).
    Letter(char),
    /// Git says that there is none, and there is one: it is damaged, or the program that checks it cannot be started.
    Garbled,
    /// It is by an ssh key, and nothing says whose keys are trusted.
    NoSigners,
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
    /// The program that checks it did not come to an end.
    TooSlow {
        /// Which program.
        program: String,
        /// How long it was given.
        limit: Duration,
    },
    /// It was not checked, as such a program had used up all the time there is.
    NotReached,
}

/// The longest that a program may take to make a signature: somebody may have to touch a key.
pub(crate) const SIGNING: Duration = Duration::from_secs(120);

/// The same after it had to be ended the last time, and for any that hangs over one more commit.
const AGAIN: Duration = Duration::from_secs(10);

/// The longest that checking so many may take.
const CHECKING: Duration = Duration::from_secs(30);
const SHARE: usize = 100;

/// Once a program has hung, checking all of them may take so many times [`CHECKING`] in all.
const SHARES: u32 = 4;

/// A limit, or the shorter one of a test.
pub(crate) fn at_most(limit: Duration) -> Duration {
    crate::crashpoint::signature_limit().map_or(limit, |shorter| shorter.min(limit))
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

/// The headers that hold signatures. Others whose names begin so are nothing to git.
const HEADERS: [&[u8]; 2] = [b"gpgsig ", b"gpgsig-sha256 "];

/// How all signatures that git knows begin.
const BEGINNINGS: [&[u8]; 4] = [
    BY_SSH,
    b"-----BEGIN PGP SIGNATURE-----",
    b"-----BEGIN PGP MESSAGE-----",
    b"-----BEGIN SIGNED MESSAGE-----",
];

/// Returns what the headers of a commit have for its signature, from its first line on.
fn signature_in(headers: &[u8]) -> Option<&[u8]> {
    let mut lines = headers.lines();
    lines.find_map(|line| HEADERS.iter().find_map(|header| line.strip_prefix(*header)))
}

/// Whether a commit has a signature that git would look at. Git itself takes what a program of ssh or x509 writes as it is.
pub(crate) fn is_signed(headers: &[u8]) -> bool {
    signature_in(headers).is_some_and(|text| BEGINNINGS.iter().any(|begin| text.starts_with(begin)))
}

impl Repo {
    /// What git finds of the signature of each commit. All of it is asked in one call, unless they are many, or git cannot read one
    /// of them, or hangs over one. `purpose` says when a stop ends that.
    pub(crate) fn signatures(
        &self,
        commits: &HashSet<CommitId>,
        objects: &[(&'static str, OsString)],
        purpose: Purpose,
    ) -> BTreeMap<CommitId, Checked> {
        let mut found = BTreeMap::new();
        let mut trusts = BTreeMap::new();
        let all: Vec<CommitId> = commits.iter().copied().collect();
        let mut ahead: Vec<Vec<CommitId>> = all.chunks(SHARE).map(<[CommitId]>::to_vec).collect();
        let (watch, mut limit) = (Stopwatch::start(), at_most(CHECKING));
        let mut hung = false;
        while let Some(asked) = ahead.pop() {
            if hung && watch.elapsed() >= at_most(CHECKING) * SHARES {
                found.extend(asked.into_iter().map(|id| (id, Checked::NotReached)));
                continue;
            }
            let (answers, ended) = self.ask_signatures(&asked, objects, purpose, limit);
            for Answer { id, letter, trust } in answers {
                found.insert(id, Checked::Letter(letter));
                trusts.insert(id, trust);
            }
            let open: Vec<CommitId> = asked.into_iter().filter(|id| !found.contains_key(id)).collect();
            match (open.as_slice(), ended) {
                ([], _) => {}
                (open, Some(Trouble::Stopped(why))) => {
                    found.extend(open.iter().map(|id| (*id, Checked::Unreadable(why.clone()))));
                    let rest = ahead.drain(..).flatten();
                    found.extend(rest.map(|id| (id, Checked::NotReached)));
                }
                ([one, rest @ ..], Some(Trouble::Hung)) => {
                    let program = self.program(self.format_of(*one));
                    found.insert(*one, Checked::TooSlow { program, limit });
                    (hung, limit) = (true, at_most(AGAIN));
                    ahead.push(rest.to_vec());
                }
                ([one], Some(Trouble::Said(why))) => drop(found.insert(*one, Checked::Unreadable(why))),
                (more, _) => {
                    let (one, other) = more.split_at(more.len() / 2);
                    ahead.extend([other.to_vec(), one.to_vec()]);
                }
            }
        }
        self.explain_none(&mut found);
        self.doubt_distrusted(&mut found, &trusts);
        self.doubt_unrevocable(&mut found);
        found
    }

    /// The answers to one call, in the order of `commits`, and what kept it from the others.
    fn ask_signatures(
        &self,
        commits: &[CommitId],
        objects: &[(&'static str, OsString)],
        purpose: Purpose,
        limit: Duration,
    ) -> (Vec<Answer>, Option<Trouble>) {
        let asked: String = commits.iter().map(|id| format!("{id}\n")).collect();
        let output = objects
            .iter()
            .fold(self.git_here(), |git, (name, value)| git.env(name, value))
            .args(["log", "--no-walk=unsorted", "--no-show-signature", "--no-patch", "--no-color"])
            .args(["--no-decorate", "--format=%H %G? %GT", "--stdin"])
            .stdin(asked)
            .for_signatures(self.interrupt(), purpose, limit)
            .known_as("log --format=%G?")
            .run_partly();
        let trouble = |ended: &ProcessError| match ended {
            ProcessError::TooSlow { .. } => Trouble::Hung,
            ProcessError::Stopped { .. } => Trouble::Stopped(ended.to_string()),
            ProcessError::NotStarted { .. } | ProcessError::Failed { .. } => Trouble::Said(ended.to_string()),
        };
        match output {
            Ok((output, None)) => {
                (answers(&output.stdout).collect(), Some(Trouble::Said(output.complaint())))
            }
            Ok((output, Some(ended))) => (answers(&output.stdout).collect(), Some(trouble(&ended))),
            Err(ended) => (Vec::new(), Some(trouble(&ended))),
        }
    }

    /// The program that signs here, like [`Repo::program`].
    pub(crate) fn signer(&self) -> String {
        self.program(&self.config_here("gpg.format").unwrap_or_default())
    }

    /// How long a program may take to sign what is of no use after `within`.
    pub(crate) fn signing_limit(&self, within: Duration) -> Duration {
        let most = if self.interrupt().has_hung() { AGAIN } else { SIGNING };
        at_most(most.min(within))
    }

    /// The program that makes and checks signatures of this format, and the setting that names it, if one does.
    pub(crate) fn program(&self, format: &str) -> String {
        let (keys, usual): (&[&str], _) = match format {
            "ssh" => (&["gpg.ssh.program"], "ssh-keygen"),
            "x509" => (&["gpg.x509.program"], "gpgsm"),
            _ => (&["gpg.openpgp.program", "gpg.program"], "gpg"),
        };
        let set = |key: &&str| Some(format!("`{}` of {key}", self.config_here(key)?));
        keys.iter().find_map(set).unwrap_or_else(|| format!("`{usual}`"))
    }

    /// The format of a commit's signature, by git's names.
    fn format_of(&self, id: CommitId) -> &'static str {
        match self.head_of(id) {
            Some(head) if head.contains_str(BY_SSH) => "ssh",
            Some(head) if head.contains_str("-----BEGIN SIGNED MESSAGE-----") => "x509",
            Some(_) | None => "openpgp",
        }
    }

    /// The headers of a commit; `None` for one in a quarantine.
    pub(crate) fn head_of(&self, id: CommitId) -> Option<Vec<u8>> {
        self.gix.find_object(gits(id)).ok().map(|object| headers(&object.data).to_vec())
    }

    /// Git has one letter for a commit without a signature and for some that it cannot check.
    fn explain_none(&self, found: &mut BTreeMap<CommitId, Checked>) {
        for (id, checked) in found.iter_mut().filter(|(_, checked)| **checked == Checked::Letter('N')) {
            let Some(head) = self.head_of(*id) else { continue };
            if signature_in(&head).is_some() {
                let unlisted = head.contains_str(BY_SSH)
                    && matches!(self.config_file("gpg.ssh.allowedSignersFile"), Ok(None));
                *checked = if unlisted { Checked::NoSigners } else { Checked::Garbled };
            }
        }
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
        let by_ssh = |id: &CommitId| self.head_of(*id).is_none_or(|head| head.contains_str(BY_SSH));
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

/// The part of a commit above its message.
pub(crate) fn headers(commit: &[u8]) -> &[u8] {
    commit.split_str("\n\n").next().unwrap_or_default()
}

/// What kept git from answering for a commit.
enum Trouble {
    /// A stop, in words.
    Stopped(String),
    /// A program that did not come to an end.
    Hung,
    /// What git said.
    Said(String),
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
