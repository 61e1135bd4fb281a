//! The files that a node may change. Changes of other files are saved and taken back; the rest of the turn counts
//! (CONTRACT 22.8).
//!
//! Invariant: no commit of the work branch, not even one in between, has a forbidden change.

use std::collections::BTreeSet;

use bstr::BString;

use crate::contract::ids::CommitId;
use crate::contract::squash::SNAPSHOT;
use crate::engine::Engine;
use crate::engine::attempt::Work;
use crate::engine::course::Carried;
use crate::engine::policy::Rules;
use crate::engine::salvage::head_of;
use crate::flow::document::Approval;
use crate::git::objects::commits::{Authored, NewCommit};
use crate::git::objects::differences::Difference;
use crate::git::process::cancel::Purpose;
use crate::model::node::{CliPermissions, Node};
use crate::model::run::GlobalMode;
use crate::words::{first_of, shows_rescued};
use crate::workspace::refusal::Refusal;

/// The globs of documents.
const DOCUMENTS: [&str; 2] = ["docs/", "**/*.md"];

/// How many paths a sentence names.
const NAMED: usize = 5;

/// The files that a node may change, and the answer to its requests.
pub(super) fn rules_of(node: &Node, mode: GlobalMode) -> Rules {
    let documents = || DOCUMENTS.map(str::to_owned).to_vec();
    let may = node.capabilities;
    let approval = match node.permissions.cli_permissions_mode {
        CliPermissions::Skip => Approval::BoundedAutoApprove,
        CliPermissions::Gated => Approval::DenyInteractive,
    };
    let rules = Rules { approval, ..Rules::default() };
    match (mode, may.write_code, may.write_docs) {
        (_, false, false) | (GlobalMode::Planning, _, false) => rules.read_only(),
        (GlobalMode::Planning, _, true) => {
            Rules { allowed_paths: vec![vec![DOCUMENTS[0].to_owned()]], ..rules }
        }
        (GlobalMode::Implementation, true, true) => rules,
        (GlobalMode::Implementation, true, false) => Rules { forbidden_paths: documents(), ..rules },
        (GlobalMode::Implementation, false, true) => Rules { allowed_paths: vec![documents()], ..rules },
    }
}

impl Engine<'_> {
    /// Takes changes back that the rules forbid, in the work of a turn that began at the commit `before`. All of the work
    /// is saved. Returns a sentence for the agent and for people. `None`: nothing is forbidden.
    pub(super) fn take_back_forbidden(
        &self,
        work: &mut Work<'_, '_>,
        carried: &mut Carried,
        (rules, before): (&Rules, CommitId),
    ) -> Result<Option<String>, Refusal> {
        let after = head_of(&work.context);
        let because = |error: &dyn std::error::Error| Refusal::because("take files back", error);
        let tree =
            |id: CommitId| self.repo.commit(id).map(|stored| stored.tree).map_err(|error| because(&error));
        let own = self.as_merged(work, (before, after), &self.changed(before, after)?)?;
        let mut forbidden: Vec<&Difference> = own.iter().collect();
        forbidden.retain(|change| !rules.violations(std::slice::from_ref(change)).is_empty());
        let paths: BTreeSet<&BString> = forbidden.iter().map(|change| &change.path).collect();
        if paths.is_empty() {
            return Ok(None);
        }
        let (old, new) = (tree(before)?, tree(after)?);
        let ends = self.repo.differences(old, new).map_err(|error| because(&error))?;
        let back = ends.iter().filter(|change| paths.contains(&change.path));
        let back: Vec<_> = back.map(|change| (change.path.as_slice(), change.old)).collect();
        let kept = self.repo.tree_with(new, &back).map_err(|error| because(&error))?;
        let to = if kept == old { before } else { self.one_commit(work, (before, kept))? };
        let remade = self.workspaces.put_back(&work.context, |_, _| to)?;
        let mut words = sentence(&paths);
        if let Some(remade) = remade {
            remade.warnings.iter().for_each(|warning| (self.tell)(warning));
            if let Some(rescue) = &remade.rescue {
                let host = self.repo.runner_id();
                words += &format!("; `{}` on {host} shows all of it", shows_rescued(rescue));
            }
            work.context = remade.context;
        }
        (carried.record.head, carried.record.tree) = self.here(&work.context)?;
        let repairs = carried.workspace.take().map(|(_, repairs)| repairs);
        carried.workspace = Some((work.context.clone(), repairs.unwrap_or_default()));
        Ok(Some(words))
    }

    /// The work of a turn as one commit with the tree `kept`.
    fn one_commit(
        &self,
        work: &Work<'_, '_>,
        (before, kept): (CommitId, CommitId),
    ) -> Result<CommitId, Refusal> {
        let context = &work.context;
        let author = Authored::now(&context.name, &context.address());
        let message = format!("{SNAPSHOT}{}\n\naynig-run: {}\n", context.name, context.run_id);
        let new = NewCommit { tree: kept, parents: &[before], message: message.as_bytes(), attempt: None };
        let written = self.repo.write_commit_of(&new, &author, Purpose::Signature);
        written.map_err(|error| Refusal::because("write the work without the files", &error))
    }

    /// The changes without those that a merge brought as they are from the work branch of another node, as the ledger has
    /// it. Any other second parent may be of the node itself.
    fn as_merged(
        &self,
        work: &Work<'_, '_>,
        (before, after): (CommitId, CommitId),
        changes: &[Difference],
    ) -> Result<Vec<Difference>, Refusal> {
        let because = |error: &dyn std::error::Error| Refusal::because("read what was merged", error);
        let known = work.ledger.tip().state.workspaces.iter();
        let others = known.filter(|(alias, _)| alias.as_str() != work.context.name);
        let others: Vec<CommitId> =
            others.filter_map(|(_, known)| CommitId::parse_hex(known.head_sha.as_bytes())).collect();
        let is_of_another =
            |commit: CommitId| others.iter().any(|head| *head == commit || self.repo.descends(*head, commit));
        let mut own = changes.to_vec();
        for commit in self.repo.commits_since(after, before).map_err(|error| because(&error))? {
            let stored = self.repo.commit(commit).map_err(|error| because(&error))?;
            for merged in stored.parents.iter().skip(1).filter(|parent| is_of_another(**parent)) {
                let theirs = self.repo.commit(*merged).map_err(|error| because(&error))?.tree;
                let tip = self.repo.commit(after).map_err(|error| because(&error))?.tree;
                let differing = self.repo.differences(theirs, tip).map_err(|error| because(&error))?;
                let differing: BTreeSet<BString> = differing.into_iter().map(|one| one.path).collect();
                own.retain(|change| differing.contains(&change.path));
            }
        }
        Ok(own)
    }
}

/// The sentence about files that were taken back.
fn sentence(paths: &BTreeSet<&BString>) -> String {
    format!("changes of files that this node may not change were taken back: {}", first_of(paths, NAMED))
}
