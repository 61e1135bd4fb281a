//! Settings that execute: compared with those that there were when a workspace was made
//! (CONTRACT 15.12).
//!
//! Invariant: no git call works in a worktree before they were compared. Digests are recorded, since
//! values can be secrets.

use std::collections::BTreeMap;
use std::path::PathBuf;

use uuid::Uuid;

use crate::git::repo::executing::settings_of;
use crate::git::repo::listing::Executing;
use crate::git::worktrees::registration::Workplace;

use super::Workspaces;
use super::context::Context;
use super::record::Values;
use super::refusal::{Refusal, Why};
use super::tampering::{Change, restores_setting};

/// Whether git runs this setting on contents before it stores them.
fn keeps_out(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    key.starts_with("filter.") && (key.ends_with(".clean") || key.ends_with(".process"))
}

impl Workspaces<'_> {
    /// The digests of the settings that execute, by key.
    pub(super) fn executing(&self) -> Result<BTreeMap<String, String>, Refusal> {
        let found = self.repo.executing_settings(self.repo.common_dir());
        found.map(|found| digests(&found)).map_err(|error| unread(&error))
    }

    /// Refuses to work in a worktree if a setting that executes was added or changed, or a filter of contents is gone:
    /// git would store what the filter keeps out of commits.
    pub(super) fn check_settings(&self, context: &Context) -> Result<(), Refusal> {
        let found = self.executing_of(context)?;
        let now = digests(&found);
        let changed = now.iter().filter(|(key, digest)| context.settings.get(*key) != Some(digest));
        let gone = context.settings.keys().filter(|key| keeps_out(key) && !now.contains_key(*key));
        let changed: Vec<&String> = changed.map(|(key, _)| key).chain(gone).collect();
        if changed.is_empty() {
            return Ok(());
        }
        let shown = |key: &&String| {
            let gone = if now.contains_key(*key) { "" } else { " (removed)" };
            format!("{key}{gone}")
        };
        let names: Vec<String> = changed.iter().map(shown).collect();
        let message = format!(
            "settings that make git run programs were changed after {} was made: {}; nothing was changed",
            context.handle(),
            names.join(", ")
        );
        let mut refusal = Refusal::new(Why::Failed, message);
        let before = self.record_of(context).map(|record| record.settings).unwrap_or_default();
        for key in changed {
            let of = |one: &&Executing| one.key == *key;
            let values: Values =
                found.iter().filter(of).map(|one| (one.file.clone(), String::new())).collect();
            let old = before.get(key).filter(|_| context.settings.contains_key(key));
            let undo = restores_setting(&self.saved(context), key, old, Some(&values));
            if !undo.is_empty() {
                refusal = refusal.hint(format!("`{undo}`"));
            }
        }
        Err(refusal
            .hint("a setting that is wanted belongs into your own configuration: `git config --global`")
            .hint(format!("`aynig workspace snapshot --accept {}` takes all as it is now", context.handle())))
    }

    /// The settings that execute, as they apply to the worktree of a workspace.
    pub(super) fn executing_of(&self, context: &Context) -> Result<Vec<Executing>, Refusal> {
        let mut found = self.watched_of(context)?;
        found.retain(Executing::executes);
        Ok(found)
    }

    /// These, and those that no step may change.
    pub(super) fn watched_of(&self, context: &Context) -> Result<Vec<Executing>, Refusal> {
        let place = Workplace { path: context.worktree_path.clone(), git_dir: self.git_dir_of(context)? };
        // Git takes the settings of no repository for those of one that it cannot find.
        let common = self.repo.common_dir();
        let at = if place.is_sound(common) { &place.git_dir } else { common };
        self.repo.watched_settings(at).map_err(|error| unread(&error))
    }

    /// The settings of other worktrees that no step may change, by the names of their registrations.
    pub(super) fn watched_elsewhere(
        &self,
        context: &Context,
    ) -> Result<BTreeMap<String, Vec<Executing>>, Refusal> {
        Ok(self.repo.watched_elsewhere(&self.git_dir_of(context)?))
    }

    /// Whether git works alike in all worktrees if each gets settings of its own: these two then apply to all.
    pub(super) fn may_enable(&self) -> bool {
        let shared = settings_of(&self.repo.common_dir().join("config"));
        let is_bare = |one: &Executing| {
            one.key == "core.bare"
                && !["", "false", "no", "off", "0"].contains(&one.value.to_ascii_lowercase().as_str())
        };
        !shared.iter().any(|one| one.key == "core.worktree" || is_bare(one))
    }

    /// The private git directory of a workspace. Without one, the one that all worktrees share.
    pub(super) fn git_dir_of(&self, context: &Context) -> Result<PathBuf, Refusal> {
        let its = self.repo.worktrees_of(&context.mark());
        let its = its.map_err(|error| Refusal::because("list worktrees", &error))?;
        Ok(its.first().map_or(self.repo.common_dir(), |one| one.checkout.place.git_dir.as_path()).to_owned())
    }

    /// Takes hooks, settings and refs as they are now for what they are to be.
    pub fn accept(&self, context: &Context) -> Result<Vec<Change>, Refusal> {
        let mut held = self.hold_as_it_is(context)?;
        held.context.settings = digests(&self.executing_of(&held.context)?);
        let (mut changes, _) = self.look_outside(&held.context, false)?;
        changes.retain(|change| change.is_violation);
        let record = self.recorded_now(&held.context)?;
        self.keep_record(&held.context, &record)?;
        self.accept_cut_off(&held.context);
        held.save().map(|()| changes)
    }
}

fn unread(error: &dyn std::error::Error) -> Refusal {
    Refusal::because("read git's settings", error)
}

fn digests(found: &[Executing]) -> BTreeMap<String, String> {
    let mut values: BTreeMap<&str, String> = BTreeMap::new();
    for Executing { key, value, .. } in found {
        let all = values.entry(key).or_default();
        all.push_str(value);
        all.push('\0');
    }
    let digest = |text: &str| Uuid::new_v5(&Uuid::NAMESPACE_OID, text.as_bytes()).to_string();
    values.into_iter().map(|(key, text)| (key.to_owned(), digest(&text))).collect()
}
