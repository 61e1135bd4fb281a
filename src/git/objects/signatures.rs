//! Git's reports on the signatures of commits.
//!
//! Invariant: each commit gets an answer of its own. Git aborts a whole call at the first commit it cannot
//! read, and anyone who may push can make one. So the remaining commits of such a call are checked again in
//! halves, until the bad one is alone. `runner::survey::trust` decides which answers are good enough.

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

/// The result of checking one signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Checked {
    /// Git's letter (`%G?` of `git log`).
    Letter(char),
    /// Git reports no signature, but there is one: it is damaged, or the program that checks it
    /// cannot be started.
    Garbled,
    /// It is by an ssh key, and `gpg.ssh.allowedSignersFile` is not set.
    NoSigners,
    /// Git gave no answer; its reason.
    Unreadable(String),
    /// It would be good, but the revocation list of ssh keys cannot be read; the reason.
    Unrevocable(String),
    /// It would be good, but its key is trusted less than `gpg.minTrustLevel` requires, which `%G?`
    /// ignores.
    Distrusted {
        /// The key's trust level.
        trust: String,
        /// The required trust level.
        least: String,
    },
    /// The checking program hung.
    TooSlow {
        /// The program.
        program: String,
        /// Its time limit.
        limit: Duration,
    },
    /// It was not checked, since hung programs had used up the time for all checks.
    NotReached,
}

/// The longest that a program may take to make a signature: the user may have to touch a key.
pub(crate) const SIGNING: Duration = Duration::from_secs(120);

/// The time limit for signing after a hang, and for each further check after a hang.
const AGAIN: Duration = Duration::from_secs(10);

/// The longest that checking [`SHARE`] signatures may take.
const CHECKING: Duration = Duration::from_secs(30);
const SHARE: usize = 100;

/// After a hang, checking all of them may take this many times [`CHECKING`] in all.
const SHARES: u32 = 4;

/// The limit, or a test's shorter one.
pub(crate) fn at_most(limit: Duration) -> Duration {
    crate::crashpoint::signature_limit().map_or(limit, |shorter| shorter.min(limit))
}

/// Git's trust levels, ascending.
const TRUST: [&str; 5] = ["undefined", "never", "marginal", "fully", "ultimate"];

/// Whether a key of this trust level is good enough for `least`. An unknown level never is.
fn suffices(trust: &str, least: &str) -> bool {
    let rank = |word: &str| TRUST.iter().position(|known| known.eq_ignore_ascii_case(word));
    matches!((rank(trust), rank(least)), (Some(trust), Some(least)) if trust >= least)
}

/// The beginning of an ssh signature in a commit.
const BY_SSH: &[u8] = b"-----BEGIN SSH SIGNATURE-----";

/// The headers with signatures. Git ignores other headers whose names begin alike.
const HEADERS: [&[u8]; 2] = [b"gpgsig ", b"gpgsig-sha256 "];

/// The beginnings of all signatures that git knows.
const BEGINNINGS: [&[u8]; 4] = [
    BY_SSH,
    b"-----BEGIN PGP SIGNATURE-----",
    b"-----BEGIN PGP MESSAGE-----",
    b"-----BEGIN SIGNED MESSAGE-----",
];

/// The signature in a commit's headers, from its first line on.
fn signature_in(headers: &[u8]) -> Option<&[u8]> {
    let mut lines = headers.lines();
    lines.find_map(|line| HEADERS.iter().find_map(|header| line.strip_prefix(*header)))
}

/// Whether a commit has a signature that git would check. Git stores the output of ssh or x509
/// programs unchecked.
pub(crate) fn is_signed(headers: &[u8]) -> bool {
    signature_in(headers).is_some_and(|text| BEGINNINGS.iter().any(|begin| text.starts_with(begin)))
}

impl Repo {
    /// Checks the signature of each commit, in one call unless there are many, or git cannot read
    /// one, or a check hangs. `purpose` decides when a stop ends a call.
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

