//! Changes of a step outside of its worktree: hooks, settings and refs (CONTRACT 20.33).
//!
//! Invariant: after a step no git works in its worktree before settings that make git run programs were compared. They
//! are compared with what this process has in memory, since a step can write to every file of the repository.

use crate::git::contents::rescue::Situation;
use crate::ledger::LedgerError;
use crate::ledger::tip::ledger_ref;
use crate::model::decide::texts::cut;
use crate::model::run::Run;
use crate::model::step::{Opcode, Outcome};
use crate::workspace::context::Context;
use crate::workspace::refusal::{Refusal, Why};
use crate::workspace::{Change, Settled, settles, unsettled_words};

use super::attempt::Work;
use super::course::{Carried, Course};
use super::{Engine, remote_of};

/// How many violations a step records, and how long each may be, in bytes.
const MOST_VIOLATIONS: usize = 100;
const LONGEST_VIOLATION: usize = 400;

impl Carried {
    /// Notes violations, in words. They make the outcome.
    pub(super) fn violated(&mut self, more: Vec<String>, opcode: Opcode) {
        let room = MOST_VIOLATIONS.saturating_sub(self.record.violations.len());
        let left = more.len().saturating_sub(room);
        let more = more.into_iter().take(room).map(|mut one| {
            cut(&mut one, LONGEST_VIOLATION);
            one
        });
        self.record.violations.extend(more);
        if left > 0 {
            self.record.violations.push(format!("and {left} more"));
        }
        if !self.record.violations.is_empty() {
            let judges = opcode == Opcode::Evaluate;
            self.outcome = if judges { Outcome::Unsafe } else { Outcome::KilledPolicy };
            self.evidence = self.record.violations.join("; ");
        }
    }
}

