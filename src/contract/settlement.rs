//! The outcome table: the end of a command and its declaration decide the outcome (CONTRACT 6.4).
//!
//! Invariant: [`settle`] is the only place where an ending becomes an outcome.

use std::fmt;

use super::cancel::{Cancel, Then};
use super::declaration::{Declaration, Declared};
use super::ids::StateName;
use super::requeue::{OnInterrupt, Requeue, interrupted_before};
use super::trailers::Trailers;
use super::unable::HandedBack;

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// It exited with this status.
    Exited(i32),
    /// It was killed by a signal that the runner did not send.
    Signalled(i32),
    /// It never ran; the reason, lower case, no full stop.
    NotStarted(String),
    /// The runner stopped it.
    Stopped { why: StopReason },
}

/// Why the runner stops a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopReason {
    /// The runner itself received a signal.
    Interrupted {
        signal: i32,
        /// Whether the command exited with 0 all the same.
        clean: bool,
    },
    /// The command exceeded its time limit.
    TimedOut {
        /// The limit, in seconds.
        seconds: u64,
    },
    /// A request to cancel (CONTRACT 5.30).
    Cancelled(Cancel),
    /// The branch's HEAD is no longer ours.
    LeaseLost,
    /// The lease could not be renewed before it ended.
    LeaseUnrenewable {
        /// The obstacle.
        why: String,
    },
    /// A thread of the runner panicked.
    RunnerFailed,
}

/// The outcome for the branch.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Settlement {
    /// The declared state is written.
    Advance(Declaration),
    /// A fresh `working` commit keeps the lease for processes the command left running.
    KeepWorking,
    /// `stalled` is written, with a diagnosis.
    Stall,
    /// The requested state is written again.
    Requeue(Requeue),
}

/// Success with a declared state advances; success without a declaration keeps working. A request that this host
/// cannot do is handed back. An interrupted command is requested again, within the limits of `policy`. Anything else
/// stalls and ignores the declaration (CONTRACT 6.1 to 6.3, 6.14, 6.17).
pub(crate) fn settle(
    ending: &Ending,
    declared: Option<Declared>,
    trigger: &Trailers,
    policy: OnInterrupt,
) -> Settlement {
    match (ending, declared) {
        (
            Ending::Exited(0) | Ending::Stopped { why: StopReason::Interrupted { clean: true, .. } },
            Some(Declared::Next(declaration)),
        ) => Settlement::Advance(declaration),
        (
            Ending::Exited(0) | Ending::Stopped { why: StopReason::Interrupted { clean: true, .. } },
            Some(Declared::Unable(why)),
        ) => Settlement::Requeue(Requeue::HandedBack(HandedBack::new(trigger, &why))),
        (Ending::Exited(0), None) => Settlement::KeepWorking,
        (Ending::Stopped { why: StopReason::Interrupted { .. } }, _) if policy.requeue => {
            let interrupted = policy.count(trigger);
            if interrupted.times <= policy.most {
                Settlement::Requeue(Requeue::Interrupted(interrupted))
            } else {
                Settlement::Stall
            }
        }
        (Ending::Stopped { why: StopReason::Cancelled(Cancel { then: Then::Requeue, .. }) }, _) => {
            Settlement::Requeue(Requeue::Cancelled)
        }
        (
            Ending::Exited(_) | Ending::Signalled(_) | Ending::NotStarted(_) | Ending::Stopped { why: _ },
            _,
        ) => Settlement::Stall,
    }
}

/// Why an interrupted command is not requested again, as the end of a sentence.
pub(crate) fn too_often(ending: &Ending, trigger: &Trailers, policy: OnInterrupt) -> Option<String> {
    let Ending::Stopped { why: StopReason::Interrupted { .. } } = ending else { return None };
    let before = interrupted_before(trigger).filter(|_| policy.requeue)?;
    let times = if before == 1 { "once".to_owned() } else { format!("{before} times in a row") };
    Some(format!("it was interrupted {times} before (aynig.interruptRetries is {})", policy.most))
}

/// The reason when a commit made elsewhere prevents the landing. `subject` is the command and how
/// it ended; `commit` names that commit and its author.
pub(crate) fn overtaken(subject: &str, is_success: bool, commit: &str) -> String {
    let pushed = format!("somebody pushed {commit} onto the branch meanwhile");
    if is_success {
        format!("{pushed}; {subject}, and its result was not landed")
    } else {
        format!("{subject}; {pushed}")
    }
}

