//! The contents that attempts left on this host, by their digests: a ledger need not have them.
//!
//! Invariant: a content is handed on only if it has its digest.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::attempts;
use super::manifest::Manifest;
use crate::fsutil;
use crate::git::objects::digest::sha256;
use crate::journal::directory::RunDirectory;

/// The sealed files of a run's attempts on this host.
#[derive(Debug, Default)]
pub struct Recorded {
    /// By their SHA-256, as hex.
    files: BTreeMap<String, PathBuf>,
}

impl Recorded {
    /// Reads the manifests of a run; with `of` those of this step or node.
    #[must_use]
    pub fn of(directory: &RunDirectory, of: Option<&str>) -> Self {
        let entries = std::fs::read_dir(directory.artifacts()).into_iter().flatten().flatten();
        let wanted = entries.filter(|entry| of.is_none_or(|name| *entry.file_name() == *name));
        let attempts = wanted.flat_map(|entry| attempts(&entry.path()));
        let listed =
            attempts.filter_map(|(_, path)| Manifest::read(&path)).flat_map(|manifest| manifest.artifacts);
        Self { files: listed.map(|file| (file.sha256, directory.path().join(file.path))).collect() }
    }

    /// Whether a file had this digest when it was sealed.
    #[must_use]
    pub fn has(&self, sha256: &str) -> bool {
        self.files.get(sha256).is_some_and(|path| path.is_file())
    }

    /// The content with this digest.
    #[must_use]
    pub fn content(&self, digest: &str) -> Option<Vec<u8>> {
        let content = fsutil::read_plain(self.files.get(digest)?).ok()?;
        (sha256(&content) == digest).then_some(content)
    }
}
