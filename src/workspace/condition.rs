//! Finds the faults of the workspaces of a repository, with the command that mends each (CONTRACT 15.13).
//!
//! Invariant: changes nothing, and starts no git in a worktree.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use bstr::ByteSlice;

use crate::contract::ids::CommitId;
use crate::git::Repo;
use crate::git::worktrees::registration::{Mark, Registered, Workplace};
use crate::runner::clean::Lasting;
use crate::words::{error_chain, shell_quote};

use super::Workspaces;
use super::context::{Context, State};
use super::moved::moved;
use super::refusal::Refusal;
use super::snapshot::puts_aside;
use super::store::{Entry, Fault, whose};

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flaw {
    /// The workspace, or a file.
    pub subject: String,
    /// The work branch, if it is known.
    pub branch: Option<String>,
    /// What is wrong.
    pub what: String,
    /// The command that mends it.
    pub next: String,
    /// Whether it is something that was left behind.
    pub is_left: bool,
    /// The context of what `clean` finishes or undoes.
    pub(super) due: Option<Box<Context>>,
}

/// The workspaces of a repository.
#[derive(Debug)]
pub struct Condition {
    /// How many there are.
    pub count: usize,
    /// What is wrong.
    pub flaws: Vec<Flaw>,
    /// The old directories that rollbacks left: path, workspace and reason.
    pub kept: Vec<(PathBuf, String, String)>,
}

/// What is at the place of a worktree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum There {
    Nothing,
    Directory,
    /// A file or a link.
    Other,
}

/// What a workspace consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Facts {
    has_base: bool,
    has_branch: bool,
    there: There,
    is_registered: bool,
    /// Whether the registration names the worktree's path.
    is_named: bool,
    /// Whether `.git` names the registration.
    is_linked: bool,
    is_another_repository: bool,
}

/// What is wrong with a workspace that is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Broken {
    NoBase,
    Gone,
    NoWorktree,
    NoDirectory,
    Unregistered,
    AnotherRepository,
    Misnamed,
    Unlinked,
    NoBranch,
}

fn judge(facts: Facts) -> Option<Broken> {
    match facts {
        Facts { has_base: false, .. } => Some(Broken::NoBase),
        Facts { there: There::Nothing, has_branch: false, .. } => Some(Broken::Gone),
        Facts { there: There::Nothing, .. } => Some(Broken::NoWorktree),
        Facts { there: There::Other, .. } => Some(Broken::NoDirectory),
        Facts { is_registered: false, .. } => Some(Broken::Unregistered),
        Facts { is_another_repository: true, .. } => Some(Broken::AnotherRepository),
        Facts { is_named: false, .. } => Some(Broken::Misnamed),
        Facts { is_linked: false, .. } => Some(Broken::Unlinked),
        Facts { has_branch: false, .. } => Some(Broken::NoBranch),
        Facts { .. } => None,
    }
}

