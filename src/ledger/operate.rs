//! Carries out operations: read, decide, write, and move the ref from exactly what was read.
//!
//! Invariant: an operation is in the ledger once or not at all, whoever dies or answers when. One that lost the race is
//! decided anew; one whose answer was lost is found by its commit.

use std::collections::{BTreeMap, BTreeSet};

use bstr::{BString, ByteSlice};

use super::archive;
use super::bring::bring;
use super::content::{self, Content};
use super::error::{LedgerError, SetBack};
use super::masks::{Masks, has_base};
use super::message::{self, MAX_MESSAGE};
use super::place::Place;
use super::race::{Turn, pause};
use super::set_back;
use super::tip::{MAX_FILE, Tip, ledger_ref};
use crate::clock;
use crate::contract::head::Head;
use crate::contract::ids::{BranchName, CommitId};
use crate::crashpoint::{self, Point};
use crate::git::objects::commits::NewCommit;
use crate::git::objects::signatures::SIGNING;
use crate::git::process::cancel::Purpose;
use crate::git::remote::{PATIENCE, RemoteError};
use crate::git::{RefChange, RefError, Repo, Swap, Together};
use crate::model::decide::{Command, Decided, NewRun, Op, Rules, begin, decide};
use crate::model::event::{Body, Event, MAX_LINE};
use crate::model::ids::{ApprovalId, OpId, RunId};
use crate::model::state::State;

/// How many races an operation may lose.
const TRIES: u32 = 200;

/// How many times an operation is tried again that a remote could not carry out, or did not answer.
const FAILURES: u32 = 5;

/// How far back an operation with an id of the caller's is looked for.
const REMEMBERED: usize = 1_000;

/// How far back the operation is looked for that answered a request.
const MOST_READ: usize = 100_000;

/// What is done after a lost race.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Race {
    /// The operation is decided on the newer state.
    DecideAnew,
    /// It is reported.
    Report,
}

/// A run's ledger, open for operations.
#[derive(Debug)]
pub struct Ledger<'r> {
    pub(super) repo: &'r Repo,
    pub(super) place: Place,
    pub(super) run: RunId,
    pub(super) tip: Tip,
    rules: Rules,
    masks: Masks,
    /// Contents for the next operation, by their digests.
    contents: BTreeMap<String, Content>,
    /// Whether its operations are signed.
    signs: bool,
}

/// The result of an operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Operated {
    /// Its commit. `None` if it changed nothing.
    pub commit: Option<CommitId>,
    /// What was decided.
    pub decided: Decided,
}

impl<'r> Ledger<'r> {
    /// Makes a run. `beside` are refs that come into being with it, `contents` those of its flow.
    ///
    /// # Errors
    /// [`LedgerError`]; nothing is written then.
    pub fn create(
        repo: &'r Repo,
        place: Place,
        new: &NewRun,
        op: &Op,
        beside: &[RefChange],
        contents: &[Content],
    ) -> Result<Self, LedgerError> {
        Self::begin(repo, place, (new, &[]), op, beside, contents)
    }

    /// The same, with commands on the new run in the same operation.
    ///
    /// # Errors
    /// Those of [`create`](Self::create).
    pub(crate) fn begin(
        repo: &'r Repo,
        place: Place,
        (new, commands): (&NewRun, &[Command]),
        op: &Op,
        beside: &[RefChange],
        contents: &[Content],
    ) -> Result<Self, LedgerError> {
        let masks = Masks::of(repo, &new.base_sha)?;
        let decided = begin(&masks.new_run(new), &masks.commands(commands), op)?;
        let contents =
            contents.iter().map(|content| (content.sha256().to_owned(), content.clone())).collect();
        let commit = write(repo, None, &decided, op, &contents)?;
        let moved = swap(repo, &place, new.id, None, commit, beside);
        let moved = moved.or_else(|error| match accepted(repo, &place, new.id, commit) {
            true => Ok(Together::Won),
            false => Err(error),
        });
        match moved? {
            Together::Won => {
                let tip = Tip::read(repo, new.id, commit)?;
                Ok(Self {
                    repo,
                    place,
                    run: new.id,
                    tip,
                    rules: rules(repo)?,
                    masks,
                    contents: BTreeMap::new(),
                    signs: false,
                })
            }
            Together::Lost { name, .. } => Err(LedgerError::Moved { name: name.to_string() }),
        }
    }

