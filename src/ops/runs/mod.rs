//! Runs for front ends: finding, listing, showing and following them.
//!
//! Invariant: each call brings the run's files up to its ledger first, as the ledger is known here. Only [`update`] and
//! a follower ask a remote.
//!
//! | file | contains |
//! |---|---|
//! | [`doctor`] | compares a run's ledger and files |
//! | [`leftovers`] | what runs left on this host |
//! | [`known`] | all runs, for those who look again and again |
//! | `drivers` | the drivers of many runs |
//! | `live` | what the drivers of nodes say about them |
//! | `next` | the lines to type for a graph that does not continue |
//! | `errors` | errors of ledgers and journals, with the next step |

pub mod doctor;
pub(super) mod drivers;
mod errors;
pub mod known;
pub mod leftovers;
pub(super) mod live;
mod next;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::time::Duration;

use crate::clock;
use crate::contract::alike::nearest;
use crate::contract::ids::{BranchName, CommitId, RemoteName};
use crate::contract::unable::mends;
use crate::engine::FLOW;
use crate::engine::record::project::project;
use crate::fsutil;
use crate::git::Repo;
use crate::journal::JournalError;
use crate::journal::directory::RunDirectory;
pub use crate::journal::log::Line;
pub use crate::journal::pages::Page;
use crate::journal::pages::Reader;
pub use crate::journal::projection::Projection;
use crate::journal::sync;
pub use crate::journal::sync::Synced;
use crate::ledger::fetch::fetch;
use crate::ledger::tip::ledger_ref;
use crate::ledger::watch::{Heard, Watch};
use crate::ledger::{BY_A_STEP, LedgerError, Place, Tip, archive, runs};
use crate::model::ids::NodeId;
pub use crate::model::ids::RunId;
pub use crate::model::run::Run;
use crate::model::run::{RunKind, RunStatus};
pub use crate::model::state::State;
use crate::model::time::Timestamp;
use crate::words::{error_chain, shell_quote};

use super::error::{Error, Kind};
use super::settings;
pub(super) use next::runner;
pub use next::runners;

/// The words where there are none.
pub const NO_RUNS: &str = "no run is known here: `aynig flow start FILE` begins one";

/// The number of runs from which another thread pays off.
const SHARE: usize = 50;

/// The most runs that an error lists.
const LISTED: usize = 8;

/// A run in the list.
#[derive(Debug)]
pub struct Listed {
    /// Its id.
    pub id: RunId,
    /// The newest commit of its ledger.
    pub head: CommitId,
    /// The run, or why it cannot be read.
    pub run: Result<Run, String>,
}

/// Fetches the ledgers of the remote that decides here, if there is one. Returns what went wrong in words: the runs are
/// then shown as they were last known.
pub fn update(repo: &Repo, remote: Option<&RemoteName>) -> Vec<String> {
    let updated = remote.map(|remote| from_remote(repo, remote));
    updated.unwrap_or_else(|| Ok(Vec::new())).unwrap_or_else(|why| vec![why])
}

/// Fetches the ledgers of a remote. Returns what is wrong with some of them, or why none was fetched.
pub fn from_remote(repo: &Repo, remote: &RemoteName) -> Result<Vec<String>, String> {
    let fetched = fetch(repo, remote)
        .map_err(|error| format!("{}; runs are shown as they were last fetched", error_chain(&error)))?;
    let mends = |run: RunId, why: &LedgerError| {
        let mends = strange(repo, remote, run, why).or_else(|| why.mends());
        mends.map(|mends| format!("; {mends}")).unwrap_or_default()
    };
    let place = |why: &LedgerError| match why {
        LedgerError::Foreign { place, .. } => Some(place.clone()),
        _ => None,
    };
    let mut places: HashMap<String, usize> = HashMap::new();
    for place in fetched.refused.iter().filter_map(|(_, why)| place(why)) {
        *places.entry(place).or_default() += 1;
    }
    let mut words = Vec::new();
    for (run, why) in &fetched.refused {
        // Runs that are decided at one other place have one remedy.
        let others = match place(why).map(|place| places.remove(&place)) {
            None | Some(Some(1)) => String::new(),
            Some(Some(count)) => format!("; so are those of {} more runs", count - 1),
            Some(None) => continue,
        };
        words.push(format!("{}{others}{}", error_chain(why), mends(*run, why)));
    }
    Ok(words)
}

