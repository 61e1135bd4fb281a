//! Makes a run of a flow (CONTRACT 20.1).
//!
//! Why this order: first the workspace is made, and then one operation makes the run with all that belongs to it, its
//! driver included. Of a start that dies in between only a half-made workspace is left, which the next call undoes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::contract::ids::{BranchName, CommitId, RemoteName};
use crate::flow;
use crate::flow::document::{Act, Flow};
use crate::git::RefChange;
use crate::ledger::content::Content;
use crate::ledger::masks::{self, Masks, replicate};
use crate::ledger::{Ledger, Place, runs};
use crate::model::decide::{Command, NewRun, NodeSpec};
use crate::model::ids::{Alias, ProviderName, RunId, Slug};
use crate::model::run::{FrozenFlow, GlobalMode, Limits, Mode, Replicate, RunKind, RunStatus};
use crate::words::shell_quote;
use crate::workspace::refusal::{Refusal, Why};

use super::driver::{Driver, Next, STEP};
use super::{Engine, FLOW, remote_of};

/// The parts of a new run.
#[derive(Debug)]
pub struct Order<'a> {
    /// The flow.
    pub flow: &'a Flow,
    /// Its file.
    pub file: &'a [u8],
    /// The base: its name, and its commit.
    pub base: (String, CommitId),
    /// The values of the inputs, those with a default included.
    pub inputs: BTreeMap<String, String>,
    /// A text for people.
    pub label: String,
    /// Its beginning, if not the entry and the base.
    pub fork: Option<Fork>,
    /// Where it is decided.
    pub place: Place,
}

/// The beginning of a fork of another run.
#[derive(Debug, Clone)]
pub struct Fork {
    /// That run.
    pub run: RunId,
    /// The first step.
    pub step: String,
    /// The commit that the work branch begins at.
    pub head: CommitId,
}

/// A run that was made.
#[derive(Debug, Clone)]
pub struct Started {
    /// Its id.
    pub run: RunId,
    /// Its short name.
    pub slug: Slug,
    /// Its driver.
    pub driver: BranchName,
    /// Its work branch.
    pub work_branch: String,
    /// Its base, as a full name.
    pub base_ref: String,
    /// The commit of the base.
    pub base_sha: String,
    /// Its worktree.
    pub worktree: PathBuf,
    /// Its directory.
    pub directory: PathBuf,
    /// The remote that decides it.
    pub decided_by: Option<RemoteName>,
    /// The contents that its ledger has.
    pub replicate: Replicate,
}

