//! Free space on a file system, and what a directory takes of it.
//!
//! Invariant: only queries the file system that contains a path; writes nothing.

use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Free space and free inodes of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeSpace {
    /// Bytes this user may still write.
    pub bytes: u64,
    /// How many more files can be created; `None` on a file system that does not count inodes.
    pub files: Option<u64>,
}

impl FreeSpace {
    /// Queries the file system that contains `place`.
    ///
    /// # Errors
    /// The error of `statvfs`.
    pub fn at(place: &Path) -> io::Result<Self> {
        let found = nix::sys::statvfs::statvfs(place)?;
        Ok(Self {
            bytes: found.blocks_available().saturating_mul(found.fragment_size()),
            // A file system that does not count its files reports a total of zero.
            files: (found.files() > 0).then(|| found.files_available()),
        })
    }
}

/// Describes the free space at `place` as the end of a sentence. `None` unless `error` or one of
/// its causes is a full disk or an exceeded quota.
pub fn free_space_text(error: &(dyn std::error::Error + 'static), place: &Path) -> Option<String> {
    let full = |error: &io::Error| matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
    let mut next = Some(error);
    while let Some(error) = next {
        if error.downcast_ref().is_some_and(full) {
            let here = place.ancestors().find(|path| path.exists()).unwrap_or(place);
            let space = FreeSpace::at(here).ok()?;
            let files = space.files.map(|files| format!(" and {files} more files")).unwrap_or_default();
            return Some(format!("there is room for {} KiB{files} in {}", space.bytes >> 10, here.display()));
        }
        next = error.source();
    }
    None
}

/// Disk use in bytes of a file, or of a directory with everything below it. Symbolic links are not followed.
pub fn disk_use(path: &Path) -> u64 {
    let mut total = 0;
    let mut ahead = vec![path.to_owned()];
    while let Some(next) = ahead.pop() {
        let Ok(found) = next.symlink_metadata() else { continue };
        total += found.blocks() * 512;
        if found.is_dir() {
            ahead.extend(std::fs::read_dir(&next).into_iter().flatten().flatten().map(|entry| entry.path()));
        }
    }
    total
}
