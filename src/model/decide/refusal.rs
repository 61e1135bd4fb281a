//! Why a command is refused.

use crate::model::ids::{Alias, ApprovalId, EdgeId, InvalidWord, NodeId, ProviderName, Slug};
use crate::model::run::RunStatus;
use crate::model::state::Fault;
use crate::model::time::Timestamp;

/// The longest name of a model, in bytes.
pub(super) const MAX_MODEL: usize = 128;

/// A command that is not carried out. The texts are for people: what was refused, why, and what helps.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The run has a version that this program does not write.
    #[error(
        "the run has contract version {0:?}, and this aynig writes version 1: use the aynig that made it"
    )]
    Version(String),
    /// The status cannot follow.
    #[error("a run that is {} cannot become {}: it can become {}", from.word(), to.word(), words(*from))]
    Transition {
        /// The status that it has.
        from: RunStatus,
        /// The status that was asked for.
        to: RunStatus,
    },
    /// The run has ended.
    #[error("the run is {}: resume it first", .0.word())]
    Ended(RunStatus, Slug),
    /// The caller is a node, and only a person may do this.
    #[error("a node may not {0}: a person does that")]
    PersonsOnly(&'static str),
    /// There is no such node.
    #[error("there is no node {0} in this run")]
    NoNode(NodeId),
    /// There is no such edge.
    #[error("there is no edge {0} in this run")]
    NoEdge(EdgeId),
    /// There is no such request.
    #[error("there is no open request for approval {0} in this run")]
    NoApproval(ApprovalId),
    /// A message without a node, and no orchestrator.
    #[error("the run has no orchestrator: name the node that is to read the message")]
    NoOrchestrator,
    /// The alias is or was another node's.
    #[error("the alias {0} is taken, and stays taken after its node is removed: choose another")]
    AliasTaken(Alias),
    /// No alias can be made of the label.
    #[error("no alias can be made from the label {0:?}: name one with a-z, 0-9 and dashes")]
    NoAlias(String),
    /// An edge of this kind is there.
    #[error("there is an edge between these nodes in this direction: {0}")]
    EdgeExists(EdgeId),
    /// Both ends are the same.
    #[error("an edge joins two different nodes")]
    SelfLoop,
    /// No edge permits the hand-off.
    #[error("no edge leads from {from} to {to}: ask for one, or hand the work to {}", neighbours(allowed))]
    NoWay {
        /// The sender.
        from: Alias,
        /// The receiver.
        to: Alias,
        /// The nodes that it may hand work to.
        allowed: Vec<Alias>,
    },
    /// The receiver has no way back for an answer.
    #[error(
        "no edge leads from {to} back to {from}, so it cannot answer: send it with `--expect none`, or ask a person for the edge"
    )]
    CannotAnswer {
        /// The sender.
        from: Alias,
        /// The receiver.
        to: Alias,
    },
    /// Too many hand-offs wait.
    #[error("{to} has {unread} unread hand-offs from {from}: wait until it has read them (aynig.maxUnread)")]
    Full {
        /// The sender.
        from: Alias,
        /// The receiver.
        to: Alias,
        /// The number.
        unread: usize,
    },
    /// The node's capabilities do not allow it.
    #[error("{node} may not {what} (edgeManagement)")]
    NotAllowed {
        /// The node.
        node: Alias,
        /// The act.
        what: &'static str,
    },
    /// The node may not end the run.
    #[error(
        "{0} may not end the run: a node of the role orchestrator does, or a person with `aynig orch run complete`"
    )]
    MayNotEnd(Alias),
    /// A condition for the end that cannot be used.
    #[error(
        "{0:?} does not say when the run is done: write a text of at most 4096 bytes, or validator:NAME with letters, digits, - and _"
    )]
    BadDoneWhen(String),
    /// A node gives more than it has.
    #[error("{node} cannot give another node more {what} than it has")]
    MoreThanItsOwn {
        /// The node.
        node: Alias,
        /// Capabilities, permissions or limits.
        what: &'static str,
    },
    /// A node gives a provider that no node of the run has.
    #[error(
        "no node of this run has the provider {provider}: choose {}, or ask a person to make the node",
        known.iter().map(ProviderName::as_str).collect::<Vec<_>>().join(" or ")
    )]
    OtherProvider {
        /// The provider.
        provider: ProviderName,
        /// Those of the run.
        known: Vec<ProviderName>,
    },
    /// The name of a model is none.
    #[error(
        "{0:?} is not a legal model: it has 1 to {most} bytes, no control characters, and no dash in front",
        most = MAX_MODEL
    )]
    BadModel(String),
    /// A bound of the run is reached.
    #[error("the run is limited to {bound} {what}")]
    Limit {
        /// What is counted.
        what: &'static str,
        /// The bound.
        bound: u64,
    },
    /// The text is empty or too long.
    #[error("{what} has {bytes} bytes: it must have 1 to {most}; put more into a file, as an artifact")]
    Length {
        /// The text.
        what: &'static str,
        /// Its length.
        bytes: usize,
        /// The greatest length.
        most: usize,
    },
    /// Too many artifacts.
    #[error("a hand-off has {count} artifacts: it may have {most}; name the others in the message")]
    Attached {
        /// The number.
        count: usize,
        /// The greatest number.
        most: usize,
    },
    /// A node that is reserved to its role keeps it.
    #[error(
        "{alias} is reserved to runners of its role {role}, so its role stays; `aynig orch node add` makes a node of another role"
    )]
    Reserved {
        /// The node.
        alias: Alias,
        /// Its role.
        role: String,
    },
    /// The request was answered otherwise.
    #[error("the request was answered before: {answer}, by {by}")]
    AnsweredOtherwise {
        /// The first answer.
        answer: String,
        /// Who gave it.
        by: String,
    },
    /// The time for an answer is over.
    #[error("the request had a time limit, which ended at {0}: nothing was answered")]
    Overdue(Timestamp),
    /// Another turn has got the answer.
    #[error("the answer was given to another turn: it counts once")]
    HeardBefore,
    /// There is no such approval for good.
    #[error("there is no approval for good {0} in this run")]
    NoGrant(ApprovalId),
    /// An answer that contradicts itself.
    #[error("{0}")]
    BadAnswer(&'static str),
    /// The turn or step ended before.
    #[error("{0} has ended before: nothing is written twice")]
    HasEnded(String),
    /// A step is under way.
    #[error("step {0} is under way: it has to end before another begins")]
    StepUnderWay(u64),
    /// An outcome that this opcode cannot have.
    #[error("a step of this kind cannot end so")]
    BadOutcome,
    /// A turn that read what is not in its inbox.
    #[error("the turn read a message that is not in the node's inbox any more")]
    NotInInbox,
    /// The workspace is unknown, or there is one of this name.
    #[error("workspace {name}: {why}")]
    Workspace {
        /// Its name.
        name: Alias,
        /// What is wrong.
        why: &'static str,
    },
    /// A name is wrong.
    #[error(transparent)]
    Name(#[from] InvalidWord),
    /// An event of ours does not fit, which is a defect.
    #[error("{0}; this is a defect of aynig")]
    Defect(#[from] Fault),
}

fn words(from: RunStatus) -> String {
    from.successors().iter().map(|status| status.word()).collect::<Vec<_>>().join(", ")
}

fn neighbours(allowed: &[Alias]) -> String {
    match allowed {
        [] => "nobody".to_owned(),
        allowed => allowed.iter().map(Alias::as_str).collect::<Vec<_>>().join(", "),
    }
}

/// The kinds of refusals, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalKind {
    /// The thing named is not there.
    Unknown,
    /// The state of the run does not allow it now.
    Conflict,
    /// A rule does not allow it.
    Rule,
}

impl Refusal {
    /// Its kind, and a word for programs.
    #[must_use]
    pub fn code(&self) -> (RefusalKind, &'static str) {
        use RefusalKind::{Conflict, Rule, Unknown};
        match self {
            Self::Version(_) => (Conflict, "other_version"),
            Self::Transition { .. } => (Conflict, "transition"),
            Self::Ended(..) => (Conflict, "run_ended"),
            Self::PersonsOnly(_) => (Rule, "persons_only"),
            Self::NoNode(_) => (Unknown, "no_node"),
            Self::NoEdge(_) => (Unknown, "no_edge"),
            Self::NoApproval(_) => (Unknown, "no_approval"),
            Self::NoOrchestrator => (Rule, "no_orchestrator"),
            Self::AliasTaken(_) => (Conflict, "alias_taken"),
            Self::NoAlias(_) => (Rule, "no_alias"),
            Self::EdgeExists(_) => (Conflict, "edge_exists"),
            Self::SelfLoop => (Rule, "self_loop"),
            Self::NoWay { .. } => (Rule, "no_edge_leads_there"),
            Self::CannotAnswer { .. } => (Rule, "cannot_answer"),
            Self::Full { .. } => (Conflict, "inbox_full"),
            Self::NotAllowed { .. } => (Rule, "not_allowed"),
            Self::MayNotEnd(_) => (Rule, "may_not_end"),
            Self::BadDoneWhen(_) => (Rule, "bad_done_when"),
            Self::MoreThanItsOwn { .. } => (Rule, "more_than_its_own"),
            Self::Reserved { .. } => (Conflict, "reserved"),
            Self::OtherProvider { .. } => (Rule, "other_provider"),
            Self::BadModel(_) => (Rule, "bad_model"),
            Self::Limit { .. } => (Rule, "limit"),
            Self::Length { .. } => (Rule, "length"),
            Self::Attached { .. } => (Rule, "attached"),
            Self::AnsweredOtherwise { .. } => (Conflict, "answered_otherwise"),
            Self::Overdue(_) => (Conflict, "overdue"),
            Self::HeardBefore => (Conflict, "heard_before"),
            Self::NoGrant(_) => (Unknown, "no_grant"),
            Self::BadAnswer(_) => (Rule, "bad_answer"),
            Self::HasEnded(_) => (Conflict, "has_ended"),
            Self::StepUnderWay(_) => (Conflict, "step_under_way"),
            Self::BadOutcome => (Rule, "bad_outcome"),
            Self::NotInInbox => (Conflict, "not_in_inbox"),
            Self::Workspace { .. } => (Conflict, "workspace"),
            Self::Name(_) => (Rule, "name"),
            Self::Defect(_) => (Conflict, "defect"),
        }
    }
}
