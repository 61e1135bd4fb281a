//! The end of one attempt: carries out the orders of [`contract::landing`](crate::contract::landing), which
//! decides.

use crate::clock;
use crate::contract::alike::misspelt;
use crate::contract::headlog::Origin;
use crate::contract::ids::CommitId;
use crate::contract::kept::Kept;
use crate::contract::landing::{Fact, Finish, Landing, Moved, Order, Position, Sight, Tried};
use crate::contract::message::Message;
use crate::contract::ownership::Ownership;
use crate::contract::requeue::Requeue;
use crate::contract::settlement::Settlement;
use crate::contract::unable::{Unable, first_untaken, unable};
use crate::contract::waits_for::WaitsFor;
use crate::git::contents::rescue::{Rescue, Saved, Situation};
use crate::git::remote::HASTE;
use crate::git::{Repo, Swap, Workplace};
use crate::runner::events::warning::Warning;

use crate::runner::attempt::cancel::find;
use crate::runner::attempt::finished::{Finished, Site};
use crate::runner::attempt::ground;
use crate::runner::attempt::ground::{Ground, Taken};
use crate::runner::attempt::heartbeat::{catch_up, known, look};
use crate::runner::events::notice::{Left, Outcome};
use crate::runner::landing::deadline::Deadline;
use crate::runner::{Context, error_chain};

/// The end of an attempt in progress, with the work saved so far.
pub(crate) struct End<'a> {
    pub(crate) context: &'a Context<'a>,
    pub(crate) repo: &'a Repo,
    pub(crate) finished: &'a Finished,
    pub(crate) rescued: Option<Saved>,
    /// The worktree and the reason, if it stays.
    pub(crate) left: Option<Left>,
}

/// The result of a landing.
pub(crate) struct Landed {
    pub(crate) outcome: Outcome,
    pub(crate) commit: Option<CommitId>,
    pub(crate) rescued: Option<Saved>,
    pub(crate) left: Option<Left>,
}

impl<'a> End<'a> {
    pub(crate) fn new(context: &'a Context<'a>, repo: &'a Repo, finished: &'a Finished) -> Self {
        Self { context, repo, finished, rescued: None, left: None }
    }

    /// Lands the result of the command's end and its declaration.
    pub(crate) fn land(&mut self) -> Landed {
        let (context, finished) = (self.context, self.finished);
        let claim = &finished.claim;
        let declared = finished.declared.clone();
        let (mut landing, mut order) = {
            let (policy, store) = (context.options.on_interrupt, context.authority.store());
            Landing::begin(&claim.trigger, &finished.ending, declared, policy, store)
        };
        if let Settlement::Advance(declaration) = landing.settlement() {
            for slip in misspelt(&declaration.trailers) {
                context.warn(Some(&claim.branch), Warning::Misspelt(slip));
            }
        }
        let mut deadline = Deadline::new(context, finished.lease_left);
        loop {
            let fact = match order {
                Order::Look { ask } => Fact::Seen(self.look(ask, landing.tried(), &deadline)),
                Order::Save { base, kept } => {
                    self.save(base, Some(kept));
                    Fact::Saved(self.left.as_ref().map_or(Ok(()), |left| Err(left.why.clone())))
                }
                Order::Write { parent } => Fact::Written(self.write(&landing, parent)),
                Order::Move { head, new } => {
                    crate::crashpoint::reach(crate::crashpoint::Point::ResultWritten);
                    let state = &claim.trigger.state;
                    let log = format!("aynig: {} after {state}", landing.settlement().state(state));
                    Fact::Moved(self.swap(head, new, &log, &deadline))
                }
                Order::Pause => Fact::Paused(deadline.wait(context)),
                Order::Finish(finish) => return self.finish(finish),
            };
            order = landing.on(fact);
        }
    }

