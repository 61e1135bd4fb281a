//! Notifications that the files of a directory have changed.
//!
//! Invariant: each change causes at least one call, except where the system drops notifications, so whoever needs it
//! looks from time to time as well.

use std::path::Path;

use notify::{Event, EventKind, RecursiveMode, Watcher};

/// Watches the files of one directory, or of all below it, until dropped.
#[derive(Debug)]
#[must_use = "dropping it ends the notifications"]
pub(crate) struct DirectoryWatch {
    _watcher: notify::RecommendedWatcher,
}

impl DirectoryWatch {
    /// Calls `changed` when a file of the directory has changed. `None` if the directory cannot be watched.
    pub(crate) fn of(directory: &Path, changed: impl Fn() + Send + 'static) -> Option<Self> {
        Self::with(directory, RecursiveMode::NonRecursive, changed)
    }

    /// Calls `changed` when a file below the directory has changed.
    pub(crate) fn below(directory: &Path, changed: impl Fn() + Send + 'static) -> Option<Self> {
        Self::with(directory, RecursiveMode::Recursive, changed)
    }

    fn with(directory: &Path, mode: RecursiveMode, changed: impl Fn() + Send + 'static) -> Option<Self> {
        let handler = move |event: notify::Result<Event>| {
            if event.is_ok_and(|event| !matches!(event.kind, EventKind::Access(_))) {
                changed();
            }
        };
        let watcher = notify::recommended_watcher(handler).and_then(|mut watcher| {
            watcher.watch(directory, mode)?;
            Ok(watcher)
        });
        match watcher {
            Ok(watcher) => Some(Self { _watcher: watcher }),
            Err(error) => {
                tracing::warn!(path = %directory.display(), %error, "a directory cannot be watched");
                None
            }
        }
    }
}
