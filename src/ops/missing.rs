//! Suggests the next step if a branch does not exist, or has nothing to show yet.
//!
//! Invariant: a suggested command names the branch that the user named, and so acts on no other. Read-only subcommands
//! never suggest creating a branch.

use crate::contract::alike::{nearest, nearest_command};
use crate::contract::carried::of_one_request;
use crate::contract::ids::{BranchName, CommitId, RemoteName, StateName};
use crate::contract::lease::requested_seconds;
use crate::contract::message::Message;
use crate::contract::titles::default_subject;
use crate::contract::trailers::Trailer;
use crate::git::Repo;
use crate::git::objects::commits::Stored;
use crate::ledger::Tip;
use crate::ledger::runs::find;
use crate::model::run::Run;
use crate::runner::authority::Authority;
use crate::words::{no_commit, shell_quote};

use super::error::{Error, Kind};
use super::outer::OuterCommand;
use super::runs;

/// The use a branch was looked up for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Read it.
    Read,
    /// Put a commit on it.
    Write,
}

/// Returns the options by which another call acts on this branch, each after a space. They are
/// empty if the call does so without options.
pub fn options(repo: &Repo, authority: &Authority, branch: &BranchName) -> String {
    let here = || repo.checkout().and_then(|here| here.branch);
    match authority.source() {
        None if matches!(OuterCommand::of(repo), Ok(None)) && here().as_ref() == Some(branch) => {
            String::new()
        }
        None => format!(" --branch {}", shell_quote(branch)),
        Some(remote) => {
            format!(" --branch {} --remote {}", shell_quote(branch), shell_quote(remote.as_str()))
        }
    }
}

/// Returns the call that requests the state `near` in place of the mistyped `state`, with the rest of its commit: also
/// with what such a call does not take over by itself.
pub fn corrected(
    repo: &Repo,
    authority: &Authority,
    (branch, commit): (&BranchName, &Stored),
    (state, near): (&StateName, &str),
) -> String {
    let Message { subject, trailers, .. } = Message::parse(&commit.message);
    let mut line = format!(
        "aynig set-state{} --state {} --keep-body --keep-trailers=all",
        options(repo, authority, branch),
        shell_quote(near)
    );
    if subject != default_subject(state) {
        line += &format!(" --subject {}", shell_quote(&subject));
    }
    if let Ok(Some(seconds)) = requested_seconds(&trailers) {
        line += &format!(" --lease-seconds {seconds}");
    }
    for Trailer { key, value } in of_one_request(&trailers) {
        line += &format!(" --trailer {}", shell_quote([key.as_slice(), b": ", value].concat()));
    }
    format!("`{line}`")
}

/// Returns the message for a branch without a state event.
pub fn no_event(repo: &Repo, authority: &Authority, branch: &BranchName) -> String {
    let options = options(repo, authority, branch);
    format!("{branch} has no state event yet; `aynig set-state{options} --state STATE` makes one")
}

/// Returns the command in the tree of an `.aynig`, of any role, that `state` is probably a misspelling of.
pub fn command(repo: &Repo, aynig: CommitId, state: &StateName) -> Option<String> {
    let paths = repo.paths_in(aynig).unwrap_or_default();
    let names =
        paths.iter().filter_map(|path| Some(format!("/{path}").split_once("/command/")?.1.to_owned()));
    nearest_command(state.as_str(), names)
}

/// The roles in the tree of an `.aynig` that have a command for `state`.
pub fn roles_for(repo: &Repo, aynig: CommitId, state: &StateName) -> Vec<String> {
    let end = format!("/command/{state}");
    let paths = repo.paths_in(aynig).unwrap_or_default();
    let role = |path: &String| Some(path.strip_prefix("roles/")?.strip_suffix(&end)?.to_owned());
    paths.iter().filter_map(role).filter(|role| !role.contains('/')).collect()
}

