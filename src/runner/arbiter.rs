//! The one door through which a branch's HEAD is moved: claim, renew, settle and recover all come here.
//!
//! Invariant: whoever expects the value that is there wins, everybody else is told what is there instead (CONTRACT.md
//! §5). The arbiter is either this repository's own ref store or a remote, never both; which one is decided once per
//! run. Moves that are wanted while a push is under way go together in the next one: a push costs a connection, and one
//! connection can carry any number of refs, each judged by itself.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bstr::ByteSlice;

use crate::clock;
use crate::contract::ids::{BranchName, CommitId, RemoteName};
use crate::git::remote::{HASTE, Move, PATIENCE, Pushed, QUESTION, RemoteError};
use crate::git::swap::Tip;
use crate::git::{ProcessError, RefError, Repo, Swap};

/// Who waits for a push that takes longer than this, or for half of the time there is, goes ahead with one of their own: its
/// connection may hang.
const SLOW: Duration = Duration::from_secs(10);

/// How often a push that was refused as a whole is tried again without the branches the server named.
const SPARED: u32 = 3;

/// Why a branch could not be moved or read: neither won nor lost.
#[derive(Debug, thiserror::Error)]
pub enum ArbiterError {
    /// The local ref store.
    #[error(transparent)]
    Local(#[from] RefError),
    /// The remote could not be talked to, so the outcome may be unknown.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// The server said no.
    #[error("{remote} refuses to move {branch}: {reason}")]
    Refused {
        /// Which remote.
        remote: RemoteName,
        /// Which branch.
        branch: BranchName,
        /// The server's own words.
        reason: String,
    },
    /// The server was asked and could not; it may be able to in a moment.
    #[error("{remote} could not move {branch}: {reason}")]
    Failed {
        /// Which remote.
        remote: RemoteName,
        /// Which branch.
        branch: BranchName,
        /// The server's own words.
        reason: String,
    },
    /// The push was not answered, and neither was the question what became of it.
    #[error("the push of {branch} to {remote} was not answered, and the remote could not be asked: {why}")]
    Unanswered {
        /// Which remote.
        remote: RemoteName,
        /// Which branch.
        branch: BranchName,
        /// What went wrong.
        why: String,
    },
    /// The push was not answered, and the remote has the branch where it was.
    #[error("the push of {branch} to {remote} broke off before it moved anything")]
    Unmoved {
        /// Which remote.
        remote: RemoteName,
        /// Which branch.
        branch: BranchName,
    },
}

impl ArbiterError {
    /// Whether trying again cannot help: the server understood and said no.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Refused { .. })
    }

    /// Whether the remote is to blame (exit code 4).
    pub fn is_remote(&self) -> bool {
        match self {
            Self::Local(_) => false,
            Self::Remote(_)
            | Self::Refused { .. }
            | Self::Failed { .. }
            | Self::Unanswered { .. }
            | Self::Unmoved { .. } => true,
        }
    }
}

/// Who decides which of several runners wins.
#[derive(Debug)]
pub enum Arbiter {
    /// The ref store of this repository.
    Local,
    /// A remote's.
    Remote(Remote),
}

/// A remote as arbiter, with the moves that wait for the next push.
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
    done: HashMap<u64, Result<Swap, ArbiterError>>,
    /// Tickets whose owners did not wait for the answer.
    given_up: HashSet<u64>,
    /// The push under way that others wait for: the first of its tickets, and when it began.
    pushing: Option<(u64, Instant)>,
}

#[derive(Debug)]
struct Waiting {
    ticket: u64,
    wanted: Move,
    until: Option<Instant>,
}

impl Arbiter {
    /// The remote of this name decides.
    pub fn remote(name: RemoteName) -> Self {
        Self::Remote(Remote { name, queue: Mutex::default(), changed: Condvar::new() })
    }

    /// The remote to be recorded in leases (`dwp-source`), if a remote decides.
    pub fn source(&self) -> Option<&RemoteName> {
        match self {
            Self::Local => None,
            Self::Remote(remote) => Some(&remote.name),
        }
    }

    /// Whether worktrees have the branch itself checked out, so that a command's own commits move it.
    pub fn attaches(&self) -> bool {
        match self {
            Self::Local => true,
            Self::Remote(_) => false,
        }
    }

    /// Asks a remote what its branches are, without fetching them; `None` where no remote decides.
    pub fn ask(&self, repo: &Repo) -> Option<Result<BTreeMap<BranchName, CommitId>, ArbiterError>> {
        match self {
            Self::Local => None,
            Self::Remote(remote) => Some(
                repo.ask_remote(&remote.name, &[], QUESTION)
                    .map(|all| all.into_iter().collect())
                    .map_err(Into::into),
            ),
        }
    }

