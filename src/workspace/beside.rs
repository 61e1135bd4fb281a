//! Steps that are live beside each other on one host, and attempts of steps that were cut off (CONTRACT 20.33).
//!
//! Invariant: nothing that a step changed is taken for the state before another one. A step shows in a file what there was
//! before it, and holds the lock of that file. The file goes once all is as it was, so a file without a lock is of an
//! attempt that was cut off. Other steps add notes to it. A program of the step can write to it, too: so the step compares
//! it with memory at its end, and the lease of the driver shows that a step is live, whatever became of the file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use bstr::ByteSlice;

use crate::contract::commits::stalled_run;
use crate::contract::head::Head;
use crate::contract::layout::{FETCHED, HEADS, MARK};
use crate::fsutil::{self, FileLock};
use crate::words::shell_quote;

use super::Workspaces;
use super::context::{Context, settles};
use super::record::{MOST_BYTES, Record, Values, is_enabling, key_and_worktree, parsed};
use super::refusal::{Refusal, Why};
use super::store::LOCK;

/// What there was before a live step, in one line, and notes: changes that were put back while the step was live, in words
/// of the steps that found them.
const LIVE: &str = "workspace-live.json";

/// The beginning of the words about a setting.
const SETTING: &str = "the setting ";

/// The most bytes of notes that are read.
const MOST_NOTES: usize = 4_000;

/// What the beginning of a step waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Awaited {
    /// The end of a live step, and why.
    Step(String),
    /// A person, and why: an attempt that was cut off changed something.
    Person(String),
}

/// Shows others that a step is live, until it is dropped.
#[derive(Debug)]
pub(super) struct Live {
    file: File,
    path: PathBuf,
    text: Vec<u8>,
    /// When the file was changed last, as the file system has it.
    changed: (i64, i64),
    /// Whether there is nothing that another one has to know of.
    is_over: AtomicBool,
    _lock: FileLock,
}

/// What a live file shows.
#[derive(Debug, Default)]
struct Shown {
    before: Option<Record>,
    notes: Vec<String>,
}

/// Another workspace of this host whose step is live, or was cut off.
struct Other {
    context: Context,
    before: Option<Record>,
    /// Whether a process is in its step.
    is_locked: bool,
    /// Whether its driver is leased, or was when its step was cut off.
    is_leased: bool,
    /// Whether its step has begun for all that can be known. Else its driver is leased.
    has_begun: bool,
}

impl Live {
    /// The notes of other steps. `None`: the file was removed, or is another one.
    pub(super) fn notes(&self) -> Option<Vec<String>> {
        let inode = |found: std::fs::Metadata| (found.dev(), found.ino());
        let is_there = self.file.metadata().map(inode).ok() == self.path.symlink_metadata().map(inode).ok();
        let most = self.text.len().saturating_add(MOST_NOTES);
        let content = read_from(&self.file, most).ok().filter(|_| is_there)?;
        let mut notes = lines(content.strip_prefix(&self.text[..])?);
        if notes.is_empty() && changed(&self.file) != Some(self.changed) {
            notes.push(format!("{LIVE} was changed: notes of other steps may be lost"));
        }
        Some(notes)
    }

    /// Whether the file goes with the lock.
    pub(super) fn set_over(&self, is_over: bool) {
        self.is_over.store(is_over, Ordering::Relaxed);
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // A note that came at last stays for the next attempt.
        if self.is_over.load(Ordering::Relaxed)
            && self.notes().is_some_and(|notes| notes.is_empty())
            && let Err(error) = std::fs::remove_file(&self.path)
        {
            tracing::warn!(%error, "{} stays", self.path.display());
        }
    }
}