impl Engine<'_> {
    /// Why no step or turn in this workspace of a run may begin on this host. `None`: it may.
    pub(super) fn unsettled(&self, run: &Run, name: &str) -> Result<Option<String>, Refusal> {
        match self.workspaces.find(format!("{}/{name}", run.slug).as_ref()) {
            Err(refusal) if refusal.why == Why::NotFound => Ok(None),
            Err(refusal) => Err(refusal),
            Ok(context) => Ok(unsettled_words(&context, &self.workspaces.to_settle(&context)?)),
        }
    }

    /// The notes of other steps of this host about an attempt that could not record them itself.
    pub(super) fn noted(&self, run: &Run, name: &str) -> Result<Option<(Context, String)>, Refusal> {
        let context = match self.workspaces.find(format!("{}/{name}", run.slug).as_ref()) {
            Err(refusal) if refusal.why == Why::NotFound => return Ok(None),
            found => found?,
        };
        let notes = self.workspaces.notes_of(&context);
        Ok((!notes.is_empty()).then(|| (context, beside_words(&notes))))
    }

    /// Judges what a step changed outside of its worktree. Returns whether its work has to stay where it is, since no
    /// git may look at it.
    pub(super) fn judge_outside(
        &self,
        work: &mut Work<'_, '_>,
        carried: &mut Carried,
    ) -> Result<bool, Refusal> {
        let context = &work.context;
        let (mut words, mut shared) = (Vec::new(), Vec::new());
        let Settled { changes, left, advice, beside, is_hidden, recorded } =
            self.workspaces.put_back_outside(context, &work.outside)?;
        for change in changes.iter().filter(|change| change.is_violation) {
            let is_back = !left.iter().any(|one| one.name == change.name);
            if !is_back {
                (self.tell)(&format!("{}; this undoes it: {}", described(change), change.undo));
            }
            let described = described(change) + if is_back { ", and put back" } else { "" };
            // Another step may have done it.
            let of_either = is_back && change.is_unsettled() && !beside.is_empty();
            if of_either { shared.push(described) } else { words.push(described) }
        }
        advice.iter().for_each(|one| (self.tell)(one));
        // Shown words are cut, so advice follows the first change.
        let of_remotes = if beside.is_empty() { &mut words } else { &mut shared };
        let place = of_remotes.len().min(1);
        of_remotes.splice(place..place, advice);
        if left.iter().any(Change::is_unsettled) {
            words.push(format!("no further step begins here: {}", settles(context)));
        }
        if is_hidden && recorded.is_ok() {
            words.push("the file by which other steps of this host see this one was removed".to_owned());
        }
        let stays = match recorded {
            Ok(()) => left.iter().any(Change::executes),
            Err(refusal) if refusal.why == Why::NotFound && !self.workspaces.was_removed(context) => {
                words.push(format!("the record of the workspace was removed ({})", refusal.message));
                true
            }
            Err(refusal) => return Err(refusal),
        };
        if !beside.is_empty() {
            shared.push(beside_words(&beside));
            carried.pause = Some(shared.join("; "));
        }
        // Git asks a remote, so the settings come first.
        words.extend(self.take_refs_back(work)?);
        let context = &work.context;
        carried.violated(words, work.opcode);
        if stays {
            carried.stays = true;
            (carried.record.head, carried.record.tree) = self.here(context)?;
            carried.workspace = Some((context.clone(), work.repairs.clone()));
        }
        Ok(stays)
    }

    /// Takes back what a step put on the ledger and the driver of its run, or that it removed them. Returns words about
    /// that.
    fn take_refs_back(&self, work: &mut Work<'_, '_>) -> Result<Vec<String>, Refusal> {
        let name = self.driver_named(work.ledger, &work.context.name)?.branch.full_ref();
        let taken = match work.ledger.take_back(work.lease.map(|lease| (name.clone(), lease))) {
            // Whoever writes next reads what is there.
            Err(LedgerError::Remote(error)) => {
                tracing::debug!(%error, "the ledger was not looked at after the step");
                return Ok(Vec::new());
            }
            taken => taken?,
        };
        let there = remote_of(work.ledger.place()).map(|remote| format!(" at {remote}")).unwrap_or_default();
        let mut words: Vec<String> = taken
            .driver
            .map(|what| format!("the ref {name}{there} was {what}, and set back"))
            .into_iter()
            .collect();
        let Some((head, why)) = taken.ledger else { return Ok(words) };
        let tip = work.ledger.tip();
        let name = ledger_ref(tip.state.run.id);
        let branch = work.context.branch();
        let situation =
            |base| Situation { branch: &branch, label: work.attempt, base, kept: Some(tip.id), also: None };
        let saved = head.map(|head| self.repo.rescue_commits(situation(head))).transpose();
        let saved = saved.map_err(|error| Refusal::because("save what was put on the ledger", &error))?;
        let saved = saved.flatten().map(|saved| format!("; {} has it", saved.reference)).unwrap_or_default();
        words.push(format!("the ref {name}{there} was moved, and set back: {why}{saved}"));
        Ok(words)
    }

    /// A step that did not end, or whose worktree could not be looked at, has ended if it changed what it must not.
    pub(super) fn judged(
        &self,
        work: &mut Work<'_, '_>,
        course: Result<Course, Refusal>,
    ) -> Result<Course, Refusal> {
        let mut forged = Vec::new();
        let why = match course {
            Ok(Course::Ended(_)) => return course,
            Ok(Course::Halted(ref why)) => {
                self.workspaces.put_back_outside(&work.context, &work.outside)?.recorded?;
                forged = self.take_refs_back(work)?;
                if forged.is_empty() {
                    // No step is recorded. What cannot be put back counts for the next one.
                    return course;
                }
                why.clone()
            }
            Ok(Course::Parked(_, ref parked)) => parked.evidence.clone(),
            Ok(Course::Unable(ref why)) => why.clone(),
            Err(ref refusal) => refusal.message.clone(),
        };
        let mut carried = Carried::new(Outcome::Error, why);
        carried.violated(forged, work.opcode);
        self.judge_outside(work, &mut carried)?;
        if carried.record.violations.is_empty() {
            if carried.pause.is_none() && !carried.stays {
                self.note_judged(work.ledger.tip().state.run.id, &work.context.name, work.attempt);
            }
            return course.map(|mut course| {
                if let Course::Parked(_, parked) = &mut course {
                    parked.pause = carried.pause;
                }
                course
            });
        }
        // Nothing has looked at its work yet.
        carried.stays = true;
        (carried.record.head, carried.record.tree) = self.here(&work.context)?;
        carried.workspace = Some((work.context.clone(), work.repairs.clone()));
        Ok(Course::Ended(Box::new(carried)))
    }
}

fn beside_words(beside: &[String]) -> String {
    format!("steps of this host were live beside each other: {}", beside.join("; "))
}

fn described(change: &Change) -> String {
    format!("the {} {} was {}", change.thing.word(), change.name, change.how.word())
}
