//! Delivers deferred states to branches that rest (CONTRACT 5.32 to 5.35).
//!
//! Invariant: a slot is delivered once, whoever dies when. HEAD and slot are moved in one step, HEAD first; a slot
//! that a commit above its parent already names is only deleted. Nothing is delivered that could not be run for want
//! of a signature.

use std::collections::HashMap;

use bstr::ByteSlice;

use crate::contract::deferred::{
    Refusal, Rest, Ruling, delivers, delivery_draft, ruling, slot as deferred_event,
};
use crate::contract::head::Event;
use crate::contract::ids::{BranchName, CommitId, RemoteName};
use crate::contract::layout::slot_ref;
use crate::contract::waits_for::WaitsFor;
use crate::git::objects::commits::{NewCommit, Stored};
use crate::git::process::cancel::Purpose;
use crate::git::{RefChange, Repo, Together};
use crate::runner::authority::Authority;
use crate::runner::authority::error::AuthorityError;
use crate::runner::events::notice::Notice;
use crate::runner::events::warning::Warning;
use crate::runner::options::Trust;
use crate::runner::passes::backoff::Backoff;
use crate::runner::survey::line::is_decided_elsewhere;
use crate::runner::survey::verdict::CommandsFrom;
use crate::runner::survey::words::{in_the_way, named};
use crate::runner::survey::{Branch, Verdict, rest, trust};
use crate::runner::{Context, error_chain, shell_quote};

/// The most commits that are searched for an earlier delivery.
const SEARCHED: usize = 10_000;

/// Delivers the slots of these branches that can be delivered now. Returns whether a branch was moved.
pub(crate) fn deliver(
    context: &Context<'_>,
    repo: &Repo,
    from: Option<&CommandsFrom>,
    branches: &[Branch],
    backoff: &mut Backoff,
) -> bool {
    let slots = match context.authority.slots(repo) {
        Ok(slots) if slots.is_empty() => return false,
        Ok(slots) => slots,
        Err(error) => {
            context.warn(None, Warning::NotDelivered { why: error_chain(&error) });
            return false;
        }
    };
    let known: HashMap<&BranchName, &Branch> = branches.iter().map(|branch| (&branch.name, branch)).collect();
    let mut delivered = false;
    for tip in slots {
        let (Some(branch), Ok(slot)) = (known.get(&tip.branch), tip.target) else { continue };
        if context.shutdown.cause().is_some() {
            break;
        }
        delivered |= Delivery { context, repo, branch, slot }.attempt(from, backoff);
    }
    delivered
}

/// The outcome for a slot.
enum Done {
    /// The branch was moved.
    Moved,
    /// It was not.
    Left,
    /// The branch rests, but is not moved for this reason. Its end is waited for without a pause.
    Taken(String),
}

/// One slot, and its branch.
struct Delivery<'a> {
    context: &'a Context<'a>,
    repo: &'a Repo,
    branch: &'a Branch,
    slot: CommitId,
}

