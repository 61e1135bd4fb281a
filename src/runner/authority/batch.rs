//! The pushes of a remote authority: moves are queued, go together, are judged one by one, and nobody waits too long.
//!
//! Invariant: each move that was queued has one answer, and a move whose push was not answered is won only if the remote is
//! found to have it (CONTRACT.md §5). Moves that are wanted while a push is under way go together in the next one: a push costs
//! a connection, and one connection can carry any number of refs. Results of steps that end one soon after another wait for
//! each other a little, never longer than pushes take anyway. One push is under way at a time, unless it hangs. What a push says is read in
//! `git::remote`; who wants which move is `authority`'s business.

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::clock;
use crate::clock::Stopwatch;
use crate::contract::ids::{BranchName, CommitId, RemoteName};
use crate::git::remote::{HASTE, Move, PATIENCE, Pushed, QUESTION, RemoteError};
use crate::git::{ProcessError, Repo, Swap};

use crate::runner::authority::error::AuthorityError;

/// Who waits for a push that takes longer than this, or for half of the time there is, goes ahead with one of their own: its
/// connection may hang.
const SLOW: Duration = Duration::from_secs(10);

/// How often a push that was refused as a whole is tried again without the branches the server named.
const SPARED: u32 = 3;

/// The longest a result waits for those of other steps.
const LINGER: Duration = Duration::from_secs(2);

/// The longest that a claim waits for others.
const LONGEST_LULL: Duration = Duration::from_millis(500);

/// A remote as authority, with the moves that wait for the next push.
#[derive(Debug)]
pub struct Remote {
    name: RemoteName,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    next_ticket: u64,
    waiting: Vec<Waiting>,
    done: HashMap<u64, Result<Swap, AuthorityError>>,
    /// Tickets whose owners did not wait for the answer.
    given_up: HashSet<u64>,
    /// The push under way that others wait for: the first of its tickets, and when it began.
    pushing: Option<(u64, Instant)>,
    /// Steps under way, each of which will want a move at its end.
    under_way: usize,
    /// Whether something waits that is to be pushed at once: a claim, a renewal.
    urgent: bool,
    /// Since when the oldest and the youngest of `waiting` wait.
    waits: Option<(Stopwatch, Stopwatch)>,
    /// How long the last push took.
    took: Duration,
}

impl Queue {
    /// How much longer the next push may be put off for the sake of results that are about to come; none at all where no
    /// other step is under way, and none before the first push.
    fn linger(&self) -> Duration {
        let Some((oldest, youngest)) = &self.waits else { return Duration::ZERO };
        if self.urgent || self.waiting.len() >= self.under_way {
            return Duration::ZERO;
        }
        let linger = self.took.saturating_sub(youngest.elapsed());
        let all = LINGER.min(self.took * 4).saturating_sub(oldest.elapsed());
        linger.min(all)
    }
}

/// A step under way, as far as its authority is concerned; over when dropped.
#[derive(Debug)]
#[must_use = "the step is under way while this lives"]
pub(crate) struct UnderWay<'a>(Option<&'a Remote>);

impl<'a> UnderWay<'a> {
    /// Begins one whose result will be pushed to `remote`.
    pub(crate) fn begin(remote: &'a Remote) -> Self {
        remote.lock().under_way += 1;
        Self(Some(remote))
    }

    /// Begins one whose result needs no push.
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
    /// The remote of this name, with nothing to do.
    pub(crate) fn new(name: RemoteName) -> Self {
        Self { name, queue: Mutex::default(), changed: Condvar::new() }
    }

    /// Its name.
    pub(crate) fn name(&self) -> &RemoteName {
        &self.name
    }

    /// Half of what a push takes, since one that is spared is worth at least that.
    pub(crate) fn linger(&self) -> Duration {
        (self.lock().took / 2).min(LONGEST_LULL)
    }

    /// Queues the moves; whoever finds nobody pushing pushes for all. Nobody waits longer than their own moves are of use.
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
        // What has little time waits for others half of it.
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

    /// Pushes all that waits.
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
        // Others wait for their answers, also if this thread panics.
        let pushed = catch_unwind(AssertUnwindSafe(|| self.push_spared(repo, &moves, until)));
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
        // Somebody may have gone ahead because this took too long.
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

