//! The changes between two trees, file by file and line by line, as git finds them.
//!
//! Invariant: names and kinds of changes come from git's records, which end with NUL, and lines from its patch. A file
//! name is never read out of a patch.

use bstr::{BString, ByteSlice};
use serde::Serialize;

use crate::contract::ids::CommitId;
use crate::git::process::call::{Git, ProcessError};
use crate::git::repo::open::Repo;

/// The most lines of all files together. Files beyond them have no hunks.
const MOST_LINES: usize = 50_000;

/// The longest line, in bytes. A longer one is cut.
const LONGEST: usize = 4_096;

/// The change of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileChange {
    /// Its path in the new tree; of a file that is gone the one in the old tree.
    pub path: String,
    /// Its path in the old tree, if that is another one.
    pub old: Option<String>,
    /// The kind of the change.
    pub status: FileStatus,
    /// Whether git takes it for binary: it has no hunks then.
    pub binary: bool,
    /// Whether its hunks are left out, because there are too many lines.
    pub cut: bool,
    /// The places that differ.
    pub hunks: Vec<Hunk>,
}

/// The kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FileStatus {
    /// It is new.
    Added,
    /// Its content or its mode is another one.
    Modified,
    /// It is gone.
    Deleted,
    /// It has another path.
    Renamed,
}

/// Lines that differ, with those around them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Hunk {
    /// The heading that git found above them.
    pub header: String,
    /// The number of the first line in the old file.
    pub old_start: u64,
    /// How many lines of the old file.
    pub old_lines: u64,
    /// The number of the first line in the new file.
    pub new_start: u64,
    /// How many lines of the new file.
    pub new_lines: u64,
    /// The lines, each with git's mark as its first character.
    pub lines: Vec<String>,
}

impl Repo {
    /// The changes from one tree to another.
    pub fn file_changes(&self, old: CommitId, new: CommitId) -> Result<Vec<FileChange>, ProcessError> {
        let how = ["-r", "-z", "--raw", "-p", "-M", "--no-ext-diff", "--no-textconv", "--no-color"];
        let git = Git::shared(self.common_dir()).args(["-c", "diff.suppressBlankEmpty=false", "diff-tree"]);
        let output = git.args(how).args([old.to_string(), new.to_string()]).run()?;
        Ok(read(&output.stdout))
    }
}

/// Reads records and patch of `git diff-tree -z --raw -p`.
fn read(output: &[u8]) -> Vec<FileChange> {
    let (mut files, patch) = records(output);
    let mut sections = sections(patch).into_iter();
    let mut lines_left = MOST_LINES;
    for (file, count) in &mut files {
        for section in sections.by_ref().take(*count) {
            fill(file, section, &mut lines_left);
        }
    }
    files.into_iter().map(|(file, _)| file).collect()
}

/// The records, each with the number of its sections, and the patch after them.
fn records(mut rest: &[u8]) -> (Vec<(FileChange, usize)>, &[u8]) {
    let mut files = Vec::new();
    while let Some(record) = rest.strip_prefix(b":") {
        let Some((meta, after)) = record.split_once_str("\0") else { break };
        let Some((path, mut after)) = after.split_once_str("\0") else { break };
        let letter = meta.rsplit(|byte| *byte == b' ').next().and_then(|word| word.first()).copied();
        let (status, sections) = match letter {
            Some(b'A') => (FileStatus::Added, 1),
            Some(b'D') => (FileStatus::Deleted, 1),
            Some(b'R' | b'C') => (FileStatus::Renamed, 1),
            // A file that became a link, or the other way: its patch removes one and adds the other.
            Some(b'T') => (FileStatus::Modified, 2),
            _ => (FileStatus::Modified, 1),
        };
        let (mut path, mut old) = (path, None);
        if status == FileStatus::Renamed {
            let Some((new, further)) = after.split_once_str("\0") else { break };
            (old, path, after) = (Some(text(path)), new, further);
        }
        let file = FileChange { path: text(path), old, status, binary: false, cut: false, hunks: Vec::new() };
        files.push((file, sections));
        rest = after;
    }
    (files, rest.strip_prefix(b"\0").unwrap_or(rest))
}

/// The part of the patch for each file. A line of a file has a mark before it, so none begins like this.
fn sections(patch: &[u8]) -> Vec<Vec<&[u8]>> {
    let mut all: Vec<Vec<&[u8]>> = Vec::new();
    for line in patch.split_str("\n") {
        if line.starts_with(b"diff --git ") {
            all.push(Vec::new());
        } else if let Some(last) = all.last_mut() {
            last.push(line);
        }
    }
    all
}

