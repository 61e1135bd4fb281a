//! `aynig log`: the life of a branch.
//!
//! Invariant: it is told from the commits alone, as anybody could who has them, and is put out as it is read; only where logs and
//! rescued work lie on this host is looked up besides. What belongs together is decided by `contract::story`, and drawn by
//! `lines`; the JSON is made by `value`.

mod host;
mod lines;
mod value;

use serde_json::Value;

use aynig::clock;
use aynig::contract::ids::{BranchName, CommitId};
use aynig::contract::story::{Entry, Story};
use aynig::git::objects::commits::Signed;
use aynig::git::{CommitError, Repo};
use aynig::ops::app::App;
use aynig::ops::error::Error;
use aynig::ops::{missing, target};

use crate::cli::args::Log;
use crate::cli::exit::Exit;
use crate::cli::look::log::host::Host;
use crate::cli::look::log::lines::Renderer;
use crate::cli::ui;
use crate::cli::ui::page::Page;
use crate::cli::ui::signals;
use crate::cli::ui::{FAINT, styled};

/// Runs the subcommand.
pub(crate) fn run(app: &App, arguments: &Log) -> Result<Exit, Error> {
    let repo = app.repo();
    let authority = signals::authority(&repo, arguments.remote.as_ref())?;
    let named = arguments.name.as_deref().or(arguments.branch.as_deref());
    let branch = target::branch(&repo, &authority, named)?;
    let head = target::existing_head(&repo, &authority, &branch)?;
    let mut history = History::new(&repo, &branch, head, arguments.max_count.unwrap_or(usize::MAX));
    let host = Host::new(&repo);
    if arguments.json {
        let values = history.map(|entry| entry.map(|entry| value::entry(&host, &entry)));
        let mut entries = values.collect::<Result<Vec<Value>, Error>>()?;
        if arguments.reverse {
            entries.reverse();
        }
        ui::answer_json(&Value::Array(entries));
        return Ok(Exit::Done);
    }
    // The first entry before a pager is started: what cannot be read is told on an ordinary terminal.
    let first = history.next().transpose()?;
    if matches!(first, None | Some(Entry::Before(_))) {
        if arguments.max_count != Some(0) {
            ui::narrate(&ui::sanitize(&missing::no_event(&repo, &authority, &branch)));
        }
        return Ok(Exit::Done);
    }
    let mut page = Page::open(&repo, !arguments.no_pager);
    let teller = Renderer {
        host: &host,
        now: clock::wall_seconds(),
        columns: page.columns(),
        leases: arguments.leases,
    };
    let entries = first.into_iter().map(Ok).chain(history.by_ref());
    if arguments.reverse {
        let mut entries = entries.collect::<Result<Vec<_>, _>>()?;
        entries.reverse();
        if history.is_cut_off() && !page.line(&edge()) {
            return Ok(Exit::Done);
        }
        for entry in entries {
            if !teller.lines(&entry).iter().all(|line| page.line(line)) {
                return Ok(Exit::Done);
            }
        }
        return Ok(Exit::Done);
    }
    for entry in entries {
        if !teller.lines(&entry?).iter().all(|line| page.line(line)) {
            return Ok(Exit::Done);
        }
    }
    if history.is_cut_off() {
        page.line(&edge());
    }
    Ok(Exit::Done)
}

fn edge() -> String {
    styled(FAINT, "what was before is not in this clone, which is shallow (`git fetch --unshallow`)")
}

/// The entries of a branch, newest first, read as they are asked for.
struct History<'a, I> {
    commits: I,
    story: Option<Story>,
    ready: std::vec::IntoIter<Entry>,
    branch: &'a BranchName,
    left: usize,
    /// Whether the last commit that was read has a parent.
    goes_on: bool,
}

impl<'a> History<'a, ()> {
    fn new(
        repo: &'a Repo,
        branch: &'a BranchName,
        head: CommitId,
        left: usize,
    ) -> History<'a, impl Iterator<Item = Result<Signed, CommitError>> + 'a> {
        let commits = repo.signed_history(head);
        let ready = Vec::new().into_iter();
        History { commits, story: Some(Story::new()), ready, branch, left, goes_on: false }
    }
}

impl<I> History<'_, I> {
    /// Whether all was read, and there is more than this clone has.
    fn is_cut_off(&self) -> bool {
        self.story.is_none() && self.goes_on
    }
}

impl<I> Iterator for History<'_, I>
where
    I: Iterator<Item = Result<Signed, CommitError>>,
{
    type Item = Result<Entry, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        loop {
            if let Some(entry) = self.ready.next() {
                self.left -= 1;
                return Some(Ok(entry));
            }
            let story = self.story.as_mut()?;
            self.ready = match self.commits.next() {
                Some(Ok(signed)) => {
                    self.goes_on = !signed.stored.parents.is_empty();
                    story.add(&signed.told())
                }
                Some(Err(error)) => {
                    self.story = None;
                    let trying = format!("read the history of {}", self.branch);
                    return Some(Err(Error::because(&trying, &error).hint("`git fsck` may tell more")));
                }
                None => self.story.take().map(Story::end).unwrap_or_default(),
            }
            .into_iter();
        }
    }
}
