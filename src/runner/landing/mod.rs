//! From a command's end to the branch's next HEAD: the contract's three outcomes (CONTRACT.md §6).
//!
//! | file | what |
//! |---|---|
//! | here | a finished step in, its report out |
//! | `end` | carries out what [`crate::contract::landing`] orders: looks, saves, writes, moves the branch |
//! | `ask` | the commit that requested the work |
//! | `write` | the commits, and the sentences in them |
//! | `salvage` | the one disposal of a worktree: save, then remove, pool, keep or leave |
//! | `recover` | ends what runners left that died: expired leases, worktrees |
//! | `deadline` | how long a landing tries |
//!
//! Invariant: a result lands only by the compare-and-swap that expects a HEAD which is still ours; what cannot land is
//! saved and named. The order is always: save the work, write the commit, move the branch, then dispose of the worktree
//! ([`crate::runner::landing::salvage`]); a crash between any two of these loses nothing.

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

/// Writes the result of a finished step, or saves it where it cannot be written, and cleans up.
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
    // As long as there is a worktree, others find what is left of the attempt: it goes last.
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

/// Disposes of the worktree, unless it is still needed or something in it is not safe elsewhere.
fn clean_up(
    context: &Context<'_>,
    repo: &Repo,
    finished: &Finished,
    worktree: Worktree,
    base: CommitId,
    report: &mut StepReport,
) {
    // Work that no remote was told of is safe in a rescue of this host; all else is for the pass that closes the lease.
    let is_open = matches!(report.outcome, Outcome::Unwritten { .. })
        && (report.rescued.is_none() || report.left.is_some());
    if matches!(report.outcome, Outcome::KeptWorking { .. }) || is_open {
        // Whatever the command left running works here until it declares a state or the lease ends.
        return;
    }
    if let Some(left) = &report.left {
        keep(repo, worktree, base, &left.why);
        return;
    }
    // Of a failure everything was saved before its commit was written.
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
    /// The saved work as text, for people.
    pub fn rescue_ref(&self) -> Option<String> {
        self.rescued.as_ref().map(|saved| saved.reference.to_str_lossy().into_owned())
    }
}
