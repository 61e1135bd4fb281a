//! What git finds of the signatures of commits.
//!
//! Invariant: each commit has an answer of its own. Git gives up a whole call at the first commit it cannot read, and anybody who
//! may push can make one; so what such a call left open is asked again in halves, until the commit at fault is alone. Which answers
//! are good enough is `runner::survey::trust`'s to say.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::fs::File;

use bstr::ByteSlice;

use super::process::Output;
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
        let mut ahead = vec![commits.iter().copied().collect::<Vec<CommitId>>()];
        while let Some(asked) = ahead.pop() {
            if asked.is_empty() {
                continue;
            }
            let trouble = match self.ask_signatures(&asked, objects) {
                Ok(output) => {
                    found.extend(letters(&output.stdout).map(|(id, letter)| (id, Checked::Letter(letter))));
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
            .args(["--no-decorate", "--format=%H %G?", "--stdin"])
            .stdin(asked)
            .known_as("log --format=%G?")
            .run_unchecked()
            .map_err(|error| error.to_string())
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

/// The answers in whole lines; a call that was cut short may end within one.
fn letters(stdout: &[u8]) -> impl Iterator<Item = (CommitId, char)> {
    stdout.lines_with_terminator().filter_map(|line| {
        let (id, letter) = line.strip_suffix(b"\n")?.split_once_str(" ")?;
        Some((CommitId::parse_hex(id)?, letter.to_str().ok()?.chars().next()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_lines_are_answers() {
        let (one, two) = ("1".repeat(40), "2".repeat(40));
        let found = |text: String| letters(text.as_bytes()).map(|(_, letter)| letter).collect::<String>();
        for (text, expected) in [
            (format!("{one} G\n{two} N\n"), "GN"),
            (format!("{one} G\n{two} N"), "G"),
            (format!("{one} G\n{two} \n"), "G"),
            (format!("{one} \n{two} U\n"), "U"),
            (String::new(), ""),
            (format!("warning: x\n{one} B\n"), "B"),
        ] {
            assert_eq!(found(text.clone()), expected, "{text:?}");
        }
    }
}