impl Broken {
    fn words(self) -> &'static str {
        match self {
            Self::NoBase => "its base commit is not in this repository",
            Self::Gone => "its worktree and its branch are gone",
            Self::NoWorktree => "its worktree is gone",
            Self::NoDirectory => "its worktree was replaced by something that is no directory",
            Self::Unregistered => "git does not list its worktree",
            Self::AnotherRepository => "another repository was made at the top of its worktree",
            Self::Misnamed => "git lists its worktree at another place",
            Self::Unlinked => "the .git file of its worktree is missing or names something else",
            Self::NoBranch => "its branch is gone",
        }
    }

    /// The command that mends it in a workspace. `newest` is the newest commit of its branch that is known and here.
    fn next(self, context: &Context, newest: Option<CommitId>) -> String {
        let handle = shell_quote(context.handle());
        let snapshot = format!("`aynig workspace snapshot {handle}`");
        let anew = format!("`aynig workspace rollback {handle}` makes it anew at the base");
        match self {
            Self::NoBase => {
                "`git fetch --all` brings it if a remote has it; `git fsck` shows what else is missing"
                    .to_owned()
            }
            Self::Gone => match newest {
                Some(newest) => {
                    format!(
                        "{snapshot} makes both again, at {}, its newest commit that is known",
                        newest.short()
                    )
                }
                None => {
                    let lost = context.head_sha.get(..10).unwrap_or_default();
                    format!("{anew}; its newest commit, {lost}, is not in this repository any more")
                }
            },
            Self::NoWorktree => format!(
                "if it was moved, `git worktree repair PLACE` notes where it is; else {snapshot} makes it anew at its branch, \
                 and `aynig workspace remove --apply {handle}` archives that"
            ),
            Self::NoDirectory | Self::Unregistered | Self::AnotherRepository => {
                let aside = puts_aside(&context.worktree_path);
                format!(
                    "`{aside}`, then {snapshot} makes it anew with the work; what is there stays beside it"
                )
            }
            Self::Misnamed | Self::Unlinked | Self::NoBranch => {
                format!("{snapshot} sets it right")
            }
        }
    }

    fn is_left(self) -> bool {
        matches!(self, Self::Gone | Self::NoWorktree | Self::NoBranch)
    }
}

