//! Reads the HEAD of each branch, and checks whether its state can run here and now (CONTRACT 1.5, 11.5).
//!
//! Invariant: a scan writes nothing, and reads only the HEAD of each branch; below that it reads only of
//! branches that would be run ([`super::past`]). It starts at most one process: if `--current-branch` includes
//! the current branch, git compares its index with HEAD.

use std::collections::HashMap;
use std::sync::Arc;

use super::super::error_chain;
use super::super::options::{CurrentBranch, Options, Selection};
use super::line::is_decided_elsewhere;
use super::reading::{Reading, read};
use super::trust;
use super::verdict::{
    Branch, CommandsFrom, Exclusion, InUse, Invalid, NoCommand, Question, Reason, RunIn, Severity, Source,
    Unreadable, Verdict,
};
use super::words::is_of_run;
use crate::contract::bounds::Limits;
use crate::contract::head::Event;
use crate::contract::ids::{BranchName, CommitId, RemoteName};
use crate::contract::preference::{Preferred, preferred};
use crate::contract::waits_for::{Deadline, WaitsFor};
use crate::git::refs::list::Tip;
use crate::git::worktrees::error::WorktreeError;
use crate::git::worktrees::registration::{Owner, Registered};
use crate::git::{Checkout, RefError, Repo};
use crate::runner::survey::past::Past;
use crate::runner::survey::resolve;
use crate::runner::survey::resolve::Resolver;

/// The number of branches from which another thread pays off.
const SHARE: usize = 500;

/// Why no survey could be made.
#[derive(Debug, thiserror::Error)]
pub enum SurveyError {
    /// The refs could not be read.
    #[error(transparent)]
    Refs(#[from] RefError),
    /// The worktrees could not be listed.
    #[error(transparent)]
    Worktrees(#[from] WorktreeError),
    /// `--current-branch only` is given, but there is no current branch.
    #[error("there is no current branch: {why}")]
    NoCurrentBranch {
        /// The repository is bare, or HEAD is detached.
        why: &'static str,
    },
    /// `--current-branch only` is given, but the checked-out branch has no upstream on the remote that is the
    /// authority.
    #[error(
        "there is no current branch on {remote}: {local}, which is checked out here, follows no branch of it"
    )]
    FollowsNone {
        /// The branch that is checked out.
        local: BranchName,
        /// The remote.
        remote: RemoteName,
    },
}

/// Judges the HEAD of every branch. Also returns the source of all commands, if `--commands-from` is given.
/// Verdicts of `earlier`, a scan with the same options, are reused if only a new HEAD could change them.
pub(crate) fn scan(
    question: &Question<'_>,
    earlier: Vec<Branch>,
) -> Result<(Vec<Branch>, Option<Arc<CommandsFrom>>), SurveyError> {
    let view = View::new(question)?;
    let repo = question.repo;
    let tips = match question.options.selection.only.as_slice() {
        [] => question.authority.branches(repo)?,
        only => repo.branches_of(question.authority.source(), only)?,
    };
    let tips = beside(tips, earlier);
    let from = view.commands.as_ref().ok().cloned().flatten();
    let judged = repo.in_shares(tips, SHARE, |repo, tips| view.judge_all(repo, tips));
    let mut judged = judged.into_iter();
    let mut branches = judged.next().transpose()?.unwrap_or_default();
    branches.reserve_exact(judged.as_slice().iter().flatten().map(Vec::len).sum());
    for share in judged {
        branches.append(&mut share?);
    }
    Ok((branches, from))
}

/// A branch, and the earlier verdict on it if it is at the same HEAD. Boxed, since most scans are the first, and a
/// verdict is ten times as large as a name.
type Judged = (Tip, Option<Box<Verdict>>);

/// Puts the earlier verdicts beside the branches. Both are in the order of their names; where they are not,
/// a verdict is lost and made again.
fn beside(tips: Vec<Tip>, earlier: Vec<Branch>) -> Vec<Judged> {
    let mut earlier = earlier.into_iter().peekable();
    let judged = tips.into_iter().map(|tip| {
        while earlier.next_if(|known| known.name < tip.branch).is_some() {}
        let known = earlier.next_if(|known| known.name == tip.branch);
        let known =
            known.filter(|known| known.head.is_some() && known.head.as_ref() == tip.target.as_ref().ok());
        (tip, known.map(|known| Box::new(known.verdict)))
    });
    judged.collect()
}

