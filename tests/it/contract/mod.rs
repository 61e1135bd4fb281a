//! Sections of `CONTRACT.md`: `c2_…` tests a rule of section 2. A line above each test, here and elsewhere,
//! cites the rules.

mod c1_state_events;
mod c2_dispatch;
mod c3_inputs;
mod c4_protocol;
mod c5_lease;
mod c6_outcomes;
mod c7_not_done;
mod c8_guarantees;
mod c9_worktrees;
