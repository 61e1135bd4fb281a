//! Puts what is in a workspace's worktree onto its work branch (CONTRACT 15.6).
//!
//! Why this order: first the worktree is set right, since a commit from one that is on another
//! branch, or in the middle of a rebase, would say what nobody meant. Then come commits that others
//! put on the branch, and last the commit of what is there, on top of all commits.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::clock;
use crate::contract::ids::{BranchName, CommitId};
use crate::contract::squash::SNAPSHOT;
use crate::crashpoint::{Point, reach};
use crate::git::Swap;
use crate::git::contents::ignored::IgnoredUse;
use crate::git::contents::rescue::{RescueError, Situation};
use crate::git::contents::snapshot::Inside;
use crate::git::objects::commits::{Authored, NewCommit};
use crate::git::objects::differences::Difference;
use crate::git::process::cancel::Purpose;
use crate::git::worktrees::carry::Uncarried;
use crate::git::worktrees::held::Worktree;
use crate::words::{error_chain, shell_quote, shows_rescued};

use super::Workspaces;
use super::change::Aim;
use super::context::Context;
use super::refusal::{Refusal, Why};
use super::sound::damaged_index;
use super::store::Held;
use super::tampering::{Change, Outside};

/// How often to look whether a git still has the index locked.
const TRIES: u32 = 100;

/// The pause between.
const PAUSE: Duration = Duration::from_millis(10);

/// How often an index that others change is looked at and set.
const LOOKS: u32 = 10;

/// The result of a snapshot.
#[derive(Debug)]
pub struct Snapshot {
    /// The context now.
    pub context: Context,
    /// The commit that was made; `None` if nothing had changed.
    pub commit: Option<CommitId>,
    /// Commits that others put on the branch, the newest first.
    pub adopted: Vec<CommitId>,
    /// Repairs of the worktree, in words.
    pub mended: Vec<String>,
    /// The ref that was made for what could not stay.
    pub rescue: Option<String>,
    /// An old directory that stays, and why.
    pub kept: Option<(PathBuf, String)>,
    /// Ignored contents that stay there.
    pub ignored: IgnoredUse,
    /// What was changed outside of the workspace since the last one.
    pub changes: Vec<Change>,
    /// Files that look like keys, and are left out.
    pub withheld: Vec<Difference>,
    /// Contents that git passes over, in words: they are in no commit, and stay in the worktree.
    pub hidden: Vec<String>,
}

/// What becomes of changes in a worktree that hinder commits of others on its branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clashing {
    /// They stay, and nothing is done.
    Refused,
    /// They are saved, and the worktree is made anew.
    Saved,
}

/// Such changes.
#[derive(Debug)]
struct Clash {
    /// The commit that the worktree is based on.
    at: CommitId,
    refusal: Refusal,
}

/// The change that HEAD needs before a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Head {
    /// Nothing: it is the work branch.
    Fine,
    /// The branch goes to it, since it has all that the branch has.
    Attach,
    /// The worktree is saved, and made anew at the branch.
    PutBack,
}

/// Facts about HEAD.
#[derive(Debug, Clone, Copy)]
struct Facts {
    on_branch: bool,
    /// Whether a merge, rebase, cherry-pick, revert or bisect was begun.
    unfinished: bool,
    /// Whether its commit has all that the branch has.
    ahead: bool,
}

fn decide(facts: Facts) -> Head {
    match facts {
        Facts { unfinished: true, .. } => Head::PutBack,
        Facts { on_branch: true, .. } => Head::Fine,
        Facts { ahead: true, .. } => Head::Attach,
        Facts { .. } => Head::PutBack,
    }
}

impl Snapshot {
    /// One that has done nothing yet.
    fn begun(held: &Held) -> Self {
        Self {
            context: held.context.clone(),
            commit: None,
            adopted: Vec::new(),
            mended: held.mended.clone(),
            rescue: None,
            kept: None,
            ignored: IgnoredUse::default(),
            changes: Vec::new(),
            withheld: Vec::new(),
            hidden: Vec::new(),
        }
    }
}

