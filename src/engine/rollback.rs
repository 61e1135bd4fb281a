//! A person puts the work of a run back to its base, or brings that back (CONTRACT 20.29).
//!
//! Why this order: the run is paused first, so no step begins; the holder of a live step ends it and gives the driver back.
//! Only then the worktree is made anew.

use crate::flow::verdict::{status, verdict};
use crate::ledger::Ledger;
use crate::ledger::history::operations;
use crate::model::decide::{Command, RunEdit};
use crate::model::event::{Body, Event};
use crate::model::ids::{Alias, RunId};
use crate::model::run::{Run, RunStatus};
use crate::model::state::State;
use crate::model::workspace::WorkspaceStatus;
use crate::workspace::context::Context;
use crate::workspace::refusal::{Refusal, Why};
use crate::workspace::{Remade, rolled_back_on};

use super::{Engine, FLOW, open};

/// A run whose work was put back.
#[derive(Debug)]
pub struct PutBack {
    /// The run now.
    pub run: Run,
    /// Its workspace before.
    pub context: Context,
    /// The worktree that was made. `None` if it was at its base.
    pub remade: Option<Remade>,
    /// The ref with the work of a step that was under way and was ended.
    pub ended: Option<String>,
}

impl Engine<'_> {
    /// Rolls the work of a run back, or undoes that. A run that has not ended is paused.
    pub fn put_back_run(&self, run: RunId, undoes: bool) -> Result<PutBack, Refusal> {
        let mut ledger = open(self.repo, run)?;
        let flow = self.frozen(&ledger)?;
        check(&ledger.tip().state)?;
        let slug = ledger.tip().state.run.slug.clone();
        let found = self.workspaces.find(format!("{slug}/{FLOW}").as_ref());
        let is_missing = |refusal: &Refusal| refusal.why == Why::NotFound;
        if undoes && found.as_ref().map_or_else(is_missing, |context| context.undo.is_none()) {
            return Err(self.not_rolled_back_here(&ledger, slug.as_str()));
        }
        if ledger.tip().state.run.status == RunStatus::Running {
            // True before it is done, too: the holder of a step may be gone.
            let why = format!(
                "{} paused it to {}",
                self.name(),
                if undoes { "undo a rollback" } else { "put its work back" }
            );
            let pause = RunEdit {
                status: Some(RunStatus::Paused),
                waiting_for: Some(Some(why)),
                ..RunEdit::default()
            };
            self.person(&mut ledger, &flow, &[Command::SetRun(pause)])?;
        }
        let driver = self.driver_of(&ledger)?;
        let before = ledger.tip().id;
        let status = ledger.tip().state.run.status.word();
        self.wait_for_holder(&driver).map_err(|refusal| {
            let not = if undoes { "its rollback was not undone" } else { "its work was not put back" };
            let message = format!("{}; run {slug} is {status}, and {not}", refusal.message);
            Refusal { message, ..refusal }
        })?;
        let context = self.workspaces.of_run(run, slug.as_str(), FLOW)?;
        // What a step left that was cut off is saved by itself.
        let context = self.salvage(&ledger, None, context)?;
        let remade = if undoes {
            Some(
                self.workspaces
                    .undo_rollback(&context)
                    .map_err(|refusal| not_undone(refusal, slug.as_str()))?,
            )
        } else {
            self.workspaces.rollback(&context)?
        };
        ledger.refresh()?;
        let since = operations(self.repo, run, ledger.tip().id, Some(before))?;
        let ended = since.iter().flat_map(|operation| &operation.events).rev().find_map(rescue);
        let edits = verdict_after(&ledger.tip().state);
        if !edits.is_empty() {
            let commands: Vec<Command> = edits.into_iter().map(Command::SetRun).collect();
            ledger.operate(&self.op_of_person()?, &commands, &[])?;
        }
        Ok(PutBack { run: ledger.tip().state.run.clone(), context, remade, ended })
    }

    /// There is nothing to undo here. Another host may have it.
    fn not_rolled_back_here(&self, ledger: &Ledger<'_>, slug: &str) -> Refusal {
        let newest = (ledger.tip().state.run.id, ledger.tip().id);
        let Some(host) = rolled_back_on(self.repo, newest, FLOW) else {
            let message = format!("{slug}/{FLOW} was not rolled back; nothing was changed");
            return not_undone(Refusal::new(Why::Failed, message), slug);
        };
        let message = format!(
            "{slug}/{FLOW} was rolled back on {host}, which has what to bring back; nothing was changed"
        );
        Refusal::new(Why::Failed, message)
            .hint(format!("`aynig flow rollback --undo {slug}` on {host} takes it back"))
    }
}

/// Where the work of a step that was ended is, by what the ledger has heard of it.
fn rescue(event: &Event) -> Option<String> {
    match &event.body {
        Body::WorkspaceMended(mended) => mended.rescue.clone(),
        _ => None,
    }
}

/// The state of a run forbids to undo a rollback that was none.
fn not_undone(refusal: Refusal, slug: &str) -> Refusal {
    let why = if refusal.why == Why::Usage { Why::Failed } else { refusal.why };
    let hint = format!("`aynig flow log {slug}` names the refs with the work of steps that were ended");
    Refusal { why, ..refusal }.hint(hint)
}

fn check(state: &State) -> Result<(), Refusal> {
    let slug = &state.run.slug;
    let workspace = Alias::parse(FLOW).ok().and_then(|name| state.workspaces.get(&name));
    if workspace.is_some_and(|workspace| workspace.status == WorkspaceStatus::Ready) {
        return Ok(());
    }
    let message = format!("run {slug} has no workspace any more; nothing was changed");
    Err(Refusal::new(Why::Failed, message).hint(format!("`aynig flow log {slug}` shows when it was removed")))
}

/// The edits of an ended run after its work was put back, or brought back.
fn verdict_after(state: &State) -> Vec<RunEdit> {
    let run = &state.run;
    if !run.status.is_ended() || run.termination.as_deref() != Some("completed") {
        return Vec::new();
    }
    let now = verdict(state);
    if run.verdict == Some(now) {
        return Vec::new();
    }
    let to = |status| RunEdit { status: Some(status), ..RunEdit::default() };
    // No end follows from another one.
    vec![to(RunStatus::Running), RunEdit { verdict: Some(Some(now)), ..to(status(now)) }]
}
