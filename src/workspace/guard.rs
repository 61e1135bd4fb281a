//! Whose a workspace is, and what its branch must be before it is moved (CONTRACT 15.10, 15.11).

use std::path::{Path, PathBuf};

use crate::contract::ids::BranchName;
use crate::git::worktrees::registration::{named_by, same_place};
use crate::words::shell_quote;

use super::Workspaces;
use super::context::Context;
use super::refusal::{Refusal, Why};

impl Workspaces<'_> {
    /// The git directory of the other repository that a workspace belongs to; `None`: it is ours.
    pub(super) fn foreign_owner(&self, context: &Context) -> Option<PathBuf> {
        let link = context.worktree_path.join(".git");
        let lists = |registration: &Path| {
            named_by(&registration.join("gitdir")).is_some_and(|named| same_place(&named, &link))
        };
        let is_other =
            |git_dir: &Path| git_dir.join("HEAD").is_file() && !same_place(git_dir, self.repo.common_dir());
        if let Some(registration) = named_by(&link).filter(|registration| lists(registration))
            && let Some(git_dir) = registration.parent().and_then(Path::parent)
            && is_other(git_dir)
        {
            return Some(git_dir.to_owned());
        }
        if same_place(&context.repo_root, self.repo.top()) {
            return None;
        }
        let git_dir = git_dir_at(&context.repo_root);
        if !is_other(&git_dir) {
            return None;
        }
        // This repository may have been moved, and another one be where it was.
        let all = std::fs::read_dir(git_dir.join("worktrees")).into_iter().flatten().flatten();
        let is_its = all.into_iter().any(|entry| lists(&entry.path()));
        (is_its || self.registrations(context).is_empty()).then_some(git_dir)
    }

    /// The refusal to touch a workspace of another repository.
    pub(super) fn foreign(&self, context: &Context, owner: &Path) -> Refusal {
        let (handle, directory) = (context.handle(), self.directory(context));
        let message = format!(
            "{handle} is a workspace of another repository, {}, and not of {}; nothing was changed",
            owner.display(),
            self.repo.common_dir().display()
        );
        let refusal = Refusal::new(Why::Conflict, message)
            .hint("`aynig workspace create` makes one of this repository; use that one in its own");
        if directory.starts_with(self.repo.common_dir()) {
            let directory = shell_quote(directory.display().to_string());
            return refusal
                .hint(format!("its record here came with a copy, and can go: `rm -r {directory}`"));
        }
        refusal
    }

    /// Refuses to go on if the work branch cannot be moved, or would be moved under another checkout.
    pub(super) fn check_branch(&self, context: &Context) -> Result<(), Refusal> {
        let (branch, name) = (context.branch(), &context.branch_name);
        let trying = format!("look at {branch}");
        let because = |error: &dyn std::error::Error| Refusal::because(&trying, error);
        let in_the_way = |other: &str| {
            let message = format!("the branch {other} is in the way of {branch}; nothing was changed");
            let rename = format!("git branch --move {} NAME", shell_quote(other));
            Refusal::new(Why::Conflict, message).hint(format!("rename it: `{rename}`; then again"))
        };
        for (at, _) in name.match_indices('/') {
            let Ok(above) = BranchName::new(&name.as_bytes()[..at]) else { continue };
            if self.repo.branch_head(&above).map_err(|error| because(&error))?.is_some() {
                return Err(in_the_way(&above.to_string()));
            }
        }
        let (above, last) = name.rsplit_once('/').unwrap_or_default();
        for tip in self.repo.tips(&format!("refs/heads/{above}/")).map_err(|error| because(&error))? {
            let found = tip.branch.to_string();
            if found.strip_prefix(last).is_some_and(|rest| rest.starts_with('/')) {
                return Err(in_the_way(&format!("{above}/{found}")));
            }
            if let Err(target) = tip.target
                && found == last
            {
                let message = format!("{branch} is a symbolic ref to {target}; nothing was changed");
                let delete = format!("git symbolic-ref -d {}", shell_quote(format!("refs/heads/{name}")));
                return Err(Refusal::new(Why::Conflict, message)
                    .hint(format!("`{delete}` removes it, and {target} stays as it is; then again")));
            }
        }
        let its = self.registrations(context);
        let others = self.repo.checkouts_of(&branch).map_err(|error| because(&error))?;
        let other = others.into_iter().map(|other| other.place).find(|place| {
            !its.contains(&place.git_dir) && place.path != context.worktree_path && place.path.is_dir()
        });
        let Some(other) = other else { return Ok(()) };
        let message =
            format!("{branch} is checked out at {} as well; nothing was changed", other.path.display());
        let shown = shell_quote(other.path.display().to_string());
        let next = if other.branch().as_ref() == Some(&branch) {
            format!(
                "put that checkout on another branch, or detach it: `git -C {shown} switch --detach`; then again"
            )
        } else {
            format!(
                "a rebase or bisect of it is under way there; conclude it (`git -C {shown} status` shows how), then again"
            )
        };
        Err(Refusal::new(Why::Conflict, message).hint(next))
    }

    /// The registrations of a workspace in this repository.
    fn registrations(&self, context: &Context) -> Vec<PathBuf> {
        let all = self.repo.worktrees_of(&context.mark()).unwrap_or_default();
        all.into_iter().map(|one| one.checkout.place.git_dir).collect()
    }
}

/// The git directory of the repository whose top is `top`.
fn git_dir_at(top: &Path) -> PathBuf {
    let inside = top.join(".git");
    if inside.is_dir() { inside } else { named_by(&inside).unwrap_or_else(|| top.to_owned()) }
}
