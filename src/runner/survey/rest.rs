//! Whether a branch rests: no command will run for its state (CONTRACT 5.33).
//!
//! Invariant: a branch that is under a lease, or whose commits may lie on one, never rests, and neither does one that
//! this runner leaves alone. When in doubt it does not.

use crate::contract::deferred::Rest;
use crate::contract::ids::{CommitId, StateName};
use crate::contract::message::Message;
use crate::contract::waits_for::WaitsFor;
use crate::git::objects::commits::Stored;
use crate::git::objects::tree::Executable;
use crate::git::{CommitError, Repo};

use super::line::lease_below;
use super::verdict::{Branch, CommandsFrom, NoCommand, Reason, Severity, Verdict};

/// Judges a surveyed branch at `head`. `from` is the source of all commands, if there is one.
pub(crate) fn of_verdict(repo: &Repo, from: Option<&CommandsFrom>, head: &Stored, branch: &Branch) -> Rest {
    match &branch.verdict {
        Verdict::Unmanaged if lease_below(repo, &branch.name, head.id).is_some() => Rest::Busy,
        Verdict::Unmanaged | Verdict::Waiting { reason: Reason::Cancelled, .. } => Rest::Rests,
        Verdict::Parked { .. }
        | Verdict::WaitsForYou { .. }
        | Verdict::Waiting { reason: Reason::NoTime { .. }, .. } => Rest::Waits,
        Verdict::Waiting {
            state,
            reason: Reason::NoCommand(NoCommand::Missing { .. } | NoCommand::Elsewhere { .. }),
        } => of_state(repo, from, head, state),
        Verdict::Waiting { .. }
        | Verdict::Invalid(_)
        | Verdict::Leased(_)
        | Verdict::UnsignedLease { .. }
        | Verdict::Bounded { .. }
        | Verdict::Ready { .. }
        | Verdict::SkippedCurrent { .. }
        | Verdict::Excluded(_) => Rest::Busy,
    }
}

/// The future of a branch if only runners act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outlook {
    /// A command is at work or due, or a lease is to be recovered.
    Moves,
    /// Nothing runs before a certain time.
    Later,
    /// Nothing runs.
    Rests,
}

/// Judges a surveyed branch, whose HEAD is `head`, for `aynig wait` (CONTRACT 11.25).
pub(crate) fn outlook(
    repo: &Repo,
    from: Option<&CommandsFrom>,
    head: Option<&Stored>,
    branch: &Branch,
) -> Outlook {
    match &branch.verdict {
        Verdict::Leased(_) | Verdict::Ready { .. } | Verdict::SkippedCurrent { .. } => Outlook::Moves,
        Verdict::Unmanaged if head.is_some_and(|head| lease_below(repo, &branch.name, head.id).is_some()) => {
            Outlook::Moves
        }
        Verdict::Parked { trouble: None, .. }
        | Verdict::WaitsForYou { until: Some(_), trouble: None, .. } => Outlook::Later,
        Verdict::Bounded { bound, .. } if bound.until().is_some() => Outlook::Later,
        Verdict::Waiting { state, reason } => match (reason, head) {
            (Reason::NoCommand(NoCommand::Missing { .. } | NoCommand::Elsewhere { .. }), Some(head))
                if of_state(repo, from, head, state) == Rest::Busy =>
            {
                Outlook::Moves
            }
            (Reason::NoCommand(_), _) => Outlook::Rests,
            // It lasts a moment.
            (Reason::IndexLocked { .. }, _) => Outlook::Moves,
            (reason, _) if reason.severity() == Severity::Blocked => Outlook::Moves,
            _ => Outlook::Rests,
        },
        Verdict::Unmanaged
        | Verdict::Invalid(_)
        | Verdict::UnsignedLease { .. }
        | Verdict::Parked { .. }
        | Verdict::Bounded { .. }
        | Verdict::WaitsForYou { .. }
        | Verdict::Excluded(_) => Outlook::Rests,
    }
}

/// Judges a state that is neither leased nor parked: whether it has a command under any role.
pub(crate) fn of_state(repo: &Repo, from: Option<&CommandsFrom>, head: &Stored, state: &StateName) -> Rest {
    match has_command(repo, from, head.tree, state) {
        Ok(false) if WaitsFor::of(&Message::parse(&head.message).trailers).is_some() => Rest::Waits,
        Ok(false) => Rest::Rests,
        Ok(true) | Err(_) => Rest::Busy,
    }
}

/// Whether a state has a command, or a file that is meant as one, at the plain path or under any role.
fn has_command(
    repo: &Repo,
    from: Option<&CommandsFrom>,
    tree: CommitId,
    state: &StateName,
) -> Result<bool, CommitError> {
    // A runner without `--commands-from` runs what the branch itself has.
    let trees = [from.and_then(|from| from.tree), repo.directory_in(tree, ".aynig")?];
    for commands in trees.into_iter().flatten() {
        if has_command_below(repo, commands, state)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn has_command_below(repo: &Repo, commands: CommitId, state: &StateName) -> Result<bool, CommitError> {
    let mut tried = vec![format!("command/{state}")];
    if let Some(roles) = repo.directory_in(commands, "roles")? {
        tried.extend(repo.names_in(roles)?.into_iter().map(|role| format!("roles/{role}/command/{state}")));
    }
    for path in tried {
        if repo.executable_below(commands, &path)? != Executable::Missing {
            return Ok(true);
        }
    }
    Ok(false)
}