/// The context shared by all branches of a scan.
struct View<'a> {
    options: &'a Options,
    now: i64,
    /// The clock skew allowed for a lease, in seconds.
    skew: i64,
    current: Option<BranchName>,
    /// The remote that decides.
    remote: Option<RemoteName>,
    /// The default branch, unless the user named it.
    unnamed_default: Option<BranchName>,
    in_use: HashMap<BranchName, Arc<InUse>>,
    /// The source of all commands, if `--commands-from` is given, or why it cannot be used.
    commands: Result<Option<Arc<CommandsFrom>>, Arc<str>>,
}

impl<'a> View<'a> {
    fn new(question: &Question<'a>) -> Result<Self, SurveyError> {
        let Question { repo, authority, options, now, .. } = *question;
        let commands = match trust::commands_from(repo, authority, &options.trust) {
            Ok(from) => Ok(from.map(Arc::new)),
            Err(error) => Err(error_chain(&error).into()),
        };
        let current = current(question)?;
        let unnamed_default = repo
            .default_branch(authority.source())
            .filter(|default| !options.selection.names(default, current.as_ref() == Some(default)));
        let (remote, in_use_by) = (authority.source().cloned(), HashMap::new());
        let mut view =
            Self { options, now, skew: 0, current, remote, unnamed_default, in_use: in_use_by, commands };
        match authority.source() {
            None => view.in_use = in_use(repo, view.current.as_ref())?,
            // A remote's branches run in detached worktrees, so no checkout of a local branch is in their
            // way.
            Some(_) => view.skew = i64::try_from(options.skew_seconds).unwrap_or(i64::MAX),
        }
        Ok(view)
    }

    /// Judges one thread's share of the branches, in their order.
    fn judge_all(&self, repo: &Repo, tips: Vec<Judged>) -> Result<Vec<Branch>, SurveyError> {
        let mut resolver = Resolver::new(self.options.role.as_ref());
        let mut past = Past::default();
        tips.into_iter().map(|tip| self.judge(repo, &mut resolver, &mut past, tip)).collect()
    }

    fn judge(
        &self,
        repo: &Repo,
        resolver: &mut Resolver<'_>,
        past: &mut Past,
        (tip, earlier): Judged,
    ) -> Result<Branch, SurveyError> {
        let Tip { branch: name, target } = tip;
        let head = match target {
            Ok(head) => head,
            Err(target) => {
                let branch = repo.leads_to(&target);
                let verdict = Verdict::Excluded(Exclusion::SymbolicRef { target, branch });
                return Ok(Branch { name, head: None, verdict, taken: None });
            }
        };
        let is_current = self.current.as_ref() == Some(&name);
        let verdict = match excluded(self.options, &name, is_current) {
            Some(exclusion) => Verdict::Excluded(exclusion),
            None if is_current && self.options.selection.current == CurrentBranch::Skip => {
                self.judge_skipped(repo, resolver, &name, head)
            }
            None => {
                let run_in = if is_current { RunIn::Checkout } else { RunIn::Worktree };
                let earlier = earlier.filter(|_| run_in == RunIn::Worktree);
                let again = earlier.and_then(|verdict| self.again(repo, resolver, head, *verdict));
                match again.unwrap_or_else(|| self.judge_head(repo, resolver, &name, head, run_in)) {
                    Verdict::Ready { event, command, run_in } => {
                        match self.obstacle(repo, &name, &event, run_in)? {
                            Some(reason) => Verdict::Waiting { state: event.state.clone(), reason },
                            None => match past.bound(repo, head, self.limits(&name), self.now) {
                                Some(bound) => {
                                    Verdict::Bounded { state: event.state.clone(), bound: Box::new(bound) }
                                }
                                None => Verdict::Ready { event, command, run_in },
                            },
                        }
                    }
                    verdict => verdict,
                }
            }
        };
        let taken = self.taken(&name, is_current);
        Ok(Branch { name, head: Some(head), verdict, taken })
    }

    /// An earlier verdict on the same HEAD, if nothing but HEAD decides it. It does not if it depends on time,
    /// on worktrees, on `--commands-from` or on a signature. For a missing command the disk is looked at again.
    fn again(
        &self,
        repo: &Repo,
        resolver: &mut Resolver<'_>,
        head: CommitId,
        verdict: Verdict,
    ) -> Option<Verdict> {
        let in_head = matches!(self.commands, Ok(None));
        match verdict {
            Verdict::Unmanaged
            | Verdict::Invalid(Invalid::Declared { .. })
            | Verdict::WaitsForYou { until: None, .. }
            | Verdict::Waiting {
                reason: Reason::ForeignBranch | Reason::ForeignState { .. } | Reason::NoTime { .. },
                ..
            } => Some(verdict),
            Verdict::Waiting { state, reason: Reason::NoCommand(why) } if in_head => {
                let why = match why {
                    NoCommand::Unusable { source: Source::Head(_), .. } => why,
                    NoCommand::Missing { source: Source::Head(_), .. } | NoCommand::Elsewhere { .. } => {
                        resolver.missing(repo, head, &state)
                    }
                    _ => return None,
                };
                Some(Verdict::Waiting { state, reason: Reason::NoCommand(why) })
            }
            _ => None,
        }
    }