impl Workspaces<'_> {
    /// Shows others what there was before a step.
    pub(super) fn show_live(&self, context: &Context, before: &Record) -> Result<Live, Refusal> {
        let path = self.directory(context).join(LIVE);
        let because =
            |error: &dyn std::error::Error| Refusal::because(&format!("write {}", path.display()), error);
        let text = serde_json::to_vec(&before.without_refs()).map_err(|error| because(&error))?;
        let text = [&text[..], b"\n"].concat();
        fsutil::clear_odd(&path).map_err(|error| because(&error))?;
        let lock = FileLock::replace(&path, &text).map_err(|error| because(&error))?;
        let file = fsutil::open_plain(&path).map_err(|error| because(&error))?;
        let changed = changed(&file).unwrap_or_default();
        Ok(Live { file, path, text, changed, is_over: AtomicBool::new(true), _lock: lock })
    }

    /// Refuses what would take the worktree away from the step or turn that is live in it. `hint` is the next step.
    pub fn check_rests(&self, context: &Context, work: &str, hint: &str) -> Result<(), Refusal> {
        let file = self.directory(context).join(LIVE);
        if !matches!(FileLock::try_acquire(&file), Ok(None)) {
            return Ok(());
        }
        let message = format!("a {work} works in {}; nothing was changed", context.handle());
        Err(Refusal::new(Why::Conflict, message).hint(hint))
    }

    /// What a step waits for: hooks or settings are not as they were before another one of this host, which is live or was
    /// cut off.
    pub(super) fn changed_beside(&self, context: &Context, now: &Record) -> Result<Option<Awaited>, Refusal> {
        let others = self.others((&context.run_id, &context.name))?;
        Ok(self.changed_since(&others, now))
    }

    /// The same before anything of a workspace is looked at, or made. It may be on another host only.
    pub fn waits_beside(&self, run: &str, name: &str) -> Result<Option<Awaited>, Refusal> {
        let mut others = self.others((run, name))?;
        others.retain(|other| other.has_begun);
        // What all worktrees share is seen from each.
        let Some(Other { context, .. }) = others.first() else { return Ok(None) };
        Ok(self.changed_since(&others, &self.recorded_now(context)?))
    }

    fn changed_since(&self, others: &[Other], now: &Record) -> Option<Awaited> {
        others.iter().filter(|other| other.has_begun).find_map(|other| {
            let handle = other.context.handle();
            let name = match &other.before {
                Some(before) => self.first_difference(before, now),
                None => Some("the record of what there was".to_owned()),
            };
            // A person may have made the change.
            let settles = settles(&other.context);
            match name {
                Some(name) if other.is_locked => {
                    Some(Awaited::Step(format!("{name} was changed while a step of {handle} is live")))
                }
                Some(name) if other.is_leased => Some(Awaited::Step(format!(
                    "{name} was changed since a step of {handle} began, which may have been cut off; {settles}"
                ))),
                Some(name) => {
                    let words = format!("{name} was changed since a step of {handle} was cut off");
                    Some(Awaited::Person(format!("{words}; {settles}")))
                }
                None => {
                    if !other.is_locked && !other.is_leased {
                        self.forget_cut_off(&other.context);
                    }
                    None
                }
            }
        })
    }

    /// Refuses to make a workspace now, if it would take what another step changed for what there is to be.
    pub(super) fn check_beside(&self, run: &str, name: &str) -> Result<(), Refusal> {
        let refused = |why: &str| Refusal::new(Why::Setup, format!("{why}; nothing was changed"));
        match self.waits_beside(run, name)? {
            None => Ok(()),
            Some(Awaited::Step(why)) => {
                Err(refused(&why)
                    .hint("when that step has ended, what it changed is put back; then try again"))
            }
            Some(Awaited::Person(why)) => Err(refused(&why)),
        }
    }

    /// The other workspaces of this host with a step that is live or was cut off.
    fn others(&self, (run, name): (&str, &str)) -> Result<Vec<Other>, Refusal> {
        let mut all: Vec<Context> =
            self.entries()?.into_iter().filter_map(|entry| entry.context.ok()).collect();
        all.retain(|other| (other.run_id.as_str(), other.name.as_str()) != (run, name));
        let leases = if all.is_empty() { BTreeMap::new() } else { self.leases()? };
        let others = all.into_iter().filter_map(|context| {
            let file = self.directory(&context).join(LIVE);
            let is_locked = matches!(FileLock::try_acquire(&file), Ok(None));
            let (lease, shown) = (leases.get(&context.handle()), shown(&file));
            let is_leased = lease.is_some();
            if shown.is_none() && !is_locked && !is_leased {
                return None;
            }
            let has_begun = shown.is_some() || lease.is_some_and(|attempt| self.has_mark(&context, attempt));
            let before = shown.and_then(|shown| shown.before).or_else(|| self.record_of(&context));
            Some(Other { context, before, is_locked, is_leased, has_begun })
        });
        Ok(others.collect())
    }

    /// The attempts of this host that hold the lease of a driver, or did so when they were cut off, by the names of their
    /// workspaces.
    fn leases(&self) -> Result<BTreeMap<String, String>, Refusal> {
        let mut found = BTreeMap::new();
        for place in [format!("{HEADS}{}", self.options.drivers), FETCHED.to_owned()] {
            let tips = self.repo.tips(&place).map_err(|error| Refusal::because("list refs", &error))?;
            for tip in tips {
                let name = tip.branch.to_string();
                let name = match name.split_once(&self.options.drivers) {
                    Some((_, handle)) if place == FETCHED => handle,
                    None if place == FETCHED => continue,
                    _ => &name,
                };
                let Some(stored) = tip.target.ok().and_then(|head| self.repo.commit(head).ok()) else {
                    continue;
                };
                let (lease, attempt) = match Head::read(&stored.facts()) {
                    Head::Ready(event) if event.state.is_stalled() => {
                        let lease = stored.parents.first().and_then(|lease| self.repo.commit(*lease).ok());
                        let attempt = stalled_run(&event.message.trailers).map(|id| id.to_str_lossy().into());
                        (lease.map(|lease| Head::read(&lease.facts())), attempt)
                    }
                    head => (Some(head), None),
                };
                let Some(Head::Working(lease)) = lease else { continue };
                if lease.runner == self.repo.runner_id() {
                    let attempt = attempt.unwrap_or_else(|| lease.run_id.to_str_lossy().into_owned());
                    found.insert(name.to_owned(), attempt);
                }
            }
        }
        Ok(found)
    }

    /// Whether this attempt has begun to work in a workspace.
    fn has_mark(&self, context: &Context, attempt: &str) -> bool {
        let mark = fsutil::read_plain_text(self.runs().join(&context.run_id).join(MARK));
        mark.is_ok_and(|mark| mark.split_ascii_whitespace().next() == Some(attempt))
    }

    /// Notes in the workspaces of other steps, and in that of this one, that a step found changes of which any of them can
    /// be the cause. Returns these workspaces.
    pub(super) fn note_beside(&self, context: &Context, names: &str) -> Result<Vec<String>, Refusal> {
        let others = self.others((&context.run_id, &context.name))?;
        let handles: Vec<String> = others.iter().map(|other| other.context.handle()).collect();
        let own = context.handle();
        for other in others.iter().filter(|other| other.has_begun) {
            self.add_note(&other.context, &format!("{own} put back {names}"));
        }
        if !handles.is_empty() {
            self.add_note(context, &format!("{own} put back {names} beside {}", handles.join(", ")));
        }
        Ok(handles)
    }

    fn add_note(&self, context: &Context, words: &str) {
        let file = self.directory(context).join(LIVE);
        let noted = fsutil::open_shared_log(&file, u64::MAX).and_then(|mut notes| {
            // The first line is what there was.
            let first = if notes.metadata()?.len() == 0 { "\n" } else { "" };
            notes.write_all(format!("{first}{words}\n").as_bytes())
        });
        if let Err(error) = noted {
            tracing::warn!(%error, "{} could not be written", file.display());
        }
    }

    /// What other steps noted beside an attempt of a workspace that could not record it.
    pub fn notes_of(&self, context: &Context) -> Vec<String> {
        shown(&self.directory(context).join(LIVE)).map(|shown| shown.notes).unwrap_or_default()
    }

    /// Forgets these notes, since they are recorded.
    pub fn forget_notes(&self, context: &Context) {
        let before = shown(&self.directory(context).join(LIVE)).and_then(|shown| shown.before);
        let now = self.recorded_now(context).ok();
        match before.zip(now) {
            Some((before, now)) if self.first_difference(&before, &now).is_some() => {
                if let Err(refusal) = self.show_cut_off(context, Some(&before)) {
                    tracing::warn!(refusal.message, "notes stay");
                }
            }
            _ => self.accept_cut_off(context),
        }
    }

    /// Shows others that an attempt that was cut off changed something.
    pub(super) fn show_cut_off(&self, context: &Context, before: Option<&Record>) -> Result<(), Refusal> {
        let file = self.directory(context).join(LIVE);
        let text = before.map(|before| serde_json::to_vec(&before.without_refs())).transpose();
        let written = text.map_err(std::io::Error::other).and_then(|text| {
            fsutil::clear_odd(&file)?;
            fsutil::replace(&file, &[&text.unwrap_or_default()[..], b"\n"].concat())
        });
        written.map_err(|error| Refusal::because(&format!("write {}", file.display()), &error))
    }

    /// The words for a hook or setting that is not as before an attempt of this workspace that was cut off. Other steps of
    /// this host wait for a person then.
    pub fn cut_off_words(&self, context: &Context) -> Result<Option<String>, Refusal> {
        Ok(self.cut_off_change(context)?.map(|(what, next)| format!("{what}: {next}")))
    }

    /// The change of [`cut_off_words`](Self::cut_off_words), and the next step.
    pub(super) fn cut_off_change(&self, context: &Context) -> Result<Option<(String, String)>, Refusal> {
        let file = self.directory(context).join(LIVE);
        let before = shown(&file).and_then(|shown| shown.before);
        let Some(before) = before.filter(|_| !matches!(FileLock::try_acquire(&file), Ok(None))) else {
            return Ok(None);
        };
        let name = self.first_difference(&before, &self.recorded_now(context)?);
        Ok(name.map(|name| {
            let key = name.strip_prefix(SETTING).filter(|key| !before.settings.contains_key(*key));
            let undo = key.map_or_else(
                || "put it back".to_owned(),
                |key| format!("it was not set; `git config --unset-all {}` undoes it", shell_quote(key)),
            );
            let next = format!(
                "{undo}, or `aynig workspace snapshot --accept {}` takes it as it is",
                context.handle()
            );
            (format!("{name} was changed since a step here was cut off"), next)
        }))
    }

    /// Whether there is something that shows what there was before an attempt that was cut off.
    pub(super) fn is_shown(&self, context: &Context) -> bool {
        shown(&self.directory(context).join(LIVE)).is_some_and(|shown| shown.before.is_some())
    }

    /// Takes the file of an attempt that was cut off away.
    pub(super) fn accept_cut_off(&self, context: &Context) {
        let file = self.directory(context).join(LIVE);
        if !matches!(FileLock::try_acquire(&file), Ok(None)) {
            fsutil::clear_odd(&file).ok();
            std::fs::remove_file(&file).ok();
        }
    }

    /// Takes the file of an attempt that was cut off away, if all is as it was before it: a later change is a person's.
    pub fn forget_unchanged(&self, context: &Context) {
        let before = shown(&self.directory(context).join(LIVE)).and_then(|shown| shown.before);
        let is_same = |now| before.is_some_and(|before| self.first_difference(&before, &now).is_none());
        if self.recorded_now(context).is_ok_and(is_same) {
            self.forget_cut_off(context);
        }
    }

    /// Takes the file of an attempt that was cut off away, unless it has notes: all is as it was.
    fn forget_cut_off(&self, context: &Context) {
        let directory = self.directory(context);
        // Whoever makes the file holds this.
        let Ok(Some(_held)) = FileLock::try_acquire(&directory.join(LOCK)) else { return };
        let file = directory.join(LIVE);
        if matches!(FileLock::try_acquire(&file), Ok(Some(_))) && self.notes_of(context).is_empty() {
            std::fs::remove_file(&file).ok();
        }
    }

    /// A hook or setting, shared by all worktrees, that differs.
    fn first_difference(&self, before: &Record, now: &Record) -> Option<String> {
        let names = before.hooks.keys().chain(now.hooks.keys());
        let hook = names.into_iter().find(|name| before.hooks.get(*name) != now.hooks.get(*name));
        if let Some(name) = hook {
            return Some(name.clone());
        }
        let own = self.repo.common_dir().join("worktrees");
        let own = own.canonicalize().unwrap_or(own);
        let shared = |values: Option<&Values>| -> Vec<String> {
            let is_shared = |file: &Path| !file.starts_with(&own);
            let values = values.into_iter().flatten().filter(|(file, _)| is_shared(file));
            values.map(|(_, digest)| digest.clone()).collect()
        };
        let names = before.settings.keys().chain(now.settings.keys());
        let mut names = names.filter(|name| key_and_worktree(name).1.is_none());
        let differs = |name: &&String| shared(before.settings.get(*name)) != shared(now.settings.get(*name));
        let is_free =
            |name: &&String| is_enabling(name, before.settings.contains_key(*name)) && self.may_enable();
        names.find(|name| differs(name) && !is_free(name)).map(|name| format!("{SETTING}{name}"))
    }
}

