//! The reasons for not running a branch, as sentence fragments for `status`, warnings and the log.
//!
//! Invariant: each fragment names the next step if there is one. Paths and links are quoted as committed; a
//! caller that prints them to a terminal has to sanitize them.

use std::fmt::{Display, Formatter, Result};
use std::path::Path;

use super::verdict::{
    CommandsFrom, Elsewhere, Exclusion, InUse, Invalid, NoCommand, Reason, Source, Unreadable,
};
use crate::clock;
use crate::clock::format_utc;
use crate::contract::bounds::Bound;
use crate::contract::ids::{BranchName, CommitId, RemoteName, StateName};
use crate::git::objects::tree::Unusable;
use crate::words::{pluralize, shell_quote};

/// The states of drivers whose commands carry out a step of a flow, or a turn of a node (CONTRACT 20.2, 22.1).
const DRIVEN: [&str; 2] = ["flow-step", TURN];

const TURN: &str = "orch-turn";

impl Display for Invalid {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Declared { why } => f.write_str(why),
            Self::Unreadable(unreadable) => unreadable.fmt(f),
        }
    }
}

impl Display for Unreadable {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self { commit, error } = self;
        write!(
            f,
            "{error}; `git fsck` and `aynig doctor` name what is damaged, and `git ls-tree -r {commit}` fetches what a partial clone has left out"
        )
    }
}

/// Reports that an expired lease is not closed, for the reason `why`. `head` is the HEAD of its branch.
pub(crate) fn unsigned_lease(
    branch: &BranchName,
    source: Option<&RemoteName>,
    head: CommitId,
    why: &str,
) -> String {
    let next = if_you_vouch(branch, source, head);
    format!("its lease is over and is not closed: {why}; {next}")
}

/// Reports that a branch has reached a bound, with the evidence and the command that asks anew.
pub fn bounded(branch: &BranchName, source: Option<&RemoteName>, bound: &Bound) -> String {
    let remote = source.map(|remote| format!(" --remote {remote}")).unwrap_or_default();
    let branch = shell_quote(branch);
    let look = format!("`aynig log {branch}{remote}` shows them");
    let is_stalled = matches!(bound, Bound::Stalled { .. });
    let next = match Drives::of(&branch).filter(|_| is_stalled) {
        Some(Drives::Flow(slug)) => format!("`aynig flow resume {slug}` asks again"),
        Some(Drives::Node(..)) => format!("`aynig run {branch}{remote}` runs it then"),
        None => format!("`aynig set-state --retry --branch {branch}{remote}` asks again"),
    };
    let at_once = if next.ends_with("then") { "" } else { " at once" };
    let until = bound.until().map(clock::format_utc).unwrap_or_default();
    match bound {
        Bound::Steps { count, since } => format!(
            "it has made {} since {}, as many as aynig.maxSteps allows in an hour; it goes on at {until}; {look}, {next} at once",
            pluralize_long(*count, "step"),
            clock::format_utc(*since)
        ),
        Bound::Rounds { state, count, tree } => format!(
            "{state} was run {} in a row with the same files (tree {}), as often as aynig.maxRounds allows; {look}, {next}",
            pluralize_long(*count, "time"),
            tree.short()
        ),
        Bound::Stalled { count, .. } => format!(
            "the command for stalled has failed {} in a row; it is tried again at {until}; {look}, {next}{at_once}",
            pluralize_long(u64::from(*count), "time")
        ),
    }
}

fn pluralize_long(count: u64, word: &str) -> String {
    pluralize(usize::try_from(count).unwrap_or(usize::MAX), word)
}

/// Names a branch on a command line, with the remote that decides over it.
pub fn named(branch: &BranchName, source: Option<&RemoteName>) -> String {
    let remote = source.map(|remote| format!(" --remote {}", shell_quote(remote.as_str())));
    format!("{}{}", shell_quote(branch), remote.unwrap_or_default())
}

/// The command that runs a branch in the checkout.
pub fn in_place(branch: &BranchName, source: Option<&RemoteName>) -> String {
    format!("aynig run {} --current-branch include", named(branch, source))
}

