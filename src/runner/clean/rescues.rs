//! Cleans rescue refs whose work is in a branch by now.
//!
//! Invariant: a ref whose work is in no branch is removed only at an age the user gave. Each ref is removed
//! by a compare-and-swap right after its check.

use bstr::{BString, ByteSlice};

use crate::contract::ids::{BranchName, CommitId};
use crate::contract::layout::{RESCUED_LEDGERS, RUNS, short};
use crate::contract::retention::age_words;
use crate::git::objects::landed::LandedError;
use crate::git::worktrees::preserved::RescueRef;
use crate::git::{Repo, Swap};

use super::item::{CleanError, CleanOptions, Item, Kind, age, words};
use crate::runner::attempt::files;
use crate::runner::clean::settled;
use crate::runner::clean::settled::Of;
use crate::runner::{error_chain, shell_quote, shows_rescued};

pub(crate) fn clean(repo: &Repo, wanted: &CleanOptions) -> Result<Vec<Item>, CleanError> {
    let mut items = Vec::new();
    for rescue in repo.rescue_refs()? {
        items.push(one(repo, wanted, &rescue));
    }
    Ok(items)
}

fn one(repo: &Repo, wanted: &CleanOptions, rescue: &RescueRef) -> Item {
    let mut item = Item::new(Kind::Rescue, rescue.name.to_string()).of(&rescue.branch);
    let stored = match repo.commit(rescue.commit) {
        Ok(stored) => stored,
        Err(error) => return item.stays(error.to_string(), "git fsck"),
    };
    let seconds_old = age(stored.committed_at, wanted.now);
    item.age = Some(seconds_old);
    if is_held(repo, rescue) {
        let why = "its hub has set the ledger back, and the run is held";
        return item.stays(why, "`aynig flow list` shows it, with what can be done");
    }
    if let Some(attempt) = rescue.attempt {
        let (lease, remote) =
            files::find(repo, attempt).map(|record| settled::of_record(repo, &record)).unwrap_or_default();
        let of = Of { attempt, branch: &rescue.branch, remote: remote.as_ref(), lease };
        if let Err(unsettled) = settled::settled(repo, of) {
            return item.stays(unsettled.why, unsettled.next);
        }
    }
    let item = match landed(repo, wanted, rescue.commit, Some(&rescue.branch)) {
        Err(error) => return item.stays(error_chain(&error), "git fsck"),
        Ok(Some(how)) => item.goes(how),
        Ok(None) => match wanted.older_than {
            Some(limit) if seconds_old > limit => item.goes(format!(
                "its work is in no branch, but older than {}, as asked; until git prunes it, `git branch NAME {}` brings it back",
                age_words(limit),
                rescue.commit
            )),
            _ => {
                let name = shell_quote(&rescue.name);
                if rescue.name.starts_with(RESCUED_LEDGERS.as_bytes()) {
                    let shows = format!("`git log {name}` shows it; --older-than lets it go by its age");
                    return item.stays("it is the end of a ledger that its hub has set back", shows);
                }
                // A bare repository has no checkout for a cherry-pick.
                let takes = if repo.is_bare() {
                    format!("`git branch NAME {name}` makes a branch of it, which a clone can fetch and merge")
                } else {
                    format!("`git merge --squash {name}` takes it")
                };
                return item.stays(
                    "its work is in no branch",
                    format!("`{}` shows it, {takes}; --older-than lets it go by its age", shows(repo, rescue)),
                );
            }
        },
    };
    item.carried_out(wanted, || match repo.drop_rescue(rescue).map_err(|error| error_chain(&error))? {
        Swap::Won | Swap::Lost { actual: None } => Ok(None),
        Swap::Lost { actual: Some(_) } => Err("it points at other work now; look again".to_owned()),
    })
}

/// Whether a rescue is the ledger of a run that is held here (CONTRACT 16.11).
fn is_held(repo: &Repo, rescue: &RescueRef) -> bool {
    let run = rescue.name.strip_prefix(RESCUED_LEDGERS.as_bytes()).and_then(|rest| rest.split_once_str("/"));
    let ledger = run.map(|(run, _)| BString::from([RUNS.as_bytes(), run].concat()));
    ledger.is_some_and(|name| repo.read_ref(name.as_bstr()).ok().flatten() == Some(rescue.commit))
}

/// The git command that shows a rescue, with the command's own commits below it that no branch has.
fn shows(repo: &Repo, rescue: &RescueRef) -> String {
    let name = rescue.name.to_string();
    let base = repo.commit(rescue.commit).ok().and_then(|stored| stored.parents.first().copied());
    match base.map(|base| repo.branch_with(base)) {
        Some(Ok(None)) => format!("git log -p --first-parent {} --not --branches", shell_quote(&name)),
        Some(Ok(Some(_)) | Err(_)) | None => shows_rescued(&name),
    }
}

/// Describes which branch contains the work, its staged part included, and how. `None` if no branch does.
pub(crate) fn landed(
    repo: &Repo,
    wanted: &CleanOptions,
    work: CommitId,
    branch: Option<&BranchName>,
) -> Result<Option<String>, LandedError> {
    if let Some(name) = repo.branch_with(work)? {
        return Ok(Some(format!("its commit is in {}", short(&name.to_string()))));
    }
    let mut tips: Vec<(String, CommitId)> = Vec::new();
    if let Some(branch) = branch {
        tips.extend(repo.branch_head(branch)?.map(|tip| (branch.to_string(), tip)));
    }
    tips.extend(wanted.main.iter().map(|(name, tip)| (short(&name.to_string()).to_owned(), *tip)));
    // The second parent holds staged files, on the same base. Further parents are commits of in-progress
    // operations.
    let besides = repo.commit(work)?.parents;
    for (name, tip) in tips {
        let Some(how) = repo.landed(work, tip)? else { continue };
        let mut all_landed = true;
        for beside in besides.iter().skip(1) {
            all_landed &= repo.landed(*beside, tip)?.is_some();
        }
        if !all_landed {
            continue;
        }
        return Ok(Some(format!("its work is in {name}: {}", words(how))));
    }
    Ok(None)
}
