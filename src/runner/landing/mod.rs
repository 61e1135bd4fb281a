//! Landing: from a command's end to the branch's next HEAD (CONTRACT 6.1 to 6.3).
//!
//! | file | what |
//! |---|---|
//! | `mod` | settles a finished step and returns its report |
//! | `end` | carries out the orders of [`crate::contract::landing`]: read, save, write, move the branch |
//! | `ask` | the commit that requested the work |
//! | `write` | writes the result commits |
//! | `salvage` | the one disposal of a worktree: save, then remove, pool, keep or leave |
//! | `recover` | closes expired leases and disposes of worktrees of dead runners |
//! | `deadline` | the retry budget of a landing |
//!
//! Invariant: a result lands only by a compare-and-swap that expects a HEAD which is still ours. Work that
//! cannot land is saved and named. The order is always: save the work, write the commit, move the branch,
//! dispose of the worktree ([`crate::runner::landing::salvage`]). A crash between any two of these loses
//! nothing.

pub(crate) mod ask;
pub(crate) mod deadline;
mod end;
pub mod recover;
pub(crate) mod salvage;
mod write;

pub(crate) use write::{rescue_sentence, retry_sentence};

use bstr::ByteSlice;

use crate::contract::ids::CommitId;
use crate::contract::settlement::{Ending, StopReason};
use crate::git::Repo;
use crate::git::worktrees::held::Worktree;
use crate::runner::events::warning::Warning;

use self::end::{End, Landed};
use crate::runner::Context;
use crate::runner::attempt::files;
use crate::runner::attempt::finished::{Finished, Site};
use crate::runner::events::notice::{Left, Outcome, StepReport};
use crate::runner::landing::salvage::{Disposal, Fate, Work, dispose, keep};

/// Writes the result of a finished step, or saves its work if that fails, and cleans up.
pub(crate) fn settle(context: &Context<'_>, repo: &Repo, mut finished: Finished) -> StepReport {
    let mut end = End::new(context, repo, &finished);
    let landed = match &finished.ending {
        Ending::Stopped { why: StopReason::LeaseLost | StopReason::LeaseUnrenewable { .. } } => {
            end.not_landed()
        }
        Ending::Exited(_) | Ending::Signalled(_) | Ending::NotStarted(_) | Ending::Stopped { .. } => {
            end.land()
        }
    };
    let base = end.base();
    let mut report = report(&finished, landed);
    finished.claim.close();
    let site = std::mem::replace(&mut finished.site, Site::None);
    // The worktree goes last: as long as it exists, later passes find what is left of the attempt.
    if !matches!(report.outcome, Outcome::KeptWorking { .. }) {
        files::forget_body(repo, finished.claim.attempt);
    }
    if let Site::Worktree(worktree) = site {
        clean_up(context, repo, &finished, worktree, base, &mut report);
    }
    report
}

fn report(finished: &Finished, landed: Landed) -> StepReport {
    let claim = &finished.claim;
    StepReport {
        branch: claim.branch.clone(),
        trigger: claim.trigger.commit,
        state: claim.trigger.state.clone(),
        attempt: claim.attempt,
        outcome: landed.outcome,
        commit: landed.commit,
        ending: Some(finished.ending.describe()),
        exit: match finished.ending {
            Ending::Exited(code) => Some(code),
            Ending::Signalled(_) | Ending::NotStarted(_) | Ending::Stopped { .. } => None,
        },
        elapsed: finished.elapsed,
        rescued: landed.rescued,
        left: landed.left,
    }
}

/// Disposes of the worktree, unless it is still needed or its contents are not safe elsewhere.
fn clean_up(
    context: &Context<'_>,
    repo: &Repo,
    finished: &Finished,
    worktree: Worktree,
    base: CommitId,
    report: &mut StepReport,
) {
    // An unwritten result whose work is rescued here needs its worktree no more. Otherwise the pass that
    // closes the lease disposes of it.
    let is_open = matches!(report.outcome, Outcome::Unwritten { .. })
        && (report.rescued.is_none() || report.left.is_some());
    if matches!(report.outcome, Outcome::KeptWorking { .. }) || is_open {
        // A process that the command left running may work here until it sets a state or the lease ends.
        return;
    }
    if let Some(left) = &report.left {
        keep(repo, worktree, base, &left.why);
        return;
    }
    // After a failure, all work was saved before its commit was written.
    let work = match (&report.outcome, report.commit) {
        (Outcome::Advanced { .. }, Some(commit)) => Work::OnHead(commit),
        _ => Work::Saved,
    };
    let path = worktree.path.clone();
    let disposal = Disposal { work, head: finished.held, pool: true, frees_branch: false };
    let left = |why: String| Some(Left { path: path.clone(), why });
    match dispose(repo, worktree, disposal) {
        Fate::Gone { saved } => report.rescued = saved.or(report.rescued.take()),
        Fate::InUse { pids } => {
            let pids: Vec<String> = pids.iter().map(ToString::to_string).collect();
            report.left = left(format!("process {} is still working there", pids.join(", ")));
        }
        Fate::Kept { why } => report.left = left(why),
        Fate::Stuck { saved, why } => {
            report.rescued = saved.or(report.rescued.take());
            let warning = Warning::WorktreeNotRemoved { path: path.clone(), why: why.clone() };
            context.warn(Some(&finished.claim.branch), warning);
            report.left = left(why);
        }
    }
}

impl StepReport {
    /// The rescue ref, as text for the user.
    pub fn rescue_ref(&self) -> Option<String> {
        self.rescued.as_ref().map(|saved| saved.reference.to_str_lossy().into_owned())
    }
}