    /// Opens the ledger of a run that is known here.
    ///
    /// # Errors
    /// [`LedgerError`] if it is unknown or damaged, or decided in a place that is not reached from here.
    pub fn open(repo: &'r Repo, run: RunId) -> Result<Self, LedgerError> {
        // An operation that a killed process had decided is finished first.
        repo.release_dead_locks();
        let tip = here(repo, run)?;
        let place = Place::of(repo, run, &tip.state.run.decided_by)?;
        let base = CommitId::parse_hex(tip.state.run.base_sha.as_bytes());
        let base = base.filter(|_| has_base(&tip.state.run.base_sha));
        bring(repo, &place, &tip.state.run, base.as_slice())?;
        let masks = Masks::of(repo, &tip.state.run.base_sha)?;
        Ok(Self {
            repo,
            place,
            run,
            tip,
            rules: rules(repo)?,
            masks,
            contents: BTreeMap::new(),
            signs: false,
        })
    }

    /// The newest operation that is known.
    #[must_use]
    pub fn tip(&self) -> &Tip {
        &self.tip
    }

    /// Masks the content of an artifact that the next operation makes. That operation takes it along, if the run
    /// replicates contents of its kind and it is not too long.
    pub fn attach(&mut self, content: &[u8]) -> Content {
        let content = Content::new(&self.masks, content);
        self.contents.insert(content.sha256().to_owned(), content.clone());
        content
    }

    /// Lets git sign the commits of the next operations.
    pub(crate) fn sign(&mut self) {
        self.signs = true;
    }

    /// The commit of the operation that answered a request, among the newest.
    pub(crate) fn answered_by(&self, approval: ApprovalId) -> Option<CommitId> {
        let answers = |event: &Event| matches!(&event.body, Body::ApprovalResolved(body) if body.approval_id == approval);
        let id = approval.to_string();
        let mut commits = self.repo.history(self.tip.id).take(MOST_READ).map_while(Result::ok);
        let found = commits.find(|commit| {
            commit.message.contains_str(&id)
                && message::decode(&commit.message, self.run)
                    .is_some_and(|all| all.events.iter().any(answers))
        });
        found.map(|commit| commit.id)
    }

    /// Where the run is decided.
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Decides commands on the newest operation that is known. Nothing is written.
    pub(crate) fn decide(&self, commands: &[Command], op: &Op) -> Result<Decided, LedgerError> {
        Ok(decide(&self.tip.state, &self.masks.commands(commands), op, self.rules)?)
    }

    /// Reads what the place of decision has now, with its work branches. The refs here of a run that was deleted there go to the archive.
    ///
    /// # Errors
    /// [`LedgerError`] if it cannot be asked, or its ledger is damaged.
    pub fn refresh(&mut self) -> Result<(), LedgerError> {
        if let Place::Remote(remote) = self.place.clone() {
            set_back::fetch_run(self.repo, &remote, self.run, &self.tip.state.run.slug)?;
        }
        self.reread()
    }

    /// Continues with what the place of decision has, although operations that are known here are gone there. Returns
    /// what was given up.
    ///
    /// # Errors
    /// Those of [`refresh`](Self::refresh).
    pub fn accept(&mut self) -> Result<Option<SetBack>, LedgerError> {
        let back = match self.refresh() {
            Err(LedgerError::SetBack(back)) => *back,
            refreshed => return refreshed.map(|()| None),
        };
        set_back::give_up(self.repo, self.run, &back)?;
        self.refresh()?;
        Ok(Some(back))
    }

    /// Reads what the place of decision has after the `lost`-th lost race, with a pause before that. A remote that does
    /// not answer for a moment is asked again.
    pub(crate) fn catch_up(&mut self, lost: u32) -> Result<(), LedgerError> {
        if self.place == Place::Here {
            return self.refresh();
        }
        clock::pause(pause(lost));
        for failed in 1..=FAILURES {
            match self.refresh() {
                Err(LedgerError::Remote(RemoteError::Unreachable { .. })) => clock::pause(pause(failed)),
                refreshed => return refreshed,
            }
        }
        self.refresh()
    }

    /// Reads what this repository knows of the ledger: its own operations are in it.
    pub(crate) fn reread(&mut self) -> Result<(), LedgerError> {
        let name = ledger_ref(self.run);
        let now = self.repo.read_ref(name.as_str().into())?;
        let now = now.ok_or_else(|| archive::missing(self.repo, self.run))?;
        if now != self.tip.id {
            self.tip = Tip::read(self.repo, self.run, now)?;
        }
        Ok(())
    }