impl Workspaces<'_> {
    /// Brings commits that other hosts put on the branch into the worktree. Returns why that cannot be; the worktree is
    /// left as it is then.
    pub(super) fn catch_up(&self, held: &Held, worktree: &Worktree) -> Result<(), Refusal> {
        let branch = held.context.branch();
        let is_on_branch = worktree.branch().as_ref() == Some(&branch);
        let tip = self.repo.branch_head(&branch).ok().flatten();
        let Some(tip) = tip.filter(|_| is_on_branch && !self.repo.is_unfinished(&worktree.git_dir)) else {
            return Ok(());
        };
        let adopted = self.adopt(held, worktree, tip, &mut Snapshot::begun(held))?;
        adopted.map_err(|Clash { refusal, .. }| refusal)
    }

    /// Puts what is in the worktree onto the work branch.
    pub fn snapshot(&self, context: &Context) -> Result<Snapshot, Refusal> {
        // The lock is held until the ledger has heard.
        let (done, repairs, held, _) = self.taken(self.ready(context)?)?;
        self.hears(&held.context, &repairs);
        Ok(done)
    }

    /// Takes a snapshot of a locked workspace. Returns the repairs that the ledger is to hear of besides, the lock, and what there is outside.
    pub(super) fn taken(&self, held: Held) -> Result<(Snapshot, Vec<String>, Held, Outside), Refusal> {
        let looked = self.look_outside(&held.context, false)?;
        self.taken_with(held, looked, Clashing::Refused)
    }

    /// The same with what there is outside.
    pub(super) fn taken_with(
        &self,
        mut held: Held,
        (changes, outside): (Vec<Change>, Outside),
        clashing: Clashing,
    ) -> Result<(Snapshot, Vec<String>, Held, Outside), Refusal> {
        let (mut done, repairs) = self.taken_of(&mut held, clashing)?;
        done.changes = changes;
        self.keep_record(&held.context, &outside.due)?;
        Ok((done, repairs, held, outside))
    }

    /// The same of a locked workspace. Nothing outside of it is looked at.
    pub(super) fn taken_of(
        &self,
        held: &mut Held,
        clashing: Clashing,
    ) -> Result<(Snapshot, Vec<String>), Refusal> {
        let generation = held.context.generation;
        let done = self.snapshot_of(held, clashing)?;
        // A worktree that was made anew is one change, whatever was mended before.
        let is_same = held.context.generation == generation;
        let repairs = if is_same { done.mended.clone() } else { Vec::new() };
        Ok((done, repairs))
    }

    /// Puts what is in the worktree of a locked workspace onto its branch.
    fn snapshot_of(&self, held: &mut Held, clashing: Clashing) -> Result<Snapshot, Refusal> {
        self.check_branch(&held.context)?;
        let path = held.context.worktree_path.clone();
        let because = |error: &dyn std::error::Error| {
            Refusal::because(&format!("take a snapshot of {}", path.display()), error)
        };
        let worktree =
            self.repo.hold_workspace(&path, &held.context.mark()).map_err(|error| because(&error))?;
        let worktree = worktree.filter(|_| path.symlink_metadata().is_ok_and(|found| found.is_dir()));
        let mut done = Snapshot::begun(held);
        let Some(worktree) = worktree.filter(|worktree| !worktree.is_another_repository()) else {
            if self.made_if_gone(held, &mut done)? {
                return Ok(done);
            }
            return Err(occupied(&path));
        };
        if let Some(lock) = locked_index(&worktree) {
            let message = format!(
                "{} exists: a git works in {}, or was killed there; nothing was changed",
                lock.display(),
                path.display()
            );
            return Err(Refusal::new(Why::Conflict, message).hint(format!(
                "if no git works there: `rm {}`, then again",
                shell_quote(lock.as_os_str().as_encoded_bytes())
            )));
        }
        if !worktree.names_its_registration() {
            worktree.mend_link().map_err(|error| because(&error))?;
            done.mended.push("its .git file was written anew".to_owned());
        }
        let tip = self.tip(held, &worktree, &mut done)?;
        let Some(worktree) = self.set_head(held, worktree, tip, &mut done)? else { return Ok(done) };
        let tip =
            self.repo.branch_head(&held.context.branch()).map_err(|error| because(&error))?.unwrap_or(tip);
        if let Err(Clash { at, refusal }) = self.adopt(held, &worktree, tip, &mut done)? {
            if clashing == Clashing::Refused {
                return Err(refusal);
            }
            // What lies there is saved as what it is: a change of the commit that it is based on.
            worktree.detach(at).map_err(|error| because(&error))?;
            drop(worktree);
            let why = "changes in it hindered commits of others on its branch";
            self.made_anew(held, tip, why, &mut done)?;
            return Ok(done);
        }
        self.commit(held, &worktree, tip, &mut done)?;
        held.context.head_sha = done.commit.unwrap_or(tip).to_string();
        if held.context != done.context {
            held.save()?;
            done.context = held.context.clone();
        }
        Ok(done)
    }

    /// The newest commit of the work branch. One that was deleted is made again.
    fn tip(&self, held: &Held, worktree: &Worktree, done: &mut Snapshot) -> Result<CommitId, Refusal> {
        let branch = held.context.branch();
        let because = |error: &dyn std::error::Error| Refusal::because(&format!("read {branch}"), error);
        if let Some(tip) = self.repo.branch_head(&branch).map_err(|error| because(&error))? {
            return Ok(tip);
        }
        let tip = self.repo.committed_within(&worktree.git_dir, held.context.base());
        let name = branch.full_ref();
        match self
            .repo
            .swap(name.as_slice().into(), None, tip, "aynig: workspace")
            .map_err(|error| because(&error))?
        {
            Swap::Won => {
                done.mended.push(format!("its branch was deleted; it is at {} again", tip.short()));
                Ok(tip)
            }
            Swap::Lost { actual } => Ok(actual.unwrap_or(tip)),
        }
    }

    /// Puts HEAD onto the work branch; `None` if the worktree was made anew for that.
    fn set_head(
        &self,
        held: &mut Held,
        worktree: Worktree,
        tip: CommitId,
        done: &mut Snapshot,
    ) -> Result<Option<Worktree>, Refusal> {
        let branch = held.context.branch();
        let trying = format!("put {} back on {branch}", worktree.path.display());
        let because = |error: &dyn std::error::Error| Refusal::because(&trying, error);
        let head = self.repo.checked_out(&worktree).filter(|head| self.repo.commit(*head).is_ok());
        let facts = Facts {
            on_branch: worktree.branch().as_ref() == Some(&branch),
            unfinished: self.repo.is_unfinished(&worktree.git_dir),
            ahead: head.is_some_and(|head| self.repo.descends(head, tip)),
        };
        let was = match worktree.branch() {
            _ if facts.unfinished => "a merge or a rebase in it was not concluded".to_owned(),
            Some(other) => format!("it was on {other}"),
            None => "its HEAD was detached".to_owned(),
        };
        match (decide(facts), head) {
            (Head::Fine, _) => Ok(Some(worktree)),
            (Head::Attach, Some(head)) => {
                let name = branch.full_ref();
                let moved = self.repo.swap(name.as_slice().into(), Some(tip), head, "aynig: workspace");
                if let Swap::Lost { .. } = moved.map_err(|error| because(&error))? {
                    return Err(Refusal::new(
                        Why::Conflict,
                        format!("could not {trying}: it moved meanwhile"),
                    ));
                }
                worktree.attach(&branch).map_err(|error| because(&error))?;
                done.mended.push(format!("{was}; {branch} has its commits now"));
                Ok(Some(worktree))
            }
            (Head::Attach | Head::PutBack, _) => {
                drop(worktree);
                self.made_anew(held, tip, &was, done)?;
                Ok(None)
            }
        }
    }

    /// Saves what lies in the worktree, and makes it anew at a commit.
    pub(super) fn made_anew(
        &self,
        held: &mut Held,
        tip: CommitId,
        was: &str,
        done: &mut Snapshot,
    ) -> Result<(), Refusal> {
        let before = self.save(held, tip)?;
        let rescue = before.restore.rescue.clone();
        let remade = self.remake(held, before, (tip, None), Aim::Mend)?;
        let rescue = remade.rescue.or(rescue);
        done.mended.extend(remade.warnings);
        let saved = rescue
            .as_ref()
            .map_or_else(String::new, |name| format!("; what was there is saved: `{}`", shows_rescued(name)));
        done.mended.push(format!("{was}; it was made anew at {}{saved}", tip.short()));
        done.ignored = remade.kept.as_ref().map_or_else(IgnoredUse::default, |_| remade.ignored);
        (done.rescue, done.kept) = (rescue, remade.kept);
        done.context = held.context.clone();
        Ok(())
    }

    /// Brings commits that others put on the branch into the worktree.
    fn adopt(
        &self,
        held: &Held,
        worktree: &Worktree,
        tip: CommitId,
        done: &mut Snapshot,
    ) -> Result<Result<(), Clash>, Refusal> {
        let base = held.context.base();
        // `git reflog expire` empties the log.
        let recorded = CommitId::parse_hex(held.context.head_sha.as_bytes());
        let recorded = recorded.filter(|head| self.repo.descends(tip, *head));
        let at = self.repo.head_of_log(&worktree.git_dir).or(recorded).unwrap_or(base);
        let branch = held.context.branch();
        if at == tip || self.repo.commit(at).is_err() || self.repo.was_not_moved(worktree, &branch, tip) {
            return Ok(Ok(()));
        }
        let because = |error: &dyn std::error::Error| Refusal::because(&format!("adopt {branch}"), error);
        if !self.repo.descends(tip, at) {
            // Somebody set the branch to something else.
            let situation = Situation {
                branch: &branch,
                label: &held.context.run_id,
                base: at,
                kept: Some(tip),
                also: None,
            };
            let saved = self.repo.rescue_commits(situation).map_err(|error| because(&error))?;
            done.rescue = saved.map(|saved| saved.reference.to_string());
        }
        if let Err(error) = self.repo.carry(worktree, at, tip) {
            tracing::debug!(error = error_chain(&error), "not carried");
            let refusal = clash_words(&branch, &worktree.path, (at, tip), &error);
            return Ok(Err(Clash { at, refusal }));
        }
        self.repo.log_head(&worktree.git_dir, at, tip, "aynig: adopted").map_err(|error| because(&error))?;
        let new = self.repo.commits_since(tip, at).map_err(|error| because(&error))?;
        let own = held.context.address();
        done.adopted = new
            .into_iter()
            .filter(|commit| {
                self.repo.authored(*commit).map_or(true, |author| author.address() != own.as_bytes())
            })
            .collect();
        Ok(Ok(()))
    }

    /// Commits what is in the worktree, if something differs.
    fn commit(
        &self,
        held: &Held,
        worktree: &Worktree,
        tip: CommitId,
        done: &mut Snapshot,
    ) -> Result<(), Refusal> {
        let (context, path) = (&held.context, worktree.path.display());
        let trying = format!("take a snapshot of {path}");
        let because = |error: &dyn std::error::Error| Refusal::because(&trying, error);
        let stored = self.repo.commit(tip).map_err(|error| because(&error))?;
        let look = || {
            self.repo.look_inside(worktree, &stored).map_err(|error| {
            let why = match &error {
                RescueError::Snapshot { source, .. } => error_chain(source),
                other => error_chain(other),
            };
            let is_empty = why.contains("does not have a commit checked out");
            let refusal = Refusal::new(Why::Failed, format!("could not {trying}: {why}"));
            match error {
                RescueError::OtherRepositories { .. } => refusal
                    .hint("commit and push what is in those repositories, take them out or ignore them; then again"),
                _ if is_empty => refusal.hint("take that repository out, ignore it, or commit in it; then again"),
                _ => refusal,
            }
        })
        };
        let mut inside = match look() {
            Err(refusal) => {
                let aside = self.repo.set_damaged_index_aside(worktree).map_err(|error| because(&error))?;
                done.mended.push(damaged_index(&aside.ok_or(refusal)?));
                look()?
            }
            Ok(inside) => inside,
        };
        done.hidden = self.repo.hidden_contents(worktree).map_err(|error| because(&error))?;
        self.save_staged(held, &inside, (tip, stored.tree), done)?;
        let (tree, withheld) = self.withhold(held, worktree, stored.tree, inside.files)?;
        done.withheld = withheld;
        if tree != stored.tree {
            let author = Authored::now(&context.name, &context.address());
            let message = format!("{SNAPSHOT}{}\n\naynig-run: {}\n", context.name, context.run_id);
            let new = NewCommit { tree, parents: &[tip], message: message.as_bytes(), attempt: None };
            let commit = self
                .repo
                .write_commit_of(&new, &author, Purpose::Signature)
                .map_err(|error| because(&error))?;
            reach(Point::SnapshotWritten);
            match self.repo.swap_head(worktree, tip, commit, "aynig: snapshot") {
                Ok(Swap::Won) => {}
                Ok(Swap::Lost { .. }) => {
                    let message = format!("could not {trying}: its branch is not where it was");
                    return Err(Refusal::new(Why::Conflict, message)
                        .hint("the branch moved meanwhile; nothing is lost, take it again"));
                }
                Err(error) => {
                    return Err(because(&error)
                        .hint("nothing is lost: all is in the worktree as it was; then take it again"));
                }
            }
            reach(Point::SnapshotMoved);
            done.commit = Some(commit);
        }
        let is_due = |inside: &Inside| inside.index != tree || !worktree.git_dir.join("index").exists();
        for _ in 0..LOOKS {
            if !is_due(&inside)
                || self.repo.set_index(worktree, tree, &inside).map_err(|error| because(&error))?
            {
                return Ok(());
            }
            // Somebody has staged something meanwhile, or a git has it locked.
            if locked_index(worktree).is_some() {
                break;
            }
            inside = look()?;
            self.save_staged(held, &inside, (tip, stored.tree), done)?;
        }
        (self.options.tell)(&format!(
            "the index of {path} is not that of the snapshot, since a git works there; nothing is lost, and the next \
             snapshot sets it"
        ));
        Ok(())
    }

    /// Saves contents that are only staged: the index is about to become that of the files.
    fn save_staged(
        &self,
        held: &Held,
        inside: &Inside,
        (tip, stored): (CommitId, CommitId),
        done: &mut Snapshot,
    ) -> Result<(), Refusal> {
        let because = |error: &dyn std::error::Error| Refusal::because("save what is staged", error);
        let more = self.repo.has_more(inside.index, [stored, inside.files]);
        if !more.map_err(|error| because(&error))? {
            return Ok(());
        }
        let (branch, label) = (held.context.branch(), held.context.run_id.as_str());
        let situation = Situation { branch: &branch, label, base: tip, kept: Some(tip), also: None };
        let saved = self.repo.rescue_staged(situation, inside.index).map_err(|error| because(&error))?;
        let saved = saved.reference.to_string();
        match &done.rescue {
            Some(_) => {
                (self.options.tell)(&format!("what was staged is saved, too: {}", shows_rescued(&saved)));
            }
            None => done.rescue = Some(saved),
        }
        Ok(())
    }
}