impl Settlement {
    /// The state it writes, if `asked` was requested.
    pub(crate) fn state<'a>(&'a self, asked: &'a StateName) -> &'a str {
        match self {
            Self::Advance(declaration) => declaration.state.as_str(),
            Self::KeepWorking => "working",
            Self::Stall => "stalled",
            Self::Requeue(_) => asked.as_str(),
        }
    }
}

impl Ending {
    /// The ending as the end of a sentence whose subject is the command: "exited with 3".
    pub(crate) fn describe(&self) -> String {
        self.to_string()
    }

    /// Whether it exited with 0.
    pub(crate) fn is_success(&self) -> bool {
        *self == Self::Exited(0)
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exited with {code}"),
            Self::Signalled(signal) => match signal_name(*signal) {
                Some(name) => write!(f, "was killed by signal {signal} ({name})"),
                None => write!(f, "was killed by signal {signal}"),
            },
            Self::NotStarted(why) => write!(f, "could not be started: {why}"),
            Self::Stopped { why } => why.fmt(f),
        }
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interrupted { signal, .. } => match signal_name(*signal) {
                Some(name) => write!(f, "was stopped: interrupted by {name}"),
                None => write!(f, "was stopped: interrupted by signal {signal}"),
            },
            Self::Cancelled(cancel) => write!(f, "was {cancel}"),
            Self::TimedOut { seconds } => write!(f, "ran longer than {seconds} s and was stopped"),
            Self::LeaseLost => f.write_str("was stopped: its lease was lost, the branch moved on without it"),
            Self::LeaseUnrenewable { .. } => {
                f.write_str("was stopped: its lease could not be renewed in time")
            }
            Self::RunnerFailed => f.write_str("was given up: its runner failed because of a bug in aynig"),
        }
    }
}

