//! Sections of `CONTRACT.md`: `c2_…` is about a rule of its section 2. Which rule is cited above each test, here and elsewhere.

mod c1_state_events;
mod c2_dispatch;
mod c3_inputs;
mod c4_protocol;
mod c5_lease;
mod c6_outcomes;
mod c7_not_done;
mod c8_guarantees;
mod c9_worktrees;
