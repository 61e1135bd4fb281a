//! The next step where a branch is not there, or has nothing to show yet.
//!
//! Invariant: a command that is suggested names the branch that was asked about, so that whoever types it acts on no other; and to
//! somebody who only looks nothing is suggested that makes a branch of a mistyped name. Which branch is meant is left to `target`.

use bstr::ByteSlice;

use crate::contract::alike::nearest;
use crate::contract::ids::{BranchName, RemoteName};
use crate::git::Repo;
use crate::runner::arbiter::Arbiter;
use crate::runner::typed;

use super::error::CommandError;
use super::target::Inside;

/// What is said where there is nothing to look at yet.
pub const NO_COMMIT: &str = "no branch has a commit yet; make one: `git commit --allow-empty -m 'Begin'`";

/// What a branch was wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// To look at it.
    Read,
    /// To put a commit on it.
    Write,
}

/// The options by which another call acts on this very branch, each with a space before it; none where it does so anyway.
pub fn options(repo: &Repo, arbiter: &Arbiter, branch: &BranchName) -> String {
    let here = || repo.checkout().and_then(|here| here.branch);
    match arbiter.source() {
        None if matches!(Inside::of(repo), Ok(None)) && here().as_ref() == Some(branch) => String::new(),
        None => format!(" --branch {}", typed(&branch.to_string())),
        Some(remote) => {
            format!(" --branch {} --remote {}", typed(&branch.to_string()), typed(remote.as_str()))
        }
    }
}

/// What is said of a branch that has no state event.
pub fn no_event(repo: &Repo, arbiter: &Arbiter, branch: &BranchName) -> String {
    let options = options(repo, arbiter, branch);
    format!("{branch} has no state event yet; `aynig set-state{options} --state STATE` makes one")
}

/// Why there is nothing to read at a branch, and what was probably meant.
pub fn missing(repo: &Repo, arbiter: &Arbiter, branch: &BranchName, want: Want) -> CommandError {
    match arbiter.source() {
        Some(remote) => missing_on(repo, remote, branch, want),
        None => missing_here(repo, branch, want),
    }
}

fn missing_on(repo: &Repo, remote: &RemoteName, branch: &BranchName, want: Want) -> CommandError {
    let mut error = CommandError::usage(format!("there is no branch {branch} on {remote}"));
    let names: Vec<String> = repo.known_branches(remote).iter().map(ToString::to_string).collect();
    if let Some(short) = shortened(branch, Some(remote)).filter(|short| names.contains(short)) {
        return error.hint(format!("name it without what is before it: `--branch {}`", typed(&short)));
    }
    if let Some(near) = nearest(&branch.to_string(), &names) {
        error = error.hint(format!("did you mean {near}?"));
    }
    if want == Want::Write {
        let full = typed(&format!("HEAD:refs/heads/{branch}"));
        error = error.hint(format!("make it there, of what is checked out here: `git push {remote} {full}`"));
    }
    error.hint(format!("`git ls-remote --heads {remote}` lists its branches"))
}

fn missing_here(repo: &Repo, branch: &BranchName, want: Want) -> CommandError {
    let tips = repo.branches().unwrap_or_default();
    let target = tips.iter().find(|tip| tip.branch == *branch).and_then(|tip| tip.target.as_ref().err());
    if let Some(target) = target {
        let target = target.to_str_lossy().into_owned();
        let short = target.strip_prefix("refs/heads/").unwrap_or(&target).to_owned();
        return CommandError::usage(format!("branch {branch} is a symbolic ref to {target}"))
            .hint(format!("name that one: --branch {}", typed(&short)));
    }
    if repo.checkout().and_then(|here| here.branch).as_ref() == Some(branch) {
        return CommandError::setup(format!("branch {branch} has no commit yet"))
            .hint("make its first one: `git commit`, with the commands it is to have");
    }
    let mut error =
        CommandError::usage(format!("there is no branch {branch} in {}", repo.common_dir().display()));
    let names: Vec<String> = tips.iter().map(|tip| tip.branch.to_string()).collect();
    if let Some(short) = shortened(branch, None).filter(|short| names.contains(short)) {
        return error.hint(format!("name it without what is before it: `--branch {}`", typed(&short)));
    }
    let tracked = tracked(repo, branch);
    if !tracked.is_empty() {
        // In a clone that is what was meant: to make the branch here would only hide the other one.
        return tracked.into_iter().fold(error, |error, (remote, there)| {
            let mut options = format!("--remote {}", typed(remote.as_str()));
            if there != *branch {
                options = format!("{options} --branch {}", typed(&there.to_string()));
            }
            error.hint(format!("{remote} has one: name it with `{options}`"))
        });
    }
    if let Some(near) = nearest(&branch.to_string(), &names) {
        error = error.hint(format!("did you mean {near}?"));
    }
    if want == Want::Write && !branch.to_string().starts_with("refs/") {
        let make = format!("git branch {}", typed(&branch.to_string()));
        error = error.hint(match repo.parse_commit("HEAD") {
            Some(_) => format!("make it: `{make}`"),
            None if tips.is_empty() => format!("{NO_COMMIT}, then `{make}`"),
            // What is checked out here has no commit to make it of.
            None => format!("make it, of a commit there is: `{make} START`"),
        });
    }
    if tips.is_empty() {
        return error;
    }
    error.hint("`git branch` lists the branches there are")
}

/// The remotes that have a branch of this name, and what it is called there: it may have been named as git shows it, with the remote
/// before it.
fn tracked(repo: &Repo, branch: &BranchName) -> Vec<(RemoteName, BranchName)> {
    let mut found: Vec<_> =
        repo.remotes_with(branch).into_iter().map(|remote| (remote, branch.clone())).collect();
    let names = repo.remote_names();
    let remotes = names.iter().filter_map(|name| RemoteName::parse(name).ok());
    found.extend(remotes.filter_map(|remote| {
        let there = BranchName::new(shortened(branch, Some(&remote))?.as_bytes()).ok()?;
        repo.remotes_with(&there).contains(&remote).then_some((remote, there))
    }));
    found
}

/// The name without `refs/heads/`; with a remote, also without `refs/remotes/REMOTE/` and `REMOTE/`.
fn shortened(branch: &BranchName, remote: Option<&RemoteName>) -> Option<String> {
    let name = branch.to_string();
    let of_remote = |remote: &RemoteName| {
        let rest = name.strip_prefix("refs/remotes/").unwrap_or(&name);
        rest.strip_prefix(remote.as_str())?.strip_prefix('/').map(str::to_owned)
    };
    let local = name.strip_prefix("refs/heads/").or_else(|| name.strip_prefix("heads/"));
    remote.and_then(of_remote).or_else(|| local.map(str::to_owned))
}
