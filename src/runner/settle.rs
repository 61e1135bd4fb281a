//! From a command's end to the branch's next HEAD: the contract's three outcomes (CONTRACT.md §6).
//!
//! Invariant: a result lands only by the compare-and-swap that expects a HEAD which is still ours; what cannot
//! land is saved and named. The order is always: save the work, write the commit, move the branch, then clean up;
//! a crash between any two of these loses nothing.

use std::fs::File;

use bstr::{BStr, ByteSlice};

use crate::clock;
use crate::contract::alike::misspelt;
use crate::contract::commits::{advance_draft, kept_draft, stalled_draft};
use crate::contract::declaration::Declaration;
use crate::contract::headlog::Origin;
use crate::contract::ids::{AttemptId, BranchName, CommitId};
use crate::contract::message::Draft;
use crate::contract::report::{StalledReport, stalled_body};
use crate::contract::settlement::{Ending, Settlement, StopReason, overtaken, settle as decide};
use crate::contract::standing::Standing;
use crate::fsutil;
use crate::git::commit::NewCommit;
use crate::git::remote::HASTE;
use crate::git::rescue::{Rescue, Saved, Situation};
use crate::git::worktree::Worktree;
use crate::git::{Repo, Swap};
use crate::supervise::{occupants, users};

use super::claim::Claim;
use super::finished::{Finished, Site};
use super::ground::{self, Ground, Taken};
use super::heartbeat::{catch_up, look};
use super::notice::{Left, Notice, Outcome, StepReport};
use super::patience::Patience;
use super::{Context, attempt, error_words, shows_rescued, typed};

/// How much of a log's end is looked at for the stalled body, bytes.
const TAIL: u64 = 64 * 1024;

/// How often a landing is tried again when the branch moves under it (by the command's own survivors).
const TRIES: u32 = 20;

/// What was written, or that nothing was.
struct Landed {
    outcome: Outcome,
    commit: Option<CommitId>,
    rescued: Option<Saved>,
}

/// Writes the result of a finished step, or saves it where it cannot be written, and cleans up.
pub fn settle(context: &Context<'_>, repo: &Repo, mut finished: Finished) -> StepReport {
    let mut left = None;
    let landed = match &finished.ending {
        Ending::Stopped { why: StopReason::LeaseLost | StopReason::LeaseUnrenewable } => {
            not_landed(context, repo, &finished, &mut left)
        }
        Ending::Exited(_) | Ending::Signalled(_) | Ending::NotStarted(_) | Ending::Stopped { .. } => {
            land(context, repo, &finished, &mut left)
        }
    };
    finished.claim.close();
    let site = std::mem::replace(&mut finished.site, Site::None);
    let mut report = report(&finished, landed, left);
    // As long as there is a worktree, others find what is left of the attempt: it goes last.
    if !matches!(report.outcome, Outcome::KeptWorking { .. }) {
        attempt::forget_body(repo, finished.claim.attempt);
    }
    if let Site::Worktree(worktree) = site {
        clean_up(context, repo, &finished, worktree, &mut report);
    }
    report
}

fn report(finished: &Finished, landed: Landed, left: Option<Left>) -> StepReport {
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
        left,
    }
}