/// Suggests what to do about a branch whose command for `failed` has failed: look at its output if `is_here`, then request
/// the state again.
pub fn asks_again(
    branch: &BranchName,
    source: Option<&RemoteName>,
    failed: Option<&StateName>,
    is_here: bool,
) -> String {
    let again = requests_again(branch, source, failed);
    if is_here {
        format!("`aynig logs --branch {}` shows what it printed, `{again}` asks again", named(branch, source))
    } else {
        format!("`{again}` asks again; this host has no log of it")
    }
}

/// The run or node that a branch drives, by its name. No other branch has the beginning of an id there.
enum Drives<'a> {
    /// The run of a flow, by its slug.
    Flow(&'a str),
    /// A node of a graph, by the slug of the run and the alias.
    Node(&'a str, &'a str),
}

impl<'a> Drives<'a> {
    fn of(branch: &'a str) -> Option<Self> {
        let (before, name) = branch.rsplit_once('/')?;
        let slug = before.rsplit('/').next()?;
        let is_slug = slug.len() >= 8 && slug.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_slug.then_some(if name == "flow" { Self::Flow(slug) } else { Self::Node(slug, name) })
    }
}

/// Whether a branch has the name of one of a run: its slug is in it.
pub(crate) fn is_of_run(branch: &BranchName) -> bool {
    Drives::of(&branch.to_string()).is_some()
}

/// The slug of the flow's run that a branch drives, by its name.
pub(super) fn driven(branch: &str) -> Option<&str> {
    match Drives::of(branch)? {
        Drives::Flow(slug) => Some(slug),
        Drives::Node(..) => None,
    }
}

/// The command that requests the failed state of a branch again. A driver follows from its ledger: the run of a flow is
/// resumed, and the next pass recovers a node (CONTRACT 20.31).
pub fn requests_again(
    branch: &BranchName,
    source: Option<&RemoteName>,
    failed: Option<&StateName>,
) -> String {
    let is_of_driver = |failed: &StateName| failed.is_stalled() || DRIVEN.contains(&failed.as_str());
    let name = branch.to_string();
    match Drives::of(&name).filter(|_| failed.is_some_and(is_of_driver)) {
        Some(Drives::Flow(slug)) => format!("aynig flow resume {slug}"),
        Some(Drives::Node(..)) => format!("aynig run {}", named(branch, source)),
        None => format!("aynig set-state --retry --branch {}", named(branch, source)),
    }
}

/// The command that requests the state of a leased branch again at once. `None`: a run moves the branch.
pub(crate) fn takes_over(branch: &BranchName, source: Option<&RemoteName>) -> Option<String> {
    (!is_of_run(branch))
        .then(|| format!("aynig set-state --retry --force --branch {}", named(branch, source)))
}

/// The command that requests a state again that hosts have handed back (CONTRACT 6.17).
pub fn requests_handed_back(
    branch: &BranchName,
    source: Option<&RemoteName>,
    state: Option<&StateName>,
) -> String {
    let name = branch.to_string();
    match Drives::of(&name).filter(|_| state.is_some_and(|state| state.as_str() == TURN)) {
        Some(Drives::Node(slug, alias)) => format!("aynig orch node start {slug} {alias}"),
        _ => requests_again(branch, source, state),
    }
}

/// Suggests the command for a branch without a trusted signature, to be used after a review of its HEAD.
pub fn if_you_vouch(branch: &BranchName, source: Option<&RemoteName>, head: CommitId) -> String {
    let remote = source.map(|remote| format!(" --remote {remote}")).unwrap_or_default();
    format!(
        "if you vouch for all that `git show {}` shows, `aynig set-state --retry --accept-unsigned --branch {}{remote}` asks again",
        head.short(),
        shell_quote(branch)
    )
}

impl Display for Exclusion {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::SymbolicRef { branch: Some(branch), .. } => {
                write!(f, "is a symbolic ref to {}; that branch is looked at instead", branch.full_ref())
            }
            Self::SymbolicRef { target, branch: None } => write!(
                f,
                "is a symbolic ref to {target}, which is no branch with a commit; `git symbolic-ref --delete` removes it"
            ),
            Self::BelowWorkPrefix { of_run: true, .. } => {
                f.write_str("is the work branch of a run; what is on it is never run")
            }
            Self::BelowWorkPrefix { prefix, .. } => write!(
                f,
                "is below {prefix} (aynig.workPrefix) like the branches of workspaces, which are never run; a branch that is to be \
                 run needs another name, or workspaces another prefix: `git config aynig.workPrefix PREFIX/`"
            ),
            Self::NotSelected => f.write_str("does not match --branch"),
            Self::NotCurrent => f.write_str("is not the current branch (--current-branch only)"),
            Self::Current => f.write_str(
                "is checked out here; name it and add `--current-branch include` to run it in place",
            ),
        }
    }
}