impl Workspaces<'_> {
    /// Looks at all workspaces.
    pub fn condition(&self) -> Result<Condition, Refusal> {
        let entries = self.all()?;
        let registered = self.registered()?;
        let mut flaws: Vec<Flaw> = entries.iter().filter_map(|entry| self.flaw(entry, &registered)).collect();
        let known: Vec<_> = self.entries()?.into_iter().filter_map(|entry| whose(&entry.directory)).collect();
        let name = |branch: &str| branch.rsplit('/').next().unwrap_or(branch).to_owned();
        let is_known =
            |mark: &Mark| known.contains(&(mark.attempt.to_string(), name(&mark.branch.to_string())));
        for one in &registered {
            let Some(mark) = one.workspace().filter(|mark| !is_known(mark)) else { continue };
            let path = &one.checkout.place.path;
            let shown = shell_quote(path.display().to_string());
            flaws.push(Flaw {
                subject: path.display().to_string(),
                branch: Some(mark.branch.to_string()),
                what: format!("the record of its workspace is gone (run {})", mark.attempt),
                next: format!(
                    "take out what you need, then: `git worktree unlock {shown} && git worktree remove {shown}`"
                ),
                is_left: true,
                due: None,
            });
        }
        // No other run of this host begins a step then.
        for context in self.contexts()? {
            let Some((what, next)) = self.cut_off_change(&context)? else { continue };
            let (subject, branch) = (context.handle(), Some(context.branch_name.clone()));
            flaws.push(Flaw { subject, branch, what, next, is_left: false, due: None });
        }
        let lasting = self.lasting()?;
        let all = self.repo.kept_worktrees().map_err(|error| Refusal::because("list worktrees", &error))?;
        let kept = all.into_iter().filter_map(|kept| {
            let its = lasting.iter().find(|one| one.has_left(&kept))?;
            Some((kept.checkout.place.path.clone(), its.handle.clone(), kept.why))
        });
        Ok(Condition { count: entries.len(), flaws, kept: kept.collect() })
    }

    /// The runs that have, or had, a workspace of this repository.
    pub fn lasting(&self) -> Result<Vec<Lasting>, Refusal> {
        let contexts = self.contexts()?;
        Ok(contexts
            .iter()
            .map(|context| Lasting {
                run: context.run(),
                branch: context.branch(),
                handle: context.handle(),
                path: context.worktree_path.clone(),
            })
            .collect())
    }

    /// The contexts of this repository that can be used, with those that were removed.
    pub(super) fn contexts(&self) -> Result<Vec<Context>, Refusal> {
        let removed = self.removed()?;
        let all = self.all()?.into_iter().chain(removed).filter_map(|entry| entry.context.ok());
        // One that was removed may have been made again.
        let mut seen = BTreeSet::new();
        let is_first = |context: &Context| seen.insert((context.handle(), context.worktree_path.clone()));
        Ok(all.filter(|context| self.foreign_owner(context).is_none()).filter(is_first).collect())
    }

    fn registered(&self) -> Result<Vec<Registered>, Refusal> {
        self.repo.workspace_worktrees().map_err(|error| Refusal::because("list worktrees", &error))
    }

    fn flaw(&self, entry: &Entry, registered: &[Registered]) -> Option<Flaw> {
        let context = match &entry.context {
            Ok(context) => context,
            Err(Fault { file, why }) => return Some(unreadable(file, why)),
        };
        if !self.is_free(context) {
            return None;
        }
        let handle = context.handle();
        let flaw = |what: String, next: String, is_left: bool| Flaw {
            subject: handle.clone(),
            branch: Some(context.branch_name.clone()),
            what,
            next,
            is_left,
            due: None,
        };
        if let Some((what, next)) = self.due(context) {
            return Some(Flaw { due: Some(Box::new(context.clone())), ..flaw(what.to_owned(), next, true) });
        }
        if let Some((what, next)) = moved(context, registered) {
            return Some(flaw(what, next, true));
        }
        if let Some((what, next)) = self.unread(context) {
            return Some(flaw(what, next, false));
        }
        let facts = self.facts(context, registered);
        if let Some(broken) = judge(facts) {
            let next = broken.next(context, self.newest_noted(context));
            return Some(flaw(broken.words().to_owned(), next, broken.is_left()));
        }
        let its = registered.iter().find(|one| one.workspace() == Some(&context.mark()));
        if let Some(what) = its.and_then(|its| self.unsettled(context, &its.checkout.place)) {
            let next = format!(
                "if nobody works there, `aynig workspace snapshot {}` sets it right",
                shell_quote(&handle)
            );
            return Some(flaw(what, next, false));
        }
        let checked = self.check_branch(context).and_then(|()| self.check_settings(context));
        let Refusal { message, hints, .. } = checked.err()?;
        let what = message.strip_suffix("; nothing was changed").unwrap_or(&message);
        Some(flaw(what.to_owned(), hints.join("; "), false))
    }

    /// The part of a workspace that cannot be read and is not lost, with the next step. Nothing is to be set right then.
    fn unread(&self, context: &Context) -> Option<(String, String)> {
        let branch = context.branch();
        let tip = match self.repo.branch_head(&branch) {
            Ok(tip) => tip,
            Err(error) => match self.repo.damage_of(branch.full_ref().as_bstr()) {
                Some(damaged) if damaged.is_lost() => None,
                _ => return Some((error_chain(&error), "`aynig doctor` names the next step".to_owned())),
            },
        };
        let mut commits =
            [Some(context.base()), tip, CommitId::parse_hex(&context.head_sha)].into_iter().flatten();
        if commits.all(|commit| self.repo.commit(commit).is_ok()) {
            return None;
        }
        self.repo.unread_objects().map(|unread| (unread.to_string(), unread.next()))
    }

    /// What a snapshot would have to set right in a worktree that is complete.
    fn unsettled(&self, context: &Context, place: &Workplace) -> Option<String> {
        if self.repo.is_unfinished(&place.git_dir) {
            let begun = Repo::unconcluded(&place.git_dir).map_or("a rebase or bisect", |begun| begun.what);
            return Some(format!("{begun} in it was not concluded"));
        }
        match place.branch() {
            Some(branch) if branch == context.branch() => None,
            Some(other) => Some(format!("it is on {other}")),
            None => Some("its HEAD is detached".to_owned()),
        }
    }

    /// What is wrong with workspaces, by their handles.
    pub fn faults(&self, contexts: &[&Context]) -> Result<BTreeMap<String, String>, Refusal> {
        let registered = self.registered()?;
        let all = contexts.iter().filter_map(|context| {
            let entry = Entry { directory: self.directory(context), context: Ok((*context).clone()) };
            self.flaw(&entry, &registered).map(|flaw| (flaw.subject, flaw.what))
        });
        Ok(all.collect())
    }

    /// What is due in a workspace, and the command that finishes it.
    pub(super) fn due(&self, context: &Context) -> Option<(&'static str, String)> {
        let what = "was changed, and the ledger of its run has not heard of that";
        due(context).or_else(|| self.is_behind(context).then(|| (what, finishes("finishes"))))
    }

    fn facts(&self, context: &Context, registered: &[Registered]) -> Facts {
        let path = &context.worktree_path;
        let mark = context.mark();
        let its = registered.iter().find(|one| one.workspace() == Some(&mark));
        let mut place = its.map(|one| one.checkout.place.clone());
        let is_named = place.as_ref().is_some_and(|place| place.path == *path);
        if let Some(place) = &mut place {
            place.path.clone_from(path);
        }
        Facts {
            has_base: self.repo.commit(context.base()).is_ok(),
            has_branch: self.repo.branch_head(&context.branch()).is_ok_and(|head| head.is_some()),
            there: match path.symlink_metadata() {
                Ok(found) if found.is_dir() => There::Directory,
                Ok(_) => There::Other,
                Err(_) => There::Nothing,
            },
            is_registered: place.is_some(),
            is_named,
            is_linked: place.as_ref().is_some_and(|place| place.names_its_registration()),
            is_another_repository: place.is_some_and(|place| place.is_another_repository()),
        }
    }
}