    /// Returns the answers of one call, in the order of `commits`, and why others are missing.
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
            ProcessError::TooSlow { .. } | ProcessError::Waited { .. } => Trouble::Hung,
            ProcessError::Stopped { .. } => Trouble::Stopped(ended.to_string()),
            ProcessError::NotStarted { .. }
            | ProcessError::LeftOut { .. }
            | ProcessError::Unread { .. }
            | ProcessError::Failed { .. } => Trouble::Said(ended.to_string()),
        };
        match output {
            Ok((output, None)) => {
                (answers(&output.stdout).collect(), Some(Trouble::Said(output.complaint())))
            }
            Ok((output, Some(ended))) => (answers(&output.stdout).collect(), Some(trouble(&ended))),
            Err(ended) => (Vec::new(), Some(trouble(&ended))),
        }
    }

    /// The fingerprints of the key that signed a commit, its primary key last. Empty if git cannot tell.
    pub(crate) fn signing_keys(&self, commit: CommitId) -> Vec<String> {
        let output = self
            .git_here()
            .args(["log", "--no-walk=unsorted", "--no-show-signature", "--no-patch", "--no-color"])
            .args(["--no-decorate", "--format=%GF%n%GP", &commit.to_string()])
            .for_signatures(self.interrupt(), Purpose::Signature, at_most(CHECKING))
            .known_as("log --format=%GF")
            .run();
        let text = output.map(|output| output.text()).unwrap_or_default();
        text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    /// The program that signs here, as [`Repo::program`] formats it.
    pub(crate) fn signer(&self) -> String {
        self.program(&self.config_here("gpg.format").unwrap_or_default())
    }

    /// How long a program may take to sign something that is useless after `within`.
    pub(crate) fn signing_limit(&self, within: Duration) -> Duration {
        let most = if self.interrupt().has_hung() { AGAIN } else { SIGNING };
        at_most(most.min(within))
    }

    /// The program that makes and checks signatures of this format, and the setting that names it,
    /// if one does.
    pub(crate) fn program(&self, format: &str) -> String {
        let (keys, usual): (&[&str], _) = match format {
            "ssh" => (&["gpg.ssh.program"], "ssh-keygen"),
            "x509" => (&["gpg.x509.program"], "gpgsm"),
            _ => (&["gpg.openpgp.program", "gpg.program"], "gpg"),
        };
        let set = |key: &&str| Some(format!("`{}` of {key}", self.config_here(key)?));
        keys.iter().find_map(set).unwrap_or_else(|| format!("`{usual}`"))
    }

    /// The format of a commit's signature, in git's terms.
    fn format_of(&self, id: CommitId) -> &'static str {
        match self.head_of(id) {
            Some(head) if head.contains_str(BY_SSH) => "ssh",
            Some(head) if head.contains_str("-----BEGIN SIGNED MESSAGE-----") => "x509",
            Some(_) | None => "openpgp",
        }
    }

    /// The headers of a commit; `None` for one in quarantine.
    pub(crate) fn head_of(&self, id: CommitId) -> Option<Vec<u8>> {
        self.object(gits(id)).ok().map(|object| headers(&object.data).to_vec())
    }

    /// Replaces git's letter `N`, which stands both for no signature and for some that git cannot
    /// check.
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

    /// Applies `gpg.minTrustLevel`: the letter is `G` for every trust level, whatever `git
    /// verify-commit` decides.
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

    /// Applies `gpg.ssh.revocationFile`: if git does not find that file it only warns, and accepts
    /// all keys.
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

/// Why git gave no answer for a commit.
enum Trouble {
    /// A stop, with its message.
    Stopped(String),
    /// A program hung.
    Hung,
    /// Git failed; its message.
    Said(String),
}

/// One line of git's answer.
struct Answer {
    id: CommitId,
    letter: char,
    trust: String,
}

/// Parses complete lines; the output of a call that was ended may stop within a line.
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
