//! What is recorded before a step: hooks, rules about files, settings, and refs (CONTRACT 15.15, 20.33).
//!
//! The record is beside the context. Hooks and settings are saved in files that are named by their digests, and
//! written before the record names them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::contract::layout::{HEADS, OURS, REPLACED, RUNS, SLOTS, in_the_way};
use crate::fsutil;

use super::Workspaces;
use super::context::Context;
use super::locked::lock_of;
use super::refusal::Refusal;

/// The version of the format.
const VERSION: u32 = 1;

/// The record's file.
const FILE: &str = "workspace-record.json";

/// The directory of what it names.
const SAVED: &str = "saved";

/// A longer file is no record, and a longer hook is not saved.
pub(super) const MOST_BYTES: u64 = 64 * 1024 * 1024;

/// Stands between the key of a setting and the name of the other worktree that has it.
const ELSEWHERE: &str = " (worktrees/";

/// The most bytes of contents that a process keeps in memory.
const MOST_KEPT: usize = 64 * 1024 * 1024;

/// The most files of a directory of hooks.
pub(super) const MOST_HOOKS: usize = 1_000;

/// The directory of hooks.
pub(super) const HOOKS: &str = "hooks";

/// The directory of the registrations of worktrees.
const WORKTREES: &str = "worktrees";

/// The file with a worktree's own settings.
const WORKTREE_SETTINGS: &str = "config.worktree";

/// Files of the repository that decide which files git takes, and how, and which parents it shows.
pub(super) const RULES: [&str; 3] = ["info/exclude", "info/attributes", "info/grafts"];

/// The file that names what the main checkout is at.
pub(super) const HEAD: &str = "HEAD";

/// A hook, or another file of the repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hook {
    /// The digest of its content, or the target of a link.
    pub(super) content: String,
    /// Its permission bits; `None`: it is a link.
    pub(super) mode: Option<u32>,
}

/// A file of settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OwnFile {
    pub(super) file: Hook,
    /// If it is a link: the target as the link has it, and the file that this leads to.
    pub(super) link: Option<(PathBuf, PathBuf)>,
}

/// Contents by their digests.
type Contents = BTreeMap<String, Vec<u8>>;

/// The values of a setting: files, and the digests of what they have.
pub(super) type Values = Vec<(PathBuf, String)>;

/// Hooks, settings and refs at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    version: u32,
    /// The git directory that its paths are in. Older records do not name it.
    #[serde(default)]
    common_dir: PathBuf,
    /// Hooks and files of rules by their paths.
    pub(super) hooks: BTreeMap<String, Hook>,
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
    /// The repository's own files of settings, and its HEAD; `None`: there was none. No step can change what is in memory
    /// alone.
    #[serde(skip)]
    pub(super) files: BTreeMap<PathBuf, Option<OwnFile>>,
    /// The locks of these files that were there.
    #[serde(skip)]
    pub(super) locks: BTreeSet<PathBuf>,
    /// Hooks and files of rules that a link leads to from the git directory: files of a checkout, or of a person.
    #[serde(skip)]
    pub(super) foreign: BTreeSet<PathBuf>,
    /// Directories with hooks and files that are compared: the target, if it is a link.
    #[serde(skip)]
    pub(super) links: BTreeMap<PathBuf, Option<PathBuf>>,
    /// Refs that a step must not make: those with names of directories of ours, so that no ref of ours can be made there,
    /// and replacements of objects, by which people are shown what is not there.
    #[serde(skip)]
    pub(super) in_the_way: BTreeMap<String, String>,
    /// The contents that this names.
    #[serde(skip)]
    contents: Contents,
}

/// Saves contents while a record is made.
struct Keeper {
    saved: PathBuf,
    contents: RefCell<Contents>,
}

impl Keeper {
    /// Saves a content, and returns its digest. In memory it is what a step is compared with; the file is for people.
    fn save(&self, content: &[u8]) -> String {
        let digest = digest_of(content);
        let file = self.saved.join(&digest);
        if file.symlink_metadata().is_err()
            && let Err(error) = fsutil::replace(&file, content)
        {
            tracing::warn!(%error, "{} could not be written", file.display());
        }
        let mut contents = self.contents.borrow_mut();
        let kept: usize = contents.values().map(Vec::len).sum();
        if kept.saturating_add(content.len()) <= MOST_KEPT {
            contents.entry(digest.clone()).or_insert_with(|| content.to_vec());
        }
        digest
    }
}

