//! The life of one supervised command as a pure state machine: events and elapsed time in, orders
//! out.
//!
//! Invariants (CONTRACT 10.2, 10.5):
//!
//! - SIGKILL follows SIGTERM after the grace period, and comes without SIGTERM only at a second
//!   signal.
//! - The first cause of a stop is the one reported.
//! - After exit 0 of a command that was not stopped, nothing is signalled, unless it is leashed.
//! - What a leashed command leaves running has [`SETTLE`] to end by itself, and is then stopped.
//! - From the first SIGKILL on, the end comes within [`KILL_PATIENCE`], whatever the processes do.
//!
//! All times count from the command's start. `job` owns the processes, the clock and the threads,
//! and carries the orders out.

use std::time::Duration;

use super::finished::StopCause;
use crate::stop::Notice;

/// How long after SIGKILL a group may still have living processes, such as one in uninterruptible
/// sleep, before supervision ends without them.
pub(crate) const KILL_PATIENCE: Duration = Duration::from_secs(5);

/// The time for what a leashed command leaves running to end by itself: a server for tools sees its
/// input end, a pipeline empties.
pub(crate) const SETTLE: Duration = Duration::from_millis(100);

/// An input of the machine.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// The command has exited; `clean` means exit code 0.
    Exited { clean: bool },
    /// A stop was requested.
    Stop(Notice),
}

/// The action that `job` must take now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Order {
    /// Keep waiting.
    Nothing,
    /// Send SIGTERM to the group.
    Terminate,
    /// Send SIGKILL to the group.
    Kill,
    /// End the supervision.
    Finish,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    Settling { until: Duration },
    Ending { kill_at: Duration },
    Killing { give_up_at: Duration },
    Over,
}

#[derive(Debug)]
pub(crate) struct Machine {
    grace: Duration,
    timeout: Option<Duration>,
    leashed: bool,
    phase: Phase,
    cause: Option<StopCause>,
    exited: bool,
    gave_up: bool,
}

impl Machine {
    pub(crate) fn new(grace: Duration, timeout: Option<Duration>, leashed: bool) -> Self {
        Self { grace, timeout, leashed, phase: Phase::Running, cause: None, exited: false, gave_up: false }
    }

    /// Handles an event that happened at `at`.
    pub(crate) fn on(&mut self, event: Event, at: Duration) -> Order {
        match event {
            Event::Exited { clean } => {
                self.exited = true;
                match self.phase {
                    Phase::Running if self.leashed => {
                        self.phase = Phase::Settling { until: at.saturating_add(SETTLE) };
                        Order::Nothing
                    }
                    Phase::Running if clean => self.finish(),
                    Phase::Running => self.terminate(None, at),
                    Phase::Settling { .. } | Phase::Ending { .. } | Phase::Killing { .. } | Phase::Over => {
                        Order::Nothing
                    }
                }
            }
            Event::Stop(Notice { first, signals, .. }) => {
                // A command that has exited by itself was not stopped.
                let cause = (self.phase == Phase::Running).then(|| first.into());
                let order = self.terminate(cause, at);
                if signals >= 2 { self.kill(at) } else { order }
            }
        }
    }

    /// Handles a deadline: it is now `at`, and no event came.
    pub(crate) fn tick(&mut self, at: Duration) -> Order {
        match self.phase {
            Phase::Running => match self.timeout {
                Some(bound) if at >= bound => self.terminate(Some(StopCause::TimedOut(bound)), at),
                Some(_) | None => Order::Nothing,
            },
            Phase::Settling { until } if at >= until => self.terminate(None, at),
            Phase::Ending { kill_at } if at >= kill_at => self.kill(at),
            Phase::Killing { give_up_at } if at >= give_up_at => {
                self.gave_up = true;
                self.finish()
            }
            Phase::Settling { .. } | Phase::Ending { .. } | Phase::Killing { .. } | Phase::Over => {
                Order::Nothing
            }
        }
    }

    /// Handles the observation that the group has no living process. Polled only while
    /// [`Self::awaits_group`].
    pub(crate) fn emptied(&mut self) -> Order {
        if self.awaits_group() { self.finish() } else { Order::Nothing }
    }