/// Looks at the branch and writes what the outcome table says, again if the branch moved meanwhile but is still ours.
fn land(context: &Context<'_>, repo: &Repo, finished: &Finished, left: &mut Option<Left>) -> Landed {
    let claim = &finished.claim;
    let mut settlement = decide(&finished.ending, finished.declaration.clone());
    if let Settlement::Advance(declaration) = &settlement {
        for text in misspelt(&declaration.trailers) {
            (context.tell)(Notice::Warning { branch: Some(claim.branch.clone()), text });
        }
    }
    let mut why = format!("`{}` {}", claim.trigger.state, finished.ending.describe());
    let mut rescued: Option<Saved> = None;
    let mut trouble = String::new();
    let mut patience = Patience::new(context, finished.lease_left);
    // A local branch is looked at first; a remote one is presumed to be where we left it, and the push is the question.
    let mut doubtful = context.arbiter.attaches();
    let mut tries = 0;
    // Whether one of them may have landed although nobody said so.
    let mut open = false;
    // Results whose push was not answered, or whose answer came when others had gone on already: what the branch descends from
    // has landed.
    let mut tried: Vec<(CommitId, Settlement, String)> = Vec::new();
    while tries < TRIES {
        let seen = if doubtful {
            look(repo, context.arbiter, claim, patience.share())
        } else {
            Ok((Standing::Ours, Some(finished.held)))
        };
        if let Ok((_, Some(head))) = &seen
            && let Some(at) = tried.iter().position(|(own, ..)| repo.descends(*head, *own))
        {
            let (own, settlement, why) = tried.swap_remove(at);
            if let Some(parent) = repo.commit(own).ok().and_then(|stored| stored.parents.first().copied()) {
                follow_result(context, repo, finished, parent, own);
            }
            let outcome = landed_outcome(finished, settlement, why);
            return Landed { outcome, commit: Some(own), rescued };
        }
        let head = match seen {
            Ok((Standing::Ours, Some(head))) => {
                if let (Some(path), Some(git_dir), false) =
                    (finished.site.path(), finished.site.git_dir(), context.arbiter.attaches())
                {
                    catch_up(repo, claim, path, git_dir, head);
                }
                head
            }
            Ok((standing, head)) => return moved_on(context, repo, finished, standing, head, left),
            Err(error) => {
                trouble = error;
                if patience.wait(context) {
                    continue;
                }
                break;
            }
        };
        let stranger = stranger(context, repo, finished, head);
        let parent = match worktree_head(context, repo, finished, head) {
            _ if let Some(stranger) = stranger => {
                let subject = format!("`{}` {}", claim.trigger.state, finished.ending);
                why = overtaken(&subject, finished.ending.is_success(), &ground::named(repo, stranger));
                settlement = Settlement::Stall;
                rescued =
                    save(context, repo, finished, base_of(repo, finished), Some(head), left).or(rescued);
                head
            }
            Some(parent) if repo.descends(parent, head) => parent,
            Some(astray) => {
                // The command left its worktree at a commit that is no continuation of the branch.
                if settlement != Settlement::Stall {
                    why = format!(
                        "`{}` {}, but left its worktree at {}, which does not descend from its lease",
                        claim.trigger.state,
                        finished.ending.describe(),
                        astray.short()
                    );
                    settlement = Settlement::Stall;
                }
                rescued = save(context, repo, finished, astray, Some(head), left).or(rescued);
                head
            }
            None => head,
        };
        if settlement == Settlement::Stall && stranger.is_none() && rescued.is_none() {
            rescued = save(context, repo, finished, parent, Some(parent), left);
        }
        let written = match &settlement {
            Settlement::Advance(declaration) => write_advance(context, repo, finished, declaration, parent),
            Settlement::KeepWorking => taken(context, repo, finished, parent).tree(repo).and_then(|tree| {
                write(repo, &kept_draft(&claim.message, finished.misspoken), tree, parent, None)
            }),
            Settlement::Stall => {
                let taken = taken(context, repo, finished, parent);
                let notes = notes(context, repo, finished, taken, rescued.as_ref(), left.as_ref());
                let body = stalled_text(finished, &why, notes);
                let run = claim.attempt.to_string();
                let draft = stalled_draft(BStr::new(run.as_bytes()), Some(&claim.trigger.state), &body);
                taken.tree(repo).and_then(|tree| write(repo, &draft, tree, parent, named(context, claim)))
            }
        };
        let new = match written {
            Ok(new) => new,
            Err(error) if settlement != Settlement::Stall => {
                // What was declared cannot be written: that is the command's failure, told like one.
                why = format!(
                    "`{}` {}, but its result could not be written: {error}",
                    claim.trigger.state,
                    finished.ending.describe()
                );
                settlement = Settlement::Stall;
                continue;
            }
            Err(error) => {
                trouble = error;
                if patience.wait(context) {
                    continue;
                }
                break;
            }
        };
        crate::crashpoint::reach(crate::crashpoint::Point::ResultWritten);
        let log = format!("aynig: {} after {}", state_word(&settlement), claim.trigger.state);
        tried.push((new, settlement.clone(), why.clone()));
        match context.arbiter.land(repo, patience.share(), &claim.branch, [head, new], &log) {
            Ok(Swap::Won) => {
                crate::crashpoint::reach(crate::crashpoint::Point::ResultMoved);
                follow_result(context, repo, finished, parent, new);
                return Landed {
                    outcome: landed_outcome(finished, settlement, why),
                    commit: Some(new),
                    rescued,
                };
            }
            Ok(Swap::Lost { .. }) => {
                tries += 1;
                doubtful = true;
                open = false;
                trouble = "the branch kept moving".to_owned();
            }
            Err(error) => {
                trouble = error_words(&error);
                open = error.leaves_open(open);
                doubtful = context.arbiter.attaches();
                if error.is_final() || !patience.wait(context) {
                    break;
                }
            }
        }
    }
    if !context.arbiter.attaches() {
        // Out of reach until the lease was over: whoever closes it cannot see this host, so what is here is saved here.
        let rescued = save(context, repo, finished, base_of(repo, finished), None, left).or(rescued);
        return Landed { outcome: Outcome::Unwritten { why: trouble, open }, commit: None, rescued };
    }
    let next = if rescued.is_none() { "saves what is here" } else { "removes it" };
    *left = finished.site.path().map(|path| Left {
        path: path.to_owned(),
        why: format!("the result could not be written; when the lease ends, the next pass {next}"),
    });
    Landed { outcome: Outcome::Unwritten { why: trouble, open }, commit: None, rescued }
}

