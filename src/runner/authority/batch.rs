//! The pushes of a remote authority: queues moves, pushes them in batches, and judges each by itself.
//!
//! Invariant: each queued move gets one answer. If a push was not answered, its move is won only if the
//! remote is found to have it (CONTRACT 5.16). A push costs a connection, which can carry any number of refs.
//! So moves queued during a push go together in the next one, and results of steps that end soon after one
//! another wait for each other a little (CONTRACT 5.15), never longer than pushes take anyway. One push runs
//! at a time, unless it hangs.

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::clock;
use crate::clock::Stopwatch;
use crate::contract::ids::{BranchName, CommitId, RemoteName};
use crate::git::pushed::Pushed;
use crate::git::remote::{HASTE, Move, PATIENCE, QUESTION, RemoteError};
use crate::git::{ProcessError, Repo, Swap};

use crate::runner::authority::error::AuthorityError;
use crate::runner::authority::lookout::Lookout;

/// The longest wait for another caller's push, or half of the caller's own time if that is less. Then the
/// caller starts its own push, since the first connection may hang.
const SLOW: Duration = Duration::from_secs(10);

/// Retries of a push that was refused as a whole, without the branches the server named.
const MOST_RETRIES: u32 = 3;

/// The longest that a result waits for those of other steps.
const RESULT_LINGER: Duration = Duration::from_secs(2);

/// The longest that a claim waits for other claims.
const CLAIM_LINGER: Duration = Duration::from_millis(500);

/// A remote as authority, with the queue of its pushes.
#[derive(Debug)]
pub struct Remote {
    name: RemoteName,
    queue: Mutex<Queue>,
    changed: Condvar,
    lookout: Lookout,
}

#[derive(Debug, Default)]
struct Queue {
    next_ticket: u64,
    waiting: Vec<Waiting>,
    done: HashMap<u64, Result<Swap, AuthorityError>>,
    /// Tickets whose owners no longer wait for the answer.
    given_up: HashSet<u64>,
    /// The current push, which others wait for: its first ticket and its start.
    pushing: Option<(u64, Instant)>,
    /// The number of running steps. Each will queue a move at its end.
    under_way: usize,
    /// Whether a claim or a renewal waits, which is pushed without delay.
    urgent: bool,
    /// How long the oldest and the youngest of `waiting` have been waiting.
    waits: Option<(Stopwatch, Stopwatch)>,
    /// The time the last push took.
    took: Duration,
}

impl Queue {
    /// How much longer the next push waits for results of other steps. Zero if no other step is running, and
    /// before the first push.
    fn linger(&self) -> Duration {
        let Some((oldest, youngest)) = &self.waits else { return Duration::ZERO };
        if self.urgent || self.waiting.len() >= self.under_way {
            return Duration::ZERO;
        }
        let linger = self.took.saturating_sub(youngest.elapsed());
        let all = RESULT_LINGER.min(self.took * 4).saturating_sub(oldest.elapsed());
        linger.min(all)
    }
}

/// Counts a step as running until dropped.
#[derive(Debug)]
#[must_use = "the step counts as running while this lives"]
pub(crate) struct UnderWay<'a>(Option<&'a Remote>);

impl<'a> UnderWay<'a> {
    /// For a step whose result will be pushed to `remote`.
    pub(crate) fn begin(remote: &'a Remote) -> Self {
        remote.lock().under_way += 1;
        Self(Some(remote))
    }

    /// For a step whose result needs no push.
    pub(crate) fn local() -> Self {
        Self(None)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let Some(remote) = self.0 {
            remote.lock().under_way -= 1;
            remote.changed.notify_all();
        }
    }
}

#[derive(Debug)]
struct Waiting {
    ticket: u64,
    wanted: Move,
    until: Option<Instant>,
}

impl Remote {
    /// Creates an authority with an empty queue.
    pub(crate) fn new(name: RemoteName) -> Self {
        Self { name, queue: Mutex::default(), changed: Condvar::new(), lookout: Lookout::default() }
    }

    pub(crate) fn name(&self) -> &RemoteName {
        &self.name
    }

    pub(crate) fn lookout(&self) -> &Lookout {
        &self.lookout
    }

    /// How long claims wait for each other: half the time of a push, since a saved push is worth at least
    /// that.
    pub(crate) fn linger(&self) -> Duration {
        (self.lock().took / 2).min(CLAIM_LINGER)
    }

