//! Makes a workspace: context, work branch, worktree, in this order (CONTRACT 15.4), and for a run then its ledger
//! (CONTRACT 15.18).
//!
//! Why this order: the context names what is made next, so a process that dies in between leaves
//! nothing that the next call cannot find and undo. A base that cannot be used, a name in the way or
//! a place that is refused is found before anything is written.

use std::time::Duration;

use bstr::ByteSlice;

use crate::clock;
use crate::contract::ids::{AttemptId, BranchName, CommitId};
use crate::crashpoint::{Point, reach};
use crate::fsutil::{self, DirLock};
use crate::git::worktrees::directory::occupied;
use crate::git::{RefChange, Swap};
use crate::ledger::{Ledger, LedgerError, Place};
use crate::model::decide::Command;
use crate::model::ids::{Alias, RunId, Slug};
use crate::model::run::Run;
use crate::model::workspace::WorkspaceStatus;
use crate::runner::landing::salvage::{Disposal, Fate, Work, dispose};
use crate::words::{no_commit, shell_quote};

use super::Workspaces;
use super::aside::{clear_drafts, found_at, left};
use super::context::{Context, FILE, SHORTEST_SLUG, State, VERSION, check_name};
use super::heard::{recorded, unheard_words};
use super::refusal::{Refusal, Why};
use super::remade::Finished;
use super::store::{Held, LOCK, leave, make_lock};

/// How long to wait for another process that begins or undoes a workspace.
const PATIENCE: Duration = Duration::from_secs(60);

/// How many ids are tried. Two with the same beginning are one in four billion.
const TRIES: u32 = 10;

/// Lets the ledger of a run hear of its new workspace by this command, with the refs that move with it.
pub(crate) type Hear<'a> = dyn FnMut(Command, &[RefChange]) -> Result<(), LedgerError> + 'a;

/// A new workspace.
#[derive(Debug, Clone)]
pub struct Created {
    /// Its context.
    pub context: Context,
    /// What the user should know besides.
    pub warnings: Vec<String>,
}