impl Engine<'_> {
    /// Makes a run.
    pub fn start(&self, order: &Order<'_>) -> Result<Started, Refusal> {
        let (id, slug) = runs::fresh(self.repo)?;
        let branch = Driver::branch_of(&self.run_prefix, &slug, FLOW)?;
        self.check_run_prefix()?;
        for step in &order.flow.steps {
            if let Act::Gate(gate) = &step.act {
                self.approvers(gate).map_err(|why| {
                    Refusal::new(Why::Setup, format!("the gate {}: {why}; nothing was started", step.id))
                })?;
            }
        }
        let masks = Masks::of(self.repo, &order.base.1.to_string())?;
        let (frozen, contents) = freeze(&masks, order)?;
        let new = NewRun {
            id,
            slug: slug.clone(),
            kind: RunKind::Flow,
            label: order.label.clone(),
            mode: Mode::Auto,
            global_mode: GlobalMode::Implementation,
            base_ref: order.base.0.clone(),
            base_sha: order.base.1.to_string(),
            decided_by: order.place.named(self.repo)?,
            done_when: None,
            limits: limits(order.flow),
            replicate: replicate(self.repo, &order.place)?,
            status: RunStatus::Running,
            flow: Some(frozen),
            reserve_role: false,
        };
        let driver = Driver {
            repo: self.repo,
            place: order.place.clone(),
            run: id,
            kind: RunKind::Flow,
            branch: branch.clone(),
            lease_seconds: self.lease_seconds,
            role: None,
        };
        if driver.known()?.is_some() {
            return Err(Refusal::new(
                Why::Conflict,
                format!("there is a branch {branch}; nothing was changed"),
            ));
        }
        let about = if order.label.is_empty() { slug.as_str() } else { &order.label };
        let next = Next { state: STEP, subject: format!("flow: {about}"), ..Next::default() };
        let first = driver.commit(None, &next, None)?;
        let beside = RefChange { name: branch.full_ref(), expected: None, new: Some(first) };
        let added = Command::AddNode(Box::new(node(&order.label)?));
        let op = self.op_of_person()?;
        let mut begin = |prepared, published: &[RefChange]| {
            let (commands, refs) =
                ([added.clone(), prepared], [std::slice::from_ref(&beside), published].concat());
            Ledger::begin(self.repo, order.place.clone(), (&new, &commands), &op, &refs, &contents).map(drop)
        };
        let of = (id, &slug, &order.place);
        let head = order.fork.as_ref().map_or(order.base.1, |fork| fork.head);
        let created = self.workspaces.create_first(of, FLOW, (&order.base, head), &mut begin)?;
        driver.note(first);
        created.warnings.iter().for_each(|words| (self.tell)(words));
        let context = created.context;
        Ok(Started {
            run: id,
            slug,
            driver: branch,
            work_branch: context.branch_name.clone(),
            base_ref: context.base_ref.clone(),
            base_sha: context.base_sha.clone(),
            worktree: context.worktree_path,
            directory: self.directory(id).path().to_owned(),
            decided_by: remote_of(&order.place).cloned(),
            replicate: new.replicate,
        })
    }

    /// The driver of the run of a ledger.
    pub(crate) fn driver(&self, ledger: &Ledger<'_>, branch: BranchName) -> Driver<'_> {
        Driver {
            repo: self.repo,
            place: ledger.place().clone(),
            run: ledger.tip().state.run.id,
            kind: ledger.tip().state.run.kind,
            branch,
            lease_seconds: self.lease_seconds,
            role: None,
        }
    }

    /// Refuses to begin where a branch of a person has the name of a directory of drivers.
    pub(super) fn check_run_prefix(&self) -> Result<(), Refusal> {
        let prefix = self.run_prefix.trim_end_matches('/');
        for (at, _) in prefix.match_indices('/').chain([(prefix.len(), "")]) {
            let Ok(branch) = BranchName::new(&prefix.as_bytes()[..at]) else { continue };
            let found = self.repo.branch_head(&branch);
            if found.map_err(|error| Refusal::because("read a branch", &error))?.is_some() {
                let message =
                    format!("there is a branch {branch}, so no driver can be below it; nothing was changed");
                return Err(Refusal::new(Why::Setup, message)
                    .hint(format!("rename it: `git branch --move {} NAME`", shell_quote(&branch)))
                    .hint("or set another prefix: `git config aynig.runPrefix PREFIX/`"));
            }
        }
        Ok(())
    }
}

/// The digests of a flow and its inputs, and their contents.
fn freeze(masks: &Masks, order: &Order<'_>) -> Result<(FrozenFlow, Vec<Content>), Refusal> {
    let file = Content::new(masks, order.file);
    // Every step reads the masked file, so that one must be the same flow.
    if file.bytes() != order.file && flow::check(file.bytes()).flow.as_ref() != Some(order.flow) {
        let redact = masks::FILE;
        let message = format!(
            "{redact} or aynig.secrets masks text of the flow, and what is left is another flow; nothing was started"
        );
        return Err(Refusal::new(Why::Usage, message)
            .hint(format!("change that text, or the expressions in {redact}, and commit the change")));
    }
    let inputs: Vec<(&String, Content)> =
        order.inputs.iter().map(|(name, value)| (name, Content::new(masks, value.as_bytes()))).collect();
    let frozen = FrozenFlow {
        workflow_id: order.flow.workflow_id.clone(),
        version: order.flow.version,
        file: file.sha256().to_owned(),
        inputs: inputs.iter().map(|(name, value)| ((*name).clone(), value.sha256().to_owned())).collect(),
        forked_from: order.fork.as_ref().map(|fork| fork.run),
        begins_at: order.fork.as_ref().map(|fork| fork.step.clone()),
    };
    let contents = std::iter::once(file).chain(inputs.into_iter().map(|(_, value)| value)).collect();
    Ok((frozen, contents))
}

fn limits(flow: &Flow) -> Limits {
    let limits = &flow.limits;
    Limits {
        wall_seconds: limits.wall_seconds,
        tokens: limits.tokens,
        cost_usd: limits.cost_usd,
        ..Limits::default()
    }
}

/// The one node of a flow run.
fn node(label: &str) -> Result<NodeSpec, Refusal> {
    let wrong = |error: &dyn std::fmt::Display| Refusal::new(Why::Failed, error.to_string());
    Ok(NodeSpec {
        alias: Some(Alias::parse(FLOW).map_err(|error| wrong(&error))?),
        label: if label.is_empty() { FLOW.to_owned() } else { label.to_owned() },
        role_template: FLOW.to_owned(),
        role_text: None,
        provider: ProviderName::parse(FLOW).map_err(|error| wrong(&error))?,
        model: None,
        capabilities: None,
        permissions: None,
        limits: Limits::default(),
        reserve_role: false,
    })
}