    /// Carries out `commands`, all or none, with secrets masked. `beside` are refs that are moved with the ledger, and
    /// only with it (CONTRACT 16.3): what ends an attempt has its driver there, with the lease as the expected value.
    ///
    /// # Errors
    /// [`LedgerError`]. Nothing was written, except after an [`LedgerError::Unmoved`] without an answer, where the
    /// same operation (the same id) may be tried again.
    pub fn operate(
        &mut self,
        op: &Op,
        commands: &[Command],
        beside: &[RefChange],
    ) -> Result<Operated, LedgerError> {
        self.carry_out(op, commands, beside, Race::DecideAnew)
    }

    /// Like [`operate`](Self::operate), but only on the operation that is the newest known one: what is done depends on
    /// it. The newer state is known after a lost race, which is [`LedgerError::Moved`] with the name of the ledger.
    ///
    /// # Errors
    /// Those of [`operate`](Self::operate).
    pub fn operate_on_this(
        &mut self,
        op: &Op,
        commands: &[Command],
        beside: &[RefChange],
    ) -> Result<Operated, LedgerError> {
        self.carry_out(op, commands, beside, Race::Report)
    }

    fn carry_out(
        &mut self,
        op: &Op,
        commands: &[Command],
        beside: &[RefChange],
        race: Race,
    ) -> Result<Operated, LedgerError> {
        let planned = self.tip.id;
        let commands = &self.masks.commands(commands);
        let mut sent: Vec<CommitId> = Vec::new();
        // Asking a remote costs a connection, so what is known is tried first.
        let mut fresh = self.place == Place::Here;
        let (mut failed, mut turn) = (0, Turn::default());
        for lost in 0..TRIES {
            turn.before_try(self.repo, lost);
            if self.place == Place::Here {
                self.reread()?;
            }
            if let Some(commit) = self.landed(op, &sent) {
                let decided = Decided {
                    events: Vec::new(),
                    state: self.tip.state.clone(),
                    changed: Default::default(),
                };
                return Ok(Operated { commit: Some(commit), decided });
            }
            if race == Race::Report && self.tip.id != planned {
                return Err(LedgerError::Moved { name: ledger_ref(self.run).to_string() });
            }
            let decided = match decide(&self.tip.state, commands, op, self.rules) {
                Ok(decided) => decided,
                // What is known may be old: only the newest state refuses.
                Err(_) if !fresh => {
                    self.refresh()?;
                    fresh = true;
                    continue;
                }
                Err(refusal) => return Err(refusal.into()),
            };
            if decided.events.is_empty() && !fresh {
                self.refresh()?;
                fresh = true;
                continue;
            }
            if decided.events.is_empty() && beside.is_empty() {
                return Ok(Operated { commit: None, decided });
            }
            let new = (&decided, op, &self.contents);
            let commit = written(self.repo, Some(&self.tip), new, self.signs)?;
            sent.push(commit);
            match swap(self.repo, &self.place, self.run, Some(self.tip.id), commit, beside) {
                Err(error) => {
                    failed += 1;
                    self.after_failure(error, failed)?;
                    fresh = true;
                }
                Ok(Together::Won) => {
                    let tree = self.repo.commit(commit)?.tree;
                    self.tip = Tip { id: commit, tree, state: decided.state.clone() };
                    self.contents.clear();
                    self.keep_up(op);
                    return Ok(Operated { commit: Some(commit), decided });
                }
                Ok(Together::Lost { name, .. }) if name != ledger_ref(self.run) => {
                    return Err(self.moved(&name, beside));
                }
                Ok(Together::Lost { actual, .. }) => {
                    if self.place != Place::Here {
                        clock::pause(pause(lost));
                    }
                    self.refresh()?;
                    fresh = true;
                    if actual.is_none() {
                        return Err(self.removed());
                    }
                }
            }
        }
        Err(LedgerError::Busy { run: self.run, op: op.id, tries: TRIES })
    }

    /// The error for a ledger that the place of decision has no more, and has not deleted.
    fn removed(&self) -> LedgerError {
        let (run, commit) = (self.run, self.tip.id);
        let name = ledger_ref(run);
        let why = match &self.place {
            Place::Here => "it was removed".to_owned(),
            Place::Remote(remote) => {
                let there = self.repo.namespace().unwrap_or_default().there(name.as_str().into());
                format!("{remote} has it no more; `git push {remote} {commit}:{there}` brings it back")
            }
        };
        LedgerError::Damaged { run, commit, why }
    }

