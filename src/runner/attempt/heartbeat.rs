//! When a lease is looked at and renewed while its attempt is under way (CONTRACT.md §10); `keeper` does so at the right moments.
//!
//! Invariant: the command goes on only while the branch's HEAD is ours. HEAD is looked at about once a second; the
//! lease is renewed once two thirds of it are gone, from the date of whatever commit holds it now, so a renewal
//! the command made itself counts.

use std::time::Duration;

use crate::clock;
use crate::contract::commits::renewal_draft;
use crate::contract::head::Head;
use crate::contract::ids::CommitId;
use crate::contract::lease::renewal_lead;
use crate::contract::ownership::{Ownership, ownership};
use crate::contract::settlement::StopReason;
use crate::git::objects::commits::NewCommit;
use crate::git::process::cancel::Purpose;
use crate::git::remote::{HASTE, Move};
use crate::git::{Repo, Swap, Workplace};

use crate::runner::attempt::claim::Claim;
use crate::runner::attempt::ground::Ground;
use crate::runner::authority::Authority;
use crate::runner::error_chain;
use crate::runner::options::{Options, Trust};

/// How often HEAD is looked at, at most.
const LOOK: Duration = Duration::from_secs(1);

/// The lease as last seen.
#[derive(Debug)]
pub(crate) struct Heartbeat<'a> {
    repo: Repo,
    authority: &'a Authority,
    claim: &'a Claim,
    trust: &'a Trust,
    renews: bool,
    /// Where the command works.
    place: Option<Workplace>,
    /// The last HEAD that was ours.
    held: CommitId,
    leased_at: i64,
    seconds: u64,
    /// How long a command may go on after the branch was moved on above its lease.
    grace: Duration,
    /// Since when the branch has been moved on above the lease (by the command itself, most likely).
    over: Option<clock::Stopwatch>,
    /// How often in a row a renewal met an error.
    troubles: u32,
    /// Why there is no further beat.
    given_up: Option<StopReason>,
}

/// What follows from a beat.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Beat {
    /// Another one after this time; `Duration::MAX` for never.
    Again(Duration),
    /// The command is to stop.
    GiveUp(StopReason),
}

/// How the branch stands, and its HEAD; a remote that hangs is given up after about `within`.
pub(crate) fn look(
    repo: &Repo,
    authority: &Authority,
    claim: &Claim,
    within: Duration,
) -> Result<(Ownership, Option<CommitId>), String> {
    let head = authority.head(repo, &claim.branch, within).map_err(|error| error.to_string())?;
    let Some(id) = head else { return Ok((ownership(claim.attempt, None), None)) };
    if id == claim.lease {
        return Ok((Ownership::Ours, head));
    }
    let stored = repo.commit(id).map_err(|error| error.to_string())?;
    let descends = repo.descends(id, claim.lease);
    let seen = ownership(claim.attempt, Some((&Head::read(&stored.facts()), descends)));
    // What stands on top of a recovery was not set by the command.
    let seen = match seen {
        Ownership::AdvancedByCommand { .. } if was_recovered(repo, claim, id) => Ownership::Recovered,
        other => other,
    };
    Ok((seen, head))
}

/// Whether one of the commits from `head` down to the lease closed the attempt.
fn was_recovered(repo: &Repo, claim: &Claim, head: CommitId) -> bool {
    repo.history(head).flatten().take_while(|stored| stored.id != claim.lease).any(|stored| {
        ownership(claim.attempt, Some((&Head::read(&stored.facts()), true))) == Ownership::Recovered
    })
}

/// Takes a checkout along to a renewal of ours that it has not seen, as its push was not answered when it was made. Anything else
/// at HEAD is left to whoever settles.
pub(crate) fn catch_up(repo: &Repo, claim: &Claim, place: &Workplace, head: CommitId) {
    let Ok(stored) = repo.commit(head) else { return };
    let Some(parent) = stored.parents.first().copied() else { return };
    let is_renewal = matches!(Head::read(&stored.facts()), Head::Working(lease) if lease.attempt() == Some(claim.attempt))
        && repo.commit(parent).is_ok_and(|parent| parent.tree == stored.tree);
    let behind =
        repo.checked_out(place).is_some_and(|own| repo.descends(own, parent) && !repo.descends(own, head));
    if is_renewal && behind {
        follow(repo, claim, place, parent, head);
    }
}

