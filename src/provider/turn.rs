//! A turn of an agent: what is handed to it, and how it ended.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value};

use super::gate::{Gate, Request};
use super::name::Kind;
use crate::flow::document::{Approval, Execution};
use crate::model::approval::Tool;
use crate::model::ids::ProviderName;
use crate::model::run::Usage;
use crate::model::trace::FailedCall;
use crate::stop::{Cause, Stop};
use crate::supervise::Watchdog;

/// A provider as it is configured on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    /// Its name.
    pub name: ProviderName,
    /// The language of its program.
    pub kind: Kind,
    /// The program: a path, or a name that is looked up in `PATH`.
    pub command: PathBuf,
    /// Arguments that come before those of aynig.
    pub args: Vec<String>,
    /// The model. `None`: the program chooses.
    pub model: Option<String>,
    /// Variables: with a value those set here, without one those passed on from the environment.
    pub env: Vec<(String, Option<OsString>)>,
    /// The longest time without output and change.
    pub idle: Option<Duration>,
    /// The longest time of a turn.
    pub wall: Option<Duration>,
}

/// The permissions of an agent. A flow's effective policy, as far as a provider can enforce it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Posture {
    /// The files that it may write.
    pub execution: Execution,
    /// Whether it may use the network. `None` leaves it to the program.
    pub network: Option<bool>,
    /// The answer to its requests for permission.
    pub approval: Approval,
}

impl Default for Posture {
    fn default() -> Self {
        Self { execution: Execution::WorkspaceWrite, network: None, approval: Approval::FailOnPrompt }
    }
}

/// The ids that a program gets for its own records.
#[derive(Debug, Clone, Copy)]
pub struct Ids<'a> {
    /// The run.
    pub run: &'a str,
    /// The node.
    pub node: &'a str,
    /// The turn.
    pub turn: &'a str,
}

/// A server of tools, which the agent's program starts. It speaks the Model Context Protocol on standard input and output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tools {
    /// Its program.
    pub program: PathBuf,
    /// The arguments.
    pub args: Vec<OsString>,
}

/// One turn.
pub struct Turn<'a> {
    /// The provider.
    pub provider: &'a Provider,
    /// The working directory.
    pub directory: &'a Path,
    /// The prompt.
    pub prompt: &'a [u8],
    /// Its permissions.
    pub posture: Posture,
    /// The model, instead of the provider's.
    pub model: Option<&'a str>,
    /// A session that is continued.
    pub session: Option<&'a str>,
    /// Whether the prompt is only what is new in that session.
    pub is_delta: bool,
    /// The longest time of the turn. The provider's counts, too.
    pub wall: Option<Duration>,
    /// The longest time without output and change. The provider's counts, too.
    pub idle: Option<Duration>,
    /// Variables besides those of the provider: `AYNIG_BIN`, `AYNIG_ORCH_*`.
    pub environment: &'a [(OsString, OsString)],
    /// Answers requests for permission, later. The program is then started so that it asks before each tool that does
    /// something. `None`: the posture answers at once.
    pub gate: Option<&'a dyn Gate>,
    /// The tools that the agent gets for this turn. Programs of some protocols alone can take them.
    pub tools: Option<&'a Tools>,
    /// Hears what the program reports, as it comes.
    pub listener: Option<&'a dyn Listener>,
    /// The ids.
    pub ids: Ids<'a>,
    /// An empty directory. The turn leaves [`files`] there.
    pub evidence: &'a Path,
    /// Whether files in the worktree have changed since the last call. It is called when nothing was printed for the
    /// idle time.
    pub changed: &'a dyn Fn() -> bool,
    /// Ends the turn.
    pub stop: &'a Stop,
    /// Ends the processes if this one is killed.
    pub watchdog: Option<&'a Watchdog>,
}

/// Hears the events of a turn. It is called by the thread that conducts the turn, so it must not block.
pub trait Listener: Sync {
    /// An event was reported: a JSON object of the vocabulary, without an envelope, on one line.
    fn heard(&self, line: &str);
}