    /// Prepares another try after the `failed`-th failure, by reading what the remote has now: another push may have had
    /// the lock of the ref, or the answer was lost. Returns the error if the remote refused or still does not answer.
    fn after_failure(&mut self, error: LedgerError, failed: u32) -> Result<(), LedgerError> {
        let may_pass = matches!(&error, LedgerError::Unmoved { source, .. } if source.may_pass());
        if !may_pass || failed > FAILURES {
            return Err(error);
        }
        clock::pause(pause(failed));
        self.refresh().map_err(|_| error)
    }

    /// Lets git pack its objects if there are many: after one operation in 256, by chance, since each may be a process
    /// of its own.
    fn keep_up(&self, op: &Op) {
        if op.id.uuid().as_bytes()[0] == 0
            && let Err(error) = self.repo.pack_if_many()
        {
            tracing::debug!(%error, "git packed nothing");
        }
    }

    /// Like [`operate`](Self::operate), for an operation that may have been tried before, by another process too: one
    /// that is among the newest thousand is not carried out again.
    ///
    /// # Errors
    /// Those of [`operate`](Self::operate).
    pub fn repeat(
        &mut self,
        op: &Op,
        commands: &[Command],
        beside: &[RefChange],
    ) -> Result<Operated, LedgerError> {
        self.refresh()?;
        match self.find(op.id) {
            Some(commit) => Ok(self.unchanged(Some(commit))),
            None => self.operate(op, commands, beside),
        }
    }

    fn unchanged(&self, commit: Option<CommitId>) -> Operated {
        let state = self.tip.state.clone();
        Operated { commit, decided: Decided { events: Vec::new(), state, changed: BTreeSet::new() } }
    }

    /// Why an operation is refused whose companion `name` has another value: its lease is lost, or it has moved.
    fn moved(&self, name: &BString, beside: &[RefChange]) -> LedgerError {
        let expected = beside.iter().find(|change| change.name == *name).and_then(|change| change.expected);
        let branch = BranchName::from_full_ref(name.as_bstr());
        let was_lease = |commit: CommitId| {
            let commit = self.repo.commit(commit).ok();
            commit.is_some_and(|commit| matches!(Head::read(&commit.facts()), Head::Working(_)))
        };
        match branch {
            Some(branch) if expected.is_some_and(was_lease) => {
                LedgerError::Fenced { branch: branch.to_string() }
            }
            Some(_) | None => LedgerError::Moved { name: name.to_string() },
        }
    }

    /// The commit of this operation, if it landed although the answer was lost.
    fn landed(&self, op: &Op, sent: &[CommitId]) -> Option<CommitId> {
        if sent.is_empty() {
            return None;
        }
        sent.iter()
            .copied()
            .find(|commit| self.repo.descends(self.tip.id, *commit))
            .or_else(|| self.find(op.id))
    }

    /// The commit of an earlier operation with this id, among the newest.
    #[must_use]
    pub fn find(&self, op: OpId) -> Option<CommitId> {
        let history = self.repo.history(self.tip.id).take(REMEMBERED);
        let mut commits = history.map_while(Result::ok);
        commits.find(|commit| message::op_of(&commit.message) == Some(op)).map(|commit| commit.id)
    }
}

/// The bounds that the settings here give: `aynig.maxUnread`.
fn rules(repo: &Repo) -> Result<Rules, LedgerError> {
    let Some(text) = repo.config("aynig.maxUnread") else { return Ok(Rules::default()) };
    let read = text.parse().ok().filter(|most| (1..=10_000).contains(most));
    let max_unread = read.ok_or_else(|| {
        LedgerError::Masks(format!("aynig.maxUnread = {text}: write a number of 1 to 10000"))
    })?;
    Ok(Rules { max_unread })
}

/// The state of a run as it is known here. The place of decision is not asked.
///
/// # Errors
/// [`LedgerError`] if the run is unknown, or its ledger is damaged.
pub fn here(repo: &Repo, run: RunId) -> Result<Tip, LedgerError> {
    let head = repo.read_ref(ledger_ref(run).as_str().into())?;
    Tip::read(repo, run, head.ok_or_else(|| archive::missing(repo, run))?)
}

/// Writes the commit of an operation. No ref points at it yet.
pub(super) fn write(
    repo: &Repo,
    tip: Option<&Tip>,
    decided: &Decided,
    op: &Op,
    contents: &BTreeMap<String, Content>,
) -> Result<CommitId, LedgerError> {
    written(repo, tip, (decided, op, contents), false)
}

