//! A flow: what a file says, as types.

use super::fault::Place;
use crate::model::step::{Opcode, Outcome};

/// The target of a route that ends the run. It needs no step of that name.
pub const STOP: &str = "STOP";

/// The tool name in a GATE's request for approval.
pub const GATE_TOOL: &str = "gate";

/// The most steps of a flow.
pub const MAX_STEPS: usize = 500;

/// How often a step may be entered, if the file does not say.
pub const MAX_VISITS: u64 = 10;

/// How often a step is tried again after its runner died, if the file does not say.
pub const RETRIES: u64 = 1;

/// A name of a file with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// Its position.
    pub at: Place,
    /// The name.
    pub name: String,
}

/// A flow.
#[derive(Debug, Clone, PartialEq)]
pub struct Flow {
    /// `workflow_id`.
    pub workflow_id: String,
    /// `version`.
    pub version: u64,
    /// `description`.
    pub description: Option<String>,
    /// `entry_step`.
    pub entry_step: Name,
    /// `defaults`.
    pub defaults: Defaults,
    /// `limits`.
    pub limits: Limits,
    /// `inputs`, in the order of the file.
    pub inputs: Vec<Input>,
    /// `policies`, in the order of the file.
    pub policies: Vec<Policy>,
    /// `steps`, in the order of the file.
    pub steps: Vec<Step>,
}

impl Flow {
    /// The step with this id.
    #[must_use]
    pub fn step(&self, id: &str) -> Option<&Step> {
        self.steps.iter().find(|step| step.id == id)
    }
}

/// `defaults`: what counts for steps that do not say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Defaults {
    /// The name of a policy.
    pub policy: Option<Name>,
    /// The longest time of a step, in seconds.
    pub timeout_seconds: Option<u64>,
    /// The longest time without output and change, in seconds.
    pub idle_seconds: Option<u64>,
    /// The name of a provider.
    pub agent: Option<String>,
}

/// `limits` of the whole run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Limits {
    /// The longest time, in seconds.
    pub wall_seconds: Option<u64>,
    /// The most tokens.
    pub tokens: Option<u64>,
    /// The highest cost, in US dollars.
    pub cost_usd: Option<f64>,
    /// Whether providers that do not report them are taken all the same.
    pub best_effort: bool,
}

/// An input of the flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// Its position.
    pub at: Place,
    /// Its name.
    pub name: String,
    /// Its purpose.
    pub description: Option<String>,
    /// Whether a run needs it.
    pub required: bool,
    /// Its value if none is given.
    pub default: Option<String>,
}

/// The files that an agent may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Execution {
    /// Nothing.
    ReadOnly,
    /// The worktree.
    WorkspaceWrite,
}

/// The answer to requests for permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Approval {
    /// The step ends.
    FailOnPrompt,
    /// The answer is no.
    DenyInteractive,
    /// The answer is yes, within the policy.
    BoundedAutoApprove,
}

/// A policy that steps can name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Its position.
    pub at: Place,
    /// Its name.
    pub name: String,
    /// `execution_posture`.
    pub execution: Option<Execution>,
    /// `network_posture`: whether the network may be used.
    pub network: Option<bool>,
    /// `approval_posture`.
    pub approval: Option<Approval>,
    /// Globs of the only paths that may change. Empty: all.
    pub allowed_paths: Vec<String>,
    /// Globs of paths that must not change.
    pub forbidden_paths: Vec<String>,
    /// Operations that must not happen.
    pub forbidden_operations: Vec<String>,
}

/// A step.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Its position.
    pub at: Place,
    /// Its id.
    pub id: String,
    /// Its act.
    pub act: Act,
    /// Where it leads, in the order of the file.
    pub routes: Vec<Route>,
    /// The position of the routes.
    pub routes_at: Place,
    /// The name of a policy.
    pub policy: Option<Name>,
    /// How often it may be entered.
    pub max_visits: u64,
    /// How often it is tried again after its runner died.
    pub retries: u64,
    /// Its longest time, in seconds. Of a GATE, the time for an answer.
    pub timeout_seconds: Option<u64>,
    /// Its longest time without output and change, in seconds.
    pub idle_seconds: Option<u64>,
    /// Whether no route needs to lead to it.
    pub allow_unreachable: bool,
}

impl Step {
    /// Its opcode.
    #[must_use]
    pub fn opcode(&self) -> Opcode {
        match self.act {
            Act::RunAgent(_) => Opcode::RunAgent,
            Act::RunValidation(_) => Opcode::RunValidation,
            Act::Evaluate(_) => Opcode::Evaluate,
            Act::Gate(_) => Opcode::Gate,
            Act::Rollback => Opcode::Rollback,
            Act::Stop { .. } => Opcode::Stop,
        }
    }

    /// The route of an outcome.
    #[must_use]
    pub fn route(&self, outcome: Outcome) -> Option<&Route> {
        self.routes.iter().find(|route| route.outcome == outcome)
    }
}

/// A route of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The position of the outcome.
    pub at: Place,
    /// The outcome.
    pub outcome: Outcome,
    /// The step that follows, or [`STOP`].
    pub target: Name,
}

/// The act of a step.
#[derive(Debug, Clone, PartialEq)]
pub enum Act {
    /// Runs an agent.
    RunAgent(RunAgent),
    /// Runs validators.
    RunValidation(Vec<Validator>),
    /// Lets a planner judge.
    Evaluate(Evaluate),
    /// Asks a person.
    Gate(Gate),
    /// Puts the worktree back to the base.
    Rollback,
    /// Ends the run.
    Stop {
        /// Why.
        reason: Option<String>,
    },
}

