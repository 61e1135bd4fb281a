//! What is recorded before a step: hooks, rules about files, settings, and refs (CONTRACT 15.15, 20.33).
//!
//! The record is beside the context. Hooks and settings are saved in files that are named by their digests, and
//! written before the record names them.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::contract::layout::{HEADS, OURS, RUNS, SLOTS};
use crate::fsutil;

use super::Workspaces;
use super::context::Context;
use super::refusal::Refusal;

/// The version of the format.
const VERSION: u32 = 1;

/// The record's file.
const FILE: &str = "workspace-record.json";

/// The directory of what it names.
const SAVED: &str = "saved";

/// A longer file is no record, and a longer hook is not saved.
const MOST_BYTES: u64 = 64 * 1024 * 1024;

/// Stands between the key of a setting and the name of the other worktree that has it.
const ELSEWHERE: &str = " (worktrees/";

/// The most files of a directory of hooks.
const MOST_HOOKS: usize = 1_000;

/// Files of the repository that decide which files git takes, and how.
pub(super) const RULES: [&str; 2] = ["info/exclude", "info/attributes"];

/// Files without which git does not work here.
const VITAL: [&str; 3] = ["config", "config.worktree", "HEAD"];

/// A hook, or another file of the repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hook {
    /// The digest of its content, or the target of a link.
    pub(super) content: String,
    /// Its permission bits; `None`: it is a link.
    pub(super) mode: Option<u32>,
}

/// The values of a setting: files, and the digests of what they have.
pub(super) type Values = Vec<(PathBuf, String)>;

/// Hooks, settings and refs at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    version: u32,
    /// Hooks and files of rules by their paths.
    pub(super) hooks: BTreeMap<String, Hook>,
    /// Files without which git does not work here, by their paths. They are put back only if it does not.
    #[serde(default)]
    pub(super) vital: BTreeMap<String, Hook>,
    /// Settings by their keys.
    pub(super) settings: BTreeMap<String, Values>,
    /// Settings that a step changed and nobody put back or accepted. `settings` has what they were.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) broken: BTreeSet<String>,
    /// The names of the other worktrees that there are, whose settings are in `settings`, too ([`key_elsewhere`]).
    #[serde(default)]
    pub(super) worktrees: BTreeSet<String>,
    /// Refs by their names: commits, or the targets of symbolic refs.
    pub(super) refs: BTreeMap<String, String>,
    /// Refs that only this program moves: ledgers, deferred states of drivers, and other work branches.
    #[serde(skip)]
    pub(super) ours: BTreeMap<String, String>,
}