fn follow(repo: &Repo, claim: &Claim, place: &Workplace, from: CommitId, renewal: CommitId) {
    if let Err(error) = repo.advance(place, from, renewal, "aynig: follow the lease") {
        let why = error_chain(&error);
        tracing::warn!(branch = %claim.branch, why, "the worktree did not follow the renewed lease");
    }
}

impl<'a> Heartbeat<'a> {
    /// Begins with the lease as it was claimed.
    pub(crate) fn new(repo: Repo, authority: &'a Authority, claim: &'a Claim, options: &'a Options) -> Self {
        Self {
            repo,
            authority,
            claim,
            trust: &options.trust,
            renews: options.heartbeat,
            place: None,
            held: claim.lease,
            leased_at: claim.leased_at,
            seconds: claim.seconds,
            grace: options.grace,
            over: None,
            troubles: 0,
            given_up: None,
        }
    }

    /// From now on there is a checkout, which has not seen the renewals before it.
    pub(crate) fn settle_in(&mut self, place: Workplace) {
        self.place = Some(place);
        if self.held != self.claim.lease {
            self.follow(self.claim.lease, self.held);
        }
    }

    /// The last HEAD that was ours: the base of whatever the worktree holds if the branch is taken away.
    pub(crate) fn held(&self) -> CommitId {
        self.held
    }

    /// Why the command is to stop, if it is.
    pub(crate) fn given_up(&self) -> Option<StopReason> {
        self.given_up.clone()
    }

    /// Looks after the lease. Says when to do so again; `None` if the command is to stop.
    pub(crate) fn beat(&mut self) -> Option<Duration> {
        match self.next_beat() {
            Beat::Again(wake_in) => Some(wake_in),
            Beat::GiveUp(why) => {
                self.given_up = Some(why);
                None
            }
        }
    }

    fn next_beat(&mut self) -> Beat {
        if let Some(since) = &self.over {
            // The next state is anybody's to claim: this command may end its work, but not go on for ever beside the next.
            let left = self.grace.saturating_sub(since.elapsed());
            return if left.is_zero() { Beat::GiveUp(StopReason::LeaseLost) } else { Beat::Again(left) };
        }
        if !self.authority.attaches() {
            return self.attend_from_afar();
        }
        let seen = look(&self.repo, self.authority, self.claim, HASTE);
        self.judge(seen)
    }

    /// With a remote, nothing but a renewal is worth a connection; losing it is how a lost lease is noticed.
    fn attend_from_afar(&mut self) -> Beat {
        if !self.renews {
            return Beat::Again(Duration::MAX);
        }
        self.renew_if_due(self.held)
    }

    fn judge(&mut self, seen: Result<(Ownership, Option<CommitId>), String>) -> Beat {
        match seen {
            Ok((Ownership::Ours, Some(head))) => {
                self.note(head);
                self.renew_if_due(head)
            }
            Ok((Ownership::AdvancedByCommand { .. }, _)) => {
                self.over = Some(clock::Stopwatch::start());
                Beat::Again(self.grace)
            }
            Ok(_) => Beat::GiveUp(StopReason::LeaseLost),
            Err(why) => self.troubled(&why),
        }
    }

    /// Takes over the dates of a lease that somebody else (the command itself) renewed.
    fn note(&mut self, head: CommitId) {
        if head == self.held {
            return;
        }
        self.held = head;
        let Ok(stored) = self.repo.commit(head) else { return };
        if let Head::Working(lease) = Head::read(&stored.facts()) {
            (self.leased_at, self.seconds) = (lease.committed_at, lease.seconds);
        }
    }

    fn renew_if_due(&mut self, head: CommitId) -> Beat {
        // Dates are whole seconds: a renewal in the second of the commit it renews would gain nothing.
        if !self.renews || self.left() > renewal_lead(self.seconds) || clock::wall_seconds() == self.leased_at
        {
            return self.go_on();
        }
        // A commit that is being made in the worktree expects HEAD to stay where it is; give it time while there is some.
        if self.left() > renewal_lead(self.seconds) / 2
            && self.place.as_ref().is_some_and(|place| place.git_dir.join("index.lock").exists())
        {
            return self.go_on();
        }
        match self.renew(head) {
            Ok(Some(renewal)) => {
                self.troubles = 0;
                self.note(renewal);
                self.go_on()
            }
            // HEAD is not what we took it for: look at what it is.
            Ok(None) => match look(&self.repo, self.authority, self.claim, self.left().max(HASTE)) {
                Ok((Ownership::Ours, Some(head))) => {
                    if let (Some(place), false) = (&self.place, self.authority.attaches()) {
                        catch_up(&self.repo, self.claim, place, head);
                    }
                    self.note(head);
                    Beat::Again(Duration::from_millis(1))
                }
                other => self.judge(other),
            },
            Err(why) => self.troubled(&why),
        }
    }

