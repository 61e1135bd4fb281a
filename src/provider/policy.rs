//! From a posture to answers, and to the arguments of each program.
//!
//! Invariant: nothing is permitted that the posture does not contain. The mode in which a program
//! sends no requests is used for [`Approval::BoundedAutoApprove`] with a writable worktree, and for nothing else.

use std::path::{Component, Path};

use serde_json::{Value, json};

use super::turn::Posture;
use crate::flow::document::{Approval, Execution};

/// The act that a request for permission is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Files are read.
    Read,
    /// Files in the working directory are written.
    Write,
    /// A person answers a question.
    Person,
    /// Anything else: a command, the network, a file elsewhere.
    Other,
}

/// The answer to a request for permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is permitted.
    Yes,
    /// It is denied, and the turn continues.
    No,
    /// It is denied, and the turn ends.
    Fail,
}

impl Posture {
    /// Answers a request.
    pub(crate) fn answer(&self, wish: Wish) -> Verdict {
        let writes = self.execution == Execution::WorkspaceWrite;
        match (wish, self.approval) {
            (Wish::Read, _) => Verdict::Yes,
            (Wish::Write, _) if writes => Verdict::Yes,
            (_, Approval::FailOnPrompt) => Verdict::Fail,
            (Wish::Other, Approval::BoundedAutoApprove) if writes => Verdict::Yes,
            (_, Approval::DenyInteractive | Approval::BoundedAutoApprove) => Verdict::No,
        }
    }

    /// Whether a program may be started in the mode without requests.
    pub(crate) fn skips(&self) -> bool {
        self.approval == Approval::BoundedAutoApprove && self.execution == Execution::WorkspaceWrite
    }

    /// The arguments of Claude Code. With a gate it asks about everything.
    pub(crate) fn claude(&self, is_gated: bool) -> Vec<&'static str> {
        let mut args = match self.execution {
            _ if is_gated => vec!["--permission-mode", "default"],
            _ if self.skips() => vec!["--dangerously-skip-permissions"],
            Execution::WorkspaceWrite => vec!["--permission-mode", "acceptEdits"],
            Execution::ReadOnly => vec!["--permission-mode", "default"],
        };
        match (self.execution, self.network) {
            (Execution::ReadOnly, Some(false)) => {
                args.extend(["--disallowedTools", "Edit,Write,NotebookEdit,WebFetch,WebSearch"]);
            }
            (Execution::ReadOnly, _) => args.extend(["--disallowedTools", "Edit,Write,NotebookEdit"]),
            (Execution::WorkspaceWrite, Some(false)) => {
                args.extend(["--disallowedTools", "WebFetch,WebSearch"]);
            }
            (Execution::WorkspaceWrite, _) => {}
        }
        args
    }

    /// `approvalPolicy`, `sandbox` and `config` of Codex. With a gate it asks about everything. Then, and without the
    /// network, its sandbox is kept in any case.
    pub(crate) fn codex(&self, is_gated: bool) -> (&'static str, &'static str, Option<Value>) {
        let policy = match self.approval {
            _ if is_gated => "untrusted",
            Approval::FailOnPrompt => "on-request",
            Approval::DenyInteractive | Approval::BoundedAutoApprove => "never",
        };
        let is_free = self.skips() && !is_gated && self.network != Some(false);
        let sandbox = match self.execution {
            Execution::ReadOnly => "read-only",
            Execution::WorkspaceWrite if is_free => "danger-full-access",
            Execution::WorkspaceWrite => "workspace-write",
        };
        let network = self.network.filter(|_| sandbox == "workspace-write");
        (
            policy,
            sandbox,
            network.map(|access| json!({"sandbox_workspace_write": {"network_access": access}})),
        )
    }
}

/// Whether a path that a program names is in `directory`, as far as its text says.
pub(crate) fn is_inside(path: &str, directory: &Path) -> bool {
    let path = Path::new(path);
    let below = if path.is_absolute() { path.strip_prefix(directory).ok() } else { Some(path) };
    let plain = |part: Component<'_>| match part {
        Component::Normal(name) => !name.eq_ignore_ascii_case(".git"),
        Component::CurDir => true,
        Component::ParentDir | Component::RootDir | Component::Prefix(_) => false,
    };
    below.is_some_and(|below| below.components().all(plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXECUTIONS: [Execution; 2] = [Execution::ReadOnly, Execution::WorkspaceWrite];
    const APPROVALS: [Approval; 3] =
        [Approval::FailOnPrompt, Approval::DenyInteractive, Approval::BoundedAutoApprove];

    fn posture(execution: Execution, approval: Approval) -> Posture {
        Posture { execution, network: None, approval }
    }

    #[test]
    fn answers() {
        use Verdict::{Fail, No, Yes};
        // Rows: read-only and writable with each approval. Columns: read, write, person, other.
        let rows = [
            [Yes, Fail, Fail, Fail],
            [Yes, No, No, No],
            [Yes, No, No, No],
            [Yes, Yes, Fail, Fail],
            [Yes, Yes, No, No],
            [Yes, Yes, No, Yes],
        ];
        let postures = EXECUTIONS.iter().flat_map(|one| APPROVALS.iter().map(|two| posture(*one, *two)));
        for (posture, row) in postures.zip(rows) {
            let answers =
                [Wish::Read, Wish::Write, Wish::Person, Wish::Other].map(|wish| posture.answer(wish));
            assert_eq!(answers, row, "{posture:?}");
        }
    }

    /// CONTRACT 19.5
    #[test]
    fn only_one_posture_skips() {
        for execution in EXECUTIONS {
            for approval in APPROVALS {
                for network in [None, Some(true), Some(false)] {
                    let posture = Posture { execution, network, approval };
                    let skips =
                        execution == Execution::WorkspaceWrite && approval == Approval::BoundedAutoApprove;
                    let claude = |gated| posture.claude(gated).contains(&"--dangerously-skip-permissions");
                    assert_eq!((claude(false), claude(true)), (skips, false), "{posture:?}");
                    let codex = |gated| posture.codex(gated).1 == "danger-full-access";
                    let expected = (skips && network != Some(false), false);
                    assert_eq!((codex(false), codex(true)), expected, "{posture:?}");
                    assert_eq!(posture.codex(true).0, "untrusted", "{posture:?}");
                }
            }
        }
    }

    #[test]
    fn codex() {
        let table = [
            (Execution::ReadOnly, Approval::FailOnPrompt, Some(true), ("on-request", "read-only", None)),
            (
                Execution::WorkspaceWrite,
                Approval::FailOnPrompt,
                None,
                ("on-request", "workspace-write", None),
            ),
            (
                Execution::WorkspaceWrite,
                Approval::BoundedAutoApprove,
                Some(false),
                (
                    "never",
                    "workspace-write",
                    Some(json!({"sandbox_workspace_write": {"network_access": false}})),
                ),
            ),
            (Execution::WorkspaceWrite, Approval::DenyInteractive, None, ("never", "workspace-write", None)),
        ];
        for (execution, approval, network, expected) in table {
            assert_eq!(Posture { execution, network, approval }.codex(false), expected);
        }
    }

    #[test]
    fn places() {
        let directory = Path::new("/w/tree");
        for (path, inside) in [
            ("/w/tree/a", true),
            ("a/b", true),
            ("./a", true),
            ("/w/tree/../x", false),
            ("../x", false),
            ("/w/treetop", false),
            ("/etc/passwd", false),
            ("/w/tree/.git/hooks/x", false),
            (".GIT", false),
        ] {
            assert_eq!(is_inside(path, directory), inside, "{path}");
        }
    }
}
