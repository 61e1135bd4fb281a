//! Requests for permission that somebody answers later, while the program waits.
//!
//! Invariant: a tool that waits for an answer does not run without a yes. A lost answer is a no, and an answer to a
//! request that is no longer open is dropped.

use std::fmt;

use serde_json::{Map, Value};

use crate::model::approval::{Answer, Resolution as Recorded, Tool};

/// A request of an agent that somebody answers later.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Its id, unique in the turn. The provider chooses it.
    pub id: String,
    /// The tool. Its id is the provider's id of the call; a session that is continued asks about the same call again
    /// with it (see [`How::Parked`](super::How::Parked)).
    pub tool: Tool,
    /// Its purpose, in words of the program.
    pub context: Option<String>,
    /// Whether the protocol carries the reason of a denial to the agent. If not, it comes in
    /// [`Ended::unsaid`](super::Ended::unsaid).
    pub carries_reason: bool,
    /// Whether the protocol carries changed arguments. If not, the tool is denied, and the agent is told to request it
    /// with those arguments, at once or by [`Ended::unsaid`](super::Ended::unsaid).
    pub carries_args: bool,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Resolution {
    /// The tool may run.
    Approved,
    /// It may run with these arguments instead.
    ApprovedWith(Map<String, Value>),
    /// It may not run.
    Denied {
        /// The reason, for the agent.
        reason: Option<String>,
    },
    /// Nobody answered in time. The turn ends and the tool has not run; the question is asked again later. All requests
    /// that are open are parked with it.
    Parked,
}

impl Resolution {
    /// The answer as it is recorded.
    pub(crate) fn recorded(&self) -> Recorded {
        let (status, modified_args, reason) = match self {
            Self::Approved => (Answer::Approved, None, None),
            Self::ApprovedWith(args) => (Answer::Modified, Some(args.clone()), None),
            Self::Denied { reason } => (Answer::Denied, None, reason.clone()),
            Self::Parked => (Answer::Expired, None, None),
        };
        Recorded { status, modified_args, reason }
    }
}

/// Takes requests. It is called by the thread that conducts the turn, so it must not block.
pub trait Gate: Sync {
    /// A request was made. The answer comes through `reply`, from any thread and at any time.
    fn asked(&self, request: Request, reply: Reply);

    /// The request with this id is no longer asked: the program took it back, or the turn ends. No answer counts now.
    fn withdrawn(&self, _id: &str) {}
}

/// The way of one answer back. A reply that is dropped unused is a denial.
pub struct Reply(Option<Box<dyn FnOnce(Resolution) + Send>>);

impl fmt::Debug for Reply {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Reply")
    }
}

impl Reply {
    /// A reply that is handed to `to`.
    pub fn new(to: impl FnOnce(Resolution) + Send + 'static) -> Self {
        Self(Some(Box::new(to)))
    }

    /// Answers. An answer that comes too late is dropped.
    pub fn send(mut self, resolution: Resolution) {
        if let Some(to) = self.0.take() {
            to(resolution);
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(to) = self.0.take() {
            to(Resolution::Denied { reason: None });
        }
    }
}
