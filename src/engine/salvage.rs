//! What an attempt that was cut off left in the worktree of this host.
//!
//! Invariant: a mark is written before a program of a step is started, and goes when the step is recorded or put back. So
//! a mark of another attempt means that what lies in the worktree is of nobody's step; it is saved, and the worktree is
//! put back to what it was when that attempt began (CONTRACT 20.5).

use std::io::ErrorKind;
use std::path::PathBuf;

use crate::contract::ids::CommitId;
use crate::fsutil;
use crate::ledger::Ledger;
use crate::model::ids::RunId;
use crate::words::shows_rescued;
use crate::workspace::context::Context;
use crate::workspace::refusal::Refusal;

use super::{Engine, FLOW};

impl Engine<'_> {
    fn mark(&self, run: RunId) -> PathBuf {
        self.directory(run).path().join("attempt")
    }

    /// Marks the worktree of a run, which is as in this context, as used by this attempt.
    pub(super) fn begin_work(&self, run: RunId, attempt: &str, context: &Context) -> Result<(), Refusal> {
        let path = self.mark(run);
        fsutil::replace_private(&path, format!("{attempt}\n{}", context.head_sha).as_bytes())
            .map_err(|error| Refusal::because(&format!("write {}", path.display()), &error))
    }

    /// Whether this attempt has marked the worktree of a run.
    pub(super) fn has_begun(&self, run: RunId, attempt: &str) -> bool {
        std::fs::read_to_string(self.mark(run)).is_ok_and(|mark| mark.lines().next() == Some(attempt))
    }

    /// Takes the mark away.
    pub(super) fn end_work(&self, run: RunId) {
        if let Err(error) = std::fs::remove_file(self.mark(run))
            && error.kind() != ErrorKind::NotFound
        {
            tracing::warn!(%error, "the mark of an attempt stays; the next one looks at its worktree");
        }
    }

    /// Saves what another attempt left, and puts the worktree back.
    pub(super) fn salvage(
        &self,
        run: RunId,
        attempt: Option<&str>,
        context: Context,
    ) -> Result<Context, Refusal> {
        let mark = match std::fs::read_to_string(self.mark(run)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(context),
            Ok(mark) if mark.lines().next() == attempt => return Ok(context),
            mark => mark.unwrap_or_default(),
        };
        let before = mark.lines().nth(1).and_then(|head| CommitId::parse_hex(head.as_bytes()));
        let before = before.filter(|before| self.has_recorded(run, *before));
        let context = self.put_back_to(before, context, "an attempt was cut off")?;
        self.end_work(run);
        Ok(context)
    }

    /// Whether a commit has all that the ledger knows of the work branch. A snapshot that another step or a later one has
    /// recorded is not given up.
    fn has_recorded(&self, run: RunId, commit: CommitId) -> bool {
        let Ok(ledger) = Ledger::open(self.repo, run) else { return false };
        let known = ledger.tip().state.workspaces.values().find(|one| one.name.to_string() == FLOW);
        let known = known.and_then(|known| CommitId::parse_hex(known.head_sha.as_bytes()));
        known.is_some_and(|known| self.repo.commit(commit).is_ok() && self.repo.descends(commit, known))
    }

    /// Puts the worktree back to the last snapshot. What lies there is saved.
    pub(super) fn put_back(&self, context: Context, why: &str) -> Result<Context, Refusal> {
        self.put_back_to(None, context, why)
    }

    fn put_back_to(&self, to: Option<CommitId>, context: Context, why: &str) -> Result<Context, Refusal> {
        let Some(remade) = self.workspaces.put_back(&context, to)? else { return Ok(context) };
        let saved =
            remade.rescue.as_deref().map(|name| format!("; `{}` shows what lay there", shows_rescued(name)));
        remade.warnings.iter().for_each(|warning| (self.tell)(warning));
        (self.tell)(&format!("{why}; the worktree was put back{}", saved.unwrap_or_default()));
        Ok(remade.context)
    }
}
