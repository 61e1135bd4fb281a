//! Contents of artifacts in a ledger: `content/<2 hex>/<sha256>` (CONTRACT 16.9).
//!
//! Invariant: a content is masked before its digest is taken, so the digest is that of what is written. Its path is made
//! of the digest, never of a name.

use std::collections::BTreeMap;

use super::error::LedgerError;
use super::masks::Masks;
use super::tip::Tip;
use crate::git::Repo;
use crate::git::objects::digest::sha256;
use crate::git::objects::revspec::Content as Found;
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
    /// Masks a content.
    #[must_use]
    pub fn new(masks: &Masks, bytes: &[u8]) -> Self {
        let bytes = masks.content(bytes);
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

    /// Its path in a ledger, and what is written there.
    fn file(&self) -> (String, Option<Vec<u8>>) {
        (path(&self.sha256), Some(self.bytes.clone()))
    }

    /// Its SHA-256, as hex.
    #[must_use]
    pub fn sha256(&self) -> &str {
        &self.sha256
    }
}

/// Reads a content of a ledger by its digest. `None` if the ledger does not have it, or it is another one.
///
/// # Errors
/// [`LedgerError`] if objects cannot be read.
pub fn read(repo: &Repo, tip: &Tip, digest: &str) -> Result<Option<Vec<u8>>, LedgerError> {
    let most = u64::try_from(MAX_REPLICATED).unwrap_or(u64::MAX);
    let found = repo.content_at(tip.id, &path(digest), most)?;
    Ok(match found {
        Some(Found::File { bytes, .. }) if sha256(&bytes) == digest => Some(bytes),
        Some(_) | None => None,
    })
}

/// The path of a content in a ledger.
#[must_use]
pub fn path(sha256: &str) -> String {
    format!("content/{}/{sha256}", sha256.get(..2).unwrap_or_default())
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
        (content.bytes.len() <= MAX_REPLICATED).then(|| content.file())
    });
    // Whoever carries a flow on needs it, whatever is replicated.
    let flows = events.iter().filter_map(|event| match &event.body {
        Body::RunCreated(created) => created.patch.flow.as_ref(),
        _ => None,
    });
    let frozen = flows.flat_map(|flow| flow.digests()).filter_map(|digest| contents.get(digest));
    found.chain(frozen.map(Content::file)).collect()
}