impl Record {
    /// A content that this names: from memory, else from the directory of saved contents.
    pub(super) fn content(&self, saved: &Path, digest: &str) -> std::io::Result<Vec<u8>> {
        match self.contents.get(digest) {
            Some(content) => Ok(content.clone()),
            None => content_of(saved, digest),
        }
    }

    /// The record of a repository whose git directory is `common` now: it may have been moved.
    fn now_in(mut self, common: &Path) -> Self {
        let before = std::mem::replace(&mut self.common_dir, common.to_owned());
        if before == common || before.as_os_str().is_empty() {
            return self;
        }
        let at = |path: &Path| {
            path.strip_prefix(&before).map_or_else(|_| path.to_owned(), |rest| common.join(rest))
        };
        let renamed = |name: String| at(Path::new(&name)).to_string_lossy().into_owned();
        self.hooks = self.hooks.into_iter().map(|(name, hook)| (renamed(name), hook)).collect();
        self.settings.values_mut().flatten().for_each(|(file, _)| *file = at(file));
        self
    }

    /// The hooks and settings alone.
    pub(super) fn without_refs(&self) -> Self {
        Self { refs: BTreeMap::new(), contents: Contents::new(), ..self.clone() }
    }

    /// Writes the saved contents that a step removed or changed.
    pub(super) fn save_again(&self, saved: &Path) {
        for (digest, content) in &self.contents {
            if content_of(saved, digest).is_err()
                && let Err(error) = fsutil::replace(&saved.join(digest), content)
            {
                tracing::warn!(%error, "a saved content is lost");
            }
        }
    }
}