    /// Takes back what was not sent yet, and does not wait for the rest.
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

    /// One push, and a question where its answer is not enough; what was certainly not moved by a connection that broke is
    /// pushed once more.
    fn push(&self, repo: &Repo, moves: &[Move], until: Option<Instant>) -> Vec<Result<Swap, AuthorityError>> {
        let (mut answers, broken) = self.push_once(repo, moves, until);
        let again: Vec<usize> = (0..moves.len()).filter(|at| broken && is_unmoved(&answers[*at])).collect();
        if again.is_empty() {
            return answers;
        }
        let retried: Vec<Move> = again.iter().map(|at| moves[*at].clone()).collect();
        let (second, _) = self.push_once(repo, &retried, until);
        for (at, answer) in again.into_iter().zip(second) {
            answers[at] = answer;
        }
        answers
    }

    /// The same, where a hook that sees the push as a whole refuses all of it because of some branches: those it does not name go
    /// without those it names. A server that names none, or all, means all.
    fn push_spared(
        &self,
        repo: &Repo,
        moves: &[Move],
        until: Option<Instant>,
    ) -> Vec<Result<Swap, AuthorityError>> {
        crate::crashpoint::reach(crate::crashpoint::Point::PushBegun);
        let mut answers = self.push(repo, moves, until);
        let mut left: Vec<usize> = (0..moves.len()).collect();
        for _ in 0..SPARED {
            let refusal = |at: &usize| match &answers[*at] {
                Err(AuthorityError::Refused { reason, .. }) => Some(reason.clone()),
                Ok(_) | Err(_) => None,
            };
            if left.iter().any(|at| answers[*at].is_ok()) || !left.iter().any(|at| refusal(at).is_some()) {
                break;
            }
            let spared: Vec<usize> = left
                .iter()
                .copied()
                .filter(|at| refusal(at).is_some_and(|reason| !names(&reason, &moves[*at].branch)))
                .collect();
            if spared.is_empty() || spared.len() == left.len() {
                break;
            }
            let again: Vec<Move> = spared.iter().map(|at| moves[*at].clone()).collect();
            for (at, answer) in spared.iter().zip(self.push(repo, &again, until)) {
                answers[*at] = answer;
            }
            left = spared;
        }
        answers
    }

    /// The answers, and whether the connection broke rather than hung.
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
        let doubtful: Vec<BranchName> = moves
            .iter()
            .zip(&answers)
            .filter(|(_, answer)| **answer != Pushed::Accepted)
            .map(|(wanted, _)| wanted.branch.clone())
            .collect();
        // Whoever is in a hurry is so to learn the truth: a moment for that is always left.
        let within = if until.is_some() { HASTE } else { QUESTION };
        let truth = if doubtful.is_empty() { Ok(HashMap::new()) } else { self.ask(repo, &doubtful, within) };
        let judged = moves
            .iter()
            .zip(answers)
            .map(|(wanted, answer)| self.judge(repo, wanted, answer, truth.as_ref()))
            .collect();
        (judged, broken)
    }

    /// What the remote has, with the objects, so that HEAD can tell who won.
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
            // The push itself said that it lost; only by whom is not known.
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
        // The remote still has what we expected: it was not moved, and nobody else moved it.
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

    /// Waits for an answer, no longer than `most`.
    fn wait<'a>(&self, queue: MutexGuard<'a, Queue>, most: Option<Duration>) -> MutexGuard<'a, Queue> {
        match most {
            None => self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
            Some(most) => self.changed.wait_timeout(queue, most).unwrap_or_else(PoisonError::into_inner).0,
        }
    }
}

/// Whether a push broke off before it moved anything.
fn is_unmoved(answer: &Result<Swap, AuthorityError>) -> bool {
    matches!(answer, Err(AuthorityError::Unmoved { .. }))
}

/// Whether a server's words name a branch: as a whole ref, in quotation marks, or as the first word of a line. In the middle of a
/// sentence a word that happens to be a branch's name is a word.
fn names(words: &str, branch: &BranchName) -> bool {
    let branch = branch.to_string();
    let plain = |word: &str| word.trim_matches(|c: char| "'\"(),:;.".contains(c)).to_owned();
    // Before it is git's own reason: "(pre-receive hook declined): ".
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