/// What a settlement that has landed comes to; `why` is for a stalled one.
fn landed_outcome(finished: &Finished, settlement: Settlement, why: String) -> Outcome {
    match settlement {
        Settlement::Advance(declaration) => Outcome::Advanced { state: declaration.state },
        Settlement::KeepWorking => Outcome::KeptWorking {
            misspoken: finished.misspoken,
            until: clock::wall_seconds()
                .saturating_add(i64::try_from(finished.claim.seconds).unwrap_or(i64::MAX)),
        },
        Settlement::Stall => Outcome::Stalled { why },
    }
}

/// With a remote, the checkout is not the branch: it is taken along to the result.
fn follow_result(context: &Context<'_>, repo: &Repo, finished: &Finished, parent: CommitId, new: CommitId) {
    // Onto somebody else's commit the checkout is not taken.
    let own = worktree_head(context, repo, finished, parent);
    if context.arbiter.attaches() || !own.is_some_and(|own| repo.descends(own, parent)) {
        return;
    }
    let moved = match &finished.site {
        Site::None => return,
        Site::Worktree(worktree) => repo
            .advance_detached(&worktree.path, &worktree.git_dir, parent, new)
            .map(drop)
            .map_err(|error| error_words(&error)),
        Site::InPlace(checkout) => match &checkout.branch {
            Some(local) => repo
                .swap(local.full_ref().as_bstr(), Some(parent), new, "aynig: follow the result")
                .map(drop)
                .map_err(|error| error_words(&error)),
            None => return,
        },
    };
    if let Err(why) = moved {
        tracing::warn!(branch = %finished.claim.branch, why, "the checkout did not follow the result");
    }
}

