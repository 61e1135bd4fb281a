//! Lands the result of a command on its branch, as a state machine: facts in, orders out (section 6
//! of CONTRACT.md).
//!
//! Invariants: work is saved before a `stalled` commit is written. Nothing is written on a HEAD
//! that is not the attempt's. A result that may have landed is recognised before anything else is
//! tried. A result that cannot be written becomes a failure; a failure that cannot be written ends
//! the landing. The caller reads, saves, writes and moves the branch.

use super::cancel::{Cancel, Then};
use super::declaration::Declared;
use super::head::Event;
use super::ids::CommitId;
use super::ownership::Ownership;
use super::requeue::{OnInterrupt, Requeue};
use super::settlement::{Ending, Settlement, StopReason, overtaken, settle, too_often};
use super::trailers::Trailers;

/// How many times the branch may move during the landing, by processes the command left behind,
/// before giving up.
const MOST_LOST: u32 = 20;

/// A landing in progress.
#[derive(Debug)]
pub(crate) struct Landing {
    /// `STATE` and how its command ended, for sentences.
    subject: String,
    is_success: bool,
    /// Whether the runner was asked to stop.
    stopped: bool,
    /// The newest request to cancel that was seen.
    cancel: Option<Cancel>,
    settlement: Settlement,
    why: String,
    store: Store,
    /// Whether the branch has to be read before the next write.
    doubtful: bool,
    stage: Stage,
    saved: bool,
    lost: u32,
    open: bool,
    trouble: String,
    tried: Vec<Tried>,
}

/// The store that decides where the branch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Store {
    /// This repository: reading a branch costs nothing.
    Local,
    /// A remote: the branch is presumed unmoved, and the push finds out.
    Remote,
}

/// A result that was written and may have landed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tried {
    /// The commit.
    pub(crate) commit: CommitId,
    /// The outcome it records.
    pub(crate) settlement: Settlement,
    /// The reason, for a stalled commit.
    pub(crate) why: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Looking,
    Saving { head: CommitId, parent: CommitId },
    Writing { head: CommitId, parent: CommitId },
    Moving { parent: CommitId },
    Pausing,
    Over,
}

/// The next action for the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub(crate) enum Order {
    /// Read where the branch is, and where the command left its worktree.
    Look {
        /// Whether to query the store; otherwise the branch is presumed where it was last seen.
        ask: bool,
    },
    /// Save what the worktree contains beyond `kept`; its files are based on `base`.
    Save {
        /// The commit the files are based on.
        base: CommitId,
        /// The commit that needs no saving.
        kept: CommitId,
    },
    /// Write [`Landing::settlement`] as a commit on top of `parent`.
    Write { parent: CommitId },
    /// Move the branch from `head` to `new`.
    Move {
        /// Its expected old value.
        head: CommitId,
        /// The result.
        new: CommitId,
    },
    /// Wait a little, if there is time left.
    Pause,
    /// The landing is over.
    Finish(Finish),
}

/// The result of the last order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fact {
    /// Result of [`Order::Look`].
    Seen(Sight),
    /// Result of [`Order::Save`]: `Ok` if it is done, or there was nothing to save; else why not.
    Saved(Result<(), String>),
    /// Result of [`Order::Write`]: the commit, or the reason of the failure.
    Written(Result<CommitId, String>),
    /// Result of [`Order::Move`].
    Moved(Moved),
    /// Result of [`Order::Pause`]: whether there is time for another try.
    Paused(bool),
}

/// The result of [`Order::Look`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sight {
    /// The branch is the attempt's.
    Ours {
        head: CommitId,
        /// Where the worktree is.
        worktree: Position,
        /// A request to stop the attempt above its lease.
        cancel: Option<Cancel>,
    },
    /// The branch descends from the result that was [tried](Landing::tried) with this index.
    Landed(usize),
    /// The branch is no longer the attempt's.
    Foreign(Ownership, Option<CommitId>),
    /// It could not be read, with the reason.
    Unreadable(String),
}

/// Where a command left its worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Position {
    /// At a commit that continues the branch.
    At(CommitId),
    /// At a commit that does not.
    Astray(CommitId),
    /// There is no worktree.
    Nowhere,
    /// At any commit, while the branch has a commit made elsewhere that the result would undo
    /// (CONTRACT 6.12).
    Overtaken {
        /// The commit its files are based on.
        base: CommitId,
        /// The foreign commit and its author, in words.
        by: String,
    },
}

/// Result of moving the branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Moved {
    /// The branch is at the result.
    Won,
    /// The branch had another value.
    Lost,
    /// The move failed.
    Failed {
        why: String,
        /// Whether it may have been moved all the same; `None` if this try did not find out.
        open: Option<bool>,
        /// Whether another try is useless.
        is_final: bool,
    },
}

