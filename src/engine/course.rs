//! How a step went: what its end leaves for the record.

use crate::model::step::{Outcome, Record};
use crate::workspace::context::Context;

use super::record::ProviderUsed;

/// How a step went.
pub(super) enum Course {
    /// It ended.
    Ended(Box<Carried>),
    /// It is tried again at this time, in seconds since 1970. What it did until then is recorded.
    Parked(i64, Box<Carried>),
    /// This host cannot carry it out.
    Unable(String),
    /// The run rests.
    Halted(String),
}

/// A step that ended.
pub(super) struct Carried {
    pub(super) outcome: Outcome,
    /// A sentence about it.
    pub(super) evidence: String,
    pub(super) record: Record,
    /// The model that was used.
    pub(super) model: Option<String>,
    /// The exit code of its program.
    pub(super) exit: Option<i32>,
    /// The provider that was used.
    pub(super) provider: Option<ProviderUsed>,
    /// The SHA-256 of its policy.
    pub(super) policy: Option<String>,
    /// The workspace, with repairs of it in words.
    pub(super) workspace: Option<(Context, Vec<String>)>,
    /// Why the run pauses: this step, or one that was live beside it, changed hooks or settings.
    pub(super) pause: Option<String>,
    /// Whether its work stays in the worktree as it is: no git may look at it now.
    pub(super) stays: bool,
}

impl Carried {
    pub(super) fn new(outcome: Outcome, evidence: impl Into<String>) -> Self {
        let (evidence, record) = (evidence.into(), Record::default());
        Self {
            outcome,
            evidence,
            record,
            model: None,
            exit: None,
            provider: None,
            policy: None,
            workspace: None,
            pause: None,
            stays: false,
        }
    }

    /// Why the run pauses after it, which its evidence names then. A step that broke its policy goes where its route says.
    pub(super) fn take_pause(&mut self) -> Option<String> {
        let pause = self.pause.take();
        if let Some(why) = &pause {
            self.evidence = format!("{}; {why}", self.evidence);
        }
        pause.filter(|_| self.record.violations.is_empty())
    }

    /// Records it as an attempt that is tried again, and counts for no retry.
    pub(super) fn tries_again(&mut self, flag: &str) {
        self.outcome = Outcome::Error;
        (self.record.cut_off, self.record.outage) = (true, true);
        self.record.flags = vec![flag.to_owned()];
    }
}