    /// Queues the moves and waits for their answers, at most until the `within` of the moves. A caller that
    /// finds no push running pushes for all.
    pub(crate) fn swap_all(
        &self,
        repo: &Repo,
        moves: Vec<Move>,
        urgent: bool,
    ) -> Vec<Result<Swap, AuthorityError>> {
        let deadline =
            |within: Option<Duration>| within.and_then(|within| clock::monotonic().checked_add(within));
        let within = moves.iter().filter_map(|wanted| wanted.within).min();
        let until = deadline(within);
        // Waits for another caller's push at most half of its own time.
        let ahead = deadline(within.map(|within| within / 2));
        let mut queue = self.lock();
        if !moves.is_empty() {
            queue.urgent |= urgent;
            let now = Stopwatch::start();
            queue.waits = Some((queue.waits.map_or(now, |(oldest, _)| oldest), now));
        }
        let mine: Vec<(u64, BranchName)> = moves
            .into_iter()
            .map(|wanted| {
                let (ticket, branch) = (queue.next_ticket, wanted.branch.clone());
                queue.next_ticket += 1;
                queue.waiting.push(Waiting { ticket, wanted, until });
                (ticket, branch)
            })
            .collect();
        loop {
            if mine.iter().all(|(ticket, _)| queue.done.contains_key(ticket)) {
                return mine
                    .iter()
                    .map(|(ticket, _)| queue.done.remove(ticket).expect("just seen"))
                    .collect();
            }
            let now = clock::monotonic();
            if until.is_some_and(|until| until <= now) {
                return self.give_up(&mut queue, mine);
            }
            let unsent =
                queue.waiting.iter().any(|waiting| mine.iter().any(|(ticket, _)| *ticket == waiting.ticket));
            let slow = queue.pushing.map(|(_, since)| ahead.map_or(since + SLOW, |at| at.min(since + SLOW)));
            if !unsent || slow.is_some_and(|slow| now < slow) {
                let next = until.into_iter().chain(slow.filter(|_| unsent)).min();
                queue = self.wait(queue, next.map(|next| next.saturating_duration_since(now)));
                continue;
            }
            let linger = queue.linger();
            if unsent && !linger.is_zero() {
                let left = until.map_or(linger, |until| linger.min(until.saturating_duration_since(now)));
                queue = self.wait(queue, Some(left));
                continue;
            }
            queue = self.push_all(repo, queue);
        }
    }