    /// Learns what the branches are; the one fetch of a pass.
    pub fn refresh(&self, repo: &Repo) -> Result<(), ArbiterError> {
        match self {
            Self::Local => Ok(()),
            Self::Remote(remote) => Ok(repo.fetch_branches(&remote.name)?),
        }
    }

    /// All branches, as of the last refresh.
    pub fn branches(&self, repo: &Repo) -> Result<Vec<Tip>, RefError> {
        match self {
            Self::Local => repo.branches(),
            Self::Remote(remote) => repo.fetched_branches(&remote.name),
        }
    }

    /// What the branch points at now; of a remote, its objects are fetched as well, and a connection that hangs is given up after
    /// about `within`.
    pub fn head(
        &self,
        repo: &Repo,
        branch: &BranchName,
        within: Duration,
    ) -> Result<Option<CommitId>, ArbiterError> {
        match self {
            Self::Local => Ok(repo.branch_head(branch)?),
            Self::Remote(remote) => {
                let branches = std::slice::from_ref(branch);
                let asked = repo.ask_remote(&remote.name, branches, within.min(QUESTION))?;
                let head = asked.get(branch).copied();
                if head.is_some_and(|head| repo.commit(head).is_err()) {
                    repo.fetch_some(&remote.name, branches, within)?;
                }
                Ok(head)
            }
        }
    }

    /// Moves one branch from `expected` to `new`, for the reason in `log`.
    pub fn swap(
        &self,
        repo: &Repo,
        branch: &BranchName,
        expected: CommitId,
        new: CommitId,
        log: &str,
    ) -> Result<Swap, ArbiterError> {
        let wanted = Move { branch: branch.clone(), expected, new, within: None };
        self.swap_all(repo, vec![wanted], log).pop().expect("one answer for one move")
    }

    /// The same where it is of no use after `within`: a connection that hangs is given up then.
    pub fn swap_within(
        &self,
        repo: &Repo,
        within: Duration,
        branch: &BranchName,
        [expected, new]: [CommitId; 2],
        log: &str,
    ) -> Result<Swap, ArbiterError> {
        let wanted = Move { branch: branch.clone(), expected, new, within: Some(within) };
        self.swap_all(repo, vec![wanted], log).pop().expect("one answer for one move")
    }

    /// Makes a branch that does not exist yet point at `new`; lost if it exists by now.
    pub fn create(
        &self,
        repo: &Repo,
        branch: &BranchName,
        new: CommitId,
        log: &str,
    ) -> Result<Swap, ArbiterError> {
        match self {
            Self::Local => Ok(repo.swap(branch.full_ref().as_bstr(), None, new, log)?),
            Self::Remote(remote) => Err(ArbiterError::Refused {
                remote: remote.name.clone(),
                branch: branch.clone(),
                reason: "it does not exist there, and new branches are pushed with `git push`".to_owned(),
            }),
        }
    }

    /// Moves several branches, each judged by itself; answers in their order. Of a remote: in one push.
    pub fn swap_all(&self, repo: &Repo, moves: Vec<Move>, log: &str) -> Vec<Result<Swap, ArbiterError>> {
        match self {
            Self::Local => moves
                .into_iter()
                .map(|Move { branch, expected, new, .. }| {
                    Ok(repo.swap(branch.full_ref().as_bstr(), Some(expected), new, log)?)
                })
                .collect(),
            Self::Remote(remote) => remote.swap_all(repo, moves),
        }
    }
}