    fn renew(&self, head: CommitId) -> Result<Option<CommitId>, String> {
        let message = renewal_draft(&self.claim.message).encode().map_err(|error| error.to_string())?;
        // On top of what the command has committed so far, where that is not the branch itself already.
        let parent = self.detached().filter(|own| self.repo.descends(*own, head)).unwrap_or(head);
        let git_dir = self.place.as_ref().map(|place| place.git_dir.as_path());
        let ground = Ground::new(&self.repo, self.claim.attempt, self.claim.lease, git_dir);
        let tree = ground.taken(self.trust, parent).tree(&self.repo)?;
        // Half of what is left: if this signature, or this connection, hangs there is time for another.
        let within = || (self.left() / 2).max(Duration::from_secs(1));
        let new = NewCommit { tree, parents: &[parent], message: &message, attempt: None };
        let renewal = self
            .repo
            .write_commit_for(&new, Purpose::Signature, within())
            .map_err(|error| error_chain(&error))?;
        crate::crashpoint::reach(crate::crashpoint::Point::RenewalWritten);
        let within = within();
        let branch = self.claim.branch.clone();
        let wanted = Move { branch, expected: head, new: renewal, within: Some(within) };
        let swap = self
            .authority
            .swap(&self.repo, wanted, "aynig: renew the lease")
            .map_err(|error| error.to_string())?;
        if swap != Swap::Won {
            return Ok(None);
        }
        crate::crashpoint::reach(crate::crashpoint::Point::RenewalMoved);
        self.follow(parent, renewal);
        Ok(Some(renewal))
    }

    /// The commit a detached worktree is at; with an attached one the branch's HEAD is that commit.
    fn detached(&self) -> Option<CommitId> {
        if self.authority.attaches() {
            return None;
        }
        self.repo.checked_out(self.place.as_ref()?)
    }

    /// Takes the worktree along to the renewal, so that the result will descend from it.
    fn follow(&self, from: CommitId, renewal: CommitId) {
        if self.authority.attaches() {
            return;
        }
        let Some(place) = &self.place else { return };
        // A renewal on top of somebody else's commit is no continuation of the worktree.
        if !self.repo.checked_out(place).is_some_and(|own| self.repo.descends(own, from)) {
            return;
        }
        follow(&self.repo, self.claim, place, from, renewal);
    }

    /// We could not look or not renew: keep trying until the lease is over, never beyond; a remote less and less often.
    fn troubled(&mut self, why: &str) -> Beat {
        tracing::warn!(branch = %self.claim.branch, attempt = %self.claim.attempt, why, "could not look after the lease");
        if self.renews && self.left().is_zero() {
            return Beat::GiveUp(StopReason::LeaseUnrenewable { why: why.to_owned() });
        }
        if self.authority.attaches() || !self.renews {
            return self.go_on();
        }
        let pause = self.often().saturating_mul(1 << self.troubles.min(8));
        self.troubles = self.troubles.saturating_add(1);
        Beat::Again(pause.min(self.left()).max(Duration::from_millis(20)))
    }

    /// Looks again in a second, or sooner where the lease is short.
    fn go_on(&self) -> Beat {
        let often = self.often();
        let due = self.left().saturating_sub(renewal_lead(self.seconds));
        let wake_in = if self.renews && due < often { due.max(Duration::from_millis(20)) } else { often };
        Beat::Again(wake_in)
    }

    fn often(&self) -> Duration {
        Duration::from_millis(self.seconds.saturating_mul(1000) / 20).clamp(Duration::from_millis(50), LOOK)
    }

    /// What is left of the lease.
    pub(crate) fn left(&self) -> Duration {
        let end = self
            .leased_at
            .saturating_mul(1000)
            .saturating_add(i64::try_from(self.seconds.saturating_mul(1000)).unwrap_or(i64::MAX));
        Duration::from_millis(u64::try_from(end.saturating_sub(clock::wall_millis())).unwrap_or(0))
    }
}