impl Display for Reason {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::ForeignBranch => f.write_str(
                "it is not one of the branches this runner runs (`git config --get-all aynig.branch`)",
            ),
            Self::ForeignState { state } => write!(
                f,
                "{state} is not one of the states this runner runs (--states, `git config --get-all aynig.states`)"
            ),
            Self::DefaultBranch { branch, remote, here, elsewhere } => {
                let line = run_line(branch, remote.as_ref(), *here, elsewhere.as_deref());
                write!(
                    f,
                    "it is the default branch, which is run only if it is named (`{line}`); `aynig doctor` says what \
                     undoes the state"
                )
            }
            Self::Preferred { runner, until } => write!(
                f,
                "it is left to the runner {runner} until {}; then any runner may run it",
                format_utc(*until)
            ),
            Self::DecidedElsewhere => {
                f.write_str("its run is decided by a remote, so clones with that remote carry it out")
            }
            Self::Cancelled => f.write_str("it was cancelled, so the command for stalled is not run"),
            Self::NoTime { why } | Self::NoAnswers { why } | Self::Unsigned { why } => f.write_str(why),
            Self::CommandsNowhere { why } => f.write_str(why),
            Self::NoCommand(none) => none.fmt(f),
            Self::InUse(in_use) => in_use.fmt(f),
            Self::CheckoutBehind { local } => {
                write!(f, "{local} in this checkout is not at the same commit; pull (or push) first")
            }
            Self::IndexLocked { lock } => write!(
                f,
                "{} is there; wait for the git that is at work, or remove it if there is none",
                lock.display()
            ),
            Self::StagedChanges => f.write_str(
                "has staged changes in this checkout; commit or unstage them first (`git restore --staged :/`)",
            ),
            Self::IndexUnreadable { index, error } => write!(
                f,
                "the index cannot be compared with HEAD: {error}; `git status` should say the same, and where the index is \
                 damaged `rm {} && git reset` makes it anew",
                index.display()
            ),
        }
    }
}

/// Why a deferred state is not delivered to a branch that rests, and the next step.
pub(crate) fn in_the_way(taken: &Reason) -> String {
    match taken {
        Reason::DefaultBranch { branch, remote, here, elsewhere } => {
            let line = run_line(branch, remote.as_ref(), *here, elsewhere.as_deref());
            format!("it is for the default branch, which is moved only if it is named (`{line}`)")
        }
        Reason::InUse(in_use) => match &**in_use {
            InUse::CheckedOut { path } => {
                let switch = format!("git -C {} switch --detach", shell_quote(path.display().to_string()));
                format!("the branch {in_use}; `{switch}` frees it and changes no file")
            }
            InUse::Gone { .. } | InUse::Kept { .. } => format!("the branch {in_use}"),
            InUse::InProgress { .. } | InUse::Attempt { .. } => in_use.to_string(),
        },
        other => other.to_string(),
    }
}

/// The command that runs the default branch: in the checkout that has it, if one does.
fn run_line(
    branch: &BranchName,
    remote: Option<&RemoteName>,
    here: bool,
    elsewhere: Option<&Path>,
) -> String {
    match elsewhere {
        _ if here => in_place(branch, remote),
        None => format!("aynig run {}", named(branch, remote)),
        Some(path) => {
            let (there, line) = (shell_quote(path.display().to_string()), in_place(branch, remote));
            line.replacen("aynig ", &format!("aynig -C {there} "), 1)
        }
    }
}

impl Display for InUse {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::CheckedOut { path } => write!(f, "is checked out in {}", path.display()),
            Self::Gone { path } => write!(
                f,
                "is checked out in {}, which is not there; `git worktree prune` frees it if that is gone for good",
                path.display()
            ),
            Self::Kept { path } => {
                let shown = path.display().to_string();
                let switch = format!("git -C {} switch --detach", shell_quote(&shown));
                write!(
                    f,
                    "is checked out in {shown}, which was kept after an attempt; `{switch}` frees it and changes no file"
                )
            }
            Self::InProgress { path } => {
                let shown = path.display().to_string();
                let status = format!("git -C {} status", shell_quote(&shown));
                write!(
                    f,
                    "a rebase or bisect of it is under way in {shown}; `{status}` shows how to conclude it"
                )
            }
            Self::Attempt { attempt, path } => {
                write!(f, "attempt {attempt} is still in its worktree {}", path.display())
            }
        }
    }
}