/// How a landing ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Finish {
    /// The branch is at this result, or beyond it.
    Landed {
        result: Tried,
        /// Its parent, if this landing just wrote it.
        parent: Option<CommitId>,
    },
    /// The branch is no longer the attempt's; its HEAD, if it exists. Nothing was written.
    Foreign(Ownership, Option<CommitId>),
    /// The result could not be written.
    Unwritten {
        why: String,
        /// Whether it may have landed all the same.
        open: bool,
    },
}

impl Landing {
    /// Begins to land the outcome of `ending` and of what the command declared.
    pub(crate) fn begin(
        trigger: &Event,
        ending: &Ending,
        declared: Option<Declared>,
        policy: OnInterrupt,
        store: Store,
    ) -> (Self, Order) {
        let subject = format!("`{}` {}", trigger.state, ending.describe());
        let trailers: &Trailers = &trigger.message.trailers;
        let settlement = settle(ending, declared, trailers, policy);
        let but = (settlement == Settlement::Stall).then(|| too_often(ending, trailers, policy)).flatten();
        let landing = Self {
            why: but.map_or_else(|| subject.clone(), |but| format!("{subject}; {but}")),
            subject,
            stopped: matches!(ending, Ending::Stopped { why: StopReason::Interrupted { .. } }),
            cancel: match ending {
                Ending::Stopped { why: StopReason::Cancelled(cancel) } => Some(cancel.clone()),
                _ => None,
            },
            is_success: ending.is_success() || matches!(settlement, Settlement::Advance(_)),
            settlement,
            store,
            doubtful: store == Store::Local,
            stage: Stage::Looking,
            saved: false,
            lost: 0,
            open: false,
            trouble: String::new(),
            tried: Vec::new(),
        };
        let order = Order::Look { ask: store == Store::Local };
        (landing, order)
    }

    /// The outcome to write.
    pub(crate) fn settlement(&self) -> &Settlement {
        &self.settlement
    }

    /// The reason, for a stalled commit.
    pub(crate) fn why(&self) -> &str {
        &self.why
    }

    /// Results that may have landed.
    pub(crate) fn tried(&self) -> &[Tried] {
        &self.tried
    }

    /// Handles the result of the last order and returns the next one.
    pub(crate) fn on(&mut self, fact: Fact) -> Order {
        match (self.stage, fact) {
            (Stage::Looking, Fact::Seen(sight)) => self.seen(sight),
            (Stage::Saving { head, parent }, Fact::Saved(saved)) => {
                self.saved = true;
                // Only a stalled commit can say where the work is.
                if let (Err(why), Settlement::Requeue(_)) = (saved, &self.settlement) {
                    self.stall(&format!("its work could not be saved: {why}"));
                }
                self.write(head, parent)
            }
            (Stage::Writing { head, parent }, Fact::Written(Ok(new))) => {
                self.stage = Stage::Moving { parent };
                let (settlement, why) = (self.settlement.clone(), self.why.clone());
                self.tried.push(Tried { commit: new, settlement, why });
                Order::Move { head, new }
            }
            (Stage::Writing { .. }, Fact::Written(Err(why))) => self.unwritable(why),
            (Stage::Moving { parent }, Fact::Moved(Moved::Won)) => {
                let result = self.tried.pop().expect("what was moved was written");
                self.finish(Finish::Landed { result, parent: Some(parent) })
            }
            (Stage::Moving { .. }, Fact::Moved(Moved::Lost)) => {
                self.lost += 1;
                self.open = false;
                self.trouble = "the branch kept moving".to_owned();
                self.doubtful = true;
                if self.lost < MOST_LOST { self.look() } else { self.give_up() }
            }
            (Stage::Moving { .. }, Fact::Moved(Moved::Failed { why, open, is_final })) => {
                self.trouble = why;
                self.open = open.unwrap_or(self.open);
                self.doubtful = self.store == Store::Local;
                if is_final { self.give_up() } else { self.pause() }
            }
            (Stage::Pausing, Fact::Paused(true)) => self.look(),
            (Stage::Pausing, Fact::Paused(false)) => self.give_up(),
            (stage, fact) => unreachable!("{fact:?} is no answer while {stage:?}"),
        }
    }