impl Delivery<'_> {
    /// Delivers or drops the slot, or leaves it. Returns whether the branch was moved.
    fn attempt(&self, from: Option<&CommandsFrom>, backoff: &mut Backoff) -> bool {
        let Some(head) = self.branch.head else { return false };
        let source = self.context.authority.source();
        if is_decided_elsewhere(self.repo, source, &self.branch.name, head) {
            return false;
        }
        // By the slot: one that cannot be delivered does not keep the branch from being run.
        let at = (self.branch.name.clone(), self.slot);
        if backoff.is_paused(&at) {
            return false;
        }
        let (why, failed) = match self.act(from, head) {
            Ok(Done::Moved) => return true,
            Ok(Done::Left) => return false,
            Ok(Done::Taken(why)) => (why, false),
            Err(why) => (why, true),
        };
        if backoff.is_first_warning(at.clone()) {
            self.context.warn_at(&self.branch.name, Some(self.slot), Warning::NotDelivered { why });
        }
        if failed {
            backoff.failed(at, true);
        }
        false
    }

    fn act(&self, from: Option<&CommandsFrom>, head: CommitId) -> Result<Done, String> {
        let (stored, ruling) = judged(self.repo, from, self.branch, (head, self.slot))?;
        let event = match ruling {
            Ruling::Drop => return self.change(vec![self.removal()]).map(|_| Done::Left),
            Ruling::Wait => {
                tracing::debug!(branch = %self.branch.name, "its deferred state waits");
                return Ok(Done::Left);
            }
            // Its sender may have seen a newer HEAD than the survey.
            Ruling::Refuse(_) if self.has_moved(head) => return Ok(Done::Left),
            Ruling::Refuse(why) => {
                let source = self.context.authority.source();
                return Err(stuck(self.repo, &self.branch.name, source, (why, self.slot)));
            }
            Ruling::Deliver(event) => event,
        };
        if let Some(taken) = &self.branch.taken {
            return Ok(Done::Taken(in_the_way(taken)));
        }
        let limits = &self.context.options.trust;
        if let Some(why) = untrusted(self.repo, limits, [self.slot, head]) {
            return Err(why);
        }
        if !signs(self.repo, limits) {
            return Err("this runner signs nothing (commit.gpgSign)".to_owned());
        }
        self.write(&stored, &event).map(|moved| if moved { Done::Moved } else { Done::Left })
    }

    fn has_moved(&self, head: CommitId) -> bool {
        let now = match self.context.authority.source() {
            None => self.repo.branch_head(&self.branch.name),
            Some(remote) => self.repo.fetched_head(remote, &self.branch.name),
        };
        !matches!(now, Ok(now) if now == Some(head))
    }

    fn write(&self, head: &Stored, event: &Event) -> Result<bool, String> {
        let failed = |error: &dyn std::error::Error| error_chain(error);
        let message = delivery_draft(event).encode().map_err(|error| failed(&error))?;
        let author = self.repo.authored(self.slot).map_err(|error| failed(&error))?;
        let new = NewCommit { tree: head.tree, parents: &[head.id], message: &message, attempt: None };
        let new = self.repo.write_commit_of(&new, &author, Purpose::Scan).map_err(|error| failed(&error))?;
        crate::crashpoint::reach(crate::crashpoint::Point::DeliveryWritten);
        let name = self.branch.name.full_ref();
        let delivery = RefChange { name, expected: Some(head.id), new: Some(new) };
        let won = self.change(vec![delivery, self.removal()])?;
        if won {
            self.context.report(&Notice::Delivered {
                waits: WaitsFor::of(&event.message.trailers).map(Box::new),
                branch: self.branch.name.clone(),
                state: event.state.clone(),
                commit: new,
                author: author.name,
            });
        }
        Ok(won)
    }

    fn removal(&self) -> RefChange {
        RefChange { name: slot_ref(&self.branch.name), expected: Some(self.slot), new: None }
    }

    fn change(&self, changes: Vec<RefChange>) -> Result<bool, String> {
        let log = format!("aynig: deliver by {}", self.context.options.runner_id);
        let moved = self.context.authority.swap_together(self.repo, &self.branch.name, &changes, &log);
        moved.map(|moved| moved == Together::Won).map_err(|error: AuthorityError| error_chain(&error))
    }
}

/// Rules on a slot beside a branch at `head`. Also returns the commit at `head`.
fn judged(
    repo: &Repo,
    from: Option<&CommandsFrom>,
    branch: &Branch,
    (head, slot): (CommitId, CommitId),
) -> Result<(Stored, Ruling), String> {
    let stored = repo.commit(head).map_err(|error| error_chain(&error))?;
    let Ok(kept) = repo.commit(slot) else { return Ok((stored, Ruling::Refuse(Refusal::Unreadable))) };
    let ruling = ruling(
        (&kept.facts(), &kept.parents),
        &branch.name,
        is_delivered(repo, &kept, head),
        |seen| repo.descends(head, seen),
        || rest::of_verdict(repo, from, &stored, branch),
    );
    Ok((stored, ruling))
}

/// Why rule 13.4 refuses one of the commits: a delivery vouches for nothing that would not be run.
fn untrusted(repo: &Repo, limits: &Trust, commits: [CommitId; 2]) -> Option<String> {
    commits.into_iter().find_map(|commit| {
        let why = trust::refused(repo, limits, commit)?;
        Some(format!("{} is not trusted: {why}", commit.short()))
    })
}

/// Whether the commits of this host would be run.
fn signs(repo: &Repo, limits: &Trust) -> bool {
    !limits.require_signed || repo.signs().unwrap_or(false)
}

/// The future of a slot if only runners act.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Prospect {
    /// The next pass here delivers it.
    Due,
    /// The next pass of another host delivers it: of one that signs, or of a clone.
    DueElsewhere,
    /// The branch does not rest.
    Waits,
    /// No pass delivers it until somebody acts, in words.
    Stuck(String),
}