    /// Ends an attempt whose lease was lost. Nothing is landed, and all work is saved (CONTRACT 6.9).
    pub(crate) fn not_landed(&mut self) -> Landed {
        let seen = look(self.repo, self.context.authority, &self.finished.claim, HASTE);
        let (how, head) = match seen {
            Ok((Ownership::Ours, head)) => (self.finished.unrenewed(), head),
            Ok((ownership, head)) => return self.moved_on(ownership, head),
            Err(why) => (why, None),
        };
        self.save(self.base(), head);
        self.landed(Outcome::LeaseLost { how }, None)
    }

    /// The base commit for a rescue after the lease was lost: a detached HEAD, else the last HEAD that was
    /// ours with the command's commits on it. An attached HEAD cannot be used, since it moves with the
    /// branch.
    pub(crate) fn base(&self) -> CommitId {
        let Some(place) = self.place() else { return self.finished.held };
        let ground = self.ground();
        // `held` may be a foreign commit without a state, which does not end the lease (CONTRACT 5.10).
        let held = match ground.origin(self.finished.held) {
            Origin::Elsewhere(stranger) => ground.own(stranger),
            Origin::Here | Origin::Unknown => self.finished.held,
        };
        match place.detached_at() {
            Some(head) if self.repo.commit(head).is_ok() => head,
            Some(_) | None if matches!(self.finished.site, Site::Worktree(_)) => {
                self.repo.committed_within(&place.git_dir, held)
            }
            // The log of a checkout also has moves of its branch by others.
            Some(_) | None => held,
        }
    }

    /// The tree of the index, if there is one.
    pub(crate) fn index(&self) -> Option<Result<CommitId, String>> {
        let tree = match &self.finished.site {
            Site::Worktree(worktree) => self.repo.staged_tree(worktree),
            Site::InPlace(checkout) => self.repo.index_tree(checkout),
            Site::None => return None,
        };
        Some(tree.map_err(|error| error_chain(&error)))
    }

    /// The commit whose tree a new commit on top of `parent` takes, if it does not take the index.
    pub(crate) fn taken(&self, parent: CommitId) -> Taken {
        self.ground().taken(&self.context.options.trust, parent)
    }

