//! Publishing: a work branch as one proposal in a forge (CONTRACT.md §21).
//!
//! Invariant: publishing again gives the same proposal. Nothing is merged, no protected branch is pushed, and commits of
//! people are never pushed over.
