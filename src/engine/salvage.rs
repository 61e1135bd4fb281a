//! Leftovers of an attempt that was cut off, in the worktree of this host.
//!
//! Invariant: a mark is written before a program of a step is started, and goes when the step is recorded or put back. So
//! a mark of another attempt means that the worktree's changes belong to no step; they are saved, and worktree and work
//! branch are put back to where that attempt began (CONTRACT 20.5).

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::contract::ids::CommitId;
use crate::contract::layout::{MARK, MARKS};
use crate::flow::due::is_interrupted;
use crate::fsutil;
use crate::ledger::Ledger;
use crate::model::ids::RunId;
use crate::model::run::RunKind;
use crate::model::state::State;
use crate::model::step::Step;
use crate::words::shows_rescued;
use crate::workspace::context::Context;
use crate::workspace::refusal::Refusal;

use super::{Engine, FLOW};

/// The mark of an attempt: `ID HEAD GENERATION STEPS`, and `judged` if nothing outside was changed when it was stopped. What is
/// missing in it is of an older version.
struct Mark {
    attempt: String,
    is_judged: bool,
    /// The work branch, the number of its worktree and the number of recorded steps when the attempt began.
    began: Option<(CommitId, u32, u64)>,
}

/// The last word of a mark.
const JUDGED: &str = "judged";

impl Mark {
    fn read(text: &str) -> Self {
        let mut words = text.split_ascii_whitespace();
        let attempt = words.next().unwrap_or_default().to_owned();
        let mut began = || {
            let head = CommitId::parse_hex(words.next()?.as_bytes())?;
            Some((head, words.next()?.parse().ok()?, words.next()?.parse().ok()?))
        };
        let began = began();
        Self { began, attempt, is_judged: words.next() == Some(JUDGED) }
    }

    /// The commit that a worktree goes back to that is at `now`, in the generation `worktree`. `recorded` is what the
    /// ledger has of the work branch, after so many steps.
    fn target(
        &self,
        (now, worktree): (CommitId, u32),
        (recorded, steps): (Option<CommitId>, u64),
        descends: impl Fn(CommitId, CommitId) -> bool,
    ) -> CommitId {
        match (self.began, recorded) {
            // Another host has carried steps out since.
            (Some((head, generation, before)), Some(recorded)) if generation == worktree => {
                if steps > before && !descends(head, recorded) { recorded } else { head }
            }
            (Some((head, generation, _)), None) if generation == worktree => head,
            // It was put back already, or somebody rolled it back.
            (Some(_) | None, _) => now,
        }
    }
}

