//! The contract as types: what a commit means, what a line says, what an exit leads to.
//!
//! Everything the runner decides, it decides here, in functions of values: no file, process, clock or thread is
//! touched, so every rule is tested by tables and properties. The room imports nothing of ours; `git` brings it
//! bytes and carries out what it returns, `supervise` brings it endings and output, `runner` joins the two.
//!
//! What flows through it, in the order of a step (CONTRACT.md §1 to §6):
//!
//! - A commit's message is bytes. [`trailers`] finds its trailer block just as git does, [`message`] splits the
//!   rest into subject and body and is the only composer of messages: what it writes it has read back.
//! - [`head`] says what a HEAD is (unmanaged, invalid, ready or working) and [`lease`] how long a working one lives.
//! - [`parking`] says whether the time for a state has come.
//! - [`sighting`] says when this host has seen a lease for as long as it lasts, whatever its date.
//! - [`environment`] turns the trigger's trailers into variables a command may see.
//! - [`protocol`] reads the command's standard output for `SET_STATE` lines and makes a [`declaration`] of the last.
//! - [`settlement`] is the contract's outcome table; [`ownership`] tells whether the branch is still ours to settle.
//! - [`headlog`] says which commits on the branch were made in the attempt's own checkout.
//! - [`landing`] is how a result gets onto its branch, step by step.
//! - [`commits`] drafts the commit that outcome asks for, [`report`] the body of a stalled one.
//! - [`retention`] says which finished attempts' logs may go.
//! - [`story`] folds a branch's commits into what happened.
//! - [`guard`] says what of a push breaks a lease, for the server's side.
//! - [`alike`] suggests what a mistyped name was probably meant to be.
//! - [`ids`] are the names all of them use, checked once at the edge; [`layout`] has those of refs and files.
//!
//! Invariant: no value of these types can be made that breaks the rule its type stands for; hostile bytes in a
//! message are an ordinary variant, never a panic.

pub mod alike;
pub mod commits;
pub(crate) mod declaration;
pub mod environment;
pub mod guard;
pub mod head;
pub mod headlog;
pub mod ids;
#[cfg(test)]
mod interleavings;
pub(crate) mod landing;
pub(crate) mod layout;
pub mod lease;
pub mod manual;
pub mod message;
pub(crate) mod ownership;
pub mod parking;
pub mod protocol;
pub mod report;
pub mod retention;
pub(crate) mod settlement;
pub mod sighting;
pub mod story;
pub mod trailers;

#[cfg(test)]
mod tests;