/// The next step for a damaged ledger of a remote that was never read here: no subcommand finds its run.
fn strange(repo: &Repo, remote: &RemoteName, run: RunId, why: &LedgerError) -> Option<String> {
    let name = ledger_ref(run);
    let LedgerError::Damaged { commit, why, .. } = why else { return None };
    // A commit on a good ledger is taken off, and the ledger stays.
    let is_new = matches!(repo.read_ref(name.as_str().into()), Ok(None));
    (is_new && why != BY_A_STEP).then(|| {
        let remote = shell_quote(remote.as_str());
        format!(
            "`git log {}` shows what {remote} has at {name}; if no operation of a run is in it, `git push {remote} \
             :{name}` removes it there",
            commit.short()
        )
    })
}

/// Lists all runs that are known here, the newest first. Those that cannot be read come last. Files of deleted runs are
/// moved away.
pub fn list(repo: &Repo) -> Result<Vec<Listed>, Error> {
    follow_deleted(repo)?;
    all(repo)
}

/// As [`list`], and nothing is changed.
pub fn all(repo: &Repo) -> Result<Vec<Listed>, Error> {
    let read = |repo: &Repo, share: Vec<(RunId, CommitId)>| {
        let read = |(id, head)| {
            let run = Tip::read_run(repo, id, head).map(|tip| tip.state.run);
            Listed { id, head, run: run.map_err(|error| error_chain(&error)) }
        };
        share.into_iter().map(read).collect::<Vec<Listed>>()
    };
    let mut all: Vec<Listed> = repo.in_shares(runs::all(repo)?, SHARE, read).into_iter().flatten().collect();
    all.sort_by_key(|one| {
        (one.run.is_err(), Reverse(one.run.as_ref().ok().map(|run| run.created_at)), one.id)
    });
    Ok(all)
}

/// Moves the files of deleted runs away.
pub(super) fn follow_deleted(repo: &Repo) -> Result<(), Error> {
    for deleted in archive::all_archived(repo)? {
        let directory = directory(repo, deleted.run)?;
        if directory.path().is_dir()
            && let Err(error) = sync::sync(repo, &directory)
        {
            tracing::debug!(%error, "the files of a deleted run");
        }
    }
    Ok(())
}

/// The slugs of the runs that are running.
pub fn running(all: &[Listed]) -> impl Iterator<Item = String> {
    let runs = all.iter().filter_map(|one| one.run.as_ref().ok());
    runs.filter(|run| run.status == RunStatus::Running).map(|run| run.slug.to_string())
}

/// The names of all runs, as one types them.
pub fn names(repo: &Repo) -> BTreeSet<String> {
    list(repo).unwrap_or_default().iter().map(slug).collect()
}

fn slug(one: &Listed) -> String {
    one.run.as_ref().map_or_else(|_| one.id.to_string(), |run| run.slug.to_string())
}

/// The words about runs of a remote, which a clone sees only if that decides.
pub fn remote_unset(repo: &Repo) -> Option<String> {
    let name = repo.remote_names().into_iter().next().filter(|_| repo.config("aynig.remote").is_none())?;
    let name = shell_quote(&name);
    Some(format!(
        "aynig.remote is not set; with `git config aynig.remote {name}` runs of {name} are seen, too"
    ))
}

