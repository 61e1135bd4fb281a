//! Files that a validator leaves for the record, found by globs.
//!
//! Invariant: nothing outside of the worktree is copied, and no link is followed. What is found is bounded.

use std::fs::{File, Metadata};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::fsutil;

/// The most files of a validator.
const MAX_FILES: usize = 500;

/// The longest file, in bytes.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// The most bytes of a validator's files together.
const MAX_SUM: u64 = 128 * 1024 * 1024;

/// The most files and directories that are looked at.
const MAX_SEEN: usize = 200_000;

/// The copied files.
#[derive(Debug, Default)]
pub(super) struct Captured {
    /// The copies, as paths below the target.
    pub(super) files: Vec<PathBuf>,
    /// How many files are left out because there is too much.
    pub(super) left_out: usize,
    /// Paths that were named without a wildcard and are not there.
    pub(super) missing: Vec<String>,
}

/// Copies the files below `top` that `patterns` match into `target`.
pub(super) fn capture(top: &Path, patterns: &[String], target: &Path) -> io::Result<Captured> {
    let mut captured = Captured::default();
    let mut found = Vec::new();
    for pattern in patterns.iter().filter(|pattern| is_literal(pattern)) {
        if plain_file(top, Path::new(pattern)).is_none()
            && !pattern.ends_with('/')
            && !top.join(pattern).is_dir()
        {
            captured.missing.push(pattern.clone());
        }
    }
    let globs = globs(patterns);
    for start in starts(patterns) {
        walk(top, &start, &globs, &mut found);
    }
    found.sort();
    found.dedup();
    let mut left = MAX_SUM;
    for path in found {
        let Some(size) = plain_file(top, &path).map(|found| found.len()) else { continue };
        if captured.files.len() == MAX_FILES || size > MAX_BYTES || size > left {
            captured.left_out += 1;
            continue;
        }
        left -= size;
        copy(&top.join(&path), &target.join(&path))?;
        captured.files.push(path);
    }
    Ok(captured)
}

fn is_literal(pattern: &str) -> bool {
    !pattern.contains(['*', '?', '[', '{', '\\'])
}

/// A directory that is named means all in it.
fn globs(patterns: &[String]) -> GlobSet {
    let mut builder = GlobSetBuilder::new();
    for pattern in patterns {
        let inside = pattern.strip_suffix('/').unwrap_or(pattern);
        for text in [inside.to_owned(), format!("{inside}/**")] {
            // Patterns were checked when the file was read.
            if let Ok(glob) = GlobBuilder::new(&text).literal_separator(true).build() {
                builder.add(glob);
            }
        }
    }
    builder.build().unwrap_or_default()
}

/// The paths to look below: what is before the first wildcard of each pattern.
fn starts(patterns: &[String]) -> Vec<PathBuf> {
    let start = |pattern: &String| {
        pattern.split('/').take_while(|part| is_literal(part) && !part.is_empty()).collect::<PathBuf>()
    };
    let mut all: Vec<PathBuf> = patterns.iter().map(start).collect();
    all.sort();
    // What is below another one is found there.
    all.dedup_by(|later, earlier| later.starts_with(earlier));
    all
}

/// Finds files. The `.git` of the worktree, and of repositories in it, is left out.
fn walk(top: &Path, start: &Path, globs: &GlobSet, found: &mut Vec<PathBuf>) {
    if !is_reached_plainly(top, start) {
        return;
    }
    let (mut ahead, mut seen) = (vec![start.to_owned()], 0);
    while let Some(path) = ahead.pop() {
        let Ok(there) = top.join(&path).symlink_metadata() else { continue };
        seen += 1;
        if seen > MAX_SEEN || path.file_name().is_some_and(|name| name == ".git") {
            continue;
        }
        if there.is_dir() {
            let entries = std::fs::read_dir(top.join(&path)).into_iter().flatten().flatten();
            ahead.extend(entries.map(|entry| path.join(entry.file_name())));
        } else if there.is_file() && globs.is_match(&path) {
            found.push(path);
        }
    }
}