    /// Judges the current branch under `--current-branch skip`: only whether it would run.
    fn judge_skipped(
        &self,
        repo: &Repo,
        resolver: &mut Resolver<'_>,
        name: &BranchName,
        head: CommitId,
    ) -> Verdict {
        // With `--require-signed` the answer would need a check of its signature, which is made only for
        // branches that run.
        if !self.options.trust.require_signed
            && let Verdict::Ready { event, .. } = self.judge_head(repo, resolver, name, head, RunIn::Checkout)
        {
            let state = event.state.clone();
            return match self.is_default(name, RunIn::Checkout) {
                Some(reason) => Verdict::Waiting { state, reason },
                None => Verdict::SkippedCurrent { state },
            };
        }
        Verdict::Excluded(Exclusion::Current)
    }

    /// The reason for skipping the default branch if the user did not name it (CONTRACT 11.13).
    fn is_default(&self, name: &BranchName, run_in: RunIn) -> Option<Reason> {
        let branch = self.unnamed_default.as_ref().filter(|default| *default == name)?.clone();
        let (remote, here) = (self.remote.clone(), run_in == RunIn::Checkout);
        let elsewhere = match self.in_use.get(name).map(Arc::as_ref) {
            Some(InUse::CheckedOut { path }) => Some(path.clone()),
            _ => None,
        };
        Some(Reason::DefaultBranch { branch, remote, here, elsewhere })
    }

    /// Judges what HEAD declares, and looks up its command.
    fn judge_head(
        &self,
        repo: &Repo,
        resolver: &mut Resolver<'_>,
        name: &BranchName,
        head: CommitId,
        run_in: RunIn,
    ) -> Verdict {
        let stored = match repo.commit(head) {
            Ok(stored) => stored,
            Err(error) => {
                let error = error.to_string();
                return Verdict::Invalid(Invalid::Unreadable(Unreadable { commit: head, error }));
            }
        };
        let Options { trust, runner_id, .. } = self.options;
        let (event, until) = match read(&stored.facts(), name, trust, runner_id, self.now, self.skew) {
            Reading::Final(verdict) => return verdict,
            Reading::Asks { event, until } => (event, until),
        };
        let question = WaitsFor::of(&event.message.trailers);
        let resolved = match (&self.commands, run_in) {
            (Err(why), _) => Err(Reason::CommandsNowhere { why: Arc::clone(why) }),
            (Ok(Some(from)), _) => resolver.in_trusted(repo, from, &event.state).map_err(Reason::NoCommand),
            (Ok(None), RunIn::Checkout) => {
                let top = repo.checkout().map(|here| here.place.path);
                let top = top.as_deref().unwrap_or(repo.top());
                resolve::on_disk(top, &event.state, self.options.role.as_ref()).map_err(Reason::NoCommand)
            }
            (Ok(None), RunIn::Worktree) => {
                resolver.in_commit(repo, head, stored.tree, &event.state).map_err(Reason::NoCommand)
            }
        };
        let state = event.state.clone();
        match (until, resolved, question) {
            (Some(until), resolved, None) => Verdict::Parked { state, until, trouble: resolved.err() },
            (Some(until), resolved, Some(_)) => {
                Verdict::WaitsForYou { state, until: Some(until), trouble: resolved.err() }
            }
            (None, Ok(command), _) => Verdict::Ready { event: Arc::new(event), command, run_in },
            // Its time has come and there is nothing to run, so the answer is still waited for.
            (None, Err(reason), Some(WaitsFor { deadline: Deadline::At(until), .. }))
                if reason.severity() == Severity::Terminal =>
            {
                Verdict::WaitsForYou { state, until: Some(until), trouble: Some(reason) }
            }
            (None, Err(reason), _) => Verdict::Waiting { state, reason },
        }
    }

