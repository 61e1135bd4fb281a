//! Notifications of changes of refs in the files of this repository.
//!
//! Invariant: each move of a ref below a watched prefix causes at least one call, except where the system drops
//! notifications, so whoever needs it looks from time to time as well.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use notify::{Event, EventKind, RecursiveMode, Watcher};

use crate::git::repo::open::Repo;

/// Watches the files of refs until dropped.
#[derive(Debug)]
#[must_use = "dropping it ends the notifications"]
pub struct RefWatch {
    _watcher: notify::RecommendedWatcher,
}

impl RefWatch {
    /// Calls `changed` when a ref below one of these prefixes may have moved. `None` if the files cannot be watched.
    pub(crate) fn of(repo: &Repo, prefixes: &[&str], changed: impl Fn() + Send + 'static) -> Option<Self> {
        let places: Vec<PathBuf> = prefixes.iter().map(|prefix| repo.common_dir().join(prefix)).collect();
        let watched = places.clone();
        let handler = move |event: notify::Result<Event>| {
            if event.is_ok_and(|event| matters(&event, &watched)) {
                changed();
            }
        };
        let watcher = notify::recommended_watcher(handler).and_then(|mut watcher| {
            for place in &places {
                // Where it cannot be made no ref can come into being.
                if place.exists() || std::fs::create_dir_all(place).is_ok() {
                    watcher.watch(place, RecursiveMode::Recursive)?;
                }
            }
            watcher.watch(repo.common_dir(), RecursiveMode::NonRecursive)?;
            Ok(watcher)
        });
        match watcher {
            Ok(watcher) => Some(Self { _watcher: watcher }),
            Err(error) => {
                tracing::warn!(%error, "changes of refs cannot be watched here; looking every interval only");
                None
            }
        }
    }
}

/// Whether an event can mean that a ref moved. Lock files and reads do not count.
fn matters(event: &Event, places: &[PathBuf]) -> bool {
    if matches!(event.kind, EventKind::Access(_)) {
        return false;
    }
    event.paths.iter().any(|path| {
        let lock = path.extension() == Some(OsStr::new("lock"));
        let watched = places.iter().any(|place| path.starts_with(place));
        !lock && (watched || path.file_name() == Some(Path::new("packed-refs").as_os_str()))
    })
}
