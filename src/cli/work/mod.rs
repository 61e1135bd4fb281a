//! Verbs that move branches.

pub(crate) mod run;
pub(crate) mod set_state;
pub(crate) mod set_working;
pub(crate) mod target;