impl Engine<'_> {
    fn mark(&self, run: RunId, name: &str) -> PathBuf {
        let directory = self.directory(run).path().to_path_buf();
        if name == FLOW { directory.join(MARK) } else { directory.join(MARKS).join(name) }
    }

    /// Marks a worktree of a run as used by this attempt. `done` is the number of recorded steps of a flow, or of
    /// the last turn of a node.
    pub(super) fn begin_work(
        &self,
        run: RunId,
        done: u64,
        attempt: &str,
        context: &Context,
    ) -> Result<(), Refusal> {
        let path = self.mark(run, &context.name);
        let text = format!("{attempt} {} {} {done}", context.head_sha, context.generation);
        let written = path.parent().map_or(Ok(()), fsutil::create_private_dir_all);
        written
            .and_then(|()| fsutil::replace_private(&path, text.as_bytes()))
            .map_err(|error| Refusal::because(&format!("write {}", path.display()), &error))
    }

    /// Notes that an attempt that is stopped has changed nothing outside: what is changed from now on is a person's.
    pub(super) fn note_judged(&self, run: RunId, name: &str, attempt: &str) {
        let path = self.mark(run, name);
        let text = fsutil::read_plain_text(&path).unwrap_or_default();
        let mark = Mark::read(&text);
        if mark.attempt == attempt && mark.began.is_some() && !mark.is_judged {
            let noted = fsutil::replace_private(&path, format!("{} {JUDGED}", text.trim_end()).as_bytes());
            noted.unwrap_or_else(|error| tracing::debug!(%error, "{} stays", path.display()));
        }
    }

    /// Whether this attempt has marked the worktree of this name.
    pub(super) fn has_begun(&self, (run, name): (RunId, &str), attempt: &str) -> bool {
        fsutil::read_plain_text(self.mark(run, name)).is_ok_and(|text| Mark::read(&text).attempt == attempt)
    }

    /// The attempt that has marked the worktree of a flow with so many recorded steps.
    pub(super) fn begun(&self, run: RunId, steps: u64) -> Option<String> {
        let mark = Mark::read(&fsutil::read_plain_text(self.mark(run, FLOW)).ok()?);
        mark.began.is_some_and(|(_, _, before)| before == steps).then_some(mark.attempt)
    }

    /// The attempt that has marked the worktree of this name last.
    pub(super) fn marked(&self, run: RunId, name: &str) -> Option<String> {
        fsutil::read_plain_text(self.mark(run, name)).ok().map(|text| Mark::read(&text).attempt)
    }

    /// From the mark of an attempt to the newest file that its step left.
    pub(super) fn seen_for(&self, run: RunId, step: &str) -> Duration {
        let written = |path: &Path| path.symlink_metadata().and_then(|found| found.modified()).ok();
        let (mut ahead, mut newest) = (vec![self.directory(run).path().join("artifacts").join(step)], None);
        while let Some(path) = ahead.pop() {
            newest = newest.max(written(&path));
            if path.symlink_metadata().is_ok_and(|found| found.is_dir()) {
                ahead.extend(
                    std::fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()),
                );
            }
        }
        newest
            .zip(written(&self.mark(run, FLOW)))
            .and_then(|(last, first)| last.duration_since(first).ok())
            .unwrap_or_default()
    }

    /// Takes the mark away.
    pub(super) fn end_work(&self, run: RunId, name: &str) {
        if let Err(error) = std::fs::remove_file(self.mark(run, name))
            && error.kind() != ErrorKind::NotFound
        {
            tracing::warn!(%error, "the mark of an attempt stays; the next one looks at its worktree");
        }
    }

    /// Saves what another attempt left, and puts worktree and work branch back to where that began.
    pub(super) fn salvage(
        &self,
        ledger: &Ledger<'_>,
        attempt: Option<&str>,
        context: Context,
    ) -> Result<Context, Refusal> {
        let state = &ledger.tip().state;
        let (run, name) = (state.run.id, context.name.clone());
        let mark = match fsutil::read_plain_text(self.mark(run, &name)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(context),
            text => Mark::read(&text.unwrap_or_default()),
        };
        if attempt == Some(&mark.attempt) {
            return Ok(context);
        }
        if !mark.is_judged {
            self.workspaces.note_changes(&context)?;
        }
        let known = state.workspaces.values().find(|workspace| workspace.name.to_string() == name);
        let recorded = known.and_then(|known| CommitId::parse_hex(known.head_sha.as_bytes()));
        let steps = match state.run.kind {
            RunKind::Flow => {
                // That this very attempt was interrupted is no step of another host.
                let is_own = |step: &&Step| is_interrupted(step) && step.is_of_lease(&mark.attempt);
                let own = u64::try_from(state.steps.values().filter(is_own).count()).unwrap_or_default();
                state.run.counts.steps.saturating_sub(own)
            }
            RunKind::Graph => last_turn(state, &name),
        };
        let to = |now, worktree| {
            mark.target((now, worktree), (recorded, steps), |one, other| self.repo.descends(one, other))
        };
        let context = self.put_back_to(context, to, "an attempt was cut off")?;
        self.end_work(run, &name);
        self.workspaces.forget_unchanged(&context);
        Ok(context)
    }

    /// Puts the worktree and the work branch back to a commit. What came later is saved.
    pub(super) fn put_back(&self, context: Context, to: CommitId, why: &str) -> Result<Context, Refusal> {
        self.put_back_to(context, |_, _| to, why)
    }

    /// Puts the worktree and the work branch back to the commit that `to` chooses, from the branch and the number of the worktree
    /// as other hosts have published them.
    fn put_back_to(
        &self,
        context: Context,
        to: impl FnOnce(CommitId, u32) -> CommitId,
        why: &str,
    ) -> Result<Context, Refusal> {
        let Some(remade) = self.workspaces.put_back(&context, to)? else {
            // A process that was killed may have begun it, so that the workspace is there only now.
            return self.workspaces.find(context.handle().as_ref());
        };
        let saved =
            remade.rescue.as_deref().map(|name| format!("; `{}` shows what lay there", shows_rescued(name)));
        remade.warnings.iter().for_each(|warning| (self.tell)(warning));
        (self.tell)(&format!("{why}; the worktree was put back{}", saved.unwrap_or_default()));
        Ok(remade.context)
    }
}

/// The number of the last turn of a node, by its alias. 0 if there is none.
pub(super) fn last_turn(state: &State, name: &str) -> u64 {
    let node = state.nodes.values().find(|node| node.alias.as_str() == name);
    node.and_then(|node| node.turn.as_ref()).map_or(0, |last| last.number)
}

/// The newest commit of the work branch, as a context has it.
pub(super) fn head_of(context: &Context) -> CommitId {
    CommitId::parse_hex(context.head_sha.as_bytes()).unwrap_or_else(|| context.base())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CONTRACT 20.5
    #[test]
    fn where_a_worktree_goes_back_to() {
        let id = |number: u8| CommitId::from_bytes(&[number; 20]).expect("20 bytes");
        // Commits are numbered in their order, on one line.
        let descends = |one: CommitId, other: CommitId| one.to_string() >= other.to_string();
        let mark = |head: u8| Mark::read(&format!("a {} 1 4", id(head)));
        for (what, mark, worktree, recorded, wanted) in [
            ("as it began", mark(5), 1, (Some(id(5)), 4), id(5)),
            ("a person's commit that the ledger has not heard of", mark(6), 1, (Some(id(5)), 4), id(6)),
            ("a snapshot in the midst of the step", mark(5), 1, (Some(id(7)), 4), id(5)),
            ("its end is recorded, and its mark was left", mark(5), 1, (Some(id(7)), 5), id(7)),
            ("another host went on", mark(5), 1, (Some(id(7)), 5), id(7)),
            ("another host recorded the end alone", mark(6), 1, (Some(id(5)), 5), id(6)),
            ("it was put back already", mark(5), 2, (Some(id(5)), 4), id(9)),
            ("nothing is recorded", mark(5), 1, (None, 4), id(5)),
            ("an older mark", Mark::read("a"), 1, (Some(id(5)), 4), id(9)),
        ] {
            assert_eq!(mark.target((id(9), worktree), recorded, descends), wanted, "{what}");
            assert_eq!(mark.attempt, "a");
        }
    }
}