/// What a live file shows; `None`: there is none.
fn shown(file: &Path) -> Option<Shown> {
    let unread = |why: &dyn std::fmt::Display| Shown {
        notes: vec![format!("{LIVE} cannot be read ({why}): notes of other steps may be lost")],
        before: None,
    };
    if file.symlink_metadata().is_err() {
        return None;
    }
    let most = usize::try_from(MOST_BYTES).unwrap_or(usize::MAX);
    let content = fsutil::open_own(file).and_then(|file| read_from(&file, most));
    Some(match content {
        Ok(content) => {
            let (first, rest) = content.split_once_str("\n").unwrap_or((&content, b""));
            Shown { before: parsed(first), notes: lines(&rest[..rest.len().min(MOST_NOTES)]) }
        }
        Err(error) => unread(&error),
    })
}

fn lines(notes: &[u8]) -> Vec<String> {
    let plain = |line: &[u8]| line.to_str_lossy().chars().filter(|c| !c.is_control()).collect::<String>();
    notes.lines().map(plain).filter(|line| !line.is_empty()).collect()
}

/// The beginning of an open file.
fn read_from(mut file: &File, most: usize) -> std::io::Result<Vec<u8>> {
    let mut content = Vec::new();
    file.rewind()?;
    file.take(u64::try_from(most).unwrap_or(u64::MAX)).read_to_end(&mut content)?;
    Ok(content)
}

fn changed(file: &File) -> Option<(i64, i64)> {
    file.metadata().ok().map(|found| (found.ctime(), found.ctime_nsec()))
}
