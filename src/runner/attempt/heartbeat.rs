//! Checks and renews the lease of a running attempt (CONTRACT 10.3, 10.4, 10.8).
//!
//! Invariant: the command runs only while the branch's HEAD is ours. HEAD is read about once a second. The
//! lease is renewed once two thirds of it have passed, counted from the date of the commit that holds it now,
//! so a renewal by the command itself counts.

use std::time::Duration;

use crate::clock;
use crate::contract::cancel::Cancel;
use crate::contract::commits::renewal_draft;
use crate::contract::head::Head;
use crate::contract::ids::CommitId;
use crate::contract::landing::Store;
use crate::contract::lease::renewal_lead;
use crate::contract::ownership::{Ownership, ownership};
use crate::contract::settlement::StopReason;
use crate::git::objects::commits::NewCommit;
use crate::git::process::cancel::Purpose;
use crate::git::remote::{HASTE, Move};
use crate::git::{Repo, Swap, Workplace};

use crate::runner::attempt::cancel::find;
use crate::runner::attempt::claim::Claim;
use crate::runner::attempt::ground::Ground;
use crate::runner::authority::Authority;
use crate::runner::error_chain;
use crate::runner::options::{Options, Trust};
use crate::runner::survey::line::line;

/// The longest interval between two looks at HEAD.
const LOOK: Duration = Duration::from_secs(1);

/// Why a lease cannot be looked at while its repository is missing.
const GONE: &str = "the repository is not there";

/// The lease as last seen.
#[derive(Debug)]
pub(crate) struct Heartbeat<'a> {
    repo: Repo,
    authority: &'a Authority,
    claim: &'a Claim,
    trust: &'a Trust,
    renews: bool,
    /// The worktree or checkout of the command, once there is one.
    place: Option<Workplace>,
    /// The last HEAD that was ours.
    held: CommitId,
    leased_at: i64,
    seconds: u64,
    /// The time a command has to exit after the branch was moved on above its lease (CONTRACT 6.8).
    grace: Duration,
    /// When the branch was moved on above the lease, most likely by the command itself.
    advanced_since: Option<clock::Stopwatch>,
    /// Consecutive failures to check or renew the lease on a remote.
    failures: u32,
    /// Why there is no further beat.
    given_up: Option<StopReason>,
    /// The request to stop, which is heeded once; only a stronger one replaces it. The lease is kept until the command is gone.
    cancel: Option<Cancel>,
    /// A request that is not heeded, and why not.
    distrusted: Option<(Cancel, String)>,
    /// Where the lookout saw the branch.
    seen: Option<Option<CommitId>>,
}

/// The result of one check of the lease.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Beat {
    /// Check again after this time; `Duration::MAX` for never.
    Again(Duration),
    /// The command is to stop.
    GiveUp(StopReason),
}

/// Reads the branch's HEAD and whether it is still ours. A remote that hangs is given up after about
/// `within`.
pub(crate) fn look(
    repo: &Repo,
    authority: &Authority,
    claim: &Claim,
    within: Duration,
) -> Result<(Ownership, Option<CommitId>), String> {
    let head = authority.head(repo, &claim.branch, within).map_err(|error| error.to_string())?;
    judged(repo, claim, head)
}

/// The state that ended the attempt, if this host has noted it: a program that moves a driver notes what the remote
/// accepted. The remote is not asked.
pub(crate) fn known(
    repo: &Repo,
    authority: &Authority,
    claim: &Claim,
) -> Option<(Ownership, Option<CommitId>)> {
    let noted = repo.fetched_head(authority.source()?, &claim.branch).ok()??;
    let (seen, head) = judged(repo, claim, Some(noted)).ok()?;
    // A note may be older than the lease, and a renewal need not be noted.
    (!matches!(seen, Ownership::Ours | Ownership::Rewound)).then_some((seen, head))
}

/// Whether a branch whose HEAD is `head` is still ours.
fn judged(
    repo: &Repo,
    claim: &Claim,
    head: Option<CommitId>,
) -> Result<(Ownership, Option<CommitId>), String> {
    let Some(id) = head else {
        // A repository that was moved away has no branches, and they are not deleted by that.
        return if repo.is_gone() {
            Err(GONE.to_owned())
        } else {
            Ok((ownership(claim.attempt, None), None))
        };
    };
    if id == claim.lease {
        return Ok((Ownership::Ours, head));
    }
    let stored = repo.commit(id).map_err(|error| error.to_string())?;
    let descends = repo.descends(id, claim.lease);
    let seen = ownership(claim.attempt, Some((&Head::read(&stored.facts()), descends)));
    // A state on top of a recovery was not set by the command.
    let seen = match seen {
        Ownership::AdvancedByCommand { .. } if was_recovered(repo, claim, id) => Ownership::Recovered,
        other => other,
    };
    Ok((seen, head))
}