    /// Why a deferred state is not delivered to a branch that rests (CONTRACT 5.34). An attempt that is removing its
    /// worktree is in nobody's way.
    fn taken(&self, name: &BranchName, is_current: bool) -> Option<Box<Reason>> {
        let run_in = if is_current { RunIn::Checkout } else { RunIn::Worktree };
        let in_use = self.in_use.get(name).filter(|in_use| !matches!(***in_use, InUse::Attempt { .. }));
        let in_use = || in_use.map(|in_use| Reason::InUse(Arc::clone(in_use)));
        self.is_default(name, run_in).or_else(in_use).map(Box::new)
    }

    /// The bounds of a branch. A driver has those of its run.
    fn limits(&self, branch: &BranchName) -> Limits {
        let options = self.options;
        if is_below(&options.run_prefix, branch) { Limits { steps: 0, rounds: 0 } } else { options.limits }
    }

    /// Finds why a state with a command cannot run here and now.
    fn obstacle(
        &self,
        repo: &Repo,
        name: &BranchName,
        event: &Event,
        run_in: RunIn,
    ) -> Result<Option<Reason>, RefError> {
        if is_decided_elsewhere(repo, self.remote.as_ref(), name, event.commit) {
            return Ok(Some(Reason::DecidedElsewhere));
        }
        let (asks, date) = (&event.message.trailers, event.committed_at);
        if let Some(Preferred { runner, until }) = preferred(asks, date, &self.options.runner_id, self.now) {
            return Ok(Some(Reason::Preferred { runner, until }));
        }
        if let Some(default) = self.is_default(name, run_in) {
            return Ok(Some(default));
        }
        if let Some(in_use) = self.in_use.get(name) {
            return Ok(Some(Reason::InUse(Arc::clone(in_use))));
        }
        let Some(here) = repo.checkout().filter(|_| run_in == RunIn::Checkout) else { return Ok(None) };
        if let Some(local) = &here.branch
            && repo.branch_head(local)? != Some(event.commit)
        {
            return Ok(Some(Reason::CheckoutBehind { local: local.clone() }));
        }
        Ok(index_trouble(repo, &here))
    }
}

/// The branch of the checkout that the runner was started in. With a remote, the upstream of that branch
/// (CONTRACT 9.13).
fn current(question: &Question<'_>) -> Result<Option<BranchName>, SurveyError> {
    let Question { repo, authority, options, .. } = question;
    let here = repo.checkout();
    let local = here.as_ref().and_then(|here| here.branch.clone());
    let current = match authority.source() {
        None => local.clone(),
        Some(remote) => local.as_ref().and_then(|branch| repo.upstream_on(branch, remote)),
    };
    if options.selection.current != CurrentBranch::Only || current.is_some() {
        return Ok(current);
    }
    if let (Some(local), Some(remote)) = (local, authority.source()) {
        return Err(SurveyError::FollowsNone { local, remote: remote.clone() });
    }
    let why = if here.is_none() { "the repository is bare" } else { "HEAD is detached" };
    Err(SurveyError::NoCurrentBranch { why })
}

/// Finds the branches that other worktrees use, with the first use of each.
fn in_use(
    repo: &Repo,
    current: Option<&BranchName>,
) -> Result<HashMap<BranchName, Arc<InUse>>, WorktreeError> {
    let mut found = HashMap::new();
    let mut note = |branches: Vec<BranchName>, in_use: InUse| {
        let in_use = Arc::new(in_use);
        for branch in branches {
            found.entry(branch).or_insert_with(|| Arc::clone(&in_use));
        }
    };
    let here = repo.checkout();
    if let Some(here) = &here {
        let others = here.in_use()?.into_iter().filter(|branch| Some(branch) != current);
        let others = others.filter(|branch| Some(branch) != here.branch.as_ref());
        note(others.collect(), InUse::InProgress { path: here.place.path.clone() });
    }
    let own = here.map(|here| here.place.git_dir);
    if let Some(main) = repo.main_checkout().filter(|main| Some(&main.git_dir) != own.as_ref()) {
        note(main.in_use()?, InUse::CheckedOut { path: main.place.path });
    }
    for registered in repo.linked_worktrees()? {
        if Some(&registered.checkout.git_dir) == own.as_ref() {
            continue;
        }
        let branches = registered.in_use()?;
        let Registered { checkout, owner } = registered;
        let path = checkout.place.path.clone();
        match owner {
            Some(Owner::Kept { .. }) if checkout.place.branch().is_some() => {
                note(branches, InUse::Kept { path });
            }
            Some(Owner::Kept { .. }) => note(branches, InUse::InProgress { path }),
            None | Some(Owner::Workspace(_) | Owner::Pool | Owner::Spare) => {
                let is_there = branches.is_empty() || path.symlink_metadata().is_ok();
                note(branches, if is_there { InUse::CheckedOut { path } } else { InUse::Gone { path } });
            }
            // A runner's worktree: if the runner is alive, the branch is in use. If not, the claim will
            // remove the worktree.
            Some(Owner::Attempt(mark)) if repo.is_held(&checkout.place.git_dir) => {
                note(branches, InUse::Attempt { attempt: mark.attempt, path });
            }
            Some(Owner::Attempt(_)) => {}
        }
    }
    Ok(found)
}

