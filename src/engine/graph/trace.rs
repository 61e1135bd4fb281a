//! The trace of a turn: what loop safety compares (CONTRACT 22.18).
//!
//! Invariant: of texts that may contain secrets only hashes and a masked beginning leave this host.

use std::io::{BufRead, BufReader};
use std::path::Path;

use crate::fsutil;
use crate::git::objects::digest::{Sha256, short_sha256};
use crate::model::ids::MessageId;
use crate::model::message::Item;
use crate::model::node::Node;
use crate::model::state::State;
use crate::model::trace::{Handed, Trace};
use crate::orch::loops::normalised;
use crate::provider;

use super::staged::Act;

/// The beginning of a final text that people see, in characters.
const SUMMARY: usize = 120;

/// The files of a turn: the tree that it left, and the hash of its change.
#[derive(Debug, Default)]
pub(super) struct Footprint {
    pub(super) tree: String,
    pub(super) diff: Option<String>,
}

/// The trace of a turn that read these items. `words` is its final text, masked.
pub(super) fn trace(
    (state, node, read): (&State, &Node, &[MessageId]),
    (turn, words, ended): (String, Option<&str>, &provider::Ended),
    acts: &[Act],
    files: Footprint,
) -> Trace {
    let text = words.map(normalised).filter(|text| !text.is_empty());
    let mut inbox = state.inbox(node.id).into_iter();
    Trace {
        turn,
        is_of_person: inbox.any(|item| read.contains(&item.id()) && matches!(item.item, Item::Message(_))),
        output: text.as_ref().map(|text| short_sha256(text.as_bytes())),
        diff: files.diff,
        verification: ended.verification.clone(),
        failed_call: ended.failed_call.clone(),
        tree: files.tree,
        summary: text.map(|text| text.chars().take(SUMMARY).collect()).unwrap_or_default(),
        handed: acts.iter().filter_map(handed).collect(),
    }
}

fn handed(act: &Act) -> Option<Handed> {
    let Act::Handoff { to, payload } = act else { return None };
    let message = short_sha256(normalised(&payload.message).as_bytes());
    Some(Handed { to: to.to_string(), message })
}

/// The hash of a patch, without line numbers, lines around a change and object ids: an equal change at another place is
/// equal. `None` if the file cannot be read.
pub(super) fn hash_of_patch(file: &Path) -> Option<String> {
    let mut digest = Sha256::default();
    for line in BufReader::new(fsutil::open_plain(file).ok()?).split(b'\n') {
        let line = line.ok()?;
        if ![&b" "[..], b"@@", b"index "].iter().any(|start| line.starts_with(start)) {
            digest.update(&line);
            digest.update(b"\n");
        }
    }
    let mut hex = digest.finish();
    hex.truncate(16);
    Some(hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_equal_change_at_another_place_is_equal() {
        let room = tempfile::tempdir().unwrap();
        let hash = |patch: &str| {
            let file = room.path().join("a.patch");
            fsutil::replace(&file, patch.as_bytes()).unwrap();
            hash_of_patch(&file).unwrap()
        };
        let head = "diff --git a/f b/f\n";
        let first = hash(&format!("{head}index 1..2 100644\n--- a/f\n+++ b/f\n@@ -1 +1,2 @@\n one\n+two\n"));
        let later = hash(&format!("{head}index 2..3 100644\n--- a/f\n+++ b/f\n@@ -2 +2,3 @@\n two\n+two\n"));
        let other =
            hash(&format!("{head}index 1..2 100644\n--- a/f\n+++ b/f\n@@ -1 +1,2 @@\n one\n+three\n"));
        assert_eq!(first, later);
        assert_ne!(first, other);
        assert_eq!(hash_of_patch(&room.path().join("none")), None);
    }
}
