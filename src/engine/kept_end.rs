//! The end of an attempt, kept on this host until the remote that decides the run has taken it (CONTRACT 20.42, 22.30).
//!
//! Invariant: it is written before the end is pushed, and removed when the ledger has it or when it cannot count any
//! more. So no agent runs again whose end is known here.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock;
use crate::contract::head::Head;
use crate::contract::ids::CommitId;
use crate::contract::lease::Liveness;
use crate::flow::document::{Flow, Step};
use crate::flow::due::{Due, INTERRUPTED, due, route, was_cut_off};
use crate::fsutil;
use crate::ledger::{Ledger, Masks, Place};
use crate::model::decide::{Command, EndedStep, StepStart};
use crate::model::ids::{RunId, StepId};
use crate::model::step::{Opcode, Outcome, Record};
use crate::model::time::Timestamp;
use crate::workspace::context::Context;
use crate::workspace::refusal::{Refusal, Why};

use super::conclude::{Conclusion, Holder};
use super::driver::{Driver, Next};
use super::record::{Filed, filed, for_ledger};
use super::{Engine, FLOW, now};

/// An end that was kept.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct KeptEnd {
    step: StepId,
    opcode: Opcode,
    visit: u64,
    /// Its place in the run when it was kept.
    number: u64,
    /// The step that a person had named to continue at.
    continues_at: Option<String>,
    started_at: Timestamp,
    ended_at: Timestamp,
    outcome: Outcome,
    evidence: String,
    record: Record,
    model: Option<String>,
    /// When it is due again, and why, of a parked attempt.
    parked: Option<(i64, String)>,
    repairs: Vec<String>,
    /// The commit of the work branch after it, and the number of the worktree.
    head: String,
    generation: u32,
    /// The directory of its files, relative to that of the run.
    files: PathBuf,
    /// Why the remote did not take it.
    refused: Option<String>,
}

/// The fate of a kept end.
pub(super) enum Fate {
    /// There is none.
    None,
    /// It does not count any more, for this reason.
    Dropped(String),
    /// It was recorded, and the driver has this state.
    Recorded(Next),
    /// It cannot be recorded now, for this reason.
    Stays(String),
}

/// The pauses between two tries to write an end, and what is left of a lease when the last one begins.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));
const LEFT: Duration = Duration::from_secs(5);

