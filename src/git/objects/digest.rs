//! Digests of contents.

use gix::hash::{Kind, hasher};

/// The SHA-256 of a content, as hex.
#[must_use]
pub fn sha256(content: &[u8]) -> String {
    let mut hasher = hasher(Kind::Sha256);
    hasher.update(content);
    // Only SHA-1 looks for collisions, and so can fail.
    hasher.try_finalize().map(|id| id.to_string()).unwrap_or_default()
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
