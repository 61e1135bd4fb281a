//! Carries out EVALUATE: asks a planner, and rules on its answer by the facts.
//!
//! Invariant: the planner changes nothing. A change that it made is taken back, and is a fact against it.