/// Judges a slot beside a surveyed branch.
pub(crate) fn prospect(
    repo: &Repo,
    authority: &Authority,
    limits: &Trust,
    from: Option<&CommandsFrom>,
    branch: &Branch,
    slot: CommitId,
) -> Prospect {
    let Some(head) = branch.head else { return Prospect::Waits };
    match judged(repo, from, branch, (head, slot)) {
        Err(why) => Prospect::Stuck(why),
        Ok((_, Ruling::Refuse(why))) => {
            Prospect::Stuck(stuck(repo, &branch.name, authority.source(), (why, slot)))
        }
        Ok((_, Ruling::Wait)) => match &branch.verdict {
            Verdict::Bounded { bound, .. } if bound.until().is_none() => {
                Prospect::Stuck("a bound parks the branch".to_owned())
            }
            _ => Prospect::Waits,
        },
        Ok((_, Ruling::Drop)) => Prospect::Waits,
        Ok((_, Ruling::Deliver(_))) => {
            if is_decided_elsewhere(repo, authority.source(), &branch.name, head) {
                return Prospect::DueElsewhere;
            }
            match untrusted(repo, limits, [slot, head]).or_else(|| branch.taken.as_deref().map(in_the_way)) {
                Some(why) => Prospect::Stuck(why),
                None if signs(repo, limits) => Prospect::Due,
                None => Prospect::DueElsewhere,
            }
        }
    }
}

/// The command that removes a deferred state.
pub fn withdrawal(branch: &BranchName, source: Option<&RemoteName>) -> String {
    format!("`aynig set-state --withdraw {}` removes it", named(branch, source))
}

/// Why a slot is never delivered, and what to type.
fn stuck(
    repo: &Repo,
    branch: &BranchName,
    source: Option<&RemoteName>,
    (why, slot): (Refusal, CommitId),
) -> String {
    let words = refusal_words(why, slot);
    let again = (why == Refusal::Parents).then(|| pushed_again(repo, branch, source?, slot)).flatten();
    let again = again.map(|again| format!("; `{again}` does it right")).unwrap_or_default();
    format!("{words}{again}; {}", withdrawal(branch, source))
}

/// The command that pushes the state of a slot once more, on top of the branch as it is.
fn pushed_again(repo: &Repo, branch: &BranchName, remote: &RemoteName, slot: CommitId) -> Option<String> {
    let there = repo.namespace().ok()?.there(slot_ref(branch).as_bstr());
    let (name, to) = (shell_quote(branch), shell_quote(&there));
    Some(format!(
        "git fetch {remote} {name} && git push --force {remote} $(git log -1 --format=%B {} | git commit-tree -p FETCH_HEAD \
         FETCH_HEAD^{{tree}}):{to}",
        slot.short()
    ))
}

fn refusal_words(why: Refusal, slot: CommitId) -> String {
    let slot = slot.short();
    match why {
        Refusal::Unreadable => format!("{slot} is no commit that can be read"),
        Refusal::NoState => format!("the commit {slot} declares no state that can be set"),
        Refusal::Parents => {
            format!("the commit of the branch that its sender saw is missing as the one parent of {slot}")
        }
        Refusal::Misplaced => format!("{slot} was left for another branch"),
        Refusal::Replaced => format!("the branch was made anew since {slot} was left for it"),
    }
}

/// Why no pass can deliver a slot to the branch at `head`. `None` if one can.
pub fn undeliverable(
    repo: &Repo,
    branch: &BranchName,
    head: Option<CommitId>,
    slot: CommitId,
) -> Option<String> {
    let Some(head) = head else { return Some(format!("there is no branch {branch}")) };
    let Ok(kept) = repo.commit(slot) else { return Some(refusal_words(Refusal::Unreadable, slot)) };
    let delivered = is_delivered(repo, &kept, head);
    let descends = |seen| repo.descends(head, seen);
    match ruling((&kept.facts(), &kept.parents), branch, delivered, descends, || Rest::Busy) {
        // It may descend from that HEAD outside of this clone.
        Ruling::Refuse(Refusal::Replaced) if repo.is_shallow() => None,
        Ruling::Refuse(why) => Some(refusal_words(why, slot)),
        Ruling::Drop | Ruling::Wait | Ruling::Deliver(_) => None,
    }
}

/// Whether a commit above the HEAD that the sender saw delivers the slot. After a merge it may lie on any side.
pub fn is_delivered(repo: &Repo, slot: &Stored, head: CommitId) -> bool {
    let Some(event) = deferred_event(&slot.facts()) else { return false };
    let seen = slot.parents.first().copied();
    repo.any_above(head, seen, SEARCHED, |stored| delivers(&stored.message, &event))
}

/// The sender of a slot, for messages.
pub fn sender(repo: &Repo, slot: CommitId) -> String {
    repo.authored(slot)
        .map_or_else(|_| "somebody".to_owned(), |author| author.name.to_str_lossy().into_owned())
}
