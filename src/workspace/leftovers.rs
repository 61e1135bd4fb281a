//! Finds leftovers of workspaces, for `aynig clean` (CONTRACT 15.14).
//!
//! Invariant: a directory that git does not list is never removed, since nothing says what is in it. An archived
//! branch goes only if that was asked for, and its work is in a branch or as old as asked.

use std::path::Path;

use crate::contract::ids::CommitId;
use crate::contract::layout::{ARCHIVE, ARCHIVED_LEDGER, WORKSPACES};
use crate::fsutil::{self, no_mounts_in};
use crate::git::Swap;
use crate::runner::clean::{Age, CleanOptions, Item, Kind};
use crate::words::{error_chain, shell_quote};

use super::Workspaces;
use super::aside::leftovers;
use super::condition::Flaw;
use super::context::Context;
use super::refusal::Refusal;

impl Workspaces<'_> {
    /// Lists what workspaces left behind, and removes what `wanted` says. Old worktrees that git lists are
    /// [`crate::runner::clean`]'s.
    pub fn leftovers(&self, wanted: &CleanOptions) -> Result<Vec<Item>, Refusal> {
        if !wanted.workspaces {
            return Ok(Vec::new());
        }
        let contexts = self.contexts()?;
        let condition = self.condition()?;
        let mut items = Vec::new();
        for context in &contexts {
            let beside = leftovers(&context.worktree_path, ".kept-");
            for path in beside.iter().filter(|path| condition.kept.iter().all(|(kept, ..)| kept != *path)) {
                items.push(unlisted(wanted, context, path));
            }
            for path in leftovers(&context.worktree_path, ".gone-") {
                let item = of_directory(wanted, context, &path);
                items.push(
                    item.goes("all that was in it is saved, and removing it was interrupted").carried_out(
                        wanted,
                        || match fsutil::remove_all(&path) {
                            Err(error) if path.symlink_metadata().is_ok() => Err(error.to_string()),
                            Ok(()) | Err(_) => Ok(None),
                        },
                    ),
                );
            }
        }
        for flaw in condition.flaws.into_iter().filter(|flaw| flaw.is_left) {
            items.push(self.left(wanted, flaw));
        }
        items.extend(self.archives(wanted, &contexts)?);
        Ok(items)
    }

    /// A workspace that is incomplete.
    fn left(&self, wanted: &CleanOptions, flaw: Flaw) -> Item {
        let mut item = Item::new(Kind::Workspace, flaw.subject);
        item.branch = flaw.branch;
        let Some(context) = flaw.due else { return item.stays(flaw.what, flaw.next) };
        item.goes(flaw.what).carried_out(wanted, || match self.finish_due(&context) {
            Ok(words) => Ok((!words.is_empty()).then(|| words.join("; "))),
            Err(refusal) => Err(refusal.message),
        })
    }

    fn archives(&self, wanted: &CleanOptions, contexts: &[Context]) -> Result<Vec<Item>, Refusal> {
        let tips =
            self.repo.tips(ARCHIVE).map_err(|error| Refusal::because("list archived branches", &error))?;
        let archives = tips.into_iter().filter_map(|tip| Some((tip.branch.to_string(), tip.target.ok()?)));
        Ok(archives.map(|(below, commit)| self.archive_item(wanted, contexts, &below, commit)).collect())
    }

    fn archive_item(
        &self,
        wanted: &CleanOptions,
        contexts: &[Context],
        below: &str,
        commit: CommitId,
    ) -> Item {
        let name = format!("{ARCHIVE}{below}");
        let (run, last) = below.split_once('/').unwrap_or((below, ""));
        let (names, is_ledger) = (named_so(last), last == ARCHIVED_LEDGER);
        let its = |context: &&Context| context.run_id == run && names.contains(&context.name.as_str());
        let context = contexts.iter().find(its);
        let mut item = Item::new(Kind::Archive, name.as_str());
        item.branch = context.map(|context| context.branch_name.clone());
        if names.iter().any(|name| self.directory_of(run, name).exists()) {
            return item.stays("its workspace is not removed yet", "aynig workspace list");
        }
        let of_run = self.runs().join(run);
        if is_ledger && std::fs::read_dir(of_run.join(WORKSPACES)).is_ok_and(|mut all| all.next().is_some()) {
            return item.stays("a workspace of its run is here", "aynig workspace list");
        }
        if is_ledger && of_run.exists() {
            return item.stays("the files of its run are not moved yet", "aynig clean --runs");
        }
        let old = match self.repo.commit(commit) {
            Ok(stored) => Age::since(stored.committed_at, wanted),
            Err(error) => return item.stays(error.to_string(), "git fsck"),
        };
        item.age = Some(old.seconds);
        let quoted = shell_quote(&name);
        let whose = context.map_or_else(String::new, |context| format!(" {}", context.handle()));
        let (why, goes) = match crate::runner::clean::landed(self.repo, wanted, commit, None) {
            Err(error) => return item.stays(error_chain(&error), "git fsck"),
            Ok(Some(how)) => (how, true),
            Ok(None) => ("its work is in no branch".to_owned(), old.is_old),
        };
        let what = if is_ledger {
            format!("the ledger of a run that was deleted; {why}")
        } else {
            format!("the branch of the workspace{whose} that was removed; {why}")
        };
        if !goes || !wanted.workspaces_asked {
            let limit = if goes { "" } else { " --older-than DURATION" };
            return item.stays(
                what,
                format!(
                    "`git log -p {quoted}` shows it, `aynig clean --workspaces --apply{limit}` removes it"
                ),
            );
        }
        item.goes(format!("{what}; until git prunes it, `git branch NAME {commit}` brings it back"))
            .carried_out(wanted, || {
                match self
                    .repo
                    .delete_ref(name.as_str().into(), commit)
                    .map_err(|error| error_chain(&error))?
                {
                    Swap::Won | Swap::Lost { actual: None } => Ok(None),
                    Swap::Lost { actual: Some(_) } => {
                        Err("it points at other work now; look again".to_owned())
                    }
                }
            })
    }
}

/// The names of workspaces whose branch this may be, in the archive: a name that was taken has a number.
fn named_so(last: &str) -> Vec<&str> {
    let plain = last.rsplit_once('-').filter(|(_, number)| number.bytes().all(|c| c.is_ascii_digit()));
    std::iter::once(last).chain(plain.map(|(name, _)| name)).collect()
}

fn of_directory(wanted: &CleanOptions, context: &Context, path: &Path) -> Item {
    let item = Item::new(Kind::Worktree, path.display().to_string()).of(&context.branch_name);
    item.on_disk(path, wanted)
}

/// An old worktree that git does not list, or a file that was at a worktree's place.
fn unlisted(wanted: &CleanOptions, context: &Context, path: &Path) -> Item {
    let item = of_directory(wanted, context, path);
    if let Err(mounted) = no_mounts_in(path) {
        return item.stays("something is mounted in it", mounted.next());
    }
    let shown = shell_quote(path.display().to_string());
    let handle = context.handle();
    if path.is_dir() && !path.is_symlink() {
        let why = format!("an old worktree of the workspace {handle}, which git does not list");
        return item.stays(why, format!("take out what you need, then: `rm -r {shown}`"));
    }
    let why = format!("it was at the place of the worktree of {handle}, and is no directory");
    item.stays(why, format!("take out what you need, then: `rm {shown}`"))
}