/// Whether one of the commits from `head` down to the lease closed the attempt.
fn was_recovered(repo: &Repo, claim: &Claim, head: CommitId) -> bool {
    line(repo, &claim.branch, head).take_while(|stored| stored.id != claim.lease).any(|stored| {
        ownership(claim.attempt, Some((&Head::read(&stored.facts()), true))) == Ownership::Recovered
    })
}

/// Fast-forwards the worktree to a renewal whose push succeeded but whose reply was lost. Any other HEAD is
/// left to the landing.
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
    /// Starts with the lease as claimed.
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
            advanced_since: None,
            failures: 0,
            given_up: None,
            cancel: None,
            distrusted: None,
            seen: None,
        }
    }

    /// Sets the worktree or checkout, and moves it to the renewals made before.
    pub(crate) fn work_in(&mut self, place: Workplace) {
        self.place = Some(place);
        if self.held != self.claim.lease {
            self.follow(self.claim.lease, self.held);
        }
    }

    /// The last HEAD that was ours. It is the base for a rescue if the lease is lost.
    pub(crate) fn held(&self) -> CommitId {
        self.held
    }

    /// Why the lease was given up, or the attempt cancelled, if it was.
    pub(crate) fn given_up(&self) -> Option<StopReason> {
        self.given_up.clone().or_else(|| self.cancel.clone().map(StopReason::Cancelled))
    }

    /// Whether the attempt was cancelled.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancel.is_some()
    }

    /// A request that is not heeded, and why not; once.
    pub(crate) fn take_distrusted(&mut self) -> Option<(Cancel, String)> {
        self.distrusted.take()
    }

    /// Where the lookout saw the branch, for the next check.
    pub(crate) fn sighted(&mut self, head: Option<CommitId>) {
        self.seen = Some(head);
    }

    /// Checks the lease and renews it if due. Returns the time until the next check, or `None` if the command
    /// is to stop.
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
        if let Some(since) = &self.advanced_since {
            // Any runner may claim the next state. This command may finish its work, but not run forever
            // beside the next one.
            let left = self.grace.saturating_sub(since.elapsed());
            return if left.is_zero() { Beat::GiveUp(StopReason::LeaseLost) } else { Beat::Again(left) };
        }
        if self.authority.store() == Store::Remote {
            return match self.seen.take() {
                Some(head) => self.beat_on_sight(head),
                None => self.beat_on_remote(),
            };
        }
        let seen = look(&self.repo, self.authority, self.claim, HASTE);
        self.judge(seen)
    }

    /// With a remote, only a renewal is worth a connection. A lost renewal shows that the lease was lost.
    fn beat_on_remote(&mut self) -> Beat {
        if !self.renews {
            return Beat::Again(Duration::MAX);
        }
        self.renew_if_due(self.held)
    }

    /// The lookout saw the branch elsewhere. A commit below the last one that was ours is older news.
    fn beat_on_sight(&mut self, head: Option<CommitId>) -> Beat {
        if head.is_some_and(|head| self.repo.descends(self.held, head)) {
            return self.beat_on_remote();
        }
        match judged(&self.repo, self.claim, head) {
            Ok((Ownership::Ours, Some(head))) => {
                if let Some(place) = self.follower() {
                    catch_up(&self.repo, self.claim, place, head);
                }
                self.note(head);
                self.beat_on_remote()
            }
            // A renewal, or the landing, finds out.
            Err(why) => {
                tracing::debug!(branch = %self.claim.branch, why, "what was seen could not be read");
                self.beat_on_remote()
            }
            other => self.judge(other),
        }
    }

    fn judge(&mut self, seen: Result<(Ownership, Option<CommitId>), String>) -> Beat {
        match seen {
            Ok((Ownership::Ours, Some(head))) => {
                self.note(head);
                self.renew_if_due(head)
            }
            Ok((Ownership::AdvancedByCommand { .. }, _)) => {
                self.advanced_since = Some(clock::Stopwatch::start());
                Beat::Again(self.grace)
            }
            Ok(_) => Beat::GiveUp(StopReason::LeaseLost),
            Err(why) => self.failed(&why),
        }
    }

    /// Records the last HEAD that was ours. If it is a lease (the command may renew it too), its date and
    /// length count.
    fn note(&mut self, head: CommitId) {
        if head == self.held {
            return;
        }
        self.heed(head);
        self.held = head;
        let Ok(stored) = self.repo.commit(head) else { return };
        if let Head::Working(lease) = Head::read(&stored.facts()) {
            (self.leased_at, self.seconds) = (lease.committed_at, lease.seconds);
        }
    }

    /// Looks for a request among the commits that are new.
    fn heed(&mut self, head: CommitId) {
        let found =
            find(&self.repo, self.trust, Some(self.claim.attempt), &self.claim.branch, head, Some(self.held));
        if let Some(cancel) = found.heeded
            && self.cancel.as_ref().is_none_or(|before| cancel.then.outdoes(before.then))
        {
            self.cancel = Some(cancel);
        }
        self.distrusted = found.refused.or(self.distrusted.take());
    }

    fn renew_if_due(&mut self, head: CommitId) -> Beat {
        // Commit dates are whole seconds, so a renewal in the same second as the commit it renews would gain
        // nothing.
        if !self.renews || self.left() > renewal_lead(self.seconds) || clock::wall_seconds() == self.leased_at
        {
            return self.again();
        }
        // A `git commit` running in the worktree expects HEAD not to move. Give it time while there is
        // enough.
        if self.left() > renewal_lead(self.seconds) / 2
            && self.place.as_ref().is_some_and(|place| place.git_dir.join("index.lock").exists())
        {
            return self.again();
        }
        match self.renew(head) {
            Ok(Some(renewal)) => {
                self.failures = 0;
                self.note(renewal);
                self.again()
            }
            // HEAD is not the expected commit, so read it.
            Ok(None) => match look(&self.repo, self.authority, self.claim, self.left().max(HASTE)) {
                Ok((Ownership::Ours, Some(head))) => {
                    if let Some(place) = self.follower() {
                        catch_up(&self.repo, self.claim, place, head);
                    }
                    self.note(head);
                    Beat::Again(Duration::from_millis(1))
                }
                other => self.judge(other),
            },
            Err(why) => self.failed(&why),
        }
    }

    fn renew(&self, head: CommitId) -> Result<Option<CommitId>, String> {
        let message = renewal_draft(&self.claim.message).encode().map_err(|error| error.to_string())?;
        // In a detached worktree the command's commits are not on the branch yet; the renewal goes on top of
        // them.
        let parent = self.detached().filter(|own| self.repo.descends(*own, head)).unwrap_or(head);
        let git_dir = self.place.as_ref().map(|place| place.git_dir.as_path());
        let ground = Ground::new(&self.repo, self.claim.attempt, self.claim.lease, git_dir);
        let tree = ground.taken(self.trust, parent).tree(&self.repo)?;
        // Half of the remaining time, so that there is time for another try if this signature or connection
        // hangs.
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

    /// The HEAD of a detached worktree. `None` for an attached one, whose HEAD is the branch.
    fn detached(&self) -> Option<CommitId> {
        self.repo.checked_out(self.follower()?)
    }

    /// The worktree, if its HEAD has to be moved along.
    fn follower(&self) -> Option<&Workplace> {
        self.authority.follower(self.place.as_ref())
    }

    /// Moves a detached worktree to the renewal, so that the result will descend from it.
    fn follow(&self, from: CommitId, renewal: CommitId) {
        let Some(place) = self.follower() else { return };
        // A renewal on top of a foreign commit does not continue the worktree.
        if !self.repo.checked_out(place).is_some_and(|own| self.repo.descends(own, from)) {
            return;
        }
        follow(&self.repo, self.claim, place, from, renewal);
    }

    /// Schedules a retry after a failed check or renewal: until the lease ends, never beyond, and on a remote
    /// at growing intervals.
    fn failed(&mut self, why: &str) -> Beat {
        tracing::warn!(branch = %self.claim.branch, attempt = %self.claim.attempt, why, "could not look after the lease");
        if self.renews && self.left().is_zero() {
            return Beat::GiveUp(StopReason::LeaseUnrenewable { why: why.to_owned() });
        }
        if self.authority.store() == Store::Local || !self.renews {
            return self.again();
        }
        let pause = self.interval().saturating_mul(1 << self.failures.min(8));
        self.failures = self.failures.saturating_add(1);
        Beat::Again(pause.min(self.left()).max(Duration::from_millis(20)))
    }

    /// Schedules the next check in a second, or sooner if the lease is short.
    fn again(&self) -> Beat {
        let interval = self.interval();
        let due = self.left().saturating_sub(renewal_lead(self.seconds));
        let wake_in =
            if self.renews && due < interval { due.max(Duration::from_millis(20)) } else { interval };
        Beat::Again(wake_in)
    }

    fn interval(&self) -> Duration {
        Duration::from_millis(self.seconds.saturating_mul(1000) / 20).clamp(Duration::from_millis(50), LOOK)
    }

    /// The remaining time of the lease.
    pub(crate) fn left(&self) -> Duration {
        let end = self
            .leased_at
            .saturating_mul(1000)
            .saturating_add(i64::try_from(self.seconds.saturating_mul(1000)).unwrap_or(i64::MAX));
        Duration::from_millis(u64::try_from(end.saturating_sub(clock::wall_millis())).unwrap_or(0))
    }
}