/// Where a prompt is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PromptKind {
    /// In the flow.
    Text,
    /// In a file of the base commit.
    File,
    /// In `.aynig/prompts/NAME.md` of the base commit, if that is there; else it is text.
    Named,
}

/// A prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// Its position.
    pub at: Place,
    /// Where it is.
    pub kind: PromptKind,
    /// The text, the path, or the name.
    pub text: String,
}

/// An artifact of an earlier step that is handed to an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Artifact {
    /// The difference to the base.
    Diff,
    /// The report of the last validation.
    ValidationReport,
    /// The instructions of the last planner.
    FixInstructions,
    /// The final answer of the agent of this step, or what people wrote at this gate.
    Response(Name),
}

/// `RUN_AGENT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunAgent {
    /// The name of the provider.
    pub agent: String,
    /// The prompt.
    pub prompt: Prompt,
    /// The artifacts that are handed over.
    pub inputs: Vec<Artifact>,
    /// The model.
    pub model: Option<String>,
    /// Whether it continues the session of its last visit.
    pub continues: bool,
    /// Whether it may end without a change.
    pub allow_empty: bool,
}

/// A validator of `RUN_VALIDATION`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Validator {
    /// Its position.
    pub at: Place,
    /// Its name: of a builtin one, that of the setting.
    pub name: String,
    /// The program.
    pub runs: Runs,
    /// Globs of the files that are kept.
    pub artifacts: Vec<String>,
    /// Its longest time, in seconds.
    pub timeout_seconds: Option<u64>,
}

impl Validator {
    /// Whether it may propose golden files.
    #[must_use]
    pub fn proposes_goldens(&self) -> bool {
        matches!(self.runs, Runs::Harness { may_propose_goldens: true, .. })
    }
}

/// The program of a validator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Runs {
    /// The command line that the host configures under the validator's name.
    Builtin,
    /// A script of the base commit.
    Script(Script),
    /// A program that an agent has written.
    Harness {
        /// Its path, if the file names one.
        script: Option<Script>,
        /// Whether it may propose golden files.
        may_propose_goldens: bool,
    },
}

/// A script with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// Its path.
    pub entrypoint: Name,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its longest time, in seconds.
    pub timeout_seconds: Option<u64>,
}

/// The planner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judge {
    /// The planner that the host configures.
    Configured,
    /// A provider.
    Agent(String),
    /// A command that the host configures under this name.
    Command(String),
    /// A script of the base commit.
    Script(Script),
}

/// `EVALUATE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evaluate {
    /// The prompt.
    pub prompt: Prompt,
    /// The steps that the planner may propose, and [`STOP`].
    pub allowed_next_steps: Vec<Name>,
    /// The planner.
    pub judge: Judge,
}

/// `GATE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    /// Its label.
    pub gate: String,
    /// The question.
    pub question: Option<String>,
    /// The approvers: mail addresses, `key:FINGERPRINT`, or labels that the host resolves.
    pub approvers: Vec<String>,
    /// How many different people must approve.
    pub required: u64,
}

/// The outcomes and their words.
pub const OUTCOMES: [(&str, Outcome); 13] = [
    ("completed", Outcome::Completed),
    ("error", Outcome::Error),
    ("killed_timeout", Outcome::KilledTimeout),
    ("killed_idle", Outcome::KilledIdle),
    ("killed_policy", Outcome::KilledPolicy),
    ("success", Outcome::Success),
    ("partial", Outcome::Partial),
    ("blocked", Outcome::Blocked),
    ("unsafe", Outcome::Unsafe),
    ("needs_human", Outcome::NeedsHuman),
    ("gate_approved", Outcome::GateApproved),
    ("gate_rejected", Outcome::GateRejected),
    ("gate_timed_out", Outcome::GateTimedOut),
];

/// The opcodes and their words.
pub const OPCODES: [(&str, Opcode); 6] = [
    ("RUN_AGENT", Opcode::RunAgent),
    ("RUN_VALIDATION", Opcode::RunValidation),
    ("EVALUATE", Opcode::Evaluate),
    ("GATE", Opcode::Gate),
    ("ROLLBACK", Opcode::Rollback),
    ("STOP", Opcode::Stop),
];

/// The word of a value of such a table.
pub fn word<T: PartialEq>(table: &[(&'static str, T)], value: &T) -> &'static str {
    table.iter().find(|(_, one)| one == value).map_or("", |(word, _)| word)
}

/// The word of an outcome.
#[must_use]
pub fn word_of(outcome: Outcome) -> &'static str {
    word(&OUTCOMES, &outcome)
}

/// The word for a step of this opcode in messages.
pub(crate) fn a_step(opcode: Opcode) -> String {
    let article = if opcode == Opcode::Evaluate { "an" } else { "a" };
    format!("{article} {} step", word(&OPCODES, &opcode))
}

/// The outcomes with which a step of this opcode ends.
#[must_use]
pub fn outcomes_of(opcode: Opcode) -> &'static [(&'static str, Outcome)] {
    let (mechanical, rest) = OUTCOMES.split_at(5);
    let (planner, gate) = rest.split_at(5);
    match opcode {
        Opcode::RunAgent | Opcode::RunValidation | Opcode::Rollback => mechanical,
        Opcode::Evaluate => planner,
        Opcode::Gate => gate,
        Opcode::Stop => &[],
    }
}