/// Explains why there is nothing to read at a branch, and suggests the one that was probably meant.
pub fn missing(repo: &Repo, authority: &Authority, branch: &BranchName, want: Purpose) -> Error {
    let remote = authority.source();
    let tips = repo.branches().unwrap_or_default();
    if remote.is_none() {
        let tip = tips.iter().find(|tip| tip.branch == *branch);
        if let Some(target) = tip.and_then(|tip| tip.target.as_ref().err()) {
            let error = Error::usage(format!("branch {branch} is a symbolic ref to {target}"));
            return error.hint(match repo.leads_to(target) {
                Some(there) => format!("name the branch that it leads to: --branch {}", shell_quote(&there)),
                None => {
                    let name = shell_quote(branch.full_ref().to_string());
                    format!("no branch with a commit is there: `git symbolic-ref --delete {name}` removes it")
                }
            });
        }
        if let Some(unlisted) = repo.unlisted(branch) {
            let message = format!("branch {branch} {}", unlisted.why());
            return Error::new(Kind::NotFound, message).hint(unlisted.next());
        }
        if repo.checkout().and_then(|here| here.branch).as_ref() == Some(branch) {
            return Error::setup(format!("branch {branch} has no commit yet"))
                .hint("make its first one: `git commit`, with the commands it is to have");
        }
    }
    let (place, names): (_, Vec<String>) = match remote {
        Some(remote) => {
            (format!("on {remote}"), repo.known_branches(remote).iter().map(ToString::to_string).collect())
        }
        None => (
            format!("in {}", repo.common_dir().display()),
            tips.iter().map(|tip| tip.branch.to_string()).collect(),
        ),
    };
    let mut error = Error::new(Kind::NotFound, format!("there is no branch {branch} {place}"));
    if let Some(run) = run_of_name(repo, &branch.to_string()) {
        let shows = runs::shows(&run);
        return error.hint(format!("{} is a run: `{shows}` shows what it waits for", run.slug));
    }
    let short = shortened(branch, remote);
    if short != branch.to_string() && names.contains(&short) {
        return error.hint(format!("name it without what is before it: `--branch {}`", shell_quote(&short)));
    }
    if remote.is_none() {
        // In a clone the remote's branch was meant. A local one would only hide it.
        let tracked = tracked(repo, branch);
        if !tracked.is_empty() {
            return tracked
                .iter()
                .map(|(remote, there)| tracked_hint(remote, there, branch))
                .fold(error, Error::hint);
        }
    }
    let is_here = matches!(repo.branch_head(branch), Ok(Some(_)));
    if let Some(remote) = remote.filter(|_| is_here) {
        let pushed = shell_quote(branch.to_string());
        error = error.hint(format!("it is only here: `git push {remote} {pushed}` brings it there"));
    } else if let Some(near) = nearest(&branch.to_string(), &names) {
        error = error.hint(format!("did you mean {near}?"));
    } else if want == Purpose::Write
        && let Some(remote) = remote
        && !branch.to_string().starts_with("refs/")
    {
        // Only git creates branches of a remote (CONTRACT 5.20).
        error = error.hint(format!(
            "to create it from what is checked out here: `git push {remote} {}`",
            shell_quote(format!("HEAD:refs/heads/{branch}"))
        ));
    }
    if remote.is_none() {
        error = elsewhere(repo, branch).into_iter().fold(error, Error::hint);
    }
    match remote {
        Some(remote) => error.hint(format!("`git ls-remote --heads {remote}` lists its branches")),
        None if tips.is_empty() => error.hint(no_commit(repo.is_bare())),
        None => error.hint("`git branch` lists the branches there are"),
    }
}

/// Returns the run with this slug or id. Its branches have longer names.
fn run_of_name(repo: &Repo, name: &str) -> Option<Run> {
    let id = find(repo, name).ok()?;
    let run = Tip::read_run(repo, id, runs::head(repo, id).ok()??).ok()?.state.run;
    name.starts_with(run.slug.as_str()).then_some(run)
}

/// An error about a branch that is missing. If the name is that of a run, the hint is what `command` does for it.
pub(super) fn for_run(
    repo: &Repo,
    branch: &BranchName,
    error: Error,
    command: impl Fn(&Run) -> Option<String>,
) -> Error {
    let run = run_of_name(repo, &branch.to_string()).filter(|_| error.kind == Kind::NotFound);
    match run.and_then(|run| Some(format!("{} is a run: {}", run.slug, command(&run)?))) {
        Some(words) => Error { hints: vec![words], ..error },
        None => error,
    }
}

/// Returns the branches of remotes that were probably meant, and the remotes that nothing was fetched from yet.
fn elsewhere(repo: &Repo, branch: &BranchName) -> Vec<String> {
    let names = repo.remote_names();
    let remotes = names.iter().filter_map(|name| RemoteName::parse(name).ok());
    let hint = |remote: RemoteName| {
        let known: Vec<String> = repo.known_branches(&remote).iter().map(ToString::to_string).collect();
        let name = shell_quote(remote.as_str());
        if known.is_empty() {
            return Some(format!("nothing was fetched from {remote} yet: `git fetch {name}`"));
        }
        let near = nearest(&branch.to_string(), &known)?;
        Some(format!("did you mean {near} of {remote}? add `--remote {name}`"))
    };
    remotes.filter_map(hint).collect()
}

/// Returns each remote that has the branch, with its name there. It may be written as git shows it, after the name of
/// the remote.
pub fn tracked(repo: &Repo, branch: &BranchName) -> Vec<(RemoteName, String)> {
    let names = repo.remote_names();
    let remotes = names.iter().filter_map(|name| RemoteName::parse(name).ok());
    let found = remotes.filter_map(|remote| {
        let names = [shortened(branch, Some(&remote)), branch.to_string()];
        let known = repo.known_branches(&remote);
        let there = names.into_iter().find(|name| known.iter().any(|known| known.to_string() == *name))?;
        Some((remote, there))
    });
    found.collect()
}

fn tracked_hint(remote: &RemoteName, there: &str, branch: &BranchName) -> String {
    let mut options = format!("--remote {}", shell_quote(remote.as_str()));
    if there != branch.to_string() {
        options = format!("{options} --branch {}", shell_quote(there));
    }
    format!("{remote} has one: name it with `{options}`")
}

/// Removes `refs/heads/` from a name, and for a remote also `refs/remotes/REMOTE/` and `REMOTE/`.
fn shortened(branch: &BranchName, remote: Option<&RemoteName>) -> String {
    let name = branch.to_string();
    let rest = name.strip_prefix("refs/").unwrap_or(&name);
    let of_remote = remote.and_then(|remote| {
        rest.strip_prefix("remotes/").unwrap_or(rest).strip_prefix(remote.as_str())?.strip_prefix('/')
    });
    rest.strip_prefix("heads/").or(of_remote).unwrap_or(&name).to_owned()
}
