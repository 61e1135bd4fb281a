//! How the result of a command gets onto its branch: what was seen and done so far goes in, the next thing to do comes out
//! (CONTRACT.md §6).
//!
//! Invariants: work is saved before a `stalled` commit is written; nothing is written on a HEAD that is not the attempt's;
//! what may have landed is recognised before anything else is tried; a result that cannot be written becomes a failure, a
//! failure that cannot be written ends the landing. Looking, saving, writing and moving the branch are the caller's.

use super::declaration::Declaration;
use super::ids::{CommitId, StateName};
use super::ownership::Ownership;
use super::settlement::{Ending, Settlement, overtaken, settle};

/// How often a branch may move under the landing (by the command's own survivors) before it is given up.
const MOST_LOST: u32 = 20;

/// A landing under way.
#[derive(Debug)]
pub(crate) struct Landing {
    /// `STATE` and how its command ended, for sentences.
    subject: String,
    is_success: bool,
    settlement: Settlement,
    why: String,
    store: Store,
    /// Whether the branch has to be looked at before the next write.
    doubtful: bool,
    stage: Stage,
    saved: bool,
    lost: u32,
    open: bool,
    trouble: String,
    tried: Vec<Tried>,
}

/// Who decides where the branch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Store {
    /// This repository: a look costs nothing.
    Local,
    /// A remote: the branch is presumed where it was left, and the push is the question.
    Remote,
}

/// A result that was written and may have landed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tried {
    /// The commit.
    pub(crate) commit: CommitId,
    /// What it says.
    pub(crate) settlement: Settlement,
    /// Of a stalled one: why.
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

/// What is to be done next.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub(crate) enum Order {
    /// Look where the branch is, `ask`ing whoever decides, and where the command left its worktree.
    Look {
        /// Otherwise the branch is presumed to be where it was last seen.
        ask: bool,
    },
    /// Save what the worktree holds beyond `kept`; its files are based on `base`.
    Save {
        /// The commit the files are based on.
        base: CommitId,
        /// The commit that is safe already.
        kept: CommitId,
    },
    /// Write [`Landing::settlement`] as a commit on top of `parent`.
    Write {
        /// The parent.
        parent: CommitId,
    },
    /// Move the branch from `head` to `new`.
    Move {
        /// Where it has to be.
        head: CommitId,
        /// The result.
        new: CommitId,
    },
    /// Wait a little, if there is time left.
    Pause,
    /// Nothing any more.
    Finish(Finish),
}

/// What came of the last order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fact {
    /// Of a look.
    Seen(Sight),
    /// Of saving: done, with nothing to save or not.
    Saved,
    /// Of writing: the commit, or why not.
    Written(Result<CommitId, String>),
    /// Of moving the branch.
    Moved(Moved),
    /// Of a pause: whether there is time for another try.
    Paused(bool),
}

/// What a look shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sight {
    /// The branch is the attempt's.
    Ours {
        /// Its HEAD.
        head: CommitId,
        /// Where the worktree is.
        worktree: Position,
    },
    /// The branch descends from the result that was [tried](Landing::tried) with this index.
    Landed(usize),
    /// The branch is not the attempt's any more.
    Foreign(Ownership, Option<CommitId>),
    /// It could not be seen.
    Unreadable(String),
}

/// Where a command left its worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Position {
    /// At a commit that continues the branch.
    At(CommitId),
    /// At a commit that does not.
    Astray(CommitId),
    /// There is none.
    Nowhere,
    /// Wherever it is: somebody else's commit is on the branch, which the result would undo.
    Overtaken {
        /// The commit its files are based on.
        base: CommitId,
        /// The commit and its author, in words.
        by: String,
    },
}

/// What came of moving the branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Moved {
    /// It is done.
    Won,
    /// The branch was somewhere else.
    Lost,
    /// It could not be done.
    Failed {
        /// Why.
        why: String,
        /// Whether it may have been done all the same; `None` if nothing was learnt.
        open: Option<bool>,
        /// Whether another try is of no use.
        is_final: bool,
    },
}

/// How a landing ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Finish {
    /// The branch is at this result, or beyond it.
    Landed {
        /// The result.
        result: Tried,
        /// Its parent, where it was just made.
        parent: Option<CommitId>,
    },
    /// The branch is not the attempt's any more, but at this HEAD; nothing was written.
    Foreign(Ownership, Option<CommitId>),
    /// The result could not be written.
    Unwritten {
        /// Why.
        why: String,
        /// Whether it may have landed all the same.
        open: bool,
    },
}

impl Landing {
    /// Begins to land what `ending` and the command's declaration come to.
    pub(crate) fn begin(
        state: &StateName,
        ending: &Ending,
        declaration: Option<Declaration>,
        store: Store,
    ) -> (Self, Order) {
        let subject = format!("`{state}` {}", ending.describe());
        let landing = Self {
            why: subject.clone(),
            subject,
            is_success: ending.is_success(),
            settlement: settle(ending, declaration),
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

    /// What is to be written.
    pub(crate) fn settlement(&self) -> &Settlement {
        &self.settlement
    }

    /// Why, for a stalled commit.
    pub(crate) fn why(&self) -> &str {
        &self.why
    }

    /// Results that may have landed.
    pub(crate) fn tried(&self) -> &[Tried] {
        &self.tried
    }

    /// Takes in what came of the last order.
    pub(crate) fn on(&mut self, fact: Fact) -> Order {
        match (self.stage, fact) {
            (Stage::Looking, Fact::Seen(sight)) => self.seen(sight),
            (Stage::Saving { head, parent }, Fact::Saved) => {
                self.saved = true;
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
            Sight::Ours { head, worktree } => (head, worktree),
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
                if self.settlement != Settlement::Stall {
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
        if self.settlement == Settlement::Stall && !self.saved {
            self.stage = Stage::Saving { head, parent };
            return Order::Save { base, kept: parent };
        }
        self.write(head, parent)
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
        // What was declared cannot be written: that is the command's failure, reported like one.
        self.stall(&format!("its result could not be written: {why}"));
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
            // Nobody else would say how the attempt ended.
            Settlement::Stall if self.why.contains(&trouble) => self.why.clone(),
            Settlement::Stall => format!("{}, and `stalled` could not be written: {trouble}", self.why),
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