/// The name of a signal whose number is the same on every system; other numbers differ.
pub(crate) fn signal_name(signal: i32) -> Option<&'static str> {
    match signal {
        1 => Some("SIGHUP"),
        2 => Some("SIGINT"),
        3 => Some("SIGQUIT"),
        4 => Some("SIGILL"),
        5 => Some("SIGTRAP"),
        6 => Some("SIGABRT"),
        8 => Some("SIGFPE"),
        9 => Some("SIGKILL"),
        11 => Some("SIGSEGV"),
        13 => Some("SIGPIPE"),
        14 => Some("SIGALRM"),
        15 => Some("SIGTERM"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::carried::KeepTrailers;
    use super::super::requeue::{INTERRUPTED_KEY, Interrupted};
    use super::super::trailers::Trailer;
    use super::super::unable::HANDED_BACK_KEY;
    use super::*;

    fn declaration() -> Declaration {
        Declaration {
            state: StateName::parse("review").unwrap(),
            subject: None,
            body: None,
            lease_seconds: None,
            keep_body: false,
            keep_trailers: KeepTrailers::None,
            trailers: Vec::new(),
        }
    }

    /// CONTRACT 6.1, 6.2, 6.3
    #[test]
    fn the_outcome_table() {
        let declared = Declared::Next(declaration());
        let policy = OnInterrupt { requeue: true, most: 3 };
        let settled = |ending: &Ending, declaration| settle(ending, declaration, &Trailers::new(), policy);
        let stopped = |why| Ending::Stopped { why };
        let failures = [
            (Ending::Exited(1), "exited with 1"),
            (Ending::Exited(-1), "exited with -1"),
            (Ending::Signalled(9), "was killed by signal 9 (SIGKILL)"),
            (Ending::Signalled(64), "was killed by signal 64"),
            (Ending::NotStarted(String::from("no such file")), "could not be started: no such file"),
            (stopped(StopReason::TimedOut { seconds: 30 }), "ran longer than 30 s and was stopped"),
            (
                stopped(StopReason::LeaseLost),
                "was stopped: its lease was lost, the branch moved on without it",
            ),
            (
                stopped(StopReason::LeaseUnrenewable { why: "x".to_owned() }),
                "was stopped: its lease could not be renewed in time",
            ),
            (stopped(StopReason::RunnerFailed), "was given up: its runner failed because of a bug in aynig"),
        ];
        for (ending, text) in failures {
            assert_eq!(settled(&ending, None), Settlement::Stall, "{text}");
            assert_eq!(settled(&ending, Some(declared.clone())), Settlement::Stall, "{text}");
            assert_eq!((ending.describe(), ending.is_success()), (String::from(text), false));
        }
        for (code, is_success, expected) in [
            (
                0,
                true,
                "somebody pushed 1234 (Jane) onto the branch meanwhile; `build` exited with 0, and its result was not landed",
            ),
            (3, false, "`build` exited with 3; somebody pushed 1234 (Jane) onto the branch meanwhile"),
        ] {
            assert_eq!(
                overtaken(&format!("`build` exited with {code}"), is_success, "1234 (Jane)"),
                expected
            );
        }
        let done = Ending::Exited(0);
        assert!(done.is_success());
        assert_eq!(settled(&done, None), Settlement::KeepWorking);
        assert_eq!(settled(&done, Some(declared)), Settlement::Advance(declaration()));
    }

    /// CONTRACT 6.17
    #[test]
    fn returns() {
        let policy = OnInterrupt { requeue: false, most: 0 };
        let trigger: Trailers = [Trailer::new(HANDED_BACK_KEY, "2")].into_iter().collect();
        let unable = || Some(Declared::Unable("no codex".to_owned()));
        let back = |times| {
            Settlement::Requeue(Requeue::HandedBack(HandedBack { times, why: "no codex".to_owned() }))
        };
        let stopped = |clean| Ending::Stopped { why: StopReason::Interrupted { signal: 15, clean } };
        let rows = [
            (Ending::Exited(0), &Trailers::new(), back(1)),
            (Ending::Exited(0), &trigger, back(3)),
            (stopped(true), &trigger, back(3)),
            (stopped(false), &trigger, Settlement::Stall),
            (Ending::Exited(75), &trigger, Settlement::Stall),
        ];
        for (ending, trigger, expected) in rows {
            assert_eq!(settle(&ending, unable(), trigger, policy), expected, "{ending}");
        }
    }

    /// CONTRACT 6.14
    #[test]
    fn interruptions() {
        let ending = |clean| Ending::Stopped { why: StopReason::Interrupted { signal: 15, clean } };
        assert_eq!(ending(false).describe(), "was stopped: interrupted by SIGTERM");
        let other = Ending::Stopped { why: StopReason::Interrupted { signal: 77, clean: true } };
        assert_eq!(other.describe(), "was stopped: interrupted by signal 77");
        let again = |times, most| Settlement::Requeue(Requeue::Interrupted(Interrupted { times, most }));
        // The count of the trigger, the limit, and the outcome.
        let rows = [
            ("", 3, again(1, 3)),
            ("1", 3, again(2, 3)),
            ("2", 3, again(3, 3)),
            ("3", 3, Settlement::Stall),
            ("99999999999999", 3, again(1, 3)),
            ("0", 1, again(1, 1)),
            ("-1", 1, again(1, 1)),
            ("x", 1, again(1, 1)),
            ("4294967295", u32::MAX, again(u32::MAX, u32::MAX)),
            ("", 0, Settlement::Stall),
        ];
        for (count, most, expected) in rows {
            let trigger: Trailers = [Trailer::new(INTERRUPTED_KEY, count)].into_iter().collect();
            let policy = OnInterrupt { requeue: true, most };
            for clean in [true, false] {
                assert_eq!(settle(&ending(clean), None, &trigger, policy), expected, "{count} of {most}");
            }
            let declared = || Some(Declared::Next(declaration()));
            assert_eq!(settle(&ending(false), declared(), &trigger, policy), expected, "{count} of {most}");
            let finished = settle(&ending(true), declared(), &trigger, policy);
            assert_eq!(finished, Settlement::Advance(declaration()));
            let off = OnInterrupt { requeue: false, most };
            assert_eq!(settle(&ending(false), declared(), &trigger, off), Settlement::Stall);
        }
        let trigger: Trailers = [Trailer::new(INTERRUPTED_KEY, "3")].into_iter().collect();
        let policy = OnInterrupt { requeue: true, most: 3 };
        let why = "it was interrupted 3 times in a row before (aynig.interruptRetries is 3)";
        assert_eq!(too_often(&ending(false), &trigger, policy).as_deref(), Some(why));
        assert_eq!(too_often(&Ending::Exited(1), &trigger, policy), None);
        assert_eq!(too_often(&ending(false), &Trailers::new(), policy), None);
        let told = Interrupted { times: 4, most: 3 }.to_string();
        assert_eq!(told, "interrupted, asked again (4 of 4)", "runners may differ in the limit");
    }
}