impl Workspaces<'_> {
    /// Records hooks, settings and refs as they are now, and saves the contents in the directory of the workspace.
    pub(super) fn recorded_now(&self, context: &Context) -> Result<Record, Refusal> {
        let saved = self.saved(context);
        // A step may have removed the directory of the workspace.
        if self.directory(context).is_dir()
            && let Err(error) = fsutil::create_private_dir_all(&saved)
        {
            tracing::warn!(%error, "{} cannot be made", saved.display());
        }
        let keeper = Keeper { saved, contents: RefCell::default() };
        let save = |content: &[u8]| keeper.save(content);
        for pipe in self.repo.remove_pipes(&RULES) {
            tracing::warn!("{} was a named pipe, and was removed", pipe.display());
        }
        let (hooks, foreign) = self.hooks(&save);
        let mut settings: BTreeMap<String, Values> = BTreeMap::new();
        for one in self.watched_of(context)? {
            let value = save(one.value.as_bytes());
            settings.entry(one.key).or_default().push((one.file, value));
        }
        let mut worktrees = BTreeSet::new();
        for (name, found) in self.watched_elsewhere(context)? {
            for one in found {
                let value = save(one.value.as_bytes());
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
        let refs: BTreeMap<String, String> = refs.collect();
        let replaces = |name: &String| name.starts_with(REPLACED);
        let mut in_the_way = in_the_way(&refs);
        in_the_way.extend(
            refs.iter().filter(|(name, _)| replaces(name)).map(|(name, id)| (name.clone(), id.clone())),
        );
        let (ours, mut refs): (BTreeMap<String, String>, BTreeMap<String, String>) =
            refs.into_iter().partition(|(name, _)| is_ours(name));
        refs.retain(|name, _| !name.starts_with(OURS) && *name != own && !replaces(name));
        let of_settings = settings.values().flatten().map(|(file, _)| file.clone());
        let files = self.files_of_settings(context)?.into_iter().chain(of_settings).collect::<BTreeSet<_>>();
        let files = files.into_iter().chain([self.repo.common_dir().join(HEAD)]);
        let files = files.map(|path| (own_file(&path, &save), path)).map(|(file, path)| (path, file));
        let mut files: BTreeMap<PathBuf, Option<OwnFile>> = files.collect();
        // A link there leads to a branch, which moves.
        if let Some(Some(head)) = files.get_mut(&self.repo.common_dir().join(HEAD)) {
            head.link = None;
        }
        let locks = files.iter().map(|(path, file)| lock_of(real_of(path, file.as_ref())));
        let locks = locks.filter(|lock| lock.symlink_metadata().is_ok()).collect();
        let links = self.directories();
        Ok(Record {
            version: VERSION,
            common_dir: self.repo.common_dir().to_owned(),
            hooks,
            settings,
            broken: BTreeSet::new(),
            worktrees,
            refs,
            ours,
            files,
            locks,
            foreign,
            links,
            in_the_way,
            contents: keeper.contents.into_inner(),
        })
    }

    /// The record of a workspace; `None` if there is none that can be used.
    pub(super) fn record_of(&self, context: &Context) -> Option<Record> {
        Some(read(&self.directory(context).join(FILE))?.now_in(self.repo.common_dir()))
    }

    /// Writes the record of a workspace.
    pub(super) fn keep_record(&self, context: &Context, record: &Record) -> Result<(), Refusal> {
        let file = self.directory(context).join(FILE);
        fsutil::clear_odd(&file).ok();
        let failed =
            |error: &dyn std::error::Error| Refusal::because(&format!("write {}", file.display()), error);
        let text = serde_json::to_vec(record).map_err(|error| failed(&error))?;
        fsutil::replace(&file, &text).map_err(|error| failed(&error))
    }

    /// The directory of what records name.
    pub(super) fn saved(&self, context: &Context) -> PathBuf {
        self.directory(context).join(SAVED)
    }

    /// The directories in which hooks and files are that are compared, each after the one that it is in.
    fn directories(&self) -> BTreeMap<PathBuf, Option<PathBuf>> {
        let common = self.repo.common_dir();
        let worktrees = common.join(WORKTREES);
        let all = RULES.iter().filter_map(|name| common.join(name).parent().map(Path::to_owned));
        let all = all.chain([common.join(HOOKS), worktrees.clone()]);
        let listed = std::fs::read_dir(&worktrees).into_iter().flatten().flatten();
        let all = all.chain(listed.map(|entry| entry.path()));
        all.map(|path| (std::fs::read_link(&path).ok(), path)).map(|(link, path)| (path, link)).collect()
    }

    /// The files in which the settings of the repository itself are.
    fn files_of_settings(&self, context: &Context) -> Result<Vec<PathBuf>, Refusal> {
        let common = self.repo.common_dir();
        let own = self.git_dir_of(context)?;
        let all = [common.join("config"), common.join(WORKTREE_SETTINGS), own.join(WORKTREE_SETTINGS)];
        let others = std::fs::read_dir(common.join(WORKTREES)).into_iter().flatten().flatten();
        Ok(all.into_iter().chain(others.map(|entry| entry.path().join(WORKTREE_SETTINGS))).collect())
    }

    /// The hooks of the repository and its files of rules, by path, and which of them are outside of the git directory.
    /// Those in a checkout are files like others, unless git is led there by a link.
    fn hooks(&self, save: &dyn Fn(&[u8]) -> String) -> (BTreeMap<String, Hook>, BTreeSet<PathBuf>) {
        let (mut found, mut foreign) = (BTreeMap::new(), BTreeSet::new());
        let common = self.repo.common_dir();
        let inside = common.canonicalize().unwrap_or_else(|_| common.to_owned());
        let is_foreign = |path: &Path| path.canonicalize().is_ok_and(|real| !real.starts_with(&inside));
        let hooks = common.join(HOOKS);
        if is_foreign(&hooks) {
            foreign.insert(hooks.clone());
        }
        let mut ahead = vec![hooks];
        while let Some(directory) = ahead.pop() {
            // Git runs a hook also where it cannot list the directory.
            let listed = fsutil::opened_up(&directory, || std::fs::read_dir(&directory));
            for entry in listed.into_iter().flatten().flatten() {
                let path = entry.path();
                let Ok(metadata) = path.symlink_metadata() else { continue };
                // Git runs no sample.
                if path.extension().is_some_and(|extension| extension == "sample") {
                    continue;
                }
                let hook = if metadata.is_dir() {
                    ahead.push(path);
                    continue;
                } else if metadata.is_symlink() {
                    let target = std::fs::read_link(&path).unwrap_or_default();
                    Hook {
                        content: String::from_utf8_lossy(target.as_os_str().as_bytes()).into(),
                        mode: None,
                    }
                } else if metadata.is_file() && metadata.len() <= MOST_BYTES && found.len() < MOST_HOOKS {
                    file_at(&path, &metadata, save)
                } else {
                    continue;
                };
                found.insert(path.to_string_lossy().into_owned(), hook);
            }
        }
        for path in RULES.map(|name| common.join(name)) {
            // Git follows a link.
            let looked = fsutil::opened_up(path.parent().unwrap_or(&path), || path.metadata());
            let Ok(metadata) = looked else { continue };
            if is_foreign(&path) {
                foreign.insert(path.clone());
            }
            found.insert(path.to_string_lossy().into_owned(), file_at(&path, &metadata, save));
        }
        (found, foreign)
    }

    /// The files without which git does not work in a worktree.
    pub(super) fn vital_of(&self, context: &Context) -> Result<Vec<PathBuf>, Refusal> {
        let (common, own) = (self.repo.common_dir(), self.git_dir_of(context)?);
        let settings = [common.join("config"), common.join(WORKTREE_SETTINGS), own.join(WORKTREE_SETTINGS)];
        Ok(settings.into_iter().chain([common.join(HEAD)]).collect())
    }
}

/// A file, saved. One that cannot be read has no content.
fn file_at(path: &Path, metadata: &std::fs::Metadata, save: &dyn Fn(&[u8]) -> String) -> Hook {
    let is_file = metadata.is_file() && metadata.len() <= MOST_BYTES;
    let content = if is_file { fsutil::read_plain(path).unwrap_or_default() } else { Vec::new() };
    let mode = Some(metadata.permissions().mode() & if is_file { 0o7777 } else { u32::MAX });
    Hook { content: save(&content), mode }
}

/// A file of settings; `None` if there is none.
fn own_file(path: &Path, save: &dyn Fn(&[u8]) -> String) -> Option<OwnFile> {
    let metadata = path.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let link = std::fs::read_link(path).ok().and_then(|target| Some((target, path.canonicalize().ok()?)));
    Some(OwnFile { file: file_at(path, &metadata, save), link })
}

/// The file that git writes to for this one.
pub(super) fn real_of<'a>(path: &'a Path, file: Option<&'a OwnFile>) -> &'a Path {
    file.and_then(|file| file.link.as_ref()).map_or(path, |(_, real)| real)
}

fn digest_of(content: &[u8]) -> String {
    Uuid::new_v5(&Uuid::NAMESPACE_OID, content).to_string()
}

/// Reads a record. `None` if it cannot be used.
fn read(file: &Path) -> Option<Record> {
    let opened = fsutil::open_plain(file).ok()?;
    if opened.metadata().is_ok_and(|found| found.len() > MOST_BYTES) {
        return None;
    }
    parsed(&fsutil::tail_of(&opened, MOST_BYTES).ok()?)
}

/// The record in a text. `None` if it cannot be used.
pub(super) fn parsed(text: &[u8]) -> Option<Record> {
    let record: Record = serde_json::from_slice(text).ok()?;
    (record.version == VERSION).then_some(record)
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

/// Whether a setting that is there now turns on settings of each worktree's own, as `git sparse-checkout` does. Those are
/// compared themselves.
pub(super) fn is_enabling(name: &str, was_there: bool) -> bool {
    name == "extensions.worktreeconfig" && !was_there
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
    let is_it = digest_of(&content) == digest;
    is_it.then_some(content).ok_or_else(|| std::io::Error::other(format!("{digest} was changed")))
}

/// Removes the record in the directory of a workspace.
pub(super) fn forget(directory: &Path) {
    std::fs::remove_file(directory.join(FILE)).ok();
    std::fs::remove_dir_all(directory.join(SAVED)).ok();
}