impl Remote {
    /// Queues the moves; whoever finds nobody pushing pushes for all. Nobody waits longer than their own moves are of use.
    fn swap_all(&self, repo: &Repo, moves: Vec<Move>) -> Vec<Result<Swap, ArbiterError>> {
        let deadline =
            |within: Option<Duration>| within.and_then(|within| clock::monotonic().checked_add(within));
        let within = moves.iter().filter_map(|wanted| wanted.within).min();
        let until = deadline(within);
        // What has little time waits for others half of it.
        let ahead = deadline(within.map(|within| within / 2));
        let mut queue = self.lock();
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
            queue = self.push_all(repo, queue);
        }
    }

    /// Pushes all that waits.
    fn push_all<'a>(&'a self, repo: &Repo, mut queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        let batch = std::mem::take(&mut queue.waiting);
        let Some(first) = batch.first().map(|waiting| waiting.ticket) else { return queue };
        queue.pushing = Some((first, clock::monotonic()));
        drop(queue);
        let until = batch.iter().filter_map(|waiting| waiting.until).min();
        let (tickets, moves): (Vec<u64>, Vec<Move>) =
            batch.into_iter().map(|waiting| (waiting.ticket, waiting.wanted)).unzip();
        let answers = self.push_spared(repo, &moves, until);
        let mut queue = self.lock();
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
        queue
    }

    /// Takes back what was not sent yet, and does not wait for the rest.
    fn give_up(&self, queue: &mut Queue, mine: Vec<(u64, BranchName)>) -> Vec<Result<Swap, ArbiterError>> {
        let unanswered = |branch, why: &str| {
            Err(ArbiterError::Unanswered { remote: self.name.clone(), branch, why: why.to_owned() })
        };
        mine.into_iter()
            .map(|(ticket, branch)| {
                if let Some(answer) = queue.done.remove(&ticket) {
                    return answer;
                }
                let before = queue.waiting.len();
                queue.waiting.retain(|waiting| waiting.ticket != ticket);
                if queue.waiting.len() < before {
                    return unanswered(branch, "a push before it took too long, and it was not sent");
                }
                queue.given_up.insert(ticket);
                unanswered(branch, "there was no time left to do so")
            })
            .collect()
    }

    /// One push, and a question where its answer is not enough; what was certainly not moved by a connection that broke is
    /// pushed once more.
    fn push(&self, repo: &Repo, moves: &[Move], until: Option<Instant>) -> Vec<Result<Swap, ArbiterError>> {
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
    ) -> Vec<Result<Swap, ArbiterError>> {
        let mut answers = self.push(repo, moves, until);
        let mut left: Vec<usize> = (0..moves.len()).collect();
        for _ in 0..SPARED {
            let refusal = |at: &usize| match &answers[*at] {
                Err(ArbiterError::Refused { reason, .. }) => Some(reason.clone()),
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
    ) -> (Vec<Result<Swap, ArbiterError>>, bool) {
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
                    !matches!(error, RemoteError::Unreachable { source: ProcessError::TooSlow { .. }, .. });
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
        let asked =
            repo.ask_remote(&self.name, branches, within).map_err(|error| super::error_words(&error))?;
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
    ) -> Result<Swap, ArbiterError> {
        let (remote, branch) = (self.name.clone(), wanted.branch.clone());
        if answer == Pushed::Accepted {
            repo.note_fetched(&self.name, &wanted.branch, wanted.new);
            return Ok(Swap::Won);
        }
        let actual = match (truth, &answer) {
            (Ok(truth), _) => truth.get(&wanted.branch).copied(),
            // The push itself said that it lost; only by whom is not known.
            (Err(_), Pushed::Stale) => return Ok(Swap::Lost { actual: None }),
            (Err(why), _) => return Err(ArbiterError::Unanswered { remote, branch, why: why.clone() }),
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
            Pushed::Failed(reason) => return Err(ArbiterError::Failed { remote, branch, reason }),
            Pushed::Unknown => {
                return Err(ArbiterError::Unmoved { remote, branch });
            }
            Pushed::Stale | Pushed::Accepted => {
                "it says that the branch is not where it is; try again".to_owned()
            }
        };
        Err(ArbiterError::Refused { remote, branch, reason })
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
fn is_unmoved(answer: &Result<Swap, ArbiterError>) -> bool {
    matches!(answer, Err(ArbiterError::Unmoved { .. }))
}

/// Whether a server's words name a branch.
fn names(words: &str, branch: &BranchName) -> bool {
    let branch = branch.to_string();
    words
        .split(|c: char| c.is_whitespace() || "'\"`()".contains(c))
        .map(|word| word.trim_end_matches([':', ',', ';', '.']))
        .any(|word| word.strip_prefix("refs/heads/").unwrap_or(word) == branch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_names_branches_in_many_ways() {
        let branch = |name: &str| BranchName::new(name.as_bytes()).expect("a name");
        for words in [
            "task is leased",
            "no: refs/heads/task",
            "'task' is protected",
            "protected: task, other",
            "not task.",
        ] {
            assert!(names(words, &branch("task")), "{words}");
        }
        for words in ["", "tasks are", "my/task", "task/one is leased", "a-task"] {
            assert!(!names(words, &branch("task")), "{words}");
        }
        assert!(names("(a/b.c)", &branch("a/b.c")));
    }
}