/// Whether no directory on the way is a link.
fn is_reached_plainly(top: &Path, path: &Path) -> bool {
    let above = path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
    let is_plain = |above: &Path| top.join(above).symlink_metadata().is_ok_and(|found| found.is_dir());
    above.into_iter().all(is_plain)
}

/// The metadata of a regular file in the worktree that is reached without a link.
pub(super) fn plain_file(top: &Path, path: &Path) -> Option<Metadata> {
    let found = top.join(path).symlink_metadata().ok().filter(Metadata::is_file)?;
    is_reached_plainly(top, path).then_some(found)
}

/// Copies a file. One that grows meanwhile is cut.
pub(super) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    if let Some(above) = to.parent() {
        fsutil::create_private_dir_all(above)?;
    }
    let source = fsutil::open_plain(from)?;
    let mut target: File = std::fs::OpenOptions::new().write(true).create_new(true).open(to)?;
    io::copy(&mut source.take(MAX_BYTES), &mut target)?;
    target.flush()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(captured: &Captured) -> Vec<String> {
        captured.files.iter().map(|path| path.display().to_string()).collect()
    }

    /// CONTRACT 20.18
    #[test]
    fn globs_stay_inside_and_follow_no_link() {
        let room = tempfile::tempdir().expect("a directory");
        let (top, target) = (room.path().join("top"), room.path().join("target"));
        for directory in ["top/shots/deep", "top/.git", "top/sub/.git", "outside"] {
            fs::create_dir_all(room.path().join(directory)).expect("a directory");
        }
        for file in [
            "top/a.json",
            "top/shots/1.png",
            "top/shots/deep/2.png",
            "top/.git/x.png",
            "top/sub/.git/y.png",
            "top/sub/z.png",
            "outside/secret.png",
        ] {
            fsutil::replace(&room.path().join(file), file.as_bytes()).expect("a file");
        }
        symlink("../outside", top.join("link")).expect("a link");
        symlink("../../outside/secret.png", top.join("shots/secret.png")).expect("a link");
        for (index, (patterns, files, missing)) in [
            (&["a.json"][..], &["a.json"][..], &[][..]),
            (&["b.json", "a.json"], &["a.json"], &["b.json"]),
            (&["shots/*.png"], &["shots/1.png"], &[]),
            (&["shots/**/*.png"], &["shots/1.png", "shots/deep/2.png"], &[]),
            (&["shots/"], &["shots/1.png", "shots/deep/2.png"], &[]),
            (&["**/*.png"], &["shots/1.png", "shots/deep/2.png", "sub/z.png"], &[]),
            (&["link/*.png", "link/secret.png"], &[], &["link/secret.png"]),
            (&["shots/secret.png"], &[], &["shots/secret.png"]),
            (&["none/*.png"], &[], &[]),
        ]
        .into_iter()
        .enumerate()
        {
            let patterns: Vec<String> = patterns.iter().map(|one| (*one).to_owned()).collect();
            let target = target.join(index.to_string());
            let captured = capture(&top, &patterns, &target).expect("captured");
            assert_eq!(names(&captured), files, "{patterns:?}");
            assert_eq!(captured.missing, missing, "{patterns:?}");
            assert!(captured.files.iter().all(|path| fs::read(target.join(path)).is_ok()));
        }
    }

    /// CONTRACT 20.18
    #[test]
    fn what_is_found_is_bounded() {
        let room = tempfile::tempdir().expect("a directory");
        let top = room.path().join("top");
        fs::create_dir(&top).expect("a directory");
        for number in 0..MAX_FILES + 3 {
            fsutil::replace(&top.join(format!("{number:04}")), "".as_bytes()).expect("a file");
        }
        File::create(top.join("0000.large")).and_then(|file| file.set_len(MAX_BYTES + 1)).expect("a file");
        let captured = capture(&top, &["*".to_owned()], &room.path().join("target")).expect("captured");
        assert_eq!((captured.files.len(), captured.left_out), (MAX_FILES, 4));
    }
}