impl Workspaces<'_> {
    /// Makes a workspace with an id of its own, from the commit that `base` leads to.
    pub fn create(&self, name: &str, base: &str) -> Result<Created, Refusal> {
        check_name(name).map_err(|why| illegal(name, why))?;
        let base = self.base(base)?;
        self.check_prefix()?;
        let root = self.fit(&self.root()?)?;
        for _ in 0..TRIES {
            let run = AttemptId::random().to_string();
            let slug: String = run.replace('-', "").chars().take(SHORTEST_SLUG).collect();
            let context = self.planned(name, &root, (&run, &slug), &base)?;
            if let Some(held) = self.begin(context, true)? {
                return self.complete(held, None);
            }
        }
        Err(Refusal::new(Why::Failed, "no id was free; nothing was changed"))
    }

    /// Makes a workspace of a run, from the commit that `base` leads to, or else from the base of the run.
    pub fn create_in(&self, run: RunId, name: &str, base: Option<&str>) -> Result<Created, Refusal> {
        check_name(name).map_err(|why| illegal(name, why))?;
        let alias = Alias::parse(name).map_err(|why| {
            Refusal::new(
                Why::Usage,
                format!("in a run, workspaces have other names: {why}; nothing was changed"),
            )
        })?;
        let unchanged = |error: LedgerError| {
            let refusal = Refusal::from(error);
            Refusal { message: format!("{}; nothing was changed", refusal.message), ..refusal }
        };
        let mut ledger = Ledger::open(self.repo, run).map_err(unchanged)?;
        ledger.refresh().map_err(unchanged)?;
        let is_here = self.directory_of(&run.to_string(), name).join(FILE).symlink_metadata().is_ok();
        let known = ledger.tip().state.workspaces.get(&alias);
        if let Some(known) = known.filter(|known| known.status == WorkspaceStatus::Ready)
            && base.is_none()
            && !is_here
        {
            self.check_prefix()?;
            return self.take(&ledger, known, &self.fit(&self.root()?)?);
        }
        let state = &ledger.tip().state.run;
        let base = base.map_or_else(|| self.base_of(state), |base| self.base(base))?;
        self.check_prefix()?;
        let root = self.fit(&self.root()?)?;
        let context = self.planned(name, &root, (&run.to_string(), state.slug.as_str()), &base)?;
        ledger.decide(&[prepares(&context)?], &self.op()?).map_err(unchanged)?;
        let (place, op) = (ledger.place().clone(), self.op()?);
        let mut hear = |prepared, refs: &[RefChange]| ledger.operate(&op, &[prepared], refs).map(drop);
        self.create_of(context, &place, &mut hear)
    }

    /// Makes the workspace of a run that begins with it, from this base, with its branch at `head`: `hear` makes the run.
    pub(crate) fn create_first(
        &self,
        (run, slug, place): (RunId, &Slug, &Place),
        name: &str,
        (base, head): (&(String, CommitId), CommitId),
        hear: &mut Hear<'_>,
    ) -> Result<Created, Refusal> {
        self.check_prefix()?;
        let root = self.fit(&self.root()?)?;
        let context = self.planned(name, &root, (&run.to_string(), slug.as_str()), base)?;
        let context = Context { head_sha: head.to_string(), ..context };
        self.create_of(context, place, hear)
    }

    fn create_of(&self, context: Context, place: &Place, hear: &mut Hear<'_>) -> Result<Created, Refusal> {
        self.check_free(&context)?;
        self.forget_published(&context)?;
        let handle = context.handle();
        let held = self.begin(context, false)?.ok_or_else(|| {
            Refusal::new(Why::Conflict, format!("another process is making {handle}; nothing was changed"))
        })?;
        self.complete(held, Some((place, hear)))
    }

    /// Resolves the base as git does.
    fn base(&self, named: &str) -> Result<(String, CommitId), Refusal> {
        self.repo.named_as_git_does(named).map_err(|error| {
            if named == "HEAD" && self.repo.branches().is_ok_and(|tips| tips.is_empty()) {
                return Refusal::new(Why::Usage, no_commit(self.repo.is_bare()));
            }
            Refusal::new(Why::Usage, format!("--base: {error}; nothing was changed"))
                .hint("`git for-each-ref` lists the refs there are")
        })
    }

    /// The base of a run.
    fn base_of(&self, run: &Run) -> Result<(String, CommitId), Refusal> {
        let base = CommitId::parse_hex(&run.base_sha).filter(|base| self.repo.commit(*base).is_ok());
        let base = base.ok_or_else(|| {
            let message = format!(
                "the base {} of run {} is not in this repository; nothing was changed",
                run.base_sha, run.slug
            );
            Refusal::new(Why::Setup, message)
                .hint("`git fetch --all` brings it if a remote has it; `--base REF` names another one")
        })?;
        Ok((run.base_ref.clone(), base))
    }

    /// Refuses a workspace of a run where something has its place.
    fn check_free(&self, context: &Context) -> Result<(), Refusal> {
        let (handle, branch) = (context.handle(), context.branch());
        let taken = |what: String| Refusal::new(Why::Conflict, format!("{what}; nothing was changed"));
        if self.directory(context).join(FILE).symlink_metadata().is_ok() {
            return Err(taken(format!("there is a workspace {handle}"))
                .hint(format!("`aynig workspace show {handle}` shows it")));
        }
        let found = self.repo.branch_head(&branch);
        if found.map_err(|error| Refusal::because(&format!("read {branch}"), &error))?.is_some() {
            let rename = format!("git branch --move {} NAME", shell_quote(&branch));
            return Err(taken(format!("there is a branch {branch}")).hint(format!("rename it: `{rename}`")));
        }
        if occupied(&context.worktree_path) {
            return Err(
                taken(format!("something is at {}", context.worktree_path.display())).hint("move it away")
            );
        }
        Ok(())
    }

    /// Makes the worktree, lets the ledger of the run hear of it, and declares the workspace ready. After an error all
    /// of it is undone.
    fn complete(&self, mut held: Held, ledger: Option<(&Place, &mut Hear<'_>)>) -> Result<Created, Refusal> {
        reach(Point::WorkspaceBranched);
        let (path, head) = (&held.context.worktree_path, held.context.head());
        let draft = left(path, "new", held.context.generation);
        let trying = format!("make its worktree at {}", path.display());
        let because = |error: &dyn std::error::Error| Refusal::because(&trying, error);
        let made = self.repo.draft_workspace((&draft, path), &held.context.mark(), head, None);
        let made = made
            .map_err(|error| because(&error))
            .and_then(|worktree| worktree.put_at(path).map_err(|error| because(&error)))
            .and_then(|worktree| self.make_ready(&held, &worktree));
        let warnings = match made {
            Ok(warnings) => warnings,
            Err(refusal) => return Err(self.undone(held, refusal)),
        };
        reach(Point::WorkspaceMade);
        // The setup command may have changed them.
        let noted = self.executing().and_then(|settings| {
            held.context.settings = settings;
            self.keep_record(&held.context, &self.recorded_now(&held.context)?)
        });
        if let Err(refusal) = noted {
            return Err(self.undone(held, refusal));
        }
        if let Some((place, hear)) = ledger {
            held.save()?;
            let published = self.publishes_to(place, &held.context)?;
            if let Err(error) = hear(prepares(&held.context)?, &published) {
                // Whether it landed says the ledger. If that cannot be read now, the next call looks.
                match self.is_prepared(&held.context) {
                    Ok(true) => {}
                    Ok(false) => return Err(self.undone(held, error.into())),
                    Err(_) => {
                        let hint = "whether its run knows it is not certain: the next change of a workspace completes or undoes it";
                        return Err(Refusal::from(error).hint(hint));
                    }
                }
            }
            self.note_published(&held.context, &published);
            reach(Point::WorkspaceHeard);
        }
        held.context.state = State::Ready;
        held.save()?;
        Ok(Created { context: held.context.clone(), warnings })
    }

    /// Undoes what was made, and says so.
    fn undone(&self, held: Held, mut refusal: Refusal) -> Refusal {
        match self.undo(held) {
            Ok(()) => refusal.message.push_str("; nothing of it is left"),
            Err(left) => refusal.message.push_str(&format!("; and it could not be undone: {}", left.message)),
        }
        refusal
    }

    /// The context of a workspace that is to be made.
    pub(super) fn planned(
        &self,
        name: &str,
        root: &std::path::Path,
        (run, slug): (&str, &str),
        (base_ref, base): &(String, CommitId),
    ) -> Result<Context, Refusal> {
        let branch_name = format!("{}{slug}/{name}", self.options.prefix);
        if BranchName::new(branch_name.as_bytes()).is_err() {
            return Err(Refusal::new(Why::Usage, format!("no branch can be named {branch_name}")));
        }
        self.check_beside(run, name)?;
        Ok(Context {
            version: VERSION,
            repo_root: self.repo.top().to_owned(),
            worktree_path: root.join(slug).join(name),
            branch_name,
            base_ref: base_ref.clone(),
            base_sha: base.to_string(),
            head_sha: base.to_string(),
            remote_branch: None,
            pr_url: None,
            published: Vec::new(),
            publishing: None,
            run_id: run.to_owned(),
            created_at: clock::format_utc_millis(clock::wall_millis()),
            generation: 1,
            host: self.repo.runner_id().chars().filter(|c| !c.is_control()).collect(),
            slug: slug.to_owned(),
            name: name.to_owned(),
            state: State::Preparing,
            settings: self.executing()?,
            pending: None,
            undo: None,
            remade: Vec::new(),
        })
    }

    /// Records a workspace that is being made, and makes its branch; `None` if its place is taken, or for one that `is_alone`
    /// the beginning of its id.
    fn begin(&self, context: Context, is_alone: bool) -> Result<Option<Held>, Refusal> {
        let (branch, head) = (context.branch(), context.head());
        let Some(held) = self.record(context, is_alone)? else { return Ok(None) };
        reach(Point::WorkspaceNoted);
        let log = "aynig: a workspace";
        match self.repo.swap(branch.full_ref().as_bstr(), None, head, log) {
            Ok(Swap::Won) => Ok(Some(held)),
            Ok(Swap::Lost { .. }) => {
                forget(&held);
                Ok(None)
            }
            Err(error) => {
                forget(&held);
                Err(Refusal::because(&format!("make the branch {branch}"), &error))
            }
        }
    }

    /// Writes the context of a new workspace, and locks it; `None` if its place is taken.
    pub(super) fn record(&self, context: Context, is_alone: bool) -> Result<Option<Held>, Refusal> {
        let slug = context.slug.clone();
        let _runs = self.runs_lock()?;
        let directory = self.directory(&context);
        let taken = std::fs::read_dir(self.runs())
            .into_iter()
            .flatten()
            .flatten()
            .any(|run| run.file_name().to_string_lossy().replace('-', "").starts_with(&slug));
        let below = format!("refs/heads/{}{slug}/", self.options.prefix);
        let branches = self.repo.tips(&below).map_err(|error| Refusal::because("list branches", &error))?;
        let is_there = directory.join(FILE).symlink_metadata().is_ok();
        if is_there || (is_alone && (taken || !branches.is_empty())) || occupied(&context.worktree_path) {
            return Ok(None);
        }
        let lock = directory.join(LOCK);
        let trying = format!("write in {}", directory.display());
        let lock = fsutil::create_private_dir_all(&directory)
            .and_then(|()| make_lock(&lock))
            .and_then(|()| DirLock::acquire(&lock, PATIENCE))
            .map_err(|error| Refusal::because(&trying, &error))?;
        let held = Held { directory, context, seen: None, mended: Vec::new(), _lock: lock };
        held.save()?;
        Ok(Some(held))
    }

    /// Refuses to begin where a branch of a person has the name of a directory of ours.
    fn check_prefix(&self) -> Result<(), Refusal> {
        let prefix = self.options.prefix.trim_end_matches('/');
        for (at, _) in prefix.match_indices('/').chain([(prefix.len(), "")]) {
            let Ok(branch) = BranchName::new(&prefix.as_bytes()[..at]) else { continue };
            let found = self.repo.branch_head(&branch);
            if found.map_err(|error| Refusal::because("read a branch", &error))?.is_some() {
                let shown = shell_quote(&branch);
                return Err(Refusal::new(
                    Why::Setup,
                    format!("there is a branch {branch}, so none can be below it; nothing was changed"),
                )
                .hint(format!("rename it: `git branch --move {shown} NAME`"))
                .hint("or set another prefix for work branches: `git config aynig.workPrefix PREFIX/`"));
            }
        }
        Ok(())
    }

    /// The lock under which workspaces begin, and half-made ones are judged.
    fn runs_lock(&self) -> Result<DirLock, Refusal> {
        let runs = self.runs();
        fsutil::create_private_dir_all(&runs)
            .and_then(|()| DirLock::acquire(&runs, PATIENCE))
            .map_err(|error| Refusal::because(&format!("use {}", runs.display()), &error))
    }

    /// Undoes workspaces whose maker died, and finishes what was interrupted, or only says so unless
    /// something is to be changed. Returns the words; a failure is among them.
    pub fn undo_half_made(&self, changes: bool) -> Result<Vec<String>, Refusal> {
        let entries = self.all()?;
        let contexts = entries.into_iter().filter_map(|entry| entry.context.ok());
        let mut told = Vec::new();
        for context in contexts {
            let Some((what, next)) = self.due(&context).filter(|_| self.is_free(&context)) else { continue };
            let handle = context.handle();
            if !changes {
                told.push(format!("{handle} {what}; {next}"));
                continue;
            }
            match self.finish_noted(&context) {
                Ok((words, finished)) => {
                    told.extend(words);
                    if matches!(context.state, State::Removing | State::Removed) {
                        self.removed.borrow_mut().push(context);
                    }
                    let noted = finished.map(|mut finished| {
                        finished.remade.warnings.clear();
                        (handle, Finished { is_told: true, ..finished })
                    });
                    self.finished.borrow_mut().extend(noted);
                }
                Err(refusal) => told.push(format!("{handle} is left as it is: {}", refusal.message)),
            }
        }
        Ok(told)
    }

    /// Finishes or undoes what a dead process left due in a workspace. Returns the words.
    pub(super) fn finish_due(&self, context: &Context) -> Result<Vec<String>, Refusal> {
        self.finish_noted(context).map(|(words, _)| words)
    }

    /// Like [`finish_due`](Self::finish_due). Returns the rollback, too, if it finished one.
    fn finish_noted(&self, context: &Context) -> Result<(Vec<String>, Option<Finished>), Refusal> {
        let handle = context.handle();
        let mut held = self.hold(context)?;
        if held.context.state == State::Preparing {
            if self.is_prepared(&held.context)? {
                held.context.state = State::Ready;
                held.save()?;
                let words =
                    format!("{handle} is complete, and its maker died before it said so; it is ready now");
                return Ok((vec![words], None));
            }
            self.undo(held)?;
            let words = format!("{handle} was never complete, and its maker is gone; it was undone");
            return Ok((vec![words], None));
        }
        let is_ready = held.context.state == State::Ready;
        let finished = self.finish_begun(&mut held)?;
        let carried = match &finished {
            Some(finished) => Some(finished.remade.clone().told()),
            None => self.carry_on(&mut held)?,
        };
        let Some(mut words) = carried else {
            self.let_hear(&held.context, &[], &[])
                .map_err(|error| Refusal::new(Why::Remote, unheard_words(&held.context, &error)))?;
            return Ok((Vec::new(), None));
        };
        if is_ready {
            words.push(format!("making the worktree of {handle} anew was interrupted; it is done now"));
            self.hears(&held.context, &[]);
        } else if !held.directory.exists() {
            words.push(format!("removing {handle} was interrupted; it is removed now"));
        }
        Ok((words, finished))
    }

    /// Removes what there is of a workspace that was never ready.
    fn undo(&self, held: Held) -> Result<(), Refusal> {
        let (path, head) = (held.context.worktree_path.clone(), held.context.head());
        let because = |error: &dyn std::error::Error| Refusal::because("undo it", error);
        let its = self.repo.worktrees_of(&held.context.mark()).map_err(|error| because(&error))?;
        let its = its.first().map(|one| &one.checkout.place);
        // A directory may have been made at its place meanwhile.
        let at = its.and_then(|place| found_at(&path, place));
        let worktree = match (its, &at) {
            (Some(place), None) if path.symlink_metadata().is_ok() => {
                self.repo.forget_worktree(place).map_err(|error| because(&error))?;
                (self.options.tell)(&format!("what is at {} stays: it is none of ours", path.display()));
                None
            }
            (Some(_), _) => {
                let at = at.as_ref().unwrap_or(&path);
                self.repo.hold_workspace(at, &held.context.mark()).map_err(|error| because(&error))?
            }
            (None, _) => None,
        };
        clear_drafts(&path);
        if let Some(worktree) = worktree {
            // Without an index git has not filled it, so there is nothing of anybody in it.
            let is_filled = worktree.git_dir.join("index").exists();
            let work = if is_filled { Work::On { base: head, kept: Some(head) } } else { Work::Saved };
            match dispose(self.repo, worktree, Disposal { work, head, pool: false, frees_branch: false }) {
                Fate::Gone { .. } => {}
                Fate::InUse { pids } => {
                    let pid = pids.first().copied().unwrap_or_default();
                    let message = format!("process {pid} works in {}", path.display());
                    return Err(Refusal::new(Why::Conflict, message));
                }
                Fate::Kept { why } | Fate::Stuck { why, .. } => {
                    return Err(Refusal::new(Why::Failed, format!("{}: {why}", path.display())));
                }
            }
        }
        reach(Point::WorkspaceUnmade);
        let branch = held.context.branch();
        match self.repo.delete_ref(branch.full_ref().as_bstr(), head).map_err(|error| because(&error))? {
            Swap::Won | Swap::Lost { actual: None } => {}
            Swap::Lost { actual: Some(_) } => {
                tracing::warn!(%branch, "a branch of a half-made workspace has commits, and stays");
            }
        }
        self.leave_root(&path);
        forget(&held);
        Ok(())
    }

    /// Removes the directory of the run's worktrees if it is empty, and the root above it if that is
    /// the default one. One that the settings name is the user's.
    pub(super) fn leave_root(&self, worktree: &std::path::Path) {
        let run = worktree.parent().unwrap_or(worktree);
        let default = self.root().ok().filter(|_| self.options.root.is_none());
        let root = default.and_then(|root| super::place::resolved(&root).ok());
        if std::fs::remove_dir(run).is_ok() && root.is_some() && root.as_deref() == run.parent() {
            // It may have others.
            std::fs::remove_dir(run.parent().unwrap_or(run)).ok();
        }
    }
}

fn illegal(name: &str, why: &str) -> Refusal {
    let message = format!("{name:?} is not a legal name of a workspace: {why}; nothing was changed");
    Refusal::new(Why::Usage, message)
}

/// The command that makes a workspace known to its run.
fn prepares(context: &Context) -> Result<Command, Refusal> {
    let recorded = recorded(context).map(Command::PrepareWorkspace);
    recorded.ok_or_else(|| {
        Refusal::new(Why::Setup, "the name or the time of the workspace cannot be in a ledger")
    })
}

/// Removes the record of a workspace that is not there.
pub(super) fn forget(held: &Held) {
    super::record::forget(&held.directory);
    let removed = std::fs::remove_file(held.directory.join(FILE))
        .and_then(|()| std::fs::remove_file(held.directory.join(LOCK)));
    fsutil::remove_drafts(&held.directory);
    match removed.and_then(|()| std::fs::remove_dir(&held.directory)) {
        Ok(()) => leave(&held.directory),
        Err(error) => tracing::debug!(directory = %held.directory.display(), %error, "left in place"),
    }
}
