//! Policies: what a step may do, and whether what it changed keeps to that.
//!
//! Pure. Invariant: the effective policy permits nothing that the file did not request.

mod violations;

use serde_json::{Value, json};

use crate::flow::document::{Approval, Execution, Flow, Policy, Step, word};
use crate::flow::{APPROVAL, EXECUTION, NETWORK, PREDEFINED};

pub use violations::{Violation, sentence};

/// A policy with all its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// The name of the policy that the step or the flow names.
    pub name: Option<String>,
    /// The files that may be written.
    pub execution: Execution,
    /// Whether the network may be used.
    pub network: bool,
    /// The answer to requests for permission.
    pub approval: Approval,
    /// Lists of globs. A path may change if one of each list matches it.
    pub allowed_paths: Vec<Vec<String>>,
    /// Globs of paths that must not change.
    pub forbidden_paths: Vec<String>,
    /// Operations that must not happen.
    pub forbidden_operations: Vec<String>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            name: None,
            execution: Execution::WorkspaceWrite,
            network: true,
            approval: Approval::FailOnPrompt,
            allowed_paths: Vec::new(),
            forbidden_paths: Vec::new(),
            forbidden_operations: Vec::new(),
        }
    }
}

impl Rules {
    /// The requested policy of a step: that of the flow's defaults, and over it that of the step.
    #[must_use]
    pub fn requested(flow: &Flow, step: &Step) -> Self {
        let names = [&flow.defaults.policy, &step.policy].into_iter().flatten();
        names.fold(Self::default(), |rules, name| {
            if name.name == PREDEFINED {
                let (execution, approval) = (Execution::WorkspaceWrite, Approval::BoundedAutoApprove);
                return Self { name: Some(name.name.clone()), execution, approval, ..rules };
            }
            match flow.policies.iter().find(|policy| policy.name == name.name) {
                Some(policy) => rules.overlaid(policy),
                None => rules,
            }
        })
    }

    /// Fields of `policy` replace those here. Prohibitions add up.
    fn overlaid(mut self, policy: &Policy) -> Self {
        self.name = Some(policy.name.clone());
        self.execution = policy.execution.unwrap_or(self.execution);
        self.network = policy.network.unwrap_or(self.network);
        self.approval = policy.approval.unwrap_or(self.approval);
        if !policy.allowed_paths.is_empty() {
            self.allowed_paths = vec![policy.allowed_paths.clone()];
        }
        self.forbid(policy);
        self
    }

    /// This policy without permission to write.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.execution = Execution::ReadOnly;
        self
    }

    /// The effective policy of a planner: no file may be written, and its questions are denied.
    #[must_use]
    pub fn of_planner(self) -> Self {
        Self { approval: Approval::DenyInteractive, ..self.read_only() }
    }

    fn forbid(&mut self, policy: &Policy) {
        for (all, more) in [
            (&mut self.forbidden_paths, &policy.forbidden_paths),
            (&mut self.forbidden_operations, &policy.forbidden_operations),
        ] {
            for one in more {
                if !all.contains(one) {
                    all.push(one.clone());
                }
            }
        }
    }

    /// For a record, with the words of the file.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "policy_reference": self.name,
            "execution_posture": word(&EXECUTION, &self.execution),
            "network_posture": word(&NETWORK, &self.network),
            "approval_posture": word(&APPROVAL, &self.approval),
            "allowed_paths": self.allowed_paths,
            "forbidden_paths": self.forbidden_paths,
            "forbidden_operations": self.forbidden_operations,
        })
    }
}

/// The record of a step's policy: as it was asked for, as it was in force, and how it was broken, in words.
#[must_use]
pub fn summary(requested: &Rules, effective: &Rules, violations: &[String]) -> Value {
    json!({
        "requested_policy": requested.json(),
        "effective_policy": effective.json(),
        "violations": violations,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOW: &str = "workflow_id: x
version: 1
entry_step: a
defaults: {policy: narrow, agent: claude}
policies:
  narrow: {execution_posture: read_only, network_posture: deny, approval_posture: bounded_auto_approve, allowed_paths: [src/], forbidden_paths: [a], forbidden_operations: [delete]}
  wide: {execution_posture: workspace_write, allowed_paths: [docs/], forbidden_paths: [b, a], forbidden_operations: [ci]}
  other: {}
steps:
  - {id: a, opcode: RUN_AGENT, prompt: p, routes: {completed: b}}
  - {id: b, opcode: RUN_AGENT, policy: wide, prompt: p, routes: {completed: c}}
  - {id: c, opcode: RUN_AGENT, policy: step.review_assist, prompt: p, routes: {completed: STOP}}
";

    fn flow() -> Flow {
        crate::flow::check(FLOW.as_bytes()).flow.expect("a flow")
    }

    /// CONTRACT 18.14
    #[test]
    fn the_policy_of_a_step_lies_over_that_of_the_flow() {
        let flow = flow();
        let of = |id: &str| Rules::requested(&flow, flow.step(id).expect("a step"));
        let narrow = of("a");
        assert_eq!((narrow.execution, narrow.network), (Execution::ReadOnly, false));
        assert_eq!(narrow.allowed_paths, [["src/"]]);
        let wide = of("b");
        assert_eq!((wide.execution, wide.network), (Execution::WorkspaceWrite, false));
        assert_eq!(wide.approval, Approval::BoundedAutoApprove);
        assert_eq!(wide.allowed_paths, [["docs/"]]);
        assert_eq!(wide.forbidden_paths, ["a", "b"]);
        assert_eq!(wide.forbidden_operations, ["delete", "ci"]);
        assert_eq!(wide.name.as_deref(), Some("wide"));
        let assisted = of("c");
        assert_eq!((assisted.execution, assisted.allowed_paths.len()), (Execution::WorkspaceWrite, 1));
        let plain = Flow { defaults: crate::flow::document::Defaults::default(), ..flow.clone() };
        let plain = Rules::requested(&plain, flow.step("a").expect("a step"));
        assert_eq!(plain, Rules::default());
        assert_eq!(plain.json()["approval_posture"], "fail_on_prompt");
        assert_eq!(plain.json()["execution_posture"], "workspace_write");
    }

    /// CONTRACT 18.14
    #[test]
    fn a_planner_may_only_read() {
        let flow = flow();
        for id in ["a", "b", "c"] {
            let requested = Rules::requested(&flow, flow.step(id).expect("a step"));
            let effective = requested.clone().of_planner();
            assert_eq!(effective.execution, Execution::ReadOnly);
            assert_eq!(effective.approval, Approval::DenyInteractive);
            assert_eq!(
                Rules { execution: requested.execution, approval: requested.approval, ..effective },
                requested
            );
        }
        let (asked, in_force) = (Rules::default(), Rules::default().of_planner());
        let summary = summary(&asked, &in_force, &["a was changed".to_owned()]);
        assert_eq!(summary["requested_policy"]["execution_posture"], "workspace_write");
        assert_eq!(summary["effective_policy"]["execution_posture"], "read_only");
        assert_eq!(summary["violations"][0], "a was changed");
    }
}