    /// Pushes all queued moves.
    fn push_all<'a>(&'a self, repo: &Repo, mut queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        let batch = std::mem::take(&mut queue.waiting);
        (queue.urgent, queue.waits) = (false, None);
        let Some(first) = batch.first().map(|waiting| waiting.ticket) else { return queue };
        queue.pushing = Some((first, clock::monotonic()));
        drop(queue);
        let until = batch.iter().filter_map(|waiting| waiting.until).min();
        let (tickets, moves): (Vec<u64>, Vec<Move>) =
            batch.into_iter().map(|waiting| (waiting.ticket, waiting.wanted)).unzip();
        let watch = Stopwatch::start();
        // Other callers need their answers even if this thread panics.
        let pushed = catch_unwind(AssertUnwindSafe(|| self.push_without_refused(repo, &moves, until)));
        let (answers, panic) = match pushed {
            Ok(answers) => (answers, None),
            Err(panic) => {
                let why = "the push broke off because of a bug in aynig";
                let answers =
                    moves.iter().map(|wanted| Err(self.unanswered(wanted.branch.clone(), why))).collect();
                (answers, Some(panic))
            }
        };
        let mut queue = self.lock();
        queue.took = watch.elapsed();
        for (ticket, answer) in tickets.into_iter().zip(answers) {
            if !queue.given_up.remove(&ticket) {
                queue.done.insert(ticket, answer);
            }
        }
        // Another caller may have started a push because this one took too long.
        if queue.pushing.is_some_and(|(ticket, _)| ticket == first) {
            queue.pushing = None;
        }
        self.changed.notify_all();
        if let Some(panic) = panic {
            drop(queue);
            resume_unwind(panic);
        }
        queue
    }

    fn unanswered(&self, branch: BranchName, why: &str) -> AuthorityError {
        AuthorityError::Unanswered { remote: self.name.clone(), branch, why: why.to_owned() }
    }

    /// Withdraws moves that were not sent yet, and stops waiting for the others.
    fn give_up(&self, queue: &mut Queue, mine: Vec<(u64, BranchName)>) -> Vec<Result<Swap, AuthorityError>> {
        mine.into_iter()
            .map(|(ticket, branch)| {
                if let Some(answer) = queue.done.remove(&ticket) {
                    return answer;
                }
                let before = queue.waiting.len();
                queue.waiting.retain(|waiting| waiting.ticket != ticket);
                if queue.waiting.len() < before {
                    let why = "a push before it took too long, and it was not sent";
                    return Err(self.unanswered(branch, why));
                }
                queue.given_up.insert(ticket);
                Err(self.unanswered(branch, "there was no time left to do so"))
            })
            .collect()
    }

    /// Pushes the moves. If the connection broke, pushes those once more that certainly did not happen. If none of
    /// several was judged then either, pushes each alone: one that git does not take would deny all others.
    fn push(&self, repo: &Repo, moves: &[Move], until: Option<Instant>) -> Vec<Result<Swap, AuthorityError>> {
        let (mut answers, broken) = self.push_once(repo, moves, until);
        for alone in [false, true] {
            let again: Vec<usize> =
                (0..moves.len()).filter(|at| broken && is_unmoved(&answers[*at])).collect();
            if again.is_empty() || alone && (again.len() < 2 || again.len() < moves.len()) {
                break;
            }
            for some in again.chunks(if alone { 1 } else { again.len() }) {
                if alone && until.is_some_and(|until| until <= clock::monotonic()) {
                    break;
                }
                let retried: Vec<Move> = some.iter().map(|at| moves[*at].clone()).collect();
                for (at, answer) in some.iter().zip(self.push_once(repo, &retried, until).0) {
                    answers[*at] = answer;
                }
            }
        }
        answers
    }

    /// Retries a push that a pre-receive hook rejected as a whole, leaving out the branches the hook named
    /// (CONTRACT 5.17). If it named none, or all, all are refused.
    fn push_without_refused(
        &self,
        repo: &Repo,
        moves: &[Move],
        until: Option<Instant>,
    ) -> Vec<Result<Swap, AuthorityError>> {
        crate::crashpoint::reach(crate::crashpoint::Point::PushBegun);
        let mut answers = self.push(repo, moves, until);
        let mut left: Vec<usize> = (0..moves.len()).collect();
        for _ in 0..MOST_RETRIES {
            let refusal = |at: &usize| match &answers[*at] {
                Err(AuthorityError::Refused { reason, .. }) => Some(reason.clone()),
                Ok(_) | Err(_) => None,
            };
            if left.iter().any(|at| answers[*at].is_ok()) || !left.iter().any(|at| refusal(at).is_some()) {
                break;
            }
            let unnamed: Vec<usize> = left
                .iter()
                .copied()
                .filter(|at| refusal(at).is_some_and(|reason| !names(&reason, &moves[*at].branch)))
                .collect();
            if unnamed.is_empty() || unnamed.len() == left.len() {
                break;
            }
            let again: Vec<Move> = unnamed.iter().map(|at| moves[*at].clone()).collect();
            for (at, answer) in unnamed.iter().zip(self.push(repo, &again, until)) {
                answers[*at] = answer;
            }
            left = unnamed;
        }
        answers
    }

    /// Pushes once, and queries the remote if a move was not accepted. Returns the answers, and whether the
    /// connection broke rather than hung.
    fn push_once(
        &self,
        repo: &Repo,
        moves: &[Move],
        until: Option<Instant>,
    ) -> (Vec<Result<Swap, AuthorityError>>, bool) {
        let left = |most: Duration| {
            let left = until.map_or(most, |until| until.saturating_duration_since(clock::monotonic()));
            left.max(Duration::from_millis(100)).min(most)
        };
        let mut broken = true;
        let mut answers = match repo.push_moves(&self.name, moves, left(PATIENCE)) {
            Ok(answers) => answers,
            Err(error) => {
                tracing::warn!(remote = %self.name, %error, "a push broke off; asking the remote what became of it");
                broken =
                    matches!(error, RemoteError::Unreachable { source: ProcessError::Failed { .. }, .. });
                vec![Pushed::Unknown; moves.len()]
            }
        };
        answers.resize(moves.len(), Pushed::Unknown);
        let unconfirmed: Vec<BranchName> = moves
            .iter()
            .zip(&answers)
            .filter(|(_, answer)| **answer != Pushed::Accepted)
            .map(|(wanted, _)| wanted.branch.clone())
            .collect();
        // A caller with a deadline needs the answer too, so the query always gets a few seconds.
        let within = if until.is_some() { HASTE } else { QUESTION };
        let truth =
            if unconfirmed.is_empty() { Ok(HashMap::new()) } else { self.ask(repo, &unconfirmed, within) };
        let judged = moves
            .iter()
            .zip(answers)
            .map(|(wanted, answer)| self.judge(repo, wanted, answer, truth.as_ref()))
            .collect();
        (judged, broken)
    }

    /// Queries the remote's branches and fetches their commits, so that HEAD names the winner.
    fn ask(
        &self,
        repo: &Repo,
        branches: &[BranchName],
        within: Duration,
    ) -> Result<HashMap<BranchName, CommitId>, String> {
        let asked = repo
            .ask_remote(&self.name, branches, within)
            .map_err(|error| crate::words::error_chain(&error))?;
        let unknown: Vec<BranchName> = asked
            .iter()
            .filter(|(_, head)| repo.commit(**head).is_err())
            .map(|(branch, _)| branch.clone())
            .collect();
        if !unknown.is_empty()
            && let Err(error) = repo.fetch_some(&self.name, &unknown, within)
        {
            tracing::debug!(%error, "what others pushed could not be fetched; who they are stays unsaid");
        }
        Ok(asked)
    }

    fn judge(
        &self,
        repo: &Repo,
        wanted: &Move,
        answer: Pushed,
        truth: Result<&HashMap<BranchName, CommitId>, &String>,
    ) -> Result<Swap, AuthorityError> {
        let (remote, branch) = (self.name.clone(), wanted.branch.clone());
        if answer == Pushed::Accepted {
            repo.note_fetched(&self.name, &wanted.branch, wanted.new);
            return Ok(Swap::Won);
        }
        let actual = match (truth, &answer) {
            (Ok(truth), _) => truth.get(&wanted.branch).copied(),
            // The push itself reported the loss. Only the winner is unknown.
            (Err(_), Pushed::Stale) => return Ok(Swap::Lost { actual: None }),
            (Err(why), _) => return Err(AuthorityError::Unanswered { remote, branch, why: why.clone() }),
        };
        if actual == Some(wanted.new) {
            repo.note_fetched(&self.name, &wanted.branch, wanted.new);
            return Ok(Swap::Won);
        }
        if actual != Some(wanted.expected) {
            return Ok(Swap::Lost { actual });
        }
        // The remote still has the expected commit: neither we nor another runner moved the branch.
        let reason = match answer {
            Pushed::Refused(reason) => reason,
            Pushed::Failed(reason) => return Err(AuthorityError::Failed { remote, branch, reason }),
            Pushed::Unknown => {
                return Err(AuthorityError::Unmoved { remote, branch });
            }
            Pushed::Stale | Pushed::Accepted => {
                "it says that the branch is not where it is; try again".to_owned()
            }
        };
        Err(AuthorityError::Refused { remote, branch, reason })
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a change of the queue, no longer than `most`.
    fn wait<'a>(&self, queue: MutexGuard<'a, Queue>, most: Option<Duration>) -> MutexGuard<'a, Queue> {
        match most {
            None => self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
            Some(most) => self.changed.wait_timeout(queue, most).unwrap_or_else(PoisonError::into_inner).0,
        }
    }
}