/// The branch is not ours to write any more.
fn moved_on(
    context: &Context<'_>,
    repo: &Repo,
    finished: &Finished,
    standing: Standing,
    head: Option<CommitId>,
    left: &mut Option<Left>,
) -> Landed {
    let how = match standing {
        Standing::AdvancedByCommand { state } => {
            let base = match (head, base_of(repo, finished)) {
                (Some(head), own) if repo.descends(head, own) => head,
                (Some(_) | None, own) => own,
            };
            let rescued = save(context, repo, finished, base, head, left);
            return Landed { outcome: Outcome::AdvancedByCommand { state }, commit: None, rescued };
        }
        Standing::Ours => "the branch could not be read".to_owned(),
        Standing::TakenOver { by } if by.is_empty() => "another attempt holds it".to_owned(),
        Standing::TakenOver { by } => format!("{by} holds it with another attempt"),
        Standing::Recovered => "another runner found the lease expired and closed it".to_owned(),
        Standing::Rewound => {
            "the branch was moved to a commit that does not descend from the lease".to_owned()
        }
        Standing::Gone => "the branch was deleted".to_owned(),
    };
    let base = base_of(repo, finished);
    let rescued = save(context, repo, finished, base, head, left);
    Landed { outcome: Outcome::LeaseLost { how }, commit: None, rescued }
}

/// The command was stopped because of its lease: nothing is landed, everything is saved.
fn not_landed(context: &Context<'_>, repo: &Repo, finished: &Finished, left: &mut Option<Left>) -> Landed {
    match look(repo, context.arbiter, &finished.claim, HASTE) {
        Ok((Standing::Ours, head)) => {
            let rescued = save(context, repo, finished, base_of(repo, finished), head, left);
            let how = "it could not be renewed before it ended".to_owned();
            Landed { outcome: Outcome::LeaseLost { how }, commit: None, rescued }
        }
        Ok((standing, head)) => moved_on(context, repo, finished, standing, head, left),
        Err(why) => {
            let rescued = save(context, repo, finished, base_of(repo, finished), None, left);
            Landed { outcome: Outcome::LeaseLost { how: why }, commit: None, rescued }
        }
    }
}

/// What the worktree's files are based on when the branch is not ours any more: a detached HEAD, else the last HEAD that was ours
/// and the command's commits on it (an attached HEAD follows the branch wherever others take it).
fn base_of(repo: &Repo, finished: &Finished) -> CommitId {
    let Some(git_dir) = finished.site.git_dir() else { return finished.held };
    let ground = ground(repo, finished);
    // HEADs of others are held as well while they declare no state.
    let held = match ground.origin(finished.held) {
        Origin::Elsewhere(stranger) => ground.own(stranger),
        Origin::Here | Origin::Unknown => finished.held,
    };
    match Repo::detached_head(git_dir) {
        Some(head) if repo.commit(head).is_ok() => head,
        Some(_) | None if matches!(finished.site, Site::Worktree(_)) => repo.committed_within(git_dir, held),
        // A checkout's log holds what others did to its branch as well.
        Some(_) | None => held,
    }
}

fn ground<'a>(repo: &'a Repo, finished: &Finished) -> Ground<'a> {
    Ground::new(repo, finished.claim.attempt, finished.claim.lease, finished.site.git_dir())
}

/// Somebody else's commit below `head`, or `head` itself, that a result would undo.
fn stranger(context: &Context<'_>, repo: &Repo, finished: &Finished, head: CommitId) -> Option<CommitId> {
    let ground = ground(repo, finished);
    let Origin::Elsewhere(commit) = ground.origin(head) else { return None };
    let is_taken_in = if context.arbiter.attaches() {
        // A program that keeps no log has committed what the index has.
        index_of(repo, finished).is_some_and(|tree| tree.is_ok_and(|tree| ground.is_in(commit, tree)))
    } else {
        worktree_head(context, repo, finished, head).is_some_and(|own| repo.descends(own, head))
    };
    (!is_taken_in).then_some(commit)
}

/// The tree of what is staged, where there is an index.
fn index_of(repo: &Repo, finished: &Finished) -> Option<Result<CommitId, String>> {
    let tree = match &finished.site {
        Site::Worktree(worktree) => repo.staged_tree(worktree),
        Site::InPlace(checkout) => repo.index_tree(checkout),
        Site::None => return None,
    };
    Some(tree.map_err(|error| error_words(&error)))
}

