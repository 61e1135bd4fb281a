//! One ref of a push: its arguments, and its line in git's answer.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use bstr::{BStr, BString, ByteSlice};

use crate::contract::ids::CommitId;

/// The result of a push for one branch, as far as its reply shows.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// It was moved, or already has our commit.
    Accepted,
    /// The remote has another value than the expected one.
    Stale,
    /// The server refused; its reason.
    Refused(String),
    /// The server failed for now: its ref was locked, or its disk has a problem.
    Failed(String),
    /// There was no reply for this branch.
    Unknown,
}

/// The value that a push expects of a ref. None: the ref must not be there.
pub(super) fn lease(name: &BStr, expected: Option<CommitId>) -> OsString {
    let expected = expected.map(|id| id.to_string()).unwrap_or_default();
    bytes(&[b"--force-with-lease=", name, b":", expected.as_bytes()])
}

/// The value that a push gives a ref. None: it deletes the ref.
pub(super) fn refspec(new: Option<CommitId>, name: &BStr) -> OsString {
    let new = new.map(|id| id.to_string()).unwrap_or_default();
    bytes(&[new.as_bytes(), b":", name])
}

/// An argument as bytes: as text, a name that is not UTF-8 would become that of another ref.
fn bytes(parts: &[&[u8]]) -> OsString {
    OsString::from_vec(parts.concat())
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) reference: BString,
    pub(super) outcome: Pushed,
}

/// Parses the lines `<flag>\t<from>:<to>\t<summary>` of `git push --porcelain`.
pub(super) fn parse_push(stdout: &[u8]) -> Vec<Row> {
    stdout.lines().filter_map(parse_row).collect()
}

fn parse_row(line: &[u8]) -> Option<Row> {
    let mut fields = line.splitn(3, |byte| *byte == b'\t');
    let (flag, refs, summary) = (fields.next()?, fields.next()?, fields.next()?);
    let (_, reference) = refs.split_once_str(":")?;
    let outcome = match flag {
        // `-` is a deletion, `+` a move that is none forward. `=` means that the remote has exactly our commit. Our commits are unique, so an earlier
        // push of ours put it there.
        b" " | b"*" | b"=" | b"+" | b"-" => Pushed::Accepted,
        b"!" if summary.starts_with(b"[remote rejected]") || summary.starts_with(b"[remote failure]") => {
            let reason = summary.to_str_lossy().trim_start_matches("[remote rejected]").trim().to_owned();
            // The messages of `git receive-pack` when it cannot lock or write a ref.
            if reason.starts_with("(failed to update ref") || reason.starts_with("(atomic transaction failed")
            {
                Pushed::Failed(reason)
            } else {
                Pushed::Refused(reason)
            }
        }
        b"!" => Pushed::Stale,
        _ => Pushed::Unknown,
    };
    Some(Row { reference: reference.into(), outcome })
}

/// The server's own messages (`remote: …`), on one line, bounded.
pub(super) fn server_words(stderr: &[u8]) -> String {
    let text = stderr.to_str_lossy();
    let lines: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("remote: "))
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    lines.join("; ").chars().filter(|c| !c.is_control()).take(600).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn push_answers_are_told_apart() {
        let answer = "To ../r.git\n \taa:refs/heads/won\t1..2\n=\taa:refs/heads/mine\t[up to date]\n!\taa:refs/heads/lost\t[rejected] (stale info)\n\
            !\taa:refs/heads/behind\t[rejected] (non-fast-forward)\n!\taa:refs/heads/kept\t[remote rejected] (hook declined)\n\
            !\taa:refs/heads/locked\t[remote rejected] (failed to update ref)\n\
            !\taa:refs/heads/atomic\t[remote rejected] (atomic transaction failed)\nDone\n";
        let rows = parse_push(answer.as_bytes());
        let of = |name: &str| {
            rows.iter().find(|row| row.reference == format!("refs/heads/{name}")).map(|row| &row.outcome)
        };
        assert_eq!(of("won"), Some(&Pushed::Accepted));
        assert_eq!(of("mine"), Some(&Pushed::Accepted));
        assert_eq!(of("lost"), Some(&Pushed::Stale));
        assert_eq!(of("behind"), Some(&Pushed::Stale));
        assert_eq!(of("kept"), Some(&Pushed::Refused("(hook declined)".to_owned())));
        assert_eq!(of("locked"), Some(&Pushed::Failed("(failed to update ref)".to_owned())));
        assert_eq!(of("atomic"), Some(&Pushed::Failed("(atomic transaction failed)".to_owned())));
        assert_eq!(rows.len(), 7);
    }

    #[test]
    fn the_servers_own_words_are_kept() {
        assert_eq!(server_words(b"remote: no, protected   \nremote: \nerror: failed\n"), "no, protected");
    }
}
