//! Publishing: a work branch as one proposal in a forge.
//!
//! Invariant: publishing again gives the same proposal. Nothing is merged, no protected branch is pushed, and commits of
//! people are never pushed over.
//!
//! # Theory of operation
//!
//! A publication is keyed by remote, branch and base. What we put on the branch is recorded, and only that value, or one
//! that the work branch has anyway, is replaced: the push names it as its lease. The record says what is about to be
//! pushed before it is, so a process that dies leaves nothing that the next one does not recognise.
//!
//! The forge is asked before the push, so that a proposal which somebody closed stops all of it, and told after it. A
//! proposal that another process made meanwhile is found and adopted.
//!
//! | file | contains |
//! |---|---|
//! | `job` | one call from its beginning to its end |
//! | `names` | remote, branch and base, and which are refused |
//! | `ruling` | what may be pushed, decided from facts |
//! | `taken_back` | whether published work may give way |
//! | `work` | the commits that are published, and the one that they are squashed into |
//! | `texts` | title and text of a proposal |
//! | `request` | what is asked for |
//! | `proposal` | the kinds of forges, and what is known of a proposal |
//! | `forge` | what all kinds of forges are asked |
//! | `gh` | GitHub, by its program |
//! | `program` | a program of the operator's |
//! | `agit` | refs that a server takes for proposals |
//! | `address` | the address of a remote, and those of its pages |
//! | `call` | starts a program, with a time limit and bounded output |

mod address;
mod agit;
mod call;
mod forge;
mod gh;
mod job;
mod names;
mod program;
mod proposal;
mod request;
mod ruling;
mod taken_back;
mod texts;
mod work;

pub use job::{Fate, Published, publish};
pub use proposal::{Forge, Proposal};
pub use request::Request;