fn fill(file: &mut FileChange, section: Vec<&[u8]>, lines_left: &mut usize) {
    let is_of_hunks = |line: &&[u8]| matches!(line.first(), Some(b'@' | b' ' | b'+' | b'-' | b'\\'));
    let from = section.iter().position(|line| line.starts_with(b"@@ ")).unwrap_or(section.len());
    file.binary |= section[..from].iter().any(|line| line.starts_with(b"Binary files "));
    let lines: Vec<&[u8]> = section[from..].iter().copied().filter(is_of_hunks).collect();
    if lines.len() > *lines_left {
        file.cut = true;
        return;
    }
    *lines_left -= lines.len();
    for line in lines {
        if let Some(hunk) = heading(line) {
            file.hunks.push(hunk);
        } else if let Some(hunk) = file.hunks.last_mut() {
            hunk.lines.push(text(line.get(..LONGEST).unwrap_or(line)));
        }
    }
}

/// `@@ -1,2 +1,3 @@ heading`
fn heading(line: &[u8]) -> Option<Hunk> {
    let line = text(line.strip_prefix(b"@@ -")?);
    let (old, rest) = line.split_once(" +")?;
    let (new, header) = rest.split_once(" @@")?;
    let range = |text: &str| {
        let (start, count) = text.split_once(',').unwrap_or((text, "1"));
        Some((start.parse().ok()?, count.parse().ok()?))
    };
    let ((old_start, old_lines), (new_start, new_lines)) = (range(old)?, range(new)?);
    let header = header.trim().to_owned();
    Some(Hunk { header, old_start, old_lines, new_start, new_lines, lines: Vec::new() })
}

fn text(bytes: &[u8]) -> String {
    BString::from(bytes).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDS: &str = "100644 100644 aaa bbb";

    fn change(path: &str, status: FileStatus) -> FileChange {
        FileChange { path: path.into(), old: None, status, binary: false, cut: false, hunks: Vec::new() }
    }

    #[test]
    fn records_give_the_names_and_the_patch_the_lines() {
        let output = format!(
            ":{IDS} M\0a b\n@@ c\0:{IDS} R090\0old\0new\0:{IDS} A\0bin\0:{IDS} T\0link\0:{IDS} D\0gone\0\0\
             diff --git a/a b\nindex aaa..bbb\n--- a/a b\n+++ b/a b\n@@ -1,2 +1,2 @@ fn main()\n one\n-two\n+diff --git 2\n\
             \\ No newline at end of file\n\
             diff --git a/old b/new\nsimilarity index 90%\nrename from old\nrename to new\n@@ -3 +3 @@\n-x\n+y\n\
             diff --git a/bin b/bin\nnew file mode 100644\nBinary files /dev/null and b/bin differ\n\
             diff --git a/link b/link\ndeleted file mode 100644\n@@ -1 +0,0 @@\n-file\n\
             diff --git a/link b/link\nnew file mode 120000\n@@ -0,0 +1 @@\n+target\n\
             diff --git a/gone b/gone\ndeleted file mode 100644\n"
        );
        let hunk = |header: &str, ends: [u64; 4], lines: &[&str]| Hunk {
            header: header.into(),
            old_start: ends[0],
            old_lines: ends[1],
            new_start: ends[2],
            new_lines: ends[3],
            lines: lines.iter().map(|line| (*line).to_owned()).collect(),
        };
        let mut wanted = [
            change("a b\n@@ c", FileStatus::Modified),
            change("new", FileStatus::Renamed),
            change("bin", FileStatus::Added),
            change("link", FileStatus::Modified),
            change("gone", FileStatus::Deleted),
        ];
        wanted[0].hunks = vec![hunk(
            "fn main()",
            [1, 2, 1, 2],
            &[" one", "-two", "+diff --git 2", "\\ No newline at end of file"],
        )];
        wanted[1].old = Some("old".into());
        wanted[1].hunks = vec![hunk("", [3, 1, 3, 1], &["-x", "+y"])];
        wanted[2].binary = true;
        wanted[3].hunks = vec![hunk("", [1, 1, 0, 0], &["-file"]), hunk("", [0, 0, 1, 1], &["+target"])];
        assert_eq!(read(output.as_bytes()), wanted);
        assert_eq!(read(b""), []);
        assert_eq!(read(b":garbage"), []);
    }

    #[test]
    fn too_many_lines_and_too_long_ones_are_cut() {
        let many = "+x\n".repeat(MOST_LINES);
        let long = "y".repeat(2 * LONGEST);
        let output = format!(
            ":{IDS} A\0many\0:{IDS} A\0long\0\0diff --git a/many b/many\n@@ -0,0 +1,9 @@\n{many}\
             diff --git a/long b/long\n@@ -0,0 +1 @@\n+{long}\n"
        );
        let read = read(output.as_bytes());
        assert_eq!((read[0].cut, read[0].hunks.len()), (true, 0));
        assert_eq!((read[1].cut, read[1].hunks[0].lines[0].len()), (false, LONGEST));
    }
}