/// Why a branch is not part of the pass, whatever its HEAD declares.
fn excluded(options: &Options, name: &BranchName, is_current: bool) -> Option<Exclusion> {
    let Options { selection, work_prefix, .. } = options;
    if is_below(work_prefix, name) {
        return Some(Exclusion::BelowWorkPrefix { prefix: work_prefix.clone(), of_run: is_of_run(name) });
    }
    selected(selection, name, is_current)
}

/// Whether the name of a branch begins with `aynig.workPrefix`.
pub(crate) fn is_below(work_prefix: &str, name: &BranchName) -> bool {
    !work_prefix.is_empty() && name.as_bstr().starts_with(work_prefix.as_bytes())
}

/// Why the selection leaves a branch out.
fn selected(selection: &Selection, name: &BranchName, is_current: bool) -> Option<Exclusion> {
    let admitted = selection.admits(name);
    match selection.current {
        CurrentBranch::Skip if is_current => (!admitted).then_some(Exclusion::Current),
        CurrentBranch::Only if !is_current => Some(Exclusion::NotCurrent),
        CurrentBranch::Skip | CurrentBranch::Include | CurrentBranch::Only => {
            (!admitted).then_some(Exclusion::NotSelected)
        }
    }
}

/// Why the index of a checkout keeps a command from running there.
fn index_trouble(repo: &Repo, here: &Checkout) -> Option<Reason> {
    // The command could not stage anything either, so it does not start.
    let lock = here.git_dir.join("index.lock");
    if lock.exists() {
        return Some(Reason::IndexLocked { lock });
    }
    match repo.index_equals_head(&here.path) {
        Ok(true) => None,
        Ok(false) => Some(Reason::StagedChanges),
        Err(error) => {
            let (index, error) = (here.git_dir.join("index"), error.to_string());
            Some(Reason::IndexUnreadable { index, error })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::survey::reading::tests::{globs, name};

    #[test]
    fn an_earlier_verdict_goes_with_its_head_alone() {
        let id = |byte| CommitId::from_bytes(&[byte; 20]).expect("20 bytes");
        let branch = |branch: &str, head: Option<CommitId>| Branch {
            name: name(branch),
            head,
            verdict: Verdict::Unmanaged,
            taken: None,
        };
        let tip = |branch: &str, target| Tip { branch: name(branch), target };
        let earlier = vec![
            branch("a", Some(id(1))),
            branch("gone", Some(id(1))),
            branch("link", None),
            branch("moved", Some(id(1))),
            branch("same", Some(id(2))),
        ];
        let tips = vec![
            tip("a", Ok(id(1))),
            tip("link", Err("refs/heads/a".into())),
            tip("moved", Ok(id(3))),
            tip("new", Ok(id(1))),
            tip("same", Ok(id(2))),
        ];
        let known: Vec<bool> = beside(tips, earlier).iter().map(|(_, verdict)| verdict.is_some()).collect();
        assert_eq!(known, [true, false, false, false, true]);
    }

    #[test]
    fn selection_table() {
        use CurrentBranch::{Include, Only, Skip};
        use Exclusion::{Current, NotCurrent, NotSelected};
        for (current, admitted, is_current, expected) in [
            (Skip, true, false, None),
            (Skip, true, true, None),
            (Skip, false, false, Some(NotSelected)),
            (Skip, false, true, Some(Current)),
            (Include, true, true, None),
            (Include, false, true, Some(NotSelected)),
            (Only, true, true, None),
            (Only, true, false, Some(NotCurrent)),
            (Only, false, true, Some(NotSelected)),
            (Only, false, false, Some(NotCurrent)),
        ] {
            let globs = globs(if admitted { "ta*" } else { "x*" });
            let selection = Selection { current, globs, ..Selection::everything() };
            let found = selected(&selection, &name("task"), is_current);
            assert_eq!(found, expected, "{current:?} {admitted} {is_current}");
        }
    }
}