    fn place(&self) -> Option<&'a Workplace> {
        self.finished.site.place()
    }

    /// The checkout, if its HEAD has to be moved along.
    fn follower(&self) -> Option<&'a Workplace> {
        self.context.authority.follower(self.place())
    }

    fn ground(&self) -> Ground<'a> {
        let claim = &self.finished.claim;
        Ground::new(self.repo, claim.attempt, claim.lease, self.finished.site.git_dir())
    }

    fn look(&self, ask: bool, tried: &[Tried], deadline: &Deadline) -> Sight {
        let claim = &self.finished.claim;
        let seen = if ask {
            look(self.repo, self.context.authority, claim, deadline.share())
        } else {
            Ok(known(self.repo, self.context.authority, claim)
                .unwrap_or((Ownership::Ours, Some(self.finished.held))))
        };
        if let Ok((_, Some(head))) = &seen
            && let Some(at) = tried.iter().position(|tried| self.repo.descends(*head, tried.commit))
        {
            return Sight::Landed(at);
        }
        let head = match seen {
            Ok((Ownership::Ours, Some(head))) => head,
            Ok((ownership, head)) => return Sight::Foreign(ownership, head),
            Err(why) => return Sight::Unreadable(why),
        };
        if let Some(place) = self.follower() {
            catch_up(self.repo, claim, place, head);
        }
        let trust = &self.context.options.trust;
        let cancel =
            find(self.repo, trust, Some(claim.attempt), &claim.branch, head, Some(claim.lease)).heeded;
        Sight::Ours { head, worktree: self.position(head), cancel }
    }

    fn position(&self, head: CommitId) -> Position {
        if let Some(stranger) = self.stranger(head) {
            return Position::Overtaken { base: self.base(), by: ground::named(self.repo, stranger) };
        }
        match self.worktree_head(head) {
            Some(own) if self.repo.descends(own, head) => Position::At(own),
            Some(astray) => Position::Astray(astray),
            None => Position::Nowhere,
        }
    }

    /// Finds a foreign commit from `head` down that a result would undo (CONTRACT 6.12).
    fn stranger(&self, head: CommitId) -> Option<CommitId> {
        let ground = self.ground();
        let Origin::Elsewhere(commit) = ground.origin(head) else { return None };
        let is_taken_in = if self.follower().is_some() {
            self.worktree_head(head).is_some_and(|own| self.repo.descends(own, head))
        } else {
            // A program that writes no reflog may have made the commit here, from this index.
            self.index().is_some_and(|tree| {
                tree.is_ok_and(|tree| ground.is_in(&self.context.options.trust, commit, tree))
            })
        };
        (!is_taken_in).then_some(commit)
    }

    /// The HEAD of the worktree, which is the branch's while it is attached to it.
    fn worktree_head(&self, branch_head: CommitId) -> Option<CommitId> {
        let place = self.place()?;
        match place.branch() {
            Some(branch) if self.follower().is_none() && branch == self.finished.claim.branch => {
                Some(branch_head)
            }
            Some(other) => self.repo.branch_head(&other).ok().flatten(),
            None => place.detached_at(),
        }
    }

    fn swap(&self, head: CommitId, new: CommitId, log: &str, deadline: &Deadline) -> Moved {
        let branch = &self.finished.claim.branch;
        match self.context.authority.land(self.repo, deadline.share(), branch, [head, new], log) {
            Ok(Swap::Won) => {
                crate::crashpoint::reach(crate::crashpoint::Point::ResultMoved);
                Moved::Won
            }
            Ok(Swap::Lost { .. }) => Moved::Lost,
            Err(error) => Moved::Failed {
                why: error_chain(&error),
                open: error.leaves_open(),
                is_final: error.is_final(),
            },
        }
    }

    fn finish(&mut self, finish: Finish) -> Landed {
        match finish {
            Finish::Landed { result: Tried { commit, settlement, why }, parent } => {
                let parent = parent.or_else(|| self.repo.commit(commit).ok()?.parents.first().copied());
                if let Some(parent) = parent {
                    self.follow(parent, commit);
                }
                let outcome = match settlement {
                    Settlement::Advance(declaration) => Outcome::Advanced {
                        waits: WaitsFor::of(&declaration.trailers.into_iter().collect()).map(Box::new),
                        state: declaration.state,
                    },
                    Settlement::KeepWorking => Outcome::KeptWorking {
                        kept: Kept::new(self.finished.invalid.as_ref()),
                        until: clock::wall_seconds().saturating_add_unsigned(self.finished.claim.seconds),
                    },
                    Settlement::Stall => Outcome::Stalled { why },
                    Settlement::Requeue(requeue) => Outcome::Requeued {
                        untaken: self.untaken(commit),
                        state: self.finished.claim.trigger.state.clone(),
                        why: match requeue {
                            Requeue::Interrupted(count) => format!("{why}; {}", count.asked_again()),
                            Requeue::Cancelled => format!("{why}; asked again"),
                            Requeue::HandedBack(back) => back.to_string(),
                        },
                    },
                };
                self.landed(outcome, Some(commit))
            }
            Finish::Foreign(ownership, head) => self.moved_on(ownership, head),
            Finish::Unwritten { why, open } => {
                if self.context.authority.recovers_elsewhere() {
                    // The remote cannot be reached, and who closes the lease cannot see this host.
                    self.save(self.base(), None);
                } else {
                    let next = if self.rescued.is_none() { "saves what is here" } else { "removes it" };
                    let why =
                        format!("the result could not be written; when the lease ends, the next pass {next}");
                    self.left = self.place().map(|place| Left { path: place.path.clone(), why });
                }
                self.landed(Outcome::Unwritten { why, open }, None)
            }
        }
    }

    /// The hosts that cannot do what is requested, if a notice is due with this commit.
    fn untaken(&self, commit: CommitId) -> Vec<Unable> {
        let Ok(stored) = self.repo.commit(commit) else { return Vec::new() };
        let written = Message::parse(&stored.message).trailers;
        let is_first = first_untaken(&self.finished.claim.trigger.message.trailers, &written);
        if is_first { unable(&written) } else { Vec::new() }
    }

    /// With a remote, moves the worktree or checkout to the result, since it is not attached to the branch.
    fn follow(&self, parent: CommitId, new: CommitId) {
        let Some(place) = self.follower() else { return };
        // The checkout does not follow onto a foreign commit.
        if !self.worktree_head(parent).is_some_and(|own| self.repo.descends(own, parent)) {
            return;
        }
        let moved = match &self.finished.site {
            // The command has attached its worktree to a branch, which the runner must not move.
            Site::Worktree(_) if place.branch().is_some() => {
                place.detach(new).map_err(|error| error.to_string())
            }
            Site::Worktree(_) | Site::InPlace(_) | Site::None => self
                .repo
                .advance(place, parent, new, "aynig: follow the result")
                .map_err(|error| error_chain(&error)),
        };
        if let Err(why) = moved {
            tracing::warn!(branch = %self.finished.claim.branch, why, "the checkout did not follow the result");
        }
    }

    /// Ends an attempt whose branch was moved by another.
    fn moved_on(&mut self, ownership: Ownership, head: Option<CommitId>) -> Landed {
        let how = match ownership {
            Ownership::AdvancedByCommand { state } => {
                let base = match (head, self.base()) {
                    (Some(head), own) if self.repo.descends(head, own) => head,
                    (Some(_) | None, own) => own,
                };
                self.save(base, head);
                let stored = head.and_then(|head| self.repo.commit(head).ok());
                let subject = stored.map(|stored| Message::parse(&stored.message).subject.to_string());
                return self.landed(Outcome::AdvancedByCommand { state, subject }, None);
            }
            Ownership::Ours => "the branch could not be read".to_owned(),
            Ownership::TakenOver { by } if by.is_empty() => "another attempt holds it".to_owned(),
            Ownership::TakenOver { by } => format!("{by} holds it with another attempt"),
            Ownership::Overridden { state } => format!("the state {state} was set over the lease (--force)"),
            Ownership::Recovered => "another runner found the lease expired and closed it".to_owned(),
            Ownership::Rewound => {
                "the branch was moved to a commit that does not descend from the lease".to_owned()
            }
            Ownership::Gone => "the branch was deleted".to_owned(),
        };
        self.save(self.base(), head);
        self.landed(Outcome::LeaseLost { how }, None)
    }

    fn landed(&mut self, outcome: Outcome, commit: Option<CommitId>) -> Landed {
        Landed { outcome, commit, rescued: self.rescued.take(), left: self.left.take() }
    }

    /// Saves the work in the worktree or checkout that `kept` does not have. If that fails the worktree
    /// stays, and `left` has the reason.
    fn save(&mut self, base: CommitId, kept: Option<CommitId>) {
        let claim = &self.finished.claim;
        let label = claim.attempt.to_string();
        let situation = Situation { branch: &claim.branch, label: &label, base, kept, also: None };
        let result = match &self.finished.site {
            Site::Worktree(worktree) => self.repo.rescue(worktree, situation),
            // The user's files stay in place. Commits and the index are lost to the branch only if the lease
            // was lost.
            Site::InPlace(checkout) if kept != Some(base) => self.repo.rescue_index(checkout, situation),
            Site::InPlace(_) | Site::None => return,
        };
        match result {
            Ok(Rescue::Nothing) => {}
            Ok(Rescue::Saved(saved)) => self.rescued = Some(saved),
            Err(error) => {
                let why = error_chain(&error);
                self.context.warn(Some(&claim.branch), Warning::WorkNotSaved { why: why.clone() });
                self.left = self.place().map(|place| Left { path: place.path.clone(), why });
            }
        }
    }
}
