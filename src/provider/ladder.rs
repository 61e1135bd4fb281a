//! The order in which a program is ended: by its protocol, then its stdin is closed, then by signals.
//!
//! A pure machine of elapsed time. What a program runs lives in sessions of its own, which a program that is killed at
//! once leaves behind; so it gets the chance to end them.

use std::time::Duration;

/// Time for the program to exit after its last word.
const AFTER_END: Duration = Duration::from_secs(3);

/// A due act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum Order {
    /// Nothing.
    Nothing,
    /// Interrupt the turn by the protocol.
    Interrupt,
    /// Close stdin.
    Close,
    /// Terminate the processes.
    Terminate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Running,
    Interrupted { until: Duration, pace: Duration },
    Closed { until: Duration },
    Terminated,
}

/// How far the end of a program has come.
#[derive(Debug)]
pub(super) struct Ladder {
    stage: Stage,
    /// Whether the protocol has an interrupt, so that it and the end of stdin mean something.
    is_protocol: bool,
}

impl Ladder {
    /// A program that runs.
    pub(super) fn new(is_protocol: bool) -> Self {
        Self { stage: Stage::Running, is_protocol }
    }

    /// Whether nothing has been done to end it.
    pub(super) fn is_running(&self) -> bool {
        self.stage == Stage::Running
    }

    /// The last word was said.
    pub(super) fn finish(&mut self, at: Duration) -> Order {
        match self.stage {
            Stage::Running | Stage::Interrupted { .. } => {
                self.stage = Stage::Closed { until: at.saturating_add(AFTER_END) };
                Order::Close
            }
            Stage::Closed { .. } | Stage::Terminated => Order::Nothing,
        }
    }

    /// The turn is to end, with `pace` for each step.
    pub(super) fn cut(&mut self, at: Duration, pace: Duration) -> Order {
        let until = at.saturating_add(pace);
        match self.stage {
            Stage::Running if self.is_protocol => {
                self.stage = Stage::Interrupted { until, pace };
                Order::Interrupt
            }
            Stage::Running => self.terminate(),
            Stage::Interrupted { until: before, pace: slow } => {
                self.stage = Stage::Interrupted { until: before.min(until), pace: slow.min(pace) };
                Order::Nothing
            }
            Stage::Closed { until: before } => {
                self.stage = Stage::Closed { until: before.min(until) };
                Order::Nothing
            }
            Stage::Terminated => Order::Nothing,
        }
    }

    /// The turn is to end, and the end of its input may be what the program waits for.
    pub(super) fn close(&mut self, at: Duration, pace: Duration) -> Order {
        if self.stage != Stage::Running {
            return Order::Nothing;
        }
        self.stage = Stage::Closed { until: at.saturating_add(pace) };
        Order::Close
    }

    /// There is no more time.
    pub(super) fn terminate(&mut self) -> Order {
        self.stage = Stage::Terminated;
        Order::Terminate
    }

    /// Handles a deadline: it is now `at`.
    pub(super) fn tick(&mut self, at: Duration) -> Order {
        match self.stage {
            Stage::Interrupted { until, pace } if at >= until => {
                self.stage = Stage::Closed { until: at.saturating_add(pace) };
                Order::Close
            }
            Stage::Closed { until } if at >= until => self.terminate(),
            Stage::Running | Stage::Interrupted { .. } | Stage::Closed { .. } | Stage::Terminated => {
                Order::Nothing
            }
        }
    }

    /// When [`Self::tick`] must be called next.
    pub(super) fn deadline(&self) -> Option<Duration> {
        match self.stage {
            Stage::Interrupted { until, .. } | Stage::Closed { until } => Some(until),
            Stage::Running | Stage::Terminated => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_cut_climbs_step_by_step() {
        let mut ladder = Ladder::new(true);
        assert!(ladder.is_running() && ladder.deadline().is_none());
        assert_eq!(ladder.cut(at(10), at(2)), Order::Interrupt);
        assert_eq!((ladder.tick(at(11)), ladder.deadline()), (Order::Nothing, Some(at(12))));
        assert_eq!((ladder.tick(at(12)), ladder.deadline()), (Order::Close, Some(at(14))));
        assert_eq!((ladder.tick(at(14)), ladder.deadline()), (Order::Terminate, None));
        assert_eq!((ladder.tick(at(99)), ladder.finish(at(99))), (Order::Nothing, Order::Nothing));
    }

    #[test]
    fn the_answer_to_an_interrupt_closes_at_once() {
        let mut ladder = Ladder::new(true);
        assert_eq!(ladder.cut(at(1), at(2)), Order::Interrupt);
        assert_eq!((ladder.finish(at(1)), ladder.deadline()), (Order::Close, Some(at(4))));
        assert_eq!(ladder.finish(at(2)), Order::Nothing);
        assert_eq!(ladder.tick(at(4)), Order::Terminate);
    }

    #[test]
    fn a_second_cut_hurries() {
        let mut ladder = Ladder::new(true);
        assert_eq!(ladder.cut(at(0), at(9)), Order::Interrupt);
        assert_eq!((ladder.cut(at(1), at(1)), ladder.deadline()), (Order::Nothing, Some(at(2))));
        assert_eq!((ladder.tick(at(2)), ladder.deadline()), (Order::Close, Some(at(3))));
        let mut ladder = Ladder::new(true);
        assert_eq!(ladder.finish(at(0)), Order::Close);
        assert_eq!((ladder.cut(at(1), at(1)), ladder.deadline()), (Order::Nothing, Some(at(2))));
        assert_eq!(ladder.terminate(), Order::Terminate);
    }

    #[test]
    fn without_a_protocol_there_are_signals_alone() {
        assert_eq!(Ladder::new(false).cut(at(1), at(2)), Order::Terminate);
        let mut ladder = Ladder::new(false);
        assert_eq!((ladder.close(at(1), at(2)), ladder.deadline()), (Order::Close, Some(at(3))));
        assert_eq!((ladder.close(at(2), at(2)), ladder.tick(at(3))), (Order::Nothing, Order::Terminate));
    }
}
