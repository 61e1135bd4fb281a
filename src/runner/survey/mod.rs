//! The survey: one look at every branch, and a verdict for each (CONTRACT.md §2, §11).
//!
//! ```text
//! scan (HEADs) ─▶ observe (how long leases were seen) ─▶ trust (signatures)
//!   └─▶ resolve (which command a state means)
//! ```

pub mod observe;
pub mod resolve;
pub mod scan;
pub mod trust;
