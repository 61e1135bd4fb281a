//! Contents of artifacts in a ledger: `content/<2 hex>/<sha256>` (CONTRACT 16.9).
//!
//! Invariant: a content is masked before its digest is taken, so the digest is that of what is written. Its path is made
//! of the digest, never of a name.

use std::collections::BTreeMap;

use crate::git::objects::digest::sha256;
use crate::model::event::{Body, Event};
use crate::model::run::Replicate;

/// The longest content that goes into a ledger, in bytes. A longer one stays on its host.
pub const MAX_REPLICATED: usize = 16 * 1024 * 1024;

/// The content of a new artifact, masked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    bytes: Vec<u8>,
    sha256: String,
}

impl Content {
    /// A content that has been masked.
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        let sha256 = sha256(&bytes);
        Self { bytes, sha256 }
    }

    /// The masked content.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Its length in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        u64::try_from(self.bytes.len()).unwrap_or(u64::MAX)
    }

    /// Its SHA-256, as hex.
    #[must_use]
    pub fn sha256(&self) -> &str {
        &self.sha256
    }
}

/// The files for the artifacts that these events make: those whose contents are at hand, are replicated and not too
/// long.
pub(super) fn files(
    events: &[Event],
    replicate: Replicate,
    contents: &BTreeMap<String, Content>,
) -> Vec<(String, Option<Vec<u8>>)> {
    let created = events.iter().filter_map(|event| match &event.body {
        Body::ArtifactCreated(created) => Some(&created.artifact),
        _ => None,
    });
    let kept = created.filter(|artifact| replicate.keeps(artifact.kind));
    let found = kept.filter_map(|artifact| {
        let content = contents.get(&artifact.sha256).filter(|content| content.size() == artifact.size)?;
        let path = format!("content/{}/{}", &content.sha256[..2], content.sha256);
        (content.bytes.len() <= MAX_REPLICATED).then(|| (path, Some(content.bytes.clone())))
    });
    found.collect()
}