    /// Whether the command itself is gone and only the rest of its group is being waited for.
    pub(crate) fn awaits_group(&self) -> bool {
        self.exited
            && matches!(self.phase, Phase::Settling { .. } | Phase::Ending { .. } | Phase::Killing { .. })
    }

    /// Whether SIGKILL has been sent.
    pub(crate) fn is_killing(&self) -> bool {
        matches!(self.phase, Phase::Killing { .. })
    }

    /// Whether it ended without knowing that no process is left.
    pub(crate) fn gave_up(&self) -> bool {
        self.gave_up
    }

    /// When [`Self::tick`] must be called next; `None` if only events matter.
    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        match self.phase {
            Phase::Running => self.timeout,
            Phase::Settling { until } => Some(until),
            Phase::Ending { kill_at } => Some(kill_at),
            Phase::Killing { give_up_at } => Some(give_up_at),
            Phase::Over => None,
        }
    }

    /// Why it was stopped; `None` if it ended by itself.
    pub(crate) fn into_cause(self) -> Option<StopCause> {
        self.cause
    }

    fn terminate(&mut self, cause: Option<StopCause>, at: Duration) -> Order {
        if !matches!(self.phase, Phase::Running | Phase::Settling { .. }) {
            return Order::Nothing;
        }
        self.cause = cause;
        self.phase = Phase::Ending { kill_at: at.saturating_add(self.grace) };
        Order::Terminate
    }

    fn kill(&mut self, at: Duration) -> Order {
        match self.phase {
            Phase::Running | Phase::Settling { .. } | Phase::Ending { .. } => {
                self.phase = Phase::Killing { give_up_at: at.saturating_add(KILL_PATIENCE) };
                Order::Kill
            }
            Phase::Killing { .. } | Phase::Over => Order::Nothing,
        }
    }

    fn finish(&mut self) -> Order {
        self.phase = Phase::Over;
        Order::Finish
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stop::Cause;

    const GRACE: Duration = Duration::from_secs(10);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn machine() -> Machine {
        Machine::new(GRACE, None, false)
    }

    fn stop(cause: Cause, signals: u32) -> Event {
        Event::Stop(Notice { first: cause, signals, latest: cause })
    }

    const OFF: Event = Event::Stop(Notice { first: Cause::CalledOff, signals: 0, latest: Cause::CalledOff });

    #[test]
    fn a_clean_exit_ends_it_at_once() {
        let mut life = machine();
        assert_eq!(life.next_deadline(), None);
        assert_eq!(life.on(Event::Exited { clean: true }, at(1)), Order::Finish);
        assert!(!life.awaits_group());
        assert_eq!(life.into_cause(), None);
    }

    #[test]
    fn a_failed_exit_ends_the_rest_of_the_group() {
        let mut life = machine();
        assert_eq!(life.on(Event::Exited { clean: false }, at(1)), Order::Terminate);
        assert!(life.awaits_group());
        assert_eq!(life.tick(at(10)), Order::Nothing);
        assert_eq!(life.tick(at(11)), Order::Kill);
        assert_eq!(life.next_deadline(), Some(at(11) + KILL_PATIENCE));
        assert_eq!(life.emptied(), Order::Finish);
        assert_eq!(life.into_cause(), None);
    }

    #[test]
    fn what_a_leashed_command_leaves_is_ended_after_every_exit() {
        for clean in [true, false] {
            let mut life = Machine::new(GRACE, Some(at(60)), true);
            assert_eq!(life.on(Event::Exited { clean }, at(1)), Order::Nothing);
            assert!(life.awaits_group());
            assert_eq!(life.next_deadline(), Some(at(1) + SETTLE));
            assert_eq!(life.tick(at(1)), Order::Nothing);
            assert_eq!(life.tick(at(2)), Order::Terminate);
            assert!(!life.is_killing());
            assert_eq!(life.tick(at(12)), Order::Kill);
            assert!(life.is_killing());
            assert_eq!(life.emptied(), Order::Finish);
            assert_eq!(life.into_cause(), None);
        }
        let mut alone = Machine::new(GRACE, None, true);
        assert_eq!(alone.on(Event::Exited { clean: true }, at(1)), Order::Nothing);
        assert_eq!(alone.emptied(), Order::Finish);

        let mut stopped = Machine::new(GRACE, None, true);
        assert_eq!(stopped.on(Event::Exited { clean: true }, at(1)), Order::Nothing);
        assert_eq!(stopped.on(stop(Cause::Signal(2), 1), at(1)), Order::Terminate);
        assert_eq!(stopped.on(stop(Cause::Signal(2), 2), at(1)), Order::Kill);
        assert_eq!(stopped.into_cause(), None, "it had exited by itself");
    }

    #[test]
    fn every_stop_is_term_grace_kill_patience() {
        let causes = [(stop(Cause::Signal(15), 1), StopCause::Signal(15)), (OFF, StopCause::CalledOff)];
        for (event, cause) in causes {
            let mut life = machine();
            assert_eq!(life.on(event, at(3)), Order::Terminate);
            assert!(!life.awaits_group(), "the command itself is not gone yet");
            assert_eq!(life.emptied(), Order::Nothing);
            assert_eq!(life.next_deadline(), Some(at(13)));
            assert_eq!(life.tick(at(13)), Order::Kill);
            assert_eq!(life.on(Event::Exited { clean: false }, at(14)), Order::Nothing);
            assert!(life.awaits_group());
            assert!(!life.gave_up());
            assert_eq!(life.tick(at(13) + KILL_PATIENCE), Order::Finish);
            assert!(life.gave_up());
            assert_eq!(life.into_cause(), Some(cause));
        }
    }

    #[test]
    fn a_timeout_is_a_stop() {
        let mut life: Machine = Machine::new(GRACE, Some(at(60)), false);
        assert_eq!(life.next_deadline(), Some(at(60)));
        assert_eq!(life.tick(at(59)), Order::Nothing);
        assert_eq!(life.tick(at(60)), Order::Terminate);
        assert_eq!(life.into_cause(), Some(StopCause::TimedOut(at(60))));
    }

    #[test]
    fn a_second_signal_kills_in_every_phase_and_only_once() {
        let mut life = machine();
        assert_eq!(life.on(stop(Cause::Signal(2), 1), at(1)), Order::Terminate);
        assert_eq!(life.on(stop(Cause::Signal(2), 2), at(2)), Order::Kill);
        assert_eq!(life.on(stop(Cause::Signal(2), 3), at(3)), Order::Nothing);
        assert_eq!(life.into_cause(), Some(StopCause::Signal(2)));

        let mut late = machine();
        assert_eq!(late.on(stop(Cause::Signal(2), 2), at(1)), Order::Kill);
        assert_eq!(late.into_cause(), Some(StopCause::Signal(2)));

        let mut failing = machine();
        assert_eq!(failing.on(Event::Exited { clean: false }, at(1)), Order::Terminate);
        assert_eq!(failing.on(stop(Cause::Signal(2), 1), at(1)), Order::Nothing);
        assert_eq!(failing.on(stop(Cause::Signal(2), 2), at(1)), Order::Kill);
        assert_eq!(failing.into_cause(), None, "it had failed by itself");
    }

    #[test]
    fn the_first_cause_counts_even_if_it_then_exits_cleanly() {
        let mut life = machine();
        assert_eq!(life.on(OFF, at(1)), Order::Terminate);
        assert_eq!(life.on(stop(Cause::Signal(2), 1), at(2)), Order::Nothing);
        assert_eq!(life.on(Event::Exited { clean: true }, at(2)), Order::Nothing);
        assert_eq!(life.emptied(), Order::Finish);
        assert_eq!(life.into_cause(), Some(StopCause::CalledOff));
    }

    #[test]
    fn without_grace_the_kill_is_due_at_once() {
        let mut life: Machine = Machine::new(Duration::ZERO, None, false);
        assert_eq!(life.on(OFF, at(1)), Order::Terminate);
        assert_eq!(life.tick(at(1)), Order::Kill);
    }
}