/// What a dead process left due in a workspace, and the command that finishes it.
fn due(context: &Context) -> Option<(&'static str, String)> {
    let what = match context.state {
        State::Preparing => "was never complete, and its maker is gone",
        State::Removing => "was to be removed, and that was interrupted",
        State::Removed => "was removed, and the last steps of that are due",
        State::Ready if context.pending.is_some() => "was to be made anew, and that was interrupted",
        State::Ready => return None,
    };
    let word = if context.state == State::Preparing { "undoes" } else { "finishes" };
    Some((what, finishes(word)))
}

fn finishes(word: &str) -> String {
    format!("`aynig clean --workspaces --apply` {word} that, as does any change of a workspace")
}

fn unreadable(file: &Path, why: &str) -> Flaw {
    let shown = shell_quote(file.display().to_string());
    let next = if why.contains("has version") {
        "use the aynig that wrote it; this one leaves it alone".to_owned()
    } else {
        format!("take it out of the way: `mv {shown} {shown}.damaged`; its branch and its worktree stay")
    };
    Flaw {
        subject: file.display().to_string(),
        branch: None,
        what: format!("it cannot be used: {why}"),
        next,
        is_left: true,
        due: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CONTRACT 15.13
    #[test]
    fn what_is_wrong() {
        let fine = Facts {
            has_base: true,
            has_branch: true,
            there: There::Directory,
            is_registered: true,
            is_named: true,
            is_linked: true,
            is_another_repository: false,
        };
        let gone = Facts { there: There::Nothing, is_linked: false, ..fine };
        for (given, wanted) in [
            (fine, None),
            (Facts { has_base: false, ..gone }, Some(Broken::NoBase)),
            (gone, Some(Broken::NoWorktree)),
            (Facts { has_branch: false, ..gone }, Some(Broken::Gone)),
            (Facts { is_registered: false, is_named: false, ..gone }, Some(Broken::NoWorktree)),
            (Facts { there: There::Other, ..fine }, Some(Broken::NoDirectory)),
            (Facts { is_registered: false, is_linked: false, ..fine }, Some(Broken::Unregistered)),
            (
                Facts { is_another_repository: true, is_linked: false, ..fine },
                Some(Broken::AnotherRepository),
            ),
            (Facts { is_named: false, ..fine }, Some(Broken::Misnamed)),
            (Facts { is_linked: false, has_branch: false, ..fine }, Some(Broken::Unlinked)),
            (Facts { has_branch: false, ..fine }, Some(Broken::NoBranch)),
        ] {
            assert_eq!(judge(given), wanted, "{given:?}");
        }
    }
}