/// The same; `signs`: git signs the commit.
fn written(
    repo: &Repo,
    tip: Option<&Tip>,
    (decided, op, contents): (&Decided, &Op, &BTreeMap<String, Content>),
    signs: bool,
) -> Result<CommitId, LedgerError> {
    let mut files = content::files(&decided.events, decided.state.run.replicate, contents);
    let changed: Vec<_> =
        decided.changed.iter().map(|entry| (entry.path(), decided.state.content(entry))).collect();
    let before: Option<&State> = tip.map(|tip| &tip.state);
    let message = message::encode(before, decided, op.id);
    check_lengths(&changed, &message)?;
    files.extend(changed);
    let tree = repo.edit_tree(tip.map(|tip| tip.tree), &files)?;
    let parents: Vec<CommitId> = tip.map(|tip| tip.id).into_iter().collect();
    let new = NewCommit { tree, parents: &parents, message: &message, attempt: None };
    if signs {
        let limits = (Purpose::Signature, SIGNING);
        return Ok(repo.write_signed(&new, None, clock::local_time(), limits, None)?);
    }
    Ok(repo.write_commit(&new)?)
}

/// Refuses an operation that no reader of the ledger would accept.
fn check_lengths(changed: &[(String, Option<Vec<u8>>)], message: &[u8]) -> Result<(), LedgerError> {
    let files = changed.iter().map(|(path, content)| {
        let length = content.as_ref().map_or(0, Vec::len);
        (path.clone(), length, usize::try_from(MAX_FILE).unwrap_or(usize::MAX))
    });
    let lines = message.lines().filter(|line| line.starts_with(b"{"));
    let events = lines.map(|line| ("an event of it".to_owned(), line.len(), MAX_LINE));
    let whole = [("its message".to_owned(), message.len(), MAX_MESSAGE)];
    let too_long = files.chain(events).chain(whole).find(|(_, length, most)| length > most);
    too_long.map_or(Ok(()), |(what, length, most)| Err(LedgerError::TooLong { what, length, most }))
}

/// Whether a remote took a new run although its answer was lost.
fn accepted(repo: &Repo, place: &Place, run: RunId, commit: CommitId) -> bool {
    let Place::Remote(remote) = place else { return false };
    let name = ledger_ref(run);
    let fetched = repo.fetch_refs(remote, &[(&name, &name)], PATIENCE);
    fetched.is_ok() && repo.read_ref(name.as_str().into()).is_ok_and(|now| now == Some(commit))
}

/// Moves the ledger, and the refs beside it. The ledger comes first: it shows what is due.
fn swap(
    repo: &Repo,
    place: &Place,
    run: RunId,
    from: Option<CommitId>,
    to: CommitId,
    beside: &[RefChange],
) -> Result<Together, LedgerError> {
    let name = ledger_ref(run);
    let ledger = RefChange { name: BString::from(name.as_str()), expected: from, new: Some(to) };
    let changes: Vec<RefChange> = std::iter::once(ledger).chain(beside.iter().cloned()).collect();
    let moved = move_together(repo, place, &changes)?;
    if moved == Together::Won && *place != Place::Here {
        // The ref here is a copy of what the remote accepted. Another process may have fetched a newer one.
        let known = repo.read_ref(name.as_str().into())?;
        if known == from
            && let Swap::Lost { .. } = repo.swap(name.as_str().into(), from, to, "aynig: accepted")?
        {
            tracing::debug!(%run, "another process has noted what the remote accepted");
        }
    }
    Ok(moved)
}

/// Moves refs at the place of decision, all or none.
pub(super) fn move_together(
    repo: &Repo,
    place: &Place,
    changes: &[RefChange],
) -> Result<Together, LedgerError> {
    crashpoint::reach(Point::LedgerWritten);
    match place {
        Place::Here => {
            let moved = repo.swap_together(changes, "aynig: operation");
            // A killed process may have left its lock.
            let dead = matches!(moved, Err(RefError::Locked { .. })) && !repo.release_dead_locks().is_empty();
            Ok(if dead { repo.swap_together(changes, "aynig: operation")? } else { moved? })
        }
        Place::Remote(remote) => {
            let moved = repo.move_together(remote, changes, PATIENCE);
            crashpoint::reach(Point::LedgerPushed);
            moved.map_err(|source| LedgerError::Unmoved { remote: remote.clone(), source })
        }
    }
}
