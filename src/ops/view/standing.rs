//! What a branch needs, for the exit code of `aynig status --exit-code` (CONTRACT 11.28).

use super::branch::{BranchView, WAITS};

/// What a branch needs, in ascending order of urgency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Nothing: no state, a state without a command, or a branch that is never run.
    Rests,
    /// Time: something runs, is due, is parked, or is left to another runner.
    Moves,
    /// Somebody's answer.
    Waits,
    /// A repair: it is stalled, or a mistake keeps it from running, or its deferred state from being set.
    Stuck,
}

impl BranchView {
    /// What the branch needs.
    pub fn standing(&self) -> Standing {
        match self.label() {
            _ if self.mistake => Standing::Stuck,
            _ if self.deferred.as_ref().is_some_and(|deferred| deferred.stuck.is_some()) => Standing::Stuck,
            "stalled" | "invalid" => Standing::Stuck,
            WAITS => Standing::Waits,
            // A deferred state is set by the next pass.
            "rests" | "unmanaged" | "excluded" if self.deferred.is_none() => Standing::Rests,
            _ => Standing::Moves,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::branch::KINDS;
    use super::super::deferred::DeferredView;
    use super::*;

    #[test]
    fn every_kind_has_one() {
        let of = |kind| BranchView { kind, ..BranchView::default() }.standing();
        let found: Vec<Standing> = KINDS.into_iter().map(of).collect();
        use Standing::{Moves, Rests, Stuck, Waits};
        assert_eq!(found, [Waits, Stuck, Stuck, Moves, Moves, Moves, Moves, Moves, Rests, Rests, Rests]);
        assert!(Rests < Moves && Moves < Waits && Waits < Stuck);
    }

    #[test]
    fn mistakes_and_deferred_states_count() {
        let ready = BranchView { kind: "ready", ..BranchView::default() };
        assert_eq!(BranchView { mistake: true, ..ready }.standing(), Standing::Stuck);
        let stalled = BranchView { kind: "waiting", state: Some("stalled".into()), ..BranchView::default() };
        assert_eq!(stalled.standing(), Standing::Stuck);
        let rests = BranchView { kind: "waiting", rests: true, ..BranchView::default() };
        assert_eq!(rests.standing(), Standing::Rests);
        let (commit, sender) = (String::new(), String::new());
        let deferred = DeferredView { commit, state: None, sender, date: None, wake: false, stuck: None };
        let stuck = DeferredView { stuck: Some("why".into()), ..deferred.clone() };
        for (deferred, expected) in [(deferred, Standing::Moves), (stuck, Standing::Stuck)] {
            let row = BranchView { deferred: Some(deferred), ..rests.clone() };
            assert_eq!(row.standing(), expected);
        }
    }
}