/// The commit the worktree is at: the branch's own HEAD while attached to it.
fn worktree_head(
    context: &Context<'_>,
    repo: &Repo,
    finished: &Finished,
    branch_head: CommitId,
) -> Option<CommitId> {
    let git_dir = finished.site.git_dir()?;
    match Repo::attached_branch(git_dir) {
        Some(branch) if context.arbiter.attaches() && branch == finished.claim.branch => Some(branch_head),
        Some(other) => repo.branch_head(&other).ok().flatten(),
        None => Repo::detached_head(git_dir),
    }
}

fn write_advance(
    context: &Context<'_>,
    repo: &Repo,
    finished: &Finished,
    declaration: &Declaration,
    parent: CommitId,
) -> Result<CommitId, String> {
    let tree = index_of(repo, finished).unwrap_or_else(|| tree_of(repo, parent))?;
    let draft = advance_draft(declaration, &finished.claim.message.trailers, context.arbiter.source());
    write(repo, &draft, tree, parent, named(context, &finished.claim))
}

/// The attempt a result names: a server may let nobody else end its lease.
fn named(context: &Context<'_>, claim: &Claim) -> Option<AttemptId> {
    (!context.arbiter.attaches()).then_some(claim.attempt)
}

fn tree_of(repo: &Repo, commit: CommitId) -> Result<CommitId, String> {
    repo.commit(commit).map(|stored| stored.tree).map_err(|error| error_words(&error))
}

fn write(
    repo: &Repo,
    draft: &Draft,
    tree: CommitId,
    parent: CommitId,
    attempt: Option<AttemptId>,
) -> Result<CommitId, String> {
    let message = draft.encode().map_err(|error| error_words(&error))?;
    repo.write_commit(&NewCommit { tree, parents: &[parent], message: &message, attempt })
        .map_err(|error| error_words(&error))
}

fn state_word(settlement: &Settlement) -> &str {
    match settlement {
        Settlement::Advance(declaration) => declaration.state.as_str(),
        Settlement::KeepWorking => "working",
        Settlement::Stall => "stalled",
    }
}

/// The commit whose files a commit on top of `parent` has, where no index decides.
fn taken(context: &Context<'_>, repo: &Repo, finished: &Finished, parent: CommitId) -> Taken {
    ground(repo, finished).taken(&context.options.trust, parent)
}

/// What a stalled commit says of the files, and of what to do next.
fn notes(
    context: &Context<'_>,
    repo: &Repo,
    finished: &Finished,
    taken: Taken,
    rescued: Option<&Saved>,
    left: Option<&Left>,
) -> Vec<String> {
    let mut notes: Vec<String> = taken.note(repo).into_iter().collect();
    notes.extend(rescued.map(rescue_sentence));
    notes.extend(left.map(|left| format!("Left in place: {} ({}).", left.path.display(), left.why)));
    notes.push(retry_sentence(context, &finished.claim.branch));
    notes
}

fn stalled_text(finished: &Finished, why: &str, notes: Vec<String>) -> String {
    let tail = |log: Option<&File>| log.and_then(|log| fsutil::tail_of(log, TAIL).ok()).unwrap_or_default();
    let stdout = tail(finished.files.as_ref().map(|files| &files.readers.0));
    let stderr = tail(finished.files.as_ref().map(|files| &files.readers.1));
    stalled_body(&StalledReport {
        headline: vec![format!("{why}.")],
        notes,
        stdout: &stdout,
        stderr: &stderr,
    })
}

/// How to ask again for what failed, as it was asked, as a sentence with a command in it.
pub fn retry_sentence(context: &Context<'_>, branch: &BranchName) -> String {
    let remote = context.arbiter.source().map(|remote| format!(" --remote {remote}")).unwrap_or_default();
    let branch = typed(&branch.to_string());
    format!(
        "To try again, with the same body and trailers: aynig set-state --retry --branch {branch}{remote}"
    )
}

