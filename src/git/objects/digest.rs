//! Digests of contents.

use gix::hash::{Hasher, Kind, hasher};

/// The SHA-256 of a content, as hex.
#[must_use]
pub fn sha256(content: &[u8]) -> String {
    let mut digest = Sha256::default();
    digest.update(content);
    digest.finish()
}

/// The first 64 bits of the SHA-256 of a content, as hex: enough to compare a few contents of one run.
#[must_use]
pub fn short_sha256(content: &[u8]) -> String {
    let mut hex = sha256(content);
    hex.truncate(16);
    hex
}

/// The SHA-256 of a content that comes in parts.
pub struct Sha256(Hasher);

impl Default for Sha256 {
    fn default() -> Self {
        Self(hasher(Kind::Sha256))
    }
}

impl Sha256 {
    /// Adds a part.
    pub fn update(&mut self, part: &[u8]) {
        self.0.update(part);
    }

    /// The digest, as hex.
    #[must_use]
    pub fn finish(self) -> String {
        // Only SHA-1 looks for collisions, and so can fail.
        self.0.try_finalize().map(|id| id.to_string()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests() {
        for (content, digest) in [
            ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        ] {
            assert_eq!(sha256(content.as_bytes()), digest);
        }
    }
}
