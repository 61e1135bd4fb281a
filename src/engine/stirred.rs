//! Whether something in a directory has changed: a program that prints nothing may be busy.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::clock;

/// The most entries that are looked at. More count as a change.
const MOST: usize = 500_000;

/// The kernel's times of files may be that late, in milliseconds.
const COARSE: i64 = 20;

/// Watches a directory with all in it.
#[derive(Debug)]
pub struct Stirred {
    directory: PathBuf,
    /// The time of the last look, in milliseconds.
    last: Mutex<i64>,
}

impl Stirred {
    /// Begins to watch.
    #[must_use]
    pub fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), last: Mutex::new(clock::wall_millis()) }
    }

    /// Whether a file or directory was made, changed or removed since the last call. Links are not followed. What cannot
    /// be read counts as unchanged.
    pub fn has_changed(&self) -> bool {
        let now = clock::wall_millis();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let since = last.saturating_sub(COARSE);
        *last = now;
        has_newer(&self.directory, since)
    }
}

fn has_newer(top: &Path, since: i64) -> bool {
    let (mut ahead, mut seen) = (vec![top.to_owned()], 0);
    while let Some(path) = ahead.pop() {
        let Ok(found) = path.symlink_metadata() else { continue };
        seen += 1;
        let changed = found.ctime().saturating_mul(1000).saturating_add(found.ctime_nsec() / 1_000_000);
        if changed >= since || seen > MOST {
            return true;
        }
        if found.is_dir() {
            let entries = std::fs::read_dir(&path).into_iter().flatten().flatten();
            ahead.extend(entries.map(|entry| entry.path()));
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;
    use crate::fsutil;

    /// Until the last change is long enough ago.
    fn rest() {
        clock::pause(Duration::from_millis(60));
    }

    #[test]
    fn changes_at_any_depth_are_seen_once() {
        let room = tempfile::tempdir().expect("a directory");
        fs::create_dir_all(room.path().join("a/b")).expect("directories");
        fsutil::replace(&room.path().join("a/b/file"), "1".as_bytes()).expect("a file");
        rest();
        let stirred = Stirred::new(room.path());
        rest();
        assert!(!stirred.has_changed());
        let changes: [&dyn Fn(); 4] = [
            &|| fsutil::replace(&room.path().join("a/b/file"), "2".as_bytes()).expect("written"),
            &|| fsutil::replace(&room.path().join("a/new"), "".as_bytes()).expect("written"),
            &|| fs::remove_file(room.path().join("a/new")).expect("removed"),
            &|| fs::create_dir(room.path().join("c")).expect("made"),
        ];
        for change in changes {
            change();
            assert!(stirred.has_changed());
            rest();
            stirred.has_changed();
            rest();
            assert!(!stirred.has_changed());
        }
        fs::remove_dir_all(room.path()).expect("removed");
        assert!(!stirred.has_changed());
    }
}
