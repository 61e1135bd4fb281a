//! How much a disk still takes.
//!
//! Invariant: a question about the file system that a path lies on; nothing is written to find out.

use std::io::{self, ErrorKind};
use std::path::Path;

/// What is left on a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeSpace {
    /// Bytes that we may still write.
    pub bytes: u64,
    /// How many more files can be made, where they are counted.
    pub files: Option<u64>,
}

impl FreeSpace {
    /// What is left where `place` lies.
    ///
    /// # Errors
    /// Whatever asking failed with.
    pub fn at(place: &Path) -> io::Result<Self> {
        let found = nix::sys::statvfs::statvfs(place)?;
        Ok(Self {
            bytes: found.blocks_available().saturating_mul(found.fragment_size()),
            // A file system that does not count its files says that it has none.
            files: (found.files() > 0).then(|| found.files_available()),
        })
    }
}

/// If `error`, or what caused it, is that a disk is full: what is left where `place` lies, as the end of a sentence.
pub fn room_words(error: &(dyn std::error::Error + 'static), place: &Path) -> Option<String> {
    let full = |error: &io::Error| matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
    let mut next = Some(error);
    while let Some(error) = next {
        if error.downcast_ref().is_some_and(full) {
            let here = place.ancestors().find(|path| path.exists()).unwrap_or(place);
            let room = FreeSpace::at(here).ok()?;
            let files = room.files.map(|files| format!(" and {files} more files")).unwrap_or_default();
            return Some(format!("there is room for {} KiB{files} in {}", room.bytes >> 10, here.display()));
        }
        next = error.source();
    }
    None
}
