//! Reads and writes single objects while `git gc` may be at work in the repository.
//!
//! Invariants: an object that is in the repository is found, and one that was written stays until a ref reaches
//! it. gix guarantees neither:
//!
//! - It checks that a loose object exists, then opens it. If git has packed and removed the file in between, gix
//!   reports a missing object. A second look finds the new pack.
//! - It creates the directory of a loose object, then moves the file there. Git removes directories it has emptied.
//! - It does not write an object that it knows. The pack it knows it from may be gone, or git may be about to prune
//!   the object as an old one that nothing reaches. Written anew, the object is young.
#![expect(clippy::disallowed_methods, reason = "this is the one place that calls them")]

use gix::ObjectId;
use gix::objs::{Write, WriteTo};

use crate::contract::ids::CommitId;
use crate::git::repo::open::{Repo, gits, ours};

/// How many times something is tried.
const TRIES: u32 = 5;

/// Tries something until it succeeds, at most [`TRIES`] times. Returns the last error.
pub(super) fn again<T, E>(mut attempt: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    for _ in 1..TRIES {
        if let Ok(done) = attempt() {
            return Ok(done);
        }
    }
    attempt()
}

impl Repo {
    /// Reads an object.
    pub(super) fn object(&self, id: ObjectId) -> gix::Result<gix::Object<'_>> {
        again(|| self.gix.find_object(id))
    }

    /// Reads a tree.
    pub(super) fn tree(&self, id: ObjectId) -> gix::Result<gix::Tree<'_>> {
        self.object(id)?.try_into_tree()
    }

    /// Reads the size of an object.
    pub(super) fn size(&self, id: ObjectId) -> gix::Result<u64> {
        again(|| self.gix.find_header(id)).map(|header| header.size())
    }

    /// Finds the best common ancestor of two commits; `None` if there is none.
    pub(super) fn merge_base(&self, one: CommitId, other: CommitId) -> gix::Result<Option<CommitId>> {
        let bases = self.merge_bases(one, other)?;
        let is_below_another =
            |base: CommitId| bases.iter().any(|one| *one != base && self.descends(*one, base));
        let best = bases.iter().copied().find(|base| !is_below_another(*base));
        Ok(best.or_else(|| bases.first().copied()))
    }

    /// Finds all best common ancestors of two commits. Where commits are dated before their parents, ancestors of them may
    /// be among them and come first: of merges below them only first parents are looked at.
    pub(super) fn merge_bases(&self, one: CommitId, other: CommitId) -> gix::Result<Vec<CommitId>> {
        let bases = again(|| self.gix.merge_bases_many(gits(one), &[gits(other)]))?;
        Ok(bases.iter().map(|base| ours(base)).collect())
    }

    /// Writes an object, also one that is there.
    pub(super) fn write(&self, object: &dyn WriteTo) -> gix::Result<ObjectId> {
        again(|| self.gix.objects.write(object))
    }

    /// Writes an object with this content, also one that is there.
    pub(super) fn write_bytes(&self, kind: gix::objs::Kind, bytes: &[u8]) -> gix::Result<ObjectId> {
        again(|| self.gix.objects.write_buf(kind, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_is_tried_five_times() {
        for (fails, expected, tried) in [(0, Ok(()), 1), (1, Ok(()), 2), (4, Ok(()), 5), (5, Err(5), 5)] {
            let mut count = 0;
            let found = again(|| {
                count += 1;
                if count > fails { Ok(()) } else { Err(count) }
            });
            assert_eq!((found, count), (expected, tried), "{fails}");
        }
    }
}