/// Finds the run that is meant by a slug, the beginning of an id, an id, or the name of one of its branches.
pub fn find(repo: &Repo, text: &str) -> Result<RunId, Error> {
    let text = of_branch(repo, text).unwrap_or(text);
    let error = match runs::find(repo, text) {
        Ok(run) => return Ok(run),
        Err(error) => error,
    };
    if matches!(error, LedgerError::Unknown(_))
        && let Some(run) = deleted(repo, text)?
    {
        // Its files are moved away.
        drop(sync::sync(repo, &directory(repo, run)?));
        return Err(archive::missing(repo, run).into());
    }
    let among: Option<Vec<RunId>> = match &error {
        LedgerError::Unknown(_) => None,
        LedgerError::Ambiguous { runs, .. } => Some(runs.clone()),
        _ => return Err(error.into()),
    };
    let mut candidates = list(repo)?;
    candidates.retain(|one| among.as_ref().is_none_or(|runs| runs.contains(&one.id)));
    let near = nearest(&text.to_ascii_lowercase(), candidates.iter().map(slug));
    let more = candidates.len().saturating_sub(LISTED);
    let mut words: Vec<String> = candidates
        .iter()
        .take(LISTED)
        .map(|one| match &one.run {
            Ok(run) if run.label.is_empty() => run.slug.to_string(),
            Ok(run) => format!("{} ({})", run.slug, run.label),
            Err(_) => one.id.to_string(),
        })
        .collect();
    if more > 0 {
        words.push(format!("{more} more"));
    }
    let error = Error::new(Kind::NotFound, error_chain(&error));
    if let Some(words) = stray(repo, text).filter(|_| among.is_none()) {
        return Err(error.hint(words));
    }
    Err(match (near, words.is_empty()) {
        (Some(near), _) if among.is_none() => error.hint(format!("did you mean {near}?")),
        (_, true) => match remote_unset(repo) {
            Some(words) => error.hint(words),
            None => error.hint(NO_RUNS),
        },
        (_, false) => error.hint(format!("the runs there are: {}", words.join(", "))),
    })
}

/// The slug in the name of a driver or a work branch.
fn of_branch<'t>(repo: &Repo, text: &'t str) -> Option<&'t str> {
    let (work, run) = settings::prefixes(repo).ok()?;
    let below = text.strip_prefix(&run).or_else(|| text.strip_prefix(&work))?;
    Some(below.split_once('/')?.0)
}

/// The words about a driver whose ledger is not here.
fn stray(repo: &Repo, slug: &str) -> Option<String> {
    let prefix = settings::workspace(repo).ok()?.run_prefix;
    let branch = BranchName::new(format!("{prefix}{slug}/{FLOW}")).ok()?;
    let here = repo.branch_head(&branch).ok().flatten();
    let fetched = || repo.fetched_head(&settings::remote(repo).ok()??, &branch).ok().flatten();
    here.or_else(fetched)?;
    Some(format!(
        "{branch} is the driver of a run whose ledger is not here, since `git clone` copies branches alone: steer the \
         run in the repository that began it"
    ))
}

/// The one deleted run whose id begins like that.
fn deleted(repo: &Repo, text: &str) -> Result<Option<RunId>, Error> {
    let typed = text.to_ascii_lowercase().replace('-', "");
    let mut all = archive::all_archived(repo)?.into_iter().map(|archived| archived.run);
    let begins = |run: &RunId| !typed.is_empty() && run.uuid().simple().to_string().starts_with(&typed);
    Ok(all.find(begins).filter(|_| !all.any(|run| begins(&run))))
}

/// The directory of a run, after a look at the setting that names it.
pub fn directory(repo: &Repo, run: RunId) -> Result<RunDirectory, Error> {
    settings::data_dir(repo)?;
    Ok(RunDirectory::of(repo, run))
}