/// The files of a turn, by name.
pub mod files {
    /// The unchanged output of the program. A long output lacks its middle, and a line reports that.
    pub const TRANSCRIPT: &str = "transcript";
    /// The standard error of the program, bounded likewise.
    pub const STDERR: &str = "stderr";
    /// The final answer. Missing if there was none.
    pub const FINAL: &str = "final";
    /// The events, one JSON object a line.
    pub const EVENTS: &str = "events.jsonl";
}

/// A request of an agent for permission.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// The tool.
    pub tool: String,
    /// Its arguments, as far as the program names them.
    pub args: Map<String, Value>,
    /// Its purpose, in words of the program.
    pub context: Option<String>,
}

/// A request that the posture of a turn answered at once.
#[derive(Debug, Clone, PartialEq)]
pub struct AtOnce {
    /// The tool.
    pub tool: Tool,
    /// Its purpose, in words of the program.
    pub context: Option<String>,
    /// Whether it was allowed.
    pub is_approved: bool,
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq)]
pub enum How {
    /// It came to its end.
    Completed,
    /// It failed, or ended without a last word.
    Failed,
    /// It exceeded the wall time.
    TimedOut(Duration),
    /// It exceeded the idle time.
    Idle(Duration),
    /// It asked for permission, which ends it under [`Approval::FailOnPrompt`].
    Asked(Question),
    /// It asked for permission, and nobody answered in time. The tools have not run.
    Parked {
        /// The requests that were open, in their order. They are asked again later.
        requests: Vec<Request>,
        /// Whether the program keeps the call: it asks again, with the same id of the tool, when its session is continued
        /// with an empty prompt.
        is_kept: bool,
    },
    /// A usage limit was reached.
    Limited {
        /// When it ends, in seconds since 1970, if the provider says so.
        until: Option<i64>,
        /// The provider's message.
        message: String,
    },
    /// The program requests a later try: exit code 75 of a text provider.
    Later,
    /// It was stopped.
    Stopped(Cause),
    /// This host cannot run it: another one may.
    Unavailable(String),
}

impl How {
    /// The word in JSON.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::TimedOut(_) => "timed_out",
            Self::Idle(_) => "idle",
            Self::Asked(_) => "asked",
            Self::Parked { .. } => "parked",
            Self::Limited { .. } => "limited",
            Self::Later => "later",
            Self::Stopped(_) => "stopped",
            Self::Unavailable(_) => "unavailable",
        }
    }
}

/// A turn that ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    /// How.
    pub how: How,
    /// One sentence for people.
    pub evidence: String,
    /// Whether it failed because the provider's service did not work. That says nothing about the task.
    pub outage: bool,
    /// The final answer.
    pub final_text: Option<String>,
    /// Sentences for the agent that its protocol could not carry. They belong at the beginning of the next prompt.
    pub unsaid: Vec<String>,
    /// The call of a tool that failed most often.
    pub failed_call: Option<FailedCall>,
    /// The hash of the commands that failed when they were last run, and of their results. `None`: none did.
    pub verification: Option<String>,
    /// Its first 100 requests that its posture answered at once.
    pub answered: Vec<AtOnce>,
    /// Tokens and cost of this turn. `None` if none were reported.
    pub usage: Option<Usage>,
    /// The session, with which a later turn continues this one.
    pub session: Option<String>,
    /// Whether it failed because the program does not have the session that was to be continued. Then nothing was done.
    pub has_no_session: bool,
    /// The model that answered.
    pub model: Option<String>,
    /// The version that the program reported.
    pub version: Option<String>,
    /// The command line. The prompt is never part of it.
    pub argv: Vec<OsString>,
    /// The exit code. `None` if it was killed, or never started.
    pub exit: Option<i32>,
    /// Processes of the turn that not even SIGKILL ended in time, with their names: they may still change files.
    pub stuck: Vec<(i32, String)>,
    /// Time from the start to the end.
    pub elapsed: Duration,
}