/// Whether a push broke off before it moved the branch.
fn is_unmoved(answer: &Result<Swap, AuthorityError>) -> bool {
    matches!(answer, Err(AuthorityError::Unmoved { .. }))
}

/// Whether a server's message names a branch: as a full ref, in quotation marks, or as the first word of a
/// line. A branch's name in the middle of a sentence may be an ordinary word.
fn names(words: &str, branch: &BranchName) -> bool {
    let branch = branch.to_string();
    let plain = |word: &str| word.trim_matches(|c: char| "'\"(),:;.".contains(c)).to_owned();
    // git's own reason comes first: "(pre-receive hook declined): ".
    let said = words.split_once("): ").map_or(words, |(_, said)| said);
    said.split("; ").any(|line| {
        let line = line.trim_start();
        let line = line.strip_prefix("aynig:").unwrap_or(line);
        line.split_whitespace().enumerate().any(|(at, word)| {
            let quoted = word.starts_with(['\'', '"']);
            let word = plain(word);
            match word.strip_prefix("refs/heads/") {
                Some(name) => name == branch,
                None => (at == 0 || quoted) && word == branch,
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CONTRACT 5.17
    #[test]
    fn a_server_names_branches_in_many_ways() {
        let branch = |name: &str| BranchName::new(name.as_bytes()).expect("a name");
        for words in [
            "task is leased",
            "(hook declined): no; task: old",
            "no: refs/heads/task",
            "the branch 'task' is protected",
            "(pre-receive hook declined): x; aynig: task is leased",
        ] {
            assert!(names(words, &branch("task")), "{words}");
        }
        for words in [
            "",
            "tasks are",
            "my/task",
            "task/one is leased",
            "a-task",
            "x is leased to h for `task`",
            "wait for task",
        ] {
            assert!(!names(words, &branch("task")), "{words}");
        }
        assert!(names("no; a/b.c.", &branch("a/b.c")));
    }
}