/// A run with all of its state.
#[derive(Debug)]
pub struct Shown {
    /// The newest commit of its ledger.
    pub head: CommitId,
    /// Its state. A node whose driver is leased is `running`.
    pub state: State,
    /// What nodes wait for whose turns are due, in words.
    pub waits: BTreeMap<NodeId, String>,
    /// The lines to type for it to go on.
    pub next: Vec<String>,
    /// Its directory.
    pub directory: RunDirectory,
    /// What was brought up to the ledger, or why that failed. The state is the ledger's in any case.
    pub synced: Result<Synced, Error>,
}

impl Shown {
    /// The state with the field names of `state.json`.
    pub fn projection(&self) -> Projection<'_> {
        let last = self.synced.as_ref().map_or(0, |synced| synced.last_seq);
        Projection::of(&self.state, &self.directory, last)
    }
}

/// Reads a run.
pub fn show(repo: &Repo, run: RunId) -> Result<Shown, Error> {
    let directory = directory(repo, run)?;
    let head = head(repo, run)?.ok_or_else(|| LedgerError::Unknown(run.to_string()))?;
    let mut state = Tip::read_whole(repo, run, head)?.state;
    let waits = live::overlay(repo, &mut state);
    let synced = synced(repo, &directory).map_err(Error::from);
    let now = Timestamp::from_millis(clock::wall_millis());
    let pauses = settings::workspace(repo).map(|settings| settings.retry_pause).unwrap_or_default();
    // First the settings that hosts lack: a pass alone would hand the turn back again.
    let mut next = mends(waits.values().map(String::as_str));
    next.extend(now.map(|now| next::next(&state, now, &pauses)).unwrap_or_default());
    Ok(Shown { head, state, waits, next, directory, synced })
}

/// Makes the files of a run anew from its ledger.
pub fn rebuild(repo: &Repo, run: RunId) -> Result<(RunDirectory, Synced), Error> {
    let directory = directory(repo, run)?;
    let synced = sync::rebuild(repo, &directory).and_then(|synced| whole(repo, &directory, synced))?;
    Ok((directory, synced))
}

/// Brings the files of a run up to its ledger.
fn synced(repo: &Repo, directory: &RunDirectory) -> Result<Synced, JournalError> {
    sync::sync(repo, directory).and_then(|synced| whole(repo, directory, synced))
}

/// Adds what the files of a flow run have besides, if they were made anew.
fn whole(repo: &Repo, directory: &RunDirectory, synced: Synced) -> Result<Synced, JournalError> {
    let head = repo.read_ref(ledger_ref(directory.run()).as_str().into()).map_err(LedgerError::from)?;
    if let Some(head) = head.filter(|_| synced.anew) {
        project(repo, directory, &Tip::read(repo, directory.run(), head)?)?;
    }
    Ok(synced)
}

/// The command that shows a run.
pub(super) fn shows(run: &Run) -> String {
    let group = if run.kind == RunKind::Flow { "flow" } else { "orch" };
    format!("aynig {group} show {}", run.slug)
}

/// The newest commit of a run's ledger, as it is known here.
pub(super) fn head(repo: &Repo, run: RunId) -> Result<Option<CommitId>, Error> {
    Ok(repo.read_ref(ledger_ref(run).as_str().into()).map_err(LedgerError::from)?)
}

/// The journal of a run: its id, and the number of its last event.
pub fn position(repo: &Repo, run: RunId) -> Result<Synced, Error> {
    Ok(synced(repo, &directory(repo, run)?)?)
}