/// Waits for a git that has the index of a worktree locked. Returns the lock of one that does not end.
fn locked_index(worktree: &Worktree) -> Option<PathBuf> {
    let lock = worktree.git_dir.join("index.lock");
    let is_locked = || lock.symlink_metadata().is_ok();
    for _ in (0..TRIES).take_while(|_| is_locked()) {
        clock::pause(PAUSE);
    }
    is_locked().then_some(lock)
}

/// Changes in a worktree that hinder commits of others, with a way out.
fn clash_words(
    branch: &BranchName,
    path: &Path,
    (at, tip): (CommitId, CommitId),
    error: &Uncarried,
) -> Refusal {
    let why = match error {
        Uncarried::InTheWay(_) | Uncarried::Filtered(_) => format!(": {error}"),
        Uncarried::Git(_) => error.file().map_or_else(String::new, |file| format!(": {file}")),
    };
    let message = format!(
        "commits that others put on {branch} change files that are changed in {}, too{why}; nothing was changed there",
        path.display()
    );
    let (shown, from) = (shell_quote(path.display().to_string()), at.short());
    let refusal = Refusal::new(Why::Conflict, message);
    if let Uncarried::Filtered(file) = error {
        let file = shell_quote(file.as_os_str().as_encoded_bytes());
        return refusal.hint(format!(
            "copy it elsewhere, and take theirs: `git -C {shown} rm -q --cached -- {file} && git -C {shown} checkout HEAD -- \
             {file}`; then again; the next step of a run saves it under a rescue ref"
        ));
    }
    refusal.hint(format!(
        "`git diff {from} {}` shows theirs, and `git -C {shown} diff {from}` yours; take the changes in the worktree out of \
         the way, then again; the next step of a run saves them under a rescue ref",
        tip.short()
    ))
}

/// Something that is no worktree of the workspace is at its place.
fn occupied(path: &Path) -> Refusal {
    let message = "something else is at the place of the worktree; nothing was changed";
    let aside = puts_aside(path);
    Refusal::new(Why::Failed, message)
        .hint(format!("`{aside}`, then again: the worktree is made anew with the work"))
}

/// The command that takes what is at the place of a worktree out of the way.
pub(super) fn puts_aside(path: &Path) -> String {
    let shown = path.display().to_string();
    format!("mv {} {}", shell_quote(&shown), shell_quote(format!("{shown}.old")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CONTRACT 15.6
    #[test]
    fn what_is_done_with_head() {
        let facts = |on_branch, unfinished, ahead| Facts { on_branch, unfinished, ahead };
        for (given, wanted) in [
            (facts(true, false, true), Head::Fine),
            (facts(true, false, false), Head::Fine),
            (facts(true, true, true), Head::PutBack),
            (facts(false, true, true), Head::PutBack),
            (facts(false, false, true), Head::Attach),
            (facts(false, false, false), Head::PutBack),
        ] {
            assert_eq!(decide(given), wanted, "{given:?}");
        }
    }
}