    fn seen(&mut self, sight: Sight) -> Order {
        let (head, worktree) = match sight {
            Sight::Ours { head, worktree, cancel } => {
                self.heed(cancel);
                (head, worktree)
            }
            Sight::Landed(index) => {
                let result = self.tried.swap_remove(index);
                return self.finish(Finish::Landed { result, parent: None });
            }
            Sight::Foreign(ownership, head) => return self.finish(Finish::Foreign(ownership, head)),
            Sight::Unreadable(why) => {
                self.trouble = why;
                return self.pause();
            }
        };
        match worktree {
            Position::At(parent) => self.save_or_write(head, parent, parent),
            Position::Nowhere => self.save_or_write(head, head, head),
            Position::Overtaken { base, by } => {
                self.why = overtaken(&self.subject, self.is_success, &by);
                self.settlement = Settlement::Stall;
                self.save_or_write(head, head, base)
            }
            Position::Astray(commit) => {
                if !self.is_unfinished() {
                    let short = commit.short();
                    self.stall(&format!(
                        "left its worktree at {short}, which does not descend from its lease"
                    ));
                }
                self.save_or_write(head, head, commit)
            }
        }
    }

    fn save_or_write(&mut self, head: CommitId, parent: CommitId, base: CommitId) -> Order {
        if self.is_unfinished() && !self.saved {
            self.stage = Stage::Saving { head, parent };
            return Order::Save { base, kept: parent };
        }
        self.write(head, parent)
    }

    /// Heeds a request where the command did not fail by itself and no state follows: neither a stop of the runner nor
    /// a kept lease is an answer to it.
    fn heed(&mut self, cancel: Option<Cancel>) {
        let Some(cancel) = cancel else { return };
        let open = match self.settlement {
            Settlement::Requeue(Requeue::Interrupted(_) | Requeue::HandedBack(_))
            | Settlement::KeepWorking => true,
            // Once the work is saved the reason may say that it is not.
            Settlement::Stall => self.stopped && !self.saved && self.cancel.is_none(),
            // Nobody runs again what somebody has asked to stall.
            Settlement::Requeue(Requeue::Cancelled) => cancel.then == Then::Stall,
            Settlement::Advance(_) => false,
        };
        if open {
            self.why = format!("{}; it was {cancel}", self.subject);
            self.settlement = match cancel.then {
                Then::Stall => Settlement::Stall,
                Then::Requeue => Settlement::Requeue(Requeue::Cancelled),
            };
        }
        self.cancel = Some(cancel);
    }

    /// Whether the result is the `stalled` of a cancellation, for which no command is run (CONTRACT 5.36).
    pub(crate) fn is_cancelled(&self) -> bool {
        let asked = self.cancel.as_ref().is_some_and(|cancel| cancel.then == Then::Stall);
        asked && self.settlement == Settlement::Stall
    }

    /// Whether the command did not finish, so that what it left is saved first.
    fn is_unfinished(&self) -> bool {
        matches!(self.settlement, Settlement::Stall | Settlement::Requeue(_))
    }

    fn write(&mut self, head: CommitId, parent: CommitId) -> Order {
        self.stage = Stage::Writing { head, parent };
        Order::Write { parent }
    }

    fn unwritable(&mut self, why: String) -> Order {
        if self.settlement == Settlement::Stall {
            self.trouble = why;
            return self.pause();
        }
        // A declaration that cannot be written is the command's failure, and is reported as one
        // (CONTRACT 6.10).
        let what = match self.settlement {
            Settlement::Requeue(_) => "it could not be asked for again",
            Settlement::Advance(_) | Settlement::KeepWorking | Settlement::Stall => {
                "its result could not be written"
            }
        };
        self.stall(&format!("{what}: {why}"));
        self.look()
    }

    fn stall(&mut self, but: &str) {
        self.why = format!("{}, but {but}", self.subject);
        self.settlement = Settlement::Stall;
    }

    fn look(&mut self) -> Order {
        self.stage = Stage::Looking;
        Order::Look { ask: self.doubtful }
    }

    fn pause(&mut self) -> Order {
        self.stage = Stage::Pausing;
        Order::Pause
    }

    fn give_up(&mut self) -> Order {
        let trouble = std::mem::take(&mut self.trouble);
        let why = match self.settlement {
            // The reason of the stall is kept: nothing else would report how the attempt ended.
            Settlement::Stall if self.why.contains(&trouble) => self.why.clone(),
            Settlement::Stall => format!("{}, and `stalled` could not be written: {trouble}", self.why),
            Settlement::Requeue(_) => {
                format!("{}, and it could not be asked for again: {trouble}", self.why)
            }
            Settlement::Advance(_) | Settlement::KeepWorking => trouble,
        };
        self.finish(Finish::Unwritten { why, open: self.open })
    }

    fn finish(&mut self, finish: Finish) -> Order {
        self.stage = Stage::Over;
        Order::Finish(finish)
    }
}

#[cfg(test)]
mod tests;