impl Engine<'_> {
    /// Writes the end of an attempt, again and again while the remote does not answer and the lease lasts, as a runner
    /// does with the result of a command (CONTRACT 6.11): another host would carry the step out a second time.
    pub(super) fn until_answered<T>(
        &self,
        driver: &Driver<'_>,
        mut write: impl FnMut() -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let (mut pause, longest) = PAUSES;
        let mut first = None;
        loop {
            match (write(), first.take()) {
                (Ok(written), _) => return Ok(written),
                (Err(refusal), before) if refusal.why == Why::Unanswered && self.may_wait(driver, pause) => {
                    first = Some(before.unwrap_or(refusal));
                }
                // The push may have been taken without an answer: what is wrong since then may follow from that.
                (Err(refusal), before) => return Err(before.unwrap_or(refusal)),
            }
            clock::pause(pause);
            pause = longest.min(pause * 2);
        }
    }

    /// Whether the lease of a driver, as it is known here, lasts for another try after a pause.
    fn may_wait(&self, driver: &Driver<'_>, pause: Duration) -> bool {
        let lease = driver.known().ok().flatten().and_then(|head| self.repo.commit(head).ok());
        let end = clock::wall_seconds().saturating_add_unsigned((pause + LEFT).as_secs());
        let lasts = lease.is_some_and(|stored| match Head::read(&stored.facts()) {
            Head::Working(lease) => matches!(lease.liveness(end), Liveness::Live { .. }),
            _ => false,
        });
        lasts && self.stop.cause().is_none()
    }

    /// The file of the end that the flow of a run, or a node of it, left last.
    pub(super) fn kept_end(&self, run: RunId, name: &str) -> PathBuf {
        let directory = self.directory(run).path().to_path_buf();
        if name == FLOW { directory.join("end") } else { directory.join("ends").join(name) }
    }

    /// Keeps the end of a step whose files are in `files`, if a remote decides its run.
    pub(super) fn keep_end(
        &self,
        ledger: &Ledger<'_>,
        (flow, step): (&Flow, &Step),
        conclusion: &Conclusion,
        files: &Path,
    ) -> Option<KeptEnd> {
        let state = &ledger.tip().state;
        let run = &state.run;
        let Due::Step { step: is_due, visit, .. } = due(flow, run, &state.steps) else { return None };
        if *ledger.place() == Place::Here || is_due.id != step.id {
            return None;
        }
        let masks = Masks::of(self.repo, &run.base_sha).ok()?;
        let (context, repairs) = conclusion.workspace.as_ref()?;
        let Ok([Command::StartStep(start), Command::EndStep(end)]) =
            <[Command; 2]>::try_from(masks.commands(&conclusion.commands))
        else {
            return None;
        };
        let ended_at = now().ok()?;
        let kept = KeptEnd {
            step: start.id,
            opcode: start.opcode,
            visit,
            number: end.number,
            continues_at: run.continues_at.clone(),
            started_at: start.started_at.unwrap_or(ended_at),
            ended_at,
            outcome: end.outcome,
            evidence: end.evidence.unwrap_or_default(),
            record: end.record,
            model: end.usage_of.and_then(|(_, model)| model),
            parked: conclusion.parked.clone(),
            repairs: repairs.clone(),
            head: context.head_sha.clone(),
            generation: context.generation,
            files: files.strip_prefix(self.directory(run.id).path()).ok()?.to_path_buf(),
            refused: None,
        };
        self.write_end(run.id, FLOW, &kept).then_some(kept)
    }

    /// Writes an end. Returns whether it is there.
    pub(super) fn write_end<T: Serialize>(&self, run: RunId, name: &str, kept: &T) -> bool {
        let path = self.kept_end(run, name);
        let made = path.parent().map_or(Ok(()), fsutil::create_private_dir_all);
        let text = made.and_then(|()| serde_json::to_vec(kept).map_err(std::io::Error::from));
        let written = text.and_then(|text| fsutil::replace_private(&path, &text));
        if let Err(error) = &written {
            tracing::warn!(path = %path.display(), %error, "the end of the attempt is not kept here");
        }
        written.is_ok()
    }

    /// Removes the kept end of the flow of a run, or of a node: it counts no more.
    pub(super) fn forget_end(&self, run: RunId, name: &str) {
        let path = self.kept_end(run, name);
        if let Err(error) = std::fs::remove_file(&path)
            && error.kind() != ErrorKind::NotFound
        {
            tracing::warn!(path = %path.display(), %error, "a kept end of an attempt stays");
        }
    }

    /// Notes that the remote did not take a kept end. Returns why the driver is handed back.
    pub(super) fn still_kept(&self, run: RunId, kept: KeptEnd, refusal: &Refusal) -> String {
        let kept = KeptEnd { refused: Some(refusal.message.clone()), ..kept };
        self.write_end(run, FLOW, &kept);
        format!("the end of the step was not taken, and is kept here: {}", refusal.message)
    }

    /// Records the end that this host kept of the step that is due, for the attempt that holds the driver.
    pub(super) fn record_kept(
        &self,
        ledger: &mut Ledger<'_>,
        driver: &Driver<'_>,
        flow: &Flow,
        attempt: &str,
    ) -> Result<Fate, Refusal> {
        let run = ledger.tip().state.run.clone();
        let Ok(text) = fsutil::read_plain_text(self.kept_end(run.id, FLOW)) else { return Ok(Fate::None) };
        if *ledger.place() == Place::Here {
            // None is kept of a run that is decided here, so a step has written it.
            self.forget_end(run.id, FLOW);
            return Ok(Fate::None);
        }
        let kept = serde_json::from_str::<KeptEnd>(&text).map_err(|error| error.to_string());
        let found = match kept {
            Ok(kept) if is_recorded(ledger, &kept) => {
                self.forget_end(run.id, FLOW);
                return Ok(Fate::None);
            }
            Ok(kept) => match follows(ledger, flow, &kept) {
                Ok(step) => {
                    let left = Left { head: &kept.head, generation: kept.generation, files: &kept.files };
                    let whole = self.whole(ledger, (FLOW, kept.step.as_str()), &left)?;
                    whole.map(|whole| (kept, step, whole))
                }
                Err(why) => Err(why),
            },
            Err(why) => Err(why),
        };
        let (kept, step, (context, files)) = match found {
            Ok(found) => found,
            Err(why) => {
                let words = format!("the end of a step that this host kept is dropped: {why}");
                (self.tell)(&words);
                self.forget_end(run.id, FLOW);
                return Ok(Fate::Dropped(words));
            }
        };
        if let Some(why) = self.unsettled(&run, FLOW)? {
            return Ok(Fate::Stays(why));
        }
        let conclusion = late(ledger, step, &kept, (context, &files))?;
        match self.conclude(ledger, driver, flow, Holder::Attempt(attempt), &conclusion) {
            Err(refusal) if refusal.why.is_of_remote() => {
                Ok(Fate::Stays(self.still_kept(run.id, kept, &refusal)))
            }
            concluded => {
                let next = concluded?;
                self.forget_end(run.id, FLOW);
                self.end_work(run.id, FLOW);
                Ok(Fate::Recorded(next))
            }
        }
    }

    /// The workspace of this name and the files of a kept end, if they are as `what` left them.
    pub(super) fn whole(
        &self,
        ledger: &Ledger<'_>,
        (name, what): (&str, &str),
        left: &Left<'_>,
    ) -> Result<Result<(Context, Vec<Filed>), String>, Refusal> {
        let run = &ledger.tip().state.run;
        let moved = || Ok(Err(format!("the worktree is not as {what} left it")));
        let context = match self.workspaces.find(format!("{}/{name}", run.slug).as_ref()) {
            Err(refusal) if refusal.why == Why::NotFound => return moved(),
            found => found?,
        };
        let Some(head) = CommitId::parse_hex(left.head.as_bytes()) else { return moved() };
        if context.generation != left.generation {
            return moved();
        }
        let Some(context) = self.workspaces.is_at(&context, head)? else { return moved() };
        let directory = self.directory(run.id);
        let files = filed(&directory, &directory.path().join(left.files));
        Ok(files.map(|files| (context, files)).ok_or_else(|| format!("the files of {what} are gone")))
    }
}

