//! What git finds of the signatures of commits.
//!
//! Invariant: each commit has an answer of its own. Git gives up a whole call at the first commit it cannot read, and anybody who
//! may push can make one; so what such a call left open is asked again in halves, until the commit at fault is alone. Which answers
//! are good enough is `runner::survey::trust`'s to say.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;

use bstr::ByteSlice;

use super::process::{Git, Output};
use super::repo::Repo;
use crate::contract::ids::CommitId;

impl Repo {
    /// Git's one letter for the signature of each commit (`%G?` of `git log`), or why git gives none. All of it is asked in one
    /// call, unless git cannot read one of the commits.
    pub fn signatures(&self, commits: &HashSet<CommitId>) -> BTreeMap<CommitId, Result<char, String>> {
        self.signatures_in(commits, &[])
    }

    /// Like [`Repo::signatures`], for commits in a quarantine that the variables `objects` lead git to.
    pub fn signatures_in(
        &self,
        commits: &HashSet<CommitId>,
        objects: &[(&'static str, OsString)],
    ) -> BTreeMap<CommitId, Result<char, String>> {
        let mut found = BTreeMap::new();
        let mut ahead = vec![commits.iter().copied().collect::<Vec<CommitId>>()];
        while let Some(asked) = ahead.pop() {
            if asked.is_empty() {
                continue;
            }
            let trouble = match self.ask_signatures(&asked, objects) {
                Ok(output) => {
                    found.extend(letters(&output.stdout).map(|(id, letter)| (id, Ok(letter))));
                    output.complaint()
                }
                Err(why) => why,
            };
            let open: Vec<CommitId> = asked.into_iter().filter(|id| !found.contains_key(id)).collect();
            match open.as_slice() {
                [] => {}
                [one] => drop(found.insert(*one, Err(trouble))),
                more => {
                    let (one, other) = more.split_at(more.len() / 2);
                    ahead.extend([other.to_vec(), one.to_vec()]);
                }
            }
        }
        found
    }

    fn ask_signatures(
        &self,
        commits: &[CommitId],
        objects: &[(&'static str, OsString)],
    ) -> Result<Output, String> {
        let asked: String = commits.iter().map(|id| format!("{id}\n")).collect();
        let git = Git::shared(self.common_dir());
        objects
            .iter()
            .fold(git, |git, (name, value)| git.env(name, value))
            .args(["log", "--no-walk=unsorted", "--no-show-signature", "--no-patch", "--no-color"])
            .args(["--no-decorate", "--format=%H %G?", "--stdin"])
            .stdin(asked)
            .known_as("log --format=%G?")
            .run_unchecked()
            .map_err(|error| error.to_string())
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