/// The events of a run after number `after`, the first `limit` of them.
pub fn lines_after(repo: &Repo, run: RunId, after: u64, limit: usize) -> Result<Vec<Line>, Error> {
    let mut lines = Vec::new();
    Events::after(repo, run, after)?.read(false, |_, line| {
        lines.push(line);
        if lines.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(lines)
}

/// The newest `limit` events of a run before number `before` (`None`: of all).
pub fn page(repo: &Repo, run: RunId, before: Option<u64>, limit: usize) -> Result<Page, Error> {
    let directory = directory(repo, run)?;
    synced(repo, &directory)?;
    let reader = Reader::open(&directory)?.ok_or_else(|| LedgerError::Unknown(run.to_string()))?;
    Ok(reader.page(before, limit)?)
}

/// The events of a run, read from a position on.
#[derive(Debug)]
pub struct Events<'r> {
    repo: &'r Repo,
    directory: RunDirectory,
    reader: Reader,
    /// The journal to which the numbers belong.
    pub journal: String,
    /// The newest commit whose status was read, and whether the run has ended there.
    seen: Option<(CommitId, bool)>,
    /// Asks the remote that decides the run, while it is followed.
    watch: Option<Watch<'r>>,
    /// Whether it was reported that the remote does not answer.
    deaf: bool,
}

impl<'r> Events<'r> {
    /// Begins to read after the event with number `after`.
    pub fn after(repo: &'r Repo, run: RunId, after: u64) -> Result<Self, Error> {
        let directory = directory(repo, run)?;
        let Synced { journal, last_seq, .. } = synced(repo, &directory)?;
        if after > last_seq {
            return Err(Error::failed(format!("the journal of run {run} ends with number {last_seq}"))
                .hint("a journal that was made anew has other numbers: leave --after away to read it from the beginning"));
        }
        let reader = Reader::open(&directory)?;
        let mut reader = reader.ok_or_else(|| LedgerError::Unknown(run.to_string()))?;
        reader.seek_after(after)?;
        Ok(Self { repo, directory, reader, journal, seen: None, watch: None, deaf: false })
    }

    /// Hands on the events that are there; with `follow` also those that come until the run has ended or was deleted,
    /// or until `each` breaks.
    pub fn read(
        &mut self,
        follow: bool,
        mut each: impl FnMut(&Self, Line) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        if follow {
            self.watch = self.watch()?;
        }
        fsutil::follow(
            self,
            |events| Ok(!follow || events.is_over()?),
            |events| loop {
                let lines = events.reader.next_lines()?;
                if lines.is_empty() {
                    return Ok(ControlFlow::Continue(()));
                }
                for line in lines {
                    if each(events, line).is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
            },
        )
    }

    /// The watch on a run that a remote decides. This repository's own runs are followed by their files.
    fn watch(&self) -> Result<Option<Watch<'r>>, Error> {
        let run = self.directory.run();
        let Some(head) = head(self.repo, run)? else { return Ok(None) };
        let decided_by = Tip::read_run(self.repo, run, head)?.state.run.decided_by;
        match Place::of(self.repo, run, &decided_by) {
            Ok(place @ Place::Remote(_)) => Ok(Some(Watch::of(self.repo, &place))),
            // What is known of it here can be shown all the same.
            Ok(Place::Here) | Err(LedgerError::Elsewhere { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Asks the remote, if it is time to. An outage is reported once.
    fn ask(&mut self) {
        let Some(watch) = &mut self.watch else { return };
        match watch.next(Duration::ZERO) {
            Heard::Deaf(error) if !self.deaf => {
                self.deaf = true;
                tracing::warn!("{}; it is asked again", error_chain(&error));
            }
            Heard::Moved => self.deaf = false,
            Heard::Deaf(_) | Heard::Quiet => {}
        }
    }

    /// Brings the journal up to the ledger. Returns whether the run has ended or was deleted.
    fn is_over(&mut self) -> Result<bool, Error> {
        self.ask();
        let run = self.directory.run();
        // A deleted run has its last events in the file that is open.
        match synced(self.repo, &self.directory) {
            Err(JournalError::Ledger(LedgerError::Deleted { .. })) => return Ok(true),
            synced => synced?,
        };
        let Some(head) = head(self.repo, run)? else { return Ok(true) };
        if let Some((seen, ended)) = self.seen
            && seen == head
        {
            return Ok(ended);
        }
        let ended = Tip::read_run(self.repo, run, head)?.state.run.status.is_ended();
        self.seen = Some((head, ended));
        Ok(ended)
    }
}