impl Workspaces<'_> {
    /// Records hooks, settings and refs as they are now, and saves the contents in the directory of the workspace.
    pub(super) fn recorded_now(&self, context: &Context) -> Result<Record, Refusal> {
        let saved = self.saved(context);
        let trying = format!("write in {}", saved.display());
        fsutil::create_private_dir_all(&saved).map_err(|error| Refusal::because(&trying, &error))?;
        let save = |content: &[u8]| {
            let digest = Uuid::new_v5(&Uuid::NAMESPACE_OID, content).to_string();
            let file = saved.join(&digest);
            if file.symlink_metadata().is_ok() {
                return Ok(digest);
            }
            fsutil::replace(&file, content).map(|()| digest)
        };
        for pipe in self.repo.remove_pipes(&RULES) {
            tracing::warn!("{} was a named pipe, and was removed", pipe.display());
        }
        let hooks = self.hooks(&save).map_err(|error| Refusal::because("read the hooks", &error))?;
        let vital = self.vital_of(context)?.into_iter();
        let vital = vital
            .filter_map(|path| Some((path.to_string_lossy().into_owned(), file(&path, &save).transpose()?)));
        let vital = vital.map(|(path, file)| Ok((path, file?))).collect::<std::io::Result<_>>();
        let vital = vital.map_err(|error| Refusal::because("read git's own files", &error))?;
        let mut settings: BTreeMap<String, Values> = BTreeMap::new();
        for one in self.watched_of(context)? {
            let value = save(one.value.as_bytes()).map_err(|error| Refusal::because(&trying, &error))?;
            settings.entry(one.key).or_default().push((one.file, value));
        }
        let mut worktrees = BTreeSet::new();
        for (name, found) in self.watched_elsewhere(context)? {
            for one in found {
                let value = save(one.value.as_bytes()).map_err(|error| Refusal::because(&trying, &error))?;
                settings.entry(key_elsewhere(&one.key, &name)).or_default().push((one.file, value));
            }
            worktrees.insert(name);
        }
        let tips = self.repo.tips("refs/").map_err(|error| Refusal::because("list refs", &error))?;
        let (works, drivers) =
            (format!("{HEADS}{}", self.options.prefix), format!("{SLOTS}{}", self.options.drivers));
        let own = format!("{HEADS}{}", context.branch_name);
        let is_ours = |name: &String| {
            name.starts_with(RUNS) || name.starts_with(&drivers) || (name.starts_with(&works) && *name != own)
        };
        let refs = tips.into_iter().map(|tip| {
            let target = tip.target.map_or_else(|name| format!("ref: {name}"), |commit| commit.to_string());
            (format!("refs/{}", tip.branch), target)
        });
        let (ours, mut refs): (BTreeMap<String, String>, BTreeMap<String, String>) =
            refs.partition(|(name, _)| is_ours(name));
        refs.retain(|name, _| !name.starts_with(OURS) && *name != own);
        Ok(Record {
            version: VERSION,
            hooks,
            vital,
            settings,
            broken: BTreeSet::new(),
            worktrees,
            refs,
            ours,
        })
    }

    /// The record of a workspace; `None` if there is none that can be used.
    pub(super) fn record_of(&self, context: &Context) -> Option<Record> {
        let opened = fsutil::open_plain(&self.directory(context).join(FILE)).ok()?;
        if opened.metadata().is_ok_and(|found| found.len() > MOST_BYTES) {
            return None;
        }
        let record: Record = serde_json::from_slice(&fsutil::tail_of(&opened, MOST_BYTES).ok()?).ok()?;
        (record.version == VERSION).then_some(record)
    }

    /// Writes the record of a workspace.
    pub(super) fn keep_record(&self, context: &Context, record: &Record) -> Result<(), Refusal> {
        let file = self.directory(context).join(FILE);
        let failed =
            |error: &dyn std::error::Error| Refusal::because(&format!("write {}", file.display()), error);
        let text = serde_json::to_vec(record).map_err(|error| failed(&error))?;
        fsutil::replace(&file, &text).map_err(|error| failed(&error))
    }

    /// The directory of what records name.
    pub(super) fn saved(&self, context: &Context) -> PathBuf {
        self.directory(context).join(SAVED)
    }

    /// The hooks of the repository and its files of rules, by path. Those in a checkout are files like others.
    fn hooks(
        &self,
        save: &dyn Fn(&[u8]) -> std::io::Result<String>,
    ) -> std::io::Result<BTreeMap<String, Hook>> {
        let mut found = BTreeMap::new();
        let mut ahead = vec![self.repo.common_dir().join("hooks")];
        while let Some(directory) = ahead.pop() {
            for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
                let path = entry.path();
                let Ok(metadata) = path.symlink_metadata() else { continue };
                // Git runs no sample.
                if path.extension().is_some_and(|extension| extension == "sample") {
                    continue;
                }
                let is_file = metadata.is_file() && metadata.len() <= MOST_BYTES;
                let hook = if metadata.is_dir() {
                    ahead.push(path);
                    continue;
                } else if metadata.is_symlink() {
                    let target = std::fs::read_link(&path)?;
                    Hook {
                        content: String::from_utf8_lossy(target.as_os_str().as_bytes()).into(),
                        mode: None,
                    }
                } else if is_file && found.len() < MOST_HOOKS {
                    let content = save(&fsutil::read_plain(&path)?)?;
                    Hook { content, mode: Some(metadata.permissions().mode() & 0o7777) }
                } else {
                    continue;
                };
                found.insert(path.to_string_lossy().into_owned(), hook);
            }
        }
        for path in RULES.map(|name| self.repo.common_dir().join(name)) {
            found.extend(file(&path, save)?.map(|file| (path.to_string_lossy().into_owned(), file)));
        }
        Ok(found)
    }

    /// The files without which git does not work in a worktree.
    pub(super) fn vital_of(&self, context: &Context) -> Result<Vec<PathBuf>, Refusal> {
        let mut files = VITAL.map(|name| self.repo.common_dir().join(name)).to_vec();
        let own = self.git_dir_of(context)?.join("config.worktree");
        files.extend((!files.contains(&own)).then_some(own));
        Ok(files)
    }
}

/// A file of the repository, saved. Git follows a link.
fn file(path: &Path, save: &dyn Fn(&[u8]) -> std::io::Result<String>) -> std::io::Result<Option<Hook>> {
    let Ok(metadata) = path.metadata() else { return Ok(None) };
    let is_file = metadata.is_file() && metadata.len() <= MOST_BYTES;
    let content = if is_file { fsutil::read_plain(path)? } else { Vec::new() };
    let mode = Some(metadata.permissions().mode() & if is_file { 0o7777 } else { u32::MAX });
    Ok(Some(Hook { content: save(&content)?, mode }))
}

/// The name of a setting of another worktree.
pub(super) fn key_elsewhere(key: &str, worktree: &str) -> String {
    format!("{key}{ELSEWHERE}{worktree})")
}

/// The key in the name of a setting, and the name of the other worktree that has it. No key of git ends in a bracket.
pub(super) fn key_and_worktree(name: &str) -> (&str, Option<&str>) {
    match name.strip_suffix(')').and_then(|name| name.rsplit_once(ELSEWHERE)) {
        Some((key, worktree)) => (key, Some(worktree)),
        None => (name, None),
    }
}

/// The short name of a file of rules; `None`: it is a hook.
pub(super) fn rule_of(path: &str) -> Option<&'static str> {
    RULES.into_iter().find(|name| path.ends_with(&format!("/{name}")))
}

/// The path of what has this digest. A digest that is no plain name leads nowhere.
pub(super) fn saved_at(saved: &Path, digest: &str) -> PathBuf {
    saved.join(digest.replace('/', "_"))
}

/// The saved content with this digest. A step can write to it, so it is compared with its name.
pub(super) fn content_of(saved: &Path, digest: &str) -> std::io::Result<Vec<u8>> {
    let opened = fsutil::open_plain(&saved_at(saved, digest))?;
    let content = fsutil::tail_of(&opened, MOST_BYTES)?;
    let is_it = Uuid::new_v5(&Uuid::NAMESPACE_OID, &content).to_string() == digest;
    is_it.then_some(content).ok_or_else(|| std::io::Error::other(format!("{digest} was changed")))
}

/// Removes the record in the directory of a workspace.
pub(super) fn forget(directory: &Path) {
    std::fs::remove_file(directory.join(FILE)).ok();
    std::fs::remove_dir_all(directory.join(SAVED)).ok();
}
