//! Locks that a killed git left on copies of a remote's refs.
//!
//! Invariant: only copies are freed. Nothing is decided by them, and the next fetch sets them anew. A lock is freed when it
//! is older than the longest fetch.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use crate::clock;
use crate::contract::layout::{FETCHED, FETCHED_RUNS, FETCHED_SLOTS};
use crate::git::remote::PATIENCE;
use crate::git::repo::open::Repo;

/// The age of a lock whose fetch is over.
const OVER: Duration = PATIENCE.saturating_add(Duration::from_secs(60));

impl Repo {
    /// Removes the locks of copies of remote refs that are older than any fetch. Returns the names of the refs.
    pub(crate) fn release_abandoned_locks(&self) -> Vec<String> {
        let mut released = Vec::new();
        for place in [FETCHED, FETCHED_SLOTS, FETCHED_RUNS] {
            release_below(&self.common_dir().join(place), place, &mut released);
        }
        released
    }
}

fn release_below(directory: &Path, place: &str, released: &mut Vec<String>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), format!("{place}{}", entry.file_name().to_string_lossy()));
        // Of a link the link itself counts.
        let Ok(found) = entry.metadata() else { continue };
        if found.is_dir() {
            release_below(&path, &format!("{name}/"), released);
        } else if let Some(name) = name.strip_suffix(".lock")
            && age(found.mtime()) > OVER
        {
            match std::fs::remove_file(&path) {
                Ok(()) => released.push(name.to_owned()),
                Err(error) => {
                    tracing::warn!(lock = %path.display(), %error, "the lock of a killed git stays")
                }
            }
        }
    }
}

/// How long ago that was, in seconds of the epoch.
fn age(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(clock::wall_seconds().saturating_sub(seconds)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn old_locks_of_copies_go() {
        let scratch = tempfile::tempdir().expect("a directory");
        let now = clock::wall();
        let make = |name: &str, age: Duration| {
            let path = scratch.path().join(name);
            fs::create_dir_all(path.parent().expect("above")).expect("made");
            let at: SystemTime = now.checked_sub(age).expect("a time");
            File::create(&path).expect("made").set_modified(at).expect("set");
            path
        };
        let old = make("origin/a/b.lock", OVER + Duration::from_secs(5));
        let stays = [make("origin/a/c.lock", PATIENCE), make("origin/a/b", OVER * 2)];
        let mut released = Vec::new();
        release_below(scratch.path(), "refs/x/", &mut released);
        assert_eq!(released, ["refs/x/origin/a/b"]);
        assert!(!old.exists() && stays.iter().all(|path| path.exists()));
    }
}