/// What an attempt left.
pub(super) struct Left<'a> {
    /// The commit of the work branch.
    pub(super) head: &'a str,
    /// The number of the worktree.
    pub(super) generation: u32,
    /// The directory of its files, relative to that of the run.
    pub(super) files: &'a Path,
}

/// Whether the ledger has the end: the remote took it, and its answer was lost.
fn is_recorded(ledger: &Ledger<'_>, kept: &KeptEnd) -> bool {
    ledger.tip().state.steps.range(kept.number..).any(|(_, step)| {
        let record = step.record.as_ref().filter(|record| record.lease == kept.record.lease);
        let is_flagged = |record: &Record| record.flags.iter().any(|flag| flag != INTERRUPTED);
        let cut_off_alone = was_cut_off(step) && record.is_some_and(|record| !is_flagged(record));
        record.is_some() && !cut_off_alone
    })
}

/// The step of a kept end, if that is due: since then nothing was recorded, except that its attempt was cut off.
fn follows<'f>(ledger: &Ledger<'_>, flow: &'f Flow, kept: &KeptEnd) -> Result<&'f Step, String> {
    let state = &ledger.tip().state;
    let of_others = state.steps.range(kept.number..).any(|(_, step)| {
        let lease = step.record.as_ref().and_then(|record| record.lease.as_ref());
        !(was_cut_off(step) && lease == kept.record.lease.as_ref())
    });
    if of_others {
        return Err("another attempt was recorded since".to_owned());
    }
    let named = state.run.continues_at.as_ref().filter(|named| kept.continues_at.as_ref() != Some(*named));
    if let Some(named) = named {
        return Err(format!("somebody let the run continue at {named}"));
    }
    match due(flow, &state.run, &state.steps) {
        Due::Step { step, visit, .. } if step.id == kept.step.as_str() && visit == kept.visit => Ok(step),
        _ => Err(format!("{} is not due any more", kept.step)),
    }
}

/// The conclusion that records a kept end now. The step counts as long as it took.
fn late(
    ledger: &mut Ledger<'_>,
    step: &Step,
    kept: &KeptEnd,
    (context, files): (Context, &[Filed]),
) -> Result<Conclusion, Refusal> {
    let at = now()?;
    let took = kept.ended_at.millis().saturating_sub(kept.started_at.millis());
    let started = Timestamp::from_millis(at.millis().saturating_sub(took)).unwrap_or(at);
    let late = kept.refused.as_ref().map(|why| format!("; it was recorded late: {why}")).unwrap_or_default();
    let artifacts = for_ledger(ledger, None, kept.outcome, files);
    let state = &ledger.tip().state;
    let end = EndedStep {
        number: state.run.counts.steps + 1,
        outcome: kept.outcome,
        route: route(step, kept.outcome).ok().filter(|_| !kept.record.cut_off).map(str::to_owned),
        evidence: Some(format!("{}{late}", kept.evidence)),
        record: kept.record.clone(),
        artifacts,
        usage_of: state.nodes.keys().next().map(|node| (*node, kept.model.clone())),
    };
    let start = StepStart { id: kept.step.clone(), opcode: kept.opcode, started_at: Some(started) };
    Ok(Conclusion {
        commands: vec![Command::StartStep(start), Command::EndStep(Box::new(end))],
        workspace: Some((context, kept.repairs.clone())),
        parked: kept.parked.clone(),
        ..Conclusion::default()
    })
}
