//! Steps that are live beside each other on one host (CONTRACT 20.33).
//!
//! Invariant: nothing that a live step changed is taken for the state before another one. A live step shows in a file what
//! there was before it, and holds the lock of that file. The lock ends with the process.

use std::io::Write;
use std::path::Path;

use crate::fsutil::{self, FileLock};

use super::Workspaces;
use super::context::Context;
use super::record::{Record, Values, is_enabling, key_and_worktree, read};
use super::refusal::{Refusal, Why};

/// What there was before a live step.
const LIVE: &str = "workspace-live.json";

/// Changes that were put back while a step was live, in words of the steps that found them.
const NOTES: &str = "workspace-beside.txt";

/// The most bytes of notes that are read.
const MOST_NOTES: u64 = 4_000;

/// Shows others that a step is live, until it is dropped.
#[derive(Debug)]
pub(super) struct Live {
    _lock: FileLock,
}

impl Workspaces<'_> {
    /// Shows others what there was before a step.
    pub(super) fn show_live(&self, context: &Context, before: &Record) -> Result<Live, Refusal> {
        let file = self.directory(context).join(LIVE);
        let because =
            |error: &dyn std::error::Error| Refusal::because(&format!("write {}", file.display()), error);
        let text = serde_json::to_vec(&before.without_refs()).map_err(|error| because(&error))?;
        fsutil::clear_odd(&file).map_err(|error| because(&error))?;
        self.take_notes(context);
        FileLock::replace(&file, &text).map(|lock| Live { _lock: lock }).map_err(|error| because(&error))
    }

    /// Refuses what would take the worktree away from a step that is live in it.
    pub fn check_rests(&self, context: &Context, instead: &str) -> Result<(), Refusal> {
        let file = self.directory(context).join(LIVE);
        if !matches!(FileLock::try_acquire(&file), Ok(None)) {
            return Ok(());
        }
        let message = format!("a step works in {}; nothing was changed", context.handle());
        Err(Refusal::new(Why::Conflict, message).hint(instead))
    }

    /// Why a step waits for another one that is live on this host: hooks or settings are not as they were before that.
    pub(super) fn changed_beside(&self, context: &Context, now: &Record) -> Result<Option<String>, Refusal> {
        let others = self.live_beside((&context.run_id, &context.name))?;
        Ok(self.changed_since(&others, now))
    }

    /// The same before anything of a workspace is looked at, or made. It may be on another host only.
    pub fn waits_beside(&self, run: &str, name: &str) -> Result<Option<String>, Refusal> {
        let others = self.live_beside((run, name))?;
        // What all worktrees share is seen from each.
        let Some((other, _)) = others.first() else { return Ok(None) };
        Ok(self.changed_since(&others, &self.recorded_now(other)?))
    }

    fn changed_since(&self, others: &[(Context, Record)], now: &Record) -> Option<String> {
        others.iter().find_map(|(other, before)| {
            let name = self.first_difference(before, now)?;
            Some(format!("{name} was changed while a step of {} is live", other.handle()))
        })
    }

    /// Refuses to make a workspace now, if it would take what a live step changed for what there is to be.
    pub(super) fn check_beside(&self, run: &str, name: &str) -> Result<(), Refusal> {
        let Some(why) = self.waits_beside(run, name)? else { return Ok(()) };
        let refusal = Refusal::new(Why::Setup, format!("{why}; nothing was changed"));
        Err(refusal.hint("when that step has ended the change is put back; then try again"))
    }

    /// The other workspaces of this host with a live step, and what there was before it.
    fn live_beside(&self, (run, name): (&str, &str)) -> Result<Vec<(Context, Record)>, Refusal> {
        let mut found = Vec::new();
        for other in self.entries()?.into_iter().filter_map(|entry| entry.context.ok()) {
            if (other.run_id.as_str(), other.name.as_str()) == (run, name) {
                continue;
            }
            let file = self.directory(&other).join(LIVE);
            if !matches!(FileLock::try_acquire(&file), Ok(None)) {
                continue;
            }
            found.extend(read(&file).map(|before| (other, before)));
        }
        Ok(found)
    }

    /// Notes in the workspaces of other live steps that a step found changes of which any of them can be the cause.
    /// Returns these workspaces.
    pub(super) fn note_beside(&self, context: &Context, names: &str) -> Result<Vec<String>, Refusal> {
        let others = self.live_beside((&context.run_id, &context.name))?;
        for (other, _) in &others {
            let line = format!("{} put back {names}\n", context.handle());
            let file = self.directory(other).join(NOTES);
            let opened = fsutil::open_shared_log(&file, u64::MAX);
            if let Err(error) = opened.and_then(|mut notes| notes.write_all(line.as_bytes())) {
                tracing::warn!(%error, "{} could not be written", file.display());
            }
        }
        Ok(others.into_iter().map(|(other, _)| other.handle()).collect())
    }

    /// Takes the notes of other steps.
    pub(super) fn take_notes(&self, context: &Context) -> Vec<String> {
        let file = self.directory(context).join(NOTES);
        let text = fsutil::tail(&file, MOST_NOTES).unwrap_or_default();
        std::fs::remove_file(&file).ok();
        String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()
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
        names.find(|name| differs(name) && !is_free(name)).map(|name| format!("the setting {name}"))
    }
}