/// The way back to saved work, as a sentence with a command in it.
pub fn rescue_sentence(saved: &Saved) -> String {
    // Where something was staged, the rescue is a merge: both calls must be told which side to compare with.
    let reference = saved.reference.to_str_lossy();
    format!(
        "Unfinished work was saved: {} (or git cherry-pick --no-commit -m1 {}).",
        shows_rescued(&reference),
        typed(&reference)
    )
}

/// Saves what the site holds beyond `kept`; where that is impossible the site stays, and `left` says so.
fn save(
    context: &Context<'_>,
    repo: &Repo,
    finished: &Finished,
    base: CommitId,
    kept: Option<CommitId>,
    left: &mut Option<Left>,
) -> Option<Saved> {
    let claim = &finished.claim;
    let label = claim.attempt.to_string();
    let situation = Situation { branch: &claim.branch, label: &label, base, kept };
    let result = match &finished.site {
        Site::Worktree(worktree) => repo.rescue(worktree, situation),
        // A person's files stay where they are. Only a lost lease takes commits and the index out of the branch's reach.
        Site::InPlace(checkout) if kept != Some(base) => repo.rescue_index(checkout, situation),
        Site::InPlace(_) | Site::None => return None,
    };
    match result {
        Ok(Rescue::Nothing) => None,
        Ok(Rescue::Saved(saved)) => Some(saved),
        Err(error) => {
            let why = error_words(&error);
            (context.tell)(Notice::Warning {
                branch: Some(claim.branch.clone()),
                text: format!("work could not be saved, so its worktree stays: {why}"),
            });
            *left = finished.site.path().map(|path| Left { path: path.to_owned(), why });
            None
        }
    }
}

/// Removes the worktree, unless something in it is not safe elsewhere or somebody is still using it.
fn clean_up(
    context: &Context<'_>,
    repo: &Repo,
    finished: &Finished,
    worktree: Worktree,
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
        keep(repo, worktree, base_of(repo, finished), &left.why);
        return;
    }
    let inside = occupants(&worktree.path);
    if !inside.is_empty() {
        let pids: Vec<String> = inside.iter().map(ToString::to_string).collect();
        let why = format!("process {} is still working there", pids.join(", "));
        report.left = Some(Left { path: worktree.path.clone(), why });
        return;
    }
    if let (Outcome::Advanced { .. }, Some(commit)) = (&report.outcome, report.commit)
        && !repo.is_clean(&worktree).unwrap_or(false)
    {
        let label = finished.claim.attempt.to_string();
        let situation =
            Situation { branch: &finished.claim.branch, label: &label, base: commit, kept: Some(commit) };
        match repo.rescue(&worktree, situation) {
            Ok(Rescue::Nothing) => {}
            Ok(Rescue::Saved(saved)) => report.rescued = Some(saved),
            Err(error) => {
                let why = error_words(&error);
                report.left = Some(Left { path: worktree.path.clone(), why: why.clone() });
                keep(repo, worktree, commit, &why);
                return;
            }
        }
    }
    let path = worktree.path.clone();
    if let Err(error) = repo.release_worktree(worktree, finished.held, |path| users(path).is_empty()) {
        let why = error_words(&error);
        (context.tell)(Notice::Warning {
            branch: Some(finished.claim.branch.clone()),
            text: format!("its worktree {} could not be removed: {why}", path.display()),
        });
        report.left = Some(Left { path, why });
    }
}

/// Hands a worktree over to a person.
pub(super) fn keep(repo: &Repo, worktree: Worktree, head: CommitId, why: &str) {
    if let Err(error) = repo.keep_worktree(worktree, head, why) {
        tracing::warn!(%error, "a worktree that is to be kept could not be marked as such");
    }
}

impl StepReport {
    /// The saved work as text, for people.
    pub fn rescue_ref(&self) -> Option<String> {
        self.rescued.as_ref().map(|saved| saved.reference.to_str_lossy().into_owned())
    }
}