impl Display for NoCommand {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Missing { tried, source } => missing(f, source, tried),
            Self::Elsewhere { commit, found } => only_elsewhere(f, *commit, found),
            Self::Unusable { path, source: Source::Head(_), what } => unusable_in_head(f, path, what),
            Self::Unusable { path, source: Source::Trusted(from), what } => {
                unusable_in_trusted(f, from, path, what)
            }
            Self::Unusable { path, source: Source::Disk, what } => unusable_on_disk(f, path, what),
            Self::Unreadable(unreadable) => unreadable.fmt(f),
        }
    }
}

fn missing(f: &mut Formatter<'_>, source: &Source, tried: &[String]) -> Result {
    f.write_str("no command for this state: ")?;
    match source {
        Source::Head(commit) => write!(f, "{} is not in commit {}", tried.join(" or "), commit.short()),
        Source::Trusted(from) => write!(
            f,
            "{} is not in {} (commit {}), where commands come from (--commands-from, aynig.commandsFrom)",
            tried.join(" or "),
            from.name,
            from.commit.short()
        ),
        Source::Disk => write!(f, "{} does not exist", tried.join(" and ")),
    }
}

fn only_elsewhere(f: &mut Formatter<'_>, commit: CommitId, elsewhere: &Elsewhere) -> Result {
    let Elsewhere { path, checkout, committed } = elsewhere;
    let commit_it = if *committed { String::new() } else { format!("`git add {path}`, commit it, ") };
    write!(
        f,
        "{path} exists in {} but not in commit {}; a branch runs the commands of its own commits, so {commit_it}merge it \
         on this branch (`git merge`), push that if a remote decides, and ask again there (`aynig set-state --retry`)",
        checkout.display(),
        commit.short(),
    )
}

fn unusable_in_head(f: &mut Formatter<'_>, path: &str, what: &Unusable) -> Result {
    match what {
        Unusable::NotExecutable => write!(
            f,
            "{path} is committed without the executable bit; on that branch: `chmod +x {path} && git add --chmod=+x {path} && \
             aynig set-state --retry`"
        ),
        Unusable::Directory => write!(f, "{path} is a directory, not a command"),
        Unusable::Submodule => {
            write!(f, "{path} lies in a submodule; commands must be in the branch's own tree")
        }
        Unusable::Escapes { target } => write!(
            f,
            "{path} is a link to {target}, which leaves the tree; commands must be in the branch's own tree"
        ),
        Unusable::Dangling { target } => write!(f, "{path} is a link to {target}, which is not in the tree"),
    }
}

fn unusable_in_trusted(f: &mut Formatter<'_>, from: &CommandsFrom, path: &str, what: &Unusable) -> Result {
    write!(f, "{path} of {} (commit {}), where commands come from, ", from.name, from.commit.short())?;
    match what {
        Unusable::NotExecutable => f.write_str("is committed without the executable bit"),
        Unusable::Directory => f.write_str("is a directory, not a command"),
        Unusable::Submodule => f.write_str("lies in a submodule; commands must be in the tree itself"),
        Unusable::Escapes { target } => write!(
            f,
            "is a link to {target}, which leaves .aynig/; with --commands-from it must stay in there"
        ),
        Unusable::Dangling { target } => write!(f, "is a link to {target}, which is not there"),
    }
}

fn unusable_on_disk(f: &mut Formatter<'_>, path: &str, what: &Unusable) -> Result {
    match what {
        Unusable::NotExecutable => write!(f, "{path} is not executable; run `chmod +x {path}`"),
        Unusable::Directory => write!(f, "{path} is a directory, not a command"),
        Unusable::Submodule => write!(f, "{path} lies in a submodule"),
        Unusable::Escapes { target } => {
            write!(f, "{path} is a link to {target}, which is outside the checkout")
        }
        Unusable::Dangling { .. } => write!(f, "{path} is a link to something that is not there"),
    }
}

#[cfg(test)]
mod tests;
